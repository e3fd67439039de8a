//! UNION ALL of private rows: every row keeps the unit that its arm gives it.

use super::{Label, Labels, Lineage, ROWS_MAX, inlined_conditions};
use crate::analyze::inline;
use crate::analyze::interval::Interval;
use crate::analyze::per_unit::check_key;
use crate::analyze::row_facts::computed_columns;
use crate::catalog::Type;
use crate::ir::{ColumnId, ColumnInfo, Expr, Relation};
use crate::refusal::{Refusal, reason};

/// A branch of a UNION, and its columns by position.
type Arm = (Relation, Vec<ColumnId>);

impl Labels<'_> {
    /// UNION ALL: a hidden column carries every arm's unit, whatever columns the arms show.
    ///
    /// # Guarantee
    /// Each row has the unit that its arm gives it, in the last column, never NULL. A unit has at
    /// most as many rows as it has in all arms together.
    pub(super) fn union(
        &mut self,
        columns: Vec<ColumnId>,
        arms: Vec<Arm>,
    ) -> Result<(Relation, Label), Refusal> {
        let mut columns = columns;
        let mut labelled: Vec<Arm> = Vec::new();
        let mut lineages: Vec<Lineage> = Vec::new();
        for arm in arms {
            let (arm, lineage) = self.arm(arm, lineages.first())?;
            labelled.push(arm);
            lineages.push(lineage);
        }
        let Some(first) = lineages.first() else {
            return Err(Refusal::unsupported(
                reason::UNEXPECTED_FORM,
                "UNION of nothing",
            ));
        };
        columns.push(self.hidden_unit(&first.data_type));
        for (at, column) in columns.iter().enumerate() {
            let range = labelled
                .iter()
                .map(|arm| self.arm_range(arm, at))
                .reduce(Interval::hull)
                .unwrap_or(Interval::ALL);
            self.opaque.push((*column, range));
        }
        let lineage = unite(&columns, &labelled, &lineages, first.data_type.clone());
        Ok((
            Relation::Union {
                columns,
                arms: labelled,
            },
            Label::Private(lineage),
        ))
    }

    /// One arm with its unit as the last column. All arms identify the unit by one type, that of
    /// the `first`.
    fn arm(
        &mut self,
        (arm, mut ids): Arm,
        first: Option<&Lineage>,
    ) -> Result<(Arm, Lineage), Refusal> {
        let place = arm.place();
        let (arm, label) = self.label(arm, &[])?;
        let Label::Private(lineage) = label else {
            return Err(Refusal::unsupported(
                reason::UNION_OF_PUBLIC_ROWS,
                "UNION of private and public rows",
            )
            .hint("Aggregate each side separately and combine the results with UNION.")
            .at(place));
        };
        if first.is_some_and(|first| first.data_type != lineage.data_type) {
            let unit = &self.policy.privacy.unit;
            return Err(Refusal::new(
                reason::UNION_UNIT_TYPES,
                format!(
                    "the branches of this UNION identify the {unit} by columns of different types"
                ),
            )
            .at(place));
        }
        let computed = computed_columns(&arm);
        for id in &ids {
            let info = &self.columns[id.0 as usize];
            if info.data_type.is_string() {
                check_key(
                    &inline(&Expr::column(*id, info.data_type.clone()), &computed),
                    self.policy,
                    self.columns,
                )?;
            }
        }
        ids.push(lineage.units[0]);
        Ok(((arm, ids), lineage))
    }

    fn hidden_unit(&mut self, data_type: &Type) -> ColumnId {
        let id = ColumnId(self.columns.len() as u32);
        self.columns.push(ColumnInfo {
            name: self.policy.privacy.unit.clone(),
            data_type: data_type.clone(),
            nullable: false,
            origin: None,
        });
        id
    }

    /// The range of an arm's values of the column at this position.
    fn arm_range(&self, (arm, ids): &Arm, at: usize) -> Interval {
        let computed = computed_columns(arm);
        let always = inlined_conditions(arm, &computed);
        let conditions = always.iter().flat_map(Expr::conjuncts).collect();
        let data_type = self.columns[ids[at].0 as usize].data_type.clone();
        self.ranges(&computed, conditions)
            .of(&Expr::column(ids[at], data_type))
    }
}

/// One unit's rows are those of all arms together. A column is the unit where it is that in every
/// arm.
fn unite(columns: &[ColumnId], arms: &[Arm], lineages: &[Lineage], data_type: Type) -> Lineage {
    let is_unit = |at: usize| {
        arms.iter()
            .zip(lineages)
            .all(|((_, ids), lineage)| lineage.units.contains(&ids[at]))
    };
    Lineage {
        units: (0..columns.len())
            .rev()
            .filter(|at| is_unit(*at))
            .map(|at| columns[at])
            .collect(),
        data_type,
        rows_per_unit: lineages
            .iter()
            .fold(0u64, |sum, l| sum.saturating_add(l.rows_per_unit))
            .min(ROWS_MAX),
        rows_enforced: lineages
            .iter()
            .try_fold(0u64, |sum, l| Some(sum.saturating_add(l.rows_enforced?))),
        is_multiplied: lineages.iter().any(|lineage| lineage.is_multiplied),
        points: Vec::new(),
    }
}
