//! Summaries whose sets are selected from the data: what a role sees before it has paid for the
//! selection, and after.

use std::sync::Arc;

use pgveil::engine::SummaryQuestion;
use pgveil::engine::{Engine, Requester, Service, SetsQuestion, SummaryMaker};
use pgveil::execute::Backend;
use pgveil::mechanism::{Accounting, Fixed, Sampler, mu_of};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{KeySet, Policy, Reuse, Summary, SummaryKey};
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

fn policy(budget: f64) -> String {
    let role = |name: &str| {
        format!(
            "  - {{name: {name}, password: {VERIFIER}, budget: {{epsilon: {budget}, delta: \
                1e-7}}}}\n"
        )
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
    veil_of(rows, 6.0).await
}

/// With this budget of each role.
async fn veil_of(rows: &str, budget: f64) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client
            .batch_execute(&format!("{TABLES}{rows}"))
            .await
            .unwrap();
    };
    Veil::over(fill, &policy(budget), None).await
}

/// Selects the sets for the first time, and returns a proxy that uses them.
async fn selected(veil: &Veil, sampler: &mut (dyn Sampler + Send)) -> Arc<Engine> {
    selected_again(veil, sampler, false).await
}

async fn selected_again(
    veil: &Veil,
    sampler: &mut (dyn Sampler + Send),
    is_again: bool,
) -> Arc<Engine> {
    let engine = &veil.engine;
    let backend = Backend::new(veil.server.config(), 1);
    let maker = SummaryMaker {
        policy: engine.policy(),
        backend: &backend,
        ledger: engine.ledger(),
    };
    let summary = &engine.policy().summaries[0];
    let question = SetsQuestion::new(engine.policy(), summary).unwrap();
    assert_eq!(maker.has_sets(&question).await.unwrap(), is_again);
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

/// EXPLAIN as text and as JSON.
async fn both_explained(engine: &Engine, requester: &Requester, sql: &str) -> Vec<String> {
    let json = format!("(FORMAT JSON) {sql}");
    vec![
        explained(engine, requester, sql).await,
        explained(engine, requester, &json).await,
    ]
}

const OF_TWO: &str =
    "SELECT \"Fare\", zone, count(*) FROM \"Bus Lines\".rides GROUP BY \"Fare\", zone";
const VIEW: &str = "SELECT summary_name, keys, marginals, groups, standard_error, epsilon, mu, \
    held, made FROM pgveil.summaries";

#[tokio::test(flavor = "multi_thread")]
async fn a_role_pays_for_the_selection_before_it_sees_a_set() {
    let veil = veil(ROWS).await;
    // The price is known before anything was selected, and is the same afterwards.
    let due = rows_of(&veil.engine, &session("colleague"), VIEW).await;
    let due = due.unwrap().join("\n");
    assert!(due.ends_with("|f|f"), "{due}");
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
    assert_eq!(before, [due.replace("|f|f", "|f|t")]);
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

/// Rows of which other sets are selected than of [`ROWS`].
fn shuffled() -> String {
    ROWS.replace(
        "nullif(g / 12 % 5, 4)",
        "CASE WHEN g / 60 % 2 = 0 THEN 1 END",
    )
}

const OF_LINES: &str =
    "SELECT line, weekday, count(*) FROM \"Bus Lines\".rides GROUP BY line, weekday";

/// What a role can see before it has paid: the view, EXPLAIN, refusals and what stays of its
/// budget.
async fn seen(engine: &Engine, budget: f64) -> Vec<String> {
    let colleague = session("colleague");
    let mut texts = rows_of(engine, &colleague, VIEW).await.unwrap();
    let mut dear = session("colleague");
    dear.session_settings.epsilon = Some(budget.min(2.0));
    for sql in [OF_TWO, OF_LINES] {
        for requester in [&colleague, &dear] {
            texts.extend(both_explained(engine, requester, sql).await);
        }
        let refused = rows_of(engine, &with_reuse("colleague", Reuse::Summary), sql).await;
        texts.push(format!("{:?}", refused.unwrap_err().report()));
    }
    texts.push(spent(engine, "colleague").await.to_string());
    texts
}

/// Two databases of which other sets are selected look the same to a role that has not paid: at
/// budgets of which the summary is a small part, and all.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_depends_on_the_selection_before_it_is_paid() {
    for budget in [6.0, 2.1] {
        let mut all = Vec::new();
        for rows in [ROWS, &shuffled()] {
            let veil = veil_of(rows, budget).await;
            let engine = selected(&veil, &mut Silent).await;
            make(&veil, &engine, &mut Silent).await.unwrap();
            let sets = engine.policy().summaries[0].marginals.len();
            all.push((sets, seen(&engine, budget).await));
        }
        assert_ne!(all[0].0, all[1].0, "the sets differ");
        assert_eq!(all[0].1, all[1].1, "{budget}");
    }
}

/// A new selection has no summary yet, even if the same sets were selected again: `made` does not
/// tell a role that paid for neither whether they were.
#[tokio::test(flavor = "multi_thread")]
async fn the_summary_of_an_old_selection_is_not_that_of_a_new_one() {
    let veil = veil(ROWS).await;
    let engine = selected(&veil, &mut Silent).await;
    make(&veil, &engine, &mut Silent).await.unwrap();
    let again = selected_again(&veil, &mut Silent, true).await;
    let sets = |engine: &Engine| engine.policy().summaries[0].marginals.clone();
    assert_eq!(sets(&engine), sets(&again));
    let found = rows_of(&again, &session("colleague"), VIEW).await.unwrap();
    assert!(found[0].ends_with("|f|f"), "{found:?}");
    // A proxy that was not restarted goes on with the old selection.
    let found = rows_of(&engine, &session("colleague"), VIEW).await.unwrap();
    assert!(found[0].ends_with("|f|t"), "{found:?}");
}

/// What no set could answer is bought without the selection.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_no_set_could_answer_pays_for_no_selection() {
    let veil = veil(ROWS).await;
    let engine = selected(&veil, &mut Silent).await;
    make(&veil, &engine, &mut Silent).await.unwrap();
    for what in [
        "count(DISTINCT rider)",
        "count(*) FILTER (WHERE paid = 3)",
        "stddev(paid)",
        "sum(paid) FILTER (WHERE paid > 3)",
    ] {
        let sql = format!("SELECT {what} FROM \"Bus Lines\".rides WHERE line = 'a'");
        let said = explained(&engine, &session("colleague"), &sql).await;
        assert!(!said.contains("rides answers it"), "{sql}: {said}");
        let said = notices(&engine, &session("colleague"), &sql).await;
        assert!(!said.contains("received"), "{sql}: {said}");
    }
}

