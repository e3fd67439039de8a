//! `pgveil.target_error` where the error is known only with the answer: a first answer is bought,
//! and it decides the epsilon of the answer itself.
//!
//! Each answer is bought like any other, and paid before it is made. A later price depends on the
//! released values of the answers before it alone.

use std::sync::Arc;

use super::planning::accounts;
use super::planning_limit::aside;
use super::run::Answered;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, Requester, ledger_failed, three_digits};
use crate::aggregates::Output;
use crate::error::Error;
use crate::finish::value_and_error;
use crate::ir::ReleaseId;
use crate::parse::Query;
use crate::policy::{OpenPeriods, Reuse, StatementAggregate, TargetError, TargetErrors};
use crate::refusal::{Refusal, reason};
use crate::release::{ClipBias, ReleasedTable};
use crate::rewrite::{
    Plan, ReleasePlan, Terms, epsilon_for, fits_one_query, measure_terms, of_row,
};

/// An error this much above its target is not worth a second answer.
const SMALL_EXCESS: f64 = 1.05;

/// `SMALL_EXCESS` where a look chooses the clip, since the noise then depends on the look.
const SMALL_EXCESS_WITH_LOOK: f64 = 1.25;

/// An answer is priced by this factor above what the one before it shows, to cover rounding.
const MARGIN: f64 = 1.002;

/// The most answers that follow the first: where a look chooses the clip, the second may miss.
const ROUNDS: usize = 2;

/// The most answers that one question buys.
pub(super) const ANSWERS_MAX: usize = 1 + ROUNDS;

/// An answer that meets the wanted errors, as far as they are known.
pub(super) struct AnswerWithinError {
    pub plan: Arc<Plan>,
    pub answered: Answered,
    pub notice: Option<String>,
}

impl Engine {
    /// The answer that is shown: the first one, the second one that its errors call for, or, where
    /// that misses by much, the third.
    ///
    /// # Guarantee
    /// Each price is a function of the plan, the session, the policy and the values that were
    /// released before. Its charge is a separate debit, before a row is read for it.
    ///
    /// # Errors
    /// 22023 where more epsilon is needed than the policy or the session allows for one query;
    /// 53400 where the budget does not cover it. The first answer was charged then.
    pub(super) async fn answer_within_error(
        &self,
        requester: &Requester,
        query: &Query,
        (plan, answered): (Arc<Plan>, Answered),
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<AnswerWithinError, Error> {
        let targets = requester.session_settings.target_error;
        let (Some(targets), Some(first)) = (targets, plan.first_answer()) else {
            return Ok(AnswerWithinError {
                plan,
                answered,
                notice: None,
            });
        };
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        let mut terms = self.terms(requester, accounts(&balances));
        terms.epsilon = first;
        facts.first_is_made();
        let (mut plan, mut answered) = (plan, answered);
        for round in 0..ROUNDS {
            let Some(less) = aside(|| less_noise(&plan, &answered, &targets)) else {
                break;
            };
            let needed = ((epsilon_for(less * MARGIN, &terms) * 1e4).ceil() / 1e4).max(first);
            let next = self.next(requester, query, (needed, &terms), (timing, facts));
            match next.await {
                Ok(next) => (plan, answered) = next,
                Err(Error::Release(refusal) | Error::Ledger(refusal) | Error::Rewrite(refusal))
                    if round == 0 =>
                {
                    let is_paid = !facts.sum().is_zero();
                    let shows = (self.recalls(requester)).then_some(first);
                    return Err(Error::Release(after_first(refusal, is_paid, shows)));
                }
                // The answer is paid for and near the target, so it is shown.
                Err(Error::Release(_) | Error::Ledger(_) | Error::Rewrite(_)) => break,
                Err(error) => return Err(error),
            }
            terms.epsilon = needed;
        }
        answered.paid = facts.sum();
        let notice = Some(errors_now(&plan, &answered, &targets));
        Ok(AnswerWithinError {
            plan,
            answered,
            notice,
        })
    }

    /// The answer at this epsilon, if the query may still spend that after its earlier payments.
    async fn next(
        &self,
        requester: &Requester,
        query: &Query,
        (epsilon, terms): (f64, &Terms),
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<(Arc<Plan>, Answered), Error> {
        if timing.client_cancel().is_cancelled() {
            return Err(Error::Cancelled);
        }
        let most = requester.session_settings.most_of_wanted(&self.policy);
        let is_own = most < self.policy.privacy.epsilon_max;
        let too_expensive = || Error::Release(too_expensive(epsilon, most, is_own));
        if epsilon > most {
            return Err(too_expensive());
        }
        let asking = self.without_target(requester, epsilon);
        let (plan, _) = Box::pin(self.plan_for(&asking, query, facts)).await?;
        let all = facts.sum().compose(plan.loss());
        if !all.is_some_and(|all| fits_one_query(&all, &self.policy, terms)) {
            return Err(too_expensive());
        }
        let running = Box::pin(self.run_plan(&asking, &plan, timing, facts));
        let answered = timing.run(running).await?;
        Ok((plan, answered))
    }

    /// The requester with this epsilon and no target. Roll-ups are off, because their errors may be
    /// larger.
    fn without_target(&self, requester: &Requester, epsilon: f64) -> Requester {
        let mut asking = requester.clone();
        let settings = &mut asking.session_settings;
        settings.target_error = None;
        settings.epsilon = Some(epsilon);
        settings.open_periods = OpenPeriods::On;
        if matches!(self.reuse(requester), Reuse::On | Reuse::Checked) {
            settings.reuse = Reuse::Exact;
        }
        asking
    }
}

/// The factor by which the plan's noise has to shrink for the wanted errors, in the aggregate that
/// needs most. `None` where the answer meets them, as far as its errors are known.
fn less_noise(plan: &Plan, answered: &Answered, targets: &TargetErrors) -> Option<f64> {
    let needs = tables(plan, answered).flat_map(|(id, table, first)| {
        let better = answered.better.iter().find(|(of, _)| *of == id);
        // A recalled answer may be more accurate than the plan's.
        let better = better.map_or(1.0, |(_, better)| *better);
        let release = plan.release(id);
        let outputs = release.outputs().iter().enumerate();
        outputs.filter_map(move |(at, (output, _))| {
            let times = ratio(release, (output, table), targets.of(first.after(at)))?;
            Some(better * noise_factor_for(times, &cuts(release, output, table))?)
        })
    });
    needs.reduce(f64::max)
}

/// The amounts that chosen clips cut from the parts of an aggregate.
fn cuts<'a>(release: &ReleasePlan, output: &Output, table: &'a ReleasedTable) -> Vec<&'a ClipBias> {
    let measures = output.measures();
    let measures = measures.iter().map(|at| release.measure(*at));
    let coordinates = measures.flat_map(|measure| measure_terms(measure).into_iter());
    let drawn = table.drawn.as_ref();
    let cuts = coordinates.filter_map(|(at, _)| Some(drawn?.cuts(at)));
    cuts.flatten().collect()
}

