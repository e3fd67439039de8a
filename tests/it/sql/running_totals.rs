//! Running totals of prepaid periods: days and totals come from the same rows, as PostgreSQL says
//! where there is no noise, and their errors are those of the noise that they share.

use pgveil::policy::SessionSettings;

use super::prepaid::{
    explained_to, first_days, noisy, not_zero, of_days, rows, session, spent, web, web_with,
};
use crate::fixture::{Veil, rows_of, streams};

const TOTALS: &str = ", per_unit: 3, horizon: 60, rows: 9, append_only: true, answers: totals";

/// The question over each person's first three days, in place of all visits.
fn counted(sql: &str) -> String {
    let place = sql.replacen("WHERE", "WHERE place <= 3 AND", 1);
    place.replacen(
        "FROM web.visits",
        "FROM (SELECT *, dense_rank() OVER (PARTITION BY person ORDER BY seen::date) AS place FROM \
            web.visits WHERE seen >= '2024-03-01') AS visits",
        1,
    )
}

/// Days, and totals of them, of any part of the horizon and by another key.
#[tokio::test(flavor = "multi_thread")]
async fn days_and_totals_come_from_the_same_rows() {
    let veil = web(TOTALS, true).await;
    let analyst = session("analyst");
    let mut whole = 0.0;
    for (first, end) in [(5, 8), (1, 4), (7, 20), (2, 31), (1, 41)] {
        let answer = rows(&veil, &analyst, &of_days(first, end)).await;
        let wanted = veil.direct(&first_days(1, 3, (first, end))).await;
        assert_eq!(answer, wanted, "{first} to {end}");
        let paid = spent(&veil.engine, "analyst").await;
        assert!(paid > 0.0 && (whole == 0.0 || paid == whole));
        whole = paid;
    }
    let total = "SELECT seen::date, count(*), sum(count(*)) OVER (ORDER BY seen::date), sum(fee) \
        FROM web.visits WHERE seen >= '2024-03-03' AND seen < '2024-03-08' GROUP BY 1 ORDER BY 1";
    assert_eq!(
        veil.rows_as(&analyst, total).await.unwrap(),
        veil.direct(&counted(total)).await
    );
    let by_ward = "SELECT seen::date, ward, count(DISTINCT person), sum(sum(fee)) OVER (PARTITION \
        BY ward ORDER BY seen::date) FROM web.visits JOIN web.people ON person = people.id WHERE \
        seen >= '2024-03-01' AND seen < '2024-03-08' AND fee BETWEEN 3 AND 80 GROUP BY 1, 2 \
        HAVING count(*) > 0 ORDER BY 1, 2";
    assert_eq!(
        veil.rows_as(&analyst, by_ward).await.unwrap(),
        veil.direct(&counted(by_ward)).await
    );
}

/// A total alone is the last of the running totals, with its error, free where the days are drawn.
/// Without days the question asks for all rows, also of units that are in more days than count: it
/// is an ordinary one, with its own price.
#[tokio::test(flavor = "multi_thread")]
async fn a_total_alone_is_the_last_of_the_running_totals() {
    let veil = web(TOTALS, true).await;
    let analyst = session("analyst");
    let bounds = "FROM web.visits WHERE seen >= '2024-03-01' AND seen < '2024-03-21'";
    let so_far = "sum(count(*)) OVER (ORDER BY seen::date)";
    let days = format!("SELECT seen::date, count(*) {bounds} GROUP BY 1 ORDER BY 1");
    assert_eq!(veil.rows_as(&analyst, &days).await.unwrap().len(), 20);
    let paid = spent(&veil.engine, "analyst").await;
    let last = |shown: &str| {
        format!("SELECT {shown} {bounds} GROUP BY seen::date ORDER BY seen::date DESC LIMIT 1")
    };
    let total = veil.rows_as(&analyst, &last(so_far)).await.unwrap();
    assert_eq!(total, veil.direct(&counted(&last(so_far))).await);
    let has_error = last(&format!("pgveil.stderr({so_far}) > 0"));
    assert_eq!(veil.rows_as(&analyst, &has_error).await.unwrap(), ["t"]);
    assert_eq!(spent(&veil.engine, "analyst").await, paid);
    let plain = format!("SELECT count(*) {bounds}");
    let all = veil.rows_as(&analyst, &plain).await.unwrap();
    assert_eq!(all, veil.direct(&plain).await);
    assert_ne!(all, total);
    assert!(spent(&veil.engine, "analyst").await > paid);
}

