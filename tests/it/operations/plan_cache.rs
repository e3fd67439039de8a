//! Equal questions share one plan; every other question gets a new one.

use std::sync::Arc;

use pgveil::engine::{Requester, constants};
use pgveil::mechanism::{AccountState, Accounting, Cap, Fixed, Loss, Mechanism, mu_of};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{Policy, SessionSettings, TargetError};
use pgveil::rewrite::{ChoiceKind, Measure, Plan, Terms, measure_deviation, of_row};

use crate::fixture::Veil;

/// One release for which small budgets choose Laplace noise, and one for which no budget does.
const MIXED: &str = "SELECT a.n, b.year, b.w FROM (SELECT count(*) AS n FROM nls.women) AS a
    CROSS JOIN (SELECT year, avg(hourly_wage) AS w FROM nls.interviews GROUP BY year) AS b";

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

async fn plan(veil: &Veil, requester: &Requester, sql: &str) -> Arc<Plan> {
    veil.engine.plan(requester, &query(sql)).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_that_of_its_question_alone() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let requester = Veil::requester();
    let sql = "SELECT race, avg(birth_year) FROM nls.women WHERE years_of_school > 8 GROUP BY race";
    let first = plan(&veil, &requester, sql).await;
    assert!(
        Arc::ptr_eq(&first, &plan(&veil, &requester, sql).await),
        "asked at Describe and at Execute"
    );
    // Another value, other settings, another path of schemas.
    assert_ne!(
        *first,
        *plan(&veil, &requester, &sql.replace("> 8", "> 9")).await
    );
    assert_ne!(
        *first,
        *plan(
            &veil,
            &Requester {
                session_settings: Veil::session_settings(0.2),
                ..Veil::requester()
            },
            sql
        )
        .await
    );
    let found = plan(
        &veil,
        &Requester {
            search_path: vec!["nls".to_owned()],
            ..Veil::requester()
        },
        &sql.replace("nls.", ""),
    )
    .await;
    assert_eq!(found.releases()[0].sql(), first.releases()[0].sql());
    assert!(
        veil.engine
            .plan(&requester, &query(&sql.replace("nls.", "")))
            .await
            .is_err(),
        "a plan of one path of schemas is none of another"
    );
    // The role is part of it, and so is the time where it is read.
    let clock = "SELECT count(*) FROM nls.women WHERE date '2024-01-01' + birth_year > now()";
    assert!(!Arc::ptr_eq(
        &plan(&veil, &requester, clock).await,
        &plan(&veil, &requester, clock).await
    ));
    let day = "SELECT (now() AT TIME ZONE 'UTC')::date::text";
    let before = veil.direct(day).await.remove(0);
    let ages = plan(
        &veil,
        &requester,
        "SELECT count(*) FROM nls.women WHERE age(make_date(birth_year, \
        1, 1)) > interval '50 years'",
    )
    .await;
    // Midnight may have passed meanwhile.
    let days = [before, veil.direct(day).await.remove(0)];
    let emitted = ages.releases()[0].sql().unwrap();
    assert!(
        days.iter()
            .any(|today| emitted.contains(&format!("age(CAST('{today}"))),
        "{emitted}"
    );
    // Money that is spent may choose another mechanism, until a Gaussian is paid for: no pure
    // epsilon is left to choose by then.
    veil.ask(sql).await.unwrap();
    assert!(mechanisms(&first).contains(&Mechanism::Gaussian));
    let second = plan(&veil, &requester, sql).await;
    assert!(!Arc::ptr_eq(&first, &second));
    veil.ask(&sql.replace("> 8", "> 9")).await.unwrap();
    assert!(Arc::ptr_eq(&second, &plan(&veil, &requester, sql).await));
    // Many other questions push it out.
    let last = plan(&veil, &requester, sql).await;
    for year in 0..40 {
        plan(
            &veil,
            &requester,
            &sql.replace("> 8", &format!("> -{year}")),
        )
        .await;
    }
    let again = plan(&veil, &requester, sql).await;
    assert!(!Arc::ptr_eq(&last, &again));
    assert_eq!(*last, *again);
}

/// A free question is planned once, whatever the accounts' state.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_plan_is_found_again() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let sql = "SELECT * FROM pgveil.columns";
    let first = plan(&veil, &Veil::requester(), sql).await;
    veil.ask("SELECT count(*) FROM nls.women").await.unwrap();
    assert!(Arc::ptr_eq(
        &first,
        &plan(&veil, &Veil::requester(), sql).await
    ));
}

