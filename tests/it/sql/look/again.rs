//! A look that saw too few units counts together with the next look at the same question.

use std::sync::Arc;

use pgveil::mechanism::Noise;
use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::shadow::Requester;

use super::scripted::Scripted;
use super::{requester, seeded_veil, silent_veil_of, veil};
use crate::fixture::Veil;

const FEW: &str = "SELECT sum(amount) FROM retail.line WHERE week = 1 AND store > 8";

fn asking(role: &str, epsilon: f64, reuse: Reuse) -> Requester {
    Requester {
        role: role.to_owned(),
        session_settings: SessionSettings {
            reuse,
            ..requester(epsilon, ClipChoice::Auto).session_settings
        },
        ..Veil::requester()
    }
}

async fn spent(veil: &Veil, role: &str) -> f64 {
    let balance = veil.engine.ledger().balance(role).await.unwrap();
    balance.spent.mu_squared.to_f64()
}

/// An epsilon at which the strongest window of one look holds between 3.54 and 4 standard
/// deviations. Without noise, a look sees the exact numbers of units, and compares them with the
/// noise that is planned. The hint names epsilon times 5 over what they are.
async fn epsilon_that_falls_short(veil: &Veil) -> f64 {
    let mut epsilon = 0.02;
    loop {
        let asked = asking("analyst", epsilon, Reuse::Off);
        let refused = veil.ask_as(&asked, FEW).await.unwrap_err().report();
        assert_eq!(refused.sqlstate, "PV002", "{refused:?}");
        let hint = refused.hint.unwrap();
        let named = hint.strip_prefix("SET pgveil.epsilon = ");
        let named = named.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        if named.is_some_and(|named| named < 1.4 * epsilon) {
            return epsilon;
        }
        epsilon *= 1.03;
    }
}

/// A repeat of the question pays for another look, and both together show enough. The answer is
/// held then. Another role is not sold it: it depends on a look that this role has not paid for.
#[tokio::test(flavor = "multi_thread")]
async fn two_looks_together_show_what_one_does_not() {
    // What is looked at here does not count there.
    let epsilon = epsilon_that_falls_short(&veil(true).await).await;
    let veil = veil(true).await;
    for role in ["analyst", "other"] {
        let asked = asking(role, epsilon, Reuse::On);
        let before = spent(&veil, role).await;
        let refused = veil.ask_as(&asked, FEW).await.unwrap_err().report();
        assert_eq!(refused.sqlstate, "PV002", "{refused:?}");
        let hint = refused.hint.unwrap();
        let again = "Ask the same again: another look would probably show enough together with \
            this one. Otherwise ask of more rows, or ";
        assert!(hint.starts_with(again), "{hint}");
        let of_look = spent(&veil, role).await - before;
        let rows = veil.rows_as(&asked, FEW).await.unwrap();
        let of_both = spent(&veil, role).await - before;
        assert!(
            (of_both / of_look - (1.0 + 1.0 / 0.3)).abs() < 0.01,
            "{of_look}, {of_both}"
        );
        assert_eq!(veil.rows_as(&asked, FEW).await.unwrap(), rows);
        assert_eq!(spent(&veil, role).await - before, of_both);
    }
}

/// What another role has bought meanwhile changes nothing for a role whose look saw too little: the
/// repeat is refused, and not answered by the other role's answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_role_does_not_end_a_refusal() {
    let veil = veil(true).await;
    let few = "SELECT sum(amount) FROM retail.line WHERE store = 30 AND week = 1";
    let analyst = asking("analyst", 0.3, Reuse::On);
    let refused = veil.ask_as(&analyst, few).await.unwrap_err().report();
    let more = "INSERT INTO retail.line SELECT id, 1, 30, 5 FROM retail.household";
    veil.client.batch_execute(more).await.unwrap();
    let other = asking("other", 0.3, Reuse::On);
    assert!(veil.ask_as(&other, few).await.is_ok());
    let before = spent(&veil, "analyst").await;
    let again = veil.ask_as(&analyst, few).await.unwrap_err().report();
    assert_eq!(
        (again.sqlstate, again.message),
        (refused.sqlstate, refused.message)
    );
    assert_eq!(spent(&veil, "analyst").await, before);
}

