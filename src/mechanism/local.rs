//! The local model: each value was randomised before it was stored, so that a *report* is right by
//! chance alone. What reports say of the true values, how far that is off, and what a report costs
//! its person.
//!
//! Nothing here draws: the values were randomised elsewhere. An estimate from reports is
//! post-processing of them.

use super::exp::exp;
use super::rappor::Rappor;

/// How reports were made of true values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Randomiser {
    /// A report of one of two values: the true one with probability `truth`, else the second of the
    /// list with probability `yes` and the first otherwise.
    Coin { truth: f64, yes: f64 },
    /// A report of one value of a list: the true value is `e^epsilon` times as likely as each other
    /// one.
    KRr { epsilon: f64 },
    /// One bit for each value, of which the true value's is set with probability `one` and each
    /// other with probability `zero`.
    Unary { one: f64, zero: f64 },
    /// One bit for a number within bounds, which is the more often set the larger the number is.
    Mean { epsilon: f64 },
    /// The bits of a Bloom filter.
    Rappor(Rappor),
}

impl Randomiser {
    /// Optimised unary encoding at this epsilon: the true value's bit says nothing alone, the
    /// others are rarely set.
    ///
    /// # Reference
    /// Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
    /// estimation", section 4.3.
    pub fn optimised_unary(epsilon: f64) -> Self {
        Self::Unary {
            one: 0.5,
            zero: 1.0 / (exp(epsilon) + 1.0),
        }
    }

    /// Its name in the policy file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Coin { .. } => "coin",
            Self::KRr { .. } => "krr",
            Self::Unary { .. } => "unary",
            Self::Mean { .. } => "mean",
            Self::Rappor(_) => "rappor",
        }
    }

    /// The epsilon that one report of a list of `values` values costs its person; infinite where
    /// some report excludes a true value. For `Unary`, all of a person's bits together; for
    /// `Rappor`, all reports of a value together.
    ///
    /// # Guarantee
    /// No report is more than `e^epsilon` times as likely under one true value as under another,
    /// if reports were made as declared.
    ///
    /// # Requires
    /// The declared odds are those with which the reports were made: pgveil did not make them.
    ///
    /// # Reference
    /// Warner 1965, "Randomized response"; Wang et al. 2017, section 4.
    pub fn epsilon(&self) -> f64 {
        match *self {
            Self::Coin { truth, yes } => Channel::of_coin(truth, yes).epsilon(),
            Self::KRr { epsilon } | Self::Mean { epsilon } => epsilon,
            Self::Unary { one, zero } => Channel::new(one, zero).log_odds_ratio(),
            Self::Rappor(of) => of.epsilon_of_all(),
        }
    }

    /// What a report among the values at these places in a list of `values` says: whether the true
    /// value is among them. `None` where it says nothing, or where the randomiser is of numbers or
    /// of filters.
    /// `Unary` has a list of two, whether the bit is clear or set.
    pub fn channel(&self, places: &[usize], values: usize) -> Option<Channel> {
        let of_two = |second: Channel| match places {
            [0] => Some(second.complement()),
            [1] => Some(second),
            _ => None,
        };
        let channel = match *self {
            _ if places.is_empty() => return None,
            _ if places.len() == values => Channel::new(1.0, 0.0),
            Self::Coin { truth, yes } => of_two(Channel::of_coin(truth, yes))?,
            Self::Unary { one, zero } => of_two(Channel::new(one, zero))?,
            Self::KRr { epsilon } => Channel::of_krr(epsilon, values).among(places.len()),
            Self::Mean { .. } | Self::Rappor(_) => return None,
        };
        (channel.hit > channel.miss).then_some(channel)
    }
}

impl Rappor {
    /// How a bit of a report depends on whether the value sets it.
    pub fn channel(&self) -> Channel {
        let Self { f, p, q, .. } = self;
        let by_chance = f * (p + q) / 2.0;
        Channel::new(by_chance + (1.0 - f) * q, by_chance + (1.0 - f) * p)
    }

    /// The epsilon of all reports of one value together; infinite where no bit is permanent.
    ///
    /// # Reference
    /// Erlingsson et al. 2014, Theorem 1.
    pub fn epsilon_of_all(&self) -> f64 {
        let lie = self.f / 2.0;
        2.0 * f64::from(self.hashes) * ((1.0 - lie) / lie).ln()
    }

