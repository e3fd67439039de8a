//! Questions that read the moment of a period below their conditions too: they are bought as a
//! whole, and are PostgreSQL's own.

use pgveil::engine::Requester;
use pgveil::policy::SessionSettings;

use crate::fixture::Veil;

/// Twenty days of samples, some of donors who gave none; public days off and public hours of duty,
/// by columns of the moment's own name and by others.
const SCHEMA: &str = "
CREATE SCHEMA \"North Lab\";
CREATE TABLE \"North Lab\".\"Donors\" (\"Id\" int PRIMARY KEY, town text NOT NULL);
CREATE TABLE \"North Lab\".\"Samples\" (id int PRIMARY KEY, \"Donor\" int NOT NULL REFERENCES \
\"North Lab\".\"Donors\", \"TakenOn\" date NOT NULL, \"mL\" int NOT NULL);
CREATE TABLE \"North Lab\".\"DaysOff\" (\"TakenOn\" date PRIMARY KEY, name text NOT NULL);
CREATE TABLE \"North Lab\".\"Duties\" (\"From\" date PRIMARY KEY, \"Until\" date NOT NULL, who \
text NOT NULL);
INSERT INTO \"North Lab\".\"Donors\" SELECT g, (ARRAY['x', 'y'])[1 + g % 2] FROM \
generate_series(1, 60) AS g;
INSERT INTO \"North Lab\".\"Samples\" SELECT g, 1 + g % 40, date '2024-03-01' + g % 20, g % 90 \
FROM generate_series(1, 960) AS g;
INSERT INTO \"North Lab\".\"DaysOff\" VALUES ('2024-03-05', 'a'), ('2024-03-08', 'b'), \
('2024-03-15', 'c');
INSERT INTO \"North Lab\".\"Duties\" VALUES ('2024-03-01', '2024-03-05', 'Ann'), ('2024-03-06', \
'2024-03-09', 'Bo');";

