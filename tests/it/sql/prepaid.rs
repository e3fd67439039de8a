//! Prepaid periods: one price covers a horizon, each period is drawn once, and of each unit the
//! first few periods count, as PostgreSQL says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pgveil::engine::{Engine, Format, MakeSampler, Requester, Service};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{OpenPeriods, Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Veil, rows_of};

/// Forty days of visits. Person p comes every p-th day, so that few are there often.
const SCHEMA: &str = "
CREATE SCHEMA web;
CREATE TABLE web.people (id int PRIMARY KEY, ward text NOT NULL);
CREATE TABLE web.visits (id serial PRIMARY KEY, person int NOT NULL REFERENCES web.people, seen \
timestamptz NOT NULL, fee numeric(6, 2));
INSERT INTO web.people SELECT g, (ARRAY['a', 'b'])[1 + g % 2] FROM generate_series(1, 30) AS g;
SET TimeZone = 'UTC';
INSERT INTO web.visits (person, seen, fee) SELECT p, timestamptz '2024-03-01 08:00+00' + d * \
interval '1 day', (p * d) % 90 FROM generate_series(1, 30) AS p, generate_series(0, 39) AS d \
WHERE d % p = 0;";

fn policy(prepaid: &str) -> String {
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
  web.people: {{unit: id, columns: {{ward: {{values: [a, b], complete: true}}}}}}
  web.visits:
    unit: {{path: [person -> web.people.id]}}
    periods: {{column: seen, by: day, from: 2024-03-01, close_after: 2d{prepaid}}}
    columns: {{seen: visible, fee: {{bounds: [0, 100]}}}}
",
        role("analyst"),
        role("colleague")
    )
}

const MANY: &str = ", per_unit: 40, horizon: 60, rows: 2, append_only: true";
const FEW: &str = ", per_unit: 5, horizon: 30, rows: 9, append_only: true";

pub(super) async fn web(prepaid: &str, is_silent: bool) -> Veil {
    let sampler = if is_silent { Veil::silent() } else { None };
    web_with(prepaid, sampler).await
}

pub(super) async fn web_with(prepaid: &str, sampler: Option<MakeSampler>) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    Veil::over(fill, &policy(prepaid), sampler).await
}

pub(super) fn session(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    }
}

/// A session whose noise is seen in a count.
pub(super) fn noisy(role: &str, epsilon: f64) -> Requester {
    let mut requester = session(role);
    requester.session_settings.epsilon = Some(epsilon);
    requester
}

pub(super) async fn spent(engine: &Engine, role: &str) -> f64 {
    let balance = engine.ledger().balance(role).await.unwrap();
    balance.spent.mu_squared.to_f64()
}

async fn owner(engine: &Engine) -> f64 {
    let balance = engine.ledger().balance_owner().await.unwrap();
    balance.spent.mu_squared.to_f64()
}

pub(super) fn day(day: u32) -> String {
    match day {
        1..=31 => format!("2024-03-{day:02}"),
        _ => format!("2024-04-{:02}", day - 31),
    }
}

/// Visits of the days from one to before another.
pub(super) fn of_days(first: u32, end: u32) -> String {
    format!(
        "SELECT seen::date, count(*) FROM web.visits WHERE seen >= '{}' AND seen < '{}' GROUP BY \
            1 ORDER BY 1",
        day(first),
        day(end)
    )
}

/// What PostgreSQL says of the first `per_unit` days of each person since the first of March, or
/// since the horizon's first day.
pub(super) fn first_days(since: u32, per_unit: u32, (first, end): (u32, u32)) -> String {
    format!(
        "SELECT seen::date, count(*) FROM (SELECT *, dense_rank() OVER (PARTITION BY person ORDER \
            BY seen::date) AS place FROM web.visits WHERE seen >= '{}') AS v WHERE place <= \
            {per_unit} AND seen >= '{}' AND seen < '{}' GROUP BY 1 ORDER BY 1",
        day(since),
        day(first),
        day(end)
    )
}

