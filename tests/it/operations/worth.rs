//! The accuracy and the price of answers in the commands' output: `explain` with its options,
//! `budget`.

use std::process::{Command, Output, Stdio};

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::NoTls;

use crate::fixture::{TemporaryDirectory, load};

struct Stage {
    server: LocalPostgres,
    folder: TemporaryDirectory,
}

impl Stage {
    async fn new() -> Self {
        let options = ServerOptions {
            database: Some("nls".to_owned()),
            ..ServerOptions::default()
        };
        let server = LocalPostgres::start(options).await.unwrap();
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        load(&client).await;
        let folder = TemporaryDirectory::new("worth");
        Self { server, folder }
    }

    fn ledger(&self) -> String {
        format!("sqlite://{}/l.db", self.folder.0.display())
    }

    fn pgveil(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_pgveil"))
            .args(arguments)
            .env("DATABASE_URL", self.server.url())
            .env("PGVEIL_LEDGER", self.ledger())
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn reported(&self, arguments: &[&str]) -> String {
        let output = self.pgveil(arguments);
        let reported = text(&output.stdout);
        assert!(
            output.status.success(),
            "{reported}{}",
            text(&output.stderr)
        );
        reported
    }

    /// Half of the analyst's budget is spent.
    async fn spend(&self) {
        use pgveil::ledger::{Fingerprint, Ledger};
        use pgveil::mechanism::{Mu, loss_gaussian};
        let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let named = |name: &str| match name {
            "PGVEIL_LEDGER" => Some(self.ledger()),
            _ => Some(self.server.url().to_owned()),
        };
        let file = pgveil::policy::File::parse("demo.yaml", &yaml, named).unwrap();
        let (owner, roles) = pgveil::cli::start::accounts(&file.privacy, &file.roles)
            .unwrap_or_else(|_| panic!("accounts"));
        let half = (roles[0].cap.mu_squared().to_f64() / 2.0).sqrt();
        let ledger = Ledger::open(&self.ledger(), owner, &roles).await.unwrap();
        let loss = loss_gaussian(Mu::round_down(half));
        let print = Fingerprint::new([7; 32]);
        let _ = ledger.debit("analyst", loss, print).await.unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const BY_RACE: &str = "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race";

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_prices_curves_and_what_is_left() {
    let stage = Stage::new().await;
    let explain = ["explain", "--policy", "policies/demo.yaml"];
    let reported = stage.reported(&[&explain[..], &[BY_RACE]].concat());
    let words = "count ±24.9, average ±317 / rows on each of 3 groups; 3.51 % of your budget; \
        96.5 % left after\n";
    assert!(
        reported.starts_with(words) && !reported.contains("SELECT"),
        "{reported}"
    );
    let reported = stage.reported(&[&explain[..], &["--verbose", BY_RACE]].concat());
    assert!(reported.contains("  SQL: SELECT "), "{reported}");

    // Halving epsilon doubles the error, and buys about four times as many.
    let reported = stage.reported(&[&explain[..], &["--curve", BY_RACE]].concat());
    println!("{reported}");
    let words: Vec<&str> = reported.split_whitespace().collect();
    let reported = words.join(" ");
    for part in [
        "| of the budget | such answers |",
        "±24.9 | ±317 / rows",
        "| 3.51 % ",
        "▇ without a setting",
    ] {
        assert!(reported.contains(part), "{part}\n{reported}");
    }
    // As the document has it.
    let plain = "SELECT count(*) FROM nls.women";
    let reported = stage.reported(&[&explain[..], &["--curve", plain]].concat());
    let document = std::fs::read_to_string("docs/operations.md").unwrap();
    assert!(
        document.contains(&format!("--curve '{plain}'\n{reported}```\n")),
        "{reported}"
    );
    let json = stage.reported(&[&explain[..], &["--curve", "--json", BY_RACE]].concat());
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let points = document["curve"].as_array().unwrap();
    assert!((6..=12).contains(&points.len()), "{json}");
    let of = |point: &serde_json::Value, key: &str| point[key].as_f64().unwrap();
    for pair in points.windows(2) {
        let errors = pair
            .iter()
            .map(|point| of(&point["aggregates"][0], "half_width_95"));
        let errors: Vec<f64> = errors.collect();
        let answers: Vec<f64> = pair.iter().map(|point| of(point, "answers")).collect();
        let ratio = of(&pair[1], "epsilon") / of(&pair[0], "epsilon");
        assert!(
            (errors[0] / errors[1] / ratio - 1.0).abs() < 0.1,
            "{pair:#?}"
        );
        assert!(
            answers[0] > answers[1] && pair[0]["share_of_budget"] != pair[1]["share_of_budget"]
        );
    }
    // A free question has no curve; a refused one gives its error.
    let free = stage.reported(
        &[
            &explain[..],
            &["--curve", "SELECT count(*) FROM nls.industries"],
        ]
        .concat(),
    );
    assert!(free.contains("(1 row)"), "{free}");
    let refused = stage.pgveil(&[&explain[..], &["--curve", "SELECT * FROM nls.women"]].concat());
    assert!(text(&refused.stderr).contains("\nERROR:  "), "{refused:?}");

    // The ledger gives the rest of the budget.
    let spent = [&explain[..], &["--spent", BY_RACE]].concat();
    let missing = stage.pgveil(&spent);
    assert!(
        text(&missing.stderr).contains("there is no ledger"),
        "{missing:?}"
    );
    stage.spend().await;
    let reported = stage.reported(&spent);
    assert!(
        reported.contains("; 3.51 % of your budget; 46.5 % left after\n"),
        "{reported}"
    );
    let last = reported.lines().last().unwrap();
    assert_eq!(
        last,
        "Budget: 50.00 % of your budget is left; after this query 46.49 %"
    );
    let curve =
        stage.reported(&[&explain[..], &["--curve", "--spent", "--json", BY_RACE]].concat());
    let left: serde_json::Value = serde_json::from_str(&curve).unwrap();
    let answers = |document: &serde_json::Value| of(&document["curve"][0], "answers");
    let ratio = answers(&left) / answers(&document);
    assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
}

#[tokio::test(flavor = "multi_thread")]
async fn budget_ends_with_what_is_left_in_answers() {
    let stage = Stage::new().await;
    stage.spend().await;
    let budget = ["budget", "--policy", "policies/demo.yaml"];
    let reported = stage.reported(&budget);
    println!("{reported}");
    let check = stage.reported(&["check", "policies/demo.yaml"]);
    let table = |reported: &str| reported.split_once("  nls.women\n").unwrap().1.to_owned();
    // At the price of a query, and at the most that one may spend.
    for epsilon in ["0.5", "1"] {
        let of = |reported: &str| -> Vec<String> {
            let begin = format!("    at epsilon {epsilon}: count(*) ±");
            let table = table(reported);
            let line = table.lines().find(|line| line.starts_with(&begin));
            let parts = line.unwrap_or_default().split("; ");
            parts.map(str::to_owned).collect()
        };
        let (budget, check) = (of(&reported), of(&check));
        assert!(
            budget.len() == 2 && check.len() == 2,
            "{reported}\n{check:?}"
        );
        assert_eq!(budget[0], check[0]);
        assert!(budget[1].starts_with(&check[1]), "{reported}");
    }
    let table = table(&reported);
    let (_, held) = table.split_once("the budget holds").unwrap();
    let held = held.lines().next().unwrap();
    let numbers: Vec<u64> = held
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [whole, left] = numbers[..] else {
        panic!("{held}")
    };
    assert!(left > 0 && (left * 2).abs_diff(whole) <= 2, "{held}");
    // A frozen account holds nothing more.
    let why = ["freeze", "--role", "analyst", "--why", "a test"];
    stage.reported(&[&budget[..], &why].concat());
    assert!(
        stage
            .reported(&budget)
            .contains(&format!("holds {whole} such answers, and 0 more are left"))
    );
}
