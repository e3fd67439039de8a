//! Questions by periods: each closed period is bought once and shown again, and all of them are
//! PostgreSQL's own.

use std::sync::Arc;

use pgveil::engine::{Engine, Requester};
use pgveil::policy::{OpenPeriods, Reuse, SessionSettings};

use crate::fixture::{Veil, rows_of};

/// Forty days of visits, several a person and day: a schema and columns with capitals, a moment in
/// each of three types, two of them nullable.
const SCHEMA: &str = "
CREATE SCHEMA \"Clinic East\";
CREATE TABLE \"Clinic East\".\"People\" (\"Id\" int PRIMARY KEY, ward text NOT NULL);
CREATE TABLE \"Clinic East\".\"Visits\" (id int PRIMARY KEY, \"Person\" int NOT NULL REFERENCES \
\"Clinic East\".\"People\", \"SeenAt\" timestamptz NOT NULL, \"Day\" date, local timestamp, fee \
numeric(6, 2));
INSERT INTO \"Clinic East\".\"People\" SELECT g, (ARRAY['a', 'b'])[1 + g % 2] FROM \
generate_series(1, 40) AS g;
SET TimeZone = 'UTC';
INSERT INTO \"Clinic East\".\"Visits\" SELECT g, 1 + g % 40, moment, moment::date, moment, g % 90 \
FROM generate_series(1, 1920) AS g, LATERAL (SELECT timestamptz '2024-03-01 00:00+00' + g * \
interval '30 minutes' AS moment) AS made;";

fn policy(periods: &str) -> String {
    let role = |name: &str| {
        format!(
            "  - {{name: {name}, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==\
                $S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:\
                bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", \
                budget: {{epsilon: 90000000, delta: 1e-4}}}}\n"
        )
    };
    format!(
        "\
version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{LEDGER_URL}}\"}}
privacy: {{unit: person, budget: {{epsilon: 100000000, delta: 1e-3}}, per_query: {{epsilon: 5000, \
max_epsilon: 9000}}}}
limits: {{groups_per_unit: 50, rows_per_unit: 60}}
roles:
{}{}tables:
  Clinic East.People: {{unit: Id, columns: {{ward: {{values: [a, b], complete: true}}}}}}
  Clinic East.Visits:
    unit: {{path: [Person -> Clinic East.People.Id]}}
    {periods}
    columns: {{SeenAt: visible, Day: visible, local: visible, fee: {{bounds: [0, 100]}}}}
",
        role("analyst"),
        role("colleague")
    )
}

const BY_DAY: &str = "periods: {column: SeenAt, by: day, from: 2024-03-01, close_after: 2d}";

async fn clinic(yaml: &str, is_silent: bool) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let sampler = if is_silent { Veil::silent() } else { None };
    Veil::over(fill, yaml, sampler).await
}

fn session(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    }
}

async fn spent(engine: &Engine, role: &str) -> f64 {
    let balance = engine.ledger().balance(role).await.unwrap();
    balance.spent.mu_squared.to_f64()
}

/// Visits of the days of March 2024 from one to before another.
fn of_days(first: u32, end: u32) -> String {
    format!(
        "SELECT date_trunc('day', \"SeenAt\") AS day, count(*) FROM \"Clinic East\".\"Visits\" \
            WHERE \"SeenAt\" >= '2024-03-{first:02}' AND \"SeenAt\" < '2024-03-{end:02}' GROUP BY \
            1 HAVING count(*) > 0 ORDER BY 1"
    )
}

/// What the role pays for an answer that is PostgreSQL's own.
async fn price(veil: &Veil, requester: &Requester, sql: &str) -> f64 {
    let before = spent(&veil.engine, &requester.role).await;
    veil.answers_as_postgresql(requester, &[sql]).await;
    spent(&veil.engine, &requester.role).await - before
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_period_is_bought_once() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    let whole = price(&veil, &analyst, &of_days(1, 4)).await;
    assert!(whole > 0.0);
    let history = async || {
        let ledger = veil.engine.ledger();
        ledger.history("analyst", 100).await.unwrap().len()
    };
    for (first, end, bought) in [
        (1, 4, 0),
        (2, 3, 0),
        // Two on either side of what is held, in one debit.
        (3, 9, 1),
        (1, 9, 0),
        (12, 14, 1),
        // A gap, and days after it.
        (1, 16, 1),
        (2, 15, 0),
    ] {
        let debits = history().await;
        let paid = price(&veil, &analyst, &of_days(first, end)).await;
        assert_eq!(history().await, debits + bought, "{first} to {end}");
        // The statement's epsilon buys all that are missing together.
        let wanted = if bought == 0 { 0.0 } else { whole };
        assert!(paid == wanted || close(paid, wanted), "{first} to {end}");
    }
}