/// The rows that are not zero: a day without any has a group all the same.
pub(super) fn not_zero(rows: Vec<String>) -> Vec<String> {
    rows.into_iter()
        .filter(|row| !row.ends_with("|0"))
        .collect()
}

pub(super) async fn rows(veil: &Veil, requester: &Requester, sql: &str) -> Vec<String> {
    let rows = veil.rows_as(requester, sql).await;
    not_zero(rows.unwrap_or_else(|e| panic!("{sql}: {e} {:?}", e.report())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_horizon_is_paid_once_and_its_days_are_free() {
    let veil = web(MANY, true).await;
    let analyst = session("analyst");
    let mut whole = 0.0;
    // Later days first: the draw takes the earlier ones too.
    for (first, end) in [(5, 8), (1, 4), (7, 20), (2, 31), (1, 41)] {
        let answer = rows(&veil, &analyst, &of_days(first, end)).await;
        let wanted = veil.direct(&of_days(first, end)).await;
        assert_eq!(answer, wanted, "{first} to {end}");
        let paid = spent(&veil.engine, "analyst").await;
        assert!(
            paid > 0.0 && (whole == 0.0 || paid == whole),
            "{first} to {end}"
        );
        whole = paid;
    }
    assert_eq!(owner(&veil.engine).await, whole);
    let view = "SELECT table_name, period, since::date, periods_per_unit, horizon, \
        horizon_end::date, drawn_to::date, mu > 0 FROM pgveil.periods";
    assert_eq!(
        veil.rows_as(&analyst, view).await.unwrap(),
        ["visits|day|2024-03-01|40|60|2024-04-30|2024-04-10|t"]
    );
    assert_eq!(
        veil.rows_as(&session("colleague"), view).await.unwrap(),
        ["visits|day|2024-03-01|40|60|∅|∅|∅"]
    );
    // The payment and four draws: each is in the history.
    let ledger = veil.engine.ledger();
    assert_eq!(ledger.history("analyst", 10).await.unwrap().len(), 5);
}

/// The first days of each unit in the horizon count, whatever the question's bounds are; and the
/// next horizon begins anew, at its own price.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_days_of_each_unit_count() {
    let veil = web(FEW, true).await;
    let analyst = session("analyst");
    for (first, end) in [(10, 20), (1, 10), (1, 31)] {
        let answer = rows(&veil, &analyst, &of_days(first, end)).await;
        let wanted = veil.direct(&first_days(1, 5, (first, end))).await;
        assert_eq!(answer, wanted, "{first} to {end}");
    }
    let once = spent(&veil.engine, "analyst").await;
    let next = rows(&veil, &analyst, &of_days(31, 41)).await;
    assert_eq!(next, veil.direct(&first_days(31, 5, (31, 41))).await);
    assert_eq!(spent(&veil.engine, "analyst").await, 2.0 * once);
    // Both, free.
    let both = rows(&veil, &analyst, &of_days(25, 35)).await;
    let mut wanted = veil.direct(&first_days(1, 5, (25, 31))).await;
    wanted.extend(veil.direct(&first_days(31, 5, (31, 35))).await);
    assert_eq!(both, wanted);
    assert_eq!(spent(&veil.engine, "analyst").await, 2.0 * once);
    // A join, another key, sums and units.
    let sql = "SELECT seen::date, ward, count(*), sum(fee), count(DISTINCT person) FROM \
        web.visits JOIN web.people ON person = people.id WHERE seen >= '2024-03-01' AND seen < \
        '2024-03-25' AND fee BETWEEN 3 AND 80 GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2";
    let answer = veil.rows_as(&analyst, sql).await.unwrap();
    let counted = sql.replace(
        "web.visits JOIN",
        "(SELECT *, dense_rank() OVER (PARTITION BY person ORDER BY seen::date) AS place FROM \
            web.visits WHERE seen >= '2024-03-01') AS visits JOIN",
    );
    let counted = counted.replace("AND fee", "AND place <= 5 AND fee");
    assert_eq!(answer, veil.direct(&counted).await);
}

/// Bytes of a day never change: late rows, another proxy. Another version of the data has its own
/// price: units count anew there.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_that_was_drawn_stays() {
    let veil = web(MANY, false).await;
    let analyst = noisy("analyst", 60.0);
    let before = veil.rows_as(&analyst, &of_days(1, 11)).await.unwrap();
    assert_eq!(before.len(), 10);
    let paid = spent(&veil.engine, "analyst").await;
    let late = "INSERT INTO web.visits (person, seen, fee) SELECT p, '2024-03-04 12:00+00', 5 \
        FROM generate_series(1, 30) AS p, generate_series(1, 50)";
    veil.client.batch_execute(late).await.unwrap();
    let another = veil.proxy(&veil.ledger).await;
    for engine in [&veil.engine, &another] {
        for (first, end) in [(1, 11), (4, 5), (2, 11)] {
            let again = rows_of(engine, &analyst, &of_days(first, end))
                .await
                .unwrap();
            assert_eq!(again, before[first as usize - 1..end as usize - 1]);
        }
        assert_eq!(spent(engine, "analyst").await, paid);
    }
    // Days that come later are drawn, free, and the earlier ones stay.
    let all = rows_of(&another, &analyst, &of_days(1, 21)).await.unwrap();
    assert_eq!((&all[..10], all.len()), (&before[..], 20));
    assert_eq!(spent(&another, "analyst").await, paid);
    let versioned = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace(
                "unit: person, budget",
                "data_version: \"2\", unit: person, budget",
            )
        })
        .await;
    let anew = rows_of(&versioned, &analyst, &of_days(1, 11)).await;
    assert_ne!(anew.unwrap(), before);
    assert_eq!(spent(&versioned, "analyst").await, 2.0 * paid);
}

