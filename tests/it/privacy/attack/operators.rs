//! Operators bind as in PostgreSQL: random expressions without their parentheses, below and above
//! the cut, against PostgreSQL itself.

use super::fuzz::Dice;
use super::{ours, rich, theirs};
use crate::fixture::Veil;

/// Statements a side.
const STATEMENTS: usize = 120;

struct Grammar {
    numbers: &'static [&'static str],
    booleans: &'static [&'static str],
    texts: &'static [&'static str],
}

/// Over rows.
const BELOW: Grammar = Grammar {
    numbers: &[
        "birth_year",
        "years_of_school",
        "college_graduate",
        "1945",
        "12",
        "2.5",
        "-3",
    ],
    booleans: &["race = 'white'", "true", "NULL", "birth_year > 1947"],
    texts: &[
        "race",
        "'white'",
        "lower(race)",
        "years_of_school::text",
        "substr(race, 2)",
        "substring(race FROM 1 FOR 2)",
    ],
};

/// Over groups, whose keys are expressions.
const ABOVE: Grammar = Grammar {
    numbers: &[
        "birth_year % 2",
        "count(*)",
        "sum(years_of_school)",
        "7",
        "-3",
        "2 ^ 2 % 7",
        "- birth_year % 2",
    ],
    booleans: &[
        "years_of_school > 12",
        "true",
        "NULL",
        "race = 'white'",
        "NOT years_of_school > 12",
    ],
    texts: &[
        "race",
        "'wh'",
        "race || 'x'",
        "birth_year % 2 || race",
        "left(race, 2)",
    ],
};

impl Grammar {
    fn number(&self, dice: &mut Dice, depth: u32) -> String {
        match if depth == 0 { 0 } else { dice.roll(8) } {
            0 | 1 => dice.pick(self.numbers).to_owned(),
            2..=4 => {
                let operator = dice.pick(&["+", "-", "*", "/", "%"]);
                format!(
                    "{} {operator} {}",
                    self.number(dice, depth - 1),
                    self.number(dice, depth - 1)
                )
            }
            5 => format!("- {}", self.number(dice, depth - 1)),
            6 => format!(
                "{}::{}",
                self.number(dice, depth - 1),
                dice.pick(&["int", "bigint", "numeric"])
            ),
            _ => format!(
                "CASE WHEN {} THEN {} END",
                self.boolean(dice, depth - 1),
                self.number(dice, depth - 1)
            ),
        }
    }

    fn boolean(&self, dice: &mut Dice, depth: u32) -> String {
        let not = dice.pick(&["", "NOT "]);
        match if depth == 0 { 0 } else { dice.roll(9) } {
            0 => dice.pick(self.booleans).to_owned(),
            1 | 2 => format!(
                "{} {} {}",
                self.boolean(dice, depth - 1),
                dice.pick(&["AND", "OR"]),
                self.boolean(dice, depth - 1)
            ),
            3 => format!("NOT {}", self.boolean(dice, depth - 1)),
            4 => format!(
                "{} {} {}",
                self.number(dice, depth - 1),
                dice.pick(&["=", "<", "<>", ">="]),
                self.number(dice, depth - 1)
            ),
            5 => format!(
                "{} {not}BETWEEN {} AND {}",
                self.number(dice, depth - 1),
                self.number(dice, 0),
                self.number(dice, depth - 1)
            ),
            6 => format!(
                "{} {not}IN ({}, 12)",
                self.number(dice, depth - 1),
                self.number(dice, depth - 1)
            ),
            7 => format!(
                "{} IS {not}{}",
                self.boolean(dice, depth - 1),
                dice.pick(&["TRUE", "UNKNOWN", "NULL", "DISTINCT FROM true"])
            ),
            _ => format!(
                "{} {not}LIKE {}",
                dice.pick(self.texts),
                dice.pick(&["'w%'", "'%a_'"])
            ),
        }
    }
}

async fn compare(veil: &Veil, statements: impl Iterator<Item = String>) {
    let mut compared = 0;
    for sql in statements {
        // A refusal on one side (a zero divisor, a type) does not show how the other side reads the
        // text.
        if let (Ok(ours), Ok(theirs)) = (ours(veil, &sql).await, theirs(veil, &sql).await) {
            assert_eq!(ours, theirs, "{sql}");
            compared += 1;
        }
    }
    assert!(
        compared > STATEMENTS / 6,
        "only {compared} could be compared"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_bind_as_in_postgresql() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let mut dice = Dice(0x5eed);
    compare(
        &veil,
        (0..STATEMENTS).map(|_| {
            format!(
                "SELECT count(*) FROM nls.women WHERE {}",
                BELOW.boolean(&mut dice, 3)
            )
        }),
    )
    .await;
    let keys = "race, birth_year % 2, years_of_school > 12";
    let grouped = |dice: &mut Dice| {
        let (item, having) = (ABOVE.number(dice, 3), ABOVE.boolean(dice, 3));
        format!(
            "SELECT {keys}, {item}, {having} FROM nls.women WHERE years_of_school IS NOT NULL \
                GROUP \
                BY {keys} HAVING count(*) > 0"
        )
    };
    compare(&veil, (0..STATEMENTS).map(|_| grouped(&mut dice))).await;
}
