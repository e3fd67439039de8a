//! Who makes the reports of a column, and how: what becomes of those that are stored, and of values
//! that are written again.

use std::collections::BTreeSet;

use super::{Difference, words};
use crate::mechanism::{Randomiser, Rappor};
use crate::policy::error::At;
use crate::policy::file::{ColumnRule, Literal};

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

impl Difference {
    /// What writers may learn of the rows of a table.
    pub(super) fn constraints(&mut self, what: &str, before: bool, now: bool) {
        match (before, now) {
            (false, true) => self.loosens.push(format!(
                "who writes {what} may learn from its constraints and triggers which rows are \
                    there, free"
            )),
            (true, false) => self.tightens.push(format!(
                "{what} is not written while constraints or triggers could show its rows"
            )),
            (true, true) | (false, false) => {}
        }
    }

    /// Whether NULL is written into a column whose values are randomised.
    pub(super) fn nulls(&mut self, what: &str, before: bool, now: bool) {
        match (before, now) {
            (false, true) => self.loosens.push(format!(
                "NULL is written into {what} as it is: who gives no value is known"
            )),
            (true, false) => self
                .tightens
                .push(format!("NULL is not written into {what} any more")),
            (true, true) | (false, false) => {}
        }
    }

    /// Which columns are bits of one value, of which one may be set.
    pub(super) fn bits(&mut self, what: &str, before: &BTreeSet<&str>, now: &BTreeSet<&str>) {
        for other in before.difference(now) {
            self.loosens.push(format!(
                "{what} and {} may both be true, as bits of two values, whose epsilons add up",
                words::name(&[other])
            ));
        }
        for other in now.difference(before) {
            self.tightens.push(format!(
                "{what} and {} may not both be true, as bits of one value",
                words::name(&[other])
            ));
        }
    }
}

/// What the first report of a value is a function of, in one form for all spellings: as in the
/// memo, and the unit's cohort. Of a filter, this is what its permanent bits are a function of.
fn law(rule: &ColumnRule) -> String {
    let ColumnRule::Collected {
        place: _,
        randomiser,
        cohort,
        of,
    } = rule
    else {
        return words::column(rule);
    };
    match (randomiser, &**of) {
        (
            Randomiser::Rappor(Rappor {
                bits,
                hashes,
                cohorts,
                f,
                p: _,
                q: _,
            }),
            _,
        ) => {
            let cohort = cohort.as_ref().map(|of| &of.value);
            format!("{bits} {hashes} {cohorts} {f} {cohort:?}")
        }
        // A clear and a set bit, whatever else is said of the column.
        (Randomiser::Unary { one, zero }, _) => format!("{one} {zero}"),
        (Randomiser::Mean { epsilon }, ColumnRule::Bounds { lower, upper, .. }) => {
            let number = |end: &At<Literal>| end.value.text.parse::<f64>();
            match (number(lower), number(upper)) {
                // Both zeros are one number.
                (Ok(lower), Ok(upper)) => format!("{epsilon} {} {}", lower + 0.0, upper + 0.0),
                _ => words::column(rule),
            }
        }
        (Randomiser::Coin { .. } | Randomiser::KRr { .. } | Randomiser::Mean { .. }, _) => {
            words::column(rule)
        }
    }
}

/// Whether two columns are bits of one value: one entry declares both.
pub(super) fn are_of_one_value(one: &ColumnRule, other: &ColumnRule) -> bool {
    let place = |rule: &ColumnRule| match rule {
        ColumnRule::Collected {
            place,
            randomiser: Randomiser::Unary { .. },
            ..
        } => Some(*place),
        _ => None,
    };
    place(one).is_some() && place(one) == place(other)
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
