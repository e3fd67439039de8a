//! The words of memoised reports, and rows of COPY.

mod lease;
mod memory;
mod slices;

use super::*;
use crate::mechanism::{Randomiser, Randomness, Rappor};
use crate::policy::{Secret, ValuePlaces, WrittenCohorts, WrittenFilter};

/// The format of a COPY without options.
fn text_format() -> crate::parse::CopyFormat {
    crate::parse::CopyFormat::Text(crate::parse::Style {
        delimiter: b'\t',
        null: "\\N".to_owned(),
        has_header: false,
    })
}

fn table(name: &str, randomiser: Randomiser) -> WrittenTable {
    let values = vec![
        Scalar::Text("no".to_owned()),
        Scalar::Text("yes".to_owned()),
    ];
    let local = Local {
        randomiser,
        odds: Odds::of(&randomiser, 2).unwrap(),
        places: ValuePlaces::of(&values),
        values,
        filter: filter_of(&randomiser),
        bounds: None,
        may_be_null: false,
        group: 0,
    };
    let column = |name: &str, local| WrittenColumn {
        name: name.to_owned(),
        data_type: Type::Text,
        local,
    };
    WrittenTable {
        oid: 1,
        schema: "s".to_owned(),
        name: name.to_owned(),
        unit: "unit".to_owned(),
        columns: vec![
            column("unit", None),
            column("a", Some(local.clone())),
            column("b", Some(local)),
            column("cohort", None),
        ],
        cohorts: filter_of(&randomiser)
            .map(|filter| WrittenCohorts {
                column: filter.cohort,
                cohorts: filter.rappor.cohorts,
            })
            .into_iter()
            .collect(),
        shows_constraints: false,
    }
}

fn filter_of(randomiser: &Randomiser) -> Option<WrittenFilter> {
    let Randomiser::Rappor(rappor) = *randomiser else {
        return None;
    };
    let cohort = "cohort".to_owned();
    Some(WrittenFilter { rappor, cohort })
}

const COIN: Randomiser = Randomiser::Coin {
    truth: 0.5,
    yes: 0.5,
};

fn word(table: &WrittenTable, secret: &str, column: usize, unit: &str, value: &str) -> u64 {
    let secret = Secret::from(secret.to_owned());
    let writing = Writing {
        url: secret.clone(),
        secret: None,
        tables: vec![table.clone()],
    };
    let value = TrueText::new(value.to_owned());
    let memo = Memo::new(&secret, &writing);
    let mut words = memo.words((table, &table.columns[column], unit), &value);
    let first = words.next_u64().unwrap();
    assert_ne!(first, words.next_u64().unwrap());
    first
}

/// Words are the same in every version; any other secret, table, column, odds, unit or value gives
/// others, also where the parts together are the same text.
#[test]
fn words_depend_on_each_part_of_their_name() {
    let t = table("t", COIN);
    let known = word(&t, "secret", 1, "7", "yes");
    assert_eq!(known, word(&t, "secret", 1, "7", "yes"));
    assert_eq!(format!("{known:016x}"), "cd591b8d5238a8e9");
    let finer = Randomiser::Coin {
        truth: 0.5,
        yes: 0.5f64.next_up(),
    };
    for other in [
        word(&t, "secre", 1, "7", "yes"),
        word(&table("u", COIN), "secret", 1, "7", "yes"),
        word(&t, "secret", 2, "7", "yes"),
        word(&table("t", finer), "secret", 1, "7", "yes"),
        word(&t, "secret", 1, "7y", "es"),
        word(&t, "secret", 1, "7", "no"),
        word(&t, "secret", 1, "", "7yes"),
    ] {
        assert_ne!(other, known);
    }
}

/// The law of words is what the policy declares: odds that another version computes otherwise in
/// the last digit give the same words.
#[test]
fn words_do_not_depend_on_computed_odds() {
    let declared = table("t", COIN);
    let mut computed = declared.clone();
    for column in &mut computed.columns {
        if let Some(local) = &mut column.local {
            local.odds = Odds::Coin { hit: 3, miss: 1 };
        }
    }
    let of = |table: &WrittenTable| word(table, "secret", 1, "7", "yes");
    assert_eq!(of(&declared), of(&computed));
}

