//! `pgveil.target_error` where the error is known only with the answer.

use std::sync::Arc;

use pgveil::engine::Requester;
use pgveil::parse::{Statement, parse};
use pgveil::policy::{ClipChoice, Notices, Reuse, SessionSettings, UselessMode};
use pgveil::rewrite::Plan;

use super::look::{numbers, silent_veil_of, veil};
use crate::fixture::Veil;

fn with_target(target: &str) -> Requester {
    let mut session_settings = SessionSettings {
        clip: ClipChoice::Auto,
        notices: Notices::Full,
        ..SessionSettings::with_fixed_clips()
    };
    session_settings.set("pgveil.target_error", target).unwrap();
    Requester {
        session_settings,
        ..Veil::requester()
    }
}

/// The answer's rows as numbers, and the line that states its error.
async fn output(veil: &Veil, requester: &Requester, sql: &str) -> (Vec<Vec<f64>>, String) {
    let answer = veil.ask_as(requester, sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let line = answer
        .notices
        .iter()
        .find(|n| n.starts_with("standard error: "));
    let line = line.unwrap_or_else(|| panic!("{sql}: {:?}", answer.notices));
    let rows = answer.rows.iter().map(|row| {
        let texts = row
            .iter()
            .map(|v| v.as_ref().map_or("", |v| std::str::from_utf8(v).unwrap()));
        numbers(&texts.collect::<Vec<_>>().join("|"))
    });
    (rows.collect(), line.clone())
}

/// The percentages of a line `standard error: of aggregate 1 1.9 % of the answer, …`.
fn percentages(line: &str) -> Vec<f64> {
    line.split("of aggregate ")
        .skip(1)
        .map(|part| part.split([' ', ',']).nth(1).unwrap().parse().unwrap())
        .collect()
}

/// Questions on households of very unequal sizes, over all rows and by week, at two targets. The
/// stated error is at most the target and matches the noise, and the same question is free
/// afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_answer_is_met() {
    // Without noise the looks see the same each time, and the reported errors belong to the noise
    // that would be drawn.
    let veil = veil(true).await;
    let questions = [
        "SELECT count(*) FROM retail.household",
        "SELECT sum(amount) FROM retail.line",
        "SELECT week, sum(amount) FROM retail.line GROUP BY week ORDER BY week",
        "SELECT count(*), sum(amount) FROM retail.line",
        "SELECT avg(amount) FROM retail.line",
    ];
    for sql in questions {
        // Two aggregates share one budget, and long households that noise may hide count as error:
        // 2 % of both would take more than the policy's limit for a query.
        let small = if sql.contains("count(*), sum") {
            ("3%", 3.0)
        } else {
            ("2%", 2.0)
        };
        for (text, target) in [("5%", 5.0), small] {
            let requester = with_target(text);
            let (rows, line) = output(&veil, &requester, sql).await;
            let shares = percentages(&line);
            assert!(!shares.is_empty(), "{sql}: {line}");
            for share in &shares {
                assert!(*share <= 1.25 * target, "{sql}, {text}: {line}");
            }
            let spent = veil.spent().await;
            let (again, _) = output(&veil, &requester, sql).await;
            assert_eq!(rows, again, "{sql}, {text}");
            assert_eq!(spent, veil.spent().await, "{sql}, {text} is paid for");
            // A clip may cut a tenth.
            for (row, direct) in rows.iter().zip(veil.direct(sql).await) {
                let direct = numbers(&direct);
                for (shown, direct) in row.iter().zip(&direct) {
                    let off = (shown / direct - 1.0).abs();
                    assert!(off < 0.1, "{sql}, {text}: {shown}, {direct}");
                }
            }
        }
    }
}

/// Under pure accounting, where the price of an answer is its epsilon: a target is met or refused,
/// and an answer that misses it is never shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_share_of_the_answer_is_met_under_pure_accounting() {
    let pure = |policy: &str| {
        let policy = policy.replace("delta: 1e-3", "delta: 0");
        policy.replace("privacy: {", "privacy: {accounting: pure, ")
    };
    let veil = silent_veil_of(pure).await;
    let questions = [
        "SELECT count(*) FROM retail.household",
        "SELECT count(*), sum(size) FROM retail.household",
        "SELECT size > 2, count(*) FROM retail.household GROUP BY 1 ORDER BY 1",
    ];
    for sql in questions {
        for (text, target) in [("5%", 5.0), ("0.1%", 0.1)] {
            let requester = with_target(text);
            let before = veil.spent().await;
            let (rows, line) = output(&veil, &requester, sql).await;
            for share in percentages(&line) {
                assert!(share <= 1.25 * target, "{sql}, {text}: {line}");
            }
            let spent = veil.spent().await;
            assert!(spent > before || target > 1.0, "{sql}, {text}");
            let (again, _) = output(&veil, &requester, sql).await;
            assert_eq!(rows, again, "{sql}, {text}");
            assert_eq!(spent, veil.spent().await, "{sql}, {text} is paid for");
        }
        let mut kept = Vec::new();
        for _ in 0..2 {
            let refused = veil.ask_as(&with_target("0.0001%"), sql).await.unwrap_err();
            let refused = refused.report();
            assert_eq!(refused.sqlstate, "22023", "{sql}: {refused}");
            let needed = refused.message.split("epsilon ").nth(1).unwrap();
            let needed: f64 = needed.split(' ').next().unwrap().parse().unwrap();
            assert!(needed > 200.0, "{sql}: {refused}");
            kept.push(veil.spent().await);
        }
        assert_eq!(kept[0], kept[1], "{sql}");
    }
}

