//! Portals: Bind makes one, and the first Execute answers it.

use bytes::Bytes;
use pgwire::messages::extendedquery::{BindComplete, PortalSuspended};

use super::{ENTRY_BYTES, PORTALS_BYTES_MAX, PORTALS_MAX, changed_columns, types};
use crate::engine::{Argument, Format, Service};
use crate::parse::{SessionStatement, Statement};
use crate::refusal::{Refusal, reason};
use crate::wire::connection::Connection;
use crate::wire::cursor::cursor_exists;
use crate::wire::message::{Bind, check_counts, not_utf8};
use crate::wire::outcome::Outcome;
use crate::wire::portal::{
    Portal, Progress, columns_weight, command_tag, format_of_each, settings_weight,
};
use crate::wire::prepared::carrier_format;
use crate::wire::transaction::{Status, refuse_aborted};

impl<S: Service> Connection<S> {
    pub(in crate::wire) fn bind(&mut self, bind: Bind) -> Result<(), Outcome> {
        self.transaction.begin_pipeline(&self.settings);
        let Bind {
            portal,
            statement,
            formats,
            values,
            result_formats,
        } = bind;
        let prepared = self.statement(&statement)?.clone();
        if let Some(known) = &prepared.statement {
            self.require_allowed(known)?;
        }
        let wanted = prepared.parameters.len();
        let columns = self.columns(&prepared);
        let count = columns.as_ref().map_or(0, Vec::len);
        check_counts(
            &statement,
            (values.len(), formats.len(), wanted),
            (result_formats.len(), count),
        )?;
        if !portal.is_empty()
            && (self.portals.contains_key(&portal) || self.cursors.get(&portal).is_some())
        {
            return Err(cursor_exists(&portal).into());
        }
        let bytes = values
            .iter()
            .flatten()
            .map(|value| value.len() + ENTRY_BYTES)
            .sum::<usize>();
        let requester = self.requester();
        let bytes =
            ENTRY_BYTES + bytes + columns_weight(columns.as_deref()) + settings_weight(&requester);
        let before: usize = self.portals.values().map(|portal| portal.bytes).sum();
        if before + bytes > PORTALS_BYTES_MAX || self.portals.len() >= PORTALS_MAX {
            return Err(Refusal::new(
                reason::SESSION_TOO_LARGE,
                "too many portals in this session",
            )
            .into());
        }
        let held = self.share.hold(bytes)?;
        let formats = format_of_each(&read_formats(&formats)?, wanted);
        let arguments = keep_arguments(formats, values)?;
        let formats = read_formats(&result_formats)?;
        self.portals.insert(
            portal,
            Portal {
                prepared,
                arguments,
                requester,
                formats: format_of_each(&formats, count),
                columns,
                progress: Progress::Bound,
                bytes,
                _held: held,
            },
        );
        self.channel.send(&BindComplete::new());
        Ok(())
    }

    /// Rows beyond `rows_max` stay in the portal. A limit below one means no limit.
    pub(in crate::wire) async fn execute(
        &mut self,
        name: &str,
        rows_max: i32,
    ) -> Result<(), Outcome> {
        self.transaction.begin_pipeline(&self.settings);
        let Some(mut portal) = self.portals.remove(name) else {
            return self.execute_declared(name, rows_max).await;
        };
        let Some(statement) = portal.prepared.statement.clone() else {
            self.channel
                .send(&pgwire::messages::response::EmptyQueryResponse::new());
            self.portals.insert(name.to_owned(), portal);
            return Ok(());
        };
        if let Err(refusal) = self.require_allowed(&statement) {
            self.portals.insert(name.to_owned(), portal);
            return Err(refusal.into());
        }
        if matches!(portal.progress, Progress::Bound) {
            // A portal that fails is gone: it was charged, and must not be charged again by
            // mistake.
            self.run_portal(&mut portal, &statement).await?;
            if matches!(portal.progress, Progress::Spent) {
                return self.keep(name, portal, &statement);
            }
        }
        match &mut portal.progress {
            Progress::Fetching { rows, tag, .. } => {
                let limit = usize::try_from(rows_max)
                    .ok()
                    .filter(|&limit| limit > 0)
                    .unwrap_or(usize::MAX);
                let mut sent = 0;
                for row in rows.by_ref().take(limit) {
                    self.channel.data_row(&row);
                    self.channel.flush_if_full().await?;
                    sent += 1;
                }
                // Like PostgreSQL, which stops at the limit without looking whether a row follows.
                if sent == limit {
                    self.channel.send(&PortalSuspended::new());
                } else {
                    self.channel.complete(command_tag(tag, sent));
                }
            }
            Progress::Bound | Progress::Spent => {
                return Err(Refusal::new(
                    reason::CURSOR_STATE,
                    format!("portal \"{name}\" cannot be run"),
                )
                .into());
            }
        }
        self.keep(name, portal, &statement)
    }

