//! Edges of the rules that random sequences seldom meet: the findings of the check at the opening,
//! row by row, and the ends of a period, a grant and a claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pgveil::ledger::{Act, DebitError, Error, Ledger, Stored, open_store};
use pgveil::mechanism::{Accounting, Fixed, Loss};
use pgveil::policy::Renew;

use super::conformance::{DAY, MONDAY, decision, is_exhausted, with_clock};
use super::{
    Scratch, buying, fingerprint, laplace, open_usual, question, set_back, taking, to_format,
};

/// In each of two weeks: a debit of bob's, then one of ann's, who buys bob's answer with it. Ann's
/// budget is renewed.
async fn two_weeks(scratch: &Scratch) {
    let now = Arc::new(AtomicI64::new(MONDAY));
    let ledger = with_clock(&scratch.url(), 8.0, (1.0, Renew::Weekly), &now).await;
    for week in 0..2u8 {
        now.store(MONDAY + i64::from(week) * 7 * DAY, Ordering::SeqCst);
        let asked = question(week, 0.1, laplace(0.125));
        let _ = ledger
            .debit("bob", asked.loss, fingerprint(1))
            .await
            .unwrap();
        ledger.keep("bob", asked, b"values".to_vec()).await.unwrap();
        let Some(Stored::Offered(answer)) = ledger.find("ann", asked).await.unwrap() else {
            panic!("nothing is offered")
        };
        let _ = ledger
            .purchase("ann", taking(answer, asked.loss, laplace(0.25)))
            .await
            .unwrap();
    }
}

