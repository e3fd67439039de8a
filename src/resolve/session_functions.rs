//! Facts about the session and its server, such as `pg_backend_pid()` and `version()`, as constants
//! of the statement. The shadow would answer with its own.

use crate::resolve::syntax::names_of;
use sqlparser::ast;

/// What session functions read of the server and of the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The process number of its BackendKeyData.
    pub process: i32,
    pub database: String,
    /// What the backing server's `version()` says.
    pub version: String,
    /// When that started, as a timestamptz in UTC.
    pub started: Option<String>,
}

impl SessionFacts {
    /// The constant that a call stands for; `None` for all others.
    pub(crate) fn fact(&self, function: &ast::Function) -> Option<ast::Expr> {
        let is_bare = match &function.args {
            ast::FunctionArguments::None => true,
            ast::FunctionArguments::List(list) => list.args.is_empty(),
            ast::FunctionArguments::Subquery(_) => false,
        };
        let names = names_of(&function.name).ok()?;
        match names.as_slice() {
            [name] if is_bare => self.by_name(name),
            [schema, name] if is_bare && schema == "pg_catalog" => self.by_name(name),
            _ => None,
        }
    }

    /// The value of a session function, by the function's name alone.
    pub(crate) fn by_name(&self, function: &str) -> Option<ast::Expr> {
        let text = |text: &str| Some(text.to_owned());
        Some(match function {
            "pg_backend_pid" => {
                typed_constant(Some(self.process.to_string()), ast::DataType::Integer(None))
            }
            "version" => typed_constant(text(&self.version), ast::DataType::Text),
            "current_database" | "current_catalog" => {
                typed_constant(text(&self.database), by_name("name"))
            }
            "pg_postmaster_start_time" | "pg_conf_load_time" => typed_constant(
                self.started.clone(),
                ast::DataType::Timestamp(None, ast::TimezoneInfo::WithTimeZone),
            ),
            "pg_is_in_recovery" => typed_constant(text("false"), ast::DataType::Boolean),
            // As of a session through a local socket.
            "inet_server_addr" | "inet_client_addr" => typed_constant(None, by_name("inet")),
            "inet_server_port" | "inet_client_port" => {
                typed_constant(None, ast::DataType::Integer(None))
            }
            // A session that writes nothing has no number.
            "txid_current_if_assigned" => typed_constant(None, ast::DataType::BigInt(None)),
            _ => return None,
        })
    }
}

fn by_name(name: &str) -> ast::DataType {
    ast::DataType::Custom(
        ast::ObjectName::from(vec![ast::Ident::new(name)]),
        Vec::new(),
    )
}

/// A constant of a type; `None` is NULL.
pub(crate) fn typed_constant(value: Option<String>, data_type: ast::DataType) -> ast::Expr {
    let value = match value {
        Some(value) if value.contains(['\'', '\\']) => ast::Value::EscapedStringLiteral(value),
        Some(value) => ast::Value::SingleQuotedString(value),
        None => ast::Value::Null,
    };
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(ast::Expr::Value(value.into())),
        data_type,
        format: None,
    }
}

/// The type of a name, by that name.
pub(crate) fn name(value: &str) -> ast::Expr {
    typed_constant(Some(value.to_owned()), by_name("name"))
}
