//! What the fields of records are computed from: released moments, once they are there.

use super::field_value::FieldValue;
use super::logistic::newton;
use super::measure_id::MeasureId;
use super::moments::{MomentMeasures, Noisy};
use super::principal_components::fit as components;
use super::regression::fit as regression;
use crate::policy::{ComponentsField, LogisticField, RecordField, RegressionField};

/// What a record is computed from, and how. Equal ones have the same fields.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    Regression {
        moments: MomentMeasures,
        of: regression::Regression,
    },
    /// A step of a logistic regression.
    Newton {
        sums: newton::NewtonSums,
        step: newton::NewtonStep,
    },
    Components {
        moments: MomentMeasures,
        shown: usize,
    },
}

/// The fields of one group.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    Regression(regression::RegressionFit),
    Newton(newton::LogisticFit),
    Components(components::ComponentsFit),
}

impl Model {
    /// The fit of one group, of which `measure` gives the measures. `None` where one is not known,
    /// or where the fields are not determined.
    pub fn fit(&self, measure: &dyn Fn(MeasureId) -> Option<Noisy>) -> Option<Fit> {
        match self {
            Self::Regression { moments, of } => {
                regression::fit(&moments.of_group(measure)?, of).map(Fit::Regression)
            }
            Self::Newton { sums, step } => newton::fit(sums, step, measure).map(Fit::Newton),
            Self::Components { moments, shown } => {
                components::fit(&moments.of_group(measure)?, *shown).map(Fit::Components)
            }
        }
    }
    /// The number of rows.
    pub(super) fn count(&self) -> MeasureId {
        match self {
            Self::Regression { moments, of: _ } | Self::Components { moments, shown: _ } => {
                moments.count
            }
            Self::Newton { sums, step: _ } => sums.count,
        }
    }

    /// About how many products of two numbers the fit of one group takes, where released numbers
    /// have this many draws of noise.
    pub fn work(&self, draws: usize) -> u64 {
        let (size, times, plain) = match self {
            Self::Regression { moments, of } => {
                let size = moments.values.len() + 1;
                (size, 8, if of.l1 > 0.0 { 32 + 4 * size } else { 32 })
            }
            Self::Newton { sums, step: _ } => (sums.gradient.len(), 4, 32),
            Self::Components { moments, shown } => (moments.values.len() + 1, 6 + 3 * shown, 32),
        };
        let square = (size * size) as u64;
        square * (times * draws + plain * size) as u64
    }

    /// The aggregate's name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Regression { .. } => super::regression::NAME,
            Self::Newton { .. } => super::logistic::NAME,
            Self::Components { .. } => super::principal_components::NAME,
        }
    }

    /// Whether a field is an error of sampling.
    pub fn has_sampling_error(&self, field: &RecordField) -> bool {
        match self {
            Self::Regression { moments: _, of } => {
                RegressionField::by_name(field.name) == Some(RegressionField::StdErr)
                    && of.l1 == 0.0
            }
            Self::Newton { .. } => {
                LogisticField::by_name(field.name) == Some(LogisticField::StdErr)
            }
            Self::Components { .. } => false,
        }
    }

    /// Why its fields are NULL where there are rows enough.
    pub fn why_undetermined(&self) -> &'static str {
        match self {
            Self::Regression { .. } | Self::Newton { .. } => "as the features depend on each other",
            Self::Components { .. } => "as there is one row only, or as nothing varies",
        }
    }

    /// What noise did to the fits of some groups, if it did something to one: in how many, and
    /// what.
    pub fn remark<'f>(&self, fits: impl Iterator<Item = &'f Fit>) -> Option<(usize, FitCaution)> {
        let of_each = fits.filter_map(|fit| match fit {
            Fit::Regression(fit) => (fit.penalty > 0.0).then_some(FitCaution::Shrunk(fit.penalty)),
            Fit::Newton(fit) => fit.is_held.then_some(FitCaution::Held),
            Fit::Components(fit) => (fit.lost > 0).then_some(FitCaution::Lost),
        });
        let greater = |one: FitCaution, other: FitCaution| match (one, other) {
            (FitCaution::Shrunk(one), FitCaution::Shrunk(other)) => {
                FitCaution::Shrunk(one.max(other))
            }
            (one, _) => one,
        };
        of_each.fold(None, |found, one| match found {
            None => Some((1, one)),
            Some((groups, known)) => Some((groups + 1, greater(known, one))),
        })
    }
}

/// What noise did to a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FitCaution {
    /// A penalty of at most this shrinks its coefficients.
    Shrunk(f64),
    /// The last step is shorter than the curvature says.
    Held,
    /// Some components vary less than the noise.
    Lost,
}

impl Fit {
    /// A field; `None` where it is NULL, and for the number of rows, which is a count.
    pub fn part(&self, field: &RecordField) -> Option<FieldValue<'_>> {
        match self {
            Self::Regression(fit) => fit.part(RegressionField::by_name(field.name)?),
            Self::Newton(fit) => fit.part(field),
            Self::Components(fit) => fit.part(ComponentsField::by_name(field.name)?),
        }
    }
}
