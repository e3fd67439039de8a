//! Records in the store: how they are written, how long they are kept, how they are read.

use super::super::error::Error;
use super::super::rules::Rules;
use super::super::store::{Row, StoreValue, blob, first_row, loss as columns, text_value};
use super::{
    DigestKey, Event, KeyedPlanDigest, KeyedStatementDigest, LoggedStatement, Origin, Record,
    TABLES_MAX, Verdict, Via,
};
use crate::mechanism::Loss;
use crate::refusal::Ending;

/// Statements kept; some 250 bytes each.
pub const STATEMENTS_KEPT: i64 = 1_000_000;
/// Logins kept, and as many refused ones. So failed tries displace neither statements nor logins.
pub const LOGINS_KEPT: i64 = 100_000;
/// Older ones are removed once in this many records.
pub(super) const REMOVED: i64 = 10_000;

/// The columns of a record, as `recorded` reads them.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, microseconds, kind, name, session, address, application, via, actor, \
                verdict, sqlstate, statement, plan, detail, epsilon, rho, mu_squared, delta \
                FROM record ",
            $which
        )
    };
}

const INSERT: &str = "INSERT INTO record (id, microseconds, kind, name, session, address, \
    application, via, actor, verdict, sqlstate, statement, plan, detail, epsilon, rho, \
    mu_squared, delta)
  VALUES ((SELECT coalesce(max(id), 0) + 1 FROM \
    (SELECT max(id) AS id FROM record UNION ALL SELECT max(id) FROM statement) AS ids), \
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) RETURNING id";

/// Removes all but the newest of these records; the parameter says how many stay. SQLite numbers
/// parameters as they appear, so it is the last one.
macro_rules! remove_but {
    ($which:literal, $kept:literal) => {
        concat!(
            "DELETE FROM record WHERE ",
            $which,
            " AND id <= (SELECT id FROM record WHERE ",
            $which,
            " ORDER BY id DESC LIMIT 1 OFFSET ",
            $kept,
            ")"
        )
    };
}

