use super::*;
use crate::rewrite::{Cell, Column, FoldBlock, FoldResult};

/// Rows of a unit and a group, with one sum in one bin.
fn sums(reading: CellReading) -> Fold {
    Fold {
        groups: vec![Column::Integer],
        cells: vec![Cell {
            reading,
            most: 1 << 62,
        }],
        result: FoldResult::Bins {
            kept: None,
            blocks: vec![FoldBlock {
                cells: Vec::new(),
                thresholds: Vec::new(),
            }],
        },
    }
}

fn add(folding: &mut Folding, row: &[Option<[u8; 8]>]) {
    let column = |at: usize| row[at].as_ref().map(|bytes| &bytes[..]);
    folding.add(column).unwrap();
}

/// A sum that eight bytes do not hold on the way, in each order.
#[test]
fn no_sum_depends_on_the_order_of_rows() {
    let large = i64::MAX - 3;
    for order in [
        [large, large, -large],
        [large, -large, large],
        [-large, large, large],
    ] {
        let mut folding = Folding::new(sums(CellReading::WideInteger), 1 << 20);
        for value in order {
            let row = [1, 5, value].map(|n: i64| Some(n.to_be_bytes()));
            add(&mut folding, &row);
        }
        assert!(!folding.end_reading());
        let most = (1i64 << 62).to_string();
        let row = ["5", "1", &most, "1"].map(|text| Some(text.to_owned()));
        assert_eq!(folding.rows(), [row.to_vec()], "{order:?}");
    }
}

/// NULL adds nothing; a column of another type is no row.
#[test]
fn a_row_is_read_as_its_columns_say() {
    let mut folding = Folding::new(sums(CellReading::Integer), 1 << 20);
    let number = |n: i64| Some(n.to_be_bytes());
    add(&mut folding, &[number(1), None, None]);
    add(&mut folding, &[number(1), None, number(-7)]);
    let three = [0u8; 3];
    assert_eq!(folding.add(|_| Some(&three[..])), Err(FoldError::UnlikeRow));
    assert_eq!(folding.add(|_| None), Err(FoldError::UnlikeRow));
    assert!(!folding.end_reading());
    let row = [None, Some("1"), Some("-7"), Some("1")].map(|text| text.map(str::to_owned));
    assert_eq!(folding.rows(), [row.to_vec()]);
}

/// How many of 2,000 statements leave units to another reading, where `units` have one row each.
fn readings(units: i64) -> usize {
    let parted = |_: &usize| {
        let mut folding = Folding::new(sums(CellReading::EveryRow), 20_000);
        for unit in 0..units {
            add(&mut folding, &[Some(unit.to_be_bytes()), None]);
        }
        folding.is_too_large()
    };
    (0..2_000).filter(parted).count()
}

/// Up to half of the size never, past it always, and one unit more in between adds a small share. A
/// chance of one in 10^9 that a right program fails: 6 standard deviations.
#[test]
fn a_reading_more_is_drawn_smoothly() {
    let each = (2 * ENTRY_BYTES + 2 * size_of::<u64>()) as i64;
    assert_eq!(readings(10_000 / each), 0);
    assert_eq!(readings(20_000 / each + 1), 2_000);
    for (units, share) in [(13_000 / each, 0.3), (17_000 / each, 0.7)] {
        let wanted = 2_000.0 * share;
        let found = readings(units) as f64;
        // A unit is 1.1 % of half the size.
        let off = 6.0 * (2_000.0f64 * share * (1.0 - share)).sqrt() + 2_000.0 * 0.02;
        assert!((found - wanted).abs() < off, "{units}: {found} of {wanted}");
    }
}

#[test]
fn at_most_sixteen_readings() {
    let mut folding = Folding::new(sums(CellReading::EveryRow), 2_000);
    let mut readings = 0;
    loop {
        for unit in 0..500i64 {
            add(&mut folding, &[Some(unit.to_be_bytes()), None]);
            if folding.is_too_large() {
                folding.halve();
            }
        }
        readings += 1;
        if !folding.end_reading() {
            break;
        }
    }
    assert_eq!(readings, 16);
    let row = [None, Some("1"), Some("500"), Some("500")].map(|text| text.map(str::to_owned));
    assert_eq!(folding.rows(), [row.to_vec()]);
}

/// Every unit has two values of one hash and counts for one: for the same one, whichever came first
/// and whoever.
#[test]
fn pairs_of_one_hash_are_taken_by_themselves() {
    let texts: [&[u8]; 2] = [b"xN1Ut9JXZWWxmmmmmmmmmmmm", b"DDtRD0nyVvu3][_l`!4y`se1"];
    for first in [0, 1] {
        let fold = Fold {
            groups: vec![Column::Bytes],
            cells: Vec::new(),
            result: FoldResult::Distinct {
                keys: 0,
                in_all: 1,
                in_group: 1,
                skips_null: true,
            },
        };
        let mut folding = Folding::new(fold, 1 << 20);
        for unit in 0..40u64 {
            for turn in 0..2 {
                let text = texts[(first + turn + unit as usize) % 2];
                let unit = unit.to_be_bytes();
                let column = |at| Some(if at == 0 { &unit[..] } else { text });
                folding.add(column).unwrap();
            }
        }
        folding.end_reading();
        assert_eq!(folding.rows(), [[Some("1".to_owned())]]);
    }
}