/// Whatever the law of the noise and the trial's epsilon, a plan has at most the target error, or
/// there is no plan.
#[tokio::test(flavor = "multi_thread")]
async fn wanted_errors_are_met() {
    const PAIR: &str = "SELECT count(*), avg(birth_year) FROM nls.women";
    const CENTRED: &str = "SELECT avg(college_graduate * 100 - 50) FROM nls.women";
    for accounting in ["gdp", "zcdp", "pure"] {
        let veil = Veil::demo(
            |y| y.replace("accounting: gdp", &format!("accounting: {accounting}")),
            Veil::silent(),
        )
        .await;
        let mut met = 0;
        // Shares of a row, in percent, of the most that the count may add and of the most that the
        // average's parts may. The count is a part of the average.
        for (sql, of_count, of_average) in [
            (PAIR, 500.0, 1e7),
            (PAIR, 1e8, 500.0),
            (PAIR, 6000.0, 90_000.0),
            (CENTRED, 10_000.0, 10_000.0),
        ] {
            let targets = format!("{of_count}% of a row, {of_average}% of a row");
            for epsilon in [0.05, 0.1, 0.5] {
                let mut session_settings = Veil::session_settings(epsilon);
                session_settings
                    .set("pgveil.target_error", &targets)
                    .unwrap();
                let Ok((plan, _)) = veil
                    .engine
                    .plan(
                        &Requester {
                            session_settings,
                            ..Veil::requester()
                        },
                        &query(sql),
                    )
                    .await
                else {
                    continue;
                };
                let [release] = plan.releases() else {
                    panic!("{sql}")
                };
                let found: Vec<f64> = release
                    .measures()
                    .iter()
                    .map(|measure| measure_deviation(release, measure).unwrap())
                    .collect();
                let wanted = |measure: &Measure| {
                    let percent = match measure {
                        Measure::Count(_) => f64::min(of_count, of_average),
                        _ => of_average,
                    };
                    of_row(percent / 100.0, measure)
                };
                let is_met = release
                    .measures()
                    .iter()
                    .zip(&found)
                    .all(|(measure, found)| *found <= wanted(measure) * 1.00001);
                assert!(is_met, "{accounting} {epsilon} {targets}: {found:?}");
                met += 1;
            }
        }
        assert!(met >= 6, "{accounting}: {met}");
    }
}

/// A public question has no release, but may be long: the kept plans have one common bound.
#[tokio::test(flavor = "multi_thread")]
async fn of_long_questions_few_are_kept() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let requester = Veil::requester();
    let sized = |number: usize, bytes: usize| format!("SELECT {number}, '{}'", "x".repeat(bytes));
    let longest = sized(0, 200_000);
    assert!(!Arc::ptr_eq(
        &plan(&veil, &requester, &longest).await,
        &plan(&veil, &requester, &longest).await
    ));
    let mut plans = Vec::new();
    for number in 0..8 {
        plans.push(plan(&veil, &requester, &sized(number, 190_000)).await);
    }
    for number in [7, 6, 5, 4, 3] {
        assert!(
            Arc::ptr_eq(
                &plans[number],
                &plan(&veil, &requester, &sized(number, 190_000)).await
            ),
            "{number}"
        );
    }
    assert!(!Arc::ptr_eq(
        &plans[2],
        &plan(&veil, &requester, &sized(2, 190_000)).await
    ));
}

