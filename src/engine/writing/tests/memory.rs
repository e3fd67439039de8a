//! The memory of values: what it counts as, and that it is overwritten.

use std::os::unix::fs::FileExt;

use zeroize::Zeroizing;

use super::*;
use crate::memory::MemoryBudget;

/// The values of an INSERT hold their memory as long as they are, and not as long as somebody
/// waits.
#[tokio::test]
async fn rows_hold_their_memory_until_they_are_dropped() {
    let memory = MemoryBudget::default();
    let share = memory.share("ann");
    let writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
    let plan = filter_plan(&writer);
    let rows = |share: &MemoryShare| {
        let (writer, plan, share) = (&writer, &plan, share.clone());
        async move {
            let write = filter_rows(10_000);
            writer.rows(plan, &write, (&[], &[]), &share).await
        }
    };
    let used = || memory.reading().used_and_free().0;
    let sent = rows(&share).await.unwrap();
    let bytes = |value: &SentValue| match value {
        SentValue::Text(text, _) => text.len(),
        SentValue::Null | SentValue::Default | SentValue::Binary(..) => 0,
    };
    let least = sent.values().iter().map(bytes).sum::<usize>()
        + size_of_val(sent.values())
        + sent.sql().len();
    assert!(sent.bytes_held() > least && used() == sent.bytes_held());
    // As the task that sends them has them, whose session is gone.
    drop(share);
    assert!(used() > least);
    drop(sent);
    assert_eq!(used(), 0);
    let mut stopped = Box::pin(rows(&memory.share("ann")));
    assert!(futures::poll!(stopped.as_mut()).is_pending() && used() > 0);
    drop(stopped);
    assert_eq!(used(), 0);
}

/// A report may be the longest value of its list, whatever the true one is. What is held does not
/// say which it is.
#[tokio::test]
async fn long_values_of_lists_count_whatever_is_written() {
    let mut long = table("t", Randomiser::KRr { epsilon: 1.0 });
    for column in &mut long.columns {
        if let Some(local) = &mut column.local {
            local.values = vec![
                Scalar::Text("no".to_owned()),
                Scalar::Text("yes".repeat(100_000)),
            ];
            local.places = ValuePlaces::of(&local.values);
        }
    }
    let writer = writer(long, Some("secret"));
    let plan = filter_plan(&writer);
    let share = MemoryShare::default();
    let text = |text: &str| WrittenValue::Constant(TrueText::new(text.to_owned()), 0);
    let write = |count: usize, value: &str| Write {
        rows: WrittenRows::Values(vec![vec![text("1"), text(value), text("no")]; count]),
        ..filter_rows(0)
    };
    // 2,000 reports of 300,000 bytes each do not fit, and none of them is made.
    let refused = writer
        .rows(&plan, &write(1_000, "no"), (&[], &[]), &share)
        .await;
    assert_eq!(refused.err().unwrap().sqlstate, "53200");
    let mut held = Vec::new();
    for value in ["no", &"yes".repeat(100_000)] {
        let write = write(10, value);
        let sent = writer.rows(&plan, &write, (&[], &[]), &share).await;
        held.push(sent.unwrap().bytes_held());
    }
    assert!(held[0] > 10 * 2 * 300_000 && held[0] == held[1], "{held:?}");
}

/// What a true value must not be found as, each byte changed so that the test itself has none.
const NUMBER: [u8; 9] = hidden(b"427001003");
const WORD: [u8; 9] = hidden(b"canary427");
/// What the control leaves behind.
const CONTROL: [u8; 9] = hidden(b"control42");

const fn hidden(text: &[u8; 9]) -> [u8; 9] {
    let mut made = *text;
    let mut at = 0;
    while at < made.len() {
        made[at] ^= 0x55;
        at += 1;
    }
    made
}

fn shown(hidden: &[u8; 9]) -> Zeroizing<Vec<u8>> {
    let mut made = Zeroizing::new(Vec::with_capacity(hidden.len()));
    made.extend(hidden.iter().map(|byte| byte ^ 0x55));
    made
}

