//! Sums over the rows of a FILTER, from groups whose keys decide it.

use std::collections::HashMap;

use num_bigint::BigInt;

use super::{Grain, value};
use crate::ir::Expr;
use crate::release::decode::Rational;
use crate::rewrite::{Family, OtherRows, Total};

/// For each finer group that is read, whether its rows meet each filter.
pub(in crate::release) type Met = HashMap<usize, Vec<bool>>;

/// The place of a filter among those of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::release) struct FilterId(pub usize);

/// The finer groups that a coordinate adds up, of those in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::release) enum Picked {
    All,
    /// The groups whose rows meet a filter.
    Met(FilterId),
    /// The groups whose rows meet a filter, less all others.
    MetLessOthers(FilterId),
}

/// How a coordinate of the release follows from the finer answer.
#[derive(Debug, Clone, Copy)]
pub(in crate::release) struct Source<'g> {
    pub total: &'g Total,
    pub picked: Picked,
}

/// The finer answer's totals that the release's coordinates are, over the groups that each picks;
/// and the filters that pick them. `None` where some coordinate does not follow.
pub(super) fn sources<'a>(
    grain: &'a Grain,
    family: &'a Family,
) -> Option<(Vec<Source<'a>>, Vec<&'a Expr>)> {
    let mut filters: Vec<&Expr> = Vec::new();
    let found = |digest| grain.totals.iter().find(|total| total.digest == digest);
    let both = family.coordinates.iter().zip(&family.filtered);
    let source = |(own, filtered): (&Option<_>, &'a Option<crate::rewrite::FilteredCoordinate>)| {
        if let Some(total) = own.and_then(found) {
            let picked = Picked::All;
            return Some(Source { total, picked });
        }
        let filtered = filtered.as_ref()?;
        let total = found(filtered.whole)?;
        let known = filters.iter().position(|known| **known == filtered.filter);
        let filter = FilterId(known.unwrap_or_else(|| {
            filters.push(&filtered.filter);
            filters.len() - 1
        }));
        let picked = match filtered.others {
            OtherRows::Nothing => Picked::Met(filter),
            OtherRows::Negated => Picked::MetLessOthers(filter),
        };
        Some(Source { total, picked })
    };
    let sources = both.map(source).collect::<Option<_>>()?;
    Some((sources, filters))
}

/// The noisy integers of the finer groups in one group.
pub(super) struct FilteredSums {
    all: Vec<BigInt>,
    /// The integers of the groups that meet each filter.
    met: Vec<Vec<BigInt>>,
}

impl FilteredSums {
    pub fn of(grain: &Grain, rows: &[usize], (filters, met): (usize, &Met)) -> Option<Self> {
        let none = || vec![BigInt::ZERO; grain.refined.len()];
        let mut sums = Self {
            all: none(),
            met: vec![none(); filters],
        };
        for row in rows {
            let noisy = grain.noisy.get(*row)?.iter();
            let noisy = noisy.map(|text| text.parse::<BigInt>().ok());
            let noisy: Vec<BigInt> = noisy.collect::<Option<_>>()?;
            let is_met = match filters {
                0 => &[],
                _ => met.get(row)?.as_slice(),
            };
            let of_filters = sums.met.iter_mut().zip(is_met);
            let meeting = of_filters.filter_map(|(of, is_met)| is_met.then_some(of));
            for of in meeting.chain([&mut sums.all]) {
                for (sum, noisy) in of.iter_mut().zip(&noisy) {
                    *sum += noisy;
                }
            }
        }
        Some(sums)
    }
}

impl Source<'_> {
    /// The coordinate's value in one group.
    pub(super) fn value(&self, grain: &Grain, sums: &FilteredSums) -> Rational {
        let met = |FilterId(at): FilterId| value(grain, self.total, &sums.met[at]);
        let all = || value(grain, self.total, &sums.all);
        match self.picked {
            Picked::All => all(),
            Picked::Met(filter) => met(filter),
            Picked::MetLessOthers(filter) => Rational::combine([(met(filter), 2), (all(), -1)], 1),
        }
    }
}