/// Numbers in the answer's unit, where a clip is chosen by a look: declared limits would need an
/// epsilon of thousands.
#[tokio::test(flavor = "multi_thread")]
async fn an_absolute_error_is_met_under_a_chosen_clip() {
    let veil = veil(true).await;
    let sql = "SELECT sum(amount) FROM retail.line";
    let fixed = Requester {
        session_settings: SessionSettings {
            clip: ClipChoice::Fixed,
            ..with_target("20000").session_settings
        },
        ..Veil::requester()
    };
    let refused = veil.ask_as(&fixed, sql).await.unwrap_err().report();
    assert!(refused.message.contains("needs epsilon"), "{refused}");
    let (_, line) = output(&veil, &with_target("20000"), sql).await;
    let errors = percentages(&line);
    assert!(errors[0] <= 21_000.0 && errors[0] > 5_000.0, "{line}");
    // A median's error, too, is known only with the answer.
    let median = "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)";
    let sql = format!("SELECT {median}, pgveil.stderr({median}) FROM retail.line");
    let (_, line) = output(&veil, &with_target("0.5"), &sql).await;
    assert!(percentages(&line)[0] <= 0.53, "{line}");
}

/// Only the first answer is charged where the target needs too much, and it is shown afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_out_of_reach_costs_the_first_answer() {
    let veil = veil(true).await;
    let sql = "SELECT count(*) FROM retail.household";
    let asked = with_target("0.0001%");
    let refused = veil.ask_as(&asked, sql).await.unwrap_err().report();
    assert_eq!(refused.sqlstate, "22023", "{refused}");
    assert!(
        refused
            .message
            .starts_with("pgveil.target_error needs about epsilon"),
        "{refused}"
    );
    assert_eq!(
        refused.detail.as_deref(),
        Some("A first answer was charged.")
    );
    let hint = refused.hint.unwrap();
    assert!(hint.contains("SET pgveil.epsilon = 0.25"), "{hint}");
    let spent = veil.spent().await;
    assert!(spent > 0.0);
    let refused = veil.ask_as(&asked, sql).await.unwrap_err().report();
    let detail = "The first answer was paid for before.";
    assert_eq!(refused.detail.as_deref(), Some(detail));
    assert_eq!(spent, veil.spent().await);
    let mut first = asked;
    first.session_settings.target_error = None;
    first.session_settings.epsilon = Some(0.25);
    veil.rows_as(&first, sql).await.unwrap();
    assert_eq!(spent, veil.spent().await, "the first answer is paid for");
}

/// The session's own limit on what a wanted error may cost: past it the first answer alone is
/// charged, and what is known from the plan is refused free. It never raises the policy's.
#[tokio::test(flavor = "multi_thread")]
async fn max_cost_limits_what_a_wanted_error_costs() {
    let veil = veil(true).await;
    let sql = "SELECT count(*) FROM retail.household";
    let at_most = |target: &str, most: &str| {
        let mut asked = with_target(target);
        asked.session_settings.reuse = Reuse::Off;
        asked.session_settings.set("pgveil.max_cost", most).unwrap();
        asked
    };
    let spent = async |asked: &Requester| {
        let before = veil.spent().await;
        let answer = veil.ask_as(asked, sql).await;
        let refused = answer.err().map(|error| error.report());
        (refused, veil.spent().await - before)
    };
    let mut first = at_most("50%", "");
    first.session_settings.epsilon = Some(0.25);
    let (_, of_first) = spent(&first).await;
    let (refused, paid) = spent(&at_most("0.1%", "0.3")).await;
    let refused = refused.unwrap();
    assert_eq!(refused.sqlstate, "22023", "{refused}");
    assert!(
        refused
            .message
            .ends_with("more than pgveil.max_cost = 0.3 allows"),
        "{refused}"
    );
    assert!((paid / of_first - 1.0).abs() < 1e-9, "{paid}, {of_first}");
    let (refused, paid) = spent(&at_most("0.1%", "20")).await;
    assert!(refused.is_none() && paid > 2.0 * of_first, "{paid}");
    // A first answer costs no more either.
    let plan = planned(&veil, &at_most("0.1%", "0.1"), sql).await;
    assert_eq!(plan.first_answer(), Some(0.1));
    let (refused, paid) = spent(&at_most("2", "0.3")).await;
    let refused = refused.unwrap();
    let detail = "Nothing was charged. pgveil.max_cost sets the limit.";
    assert_eq!(refused.detail.as_deref(), Some(detail));
    assert!(refused.hint.unwrap().starts_with("Raise pgveil.max_cost, "));
    assert_eq!((refused.sqlstate.as_str(), paid), ("22023", 0.0));
    let past = at_most("2", "201")
        .session_settings
        .within(veil.engine.policy());
    assert_eq!(
        past.unwrap_err().message,
        "pgveil.max_cost may be at most 200 here"
    );
    // It limits nothing else.
    let mut plain = at_most("2", "0.1");
    plain.session_settings.target_error = None;
    let (refused, paid) = spent(&plain).await;
    assert!(refused.is_none() && paid > of_first, "{paid}");
}

