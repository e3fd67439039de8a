//! Where the policy does not say how many units there are, answers that the role holds do.

use pgveil::engine::Service;
use pgveil::parse::{ExplainFormat, Query, Statement, parse};
use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::shadow::Requester;
use tokio_util::sync::CancellationToken;

use super::look;
use crate::fixture::Veil;
use crate::ledger::reuse::with_colleague;

const COUNT: &str = "SELECT count(*) FROM nls.women";

/// Noise hides it from fewer than some 10,000 women at [`LITTLE`].
const CORRELATION: &str = "SELECT corr(hourly_wage, tenure_years) FROM nls.interviews";
const LITTLE: f64 = 0.02;

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

/// With fixed clips, and otherwise default settings.
fn asking(role: &str) -> Requester {
    Requester {
        role: role.to_owned(),
        session_settings: SessionSettings::with_fixed_clips(),
        ..Veil::requester()
    }
}

fn with(asked: &Requester, epsilon: f64, reuse: Reuse) -> Requester {
    Requester {
        session_settings: SessionSettings {
            epsilon: Some(epsilon),
            reuse,
            ..asked.session_settings
        },
        ..asked.clone()
    }
}

/// EXPLAIN's line about a question that noise hides.
async fn useless_line(veil: &Veil, asked: &Requester, sql: &str) -> Option<String> {
    let query = query(sql);
    let cancel = CancellationToken::new();
    let explained = veil
        .engine
        .explain(asked, &query, &[], &[], ExplainFormat::Text, cancel);
    let lines = explained.await.unwrap();
    lines.into_iter().find(|line| line.starts_with("Useless"))
}

/// A count of the unit's table, also as the sum of a finer one. Other roles, and sessions that use
/// no stored answers, do not see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_the_role_holds_says_how_many_units_there_are() {
    let veil = Veil::demo(with_colleague, None).await;
    let (analyst, colleague) = (asking("analyst"), asking("colleague"));
    let little = |asked| with(asked, LITTLE, Reuse::On);
    for asked in [&analyst, &colleague] {
        assert_eq!(useless_line(&veil, &little(asked), CORRELATION).await, None);
    }
    veil.ask_as(&analyst, COUNT).await.unwrap();
    let expected = "Useless: this answer would be ±1.00 for a correlation between -1 and 1; it is \
        refused, at no cost";
    let line = useless_line(&veil, &little(&analyst), CORRELATION).await;
    assert_eq!(line.as_deref(), Some(expected));
    assert_eq!(
        useless_line(&veil, &little(&colleague), CORRELATION).await,
        None
    );
    let fresh = with(&analyst, LITTLE, Reuse::Off);
    assert_eq!(useless_line(&veil, &fresh, CORRELATION).await, None);

    let spent = veil.spent().await;
    let refused = veil.ask_as(&little(&analyst), CORRELATION).await;
    let refused = refused.unwrap_err().report();
    assert_eq!(refused.sqlstate, "PV001");
    let detail = refused.detail.unwrap();
    let known = "Nothing was charged. Answers that you hold say that there are at most about ";
    assert!(detail.starts_with(known), "{detail}");
    // The count itself is held, whatever it says.
    veil.ask_as(&little(&analyst), COUNT).await.unwrap();
    assert_eq!(veil.spent().await, spent);

    let by_race = "SELECT race, count(*) FROM nls.women GROUP BY race";
    veil.ask_as(&colleague, by_race).await.unwrap();
    let line = useless_line(&veil, &little(&colleague), CORRELATION).await;
    assert_eq!(line.as_deref(), Some(expected));
}

/// A look at all rows of a table says how many units have some, and so how many have those that
/// meet a condition. A look at fewer rows says nothing about all.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_the_role_paid_for_says_how_many_units_there_are() {
    let veil = look::veil(false).await;
    let asked = |role: &str, epsilon| Requester {
        role: role.to_owned(),
        session_settings: SessionSettings {
            clip: ClipChoice::Auto,
            reuse: Reuse::On,
            epsilon: Some(epsilon),
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let correlations = [
        "SELECT corr(amount, week) FROM retail.line",
        "SELECT corr(amount, week) FROM retail.line WHERE amount > 1",
    ];
    let lines = async |role: &str| {
        let fixed = Requester {
            session_settings: SessionSettings {
                clip: ClipChoice::Fixed,
                ..asked(role, 0.01).session_settings
            },
            ..asked(role, 0.01)
        };
        let mut found = Vec::new();
        for sql in correlations {
            found.push(useless_line(&veil, &fixed, sql).await.is_some());
        }
        found
    };
    assert_eq!(lines("analyst").await, [false, false]);
    let few = "SELECT week, count(*) FROM retail.line WHERE amount > 1 GROUP BY week";
    veil.ask_as(&asked("analyst", 20.0), few).await.unwrap();
    assert_eq!(lines("analyst").await, [false, true]);
    let all = "SELECT count(*) FROM retail.line";
    veil.ask_as(&asked("analyst", 20.0), all).await.unwrap();
    assert_eq!(lines("analyst").await, [true, true]);
    assert_eq!(lines("other").await, [false, false]);
    // Nor does it say anything about households without lines.
    let counted = asked("analyst", 0.01);
    let count = "SELECT count(*) FROM retail.household";
    assert_eq!(useless_line(&veil, &counted, count).await, None);
}
