//! The whole path of a query over the demo data: answers without noise equal PostgreSQL's, charges
//! are the plan's, and nothing is answered unpaid.

use std::sync::Arc;

use pgveil::engine::{Argument, Format, Requester, Service};
use pgveil::error::Error;
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use super::outer_query::rich;
use crate::fixture::Veil;

/// No woman has more than 15 interviews and no hour is paid more than the bound, so that no clip
/// binds.
const UNBOUNDED: &str = "hourly_wage: {bounds: [0, 250]}";

pub fn wide(yaml: String) -> String {
    yaml.replace("hourly_wage: {bounds: [0, 30]}", UNBOUNDED)
        .replace(
            "hours_per_week: {bounds: [0, 100]}",
            "hours_per_week: {bounds: [0, 168]}",
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_noise_equal_postgresql() {
    let veil = Veil::demo(|yaml| Veil::precise(wide(yaml)), Veil::silent()).await;
    let questions = [
        "SELECT count(*) FROM nls.women",
        "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT race, count(*), count(years_of_school), avg(years_of_school), sum(years_of_school) \
            FROM nls.women GROUP BY 1 ORDER BY 1",
        "SELECT year, count(*), round(avg(hourly_wage), 6) FROM nls.interviews GROUP BY year ORDER \
            BY year",
        "SELECT sum(hourly_wage), avg(hourly_wage), count(DISTINCT woman_id) FROM nls.interviews",
        "SELECT sum(hourly_wage * hours_per_week) FROM nls.interviews WHERE south = 1",
        "SELECT avg(hourly_wage) FILTER (WHERE union_member = 1), avg(hourly_wage) FILTER (WHERE \
            union_member = 0) FROM nls.interviews",
        "SELECT w.race, round(avg(i.hourly_wage), 4) FROM nls.women w JOIN nls.interviews i ON \
            i.woman_id = w.woman_id GROUP BY w.race ORDER BY 2 DESC",
        "SELECT n.industry, count(*) FROM nls.interviews i JOIN nls.industries n USING \
            (industry_code) GROUP BY n.industry ORDER BY n.industry",
        "SELECT union_member, count(*) FROM nls.interviews GROUP BY union_member ORDER BY 1",
        "SELECT hourly_wage > 10 AS well_paid, count(*) FROM nls.interviews GROUP BY 1 ORDER BY 1",
        "SELECT CASE WHEN hourly_wage < 5 THEN 'low' ELSE 'high' END AS band, count(*) FROM \
            nls.interviews GROUP BY 1 ORDER BY 1",
        "SELECT width_bucket(hourly_wage, 0, 30, 6) AS bucket, count(*) FROM nls.interviews WHERE \
            hourly_wage < 30 AND hourly_wage >= 1 GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT birth_year / 5 * 5 AS five, count(*) FROM nls.women GROUP BY 1 ORDER BY 1",
        "WITH pay AS (SELECT year AS y, hourly_wage * hours_per_week AS weekly FROM nls.interviews \
            WHERE hours_per_week IS NOT NULL) SELECT y, round(avg(weekly), 3) FROM pay GROUP BY y \
            ORDER BY y",
        "SELECT w.race, count(i.year) FROM nls.women w LEFT JOIN nls.interviews i ON i.woman_id = \
            w.woman_id AND i.year = 1988 GROUP BY w.race ORDER BY 1",
        "SELECT race, count(*) * 100.0 / sum(count(*)) OVER () AS share FROM nls.women GROUP BY \
            race ORDER BY race",
        "SELECT (SELECT count(*) FROM nls.women) AS women, (SELECT count(*) FROM nls.interviews) \
            AS \
            interviews",
        "SELECT count(*) FROM nls.women WHERE 100 % (birth_year - 1900) = 6 AND race LIKE 'w%'",
        "SELECT count(*) FROM nls.interviews WHERE ln(hourly_wage) > 1 AND sqrt(hourly_wage) < 4",
        "SELECT g.n, count(*) FROM generate_series(1, 3) AS g(n) GROUP BY g.n ORDER BY 1",
        "SELECT count(DISTINCT CASE WHEN union_member = 1 THEN woman_id END) FROM nls.interviews",
    ];
    veil.answers_as_postgresql(
        &Requester {
            session_settings: Veil::session_settings(5000.0),
            ..Veil::requester()
        },
        &questions,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_past_the_budget() {
    let veil = Arc::new(
        Veil::demo(
            |y| {
                y.replace(
                    "budget: {epsilon: 3, delta: 1e-7, renew: never}",
                    "budget: {epsilon: 0.6, delta: 1e-7, renew: never}",
                )
            },
            None,
        )
        .await,
    );
    let mut sessions = Vec::new();
    for _ in 0..50 {
        let veil = Arc::clone(&veil);
        let requester = Veil::fresh();
        sessions.push(tokio::spawn(async move {
            veil.ask_as(&requester, "SELECT count(*) FROM nls.women")
                .await
                .map_err(|e| e.report().sqlstate)
        }));
    }
    let mut answered = 0;
    for session in sessions {
        match session.await.unwrap() {
            Ok(_) => answered += 1,
            Err(sqlstate) => assert_eq!(sqlstate, "53400"),
        }
    }
    // epsilon 0.5 of 0.6 buys one count, whichever session comes first.
    assert_eq!(answered, 1);
    let refusal = veil
        .ask("SELECT count(*) FROM nls.interviews")
        .await
        .unwrap_err()
        .report();
    assert_eq!(refusal.sqlstate, "53400");
    assert!(
        veil.ask("SELECT count(*) FROM nls.women").await.is_ok(),
        "what was paid is shown again"
    );
    assert!(
        veil.ask("SELECT 1").await.is_ok(),
        "what costs nothing is answered still"
    );
    assert!(
        veil.ask("SELECT industry FROM nls.industries")
            .await
            .is_ok()
    );
    assert!(
        veil.ask("SELECT count(*) FROM nls.women WHERE 1 = 0")
            .await
            .is_ok()
    );
}

/// A public table that is empty in the shadow is joined where its rows are, and answered nowhere
/// else.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_not_mirrored_are_not_answered() {
    let veil = Veil::demo(
        |policy| policy.replace("\nlimits:\n", "\nlimits:\n  mirror_rows: 3\n"),
        Veil::silent(),
    )
    .await;
    for sql in [
        "SELECT count(*) FROM nls.industries",
        "SELECT n.industry, q.n FROM nls.industries n JOIN (SELECT industry_code, count(*) AS n \
            FROM nls.interviews GROUP BY 1) q USING (industry_code)",
        "SELECT count(*) FROM nls.women WHERE birth_year > (SELECT max(industry_code) FROM \
            nls.industries)",
    ] {
        let refusal = veil.ask(sql).await.expect_err(sql).report();
        assert!(
            refusal
                .message
                .contains("nls.industries has more rows than the policy's limits.mirror_rows"),
            "{sql}: {refusal:?}"
        );
    }
    let joined = "SELECT count(*) FROM nls.interviews i JOIN nls.industries n USING \
        (industry_code) \
        WHERE n.industry IS NOT NULL";
    assert!(veil.ask(joined).await.is_ok());
}

/// What is computed of one private row joined to all of many public ones is weighed by their
/// number, before it is paid.
#[tokio::test(flavor = "multi_thread")]
async fn rows_joined_to_all_public_ones_are_weighed() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let spent = veil.spent().await;
    for sql in [
        "SELECT count(*) FROM nls.women w WHERE woman_id = 42 AND EXISTS (SELECT 1 FROM \
            generate_series(5000, 9000) m(c) WHERE regexp_count(w.race, '[a-h]') > m.c)",
        "SELECT count(*) FROM nls.women w JOIN generate_series(1, 9000) m(c) ON woman_id = 42 AND \
            regexp_count(w.race, '[a-h]') > m.c",
        "SELECT count(*) FROM nls.women w JOIN generate_series(1, 900) m(c) ON true JOIN \
            generate_series(1, 900) o(c) ON length(w.race) > m.c + o.c",
        "SELECT count(*) FROM nls.women w JOIN nls.industries i ON true JOIN nls.industries j ON \
            true JOIN nls.industries k ON true JOIN nls.industries l ON translate(w.race, 'ab', \
            'xy') > 'A'",
    ] {
        let refusal = veil
            .ask(sql)
            .await
            .map(|_| sql)
            .expect_err("is refused")
            .report();
        assert_eq!(refusal.sqlstate, "54001", "{sql}: {refusal:?}");
        assert!(
            refusal.message.contains("joined to all the public rows"),
            "{sql}: {refusal:?}"
        );
    }
    assert_eq!(veil.spent().await, spent);
    for sql in [
        "SELECT m.c, count(*) FROM nls.women w JOIN generate_series(1941, 1954) m(c) ON \
            w.birth_year <= m.c GROUP BY 1",
        "SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM generate_series(1, 100) m(c) \
            WHERE regexp_count(w.race, '[a-h]') > m.c)",
        "SELECT count(*) FROM nls.interviews i JOIN nls.industries n ON n.industry_code = \
            i.industry_code WHERE upper(n.industry) LIKE 'M%'",
    ] {
        assert!(veil.ask(sql).await.is_ok(), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bind_is_a_question() {
    let veil = Veil::demo(|y| y, Veil::silent()).await;
    let statements =
        parse("SELECT count(*) FROM nls.women WHERE birth_year = $1 AND race = $2").unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!()
    };
    let requester = Veil::requester();
    let described = veil.engine.describe(&requester, query, &[]).await.unwrap();
    assert_eq!(described.parameters, [21, 25]);
    assert_eq!(veil.spent().await, 0.0, "Describe is free");
    let mut before = 0.0;
    for (year, race, is_new) in [
        (1950, "white", true),
        (1951, "black", true),
        (1950, "white", false),
    ] {
        let text = |t: &str| Argument {
            format: Format::Text,
            value: Some(bytes::Bytes::copy_from_slice(t.as_bytes())),
        };
        let year_value = Argument {
            format: Format::Binary,
            value: Some(bytes::Bytes::copy_from_slice(&i16::to_be_bytes(year))),
        };
        let arguments = [year_value, text(race)];
        let answer = veil
            .engine
            .answer(
                &requester,
                query,
                &described.parameters,
                &arguments,
                &[],
                CancellationToken::new(),
            )
            .await
            .unwrap();
        let expected = veil
            .direct(&format!(
                "SELECT count(*) FROM nls.women WHERE birth_year = {year} AND race = '{race}'"
            ))
            .await;
        assert_eq!(answer.rows[0][0].as_deref(), Some(expected[0].as_bytes()));
        let after = veil.spent().await;
        assert_eq!(after > before, is_new, "new values are a new question");
        before = after;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_constraint_refuses() {
    let veil = Veil::demo(|y| y, None).await;
    veil.client
        .batch_execute(
            "ALTER TABLE nls.interviews DROP CONSTRAINT interviews_woman_id_fkey; ALTER \
            TABLE nls.women DROP CONSTRAINT women_pkey",
        )
        .await
        .unwrap();
    let refusal = veil
        .ask("SELECT count(*) FROM nls.women")
        .await
        .unwrap_err()
        .report();
    assert!(
        refusal
            .message
            .contains("the definition of nls.women has changed"),
        "{refusal:?}"
    );
    assert_eq!(veil.spent().await, 0.0, "nothing is charged for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_cap() {
    let hurried = |y: String| {
        y.replace("failures: 10", "failures: 2")
            .replace("statement_timeout: 60s", "statement_timeout: 3ms")
    };
    let veil = Veil::demo(hurried, None).await;
    for asked in 0..3 {
        match (
            asked,
            veil.ask(
                "SELECT year, avg(hourly_wage), sum(hours_per_week) FROM \
            nls.interviews GROUP BY year",
            )
            .await
            .unwrap_err(),
        ) {
            (0 | 1, Error::Internal { incident }) => assert_eq!(incident.len(), 16),
            (2, Error::Ledger(refusal)) => assert_eq!(refusal.sqlstate, "42501"),
            (n, other) => panic!("{n}: {other:?}"),
        }
    }
    assert!(
        veil.spent().await > 0.0,
        "what failed after the charge stays charged"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_cap_holds_for_questions_at_once() {
    let hurried = |y: String| {
        y.replace("failures: 10", "failures: 3")
            .replace("statement_timeout: 60s", "statement_timeout: 3ms")
    };
    let veil = Arc::new(Veil::demo(hurried, None).await);
    let mut sessions = Vec::new();
    for _ in 0..20 {
        let veil = Arc::clone(&veil);
        sessions.push(tokio::spawn(async move {
            veil.ask("SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY year")
                .await
                .unwrap_err()
        }));
    }
    let mut failed = 0;
    for session in sessions {
        match session.await.unwrap() {
            Error::Internal { .. } => failed += 1,
            Error::Ledger(refusal) => assert!(
                ["42501", "53400"].contains(&refusal.sqlstate.as_str()),
                "{refusal:?}"
            ),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(failed, 3);
    assert_eq!(veil.engine.ledger().failures("analyst").await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn finish_role_cannot_read_private() {
    let veil = Veil::demo(|y| y, None).await;
    for sql in [
        "SELECT count(*), query_to_xml('select * from nls.women', true, false, '') FROM nls.women",
        "SELECT pg_relation_size('nls.women'), count(*) FROM nls.women",
        "SELECT current_setting('is_superuser'), count(*) FROM nls.women",
        "SELECT count(*), 'nls.women'::regclass FROM nls.women",
    ] {
        let refusal = veil.ask(sql).await.unwrap_err().report();
        assert!(
            ["0A000", "42501"].contains(&refusal.sqlstate.as_str()),
            "{sql}: {refusal:?}"
        );
    }
    assert_eq!(veil.spent().await, 0.0);
}