/// The ceiling binds the statement, also where one release alone would take another noise than its
/// sibling: the review's own run.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_statement_takes_one_noise_within_its_ceiling() {
    let small = |yaml: String| {
        let yaml = yaml.replace(
            "budget: {epsilon: 8, delta: 1e-6}",
            "budget: {epsilon: 1, delta: 1e-6}",
        );
        yaml.replace(
            "budget: {epsilon: 3, delta: 1e-7",
            "budget: {epsilon: 1, delta: 1e-6",
        )
    };
    let veil = Veil::demo(small, Veil::silent()).await;
    let lines = veil
        .explained(Veil::session_settings(0.5), &format!("EXPLAIN {MIXED}"))
        .await;
    assert!(
        lines
            .iter()
            .any(|line| line.contains("v0: rows: Gaussian noise")),
        "{lines:#?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains("Laplace noise")),
        "{lines:#?}"
    );
    let cost = lines
        .iter()
        .find_map(|line| line.strip_prefix("Cost: mu "))
        .unwrap();
    let mu: f64 = cost.split(' ').next().unwrap().parse().unwrap();
    let most = mu_of(Fixed::round_down(0.5), Fixed::round_down(1e-6))
        .unwrap()
        .to_f64();
    assert!(mu <= most + 5e-5, "{mu} of {most}");
    // Alone the count does take it.
    let lines = veil
        .explained(
            Veil::session_settings(0.5),
            "EXPLAIN SELECT count(*) FROM nls.women",
        )
        .await;
    assert!(
        lines
            .iter()
            .any(|line| line.contains("v0: rows: Laplace noise")),
        "{lines:#?}"
    );
    // A whole budget's epsilon buys one statement of an untouched account, and no second.
    let requester = Requester {
        session_settings: Veil::session_settings(0.99),
        ..Veil::requester()
    };
    veil.ask_as(&requester, MIXED).await.unwrap();
    assert!(
        veil.spent().await
            <= mu_of(Fixed::round_down(0.99), Fixed::round_down(1e-6))
                .unwrap()
                .square()
                .to_f64()
    );
    assert!(
        veil.ask_as(
            &requester,
            &MIXED.replace("women", "women WHERE birth_year > 1945")
        )
        .await
        .is_err()
    );
}

fn mechanisms(plan: &Plan) -> Vec<Mechanism> {
    let vectors = plan
        .releases()
        .iter()
        .filter_map(|release| release.price())
        .map(|price| price.mechanism);
    let counted = plan
        .releases()
        .iter()
        .flat_map(|release| release.choices())
        .filter_map(|part| match &part.kind {
            ChoiceKind::Count { calibrated, .. } => calibrated.first(),
            ChoiceKind::Choice { .. } => None,
        });
    let of_parts = counted.map(|calibrated| match calibrated.noise {
        pgveil::mechanism::Noise::Laplace { .. } => Mechanism::Laplace,
        pgveil::mechanism::Noise::Gaussian { .. } => Mechanism::Gaussian,
    });
    vectors.chain(of_parts).collect()
}

/// To the last unit of 2^-60, for every noise, accounting, setting and number of releases; and all
/// releases take one noise.
#[tokio::test(flavor = "multi_thread")]
async fn no_statement_costs_more_than_its_ceiling() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let policy = veil.engine.policy();
    let distinct = "SELECT count(DISTINCT married), count(*) FROM nls.interviews";
    let percentiles = "SELECT count(*), percentile_cont(ARRAY[0.1, 0.3, 0.5, 0.7, 0.9]) WITHIN \
        GROUP (ORDER BY hourly_wage),
        max(hourly_wage), mode() WITHIN GROUP (ORDER BY year) FROM nls.interviews";
    let middle =
        "SELECT count(*) FROM nls.women WHERE birth_year > (SELECT avg(birth_year) FROM nls.women)";
    let keyed = "SELECT birth_year * 2, count(*), (SELECT count(*) FROM nls.women) FROM nls.women \
        GROUP BY 1";
    let three = "SELECT (SELECT count(*) FROM nls.women), (SELECT count(*) FROM nls.women WHERE \
        race = 'black'), (SELECT sum(birth_year) FROM nls.women)";
    let one = "SELECT count(*) FROM nls.women";
    let (mut laplace, mut gaussian) = (0, 0);
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        for budget in [0.3, 1.0, 8.0] {
            let down = Fixed::round_down;
            let cap = Cap::new(down(budget), down(1e-6), down(0.005), accounting).unwrap();
            let accounts = vec![
                AccountState {
                    cap,
                    spent: Loss::ZERO
                };
                2
            ];
            for (epsilon, target) in [
                (0.05, None),
                (0.3, None),
                (0.7, None),
                (1.0, None),
                (0.5, Some(40.0)),
                (0.1, Some(200.0)),
            ] {
                let target_error = target.map(|error| TargetError::Absolute(error).into());
                let session_settings = SessionSettings {
                    target_error,
                    ..Veil::session_settings(epsilon)
                };
                let terms = Terms {
                    epsilon,
                    delta: 1e-6,
                    accounts: accounts.clone(),
                    session_settings,
                    ranges: Vec::new(),
                };
                for sql in [one, MIXED, distinct, percentiles, middle, keyed, three] {
                    let Some(plan) = planned(sql, policy, &terms) else {
                        continue;
                    };
                    let most = down(if target.is_some() {
                        policy.privacy.epsilon_max
                    } else {
                        epsilon
                    });
                    let (loss, mu) = (plan.loss(), mu_of(most, down(1e-6)).unwrap());
                    let is_within = loss.epsilon.is_some_and(|own| own <= most)
                        || accounting != Accounting::Pure && loss.mu_squared <= mu.square();
                    assert!(
                        is_within,
                        "{accounting:?} {budget} {epsilon} {target:?} {sql}: {loss:?}"
                    );
                    let found = mechanisms(&plan);
                    assert!(
                        found.windows(2).all(|pair| pair[0] == pair[1]),
                        "{accounting:?} {budget} {epsilon} {target:?} {sql}: {found:?}"
                    );
                    match found.first() {
                        Some(Mechanism::Laplace) => laplace += 1,
                        Some(Mechanism::Gaussian) => gaussian += 1,
                        None => {}
                    }
                }
            }
        }
    }
    assert!(laplace > 20 && gaussian > 40, "{laplace} {gaussian}");
}

