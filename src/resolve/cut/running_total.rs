//! `pgveil.stderr(sum(count(*)) OVER (ORDER BY day))` and the like: the error of a running total,
//! which is that of the sum of its groups' noise. Groups may share noise.

use sqlparser::ast;

use super::Cut;
use crate::ir::{Formula, KeyId, Uncertainty};
use crate::parse::FunctionCall;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::outer::uncertainty::statistic_of;
use crate::resolve::syntax::{aggregate_name, names_of};

impl Cut {
    /// The uncertainty of a running total that a call asks for; `None` for other expressions.
    ///
    /// # Errors
    /// 0A000 where the total is not over the groups of one SELECT by its keys.
    pub(super) fn uncertainty_of_running_total(
        &mut self,
        resolver: &Resolver<'_>,
        expr: &ast::Expr,
    ) -> Result<Option<Uncertainty>, Refusal> {
        let Some((statistic, argument)) = statistic_of(expr) else {
            return Ok(None);
        };
        let Some((aggregate, window)) = windowed_sum(argument) else {
            return Ok(None);
        };
        let is_of_all_groups = !self.has_having && self.sets.is_empty() && !self.reports.is_read();
        let order = match window.order_by.as_slice() {
            [order] if is_upwards(order) => self.key_at(resolver, &order.expr),
            _ => None,
        };
        let partition = window.partition_by.iter();
        let partition = partition.map(|expr| self.key_at(resolver, expr)).collect();
        let (true, Some(order), Some(partition)) = (is_of_all_groups, order, partition) else {
            return Err(not_of_keys());
        };
        let formula = Formula::RunningTotal {
            of: self.aggregate(resolver, aggregate)?,
            order,
            partition,
        };
        Ok(Some(Uncertainty { formula, statistic }))
    }

    /// The key that an expression is.
    fn key_at(&self, resolver: &Resolver<'_>, expr: &ast::Expr) -> Option<KeyId> {
        let expressions = resolver.expressions_given(&self.scope, &self.given);
        let value = expressions.value(expr).ok()?;
        self.keys
            .iter()
            .position(|key| key.expr == value)
            .map(KeyId)
    }
}

/// The aggregate and the window of `sum(AGGREGATE) OVER (…)`. Without a frame, a total is over all
/// groups up to its own.
fn windowed_sum(expr: &ast::Expr) -> Option<(&ast::Function, &ast::WindowSpec)> {
    let function = match expr {
        ast::Expr::Nested(inner) => return windowed_sum(inner),
        ast::Expr::Function(function) => function,
        _ => return None,
    };
    let is_sum = names_of(&function.name)
        .is_ok_and(|names| matches!(names.as_slice(), [name] if name == "sum"));
    let call = FunctionCall::of(function).filter(|_| is_sum)?;
    let FunctionCall {
        arguments: _,
        within_group: [],
        filter: None,
        over: Some(ast::WindowType::WindowSpec(window)),
    } = call
    else {
        return None;
    };
    let ast::WindowSpec {
        window_name: None,
        partition_by: _,
        order_by: _,
        window_frame: None,
    } = window
    else {
        return None;
    };
    match call.expressions()?.as_slice() {
        [ast::Expr::Function(of)] if aggregate_name(of).is_some() && of.over.is_none() => {
            Some((of, window))
        }
        _ => None,
    }
}

/// Whether a window orders upwards, as PostgreSQL does where nothing is said.
fn is_upwards(order: &ast::OrderByExpr) -> bool {
    let ast::OrderByExpr {
        expr: _,
        options: ast::OrderByOptions { sort, nulls_first },
        with_fill: None,
    } = order
    else {
        return false;
    };
    matches!(sort, None | Some(ast::OrderBySort::Asc)) && matches!(nulls_first, None | Some(false))
}

fn not_of_keys() -> Refusal {
    Refusal::new(
        reason::UNCERTAINTY_ARGUMENT,
        "the error of a running total is known over the groups of one SELECT by its keys only",
    )
    .detail(
        "The window has ORDER BY one key of GROUP BY, upwards, and may have PARTITION BY other \
            keys. HAVING and GROUPING SETS leave its error unknown.",
    )
    .hint(
        "Write pgveil.stderr(sum(count(*)) OVER (ORDER BY visited_at::date)), with GROUP BY \
            visited_at::date and without HAVING.",
    )
}
