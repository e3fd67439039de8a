//! Summaries that the policy declares: what they answer is PostgreSQL's own, free once they are
//! received, and nothing before.

use pgveil::engine::{Engine, Requester, SummaryMaker, SummaryQuestion};
use pgveil::execute::Backend;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, OsRandomness, SampleError, Sampler};
use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::release::OwnerError;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio_util::sync::CancellationToken;

use super::outer_query::rich;
use crate::fixture::{Silent, Stream, Veil, rows_of, streams};
use crate::privacy::neighbour::random::{Random, seeds};

/// The demo's policy with two roles and a summary of women.
pub(super) fn declared(yaml: String) -> String {
    let (before, rest) = yaml.split_once("  - name: analyst\n").unwrap();
    let (analyst, after) = rest.split_once("\ntables:").unwrap();
    format!(
        "{before}  - name: analyst\n{analyst}
  - name: colleague\n{analyst}
tables:{after}
summaries:
  women:
    of: nls.women
    keys: [race, birth_year, college_graduate]
    measures: [years_of_school]
    marginals: all 2
    epsilon: 0.5
"
    )
}

/// The policy with a budget under which every answer stands out from its noise.
pub(super) fn precise(yaml: String) -> String {
    declared(Veil::precise(yaml)).replace("    epsilon: 0.5\n", "    epsilon: 5000\n")
}

/// A session as clients have it.
pub(super) fn session(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        session_settings: SessionSettings::default(),
        ..Veil::requester()
    }
}

pub fn with_reuse(role: &str, reuse: Reuse) -> Requester {
    let mut requester = session(role);
    requester.session_settings.reuse = reuse;
    requester
}

/// Makes every summary of the policy.
pub(super) async fn make(
    veil: &Veil,
    engine: &Engine,
    sampler: &mut (dyn Sampler + Send),
) -> Result<(), OwnerError> {
    let backend = Backend::new(veil.server.config(), 1);
    let maker = SummaryMaker {
        policy: engine.policy(),
        backend: &backend,
        ledger: engine.ledger(),
    };
    for summary in &engine.policy().summaries {
        let question = SummaryQuestion::new(engine.policy(), summary)
            .map_err(|error| OwnerError::Refused(error.report()))?;
        let cancel = CancellationToken::new();
        maker.make(summary, &question, sampler, &cancel).await?;
    }
    Ok(())
}

pub(super) async fn spent(engine: &Engine, role: &str) -> f64 {
    let balance = engine.ledger().balance(role).await.unwrap();
    balance.spent.mu_squared.to_f64()
}

async fn owner(engine: &Engine) -> f64 {
    let balance = engine.ledger().balance_owner().await.unwrap();
    balance.spent.mu_squared.to_f64()
}

/// The rows, and whether they were free.
pub(super) async fn free(veil: &Veil, requester: &Requester, sql: &str) -> bool {
    let before = spent(&veil.engine, &requester.role).await;
    veil.answers_as_postgresql(requester, &[sql]).await;
    spent(&veil.engine, &requester.role).await == before
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_summary_answers_is_postgresqls_own() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let questions = [
        "SELECT count(*) FROM nls.women",
        "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year BETWEEN 1944 AND 1948",
        "SELECT sum(years_of_school) FROM nls.women WHERE NOT (race = 'white' OR \
            college_graduate = 1)",
        "SELECT round(avg(years_of_school), 6) FROM nls.women WHERE birth_year < 1947",
        "SELECT w.race, round(avg(w.years_of_school), 6), count(w.years_of_school) FROM nls.women \
            AS w GROUP BY w.race ORDER BY w.race",
        "SELECT CASE WHEN birth_year < 1948 THEN 'old' ELSE 'young' END, count(*) FROM nls.women \
            GROUP BY 1 ORDER BY 1",
        "SELECT race, count(*) FROM nls.women GROUP BY race HAVING count(*) > 1000 ORDER BY race",
        "SELECT (SELECT count(*) FROM nls.women WHERE college_graduate = 1)::numeric / (SELECT \
            count(*) FROM nls.women) > 0",
    ];
    for sql in questions {
        assert!(
            free(&veil, &session("analyst"), sql).await,
            "{sql} was bought"
        );
    }
    let bought = [
        // No set has all three keys.
        "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year = 1944 AND \
            college_graduate = 1",
        "SELECT count(*) FROM nls.women WHERE years_of_school = 12",
        "SELECT count(DISTINCT birth_year) FROM nls.women WHERE race = 'black'",
    ];
    for sql in bought {
        assert!(
            !free(&veil, &session("analyst"), sql).await,
            "{sql} was free"
        );
    }
}

