//! Notices that the secret of memoised reports is another one than before: every value that is
//! written again would get a second report.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Failure;
use crate::ledger::Ledger;
use crate::policy::{File, Secret};

/// How a line of the ledger's record of policies begins that has the mark of a secret.
const LINE: &str = "local.secret has the mark ";
/// Begins what is hashed, so that no other use of the secret gives the same mark.
const LABEL: &[u8] = b"pgveil mark of a local secret 1";

/// Compares the policy's secret with the one that the ledger knows, by their marks, and records the
/// first one.
///
/// # Errors
/// Where they differ, unless `is_new`; those of the ledger.
pub async fn check_secret(file: &File, ledger: &Ledger, is_new: bool) -> Result<(), Failure> {
    let Some(secret) = file.local.as_ref().and_then(|local| local.secret.as_ref()) else {
        return Ok(());
    };
    let line = format!("{LINE}{}", mark(secret));
    let policies = ledger.policies().await.map_err(Failure::new)?;
    let mut lines = policies.iter().flat_map(|policy| policy.change.lines());
    let known = lines.rfind(|line| line.starts_with(LINE));
    match known {
        Some(known) if known == line => Ok(()),
        Some(_) if !is_new => Err(Failure::with_remedy(
            "local.secret is not the one with which reports were made until now: each value that \
                is written again would get a second report, which costs its person the epsilon \
                once more",
            "Bring the old secret back. If it is lost, `pgveil serve --new-secret` takes the new \
                one.",
        )),
        Some(_) | None => {
            let recorded = ledger.record_policy(file.digest, line);
            recorded.await.map_err(Failure::new)
        }
    }
}

/// Says which secret it is, and nothing else of it.
fn mark(secret: &Secret) -> String {
    // A key of any length is taken.
    let Ok(mut keyed) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    keyed.update(LABEL);
    let digest: [u8; 32] = keyed.finalize().into_bytes().into();
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
