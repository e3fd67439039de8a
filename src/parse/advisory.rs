//! Advisory locks: `SELECT pg_advisory_lock(42)`, as migration tools and schedulers send it. One
//! call that is a whole statement.

use sqlparser::ast;

use super::{Query, SettingScope};

/// One call of an advisory lock function that is a whole statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advisory {
    pub act: AdvisoryAct,
    pub shared: bool,
    /// Until when a lock is held.
    pub scope: SettingScope,
    /// One number of eight bytes, or two of four; none for [`AdvisoryAct::UnlockAll`].
    pub key: Vec<Number>,
    /// Name of the one column.
    pub column: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvisoryAct {
    Lock,
    TryLock,
    Unlock,
    UnlockAll,
}

/// A number of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    Constant(i64),
    /// `$1` is 0.
    Parameter(usize),
    /// `hashtext('…')`, kept as its text: which number that is does not matter in a session that is
    /// alone with its locks.
    Hash(String),
}

impl Query {
    /// The call, if the query is a single call with constants or parameters.
    pub fn advises(&self) -> Option<Advisory> {
        let (expr, alias) = self.only_item()?;
        let ast::Expr::Function(
            function @ ast::Function {
                name,
                args: ast::FunctionArguments::List(list),
                ..
            },
        ) = expr
        else {
            return None;
        };
        let name = name.to_string().to_ascii_lowercase();
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
        let (act, shared, scope) = kind(name)?;
        if *expr != super::set_config::call(&function.name, list) {
            return None;
        }
        let key: Vec<Number> = list.args.iter().map(number).collect::<Option<_>>()?;
        let numbers = if act == AdvisoryAct::UnlockAll {
            0..=0
        } else {
            1..=2
        };
        let column = alias.unwrap_or_else(|| name.to_owned());
        numbers.contains(&key.len()).then_some(Advisory {
            act,
            shared,
            scope,
            key,
            column,
        })
    }
}

fn kind(name: &str) -> Option<(AdvisoryAct, bool, SettingScope)> {
    if name == "pg_advisory_unlock_all" {
        return Some((AdvisoryAct::UnlockAll, false, SettingScope::Session));
    }
    let (name, shared) = name
        .strip_suffix("_shared")
        .map_or((name, false), |name| (name, true));
    let (act, scope) = match name {
        "pg_advisory_lock" => (AdvisoryAct::Lock, SettingScope::Session),
        "pg_advisory_xact_lock" => (AdvisoryAct::Lock, SettingScope::Local),
        "pg_try_advisory_lock" => (AdvisoryAct::TryLock, SettingScope::Session),
        "pg_try_advisory_xact_lock" => (AdvisoryAct::TryLock, SettingScope::Local),
        "pg_advisory_unlock" => (AdvisoryAct::Unlock, SettingScope::Session),
        _ => return None,
    };
    Some((act, shared, scope))
}

fn number(argument: &ast::FunctionArg) -> Option<Number> {
    match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => number_of(expr),
        _ => None,
    }
}

fn number_of(expr: &ast::Expr) -> Option<Number> {
    use ast::DataType as D;
    match expr {
        ast::Expr::Nested(inner) => number_of(inner),
        ast::Expr::Cast {
            expr,
            data_type:
                D::BigInt(None) | D::Int8(None) | D::Integer(None) | D::Int(None) | D::Int4(None),
            format: None,
            ..
        } => number_of(expr),
        ast::Expr::Value(ast::ValueWithSpan { value, span: _ }) => match value {
            ast::Value::Number(digits, false) | ast::Value::SingleQuotedString(digits) => {
                digits.trim().parse().ok().map(Number::Constant)
            }
            // Two at most: no statement has parameters that are not in it.
            ast::Value::Placeholder(name) => name
                .strip_prefix('$')?
                .parse::<usize>()
                .ok()?
                .checked_sub(1)
                .filter(|at| *at < 2)
                .map(Number::Parameter),
            _ => None,
        },
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => match number_of(expr)? {
            Number::Constant(value) => value.checked_neg().map(Number::Constant),
            Number::Parameter(_) | Number::Hash(_) => None,
        },
        ast::Expr::Function(ast::Function {
            name,
            args: ast::FunctionArguments::List(list),
            ..
        }) => {
            let is_hash = ["hashtext", "pg_catalog.hashtext"]
                .iter()
                .any(|hash| name.to_string().eq_ignore_ascii_case(hash));
            let is_text = matches!(
                list.args.as_slice(),
                [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(
                    ast::Expr::Value(ast::ValueWithSpan {
                        value: ast::Value::SingleQuotedString(_),
                        span: _
                    })
                ))]
            );
            (is_hash && is_text && *expr == super::set_config::call(name, list))
                .then(|| Number::Hash(list.to_string()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SettingScope, Statement, parse};
    use super::{Advisory, AdvisoryAct, Number};

    #[test]
    fn a_call_alone_is_a_lock() {
        let read = |sql: &str| match parse(sql).unwrap().as_slice() {
            [Statement::Query(query)] => query.advises(),
            _ => panic!("{sql}"),
        };
        let lock = |act, shared, scope, key: &[Number], column: &str| {
            Some(Advisory {
                act,
                shared,
                scope,
                key: key.to_vec(),
                column: column.to_owned(),
            })
        };
        let seven = Number::Constant(7);
        assert_eq!(
            read("SELECT pg_advisory_lock(7)"),
            lock(
                AdvisoryAct::Lock,
                false,
                SettingScope::Session,
                std::slice::from_ref(&seven),
                "pg_advisory_lock"
            )
        );
        assert_eq!(
            read("SELECT pg_catalog.PG_TRY_ADVISORY_XACT_LOCK_SHARED($1::int, (-7)) AS \"Got\""),
            lock(
                AdvisoryAct::TryLock,
                true,
                SettingScope::Local,
                &[Number::Parameter(0), Number::Constant(-7)],
                "Got"
            )
        );
        assert_eq!(
            read("SELECT pg_advisory_unlock(hashtext('a'))"),
            lock(
                AdvisoryAct::Unlock,
                false,
                SettingScope::Session,
                &[Number::Hash("'a'".to_owned())],
                "pg_advisory_unlock"
            )
        );
        assert_eq!(
            read("SELECT pg_advisory_unlock_all()"),
            lock(
                AdvisoryAct::UnlockAll,
                false,
                SettingScope::Session,
                &[],
                "pg_advisory_unlock_all"
            )
        );
        for sql in [
            "SELECT pg_advisory_lock()",
            "SELECT pg_advisory_lock(1, 2, 3)",
            "SELECT pg_advisory_lock(1.5)",
            "SELECT pg_advisory_lock(x) FROM t",
            "SELECT pg_advisory_lock(1), 2",
            "SELECT pg_advisory_lock(1) WHERE false",
            "SELECT pg_advisory_lock(1) FILTER (WHERE true)",
            "SELECT pg_advisory_lock(hashtext(x))",
            "SELECT other.pg_advisory_lock(1)",
            "SELECT pg_advisory_xact_unlock(1)",
            "SELECT pg_advisory_unlock_all(1)",
            "SELECT pg_advisory_lock(-'-9223372036854775808')",
        ] {
            assert_eq!(read(sql), None, "{sql}");
        }
    }
}
