//! Statements of tools that browse tables: previews of rows, and names with their database.

use pgveil::engine::Requester;
use pgveil::error::Error;

use crate::fixture::Veil;

fn state(error: Error) -> String {
    let report = error.report();
    format!("{} {}", report.sqlstate, report.message)
}

/// Statements that show rows and ask for nothing else, and their columns.
const PREVIEWS: [(&str, &[&str]); 6] = [
    (
        "SELECT * FROM nls.women LIMIT 100",
        &["woman_id", "birth_year", "race", "years_of_school"],
    ),
    (
        "SELECT race, birth_year + 1 AS next FROM nls.women ORDER BY birth_year DESC OFFSET 10 \
            FETCH FIRST 5 ROWS ONLY",
        &["race", "next"],
    ),
    (
        "SELECT w.race, i.year FROM nls.women w JOIN nls.interviews i USING (woman_id) WHERE \
            i.year \
            > 1980",
        &["race", "year"],
    ),
    (
        "SELECT v.* FROM (SELECT race FROM nls.women) AS v LIMIT 1001",
        &["race"],
    ),
    (
        "WITH c AS (SELECT race FROM nls.women) SELECT race AS r FROM c",
        &["r"],
    ),
    ("SELECT 1 AS one FROM nls.women LIMIT 1", &["one"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn previews_are_empty_where_the_policy_says_so() {
    let veil = Veil::demo(|yaml| format!("{yaml}\npreviews: empty\n"), Veil::silent()).await;
    for (sql, columns) in PREVIEWS {
        let answer = veil
            .ask(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {}", state(error)));
        let names: Vec<&str> = answer
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert!(
            names.len() >= columns.len() && columns.iter().all(|column| names.contains(column)),
            "{sql}: {names:?}"
        );
        assert!(answer.rows.is_empty(), "{sql}");
        assert!(
            answer
                .notices
                .iter()
                .any(|notice| notice.contains("rows of a private table are not shown")),
            "{sql}: {:?}",
            answer.notices
        );
    }
    assert_eq!(veil.spent().await, 0.0, "a preview is free");
    // A statement that is not just a preview, or that fails for another reason, is refused as ever;
    // an answerable one is answered.
    for (sql, start) in [
        (
            "SELECT count(*) FROM (SELECT * FROM nls.women LIMIT 10) AS t",
            "0A000",
        ),
        ("SELECT * FROM nls.women FOR UPDATE", "42501"),
        (
            "SELECT * FROM nls.women UNION ALL SELECT * FROM nls.women",
            "42501",
        ),
        ("SELECT race, pg_sleep(1) FROM nls.women", "42501"),
        ("SELECT nothing FROM nls.women", "42703"),
        // One row in PostgreSQL, or a condition: no row would be an answer.
        (
            "SELECT EXISTS (SELECT * FROM nls.women WHERE woman_id = 1)",
            "42501",
        ),
        (
            "SELECT coalesce((SELECT birth_year FROM nls.women LIMIT 1), 0)",
            "42501",
        ),
        (
            "SELECT x FROM generate_series(1, 3) AS x WHERE x IN (SELECT woman_id FROM nls.women)",
            "42501",
        ),
    ] {
        match veil.ask(sql).await {
            Ok(answer) => assert!(answer.rows.is_empty() && !sql.contains("(SELECT"), "{sql}"),
            Err(error) => {
                let found = state(error);
                assert!(
                    found.starts_with(start)
                        || found.starts_with("0A000")
                        || sql.contains("pg_sleep"),
                    "{sql}: {found}"
                );
            }
        }
    }
    assert_eq!(
        veil.rows_as(&Veil::requester(), "SELECT count(*) FROM nls.women")
            .await
            .unwrap(),
        ["4711"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_are_refused_with_the_remedy_otherwise() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    for (sql, _) in PREVIEWS {
        let report = veil
            .ask(sql)
            .await
            .err()
            .unwrap_or_else(|| panic!("{sql} was answered"))
            .report();
        assert_eq!(report.sqlstate, "42501", "{sql}");
        assert!(report.message.contains("aggregate"), "{sql}: {report:?}");
    }
    assert_eq!(veil.spent().await, 0.0);
}

/// Excel and others write the database before the schema.
#[tokio::test(flavor = "multi_thread")]
async fn names_may_carry_their_database() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let requester = Requester {
        search_path: vec!["nls".to_owned()],
        ..Veil::requester()
    };
    for (sql, rows) in [
        ("SELECT count(*) FROM nls.nls.women", vec!["4711"]),
        (
            "SELECT nls.nls.women.race, count(nls.nls.women.birth_year) FROM \"nls\".nls.women \
                WHERE NLS.nls.women.race = 'other' GROUP BY 1",
            vec!["other|57"],
        ),
        ("SELECT count(*) FROM nls.nls.industries", vec!["12"]),
        (
            "SELECT count(*) > 0 FROM nls.pg_catalog.pg_class",
            vec!["t"],
        ),
        (
            "SELECT table_name FROM nls.information_schema.tables WHERE table_schema = 'nls' AND \
                table_name = 'women'",
            vec!["women"],
        ),
    ] {
        let found = veil
            .rows_as(&requester, sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {}", state(error)));
        assert_eq!(found, rows, "{sql}");
    }
    for sql in [
        "SELECT count(*) FROM other.nls.women",
        "SELECT * FROM other.pg_catalog.pg_class",
        "SELECT count(*) FROM \"NLS\".nls.women",
    ] {
        let refused = state(
            veil.ask_as(&requester, sql)
                .await
                .err()
                .unwrap_or_else(|| panic!("{sql} was answered")),
        );
        assert!(
            refused.starts_with("0A000 cross-database references are not implemented"),
            "{sql}: {refused}"
        );
    }
}