fn policy() -> String {
    "\
version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${LEDGER_URL}\"}
privacy: {unit: donor, budget: {epsilon: 100000000, delta: 1e-3}, per_query: {epsilon: 5000, \
max_epsilon: 9000}}
limits: {groups_per_unit: 50, rows_per_unit: 60}
roles:
  - {name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==\
$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", \
budget: {epsilon: 90000000, delta: 1e-4}}
tables:
  North Lab.Donors: {unit: Id, columns: {town: {values: [x, y], complete: true}}}
  North Lab.Samples:
    unit: {path: [Donor -> North Lab.Donors.Id]}
    periods: {column: TakenOn, by: day, from: 2024-03-01, close_after: 2d}
    columns: {TakenOn: visible, mL: {bounds: [0, 100]}}
  North Lab.DaysOff: public
  North Lab.Duties: public
"
    .to_owned()
}

const WEEK: &str = "s.\"TakenOn\" >= '2024-03-04' AND s.\"TakenOn\" < '2024-03-11'";

/// Samples by day, from this FROM clause and with these conditions.
fn by_day(from: &str, conditions: &str) -> String {
    format!(
        "SELECT s.\"TakenOn\", count(*), sum(s.\"mL\") FROM {from} WHERE {conditions} GROUP BY \
            s.\"TakenOn\" HAVING count(*) > 0 ORDER BY 1"
    )
}

/// Whether a question is answered by periods, and what an answer that is PostgreSQL's own costs.
async fn asked(veil: &Veil, requester: &Requester, sql: &str) -> (bool, f64) {
    let lines = veil
        .explained(requester.session_settings, &format!("EXPLAIN {sql}"))
        .await;
    let is_by_periods = lines.iter().any(|line| line.starts_with("By periods of"));
    let spent = async || {
        let balance = veil.engine.ledger().balance(&requester.role).await;
        balance.unwrap().spent.mu_squared.to_f64()
    };
    let before = spent().await;
    veil.answers_as_postgresql(requester, &[sql]).await;
    (is_by_periods, spent().await - before)
}

async fn lab() -> (Veil, Requester) {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
    };
    let veil = Veil::over(fill, &policy(), Veil::silent()).await;
    let analyst = Requester {
        role: "analyst".to_owned(),
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    };
    (veil, analyst)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_a_join_reads_too_is_no_period() {
    let (veil, analyst) = lab().await;
    let (samples, donors) = ("\"North Lab\".\"Samples\"", "\"North Lab\".\"Donors\"");
    let (off, duties) = ("\"North Lab\".\"DaysOff\"", "\"North Lab\".\"Duties\"");
    // A join that does not read it leaves the question one by periods.
    let plain = by_day(
        &format!("{samples} AS s JOIN {donors} AS d ON d.\"Id\" = s.\"Donor\""),
        WEEK,
    );
    let (is_by_periods, paid) = asked(&veil, &analyst, &plain).await;
    assert!(is_by_periods && paid > 0.0, "{paid}");
    for (from, conditions) in [
        (
            format!("{samples} AS s JOIN {off} AS o ON o.\"TakenOn\" = s.\"TakenOn\""),
            WEEK.to_owned(),
        ),
        (
            format!("{samples} AS s JOIN {off} AS o USING (\"TakenOn\")"),
            WEEK.to_owned(),
        ),
        (
            format!("{samples} AS s NATURAL LEFT JOIN {off} AS o"),
            WEEK.to_owned(),
        ),
        (
            format!("{samples} AS s LEFT JOIN {off} AS o ON o.\"TakenOn\" = s.\"TakenOn\" - 1"),
            WEEK.to_owned(),
        ),
        (
            format!(
                "{samples} AS s JOIN {duties} AS u ON s.\"TakenOn\" BETWEEN u.\"From\" AND \
                    u.\"Until\""
            ),
            WEEK.to_owned(),
        ),
        // A bound within the join, of days that the conditions do not ask for alone.
        (
            format!(
                "{samples} AS s JOIN {donors} AS d ON d.\"Id\" = s.\"Donor\" AND s.\"TakenOn\" > \
                    '2024-03-05'"
            ),
            WEEK.to_owned(),
        ),
        (
            format!(
                "(SELECT * FROM {samples} WHERE \"TakenOn\" <> '2024-03-06') AS s JOIN {donors} \
                    AS d ON d.\"Id\" = s.\"Donor\""
            ),
            WEEK.to_owned(),
        ),
        // A column that is computed from it.
        (
            format!("(SELECT *, extract(dow FROM \"TakenOn\") AS \"Weekday\" FROM {samples}) AS s"),
            format!("{WEEK} AND s.\"Weekday\" < 4"),
        ),
        (
            format!("{samples} AS s"),
            format!(
                "{WEEK} AND EXISTS (SELECT 1 FROM {off} AS o WHERE o.\"TakenOn\" = s.\"TakenOn\")"
            ),
        ),
    ] {
        let sql = by_day(&from, &conditions);
        let (is_by_periods, first) = asked(&veil, &analyst, &sql).await;
        assert!(!is_by_periods && first > 0.0, "{sql}: {first}");
        // Other days are another question.
        let narrower = sql.replace("2024-03-11", "2024-03-10");
        let (is_by_periods, second) = asked(&veil, &analyst, &narrower).await;
        assert!(!is_by_periods && second > 0.0, "{narrower}: {second}");
    }
}

/// Donors without a sample have no moment: no period has their group.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_join_fills_with_null_are_not_lost() {
    let (veil, analyst) = lab().await;
    let from = "\"North Lab\".\"Donors\" AS d LEFT JOIN \"North Lab\".\"Samples\" AS s ON \
        s.\"Donor\" = d.\"Id\"";
    let sql = format!("SELECT s.\"TakenOn\", count(*) FROM {from} GROUP BY 1 ORDER BY 1");
    let (is_by_periods, _) = asked(&veil, &analyst, &sql).await;
    assert!(!is_by_periods);
    let rows = veil.rows_as(&analyst, &sql).await.unwrap();
    assert!(rows.contains(&"∅|20".to_owned()), "{rows:?}");
    // With a bound there are none without a moment.
    let (is_by_periods, paid) = asked(&veil, &analyst, &by_day(from, WEEK)).await;
    assert!(is_by_periods && paid > 0.0, "{paid}");
}
