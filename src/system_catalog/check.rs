//! Checks a catalog statement node by node, and replaces parts by what the client may see.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::classify::{SCHEMAS, is_catalog_relation};
use super::replace::{EXPRESSIONS_ONLY, fold, literal};
use super::{ServerFacts, names};
use crate::parse::{SIGNS, Statement, parse};
use crate::refusal::{Refusal, reason};
use crate::resolve::names::output_name::column_name;
use crate::resolve::outer::allow_list;
use crate::resolve::session_functions::SessionFacts;
use crate::resolve::syntax::{check_select, name_of, names_of, plain_alias};

pub(super) struct Walk<'a> {
    pub(super) facts: &'a ServerFacts,
    /// Whether the statement reads relations and not only functions.
    pub(super) reads_relations: bool,
}

impl ast::VisitorMut for Walk<'_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Refusal> {
        let ast::Query {
            with,
            body,
            order_by: _,
            limit_clause: _,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .any(|table| name_of(&table.alias.name).is_ok_and(|name| is_catalog_relation(&name)))
        {
            return ControlFlow::Break(refuse_unsupported(
                "a WITH query that has the name of a catalog",
            ));
        }
        if !locks.is_empty() {
            return ControlFlow::Break(
                Refusal::new(
                    reason::ROW_LOCKS,
                    "FOR UPDATE and FOR SHARE are not allowed",
                )
                .detail("pgveil answers read-only queries."),
            );
        }
        if for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return ControlFlow::Break(refuse_unsupported("this clause"));
        }
        flow(check_body(body))
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<Refusal> {
        if let Err(refusal) = check_select(select) {
            return ControlFlow::Break(refusal);
        }
        for item in &mut select.projection {
            // A replaced function keeps its column name.
            if let ast::SelectItem::UnnamedExpr(expr) = item
                && matches!(fold(expr, self.facts, self.reads_relations), Ok(Some(_)))
            {
                let alias = ast::Ident::with_quote('"', column_name(expr));
                *item = ast::SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Refusal> {
        flow(check_factor(factor))
    }

    fn post_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<Refusal> {
        flow(narrow(factor, &self.facts.session))
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        flow(check_expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        flow(fold(expr, self.facts, self.reads_relations).map(|folded| {
            if let Some(value) = folded {
                *expr = value;
            }
        }))
    }

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<Refusal> {
        use ast::Value as V;
        match value.value {
            V::Number(..)
            | V::SingleQuotedString(_)
            | V::EscapedStringLiteral(_)
            | V::Boolean(_)
            | V::Null
            | V::Placeholder(_) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(refuse_unsupported("this form of constant")),
        }
    }
}

fn flow(outcome: Result<(), Refusal>) -> ControlFlow<Refusal> {
    outcome.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

fn refuse_unsupported(construct: &str) -> Refusal {
    Refusal::new(
        reason::CATALOG_CONSTRUCT,
        format!("{construct} is not supported over the system catalogs"),
    )
}

fn check_body(body: &ast::SetExpr) -> Result<(), Refusal> {
    match body {
        ast::SetExpr::Select(_) | ast::SetExpr::Query(_) | ast::SetExpr::Values(_) => Ok(()),
        ast::SetExpr::SetOperation {
            left,
            op: _,
            set_quantifier: _,
            right,
        } => {
            check_body(left)?;
            check_body(right)
        }
        ast::SetExpr::Insert(_)
        | ast::SetExpr::Update(_)
        | ast::SetExpr::Delete(_)
        | ast::SetExpr::Merge(_) => Err(Refusal::new(
            reason::READ_ONLY,
            "statements that change data are not allowed",
        )
        .detail("pgveil answers SELECT queries only.")),
        ast::SetExpr::Table(_) => Err(refuse_unsupported("TABLE")),
    }
}

fn check_factor(factor: &ast::TableFactor) -> Result<(), Refusal> {
    match factor {
        ast::TableFactor::Table {
            name,
            alias: _,
            args,
            with_hints,
            version: None,
            with_ordinality: _,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => match args
        {
            Some(ast::TableFunctionArgs {
                args: _,
                settings: None,
            }) => check_row_function(name),
            Some(ast::TableFunctionArgs {
                args: _,
                settings: Some(_),
            }) => Err(refuse_unsupported("SETTINGS")),
            None => check_relation(name),
        },
        ast::TableFactor::Function {
            lateral: _,
            name,
            args: _,
            with_ordinality: _,
            alias: _,
        } => check_row_function(name),
        ast::TableFactor::Derived {
            lateral: _,
            subquery: _,
            alias: _,
            sample: None,
        }
        | ast::TableFactor::UNNEST {
            alias: _,
            array_exprs: _,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: _,
        }
        | ast::TableFactor::NestedJoin {
            table_with_joins: _,
            alias: _,
        } => Ok(()),
        _ => Err(refuse_unsupported("this kind of FROM item")),
    }
}

/// Other names outside PostgreSQL's schemas pass. The shadow reports that they do not exist.
fn check_relation(name: &ast::ObjectName) -> Result<(), Refusal> {
    let names = names_of(name)?;
    let refused = match names.as_slice() {
        [schema, relation] if schema == "pg_catalog" => !is_catalog_relation(relation),
        [relation] => relation.starts_with("pg_") && !is_catalog_relation(relation),
        [_, _] => false,
        _ => {
            return Err(Refusal::new(
                reason::UNSUPPORTED_NAME,
                format!(
                    "cross-database references are not implemented: \"{}\"",
                    names.join(".")
                ),
            ));
        }
    };
    if refused {
        return Err(Refusal::new(
            reason::CATALOG_DENIED,
            format!(
                "permission denied for table {}",
                names.last().map_or("", String::as_str)
            ),
        )
        .detail(
            "Catalogs that describe the schema are available; those that describe the \
                server, its files, sessions and secrets are not.",
        ));
    }
    Ok(())
}

fn check_row_function(name: &ast::ObjectName) -> Result<(), Refusal> {
    check_function(name)?;
    match names_of(name)?.last() {
        Some(function) if EXPRESSIONS_ONLY.contains(&function.as_str()) => {
            Err(denied_function(function))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_function(name: &ast::ObjectName) -> Result<(), Refusal> {
    let names = names_of(name)?;
    let listed = |function: &String| {
        let function = function.as_str();
        names::SYSTEM.binary_search(&function).is_ok()
            || names::ORDINARY.binary_search(&function).is_ok()
    };
    let offered = match names.as_slice() {
        [schema, function] => SCHEMAS.contains(&schema.as_str()) && listed(function),
        [function] => listed(function),
        _ => false,
    };
    if offered {
        return Ok(());
    }
    Err(denied_function(names.last().map_or("", String::as_str)))
}

fn denied_function(name: &str) -> Refusal {
    Refusal::new(
        reason::CATALOG_DENIED,
        format!("permission denied for function {name}"),
    )
    .detail(
        "Queries over the catalogs may call only functions that read the schema or \
                compute with values.",
    )
}

/// Refuses widths in the pattern of `format`, which could need a gigabyte.
fn check_format(name: &ast::ObjectName, args: &ast::FunctionArguments) -> Result<(), Refusal> {
    if names_of(name)?.last().is_none_or(|name| name != "format") {
        return Ok(());
    }
    let pattern = match args {
        ast::FunctionArguments::List(list) => match list.args.first() {
            Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))) => literal(expr),
            Some(_) | None => None,
        },
        ast::FunctionArguments::None | ast::FunctionArguments::Subquery(_) => None,
    };
    let plain = pattern.is_some_and(|pattern| {
        pattern
            .replace("%%", "")
            .split('%')
            .skip(1)
            .all(|piece| piece.starts_with(['s', 'I', 'L']))
    });
    if plain {
        Ok(())
    } else {
        Err(refuse_unsupported(
            "format() with a pattern that is not a constant of %s, %I and %L",
        ))
    }
}

/// Replaces a relation by the part that the client may see, under the same name.
fn narrow(factor: &mut ast::TableFactor, session: &SessionFacts) -> Result<(), Refusal> {
    let (name, alias, is_function) = match factor {
        ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } => (name, alias, false),
        ast::TableFactor::Table {
            name,
            alias,
            args: Some(ast::TableFunctionArgs { args, .. }),
            ..
        } if args.is_empty() => (name, alias, true),
        ast::TableFactor::Function {
            name, alias, args, ..
        } if args.is_empty() => (name, alias, true),
        _ => return Ok(()),
    };
    let names = names_of(name)?;
    let relation = match names.as_slice() {
        [schema, relation] if schema == "pg_catalog" => relation.as_str(),
        [relation] => relation.as_str(),
        _ => return Ok(()),
    };
    if is_function {
        if let Some(fact) = session.by_name(relation) {
            // PostgreSQL gives the only column of a function the function's name.
            let column = alias.as_ref().map_or_else(
                || ast::Ident::with_quote('"', relation),
                |alias| alias.name.clone(),
            );
            *factor = derived_table(
                &format!("SELECT {fact} AS {column}"),
                relation,
                alias.clone(),
            )?;
        }
        return Ok(());
    }
    let text = match names::NARROWED
        .iter()
        .find(|(narrowed, _)| *narrowed == relation)
    {
        Some((_, text)) => (*text).to_owned(),
        None if names::EMPTIED.contains(&relation) => {
            format!("SELECT * FROM pg_catalog.{relation} WHERE false")
        }
        None if relation == "pg_settings" => settings_shown(),
        None => return Ok(()),
    };
    *factor = derived_table(&text, relation, alias.clone())?;
    Ok(())
}

/// A query as a derived table with this alias.
fn derived_table(
    text: &str,
    relation: &str,
    alias: Option<ast::TableAlias>,
) -> Result<ast::TableFactor, Refusal> {
    let statements = parse(text)?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return Err(refuse_unsupported(relation));
    };
    let alias = alias.unwrap_or_else(|| plain_alias(relation));
    Ok(ast::TableFactor::Derived {
        lateral: false,
        subquery: query.0.clone(),
        alias: Some(alias),
        sample: None,
    })
}

fn settings_shown() -> String {
    let list: Vec<String> = names::SETTINGS
        .iter()
        .chain(&names::VERSIONS)
        .map(|name| format!("'{name}'"))
        .collect();
    format!(
        "SELECT * FROM pg_catalog.pg_settings WHERE pg_catalog.lower(name) IN ({})",
        list.join(", ")
    )
}

/// Whether this is an operator with or without a schema, as in OPERATOR(pg_catalog.~). The parser
/// accepts any words there and prints them unchanged.
fn is_operator_name(name: &[String]) -> bool {
    let is_sign = |c: char| SIGNS.contains(c);
    match name {
        [operator] => operator.chars().all(is_sign),
        [schema, operator] => {
            schema
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
                && operator.chars().all(is_sign)
        }
        _ => false,
    }
}

fn check_expr(expr: &ast::Expr) -> Result<(), Refusal> {
    use ast::Expr as E;
    match expr {
        E::Function(ast::Function {
            name,
            uses_odbc_syntax: false,
            parameters: ast::FunctionArguments::None,
            args,
            within_group: _,
            filter: _,
            null_treatment: None,
            over: _,
        }) => {
            check_function(name)?;
            check_format(name, args)
        }
        E::Identifier(_)
        | E::CompoundIdentifier(_)
        | E::CompoundFieldAccess { .. }
        | E::Value(_)
        | E::TypedString(_)
        | E::Interval(_) => Ok(()),
        E::BinaryOp { op, .. }
        | E::AnyOp { compare_op: op, .. }
        | E::AllOp { compare_op: op, .. } => match op {
            ast::BinaryOperator::PGCustomBinaryOperator(name) if is_operator_name(name) => Ok(()),
            op => allow_list::check_binary(op),
        },
        E::Nested(_)
        | E::Cast { format: None, .. }
        | E::AtTimeZone { .. }
        | E::Collate { .. }
        | E::UnaryOp { .. } => Ok(()),
        E::IsNull(_)
        | E::IsNotNull(_)
        | E::IsTrue(_)
        | E::IsNotTrue(_)
        | E::IsFalse(_)
        | E::IsNotFalse(_)
        | E::IsUnknown(_)
        | E::IsNotUnknown(_) => Ok(()),
        E::IsDistinctFrom(..)
        | E::IsNotDistinctFrom(..)
        | E::Between { .. }
        | E::InList { .. }
        | E::InSubquery { .. } => Ok(()),
        E::Like { any: false, .. } | E::ILike { any: false, .. } | E::SimilarTo { .. } => Ok(()),
        E::Case { .. }
        | E::Exists { .. }
        | E::Subquery(_)
        | E::Tuple(_)
        | E::Array(_)
        | E::Wildcard(_)
        | E::QualifiedWildcard(..) => Ok(()),
        E::Extract { .. }
        | E::Ceil { .. }
        | E::Floor { .. }
        | E::Position { .. }
        | E::Substring { .. }
        | E::Trim { .. }
        | E::Overlay { .. } => Ok(()),
        E::GroupingSets(_) | E::Cube(_) | E::Rollup(_) | E::JsonAccess { .. } => Ok(()),
        _ => Err(refuse_unsupported("this form of expression")),
    }
}
