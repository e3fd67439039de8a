//! Which key an expression above the cut is. Keys are compared as they are written, name by name
//! and part by part, so that `(a.x + 1)` is the key `x + 1`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::Cut;
use crate::ir::KeyId;
use crate::ir::relation::{ColumnId, key_column};
use crate::refusal::Refusal;
use crate::resolve::Resolver;
use crate::resolve::names::scope::Scope;
use crate::resolve::syntax::{names_of, unnested};
use crate::visit;

impl Cut {
    /// The key that an expression of several parts is. `None`: the outer query computes it from the
    /// keys in it, or its parts are refused in their turn.
    ///
    /// It is resolved only where a key over the same columns may be the same in other words. Even
    /// then the outer query computes the same from keys that cover its columns, but for grouping
    /// sets, where a row may have those keys and lack this one.
    pub(super) fn key_of(
        &self,
        resolver: &Resolver<'_>,
        expr: &ast::Expr,
    ) -> Result<Option<ast::Expr>, Refusal> {
        let mut parts = Parts {
            cut: self,
            whole: expr,
            within: 0,
            columns: BTreeSet::new(),
            keys: BTreeSet::new(),
            is_covered: true,
        };
        if visit::visit(expr, &mut parts).is_break() {
            return Ok(None);
        }
        if let Some(key) = self.key_as_written(expr) {
            return Ok(Some(self.reference(key_column(key))));
        }
        let may_be = |key: &KeyId| {
            let own = self.keys[key.0].expr.free_columns();
            !parts.keys.contains(key)
                && compare(expr, &self.written[key.0], &self.scope) == Match::Unknown
                && own.into_iter().collect::<BTreeSet<_>>() == parts.columns
        };
        let is_computed = self.sets.is_empty() && parts.is_covered;
        if is_computed || !KeyId::all(self.keys.len()).any(|key| may_be(&key)) {
            return Ok(None);
        }
        let expressions = resolver.expressions_given(&self.scope, &self.given);
        Ok(self.key_equal_to(&expressions.value(expr)?))
    }

    fn key_as_written(&self, expr: &ast::Expr) -> Option<KeyId> {
        let is_it = |key: &ast::Expr| compare(expr, key, &self.scope) == Match::Same;
        self.written.iter().position(is_it).map(KeyId)
    }
}

/// The parts of an expression. The walk breaks at a part that is above the cut: a name that is no
/// column of the rows, or a subquery that was not resolved among them.
struct Parts<'c> {
    cut: &'c Cut,
    whole: &'c ast::Expr,
    /// How many parts around are in one that is resolved, or is a key.
    within: usize,
    columns: BTreeSet<ColumnId>,
    /// The keys among its parts.
    keys: BTreeSet<KeyId>,
    /// Whether every column is in a key.
    is_covered: bool,
}

impl Parts<'_> {
    /// The columns of a part that is resolved, or is a key.
    fn known(&mut self, expr: &ast::Expr) -> Option<Vec<ColumnId>> {
        let is_given = |(known, _): &&(*const ast::Expr, _)| *known == std::ptr::from_ref(expr);
        if let Some((_, value)) = self.cut.given.resolved.iter().find(is_given) {
            self.is_covered = false;
            return Some(value.free_columns());
        }
        if std::ptr::eq(expr, self.whole) {
            return None;
        }
        let key = self.cut.key_as_written(expr)?;
        self.keys.insert(key);
        Some(self.cut.keys[key.0].expr.free_columns())
    }
}

impl ast::Visitor for Parts<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        match self.within {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        if self.within > 0 {
            self.within += 1;
        } else if let Some(columns) = self.known(expr) {
            self.columns.extend(columns);
            self.within = 1;
        } else if is_name(expr) {
            let Some(column) = column_named(expr, &self.cut.scope) else {
                return ControlFlow::Break(());
            };
            self.columns.insert(column);
            self.is_covered = false;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.within = self.within.saturating_sub(1);
        ControlFlow::Continue(())
    }
}

/// Whether two expressions over the same rows are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Same,
    Differ,
    /// They are written in forms that may stand for each other.
    Unknown,
}

impl Match {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differ, _) | (_, Self::Differ) => Self::Differ,
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Same, Self::Same) => Self::Same,
        }
    }

    fn of(is_same: bool) -> Self {
        if is_same { Self::Same } else { Self::Differ }
    }
}

