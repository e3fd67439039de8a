//! `pgveil.reuse = checked`: a summary's answer is compared with the rows for one price, and bought
//! where it is far off. What is bought corrects what the summary answers.

use pgveil::engine::Requester;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};
use pgveil::policy::{Reuse, SessionSettings};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::outer_query::rich;
use super::summaries::{declared, make, precise, session, spent, with_reuse};
use crate::fixture::{Silent, Stream, Veil};

/// The policy, with monitors, which checks are.
pub(super) fn with_monitors(yaml: String) -> String {
    yaml.replacen("\nlimits:\n", "\nlimits:\n  monitor_questions: 1000\n", 1)
}

fn checked(role: &str, tolerance: f64) -> Requester {
    let mut requester = with_reuse(role, Reuse::Checked);
    requester.session_settings.tolerance = Some(tolerance);
    requester
}

/// Half of the epsilon of [`precise`], since a check and its question are one query.
fn precisely_checked(role: &str, tolerance: f64) -> Requester {
    let mut requester = checked(role, tolerance);
    requester.session_settings.epsilon = Some(2500.0);
    requester
}

/// A veil whose summary has large noise, while all other noise is zero: what is bought is exact.
pub async fn with_a_bad_summary() -> Veil {
    with_a_bad_summary_and(|yaml| yaml).await
}

/// [`with_a_bad_summary`], with a change of its policy.
pub async fn with_a_bad_summary_and(edit: impl Fn(String) -> String) -> Veil {
    let yaml = |yaml: String| {
        let yaml = with_monitors(declared(rich(yaml)));
        edit(yaml.replace(
            "{epsilon: 1, max_epsilon: 1}",
            "{epsilon: 1, max_epsilon: 3}",
        ))
    };
    let veil = Veil::demo(yaml, Veil::silent()).await;
    let mut noise = Stream(ChaCha20Rng::seed_from_u64(7));
    make(&veil, &veil.engine, &mut noise).await.unwrap();
    veil
}

async fn value(veil: &Veil, requester: &Requester, sql: &str) -> f64 {
    let rows = veil.rows_as(requester, sql).await;
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows[0].parse().unwrap()
}

async fn exact(veil: &Veil, sql: &str) -> f64 {
    veil.direct(sql).await[0].parse().unwrap()
}

