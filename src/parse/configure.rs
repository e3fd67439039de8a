//! `SELECT set_config('TimeZone', 'UTC', false)`: SET as a query, which some drivers send for it.

use sqlparser::ast;

use super::{Query, Scope};

/// One call of `set_config` that is a whole statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configure {
    pub name: String,
    pub value: Given,
    pub scope: Scope,
    /// Name of the one column.
    pub column: String,
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// NULL is the setting's default.
    Constant(Option<String>),
    /// The statement's one parameter.
    Parameter,
}

impl Query {
    /// The call, where the query is nothing but one: `None` for all else, also for a name or a scope that is not a constant.
    pub fn configures(&self) -> Option<Configure> {
        let ast::Query {
            with: None,
            body,
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks,
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators,
        } = &*self.0
        else {
            return None;
        };
        let ast::SetExpr::Select(select) = &**body else { return None };
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ }) = select.projection.first()? else {
            return None;
        };
        let ast::Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) = expr else { return None };
        // Printed again, the call and its column's name are the whole statement.
        let column = match select.projection.first()? {
            ast::SelectItem::ExprWithAlias { expr: _, alias } => Some(alias),
            _ => None,
        };
        let whole = column.map_or_else(|| format!("SELECT {expr}"), |alias| format!("SELECT {expr} AS {alias}"));
        if !locks.is_empty() || !pipe_operators.is_empty() || self.printed_within(whole.len()).is_none_or(|printed| printed != whole) {
            return None;
        }
        if !matches!(name.to_string().to_ascii_lowercase().as_str(), "set_config" | "pg_catalog.set_config") {
            return None;
        }
        let arguments: Vec<&ast::Value> = list.args.iter().map(value).collect::<Option<_>>()?;
        let [setting, given, local] = arguments.as_slice() else { return None };
        if *expr != call(name, list) {
            return None;
        }
        let scope = match local {
            ast::Value::Boolean(true) => Scope::Local,
            ast::Value::Boolean(false) => Scope::Session,
            _ => return None,
        };
        let value = match given {
            ast::Value::Null => Given::Constant(None),
            ast::Value::Placeholder(_) => Given::Parameter,
            other => Given::Constant(Some(text(other)?)),
        };
        let column = column.map_or_else(
            || "set_config".to_owned(),
            |alias| if alias.quote_style.is_some() { alias.value.clone() } else { alias.value.to_ascii_lowercase() },
        );
        Some(Configure { name: text(setting)?, value, scope, column })
    }
}

/// The call with its arguments and nothing else.
fn call(name: &ast::ObjectName, list: &ast::FunctionArgumentList) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args: list.args.clone(), clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A constant, or a parameter; a cast to text around it changes nothing.
fn value(argument: &ast::FunctionArg) -> Option<&ast::Value> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else { return None };
    match expr {
        ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => Some(value),
        ast::Expr::Cast { kind: _, expr, data_type: ast::DataType::Text, format: None } => match &**expr {
            ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn text(value: &ast::Value) -> Option<String> {
    match value {
        ast::Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Configure, Given};
    use crate::parse::{Scope, Statement, parse};

    #[test]
    fn a_call_alone_is_a_set() {
        let read = |sql: &str| match parse(sql).unwrap().as_slice() {
            [Statement::Query(query)] => query.configures(),
            _ => panic!("{sql}"),
        };
        let set = |name: &str, value, scope, column: &str| Some(Configure { name: name.to_owned(), value, scope, column: column.to_owned() });
        let text = |value: &str| Given::Constant(Some(value.to_owned()));
        assert_eq!(read("SELECT set_config('TimeZone', 'UTC', false)"), set("TimeZone", text("UTC"), Scope::Session, "set_config"));
        assert_eq!(read("select pg_catalog.set_config('search_path', '', true) AS X"), set("search_path", text(""), Scope::Local, "x"));
        assert_eq!(read("SELECT set_config('TimeZone', $1, false)"), set("TimeZone", Given::Parameter, Scope::Session, "set_config"));
        assert_eq!(read("SELECT set_config('TimeZone', NULL, false)"), set("TimeZone", Given::Constant(None), Scope::Session, "set_config"));
        for sql in [
            "SELECT set_config('a.b', x, false) FROM t",
            "SELECT set_config('a.b', 'x', false) FROM t",
            "SELECT set_config('a.b', 'x', false), 1",
            "SELECT set_config('a.b', 'x', false) WHERE false",
            "SELECT set_config('a.b', 'x', false) LIMIT 0",
            "SELECT DISTINCT set_config('a.b', 'x', false)",
            "SELECT set_config('a.b', 'x', false) FILTER (WHERE true)",
            "SELECT set_config($1, 'x', false)",
            "SELECT set_config('a.b', 'x')",
            "SELECT other.set_config('a.b', 'x', false)",
            "SELECT set_config('a.b', 'x' || 'y', false)",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
    }
}
