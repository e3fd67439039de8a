//! Holdouts: means are PostgreSQL's own where no noise is drawn, an epoch is paid for once and is
//! one of a few for ever, and what cannot be asked is refused for nothing.

use std::sync::{Arc, Mutex};

use pgveil::engine::{Argument, Engine, Format, MakeSampler, Requester, Service};
use pgveil::ledger::{Act, Decision};
use pgveil::mechanism::{
    CandidateRun, Exponential, Fixed, Noise, SampleError, Sampler, loss_of_holdout,
};
use pgveil::parse::{ExplainFormat, Query, Statement, parse};
use pgveil::policy::{Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Silent, Veil, rows_of};

/// One row a person, with NULLs, numbers outside 0 to 1, and texts; and many rows a person.
const SCHEMA: &str = "
CREATE SCHEMA lab;
CREATE TABLE lab.\"Out\" (person int PRIMARY KEY, predicted int NOT NULL, label int NOT NULL, \
score float8, rate numeric(6, 3), kind text);
INSERT INTO lab.\"Out\" SELECT g, g % 2, (g / 2) % 2, g % 7 - 2.5, nullif(g % 5, 0) * 0.3, \
'k' || g % 3 FROM generate_series(1, 1000) AS g;
CREATE TABLE lab.days (id int PRIMARY KEY, person int NOT NULL, is_right bool NOT NULL);
INSERT INTO lab.days SELECT g, g % 200, g % 4 > 0 FROM generate_series(1, 600) AS g;
CREATE TABLE lab.other (person int PRIMARY KEY, score float8);
CREATE TABLE lab.kinds (kind text PRIMARY KEY, weight int);
INSERT INTO lab.kinds VALUES ('k0', 1), ('k1', 0), ('k2', 1);";

const POLICY: &str = "\
version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${LEDGER_URL}\"}
privacy: {unit: person, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, \
max_epsilon: 8}}
limits: {monitor_questions: 1000}
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 80000, delta: 1e-4}}
  - {name: colleague, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 80000, delta: 1e-4}}
  - {name: fixed, reuse: always, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 80000, delta: 1e-4}}
tables:
  lab.Out:
    unit: person
    holdout: {rows: 1000, tolerance: 0.05, scale: 0.001, overflows: 40}
    columns: {predicted: visible, label: {bounds: [0, 1]}, score: {bounds: [-10, 10]}, rate: \
visible, kind: visible}
  lab.days:
    unit: person
    rows_per_unit: 3
    holdout: {rows: 600, tolerance: 0.1, scale: 0.01, overflows: 2}
    columns: {id: visible, is_right: visible}
  lab.other: {unit: person, columns: {score: {bounds: [0, 1]}}}
  lab.kinds: public
";

const OUT: &str = "lab.\"Out\"";
const RIGHT: &str = "CASE WHEN predicted = label THEN 1 ELSE 0 END";
const IS_RIGHT: &str = "CASE WHEN is_right THEN 1 ELSE 0 END";

async fn lab(is_silent: bool, edit: impl Fn(&str) -> String) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let sampler = if is_silent { Veil::silent() } else { None };
    Veil::over(fill, &edit(POLICY), sampler).await
}

fn session() -> Requester {
    Requester {
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    }
}

fn of_role(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        ..session()
    }
}

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        _ => panic!("{sql}"),
    }
}

fn asking(averaged: &str, value: &str, table: &str) -> String {
    format!("SELECT pgveil.holdout(avg({averaged}), {value}) FROM {table}")
}

async fn mean(engine: &Engine, sql: &str) -> f64 {
    match rows_of(engine, &session(), sql).await.unwrap().as_slice() {
        [text] => text.parse().unwrap(),
        other => panic!("{sql}: {other:?}"),
    }
}

async fn refused(engine: &Engine, requester: &Requester, sql: &str) -> (String, String) {
    let refused = rows_of(engine, requester, sql).await.err();
    let report = refused.unwrap_or_else(|| panic!("{sql}")).report();
    (report.sqlstate.to_string(), report.message)
}