/// The part of the heap that this thread's memory comes from. What it needs is allocated once, so
/// that a search overwrites nothing.
struct Heap {
    memory: std::fs::File,
    begin: u64,
    page: Vec<u8>,
}

impl Heap {
    fn of_thread() -> Self {
        let near = Box::new([0u8; 64]);
        let own = std::ptr::from_ref(&*near).addr() as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begin = maps.lines().find_map(|line| {
            let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
            let parsed = |text| u64::from_str_radix(text, 16).ok();
            let range = parsed(begin)?..parsed(end)?;
            range.contains(&own).then_some(range.start)
        });
        Self {
            memory: std::fs::File::open("/proc/self/mem").unwrap(),
            begin: begin.unwrap(),
            page: vec![0; 64 << 10],
        }
    }

    /// Whether the heap has the text, in use or free.
    fn has(&mut self, wanted: &[u8; 9]) -> bool {
        let mut at = self.begin;
        while let Ok(read @ 10..) = self.memory.read_at(&mut self.page, at) {
            if is_in(&self.page[..read], wanted) {
                return true;
            }
            at += (read - wanted.len()) as u64;
        }
        false
    }
}

/// Whether these bytes have the text. Most pieces do not even have its first byte, which is looked
/// for at once.
fn is_in(page: &[u8], wanted: &[u8; 9]) -> bool {
    const PIECE: usize = 32;
    let first = wanted[0] ^ 0x55;
    let pieces = page.chunks(PIECE).enumerate();
    let mut pieces = pieces.filter(|(_, piece)| piece.contains(&first));
    pieces.any(|(number, piece)| {
        let begins = (number * PIECE..).take(piece.len());
        let mut begins = begins.filter(|at| page[*at] == first);
        begins.any(|at| {
            let found = page[at..].iter().map(|byte| byte ^ 0x55);
            found.take(wanted.len()).eq(*wanted)
        })
    })
}

/// A table of a unit, a number, a word and a note.
fn survey() -> WrittenTable {
    let mut made = table("t", Randomiser::KRr { epsilon: 1.0 });
    let number = made.columns[1].local.as_mut().unwrap();
    number.randomiser = Randomiser::Mean { epsilon: 1.0 };
    number.odds = Odds::of(&number.randomiser, 2).unwrap();
    number.bounds = Some((0.0, 1e9));
    made.columns[3].name = "note".to_owned();
    made
}

/// A hidden text many times over: an allocator writes its own marks over the first bytes of what is
/// freed, and may use some of the rest again at once.
fn long(hidden: &[u8; 9], times: usize) -> Zeroizing<Vec<u8>> {
    let one = shown(hidden);
    let mut made = Zeroizing::new(Vec::with_capacity(times * one.len()));
    for _ in 0..times {
        made.extend_from_slice(&one);
    }
    made
}

/// A number within the bounds, whose decimals are the same digits again and again.
fn long_number() -> Zeroizing<Vec<u8>> {
    let whole = shown(&NUMBER);
    let decimals = long(&NUMBER, 300);
    let mut made = Zeroizing::new(Vec::with_capacity(whole.len() + 1 + decimals.len()));
    made.extend_from_slice(&whole);
    made.push(b'.');
    made.extend_from_slice(&decimals);
    made
}

/// True values that are written are in no memory afterwards: neither where the buffer had to grow
/// with them in it, nor where one was refused, nor where it came in binary.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn true_values_are_overwritten() {
    let mut heap = Heap::of_thread();
    leave_behind(long(&CONTROL, 300));
    assert!(heap.has(&CONTROL), "what is freed as it is would be found");
    let writer = writer(survey(), Some("secret"));
    let table = &writer.writing.tables[0];
    let plan = WritePlan {
        table,
        columns: table.columns.iter().collect(),
    };
    let sql = "COPY t (a) FROM STDIN (FORMAT csv, DELIMITER E'\\t', NULL '\\N')";
    let Some(crate::parse::Statement::Write(copy)) =
        crate::parse::parse_with_writes(sql).unwrap().pop()
    else {
        panic!("{sql}")
    };
    let WrittenRows::Stream(csv) = copy.rows else {
        panic!("{sql}")
    };
    let mut is_clean = |what: &str| {
        assert!(!heap.has(&NUMBER), "the number is left behind: {what}");
        assert!(!heap.has(&WORD), "the word is left behind: {what}");
    };
    is_clean("before");
    for (format, quote) in [(text_format(), &b""[..]), (csv, b"\"")] {
        for is_listed in [true, false] {
            copied(&writer, &plan, (&format, quote, is_listed), &mut is_clean);
        }
    }
    insert_in_binary(&writer, &plan).await;
    is_clean("a parameter in binary");
    insert_of_literal(&writer, &plan).await;
    is_clean("a literal");
    read_by_type(table, &mut is_clean);
}

