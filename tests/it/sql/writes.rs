//! Rows that roles write, over a schema that was not made for pgveil: an enum, `char(n)`, names in
//! mixed case, a serial key and an identity column.

mod explained;

use std::fmt::Write;

use futures::SinkExt;
use pgveil::wire::WriteLimits;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};

use crate::clients::stage::Stage;
use crate::fixture::Veil;

const PASSWORD: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==\
    $S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

pub fn policy(local: &str) -> String {
    format!(
        "
version: 1
database: {{url: '${{DATABASE_URL}}', write_url: '${{DATABASE_WRITE_URL}}'}}
ledger: {{url: '${{PGVEIL_LEDGER}}'}}
local: {local}
privacy:
  unit: person
  budget: {{epsilon: 10000000, delta: 1e-3}}
  per_query: {{epsilon: 5000, max_epsilon: 5000, min_epsilon: 0.1}}
roles:
  - {{name: analyst, password: {PASSWORD}, budget: {{epsilon: 9000000, delta: 1e-4}}}}
  - {{name: collector, password: {PASSWORD}, budget: none, writes: [Survey.Answers]}}
  - {{name: other, password: {PASSWORD}, budget: none, writes: [Survey.Others]}}
tables:
  Survey.Answers:
    unit: Person
    constraints: shown
    rows_per_unit: 4
    columns:
      Wave: {{bounds: [1, 400]}}
      Smoked: {{values: [no, yes], local: {{mechanism: coin, truth: 1/2, yes: 1/2}}}}
      Illness: {{values: [flu, cold, none of these], local: {{mechanism: krr, epsilon: 1}}}}
      Letter: {{values: [a, bcd], nullable: true, local: {{mechanism: krr, epsilon: 2}}}}
      Tea: {{visible: true, also: [Coffee], local: {{mechanism: unary, epsilon: 1}}}}
      Income: {{bounds: [1000, 5000], local: {{mechanism: mean, epsilon: 1}}}}
  Survey.Others:
    unit: Person
    constraints: shown
    columns:
      smoked: {{values: [no, yes], local: {{mechanism: coin, truth: 1/2, yes: 1/2}}}}
limits: {{groups: 10000, failures: 10, statement_timeout: 60s, connections: 40}}
"
    )
}

pub const MEMO: &str = "{secret: '${PGVEIL_LOCAL_SECRET}'}";

pub const SCHEMA: &str = "
CREATE SCHEMA \"Survey\";
CREATE TYPE \"Survey\".\"Kind\" AS ENUM ('none of these', 'cold', 'flu');
CREATE TABLE \"Survey\".\"Answers\" (\"Row\" bigserial PRIMARY KEY,
\"Number\" int GENERATED ALWAYS AS IDENTITY, \"Person\" int NOT NULL, \"Wave\" int NOT NULL
CHECK (\"Wave\" > 0), \"Smoked\" varchar(8), \"Illness\" \"Survey\".\"Kind\", \"Letter\" char(5),
\"Tea\" bool NOT NULL, \"Coffee\" bool, \"Income\" int, at timestamptz DEFAULT now(),
UNIQUE (\"Person\", \"Wave\") DEFERRABLE INITIALLY IMMEDIATE);
CREATE TABLE \"Survey\".\"Others\" (\"Person\" int PRIMARY KEY, smoked text NOT NULL);
CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA \"Survey\" TO writer;
GRANT INSERT ON \"Survey\".\"Answers\", \"Survey\".\"Others\" TO writer;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA \"Survey\" TO writer;
";

/// pgveil over these tables.
pub struct Survey {
    pub stage: Stage,
    owner: Client,
}

async fn connected(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Survey {
    pub async fn new(local: &str) -> Self {
        Self::limited(local, WriteLimits::default()).await
    }

    /// With other limits of clients that write.
    pub async fn limited(local: &str, limits: WriteLimits) -> Self {
        let fill = async |client: &Client| client.batch_execute(SCHEMA).await.unwrap();
        let veil = Veil::over(fill, &policy(local), Veil::silent()).await;
        let owner = connected(&veil.server.config()).await;
        let stage = Stage::limited(veil, limits).await;
        Self { stage, owner }
    }

    async fn client(&self, role: &str) -> Client {
        let mut config = Config::new();
        config
            .host("localhost")
            .hostaddr(self.stage.veiled.ip())
            .port(self.stage.veiled.port())
            .ssl_mode(tokio_postgres::config::SslMode::Disable)
            .user(role)
            .password("analyst")
            .dbname("nls");
        let client = connected(&config).await;
        let set = "SET search_path = \"Survey\"; SET pgveil.clip = fixed";
        client.batch_execute(set).await.unwrap();
        client
    }

    /// Rows of a statement on the database itself.
    pub async fn direct(&self, sql: &str) -> Vec<String> {
        let rows = self.owner.simple_query(sql).await.unwrap();
        let text = |message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|at| row.get(at).unwrap_or("∅").to_owned());
                Some(values.collect::<Vec<_>>().join("|"))
            }
            _ => None,
        };
        rows.into_iter().filter_map(text).collect()
    }

    async fn count(&self) -> String {
        self.direct("SELECT count(*) FROM \"Survey\".\"Answers\"")
            .await[0]
            .clone()
    }
}