/// The number of rows, their bytes, and the notices as one text.
async fn shown(veil: &Veil, requester: &Requester, sql: &str) -> (usize, String, String) {
    let answer = veil.ask_as(requester, sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let rows = format!("{:?}", answer.rows);
    (answer.rows.len(), rows, answer.notices.join("\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_show_made_up_rows_to_roles_that_hold_a_summary() {
    let with_previews = |yaml| format!("{}previews: synthetic\n", precise(yaml));
    let veil = Veil::demo(with_previews, Veil::silent()).await;
    let (analyst, colleague) = (session("analyst"), session("colleague"));
    let all = "SELECT * FROM nls.women LIMIT 100";
    let (rows, _, notices) = shown(&veil, &analyst, all).await;
    assert_eq!(rows, 0);
    assert!(notices.contains("has received summary women"), "{notices}");
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    // The owner made it in the name of the first role, which holds it.
    let (rows, values, notices) = shown(&veil, &analyst, all).await;
    assert_eq!(rows, 100);
    assert!(
        notices.contains("made up from summary women, and belong to nobody")
            && notices.contains("the summary does not have woman_id"),
        "{notices}"
    );
    let before = spent(&veil.engine, "analyst").await;
    let again = shown(&veil, &analyst, all).await;
    assert_eq!(again.1, values, "always the same");
    // Names with their schema, other names, conditions and orders, as over the table itself.
    for (sql, wanted) in [
        ("SELECT woman_id FROM nls.women", 1_000),
        (
            "SELECT w.race FROM nls.women AS w WHERE w.race = 'nobody'",
            0,
        ),
        (
            "SELECT nls.women.race, women.birth_year FROM nls.women LIMIT 5",
            5,
        ),
        ("SELECT nls.women.* FROM nls.women OFFSET 990", 10),
        (
            "SELECT race FROM nls.women OFFSET 7 FETCH FIRST 3 ROWS ONLY",
            3,
        ),
        ("SELECT race FROM nls.women LIMIT NULL", 1_000),
        (
            "SELECT race FROM nls.women LIMIT CAST('10' AS bigint) OFFSET (2)",
            10,
        ),
        (
            "SELECT race FROM nls.women WHERE current_user = 'analyst' LIMIT 4",
            4,
        ),
        (
            "SELECT race || '!' AS r FROM nls.women ORDER BY r LIMIT 3",
            3,
        ),
        (
            "SELECT birth_year + 0.5 AS b FROM nls.women ORDER BY b LIMIT 1",
            1,
        ),
    ] {
        let (rows, values, notices) = shown(&veil, &analyst, sql).await;
        assert_eq!(rows, wanted, "{sql}: {values}");
        assert!(notices.contains("belong to nobody"), "{sql}: {notices}");
    }
    // The share of each value of a key is the table's, within one row.
    let black = "SELECT 1 FROM nls.women WHERE race = 'black'";
    let (black, _, _) = shown(&veil, &analyst, black).await;
    let share = "SELECT round(1000.0 * count(*) FILTER (WHERE race = 'black') / count(*)) FROM \
        nls.women";
    let real: i64 = veil.direct(share).await[0].parse().unwrap();
    assert!((black as i64 - real).abs() <= 1, "{black} {real}");
    // Other statements show columns alone: nothing in LIMIT but a number was checked, and numbers
    // of made-up rows would look like answers.
    for sql in [
        "SELECT race FROM nls.women LIMIT length('abc')",
        "SELECT race FROM nls.women OFFSET length('abc') ROWS FETCH FIRST ROW ONLY",
        "SELECT count(*) OVER () AS total, race FROM nls.women LIMIT 10",
        "SELECT 1 / (birth_year - birth_year) AS x FROM nls.women",
        "SELECT race FROM nls.women ORDER BY row_number() OVER (ORDER BY birth_year)",
        "SELECT w.race FROM nls.women w JOIN nls.interviews i USING (woman_id)",
        "SELECT year FROM nls.interviews",
        "SELECT v.race FROM (SELECT race FROM nls.women) AS v",
    ] {
        let (rows, _, notices) = shown(&veil, &analyst, sql).await;
        assert!(
            rows == 0 && notices.contains("are not shown"),
            "{sql}: {notices}"
        );
    }
    let now = spent(&veil.engine, "analyst").await;
    assert_eq!(now, before, "previews are free");
    let (rows, _, notices) = shown(&veil, &colleague, all).await;
    assert_eq!(rows, 0, "a role that does not hold the summary");
    assert!(notices.contains("has received summary women"), "{notices}");
    // A question that the summary answers receives it.
    veil.answers_as_postgresql(&colleague, &["SELECT count(*) FROM nls.women"])
        .await;
    assert_eq!(shown(&veil, &colleague, all).await.1, values);
}

/// A condition over keys, which may be in no set together.
fn condition(random: &mut Random, depth: usize) -> String {
    let atoms = [
        "race = 'black'",
        "race IN ('white', 'other')",
        "race <> 'other'",
        "birth_year BETWEEN 1944 AND 1949",
        "birth_year % 2 = 0",
        "birth_year IN (1941, 1950)",
        "college_graduate = 1",
        "college_graduate <> 1",
    ];
    let of = |random: &mut Random| condition(random, depth - 1);
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 => random.pick(&atoms).to_owned(),
        1 => format!("({} OR {})", of(random), of(random)),
        2 => format!("({} AND {})", of(random), of(random)),
        _ => format!("NOT {}", of(random)),
    }
}

/// Whatever is asked over the keys, the answer is PostgreSQL's: from the summary, or bought.
#[tokio::test(flavor = "multi_thread")]
async fn random_questions_are_postgresqls_own() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let keys = ["race", "birth_year", "college_graduate", "birth_year / 5"];
    for seed in seeds() {
        let mut random = Random::new(seed);
        let mut answered = 0;
        for _ in 0..60 {
            let condition = condition(&mut random, 2);
            let key = random.pick(&keys).to_owned();
            let measured = random.pick(&[
                "count(*)",
                "coalesce(sum(years_of_school), 0)",
                "count(race)",
            ]);
            let sql = match random.below(2) {
                0 => format!("SELECT {measured} FROM nls.women WHERE {condition}"),
                _ => format!(
                    "SELECT {key}, count(*) FROM nls.women WHERE {condition} GROUP BY 1 HAVING \
                        count(*) > 0 ORDER BY 1"
                ),
            };
            answered += u32::from(free(&veil, &session("analyst"), &sql).await);
        }
        assert!(answered > 20, "{answered} of 60 were free, seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_pays_once_and_the_owner_once() {
    let veil = Veil::demo(|yaml| declared(rich(yaml)), None).await;
    let sql = "SELECT race, count(*) FROM nls.women GROUP BY race";
    make(&veil, &veil.engine, &mut OsRandomness::new())
        .await
        .unwrap();
    let price = owner(&veil.engine).await;
    // It was made in the name of the first role, which asks on for nothing.
    assert!(price > 0.0);
    assert_eq!(spent(&veil.engine, "analyst").await, price);
    assert_eq!(spent(&veil.engine, "colleague").await, 0.0);
    let first = veil.rows_as(&session("analyst"), sql).await.unwrap();
    assert_eq!(spent(&veil.engine, "analyst").await, price);
    // The other pays the same, once, on whichever proxy it asks, and sees the same.
    let second = veil.proxy(&veil.ledger).await;
    let role = session("colleague");
    let (one, other) = tokio::join!(
        rows_of(&veil.engine, &role, sql),
        rows_of(
            &second,
            &role,
            "SELECT count(*) FROM nls.women WHERE college_graduate = 1"
        )
    );
    assert_eq!(one.unwrap(), first);
    other.unwrap();
    assert!((spent(&veil.engine, "colleague").await - price).abs() < 1e-15);
    let answer = veil
        .ask_as(
            &role,
            "SELECT count(*) FROM nls.women WHERE birth_year < 1943",
        )
        .await
        .unwrap();
    assert!(
        answer.notices[0].contains("summary women answers it"),
        "{:?}",
        answer.notices
    );
    assert!((spent(&veil.engine, "colleague").await - price).abs() < 1e-15);
    assert_eq!(owner(&veil.engine).await, price);
    let held = veil
        .rows_as(
            &role,
            "SELECT summary_name, keys, measures, marginals, groups, epsilon, \
        held, made FROM pgveil.summaries",
        )
        .await
        .unwrap();
    assert_eq!(
        held,
        [
            "women|race, birth_year, college_graduate|years_of_school|(race, birth_year), \
        (race, college_graduate), (birth_year, college_graduate)|96|0.5|t|t"
        ]
    );
    // Made again, it is another one, and is received again.
    make(&veil, &veil.engine, &mut OsRandomness::new())
        .await
        .unwrap();
    assert!((owner(&veil.engine).await - 2.0 * price).abs() < 1e-12);
    let answer = veil.ask_as(&role, sql).await.unwrap();
    assert!(answer.notices[0].starts_with("received summary women for epsilon 0.5 (mu "));
    assert!((spent(&veil.engine, "colleague").await - 2.0 * price).abs() < 1e-12);
}

/// A question that was bought with a look shows the same values after a summary was received that
/// answers it too. A statement that a summary cannot answer whole receives none.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_bought_stays_as_it_was() {
    let interviews = |yaml: String| {
        let yaml = declared(rich(yaml));
        format!(
            "{yaml}  interviews:
    of: nls.interviews
    keys: [south]
    marginals: all 1
    epsilon: 0.5
"
        )
    };
    let veil = Veil::demo(interviews, None).await;
    make(&veil, &veil.engine, &mut OsRandomness::new())
        .await
        .unwrap();
    let role = session("colleague");
    let mixed = "SELECT (SELECT count(*) FROM nls.interviews WHERE south = 1), \
        (SELECT max(hours_per_week) FROM nls.interviews)";
    let answer = veil.ask_as(&role, mixed).await.unwrap();
    let received = |notices: &[String]| notices.iter().any(|n| n.starts_with("received summary"));
    assert!(!received(&answer.notices), "{:?}", answer.notices);
    // Of two summaries that answer one statement, neither is paid for in vain.
    let both = "SELECT (SELECT count(*) FROM nls.women WHERE race = 'black'), \
        (SELECT count(*) FROM nls.interviews WHERE south = 0)";
    let two = session("analyst");
    let before = spent(&veil.engine, "analyst").await;
    veil.rows_as(&two, both).await.unwrap();
    veil.rows_as(&two, both).await.unwrap();
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    let sql = "SELECT count(*) FROM nls.interviews";
    let exact = with_reuse("colleague", Reuse::Exact);
    let bought = veil.rows_as(&exact, sql).await.unwrap();
    let south = "SELECT south, count(*) FROM nls.interviews GROUP BY south";
    let answer = veil.ask_as(&role, south).await.unwrap();
    assert!(received(&answer.notices), "{:?}", answer.notices);
    let paid = spent(&veil.engine, "colleague").await;
    assert_eq!(veil.rows_as(&role, sql).await.unwrap(), bought);
    assert_eq!(spent(&veil.engine, "colleague").await, paid);
}

/// A role that has not received a summary sees the same bytes whether or not it was made.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_role_has_not_received_changes_nothing() {
    let sql = "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race";
    let mut low = session("colleague");
    low.session_settings.epsilon = Some(0.4);
    let mut fixed = session("colleague");
    fixed.session_settings.clip = ClipChoice::Fixed;
    let asked = |requester: &Requester, sql: &str| (requester.clone(), sql.to_owned());
    let exact = with_reuse("colleague", Reuse::Exact);
    let off = with_reuse("colleague", Reuse::Off);
    let questions = [
        asked(&low, sql),
        asked(
            &fixed,
            "SELECT count(*) FROM nls.women WHERE birth_year = 1944",
        ),
        asked(
            &exact,
            "SELECT count(*) FROM nls.women WHERE race = 'black'",
        ),
        asked(&off, sql),
        asked(
            &session("colleague"),
            "SELECT count(*) FROM nls.women WHERE years_of_school = 12",
        ),
        asked(
            &session("colleague"),
            "SELECT epsilon_spent, mu_spent FROM pgveil.budget",
        ),
        asked(
            &session("colleague"),
            "SELECT summary_name, keys, groups, standard_error, epsilon, \
            mu, held FROM pgveil.summaries",
        ),
    ];
    // Each on a separate ledger, with the same noise.
    let mut transcripts = Vec::new();
    for is_made in [false, true] {
        let alike = Veil::demo(|yaml| declared(rich(yaml)), Some(streams())).await;
        if is_made {
            make(&alike, &alike.engine, &mut OsRandomness::new())
                .await
                .unwrap();
        }
        let mut transcript = Vec::new();
        let explained = "EXPLAIN (FORMAT JSON) SELECT race, count(*) FROM nls.women GROUP BY race";
        transcript.push(explain(&alike, explained).await);
        for (requester, sql) in &questions {
            let answer = alike.ask_as(requester, sql).await.unwrap();
            transcript.push(format!("{:?} {:?}", answer.rows, answer.notices));
        }
        let nothing = with_reuse("colleague", Reuse::Summary);
        let graduates = "SELECT count(*) FROM nls.women WHERE college_graduate = 1";
        let refused = alike.ask_as(&nothing, graduates).await;
        let refused = refused.unwrap_err().report();
        assert_eq!(
            (refused.sqlstate.as_str(), refused.reason.id()),
            ("0A000", "not-held")
        );
        transcript.push(format!("{refused:?}"));
        transcripts.push(transcript);
    }
    assert_eq!(transcripts[0], transcripts[1]);
}

async fn explain(veil: &Veil, sql: &str) -> String {
    let statements = pgveil::parse::parse(sql).unwrap();
    let [pgveil::parse::Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("one EXPLAIN is wanted: {sql}")
    };
    use pgveil::engine::Service;
    let role = session("colleague");
    let explained = veil
        .engine
        .explain(&role, query, &[], &[], *format, CancellationToken::new());
    explained.await.unwrap().join("\n")
}

/// Gives no noise at all.
struct Broken;

impl Sampler for Broken {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Err(SampleError::Exhausted)
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Err(SampleError::Exhausted)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_after_the_debit_is_paid_and_still_due() {
    let veil = Veil::demo(|yaml| declared(rich(yaml)), None).await;
    let broken = make(&veil, &veil.engine, &mut Broken).await;
    assert!(matches!(broken, Err(OwnerError::Release(_))));
    let paid = owner(&veil.engine).await;
    assert!(paid > 0.0);
    let made = "SELECT held, made FROM pgveil.summaries";
    let rows = veil.rows_as(&session("analyst"), made).await.unwrap();
    assert_eq!(rows, ["f|f"]);
    make(&veil, &veil.engine, &mut OsRandomness::new())
        .await
        .unwrap();
    assert!((owner(&veil.engine).await - 2.0 * paid).abs() < 1e-12);
    let rows = veil.rows_as(&session("analyst"), made).await.unwrap();
    assert_eq!(rows, ["t|t"]);
}

/// Where a unit has many rows, a session's own clips would be chosen from a look. The summary has
/// the policy's.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_of_a_unit_are_summarized() {
    let edit = |yaml: String| {
        declared(Veil::precise(yaml))
            .replace("of: nls.women", "of: nls.interviews")
            .replace(
                "[race, birth_year, college_graduate]",
                "[year, south, married]",
            )
            .replace("[years_of_school]", "[hours_per_week]")
            .replace("    epsilon: 0.5\n", "    epsilon: 5000\n")
    };
    let veil = Veil::demo(edit, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    for sql in [
        "SELECT count(*) FROM nls.interviews",
        "SELECT south, count(*) FROM nls.interviews GROUP BY south ORDER BY south",
        // Later years have longer weeks than the bounds.
        "SELECT year, count(*), sum(hours_per_week) FROM nls.interviews WHERE married = 1 AND year \
            < 1982 GROUP BY year ORDER BY year",
        "SELECT round(avg(hours_per_week), 4) FROM nls.interviews WHERE married = 1 AND year \
            < 1980",
    ] {
        assert!(
            free(&veil, &session("analyst"), sql).await,
            "{sql} was bought"
        );
    }
}

/// Sessions that ask for it get no answer of a summary; and a summary that is declared later costs
/// no role what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_earlier_answers_stay_as_they_were() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let sql = "SELECT count(*) FROM nls.women WHERE birth_year < 1950";
    veil.rows_as(&session("analyst"), sql).await.unwrap();
    let before = spent(&veil.engine, "analyst").await;
    let engine = veil.proxy_with(&veil.ledger, declared).await;
    assert_eq!(engine.policy().version, veil.engine.policy().version);
    make(&veil, &engine, &mut Silent).await.unwrap();
    let made = spent(&engine, "analyst").await;
    assert!(made > before);
    rows_of(&engine, &with_reuse("analyst", Reuse::Exact), sql)
        .await
        .unwrap();
    assert_eq!(spent(&engine, "analyst").await, made);
    let other = "SELECT count(*) FROM nls.women WHERE birth_year = 1944";
    rows_of(&engine, &with_reuse("analyst", Reuse::Summary), other)
        .await
        .unwrap();
    assert_eq!(spent(&engine, "analyst").await, made);
    rows_of(&engine, &with_reuse("analyst", Reuse::Exact), other)
        .await
        .unwrap();
    assert!(spent(&engine, "analyst").await > made);
}

/// Over many summaries, the distance of answers from the truth is as their standard errors say.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_far_off_as_they_say() {
    let veil = Veil::demo(|yaml| declared(rich(yaml)), None).await;
    // The same noise in each run, so that no run is an unlucky one.
    let mut noise = Stream(ChaCha20Rng::seed_from_u64(7));
    let conditions = [
        "race = 'black' OR college_graduate = 1",
        "birth_year < 1946",
        "true",
    ];
    let select = |measured: &str| {
        let of = |c: &&str| format!("(SELECT {measured} FROM nls.women WHERE {c})");
        format!(
            "SELECT {}",
            conditions.iter().map(of).collect::<Vec<_>>().join(", ")
        )
    };
    let numbers = |rows: Vec<String>| -> Vec<f64> {
        rows[0]
            .split('|')
            .map(|value| value.parse().unwrap())
            .collect()
    };
    let truth = numbers(veil.direct(&select("count(*)")).await);
    let (mut squares, rounds) = (vec![0.0; truth.len()], 150);
    for _ in 0..rounds {
        make(&veil, &veil.engine, &mut noise).await.unwrap();
        let role = session("analyst");
        let values = numbers(veil.rows_as(&role, &select("count(*)")).await.unwrap());
        let errors = select("pgveil.stderr(count(*))");
        let errors = numbers(veil.rows_as(&role, &errors).await.unwrap());
        for (at, square) in squares.iter_mut().enumerate() {
            *square += ((values[at] - truth[at]) / errors[at]).powi(2);
        }
    }
    // A mean of 150 squares of a normal has standard error 0.115.
    for mean in squares.iter().map(|sum| sum / f64::from(rounds)) {
        assert!((0.6..1.5).contains(&mean), "{squares:?}");
    }
}

