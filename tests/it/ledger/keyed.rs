//! A role's payments for keys found by threshold, statement by statement.

use pgveil::ledger::{Purchase, Stored};
use pgveil::mechanism::{Accounting, Fixed, Loss, loss_threshold};

use super::conformance::on_both_stores;
use super::{at_usual, buying, fingerprint, gaussian, question, taking};

on_both_stores!(what_keys_cost_is_known_by_statement);

fn keyed(mu_squared: f64) -> Loss {
    let keys = loss_threshold(Fixed::round_down(1e-11));
    gaussian(mu_squared).compose(keys).unwrap()
}

/// A debit and a receipt of one statement are one loss, so that a role does not see which part of
/// it another role had asked before.
async fn what_keys_cost_is_known_by_statement(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let asked = question(1, 3.0, keyed(0.001));
    let _ = ledger.purchase("ann", buying(asked)).await.unwrap();
    let _ = ledger
        .debit("ann", gaussian(0.002), fingerprint(5))
        .await
        .unwrap();
    assert_eq!(ledger.threshold_losses("ann").await.unwrap(), [asked.loss]);
    assert_eq!(ledger.threshold_losses("bob").await.unwrap(), []);
    ledger.keep("ann", asked, b"values".to_vec()).await.unwrap();
    let Some(Stored::Offered(answer)) = ledger.find("bob", asked).await.unwrap() else {
        panic!()
    };
    // Only the offered part has keys; the same statement's other purchases count with it.
    let both = taking(answer, asked.loss, gaussian(0.004));
    let paid = ledger.purchase("bob", both).await.unwrap();
    let whole = asked.loss.compose(gaussian(0.004)).unwrap();
    assert_eq!(ledger.threshold_losses("bob").await.unwrap(), [whole]);
    // So do its payments after a look.
    let later = Purchase {
        follows: Some(paid.entry()),
        ..taking(answer, Loss::ZERO, gaussian(0.008))
    };
    let _ = ledger.purchase("bob", later).await.unwrap();
    let whole = whole.compose(gaussian(0.008)).unwrap();
    assert_eq!(ledger.threshold_losses("bob").await.unwrap(), [whole]);
    let _ = ledger
        .debit("bob", keyed(0.016), fingerprint(6))
        .await
        .unwrap();
    let found = ledger.threshold_losses("bob").await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.contains(&whole) && found.contains(&keyed(0.016)));
    assert_eq!(ledger.threshold_losses("ann").await.unwrap(), [asked.loss]);
}