/// EXPLAIN as a role sees it.
pub(super) async fn explained_to(veil: &Veil, role: &Requester, sql: &str) -> Vec<String> {
    let statements = parse(&format!("EXPLAIN {sql}")).unwrap();
    let [Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("{sql}")
    };
    let cancel = CancellationToken::new();
    let explained = veil
        .engine
        .explain(role, query, &[], &[], *format, cancel)
        .await;
    explained.unwrap()
}

/// Before a role has paid, nothing that it sees depends on what others have drawn.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_drew_is_not_seen_before_it_is_paid_for() {
    let veil = web(MANY, false).await;
    let (analyst, colleague) = (session("analyst"), session("colleague"));
    let asked = of_days(3, 9);
    let before = explained_to(&veil, &colleague, &asked).await;
    veil.rows_as(&analyst, &of_days(1, 21)).await.unwrap();
    assert_eq!(explained_to(&veil, &colleague, &asked).await, before);
    // A change of the table stops a role that has not paid, though there is nothing to draw.
    let change = "ALTER TABLE web.visits ADD COLUMN later int";
    veil.client.batch_execute(change).await.unwrap();
    let refused = veil.rows_as(&colleague, &asked).await.unwrap_err();
    assert!(refused.to_string().contains("has changed"), "{refused}");
    assert_eq!(spent(&veil.engine, "colleague").await, 0.0);
}

/// A role that comes later pays the same whole price, for one day too, and sees the same.
#[tokio::test(flavor = "multi_thread")]
async fn another_role_pays_the_whole_price() {
    let veil = web(MANY, false).await;
    let (analyst, colleague) = (noisy("analyst", 60.0), noisy("colleague", 60.0));
    let first = veil.rows_as(&analyst, &of_days(1, 11)).await.unwrap();
    let whole = spent(&veil.engine, "analyst").await;
    let explained = async |role: &Requester| {
        let lines = veil
            .explained(role.session_settings, &format!("EXPLAIN {}", of_days(3, 4)))
            .await;
        lines.join("\n")
    };
    assert!(
        explained(&analyst).await.contains("Cost"),
        "EXPLAIN is free"
    );
    let one = veil.rows_as(&colleague, &of_days(3, 4)).await.unwrap();
    assert_eq!(one, first[2..3]);
    assert_eq!(spent(&veil.engine, "colleague").await, whole);
    assert_eq!(owner(&veil.engine).await, whole);
    // What one of them draws, the other holds.
    let drawn = veil.rows_as(&colleague, &of_days(1, 16)).await.unwrap();
    let seen = veil.rows_as(&analyst, &of_days(1, 16)).await.unwrap();
    assert_eq!(drawn, seen);
    for role in ["analyst", "colleague"] {
        assert_eq!(spent(&veil.engine, role).await, whole);
    }
    assert_eq!(owner(&veil.engine).await, whole);
}

