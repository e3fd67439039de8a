//! What the fields of records are computed from: released moments, once they are there.

use super::field_value::FieldValue;
use super::measure_id::MeasureId;
use super::moments::{MomentMeasures, Noisy};
use super::principal_components::fit as components;
use super::regression::fit as regression;
use crate::policy::{ComponentsField, RecordField, RegressionField};

/// What a record is computed from, and how. Equal ones have the same fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub moments: MomentMeasures,
    pub kind: ModelKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModelKind {
    Regression(regression::Regression),
    Components { shown: usize },
}

/// The fields of one group.
#[derive(Debug, Clone, PartialEq)]
pub enum Fit {
    Regression(regression::RegressionFit),
    Components(components::ComponentsFit),
}

impl Model {
    /// The fit of one group, of which `measure` gives the measures. `None` where one is not known,
    /// or where the fields are not determined.
    pub fn fit(&self, measure: &dyn Fn(MeasureId) -> Option<Noisy>) -> Option<Fit> {
        let moments = self.moments.of_group(measure)?;
        match &self.kind {
            ModelKind::Regression(of) => regression::fit(&moments, of).map(Fit::Regression),
            ModelKind::Components { shown } => {
                components::fit(&moments, *shown).map(Fit::Components)
            }
        }
    }

    /// About how many products of two numbers the fit of one group takes, where released numbers
    /// have this many draws of noise.
    pub fn work(&self, draws: usize) -> u64 {
        let size = self.moments.values.len() as u64 + 1;
        let noisy = size * size * draws as u64;
        let (times, plain) = match &self.kind {
            ModelKind::Regression(of) if of.l1 > 0.0 => (8, 32 + 4 * size),
            ModelKind::Regression(_) => (8, 32),
            ModelKind::Components { shown } => (6 + 3 * *shown as u64, 32),
        };
        times * noisy + plain * size * size * size
    }

    /// The aggregate's name, for messages.
    pub fn name(&self) -> &'static str {
        match self.kind {
            ModelKind::Regression(_) => super::regression::NAME,
            ModelKind::Components { .. } => super::principal_components::NAME,
        }
    }

    /// Whether a field is an error of sampling.
    pub fn has_sampling_error(&self, field: &RecordField) -> bool {
        match &self.kind {
            ModelKind::Regression(of) => {
                RegressionField::by_name(field.name) == Some(RegressionField::StdErr)
                    && of.l1 == 0.0
            }
            ModelKind::Components { .. } => false,
        }
    }

    /// Why its fields are NULL where there are rows enough.
    pub fn why_undetermined(&self) -> &'static str {
        match self.kind {
            ModelKind::Regression(_) => "as the features depend on each other",
            ModelKind::Components { .. } => "as there is one row only, or as nothing varies",
        }
    }

    /// What noise did to the fits of some groups, if it did something to one: in how many, and
    /// what.
    pub fn remark<'f>(&self, fits: impl Iterator<Item = &'f Fit>) -> Option<(usize, Remark)> {
        let of_each = fits.filter_map(|fit| match fit {
            Fit::Regression(fit) => (fit.penalty > 0.0).then_some(Remark::Shrunk(fit.penalty)),
            Fit::Components(fit) => (fit.lost > 0).then_some(Remark::Lost),
        });
        let greater = |one: Remark, other: Remark| match (one, other) {
            (Remark::Shrunk(one), Remark::Shrunk(other)) => Remark::Shrunk(one.max(other)),
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
pub enum Remark {
    /// A penalty of at most this shrinks its coefficients.
    Shrunk(f64),
    /// Some components vary less than the noise.
    Lost,
}

impl Fit {
    /// A field; `None` where it is NULL, and for the number of rows, which is a count.
    pub fn part(&self, field: &RecordField) -> Option<FieldValue<'_>> {
        match self {
            Self::Regression(fit) => fit.part(RegressionField::by_name(field.name)?),
            Self::Components(fit) => fit.part(ComponentsField::by_name(field.name)?),
        }
    }
}
