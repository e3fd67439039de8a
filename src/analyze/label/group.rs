//! GROUP BY within one unit.

use super::{Label, Labels, Lineage, inlined_conditions};
use crate::analyze::cardinality::Cardinalities;
use crate::analyze::per_unit::{check_aggregate, check_key, range};
use crate::analyze::row_facts::computed_columns;
use crate::analyze::{UnitGroups, UnitTotals, inline};
use crate::ir::{Aggregate, ColumnId, Expr, Interval, Relation};
use crate::refusal::Refusal;

impl Labels<'_> {
    /// Groups within one unit: the unit is added to the keys where it is missing, so that no group
    /// holds rows of two units.
    ///
    /// # Guarantee
    /// Each group of private rows belongs to one unit, which is one of its keys. Its keys and
    /// aggregates are functions of the set of that unit's rows: keys have one spelling
    /// ([`check_key`]), and aggregates are exact and show none of several equal values
    /// ([`check_aggregate`]). There are at most `rows_enforced` groups for a unit where the input
    /// has at most that many rows of it.
    pub(super) fn group(
        &mut self,
        input: Relation,
        keys: Vec<ColumnId>,
        aggregates: Vec<(ColumnId, Aggregate)>,
    ) -> Result<(Relation, Label), Refusal> {
        let mut keys = keys;
        let (input, label) = self.label(input, &[])?;
        let Label::Private(lineage) = label else {
            return Ok((
                Relation::Group {
                    input: Box::new(input),
                    keys,
                    aggregates,
                },
                Label::Public,
            ));
        };
        let mut units: Vec<ColumnId> = lineage
            .units
            .iter()
            .copied()
            .filter(|id| keys.contains(id))
            .collect();
        if units.is_empty() {
            units.push(lineage.units[0]);
            keys.insert(0, lineage.units[0]);
        }
        let UnitGroups { groups, rows, .. } =
            Cardinalities::new(self.policy, self.columns, &self.opaque, self.effort)
                .unit_groups(&input, &keys);
        let rows = rows.min(lineage.rows_per_unit);
        self.bound_groups(&input, &keys, &units, &aggregates, rows)?;
        let lineage = group_lineage(lineage, units, &keys, groups);
        Ok((
            Relation::Group {
                input: Box::new(input),
                keys,
                aggregates,
            },
            Label::Private(lineage),
        ))
    }

    /// Checks the keys and aggregates, and notes the range of each aggregate over at most `rows`
    /// rows.
    fn bound_groups(
        &mut self,
        input: &Relation,
        keys: &[ColumnId],
        units: &[ColumnId],
        aggregates: &[(ColumnId, Aggregate)],
        rows: u64,
    ) -> Result<(), Refusal> {
        let computed = computed_columns(input);
        for key in keys.iter().filter(|key| !units.contains(key)) {
            let expr = Expr::column(*key, self.columns[key.0 as usize].data_type.clone());
            check_key(&inline(&expr, &computed), self.policy, self.columns)?;
        }
        let always = inlined_conditions(input, &computed);
        let totals = {
            let rows =
                Cardinalities::new(self.policy, self.columns, &self.opaque, self.effort).of(input);
            UnitTotals::new(input, self.policy, |column| rows.is_read_once(column))
        };
        for (id, aggregate) in aggregates {
            check_aggregate(aggregate, &computed, self.policy, self.columns)
                .map_err(|refusal| refusal.within(|| aggregate.place.0))?;
            let filter = aggregate.filter.as_ref().map(|f| inline(f, &computed));
            let conditions = always
                .iter()
                .chain(&filter)
                .flat_map(Expr::conjuncts)
                .collect();
            let range = range(
                aggregate,
                (rows, false),
                &self.ranges(&computed, conditions),
            );
            // Only SUM has a total: a row that adds zero does not change it.
            let summed = aggregate
                .operation
                .adds()
                .filter(|(_, ignores_zero)| *ignores_zero);
            let total = summed.and_then(|(value, _)| totals.of(&inline(value, &computed)));
            let range = total.map_or(range, |most| range.meet(Interval::new(-most, most)));
            self.opaque.push((*id, range));
        }
        Ok(())
    }
}

/// The lineage of the groups: a unit has one where it is the only key.
fn group_lineage(
    lineage: Lineage,
    units: Vec<ColumnId>,
    keys: &[ColumnId],
    groups: u64,
) -> Lineage {
    let is_one = keys.iter().all(|key| units.contains(key));
    let rows_per_unit = if is_one {
        1
    } else {
        lineage.rows_per_unit.min(groups)
    };
    Lineage {
        units,
        data_type: lineage.data_type,
        rows_per_unit,
        rows_enforced: if is_one {
            Some(1)
        } else {
            lineage.rows_enforced
        },
        is_multiplied: lineage.is_multiplied,
        points: lineage
            .points
            .into_iter()
            .filter(|(id, ..)| keys.contains(id))
            .collect(),
    }
}
