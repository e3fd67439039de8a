//! Rows of COPY FROM STDIN, as they come in pieces: text and CSV as PostgreSQL reads them.

use bytes::{BufMut, Bytes, BytesMut};

use super::{GivenValue, SLICE_REPORTS, SentValue, TableWriter, WritePlan};
use crate::mechanism::OsRandomness;
use crate::memory::{HeldMemory, MemoryShare};
use crate::parse::{CopyFormat, Style, TrueBytes};
use crate::refusal::{Refusal, reason};

/// The longest row, without the line break after it.
const ROW_BYTES_MAX: usize = 4 << 20;
/// A slice of rows ends after the row with which it has this many bytes.
const SLICE_BYTES: usize = 64 << 10;
/// How often a row is in memory next to the input, at most: as fields, as values, as the database
/// gets it with escapes, in memory that grew to twice that, and on its way.
const ROW_COPIES: usize = 8;

/// Reads rows, and randomises them.
pub struct CopyRows {
    format: CopyFormat,
    /// What was received and not read yet.
    input: TrueBytes,
    /// Room for it in the session's memory.
    held: HeldMemory,
    /// Room for the rows that were made of it last, until the next ones are asked for.
    made: HeldMemory,
    random: OsRandomness,
    /// Reports and bytes that were made since other tasks could run.
    since_pause: (usize, usize),
    /// Where the first row that is not read begins.
    start: usize,
    /// How far that row was looked at for its end, from its beginning.
    scanned: usize,
    /// Whether that place is within quotes.
    is_quoted: bool,
    line: u64,
    has_header: bool,
    /// Whether the end marker came.
    is_over: bool,
    /// Whether the last piece came.
    is_whole: bool,
}

impl CopyRows {
    pub fn new(format: &CopyFormat, share: &MemoryShare) -> Self {
        let has_header = match format {
            CopyFormat::Text(style) | CopyFormat::Csv { style, .. } => style.has_header,
            CopyFormat::Binary => false,
        };
        Self {
            format: format.clone(),
            input: TrueBytes::default(),
            held: share.begin(),
            made: share.begin(),
            random: OsRandomness::new(),
            since_pause: (0, 0),
            start: 0,
            scanned: 0,
            is_quoted: false,
            line: 0,
            has_header,
            is_over: false,
            is_whole: false,
        }
    }

    /// Adds a piece of the stream. `is_last`: no other piece follows.
    ///
    /// # Errors
    /// 53200 where the session holds too much memory.
    pub fn add(&mut self, piece: &[u8], is_last: bool) -> Result<(), Refusal> {
        self.input.cut(std::mem::take(&mut self.start));
        self.is_whole = is_last;
        // What follows the end marker is not read.
        if self.is_over {
            return Ok(());
        }
        // It grows to at most twice what is wanted, and the old memory is there until it is copied.
        let wanted = self.input.len() + piece.len();
        let room = match wanted > self.input.capacity() {
            true => 2 * wanted + self.input.capacity(),
            false => self.input.capacity(),
        };
        self.held.add(room.saturating_sub(self.held.bytes()))?;
        self.input.extend(piece);
        self.held.fit(self.input.capacity());
        Ok(())
    }

    /// Some of the rows that are whole, as the database gets them; `None` where all were taken. A
    /// slice is made in a moment, whatever was added, so that between two of them a cancel acts.
    ///
    /// # Errors
    /// 22P02 for rows that are not of the format, or too long; 53200 where the session holds too
    /// much memory; those of [`TableWriter::rows`].
    pub fn take(
        &mut self,
        writer: &TableWriter,
        plan: &WritePlan<'_>,
    ) -> Result<Option<Bytes>, Refusal> {
        // The database has what was made before.
        self.made.fit(0);
        let (mut sent, mut reports) = (BytesMut::new(), 0);
        while sent.len() < SLICE_BYTES && reports < SLICE_REPORTS {
            let Some(row) = self.next()?.filter(|_| !self.is_over) else {
                break;
            };
            if std::mem::take(&mut self.has_header) {
                continue;
            }
            // The most that this row takes, and what the slice has of those before it.
            let room = ROW_COPIES * row.len() + sent.capacity();
            self.made.add(room.saturating_sub(self.made.bytes()))?;
            let fields = self.fields(row, plan.width())?;
            self.check_width(fields.len(), plan.width())?;
            let mut values = Vec::with_capacity(plan.sent_width());
            writer
                .row(plan, fields, &mut self.random, &mut values)
                .map_err(|refusal| self.at_line(refusal))?;
            put_row(&values, &mut sent);
            reports += plan.reports();
        }
        if self.is_over {
            self.start = self.input.len();
        }
        self.since_pause.0 += reports;
        self.since_pause.1 += sent.len();
        Ok((!sent.is_empty()).then(|| sent.freeze()))
    }

