//! Whether intervals hold, and how wide they are, over laws of how much units add. Seeds are fixed:
//! the same looks are drawn each time.

use std::collections::HashMap;
use std::f64::consts::TAU;

use super::super::*;
use super::{binned, histogram, seeded};
use crate::mechanism::Randomness;
use crate::mechanism::testing::Seeded;

fn uniform(random: &mut Seeded) -> f64 {
    ((random.next_u64().unwrap() >> 11) as f64 + 0.5) / 2f64.powi(53)
}

/// By Box and Muller: fast, and exact enough for a test.
pub(super) fn normal(random: &mut Seeded) -> f64 {
    (-2.0 * uniform(random).ln()).sqrt() * (TAU * uniform(random)).cos()
}

/// How much units add, in the mean 1,000 and more.
#[derive(Debug, Clone, Copy)]
pub(super) enum Law {
    /// With this spread.
    LogNormal(usize, f64),
    /// With this index.
    Pareto(usize, f64),
    /// A fifth of them go on by Pareto's law of this index.
    Glued(usize, f64),
    /// Wholesale customers, and others.
    Giants(usize),
    /// Units of one kind, and some that are fifty times as long.
    TwoKinds(usize, usize),
    /// Units of one kind, and some of 30 to 90 times their middle: as many as noise hides in each
    /// bin.
    Wholesale(usize, usize),
}

impl Law {
    pub(super) fn lengths(self, random: &mut Seeded) -> Vec<f64> {
        let log_normal = |spread: f64, random: &mut Seeded| (spread * normal(random)).exp() * 1e3;
        let pareto = |index: f64, random: &mut Seeded| 1e3 * uniform(random).powf(-1.0 / index);
        match self {
            Self::LogNormal(units, spread) => {
                (0..units).map(|_| log_normal(spread, random)).collect()
            }
            Self::Pareto(units, index) => (0..units).map(|_| pareto(index, random)).collect(),
            Self::Glued(units, index) => (0..units)
                .map(|unit| match unit % 5 {
                    0 => 2.0 * pareto(index, random),
                    _ => log_normal(0.6, random),
                })
                .collect(),
            Self::Giants(units) => [30e3, 42e3, 60e3, 80e3, 100e3, 120e3]
                .into_iter()
                .chain((0..units).map(|_| log_normal(1.3, random)))
                .collect(),
            Self::Wholesale(units, far) => {
                let wholesale = |random: &mut Seeded| 30e3 + 60e3 * uniform(random);
                let others = |random: &mut Seeded| log_normal(1.0, random);
                let far: Vec<f64> = (0..far).map(|_| wholesale(random)).collect();
                far.into_iter()
                    .chain((0..units).map(|_| others(random)))
                    .collect()
            }
            Self::TwoKinds(units, far) => (0..units + far)
                .map(|unit| match unit < far {
                    true => 50.0 * log_normal(0.4, random),
                    false => log_normal(0.4, random),
                })
                .collect(),
        }
    }
}

pub(super) fn length(unit: &[f64]) -> f64 {
    unit.iter().map(|part| part * part).sum::<f64>().sqrt()
}

/// A unit's parts: as large in all groups, but for chance; most of it in one group.
pub(super) fn spread_out(
    random: &mut Seeded,
    length: f64,
    groups: usize,
    favourite: f64,
) -> Vec<f64> {
    let dice = |random: &mut Seeded| random.next_u64().unwrap() % groups as u64;
    let chosen = dice(random).min(dice(random));
    let parts = (0..groups as u64).map(|group| {
        let part = (0.5 * normal(random)).exp() / (groups as f64).sqrt();
        match group == chosen {
            true => part + favourite,
            false => part,
        }
    });
    let parts: Vec<f64> = parts.collect();
    let scale = length / self::length(&parts);
    parts.iter().map(|part| scale * part).collect()
}

/// Over all groups and looks.
#[derive(Default)]
pub(super) struct Found {
    pub looks: f64,
    hold: f64,
    /// The width of each interval, as a multiple of the width by the noise alone.
    widths: Vec<f64>,
    /// The squares of what groups lack, and of what they still lack with what is expected added.
    lost: f64,
    left: f64,
}

impl Found {
    pub fn coverage(&self) -> f64 {
        self.hold / self.widths.len() as f64
    }

    pub fn median_width(&mut self) -> f64 {
        self.widths.sort_by(f64::total_cmp);
        self.widths[self.widths.len() / 2]
    }
}

/// The mu that is paid. A thousand units at this price are as 2,500 at epsilon 0.5.
pub(super) const MU: f64 = 0.3;

pub(super) const Z: f64 = 1.96;

/// The deviation of a look at a question of this many groups, and the noise of its sums.
pub(super) fn noise_of(groups: usize, mu: f64) -> (f64, DrawnSums) {
    let share: f64 = if groups <= 4 { 0.3 } else { 0.15 };
    let sums = DrawnSums {
        cells: groups as f64,
        noise: 1.0 / (mu * (1.0 - share).sqrt()),
    };
    (1.0 / (mu * share.sqrt()), sums)
}

