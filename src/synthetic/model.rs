//! How the keys of a summary depend on each other: each key is drawn given some of the keys before
//! it, which the summary has a set of.

use std::collections::{BTreeSet, HashMap};

use super::cells::{CELLS_MAX, TargetShares, expected_noise, without_noise};
use super::marginals::{Cells, NoisyMarginals, Quantity};
use super::weigh::targets;
use crate::mechanism::{project, shares};
use crate::policy::{SummaryKey, SummaryMeasure, combinations};

/// The most keys that one is drawn given: the work grows with a power of it.
const GIVEN_MAX: usize = 3;

/// The most sets of keys of one size within one set: all of up to three of 24 keys.
const SUBSETS_MAX: usize = 2_048;

/// The keys in the order in which they are drawn, and the measures after them.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyModel {
    /// The keys whose values are known before the others are drawn, in an order in which they could
    /// be drawn.
    pub given: Vec<Step>,
    pub steps: Vec<Step>,
    /// What rows are weighted to once all keys are drawn; empty where the steps keep all pairs.
    pub targets: Vec<TargetShares>,
    /// Pairs that no set has, which rows are weighted to before that, where there is room for all.
    pub others: Vec<TargetShares>,
    pub means: Vec<Means>,
    /// The number of rows, >= 0.
    pub rows: f64,
}

/// One key, given others.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub key: SummaryKey,
    /// Ascending; all are drawn before `key`.
    pub given: Vec<SummaryKey>,
    /// For each combination of values of `given`, the share of each value. They add up to 1.
    pub shares: Vec<Vec<f64>>,
}

/// What is known of one measure, given some keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Means {
    pub given: Vec<SummaryKey>,
    /// For each combination of values of `given`: the mean, and the share of rows that have a
    /// value.
    pub cells: Vec<(f64, f64)>,
}

impl KeyModel {
    /// The model of a summary; `None` where it has no key.
    pub fn of(marginals: &NoisyMarginals) -> Option<Self> {
        Self::with_known(marginals, &[])
    }

    /// The model of a summary whose rows have known values of some keys.
    ///
    /// Each other key is drawn given the keys before it on which it depends most, as far as that is
    /// more
    /// than noise: the L1 distance between their joint numbers and those of independent keys, in
    /// squares less what noise adds to it, less what noise adds to the rows. With sets of two keys
    /// that is a maximum spanning tree. Weights of the rows keep the other pairs.
    ///
    /// # Reference
    /// McKenna, Miklau, Sheldon: "Winning the NIST Contest", J. Privacy and Confidentiality 11(3),
    /// 2021 (trees of measured marginals); McKenna et al.: "AIM", PVLDB 15(11), 2022, section 4.1
    /// (L1 distance less its expectation under noise).
    pub fn with_known(marginals: &NoisyMarginals, known: &[SummaryKey]) -> Option<Self> {
        let rows = marginals.estimate(&[], Quantity::Rows)?.values[0].max(0.0);
        let all = SummaryKey::all(marginals.values.len());
        let (known, others): (Vec<SummaryKey>, Vec<SummaryKey>) =
            all.partition(|key| known.contains(key));
        let subsets = subsets(marginals, GIVEN_MAX + 1);
        let candidates = candidates(&subsets, marginals)?;
        let mut placed = Vec::new();
        let mut place = |keys| {
            let order = in_order(keys, &candidates, &mut placed).into_iter();
            let steps = order.map(|(key, given)| step(key, given, marginals, rows));
            steps.collect::<Option<Vec<Step>>>()
        };
        let (given, steps) = (place(known)?, place(others)?);
        let measures = (0..marginals.measures).map(SummaryMeasure);
        let means = measures.map(|measure| means(measure, &subsets, marginals));
        let both = given.iter().chain(&steps);
        let drawn = both.map(|step| (step.key, step.given.as_slice()));
        let drawn: Vec<_> = drawn.collect();
        let (mut others, mut targets) = targets(&subsets, &drawn, marginals)?;
        // What is known does not move.
        let moves = |target: &TargetShares| target.keys.iter().any(|key| is_among(&steps, *key));
        targets.retain(moves);
        others.retain(moves);
        Some(Self {
            means: means.collect::<Option<_>>()?,
            targets,
            others,
            given,
            steps,
            rows,
        })
    }

