//! Work without a pause is bounded, in bytes and in reports.

use super::*;

/// A large piece of a stream is read in slices: each has a bounded number of reports and of bytes,
/// and together they are its rows, each once.
#[test]
fn a_large_piece_is_read_in_slices() {
    let writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
    let plan = filter_plan(&writer);
    let mut rows = CopyRows::new(&text_format(), &MemoryShare::default());
    let text: String = (0..1_000)
        .map(|unit| format!("{unit}\tyes\tno\n"))
        .collect();
    let (first, last) = text.as_bytes().split_at(text.len() - 3);
    let mut units = Vec::new();
    for (piece, is_last, slices) in [(first, false, 8), (last, true, 1)] {
        rows.add(piece, is_last).unwrap();
        let mut taken = 0;
        while let Some(slice) = rows.take(&writer, &plan).unwrap() {
            taken += 1;
            let slice = String::from_utf8(slice.to_vec()).unwrap();
            // Two reports each.
            assert!(slice.lines().count() <= SLICE_REPORTS / 2);
            for line in slice.lines() {
                let values: Vec<&str> = line.split('\t').collect();
                assert_eq!((values.len(), values[1].len()), (4, 64));
                units.push(values[0].parse::<usize>().unwrap());
            }
        }
        assert_eq!(taken, slices);
    }
    assert_eq!(units, (0..1_000).collect::<Vec<_>>());
    // Of rows with long texts, by their bytes.
    let mut wide = table("t", COIN);
    wide.columns.truncate(2);
    wide.columns.push(WrittenColumn {
        name: "note".to_owned(),
        data_type: Type::Text,
        local: None,
    });
    let writer = self::writer(wide, Some("secret"));
    let plan = filter_plan(&writer);
    let row = format!("1\tyes\t{}\n", "\u{1}".repeat(10_000));
    let mut rows = CopyRows::new(&text_format(), &MemoryShare::default());
    rows.add(row.repeat(100).as_bytes(), true).unwrap();
    let mut bytes = 0;
    while let Some(slice) = rows.take(&writer, &plan).unwrap() {
        assert!(slice.len() < (64 << 10) + row.len() + 2);
        bytes += slice.len();
    }
    assert!(bytes >= 1_000_000, "{bytes}");
}

/// The values of a large INSERT are randomised in slices, between which a cancel acts.
#[tokio::test]
async fn a_large_insert_lets_others_run() {
    let writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
    let plan = filter_plan(&writer);
    let write = filter_rows(1_000);
    let share = MemoryShare::default();
    let mut rows = std::pin::pin!(writer.rows(&plan, &write, (&[], &[]), &share));
    let mut pauses = 0;
    let sent = loop {
        match futures::poll!(rows.as_mut()) {
            std::task::Poll::Ready(sent) => break sent.unwrap(),
            std::task::Poll::Pending => pauses += 1,
        }
    };
    assert_eq!((pauses, sent.values().len()), (7, 4_000));
}

/// Many small pieces pause as often as one large one: after a slice of reports, not after each
/// piece.
#[test]
fn pauses_come_with_the_work_and_not_with_the_pieces() {
    let writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
    let plan = filter_plan(&writer);
    let mut rows = CopyRows::new(&text_format(), &MemoryShare::default());
    let mut pauses = 0;
    for unit in 0..1_000 {
        let row = format!("{unit}\tyes\tno\n");
        rows.add(row.as_bytes(), false).unwrap();
        while rows.take(&writer, &plan).unwrap().is_some() {
            pauses += usize::from(rows.wants_pause());
        }
    }
    // 2,000 reports in slices of 256.
    assert_eq!(pauses, 7);
}