/// A target that the first answer meets costs no second one, and fresh noise is bought each time.
#[tokio::test(flavor = "multi_thread")]
async fn a_loose_target_costs_the_first_answer() {
    let veil = veil(true).await;
    let sql = "SELECT count(*) FROM retail.household";
    let mut asked = with_target("50%");
    asked.session_settings.reuse = Reuse::Off;
    let mut paid = Vec::new();
    for _ in 0..2 {
        let before = veil.spent().await;
        output(&veil, &asked, sql).await;
        paid.push(veil.spent().await - before);
    }
    let mut plain = asked.clone();
    plain.session_settings.target_error = None;
    plain.session_settings.epsilon = Some(0.25);
    let before = veil.spent().await;
    veil.rows_as(&plain, sql).await.unwrap();
    let price = veil.spent().await - before;
    assert!(
        paid.iter().all(|paid| (paid - price).abs() < 1e-12),
        "{paid:?}, {price}"
    );
}

/// Targets that no aggregate has ask for no first answer, and all answers of a statement stay
/// within what one query may spend.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_from_the_plan_has_no_first_answer() {
    let veil = veil(true).await;
    for (target, sql) in [
        ("10, 2%", "SELECT count(*) FROM retail.household"),
        (
            "10, 5000% of a row",
            "SELECT count(*), avg(size) FROM retail.household",
        ),
    ] {
        let plan = planned(&veil, &with_target(target), sql).await;
        assert_eq!(plan.first_answer(), None, "{target}: {sql}");
    }
    let sql = "SELECT avg(size) FROM retail.household";
    let plan = planned(&veil, &with_target("0.1"), sql).await;
    assert_eq!(plan.first_answer(), Some(0.25));
}

/// With ninety units a count at epsilon 0.25 would be noise, and one at 0.5 is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_answer_is_not_useless() {
    let with_units = |y: String| y.replace("  unit: woman ", "  units: 90\n  unit: woman ");
    let veil = Veil::demo(with_units, Veil::silent()).await;
    assert_eq!(veil.engine.policy().privacy.units, Some(90));
    let sql = "SELECT count(*) FROM nls.women";
    let plan = planned(&veil, &with_target("50%"), sql).await;
    assert_eq!(plan.first_answer(), Some(0.5));
    // The session's own epsilon is never raised, and neither is one of a session that allows noise.
    let mut set = with_target("50%");
    set.session_settings.epsilon = Some(0.25);
    let plan = planned(&veil, &set, sql).await;
    assert_eq!(plan.first_answer(), Some(0.25));
    let refused = veil.ask_as(&set, sql).await.unwrap_err().report();
    assert_eq!(refused.sqlstate, "PV001", "{refused}");
    let mut allowing = with_target("50%");
    allowing.session_settings.useless = UselessMode::Allow;
    let plan = planned(&veil, &allowing, sql).await;
    assert_eq!(plan.first_answer(), Some(0.25));
}

async fn planned(veil: &Veil, requester: &Requester, sql: &str) -> Arc<Plan> {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query is wanted: {sql}")
    };
    veil.engine.plan(requester, query).await.unwrap().0
}

/// A question without a known error is refused before anything is charged.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_error_is_refused_free() {
    let veil = veil(true).await;
    for sql in [
        "SELECT store FROM retail.line GROUP BY store",
        "SELECT bool_and(amount > 1) FROM retail.line",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM retail.line",
        "SELECT percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY amount) FROM retail.line",
    ] {
        let refused = veil.ask_as(&with_target("2%"), sql).await.unwrap_err();
        let refused = refused.report();
        assert_eq!(refused.sqlstate, "0A000", "{sql}: {refused}");
        assert_eq!(veil.spent().await, 0.0, "{sql}");
    }
    // One row's part is known only for counts and sums of rows.
    let sql = "SELECT count(DISTINCT store) FROM retail.line";
    let refused = veil.ask_as(&with_target("50% of a row"), sql).await;
    assert_eq!(refused.unwrap_err().report().sqlstate, "0A000");
    assert_eq!(veil.spent().await, 0.0, "{sql}");
}
