//! The choice queries of a release.

use super::candidates::{Candidates, Grid};
use super::{ChoiceQuery, Degree, Subject, Target};
use crate::analyze::{
    AnalyzedRelease, BoundedAggregate, BoundedOperation, PairLimits, Ranks, inline,
};
use crate::ir::{ColumnInfo, Distinct, Expr, Fractions, Moment};
use crate::refusal::Refusal;
use crate::rewrite::vector::coordinates::Output;
use crate::rewrite::vector::fixed_point::FixedPoint;

/// The choice queries of a release; equal ones are asked once.
#[derive(Debug, Default)]
pub struct ChoiceQueries(pub Vec<ChoiceQuery>);

/// What one aggregate asks of a choice.
struct Asked {
    subject: Subject,
    targets: Vec<Target>,
    is_array: bool,
}

impl ChoiceQueries {
    /// Adds what the aggregate asks, and returns its output; `None` where it belongs to the vector.
    /// Where its error is reported, a chosen value is asked with the ends of its interval.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no fixed-point grid.
    pub fn add(
        &mut self,
        aggregate: &BoundedAggregate,
        reports_error: bool,
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
    ) -> Result<Option<Output>, Refusal> {
        let BoundedAggregate {
            filter,
            operation,
            data_type: _,
        } = aggregate;
        let asked = match operation {
            BoundedOperation::Distinct {
                values,
                per_unit_max,
            } => {
                let choice = self.distinct(values.clone(), filter, *per_unit_max, Degree::Count);
                return Ok(Some(Output::Choice {
                    choice,
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
                let values = Distinct::Value(argument.clone());
                let choice = self.distinct(values, filter, *per_unit_max, degree);
                return Ok(Some(Output::Distinct {
                    choice,
                    range,
                    moment: *moment,
                }));
            }
            BoundedOperation::Ranked {
                argument,
                range,
                ranks,
            } => {
                let grid = Grid::new(argument, *range, release, columns)?;
                ranked(argument, Candidates::Grid(grid), ranks)
            }
            BoundedOperation::Mode { argument, values } => Asked {
                subject: Subject::Value {
                    value: argument.clone(),
                    candidates: Candidates::listed(values, &argument.data_type),
                },
                targets: vec![Target::MostFrequent],
                is_array: false,
            },
            BoundedOperation::CountRows
            | BoundedOperation::Count { .. }
            | BoundedOperation::CountUnits
            | BoundedOperation::Sum { .. } => return Ok(None),
            BoundedOperation::Average { .. }
            | BoundedOperation::Dispersion { .. }
            | BoundedOperation::Joint { .. }
            | BoundedOperation::Truth(_) => return Ok(None),
        };
        Ok(Some(self.chosen(asked, filter, reports_error)))
    }

    /// The output of chosen values. A query for the same value gains the targets that it lacks.
    fn chosen(&mut self, asked: Asked, filter: &Option<Expr>, reports_error: bool) -> Output {
        let Asked {
            subject,
            targets,
            is_array,
        } = asked;
        let choice = self
            .0
            .iter()
            .position(|query| query.filter == *filter && query.subject == subject)
            .unwrap_or_else(|| {
                self.0.push(ChoiceQuery {
                    filter: filter.clone(),
                    subject,
                    targets: Vec::new(),
                });
                self.0.len() - 1
            });
        // An array has no interval, and neither has a value that is not a number.
        let has_interval = reports_error
            && !is_array
            && matches!(
                &self.0[choice].subject,
                Subject::Value { value: _, candidates } if candidates.ends().is_some()
            );
        let ends: Vec<Target> = if has_interval {
            targets.iter().flat_map(Target::sides).collect()
        } else {
            Vec::new()
        };
        let known = &mut self.0[choice].targets;
        let mut position = |target: Target| {
            known.iter().position(|t| *t == target).unwrap_or_else(|| {
                known.push(target);
                known.len() - 1
            })
        };
        let draws: Vec<usize> = targets.into_iter().map(&mut position).collect();
        for end in ends {
            position(end);
        }
        Output::Choice {
            choice,
            draws,
            is_array,
        }
    }

    /// The query for these distinct values. An earlier query that asks for less of them is widened.
    fn distinct(
        &mut self,
        values: Distinct,
        filter: &Option<Expr>,
        per_unit_max: PairLimits,
        degree: Degree,
    ) -> usize {
        for (choice, query) in self.0.iter_mut().enumerate() {
            if let Subject::Distinct {
                values: known,
                per_unit_max: most,
                degree: asked,
            } = &mut query.subject
                && (query.filter == *filter && *known == values && *most == per_unit_max)
                && (asked.includes(&degree) || degree.includes(asked))
            {
                if degree.includes(asked) {
                    *asked = degree;
                }
                return choice;
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

fn ranked(argument: &Expr, candidates: Candidates, ranks: &Ranks) -> Asked {
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
    Asked {
        subject: Subject::Value {
            value: argument.clone(),
            candidates,
        },
        targets,
        is_array,
    }
}
