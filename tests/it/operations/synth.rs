//! `pgveil synth`: made-up tables load into an empty database, keep what their summaries counted,
//! and have no value of a real row that the policy does not list.

use std::path::Path;
use std::process::{Command, Stdio};

use pgveil::postgres::LocalPostgres;
use tokio_postgres::{Client, NoTls};

use crate::fixture::{TemporaryDirectory, started};

pub(super) const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

/// Names that need quotes, an enum, fixed-length text, dates, a domain, a key of two columns, and a
/// public table with what CSV takes badly.
const TABLES: &str = "CREATE SCHEMA \"Clinic East\";
    SET search_path = \"Clinic East\";
    CREATE TYPE ward AS ENUM ('north', 'south');
    CREATE DOMAIN score AS numeric(6, 2);
    CREATE TABLE kinds (kind char(3) PRIMARY KEY, about text);
    INSERT INTO kinds VALUES ('a', 'one, \"two\"'), ('b', ''), ('c', NULL), ('d', E'x\\\\y\nz');
    CREATE TABLE \"Patients\" (id int PRIMARY KEY, \"Sex\" char(1) NOT NULL, born date NOT NULL, \
        note text NOT NULL, \"Score\" score, token uuid NOT NULL UNIQUE, address inet NOT NULL);
    INSERT INTO \"Patients\" SELECT g, (ARRAY['f', 'm'])[1 + g % 2], date '1950-01-01' + g, \
        'canary ' || g, g % 50, md5(g::text)::uuid, '10.9.8.7' FROM generate_series(1, 2000) g;
    CREATE TABLE \"Visits\" (id int PRIMARY KEY, patient int NOT NULL REFERENCES \
        \"Patients\", year smallint NOT NULL, \
        \"Ward\" ward, kind char(3) NOT NULL REFERENCES kinds, \"Minutes\" int, seen timestamptz, \
        urgent smallint NOT NULL, UNIQUE (patient, year));
    INSERT INTO \"Visits\" SELECT g, 1 + g % 2000, 2000 + g / 2000, \
        (ARRAY['north', 'south', NULL])[1 + g % 3]::ward, \
        (ARRAY['a', 'b'])[1 + (g % 3) / 2], 30 + 20 * ((g % 3) / 2), '2001-02-03 04:05:06+00', \
        (g % 10 = 0)::int \
        FROM generate_series(0, 5999) g;
    CREATE TABLE \"Doses\" (visit int NOT NULL REFERENCES \"Visits\", strong bool NOT NULL, \
        milligrams numeric NOT NULL);
    INSERT INTO \"Doses\" SELECT g, g % 4 = 0, 0.001 * (g % 2) FROM generate_series(0, 5999) g;
    CREATE TABLE lines (line text);
    INSERT INTO lines VALUES (E'one\n\\\\.\ntwo');
    CREATE TABLE \"Unused\" (patient int NOT NULL REFERENCES \"Patients\", what text);
    INSERT INTO \"Unused\" VALUES (1, 'canary of another table');";

fn policy() -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy:
  unit: patient
  budget: {{epsilon: 30, delta: 1e-6}}
  per_query: {{epsilon: 0.5, max_epsilon: 5}}
roles:
  - {{name: analyst, password: {VERIFIER}, budget: {{epsilon: 20, delta: 1e-7}}}}
tables:
  Clinic East.kinds: public
  Clinic East.lines: public
  Clinic East.Patients:
    unit: id
    other_columns: visible
    columns:
      Sex: {{values: [f, m], complete: true}}
      born: {{bounds: [1950-01-01, 1960-01-01]}}
      Score: {{bounds: [0, 100]}}
  Clinic East.Visits:
    unit: {{path: [patient -> Clinic East.Patients.id]}}
    rows_per_unit: 3
    columns:
      year: {{bounds: [2000, 2002]}}
      Ward: {{values: [north, south], complete: true}}
      kind: {{values: [a, b, c, d], complete: true}}
      Minutes: {{bounds: [0, 120]}}
      seen: {{bounds: [2000-01-01, 2003-01-01]}}
      urgent: {{bounds: [0, 1]}}
      id: visible
  Clinic East.Doses:
    unit: {{path: [visit -> Clinic East.Visits.id, patient -> Clinic East.Patients.id]}}
    rows_per_unit: 3
    columns:
      strong: {{values: [true, false], complete: true}}
      milligrams: {{bounds: [0, 0.001]}}
  Clinic East.Unused: {{unit: {{path: [patient -> Clinic East.Patients.id]}}, rows_per_unit: 3}}
summaries:
  patients: {{of: Clinic East.Patients, keys: [Sex], marginals: all 1, epsilon: 4}}
  visits:
    of: Clinic East.Visits
    keys: [year, Ward, kind]
    measures: [Minutes, urgent]
    marginals: [[year, kind], [Ward, kind], [year, Ward]]
    epsilon: 4
  doses:
    of: Clinic East.Doses
    keys: [strong]
    measures: [milligrams]
    marginals: all 1
    epsilon: 4
  sparse: {{of: Clinic East.Visits, keys: [Minutes, kind], marginals: all 2, epsilon: 0.5}}