/// Frees the bytes as they are.
fn leave_behind(bytes: Zeroizing<Vec<u8>>) {
    drop(bytes.to_vec());
}

/// One row of COPY, byte by byte, while the memory that holds it grows. What has read it is still
/// there where the memory is searched.
fn copied(
    writer: &TableWriter,
    plan: &WritePlan<'_>,
    (format, quote, is_listed): (&crate::parse::CopyFormat, &[u8], bool),
    is_clean: &mut dyn FnMut(&str),
) {
    let mut rows = CopyRows::new(format, &MemoryShare::default());
    {
        let number = long_number();
        let word = match is_listed {
            true => Zeroizing::new(b"yes".to_vec()),
            false => long(&WORD, 300),
        };
        let parts = [
            b"7\t", quote, &number, quote, b"\t", quote, &word, quote, b"\t",
        ];
        for part in parts {
            for byte in part {
                rows.add(std::slice::from_ref(byte), false).unwrap();
            }
        }
    }
    // It grows with the values in it.
    for _ in 0..100 {
        rows.add(&[b'x'; 100], false).unwrap();
        assert!(rows.take(writer, plan).unwrap().is_none());
    }
    rows.add(b"\n", false).unwrap();
    match rows.take(writer, plan) {
        Ok(sent) => {
            assert!(sent.is_some() && is_listed);
            // What was read is cut as the next piece comes.
            rows.add(b"8", false).unwrap();
            is_clean("a row of COPY");
        }
        // Its session ends the COPY.
        Err(refusal) => assert!(refusal.sqlstate == "22023" && !is_listed),
    }
    drop(rows);
    is_clean("a COPY that has ended");
}

/// A value of a list in each type whose form is made from what was given. None is in the list.
/// Digits stand before the hidden ones of short texts, where the allocator's marks are.
fn read_by_type(table: &WrittenTable, is_clean: &mut dyn FnMut(&str)) {
    let column = &table.columns[2];
    let local = column.local.as_ref().unwrap();
    for (data_type, before, times, after) in [
        (Type::Text, "", 300, ""),
        (Type::Numeric(None), "1", 300, ".50"),
        (Type::Numeric(None), "-1", 300, "e30"),
        (Type::Numeric(Some((9, 2))), "11111111111111111111", 1, ""),
        (Type::Float8, "-1", 30, ".25"),
        (Type::Uuid, "11111111111111111111", 1, "000"),
        (Type::Char(Some(200)), "1", 20, " "),
    ] {
        let what = format!("a value of {data_type:?}");
        let column = WrittenColumn {
            data_type,
            ..column.clone()
        };
        let refused = {
            let mut given = crate::parse::TrueBytes::default();
            given.extend(before.as_bytes());
            given.extend(&long(&NUMBER, times));
            given.extend(after.as_bytes());
            let text = given.text().unwrap();
            TrueValue::read(&column, local, &text).err().unwrap()
        };
        assert_eq!(refused.sqlstate.as_str(), "22023");
        is_clean(&what);
    }
}

