//! The amount that a clip takes from the sums, estimated from the noisy histogram by which it was
//! chosen.

use super::{Histogram, Smoothed, WINDOWS, beyond_a_gap, fullest, least_squares, lost};

/// The amount that a clip takes from the sums, in the block's unit of length. Estimates from noisy
/// numbers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cut {
    /// The clip.
    pub clip: f64,
    /// Units that are longer than the clip, and the standard deviation of that number.
    pub units: f64,
    pub units_error: f64,
    /// All units that the histogram shows.
    pub of: f64,
    /// Units that are longer than the policy's limits allow, where that many stand out.
    #[serde(default)]
    pub beyond: f64,
    /// The most that is likely taken from all of them together.
    pub length: f64,
    /// The standard deviation of that, upwards: of the histogram's noise, and of how units may go
    /// on beyond the last bin that shows. In older records: what a heavy tail adds there.
    #[serde(default, alias = "tail")]
    pub error: f64,
    /// What is taken from all of them together, at most in 95 of 100 looks, if units beyond the
    /// last bin that shows are few: for a limit on rows, how many rows it cuts.
    #[serde(default)]
    pub rows: f64,
    /// The length of all of them together, before the clip.
    pub whole: f64,
    /// How many times this clip would be chosen for a half of the noise, for a quarter, and so on:
    /// the less noise there is, the less is worth cutting.
    #[serde(default = "no_growth")]
    pub growth: [f64; HALVINGS],
}

/// How often the noise is halved in [`Cut::growth`].
const HALVINGS: usize = 7;

pub(super) fn no_growth() -> [f64; HALVINGS] {
    [1.0; HALVINGS]
}

/// The most of all lengths that counts as cut: past it the histogram says too little.
const SHARE_MAX: f64 = 0.5;

/// How many units a bin beyond the last that shows has, as a share of the bin before it, which is
/// shorter by the root of two: at most that of a tail of Pareto's law with an index of 1.24.
const HEAVIEST: f64 = 0.65;

/// The same where rows are counted, for a quantile: an index of 2. The rank moves by as much as is
/// shown only if all rows that are cut lie on one side of it.
const HEAVIEST_OF_ROWS: f64 = 0.5;

/// Shares are tried in these steps, from the heaviest down.
const STEP: f64 = 0.03;
const STEPS: i32 = 15;

/// Standard deviations to the end of a one-sided interval that holds in 97.5 of 100 cases.
const SURE: f64 = 1.96;

/// How many standard deviations a window of bins beyond a gap, or the number of units above the
/// ceiling, must have to count as units in an interval. Noise has it in 3 of 10,000 looks. A clip
/// follows such a window only where it stands out more (`FAR`): it costs more to be wrong there.
const SHOWN: f64 = 4.5;

impl Cut {
    /// How many times this clip would be chosen with this factor less noise.
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
        let share = if self.whole > 0.0 {
            (lacks / self.whole).clamp(0.0, SHARE_MAX)
        } else {
            SHARE_MAX
        };
        let own = value.abs() * share / (1.0 - share);
        own.max(unit * lacks / (groups as f64).sqrt())
    }

    /// The same for a coordinate of which one step has this weight.
    pub fn in_steps(self, weight: f64) -> Self {
        Self {
            clip: self.clip / weight,
            length: self.length / weight,
            error: self.error / weight,
            rows: self.rows / weight,
            whole: self.whole / weight,
            ..self
        }
    }
}

impl Smoothed {
    pub(super) fn cut_at(&self, histogram: &Histogram, clip: f64) -> Cut {
        let (mut units, mut cut_bins) = (0.0, 0.0);
        for (bin, believed) in self.units.iter().enumerate() {
            if lost(histogram, bin, clip) > 0.0 {
                units += believed;
                cut_bins += 1.0;
            }
        }
        let is_exceeded = histogram.beyond > SHOWN * histogram.deviation;
        let beyond = if is_exceeded { histogram.beyond } else { 0.0 };
        let lost = |heaviest| self.lost_with_tail(histogram, clip, (heaviest, is_exceeded));
        let (length, error) = lost(HEAVIEST);
        let (likely_rows, rows_error) = lost(HEAVIEST_OF_ROWS);
        Cut {
            clip,
            units: units + beyond,
            units_error: histogram.deviation * f64::sqrt(cut_bins),
            of: self.units.iter().sum::<f64>() + beyond,
            beyond,
            length,
            error,
            rows: likely_rows + 1.645 * rows_error,
            whole: self.whole(histogram),
            growth: no_growth(),
        }
    }

    /// The length that the clip takes from all units together: the likeliest, and its standard
    /// deviation upwards. Units above the ceiling count as of the first bin above it.
    ///
    /// # Reference
    /// `docs/look.md`, intervals. Up to the last bin that shows, units are as counted. From there
    /// on each bin has the same share of the one before it. For each such share the height is
    /// fitted by least squares, and what is cut is a sum of independent noisy numbers. A share
    /// counts as far as the last two bins that show and all bins after them allow: the end of the
    /// interval is the furthest point of which the squares grow by less than SURE^2 (a profile
    /// likelihood).
    fn lost_with_tail(
        &self,
        histogram: &Histogram,
        clip: f64,
        (heaviest, is_exceeded): (f64, bool),
    ) -> (f64, f64) {
        let (counts, deviation) = (&histogram.counts, histogram.deviation);
        let mut last = self.last;
        while let Some(end) = beyond_a_gap(counts, last, &WINDOWS, SHOWN * deviation) {
            last = end;
        }
        let lost = |bin: usize| lost(histogram, bin, clip);
        let shown = 0..=last;
        let mut cut: f64 = shown.clone().map(|bin| counts[bin] * lost(bin)).sum();
        let mut squares: f64 = shown.map(|bin| lost(bin).powi(2)).sum();
        if let Some(ceiling) = histogram.edges.last().filter(|_| is_exceeded) {
            let of_each = ceiling * std::f64::consts::SQRT_2 - clip;
            cut += histogram.beyond * of_each;
            squares += of_each.powi(2);
        }
        let before = last.saturating_sub(1).max(fullest(counts).min(last));
        let fits: Vec<Fit> = (0..=STEPS)
            .map(|step| {
                let share = heaviest - STEP * f64::from(step);
                let falling = move |bins: usize| (0..).map(move |x| share.powi(x)).take(bins);
                let (_, off) = least_squares(&counts[before..=last], falling(last + 1 - before));
                let tail = &counts[last..];
                let (height, off_tail) = least_squares(tail, falling(tail.len()));
                let own: f64 = falling(tail.len()).map(|part| part * part).sum();
                let of_height: f64 = (last + 1..counts.len())
                    .zip(falling(tail.len()).skip(1))
                    .map(|(bin, part)| part * lost(bin))
                    .sum();
                Fit {
                    off: (off + off_tail) / deviation.powi(2),
                    cut: cut + height * of_height,
                    error: deviation * (squares + of_height.powi(2) / own).sqrt(),
                }
            })
            .collect();
        Fit::likeliest(&fits)
    }
}

/// What is cut if units go on in one way.
struct Fit {
    /// The squares that are left, in variances.
    off: f64,
    cut: f64,
    error: f64,
}

impl Fit {
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
            let left = SURE.powi(2) - (fit.off - least);
            match left > 0.0 {
                true => fit.cut + left.sqrt() * fit.error,
                false => likely,
            }
        });
        (likely, (ends.fold(likely, f64::max) - likely) / SURE)
    }
}
