//! What a summary lacks to answer a question, in words.

use super::{Engine, asked_releases};
use crate::analyze::PlanningEffort;
use crate::engine::planning_limit::aside;
use crate::ir::ReleaseId;
use crate::policy::{Policy, Summary};
use crate::release::{SummaryLack, lacking};
use crate::rewrite::Plan;
use crate::shadow::Requester;

impl Engine {
    /// What the role's summaries lack to answer releases of a plan, each in words that begin with
    /// the summary's name. A summary that would answer one lacks nothing.
    ///
    /// # Guarantee
    /// A function of the plan, the policy, and of selected sets that the role has paid for. It does
    /// not depend on whether a summary was made, or on its values.
    pub(in crate::engine) fn summaries_lack(
        &self,
        requester: &Requester,
        plan: &Plan,
        is_open: impl Fn(ReleaseId) -> bool,
    ) -> Vec<String> {
        let form = plan.without_looks().map_or(plan, |form| form);
        let mut all: Vec<String> = Vec::new();
        for release in asked_releases(form).filter(|at| is_open(*at)) {
            let release = form.release(release);
            for related in self.related_summaries(requester, release) {
                let lack = || {
                    let table = related.read(&related.declared.shape)?;
                    lacking(release, table.as_ref(), &PlanningEffort::small())
                };
                let words = aside(lack).map(|lack| in_words(&lack, related.summary, &self.policy));
                all.extend(words.filter(|words| !all.contains(words)));
            }
        }
        all
    }
}

fn in_words(lack: &SummaryLack, summary: &Summary, policy: &Policy) -> String {
    let name = &summary.name;
    match lack {
        SummaryLack::Keys(columns) => format!("{name} has no key {}", join_names(columns, "or")),
        SummaryLack::Expressions(columns) => format!(
            "{name} can only group by its key {}: over a key of that type it answers no condition \
                and no other expression",
            join_names(columns, "or")
        ),
        SummaryLack::Set(keys) => {
            let names = summary.key_names(policy);
            let of_key = |key: &usize| names.get(*key).cloned();
            let keys: Vec<String> = keys.iter().filter_map(of_key).collect();
            format!(
                "{name} has no set of keys with {} together",
                join_names(&keys, "and")
            )
        }
        SummaryLack::Sums => {
            format!("{name} has not all the counts and sums that the query asks for")
        }
        SummaryLack::Groups => {
            format!("{name} fits to all rows together alone: leave out GROUP BY")
        }
    }
}

/// Names as a list in words.
fn join_names(names: &[String], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
    }
}
