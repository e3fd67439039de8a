//! Row-level expressions: AST → typed [`Expr`]. Whatever is not listed here is refused by name.

pub(in crate::resolve) mod aggregate_call;
mod call;
mod char_padding;
mod common_type;
mod constants;
mod desugar;
mod enums;
mod json_array;
mod operators;
mod pattern;
mod predicates;
mod types;
pub(in crate::resolve) mod window_spec;
mod zone;

pub use call::plain_arguments;
pub use common_type::compare;
use common_type::{merge, of_all, unify, unify_branches};
pub use enums::TypeNames;
pub use pattern::{regex_arcs, regex_of_similar, regex_reach, regex_rereads};
pub use types::{construct, known_type};

use super::names::scope::Scope;
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, is_unknown, number_constant, type_name, unknown_under};
use crate::ir::relation::{ColumnId, ColumnInfo, ConstantId, MiddleColumn};
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::{constant_number, place_of};
pub use constants::Constants;
use sqlparser::ast;
use types::literal;

/// Resolves row-level expressions of one scope.
pub struct ExpressionResolver<'a> {
    pub scope: &'a Scope,
    pub columns: &'a [ColumnInfo],
    pub constants: &'a Constants,
    pub types: TypeNames<'a>,
    /// Parts resolved before, by their place in the text.
    pub given: &'a [(*const ast::Expr, Expr)],
    /// Names of the queries around a subquery, the nearest first.
    pub outer: &'a [Scope],
    /// Constants of middle queries, by number: which they are, and their types.
    pub bound: &'a [(MiddleColumn, Type)],
}

