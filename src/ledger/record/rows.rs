//! Records in the store: how they are written, how long they are kept, how they are read.

use super::super::error::Error;
use super::super::rules::Rules;
use super::super::store::{Row, Value, blob, first, loss as columns, text};
use super::{Asked, DigestKey, Event, Fingerprint, Origin, Record, TABLES_MAX, Verdict, Via};
use crate::mechanism::Loss;

/// Statements kept; some 250 bytes each.
pub const STATEMENTS_KEPT: i64 = 1_000_000;
/// Logins kept. They are counted by themselves: whoever only knocks removes no statement.
pub const LOGINS_KEPT: i64 = 100_000;
/// Older ones are removed once in this many records.
const REMOVED: i64 = 10_000;

/// Which records are asked for, newest first.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// One of [`Event::KINDS`]; all where empty.
    pub kinds: Vec<&'static str>,
    /// Only those before this number.
    pub before: Option<i64>,
    /// Only those since, in microseconds since 1970.
    pub since: Option<i64>,
}

const INSERT: &str = "INSERT INTO record (id, microseconds, kind, name, session, address, \
    application, via, actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, \
    mu_squared, delta)
  VALUES ((SELECT coalesce(max(id), 0) + 1 FROM \
    (SELECT max(id) AS id FROM record UNION ALL SELECT max(id) FROM statement) AS ids), \
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id";

impl Rules {
    /// The key of the ledger's digests.
    pub(in crate::ledger) fn digest_key(&mut self) -> Result<DigestKey, Error> {
        let rows = self
            .store
            .query("SELECT key FROM secret WHERE id = 1", &[])?;
        Ok(DigestKey::new(first(&rows)?.digest(0)?))
    }

    /// Writes records; returns the number of each.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(in crate::ledger) fn record(&mut self, records: &[Record]) -> Result<Vec<i64>, Error> {
        let mut numbers = Vec::with_capacity(records.len());
        for record in records {
            let made = self.store.query(INSERT, &values(record))?;
            let id = first(&made)?.int(0)?;
            if id % REMOVED == 0 {
                self.remove_older(id)?;
            }
            numbers.push(id);
        }
        Ok(numbers)
    }

    /// Policies and acts are few, and stay.
    fn remove_older(&mut self, newest: i64) -> Result<(), Error> {
        let sql = "DELETE FROM record WHERE kind = $1 AND id <= \
            (SELECT id FROM record WHERE kind = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        for (kind, kept) in [("statement", STATEMENTS_KEPT), ("login", LOGINS_KEPT)] {
            self.store.query(sql, &[text(kind), Value::Int(kept)])?;
        }
        let sql = "DELETE FROM statement WHERE id <= $1";
        self.store
            .query(sql, &[Value::Int(newest - STATEMENTS_KEPT)])?;
        Ok(())
    }

    /// Records after the one of this number, oldest first, each with its number.
    pub(in crate::ledger) fn records(
        &mut self,
        after: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, Record)>, Error> {
        let mut found = self.older_records(after, rows_max)?;
        let after = found.last().map_or(after, |(number, _)| *number);
        let missing = i64::from(rows_max) - i64::try_from(found.len()).unwrap_or(i64::MAX);
        let sql = "SELECT id, microseconds, kind, name, session, address, application, via, \
            actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, mu_squared, delta \
            FROM record WHERE id > $1 ORDER BY id LIMIT $2";
        let rows = self
            .store
            .query(sql, &[Value::Int(after), Value::Int(missing)])?;
        for row in &rows {
            found.push(recorded(row)?);
        }
        Ok(found)
    }

    /// Statements that were recorded before the eighth format. Their digests had no key.
    fn older_records(&mut self, after: i64, rows_max: u32) -> Result<Vec<(i64, Record)>, Error> {
        let key = self.digest_key()?;
        let sql = "SELECT id, microseconds, role, fingerprint, verdict, sqlstate, epsilon, rho, \
            mu_squared, delta FROM statement WHERE id > $1 ORDER BY id LIMIT $2";
        let values = [Value::Int(after), Value::Int(i64::from(rows_max))];
        let rows = self.store.query(sql, &values)?;
        let record = |row: &Row| {
            let event = Event::Statement(Asked {
                statement: key.of_plain(row.digest(3)?),
                plan: None,
                tables: Vec::new(),
                verdict: Verdict::of_name(row.text(4)?),
                loss: row.loss(6)?,
            });
            let record = Record {
                microseconds: super::whole_seconds(row.int(1)?),
                name: row.text(2)?.to_owned(),
                session: 0,
                origin: Origin {
                    via: Via::Wire,
                    ..Origin::default()
                },
                sqlstate: row.text(5)?.to_owned(),
                event,
            };
            Ok((row.int(0)?, record))
        };
        rows.iter().map(record).collect()
    }

    /// The newest records of some kinds, newest first, each with its number. Those of formats
    /// before the eighth are left out.
    pub(in crate::ledger) fn newest_records(
        &mut self,
        wanted: &Wanted,
        rows_max: u32,
    ) -> Result<Vec<(i64, Record)>, Error> {
        let Wanted {
            kinds,
            before,
            since,
        } = wanted;
        let sql = "SELECT id, microseconds, kind, name, session, address, application, via, \
            actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, mu_squared, delta \
            FROM record WHERE id < $1 AND microseconds >= $2 AND kind IN ($3, $4, $5, $6) \
            ORDER BY id DESC LIMIT $7";
        let kind = |at: usize| {
            let named = kinds.get(at).or(kinds.first());
            text(named.copied().unwrap_or(Event::KINDS[at]))
        };
        let values = [
            Value::Int(before.unwrap_or(i64::MAX)),
            Value::Int(since.unwrap_or(i64::MIN)),
            kind(0),
            kind(1),
            kind(2),
            kind(3),
            Value::Int(i64::from(rows_max)),
        ];
        self.store
            .query(sql, &values)?
            .iter()
            .map(recorded)
            .collect()
    }
}

