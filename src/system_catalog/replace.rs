//! Replaces functions about the server or the session by the values that the client may see.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{ServerFacts, names};
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::names_of;
use crate::visit;

/// Functions that would reveal the shadow's server or change its session. In expressions they are
/// replaced. In FROM they are refused.
pub(super) const EXPRESSIONS_ONLY: [&str; 5] = [
    "current_setting",
    "pg_database_size",
    "pg_get_userbyid",
    "pg_tablespace_size",
    "set_config",
];

/// The replacement of an expression. `None` if the expression stays.
///
/// # Errors
/// 42501 for settings that are not shown, or that cannot be set by a function.
pub(super) fn fold(
    expr: &ast::Expr,
    facts: &ServerFacts,
    reads_relations: bool,
) -> Result<Option<ast::Expr>, Refusal> {
    let ast::Expr::Function(function) = expr else {
        return Ok(None);
    };
    if let Some(fact) = facts
        .session
        .fact(function)
        .filter(|_| !(reads_relations && is_of_catalogs(function)))
    {
        return Ok(Some(fact));
    }
    let names = names_of(&function.name)?;
    let (Some(name), true) = (
        names.last(),
        names.len() == 1 || names.first().is_some_and(|schema| schema == "pg_catalog"),
    ) else {
        return Ok(None);
    };
    Ok(match (name.as_str(), arguments(function).as_slice()) {
        // A session has one user, which cannot change.
        ("session_user" | "user" | "current_role", [])
            if matches!(function.args, ast::FunctionArguments::None) =>
        {
            Some(current_user(function))
        }
        ("current_setting", [setting]) => current_setting(setting, None, facts)?,
        ("current_setting", [setting, missing]) => current_setting(setting, Some(missing), facts)?,
        ("set_config", [setting, value, _]) => set_config(setting, value)?,
        ("current_setting" | "set_config", _) => {
            return Err(Refusal::new(
                reason::CATALOG_ARGUMENT,
                format!("{name}() does not support these arguments"),
            ));
        }
        ("pg_get_userbyid", [oid]) => Some(role_name(oid)?),
        // These sizes would reveal writes of other users of that server.
        ("pg_database_size" | "pg_tablespace_size", _) => {
            Some(cast_null(ast::DataType::BigInt(None)))
        }
        _ => None,
    })
}

/// Functions whose value must match the catalogs. The catalogs contain the name of the shadow's
/// database, which may differ from the real one.
fn is_of_catalogs(function: &ast::Function) -> bool {
    names_of(&function.name).is_ok_and(|names| {
        names
            .last()
            .is_some_and(|name| ["current_database", "current_catalog"].contains(&name.as_str()))
    })
}

/// The name of a role that the client may see. NULL for other roles.
fn role_name(oid: &ast::Expr) -> Result<ast::Expr, Refusal> {
    let roles = names::ROLES;
    let found = format!(
        "(SELECT pgveil_name FROM (SELECT oid AS pgveil_oid, rolname AS pgveil_name FROM ({roles}) \
            AS pgveil_roles) AS pgveil_seen WHERE pgveil_oid = {oid})"
    );
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&found);
    parser
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|_| {
            Refusal::new(
                reason::CATALOG_ARGUMENT,
                "the argument of pg_get_userbyid() must be a simple value",
            )
        })
}

fn cast_null(data_type: ast::DataType) -> ast::Expr {
    let null = Box::new(ast::Expr::Value(ast::Value::Null.into()));
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: null,
        data_type,
        format: None,
    }
}

fn arguments(function: &ast::Function) -> Vec<&ast::Expr> {
    let ast::FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let argument = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().filter_map(argument).collect()
}

fn text(value: Option<&str>) -> ast::Expr {
    let value = match value {
        Some(value) if value.contains(['\'', '\\']) => {
            ast::Value::EscapedStringLiteral(value.to_owned())
        }
        Some(value) => ast::Value::SingleQuotedString(value.to_owned()),
        None => ast::Value::Null,
    };
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(ast::Expr::Value(value.into())),
        data_type: ast::DataType::Text,
        format: None,
    }
}

