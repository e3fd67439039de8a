//! One client's byte stream: frames in, under size limits; messages out, buffered until they are
//! asked for.

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::copy::{CopyData, CopyDone, CopyOutResponse};
use pgwire::messages::response::{
    CommandComplete, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::outcome::Outcome;
use super::transaction::Status;
use crate::engine::{ColumnDescription, Format, HeldMemory, MemoryShare};
use crate::refusal::Refusal;

/// Bytes read ahead while a statement runs.
const AHEAD_MAX: usize = 64 << 10;
/// Bytes of replies that are held before they are pushed out.
const HELD_MAX: usize = 64 << 10;
/// Longest message of a kind that has no text in it.
const SMALL_MAX: usize = 10_000;

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(super) struct FramedStream {
    stream: Box<dyn Stream>,
    input: BytesMut,
    output: BytesMut,
    /// Room for the long message that is being read, and for the last one until the next is asked
    /// for.
    reading: Option<HeldMemory>,
}

/// One message: its type byte and its body.
#[derive(Debug)]
pub(super) struct RawMessage {
    pub(super) kind: u8,
    pub(super) body: Bytes,
}

impl FramedStream {
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            reading: None,
        }
    }

    /// The next message of at most `bytes_max`. May be dropped and called again at any point: what
    /// was read stays in the buffer.
    pub(super) async fn frame(&mut self, bytes_max: usize) -> Result<RawMessage, Outcome> {
        loop {
            if let Some(frame) = self.take(bytes_max)? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(Outcome::Closed);
            }
        }
    }

    /// Reads a frame, where what is long takes room in the session's share before it is read.
    pub(super) async fn frame_within(
        &mut self,
        bytes_max: usize,
        share: &MemoryShare,
    ) -> Result<RawMessage, Outcome> {
        if self.input.len() < AHEAD_MAX {
            self.reading = None;
        }
        loop {
            if let Some(frame) = self.take(bytes_max)? {
                return Ok(frame);
            }
            let announced = self
                .input
                .get(1..5)
                .and_then(|mut length| usize::try_from(length.get_i32()).ok());
            if let Some(length) = announced.filter(|length| *length > AHEAD_MAX)
                && self
                    .reading
                    .as_ref()
                    .is_none_or(|held| held.bytes() < length)
            {
                self.reading = None;
                self.reading = Some(share.hold(length).map_err(Outcome::Fatal)?);
                self.input
                    .reserve((length + 1).saturating_sub(self.input.len()));
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(Outcome::Closed);
            }
        }
    }

    fn take(&mut self, bytes_max: usize) -> Result<Option<RawMessage>, Outcome> {
        let Some(&kind) = self.input.first() else {
            return Ok(None);
        };
        let bytes_max = match kind {
            b'Q' | b'P' | b'B' | b'F' | b'd' | b'p' => bytes_max,
            b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => bytes_max.min(SMALL_MAX),
            _ => {
                return Err(Outcome::protocol(format!(
                    "invalid frontend message type {kind}"
                )));
            }
        };
        let Some(mut length) = self.input.get(1..5) else {
            return Ok(None);
        };
        let length = usize::try_from(length.get_i32()).unwrap_or(0);
        if length < 4 || length > bytes_max {
            return Err(Outcome::protocol("invalid message length"));
        }
        if self.input.len() < length + 1 {
            return Ok(None);
        }
        let mut body = self.input.split_to(length + 1);
        body.advance(5);
        Ok(Some(RawMessage {
            kind,
            body: body.freeze(),
        }))
    }

    /// Whether the next message has come, and is Sync.
    pub(super) fn is_sync_next(&self) -> bool {
        self.input.first() == Some(&b'S')
    }

    /// Ends when the client has gone. Reads a little ahead; beyond that the client waits.
    pub(super) async fn gone(&mut self) {
        while self.input.len() < AHEAD_MAX {
            if !matches!(self.stream.read_buf(&mut self.input).await, Ok(1..)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Adds a message to the replies. One that cannot be encoded leaves no trace (pgwire writes the
    /// type byte before it checks the length).
    pub(super) fn send(&mut self, message: &impl Message) {
        let mark = self.output.len();
        if message.encode(&mut self.output).is_err() {
            self.output.truncate(mark);
            tracing::error!("a reply was too long to send");
        }
    }

    pub(super) fn error(&mut self, severity: &str, refusal: &Refusal) {
        self.send(&ErrorResponse::new(fields(severity, refusal)));
    }

    pub(super) fn notice(&mut self, severity: &str, refusal: &Refusal) {
        self.send(&NoticeResponse::new(fields(severity, refusal)));
    }

    pub(super) fn complete(&mut self, tag: String) {
        self.send(&CommandComplete::new(tag));
    }

    pub(super) fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle | Status::Implicit | Status::Pipeline => TransactionStatus::Idle,
            Status::Open => TransactionStatus::Transaction,
            Status::Failed => TransactionStatus::Error,
        };
        self.send(&ReadyForQuery::new(status));
    }

    /// Table and column numbers are always 0: tools would follow them to the private table.
    pub(super) fn row_description(&mut self, columns: &[ColumnDescription], formats: &[Format]) {
        use pgwire::messages::data::{FieldDescription, RowDescription};
        let field = |(at, column): (usize, &ColumnDescription)| {
            let ColumnDescription {
                name,
                type_oid,
                type_size,
                type_modifier,
            } = column;
            let format = match formats.get(at) {
                Some(Format::Binary) => 1,
                Some(Format::Text) | None => 0,
            };
            FieldDescription::new(
                name.clone(),
                0,
                0,
                *type_oid,
                *type_size,
                *type_modifier,
                format,
            )
        };
        self.send(&RowDescription::new(
            columns.iter().enumerate().map(field).collect(),
        ));
    }

    pub(super) fn data_row(&mut self, row: &[Option<Bytes>]) {
        use bytes::BufMut;
        let mut data = BytesMut::new();
        for value in row {
            match value {
                Some(value) => {
                    data.put_i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
                    data.put_slice(value);
                }
                None => data.put_i32(-1),
            }
        }
        self.send(&pgwire::messages::data::DataRow::new(
            data,
            i16::try_from(row.len()).unwrap_or(i16::MAX),
        ));
    }

    /// The start of a COPY's stream.
    pub(super) fn copy_out(&mut self, format: Format, columns: usize) {
        let code: i8 = if format == Format::Binary { 1 } else { 0 };
        let columns = i16::try_from(columns).unwrap_or(i16::MAX);
        self.send(&CopyOutResponse::new(
            code,
            columns,
            vec![i16::from(code); usize::try_from(columns).unwrap_or(0)],
        ));
    }

    pub(super) fn copy_data(&mut self, data: Bytes) {
        self.send(&CopyData::new(data));
    }

    pub(super) fn copy_done(&mut self) {
        self.send(&CopyDone::new());
    }

    /// Pushes replies out when many are held.
    pub(super) async fn flush_if_full(&mut self) -> Result<(), Outcome> {
        if self.output.len() >= HELD_MAX {
            self.flush().await
        } else {
            Ok(())
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Outcome> {
        self.stream.write_all_buf(&mut self.output).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The last words of a session. What the client still sends is read for a moment, since closing
    /// on unread bytes would reset the connection and lose them.
    pub(super) async fn farewell(mut self, last: Option<&Refusal>) {
        if let Some(refusal) = last {
            self.error("FATAL", refusal);
        }
        let leave = async {
            if self.flush().await.is_err() || self.stream.shutdown().await.is_err() {
                return;
            }
            let mut waste = [0; 8192];
            let mut bytes = 0;
            while let Ok(read @ 1..) = self.stream.read(&mut waste).await {
                bytes += read;
                if bytes > 1 << 20 {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), leave).await;
    }
}

fn fields(severity: &str, refusal: &Refusal) -> Vec<(u8, String)> {
    let Refusal {
        sqlstate,
        message,
        detail,
        hint,
        position,
        reason: _,
    } = refusal;
    let mut fields = vec![
        (b'S', severity.to_owned()),
        (b'V', severity.to_owned()),
        (b'C', sqlstate.clone()),
        (b'M', message.clone()),
    ];
    fields.extend(detail.iter().map(|detail| (b'D', detail.clone())));
    fields.extend(hint.iter().map(|hint| (b'H', hint.clone())));
    fields.extend(position.iter().map(|position| (b'P', position.to_string())));
    for (_, text) in &mut fields {
        text.retain(|c| c != '\0');
    }
    fields
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::refusal::RefusalKind;

    #[test]
    fn a_long_message_behind_a_long_one_takes_separate_room() {
        let (near, _far) = tokio::io::duplex(1);
        let (mut channel, share) = (FramedStream::new(Box::new(near)), MemoryShare::default());
        for (length, held) in [
            (4_i32 << 20, 4 << 20),
            (5 << 20, 5 << 20),
            (1 << 20, 5 << 20),
        ] {
            // More is read ahead than what lets go of the room of the last.
            channel.input =
                BytesMut::from(&[&b"d"[..], &length.to_be_bytes(), &[0; AHEAD_MAX]].concat()[..]);
            assert!(
                channel
                    .frame_within(8 << 20, &share)
                    .now_or_never()
                    .is_none()
            );
            assert_eq!(channel.reading.as_ref().map(HeldMemory::bytes), Some(held));
        }
        let greedy = share.hold(700 << 20).unwrap();
        channel.input = BytesMut::from(
            &[&b"d"[..], &(100_i32 << 20).to_be_bytes(), &[0; AHEAD_MAX]].concat()[..],
        );
        let refused = channel.frame_within(200 << 20, &share).now_or_never();
        assert!(matches!(
            refused,
            Some(Err(Outcome::Fatal(refusal))) if refusal.kind() == RefusalKind::TooLarge
        ));
        drop(greedy);
    }
}