/// A unit has one text, whatever its spelling and its declared type; what PostgreSQL would write
/// otherwise than it is read here is refused.
#[test]
fn a_unit_has_one_form() {
    let unit = |data_type: Type, given: GivenValue| {
        let mut table = table("t", COIN);
        table.columns[0].data_type = data_type;
        let plan = WritePlan {
            table: &table,
            columns: table.columns.iter().collect(),
        };
        let unit = plan.unit(&[given]).ok()?;
        Some(unit.expose().to_owned())
    };
    let text = |text: &str, oid| GivenValue::Text(TrueText::new(text.to_owned()), oid);
    let binary = |bytes: &[u8], oid| GivenValue::Binary(Bytes::copy_from_slice(bytes), oid);
    let id = "0a000000-0000-0000-0000-00000000000f";
    for (data_type, given, wanted) in [
        (Type::Text, text("007", 0), Some("007")),
        (Type::Text, text("007", 25), Some("007")),
        (Type::Text, text("007", 23), None),
        (Type::Text, text("7.0", 1700), None),
        (Type::Text, text("7 ", 1042), None),
        (Type::Text, binary(&[0, 0, 0, 7], 23), None),
        (Type::Int4, text("007", 25), Some("7")),
        (Type::Int4, text(" +7", 0), Some("7")),
        (Type::Int4, binary(&[0, 7], 21), Some("7")),
        (Type::Int4, binary(&7i64.to_be_bytes(), 20), Some("7")),
        (Type::Int4, text("7", 1700), None),
        (Type::Int4, binary(&7f64.to_be_bytes(), 701), None),
        (Type::Char(Some(5)), text("a  ", 0), Some("a")),
        (
            Type::Uuid,
            text(&id.replace('-', "").to_uppercase(), 0),
            Some(id),
        ),
        (Type::Uuid, text(id, 2950), Some(id)),
        (
            Type::Date,
            binary(&1i32.to_be_bytes(), 1082),
            Some("2000-01-02"),
        ),
        (Type::Date, text("01/02/2000", 0), None),
        (Type::Date, text("2000-01-02", 1114), None),
    ] {
        let shown = format!("{data_type} {wanted:?}");
        assert_eq!(unit(data_type, given).as_deref(), wanted, "{shown}");
    }
}

const FILTER: Rappor = Rappor {
    bits: 64,
    hashes: 2,
    cohorts: 32,
    f: 0.5,
    p: 0.25,
    q: 0.75,
};

fn memo_of(table: &WrittenTable, secret: &str) -> Memo {
    let secret = Secret::from(secret.to_owned());
    let writing = Writing {
        url: secret.clone(),
        secret: None,
        tables: vec![table.clone()],
    };
    Memo::new(&secret, &writing)
}

/// The four words at the beginning of a value's permanent bits, and the fifth.
fn filter_words(
    table: &WrittenTable,
    secret: &str,
    column: usize,
    (unit, cohort, value): (&str, u32, &str),
) -> [u64; 5] {
    let memo = memo_of(table, secret);
    let named = (table, &table.columns[column], unit);
    let mut words = memo.filter_words(named, (cohort, value));
    [0, 1, 2, 3, 4].map(|place| words.word(place).unwrap())
}

