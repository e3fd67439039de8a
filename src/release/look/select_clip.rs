//! The clip of a block, chosen from noisy numbers of units by length. Post-processing: it reads
//! released numbers and public facts alone.
//!
//! A clip C cuts units that are longer, and the noise of each sum grows with C. Both are estimated
//! from the histogram, and the candidate with the least sum of their squares is taken. Far bins
//! have few units, but as much noise as all others, and a clip at a bin that is 2^k times too long
//! has 2^k times the noise. So a smooth, falling tail is fitted where single bins do not show.

pub use clip_bias::{ClipBias, ClippedValues};

use crate::rewrite::{CandidateId, SEEN};
use clip_bias::no_growth;

mod clip_bias;

/// Noisy numbers of units in neighbouring bins of growing length, and how noisy they are.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Histogram {
    pub counts: Vec<f64>,
    /// The longest that a unit of each bin is, in the block's unit of length.
    pub edges: Vec<f64>,
    /// The standard deviation of each number.
    pub deviation: f64,
    /// The noisy number of units above the last edge.
    pub beyond: f64,
}

impl Histogram {
    /// What two looks at the same question show together: means, weighted by inverse variances.
    /// `None` where their bins differ.
    pub fn combine(&self, other: &Self) -> Option<Self> {
        let mut edges = self.edges.iter().zip(&other.edges);
        // Stored numbers are read back to the last digit or nearly so.
        let is_same = self.edges.len() == other.edges.len()
            && self.counts.len() == other.counts.len()
            && edges.all(|(own, other)| (own - other).abs() <= 1e-9 * own.abs());
        let deviation = combined_deviation(self.deviation, other.deviation);
        let weights = [self, other].map(|of| (deviation / of.deviation).powi(2));
        let mean = |own: f64, other: f64| own * weights[0] + other * weights[1];
        let counts = self.counts.iter().zip(&other.counts);
        is_same.then(|| Self {
            counts: counts.map(|(own, other)| mean(*own, *other)).collect(),
            edges: self.edges.clone(),
            deviation,
            beyond: mean(self.beyond, other.beyond),
        })
    }

    /// Whether two looks differ by no more than their noise, with a chance of 1 in 10,000 that
    /// looks at the same rows do: the sum of squares has about a chi-square distribution, whose
    /// quantile is that of Wilson and Hilferty (1931).
    pub fn is_plausibly_of_the_same_rows(&self, other: &Self) -> bool {
        let variance = self.deviation.powi(2) + other.deviation.powi(2);
        let pairs = self.counts.iter().zip(&other.counts);
        let pairs = pairs.chain(std::iter::once((&self.beyond, &other.beyond)));
        let squares: f64 = pairs.map(|(own, other)| (own - other).powi(2)).sum();
        let degrees = (self.counts.len() + 1) as f64;
        let spread = 2.0 / (9.0 * degrees);
        let quantile = degrees * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
        squares <= quantile * variance
    }
}

/// The deviation of the mean of two numbers that is weighted by inverse variances.
pub fn combined_deviation(one: f64, other: f64) -> f64 {
    1.0 / (1.0 / one).hypot(1.0 / other)
}

/// The sums to be drawn: their number, and the noise of each per unit of length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawnSums {
    pub cells: f64,
    pub noise: f64,
}

/// A chosen clip, and the amount that it cuts as far as the histogram shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    pub candidate: CandidateId,
    pub cut: ClipBias,
}

/// The factor by which the privacy parameter would have to be larger for a clip to be chosen,
/// estimated from the noisy numbers; `None` where these may be noise alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortfall(pub Option<f64>);

const WINDOWS: [usize; 4] = [1, 2, 4, 8];

/// The least sum of a window, in standard deviations, for a hint how much more epsilon would do. A
/// smaller sum may well be noise.
const HINT: f64 = 3.0;

/// The least sum of some window, in standard deviations, where the look sees fewer units than
/// [`TIMES`] times the number that equals the noise of all groups. With few units in many groups,
/// one look in a hundred sees a bump of noise, and a clip that follows it is far too long.
const SURE: f64 = 6.0;

const TIMES: f64 = 5.0;

/// The least sum of a window beyond a gap, in its standard deviations, that counts as units. A clip
/// that follows noise is far too long: this happens in one of 100,000 looks.
const GAP_DEVIATIONS: f64 = 5.5;

/// The part of the error of what is cut, standard deviations of the look, that counts as cut when a
/// clip is chosen. The error assumes the heaviest tail that the look allows, which few data have;
/// without any of it, clips are too low where there are many units, and noise hides some long ones.
const ERROR_SHARE: f64 = 0.2;

