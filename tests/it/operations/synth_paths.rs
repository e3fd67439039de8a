//! `pgveil synth` along the paths to the units: each made-up unit has rows of other tables, as many
//! as the summaries say, and alike.

use tokio_postgres::Client;

use super::synth::{Stage, VERIFIER, number, texts};

/// A separate schema, names that need quotes, no foreign keys, fixed-length texts and an enum as
/// keys, and a key of two columns of which no summary has one.
const TABLES: &str = "CREATE SCHEMA \"Ward Book\";
    SET search_path = \"Ward Book\";
    CREATE TYPE plan AS ENUM ('basic', 'full');
    CREATE TABLE \"People\" (\"Code\" char(8) PRIMARY KEY, region char(4) NOT NULL, \"Plan\" plan, \
        note text NOT NULL);
    INSERT INTO \"People\" SELECT 'p' || g, (ARRAY['east', 'we'])[1 + g % 2], \
        (ARRAY['basic', 'full', NULL])[1 + g % 3]::plan, 'canary ' || g \
        FROM generate_series(0, 2999) g;
    CREATE TABLE \"Stays\" (stay bigint NOT NULL UNIQUE, person char(8) NOT NULL, visit int NOT \
        NULL, year smallint NOT NULL, ward char(3) NOT NULL, \"Hours\" int, seen timestamptz NOT \
        NULL, PRIMARY KEY (person, visit), UNIQUE (year, person), UNIQUE (person, seen));
    INSERT INTO \"Stays\" SELECT 10 * g + k + 1000000, 'p' || g, k + 77, 2000 + k, \
        CASE WHEN g % 2 = 1 THEN 'c' WHEN (g / 6 + k) % 5 < 4 THEN 'a' ELSE 'b' END, \
        20 + 40 * (g % 2), timestamptz '2001-02-03 04:05:06.789+00' + k * interval '1 day' \
        FROM generate_series(0, 2999) g, generate_series(0, 4) k WHERE k < CASE g % 3 \
        WHEN 0 THEN (ARRAY[0, 1, 1, 2])[1 + g / 3 % 4] WHEN 1 THEN (ARRAY[2, 4, 5])[1 + g / 3 % 3] \
        ELSE (g / 3 % 4 = 0)::int END;
    CREATE TABLE \"Lines\" (stay bigint NOT NULL, is_drug boolean NOT NULL, amount int NOT NULL);
    INSERT INTO \"Lines\" SELECT stay, CASE WHEN ward = 'c' THEN k = 0 ELSE k < 2 END, 5 \
        FROM \"Stays\", generate_series(0, 2) k WHERE ward <> 'b';
    CREATE TABLE \"Bands\" (person char(8) PRIMARY KEY, colour text NOT NULL);
    INSERT INTO \"Bands\" SELECT \"Code\", 'red' FROM \"People\" WHERE \"Plan\" = 'full';";

fn policy() -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy:
  unit: person
  budget: {{epsilon: 60, delta: 1e-6}}
  per_query: {{epsilon: 0.5, max_epsilon: 10}}
roles:
  - {{name: analyst, password: {VERIFIER}, budget: {{epsilon: 50, delta: 1e-7}}}}
tables:
  Ward Book.Lines:
    unit: {{path: [stay -> Ward Book.Stays.stay, person -> Ward Book.People.Code], \
    trusted_path: true}}
    rows_per_unit: 15
    columns:
      is_drug: visible
      amount: {{bounds: [0, 9]}}
  Ward Book.Stays:
    unit: {{path: [person -> Ward Book.People.Code], trusted_path: true}}
    rows_per_unit: 5
    columns:
      stay: visible
      visit: visible
      year: {{bounds: [2000, 2004]}}
      ward: {{values: [a, b, c, d], complete: true}}
      Hours: {{bounds: [0, 100]}}
      seen: {{bounds: [2001-01-01, 2001-12-31]}}
  Ward Book.Bands:
    unit: {{path: [person -> Ward Book.People.Code], trusted_path: true}}
    rows_per_unit: 1
    columns:
      colour: {{values: [red, blue], complete: true}}
  Ward Book.People:
    unit: Code
    other_columns: visible
    columns:
      region: {{values: [east, we], complete: true}}
      Plan: {{values: [basic, full], complete: true}}
