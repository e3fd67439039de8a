//! The amount that a clip takes from the sums, estimated from the noisy histogram by which it was
//! chosen.

use super::{
    Histogram, Smoothed, WINDOWS, beyond_a_gap, fullest, least_squares, lost_length, total,
};

/// The amount that a clip takes from the sums, in the block's unit of length. Estimates from noisy
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Stored")]
pub struct ClipBias {
    /// The clip.
    pub clip: f64,
    /// Units that are longer than the clip, and the standard deviation of that number.
    pub units: f64,
    pub units_error: f64,
    /// All units that the histogram shows.
    pub of: f64,
    /// A number that at most one look in 30,000 has below the true number of units, wherever they
    /// lie. Older answers do not say.
    pub units_at_most: Option<f64>,
    /// How many units could be far longer than all others and not show, where intervals allow for
    /// fewer. Older answers do not say.
    pub hidden: Option<f64>,
    /// Units that are longer than the policy's limits allow, where that many stand out.
    pub beyond: f64,
    /// The length that the clip takes from all units together, if numbers of units fall as smoothly
    /// as those that show. On average over looks it is near the length that is taken. Older answers
    /// do not have it.
    pub expected: Option<f64>,
    /// The likeliest such length among all tails that are possible beyond the last bin that shows.
    /// The interval begins here. It is above the length that is taken more often than below.
    pub length: f64,
    /// The upward standard deviation of `length`. It covers the histogram's noise, and the ways
    /// in which units may be spread beyond the last bin that shows.
    pub error: f64,
    /// An upper bound of what the clip takes from all units together, if few units lie beyond the
    /// last bin that shows. It holds in 95 of 100 looks. For a limit on rows: the rows that it
    /// cuts.
    pub rows: f64,
    /// The length of all units together, before the clip.
    pub whole: f64,
    /// For half of the noise, a quarter, and so on: the clip that would be chosen then, as a
    /// multiple of this one. With less noise it pays to cut less.
    pub growth: [f64; HALVINGS],
}

/// The values that lack the length that a clip took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClippedValues {
    /// One value lacks all of the length. One unit of length is this much in the value's own unit.
    All { unit: f64 },
    /// Several values lack the length: each lacks its share.
    Part,
}

/// A cut as an answer keeps it, of this version or an older one.
#[derive(serde::Deserialize)]
struct Stored {
    clip: f64,
    units: f64,
    units_error: f64,
    of: f64,
    units_at_most: Option<f64>,
    hidden: Option<f64>,
    #[serde(default)]
    beyond: f64,
    expected: Option<f64>,
    length: f64,
    /// Older cuts have `tail` instead, or neither.
    error: Option<f64>,
    /// The length that a heavy tail adds to `length`, which is then the most that a light one
    /// takes.
    tail: Option<f64>,
    /// Older cuts count rows as any length.
    rows: Option<f64>,
    whole: f64,
    #[serde(default = "no_growth")]
    growth: [f64; HALVINGS],
}

impl From<Stored> for ClipBias {
    fn from(stored: Stored) -> Self {
        let length = stored.length + stored.tail.unwrap_or(0.0);
        let error = stored.error.unwrap_or(0.0);
        Self {
            clip: stored.clip,
            units: stored.units,
            units_error: stored.units_error,
            of: stored.of,
            units_at_most: stored.units_at_most,
            hidden: stored.hidden,
            beyond: stored.beyond,
            expected: stored.expected,
            length,
            error,
            rows: stored.rows.unwrap_or(length + QUANTILE_95 * error),
            whole: stored.whole,
            growth: stored.growth,
        }
    }
}

/// Standard deviations to the end of a one-sided interval that at most one of 30,000 misses. Many
/// looks may say how many units there are, and the least number counts.
const QUANTILE_OF_30_000: f64 = 4.0;

/// How often the noise is halved in [`ClipBias::growth`].
const HALVINGS: usize = 7;

pub(super) fn no_growth() -> [f64; HALVINGS] {
    [1.0; HALVINGS]
}

/// The largest share of all lengths that counts as cut: past it the histogram says too little.
const SHARE_MAX: f64 = 0.5;

