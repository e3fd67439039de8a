//! Arithmetic of values with known noise: first-order propagation over shared, independent draws,
//! Fieller's interval for quotients. Post-processing.

/// A value, what each independent draw adds to it (signed standard deviations), and an interval
/// that holds the exact value in at least 95 of 100 cases.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    pub value: f64,
    noise: Vec<f64>,
    /// Variance of the second-order terms, which are products of draws.
    rest: f64,
    /// How much lower, and how much higher, the exact value may be because of what a chosen clip
    /// cut.
    cut: (f64, f64),
    /// What the value would be if no chosen clip had cut anything, as far as a look shows; `None`
    /// where that is not known.
    pub uncut: Option<f64>,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            noise: Vec::new(),
            rest: 0.0,
            cut: (0.0, 0.0),
            uncut: Some(value),
            low: value,
            high: value,
        }
    }

    /// A value whose interval reaches `z` standard errors to each side.
    pub fn new(value: f64, noise: Vec<f64>, z: f64) -> Self {
        Self {
            value,
            noise,
            rest: 0.0,
            cut: (0.0, 0.0),
            uncut: None,
            low: value,
            high: value,
        }
        .around(z)
    }

    /// The value with what it would be without cuts.
    pub fn without_cuts(self, uncut: Option<f64>) -> Self {
        Self { uncut, ..self }
    }

    /// How much lower or higher the exact value may be, apart from noise.
    pub fn cut_by(self, lower: f64, higher: f64) -> Self {
        Self {
            cut: (self.cut.0 + lower, self.cut.1 + higher),
            low: self.low - lower,
            high: self.high + higher,
            ..self
        }
    }

    /// Known by its bounds only: half their distance counts as its error.
    pub fn from_bounds(low: f64, high: f64) -> Self {
        let half = (high - low) / 2.0;
        Self {
            value: low + half,
            noise: Vec::new(),
            rest: half * half,
            cut: (0.0, 0.0),
            uncut: None,
            low,
            high,
        }
    }

    /// What each independent draw adds.
    pub fn draws(&self) -> &[f64] {
        &self.noise
    }

    /// The standard error.
    pub fn error(&self) -> f64 {
        self.variance().sqrt()
    }

    fn variance(&self) -> f64 {
        self.noise.iter().map(|n| n * n).sum::<f64>() + self.rest
    }

    fn covariance(&self, other: &Self) -> f64 {
        self.noise
            .iter()
            .zip(&other.noise)
            .map(|(a, b)| a * b)
            .sum()
    }

    pub fn is_exact(&self) -> bool {
        self.variance() == 0.0
    }

    /// The value with the normal interval of its error.
    fn around(self, z: f64) -> Self {
        let half = z * self.error();
        Self {
            low: self.value - half - self.cut.0,
            high: self.value + half + self.cut.1,
            ..self
        }
    }

    /// The value with one more independent error, of this variance.
    pub fn with_variance(self, variance: f64, z: f64) -> Self {
        let wider = |side: f64| side.hypot(z * variance.sqrt());
        let (low, high) = (self.value - self.low, self.high - self.value);
        Self {
            rest: self.rest + variance,
            low: self.value - self.cut.0 - wider(low - self.cut.0),
            high: self.value + self.cut.1 + wider(high - self.cut.1),
            ..self
        }
    }

    /// The value with another interval.
    pub fn between(self, low: f64, high: f64) -> Self {
        Self { low, high, ..self }
    }

    /// Clamps value and interval to what is possible.
    pub fn within(self, low: f64, high: f64) -> Self {
        let clamp = |v: f64| v.max(low).min(high);
        Self {
            value: clamp(self.value),
            uncut: self.uncut.map(clamp),
            low: clamp(self.low),
            high: clamp(self.high),
            ..self
        }
    }

    /// A growing function, applied to value and interval alone.
    pub fn map(self, grow: impl Fn(f64) -> f64) -> Self {
        Self {
            value: grow(self.value),
            uncut: self.uncut.map(&grow),
            low: grow(self.low),
            high: grow(self.high),
            ..self
        }
    }

    pub fn shift(self, by: f64) -> Self {
        self.map(|v| v + by)
    }

    pub fn scale(self, by: f64) -> Self {
        let (one, other) = (self.low * by, self.high * by);
        Self {
            value: self.value * by,
            noise: self.noise.iter().map(|n| n * by).collect(),
            rest: self.rest * by * by,
            cut: times_cut(self.cut, by),
            uncut: self.uncut.map(|v| v * by),
            low: one.min(other),
            high: one.max(other),
        }
    }

    /// `self + factor * other`.
    pub fn plus(&self, factor: f64, other: &Self, z: f64) -> Self {
        if other.is_exact() {
            return self.clone().shift(factor * other.value);
        }
        if self.is_exact() {
            return other.clone().scale(factor).shift(self.value);
        }
        let rest = self.rest + factor * factor * other.rest;
        Self {
            value: self.value + factor * other.value,
            noise: combine(&self.noise, 1.0, &other.noise, factor),
            rest,
            cut: both_cut(self.cut, times_cut(other.cut, factor)),
            uncut: self.both_uncut(other, |a, b| a + factor * b),
            ..self.clone()
        }
        .around(z)
    }

    /// A product's error to second order: Var(ab) = Var(b da + a db) + Var a Var b + Cov(a, b)^2
    /// for normal errors.
    pub fn times(&self, other: &Self, z: f64) -> Self {
        if other.is_exact() {
            return self.clone().scale(other.value);
        }
        if self.is_exact() {
            return other.clone().scale(self.value);
        }
        let noise = combine(&self.noise, other.value, &other.noise, self.value);
        let first = other.value.powi(2) * self.rest + self.value.powi(2) * other.rest;
        let rest = first + self.variance() * other.variance() + self.covariance(other).powi(2);
        Self {
            value: self.value * other.value,
            noise,
            rest,
            cut: both_cut(
                times_cut(self.cut, other.value),
                times_cut(other.cut, self.value),
            ),
            uncut: self.both_uncut(other, |a, b| a * b),
            ..self.clone()
        }
        .around(z)
    }

    /// A quotient A / B: the error by the delta method, the interval Fieller's, all t with (A - t
    /// B)^2 <= z^2 Var(A - t B); without ends where B may be 0.
    ///
    /// # Reference
    /// Fieller 1954, "Some problems in interval estimation", section 3.
    pub fn over(&self, other: &Self, z: f64) -> Option<Self> {
        if other.value == 0.0 {
            return None;
        }
        if other.is_exact() {
            return Some(self.clone().scale(1.0 / other.value));
        }
        let ratio = self.value / other.value;
        let noise = combine(
            &self.noise,
            1.0 / other.value,
            &other.noise,
            -ratio / other.value,
        );
        let rest = (self.rest + ratio * ratio * other.rest) / other.value.powi(2);
        // Each end also allows for what may have been cut on the other side of the quotient.
        let ((low_a, high_a), (low_b, high_b)) = (self.cut, other.cut);
        let ends = [
            self.fieller(other, (-low_a, high_b), z).0,
            self.fieller(other, (-low_a, -low_b), z).0,
            self.fieller(other, (high_a, high_b), z).1,
            self.fieller(other, (high_a, -low_b), z).1,
        ];
        let plain = self.fieller(other, (0.0, 0.0), z);
        Some(Self {
            value: ratio,
            noise,
            rest,
            cut: (
                plain.0 - ends[0].min(ends[1]),
                ends[2].max(ends[3]) - plain.1,
            ),
            uncut: self.both_uncut(other, |a, b| a / b),
            low: ends[0].min(ends[1]),
            high: ends[2].max(ends[3]),
        })
    }

    fn both_uncut(&self, other: &Self, join: impl Fn(f64, f64) -> f64) -> Option<f64> {
        let both = join(self.uncut?, other.uncut?);
        both.is_finite().then_some(both)
    }

    /// Fieller's interval of a quotient whose two values are shifted first.
    fn fieller(&self, other: &Self, (by_a, by_b): (f64, f64), z: f64) -> (f64, f64) {
        let (value, divisor) = (self.value + by_a, other.value + by_b);
        let (a, b, both) = (
            z * z * self.variance(),
            z * z * other.variance(),
            z * z * self.covariance(other),
        );
        let lead = divisor.powi(2) - b;
        if lead <= 0.0 {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        let middle = value * divisor - both;
        let root = (middle * middle - lead * (value.powi(2) - a))
            .max(0.0)
            .sqrt();
        ((middle - root) / lead, (middle + root) / lead)
    }

    /// e to this power.
    pub fn exponential(self) -> Self {
        let slope = self.value.exp();
        let noise = self.noise.iter().map(|n| n * slope).collect();
        Self {
            noise,
            rest: self.rest * slope * slope,
            cut: times_cut(self.cut, slope),
            ..self.map(f64::exp)
        }
    }

    /// The square root; 0 of a negative value.
    pub fn root(self) -> Self {
        let slope = 0.5 / self.value.max(self.error()).max(f64::MIN_POSITIVE).sqrt();
        let noise = self.noise.iter().map(|n| n * slope).collect();
        Self {
            noise,
            rest: self.rest * slope * slope,
            ..self.map(|v| v.max(0.0).sqrt())
        }
    }
}