summaries:
  people: {{of: Ward Book.People, keys: [region, Plan, rows(Ward Book.Stays)], marginals: all 2, \
  epsilon: 9}}
  plain: {{of: Ward Book.People, keys: [region, Plan], marginals: all 2, epsilon: 9}}
  stays:
    of: Ward Book.Stays
    keys: [year, ward, People.region, People.Plan]
    measures: [Hours]
    marginals: all 2
    epsilon: 9
  bands: {{of: Ward Book.Bands, keys: [colour, People.Plan], marginals: all 2, epsilon: 5}}
  lines: {{of: Ward Book.Lines, keys: [is_drug, Stays.ward], marginals: all 2, epsilon: 9}}
"
    )
}

/// What is checked after loading, as constraints of the database: values and paths.
const HELD: &str = "ALTER TABLE \"Stays\" ADD FOREIGN KEY (person) REFERENCES \"People\", \
        ADD CHECK (year BETWEEN 2000 AND 2004), ADD CHECK (ward IN ('a', 'b', 'c', 'd')), \
        ADD CHECK (\"Hours\" BETWEEN 0 AND 100), ALTER visit SET NOT NULL, \
        ADD CHECK (seen BETWEEN '2001-01-01 00:00+00' AND '2001-12-31 00:00+00');
    ALTER TABLE \"People\" ADD CHECK (region IN ('east', 'we')), ALTER note SET NOT NULL;
    ALTER TABLE \"Bands\" ADD FOREIGN KEY (person) REFERENCES \"People\", \
        ADD CHECK (colour IN ('red', 'blue'));
    ALTER TABLE \"Lines\" ADD FOREIGN KEY (stay) REFERENCES \"Stays\" (stay);";

/// Whether all keys of the real tables hold: four of stays, one of people and of bands. And the
/// paths.
async fn keys_hold(made: &Client) {
    let set = "SET search_path = \"Ward Book\"";
    made.batch_execute(set).await.unwrap();
    let keys = "SELECT count(*) FROM pg_constraint WHERE connamespace = \
        '\"Ward Book\"'::regnamespace AND contype IN";
    assert_eq!(number(made, &format!("{keys} ('p', 'u')")).await, 6);
    assert_eq!(number(made, &format!("{keys} ('f')")).await, 3);
    made.batch_execute(HELD).await.unwrap();
}