/// The price of a wanted error: no more than it needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_wanted_error_has_its_price() {
    let wanting = |error: &'static str| {
        move |yaml: String| declared(rich(yaml)).replace("    epsilon: 0.5\n", error)
    };
    let veil = Veil::demo(wanting("    error: 20\n"), None).await;
    let sql = "SELECT standard_error <= 20, standard_error > 19.5, epsilon < 1 FROM \
        pgveil.summaries";
    let rows = veil.rows_as(&session("analyst"), sql).await.unwrap();
    assert_eq!(rows, ["t|t|t"]);
    let engine = veil
        .proxy_with(&veil.ledger, |yaml| yaml.replace("error: 20", "error: 0.5"))
        .await;
    let summary = &engine.policy().summaries[0];
    let refused = SummaryQuestion::new(engine.policy(), summary).unwrap_err();
    assert_eq!(refused.report().reason.id(), "target-error-too-small");
}

/// Names that need quotes, an enum, fixed-length text, no key, several rows a unit, and a domain
/// with a condition.
const CLINIC: &str = "CREATE SCHEMA \"Clinic East\";
    CREATE TYPE \"Clinic East\".ward AS ENUM ('north', 'south');
    CREATE DOMAIN \"Clinic East\".odd AS int CHECK (VALUE > 1000000);
    CREATE TABLE \"Clinic East\".\"Visits\" (patient int NOT NULL, \"Ward\" \"Clinic East\".ward,
        kind char(3) NOT NULL, seen date, \"Minutes\" numeric(6, 2), note text);
    INSERT INTO \"Clinic East\".\"Visits\" SELECT g % 500,
        (ARRAY['north', 'south', NULL])[1 + g % 3]::\"Clinic East\".ward,
        (ARRAY['a', 'b'])[1 + g % 2], date '2001-02-03' + g % 100, g % 60,
        'canary' FROM generate_series(1, 3000) g;
    CREATE TABLE \"Clinic East\".odds (patient int NOT NULL, kind char(3) NOT NULL,
        n \"Clinic East\".odd NOT NULL);
    INSERT INTO \"Clinic East\".odds SELECT g, 'a', 1000001 FROM generate_series(1, 500) g;";

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TC\
    AbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

