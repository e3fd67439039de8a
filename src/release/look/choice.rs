//! The clip of a block, chosen from noisy numbers of units by length. Post-processing: it reads
//! released numbers and public facts alone.
//!
//! A clip C cuts units that are longer, and the noise of each sum grows with C. Both are estimated
//! from the histogram, and the candidate with the least sum of their squares is taken. Far bins
//! hold few units and a noise of the same size as all others; a bin that is 2^k too far costs 2^k
//! times the noise. So a smooth, falling tail is fitted where single bins do not show.

use crate::rewrite::SEEN;

/// Noisy numbers of units in neighbouring bins of growing length, and how noisy they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub counts: Vec<f64>,
    /// The longest that a unit of each bin is, in the block's unit of length.
    pub edges: Vec<f64>,
    /// The standard deviation of each number.
    pub deviation: f64,
    /// The noisy number of units above the last edge.
    pub beyond: f64,
}

/// What the sums are to be: how many there are, and what noise each gets per unit of length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sums {
    pub cells: f64,
    pub noise: f64,
}

/// A chosen clip, and what it cuts as far as the histogram shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub candidate: usize,
    pub cut: Cut,
}

/// What a clip takes from the sums, in the block's unit of length. Estimates from noisy numbers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cut {
    /// The clip.
    pub clip: f64,
    /// Units that are longer than the clip, and the standard deviation of that number.
    pub units: f64,
    pub units_error: f64,
    /// All units that the histogram shows.
    pub of: f64,
    /// What is taken from all of them together, at most, if units beyond the last bin that shows
    /// have a light tail.
    pub length: f64,
    /// What a heavy tail there adds to it.
    #[serde(default)]
    pub tail: f64,
    /// The length of all of them together, before the clip.
    pub whole: f64,
    /// How many times this clip would be chosen for a half of the noise, for a quarter, and so on:
    /// the less noise there is, the less is worth cutting.
    #[serde(default = "no_growth")]
    pub growth: [f64; HALVINGS],
}

/// How often the noise is halved in [`Cut::growth`].
const HALVINGS: usize = 7;

fn no_growth() -> [f64; HALVINGS] {
    [1.0; HALVINGS]
}

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

    /// The share of all lengths that is cut, at most.
    pub fn share(&self) -> f64 {
        if self.whole > 0.0 {
            (self.length / self.whole).clamp(0.0, SHARE_MAX)
        } else {
            SHARE_MAX
        }
    }

    /// What one of this many groups lacks at most, in the unit of its value, of which one unit of
    /// length is this many.
    ///
    /// What all groups lack, as a vector, is no longer than what all units lack. Groups that lack
    /// as much as each other lack that over the root of their number. Groups that lack in
    /// proportion to their values lack the share that is cut. The larger of both is taken.
    pub fn of_group(&self, value: f64, groups: usize, unit: f64) -> f64 {
        let share = self.share();
        let own = UNEVEN * value.abs() * share / (1.0 - share);
        own.max(unit * self.length / (groups as f64).sqrt())
    }

    /// The same for a coordinate of which one step has this weight.
    pub fn in_steps(self, weight: f64) -> Self {
        Self {
            clip: self.clip / weight,
            length: self.length / weight,
            tail: self.tail / weight,
            whole: self.whole / weight,
            ..self
        }
    }
}

/// How many times a group's share of what is cut may exceed the mean.
const UNEVEN: f64 = 1.5;

/// The most of all lengths that counts as cut: past it the histogram says too little.
const SHARE_MAX: f64 = 0.5;

const WINDOWS: [usize; 4] = [1, 2, 4, 8];

/// How many units a bin beyond the last that shows has, as a share of the bin before it, which is
/// shorter by the root of two: tails of Pareto's law, with an index of 2 and of 1.3. The mean cut
/// of many groups needs the light one, a single sum the heavy one (see the tests).
const LIGHT: f64 = 0.495;
const HEAVY: f64 = 0.635;

/// Standard deviations to the end of a one-sided 95 % interval.
const SURE: f64 = 1.645;

/// How many of its standard deviations the sum of a window beyond a gap must have to be units. Of
/// some hundred windows of noise, one in a thousand looks has that much.
const FAR: f64 = 4.5;