const COLUMNS: &str = "\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \"Tea\", \
    \"Coffee\", \"Income\"";

pub fn insert(values: &str) -> String {
    format!("INSERT INTO \"Answers\" ({COLUMNS}) VALUES {values}")
}

fn code(error: &tokio_postgres::Error) -> String {
    error.code().unwrap().code().to_owned()
}

/// Constants and parameters of several types, casts, defaults and several rows; what is stored are
/// reports, and all other values as they were written.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_written_in_every_way() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let first = insert(
        "(1, 1, 'yes', 'flu', 'a', true, false, 1000), (2, +1, E'no', \
        'none of these'::\"Survey\".\"Kind\", CAST('bcd' AS text), 'f', FALSE, (4999.5))",
    );
    client.batch_execute(&first).await.unwrap();
    let with_default = "INSERT INTO \"Survey\".\"Answers\" (\"Row\", at, \"Person\", \"Wave\", \
        \"Smoked\", \"Illness\", \"Letter\", \"Tea\", \"Coffee\", \"Income\") VALUES (DEFAULT, \
        timestamptz '2026-01-02 03:04:05+00', $1, $2, $3, $4, $5, $6, $7, $8)";
    let statement = client.prepare(with_default).await.unwrap();
    let oids: Vec<u32> = statement.params().iter().map(Type::oid).collect();
    assert_eq!((oids[0], oids[2], oids[5], oids[7]), (23, 1043, 16, 23));
    assert!(statement.columns().is_empty());
    let typed = [
        Type::INT4,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BOOL,
    ];
    let typed = client.prepare_typed(with_default, &typed).await.unwrap();
    for person in 3..40_i32 {
        let values: [&(dyn ToSql + Sync); 8] = [
            &person, &2_i32, &"no", &"cold", &"bcd", &true, &false, &2500_i32,
        ];
        let written = client.execute(&typed, &values).await.unwrap();
        assert_eq!(written, 1);
    }
    assert_eq!(survey.count().await, "39");
    let kept = survey
        .direct(
            "SELECT count(DISTINCT \"Row\"), count(DISTINCT \"Number\"), min(\"Wave\"), \
            max(\"Wave\"), max(at) FROM \"Survey\".\"Answers\" WHERE \"Person\" > 2",
        )
        .await;
    assert_eq!(kept, ["37|37|2|2|2026-01-02 03:04:05+00"]);
    let reports = survey
        .direct(
            "SELECT count(*), count(DISTINCT \"Smoked\"), count(DISTINCT \"Illness\"), \
            count(DISTINCT \"Tea\"), string_agg(DISTINCT \"Income\"::text, ',') \
            FROM \"Survey\".\"Answers\" WHERE \"Person\" > 2",
        )
        .await;
    // The same value of 37 persons has several reports.
    assert_eq!(reports, ["37|2|3|2|0,1"]);
}

