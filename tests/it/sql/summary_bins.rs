//! Bins of a summary's keys: what they answer is PostgreSQL's own, and a question that cuts through
//! a bin is not answered.

use pgveil::policy::Reuse;

use super::summaries::{make, with_reuse};
use crate::fixture::Veil;
use crate::privacy::neighbour::random::{Random, seeds};

/// Names that need quotes, an enum, fixed-length text, no key, and several rows a unit. Values lie
/// on edges, next to them, past the bounds, and nowhere: NULL, NaN, infinities, negative zero.
const STAYS: &str = "CREATE SCHEMA \"Ward Book\";
    CREATE TYPE \"Ward Book\".ward AS ENUM ('north', 'south');
    CREATE TABLE \"Ward Book\".\"Stays\" (patient int NOT NULL, \"Ward\" \"Ward Book\".ward,
        kind char(3) NOT NULL, \"Hours\" int, cost numeric(8, 2), score double precision,
        seen date NOT NULL, \"At\" timestamptz, noted timestamp);
    INSERT INTO \"Ward Book\".\"Stays\" SELECT g % 500,
        (ARRAY['north', 'south', NULL])[1 + g % 3]::\"Ward Book\".ward,
        (ARRAY['a', 'b'])[1 + g % 2],
        (ARRAY[0, 19, 20, 21, 34, 35, 44, 45, 46, 100, 250, -5, NULL])[1 + g % 13],
        (ARRAY[0, 10.49, 10.5, 10.51, 99.98, 99.99, 100, 1000, 5000, -3, NULL])[1 + g % 11],
        (ARRAY[-0.0, 0.0, 0.1, 0.09999999999999999, 2.5, 1e300, '-Infinity', 'Infinity', 'NaN',
            -1, 1e-300, NULL])[1 + g % 12],
        date '2000-12-30' + g % 401,
        timestamptz '2001-01-01 00:00:00+00' + (g % 17) * interval '1 hour'
            - (g % 2) * interval '1 microsecond',
        timestamp '2001-01-31 23:59:59.999999' + (g % 3) * interval '1 microsecond'
        FROM generate_series(1, 3000) g;";

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
  Ward Book.Stays:
    unit: patient
    rows_per_unit: 6
    columns:
      Ward: {values: [north, south], complete: true}
      kind: {values: [a, b], complete: true}
      Hours: {bounds: [0, 100]}
      cost: {bounds: [0, 1000]}
      score: {bounds: [-1, 2.5]}
      seen: {bounds: [2001-01-01, 2001-12-31]}
      At: {bounds: [\"2001-01-01 00:00:00+00\", \"2001-01-02 00:00:00+00\"]}
      noted: {bounds: [\"2001-01-01 00:00:00\", \"2001-12-31 00:00:00\"]}
summaries:
  stays:
    of: Ward Book.Stays
    keys:
      Ward: values
      kind: values
      Hours: {bins: [0, 20, 35, 45, 100]}
      cost: {bins: [0, 10.5, 99.99, 1000]}
      score: {bins: [-1, 0, 0.1, 2.5]}
      seen: {bins: [2001-01-01, 2001-02-01, 2001-03-01, 2001-12-31]}
      At: {bins: [\"2001-01-01 00:00:00+00\", \"2001-01-01 07:00:00+00\", \
    \"2001-01-02 00:00:00+00\"]}
      noted: {bins: [\"2001-01-01 00:00:00\", \"2001-02-01 00:00:00\", \"2001-12-31 00:00:00\"]}
    measures: [cost]
    marginals: all 2
    epsilon: 5000
";

async fn stays() -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(STAYS).await.unwrap();
    let policy = POLICY.replace("VERIFIER", VERIFIER);
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    make(&veil, &veil.engine, &mut crate::fixture::Silent)
        .await
        .unwrap();
    veil
}

/// Whether the summary alone answers the question; then its answer is PostgreSQL's.
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

const ANSWERED: [&str; 38] = [
    "true",
    "\"Hours\" < 35",
    "\"Hours\" >= 20 AND \"Hours\" < 45",
    "\"Hours\" BETWEEN 20 AND 44",
    "\"Hours\" > 19",
    "\"Hours\" > 34.5",
    "\"Hours\" >= 19.5",
    "\"Hours\" + 5 < 40",
    "\"Hours\" / 5 >= 7",
    "45 <= \"Hours\"",
    "\"Hours\" IS NULL",
    "NOT \"Hours\" < 45",
    "(\"Hours\" < 20) IS NOT TRUE",
    "\"Hours\" < 20 OR \"Ward\" = 'north'",
    "width_bucket(\"Hours\", ARRAY[20, 45]) = 1",
    "CASE WHEN \"Hours\" < 35 THEN 'part' ELSE 'full' END = 'full'",
    "cost < 10.5",
    "cost < 10.500",
    "cost >= 99.99 AND \"Ward\" = 'north'",
    "NOT cost < 99.99",
    "score < 0",
    "score >= -0.0",
    "score < 0.1",
    "score < 0.10000000000000000001",
    "score >= 0.1",
    "score IS NOT NULL",
    "seen < '2001-02-01'",
    "seen <= '2001-01-31'",
    "seen >= timestamp '2001-03-01'",
    "seen < timestamp '2001-01-31 00:00:01'",
    "seen + 1 > date '2001-02-01'",
    "\"At\" < '2001-01-01 07:00:00+00'",
    "\"At\" >= '2001-01-01 07:00:00+00'",
    "\"At\" <= '2001-01-01 06:59:59.999999+00'",
    "noted < '2001-02-01'",
    "noted::date <= '2001-01-31'",
    "date_trunc('day', noted) >= '2001-02-01'",
    "\"Hours\" < 20 AND seen < '2001-02-01'",
];

const CUT: [&str; 16] = [
    "\"Hours\" < 34",
    "\"Hours\" <= 35",
    "\"Hours\" = 20",
    "\"Hours\" = 100",
    "\"Hours\" IN (20, 21)",
    "\"Hours\" % 2 = 0",
    "cost <= 10.5",
    "cost < 10.49",
    "score <= 0",
    "score > 0.1",
    "score < 0.09999999999999999",
    "seen = '2001-02-01'",
    "seen > '2001-02-01'",
    "\"At\" <= '2001-01-01 07:00:00+00'",
    "\"Hours\" < cost",
    // Three keys, of which no set has all.
    "\"Hours\" < 20 AND cost < 10.5 AND kind = 'a'",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_where_it_cuts_through_no_bin() {
    let veil = stays().await;
    for condition in ANSWERED {
        let sql = format!("SELECT count(*) FROM \"Stays\" WHERE {condition}");
        assert!(is_answered(&veil, &sql).await, "{sql}");
    }
    for condition in CUT {
        let sql = format!("SELECT count(*) FROM \"Stays\" WHERE {condition}");
        assert!(!is_answered(&veil, &sql).await, "{sql}");
    }
    for (key, condition) in [
        ("\"Hours\" < 35", "cost < 10.5"),
        (
            "CASE WHEN \"Hours\" < 20 THEN 'a' ELSE 'b' END",
            "\"Ward\" = 'south'",
        ),
        ("kind", "\"At\" < '2001-01-01 07:00:00+00'"),
        ("\"Ward\"", "score < 0.1"),
        ("width_bucket(\"Hours\", ARRAY[20, 35, 45])", "true"),
        (
            "width_bucket(seen, ARRAY[date '2001-02-01'])",
            "seen >= '2001-02-01'",
        ),
    ] {
        let sql = format!(
            "SELECT {key}, count(*) FROM \"Stays\" WHERE {condition} GROUP BY 1 HAVING \
                count(*) > 0 ORDER BY 1"
        );
        assert!(is_answered(&veil, &sql).await, "{sql}");
    }
    // Costs past the bounds are summed as the bounds, so PostgreSQL's own sum is of those.
    let clipped = "least(greatest(cost, 0), 1000)";
    let sums = "SELECT sum(cost) FROM \"Stays\" WHERE \"Hours\" < 20";
    let analyst = {
        let mut analyst = with_reuse("analyst", Reuse::Summary);
        analyst.search_path = vec!["Ward Book".to_owned()];
        analyst
    };
    let rows = veil.rows_as(&analyst, sums).await.unwrap();
    let direct = format!(
        "SET search_path = \"Ward Book\"; {}",
        sums.replace("cost", clipped)
    );
    assert_eq!(rows, veil.direct(&direct).await);
    let shown = veil
        .rows_as(&analyst, "SELECT keys, marginals FROM pgveil.summaries")
        .await;
    let shown = shown.unwrap().join("");
    assert!(
        shown.starts_with("Ward, kind, Hours [0, 20, 35, 45, 100], cost [0, 10.5, 99.99, 1000], ")
            && shown.contains("(Ward, Hours)"),
        "{shown}"
    );
}

/// A comparison of a binned column with a constant on an edge, next to it, or elsewhere within the
/// bounds.
fn atom(random: &mut Random) -> String {
    let operators = ["<", "<=", ">", ">=", "=", "<>"];
    let (column, constants): (&str, &[&str]) = match random.below(7) {
        0 => (
            "\"Hours\"",
            &["20", "35", "45", "19", "34.5", "44", "46", "60"],
        ),
        1 => ("\"Hours\" + 1", &["21", "36", "20", "46"]),
        2 => (
            "cost",
            &["10.5", "10.50", "10.49", "99.99", "99.985", "100"],
        ),
        3 => (
            "score",
            &["0", "-0.0", "0.1", "1e-1", "0.2", "0.10000000000000000001"],
        ),
        4 => (
            "seen",
            &[
                "date '2001-02-01'",
                "date '2001-01-31'",
                "timestamp '2001-03-01'",
            ],
        ),
        5 => (
            "\"At\"",
            &[
                "timestamptz '2001-01-01 07:00:00+00'",
                "timestamptz '2001-01-01 06:00:00+00'",
            ],
        ),
        _ => {
            return random
                .pick(&["\"Ward\" = 'north'", "kind <> 'a'", "score IS NULL"])
                .to_owned();
        }
    };
    let (operator, constant) = (random.pick(&operators), random.pick(constants));
    match random.below(8) {
        0 => format!("{constant} {operator} {column}"),
        1 => format!("{column} IN ({constant})"),
        2 => format!("({column} {operator} {constant}) IS NOT TRUE"),
        _ => format!("{column} {operator} {constant}"),
    }
}

fn condition(random: &mut Random, depth: usize) -> String {
    let of = |random: &mut Random| condition(random, depth - 1);
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 => atom(random),
        1 => format!("({} OR {})", of(random), of(random)),
        2 => format!("({} AND {})", of(random), of(random)),
        _ => format!("NOT {}", of(random)),
    }
}

/// Whatever is asked, the summary's answer is PostgreSQL's, or there is none.
#[tokio::test(flavor = "multi_thread")]
async fn random_questions_are_postgresqls_own_or_refused() {
    let veil = stays().await;
    for seed in seeds() {
        let mut random = Random::new(seed);
        let (mut answered, mut refused) = (0, 0);
        for _ in 0..150 {
            let filter = condition(&mut random, 1);
            let depth = random.below(2);
            let key = match random.below(3) {
                0 => "kind".to_owned(),
                1 => format!(
                    "CASE WHEN {} THEN 'x' ELSE 'y' END",
                    condition(&mut random, depth)
                ),
                _ => "width_bucket(\"Hours\", ARRAY[20, 35, 45])".to_owned(),
            };
            let sql = match random.below(3) {
                0 => format!("SELECT count(*) FROM \"Stays\" WHERE {filter}"),
                1 => format!(
                    "SELECT count(*) FILTER (WHERE {filter}), count(*) FILTER (WHERE {}), count(*) \
                        FROM \"Stays\"",
                    atom(&mut random)
                ),
                _ => format!(
                    "SELECT {key}, count(*) FROM \"Stays\" WHERE {filter} GROUP BY 1 HAVING \
                        count(*) > 0 ORDER BY 1"
                ),
            };
            match is_answered(&veil, &sql).await {
                true => answered += 1,
                false => refused += 1,
            }
        }
        assert!(
            answered > 15 && refused > 15,
            "{answered} {refused}, seed {seed}"
        );
    }
}

/// A real is compared with an edge as a real: 0.7 of this type is below 0.7 of the wider one.
#[tokio::test(flavor = "multi_thread")]
async fn bought_bins_of_a_real_answer_no_comparison() {
    let schema = "CREATE SCHEMA lab; CREATE TABLE lab.runs (person int NOT NULL, f4 real NOT NULL);
        INSERT INTO lab.runs SELECT g, (ARRAY[0.5, 0.7, 0.9, 1])[1 + g % 4]
        FROM generate_series(1, 400) g;";
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(schema).await.unwrap();
    let (head, _) = POLICY.split_once("tables:").unwrap();
    let runs =
        "tables:\n  lab.runs: {unit: person, rows_per_unit: 1, columns: {f4: {bounds: [0, 1]}}}\n";
    let policy = format!("{head}{runs}").replace("VERIFIER", VERIFIER);
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    let (analyst, runs) = (Veil::requester(), "count(*) FROM lab.runs");
    for sql in [
        format!("SELECT width_bucket(f4::float8, ARRAY[0.7, 0.9]), {runs} GROUP BY 1 ORDER BY 1"),
        format!("SELECT {runs} WHERE f4 < '0.7'"),
        format!("SELECT {runs} WHERE f4 >= '0.9'"),
        format!("SELECT {runs} WHERE f4 < 0.7"),
        format!("SELECT {runs} WHERE f4 <= 0.7::real"),
        format!("SELECT {runs} WHERE f4 IN (0.7, 0.9)"),
        format!("SELECT {runs} WHERE f4 IN (0.7)"),
        format!("SELECT {runs} WHERE f4 = ANY (ARRAY[0.7, 0.9])"),
        format!("SELECT {runs} WHERE coalesce(f4, 0.7) = 0.7"),
        format!("SELECT {runs} WHERE CASE WHEN person > 0 THEN f4 ELSE 0.7 END >= 0.9"),
        format!("SELECT {runs} WHERE greatest(f4, 0.7) = 0.7"),
        format!("SELECT {runs} WHERE nullif(f4, 0.7) IS NULL"),
        format!("SELECT {runs} WHERE CASE WHEN person < 0 THEN f4 ELSE 0.7 END = 0.7::real"),
        format!("SELECT {runs} WHERE least(f4, 0.7) = 0.7::real"),
        format!("SELECT {runs} WHERE greatest(f4, 16777217) = 16777216"),
        format!("SELECT {runs} WHERE greatest(f4, 16777217) <> 16777217"),
        format!("SELECT {runs} WHERE least(f4, 0) = 0"),
        format!("SELECT {runs} WHERE greatest(f4, 0.1)::float8 > 0.1"),
        format!("SELECT {runs} WHERE f4 BETWEEN 0.7 AND 0.9"),
    ] {
        veil.answers_as_postgresql(&analyst, &[&sql]).await;
    }
    let asked = veil.ask("SELECT width_bucket(f4, ARRAY[0.7]), count(*) FROM lab.runs GROUP BY 1");
    assert_eq!(
        asked.await.unwrap_err().report().message,
        "width_bucket() of real is not supported over private tables"
    );
}
