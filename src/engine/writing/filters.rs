//! Values that are reported as the bits of a filter: the permanent ones of the memo, and each
//! report drawn anew from them.

use super::Memo;
use crate::mechanism::{OsRandomness, RandomError};
use crate::policy::{WrittenColumn, WrittenFilter, WrittenTable};

/// A report, as PostgreSQL prints bits. `cohorts` are those of the unit, parallel to the table's.
///
/// # Guarantee
/// The permanent bits are the same for ever, and nothing else of the value is used; what is drawn
/// from them is kept nowhere. See [`crate::mechanism::Rappor::permanent`] and
/// [`crate::mechanism::Rappor::report`].
///
/// # Errors
/// Where there is no memo, and where the source has no bits.
pub(super) fn report(
    memo: Option<&Memo>,
    (table, column, unit): (&WrittenTable, &WrittenColumn, &str),
    (filter, cohorts): (&WrittenFilter, &[u32]),
    value: &str,
    random: &mut OsRandomness,
) -> Result<String, RandomError> {
    let memo = memo.ok_or_else(no_memo)?;
    let mut known = table.cohorts.iter().zip(cohorts);
    let own = known.find(|(of, _)| of.column == filter.cohort);
    let (_, cohort) = own.ok_or_else(no_memo)?;
    let mut words = memo.filter_words((table, column, unit), (*cohort, value));
    let kept = filter
        .rappor
        .permanent((*cohort, value), |place| words.word(place))?;
    // Never a word of the memo: equal reports would mark their person.
    let report = filter.rappor.report(&kept, random)?;
    let digit = |bit: &bool| if *bit { '1' } else { '0' };
    Ok(report.iter().map(digit).collect())
}

/// The cohorts of a row's unit, for each column of cohorts.
///
/// # Errors
/// As [`report`].
pub(super) fn cohorts(
    memo: Option<&Memo>,
    table: &WrittenTable,
    unit: &str,
) -> Result<Vec<u32>, RandomError> {
    let cohort = |of| memo.ok_or_else(no_memo)?.cohort((table, of, unit));
    table.cohorts.iter().map(cohort).collect()
}

/// The policy's check lets no filter be written without both.
fn no_memo() -> RandomError {
    RandomError {
        reason: "permanent bits need a memo and a cohort".to_owned(),
    }
}
