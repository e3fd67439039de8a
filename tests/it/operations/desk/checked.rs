//! Prices of questions that `pgveil.reuse = checked` compares with the rows.

use pgveil::policy::Reuse;

use super::*;
use crate::sql::checked::{with_a_bad_summary, with_a_bad_summary_and};
use crate::sql::summaries::with_reuse;

const BLACK: &str = "SELECT count(*) FROM nls.women WHERE race = 'black'";
const GRADUATES: &str =
    "SELECT sum(years_of_school) AS s FROM nls.women WHERE college_graduate = 1";

async fn stage_of(veil: Veil) -> Stage {
    let engine = Arc::clone(&veil.engine);
    let drain = Duration::from_secs(10);
    stage_over((veil, engine), Lifetimes::default(), None, drain).await
}

fn checked(epsilon: f64, tolerance: f64, sql: &str) -> String {
    format!(
        "SET pgveil.reuse = checked; SET pgveil.epsilon = {epsilon}; SET pgveil.tolerance = \
            '{tolerance}'; {sql}"
    )
}

/// A check of a summary's answer is opened at the price that was shown, is free while it is open,
/// and where it finds the answer too far off the question is bought within the most that was shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_checked_answer_costs_what_was_shown() {
    let stage = stage_of(with_a_bad_summary().await).await;
    let visit = stage.visit();
    let raw = with_reuse("analyst", Reuse::On);
    let held = stage.veil.rows_as(&raw, BLACK).await.unwrap();
    let exact: f64 = stage.veil.direct(BLACK).await[0].parse().unwrap();
    let off = (held[0].parse::<f64>().unwrap() - exact).abs();
    let (near, far) = (checked(1.5, 1e6, BLACK), checked(1.5, off / 2.0, BLACK));
    let received = stage.veil.spent().await;
    // Without a tolerance the price is the refusal.
    let refused = visit.price(&format!("SET pgveil.reuse = checked; {BLACK}"));
    assert!(
        refused.has("22023") && refused.has("pgveil.tolerance"),
        "{}",
        refused.body
    );
    let priced = visit.price(&near);
    for wanted in [
        "for a check of the summary",
        "compared with the rows; opens the checks for epsilon 1.5",
        "% now, at most ",
    ] {
        assert!(priced.has(wanted), "{wanted}: {}", priced.body);
    }
    assert_eq!(stage.veil.spent().await, received);
    let answered = visit.run(&priced);
    assert!(
        answered.has("checked: summary women is less than 1000000 off") && answered.has(&held[0]),
        "{}",
        answered.body
    );
    let opened = stage.veil.spent().await;
    assert!(opened > received);
    // While it is open it is free, and its price says so.
    let priced = visit.price(&near);
    assert!(
        priced.has("nothing for a check of the summary") && priced.has("the checks are open"),
        "{}",
        priced.body
    );
    assert!(visit.run(&priced).has("is less than 1000000 off"));
    assert_eq!(stage.veil.spent().await, opened);
    // Another page's question ends the checks between a price and its run.
    let (priced, priced_far) = (visit.price(&near), visit.price(&far));
    let ended = visit.run(&priced_far);
    assert!(
        ended.has("or more off here") && ended.has("the checks have ended"),
        "{}",
        ended.body
    );
    let bought = stage.veil.spent().await;
    assert!(bought > opened);
    let changed = visit.run(&priced);
    assert!(
        changed.has("Not run: ") && changed.has("Run, free"),
        "{}",
        changed.body
    );
    assert_eq!(stage.veil.spent().await, bought);
    // What was bought is not checked, so that it has its interval again.
    let shown = visit.run(&changed);
    assert!(
        shown.has("privacy cost: nothing") && shown.has("An interval holds the value"),
        "{}",
        shown.body
    );
}

/// What is refused in psql is refused here, and not called free: a tolerance that is too small, and
/// more than one query may spend, or than is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_is_refused_has_no_price() {
    let refused = |visit: &Visit, asked: &str, sqlstate: &str, message: &str| {
        let got = visit.price(asked);
        assert!(
            got.has(sqlstate) && got.has(message) && !got.has("name=\"quote\""),
            "{asked}: {}",
            got.body
        );
    };
    let raw = with_reuse("analyst", Reuse::On);
    let rich = stage_of(with_a_bad_summary().await).await;
    let visit = rich.visit();
    for sql in [BLACK, GRADUATES] {
        rich.veil.rows_as(&raw, sql).await.unwrap();
        let small = "cannot distinguish 0.001 from no difference";
        refused(&visit, &checked(1.5, 0.001, sql), "22023", small);
        let much = "may spend more than epsilon 3";
        refused(&visit, &checked(2.0, 1e6, sql), "22023", much);
        let allowed = visit.price(&checked(1.5, 1e6, sql));
        let check = "for a check of the summary";
        assert!(allowed.has(check), "{}", allowed.body);
    }
    let poor =
        |yaml: String| yaml.replace("{epsilon: 90000, delta: 1e-4,", "{epsilon: 8, delta: 1e-6,");
    let poor = stage_of(with_a_bad_summary_and(poor).await).await;
    let visit = poor.visit();
    for sql in [BLACK, GRADUATES] {
        poor.veil.rows_as(&raw, sql).await.unwrap();
        let little = "does not cover the check and the question";
        refused(&visit, &checked(1.5, 1e6, sql), "53400", little);
    }
}
