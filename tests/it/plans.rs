//! Plans are made once for a question like in everything, and anew for every other.

use std::sync::Arc;

use pgveil::engine::Asker;
use pgveil::parse::{Query, Statement, parse};
use pgveil::rewrite::Plan;

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
