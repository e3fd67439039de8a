//! Checks the bins of a summary's key: they cover the bounds of a column that is clamped to them,
//! so that each row is in one of them.

use std::cmp::Ordering;

use crate::catalog::{self, Type};
use crate::policy::check::columns::constant;
use crate::policy::error::{At, Findings};
use crate::policy::file::Literal;
use crate::policy::{BIN_SCALE_MAX, Column, KEY_STEPS_MAX, Scalar, scalar};

/// The most bins of one key.
const BINS_MAX: usize = KEY_STEPS_MAX as usize;

/// The edges of the bins; `None` with findings where they are not bins of the column.
pub(super) fn edges(
    summary: &str,
    (column, stored): (&Column, &catalog::Column),
    bins: &At<Vec<At<Literal>>>,
    is_searched: bool,
    findings: &mut Findings,
) -> Option<Vec<Scalar>> {
    let name = &column.name;
    if let Some(fault) = not_binned(column, is_searched) {
        let message = format!("key \"{name}\" of summary \"{summary}\" {fault}");
        findings.error(bins.place, message);
        return None;
    }
    let edge = |edge: &At<Literal>| constant(stored, "an edge", edge, findings);
    let edges = bins.value.iter().map(edge).collect::<Option<Vec<_>>>()?;
    let of_key = format!("bins of key \"{name}\" of summary \"{summary}\"");
    if edges.len() < 3 || edges.len() > BINS_MAX + 1 {
        let message = format!(
            "{of_key} must be 2 to {BINS_MAX}: write the lower bound, where each further bin \
                begins, and the upper bound"
        );
        findings.error(bins.place, message);
        return None;
    }
    for (at, pair) in edges.windows(2).enumerate() {
        let exact = scalar::compare(&pair[0], &pair[1]) == Some(Ordering::Less);
        // Planning tells edges apart by their floats.
        let is_less = number(&pair[0]) < number(&pair[1]);
        if !exact || !is_less {
            let next = &bins.value[at + 1];
            let message = format!("{of_key} must ascend; \"{}\" does not", next.value.text);
            findings.error(next.place, message);
            return None;
        }
    }
    let bounds = column.bounds.as_ref()?;
    let is_bound = |edge: Option<&Scalar>, bound: &Scalar| {
        let order = edge.and_then(|edge| scalar::compare(edge, bound));
        order == Some(Ordering::Equal)
    };
    if !is_bound(edges.first(), &bounds.lower) || !is_bound(edges.last(), &bounds.upper) {
        let message = format!(
            "{of_key} must begin and end at the bounds of the column, because values past them \
                count as the bound"
        );
        findings.error(bins.place, message);
        return None;
    }
    Some(edges)
}

/// Why a column has no bins; `None` where it has.
fn not_binned(column: &Column, is_searched: bool) -> Option<&'static str> {
    if column.collected.is_some() {
        return Some(
            "is collected at random: its groups would be those of reports, not of true values",
        );
    }
    match &column.data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Float8 => {}
        Type::Date | Type::Timestamp | Type::Timestamptz => {}
        Type::Numeric(Some((_, scale))) if *scale <= BIN_SCALE_MAX => {}
        Type::Numeric(_) => {
            return Some(
                "is a numeric that may have more than 60 decimals, for which bins are not offered; \
                    declare its scale in the database, as in numeric(10, 2)",
            );
        }
        Type::Float4 => return Some("is a real, for which bins are not offered"),
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => {
            return Some("is no number, date or timestamp, so it has no bins");
        }
        Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => {
            return Some("is no number, date or timestamp, so it has no bins");
        }
    }
    if column.domain.is_some() {
        return Some("has a list of values; list the key without bins");
    }
    if is_searched {
        return Some("leaves its bounds to a search; write them");
    }
    column
        .bounds
        .is_none()
        .then_some("has no bounds; write `bounds: [lowest, highest]` for the column")
}

fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Decimal(text) => text.parse().ok(),
        Scalar::Date(days) => Some(f64::from(*days)),
        Scalar::Timestamp(micros) => Some(*micros as f64),
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Interval { .. } => None,
    }
}
