//! A record as one line of JSON, for other programs, and in words.

use super::{Asked, Event, Origin, Record};
use crate::calendar;
use crate::mechanism::Fixed;

/// The format of the lines. Keys are only ever added to one.
pub const FORMAT: u32 = 2;

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
        sqlstate,
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
        "sqlstate": sqlstate,
    });
    let own = match event {
        Event::Statement(Asked {
            statement,
            plan,
            tables,
            verdict,
            loss,
        }) => serde_json::json!({
            "actor": actor,
            "verdict": verdict.name(),
            "statement": statement.to_string(),
            "plan": plan.map(|plan| plan.to_string()),
            "tables": tables,
            "charged": {
                "epsilon": loss.epsilon.map(Fixed::to_f64),
                "rho": loss.rho.to_f64(),
                "mu": loss.mu_squared.to_f64().sqrt(),
                "delta": loss.delta.to_f64(),
            },
        }),
        Event::Login => serde_json::json!({}),
        Event::Policy { before, after } => serde_json::json!({ "before": before, "after": after }),
        Event::Act { act, target, why } => {
            serde_json::json!({ "act": act, "target": target, "why": why })
        }
    };
    if let (Some(line), serde_json::Value::Object(own)) = (line.as_object_mut(), own) {
        line.extend(own);
    }
    line
}

/// What happened, in a few words, for people.
pub fn in_words(record: &Record) -> String {
    let well = record.sqlstate == "00000";
    match &record.event {
        Event::Statement(asked) => asked.verdict.name().to_owned(),
        Event::Login if well => "logged in".to_owned(),
        Event::Login => "login refused".to_owned(),
        Event::Policy { before, .. } if before.is_empty() => "started".to_owned(),
        Event::Policy { .. } if !well => "reload refused".to_owned(),
        Event::Policy { before, after } if before == after => "reloaded the same policy".to_owned(),
        Event::Policy { .. } => "reloaded another policy".to_owned(),
        Event::Act { act, target, why } => [act.as_str(), target, why]
            .iter()
            .zip(["", " ", ": "])
            .filter(|(word, _)| !word.is_empty())
            .map(|(word, before)| format!("{before}{word}"))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fingerprint, Verdict, Via};
    use super::*;
    use crate::mechanism::Loss;

    #[test]
    fn a_line_has_what_a_record_has() {
        let asked = Asked {
            statement: Fingerprint::new([1; 32]),
            plan: None,
            tables: vec!["nls.women".to_owned()],
            verdict: Verdict::Refused,
            loss: Loss::ZERO,
        };
        let origin = Origin {
            via: Via::Wire,
            address: "192.0.2.7".parse().ok(),
            application: "a \"quoted\" name".to_owned(),
            actor: None,
        };
        let mut record = Record::now("ann", 7, origin, Event::Statement(asked)).ending("53400");
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
        ] {
            assert_eq!(read[key].to_string(), value, "{key}");
        }
    }

    #[test]
    fn words_say_what_happened() {
        let policy = |before: &str, after: &str| Event::Policy {
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let act = Event::Act {
            act: "freeze".to_owned(),
            target: "role ann".to_owned(),
            why: "she left".to_owned(),
        };
        for (event, sqlstate, words) in [
            (Event::Login, "00000", "logged in"),
            (Event::Login, "28P01", "login refused"),
            (policy("", "b"), "00000", "started"),
            (policy("a", "b"), "00000", "reloaded another policy"),
            (policy("a", "a"), "00000", "reloaded the same policy"),
            (policy("a", "a"), "F0000", "reload refused"),
            (act, "00000", "freeze role ann: she left"),
        ] {
            let record = Record::now("ann", 0, Origin::default(), event).ending(sqlstate);
            assert_eq!(in_words(&record), words);
        }
    }
}