/// The periods' own conditions in the forms that people write, and other keys and aggregates.
#[tokio::test(flavor = "multi_thread")]
async fn many_forms_are_one_question_or_a_right_one() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    let visits = "FROM \"Clinic East\".\"Visits\"";
    // One question: the first buys, the others ask for days that it bought.
    let same = [
        "WHERE \"SeenAt\" >= '2024-03-02' AND \"SeenAt\" < '2024-03-09'",
        "WHERE '2024-03-04' > \"SeenAt\" AND \"SeenAt\" >= timestamp '2024-03-03'",
        "WHERE \"SeenAt\"::date BETWEEN '2024-03-03' AND '2024-03-08'",
        "WHERE \"SeenAt\"::date = '2024-03-05'",
        "WHERE \"SeenAt\" >= date '2024-03-01' + 3 AND \"SeenAt\" < timestamptz '2024-03-04 \
            00:00+00' + interval '2 days'",
        "WHERE \"SeenAt\" IS NOT NULL AND \"SeenAt\"::date > '2024-03-04' AND \"SeenAt\"::date < \
            '2024-03-08' AND \"SeenAt\" < '2024-04-01' AND \"SeenAt\"::date <= '2024-03-07'",
    ];
    for (at, condition) in same.iter().enumerate() {
        let sql = format!(
            "SELECT date_trunc('day', \"SeenAt\") AS d, count(*) {visits} {condition} GROUP BY d \
                HAVING count(*) > 0 ORDER BY d"
        );
        let paid = price(&veil, &analyst, &sql).await;
        assert_eq!(paid > 0.0, at == 0, "{sql}");
    }
    let week = "\"SeenAt\" >= '2024-03-04' AND \"SeenAt\" < '2024-03-11'";
    let others = [
        format!("SELECT \"SeenAt\"::date, count(*) {visits} WHERE {week} GROUP BY 1"),
        format!("SELECT date_trunc('hour', \"SeenAt\"), count(*) {visits} WHERE {week} GROUP BY 1"),
        format!(
            "SELECT \"SeenAt\"::date, ward, count(*), sum(fee), round(avg(fee), 6), \
                count(DISTINCT \"Person\") {visits} AS v JOIN \"Clinic East\".\"People\" AS p ON \
                v.\"Person\" = p.\"Id\" WHERE {week} AND fee < 80 GROUP BY 1, 2"
        ),
        format!(
            "SELECT date_trunc('day', \"SeenAt\"), count(*) FILTER (WHERE fee > 30) {visits} \
                WHERE {week} GROUP BY 1"
        ),
    ];
    for question in others {
        let keys = if question.contains("ward") {
            "1, 2"
        } else {
            "1"
        };
        let sql = format!("{question} HAVING count(*) > 0 ORDER BY {keys}");
        assert!(price(&veil, &analyst, &sql).await > 0.0, "{sql}");
        let narrower = sql.replace("2024-03-04' AND", "2024-03-06' AND");
        assert_eq!(price(&veil, &analyst, &narrower).await, 0.0, "{narrower}");
        let wider = sql.replace("2024-03-11", "2024-03-12");
        assert!(price(&veil, &analyst, &wider).await > 0.0, "{wider}");
        assert_eq!(price(&veil, &analyst, &wider).await, 0.0, "{wider}");
    }
}

/// What cannot be put together from whole periods is an ordinary question.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_by_periods_is_an_ordinary_question() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let visits = "FROM \"Clinic East\".\"Visits\"";
    let week = "\"SeenAt\" >= '2024-03-04' AND \"SeenAt\" < '2024-03-11'";
    let is_by_periods = async |requester: &Requester, sql: &str| {
        let sql = format!("EXPLAIN {sql}");
        let lines = veil.explained(requester.session_settings, &sql).await;
        lines.iter().any(|line| line.starts_with("By periods of"))
    };
    let by_day = of_days(1, 3);
    let analyst = session("analyst");
    assert!(is_by_periods(&analyst, &by_day).await);
    for sql in [
        // The first moment is within a day.
        format!(
            "SELECT \"SeenAt\"::date, count(*) {visits} WHERE \"SeenAt\" >= '2024-03-04 12:00' \
                GROUP BY 1"
        ),
        // So is the last one, of a day that is closed.
        format!(
            "SELECT \"SeenAt\"::date, count(*) {visits} WHERE \"SeenAt\" >= '2024-03-04' AND \
                \"SeenAt\" <= '2024-03-05 12:00' GROUP BY 1"
        ),
        // Before the first period, in part and as a whole.
        format!(
            "SELECT \"SeenAt\"::date, count(*) {visits} WHERE \"SeenAt\" < '2024-02-20' GROUP BY 1"
        ),
        format!(
            "SELECT \"SeenAt\"::date, count(*) {visits} WHERE \"SeenAt\" >= '2024-02-04' AND \
                \"SeenAt\" < '2024-03-05' GROUP BY 1"
        ),
        // Conditions that are no bounds.
        format!(
            "SELECT \"SeenAt\"::date, count(*) {visits} WHERE {week} AND extract(dow FROM \
                \"SeenAt\") = 1 GROUP BY 1"
        ),
        // Keys of which a period does not follow.
        format!("SELECT count(*) {visits} WHERE {week}"),
        format!("SELECT date_trunc('week', \"SeenAt\"), count(*) {visits} WHERE {week} GROUP BY 1"),
        format!("SELECT \"Day\", count(*) {visits} WHERE {week} GROUP BY 1"),
        format!("SELECT extract(dow FROM \"SeenAt\"), count(*) {visits} WHERE {week} GROUP BY 1"),
        // A chosen value, and a value that noise alone may make.
        format!("SELECT \"SeenAt\"::date, max(fee) {visits} WHERE {week} GROUP BY 1"),
        format!("SELECT \"SeenAt\"::date, bool_or(fee > 3) {visits} WHERE {week} GROUP BY 1"),
        // An aggregate of the moment.
        format!(
            "SELECT \"SeenAt\"::date, count(*) FILTER (WHERE \"SeenAt\" > '2024-03-06 12:00') \
                {visits} WHERE {week} GROUP BY 1"
        ),
        format!("SELECT \"SeenAt\"::date, count(*) {visits} WHERE {week} GROUP BY ROLLUP (1)"),
        // Rows of a period that other periods' rows decide on.
        format!(
            "SELECT \"SeenAt\"::date, count(*) FROM (SELECT *, row_number() OVER (PARTITION BY \
                \"Person\" ORDER BY fee) AS n {visits}) AS v WHERE {week} AND n = 1 GROUP BY 1"
        ),
        // Two releases.
        format!(
            "SELECT \"SeenAt\"::date, count(*) - (SELECT count(*) {visits}) {visits} WHERE {week} \
                GROUP BY 1"
        ),
    ] {
        assert!(!is_by_periods(&analyst, &sql).await, "{sql}");
    }
    for (name, value) in [
        ("pgveil.max_rows_per_unit", "20"),
        ("pgveil.max_groups_per_unit", "3"),
        ("pgveil.open_periods", "on"),
        ("pgveil.reuse", "off"),
        ("pgveil.reuse", "exact"),
        ("pgveil.target_error", "100"),
    ] {
        let mut requester = session("analyst");
        requester.session_settings.set(name, value).unwrap();
        assert!(
            !is_by_periods(&requester, &by_day).await,
            "{name} = {value}"
        );
    }
    let mut berlin = session("analyst");
    berlin.settings = vec![("TimeZone".to_owned(), "Europe/Berlin".to_owned())];
    let before = spent(&veil.engine, "analyst").await;
    // The same statement may be refused there, or mean other days; it is never by periods.
    let _ = veil.rows_as(&berlin, &by_day).await;
    let after = spent(&veil.engine, "analyst").await;
    veil.answers_as_postgresql(&analyst, &[&by_day]).await;
    assert!(spent(&veil.engine, "analyst").await > after, "{before}");
}