impl ExpressionResolver<'_> {
    /// Resolves a condition: boolean, or an untyped NULL.
    pub fn condition(&self, expr: &ast::Expr, clause: &str) -> Result<Expr, Refusal> {
        let resolved = self.resolve(expr)?;
        let resolved = if is_unknown(&resolved.data_type) {
            coerce(resolved, &Type::Bool)?
        } else {
            resolved
        };
        if resolved.data_type != Type::Bool {
            let given = type_name(&resolved.data_type).to_owned();
            let message = format!("argument of {clause} must be type boolean, not type {given}");
            return Err(Refusal::new(reason::TYPE_MISMATCH, message).at(place_of(expr)));
        }
        Ok(resolved)
    }

    /// Resolves a value; an untyped constant becomes text, as PostgreSQL would have it.
    pub fn value(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        let resolved = self.resolve(expr)?;
        if is_unknown(&resolved.data_type) {
            coerce(resolved, &Type::Text)
        } else {
            Ok(resolved)
        }
    }

    fn resolve(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        self.resolve_node(expr)
            .map_err(|refusal| refusal.within(|| place_of(expr)))
    }

    /// Each of the functions below handles some forms of expression.
    fn resolve_node(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        if let Some((_, given)) = self
            .given
            .iter()
            .find(|(place, _)| std::ptr::eq(*place, expr))
        {
            return Ok(given.clone());
        }
        match expr {
            E::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            E::CompoundIdentifier(parts) => self.column(parts),
            E::Nested(inner) => self.resolve(inner),
            E::Value(value) => match constant_number(&value.value) {
                Some(id) => self.constant(id),
                None => self.literal(&value.value),
            },
            E::TypedString(ast::TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) => self.cast_to(self.literal(&value.value)?, &self.types.find(data_type)?),
            E::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => self.cast_to(self.resolve(expr)?, &self.types.find(data_type)?),
            E::Interval(interval) => self.interval(interval),
            E::UnaryOp { op, expr } => self.unary(*op, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right),
            E::Function(function) => self.function(function),
            E::Subquery(_) | E::Exists { .. } | E::InSubquery { .. } => Err(Refusal::unsupported(
                reason::SUBQUERY_FORM,
                "a subquery in an expression",
            )
            .hint("Join the table in FROM, or write the subquery as a derived table.")),
            other => self.resolve_predicate(other),
        }
    }

    /// Tests, comparisons and CASE.
    fn resolve_predicate(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        match expr {
            E::IsNull(e) => self.test(Function::IsNull, e),
            E::IsNotNull(e) => self.test(Function::IsNotNull, e),
            E::IsTrue(e) => self.truth(Function::IsTrue, e),
            E::IsNotTrue(e) => self.truth(Function::IsNotTrue, e),
            E::IsFalse(e) => self.truth(Function::IsFalse, e),
            E::IsNotFalse(e) => self.truth(Function::IsNotFalse, e),
            E::IsUnknown(e) => self.truth(Function::IsNull, e),
            E::IsNotUnknown(e) => self.truth(Function::IsNotNull, e),
            E::IsDistinctFrom(a, b) => {
                self.compare(Function::IsDistinctFrom, a, b, "IS DISTINCT FROM")
            }
            E::IsNotDistinctFrom(a, b) => {
                self.compare(Function::IsNotDistinctFrom, a, b, "IS NOT DISTINCT FROM")
            }
            E::Between {
                expr,
                negated,
                low,
                high,
            } => self.between(expr, *negated, low, high),
            E::InList {
                expr,
                list,
                negated,
            } => self.in_list(expr, list, *negated),
            E::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            } => self.any_of(left, compare_op, right),
            E::AllOp {
                left,
                compare_op,
                right,
            } => self.all_of(left, compare_op, right),
            E::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => self.case(operand.as_deref(), conditions, else_result.as_deref()),
            other => self.resolve_match(other),
        }
    }

    /// LIKE, ILIKE and SIMILAR TO.
    fn resolve_match(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        match expr {
            E::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                Function::Like,
                expr,
                pattern,
                escape_char.as_deref(),
                *negated,
            ),
            E::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => self.like(
                Function::ILike,
                expr,
                pattern,
                escape_char.as_deref(),
                *negated,
            ),
            E::Like {
                negated: false,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(Function::Like, expr, pattern, false),
            E::ILike {
                negated: false,
                any: true,
                expr,
                pattern,
                escape_char: None,
            } => self.like_any(Function::ILike, expr, pattern, false),
            E::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => self.like(
                Function::SimilarTo,
                expr,
                pattern,
                escape_char.as_deref(),
                *negated,
            ),
            other => self.resolve_grammar(other),
        }
    }

    /// Functions with special syntax.
    fn resolve_grammar(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        match expr {
            E::Extract {
                field,
                syntax: _,
                expr,
            } => self.extract(&field.to_string(), expr),
            E::Ceil {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.call("ceil", vec![self.resolve(expr)?]),
            E::Floor {
                expr,
                field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => self.call("floor", vec![self.resolve(expr)?]),
            E::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            E::AtTimeZone {
                timestamp,
                time_zone,
            } => self.call(
                "timezone",
                vec![self.value(time_zone)?, self.resolve(timestamp)?],
            ),
            other => self.resolve_text_function(other),
        }
    }

    /// Functions of texts with special syntax.
    fn resolve_text_function(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        match expr {
            E::Position { expr, r#in } => {
                self.call("strpos", vec![self.resolve(r#in)?, self.resolve(expr)?])
            }
            E::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand: _,
            } if substring_from.is_some() || substring_for.is_some() => {
                let from = substring_from
                    .as_ref()
                    .map_or_else(|| number_constant("1"), |from| self.resolve(from))?;
                let mut arguments = vec![self.resolve(expr)?, from];
                if let Some(length) = substring_for {
                    arguments.push(self.resolve(length)?);
                }
                self.call("substring", arguments)
            }
            E::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let parts = [expr, overlay_what, overlay_from]
                    .into_iter()
                    .chain(overlay_for);
                self.call(
                    "overlay",
                    parts.map(|e| self.resolve(e)).collect::<Result<_, _>>()?,
                )
            }
            E::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => self.trim(
                trim_where.as_ref(),
                trim_what.as_deref(),
                expr,
                trim_characters.as_deref(),
            ),
            other => Err(Refusal::unsupported(
                reason::UNSUPPORTED_EXPRESSION,
                construct(other),
            )),
        }
    }

    /// Whether a name means one column of this scope, or of a query around it if this scope lacks
    /// the name.
    pub(super) fn column_named(&self, parts: &[ast::Ident]) -> Option<ColumnId> {
        let scopes = match self.scope.lacks(parts) {
            true => self.outer,
            false => std::slice::from_ref(self.scope),
        };
        scopes.iter().find_map(|scope| scope.column(parts))
    }

    fn column(&self, parts: &[ast::Ident]) -> Result<Expr, Refusal> {
        let id = match self.column_named(parts) {
            Some(id) => id,
            None => self.scope.find(parts)?,
        };
        Ok(Expr::column(
            id,
            self.columns[id.0 as usize].data_type.clone(),
        ))
    }

    /// A constant as written; a text without a type stays marked by how the session reads it.
    fn literal(&self, value: &ast::Value) -> Result<Expr, Refusal> {
        let written = literal(value)?;
        Ok(if is_unknown(&written.data_type) {
            Expr {
                data_type: self.unknown(),
                ..written
            }
        } else {
            written
        })
    }

    /// The type of a text that has none yet, in this session.
    fn unknown(&self) -> Type {
        unknown_under(self.constants.is_utc, self.constants.signs_each)
    }

    fn constant(&self, id: ConstantId) -> Result<Expr, Refusal> {
        let (_, data_type) = self.bound.get(id.0 as usize).ok_or_else(|| {
            Refusal::unsupported(reason::UNSUPPORTED_CONSTANT, "this kind of literal")
        })?;
        Ok(Expr {
            node: Node::Constant(id),
            data_type: data_type.clone(),
        })
    }

    fn trim(
        &self,
        side: Option<&ast::TrimWhereField>,
        what: Option<&ast::Expr>,
        expr: &ast::Expr,
        characters: Option<&[ast::Expr]>,
    ) -> Result<Expr, Refusal> {
        let name = match side {
            None | Some(ast::TrimWhereField::Both) => "btrim",
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
        };
        let given = what.into_iter().chain(characters.into_iter().flatten());
        let arguments = std::iter::once(expr)
            .chain(given)
            .map(|e| self.resolve(e))
            .collect::<Result<Vec<_>, _>>()?;
        self.call(name, arguments)
    }

    fn test(&self, function: Function, expr: &ast::Expr) -> Result<Expr, Refusal> {
        Ok(Expr::call(function, vec![self.value(expr)?], Type::Bool))
    }

    fn truth(&self, function: Function, expr: &ast::Expr) -> Result<Expr, Refusal> {
        Ok(Expr::call(
            function,
            vec![self.condition(expr, "IS")?],
            Type::Bool,
        ))
    }
}
