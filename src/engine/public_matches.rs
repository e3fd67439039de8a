//! A limit on the rows of public tables that one private row may meet, by the time that these pairs
//! take.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Engine, shadow_error};
use crate::analyze::MetTable;
use crate::error::Error;
use crate::ir::MiddleId;
use crate::refusal::{Refusal, reason};
use crate::rewrite::ReleasePlan;
use crate::shadow::{Requester, ShadowError};

/// The most nanoseconds that one row may take with the public rows that it meets.
const PAIRS_NANOSECONDS_MAX: u64 = 5_000_000_000;

/// Rows that a table which was not copied into the shadow counts as, at least.
const UNCOPIED_ROWS: u64 = 1_000_000;

/// The most equal rows of tables by columns, as they were counted in the shadow's copies.
#[derive(Debug, Default)]
pub(super) struct PublicMatches(Mutex<HashMap<MetTable, u64>>);

impl Engine {
    /// Refuses a release in which one row could take long, since it meets many public rows.
    /// `middle` gives the number of rows of a middle query.
    ///
    /// # Guarantee
    /// The number of pairs is bounded by public rows alone, whatever private rows hold: where an
    /// equality selects the public rows, by the most of them that agree in its columns.
    ///
    /// # Errors
    /// 54001 for more than five seconds.
    pub(super) async fn check_pairs(
        &self,
        requester: &Requester,
        plan: &ReleasePlan,
        middle: impl Fn(MiddleId) -> u64,
    ) -> Result<(), Error> {
        if plan.fan_outs().is_empty() {
            return Ok(());
        }
        let met = || plan.fan_outs().iter().flat_map(|(tables, _)| tables);
        let middles = plan.fan_outs().iter().flat_map(|(_, middles)| middles);
        let others = middles.fold(plan.work(), |all, at| {
            all.saturating_mul(middle(*at).max(1))
        });
        let times = |all: u64, rows: u64| all.saturating_mul(rows.max(1));
        let all_rows = met().map(|met| self.all_rows_of(met)).fold(others, times);
        if all_rows <= PAIRS_NANOSECONDS_MAX {
            return Ok(());
        }
        let mut nanoseconds = others;
        for met in met() {
            nanoseconds = times(nanoseconds, self.most_met(requester, met).await?);
        }
        if nanoseconds <= PAIRS_NANOSECONDS_MAX {
            return Ok(());
        }
        let limit = PAIRS_NANOSECONDS_MAX / 1_000_000_000;
        let message = format!(
            "one row could keep this query busy for more than {limit} s, joined to all the public \
                rows that it meets"
        );
        let refusal = Refusal::new(reason::ROW_TOO_SLOW, message)
            .detail("The time that an answer takes must reveal little about any row.");
        Err(Error::Rewrite(refusal.hint(
            "Join the public rows by columns of which few rows share a value, or compute less of \
                each pair.",
        )))
    }

    /// All rows of the table.
    fn all_rows_of(&self, met: &MetTable) -> u64 {
        let too_many = self.policy.limits.mirror_rows.max(UNCOPIED_ROWS);
        self.copied
            .get(&met.table)
            .map_or(1, |rows| rows.unwrap_or(too_many))
    }

    /// The most rows that agree in the columns. Counted once, since the copies stay as they are.
    async fn most_met(&self, requester: &Requester, met: &MetTable) -> Result<u64, Error> {
        let is_copied = matches!(self.copied.get(&met.table), Some(Some(_)));
        if met.columns.is_empty() || !is_copied {
            return Ok(self.all_rows_of(met));
        }
        let counts = || {
            let counts = self.public_matches.0.lock();
            counts.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(rows) = counts().get(met).copied() {
            return Ok(rows);
        }
        let table = &self.policy.tables[met.table.0];
        let columns: Vec<&str> = met
            .columns
            .iter()
            .map(|at| table.columns[at.0].name.as_str())
            .collect();
        let counted = self
            .shadow
            .most_equal_rows(requester, &table.schema, &table.name, &columns)
            .await;
        let rows = match counted {
            Ok(rows) => rows,
            // Too much for the shadow's limits, now as later.
            Err(ShadowError::Refusal(_)) => self.all_rows_of(met),
            Err(error) => return Err(shadow_error(error)),
        };
        counts().insert(met.clone(), rows);
        Ok(rows)
    }
}
