//! Prepaid periods: one debit for a horizon, whose periods are drawn once and in their order, on
//! both stores.

use std::fs;

use pgveil::ledger::{
    Act, Charge, DebitError, Decision, Error, FamilyId, Ledger, PrepaidPeriods, PrepaidPrice,
    PrepaidQuestion, PrepaidStep, Purchase, QuestionDigest, QuestionId, drawing,
};
use pgveil::mechanism::{Accounting, Loss};

use super::conformance::on_both_stores;
use super::older_copies::{near, open as opened, restored};
use super::{Scratch, at_usual, fingerprint, gaussian, open_usual, set_back};

on_both_stores!(
    a_horizon_is_paid_once,
    periods_are_drawn_in_their_order,
    another_role_pays_the_same_and_holds_the_same,
    one_process_draws_at_a_time,
    a_frozen_role_draws_nothing,
);

pub(super) const OF: PrepaidQuestion = PrepaidQuestion {
    question: [1; 32],
    horizon: 0,
};

pub(super) fn price(mu_squared: f64) -> PrepaidPrice {
    PrepaidPrice {
        epsilon: 0.5,
        delta: 1e-6,
        loss: gaussian(mu_squared),
    }
}

pub(super) async fn stands(ledger: &Ledger, role: &str) -> Option<PrepaidPeriods> {
    ledger.prepaid(role, OF).await.unwrap().into_iter().next()
}

/// What a process does that asks the ledger first, and then draws up to a period.
pub(super) async fn step(
    ledger: &Ledger,
    role: &str,
    draw: Option<(i64, i64)>,
) -> Result<Charge, DebitError> {
    let seen = stands(ledger, role).await;
    from(ledger, role, seen, draw).await
}

/// What a process does that asked the ledger at that time.
async fn from(
    ledger: &Ledger,
    role: &str,
    seen: Option<PrepaidPeriods>,
    draw: Option<(i64, i64)>,
) -> Result<Charge, DebitError> {
    let is_held = seen.as_ref().is_some_and(|seen| seen.is_held);
    let step = PrepaidStep {
        of: OF,
        table: "web.visits".to_owned(),
        price: price(0.01),
        seen: seen.as_ref().map(PrepaidPeriods::drawn_to),
        draw,
    };
    let family = ledger.prepaid_family(OF, price(0.01)).await.unwrap();
    let claim = QuestionDigest {
        digest: drawing(family),
        family: None,
        accuracy: f64::MAX,
        loss: Loss::ZERO,
    };
    let purchase = Purchase {
        questions: draw.map(|_| claim).into_iter().collect(),
        ..Purchase::prepaid(step, is_held, fingerprint(3))
    };
    ledger.purchase(role, purchase).await
}

/// The answer of a draw, and the end of its claim.
pub(super) async fn keep(ledger: &Ledger, role: &str, number: u8) -> FamilyId {
    let family = ledger.prepaid_family(OF, price(0.01)).await.unwrap();
    let question = QuestionDigest {
        digest: QuestionId([100 + number; 32]),
        family: Some(family),
        accuracy: 0.1,
        loss: gaussian(0.01),
    };
    ledger.keep(role, question, vec![number]).await.unwrap();
    ledger.release(&[drawing(family)]).await;
    family
}

pub(super) async fn spent(ledger: &Ledger, role: &str) -> [Loss; 2] {
    let balances = ledger.balances(role).await.unwrap();
    [balances.role.spent, balances.owner.spent]
}

async fn a_horizon_is_paid_once(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    assert_eq!(stands(&ledger, "ann").await, None);
    let charge = step(&ledger, "ann", Some((0, 3))).await.unwrap();
    assert_eq!(*charge.loss(), gaussian(0.01));
    keep(&ledger, "ann", 0).await;
    let paid = [gaussian(0.01), gaussian(0.01)];
    assert_eq!(spent(&ledger, "ann").await, paid);
    for (first, until) in [(3, 4), (4, 9)] {
        let charge = step(&ledger, "ann", Some((first, until))).await.unwrap();
        assert!(charge.loss().is_zero() && charge.covers(&fingerprint(3)));
        keep(&ledger, "ann", 1).await;
    }
    assert_eq!(spent(&ledger, "ann").await, paid);
    drop(ledger);
    // Sums and draws are whole, and the history has each draw.
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let stands = stands(&ledger, "ann").await.unwrap();
    assert_eq!(stands.draws, [(0, 3), (3, 4), (4, 9)]);
    assert!(stands.is_held && !stands.is_drawing);
    assert_eq!(ledger.history("ann", 10).await.unwrap().len(), 3);
    let horizons = ledger.paid_horizons("ann").await.unwrap();
    assert_eq!(
        (
            horizons.len(),
            horizons[0].table.as_str(),
            horizons[0].drawn_to
        ),
        (1, "web.visits", Some(9))
    );
    assert!(ledger.paid_horizons("bob").await.unwrap().is_empty());
}

