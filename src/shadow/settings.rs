//! The session settings that affect an answer, as one batch that gives a pooled session the
//! requester's settings.

use std::time::Duration;

use super::ShadowError;
use super::request::Requester;
use crate::postgres::{identifier, literal};
use crate::refusal::{Refusal, reason};

/// The only settings a requester may bring.
const NAMES: [&str; 5] = [
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "extra_float_digits",
    "bytea_output",
];

/// The batch for one requester. Names come from a fixed list and values travel as literals.
pub fn preamble(requester: &Requester, statement_timeout: Duration) -> Result<String, ShadowError> {
    let mut batch = base(statement_timeout);
    let path: Vec<String> = requester
        .search_path
        .iter()
        .map(|schema| identifier(schema))
        .collect();
    batch.push_str(&format!(
        "; SET search_path TO {}",
        if path.is_empty() {
            "''".to_owned()
        } else {
            path.join(", ")
        }
    ));
    for (name, value) in &requester.settings {
        let Some(known) = NAMES.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(ShadowError::Refusal(Refusal::new(
                reason::UNKNOWN_SETTING,
                message,
            )));
        };
        batch.push_str(&format!("; SET {known} TO {}", literal(value)));
    }
    Ok(batch)
}

/// Fixed settings under which a value has one printed form.
pub fn canonical(statement_timeout: Duration) -> String {
    format!(
        "{}; SET search_path TO ''; SET TimeZone TO 'UTC'; SET DateStyle TO 'ISO, MDY'; SET \
            IntervalStyle TO 'postgres'; SET extra_float_digits TO 1; SET bytea_output TO 'hex'",
        base(statement_timeout)
    )
}

/// The memory that a statement may take before it uses the disk, where `temp_file_limit` ends it.
const MEMORY: &str = "SET work_mem TO '16MB'; SET max_parallel_workers_per_gather TO 0";

/// `synchronize_seqscans`: the same statement, run twice, must give its rows in the same order.
fn base(statement_timeout: Duration) -> String {
    format!(
        "RESET ALL; SET client_encoding TO 'UTF8'; SET default_transaction_read_only TO on; SET \
            synchronize_seqscans TO off; SET TimeZone TO 'UTC'; {MEMORY}; SET statement_timeout TO \
            {}",
        statement_timeout.as_millis().min(i32::MAX as u128)
    )
}