    /// How likely a row of the summary has these values of the keys that are known: their codes,
    /// parallel to `given`.
    pub fn likelihood(&self, codes: &[usize], sizes: &[usize]) -> f64 {
        let code = |key: &SummaryKey| {
            let at = self.given.iter().position(|step| step.key == *key);
            at.map_or(0, |at| codes[at])
        };
        let share = |(step, own): (&Step, &usize)| {
            let place = |cell, key: &SummaryKey| cell * key.pick(sizes) + code(key);
            step.shares[step.given.iter().fold(0, place)][*own]
        };
        self.given.iter().zip(codes).map(share).product()
    }
}

fn is_among(steps: &[Step], key: SummaryKey) -> bool {
    steps.iter().any(|step| step.key == key)
}

/// Keys in the order in which they are drawn, after those that are placed: each with the placed
/// ones that it is drawn given.
fn in_order(
    mut left: Vec<SummaryKey>,
    candidates: &[(SummaryKey, Vec<SummaryKey>, f64)],
    placed: &mut Vec<SummaryKey>,
) -> Vec<(SummaryKey, Vec<SummaryKey>)> {
    let mut order = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let possible = candidates.iter().filter(|(key, given, _)| {
            left.contains(key) && given.iter().all(|key| placed.contains(key))
        });
        let best = possible.max_by(|a, b| a.2.total_cmp(&b.2));
        let (key, given) = best.map_or((*first, Vec::new()), |(key, given, _)| {
            (*key, given.clone())
        });
        left.retain(|other| *other != key);
        placed.push(key);
        order.push((key, given));
    }
    order
}

/// The sets of up to `most` keys, ascending and each once, that are within some set of the summary.
fn subsets(marginals: &NoisyMarginals, most: usize) -> BTreeSet<Vec<SummaryKey>> {
    let mut found = BTreeSet::new();
    for set in &marginals.sets {
        let mut keys = set.keys.clone();
        keys.sort_unstable();
        for size in 1..=most.min(keys.len()) {
            found.extend(combinations(&keys, size, SUBSETS_MAX).unwrap_or_default());
        }
    }
    found
}

/// Every key given others of the same set, with how far it depends on them, where that is more than
/// noise.
fn candidates(
    subsets: &BTreeSet<Vec<SummaryKey>>,
    marginals: &NoisyMarginals,
) -> Option<Vec<(SummaryKey, Vec<SummaryKey>, f64)>> {
    let size = |keys: &[SummaryKey]| marginals.sizes(keys).iter().product::<usize>();
    let known = subsets.iter().filter(|keys| size(keys) <= CELLS_MAX);
    let estimates: HashMap<&[SummaryKey], Cells> = known
        .map(|keys| Some((keys.as_slice(), marginals.estimate(keys, Quantity::Rows)?)))
        .collect::<Option<_>>()?;
    let rows = marginals.estimate(&[], Quantity::Rows)?.values[0].max(1.0);
    let mut candidates = Vec::new();
    for (keys, joint) in estimates.iter().filter(|(keys, _)| keys.len() > 1) {
        for key in *keys {
            let others = keys.iter().copied().filter(|other| other != key);
            let given: Vec<SummaryKey> = others.collect();
            let of = |keys: &[SummaryKey]| estimates.get(keys).map(|cells| &cells.values);
            let (Some(alone), Some(others)) = (of(&[*key]), of(&given)) else {
                continue;
            };
            let by_given = by_given(*key, &given, joint, marginals);
            let noise = expected_noise(joint);
            let distance = distance(&by_given, (alone, others), rows);
            // The distance has noise, and so have the rows that are drawn by these numbers.
            let score = without_noise(distance, noise) - noise;
            if score > 0.0 {
                candidates.push((*key, given, score));
            }
        }
    }
    // The order of a map is not the same twice.
    candidates.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    Some(candidates)
}

