//! The meaning of a change of the policy file: which rules it loosens, which it tightens, and its
//! cost. Every field is named, so that a new one is decided on.

mod meaning;
mod operators;
mod reports;
mod summaries;
mod tables;
pub(in crate::policy) mod words;

use std::fmt::Display;

use super::file::File;
use super::{
    Budget, Certificate, Limits, LocalRule, Privacy, Renew, Role, RoleReuse, TableName,
    WitnessAddress,
};

const BOUGHT_AGAIN: &str = "no stored answer is shown again: what was paid for is charged once \
    more when it is asked";

/// The changes from one file to another, each a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Somebody may learn more.
    pub loosens: Vec<String>,
    /// Somebody may learn less.
    pub tightens: Vec<String>,
    /// Answers change within the same promise: noise, clips, lists, resources.
    pub changes: Vec<String>,
    /// Stored answers are bought again, searches become due.
    pub costs: Vec<String>,
}

impl Difference {
    /// Compares what two files say, whatever their layout and comments.
    pub fn between(old: &File, new: &File) -> Self {
        let File {
            // Where the file is, and how it is laid out.
            name: _,
            digest: _,
            role_places: _,
            certified: _,
            database_place: _,
            warnings: _,
            // Compared as addresses.
            database_url: _,
            write_url: _,
            ledger_url: _,
            ledger_witnesses: _,
            shadow_url: _,
            privacy,
            roles,
            // Compared by role, and with the tables.
            writes: _,
            local,
            operators,
            // Compared as parts of their files.
            tables: _,
            summaries,
            limits,
            previews,
            records_shape,
            quantum,
            time_grain,
        } = new;
        let mut found = Self::default();
        found.privacy(&old.privacy, privacy);
        found.roles(&old.roles, roles);
        found.operators(&old.operators, operators);
        found.tables(old, new);
        found.summaries(&old.summaries, summaries);
        found.limits(&old.limits, limits);
        let quantum = [old.quantum, *quantum].map(|time| time.map_or(0, |time| time.as_millis()));
        if quantum[1] < quantum[0] {
            let [before, now] = quantum;
            found
                .loosens
                .push(format!("timing.quantum falls from {before} ms to {now} ms"));
        } else if quantum[1] > quantum[0] {
            let [before, now] = quantum;
            found
                .tightens
                .push(format!("timing.quantum rises from {before} ms to {now} ms"));
        }
        found.change(old.time_grain != *time_grain, "time_grain changes");
        found.change(old.previews != *previews, "previews change");
        found.change(old.records_shape != *records_shape, "record.shape changes");
        found.local(old, local.as_ref());
        found.addresses(old, new);
        found.timeout(old, new);
        if meaning::answer_parts(old) != meaning::answer_parts(new) {
            found.bought_again(old, new);
            found.costs.push(BOUGHT_AGAIN.to_owned());
        }
        found
    }

    /// Whether no stored answer is shown again.
    pub fn buys_again(&self) -> bool {
        self.costs.iter().any(|line| line == BOUGHT_AGAIN)
    }

    /// Each change with its kind.
    pub fn lines(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self {
            loosens,
            tightens,
            changes,
            costs,
        } = self;
        let kinds = [
            ("loosens", loosens),
            ("tightens", tightens),
            ("changes", changes),
            ("costs", costs),
        ];
        kinds
            .map(|(kind, lines)| lines.iter().map(move |line| (kind, line.as_str())))
            .into_iter()
            .flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.lines().next().is_none()
    }