/// Rows that come after their day was drawn enter later totals in part, and no earlier value
/// changes.
#[tokio::test(flavor = "multi_thread")]
async fn late_rows_enter_later_totals_in_part() {
    let veil = web(TOTALS, true).await;
    let analyst = session("analyst");
    let before = veil.rows_as(&analyst, &of_days(1, 11)).await.unwrap();
    let paid = spent(&veil.engine, "analyst").await;
    // People who were not there before.
    let late = "INSERT INTO web.people SELECT g, 'a' FROM generate_series(1001, 2000) AS g; INSERT \
        INTO web.visits (person, seen, fee) SELECT g, '2024-03-04 12:00+00', 5 FROM \
        generate_series(1001, 2000) AS g";
    veil.client.batch_execute(late).await.unwrap();
    let another = veil.proxy(&veil.ledger).await;
    let after = rows_of(&another, &analyst, &of_days(1, 31)).await.unwrap();
    assert_eq!(after[..10], before[..]);
    assert_eq!(spent(&another, "analyst").await, paid);
    // Without them the later days have few visits. All of them would be a thousand.
    let count = |row: &String| -> f64 { row.split_once('|').unwrap().1.parse().unwrap() };
    let mut late = 0.0;
    let direct = veil.direct(&first_days(1, 3, (1, 31))).await;
    let visits = |row: &String| {
        let day = row.split_once('|').unwrap().0;
        let found = direct.iter().find(|other| other.starts_with(day));
        found.map_or(0.0, count)
    };
    for (at, row) in after.iter().enumerate().skip(10) {
        let own = count(row) - visits(row);
        late += own;
        assert!(own > -1.0, "{row}");
        // f_0 f_7 of a thousand on the first day after, and ever more, never all.
        let range = if at == 10 { 200.0..215.0 } else { 215.0..900.0 };
        assert!(range.contains(&late), "{row}: {late}");
    }
}

/// The interval of a total counts what its days share. A sum of 60 squares of standard normal
/// values is between 26 and 112 but once in 10,000 times. With the errors of days added up as if
/// they shared nothing, it would be below 10. The same noise in each run, so that no run is an
/// unlucky one.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_totals_are_those_of_the_noise() {
    let veil = web_with(TOTALS, Some(streams())).await;
    let sql = "SELECT seen::date, count(*), sum(count(*)) OVER (ORDER BY seen::date), \
        pgveil.stderr(count(*)), pgveil.stderr(sum(count(*)) OVER (ORDER BY seen::date)), \
        pgveil.ci_low(sum(count(*)) OVER (ORDER BY seen::date)), \
        pgveil.ci_high(sum(count(*)) OVER (ORDER BY seen::date)) FROM web.visits WHERE seen >= \
        '2024-03-01' AND seen < '2024-04-10' GROUP BY 1 ORDER BY 1";
    let exact = "SELECT seen::date, count(*), sum(count(*)) OVER (ORDER BY seen::date) FROM \
        web.visits WHERE seen >= '2024-03-01' AND seen < '2024-04-10' GROUP BY 1 ORDER BY 1";
    let exact = veil.direct(&counted(exact)).await;
    let number = |row: &str, at: usize| -> f64 { row.split('|').nth(at).unwrap().parse().unwrap() };
    let total = number(exact.last().unwrap(), 2);
    let (mut of_totals, mut of_days, mut covered) = (0.0, 0.0, 0);
    for at in 0..60 {
        let analyst = noisy("analyst", 50.0 + f64::from(at));
        let answer = veil.rows_as(&analyst, sql).await.unwrap();
        let last = answer.last().unwrap();
        assert_eq!(answer.len(), 40);
        of_totals += ((number(last, 2) - total) / number(last, 4)).powi(2);
        // Nobody is there for the first time so late.
        of_days += (number(last, 1) / number(last, 3)).powi(2);
        covered += usize::from((number(last, 5)..=number(last, 6)).contains(&total));
        let ratio = number(last, 4) / number(last, 3);
        // The length of f over that of the series of its inverse, after 40 days.
        assert!((1.31..1.35).contains(&ratio), "{last}");
    }
    assert!((26.0..112.0).contains(&of_totals), "{of_totals}");
    assert!((26.0..112.0).contains(&of_days), "{of_days}");
    // Fewer are covered once in 10,000 times.
    assert!(covered >= 48, "{covered}");
}

