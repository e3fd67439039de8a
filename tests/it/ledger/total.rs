//! The knowledge of the owner's total that roles gain by refusals: one refusal, on both stores.

use pgveil::ledger::{Act, Buyer, DebitError, Purchase, SeriesId, Stored};
use pgveil::mechanism::{Accounting, Loss};

use super::conformance::{decision, on_both_stores};
use super::{account, at, buying, fingerprint, laplace, question, taking};

on_both_stores!(
    the_total_refuses_a_role_once,
    what_was_made_for_others_is_refused_like_what_is_new,
    what_is_paid_later_has_to_fit_and_is_not_debited,
    a_series_of_debits_has_an_end,
);

/// A role has at most this many debits of a series, whoever makes them and however often the ledger
/// is opened. Other series, other debits and other roles do not count.
async fn a_series_of_debits_has_an_end(url: &str) {
    let owner = account("owner", 8.0, 0.0, Accounting::Pure);
    let roles = ["ann", "bob"].map(|name| account(name, 4.0, 0.0, Accounting::Pure));
    let ledger = at(url, owner.clone(), &roles).await.unwrap();
    let (mine, other) = (SeriesId::new([7; 32]), SeriesId::new([8; 32]));
    let debit = |series: SeriesId, number: u8| Purchase {
        series_max: Some(2),
        ..Purchase::fresh(
            Buyer::Role,
            laplace(0.25),
            series.name([number; 16]),
            Vec::new(),
        )
    };
    let _ = ledger.purchase("ann", debit(mine, 1)).await.unwrap();
    let _ = ledger
        .debit("ann", laplace(0.25), fingerprint(1))
        .await
        .unwrap();
    let again = at(url, owner, &roles).await.unwrap();
    let _ = again.purchase("ann", debit(mine, 2)).await.unwrap();
    let _ = again.purchase("ann", debit(other, 1)).await.unwrap();
    let _ = again.purchase("bob", debit(mine, 1)).await.unwrap();
    for ledger in [&ledger, &again] {
        assert_eq!(ledger.debits_of_series("ann", mine).await.unwrap(), 2);
        assert_eq!(ledger.debits_of_series("ann", other).await.unwrap(), 1);
        assert_eq!(ledger.debits_of_series("bob", mine).await.unwrap(), 1);
        assert_eq!(ledger.debits_of_series("bob", other).await.unwrap(), 0);
        let refused = ledger.purchase("ann", debit(mine, 3)).await;
        assert!(matches!(refused, Err(DebitError::UsedUp { most: 2 })));
        let spent = ledger.balance("ann").await.unwrap().spent.epsilon;
        assert_eq!(spent, laplace(1.0).epsilon);
    }
}

/// The first of two debits is refused where the second would not fit: by the role's budget, and by
/// the owner's total.
async fn what_is_paid_later_has_to_fit_and_is_not_debited(url: &str) {
    let owner = account("owner", 1.5, 0.0, Accounting::Pure);
    let roles = ["ann", "bob"].map(|name| account(name, 1.0, 0.0, Accounting::Pure));
    let ledger = at(url, owner, &roles).await.unwrap();
    let bought = |number, first: f64, later: f64| Purchase {
        later: laplace(later),
        ..buying(question(number, first, laplace(first)))
    };
    let spent = async |role: &str| ledger.balance(role).await.unwrap().spent.epsilon;
    let refused = ledger.purchase("ann", bought(1, 0.25, 0.875)).await;
    assert!(matches!(refused, Err(DebitError::Exhausted { .. })));
    assert_eq!(spent("ann").await, Loss::ZERO.epsilon);
    let _ = ledger.purchase("ann", bought(2, 0.25, 0.75)).await.unwrap();
    assert_eq!(spent("ann").await, laplace(0.25).epsilon);
    let _ = ledger
        .debit("ann", laplace(0.75), fingerprint(1))
        .await
        .unwrap();
    assert_eq!(spent("ann").await, laplace(1.0).epsilon);
    // The owner has 0.5 left.
    let refused = ledger.purchase("bob", bought(3, 0.25, 0.5)).await;
    assert!(matches!(refused, Err(DebitError::TotalExhausted { .. })));
    assert_eq!(spent("bob").await, Loss::ZERO.epsilon);
}

