//! `pgveil summarize`: what the owner sees, and what is left after a kill.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pgveil::ledger::Ledger;
use pgveil::mechanism::Fixed;
use pgveil::policy::{File, Policy, check};
use pgveil::postgres::LocalPostgres;

use crate::fixture::{TemporaryDirectory, account, started};

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A schema and columns whose names need quotes, an enum, fixed-length text, and people with many
/// rows.
const TABLES: &str = "CREATE SCHEMA \"Clinic East\";
    CREATE TYPE \"Clinic East\".ward AS ENUM ('north', 'south');
    CREATE TABLE \"Clinic East\".\"Visits\" (id int NOT NULL, \"Ward\" \"Clinic East\".ward, \
        kind char(3) NOT NULL, \"Minutes\" int);
    INSERT INTO \"Clinic East\".\"Visits\" SELECT g % 300, \
        (ARRAY['north', 'south', NULL])[1 + g % 3]::\"Clinic East\".ward, \
        (ARRAY['a', 'b'])[1 + g % 2], g % 60 FROM generate_series(1, 1500) g;
    CREATE INDEX visits_kind ON \"Clinic East\".\"Visits\" (kind);";

fn policy() -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: patient, budget: {{epsilon: 8, delta: 1e-6}}, per_query: {{epsilon: 0.5}}}}
roles:
  - {{name: analyst, password: {VERIFIER}, budget: {{epsilon: 3, delta: 1e-7}}}}
tables:
  Clinic East.Visits:
    unit: id
    rows_per_unit: 5
    columns:
      Ward: {{values: [north, south], complete: true}}
      kind: {{values: [a, b], complete: true}}
      Minutes: {{bounds: [0, 59]}}
summaries:
  visits:
    of: Clinic East.Visits
    keys: [Ward, kind, Minutes]
    measures: [Minutes]
    marginals: all 2
    epsilon: 0.5
  wards: {{of: Clinic East.Visits, keys: [Ward], marginals: all 1, epsilon: 0.1}}
"
    )
}

struct Stage {
    server: LocalPostgres,
    client: tokio_postgres::Client,
    directory: TemporaryDirectory,
    policy: Policy,
}

impl Stage {
    async fn new() -> Self {
        Self::over(&policy()).await
    }

    async fn over(policy: &str) -> Self {
        Self::over_rows(policy, "").await
    }

    async fn over_rows(policy: &str, rows: &str) -> Self {
        let (server, client) = started("clinic", Vec::new()).await;
        client
            .batch_execute(&format!("{TABLES}{rows}"))
            .await
            .unwrap();
        let directory = TemporaryDirectory::new("summarize");
        std::fs::write(directory.0.join("policy.yaml"), policy).unwrap();
        let variable = |name: &str| {
            let url = match name {
                "DATABASE_URL" => server.url(),
                _ => "sqlite:///x",
            };
            Some(url.to_owned())
        };
        let file = File::parse("policy.yaml", policy, variable).unwrap();
        let catalog = pgveil::catalog::load(&client).await.unwrap();
        let policy = check(&file, &catalog, &client).await.unwrap().policy;
        Self {
            server,
            client,
            directory,
            policy,
        }
    }

