//! The rows of a release whose groups are decoded together: one for each value that is shown.

use super::uncertainty::spread_decoded;
use super::{Columns, Fits, array, float, output};
use crate::aggregates::DecodedValue;
use crate::catalog::Type;
use crate::ir::{AggregateId, KeyId, ReleaseId, key_column};
use crate::release::ReleasedTable;
use crate::rewrite::ReleasePlan;

impl Columns {
    /// The values, their numbers and what is known of their errors. No row where the values were
    /// not decoded.
    pub(super) fn add_decoded(
        &mut self,
        release: &ReleasePlan,
        table: &ReleasedTable,
        (id, fits): (ReleaseId, &Fits),
    ) {
        let shown: &[DecodedValue] = fits.values_of(id).map_or(&[], |decoded| &decoded.shown);
        let listed = release
            .dictionary()
            .map(|of| of.dictionary().values.as_slice());
        let value = |one: &DecodedValue| listed.and_then(|of| of.get(one.place)).cloned();
        let values: Vec<Option<String>> = shown.iter().map(value).collect();
        self.add_texts(key_column(KeyId(0)), &values, &Type::Text);
        self.groups = self.names.len();
        let counts: Vec<Option<String>> = shown
            .iter()
            .map(|one| Some(format!("{:.0}", one.count)))
            .collect();
        for (at, _) in AggregateId::with_numbers(release.outputs()) {
            self.add_texts(output::fitted_column(at), &counts, &Type::Text);
        }
        for (at, uncertainty) in release.uncertainties().iter().enumerate() {
            let known = |one: &DecodedValue| {
                let spread = spread_decoded(release, &uncertainty.formula, (table, one))?;
                spread.round_outward().of(uncertainty.statistic).map(float)
            };
            let known: Vec<Option<String>> = shown.iter().map(known).collect();
            self.add_texts(uncertainty.column(at), &known, &Type::Float8);
        }
    }

    fn add_texts(&mut self, name: String, texts: &[Option<String>], data_type: &Type) {
        let texts = array(texts.iter().map(Option::as_deref), data_type);
        self.add(name, texts);
    }
}
