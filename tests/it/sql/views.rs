//! pgveil's own views, and the columns about an aggregate's noise.

use pgveil::engine::Service;
use pgveil::parse::{Statement, parse};
use pgveil::policy::SessionSettings;

use crate::fixture::Veil;

async fn rows(veil: &Veil, sql: &str) -> Vec<String> {
    veil.rows_as(&Veil::requester(), sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()))
}

/// Every column of one row as a number.
async fn numbers(veil: &Veil, session_settings: SessionSettings, sql: &str) -> Vec<f64> {
    let requester = pgveil::engine::Requester {
        session_settings,
        ..Veil::requester()
    };
    let rows = veil
        .rows_as(&requester, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
    rows[0]
        .split('|')
        .map(|text| text.parse().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn views_tell_a_role_what_it_may_know() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    assert_eq!(
        rows(
            &veil,
            "SELECT role, accounting, epsilon, fraction_left, mu_spent FROM pgveil.budget"
        )
        .await,
        ["analyst|gdp|3|1|0"]
    );
    assert_eq!(
        rows(&veil, "SELECT count(*) FROM pgveil.history").await,
        ["0"]
    );
    rows(&veil, "SELECT count(*) FROM nls.women").await;
    rows(&veil, "SELECT race, count(*) FROM nls.women GROUP BY race").await;
    assert_eq!(
        rows(
            &veil,
            "SELECT count(*), count(DISTINCT plan), min(mu) > 0, max(asked_at) <= \
        now() FROM pgveil.history"
        )
        .await,
        ["2|2|t|t"]
    );
    let left = "SELECT b.fraction_left < 1 AND b.mu_spent > 0.1 AND b.delta_spent = 0 AND \
        b.queries_failed = 0 FROM pgveil.budget AS b";
    assert_eq!(rows(&veil, left).await, ["t"]);
    assert_eq!(
        rows(
            &veil,
            "SELECT table_schema || '.' || table_name, unit_column, unit_path, \
            rows_per_unit FROM pgveil.tables WHERE is_private ORDER BY 1"
        )
        .await,
        [
            "nls.interviews|woman_id|woman_id -> nls.women.woman_id|15",
            "nls.women|woman_id|∅|1"
        ]
    );
    assert_eq!(
        rows(
            &veil,
            "SELECT column_name, lower_bound, upper_bound, known_values, group_by FROM \
            pgveil.columns WHERE table_name = 'women' AND column_name IN ('race', 'birth_year') \
            ORDER BY 1"
        )
        .await,
        [
            "birth_year|1941|1954|∅|listed",
            "race|∅|∅|[\"white\",\"black\",\"other\"]|listed"
        ]
    );
    // One row of a unit, and fifteen. What is no number has none.
    let ceilings = "SELECT column_name, ceiling FROM pgveil.columns WHERE column_name IN \
        ('birth_year', 'hourly_wage', 'race') ORDER BY 1";
    assert_eq!(
        rows(&veil, ceilings).await,
        ["birth_year|1954", "hourly_wage|450", "race|∅"]
    );
    assert_eq!(
        rows(
            &veil,
            "SELECT setting, at_most FROM pgveil.settings WHERE name = 'pgveil.epsilon'"
        )
        .await,
        ["0.5|1"]
    );
    // Next to an aggregate, as a view is a relation of the outer query; and not among rows.
    assert_eq!(
        rows(
            &veil,
            "SELECT count(*), (SELECT epsilon FROM pgveil.budget) AS budget FROM nls.women"
        )
        .await,
        ["4711|3"]
    );
    let refused = veil
        .ask("SELECT count(*) FROM nls.women, pgveil.budget")
        .await
        .unwrap_err()
        .report();
    assert_eq!(
        (refused.sqlstate.as_str(), refused.message.as_str()),
        ("0A000", "pgveil.budget cannot be joined with tables")
    );
    assert_eq!(
        veil.ask("SELECT * FROM pgveil.secrets")
            .await
            .unwrap_err()
            .report()
            .sqlstate,
        "42P01"
    );
    // Reading them is free.
    let spent = veil.spent().await;
    rows(&veil, "SELECT * FROM pgveil.settings, pgveil.columns").await;
    assert!((veil.spent().await - spent).abs() < f64::EPSILON);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_force_is_shown() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let known = "SELECT column_name, values_known FROM pgveil.columns WHERE table_name = 'women' \
        AND group_by = 'listed' ORDER BY 1";
    assert_eq!(
        rows(&veil, known).await.first().map(String::as_str),
        Some("birth_year|14")
    );
    for (setting, value) in [("epsilon", "0.5"), ("target_error", ""), ("keys", "auto")] {
        assert_eq!(
            rows(
                &veil,
                &format!("SELECT current_setting('pgveil.{setting}')")
            )
            .await,
            [value]
        );
        assert_eq!(
            rows(
                &veil,
                &format!("SELECT setting FROM pgveil.settings WHERE name = 'pgveil.{setting}'")
            )
            .await,
            [value]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_comes_with_its_error() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let counts = "SELECT count(*), pgveil.stderr(count(*)), pgveil.ci_low(count(*)), \
        pgveil.ci_high(count(*)) FROM nls.women";
    let found = numbers(
        &veil,
        SessionSettings {
            target_error: Some(pgveil::policy::TargetError::Absolute(20.0).into()),
            ..SessionSettings::with_fixed_clips()
        },
        counts,
    )
    .await;
    assert!((found[1] - 20.0).abs() < 0.01, "{found:?}");
    assert!(
        (found[0] - found[2] - (found[3] - found[0])).abs() < 1e-6
            && (1.9..2.2).contains(&((found[3] - found[0]) / found[1])),
        "{found:?}"
    );
    let average = "SELECT avg(hourly_wage), pgveil.stderr(avg(hourly_wage)), \
        pgveil.ci_low(avg(hourly_wage)), pgveil.ci_high(avg(hourly_wage)) FROM nls.interviews";
    let found = numbers(&veil, Veil::session_settings(1.0), average).await;
    assert!(
        found[2] < found[0] && found[0] < found[3] && found[1] > 0.0 && found[1] < 2.0,
        "{found:?}"
    );
    // Too few rows for an estimate.
    let few = "SELECT avg(hourly_wage), pgveil.stderr(avg(hourly_wage)), \
        pgveil.ci_low(avg(hourly_wage)), pgveil.ci_high(avg(hourly_wage)) FROM nls.interviews \
        WHERE year = 1968 AND age = 40";
    assert_eq!(rows(&veil, few).await, ["∅|∅|∅|∅"]);
    // In every place where the aggregate may stand, per group, and with its own FILTER.
    let placed = "SELECT race, round(pgveil.stderr(count(*) FILTER (WHERE birth_year > \
        1946))::numeric) > 0 AS known FROM nls.women GROUP BY race \
                  HAVING pgveil.ci_high(count(*)) > 0 ORDER BY pgveil.stderr(count(*)), race";
    assert_eq!(rows(&veil, placed).await, ["black|t", "other|t", "white|t"]);
    let deep = format!(
        "SELECT pgveil.stderr(count(*){}) FROM nls.women",
        " + 1".repeat(150)
    );
    for sql in [
        deep.as_str(),
        "SELECT pgveil.stderr(1)",
        "SELECT pgveil.stderr(ln(count(*))) FROM nls.women",
        "SELECT pgveil.stderr(count(*) + birth_year) FROM nls.women GROUP BY birth_year",
        "SELECT pgveil.ci_low(n) FROM (SELECT count(*) AS n FROM nls.women) AS s",
    ] {
        let refused = veil.ask(sql).await.unwrap_err().report();
        assert_eq!(refused.sqlstate, "0A000", "{sql}: {refused}");
        assert!(
            refused
                .message
                .contains("takes an aggregate over private rows, or arithmetic on such aggregates"),
            "{sql}: {refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_are_known_before_anything_is_asked() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    for (sql, types) in [
        (
            "SELECT * FROM pgveil.history",
            vec![1184, 701, 701, 701, 701, 25],
        ),
        (
            "SELECT * FROM pgveil.group_privacy",
            vec![25, 23, 701, 701, 701, 701, 701, 701, 701, 701],
        ),
        ("SELECT * FROM pgveil.meaning", vec![25]),
        (
            "SELECT race, pgveil.stderr(sum(years_of_school)), pgveil.ci_low(avg(years_of_school)) \
                FROM nls.women GROUP BY 1",
            vec![25, 701, 701],
        ),
    ] {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query")
        };
        let described = veil
            .engine
            .describe(&Veil::requester(), query, &[])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        assert_eq!(
            described
                .columns
                .iter()
                .map(|c| c.type_oid)
                .collect::<Vec<_>>(),
            types,
            "{sql}"
        );
    }
    assert!(veil.spent().await == 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn worth_is_what_explain_says() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let spent = veil.spent().await;
    let of = "SELECT aggregate, epsilon, round(error_95::numeric, 1), clip, answers, \
        answers_left FROM pgveil.worth WHERE table_name = 'women' AND column_name IS NULL";
    // At the policy's price, which is the session's, and at the most that a query may spend.
    let most_expensive = "count|1|9.2|fixed|7|7";
    assert_eq!(
        rows(&veil, of).await,
        ["count|0.5|17.6|fixed|28|28", most_expensive]
    );
    // Fifteen rows of a woman count: the number of women is the same, and that of rows fifteen
    // times as large.
    let of_rows = "SELECT round(error_95::numeric), round(error_units::numeric, 1), advice FROM \
        pgveil.worth WHERE table_name = 'interviews' AND aggregate = 'count' AND epsilon = 0.5";
    let advice = "SET pgveil.clip = auto, without pgveil.max_rows_per_unit: a look at the data \
        then chooses how much of a unit counts";
    assert_eq!(
        rows(&veil, of_rows).await,
        [format!("264|17.6|{advice}").as_str()]
    );
    // One number of rows for each table, and two for each bounded column.
    let each = "SELECT count(*), count(DISTINCT column_name), bool_and(answers > 0) FROM \
        pgveil.worth GROUP BY epsilon";
    assert_eq!(rows(&veil, each).await, ["20|9|t", "20|9|t"]);
    assert!((veil.spent().await - spent).abs() < f64::EPSILON);
    rows(&veil, "SELECT count(*) FROM nls.women").await;
    assert_eq!(
        rows(&veil, of).await,
        ["count|0.5|17.6|fixed|28|27", most_expensive],
        "one is bought"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_budgets_mean_is_shown() {
    let veil = Veil::demo(
        |yaml| yaml.replace("delta: 1e-7", "delta: 1e-6"),
        Veil::silent(),
    )
    .await;
    let budget = "SELECT k, round(epsilon_at_delta::numeric, 2), round(odds::numeric, 1), \
        round(from_50_percent::numeric, 3) FROM pgveil.group_privacy WHERE account = 'role' AND k \
        IN (1, 2)";
    assert_eq!(
        rows(&veil, budget).await,
        ["1|3.00|20.1|0.953", "2|6.58|719.4|0.999"]
    );
    let spent = "SELECT count(*), max(power_at_5_percent), max(delta), max(epsilon_at_delta) FROM \
        pgveil.group_privacy WHERE account = 'spent'";
    assert_eq!(rows(&veil, spent).await, ["13|0.05|0|0"]);
    // Gaussian noise, and a key without a list: its threshold hides twenty units less than one.
    let keyed = "SELECT hourly_wage, count(*) FROM nls.interviews GROUP BY hourly_wage";
    rows(&veil, keyed).await;
    let spent = "SELECT k, mu / k = (SELECT mu_lifetime FROM pgveil.budget), epsilon, delta > \
        1.1 * k * 1e-11 + 1e-6 FROM pgveil.group_privacy WHERE account = 'spent' AND k IN (1, 20)";
    assert_eq!(rows(&veil, spent).await, ["1|t|∅|f", "20|t|∅|t"]);
    let weaker = "SELECT bool_and(r.epsilon_at_delta >= s.epsilon_at_delta), \
        bool_and(r.power_at_5_percent >= s.power_at_5_percent) FROM pgveil.group_privacy AS r JOIN \
        pgveil.group_privacy AS s USING (k) WHERE r.account = 'role' AND s.account = 'spent'";
    assert_eq!(rows(&veil, weaker).await, ["t|t"]);
    let lines = rows(&veil, "SELECT line FROM pgveil.meaning").await;
    assert_eq!(lines.len(), 6, "{lines:?}");
    for (line, text) in [
        (0, "role analyst: epsilon 3.00 and delta 1.0e-6."),
        (
            1,
            "50 % sure that a woman is in the data is at most 95.3 % sure",
        ),
        (2, "at most 20.1 times as likely"),
        (4, "for 4 epsilon 15.1 but for a chance of 9.7e-5"),
        (4, "for 10 nothing is promised"),
        (4, "An epsilon above 10 hardly protects."),
    ] {
        assert!(lines[line].contains(text), "{lines:?}");
    }
}