/// A session of a smaller epsilon is served by what was paid for, one of a larger one is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_smaller_epsilon_is_served() {
    let veil = web(MANY, false).await;
    let at = |epsilon: f64| noisy("analyst", epsilon);
    let first = veil.rows_as(&at(70.0), &of_days(1, 6)).await.unwrap();
    let once = spent(&veil.engine, "analyst").await;
    let more = veil.rows_as(&at(60.0), &of_days(1, 21)).await.unwrap();
    assert_eq!(&more[..5], &first[..]);
    assert_eq!(spent(&veil.engine, "analyst").await, once);
    // Twenty days: noise of two purchases is not the same by chance.
    let larger = veil.rows_as(&at(90.0), &of_days(1, 21)).await.unwrap();
    assert_ne!(larger, more);
    assert!(spent(&veil.engine, "analyst").await > 2.0 * once);
    // From then on the more accurate one is shown.
    assert_eq!(
        veil.rows_as(&at(60.0), &of_days(1, 21)).await.unwrap(),
        larger
    );
}

/// What was paid for goes on at its own price, also where the policy gives the role another delta.
#[tokio::test(flavor = "multi_thread")]
async fn another_budget_goes_on_with_what_was_paid_for() {
    let veil = web(MANY, false).await;
    let analyst = noisy("analyst", 60.0);
    let first = veil.rows_as(&analyst, &of_days(1, 6)).await.unwrap();
    let once = spent(&veil.engine, "analyst").await;
    let smaller = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace("delta: 1e-4", "delta: 1e-5")
        })
        .await;
    let more = rows_of(&smaller, &analyst, &of_days(1, 9)).await.unwrap();
    assert_eq!((&more[..5], more.len()), (&first[..], 8));
    assert_eq!(spent(&smaller, "analyst").await, once);
}

/// Sessions of two roles at two proxies, in any order: each day has one value, and is drawn once.
#[tokio::test(flavor = "multi_thread")]
async fn two_proxies_draw_a_day_once() {
    let veil = web(MANY, false).await;
    let proxies = [
        veil.proxy(&veil.ledger).await,
        veil.proxy(&veil.ledger).await,
    ];
    let sessions: Vec<_> = (0..16u32)
        .map(|at| {
            let proxy = Arc::clone(&proxies[at as usize % 2]);
            let requester = noisy(["analyst", "colleague"][at as usize / 2 % 2], 60.0);
            let sql = of_days(1 + at % 5, 8 + at * 7 % 13);
            tokio::spawn(async move { rows_of(&proxy, &requester, &sql).await.unwrap() })
        })
        .collect();
    let mut values = BTreeMap::new();
    for session in sessions {
        for row in session.await.unwrap() {
            let (day, count) = row.split_once('|').unwrap();
            let known = values.entry(day.to_owned()).or_insert(count.to_owned());
            assert_eq!(known, count, "{day}");
        }
    }
    assert_eq!(values.len(), 19);
    let whole = owner(&veil.engine).await;
    for role in ["analyst", "colleague"] {
        assert_eq!(spent(&veil.engine, role).await, whole);
    }
    let file = rusqlite::Connection::open(veil.ledger.strip_prefix("sqlite://").unwrap()).unwrap();
    let sql = "SELECT count(*) = 0 FROM prepaid_draw AS a JOIN prepaid_draw AS b ON a.first < \
        b.until AND b.first < a.until AND a.first <> b.first";
    assert!(
        file.query_row(sql, [], |row| row.get::<_, bool>(0))
            .unwrap()
    );
}

