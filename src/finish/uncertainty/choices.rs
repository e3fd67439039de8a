//! The errors of counts of distinct values and of chosen values.

use super::{ErrorInterval, Row};
use crate::aggregates::{ChoiceId, DistinctValues, DrawId, Estimate, ReleasedColumn};
use crate::release::ClipBias;
use crate::rewrite::{ChoiceKind, ChoicePlan, Degree, Side, Subject, Target, product_step};

/// A value out of known candidates.
pub(super) struct ChosenValue {
    pub value: f64,
    pub spread: ErrorInterval,
}

impl Row<'_> {
    /// The noisy number of distinct values. Its draws come after those of the coordinates.
    pub(super) fn distinct_rows(&self, choice: ChoiceId) -> Option<Estimate> {
        self.choice_column(choice, 0, [1.0, 0.0, 0.0])
    }

    /// A chosen value, where its error is known. In arithmetic its error is that of the wider side
    /// of its interval, so that no result looks more accurate than the drawn ends.
    pub(super) fn quantile(&self, choice: ChoiceId, draw: DrawId) -> Option<Estimate> {
        let ChosenValue {
            value,
            spread:
                ErrorInterval {
                    error: Some(_),
                    low,
                    high,
                    low_by: _,
                },
        } = self.chosen_value(choice, draw)?
        else {
            return None;
        };
        // Its draw comes after all added noise, and after the draws of earlier choices.
        let added = self.release.coordinates().len() + 3 * self.release.choices().len();
        let ReleasedColumn(first) = self.release.first_column(choice);
        let earlier = first - self.release.measures().len();
        let mut noise = vec![0.0; added + earlier + draw.0];
        noise.push((high - value).max(value - low) / self.z);
        Some(Estimate::new(value, noise, self.z).between(low, high))
    }

    pub(super) fn chosen_value(&self, choice: ChoiceId, draw: DrawId) -> Option<ChosenValue> {
        let ChoicePlan { question, kind, .. } = self.release.choice(choice);
        let (
            ChoiceKind::Choice {
                draws,
                halving,
                weight_max,
                row_weight,
            },
            Subject::Value {
                value: _,
                candidates,
            },
        ) = (kind, &question.subject)
        else {
            return None;
        };
        let (target, range) = (question.targets.get(draw.0)?, candidates.ends()?);
        let released = |draw: DrawId| {
            let column = self.release.first_column(choice) + draw.0;
            self.released_text(column)?.parse::<f64>().ok()
        };
        let value = released(draw)?;
        let side = |wanted: Side| {
            target
                .sides()
                .into_iter()
                .find(|t| matches!(t, Target::Beyond(_, side) if *side == wanted))
        };
        let end = |wanted: Side| {
            side(wanted)
                .and_then(|side| question.targets.iter().position(|t| *t == side))
                .and_then(|at| released(DrawId(at)))
        };
        let (low, high) = (end(Side::Low), end(Side::High));
        // The rank of a fraction that is chosen together with others carries their errors too.
        let is_alone = halving.is_none() || !matches!(target, Target::Fraction(_));
        let error = low.zip(high).filter(|_| is_alone).and_then(|(low, high)| {
            let draw = draws.get(draw.0)?;
            // The draw at the chosen limit.
            let row = *row_weight as f64;
            let (times, lost) = self.row_cut(choice).map_or((1.0, 0.0), |cut| {
                let times = cut.clip * row / *weight_max as f64;
                (times, cut.rows * row)
            });
            let reach = target.reach(draw, candidates.count(), *row_weight) - row;
            let between = 2.0 * (reach * times + row) + lost;
            Some((high - low).max(0.0) * target.deviation(draw) * times / between)
        });
        Some(ChosenValue {
            value,
            spread: ErrorInterval {
                error,
                low: low.map_or(range.0, |low| low.min(value)),
                high: high.map_or(range.1, |high| high.max(value)),
                low_by: None,
            },
        })
    }

    /// The rows that a limit chosen from a look cut from a choice.
    fn row_cut(&self, choice: ChoiceId) -> Option<&ClipBias> {
        let mut cuts = self.row_cuts.iter();
        cuts.find_map(|(at, cut)| (*at == choice).then_some(cut))
    }

    /// A column of a choice. `factors` say how often it holds the noises of the choice's count, sum
    /// and squares.
    fn choice_column(
        &self,
        choice: ChoiceId,
        column: usize,
        factors: [f64; 3],
    ) -> Option<Estimate> {
        let ChoiceKind::Count {
            calibrated,
            weights: _,
            clip: _,
        } = &self.release.choice(choice).kind
        else {
            return None;
        };
        let mut noise = vec![0.0; self.release.coordinates().len() + factors.len() * choice.0];
        noise.extend(
            calibrated.iter().zip(factors).map(|(c, factor)| {
                factor * c.noise.standard_deviation() / 2f64.powi(c.refine as i32)
            }),
        );
        Some(Estimate::new(
            self.released_text(self.release.first_column(choice) + column)?
                .parse()
                .ok()?,
            noise,
            self.z,
        ))
    }

    /// The count, sum and squares of distinct values.
    pub(super) fn distinct(&self, choice: ChoiceId) -> Option<DistinctValues> {
        let Subject::Distinct {
            values: _,
            per_unit_max: _,
            degree,
        } = &self.release.choice(choice).question.subject
        else {
            return None;
        };
        let fixed_point = degree.fixed_point()?;
        let (step, ends) = (fixed_point.step.size(), fixed_point.ends());
        let centre = fixed_point.centre_twice() as f64 * step / 2.0;
        let of_squares = [
            ((ends.hi - ends.lo) / 2.0).powi(2),
            0.0,
            -product_step(fixed_point, fixed_point),
        ];
        let squares = match degree {
            Degree::Squares(_) => self.choice_column(choice, Degree::SQUARES, of_squares),
            Degree::Count | Degree::Sum(_) => None,
        };
        Some(DistinctValues {
            count: self.distinct_rows(choice)?,
            sum: self.choice_column(choice, Degree::SUM, [centre, step / 2.0, 0.0])?,
            squares,
            centre,
            ends,
        })
    }
}