/// With a memo, the same value of the same person has the same report: in another row, by another
/// way, of another proxy. Another person's has another.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_has_one_report_for_ever() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let row = |person: i32, wave: i32| {
        format!("({person}, {wave}, 'yes', 'flu', 'a', true, false, 1234.5)")
    };
    let rows: Vec<String> = (1..=60).map(|person| row(person, 1)).collect();
    client
        .batch_execute(&insert(&rows.join(", ")))
        .await
        .unwrap();
    drop(client);
    let client = survey.client("collector").await;
    let copy = format!("COPY \"Answers\" ({COLUMNS}) FROM STDIN (FORMAT csv)");
    let sink = client.copy_in::<_, bytes::Bytes>(&copy).await.unwrap();
    let mut sink = std::pin::pin!(sink);
    let mut text = String::new();
    for person in 1..=60 {
        let _ = writeln!(text, "{person},2,yes,flu,\"a    \",on,0,1.2345e3");
    }
    sink.send(bytes::Bytes::from(text)).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 60);
    let same = survey
        .direct(
            "SELECT count(*), count(DISTINCT (a.\"Smoked\", a.\"Illness\", a.\"Letter\", \
            a.\"Tea\", a.\"Coffee\", a.\"Income\")) > 8 FROM \"Survey\".\"Answers\" a JOIN \
            \"Survey\".\"Answers\" b USING (\"Person\", \"Smoked\", \"Illness\", \"Letter\", \
            \"Tea\", \"Coffee\", \"Income\") WHERE a.\"Wave\" = 1 AND b.\"Wave\" = 2",
        )
        .await;
    assert_eq!(same, ["60|t"]);
    // These bytes are those of every version.
    let known = survey
        .direct(
            "SELECT string_agg(\"Smoked\", '' ORDER BY \"Person\"), string_agg(\"Income\"::text, \
            '' ORDER BY \"Person\") FROM \"Survey\".\"Answers\" WHERE \"Wave\" = 1 AND \"Person\" \
            < 13",
        )
        .await;
    assert_eq!(known, ["yesyesyesyesnoyesnoyesyesyesyesyes|100001000010"]);
}

/// What was written through pgveil and read through pgveil is right on average. For 2,000 persons a
/// count of the coin has a standard error of at most 39, one of krr 63, one of unary 95, and the
/// average 97: six of them are passed once in 100 million runs.
#[tokio::test(flavor = "multi_thread")]
async fn estimates_of_what_was_written_are_right_on_average() {
    let survey = Survey::new("{memo: false}").await;
    let client = survey.client("collector").await;
    for first in (0..2000).step_by(500) {
        let row = |person: i32| {
            let (smoked, illness) = (
                ["no", "yes"][(person % 4 == 0) as usize],
                ["flu", "cold", "none of these"][(person % 10 > 5) as usize],
            );
            format!(
                "({person}, 1, '{smoked}', '{illness}', NULL, {}, false, {})",
                person % 5 == 0,
                1000 + person % 4 * 1000
            )
        };
        let rows: Vec<String> = (first..first + 500).map(row).collect();
        client
            .batch_execute(&insert(&rows.join(", ")))
            .await
            .unwrap();
    }
    let analyst = survey.client("analyst").await;
    let asked = "SELECT count(*) FILTER (WHERE \"Smoked\" = 'yes'), count(*) FILTER (WHERE \
        \"Illness\" = 'cold'), count(*) FILTER (WHERE \"Tea\"), avg(\"Income\")::float8 FROM \
        \"Answers\"";
    let row = analyst.query_one(asked, &[]).await.unwrap();
    for (at, wanted, error) in [(0, 500.0, 39.0), (1, 800.0, 63.0), (2, 400.0, 95.0)] {
        let found = row.get::<_, i64>(at) as f64;
        assert!(
            (found - wanted).abs() < 6.0 * error,
            "{at}: {found}, not {wanted}"
        );
    }
    let average: f64 = row.get(3);
    assert!((average - 2500.0).abs() < 6.0 * 97.0, "{average}");
    let shown = "SELECT local FROM pgveil.columns WHERE column_name = 'Smoked'";
    let shown: String = analyst.query_one(shown, &[]).await.unwrap().get(0);
    assert!(
        shown.starts_with("coin, epsilon 1.1") && shown.contains("; made by pgveil"),
        "{shown}"
    );
}

