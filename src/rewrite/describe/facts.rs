//! The facts in a release's description, as values: EXPLAIN (FORMAT JSON) shows them.

use super::cautions::{cautions, may_cut_rows};
use super::index::index;
use super::{Words, deviation_of, sensitivity};
use crate::analyze::{Analyzed, AnalyzedRelease};
use crate::policy::Policy;
use crate::rewrite::CoordinateId;
use crate::rewrite::ReleasePlan;
use crate::rewrite::plan::facts::{CoordinateFacts, ReleaseFacts};
use crate::rewrite::vector::coordinate::Coordinate;

/// Collects the facts. `is_looked_at`: a look would choose the clips, if the session did not fix
/// them.
pub fn facts(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    policy: &Policy,
    plan: &ReleasePlan,
    is_looked_at: bool,
) -> ReleaseFacts {
    let words = Words { analyzed, policy };
    let unit = release
        .lineage
        .units
        .iter()
        .map(|id| words.column(*id))
        .collect();
    let rows_per_unit = if release.one_row_per_unit {
        1
    } else {
        release.lineage.rows_per_unit
    };
    let in_group = release.unit_groups.iter().map(|of_unit| of_unit.rows).max();
    let rows_in_group = in_group.map_or(rows_per_unit, |rows| rows.clamp(1, rows_per_unit.max(1)));
    let cautions = cautions(release, &words, plan, is_looked_at);
    let index = index(release, analyzed, policy, plan);
    let has_all_rows = !may_cut_rows(release, plan);
    let Some(price) = plan.price() else {
        return ReleaseFacts {
            unit,
            rows_per_unit,
            rows_in_group,
            has_all_rows,
            cautions,
            index,
            ..ReleaseFacts::default()
        };
    };
    let is_chosen = |at: usize| {
        let place = price
            .look
            .as_ref()
            .and_then(|look| look.place(CoordinateId(at)));
        place.is_some_and(|(block, _)| block.bins.has_choice())
    };
    let summed = |(at, (coordinate, calibrated)): (usize, (&Coordinate, _))| CoordinateFacts {
        what: words.coordinate(coordinate),
        bounds: bounds(coordinate),
        standard_deviation: (!is_chosen(at)).then(|| deviation_of(coordinate, calibrated)),
    };
    let sums = plan
        .coordinates()
        .iter()
        .zip(&price.calibrated)
        .enumerate()
        .map(summed)
        .collect();
    ReleaseFacts {
        unit,
        rows_per_unit,
        rows_in_group,
        sensitivity: match &price.look {
            Some(_) => None,
            None => sensitivity(plan, price).parse().ok(),
        },
        sums,
        has_all_rows,
        cautions,
        index,
    }
}

fn bounds(coordinate: &Coordinate) -> Option<(f64, f64)> {
    match coordinate {
        Coordinate::Values { fixed_point, .. }
        | Coordinate::SquareComplement { fixed_point, .. }
        | Coordinate::DistanceFromEnd { fixed_point, .. } => {
            Some((fixed_point.bounds.lo, fixed_point.bounds.hi))
        }
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Products { .. } => None,
        Coordinate::Units { .. } | Coordinate::Presence => None,
    }
}
