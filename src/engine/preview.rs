//! Row previews under `previews: empty` and `previews: synthetic`: the statement with `LIMIT 0`, or
//! over made-up rows of a summary that the role holds. A notice says which.
//!
//! # Guarantee
//! A preview reads no private row and buys nothing, apart from what a role pays once for searches
//! of the policy. Made-up rows are post-processing of a summary that the role has paid for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::planning_limit::aside;
use super::statement_log::StatementFacts;
use super::summaries::Declared;
use super::{COPIES, ColumnDescription, Description, Engine, Format, shadow_error};
use crate::error::Error;
use crate::ir::sql::print;
use crate::ledger::{AnswerId, Newest};
use crate::memory::HeldMemory;
use crate::parse::{Query, Statement, parse};
use crate::policy::{Previews, Summary};
use crate::postgres::identifier;
use crate::resolve::{is_preview, limited_as, only_table, with_rows};
use crate::rewrite::Plan;
use crate::shadow::{Requester, ShadowError};
use crate::synthetic::PreviewRows;

const INT8_OID: u32 = 20;

/// What a statement that shows rows is answered with.
pub(super) enum Preview {
    /// Its columns, and no row.
    Empty,
    /// As `Empty`. Summaries of this name would give it rows, once the role has received one.
    Unreceived(String),
    /// The statement over made-up rows; and the memory of its text.
    MadeUp {
        statement: String,
        summary: String,
        rows: Arc<PreviewRows>,
        _held: HeldMemory,
    },
}

/// Made-up rows of one making of a summary; `None` where PostgreSQL does not take them as rows of
/// the table.
type OfMaking = (AnswerId, Option<Arc<PreviewRows>>);

/// Made-up rows by the place of their summary in the policy.
#[derive(Default)]
pub(super) struct MadeUpPreviews(Mutex<HashMap<usize, OfMaking>>);

impl Engine {
    /// The plan. Where the statement was refused only because it shows rows, and the policy has
    /// `previews: empty` or `synthetic`, the plan of its columns: it has no release, reads no row
    /// and charges nothing.
    pub(super) async fn plan_or_preview(
        &self,
        requester: &Requester,
        query: &Query,
        facts: &StatementFacts,
    ) -> Result<(Arc<Plan>, bool), Error> {
        if let Some(plan) = self.find_free_plan(requester, query) {
            return Ok((plan, false));
        }
        let refused = match (
            self.plan_for(requester, query, facts).await,
            self.policy.previews,
        ) {
            (Ok((plan, _)), _) => return Ok((plan, false)),
            (Err(Error::Resolve(refusal)), Previews::Empty | Previews::Synthetic)
                if is_preview(query, &refusal) =>
            {
                Error::Resolve(refusal)
            }
            (Err(error), Previews::Empty | Previews::Synthetic | Previews::Refused) => {
                return Err(error);
            }
        };
        match self.plan_for(requester, &query.without_rows(), facts).await {
            Ok((plan, _)) if plan.releases().is_empty() => Ok((plan, true)),
            Ok(_) | Err(_) => Err(refused),
        }
    }

    /// The preview of a statement, by the plan of its columns. Made-up rows are read by that plan's
    /// query: its names, functions and constants are those that were checked.
    pub(super) async fn preview(
        &self,
        requester: &Requester,
        query: &Query,
        (plan, columns): (&Plan, &Description),
    ) -> Result<Preview, Error> {
        let outer = plan.outer();
        let table = match self.policy.previews {
            // As for answers, a session may do without what is stored.
            Previews::Synthetic if self.reuse(requester).sums_groups() => {
                only_table(outer, &self.policy, &requester.search_path)
            }
            Previews::Synthetic | Previews::Empty | Previews::Refused => None,
        };
        let of_role = |at: usize, summary: &Summary| {
            Some(summary.table) == table && self.is_summary_of(&requester.role, (at, summary))
        };
        let (mut known, mut unreceived) = (None, None);
        for (at, summary, declared) in self.declared_summaries() {
            if !of_role(at, summary) || known.is_some() {
                continue;
            }
            let newest = self.newest(requester, declared).await?;
            match newest.filter(|newest| newest.is_held) {
                None => unreceived = unreceived.or_else(|| Some(summary.name.clone())),
                Some(newest) => {
                    let rows = self.preview_rows(requester, (at, summary, declared), &newest);
                    known = rows.await?.map(|rows| (summary, rows));
                }
            }
        }
        let Some((summary, rows)) = known else {
            return Ok(unreceived.map_or(Preview::Empty, Preview::Unreceived));
        };
        let held = requester.share.hold(COPIES * rows.json.len());
        let held = held.map_err(Error::Parse)?;
        let table = &self.policy.tables[summary.table];
        let over = |rows: &str| {
            let made_up = limited_as(with_rows(outer, table, rows.to_owned())?, query)?;
            print(&made_up).ok()
        };
        // Printing reads the whole text again, which may take a while.
        let (Some(statement), Some(of_none)) = aside(|| (over(&rows.json), over("[]"))) else {
            return Ok(Preview::Empty);
        };
        // Columns that rows of tables alone have, such as ctid, are not there.
        let described = self.shadow.describe(requester, &of_none, &[]).await;
        let types = |of: &Description| -> Vec<u32> {
            of.columns.iter().map(|column| column.type_oid).collect()
        };
        match described {
            Ok(described) if types(&described) == types(columns) => Ok(Preview::MadeUp {
                statement,
                summary: summary.name.clone(),
                rows,
                _held: held,
            }),
            Ok(_) | Err(ShadowError::Refusal(_)) => Ok(Preview::Empty),
            Err(error) => Err(shadow_error(error)),
        }
    }

