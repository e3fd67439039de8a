//! Statements are parsed again and compared with what was built before they are paid for.

use super::planning_limit::StatementSize;
use super::timing::Timing;
use super::{Engine, aside};
use crate::error::Error;
use crate::rewrite::{ReadBackPart, UnpaidPart};
use crate::shadow::Requester;

/// A text that is emitted takes about this many bytes for each byte of a client's that is as much
/// work.
const EMITTED: usize = 8;

impl Engine {
    /// Reads all statements of a part back. Many bytes wait for the role's turn, as planning them
    /// did.
    ///
    /// # Errors
    /// As [`UnpaidPart::read_back`]: nothing is charged. Where the client cancels.
    pub(super) async fn read_back<'p>(
        &self,
        requester: &Requester,
        part: UnpaidPart<'p>,
        timing: &Timing,
    ) -> Result<ReadBackPart<'p>, Error> {
        let size = StatementSize::of_bytes(part.printed_bytes() / EMITTED);
        let permit = tokio::select! {
            biased;
            permit = self.planning_limit.acquire(&requester.role, size) => permit,
            () = timing.cancel().cancelled() => return Err(Error::Cancelled),
        };
        permit
            .work(|| aside(|| part.read_back()))
            .map_err(Error::Rewrite)
    }
}
