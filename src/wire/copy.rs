//! COPY (query) TO STDOUT: the answer's rows as PostgreSQL's COPY writes them. Each value was
//! printed by PostgreSQL; only its escapes are added here.

use bytes::{BufMut, Bytes, BytesMut};

use super::message::SentRow;
use crate::engine::{ColumnDescription, Format};
use crate::parse::{CopyFormat, Force, Style};
use crate::refusal::{Refusal, reason};

/// No flags, no header extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Writes rows in one COPY format.
pub(super) struct Writer {
    format: CopyFormat,
    /// By column: quoted whatever it holds.
    forced: Vec<bool>,
    names: Vec<String>,
}

impl Writer {
    /// # Errors
    /// 42703 for a FORCE_QUOTE of no column, 42701 for one named twice.
    pub(super) fn new(format: &CopyFormat, columns: &[ColumnDescription]) -> Result<Self, Refusal> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut forced = vec![false; names.len()];
        if let CopyFormat::Csv { force, .. } = format {
            match force {
                Force::All => forced.fill(true),
                Force::Columns(wanted) => {
                    for name in wanted {
                        let at = names.iter().position(|known| known == name);
                        let at = at.ok_or_else(|| {
                            Refusal::new(
                                reason::UNKNOWN_COLUMN,
                                format!("column \"{name}\" does not exist"),
                            )
                        })?;
                        if std::mem::replace(&mut forced[at], true) {
                            return Err(Refusal::new(
                                reason::DUPLICATE_COLUMN,
                                format!("column \"{name}\" specified more than once"),
                            ));
                        }
                    }
                }
            }
        }
        Ok(Self {
            format: format.clone(),
            forced,
            names,
        })
    }

    /// How many values a row has.
    pub(super) fn width(&self) -> usize {
        self.names.len()
    }

    /// The format that the values are wanted in.
    pub(super) fn value_format(&self) -> Format {
        match &self.format {
            CopyFormat::Binary => Format::Binary,
            CopyFormat::Text(_) | CopyFormat::Csv { .. } => Format::Text,
        }
    }

    pub(super) fn signature(&self) -> Option<&'static [u8]> {
        match &self.format {
            CopyFormat::Binary => Some(SIGNATURE),
            CopyFormat::Text(_) | CopyFormat::Csv { .. } => None,
        }
    }

    /// The line of names.
    pub(super) fn header(&self) -> Option<Bytes> {
        match &self.format {
            CopyFormat::Text(style) if style.has_header => Some(self.line(style, |out, at| {
                text(out, self.names[at].as_bytes(), style.delimiter)
            })),
            CopyFormat::Csv {
                style,
                quote,
                escape,
                force: _,
            } if style.has_header => Some(self.line(style, |out, at| {
                self.csv(
                    out,
                    self.names[at].as_bytes(),
                    style,
                    (*quote, *escape),
                    false,
                )
            })),
            CopyFormat::Binary | CopyFormat::Text(_) | CopyFormat::Csv { .. } => None,
        }
    }

    pub(super) fn row(&self, row: &SentRow) -> Bytes {
        match &self.format {
            CopyFormat::Binary => {
                let mut out = BytesMut::new();
                out.put_i16(i16::try_from(row.len()).unwrap_or(i16::MAX));
                for value in row {
                    match value {
                        Some(value) => {
                            out.put_i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
                            out.put_slice(value);
                        }
                        None => out.put_i32(-1),
                    }
                }
                out.freeze()
            }
            CopyFormat::Text(style) => self.line(style, |out, at| match &row[at] {
                Some(value) => text(out, value, style.delimiter),
                None => out.put_slice(style.null.as_bytes()),
            }),
            CopyFormat::Csv {
                style,
                quote,
                escape,
                force: _,
            } => self.line(style, |out, at| match &row[at] {
                Some(value) => self.csv(out, value, style, (*quote, *escape), self.forced[at]),
                None => out.put_slice(style.null.as_bytes()),
            }),
        }
    }

    /// The bytes after the last row.
    pub(super) fn tail(&self) -> Option<Bytes> {
        match &self.format {
            CopyFormat::Binary => Some(Bytes::from_static(&[0xff, 0xff])),
            CopyFormat::Text(_) | CopyFormat::Csv { .. } => None,
        }
    }

    fn line(&self, style: &Style, value: impl Fn(&mut BytesMut, usize)) -> Bytes {
        let mut out = BytesMut::new();
        for at in 0..self.names.len() {
            if at > 0 {
                out.put_u8(style.delimiter);
            }
            value(&mut out, at);
        }
        out.put_u8(b'\n');
        out.freeze()
    }

    /// A value that would read back as NULL, as an end of data or as two values is quoted.
    fn csv(
        &self,
        out: &mut BytesMut,
        value: &[u8],
        style: &Style,
        (quote, escape): (u8, u8),
        is_forced: bool,
    ) {
        let is_quoted = is_forced
            || value == style.null.as_bytes()
            || (self.names.len() == 1 && value == b"\\.")
            || value.iter().any(|&byte| {
                byte == style.delimiter || byte == quote || matches!(byte, b'\n' | b'\r')
            });
        if !is_quoted {
            return out.put_slice(value);
        }
        out.put_u8(quote);
        for &byte in value {
            if byte == quote || byte == escape {
                out.put_u8(escape);
            }
            out.put_u8(byte);
        }
        out.put_u8(quote);
    }
}

/// A backslash before characters that have a meaning in COPY's text format.
fn text(out: &mut BytesMut, value: &[u8], delimiter: u8) {
    for &byte in value {
        let letter = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            _ if byte == b'\\' || byte == delimiter => byte,
            _ => {
                out.put_u8(byte);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}
