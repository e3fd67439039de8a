//! `bounds: auto` and `rows_per_unit: auto`: their findings, and who pays how much and how often.

use std::process::{Command, Output};
use std::sync::Arc;

use pgveil::auto_bounds::{Error, KeptSearch, Maker, search_name, stored_results};
use pgveil::engine::{Engine, Requester};
use pgveil::execute::Backend;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, OsRandomness, SampleError, Sampler};
use pgveil::policy::{Finding, Search};
use pgveil::postgres::LocalPostgres;
use pgveil::release::OwnerError;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Silent, TemporaryDirectory, Veil, rows_of};

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

pub fn policy() -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: buyer, budget: {{epsilon: 8, delta: 1e-6}}}}
roles:
  - {{name: analyst, password: {VERIFIER}, budget: {{epsilon: 3, delta: 1e-7}}}}
  - {{name: colleague, password: {VERIFIER}, budget: {{epsilon: 3, delta: 1e-7}}}}
  - {{name: pauper, password: {VERIFIER}, budget: {{epsilon: 0.001, delta: 1e-9}}}}
tables:
  public.buyers: {{unit: id, columns: {{score: {{bounds: auto}}}}}}
  public.orders:
    unit: {{path: [buyer -> public.buyers.id]}}
    rows_per_unit: auto
    columns:
      price: {{bounds: [0, auto]}}
      change: {{bounds: auto}}
      weight: {{bounds: [auto, 100]}}
  public.lines: {{unit: {{path: [item -> public.orders.id, buyer -> public.buyers.id]}}, \
  rows_per_unit: auto, columns: {{pieces: {{bounds: auto}}}}}}
"
    )
}

pub const TABLES: &str = "CREATE TABLE buyers (id int PRIMARY KEY, score int);
     CREATE TABLE orders (id int PRIMARY KEY, buyer int REFERENCES buyers, price numeric(8,2), \
     change bigint, weight float8);
     CREATE TABLE lines (item int REFERENCES orders, pieces smallint);";

/// Ten thousand buyers with one to six orders of two lines.
pub const ROWS: &str = "INSERT INTO buyers SELECT g, -50 + g % 40 FROM generate_series(1, 10000) g;
     INSERT INTO orders SELECT 10 * b + o, b, (b % 300) + 0.37, (b % 90) - 20, -1.5 * (b % 6) FROM \
     generate_series(1, 10000) b, generate_series(0, b % 6) o;
     INSERT INTO lines SELECT id, 0 FROM orders, generate_series(1, 2);";

async fn veil(rows: &str, edit: impl Fn(String) -> String) -> Veil {
    let fill = async |client: &Client| {
        client
            .batch_execute(&format!("{TABLES}{rows}"))
            .await
            .unwrap()
    };
    Veil::over(fill, &edit(policy()), None).await
}

/// Makes all searches without noise, at an epsilon that takes few units to pass.
async fn searched(veil: &Veil, epsilon: f64) -> Vec<(String, KeptSearch)> {
    let mut all = Vec::new();
    for search in &veil.engine.policy().searches {
        let kept = make(veil, search, epsilon, &mut Silent).await.unwrap();
        all.push((search_name(veil.engine.policy(), search), kept));
    }
    all
}

pub async fn make(
    veil: &Veil,
    search: &Search,
    epsilon: f64,
    sampler: &mut (dyn Sampler + Send),
) -> Result<KeptSearch, Error> {
    let backend = Backend::new(veil.server.config(), 1);
    let maker = Maker {
        policy: veil.engine.policy(),
        backend: &backend,
        ledger: veil.engine.ledger(),
        epsilon,
    };
    maker.make(search, sampler, &CancellationToken::new()).await
}

fn bounds(lower: &str, upper: &str) -> Finding {
    Finding::Bounds {
        lower: lower.to_owned(),
        upper: upper.to_owned(),
    }
}

async fn spent(veil: &Veil, role: &str) -> f64 {
    veil.engine
        .ledger()
        .balance(role)
        .await
        .unwrap()
        .spent
        .mu_squared
        .to_f64()
}

async fn owner(veil: &Veil) -> f64 {
    veil.engine
        .ledger()
        .balance_owner()
        .await
        .unwrap()
        .spent
        .mu_squared
        .to_f64()
}

fn requester(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        ..Veil::requester()
    }
}

