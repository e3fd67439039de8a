//! Plans are made once for a question like in everything, and anew for every other.

use std::sync::Arc;

use pgveil::engine::Asker;
use pgveil::parse::{Query, Statement, parse};
use pgveil::rewrite::{Measure, Plan, measure_deviation};

use crate::veil::Veil;

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

async fn plan(veil: &Veil, asker: &Asker, sql: &str) -> Arc<Plan> {
    veil.engine.plan(asker, &query(sql)).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_that_of_its_question_alone() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let asker = Veil::asker();
    let sql = "SELECT race, avg(birth_year) FROM nls.women WHERE years_of_school > 8 GROUP BY race";
    let first = plan(&veil, &asker, sql).await;
    assert!(Arc::ptr_eq(&first, &plan(&veil, &asker, sql).await), "asked at Describe and at Execute");
    // Another value, other wishes, another path of schemas.
    assert_ne!(*first, *plan(&veil, &asker, &sql.replace("> 8", "> 9")).await);
    assert_ne!(*first, *plan(&veil, &Asker { wishes: Veil::wishes(0.2), ..Veil::asker() }, sql).await);
    let found = plan(&veil, &Asker { search_path: vec!["nls".to_owned()], ..Veil::asker() }, &sql.replace("nls.", "")).await;
    assert_eq!(found.releases()[0].sql(), first.releases()[0].sql());
    assert!(veil.engine.plan(&asker, &query(&sql.replace("nls.", ""))).await.is_err(), "a plan of one path of schemas is none of another");
    // Who asks is part of it, and so is the time where it is read.
    let clock = "SELECT count(*) FROM nls.women WHERE date '2024-01-01' + birth_year > now()";
    assert!(!Arc::ptr_eq(&plan(&veil, &asker, clock).await, &plan(&veil, &asker, clock).await));
    let day = "SELECT (now() AT TIME ZONE 'UTC')::date::text";
    let before = veil.direct(day).await.remove(0);
    let ages = plan(&veil, &asker, "SELECT count(*) FROM nls.women WHERE age(make_date(birth_year, 1, 1)) > interval '50 years'").await;
    // Midnight may have passed meanwhile.
    let days = [before, veil.direct(day).await.remove(0)];
    let emitted = ages.releases()[0].sql().unwrap();
    assert!(days.iter().any(|today| emitted.contains(&format!("age(CAST('{today}"))), "{emitted}");
    // Money that is spent may choose another mechanism.
    veil.ask(sql).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &plan(&veil, &asker, sql).await));
    // Many other questions push it out.
    let last = plan(&veil, &asker, sql).await;
    for year in 0..40 {
        plan(&veil, &asker, &sql.replace("> 8", &format!("> -{year}"))).await;
    }
    let again = plan(&veil, &asker, sql).await;
    assert!(!Arc::ptr_eq(&last, &again));
    assert_eq!(*last, *again);
}

/// What costs nothing is planned once, however the accounts stand.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_plan_is_found_again() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let sql = "SELECT * FROM pgveil.columns";
    let first = plan(&veil, &Veil::asker(), sql).await;
    veil.ask("SELECT count(*) FROM nls.women").await.unwrap();
    assert!(Arc::ptr_eq(&first, &plan(&veil, &Veil::asker(), sql).await));
}

/// Whatever the law of the noise and the trial's epsilon: what is planned has at most the wanted error, else nothing is.
#[tokio::test(flavor = "multi_thread")]
async fn wanted_errors_are_met() {
    const PAIR: &str = "SELECT count(*), avg(birth_year) FROM nls.women";
    const CENTRED: &str = "SELECT avg(college_graduate * 100 - 50) FROM nls.women";
    for accounting in ["gdp", "zcdp", "pure"] {
        let veil = Veil::demo(|y| y.replace("accounting: gdp", &format!("accounting: {accounting}")), Veil::silent()).await;
        let mut met = 0;
        for (sql, targets, wanted) in
            [(PAIR, "5, 1000000", [5.0, 1e6]), (PAIR, "1000000, 5", [5.0, 5.0]), (PAIR, "60, 9000", [60.0, 9000.0]), (CENTRED, "300", [300.0; 2])]
        {
            for epsilon in [0.05, 0.1, 0.5] {
                let mut wishes = Veil::wishes(epsilon);
                wishes.set("pgveil.target_error", targets).unwrap();
                let Ok((plan, _)) = veil.engine.plan(&Asker { wishes, ..Veil::asker() }, &query(sql)).await else { continue };
                let [release] = plan.releases() else { panic!("{sql}") };
                let found: Vec<f64> = release.measures().iter().map(|measure| measure_deviation(release, measure).unwrap()).collect();
                let wanted = |measure: &Measure| if matches!(measure, Measure::Count(_)) { wanted[0] } else { wanted[1] };
                let is_met = release.measures().iter().zip(&found).all(|(measure, found)| *found <= wanted(measure) * 1.00001);
                assert!(is_met, "{accounting} {epsilon} {targets}: {found:?}");
                met += 1;
            }
        }
        assert!(met >= 6, "{accounting}: {met}");
    }
}

/// A public question has no release, and may be long all the same: what is kept is bounded together.
#[tokio::test(flavor = "multi_thread")]
async fn of_long_questions_few_are_kept() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let asker = Veil::asker();
    let sized = |number: usize, bytes: usize| format!("SELECT {number}, '{}'", "x".repeat(bytes));
    let longest = sized(0, 200_000);
    assert!(!Arc::ptr_eq(&plan(&veil, &asker, &longest).await, &plan(&veil, &asker, &longest).await));
    let mut plans = Vec::new();
    for number in 0..8 {
        plans.push(plan(&veil, &asker, &sized(number, 190_000)).await);
    }
    for number in [7, 6, 5, 4, 3] {
        assert!(Arc::ptr_eq(&plans[number], &plan(&veil, &asker, &sized(number, 190_000)).await), "{number}");
    }
    assert!(!Arc::ptr_eq(&plans[2], &plan(&veil, &asker, &sized(2, 190_000)).await));
}
