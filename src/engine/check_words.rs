//! The words about checks of summaries: EXPLAIN, notices and refusals.

use super::answer_errors::AnswerErrors;
use super::budget_left::budget_left;
use super::checkable::{Check, Checkable};
use super::expected_error::{after, percent};
use super::notice::{Sql, three_digits};
use super::{Engine, ledger_failed};
use crate::error::Error;
use crate::ledger::Balance;
use crate::mechanism::Loss;
use crate::policy::Notices;
use crate::refusal::{Refusal, reason};
use crate::rewrite::MonitoredSum;
use crate::shadow::Requester;

/// The facts that notices tell about a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckOutcome {
    /// Whether the summary's answer was too far off.
    pub is_far: bool,
    pub has_ended: bool,
}

/// What a notice says of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// The summary's answer is near enough.
    Near,
    /// Another session has changed the summary's answer after the check.
    Changed,
    /// The answer was bought.
    Bought,
    /// The answer was bought, and corrects the summary.
    Corrects,
}

impl Engine {
    /// The notices of a checked answer.
    pub(super) async fn check_notices(
        &self,
        requester: &Requester,
        check: &Check,
        (outcome, said): (CheckOutcome, Said),
    ) -> Result<Vec<String>, Error> {
        let mut notices = Vec::new();
        if requester.session_settings.notices == Notices::Off {
            return Ok(notices);
        }
        if !check.is_open {
            let balance = self.ledger.balance(&requester.role).await;
            let left = budget_left(&balance.map_err(|e| ledger_failed(&e))?);
            notices.push(format!(
                "checks of summaries were opened for epsilon {} (pure); they are free until one \
                    finds an answer too far off; budget: {left}",
                check.terms.epsilon.to_f64()
            ));
        }
        let Check {
            name, tolerance, ..
        } = check;
        let far = format!(
            "checked: summary {name} is {tolerance} or more off here, but for the check's noise; \
                the question was bought"
        );
        notices.push(match said {
            Said::Near => format!(
                "checked: summary {name} is less than {tolerance} off here, but for the check's \
                    noise; {}",
                reach(check)?
            ),
            Said::Changed => format!(
                "not checked: another session changed what summary {name} answers; ask again"
            ),
            Said::Bought => far,
            Said::Corrects => format!("{far}, and corrects the summary in checked sessions"),
        });
        if outcome.has_ended {
            notices.push(
                "the checks have ended; the next one opens them again, for its price".to_owned(),
            );
        }
        Ok(notices)
    }
}

/// What EXPLAIN says of the check of an answer.
#[derive(Debug, Clone)]
pub(super) struct ExplainedCheck {
    pub words: String,
    /// The statement whose sum is compared with the summary's answer.
    pub sql: Option<String>,
    pub verdict: CheckForeseen,
}

/// What would become of a check.
#[derive(Debug, Clone)]
pub(super) enum CheckForeseen {
    /// The summary's answer is shown without one.
    NotPossible,
    /// The question is refused, with this message.
    Refused(String),
    Compared(ComparedAnswer),
}

/// What a check costs, and the answer that is bought where it finds the summary's too far off.
#[derive(Debug, Clone)]
pub(super) struct ComparedAnswer {
    pub opening: Loss,
    /// The most of the check and the question; `None` where that is beyond all numbers.
    in_all: Option<Loss>,
    errors_if_bought: String,
}

impl ComparedAnswer {
    /// How the first line of EXPLAIN goes on after the errors of the summary's answer.
    pub fn in_words(&self, balance: &Balance) -> String {
        let share = |loss: Loss| Some(percent(balance.fraction_left() - after(balance, loss)?));
        let bought = &self.errors_if_bought;
        let most = match self.in_all.and_then(share) {
            Some(most) => format!("with the bought answer at most {most} in all"),
            None => "with the bought answer more than is left".to_owned(),
        };
        let cost = match share(self.opening) {
            _ if self.opening.is_zero() => format!("the check is free; {most}"),
            Some(opening) => {
                format!("opening the checks costs {opening} of your budget; {most}")
            }
            None => "opening the checks costs more than is left of your budget".to_owned(),
        };
        format!(", or {bought} if a check finds it too far off; {cost}")
    }
}