/// The candidate with the least estimated error, of clips that are two to a bin, in ascending
/// order.
///
/// # Errors
/// Where too few units are seen to choose: see [`Shortfall`].
pub fn choose(histogram: &Histogram, clips: &[f64], sums: DrawnSums) -> Result<Choice, Shortfall> {
    let strength = strength(histogram);
    if strength < SEEN {
        let is_hint = strength >= HINT;
        return Err(Shortfall(is_hint.then(|| (SEEN + 1.0) / strength)));
    }
    let of_noise = |clip: f64, noise: f64| sums.cells.sqrt() * clip * noise;
    let units = Smoothed::of(histogram);
    // Noise grows with the clip. With a clip as long as all units, it equals this number of units.
    let hidden = of_noise(1.0, sums.noise);
    let times = (TIMES * hidden / units.number()).min(SURE / strength);
    if times > 1.0 {
        return Err(Shortfall(times.is_finite().then_some(times)));
    }
    let tails = units.tails_of_choice(histogram);
    let shown: Vec<f64> = clips.iter().map(|c| units.cut(histogram, *c)).collect();
    let unseen = clips
        .iter()
        .map(|clip| ERROR_SHARE * tails.lost_length(*clip).1);
    let cuts = shown.iter().zip(unseen).map(|(cut, more)| cut.hypot(more));
    let cuts: Vec<f64> = cuts.collect();
    let best = |noise: f64| {
        let errors = clips.iter().zip(&cuts);
        let errors = errors.map(|(clip, cut)| cut.hypot(of_noise(*clip, noise)));
        let best = errors.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map(|(candidate, _)| candidate)
    };
    let candidate = best(sums.noise).ok_or(Shortfall(None))?;
    let mut growth = no_growth();
    for (halvings, times) in (1..).zip(&mut growth) {
        let candidate_then = best(sums.noise / 2f64.powi(halvings)).ok_or(Shortfall(None))?;
        *times = clips[candidate_then] / clips[candidate];
    }
    let error = shown[candidate].hypot(of_noise(clips[candidate], sums.noise));
    let whole = units.whole(histogram);
    // An answer whose error is larger than its value says nothing.
    if error >= whole {
        return Err(Shortfall((whole > 0.0).then(|| error / whole)));
    }
    Ok(Choice {
        candidate: CandidateId(candidate),
        cut: ClipBias {
            growth,
            ..units.cut_at(histogram, clips[candidate])
        },
    })
}

/// About how many units the histogram shows, and the standard deviation of that number.
pub fn total(histogram: &Histogram) -> (f64, f64) {
    let all: f64 = histogram.counts.iter().sum::<f64>() + histogram.beyond;
    let bins = histogram.counts.len() as f64 + 1.0;
    (all.max(0.0), histogram.deviation * bins.sqrt())
}

/// The most that a window of bins holds, in standard deviations of its noise.
fn strength(histogram: &Histogram) -> f64 {
    let of_width = |width: &usize| {
        let deviation = histogram.deviation * (*width as f64).sqrt();
        let windows = histogram.counts.windows(*width);
        windows
            .map(|window| window.iter().sum::<f64>() / deviation)
            .fold(f64::NEG_INFINITY, f64::max)
    };
    WINDOWS
        .iter()
        .map(of_width)
        .fold(f64::NEG_INFINITY, f64::max)
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
        let tail = Tail::fit(counts, fullest, last);
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

    /// The bell that fits best, where no single bin stands out.
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

    /// The length that the clip takes from all units together.
    fn cut(&self, histogram: &Histogram, clip: f64) -> f64 {
        let bins = self.units.iter().enumerate();
        bins.map(|(bin, units)| units * lost_length(histogram, bin, clip))
            .sum()
    }

    /// How many units there are.
    fn number(&self) -> f64 {
        self.units.iter().sum()
    }

    /// The lengths of all units together.
    fn whole(&self, histogram: &Histogram) -> f64 {
        let bins = self.units.iter().enumerate();
        bins.map(|(bin, units)| units * middle(histogram, bin))
            .sum()
    }
}

/// A falling, log-concave tail: `height exp(slope x + bend x^2)`, x bins past the last that shows.
struct Tail {
    height: f64,
    slope: f64,
    bend: f64,
}

impl Tail {
    fn fit(counts: &[f64], fullest: usize, last: usize) -> Self {
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
        } else if let Some(end) =
            beyond_a_gap(counts, last, &WINDOWS[1..], GAP_DEVIATIONS * deviation)
        {
            end - last
        } else {
            return last;
        };
    }
}

/// The end of a window past the last bin, of one of these widths, whose sum stands out by `least`
/// times the root of its width.
fn beyond_a_gap(counts: &[f64], last: usize, widths: &[usize], least: f64) -> Option<usize> {
    widths.iter().find_map(|width| {
        let least = least * (*width as f64).sqrt();
        let mut windows = counts[last + 1..].windows(*width);
        let at = windows.position(|window| window.iter().sum::<f64>() > least)?;
        Some(last + at + width)
    })
}

/// The least length of a unit of the bin; for the first bin, half its edge.
fn lowest(histogram: &Histogram, bin: usize) -> f64 {
    match bin.checked_sub(1) {
        Some(before) => histogram.edges[before],
        None => histogram.edges[0] / 2.0,
    }
}

fn middle(histogram: &Histogram, bin: usize) -> f64 {
    (lowest(histogram, bin) * histogram.edges[bin]).sqrt()
}

/// The length that a clip takes from a unit of the bin, on average over its two halves. All of a
/// half is scaled by the ratio of the clip and the half's edge.
fn lost_length(histogram: &Histogram, bin: usize, clip: f64) -> f64 {
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
