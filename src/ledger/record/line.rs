//! A record as one line of JSON, for other programs.

use super::{Event, LoggedStatement, Origin, Record};
use crate::calendar;
use crate::mechanism::Fixed;
use crate::policy::FileDigest;

/// The format of the lines. Keys are only ever added to one.
const FORMAT: u32 = 2;

/// The line of a record; `number` is `None` where the ledger could not take it.
pub fn json(number: Option<i64>, record: &Record) -> serde_json::Value {
    let Record {
        microseconds,
        name,
        session,
        origin:
            Origin {
                via,
                address,
                application,
                actor,
            },
        ending,
        event,
    } = record;
    let mut line = serde_json::json!({
        "format": FORMAT,
        "number": number,
        "time": calendar::utc(*microseconds),
        "kind": event.kind(),
        "role": name,
        "session": session,
        "address": address.map(|address| address.to_string()),
        "application": application,
        "via": via.name(),
        "sqlstate": ending.sqlstate(),
    });
    let own = match event {
        Event::Statement(LoggedStatement {
            statement,
            plan,
            tables,
            shape,
            verdict,
            loss,
        }) => serde_json::json!({
            "actor": actor,
            "verdict": verdict.name(),
            "statement": statement.to_string(),
            "plan": plan.map(|plan| plan.to_string()),
            "tables": tables,
            "shape": shape,
            "charged": {
                "epsilon": loss.epsilon.map(Fixed::to_f64),
                "rho": loss.rho.to_f64(),
                "mu": loss.mu_squared.to_f64().sqrt(),
                "delta": loss.delta.to_f64(),
            },
        }),
        Event::Login => serde_json::json!({}),
        Event::Act { act, target, why } => {
            serde_json::json!({ "act": act, "target": target, "why": why })
        }
    };
    if let (Some(line), serde_json::Value::Object(own)) = (line.as_object_mut(), own) {
        line.extend(own);
    }
    line
}

/// The line of a policy that came into force. It has no number of the record, since policies are
/// numbered separately.
pub(in crate::ledger) fn policy_json(
    microseconds: i64,
    digest: FileDigest,
    change: &str,
) -> serde_json::Value {
    serde_json::json!({
        "format": FORMAT,
        "number": null,
        "time": calendar::utc(microseconds),
        "kind": "policy",
        "digest": digest.to_string(),
        "change": change.lines().collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, Via};
    use super::*;
    use crate::ledger::KeyedStatementDigest;
    use crate::mechanism::Loss;
    use crate::refusal::reason;

    #[test]
    fn a_line_has_what_a_record_has() {
        let asked = LoggedStatement {
            statement: KeyedStatementDigest::new([1; 32]),
            plan: None,
            tables: vec!["nls.women".to_owned()],
            shape: Some("SELECT $1".to_owned()),
            verdict: Verdict::Refused,
            loss: Loss::ZERO,
        };
        let origin = Origin {
            via: Via::Wire,
            address: "192.0.2.7".parse().ok(),
            application: "a \"quoted\" name".to_owned(),
            actor: None,
        };
        let mut record = Record::now("ann", 7, origin, Event::Statement(asked))
            .with_ending(reason::BUDGET_EXHAUSTED.into());
        record.microseconds = 1_000_000;
        let line = json(Some(3), &record).to_string();
        assert!(!line.contains('\n'));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        for (key, value) in [
            ("number", "3"),
            ("time", "\"1970-01-01T00:00:01Z\""),
            ("kind", "\"statement\""),
            ("role", "\"ann\""),
            ("session", "7"),
            ("address", "\"192.0.2.7\""),
            ("application", "\"a \\\"quoted\\\" name\""),
            ("via", "\"wire\""),
            ("sqlstate", "\"53400\""),
            ("verdict", "\"refused\""),
            ("plan", "null"),
            ("tables", "[\"nls.women\"]"),
            ("shape", "\"SELECT $1\""),
        ] {
            assert_eq!(read[key].to_string(), value, "{key}");
        }
    }

    #[test]
    fn a_policy_is_named_by_the_digest_of_its_file() {
        let line = policy_json(1_000_000, FileDigest([255; 32]), "loosens a\ntightens b");
        assert_eq!(line["digest"], "ff".repeat(32));
        assert_eq!(line["change"].as_array().map(Vec::len), Some(2));
        assert_eq!(line["kind"], "policy");
    }
}