async fn explained(engine: &Engine, sql: &str, format: ExplainFormat) -> Vec<String> {
    let cancel = CancellationToken::new();
    let (session, query) = (session(), query(sql));
    let explained = engine.explain(&session, &query, &[], &[], format, cancel);
    explained.await.unwrap()
}

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
}

/// What opening a holdout costs of mu squared.
fn of_epoch(rows_per_unit: f64, scale: f64) -> f64 {
    let loss = loss_of_holdout(Fixed::round_down(rows_per_unit / scale)).unwrap();
    loss.mu_squared.to_f64()
}

/// Near PostgreSQL's mean the value is shown, and elsewhere the mean itself. Values are clipped to
/// 0 and 1; rows that AVG leaves out count as rows that agree.
#[tokio::test(flavor = "multi_thread")]
async fn means_are_postgresqls() {
    let veil = lab(true, str::to_owned).await;
    for averaged in [
        RIGHT,
        "label",
        "predicted",
        "score",
        "rate",
        "CAST(predicted = label AS int)",
        "CASE WHEN kind = 'k1' THEN predicted END",
        "score / 10",
        "1 - rate",
        "CASE WHEN kind IN (SELECT kind FROM lab.kinds WHERE weight > 0) THEN 1 ELSE 0 END",
    ] {
        let exact = format!(
            "SELECT avg(least(greatest(x, 0), 1)), count(x) / 1000.0 FROM (SELECT {averaged} AS x \
                FROM {OUT}) AS t WHERE x IS NOT NULL"
        );
        let exact = veil.direct(&exact).await;
        let parts: Vec<f64> = exact[0].split('|').map(|n| n.parse().unwrap()).collect();
        let (exact, share) = (parts[0], parts[1]);
        for (off, differs) in [(0.0, false), (0.049, false), (0.051, true), (0.4, true)] {
            let value = exact + off / share;
            let value = if value > 1.0 {
                exact - off / share
            } else {
                value
            };
            if !(0.0..=1.0).contains(&value) {
                continue;
            }
            let value: f64 = format!("{value:.6}").parse().unwrap();
            let found = mean(&veil.engine, &asking(averaged, &value.to_string(), OUT)).await;
            let wanted = match differs {
                true => value + (exact - value) * share,
                false => value,
            };
            let is_right = (found - wanted).abs() < 1e-5;
            assert!(is_right, "{averaged} {value}: {found} is not {wanted}");
        }
    }
}

/// Both parts of an epoch are paid when it opens, whatever its first value, and once.
#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_is_paid_for_once_and_whole() {
    let veil = lab(true, str::to_owned).await;
    let engine = &veil.engine;
    let one = of_epoch(1.0, 1.0);
    // The first value moves a sum by half of what the second may.
    for value in ["0.5", "0.48"] {
        close(
            mean(engine, &asking(RIGHT, value, OUT)).await,
            value.parse().unwrap(),
        );
        close(veil.spent().await, one);
    }
    let exact: f64 = veil
        .direct(&format!("SELECT avg({RIGHT}) FROM {OUT}"))
        .await[0]
        .parse()
        .unwrap();
    close(mean(engine, &asking(RIGHT, "0", OUT)).await, exact);
    close(veil.spent().await, one);
    // The next one is charged again, to the same amount.
    close(mean(engine, &asking(RIGHT, "0", OUT)).await, exact);
    close(veil.spent().await, 2.0 * one);
    // A unit with three rows costs three times the epsilon.
    close(
        mean(engine, &asking(IS_RIGHT, "0.75", "lab.days")).await,
        0.75,
    );
    close(veil.spent().await, 2.0 * one + of_epoch(3.0, 6.0));
    let history = rows_of(engine, &session(), "SELECT epsilon FROM pgveil.history").await;
    assert_eq!(history.unwrap(), ["1", "2", "2"]);
    // Another role has its own.
    let colleague = of_role("colleague");
    let asked = rows_of(engine, &colleague, &asking(RIGHT, "0.5", OUT)).await;
    assert_eq!(asked.unwrap(), ["0.5"]);
    close(veil.spent().await, 2.0 * one + of_epoch(3.0, 6.0));
    let view = "SELECT table_schema, table_name, rows, tolerance, scale, epsilon, overflows, \
        opened, asked, is_open, opened_at < now() + interval '1 day' FROM pgveil.holdouts ORDER \
        BY 2";
    let rows = rows_of(engine, &session(), view).await.unwrap();
    assert_eq!(
        rows,
        [
            "lab|Out|1000|0.05|0.001|2|40|2|1|f|t",
            "lab|days|600|0.1|0.01|1|2|1|1|t|t"
        ]
    );
    let rows = rows_of(engine, &of_role("fixed"), view).await.unwrap();
    assert_eq!(
        rows,
        [
            "lab|Out|1000|0.05|0.001|2|40|0|∅|f|∅",
            "lab|days|600|0.1|0.01|1|2|0|∅|f|∅"
        ]
    );
}

