//! Attacks that have broken systems of this kind, as they were published, each where no other test
//! has its place.

use std::collections::BTreeSet;

use pgveil::engine::Requester;
use pgveil::policy::{Reuse, SessionSettings};

use super::{ours, rich, theirs};
use crate::fixture::Veil;

/// Buys a fresh answer each time.
fn fresh(epsilon: f64) -> Requester {
    Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Off,
            ..Veil::session_settings(epsilon)
        },
        ..Veil::requester()
    }
}

/// A branch that is slow for one row (Haeberlen, Pierce and Narayan 2011): a slow computation runs
/// before the rows are read, for everybody alike, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn no_arm_is_slow_for_one_row() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for sql in [
        "SELECT count(*) FROM nls.women WHERE CASE WHEN woman_id = 42 THEN (SELECT count(*) FROM \
            generate_series(1, 100000000)) > 0 ELSE true END",
        "SELECT count(*) FROM nls.women w JOIN generate_series(1, 100000000) g ON w.woman_id = 42",
        "SELECT count(*) FROM nls.women WHERE woman_id <> 42 OR repeat(race, 100000000) ~ \
            '(x+x+)+y'",
        "SELECT count(*) FROM nls.women WHERE woman_id <> 42 OR pg_sleep(1) IS NULL",
        "SELECT count(*) FROM nls.women WHERE woman_id <> 42 OR factorial(birth_year * 10) > 0",
    ] {
        let statements = pgveil::parse::parse(sql).unwrap();
        let [pgveil::parse::Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}")
        };
        if let Ok((plan, _)) = veil.engine.plan(&Veil::requester(), query).await {
            let story = pgveil::engine::describe_plan(&plan, 1e-7, pgveil::engine::Sql::Shown);
            let emitted: Vec<&String> = story
                .iter()
                .filter(|line| line.trim_start().starts_with("SQL:"))
                .collect();
            assert!(!emitted.is_empty(), "{sql}");
            assert!(
                emitted
                    .iter()
                    .all(|line| !line.contains("generate_series(1, 100000000)")
                        && !line.contains("factorial")),
                "{sql}: {emitted:?}"
            );
        }
    }
}

/// No row matches, and the answer is noise all the same: no NULL, no certain zero.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_selection_is_noise() {
    let veil = Veil::demo(rich, None).await;
    let nobody = "SELECT count(*), count(birth_year), sum(years_of_school), avg(years_of_school) \
        FROM nls.women WHERE woman_id < 0 AND race = 'other'";
    assert_eq!(theirs(&veil, nobody).await.unwrap(), ["0|0|∅|∅"]);
    let mut seen = [const { BTreeSet::new() }; 3];
    for _ in 0..40 {
        let rows = veil.rows_as(&fresh(0.5), nobody).await.unwrap();
        let values: Vec<&str> = rows[0].split('|').collect();
        for (seen, value) in seen.iter_mut().zip(&values) {
            seen.insert((*value).to_owned());
        }
        assert_ne!(values[2], "∅", "a sum over nobody is not NULL");
    }
    // A count is shown as 0 in just over half of the draws: all forty in one of 10^10 runs.
    assert!(seen.iter().all(|values| values.len() > 1), "{seen:?}");
}

/// An average is a ratio of two noisy numbers: near an empty group it is a number within the
/// bounds, or NULL, and never an error.
#[tokio::test(flavor = "multi_thread")]
async fn averages_of_nearly_nobody_stay_within_their_bounds() {
    let veil = Veil::demo(rich, None).await;
    for _ in 0..10 {
        let rows = veil
            .rows_as(
                &fresh(0.01),
                "SELECT race, avg(years_of_school), stddev(years_of_school) \
                FROM \
                nls.women WHERE birth_year > 1953 GROUP BY race",
            )
            .await
            .unwrap();
        assert_eq!(rows.len(), 3);
        for row in rows {
            let average = row.split('|').nth(1).unwrap();
            assert!(
                average == "∅" || (0.0..=20.0).contains(&average.parse::<f64>().unwrap()),
                "{row}"
            );
            assert!(!row.contains("NaN") && !row.contains("Infinity"), "{row}");
        }
    }
}

