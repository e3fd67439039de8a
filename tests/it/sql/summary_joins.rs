//! Summaries by columns of joined tables: what they answer is PostgreSQL's own, whichever way the
//! tables are joined, and a question with other rows is not answered.

use pgveil::policy::Reuse;

use super::summaries::{free, make, precise, session, with_reuse};
use crate::fixture::Veil;

/// Names that need quotes, an enum, fixed-length text, no foreign keys, many rows a unit, stays of
/// nobody, and lines of no stay.
const CARE: &str = "CREATE SCHEMA \"Ward Book\";
    CREATE TYPE \"Ward Book\".plan AS ENUM ('basic', 'full');
    CREATE TABLE \"Ward Book\".\"Patients\" (\"Id\" int PRIMARY KEY, region varchar(5) NOT NULL,
        \"Plan\" \"Ward Book\".plan, born int NOT NULL);
    CREATE TABLE \"Ward Book\".\"Stays\" (stay int PRIMARY KEY, patient int NOT NULL,
        ward char(3) NOT NULL, hours int);
    CREATE TABLE \"Ward Book\".\"Lines\" (stay int, amount int NOT NULL, is_drug boolean NOT NULL);
    INSERT INTO \"Ward Book\".\"Patients\" SELECT g, (ARRAY['east', 'west'])[1 + g % 2],
        (ARRAY['basic', 'full', NULL])[1 + g % 3]::\"Ward Book\".plan, 1930 + g % 70
        FROM generate_series(1, 400) g;
    INSERT INTO \"Ward Book\".\"Stays\" SELECT g, 1 + g % 420, (ARRAY['a', 'b'])[1 + g % 2],
        (ARRAY[0, 20, 34, 35, 99, NULL])[1 + g % 6] FROM generate_series(1, 1500) g;
    INSERT INTO \"Ward Book\".\"Lines\" SELECT g % 1600, g % 10, g % 3 = 0
        FROM generate_series(1, 4000) g;";

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TC\
    AbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy:
  unit: patient
  budget: {epsilon: 100000000, delta: 1e-3}
  per_query: {epsilon: 5000, max_epsilon: 5000}
roles:
  - {name: analyst, password: VERIFIER, budget: {epsilon: 90000000, delta: 1e-4}}
tables:
  Ward Book.Patients:
    unit: Id
    columns:
      region: {values: [east, west], complete: true}
      Plan: {values: [basic, full], complete: true}
      born: {bounds: [1930, 1999]}
  Ward Book.Stays:
    unit: {path: [patient -> Ward Book.Patients.Id], trusted_path: true}
    rows_per_unit: 4
    columns:
      stay: visible
      ward: {values: [a, b], complete: true}
      hours: {bounds: [0, 100]}
  Ward Book.Lines:
    unit: {path: [stay -> Ward Book.Stays.stay, patient -> Ward Book.Patients.Id], \
    trusted_path: true}
    rows_per_unit: 20
    columns:
      amount: {bounds: [0, 9]}
      is_drug: visible
summaries:
  stays:
    of: Ward Book.Stays
    keys:
      hours: {bins: [0, 20, 35, 100]}
      Patients.region: values
      Ward Book.Patients.Plan: values
      Patients.born: {bins: [1930, 1950, 1970, 1999]}
    marginals: all 2
    measures: [hours]
    epsilon: 5000
  lines:
    of: Ward Book.Lines
    keys: {is_drug: values, Stays.hours: {bins: [0, 35, 100]}}
    marginals: all 2
    measures: [amount]
    epsilon: 5000
";

