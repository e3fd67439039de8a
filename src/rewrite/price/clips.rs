//! The clips by declared limits: the length of the vector of a unit that has as many rows, and
//! values with as large totals, as the policy allows.

use num_bigint::BigUint;
use num_traits::One;

use crate::analyze::AnalyzedRelease;
use crate::ir::Expr;
use crate::mechanism::{Mu, Norm};
use crate::rewrite::vector::clip::roomy;
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::vector::fixed_point::FixedPoint;
use crate::rewrite::vector::row_lengths::{RowLengths, ceil_sqrt, row_lengths};
use crate::rewrite::vector::sensitivity::{Norms, norms};

/// The L2 and L1 clips in weighted units.
pub(super) struct ClipLengths {
    pub l2: BigUint,
    pub l1: BigUint,
}

/// The clips that declared limits leave to choose from.
pub(super) struct Clips {
    /// The clip by numbers of rows.
    pub by_rows: ClipLengths,
    /// The clip by totals too, where that is shorter.
    pub by_total: Option<ClipLengths>,
}

impl Clips {
    /// The shorter bound in L2, and whether it rests on a total.
    pub fn shortest(self) -> (BigUint, bool) {
        match self.by_total {
            Some(clip) if clip.l2 < self.by_rows.l2 => (clip.l2, true),
            Some(_) | None => (self.by_rows.l2, false),
        }
    }
}

/// The clips that cut nobody whose rows are within the bounds of [`row_lengths`] and whose values
/// are within the totals of [`AnalyzedRelease::unit_total`].
///
/// Let the values of one coordinate be at most m each, and add up to at most U over one unit's
/// rows, of which at most q are in one group. What the unit adds to the groups, without its sign,
/// is then at most min(q m, U) in each and at most U in all. So it is at most U long in L1, and in
/// L2 at most the root of U min(q m, U). Every grouping set has these sums once.
pub(super) fn clips(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    weights: &[BigUint],
    groups: u64,
) -> Clips {
    let weighted = Weighted {
        release,
        coordinates,
        weights,
        groups,
    };
    let by_rows = weighted.by_rows(coordinates, weights).clip();
    let totals = weighted.totals();
    if totals.is_empty() {
        return Clips {
            by_rows,
            by_total: None,
        };
    }
    let is_total = |at: usize| totals.iter().any(|total| total.places.contains(&at));
    let weighed = coordinates.iter().cloned().zip(weights.iter().cloned());
    let others = weighed.enumerate().filter(|(at, _)| !is_total(*at));
    let (others, their_weights): (Vec<_>, Vec<_>) = others.map(|(_, one)| one).unzip();
    let mut length = weighted.by_rows(&others, &their_weights);
    for total in &totals {
        let of_values = weighted.by_total(total);
        length.squared += of_values.squared;
        length.absolute += of_values.absolute;
    }
    let by_total = length.clip();
    let is_shorter = by_total.l2 < by_rows.l2 || by_total.l1 < by_rows.l1;
    let shorter = ClipLengths {
        l2: by_total.l2.min(by_rows.l2.clone()),
        l1: by_total.l1.min(by_rows.l1.clone()),
    };
    Clips {
        by_rows,
        by_total: is_shorter.then_some(shorter),
    }
}

/// The clip of a release that is not looked at.
pub(super) struct ClipByLimits {
    pub clip: ClipLengths,
    /// The catalog proves that no unit's vector exceeds the clip, and none is emitted.
    pub within_clip: bool,
    /// Whether the clip rests on a total that the policy declares, which proves nothing: the clip
    /// is emitted.
    pub is_by_total: bool,
}

/// The shortest clip by the policy's limits, with room for what measuring rounds up where it is
/// emitted.
pub(super) fn clip_by_limits(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    weights: &[BigUint],
    (groups, norm): (u64, Norm),
) -> ClipByLimits {
    let Clips { by_rows, by_total } = clips(release, coordinates, weights, groups);
    let roomy = |ClipLengths { l2, l1 }: ClipLengths| ClipLengths {
        l2: roomy(&l2, Norm::L2, coordinates.len(), groups),
        l1: roomy(&l1, Norm::L1, coordinates.len(), groups),
    };
    let is_proved = release.one_row_per_unit || release.cells.is_some_and(|cells| cells <= groups);
    let by_rows = if is_proved { by_rows } else { roomy(by_rows) };
    let is_shorter = |clip: &ClipLengths| match norm {
        Norm::L2 => clip.l2 < by_rows.l2,
        Norm::L1 => clip.l1 < by_rows.l1,
    };
    let by_total = by_total.map(roomy).filter(is_shorter);
    let is_by_total = by_total.is_some();
    ClipByLimits {
        clip: by_total.unwrap_or(by_rows),
        within_clip: is_proved && !is_by_total,
        is_by_total,
    }
}

/// The share of each of `counted` vectors in different coordinates: mu / sqrt(counted), rounded
/// down. Together they are worth mu.
pub(super) fn mu_of_one(mu: Mu, counted: u32) -> Option<Mu> {
    let squared = mu.square().0.checked_div(counted.into())?;
    let mu = u64::try_from(squared.isqrt()).ok()?;
    (mu > 0).then_some(Mu(mu))
}

