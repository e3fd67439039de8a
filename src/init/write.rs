//! The draft as the text of a policy file.

use super::catalog_view::{CatalogView, ColumnAt};
use super::columns::{Form, Line};
use super::draft::{Draft, Private, table_key};
use super::links::{Link, LinkBasis};
use super::request::Spend;
use super::unit_paths::UnitPath;
use super::{shared_entries, yaml};
use crate::catalog::RelationKind;

/// The subject of a line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineSubject {
    File,
    Table(usize),
    Column(ColumnAt),
}

/// The mark in place of an open decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenDecisionMark {
    /// The word `decide`, which the reader refuses.
    Decide,
    /// Values that hold, to check the rest.
    StandIn,
}

/// The column at which comments begin, where there is room.
const COMMENTS: usize = 35;

/// Whether columns of which the same is said share a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    Each,
    Shared,
}

/// The lines of the file, each with what it is about.
pub fn lines(
    seen: &CatalogView,
    draft: &Draft,
    marks: OpenDecisionMark,
    width: Width,
) -> Vec<(String, LineSubject)> {
    let mut text = Text {
        seen,
        draft,
        marks,
        width,
        lines: Vec::new(),
    };
    text.head();
    text.privacy();
    text.roles();
    text.tables();
    text.left_out();
    text.lines
}

struct Text<'a> {
    seen: &'a CatalogView,
    draft: &'a Draft,
    marks: OpenDecisionMark,
    width: Width,
    lines: Vec<(String, LineSubject)>,
}