impl ExplainedCheck {
    /// The check, where there would be one.
    pub fn comparison(&self) -> Option<&ComparedAnswer> {
        match &self.verdict {
            CheckForeseen::Compared(compared) => Some(compared),
            CheckForeseen::NotPossible | CheckForeseen::Refused(_) => None,
        }
    }

    /// Its lines; the statement where statements are shown.
    pub fn lines(&self, sql: Sql) -> impl Iterator<Item = String> {
        let shown = match sql {
            Sql::Shown => self.sql.as_ref(),
            Sql::LeftOut => None,
        };
        let statement = shown.map(|sql| format!("  SQL: {sql}"));
        std::iter::once(self.words.clone()).chain(statement)
    }
}

/// What EXPLAIN says of the check of an answer.
pub(super) fn explain_check(
    checkable: Result<Checkable, Error>,
) -> Result<Option<ExplainedCheck>, Error> {
    let without_sql = |words: String, verdict| ExplainedCheck {
        words,
        sql: None,
        verdict,
    };
    let check = match checkable {
        Ok(Checkable::No) => return Ok(None),
        Ok(Checkable::NotPossible(why)) => {
            let words = format!("Check: not possible: {why}");
            return Ok(Some(without_sql(words, CheckForeseen::NotPossible)));
        }
        Ok(Checkable::Yes(check)) => check,
        Err(Error::Rewrite(refusal) | Error::Ledger(refusal) | Error::Release(refusal)) => {
            let words = format!("Check: it would be refused: {}", refusal.message);
            let verdict = CheckForeseen::Refused(refusal.message);
            return Ok(Some(without_sql(words, verdict)));
        }
        Err(error) => return Err(error),
    };
    let opening = match check.is_open {
        true => "the checks are open, so this one is free".to_owned(),
        false => format!(
            "opens the checks for epsilon {} (pure), and later ones are free until an answer is \
                too far off",
            check.terms.epsilon.to_f64()
        ),
    };
    let words = format!(
        "Check: the answer of summary {} is compared with the rows; {opening}; where it is {} or \
            more off, the question is bought; {}",
        check.name,
        check.tolerance,
        reach(&check)?
    );
    let sum = MonitoredSum::of(&check.sum).map_err(Error::Rewrite)?;
    let sql = check.sum.release(sum.release()).sql();
    let agreement = check.agreement();
    Ok(Some(ExplainedCheck {
        words,
        sql: sql.map(str::to_owned),
        verdict: CheckForeseen::Compared(ComparedAnswer {
            opening: agreement.opening(),
            in_all: agreement.in_all(),
            errors_if_bought: AnswerErrors::if_bought(&check.bought).in_words(&check.bought),
        }),
    }))
}

/// How far off an answer may be so that the check is right, in words.
fn reach(check: &Check) -> Result<String, Error> {
    let distance = |questions| Ok::<_, Error>(three_digits(check.margin(questions)?));
    Ok(format!(
        "with a chance of 5 %, one that is {} nearer than that is found too far off, and of a \
            hundred that are {} nearer one or more are",
        distance(1)?,
        distance(100)?
    ))
}

pub(super) fn many_values() -> &'static str {
    "the summary answers several values; one COUNT or SUM without groups is compared with the rows"
}

pub(super) fn not_one_sum() -> &'static str {
    "only a query that shows one COUNT or SUM of private rows, without groups and without \
        arithmetic on it, is compared with the rows"
}

pub(super) fn useless_alone() -> &'static str {
    "bought at this epsilon, the question would be hidden by its noise"
}