impl Rules {
    /// The key of the ledger's digests.
    pub(in crate::ledger) fn digest_key(&mut self) -> Result<DigestKey, Error> {
        let rows = self
            .store
            .query("SELECT key FROM secret WHERE id = 1", &[])?;
        Ok(DigestKey::new(first_row(&rows)?.digest(0)?))
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
            numbers.push(first_row(&made)?.int(0)?);
        }
        Ok(numbers)
    }

    /// Whether records are committed as they were written by one transaction, under these numbers.
    pub(in crate::ledger) fn are_committed(
        &mut self,
        numbers: &[i64],
        records: &[Record],
    ) -> Result<bool, Error> {
        for (number, record) in numbers.iter().zip(records) {
            let sql = select!("WHERE id = $1");
            let found = self.store.query(sql, &[StoreValue::Int(*number)])?;
            // The store may give the same number to a later record, so the number alone proves
            // nothing.
            if found.first().map(|row| &row.0[1..]) != Some(&values(record)[..]) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes what is past the limits. Acts are few, and stay. Statements of both tables are
    /// counted together. Logins and refused logins are counted separately.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open that has no other work: if this fails, nothing else is lost.
    pub(in crate::ledger) fn remove_older_records(&mut self) -> Result<(), Error> {
        let statements = remove_but!("kind = 'statement'", "$1");
        self.store
            .query(statements, &[StoreValue::Int(STATEMENTS_KEPT)])?;
        let logins = [
            text_value(Ending::Succeeded.sqlstate()),
            StoreValue::Int(LOGINS_KEPT),
        ];
        for sql in [
            remove_but!("kind = 'login' AND sqlstate = $1", "$2"),
            remove_but!("kind = 'login' AND sqlstate <> $1", "$2"),
        ] {
            self.store.query(sql, &logins)?;
        }
        if self
            .store
            .query("SELECT id FROM statement LIMIT 1", &[])?
            .is_empty()
        {
            return Ok(());
        }
        let sql = "SELECT count(*) FROM record WHERE kind = 'statement'";
        let newer = first_row(&self.store.query(sql, &[])?)?.int(0)?;
        let sql = "DELETE FROM statement WHERE id <= \
            (SELECT id FROM statement ORDER BY id DESC LIMIT 1 OFFSET $1)";
        let kept = STATEMENTS_KEPT.saturating_sub(newer).max(0);
        self.store.query(sql, &[StoreValue::Int(kept)])?;
        Ok(())
    }

    /// Records after the one of this number, oldest first, each with its number.
    pub(in crate::ledger) fn records(
        &mut self,
        after: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, Record)>, Error> {
        let mut found = self.older_records(after, rows_max)?;
        let sql = select!("WHERE id > $1 ORDER BY id LIMIT $2");
        let values = [StoreValue::Int(after), StoreValue::Int(i64::from(rows_max))];
        for row in &self.store.query(sql, &values)? {
            found.push(read_record(row)?);
        }
        // The store numbers both together.
        found.sort_by_key(|(number, _)| *number);
        found.truncate(rows_max as usize);
        Ok(found)
    }

    /// The newest acts, newest first.
    pub(in crate::ledger) fn acts(&mut self, rows_max: u32) -> Result<Vec<Record>, Error> {
        let sql = select!("WHERE kind = 'act' ORDER BY id DESC LIMIT $1");
        let rows = self
            .store
            .query(sql, &[StoreValue::Int(i64::from(rows_max))])?;
        rows.iter()
            .map(|row| read_record(row).map(|(_, record)| record))
            .collect()
    }

    /// Statements that a proxy of an older format recorded. Their digests have no key, and their
    /// times are those of their ends.
    fn older_records(&mut self, after: i64, rows_max: u32) -> Result<Vec<(i64, Record)>, Error> {
        let key = self.digest_key()?;
        let sql = "SELECT id, microseconds, role, fingerprint, verdict, sqlstate, epsilon, rho, \
            mu_squared, delta FROM statement WHERE id > $1 ORDER BY id LIMIT $2";
        let values = [StoreValue::Int(after), StoreValue::Int(i64::from(rows_max))];
        let rows = self.store.query(sql, &values)?;
        let record = |row: &Row| {
            let event = Event::Statement(LoggedStatement {
                statement: key.of_older_statement(row.digest(3)?),
                plan: None,
                tables: Vec::new(),
                shape: None,
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
                ending: Ending::of_sqlstate(row.text(5)?),
                event,
            };
            Ok((row.int(0)?, record))
        };
        rows.iter().map(record).collect()
    }
}

fn values(record: &Record) -> [StoreValue; 17] {
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
    let (verdict, statement, plan, loss) = match event {
        Event::Statement(asked) => (
            text_value(asked.verdict.name()),
            blob(asked.statement.as_bytes()),
            asked
                .plan
                .map_or(StoreValue::Null, |plan| blob(plan.as_bytes())),
            asked.loss,
        ),
        Event::Login | Event::Act { .. } => (
            StoreValue::Null,
            StoreValue::Null,
            StoreValue::Null,
            Loss::ZERO,
        ),
    };
    let [epsilon, rho, mu_squared, delta] = columns(&loss);
    let optional = |known: Option<String>| known.map_or(StoreValue::Null, |known| storable(&known));
    [
        StoreValue::Int(*microseconds),
        text_value(event.kind()),
        storable(name),
        StoreValue::Int(i64::from(*session)),
        optional(address.map(|address| address.to_string())),
        storable(application),
        text_value(via.name()),
        optional(actor.clone()),
        verdict,
        text_value(ending.sqlstate()),
        statement,
        plan,
        storable(&detail(event)),
        epsilon,
        rho,
        mu_squared,
        delta,
    ]
}

/// A text that every store takes: PostgreSQL has no zero byte.
fn storable(known: &str) -> StoreValue {
    StoreValue::Text(known.replace('\0', "\u{fffd}"))
}

/// What only one kind of record has, as JSON.
fn detail(event: &Event) -> String {
    let detail = match event {
        Event::Statement(asked) => {
            let tables: Vec<&String> = asked.tables.iter().take(TABLES_MAX).collect();
            match &asked.shape {
                None => serde_json::json!(tables),
                Some(shape) => serde_json::json!({ "tables": tables, "shape": shape }),
            }
        }
        Event::Login => serde_json::json!([]),
        Event::Act { act, target, why } => serde_json::json!([act, target, why]),
    };
    detail.to_string()
}

pub(super) fn read_record(row: &Row) -> Result<(i64, Record), Error> {
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
        ending: Ending::of_sqlstate(row.text(10)?),
        event: event(row, optional(9)?)?,
    };
    Ok((row.int(0)?, record))
}

fn event(row: &Row, verdict: Option<&str>) -> Result<Event, Error> {
    let Detail { listed, shape } = details(row.text(13)?)?;
    let mut listed = listed.into_iter();
    let mut next = || listed.next().unwrap_or_default();
    Ok(match (row.text(2)?, verdict) {
        ("statement", Some(verdict)) => Event::Statement(LoggedStatement {
            statement: KeyedStatementDigest::new(row.digest(11)?),
            plan: if row.is_null(12) {
                None
            } else {
                Some(KeyedPlanDigest::new(row.digest(12)?))
            },
            tables: listed.collect(),
            shape,
            verdict: Verdict::of_name(verdict),
            loss: row.loss(14)?,
        }),
        ("act", _) => Event::Act {
            act: next(),
            target: next(),
            why: next(),
        },
        _ => Event::Login,
    })
}

/// What only one kind of record has: tables, or the words of an act; of some statements a shape.
struct Detail {
    listed: Vec<String>,
    shape: Option<String>,
}

fn details(text: &str) -> Result<Detail, Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Read {
        Listed(Vec<String>),
        Shaped { tables: Vec<String>, shape: String },
    }
    match serde_json::from_str(text) {
        Ok(Read::Listed(listed)) => Ok(Detail {
            listed,
            shape: None,
        }),
        Ok(Read::Shaped { tables, shape }) => Ok(Detail {
            listed: tables,
            shape: Some(shape),
        }),
        Err(_) => Err(Error::Damaged {
            ledger: "the ledger".to_owned(),
            reason: "a record of it cannot be read".to_owned(),
        }),
    }
}
