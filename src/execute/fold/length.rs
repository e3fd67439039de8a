//! The length of a unit's vector, and its bin.

use num_bigint::BigUint;
use num_traits::ToPrimitive;

/// A squared length: in sixteen bytes while it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Squared {
    Small(u128),
    Large(BigUint),
}

impl Default for Squared {
    fn default() -> Self {
        Self::Small(0)
    }
}

impl Squared {
    /// Adds the square of a value times its weight.
    pub fn add(&mut self, weight: &BigUint, value: i64) {
        let magnitude = u128::from(value.unsigned_abs());
        if let Self::Small(sum) = self {
            let weighed = weight.to_u128().and_then(|w| w.checked_mul(magnitude));
            let squared = weighed.and_then(|length| length.checked_mul(length));
            if let Some(total) = squared.and_then(|squared| sum.checked_add(squared)) {
                *sum = total;
                return;
            }
        }
        let weighed = weight * magnitude;
        let total = &weighed * &weighed + self.clone().whole();
        *self = Self::Large(total);
    }

    fn whole(self) -> BigUint {
        match self {
            Self::Small(sum) => sum.into(),
            Self::Large(sum) => sum,
        }
    }
}

/// Edges of bins, as squared lengths in ascending order.
#[derive(Debug, Clone)]
pub struct BinEdges {
    small: Vec<u128>,
    large: Vec<BigUint>,
}

impl BinEdges {
    pub fn new(all: &[BigUint]) -> Self {
        let small: Vec<u128> = all.iter().map_while(ToPrimitive::to_u128).collect();
        Self {
            large: all[small.len()..].to_vec(),
            small,
        }
    }

    /// How many of them do not exceed a squared length.
    pub fn bin(&self, squared: &Squared) -> u32 {
        let number = match squared {
            Squared::Small(squared) => self.small.partition_point(|edge| edge <= squared),
            Squared::Large(squared) => {
                self.small.len() + self.large.partition_point(|edge| edge <= squared)
            }
        };
        number as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_in_the_bin_of_the_edges_that_do_not_exceed_it() {
        let edges = [1u128, 5, 1 << 90, u128::MAX].map(BigUint::from);
        let edges = [&edges[..], &[BigUint::from(u128::MAX) * 2u8]].concat();
        let thresholds = BinEdges::new(&edges);
        let bin = |weight: u128, value: i64| {
            let mut squared = Squared::default();
            squared.add(&BigUint::from(weight), value);
            thresholds.bin(&squared)
        };
        assert_eq!(bin(1, 0), 0);
        assert_eq!(bin(1, -1), 1);
        assert_eq!(bin(1, 2), 1);
        assert_eq!(bin(1, 3), 2);
        assert_eq!(bin(1 << 45, 1), 3);
        assert_eq!(bin(1 << 63, 3), 5);
        assert_eq!(bin(u128::MAX, i64::MIN), 5);
    }

    #[test]
    fn squares_add_up_past_sixteen_bytes() {
        let mut squared = Squared::default();
        for _ in 0..8 {
            squared.add(&BigUint::from(1u8), i64::MAX);
        }
        let one = BigUint::from(i64::MAX.unsigned_abs());
        assert_eq!(squared.whole(), &one * &one * 8u8);
    }
}