/// What is refused, and why; no text repeats a value.
#[tokio::test(flavor = "multi_thread")]
async fn forms_and_values_that_are_refused() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let row = "(1, 1, 'yes', 'flu', 'a', true, false, 1000)";
    let whole = insert(row);
    for (sql, wanted) in [
        (format!("{whole} RETURNING \"Person\""), "0A000"),
        (format!("{whole} ON CONFLICT DO NOTHING"), "0A000"),
        ("INSERT INTO \"Answers\" DEFAULT VALUES".to_owned(), "0A000"),
        (format!("INSERT INTO \"Answers\" VALUES {row}"), "0A000"),
        (
            format!("INSERT INTO \"Answers\" ({COLUMNS}) SELECT 1"),
            "0A000",
        ),
        ("INSERT INTO \"Answers\" SELECT 1".to_owned(), "0A000"),
        (
            format!("INSERT INTO \"Answers\" AS a ({COLUMNS}) VALUES {row}"),
            "0A000",
        ),
        (
            format!("INSERT INTO \"Answers\" ({COLUMNS}) OVERRIDING SYSTEM VALUE VALUES {row}"),
            "0A000",
        ),
        (whole.replace("'yes'", "lower('YES')"), "0A000"),
        (whole.replace("'yes'", "'y' || 'es'"), "0A000"),
        (whole.replace("'yes'", "(SELECT 'yes')"), "0A000"),
        (whole.replace("1000)", "now())"), "0A000"),
        (whole.replace("1000)", "DEFAULT)"), "0A000"),
        (
            "INSERT INTO \"Answers\" (\"Person\", \"Wave\") VALUES (1, 1)".to_owned(),
            "0A000",
        ),
        (insert("(1, 1)"), "42601"),
        (insert("(1, 1, 'yes'"), "42601"),
        (whole.replace("\"Wave\"", "\"Nothing\""), "42703"),
        (whole.replace("'yes'", "'maybe'"), "22023"),
        (whole.replace("'flu'", "'secret illness'"), "22023"),
        (whole.replace("1000)", "999)"), "22003"),
        (whole.replace("1000)", "'NaN')"), "22023"),
        (whole.replace("true, false", "true, true"), "22023"),
        (whole.replace("'yes'", "NULL"), "22023"),
        (whole.replace("(1, 1,", "(NULL, 1,"), "22023"),
        (whole.replace("(1, 1,", "('one', 1,"), "22023"),
        (whole.replace("(1, 1,", "(1, 0,"), "23514"),
        (whole.replace("(1, 1,", "(1, NULL,"), "23502"),
        (whole.replace("(1, 1,", "(1, 'x',"), "XX000"),
        (whole.replace("\"Answers\"", "\"Others\""), "42501"),
        (whole.replace("\"Answers\"", "pg_class"), "42501"),
        (whole.replace("\"Answers\"", "pg_temp.\"Answers\""), "42501"),
        ("UPDATE \"Answers\" SET \"Wave\" = 2".to_owned(), "42501"),
        ("DELETE FROM \"Answers\"".to_owned(), "42501"),
        ("TRUNCATE \"Answers\"".to_owned(), "42501"),
        (
            "MERGE INTO \"Answers\" USING x ON true WHEN MATCHED THEN DELETE".to_owned(),
            "42501",
        ),
        ("SELECT count(*) FROM \"Answers\"".to_owned(), "42501"),
        ("SELECT * FROM pgveil.budget".to_owned(), "42501"),
        (
            format!("COPY \"Answers\" ({COLUMNS}) FROM STDIN (FORMAT binary)"),
            "0A000",
        ),
        (
            format!("COPY \"Answers\" ({COLUMNS}) FROM '/etc/passwd'"),
            "42501",
        ),
        (
            format!("COPY \"Answers\" ({COLUMNS}) FROM PROGRAM 'ls'"),
            "42501",
        ),
        ("COPY \"Answers\" FROM STDIN".to_owned(), "0A000"),
        ("COPY \"Answers\" TO STDOUT".to_owned(), "42501"),
        (
            "COPY (SELECT * FROM \"Answers\") TO STDOUT".to_owned(),
            "42501",
        ),
    ] {
        let error = client.batch_execute(&sql).await.err();
        let error = error.unwrap_or_else(|| panic!("written: {sql}"));
        assert_eq!(code(&error), wanted, "{sql}: {error:?}");
        let texts = format!("{error:?}");
        for value in ["maybe", "secret illness", "999", "'one'", "'yes'", "YES"] {
            assert!(!texts.contains(value), "{sql}: {texts}");
        }
    }
    assert_eq!(survey.count().await, "0");
    client
        .batch_execute("SELECT 1; SELECT pg_catalog.version()")
        .await
        .unwrap();
    for role in ["analyst", "other"] {
        let client = survey.client(role).await;
        let error = client.batch_execute(&whole).await.unwrap_err();
        assert_eq!(code(&error), "42501", "{role}");
    }
    // NULL where the policy takes it, as it is.
    client
        .batch_execute(&whole.replace("'a'", "NULL"))
        .await
        .unwrap();
    let letters = survey
        .direct("SELECT \"Letter\" FROM \"Survey\".\"Answers\"")
        .await;
    assert_eq!(letters, ["∅"]);
    let other = survey.client("other").await;
    let once = "INSERT INTO \"Others\" (\"Person\", smoked) VALUES (7, 'no')";
    other.batch_execute(once).await.unwrap();
    let error = other.batch_execute(once).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert!(error.as_db_error().unwrap().detail().is_none());
}

