//! Keys of the policy that change no other answer lose none: what a role has bought is shown again.

use pgveil::policy::Reuse;

use crate::fixture::{Veil, rows_of};

const TABLES: &str = "CREATE SCHEMA web;
    CREATE TABLE web.visits (id bigserial PRIMARY KEY, person int NOT NULL, seen date NOT NULL,
        ward text NOT NULL, fee int NOT NULL, smoked text NOT NULL);
    INSERT INTO web.visits (person, seen, ward, fee, smoked) SELECT g, DATE '2026-01-01' + g % 20,
        'ab'::char(1), g % 50, CASE WHEN g % 3 = 0 THEN 'yes' ELSE 'no' END
        FROM generate_series(1, 2000) AS g;
    CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA web TO writer;
    GRANT INSERT (person, seen, ward, fee, smoked) ON web.visits TO writer";

const PASSWORD: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==\
    $S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

fn policy() -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: person, budget: {{epsilon: 100, delta: 1e-5}}, per_query: {{epsilon: 1, \
    max_epsilon: 8}}}}
roles:
  - {{name: analyst, password: {PASSWORD}, budget: {{epsilon: 90, delta: 1e-6}}}}
limits: {{groups: 1000}}
tables:
  web.visits:
    unit: person
    rows_per_unit: 1
    columns:
      seen: {{bounds: [2026-01-01, 2026-12-31]}}
      ward: {{values: [a, b]}}
      fee: {{bounds: [0, 50]}}
      smoked: {{values: [no, yes], collected: {{mechanism: coin, truth: 1/2, yes: 1/2}}}}
"
    )
}

const QUESTIONS: [&str; 4] = [
    "SELECT count(*) FROM web.visits",
    "SELECT ward, sum(fee), avg(fee) FROM web.visits GROUP BY ward",
    "SELECT count(*) FROM web.visits WHERE smoked = 'yes' AND fee > 10",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY fee) FROM web.visits",
];

/// Monitors, a holdout, periods (also prepaid) and roles that write are added one after the other.
/// Each time a proxy with the new policy shows the same bytes, and the account stands as it was.
#[tokio::test(flavor = "multi_thread")]
async fn new_kinds_of_questions_lose_no_answer() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(TABLES).await.unwrap();
    let veil = Veil::over(fill, &policy(), None).await;
    let analyst = Veil::requester();
    let mut bought = Vec::new();
    for sql in QUESTIONS {
        bought.push(veil.rows_as(&analyst, sql).await.unwrap());
    }
    let spent = veil.spent().await;
    assert!(spent > 0.0);
    let rows = "    rows_per_unit: 1\n";
    let days = "column: seen, by: day, from: 2026-01-01, close_after: 1d";
    let once = format!("    periods: {{{days}}}\n");
    let prepaid = ", per_unit: 3, horizon: 90, append_only: true";
    let prepaid = format!("    periods: {{{days}{prepaid}}}\n");
    let changes: [(&str, Vec<(&str, String)>); 6] = [
        (
            "monitors",
            vec![(
                "{groups: 1000}",
                "{groups: 1000, monitor_questions: 50}".to_owned(),
            )],
        ),
        (
            "a holdout",
            vec![
                (
                    "{groups: 1000}",
                    "{groups: 1000, monitor_questions: 50}".to_owned(),
                ),
                (
                    rows,
                    format!(
                        "{rows}    holdout: {{rows: 2000, tolerance: 0.1, scale: 0.001, overflows: \
                            5}}\n"
                    ),
                ),
            ],
        ),
        ("periods", vec![(rows, format!("{rows}{once}"))]),
        ("prepaid periods", vec![(rows, format!("{rows}{prepaid}"))]),
        (
            "a role that writes",
            vec![
                (
                    "database: {url: \"${DATABASE_URL}\"}",
                    "database: {url: \"${DATABASE_URL}\", write_url: \"${DATABASE_WRITE_URL}\"}\n\
                        local: {memo: false}"
                        .to_owned(),
                ),
                (
                    "limits:",
                    format!(
                        "  - {{name: collector, password: {PASSWORD}, budget: none, writes: \
                            [web.visits]}}\nlimits:"
                    ),
                ),
                ("collected:", "local:".to_owned()),
            ],
        ),
        (
            "constraints",
            vec![(rows, format!("{rows}    constraints: shown\n"))],
        ),
    ];
    for (what, edits) in changes {
        let edit = |yaml: String| {
            let replaced = |yaml: String, (from, to): &(&str, String)| {
                assert!(yaml.contains(from), "{what}: {from}");
                yaml.replacen(from, to, 1)
            };
            edits.iter().fold(yaml, replaced)
        };
        let proxy = veil.proxy_with(&veil.ledger, edit).await;
        for (sql, bought) in QUESTIONS.iter().zip(&bought) {
            let shown = rows_of(&proxy, &analyst, sql).await.unwrap();
            assert_eq!(shown, *bought, "{what}: {sql}");
        }
        assert_eq!(veil.spent().await, spent, "{what}");
    }
    // What changes answers does lose them: the same questions are bought.
    let wider = |yaml: String| yaml.replace("fee: {bounds: [0, 50]}", "fee: {bounds: [0, 60]}");
    let proxy = veil.proxy_with(&veil.ledger, wider).await;
    assert_eq!(analyst.session_settings.reuse, Reuse::On);
    rows_of(&proxy, &analyst, QUESTIONS[0]).await.unwrap();
    assert!(veil.spent().await > spent);
}