/// Permanent bits are the same in every version, and depend on each part of their name. The odds of
/// the second stage, the number of cohorts and the list are none.
#[test]
fn permanent_bits_depend_on_each_part_of_their_name() {
    let t = table("t", Randomiser::Rappor(FILTER));
    let known = filter_words(&t, "secret", 1, ("7", 3, "yes"));
    assert_eq!(known, filter_words(&t, "secret", 1, ("7", 3, "yes")));
    assert_eq!(format!("{:016x}", known[0]), "d021c7c11fc9b2cb");
    for (at, word) in known.iter().enumerate() {
        assert!(!known[..at].contains(word), "{known:?}");
    }
    let of = |of: Rappor| table("t", Randomiser::Rappor(of));
    let others = [
        filter_words(&t, "secre", 1, ("7", 3, "yes")),
        filter_words(
            &table("u", Randomiser::Rappor(FILTER)),
            "secret",
            1,
            ("7", 3, "yes"),
        ),
        filter_words(&t, "secret", 2, ("7", 3, "yes")),
        filter_words(&t, "secret", 1, ("8", 3, "yes")),
        filter_words(&t, "secret", 1, ("7", 4, "yes")),
        filter_words(&t, "secret", 1, ("7", 3, "no")),
        filter_words(
            &of(Rappor { bits: 65, ..FILTER }),
            "secret",
            1,
            ("7", 3, "yes"),
        ),
        filter_words(
            &of(Rappor {
                hashes: 3,
                ..FILTER
            }),
            "secret",
            1,
            ("7", 3, "yes"),
        ),
        filter_words(
            &of(Rappor { f: 0.75, ..FILTER }),
            "secret",
            1,
            ("7", 3, "yes"),
        ),
    ];
    for other in others {
        assert!(known.iter().all(|word| !other.contains(word)), "{other:?}");
    }
    // No word of a memo of other mechanisms.
    let single = memo_of(&t, "secret");
    let value = TrueText::new("yes".to_owned());
    let word = single.words((&t, &t.columns[1], "7"), &value).next_u64();
    assert!(!known.contains(&word.unwrap()));
    let mut longer = of(Rappor {
        p: 0.5,
        q: 0.625,
        cohorts: 64,
        ..FILTER
    });
    for column in &mut longer.columns {
        if let Some(local) = &mut column.local {
            local.values.push(Scalar::Text("perhaps".to_owned()));
        }
    }
    assert_eq!(known, filter_words(&longer, "secret", 1, ("7", 3, "yes")));
}

/// A unit's cohort depends on the unit, whatever is written of it, and all cohorts occur alike.
#[test]
fn a_unit_has_one_cohort() {
    let t = table("t", Randomiser::Rappor(FILTER));
    let cohorts = |table: &WrittenTable, secret: &str| -> Vec<u32> {
        let memo = memo_of(table, secret);
        let cohort = |unit: u32| memo.cohort((table, &table.cohorts[0], &unit.to_string()));
        (0..3_200).map(|unit| cohort(unit).unwrap()).collect()
    };
    let known = cohorts(&t, "secret");
    assert_eq!(known, cohorts(&t, "secret"));
    assert_eq!(known[..8], [14, 10, 24, 15, 27, 13, 12, 6]);
    assert_ne!(known, cohorts(&t, "another secret"));
    assert_ne!(
        known,
        cohorts(&table("u", Randomiser::Rappor(FILTER)), "secret")
    );
    for cohort in 0..32 {
        let units = known.iter().filter(|of| **of == cohort).count();
        // 100 are expected, and 60 are off by four standard errors.
        assert!((60..140).contains(&units), "{cohort}: {units}");
    }
}

/// A writer of the table, with this memo.
fn writer(table: WrittenTable, secret: Option<&str>) -> TableWriter {
    let url = Secret::from("postgresql://nowhere".to_owned());
    let secret = secret.map(|text| Secret::from(text.to_owned()));
    let writing = Writing {
        url: url.clone(),
        secret: secret.clone(),
        tables: vec![table],
    };
    let memo = secret.as_ref().map(|secret| Memo::new(secret, &writing));
    TableWriter {
        granted: BTreeMap::new(),
        known: Vec::new(),
        memo,
        pool: WriterPool::new(&url, std::time::Duration::from_secs(1), Arc::default()),
        writing,
    }
}

/// One row of the columns `unit`, `a` and `b`, as the database gets it.
fn sent_row(writer: &TableWriter, unit: &str, values: [&str; 2]) -> Result<Vec<String>, Refusal> {
    let table = &writer.writing.tables[0];
    let plan = WritePlan {
        table,
        columns: table.columns[..3].iter().collect(),
    };
    let text = |text: &str| GivenValue::Text(TrueText::new(text.to_owned()), 0);
    let given = [unit, values[0], values[1]].map(text).into_iter().collect();
    let mut sent = Vec::new();
    writer.row(&plan, given, &mut OsRandomness::new(), &mut sent)?;
    assert_eq!(sent.len(), plan.sent_width());
    let shown = |value: SentValue| match value {
        SentValue::Text(text, 0) => text,
        SentValue::Null | SentValue::Default | SentValue::Text(..) | SentValue::Binary(..) => {
            panic!("a text without a type")
        }
    };
    Ok(sent.into_iter().map(shown).collect())
}