async fn periods_are_drawn_in_their_order(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let nothing = stands(&ledger, "ann").await;
    let _ = step(&ledger, "ann", Some((5, 7))).await.unwrap();
    keep(&ledger, "ann", 0).await;
    let first = stands(&ledger, "ann").await;
    // Earlier periods, the same ones, and such that leave some out.
    for draw in [(0, 5), (5, 7), (6, 8), (8, 9), (7, 7)] {
        let refused = step(&ledger, "ann", Some(draw)).await.unwrap_err();
        assert!(matches!(refused, DebitError::Awaited), "{draw:?}");
    }
    // A process that asked before the first draw.
    let late = from(&ledger, "ann", nothing, Some((5, 8))).await;
    assert!(matches!(late.unwrap_err(), DebitError::Awaited));
    let _ = step(&ledger, "ann", Some((7, 8))).await.unwrap();
    keep(&ledger, "ann", 1).await;
    // A snapshot from before the last draw draws nothing, though its periods are next.
    let late = from(&ledger, "ann", first, Some((8, 9))).await;
    assert!(matches!(late.unwrap_err(), DebitError::Awaited));
    assert_eq!(
        stands(&ledger, "ann").await.unwrap().draws,
        [(5, 7), (7, 8)]
    );
    assert_eq!(spent(&ledger, "ann").await[1], gaussian(0.01));
}

async fn another_role_pays_the_same_and_holds_the_same(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let _ = step(&ledger, "ann", Some((0, 3))).await.unwrap();
    let family = keep(&ledger, "ann", 0).await;
    assert!(
        ledger
            .values_of_family("bob", family)
            .await
            .unwrap()
            .is_empty()
    );
    // Nobody draws for nothing who has not paid.
    let unpaid = PrepaidPeriods {
        is_held: true,
        ..stands(&ledger, "bob").await.unwrap()
    };
    let refused = from(&ledger, "bob", Some(unpaid), Some((3, 4))).await;
    assert!(matches!(refused.unwrap_err(), DebitError::Awaited));
    let _ = step(&ledger, "bob", None).await.unwrap();
    // The owner has paid before.
    assert_eq!(spent(&ledger, "bob").await, [gaussian(0.01); 2]);
    assert_eq!(ledger.values_of_family("bob", family).await.unwrap(), [[0]]);
    for (role, number) in [("bob", 1u8), ("ann", 2)] {
        let first = i64::from(number) + 2;
        let _ = step(&ledger, role, Some((first, first + 1))).await.unwrap();
        keep(&ledger, role, number).await;
    }
    for role in ["ann", "bob"] {
        let held = ledger.values_of_family(role, family).await.unwrap();
        assert_eq!(held, [[0], [1], [2]], "{role}");
        assert_eq!(spent(&ledger, role).await, [gaussian(0.01); 2]);
    }
    // At another price they are others.
    let other = ledger.prepaid_family(OF, price(0.02)).await.unwrap();
    assert_ne!(other, family);
}

async fn one_process_draws_at_a_time(url: &str) {
    let first = at_usual(url, Accounting::Gdp).await.unwrap();
    let second = at_usual(url, Accounting::Gdp).await.unwrap();
    let _ = step(&first, "ann", Some((0, 3))).await.unwrap();
    assert!(stands(&first, "ann").await.unwrap().is_drawing);
    assert!(stands(&second, "ann").await.unwrap().is_drawing);
    let waits = step(&second, "ann", Some((3, 4))).await.unwrap_err();
    assert!(matches!(waits, DebitError::Awaited));
    keep(&first, "ann", 0).await;
    // Many at once: each period is drawn once.
    let ledgers = [&first, &second];
    for until in 4..20 {
        let both = ledgers.map(|ledger| async move {
            let seen = stands(ledger, "ann").await;
            let first = seen.as_ref().and_then(PrepaidPeriods::drawn_to).unwrap();
            let drawn = from(ledger, "ann", seen, Some((first, until.max(first + 1)))).await;
            if drawn.is_ok() {
                keep(ledger, "ann", 1).await;
            }
            drawn.is_ok()
        });
        let drawn = futures::future::join_all(both).await;
        assert!(drawn.contains(&true), "{until}");
    }
    drop((first, second));
    let draws = stands(&at_usual(url, Accounting::Gdp).await.unwrap(), "ann").await;
    let draws = draws.unwrap().draws;
    assert!(
        draws.windows(2).all(|two| two[0].1 == two[1].0),
        "{draws:?}"
    );
}

