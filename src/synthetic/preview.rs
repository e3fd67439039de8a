//! Made-up rows for the preview of one table.

use std::collections::HashSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{ColumnSource, FillContext, Filler, KeyModel, NoisyMarginals, Parents, draw};
use crate::policy::{Policy, Summary};
use crate::release::ReleasedTable;
use crate::rewrite::ReleasePlan;

/// The most rows of a preview.
const ROWS_MAX: usize = 1_000;

/// Rows made up from a summary, the same whenever and wherever they are made.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewRows {
    /// A JSON array of objects, by the names of the table's columns. NULL is left out.
    pub json: String,
    /// The columns that the summary does not have.
    pub not_in_summary: Vec<String>,
}

impl PreviewRows {
    /// Rows of the summary's table. `None` if the released table does not belong to the summary.
    ///
    /// # Guarantee
    /// Post-processing of the summary and the policy.
    pub fn of(
        policy: &Policy,
        summary: &Summary,
        (release, released): (&ReleasePlan, &ReleasedTable),
    ) -> Option<Self> {
        let marginals = NoisyMarginals::read(summary, release, released)?;
        let model = KeyModel::of(&marginals)?;
        let rows = (model.rows.round() as usize).min(ROWS_MAX);
        let table = &policy.tables[summary.table];
        let around = FillContext {
            types: &policy.types,
            parents: None,
            referenced: &HashSet::new(),
        };
        let filler = Filler::new(table, summary, rows, &around);
        let sizes: Vec<usize> = marginals.values.iter().map(Vec::len).collect();
        // Not for privacy: the summary is released.
        let mut random = StdRng::from_seed(Sha256::digest(released.to_stored()).into());
        let sample = draw(&model, &sizes, rows, &mut random);
        let filled = filler.fill(&sample, &marginals, Parents::none(rows), &mut random);
        let columns = filled.columns;
        let rows = columns.iter().map(Vec::len).min().unwrap_or(0);
        let row = |at: usize| {
            let values = table.columns.iter().zip(&columns);
            let named = values.filter_map(|(column, values)| {
                Some((column.name.clone(), Value::String(values[at].clone()?)))
            });
            Value::Object(named.collect::<Map<String, Value>>())
        };
        let is_outside = |source: &ColumnSource| {
            !matches!(source, ColumnSource::Key(_) | ColumnSource::Measure(_))
        };
        let sources = table.columns.iter().zip(&filler.sources);
        let outside = sources.filter(|(_, source)| is_outside(source));
        Some(Self {
            json: Value::Array((0..rows).map(row).collect()).to_string(),
            not_in_summary: outside.map(|(column, _)| column.name.clone()).collect(),
        })
    }
}
