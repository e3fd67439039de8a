//! The column name PostgreSQL gives to an unnamed expression of a SELECT list (its FigureColname).

use crate::resolve::syntax::name_of;
use sqlparser::ast;

/// How sure PostgreSQL is of a name: a cast's type name gives way to nothing better, a CASE to its
/// ELSE.
#[derive(PartialEq, PartialOrd)]
enum Strength {
    None,
    Weak,
    Strong,
}

/// The name of an output column without alias.
pub fn column_name(expr: &ast::Expr) -> String {
    figure(expr).0
}

fn figure(expr: &ast::Expr) -> (String, Strength) {
    use ast::Expr as E;
    let strong = |name: &str| (name.to_owned(), Strength::Strong);
    match expr {
        E::Identifier(ident) => (name_of(ident).unwrap_or_default(), Strength::Strong),
        E::CompoundIdentifier(parts) => (
            parts
                .last()
                .and_then(|p| name_of(p).ok())
                .unwrap_or_default(),
            Strength::Strong,
        ),
        E::Nested(inner) => figure(inner),
        E::Collate { expr, collation: _ } => figure(expr),
        E::Function(function) => match function.name.0.last() {
            Some(ast::ObjectNamePart::Identifier(ident)) => {
                (name_of(ident).unwrap_or_default(), Strength::Strong)
            }
            Some(ast::ObjectNamePart::Function(_)) | None => (UNNAMED.to_owned(), Strength::None),
        },
        E::Cast {
            kind: _,
            expr,
            data_type,
            format: _,
        } => match figure(expr) {
            (name, Strength::Strong) => (name, Strength::Strong),
            (_, Strength::Weak | Strength::None) => (type_word(data_type), Strength::Weak),
        },
        E::TypedString(ast::TypedString {
            data_type,
            value: _,
            uses_odbc_syntax: _,
        }) => (type_word(data_type), Strength::Weak),
        E::Case {
            case_token: _,
            end_token: _,
            operand: _,
            conditions: _,
            else_result,
        } => match else_result.as_deref().map(figure) {
            Some((name, Strength::Strong)) => (name, Strength::Strong),
            Some((_, Strength::Weak | Strength::None)) | None => {
                ("case".to_owned(), Strength::Weak)
            }
        },
        E::Extract { .. } => strong("extract"),
        E::Ceil { .. } => strong("ceil"),
        E::Floor { .. } => strong("floor"),
        E::Position { .. } => strong("position"),
        E::Substring { .. } => strong("substring"),
        E::Overlay { .. } => strong("overlay"),
        E::Trim { trim_where, .. } => strong(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            Some(ast::TrimWhereField::Both) | None => "btrim",
        }),
        E::AtTimeZone { .. } => strong("timezone"),
        E::Interval(_) => ("interval".to_owned(), Strength::Weak),
        E::Array(_) => strong("array"),
        E::Exists { .. } => strong("exists"),
        E::Tuple(_) => strong("row"),
        E::Value(ast::ValueWithSpan {
            value: ast::Value::Boolean(_),
            span: _,
        }) => ("bool".to_owned(), Strength::Weak),
        E::Subquery(query) => figure_of_query(query),
        E::CompoundFieldAccess { root, access_chain } => figure_of_access(root, access_chain),
        _ => (UNNAMED.to_owned(), Strength::None),
    }
}

/// A field has its name, a subscript that of its array.
fn figure_of_access(root: &ast::Expr, chain: &[ast::AccessExpr]) -> (String, Strength) {
    let field = chain.iter().rev().find_map(|access| match access {
        ast::AccessExpr::Dot(ast::Expr::Identifier(field)) => name_of(field).ok(),
        ast::AccessExpr::Dot(_) | ast::AccessExpr::Subscript(_) => None,
    });
    field.map_or_else(|| figure(root), |field| (field, Strength::Strong))
}

/// A scalar subquery has the name of its only column.
fn figure_of_query(query: &ast::Query) -> (String, Strength) {
    let first = match query.body.as_ref() {
        ast::SetExpr::Select(select) => select.projection.first(),
        _ => None,
    };
    match first {
        Some(ast::SelectItem::UnnamedExpr(expr)) => figure(expr),
        Some(ast::SelectItem::ExprWithAlias { expr: _, alias }) => {
            (name_of(alias).unwrap_or_default(), Strength::Strong)
        }
        _ => (UNNAMED.to_owned(), Strength::None),
    }
}

const UNNAMED: &str = "?column?";

/// pg_type.typname of a type as written.
fn type_word(data_type: &ast::DataType) -> String {
    use ast::DataType as D;
    match data_type {
        D::Bool | D::Boolean => "bool",
        D::SmallInt(_) | D::Int2(_) => "int2",
        D::Int(_) | D::Integer(_) | D::Int4(_) => "int4",
        D::BigInt(_) | D::Int8(_) => "int8",
        D::Numeric(_) | D::Decimal(_) | D::Dec(_) => "numeric",
        D::Real | D::Float4 => "float4",
        D::DoublePrecision | D::Float8 | D::Float(_) => "float8",
        D::Text => "text",
        D::Varchar(_) | D::CharacterVarying(_) | D::CharVarying(_) => "varchar",
        D::Char(_) | D::Character(_) => "bpchar",
        D::Date => "date",
        D::Timestamp(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => {
            "timestamp"
        }
        D::Timestamp(_, ast::TimezoneInfo::WithTimeZone | ast::TimezoneInfo::Tz) => "timestamptz",
        D::Time(_, ast::TimezoneInfo::None | ast::TimezoneInfo::WithoutTimeZone) => "time",
        D::Interval { .. } => "interval",
        D::Uuid => "uuid",
        D::JSON => "json",
        D::JSONB => "jsonb",
        _ => UNNAMED,
    }
    .to_owned()
}
