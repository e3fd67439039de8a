//! Questions that no row can match, because the policy lists the possible values: answered free,
//! without asking the database.

use pgveil::parse::{Statement, parse};
use pgveil::policy::SessionSettings;
use pgveil::rewrite::Plan;
use std::sync::Arc;

use crate::fixture::Veil;

async fn planned(veil: &Veil, sql: &str) -> Arc<Plan> {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{sql}");
    };
    let planned = veil.engine.plan(&Veil::requester(), query).await;
    planned.unwrap_or_else(|e| panic!("{sql}: {e}")).0
}

const WHIT: &str = "no row can match, so nothing was asked or charged: race has no value 'Whit'; \
    perhaps 'white'";

/// The groups of a paid answer: all listed ones, and none that need enough units.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_row_can_match_is_free() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    for (sql, rows) in [
        (
            "SELECT count(*), count(DISTINCT birth_year), sum(years_of_school), \
                avg(years_of_school), stddev(years_of_school), max(years_of_school), \
                bool_or(birth_year > 1950), pgveil.stderr(count(*)), \
                pgveil.ci_high(avg(years_of_school)) FROM nls.women WHERE race = 'Whit'",
            &["0|0|0|∅|∅|∅|f|0|∅"][..],
        ),
        (
            "SELECT race, count(*) FROM nls.women WHERE race = 'Whit' GROUP BY race",
            &[],
        ),
        (
            "SELECT woman_id / 100, count(*) FROM nls.women WHERE race IN ('Whit') GROUP BY 1",
            &[],
        ),
        (
            "SELECT union_member, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) \
                WHERE race = 'Whit' GROUP BY 1 ORDER BY 1",
            &["0|0", "1|0", "∅|0"],
        ),
        (
            "SELECT race, count(*) FROM nls.women WHERE race = 'Whit' GROUP BY ROLLUP (race)",
            &["∅|0"],
        ),
        (
            "SELECT count(*) + 1 FROM (SELECT woman_id, sum(hourly_wage) AS s FROM nls.interviews \
                JOIN nls.women USING (woman_id) WHERE race || '' = 'Whit' AND race <> 'black' \
                GROUP BY woman_id) AS t",
            &["1"],
        ),
    ] {
        assert_eq!(
            veil.rows_as(&Veil::requester(), sql).await.unwrap(),
            rows,
            "{sql}"
        );
        let plan = planned(&veil, sql).await;
        assert!(
            plan.loss().is_zero()
                && plan
                    .release(pgveil::ir::ReleaseId(0))
                    .statements()
                    .is_empty(),
            "{sql}"
        );
        let notices = veil.ask(sql).await.unwrap().notices;
        assert_eq!(notices, [WHIT], "{sql}");
    }
    for (sql, because) in [
        (
            "SELECT count(*) FROM nls.women WHERE birth_year > 1960",
            "values of birth_year outside [1941, 1954] count as the nearer bound",
        ),
        (
            "SELECT count(*) FROM nls.interviews WHERE year = 1974",
            "year has no value 1974",
        ),
        (
            "SELECT count(*) FROM nls.women WHERE race = 'white' AND race = 'black'",
            "no value of race meets the conditions",
        ),
        (
            "SELECT count(*) FROM nls.women WHERE race NOT IN ('white', 'black', 'other')",
            "no value of race meets the conditions",
        ),
    ] {
        let answer = veil.ask(sql).await.unwrap();
        assert_eq!(
            answer.notices,
            [format!(
                "no row can match, so nothing was asked or charged: {because}"
            )],
            "{sql}"
        );
        let explained = veil
            .explained(
                SessionSettings::with_fixed_clips(),
                &format!("EXPLAIN {sql}"),
            )
            .await;
        assert!(
            explained.contains(&format!("  Free: no row can match, as {because}"))
                && explained.contains(&"Cost: nothing".to_owned()),
            "{explained:?}"
        );
    }
    assert_eq!(veil.spent().await, 0.0);
}

/// An unlisted value that may occur, a NULL that meets the condition, and a released value that is
/// known only when it is drawn: each is asked, and paid for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_row_may_match_is_asked() {
    let veil = Veil::demo(
        |yaml| {
            yaml.replace(
                "race: {values: [white, black, other], complete: true}",
                "race: {values: [white, black, other]}",
            )
        },
        None,
    )
    .await;
    for sql in [
        "SELECT count(*) FROM nls.women WHERE race = 'Whit'",
        "SELECT count(*) FROM nls.interviews WHERE union_member = 7 OR union_member IS NULL",
        "SELECT count(*) FROM nls.interviews WHERE (union_member = 7) IS NOT FALSE",
        "SELECT count(*) FROM nls.women WHERE birth_year > (SELECT avg(birth_year) + 1000 FROM \
            nls.women)",
        "SELECT count(*) FROM nls.women WHERE college_graduate = 1 OR birth_year > 1960",
        "SELECT count(*) FILTER (WHERE college_graduate = 7) FROM nls.women",
        "SELECT count(*) FROM nls.women WHERE years_of_school >= 18",
    ] {
        let plan = planned(&veil, sql).await;
        assert!(
            plan.releases()
                .iter()
                .all(|release| !release.statements().is_empty()),
            "{sql}"
        );
    }
}

/// A later release reads an answer for no row like a released one. A spent budget does not matter.
#[tokio::test(flavor = "multi_thread")]
async fn answers_for_no_row_are_read_and_need_no_budget() {
    let veil = Veil::demo(
        |yaml| {
            yaml.replace(
                "budget: {epsilon: 3, delta: 1e-7, renew: never}",
                "budget: {epsilon: 0.6, delta: 1e-7, renew: never}",
            )
        },
        Veil::silent(),
    )
    .await;
    let above = "SELECT count(*) FROM nls.women WHERE birth_year > (SELECT 1940 + count(*) FROM \
        nls.women WHERE race = 'Whit')";
    assert_eq!(
        veil.rows_as(&Veil::requester(), above).await.unwrap(),
        veil.direct("SELECT count(*) FROM nls.women").await
    );
    let refused = veil.ask("SELECT count(*) + 1 FROM nls.interviews").await;
    assert_eq!(refused.unwrap_err().report().sqlstate, "53400");
    let free = "SELECT count(*) FROM nls.women WHERE race = 'Whit'";
    assert_eq!(veil.rows_as(&Veil::requester(), free).await.unwrap(), ["0"]);
}
