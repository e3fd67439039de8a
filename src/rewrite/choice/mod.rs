//! Aggregates that are no sums: unlike values, and values chosen from a grid or a list. Each has a
//! statement of its own, and noise of its own.
//!
//! One unit's influence is bounded over all groups together: aggregates of DISTINCT values keep at
//! most so many of its (group, value) pairs, in hash order; for chosen values each row has a
//! weight, and a unit with more rows than the policy's bound has all of them scaled down.

pub(in crate::rewrite) mod candidates;

use num_bigint::BigUint;
use num_traits::ToPrimitive;
use sqlparser::ast::{self, BinaryOperator as B};

use super::emit::expression::Expressions;
use super::emit::sql;
use super::emit::statement::Statement;
use super::vector::base_rows::{BaseRows, canonical};
use super::vector::clipped_aggregate::{collated, hash_of, integer, lacks, positions, within};
use super::vector::coordinates::{Coordinate, Mask, Output};
use super::vector::fixed_point::FixedPoint;
use super::vector::grouping_sets::{group_columns, over_sets};
use crate::analyze::{AnalyzedRelease, BoundedAggregate, BoundedOperation, KeyRule, Ranks, inline};
use crate::catalog::Type;
use crate::ir::{ColumnInfo, Distinct, End, Expr, Fractions, Moment};
use crate::mechanism::{Calibrated, Exponential, Loss};
use crate::refusal::Refusal;
use candidates::{Candidates, Grid};

/// What a whole row weighs, where rows may be scaled down.
pub const ROW_WEIGHT: u64 = 1 << 16;

/// What one statement beside the vector asks.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceQuery {
    pub filter: Option<Expr>,
    pub subject: Subject,
    /// Which values are chosen; none where values are counted.
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Unlike values: how many, and what is added up of them beside that.
    Distinct {
        values: Distinct,
        per_unit_max: u64,
        degree: Degree,
    },
    Value {
        value: Expr,
        candidates: Candidates,
    },
}

/// Powers of unlike values that are added up, about the middle of the lattice. Columns: the count;
/// of a sum the sum too; of squares also the sum of distances from the middle and that of their
/// squares.
#[derive(Debug, Clone, PartialEq)]
pub enum Degree {
    Count,
    Sum(FixedPoint),
    Squares(FixedPoint),
}

impl Degree {
    pub const SUM: usize = 1;
    pub const CENTRED: usize = 2;
    pub const SQUARES: usize = 3;

    pub fn fixed_point(&self) -> Option<&FixedPoint> {
        match self {
            Self::Count => None,
            Self::Sum(fixed_point) | Self::Squares(fixed_point) => Some(fixed_point),
        }
    }

    /// Columns that it gives each group.
    pub fn width(&self) -> usize {
        match self {
            Self::Count => 1,
            Self::Sum(_) => 2,
            Self::Squares(_) => 4,
        }
    }

    /// What one value adds to the statement's integers, each with a noise of its own.
    pub fn coordinates(&self, value: &Expr) -> Vec<Coordinate> {
        let count = Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        };
        let sum = |fixed_point: &FixedPoint| Coordinate::Values {
            filter: None,
            value: value.clone(),
            fixed_point: fixed_point.clone(),
            centred: true,
        };
        match self {
            Self::Count => vec![count],
            Self::Sum(fixed_point) => vec![count, sum(fixed_point)],
            Self::Squares(fixed_point) => {
                vec![
                    count,
                    sum(fixed_point),
                    Coordinate::Lacks {
                        filter: None,
                        value: value.clone(),
                        fixed_point: fixed_point.clone(),
                    },
                ]
            }
        }
    }

    /// Gives what the other does, too.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Count) => true,
            (Self::Sum(a) | Self::Squares(a), Self::Sum(b))
            | (Self::Squares(a), Self::Squares(b)) => a == b,
            (Self::Count, Self::Sum(_) | Self::Squares(_)) | (Self::Sum(_), Self::Squares(_)) => {
                false
            }
        }
    }
}

