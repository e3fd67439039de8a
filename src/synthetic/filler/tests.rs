use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::*;
use crate::catalog::{TableFingerprint, Type};
use crate::policy::{KeySource, Unit};

/// Visits of people, with a unique key of these columns.
fn visits(key: &[&str]) -> Table {
    let step = UnitStep {
        column: "person".to_owned(),
        schema: "s".to_owned(),
        table: "people".to_owned(),
        referenced: "id".to_owned(),
    };
    let unit = Unit {
        path: vec![step],
        column: "id".to_owned(),
        data_type: Type::Int4,
        is_primary_key: true,
        rows_per_unit: 9,
    };
    Table {
        oid: 1,
        schema: "s".to_owned(),
        name: "visits".to_owned(),
        protection: Protection::Private(unit),
        columns: vec![
            Column::plain("person", Type::Int4),
            Column::plain("year", Type::Int4),
            Column::plain("is_follow_up", Type::Bool),
            Column::plain("note", Type::Text),
        ],
        unique_keys: vec![UniqueKey::plain(key.iter().copied(), true)],
        foreign_keys: Vec::new(),
        claimed_unique: Vec::new(),
        indexes: Vec::new(),
        fingerprint: TableFingerprint::default(),
        listing: None,
        content: None,
        lists_from: Vec::new(),
        periods: None,
        holdout: None,
    }
}

/// The sources of its columns, of which the summary has the year.
fn sources(table: &Table) -> Vec<ColumnSource> {
    let mut sources = vec![
        ColumnSource::Parent(40),
        ColumnSource::Key(SummaryKey(0)),
        ColumnSource::Listed,
        ColumnSource::Constant,
    ];
    for others in rest_of_keys(table, ColumnPosition(0)) {
        take_turns(table, &mut sources, &others);
    }
    sources
}

/// Rows of 40 people, as many each, in one of three years each.
fn made_up(table: &Table, of_each: usize) -> Filled {
    let keys = [SummaryColumn {
        steps: 0,
        table: 0,
        source: KeySource::Column(ColumnPosition(1)),
        edges: Vec::new(),
        has_ranges: false,
    }];
    let filler = Filler {
        table,
        sources: sources(table),
        keys: &keys,
    };
    let rows = 40 * of_each;
    let year = |code: i32| Some((2000 + code).to_string());
    let marginals = NoisyMarginals {
        values: vec![(0..3).map(year).collect()],
        sets: Vec::new(),
        measures: 0,
        shared: None,
    };
    let sample = Sample {
        keys: vec![(0..rows).map(|row| row * 7 % 11 % 3).collect()],
        means: Vec::new(),
    };
    let people = number_rows(&Type::Int4, 40);
    let of_rows = (0..rows).map(|row| row / of_each).collect();
    let belonging = Parents::of_rows(&people, of_rows, vec![Vec::new(); rows]);
    let mut random = ChaCha20Rng::seed_from_u64(1);
    filler.fill(&sample, &marginals, belonging, &mut random)
}

#[test]
fn a_key_column_of_few_values_throws_no_row_away() {
    let table = visits(&["person", "year", "is_follow_up"]);
    let filled = made_up(&table, 4);
    assert_eq!((filled.dropped, filled.parents.len()), (0, 160));
    let yes = filled.columns[2]
        .iter()
        .filter(|v| v.as_deref() == Some("true"));
    let yes = yes.count();
    assert!((60..=100).contains(&yes), "{yes}");
    // Two rows of a person have two values, whatever their years are.
    let filled = made_up(&table, 2);
    assert_eq!((filled.dropped, filled.copied), (0, 0));
    assert!(
        filled.columns[2]
            .chunks(2)
            .all(|of_one| of_one[0] != of_one[1])
    );
}

#[test]
fn the_column_with_the_most_values_makes_a_key_hold() {
    let table = visits(&["person", "is_follow_up", "note"]);
    let chosen = sources(&table);
    assert_eq!(chosen[2..], [ColumnSource::Listed, ColumnSource::Turn]);
    let filled = made_up(&table, 9);
    assert_eq!((filled.dropped, filled.copied), (0, 0));
}

#[test]
fn a_key_of_the_parent_alone_leaves_one_row_of_each() {
    let table = visits(&["person"]);
    let filled = made_up(&table, 3);
    assert_eq!((filled.dropped, filled.parents.len()), (80, 40));
    for (key, is_only) in [(&["person"][..], true), (&["person", "year"], false)] {
        let table = visits(key);
        let filler = Filler {
            sources: sources(&table),
            table: &table,
            keys: &[],
        };
        assert_eq!(filler.is_only_child(), is_only);
    }
}
