//! DECLARE, FETCH and MOVE, and Execute on a portal that DECLARE opened.

use bytes::Bytes;

use super::{Cursor, Life, cursor_exists, no_cursor};
use crate::engine::{Argument, ColumnDescription, Format, HeldMemory, Requester, Service};
use crate::parse::{Declare, Direction, Fetch, FetchCount};
use crate::refusal::{Refusal, reason};
use crate::wire::connection::Connection;
use crate::wire::message::SentRow;
use crate::wire::outcome::Outcome;
use crate::wire::portal::{Reply, format_of_each};

/// The bytes that the cursors of one session may hold before the next cursor is refused. The answer
/// that is then added has its own limit.
const HELD_BYTES_MAX: usize = 64 << 20;
const CURSORS_MAX: usize = 256;

impl<S: Service> Connection<S> {
    /// DECLARE: asks the query.
    pub(in crate::wire) async fn declare(
        &mut self,
        declare: &Declare,
        parameters: &[u32],
        arguments: &[Argument],
    ) -> Result<Reply, Outcome> {
        let Declare {
            name,
            query,
            is_binary,
            scroll,
            holds,
        } = declare;
        self.check_declarable(name, *holds)?;
        let requester = self.requester();
        if *is_binary {
            check_exact(&requester)?;
        }
        let Reply {
            notices,
            columns,
            rows,
            held,
            ..
        } = self
            .answer(query, parameters, arguments, &[Format::Text])
            .await?;
        let bytes = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|value| 32 + value.as_ref().map_or(0, Bytes::len))
                    .sum::<usize>()
            })
            .sum();
        let cursor = Cursor {
            columns: columns.unwrap_or_default(),
            rows,
            position: 0,
            format: if *is_binary {
                Format::Binary
            } else {
                Format::Text
            },
            scrolls: scroll.unwrap_or(true),
            life: if *holds {
                Life::Holding
            } else {
                Life::Transaction
            },
            depth: self.transaction.depth(),
            requester,
            bytes,
            _held: held,
        };
        self.cursors.by_name.insert(name.clone(), cursor);
        Ok(Reply {
            notices,
            ..Reply::done("DECLARE CURSOR")
        })
    }

    /// The checks before the query is asked, and so charged.
    fn check_declarable(&mut self, name: &str, holds: bool) -> Result<(), Refusal> {
        if name.is_empty() {
            return Err(Refusal::new(
                reason::UNKNOWN_CURSOR,
                "invalid cursor name: must not be empty",
            ));
        }
        if !holds {
            self.transaction.require_string_or_block("DECLARE CURSOR")?;
        }
        if self.cursors.get(name).is_some() || self.portals.contains_key(name) {
            return Err(cursor_exists(name));
        }
        let held: usize = self
            .cursors
            .by_name
            .values()
            .map(|cursor| cursor.bytes)
            .sum();
        if held > HELD_BYTES_MAX || self.cursors.by_name.len() >= CURSORS_MAX {
            return Err(Refusal::new(
                reason::SESSION_TOO_LARGE,
                "too many rows are held by the cursors of this session",
            )
            .detail("Nothing was charged.")
            .hint("Close those no longer needed."));
        }
        Ok(())
    }

    /// FETCH or MOVE. Without `formats`, values come as the cursor was declared.
    pub(in crate::wire) async fn fetch(
        &mut self,
        fetch: &Fetch,
        formats: &[Format],
    ) -> Result<Reply, Outcome> {
        let Fetch {
            name,
            direction,
            moves_only,
        } = fetch;
        let Some(cursor) = self.cursors.get(name) else {
            if self.portals.contains_key(name) {
                let refusal = Refusal::new(
                    reason::UNSUPPORTED_STATEMENT,
                    format!("FETCH from portal \"{name}\" is not supported by pgveil"),
                );
                return Err(refusal
                    .detail("It was opened by the protocol's Bind.")
                    .hint("Read it by Execute, or use DECLARE.")
                    .into());
            }
            return Err(no_cursor(name).into());
        };
        let (to, rows) = cursor.travel(*direction, *moves_only)?;
        if *moves_only {
            self.cursors.move_to(name, to);
            return Ok(Reply::done(format!("MOVE {}", rows.len())));
        }
        let columns = cursor.columns.clone();
        let formats = if formats.is_empty() {
            vec![cursor.format; columns.len()]
        } else {
            format_of_each(formats, columns.len())
        };
        let requester = cursor.requester.clone();
        let (rows, held) = self
            .format_rows(requester, &columns, rows, &formats)
            .await?;
        self.cursors.move_to(name, to);
        Ok(Reply {
            columns: Some(columns),
            rows,
            formats,
            held: Some(held),
            ..Reply::done("FETCH")
        })
    }

    /// Execute on a portal that DECLARE opened: up to `rows_max` rows, and whether that limit was
    /// reached.
    pub(in crate::wire) async fn execute_cursor(
        &mut self,
        name: &str,
        rows_max: i32,
    ) -> Result<Option<(Vec<SentRow>, HeldMemory, bool)>, Outcome> {
        let Some(cursor) = self.cursors.get(name) else {
            return Ok(None);
        };
        let limit = u64::try_from(rows_max).ok().filter(|&limit| limit > 0);
        let (to, rows) = cursor.travel(
            Direction::Forward(limit.map_or(FetchCount::All, FetchCount::Rows)),
            false,
        )?;
        let is_met =
            limit.is_some_and(|limit| u64::try_from(rows.len()).is_ok_and(|sent| sent == limit));
        let (requester, columns, format) = (
            cursor.requester.clone(),
            cursor.columns.clone(),
            cursor.format,
        );
        let formats = vec![format; columns.len()];
        let (rows, held) = self
            .format_rows(requester, &columns, rows, &formats)
            .await?;
        self.cursors.move_to(name, to);
        Ok(Some((rows, held, is_met)))
    }

    /// Rows of text in the wanted formats, and the memory of the converted rows. PostgreSQL itself,
    /// in the shadow, converts to binary.
    async fn format_rows(
        &mut self,
        requester: Requester,
        columns: &[ColumnDescription],
        rows: Vec<SentRow>,
        formats: &[Format],
    ) -> Result<(Vec<SentRow>, HeldMemory), Outcome> {
        if rows.is_empty() || formats.iter().all(|format| *format == Format::Text) {
            let held = self.share.hold_copies(&rows)?;
            return Ok((rows, held));
        }
        check_exact(&requester)?;
        let mut held = self.share.hold_rows(&rows)?;
        let oids: Vec<u32> = columns.iter().map(|column| column.type_oid).collect();
        let texts = rows.clone();
        let binaries = self
            .ask_free(|service| async move { service.to_binary(&requester, &oids, rows).await })
            .await?;
        let pick = |(text, binary): (SentRow, SentRow)| {
            let values = text.into_iter().zip(binary).zip(formats);
            values
                .map(|((text, binary), format)| {
                    if *format == Format::Text {
                        text
                    } else {
                        binary
                    }
                })
                .collect()
        };
        let rows: Vec<SentRow> = texts.into_iter().zip(binaries).map(pick).collect();
        held.join(self.share.hold_rows(&rows)?);
        Ok((rows, held))
    }
}

/// A cursor keeps its rows as text. If they were printed under settings that lose information,
/// binary values made from them would differ.
fn check_exact(requester: &Requester) -> Result<(), Refusal> {
    if requester.prints_exactly() {
        return Ok(());
    }
    let message =
        "binary values of a cursor are not supported under this DateStyle or extra_float_digits";
    Err(Refusal::new(reason::SESSION_FORMAT, message)
        .hint("SET DateStyle = ISO and RESET extra_float_digits before DECLARE, or fetch text."))
}
