//! Bodies of client messages, decoded strictly: pgwire's decoders panic on a short body and replace
//! bytes that are not UTF-8.

use bytes::{Buf, Bytes};

use super::outcome::Outcome;
use super::stream::RawMessage;
use crate::refusal::{Refusal, reason};

/// The values of a row, as they are sent.
pub(super) type SentRow = Vec<Option<bytes::Bytes>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageTarget {
    Statement,
    Portal,
}

#[derive(Debug)]
pub(super) enum Frontend {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        target: MessageTarget,
        name: String,
    },
    Execute {
        portal: String,
        rows_max: i32,
    },
    Close {
        target: MessageTarget,
        name: String,
    },
    Flush,
    Sync,
    Terminate,
    FunctionCall,
    /// CopyData, CopyDone, CopyFail outside a COPY: dropped, as PostgreSQL does.
    Copy,
    /// Only while authenticating.
    Password,
}

#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) formats: Vec<i16>,
    pub(super) values: Vec<Option<Bytes>>,
    pub(super) result_formats: Vec<i16>,
}

/// # Errors
/// Fatal 08P01 for a body that is too short or too long; 22021, which leaves the session open, for
/// text that is not UTF-8.
pub(super) fn decode(frame: RawMessage) -> Result<Frontend, Outcome> {
    let RawMessage { kind, body } = frame;
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Frontend::Query(body.text()?),
        b'P' => Frontend::Parse {
            name: body.text()?,
            sql: body.text()?,
            types: body.list(4, Body::u32)?,
        },
        b'B' => Frontend::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.list(2, Body::i16)?,
            values: body.list(4, Body::value)?,
            result_formats: body.list(2, Body::i16)?,
        }),
        b'D' => Frontend::Describe {
            target: body.target("DESCRIBE")?,
            name: body.text()?,
        },
        b'C' => Frontend::Close {
            target: body.target("CLOSE")?,
            name: body.text()?,
        },
        b'E' => Frontend::Execute {
            portal: body.text()?,
            rows_max: body.i32()?,
        },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'X' => Frontend::Terminate,
        b'F' => return Ok(Frontend::FunctionCall),
        b'd' | b'c' | b'f' => return Ok(Frontend::Copy),
        b'p' => return Ok(Frontend::Password),
        _ => {
            return Err(Outcome::protocol(format!(
                "invalid frontend message type {kind}"
            )));
        }
    };
    if body.0.is_empty() {
        Ok(message)
    } else {
        Err(Outcome::protocol("invalid message format"))
    }
}

/// A cursor that never reads past its end.
pub(super) struct Body(pub(super) Bytes);

impl Body {
    fn take(&mut self, count: usize) -> Result<Bytes, Outcome> {
        if count > self.0.len() {
            return Err(Outcome::protocol("insufficient data left in message"));
        }
        Ok(self.0.split_to(count))
    }

    pub(super) fn i32(&mut self) -> Result<i32, Outcome> {
        Ok(self.take(4)?.get_i32())
    }

    fn u32(&mut self) -> Result<u32, Outcome> {
        Ok(self.take(4)?.get_u32())
    }

    fn i16(&mut self) -> Result<i16, Outcome> {
        Ok(self.take(2)?.get_i16())
    }

    /// Bytes up to a zero byte.
    fn text_bytes(&mut self) -> Result<Bytes, Outcome> {
        let end = self
            .0
            .iter()
            .position(|&b| b == 0)
            .ok_or_else(|| Outcome::protocol("invalid string in message"))?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        Ok(text)
    }

    pub(super) fn text(&mut self) -> Result<String, Outcome> {
        let text = self.text_bytes()?;
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Outcome::Refused(not_utf8())),
        }
    }

    fn target(&mut self, what: &str) -> Result<MessageTarget, Outcome> {
        match self.take(1)?.get_u8() {
            b'S' => Ok(MessageTarget::Statement),
            b'P' => Ok(MessageTarget::Portal),
            other => Err(Outcome::protocol(format!(
                "invalid {what} message subtype {other}"
            ))),
        }
    }

    /// A value with its length before it; -1 is NULL.
    pub(super) fn value(&mut self) -> Result<Option<Bytes>, Outcome> {
        match self.i32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.take(length).map(Some),
                Err(_) => Err(Outcome::protocol("invalid length of a value in message")),
            },
        }
    }

    /// A counted list. The count is compared with the bytes left before anything is allocated for
    /// it.
    fn list<T>(
        &mut self,
        bytes_each: usize,
        item: fn(&mut Self) -> Result<T, Outcome>,
    ) -> Result<Vec<T>, Outcome> {
        let count = usize::from(self.take(2)?.get_u16());
        if count.saturating_mul(bytes_each) > self.0.len() {
            return Err(Outcome::protocol("insufficient data left in message"));
        }
        (0..count).map(|_| item(self)).collect()
    }
}

/// 22021
pub(super) fn not_utf8() -> Refusal {
    Refusal::new(
        reason::INVALID_ENCODING,
        "invalid byte sequence for encoding \"UTF8\"",
    )
}

/// Whether Bind supplies as many values and formats as the statement has parameters and columns.
pub(super) fn check_counts(
    statement: &str,
    (values, formats, wanted): (usize, usize, usize),
    (result_formats, columns): (usize, usize),
) -> Result<(), Refusal> {
    let violation = |message: String| Err(Refusal::new(reason::PROTOCOL_VIOLATION, message));
    if values != wanted {
        return violation(format!(
            "bind message supplies {values} parameters, but prepared statement \"{statement}\" \
                requires {wanted}"
        ));
    }
    if formats > 1 && formats != wanted {
        return violation(format!(
            "bind message has {formats} parameter formats but {wanted} parameters"
        ));
    }
    if result_formats > 1 && result_formats != columns {
        return violation(format!(
            "bind message has {result_formats} result formats but query has {columns} columns"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::super::outcome::Outcome;
    use super::super::stream::RawMessage;
    use super::{Frontend, decode};

    #[test]
    fn a_cut_bind_is_a_protocol_error_at_every_byte() {
        let whole =
            b"portal\0statement\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff\0\x02\0\0\0\x01";
        for length in 0..whole.len() {
            let cut = decode(RawMessage {
                kind: b'B',
                body: Bytes::copy_from_slice(&whole[..length]),
            });
            assert!(matches!(cut, Err(Outcome::Fatal(_))), "{length}");
        }
        let Ok(Frontend::Bind(bind)) = decode(RawMessage {
            kind: b'B',
            body: Bytes::from_static(whole),
        }) else {
            panic!("refused")
        };
        assert_eq!((bind.formats, bind.result_formats), (vec![1], vec![0, 1]));
        assert_eq!(bind.values, [Some(Bytes::from_static(b"abc")), None]);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(20_261_121),
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_body_panics(
            kind in any::<u8>(),
            body in prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..64),
        ) {
            let _ = decode(RawMessage { kind, body: body.into() });
        }
    }
}