const CLINIC_POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy:
  unit: patient
  budget: {epsilon: 100, delta: 1e-6}
  per_query: {epsilon: 0.5, max_epsilon: 20}
previews: synthetic
roles:
  - {name: analyst, password: VERIFIER, budget: {epsilon: 90, delta: 1e-7}}
tables:
  Clinic East.Visits:
    unit: patient
    rows_per_unit: 6
    columns:
      Ward: {values: [north, south], complete: true}
      kind: {values: [a, b], complete: true}
      seen: {bounds: [2001-01-01, 2001-12-31]}
      Minutes: {bounds: [0, 60]}
      note: visible
  Clinic East.odds:
    unit: patient
    columns:
      kind: {values: [a, b], complete: true}
      n: {bounds: [0, 10]}
summaries:
  visits: {of: Clinic East.Visits, keys: [Ward, kind], measures: [Minutes], marginals: all 2,
    epsilon: 10}
  odds: {of: Clinic East.odds, keys: [kind], marginals: all 1, epsilon: 10}
";

#[tokio::test(flavor = "multi_thread")]
async fn previews_have_the_types_of_the_table() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(CLINIC).await.unwrap();
    let policy = CLINIC_POLICY.replace("VERIFIER", VERIFIER);
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let mut analyst = session("analyst");
    analyst.search_path = vec!["Clinic East".to_owned()];
    let (rows, values, notices) = shown(&veil, &analyst, "SELECT * FROM \"Visits\"").await;
    assert_eq!(rows, 1_000, "{notices}");
    assert!(!values.contains("canary"), "a value of a real row");
    assert!(
        notices.contains("the summary does not have patient, seen, note"),
        "{notices}"
    );
    for (sql, wanted) in [
        (
            "SELECT DISTINCT \"Ward\", kind, pg_typeof(\"Ward\")::text FROM \"Visits\" LIMIT 0",
            0,
        ),
        (
            "SELECT kind || '.' AS k FROM \"Clinic East\".\"Visits\" AS v (p, w) LIMIT 3",
            3,
        ),
        (
            "SELECT \"Clinic East\".\"Visits\".\"Ward\" FROM \"Visits\" WHERE \"Ward\" > 'north'",
            333,
        ),
        (
            "SELECT seen + 1 AS next FROM \"Visits\" WHERE \"Minutes\" NOT BETWEEN 0 AND 60",
            0,
        ),
    ] {
        match veil.ask_as(&analyst, sql).await {
            Ok(answer) => {
                let found = answer.rows.len().abs_diff(wanted);
                assert!(
                    found <= 1,
                    "{sql}: {} {:?}",
                    answer.rows.len(),
                    answer.notices
                );
            }
            Err(error) => assert!(sql.contains("pg_typeof"), "{sql}: {error}"),
        }
    }
    // The shadow's domains have no conditions: nothing real is checked by them.
    let (rows, _, notices) = shown(&veil, &analyst, "SELECT * FROM odds").await;
    assert_eq!(rows, 500, "{notices}");
}