    /// Rows made up from a summary that the role holds; `None` where that is not possible.
    async fn preview_rows(
        &self,
        requester: &Requester,
        (at, summary, declared): (usize, &Summary, &Declared),
        newest: &Newest,
    ) -> Result<Option<Arc<PreviewRows>>, Error> {
        let known = || {
            let MadeUpPreviews(made) = &self.made_up_previews;
            made.lock().unwrap_or_else(PoisonError::into_inner)
        };
        let found = known().get(&at).cloned();
        if let Some((answer, rows)) = found
            && answer == newest.answer
        {
            return Ok(rows);
        }
        let Some(table) = self.read(requester, at, newest).await? else {
            return Ok(None);
        };
        let size = super::StatementSize::Large;
        let permit = self.planning_limit.acquire(&requester.role, size).await;
        let release = declared.question.release();
        let made = permit.work(|| PreviewRows::of(&self.policy, summary, (release, &table)));
        let fits = match &made {
            Some(made) => self.are_rows(requester, summary, made).await?,
            None => false,
        };
        let made = made.filter(|_| fits).map(Arc::new);
        if made.is_none() {
            let summary = &summary.name;
            tracing::warn!(
                summary,
                "no rows could be made up for previews of its table"
            );
        }
        known().insert(at, (newest.answer, made.clone()));
        Ok(made)
    }

    /// Whether PostgreSQL reads them as rows of the table: a domain may have conditions.
    async fn are_rows(
        &self,
        requester: &Requester,
        summary: &Summary,
        made: &PreviewRows,
    ) -> Result<bool, Error> {
        let table = &self.policy.tables[summary.table];
        let (schema, name) = (identifier(&table.schema), identifier(&table.name));
        let all = parse(&format!("SELECT count(x) FROM {schema}.{name} AS x"));
        let Ok([Statement::Query(all)]) = all.as_deref() else {
            return Ok(false);
        };
        let Some(all) = with_rows(&all.0, table, made.json.clone()) else {
            return Ok(false);
        };
        let count = Description {
            parameters: Vec::new(),
            columns: vec![ColumnDescription {
                name: "count".to_owned(),
                type_oid: INT8_OID,
                type_size: 8,
                type_modifier: -1,
            }],
        };
        let (all, text) = (print(&all).map_err(Error::Rewrite)?, [Format::Text]);
        match self.shadow.run(requester, &all, &count, &text).await {
            Ok(_) => Ok(true),
            // A value of no value of its type, or against a condition.
            Err(ShadowError::Refusal(refusal))
                if refusal.sqlstate.starts_with("22") || refusal.sqlstate.starts_with("23") =>
            {
                Ok(false)
            }
            Err(error) => Err(shadow_error(error)),
        }
    }
}

impl Preview {
    /// The statement that gives it its rows; `None` where it has none.
    pub fn statement(&self) -> Option<&str> {
        match self {
            Self::MadeUp { statement, .. } => Some(statement),
            Self::Empty | Self::Unreceived(_) => None,
        }
    }

    /// The notice that says what the client sees.
    pub fn notice(&self) -> String {
        match self {
            Self::Empty => "rows of a private table are not shown, so there are none; aggregate \
                them, as in SELECT count(*) FROM the same table"
                .to_owned(),
            Self::Unreceived(summary) => format!(
                "rows of a private table are not shown, so there are none; previews show made-up \
                    rows once this role has received summary {summary}, by a question that it \
                    answers"
            ),
            Self::MadeUp { summary, rows, .. } => {
                let filled = match rows.not_in_summary.as_slice() {
                    [] => String::new(),
                    columns => format!(
                        "; the summary does not have {}, whose values mean nothing",
                        columns.join(", ")
                    ),
                };
                format!(
                    "these rows are made up from summary {summary}, and belong to nobody{filled}"
                )
            }
        }
    }
}
