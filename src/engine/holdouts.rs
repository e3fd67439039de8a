//! Holdouts: `SELECT pgveil.holdout(avg(x), 0.83) FROM t` is charged when its epoch opens, and free
//! from then on until a mean differs from the analyst's value.
//!
//! # Guarantee
//! As of epochs. How often a role may open a holdout is counted by its debits in the ledger, in
//! the transaction that makes them: no restart and no other process begins anew.

use std::sync::Arc;

use super::declared_holdout::DeclaredHoldout;
use super::epochs::EpochQuestion;
use super::holdout_words::{
    HoldoutOutcome, busy, has_ended, no_fitting_noise, no_holdout, not_for_role, not_open,
};
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::views::{ViewRow, number_cell, time};
use super::{Engine, Format, internal, ledger_failed};
use crate::error::Error;
use crate::ledger::{Buyer, Purchase, Verdict};
use crate::parse::{HoldoutQuery, holdout_form};
use crate::policy::{ClipChoice, Holdout, RoleReuse, SessionSettings, Table, Widen};
use crate::release::{Compared, Epoch};
use crate::rewrite::{MonitoredSum, Plan};
use crate::shadow::{Description, HeldRows, Requester};

/// A question to a holdout, with its plan.
pub(super) struct PlannedHoldout<'p> {
    pub declared: DeclaredHoldout<'p>,
    pub plan: Arc<Plan>,
}

impl PlannedHoldout<'_> {
    fn question(&self, requester: &Requester) -> Result<EpochQuestion<'_>, Error> {
        let declared = &self.declared;
        let terms = declared.terms();
        let sum = MonitoredSum::of(&self.plan).map_err(|_| Error::Rewrite(holdout_form()))?;
        let of_unit = (declared.rows_per_unit, terms.epsilon);
        let asked = sum.holdout_question(&declared.rows_allowed(), of_unit);
        let (threshold, noise) = asked.map_err(|_| Error::Rewrite(no_fitting_noise(declared)))?;
        let loss = terms
            .loss()
            .ok_or_else(|| internal("mechanism", &"the loss of a holdout cannot be counted"))?;
        let series = declared.series(&requester.role);
        let purchase = Purchase::fresh(Buyer::Role, loss, series.name(rand::random()), Vec::new());
        Ok(EpochQuestion {
            sum,
            threshold,
            compared: Compared::Sum,
            noise: Some(noise),
            terms,
            purchase: Purchase {
                series_max: Some(declared.holdout.overflows),
                ..purchase
            },
            not_open: not_open(declared),
        })
    }
}