"
    )
}

pub(super) struct Stage {
    server: LocalPostgres,
    client: Client,
    pub directory: TemporaryDirectory,
}

impl Stage {
    /// A database with these tables, and a directory with the policy.
    pub async fn over(tables: &str, policy: &str) -> Self {
        let (server, client) = started("clinic", Vec::new()).await;
        client.batch_execute(tables).await.unwrap();
        let directory = TemporaryDirectory::new("synth");
        std::fs::write(directory.0.join("policy.yaml"), policy).unwrap();
        Self {
            server,
            client,
            directory,
        }
    }

    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        let ledger = self.directory.0.join("ledger.db");
        command
            .current_dir(&self.directory.0)
            .args(arguments)
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .env("DATABASE_URL", self.server.url())
            .env("PGVEIL_LEDGER", format!("sqlite://{}", ledger.display()))
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output.status.success(), said)
    }

    /// Loads the files of a directory into a new database, as their README says.
    pub async fn load(&self, name: &str) -> Client {
        self.load_into(name, name).await
    }

    /// Loads the files of a directory into a new database of this name.
    async fn load_into(&self, directory: &str, name: &str) -> Client {
        let create = format!("CREATE DATABASE {name}");
        self.client.batch_execute(&create).await.unwrap();
        let url = self
            .server
            .url()
            .replacen("/clinic", &format!("/{name}"), 1);
        let loaded = Command::new("psql")
            .args(["-X", "-q", "-d", &url, "-f", "load.sql"])
            .current_dir(self.directory.0.join(directory))
            .output()
            .unwrap();
        assert!(loaded.status.success(), "{loaded:?}");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

pub(super) async fn number(client: &Client, sql: &str) -> i64 {
    let row = client
        .query_one(&format!("SELECT ({sql})::bigint"), &[])
        .await;
    row.unwrap().get(0)
}

/// The text of all files of a directory.
pub(super) fn texts(directory: &Path) -> String {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.unwrap().path()).unwrap()
    };
    std::fs::read_dir(directory).unwrap().map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_tables_load_and_keep_what_was_counted() {
    let stage = Stage::over(TABLES, &policy()).await;
    let (done, said) = stage.run(&["synth", "policy.yaml", "--out", "early"]);
    assert!(!done && said.contains("there is no ledger"), "{said}");
    assert!(said.contains("pgveil summarize policy.yaml"), "{said}");
    let (done, said) = stage.run(&["summarize", "policy.yaml", "--yes"]);
    assert!(done, "{said}");
    for (name, more) in [("csv_files", &[][..]), ("sql_files", &["--format", "sql"])] {
        let named = [
            "synth",
            "policy.yaml",
            "patients",
            "visits",
            "doses",
            "--out",
            name,
        ];
        let arguments = [&named[..], more].concat();
        let (done, said) = stage.run(&arguments);
        assert!(done, "{said}");
        for line in [
            "Clinic East.Patients: ",
            " drawn given ",
            "  then chosen by weight, so that all measured pairs are kept closely",
            "  Minutes: drawn around the averages by ",
            "  patient: refers to one of ",
            "  note: in no summary: the same value in every row",
            "  address: in no summary: NULL",
            "Clinic East.Unused: empty, since no summary of it is used",
        ] {
            assert!(said.contains(line), "{line} in {said}");
        }
        let text = texts(&stage.directory.0.join(name));
        for canary in ["canary", "10.9.8.7", "c4ca4238"] {
            assert!(!text.contains(canary), "{canary}");
        }
        let made = stage.load(name).await;
        is_made_up(&made).await;
        assert_eq!(
            number(&made, "SELECT count(*) FROM \"Clinic East\".\"Unused\"").await,
            0
        );
    }
    let (done, said) = stage.run(&["synth", "policy.yaml", "--out", "both"]);
    assert!(
        !done && said.contains("visits and sparse are of one table"),
        "{said}"
    );
    // 488 cells of a standard error of 50, most of them empty: 1,100 together. Were those below
    // zero counted as zero, they would be 9,700 rows more.
    let (done, said) = stage.run(&["synth", "policy.yaml", "sparse", "--out", "sparse"]);
    let rows = said
        .split("Visits: ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(done && rows.parse::<i64>().unwrap() < 13_000, "{said}");
    let (done, said) = stage.run(&["synth", "policy.yaml", "visits", "--out", "csv_files"]);
    assert!(!done && said.contains("has files in it"), "{said}");
    let (done, said) = stage.run(&[
        "synth",
        "policy.yaml",
        "visits",
        "--rows",
        "50",
        "--out",
        "few",
    ]);
    assert!(
        done && said.contains("Visits: 50 made-up rows from summary visits"),
        "{said}"
    );
    assert!(said.contains("  patient: a number for each row"), "{said}");
    stage.load("few").await;
}

/// What the summaries counted. Standard errors are below 15 rows, and 0.6 minutes with those of the
/// draw: no run in a million is eight of them off.
async fn is_made_up(made: &Client) {
    let about = async |sql: &str, wanted: i64| {
        let found = number(made, sql).await;
        assert!(
            (found - wanted).abs() <= 120,
            "{sql}: {found}, not {wanted}"
        );
    };
    let set = "SET search_path = \"Clinic East\"";
    made.batch_execute(set).await.unwrap();
    about("SELECT count(*) FROM \"Patients\"", 2000).await;
    about(
        "SELECT count(*) FROM \"Patients\" WHERE \"Sex\" = 'f'",
        1000,
    )
    .await;
    about("SELECT count(*) FROM \"Visits\"", 6000).await;
    about("SELECT count(*) FROM \"Visits\" WHERE year = 2001", 2000).await;
    about(
        "SELECT count(*) FROM \"Visits\" WHERE \"Ward\" IS NULL",
        2000,
    )
    .await;
    about(
        "SELECT count(*) FROM \"Visits\" WHERE \"Ward\" IS NULL AND kind = 'b'",
        2000,
    )
    .await;
    // Of the three measured pairs the steps that draw the keys keep at most two.
    for sql in [
        "SELECT count(*) FROM \"Visits\" WHERE year = 2001 AND kind = 'b'",
        "SELECT count(*) FROM \"Visits\" WHERE year = 2001 AND \"Ward\" = 'north'",
        "SELECT count(*) FROM \"Visits\" WHERE year = 2002 AND \"Ward\" = 'south'",
    ] {
        about(sql, 667).await;
    }
    about(
        "SELECT count(*) FROM \"Visits\" WHERE kind IN ('c', 'd')",
        0,
    )
    .await;
    about(
        "SELECT 20 * avg(\"Minutes\") FROM \"Visits\" WHERE kind = 'a'",
        600,
    )
    .await;
    let exact = async |sql: &str, wanted: i64| assert_eq!(number(made, sql).await, wanted, "{sql}");
    exact(
        "SELECT count(*) FROM \"Visits\" v LEFT JOIN \"Patients\" p ON p.id = patient \
        WHERE p.id IS NULL",
        0,
    )
    .await;
    exact(
        "SELECT count(*) FROM \"Patients\" WHERE born NOT BETWEEN '1950-01-01' AND '1960-01-01'",
        0,
    )
    .await;
    exact(
        "SELECT count(*) FROM \"Visits\" WHERE \"Minutes\" NOT BETWEEN 0 AND 120",
        0,
    )
    .await;
    // Standard errors of 600 urgent ones: 40 from the noise of the sum, 23 from the draw.
    about("SELECT count(*) / 4 FROM \"Visits\" WHERE urgent = 1", 150).await;
    about("SELECT 1000000 * avg(milligrams) FROM \"Doses\"", 500).await;
    about("SELECT count(*) FROM \"Doses\" WHERE strong", 1500).await;
    exact(
        "SELECT count(*) FROM lines WHERE line = E'one\n\\\\.\ntwo'",
        1,
    )
    .await;
    exact("SELECT count(*) FROM kinds WHERE about = ''", 1).await;
    exact("SELECT count(*) FROM kinds WHERE about IS NULL", 1).await;
    exact("SELECT count(*) FROM kinds WHERE about = E'x\\\\y\\nz'", 1).await;
    // The keys hold: each person has one row, and at most one visit a year; a dose is of a visit.
    exact(
        "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid IN \
        ('\"Patients\"'::regclass, '\"Visits\"'::regclass)",
        2,
    )
    .await;
    exact(
        "SELECT count(*) FROM pg_constraint WHERE contype = 'u' AND \
        conrelid = '\"Visits\"'::regclass",
        1,
    )
    .await;
    exact("SELECT count(*) FROM pg_constraint WHERE contype = 'f'", 2).await;
}

/// Ten makings, each with its own noise, from which all tables are written: no file has a value
/// that is in no list of the policy.
#[tokio::test(flavor = "multi_thread")]
async fn no_making_writes_a_value_of_a_row() {
    let rich = policy()
        .replace("epsilon: 30,", "epsilon: 30000,")
        .replace("epsilon: 20,", "epsilon: 20000,");
    let stage = Stage::over(TABLES, &rich).await;
    let mut written = Vec::new();
    for making in 0..10 {
        let make = ["summarize", "policy.yaml", "--yes", "--again"];
        let (done, said) = stage.run(&make);
        assert!(done, "{said}");
        let name = format!("making{making}");
        let synth = [
            "synth",
            "policy.yaml",
            "patients",
            "visits",
            "doses",
            "--out",
        ];
        let (done, said) = stage.run(&[&synth[..], &[name.as_str()]].concat());
        assert!(done, "{said}");
        let text = texts(&stage.directory.0.join(&name));
        for canary in ["canary", "10.9.8.7", "c4ca4238"] {
            assert!(!text.contains(canary), "making {making} writes {canary}");
        }
        written.push(text);
    }
    written.sort();
    written.dedup();
    assert_eq!(written.len(), 10, "each making has its own rows");
}
