//! The changes of the tables.

use std::collections::BTreeSet;

use super::reports::are_of_one_value;
use super::{Difference, words};
use crate::policy::Holdout;
use crate::policy::error::At;
use crate::policy::file::{
    ColumnEntry, ColumnRule, File, PeriodsRule, RowsRule, TableEntry, TableRule, UnitRule,
};

/// The owner's entry for a private table.
struct Private<'a> {
    unit: &'a UnitRule,
    rows_per_unit: Option<&'a At<RowsRule>>,
    shows_other_columns: bool,
    columns: &'a [ColumnEntry],
    periods: Option<&'a PeriodsRule>,
    holdout: Option<Holdout>,
    unique: Vec<&'a str>,
    is_append_only: bool,
    shows_constraints: bool,
}

/// `None` where it is public.
fn private(rule: &TableRule) -> Option<Private<'_>> {
    match rule {
        TableRule::Public => None,
        TableRule::Private {
            unit,
            rows_per_unit,
            shows_other_columns,
            columns,
            periods,
            holdout,
            unique,
            is_append_only,
            shows_constraints,
        } => Some(Private {
            unit,
            rows_per_unit: rows_per_unit.as_ref(),
            shows_other_columns: *shows_other_columns,
            columns,
            periods: periods.as_deref(),
            holdout: holdout.as_ref().map(|holdout| holdout.value),
            unique: unique.iter().map(|column| column.value.as_str()).collect(),
            is_append_only: *is_append_only,
            shows_constraints: *shows_constraints,
        }),
    }
}

/// The rules for a column.
struct ShownColumn<'a> {
    /// `None` where it is hidden.
    rule: Option<&'a ColumnRule>,
    is_complete: bool,
    unit_total: Option<f64>,
    /// Whether pgveil randomises its values on the way.
    is_local: bool,
    /// Whether NULL is said to be among its values.
    may_be_null: bool,
    /// The other columns that are bits of the same value.
    partners: BTreeSet<&'a str>,
}

impl ShownColumn<'_> {
    fn words(&self) -> Option<String> {
        let words = |rule| words::column_made(rule, self.is_local);
        self.rule.map(words)
    }
}

impl Private<'_> {
    fn column(&self, name: &str) -> ShownColumn<'_> {
        let is_shown = self.shows_other_columns || words::is_of_unit(self.unit, name);
        let Some(entry) = self.columns.iter().find(|entry| entry.name == name) else {
            return ShownColumn {
                rule: is_shown.then_some(&ColumnRule::Visible),
                is_complete: false,
                unit_total: None,
                is_local: false,
                may_be_null: false,
                partners: BTreeSet::new(),
            };
        };
        let ColumnEntry {
            place: _,
            name: _,
            rule,
            nullable,
            complete: _,
            unit_total,
            is_local,
        } = entry;
        let partners = self.columns.iter().filter(|other| {
            other.name != entry.name && other.is_local && are_of_one_value(&other.rule, rule)
        });
        ShownColumn {
            may_be_null: nullable.as_ref().is_some_and(|nullable| nullable.value),
            partners: partners.map(|other| other.name.as_str()).collect(),
            rule: (*rule != ColumnRule::Hidden).then_some(rule),
            is_complete: words::is_complete(entry),
            unit_total: unit_total.as_ref().map(|total| total.value),
            is_local: *is_local,
        }
    }

    fn is_trusted(&self) -> bool {
        match self.unit {
            UnitRule::Column(_) => false,
            UnitRule::Path { steps: _, trusted } => *trusted,
        }
    }
}

