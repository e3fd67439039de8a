//! The fixed-point grid of a summed value: which integer stands for a row's value, so that
//! everything that leaves the database is exact.

mod step;

use num_bigint::BigUint;
use num_traits::FromPrimitive;
use sqlparser::ast::{self, BinaryOperator as B};

use crate::analyze::interval::{Interval, of_type};
use crate::catalog::Type;
use crate::ir::literal::integer_range;
use crate::ir::{ColumnInfo, Expr};
use crate::refusal::{Refusal, reason};
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::guard::{FLOAT_TINY, bound, guard, is_float, without};
use crate::rewrite::emit::sql;
pub use step::GridStep;
use step::{decimals, fits};

/// Widest spread of one row's integer: noise on it then stays far inside the samplers' range.
const SPREAD_MAX: f64 = 2147483648.0;
/// Largest magnitude of a row's integer, 2^53 - 1: float8 still distinguishes neighbours, and what
/// it rounds to is the bound itself (2^53 + 1 becomes 2^53).
const MAGNITUDE_MAX: f64 = 9007199254740991.0;

/// Integers `lower..=upper` in units of `step`; one row's value is clipped to `bounds` first.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedPoint {
    pub step: GridStep,
    pub lower: i64,
    pub upper: i64,
    pub bounds: Interval,
}

impl FixedPoint {
    /// Chooses the finest step that keeps a row's integer within limits.
    ///
    /// # Guarantee
    /// `lower < upper`, their distance is at most 2^31 (and little more where bounds are rounded
    /// outwards), and the choice depends on the expression's type and range alone.
    ///
    /// # Reference
    /// Mironov 2012, "On significance of the least significant bits for differential privacy": sums
    /// and noise are integers, so that no rounding of a float tells rows apart.
    ///
    /// # Errors
    /// 0A000 where no grid has two points within the range.
    pub fn new(expr: &Expr, range: Interval, columns: &[ColumnInfo]) -> Result<Self, Refusal> {
        let range = if is_float(&expr.data_type) {
            range.clamp_to(of_type(&expr.data_type))
        } else {
            range
        };
        // A range of one point has no grid; one unit of room costs nothing.
        let bounds = if range.lo < range.hi {
            range
        } else {
            Interval::new(range.lo.min(0.0), range.hi.max(1.0))
        };
        let decimals = if integer_range(&expr.data_type).is_some() {
            Some(0)
        } else {
            decimals(expr, columns)
        };
        let exact = decimals
            .map(GridStep::Decimal)
            .filter(|step| fits(bounds, *step));
        let step = match exact {
            Some(step) => step,
            None => {
                let finest = (SPREAD_MAX / (bounds.hi - bounds.lo))
                    .log2()
                    .floor()
                    .min((MAGNITUDE_MAX / bounds.magnitude()).log2().floor());
                GridStep::Binary(finest.clamp(-1000.0, 1000.0) as i32 - 1)
            }
        };
        let span = |bounds: Interval| step.span(bounds, &expr.data_type);
        // Narrower than a step: like a point.
        let bounds = if span(bounds).0 < span(bounds).1 {
            bounds
        } else {
            Interval::new(bounds.lo, bounds.hi + step.size())
        };
        let (lower, upper) = span(bounds);
        if lower >= upper {
            return Err(Refusal::new(
                reason::SUM_RANGE_TOO_NARROW,
                "the range of this sum is too narrow for exact noise",
            )
            .hint("Widen the bounds of the value."));
        }
        Ok(Self {
            step,
            lower,
            upper,
            bounds,
        })
    }

    /// The grid of 0 and 1, whose centred integers are -1 and 1.
    pub fn of_flag() -> Self {
        Self {
            step: GridStep::Decimal(0),
            lower: 0,
            upper: 1,
            bounds: Interval::new(0.0, 1.0),
        }
    }

    /// Half-width of the centred integer `2 q - (lower + upper)`.
    pub fn spread(&self) -> u64 {
        self.upper.abs_diff(self.lower)
    }

