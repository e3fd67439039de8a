//! Constants of dates, times and floats, read as PostgreSQL reads them, or not at all; and rows
//! that hold what arithmetic cannot.

use pgveil::catalog::Type;
use pgveil::ir::literal;
use pgveil::rewrite::emit::sql::scalar_text;

use crate::fixture::Veil;
use crate::privacy::attack::fuzz::Dice;

const TRIED: usize = 4_000;

/// Moments as drivers print them, and the edges.
const WHOLE: [&str; 48] = [
    "1995-01-01 +00",
    "1995-01-01+00",
    "1995-01-01 -05",
    "1995-01-01-05",
    "1995-01-01Z",
    "1995-01-01 00:00:00+00",
    "0044-03-15 BC",
    "0044-03-15 00:00:00+00 BC",
    "0044-03-15 AD",
    "10000-01-01",
    "294276-12-31 23:59:59.999999",
    "294277-01-01",
    "5874897-12-31",
    "5874898-01-01",
    "4713-01-01 BC",
    "4714-11-24 BC",
    "4714-11-23 BC",
    "0001-01-01 BC",
    "0000-01-01",
    "infinity",
    "-infinity",
    "+infinity",
    "Infinity",
    "epoch",
    "now",
    "2000-01-01 24:00",
    "2000-01-01 24:00:00.1",
    "2000-01-01 23:59:60",
    "2000-01-01 23:59:60.5",
    "2000-01-01 12:34:60.5",
    "2000-01-01 23:59:59.9999999",
    "2000-01-01T04:05:06Z",
    "2000-01-01T04:05:06+05:30",
    "2000-01-01T04:05:06+0530",
    "2000-01-01T04:05:06+05",
    "2000-01-01 04:05:06+5",
    "2000-01-01 04:05:06 +05:30:15",
    "2000-01-01 04:05:06+16",
    "2000-01-01 04:05:06.1234565",
    "2000-01-01 04:05:06.",
    "20000101",
    "20000101T04:05",
    "24:00",
    "24:00:00.0000001",
    "04:05:06.789-08",
    "T04:05:06",
    "0001-01-01 00:00+15",
    "9999-12-31 23:00-02",
];

const PIECES: [&[&str]; 7] = [
    &[
        "2000-01-01",
        "1999-12-31",
        "2000-02-29",
        "1900-02-29",
        "0001-01-01",
        "9999-12-31",
        "10000-06-07",
        "20240131",
        "2024-1-3",
        "99-01-01",
        "999-04-31",
        "",
    ],
    &[" ", "T", "t", "  ", "", " T"],
    &[
        "00:00", "23:59:59", "24:00:00", "04:05:06", "4:5:6", "12:60", "23:59:60", "25:00",
        "040506", "",
    ],
    &[
        "",
        "",
        ".5",
        ".123456",
        ".1234567",
        ".9999995",
        ".0000005",
        ".12345678901",
        ".",
    ],
    &["", "", " "],
    &[
        "",
        "",
        "Z",
        "z",
        "UTC",
        "+00",
        "-08",
        "+5:30",
        "+05:30",
        "-0330",
        "+15:59:59",
        "+16",
        "-1",
        "+123",
        "PST",
        "+05:60",
    ],
    &["", "", "", "", " BC", "BC", " AD", " bc"],
];

fn text(dice: &mut Dice) -> String {
    PIECES.iter().map(|pieces| dice.pick(pieces)).collect()
}

/// What PostgreSQL makes of a text, printed as its canonical text; `None` where that is an error.
async fn theirs(veil: &Veil, texts: &[String], name: &str) -> Vec<Option<String>> {
    let sql = format!(
        "SELECT as_{}(t) FROM unnest($1::text[]) WITH ORDINALITY AS u(t, n) ORDER BY n",
        name.replace(' ', "_")
    );
    veil.client
        .query(&sql, &[&texts])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_dates_and_times_are_read_as_by_postgresql() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let types = [
        (Type::Date, 300),
        (Type::Timestamp, 300),
        (Type::Timestamptz, 300),
        (Type::Time, 12),
        (Type::Float8, 8),
    ];
    let mut dice = Dice(0xda7e);
    let mut texts: Vec<String> = (0..TRIED).map(|_| text(&mut dice)).collect();
    texts.extend(WHOLE.map(str::to_owned));
    texts.extend(
        [
            "NaN",
            "nan",
            "inf",
            "-Infinity",
            "+inf",
            "1e5",
            " 1.5 ",
            "1e400",
            "x",
        ]
        .map(str::to_owned),
    );
    veil.client
        .batch_execute("SET TimeZone = 'UTC'")
        .await
        .unwrap();
    for (data_type, least) in types {
        let name = data_type.to_string();
        let function = format!(
            "CREATE FUNCTION as_{}(t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN \
                t::{name}::text; EXCEPTION WHEN others THEN RETURN NULL; END $$",
            name.replace(' ', "_")
        );
        veil.client.batch_execute(&function).await.unwrap();
        let theirs = theirs(&veil, &texts, &name).await;
        let (mut read, mut unread) = (0, Vec::new());
        for (text, theirs) in texts.iter().zip(&theirs) {
            let Ok(value) = literal::parse(text, &data_type) else {
                unread.extend(theirs.as_ref().map(|theirs| format!("{text:?}: {theirs}")));
                continue;
            };
            let ours = match &data_type {
                Type::Timestamptz if scalar_text(&value).ends_with("infinity") => {
                    scalar_text(&value)
                }
                Type::Timestamptz => match scalar_text(&value).strip_suffix(" BC") {
                    Some(text) => format!("{text}+00 BC"),
                    None => format!("{}+00", scalar_text(&value)),
                },
                Type::Float8 => veil
                    .direct(&format!("SELECT '{}'::float8", scalar_text(&value)))
                    .await
                    .remove(0),
                _ => scalar_text(&value),
            };
            assert_eq!(Some(&ours), theirs.as_ref(), "{text:?} as {name}");
            read += 1;
        }
        println!(
            "{name}: {read} read, {} more that PostgreSQL reads, such as {:?}",
            unread.len(),
            &unread[..unread.len().min(8)]
        );
        assert!(read >= least, "{name}: {read} read, {} not", unread.len());
    }
}

