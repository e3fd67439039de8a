//! The clip in eight-byte integers: a norm that is never too small, a limit that is never too
//! large, and both fast to compute.
//!
//! Let F be the weight of a coordinate and 2^s the unit of length. `v` is measured as
//! `u = |v| a / d` (whole numbers, rounded up), where `a / d >= F / 2^s`. So
//! `2^s u >= F |v|`, zero is measured as zero, and the norm of the u, times 2^s, is at least the
//! norm of the weighted vector.
//! The limit K is `C / 2^s`, rounded down.
//!
//! # Why all groups of a unit are scaled, instead of some being dropped
//!
//! The other way to bound a unit in d groups is to keep k of them. Let what it adds to one group be
//! at most b long, and let C = sqrt(k) b (L1: k b) in both cases. The whole vector is at most
//! sqrt(d) b (L1: d b) long, so scaling keeps a share min(1, C / length) >= sqrt(k / d) (L1: k / d)
//! of each group's part. If k groups are chosen by a hash, a part is kept whole with probability
//! k / d and else lost. Scaling therefore loses at most what choosing loses on average (in L2 a
//! share 1 - sqrt(k / d) instead of 1 - k / d). It does not vary, while choosing adds a variance of
//! (1 - k / d) k / d times the part's square. So scaling is never worse, whatever the number of
//! groups and the values are, and the planner has nothing to choose. Groups are capped only where
//! keys are released by threshold, whose delta needs a cap.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};
use sqlparser::ast::{self, BinaryOperator as B};

use crate::catalog::Type;
use crate::mechanism::Norm;
use crate::rewrite::emit::sql;

/// Bits of the limit. Squares of four times the limit, for 63 coordinates, add up within eight
/// bytes; plain lengths need less room.
fn bits(norm: Norm, coordinates: usize) -> u64 {
    let more = u64::from(usize::BITS - coordinates.leading_zeros()).saturating_sub(6);
    match norm {
        Norm::L2 => 26 - more.min(20),
        Norm::L1 => 33 - more.min(20),
    }
}

/// Largest value of a coordinate that reaches the clip. It can be doubled in eight bytes.
pub(super) const VALUE_BITS: u64 = 62;

/// How one coordinate is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scale {
    multiplier: BigUint,
    divisor: BigUint,
}

/// How a unit's vector is measured and cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    norm: Norm,
    /// K.
    pub limit: BigUint,
    /// s.
    shift: u64,
    scales: Vec<Scale>,
    /// Each coordinate is first clamped to this u, which is far above the limit.
    most: BigUint,
}

/// The bound C with room for what measuring rounds up, so that no unit within the given bound is
/// scaled: at most 2^-12 more, and a unit of length for each coordinate of each of `groups` groups.
pub fn roomy(bound: &BigUint, norm: Norm, coordinates: usize, groups: u64) -> BigUint {
    let shift = bound.bits().saturating_sub(bits(norm, coordinates));
    if shift == 0 {
        return bound.clone();
    }
    let cells = BigUint::from(groups.max(1)) * coordinates.max(1);
    let rounded = match norm {
        Norm::L2 => cells.sqrt() + 1u8,
        Norm::L1 => cells,
    };
    let coarse = match norm {
        Norm::L2 => bound >> 15u8,
        Norm::L1 => bound >> 12u8,
    };
    bound + coarse + ((rounded + 2u8) << shift)
}

impl Clip {
    /// # Guarantee
    /// A vector that [`Clip::norm`] measures as within the limit has a weighted norm of at most
    /// `bound`; one scaled by [`Clip::factor`] too.
    ///
    /// # Requires
    /// Every coordinate lies within [`Clip::clamp`].
    pub fn new(bound: &BigUint, weights: &[BigUint], norm: Norm) -> Self {
        let bits = bits(norm, weights.len());
        // `roomy` may have added a bit.
        let shift = bound.bits().saturating_sub(bits + 1);
        let fine = 60 - bits - 1;
        let scale = |weight: &BigUint| {
            let whole = BigUint::one() << shift;
            if shift == 0 {
                Scale {
                    multiplier: weight.clone(),
                    divisor: whole,
                }
            } else if weight << (fine / 2) < whole {
                // Of the two forms, this one rounds less for a small weight.
                Scale {
                    multiplier: BigUint::one(),
                    divisor: whole / weight,
                }
            } else {
                let multiplier = ((weight << fine) + &whole - 1u8) >> shift;
                Scale {
                    multiplier,
                    divisor: BigUint::one() << fine,
                }
            }
        };
        let scales = weights.iter().map(scale).collect();
        Self {
            norm,
            limit: bound >> shift,
            shift,
            scales,
            most: BigUint::one() << (bits + 2),
        }
    }

