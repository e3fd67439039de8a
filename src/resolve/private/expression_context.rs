//! The context in which an expression over private rows is resolved: the names in sight, and its
//! parts that are resolved before.

use sqlparser::ast;

use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::relation::{ColumnId, ColumnInfo, JoinKind, Relation};
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::Scope;

/// Parts of expressions that are already resolved, keyed by their address in the syntax tree, and
/// what they need from the relation below.
#[derive(Default)]
pub(in crate::resolve) struct ResolvedParts {
    pub(in crate::resolve) resolved: Vec<(*const ast::Expr, Expr)>,
    pub(super) joined: Vec<(Relation, Option<Expr>)>,
    pub(super) computed: Vec<(ColumnId, Expr)>,
}

impl ResolvedParts {
    /// Joins rows of which each row finds at most one.
    pub(in crate::resolve) fn join(&mut self, relation: Relation, on: Option<Expr>) {
        self.joined.push((relation, on));
    }

    /// The relation with the rows of scalar subqueries joined in and the membership tests computed.
    pub(in crate::resolve) fn below(&mut self, relation: Relation) -> Relation {
        let mut relation = relation;
        for (right, on) in self.joined.drain(..) {
            relation = Relation::Join {
                kind: JoinKind::Left,
                left: Box::new(relation),
                right: Box::new(right),
                on,
            };
        }
        if self.computed.is_empty() {
            return relation;
        }
        Relation::Project {
            input: Box::new(relation),
            columns: std::mem::take(&mut self.computed),
        }
    }
}

/// The names in scope of an expression.
#[derive(Clone, Copy)]
pub(in crate::resolve) struct SubqueryPlace<'p> {
    pub(in crate::resolve) scope: &'p Scope,
    /// Scopes of the queries around it, the nearest first.
    pub(in crate::resolve) outer: &'p [Scope],
    pub(in crate::resolve) environment: &'p Environment,
    /// Whether an outer join below may have filled columns with NULL.
    pub(in crate::resolve) is_extended: bool,
}

/// Which subqueries of an expression to resolve.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::resolve) enum WhichSubqueries {
    /// All, as parts of a condition on rows.
    Condition,
    /// All, as columns of the rows.
    Columns,
    /// The subqueries inside aggregate calls, as columns of the rows.
    Arguments,
    /// The subqueries outside aggregate calls, as columns of the groups.
    OutsideAggregates,
}

/// A computed column, which no table holds.
pub(in crate::resolve) fn computed_column(
    name: &str,
    data_type: &Type,
    nullable: bool,
) -> ColumnInfo {
    ColumnInfo {
        name: name.to_owned(),
        data_type: data_type.clone(),
        nullable,
        origin: None,
    }
}

pub(in crate::resolve) fn computing(
    relation: Relation,
    columns: Vec<(ColumnId, Expr)>,
) -> Relation {
    if columns.is_empty() {
        relation
    } else {
        Relation::Project {
            input: Box::new(relation),
            columns,
        }
    }
}