/// A draw that fails leaves its days without an answer for good. Other days go on.
#[tokio::test(flavor = "multi_thread")]
async fn days_of_a_draw_that_failed_are_lost() {
    let veil = web(MANY, true).await;
    let analyst = session("analyst");
    rows(&veil, &analyst, &of_days(1, 4)).await;
    let whole = spent(&veil.engine, "analyst").await;
    // More rows than a statement has time for, which is noticed after the draw is recorded.
    let many = "INSERT INTO web.visits (person, seen, fee) SELECT 1 + n % 30, '2024-03-05 \
        12:00+00', 1 FROM generate_series(1, 100000) AS n";
    veil.client.batch_execute(many).await.unwrap();
    let hurried = veil.proxy_with(&veil.ledger, |yaml| {
        yaml.replace("limits: {", "limits: {statement_timeout: 3ms, ")
    });
    let hurried = hurried.await;
    let failed = rows_of(&hurried, &analyst, &of_days(1, 7))
        .await
        .unwrap_err();
    assert_eq!(failed.report().sqlstate, "XX000", "{failed}");
    let answer = veil.ask_as(&analyst, &of_days(1, 7)).await.unwrap();
    assert_eq!(answer.rows.len(), 3);
    let notices = answer.notices.join("\n");
    let lost = "lost, as drawing them failed, and left out: 3 days, 2024-03-04 to 2024-03-06";
    assert!(notices.contains(lost), "{notices}");
    // The days after them are drawn, still free.
    let answer = veil.ask_as(&analyst, &of_days(1, 9)).await.unwrap();
    assert_eq!(answer.rows.len(), 5);
    assert_eq!(spent(&veil.engine, "analyst").await, whole);
    let mut all = session("analyst");
    all.session_settings.open_periods = OpenPeriods::On;
    all.session_settings.set("pgveil.clip", "fixed").unwrap();
    assert!(rows(&veil, &all, &of_days(1, 9)).await.len() > 5);
}

/// A client that cancels loses no day: a draw that is recorded goes on to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_loses_no_day() {
    let veil = web(MANY, true).await;
    let many = "INSERT INTO web.visits (person, seen, fee) SELECT 1 + n % 30, '2024-03-01 \
        12:00+00', 1 FROM generate_series(1, 30000) AS n";
    veil.client.batch_execute(many).await.unwrap();
    for wait in [0, 1, 3, 10, 30, 60, 100, 200, 400] {
        let cancel = CancellationToken::new();
        let later = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            later.cancel();
        });
        let sql = of_days(1, 3 + u32::try_from(wait / 12).unwrap());
        let statements = parse(&sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query is wanted: {sql}")
        };
        let requester = session("analyst");
        let formats = [Format::Text];
        let asked = veil
            .engine
            .answer(&requester, query, &[], &[], &formats, cancel);
        let _ = asked.await;
    }
    let answer = veil
        .ask_as(&session("analyst"), &of_days(1, 37))
        .await
        .unwrap();
    let notices = answer.notices.join("\n");
    assert_eq!(answer.rows.len(), 36, "{notices}");
    assert!(!notices.contains("lost"), "{notices}");
}