/// Each length, and each type of moment; a nullable one needs a condition.
#[tokio::test(flavor = "multi_thread")]
async fn every_length_and_type_has_periods() {
    for (periods, key, condition, free) in [
        (
            "periods: {column: local, by: hour, from: 2024-03-01 06:00, close_after: 90min}",
            "date_trunc('hour', local)",
            "local >= '2024-03-02 07:00' AND local < '2024-03-02 19:00'",
            "local >= '2024-03-02 08:00' AND local < '2024-03-02 09:00'",
        ),
        (
            "periods: {column: local, by: week, from: 2024-03-04, close_after: 0min}",
            "date_trunc('week', local)",
            "local >= '2024-03-04' AND local < '2024-03-25'",
            "local >= '2024-03-11' AND local < '2024-03-18'",
        ),
        (
            "periods: {column: Day, by: month, from: 2024-03-01, close_after: 36h}",
            "date_trunc('month', \"Day\")",
            "\"Day\" BETWEEN '2024-03-01' AND '2024-04-30'",
            "\"Day\" < '2024-04-01'",
        ),
        (
            "periods: {column: Day, by: day, from: 2024-03-01, close_after: 2d}",
            "\"Day\"",
            "\"Day\" BETWEEN '2024-03-01' AND '2024-03-10'",
            "\"Day\" = '2024-03-07'",
        ),
        (
            "periods: {column: Day, by: week, from: 2024-02-26, close_after: 2d}",
            "\"Day\"",
            "\"Day\" >= '2024-02-26' AND \"Day\" < '2024-03-11'",
            "\"Day\" >= '2024-03-04' AND \"Day\" < '2024-03-11'",
        ),
    ] {
        let veil = clinic(&policy(periods), true).await;
        let sql = |condition: &str| {
            format!(
                "SELECT {key}, count(*), sum(fee) FROM \"Clinic East\".\"Visits\" WHERE \
                    {condition} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"
            )
        };
        let analyst = session("analyst");
        assert!(
            price(&veil, &analyst, &sql(condition)).await > 0.0,
            "{periods}"
        );
        assert_eq!(
            price(&veil, &analyst, &sql(condition)).await,
            0.0,
            "{periods}"
        );
        assert_eq!(price(&veil, &analyst, &sql(free)).await, 0.0, "{periods}");
        // Rows without a moment are in no period, and may be asked for.
        let whole =
            format!("EXPLAIN SELECT {key}, count(*) FROM \"Clinic East\".\"Visits\" GROUP BY 1");
        let lines = veil.explained(analyst.session_settings, &whole).await;
        let is_by_periods = |line: &String| line.starts_with("By periods of");
        assert!(!lines.iter().any(is_by_periods), "{whole}");
    }
}

