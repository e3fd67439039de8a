//! Bound parameters: a query with values is a new question, planned as if they had been written
//! into it.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Query;
use crate::refusal::{Refusal, reason};
use crate::visit;

/// A parameter's value: its type as a cast names it, and its canonical text; `None` is NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterValue {
    /// `None`: a constant without a cast.
    pub data_type: Option<ast::DataType>,
    pub text: Option<String>,
}

impl Query {
    /// The query with `$1`, `$2`, … replaced by typed constants.
    ///
    /// # Errors
    /// 42P02 for a parameter without a value.
    pub fn bind(&self, values: &[ParameterValue]) -> Result<Self, Refusal> {
        let mut query = self.0.clone();
        match visit::visit_mut(&mut *query, &mut Binder { values }) {
            ControlFlow::Continue(()) => {
                super::with_room(|| Self::new(query)).map(|bound| bound.written_as(self))
            }
            ControlFlow::Break(name) => Err(Refusal::new(
                reason::UNKNOWN_PARAMETER,
                format!("there is no parameter {name}"),
            )),
        }
    }

    /// Whether the query has parameters.
    pub fn has_parameters(&self) -> bool {
        visit::visit(&*self.0, &mut Finder).is_break()
    }
}

struct Binder<'a> {
    values: &'a [ParameterValue],
}

impl ast::VisitorMut for Binder<'_> {
    type Break = String;

    /// `FETCH FIRST $1 ROWS ONLY` is LIMIT: the parser takes no cast in its place.
    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<String> {
        let is_parameter = |quantity: &ast::Expr| {
            matches!(
                quantity,
                ast::Expr::Value(ast::ValueWithSpan {
                    value: ast::Value::Placeholder(_),
                    span: _
                })
            )
        };
        if let Some(ast::Fetch {
            with_ties: false,
            percent: false,
            quantity: Some(quantity),
        }) = &query.fetch
            && is_parameter(quantity)
            && let ast::LimitClause::LimitOffset {
                limit: limit @ None,
                offset: _,
                limit_by: _,
            } = query
                .limit_clause
                .get_or_insert(ast::LimitClause::LimitOffset {
                    limit: None,
                    offset: None,
                    limit_by: Vec::new(),
                })
        {
            *limit = query.fetch.take().and_then(|fetch| fetch.quantity);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<String> {
        let ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Placeholder(name),
            span: _,
        }) = expr
        else {
            return ControlFlow::Continue(());
        };
        let number = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
        let Some(bound) = number.and_then(|n| self.values.get(n.checked_sub(1)?)) else {
            return ControlFlow::Break(name.clone());
        };
        let value = match &bound.text {
            Some(text) => ast::Value::EscapedStringLiteral(text.clone()),
            None => ast::Value::Null,
        };
        let constant = ast::Expr::Value(value.into());
        *expr = match bound.data_type.clone() {
            Some(data_type) => ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(constant),
                data_type,
                format: None,
            },
            None => constant,
        };
        ControlFlow::Continue(())
    }
}

struct Finder;

impl ast::Visitor for Finder {
    type Break = ();

