//! The words of memoised reports, and rows of COPY.

use super::*;
use crate::mechanism::Randomiser;
use crate::policy::Secret;

fn table(name: &str, randomiser: Randomiser) -> WrittenTable {
    let local = Local {
        randomiser,
        odds: Odds::of(&randomiser, 2).unwrap(),
        values: vec![
            Scalar::Text("no".to_owned()),
            Scalar::Text("yes".to_owned()),
        ],
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
        ],
    }
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