/// A row that comes after its period was bought is not counted in it, another version of the data
/// or not. Another beginning of the periods begins anew, and so does a larger epsilon.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_bought_stays() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    let rows = veil.rows_as(&analyst, &of_days(1, 6)).await.unwrap();
    let late = "INSERT INTO \"Clinic East\".\"Visits\" SELECT 90000 + g, 7, '2024-03-03 12:00+00', \
        '2024-03-03', '2024-03-03 12:00', 5 FROM generate_series(1, 5) AS g";
    veil.client.batch_execute(late).await.unwrap();
    let engine = async |edit: fn(String) -> String| veil.proxy_with(&veil.ledger, edit).await;
    let before = spent(&veil.engine, "analyst").await;
    let versioned = engine(|yaml| {
        yaml.replace(
            "unit: person, budget",
            "data_version: \"2\", unit: person, budget",
        )
    })
    .await;
    let others = engine(|yaml| yaml.replace("close_after: 2d", "close_after: 366d")).await;
    for engine in [&veil.engine, &versioned, &others] {
        let again = rows_of(engine, &analyst, &of_days(1, 6)).await.unwrap();
        assert_eq!(again, rows);
        assert_eq!(spent(engine, "analyst").await, before);
    }
    // A smaller epsilon is served by what a larger one bought.
    assert_eq!(
        veil.rows_as(&at(4000.0), &of_days(1, 6)).await.unwrap(),
        rows
    );
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    // A larger one is not: the days are bought as they are now.
    assert!(price(&veil, &at(6000.0), &of_days(2, 5)).await > 0.0);
    // From then on they are shown, whatever the epsilon.
    assert_eq!(price(&veil, &session("analyst"), &of_days(2, 5)).await, 0.0);
    let before = spent(&veil.engine, "analyst").await;
    let moved = engine(|yaml| yaml.replace("from: 2024-03-01", "from: 2024-02-29")).await;
    rows_of(&moved, &analyst, &of_days(2, 5)).await.unwrap();
    assert!(spent(&moved, "analyst").await > before);
}

/// Periods that are not closed are left out, are not paid for, and may be asked for.
#[tokio::test(flavor = "multi_thread")]
async fn open_periods_are_left_out() {
    // Months, so that no test sees one close; and one far in the future.
    let periods = "periods: {column: SeenAt, by: month, from: 2024-03-01, close_after: 2d}";
    let veil = clinic(&policy(periods), true).await;
    let future = "INSERT INTO \"Clinic East\".\"Visits\" SELECT 90000 + g, g, '2900-03-03', \
        '2900-03-03', '2900-03-03', 5 FROM generate_series(1, 30) AS g";
    veil.client.batch_execute(future).await.unwrap();
    let sql = |condition: &str| {
        format!(
            "SELECT date_trunc('month', \"SeenAt\") AS month, count(*) FROM \
                \"Clinic East\".\"Visits\" {condition} GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"
        )
    };
    let analyst = session("analyst");
    let answer = veil.ask_as(&analyst, &sql("")).await.unwrap();
    assert_eq!(answer.rows.len(), 2, "March and April of 2024");
    let notices = answer.notices.join("\n");
    assert!(
        notices.contains("are left out, as they are not closed"),
        "{notices}"
    );
    assert!(
        notices.contains("rows before 2024-03-01 are left out"),
        "{notices}"
    );
    // Without bounds the months would be found by threshold; with those of the periods, they are
    // listed.
    assert!(!notices.contains("are not shown"), "{notices}");
    let before = spent(&veil.engine, "analyst").await;
    let open = sql("WHERE \"SeenAt\" >= '2900-01-01'");
    let answer = veil.ask_as(&analyst, &open).await.unwrap();
    assert!(answer.rows.is_empty());
    let notices = answer.notices.join("\n");
    assert!(notices.contains("privacy cost: nothing"), "{notices}");
    // Now() is in an open month, and ends it.
    let now = sql("WHERE \"SeenAt\" >= '2024-04-01' AND \"SeenAt\" <= now()");
    assert_eq!(veil.rows_as(&analyst, &now).await.unwrap().len(), 1);
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    let mut all = session("analyst");
    all.session_settings.open_periods = OpenPeriods::On;
    assert!(price(&veil, &all, &open).await > 0.0);
}

/// A clock that steps back opens no period that was bought, and closes none.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_back_changes_nothing_that_was_bought() {
    // A later close is what a clock that is behind does. From 2024 on, all of these are past.
    let veil = clinic(&policy(BY_DAY), true).await;
    let recent = "INSERT INTO \"Clinic East\".\"Visits\" SELECT 90000 + g, 1 + g % 40, moment, \
        moment::date, moment::timestamp, 5 FROM generate_series(1, 400) AS g, LATERAL (SELECT \
        date_trunc('day', now()) - interval '101 days' + g % 4 * interval '1 day' AS moment) AS m";
    veil.client.batch_execute(recent).await.unwrap();
    let days = async |first: i32, end: i32| {
        let sql = format!(
            "SELECT format('SELECT \"SeenAt\"::date, count(*) FROM \"Clinic East\".\"Visits\" \
                WHERE \"SeenAt\" >= %L AND \"SeenAt\" < %L GROUP BY 1 HAVING count(*) > 0 ORDER \
                BY 1', min(\"SeenAt\")::date + {first}, min(\"SeenAt\")::date + {end}) FROM \
                \"Clinic East\".\"Visits\" WHERE id > 90000"
        );
        veil.direct(&sql).await.remove(0)
    };
    let analyst = session("analyst");
    let three = days(0, 3).await;
    let rows = veil.rows_as(&analyst, &three).await.unwrap();
    assert_eq!(rows.len(), 3);
    let behind = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace("close_after: 2d", "close_after: 300d")
        })
        .await;
    let before = spent(&behind, "analyst").await;
    let four = days(0, 4).await;
    assert_eq!(rows_of(&behind, &analyst, &four).await.unwrap(), rows);
    assert_eq!(spent(&behind, "analyst").await, before);
    // The clock is right again: the fourth day alone is bought.
    let now = veil.rows_as(&analyst, &four).await.unwrap();
    assert_eq!((&now[..3], now.len()), (&rows[..], 4));
}