/// Which tails are possible beyond the last bin that shows.
#[derive(Clone, Copy)]
struct Possible {
    /// The most units of a bin, as a share of the bin before it, which is shorter by the root of
    /// two.
    heaviest: f64,
    /// Whether the tail is a law that the units there are drawn from, so that their number varies.
    is_law: bool,
}

/// The tails that are possible for sums: up to a tail of Pareto's law with an index of 1.24. That
/// is so heavy that what numbers vary by adds little.
const OF_SUMS: Possible = Possible {
    heaviest: 0.65,
    is_law: false,
};

/// The tails that are possible for counted rows behind a quantile: up to an index of 2. The rank
/// moves by the full amount only if all rows that are cut lie on one side of it.
const OF_ROWS: Possible = Possible {
    heaviest: 0.5,
    is_law: true,
};

/// The share of all units that may be far longer than the last bin that shows and stay unseen: an
/// interval of sums allows for them. With few units, noise hides a larger share, but then the tails
/// that the last bins allow are as long.
const HIDDEN_UNITS: f64 = 0.01;

/// How many bins beyond the last that shows may hold hidden units in any proportion: two octaves.
/// Past them numbers fall as in the heaviest tail.
const FREE_BINS: usize = 4;

/// Shares are tried in these steps, from the heaviest down.
const SHARE_STEP: f64 = 0.03;
const SHARE_STEPS: i32 = 15;

/// Standard deviations to the end of a one-sided interval that holds in 97.5 of 100 cases.
const QUANTILE_97_5: f64 = 1.96;

/// Standard deviations to the end of a one-sided interval that holds in 95 of 100 cases.
const QUANTILE_95: f64 = 1.645;

/// How many standard deviations a window of bins beyond a gap, or the number of units above the
/// ceiling, must have to count as units in an interval. Noise has it in 3 of 10,000 looks. A clip
/// follows such a window only where it stands out more (`GAP_DEVIATIONS`): it costs more to be
/// wrong there.
const BEYOND_DEVIATIONS: f64 = 4.5;

impl ClipBias {
    /// How many units that are far longer than all others intervals allow for.
    pub fn hidden_allowed(&self) -> f64 {
        HIDDEN_UNITS * self.of
    }

    /// The clip that would be chosen with this factor less noise, as a multiple of this one.
    pub fn growth(&self, less: f64) -> f64 {
        let halvings = less.max(1.0).log2().min(HALVINGS as f64);
        let at = |halvings: usize| match halvings.min(HALVINGS).checked_sub(1) {
            None => 1.0,
            Some(at) => self.growth[at],
        };
        let below = halvings as usize;
        let part = halvings - below as f64;
        at(below).powf(1.0 - part) * at(below + 1).powf(part)
    }

    /// The most that all units lose together, up to this many standard deviations of the estimate.
    pub fn most(&self, deviations: f64) -> f64 {
        self.length + deviations * self.error
    }

    /// What one group loses if all units together lose the length `lacks`. Results are in the unit
    /// of the group's `value`; one unit of length is `unit` of these, and there are `groups`
    /// groups.
    ///
    /// As a vector, all groups lose no more than all units lose. Groups that lose equally each lose
    /// that over the root of their number. Groups that lose in proportion to their values lose the
    /// share that is cut. The larger of both is taken.
    pub fn of_group(&self, lacks: f64, (value, groups, unit): (f64, usize, f64)) -> f64 {
        if groups == 1 {
            return unit * lacks;
        }
        let share = self.share(lacks);
        let own = value.abs() * share / (1.0 - share);
        own.max(unit * lacks / (groups as f64).sqrt())
    }

    /// An estimate of the amount that a value lacks: on average over looks it is near that amount;
    /// `None` where it is not known. Groups are assumed to lack the same share. `value` is the
    /// clipped sum, with the sign of the summed values.
    pub fn expected_of(&self, value: f64, of: ClippedValues) -> Option<f64> {
        let expected = self.expected?;
        Some(match of {
            ClippedValues::All { unit } => unit * expected,
            ClippedValues::Part => {
                let share = self.share(expected);
                value.max(0.0) * share / (1.0 - share)
            }
        })
    }

