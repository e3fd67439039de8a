//! What a summary lacks is said where it answers nothing, and `pgveil.columns` says what it has.

use pgveil::policy::{Reuse, SessionSettings};

use super::summaries::{declared, make, precise, session, spent, with_reuse};
use crate::fixture::{Silent, Veil};

const LACKS: [(&str, &str); 7] = [
    (
        "SELECT count(*) FROM nls.women WHERE years_of_school = 12",
        "women has no key years_of_school",
    ),
    (
        "SELECT race, count(*) FILTER (WHERE years_of_school > 12) FROM nls.women GROUP BY race",
        "women has no key years_of_school",
    ),
    (
        "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year = 1944 AND \
            college_graduate = 1",
        "women has no set of keys with race, birth_year and college_graduate together",
    ),
    (
        "SELECT race, count(*) FILTER (WHERE college_graduate = 1) FROM nls.women WHERE birth_year \
            < 1947 GROUP BY race",
        "women has no set of keys with race, birth_year and college_graduate together",
    ),
    (
        "SELECT race, college_graduate, birth_year / 5, count(*) FROM nls.women GROUP BY 1, 2, 3",
        "women has no set of keys with race, birth_year and college_graduate together",
    ),
    (
        "SELECT race, sum(birth_year) FROM nls.women GROUP BY race",
        "women has not all the counts and sums that the query asks for",
    ),
    (
        "SELECT stddev(years_of_school) FROM nls.women",
        "women has not all the counts and sums that the query asks for",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_and_explain_name_what_is_lacking() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    let asking = with_reuse("analyst", Reuse::Summary);
    let explained = async |sql: &str| {
        let lines = veil
            .explained(SessionSettings::default(), &format!("EXPLAIN {sql}"))
            .await;
        let is_lack = |line: &String| line.starts_with("Summary: women has no");
        lines.into_iter().filter(is_lack).collect::<Vec<_>>()
    };
    let mut before = Vec::new();
    for made in [false, true] {
        let mut shown = Vec::new();
        for (sql, lack) in LACKS {
            let refused = veil.rows_as(&asking, sql).await.unwrap_err().report();
            assert_eq!(refused.reason.id(), "not-held", "{sql}");
            let detail = refused.detail.unwrap();
            assert!(
                detail.ends_with(&format!("Summary {lack}.")),
                "{sql}: {detail}"
            );
            let lines = explained(sql).await;
            assert_eq!(lines, [format!("Summary: {lack}")], "{sql}");
            shown.push((detail, lines));
        }
        // Nothing of it depends on whether the summary was made.
        match made {
            false => before = shown,
            true => assert_eq!(before, shown),
        }
        if !made {
            make(&veil, &veil.engine, &mut Silent).await.unwrap();
        }
    }
    // What it answers, it does not lack.
    let sql =
        "SELECT count(*) FILTER (WHERE race = 'black') FROM nls.women WHERE birth_year < 1947";
    assert_eq!(explained(sql).await, Vec::<String>::new());
    let colleague = with_reuse("colleague", Reuse::Summary);
    let refused = veil.rows_as(&colleague, sql).await.unwrap_err().report();
    assert!(!refused.detail.unwrap().contains("women"));
    assert_eq!(spent(&veil.engine, "colleague").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_name_the_summaries_that_have_them() {
    let of_analyst = |yaml| {
        let yaml = declared(super::outer_query::rich(yaml));
        format!(
            "{yaml}  graduates:
    of: nls.women
    roles: [analyst]
    keys: [college_graduate]
    epsilon: 0.5
    marginals: all 1
"
        )
    };
    let veil = Veil::demo(of_analyst, Veil::silent()).await;
    let sql = "SELECT column_name, summarized_by FROM pgveil.columns WHERE summarized_by IS NOT \
        NULL ORDER BY 1";
    for (role, of_graduates) in [("analyst", "women, graduates"), ("colleague", "women")] {
        let graduates = format!("college_graduate|{of_graduates}");
        assert_eq!(
            veil.rows_as(&session(role), sql).await.unwrap(),
            [
                "birth_year|women",
                graduates.as_str(),
                "race|women",
                "years_of_school|women"
            ],
            "{role}"
        );
    }
}
