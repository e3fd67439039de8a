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
    /// What is taken from all of them together, at most: the estimate, one standard deviation of
    /// it, and what a light tail beyond the last bin that shows adds.
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

const WINDOWS: [usize; 4] = [1, 2, 4, 8];

/// How many units a bin beyond the last that shows may have, as a share of the bin before it, which
/// is shorter by the root of two. By a light tail, what they add falls by 0.7 from bin to bin. The
/// heavy one is Pareto's with an index of 1.3: intervals with it hold in 94 of 100 draws or more
/// for units of log-normal and Pareto length, with giants and without (see the tests).
const LIGHT: f64 = 0.7 * std::f64::consts::FRAC_1_SQRT_2;
const HEAVY: f64 = 0.635;

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
        let deviation = histogram.deviation;
        let (mut variance, mut units, mut cut_bins) = (0.0, 0.0, 0.0);
        let (mut light, mut heavy) = (0.0, 0.0);
        let most = (self.units[self.last] + deviation).min(2.0 * deviation);
        for (bin, believed) in self.units.iter().enumerate() {
            let lost = lost(histogram, bin, clip);
            if lost > 0.0 {
                units += believed;
                cut_bins += 1.0;
            }
            if *believed > deviation {
                variance += lost * lost;
            }
            if bin > self.last {
                let past = (bin - self.last) as f64;
                light += most * LIGHT.powf(past) * lost;
                heavy += most * HEAVY.powf(past) * lost;
            }
        }
        Cut {
            clip,
            units,
            units_error: deviation * f64::sqrt(cut_bins),
            of: self.units.iter().sum(),
            length: self.cut(histogram, clip) + deviation * variance.sqrt() + light,
            tail: heavy - light,
            whole,
            growth: no_growth(),
        }
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

/// The last bin reached from the fullest by one, two or four bins that show.
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
        } else {
            return last;
        };
    }
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
mod tests {
    use super::*;
    use crate::mechanism::Noise;
    use crate::mechanism::testing::Seeded;

    fn seeded(seed: u64) -> Seeded {
        Seeded::new(seed)
    }

    fn normal(random: &mut Seeded) -> f64 {
        let noise = Noise::Gaussian { sigma: 1 << 30 };
        noise.sample(random).unwrap() as f64 / 2f64.powi(30)
    }

    /// Two bins an octave, and clips four an octave, from 1 on.
    fn histogram(counts: Vec<f64>, deviation: f64) -> (Histogram, Vec<f64>) {
        let edges = (1..=counts.len()).map(|bin| 2f64.powf(bin as f64 / 2.0));
        let clips = (1..=2 * counts.len()).map(|step| 2f64.powf(step as f64 / 4.0));
        let histogram = Histogram {
            edges: edges.collect(),
            deviation,
            beyond: 0.0,
            counts,
        };
        (histogram, clips.collect())
    }

    const SUMS: Sums = Sums {
        cells: 1.0,
        noise: 8.0,
    };

    /// Log-normal lengths about 2^(centre / 2), of this many units.
    fn bell(bins: usize, centre: f64, units: f64) -> Vec<f64> {
        let shape = (0..bins).map(|bin| (-((bin as f64 - centre) / 3.0).powi(2) / 2.0).exp());
        let shape: Vec<f64> = shape.collect();
        let whole: f64 = shape.iter().sum();
        shape.iter().map(|n| n * units / whole).collect()
    }

    /// The error of the clip that is best for the true numbers, and of another one.
    fn error(truth: &Histogram, clip: f64, sums: Sums) -> f64 {
        let lost = truth.counts.iter().enumerate();
        let lost: f64 = lost
            .map(|(bin, units)| units * lost_of(truth, bin, clip))
            .sum();
        (lost * lost + sums.cells * (clip * sums.noise).powi(2)).sqrt()
    }

    fn lost_of(histogram: &Histogram, bin: usize, clip: f64) -> f64 {
        lost(histogram, bin, clip)
    }

    #[test]
    fn the_chosen_clip_is_nearly_as_good_as_the_best() {
        let mut random = seeded(7);
        let mut logarithms = 0.0;
        for (centre, cells) in [(12.0, 1.0), (20.0, 53.0), (33.5, 12.0), (50.0, 1.0)] {
            let sums = Sums { cells, ..SUMS };
            let (truth, clips) = histogram(bell(80, centre, 2_500.0), 15.0);
            let best = clips.iter().map(|clip| error(&truth, *clip, sums));
            let best = best.fold(f64::INFINITY, f64::min);
            let mut squares = 0.0;
            for _ in 0..200 {
                let noisy = truth.counts.iter().map(|n| n + 15.0 * normal(&mut random));
                let seen = Histogram {
                    counts: noisy.collect(),
                    ..truth.clone()
                };
                let choice = choose(&seen, &clips, sums).unwrap();
                squares += error(&truth, clips[choice.candidate], sums).powi(2);
            }
            let ratio = (squares / 200.0).sqrt() / best;
            logarithms += ratio.ln();
            assert!(ratio < 2.0, "{centre}, {cells}: {ratio}");
        }
        let mean = (logarithms / 4.0).exp();
        assert!(mean < 1.5, "{mean}");
    }

