//! One bit of a report.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, internal};
use super::sql;
use crate::analyze::interval::Interval;
use crate::ir::Expr;
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// `get_bit(CAST(report AS BIT(128)), 5) = 1`. The cast cuts or fills a report of another length,
/// so that the bit is there whatever the row holds.
///
/// # Errors
/// XX000 for a place that is not below the number of bits.
pub(super) fn report_bit(report: ast::Expr, place: &Expr, bits: &Expr) -> Result<Emitted, Refusal> {
    let number = |of: &Expr| match of.as_literal() {
        Some(Scalar::Int(number)) => u64::try_from(*number).map_err(|_| internal()),
        _ => Err(internal()),
    };
    let (place, bits) = (number(place)?, number(bits)?);
    if place >= bits {
        return Err(internal());
    }
    let whole = ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(report),
        data_type: ast::DataType::Bit(Some(bits)),
        format: None,
    };
    let bit = sql::call(
        "get_bit",
        vec![whole, sql::number_literal(&place.to_string())],
    );
    let set = sql::binary(bit, B::Eq, sql::number_literal("1"));
    Ok(Emitted {
        nodes: sql::weight(&set),
        ..Emitted::plain(sql::nest(set), Interval::ALL)
    })
}