    /// A coordinate of one unit and group in eight bytes. Only values far above the clip change
    /// here; the norm is bounded afterwards.
    pub fn clamp(&self, at: usize, value: ast::Expr) -> ast::Expr {
        let Scale {
            multiplier,
            divisor,
        } = &self.scales[at];
        let most = ((&self.most * divisor) / multiplier).max(BigUint::one());
        let most = most
            .min(BigUint::one() << VALUE_BITS)
            .to_u64()
            .unwrap_or(1 << VALUE_BITS);
        eight_bytes(value, most)
    }

    /// One group's part of the norm, squared in L2.
    pub fn norm(&self, values: &[ast::Expr]) -> ast::Expr {
        let terms = values.iter().zip(&self.scales).map(
            |(
                value,
                Scale {
                    multiplier,
                    divisor,
                },
            )| {
                let mut length = sql::call("abs", vec![value.clone()]);
                if !multiplier.is_one() {
                    length = sql::binary(
                        length,
                        B::Multiply,
                        sql::number_literal(&multiplier.to_string()),
                    );
                }
                if self.shift > 0 {
                    length = rounded_up(length, divisor);
                }
                match self.norm {
                    Norm::L2 => sql::binary(length.clone(), B::Multiply, length),
                    Norm::L1 => length,
                }
            },
        );
        terms
            .reduce(|a, b| sql::binary(a, B::Plus, b))
            .unwrap_or_else(|| sql::number_literal("0"))
    }

    /// The norm where it exceeds the limit, else NULL.
    pub fn excess(&self, norm: ast::Expr) -> ast::Expr {
        let limit = self.norm.norm_summand(self.limit.clone());
        let limit = sql::number_literal(&limit.to_string());
        sql::call(
            "nullif",
            vec![sql::call("greatest", vec![norm, limit.clone()]), limit],
        )
    }

    /// The value scaled by `limit / norm`, in exact integers: `div` rounds towards zero.
    pub fn factor(&self, value: ast::Expr, refined: &BigUint, norm: ast::Expr) -> ast::Expr {
        let norm = sql::cast(norm, &Type::Numeric(None));
        let divisor = match self.norm {
            Norm::L2 => above_root(norm),
            Norm::L1 => norm,
        };
        let value = sql::binary(
            sql::cast(value, &Type::Numeric(None)),
            B::Multiply,
            sql::number_literal(&(refined * &self.limit).to_string()),
        );
        sql::call("div", vec![value, divisor])
    }
}

/// The quotient of a length of at most `1 << VALUE_BITS`, rounded up. For a divisor whose sum with
/// the length would not fit eight bytes: the quotient rounded down, plus one.
fn rounded_up(length: ast::Expr, divisor: &BigUint) -> ast::Expr {
    let of = |length| sql::binary(length, B::Divide, sql::number_literal(&divisor.to_string()));
    if has_room(divisor) {
        let most = divisor - 1u8;
        of(sql::binary(
            length,
            B::Plus,
            sql::number_literal(&most.to_string()),
        ))
    } else {
        sql::binary(of(length), B::Plus, sql::number_literal("1"))
    }
}

fn has_room(divisor: &BigUint) -> bool {
    divisor.bits() <= VALUE_BITS
}

/// The value, clamped to at most this magnitude, as an int8.
pub(super) fn eight_bytes(value: ast::Expr, most: u64) -> ast::Expr {
    let lowest = sql::number_literal(&format!("-{most}"));
    let kept = sql::call(
        "least",
        vec![
            sql::call("greatest", vec![value, lowest]),
            sql::number_literal(&most.to_string()),
        ],
    );
    sql::cast(kept, &Type::Int8)
}

