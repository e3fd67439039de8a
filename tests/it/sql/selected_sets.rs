//! Summaries whose sets are selected from the data: what a role sees before it has paid for the
//! selection, and after.

use std::sync::Arc;

use pgveil::engine::{Engine, Requester, Service, SetsQuestion, SummaryMaker};
use pgveil::execute::Backend;
use pgveil::mechanism::Sampler;
use pgveil::parse::{Statement, parse};
use pgveil::policy::Reuse;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio_util::sync::CancellationToken;

use super::summaries::{make, session, spent, with_reuse};
use crate::fixture::{Silent, Stream, Veil, answer_of, rows_of};

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

/// Names that need quotes, an enum, no foreign keys, and people with many rows.
const TABLES: &str = "CREATE SCHEMA \"Bus Lines\";
    CREATE TYPE \"Bus Lines\".fare AS ENUM ('child', 'full', 'it''s free');
    CREATE TABLE \"Bus Lines\".rides (rider bigint NOT NULL, \"Fare\" \"Bus Lines\".fare NOT NULL, \
        zone smallint NOT NULL, weekday int, line text NOT NULL, paid int);";

/// The zone is that of the fare, but for a tenth of the rides. Nothing else depends on anything.
const ROWS: &str = "INSERT INTO \"Bus Lines\".rides SELECT g / 4, (ARRAY['child', 'full', \
        'it''s free'])[1 + g / 4 % 3]::\"Bus Lines\".fare, CASE WHEN g / 120 % 10 = 0 THEN 3 \
        ELSE g / 4 % 3 END, nullif(g / 12 % 5, 4), (ARRAY['a', 'b'])[1 + g / 60 % 2], g % 9 FROM \
        generate_series(0, 59999) g;";

fn policy() -> String {
    let role = |name: &str| {
        format!("  - {{name: {name}, password: {VERIFIER}, budget: {{epsilon: 6, delta: 1e-7}}}}\n")
    };
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: rider, budget: {{epsilon: 20, delta: 1e-6}}, per_query: {{epsilon: 0.5, \
        max_epsilon: 3}}}}
roles:
{}{}{}tables:
  Bus Lines.rides:
    unit: rider
    rows_per_unit: 4
    columns:
      zone: {{bounds: [0, 3]}}
      weekday: {{bounds: [0, 3]}}
      line: {{values: [a, b], complete: true}}
      paid: {{bounds: [0, 8]}}
summaries:
  rides:
    of: Bus Lines.rides
    keys: [Fare, zone, weekday, line]
    measures: [paid]
    marginals: auto
    epsilon: 2
    roles: [analyst, colleague]
",
        role("analyst"),
        role("colleague"),
        role("stranger")
    )
    .replace(
        "      zone:",
        "      Fare: {values: [child, full, it's free], complete: true}\n      zone:",
    )
}

async fn veil(rows: &str) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client
            .batch_execute(&format!("{TABLES}{rows}"))
            .await
            .unwrap();
    };
    Veil::over(fill, &policy(), None).await
}

/// Selects the sets, and returns them by the names of their keys, with a proxy that uses them.
async fn selected(veil: &Veil, sampler: &mut (dyn Sampler + Send)) -> Arc<Engine> {
    let engine = &veil.engine;
    let backend = Backend::new(veil.server.config(), 1);
    let maker = SummaryMaker {
        policy: engine.policy(),
        backend: &backend,
        ledger: engine.ledger(),
    };
    let summary = &engine.policy().summaries[0];
    let question = SetsQuestion::new(engine.policy(), summary).unwrap();
    assert!(!maker.has_sets(&question).await.unwrap());
    let cancel = CancellationToken::new();
    let made = maker.select_sets(summary, &question, sampler, &cancel);
    let (role, _) = made.await.unwrap();
    assert_eq!(role, "analyst");
    veil.proxy(&veil.ledger).await
}

async fn notices(engine: &Engine, requester: &Requester, sql: &str) -> String {
    let answer = answer_of(engine, requester, sql).await;
    answer.unwrap().notices.join("\n")
}

async fn explained(engine: &Engine, requester: &Requester, sql: &str) -> String {
    let statements = parse(&format!("EXPLAIN {sql}")).unwrap();
    let [Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("one EXPLAIN is wanted: {sql}")
    };
    let lines = engine.explain(
        requester,
        query,
        &[],
        &[],
        *format,
        CancellationToken::new(),
    );
    lines.await.unwrap().join("\n")
}

const OF_TWO: &str =
    "SELECT \"Fare\", zone, count(*) FROM \"Bus Lines\".rides GROUP BY \"Fare\", zone";
const VIEW: &str = "SELECT summary_name, keys, marginals, groups, standard_error, epsilon, held, \
    made FROM pgveil.summaries";