/// The L1 distance, in rows, of joint numbers from those of independent keys.
fn distance(by_given: &[Vec<f64>], (alone, others): (&[f64], &[f64]), rows: f64) -> f64 {
    let of_given = |(cells, other): (&Vec<f64>, &f64)| -> f64 {
        let both = cells.iter().zip(alone);
        both.map(|(cell, alone)| (cell - alone * other / rows).abs())
            .sum()
    };
    by_given.iter().zip(others).map(of_given).sum()
}

/// The keys with one more, ascending.
fn with(keys: &[SummaryKey], key: SummaryKey) -> Vec<SummaryKey> {
    let mut keys = keys.to_vec();
    keys.push(key);
    keys.sort_unstable();
    keys
}

/// The joint numbers for each combination of `given`: one number for each value of the key.
fn by_given(
    key: SummaryKey,
    given: &[SummaryKey],
    joint: &Cells,
    marginals: &NoisyMarginals,
) -> Vec<Vec<f64>> {
    let size = key.pick(&marginals.values).len();
    let count: usize = marginals.sizes(given).iter().product();
    let mut rows = vec![vec![0.0; size]; count];
    // What one step of the key passes over in the joint numbers.
    let after = given.iter().copied().filter(|other| *other > key);
    let after: Vec<SummaryKey> = after.collect();
    let inner: usize = marginals.sizes(&after).iter().product();
    for (cell, value) in joint.values.iter().enumerate() {
        let (outer, code, within) = (cell / inner / size, cell / inner % size, cell % inner);
        rows[outer * inner + within][code] = *value;
    }
    rows
}

fn step(
    key: SummaryKey,
    given: Vec<SummaryKey>,
    marginals: &NoisyMarginals,
    rows: f64,
) -> Option<Step> {
    let alone = marginals.estimate(&[key], Quantity::Rows)?.values;
    let alone = shares(&project(&alone, rows));
    let mut joint = marginals.estimate(&with(&given, key), Quantity::Rows)?;
    joint.values = project(&joint.values, rows);
    let shares_of = |cells: Vec<f64>| match cells.iter().sum::<f64>() > 0.0 {
        true => shares(&cells),
        false => alone.clone(),
    };
    let cells = by_given(key, &given, &joint, marginals);
    Some(Step {
        shares: cells.into_iter().map(shares_of).collect(),
        key,
        given,
    })
}

