//! Monitors: verdicts are PostgreSQL's own where no noise is drawn, an epoch is paid for once, and
//! what cannot be asked is refused for nothing.

use std::sync::{Arc, Mutex};

use pgveil::engine::{Engine, Format, MakeSampler, Requester, Service};
use pgveil::ledger::{Act, Decision};
use pgveil::mechanism::Noise;
use pgveil::parse::{ExplainFormat, Query, Statement, parse};
use pgveil::policy::{Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use super::holdouts::Recorded;
use crate::fixture::{Veil, rows_of};

/// A schema that is not public, names with capitals, char(n), an enum, and many rows a person.
const SCHEMA: &str = "
CREATE SCHEMA \"Till\";
CREATE TYPE \"Till\".kind AS ENUM ('cash', 'card');
CREATE TABLE \"Till\".\"Clients\" (\"Id\" int PRIMARY KEY, branch char(4) NOT NULL);
CREATE TABLE \"Till\".\"Sales\" (id int PRIMARY KEY, \"Client\" int NOT NULL, how \"Till\".kind \
NOT NULL, \"Amount\" numeric(8, 2) NOT NULL, change numeric(6, 2), weight float8);
INSERT INTO \"Till\".\"Clients\" SELECT g, (ARRAY['east', 'west'])[1 + g % 2] FROM \
generate_series(1, 60) AS g;
INSERT INTO \"Till\".\"Sales\" SELECT g, 1 + g % 60, (ARRAY['cash', \
'card'])[1 + g % 2]::\"Till\".kind, g % 90 + 0.25, nullif(g % 21, 0) - 10, g * 0.5 FROM \
generate_series(1, 600) AS g;";

const POLICY: &str = "\
version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${LEDGER_URL}\"}
privacy: {unit: client, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, \
max_epsilon: 8}}
limits: {monitor_questions: 1000}
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 80000, delta: 1e-4}}
  - {name: colleague, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 80000, delta: 1e-4}}
tables:
  Till.Clients: {unit: Id, columns: {branch: {values: [east, west]}}}
  Till.Sales:
    unit: {path: [Client -> Till.Clients.Id], trusted_path: true}
    rows_per_unit: 10
    columns: {how: visible, Amount: {bounds: [0, 100]}, change: {bounds: [-10, 10]}, weight: \
{bounds: [0, 400]}}
";

const SALES: &str = "\"Till\".\"Sales\"";

async fn till(is_silent: bool) -> Veil {
    till_with(is_silent, POLICY).await
}

async fn till_with(is_silent: bool, policy: &str) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let sampler = if is_silent { Veil::silent() } else { None };
    Veil::over(fill, policy, sampler).await
}

fn session() -> Requester {
    Requester {
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    }
}

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        _ => panic!("{sql}"),
    }
}

async fn verdict(engine: &Engine, sql: &str) -> bool {
    match rows_of(engine, &session(), sql).await.unwrap().as_slice() {
        [text] if text == "t" => true,
        [text] if text == "f" => false,
        other => panic!("{sql}: {other:?}"),
    }
}