/// Epsilon step by step, as one would read the owner's balance off free refusals.
async fn the_total_refuses_a_role_once(url: &str) {
    let budgets = |owner: f64| {
        let roles = ["ann", "bob", "eve"].map(|name| account(name, 1.0, 0.0, Accounting::Pure));
        (account("owner", owner, 0.0, Accounting::Pure), roles)
    };
    let open = async |owner: f64| {
        let (owner, roles) = budgets(owner);
        at(url, owner, &roles).await.unwrap()
    };
    let is_closed =
        |result: Result<_, DebitError>| matches!(result.map(drop), Err(DebitError::Closed { .. }));
    let by_total = |result: Result<_, DebitError>| {
        matches!(result.map(drop), Err(DebitError::TotalExhausted { .. }))
    };
    let ledger = open(1.5).await;
    let _ = ledger
        .debit("ann", laplace(0.96), fingerprint(1))
        .await
        .unwrap();
    assert!(by_total(
        ledger.debit("bob", laplace(0.9), fingerprint(2)).await
    ));
    for step in 1..=45 {
        let epsilon = 0.9 - 0.02 * f64::from(step);
        if epsilon > 0.0 {
            let refused = ledger.debit("bob", laplace(epsilon), fingerprint(2)).await;
            let text = refused
                .as_ref()
                .err()
                .and_then(DebitError::refusal)
                .map(|refusal| refusal.message);
            assert!(is_closed(refused), "{epsilon}: the total's rest is 0.54");
            assert_eq!(
                text.as_deref(),
                Some(
                    "privacy budget exhausted: the total over all roles did not cover an earlier \
                        query of this role"
                )
            );
        }
    }
    assert!(
        ledger.balance("bob").await.unwrap().closed
            && ledger.balance("bob").await.unwrap().spent.is_zero()
    );
    // The other roles still have the rest, and free answers are shown.
    assert!(!ledger.balance("eve").await.unwrap().closed);
    let _ = ledger
        .debit("eve", laplace(0.04), fingerprint(3))
        .await
        .unwrap();
    assert!(
        ledger
            .debit("bob", Loss::ZERO, fingerprint(4))
            .await
            .is_ok()
    );
    drop(ledger);
    // Neither a restart nor a smaller total opens it; another process has the larger one in force
    // all along.
    let ledger = open(1.5).await;
    assert!(is_closed(
        ledger.debit("bob", laplace(0.1), fingerprint(5)).await
    ));
    drop(ledger);
    let smaller = open(1.25).await;
    assert!(is_closed(
        smaller.debit("bob", laplace(0.1), fingerprint(5)).await
    ));
    let larger = open(1.75).await;
    assert!(by_total(
        larger.debit("bob", laplace(0.9), fingerprint(6)).await
    ));
    assert!(is_closed(
        larger.debit("bob", laplace(0.1), fingerprint(6)).await
    ));
    assert!(is_closed(
        smaller.debit("bob", laplace(0.1), fingerprint(6)).await
    ));
    // The owner's decisions about others, and freezes, do not count as decisions about this role.
    let decide = async |act: Act| larger.decide(decision(act)).await.unwrap();
    decide(Act::Unfreeze {
        role: Some("eve".to_owned()),
    })
    .await;
    decide(Act::Freeze {
        role: Some("bob".to_owned()),
    })
    .await;
    assert!(
        larger
            .debit("bob", laplace(0.1), fingerprint(7))
            .await
            .is_err()
    );
    decide(Act::Unfreeze {
        role: Some("bob".to_owned()),
    })
    .await;
    let _ = larger
        .debit("bob", laplace(0.1), fingerprint(8))
        .await
        .unwrap();
    assert!(
        by_total(larger.debit("bob", laplace(0.8), fingerprint(9)).await)
            && is_closed(larger.debit("bob", laplace(0.1), fingerprint(9)).await)
    );
    decide(Act::Unfreeze { role: None }).await;
    let _ = larger
        .debit("bob", laplace(0.1), fingerprint(10))
        .await
        .unwrap();
}

/// While the total is spent, a refusal does not reveal whether somebody has asked before.
async fn what_was_made_for_others_is_refused_like_what_is_new(url: &str) {
    let roles = ["ann", "bob", "eve"].map(|name| account(name, 3.0, 0.0, Accounting::Pure));
    let ledger = at(url, account("owner", 2.0, 0.0, Accounting::Pure), &roles)
        .await
        .unwrap();
    let (asked, cheap) = (
        question(1, 0.8, laplace(0.8)),
        question(2, 0.25, laplace(0.25)),
    );
    for (of, number) in [(asked, 1), (cheap, 2)] {
        let _ = ledger
            .debit("ann", of.loss, fingerprint(number))
            .await
            .unwrap();
        ledger.keep("ann", of, b"values".to_vec()).await.unwrap();
    }
    let _ = ledger
        .debit("ann", laplace(0.5), fingerprint(3))
        .await
        .unwrap();
    let offer = async |of| match ledger.find("bob", of).await.unwrap() {
        Some(Stored::Offered(answer)) => answer,
        other => panic!("{other:?}"),
    };
    // 0.45 is left, which the cheap one fits, as it would if it were new; the owner is not charged
    // again.
    let owner = ledger.balance_owner().await.unwrap().spent;
    let _ = ledger
        .purchase("bob", taking(offer(cheap).await, cheap.loss, Loss::ZERO))
        .await
        .unwrap();
    assert_eq!(ledger.balance_owner().await.unwrap().spent, owner);
    let refused = ledger
        .purchase("bob", taking(offer(asked).await, asked.loss, Loss::ZERO))
        .await
        .unwrap_err();
    let fresh = ledger
        .debit("eve", laplace(0.8), fingerprint(4))
        .await
        .unwrap_err();
    assert!(
        matches!(
            (&refused, &fresh),
            (
                DebitError::TotalExhausted { .. },
                DebitError::TotalExhausted { .. }
            )
        ),
        "{refused} {fresh}"
    );
    assert_eq!(
        format!("{:?}", refused.refusal()),
        format!("{:?}", fresh.refusal())
    );
    // Both get no more answers, new ones or earlier ones.
    let refused = ledger
        .purchase("bob", taking(offer(asked).await, asked.loss, Loss::ZERO))
        .await
        .unwrap_err();
    assert!(matches!(refused, DebitError::Closed { .. }), "{refused}");
    assert!(matches!(
        ledger.debit("bob", laplace(0.1), fingerprint(5)).await,
        Err(DebitError::Closed { .. })
    ));
    // Its paid answers are shown, and the price of the owner's searches is paid all the same.
    assert!(matches!(
        ledger.find("bob", cheap).await.unwrap(),
        Some(Stored::Held { .. })
    ));
    let found = ledger.newest_of_owner(asked.digest).await.unwrap().unwrap();
    ledger.receive("bob", &found).await.unwrap();
    let searching = Purchase {
        buyer: Buyer::Owner,
        ..buying(question(3, 0.8, laplace(0.8)))
    };
    assert!(matches!(
        ledger.purchase("ann", searching).await,
        Err(DebitError::TotalExhausted { .. })
    ));
    assert!(!ledger.balance("ann").await.unwrap().closed);
}