/// What has no known error has none, or is refused with the form that has one.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_other_totals_are_null_or_refused() {
    let veil = web(", per_unit: 3, horizon: 60, append_only: true", false).await;
    let analyst = noisy("analyst", 60.0);
    let of = |rest: &str| {
        format!(
            "SELECT seen::date, pgveil.stderr(sum(count(*)) OVER (ORDER BY seen::date)) FROM \
                web.visits WHERE seen >= '2024-03-01' AND seen < '2024-03-04' GROUP BY 1{rest}"
        )
    };
    let answer = veil.rows_as(&analyst, &of(" ORDER BY 1")).await.unwrap();
    assert_eq!(answer, ["2024-03-01|∅", "2024-03-02|∅", "2024-03-03|∅"]);
    let refused = veil.rows_as(&analyst, &of(" HAVING count(*) > 3")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.report().sqlstate, "0A000", "{refused}");
    let downwards = of("").replace("seen::date))", "seen::date DESC))");
    let refused = veil.rows_as(&analyst, &downwards).await.unwrap_err();
    assert!(
        refused.to_string().contains("the error of a running total"),
        "{refused}"
    );
    let part = of("").replace("pgveil.stderr(sum", "pgveil.stderr(2 * sum");
    assert!(veil.rows_as(&analyst, &part).await.is_err());
}

/// After a draw that failed, rows begin anew: its days are lost, and later ones are not.
#[tokio::test(flavor = "multi_thread")]
async fn days_after_a_lost_draw_are_drawn() {
    let veil = web(TOTALS, true).await;
    let analyst = session("analyst");
    rows(&veil, &analyst, &of_days(1, 4)).await;
    let many = "INSERT INTO web.people SELECT g, 'b' FROM generate_series(101, 200) AS g; INSERT \
        INTO web.visits (person, seen, fee) SELECT 101 + n % 100, '2024-03-05 12:00+00', 1 FROM \
        generate_series(1, 100000) AS n";
    veil.client.batch_execute(many).await.unwrap();
    let hurried = veil.proxy_with(&veil.ledger, |yaml| {
        yaml.replace("limits: {", "limits: {statement_timeout: 3ms, ")
    });
    let hurried = hurried.await;
    assert!(rows_of(&hurried, &analyst, &of_days(1, 7)).await.is_err());
    let shown = rows(&veil, &analyst, &of_days(1, 11)).await;
    let direct = veil.direct(&first_days(1, 3, (1, 11))).await;
    let is_left = |row: &String| !("2024-03-04".."2024-03-07").contains(&&row[..10]);
    let wanted: Vec<String> = direct.into_iter().filter(is_left).collect();
    assert_eq!(shown, wanted);
    // And once more, with an error for each total.
    let sql = "SELECT seen::date, count(*), pgveil.stderr(sum(count(*)) OVER (ORDER BY \
        seen::date)) > 0 FROM web.visits WHERE seen >= '2024-03-01' AND seen < '2024-03-21' GROUP \
        BY 1 ORDER BY 1";
    let answer = veil.rows_as(&analyst, sql).await.unwrap();
    assert_eq!(answer.len(), 17);
    assert!(answer.iter().all(|row| row.ends_with("|t")), "{answer:#?}");
}

async fn lines(veil: &Veil, sql: &str) -> String {
    let lines = explained_to(veil, &session("analyst"), sql).await;
    let of_totals = lines.into_iter().filter(|line| line.contains("totals"));
    of_totals.collect::<Vec<_>>().join("\n")
}