    /// G: products of this grid's centred integers with another's are divided by it, so that they
    /// stay within 2^31. A power of two.
    pub fn divisor_with(&self, other: &Self) -> u64 {
        let product = u128::from(self.spread()) * u128::from(other.spread());
        1 << (128 - product.leading_zeros()).saturating_sub(31)
    }

    /// Largest magnitude of such a product, rounded up.
    pub fn products_with(&self, other: &Self) -> u64 {
        let product = u128::from(self.spread()) * u128::from(other.spread());
        product.div_ceil(u128::from(self.divisor_with(other))) as u64
    }

    /// The values of the grid's ends.
    pub fn ends(&self) -> Interval {
        let value = |integer: i64| match self.step {
            GridStep::Decimal(n) => integer as f64 / 10f64.powi(n as i32),
            GridStep::Binary(_) => integer as f64 * self.step.size(),
        };
        Interval::new(value(self.lower), value(self.upper))
    }

    /// The most that the integers of at most `rows` values add up to, without their signs, where
    /// the values add up to at most `total`. `None` for more steps than a double counts.
    pub fn total(&self, total: f64, rows: u64) -> Option<BigUint> {
        let steps = BigUint::from_f64((total / self.step.size()).ceil().max(1.0))?;
        Some(match self.step {
            GridStep::Decimal(_) => steps,
            // Each value is rounded by half a step at most.
            GridStep::Binary(_) => steps + rows.div_ceil(2),
        })
    }

    /// Largest magnitude of the plain integer.
    pub fn magnitude(&self) -> u64 {
        self.lower
            .unsigned_abs()
            .max(self.upper.unsigned_abs())
            .max(1)
    }

    /// `lower + upper`.
    pub fn centre_twice(&self) -> i64 {
        self.lower + self.upper
    }

