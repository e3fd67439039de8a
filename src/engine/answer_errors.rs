//! The errors of the answer that a role would get, whatever it comes from, and their line of words.

use super::expected_error::{Within, after, expected_errors, percent};
use crate::analyze::KeyRule;
use crate::ir::ReleaseId;
use crate::ledger::Balance;
use crate::mechanism::Loss;
use crate::release::ReleasedTable;
use crate::rewrite::{Plan, ReleasePlan};

/// The errors of an answer before it is given.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct AnswerErrors {
    parts: Vec<AnswerPart>,
    /// Why nothing is in the answer, where that is known.
    nothing: Option<&'static str>,
}

/// The errors of aggregates in some groups of a release.
#[derive(Debug, Clone, PartialEq)]
struct AnswerPart {
    release: ReleaseId,
    aggregates: Vec<(&'static str, Within)>,
    /// The periods that the groups are of, where they are not those of the plan.
    periods: Option<String>,
}

impl AnswerErrors {
    /// All releases are bought.
    pub fn if_bought(plan: &Plan) -> Self {
        Self::of(plan, |_| None)
    }

    /// The role holds the answers of some releases.
    pub fn of<'t>(plan: &Plan, held: impl Fn(ReleaseId) -> Option<&'t ReleasedTable>) -> Self {
        let releases = plan.releases().iter().enumerate();
        let part = |(at, release): (usize, &ReleasePlan)| AnswerPart {
            release: ReleaseId(at),
            aggregates: expected_errors(release, held(ReleaseId(at))),
            periods: None,
        };
        Self {
            parts: releases.map(part).collect(),
            nothing: None,
        }
    }

    /// Nothing is in the answer.
    pub fn of_nothing(why: &'static str) -> Self {
        Self {
            parts: Vec::new(),
            nothing: Some(why),
        }
    }

    /// The only release of a question by periods, in periods that the role holds.
    pub fn of_periods(
        release: &ReleasePlan,
        table: Option<&ReleasedTable>,
        periods: String,
    ) -> Self {
        Self {
            parts: vec![AnswerPart {
                release: ReleaseId(0),
                aggregates: expected_errors(release, table),
                periods: Some(periods),
            }],
            nothing: None,
        }
    }

    /// The errors as those of some periods, which have these words.
    pub fn in_periods(mut self, periods: &str) -> Self {
        for part in &mut self.parts {
            part.periods = Some(periods.to_owned());
        }
        self
    }

    /// The errors of an answer that has the groups of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            parts: self.parts.into_iter().chain(other.parts).collect(),
            nothing: None,
        }
    }

    /// Each aggregate and its error.
    pub fn by_name(&self, plan: &Plan) -> Vec<(String, Within)> {
        let several = plan.releases().len() > 1;
        let of_part = |part: &AnswerPart| {
            let name = |name: &str| match (several, &part.periods) {
                (true, _) => format!("{}: {name}", part.release.0 + 1),
                (false, Some(periods)) => format!("{name} in {periods}"),
                (false, None) => name.to_owned(),
            };
            let named = part.aggregates.iter();
            let named = named.map(|(aggregate, within)| (name(aggregate), *within));
            named.collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    /// The errors in words: `±14.2 on each of 3 groups`.
    pub fn in_words(&self, plan: &Plan) -> String {
        if let Some(why) = self.nothing {
            return why.to_owned();
        }
        const SHOWN: usize = 3;
        let words = |part: &AnswerPart| {
            let release = plan.releases().get(part.release.0)?;
            // Steps of a fit that lead to another one show nothing themselves.
            let leads_on = release.outputs().iter().any(|(o, _)| o.leads_on());
            (!leads_on).then(|| part.in_words(release))
        };
        let all: Vec<String> = self.parts.iter().filter_map(words).collect();
        let mut shown: Vec<String> = all.iter().take(SHOWN).cloned().collect();
        if let Some(more) = all.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            shown.push(format!("{more} more releases"));
        }
        shown.join(" and ")
    }

    /// For EXPLAIN (FORMAT JSON): an object for each aggregate.
    pub fn to_json(&self) -> serde_json::Value {
        let of_part = |part: &AnswerPart| {
            let aggregate = |(at, (name, within)): (usize, &(&str, Within))| {
                let (half_width, is) = within.parts();
                serde_json::json!({
                    "release": part.release.0,
                    "aggregate": at,
                    "name": name,
                    "half_width_95": half_width,
                    "is": is,
                    "periods": part.periods,
                })
            };
            let all = part.aggregates.iter().enumerate();
            all.map(aggregate).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(of_part).collect()
    }
}

impl AnswerPart {
    fn in_words(&self, release: &ReleasePlan) -> String {
        if release.no_row().is_some() {
            return "exact: no row can match".to_owned();
        }
        const SHOWN: usize = 6;
        let all = &self.aggregates;
        let answer = match all.as_slice() {
            [] => "the keys of groups".to_owned(),
            [(_, one)] => one.text(),
            several => {
                let shown = several.iter().take(SHOWN);
                let mut parts: Vec<String> = shown
                    .map(|(name, within)| format!("{name} {}", within.text()))
                    .collect();
                if let Some(more) = several.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                    parts.push(format!("{more} more"));
                }
                parts.join(", ")
            }
        };
        if let Some(periods) = &self.periods {
            return format!("{answer} in {periods}");
        }
        let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
        let groups = release.keys();
        let of = match (groups.is_empty(), groups.iter().all(is_listed)) {
            (true, _) => return answer,
            (false, true) => match release.listed_groups() {
                1 => "one group".to_owned(),
                groups => format!("each of {groups} groups"),
            },
            (false, false) => "each group that enough units have".to_owned(),
        };
        if all.is_empty() {
            let of = of
                .trim_start_matches("each of ")
                .replace("each group", "groups");
            return format!("the keys of {of}");
        }
        format!("{answer} on {of}")
    }
}

/// Each aggregate of a plan, and its error where it is bought.
pub(super) fn errors_of(plan: &Plan) -> Vec<(String, Within)> {
    AnswerErrors::if_bought(plan).by_name(plan)
}

/// `±14.2 on each of 3 groups; 3.48 % of your budget; 96.5 % left after`. `loss` is what is not
/// paid for yet.
pub(super) fn in_words(
    plan: &Plan,
    errors: &AnswerErrors,
    loss: &Loss,
    balance: &Balance,
) -> String {
    if plan.releases().is_empty() {
        return "exact: no private row is read; free".to_owned();
    }
    let left = balance.fraction_left();
    let price = match after(balance, *loss) {
        _ if loss.is_zero() && (plan.loss().is_zero() || errors.nothing.is_some()) => {
            format!("free; {} of your budget left", percent(left))
        }
        _ if loss.is_zero() => {
            format!(
                "free, as it was paid for; {} of your budget left",
                percent(left)
            )
        }
        Some(after) => format!(
            "{} of your budget; {} left after",
            percent(left - after),
            percent(after)
        ),
        None => format!(
            "it costs more than is left of your budget, {}",
            percent(left)
        ),
    };
    format!("{}; {price}", errors.in_words(plan))
}