/// EXPLAIN says which way has less noise, and which is taken.
#[tokio::test(flavor = "multi_thread")]
async fn explain_says_how_totals_are_drawn() {
    let veil = web(TOTALS, true).await;
    assert_eq!(
        lines(&veil, &of_days(1, 4)).await,
        "By periods of web.visits: drawn for running totals, by the square root: a total has 5.92 \
            times the noise of one day at this price, and 9.57 times as a sum of days; a single \
            day has 4.65 times, in place of 1.73"
    );
    for sql in [
        of_days(1, 4).replace("count(*)", "avg(fee)"),
        of_days(1, 4).replacen("seen::date", "date_trunc('hour', seen)", 1),
    ] {
        let of_question = "running totals of this question are sums of days";
        assert!(lines(&veil, &sql).await.contains(of_question), "{sql}");
    }
    let many = ", per_unit: 40, horizon: 60, rows: 2, append_only: true, answers: totals";
    let veil = web(many, true).await;
    let said = lines(&veil, &of_days(1, 4)).await;
    assert!(said.contains("which have less noise"), "{said}");
    let answer = rows(&veil, &session("analyst"), &of_days(1, 11)).await;
    assert_eq!(answer, veil.direct(&of_days(1, 11)).await);
}

/// Names and types of a stranger's schema.
const CLINIC: &str = "
CREATE SCHEMA \"Clinic East\";
CREATE TYPE \"Clinic East\".ward AS ENUM ('north', 'south');
CREATE TABLE \"Clinic East\".\"Patients\" (\"Id\" uuid PRIMARY KEY);
CREATE TABLE \"Clinic East\".\"Visits\" (\"Patient\" uuid NOT NULL REFERENCES \
\"Clinic East\".\"Patients\", \"Ward\" \"Clinic East\".ward NOT NULL, \"Day\" date, \"Minutes\" \
numeric(6, 1));
INSERT INTO \"Clinic East\".\"Patients\" SELECT md5(g::text)::uuid FROM generate_series(1, 40) AS g;
INSERT INTO \"Clinic East\".\"Visits\" SELECT md5(p::text)::uuid, (ARRAY['north', \
'south'])[1 + (p + d) % 2]::\"Clinic East\".ward, date '2024-01-01' + d, (p * d) % 50 FROM \
generate_series(1, 40) AS p, generate_series(0, 139) AS d WHERE d % (7 * p) = 0;";

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_totals_by_week_and_ward() {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(CLINIC).await.unwrap();
    };
    let yaml = "\
version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${LEDGER_URL}\"}
privacy: {unit: patient, budget: {epsilon: 100000000, delta: 1e-3}, per_query: {epsilon: 5000, \
        max_epsilon: 9000}}
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000000, delta: 1e-4}}
tables:
  Clinic East.Patients: {unit: Id, columns: {}}
  Clinic East.Visits:
    unit: {path: [Patient -> Clinic East.Patients.Id]}
    periods: {column: Day, by: week, from: 2024-01-01, close_after: 2d, per_unit: 2,
      horizon: 20, rows: 5, append_only: true, answers: totals}
    columns: {Ward: {values: [north, south]}, Day: visible, Minutes: {bounds: [0, 50]}}
";
    let veil = Veil::over(fill, yaml, Veil::silent()).await;
    let requester = pgveil::engine::Requester {
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    };
    let sql = "SELECT date_trunc('week', \"Day\")::date AS w, \"Ward\", count(*), \
        sum(\"Minutes\"), \
        sum(count(*)) OVER (PARTITION BY \"Ward\" ORDER BY date_trunc('week', \"Day\")::date) FROM \
        \"Clinic East\".\"Visits\" WHERE \"Day\" >= '2024-01-01' AND \"Day\" < '2024-04-29' GROUP \
        BY 1, 2 ORDER BY 1, 2";
    let first = sql.replacen(
        "FROM \"Clinic East\".\"Visits\" WHERE",
        "FROM (SELECT *, dense_rank() OVER (PARTITION BY \"Patient\" ORDER BY date_trunc('week', \
            \"Day\")) AS place FROM \"Clinic East\".\"Visits\") AS v WHERE place <= 2 AND",
        1,
    );
    let answer = veil.rows_as(&requester, sql).await.unwrap();
    assert_eq!(answer.len(), 34);
    let some = answer.into_iter().filter(|row| !row.contains("|0|0"));
    assert_eq!(
        some.collect::<Vec<_>>(),
        not_zero(veil.direct(&first).await)
    );
}
