//! The choice queries of a release.

use super::{ChoiceQuery, Degree, Subject, Target};
use crate::aggregates::{ChoiceId, DrawId, PairLimits, Ranks, choice_value};
use crate::ir::{Distinct, Expr, Fractions};

/// The choice queries of a release; equal ones are asked once.
#[derive(Debug, Default)]
pub struct ChoiceQueries(pub Vec<ChoiceQuery>);

impl ChoiceQueries {
    /// Values of a subject near these targets. A query for the same value gains the targets that it
    /// lacks. Where the error is reported, a value is chosen with the ends of its interval.
    pub fn choose_values(
        &mut self,
        (subject, filter): (Subject, &Option<Expr>),
        (targets, is_array): (Vec<Target>, bool),
        reports_error: bool,
    ) -> choice_value::ChoiceOutput {
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
            DrawId(known.iter().position(|t| *t == target).unwrap_or_else(|| {
                known.push(target);
                known.len() - 1
            }))
        };
        let draws: Vec<DrawId> = targets.into_iter().map(&mut position).collect();
        for end in ends {
            position(end);
        }
        choice_value::ChoiceOutput {
            choice: ChoiceId(choice),
            draws,
            is_array,
        }
    }

    /// The query for these distinct values. An earlier query for the same values is widened if it
    /// asks for less.
    pub fn distinct(
        &mut self,
        values: Distinct,
        filter: &Option<Expr>,
        per_unit_max: PairLimits,
        degree: Degree,
    ) -> ChoiceId {
        for (at, query) in self.0.iter_mut().enumerate() {
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
                return ChoiceId(at);
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
        ChoiceId(self.0.len() - 1)
    }
}

/// The targets of ranks, and whether they are shown as an array.
pub fn targets(ranks: &Ranks) -> (Vec<Target>, bool) {
    match ranks {
        Ranks::End(end) => (vec![Target::End(*end)], false),
        Ranks::Fractions(fractions) => {
            let all = fractions.all().iter().map(|f| Target::Fraction(*f));
            (all.collect(), matches!(fractions, Fractions::Array(_)))
        }
    }
}
