//! The dependencies of a left join's sides that still hold after it.

use super::{Attribute, Cardinalities, Cardinality, Dependency, equated_columns};
use crate::analyze::row_facts::is_apart;
use crate::ir::{ColumnId, Expr, Relation};

impl<'a> Cardinalities<'a> {
    /// Each row of the left side, with the rows that it finds, or with NULLs.
    ///
    /// A dependency of the right side holds for the rows that are found, so whether a row was found
    /// is added to its attributes. ON determines the row that is found only together with *every*
    /// left column that it reads, since these decide whether there is one.
    pub(super) fn left_join(
        &self,
        left: Cardinality<'a>,
        (mut right, side): (Cardinality<'a>, &'a Relation),
        conditions: &[&Expr],
    ) -> Cardinality<'a> {
        let own = side.made_at_any_depth();
        let equated: Vec<(ColumnId, &Expr)> = conditions
            .iter()
            .flat_map(|condition| equated_columns(condition))
            .filter(|(column, other)| {
                is_apart(*column, other, &own) && self.equal_attributes(*column, other).is_some()
            })
            .collect();
        let fixed: Vec<ColumnId> = equated.iter().map(|(column, _)| *column).collect();
        right.note_keys(&fixed);
        let known: Vec<Attribute> = fixed.into_iter().map(Attribute::Column).collect();
        let finds_one = right.determines(&known, &right.rows);
        let decides: Vec<Attribute> = conditions
            .iter()
            .flat_map(|condition| condition.columns())
            .filter(|id| !own.contains(id))
            .map(Attribute::Column)
            .collect();
        let is_plain = conditions
            .iter()
            .all(|condition| self.is_function(condition));
        let is_found = self.unseen();
        for dependency in &mut right.dependencies {
            dependency.by.push(is_found);
        }
        for row in right.rows.clone() {
            right.dependencies.push(Dependency {
                by: vec![row],
                determined: is_found,
            });
            if finds_one && is_plain {
                right.dependencies.push(Dependency {
                    by: decides.clone(),
                    determined: row,
                });
            }
        }
        for count in &mut right.counts {
            count.most = count.most.saturating_add(1);
        }
        right.nullable_keys.clear();
        self.join(left, right)
    }
}