/// Which candidate is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one at this many millionths of all rows.
    Fraction(u32),
    /// Near the end: so far inside it that the candidates past the end do not drown it.
    End(End),
    MostFrequent,
    /// An end of the interval of the value at this many millionths of all rows: so far to that side
    /// of it that the draw is past it once in 40 times at most.
    Beyond(u32, Side),
}

/// Which end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Low,
    High,
}

impl Target {
    /// The draws that tell how far off this one may be; of an extreme, on its inner side: past it
    /// there may be anything within the range.
    pub fn sides(&self) -> Vec<Self> {
        match self {
            Self::Fraction(millionths) => vec![
                Self::Beyond(*millionths, Side::Low),
                Self::Beyond(*millionths, Side::High),
            ],
            Self::End(End::Least) => vec![Self::Beyond(0, Side::High)],
            Self::End(End::Greatest) => vec![Self::Beyond(1_000_000, Side::Low)],
            Self::MostFrequent | Self::Beyond(..) => Vec::new(),
        }
    }

    /// How far one unit of weight can move two candidates' penalties apart, the penalties in this
    /// target's own units.
    ///
    /// # Guarantee
    /// With q = a/b and penalties `dist(a N, [b below, b upto])`: a weight w moves the target by a
    /// w, and the intervals of candidates above it by b w. Penalties of one side move one way:
    /// apart by at most max(b, 2a, 2(b - a)) w. A target that is a public number or N/2, whichever
    /// is less (b = 2), moves by at most w: 4 w. A count of the most frequent moves by w, and no
    /// two in unlike directions. A target that is moved by a public number, among ranks that a
    /// public number is put before or after, moves as without it.
    pub fn spread(&self) -> u64 {
        match self {
            Self::Fraction(_) | Self::Beyond(..) => spread_of(self.ratio()),
            Self::End(_) => 4,
            Self::MostFrequent => 1,
        }
    }

    /// q = a/b of a fraction, in lowest terms.
    pub fn ratio(&self) -> (u64, u64) {
        match self {
            Self::Fraction(millionths) | Self::Beyond(millionths, _) => {
                ratio_of(*millionths, 1_000_000)
            }
            Self::End(_) => (1, 2),
            Self::MostFrequent => (1, 1),
        }
    }
}

impl Target {
    /// How far, in weight, an end of an interval is drawn from the rank that it is an end for. No
    /// candidate past that rank is drawn more often than once in 40 times: among the ranks that
    /// this much is put before (behind) the rows, as weight of the range's end, some candidate has
    /// no penalty, and each past the rank one of this much or more. A row more is for values
    /// between two rows.
    ///
    /// # Reference
    /// McSherry, Talwar 2007, Theorem 6.
    pub fn reach(&self, draw: &Exponential, candidates: u64, row_weight: u64) -> f64 {
        self.deviation(draw) / std::f64::consts::SQRT_2 * (40.0 * (candidates + 1) as f64).ln()
            + row_weight as f64
    }

    /// Standard deviation of a draw's rank, in weight, where ranks are many: their law falls by e
    /// every width / eta to both sides.
    pub fn deviation(&self, draw: &Exponential) -> f64 {
        let width = draw.width.to_f64().unwrap_or(f64::MAX);
        std::f64::consts::SQRT_2 * width
            / self.ratio().1 as f64
            / (draw.eta as f64 / (1u64 << 30) as f64)
    }
}

/// `of / all` in lowest terms; `all` is not 0.
pub fn ratio_of(of: u32, all: u32) -> (u64, u64) {
    let divisor = num_integer::gcd(of, all).max(1);
    (u64::from(of / divisor), u64::from(all / divisor))
}

/// [`Target::spread`] of a fraction a/b.
fn spread_of((a, b): (u64, u64)) -> u64 {
    b.max(2 * a).max(2 * (b - a))
}

/// Fractions of one value that are chosen together, the middle one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halving {
    /// Strength of each draw, in units of 2^-30.
    pub eta: u64,
    /// Most that one unit weighs.
    pub weight_max: u64,
    /// A candidate's pieces, a power of two.
    pub pieces: u64,
}

impl Halving {
    /// Fewer are chosen each for itself: little would be saved.
    pub const LEAST: usize = 4;

