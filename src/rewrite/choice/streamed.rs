//! The rows of a choice, for [`RowStream`](crate::rewrite::RowStream): the unit, the keys and the
//! value.

use sqlparser::ast;

use super::candidates::Candidates;
use super::{ChoiceQuery, Degree, RowLimit, RowsLook, Subject};
use crate::analyze::AnalyzedRelease;
use crate::catalog::Type;
use crate::ir::Distinct;
use crate::refusal::Refusal;
use crate::rewrite::emit::sql;
use crate::rewrite::stream::{
    Cell, CellReading, Column, Fold, FoldResult, group_column, unit_column,
};
use crate::rewrite::vector::base_rows::BaseRows;

/// The sum of a unit's rows of one value, as eight bytes hold it.
const ROWS_MAX: u64 = 1 << 62;

impl ChoiceQuery {
    /// The rows, and the fold that makes of them what [`Self::statement`] returns. `None` where
    /// that needs no window, and where a column has no form in which equal values are equal bytes.
    ///
    /// # Guarantee
    /// As that of [`Self::statement`].
    ///
    /// # Errors
    /// As [`Self::statement`].
    pub fn stream(
        &self,
        (limit, look): (RowLimit, Option<&RowsLook>),
        release: &AnalyzedRelease,
        base_rows: impl FnOnce() -> Result<BaseRows, Refusal>,
    ) -> Result<Option<(ast::Query, Fold)>, Refusal> {
        let result = self.result_of_fold((limit, look), release);
        let is_simple = !release.one_row_per_unit && release.sets.is_empty();
        let Some(result) = result.filter(|_| is_simple) else {
            return Ok(None);
        };
        let base_rows = base_rows()?;
        let rows = self.rows(release, &base_rows)?;
        let types = release.keys.iter().map(|(key, _)| &key.data_type);
        let keys = base_rows.keys.iter().zip(types);
        let keys = keys.map(|(key, of)| group_column(key, of));
        let is_number = self.is_chosen_from_a_grid();
        let values = rows.values.iter().zip(&rows.types);
        let values = values.map(|(value, of)| match is_number {
            true => Some((sql::cast(value.clone(), &Type::Int8), Column::Integer)),
            false => group_column(value, of),
        });
        let groups: Option<Vec<_>> = keys.chain(values).collect();
        let unit = unit_column(&base_rows.unit, &release.lineage.data_type);
        let (Some(groups), Some(unit)) = (groups, unit) else {
            return Ok(None);
        };
        let cell = Cell {
            reading: CellReading::EveryRow,
            most: ROWS_MAX,
        };
        let fold = Fold {
            groups: groups.iter().map(|(_, column)| *column).collect(),
            cells: match result {
                FoldResult::Distinct { .. } => Vec::new(),
                FoldResult::RowBins { .. } | FoldResult::Bins { .. } => vec![cell],
            },
            result,
        };
        let mut projection = vec![sql::alias(unit, "u")];
        let columns = groups.into_iter().map(|(column, _)| column).enumerate();
        projection.extend(columns.map(|(at, column)| sql::alias(column, &format!("k{at}"))));
        let from = vec![base_rows.from.clone()];
        let query = sql::select(projection, from, rows.condition, Vec::new());
        Ok(Some((query, fold)))
    }

    fn is_chosen_from_a_grid(&self) -> bool {
        match &self.subject {
            Subject::Value {
                value: _,
                candidates,
            } => matches!(candidates, Candidates::Grid(_)),
            Subject::Distinct { .. } => false,
        }
    }

    fn result_of_fold(
        &self,
        (limit, look): (RowLimit, Option<&RowsLook>),
        release: &AnalyzedRelease,
    ) -> Option<FoldResult> {
        let keys = release.keys.len();
        match &self.subject {
            Subject::Distinct {
                values,
                per_unit_max: _,
                degree: Degree::Count,
            } => {
                let limits = self.pair_limits(release);
                Some(FoldResult::Distinct {
                    keys,
                    in_all: limits.in_all,
                    in_group: limits.in_group,
                    skips_null: matches!(values, Distinct::Value(_)),
                })
            }
            Subject::Distinct { .. } => None,
            Subject::Value { .. } => {
                let by_group = match limit {
                    RowLimit::One => return None,
                    RowLimit::Sum(_) => false,
                    RowLimit::RootOfSquares(_) => true,
                };
                look.map(|look| FoldResult::RowBins {
                    keys,
                    by_group,
                    thresholds: look.bins.thresholds(),
                })
            }
        }
    }
}
