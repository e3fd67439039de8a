//! Draws a release from its rows: at once, or what its look shows and then, paid for, its sums.

use super::Engine;
use super::planning_limit::aside;
use super::run::Fault;
use super::statement_log::Tally;
use super::timing::Timing;
use crate::error::Error;
use crate::execute::{self, Rows, Sealed};
use crate::ir::ReleaseId;
use crate::mechanism::Sampler;
use crate::refusal::{Refusal, reason};
use crate::release::{self, Releasing, TooFew};
use crate::shadow::Requester;

impl Engine {
    /// Draws a release of which only the look is paid, where it has one. What follows the look
    /// depends on what it drew, never on the rows.
    ///
    /// # Errors
    /// PV002 where the look saw too little; the second debit is not made then.
    pub(super) async fn draw(
        &self,
        releasing: &mut Releasing<'_>,
        (release, rows): (ReleaseId, Sealed<Vec<Rows>>),
        (requester, tally, pace): (&Requester, &Tally, &Timing),
        sampler: &mut (dyn Sampler + Send),
    ) -> Result<(), Fault> {
        let failed = |error: release::Error| {
            Fault::Backend(execute::Error::Backend(format!(
                "the release failed: {error}"
            )))
        };
        let plan = releasing.part().plan().release(release);
        if plan.look().is_none() {
            return aside(|| releasing.release(release, rows, sampler)).map_err(failed);
        }
        let looked = aside(|| releasing.look(release, rows, sampler)).map_err(failed)?;
        // The second debit is seen, and must not tell when the rows were read.
        pace.rest().await;
        if pace.cancel().is_cancelled() {
            return Err(Fault::Backend(execute::Error::Cancelled));
        }
        if let Err(few) = looked.outcome() {
            let refusal = too_few(few);
            return Err(Fault::Other(Error::Release(refusal)));
        }
        let paid = self
            .charge_after_look(requester, releasing, release, tally)
            .await
            .map_err(unpaid)?;
        pace.begin();
        aside(|| releasing.release_looked(looked, paid, sampler)).map_err(failed)
    }
}

/// The second debit was refused: what the first one found left was spent meanwhile. The look is
/// charged, and what else was paid for is still made.
fn unpaid(error: Error) -> Fault {
    let Error::Ledger(refusal) = error else {
        return Fault::Other(error);
    };
    let refusal = Refusal::new(reason::LOOK_ALONE_PAID, refusal.message)
        .detail(
            "This was spent or closed while the answer was made. Only the look was charged for \
                this answer. Other parts of the query are paid for, and kept.",
        )
        .hint("Repeat queries that are paid for, or ask the data owner.");
    Fault::Other(Error::Release(refusal))
}

/// A look that saw too little to choose a clip. The numbers are noisy ones.
fn too_few(few: TooFew) -> Refusal {
    let message = match few {
        TooFew::Units(units, error) => format!(
            "too few units to choose a clip (about {units:.0}, ±{:.0})",
            1.96 * error
        ),
        TooFew::Groups => "no group has enough units to be shown".to_owned(),
    };
    Refusal::new(reason::TOO_FEW_UNITS, message)
        .detail(
            "Only the look was charged for this answer. Other parts of the query are paid for, \
                and kept.",
        )
        .hint(
            "Ask of more rows, raise pgveil.epsilon, or SET pgveil.clip = fixed to bound each unit \
                by the policy's limits.",
        )
}