    /// So fine that one piece of the rows that share a value is no matter; with the largest grid
    /// within 2^32.
    pub const PIECES: u64 = 1 << 16;

    /// The draws that one unit meets.
    pub fn levels(fractions: usize) -> u32 {
        fractions.max(1).ilog2() + 1
    }

    /// How far off each fraction's rank is, in reaches of a draw whose penalty one unit moves as
    /// far as a rank: by its own draw, and by the parts' ends that it lies between, in proportion
    /// to its distance from the other one. The fractions are in millionths and in order.
    pub fn reach(fractions: &[u32]) -> Vec<f64> {
        fn descend(ends: [(u32, f64); 2], fractions: &[u32], reaches: &mut Vec<f64>) {
            let middle = fractions.len() / 2;
            let (Some(fraction), [(low, off_low), (high, off_high)]) =
                (fractions.get(middle), ends)
            else {
                return;
            };
            let (a, b) = ratio_of(fraction - low, high - low);
            let ratio = a as f64 / b as f64;
            let off =
                spread_of((a, b)) as f64 / b as f64 + (1.0 - ratio) * off_low + ratio * off_high;
            descend([ends[0], (*fraction, off)], &fractions[..middle], reaches);
            reaches.push(off);
            descend(
                [(*fraction, off), ends[1]],
                &fractions[middle + 1..],
                reaches,
            );
        }
        let mut reaches = Vec::with_capacity(fractions.len());
        descend([(0, 0.0), (1_000_000, 0.0)], fractions, &mut reaches);
        reaches
    }

    /// A draw for the rank a/b of a part's weight.
    pub fn draw(&self, ratio: (u64, u64)) -> Exponential {
        Exponential {
            eta: self.eta,
            width: BigUint::from(self.weight_max) * self.pieces * spread_of(ratio),
        }
    }
}

/// A part of a release: one statement, and how its rows may leave.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoicePlan {
    pub(super) statement: Statement,
    pub question: ChoiceQuery,
    pub kind: ChoiceKind,
    pub loss: Loss,
}

impl ChoicePlan {
    /// Keys as text, then for a count the integer, for choices the candidate (as text) and its
    /// weight.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ChoiceKind {
    /// A count in each group, and perhaps a sum beside it, each times its weight; one unit moves
    /// all of them together by at most `clip` (in L2 under Gaussian noise, in L1 under Laplace).
    Count {
        calibrated: Vec<Calibrated>,
        weights: Vec<BigUint>,
        clip: BigUint,
    },
    /// One draw for each target, but for fractions that are chosen together where there is a
    /// `halving`; one unit adds at most `weight_max` to all weights together, a row that is not
    /// scaled down `row_weight`.
    Choice {
        draws: Vec<Exponential>,
        halving: Option<Halving>,
        weight_max: u64,
        row_weight: u64,
    },
}

/// The questions of a release beside its vector; equal ones are asked once.
#[derive(Debug, Default)]
pub struct ChoiceQueries(pub Vec<ChoiceQuery>);