/// Each of 4,000 reports of one person and value is drawn anew from the same permanent bits. A bit
/// is set as often as `q` says in some places and as `p` says in the others, in the same ones each
/// time, and these are those of the memo. Were the second stage memoised, all would be equal; were
/// it first, a bit would be set in all or in none.
#[test]
fn permanent_bits_stay_and_reports_are_drawn_anew() {
    let t = table("t", Randomiser::Rappor(FILTER));
    let writer = writer(t.clone(), Some("secret"));
    let memo = memo_of(&t, "secret");
    let cohort = memo.cohort((&t, &t.cohorts[0], "7")).unwrap();
    let named = (&t, &t.columns[1], "7");
    let mut words = memo.filter_words(named, (cohort, "yes"));
    let kept = FILTER.permanent((cohort, "yes"), |place| words.word(place));
    let kept = kept.unwrap();
    let mut set = [0u32; 64];
    let mut reports = std::collections::BTreeSet::new();
    for _ in 0..4_000 {
        let [unit, a, b, own] =
            <[String; 4]>::try_from(sent_row(&writer, "7", ["yes", "no"]).unwrap()).unwrap();
        assert_eq!((unit.as_str(), own), ("7", cohort.to_string()));
        assert_eq!((a.len(), b.len()), (64, 64));
        for (at, bit) in a.bytes().enumerate() {
            set[at] += u32::from(bit == b'1');
        }
        reports.insert(a);
    }
    // That two are equal has probability below 1e-6.
    assert_eq!(reports.len(), 4_000);
    for (at, kept) in kept.iter().enumerate() {
        // 3,000 and 1,000 are expected, off by 27; 1,500 is 18 standard errors away.
        assert_eq!(set[at] > 2_000, *kept, "{at}: {set:?}");
        let wanted = if *kept { 3_000 } else { 1_000 };
        assert!(set[at].abs_diff(wanted) < 200, "{at}: {set:?}");
    }
    // Other units have other permanent bits, and so have other columns and values.
    let (mut of_other, mut of_b) = (
        memo.filter_words((&t, &t.columns[1], "8"), (cohort, "yes")),
        memo.filter_words((&t, &t.columns[2], "7"), (cohort, "yes")),
    );
    let other = FILTER
        .permanent((cohort, "yes"), |place| of_other.word(place))
        .unwrap();
    let b = FILTER
        .permanent((cohort, "yes"), |place| of_b.word(place))
        .unwrap();
    assert!(kept != other && kept != b && other != b);
}

/// Without a memo nothing is written; a value that is not listed is refused.
#[test]
fn a_filter_needs_a_memo_and_a_listed_value() {
    let t = table("t", Randomiser::Rappor(FILTER));
    let refused = sent_row(&writer(t.clone(), None), "7", ["yes", "no"]).unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "XX000");
    let refused = sent_row(&writer(t, Some("secret")), "7", ["yes", "perhaps"]).unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "22023");
    assert!(!format!("{refused:?}").contains("perhaps"));
}

/// Rows of the columns `unit`, `a` and `b`, by a statement.
fn filter_rows(count: usize) -> Write {
    let text = |text: &str| WrittenValue::Constant(TrueText::new(text.to_owned()), 0);
    let row = |unit: usize| vec![text(&unit.to_string()), text("yes"), text("no")];
    Write {
        target: WriteTarget {
            table: vec!["t".to_owned()],
            columns: ["unit", "a", "b"].map(str::to_owned).to_vec(),
        },
        rows: WrittenRows::Values((0..count).map(row).collect()),
    }
}

fn filter_plan(writer: &TableWriter) -> WritePlan<'_> {
    let table = &writer.writing.tables[0];
    WritePlan {
        table,
        columns: table.columns[..3].iter().collect(),
    }
}

/// What pgveil adds counts too: the database takes 65,535 values of one statement.
#[tokio::test]
async fn cohorts_count_among_the_values_of_an_insert() {
    let writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
    let plan = filter_plan(&writer);
    // 60,000 values of the client and 20,000 cohorts.
    let write = filter_rows(20_000);
    let share = MemoryShare::default();
    let refused = writer.rows(&plan, &write, (&[], &[]), &share);
    let refused = futures::poll!(std::pin::pin!(refused));
    let std::task::Poll::Ready(Err(refused)) = refused else {
        panic!("it was not refused at once")
    };
    assert_eq!(refused.sqlstate.as_str(), "54001");
    assert!(refused.hint.unwrap().contains("COPY FROM STDIN"));
    assert!(check_parameters(65_535).is_ok() && check_parameters(65_536).is_err());
}