    /// The row's integer, in a type that holds it. The value is clipped first, so that nothing
    /// after it can fail; NULL stays NULL.
    ///
    /// # Guarantee
    /// Whatever the value is, the integer is NULL or lies in `lower..=upper`, and PostgreSQL
    /// computes it without an error. It is a function of the value alone.
    ///
    /// # Requires
    /// With `is_clipped`, the emitted value is already clamped to `bounds`.
    ///
    /// # Errors
    /// 54001 where it would grow too large.
    pub fn sql(
        &self,
        emitted: ast::Expr,
        is_clipped: bool,
        (value, expressions): (&Expr, &ExpressionEmitter<'_>),
        integer: &Type,
    ) -> Result<ast::Expr, Refusal> {
        let data_type = &value.data_type;
        let is_float = is_float(data_type);
        let is_integer = integer_range(data_type).is_some();
        // Integers are clipped to whole bounds: a bound with a fraction would turn them into
        // numerics, and could itself become a value.
        let bounds = match self.step {
            GridStep::Decimal(0) if is_integer => (
                sql::number_literal(&self.lower.to_string()),
                sql::number_literal(&self.upper.to_string()),
            ),
            GridStep::Decimal(_) | GridStep::Binary(_) => (
                bound(self.bounds.lo, data_type),
                bound(self.bounds.hi, data_type),
            ),
        };
        let clipped = if is_clipped {
            emitted
        } else {
            expressions.clamp(emitted, bounds, data_type, value)?
        };
        let scaled = match self.step {
            GridStep::Decimal(0) if is_integer => clipped,
            GridStep::Decimal(n) => {
                let factor = sql::number_literal(&format!("1{}", "0".repeat(n as usize)));
                // The cast rounds.
                sql::binary(sql::nest(clipped), B::Multiply, factor)
            }
            GridStep::Binary(k) if is_float => {
                let factor = sql::cast(sql::text_literal(&2f64.powi(k).to_string()), &Type::Float8);
                let half = sql::cast(sql::text_literal("0.5"), &Type::Float8);
                // A product below float8's reach is an error, not zero. A step finer than 1
                // multiplies upwards; with a coarser one, a quarter of a step becomes zero.
                let least = format!("{:e}", FLOAT_TINY.max(2f64.powi(-k - 2)));
                let clipped = if k < 0 {
                    guard(clipped, 3, data_type, |clipped| {
                        without(clipped, &least, &Type::Float8)
                    })?
                } else {
                    clipped
                };
                sql::call(
                    "floor",
                    vec![sql::binary(
                        sql::binary(sql::nest(clipped), B::Multiply, factor),
                        B::Plus,
                        half,
                    )],
                )
            }
            GridStep::Binary(k) => {
                let factor = sql::cast(
                    sql::text_literal(&2f64.powi(k).to_string()),
                    &Type::Numeric(None),
                );
                sql::binary(
                    sql::nest(sql::cast(clipped, &Type::Numeric(None))),
                    B::Multiply,
                    factor,
                )
            }
        };
        // PostgreSQL drops a cast to the value's own type.
        Ok(sql::cast(scaled, integer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::functions::Function;
    use crate::policy::Scalar;

    fn of(value: &Expr, lo: f64, hi: f64) -> FixedPoint {
        FixedPoint::new(value, Interval::new(lo, hi), &[]).unwrap()
    }

    fn integer() -> Expr {
        Expr::literal(None, Type::Int8)
    }

    fn float() -> Expr {
        Expr::literal(None, Type::Float8)
    }

    /// A constant with as many decimals as the text.
    fn decimal(text: &str) -> Expr {
        Expr::literal(Some(Scalar::Decimal(text.to_owned())), Type::Numeric(None))
    }

    fn whole(fixed_point: &FixedPoint) -> (GridStep, i64, i64) {
        (fixed_point.step, fixed_point.lower, fixed_point.upper)
    }

    #[test]
    fn the_finest_step_within_limits_is_chosen() {
        assert_eq!(
            whole(&of(&float(), 0.0, 1.0)),
            (GridStep::Binary(30), 0, 1 << 30)
        );
        assert_eq!(
            whole(&of(&float(), -3.0, 0.0)),
            (GridStep::Binary(28), -805_306_368, 0)
        );
        assert_eq!(
            whole(&of(&float(), 1e15, 1e15 + 1.0)),
            (
                GridStep::Binary(2),
                4_000_000_000_000_000,
                4_000_000_000_000_004
            )
        );
        // An integer is exact up to the limits, and not past them.
        assert_eq!(
            whole(&of(&integer(), 0.0, 2_147_483_648.0)),
            (GridStep::Decimal(0), 0, 2_147_483_648)
        );
        assert_eq!(
            of(&integer(), 0.0, 2_147_483_649.0).step,
            GridStep::Binary(-2)
        );
        assert_eq!(
            of(&integer(), 9_007_199_254_740_990.0, 9_007_199_254_740_991.0).step,
            GridStep::Decimal(0)
        );
        // 2^53 + 1 has been rounded to this.
        assert_eq!(
            of(&integer(), 9_007_199_254_740_990.0, 9_007_199_254_740_992.0).step,
            GridStep::Binary(-2)
        );
        assert_eq!(
            of(&integer(), 9_007_199_254_740_990.0, 9_007_199_254_740_994.0).step,
            GridStep::Binary(-2)
        );
        assert_eq!(
            whole(&of(&decimal("0.25"), -1.5, 99.99)),
            (GridStep::Decimal(2), -150, 9999)
        );
        assert_eq!(
            of(&decimal("0.25"), 0.0, 21_474_836.48).step,
            GridStep::Decimal(2)
        );
        assert!(matches!(
            of(&decimal("0.25"), 0.0, 21_474_836.49).step,
            GridStep::Binary(_)
        ));
    }

    #[test]
    fn narrow_ranges_have_room() {
        assert_eq!(of(&float(), 5.0, 5.0).bounds, Interval::new(0.0, 5.0));
        assert_eq!(of(&float(), -5.0, -5.0).bounds, Interval::new(-5.0, 1.0));
        // Less than a unit.
        let narrow = of(&integer(), 0.2, 0.4);
        assert_eq!(
            (whole(&narrow), narrow.bounds),
            ((GridStep::Decimal(0), 0, 1), Interval::new(0.2, 1.4))
        );
        let exact = of(&integer(), 0.0, 1.0);
        assert_eq!(
            (whole(&exact), exact.bounds),
            ((GridStep::Decimal(0), 0, 1), Interval::new(0.0, 1.0))
        );
    }

    /// Whatever the range, the clipped value's integer is one of the grid's, the spread is
    /// within its limit, and half the step would not be.
    #[test]
    fn a_grid_holds_every_clipped_value() {
        for exponent in -30..45 {
            for (lo, hi) in [(0.0, 1.0), (-1.0, 3.7), (-9.3, -9.1), (1e3, 1e3 + 0.7)] {
                let (lo, hi) = (lo * 2f64.powi(exponent), hi * 2f64.powi(exponent));
                let fixed_point = of(&float(), lo, hi);
                let GridStep::Binary(k) = fixed_point.step else {
                    panic!("a float's step")
                };
                let spread = (hi - lo) * 2f64.powi(k);
                let magnitude = lo.abs().max(hi.abs()) * 2f64.powi(k);
                assert!(
                    spread <= SPREAD_MAX / 2.0 && magnitude <= MAGNITUDE_MAX / 2.0,
                    "{lo} to {hi}: {fixed_point:?}"
                );
                assert!(
                    spread > SPREAD_MAX / 4.0 || magnitude > MAGNITUDE_MAX / 4.0,
                    "{lo} to {hi} could be finer: {fixed_point:?}"
                );
                for at in 0..=16 {
                    let value = (lo + (hi - lo) * f64::from(at) / 16.0).clamp(lo, hi);
                    let integer = (value * 2f64.powi(k) + 0.5).floor() as i64;
                    assert!(
                        (fixed_point.lower..=fixed_point.upper).contains(&integer),
                        "{value} of {fixed_point:?}"
                    );
                }
                // A numeric that PostgreSQL reads from text, and rounds away from zero.
                let read = of(
                    &Expr::call(Function::Divide, Vec::new(), Type::Numeric(None)),
                    lo,
                    hi,
                );
                assert!(
                    read.lower < fixed_point.lower
                        && read.upper > fixed_point.upper
                        && read.spread() <= fixed_point.spread() + 4,
                    "{read:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_said_of_a_grid_is_of_its_ends() {
        let fixed_point = |step, lower, upper| FixedPoint {
            step,
            lower,
            upper,
            bounds: Interval::new(0.0, 1.0),
        };
        let decimal = fixed_point(GridStep::Decimal(2), -150, 9999);
        assert_eq!(
            (
                decimal.ends(),
                decimal.spread(),
                decimal.magnitude(),
                decimal.centre_twice()
            ),
            (Interval::new(-1.5, 99.99), 10_149, 9999, 9849)
        );
        let binary = fixed_point(GridStep::Binary(1), -5, 4);
        assert_eq!(
            (
                binary.ends(),
                binary.spread(),
                binary.magnitude(),
                binary.centre_twice()
            ),
            (Interval::new(-2.5, 2.0), 9, 5, -1)
        );
        assert_eq!(fixed_point(GridStep::Binary(-3), 0, 0).magnitude(), 1);
        assert_eq!(
            (
                GridStep::Decimal(2).size(),
                GridStep::Binary(2).size(),
                GridStep::Binary(-3).size()
            ),
            (0.01, 0.25, 8.0)
        );
        assert_eq!(
            (
                GridStep::Decimal(4).decimals(),
                GridStep::Binary(4).decimals()
            ),
            (Some(4), None)
        );
        // Products within 2^31, and no divisor larger than that needs.
        for (a, b, divisor) in [
            (1i64 << 15, 1i64 << 15, 1u64),
            ((1 << 16) - 1, 1 << 15, 1),
            (1 << 16, 1 << 15, 2),
            (1 << 31, 1 << 31, 1 << 32),
            (3, 5, 1),
        ] {
            let (y, x) = (
                fixed_point(GridStep::Decimal(0), 0, a),
                fixed_point(GridStep::Decimal(0), -b, 0),
            );
            assert_eq!(
                (y.divisor_with(&x), x.divisor_with(&y)),
                (divisor, divisor),
                "{a} {b}"
            );
            assert_eq!(
                y.products_with(&x),
                (a * b).unsigned_abs().div_ceil(divisor),
                "{a} {b}"
            );
            assert!(y.products_with(&x) <= 1 << 31);
        }
    }
}