impl ChoiceQueries {
    /// The aggregate's place among the columns of parts; `None` where it belongs to the vector.
    /// Where its error `is_told`, a choice is asked with its sides.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no lattice.
    pub fn add(
        &mut self,
        aggregate: &BoundedAggregate,
        is_told: bool,
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
    ) -> Result<Option<Output>, Refusal> {
        let BoundedAggregate {
            filter,
            operation,
            data_type: _,
        } = aggregate;
        let (subject, targets, is_array) = match operation {
            BoundedOperation::Distinct {
                values,
                per_unit_max,
            } => {
                let part = self.unlike(values.clone(), filter, *per_unit_max, Degree::Count);
                return Ok(Some(Output::Part {
                    part,
                    draws: Vec::new(),
                    is_array: false,
                }));
            }
            BoundedOperation::Unlike {
                argument,
                range,
                per_unit_max,
                moment,
            } => {
                let fixed_point =
                    FixedPoint::new(&inline(argument, &release.computed), *range, columns)?;
                let range = fixed_point.ends();
                let degree = match moment {
                    Moment::Sum | Moment::Mean => Degree::Sum(fixed_point),
                    Moment::Spread(_) => Degree::Squares(fixed_point),
                };
                let part = self.unlike(
                    Distinct::Value(argument.clone()),
                    filter,
                    *per_unit_max,
                    degree,
                );
                return Ok(Some(Output::Unlike {
                    part,
                    range,
                    moment: *moment,
                }));
            }
            BoundedOperation::Ranked {
                argument,
                range,
                ranks,
            } => {
                let candidates = Candidates::Grid(Grid::new(argument, *range, release, columns)?);
                let (targets, is_array) = match ranks {
                    Ranks::End(end) => (vec![Target::End(*end)], false),
                    Ranks::Fractions(fractions) => (
                        fractions
                            .all()
                            .iter()
                            .map(|f| Target::Fraction(*f))
                            .collect(),
                        matches!(fractions, Fractions::Array(_)),
                    ),
                };
                (
                    Subject::Value {
                        value: argument.clone(),
                        candidates,
                    },
                    targets,
                    is_array,
                )
            }
            BoundedOperation::Mode { argument, values } => {
                let candidates = Candidates::listed(values, &argument.data_type);
                (
                    Subject::Value {
                        value: argument.clone(),
                        candidates,
                    },
                    vec![Target::MostFrequent],
                    false,
                )
            }
            BoundedOperation::CountRows
            | BoundedOperation::Count { .. }
            | BoundedOperation::CountUnits
            | BoundedOperation::Sum { .. } => {
                return Ok(None);
            }
            BoundedOperation::Average { .. }
            | BoundedOperation::Dispersion { .. }
            | BoundedOperation::Joint { .. } => return Ok(None),
            BoundedOperation::Truth(_) => return Ok(None),
        };
        let part = self
            .0
            .iter()
            .position(|q| q.filter == *filter && q.subject == subject)
            .unwrap_or_else(|| {
                self.0.push(ChoiceQuery {
                    filter: filter.clone(),
                    subject,
                    targets: Vec::new(),
                });
                self.0.len() - 1
            });
        // An array has no interval, and neither has what is no number.
        let has_sides = is_told
            && !is_array
            && matches!(&self.0[part].subject, Subject::Value { value: _, candidates } if candidates.ends().is_some());
        let sides: Vec<Target> = if has_sides {
            targets.iter().flat_map(Target::sides).collect()
        } else {
            Vec::new()
        };
        let known = &mut self.0[part].targets;
        let mut place = |target: Target| {
            known.iter().position(|t| *t == target).unwrap_or_else(|| {
                known.push(target);
                known.len() - 1
            })
        };
        let draws: Vec<usize> = targets.into_iter().map(&mut place).collect();
        for side in sides {
            place(side);
        }
        Ok(Some(Output::Part {
            part,
            draws,
            is_array,
        }))
    }

    /// The question of these unlike values; one that asks less so far asks this too from now on.
    fn unlike(
        &mut self,
        values: Distinct,
        filter: &Option<Expr>,
        per_unit_max: u64,
        degree: Degree,
    ) -> usize {
        for (part, question) in self.0.iter_mut().enumerate() {
            if let Subject::Distinct {
                values: known,
                per_unit_max: most,
                degree: asked,
            } = &mut question.subject
                && (question.filter == *filter && *known == values && *most == per_unit_max)
                && (asked.includes(&degree) || degree.includes(asked))
            {
                if degree.includes(asked) {
                    *asked = degree;
                }
                return part;
            }
        }
        self.0.push(ChoiceQuery {
            filter: filter.clone(),
            subject: Subject::Distinct {
                values,
                per_unit_max,
                degree,
            },
            targets: Vec::new(),
        });
        self.0.len() - 1
    }
}

impl ChoiceQuery {
    /// The fractions among the targets, in millionths.
    pub fn fractions(&self) -> Vec<u32> {
        let fraction = |target: &Target| match target {
            Target::Fraction(millionths) => Some(*millionths),
            Target::End(_) | Target::MostFrequent | Target::Beyond(..) => None,
        };
        self.targets.iter().filter_map(fraction).collect()
    }

