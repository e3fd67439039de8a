//! A coarser question from a finer answer: sums of paid groups, with their own error, and only
//! where they equal the answer that would be bought.

use std::sync::Arc;

use pgveil::engine::Requester;
use pgveil::policy::{Notices, Reuse, SessionSettings, TargetError};

use super::outer_query::rich;
use crate::fixture::{Veil, rows_of, streams};
use crate::ledger::reuse::with_colleague;
use crate::privacy::neighbour::random::{Random, seeds};

const FINER: &str =
    "SELECT race, college_graduate, count(*), avg(years_of_school) FROM nls.women GROUP BY 1, 2";

fn exact() -> Requester {
    Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Exact,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    }
}

/// Each question is answered without a charge, with the rows that a bought answer has.
async fn sums_what_is_paid(veil: &Veil, questions: &[&str]) {
    for sql in questions {
        let spent = veil.spent().await;
        let summed = veil
            .rows_as(&Veil::requester(), sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        assert_eq!(veil.spent().await, spent, "{sql} was bought");
        assert_eq!(
            summed,
            veil.rows_as(&Veil::fresh(), sql).await.unwrap(),
            "{sql}"
        );
        assert!(veil.spent().await > spent, "{sql} has a price");
    }
}

/// The questions are bought, though finer answers are there.
async fn buys(veil: &Veil, requester: &Requester, questions: &[&str]) {
    for sql in questions {
        let spent = veil.spent().await;
        veil.rows_as(requester, sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        assert!(veil.spent().await > spent, "{sql} was not bought");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn coarser_groups_are_sums_of_finer_ones() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    veil.rows_as(&Veil::requester(), FINER).await.unwrap();
    sums_what_is_paid(
        &veil,
        &[
            "SELECT race, count(*) FROM nls.women GROUP BY race",
            "SELECT college_graduate = 1, sum(years_of_school), avg(years_of_school) FROM \
                nls.women \
                GROUP BY 1",
            "SELECT count(*) FROM nls.women",
            "SELECT count(years_of_school), count(*) FROM nls.women",
            "SELECT count(*) FROM nls.women WHERE race = 'black'",
            "SELECT college_graduate, count(*) FROM nls.women WHERE race IN ('black', 'white') \
                GROUP BY 1",
            "SELECT avg(years_of_school) FROM nls.women WHERE college_graduate = 1 AND race <> \
                'other'",
            "SELECT CASE WHEN race = 'white' THEN 'a' ELSE 'b' END, count(*) FROM nls.women GROUP \
                BY 1",
            "SELECT race, grouping(race), count(*) FROM nls.women GROUP BY ROLLUP (race)",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_many_a_unit_add_up() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let finer = "SELECT year, married, south, count(*), avg(hours_per_week), \
        variance(weeks_unemployed), corr(age, weeks_unemployed), count(*) FILTER (WHERE \
        union_member = 1)
                 FROM nls.interviews GROUP BY 1, 2, 3";
    veil.rows_as(&Veil::requester(), finer).await.unwrap();
    sums_what_is_paid(
        &veil,
        &[
            "SELECT married, south, count(*) FROM nls.interviews GROUP BY 1, 2",
            "SELECT year, avg(hours_per_week), stddev_pop(weeks_unemployed), corr(age, \
                weeks_unemployed), count(*) FROM nls.interviews GROUP BY 1",
            "SELECT count(*) FILTER (WHERE union_member = 1), sum(hours_per_week), \
                count(hours_per_week) FROM nls.interviews WHERE south = 1 AND year > 1969",
            "SELECT year / 10, count(*) FROM nls.interviews WHERE year > 1970 AND married = 0 \
                GROUP \
                BY 1",
            "SELECT count(*), covar_pop(age, weeks_unemployed) FROM nls.interviews WHERE married \
                IS \
                NULL",
            "SELECT married, south, grouping(married, south), count(*) FROM nls.interviews GROUP \
                BY \
                ROLLUP (married, south)",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_serve_by_their_fittest_set() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let finer = "SELECT race, birth_year, count(*), avg(years_of_school) FROM nls.women GROUP BY \
        GROUPING SETS ((race, birth_year), (race), ())";
    veil.rows_as(&Veil::requester(), finer).await.unwrap();
    let sql = "SELECT race, count(*) FROM nls.women GROUP BY race";
    let lines = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN {sql}"),
        )
        .await;
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("Reuse: answered by groups of a finer answer")),
        "{lines:#?}"
    );
    let whole = "SELECT race, birth_year, count(*) FROM nls.women GROUP BY 1, 2";
    sums_what_is_paid(
        &veil,
        &[
            sql,
            whole,
            "SELECT count(*) FROM nls.women WHERE birth_year < 1945",
            "SELECT avg(years_of_school) FROM nls.women",
        ],
    )
    .await;
}

/// Questions that are not exactly sums of held answers.
#[tokio::test(flavor = "multi_thread")]
async fn other_questions_are_bought() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    veil.rows_as(&Veil::requester(), FINER).await.unwrap();
    let narrow = "SELECT race, count(*) FROM nls.women WHERE birth_year > 1945 GROUP BY race";
    let questions = [
        // Other rows, other values, other columns.
        "SELECT race, count(*) FROM nls.women WHERE birth_year > 1944 GROUP BY race",
        narrow,
        "SELECT race, count(*) FILTER (WHERE birth_year > 1944) FROM nls.women GROUP BY race",
        "SELECT race, sum(birth_year) FROM nls.women GROUP BY race",
        "SELECT race, avg(years_of_school + 1) FROM nls.women GROUP BY race",
        "SELECT race, avg(years_of_school) FROM nls.women WHERE years_of_school > 4 GROUP BY race",
        "SELECT birth_year, count(*) FROM nls.women GROUP BY birth_year",
        "SELECT race, count(*) FROM nls.women JOIN nls.interviews USING (woman_id) GROUP BY race",
        "SELECT race, count(*) FROM (SELECT race FROM nls.women WHERE birth_year > 1946) AS w \
            GROUP \
            BY race",
        // The order of texts is the database's own.
        "SELECT race, college_graduate, count(*) FROM nls.women WHERE race < 'x' GROUP BY 1, 2",
        // No sums.
        "SELECT race, max(years_of_school) FROM nls.women GROUP BY race",
        "SELECT race, count(DISTINCT birth_year) FROM nls.women GROUP BY race",
        "SELECT race, count(DISTINCT birth_year), count(*) FROM nls.women GROUP BY race",
        "SELECT race, bool_and(years_of_school > 3) FROM nls.women GROUP BY race",
    ];
    buys(&veil, &Veil::requester(), &questions).await;
    veil.rows_as(
        &Veil::requester(),
        "SELECT married, south, metro, count(*) FROM nls.interviews GROUP BY 1, 2, 3",
    )
    .await
    .unwrap();
    for (session_settings, sql) in [
        (
            SessionSettings {
                reuse: Reuse::Exact,
                ..SessionSettings::with_fixed_clips()
            },
            "SELECT married, count(*) FROM nls.interviews GROUP BY 1",
        ),
        (
            SessionSettings {
                reuse: Reuse::Off,
                ..SessionSettings::with_fixed_clips()
            },
            "SELECT married, count(*) FROM nls.interviews GROUP BY 1",
        ),
        (
            SessionSettings {
                rows_per_unit: Some(3),
                ..SessionSettings::with_fixed_clips()
            },
            "SELECT south, count(*) FROM nls.interviews GROUP BY 1",
        ),
        (
            SessionSettings {
                groups_per_unit: Some(2),
                ..SessionSettings::with_fixed_clips()
            },
            "SELECT metro, count(*) FROM nls.interviews GROUP BY 1",
        ),
    ] {
        buys(
            &veil,
            &Requester {
                session_settings,
                ..Veil::requester()
            },
            &[sql],
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_released_by_threshold_is_never_summed() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let session_settings = SessionSettings {
        keys: pgveil::policy::KeyChoice::Threshold,
        ..SessionSettings::with_fixed_clips()
    };
    veil.rows_as(
        &Requester {
            session_settings,
            ..Veil::requester()
        },
        FINER,
    )
    .await
    .unwrap();
    buys(
        &veil,
        &Veil::requester(),
        &[
            "SELECT count(*) FROM nls.women",
            "SELECT race, count(*) FROM nls.women GROUP BY race",
        ],
    )
    .await;
    veil.rows_as(
        &Veil::requester(),
        "SELECT tenure_years, married, count(*) FROM nls.interviews GROUP \
        BY GROUPING SETS ((tenure_years), (married))",
    )
    .await
    .unwrap();
    buys(
        &veil,
        &Veil::requester(),
        &["SELECT married, count(*) FROM nls.interviews GROUP BY married"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_epsilon_or_less_error_is_bought() {
    let veil = Veil::demo(rich, None).await;
    let at = |epsilon: f64| Requester {
        session_settings: Veil::session_settings(epsilon),
        ..Veil::requester()
    };
    veil.rows_as(&at(0.3), FINER).await.unwrap();
    let spent = veil.spent().await;
    veil.rows_as(
        &at(0.2),
        "SELECT race, count(*) FROM nls.women GROUP BY race",
    )
    .await
    .unwrap();
    assert_eq!(veil.spent().await, spent);
    buys(
        &veil,
        &at(0.4),
        &["SELECT race, count(*) FROM nls.women GROUP BY race"],
    )
    .await;
    // A wanted error is met by sums whose error is that small.
    let wanting = |error: f64| Requester {
        session_settings: SessionSettings {
            target_error: Some(TargetError::Absolute(error).into()),
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let sql = "SELECT college_graduate, count(*) FROM nls.women GROUP BY 1";
    let spent = veil.spent().await;
    veil.rows_as(&wanting(500.0), sql).await.unwrap();
    assert_eq!(veil.spent().await, spent);
    buys(&veil, &wanting(9.0), &[sql]).await;
    // Enough groups that their sum is far worse than a bought answer.
    veil.rows_as(
        &Veil::requester(),
        "SELECT birth_year, years_of_school, count(*) FROM nls.women GROUP BY 1, 2",
    )
    .await
    .unwrap();
    buys(
        &veil,
        &Veil::requester(),
        &["SELECT count(*) FROM nls.women"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_other_roles_versions_and_ledgers_are_not_summed() {
    let veil = Veil::demo(|y| with_colleague(rich(y)), Veil::silent()).await;
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    veil.rows_as(&Veil::requester(), FINER).await.unwrap();
    let spent = async || {
        veil.engine
            .ledger()
            .balance("colleague")
            .await
            .unwrap()
            .spent
            .mu_squared
            .to_f64()
    };
    let sql = "SELECT race, count(*) FROM nls.women GROUP BY race";
    veil.rows_as(&colleague, sql).await.unwrap();
    let paid = spent().await;
    assert!(
        paid > 0.0,
        "another role's answers are not this one's to sum"
    );
    // Once it has paid for the finer answer itself, it may.
    veil.rows_as(&colleague, FINER).await.unwrap();
    let paid_for_both = spent().await;
    assert!(paid_for_both > paid);
    let total = "SELECT count(*) FROM nls.women";
    let summed = veil.rows_as(&colleague, total).await.unwrap();
    assert_eq!(spent().await, paid_for_both);
    // A new process on the same ledger sums too; under another data version there is nothing to
    // sum.
    let again = veil.proxy(&veil.ledger).await;
    assert_eq!(rows_of(&again, &colleague, total).await.unwrap(), summed);
    assert_eq!(spent().await, paid_for_both);
    let renewed = veil
        .proxy_with(&veil.ledger, |yaml| {
            yaml.replace("data_version: \"1988\"", "data_version: \"1989\"")
        })
        .await;
    rows_of(&renewed, &colleague, total).await.unwrap();
    assert!(spent().await > paid_for_both);
}

/// First askers of the finer and of coarser questions at once, at two proxies: every answer is
/// consistent, and nobody pays for one question twice.
#[tokio::test(flavor = "multi_thread")]
async fn finer_and_coarser_askers_at_once() {
    let veil = Veil::demo(rich, None).await;
    for ledger in [veil.ledger.clone(), crate::ledger::stage::database().await] {
        let proxies = [veil.proxy(&ledger).await, veil.proxy(&ledger).await];
        let questions = [
            FINER,
            "SELECT race, count(*) FROM nls.women GROUP BY race",
            "SELECT count(*) FROM nls.women",
        ];
        let sessions: Vec<_> = (0..18)
            .map(|session| {
                let proxy = Arc::clone(&proxies[session % 2]);
                tokio::spawn(async move {
                    rows_of(&proxy, &Veil::requester(), questions[session % 3])
                        .await
                        .unwrap()
                })
            })
            .collect();
        for session in sessions {
            session.await.unwrap();
        }
        let debits = proxies[0]
            .ledger()
            .history("analyst", 100)
            .await
            .unwrap()
            .len();
        assert!((1..=3).contains(&debits), "{debits}");
        assert_eq!(
            proxies[0].ledger().balance_owner().await.unwrap().spent,
            proxies[0].ledger().balance("analyst").await.unwrap().spent
        );
        for sql in questions {
            assert_eq!(
                rows_of(&proxies[0], &Veil::requester(), sql).await.unwrap(),
                rows_of(&proxies[1], &Veil::requester(), sql).await.unwrap(),
                "{sql}"
            );
        }
        assert_eq!(
            proxies[0]
                .ledger()
                .history("analyst", 100)
                .await
                .unwrap()
                .len(),
            debits
        );
    }
}

/// Over many finer answers, a sum's distance from the truth matches its standard error.
#[tokio::test(flavor = "multi_thread")]
async fn sums_are_as_far_off_as_they_say() {
    // The same noise in each run, so that no run is an unlucky one.
    let veil = Veil::demo(rich, Some(streams())).await;
    let truth: f64 = veil
        .direct("SELECT count(*) FROM nls.women WHERE race <> 'other'")
        .await[0]
        .parse()
        .unwrap();
    let mean: f64 = veil
        .direct("SELECT avg(years_of_school) FROM nls.women")
        .await[0]
        .parse()
        .unwrap();
    let sql = "SELECT (SELECT count(*) FROM nls.women WHERE race <> 'other'), (SELECT \
        pgveil.stderr(count(*)) FROM nls.women WHERE race <> 'other'),
                      (SELECT avg(years_of_school) FROM nls.women), (SELECT \
                      pgveil.stderr(avg(years_of_school)) FROM nls.women)";
    let rounds = 150;
    let (mut squares, mut inside, mut errors) = ([0.0, 0.0], 0, Vec::new());
    for _ in 0..rounds {
        veil.rows_as(&Veil::fresh(), FINER).await.unwrap();
        let spent = veil.spent().await;
        let row = veil.rows_as(&Veil::requester(), sql).await.unwrap();
        assert_eq!(veil.spent().await, spent);
        let values: Vec<f64> = row[0].split('|').map(|v| v.parse().unwrap()).collect();
        squares[0] += ((values[0] - truth) / values[1]).powi(2);
        squares[1] += ((values[2] - mean) / values[3]).powi(2);
        inside += u32::from((values[0] - truth).abs() <= 1.96 * values[1]);
        errors.push(values[1]);
    }
    // A mean of 150 squares of a normal has standard error 0.115.
    for mean in squares.map(|sum| sum / f64::from(rounds)) {
        assert!((0.5..1.6).contains(&mean), "{squares:?}");
    }
    assert!(inside >= rounds * 85 / 100, "{inside} of {rounds}");
    // Four groups of two races, with the same noise each: twice one group's error.
    let one = "SELECT pgveil.stderr(count(*)) FROM nls.women WHERE race = 'white' AND \
        college_graduate = 1";
    let own: f64 = veil.rows_as(&Veil::requester(), one).await.unwrap()[0]
        .parse()
        .unwrap();
    assert!((errors[0] / own - 2.0).abs() < 2e-3, "{} {own}", errors[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_notices_tell_of_the_finer_answer() {
    let veil = Veil::demo(|y| y, None).await;
    let sql = "SELECT race, count(*) FROM nls.women GROUP BY race";
    let before = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN {sql}"),
        )
        .await;
    assert!(
        !before.iter().any(|line| line.starts_with("Reuse:")),
        "{before:#?}"
    );
    veil.rows_as(&Veil::requester(), FINER).await.unwrap();
    let lines = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN {sql}"),
        )
        .await;
    let reuse = lines
        .iter()
        .find(|line| line.starts_with("Reuse: "))
        .unwrap();
    assert!(
        reuse.contains("sums of up to 2 groups of a finer answer")
            && reuse.contains("aggregate 1: standard error"),
        "{reuse}"
    );
    assert!(
        reuse.contains(" if bought") && reuse.ends_with("SET pgveil.reuse = exact buys it"),
        "{reuse}"
    );
    assert!(
        lines.contains(&"Cost now: nothing".to_owned()),
        "{lines:#?}"
    );
    assert!(
        !veil
            .explained(exact().session_settings, &format!("EXPLAIN {sql}"))
            .await
            .iter()
            .any(|line| line.starts_with("Reuse:"))
    );
    let text = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN (FORMAT JSON) {sql}"),
        )
        .await
        .join("\n");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let reported = &document[0]["reuse"][0];
    assert_eq!(
        (&reported["release"], &reported["from"], &reported["groups"]),
        (&0.into(), &"finer".into(), &2.into())
    );
    let (own, bought) = (
        reported["aggregates"][0]["standard_deviation"]
            .as_f64()
            .unwrap(),
        reported["aggregates"][0]["bought"].as_f64().unwrap(),
    );
    assert!(
        own > bought && (own / bought - reported["error_ratio"].as_f64().unwrap()).abs() < 1e-9,
        "{reported}"
    );
    assert_eq!(document[0]["cost_now"]["mu_squared"], 0.0);
    assert!(document[0]["cost"]["mu_squared"].as_f64().unwrap() > 0.0);
    let heard = async |notices| {
        let requester = Requester {
            session_settings: SessionSettings {
                notices,
                ..SessionSettings::with_fixed_clips()
            },
            ..Veil::requester()
        };
        veil.ask_as(&requester, sql).await.unwrap().notices
    };
    assert!(heard(Notices::Off).await.is_empty());
    let cost = heard(Notices::Cost).await;
    assert!(
        cost[0].starts_with("privacy cost: nothing, a finer answer was released before"),
        "{cost:?}"
    );
    assert!(
        cost[1].starts_with("answered by sums of up to 2 groups"),
        "{cost:?}"
    );
    let full = heard(Notices::Full).await;
    let noise = full
        .iter()
        .find(|line| line.starts_with("noise of aggregate 1: standard deviation"))
        .unwrap();
    assert!(noise.contains(&format!("{own:.2}")), "{noise} {own}");
    // Bought, it is as before; and once bought, shown again.
    veil.rows_as(&exact(), sql).await.unwrap();
    let lines = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN {sql}"),
        )
        .await;
    assert!(
        lines.contains(&"Reuse: the same was released before, and is shown again".to_owned()),
        "{lines:#?}"
    );
}

const SHOP: &str = "
CREATE SCHEMA s; CREATE TYPE s.size AS ENUM ('small', 'large');
CREATE TABLE s.shops (shop int PRIMARY KEY);
INSERT INTO s.shops SELECT generate_series(1, 3);
CREATE TABLE s.p (id int PRIMARY KEY, region text NOT NULL, closed text, size s.size, is_new \
boolean, shop int REFERENCES s.shops, other int, x int NOT NULL, keyed int REFERENCES s.shops);
INSERT INTO s.p SELECT n, (ARRAY['north', 'south', 'elsewhere'])[1 + n % 3], (ARRAY['a', 'b', \
NULL])[1 + n % 3], (ARRAY['small', 'large', NULL]::s.size[])[1 + n % 3],
  (ARRAY[true, false, NULL])[1 + n % 3], nullif(n % 4, 0), n % 4, n % 7, nullif(n % 4, 0) FROM \
  generate_series(1, 400) AS n;
";

const SHOP_POLICY: &str = "
version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy:
  unit: person
  budget: {epsilon: 100000, delta: 1e-3}
  per_query: {epsilon: 1, max_epsilon: 1}
  accounting: gdp
  data_version: \"1\"
roles:
  - name: analyst
    password: VERIFIER
    budget: {epsilon: 90000, delta: 1e-4, renew: never}
tables:
  s.p:
    unit: id
    columns:
      region: {values: [north, south]}
      closed: {values: [a, b], complete: true}
      size: visible
      is_new: visible
      shop: {domain: s.shops.shop, complete: true}
      other: {domain: s.shops.shop}
      x: {bounds: [0, 10]}
      keyed: {domain: s.shops.shop}
  s.shops: public
";

async fn shop(tables: &str, policy: &str) -> Veil {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let verifier = demo
        .split("password: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(tables).await.unwrap();
    Veil::over(fill, &policy.replace("VERIFIER", &verifier), Veil::silent()).await
}

/// Two columns are compared as they are stored: past their bounds too, no group is left out and no
/// row of a sum is lost.
#[tokio::test(flavor = "multi_thread")]
async fn comparisons_of_columns_reach_past_their_bounds() {
    const TABLES: &str = "
        CREATE SCHEMA s; CREATE TABLE s.shops (shop int PRIMARY KEY);
        CREATE TABLE s.p (id int PRIMARY KEY, x int NOT NULL, y int NOT NULL, b int NOT NULL);
        INSERT INTO s.p SELECT n, n % 10, 10, 25 FROM generate_series(1, 1000) AS n;
        INSERT INTO s.p SELECT n, 50, 60, 25 FROM generate_series(1001, 3000) AS n;";
    let (head, columns) = SHOP_POLICY.split_once("      region:").unwrap();
    let (_, shops) = columns.split_once("  s.shops:").unwrap();
    let policy = format!(
        "{head}      x: visible\n      y: {{bounds: [0, 20]}}\n      b: {{bounds: [20, 30]}}\n  \
            s.shops:{shops}"
    );
    let veil = shop(TABLES, &policy).await;
    let within = "FROM s.p WHERE x >= 0 AND x <= y GROUP BY";
    let keyed = ["SELECT x, count(*) AS n", "SELECT x > 5, count(*) AS n"]
        .map(|select| format!("{select} {within} 1 ORDER BY 1"));
    veil.answers_as_postgresql(&Veil::requester(), &keyed.each_ref().map(String::as_str))
        .await;
    let past = [
        "SELECT y > b, count(*) FROM s.p GROUP BY 1 ORDER BY 1",
        "SELECT x, sum(n) FROM (SELECT x > 5 AS x, y > b, count(*) AS n FROM s.p GROUP BY 1, 2) AS \
            t GROUP BY 1 ORDER BY 1",
        "SELECT CASE WHEN b <= y THEN 1 ELSE 0 END, count(*) FROM s.p GROUP BY 1 ORDER BY 1",
    ];
    veil.answers_as_postgresql(&Veil::fresh(), &past).await;
    // Of finer groups, whether or not they are summed.
    veil.rows_as(
        &Veil::requester(),
        "SELECT y > b, x > 5, count(*) FROM s.p GROUP BY 1, 2",
    )
    .await
    .unwrap();
    veil.rows_as(
        &Veil::requester(),
        "SELECT y, b, count(*) FROM s.p GROUP BY 1, 2",
    )
    .await
    .unwrap();
    veil.answers_as_postgresql(&Veil::requester(), &past).await;
    veil.answers_as_postgresql(
        &Veil::requester(),
        &["SELECT x > 5, count(*) FROM s.p GROUP BY 1 ORDER BY 1"],
    )
    .await;
}

/// A list that need not hold every value is summed where nothing of it is left out alone.
#[tokio::test(flavor = "multi_thread")]
async fn only_whole_lists_are_added_up() {
    let veil = shop(SHOP, SHOP_POLICY).await;
    for key in ["closed", "is_new", "shop", "x"] {
        veil.rows_as(
            &Veil::requester(),
            &format!("SELECT region, {key}, count(*), sum(x) FROM s.p GROUP BY 1, 2"),
        )
        .await
        .unwrap();
        let restricted =
            format!("SELECT {key}, count(*) FROM s.p WHERE region IN ('north') GROUP BY {key}");
        sums_what_is_paid(&veil, &[&restricted]).await;
        let whole = format!("SELECT {key}, count(*), sum(x) FROM s.p GROUP BY {key}");
        buys(
            &veil,
            &Veil::requester(),
            &[
                &whole,
                &format!("SELECT {key}, count(*) FROM s.p WHERE region <> 'north' GROUP BY {key}"),
            ],
        )
        .await;
        buys(
            &veil,
            &Veil::requester(),
            &[&format!(
                "SELECT {key}, count(*) FROM s.p WHERE region IN \
            ('north', 'elsewhere') GROUP BY {key}"
            )],
        )
        .await;
    }
    sums_what_is_paid(
        &veil,
        &["SELECT region, count(*), sum(x) FROM s.p GROUP BY region"],
    )
    .await;
    // A list that is not declared complete: a foreign key's table may grow. Where an enum gets a
    // label, questions are refused.
    for (key, some, is_whole) in [("size", "x > 3", true), ("keyed", "x > 4", false)] {
        let reported = format!("is_new, count(*) FILTER (WHERE {some}) FROM s.p GROUP BY");
        veil.rows_as(
            &Veil::requester(),
            &format!("SELECT {key}, {reported} 1, 2"),
        )
        .await
        .unwrap();
        let coarser = format!("SELECT {reported} 1");
        match is_whole {
            true => sums_what_is_paid(&veil, &[&coarser]).await,
            false => buys(&veil, &Veil::requester(), &[&coarser]).await,
        }
    }
    veil.rows_as(
        &Veil::requester(),
        "SELECT other, is_new, count(*), var_pop(x) FROM s.p GROUP BY 1, 2",
    )
    .await
    .unwrap();
    buys(
        &veil,
        &Veil::requester(),
        &["SELECT is_new, count(*), var_pop(x) FROM s.p GROUP BY is_new"],
    )
    .await;
    sums_what_is_paid(
        &veil,
        &[
            "SELECT other, count(*), avg(x) FROM s.p GROUP BY other",
            "SELECT avg(x) FROM s.p WHERE 2 = other AND is_new",
        ],
    )
    .await;
    // The values are named through a wider type; of two keys that stay the same, each is covered by
    // itself.
    sums_what_is_paid(
        &veil,
        &["SELECT count(*) FROM s.p WHERE other = 3::bigint AND NOT is_new"],
    )
    .await;
    veil.rows_as(
        &Veil::requester(),
        "SELECT region, is_new, closed, count(*) FROM s.p WHERE x > 2 GROUP BY 1, 2, 3",
    )
    .await
    .unwrap();
    sums_what_is_paid(
        &veil,
        &["SELECT region, is_new, count(*) FROM s.p WHERE x > 2 GROUP BY 1, 2"],
    )
    .await;
}

/// Random questions in random order, each answered from held answers and bought again: without
/// noise both are the same.
#[tokio::test(flavor = "multi_thread")]
async fn random_questions_are_answered_as_if_bought() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let mut summed = 0;
    for seed in seeds() {
        let mut random = Random::new(seed);
        for _ in 0..120 {
            let sql = question(&mut random);
            let spent = veil.spent().await;
            let asked = veil
                .rows_as(&Veil::requester(), &sql)
                .await
                .unwrap_or_else(|e| panic!("seed {seed}: {sql}: {:?}", e.report()));
            let was_free = veil.spent().await == spent;
            let bought = veil.rows_as(&exact(), &sql).await.unwrap();
            let was_summed = was_free && veil.spent().await > spent;
            summed += u32::from(was_summed);
            assert_eq!(asked, bought, "seed {seed}: {sql}");
        }
        println!("seed {seed}: {summed} questions were sums");
    }
    // The seed that is always the same makes thirteen.
    assert!(summed > 5, "{summed}");
}

fn question(random: &mut Random) -> String {
    const WOMEN: [&str; 6] = [
        "race",
        "college_graduate",
        "birth_year",
        "birth_year / 5",
        "college_graduate = 1",
        "CASE WHEN race = 'white' THEN 1 ELSE 0 END",
    ];
    const WOMEN_ARE: [&str; 8] = [
        "race = 'white'",
        "race IN ('black', 'other')",
        "college_graduate = 0",
        "birth_year BETWEEN 1944 AND 1950",
        "birth_year > 1947 OR race = 'black'",
        "race <> 'other'",
        "years_of_school > 8",
        "birth_year % 2 = 0",
    ];
    const WOMEN_HAVE: [&str; 11] = [
        "count(*)",
        "avg(years_of_school)",
        "sum(years_of_school)",
        "count(years_of_school)",
        "stddev(birth_year)",
        "count(*) FILTER (WHERE birth_year > 1948)",
        "count(*) FILTER (WHERE race <> 'other')",
        "avg(years_of_school) FILTER (WHERE college_graduate = 1)",
        "sum(years_of_school) FILTER (WHERE birth_year % 2 = 0)",
        "count(DISTINCT woman_id)",
        "corr(years_of_school, birth_year)",
    ];
    const ROUNDS: [&str; 6] = [
        "year",
        "married",
        "south",
        "union_member",
        "year / 5",
        "coalesce(married, 0)",
    ];
    const ROUNDS_ARE: [&str; 7] = [
        "married = 1",
        "south = 0",
        "year > 1975",
        "year IN (1968, 1970, 1988)",
        "union_member IS NULL",
        "NOT married = 1",
        "age > 30",
    ];
    const ROUNDS_HAVE: [&str; 8] = [
        "count(*)",
        "avg(hours_per_week)",
        "sum(weeks_unemployed)",
        "count(union_member)",
        "var_pop(age)",
        "count(*) FILTER (WHERE south = 1)",
        "sum(weeks_unemployed) FILTER (WHERE married = 1)",
        "avg(hours_per_week) FILTER (WHERE year > 1975)",
    ];
    let (from, keys, conditions, aggregates): (&str, &[&str], &[&str], &[&str]) =
        if random.once_in(2) {
            ("nls.women", &WOMEN, &WOMEN_ARE, &WOMEN_HAVE)
        } else {
            ("nls.interviews", &ROUNDS, &ROUNDS_ARE, &ROUNDS_HAVE)
        };
    let mut some = |list: &[&str], most: usize| {
        let mut chosen: Vec<String> = Vec::new();
        for _ in 0..random.below(most + 1) {
            let one = random.pick(list).to_owned();
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        chosen
    };
    let (keys, conditions, mut aggregates) =
        (some(keys, 3), some(conditions, 2), some(aggregates, 3));
    aggregates.push("count(*)".to_owned());
    let places: Vec<String> = (1..=keys.len()).map(|place| place.to_string()).collect();
    let group = match places.len() {
        0 => String::new(),
        2 if random.once_in(4) => format!(" GROUP BY ROLLUP ({})", keys.join(", ")),
        _ => format!(" GROUP BY {}", places.join(", ")),
    };
    let condition = if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE ({})", conditions.join(") AND ("))
    };
    format!(
        "SELECT {} FROM {from}{condition}{group}",
        [keys, aggregates].concat().join(", ")
    )
}