    /// False alarms: about 0.7 of 100 by the law of the windows' sums; 2 of 100 fail the test.
    #[test]
    fn nothing_is_chosen_where_nobody_is() {
        let mut random = seeded(11);
        let chosen = (0..10_000).filter(|_| {
            let noise = (0..80).map(|_| 15.0 * normal(&mut random)).collect();
            let (seen, clips) = histogram(noise, 15.0);
            choose(&seen, &clips, SUMS).is_some()
        });
        assert!(chosen.count() < 200);
    }

    /// Log-normal lengths of this many units, and some that are far longer.
    fn lengths(random: &mut Seeded, spread: f64, giants: &[f64]) -> Vec<f64> {
        let body = (0..2_500).map(|_| 1_000.0 * (spread * normal(random)).exp());
        let body: Vec<f64> = body.collect();
        giants.iter().copied().chain(body).collect()
    }

    /// How often value, noise and the stated cut hold the exact sum, in this many looks.
    fn held(random: &mut Seeded, lengths: &[f64], mu: f64, looks: usize) -> f64 {
        let (plain, clips) = histogram(vec![0.0; 44], 1.0 / (mu * 0.3f64.sqrt()));
        let noise = 1.0 / (mu * 0.7f64.sqrt());
        let sums = Sums { cells: 1.0, noise };
        let bin = |length: &f64| plain.edges.iter().position(|edge| length <= edge).unwrap();
        let mut truth = plain.counts.clone();
        lengths.iter().for_each(|length| truth[bin(length)] += 1.0);
        let hold = (0..looks).filter(|_| {
            let noisy = truth.iter().map(|n| n + plain.deviation * normal(random));
            let seen = Histogram {
                counts: noisy.collect(),
                ..plain.clone()
            };
            let Some(choice) = choose(&seen, &clips, sums) else {
                return true;
            };
            let clip = clips[choice.candidate];
            // A unit is scaled by the ratio of the clip and its own bin's edge.
            let scaled = |length: &f64| {
                let edge = clips.iter().find(|edge| *length <= **edge).unwrap();
                length * (1.0 - clip / edge).max(0.0)
            };
            let lost: f64 = lengths.iter().map(scaled).sum();
            let off = clip * noise * normal(random) - lost;
            let margin = 1.96 * clip * noise;
            off <= margin && -off <= margin + choice.cut.length + choice.cut.tail
        });
        hold.count() as f64 / looks as f64
    }

    /// The seed decides: 150 looks of an interval that holds in 94 of 100 hold in 88 or more but
    /// for one time in a thousand.
    #[test]
    fn intervals_hold_whatever_the_tail() {
        let mut random = seeded(20_261_124);
        let wholesale = [30e3, 42e3, 60e3, 80e3, 100e3, 120e3];
        for (spread, giants) in [
            (0.4, &[][..]),
            (1.3, &[]),
            (1.3, &wholesale),
            (1.3, &[300e3]),
        ] {
            let lengths = lengths(&mut random, spread, giants);
            for mu in [0.155, 0.217, 0.42] {
                let held = held(&mut random, &lengths, mu, 150);
                assert!(held > 0.88, "{spread}, {giants:?}, {mu}: {held}");
            }
        }
    }

    /// A far bin of noise is not followed; one of fifty units is.
    #[test]
    fn a_far_bin_counts_where_it_stands_out() {
        let mut counts = bell(80, 20.0, 2_500.0);
        let (plain, clips) = histogram(counts.clone(), 15.0);
        let near = choose(&plain, &clips, SUMS).unwrap();
        counts[60] = 40.0;
        let (noise, clips) = histogram(counts.clone(), 15.0);
        assert_eq!(
            choose(&noise, &clips, SUMS).unwrap().candidate,
            near.candidate
        );
        counts[60] = 500.0;
        let (giants, clips) = histogram(counts, 15.0);
        let far = choose(&giants, &clips, SUMS).unwrap();
        assert!(far.candidate > near.candidate + 20);
        assert!(far.cut.length > 0.0 && far.cut.units < 3_100.0);
    }
}