impl Engine {
    /// Answers a question to a holdout.
    pub(super) async fn answer_holdout(
        &self,
        requester: &Requester,
        (asked, description): (&HoldoutQuery, Description),
        formats: &[Format],
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<(Answer, Verdict), Error> {
        let planning = self.plan_holdout(requester, asked, facts);
        let planned = timing.until_cancelled(planning).await?;
        let declared = &planned.declared;
        let question = planned.question(requester)?;
        let (role, name) = (&requester.role, declared.slot_name());
        // A policy declares few of them.
        let slot = self.holdouts.slot(role, &name, usize::MAX);
        let slot = slot.ok_or_else(|| internal("engine", &"there are too many holdouts"))?;
        let words = (busy(declared), has_ended(declared));
        let mut epoch = self.hold_epoch(&slot, words, timing).await?;
        let was_open = epoch.as_ref().map(Epoch::terms).is_some();
        let asking = self.ask_epoch(requester, &question, (&slot, &mut epoch), (timing, facts));
        let answer = asking.await?;
        let has_ended = epoch.is_none();
        drop(epoch);
        let shown = answer.noisy_sum().map(|sum| {
            let value: f64 = asked.value.parse().unwrap_or(0.0);
            let rows = f64::from(declared.holdout.rows);
            (value + question.sum.value(sum) / rows).clamp(0.0, 1.0)
        });
        let shown = shown.map_or_else(|| asked.value.clone(), |mean| mean.to_string());
        let statement = asked.statement_of(&shown);
        let showing = self.show_answer(requester, &statement, (&description, formats), timing);
        let HeldRows { rows, held } = showing.await?;
        let said = HoldoutOutcome {
            was_open,
            differs: answer.is_above(),
            has_ended,
        };
        let notices = self.holdout_notices(requester, declared, said).await?;
        let answer = Answer {
            columns: description.columns,
            rows,
            notices,
            warnings: self.of_changed_rows(&planned.plan),
            held,
        };
        Ok((answer, Verdict::Answered))
    }

    /// The plan of the sum, over the table that the policy declares as a holdout.
    ///
    /// # Errors
    /// 0A000 for another table, and for an expression that no sum is planned for.
    pub(super) async fn plan_holdout(
        &self,
        requester: &Requester,
        asked: &HoldoutQuery,
        facts: &StatementFacts,
    ) -> Result<PlannedHoldout<'_>, Error> {
        let role = self.policy.role(&requester.role);
        if role.is_some_and(|role| role.reuse == RoleReuse::Always) {
            return Err(Error::Rewrite(not_for_role(&requester.role)));
        }
        let settings = &requester.session_settings;
        settings.within(&self.policy).map_err(Error::Rewrite)?;
        self.admit_session(requester, facts).await?;
        // The noise comes from the policy's scale; of the plan's own only the grid is used.
        let settings = SessionSettings {
            clip: ClipChoice::Fixed,
            widen: Widen::Off,
            ..SessionSettings::default()
        };
        let epsilon = self.policy.privacy.epsilon_default;
        let plan = self
            .plan_sum(requester, &asked.sum, (epsilon, settings))
            .await?;
        let table = self.table_of(requester, &asked.table);
        let declared = table.and_then(DeclaredHoldout::of);
        let declared = declared.ok_or_else(|| Error::Rewrite(no_holdout(&asked.table)))?;
        let sum = MonitoredSum::of(&plan).map_err(|_| Error::Rewrite(holdout_form()))?;
        let relied_on = plan.release(sum.release()).relied_on();
        if !relied_on.iter().any(|of| of.oid == declared.table.oid) {
            return Err(internal("resolve", &"the holdout's table is another one"));
        }
        facts.note_plan(&plan, &self.policy);
        self.check_copied(&plan)?;
        Ok(PlannedHoldout {
            declared,
            plan: Arc::new(plan),
        })
    }

    /// The table of this name, found as names in FROM are.
    fn table_of(&self, requester: &Requester, name: &[String]) -> Option<&Table> {
        match name {
            [table] => {
                let schemas = requester.search_path.iter();
                schemas
                    .filter_map(|schema| self.policy.table(schema, table))
                    .next()
            }
            [schema, table] => self.policy.table(schema, table),
            _ => None,
        }
    }

    /// How often the role has opened a holdout, in all processes, for ever.
    pub(super) async fn times_opened(
        &self,
        requester: &Requester,
        declared: &DeclaredHoldout<'_>,
    ) -> Result<u32, Error> {
        let (role, series) = (&requester.role, declared.series(&requester.role));
        let opened = self.ledger.debits_of_series(role, series).await;
        let opened = opened.map_err(|e| ledger_failed(&e))?;
        Ok(u32::try_from(opened).unwrap_or(u32::MAX))
    }

    /// The rows of the view.
    pub(super) async fn holdout_rows(&self, requester: &Requester) -> Result<Vec<ViewRow>, Error> {
        let mut rows = Vec::new();
        for declared in self.policy.tables.iter().filter_map(DeclaredHoldout::of) {
            let Holdout {
                rows: of_table,
                tolerance,
                scale,
                overflows,
            } = declared.holdout;
            let opened = self.times_opened(requester, &declared).await?;
            let known = self.holdouts.facts(&requester.role, &declared.slot_name());
            let epsilon = declared.holdout.epsilon_of_epoch(declared.rows_per_unit);
            rows.push(vec![
                Some(declared.table.schema.clone()),
                Some(declared.table.name.clone()),
                Some(of_table.to_string()),
                number_cell(*tolerance),
                number_cell(*scale),
                number_cell(epsilon),
                Some(overflows.to_string()),
                Some(opened.to_string()),
                known.map(|known| time(known.opened)),
                known.map(|known| known.asked.to_string()),
                Some(known.is_some_and(|known| known.is_open).to_string()),
            ]);
        }
        Ok(rows)
    }
}
