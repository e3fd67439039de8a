//! The last step of a question: the outer query over released values, or a preview.

use super::planning_limit::{StatementSize, aside};
use super::preview::Preview;
use super::printed_rows::RowsDigest;
use super::run::Answered;
use super::timing::Timing;
use super::{Description, Engine, Format, Requester, shadow_error};
use crate::error::Error;
use crate::finish::{self, Fits, ViewRows};
use crate::ir::ReleaseId;
use crate::ir::sql::{self, Printed};
use crate::parse::Query;
use crate::release::Released;
use crate::rewrite::{Plan, ReleasePlan};
use crate::shadow::{HeldRows, ShadowError};

/// The most releases, and the most values of all of them, of an answer whose statement is made
/// without moving other tasks away.
const RELEASES_FEW: usize = 4;
const VALUES_FEW: usize = 400;

/// Whether few values are to be written into the statement, and none has to be computed first.
fn has_few_values(plan: &Plan, released: &Released) -> bool {
    let values = |release: &ReleasePlan, at: usize| {
        let table = released.table(ReleaseId(at))?;
        let width = table.measures.first().map_or(0, Vec::len);
        let columns = release.key_columns() + width + release.uncertainties().len();
        let is_plain = release.dictionary().is_none() && release.models().next().is_none();
        is_plain.then_some(table.keys.len() * columns)
    };
    let releases = plan.releases().iter().enumerate();
    let values: Option<usize> = releases.map(|(at, release)| values(release, at)).sum();
    plan.releases().len() <= RELEASES_FEW && values.is_some_and(|values| values <= VALUES_FEW)
}

/// The statement over released values that answers a question, not read back yet.
struct FinalStatement {
    printed: Printed,
    /// Whether its rows follow from its text and the session's settings alone.
    is_settled: bool,
}

/// What the client gets, before notices.
pub(super) struct FinalRows {
    pub rows: HeldRows,
    /// The fits in the rows.
    pub fits: Fits,
    /// What stands for rows of a private table, if the query shows some.
    pub preview: Option<Preview>,
}

impl Engine {
    /// The rows of an answered question, until the client cancels.
    pub(super) async fn final_rows(
        &self,
        requester: &Requester,
        (query, is_preview): (&Query, bool),
        (plan, answered): (&Plan, &Answered),
        (columns, formats): (&Description, &[Format]),
        timing: &Timing,
    ) -> Result<FinalRows, Error> {
        let views = self.views(requester, plan).await?;
        let fits = self.fits_of(requester, plan, answered, timing).await?;
        let mut preview = match is_preview {
            true => {
                let preview = self.preview(requester, query, (plan, columns));
                Some(timing.until_cancelled(preview).await?)
            }
            false => None,
        };
        let running = async {
            if let Some(statement) = preview.as_ref().and_then(Preview::statement) {
                match self
                    .shadow
                    .run(requester, statement, columns, formats)
                    .await
                {
                    // Real values may all be fit for what made-up ones are not.
                    Err(ShadowError::Refusal(refusal)) if refusal.sqlstate.starts_with("22") => {}
                    run => return run.map_err(shadow_error),
                }
                preview = Some(Preview::Empty);
            }
            let released = (&answered.released, &fits);
            let statement = self.final_statement(query, plan, released, &views)?;
            self.print_rows(requester, statement, (columns, formats))
                .await
        };
        let rows = tokio::select! {
            rows = running => rows?,
            () = timing.client_cancel().cancelled() => return Err(Error::Cancelled),
        };
        Ok(FinalRows {
            rows,
            fits,
            preview,
        })
    }

    /// The statement that answers the question, over released values.
    fn final_statement(
        &self,
        query: &Query,
        plan: &Plan,
        (released, fits): (&Released, &Fits),
        views: &[ViewRows],
    ) -> Result<FinalStatement, Error> {
        let finish = || {
            Ok(FinalStatement {
                printed: finish::finish(plan, (released, fits), views)?,
                is_settled: finish::is_settled(plan),
            })
        };
        let finished = match StatementSize::of(query) {
            StatementSize::Small if views.is_empty() && has_few_values(plan, released) => finish(),
            StatementSize::Small | StatementSize::Large => aside(finish),
        };
        finished.map_err(Error::Rewrite)
    }

    /// The rows of a final statement, as PostgreSQL prints them or as it has printed them.
    async fn print_rows(
        &self,
        requester: &Requester,
        FinalStatement {
            printed: statement,
            is_settled,
        }: FinalStatement,
        of_columns: (&Description, &[Format]),
    ) -> Result<HeldRows, Error> {
        let role = requester.role.as_str();
        let key = is_settled.then(|| RowsDigest::new(requester, &statement, of_columns));
        if let Some(rows) = key.and_then(|key| self.recent.printed_rows.find(role, key)) {
            let held = requester.share.hold_rows(&rows).map_err(Error::Parse)?;
            return Ok(HeldRows { rows, held });
        }
        aside(|| sql::read_back(&statement)).map_err(Error::Rewrite)?;
        let (columns, formats) = of_columns;
        let run = self
            .shadow
            .run(requester, &statement.text, columns, formats);
        let printed = run.await.map_err(shadow_error)?;
        if let Some(key) = key {
            self.recent.printed_rows.keep(role, key, &printed.rows);
        }
        Ok(printed)
    }
}
