//! The wider plan that is bought in place of a plan: see [`crate::rewrite::widen`].

use super::{Plan, ReleasePlan};
use crate::rewrite::EmittedStatement;

/// A plan that answers the asked one and more, at the same price and with the same noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Widened {
    pub plan: Plan,
    /// The columns that it is grouped by in addition.
    pub columns: Vec<String>,
}

impl Widened {
    /// The wider plan in words, for EXPLAIN.
    pub fn describe(&self) -> String {
        let columns = self.columns.join(" and ");
        format!(
            "Widened: bought for every value of {columns} ({} groups), at the same price; the \
            others are free afterwards",
            self.groups()
        )
    }

    /// The statements that run in place of the plan's own.
    pub fn statements(&self) -> impl Iterator<Item = &EmittedStatement> {
        let releases = self.plan.releases.iter();
        releases.flat_map(ReleasePlan::statements)
    }

    /// How many groups are bought.
    pub fn groups(&self) -> u64 {
        self.plan
            .releases
            .first()
            .map_or(0, ReleasePlan::listed_groups)
    }
}
