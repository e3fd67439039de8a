//! `pgveil audit` over real policies: a report without a finding, and no private row read for it.

use std::process::Command;

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls};

use crate::fixture::{TemporaryDirectory, load};

struct Owner {
    server: LocalPostgres,
    client: Client,
}

impl Owner {
    async fn new(fill: impl AsyncFnOnce(&Client)) -> Self {
        let server = LocalPostgres::start(ServerOptions {
            database: Some("nls".to_owned()),
            ..ServerOptions::default()
        })
        .await
        .unwrap();
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        fill(&client).await;
        Self { server, client }
    }

    /// Exit code, standard output, standard error.
    async fn audit(
        &self,
        policy: &str,
        more: &'static [&'static str],
    ) -> (Option<i32>, String, String) {
        let all: Vec<&str> = ["audit", policy, "--trials", "40"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        self.run(&all, "sqlite:///nowhere/ledger.db").await
    }

    async fn run(&self, arguments: &[&str], ledger: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        command
            .args(arguments)
            .env("DATABASE_URL", self.server.url())
            .env("PGVEIL_LEDGER", ledger);
        let run = move || command.output().unwrap();
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// How often tables that are not public were read.
    async fn scans(&self, schema: &str) -> i64 {
        // Statistics arrive a moment after the session that made them.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let sql = "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint FROM \
            pg_stat_user_tables
                   WHERE schemaname = $1 AND relname NOT IN ('industries', 'occupations', \
                   'cities')";
        self.client.query_one(sql, &[&schema]).await.unwrap().get(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_policy_is_audited_without_a_private_row() {
    let owner = Owner::new(async |client| load(client).await).await;
    let before = owner.scans("nls").await;
    let (code, shown, said) = owner.audit("policies/demo.yaml", &[]).await;
    assert_eq!(code, Some(0), "{shown}\n{said}");
    for line in [
        "count of nls.women",
        "sum of nls.interviews",
        "average of",
        "by threshold",
        "No finding.",
        "The refused attempts cost nothing.",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // The canary uses all of the bound that is declared, where one row is all that a unit has.
    assert!(
        shown
            .lines()
            .any(|line| line.contains("count of nls.women") && line.contains("100.00 % at most")),
        "{shown}"
    );
    assert_eq!(owner.scans("nls").await, before, "a private table was read");
}

/// Paths, keys of several columns, no primary key, types of every sort.
#[tokio::test(flavor = "multi_thread")]
async fn other_policies_are_audited_as_json() {
    for name in ["devices", "shop"] {
        let schema = std::fs::read_to_string(format!("tests/corpora/{name}/schema.sql")).unwrap();
        let owner = Owner::new(async |client| client.batch_execute(&schema).await.unwrap()).await;
        let (code, shown, said) = owner
            .audit(&format!("tests/corpora/{name}/policy.yaml"), &["--json"])
            .await;
        assert_eq!(code, Some(0), "{shown}\n{said}");
        let report: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let asked = report["asked"].as_array().unwrap();
        assert!(
            asked.len() >= 8
                && asked
                    .iter()
                    .all(|asked| asked["holds"] == true && asked["charged"].as_f64() > Some(0.5)),
            "{shown}"
        );
        assert!(
            report["measured"]
                .as_array()
                .unwrap()
                .iter()
                .all(|measured| measured["holds"] == true),
            "{shown}"
        );
        assert_eq!(
            (&report["books"], &report["kept"], &report["left_out"]),
            (&true.into(), &true.into(), &serde_json::json!([])),
            "{shown}"
        );
    }
}

const SEARCHED: &str = r#"version: 1
database: {url: "${DATABASE_URL}"}
ledger: {url: "${PGVEIL_LEDGER}"}
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
timing: {quantum: 1h}
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 3, delta: 1e-7}
tables:
  public.people: {unit: id, columns: {x: {bounds: [0, auto]}}}
"#;

/// Bounds left to a search are the ones found for the owner: an audit makes no search. Nor does it
/// wait for the answers' quantum.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_searched_is_audited_as_found() {
    let rows = "CREATE TABLE people (id int PRIMARY KEY, x int); INSERT INTO people SELECT g, g % \
        100 FROM generate_series(1, 5000) g";
    let owner = Owner::new(async |client| client.batch_execute(rows).await.unwrap()).await;
    let directory = TemporaryDirectory::new("audit");
    let (policy, ledger) = (
        directory.0.join("policy.yaml"),
        format!("sqlite://{}", directory.0.join("ledger.db").display()),
    );
    std::fs::write(&policy, SEARCHED).unwrap();
    let policy = policy.to_str().unwrap();
    let audit = ["audit", policy, "--trials", "40", "--json"];
    let (code, _, said) = owner.run(&audit, &ledger).await;
    assert_ne!(code, Some(0));
    assert!(
        said.contains("searches that have not been made: public.people.x")
            && said.contains("Run `pgveil bounds`"),
        "{said}"
    );
    let (code, shown, said) = owner
        .run(&["bounds", policy, "--epsilon", "1"], &ledger)
        .await;
    assert_eq!(code, Some(0), "{shown}\n{said}");
    let recorded = [&audit[..], &["--record"]].concat();
    let (code, shown, said) = owner.run(&recorded, &ledger).await;
    assert_eq!(code, Some(0), "{shown}\n{said}");
    // The verdict is in the record, with the policy that it is about.
    let export = ["budget", "export", "--policy", policy];
    let (code, exported, said) = owner.run(&export, &ledger).await;
    assert_eq!(code, Some(0), "{said}");
    let kept = exported
        .lines()
        .find(|line| line.contains("\"act\":\"audit\""));
    let kept: serde_json::Value = serde_json::from_str(kept.unwrap()).unwrap();
    let file = pgveil::policy::File::parse_without_secrets("policy.yaml", SEARCHED, |_| None);
    assert_eq!(kept["target"], file.unwrap().digest.to_string());
    assert!(
        kept["why"].as_str().unwrap().starts_with("No finding: "),
        "{kept}"
    );
    let report: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let questions: Vec<&str> = report["asked"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|asked| asked["question"].as_str())
        .collect();
    assert!(questions.contains(&"sum of public.people.x"), "{shown}");
    // The made-up extreme is as far as the bound that was found.
    let measured = report["measured"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|measured| measured["question"] == "sum of public.people.x");
    assert!(
        measured.clone().count() > 0
            && measured
                .clone()
                .all(|m| m["holds"] == true && m["share"].as_f64() > Some(0.5)),
        "{shown}"
    );
}
