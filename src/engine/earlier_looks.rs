//! Looks that led to no answer, as the role that paid for them holds them.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{Engine, Requester, internal, ledger_failed};
use crate::error::Error;
use crate::ir::ReleaseId;
use crate::ledger::{QuestionDigest, QuestionId, Stored};
use crate::release::FailedLook;
use crate::rewrite::{Look, Plan};

/// The role's earlier looks at the questions of a plan's releases, as far as they were read: each
/// is read once.
#[derive(Default)]
pub(super) struct EarlierLooks(HashMap<ReleaseId, Option<HeldLook>>);

impl EarlierLooks {
    /// The look at a release's question, if it was read; `Some(None)`: the role holds none.
    pub fn get(&self, release: ReleaseId) -> Option<Option<&HeldLook>> {
        self.0.get(&release).map(Option::as_ref)
    }
}

/// A look that led to no answer, which the role has paid for.
#[derive(Clone)]
pub(super) struct HeldLook {
    pub failed: FailedLook,
    /// The accuracy of the question, or of all looks that count together.
    pub accuracy: f64,
}

impl Engine {
    /// Whether an earlier look of the role counts together with the one that the release has. Its
    /// answer then has another noise than one that another role bought. The look is added to those
    /// that are known.
    pub(super) async fn adds_a_look(
        &self,
        requester: &Requester,
        plan: &Plan,
        (release, question): (ReleaseId, &QuestionDigest),
        earlier: &mut EarlierLooks,
    ) -> Result<bool, Error> {
        let Some(look) = plan.release(release).look() else {
            return Ok(false);
        };
        let held = self.failed_look(requester, question, look).await?;
        let known = earlier.0.entry(release).insert_entry(held);
        let held = known.get().as_ref();
        Ok(held.is_some_and(|held| held.failed.loss_to_add(look).is_some()))
    }

    /// The role's look at a question that led to no answer; of several, the most accurate one.
    /// Another role's look decides nothing. Sessions that use no stored answers have none.
    pub(super) async fn failed_look(
        &self,
        requester: &Requester,
        question: &QuestionDigest,
        look: &Look,
    ) -> Result<Option<HeldLook>, Error> {
        if !self.recalls(requester) {
            return Ok(None);
        }
        let any = QuestionDigest {
            accuracy: 0.0,
            ..look_at(question, look)
        };
        let kept = self.ledger.find(&requester.role, any).await;
        match kept.map_err(|e| ledger_failed(&e))? {
            Some(Stored::Held { released, accuracy }) => {
                let failed = FailedLook::read(&released);
                let failed = failed.map_err(|e| internal("release", &e))?;
                Ok(Some(HeldLook { failed, accuracy }))
            }
            Some(Stored::Offered(_)) | None => Ok(None),
        }
    }
}

/// The digest under which a look that led to no answer is kept, next to the answers to its
/// question.
pub(super) fn look_at(question: &QuestionDigest, look: &Look) -> QuestionDigest {
    let mut digest = Sha256::new();
    digest.update(b"look");
    digest.update(question.digest.0);
    QuestionDigest {
        digest: QuestionId(digest.finalize().into()),
        family: None,
        accuracy: question.accuracy,
        loss: look.first,
    }
}
