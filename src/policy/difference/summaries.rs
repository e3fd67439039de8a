//! Changes of the summaries that a policy declares.

use super::{Difference, words};
use crate::policy::error::At;
use crate::policy::file::{KeyEntry, Literal, SummaryEntry};

impl Difference {
    pub(super) fn summaries(&mut self, old: &[SummaryEntry], new: &[SummaryEntry]) {
        let name = |entry: &SummaryEntry| words::name(&[&entry.name]);
        for entry in new {
            let known = old.iter().find(|known| known.name == entry.name);
            match known.map(meaning) {
                None => self.costs.push(format!(
                    "summary {} is new: the owner pays ({}) when it is made, and each of its \
                        roles at the first question that it answers",
                    name(entry),
                    entry.accuracy.value.policy_text()
                )),
                Some(known) if known != meaning(entry) => self.costs.push(format!(
                    "summary {} changes: it has to be made again, and is paid for again",
                    name(entry)
                )),
                Some(_) => {}
            }
            if let Some(known) = old.iter().find(|known| known.name == entry.name) {
                let who = |entry: &SummaryEntry| {
                    let roles = entry.roles.as_ref();
                    roles.map(|all| {
                        all.iter()
                            .map(|role| role.value.clone())
                            .collect::<Vec<_>>()
                    })
                };
                let is_changed = who(known) != who(entry);
                self.change(
                    is_changed,
                    format!("summary {} is for other roles", name(entry)),
                );
            }
        }
        for entry in old {
            if !new.iter().any(|known| known.name == entry.name) {
                let gone = format!("summary {} is gone: its questions are bought", name(entry));
                self.changes.push(gone);
            }
        }
    }
}

/// All but the roles, without places in the file.
fn meaning(entry: &SummaryEntry) -> String {
    let SummaryEntry {
        place: _,
        name: _,
        table,
        keys,
        measures,
        marginals,
        accuracy,
        roles: _,
    } = entry;
    let names = |all: &[At<String>]| all.iter().map(|at| at.value.clone()).collect::<Vec<_>>();
    let key = |key: &KeyEntry| {
        let edge = |edge: &At<Literal>| edge.value.text.clone();
        let bins = key.bins.as_ref();
        let edges = bins.map(|bins| bins.value.iter().map(edge).collect::<Vec<_>>());
        let most = key.most.as_ref().map(|most| most.value);
        let ranges = key.ranges.map(|_| "ranges");
        (key.name.value.clone(), edges, most, ranges)
    };
    format!(
        "{:?} {:?} {:?} {} {}",
        table.value,
        keys.iter().map(key).collect::<Vec<_>>(),
        names(measures),
        marginals.value.policy_text(),
        accuracy.value.policy_text()
    )
}