/// People by how many stays they have, as a share of all of this region and plan, in percent.
fn with_stays(condition: &str, stays: &str) -> String {
    format!(
        "SELECT 100 * count(*) FILTER (WHERE n {stays}) / count(*) FROM (SELECT (SELECT count(*) \
            FROM \"Stays\" s WHERE s.person = p.\"Code\") AS n FROM \"People\" p WHERE \
            {condition}) q"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn units_have_the_rows_that_their_summary_counts() {
    let stage = Stage::over(TABLES, &policy()).await;
    let (done, said) = stage.run(&["summarize", "policy.yaml", "--yes"]);
    assert!(done, "{said}");
    for (name, more) in [("counted", &[][..]), ("inserted", &["--format", "sql"])] {
        let named = [
            "synth",
            "policy.yaml",
            "people",
            "stays",
            "lines",
            "bands",
            "--out",
            name,
        ];
        let (done, said) = stage.run(&[&named[..], more].concat());
        assert!(done, "{said}");
        for line in [
            "  rows: as many for each unit as its row says by rows(Ward Book.Stays)",
            "  People.region: that of the row that it refers to",
            "  visit: in no summary: another value in each row",
            "  rows(Ward Book.Stays): of another table, in no column here",
            "  rows: the same number for all rows of Ward Book.Stays that agree in the keys",
            "  person: refers to one of ",
        ] {
            assert!(said.contains(line), "{line} in {said}");
        }
        let text = texts(&stage.directory.0.join(name));
        for canary in ["canary", "10000", "p17"] {
            assert!(!text.contains(canary), "{canary}");
        }
        let made = stage.load(name).await;
        keys_hold(&made).await;
        units_are_alike(&made).await;
    }
}

/// The standard errors of a count are below 7 rows in each summary, so those of the shares below
/// are less than 1.5 percent, with that of the draw. They may be off by 10: no run in a million is.
async fn units_are_alike(made: &Client) {
    let near = async |sql: &str, wanted: i64| {
        let found = number(made, sql).await;
        assert!((found - wanted).abs() <= 10, "{sql}: {found}, not {wanted}");
    };
    // How many stays a person has, by plan: of the basic one 0, 1, 1 or 2.
    for (plan, stays, wanted) in [
        ("= 'basic'", "= 0", 25),
        ("= 'basic'", "= 1", 50),
        ("= 'basic'", "> 2", 0),
        ("= 'full'", "= 4", 33),
        ("= 'full'", "= 5", 33),
        ("= 'full'", "< 2", 0),
        ("IS NULL", "= 0", 75),
        ("IS NULL", "= 1", 25),
    ] {
        near(&with_stays(&format!("\"Plan\" {plan}"), stays), wanted).await;
    }
    let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM \"Stays\" GROUP BY person) q";
    assert!(number(made, most).await <= 5);
    // The ward, given the region of the person.
    let wards = |region: &str, ward: &str| {
        format!(
            "SELECT 100 * count(*) FILTER (WHERE ward = '{ward}') / count(*) FROM \"Stays\" s JOIN \
                \"People\" p ON p.\"Code\" = s.person WHERE p.region = '{region}'"
        )
    };
    for (region, ward, wanted) in [
        ("east", "a", 80),
        ("east", "b", 20),
        ("east", "c", 0),
        ("we", "c", 100),
        ("we", "a", 0),
    ] {
        near(&wards(region, ward), wanted).await;
    }
    near("SELECT avg(\"Hours\") FROM \"Stays\" WHERE ward = 'c'", 60).await;
    // Who has a band: everybody of the full plan, one each.
    let bands = |plan: &str| {
        format!(
            "SELECT 100 * count(b.person) / count(*) FROM \"People\" p LEFT JOIN \"Bands\" b ON \
                b.person = p.\"Code\" WHERE p.\"Plan\" {plan}"
        )
    };
    near(&bands("= 'full'"), 100).await;
    near(&bands("= 'basic'"), 0).await;
    // A line's kind, given the ward of its stay, of which ward b has none.
    let drugs = |ward: &str| {
        format!(
            "SELECT 100 * count(*) FILTER (WHERE is_drug) / count(*) FROM \"Lines\" JOIN \"Stays\" \
                USING (stay) WHERE ward = '{ward}'"
        )
    };
    near(&drugs("c"), 33).await;
    near(&drugs("a"), 67).await;
    near(
        "SELECT 100 * count(*) FILTER (WHERE ward = 'b') / count(*) FROM \"Lines\" JOIN \
            \"Stays\" USING (stay)",
        0,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_number_all_units_that_agree_have_as_many() {
    let stage = Stage::over(TABLES, &policy()).await;
    let (done, said) = stage.run(&["summarize", "policy.yaml", "--yes"]);
    assert!(done, "{said}");
    let (done, said) = stage.run(&["synth", "policy.yaml", "plain", "stays", "--out", "plain"]);
    assert!(done, "{said}");
    let line = "  rows: the same number for all rows of Ward Book.People that agree in the keys";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("Ward Book.Lines: empty"), "{said}");
    let made = stage.load("plain").await;
    let set = "SET search_path = \"Ward Book\"";
    made.batch_execute(set).await.unwrap();
    let spread = "SELECT max(most - least) FROM (SELECT max(n) AS most, min(n) AS least FROM \
        (SELECT p.region, p.\"Plan\", count(s.stay) AS n FROM \"People\" p LEFT JOIN \"Stays\" s \
        ON s.person = p.\"Code\" GROUP BY p.\"Code\") q GROUP BY region, \"Plan\") r";
    assert!(number(&made, spread).await <= 1);
    // The full plan has 11 of 3 stays a person, three times what the basic one has and more.
    let stays = |plan: &str| {
        format!(
            "SELECT 10 * count(s.stay) / count(DISTINCT p.\"Code\") FROM \"People\" p LEFT JOIN \
                \"Stays\" s ON s.person = p.\"Code\" WHERE p.\"Plan\" {plan}"
        )
    };
    for (plan, wanted) in [("= 'full'", 36), ("= 'basic'", 10), ("IS NULL", 2)] {
        let found = number(&made, &stays(plan)).await;
        assert!((found - wanted).abs() <= 2, "{plan}: {found}");
    }
    // Few rows of the largest table, and the others in proportion.
    let few = [
        "synth",
        "policy.yaml",
        "people",
        "stays",
        "--rows",
        "500",
        "--out",
        "few",
    ];
    let (done, said) = stage.run(&few);
    assert!(done, "{said}");
    let made = stage.load("few").await;
    made.batch_execute(set).await.unwrap();
    let found = number(&made, "SELECT count(*) FROM \"Stays\"").await;
    assert!((440..=560).contains(&found), "{found}");
    made.batch_execute(HELD).await.unwrap();
}
