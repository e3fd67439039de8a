//! Constants, names and comments are read as PostgreSQL reads them. Text to a proxy that is SQL to
//! PostgreSQL is an injection. Random ones, and the ones that were published, against PostgreSQL
//! itself; above the cut, and below it.

use super::fuzz::Dice;
use super::rich;
use crate::fixture::Veil;

/// Random constants, and as many names.
const TRIED: usize = 400;

const EXPRESSIONS: usize = 3000;

/// Pieces that a constant may hold and that mean something else outside of it.
const PIECES: [&str; 34] = [
    "a",
    "é",
    "\\",
    "\\\\",
    "''",
    "\\'",
    "\\''",
    "\"",
    "--",
    "/*",
    "*/",
    "$$",
    "$a$",
    ";",
    "%",
    "_",
    "\n",
    "\t",
    " ",
    "\\n",
    "\\x41",
    "\\101",
    "\\u0041",
    "\\0041",
    "\\+000041",
    "\\b",
    "!0041",
    "0",
    "x",
    "U&",
    "E",
    "; DROP TABLE nls.women; --",
    "' OR true --",
    "\u{202e}",
];

/// Whole ones of every kind, and attacks as they were published.
const WHOLE: [&str; 67] = [
    r"'\'",
    r"'\' || (SELECT 'x') || '\'",
    r"'\''; DROP TABLE nls.women; --'",
    r"E'\''",
    r"E'\\'",
    r"E'\\\''",
    r"e'a\tb\n\x41\101\u0041\U00000041'",
    r"E'\0'",
    r"E'\u0000'",
    r"E'\ud83d\ude00'",
    r"E'\ud83d'",
    r"U&'\0041\+000042'",
    r"U&'\\'",
    r"u&'d!0061t!+000061' UESCAPE '!'",
    r"U&'\'",
    r"U&'\00zz'",
    r"U&'\D83D\DE00'",
    "$$a'b\\c$$",
    "$q$ $$ ' $q$",
    "$é$x$é$",
    "$1$x$1$",
    "$$a",
    "$a$ $A$ $a$",
    "'a'\n'b'",
    "'a' -- then\n'b'",
    "'a' /* then */ 'b'",
    "'a' 'b'",
    "E'a'\n'\\n'",
    "'a'\n\nE'b'",
    "N'abc'",
    "B'101'",
    "b'102'",
    "X'1F'",
    "x'1G'",
    "/* a /* b */ ' */ 'c'",
    "/* a */ */ 'c'",
    "'c' -- ' OR true",
    "--'x'\n'y'",
    "'a'/**/||/**/'b'",
    "1e5",
    "1.e5",
    ".5",
    "1.",
    "1e",
    "1_000",
    "0x1F",
    "0b11",
    "0o17",
    "00012",
    "9223372036854775808",
    "123456789012345678901234567890",
    "1e400",
    "1.50",
    "- -1",
    "+1",
    "2^-1",
    "2 ^ -1",
    "5%-3",
    "5 % -3",
    "~ -1",
    "@ -5",
    "1-@-2",
    "2*-+-1",
    "'a'::text COLLATE \"C\"",
    "date '2020-02-29'",
    "interval '1 day -2:03'",
    "'abc' LIKE 'a\\bc'",
];

const NAMES: [&str; 24] = [
    "\"a\"\"b\"",
    "\"\"",
    "\"select\"",
    "Select",
    "É",
    "\"É\"",
    "MixedCase",
    "\"MixedCase\"",
    "a$b",
    "_x1",
    "1a",
    "U&\"\\0061b\"",
    "U&\"!0061\" UESCAPE '!'",
    "u&\"\\+000061\"",
    "\"a.b\"",
    "\"a\\b\"",
    "\"; DROP TABLE nls.women; --\"",
    "\"'\"",
    "\"a\nb\"",
    "\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"",
    "éééééééééééééééééééééééééééééééééé",
    "\"$1\"",
    "a\"b\"",
    "\u{feff}a",
];

fn constant(dice: &mut Dice) -> String {
    let body: String = (0..dice.roll(5)).map(|_| dice.pick(&PIECES)).collect();
    match dice.roll(7) {
        0..=2 => format!("'{body}'"),
        3 => format!("E'{body}'"),
        4 => format!("U&'{body}'{}", dice.pick(&["", " UESCAPE '!'"])),
        5 => format!("$${body}$$"),
        _ => format!("$a${body}$a$"),
    }
}