/// What another role has bought meanwhile changes nothing either where the repeat is answered: its
/// noise is that of the role's own two looks.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_role_is_not_sold_after_a_look_of_ones_own() {
    let epsilon = epsilon_that_falls_short(&veil(true).await).await;
    let mut answers = Vec::new();
    for has_colleague in [false, true] {
        let veil = veil(true).await;
        let analyst = asking("analyst", epsilon, Reuse::On);
        let refused = veil.ask_as(&analyst, FEW).await.unwrap_err().report();
        assert_eq!(refused.sqlstate, "PV002", "{refused:?}");
        // A quarter more households have the same rows, so that one look shows enough.
        let more =
            "WITH has AS (SELECT household_id, row_number() OVER (ORDER BY household_id) AS n
             FROM retail.line WHERE week = 1 AND store > 8 GROUP BY household_id),
             lacks AS (SELECT id, row_number() OVER (ORDER BY id) AS n FROM retail.household
             WHERE id NOT IN (SELECT household_id FROM has))
             INSERT INTO retail.line SELECT id, week, store, amount FROM has JOIN lacks USING (n)
             JOIN retail.line USING (household_id) WHERE week = 1 AND store > 8 AND n % 4 = 0";
        veil.client.batch_execute(more).await.unwrap();
        if has_colleague {
            let colleague = asking("other", epsilon, Reuse::On);
            assert!(veil.ask_as(&colleague, FEW).await.is_ok());
        }
        let before = spent(&veil, "analyst").await;
        let answer = veil.ask_as(&analyst, FEW).await.unwrap();
        let paid = spent(&veil, "analyst").await - before;
        answers.push((answer.rows, answer.notices, paid));
    }
    assert_eq!(answers[0], answers[1]);
}

/// After two looks that saw too little together, a third one at the same epsilon is refused free,
/// as it would probably not show enough either. At a larger epsilon it is paid, and the answer
/// follows.
#[tokio::test(flavor = "multi_thread")]
async fn a_third_look_is_paid_where_it_is_better() {
    let epsilon = epsilon_that_falls_short(&veil(true).await).await;
    let sampler = Scripted::default();
    let made = sampler.clone();
    let veil = seeded_veil(Arc::new(move || Box::new(made.clone()))).await;
    let analyst = asking("analyst", epsilon, Reuse::On);
    let refused = async |asked: &Requester| {
        let before = spent(&veil, "analyst").await;
        let refused = veil.ask_as(asked, FEW).await.unwrap_err().report();
        assert_eq!(refused.sqlstate, "PV002", "{refused:?}");
        let paid = spent(&veil, "analyst").await - before;
        (refused.hint.unwrap(), refused.detail.unwrap(), paid)
    };
    let (hint, _, first) = refused(&analyst).await;
    assert!(hint.starts_with("Ask the same again: "), "{hint}");
    // The second look has a standard deviation less in each bin.
    let Some(Noise::Gaussian { sigma }) = sampler.laws().first().copied() else {
        panic!("{:?}", sampler.laws())
    };
    sampler.begin(vec![-i128::from(sigma); 300]);
    let (hint, _, second) = refused(&analyst).await;
    assert!(!hint.starts_with("Ask the same again"), "{hint}");
    assert!(second > 0.0 && (second - first).abs() < 1e-9 * first);
    sampler.begin([]);
    let (_, detail, third) = refused(&analyst).await;
    assert!(detail.starts_with("Nothing was charged"), "{detail}");
    assert_eq!((third, sampler.laws().len()), (0.0, 0));
    let better = asking("analyst", 3.0 * epsilon, Reuse::On);
    let rows = veil.rows_as(&better, FEW).await.unwrap();
    let paid = spent(&veil, "analyst").await;
    assert!(paid > 10.0 * first, "{paid}, {first}");
    assert_eq!(veil.rows_as(&better, FEW).await.unwrap(), rows);
    assert_eq!(spent(&veil, "analyst").await, paid);
}

/// A role whose policy says `reuse: always` has no other look: no hint advises one.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_always_reuses_is_not_advised_to_stop() {
    let always = |policy: &str| policy.replace("{name: analyst,", "{name: analyst, reuse: always,");
    let veil = silent_veil_of(always).await;
    let few = "SELECT sum(amount) FROM retail.line WHERE store = 30 AND week = 1";
    for (role, advised) in [("analyst", false), ("other", true)] {
        let asked = asking(role, 0.3, Reuse::On);
        veil.ask_as(&asked, few).await.unwrap_err();
        let again = veil.ask_as(&asked, few).await.unwrap_err().report();
        let hint = again.hint.unwrap();
        assert!(
            hint.starts_with("Ask of more rows, raise pgveil.epsilon, "),
            "{hint}"
        );
        assert_eq!(hint.contains("pgveil.reuse = off"), advised, "{hint}");
        assert!(hint.ends_with('.'), "{hint}");
    }
    // The setting changes nothing for it.
    let before = spent(&veil, "analyst").await;
    let off = asking("analyst", 0.3, Reuse::Off);
    assert_eq!(
        veil.ask_as(&off, few).await.unwrap_err().report().sqlstate,
        "PV002"
    );
    assert_eq!(spent(&veil, "analyst").await, before);
}
