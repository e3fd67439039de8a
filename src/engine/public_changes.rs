//! Finds public tables whose rows have changed since the policy was loaded. Lists of keys, bounds
//! and copies still follow the old rows.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::Engine;
use crate::catalog::Content;
use crate::execute;
use crate::execute::Snapshot;
use crate::ir::TableId;
use crate::policy::{Protection, Table};
use crate::refusal::{Refusal, reason};
use crate::rewrite::{Plan, ReleasePlan};

impl Engine {
    /// Compares the small public tables of the plan with the loaded rows, in the snapshot that the
    /// plan reads.
    ///
    /// # Errors
    /// As [`Snapshot::which_changed`].
    pub(super) async fn compare_rows(
        &self,
        plan: &Plan,
        snapshot: &Snapshot,
    ) -> Result<(), execute::Error> {
        let known = self
            .rows_of(plan)
            .into_iter()
            .filter_map(|id| Some((id, self.content(id)?)));
        let small: Vec<(TableId, &Content)> =
            known.filter(|(_, content)| content.is_small()).collect();
        let contents: Vec<&Content> = small.iter().map(|(_, content)| *content).collect();
        let changed = snapshot.which_changed(&contents).await?;
        self.note_rows(small.iter().map(|(id, _)| *id).zip(changed));
        Ok(())
    }

    /// The warnings of an answer by this plan, at every level of `pgveil.notices`.
    pub(super) fn of_changed_rows(&self, plan: &Plan) -> Vec<Refusal> {
        let changed = self
            .changed_rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let tables = self
            .rows_of(plan)
            .into_iter()
            .filter(|id| changed.contains(id))
            .map(|id| &self.policy.tables[id.0]);
        let warning = |table: &Table| {
            let Table { schema, name, .. } = table;
            Refusal::new(
                reason::PUBLIC_ROWS_CHANGED,
                format!(
                    "public table {schema}.{name} has changed since it was \
                loaded"
                ),
            )
            .detail(
                "Its groups, bounds and copied rows are as loaded; its rows that join private ones \
                 are current.",
            )
            .hint("Ask the data owner to reload the policy (SIGHUP to pgveil serve).")
        };
        tables.map(warning).collect()
    }

    /// Compares all public tables, large ones only on request, and returns the names of those that
    /// have changed.
    ///
    /// # Errors
    /// Where the database cannot be asked. The text is for the operator.
    pub async fn changed_contents(&self, large_too: bool) -> Result<Vec<String>, String> {
        let all = (0..self.policy.tables.len())
            .map(TableId)
            .filter_map(|id| Some((id, self.content(id)?)));
        let looked_at: Vec<(TableId, &Content)> = all
            .filter(|(_, content)| large_too || content.is_small())
            .collect();
        let contents: Vec<&Content> = looked_at.iter().map(|(_, content)| *content).collect();
        let changed = self.backend.changed_contents(&contents).await?;
        self.note_rows(looked_at.iter().map(|(id, _)| *id).zip(changed));
        let changed = self
            .changed_rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(changed
            .iter()
            .map(|id| &self.policy.tables[id.0])
            .map(|table| format!("{}.{}", table.schema, table.name))
            .collect())
    }

    fn note_rows(&self, found: impl Iterator<Item = (TableId, bool)>) {
        let mut changed = self
            .changed_rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (id, has_changed) in found {
            if has_changed {
                changed.insert(id);
            } else {
                changed.remove(&id);
            }
        }
    }

    fn content(&self, id: TableId) -> Option<&Content> {
        self.policy.tables[id.0].content.as_ref()
    }

    /// The public tables whose rows the answer shows, joins, or takes its groups from.
    fn rows_of(&self, plan: &Plan) -> BTreeSet<TableId> {
        let find = |schema: &str, name: &str| {
            self.policy
                .tables
                .iter()
                .position(|t| t.schema == schema && t.name == name)
                .map(TableId)
        };
        let of_release = |release: &ReleasePlan| {
            let tables: Vec<TableId> = release
                .relied_on()
                .iter()
                .filter_map(|known| find(&known.schema, &known.name))
                .collect();
            let has_keys = !release.keys().is_empty();
            let lists = tables
                .iter()
                .filter(|_| has_keys)
                .flat_map(|id| &self.policy.tables[id.0].lists_from);
            let lists: Vec<TableId> = lists
                .filter_map(|(schema, name)| find(schema, name))
                .collect();
            [tables, lists].concat()
        };
        let all = plan
            .releases()
            .iter()
            .flat_map(of_release)
            .chain(plan.public_tables().iter().copied());
        all.filter(|id| self.policy.tables[id.0].protection == Protection::Public)
            .collect()
    }
}