/// A whole number above the square root, whatever numeric's square root rounds to.
pub(in crate::rewrite) fn above_root(squared: ast::Expr) -> ast::Expr {
    sql::binary(
        sql::call("floor", vec![sql::call("sqrt", vec![squared])]),
        B::Plus,
        sql::number_literal("1"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole numbers that the emitted terms compute.
    fn measured(clip: &Clip, values: &[i64]) -> BigUint {
        let lengths = values.iter().zip(&clip.scales).map(
            |(
                value,
                Scale {
                    multiplier,
                    divisor,
                },
            )| {
                let length = BigUint::from(value.unsigned_abs()) * multiplier;
                if clip.shift == 0 {
                    length
                } else if has_room(divisor) {
                    (length + (divisor - 1u8)) / divisor
                } else {
                    length / divisor + 1u8
                }
            },
        );
        lengths.map(|length| clip.norm.norm_summand(length)).sum()
    }

    fn weighted(norm: Norm, weights: &[BigUint], values: &[i64]) -> BigUint {
        let each = values
            .iter()
            .zip(weights)
            .map(|(v, w)| w * v.unsigned_abs());
        each.map(|length| norm.norm_summand(length)).sum()
    }

    fn limit(clip: &Clip) -> BigUint {
        clip.norm.norm_summand(clip.limit.clone())
    }

    #[test]
    fn whoever_is_measured_within_the_limit_is_within_the_bound() {
        for norm in [Norm::L2, Norm::L1] {
            for bound_bits in [4u32, 20, 26, 27, 40, 63, 90] {
                let bound = (BigUint::one() << bound_bits) - 3u8;
                let weights = [1u64, 3, 1 << 10, (1 << 21) + 1, 1 << 40].map(BigUint::from);
                let clip = Clip::new(&bound, &weights, norm);
                for seed in 0..2000u64 {
                    let mixed = |at: u64| {
                        let word = seed
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(at.wrapping_mul(1_442_695_040_888_963_407));
                        word.rotate_left(17) as i64
                    };
                    let values: Vec<i64> = (0..5).map(|at| mixed(at) >> (seed % 61)).collect();
                    if measured(&clip, &values) <= limit(&clip) {
                        let length = weighted(norm, &weights, &values);
                        let most = norm.norm_summand(bound.clone());
                        assert!(length <= most, "{norm:?} {bound_bits} {values:?}");
                    }
                }
            }
        }
    }

    /// With one clip and one noise: what is left of a unit's parts on average, and the mean square
    /// of what is lost.
    #[test]
    fn scaling_a_unit_down_loses_less_than_choosing_groups() {
        for (most, groups) in [(1u32, 2u32), (1, 40), (3, 4), (3, 10), (20, 25), (20, 1000)] {
            for shape in 0..3u32 {
                // Parts all of one length; a few long and many short ones; lengths that fall.
                let part = |at: u32| {
                    [
                        1.0,
                        if at < most { 1.0 } else { 0.01 },
                        1.0 / f64::from(at + 1),
                    ][shape as usize]
                };
                let squared: f64 = (0..groups).map(|at| part(at) * part(at)).sum();
                let absolute: f64 = (0..groups).map(part).sum();
                let chosen = f64::from(most) / f64::from(groups);
                for (norm, kept) in [
                    (Norm::L2, (f64::from(most) / squared).sqrt().min(1.0)),
                    (Norm::L1, (f64::from(most) / absolute).min(1.0)),
                ] {
                    assert!(
                        kept >= chosen - 1e-12,
                        "{norm:?} {most} of {groups}, shape {shape}: {kept} against {chosen}"
                    );
                    assert!(
                        (1.0 - kept).powi(2) <= 1.0 - chosen + 1e-12,
                        "{norm:?} {most} of {groups}, shape {shape}"
                    );
                }
            }
        }
    }

    #[test]
    fn nobody_within_the_bound_given_is_cut() {
        for norm in [Norm::L2, Norm::L1] {
            for rows in [1u64, 15, 1000] {
                let weights = [(1u64 << 32), 1_431_656, 1 << 21].map(BigUint::from);
                let values = [rows as i64, 3000 * rows as i64, -(2048 * rows as i64)];
                let length = weighted(norm, &weights, &values);
                let bound = match norm {
                    Norm::L2 => length.sqrt() + 1u8,
                    Norm::L1 => length,
                };
                let clip = Clip::new(&roomy(&bound, norm, 3, 1), &weights, norm);
                assert!(measured(&clip, &values) <= limit(&clip), "{norm:?} {rows}");
            }
        }
    }
}
