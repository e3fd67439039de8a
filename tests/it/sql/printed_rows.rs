//! An answer that is shown again is printed as PostgreSQL prints it under the settings of the
//! moment, and the clock goes on.

use std::time::Duration;

use pgveil::engine::{Format, Requester, Service};
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use crate::fixture::Veil;

const QUESTION: &str = "SELECT birth_year, count(*), avg(years_of_school) FROM nls.women WHERE \
    birth_year > 1946 GROUP BY birth_year ORDER BY 2 DESC, 1 DESC";

async fn bytes(veil: &Veil, requester: &Requester, formats: &[Format]) -> Vec<Vec<u8>> {
    let statements = parse(QUESTION).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{QUESTION}")
    };
    let cancel = CancellationToken::new();
    let answer = veil
        .engine
        .answer(requester, query, &[], &[], formats, cancel);
    let rows = answer.await.unwrap().rows;
    let values = rows.into_iter().flatten().flatten();
    values.map(|value| value.to_vec()).collect()
}

#[tokio::test]
async fn rows_shown_again_are_those_of_the_settings() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let (text, binary) = ([Format::Text], [Format::Binary]);
    let plain = Veil::requester();
    let first = bytes(&veil, &plain, &text).await;
    let first_binary = bytes(&veil, &plain, &binary).await;
    assert_ne!(first, first_binary);
    for _ in 0..2 {
        assert_eq!(bytes(&veil, &plain, &text).await, first);
        assert_eq!(bytes(&veil, &plain, &binary).await, first_binary);
    }
    // Another query over the same released values.
    let ascending = QUESTION.replace("DESC", "ASC");
    let mut backwards = veil.rows_as(&plain, &ascending).await.unwrap();
    backwards.reverse();
    assert_eq!(veil.rows_as(&plain, QUESTION).await.unwrap(), backwards);
}

#[tokio::test]
async fn printed_dates_follow_the_session() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT make_date(birth_year::int, 1, 2) AS d, count(*) FROM nls.women WHERE \
        birth_year = 1950 GROUP BY 1";
    let style = |style: &str| Requester {
        settings: vec![("DateStyle".to_owned(), style.to_owned())],
        ..Veil::requester()
    };
    let mut shown = Vec::new();
    for name in ["ISO, MDY", "German", "ISO, MDY", "SQL, DMY", "German"] {
        shown.push(veil.rows_as(&style(name), sql).await.unwrap());
    }
    assert_eq!(shown[0], shown[2]);
    assert_eq!(shown[1], shown[4]);
    let starts = [&shown[0], &shown[1], &shown[3]].map(|rows| rows[0].split('|').next().unwrap());
    assert_eq!(starts, ["1950-01-02", "02.01.1950", "02/01/1950"]);
}

#[tokio::test]
async fn the_clock_of_an_answer_that_is_shown_again_goes_on() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT count(*), now()::text FROM nls.women";
    let mut shown = Vec::new();
    for _ in 0..3 {
        shown.push(veil.rows_as(&Veil::requester(), sql).await.unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_ne!(shown[0], shown[1]);
    assert_ne!(shown[1], shown[2]);
}
