//! The words of memoised reports, and rows of COPY.

use super::*;
use crate::policy::Secret;

fn table(name: &str, odds: Odds) -> WrittenTable {
    let local = Local {
        odds,
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

const COIN: Odds = Odds::Coin {
    hit: 3 << 62,
    miss: 1 << 62,
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
    assert_eq!(format!("{known:016x}"), "970a819e37e29dbc");
    let finer = Odds::Coin {
        hit: 3 << 62,
        miss: (1 << 62) + 1,
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
