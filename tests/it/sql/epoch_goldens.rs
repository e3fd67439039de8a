//! Golden files of questions to monitors and of checked answers: all lines of EXPLAIN VERBOSE, with
//! the emitted SQL, or the refusal as a client sees it.

use pgveil::engine::{Requester, Service};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use super::checked::with_monitors;
use super::outer_query::rich;
use super::summaries::{declared, make};
use crate::fixture::{Silent, Veil};

async fn story(veil: &Veil, session_settings: SessionSettings, sql: &str) -> String {
    let explain = format!("EXPLAIN VERBOSE {sql}");
    let statements = parse(&explain).unwrap();
    let [Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("{sql}")
    };
    let requester = Requester {
        session_settings,
        ..Veil::requester()
    };
    let cancel = CancellationToken::new();
    let engine = &veil.engine;
    let explained = engine.explain(&requester, query, &[], &[], *format, cancel);
    let text = match explained.await {
        Ok(lines) => lines.join("\n"),
        Err(error) => {
            let report = error.report();
            let line = |label: &str, text: &Option<String>| {
                let text = text.as_ref();
                text.map_or_else(String::new, |text| format!("\n{label}: {text}"))
            };
            format!(
                "ERROR {}: {}{}{}\nID: {}",
                report.sqlstate,
                report.message,
                line("DETAIL", &report.detail),
                line("HINT", &report.hint),
                report.reason.id()
            )
        }
    };
    format!("{sql}\n\n{text}\n")
}

fn assert_golden(name: &str, stories: &[String]) {
    insta::with_settings!({
        snapshot_path => "../../golden/epochs",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, stories.join("\n────────\n\n"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_of_monitors() {
    let veil = Veil::demo(with_monitors, Veil::silent()).await;
    let on = SessionSettings::default();
    let mut stories = Vec::new();
    for sql in [
        "SELECT pgveil.above(count(*), 1000, 'women') FROM nls.women",
        "SELECT pgveil.above(count(*) FILTER (WHERE union_member = 1), 99.5) AS many, 'x' FROM \
            nls.interviews WHERE age > 30",
        "SELECT pgveil.above(count(DISTINCT woman_id), 2000)::int FROM nls.interviews",
        "SELECT pgveil.above(sum(hours_per_week), 1e6) FROM nls.interviews",
        // Up and down.
        "SELECT pgveil.above(sum(hours_per_week - 40), -1000, 'over') FROM nls.interviews",
        "SELECT race, pgveil.above(count(*), 1000) FROM nls.women GROUP BY race",
        "SELECT pgveil.above(avg(years_of_school), 12) FROM nls.women",
        "SELECT pgveil.above(count(*), (SELECT 1000)) FROM nls.women",
        "SELECT pgveil.above(count(*), 1000) FROM nls.industries",
    ] {
        stories.push(story(&veil, on, sql).await);
    }
    let small = SessionSettings {
        epsilon: Some(0.01),
        ..on
    };
    let sql = "SELECT pgveil.above(count(*), 1000, 'cheap') FROM nls.women";
    stories.push(story(&veil, small, sql).await);
    let buys_nothing = SessionSettings {
        reuse: Reuse::Summary,
        ..on
    };
    stories.push(story(&veil, buys_nothing, sql).await);
    assert_eq!(veil.spent().await, 0.0);
    assert_golden("monitors", &stories);
}

/// The demo with monitors and a summary that is made.
async fn with_summary(edit: impl Fn(String) -> String) -> Veil {
    let yaml = |yaml: String| with_monitors(declared(edit(yaml)));
    let veil = Veil::demo(yaml, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    veil
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_of_checks() {
    let dear = |yaml: String| {
        let yaml = rich(yaml);
        yaml.replace(
            "{epsilon: 1, max_epsilon: 1}",
            "{epsilon: 1, max_epsilon: 3}",
        )
    };
    let veil = with_summary(dear).await;
    let checked = SessionSettings {
        reuse: Reuse::Checked,
        tolerance: Some(1000.0),
        ..SessionSettings::default()
    };
    let black = "SELECT count(*) FROM nls.women WHERE race = 'black'";
    let before = veil.spent().await;
    let mut stories = Vec::new();
    for sql in [
        black,
        "SELECT sum(years_of_school) FROM nls.women WHERE race = 'white' AND birth_year < 1948",
        "SELECT race, count(*) FROM nls.women GROUP BY race",
        "SELECT count(*) FROM nls.women WHERE years_of_school = 12",
    ] {
        stories.push(story(&veil, checked, sql).await);
    }
    let small = SessionSettings {
        tolerance: Some(5.0),
        ..checked
    };
    stories.push(story(&veil, small, black).await);
    let without = SessionSettings {
        tolerance: None,
        ..checked
    };
    stories.push(story(&veil, without, black).await);
    assert_eq!(veil.spent().await, before);
    // A budget that covers the question, and not the check too.
    let poor = with_summary(|yaml| yaml).await;
    stories.push(story(&poor, checked, black).await);
    assert_golden("checks", &stories);
}