/// Does to the file what its guards forbid, and puts the guards back.
fn forced(scratch: &Scratch, sql: &str) {
    let connection = rusqlite::Connection::open(scratch.file()).unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    let guards: Vec<(String, String)> = connection
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let drops: String = guards
        .iter()
        .map(|(name, _)| format!("DROP TRIGGER {name};"))
        .collect();
    let makes: String = guards.iter().map(|(_, sql)| format!("{sql};")).collect();
    connection
        .execute_batch(&format!(
            "PRAGMA foreign_keys = off; {drops} {sql}; {makes}"
        ))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

const ACCOUNTS: [&str; 3] = ["owner", "ann", "bob"];
const ZERO: &str = "zeroblob(16)";

/// One change each, and the error that reports it.
fn damages() -> Vec<(String, String)> {
    let other = format!("x'{:032x}'", 7);
    let currencies = ["epsilon", "rho", "mu_squared", "delta"];
    let mut all = Vec::new();
    for (at, name) in ACCOUNTS.into_iter().enumerate() {
        let kind = if at == 0 { "owner" } else { "role" };
        for currency in currencies {
            let sum = format!(
                "UPDATE account SET spent_{currency} = {other} WHERE id = {}",
                at + 1
            );
            all.push((
                sum,
                format!("the sum of {kind} {name:?} is not the sum of its debits"),
            ));
            if at > 0 {
                let period = format!(
                    "UPDATE period SET {currency} = {other} WHERE account = {}",
                    at + 1
                );
                all.push((
                    period,
                    format!("the period of {kind} {name:?} is not the sum of its debits"),
                ));
            }
        }
    }
    // Ann's period began after debit 3 and receipt 1, bob's before everything.
    for (wrong, of) in [
        ("debits = 4", 2),
        ("debits = 1", 2),
        ("receipts = 2", 2),
        ("receipts = 0", 2),
        ("debits = 1", 3),
    ] {
        let text = format!(
            "the period of role {:?} is not the sum of its debits",
            ACCOUNTS[of - 1]
        );
        all.push((
            format!("UPDATE period SET {wrong} WHERE account = {of}"),
            text,
        ));
    }
    let others = [
        (
            "DELETE FROM debit WHERE id = 1",
            "debits are missing after number 0",
        ),
        (
            "DELETE FROM debit WHERE id = 3",
            "debits are missing after number 2",
        ),
        (
            "DELETE FROM debit WHERE id = 4",
            "is not the sum of its debits",
        ),
        (
            "UPDATE debit SET role = 3 WHERE id = 4",
            "is not the sum of its debits",
        ),
        (
            "DELETE FROM receipt WHERE id = 1",
            "receipts are missing after number 0",
        ),
        (
            "DELETE FROM receipt WHERE id = 2",
            "the sum of role \"ann\" is not the sum of its debits",
        ),
        (
            "DELETE FROM account WHERE kind = 'owner'",
            "there are debits and no owner",
        ),
        (
            "UPDATE debit SET role = 9 WHERE id = 4",
            "a debit of no account",
        ),
    ];
    all.extend(others.map(|(sql, text)| (sql.to_owned(), text.to_owned())));
    // It adds nothing to any sum.
    let of_owner = format!(
        "INSERT INTO receipt VALUES (3, 1, 0, {ZERO}, {ZERO}, {ZERO}, {ZERO}, zeroblob(32))"
    );
    all.push((of_owner, "one of its receipts is of no role".to_owned()));
    all
}

fn fault(scratch: &Scratch) -> Option<String> {
    match open_store(&scratch.url()).map(drop) {
        Ok(()) => None,
        Err(Error::Damaged { ledger: _, reason }) => Some(reason),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn every_sum_is_held_against_its_rows() {
    let scratch = Scratch::new();
    two_weeks(&scratch).await;
    set_back(&scratch.file(), "");
    let whole = std::fs::read(scratch.file()).unwrap();
    assert_eq!(fault(&scratch), None);
    for (sql, text) in damages() {
        std::fs::write(scratch.file(), &whole).unwrap();
        forced(&scratch, &sql);
        let found = fault(&scratch);
        assert!(
            found.as_ref().is_some_and(|reason| reason.contains(&text)),
            "{sql}: {found:?}"
        );
    }
}

#[tokio::test]
async fn older_formats_are_checked_for_what_they_have() {
    for format in 2..10 {
        let scratch = Scratch::new();
        two_weeks(&scratch).await;
        set_back(&scratch.file(), &to_format(format));
        let whole = std::fs::read(scratch.file()).unwrap();
        assert_eq!(
            fault(&scratch),
            None,
            "format {format} with receipts is whole"
        );
        let mut wrong = vec!["DELETE FROM receipt WHERE id = 2".to_owned()];
        if format >= 3 {
            wrong.push(format!("UPDATE period SET rho = x'{:032x}'", 7));
        }
        for sql in wrong {
            std::fs::write(scratch.file(), &whole).unwrap();
            forced(&scratch, &sql);
            assert!(
                fault(&scratch).is_some_and(|reason| reason.contains("not the sum")),
                "format {format}: {sql}"
            );
        }
    }
}

/// Rows are read ten thousand at a time.
#[tokio::test]
async fn a_long_ledger_is_read_to_its_end() {
    let scratch = Scratch::new();
    let file = scratch.file();
    let usual = || open_usual(&file, Accounting::Gdp);
    let _ = usual()
        .await
        .unwrap()
        .debit("ann", laplace(0.125), fingerprint(1))
        .await
        .unwrap();
    let many = format!(
        "WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO debit SELECT i, 2, 0, {ZERO}, {ZERO}, {ZERO}, {ZERO}, zeroblob(32) FROM n"
    );
    set_back(&scratch.file(), &many);
    for number in [2, 3] {
        let _ = usual()
            .await
            .unwrap()
            .debit("ann", laplace(0.125), fingerprint(number))
            .await
            .unwrap();
    }
    set_back(&scratch.file(), "");
    assert_eq!(fault(&scratch), None);
    forced(&scratch, "DELETE FROM debit WHERE id = 10001");
    assert!(
        fault(&scratch)
            .is_some_and(|reason| reason.contains("debits are missing after number 10000"))
    );
}

#[tokio::test]
async fn a_restart_neither_begins_a_period_nor_keeps_one() {
    let scratch = Scratch::new();
    let now = Arc::new(AtomicI64::new(MONDAY));
    let debit = async |days: i64, epsilon: f64| {
        now.store(MONDAY + days * DAY, Ordering::SeqCst);
        let ledger = with_clock(&scratch.url(), 8.0, (1.0, Renew::Weekly), &now).await;
        ledger
            .debit("ann", laplace(epsilon), fingerprint(1))
            .await
            .map(drop)
    };
    assert!(debit(0, 1.0).await.is_ok());
    assert!(is_exhausted(&debit(6, 0.125).await), "the week lasts");
    assert!(debit(7, 0.75).await.is_ok(), "the next one has begun");
    assert!(
        is_exhausted(&debit(8, 0.5).await) && debit(8, 0.25).await.is_ok(),
        "what this one spent is known"
    );
    assert!(is_exhausted(&debit(13, 0.125).await));
    // Weeks in which nothing was asked.
    assert!(debit(40, 1.0).await.is_ok());
}

#[tokio::test]
async fn grants_reach_the_total_and_no_further() {
    let scratch = Scratch::new();
    let now = Arc::new(AtomicI64::new(MONDAY));
    let ledger = with_clock(&scratch.url(), 2.0, (1.0, Renew::Never), &now).await;
    let one = Fixed::round_down(1.0);
    let grant = |epsilon: Fixed, delta: Fixed| {
        decision(Act::Grant {
            role: "ann".to_owned(),
            epsilon,
            delta,
        })
    };
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::Decision(_)));
    assert!(refused(
        ledger.decide(grant(Fixed(one.0 + 1), Fixed::ZERO)).await
    ));
    assert!(
        refused(ledger.decide(grant(Fixed::ZERO, Fixed(1))).await),
        "the owner has no delta"
    );
    assert!(refused(
        ledger.decide(grant(Fixed(u128::MAX), Fixed::ZERO)).await
    ));
    ledger.decide(grant(one, Fixed::ZERO)).await.unwrap();
    assert!(refused(ledger.decide(grant(Fixed(1), Fixed::ZERO)).await));
    assert_eq!(
        ledger.balance("ann").await.unwrap().granted,
        (one, Fixed::ZERO)
    );
    assert!(
        ledger
            .debit("ann", laplace(2.0), fingerprint(1))
            .await
            .is_ok()
    );
    for act in [
        Act::Freeze {
            role: Some("eve".to_owned()),
        },
        Act::Unfreeze {
            role: Some("eve".to_owned()),
        },
    ] {
        assert!(matches!(
            ledger.decide(decision(act)).await,
            Err(Error::UnknownRole { .. })
        ));
    }
    assert_eq!(ledger.decisions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_claim_lasts_as_long_as_it_is_promised() {
    const LEASE: i64 = 15_000_000;
    let scratch = Scratch::new();
    let now = Arc::new(AtomicI64::new(MONDAY));
    let ledgers = [
        with_clock(&scratch.url(), 8.0, (4.0, Renew::Never), &now).await,
        with_clock(&scratch.url(), 8.0, (4.0, Renew::Never), &now).await,
    ];
    let asked = question(1, 0.1, laplace(0.125));
    let ask = async |ledger: &Ledger| ledger.purchase("ann", buying(asked)).await.map(drop);
    ask(&ledgers[0]).await.unwrap();
    // A clock that was set back by as much as a claim lasts still sees it, and one that was set
    // back by more does not.
    for (at, is_claimed) in [
        (0, true),
        (LEASE - 1, true),
        (LEASE, false),
        (-LEASE, true),
        (-LEASE - 1, false),
    ] {
        now.store(MONDAY + at, Ordering::SeqCst);
        assert_eq!(
            ledgers[1].is_claimed(&[asked.digest]).await.unwrap(),
            is_claimed,
            "{at}"
        );
        assert!(!ledgers[0].is_claimed(&[asked.digest]).await.unwrap());
    }
    now.store(MONDAY + LEASE - 1, Ordering::SeqCst);
    assert!(matches!(ask(&ledgers[1]).await, Err(DebitError::Awaited)));
    now.store(MONDAY + LEASE, Ordering::SeqCst);
    ask(&ledgers[1]).await.unwrap();
    assert!(
        ledgers[0].is_claimed(&[asked.digest]).await.unwrap(),
        "it is the other's now"
    );
}

/// Two debits of one plan in one moment are two; a debit and a receipt of one purchase are one.
#[tokio::test]
async fn history_shows_each_purchase_once() {
    let scratch = Scratch::new();
    let now = Arc::new(AtomicI64::new(MONDAY));
    let ledger = with_clock(&scratch.url(), 8.0, (4.0, Renew::Never), &now).await;
    for _ in 0..2 {
        let _ = ledger
            .debit("ann", laplace(0.125), fingerprint(1))
            .await
            .unwrap();
        // A debit is on disk before the next begins.
        now.fetch_add(1, Ordering::SeqCst);
    }
    let asked = question(1, 0.1, laplace(0.25));
    ledger.keep("bob", asked, b"values".to_vec()).await.unwrap();
    let Some(Stored::Offered(answer)) = ledger.find("ann", asked).await.unwrap() else {
        panic!("nothing is offered")
    };
    let _ = ledger
        .purchase("ann", taking(answer, asked.loss, laplace(0.5)))
        .await
        .unwrap();
    let history: Vec<Loss> = ledger
        .history("ann", 10)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.loss)
        .collect();
    assert_eq!(
        history,
        [
            laplace(0.5).compose(laplace(0.25)).unwrap(),
            laplace(0.125),
            laplace(0.125)
        ]
    );
    assert_eq!(ledger.history("bob", 10).await.unwrap().len(), 0);
}
