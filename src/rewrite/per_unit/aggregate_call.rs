//! Calls of aggregates over the rows of one unit.

use sqlparser::ast;

use super::one_spelling;
use super::pairs::PairSums;
use crate::aggregates::Calls;
use crate::catalog::Type;
use crate::ir::{Aggregate, Distinct, Expr, Fractions, PairStatistic};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::guard::internal;
use crate::rewrite::emit::sql;

/// One aggregate over the rows of a group, or of the window `over`.
pub(super) fn aggregate_call(
    aggregate: &Aggregate,
    expressions: &ExpressionEmitter<'_>,
    over: Option<ast::WindowSpec>,
) -> Result<ast::Expr, Refusal> {
    let Aggregate {
        operation,
        filter,
        data_type,
        place: _,
    } = aggregate;
    let filter = filter
        .as_ref()
        .map(|f| expressions.condition(f))
        .transpose()?;
    operation.sql_within_unit(&OverRows {
        expressions,
        filter,
        over,
        data_type,
    })
}

struct OverRows<'e, 'x> {
    expressions: &'e ExpressionEmitter<'x>,
    filter: Option<ast::Expr>,
    over: Option<ast::WindowSpec>,
    data_type: &'e Type,
}

impl OverRows<'_, '_> {
    fn place_call(&self, call: ast::Expr) -> ast::Expr {
        match self.over.clone() {
            Some(spec) => sql::over_window(call, spec),
            None => call,
        }
    }

    fn emit(&self, value: &Expr) -> Result<ast::Expr, Refusal> {
        Ok(self.expressions.emit(value)?.0)
    }

    fn aggregate(&self, name: &str, argument: Option<ast::Expr>) -> ast::Expr {
        sql::aggregate(name, argument, self.filter.clone())
    }
}

impl Calls for OverRows<'_, '_> {
    fn rows(&self) -> ast::Expr {
        self.place_call(self.aggregate("count", None))
    }

    fn present(&self, value: &Expr) -> Result<ast::Expr, Refusal> {
        let value = self.expressions.presence(value)?;
        Ok(self.place_call(self.aggregate("count", Some(value))))
    }

    fn distinct_count(&self, values: &Distinct) -> Result<ast::Expr, Refusal> {
        let value = match values {
            Distinct::Value(value) => self.expressions.presence(value)?,
            Distinct::Row(values) => {
                let presence = |value| self.expressions.presence(value);
                ast::Expr::Tuple(values.iter().map(presence).collect::<Result<_, _>>()?)
            }
        };
        Ok(self.place_call(sql::distinct(self.aggregate("count", Some(value)))))
    }

    fn of(&self, name: &str, value: &Expr) -> Result<ast::Expr, Refusal> {
        let value = self.emit(value)?;
        Ok(self.place_call(self.aggregate(name, Some(value))))
    }

    /// A call with DISTINCT. Equal numerics may have different scales, on which the digits of a
    /// quotient depend: so these are trimmed first.
    fn of_distinct(&self, name: &str, value: &Expr) -> Result<ast::Expr, Refusal> {
        let value = one_spelling(self.emit(value)?, &value.data_type.without_digits());
        Ok(self.place_call(sql::distinct(self.aggregate(name, Some(value)))))
    }

    fn ordered_set(
        &self,
        name: &str,
        fraction: Option<&Fractions>,
        (value, descending): (&Expr, bool),
    ) -> Result<ast::Expr, Refusal> {
        let order = sql::order_term(self.emit(value)?, descending, false);
        let fraction = match fraction.map(Fractions::all) {
            None => None,
            Some([fraction]) => Some(sql::number_literal(&format!(
                "{}.{:06}",
                fraction / 1_000_000,
                fraction % 1_000_000
            ))),
            Some(_) => return Err(internal()),
        };
        Ok(sql::within_group(
            name,
            fraction,
            order,
            self.filter.clone(),
        ))
    }

    fn pairs(&self, y: &Expr, x: &Expr, kind: PairStatistic) -> Result<ast::Expr, Refusal> {
        let value = |e: &Expr| Ok::<_, Refusal>(PairSums::value(self.emit(e)?, e));
        let placed = |call| self.place_call(call);
        Ok(PairSums::new(value(y)?, value(x)?, self.filter.clone(), &placed).statistic(kind))
    }

    fn one_spelling(&self, call: ast::Expr) -> ast::Expr {
        one_spelling(call, self.data_type)
    }
}