impl Difference {
    pub(super) fn tables(&mut self, old: &File, new: &File) {
        let is_written = |entry: &TableEntry| {
            let mut names = new.writes.iter().flatten().map(|name| &name.value);
            names.any(|name| (&name.schema, &name.name) == (&entry.schema, &entry.name))
        };
        let (old, new) = (&old.tables, &new.tables);
        let find = |all: &'_ [TableEntry], entry: &TableEntry| {
            all.iter()
                .position(|other| (&other.schema, &other.name) == (&entry.schema, &entry.name))
        };
        for entry in new {
            let TableEntry {
                place: _,
                schema,
                name,
                rule,
            } = entry;
            let what = words::name(&[schema, name]);
            let known = find(old, entry).and_then(|at| old.get(at));
            match (known.map(|known| private(&known.rule)), private(rule)) {
                (Some(None), None) => {}
                (None | Some(Some(_)), None) => self.loosens.push(format!(
                    "every row of {what} becomes readable, exactly and free"
                )),
                (None, Some(now)) => {
                    self.loosens.push(format!(
                        "{what} may be asked about; its unit is found by {}",
                        words::unit(now.unit)
                    ));
                    self.trust(&what, false, now.is_trusted());
                    self.searches(&what, &now);
                    self.holdout(&what, None, now.holdout);
                    let shows = is_written(entry) && now.shows_constraints;
                    self.constraints(&what, false, shows);
                }
                (Some(None), Some(now)) => {
                    self.tightens.push(format!(
                        "{what} is private, and no longer readable row by row"
                    ));
                    self.trust(&what, false, now.is_trusted());
                    self.searches(&what, &now);
                    self.holdout(&what, None, now.holdout);
                }
                (Some(Some(before)), Some(now)) => {
                    self.private(&what, is_written(entry), (&before, &now));
                }
            }
        }
        for entry in old {
            if find(new, entry).is_none() {
                let what = words::name(&[&entry.schema, &entry.name]);
                self.tightens.push(format!("{what} is not shown any more"));
            }
        }
    }

    fn private(&mut self, what: &str, is_written: bool, (old, new): (&Private<'_>, &Private<'_>)) {
        let Private {
            unit,
            rows_per_unit,
            shows_other_columns,
            columns,
            periods,
            holdout,
            unique,
            is_append_only,
            shows_constraints,
        } = new;
        let (before, now) = (words::unit(old.unit), words::unit(unit));
        if before != now {
            self.loosens.push(format!(
                "the unit of {what} is found by {now}, not {before}: other rows count as one \
                    unit's"
            ));
        }
        self.periods(what, old.periods, *periods);
        self.holdout(what, old.holdout, *holdout);
        match (old.is_append_only, is_append_only) {
            (false, true) => self.loosens.push(format!(
                "rows of {what} are taken to be neither changed nor deleted"
            )),
            (true, false) => self.tightens.push(format!(
                "rows of {what} are no longer taken to stay as they are"
            )),
            (true, true) | (false, false) => {}
        }
        let shows = (old.shows_constraints, *shows_constraints);
        self.constraints(what, is_written && shows.0, is_written && shows.1);
        self.unique(what, &old.unique, unique);
        self.trust(what, old.is_trusted(), new.is_trusted());
        let (before, now) = (words::rows(old.rows_per_unit), words::rows(*rows_per_unit));
        self.change(
            before != now,
            format!("rows_per_unit of {what} is {now}, not {before}: noise and clips change"),
        );
        if before != now && now == "auto" {
            self.due(format!("rows_per_unit of {what}"));
        }
        match (old.shows_other_columns, shows_other_columns) {
            (false, true) => self.loosens.push(format!(
                "columns of {what} that are not listed may be used, also those that are added \
                    later"
            )),
            (true, false) => self
                .tightens
                .push(format!("columns of {what} that are not listed are hidden")),
            (true, true) | (false, false) => {}
        }
        let mut names: Vec<&str> = old
            .columns
            .iter()
            .chain(*columns)
            .map(|entry| entry.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let what = format!("{what}.{}", words::name(&[name]));
            let (old, new) = (old.column(name), new.column(name));
            self.column(&what, &old, &new);
            let made = ((old.rule, old.is_local), (new.rule, new.is_local));
            self.reports(&what, is_written, made);
            if is_written && old.is_local && new.is_local {
                self.nulls(&what, old.may_be_null, new.may_be_null);
                self.bits(&what, &old.partners, &new.partners);
            }
        }
    }

    /// Which questions are answered by periods, and whether those that roles hold still serve.
    fn periods(&mut self, what: &str, old: Option<&PeriodsRule>, new: Option<&PeriodsRule>) {
        let meaning = |rule: &PeriodsRule| {
            let PeriodsRule {
                column,
                length,
                from,
                close_after: _,
                prepaid: _,
            } = rule;
            (column.value.clone(), length.value, *from)
        };
        let prepaid = |rule: &PeriodsRule| {
            let of = rule.prepaid.as_ref()?;
            Some((of.per_unit.value, of.horizon, of.rows))
        };
        if old.and_then(prepaid) != new.and_then(prepaid) {
            match new.and_then(prepaid) {
                None => self.tightens.push(format!(
                    "rows of {what} are no longer taken to stay as they are; what was prepaid \
                        of its periods is not drawn any more"
                )),
                Some((per_unit, horizon, _)) => self.loosens.push(format!(
                    "questions about {what} by its periods pay once for {horizon} of them, of \
                        which {per_unit} of a unit count; rows of {what} are taken to be neither \
                        changed nor deleted"
                )),
            }
        }
        let answers = |rule: &PeriodsRule| Some(rule.prepaid.as_ref()?.answers);
        if let Some((before, now)) = old.and_then(answers).zip(new.and_then(answers))
            && before != now
        {
            self.costs.push(format!(
                "answers of the periods of {what} changes: noise is drawn in another way, and \
                    each horizon is paid for again"
            ));
        }
        match (old, new) {
            (None, None) => {}
            (None, Some(rule)) => self.changes.push(format!(
                "questions about {what} by {} buy each period once",
                rule.length.value.name()
            )),
            (Some(_), None) => self.changes.push(format!(
                "questions about {what} buy no periods: what was bought of them is not shown"
            )),
            (Some(old), Some(new)) if meaning(old) != meaning(new) => self.costs.push(format!(
                "the periods of {what} are others: what was bought of them is bought again"
            )),
            (Some(old), Some(new)) => self.change(
                old.close_after != new.close_after,
                format!("close_after of {what} changes: periods are bought at another time"),
            ),
        }
    }

    /// What one charge answers, and how often there may be one.
    fn holdout(&mut self, what: &str, old: Option<Holdout>, new: Option<Holdout>) {
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => self.loosens.push(format!(
                "{what} is a holdout, which each role may open {} times: one charge answers many \
                    questions",
                new.overflows
            )),
            (Some(_), None) => self.tightens.push(format!("{what} is no holdout any more")),
            (Some(old), Some(new)) => {
                let Holdout {
                    rows,
                    tolerance,
                    scale,
                    overflows,
                } = new;
                if overflows > old.overflows {
                    self.loosens.push(format!(
                        "each role may open the holdout {what} {overflows} times, not {}",
                        old.overflows
                    ));
                } else if overflows < old.overflows {
                    self.tightens.push(format!(
                        "each role may open the holdout {what} {overflows} times, not {}",
                        old.overflows
                    ));
                }
                let before = (old.rows, old.tolerance, old.scale);
                self.change(
                    (rows, tolerance, scale) != before,
                    format!(
                        "the holdout {what} has rows {rows}, tolerance {tolerance} and scale \
                            {scale}, not {}, {} and {}: its answers and prices change",
                        old.rows, old.tolerance, old.scale
                    ),
                );
            }
        }
    }

    /// The searches of a table that was not private before.
    fn searches(&mut self, what: &str, now: &Private<'_>) {
        if words::rows(now.rows_per_unit) == "auto" {
            self.due(format!("rows_per_unit of {what}"));
        }
        for entry in now.columns {
            if matches!(entry.rule, ColumnRule::Searched { .. }) {
                self.due(format!("bounds of {what}.{}", words::name(&[&entry.name])));
            }
        }
    }

    /// Which joins are answered.
    fn unique(&mut self, what: &str, old: &[&str], new: &[&str]) {
        for column in new.iter().filter(|column| !old.contains(column)) {
            self.changes.push(format!(
                "{} is taken to identify a row of {what}: joins on it are answered",
                words::name(&[column])
            ));
        }
        for column in old.iter().filter(|column| !new.contains(column)) {
            self.changes.push(format!(
                "{} is no longer taken to identify a row of {what}: joins on it may be refused",
                words::name(&[column])
            ));
        }
    }

    fn trust(&mut self, what: &str, was_trusted: bool, is_trusted: bool) {
        match (was_trusted, is_trusted) {
            (false, true) => self.loosens.push(format!(
                "the path of {what} rests on the owner's word, not on foreign keys"
            )),
            (true, false) => self
                .tightens
                .push(format!("the path of {what} needs foreign keys")),
            (true, true) | (false, false) => {}
        }
    }

    fn column(&mut self, what: &str, old: &ShownColumn<'_>, new: &ShownColumn<'_>) {
        let ShownColumn {
            rule,
            is_complete,
            unit_total,
            // Compared with how reports are made.
            is_local: _,
            may_be_null: _,
            partners: _,
        } = new;
        let is_searched = |rule: &ColumnRule| matches!(rule, ColumnRule::Searched { .. });
        // Who makes reports is another matter.
        let is_other = old.rule.map(words::column) != rule.map(words::column);
        if is_other && rule.is_some_and(is_searched) {
            self.due(format!("bounds of {what}"));
        }
        match (old.words(), new.words()) {
            (None, Some(now)) => self.loosens.push(format!("{what} is shown: {now}")),
            (Some(_), None) => self.tightens.push(format!("{what} is hidden")),
            (Some(before), Some(now)) if is_other => {
                let changed = format!("{what} is {now}, not {before}");
                let added = words::new_values(old.rule, *rule);
                let is_visible = |rule: Option<&ColumnRule>| rule == Some(&ColumnRule::Visible);
                if is_visible(old.rule) {
                    self.loosens
                        .push(format!("{changed}: more may be asked about it"));
                } else if is_visible(*rule) {
                    self.tightens
                        .push(format!("{changed}: less may be asked about it"));
                } else if !added.is_empty() {
                    self.loosens
                        .push(format!("{changed}: {} becomes readable", added.join(", ")));
                } else if *is_complete && old.is_complete {
                    // A shorter list that is complete answers questions about the others free.
                    self.loosens.push(changed);
                } else {
                    self.changes.push(changed);
                }
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
        let total = |total: Option<f64>| total.map_or("none".to_owned(), |most| most.to_string());
        self.change(
            old.unit_total != *unit_total && rule.is_some() && old.rule.is_some(),
            format!(
                "unit_total of {what} is {}, not {}: noise and clips change",
                total(*unit_total),
                total(old.unit_total)
            ),
        );
        match (old.is_complete, is_complete) {
            (false, true) => self.loosens.push(format!(
                "{what} is complete: questions about other values are answered free, and wrong if \
                    there are any"
            )),
            (true, false) => self
                .tightens
                .push(format!("{what} is not complete any more")),
            (true, true) | (false, false) => {}
        }
    }

    fn due(&mut self, what: String) {
        self.costs.push(format!(
            "{what}: a search is due, unless the ledger has its result; `pgveil check` says the \
                price"
        ));
    }
}