    /// Whether so much was made that other tasks should run now: as much as a slice, in one piece
    /// of the stream or in many.
    pub fn wants_pause(&mut self) -> bool {
        let (reports, bytes) = self.since_pause;
        let is_much = reports >= SLICE_REPORTS || bytes >= SLICE_BYTES;
        if is_much {
            self.since_pause = (0, 0);
        }
        is_much
    }

    /// The next row that is whole.
    fn next(&mut self) -> Result<Option<std::ops::Range<usize>>, Refusal> {
        let rest = self.input.len().saturating_sub(self.start);
        if self.is_over || rest == 0 {
            return Ok(None);
        }
        let (length, skipped) = match self.end_of_row() {
            Some(length) => (length, 1),
            None if self.is_whole => (rest, 0),
            None if rest > ROW_BYTES_MAX => (rest, 0),
            None => return Ok(None),
        };
        (self.scanned, self.is_quoted) = (0, false);
        let row = self.start..self.start + length;
        self.start = row.end + skipped;
        self.line += 1;
        // A row that is not whole yet is at least as long as what came of it.
        if length > ROW_BYTES_MAX {
            return Err(self.refuse_row("a row is too long"));
        }
        let text = &self.input[row.clone()];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let row = row.start..row.start + text.len();
        self.is_over = text == b"\\.";
        Ok(Some(row))
    }

    /// Where the line break after a row is. Within quotes, and after a backslash of the text
    /// format, it is part of a value. The next call goes on where this one ends.
    fn end_of_row(&mut self) -> Option<usize> {
        let rest = self.input.get(self.start..).unwrap_or_default();
        let (mut at, mut is_quoted) = (self.scanned, self.is_quoted);
        let mut found = None;
        while at < rest.len() {
            let byte = rest[at];
            match &self.format {
                CopyFormat::Csv { quote, escape, .. } => {
                    let escapes = is_quoted && byte == *escape && escape != quote;
                    if escapes && at + 1 == rest.len() {
                        // What is escaped has not come.
                        break;
                    }
                    if escapes
                        && rest
                            .get(at + 1)
                            .is_some_and(|next| next == quote || next == escape)
                    {
                        at += 1;
                    } else if byte == *quote {
                        is_quoted = !is_quoted;
                    }
                }
                CopyFormat::Text(_) | CopyFormat::Binary if byte == b'\\' => {
                    at += 2;
                    continue;
                }
                CopyFormat::Text(_) | CopyFormat::Binary => {}
            }
            if byte == b'\n' && !is_quoted {
                found = Some(at);
                break;
            }
            at += 1;
        }
        (self.scanned, self.is_quoted) = (at, is_quoted);
        found
    }

    fn fields(
        &self,
        row: std::ops::Range<usize>,
        width: usize,
    ) -> Result<Vec<GivenValue>, Refusal> {
        let row = &self.input[row];
        match &self.format {
            CopyFormat::Csv {
                style,
                quote,
                escape,
                force: _,
            } => self.csv(row, style, (*quote, *escape), width),
            CopyFormat::Text(style) => self.text(row, style, width),
            CopyFormat::Binary => Err(self.refuse_row("the binary format is not read")),
        }
    }

    /// At most one field more than the row should have.
    fn text(&self, row: &[u8], style: &Style, width: usize) -> Result<Vec<GivenValue>, Refusal> {
        let (mut fields, mut begins, mut at) = (Vec::new(), 0, 0);
        loop {
            match row.get(at) {
                Some(b'\\') => at += 2,
                Some(byte) if *byte == style.delimiter => {
                    fields.push(self.text_field(&row[begins..at], style)?);
                    if fields.len() > width {
                        return Ok(fields);
                    }
                    at += 1;
                    begins = at;
                }
                Some(_) => at += 1,
                None => break,
            }
        }
        fields.push(self.text_field(&row[begins..], style)?);
        Ok(fields)
    }

