//! One spelling for what PostgreSQL's grammar lets be written in several.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// The types that drivers name by their schema.
const TYPES: [&str; 14] =
    ["bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "date", "timestamp", "timestamptz", "interval", "uuid"];

/// Turns string constants that hold quotes or backslashes into `E'…'`, which prints exactly, and `pg_catalog.int4` into `int4`.
pub(super) struct Spelling;

impl ast::VisitorMut for Spelling {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<()> {
        let text = match &value.value {
            ast::Value::SingleQuotedString(text) => text,
            ast::Value::DollarQuotedString(ast::DollarQuotedString { value, tag: _ }) => value,
            _ => return ControlFlow::Continue(()),
        };
        value.value =
            if text.contains(['\'', '\\']) { ast::Value::EscapedStringLiteral(text.clone()) } else { ast::Value::SingleQuotedString(text.clone()) };
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Cast { data_type, .. } = expr
            && let Some(plain) = of_catalog(data_type)
        {
            *data_type = plain;
        }
        ControlFlow::Continue(())
    }
}

/// The built-in type behind `pg_catalog.name`; `None` for every other.
fn of_catalog(data_type: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(ast::ObjectName(parts), modifiers) = data_type else { return None };
    let [ast::ObjectNamePart::Identifier(schema), ast::ObjectNamePart::Identifier(name)] = parts.as_slice() else { return None };
    let folded = |part: &ast::Ident| if part.quote_style.is_some() { part.value.clone() } else { part.value.to_ascii_lowercase() };
    let name = TYPES.into_iter().find(|known| *known == folded(name)).filter(|_| folded(schema) == "pg_catalog" && modifiers.is_empty())?;
    Parser::new(&PostgreSqlDialect {}).try_with_sql(name).ok()?.parse_data_type().ok()
}