    /// Witnesses that are named no more, that are new, or that may lie with the ledger.
    fn witnesses(&mut self, old: &[WitnessAddress], new: &[WitnessAddress]) {
        let misses = |one: &[WitnessAddress], other: &WitnessAddress| {
            one.iter().all(|known| known.place != other.place)
        };
        let (gone, come) = (
            old.iter().filter(|known| misses(new, known)).count(),
            new.iter().filter(|known| misses(old, known)).count(),
        );
        let is_near = |all: &[WitnessAddress]| all.iter().any(|witness| witness.same_disk);
        if new.is_empty() && gone > 0 {
            self.loosens.push(
                "no witness of the ledger: an older copy of it goes unnoticed; needs a restart"
                    .to_owned(),
            );
        } else if gone > 0 && gone == old.len() {
            self.loosens.push(
                "the ledger's witness is another one, which has seen nothing yet; needs a restart"
                    .to_owned(),
            );
        } else if gone > 0 {
            self.loosens
                .push("a witness of the ledger less; needs a restart".to_owned());
        } else if come > 0 {
            self.tightens.push(
                "a witness of the ledger: an older copy of it is noticed; needs a restart"
                    .to_owned(),
            );
        }
        if !is_near(old) && is_near(new) && !old.is_empty() {
            self.loosens
                .push("the ledger's witness may lie on the ledger's disk".to_owned());
        }
        self.change(
            is_near(old) && !is_near(new) && !new.is_empty(),
            "the ledger's witness is on another disk",
        );
    }

    /// Where the data, the ledger and its witness are.
    fn addresses(&mut self, old: &File, new: &File) {
        if old.ledger_url != new.ledger_url {
            self.loosens.push(
                "another ledger: what was spent in the old one is not known there; needs a restart"
                    .to_owned(),
            );
        }
        self.witnesses(&old.ledger_witnesses, &new.ledger_witnesses);
        if old.database_url != new.database_url {
            self.loosens.push(
                "another database: other data are shown, and stored answers of the old one stay; \
                    needs a restart"
                    .to_owned(),
            );
        }
        self.change(
            old.write_url != new.write_url,
            "roles write by another login",
        );
        self.change(
            old.shadow_url != new.shadow_url,
            "the shadow is another; needs a restart",
        );
    }

    /// The time limit. Where times are rounded up to a quantum, a longer one has more outcomes.
    fn timeout(&mut self, old: &File, new: &File) {
        let [before, now] = [old, new].map(|file| file.limits.statement_timeout);
        let what = "limits.statement_timeout";
        if old.quantum.is_some() && new.quantum.is_some() {
            self.number(what, before, now, |time| format!("{time:?}"));
        } else {
            let changed = format!("{what} is {now:?}, not {before:?}");
            self.change(before != now, changed);
        }
    }

    /// Where stored answers are discarded, a role that never gets fresh noise gets it.
    fn bought_again(&mut self, old: &File, new: &File) {
        let is_bound = |role: &&Role| role.reuse == RoleReuse::Always;
        let was_bound = |role: &&Role| {
            let mut known = old.roles.iter().filter(is_bound);
            known.any(|known| known.name == role.name)
        };
        for role in new.roles.iter().filter(is_bound).filter(was_bound) {
            self.loosens.push(format!(
                "role {}, which always gets its stored answer again, gets each answer once more \
                    with fresh noise",
                words::name(&[&role.name])
            ));
        }
    }

    /// A number that lets somebody learn more where it is higher.
    fn number<T: PartialOrd>(&mut self, what: &str, old: T, new: T, show: impl Fn(&T) -> String) {
        let (before, now) = (show(&old), show(&new));
        if new > old {
            self.loosens
                .push(format!("{what} rises from {before} to {now}"));
        } else if new < old {
            self.tightens
                .push(format!("{what} falls from {before} to {now}"));
        }
    }

    fn change(&mut self, is_changed: bool, what: impl Into<String>) {
        if is_changed {
            self.changes.push(what.into());
        }
    }

