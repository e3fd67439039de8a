//! Values of every type that tokio-postgres knows, in binary, in and out: the same bytes as a
//! server's own.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls};

use super::stage::Stage;

/// A value as its bytes on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A type, and texts of it.
const VALUES: &[(&str, &[&str])] = &[
    ("bool", &["t", "f"]),
    ("bytea", &["\\x00ff", "\\x"]),
    ("name", &["n"]),
    ("int8", &["9223372036854775807", "-9223372036854775808"]),
    ("int2", &["-32768"]),
    ("int4", &["2147483647"]),
    ("text", &["ä'\\ \"", ""]),
    ("json", &["{\"a\": [1, null]}"]),
    ("jsonb", &["{\"a\": [1, 2.5e100]}", "null"]),
    ("point", &["(1.5,-2)"]),
    ("lseg", &["[(0,0),(1,1)]"]),
    ("path", &["[(0,0),(1,1)]"]),
    ("box", &["(2,2),(1,1)"]),
    ("polygon", &["((0,0),(1,1),(1,0))"]),
    ("line", &["{1,2,3}"]),
    ("circle", &["<(1,1),2>"]),
    ("cidr", &["10.1.0.0/16"]),
    ("inet", &["10.1.2.3/8", "::1"]),
    ("macaddr", &["08:00:2b:01:02:03"]),
    ("macaddr8", &["08:00:2b:01:02:03:04:05"]),
    ("float4", &["1.5", "NaN", "-Infinity"]),
    ("float8", &["0.1", "NaN", "Infinity", "-0", "5e-324"]),
    ("money", &["12.34"]),
    ("bpchar", &["a  "]),
    ("varchar", &["x"]),
    ("date", &["2020-02-29", "infinity", "4713-01-01 BC"]),
    ("time", &["24:00:00", "12:34:56.789012"]),
    ("timetz", &["12:34:56+05:30"]),
    ("timestamp", &["2020-02-29 12:34:56.789012", "-infinity"]),
    ("timestamptz", &["2020-02-29 12:34:56+05:30", "infinity"]),
    (
        "interval",
        &["1 year -2 mons 3 days -04:05:06.789", "-178000000 years"],
    ),
    ("bit", &["1"]),
    ("varbit", &["10110"]),
    ("uuid", &["00000000-0000-0000-0000-00000000000a"]),
    ("jsonpath", &["$.a[*]"]),
    ("tsvector", &["'a':1 'b':2"]),
    ("tsquery", &["'a' & 'b'"]),
    (
        "numeric",
        &[
            "0",
            "-1.50",
            "NaN",
            "Infinity",
            "-Infinity",
            "123456789012345678901234567890.123456789012345678901234567890",
            "1e-1000",
            "1e1000",
        ],
    ),
    ("int4range", &["[1,5)", "empty"]),
    ("int8range", &["[1,)"]),
    ("numrange", &["(1.5,2.5]"]),
    ("tsrange", &["[2020-01-01,2021-01-01)"]),
    ("tstzrange", &["[2020-01-01,)"]),
    ("daterange", &["[2020-01-01,2021-01-01)"]),
    ("int4multirange", &["{[1,3),[5,7)}"]),
    ("nummultirange", &["{[1.5,2.5]}"]),
    ("datemultirange", &["{[2020-01-01,2021-01-01)}"]),
    ("bool[]", &["{t,f,NULL}"]),
    ("int2[]", &["{1,2}"]),
    ("int4[]", &["{{1,2},{3,NULL}}", "{}"]),
    ("int8[]", &["{1}"]),
    ("text[]", &["{a,\"b \\\"c\",NULL,\"\"}"]),
    ("varchar[]", &["{x}"]),
    ("float4[]", &["{1.5}"]),
    ("float8[]", &["{0.1,NaN}"]),
    ("numeric[]", &["{1.50,NaN,123456789012345678901234567890}"]),
    ("date[]", &["{2020-02-29,infinity}"]),
    ("timestamp[]", &["{\"2020-02-29 12:00:00\"}"]),
    ("timestamptz[]", &["{\"2020-02-29 12:00:00+00\"}"]),
    ("interval[]", &["{\"1 day\"}"]),
    ("uuid[]", &["{00000000-0000-0000-0000-00000000000a}"]),
    ("bytea[]", &["{\"\\\\x00ff\"}"]),
    ("json[]", &["{\"{\\\"a\\\": 1}\"}"]),
    ("jsonb[]", &["{\"{\\\"a\\\": 1}\"}"]),
];

async fn connect(port: u16, user: &str) -> Client {
    let config = format!(
        "host=127.0.0.1 port={port} user={user} password=analyst dbname=nls sslmode=disable"
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Type and bytes of the one value.
async fn value(
    client: &Client,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<(u32, Option<Raw>), String> {
    let reported = |error: tokio_postgres::Error| {
        error
            .as_db_error()
            .map_or_else(|| error.to_string(), ToString::to_string)
    };
    let statement = client.prepare(sql).await.map_err(reported)?;
    let row = client
        .query_one(&statement, values)
        .await
        .map_err(reported)?;
    Ok((statement.columns()[0].type_().oid(), row.get(0)))
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type_travel_in_binary() {
    let stage = Stage::shared().await;
    let (mine, theirs) = (
        connect(stage.veiled.port(), "analyst").await,
        connect(stage.direct.port(), "postgres").await,
    );
    let mut wrong = Vec::new();
    for (name, texts) in VALUES {
        for text in *texts {
            let constant = format!("SELECT '{}'::{name}", text.replace('\'', "''"));
            let wanted = value(&theirs, &constant, &[]).await.unwrap();
            let raw = wanted.1.clone().unwrap();
            // Out, in and out, and in next to released values.
            let out = value(&mine, &constant, &[]).await;
            let through = value(&mine, &format!("SELECT $1::{name}"), &[&raw]).await;
            let next_to = value(
                &mine,
                &format!("SELECT $1::{name}, count(*) FROM nls.women"),
                &[&raw],
            )
            .await;
            for (way, found) in [("out", out), ("through", through), ("next_to", next_to)] {
                if found.as_ref() != Ok(&wanted) {
                    wrong.push(format!("{name} {text} {way}: {found:?}, wanted {wanted:?}"));
                }
            }
        }
        let nothing = value(&mine, &format!("SELECT $1::{name}"), &[&None::<Raw>]).await;
        if !matches!(nothing, Ok((_, None))) {
            wrong.push(format!("{name} NULL: {nothing:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // An array as a question's own constant.
    let (years, races) = (vec![1950_i16, 1951], vec!["black", "it's"]);
    let cases: [(&str, &(dyn ToSql + Sync)); 3] = [
        (
            "SELECT count(*) FROM nls.women WHERE birth_year = ANY($1)",
            &years,
        ),
        (
            "SELECT count(*) FROM nls.women WHERE race = ANY($1)",
            &races,
        ),
        (
            "SELECT count(*) FROM nls.women WHERE race <> ALL($1)",
            &races,
        ),
    ];
    for (sql, value) in cases {
        let (found, wanted) = (
            mine.query_one(sql, &[value]).await,
            theirs.query_one(sql, &[value]).await.unwrap(),
        );
        assert_eq!(
            found
                .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
                .get::<_, i64>(0),
            wanted.get::<_, i64>(0),
            "{sql}"
        );
    }
}