/// Sessions of a role at two proxies, with ranges that overlap: every day has one value.
#[tokio::test(flavor = "multi_thread")]
async fn two_proxies_buy_a_period_once() {
    let veil = clinic(&policy(BY_DAY), false).await;
    let proxies = [
        veil.proxy(&veil.ledger).await,
        veil.proxy(&veil.ledger).await,
    ];
    let small = |role: &str| {
        let mut requester = session(role);
        requester.session_settings.epsilon = Some(60.0);
        requester
    };
    let sessions: Vec<_> = (0..12u32)
        .map(|at| {
            let (proxy, requester) = (Arc::clone(&proxies[at as usize % 2]), small("analyst"));
            let sql = of_days(1 + at % 5, 6 + at % 7).replace(" HAVING count(*) > 0", "");
            tokio::spawn(async move { rows_of(&proxy, &requester, &sql).await.unwrap() })
        })
        .collect();
    let mut values = std::collections::BTreeMap::new();
    for session in sessions {
        for row in session.await.unwrap() {
            let (day, count) = row.split_once('|').unwrap();
            let known = values.entry(day.to_owned()).or_insert(count.to_owned());
            assert_eq!(known, count, "{day}");
        }
    }
    assert_eq!(values.len(), 11);
    // Each debit bought the same price, and no more than there are days.
    let ledger = proxies[0].ledger();
    let debits = ledger.history("analyst", 100).await.unwrap().len();
    assert!((1..=11).contains(&debits), "{debits}");
    let all = ledger.balance("analyst").await.unwrap().spent;
    assert_eq!(ledger.balance_owner().await.unwrap().spent, all);
}

/// A role pays the whole price of what it receives, and no part of another role's answer is sold
/// by itself.
#[tokio::test(flavor = "multi_thread")]
async fn another_role_pays_the_whole_price() {
    let veil = clinic(&policy(BY_DAY), false).await;
    let owner = async || {
        let balance = veil.engine.ledger().balance_owner().await.unwrap();
        balance.spent.mu_squared.to_f64()
    };
    let (analyst, colleague) = (session("analyst"), session("colleague"));
    let rows = veil.rows_as(&analyst, &of_days(1, 8)).await.unwrap();
    let whole = spent(&veil.engine, "analyst").await;
    assert!(close(owner().await, whole));
    // One of the days: a release that is drawn for it.
    veil.rows_as(&colleague, &of_days(3, 4)).await.unwrap();
    assert!(close(spent(&veil.engine, "colleague").await, whole));
    assert!(close(owner().await, 2.0 * whole));
    // What the analyst bought in one piece is received in one piece: without the day that is held
    // it is another question.
    let veil = clinic(&policy(BY_DAY), false).await;
    let before = veil.rows_as(&analyst, &of_days(1, 8)).await.unwrap();
    assert_eq!(before.len(), rows.len());
    let received = veil.rows_as(&colleague, &of_days(1, 8)).await.unwrap();
    assert_eq!(received, before);
    assert!(close(spent(&veil.engine, "colleague").await, whole));
    let balance = veil.engine.ledger().balance_owner().await.unwrap();
    assert!(close(balance.spent.mu_squared.to_f64(), whole));
}

/// EXPLAIN shows which periods are held, and the price of the others; it buys nothing.
#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_what_would_be_bought() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    let explained = async |sql: &str| {
        let sql = format!("EXPLAIN {sql}");
        veil.explained(analyst.session_settings, &sql).await
    };
    let by = |lines: &[String]| -> Vec<String> {
        let lines = lines.iter().filter(|line| line.starts_with("By periods"));
        let lines = lines.filter(|line| !line.contains(NOISE));
        lines.cloned().collect()
    };
    const NOISE: &str = "noise of aggregate 1 in those that were bought: standard deviation ";
    let name = "By periods of Clinic East.Visits:";
    let lines = explained(&of_days(1, 4)).await;
    assert_eq!(
        by(&lines),
        [format!(
            "{name} to be bought: 3 days, 2024-03-01 to 2024-03-03"
        )]
    );
    assert_eq!(spent(&veil.engine, "analyst").await, 0.0);
    price(&veil, &analyst, &of_days(1, 4)).await;
    let lines = explained(&of_days(1, 4)).await;
    assert_eq!(
        by(&lines),
        [format!(
            "{name} 3 days were bought before, without rows that came later"
        )]
    );
    assert!(lines.iter().any(|line| line.contains(NOISE)), "{lines:#?}");
    assert!(
        lines.contains(&"Cost now: nothing".to_owned()),
        "{lines:#?}"
    );
    price(&veil, &analyst, &of_days(6, 7)).await;
    let lines = explained(&of_days(1, 9)).await;
    assert_eq!(
        by(&lines),
        [format!(
            "{name} 4 days were bought before, without rows that came later; to be bought: 4 \
                days, 2024-03-04 to 2024-03-05, 2024-03-07 to 2024-03-08"
        )]
    );
    assert!(lines.iter().any(|line| line.starts_with("Cost: ")));
    // Nothing is bought where the session asks for that.
    let mut held = session("analyst");
    held.session_settings.reuse = Reuse::Summary;
    assert_eq!(price(&veil, &held, &of_days(1, 4)).await, 0.0);
    let refused = veil.rows_as(&held, &of_days(1, 9)).await.unwrap_err();
    assert_eq!(refused.report().sqlstate, "0A000");
}