/// No restart and no other proxy opens it more often than the owner allows, and each begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_counts_how_often_it_was_opened() {
    let veil = lab(true, str::to_owned).await;
    let one = of_epoch(3.0, 6.0);
    let agreeing = asking(IS_RIGHT, "0.75", "lab.days");
    close(mean(&veil.engine, &agreeing).await, 0.75);
    // Another process: the first epoch is not its own, and is still open.
    let again = veil.by_way_of(veil.server.config()).await;
    close(mean(&again, &agreeing).await, 0.75);
    close(veil.spent().await, 2.0 * one);
    let third = veil.by_way_of(veil.server.config()).await;
    let used_up = ("53400".to_owned(), "the holdout is used up".to_owned());
    assert_eq!(refused(&third, &session(), &agreeing).await, used_up);
    let lines = explained(&third, &agreeing, ExplainFormat::Text).await;
    assert_eq!(
        lines[0],
        "the holdout lab.days is used up: it was opened 2 times"
    );
    close(mean(&again, &agreeing).await, 0.75);
    close(mean(&veil.engine, &agreeing).await, 0.75);
    close(
        mean(&again, &asking(IS_RIGHT, "0.2", "lab.days")).await,
        0.75,
    );
    assert_eq!(refused(&again, &session(), &agreeing).await, used_up);
    close(veil.spent().await, 2.0 * one);
    // Of another role it is not used up, and another holdout neither.
    let colleague = of_role("colleague");
    assert!(rows_of(&third, &colleague, &agreeing).await.is_ok());
    assert!(mean(&third, &asking(RIGHT, "0.5", OUT)).await <= 1.0);
    // The owner may allow more.
    let more = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace("overflows: 2}", "overflows: 3}")
        })
        .await;
    assert!(rows_of(&more, &session(), &agreeing).await.is_ok());
    assert_eq!(refused(&third, &session(), &agreeing).await, used_up);
}

/// Names with dots are no other tables' names: each holdout has its own epochs, noise and count.
#[tokio::test(flavor = "multi_thread")]
async fn holdouts_of_like_names_are_two() {
    let fill = async |client: &tokio_postgres::Client| {
        let tables = "CREATE SCHEMA \"a.b\"; CREATE SCHEMA a;
            CREATE TABLE \"a.b\".c (person int PRIMARY KEY, x int);
            CREATE TABLE a.\"b.c\" (person int PRIMARY KEY, x int);
            INSERT INTO \"a.b\".c SELECT g, g % 2 FROM generate_series(1, 100) AS g;
            INSERT INTO a.\"b.c\" SELECT g, g % 2 FROM generate_series(1, 100) AS g;";
        client.batch_execute(tables).await.unwrap();
    };
    let head = POLICY.split("tables:").next().unwrap();
    let policy = format!(
        "{head}tables:
  '\"a.b\".c': {{unit: person, holdout: {{rows: 100, tolerance: 0.1, scale: 0.01, overflows: 1}}, \
            columns: {{x: {{bounds: [0, 1]}}}}}}
  'a.\"b.c\"': {{unit: person, holdout: {{rows: 100, tolerance: 0.1, scale: 0.02, overflows: 1}}, \
            columns: {{x: {{bounds: [0, 1]}}}}}}
"
    );
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    let (one, other) = ("\"a.b\".c", "a.\"b.c\"");
    close(mean(&veil.engine, &asking("x", "0.5", one)).await, 0.5);
    close(veil.spent().await, of_epoch(1.0, 1.0));
    close(mean(&veil.engine, &asking("x", "0.5", other)).await, 0.5);
    close(veil.spent().await, of_epoch(1.0, 1.0) + of_epoch(1.0, 2.0));
}

