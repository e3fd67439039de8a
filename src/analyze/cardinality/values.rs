//! The number of values of the keys of a step within a unit.

use super::{Attribute, Cardinalities, Count};
use crate::analyze::inline;
use crate::analyze::keys::{constant_branches, derived_domain};
use crate::analyze::range::Ranges;
use crate::analyze::row_facts::{always_true, computed_columns};
use crate::catalog::Type;
use crate::ir::{ColumnId, Expr, Relation};
use crate::policy::Column;

impl Cardinalities<'_> {
    /// How many values the keys of a group have, as far as lists, bounds and conditions say. Bounds
    /// are taken at their word: a unit with values outside them may have more groups.
    pub(super) fn values(&self, input: &Relation, keys: &[ColumnId]) -> Vec<Count> {
        let computed = computed_columns(input);
        let always: Vec<Expr> = always_true(input)
            .iter()
            .map(|condition| inline(condition, &computed))
            .collect();
        if self.effort.spend(1, &always).is_none() {
            return Vec::new();
        }
        let ranges = Ranges {
            policy: self.policy,
            columns: self.columns,
            computed: &computed,
            opaque: self.opaque,
            conditions: always.iter().flat_map(Expr::conjuncts).collect(),
            excluded: Vec::new(),
        };
        let values = |id: &ColumnId| {
            let data_type = self.columns[id.0 as usize].data_type.clone();
            let expr = inline(&Expr::column(*id, data_type.clone()), &computed);
            self.effort.spend(1, [&expr])?;
            let listed = expr.as_column().and_then(|id| self.listed_count(id));
            let known = match data_type {
                Type::Bool => Some(2),
                // Values outside an incomplete list are groups of a step too.
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Date if !self.is_open(&expr) => {
                    let whole = derived_domain::integers(ranges.of(&expr));
                    whole.map(|values| values.end().abs_diff(*values.start()).saturating_add(1))
                }
                _ => None,
            };
            let branches = constant_branches(&expr).map(|values| values.len() as u64);
            // NULL is one more value.
            [listed, known, branches]
                .into_iter()
                .flatten()
                .min()
                .map(|most| most.saturating_add(1))
        };
        let counted = |id: &ColumnId| {
            values(id).map(|most| Count {
                of: vec![Attribute::Column(*id)],
                most,
            })
        };
        keys.iter().filter_map(counted).collect()
    }

    /// Whether an expression reads a column that may have other values than the listed ones.
    fn is_open(&self, expr: &Expr) -> bool {
        let mut columns = expr
            .columns()
            .into_iter()
            .filter_map(|id| self.policy_column(id));
        columns.any(|column| column.domain.is_some() && !column.is_complete)
    }

    /// The number of values that the policy lists for a column, where no others occur.
    fn listed_count(&self, id: ColumnId) -> Option<u64> {
        let column = self.policy_column(id)?;
        let list = column.domain.as_ref().filter(|_| column.is_complete)?;
        Some(list.len() as u64)
    }

    fn policy_column(&self, id: ColumnId) -> Option<&Column> {
        let (table, at) = self.columns[id.0 as usize].origin?;
        Some(&self.policy.tables[table.0].columns[at.0])
    }
}