/// A role whose budget does not hold the selection and the question keeps the question.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_could_not_afford_the_question_then_pays_for_no_selection() {
    let veil = veil_of(ROWS, 2.1).await;
    let engine = selected(&veil, &mut Silent).await;
    make(&veil, &engine, &mut Silent).await.unwrap();
    let mut dear = session("colleague");
    dear.session_settings.epsilon = Some(2.0);
    assert_eq!(spent(&engine, "colleague").await, 0.0);
    let said = explained(&engine, &dear, OF_LINES).await;
    assert!(!said.contains("rides answers it"), "{said}");
    let said = notices(&engine, &dear, OF_LINES).await;
    assert!(!said.contains("received"), "{said}");
    assert!(spent(&engine, "colleague").await > 0.0);
    // A session that allows less than both cost receives neither.
    let veil = veil_of(ROWS, 6.0).await;
    let engine = selected(&veil, &mut Silent).await;
    make(&veil, &engine, &mut Silent).await.unwrap();
    let mut sparing = session("colleague");
    sparing.session_settings.epsilon = Some(1.9);
    let said = notices(&engine, &sparing, OF_TWO).await;
    assert!(!said.contains("received"), "{said}");
}

/// One row of each unit, and nothing that is summed: there Laplace noise may cost less.
const ONE_ROW: &str = "CREATE TABLE public.trips (rider bigint PRIMARY KEY, a int NOT NULL, b int \
    NOT NULL, c int NOT NULL, d int NOT NULL)";

async fn veil_of_one_row() -> Veil {
    let yaml = policy(3.0);
    let (before, _) = yaml.split_once("tables:").unwrap();
    let yaml = format!(
        "{before}tables:
  public.trips:
    unit: rider
    columns:
      a: {{bounds: [0, 1]}}
      b: {{bounds: [0, 2]}}
      c: {{bounds: [0, 3]}}
      d: {{bounds: [0, 4]}}
summaries:
  trips: {{of: public.trips, keys: [a, b, c, d], marginals: auto, epsilon: 1, roles: [analyst]}}
"
    );
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(ONE_ROW).await.unwrap();
    Veil::over(fill, &yaml, None).await
}

fn with_sets(summary: &Summary, sets: &[&[usize]]) -> Summary {
    let set = |keys: &&[usize]| KeySet::new(keys.iter().copied().map(SummaryKey).collect());
    Summary {
        marginals: sets.iter().map(set).collect(),
        ..summary.clone()
    }
}