/// With less noise a look sees more of the longest units. The clip that it chooses is about this
/// many times as long as the first look predicts.
const CLIP_GROWTH: f64 = 1.2;

/// The factor between the trials, and the number of trials, of the search for how much less noise
/// is needed.
const TRIAL_FACTOR: f64 = 1.02;
const TRIALS: i32 = 350;

/// The factor by which the noise has to shrink where the error is `times` the wanted one; `None`
/// where the error is near it. With less noise a look chooses a longer clip, and noise grows with
/// the clip: the factor allows for that.
fn noise_factor_for(times: f64, cuts: &[&ClipBias]) -> Option<f64> {
    if cuts.is_empty() {
        return (times > SMALL_EXCESS).then_some(times);
    }
    let grown = |less: f64| cuts.iter().map(|cut| cut.growth(less)).fold(1.0, f64::max);
    let times_then = times * CLIP_GROWTH;
    let mut steps = (0..TRIALS).map(|step| TRIAL_FACTOR.powi(step));
    let found = steps.find(|less| *less >= times_then * grown(*less));
    (times > SMALL_EXCESS_WITH_LOOK).then(|| found.unwrap_or(times_then * grown(times_then)))
}

/// Each released table, and the number of its first aggregate in the statement.
fn tables<'a>(
    plan: &'a Plan,
    answered: &'a Answered,
) -> impl Iterator<Item = (ReleaseId, &'a ReleasedTable, StatementAggregate)> {
    let mut first = StatementAggregate::default();
    plan.releases()
        .iter()
        .enumerate()
        .filter_map(move |(at, release)| {
            let (id, number) = (ReleaseId(at), first);
            first = first.after(release.outputs().len());
            Some((id, answered.released.table(id)?, number))
        })
}

/// An aggregate's error as a multiple of the wanted error. `None` where it is not known.
fn ratio(
    release: &ReleasePlan,
    (output, table): (&Output, &ReleasedTable),
    target: TargetError,
) -> Option<f64> {
    match target {
        TargetError::Absolute(wanted) => {
            let errors = known_deviations(release, output, table).map(|(_, error)| error / wanted);
            errors.reduce(f64::max)
        }
        TargetError::OfAnswer(share) => {
            Some(of_answer(known_deviations(release, output, table))? / share)
        }
        TargetError::OfRow(share) => {
            let drawn = table.drawn.as_ref()?;
            let measures = output.measures().into_iter();
            let measures = measures.map(|at| release.measure(at));
            let ratios = measures.map(|m| drawn.deviation(m) / of_row(share, m));
            ratios.reduce(f64::max)
        }
    }
}

