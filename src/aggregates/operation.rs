//! What the stages ask of an aggregate that a query calls: its file answers.

use sqlparser::ast;

use super::unbounded::Facts;
use super::{Bound, Bounds, Calls};
use crate::catalog::Type;
use crate::ir::{Expr, Interval, Operation};
use crate::refusal::Refusal;

impl Operation {
    /// Bounds it: `Unbounded::bound`.
    ///
    /// # Errors
    /// 0A000 where no range is known, or where the aggregate has no sound answer.
    pub fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        self.as_unbounded().bound(bounds)
    }

    /// Its call over the rows of one unit.
    ///
    /// # Errors
    /// The errors of its arguments.
    pub fn sql_within_unit(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        self.as_unbounded().sql(calls)
    }

    /// Where its results lie over the at most `rows` rows of one unit: `Unbounded::range`.
    pub fn range_within_unit(
        &self,
        rows: f64,
        may_be_empty: bool,
        of: &dyn Fn(&Expr) -> Interval,
    ) -> Interval {
        self.as_unbounded().range(rows, may_be_empty, of)
    }

    /// Its facts for the stages.
    pub fn facts(&self) -> Facts<'_> {
        self.as_unbounded().facts()
    }

    /// The one value that it adds up: `Unbounded::adds`.
    pub fn adds(&self) -> Option<(&Expr, bool)> {
        self.as_unbounded().adds()
    }

    /// An aggregate that adds up one value, over another value instead: `Unbounded::over`.
    pub fn over(&self, value: Expr) -> Option<Self> {
        self.as_unbounded().over(value)
    }

    /// The expression that replaces the operation within one unit's rows: `Unbounded::exact`.
    ///
    /// # Errors
    /// 0A000 for forms that have no exact value over one unit's rows; `name` is the call's.
    pub fn exact(&self, name: &str) -> Result<Option<(Self, Option<Type>)>, Refusal> {
        self.as_unbounded().exact(name)
    }
}
