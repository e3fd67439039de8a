//! The periods whose answers an answer joins, in words; and the claim while some are bought.

use super::period_form::totals_errors;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};
use crate::ir::AggregateId;
use crate::ledger::{FamilyId, QuestionDigest, QuestionId};
use crate::mechanism::Loss;
use crate::policy::{Policy, Prepaid, PrepaidAnswers};
use crate::rewrite::Plan;

/// How many stretches of missing periods are named.
const RUNS_SHOWN: usize = 3;

/// Where the policy has a price for a horizon, and the question is none that it covers.
const NOT_PREPAID: &str = "they are prepaid for counts, sums and arithmetic on them, with listed \
    keys and Gaussian noise; this question pays for those that it buys";

/// What was bought stays as it is.
const LATE: &str = ", without rows that came later";

/// The periods of an answer, for notices and EXPLAIN.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShownPeriods {
    /// The number of periods that were bought before.
    pub held: u64,
    /// The least and the largest standard deviation of the noise of aggregates in these.
    pub noise: Vec<(AggregateId, f64, f64)>,
    pub missing: PeriodSet,
    /// Periods that were not bought because a look saw too few units; and the look in words.
    pub few: Option<(PeriodSet, String)>,
    /// The first period that is asked for and not closed.
    pub open: Option<Period>,
    /// The first period of the policy, where the question asks for earlier ones too.
    pub earlier: Option<Period>,
    /// Where they are prepaid.
    pub prepaid: Option<ShownPrepaid>,
}

/// The prepaid periods of an answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ShownPrepaid {
    /// Horizons that are paid for now: the first period of each, and the one after its last.
    pub paid: Vec<(Period, Period)>,
    /// The first period of the first horizon that is asked for.
    pub since: Option<Period>,
    /// Periods whose draw led to no answer, and never will.
    pub lost: PeriodSet,
    /// Periods that are being drawn in another session.
    pub drawing: PeriodSet,
}

/// Prepaid periods in words: `3 days that are drawn now`.
pub(super) fn drawn_in_words(plan: &Plan, count: u64) -> String {
    let length = plan
        .periods()
        .map_or("period", |of| of.periods().length.name());
    match count {
        1 => format!("1 {length} that is drawn now"),
        count => format!("{count} {length}s that are drawn now"),
    }
}

impl ShownPeriods {
    /// Why an answer has no period that is held or drawn now. `is_asked` tells whether a closed one
    /// is asked for.
    pub fn nothing_in_words(&self, is_asked: bool) -> &'static str {
        let is_some = |of: fn(&ShownPrepaid) -> &PeriodSet| {
            let prepaid = self.prepaid.as_ref();
            prepaid.is_some_and(|prepaid| !of(prepaid).is_empty())
        };
        match is_asked {
            false => "nothing to show: no closed period is asked for",
            true if is_some(|of| &of.drawing) => {
                "nothing to show: another session is drawing the periods"
            }
            true if is_some(|of| &of.lost) => "nothing to show: the periods are lost",
            true => "nothing to show: no row can match",
        }
    }

    /// The periods that the role holds, in words: `28 days that were bought before`.
    pub fn held_in_words(&self, plan: &Plan) -> Option<String> {
        let length = plan.periods()?.periods().length.name();
        let how = match self.prepaid {
            None => "bought",
            Some(_) => "drawn",
        };
        match self.held {
            0 => None,
            1 => Some(format!("1 {length} that was {how} before")),
            held => Some(format!("{held} {length}s that were {how} before")),
        }
    }

    /// The periods after a purchase. If nothing was bought, no row can be in the missing periods.
    pub fn of_purchase(self, is_bought: bool) -> Self {
        let missing = match is_bought {
            true => self.missing,
            false => PeriodSet::default(),
        };
        Self { missing, ..self }
    }

    /// The periods where the look at the missing ones saw too few units.
    pub fn without_missing(self, saw: String) -> Self {
        Self {
            missing: PeriodSet::default(),
            few: Some((self.missing, saw)),
            ..self
        }
    }

    /// The periods after draws: what is lost is known then.
    pub fn after_draws(self, after: Self) -> Self {
        let lost = after.prepaid.unwrap_or_default();
        let prepaid = self.prepaid.map(|before| ShownPrepaid {
            lost: lost.lost,
            drawing: lost.drawing,
            ..before
        });
        Self { prepaid, ..self }
    }

    /// The periods in words, a line each. `buys` introduces the missing ones.
    pub fn describe(&self, plan: &Plan, policy: &Policy, buys: &str) -> Vec<String> {
        let Some(asked) = plan.periods() else {
            return Vec::new();
        };
        let (periods, table) = (asked.periods(), &policy.tables[asked.table().0]);
        let (length, name) = (periods.length, format!("{}.{}", table.schema, table.name));
        let count = |n: u64| match n {
            1 => format!("1 {}", length.name()),
            n => format!("{n} {}s", length.name()),
        };
        let run = |(first, end): &(Period, Period)| match first.next() == *end {
            true => length.text(*first),
            false => format!("{} to {}", length.text(*first), length.text(end.previous())),
        };
        let mut lines = Vec::new();
        let (bought, buys) = match self.prepaid {
            None => ("bought", buys.to_owned()),
            Some(_) => ("drawn", buys.replace("bought", "drawn")),
        };
        let held = match self.held {
            0 => None,
            1 => Some(format!("{} was {bought} before{LATE}", count(1))),
            held => Some(format!("{} were {bought} before{LATE}", count(held))),
        };
        let in_words = |periods: &PeriodSet| {
            let runs = periods.runs();
            let shown: Vec<String> = runs.iter().take(RUNS_SHOWN).map(run).collect();
            let more = match runs.len().saturating_sub(RUNS_SHOWN) {
                0 => "",
                _ => ", …",
            };
            format!("{}, {}{more}", count(periods.count()), shown.join(", "))
        };
        let missing = &self.missing;
        let missing = (!missing.is_empty()).then(|| format!("{buys}: {}", in_words(missing)));
        let both: Vec<String> = held.into_iter().chain(missing).collect();
        if !both.is_empty() {
            lines.push(format!("periods of {name}: {}", both.join("; ")));
        }
        match (&self.prepaid, asked.periods().prepaid) {
            (Some(shown), Some(declared)) => {
                let unit = &policy.privacy.unit;
                lines.extend(shown.describe(&declared, (&name, length, unit), &in_words));
                lines.extend(describe_totals(plan, &declared, (&name, length)));
            }
            (None, Some(_)) => lines.push(format!("periods of {name}: {NOT_PREPAID}")),
            (_, None) => {}
        }
        if let Some((periods, saw)) = &self.few {
            lines.push(format!(
                "periods of {name}: left out, as their look saw {saw}: {}; they are asked for \
                    again with those that close later, or SET pgveil.clip = fixed",
                in_words(periods)
            ));
        }
        if let Some(open) = self.open {
            lines.push(format!(
                "periods of {name}: {} and later are left out, as they are not closed; SET \
                    pgveil.open_periods = on asks for them too, and buys all of the answer",
                length.text(open)
            ));
        }
        if let Some(first) = self.earlier {
            lines.push(format!(
                "periods of {name}: rows before {} are left out, as the periods begin there; SET \
                    pgveil.open_periods = on asks for them too, and buys all of the answer",
                length.text(first)
            ));
        }
        lines
    }
}

