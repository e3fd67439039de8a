//! A question about one value of a listed column buys the answers for all of its values.

use pgveil::engine::Requester;
use pgveil::parse::{Statement, parse};
use pgveil::policy::{SessionSettings, Widen};

use super::outer_query::rich;
use crate::fixture::Veil;
use crate::ledger::reuse::with_colleague;

const WHITE: &str = "SELECT count(*) FROM nls.women WHERE race = 'white'";
const BLACK: &str = "SELECT count(*) FROM nls.women WHERE race = 'black'";

fn narrow() -> Requester {
    Requester {
        session_settings: SessionSettings {
            widen: Widen::Off,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    }
}

fn colleague(of: Requester) -> Requester {
    Requester {
        role: "colleague".to_owned(),
        ..of
    }
}

async fn spent(veil: &Veil, role: &str) -> f64 {
    let balance = veil.engine.ledger().balance(role).await.unwrap();
    balance.spent.mu_squared.to_f64()
}

/// The first of the questions is paid, the others are free; all are as PostgreSQL's.
async fn one_is_paid(veil: &Veil, questions: &[&str]) {
    for (at, sql) in questions.iter().enumerate() {
        let before = veil.spent().await;
        veil.answers_as_postgresql(&Veil::requester(), &[sql]).await;
        assert_eq!(veil.spent().await > before, at == 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_value_is_free() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    one_is_paid(
        &veil,
        &[
            WHITE,
            BLACK,
            "SELECT count(*) FROM nls.women WHERE race IN ('other', 'white') AND race = 'other'",
            "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race",
            WHITE,
        ],
    )
    .await;
    // Other conditions stay, and another one is another question.
    for year in [1945, 1948] {
        let of = |race: &str| {
            format!(
                "SELECT count(*), sum(years_of_school) FROM nls.women WHERE race = '{race}' AND \
                    birth_year > {year}"
            )
        };
        one_is_paid(&veil, &[&of("white"), &of("black"), &of("other")]).await;
    }
    // So do keys.
    one_is_paid(
        &veil,
        &[
            "SELECT birth_year, count(*) FROM nls.women WHERE race IN ('white', 'black') GROUP BY \
                birth_year, race HAVING count(*) > 0 ORDER BY birth_year, race",
            "SELECT birth_year, count(*) FROM nls.women WHERE race = 'other' GROUP BY 1 HAVING \
                count(*) > 0 ORDER BY 1",
        ],
    )
    .await;
    one_is_paid(
        &veil,
        &[
            "SELECT avg(years_of_school) FROM nls.women WHERE race = 'white' AND college_graduate \
                = 1 AND birth_year < 1950",
            "SELECT avg(years_of_school) FROM nls.women WHERE race = 'black' AND college_graduate \
                = 0 AND birth_year < 1950",
        ],
    )
    .await;
}

/// With noise: the shown row is the group of the whole answer, at the price of one value.
#[tokio::test(flavor = "multi_thread")]
async fn the_answers_are_one_answer() {
    let veil = Veil::demo(rich, None).await;
    let white = veil.rows_as(&Veil::requester(), WHITE).await.unwrap();
    let paid = veil.spent().await;
    let all = "SELECT count(*) FROM nls.women GROUP BY race ORDER BY race = 'white' DESC LIMIT 1";
    assert_eq!(veil.rows_as(&Veil::requester(), all).await.unwrap(), white);
    assert_eq!(veil.spent().await, paid);
    veil.rows_as(
        &narrow(),
        "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year > 0",
    )
    .await
    .unwrap();
    assert_eq!(
        veil.spent().await,
        2.0 * paid,
        "one value by itself costs the same"
    );
}

/// Another role's questions, widened or not, decide neither the purchase nor what is free.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_asked_changes_nothing() {
    let mut seen = Vec::new();
    for first in [None, Some(narrow()), Some(Veil::requester())] {
        let veil = Veil::demo(with_colleague, Veil::silent()).await;
        if let Some(first) = first {
            veil.rows_as(&first, WHITE).await.unwrap();
        }
        let mut own = Vec::new();
        for sql in [WHITE, BLACK] {
            veil.rows_as(&colleague(Veil::requester()), sql)
                .await
                .unwrap();
            own.push(spent(&veil, "colleague").await);
        }
        let plans = "SELECT plan, mu, epsilon FROM pgveil.history";
        let plans = veil.rows_as(&colleague(Veil::requester()), plans).await;
        seen.push((own, plans.unwrap()));
    }
    assert_eq!(seen[0].0[0], seen[0].0[1], "the second value is free");
    assert!(seen.iter().all(|own| *own == seen[0]), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_what_is_bought() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let fixed = SessionSettings::with_fixed_clips();
    let explained = format!("EXPLAIN {WHITE}");
    let line = "Widened: bought for every value of race (3 groups), at the same price; the others \
        are free afterwards";
    let says = async |settings| {
        let lines = veil.explained(settings, &explained).await;
        lines.iter().any(|known| known == line)
    };
    assert!(says(fixed).await);
    assert!(!says(narrow().session_settings).await);
    let verbose = veil
        .explained(fixed, &format!("EXPLAIN VERBOSE {WHITE}"))
        .await;
    let at = verbose.iter().position(|known| known == line).unwrap();
    let sql = &verbose[at + 1];
    assert!(
        sql.starts_with("  SQL: ") && sql.contains("GROUP BY"),
        "{sql}"
    );
    veil.rows_as(&Veil::requester(), BLACK).await.unwrap();
    let lines = veil.explained(fixed, &explained).await;
    assert!(!lines.iter().any(|known| known == line), "{lines:#?}");
    assert!(
        lines.contains(&"Cost now: nothing".to_owned()),
        "{lines:#?}"
    );
}

/// A look at all values is not a look at one of them: a question with fixed clips is widened, one
/// with a look is not.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_looked_at_is_not_widened() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let sql = "SELECT sum(hours_per_week) FROM nls.interviews JOIN nls.women USING (woman_id) \
        WHERE race = 'white'";
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query")
    };
    for (settings, looks) in [
        (SessionSettings::with_fixed_clips(), false),
        (SessionSettings::default(), true),
    ] {
        let requester = Requester {
            session_settings: settings,
            ..Veil::requester()
        };
        let (plan, _) = veil.engine.plan(&requester, query).await.unwrap();
        assert_eq!(plan.releases()[0].look().is_some(), looks);
        assert_eq!(plan.bought_instead().is_none(), looks);
    }
}