/// The rows of a COPY count from when they are made until the next ones are asked for, which is
/// when the database has them.
#[test]
fn rows_that_are_made_count_as_memory() {
    let memory = MemoryBudget::default();
    let share = memory.share("ann");
    let used = || memory.reading().used_and_free().0;
    let writer = writer(survey(), Some("secret"));
    let table = &writer.writing.tables[0];
    let plan = WritePlan {
        table,
        columns: table.columns.iter().collect(),
    };
    let mut rows = CopyRows::new(&text_format(), &share);
    let row = [&b"7\t5\tyes\t"[..], &[b'x'; 1 << 20], b"\n"].concat();
    rows.add(&row, false).unwrap();
    let before = used();
    let sent = rows.take(&writer, &plan).unwrap().unwrap();
    assert!(sent.len() > 1 << 20 && used() >= before + (8 << 20));
    drop(sent);
    assert!(rows.take(&writer, &plan).unwrap().is_none());
    assert_eq!(used(), before);
    // Where there is no room for it, the row is not made.
    rows.add(&row, false).unwrap();
    let mut others = share.begin();
    while others.add(1 << 20).is_ok() {}
    let refused = rows.take(&writer, &plan).unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "53200");
}

/// A unit counts as what the database gets, which may be far longer than what was given.
#[tokio::test]
async fn units_count_in_their_column_s_form() {
    let mut made = table("t", Randomiser::Rappor(FILTER));
    made.columns[0].data_type = Type::Numeric(None);
    let writer = writer(made, Some("secret"));
    let plan = filter_plan(&writer);
    let share = MemoryShare::default();
    let mut held = Vec::new();
    for unit in ["1", "1e399"] {
        let text = |text: &str| WrittenValue::Constant(TrueText::new(text.to_owned()), 0);
        let write = Write {
            rows: WrittenRows::Values(vec![vec![text(unit), text("yes"), text("no")]; 10]),
            ..filter_rows(0)
        };
        let sent = writer.rows(&plan, &write, (&[], &[]), &share).await;
        held.push(sent.unwrap().bytes_held());
    }
    assert!(held[1] >= held[0] + 10 * 2 * (400 - 40), "{held:?}");
}

/// One row, whose number comes in binary: groups of four digits, of which the decimals are the
/// hidden ones again and again.
async fn insert_in_binary(writer: &TableWriter, plan: &WritePlan<'_>) {
    let digits = long(&NUMBER, 4);
    let group = |four: &[u8]| {
        let digit = |byte: &u8| u16::from(byte - b'0');
        four.iter()
            .fold(0, |number, byte| 10 * number + digit(byte))
    };
    let (whole, decimals) = (shown(&NUMBER), digits.chunks(4).map(group));
    let decimals: Vec<u16> = decimals.collect();
    let mut words = vec![group(&whole[..1]), group(&whole[1..5]), group(&whole[5..])];
    for _ in 0..11 {
        words.extend(&decimals);
    }
    let scale = 11 * digits.len() as u16;
    let head = [words.len() as u16, 2, 0, scale];
    let bytes = head
        .iter()
        .chain(&words)
        .flat_map(|word| word.to_be_bytes());
    let bytes: Vec<u8> = bytes.collect();
    let argument = Argument {
        value: Some(Bytes::from(bytes)),
        format: Format::Binary,
    };
    let values = (&[1700][..], &[argument][..]);
    insert(writer, plan, WrittenValue::Parameter(1, 0), values).await;
}

/// One row, whose number is a constant of the statement.
async fn insert_of_literal(writer: &TableWriter, plan: &WritePlan<'_>) {
    let text = String::from_utf8(long_number().to_vec()).unwrap();
    let value = WrittenValue::Constant(TrueText::new(text), 0);
    insert(writer, plan, value, (&[], &[])).await;
}

async fn insert(
    writer: &TableWriter,
    plan: &WritePlan<'_>,
    number: WrittenValue,
    values: (&[u32], &[Argument]),
) {
    let text = |text: &str| WrittenValue::Constant(TrueText::new(text.to_owned()), 0);
    let write = Write {
        target: filter_rows(0).target,
        rows: WrittenRows::Values(vec![vec![
            text("7"),
            number,
            text("yes"),
            WrittenValue::Null,
        ]]),
    };
    let share = MemoryShare::default();
    let sent = writer.rows(plan, &write, values, &share);
    assert_eq!(sent.await.unwrap().values().len(), 4);
}
