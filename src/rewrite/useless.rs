//! Questions whose answers the noise hides, whatever the data are.
//!
//! The noise is known before a row is read. So is about how many units there are, where the policy
//! says it, or an answer that the role holds. Each rule takes the best case: all units are in one
//! group, each with the most rows that count. An answer that says nothing then never says anything.

mod best_case;

use best_case::PlannedBestCase;

use super::describe::{known_range, threshold_units};
use super::{Look, Plan, ReleasePlan, SEEN, Subject, Target};
use crate::aggregates::{DrawId, Expected, Foreseen, Output, rounded_text, three_digits};
use crate::ir::{AggregateId, ReleaseId};
use crate::mechanism::quantile_95;
use crate::policy::Policy;

/// About how many units there are, and where that is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitCount {
    /// The number in the policy.
    Policy(u64),
    /// The upper end of an interval that was released to the role.
    Released(u64),
}

impl UnitCount {
    pub fn of_policy(policy: &Policy) -> Option<Self> {
        policy.privacy.units.map(Self::Policy)
    }

    pub fn units(self) -> u64 {
        match self {
            Self::Policy(units) | Self::Released(units) => units,
        }
    }

    /// The number in a message, in front of `units`.
    fn in_words(self) -> String {
        match self {
            Self::Policy(units) => format!("about {units}"),
            Self::Released(units) => format!("at most about {units}"),
        }
    }
}

/// An aggregate, or the groups of a release, that noise makes useless.
#[derive(Debug, Clone, PartialEq)]
pub struct Useless {
    pub release: ReleaseId,
    /// `None` where no group would be shown, or no
    /// clip chosen.
    pub aggregate: Option<AggregateId>,
    /// The message of an error: `this answer would be ±1.00 for a correlation between -1 and 1`.
    pub message: String,
    /// The range that the answer lies in, whatever the data are, of a MIN or MAX.
    pub known: Option<(String, String)>,
}

/// What is useless in a plan: nothing where it is not known how many units there are.
///
/// # Guarantee
/// The result depends on the plan and the number of units alone, so on the policy, the schema, the
/// session, the statement, what the role itself has spent, and a value that was released to it. No
/// private row is read.
pub fn useless(plan: &Plan, units: Option<UnitCount>) -> Vec<Useless> {
    let Some(units) = units else {
        return Vec::new();
    };
    let releases = plan.releases().iter().enumerate();
    releases
        .flat_map(|(at, release)| match release.look() {
            None if is_known(release) => of_release(ReleaseId(at), release, units),
            None => Vec::new(),
            Some(look) => unseen(look, units)
                .or_else(|| hidden_groups(release, units))
                .map(|message| whole_release(ReleaseId(at), message))
                .into_iter()
                .collect(),
        })
        .collect()
}

fn whole_release(release: ReleaseId, message: String) -> Useless {
    Useless {
        release,
        aggregate: None,
        message,
        known: None,
    }
}

/// Where a look would not see all units, were they as long as each other.
fn unseen(look: &Look, units: UnitCount) -> Option<String> {
    let least = SEEN * look.deviation();
    (least > units.units() as f64).then(|| {
        format!(
            "a clip could be chosen from about {} units on, and there are {} in all",
            rounded_text(least.ceil()),
            units.in_words()
        )
    })
}

impl ReleasePlan {
    /// About how many units a group has that is shown with probability 1/2; `None` where no group
    /// is hidden. A public fact.
    pub fn units_to_show(&self) -> Option<f64> {
        let price = self.price()?;
        let (presence, _) = price.threshold?;
        Some(threshold_units(self, price, presence))
    }
}

/// Whether all noise of a release is fixed before anything is asked: a clip that is chosen from a
/// noisy look is not.
fn is_known(release: &ReleasePlan) -> bool {
    release.look().is_none() && (release.price().is_some() || !release.choices().is_empty())
}