    fn text_field(&self, field: &[u8], style: &Style) -> Result<GivenValue, Refusal> {
        if field == style.null.as_bytes() {
            return Ok(GivenValue::Null);
        }
        let mut plain = TrueBytes::with_capacity(field.len());
        let mut at = 0;
        while let Some(byte) = field.get(at) {
            at += 1;
            if *byte != b'\\' {
                plain.push(*byte);
                continue;
            }
            let Some(escaped) = field.get(at) else {
                plain.push(b'\\');
                break;
            };
            at += 1;
            let digits = |from: usize, most: usize, radix: u32| {
                let rest = field.get(from..).unwrap_or_default();
                let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
                rest.iter().take(most).take_while(is_digit).count()
            };
            let number = |from: usize, count: usize, radix: u32| {
                let digits = std::str::from_utf8(&field[from..from + count]).unwrap_or_default();
                u32::from_str_radix(digits, radix).map_or(0, |number| number as u8)
            };
            match escaped {
                b'b' => plain.push(0x08),
                b'f' => plain.push(0x0c),
                b'n' => plain.push(b'\n'),
                b'r' => plain.push(b'\r'),
                b't' => plain.push(b'\t'),
                b'v' => plain.push(0x0b),
                b'0'..=b'7' => {
                    let count = digits(at - 1, 3, 8);
                    plain.push(number(at - 1, count, 8));
                    at += count - 1;
                }
                b'x' if digits(at, 2, 16) > 0 => {
                    let count = digits(at, 2, 16);
                    plain.push(number(at, count, 16));
                    at += count;
                }
                other => plain.push(*other),
            }
        }
        self.field_value(&plain)
    }

    fn csv(
        &self,
        row: &[u8],
        style: &Style,
        (quote, escape): (u8, u8),
        width: usize,
    ) -> Result<Vec<GivenValue>, Refusal> {
        // One memory for all fields, of which none is longer than the row.
        let (mut fields, mut plain) = (Vec::new(), TrueBytes::with_capacity(row.len()));
        let (mut is_quoted, mut was_quoted, mut at) = (false, false, 0);
        loop {
            let byte = row.get(at).copied();
            at += 1;
            match byte {
                Some(byte) if is_quoted => {
                    let next = row.get(at).copied();
                    if byte == escape && next.is_some_and(|n| n == quote || n == escape) {
                        next.into_iter().for_each(|next| plain.push(next));
                        at += 1;
                    } else if byte == quote {
                        is_quoted = false;
                    } else {
                        plain.push(byte);
                    }
                }
                Some(byte) if byte == quote => (is_quoted, was_quoted) = (true, true),
                Some(byte) if byte != style.delimiter => plain.push(byte),
                ended => {
                    if ended.is_none() && is_quoted {
                        return Err(self.refuse_row("a quote is not closed"));
                    }
                    let is_null = !was_quoted && *plain == *style.null.as_bytes();
                    fields.push(match is_null {
                        true => GivenValue::Null,
                        false => self.field_value(&plain)?,
                    });
                    if ended.is_none() || fields.len() > width {
                        return Ok(fields);
                    }
                    plain.truncate(0);
                    was_quoted = false;
                }
            }
        }
    }

    fn field_value(&self, plain: &TrueBytes) -> Result<GivenValue, Refusal> {
        let text = plain.text().filter(|text| !text.expose().contains('\0'));
        let text = text.ok_or_else(|| self.at_line(super::not_utf8()))?;
        Ok(GivenValue::Text(text, 0))
    }

    fn check_width(&self, found: usize, wanted: usize) -> Result<(), Refusal> {
        if found < wanted {
            return Err(self.refuse_row("a row has too few values"));
        }
        if found > wanted {
            return Err(self.refuse_row("a row has too many values"));
        }
        Ok(())
    }

    fn refuse_row(&self, what: &str) -> Refusal {
        self.at_line(Refusal::new(reason::COPY_DATA, what))
    }

    /// The number of a row says nothing of its values.
    fn at_line(&self, refusal: Refusal) -> Refusal {
        let message = format!("{}, in row {} of COPY", refusal.message, self.line);
        Refusal { message, ..refusal }
    }
}