/// The notices as one text.
async fn notices(veil: &Veil, requester: &Requester, sql: &str) -> String {
    let answer = veil.ask_as(requester, sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    answer.notices.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_right_is_checked_for_one_price() {
    let veil = Veil::demo(|yaml| with_monitors(precise(yaml)), Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let requester = precisely_checked("analyst", 300.0);
    let before = spent(&veil.engine, "analyst").await;
    let sql = "SELECT count(*) FROM nls.women WHERE race = 'black'";
    let others = "SELECT count(*) FROM nls.women WHERE race = 'other'";
    let said = notices(&veil, &requester, sql).await;
    assert!(
        said.contains("checks of summaries were opened for epsilon")
            && said.contains("checked: summary women is less than 300 off here"),
        "{said}"
    );
    let opened = spent(&veil.engine, "analyst").await;
    assert!(opened > before);
    for sql in [
        sql,
        "SELECT count(*) FROM nls.women WHERE birth_year < 1948",
        "SELECT sum(years_of_school) AS s FROM nls.women WHERE college_graduate = 1",
        "SELECT count(*) FROM nls.women",
    ] {
        let said = notices(&veil, &requester, sql).await;
        assert!(said.contains("is less than 300 off"), "{sql}: {said}");
        veil.answers_as_postgresql(&requester, &[sql]).await;
    }
    assert_eq!(spent(&veil.engine, "analyst").await, opened, "free");
    let view = "SELECT monitor_name, is_open FROM pgveil.monitors";
    let shown = veil.rows_as(&requester, view).await.unwrap();
    assert_eq!(shown, ["pgveil.reuse|t"]);
    // Another role opens checks by itself. A checked session receives no summary.
    let colleague = precisely_checked("colleague", 300.0);
    let said = notices(&veil, &colleague, others).await;
    assert!(
        !said.contains("received") && !said.contains("checked"),
        "{said}"
    );
    let early = "SELECT count(*) FROM nls.women WHERE birth_year < 1948";
    veil.rows_as(&session("colleague"), early).await.unwrap();
    let received = spent(&veil.engine, "colleague").await;
    notices(&veil, &colleague, early).await;
    let paid = spent(&veil.engine, "colleague").await - received;
    assert!((paid / (opened - before) - 1.0).abs() < 1e-9, "{paid}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_far_off_is_bought_and_corrects_the_others() {
    let veil = with_a_bad_summary().await;
    let raw = with_reuse("analyst", Reuse::Summary);
    let black = "SELECT count(*) FROM nls.women WHERE race = 'black'";
    let others = "SELECT count(*) FROM nls.women WHERE race <> 'black'";
    let all = "SELECT count(*) FROM nls.women";
    let young = "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year > 1948";
    let old = "SELECT count(*) FROM nls.women WHERE race = 'black' AND birth_year <= 1948";
    let graduates = "SELECT count(*) FROM nls.women WHERE college_graduate = 1";
    let mut before = Vec::new();
    for sql in [black, others, all, young, old, graduates] {
        before.push(value(&veil, &raw, sql).await);
    }
    let off = (before[0] - exact(&veil, black).await).abs();
    assert!(off > 14.0, "the seed's noise is {off}");
    // A check of this tolerance finds it.
    let mut near = checked("analyst", off / 2.0);
    near.session_settings.epsilon = Some(1.5);
    let paid = spent(&veil.engine, "analyst").await;
    let said = notices(&veil, &near, black).await;
    assert!(
        said.contains("or more off here") && said.contains("the checks have ended"),
        "{said}"
    );
    assert_eq!(value(&veil, &near, black).await, exact(&veil, black).await);
    let bought = spent(&veil.engine, "analyst").await;
    assert!(bought > paid);
    // What was bought is shown again, and not checked.
    let again = notices(&veil, &near, black).await;
    assert!(!again.contains("checked"), "{again}");
    assert_eq!(spent(&veil.engine, "analyst").await, bought);
    // Sums of groups that have something in common with it move, and still add up.
    let far = checked("analyst", 1e6);
    let mut after = Vec::new();
    for sql in [black, others, all, young, old, graduates] {
        after.push(value(&veil, &far, sql).await);
    }
    let [
        black_now,
        others_now,
        all_now,
        young_now,
        old_now,
        graduates_now,
    ] = after[..]
    else {
        panic!("{after:?}");
    };
    assert!((black_now + others_now - all_now).abs() <= 2.0, "{after:?}");
    assert!((young_now + old_now - black_now).abs() <= 2.0, "{after:?}");
    assert!(
        young_now != before[3] && old_now != before[4],
        "{after:?} {before:?}"
    );
    // Its own noise is gone from them, so their stated errors are smaller; those of groups that
    // have little in common with it are not.
    let error = |sql: &str| sql.replace("count(*)", "pgveil.stderr(count(*))");
    for (sql, least, most) in [(young, 0.3, 0.99), (old, 0.3, 0.99)] {
        let raw = value(&veil, &raw, &error(sql)).await;
        let now = value(&veil, &far, &error(sql)).await;
        assert!((least..most).contains(&(now / raw)), "{sql}: {raw} {now}");
    }
    let _ = graduates_now;
    // Sessions that ask for no checks, and other roles, see the summary as it was made.
    assert_eq!(value(&veil, &raw, young).await, before[3]);
    let on = with_reuse("colleague", Reuse::On);
    assert_eq!(value(&veil, &on, young).await, before[3]);
    assert_eq!(
        value(&veil, &checked("colleague", 1e6), young).await,
        before[3]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_checked_is_said_and_what_would_be_in_vain_is_refused() {
    let veil = with_a_bad_summary().await;
    let sql = "SELECT count(*) FROM nls.women WHERE birth_year = 1945";
    let before = spent(&veil.engine, "analyst").await;
    let refused = async |requester: &Requester, sql: &str| {
        let error = veil.ask_as(requester, sql).await.unwrap_err().report();
        (error.sqlstate.to_owned(), format!("{error:?}"))
    };
    let (code, text) = refused(&with_reuse("analyst", Reuse::Checked), sql).await;
    assert!(
        code == "22023" && text.contains("SET pgveil.tolerance"),
        "{text}"
    );
    let mut small = checked("analyst", 1.0);
    small.session_settings.epsilon = Some(0.5);
    let (code, text) = refused(&small, sql).await;
    assert!(code == "22023" && text.contains("twice as much"), "{text}");
    // Groups, several values and arithmetic are answered, and not checked.
    let requester = checked("analyst", 300.0);
    for sql in [
        "SELECT race, count(*) FROM nls.women GROUP BY race",
        "SELECT count(*) * 2 FROM nls.women",
        "SELECT count(*), sum(years_of_school) FROM nls.women",
        "SELECT avg(years_of_school) FROM nls.women WHERE race = 'black'",
    ] {
        let said = notices(&veil, &requester, sql).await;
        assert!(said.contains("not checked: "), "{sql}: {said}");
    }
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    // One query may spend 3, and a check with its question would spend 4.
    let mut dear = requester.clone();
    dear.session_settings.epsilon = Some(2.0);
    let (code, text) = refused(&dear, sql).await;
    assert!(
        code == "22023" && text.contains("pgveil.epsilon = 1.5"),
        "{text}"
    );
    // EXPLAIN says it, free.
    let explain = format!("EXPLAIN {sql}");
    let mut settings = SessionSettings {
        reuse: Reuse::Checked,
        ..SessionSettings::default()
    };
    let explained = veil.explained(settings, &explain).await.join("\n");
    assert!(
        explained.contains("Check: it would be refused"),
        "{explained}"
    );
    settings.tolerance = Some(300.0);
    let explained = veil.explained(settings, &explain).await.join("\n");
    assert!(
        explained.contains("Check: the answer of summary women is compared with the rows; opens"),
        "{explained}"
    );
    settings.reuse = Reuse::On;
    let explained = veil.explained(settings, &explain).await.join("\n");
    assert!(!explained.contains("Check:"), "{explained}");
    assert_eq!(spent(&veil.engine, "analyst").await, before);
    // What no summary answers is bought as ever.
    let bought = "SELECT count(*) FROM nls.women WHERE years_of_school = 12";
    let said = notices(&veil, &requester, bought).await;
    assert!(!said.contains("checked"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_need_the_owners_leave_for_monitors() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let sql = "SELECT count(*) FROM nls.women";
    let error = veil.ask_as(&checked("analyst", 300.0), sql).await;
    let text = format!("{:?}", error.unwrap_err().report());
    assert!(text.contains("monitor_questions"), "{text}");
}

/// Adds this much to every noisy threshold and to every noisy sum, and no noise.
struct Biased(i128);

impl Sampler for Biased {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Ok(self.0)
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Err(SampleError::Parameter)
    }
}

/// The verdict is drawn: noise far above the tolerance decides it, also where the summary is right.
#[tokio::test(flavor = "multi_thread")]
async fn the_noise_of_a_check_decides_it() {
    let sampler = std::sync::Arc::new(|| -> Box<dyn Sampler + Send> { Box::new(Biased(1 << 50)) });
    let veil = Veil::demo(|yaml| with_monitors(precise(yaml)), Some(sampler)).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let sql = "SELECT count(*) FROM nls.women";
    let answer = veil
        .ask_as(&precisely_checked("analyst", 300.0), sql)
        .await
        .unwrap();
    let said = answer.notices.join("\n");
    assert!(said.contains("300 or more off here"), "{said}");
}