    fn privacy(&mut self, old: &Privacy, new: &Privacy) {
        let Privacy {
            unit,
            budget,
            epsilon_default,
            epsilon_max,
            epsilon_min,
            accounting,
            threshold_share,
            data_version,
            units,
        } = new;
        self.change(
            old.unit != *unit,
            format!("the word for the unit is now {unit:?}"),
        );
        self.budget("privacy.budget", old.budget, *budget);
        self.number(
            "the most that a query may spend",
            old.epsilon_max,
            *epsilon_max,
            f64::to_string,
        );
        let least = format!(
            "the least that a query spends goes from {} to {epsilon_min}",
            old.epsilon_min
        );
        if *epsilon_min < old.epsilon_min {
            self.loosens
                .push(format!("{least}: there may be more questions"));
        } else if *epsilon_min > old.epsilon_min {
            self.tightens
                .push(format!("{least}: there may be fewer questions"));
        }
        self.change(
            old.epsilon_default != *epsilon_default,
            format!(
                "a query spends {epsilon_default} by default, not {}",
                old.epsilon_default
            ),
        );
        if old.accounting != *accounting {
            self.loosens.push(format!(
                "losses add up by {}, not {}: the same budget means something else",
                accounting.name(),
                old.accounting.name()
            ));
        }
        self.change(
            old.threshold_share != *threshold_share,
            "threshold_share changes, which the ledger fixed when it opened",
        );
        self.change(
            old.data_version != *data_version,
            format!("the data are now version {data_version:?}"),
        );
        self.change(
            old.units != *units,
            "units: other questions are refused as useless",
        );
    }

    fn budget(&mut self, what: &str, old: Budget, new: Budget) {
        let Budget { epsilon, delta } = new;
        self.number(
            &format!("epsilon of {what}"),
            old.epsilon,
            epsilon,
            f64::to_string,
        );
        self.number(&format!("delta of {what}"), old.delta, delta, |delta| {
            format!("{delta:e}")
        });
    }

    fn roles(&mut self, old: &[Role], new: &[Role]) {
        for role in new {
            match old.iter().find(|known| known.name == role.name) {
                Some(known) => self.role(known, role),
                None => {
                    let renewed = match role.renew {
                        Renew::Never => String::new(),
                        Renew::Weekly | Renew::Monthly => {
                            format!(", renewed {}", role.renew.name())
                        }
                    };
                    self.loosens.push(format!(
                        "role {} is new, with epsilon {} and delta {:e}{renewed}",
                        words::name(&[&role.name]),
                        role.budget.epsilon,
                        role.budget.delta
                    ));
                }
            }
        }
        for role in old {
            if !new.iter().any(|known| known.name == role.name) {
                self.tightens
                    .push(format!("role {} is gone", words::name(&[&role.name])));
            }
        }
    }

    fn role(&mut self, old: &Role, new: &Role) {
        let Role {
            name,
            verifier,
            certificate,
            budget,
            asks,
            writes,
            renew,
            reuse,
            session_settings,
            search_path,
        } = new;
        let what = format!("role {}", words::name(&[name]));
        self.budget(&what, old.budget, *budget);
        if *asks && !old.asks {
            self.loosens.push(format!("{what} may ask, not only write"));
        }
        self.writes(&what, &old.writes, writes);
        self.renewal(&what, old.renew, *renew);
        self.certificate(&what, old.certificate, *certificate);
        match (old.reuse, reuse) {
            (RoleReuse::Always, RoleReuse::Chosen) => self
                .loosens
                .push(format!("{what} may buy an answer again, with fresh noise")),
            (RoleReuse::Chosen, RoleReuse::Always) => self
                .tightens
                .push(format!("{what} always gets its stored answer again")),
            (RoleReuse::Always, RoleReuse::Always) | (RoleReuse::Chosen, RoleReuse::Chosen) => {}
        }
        if old.verifier != *verifier {
            self.loosens
                .push(format!("whoever knows the new password may ask as {what}"));
        }
        self.change(
            old.session_settings != *session_settings || old.search_path != *search_path,
            format!("{what} starts with other settings"),
        );
    }

