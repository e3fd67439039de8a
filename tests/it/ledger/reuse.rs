//! A question that is asked again: the same values, paid once by each role that sees them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgveil::engine::Requester;
use pgveil::ledger::{Act, Decision};
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};
use pgveil::policy::SessionSettings;

use crate::fixture::{Silent, Veil, rows_of};

const WOMEN: &str = "SELECT count(*) FROM nls.women";

/// A second role with the analyst's password and budget.
pub fn with_colleague(yaml: String) -> String {
    let verifier = yaml
        .split("password: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    yaml.replacen(
        "\ntables:",
        &format!(
            "\n  - name: colleague\n    password: {verifier}\n    \
        budget: {{epsilon: 3, delta: 1e-7}}\n\ntables:"
        ),
        1,
    )
}

async fn owner(veil: &Veil) -> f64 {
    veil.engine
        .ledger()
        .balance_owner()
        .await
        .unwrap()
        .spent
        .mu_squared
        .to_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn same_question_is_paid_once() {
    let veil = Veil::demo(|y| y, None).await;
    let first = veil.rows_as(&Veil::requester(), WOMEN).await.unwrap();
    let paid = veil.spent().await;
    assert!(paid > 0.0);
    for same in [
        WOMEN.to_owned(),
        format!("{WOMEN} -- again"),
        "SELECT COUNT(*) AS women FROM nls.women w ORDER BY 1 LIMIT 5".to_owned(),
        "WITH w AS (SELECT * FROM nls.women) SELECT count(*) FROM w HAVING count(*) > 0".to_owned(),
    ] {
        assert_eq!(
            veil.rows_as(&Veil::requester(), &same).await.unwrap(),
            first,
            "{same}"
        );
        assert_eq!(veil.spent().await, paid, "{same}");
    }
    let doubled = veil
        .rows_as(&Veil::requester(), "SELECT 2 * count(*) FROM nls.women")
        .await
        .unwrap();
    assert_eq!(
        doubled[0].parse::<i64>().unwrap(),
        2 * first[0].parse::<i64>().unwrap()
    );
    assert_eq!(veil.spent().await, paid);
    // As one of several releases it is free too; the other one is not.
    let both = veil
        .rows_as(
            &Veil::requester(),
            "SELECT (SELECT count(*) FROM nls.interviews), (SELECT count(*) FROM nls.women)",
        )
        .await
        .unwrap();
    assert!(
        both[0].ends_with(&format!("|{}", first[0])),
        "{both:?} {first:?}"
    );
    assert!(veil.spent().await > paid);
    let another = veil.rows_as(&Veil::fresh(), WOMEN).await.unwrap();
    let spent = veil.spent().await;
    assert!(spent > paid, "bought afresh: {another:?}");
    assert_eq!(
        veil.rows_as(&Veil::requester(), WOMEN).await.unwrap(),
        another,
        "the newest of equal ones"
    );
    assert_eq!(veil.spent().await, spent);
}

/// Whether a count is distinguished from its noise does not depend on who looks at it again.
#[tokio::test(flavor = "multi_thread")]
async fn truths_go_by_the_noise_that_was_drawn() {
    let veil = Veil::demo(|y| y, Veil::silent()).await;
    let asked = async |epsilon: f64| {
        let requester = Requester {
            session_settings: SessionSettings {
                epsilon: Some(epsilon),
                ..Veil::requester().session_settings
            },
            ..Veil::requester()
        };
        veil.rows_as(
            &requester,
            "SELECT bool_or(race = 'other'), bool_and(race <> 'other') FROM nls.women",
        )
        .await
        .unwrap()
    };
    let first = asked(1.0).await;
    assert_eq!(first, ["t|f"]);
    let paid = veil.spent().await;
    for epsilon in [0.25, 0.01, 1.0] {
        assert_eq!(asked(epsilon).await, first, "{epsilon}");
    }
    assert_eq!(veil.spent().await, paid);
}

#[tokio::test(flavor = "multi_thread")]
async fn reuse_ignores_writes() {
    let veil = Veil::demo(|y| y, Veil::silent()).await;
    let first = veil.rows_as(&Veil::requester(), WOMEN).await.unwrap();
    veil.client
        .batch_execute(
            "DELETE FROM nls.interviews WHERE woman_id < 1000; DELETE FROM \
        nls.women WHERE woman_id < 1000",
        )
        .await
        .unwrap();
    assert_eq!(
        veil.rows_as(&Veil::requester(), WOMEN).await.unwrap(),
        first
    );
    let (fewer, first) = (
        veil.rows_as(&Veil::fresh(), WOMEN).await.unwrap()[0]
            .parse::<i64>()
            .unwrap(),
        first[0].parse::<i64>().unwrap(),
    );
    assert!(fewer < first);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_above_the_releases_loses_nothing() {
    let veil = Veil::demo(|y| y, None).await;
    let refusal = veil
        .ask("SELECT 1 / (count(*) - count(*)) FROM nls.women")
        .await
        .unwrap_err()
        .report();
    assert_eq!(refusal.sqlstate, "22012", "{refusal:?}");
    let paid = veil.spent().await;
    assert!(paid > 0.0);
    assert!(veil.ask(WOMEN).await.is_ok());
    assert!(
        veil.ask("SELECT 1 / (count(*) - count(*)) FROM nls.women")
            .await
            .is_err()
    );
    assert_eq!(veil.spent().await, paid);
}

#[tokio::test(flavor = "multi_thread")]
async fn less_noise_serves_and_more_does_not() {
    let veil = Veil::demo(|y| y, None).await;
    let at = |epsilon: f64| Requester {
        session_settings: Veil::session_settings(epsilon),
        ..Veil::requester()
    };
    let sql = "SELECT year, count(*), avg(hourly_wage) FROM nls.interviews GROUP BY year";
    let first = veil.rows_as(&at(0.3), sql).await.unwrap();
    let paid = veil.spent().await;
    assert_eq!(veil.rows_as(&at(0.1), sql).await.unwrap(), first);
    assert_eq!(veil.spent().await, paid);
    assert_ne!(veil.rows_as(&at(0.5), sql).await.unwrap(), first);
    assert!(veil.spent().await > paid);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mechanism_of_the_day_makes_no_new_question() {
    let veil = Veil::demo(|y| y.replace("epsilon: 3,", "epsilon: 7,"), None).await;
    let at = |epsilon: f64| Requester {
        session_settings: Veil::session_settings(epsilon),
        ..Veil::requester()
    };
    let first = veil.rows_as(&at(0.02), WOMEN).await.unwrap();
    // A query that is cheap only with a Gaussian closes the pure branch.
    veil.ask(
        "SELECT year, avg(hourly_wage), sum(hours_per_week) FROM nls.interviews GROUP BY year",
    )
    .await
    .unwrap();
    assert!(
        veil.engine
            .ledger()
            .balance("analyst")
            .await
            .unwrap()
            .spent
            .epsilon
            .is_none()
    );
    let paid = veil.spent().await;
    assert_eq!(veil.rows_as(&at(0.02), WOMEN).await.unwrap(), first);
    assert_eq!(veil.spent().await, paid);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_pays_for_what_it_sees() {
    let veil = Veil::demo(with_colleague, None).await;
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    let first = veil.rows_as(&Veil::requester(), WOMEN).await.unwrap();
    let (total, paid) = (owner(&veil).await, veil.spent().await);
    let spent = async || {
        veil.engine
            .ledger()
            .balance("colleague")
            .await
            .unwrap()
            .spent
            .mu_squared
            .to_f64()
    };
    assert_eq!(spent().await, 0.0);
    assert_eq!(
        veil.rows_as(&colleague, WOMEN).await.unwrap(),
        first,
        "made once"
    );
    assert_eq!(
        spent().await,
        paid,
        "and paid by the second role as by the first"
    );
    assert_eq!(owner(&veil).await, total, "the owner has paid");
    assert_eq!(veil.rows_as(&colleague, WOMEN).await.unwrap(), first);
    assert_eq!((spent().await, owner(&veil).await), (paid, total));
    let history = async |role| veil.engine.ledger().history(role, 10).await.unwrap();
    let (of_colleague, of_analyst) = (history("colleague").await, history("analyst").await);
    assert_eq!(of_colleague.len(), 1);
    assert_eq!(
        of_colleague[0].fingerprint, of_analyst[0].fingerprint,
        "who was first is nobody's to know"
    );
}

/// A question that stands twice in one statement is bought twice, even if another role asked it
/// before: otherwise two equal values would reveal that.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_sold_once_in_a_statement() {
    let veil = Veil::demo(with_colleague, None).await;
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    let twice = format!("SELECT ({WOMEN}), ({WOMEN})");
    let sorted = |rows: Vec<String>| {
        let mut values: Vec<String> = rows[0].split('|').map(str::to_owned).collect();
        values.sort_unstable();
        values
    };
    let first = sorted(veil.rows_as(&Veil::requester(), &twice).await.unwrap());
    assert_eq!(
        sorted(veil.rows_as(&colleague, &twice).await.unwrap()),
        first,
        "both of the first role's, each once"
    );
    let ledger = veil.engine.ledger();
    let spent = ledger.balance("colleague").await.unwrap().spent;
    assert_eq!(
        (spent, ledger.balance_owner().await.unwrap().spent),
        (ledger.balance("analyst").await.unwrap().spent, spent)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_always_reuses_buys_nothing_twice() {
    let always = |y: String| y.replace("renew: never}", "renew: never}\n    reuse: always");
    let veil = Veil::demo(always, None).await;
    let first = veil.rows_as(&Veil::fresh(), WOMEN).await.unwrap();
    let paid = veil.spent().await;
    assert_eq!(veil.rows_as(&Veil::fresh(), WOMEN).await.unwrap(), first);
    assert_eq!(veil.spent().await, paid);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_askers_at_once_are_charged_once() {
    let veil = Arc::new(Veil::demo(|y| y, None).await);
    let sessions: Vec<_> = (0..20)
        .map(|_| {
            let veil = Arc::clone(&veil);
            tokio::spawn(async move { veil.rows_as(&Veil::requester(), WOMEN).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for session in sessions {
        answers.push(session.await.unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    assert_eq!(
        veil.engine
            .ledger()
            .history("analyst", 100)
            .await
            .unwrap()
            .len(),
        1
    );
}

/// Sessions that are both at the database and wait for its lock, whose own timeout ends the first
/// one if the other waits for it. On a busy machine the other may come too late by chance, so that
/// they are started again; where it waits for the first, it does so each time.
async fn both_wait<T>(
    veil: &Veil,
    start: impl Fn() -> [tokio::task::JoinHandle<T>; 2],
) -> [tokio::task::JoinHandle<T>; 2] {
    for _ in 0..5 {
        let sessions = start();
        while !sessions.iter().any(tokio::task::JoinHandle::is_finished) {
            if veil
                .direct("SELECT count(*) FROM pg_locks WHERE NOT granted")
                .await
                == ["2"]
            {
                return sessions;
            }
            tokio::task::yield_now().await;
        }
        for session in sessions {
            let _ = session.await.unwrap();
        }
    }
    panic!("one waited for the other");
}

/// Both are at the database at once: neither has an answer of the other's to wait for.
#[tokio::test(flavor = "multi_thread")]
async fn askers_of_fresh_noise_do_not_wait_for_each_other() {
    let veil = Arc::new(Veil::demo(|y| y, None).await);
    veil.client
        .batch_execute("BEGIN; LOCK TABLE nls.women IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let start = || {
        [(); 2].map(|()| {
            let veil = Arc::clone(&veil);
            tokio::spawn(async move { veil.rows_as(&Veil::fresh(), WOMEN).await })
        })
    };
    let sessions = both_wait(&veil, start).await;
    veil.client.batch_execute("COMMIT").await.unwrap();
    for session in sessions {
        session.await.unwrap().unwrap();
    }
    assert_eq!(
        veil.engine
            .ledger()
            .history("analyst", 100)
            .await
            .unwrap()
            .len(),
        2
    );
}

/// The first is stuck before its statement; the second waits for it as long as a statement may
/// take, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_stuck_keeps_nobody_from_a_question() {
    let veil = Arc::new(
        Veil::demo(
            |yaml| with_colleague(yaml.replace("statement_timeout: 60s", "statement_timeout: 3s")),
            None,
        )
        .await,
    );
    veil.client
        .batch_execute("BEGIN; LOCK TABLE nls.women IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let start = || {
        ["analyst", "colleague"].map(|role| {
            let (veil, requester) = (
                Arc::clone(&veil),
                Requester {
                    role: role.to_owned(),
                    ..Veil::requester()
                },
            );
            tokio::spawn(async move { veil.rows_as(&requester, WOMEN).await })
        })
    };
    let sessions = both_wait(&veil, start).await;
    veil.client.batch_execute("COMMIT").await.unwrap();
    for session in sessions {
        // Answered or not: three seconds are short where much else runs.
        let _ = session.await.unwrap();
    }
}

/// Draws nothing before the gate is open.
pub struct Gated(pub Arc<AtomicBool>);

impl Sampler for Gated {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        while !self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Silent.sample(noise)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        Silent.choose(exponential, runs)
    }
}

/// The answer takes longer than one statement may; the role's other sessions wait for it all the
/// same, and pay nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_waits_for_itself_as_long_as_it_takes() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&open);
    let yaml = |yaml: String| yaml.replace("statement_timeout: 60s", "statement_timeout: 4s");
    let veil = Arc::new(
        Veil::demo(
            yaml,
            Some(Arc::new(move || Box::new(Gated(Arc::clone(&gate))))),
        )
        .await,
    );
    let sessions = [(); 3].map(|()| {
        let veil = Arc::clone(&veil);
        tokio::spawn(async move { veil.rows_as(&Veil::requester(), WOMEN).await })
    });
    tokio::time::sleep(Duration::from_secs(6)).await;
    open.store(true, Ordering::Relaxed);
    let mut answers = Vec::new();
    for session in sessions {
        answers.push(session.await.unwrap().unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    assert_eq!(
        veil.engine
            .ledger()
            .history("analyst", 100)
            .await
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn constants_belong_to_the_question() {
    let veil = Veil::demo(|y| y, None).await;
    let sql = "SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage) \
        FROM nls.interviews)";
    let first = veil.rows_as(&Veil::requester(), sql).await.unwrap();
    let paid = veil.spent().await;
    assert_eq!(veil.rows_as(&Veil::requester(), sql).await.unwrap(), first);
    assert_eq!(veil.spent().await, paid);
    // A new average is another constant, so another question.
    veil.rows_as(
        &Veil::fresh(),
        "SELECT avg(hourly_wage) FROM nls.interviews",
    )
    .await
    .unwrap();
    let bought = veil.spent().await;
    veil.rows_as(&Veil::requester(), sql).await.unwrap();
    assert!(veil.spent().await > bought);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_charged_and_not_kept() {
    let hurried = |y: String| y.replace("statement_timeout: 60s", "statement_timeout: 3ms");
    let veil = Veil::demo(hurried, None).await;
    let sql =
        "SELECT year, avg(hourly_wage), sum(hours_per_week) FROM nls.interviews GROUP BY year";
    assert!(veil.ask(sql).await.is_err());
    let once = veil.spent().await;
    assert!(once > 0.0);
    assert!(veil.ask(sql).await.is_err());
    assert!(
        veil.spent().await > once,
        "without an answer there is nothing to show again"
    );
}

/// First askers at once, at two proxies on one ledger: one answer, paid once.
async fn two_proxies(veil: &Veil, ledger: &str) {
    let proxies = [veil.proxy(ledger).await, veil.proxy(ledger).await];
    let sql = "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race";
    let sessions: Vec<_> = (0..20)
        .map(|session| {
            let proxy = Arc::clone(&proxies[session % 2]);
            tokio::spawn(async move { rows_of(&proxy, &Veil::requester(), sql).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for session in sessions {
        answers.push(session.await.unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let ledger = proxies[0].ledger();
    assert_eq!(ledger.history("analyst", 100).await.unwrap().len(), 1);
    assert_eq!(
        ledger.balance_owner().await.unwrap().spent,
        ledger.balance("analyst").await.unwrap().spent
    );
    // An error above a release loses it for nobody.
    let failing = "SELECT 1 / (count(*) - count(*)) FROM nls.interviews";
    assert!(
        rows_of(&proxies[0], &Veil::requester(), failing)
            .await
            .is_err()
    );
    assert!(
        rows_of(
            &proxies[1],
            &Veil::requester(),
            "SELECT count(*) FROM nls.interviews"
        )
        .await
        .is_ok()
    );
    assert_eq!(ledger.history("analyst", 100).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_on_one_ledger_pay_once() {
    let veil = Veil::demo(|y| y, None).await;
    two_proxies(&veil, &veil.ledger).await;
    two_proxies(&veil, &super::stage::database().await).await;
}

/// Questions outside the vector of sums are kept and found again like the sums, also where there is
/// no such vector.
#[tokio::test(flavor = "multi_thread")]
async fn releases_without_sums_are_paid_once() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    for sql in [
        "SELECT max(years_of_school) FROM nls.women",
        "SELECT percentile_cont(ARRAY[0.1, 0.25, 0.5, 0.75, 0.9]) WITHIN GROUP (ORDER BY \
            birth_year) FROM nls.women",
        "SELECT count(DISTINCT industry_code) FROM nls.interviews",
        "SELECT race, percentile_cont(0.5) WITHIN GROUP (ORDER BY years_of_school) FROM nls.women \
            GROUP BY race",
    ] {
        let first = veil.rows_as(&Veil::requester(), sql).await.unwrap();
        let spent = veil.spent().await;
        assert_eq!(
            veil.rows_as(&Veil::requester(), sql).await.unwrap(),
            first,
            "{sql}"
        );
        assert_eq!(veil.spent().await, spent, "{sql}");
        let other = sql
            .replace("nls.women", "nls.women WHERE birth_year > 1944")
            .replace("nls.interviews", "nls.interviews WHERE year > 1970");
        veil.rows_as(&Veil::requester(), &other).await.unwrap();
        assert!(veil.spent().await > spent, "{other} is another question");
    }
}

/// A list of target errors shares the noise out differently: its answer is not the plain
/// question's.
#[tokio::test(flavor = "multi_thread")]
async fn noise_that_is_shared_out_otherwise_is_another_question() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT count(*), sum(years_of_school) FROM nls.women WHERE race <> 'other'";
    let mut session_settings = SessionSettings::with_fixed_clips();
    session_settings
        .set("pgveil.target_error", "20, 60000")
        .unwrap();
    let listed = veil
        .rows_as(
            &Requester {
                session_settings,
                ..Veil::requester()
            },
            sql,
        )
        .await
        .unwrap();
    let spent = veil.spent().await;
    let plain = veil
        .rows_as(
            &Requester {
                session_settings: Veil::session_settings(0.15),
                ..Veil::requester()
            },
            sql,
        )
        .await
        .unwrap();
    assert!(veil.spent().await > spent);
    assert_ne!(plain, listed);
}

/// The review's run: pgveil.epsilon step by step at the rest of the total, and at another role's
/// question.
#[tokio::test(flavor = "multi_thread")]
async fn the_totals_balance_is_not_read_off_refusals() {
    let small = |yaml: String| {
        with_colleague(yaml)
            .replace("epsilon: 8", "epsilon: 1")
            .replace("epsilon: 3", "epsilon: 1")
    };
    let veil = Veil::demo(small, Veil::silent()).await;
    let (asked, new) = (
        "SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY year",
        "SELECT year, sum(hourly_wage) FROM nls.interviews GROUP BY year",
    );
    let at = |role: &str, epsilon: f64| Requester {
        role: role.to_owned(),
        session_settings: Veil::session_settings(epsilon),
        ..Veil::requester()
    };
    veil.ask_as(&at("analyst", 0.9), asked).await.unwrap();
    let refused = async |epsilon: f64, sql: &str| {
        let report = veil
            .ask_as(&at("colleague", epsilon), sql)
            .await
            .unwrap_err()
            .report();
        assert_eq!(report.sqlstate, "53400", "{report:?}");
        report.message
    };
    let by_total = "privacy budget exhausted: the total over all roles does not cover this query";
    let closed = "privacy budget exhausted: the total over all roles did not cover an earlier \
        query \
        of this role";
    // A question of the analyst's is refused like a question that nobody has asked.
    assert_eq!(refused(0.9, asked).await, by_total);
    for step in 1..18 {
        let epsilon = 0.9 - 0.05 * f64::from(step);
        assert_eq!(
            (refused(epsilon, new).await, refused(epsilon, asked).await),
            (closed.to_owned(), closed.to_owned()),
            "{epsilon}"
        );
    }
    let ledger = veil.engine.ledger();
    assert!(ledger.balance("colleague").await.unwrap().spent.is_zero());
    // The analyst is not kept from the rest, and asks once too much itself in the end.
    veil.ask_as(&at("analyst", 0.05), new).await.unwrap();
    let act = Act::Unfreeze {
        role: Some("colleague".to_owned()),
    };
    ledger
        .decide(Decision {
            act,
            who: "olga".to_owned(),
            why: "enough is left".to_owned(),
        })
        .await
        .unwrap();
    veil.ask_as(&at("colleague", 0.2), new).await.unwrap();
    assert_eq!(refused(0.9, asked).await, by_total);
}

/// Nor does a used-up limit of failures reveal what others have asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_for_others_needs_a_failure_left() {
    let veil = Veil::demo(with_colleague, Veil::silent()).await;
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    veil.ask(WOMEN).await.unwrap();
    let own = "SELECT count(*) FROM nls.women WHERE birth_year > 1950";
    veil.ask_as(&colleague, own).await.unwrap();
    for _ in 0..10 {
        veil.engine
            .ledger()
            .record_failure("colleague")
            .await
            .unwrap();
    }
    let mut reported = Vec::new();
    for sql in [WOMEN, "SELECT count(*) FROM nls.interviews"] {
        let report = veil.ask_as(&colleague, sql).await.unwrap_err().report();
        reported.push((report.sqlstate, report.message, report.detail));
    }
    assert!(
        reported[0] == reported[1] && reported[0].0 == "42501",
        "{reported:?}"
    );
    assert!(
        veil.ask_as(&colleague, own).await.is_ok(),
        "what it has paid for is shown"
    );
}