/// Transactions are PostgreSQL's: what is rolled back is gone, what is committed stands; a failed
/// one takes nothing but its end; strings and pipelines are transactions too.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_postgresqls() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let one = |person: i32| {
        insert(&format!(
            "({person}, 1, 'yes', 'flu', 'a', true, false, 1000)"
        ))
    };
    let run = async |sql: String| client.batch_execute(&sql).await.map_err(|e| code(&e));
    let ok = Ok(());
    assert_eq!(run(format!("BEGIN; {}; ROLLBACK", one(1))).await, ok);
    assert_eq!(survey.count().await, "0");
    assert_eq!(run(format!("BEGIN; {}; COMMIT", one(1))).await, ok);
    assert_eq!(survey.count().await, "1");
    for sql in ["BEGIN", "SAVEPOINT a"] {
        assert_eq!(run(sql.to_owned()).await, ok);
    }
    assert_eq!(run(one(2)).await, ok);
    assert_eq!(run("SAVEPOINT b".to_owned()).await, ok);
    assert_eq!(run(one(3)).await, ok);
    // Others do not see it.
    assert_eq!(survey.count().await, "1");
    assert_eq!(run(one(3)).await, Err("23505".to_owned()));
    assert_eq!(run(one(4)).await, Err("25P02".to_owned()));
    assert_eq!(run("ROLLBACK TO b".to_owned()).await, ok);
    assert_eq!(run(one(5)).await, ok);
    assert_eq!(run("RELEASE b".to_owned()).await, ok);
    assert_eq!(run("COMMIT".to_owned()).await, ok);
    let persons = "SELECT string_agg(\"Person\"::text, ',' ORDER BY \"Person\") FROM \
        \"Survey\".\"Answers\"";
    assert_eq!(survey.direct(persons).await, ["1,2,5"]);
    // A value that is refused here fails the transaction as well.
    assert_eq!(run("BEGIN".to_owned()).await, ok);
    assert_eq!(run(one(6)).await, ok);
    assert_eq!(
        run(one(7).replace("'yes'", "'x'")).await,
        Err("22023".to_owned())
    );
    assert_eq!(run(one(8)).await, Err("25P02".to_owned()));
    assert_eq!(run("COMMIT".to_owned()).await, ok);
    assert_eq!(survey.direct(persons).await, ["1,2,5"]);
    // A string of several statements is one transaction.
    let both = format!("{}; {}", one(6), one(5));
    assert_eq!(run(both).await, Err("23505".to_owned()));
    assert_eq!(survey.direct(persons).await, ["1,2,5"]);
    assert_eq!(run(format!("{}; {}", one(6), one(7))).await, ok);
    assert_eq!(survey.direct(persons).await, ["1,2,5,6,7"]);
    assert_eq!(
        run(format!(
            "BEGIN; SET CONSTRAINTS ALL DEFERRED; {}; COMMIT",
            one(8)
        ))
        .await,
        ok
    );
    let read_only = format!("BEGIN READ ONLY; {}", one(9));
    assert_eq!(run(read_only).await, Err("25006".to_owned()));
    assert_eq!(run("ROLLBACK".to_owned()).await, ok);
    // A session that leaves leaves nothing.
    let leaver = survey.client("collector").await;
    leaver
        .batch_execute(&format!("BEGIN; {}", one(9)))
        .await
        .unwrap();
    drop(leaver);
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'writer' AND state LIKE \
        'idle in %'";
    while survey.direct(waits).await != ["0"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(survey.direct(persons).await, ["1,2,5,6,7,8"]);
}

