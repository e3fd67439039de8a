//! The last step of a question: the outer query over released values, or a preview.

use super::planning_limit::aside;
use super::preview::Preview;
use super::printed_rows::RowsDigest;
use super::run::Answered;
use super::timing::Timing;
use super::{Description, Engine, Format, Requester, shadow_error};
use crate::error::Error;
use crate::finish::{self, Fits, ViewRows};
use crate::parse::Query;
use crate::release::Released;
use crate::rewrite::Plan;
use crate::shadow::{HeldRows, ShadowError};

/// What the client gets, before notices.
pub(super) struct FinalRows {
    pub rows: HeldRows,
    /// The fits in the rows.
    pub fits: Fits,
    /// What stands for rows of a private table, if the query shows some.
    pub preview: Option<Preview>,
}

/// The statement that answers the question, over released values.
fn final_statement(
    plan: &Plan,
    released: (&Released, &Fits),
    views: &[ViewRows],
) -> Result<String, Error> {
    aside(|| finish::finish(plan, released, views)).map_err(Error::Rewrite)
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
            let statement = final_statement(plan, (&answered.released, &fits), &views)?;
            let printing = (statement.as_str(), (columns, formats));
            self.print_rows(requester, plan, printing).await
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

    /// The rows of a plan's final statement, as PostgreSQL prints them or as it has printed them.
    async fn print_rows(
        &self,
        requester: &Requester,
        plan: &Plan,
        (statement, of_columns): (&str, (&Description, &[Format])),
    ) -> Result<HeldRows, Error> {
        let role = requester.role.as_str();
        let key = aside(|| finish::is_settled(plan))
            .then(|| RowsDigest::new(requester, statement, of_columns));
        if let Some(rows) = key.and_then(|key| self.printed_rows.find(role, key)) {
            let held = requester.share.hold_rows(&rows).map_err(Error::Parse)?;
            return Ok(HeldRows { rows, held });
        }
        let (columns, formats) = of_columns;
        let run = self.shadow.run(requester, statement, columns, formats);
        let printed = run.await.map_err(shadow_error)?;
        if let Some(key) = key {
            self.printed_rows.keep(role, key, &printed.rows);
        }
        Ok(printed)
    }
}