fn known_deviations<'a>(
    release: &'a ReleasePlan,
    output: &'a Output,
    table: &'a ReleasedTable,
) -> impl Iterator<Item = (f64, f64)> {
    let groups = 0..table.measures.len();
    groups.filter_map(move |group| value_and_error(release, output, table, group))
}

/// The standard error as a share of the answer: root mean squares over the groups. Noise makes
/// values look larger; its expected share is subtracted.
fn of_answer(groups: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut values, mut errors, mut any) = (0.0, 0.0, false);
    for (value, error) in groups {
        values += value * value;
        errors += error * error;
        any = true;
    }
    // If the values are noise alone, their size is unknown: they count as large as the noise.
    let size = (values - errors).max(errors);
    (any && size > 0.0).then(|| (errors / size).sqrt())
}

/// The errors of the answer so far, in words.
fn errors_now(plan: &Plan, answered: &Answered, targets: &TargetErrors) -> String {
    let mut parts = Vec::new();
    for (release, table, first) in tables(plan, answered) {
        let release = plan.release(release);
        for (at, (output, _)) in release.outputs().iter().enumerate() {
            let number = first.after(at).ordinal();
            let known = || known_deviations(release, output, table);
            let error = match targets.of(first.after(at)) {
                TargetError::OfAnswer(_) => of_answer(known())
                    .map(|share| format!("{} % of the answer", three_digits(100.0 * share))),
                TargetError::Absolute(_) | TargetError::OfRow(_) => known()
                    .map(|(_, error)| error)
                    .reduce(f64::max)
                    .map(three_digits),
            };
            let error = error.unwrap_or_else(|| "not known".to_owned());
            parts.push(format!("of aggregate {number} {error}"));
        }
    }
    format!("standard error: {}", parts.join(", "))
}

/// `is_own`: the limit is the session's, not the policy's.
fn too_expensive(needed: f64, most: f64, is_own: bool) -> Refusal {
    let limit = match is_own {
        true => format!("pgveil.max_cost = {most} allows"),
        false => format!("the limit of {most} per query allows"),
    };
    let needs = if needed.is_finite() {
        format!("epsilon {}", three_digits(needed))
    } else {
        "more epsilon than can be counted".to_owned()
    };
    Refusal::new(
        reason::TARGET_ERROR_TOO_SMALL,
        format!("pgveil.target_error needs about {needs} after a first answer, more than {limit}"),
    )
}

/// Adds to a refusal that the first answer was charged or held. `shows`: the epsilon at which it is
/// shown again, free.
fn after_first(refusal: Refusal, is_paid: bool, shows: Option<f64>) -> Refusal {
    let is_of_budget =
        [reason::BUDGET_EXHAUSTED, reason::TOTAL_EXHAUSTED].contains(&refusal.reason);
    let refusal = match is_of_budget {
        true => Refusal::new(reason::FIRST_ANSWER_ALONE_PAID, refusal.message),
        false => refusal,
    };
    let paid = match is_paid {
        true => "A first answer was charged.",
        false => "The first answer was paid for before.",
    };
    let detail = match refusal.detail.as_deref() {
        Some(detail) => format!("{} {paid}", detail.replace("Nothing was charged. ", "")),
        None => paid.to_owned(),
    };
    let refusal = refusal.detail(detail);
    match shows {
        Some(epsilon) => refusal.hint(format!(
            "RESET pgveil.target_error and SET pgveil.epsilon = {epsilon}: this shows the first \
                answer, free. Or set a larger target error."
        )),
        None => refusal.hint("Set a larger target error."),
    }
}

#[cfg(test)]
mod tests {
    use super::of_answer;

    #[test]
    fn noise_is_taken_off_the_size() {
        let share = |groups: &[(f64, f64)]| of_answer(groups.iter().copied());
        assert_eq!(share(&[]), None);
        assert_eq!(share(&[(0.0, 0.0)]), None);
        // The value's square, 25, is 16 and the noise's 9.
        assert_eq!(share(&[(5.0, 3.0)]), Some(0.75));
        assert_eq!(share(&[(1.0, 3.0)]), Some(1.0));
        let many = share(&[(100.0, 1.0), (0.0, 1.0)]).unwrap();
        assert!((many - (2.0f64 / 9_998.0).sqrt()).abs() < 1e-12);
    }
}
