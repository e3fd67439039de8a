//! Advisory locks as in a database with one session: a session knows which it holds, and no other
//! session sees them. Sessions write nothing that they could race for.

use super::connection::Connection;
use super::locks::{LockKey, Locks};
use super::message::not_utf8;
use super::portal::{Reply, text_column};
use crate::engine::{Argument, ColumnDescription, Format, Service};
use crate::parse::{Advisory, AdvisoryAct, Number, SettingScope};
use crate::refusal::{Refusal, reason};

/// How many different locks a session may hold.
const LOCKS_MAX: usize = 1_000;

const BOOL: (u32, i16) = (16, 1);
const VOID: (u32, i16) = (2278, 4);
const INT4: u32 = 23;
const INT8: u32 = 20;

impl<S: Service> Connection<S> {
    pub(super) fn advise(
        &mut self,
        advisory: &Advisory,
        arguments: &[Argument],
        formats: &[Format],
    ) -> Result<Reply, Refusal> {
        let Advisory {
            act,
            shared,
            scope,
            key,
            column: _,
        } = advisory;
        let Some(key) = key
            .iter()
            .map(|number| key_of(number, advisory, arguments))
            .collect::<Result<Option<Vec<LockKey>>, Refusal>>()?
        else {
            return Ok(answer(advisory, None, formats));
        };
        let held = match act {
            // Until the end of a transaction it can only be taken once more.
            AdvisoryAct::Lock | AdvisoryAct::TryLock if *scope == SettingScope::Local => true,
            AdvisoryAct::Lock | AdvisoryAct::TryLock => {
                if self.locks.len() >= LOCKS_MAX
                    && !self.locks.contains_key(&(key.clone(), *shared))
                {
                    return Err(
                        Refusal::new(reason::LOCK_TABLE_FULL, "out of shared memory").hint(
                            format!("A session holds at most {LOCKS_MAX} advisory locks here."),
                        ),
                    );
                }
                *self.locks.entry((key, *shared)).or_default() += 1;
                true
            }
            AdvisoryAct::Unlock => unlock(&mut self.locks, (key, *shared)),
            AdvisoryAct::UnlockAll => {
                self.locks.clear();
                true
            }
        };
        let reply = answer(advisory, Some(held), formats);
        let mode = if *shared {
            "ShareLock"
        } else {
            "ExclusiveLock"
        };
        Ok(if held {
            reply
        } else {
            reply.warning(
                reason::LOCK_NOT_HELD,
                &format!("you don't own a lock of type {mode}"),
            )
        })
    }
}

/// Whether the lock was held.
fn unlock(locks: &mut Locks, lock: (Vec<LockKey>, bool)) -> bool {
    match locks.get_mut(&lock) {
        Some(times) if *times > 1 => *times -= 1,
        Some(_) => drop(locks.remove(&lock)),
        None => return false,
    }
    true
}

/// Parameters and column of the statement.
pub(super) fn advising(advisory: &Advisory) -> (Vec<u32>, Vec<ColumnDescription>) {
    let count = |number: &Number| {
        if let Number::Parameter(at) = number {
            at + 1
        } else {
            0
        }
    };
    let parameters = advisory.key.iter().map(count).max().unwrap_or(0);
    // Two numbers are of four bytes each.
    (
        vec![if advisory.key.len() == 2 { INT4 } else { INT8 }; parameters],
        vec![column(advisory)],
    )
}

fn column(advisory: &Advisory) -> ColumnDescription {
    let (type_oid, type_size) = match advisory.act {
        AdvisoryAct::Lock | AdvisoryAct::UnlockAll => VOID,
        AdvisoryAct::TryLock | AdvisoryAct::Unlock => BOOL,
    };
    ColumnDescription {
        type_oid,
        type_size,
        ..text_column(&advisory.column)
    }
}

/// A void is the empty string in both formats.
fn answer(advisory: &Advisory, held: Option<bool>, formats: &[Format]) -> Reply {
    let column = column(advisory);
    let value = held.map(|held| match (column.type_oid == VOID.0, formats.first()) {
        (true, _) => bytes::Bytes::new(),
        (false, Some(Format::Binary)) => bytes::Bytes::copy_from_slice(&[u8::from(held)]),
        (false, Some(Format::Text) | None) => bytes::Bytes::from(if held { "t" } else { "f" }),
    });
    Reply {
        columns: Some(vec![column]),
        rows: vec![vec![value]],
        ..Reply::done("SELECT")
    }
}

/// `None` is NULL: no lock is taken.
fn key_of(
    number: &Number,
    advisory: &Advisory,
    arguments: &[Argument],
) -> Result<Option<LockKey>, Refusal> {
    let value = match number {
        Number::Hash(text) => return Ok(Some(LockKey::Hash(text.clone()))),
        Number::Constant(value) => *value,
        Number::Parameter(at) => {
            let Some(Argument { format, value }) = arguments.get(*at) else {
                return Err(Refusal::new(
                    reason::PROTOCOL_VIOLATION,
                    "the keys of an advisory lock are its only parameters",
                ));
            };
            match value {
                None => return Ok(None),
                Some(bytes) => read_number(*format, bytes)?,
            }
        }
    };
    if advisory.key.len() == 2 && i32::try_from(value).is_err() {
        return Err(Refusal::new(
            reason::VALUE_OUT_OF_RANGE,
            "integer out of range",
        ));
    }
    Ok(Some(LockKey::Number(value)))
}

fn read_number(format: Format, bytes: &[u8]) -> Result<i64, Refusal> {
    let malformed = || {
        Refusal::new(
            reason::INVALID_BINARY_VALUE,
            "incorrect binary data format in bind parameter",
        )
    };
    match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
            let shown: String = text.chars().take(80).collect();
            text.trim().parse().map_err(|_| {
                Refusal::new(
                    reason::INVALID_VALUE,
                    format!("invalid input syntax for type bigint: \"{shown}\""),
                )
            })
        }
        Format::Binary => match *bytes {
            [a, b, c, d] => Ok(i64::from(i32::from_be_bytes([a, b, c, d]))),
            _ => bytes
                .try_into()
                .map(i64::from_be_bytes)
                .map_err(|_| malformed()),
        },
    }
}