/// `None` where it is refused: keys by threshold under pure accounting, errors that cannot be aimed
/// at.
fn planned(sql: &str, policy: &Policy, terms: &Terms) -> Option<Plan> {
    let constants = constants(&Veil::requester(), policy);
    pgveil::engine::plan(
        &query(sql),
        policy,
        &["public".to_owned()],
        &constants,
        terms,
    )
    .ok()
}

/// A statement's releases may be paid one by one, where others are recalled: each costs what the
/// policy's least epsilon is worth, which bounds how many there are.
#[tokio::test(flavor = "multi_thread")]
async fn each_release_costs_the_least_epsilon() {
    let veil = Veil::demo(
        |yaml| yaml.replace("max_epsilon: 1}", "max_epsilon: 1, min_epsilon: 0.05}"),
        None,
    )
    .await;
    let policy = veil.engine.policy();
    let least = mu_of(Fixed::round_down(0.05), Fixed::round_down(1e-7))
        .unwrap()
        .square();
    let with_target = |text: &str| {
        let mut session_settings = Veil::session_settings(0.5);
        session_settings.set("pgveil.target_error", text).unwrap();
        session_settings
    };
    let (one, three) = (
        "SELECT count(*) FROM nls.women",
        "SELECT (SELECT count(*) FROM nls.women), (SELECT sum(birth_year) FROM nls.women), \
            count(*) \
            FROM nls.interviews",
    );
    let planned = async |session_settings: SessionSettings, sql: &str| {
        veil.engine
            .plan(
                &Requester {
                    session_settings,
                    ..Veil::requester()
                },
                &query(sql),
            )
            .await
    };
    for (session_settings, sql) in [
        (Veil::session_settings(0.05), one),
        (Veil::session_settings(0.1), three),
        (with_target("100000"), one),
        (with_target("100000"), three),
    ] {
        let (plan, _) = planned(session_settings, sql).await.unwrap();
        for release in plan.releases() {
            let loss = release.loss().unwrap();
            assert!(
                loss.mu_squared.to_f64() >= least.to_f64() * (1.0 - 1e-6),
                "{sql}: {loss:?}"
            );
        }
        let role = policy.role("analyst").unwrap().budget;
        let cap = Cap::new(
            Fixed::round_down(role.epsilon),
            Fixed::round_down(role.delta),
            Fixed::round_down(0.005),
            Accounting::Gdp,
        )
        .unwrap();
        let most = cap.questions(Fixed::round_down(0.05), Fixed::round_down(role.delta));
        assert!((2_200..2_260).contains(&most), "{most}");
    }
    let refused = planned(Veil::session_settings(0.05), three)
        .await
        .unwrap_err()
        .report();
    assert_eq!(
        (refused.sqlstate.as_str(), refused.message.as_str()),
        (
            "22023",
            "epsilon 0.05 is too small for the 3 parts of this query: each needs at least epsilon \
                0.05 alone"
        )
    );
    let hint = refused.hint.unwrap();
    let enough: f64 = hint
        .strip_prefix("SET pgveil.epsilon = ")
        .and_then(|rest| rest.split(',').next())
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        enough < 0.1 && planned(Veil::session_settings(enough), three).await.is_ok(),
        "{enough}"
    );
    let refused = planned(Veil::session_settings(0.0499), one)
        .await
        .unwrap_err()
        .report();
    assert_eq!(
        (refused.sqlstate.as_str(), refused.message.as_str()),
        ("22023", "pgveil.epsilon must be at least 0.05 here")
    );
}