    /// The epsilon of one report, to whoever sees no other report of the value.
    ///
    /// # Reference
    /// Erlingsson et al. 2014, Theorem 2.
    pub fn epsilon_of_one(&self) -> f64 {
        f64::from(self.hashes) * self.channel().log_odds_ratio()
    }
}

/// Whether a report is among some values, given whether the true value is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// P(the report is among them), where the true value is.
    hit: f64,
    /// P(the report is among them), where the true value is not.
    miss: f64,
}

impl Channel {
    pub fn new(hit: f64, miss: f64) -> Self {
        Self { hit, miss }
    }

    /// A coin: the report is the second value.
    fn of_coin(truth: f64, yes: f64) -> Self {
        let by_chance = (1.0 - truth) * yes;
        Self::new(truth + by_chance, by_chance)
    }

    /// One of this many values.
    fn of_krr(epsilon: f64, values: usize) -> Self {
        let others = values as f64 - 1.0;
        // In this form, no epsilon is too large.
        let share = (-epsilon).exp();
        Self::new(1.0 / (1.0 + others * share), share / (1.0 + others * share))
    }

    /// The channel of any of this many values in place of one.
    fn among(self, values: usize) -> Self {
        let values = values as f64;
        Self::new(self.hit + (values - 1.0) * self.miss, values * self.miss)
    }

    /// Whether the report is among the other values.
    fn complement(self) -> Self {
        Self::new(1.0 - self.miss, 1.0 - self.hit)
    }

    pub fn miss(&self) -> f64 {
        self.miss
    }

    /// How much more likely a report is among the values where the true value is: the estimate
    /// divides by it.
    pub fn gain(&self) -> f64 {
        self.hit - self.miss
    }

    /// The largest log ratio of the two laws of one bit; infinite where a report excludes a value.
    fn epsilon(&self) -> f64 {
        let up = (self.hit / self.miss).ln();
        up.max(((1.0 - self.miss) / (1.0 - self.hit)).ln())
    }

    /// The log ratio of two persons' bits where one has the value and the other another: two bits
    /// differ in law.
    fn log_odds_ratio(&self) -> f64 {
        (self.hit * (1.0 - self.miss) / (self.miss * (1.0 - self.hit))).ln()
    }

    /// The variance of an estimate of how many of `reports` true values are among the values, where
    /// `with` of them are.
    ///
    /// # Guarantee
    /// With `(c - miss n) / (hit - miss)` for the estimate, where `c` of `n` reports are among the
    /// values: its expectation is `with`, and its variance, given the true values, is
    /// `(with hit (1 - hit) + (n - with) miss (1 - miss)) / (hit - miss)^2`.
    ///
    /// # Requires
    /// Reports were drawn independently of each other.
    ///
    /// # Reference
    /// Wang et al. 2017, section 3, equation 2.
    pub fn variance(&self, reports: f64, with: f64) -> f64 {
        let reports = reports.max(0.0);
        let with = with.clamp(0.0, reports);
        let of_hits = with * self.hit * (1.0 - self.hit);
        let of_misses = (reports - with) * self.miss * (1.0 - self.miss);
        (of_hits + of_misses) / self.gain().powi(2)
    }
}

/// The numbers that a clear and a set bit stand for: their mean over a person's possible bits is
/// the person's number.
///
/// # Reference
/// Duchi, Jordan, Wainwright 2018, "Minimax optimal procedures for locally private estimation",
/// section 4.1: for `t` in `[-1, 1]` the bit is set with probability `(1 + t c) / 2`, where
/// `c = (e^epsilon - 1) / (e^epsilon + 1)`, and stands for `±1/c`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneBit {
    pub clear: f64,
    pub set: f64,
}

impl OneBit {
    /// The values that the bit stands for, for numbers between these bounds.
    pub fn new(epsilon: f64, (lower, upper): (f64, f64)) -> Self {
        let half = (upper - lower) / 2.0;
        let reach = half / (epsilon / 2.0).tanh();
        Self {
            clear: lower + half - reach,
            set: lower + half + reach,
        }
    }

    /// Whether estimates stay far within what a double holds: at most 1e30.
    pub fn is_in_range(&self) -> bool {
        [self.clear, self.set].iter().all(|end| end.abs() <= 1e30)
    }

    /// How far apart the two numbers are.
    pub fn width(&self) -> f64 {
        self.set - self.clear
    }

