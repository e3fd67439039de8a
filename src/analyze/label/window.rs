//! Windows over the rows of one unit.

use super::{Label, Labels, Lineage, inlined_conditions};
use crate::analyze::bounded_rows::{BoundedRows, bound, is_quadratic};
use crate::analyze::cardinality::Cardinalities;
use crate::analyze::inline;
use crate::analyze::interval::Interval;
use crate::analyze::per_unit::{check_aggregate, check_shown, range};
use crate::analyze::row_facts::computed_columns;
use crate::ir::{ColumnId, Expr, Relation, Window, WindowFunction};
use crate::refusal::{Refusal, reason};

impl Labels<'_> {
    /// Windows within one unit: the unit is added to every partition that lacks it.
    pub(super) fn window(
        &mut self,
        input: Relation,
        columns: Vec<(ColumnId, Window)>,
    ) -> Result<(Relation, Label), Refusal> {
        let (input, label) = self.label(input, &[])?;
        let Label::Private(lineage) = label else {
            return Err(Refusal::unsupported(
                reason::UNEXPECTED_FORM,
                "a window over rows of public tables in a query of private rows",
            ));
        };
        let (input, lineage) = if columns.iter().any(|(_, window)| is_quadratic(window)) {
            let BoundedRows {
                relation,
                lineage,
                sunk: _,
            } = bound(input, lineage, &[]);
            (relation, lineage)
        } else {
            (input, lineage)
        };
        let computed = computed_columns(&input);
        let always = inlined_conditions(&input, &computed);
        let mut partitioned = Vec::new();
        let mut columns = columns;
        for (_, window) in &mut columns {
            partition_by_unit(window, &lineage);
        }
        let windows: Vec<&Window> = columns.iter().map(|(_, window)| window).collect();
        let most = Cardinalities::new(self.policy, self.columns, &self.opaque, self.effort)
            .partitions(&input, &windows);
        for ((id, window), most) in columns.into_iter().zip(most) {
            let rows = most.min(lineage.rows_per_unit);
            let range = self.window_range(&window, rows, &computed, &always)?;
            self.opaque.push((id, range));
            partitioned.push((id, window));
        }
        Ok((
            Relation::Window {
                input: Box::new(input),
                columns: partitioned,
            },
            Label::Private(lineage),
        ))
    }

    /// The range of one window call's values, over at most `rows` rows of a partition.
    fn window_range(
        &self,
        window: &Window,
        rows: u64,
        computed: &[(ColumnId, Expr)],
        always: &[Expr],
    ) -> Result<Interval, Refusal> {
        let conditions = always.iter().flat_map(Expr::conjuncts).collect();
        let ranges = self.ranges(computed, conditions);
        Ok(match &window.ranked {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => {
                Interval::new(1.0, rows as f64)
            }
            WindowFunction::Ntile(count) => Interval::new(1.0, *count as f64),
            WindowFunction::PercentRank | WindowFunction::CumeDist => Interval::new(0.0, 1.0),
            WindowFunction::LagLead { value, offset: _ }
            | WindowFunction::NthValue { value, place: _ } => {
                check_shown(&inline(value, computed), self.policy, self.columns)?;
                ranges.of(value)
            }
            WindowFunction::Aggregate(aggregate) => {
                check_aggregate(aggregate, computed, self.policy, self.columns)
                    .map_err(|refusal| refusal.within(|| aggregate.place.0))?;
                // A frame may be empty.
                range(aggregate, (rows, window.frame.is_some()), &ranges)
            }
        })
    }
}

/// Adds the unit to the partition, so that none has rows of two units.
fn partition_by_unit(window: &mut Window, lineage: &Lineage) {
    let is_unit = |e: &Expr| e.as_column().is_some_and(|c| lineage.units.contains(&c));
    if !window.partition.iter().any(is_unit) {
        window
            .partition
            .insert(0, Expr::column(lineage.units[0], lineage.data_type.clone()));
    }
}