/// How running totals are drawn, where the policy asks for them. It depends on the policy and the
/// question alone.
fn describe_totals(
    plan: &Plan,
    declared: &Prepaid,
    (name, length): (&str, PeriodLength),
) -> Option<String> {
    if declared.answers != PrepaidAnswers::Totals {
        return None;
    }
    let (errors, by) = (totals_errors(declared), length.name());
    let times = |times: f64| format!("{times:.2}");
    let of_totals = (times(errors.totals), times(errors.totals_by_period));
    Some(match (plan.has_totals(), errors.is_root_better()) {
        (true, _) => format!(
            "periods of {name}: drawn for running totals, by the square root: a total has {} times \
                the noise of one {by} at this price, and {} times as a sum of {by}s; a single \
                {by} has {} times, in place of {}",
            of_totals.0,
            of_totals.1,
            times(errors.periods),
            times(errors.periods_by_period)
        ),
        (false, false) => format!(
            "periods of {name}: running totals are sums of {by}s, which have less noise for this \
                horizon and per_unit: {} times that of one {by} at this price, and {} times by \
                the square root",
            of_totals.1, of_totals.0
        ),
        (false, true) => format!(
            "periods of {name}: running totals of this question are sums of {by}s: the square \
                root is for counts and sums alone, with one value of its key for each {by}, and \
                where groups are not too many and noise is not too large for it"
        ),
    })
}

impl ShownPrepaid {
    fn describe(
        &self,
        declared: &Prepaid,
        (name, length, unit): (&str, PeriodLength, &str),
        in_words: &dyn Fn(&PeriodSet) -> String,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let by = length.name();
        for (first, end) in &self.paid {
            let (first, end) = (length.text(*first), length.text(end.previous()));
            lines.push(format!(
                "periods of {name}: the price is for all {} {by}s from {first} to {end}; each is \
                    drawn when it is closed, and costs nothing more",
                declared.horizon
            ));
        }
        if let Some(since) = self.since {
            let counted = match declared.counted_periods() {
                1 => format!(
                    "the first {by} with rows since {} counts",
                    length.text(since)
                ),
                n => format!(
                    "the first {n} {by}s with rows since {} count",
                    length.text(since)
                ),
            };
            lines.push(format!(
                "periods of {name}: of each {unit} {counted}; later {by}s come out too low where \
                    a {unit} is in more"
            ));
        }
        if !self.lost.is_empty() {
            lines.push(format!(
                "periods of {name}: lost, as drawing them failed, and left out: {}; SET \
                    pgveil.open_periods = on asks an ordinary question of all",
                in_words(&self.lost)
            ));
        }
        if !self.drawing.is_empty() {
            lines.push(format!(
                "periods of {name}: left out, as another session is drawing them: {}; ask again",
                in_words(&self.drawing)
            ));
        }
        lines
    }
}

/// The claim that keeps the sessions of a role from buying one period twice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PeriodsClaim {
    /// The digest that is claimed while periods of the question are bought for the role.
    pub claim: QuestionId,
    pub family: FamilyId,
    /// How many answers of the family the role held when it was decided what to buy.
    pub count: u64,
}

impl PeriodsClaim {
    /// The claim as a question, which has no answer.
    pub(super) fn as_question(&self, loss: Loss) -> QuestionDigest {
        QuestionDigest {
            digest: self.claim,
            family: None,
            accuracy: f64::MAX,
            loss,
        }
    }
}
