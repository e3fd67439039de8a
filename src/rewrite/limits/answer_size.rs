//! A limit on the numbers in a statement's answer. All of them are in memory at once, and each is a
//! draw of noise that nothing interrupts. The fits of records count by their work, which is done
//! again each time a stored answer is shown. The budget does not limit them, because they may cost
//! next to nothing in privacy.

use crate::aggregates::Model;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};
use crate::rewrite::ReleasePlan;
use crate::rewrite::choice::{ChoiceKind, ChoicePlan};

/// Numbers for each group of `limits.groups`, which counts as at least `GROUPS_LEAST`: a policy
/// with few groups does not make answers shorter.
const PER_GROUP: u64 = 10;
const GROUPS_LEAST: u64 = 100_000;
/// A chosen value takes as long as this many sums.
const CHOICE: u64 = 16;
/// An error that is computed from this many coordinates takes as long as one more number.
const COORDINATES: u64 = 16;
/// A fit of this work, as [`Model::work`] counts it, takes as long as one more number: 2 to 4 µs on
/// the machine where 16 values with 153 draws took 2 to 4 ms.
const WORK: u64 = 2_048;

/// The numbers of a statement's releases so far.
#[derive(Debug, Default)]
pub struct AnswerSize(u64);

impl AnswerSize {
    /// Counts a release. Groups that are shown by threshold do not count, since their number is not
    /// known.
    ///
    /// # Errors
    /// 54000 past the limit.
    pub fn add(&mut self, plan: &ReleasePlan, policy: &Policy) -> Result<(), Refusal> {
        let decoding = decoding(plan);
        self.0 = self
            .0
            .saturating_add(plan.listed_groups().saturating_mul(width(plan)))
            .saturating_add(decoding.unwrap_or(0));
        let most = u64::from(policy.limits.groups).max(GROUPS_LEAST) * PER_GROUP;
        if self.0 <= most {
            return Ok(());
        }
        Err(Refusal::new(
            reason::ANSWER_TOO_LARGE,
            format!(
                "the answer would hold {} \
            numbers, more than the limit of {most}",
                self.0
            ),
        )
        .detail(format!(
            "Each group has one number per aggregate. An average takes two; a percentile, \
                MIN, MAX or MODE() counts as {CHOICE}{}. Nothing was charged.",
            fits(plan)
        ))
        .hint(hint(plan)))
    }
}

/// How many numbers the decoding of a release counts as.
fn decoding(plan: &ReleasePlan) -> Option<u64> {
    let dictionary = plan.dictionary()?.dictionary();
    Some(dictionary.decoding_work().div_ceil(WORK))
}

/// How much the fits of a release's records, or its decoding, count.
fn fits(plan: &ReleasePlan) -> String {
    if let Some(numbers) = decoding(plan) {
        return format!("; decoding counts as {numbers} more");
    }
    let most = plan
        .models()
        .map(|(model, _)| model)
        .max_by_key(|model| numbers(plan, model));
    most.map_or(String::new(), |model| {
        let (name, numbers) = (model.name(), numbers(plan, model));
        format!("; this {name}() counts as {numbers} more")
    })
}

fn hint(plan: &ReleasePlan) -> &'static str {
    match plan.models().next() {
        _ if plan.dictionary().is_some() => {
            "Ask for one column of RAPPOR's reports in a statement."
        }
        None => "Group by fewer keys, narrow them with WHERE, or use fewer aggregates.",
        Some(_) => {
            "Group by fewer keys, narrow them with WHERE, or use fewer aggregates, features or \
                components."
        }
    }
}

/// How many numbers one group's fit counts as.
fn numbers(plan: &ReleasePlan, model: &Model) -> u64 {
    model.work(plan.coordinates.len()).div_ceil(WORK)
}

fn width(plan: &ReleasePlan) -> u64 {
    let drawn = |choice: &ChoicePlan| match &choice.kind {
        ChoiceKind::Count {
            calibrated,
            weights: _,
            clip: _,
        } => calibrated.len() as u64,
        ChoiceKind::Choice { .. } => choice.question.width() as u64 * CHOICE,
    };
    let coordinates = plan.coordinates.len() as u64;
    let stated: u64 = plan
        .uncertainties
        .iter()
        .map(|one| one.formula.aggregates().len() as u64)
        .sum();
    coordinates
        + plan.choices.iter().map(drawn).sum::<u64>()
        + stated * (1 + coordinates / COORDINATES)
        + plan
            .models()
            .map(|(model, _)| numbers(plan, model))
            .sum::<u64>()
}