/// Eight keys have far more combinations than an answer may have groups. All their triples share
/// noise nevertheless, and are PostgreSQL's without it.
#[tokio::test(flavor = "multi_thread")]
async fn triples_of_eight_keys_share_noise() {
    let fill = async |client: &tokio_postgres::Client| {
        let sizes = [9, 8, 7, 6, 6, 5, 2, 11];
        let columns = (0..8).map(|at| format!("k{at} int NOT NULL"));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let values = sizes.iter().enumerate();
        let values = values.map(|(at, size)| format!("(g * {} + g / 7) % {size}", 2 * at + 1));
        let values = values.collect::<Vec<_>>().join(", ");
        let made = format!(
            "CREATE SCHEMA \"Census\"; CREATE TABLE \"Census\".people (id int PRIMARY KEY, \
                {columns}); INSERT INTO \"Census\".people SELECT g, {values} FROM \
                generate_series(1, 3000) g"
        );
        client.batch_execute(&made).await.unwrap();
    };
    let columns = [9, 8, 7, 6, 6, 5, 2, 11].iter().enumerate();
    let columns = columns.map(|(at, size)| format!("k{at}: {{bounds: [0, {}]}}", size - 1));
    let yaml = format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: person, budget: {{epsilon: 8, delta: 1e-6}}, per_query: {{epsilon: 1}}}}