    /// The share of all lengths that is cut, if all units together lose this length.
    fn share(&self, lacks: f64) -> f64 {
        if self.whole > 0.0 {
            (lacks / self.whole).clamp(0.0, SHARE_MAX)
        } else {
            SHARE_MAX
        }
    }

    /// The bias in steps of a coordinate of which one step has this weight.
    pub fn in_steps(self, weight: f64) -> Self {
        Self {
            clip: self.clip / weight,
            expected: self.expected.map(|length| length / weight),
            length: self.length / weight,
            error: self.error / weight,
            rows: self.rows / weight,
            whole: self.whole / weight,
            ..self
        }
    }
}

impl Smoothed {
    pub(super) fn cut_at(&self, histogram: &Histogram, clip: f64) -> ClipBias {
        let (mut units, mut cut_bins) = (0.0, 0.0);
        for (bin, believed) in self.units.iter().enumerate() {
            if lost_length(histogram, bin, clip) > 0.0 {
                units += believed;
                cut_bins += 1.0;
            }
        }
        let is_exceeded = histogram.beyond > BEYOND_DEVIATIONS * histogram.deviation;
        let beyond = if is_exceeded { histogram.beyond } else { 0.0 };
        let of = self.units.iter().sum::<f64>() + beyond;
        let widest = WINDOWS.iter().max().map_or(1.0, |width| *width as f64);
        let (all, all_error) = total(histogram);
        let hidden = BEYOND_DEVIATIONS * histogram.deviation * widest.sqrt();
        let (length, error) = self.possible_tails(histogram, OF_SUMS).lost_length(clip);
        let (likely_rows, rows_error) = self.possible_tails(histogram, OF_ROWS).lost_length(clip);
        ClipBias {
            clip,
            units: units + beyond,
            units_error: histogram.deviation * f64::sqrt(cut_bins),
            of,
            units_at_most: Some(all + QUANTILE_OF_30_000 * all_error),
            hidden: (hidden > HIDDEN_UNITS * of).then_some(hidden),
            beyond,
            expected: Some(self.cut(histogram, clip) + beyond * of_beyond(histogram, clip)),
            length,
            error,
            rows: likely_rows + QUANTILE_95 * rows_error,
            whole: self.whole(histogram),
            growth: no_growth(),
        }
    }

    /// The possible tails where a clip is chosen: from the last bin that a clip follows.
    pub(super) fn tails_of_choice<'h>(&self, histogram: &'h Histogram) -> PossibleTails<'h> {
        self.tails_from(histogram, self.last, OF_SUMS)
    }

    /// The possible tails where the cut of a clip is reported: also past gaps between bins.
    fn possible_tails<'h>(
        &self,
        histogram: &'h Histogram,
        possible: Possible,
    ) -> PossibleTails<'h> {
        let mut last = self.last;
        let least = BEYOND_DEVIATIONS * histogram.deviation;
        while let Some(end) = beyond_a_gap(&histogram.counts, last, &WINDOWS, least) {
            last = end;
        }
        self.tails_from(histogram, last, possible)
    }

    fn tails_from<'h>(
        &self,
        histogram: &'h Histogram,
        last: usize,
        possible: Possible,
    ) -> PossibleTails<'h> {
        let shares = (0..=SHARE_STEPS).map(|step| possible.heaviest - SHARE_STEP * f64::from(step));
        PossibleTails {
            histogram,
            possible,
            last,
            shapes: shares
                .map(|share| TailShape::of(histogram, last, share))
                .collect(),
            units: self.units.iter().sum(),
        }
    }
}

/// The length that a clip takes from a unit above the ceiling, which counts as one of the first bin
/// above it.
fn of_beyond(histogram: &Histogram, clip: f64) -> f64 {
    let ceiling = histogram.edges.last();
    ceiling.map_or(0.0, |ceiling| ceiling * std::f64::consts::SQRT_2 - clip)
}

/// The possible tails beyond the last bin that shows, whatever the clip.
pub(super) struct PossibleTails<'h> {
    histogram: &'h Histogram,
    possible: Possible,
    last: usize,
    shapes: Vec<TailShape>,
    /// All units that the histogram shows.
    units: f64,
}