/// Whether the summaries alone answer the question; then the answer is PostgreSQL's.
async fn is_answered(veil: &Veil, sql: &str) -> bool {
    let mut requester = with_reuse("analyst", Reuse::Summary);
    requester.search_path = vec!["Ward Book".to_owned()];
    match veil.rows_as(&requester, sql).await {
        Ok(rows) => {
            let direct = format!("SET search_path = \"Ward Book\"; {sql}");
            assert_eq!(rows, veil.direct(&direct).await, "{sql}");
            true
        }
        Err(error) => {
            let refused = error.report();
            assert_eq!(refused.reason.id(), "not-held", "{sql}: {refused:?}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_with_the_same_join_are_answered() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(CARE).await.unwrap();
    let policy = POLICY.replace("VERIFIER", VERIFIER);
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    make(&veil, &veil.engine, &mut crate::fixture::Silent)
        .await
        .unwrap();
    let stays = "\"Stays\" AS s JOIN \"Patients\" AS p ON s.patient = p.\"Id\"";
    let reads = [
        stays,
        "\"Stays\" AS s JOIN \"Patients\" AS p ON p.\"Id\" = s.patient",
        "\"Patients\" AS p JOIN \"Stays\" AS s ON s.patient = p.\"Id\"",
        "\"Patients\" AS p INNER JOIN \"Stays\" AS s ON p.\"Id\" = s.patient",
    ];
    for from in reads {
        for condition in [
            "true",
            "p.region = 'east'",
            "p.region = 'west' AND s.hours < 35",
            "p.born >= 1950 AND p.\"Plan\" = 'basic'",
            "p.\"Plan\" IS NULL OR s.hours >= 20",
        ] {
            let sql = format!("SELECT count(*), count(s.hours) FROM {from} WHERE {condition}");
            assert!(is_answered(&veil, &sql).await, "{sql}");
        }
        let sql = format!(
            "SELECT p.region, count(s.hours) FROM {from} WHERE p.born < 1970 GROUP BY 1 ORDER BY 1"
        );
        assert!(is_answered(&veil, &sql).await, "{sql}");
    }
    let lines = "SELECT count(*), sum(l.amount) FROM \"Lines\" AS l";
    let joined = format!("{lines} JOIN \"Stays\" AS s ON l.stay = s.stay");
    for sql in [
        format!("{joined} WHERE s.hours < 35"),
        format!("{joined} WHERE s.hours >= 35 AND l.is_drug"),
    ] {
        assert!(is_answered(&veil, &sql).await, "{sql}");
    }
    // A line of no stay belongs to nobody, so the planner's own join reads these rows. PostgreSQL
    // has them too.
    let analyst = {
        let mut analyst = with_reuse("analyst", Reuse::Summary);
        analyst.search_path = vec!["Ward Book".to_owned()];
        analyst
    };
    let rows = veil.rows_as(&analyst, lines).await.unwrap();
    let direct = format!("SET search_path = \"Ward Book\"; {joined}");
    assert_eq!(rows, veil.direct(&direct).await);
    for sql in [
        // Without the join there are the stays of nobody in the list of patients, too.
        "SELECT count(*) FROM \"Stays\"".to_owned(),
        "SELECT count(*) FROM \"Patients\" AS p WHERE p.region = 'east'".to_owned(),
        format!("SELECT count(*) FROM {stays} WHERE p.born < 1951"),
        "SELECT count(*) FROM \"Stays\" AS s LEFT JOIN \"Patients\" AS p ON s.patient = p.\"Id\" \
            WHERE p.region = 'east' OR s.hours < 20"
            .to_owned(),
        "SELECT count(*) FROM \"Stays\" AS s JOIN \"Patients\" AS p ON s.patient = p.\"Id\" AND \
            s.hours = 20"
            .to_owned(),
    ] {
        assert!(!is_answered(&veil, &sql).await, "{sql}");
    }
    let shown = "SELECT keys FROM pgveil.summaries WHERE summary_name = 'stays'";
    let shown = veil.rows_as(&analyst, shown).await.unwrap();
    let keys = "hours [0, 20, 35, 100], Patients.region, Patients.Plan, Patients.born [1930, 1950, \
        1970, 1999]";
    assert_eq!(shown, [keys]);
}

/// Summaries of lines by columns of other tables alone, one step away and two.
#[tokio::test(flavor = "multi_thread")]
async fn keys_may_all_be_of_other_tables() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(CARE).await.unwrap();
    let policy = POLICY.replace("VERIFIER", VERIFIER);
    let own =
        "    keys: {is_drug: values, Stays.hours: {bins: [0, 35, 100]}}\n    marginals: all 2\n";
    let other = own
        .replace("is_drug: values, ", "")
        .replace("all 2", "all 1");
    assert!(policy.contains(own));
    let policy = policy.replace(own, &other)
        + "  far:
    of: Ward Book.Lines
    keys: {Patients.region: values, Stays.hours: {bins: [0, 35, 100]}}
    marginals: all 2
    measures: [amount]
    epsilon: 5000
";
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    make(&veil, &veil.engine, &mut crate::fixture::Silent)
        .await
        .unwrap();
    let lines = "SELECT count(*), sum(l.amount) FROM";
    for from in [
        "\"Lines\" AS l JOIN \"Stays\" AS s USING (stay)",
        "\"Stays\" AS s JOIN \"Lines\" AS l USING (stay)",
    ] {
        for condition in ["true", "s.hours < 35", "s.hours IS NULL"] {
            let sql = format!("{lines} {from} WHERE {condition}");
            assert!(is_answered(&veil, &sql).await, "{sql}");
        }
    }
    let (of_stay, of_patient) = ("l.stay = s.stay", "p.\"Id\" = s.patient");
    for from in [
        format!("\"Lines\" l JOIN \"Stays\" s ON {of_stay} JOIN \"Patients\" p ON {of_patient}"),
        format!("\"Patients\" p JOIN \"Stays\" s ON {of_patient} JOIN \"Lines\" l ON {of_stay}"),
        format!("\"Stays\" s JOIN \"Patients\" p ON {of_patient} JOIN \"Lines\" l ON {of_stay}"),
        format!("\"Stays\" s JOIN \"Lines\" l ON {of_stay} JOIN \"Patients\" p ON {of_patient}"),
    ] {
        for condition in [
            "true",
            "p.region = 'east'",
            "p.region = 'west' AND s.hours < 35",
        ] {
            let sql = format!("{lines} {from} WHERE {condition}");
            assert!(is_answered(&veil, &sql).await, "{sql}");
        }
    }
    // The planner's own join reads the rows of the first summary.
    let mut analyst = with_reuse("analyst", Reuse::Summary);
    analyst.search_path = vec!["Ward Book".to_owned()];
    let rows = veil
        .rows_as(&analyst, &format!("{lines} \"Lines\" AS l"))
        .await;
    let direct = "\"Lines\" AS l JOIN \"Stays\" AS s ON l.stay = s.stay";
    let direct = format!("SET search_path = \"Ward Book\"; {lines} {direct}");
    assert_eq!(rows.unwrap(), veil.direct(&direct).await);
}

/// A number of rows as a key: questions about the other keys are answered as without it, and the
/// statement that the documents show.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_rows_is_a_key() {
    let plain = "keys: [race, birth_year, college_graduate]";
    let counted = "keys: {race: values, birth_year: values, rows(nls.interviews): {bins: [0, 1, 5, \
        10, 30]}}";
    let with_rows = |yaml| precise(yaml).replace(plain, counted);
    let veil = Veil::demo(with_rows, Veil::silent()).await;
    make(&veil, &veil.engine, &mut crate::fixture::Silent)
        .await
        .unwrap();
    let documents = include_str!("../../../docs/summaries.md");
    let mut shown = documents.split("```sql\n").skip(1);
    let shown = shown.find(|block| block.contains("width_bucket(coalesce"));
    let shown = shown.and_then(|block| block.split_once(';')).unwrap().0;
    let analyst = session("analyst");
    for sql in [
        "SELECT count(*) FROM nls.women",
        "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT count(*), sum(years_of_school) FROM nls.women WHERE race = 'black' AND birth_year \
            BETWEEN 1944 AND 1948",
        // A bin that nobody is in is listed, with 0.
        &format!("{shown} HAVING count(*) > 0 ORDER BY 1"),
    ] {
        assert!(free(&veil, &analyst, sql).await, "{sql} was bought");
    }
    for sql in [
        "SELECT count(*) FROM (SELECT woman_id, count(*) AS n FROM nls.interviews GROUP BY \
            woman_id) AS q WHERE n >= 5"
            .to_owned(),
        // Another bin begins within one of the summary's.
        format!("{shown} HAVING count(*) > 0 ORDER BY 1").replace("[1, 5, 10]", "[1, 6, 10]"),
        // A number that is limited by a condition is another one.
        format!("{shown} HAVING count(*) > 0 ORDER BY 1")
            .replace("AS i GROUP", "AS i WHERE i.south = 1 GROUP"),
    ] {
        assert!(!free(&veil, &analyst, &sql).await, "{sql} was free");
    }
    let shown = "SELECT keys FROM pgveil.summaries WHERE summary_name = 'women'";
    let shown = veil.rows_as(&analyst, shown).await.unwrap();
    assert_eq!(
        shown,
        ["race, birth_year, rows(nls.interviews) [0, 1, 5, 10, 30]"]
    );
}
