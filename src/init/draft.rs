//! The draft: the policy's content, before it is text.

use super::catalog_view::CatalogView;
use super::columns::{self, Line};
use super::decisions::Decisions;
use super::name_hints::with_article;
use super::possibly_private::LinkKind;
use super::unit_paths::UnitPath;
use super::yaml;

/// A policy that is not yet written down.
#[derive(Debug, Clone)]
pub struct Draft {
    pub made: Decisions,
    /// Parallel to the roles of the decisions: SCRAM verifiers.
    pub verifiers: Vec<String>,
    pub private: Vec<Private>,
    pub public: Vec<usize>,
    /// Tables that the policy does not show.
    pub left_out: Vec<LeftOut>,
}

/// A private table.
#[derive(Debug, Clone)]
pub struct Private {
    pub table: usize,
    pub way: UnitPath,
    pub has_many_rows: bool,
    pub lines: Vec<Line>,
}

/// A table that the policy does not show.
#[derive(Debug, Clone)]
pub struct LeftOut {
    pub table: usize,
    pub why: String,
    /// The line that would show it.
    pub line: Option<String>,
}

impl Draft {
    pub fn new(seen: &CatalogView, made: Decisions, verifiers: Vec<String>) -> Self {
        let mut draft = Self {
            verifiers,
            private: Vec::new(),
            public: made.public.iter().copied().collect(),
            left_out: Vec::new(),
            made,
        };
        let mut ways: Vec<(usize, UnitPath)> = draft.made.ways.clone().into_iter().collect();
        ways.sort_by_key(|(table, way)| match way {
            UnitPath::Own => (0, *table),
            UnitPath::Path(links) => (links.len(), *table),
            UnitPath::Several(_) => (usize::MAX, *table),
        });
        for (table, way) in ways {
            draft.take(seen, table, way);
        }
        draft.leave_out(seen);
        draft
    }

    fn take(&mut self, seen: &CatalogView, table: usize, way: UnitPath) {
        if let UnitPath::Several(links) = &way {
            let flags: Vec<String> = links
                .iter()
                .map(|link| {
                    let (from, to) = (
                        super::flag_name(seen, link.from),
                        super::flag_name(seen, link.to),
                    );
                    format!("--link {}", super::shell(&format!("{from} -> {to}")))
                })
                .collect();
            let why = format!(
                "its rows lead to {} by several columns; say whose row it is: {}",
                with_article(&self.made.unit_name),
                flags.join(" or ")
            );
            self.left_out.push(LeftOut {
                table,
                why,
                line: None,
            });
            return;
        }
        self.private.push(Private {
            table,
            has_many_rows: columns::has_many_rows(seen, self.made.unit, table, &way),
            lines: columns::lines(seen, &self.made, table),
            way,
        });
    }

    /// Leaves out the tables that are neither private nor public.
    fn leave_out(&mut self, seen: &CatalogView) {
        for &table in &seen.tables {
            let is_shown = self.public.contains(&table)
                || self.private.iter().any(|private| private.table == table)
                || self.left_out.iter().any(|left| left.table == table);
            if is_shown {
                continue;
            }
            let (why, line) = self.why_left_out(seen, table);
            self.left_out.push(LeftOut { table, why, line });
        }
        for (table, why) in &seen.unfit {
            self.left_out.push(LeftOut {
                table: *table,
                why: (*why).to_owned(),
                line: None,
            });
        }
    }

    /// Why a table is neither private nor public, and the line that would publish it.
    fn why_left_out(&self, seen: &CatalogView, table: usize) -> (String, Option<String>) {
        let Self { made, .. } = self;
        // A way that goes through a table of several ways ends there.
        let ended = made.links.iter().find(|link| {
            link.from.table == table
                && matches!(made.ways.get(&link.to.table), Some(UnitPath::Several(_)))
        });
        if let Some(link) = ended {
            let through = seen.table_name(link.to.table);
            return (format!("it leads to {through}, which is left out"), None);
        }
        if let Some(clue) = made.suspects.get(&table) {
            let is_shown = self.private.iter().any(|private| private.table == clue.to);
            let tail = match &clue.by {
                LinkKind::Link(_) | LinkKind::Shared if !is_shown => ", which is left out",
                LinkKind::Link(_) | LinkKind::Shared => "",
                LinkKind::Keyless(_) | LinkKind::Declined(_) | LinkKind::Key(_) => "",
            };
            return (clue.describe(seen) + tail, None);
        }
        let why = format!(
            "nothing known leads to {}; public only if no row is about one {}",
            with_article(&made.unit_name),
            made.unit_name
        );
        (
            why,
            table_key(seen, table).map(|key| format!("{key}: public")),
        )
    }

    /// The open decisions that block serving, each with the flag that decides it.
    pub fn blocking(&self, seen: &CatalogView) -> Vec<String> {
        let mut open = Vec::new();
        if self.made.budget.is_none() {
            open.push("the owner's budget: --budget 4,1e-6".to_owned());
        }
        for private in &self.private {
            if let UnitPath::Path(links) = &private.way
                && let Some(link) = links.iter().find(|link| link.is_open())
            {
                let (from, to) = (
                    super::flag_name(seen, link.from),
                    super::flag_name(seen, link.to),
                );
                open.push(format!(
                    "the way of {} to {}: --link {}, or --accept-links",
                    seen.table_name(private.table),
                    with_article(&self.made.unit_name),
                    super::shell(&format!("{from} -> {to}"))
                ));
            }
        }
        open
    }
}

/// `schema.table` as a key of `tables:`.
pub fn table_key(seen: &CatalogView, table: usize) -> Option<String> {
    let table = seen.table(table);
    yaml::join_dotted(&[&table.schema, &table.name]).map(|name| yaml::scalar(&name))
}