    /// Columns that it gives each group.
    pub fn width(&self) -> usize {
        match &self.subject {
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree,
            } => degree.width(),
            Subject::Value { .. } => self.targets.len(),
        }
    }

    /// Most that one unit weighs: (group, value) pairs of all keys for a count, weights over all
    /// groups and grouping sets together for choices.
    pub fn unit_max(&self, release: &AnalyzedRelease) -> u64 {
        let rows = release.lineage.rows_per_unit.clamp(1, 1 << 32);
        match &self.subject {
            Subject::Distinct { .. } if release.one_row_per_unit => 1,
            Subject::Distinct {
                values: _,
                per_unit_max,
                degree: _,
            } => *per_unit_max,
            Subject::Value { .. } => {
                let sets = release.grouped().len() as u64;
                if release.one_row_per_unit {
                    sets
                } else {
                    rows * ROW_WEIGHT * sets
                }
            }
        }
    }

    /// The statement, over the release's ground.
    pub fn statement(
        &self,
        release: &AnalyzedRelease,
        ground: BaseRows,
    ) -> Result<ast::Query, Refusal> {
        let expressions = Expressions {
            cells: &ground.cells,
            relations: None,
        };
        let mut conditions: Vec<ast::Expr> =
            ground.condition.iter().cloned().map(sql::nested).collect();
        if let Some(filter) = &self.filter {
            conditions.push(sql::nested(expressions.condition(filter)?));
        }
        let values = match &self.subject {
            Subject::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
                degree,
            } => {
                conditions.push(sql::is_not_null(expressions.presence(value)?));
                let integer = degree
                    .fixed_point()
                    .map(|fixed_point| integer(value, fixed_point, true, &Type::Int8, &expressions))
                    .transpose()?;
                std::iter::once(counted(value, &expressions)?)
                    .chain(integer)
                    .collect()
            }
            Subject::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: _,
            } => values
                .iter()
                .map(|value| counted(value, &expressions))
                .collect::<Result<_, _>>()?,
            Subject::Value { value, candidates } => {
                conditions.push(sql::is_not_null(expressions.presence(value)?));
                vec![candidates.sql(value, &expressions)?]
            }
        };
        let types = match &self.subject {
            Subject::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
                degree,
            } => std::iter::once(value.data_type.clone())
                .chain(degree.fixed_point().map(|_| Type::Int8))
                .collect(),
            Subject::Value {
                value,
                candidates: _,
            } => vec![value.data_type.clone()],
            Subject::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: _,
            } => values.iter().map(|v| v.data_type.clone()).collect(),
        };
        let rows = Rows {
            release,
            ground: &ground,
            condition: sql::all(conditions),
            values,
            types,
        };
        Ok(match &self.subject {
            // NULL is one more row, but no value.
            Subject::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: Degree::Count,
            } if values.len() == 1 => rows.row_count(self.unit_max(release)),
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree: Degree::Count,
            } => rows.counted(self.unit_max(release)),
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree: degree @ (Degree::Sum(_) | Degree::Squares(_)),
            } => rows.summed(self.unit_max(release), degree),
            Subject::Value { .. } => rows.weighed(release.lineage.rows_per_unit.clamp(1, 1 << 32)),
        })
    }
}

/// Equal values in one spelling, a long text as NULL.
fn counted(value: &Expr, expressions: &Expressions<'_>) -> Result<ast::Expr, Refusal> {
    Ok(canonical(
        expressions.emit(value)?.0,
        &value.data_type,
        &KeyRule::Threshold,
    ))
}

struct Rows<'a> {
    release: &'a AnalyzedRelease,
    ground: &'a BaseRows,
    condition: Option<ast::Expr>,
    values: Vec<ast::Expr>,
    types: Vec<Type>,
}