const OPERANDS: [&str; 16] = [
    "1",
    "2.5",
    "'a'",
    "'1'",
    "true",
    "false",
    "NULL",
    "3",
    "'b' || 'c'",
    "(2)",
    "'a'::text",
    "7::bigint",
    "E'a'",
    "$$b$$",
    "'1'::text",
    "0.1",
];

const BETWEEN: [&str; 54] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "=",
    "<>",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "||",
    "~",
    "~*",
    "!~",
    "!~*",
    "~~",
    "~~*",
    "!~~",
    "!~~*",
    "&",
    "|",
    "#",
    "<<",
    ">>",
    "LIKE",
    "ILIKE",
    "NOT LIKE",
    "SIMILAR TO",
    "AND",
    "OR",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "IN (1, 3) =",
    "NOT IN ('a', 'b') AND",
    "IS NULL =",
    "ISNULL AND",
    "NOTNULL OR",
    "BETWEEN 1 AND",
    "NOT BETWEEN SYMMETRIC 3 AND",
    "IS TRUE OR",
    "IS NOT UNKNOWN =",
    "::text ||",
    "::int +",
    "COLLATE \"C\" ~",
    "= ANY (ARRAY[1, 3]) =",
    "^@",
    "= ALL (ARRAY['a']) OR",
    ">=-",
    "<>+",
    "=-",
    "||-",
];

const NUMBERS: [&str; 6] = ["1", "2.5", "3", "(2)", "7::bigint", "0.1"];

const OF_NUMBERS: [&str; 22] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "+",
    "-",
    "*",
    "=-",
    "<>+",
    ">=-",
    "<",
    "<=",
    "IN (1, 3) =",
    "BETWEEN 1 AND",
    "= 3 AND",
    "> 2 OR",
    "IS DISTINCT FROM",
    "::int +",
    "ISNULL OR",
    "NOT BETWEEN SYMMETRIC 3 AND",
];

const TEXTS: [&str; 6] = ["'a'", "'b'::text", "E'a'", "$$b$$", "('a' || 'c')", "'%'"];

const OF_TEXTS: [&str; 22] = [
    "||",
    "||",
    "||",
    "~",
    "!~*",
    "~~",
    "!~~*",
    "LIKE",
    "NOT ILIKE",
    "SIMILAR TO",
    "^@",
    "=",
    "<>",
    "= 'a' AND",
    "IN ('a', 'b') =",
    "LIKE 'a' OR",
    "COLLATE \"C\" ||",
    "~ 'a' ||",
    "ISNULL OR",
    "IS NOT NULL AND",
    "BETWEEN 'a' AND",
    "= ANY (ARRAY['a']) AND",
];

const BEFORE: [&str; 9] = ["", "", "", "", "NOT", "-", "+", "~", "@"];

const BLANKS: [&str; 7] = [" ", " ", " ", "", "/*'*/", "--'\n", "\n"];

/// An expression of a few operands: of numbers, of texts, or of anything.
fn expression(dice: &mut Dice) -> String {
    let (operands, operators): (&[&str], &[&str]) = match dice.roll(3) {
        0 => (&NUMBERS, &OF_NUMBERS),
        1 => (&TEXTS, &OF_TEXTS),
        _ => (&OPERANDS, &BETWEEN),
    };
    let before: &[&str] = if operands == TEXTS { &[""] } else { &BEFORE };
    let mut sql = format!("{} {}", dice.pick(before), dice.pick(operands));
    for _ in 0..1 + dice.roll(3) {
        for piece in [
            dice.pick(&BLANKS),
            dice.pick(operators),
            dice.pick(&BLANKS),
            dice.pick(before),
            " ",
            dice.pick(operands),
        ] {
            sql.push_str(piece);
        }
    }
    sql
}

/// Name and value of the one column of the one row, as PostgreSQL gives them; it is prepared, so
/// that a second statement is an error and not run.
async fn theirs(veil: &Veil, sql: &str) -> Option<(String, Option<String>)> {
    let row = veil.client.query_one(sql, &[]).await.ok()?;
    Some((row.columns()[0].name().to_owned(), row.try_get(0).ok()?))
}

async fn ours(veil: &Veil, sql: &str) -> Option<(String, Option<String>)> {
    if pgveil::parse::parse(sql).is_ok_and(|statements| {
        !matches!(statements.as_slice(), [pgveil::parse::Statement::Query(_)])
    }) {
        return None;
    }
    let answer = veil.ask(sql).await.ok()?;
    let value = answer.rows[0][0]
        .as_ref()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Some((answer.columns[0].name.clone(), value))
}