/// Sessions and proxies that ask at once open no more than there may be.
#[tokio::test(flavor = "multi_thread")]
async fn openings_at_once_are_counted() {
    let veil = lab(true, str::to_owned).await;
    let mut engines = vec![Arc::clone(&veil.engine)];
    for _ in 0..3 {
        engines.push(veil.by_way_of(veil.server.config()).await);
    }
    let sql = asking(IS_RIGHT, "0.2", "lab.days");
    let asked = engines.iter().cycle().take(12).map(|engine| {
        let (engine, sql) = (Arc::clone(engine), sql.clone());
        tokio::spawn(async move { rows_of(&engine, &session(), &sql).await })
    });
    let mut answered = 0;
    for asked in asked.collect::<Vec<_>>() {
        match asked.await.unwrap() {
            Ok(rows) => {
                assert_eq!(rows, ["0.75"]);
                answered += 1;
            }
            Err(error) => {
                let state = error.report().sqlstate.to_string();
                assert!(state == "53400" || state == "55000", "{state}");
            }
        }
    }
    assert_eq!(answered, 2);
    close(veil.spent().await, 2.0 * of_epoch(3.0, 6.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_holdout_does_not_answer_is_refused_for_nothing() {
    let veil = lab(true, str::to_owned).await;
    let engine = &veil.engine;
    for (sql, sqlstate) in [
        ("SELECT pgveil.holdout(avg(label), 1.01) FROM {}", "22023"),
        ("SELECT pgveil.holdout(avg(label), -0.01) FROM {}", "22023"),
        ("SELECT pgveil.holdout(avg(label), NULL) FROM {}", "22023"),
        (
            "SELECT pgveil.holdout(avg(label), avg(predicted)) FROM {}",
            "22023",
        ),
        (
            "SELECT pgveil.holdout(avg(label), (SELECT avg(predicted) FROM {})) FROM {}",
            "22023",
        ),
        ("SELECT pgveil.holdout(avg(label), label) FROM {}", "42803"),
        ("SELECT pgveil.holdout(avg(label), 'x') FROM {}", "22P02"),
        ("SELECT pgveil.holdout(avg(label)) FROM {}", "42883"),
        (
            "SELECT pgveil.holdout(avg(predicted = label), 0.5) FROM {}",
            "42883",
        ),
        ("SELECT pgveil.holdout(avg(hidden), 0.5) FROM {}", "42703"),
        (
            "SELECT pgveil.holdout(avg(label), 0.5) FROM {} WHERE label = 1",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(label), 0.5) FROM {} JOIN lab.kinds USING (kind)",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(label), 0.5) FROM {} GROUP BY kind",
            "0A000",
        ),
        ("SELECT pgveil.holdout(sum(label), 0.5) FROM {}", "0A000"),
        (
            "SELECT pgveil.holdout(avg(DISTINCT label), 0.5) FROM {}",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(score), 0.5) FROM lab.other",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(weight), 0.5) FROM lab.kinds",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(1), 0.5) FROM pgveil.settings",
            "0A000",
        ),
        (
            "SELECT pgveil.holdout(avg(label - (SELECT count(*) FROM {})), 0.5) FROM {}",
            "0A000",
        ),
    ] {
        let sql = sql.replace("{}", OUT);
        let found = refused(engine, &session(), &sql).await;
        assert_eq!(found.0, sqlstate, "{sql}: {found:?}");
    }
    let sql = asking(RIGHT, "0.5", OUT);
    assert_eq!(refused(engine, &of_role("fixed"), &sql).await.0, "0A000");
    let poller = Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Summary,
            ..SessionSettings::default()
        },
        ..session()
    };
    assert_eq!(refused(engine, &poller, &sql).await.0, "55000");
    assert!(veil.spent().await == 0.0);
    assert!(rows_of(engine, &session(), &sql).await.is_ok());
    // What is open is free for such a session too.
    assert!(rows_of(engine, &poller, &sql).await.is_ok());
    let spent = veil.spent().await;
    let freeze = Decision {
        act: Act::Freeze {
            role: Some("analyst".to_owned()),
        },
        who: "owner".to_owned(),
        why: "a look at what it asks".to_owned(),
    };
    engine.ledger().decide(freeze).await.unwrap();
    assert_eq!(refused(engine, &session(), &sql).await.0, "53400");
    close(veil.spent().await, spent);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_describe_and_notices_say_what_it_costs() {
    let veil = lab(true, str::to_owned).await;
    let sql = asking(IS_RIGHT, "0.75", "lab.days");
    let described = veil.engine.describe(&session(), &query(&sql), &[]).await;
    let columns = described.unwrap().columns;
    let column = (columns[0].name.as_str(), columns[0].type_oid);
    assert_eq!(column, ("holdout", 701));
    let lines = explained(&veil.engine, &sql, ExplainFormat::Text).await;
    assert_eq!(
        lines[0],
        "the holdout lab.days is not open: the question opens it for epsilon 1.00 (pure), and \
            later ones are free until a mean differs; 2 of 2 times are left"
    );
    let noise = "    Laplace noise of scale 12.0 in the threshold, 24.0 in each question and 6.00 \
        in the sum that is shown";
    assert!(lines.iter().any(|line| line == noise), "{lines:#?}");
    assert!(lines.last().unwrap().starts_with("Budget: "), "{lines:?}");
    let verbose = explained(&veil.engine, &sql, ExplainFormat::Verbose).await;
    let has_sql = verbose
        .iter()
        .any(|line| line.starts_with("  SQL: SELECT "));
    assert!(has_sql, "{verbose:?}");
    let json = explained(&veil.engine, &sql, ExplainFormat::Json).await;
    let json: serde_json::Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(json["is_open"], false);
    assert_eq!(json["openings_left"], 2);
    assert_eq!(json["epsilon"], 1.0);
    assert!(veil.spent().await == 0.0);
    let answer = veil.ask_as(&session(), &sql).await.unwrap();
    let opened = "the holdout lab.days was opened for epsilon 1.00 (pure), for the 1st of 2 times; \
        its questions are free until a mean differs; budget: ";
    assert!(
        answer.notices[0].starts_with(opened),
        "{:?}",
        answer.notices
    );
    let lines = explained(&veil.engine, &sql, ExplainFormat::Text).await;
    assert_eq!(
        lines[0],
        "the holdout lab.days is open: the question is free"
    );
    let answer = veil.ask_as(&session(), &sql).await.unwrap();
    assert!(answer.notices.is_empty(), "{:?}", answer.notices);
    let far = asking(IS_RIGHT, "0", "lab.days");
    let answer = veil.ask_as(&session(), &far).await.unwrap();
    assert_eq!(
        answer.notices,
        [
            "the mean over the holdout lab.days differs from your value: it is shown with noise of \
                standard error 0.0141; the next question opens it again, for its price"
        ]
    );
}