    fn ledger(&self) -> String {
        format!("sqlite://{}", self.directory.0.join("ledger.db").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        let (first, rest) = arguments.split_first().unwrap();
        command
            .arg(first)
            .arg(self.directory.0.join("policy.yaml"))
            .args(rest);
        command.env_remove("PGVEIL_LOG").env_remove("RUST_LOG");
        command
            .env("DATABASE_URL", self.server.url())
            .env("PGVEIL_LEDGER", self.ledger());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> (Output, String) {
        let output = self.command(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        (output, said)
    }

    /// What was charged to the owner by a command that was killed before its statement ran.
    async fn killed_after_the_debit(&self, name: &str) -> Fixed {
        // No statement over the table is planned while its index is locked.
        let lock = "BEGIN; REINDEX INDEX \"Clinic East\".visits_kind";
        self.client.batch_execute(lock).await.unwrap();
        let mut child = self
            .command(&["summarize", name])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        let charged = loop {
            // The catalog can be read, the ledger too.
            let charged = self.spent().await;
            if charged > Fixed::ZERO {
                break charged;
            }
            let ended = child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "no debit came: {ended:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        child.kill().unwrap();
        child.wait().unwrap();
        self.client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(self.spent().await, charged);
        charged
    }

    /// What the command says once the claim of a killed one has ended.
    async fn made_after_the_claim(&self, name: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (output, said) = self.run(&["summarize", name]);
            if output.status.success() {
                return said;
            }
            assert!(said.contains("another process is making this"), "{said}");
            assert!(Instant::now() < deadline, "the claim does not end");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Mu squared that the owner's account has paid.
    async fn spent(&self) -> Fixed {
        let policy = &self.policy;
        let role = policy.role("analyst").unwrap();
        let owner = account("owner", policy.privacy.budget, policy);
        let url = self.ledger();
        let roles = [account("analyst", role.budget, policy)];
        let ledger = Ledger::open(&url, owner, &roles).await.unwrap();
        ledger.balance_owner().await.unwrap().spent.mu_squared
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_makes_summaries_by_command() {
    let stage = Stage::new().await;
    let (output, said) = stage.run(&["check"]);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("visits: Clinic East.Visits, ")
            && said.contains(" noisy groups, epsilon 0.5 ("),
        "{said}"
    );
    assert!(
        said.contains("(Ward, kind): standard error of a count "),
        "{said}"
    );
    let (output, said) = stage.run(&["summarize", "nothing"]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Its summaries are visits, wards."), "{said}");
    let (output, said) = stage.run(&["summarize", "wards"]);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("wards: made; role analyst has received it"),
        "{said}"
    );
    let one = stage.spent().await;
    assert!(one > Fixed::ZERO);
    // The one that is left.
    let (output, said) = stage.run(&["summarize"]);
    assert!(
        output.status.success() && said.contains("visits: made;"),
        "{said}"
    );
    assert!(
        said.contains("made before; --again") && !said.contains("wards: made;"),
        "{said}"
    );
    let both = stage.spent().await;
    assert!(both > one);
    let (output, said) = stage.run(&["summarize"]);
    assert!(
        output.status.success() && !said.contains(": made;"),
        "{said}"
    );
    assert_eq!(stage.spent().await, both);
    let (output, said) = stage.run(&["summarize", "wards", "--again", "--yes"]);
    assert!(
        output.status.success() && said.contains("wards: made;"),
        "{said}"
    );
    assert!(stage.spent().await > both);
}

/// The charge stands, the summary is due, and once the dead process's claim has ended it is made
/// for another charge.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_debit_and_keeping_loses_the_summary_alone() {
    let stage = Stage::new().await;
    let charged = stage.killed_after_the_debit("wards").await;
    let said = stage.made_after_the_claim("wards").await;
    assert!(said.contains("wards: made;"), "{said}");
    let both = stage.spent().await.to_f64();
    assert!((both - 2.0 * charged.to_f64()).abs() < 1e-12);
    let (_, said) = stage.run(&["summarize", "wards"]);
    assert!(said.contains("made before"), "{said}");
}

/// A summary whose sets are selected, of patients with five rows each. The kind follows from the
/// ward, and nothing else depends on anything.
fn auto_policy() -> String {
    let policy = policy();
    let (before, _) = policy.split_once("summaries:").unwrap();
    let before = before
        .replace(
            "per_query: {epsilon: 0.5}",
            "per_query: {epsilon: 0.5, max_epsilon: 4}",
        )
        .replace(
            "budget: {epsilon: 3, delta: 1e-7}",
            "budget: {epsilon: 6, delta: 1e-7}",
        );
    before
        + "      Hour: {bounds: [0, 3]}
summaries:
  visits: {of: Clinic East.Visits, keys: [Ward, kind, Hour], measures: [Minutes], \
        marginals: auto, epsilon: 3}
"
}

async fn auto_stage() -> Stage {
    let policy = auto_policy();
    let stage = Stage::over_rows(
        &policy,
        "ALTER TABLE \"Clinic East\".\"Visits\" ADD \"Hour\" int NOT NULL DEFAULT 0;
        DELETE FROM \"Clinic East\".\"Visits\";
        INSERT INTO \"Clinic East\".\"Visits\" SELECT g / 5, CASE g / 4 % 3 WHEN 0 THEN 'north' \
            WHEN 1 THEN 'south' END::\"Clinic East\".ward, CASE WHEN g / 4 % 3 = 0 THEN 'a' ELSE \
            'b' END, g % 60, g % 4 FROM generate_series(0, 11999) g",
    );
    stage.await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_selects_sets_by_command() {
    let stage = auto_stage().await;
    let (output, said) = stage.run(&["check"]);
    assert!(output.status.success(), "{said}");
    let from =
        "visits: Clinic East.Visits, its sets are selected from 4 of two or three keys, for ";
    assert!(
        said.contains(from) && said.contains("3 rounds; a set is seen"),
        "{said}"
    );
    let (output, said) = stage.run(&["summarize"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(from), "{said}");
    // Both prices are said before they are charged.
    assert_eq!(said.matches("Will be charged: ").count(), 2, "{said}");
    // What follows the pair that belongs together is by chance the hour alone or with another key.
    let selected = said.split("visits: selected (Ward, kind), (").nth(1);
    let other = selected.and_then(|rest| rest.split("); role analyst has received").next());
    let is_one_set = |set: &str| set.contains("Hour") && !set.contains([')', '\n']);
    assert!(other.is_some_and(is_one_set), "{said}");
    assert!(
        said.contains("(Ward, kind): standard error of a count "),
        "{said}"
    );
    assert!(
        said.contains("visits: made; role analyst") && said.contains("SIGHUP"),
        "{said}"
    );
    let spent = stage.spent().await;
    // A quarter of mu squared for the selection, the rest for the summary; together what epsilon 3
    // is at this delta.
    let whole = pgveil::mechanism::mu_of(Fixed::round_down(3.0), Fixed::round_down(1e-7));
    let whole = whole.unwrap().square();
    assert!(
        spent <= whole && spent.to_f64() > 0.99 * whole.to_f64(),
        "{spent:?} {whole:?}"
    );
    let (_, said) = stage.run(&["check"]);
    assert!(
        said.contains("(Ward, kind): standard error of a count "),
        "{said}"
    );
    let (output, said) = stage.run(&["summarize"]);
    assert!(
        output.status.success() && said.contains("made before"),
        "{said}"
    );
    assert!(!said.contains("selected ("), "{said}");
    assert_eq!(stage.spent().await, spent);
    let (output, said) = stage.run(&["summarize", "visits", "--again", "--yes"]);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("visits: selected (") && said.contains("visits: made;"),
        "{said}"
    );
    assert!((stage.spent().await.to_f64() - 2.0 * spent.to_f64()).abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_the_debit_loses_the_selection_alone() {
    let stage = auto_stage().await;
    let charged = stage.killed_after_the_debit("visits").await;
    let said = stage.made_after_the_claim("visits").await;
    assert!(
        said.contains("visits: selected (") && said.contains("visits: made;"),
        "{said}"
    );
    let whole = stage.spent().await.to_f64();
    // The first selection, a second one of the same price, and the summary at three times that.
    let times = whole / charged.to_f64();
    assert!((times - 5.0).abs() < 0.05, "{times}");
}