async fn a_frozen_role_draws_nothing(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let _ = step(&ledger, "ann", Some((0, 3))).await.unwrap();
    keep(&ledger, "ann", 0).await;
    let decision = |act| Decision {
        act,
        who: "owner".to_owned(),
        why: "a test".to_owned(),
    };
    let role = || Some("ann".to_owned());
    ledger
        .decide(decision(Act::Freeze { role: role() }))
        .await
        .unwrap();
    let refused = step(&ledger, "ann", Some((3, 4))).await.unwrap_err();
    assert!(matches!(refused, DebitError::Frozen { .. }));
    ledger
        .decide(decision(Act::Unfreeze { role: role() }))
        .await
        .unwrap();
    let _ = step(&ledger, "ann", Some((3, 4))).await.unwrap();
}

/// The file itself refuses a draw out of order, and a ledger with a gap is not opened.
#[tokio::test]
async fn draws_that_do_not_follow_each_other_are_refused() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = step(&ledger, "ann", Some((0, 3))).await.unwrap();
    keep(&ledger, "ann", 0).await;
    let _ = step(&ledger, "ann", Some((3, 5))).await.unwrap();
    drop(ledger);
    set_back(&scratch.file(), "");
    let file = rusqlite::Connection::open(scratch.file()).unwrap();
    for sql in [
        "INSERT INTO debit SELECT id + 2, role, microseconds, epsilon, rho, mu_squared, delta, \
            fingerprint FROM debit; INSERT INTO prepaid_draw VALUES (1, 1, 9, 3)",
        "DELETE FROM prepaid_draw",
        "UPDATE prepaid_draw SET until = 9",
        "DELETE FROM prepaid",
        "UPDATE prepaid SET horizon = 1",
    ] {
        let refused = file.execute_batch(&format!("BEGIN; {sql}")).unwrap_err();
        file.execute_batch("ROLLBACK").unwrap();
        let text = refused.to_string();
        let is_ours = ["once", "never"].iter().any(|word| text.contains(word));
        assert!(is_ours, "{sql}: {text}");
    }
    let guard: String = file
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'prepaid_draw_update'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let damage = "DROP TRIGGER prepaid_draw_update; UPDATE prepaid_draw SET first = 4 WHERE first \
        = 3;";
    file.execute_batch(&format!("{damage}{guard}")).unwrap();
    drop(file);
    let refused = open_usual(&scratch.file(), Accounting::Gdp)
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Damaged { reason, .. } if reason.contains("follow")),
        "{refused}"
    );
}

/// An older copy does not draw a period again: a running process sees that debits are missing, and
/// so does one that starts and has a witness.
#[tokio::test]
async fn an_older_copy_draws_nothing() {
    let scratch = Scratch::new();
    let address = pgveil::ledger::Address {
        url: scratch.url().into(),
        witnesses: vec![near(scratch.0.join("witness"))],
    };
    let ledger = opened(&address).await.unwrap();
    let _ = step(&ledger, "ann", Some((0, 3))).await.unwrap();
    keep(&ledger, "ann", 0).await;
    drop(ledger);
    let copy = fs::read(scratch.file()).unwrap();
    let ledger = opened(&address).await.unwrap();
    let _ = step(&ledger, "ann", Some((3, 5))).await.unwrap();
    keep(&ledger, "ann", 1).await;
    // Nothing was spent since the copy, but a draw is a debit.
    fs::write(scratch.file(), &copy).unwrap();
    let refused = step(&ledger, "ann", Some((3, 5))).await.unwrap_err();
    assert!(
        matches!(&refused, DebitError::Ledger(Error::WentBack { .. })),
        "{refused}"
    );
    drop(ledger);
    let refused = opened(&address).await.unwrap_err();
    assert!(matches!(refused, Error::Older { .. }), "{refused}");
    // A restoration ends what was prepaid: its draws since the copy are not known.
    restored(&address, None).await.unwrap();
    let ledger = opened(&address).await.unwrap();
    assert_eq!(stands(&ledger, "ann").await, None);
    let unfreeze = Decision {
        act: Act::Unfreeze { role: None },
        who: "owner".to_owned(),
        why: "restored".to_owned(),
    };
    ledger.decide(unfreeze).await.unwrap();
    let before = ledger.balance("ann").await.unwrap().lifetime;
    let again = step(&ledger, "ann", Some((0, 5))).await.unwrap();
    assert_eq!(*again.loss(), gaussian(0.01));
    let after = ledger.balance("ann").await.unwrap().lifetime;
    assert_eq!(before.compose(gaussian(0.01)), Some(after));
}
