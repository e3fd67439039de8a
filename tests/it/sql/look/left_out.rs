//! Sums of which a look sees too few units, next to others.

use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::shadow::Requester;

use super::{numbers, requester, veil};
use crate::fixture::Veil;

/// Few lines are of this.
const FEW: &str = "FILTER (WHERE store = 30 AND week < 3)";

/// The rows of an answer, its notices, and what it was charged, as a share of the planned price.
async fn charged(veil: &Veil, asked: &Requester, sql: &str) -> (Vec<String>, Vec<String>, f64) {
    let before = veil.spent().await;
    let notices = veil.ask_as(asked, sql).await.unwrap().notices;
    let paid = (veil.spent().await - before) / 0.0470515;
    let again = Requester {
        session_settings: SessionSettings {
            reuse: Reuse::On,
            ..asked.session_settings.clone()
        },
        ..asked.clone()
    };
    (veil.rows_as(&again, sql).await.unwrap(), notices, paid)
}

/// Units of a sum that the look does not see may be many that are spread over its bins. Any clip of
/// their sum would have an interval that does not hold, so that it is NULL, and so is what is
/// computed from it. The other sums are answered, at the planned price, as if it had not been asked
/// for.
#[tokio::test(flavor = "multi_thread")]
async fn one_sum_of_few_units_is_null() {
    let veil = veil(true).await;
    let mut asked = requester(0.5, ClipChoice::Auto);
    asked.session_settings.reuse = Reuse::On;
    let both = format!(
        "SELECT sum(amount), sum(amount) {FEW}, avg(amount) {FEW}, count(*), \
            pgveil.stderr(sum(amount) {FEW}), pgveil.ci_high(sum(amount) {FEW} / count(*)), \
            sum(amount) + sum(amount) {FEW}, pgveil.ci_low(count(*)) FROM retail.line"
    );
    let (shown, notices, paid) = charged(&veil, &asked, &both).await;
    assert!((paid - 1.0).abs() < 1e-3, "{paid}");
    let values: Vec<&str> = shown[0].split('|').collect();
    let is_null: Vec<bool> = values.iter().map(|value| *value == "∅").collect();
    assert_eq!(
        is_null,
        [false, true, true, false, true, true, true, false],
        "{shown:?}"
    );
    let heard = |start: &str| notices.iter().any(|notice| notice.starts_with(start));
    for (aggregate, is_heard) in [(1, false), (2, true), (3, true), (4, false)] {
        let start =
            format!("noise of aggregate {aggregate}: NULL: too few units to choose a clip (about ");
        assert_eq!(heard(&start), is_heard, "{aggregate}: {notices:?}");
    }
    // The repeat was free, and a session without this sum gets the others.
    assert!((veil.spent().await / 0.0470515 - 1.0).abs() < 1e-3);
    let direct = veil.direct("SELECT sum(amount) FROM retail.line").await;
    let near = numbers(&shown[0])[0] / numbers(&direct[0])[0];
    assert!((0.7..=1.0).contains(&near), "{shown:?}");
}

/// By group, by threshold, and as one value of a listed column whose other values are bought too.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_few_units_is_null_in_every_group() {
    let veil = veil(true).await;
    let mut asked = requester(0.5, ClipChoice::Auto);
    asked.session_settings.reuse = Reuse::On;
    for sql in [
        "SELECT week, count(*), sum(amount) FILTER (WHERE store = 30) FROM retail.line \
            GROUP BY week ORDER BY week",
        "SELECT store, count(*), sum(amount) FILTER (WHERE week = 1 AND amount > 300) \
            FROM retail.line GROUP BY store ORDER BY store",
        "SELECT 1, count(*), sum(amount) FILTER (WHERE store = 30) FROM retail.line \
            WHERE week = 5",
        "SELECT 1, count(*), sum(amount) FILTER (WHERE store = 30) FROM retail.line \
            WHERE week = 6",
    ] {
        let (shown, notices, paid) = charged(&veil, &asked, sql).await;
        assert!(!shown.is_empty(), "{sql}");
        for row in &shown {
            let is_null: Vec<bool> = row.split('|').map(|value| value == "∅").collect();
            assert_eq!(is_null, [false, false, true], "{sql}: {shown:?}");
        }
        let is_left_out = |notice: &String| notice.starts_with("noise of aggregate 2: NULL: too");
        assert!(notices.iter().any(is_left_out), "{sql}: {notices:?}");
        println!("{sql}: {paid}");
    }
    // What was left out is not a sum of zero: a coarser question of it alone is asked anew.
    let before = veil.spent().await;
    let alone = "SELECT sum(amount) FILTER (WHERE store = 30) FROM retail.line";
    let refused = veil.ask_as(&asked, alone).await.unwrap_err().report();
    assert_eq!(refused.sqlstate, "PV002", "{refused:?}");
    assert!(veil.spent().await > before);
}
