//! `SELECT set_config('TimeZone', 'UTC', false)`: SET as a query, which some drivers send for it.

use sqlparser::ast;

use super::{Query, SettingScope};

/// One call of `set_config` that is a whole statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configure {
    pub name: String,
    pub value: Given,
    pub scope: SettingScope,
    /// Nothing is set, and no row is given, unless there is a setting of this name.
    pub where_known: Option<String>,
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
    /// The call, if the query is a single call; otherwise `None`, also if the name or the scope is
    /// not a constant.
    pub fn configures(&self) -> Option<Configure> {
        let (expr, alias) = self.only_item().or_else(|| self.item_of_settings())?;
        let ast::Expr::Function(ast::Function {
            name,
            args: ast::FunctionArguments::List(list),
            ..
        }) = expr
        else {
            return None;
        };
        if !matches!(
            name.to_string().to_ascii_lowercase().as_str(),
            "set_config" | "pg_catalog.set_config"
        ) {
            return None;
        }
        let arguments: Vec<&ast::Value> = list.args.iter().map(value).collect::<Option<_>>()?;
        let [setting, given, local] = arguments.as_slice() else {
            return None;
        };
        if *expr != call(name, list) {
            return None;
        }
        let scope = match local {
            ast::Value::Boolean(true) => SettingScope::Local,
            ast::Value::Boolean(false) => SettingScope::Session,
            _ => return None,
        };
        let value = match given {
            ast::Value::Null => Given::Constant(None),
            ast::Value::Placeholder(_) => Given::Parameter,
            other => Given::Constant(Some(text(other)?)),
        };
        Some(Configure {
            name: text(setting)?,
            value,
            scope,
            where_known: self.looked_up(),
            column: alias.unwrap_or_else(|| "set_config".to_owned()),
        })
    }

    /// The one expression of a SELECT that has nothing else, and the name that is given to its
    /// column.
    pub(super) fn only_item(&self) -> Option<(&ast::Expr, Option<String>)> {
        self.item_before("")
    }

    /// Like [`Self::only_item`], over one row of the list of settings, as pgAdmin sends it:
    /// `FROM pg_show_all_settings() WHERE name = '…'`.
    fn item_of_settings(&self) -> Option<(&ast::Expr, Option<String>)> {
        let setting = self.looked_up()?;
        self.item_before(&format!(
            " FROM pg_show_all_settings() WHERE name = '{setting}'"
        ))
    }

    /// The setting of `WHERE name = '…'`, of plain letters.
    fn looked_up(&self) -> Option<String> {
        let select = self.0.body.as_select()?;
        match select.selection.as_ref()? {
            ast::Expr::BinaryOp {
                left: _,
                op: ast::BinaryOperator::Eq,
                right,
            } => match &**right {
                ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => text(value)
                    .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')),
                _ => None,
            },
            _ => None,
        }
    }

    /// The one expression of a SELECT that only this text follows. Printed again, the expression
    /// and its column's name are the whole statement.
    fn item_before(&self, rest: &str) -> Option<(&ast::Expr, Option<String>)> {
        let select = self.0.body.as_select()?;
        let [item] = select.projection.as_slice() else {
            return None;
        };
        let (expr, alias) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => return None,
        };
        let item = alias.map_or_else(|| expr.to_string(), |alias| format!("{expr} AS {alias}"));
        let whole = format!("SELECT {item}{rest}");
        if self
            .printed_within(whole.len())
            .is_none_or(|printed| printed != whole)
        {
            return None;
        }
        let name = |alias: &ast::Ident| {
            if alias.quote_style.is_some() {
                alias.value.clone()
            } else {
                alias.value.to_ascii_lowercase()
            }
        };
        Some((expr, alias.map(name)))
    }
}

/// The call with its arguments and nothing else.
pub(super) fn call(name: &ast::ObjectName, list: &ast::FunctionArgumentList) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: list.args.clone(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A constant, or a parameter; a cast to text around it changes nothing.
fn value(argument: &ast::FunctionArg) -> Option<&ast::Value> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else {
        return None;
    };
    match expr {
        ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => Some(value),
        ast::Expr::Cast {
            kind: _,
            expr,
            data_type: ast::DataType::Text,
            format: None,
        } => match &**expr {
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
    use super::super::SettingScope::{Local, Session};
    use super::super::{Statement, parse};
    use super::{Configure, Given};

    #[test]
    fn a_call_alone_is_a_set() {
        let read = |sql: &str| match parse(sql).unwrap().as_slice() {
            [Statement::Query(query)] => query.configures(),
            _ => panic!("{sql}"),
        };
        let set = |name: &str, value, scope, column: &str| {
            Some(Configure {
                name: name.to_owned(),
                value,
                scope,
                where_known: None,
                column: column.to_owned(),
            })
        };
        let text = |value: &str| Given::Constant(Some(value.to_owned()));
        assert_eq!(
            read("SELECT set_config('TimeZone', 'UTC', false)"),
            set("TimeZone", text("UTC"), Session, "set_config")
        );
        assert_eq!(
            read("select pg_catalog.set_config('search_path', '', true) AS X"),
            set("search_path", text(""), Local, "x")
        );
        assert_eq!(
            read("SELECT set_config('TimeZone', $1, false)"),
            set("TimeZone", Given::Parameter, Session, "set_config")
        );
        assert_eq!(
            read("SELECT set_config('TimeZone', NULL, false)"),
            set("TimeZone", Given::Constant(None), Session, "set_config")
        );
        let filtered = read(
            "SELECT set_config('bytea_output','hex',false) FROM pg_show_all_settings() WHERE name \
                = \
                'bytea_output'",
        );
        let wanted = set("bytea_output", text("hex"), Session, "set_config");
        assert_eq!(
            filtered,
            wanted.map(|set| Configure {
                where_known: Some("bytea_output".to_owned()),
                ..set
            })
        );
        for sql in [
            "SELECT set_config('a.b', 'x', false) FROM pg_show_all_settings()",
            "SELECT set_config('a.b', 'x', false) FROM pg_show_all_settings() WHERE setting = 'b'",
            "SELECT set_config('a.b', 'x', false) FROM pg_show_all_settings() WHERE name = 'b' \
                LIMIT 0",
            "SELECT set_config('a.b', 'x', false) FROM t WHERE name = 'b'",
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