    /// Runs the portal's statement for the first time. Statements without rows, and COPY, are
    /// answered in full.
    async fn run_portal(
        &mut self,
        portal: &mut Portal,
        statement: &Statement,
    ) -> Result<(), Outcome> {
        let prepared = portal.prepared.clone();
        if let Statement::Query(query) = statement {
            self.check_columns(query, &prepared).await?;
        }
        let arguments = match statement {
            // Their values stay in this process until they are randomised.
            Statement::Write(_) | Statement::ExplainWrite(..) => portal.arguments.clone(),
            _ => self.as_bound(portal).await?,
        };
        let reply = self
            .perform(statement, &prepared.parameters, &arguments, &portal.formats)
            .await?;
        self.notices(&reply.notices);
        if types(reply.columns.as_deref()) != types(portal.columns.as_deref()) {
            return Err(changed_columns().into());
        }
        if let Some(writer) = &reply.copy {
            self.stream(writer, &reply).await?;
            portal.progress = Progress::Spent;
            return Ok(());
        }
        if reply.columns.is_none() {
            self.channel.complete(reply.tag);
            portal.progress = Progress::Spent;
            return Ok(());
        }
        portal.progress = Progress::Fetching {
            rows: reply.rows.into_iter(),
            tag: reply.tag,
            _held: reply.held,
        };
        Ok(())
    }

    /// The portal's values as PostgreSQL read them at Bind. Values whose text could mean something
    /// else under the current settings are passed on in binary.
    async fn as_bound(&mut self, portal: &Portal) -> Result<Vec<Argument>, Outcome> {
        let Portal {
            prepared,
            arguments,
            requester,
            ..
        } = portal;
        let now = self.requester();
        let moves = |(oid, argument): (&u32, &Argument)| {
            argument.format == Format::Text && carrier_format(*oid) == Format::Binary
        };
        let (oids, texts): (Vec<u32>, Vec<Option<Bytes>>) = prepared
            .parameters
            .iter()
            .zip(arguments)
            .filter(|of| moves(*of))
            .map(|(oid, argument)| (*oid, argument.value.clone()))
            .unzip();
        if oids.is_empty()
            || (&requester.settings, &requester.search_path) == (&now.settings, &now.search_path)
        {
            return Ok(arguments.clone());
        }
        let requester = requester.clone();
        let read = self
            .ask_free(
                |service| async move { service.to_binary(&requester, &oids, vec![texts]).await },
            )
            .await?;
        let mut read = read.into_iter().flatten();
        let bound = prepared
            .parameters
            .iter()
            .zip(arguments)
            .map(|of| match moves(of) {
                true => Argument {
                    format: Format::Binary,
                    value: read.next().flatten(),
                },
                false => of.1.clone(),
            });
        Ok(bound.collect())
    }

    /// Execute on what DECLARE opened.
    async fn execute_declared(&mut self, name: &str, rows_max: i32) -> Result<(), Outcome> {
        if self.cursors.get(name).is_some() && self.transaction.status() == Status::Failed {
            return Err(refuse_aborted().into());
        }
        let Some((rows, _held, is_met)) = self.execute_cursor(name, rows_max).await? else {
            return Err(no_portal(name).into());
        };
        for row in &rows {
            self.channel.data_row(row);
            self.channel.flush_if_full().await?;
        }
        match is_met {
            true => self.channel.send(&PortalSuspended::new()),
            false => self.channel.complete(command_tag("SELECT", rows.len())),
        }
        Ok(())
    }

    /// Puts a portal back, unless its own statement ended the transaction and all portals with it.
    fn keep(&mut self, name: &str, portal: Portal, statement: &Statement) -> Result<(), Outcome> {
        let ends = matches!(
            statement,
            Statement::Session(
                SessionStatement::Commit { .. }
                    | SessionStatement::Rollback { .. }
                    | SessionStatement::DiscardAll
            )
        );
        if !ends {
            self.portals.insert(name.to_owned(), portal);
        }
        Ok(())
    }
}

pub(super) fn no_portal(name: &str) -> Refusal {
    Refusal::new(
        reason::UNKNOWN_CURSOR,
        format!("portal \"{name}\" does not exist"),
    )
}

fn read_formats(codes: &[i16]) -> Result<Vec<Format>, Refusal> {
    let read = |&code: &i16| match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        other => Err(Refusal::new(
            reason::INVALID_ARGUMENT,
            format!("unsupported format code: {other}"),
        )),
    };
    codes.iter().map(read).collect()
}

/// Values as a portal keeps them: in separate memory, since a slice of the buffer would keep all of
/// it alive.
///
/// # Errors
/// 22021 where a value sent as text is not UTF-8 without a zero byte.
fn keep_arguments(
    formats: Vec<Format>,
    values: Vec<Option<Bytes>>,
) -> Result<Vec<Argument>, Refusal> {
    let is_text = |value: &[u8]| std::str::from_utf8(value).is_ok() && !value.contains(&0);
    let keep = |(format, value): (Format, Option<Bytes>)| {
        if format == Format::Text && value.as_ref().is_some_and(|value| !is_text(value)) {
            return Err(not_utf8());
        }
        Ok(Argument {
            format,
            value: value.map(|value| Bytes::copy_from_slice(&value)),
        })
    };
    formats.into_iter().zip(values).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_value_keeps_nothing_else() {
        let read = Bytes::from(vec![b'x'; 4 << 20]);
        let arguments =
            keep_arguments(vec![Format::Text; 2], vec![Some(read.slice(7..8)), None]).unwrap();
        assert!(read.is_unique());
        assert_eq!(arguments[0].value.as_deref(), Some(&b"x"[..]));
        for text in [&b"\0"[..], b"\xff"] {
            let sent = || vec![Some(Bytes::copy_from_slice(text))];
            assert_eq!(
                keep_arguments(vec![Format::Text], sent())
                    .err()
                    .map(|refusal| refusal.sqlstate)
                    .as_deref(),
                Some("22021")
            );
            assert!(keep_arguments(vec![Format::Binary], sent()).is_ok());
        }
    }
}
