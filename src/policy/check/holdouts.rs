//! Checks the holdout of a table against the prices and limits of the policy.

use super::Listed;
use crate::policy::error::{At, Findings};
use crate::policy::file::{File, RowsRule, TableRule};
use crate::policy::holdouts::three_digits;
use crate::policy::{Holdout, Unit};

/// The questions among which noise alone should show no mean, but for a chance of 5 %.
const QUESTIONS: u32 = 100;

/// The holdout of a table, where its entry has one.
pub fn check(
    file: &File,
    table: &Listed<'_>,
    unit: Option<&Unit>,
    findings: &mut Findings,
) -> Option<Holdout> {
    let TableRule::Private {
        rows_per_unit,
        holdout: Some(declared),
        ..
    } = &table.entry.rule
    else {
        return None;
    };
    let (place, holdout, unit) = (declared.place, declared.value, unit?);
    let what = format!("the holdout {}", table.name());
    let is_searched = |rows: &At<RowsRule>| rows.value == RowsRule::Searched;
    if rows_per_unit.as_ref().is_some_and(is_searched) && !unit.is_primary_key {
        let message = format!("{what} needs a number as its rows_per_unit, which its price is of");
        findings.error(place, message);
        return None;
    }
    if file.limits.monitor_questions == 0 {
        findings.error(
            place,
            format!(
                "{what} needs limits.monitor_questions, the most questions that one opening of it \
                    answers, such as 1000; with 0 there are none"
            ),
        );
    }
    check_price(file, (place, &what), (&holdout, unit), findings);
    let agrees = holdout.agrees_within(QUESTIONS);
    if agrees <= 0.0 {
        let needed = holdout.tolerance - agrees;
        findings.warning(
            place,
            format!(
                "{what}: of {QUESTIONS} questions whose means agree exactly, more than 5 % will \
                    show one that does not, by noise alone; tolerance {} would be enough, or a \
                    smaller scale, which costs more",
                three_digits(needed)
            ),
        );
    }
    Some(holdout)
}

/// An opening costs what a question may cost, and its noise can be drawn.
fn check_price(
    file: &File,
    (place, what): (crate::policy::Location, &str),
    (holdout, unit): (&Holdout, &Unit),
    findings: &mut Findings,
) {
    let epsilon = holdout.epsilon_of_epoch(unit.rows_per_unit);
    let (least, most) = (file.privacy.epsilon_min, file.privacy.epsilon_max);
    let costs = format!(
        "{what} costs epsilon {} each time that a role opens it: 2 rows_per_unit / (scale rows)",
        three_digits(epsilon)
    );
    if epsilon > most {
        let message = format!("{costs}, more than per_query.max_epsilon ({most})");
        findings.error(place, message);
    } else if epsilon < least {
        let message = format!("{costs}, less than per_query.min_epsilon ({least})");
        findings.error(place, message);
    } else if holdout.check_noise(unit.rows_per_unit).is_err() {
        let message = format!("{costs}, which is too little for noise of a supported size");
        findings.error(place, message);
    }
}