/// An error after a check, which was paid for.
pub(super) fn after_verdict(error: Error, check: &Check, is_far: bool) -> Error {
    let charged = match check.is_open {
        true => "were charged before",
        false => "were charged",
    };
    let found = match is_far {
        true => format!(
            "A check found summary {} {} or more off, and the checks have ended. They {charged}.",
            check.name, check.tolerance
        ),
        false => format!(
            "The check of summary {} was made; the checks {charged}. Ask again.",
            check.name
        ),
    };
    let refused = |refusal: Refusal| {
        let detail = match &refusal.detail {
            Some(detail) => format!("{found} Of the question: {detail}"),
            None => found.clone(),
        };
        refusal.detail(detail)
    };
    match error {
        Error::Rewrite(refusal) => Error::Rewrite(refused(refusal)),
        Error::Release(refusal) => Error::Release(refused(refusal)),
        Error::Ledger(refusal) => Error::Ledger(refused(refusal)),
        other => other,
    }
}

pub(super) fn more_than_one_query(most: f64) -> Refusal {
    Refusal::new(
        reason::SETTING_CEILING,
        format!("a check and the question together may spend more than epsilon {most}"),
    )
    .detail("That is the most that one query may spend here. Nothing was charged.")
    .hint(format!("SET pgveil.epsilon = {}, or less.", most / 2.0))
}

pub(super) fn no_tolerance() -> Refusal {
    Refusal::new(
        reason::CHECK_TOLERANCE,
        "pgveil.reuse = checked needs pgveil.tolerance",
    )
    .detail("It is how far off a summary's answer may be. Nothing was charged.")
    .hint("SET pgveil.tolerance = '300', in the unit of the answer; or SET pgveil.reuse = on.")
}

pub(super) fn tolerance_too_small(check: &Check, least: f64) -> Refusal {
    let epsilon = check.terms.epsilon.to_f64();
    let raise = match check.is_open {
        true => "",
        false => " Checks that are opened at a larger pgveil.epsilon distinguish less.",
    };
    Refusal::new(
        reason::CHECK_TOLERANCE,
        format!(
            "a check at epsilon {epsilon} cannot distinguish {} from no difference",
            check.tolerance
        ),
    )
    .detail(
        "Its noise alone would often find the summary's answer too far off, and end the checks. \
            Nothing was charged.",
    )
    .hint(format!(
        "SET pgveil.tolerance = '{}', or more; twice as much is better.{raise}",
        three_digits(least * 1.005)
    ))
}

pub(super) fn budget_too_small(role: &str) -> Refusal {
    Refusal::new(
        reason::BUDGET_EXHAUSTED,
        format!("the budget of role {role} does not cover the check and the question"),
    )
    .detail(
        "Where the summary's answer is too far off, the question is bought. Nothing was charged.",
    )
    .hint("SET pgveil.reuse = summary shows the summary's answer, free; or lower pgveil.epsilon.")
}

pub(super) fn other_direction() -> Refusal {
    Refusal::new(
        reason::MONITOR_DIRECTION,
        "monitor pgveil.reuse was opened by pgveil.above(), for sums that move one way",
    )
    .detail("Checks of summaries have this name too. Nothing was charged.")
    .hint("Ask that monitor a question that is surely true: it ends then.")
}

pub(super) fn too_many_checks(most: usize) -> Refusal {
    Refusal::new(
        reason::TOO_MANY_MONITORS,
        format!("the role has {most} open monitors, and checks of summaries are one more"),
    )
    .detail("Nothing was charged.")
    .hint("SELECT * FROM pgveil.monitors lists them. A question that is surely true ends one.")
}

pub(super) fn has_ended() -> Refusal {
    Refusal::new(
        reason::MONITOR_ENDED,
        "another session's check opened or ended the checks while this question waited",
    )
    .detail("Nothing was charged.")
    .hint("Ask again.")
}

pub(super) fn busy() -> Refusal {
    Refusal::new(
        reason::MONITOR_BUSY,
        "other sessions are checking summaries",
    )
    .detail("Nothing was charged.")
    .hint("Ask again later, or SET pgveil.reuse = on.")
}