async fn proxy(veil: &Veil) -> Arc<Engine> {
    veil.proxy(&veil.ledger).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_holds_the_values_and_little_more() {
    let veil = veil(ROWS, |policy| policy).await;
    let found = searched(&veil, 1.0).await;
    let wanted = [
        ("public.buyers.score", bounds("-64", "-8")),
        ("rows of public.orders", Finding::Rows(8)),
        ("public.orders.price", bounds("0", "512")),
        ("public.orders.change", bounds("-32", "128")),
        ("public.orders.weight", bounds("-8", "100")),
        ("rows of public.lines", Finding::Rows(16)),
        ("public.lines.pieces", bounds("0", "1")),
    ];
    assert_eq!(found.len(), wanted.len());
    for ((name, kept), (wanted_name, wanted)) in found.iter().zip(wanted) {
        assert_eq!(
            (name.as_str(), &kept.finding, kept.unseen, kept.epsilon),
            (wanted_name, &wanted, 0, 1.0)
        );
    }
    // They are the policy's from now on, and part of its version.
    let engine = proxy(&veil).await;
    assert_ne!(engine.policy().version, veil.engine.policy().version);
    let bounds = "SELECT column_name, lower_bound, upper_bound FROM pgveil.columns \
        WHERE table_name = 'orders' AND lower_bound IS NOT NULL ORDER BY 1";
    let rows = rows_of(&engine, &requester("analyst"), bounds)
        .await
        .unwrap_or_else(|e| panic!("{:?}", e.report()));
    assert_eq!(rows, ["change|-32|128", "price|0|512", "weight|-8|100"]);
    let sum = rows_of(
        &engine,
        &requester("analyst"),
        "SELECT sum(price), count(*) FROM orders",
    )
    .await
    .unwrap();
    assert_eq!(sum.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_values_and_no_values_find_no_more_than_the_type() {
    for rows in [
        "",
        "INSERT INTO buyers SELECT g, NULL FROM generate_series(1, 9000) g; INSERT INTO orders \
            (id, \
            buyer) SELECT g, NULL FROM generate_series(1, 9000) g;",
        "INSERT INTO buyers SELECT g, CASE g % 2 WHEN 0 THEN 2147483647 ELSE -2147483648 END FROM \
            generate_series(1, 9000) g;
         INSERT INTO orders SELECT g, g, CASE g % 3 WHEN 0 THEN 'NaN' WHEN 1 THEN -999999.99 ELSE \
         999999.99 END, CASE g % 2 WHEN 0 THEN 9223372036854775807
             ELSE -9223372036854775808 END, (ARRAY['NaN', 'Infinity', '-Infinity', '1e308', \
             '-1e308', '5e-324', '-0'])[1 + g % 7]::float8 FROM generate_series(1, 9000) g;
         INSERT INTO lines SELECT id, CASE id % 2 WHEN 0 THEN 32767 ELSE -32768 END FROM orders;",
    ] {
        let veil = veil(rows, |policy| policy).await;
        let found = searched(&veil, 1.0).await;
        let widest = [
            ("-2147483648", "2147483647"),
            ("0", "999999.99"),
            ("-9223372036854775808", "9223372036854775807"),
            ("-1152921504606846976", "100"),
            ("-32768", "32767"),
        ];
        let mut widest = widest.into_iter();
        for (name, kept) in &found {
            match &kept.finding {
                Finding::Rows(rows) if rows_are_shown(name, &veil).await => {
                    assert_eq!((*rows, kept.unseen), (1, 0), "{name}")
                }
                Finding::Rows(rows) => assert_eq!((*rows, kept.unseen), (1000, 1), "{name}"),
                Finding::Bounds { lower, upper } => {
                    let (least, most) = widest.next().unwrap();
                    // Of those floats the least one and the negative zero alone are within reach.
                    let least = if name.ends_with("weight") && rows.contains("NaN") {
                        "0"
                    } else {
                        least
                    };
                    assert_eq!((lower.as_str(), upper.as_str()), (least, most), "{name}");
                }
            }
        }
        // A policy on such findings plans and answers.
        let engine = proxy(&veil).await;
        rows_of(
            &engine,
            &requester("analyst"),
            "SELECT count(*), sum(price) FROM orders",
        )
        .await
        .unwrap_or_else(|e| panic!("{:?}", e.report()));
    }
}

/// Whether any row of the table belongs to a unit.
async fn rows_are_shown(name: &str, veil: &Veil) -> bool {
    let table = name.trim_start_matches("rows of ");
    let joined = if table.ends_with("lines") {
        "JOIN orders ON orders.id = item"
    } else {
        ""
    };
    veil.direct(&format!(
        "SELECT count(*) FROM {table} {joined} WHERE buyer IS NOT NULL"
    ))
    .await
        != ["0"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_paid_once_by_the_owner_and_by_each_role() {
    let veil = veil(ROWS, |policy| policy).await;
    searched(&veil, 0.1).await;
    let (total, of_analyst) = (owner(&veil).await, spent(&veil, "analyst").await);
    assert!(
        total > 0.0 && (total - of_analyst).abs() < 1e-15,
        "{total} {of_analyst}"
    );
    assert_eq!(spent(&veil, "colleague").await, 0.0);
    let all = stored_results(veil.engine.policy(), veil.engine.ledger())
        .await
        .unwrap();
    assert!(all.iter().all(Option::is_some));
    // A role that has paid asks on for free. Another role pays the same, once, on whichever proxy
    // it asks first.
    let engine = proxy(&veil).await;
    let free = "SELECT count(*) FROM pgveil.columns";
    rows_of(&engine, &requester("analyst"), free).await.unwrap();
    assert_eq!(spent(&veil, "analyst").await, of_analyst);
    let second = proxy(&veil).await;
    let (ours, theirs) = (requester("colleague"), requester("colleague"));
    let (first, again) = tokio::join!(
        rows_of(&engine, &ours, free),
        rows_of(&second, &theirs, free)
    );
    assert_eq!(first.unwrap(), again.unwrap());
    assert!((spent(&veil, "colleague").await - of_analyst).abs() < 1e-15);
    assert_eq!(owner(&veil).await, total, "the owner has paid");
    // A role that cannot pay learns nothing, not even a bound by an error at SET, and loses
    // nothing.
    for sql in [
        free,
        "SELECT count(*) FROM buyers",
        "SELECT price FROM orders",
        "SELECT lower_bound FROM pgveil.columns",
    ] {
        let refusal = rows_of(&engine, &requester("pauper"), sql)
            .await
            .unwrap_err()
            .report();
        assert_eq!(refusal.sqlstate, "53400", "{sql} {refusal:?}");
        assert!(
            refusal
                .detail
                .as_ref()
                .is_some_and(|detail| detail.contains("auto")),
            "{refusal:?}"
        );
    }
    assert_eq!(
        rows_of(&engine, &requester("pauper"), "SELECT 1")
            .await
            .unwrap(),
        ["1"]
    );
    assert_eq!(
        rows_of(
            &engine,
            &requester("pauper"),
            "SELECT mu_spent FROM pgveil.budget"
        )
        .await
        .unwrap(),
        ["0"]
    );
    assert_eq!(spent(&veil, "pauper").await, 0.0);
    assert_eq!(
        engine.policy().rows_per_unit_max(),
        engine.policy().limits.rows_per_unit
    );
    // Another plan of the data or of other columns finds the same; another definition does not.
    let same = veil.engine.policy().clone();
    for (changed, is_known) in [
        (
            pgveil::policy::Policy {
                privacy: pgveil::policy::Privacy {
                    data_version: "next".to_owned(),
                    ..same.privacy.clone()
                },
                ..same.clone()
            },
            true,
        ),
        (retyped(&same), false),
    ] {
        let found = stored_results(&changed, veil.engine.ledger())
            .await
            .unwrap();
        assert_eq!(found[0].is_some(), is_known, "the search of buyers.score");
    }
}

/// The first table's searched column is of another type.
fn retyped(policy: &pgveil::policy::Policy) -> pgveil::policy::Policy {
    let mut policy = policy.clone();
    policy.tables[0].columns[1].data_type = pgveil::catalog::Type::Int8;
    policy
}

/// Gives no noise at all.
struct Broken;

impl Sampler for Broken {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Err(SampleError::Exhausted)
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Err(SampleError::Exhausted)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_after_the_debit_is_paid_and_searched_again() {
    let veil = veil(ROWS, |policy| policy).await;
    let search = veil.engine.policy().searches[0].clone();
    assert!(matches!(
        make(&veil, &search, 0.1, &mut Broken).await,
        Err(Error::Making(OwnerError::Release(_)))
    ));
    let paid = owner(&veil).await;
    assert!(paid > 0.0);
    assert_eq!(
        stored_results(veil.engine.policy(), veil.engine.ledger())
            .await
            .unwrap()[0],
        None
    );
    // It has no claim any more.
    make(&veil, &search, 0.1, &mut OsRandomness::new())
        .await
        .unwrap();
    assert!((owner(&veil).await - 2.0 * paid).abs() < 1e-12);
    // Made again, the newest counts, for its own price.
    let before = stored_results(veil.engine.policy(), veil.engine.ledger())
        .await
        .unwrap()[0]
        .clone()
        .unwrap();
    let newest = make(&veil, &search, 1.0, &mut OsRandomness::new())
        .await
        .unwrap();
    let after = stored_results(veil.engine.policy(), veil.engine.ledger())
        .await
        .unwrap()[0]
        .clone()
        .unwrap();
    assert_eq!(after.0, newest);
    assert_ne!(after.1.answer, before.1.answer);
    assert!(after.1.loss.mu_squared > before.1.loss.mu_squared);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_that_is_spent_buys_no_search() {
    let veil = veil(ROWS, |policy| {
        policy
            .replace("epsilon: 8", "epsilon: 0.01")
            .replace("epsilon: 3", "epsilon: 0.01")
    })
    .await;
    let search = &veil.engine.policy().searches[0];
    assert!(matches!(
        make(&veil, search, 1.0, &mut Silent).await,
        Err(Error::Making(OwnerError::Refused(refusal))) if refusal.sqlstate == "53400"
    ));
    assert_eq!(owner(&veil).await, 0.0);
}

fn pgveil(
    directory: &TemporaryDirectory,
    server: &LocalPostgres,
    arguments: &[&str],
) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
    command
        .args(arguments)
        .env_remove("PGVEIL_LOG")
        .env_remove("RUST_LOG")
        .env("DATABASE_URL", server.url());
    command.env(
        "PGVEIL_LEDGER",
        format!("sqlite://{}", directory.0.join("ledger.db").display()),
    );
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output, text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_searches_by_command() {
    let (server, client) = crate::fixture::started("shop", Vec::new()).await;
    client
        .batch_execute(&format!("{TABLES}{ROWS}"))
        .await
        .unwrap();
    let directory = TemporaryDirectory::new("search");
    let path = directory.0.join("policy.yaml");
    std::fs::write(&path, policy()).unwrap();
    let path = path.to_str().unwrap();
    let run = |arguments: &[&str]| pgveil(&directory, &server, arguments);

    let (output, said) = run(&["serve", "--policy", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("public.orders.price") && said.contains("Run `pgveil bounds`"),
        "{said}"
    );
    let (output, said) = run(&["check", path]);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("public.buyers.score: due") && said.contains("7 searches are due"),
        "{said}"
    );
    let (output, said) = run(&["bounds", path, "--epsilon", "0"]);
    assert_eq!(output.status.code(), Some(2), "{said}");

    let (output, said) = run(&["bounds", path, "--epsilon", "0.2"]);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("public.orders.price: will cost ")
            && said.contains("charged to the owner's total"),
        "{said}"
    );
    // Noise may pass for prices further off, once in two hundred searches.
    let (_, rest) = said.split_once("public.orders.price: from 0 to ").unwrap();
    let (upper, _) = rest.split_once(' ').unwrap();
    let (upper, highest) = (upper.to_owned(), upper.parse::<f64>().unwrap());
    assert!(highest >= 512.0, "{said}");
    let found = |how: &str| format!("public.orders.price: from 0 to {upper} ({how}");
    assert!(
        said.contains(&found("new, searched at epsilon 0.2)")),
        "{said}"
    );
    // Without the log's lines, which have a time.
    let balances = || {
        let (_, said) = run(&["budget", "--policy", path]);
        let lines = said.lines().filter(|line| !line.contains(" INFO "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let budget = balances();
    // A second time there is nothing to make and nothing to pay.
    let (output, said) = run(&["bounds", path]);
    assert!(
        output.status.success() && !said.contains("will cost"),
        "{said}"
    );
    assert!(
        said.contains(&found("known, searched at epsilon 0.2)")),
        "{said}"
    );
    assert_eq!(balances(), budget);
    let (_, said) = run(&["check", path]);
    assert!(
        said.contains(&found("in the ledger")) && !said.contains("due"),
        "{said}"
    );
    // The meaning for the plainest questions.
    let noise = |what: &str| -> f64 {
        let (_, rest) = said.rsplit_once("\n  public.orders: ").unwrap();
        let (_, rest) = rest.split_once(&format!("{what} ±")).unwrap();
        let (_, rest) = rest.split_once(" units, at most ").unwrap();
        let number: String = rest
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        number.parse().unwrap()
    };
    let ratio = noise("sum(price)") / noise("count(*)") / highest;
    // Both are rounded to three digits or fewer.
    assert!((0.957..=1.045).contains(&ratio), "{ratio}: {said}");
    let (output, said) = run(&["explain", "--policy", path, "SELECT sum(price) FROM orders"]);
    assert!(output.status.success() && said.contains(&upper), "{said}");
}
