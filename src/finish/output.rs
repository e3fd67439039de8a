//! Aggregates from their measures, in PostgreSQL's own arithmetic and types. Post-processing:
//! whatever the noise did to a measure, the result is a value or NULL, never an error.

use sqlparser::ast;

use super::uncertainty::has_few;
use crate::aggregates::{ChoiceId, Columns, MeasureId, Output, ReleasedColumn};
use crate::catalog::Type;
use crate::ir::{AggregateId, sql};
use crate::release::{NoiseRecord, ReleasedTable, TooFew};
use crate::rewrite::{ReleasePlan, measure_deviation};

/// An aggregate over one row of measures, `r`. `drawn`: their noise, which is another than
/// the plan's where the answer was stored.
pub fn value(
    release: &ReleasePlan,
    table: &ReleasedTable,
    at: AggregateId,
    (output, data_type): &(Output, Type),
) -> ast::Expr {
    let drawn = table.drawn.as_ref();
    if output.as_dictionary().is_some() {
        return sql::cast(output.sql(&Released { release, drawn, at }), data_type);
    }
    let groups = table.measures.len();
    let unseen = groups_unseen(release, table, output);
    if !unseen.is_empty() && unseen.iter().map(|(own, _)| own).sum::<usize>() >= groups {
        return sql::cast(sql::null(), data_type);
    }
    let exact = output.sql(&Released { release, drawn, at });
    // At a small epsilon the noise may carry a sum past its type.
    let exact = match ends(data_type) {
        Some((lo, hi)) if output.is_unbounded() => within(exact, lo, hi),
        Some(_) | None => exact,
    };
    let exact = if is_null_in_some(release, table, output) {
        sql::case(vec![(sql::column("r", &enough_column(at)), exact)], None)
    } else {
        exact
    };
    sql::cast(exact, data_type)
}

/// In how many groups an aggregate is NULL since a look saw too few units to draw it, and what that
/// saw: for each answer that the groups come from.
pub fn groups_unseen(
    release: &ReleasePlan,
    table: &ReleasedTable,
    output: &Output,
) -> Vec<(usize, TooFew)> {
    let Some(drawn) = &table.drawn else {
        return Vec::new();
    };
    let groups = table.measures.len();
    let measures = output.measures().into_iter();
    let mut unseen = measures.map(|at| drawn.groups_unseen(release.measure(at), groups));
    unseen.find(|of| !of.is_empty()).unwrap_or_default()
}

/// Whether the aggregate is NULL in those groups where [`is_missing`] says so.
pub fn is_null_in_some(release: &ReleasePlan, table: &ReleasedTable, output: &Output) -> bool {
    output.needs_rows() || !groups_unseen(release, table, output).is_empty()
}

/// Whether the aggregate of a group is NULL: it has too few rows, or a look saw too few units.
pub fn is_missing(
    release: &ReleasePlan,
    output: &Output,
    table: &ReleasedTable,
    group: usize,
) -> bool {
    let is_unseen = |drawn: &NoiseRecord| {
        let mut measures = output.measures().into_iter();
        measures.any(|at| drawn.unseen(release.measure(at), group).is_some())
    };
    table.drawn.as_ref().is_some_and(is_unseen)
        || output.needs_rows() && has_few(release, output, table, group)
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