    fn writes(&mut self, what: &str, old: &[TableName], new: &[TableName]) {
        let only = |some: &[TableName], others: &[TableName]| -> Vec<TableName> {
            let is_new = |table: &&TableName| !others.contains(table);
            some.iter().filter(is_new).cloned().collect()
        };
        let name = |table: &TableName| words::name(&[&table.schema, &table.name]);
        for table in only(new, old) {
            self.loosens
                .push(format!("{what} may write {}", name(&table)));
        }
        for table in only(old, new) {
            self.tightens
                .push(format!("{what} may write {} no more", name(&table)));
        }
    }

    /// How reports are made. Another secret gives every unit a second report of each value.
    fn local(&mut self, old: &File, new: Option<&LocalRule>) {
        let Some((old, new)) = old.local.as_ref().zip(new) else {
            return;
        };
        match (&old.secret, &new.secret) {
            (Some(before), Some(now)) if before != now => self.loosens.push(
                "local.secret is another: a value that is written again gets a second report, \
                    which costs its person the epsilon once more"
                    .to_owned(),
            ),
            (Some(_), None) => self.loosens.push(
                "local.memo is false: each report is drawn anew, and the epsilons of a person's \
                    reports add up, row by row"
                    .to_owned(),
            ),
            (None, Some(_)) => self.tightens.push(
                "local.memo is true: from now on, a value that is written again gets the same \
                    report"
                    .to_owned(),
            ),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn certificate(&mut self, what: &str, old: Certificate, new: Certificate) {
        match (old, new) {
            (Certificate::Required, Certificate::Optional) => {
                self.loosens
                    .push(format!("{what} needs no certificate any more"));
            }
            (Certificate::Optional, Certificate::Required) => {
                self.tightens.push(format!("{what} needs a certificate"));
            }
            (Certificate::Optional, Certificate::Optional)
            | (Certificate::Required, Certificate::Required) => {}
        }
    }

    fn renewal(&mut self, what: &str, old: Renew, new: Renew) {
        let often = |renew: Renew| match renew {
            Renew::Never => 0,
            Renew::Monthly => 1,
            Renew::Weekly => 2,
        };
        let renewed = format!(
            "the budget of {what} is renewed {}, not {}",
            new.name(),
            old.name()
        );
        match often(new).cmp(&often(old)) {
            std::cmp::Ordering::Greater => self.loosens.push(renewed),
            std::cmp::Ordering::Less => self.tightens.push(renewed),
            std::cmp::Ordering::Equal => {}
        }
    }

    fn limits(&mut self, old: &Limits, new: &Limits) {
        let Limits {
            groups_per_unit,
            rows_per_unit,
            groups,
            mirror_rows,
            failures,
            monitor_questions,
            // Compared with the quantum.
            statement_timeout: _,
            stream_rows,
            connections,
            connections_per_role,
            connections_per_address,
        } = new;
        self.number(
            "limits.failures",
            old.failures,
            *failures,
            ToString::to_string,
        );
        self.number(
            "limits.monitor_questions",
            old.monitor_questions,
            *monitor_questions,
            ToString::to_string,
        );
        // What one unit may add is a clip: the noise goes up and down with it, the loss does not.
        let mut limit = |name: &str, before: &dyn Display, now: &dyn Display, effect: &str| {
            let (before, now) = (before.to_string(), now.to_string());
            self.change(
                before != now,
                format!("limits.{name} is {now}, not {before}{effect}"),
            );
        };
        let noise = ": noise and clips change";
        limit(
            "groups_per_unit",
            &old.groups_per_unit,
            groups_per_unit,
            noise,
        );
        limit("rows_per_unit", &old.rows_per_unit, rows_per_unit, noise);
        limit("groups", &old.groups, groups, "");
        limit("mirror_rows", &old.mirror_rows, mirror_rows, "");
        limit("stream_rows", &old.stream_rows, stream_rows, "");
        limit("connections", &old.connections, connections, "");
        limit(
            "connections_per_role",
            &old.connections_per_role,
            connections_per_role,
            "",
        );
        limit(
            "connections_per_address",
            &old.connections_per_address,
            connections_per_address,
            "",
        );
    }
}

#[cfg(test)]
mod tests;