const SCHEMA: &str = "
    CREATE TABLE people (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, tm time NOT \
    NULL, f8 float8, f4 real, n numeric);
    INSERT INTO people SELECT g, date '2000-01-01' + g, timestamp '2000-01-01' + g * interval '1 \
    day', timestamptz '2000-01-01 00:00+00' + g * interval '1 day',
        time '00:00' + g * interval '1 minute', g, g, g FROM generate_series(1, 300) g;
    INSERT INTO people VALUES (1001, 'infinity', 'infinity', 'infinity', '24:00', 'NaN', 'NaN', \
    'NaN'),
        (1002, '-infinity', '-infinity', '-infinity', '00:00', 'Infinity', 'Infinity', 'NaN'),
        (1003, '0044-03-15 BC', '0044-03-15 BC', '0044-03-15 BC', '12:00', '-Infinity', \
        '-Infinity', '1e20'),
        (1004, '20000-01-01', '20000-01-01', '20000-01-01', '12:00', '1e300', '1e30', '1'), (1005, \
        NULL, NULL, NULL, '24:00', NULL, NULL, NULL)";

const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: person, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, \
    max_epsilon: 8}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-3}}]
tables:
  public.people: {unit: id, other_columns: visible}
";

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_compared_with_infinities_and_nan_as_they_are_stored() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let mut questions = Vec::new();
    for column in ["d", "ts", "tz"] {
        for constant in [
            "infinity",
            "-infinity",
            "0044-03-15 BC",
            "20000-01-01",
            "0100-01-01 BC",
            "2000-02-01",
            "2000-02-01 +00",
        ] {
            questions.extend(
                ["=", "<>", "<", "<=", ">", ">="].map(|op| {
                    format!("SELECT count(*) FROM people WHERE {column} {op} '{constant}'")
                }),
            );
        }
        questions.push(format!(
            "SELECT count(*) FROM people WHERE {column} BETWEEN '-infinity' AND 'infinity'"
        ));
        questions.push(format!(
            "SELECT count(*) FROM people WHERE coalesce({column}, 'infinity') > '2000-03-01'"
        ));
        questions.push(format!(
            "SELECT count(*) FILTER (WHERE {column} = 'infinity'), count({column}) FROM people"
        ));
    }
    for (column, constant) in [
        ("f8", "NaN"),
        ("f8", "Infinity"),
        ("f8", "-inf"),
        ("n", "NaN"),
        ("f8", "5"),
    ] {
        questions.extend(
            ["=", "<>", "<", "<=", ">", ">="]
                .map(|op| format!("SELECT count(*) FROM people WHERE {column} {op} '{constant}'")),
        );
    }
    questions.extend(
        [
            "tm = '24:00'",
            "tm < '24:00:00'",
            "tm = '12:00:00+02'",
            "tz < '2000-02-01T00:00:00+05:30'",
        ]
        .map(|c| format!("SELECT count(*) FROM people WHERE {c}")),
    );
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    veil.answers_as_postgresql(&Veil::requester(), &questions)
        .await;
    for condition in [
        "coalesce(f8, 'NaN') > 0",
        "f8 + 'Infinity' > 0",
        "greatest(n, 'NaN') > 1",
        "f8 IN (1, 'NaN')",
    ] {
        let sql = &format!("SELECT count(*) FROM people WHERE {condition}");
        let refused = veil
            .ask(sql)
            .await
            .err()
            .unwrap_or_else(|| panic!("{sql} was answered"))
            .report();
        assert_eq!(refused.sqlstate, "0A000", "{sql}: {refused:?}");
    }
}