/// Raises the weight of each sum whose total is declared, by the factor by which its total keeps it
/// shorter than its rows do. One clip bounds the whole vector, and without this a short part would
/// have the noise of a long one.
pub(super) fn raise_totals(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    weights: &mut [BigUint],
    groups: u64,
) {
    let weighted = Weighted {
        release,
        coordinates,
        weights,
        groups,
    };
    let rows = row_lengths(release, groups).squared;
    let raised = |total: Total| {
        let by_rows = (&total.of_row * &total.of_row * &rows).sqrt();
        let by_total = ceil_sqrt(&weighted.by_total(&total).squared);
        let factor = (by_rows / by_total.max(BigUint::one())).max(BigUint::one());
        (total.places, factor)
    };
    let raised: Vec<_> = weighted.totals().into_iter().map(raised).collect();
    for (places, factor) in raised {
        places.into_iter().for_each(|at| weights[at] *= &factor);
    }
}

/// The length of a unit's vector: its square in L2, and in L1.
struct Length {
    squared: BigUint,
    absolute: BigUint,
}

impl Length {
    fn clip(self) -> ClipLengths {
        ClipLengths {
            l2: ceil_sqrt(&self.squared),
            l1: self.absolute,
        }
    }
}

/// Sums of one value whose total is declared. Each row is in at most one of them.
struct Total {
    places: Vec<usize>,
    /// The weighted magnitude of one row.
    of_row: BigUint,
    /// The weighted total of one unit.
    of_unit: BigUint,
}

struct Weighted<'a> {
    release: &'a AnalyzedRelease,
    coordinates: &'a [Coordinate],
    weights: &'a [BigUint],
    groups: u64,
}

impl Weighted<'_> {
    /// The length that these coordinates have for a unit of as many rows as it may have.
    fn by_rows(&self, coordinates: &[Coordinate], weights: &[BigUint]) -> Length {
        let Norms {
            row,
            presence,
            shared,
        } = norms(coordinates, weights, &self.release.exclusive_filters);
        if self.release.one_row_per_unit {
            let sets = self.release.grouping_sets().len() as u64;
            return Length {
                squared: (row.squared + presence.squared) * sets + shared.squared,
                absolute: (row.absolute + presence.absolute) * sets + shared.absolute,
            };
        }
        let RowLengths { squared, absolute } = row_lengths(self.release, self.groups);
        Length {
            squared: row.squared * squared + presence.squared * self.groups + shared.squared,
            absolute: row.absolute * absolute + presence.absolute * self.groups + shared.absolute,
        }
    }

    fn by_total(&self, total: &Total) -> Length {
        let Total {
            places: _,
            of_row,
            of_unit,
        } = total;
        let lengths = row_lengths(self.release, self.groups);
        let in_group = self.release.unit_groups.iter().map(|of_unit| of_unit.rows);
        let in_group = of_row * in_group.max().unwrap_or(1).max(1);
        let sets = self.release.grouping_sets().len() as u64;
        let squared = of_unit * in_group.min(of_unit.clone()) * sets;
        Length {
            squared: squared.min(of_row * of_row * lengths.squared),
            absolute: (of_unit * sets).min(of_row * lengths.absolute),
        }
    }

    /// Plain sums of values with a total. Sums of one value under filters that exclude each other
    /// share one.
    fn totals(&self) -> Vec<Total> {
        let mut totals: Vec<(Total, (&Expr, &FixedPoint, Filters<'_>))> = Vec::new();
        if self.release.one_row_per_unit {
            return Vec::new();
        }
        for (at, coordinate) in self.coordinates.iter().enumerate() {
            let Coordinate::Values {
                filter,
                value,
                fixed_point,
                centred: false,
            } = coordinate
            else {
                continue;
            };
            let Some(declared) = self.release.unit_total(value) else {
                continue;
            };
            let weight = &self.weights[at];
            let of_row = weight * coordinate.magnitude();
            let rows = self.release.lineage.rows_per_unit;
            let Some(of_unit) = fixed_point.total(declared, rows) else {
                continue;
            };
            let of_unit = weight * of_unit;
            let sum = (value, fixed_point, self.filters(filter));
            match totals.iter_mut().find(|(_, known)| *known == sum) {
                Some((total, _)) => {
                    total.places.push(at);
                    total.of_row = (&total.of_row).max(&of_row).clone();
                    total.of_unit = (&total.of_unit).max(&of_unit).clone();
                }
                None => {
                    let total = Total {
                        places: vec![at],
                        of_row,
                        of_unit,
                    };
                    totals.push((total, sum));
                }
            }
        }
        totals.into_iter().map(|(total, _)| total).collect()
    }

    fn filters<'f>(&self, filter: &'f Option<Expr>) -> Filters<'f> {
        let classes = &self.release.exclusive_filters;
        let class = filter
            .as_ref()
            .and_then(|filter| classes.iter().position(|class| class.contains(filter)));
        class.map_or(Filters::One(filter), Filters::OfClass)
    }
}

/// One filter, or any of a class of filters that exclude each other.
#[derive(PartialEq)]
enum Filters<'a> {
    One(&'a Option<Expr>),
    OfClass(usize),
}
