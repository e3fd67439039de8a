//! Levels 2 and 3 of a statement with a clip: the norm of a unit's whole vector, and sums of scaled
//! vectors.

use std::collections::HashMap;
use std::ops::ControlFlow;

use num_bigint::BigUint;
use sqlparser::ast::{self, BinaryOperator as B};

use super::clip::Clip;
use super::clipped_aggregate::ClippedAggregate;
use crate::catalog::Type;
use crate::rewrite::emit::sql;
use crate::rewrite::limits::row_cost;
use crate::visit::visit_expressions;

/// The most nodes of sums that are repeated to compute their norm.
const REPEATED_MAX: usize = 500;

/// The most nodes that are repeated where groups are columns, as they are only while a row of the
/// tables costs little.
const REPEATED_MAX_OF_GROUPS: usize = 120;

/// The most nanoseconds of one row whose sums are repeated.
const ROW_MAX: u64 = 50_000;

/// Whether an expression has a list that is sent with the statement, or a subquery.
fn reads_more(expr: &ast::Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        ast::Expr::Exists { .. } | ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } => {
            ControlFlow::Break(())
        }
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

impl ClippedAggregate<'_> {
    /// Level 2, second half: the norm of the unit's whole vector, over all its groups; NULL where
    /// it is within the clip.
    pub(super) fn add_norm(&self, clip: &Clip, mut groups: ast::Query) -> ast::Query {
        let is_whole = self.release.one_group_per_unit || self.groups().is_empty();
        if is_whole && self.is_run && self.norm_with_sums(clip, &mut groups) {
            return groups;
        }
        let values: Vec<ast::Expr> = (0..self.coordinates.len())
            .map(|i| sql::bare(&format!("v{i}")))
            .collect();
        let own = clip.norm(&values);
        let norm = if is_whole {
            own
        } else {
            sql::over("sum", vec![own], sql::bare("u"), Vec::new())
        };
        let mut projection = self.carry(false, sql::bare);
        projection.push(sql::alias(clip.excess(norm), "n"));
        let level = sql::select(
            projection,
            vec![sql::tables(sql::derived_table(groups, "p"))],
            None,
            Vec::new(),
        );
        // Otherwise PostgreSQL would compute the norm again wherever the next level reads it.
        if is_whole {
            sql::computed_once(level)
        } else {
            level
        }
    }

    /// The norm as one more column of the level that sums by unit, whose columns PostgreSQL
    /// computes once. Citus computes this level and the sums above it in its workers, which a fence
    /// would prevent. False, and nothing is added, where the level does not sum, or where it would
    /// count: the norm repeats the sums, and work is estimated as if they were computed again.
    fn norm_with_sums(&self, clip: &Clip, level: &mut ast::Query) -> bool {
        let is_joined = self.release.lineage.is_multiplied || !self.release.fan_outs.is_empty();
        if is_joined || row_cost::of(level, &HashMap::new()).row > ROW_MAX {
            return false;
        }
        let ast::SetExpr::Select(select) = level.body.as_mut() else {
            return false;
        };
        let sums = matches!(
            &select.group_by,
            ast::GroupByExpr::Expressions(by, _) if !by.is_empty()
        );
        let first = select.projection.len().checked_sub(self.coordinates.len());
        let Some(first) = first.filter(|_| sums) else {
            return false;
        };
        let value = |item: &ast::SelectItem| match item {
            ast::SelectItem::ExprWithAlias { expr, alias: _ } => Some(expr.clone()),
            _ => None,
        };
        let values: Option<Vec<ast::Expr>> = select.projection[first..].iter().map(value).collect();
        let most = if self.listed.is_empty() {
            REPEATED_MAX
        } else {
            REPEATED_MAX_OF_GROUPS
        };
        let is_short =
            |values: &Vec<ast::Expr>| values.iter().map(sql::weight).sum::<usize>() <= most;
        let is_repeatable = |values: &Vec<ast::Expr>| !values.iter().any(reads_more);
        let Some(values) = values.filter(is_short).filter(is_repeatable) else {
            return false;
        };
        let norm = clip.excess(clip.norm(&values));
        select.projection.push(sql::alias(norm, "n"));
        true
    }

    /// Level 3: one factor for the unit's whole vector where its norm is above the clip, in exact
    /// integers; then sums per group.
    pub(super) fn sum_clipped(&self, clip: &Clip, normed: ast::Query) -> ast::Query {
        let groups = self.groups();
        let mut projection: Vec<ast::SelectItem> = groups
            .iter()
            .map(|name| sql::alias(sql::cast(sql::bare(name), &Type::Text), name))
            .collect();
        for (i, refine) in self.refine.iter().enumerate() {
            let refined = BigUint::from(1u8) << *refine;
            let value = || sql::bare(&format!("v{i}"));
            let sum = |of: ast::Expr, rows: ast::Expr| {
                sql::call(
                    "coalesce",
                    vec![
                        sql::aggregate("sum", Some(of), Some(rows)),
                        sql::number_literal("0"),
                    ],
                )
            };
            let whole = sql::binary(
                sum(value(), sql::is_null(sql::bare("n"))),
                B::Multiply,
                sql::number_literal(&refined.to_string()),
            );
            let cut = sum(
                clip.factor(value(), &refined, sql::bare("n")),
                sql::is_not_null(sql::bare("n")),
            );
            projection.push(sql::alias(
                sql::cast(sql::binary(whole, B::Plus, cut), &Type::Text),
                &format!("v{i}"),
            ));
        }
        let keys = groups.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(normed, "s"))],
            None,
            keys,
        )
    }
}