impl PossibleTails<'_> {
    /// The length that the clip takes from all units together: the likeliest, and its standard
    /// deviation upwards. Units above the ceiling count as of the first bin above it.
    ///
    /// # Reference
    /// `docs/look.md`, intervals. A share of the tail counts as far as the last two bins that show
    /// and all bins after them allow: the end of the interval is the furthest point of which the
    /// squares grow by less than QUANTILE_97_5^2 (a profile likelihood).
    pub(super) fn lost_length(&self, clip: f64) -> (f64, f64) {
        let histogram = self.histogram;
        let is_exceeded = histogram.beyond > BEYOND_DEVIATIONS * histogram.deviation;
        let tails = Tails::of(histogram, (self.last, clip), is_exceeded);
        let fit = |shape| match self.possible.is_law {
            true => tails.fit(shape).of_a_law(),
            false => tails.fit(shape),
        };
        let fits: Vec<TailFit> = self.shapes.iter().map(fit).collect();
        let (likely, error) = TailFit::likeliest(&fits);
        if self.possible.is_law {
            return (likely, error);
        }
        let both = self.shapes.iter().zip(&fits);
        let best = both.min_by(|(_, a), (_, b)| a.off.total_cmp(&b.off));
        let with_hidden = best.map(|(shape, fit)| {
            let hidden =
                tails.hidden_length(shape, (self.possible.heaviest, HIDDEN_UNITS * self.units));
            fit.error.hypot(hidden / QUANTILE_97_5)
        });
        (likely, error.max(with_hidden.unwrap_or(0.0)))
    }
}

/// A tail from the last bin that shows on, in which each bin has a share of the one before it: its
/// height, fitted by least squares.
pub(super) struct TailShape {
    share: f64,
    height: f64,
    /// The sum of the squares of its bins, for a height of one.
    own: f64,
    /// The squares that are left, in variances.
    off: f64,
}

/// Numbers that fall by this share.
fn falling(share: f64, bins: usize) -> impl Iterator<Item = f64> + Clone {
    std::iter::successors(Some(1.0), move |n| Some(n * share)).take(bins)
}

impl TailShape {
    pub(super) fn of(histogram: &Histogram, last: usize, share: f64) -> Self {
        let counts = &histogram.counts;
        let before = last.saturating_sub(1).max(fullest(counts).min(last));
        let (_, off) = least_squares(&counts[before..=last], falling(share, last + 1 - before));
        let tail = &counts[last..];
        let (height, off_tail) = least_squares(tail, falling(share, tail.len()));
        Self {
            share,
            height,
            own: falling(share, tail.len()).map(|part| part * part).sum(),
            off: (off + off_tail) / histogram.deviation.powi(2),
        }
    }
}

/// The cut of a clip under each possible tail beyond the last bin that shows.
pub(super) struct Tails<'h> {
    counts: &'h [f64],
    deviation: f64,
    last: usize,
    /// The length that the clip takes from a unit of each bin.
    of_each: Vec<f64>,
    /// The amount that the clip takes from the units up to the last bin that shows, and above the
    /// ceiling.
    cut: f64,
    /// The variance of that, in those of one number.
    squares: f64,
}

impl<'h> Tails<'h> {
    pub(super) fn of(
        histogram: &'h Histogram,
        (last, clip): (usize, f64),
        is_exceeded: bool,
    ) -> Self {
        let counts = &histogram.counts;
        let bins = 0..counts.len();
        let of_each: Vec<f64> = bins.map(|bin| lost_length(histogram, bin, clip)).collect();
        let shown = counts[..=last].iter().zip(&of_each);
        let mut cut: f64 = shown.map(|(count, lost)| count * lost).sum();
        let mut squares: f64 = of_each[..=last].iter().map(|lost| lost.powi(2)).sum();
        if is_exceeded {
            let lost = of_beyond(histogram, clip);
            cut += histogram.beyond * lost;
            squares += lost.powi(2);
        }
        Self {
            counts,
            deviation: histogram.deviation,
            last,
            of_each,
            cut,
            squares,
        }
    }