/// How far off an aggregate may be in the best case, in words.
pub fn best_error(
    plan: &Plan,
    units: Option<UnitCount>,
    release: ReleaseId,
    aggregate: AggregateId,
) -> Option<String> {
    let release = plan.releases().get(release.0).filter(|r| is_known(r))?;
    let (output, _) = release.output(aggregate)?;
    expected_error(release, output, units?.units()).error
}

/// Releases of which most groups hold fewer units than the noise of their number, in words. Such an
/// answer may be right for a few large groups. Where a look chooses the clip, units are meant that
/// add as much as the clip lets them: of others, the noise hides more.
pub fn thin_groups(plan: &Plan, units: Option<UnitCount>) -> Vec<(ReleaseId, String)> {
    let Some(units) = units.map(UnitCount::units) else {
        return Vec::new();
    };
    let releases = plan.releases().iter().enumerate();
    releases
        .filter_map(|(at, release)| Some((ReleaseId(at), thin(release, units)?)))
        .collect()
}

fn thin(release: &ReleasePlan, units: u64) -> Option<String> {
    let price = release.price().filter(|_| release.sets().is_empty())?;
    let groups = release.listed_groups();
    if groups <= 1 || !release.has_listed_keys() {
        return None;
    }
    let (accuracy, or_more) = match release.look() {
        Some(look) => (look.accuracy_of_sums(), " or more"),
        None => (price.accuracy, ""),
    };
    let noise = quantile_95(price.mechanism) / accuracy;
    let in_group = units as f64 * price.groups as f64 / groups as f64;
    (noise > in_group).then(|| {
        format!(
            "there are {groups} groups, of about {} units each at most on average; the noise \
                hides ±{}{or_more} of them",
            three_digits(in_group),
            three_digits(noise)
        )
    })
}

fn of_release(at: ReleaseId, release: &ReleasePlan, units: UnitCount) -> Vec<Useless> {
    let hidden = hidden_groups(release, units).map(|message| whole_release(at, message));
    let is_one = release.outputs().len() == 1;
    let aggregates = AggregateId::with_numbers(release.outputs());
    let answers = aggregates.filter_map(|(aggregate, (output, _))| {
        let predicate = expected_error(release, output, units.units()).useless?;
        let subject = if is_one {
            "this answer".to_owned()
        } else {
            format!("aggregate {}", aggregate.ordinal())
        };
        Some(Useless {
            release: at,
            aggregate: Some(aggregate),
            message: format!("{subject} {predicate}"),
            known: range_of_end(release, output),
        })
    });
    hidden.into_iter().chain(answers).collect()
}

/// Where groups are shown by threshold: a group of more than half of all units would be hidden as
/// often as shown.
fn hidden_groups(release: &ReleasePlan, units: UnitCount) -> Option<String> {
    let price = release.price()?;
    let (presence, _) = price.threshold?;
    let least = threshold_units(release, price, presence);
    (least > units.units() as f64 / 2.0).then(|| {
        format!(
            "a group needs about {} units to be shown, and there are {} in all",
            rounded_text(least.ceil()),
            units.in_words()
        )
    })
}

/// The range of a MIN or MAX.
fn range_of_end(release: &ReleasePlan, output: &Output) -> Option<(String, String)> {
    let Foreseen::Choice { choice, draws, .. } = output.foreseen() else {
        return None;
    };
    let question = &release.choice(choice).question;
    let is_end = |draw: &DrawId| matches!(question.targets.get(draw.0), Some(Target::End(_)));
    match &question.subject {
        Subject::Value {
            value: _,
            candidates,
        } if draws.iter().any(is_end) => known_range(candidates),
        Subject::Value { .. } | Subject::Distinct { .. } => None,
    }
}

fn expected_error(release: &ReleasePlan, output: &Output, units: u64) -> Expected {
    let nothing = Expected {
        error: None,
        useless: None,
    };
    output
        .best(&PlannedBestCase::new(release, units))
        .unwrap_or(nothing)
}
