//! EXPLAIN of an INSERT: how its columns are randomised, without its values and without the
//! database.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::{MEMO, Survey};

const COLUMNS: &str = "(\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \"Tea\", \
    \"Coffee\", \"Income\")";

fn insert(values: &str) -> String {
    format!("INSERT INTO \"Answers\" {COLUMNS} VALUES {values}")
}

async fn lines(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let line = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().to_owned()),
        _ => None,
    };
    messages.into_iter().filter_map(line).collect()
}

/// EXPLAIN says of each column what becomes of it, and of its values nothing: not even whether they
/// are in a list. Nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn it_says_how_columns_are_randomised_and_writes_nothing() {
    let survey = Survey::new(MEMO).await;
    let client = survey.client("collector").await;
    let row = "(1, 2, 'yes', 'flu', 'a', true, false, 2000)";
    let plain = lines(&client, &format!("EXPLAIN {}", insert(row))).await;
    assert_eq!(plain[0], "Insert on Survey.Answers");
    for (column, mechanism) in [
        ("Smoked", "coin"),
        ("Illness", "krr"),
        ("Letter", "krr"),
        ("Tea, Coffee", "unary"),
        ("Income", "mean"),
    ] {
        let begins = format!("  Reports: {column} by {mechanism}, made by pgveil; of 2^64");
        let line = plain.iter().find(|line| line.starts_with(&begins));
        let line = line.unwrap_or_else(|| panic!("{begins} {plain:#?}"));
        assert!(
            line.ends_with("a memo: the same report for the same unit and value"),
            "{line}"
        );
    }
    assert!(
        plain.contains(&"  As they are: Person, Wave".to_owned()),
        "{plain:#?}"
    );
    // Other values, more rows, values that would be refused: the same.
    let others = "(7, 3, 'canary', 'flu', NULL, false, true, 99999999), (1, 1, 'no', 'x', 'y', \
        true, \
        true, 1)";
    for other in [others, "('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')"] {
        let sql = format!("EXPLAIN {}", insert(other));
        assert_eq!(lines(&client, &sql).await, plain, "{sql}");
    }
    let verbose = lines(&client, &format!("EXPLAIN (VERBOSE) {}", insert(others))).await;
    assert_eq!(verbose[..plain.len()], plain);
    assert!(
        verbose[plain.len()].contains("VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"),
        "{verbose:#?}"
    );
    let json = lines(
        &client,
        &format!("EXPLAIN (FORMAT JSON) {}", insert(others)),
    )
    .await;
    let json: serde_json::Value = serde_json::from_str(&json.join("\n")).unwrap();
    assert_eq!(json[0]["insert_on"], "Survey.Answers");
    assert_eq!(json[0]["reports"].as_array().unwrap().len(), 5);
    assert!(!json.to_string().contains("canary"), "{json}");
    // As PostgreSQL, also where nothing may be written.
    client.batch_execute("BEGIN READ ONLY").await.unwrap();
    assert_eq!(
        lines(&client, &format!("EXPLAIN {}", insert(row))).await,
        plain
    );
    client.batch_execute("COMMIT").await.unwrap();
    // With parameters.
    let sql = format!(
        "EXPLAIN {}",
        insert("($1, 2, $2, 'flu', 'a', true, false, 2000)")
    );
    let prepared = client.prepare(&sql).await.unwrap();
    assert_eq!(prepared.columns()[0].name(), "QUERY PLAN");
    let rows = client.query(&prepared, &[&1i32, &"canary"]).await.unwrap();
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, plain);
    assert_eq!(survey.count().await, "0");
}

/// Without a memo, reports add up. What may not be written is not explained, and nothing is run to
/// be measured.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_refused_as_the_insert_is() {
    let survey = Survey::new("{memo: false}").await;
    let client = survey.client("collector").await;
    let row = "(1, 2, 'yes', 'flu', 'a', true, false, 2000)";
    let plain = lines(&client, &format!("EXPLAIN {}", insert(row))).await;
    let anew = plain
        .iter()
        .filter(|line| line.ends_with("so that reports of a unit add up"));
    assert_eq!(anew.count(), 5, "{plain:#?}");
    let code = async |client: &Client, sql: &str| {
        let refused = client.simple_query(sql).await.unwrap_err();
        let refused = refused.as_db_error().unwrap();
        assert!(!format!("{refused:?}").contains("canary"), "{refused:?}");
        refused.code().clone()
    };
    for (sql, wanted) in [
        (
            format!("EXPLAIN ANALYZE {}", insert(row)),
            SqlState::INSUFFICIENT_PRIVILEGE,
        ),
        (
            format!("EXPLAIN (ANALYZE, VERBOSE) {}", insert(row)),
            SqlState::INSUFFICIENT_PRIVILEGE,
        ),
        (
            "EXPLAIN INSERT INTO \"Others\" (\"Person\", smoked) VALUES (1, 'canary')".to_owned(),
            SqlState::INSUFFICIENT_PRIVILEGE,
        ),
        (
            "EXPLAIN INSERT INTO \"Answers\" (\"Person\", \"Wave\") VALUES (1, 2)".to_owned(),
            SqlState::FEATURE_NOT_SUPPORTED,
        ),
        (
            format!("EXPLAIN {} RETURNING \"Person\"", insert(row)),
            SqlState::FEATURE_NOT_SUPPORTED,
        ),
        (
            format!("EXPLAIN {}", insert("(1, 2, 'canary' 'flu')")),
            SqlState::FEATURE_NOT_SUPPORTED,
        ),
        (
            format!(
                "EXPLAIN {}",
                insert("($1, 2, 'yes', 'flu', 'a', true, false, 2000)")
            ),
            SqlState::UNDEFINED_PARAMETER,
        ),
        (
            "EXPLAIN COPY \"Answers\" FROM STDIN".to_owned(),
            SqlState::SYNTAX_ERROR,
        ),
        (
            "EXPLAIN UPDATE \"Answers\" SET \"Wave\" = 1".to_owned(),
            SqlState::INSUFFICIENT_PRIVILEGE,
        ),
    ] {
        assert_eq!(code(&client, &sql).await, wanted, "{sql}");
    }
    let analyst = survey.client("analyst").await;
    let sql = format!("EXPLAIN {}", insert(row));
    assert_eq!(code(&analyst, &sql).await, SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(survey.count().await, "0");
}