/// Many questions that differ by one person (Dinur and Nissim 2003; Cohen and Nissim 2020 on
/// Diffix): the budget ends them. One meaning in many spellings is one question or several paid
/// ones, never several free ones.
#[tokio::test(flavor = "multi_thread")]
async fn reconstruction_ends_with_the_budget() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let spellings = [
        "birth_year = 1950",
        "1950 = birth_year",
        "birth_year + 0 = 1950",
        "birth_year BETWEEN 1950 AND 1950",
        "NOT birth_year <> 1950",
    ];
    let mut known = BTreeSet::new();
    for spelling in spellings {
        let before = veil.spent().await;
        let answer = veil
            .rows_as(
                &Veil::requester(),
                &format!("SELECT count(*) FROM nls.women WHERE {spelling}"),
            )
            .await
            .unwrap()
            .remove(0);
        assert!(
            veil.spent().await > before || known.contains(&answer),
            "{spelling} was free and revealed something new"
        );
        known.insert(answer);
    }
    let mut answered = 0;
    for multiplier in 2..1000 {
        let sql = format!(
            "SELECT count(*) FROM nls.women WHERE floor(5 * power(woman_id * {multiplier}, 0.5)) = \
                floor(5 * power(woman_id * {multiplier}, 0.5) + 0.5)"
        );
        match veil.rows_as(&Veil::requester(), &sql).await {
            Ok(_) => answered += 1,
            Err(error) => {
                assert_eq!(error.report().sqlstate, "53400", "{:?}", error.report());
                break;
            }
        }
    }
    assert!(answered < 100, "{answered} counts were answered");
    let balances = veil.engine.ledger().balances("analyst").await.unwrap();
    assert!(
        balances.role.spent.mu_squared.to_f64()
            <= veil.engine.policy().roles[0].budget.epsilon.powi(2)
    );
}

/// Without ORDER BY the rows follow the declared keys, not the order in which PostgreSQL read the
/// rows.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_rows_is_that_of_the_keys() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for shuffle in [
        "",
        "CREATE TABLE x AS SELECT * FROM nls.women ORDER BY md5(woman_id::text); SET \
            session_replication_role = replica; \
        DELETE FROM nls.women; INSERT INTO nls.women SELECT * FROM x; SET session_replication_role \
        = DEFAULT; DROP TABLE x",
    ] {
        veil.client.batch_execute(shuffle).await.unwrap();
        let rows = veil
            .rows_as(&fresh(0.5), "SELECT race FROM nls.women GROUP BY race")
            .await
            .unwrap();
        assert_eq!(rows, ["white", "black", "other"]);
        let first = veil
            .rows_as(
                &fresh(0.5),
                "SELECT birth_year, count(*) FROM nls.women GROUP BY birth_year LIMIT 1",
            )
            .await
            .unwrap();
        let whole = veil
            .rows_as(
                &fresh(0.5),
                "SELECT birth_year, count(*) FROM nls.women GROUP BY birth_year",
            )
            .await
            .unwrap();
        assert_eq!(first[0], whole[0]);
        assert!(whole.is_sorted(), "{whole:?}");
    }
}

/// Two releases of one statement see the same rows while others write.
#[tokio::test(flavor = "multi_thread")]
async fn releases_of_a_statement_share_a_snapshot() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let (writer, connection) = veil
        .server
        .config()
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let stop = tokio_util::sync::CancellationToken::new();
    let writing = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut id = 1_000_000;
            while !stop.is_cancelled() {
                id += 1;
                let insert = format!(
                    "INSERT INTO nls.women SELECT {id}, birth_year, race, years_of_school, \
                        college_graduate FROM nls.women LIMIT 1"
                );
                writer.batch_execute(&insert).await.unwrap();
            }
        }
    });
    let twice = "SELECT (SELECT count(*) FROM nls.women), (SELECT count(*) FROM nls.women WHERE \
        woman_id > 0)";
    let mut totals = BTreeSet::new();
    for _ in 0..40 {
        let row = veil.rows_as(&fresh(0.5), twice).await.unwrap().remove(0);
        let (left, right) = row.split_once('|').unwrap();
        assert_eq!(left, right);
        totals.insert(row);
    }
    stop.cancel();
    writing.await.unwrap();
    assert!(totals.len() > 1, "nobody wrote meanwhile");
}

const CLASHING: &str = "version: 1\ndatabase: {url: '${DATABASE_URL}'}\nledger: \
    {url: '${LEDGER_URL}'}\n\
    privacy:\n  unit: person\n  budget: {epsilon: 100000, delta: 1e-3}\n  per_query: \
    {epsilon: 1, max_epsilon: 1}\n\
    roles:\n  - {name: analyst, password: VERIFIER, budget: {epsilon: 90000, delta: 1e-4}}\n\
    tables:\n  public.t:\n    unit: unit\n    rows_per_unit: 3\n    columns:\n      a0: \
    {bounds: [0, 5]}\n      k0: {values: [x, y]}\n      pgveil_0: {bounds: [0, 9]}\n      \
    count: {bounds: [0, 7]}\n";