fn values(record: &Record) -> [Value; 17] {
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
    let (verdict, statement, plan, loss) = match event {
        Event::Statement(asked) => (
            text(asked.verdict.name()),
            blob(asked.statement.as_bytes()),
            asked.plan.map_or(Value::Null, |plan| blob(plan.as_bytes())),
            asked.loss,
        ),
        Event::Login | Event::Policy { .. } | Event::Act { .. } => {
            (Value::Null, Value::Null, Value::Null, Loss::ZERO)
        }
    };
    let [epsilon, rho, mu_squared, delta] = columns(&loss);
    let optional = |known: Option<String>| known.map_or(Value::Null, Value::Text);
    [
        Value::Int(*microseconds),
        text(event.kind()),
        text(name),
        Value::Int(i64::from(*session)),
        optional(address.map(|address| address.to_string())),
        text(application),
        text(via.name()),
        optional(actor.clone()),
        verdict,
        text(sqlstate),
        statement,
        plan,
        text(&detail(event)),
        epsilon,
        rho,
        mu_squared,
        delta,
    ]
}

/// What only one kind of record has, as JSON.
fn detail(event: &Event) -> String {
    let detail = match event {
        Event::Statement(asked) => {
            let tables: Vec<&String> = asked.tables.iter().take(TABLES_MAX).collect();
            serde_json::json!(tables)
        }
        Event::Login => serde_json::json!([]),
        Event::Policy { before, after } => serde_json::json!([before, after]),
        Event::Act { act, target, why } => serde_json::json!([act, target, why]),
    };
    detail.to_string()
}

fn recorded(row: &Row) -> Result<(i64, Record), Error> {
    let optional = |at: usize| {
        if row.is_null(at) {
            Ok(None)
        } else {
            row.text(at).map(Some)
        }
    };
    let origin = Origin {
        via: Via::of_name(row.text(7)?),
        address: optional(5)?.and_then(|address| address.parse().ok()),
        application: row.text(6)?.to_owned(),
        actor: optional(8)?.map(str::to_owned),
    };
    let record = Record {
        microseconds: row.int(1)?,
        name: row.text(3)?.to_owned(),
        session: i32::try_from(row.int(4)?).unwrap_or_default(),
        origin,
        sqlstate: row.text(10)?.to_owned(),
        event: event(row, optional(9)?)?,
    };
    Ok((row.int(0)?, record))
}

fn event(row: &Row, verdict: Option<&str>) -> Result<Event, Error> {
    let mut details = details(row.text(13)?)?.into_iter();
    let mut next = || details.next().unwrap_or_default();
    Ok(match (row.text(2)?, verdict) {
        ("statement", Some(verdict)) => Event::Statement(Asked {
            statement: Fingerprint::new(row.digest(11)?),
            plan: if row.is_null(12) {
                None
            } else {
                Some(Fingerprint::new(row.digest(12)?))
            },
            tables: details.collect(),
            verdict: Verdict::of_name(verdict),
            loss: row.loss(14)?,
        }),
        ("policy", _) => Event::Policy {
            before: next(),
            after: next(),
        },
        ("act", _) => Event::Act {
            act: next(),
            target: next(),
            why: next(),
        },
        _ => Event::Login,
    })
}

fn details(text: &str) -> Result<Vec<String>, Error> {
    serde_json::from_str(text).map_err(|_| Error::Damaged {
        ledger: "the ledger".to_owned(),
        reason: "a record of it cannot be read".to_owned(),
    })
}