/// A clock that is behind closes fewer days, and opens none again.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_steps_back_draws_nothing_again() {
    let veil = web(MANY, false).await;
    let analyst = noisy("analyst", 60.0);
    let before = veil.rows_as(&analyst, &of_days(1, 11)).await.unwrap();
    let days = async |close_after: &str| {
        let close = format!("close_after: {close_after}");
        veil.proxy_with(&veil.ledger, move |yaml| {
            // Years ago: no day is closed.
            yaml.replace("close_after: 2d", &close)
        })
        .await
    };
    let behind = days("366d").await;
    let again = rows_of(&behind, &analyst, &of_days(1, 11)).await.unwrap();
    assert_eq!(again, before);
    let more = rows_of(&behind, &analyst, &of_days(1, 13)).await.unwrap();
    assert_eq!((&more[..10], more.len()), (&before[..], 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_notices_say_what_is_paid_for() {
    let veil = web(FEW, true).await;
    let analyst = session("analyst");
    let said = async |sql: &str| {
        let sql = format!("EXPLAIN {sql}");
        let lines = veil.explained(analyst.session_settings, &sql).await;
        let bounded = "Sensitivity: one period of a person moves the vector by at most 9";
        assert!(
            lines.iter().any(|line| line.contains(bounded)),
            "{lines:#?}"
        );
        let of_periods = lines
            .into_iter()
            .filter(|line| line.starts_with("By periods"));
        let of_periods = of_periods.filter(|line| !line.contains("noise of aggregate"));
        of_periods.collect::<Vec<_>>()
    };
    let name = "By periods of web.visits:";
    let bias = format!(
        "{name} of each person the first 5 days with rows since 2024-03-01 count; later days come \
            out too low where a person is in more"
    );
    assert_eq!(
        said(&of_days(3, 11)).await,
        [
            format!("{name} to be drawn: 10 days, 2024-03-01 to 2024-03-10"),
            format!(
                "{name} the price is for all 30 days from 2024-03-01 to 2024-03-30; each is drawn \
                    when it is closed, and costs nothing more"
            ),
            bias.clone(),
        ]
    );
    assert_eq!(spent(&veil.engine, "analyst").await, 0.0);
    let answer = veil.ask_as(&analyst, &of_days(3, 11)).await.unwrap();
    let notices = answer.notices.join("\n");
    assert!(notices.contains("privacy cost: mu"), "{notices}");
    assert!(notices.contains("drawn now: 10 days"), "{notices}");
    assert_eq!(
        said(&of_days(3, 13)).await[..2],
        [
            format!(
                "{name} 8 days were drawn before, without rows that came later; to be drawn: 2 \
                    days, 2024-03-11 to 2024-03-12"
            ),
            bias,
        ]
    );
    // It pays nothing that it has not paid.
    let mut held = session("analyst");
    held.session_settings.reuse = Reuse::Summary;
    assert_eq!(
        veil.rows_as(&held, &of_days(3, 13)).await.unwrap().len(),
        10
    );
    let refused = veil.rows_as(&held, &of_days(31, 35)).await.unwrap_err();
    assert_eq!(refused.report().sqlstate, "0A000");
    // What has no sums of a unit's rows is bought as a whole, and says so.
    let sql = "SELECT seen::date, percentile_cont(0.5) WITHIN GROUP (ORDER BY fee) FROM \
        web.visits WHERE seen >= '2024-03-01' AND seen < '2024-03-05' GROUP BY 1";
    let answer = veil.ask_as(&analyst, sql).await.unwrap();
    let notices = answer.notices.join("\n");
    assert!(
        notices.contains("this question is bought as a whole"),
        "{notices}"
    );
}

/// Where noise is not Gaussian, periods are bought as they are elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn under_pure_accounting_periods_are_bought() {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let yaml = policy(FEW)
        .replace("privacy: {", "privacy: {accounting: pure, ")
        .replace("1e-4", "0")
        .replace("1e-3", "0");
    let veil = Veil::over(fill, &yaml, Veil::silent()).await;
    let analyst = session("analyst");
    let answer = veil.ask_as(&analyst, &of_days(1, 4)).await.unwrap();
    let notices = answer.notices.join("\n");
    assert!(notices.contains("bought now: 3 days"), "{notices}");
    assert!(
        notices.contains("this question pays for those that it buys"),
        "{notices}"
    );
}

/// `pgveil check` says what pgveil takes the owner's word for.
#[tokio::test]
async fn promises_of_a_policy_are_listed() {
    let veil = web(FEW, true).await;
    let promises = pgveil::engine::promises(veil.engine.policy());
    let expected = [
        "Promised by this policy; privacy rests on it:",
        "  web.people: each person has one value of id",
        "  web.people: the bounds and lists of ward do not come from its rows",
        "  web.visits: a row is about no person but the one that person leads to",
        "  web.visits: the bounds and lists of fee do not come from its rows",
        "  rows of web.visits, web.people are added, never changed or deleted (append_only, for \
            per_unit: 5)",
        "Promised by this policy; only answers rest on it:",
        "  web.people: ward has no value outside its list",
        "  web.visits: no row comes later than close_after past the period of its seen",
        "  the data are those of version \"1\", until data_version changes",
    ];
    assert_eq!(promises, expected);
}

/// The first line of EXPLAIN tells the error of what was drawn and of what is drawn now, at the
/// price that was paid, whatever the session would pay.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_at_the_price_that_was_paid() {
    let veil = web(MANY, false).await;
    let at = |epsilon: f64| SessionSettings {
        epsilon: Some(epsilon),
        ..SessionSettings::default()
    };
    let days = |end: u32| {
        format!(
            "SELECT date_trunc('day', seen), count(*) FROM web.visits WHERE seen >= \
                '2024-03-01' AND seen < '2024-03-{end:02}' GROUP BY 1"
        )
    };
    let first = async |epsilon: f64, end: u32| {
        let explain = format!("EXPLAIN {}", days(end));
        let lines = veil.explained(at(epsilon), &explain).await;
        println!("{lines:#?}");
        lines.into_iter().next().unwrap()
    };
    let unpaid = first(100.0, 4).await;
    let before = first(400.0, 4).await;
    let (error, price) = before.split_once(" on each of ").unwrap();
    assert!(price.ends_with(" left after"), "{before}");
    assert!(!unpaid.starts_with(error), "{unpaid} {before}");
    let paying = Requester {
        session_settings: at(400.0),
        ..session("analyst")
    };
    veil.rows_as(&paying, &days(4)).await.unwrap();
    let drawn = format!("{error} in 3 days that were drawn before; free, as it was paid for; ");
    let line = first(100.0, 4).await;
    assert!(line.starts_with(&drawn), "{line}");
    let line = first(100.0, 6).await;
    let both = format!("{error} in 2 days that are drawn now and {drawn}");
    assert!(line.starts_with(&both), "{line}");
}