roles: [{{name: analyst, password: {VERIFIER}, budget: {{epsilon: 4, delta: 1e-6}}}}]
tables: {{Census.people: {{unit: id, columns: {{{}}}}}}}
summaries: {{all: {{of: Census.people, keys: [k0, k1, k2, k3, k4, k5, k6, k7], marginals: all 3, \
        epsilon: 1}}}}
",
        columns.collect::<Vec<_>>().join(", ")
    );
    let veil = Veil::over(fill, &yaml, Veil::silent()).await;
    let engine = &veil.engine;
    let summary = &engine.policy().summaries[0];
    let question = SummaryQuestion::new(engine.policy(), summary).unwrap();
    let price = question.release().price().unwrap();
    let by = price.effects.as_ref().unwrap();
    assert!(by.sources.is_some() && by.effects.cells() > 900_000);
    // Separate noise of 56 triples, at mu of epsilon 1 and delta 1e-6.
    let apart = 56f64.sqrt() / 0.236_704_38;
    let errors = question.errors();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    assert_eq!(errors.len(), 93);
    assert!(largest < 0.95 * apart, "{largest} {apart}");
    make(&veil, engine, &mut Silent).await.unwrap();
    let mut requester = session("analyst");
    requester.session_settings.reuse = Reuse::Summary;
    for sql in [
        "SELECT k0, k2, k7, count(*) FROM \"Census\".people GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        "SELECT k4, count(*) FROM \"Census\".people WHERE k6 = 1 AND k0 < 5 GROUP BY 1 HAVING \
            count(*) > 0 ORDER BY 1",
        "SELECT count(*) FROM \"Census\".people WHERE k1 < 4 AND NOT k3 = 2",
    ] {
        veil.answers_as_postgresql(&requester, &[sql]).await;
    }
}