fn compare(one: &ast::Expr, other: &ast::Expr, scope: &Scope) -> Match {
    use ast::Expr as E;
    let (one, other) = (unnested(one), unnested(other));
    match (one, other) {
        _ if is_name(one) && is_name(other) => Match::of(
            column_named(one, scope).is_some_and(|id| column_named(other, scope) == Some(id)),
        ),
        (E::Value(one), E::Value(other)) => Match::of(one == other),
        (E::Function(one), E::Function(other)) => compare_calls(one, other, scope),
        (
            E::BinaryOp { left, op, right },
            E::BinaryOp {
                left: left_then,
                op: op_then,
                right: right_then,
            },
        ) => match op == op_then {
            // The right side is the shorter one of a chain.
            true => match compare(right, right_then, scope) {
                Match::Differ => Match::Differ,
                right => right.and(compare(left, left_then, scope)),
            },
            false => Match::Differ,
        },
        (
            E::UnaryOp { op, expr },
            E::UnaryOp {
                op: op_then,
                expr: expr_then,
            },
        ) => Match::of(op == op_then).and(compare(expr, expr_then, scope)),
        (
            E::Cast {
                expr, data_type, ..
            },
            E::Cast {
                expr: expr_then,
                data_type: type_then,
                ..
            },
        ) if data_type == type_then => compare(expr, expr_then, scope),
        _ if one == other => Match::Same,
        _ if std::mem::discriminant(one) == std::mem::discriminant(other) => Match::Unknown,
        _ if is_form(one) || is_form(other) => Match::Unknown,
        _ => Match::Differ,
    }
}

fn compare_calls(one: &ast::Function, other: &ast::Function, scope: &Scope) -> Match {
    if one == other {
        return Match::Same;
    }
    let (Ok(name), Ok(name_then)) = (names_of(&one.name), names_of(&other.name)) else {
        return Match::Unknown;
    };
    if name != name_then {
        return match name.last() == name_then.last() {
            true => Match::Unknown,
            false => Match::Differ,
        };
    }
    match (plain(one), plain(other)) {
        (Some(one), Some(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .fold(Match::Same, |sum, (a, b)| sum.and(compare(a, b, scope))),
        (Some(_), Some(_)) => Match::Differ,
        (None, _) | (_, None) => Match::Unknown,
    }
}

/// The arguments of a call that has nothing else.
fn plain(call: &ast::Function) -> Option<Vec<&ast::Expr>> {
    let ast::FunctionArguments::List(ast::FunctionArgumentList {
        duplicate_treatment: None,
        args,
        clauses,
    }) = &call.args
    else {
        return None;
    };
    let is_plain = clauses.is_empty()
        && call.over.is_none()
        && call.filter.is_none()
        && call.null_treatment.is_none()
        && call.within_group.is_empty();
    is_plain
        .then(|| args.iter().map(plain_argument).collect())
        .flatten()
}

fn plain_argument(argument: &ast::FunctionArg) -> Option<&ast::Expr> {
    match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Forms of PostgreSQL's grammar that stand for operators or calls.
fn is_form(expr: &ast::Expr) -> bool {
    use ast::Expr as E;
    matches!(
        expr,
        E::Between { .. }
            | E::InList { .. }
            | E::AnyOp { .. }
            | E::AllOp { .. }
            | E::Like { .. }
            | E::ILike { .. }
            | E::SimilarTo { .. }
            | E::Substring { .. }
            | E::Trim { .. }
            | E::Position { .. }
            | E::Overlay { .. }
            | E::Extract { .. }
            | E::Ceil { .. }
            | E::Floor { .. }
            | E::AtTimeZone { .. }
            | E::TypedString { .. }
            | E::Cast { .. }
    )
}

fn is_name(expr: &ast::Expr) -> bool {
    matches!(
        expr,
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)
    )
}

/// The column that a name means.
fn column_named(expr: &ast::Expr, scope: &Scope) -> Option<ColumnId> {
    match expr {
        ast::Expr::Identifier(ident) => scope.column(std::slice::from_ref(ident)),
        ast::Expr::CompoundIdentifier(parts) => scope.column(parts),
        _ => None,
    }
}