/// Each horizon has its own price. Where no closed day is asked for, no error is promised.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_errors_of_several_horizons() {
    let veil = web(&MANY.replace("horizon: 60", "horizon: 10"), false).await;
    let first = async |epsilon: f64, (from, end): (u32, u32)| {
        let lines = explained_to(&veil, &noisy("analyst", epsilon), &of_days(from, end)).await;
        println!("{lines:#?}");
        lines.into_iter().next().unwrap()
    };
    // Both are to be paid for: all of their days count.
    let unpaid = first(100.0, (5, 14)).await;
    assert!(
        unpaid.contains(" in 9 days that are drawn now; "),
        "{unpaid}"
    );
    assert!(unpaid.ends_with(" left after"), "{unpaid}");
    let (low, _) = unpaid.split_once(" in ").unwrap();
    veil.rows_as(&noisy("analyst", 400.0), &of_days(3, 4))
        .await
        .unwrap();
    veil.rows_as(&noisy("analyst", 200.0), &of_days(11, 12))
        .await
        .unwrap();
    let held = first(100.0, (3, 4)).await;
    let (of_first, _) = held
        .split_once(" in 1 day that was drawn before; ")
        .unwrap();
    let held = first(100.0, (11, 12)).await;
    let (of_second, _) = held
        .split_once(" in 1 day that was drawn before; ")
        .unwrap();
    assert_ne!(of_first, of_second);
    let line = first(100.0, (4, 14)).await;
    let draws = format!(
        "{of_first} in 7 days that are drawn now and {of_second} in 2 days that are drawn now and "
    );
    assert!(line.starts_with(&draws), "{line}");
    assert!(
        line.contains(" in 1 day that was drawn before; free"),
        "{line}"
    );
    // One is paid for, and another one is not.
    let line = first(100.0, (18, 24)).await;
    let draws = format!("{of_second} in 3 days that are drawn now and {low} in 3 days that are");
    assert!(
        line.starts_with(&draws) && line.ends_with(" left after"),
        "{line}"
    );
    let open = "SELECT seen::date, count(*) FROM web.visits WHERE seen >= '2999-01-01' AND seen < \
        '2999-01-03' GROUP BY 1";
    let lines = explained_to(&veil, &session("analyst"), open).await;
    let nothing = "nothing to show: no closed period is asked for; free; ";
    assert!(lines[0].starts_with(nothing), "{lines:#?}");
}