impl Text<'_> {
    fn line(&mut self, part: LineSubject, text: &str, remark: &str) {
        let text = one_line(text);
        let line = if remark.is_empty() {
            text
        } else {
            format!("{text:COMMENTS$} # {}", one_line(remark))
        };
        self.lines.push((line, part));
    }

    fn head(&mut self) {
        let database = self.seen.catalog.database.clone();
        for text in [
            &format!(
                "# Drafted by `pgveil init` from the catalog of database {database}. No row and \
                    no statistic was read."
            ),
            "# A line with DECIDE is off until you take its # away. The word decide in place of a \
                value",
            "# blocks `pgveil serve` until you write the value.",
            "version: 1",
            "",
            "database:",
        ] {
            self.line(LineSubject::File, text, "");
        }
        self.line(
            LineSubject::File,
            "  url: ${DATABASE_URL}",
            "secrets stay out of this file",
        );
        self.line(LineSubject::File, "ledger:", "");
        self.line(
            LineSubject::File,
            "  url: ${PGVEIL_LEDGER}",
            "what has been spent, for ever; such as sqlite:///var/lib/pgveil/ledger.db",
        );
        if self.draft.made.has_shadow {
            self.line(LineSubject::File, "shadow:", "");
            self.line(
                LineSubject::File,
                "  url: ${SHADOW_URL}",
                "an empty server that will know the schema and no private row",
            );
        }
        self.line(LineSubject::File, "", "");
    }

    fn privacy(&mut self) {
        let made = &self.draft.made;
        let (unit, budget, units) = (made.unit_name.clone(), made.budget.clone(), made.units);
        let most = made
            .roles
            .iter()
            .filter_map(|(_, budget)| budget.as_ref()?.epsilon.parse::<f64>().ok())
            .fold(f64::INFINITY, f64::min);
        let budget = self.spend(budget.as_ref(), "4", "1e-6");
        self.line(LineSubject::File, "privacy:", "");
        self.line(
            LineSubject::File,
            &format!("  unit: {}", yaml::scalar(&unit)),
            &format!("what is protected: everything about one {unit}, not one row"),
        );
        self.line(
            LineSubject::File,
            &format!("  budget: {budget}"),
            "the most that all roles together may ever learn",
        );
        let per_query = if most >= 1.0 {
            "  per_query: {epsilon: 0.1, max_epsilon: 1}".to_owned()
        } else {
            format!(
                "  per_query: {{epsilon: {}, max_epsilon: {most}}}",
                most / 10.0
            )
        };
        self.line(
            LineSubject::File,
            &per_query,
            "what a query spends, and the most it may",
        );
        match units {
            Some(units) => self.line(
                LineSubject::File,
                &format!("  units: {units}"),
                "about how many there are; a public statement",
            ),
            None => self.line(
                LineSubject::File,
                "  # units: 10000",
                "DECIDE: about how many there are, by what is publicly known; useless questions \
                    are then refused free",
            ),
        }
        self.line(LineSubject::File, "", "");
    }

    fn roles(&mut self) {
        self.line(LineSubject::File, "roles:", "");
        let roles = self.draft.made.roles.iter().zip(&self.draft.verifiers);
        for ((name, budget), verifier) in roles {
            let budget = self.spend(budget.as_ref(), "2", "1e-7");
            self.line(
                LineSubject::File,
                &format!("  - name: {}", yaml::scalar(name)),
                "",
            );
            self.line(LineSubject::File, &format!("    password: {verifier}"), "");
            self.line(
                LineSubject::File,
                &format!("    budget: {}", budget.replace('}', ", renew: never}")),
                "spent is spent",
            );
        }
        self.line(LineSubject::File, "", "");
    }

    /// `{epsilon: …, delta: …}`.
    fn spend(&self, spend: Option<&Spend>, epsilon: &str, delta: &str) -> String {
        match (spend, self.marks) {
            (Some(Spend { epsilon, delta }), _) => {
                format!("{{epsilon: {epsilon}, delta: {delta}}}")
            }
            (None, OpenDecisionMark::Decide) => format!("{{epsilon: decide, delta: {delta}}}"),
            (None, OpenDecisionMark::StandIn) => format!("{{epsilon: {epsilon}, delta: {delta}}}"),
        }
    }

    fn tables(&mut self) {
        self.line(LineSubject::File, "tables:", "");
        for private in &self.draft.private {
            self.private(private);
        }
        for &table in &self.draft.public {
            if let Some(key) = table_key(self.seen, table) {
                self.line(
                    LineSubject::Table(table),
                    &format!("  {key}: public"),
                    "every row can be read, exactly and free",
                );
            }
        }
    }

    fn private(&mut self, private: &Private) {
        let part = LineSubject::Table(private.table);
        let unit = &self.draft.made.unit_name;
        // A name that the file cannot spell shows as a table that does not exist.
        let key = table_key(self.seen, private.table).unwrap_or_else(|| "unspeakable.name".into());
        let one = if private.has_many_rows {
            String::new()
        } else {
            format!("one row a {unit}")
        };
        self.line(part, &format!("  {key}:"), &one);
        self.unit(private);
        self.rows(private);
        let is_on = |line: &Line| matches!(line.form, Form::On(_) | Form::Said(_));
        if private.lines.iter().any(is_on) {
            self.line(part, "    columns:", "");
        } else {
            self.line(
                part,
                "    # columns:",
                "with the first column that you show",
            );
        }
        match self.width {
            Width::Each => private.lines.iter().for_each(|line| self.column(line)),
            Width::Shared => {
                for alike in shared_entries::alike(&private.lines) {
                    match alike.as_slice() {
                        [one] => self.column(one),
                        several => self.columns(several),
                    }
                }
            }
        }
        self.line(part, "", "");
    }

    fn column(&mut self, line: &Line) {
        let name = yaml::scalar(&self.seen.column(line.at).name);
        let part = LineSubject::Column(line.at);
        let remark = &line.remark;
        match &line.form {
            Form::On(form) | Form::Said(form) => {
                self.line(part, &format!("      {name}: {form}"), remark);
            }
            Form::Open(form) => {
                let text = format!("      # {name}: {form}");
                self.line(part, &text, &format!("DECIDE: {remark}"));
            }
            Form::Note => self.line(part, &format!("      # {name}"), remark),
        }
    }

    /// Columns of which the same is said.
    fn columns(&mut self, alike: &[&Line]) {
        let name = |line: &&Line| yaml::scalar(&self.seen.column(line.at).name);
        let names: Vec<String> = alike.iter().map(name).collect();
        for text in alike
            .first()
            .map_or(Vec::new(), |line| shared_entries::entry(line, &names))
        {
            if let Some(line) = alike.first() {
                self.line(LineSubject::Column(line.at), &text, "");
            }
        }
    }

    fn unit(&mut self, private: &Private) {
        let part = LineSubject::Table(private.table);
        let links = match &private.way {
            UnitPath::Own | UnitPath::Several(_) => {
                let name = &self.seen.column(self.draft.made.unit).name;
                let name = yaml::join_dotted(&[name]).unwrap_or_default();
                self.line(part, &format!("    unit: {}", yaml::scalar(&name)), "");
                return;
            }
            UnitPath::Path(links) => links,
        };
        let steps: Vec<String> = links.iter().map(|link| self.step(link)).collect();
        let is_open = links.iter().any(Link::is_open) && self.marks == OpenDecisionMark::Decide;
        let is_trusted = links.iter().any(|link| link.basis != LinkBasis::Declared);
        let trusted = match (is_open, is_trusted) {
            (true, _) => ", trusted_path: decide",
            (false, true) => ", trusted_path: true",
            (false, false) => "",
        };
        let reasons: Vec<&str> = links
            .iter()
            .filter_map(|link| match &link.basis {
                LinkBasis::Guessed(reason) => Some(reason.as_str()),
                LinkBasis::Declared | LinkBasis::Said => None,
            })
            .collect();
        let remark = match (is_open, is_trusted) {
            (true, _) => format!(
                "a guess: {}; true once you know that it holds for every row",
                reasons.join("; ")
            ),
            (false, true) => "your word; a foreign key would make it a fact".to_owned(),
            (false, false) => "by foreign keys".to_owned(),
        };
        let text = format!("    unit: {{path: [{}]{trusted}}}", steps.join(", "));
        if text.chars().count() + remark.chars().count() + 3 > shared_entries::LINE_MAX {
            self.line(part, &format!("    # {remark}"), "");
            self.line(part, &text, "");
        } else {
            self.line(part, &text, &remark);
        }
    }

    fn step(&self, link: &Link) -> String {
        let to = self.seen.table(link.to.table);
        let key = &self.seen.column(link.to).name;
        let from = yaml::join_dotted(&[&self.seen.column(link.from).name]);
        let to = yaml::join_dotted(&[&to.schema, &to.name, key]);
        let step = format!("{} -> {}", from.unwrap_or_default(), to.unwrap_or_default());
        let is_plain = step
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_. ->".contains(c));
        if is_plain { step } else { yaml::scalar(&step) }
    }

    fn rows(&mut self, private: &Private) {
        let part = LineSubject::Table(private.table);
        let unit = &self.draft.made.unit_name;
        match self.draft.made.rows.get(&private.table) {
            Some(most) => self.line(
                part,
                &format!("    rows_per_unit: {most}"),
                &format!("most rows of one {unit} that count"),
            ),
            None if private.has_many_rows => self.line(
                part,
                "    # rows_per_unit: 20",
                &format!(
                    "DECIDE: most rows of one {unit} that count, or auto; without it 1000, and \
                        much noise"
                ),
            ),
            None if self.is_primary(private) => {}
            None => self.line(part, "    rows_per_unit: 1", "by a key"),
        }
    }

    /// Whether the check sees by itself that a unit has one row.
    fn is_primary(&self, private: &Private) -> bool {
        private.way == UnitPath::Own
            && self.seen.is_primary(self.draft.made.unit)
            && self.seen.table(private.table).kind == RelationKind::Ordinary
    }

    fn left_out(&mut self) {
        if self.draft.left_out.is_empty() {
            return;
        }
        if self.lines.last().is_some_and(|(line, _)| !line.is_empty()) {
            self.line(LineSubject::File, "", "");
        }
        self.line(
            LineSubject::File,
            "  # Left out, so that no analyst sees them:",
            "",
        );
        for left in &self.draft.left_out {
            let name = self.seen.table_name(left.table);
            let text = left.line.clone().unwrap_or(name);
            self.line(LineSubject::File, &format!("  # {text}"), &left.why);
        }
    }
}

/// Names may hold line ends, which would end a comment.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
            c => c,
        })
        .collect()
}
