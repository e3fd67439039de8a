//! The owner's record of statements: role, digest, verdict and cost. Never the text.

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::Engine;
use crate::error::Error;
use crate::ledger::{Fingerprint, Record, Verdict};
use crate::mechanism::Loss;
use crate::parse::Query;

/// What one statement was charged so far, also where it ends in an error.
pub(super) struct Tally(Mutex<Loss>);

impl Tally {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Loss::ZERO))
    }

    pub(super) fn add(&self, loss: Loss) {
        let mut sum = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.compose(loss).unwrap_or(*sum);
    }

    pub(super) fn sum(&self) -> Loss {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Records how a statement ended. `None`: the text could not be read as a statement.
    pub(super) async fn recorded<T>(
        &self,
        role: &str,
        query: Option<&Query>,
        ended: Verdict,
        outcome: Result<&T, &Error>,
        tally: &Tally,
    ) {
        let loss = tally.sum();
        let (verdict, sqlstate) = match outcome {
            Ok(_) => (ended, "00000".to_owned()),
            Err(error) => (verdict_of(error, &loss), error.report().sqlstate),
        };
        let digest = query.map_or([0; 32], |query| Sha256::digest(query.to_sql()).into());
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        let microseconds = i64::try_from(since_1970).unwrap_or(i64::MAX);
        self.ledger
            .record(Record {
                microseconds,
                role: role.to_owned(),
                fingerprint: Fingerprint::new(digest),
                verdict,
                sqlstate,
                loss,
            })
            .await;
    }
}

/// A refusal after a charge counts as a failure: the charge stays.
fn verdict_of(error: &Error, charged: &Loss) -> Verdict {
    match error {
        Error::Parse(_)
        | Error::Resolve(_)
        | Error::Analyze(_)
        | Error::Rewrite(_)
        | Error::Ledger(_)
        | Error::Release(_)
        | Error::Shadow(_)
            if charged.is_zero() =>
        {
            Verdict::Refused
        }
        Error::Parse(_)
        | Error::Resolve(_)
        | Error::Analyze(_)
        | Error::Rewrite(_)
        | Error::Ledger(_)
        | Error::Release(_)
        | Error::Shadow(_) => Verdict::Failed,
        Error::Cancelled | Error::Internal { .. } => Verdict::Failed,
    }
}