/// What units of this law add to each of this many groups, of which one has more.
pub(super) fn units_of(
    law: Law,
    (groups, favourite): (usize, f64),
    random: &mut Seeded,
) -> Vec<Vec<f64>> {
    let units = law.lengths(random).into_iter().map(|own| match groups {
        1 => vec![own],
        _ => spread_out(random, own, groups, favourite),
    });
    units.collect()
}

/// A look at these numbers of units.
pub(super) fn draw_look(
    (plain, deviation): (&Histogram, f64),
    truth: &[f64],
    random: &mut Seeded,
) -> Histogram {
    let counts = truth.iter().map(|n| n + deviation * normal(random));
    Histogram {
        counts: counts.collect(),
        ..plain.clone()
    }
}

/// What each group lacks at a clip, and its exact sum. A unit is scaled by the ratio of the clip
/// and its own bin's edge.
pub(super) fn lost_of_groups(
    units: &[Vec<f64>],
    bins: &[usize],
    clip: f64,
    clips: &[f64],
) -> Vec<(f64, f64)> {
    let mut groups = vec![(0.0, 0.0); units[0].len()];
    for (unit, bin) in units.iter().zip(bins) {
        let share = (1.0 - clip / clips[*bin]).max(0.0);
        for ((lost, exact), part) in groups.iter_mut().zip(unit) {
            *lost += share * part;
            *exact += part;
        }
    }
    groups
}

impl Found {
    /// Many looks at each of several tables of this law, whose units are in this many groups, and
    /// have more in one of them.
    fn add(
        &mut self,
        law: Law,
        (groups, favourite): (usize, f64),
        (tables, looks, mu): (usize, usize, f64),
        random: &mut Seeded,
    ) {
        let (deviation, sums) = noise_of(groups, mu);
        let (plain, clips) = histogram(vec![0.0; 56], deviation);
        for _ in 0..tables {
            let units = units_of(law, (groups, favourite), random);
            let lengths = units.iter().map(|unit| length(unit));
            let (bins, truth) = binned(lengths, &plain, &clips);
            let mut known = HashMap::new();
            for _ in 0..looks {
                let seen = draw_look((&plain, deviation), &truth, random);
                let Ok(Choice { candidate, cut }) = choose(&seen, &clips, sums) else {
                    continue;
                };
                self.looks += 1.0;
                let lost = known
                    .entry(candidate)
                    .or_insert_with(|| lost_of_groups(&units, &bins, clips[candidate.0], &clips));
                self.compare((&cut, sums.noise), lost, random);
            }
        }
    }

    /// Draws the sum of each group at a chosen clip, and compares its interval with what the group
    /// has.
    pub fn compare(
        &mut self,
        (cut, noise): (&ClipBias, f64),
        lost: &[(f64, f64)],
        random: &mut Seeded,
    ) {
        let (groups, noise) = (lost.len(), cut.clip * noise);
        for (lost, exact) in lost {
            let off = noise * normal(random) - *lost;
            let place = (*exact + off, groups, 1.0);
            let likely = cut.of_group(cut.length, place);
            let more = cut.of_group(cut.most(Z), place) - likely;
            let most = likely + more.hypot(Z * noise);
            let holds = off <= Z * noise && -off <= most;
            self.hold += f64::from(u8::from(holds));
            let lacking = match groups {
                1 => ClippedValues::All { unit: 1.0 },
                _ => ClippedValues::Part,
            };
            let expected = cut.expected_of(*exact + off, lacking).unwrap();
            self.lost += (*lost / noise).powi(2);
            self.left += ((*lost - expected) / noise).powi(2);
            self.widths.push((most + Z * noise) / (2.0 * Z * noise));
        }
    }
}

/// Laws, with how much wider than noise alone the middle interval may be.
const LAWS: [(Law, f64); 11] = [
    (Law::LogNormal(1_000, 0.4), 4.0),
    (Law::LogNormal(1_000, 0.8), 9.0),
    (Law::LogNormal(1_000, 1.3), 8.0),
    (Law::Giants(1_000), 8.0),
    // Buyers of one thing: few, and some buy far more of it.
    (Law::LogNormal(200, 1.5), 6.0),
    (Law::Pareto(1_000, 1.3), 14.0),
    (Law::Pareto(1_000, 1.5), 14.0),
    (Law::Pareto(1_000, 2.0), 14.0),
    (Law::Glued(1_000, 1.3), 13.0),
    (Law::Glued(1_000, 2.0), 11.0),
    (Law::TwoKinds(900, 160), 16.0),
];