fn current_user(function: &ast::Function) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new("current_user")]),
        ..function.clone()
    })
}

pub(super) fn literal(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text),
            span: _,
        }) => Some(text),
        ast::Expr::Nested(inner) => literal(inner),
        ast::Expr::Cast {
            expr,
            data_type:
                ast::DataType::Text
                | ast::DataType::Varchar(None)
                | ast::DataType::CharacterVarying(None),
            ..
        } => literal(expr),
        _ => None,
    }
}

fn current_setting(
    setting: &ast::Expr,
    missing: Option<&ast::Expr>,
    facts: &ServerFacts,
) -> Result<Option<ast::Expr>, Refusal> {
    let Some(name) = literal(setting).map(str::to_ascii_lowercase) else {
        return chosen_setting(setting, facts).map(Some);
    };
    if names::VERSIONS.contains(&name.as_str()) {
        let number = version_number(&facts.server_version).to_string();
        return Ok(Some(text(Some(if name == "server_version" {
            &facts.server_version
        } else {
            &number
        }))));
    }
    if let Some((_, value)) = facts
        .session_settings
        .iter()
        .find(|(known, _)| *known == name)
    {
        return Ok(Some(text(Some(value))));
    }
    if names::SETTINGS.binary_search(&name.as_str()).is_ok() {
        return Ok(None);
    }
    let may_miss = matches!(
        missing,
        Some(ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Boolean(true),
            span: _
        }))
    );
    if may_miss {
        return Ok(Some(text(None)));
    }
    Err(Refusal::new(
        reason::CATALOG_DENIED,
        format!("permission denied to examine \"{name}\""),
    )
    .hint("SHOW lists the settings of your session."))
}

/// The value of a setting whose name comes from a row or a parameter. NULL for a setting that is
/// not shown. The emitted SQL repeats the name expression, so the expression must be stable. It
/// must not contain another such call, since repetitions would multiply with each level.
fn chosen_setting(setting: &ast::Expr, facts: &ServerFacts) -> Result<ast::Expr, Refusal> {
    let refused = || {
        Refusal::new(
            reason::CATALOG_ARGUMENT,
            "the argument of current_setting() must be a simple value",
        )
    };
    let is_refused = |name: &String| matches!(name.as_str(), "clock_timestamp" | "current_setting");
    let holds_refused = visit::visit_expressions(setting, |expr| match expr {
        ast::Expr::Function(function)
            if names_of(&function.name).is_ok_and(|names| names.last().is_some_and(is_refused)) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if holds_refused.is_break() {
        return Err(refused());
    }
    let shown: Vec<String> = names::SETTINGS
        .iter()
        .map(|name| format!("'{name}'"))
        .collect();
    let (version, number) = (
        text(Some(&facts.server_version)),
        version_number(&facts.server_version),
    );
    let case = format!(
        "CASE WHEN pg_catalog.lower({setting}) = 'server_version' THEN {version} WHEN \
            pg_catalog.lower({setting}) = 'server_version_num' THEN '{number}' \
         WHEN pg_catalog.lower({setting}) IN ({}) THEN pg_catalog.current_setting({setting}, true) \
         END",
        shown.join(", ")
    );
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&case);
    parser
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|_| refused())
}

/// asyncpg turns the JIT compiler off around its look-ups. In the shadow it is always off.
fn set_config(setting: &ast::Expr, value: &ast::Expr) -> Result<Option<ast::Expr>, Refusal> {
    match (literal(setting), literal(value)) {
        (Some("jit"), Some(value @ ("on" | "off"))) => Ok(Some(text(Some(value)))),
        _ => Err(Refusal::new(
            reason::CATALOG_ARGUMENT,
            "set_config() cannot be used together with the system catalogs",
        )
        .hint("Use SET.")),
    }
}

/// `15.18` → 150018.
fn version_number(version: &str) -> u32 {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let major = parts.next().unwrap_or(0);
    major
        .saturating_mul(10_000)
        .saturating_add(parts.next().unwrap_or(0))
}
