//! Plans for unit tests of what reads them. They exist in test builds alone.

use super::ReleasePlan;
use super::digest::ReleaseDigest;
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::GroupingSet;
use crate::rewrite::ReleaseFacts;
use crate::rewrite::limits::row_cost::RowCost;

impl ReleasePlan {
    /// A release with these keys and sets. It has no statement and no price, so that it can be
    /// neither paid nor run.
    pub fn of_keys(keys: Vec<(Type, KeyRule)>, sets: Vec<GroupingSet>) -> Self {
        Self {
            statement: None,
            constants: Vec::new(),
            searches: Vec::new(),
            keys,
            tuples: Vec::new(),
            sets,
            coordinates: Vec::new(),
            refined: true,
            groups_are_columns: false,
            measures: Vec::new(),
            outputs: Vec::new(),
            uncertainties: Vec::new(),
            price: None,
            choices: Vec::new(),
            question: ReleaseDigest::default(),
            lasting: None,
            batch: None,
            family: None,
            relied_on: Vec::new(),
            description: Vec::new(),
            facts: ReleaseFacts::default(),
            collations: Vec::new(),
            no_row: None,
            work: RowCost::default(),
            fan_outs: Vec::new(),
        }
    }
}