#[tokio::test(flavor = "multi_thread")]
async fn a_role_pays_for_the_selection_before_it_sees_a_set() {
    let veil = veil(ROWS).await;
    assert_eq!(
        rows_of(&veil.engine, &session("colleague"), VIEW)
            .await
            .unwrap(),
        [""; 0]
    );
    let mut noise = Stream(ChaCha20Rng::seed_from_u64(5));
    let engine = selected(&veil, &mut noise).await;
    make(&veil, &engine, &mut noise).await.unwrap();
    let colleague = session("colleague");
    let before = rows_of(&engine, &colleague, VIEW).await.unwrap();
    let start = "rides|Fare, zone, weekday, line|∅|∅|∅|1.";
    assert!(
        before[0].starts_with(start) && before[0].ends_with("|f|t"),
        "{before:?}"
    );
    assert_eq!(
        rows_of(&engine, &session("stranger"), VIEW).await.unwrap(),
        [""; 0]
    );
    assert_eq!(spent(&engine, "colleague").await, 0.0);
    let explained = explained(&engine, &colleague, OF_TWO).await;
    assert!(
        explained.contains("Summary: rides answers it if it has the keys in one of its sets"),
        "{explained}"
    );
    assert!(
        !explained.contains("where the owner has made it"),
        "{explained}"
    );
    assert_eq!(spent(&engine, "colleague").await, 0.0);
    // Neither a session that buys nothing, nor one that buys everything, nor a question that no set
    // could answer receives the selection.
    let refused = rows_of(&engine, &with_reuse("colleague", Reuse::Summary), OF_TWO).await;
    assert!(refused.is_err());
    let paid = "SELECT count(*) FROM \"Bus Lines\".rides WHERE paid = 3";
    for (requester, sql) in [
        (
            with_reuse("colleague", Reuse::Exact),
            "SELECT line, count(*) FROM \"Bus Lines\".rides GROUP BY line",
        ),
        (session("colleague"), paid),
    ] {
        let said = notices(&engine, &requester, sql).await;
        assert!(!said.contains("received"), "{said}");
    }
    let bought = spent(&engine, "colleague").await;
    // A question that a set could answer receives both.
    let other =
        "SELECT zone, count(*) FROM \"Bus Lines\".rides WHERE \"Fare\" = 'full' GROUP BY zone";
    let said = notices(&engine, &colleague, other).await;
    assert!(
        said.contains("received which sets summary rides has, selected from the data, for mu ")
            && said.contains("once: (Fare, zone)")
            && said.contains("received summary rides for epsilon 1."),
        "{said}"
    );
    let whole = spent(&engine, "colleague").await - bought;
    let mu = pgveil::mechanism::mu_of(
        pgveil::mechanism::Fixed::round_down(2.0),
        pgveil::mechanism::Fixed::round_down(1e-7),
    );
    let wanted = mu.unwrap().square().to_f64();
    assert!(whole <= wanted && whole > 0.99 * wanted, "{whole} {wanted}");
    let after = rows_of(&engine, &colleague, VIEW).await.unwrap();
    assert!(
        after[0].contains("|(Fare, zone), ") && after[0].ends_with("|t|t"),
        "{after:?}"
    );
    // Free from now on, also in another process, and for sums.
    let another = veil.proxy(&veil.ledger).await;
    let before = spent(&engine, "colleague").await;
    for sql in [
        "SELECT line, sum(paid), count(*) FROM \"Bus Lines\".rides GROUP BY line",
        "SELECT count(*) FROM \"Bus Lines\".rides WHERE zone = 3 AND \"Fare\" = 'child'",
    ] {
        rows_of(&another, &colleague, sql).await.unwrap();
    }
    assert_eq!(spent(&another, "colleague").await, before);
    // The role in whose name both were entered has them.
    let analyst = session("analyst");
    assert!(rows_of(&another, &analyst, VIEW).await.unwrap()[0].contains("(Fare, zone)"));
    let before = spent(&another, "analyst").await;
    rows_of(&another, &analyst, other).await.unwrap();
    assert_eq!(spent(&another, "analyst").await, before);
}

/// What is summed is PostgreSQL's, whichever sets were selected.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_of_selected_sets_answers_as_any_other() {
    let veil = veil(ROWS).await;
    let engine = selected(&veil, &mut Silent).await;
    make(&veil, &engine, &mut Silent).await.unwrap();
    let found = rows_of(&engine, &session("analyst"), VIEW).await.unwrap();
    assert!(
        found[0].contains("|(Fare, zone), (weekday), (line)|"),
        "{found:?}"
    );
    let before = spent(&engine, "analyst").await;
    for sql in [
        "SELECT count(*) FROM \"Bus Lines\".rides WHERE \"Fare\" = 'child' AND zone = 3",
        "SELECT weekday, count(*) FROM \"Bus Lines\".rides GROUP BY 1 ORDER BY 1",
    ] {
        let answered = rows_of(&engine, &session("analyst"), sql).await.unwrap();
        assert_eq!(answered, veil.direct(sql).await, "{sql}");
    }
    assert_eq!(spent(&engine, "analyst").await, before);
}

/// Two databases of which other sets are selected look the same to a role that has not paid.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_depends_on_the_selection_before_it_is_paid() {
    let shuffled = ROWS.replace(
        "nullif(g / 12 % 5, 4)",
        "CASE WHEN g / 60 % 2 = 0 THEN 1 END",
    );
    let mut seen = Vec::new();
    for rows in [ROWS, &shuffled] {
        let veil = veil(rows).await;
        let engine = selected(&veil, &mut Silent).await;
        make(&veil, &engine, &mut Silent).await.unwrap();
        let sets = engine.policy().summaries[0].marginals.len();
        let colleague = session("colleague");
        let mut texts = vec![rows_of(&engine, &colleague, VIEW).await.unwrap()];
        for sql in [
            OF_TWO,
            "SELECT line, weekday, count(*) FROM \"Bus Lines\".rides GROUP BY 1, 2",
        ] {
            texts.push(vec![explained(&engine, &colleague, sql).await]);
        }
        seen.push((sets, texts));
    }
    assert_ne!(seen[0].0, seen[1].0, "the sets differ");
    assert_eq!(seen[0].1, seen[1].1);
}