/// The standard errors of what an answer shows, printed in its last column.
async fn errors(veil: &Veil, requester: &Requester, sql: &str) -> Vec<f64> {
    let rows = veil.rows_as(requester, sql).await.unwrap();
    let last = |row: &String| row.rsplit('|').next().unwrap().parse().unwrap();
    rows.iter().map(last).collect()
}

fn people_of_days(first: u32, end: u32) -> String {
    format!(
        "SELECT \"SeenAt\"::date, pgveil.stderr(count(DISTINCT \"Person\")) FROM \
            \"Clinic East\".\"Visits\" WHERE \"SeenAt\" >= '2024-03-{first:02}' AND \"SeenAt\" < \
            '2024-03-{end:02}' GROUP BY 1 ORDER BY 1"
    )
}

fn at(epsilon: f64) -> Requester {
    let mut requester = session("analyst");
    requester.session_settings.epsilon = Some(epsilon);
    requester
}

/// Days that are bought together share one clip: those between them that are held do not count.
#[tokio::test(flavor = "multi_thread")]
async fn days_between_those_that_are_missing_cost_no_accuracy() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    let of_two = errors(&veil, &analyst, &people_of_days(20, 22)).await;
    errors(&veil, &analyst, &people_of_days(2, 15)).await;
    let all = errors(&veil, &analyst, &people_of_days(1, 16)).await;
    assert_eq!(all.len(), 15);
    assert_eq!([all[0], all[14]], of_two[..]);
    assert!(all[7] > 1.5 * all[0], "{all:?}");
}

/// If there are several answers for a day, the one with the least error is shown.
#[tokio::test(flavor = "multi_thread")]
async fn the_most_accurate_answer_that_serves_is_shown() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let alone = errors(&veil, &at(5000.0), &people_of_days(3, 4)).await;
    let together = errors(&veil, &at(6000.0), &people_of_days(1, 9)).await;
    assert!(together[2] > 1.5 * alone[0], "{alone:?} {together:?}");
    let before = spent(&veil.engine, "analyst").await;
    let shown = errors(&veil, &at(4000.0), &people_of_days(1, 9)).await;
    assert_eq!(shown[2], alone[0]);
    assert_eq!((&shown[..2], &shown[3..]), (&together[..2], &together[3..]));
    // It does not serve a session of a larger epsilon.
    assert_eq!(
        errors(&veil, &at(6000.0), &people_of_days(1, 9)).await,
        together
    );
    assert_eq!(spent(&veil.engine, "analyst").await, before);
}

/// More hours than a key lists would be shown by threshold, and kept without the small ones.
#[tokio::test(flavor = "multi_thread")]
async fn too_many_periods_are_not_bought_at_once() {
    let periods = "periods: {column: SeenAt, by: hour, from: 2022-01-01, close_after: 90min}";
    let veil = clinic(&policy(periods), true).await;
    let analyst = session("analyst");
    let from = |from: &str| {
        format!(
            "SELECT date_trunc('hour', \"SeenAt\") AS hour, count(*) FROM \
                \"Clinic East\".\"Visits\" WHERE \"SeenAt\" >= '{from}' AND \"SeenAt\" < \
                '2024-03-15' GROUP BY 1 HAVING count(*) > 0 ORDER BY 1"
        )
    };
    let refused = veil
        .rows_as(&analyst, &from("2022-01-01"))
        .await
        .unwrap_err();
    let refused = refused.report();
    assert_eq!(refused.sqlstate, "54000");
    assert_eq!(
        refused.message,
        "too many periods to be bought at once: 19296 hours"
    );
    assert_eq!(spent(&veil.engine, "analyst").await, 0.0);
    assert!(price(&veil, &analyst, &from("2024-02-01")).await > 0.0);
    // Those that are held do not count.
    assert!(price(&veil, &analyst, &from("2023-01-01")).await > 0.0);
    assert_eq!(price(&veil, &analyst, &from("2024-03-01")).await, 0.0);
}

/// Keys that have to be listed are, as each purchase has bounds.
#[tokio::test(flavor = "multi_thread")]
async fn periods_need_no_threshold() {
    let listed = |yaml: String| yaml.replace("privacy: {", "privacy: {accounting: pure, ");
    let yaml = listed(policy(BY_DAY))
        .replace("1e-4", "0")
        .replace("1e-3", "0");
    let pure = clinic(&yaml, true).await;
    let analyst = session("analyst");
    assert!(price(&pure, &analyst, &of_days(1, 4)).await > 0.0);
    let epsilon = async || {
        let spent = pure.engine.ledger().balance("analyst").await.unwrap().spent;
        spent.epsilon.unwrap().to_f64()
    };
    let paid = epsilon().await;
    assert!(paid > 0.0);
    pure.answers_as_postgresql(&analyst, &[&of_days(1, 4), &of_days(2, 3)])
        .await;
    assert_eq!(epsilon().await, paid);
    let veil = clinic(&policy(BY_DAY), true).await;
    let mut domain = session("analyst");
    domain
        .session_settings
        .set("pgveil.keys", "domain")
        .unwrap();
    assert!(price(&veil, &domain, &of_days(1, 4)).await > 0.0);
    assert_eq!(price(&veil, &domain, &of_days(2, 4)).await, 0.0);
}