async fn explained(engine: &Engine, sql: &str, format: ExplainFormat) -> Vec<String> {
    let cancel = CancellationToken::new();
    let (session, query) = (session(), query(sql));
    let explained = engine.explain(&session, &query, &[], &[], format, cancel);
    explained.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_are_postgresqls() {
    let veil = till(true).await;
    for (at, (sum, from)) in [
        ("count(*)", SALES.to_owned()),
        ("count(change)", format!("{SALES} WHERE how = 'card'")),
        ("count(*) FILTER (WHERE \"Amount\" > 50)", SALES.to_owned()),
        ("sum(\"Amount\")", format!("{SALES} WHERE \"Amount\" < 70")),
        ("sum(change)", SALES.to_owned()),
        ("sum(weight)", SALES.to_owned()),
        ("sum(- \"Amount\")", SALES.to_owned()),
        ("count(DISTINCT \"Client\")", SALES.to_owned()),
        (
            "count(*)",
            format!(
                "{SALES} JOIN \"Till\".\"Clients\" ON \"Client\" = \"Id\" WHERE branch = 'west'"
            ),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let exact = veil.direct(&format!("SELECT {sum} FROM {from}")).await;
        let exact = exact[0].as_str();
        // At the sum itself it is true, and a little above it is not.
        let more = veil.direct(&format!("SELECT {exact} + 0.001")).await;
        for (threshold, wanted) in [(more[0].as_str(), false), (exact, true)] {
            let sql = format!("SELECT pgveil.above({sum}, {threshold}, 'm{at}') FROM {from}");
            assert_eq!(verdict(&veil.engine, &sql).await, wanted, "{sql}");
        }
    }
}

/// Tools that draw numbers cast it.
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_may_be_a_number_or_a_text() {
    let veil = till(true).await;
    for (threshold, data_type, wanted) in [
        (1_000_000, "int", "0"),
        (1_000_000, "text", "false"),
        (0, "int4", "1"),
    ] {
        let sql = format!(
            "SELECT 'a' AS kind, pgveil.above(count(*), {threshold}, 'n')::{data_type} AS value \
                FROM {SALES}"
        );
        let rows = rows_of(&veil.engine, &session(), &sql).await.unwrap();
        assert_eq!(rows, [format!("a|{wanted}")], "{sql}");
    }
    let sql = format!("SELECT pgveil.above(count(*), 0)::int FROM {SALES}");
    let described = veil.engine.describe(&session(), &query(&sql), &[]).await;
    let columns = described.unwrap().columns;
    assert_eq!(
        (columns[0].name.as_str(), columns[0].type_oid),
        ("above", 23)
    );
}

/// What an epoch costs of mu squared.
fn of_epoch(epsilon: f64) -> f64 {
    let epsilon = pgveil::mechanism::Fixed::round_down(epsilon);
    let loss = pgveil::mechanism::loss_of_epoch(epsilon);
    loss.mu_squared.to_f64()
}

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_is_paid_for_once() {
    let veil = till(true).await;
    let engine = &veil.engine;
    let ask = |n: u32, name: &str| {
        format!("SELECT pgveil.above(count(*), {n}, '{name}') AS high, 'x' AS kind FROM {SALES}")
    };
    let rows = |sql: String| async move { rows_of(engine, &session(), &sql).await.unwrap() };
    let one = of_epoch(8.0);
    for n in [700, 601, 602] {
        assert_eq!(rows(ask(n, "a")).await, ["f|x"]);
        close(veil.spent().await, one);
    }
    // Another name is another epoch, and so is the next after a true verdict.
    assert_eq!(rows(ask(700, "b")).await, ["f|x"]);
    close(veil.spent().await, 2.0 * one);
    assert_eq!(rows(ask(600, "a")).await, ["t|x"]);
    close(veil.spent().await, 2.0 * one);
    assert_eq!(rows(ask(700, "a")).await, ["f|x"]);
    close(veil.spent().await, 3.0 * one);
    let view = "SELECT monitor_name, epsilon, asked, last_answer, is_open, opened_at < \
        now() + interval '1 day' \
        FROM pgveil.monitors ORDER BY 1";
    assert_eq!(rows(view.to_owned()).await, ["a|8|1|f|t|t", "b|8|1|f|t|t"]);
    // The epsilon is the session's when the epoch opens.
    let cheap = Requester {
        session_settings: Veil::session_settings(0.5),
        ..session()
    };
    let asked = rows_of(engine, &cheap, &ask(700, "c")).await.unwrap();
    assert_eq!(asked, ["f|x"]);
    close(veil.spent().await, 3.0 * one + of_epoch(0.5));
    // Another role has its own, and another proxy too.
    let other = Requester {
        role: "colleague".to_owned(),
        ..session()
    };
    assert!(rows_of(engine, &other, view).await.unwrap().is_empty());
    let asked = rows_of(engine, &other, &ask(700, "a")).await.unwrap();
    assert_eq!(asked, ["f|x"]);
    let again = veil.by_way_of(veil.server.config()).await;
    let before = veil.spent().await;
    assert!(
        !verdict(
            &again,
            &format!("SELECT pgveil.above(count(*), 700, 'a') FROM {SALES}")
        )
        .await
    );
    close(veil.spent().await, before + one);
}

/// An opening draws the noise of its threshold, and each question its own, the same question too;
/// all of the size that the epoch's epsilon asks for.
#[tokio::test(flavor = "multi_thread")]
async fn each_question_has_its_own_draw() {
    let drawn = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&drawn);
    let sampler: MakeSampler = Arc::new(move || Box::new(Recorded(Arc::clone(&record))));
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let veil = Veil::over(fill, POLICY, Some(sampler)).await;
    let scales = || -> Vec<f64> {
        let drawn = std::mem::take(&mut *drawn.lock().unwrap());
        let scale = |noise: Noise| match noise {
            Noise::Laplace { scale } => scale as f64,
            other => panic!("{other:?}"),
        };
        drawn.into_iter().map(scale).collect()
    };
    // In steps that a power of two of the sum's own make one; clips have room for their rounding.
    let is_of = |scale: f64, wanted: f64| {
        let doublings = (scale / wanted).log2();
        (doublings - doublings.round()).abs() < 0.01
    };
    let at_eight = 2.0 * 2f64.powi(40) / 8.0;
    for (sum, low, high, of_question) in [
        // Ten rows of a person over half of epsilon 8; of both signs over a quarter, each of at
        // most a thousand hundredths.
        ("count(*)", 600, 700, 2.0 * 10.0 / 8.0),
        ("sum(change)", -100_000, 100_000, 4.0 * 10.0 * 1000.0 / 8.0),
    ] {
        let ask = |n: i32| format!("SELECT pgveil.above({sum}, {n}, '{sum}') FROM {SALES}");
        for _ in 0..3 {
            assert!(!verdict(&veil.engine, &ask(high)).await);
        }
        assert!(verdict(&veil.engine, &ask(low)).await);
        let found = scales();
        assert_eq!((found.len(), found[0]), (5, at_eight), "{found:?}");
        for scale in &found[1..] {
            assert!(is_of(*scale, of_question), "{sum}: {found:?}");
        }
        // The next one opens it again, with a fresh threshold.
        assert!(!verdict(&veil.engine, &ask(high)).await);
        let again = scales();
        assert_eq!((again.len(), again[0]), (2, at_eight), "{again:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn false_answers_are_free() {
    asked_for_nothing(1_000).await;
}

/// Ten thousand false answers take some minutes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a long run"]
async fn ten_thousand_false_answers_are_free() {
    asked_for_nothing(10_000).await;
}

/// False answers, `asked` of them, cost what the first one did.
async fn asked_for_nothing(asked: u32) {
    let limit = format!("monitor_questions: {}", asked + 1);
    let policy = POLICY.replace("monitor_questions: 1000", &limit);
    let veil = till_with(true, &policy).await;
    let ask = |n: u32| {
        let sql = format!(
            "SELECT pgveil.above(count(*), {}) FROM {SALES}",
            601 + n % 50
        );
        (Arc::clone(&veil.engine), sql)
    };
    let (engine, sql) = ask(0);
    assert!(!verdict(&engine, &sql).await);
    close(veil.spent().await, of_epoch(8.0));
    // Four sessions ask the others.
    let sessions = (0..4).map(|session| {
        let own: Vec<_> = (1..asked).filter(|n| n % 4 == session).map(ask).collect();
        tokio::spawn(async move {
            for (engine, sql) in own {
                assert!(!verdict(&engine, &sql).await);
            }
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    close(veil.spent().await, of_epoch(8.0));
    let view = "SELECT asked, is_open FROM pgveil.monitors";
    let rows = rows_of(&veil.engine, &session(), view).await.unwrap();
    assert_eq!(rows, [format!("{asked}|t")]);
}

/// Sessions that ask at once open one epoch.
#[tokio::test(flavor = "multi_thread")]
async fn one_epoch_opens_for_all_sessions() {
    let veil = till(false).await;
    let sql = format!("SELECT pgveil.above(count(*), 1000000) FROM {SALES}");
    let asked = (0..8).map(|_| {
        let (engine, sql) = (Arc::clone(&veil.engine), sql.clone());
        tokio::spawn(async move {
            for _ in 0..25 {
                // Noise that reaches so far has a chance below 1e-300.
                assert!(!verdict(&engine, &sql).await);
            }
        })
    });
    for session in asked.collect::<Vec<_>>() {
        session.await.unwrap();
    }
    close(veil.spent().await, of_epoch(8.0));
    let view = "SELECT asked, is_open FROM pgveil.monitors";
    let rows = rows_of(&veil.engine, &session(), view).await.unwrap();
    assert_eq!(rows, ["200|t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_monitor_does_not_answer_is_refused_for_nothing() {
    let veil = till(true).await;
    for (sql, sqlstate) in [
        (
            "SELECT pgveil.above(count(*), 1) FROM {} GROUP BY how",
            "0A000",
        ),
        ("SELECT pgveil.above(avg(\"Amount\"), 1) FROM {}", "0A000"),
        ("SELECT pgveil.above(max(\"Amount\"), 1) FROM {}", "0A000"),
        (
            "SELECT pgveil.above(count(*), 1) FROM (SELECT count(*) AS c FROM {}) AS x WHERE c > 5",
            "0A000",
        ),
        (
            "SELECT pgveil.above(count(*), 1) FROM (SELECT how FROM {} GROUP BY how) AS x",
            "0A000",
        ),
        (
            "SELECT pgveil.above(sum(c), 1) FROM (SELECT count(*) AS c FROM {}) AS x",
            "0A000",
        ),
        (
            "SELECT pgveil.above(count(*), 1) FROM pgveil.settings",
            "0A000",
        ),
        (
            "SELECT pgveil.above(count(*), 1) FROM generate_series(1, 3)",
            "0A000",
        ),
        ("SELECT pgveil.above(count(*), NULL) FROM {}", "22023"),
        ("SELECT pgveil.above(count(*), (SELECT 1)) FROM {}", "22023"),
        ("SELECT pgveil.above(count(*), 1, NULL) FROM {}", "22023"),
        ("SELECT pgveil.above(count(*), 'x') FROM {}", "22P02"),
        ("SELECT pgveil.above(count(*)) FROM {}", "42883"),
        ("SELECT pgveil.above(sum(id), 1) FROM {}", "42703"),
    ] {
        let sql = sql.replace("{}", SALES);
        let refused = veil.ask_as(&session(), &sql).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{sql}")).report();
        assert_eq!(refused.sqlstate.to_string(), sqlstate, "{sql}: {refused:?}");
    }
    // Nothing is bought where the session says so.
    let summary = Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Summary,
            ..SessionSettings::default()
        },
        ..session()
    };
    let sql = format!("SELECT pgveil.above(count(*), 1000) FROM {SALES}");
    assert!(veil.ask_as(&summary, &sql).await.is_err());
    assert!(veil.spent().await == 0.0);
    // A monitor that counts has half of the noise that a sum of both signs would need.
    assert!(!verdict(&veil.engine, &sql).await);
    let spent = veil.spent().await;
    for sum in ["sum(change)", "sum(- \"Amount\")"] {
        let sql = format!("SELECT pgveil.above({sum}, 1000) FROM {SALES}");
        let refused = veil.ask_as(&session(), &sql).await.err().unwrap().report();
        assert_eq!(refused.sqlstate.to_string(), "0A000", "{refused:?}");
    }
    let sql = format!("SELECT pgveil.above(sum(\"Amount\"), 1000000) FROM {SALES}");
    assert!(!verdict(&veil.engine, &sql).await);
    close(veil.spent().await, spent);
    // One for sums of both signs takes counts too.
    for sum in ["sum(change)", "count(*)", "sum(- \"Amount\")"] {
        let sql = format!("SELECT pgveil.above({sum}, 1000000, 'any') FROM {SALES}");
        assert!(!verdict(&veil.engine, &sql).await);
    }
    close(veil.spent().await, 2.0 * spent);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_describe_are_free() {
    let veil = till(false).await;
    let sql = format!("SELECT pgveil.above(count(*), 1000000, 'x') FROM {SALES}");
    let described = veil
        .engine
        .describe(&session(), &query(&sql), &[])
        .await
        .unwrap();
    let columns: Vec<_> = described
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.type_oid))
        .collect();
    assert_eq!(columns, [("above", 16)]);
    let lines = explained(&veil.engine, &sql, ExplainFormat::Text).await;
    assert_eq!(
        lines[0],
        "monitor x is not open: the question opens it for epsilon 8, and later ones are free until \
            one is true"
    );
    assert!(
        lines[1].starts_with("With a chance of 5 %, a sum that is 8"),
        "{lines:?}"
    );
    assert!(lines.last().unwrap().starts_with("Budget: "), "{lines:?}");
    let verbose = explained(&veil.engine, &sql, ExplainFormat::Verbose).await;
    let has_sql = verbose
        .iter()
        .any(|line| line.starts_with("  SQL: SELECT "));
    assert!(has_sql, "{verbose:?}");
    let json = explained(&veil.engine, &sql, ExplainFormat::Json).await;
    let json: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(json["is_open"], false);
    assert!(veil.spent().await == 0.0);
    let answer = veil.ask_as(&session(), &sql).await.unwrap();
    let opened = "monitor x was opened for epsilon 8 (pure); its questions are free until one is \
        true; budget: ";
    assert!(
        answer.notices[0].starts_with(opened),
        "{:?}",
        answer.notices
    );
    let lines = explained(&veil.engine, &sql, ExplainFormat::Text).await;
    assert_eq!(lines[0], "monitor x is open: the question is free");
    let answer = veil.ask_as(&session(), &sql).await.unwrap();
    assert!(answer.notices.is_empty(), "{:?}", answer.notices);
    let low = sql.replace("1000000", "-1000000");
    let answer = veil.ask_as(&session(), &low).await.unwrap();
    assert_eq!(
        answer.notices,
        ["monitor x has ended; the next question opens it again, for its price"]
    );
}

/// A question that was free when it was asked is never charged: it is answered free, or refused.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_last_answer_is_not_charged() {
    let veil = till(true).await;
    let ask = |n: u32| format!("SELECT pgveil.above(count(*), {n}) FROM {SALES}");
    assert!(!verdict(&veil.engine, &ask(700)).await);
    let asked = (0..8).map(|_| {
        let (engine, sql) = (Arc::clone(&veil.engine), ask(600));
        tokio::spawn(async move { rows_of(&engine, &session(), &sql).await })
    });
    let mut answered = 0;
    for asked in asked.collect::<Vec<_>>() {
        match asked.await.unwrap() {
            Ok(rows) => {
                assert_eq!(rows, ["t"]);
                answered += 1;
            }
            Err(error) => {
                let refused = error.report();
                assert_eq!(refused.sqlstate.to_string(), "55000", "{refused:?}");
            }
        }
    }
    // The first true answer was paid for by the false one before it.
    assert!(answered > 0);
    close(veil.spent().await, f64::from(answered) * of_epoch(8.0));
    let view = "SELECT last_answer, is_open FROM pgveil.monitors";
    let rows = rows_of(&veil.engine, &session(), view).await.unwrap();
    assert_eq!(rows, ["t|f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_decides_how_much_one_charge_covers() {
    let ask = |n: u32| format!("SELECT pgveil.above(count(*), {n}) FROM {SALES}");
    let state = |error: pgveil::error::Error| error.report().sqlstate.to_string();
    let none = POLICY.replace("limits: {monitor_questions: 1000}\n", "");
    let veil = till_with(true, &none).await;
    for sql in [ask(700), format!("EXPLAIN {}", ask(700))] {
        let statements = parse(&sql).unwrap();
        let refused = match statements.as_slice() {
            [Statement::Query(_)] => veil.ask_as(&session(), &sql).await.err(),
            [Statement::Explain(query, format)] => {
                let session = session();
                let cancel = CancellationToken::new();
                let asked = veil
                    .engine
                    .explain(&session, query, &[], &[], *format, cancel);
                asked.await.err()
            }
            _ => panic!("{sql}"),
        };
        assert_eq!(refused.map(state), Some("0A000".to_owned()), "{sql}");
    }
    let two = POLICY.replace("monitor_questions: 1000", "monitor_questions: 2");
    let veil = till_with(true, &two).await;
    for _ in 0..2 {
        assert!(!verdict(&veil.engine, &ask(700)).await);
    }
    close(veil.spent().await, of_epoch(8.0));
    let lines = explained(&veil.engine, &ask(700), ExplainFormat::Text).await;
    assert!(
        lines[0].starts_with("the monitor is not open: "),
        "{lines:?}"
    );
    assert!(!verdict(&veil.engine, &ask(700)).await);
    close(veil.spent().await, 2.0 * of_epoch(8.0));
    let last = veil.ask_as(&session(), &ask(700)).await.unwrap();
    assert_eq!(
        last.notices,
        [
            "the monitor has answered as many questions as one charge covers; the next question \
                opens it again, for its price"
        ]
    );
    let poller = Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Summary,
            ..SessionSettings::default()
        },
        ..session()
    };
    let refused = veil.ask_as(&poller, &ask(700)).await.err();
    assert_eq!(refused.map(state), Some("55000".to_owned()));
    assert!(!verdict(&veil.engine, &ask(700)).await);
    // What is open is free for such a session too.
    assert!(veil.ask_as(&poller, &ask(700)).await.is_ok());
    assert!(!verdict(&veil.engine, &ask(700)).await);
    close(veil.spent().await, 4.0 * of_epoch(8.0));
    // A frozen role is not answered, although an open monitor is free.
    let freeze = Decision {
        act: Act::Freeze {
            role: Some("analyst".to_owned()),
        },
        who: "owner".to_owned(),
        why: "a look at what it asks".to_owned(),
    };
    veil.engine.ledger().decide(freeze).await.unwrap();
    let refused = veil.ask_as(&session(), &ask(700)).await.err();
    assert_eq!(refused.map(state), Some("53400".to_owned()));
    close(veil.spent().await, 4.0 * of_epoch(8.0));
}

/// Planning a question waits for the lock on an index of its table, which is held until the
/// question is cancelled.
async fn cancel_while_it_reads(veil: &Veil, sql: &str) -> String {
    let hold = "BEGIN; REINDEX INDEX \"Till\".\"Sales_pkey\"";
    veil.client.batch_execute(hold).await.unwrap();
    let cancel = CancellationToken::new();
    let (engine, query, token) = (Arc::clone(&veil.engine), query(sql), cancel.clone());
    let asked = tokio::spawn(async move {
        let session = session();
        let asked = engine.answer(&session, &query, &[], &[], &[Format::Text], token);
        asked.await.map(|_| ())
    });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while veil.direct(waiting).await == ["0"] {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    cancel.cancel();
    let ended = asked.await.unwrap().err().unwrap();
    veil.client.batch_execute("ROLLBACK").await.unwrap();
    ended.report().sqlstate.to_string()
}

/// A question that is cancelled while it reads ends nothing: it is paid for where it opened the
/// monitor, counts among the questions of the charge, and later ones are free.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_question_leaves_its_epoch_open() {
    let three = POLICY.replace("monitor_questions: 1000", "monitor_questions: 3");
    let veil = till_with(true, &three).await;
    let sql = format!("SELECT pgveil.above(count(*), 700) FROM {SALES}");
    let one = of_epoch(8.0);
    let view = "SELECT asked, last_answer, is_open FROM pgveil.monitors";
    let known = async || rows_of(&veil.engine, &session(), view).await.unwrap();
    // The first question opens it.
    assert_eq!(cancel_while_it_reads(&veil, &sql).await, "57014");
    close(veil.spent().await, one);
    assert_eq!(known().await, ["0|∅|t"]);
    assert!(!verdict(&veil.engine, &sql).await);
    close(veil.spent().await, one);
    assert_eq!(known().await, ["1|f|t"]);
    // The third ends it, as the last that the charge covers.
    assert_eq!(cancel_while_it_reads(&veil, &sql).await, "57014");
    assert_eq!(known().await, ["1|f|f"]);
    assert!(!verdict(&veil.engine, &sql).await);
    close(veil.spent().await, 2.0 * one);
    let failed = "SELECT queries_failed FROM pgveil.budget";
    let failed = rows_of(&veil.engine, &session(), failed).await.unwrap();
    assert_eq!(failed, ["0"]);
}

/// Names that nothing was paid for take no room.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_monitors_that_ended_take_no_room() {
    let veil = till(true).await;
    let ask = |name: String| format!("SELECT pgveil.above(count(*), 600, '{name}') FROM {SALES}");
    for at in 0..1_100 {
        let refused = format!("SELECT pgveil.above(max(\"Amount\"), 1, 'n{at}') FROM {SALES}");
        assert!(veil.ask_as(&session(), &refused).await.is_err());
    }
    assert!(veil.spent().await == 0.0);
    assert!(verdict(&veil.engine, &ask("one more".to_owned())).await);
}

/// Parameters are constants of their types.
#[tokio::test(flavor = "multi_thread")]
async fn thresholds_may_be_parameters() {
    let veil = till(true).await;
    let sql = format!("SELECT pgveil.above(count(*), $1) FROM {SALES} WHERE \"Amount\" > $2");
    let query = query(&sql);
    let described = veil.engine.describe(&session(), &query, &[]).await.unwrap();
    let oids = described.parameters.clone();
    assert_eq!(oids.len(), 2, "{oids:?}");
    let count = format!("SELECT count(*) FROM {SALES} WHERE \"Amount\" > 20.5");
    let exact = veil.direct(&count);
    let exact: u32 = exact.await[0].parse().unwrap();
    for (threshold, wanted) in [(exact + 1, "f"), (exact, "t")] {
        let text = |text: String| pgveil::engine::Argument {
            format: Format::Text,
            value: Some(text.into()),
        };
        let arguments = [text(threshold.to_string()), text("20.5".to_owned())];
        let answer = veil
            .engine
            .answer(
                &session(),
                &query,
                &oids,
                &arguments,
                &[Format::Text],
                CancellationToken::new(),
            )
            .await
            .unwrap();
        assert_eq!(answer.rows[0][0].as_deref(), Some(wanted.as_bytes()));
    }
}
