//! Candidates that a value is chosen from: known without the data.

use std::fmt;

use sqlparser::ast::{self, BinaryOperator as B};

use super::Side;
use crate::analyze::interval::{Interval, of_type};
use crate::analyze::{AnalyzedRelease, KeyRule, inline};
use crate::catalog::Type;
use crate::ir::literal::integer_range;
use crate::ir::{ColumnInfo, Expr};
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::guard::bound;
use crate::rewrite::emit::sql;
use crate::rewrite::vector::base_rows::{canonical, key_text};
use crate::rewrite::vector::fixed_point::{FixedPoint, GridStep};
use crate::rewrite::vector::row_integer::integer;

/// Most points of a grid.
const POINTS_MAX: u64 = 1 << 16;

#[derive(Debug, Clone, PartialEq)]
pub enum Candidates {
    Grid(Grid),
    /// Values of a list, by their text as the statement prints it.
    Listed(Vec<String>),
}

/// Evenly spaced values: every value of the range if there are few enough, otherwise the middles of
/// equal steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    scale: Scale,
    /// The range, in units of the scale.
    lower: i64,
    /// Scale units from one point to the next.
    stride: u64,
    pub points: u64,
    range: Interval,
}

/// The size of one unit of a grid's integers.
#[derive(Clone, PartialEq)]
enum Scale {
    FixedPoint {
        fixed_point: FixedPoint,
        data_type: Type,
    },
    Days,
    Microseconds,
}

/// Prints the name that a fixed point had first, because digests of stored answers are taken of the
/// text.
impl fmt::Debug for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FixedPoint {
                fixed_point,
                data_type,
            } => f
                .debug_struct("Lattice")
                .field("fixed_point", fixed_point)
                .field("data_type", data_type)
                .finish(),
            Self::Days => f.write_str("Days"),
            Self::Microseconds => f.write_str("Microseconds"),
        }
    }
}

impl Grid {
    /// A grid over a range.
    ///
    /// # Guarantee
    /// The points depend on the value's type, its range and the policy alone. A row's value
    /// belongs to one point, whatever it is: values beyond the range belong to its ends, and NULL
    /// to none.
    ///
    /// # Errors
    /// 0A000 where the range has no grid.
    pub fn new(
        value: &Expr,
        range: Interval,
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
    ) -> Result<Self, Refusal> {
        // A step before the year 1 there is no date that can be written.
        let range = match &value.data_type {
            Type::Date | Type::Timestamp => range.clamp_to(of_type(&value.data_type)),
            _ => range,
        };
        let (scale, lower, upper) = match &value.data_type {
            Type::Date => (Scale::Days, range.lo as i64, range.hi as i64),
            Type::Timestamp => (Scale::Microseconds, range.lo as i64, range.hi as i64),
            data_type => {
                let fixed_point =
                    FixedPoint::new(&inline(value, &release.computed), range, columns)?;
                let (lower, upper) = (fixed_point.lower, fixed_point.upper);
                (
                    Scale::FixedPoint {
                        fixed_point,
                        data_type: data_type.clone(),
                    },
                    lower,
                    upper,
                )
            }
        };
        let values = upper.abs_diff(lower) + 1;
        let stride = values.div_ceil(POINTS_MAX);
        Ok(Self {
            scale,
            lower,
            stride,
            points: values.div_ceil(stride),
            range,
        })
    }

    /// Leaves at most `most` points: each then stands for several of them.
    pub(in crate::rewrite) fn coarsen(&mut self, most: u64) {
        let times = self.points.div_ceil(most.max(1));
        self.stride *= times;
        self.points = self.points.div_ceil(times);
    }

