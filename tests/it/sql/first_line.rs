//! The first line of EXPLAIN tells the error of the answer that the role then gets, whatever it
//! comes from.

use pgveil::engine::{Requester, Service};
use pgveil::mechanism::Loss;
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Notices, Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use super::summaries::{declared, make, session, with_reuse};
use crate::fixture::{Silent, Veil};

/// EXPLAIN's lines.
async fn explained(veil: &Veil, requester: &Requester, sql: &str) -> Vec<String> {
    let statements = parse(&format!("EXPLAIN {sql}")).unwrap();
    let [Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("{sql}")
    };
    let cancel = CancellationToken::new();
    let explained = veil
        .engine
        .explain(requester, query, &[], &[], *format, cancel);
    explained.await.unwrap()
}

async fn first_line(veil: &Veil, requester: &Requester, sql: &str) -> String {
    explained(veil, requester, sql).await.swap_remove(0)
}

/// The largest half of a 95 % interval that a text tells.
fn largest(text: &str) -> f64 {
    let halves = text.split('±').skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        rest[..end.unwrap_or(rest.len())].parse::<f64>().unwrap()
    });
    halves.fold(0.0, f64::max)
}

/// Asks for counts or sums that are free, and expects that the notices of the answer tell the error
/// that the first line shows.
async fn tells_the_error(veil: &Veil, requester: &Requester, sql: &str) -> String {
    let shown = first_line(veil, requester, sql).await;
    assert!(shown.contains("; free"), "{sql}: {shown}");
    let mut asking = requester.clone();
    asking.session_settings.notices = Notices::Full;
    let answer = veil.ask_as(&asking, sql).await.unwrap();
    let noise = answer.notices.iter();
    let noise = noise.filter(|line| line.starts_with("noise of aggregate"));
    let got = noise.map(|line| largest(line)).fold(0.0, f64::max);
    let (errors, _) = shown.split_once(';').unwrap();
    println!("{sql}\n  {shown}\n  {:?}", answer.notices);
    // A notice has two decimals.
    let off = (largest(errors) - got).abs();
    assert!(off <= 0.01 * got + 0.006, "{sql}: {shown}: {got}");
    shown
}

fn with(settings: SessionSettings) -> Requester {
    Requester {
        session_settings: settings,
        ..Veil::requester()
    }
}

/// Sums of a finer answer have more noise than a bought answer would have.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_of_sums_of_a_finer_answer() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let plain = Veil::requester();
    let finer = "SELECT race, college_graduate, count(*), avg(years_of_school) FROM nls.women \
        GROUP BY 1, 2";
    veil.ask(finer).await.unwrap();
    let exact = SessionSettings {
        reuse: Reuse::Exact,
        ..SessionSettings::with_fixed_clips()
    };
    let count = "SELECT count(*) FROM nls.women";
    let bought = first_line(&veil, &with(exact), count).await;
    let summed = tells_the_error(&veil, &plain, count).await;
    assert!(
        largest(&summed) > 2.0 * largest(&bought),
        "{summed} {bought}"
    );
    let by_groups = "SELECT CASE WHEN race = 'black' THEN 1 ELSE 2 END, count(*) FROM nls.women \
        GROUP BY 1";
    let by_groups = tells_the_error(&veil, &plain, by_groups).await;
    assert!(by_groups.contains(" to ±"), "{by_groups}");
    // An average's error is that of the sum about the middle of its range.
    let average = "SELECT avg(years_of_school) FROM nls.women";
    let shown = first_line(&veil, &plain, average).await;
    assert!(shown.contains(" / rows; free"), "{shown}");
    let sql = "SELECT pgveil.stderr(avg(years_of_school)) * count(*) FROM nls.women";
    let got = veil.rows_as(&plain, sql).await.unwrap();
    let ratio = 1.96 * got[0].parse::<f64>().unwrap() / largest(&shown);
    println!("{shown} {got:?} {ratio}");
    assert!((0.98..1.3).contains(&ratio), "{shown}: {got:?}");
}

/// An answer that was bought at a higher price has less noise. Of two releases, one may be held.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_of_a_better_answer() {
    let veil = Veil::demo(Veil::precise, None).await;
    let at = |epsilon| {
        with(SessionSettings {
            epsilon: Some(epsilon),
            ..SessionSettings::with_fixed_clips()
        })
    };
    let count = "SELECT count(*) FROM nls.women";
    let fresh = first_line(&veil, &at(100.0), count).await;
    veil.rows_as(&at(400.0), count).await.unwrap();
    let held = tells_the_error(&veil, &at(100.0), count).await;
    assert!(2.0 * largest(&held) < largest(&fresh), "{fresh} {held}");
    let lines = explained(&veil, &at(100.0), count).await;
    let better = "Reuse: the same was released before, and is shown again; a bought answer ";
    assert!(
        lines.iter().any(|line| line.starts_with(better)),
        "{lines:#?}"
    );
    let both = format!("{count} UNION ALL SELECT count(*) FROM nls.women WHERE birth_year = 1944");
    let line = first_line(&veil, &at(100.0), &both).await;
    let (of_held, rest) = line.split_once(" and ").unwrap();
    assert!(held.starts_with(&format!("{of_held};")), "{line} {held}");
    assert!(
        rest.starts_with("±") && rest.contains(" left after"),
        "{line}"
    );
    assert!(2.0 * largest(of_held) < largest(rest), "{line}");
}