/// A row as COPY's text format has it.
fn put_row(values: &[SentValue], out: &mut BytesMut) {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.put_u8(b'\t');
        }
        let text = match value {
            SentValue::Text(text, _) => text.as_bytes(),
            SentValue::Null | SentValue::Default | SentValue::Binary(..) => {
                out.put_slice(b"\\N");
                continue;
            }
        };
        for byte in text {
            match byte {
                b'\\' => out.put_slice(b"\\\\"),
                b'\n' => out.put_slice(b"\\n"),
                b'\r' => out.put_slice(b"\\r"),
                b'\t' => out.put_slice(b"\\t"),
                other => out.put_u8(*other),
            }
        }
    }
    out.put_u8(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, WrittenRows, parse_with_writes};

    fn rows(options: &str) -> CopyRows {
        let sql = format!("COPY t (a) FROM STDIN {options}");
        match parse_with_writes(&sql).unwrap().pop() {
            Some(Statement::Write(write)) => match write.rows {
                WrittenRows::Stream(format) => CopyRows::new(&format, &MemoryShare::default()),
                WrittenRows::Values(_) => panic!("{sql}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The rows of a stream that comes in pieces of this length.
    fn split(options: &str, text: &str, length: usize) -> Vec<String> {
        let (mut rows, mut found) = (rows(options), Vec::new());
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(length).collect();
        for (at, piece) in bytes.iter().enumerate() {
            rows.add(piece, at + 1 == bytes.len()).unwrap();
            while let Some(row) = rows.next().unwrap() {
                found.push(String::from_utf8(rows.input[row].to_vec()).unwrap());
            }
        }
        found
    }

    #[test]
    fn rows_do_not_depend_on_the_pieces_they_come_in() {
        for (options, text, wanted) in [
            ("", "a\\\nb\nc\\\\\nd", vec!["a\\\nb", "c\\\\", "d"]),
            (
                "(FORMAT csv)",
                "\"a\"\"\n\"\nb,\"c\nd\"\n\"e\"",
                vec!["\"a\"\"\n\"", "b,\"c\nd\"", "\"e\""],
            ),
            (
                "(FORMAT csv, ESCAPE '\\')",
                "\"a\\\"\n\\\\\"\nb\n\"c\\x\n\"",
                vec!["\"a\\\"\n\\\\\"", "b", "\"c\\x\n\""],
            ),
        ] {
            for length in 1..=text.len() {
                assert_eq!(split(options, text, length), wanted, "{options} {length}");
            }
        }
    }

    /// What was looked at is not looked at again, and a row with too many fields is not read on.
    #[test]
    fn the_work_for_a_row_is_bounded() {
        let mut long = rows("");
        for _ in 0..1000 {
            long.add(&[b'x'; 1000], false).unwrap();
            assert!(long.next().unwrap().is_none());
            assert_eq!(long.scanned, long.input.len());
        }
        for options in ["", "(FORMAT csv, DELIMITER E'\\t')"] {
            let mut wide = rows(options);
            wide.add(&[b'\t'; 100_000], true).unwrap();
            let row = wide.next().unwrap().unwrap();
            assert_eq!(wide.fields(row, 3).unwrap().len(), 4, "{options}");
        }
    }

    /// Whether a row is too long depends on the row, and neither on the pieces it comes in nor on
    /// what stands before it.
    #[test]
    fn the_longest_row_is_one_for_all_pieces() {
        for (before, length, is_good) in [
            (0, ROW_BYTES_MAX + 1, false),
            (3, ROW_BYTES_MAX + 1, false),
            (3, ROW_BYTES_MAX, true),
        ] {
            let mut text = b"1\n".repeat(before);
            text.extend(vec![b'x'; length]);
            for end in [&b"\n2\n"[..], b""] {
                let text = [&text, end].concat();
                for piece in [1 << 20, ROW_BYTES_MAX - 1, text.len()] {
                    let mut rows = rows("");
                    let pieces: Vec<&[u8]> = text.chunks(piece).collect();
                    let mut refused = None;
                    for (at, piece) in pieces.iter().enumerate() {
                        rows.add(piece, at + 1 == pieces.len()).unwrap();
                        while refused.is_none() {
                            match rows.next() {
                                Ok(Some(_)) => {}
                                Ok(None) => break,
                                Err(refusal) => refused = Some(refusal.message),
                            }
                        }
                    }
                    let wanted = format!("a row is too long, in row {} of COPY", before + 1);
                    let wanted = (!is_good).then_some(wanted);
                    assert_eq!(refused, wanted, "{before} {length} {end:?} {piece}");
                }
            }
        }
    }

    /// What a COPY has in memory counts towards the session's share, as long as it is there.
    #[test]
    fn a_row_that_does_not_end_counts_as_memory() {
        let memory = crate::memory::MemoryBudget::default();
        let share = memory.share("ann");
        let format = rows("").format;
        let mut long = CopyRows::new(&format, &share);
        for _ in 0..100 {
            long.add(&[b'x'; 30_000], false).unwrap();
            assert!(long.next().unwrap().is_none());
            assert!(long.held.bytes() >= long.input.capacity());
        }
        assert!(memory.reading().used_and_free().0 >= 3_000_000);
        drop(long);
        assert_eq!(memory.reading().used_and_free().0, 0);
        let _greedy = share.hold(700 << 20).unwrap();
        let mut refused = CopyRows::new(&format, &share);
        let piece = vec![b'x'; 40 << 20];
        assert_eq!(refused.add(&piece, false).unwrap_err().sqlstate, "53200");
    }
}