fn times_cut((lower, higher): (f64, f64), by: f64) -> (f64, f64) {
    if by < 0.0 {
        (-higher * by, -lower * by)
    } else {
        (lower * by, higher * by)
    }
}

fn both_cut(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0 + other.0, one.1 + other.1)
}

fn combine(a: &[f64], by_a: f64, b: &[f64], by_b: f64) -> Vec<f64> {
    let at = |list: &[f64], i: usize| list.get(i).copied().unwrap_or(0.0);
    (0..a.len().max(b.len()))
        .map(|i| at(a, i) * by_a + at(b, i) * by_b)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Estimate;

    const Z: f64 = 1.959_964;

    #[test]
    fn draws_that_two_values_share_cancel() {
        let (a, b) = (
            Estimate::new(10.0, vec![3.0, 0.0], Z),
            Estimate::new(4.0, vec![3.0, 4.0], Z),
        );
        assert_eq!(a.plus(-1.0, &b, Z).error(), 4.0);
        assert_eq!(a.plus(1.0, &b, Z).error(), 6f64.hypot(4.0));
        assert!(a.over(&a, Z).unwrap().error() < 1e-12);
    }

    #[test]
    fn quotients_by_what_may_be_zero_have_no_ends() {
        let found = Estimate::new(5.0, vec![1.0, 0.0], Z)
            .over(&Estimate::new(1.0, vec![0.0, 1.0], Z), Z)
            .unwrap();
        assert_eq!((found.low, found.high), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(
            Estimate::new(5.0, vec![1.0], Z)
                .over(&Estimate::exact(0.0), Z)
                .is_none()
        );
    }

    #[test]
    fn known_numbers_move_and_stretch_an_interval() {
        let found = Estimate::new(5.0, vec![1.0], 2.0)
            .over(&Estimate::exact(-0.5), 2.0)
            .unwrap()
            .plus(-1.0, &Estimate::exact(3.0), 2.0);
        assert_eq!(
            (found.value, found.error(), found.low, found.high),
            (-13.0, 2.0, -17.0, -9.0)
        );
    }

    /// What a value would be without cuts goes through arithmetic as the value does.
    #[test]
    fn values_without_cuts_are_computed_alike() {
        let cut =
            |value: f64, uncut: f64| Estimate::new(value, vec![0.1], Z).without_cuts(Some(uncut));
        let (sum, rows) = (cut(90.0, 100.0), cut(9.5, 10.0));
        assert_eq!(sum.over(&rows, Z).unwrap().uncut, Some(10.0));
        assert_eq!(sum.times(&rows, Z).uncut, Some(1_000.0));
        assert_eq!(sum.plus(-2.0, &rows, Z).uncut, Some(80.0));
        assert_eq!(sum.clone().root().uncut, Some(10.0));
        assert_eq!(sum.clone().scale(-0.5).shift(1.0).uncut, Some(-49.0));
        assert_eq!(sum.clone().within(0.0, 95.0).uncut, Some(95.0));
        assert_eq!(sum.times(&Estimate::exact(2.0), Z).uncut, Some(200.0));
        let unknown = Estimate::new(5.0, vec![0.1], Z);
        assert_eq!(sum.plus(1.0, &unknown, Z).uncut, None);
    }

    #[test]
    fn an_exponential_stretches_the_error_by_its_slope() {
        let found = Estimate::new(2f64.ln(), vec![0.1], 2.0).exponential();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(
            near(found.value, 2.0) && near(found.error(), 0.2),
            "{found:?}"
        );
        assert!(near(found.low, 2.0 * (-0.2f64).exp()), "{found:?}");
        assert!(near(found.high, 2.0 * 0.2f64.exp()), "{found:?}");
    }

    /// A grid of standard normal quantiles stands for the draws: Fieller's interval covers where
    /// the delta method's is off.
    #[test]
    fn the_interval_of_a_quotient_covers_as_promised() {
        let quantiles: Vec<f64> = (0..200)
            .map(|i| crate::mechanism::normal::quantile((f64::from(i) + 0.5) / 200.0))
            .collect();
        let (total, rows, shared) = (600.0, 200.0, 30.0);
        let (mut covered, mut asked) = (0u32, 0u32);
        for x in &quantiles {
            for y in &quantiles {
                let a = Estimate::new(total + 120.0 * x + shared * y, vec![120.0, shared], Z);
                let found = a
                    .over(&Estimate::new(rows + 40.0 * y, vec![0.0, 40.0], Z), Z)
                    .unwrap();
                asked += 1;
                covered += u32::from((found.low..=found.high).contains(&(total / rows)));
            }
        }
        let share = f64::from(covered) / f64::from(asked);
        assert!((0.945..=0.97).contains(&share), "{share}");
    }
}