/// Before a look the error is a multiple of the clip; the answer that is kept has the clip.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_after_a_look() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let requester = with(SessionSettings::default());
    let sum = "SELECT sum(hours_per_week) FROM nls.interviews";
    let before = first_line(&veil, &requester, sum).await;
    assert!(before.starts_with("at most ±"), "{before}");
    veil.rows_as(&requester, sum).await.unwrap();
    let after = tells_the_error(&veil, &requester, sum).await;
    assert!(largest(&after) <= largest(&before), "{before} {after}");
}

/// The answer of a summary has the summary's error, shown before it is received: the policy says
/// it, whether the summary was made or not.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_tells_the_error_of_a_summary() {
    let veil = Veil::demo(declared, None).await;
    let colleague = session("colleague");
    let count = "SELECT count(*) FROM nls.women WHERE race = 'black'";
    let unmade = explained(&veil, &colleague, count).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let made = explained(&veil, &colleague, count).await;
    assert_eq!(unmade, made);
    println!("{made:#?}");
    let (summary, bought) = made[0].split_once("; else ").unwrap();
    let terms = " from summary women where it is made, for ";
    let (error, price) = summary.split_once(terms).unwrap();
    assert!(price.ends_with(" of your budget, once"), "{price}");
    let exact = first_line(&veil, &with_reuse("colleague", Reuse::Exact), count).await;
    assert_eq!(bought, exact);
    // A session that buys nothing is refused, and the desk's button buys the answer alone.
    let unheld = with_reuse("colleague", Reuse::Summary);
    let refused = veil.rows_as(&unheld, count).await.unwrap_err().report();
    let line = first_line(&veil, &unheld, count).await;
    assert_eq!(line, format!("refused, at no cost: {}", refused.message));
    let statements = parse(count).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{count}")
    };
    let (both, cancel) = ((query, query), CancellationToken::new());
    let at_desk = veil.engine.price(&colleague, both, Loss::ZERO, cancel);
    assert_eq!(at_desk.await.unwrap().lines[0], exact);
    assert!(largest(error) > largest(bought), "{}", made[0]);
    let before = veil.engine.ledger().balance("colleague").await.unwrap();
    veil.rows_as(&colleague, count).await.unwrap();
    let after = veil.engine.ledger().balance("colleague").await.unwrap();
    let paid = 100.0 * (before.fraction_left() - after.fraction_left());
    let share: f64 = price.split(' ').next().unwrap().parse().unwrap();
    assert!((share / paid - 1.0).abs() < 0.01, "{price}: {paid}");
    let held = tells_the_error(&veil, &colleague, count).await;
    assert!(
        held.starts_with(&format!("{error}; free")),
        "{held} {error}"
    );
    // Groups that add up more of the summary's have more noise.
    let by_age = "SELECT birth_year < 1946, count(*) FROM nls.women GROUP BY 1";
    let line = tells_the_error(&veil, &colleague, by_age).await;
    assert!(line.contains(" to ±"), "{line}");
}

/// The JSON says the same as the first line.
#[tokio::test(flavor = "multi_thread")]
async fn the_json_tells_the_errors_of_the_answer() {
    let veil = Veil::demo(declared, None).await;
    let count = "(FORMAT JSON) SELECT count(*) FROM nls.women WHERE race = 'black'";
    let json = async |requester: &Requester| -> serde_json::Value {
        let text = explained(&veil, requester, count).await.join("\n");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()[0].clone()
    };
    let half = |of: &serde_json::Value| of["errors"][0]["half_width_95"].as_f64().unwrap();
    let before = json(&session("analyst")).await;
    let (bought, received) = (half(&before), half(&before["if_received"]));
    assert_eq!(before["if_received"]["summaries"][0], "women");
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let held = json(&session("analyst")).await;
    println!("{held:#}");
    assert_eq!(
        (half(&held), held["errors"][0]["is"].as_str()),
        (received, Some("known"))
    );
    assert!(received > bought);
    assert!(held["if_received"].is_null());
    // What a bought answer would have stands with the release.
    let release = &held["releases"][0]["aggregates"][0]["half_width_95"];
    assert_eq!(release.as_f64().unwrap(), bought);
}
