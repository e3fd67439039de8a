//! Aggregates from their measures, in PostgreSQL's own arithmetic and types. Post-processing:
//! whatever the noise did to a measure, the result is a value or NULL, never an error.

use sqlparser::ast;

use crate::aggregates::{ChoiceId, Columns, MeasureId, Output, ReleasedColumn};
use crate::catalog::Type;
use crate::ir::{AggregateId, sql};
use crate::release::{NoiseRecord, TooFew};
use crate::rewrite::{ReleasePlan, measure_deviation};

/// An aggregate over one row of measures, `r`. `drawn`: their noise, which is another than
/// the plan's where the answer was stored.
pub fn value(
    release: &ReleasePlan,
    drawn: Option<&NoiseRecord>,
    at: AggregateId,
    (output, data_type): &(Output, Type),
) -> ast::Expr {
    if drawn.is_some_and(|drawn| unseen(release, drawn, output).is_some()) {
        return sql::cast(sql::null(), data_type);
    }
    let exact = output.sql(&Released { release, drawn, at });
    // At a small epsilon the noise may carry a sum past its type.
    let exact = match ends(data_type) {
        Some((lo, hi)) if output.is_unbounded() => within(exact, lo, hi),
        Some(_) | None => exact,
    };
    let exact = if output.needs_rows() {
        sql::case(vec![(sql::column("r", &enough_column(at)), exact)], None)
    } else {
        exact
    };
    sql::cast(exact, data_type)
}

/// What a look saw of an aggregate's units, where they were too few to draw it: it is NULL.
pub fn unseen(release: &ReleasePlan, drawn: &NoiseRecord, output: &Output) -> Option<TooFew> {
    let mut measures = output.measures().into_iter();
    measures.find_map(|at| drawn.unseen(release.measure(at)))
}

/// The columns of a released table.
struct Released<'r> {
    release: &'r ReleasePlan,
    drawn: Option<&'r NoiseRecord>,
    at: AggregateId,
}

impl Columns for Released<'_> {
    fn deviation(&self, measure: MeasureId) -> f64 {
        let measure = self.release.measure(measure);
        self.drawn
            .map(|drawn| drawn.deviation(measure))
            .or_else(|| measure_deviation(self.release, measure))
            .unwrap_or(0.0)
    }

    fn first_of(&self, choice: ChoiceId) -> ReleasedColumn {
        self.release.first_column(choice)
    }

    fn fitted_value(&self) -> ast::Expr {
        sql::column("r", &fitted_column(self.at))
    }
}

/// Names the column of an aggregate whose value is computed here.
pub fn fitted_column(AggregateId(at): AggregateId) -> String {
    format!("f{at}")
}

/// Names the column that says whether an aggregate has rows enough.
pub fn enough_column(AggregateId(at): AggregateId) -> String {
    format!("e{at}")
}

/// The least and the greatest value of a type that sums have, if there are such.
fn ends(data_type: &Type) -> Option<(ast::Expr, ast::Expr)> {
    match data_type {
        Type::Int8 => Some((
            sql::number_literal(&i64::MIN.to_string()),
            sql::number_literal(&i64::MAX.to_string()),
        )),
        // Printed in the whole, so read as numeric, and rounded to the same float.
        Type::Float4 => Some((number(-f64::from(f32::MAX)), number(f64::from(f32::MAX)))),
        Type::Float8 => Some((number(-f64::MAX), number(f64::MAX))),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Numeric(_)
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => None,
    }
}

fn number(value: f64) -> ast::Expr {
    sql::number_literal(&value.to_string())
}

fn within(value: ast::Expr, lo: ast::Expr, hi: ast::Expr) -> ast::Expr {
    sql::call("least", vec![sql::call("greatest", vec![value, lo]), hi])
}
