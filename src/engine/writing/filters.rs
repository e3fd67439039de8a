//! Values that are reported as the bits of a filter: the permanent ones of the memo, and each
//! report drawn anew from them.

use zeroize::Zeroizing;

use super::Memo;
use crate::mechanism::{OsRandomness, RandomError};
use crate::policy::{WrittenCohorts, WrittenColumn, WrittenFilter, WrittenTable};

/// A report, as PostgreSQL prints bits.
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
    filter: &WrittenFilter,
    value: &str,
) -> Result<String, RandomError> {
    let memo = memo.ok_or_else(no_memo)?;
    let cohorts = WrittenCohorts {
        column: filter.cohort.clone(),
        cohorts: filter.rappor.cohorts,
    };
    let cohort = memo.cohort((table, &cohorts, unit))?;
    let mut words = memo.filter_words((table, column, unit), (cohort, value));
    let word = |place: u32| words.word(place);
    let kept = Zeroizing::new(filter.rappor.permanent((cohort, value), word)?);
    // Never a word of the memo: equal reports would mark their person.
    let report = filter.rappor.report(&kept, &mut OsRandomness::new())?;
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

/// The policy's check lets no filter be written without one.
fn no_memo() -> RandomError {
    RandomError {
        reason: "permanent bits need a memo".to_owned(),
    }
}