/// COPY in both formats with options, and one that fails half way and leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn copies_are_read_as_postgresql_reads_them() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let copy = async |options: &str, text: &str| {
        let sql = format!("COPY \"Answers\" ({COLUMNS}) FROM STDIN {options}");
        let sink = client.copy_in::<_, bytes::Bytes>(&sql).await?;
        let mut sink = std::pin::pin!(sink);
        // In pieces that break rows, letters and escapes.
        for piece in text.as_bytes().chunks(7) {
            sink.send(bytes::Bytes::copy_from_slice(piece)).await?;
        }
        sink.finish().await
    };
    let text = "1\t1\tyes\tflu\ta\tt\tf\t1000\r\n2\t1\tn\\157\tnone of \\x74hese\t\\N\tf\tf\t5e3\n\
        \\.\nnever read";
    assert_eq!(copy("", text).await.unwrap(), 2);
    let csv = "p;w;s;i;l;t;c;n\n3;1;'yes';none of these;'bcd';t;f;1000\n4;1;no;flu;-;f;on;1001";
    let options = "WITH (FORMAT csv, HEADER true, DELIMITER ';', QUOTE '''', NULL '-')";
    assert_eq!(copy(options, csv).await.unwrap(), 2);
    for (rows, wanted) in [
        (
            "5\t1\tyes\tflu\ta\tt\tf\t1000\n6\t1\tmaybe\tflu\ta\tt\tf\t1000\n",
            "22023",
        ),
        (
            "5\t1\tyes\tflu\ta\tt\tf\t1000\n5\t1\tyes\tflu\ta\tt\tf\t1000\n",
            "23505",
        ),
        ("5\t1\tyes\tflu\ta\tt\tf\n", "22P02"),
        ("5\t1\tyes\tflu\ta\tt\tf\t1000\t1\n", "22P02"),
        ("5\t1\tyes\tflu\ta\tt\tf\t6000\n", "22003"),
    ] {
        let error = copy("", rows).await.unwrap_err();
        assert_eq!(code(&error), wanted, "{rows}: {error:?}");
        assert!(!format!("{error:?}").contains("maybe"), "{error:?}");
    }
    let persons = "SELECT string_agg(\"Person\"::text || coalesce(\"Letter\", '-'), ',' ORDER BY \
        \"Person\") FROM \"Survey\".\"Answers\"";
    let found = survey.direct(persons).await;
    assert!(
        found[0].starts_with('1') && found[0].contains("2-,3"),
        "{found:?}"
    );
    assert!(found[0].ends_with("4-"), "{found:?}");
    // The session goes on after each.
    client
        .batch_execute(&insert("(9, 1, 'yes', 'flu', 'a', true, false, 1000)"))
        .await
        .unwrap();
    assert_eq!(survey.count().await, "5");
}