/// Names that the proxy makes up itself are columns here; and a clamp that leaves one value only.
#[tokio::test(flavor = "multi_thread")]
async fn made_up_names_meet_no_column_and_one_value_costs_like_many() {
    let verifier = std::fs::read_to_string("policies/demo.yaml")
        .unwrap()
        .split("password: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    let fill = async |client: &tokio_postgres::Client| {
        let table = "CREATE TABLE t (unit int NOT NULL, a0 int, k0 text NOT NULL, pgveil_0 int, \
            count int, PRIMARY KEY (unit, a0)); \
            INSERT INTO t SELECT n / 3, n % 3, CASE WHEN n % 2 = 0 THEN 'x' ELSE 'y' END, n % 10, \
            n \
            % 8 FROM generate_series(0, 299) n";
        client.batch_execute(table).await.unwrap();
    };
    let veil = Veil::over(
        fill,
        &CLASHING.replace("VERIFIER", &verifier),
        Veil::silent(),
    )
    .await;
    for sql in [
        "SELECT k0, count(*), sum(a0), sum(pgveil_0), sum(count) FROM t GROUP BY k0",
        "SELECT k0 AS a0, sum(a0) AS k0 FROM t a0_0 GROUP BY a0_0.k0",
        "SELECT count(*), sum(LEAST(GREATEST(a0, 3), 3)) FROM t WHERE a0 IS NOT NULL",
        "WITH k0 AS (SELECT unit, sum(a0) AS unit_0 FROM t GROUP BY unit) SELECT sum(unit_0) FROM \
            k0 WHERE unit_0 BETWEEN 0 AND 15",
    ] {
        assert_eq!(ours(&veil, sql).await, theirs(&veil, sql).await, "{sql}");
    }
    let before = veil.spent().await;
    ours(
        &veil,
        "SELECT sum(LEAST(GREATEST(a0, 3), 3)) FROM t WHERE a0 > 0",
    )
    .await
    .unwrap();
    assert!(veil.spent().await > before, "a question is a question");
}

/// A statement costs what it asked for, however many releases it has: in a peer each CTE had the
/// whole epsilon.
#[tokio::test(flavor = "multi_thread")]
async fn several_releases_share_one_price() {
    let veil = Veil::demo(rich, None).await;
    let charge = async |sql: &str| {
        let before = veil.spent().await;
        veil.rows_as(&fresh(1.0), sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {:?}", error.report()));
        veil.spent().await - before
    };
    let one = charge("SELECT avg(years_of_school), sum(birth_year), count(*) FROM nls.women").await;
    assert!(one > 0.0);
    let average =
        "SELECT avg(hourly_wage) AS w, sum(hours_per_week) AS h, count(*) AS n FROM nls.interviews";
    for sql in [
        format!(
            "WITH a AS ({average}), b AS (SELECT avg(years_of_school) AS s, count(*) AS n FROM \
            nls.women) SELECT a.w, b.s, a.n, b.n FROM a, b"
        ),
        format!(
            "WITH a AS ({average}), b AS ({average} WHERE year = 1988), c AS ({average} WHERE \
                south \
                = 1) SELECT a.w, b.w, c.w, a.h + b.h + c.h FROM a, b, c"
        ),
        "SELECT (SELECT avg(hourly_wage) FROM nls.interviews), (SELECT avg(years_of_school) FROM \
            nls.women), avg(birth_year) FROM nls.women"
            .to_owned(),
        "SELECT avg(birth_year), sum(birth_year) FROM nls.women UNION ALL SELECT avg(age), \
            sum(age) \
            FROM nls.interviews"
            .to_owned(),
        "SELECT count(*), avg(hourly_wage) FROM nls.interviews WHERE hourly_wage > (SELECT \
            avg(hourly_wage) FROM nls.interviews)"
            .to_owned(),
        "SELECT race, avg(birth_year), avg(years_of_school) FROM nls.women GROUP BY ROLLUP (race)"
            .to_owned(),
    ] {
        let paid = charge(&sql).await;
        assert!(
            paid > 0.0 && paid <= one * 1.0001,
            "{sql}: {paid} and not {one}"
        );
    }
}