/// The candidate with the least estimated error, of clips that are two to a bin, in ascending
/// order; `None` where too few units are seen to choose.
pub fn choose(histogram: &Histogram, clips: &[f64], sums: Sums) -> Option<Choice> {
    if !is_seen(histogram) {
        return None;
    }
    let units = Smoothed::of(histogram);
    let best = |noise: f64| {
        let errors = clips.iter().map(|clip| {
            let cut = units.cut(histogram, *clip);
            (cut * cut + sums.cells * (clip * noise).powi(2)).sqrt()
        });
        errors.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    let (candidate, error) = best(sums.noise)?;
    let mut growth = no_growth();
    for (halvings, times) in (1..).zip(&mut growth) {
        let (candidate_then, _) = best(sums.noise / 2f64.powi(halvings))?;
        *times = clips[candidate_then] / clips[candidate];
    }
    let whole = units.whole(histogram);
    // An answer whose error is larger than all of it says nothing.
    (error < whole).then(|| Choice {
        candidate,
        cut: Cut {
            growth,
            ..units.cut_at(histogram, clips[candidate], whole)
        },
    })
}

/// About how many units the histogram shows, and the standard deviation of that number.
pub fn total(histogram: &Histogram) -> (f64, f64) {
    let all: f64 = histogram.counts.iter().sum::<f64>() + histogram.beyond;
    let bins = histogram.counts.len() as f64 + 1.0;
    (all.max(0.0), histogram.deviation * bins.sqrt())
}

/// Whether some window of bins holds more than noise would.
fn is_seen(histogram: &Histogram) -> bool {
    WINDOWS.iter().any(|width| {
        let least = SEEN * histogram.deviation * (*width as f64).sqrt();
        histogram
            .counts
            .windows(*width)
            .any(|window| window.iter().sum::<f64>() >= least)
    })
}

/// Numbers of units as they are believed: the body as counted, the tail as fitted.
struct Smoothed {
    units: Vec<f64>,
    /// The last bin that shows.
    last: usize,
}

impl Smoothed {
    fn of(histogram: &Histogram) -> Self {
        let Histogram {
            counts, deviation, ..
        } = histogram;
        let fullest = fullest(counts);
        if counts[fullest] < 4.5 * deviation {
            return Self::bump(histogram);
        }
        let last = last_shown(counts, fullest, *deviation);
        let mut units: Vec<f64> = counts[..=last].iter().map(|n| n.max(0.0)).collect();
        let tail = Tail::fitted(counts, fullest, last);
        let mut before = counts[last].max(0.0);
        for (beyond, count) in (1..).zip(&counts[last + 1..]) {
            let most = if beyond == 1 {
                count.max(0.0) + 0.7 * deviation
            } else {
                0.6 * before
            };
            let fitted = tail.at(f64::from(beyond)).min(most);
            before = fitted;
            let is_real = count - fitted > (3.3 + f64::from(beyond) / 4.0) * deviation
                || *count > 5.0 * deviation;
            units.push(if is_real { *count } else { fitted });
        }
        Self { units, last }
    }

    /// Where no single bin stands out: the bell that fits best.
    fn bump(histogram: &Histogram) -> Self {
        let Histogram {
            counts, deviation, ..
        } = histogram;
        let bell = |centre: f64, width: f64| {
            (0..counts.len()).map(move |bin| (-((bin as f64 - centre) / width).powi(2) / 2.0).exp())
        };
        let mut best = (f64::INFINITY, 0.0, 0.0, 1.4);
        for width in [1.4, 2.0, 3.0, 4.0] {
            for half in 0..=2 * counts.len() {
                let centre = half as f64 / 2.0;
                let (height, rest) = least_squares(counts, bell(centre, width));
                if rest < best.0 {
                    best = (rest, height, centre, width);
                }
            }
        }
        let (_, height, centre, width) = best;
        let units: Vec<f64> = bell(centre, width).map(|shape| height * shape).collect();
        let last = units.iter().rposition(|n| n > deviation);
        let last = last.unwrap_or_else(|| fullest(&units));
        Self { units, last }
    }

    /// What the clip takes from all units together.
    fn cut(&self, histogram: &Histogram, clip: f64) -> f64 {
        let bins = self.units.iter().enumerate();
        bins.map(|(bin, units)| units * lost(histogram, bin, clip))
            .sum()
    }

    fn whole(&self, histogram: &Histogram) -> f64 {
        let bins = self.units.iter().enumerate();
        bins.map(|(bin, units)| units * middle(histogram, bin))
            .sum()
    }

    fn cut_at(&self, histogram: &Histogram, clip: f64, whole: f64) -> Cut {
        let (mut units, mut cut_bins) = (0.0, 0.0);
        for (bin, believed) in self.units.iter().enumerate() {
            if lost(histogram, bin, clip) > 0.0 {
                units += believed;
                cut_bins += 1.0;
            }
        }
        let light = self.most_cut(histogram, clip, LIGHT);
        Cut {
            clip,
            units,
            units_error: histogram.deviation * f64::sqrt(cut_bins),
            of: self.units.iter().sum(),
            length: light,
            tail: (self.most_cut(histogram, clip, HEAVY) - light).max(0.0),
            whole,
            growth: no_growth(),
        }
    }

    /// The most that the clip takes from all units together, in 95 of 100 looks, if from the last
    /// bin that shows on each bin has this share of the units of the one before it.
    ///
    /// # Reference
    /// `docs/look.md`, intervals. The tail's height is fitted by least squares to the bins beyond
    /// the last that shows, so what is cut is a sum of independent noisy numbers: the body's, and
    /// the height.
    fn most_cut(&self, histogram: &Histogram, clip: f64, ratio: f64) -> f64 {
        let (body, beyond) = histogram.counts.split_at(self.last + 1);
        let shape: Vec<f64> = (1..).map(|x| ratio.powi(x)).take(beyond.len()).collect();
        let (height, _) = least_squares(beyond, shape.iter().copied());
        let squares: f64 = shape.iter().map(|share| share * share).sum();
        let lost = |bin: usize| lost(histogram, bin, clip);
        let (mut cut, mut variance) = (0.0, 0.0);
        for bin in 0..body.len() {
            cut += self.units[bin] * lost(bin);
            variance += lost(bin).powi(2);
        }
        let mut of_height = 0.0;
        for (bin, share) in (body.len()..).zip(&shape) {
            cut += self.units[bin].max(height * share) * lost(bin);
            of_height += share * lost(bin);
        }
        if squares > 0.0 {
            variance += of_height * of_height / squares;
        }
        cut + SURE * histogram.deviation * variance.sqrt()
    }
}

/// A falling, log-concave tail: `height exp(slope x + bend x^2)`, x bins past the last that shows.
struct Tail {
    height: f64,
    slope: f64,
    bend: f64,
}

impl Tail {
    fn fitted(counts: &[f64], fullest: usize, last: usize) -> Self {
        let first = fullest.saturating_sub(1);
        let end = (last + 3).min(counts.len());
        let window = &counts[first..end];
        let mut best = (
            f64::INFINITY,
            Self {
                height: 0.0,
                slope: -0.2,
                bend: -0.02,
            },
        );
        for slope in (1..=12).map(|step| -0.2 * f64::from(step)) {
            for bend in [-0.02, -0.05, -0.1, -0.2, -0.4, -0.6] {
                let shape = (first..end).map(|bin| {
                    let x = bin as f64 - last as f64;
                    (slope * x + bend * x * x).exp()
                });
                let (height, rest) = least_squares(window, shape);
                if rest < best.0 {
                    best = (
                        rest,
                        Self {
                            height,
                            slope,
                            bend,
                        },
                    );
                }
            }
        }
        best.1
    }

    fn at(&self, x: f64) -> f64 {
        self.height * (self.slope * x + self.bend * x * x).exp()
    }
}

/// The non-negative multiple of a shape that is nearest to the counts, and the squares that are
/// left.
fn least_squares(counts: &[f64], shape: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (mut both, mut own) = (0.0, 0.0);
    for (count, shape) in counts.iter().zip(shape.clone()) {
        both += count * shape;
        own += shape * shape;
    }
    let height = if own > 0.0 {
        (both / own).max(0.0)
    } else {
        0.0
    };
    let rest = counts
        .iter()
        .zip(shape)
        .map(|(count, shape)| (count - height * shape).powi(2))
        .sum();
    (height, rest)
}

fn fullest(counts: &[f64]) -> usize {
    let by_count = counts.iter().enumerate();
    by_count
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map_or(0, |(bin, _)| bin)
}

/// The last bin reached from the fullest by one, two or four bins that show, or across a gap: units
/// of another kind may be far longer.
fn last_shown(counts: &[f64], fullest: usize, deviation: f64) -> usize {
    let mut last = fullest;
    loop {
        let sum = |bins: usize| -> f64 {
            let next = counts.get(last + 1..last + 1 + bins);
            next.map_or(f64::NEG_INFINITY, |next| next.iter().sum())
        };
        last += if sum(1) > 2.5 * deviation {
            1
        } else if sum(2) > 2.5 * std::f64::consts::SQRT_2 * deviation {
            2
        } else if sum(4) > 2.7 * 2.0 * deviation {
            4
        } else if let Some(end) = beyond_a_gap(counts, last, deviation) {
            end - last
        } else {
            return last;
        };
    }
}

/// The end of a window of several bins past the last one whose sum noise would not have.
fn beyond_a_gap(counts: &[f64], last: usize, deviation: f64) -> Option<usize> {
    WINDOWS[1..].iter().find_map(|width| {
        let least = FAR * deviation * (*width as f64).sqrt();
        let mut windows = counts[last + 1..].windows(*width);
        let at = windows.position(|window| window.iter().sum::<f64>() > least)?;
        Some(last + at + width)
    })
}

/// The least that a unit of the bin is long, but for the first bin, whose least is half its edge.
fn lowest(histogram: &Histogram, bin: usize) -> f64 {
    match bin.checked_sub(1) {
        Some(before) => histogram.edges[before],
        None => histogram.edges[0] / 2.0,
    }
}

fn middle(histogram: &Histogram, bin: usize) -> f64 {
    (lowest(histogram, bin) * histogram.edges[bin]).sqrt()
}

/// What a clip takes from a unit of the bin, on average over its two halves. All of a half is
/// scaled by the ratio of the clip and the half's edge.
fn lost(histogram: &Histogram, bin: usize, clip: f64) -> f64 {
    let (low, high) = (lowest(histogram, bin), histogram.edges[bin]);
    let middle = (low * high).sqrt();
    let of_half = |low: f64, high: f64| {
        if high <= clip {
            0.0
        } else {
            (low * high).sqrt() * (1.0 - clip / high)
        }
    };
    (of_half(low, middle) + of_half(middle, high)) / 2.0
}

#[cfg(test)]
mod tests;