    /// The most that one report's variance can be: that of a number in the middle of the bounds.
    pub fn variance(&self) -> f64 {
        (self.width() / 2.0).powi(2)
    }

    /// The epsilon above which continuous reports (the piecewise mechanism) have a smaller worst
    /// variance than one bit has.
    ///
    /// # Reference
    /// Wang et al. 2019, "Collecting and analyzing multidimensional data with local differential
    /// privacy", section 3.
    pub const PIECEWISE_FROM: f64 = 1.29;
}

#[cfg(test)]
mod tests {
    use num_rational::BigRational;
    use num_traits::ToPrimitive;

    use super::*;

    fn near(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() <= within, "{found} {wanted}");
    }

    /// The two coins of the literature: half truth and half chance costs ln 3 both ways, and a bit
    /// that is right with probability 1/2 ± 1/10 costs ln 1.5.
    #[test]
    fn coins_cost_what_their_odds_are() {
        let half = Randomiser::Coin {
            truth: 0.5,
            yes: 0.5,
        };
        near(half.epsilon(), 3f64.ln(), 1e-12);
        let lecture = Randomiser::Coin {
            truth: 0.2,
            yes: 0.5,
        };
        near(lecture.epsilon(), 0.405, 1e-3);
        let p = 1f64.exp() / (1.0 + 1f64.exp());
        let warner = Randomiser::Coin {
            truth: 2.0 * p - 1.0,
            yes: 0.5,
        };
        near(warner.epsilon(), 1.0, 1e-12);
        // No truth of another value: a report of it excludes nothing.
        let certain = Randomiser::Coin {
            truth: 1.0,
            yes: 0.5,
        };
        assert_eq!(certain.epsilon(), f64::INFINITY);
    }

    /// RAPPOR with f = p = 1/2, q = 3/4 and two hash functions, which set two bits each.
    #[test]
    fn bits_cost_what_rappor_states() {
        let hashes = 2.0;
        let (f, p, q) = (0.5, 0.5, 0.75);
        let permanent = Randomiser::Unary {
            one: 1.0 - f / 2.0,
            zero: f / 2.0,
        };
        near(hashes * permanent.epsilon(), 4.3944, 1e-4);
        let shared = f * (p + q) / 2.0;
        let (one, zero) = (shared + (1.0 - f) * q, shared + (1.0 - f) * p);
        assert_eq!((one, zero), (0.6875, 0.5625));
        let instantaneous = Randomiser::Unary { one, zero };
        near(hashes * instantaneous.epsilon(), 1.0743, 1e-4);
        near(Randomiser::optimised_unary(1.0).epsilon(), 1.0, 1e-12);
    }

    /// Variances a report at epsilon 1, of a value that nobody has.
    #[test]
    fn variances_are_those_of_the_literature() {
        let of = |randomiser: Randomiser, place: &[usize], values| {
            let channel = randomiser.channel(place, values).unwrap();
            channel.variance(1.0, 0.0)
        };
        near(of(Randomiser::optimised_unary(1.0), &[1], 2), 3.683, 1e-3);
        near(of(Randomiser::KRr { epsilon: 1.0 }, &[3], 16), 5.662, 1e-3);
        let half = 0.5f64.exp() / (0.5f64.exp() + 1.0);
        let symmetric = Randomiser::Unary {
            one: half,
            zero: 1.0 - half,
        };
        near(symmetric.epsilon(), 1.0, 1e-12);
        near(of(symmetric, &[1], 2), 3.918, 1e-3);
        // n (k - 2 + e^eps) / (e^eps - 1)^2, and n 4 e^eps / (e^eps - 1)^2.
        for epsilon in [0.3f64, 1.0, 2.5] {
            let e = epsilon.exp();
            let krr = of(Randomiser::KRr { epsilon }, &[0], 7);
            near(krr, (5.0 + e) / (e - 1.0).powi(2), 1e-9);
            let unary = of(Randomiser::optimised_unary(epsilon), &[1], 2);
            near(unary, 4.0 * e / (e - 1.0).powi(2), 1e-9);
        }
        near(OneBit::new(1.0, (-1.0, 1.0)).variance(), 4.683, 1e-3);
    }

    /// The worst variance of the piecewise mechanism, at the ends of the range, crosses that of one
    /// bit at the constant.
    #[test]
    fn one_bit_is_the_better_one_up_to_the_constant() {
        let piecewise = |epsilon: f64, t: f64| {
            let e = (epsilon / 2.0).exp();
            t * t / (e - 1.0) + (e + 3.0) / (3.0 * (e - 1.0).powi(2))
        };
        near(piecewise(1.0, 0.0), 3.682, 1e-3);
        let one_bit = |epsilon: f64| OneBit::new(epsilon, (-1.0, 1.0)).variance();
        let at = OneBit::PIECEWISE_FROM;
        assert!(one_bit(at - 0.01) < piecewise(at - 0.01, 1.0));
        assert!(one_bit(at + 0.01) > piecewise(at + 0.01, 1.0));
    }

    /// The expectation of the estimate over all reports of a few persons is the true number, and
    /// its variance is as stated: in fractions, of the very odds that are computed with.
    #[test]
    fn estimates_are_right_on_average_and_off_as_stated() {
        let coin = Randomiser::Coin {
            truth: 0.4,
            yes: 0.3,
        };
        let unary = Randomiser::optimised_unary(0.7);
        let krr = Randomiser::KRr { epsilon: 0.9 };
        let cases: [(Randomiser, &[usize], usize); 6] = [
            (coin, &[0], 2),
            (coin, &[1], 2),
            (unary, &[1], 2),
            (unary, &[0], 2),
            (krr, &[1], 3),
            (krr, &[0, 2], 3),
        ];
        let exact = |number: f64| BigRational::from_float(number).unwrap();
        let whole = |number: u32| BigRational::from_integer(number.into());
        for (randomiser, places, values) in cases {
            let channel = randomiser.channel(places, values).unwrap();
            let (hit, miss) = (exact(channel.hit), exact(channel.miss));
            let gain = &hit - &miss;
            for truly in 0..=4u32 {
                let (mut mean, mut square) = (whole(0), whole(0));
                for reports in 0..16u32 {
                    let of_person = |person: u32| {
                        let among = if person < truly { &hit } else { &miss };
                        match reports >> person & 1 {
                            1 => among.clone(),
                            _ => whole(1) - among,
                        }
                    };
                    let likely = (0..4).map(of_person).product::<BigRational>();
                    let counted = whole(reports.count_ones());
                    let estimate = (counted - &miss * whole(4)) / &gain;
                    mean += &likely * &estimate;
                    square += likely * &estimate * &estimate;
                }
                assert_eq!(mean, whole(truly));
                let [of_hits, of_misses] = [&hit, &miss].map(|odds| odds * (whole(1) - odds));
                let stated = whole(truly) * of_hits + whole(4 - truly) * of_misses;
                let stated = stated / &gain / &gain;
                assert_eq!(square - &mean * &mean, stated);
                let computed = channel.variance(4.0, f64::from(truly));
                near(computed / stated.to_f64().unwrap(), 1.0, 1e-12);
            }
        }
    }

    /// For each pair of true values, every report's odds are at most those that are stated.
    #[test]
    fn no_report_tells_more_than_its_epsilon() {
        for epsilon in [0.2f64, 1.0, 3.0] {
            for values in 2..6 {
                let channel = Channel::of_krr(epsilon, values);
                near((channel.hit / channel.miss).ln(), epsilon, 1e-9);
                near(channel.hit + (values - 1) as f64 * channel.miss, 1.0, 1e-12);
            }
            let bit = |t: f64| {
                let OneBit { clear, set } = OneBit::new(epsilon, (-1.0, 1.0));
                (t - clear) / (set - clear)
            };
            near((bit(1.0) / bit(-1.0)).ln(), epsilon, 1e-9);
            near(((1.0 - bit(-1.0)) / (1.0 - bit(1.0))).ln(), epsilon, 1e-9);
        }
    }

    /// Reports that say nothing, and randomisers of numbers, answer no such question.
    #[test]
    fn what_says_nothing_has_no_channel() {
        let mute = Randomiser::Coin {
            truth: 0.0,
            yes: 0.5,
        };
        assert_eq!(mute.channel(&[1], 2), None);
        assert_eq!(Randomiser::Mean { epsilon: 1.0 }.channel(&[1], 2), None);
        let krr = Randomiser::KRr { epsilon: 1.0 };
        assert_eq!(krr.channel(&[], 4), None);
        assert_eq!(krr.channel(&[0, 1, 2, 3], 4), Some(Channel::new(1.0, 0.0)));
    }
}