    /// The cut if, from the last bin that shows on, each bin has the shape's share of the one
    /// before it.
    ///
    /// # Reference
    /// `docs/look.md`, intervals. The tail's height is fitted by least squares to its bins, of
    /// which the last that shows is one. So that bin's number counts twice, once by itself and once
    /// in the height: the variance has twice their covariance.
    pub(super) fn fit(&self, shape: &TailShape) -> TailFit {
        let TailShape {
            share,
            height,
            own,
            off,
        } = *shape;
        let of_each = &self.of_each[self.last..];
        let (mut of_height, mut of_numbers) = (0.0, 0.0);
        for (lost, part) in of_each.iter().zip(falling(share, of_each.len())).skip(1) {
            of_height += part * lost;
            of_numbers += part * lost * lost;
        }
        let covariance = self.of_each[self.last] * of_height / own;
        let variance = self.squares + of_height.powi(2) / own + 2.0 * covariance;
        TailFit {
            off,
            cut: self.cut + height * of_height,
            error: self.deviation * variance.sqrt(),
            of_numbers: height * of_numbers,
        }
    }

    /// The most that is likely cut from a few units that are far longer than the last bin that
    /// shows, and no part of the tail of this shape: they fall by the share `heaviest`, or lie
    /// anyhow in the next bins, and are at most `units`.
    ///
    /// # Reference
    /// `docs/look.md`, intervals, hidden units.
    fn hidden_length(&self, tail: &TailShape, (heaviest, units): (f64, f64)) -> f64 {
        let counts = &self.counts[self.last..];
        let expected = falling(tail.share, counts.len()).map(|part| tail.height * part);
        let rest = counts.iter().zip(expected).skip(1);
        let lost = &self.of_each[self.last + 1..];
        let rest: Vec<(f64, f64)> = rest
            .map(|(count, expected)| count - expected)
            .zip(lost.iter().copied())
            .collect();
        let most =
            |sum: f64, squares: f64| sum.max(0.0) + QUANTILE_97_5 * self.deviation * squares.sqrt();

        let (mut both, mut own, mut of_height) = (0.0, 0.0, 0.0);
        for ((rest, lost), part) in rest.iter().zip(falling(heaviest, rest.len())) {
            both += rest * part;
            own += part * part;
            of_height += lost * part;
        }
        if own == 0.0 {
            return 0.0;
        }
        let height = most(both / own, 1.0 / own).min(units * (1.0 - heaviest));

        let near = &rest[..FREE_BINS.min(rest.len())];
        let sum = near.iter().map(|(rest, lost)| rest * lost).sum();
        let squares = near.iter().map(|(_, lost)| lost * lost).sum();
        let furthest = near.iter().map(|(_, lost)| *lost).fold(0.0, f64::max);
        (height * of_height).max(most(sum, squares).min(units * furthest))
    }
}

/// The cut under one possible tail.
pub(super) struct TailFit {
    /// The squares that are left, in variances.
    off: f64,
    pub(super) cut: f64,
    pub(super) error: f64,
    /// The variance of what is cut beyond the last bin that shows, if numbers of units there vary
    /// by Poisson's law.
    of_numbers: f64,
}

impl TailFit {
    /// With the error of numbers that vary.
    fn of_a_law(self) -> Self {
        Self {
            error: self.error.hypot(self.of_numbers.sqrt()),
            ..self
        }
    }

    /// The best fit's cut, and the furthest end of all fits as a standard deviation from it.
    fn likeliest(fits: &[Self]) -> (f64, f64) {
        let best = fits.iter().min_by(|a, b| a.off.total_cmp(&b.off));
        let Some(Self {
            off: least, cut, ..
        }) = best
        else {
            return (0.0, 0.0);
        };
        let likely = cut.max(0.0);
        let ends = fits.iter().map(|fit| {
            let left = QUANTILE_97_5.powi(2) - (fit.off - least);
            match left > 0.0 {
                true => fit.cut + left.sqrt() * fit.error,
                false => likely,
            }
        });
        (
            likely,
            (ends.fold(likely, f64::max) - likely) / QUANTILE_97_5,
        )
    }
}