/// Parameters are constants of their types, and so is the limit on questions of one charge.
#[tokio::test(flavor = "multi_thread")]
async fn values_may_be_parameters_and_an_epoch_has_an_end() {
    let two = |policy: &str| policy.replace("monitor_questions: 1000", "monitor_questions: 2");
    let veil = lab(true, two).await;
    let sql = "SELECT pgveil.holdout(avg(CASE WHEN is_right = $1 THEN 1 ELSE 0 END), $2) FROM \
        lab.days";
    let query = query(sql);
    let described = veil.engine.describe(&session(), &query, &[]).await.unwrap();
    let oids = described.parameters.clone();
    assert_eq!(oids.len(), 2, "{oids:?}");
    let text = |text: &str| Argument {
        format: Format::Text,
        value: Some(text.to_owned().into()),
    };
    for (is_right, value) in [("t", "0.75"), ("f", "0.3")] {
        let arguments = [text(is_right), text(value)];
        let cancel = CancellationToken::new();
        let formats = [Format::Text];
        let session = session();
        let asked = veil
            .engine
            .answer(&session, &query, &oids, &arguments, &formats, cancel);
        let answer = asked.await.unwrap();
        assert_eq!(answer.rows[0][0].as_deref(), Some(value.as_bytes()));
    }
    close(veil.spent().await, of_epoch(3.0, 6.0));
    let agreeing = asking(IS_RIGHT, "0.75", "lab.days");
    assert!(mean(&veil.engine, &agreeing).await > 0.0);
    close(veil.spent().await, 2.0 * of_epoch(3.0, 6.0));
    let last = veil.ask_as(&session(), &agreeing).await.unwrap();
    assert_eq!(
        last.notices,
        [
            "the holdout lab.days has answered as many questions as one charge covers; the next \
                question opens it again, for its price"
        ]
    );
    assert_eq!(
        refused(&veil.engine, &session(), &agreeing).await.0,
        "53400"
    );
}