    /// The number of the point that stands for a row's value; NULL stays NULL.
    fn sql(&self, value: &Expr, expressions: &ExpressionEmitter<'_>) -> Result<ast::Expr, Refusal> {
        let within = || {
            let data_type = &value.data_type;
            let ends = (
                bound(self.range.lo, data_type),
                bound(self.range.hi, data_type),
            );
            expressions.clamp(expressions.emit(value)?.0, ends, data_type, value)
        };
        let start = || bound(self.range.lo, &value.data_type);
        let stride = sql::number_literal(&self.stride.to_string());
        let offset = match &self.scale {
            Scale::FixedPoint {
                fixed_point,
                data_type: _,
            } => sql::binary(
                integer(value, fixed_point, false, &Type::Int8, expressions)?,
                B::Minus,
                sql::number_literal(&self.lower.to_string()),
            ),
            Scale::Days => sql::binary(sql::nest(within()?), B::Minus, start()),
            Scale::Microseconds => {
                let elapsed = sql::binary(sql::nest(within()?), B::Minus, start());
                let seconds = sql::call("date_part", vec![sql::text_literal("epoch"), elapsed]);
                let micros = sql::binary(
                    seconds,
                    B::Multiply,
                    sql::cast(sql::number_literal("1000000"), &Type::Float8),
                );
                sql::cast(sql::call("floor", vec![micros]), &Type::Int8)
            }
        };
        // Numbers of points end at the grid's end, whatever rounding did.
        let number = if self.stride == 1 {
            offset
        } else {
            sql::binary(offset, B::Divide, stride)
        };
        let (first, last) = (
            sql::number_literal("0"),
            sql::number_literal(&(self.points - 1).to_string()),
        );
        expressions.clamp(number, (first, last), &Type::Int8, value)
    }

    /// A point as PostgreSQL reads it.
    pub fn text(&self, point: u64) -> String {
        let middle = i128::from(self.lower)
            + i128::from(point) * i128::from(self.stride)
            + i128::from(self.stride / 2);
        let near = middle.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        match &self.scale {
            Scale::Days => sql::scalar_text(&Scalar::Date(near.min(self.range.hi as i64) as i32)),
            Scale::Microseconds => {
                sql::scalar_text(&Scalar::Timestamp(near.min(self.range.hi as i64)))
            }
            // The last step may reach past the range, and with it past the type.
            Scale::FixedPoint {
                fixed_point,
                data_type,
            } => match fixed_point.step {
                GridStep::Decimal(n) => decimal(near.min(fixed_point.upper), n),
                GridStep::Binary(_) => {
                    let value =
                        (near as f64 * fixed_point.step.size()).clamp(self.range.lo, self.range.hi);
                    if integer_range(data_type).is_some() {
                        (value.round() as i64).to_string()
                    } else {
                        value.to_string()
                    }
                }
            },
        }
    }

    /// The least or the greatest value that a point stands for.
    fn edge(&self, point: u64, side: Side) -> String {
        let first = i128::from(self.lower) + i128::from(point) * i128::from(self.stride);
        let (at, half) = match side {
            Side::Low => (first, -0.5),
            Side::High => (first + i128::from(self.stride) - 1, 0.5),
        };
        match &self.scale {
            // A value is rounded to its grid.
            Scale::FixedPoint {
                fixed_point:
                    fixed_point @ FixedPoint {
                        step: GridStep::Binary(_),
                        ..
                    },
                data_type,
            } => {
                let value = ((at as f64 + half) * fixed_point.step.size())
                    .clamp(self.range.lo, self.range.hi);
                match (integer_range(data_type), side) {
                    (None, _) => value.to_string(),
                    (Some(_), Side::Low) => (value.floor() as i64).to_string(),
                    (Some(_), Side::High) => (value.ceil() as i64).to_string(),
                }
            }
            Scale::FixedPoint {
                fixed_point:
                    FixedPoint {
                        step: GridStep::Decimal(n),
                        upper,
                        ..
                    },
                data_type: _,
            } => decimal(at.min(i128::from(*upper)) as i64, *n),
            Scale::Days | Scale::Microseconds => self.text(point),
        }
    }

    /// Distance of neighbouring points, in words.
    pub fn spacing(&self) -> String {
        match &self.scale {
            Scale::FixedPoint {
                fixed_point,
                data_type: _,
            } => (self.stride as f64 * fixed_point.step.size()).to_string(),
            Scale::Days => format!("{} days", self.stride),
            Scale::Microseconds => format!("{} seconds", self.stride as f64 / 1e6),
        }
    }
}