/// An answer that cannot be read is found before anything is paid.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_paid_where_what_is_held_cannot_be_read() {
    let veil = clinic(&policy(BY_DAY), true).await;
    let analyst = session("analyst");
    price(&veil, &analyst, &of_days(1, 4)).await;
    let before = spent(&veil.engine, "analyst").await;
    let path = veil.ledger.strip_prefix("sqlite://").unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    let damage = "DROP TRIGGER answer_update; UPDATE answer SET released = CAST('{\"keys\": [], \
        \"measures\": []}' AS BLOB);";
    other.execute_batch(damage).unwrap();
    let refused = veil.rows_as(&analyst, &of_days(1, 9)).await.unwrap_err();
    assert_eq!(refused.report().sqlstate, "XX000");
    assert_eq!(spent(&veil.engine, "analyst").await, before);
}

/// A hundred people with up to thirty visits a day each, of which the policy allows ten thousand.
const BUSY: &str = "
CREATE SCHEMA \"Clinic East\";
CREATE TABLE \"Clinic East\".\"People\" (\"Id\" int PRIMARY KEY, ward char(3) NOT NULL);
CREATE TABLE \"Clinic East\".\"Visits\" (id int PRIMARY KEY, \"Person\" int NOT NULL REFERENCES \
\"Clinic East\".\"People\", \"SeenAt\" timestamptz NOT NULL, \"Day\" date, local timestamp, fee \
numeric(6, 2));
INSERT INTO \"Clinic East\".\"People\" SELECT g, (ARRAY['a', 'b'])[1 + g % 2] FROM \
generate_series(1, 400) AS g;
SET TimeZone = 'UTC';
INSERT INTO \"Clinic East\".\"Visits\" SELECT row_number() OVER (), p, timestamptz '2024-03-01 \
12:00+00' + d * interval '1 day', NULL, NULL, 10 FROM generate_series(1, 400) AS p, \
generate_series(0, 5) AS d, LATERAL generate_series(1, 1 + (p + d) % 30) AS n;";

async fn busy(is_silent: bool) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(BUSY).await.unwrap();
    };
    let sampler = if is_silent { Veil::silent() } else { None };
    let yaml = policy(BY_DAY).replace("rows_per_unit: 60", "rows_per_unit: 10000");
    Veil::over(fill, &yaml, sampler).await
}

/// Each purchase has its own look, and each day the errors of the purchase that it came with.
#[tokio::test(flavor = "multi_thread")]
async fn each_purchase_has_its_own_look() {
    let veil = busy(true).await;
    let analyst = session("analyst");
    let of = |first: u32, end: u32| {
        format!(
            "SELECT \"SeenAt\"::date, count(*), sum(fee) FROM \"Clinic East\".\"Visits\" WHERE \
                \"SeenAt\" >= '2024-03-{first:02}' AND \"SeenAt\" < '2024-03-{end:02}' GROUP BY 1 \
                ORDER BY 1"
        )
    };
    let whole = price(&veil, &analyst, &of(2, 4)).await;
    assert!(close(price(&veil, &analyst, &of(1, 7)).await, whole));
    assert_eq!(price(&veil, &analyst, &of(1, 7)).await, 0.0);
    // A session that asks for clips that are known beforehand has its own.
    let mut fixed = session("analyst");
    fixed.session_settings.set("pgveil.clip", "fixed").unwrap();
    assert!(close(price(&veil, &fixed, &of(2, 4)).await, whole));
    assert_eq!(price(&veil, &fixed, &of(3, 4)).await, 0.0);
    let sql = |first, end| of(first, end).replace("count(*), sum(fee)", "pgveil.stderr(count(*))");
    let chosen = errors(&veil, &analyst, &sql(2, 3)).await[0];
    let declared = errors(&veil, &fixed, &sql(2, 3)).await[0];
    assert!(declared > 20.0 * chosen, "{declared} {chosen}");
}

/// If a look saw too few units, nothing of its purchase is kept, and the look alone is paid.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_sees_too_few_units_buys_no_period() {
    let veil = busy(true).await;
    let few = "DELETE FROM \"Clinic East\".\"Visits\" WHERE \"SeenAt\"::date = '2024-03-04'";
    veil.client.batch_execute(few).await.unwrap();
    let analyst = session("analyst");
    let days = |first, end| of_days(first, end).replace(" HAVING count(*) > 0", "");
    let whole = price(&veil, &analyst, &days(1, 4)).await;
    let before = spent(&veil.engine, "analyst").await;
    let answer = veil.ask_as(&analyst, &days(1, 5)).await.unwrap();
    assert_eq!(answer.rows.len(), 3);
    let notices = answer.notices.join("\n");
    let left_out = "left out, as their look saw too few units to choose a clip";
    assert!(notices.contains(left_out), "{notices}");
    assert!(!notices.contains("bought now"), "{notices}");
    let look = spent(&veil.engine, "analyst").await - before;
    assert!(look > 0.0 && look < 0.5 * whole, "{look} {whole}");
    // The same look is not paid again. The day alone is refused.
    let answer = veil.ask_as(&analyst, &days(2, 5)).await.unwrap();
    assert_eq!(answer.rows.len(), 2);
    let notices = answer.notices.join("\n");
    assert!(notices.contains("privacy cost: nothing"), "{notices}");
    let refused = veil.rows_as(&analyst, &days(4, 5)).await.unwrap_err();
    assert_eq!(refused.report().sqlstate, "PV002");
    assert_eq!(price(&veil, &analyst, &days(1, 4)).await, 0.0);
    assert_eq!(spent(&veil.engine, "analyst").await, before + look);
    // With the next day there are enough.
    assert_eq!(veil.rows_as(&analyst, &days(1, 6)).await.unwrap().len(), 5);
}