/// The tables are too few to distinguish 93 of 100 from somewhat less for one law of a heavy tail,
/// whose longest units decide. All laws together are enough.
fn intervals_hold(groups: (usize, f64), draws: (usize, usize), seed: u64) {
    let mut random = seeded(seed);
    let (mut wrong, mut coverages) = (Vec::new(), 0.0);
    for (law, widest) in LAWS {
        let mut found = Found::default();
        found.add(law, groups, (draws.0, draws.1, MU), &mut random);
        let (coverage, width) = (found.coverage(), found.median_width());
        let what = format!(
            "{law:?}, groups {groups:?}: {:.1} % of {} looks hold, {width:.2} times as wide as \
                noise alone",
            100.0 * coverage,
            found.looks,
        );
        if coverage < 0.86 || width > widest {
            wrong.push(what);
        }
        coverages += coverage / LAWS.len() as f64;
    }
    assert!(
        wrong.is_empty() && coverages > 0.94,
        "{coverages}, {wrong:#?}"
    );
}

#[test]
fn intervals_of_sums_hold_whatever_the_tail() {
    intervals_hold((1, 0.0), (12, 8), 20_261_124);
}

/// Groups that share the longest units evenly, and groups that each have their own: intervals hold
/// on average over the groups.
#[test]
fn intervals_of_groups_hold_however_units_spread() {
    for groups in [(2, 0.0), (12, 1.0)] {
        intervals_hold(groups, (12, 3), 20_261_125);
    }
}

/// A value with `pgveil.low_by` added lacks less than the value: much less where the tail is light,
/// hardly less where a few hidden units make most of what is cut.
#[test]
fn a_value_lacks_less_with_what_is_expected_to_be_cut() {
    for groups in [(1, 0.0), (12, 1.0)] {
        let mut random = seeded(20_261_131);
        for (law, _) in LAWS {
            let mut found = Found::default();
            found.add(law, groups, (12, 8, MU), &mut random);
            let left = (found.left / found.lost).sqrt();
            let most = match law {
                Law::LogNormal(1_000, spread) if spread < 0.5 => 0.6,
                _ => 1.001,
            };
            assert!(left < most, "{law:?}, {groups:?}: {left}");
        }
    }
}

/// Fifty thousand households at epsilon 0.5, of which a few are far longer than the rest. Their
/// bins do not show, so the last bins that do say that the tail is short. Noise is a small part of
/// such answers: what is cut decides whether their intervals hold. Without hidden units in the
/// intervals 90 of 100 of the first held.
#[test]
fn intervals_hold_where_noise_hides_the_longest_of_many() {
    for groups in [(1, 0.0), (12, 0.5)] {
        let mut random = seeded(20_261_128);
        let mut found = Found::default();
        for wholesale in [8, 16, 24, 32, 48] {
            let law = Law::Wholesale(50_000, wholesale);
            found.add(law, groups, (1, 12, 0.1241), &mut random);
        }
        let (coverage, width) = (found.coverage(), found.median_width());
        assert!(coverage >= 0.93, "{groups:?}: {coverage}, {width}");
        assert!(width < 12.0, "{groups:?}: {coverage}, {width}");
    }
}

/// In which share of looks at tables of one law no more is cut than is stated of rows.
fn share_of_rows_held(law: Law, random: &mut Seeded) -> f64 {
    // A limit on rows is chosen with 15 % of the price.
    let deviation = 1.0 / (MU * 0.15f64.sqrt());
    let sums = DrawnSums {
        cells: 1.0,
        noise: 1.0 / (MU * 0.85f64.sqrt()),
    };
    let (plain, clips) = histogram(vec![0.0; 56], deviation);
    let (mut looks, mut held) = (0.0, 0.0);
    for _ in 0..80 {
        let units: Vec<Vec<f64>> = law.lengths(random).into_iter().map(|n| vec![n]).collect();
        let bins = units.iter().map(|unit| {
            let own = unit[0] * (1.0 - 1e-9);
            clips.iter().position(|edge| own <= *edge).unwrap()
        });
        let bins: Vec<usize> = bins.collect();
        let mut truth = plain.counts.clone();
        bins.iter().for_each(|bin| truth[bin / 2] += 1.0);
        for _ in 0..5 {
            let counts = truth.iter().map(|n| n + deviation * normal(random));
            let seen = Histogram {
                counts: counts.collect(),
                ..plain.clone()
            };
            let Choice { candidate, cut } = choose(&seen, &clips, sums).unwrap();
            let lost = lost_of_groups(&units, &bins, clips[candidate.0], &clips)[0].0;
            looks += 1.0;
            held += f64::from(u8::from(lost <= cut.rows));
        }
    }
    held / looks
}

/// Laws whose tails are as light as is assumed of rows: a limit on rows cuts no more than is stated
/// in 93 of 100 looks at each. In 2,000 looks at 100 tables of another seed it was 95.3 of 100 or
/// more.
#[test]
fn rows_that_a_limit_cuts_are_as_few_as_stated() {
    let mut random = seeded(20_261_127);
    for law in [
        Law::LogNormal(1_000, 0.4),
        Law::LogNormal(1_000, 0.8),
        Law::LogNormal(1_000, 1.3),
        Law::Pareto(1_000, 2.0),
        Law::Pareto(1_000, 3.0),
        Law::Glued(1_000, 2.0),
    ] {
        let held = share_of_rows_held(law, &mut random);
        assert!(held >= 0.93, "{law:?}: {held}");
    }
}