#[tokio::test(flavor = "multi_thread")]
async fn constants_names_and_comments_are_read_as_by_postgresql() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    veil.client
        .batch_execute("SET default_transaction_read_only = on")
        .await
        .unwrap();
    let mut dice = Dice(0x11e7);
    let constants = (0..TRIED)
        .map(|_| constant(&mut dice))
        .collect::<Vec<_>>()
        .into_iter()
        .chain(WHOLE.map(str::to_owned));
    let (mut compared, mut below, mut wrong) = (0, 0, Vec::new());
    for constant in constants {
        let sql = format!("SELECT ({constant}\n)::text AS c");
        let (ours_is, theirs_is) = (ours(&veil, &sql).await, theirs(&veil, &sql).await);
        if ours_is.is_some() && ours_is != theirs_is {
            wrong.push(format!("{sql}: {ours_is:?}, PostgreSQL {theirs_is:?}"));
        }
        compared += usize::from(ours_is.is_some());
        let Some((_, Some(value))) = theirs_is else {
            continue;
        };
        // In a condition on every row: all have the text that PostgreSQL reads, or it is refused.
        let plain = value.replace('\'', "''");
        let counting = format!(
            "SELECT count(*)::text FROM nls.women WHERE race || ({constant}\n)::text = race || \
                '{plain}'"
        );
        if let Some((_, counted)) = ours(&veil, &counting).await {
            below += 1;
            if counted.as_deref() != Some("4711") {
                wrong.push(format!("{counting}: {counted:?} of 4711"));
            }
        }
    }
    let random: Vec<String> = (0..TRIED)
        .map(|_| {
            format!(
                "\"{}\"",
                (0..1 + dice.roll(4))
                    .map(|_| dice.pick(&PIECES))
                    .collect::<String>()
            )
        })
        .collect();
    for name in NAMES.map(str::to_owned).into_iter().chain(random) {
        let sql = format!("SELECT 'v' AS {name}");
        let (ours_is, theirs_is) = (ours(&veil, &sql).await, theirs(&veil, &sql).await);
        if ours_is.is_some() && ours_is != theirs_is {
            wrong.push(format!("{sql}: {ours_is:?}, PostgreSQL {theirs_is:?}"));
        }
        compared += usize::from(ours_is.is_some());
    }
    println!("{compared} were answered above the cut, {below} below");
    assert!(
        wrong.is_empty(),
        "{} are read otherwise:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        compared > TRIED && below > TRIED / 4,
        "{compared} and {below}"
    );
    assert_eq!(
        veil.direct("SELECT count(*) FROM nls.women").await,
        ["4711"]
    );
}

/// Which operator binds tighter, where one ends and a comment begins.
#[tokio::test(flavor = "multi_thread")]
async fn operators_and_comments_between_them_are_read_as_by_postgresql() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    veil.client
        .batch_execute("SET default_transaction_read_only = on")
        .await
        .unwrap();
    let mut dice = Dice(0x0b5e);
    let (mut compared, mut below, mut wrong) = (0, 0, Vec::new());
    for _ in 0..EXPRESSIONS {
        let expression = expression(&mut dice);
        let sql = format!("SELECT ({expression}\n)::text AS c");
        let Some((_, value)) = theirs(&veil, &sql).await else {
            continue;
        };
        let ours_is = ours(&veil, &sql).await.map(|(_, value)| value);
        if ours_is.as_ref().is_some_and(|ours| *ours != value) {
            wrong.push(format!("{sql}: {ours_is:?}, PostgreSQL {value:?}"));
        }
        compared += usize::from(ours_is.is_some());
        // Expressions over a row's columns are not computed beforehand.
        let of_rows = expression
            .replace("3", "(birth_year - birth_year + 3)")
            .replace("'a'", "left(race, 0) || 'a'");
        let Some(value) = value.filter(|_| of_rows != expression) else {
            continue;
        };
        let rows = format!(
            "SELECT count(*)::text FROM nls.women WHERE ({of_rows}\n)::text = '{}'",
            value.replace('\'', "''")
        );
        let (Some((_, ours_is)), Some((_, theirs_is))) =
            (ours(&veil, &rows).await, theirs(&veil, &rows).await)
        else {
            continue;
        };
        below += 1;
        if ours_is != theirs_is {
            wrong.push(format!("{rows}: {ours_is:?}, PostgreSQL {theirs_is:?}"));
        }
    }
    println!("{compared} were answered above the cut, {below} below");
    assert!(
        wrong.is_empty(),
        "{} are read otherwise:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        compared > EXPRESSIONS / 10 && below > EXPRESSIONS / 100,
        "{compared} and {below}"
    );
}