fn decimal(integer: i64, decimals: u32) -> String {
    if decimals == 0 {
        return integer.to_string();
    }
    let sign = if integer < 0 { "-" } else { "" };
    let digits = format!(
        "{:0>width$}",
        integer.unsigned_abs().to_string(),
        width = decimals as usize + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - decimals as usize);
    format!("{sign}{whole}.{fraction}")
}

impl Candidates {
    pub fn from_list(values: &[Scalar], data_type: &Type) -> Self {
        Self::Listed(values.iter().map(|v| key_text(v, data_type)).collect())
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::Grid(grid) => grid.points,
            Self::Listed(values) => values.len() as u64,
        }
    }

    /// The candidate of a row's value: a point's number, or the listed value.
    pub(in crate::rewrite) fn sql(
        &self,
        value: &Expr,
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<ast::Expr, Refusal> {
        match self {
            Self::Grid(grid) => grid.sql(value, expressions),
            Self::Listed(_) => Ok(canonical(
                expressions.emit(value)?.0,
                &value.data_type,
                &KeyRule::Threshold,
            )),
        }
    }

    /// The candidate's number, from the text that the statement printed; `None` if that is no
    /// candidate.
    pub fn position(&self, text: &str) -> Option<u64> {
        match self {
            Self::Grid(grid) => text.parse().ok().filter(|point| *point < grid.points),
            Self::Listed(values) => values.iter().position(|v| v == text).map(|at| at as u64),
        }
    }

    /// The least and the greatest candidate, where candidates are numbers in ascending order.
    pub fn ends(&self) -> Option<(f64, f64)> {
        match self {
            Self::Grid(grid) => Some((
                grid.edge(0, Side::Low).parse().ok()?,
                grid.edge(grid.points - 1, Side::High).parse().ok()?,
            )),
            Self::Listed(_) => None,
        }
    }

    /// One end of the candidate's range.
    pub fn edge(&self, candidate: u64, side: Side) -> String {
        match self {
            Self::Grid(grid) => grid.edge(candidate, side),
            Self::Listed(_) => self.text(candidate),
        }
    }

    pub fn text(&self, candidate: u64) -> String {
        match self {
            Self::Grid(grid) => grid.text(candidate),
            Self::Listed(values) => values.get(candidate as usize).cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_the_ends_of_what_a_point_stands_for() {
        let range = Interval::new(0.0, 1000.0);
        let edges = |step: GridStep, data_type: Type| {
            let fixed_point = FixedPoint {
                step,
                lower: 0,
                upper: 1000,
                bounds: range,
            };
            let grid = Grid {
                scale: Scale::FixedPoint {
                    fixed_point,
                    data_type,
                },
                lower: 0,
                stride: 10,
                points: 100,
                range,
            };
            [Side::Low, Side::High].map(|side| grid.edge(2, side))
        };
        assert_eq!(
            edges(GridStep::Decimal(1), Type::Numeric(None)),
            ["2.0", "2.9"]
        );
        // A grid of halves, to the nearest of which values are rounded.
        assert_eq!(edges(GridStep::Binary(1), Type::Float8), ["9.75", "14.75"]);
    }

    #[test]
    fn a_coarser_grid_covers_the_same_values() {
        let fine = Grid {
            scale: Scale::Days,
            lower: -7,
            stride: 3,
            points: 1_001,
            range: Interval::new(-7.0, 2_995.0),
        };
        for most in [2_000, 1_001, 1_000, 500, 7, 1] {
            let mut grid = fine.clone();
            grid.coarsen(most);
            assert!(grid.points <= most);
            assert!((grid.points - 1) * grid.stride < fine.points * fine.stride);
            assert!(grid.points * grid.stride >= fine.points * fine.stride);
            assert_eq!(most >= fine.points, grid == fine);
        }
    }
}