/// What a look saw of closed periods is kept, as their answers are: under another version of the
/// data too. If rows have come all the same, a look at twice the mu sees them.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_saw_too_little_stays() {
    let veil = busy(true).await;
    let few = "DELETE FROM \"Clinic East\".\"Visits\" WHERE \"SeenAt\"::date = '2024-03-04'";
    veil.client.batch_execute(few).await.unwrap();
    let asked = of_days(4, 5).replace(" HAVING count(*) > 0", "");
    veil.rows_as(&at(1_000.0), &asked).await.unwrap_err();
    let late = "INSERT INTO \"Clinic East\".\"Visits\" SELECT 90000 + p, p, '2024-03-04 \
        12:00+00' FROM generate_series(1, 400) AS p";
    veil.client.batch_execute(late).await.unwrap();
    let versioned = |yaml: String| {
        yaml.replace(
            "unit: person, budget",
            "data_version: \"2\", unit: person, budget",
        )
    };
    let versioned = veil.proxy_with(&veil.ledger, versioned).await;
    for engine in [&veil.engine, &versioned] {
        let before = spent(engine, "analyst").await;
        let refused = rows_of(engine, &at(1_000.0), &asked).await;
        assert_eq!(refused.unwrap_err().report().sqlstate, "PV002");
        assert_eq!(spent(engine, "analyst").await, before);
    }
    let twice = rows_of(&versioned, &at(9_000.0), &asked).await;
    assert_eq!(twice.unwrap().len(), 1);
}

/// A sum of which the look of one purchase saw too few units is NULL in its days alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_look_leaves_out_is_null_in_its_own_days() {
    let veil = busy(true).await;
    let few = "UPDATE \"Clinic East\".\"Visits\" SET fee = 0 WHERE \"SeenAt\"::date = '2024-03-04'";
    veil.client.batch_execute(few).await.unwrap();
    let analyst = session("analyst");
    let of = |first: u32, end: u32| {
        format!(
            "SELECT \"SeenAt\"::date, count(*), sum(fee) FILTER (WHERE fee > 0) AS paid, \
                pgveil.stderr(sum(fee) FILTER (WHERE fee > 0)) FROM \
                \"Clinic East\".\"Visits\" WHERE \"SeenAt\" >= '2024-03-{first:02}' AND \
                \"SeenAt\" < '2024-03-{end:02}' GROUP BY 1 ORDER BY 1"
        )
    };
    veil.rows_as(&analyst, &of(1, 4)).await.unwrap();
    let answer = veil.ask_as(&analyst, &of(1, 5)).await.unwrap();
    let lines: Vec<&str> = answer.notices.iter().map(String::as_str).collect();
    let is_null = |line: &&str| line.contains("NULL in 1 group: too few units");
    assert!(lines.iter().any(is_null), "{lines:#?}");
    let explain = format!("EXPLAIN {}", of(1, 5));
    let first = veil.explained(analyst.session_settings, &explain).await;
    let of_some = " where a look saw enough in 4 days ";
    assert!(first[0].contains(of_some), "{}", first[0]);
    let explain = format!("EXPLAIN {}", of(4, 5));
    let first = veil.explained(analyst.session_settings, &explain).await;
    let of_none = "sum NULL, as a look saw too few units";
    assert!(first[0].contains(of_none), "{}", first[0]);
    let rows = veil.rows_as(&analyst, &of(1, 5)).await.unwrap();
    let parts: Vec<Vec<&str>> = rows.iter().map(|row| row.split('|').collect()).collect();
    assert_eq!(parts.len(), 4);
    for (at, row) in parts.iter().enumerate() {
        assert_eq!(row[2] == "∅", at == 3, "{rows:#?}");
        assert_eq!(row[3] == "∅", at == 3, "{rows:#?}");
    }
}

/// The first line of EXPLAIN tells the error of the days that are bought and of those that were
/// bought before, at another price.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_of_days_that_were_bought() {
    let veil = clinic(&policy(BY_DAY), false).await;
    let at = |epsilon: f64| SessionSettings {
        epsilon: Some(epsilon),
        ..SessionSettings::with_fixed_clips()
    };
    let first = async |epsilon: f64, sql: &str| {
        let explain = format!("EXPLAIN {sql}");
        let lines = veil.explained(at(epsilon), &explain).await;
        println!("{sql}\n  {lines:#?}");
        lines.into_iter().next().unwrap()
    };
    let at_high = Requester {
        session_settings: at(400.0),
        ..session("analyst")
    };
    let before = first(400.0, &of_days(1, 4)).await;
    veil.rows_as(&at_high, &of_days(1, 4)).await.unwrap();
    let (of_high, _) = before.split_once(" on each").unwrap();
    let held = format!("{of_high} in 3 days that were bought before; free, as it was paid for; ");
    let line = first(100.0, &of_days(1, 4)).await;
    assert!(line.starts_with(&held), "{line}: {held}");
    let line = first(100.0, &of_days(1, 8)).await;
    let (bought, rest) = line.split_once(" and ").unwrap();
    let of_held = format!("{of_high} in 3 days that were bought before; ");
    assert!(rest.starts_with(&of_held), "{line}");
    assert!(
        bought.starts_with('±') && !bought.starts_with(of_high),
        "{line}"
    );
    assert!(rest.ends_with(" left after"), "{line}");
}