/// The means of a measure given the keys on which it depends most, as far as that is more than
/// noise. A cell with too few rows has the mean of all.
fn means(
    measure: SummaryMeasure,
    subsets: &BTreeSet<Vec<SummaryKey>>,
    marginals: &NoisyMarginals,
) -> Option<Means> {
    let (sum, known) = (Quantity::Sum(measure), Quantity::Known(measure));
    let whole = |quantity| Some(marginals.estimate(&[], quantity)?.values[0]);
    let rows = whole(Quantity::Rows)?.max(1.0);
    let values = whole(known)?.max(1.0);
    let mean = whole(sum)? / values;
    let overall = (mean, (values / rows).min(1.0));
    let mut best = (0.0, Vec::new());
    for given in subsets {
        // How far the sums are from those of rows that all have the same mean.
        let off = marginals.estimate_sum(given, &[(sum, 1.0), (known, -mean)])?;
        let distance: f64 = off.values.iter().map(|off| off.abs()).sum();
        let score = distance - expected_noise(&off);
        if score > best.0 {
            best = (score, given.clone());
        }
    }
    let given = best.1;
    let rows = marginals.estimate(&given, Quantity::Rows)?;
    let known = marginals.estimate(&given, known)?;
    let sums = marginals.estimate(&given, sum)?;
    let cell = |at: usize| {
        let (rows, values) = (rows.values[at], known.values[at]);
        match values > 3.0 * known.deviation(at) && values >= 1.0 {
            true => (
                sums.values[at] / values,
                (values / rows.max(1.0)).clamp(0.0, 1.0),
            ),
            false => overall,
        }
    };
    Some(Means {
        cells: (0..sums.values.len()).map(cell).collect(),
        given,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::synthetic::{Marginal, NoisyQuantity};

    /// Pairs of three keys of two values: the second is the first, the third is by itself.
    fn chain(noise: f64) -> NoisyMarginals {
        let pair = |keys: [usize; 2], rows: [f64; 4]| Marginal {
            keys: keys.map(SummaryKey).to_vec(),
            quantities: HashMap::from([(
                Quantity::Rows,
                NoisyQuantity {
                    values: rows.to_vec(),
                    noise: vec![noise],
                },
            )]),
        };
        let values = || vec![Some("0".to_owned()), Some("1".to_owned())];
        NoisyMarginals {
            values: vec![values(), values(), values()],
            sets: vec![
                pair([0, 1], [601.0, -2.0, 1.0, 398.0]),
                pair([0, 2], [301.0, 299.0, 202.0, 198.0]),
                pair([1, 2], [300.0, 298.0, 201.0, 199.0]),
            ],
            measures: 0,
            shared: None,
        }
    }

    #[test]
    fn a_key_is_drawn_given_the_one_that_it_depends_on() {
        let model = KeyModel::of(&chain(3.0)).unwrap();
        let given: Vec<(usize, Vec<usize>)> = model
            .steps
            .iter()
            .map(|step| (step.key.0, step.given.iter().map(|key| key.0).collect()))
            .collect();
        assert_eq!(given, [(0, vec![]), (1, vec![0]), (2, vec![])]);
        assert!(model.steps[1].shares[0][1] < 0.01, "{:?}", model.steps[1]);
        assert!((model.rows - 1000.0).abs() < 3.0);
    }

    #[test]
    fn what_noise_may_have_made_is_no_dependence() {
        let model = KeyModel::of(&chain(400.0)).unwrap();
        assert!(model.steps.iter().all(|step| step.given.is_empty()));
    }

    #[test]
    fn a_dependence_counts_by_what_noise_has_not_added() {
        // A distance of 960 rows, 958 of noise: too little to be drawn by.
        let model = KeyModel::of(&chain(300.0)).unwrap();
        assert!(model.steps.iter().all(|step| step.given.is_empty()));
        // 718 of noise, and 636 without it: less than what drawing by it would add. The rows are
        // weighted to a part of it.
        let model = KeyModel::of(&chain(225.0)).unwrap();
        assert!(model.steps.iter().all(|step| step.given.is_empty()));
        let first = model.targets.iter().find(|target| {
            let keys = target.keys.iter().map(|key| key.0);
            keys.eq([0, 1])
        });
        let shares = &first.unwrap().shares;
        assert!(shares[0] > 0.4 && shares[0] < 0.55, "{shares:?}");
    }

    #[test]
    fn sets_are_averaged_by_how_exact_they_are() {
        let mut marginals = chain(3.0);
        let exact = &mut marginals.sets[0]
            .quantities
            .get_mut(&Quantity::Rows)
            .unwrap();
        exact.noise = vec![1e-9];
        let found = marginals
            .estimate(&[SummaryKey(0)], Quantity::Rows)
            .unwrap();
        assert!((found.values[0] - 599.0).abs() < 1e-6, "{found:?}");
        let of_pairs = chain(3.0);
        let of_pairs = of_pairs.estimate(&[SummaryKey(0)], Quantity::Rows).unwrap();
        // Two sums of two numbers: the deviation of their average is that of one number.
        assert!((of_pairs.deviation(0) - 3.0).abs() < 1e-9);
        assert!((of_pairs.values[0] - 599.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_by_a_key_keep_their_places() {
        let joint = Cells {
            values: (0..12).map(f64::from).collect(),
            deviations: vec![0.0],
        };
        let values = |count: usize| (0..count).map(|at| Some(at.to_string())).collect();
        let marginals = NoisyMarginals {
            values: vec![values(2), values(3), values(2)],
            sets: Vec::new(),
            measures: 0,
            shared: None,
        };
        let rows = by_given(SummaryKey(1), &[0, 2].map(SummaryKey), &joint, &marginals);
        assert_eq!(rows[0], [0.0, 2.0, 4.0]);
        assert_eq!(rows[3], [7.0, 9.0, 11.0]);
    }
}
