//! Closed intervals of numbers.

/// Every number from `lo` to `hi`, both included; infinite ends mean that nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub lo: f64,
    pub hi: f64,
}

impl Interval {
    pub const ALL: Self = Self {
        lo: f64::NEG_INFINITY,
        hi: f64::INFINITY,
    };

    pub fn new(lo: f64, hi: f64) -> Self {
        Self { lo, hi }
    }

    pub fn point(value: f64) -> Self {
        Self {
            lo: value,
            hi: value,
        }
    }

    pub fn is_finite(self) -> bool {
        self.lo.is_finite() && self.hi.is_finite()
    }

    pub fn contains(self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    pub fn within(self, outer: Self) -> bool {
        outer.lo <= self.lo && self.hi <= outer.hi
    }

    /// Smallest interval that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self {
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
        }
    }

    /// Values in both; `self` where the two do not meet (an empty relation clips to anything).
    pub fn meet(self, other: Self) -> Self {
        let met = Self {
            lo: self.lo.max(other.lo),
            hi: self.hi.min(other.hi),
        };
        if met.lo <= met.hi { met } else { self }
    }

    /// Where its values lie once they are clamped to `limit`.
    pub fn clamp_to(self, limit: Self) -> Self {
        Self {
            lo: self.lo.max(limit.lo).min(limit.hi),
            hi: self.hi.min(limit.hi).max(limit.lo),
        }
    }

    /// The interval with each end moved outward by this share of its magnitude.
    pub fn widen(self, share: f64) -> Self {
        Self {
            lo: self.lo - self.lo.abs() * share,
            hi: self.hi + self.hi.abs() * share,
        }
    }

    pub fn magnitude(self) -> f64 {
        self.lo.abs().max(self.hi.abs())
    }
}
