//! Who makes the reports of a column, and how: what becomes of those that are stored, and of values
//! that are written again.

use super::{Difference, words};
use crate::mechanism::{Randomiser, Rappor};
use crate::policy::file::ColumnRule;

/// The rule of a column, if it is shown, and whether pgveil randomises its values on the way.
pub(super) type Made<'a> = (Option<&'a ColumnRule>, bool);

impl Difference {
    /// `is_written`: roles write the table by the new file.
    pub(super) fn reports(
        &mut self,
        what: &str,
        is_written: bool,
        ((old, was_local), (new, is_local)): (Made<'_>, Made<'_>),
    ) {
        match (was_local, is_local) {
            (false, false) => {}
            (true, false) if is_written => self.loosens.push(format!(
                "true values of {what} are stored as they are written"
            )),
            (false, true) if is_written => self.tightens.push(format!(
                "values of {what} are randomised before they are stored: clients must write true \
                    ones, and no reports"
            )),
            (true, false) => self.changes.push(format!(
                "reports of {what} are made elsewhere, not by pgveil"
            )),
            (false, true) => self.changes.push(format!(
                "reports of {what} are made by pgveil, not elsewhere"
            )),
            (true, true) => {
                if old.map(law) != new.map(law) {
                    self.loosens.push(format!(
                        "reports of {what} are made in another way: a value that is written again \
                            gets a second report, which costs its person the epsilon once more, \
                            and reports that are stored are read wrongly; use a new column"
                    ));
                } else if old.and_then(second_stage) != new.and_then(second_stage) {
                    self.changes.push(format!(
                        "reports of {what} that are stored were made with other p and q, and are \
                            read wrongly; use a new column"
                    ));
                }
            }
        }
    }
}

/// What the first report of a value is a function of: as in the memo, and the unit's cohort. Of a
/// filter, this is what its permanent bits are a function of.
fn law(rule: &ColumnRule) -> String {
    let ColumnRule::Collected {
        randomiser: Randomiser::Rappor(rappor),
        cohort,
        ..
    } = rule
    else {
        return words::column(rule);
    };
    let Rappor {
        bits,
        hashes,
        cohorts,
        f,
        p: _,
        q: _,
    } = rappor;
    let cohort = cohort.as_ref().map(|of| &of.value);
    format!("{bits} {hashes} {cohorts} {f} {cohort:?}")
}

/// The odds by which each report is drawn from permanent bits.
fn second_stage(rule: &ColumnRule) -> Option<(f64, f64)> {
    match rule {
        ColumnRule::Collected {
            randomiser: Randomiser::Rappor(Rappor { p, q, .. }),
            ..
        } => Some((*p, *q)),
        _ => None,
    }
}
