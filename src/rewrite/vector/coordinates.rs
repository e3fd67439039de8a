//! Aggregates as one vector of integer coordinates. Equal coordinates are shared, sums are centred
//! on their bounds, and NULLs are counted instead of values.

mod layout;

use super::coordinate::{Coordinate, Measure};
use super::coordinate_id::CoordinateId;
use crate::aggregates::Output;
use crate::ir::Expr;
use crate::rewrite::choice::ChoiceQuery;

/// The vector of one release.
#[derive(Debug, Default, Clone)]
pub struct Coordinates {
    pub coordinates: Vec<Coordinate>,
    pub measures: Vec<Measure>,
    /// Parallel to the release's aggregates.
    pub outputs: Vec<Output>,
    /// The choices with their own statements, outside the vector.
    pub questions: Vec<ChoiceQuery>,
    /// Whether its clips are chosen from a look. Values are added up from zero then, where zero is
    /// not far from their range: so short sums stay short.
    pub is_looked_at: bool,
    /// For each coordinate, whether it adds up values that are themselves made of several rows: how
    /// large they are is known by a product of limits alone.
    pub made: Vec<bool>,
    /// Filters whose rows are counted without flags.
    unflagged: Vec<Expr>,
}

impl Coordinates {
    /// The factor of each coordinate's weight. In a step of a logistic regression the curvature's
    /// noise is as large as the gradient's, which has four times its range.
    pub fn stress(&self) -> Vec<u64> {
        let mut stress = vec![1; self.coordinates.len()];
        let gradients = self.outputs.iter().filter_map(Output::gradient).flatten();
        for measure in gradients {
            if let Measure::Sum {
                values: CoordinateId(at),
                ..
            } = &self.measures[measure.0]
            {
                stress[*at] = 4;
            }
        }
        stress
    }
}