    fn pre_visit_value(&mut self, value: &ast::ValueWithSpan) -> ControlFlow<()> {
        match value.value {
            ast::Value::Placeholder(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Types that the parser knows no word for, by PostgreSQL's own names. An array's name is an
/// underscore and its element's name.
const NAMED: [(u32, &str); 45] = [
    (18, "char"),
    (19, "name"),
    (24, "regproc"),
    (26, "oid"),
    (28, "xid"),
    (600, "point"),
    (601, "lseg"),
    (602, "path"),
    (603, "box"),
    (604, "polygon"),
    (628, "line"),
    (650, "cidr"),
    (718, "circle"),
    (774, "macaddr8"),
    (790, "money"),
    (829, "macaddr"),
    (869, "inet"),
    (1002, "_char"),
    (1003, "_name"),
    (1028, "_oid"),
    (1042, "bpchar"),
    (1083, "time"),
    (1266, "timetz"),
    (1560, "bit"),
    (1562, "varbit"),
    (2202, "regprocedure"),
    (2205, "regclass"),
    (2206, "regtype"),
    (3614, "tsvector"),
    (3615, "tsquery"),
    (3904, "int4range"),
    (3906, "numrange"),
    (3908, "tsrange"),
    (3910, "tstzrange"),
    (3912, "daterange"),
    (3926, "int8range"),
    (4072, "jsonpath"),
    (4089, "regnamespace"),
    (4191, "regcollation"),
    (4451, "int4multirange"),
    (4532, "nummultirange"),
    (4533, "tsmultirange"),
    (4534, "tstzmultirange"),
    (4535, "datemultirange"),
    (4536, "int8multirange"),
];

/// Arrays by their OID, and the OID of their elements.
const ARRAYS: [(u32, u32); 18] = [
    (199, 114),
    (1000, 16),
    (1001, 17),
    (1005, 21),
    (1007, 23),
    (1009, 25),
    (1014, 1042),
    (1015, 1043),
    (1016, 20),
    (1021, 700),
    (1022, 701),
    (1115, 1114),
    (1182, 1082),
    (1185, 1184),
    (1187, 1186),
    (1231, 1700),
    (2951, 2950),
    (3807, 3802),
];

/// The first OID that is not PostgreSQL's own.
const OIDS_OF_USERS: u32 = 16_384;

/// A parameter's type by its OID, where constants of it can be read; `None` for an enum or a
/// domain, whose constants PostgreSQL reads by what they are compared with.
///
/// # Errors
/// 0A000 for other types, naming the OID.
pub fn parameter_type(oid: u32) -> Result<Option<ast::DataType>, Refusal> {
    if oid >= OIDS_OF_USERS {
        Ok(None)
    } else {
        built_in(oid).map(Some)
    }
}

fn built_in(oid: u32) -> Result<ast::DataType, Refusal> {
    use ast::{DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    Ok(match oid {
        16 => D::Boolean,
        20 => D::BigInt(None),
        21 => D::SmallInt(None),
        23 => D::Integer(None),
        25 => D::Text,
        700 => D::Real,
        701 => D::DoublePrecision,
        1043 => D::CharacterVarying(None),
        1082 => D::Date,
        1114 => D::Timestamp(None, Z::None),
        1184 => D::Timestamp(None, Z::WithTimeZone),
        1186 => D::Interval {
            fields: None,
            precision: None,
        },
        1700 => D::Numeric(N::None),
        2950 => D::Uuid,
        17 => D::Bytea,
        114 => D::JSON,
        3802 => D::JSONB,
        other if let Some((_, element)) = ARRAYS.iter().find(|(oid, _)| *oid == other) => D::Array(
            ast::ArrayElemTypeDef::SquareBracket(Box::new(built_in(*element)?), None),
        ),
        other if let Some((_, name)) = NAMED.iter().find(|(oid, _)| *oid == other) => D::Custom(
            ast::ObjectName::from(vec![
                ast::Ident::new("pg_catalog"),
                ast::Ident::with_quote('"', *name),
            ]),
            Vec::new(),
        ),
        other => {
            return Err(Refusal::new(
                reason::UNSUPPORTED_PARAMETER,
                format!("parameters of the type with OID {other} are not supported"),
            )
            .hint("Cast the parameter in the query, for example $1::text."));
        }
    })
}

/// The OID of a type that parameters may have, by its name in SQL; the inverse of
/// [`parameter_type`]. `unknown` is 0.
///
/// # Errors
/// 0A000 for other types, naming the type.
pub fn parameter_oid(data_type: &ast::DataType) -> Result<u32, Refusal> {
    use ast::{DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    Ok(match data_type {
        D::Bool | D::Boolean => 16,
        D::BigInt(None) | D::Int8(None) => 20,
        D::SmallInt(None) | D::Int2(None) => 21,
        D::Int(None) | D::Integer(None) | D::Int4(None) => 23,
        D::Text => 25,
        D::Real | D::Float4 => 700,
        D::Float(N::Precision(1..=24)) => 700,
        D::DoublePrecision | D::Float8 | D::Float(N::None | N::Precision(25..=53)) => 701,
        D::Varchar(_) | D::CharacterVarying(_) | D::CharVarying(_) => 1043,
        D::Date => 1082,
        D::Timestamp(_, Z::None | Z::WithoutTimeZone) => 1114,
        D::Timestamp(_, Z::WithTimeZone | Z::Tz) => 1184,
        D::Interval { .. } => 1186,
        D::Numeric(_) | D::Decimal(_) | D::Dec(_) => 1700,
        D::Uuid => 2950,
        D::Custom(name, _) if name.to_string().eq_ignore_ascii_case("unknown") => 0,
        other => {
            return Err(Refusal::new(
                reason::UNSUPPORTED_PARAMETER,
                format!("parameters of type {other} are not supported"),
            )
            .hint("Declare the parameter as text and cast it in the query."));
        }
    })
}