/// What a summary costs does not tell which sets were selected, and with the selection it is within
/// the declared epsilon.
#[tokio::test(flavor = "multi_thread")]
async fn the_price_is_the_same_for_all_sets() {
    let veil = veil_of_one_row().await;
    let selections: [&[&[usize]]; 5] = [
        &[&[0, 1, 2, 3]],
        &[&[0, 1, 2], &[3]],
        &[&[0, 1], &[2, 3]],
        &[&[0, 1], &[2], &[3]],
        &[&[0], &[1], &[2], &[3]],
    ];
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        for (budget, epsilon) in [(1.5, 1.0), (2.0, 1.0), (3.0, 1.0), (3.0, 2.9), (2.0, 0.3)] {
            let mut policy: Policy = veil.engine.policy().clone();
            policy.privacy.accounting = accounting;
            policy.privacy.budget.epsilon = budget;
            for role in &mut policy.roles {
                role.budget.epsilon = budget;
            }
            let accuracy = pgveil::policy::Accuracy::Epsilon(epsilon);
            policy.summaries[0].accuracy = accuracy;
            let summary = &policy.summaries[0];
            let selection = SetsQuestion::new(&policy, summary).unwrap().kept_as.loss;
            let priced = |sets: &&[&[usize]]| {
                let question = SummaryQuestion::new(&policy, &with_sets(summary, sets)).unwrap();
                (question.epsilon, question.kept_as.loss)
            };
            let all: Vec<_> = selections.iter().map(priced).collect();
            assert!(
                all.iter().all(|own| *own == all[0]),
                "{accounting:?} {budget} {epsilon}: {all:?}"
            );
            let whole = selection.compose(all[0].1).unwrap();
            let declared = Fixed::round_down(epsilon);
            match accounting {
                Accounting::Pure => assert!(whole.epsilon <= Some(declared), "{whole:?}"),
                Accounting::Gdp | Accounting::Zcdp => {
                    let most = mu_of(declared, Fixed::round_down(1e-7)).unwrap().square();
                    assert!(whole.mu_squared <= most, "{whole:?} {most:?}");
                    assert!(whole.epsilon.is_none());
                }
            }
        }
    }
}

/// Two summaries of the same table, keys and epsilon have a selection each.
#[tokio::test(flavor = "multi_thread")]
async fn each_summary_has_its_own_selection() {
    let veil = veil_of_one_row().await;
    let policy = veil.engine.policy();
    let other = Summary {
        name: "journeys".to_owned(),
        ..policy.summaries[0].clone()
    };
    let digest = |summary| SetsQuestion::new(policy, summary).unwrap().kept_as.digest;
    assert_ne!(digest(&policy.summaries[0]), digest(&other));
}

/// What is charged first is shown first: the selection of one summary, before another summary that
/// would answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_selection_that_is_paid_before_another_summary() {
    let fill = async |client: &tokio_postgres::Client| {
        let both = format!("{TABLES}{ROWS}");
        client.batch_execute(&both).await.unwrap();
    };
    let fixed = "  plain:
    of: Bus Lines.rides
    keys: [Fare, zone, line]
    measures: [paid]
    marginals: all 2
    epsilon: 0.5
    roles: [analyst, colleague]
";
    let veil = Veil::over(fill, &(policy(18.0) + fixed), None).await;
    let mut noise = Stream(ChaCha20Rng::seed_from_u64(6));
    let engine = selected(&veil, &mut noise).await;
    make(&veil, &engine, &mut noise).await.unwrap();
    let colleague = session("colleague");
    let lines = explained(&engine, &colleague, OF_TWO).await;
    let first = lines.lines().next().unwrap();
    println!("{first}");
    let (selection, rest) = first
        .split_once(", once, to learn which sets summary ")
        .unwrap();
    let rest = rest
        .strip_prefix("rides has; then, if it does not answer, ±")
        .unwrap();
    let made = " from summary plain where it is made, for ";
    let (received, bought) = rest.split_once("; else ±").unwrap();
    assert!(received.contains(made), "{first}");
    assert!(bought.ends_with(" left after"), "{first}");
    let share = |text: &str| -> f64 {
        let (number, _) = text.split_once(" %").unwrap();
        number.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // What is left after is what the selection and the bought answer leave.
    let bought = bought.split("; ").collect::<Vec<_>>();
    let [_, price, left] = bought.as_slice() else {
        panic!("{first}")
    };
    let whole = share(selection) + share(price) + share(left);
    assert!((whole - 100.0).abs() < 0.1, "{first}: {whole}");
    let said = notices(&engine, &colleague, OF_TWO).await;
    assert!(said.contains("rides"), "{said}");
}