/// Records what is drawn, and draws zeros.
pub(super) struct Recorded(pub Arc<Mutex<Vec<Noise>>>);

impl Sampler for Recorded {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        self.0.lock().unwrap().push(*noise);
        Ok(0)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        Silent.choose(exponential, runs)
    }
}

/// Each opening draws the noise of its thresholds, each question its noise, and each mean that is
/// shown its own; all of the size that the policy says, whatever the value.
#[tokio::test(flavor = "multi_thread")]
async fn each_draw_is_its_own_and_of_the_declared_size() {
    let drawn = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&drawn);
    let sampler: MakeSampler = Arc::new(move || Box::new(Recorded(Arc::clone(&record))));
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let veil = Veil::over(fill, POLICY, Some(sampler)).await;
    // At epsilon 1 for a row; the mean is 0.5 and the tolerance 0.05.
    for value in ["0.5", "0.51", "0", "0.5", "0.83"] {
        mean(&veil.engine, &asking(RIGHT, value, OUT)).await;
    }
    let drawn = drawn.lock().unwrap().clone();
    let scales = drawn.iter().map(|noise| match noise {
        Noise::Laplace { scale } => *scale as f64,
        other => panic!("{other:?}"),
    });
    let scales: Vec<f64> = scales.collect();
    let [first, a, b, c, shown, second, d, e, last] = scales.as_slice() else {
        panic!("{scales:?}");
    };
    let of_threshold = 2.0 * 2f64.powi(40);
    assert_eq!((*first, *second), (of_threshold, of_threshold));
    // In refined steps of each question's grid: a tenth, a hundredth or one row times 2^-s.
    let is_rows = |scale: f64, step: f64, rows: f64| {
        let doublings = (scale / (rows / step)).log2();
        (doublings - doublings.round()).abs() < 1e-9
    };
    for (scale, step) in [(a, 0.1), (b, 0.01), (c, 1.0), (d, 0.1), (e, 0.01)] {
        assert!(is_rows(*scale, step, 4.0), "{scale} {step}");
    }
    assert_eq!((c / shown, e / last), (4.0, 4.0));
}

/// With real noise: a mean far from the value is shown, near the true one and not equal to it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_shown_has_noise() {
    let veil = lab(false, |policy| {
        policy.replace("scale: 0.001", "scale: 0.005")
    })
    .await;
    let exact: f64 = veil
        .direct(&format!("SELECT avg({RIGHT}) FROM {OUT}"))
        .await[0]
        .parse()
        .unwrap();
    let mut found = Vec::new();
    for _ in 0..40 {
        found.push(mean(&veil.engine, &asking(RIGHT, "0.99", OUT)).await);
    }
    let distance = |found: &f64| (found - exact).abs();
    // Forty draws of scale 0.005: none as far as this but for a chance of 1e-12, and not all as
    // near but for one of 1e-17.
    assert!(
        found.iter().all(|found| distance(found) < 0.16),
        "{found:?}"
    );
    assert!(
        found.iter().any(|found| distance(found) > 0.0025),
        "{found:?}"
    );
    close(veil.spent().await, 40.0 * of_epoch(1.0, 5.0));
    // Noise moves a mean of 1 past it in one of two answers, and none past it is shown.
    let always = "CASE WHEN kind IS NULL THEN 0 ELSE 1 END";
    let more = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace("overflows: 40", "overflows: 70")
        })
        .await;
    for _ in 0..30 {
        let found = mean(&more, &asking(always, "0.2", OUT)).await;
        assert!((0.84..=1.0).contains(&found), "{found}");
    }
}