impl Rows<'_> {
    fn keys(&self) -> Vec<String> {
        (0..self.ground.keys.len())
            .map(|i| format!("k{i}"))
            .collect()
    }

    fn subjects(&self) -> Vec<String> {
        (0..self.values.len()).map(|i| format!("x{i}")).collect()
    }

    /// `SELECT u, k0, …, x0, … [, extra] FROM … GROUP BY` all but the extra: one row for each unit,
    /// group and value.
    fn per_unit(&self, extra: Vec<ast::SelectItem>) -> ast::Query {
        let unit =
            (!self.release.one_row_per_unit).then(|| sql::aliased(self.ground.unit.clone(), "u"));
        let named = |expr: &ast::Expr, name: String| sql::aliased(expr.clone(), &name);
        let keys = self
            .ground
            .keys
            .iter()
            .zip(self.keys())
            .map(|(e, n)| named(e, n));
        let values = self
            .values
            .iter()
            .zip(self.subjects())
            .map(|(e, n)| named(e, n));
        let mut projection: Vec<ast::SelectItem> =
            unit.into_iter().chain(keys).chain(values).collect();
        let grouped = positions(1, projection.len());
        projection.extend(extra);
        sql::select(
            projection,
            vec![self.ground.from.clone()],
            self.condition.clone(),
            grouped,
        )
    }

    fn shown(&self, names: Vec<String>) -> Vec<ast::SelectItem> {
        names
            .into_iter()
            .map(|name| sql::aliased(sql::cast(sql::bare(&name), &Type::Text), &name))
            .collect()
    }

    fn plain(names: impl IntoIterator<Item = String>) -> Vec<ast::SelectItem> {
        names
            .into_iter()
            .map(|name| ast::SelectItem::UnnamedExpr(sql::bare(&name)))
            .collect()
    }

    /// The number of unlike values in each group.
    fn counted(&self, limit: u64) -> ast::Query {
        let from = self.distinct(limit);
        let subject = match self.subjects().as_slice() {
            [one] => sql::bare(one),
            many => ast::Expr::Tuple(many.iter().map(|name| sql::bare(name)).collect()),
        };
        let groups = group_columns(self.release);
        let mut projection = self.shown(groups.clone());
        projection.push(sql::aliased(
            sql::cast(
                sql::distinct(sql::aggregate("count", Some(subject), None)),
                &Type::Text,
            ),
            "v0",
        ));
        let keys = groups.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(from, "s"))],
            None,
            keys,
        )
    }

    /// The number of unlike rows in each group.
    fn row_count(&self, limit: u64) -> ast::Query {
        let groups = group_columns(self.release);
        let mut projection = self.shown(groups.clone());
        projection.push(sql::aliased(
            sql::cast(sql::aggregate("count", None, None), &Type::Text),
            "v0",
        ));
        let keys = groups.iter().map(|name| sql::column("d", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(self.unlike(limit), "d"))],
            None,
            keys,
        )
    }

    /// Each group's unlike values, once each.
    fn unlike(&self, limit: u64) -> ast::Query {
        let names: Vec<String> = group_columns(self.release)
            .into_iter()
            .chain(self.subjects())
            .collect();
        let all = vec![sql::tables(sql::derived(self.distinct(limit), "s"))];
        sql::select(
            Self::plain(names.clone()),
            all,
            None,
            positions(1, names.len()),
        )
    }

    /// The number of unlike values in each group, and sums of their integers, which are functions
    /// of the values.
    fn summed(&self, limit: u64, degree: &Degree) -> ast::Query {
        let groups = group_columns(self.release);
        let most = degree
            .fixed_point()
            .map_or(0, |fixed_point| i128::from(fixed_point.spread()));
        let integer = || within(sql::bare("x1"), (-most, most));
        let sum = |value: ast::Expr| {
            sql::call(
                "coalesce",
                vec![sql::aggregate("sum", Some(value), None), sql::number("0")],
            )
        };
        let mut columns = vec![
            sql::aggregate("count", Some(sql::bare("x0")), None),
            sum(integer()),
        ];
        if let Degree::Squares(fixed_point) = degree {
            columns.push(sum(lacks(integer(), fixed_point)));
        }
        let mut projection = self.shown(groups.clone());
        projection.extend(
            columns.into_iter().enumerate().map(|(at, column)| {
                sql::aliased(sql::cast(column, &Type::Text), &format!("v{at}"))
            }),
        );
        let keys = groups.iter().map(|name| sql::column("d", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(self.unlike(limit), "d"))],
            None,
            keys,
        )
    }

    /// Group and value of each unit's unlike values, the first `limit` of them by hash.
    fn distinct(&self, limit: u64) -> ast::Query {
        let names: Vec<String> = self.keys().into_iter().chain(self.subjects()).collect();
        let mut from = self.per_unit(Vec::new());
        if !self.release.one_row_per_unit {
            let types = self
                .release
                .keys
                .iter()
                .map(|(e, _)| &e.data_type)
                .chain(&self.types);
            let mut order = vec![hash_of(&names)];
            order.extend(
                names
                    .iter()
                    .zip(types)
                    .map(|(name, data_type)| collated(sql::bare(name), data_type)),
            );
            let mut projection = Self::plain(names.clone());
            projection.push(sql::aliased(
                sql::over("row_number", Vec::new(), sql::bare("u"), order),
                "r",
            ));
            let ranked = sql::select(
                projection,
                vec![sql::tables(sql::derived(from, "g"))],
                None,
                Vec::new(),
            );
            let kept = sql::binary(sql::bare("r"), B::LtEq, sql::number(&limit.to_string()));
            from = sql::select(
                Self::plain(names),
                vec![sql::tables(sql::derived(ranked, "h"))],
                Some(kept),
                Vec::new(),
            );
        }
        self.rolled(from, &self.subjects())
    }

    /// The rows once for each grouping set, where there are any.
    fn rolled(&self, rows: ast::Query, carried: &[String]) -> ast::Query {
        if self.release.sets.is_empty() {
            return rows;
        }
        let (mut projection, from) = over_sets(self.release, rows);
        projection.extend(
            carried
                .iter()
                .map(|name| sql::aliased(sql::column("g", name), name)),
        );
        sql::select(projection, from, None, Vec::new())
    }

    /// The weight of each candidate in each group; a unit of more than `limit` rows has each scaled
    /// down, in exact integers.
    fn weighed(&self, limit: u64) -> ast::Query {
        let names: Vec<String> = self.keys().into_iter().chain(self.subjects()).collect();
        let count = sql::aliased(sql::aggregate("count", None, None), "c");
        let mut from = self.per_unit(vec![count]);
        let weight = if self.release.one_row_per_unit {
            sql::bare("c")
        } else {
            let mut projection = Self::plain(names.iter().cloned().chain(["c".to_owned()]));
            projection.push(sql::aliased(
                sql::over("sum", vec![sql::bare("c")], sql::bare("u"), Vec::new()),
                "n",
            ));
            from = sql::select(
                projection,
                vec![sql::tables(sql::derived(from, "g"))],
                None,
                Vec::new(),
            );
            let rows = sql::cast(sql::bare("c"), &Type::Numeric(None));
            let whole = sql::binary(rows, B::Multiply, sql::number(&ROW_WEIGHT.to_string()));
            let scaled = sql::call(
                "div",
                vec![
                    sql::binary(whole.clone(), B::Multiply, sql::number(&limit.to_string())),
                    sql::bare("n"),
                ],
            );
            let above = sql::binary(sql::bare("n"), B::Gt, sql::number(&limit.to_string()));
            sql::case(vec![(above, scaled)], Some(whole))
        };
        let mut weighed = Self::plain(names.iter().cloned());
        weighed.push(sql::aliased(weight, "w"));
        from = sql::select(
            weighed,
            vec![sql::tables(sql::derived(from, "h"))],
            None,
            Vec::new(),
        );
        from = self.rolled(
            from,
            &self
                .subjects()
                .into_iter()
                .chain(["w".to_owned()])
                .collect::<Vec<_>>(),
        );
        let names: Vec<String> = group_columns(self.release)
            .into_iter()
            .chain(self.subjects())
            .collect();
        let mut projection = self.shown(names.clone());
        projection.push(sql::aliased(
            sql::cast(
                sql::aggregate("sum", Some(sql::bare("w")), None),
                &Type::Text,
            ),
            "v0",
        ));
        let keys = names.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(from, "s"))],
            None,
            keys,
        )
    }
}
