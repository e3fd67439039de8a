//! Questions whose answers the noise hides are refused free, where the policy states the number of
//! units.

use pgveil::engine::{QuestionPlan, Requester, constants, plan, refuse_useless};
use pgveil::ir::ReleaseId;
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{ClipChoice, Policy, SessionSettings, UselessMode};
use pgveil::refusal::Refusal;
use pgveil::rewrite::{Plan, Terms, UnitCount, measure_deviation};

use super::types::serve;
use crate::fixture::Veil;
use crate::ledger::reuse::with_colleague;
use crate::project::golden::terms;

/// Half the width of a 95 % interval of Gaussian noise.
const Z: f64 = 1.959_964;

fn of_units(units: u64) -> impl Fn(String) -> String {
    move |yaml| {
        let place = "  data_version: \"1988\"";
        assert!(yaml.contains(place));
        yaml.replacen(place, &format!("  units: {units}\n{place}"), 1)
    }
}

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

/// The plan of a question, and its refusal by a policy with this many units.
fn judged(demo: &Policy, units: Option<u64>, sql: &str, terms: &Terms) -> (Plan, Option<Refusal>) {
    let mut policy = demo.clone();
    policy.privacy.units = units;
    let (query, search_path) = (query(sql), ["public".to_owned()]);
    let constants = constants(&Veil::requester(), &policy);
    let planned = plan(&query, &policy, &search_path, &constants, terms);
    let planned = planned.unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
    let asked = QuestionPlan {
        query: &query,
        policy: &policy,
        search_path: &search_path,
        constants: &constants,
        terms,
        units: UnitCount::of_policy(&policy),
    };
    let refused = refuse_useless(&asked, &planned, |_| true);
    (planned, refused)
}

/// The least number of units with which the question is answered.
fn edge(demo: &Policy, sql: &str) -> u64 {
    let terms = terms(demo);
    let is_refused = |units: u64| judged(demo, Some(units), sql, &terms).1.is_some();
    let (mut low, mut high) = (1, 1 << 20);
    assert!(is_refused(low) && !is_refused(high), "{sql}");
    while high - low > 1 {
        let middle = (low + high) / 2;
        if is_refused(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Each rule at its edge: one unit fewer, and the question is refused.
#[tokio::test(flavor = "multi_thread")]
async fn each_rule_has_the_edge_that_is_documented() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let noise = |sql: &str, measure: usize| {
        let (plan, _) = judged(demo, None, sql, &terms(demo));
        let release = plan.release(ReleaseId(0));
        measure_deviation(release, &release.measures()[measure]).unwrap()
    };
    // A quarter of the most that all units can add up to.
    for (sql, of_a_unit) in [
        ("SELECT count(*) FROM nls.women", 1.0),
        ("SELECT sum(years_of_school) FROM nls.women", 18.0),
        ("SELECT sum(years_of_school - 12) FROM nls.women", 12.0),
        ("SELECT count(*) FROM nls.interviews", 15.0),
        ("SELECT year, count(*) FROM nls.interviews GROUP BY 1", 1.0),
        ("SELECT count(DISTINCT woman_id) FROM nls.interviews", 1.0),
        ("SELECT sum(hourly_wage) FROM nls.interviews", 450.0),
    ] {
        let least = 4.0 * Z * noise(sql, 0) / of_a_unit;
        assert_eq!(edge(demo, sql), least.ceil() as u64, "{sql}");
    }
    // Three standard errors of the number of rows.
    for (sql, rows) in [
        ("SELECT avg(years_of_school) FROM nls.women", 1.0),
        (
            "SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY 1",
            1.0,
        ),
    ] {
        let (plan, refused) = judged(demo, Some(2), sql, &terms(demo));
        let release = plan.release(ReleaseId(0));
        let is_count = |measure: &&pgveil::rewrite::Measure| {
            matches!(measure, pgveil::rewrite::Measure::Count(_))
        };
        let count = release.measures().iter().find(is_count).unwrap();
        let least = 3.0 * measure_deviation(release, count).unwrap() / rows;
        assert_eq!(edge(demo, sql), least.floor() as u64 + 1, "{sql}");
        let refused = refused.unwrap().message;
        assert!(
            refused.starts_with("this answer would be NULL"),
            "{refused}"
        );
    }
    // Half of all units.
    let keyed = "SELECT woman_id / 100, count(*) FROM nls.women GROUP BY 1";
    let (plan, refused) = judged(demo, Some(10), keyed, &terms(demo));
    let price = plan.release(ReleaseId(0)).price().unwrap();
    let (presence, pass_at) = price.threshold.unwrap();
    let units = pass_at as f64 / 2f64.powi(price.calibrated[presence.0].refine as i32);
    assert_eq!(edge(demo, keyed), (2.0 * units).ceil() as u64);
    assert_eq!(
        refused.unwrap().message,
        format!(
            "a group needs about {:.0} units to be shown, and there are about 10 in all",
            units.ceil()
        )
    );
    // A quarter of all rows, in ranks.
    for (sql, least) in [
        ("SELECT max(years_of_school) FROM nls.women", 500..560),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY years_of_school) FROM nls.women",
            125..140,
        ),
        (
            "SELECT mode() WITHIN GROUP (ORDER BY race) FROM nls.women",
            90..95,
        ),
    ] {
        let found = edge(demo, sql);
        assert!(least.contains(&found), "{sql}: {found}");
    }
}

/// Statistics that divide by variances, over values with a usual spread.
#[tokio::test(flavor = "multi_thread")]
async fn what_divides_by_a_variance_needs_more_units() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let of = |call: &str| edge(demo, &format!("SELECT {call} FROM nls.interviews"));
    let correlation = of("corr(hourly_wage, tenure_years)");
    assert_eq!(of("regr_r2(hourly_wage, tenure_years)"), correlation);
    assert_eq!(of("regr_slope(hourly_wage, tenure_years)"), correlation);
    let covariance = of("covar_pop(hourly_wage, tenure_years)");
    let deviation = of("stddev(hourly_wage)");
    assert!((45..60).contains(&deviation), "{deviation}");
    assert!(
        covariance < correlation / 4 && (300..600).contains(&correlation),
        "{covariance}, {correlation}"
    );
    let (_, refused) = judged(
        demo,
        Some(correlation - 1),
        "SELECT corr(hourly_wage, tenure_years) FROM nls.interviews",
        &terms(demo),
    );
    assert_eq!(
        refused.unwrap().message,
        "this answer would be ±1.00 for a correlation between -1 and 1"
    );
}

/// The statements of a document's sessions that are answered: after `nls=>`, and further lines.
fn answered_in(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(start) = line.strip_prefix("nls=> ") {
            found.push(start.to_owned());
        } else if let (Some(rest), Some(last)) = (line.strip_prefix("nls-> "), found.last_mut()) {
            last.push(' ');
            last.push_str(rest);
        } else if line.starts_with("ERROR:") {
            found.pop();
        }
    }
    found.retain(|sql| sql.starts_with("SELECT"));
    found
}

/// The demo's policy states the number of units. Its own questions, and those of README, are
/// answered, and show a shape: each but the first has several groups.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_answers_what_it_proposes() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let text = std::fs::read_to_string("policies/demo.yaml").unwrap();
    assert!(text.contains("\n  units: 5000 "));
    let readme = std::fs::read_to_string("README.md").unwrap();
    let of_readme = answered_in(&readme);
    assert!(!of_readme.is_empty(), "README shows no answer");
    let proposed = &pgveil::demo::questions::QUESTIONS;
    let finer = proposed.iter().map(|question| question.sql);
    let coarser = proposed.iter().filter_map(|question| question.coarser);
    let of_demo = finer.chain(coarser).map(str::to_owned);
    let mut looking = terms(demo);
    looking.session_settings.clip = ClipChoice::Auto;
    for (number, sql) in of_demo.chain(of_readme).enumerate() {
        for terms in [&terms(demo), &looking] {
            let (plan, refused) = judged(demo, Some(5000), &sql, terms);
            assert_eq!(refused, None, "{sql}");
            let units = Some(UnitCount::Policy(5000));
            assert!(
                pgveil::rewrite::thin_groups(&plan, units).is_empty(),
                "{sql}"
            );
            let groups = plan.release(ReleaseId(0)).listed_groups();
            assert_eq!(groups > 1, number > 0, "{sql}: {groups}");
        }
    }
}

/// No question is refused as useless under a policy without the number of units, nor a free one.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_refused_without_units_or_for_nothing() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let terms = terms(demo);
    let corr = "SELECT corr(hourly_wage, tenure_years) FROM nls.interviews WHERE age > 45";
    assert_eq!(judged(demo, None, corr, &terms).1, None);
    for free in [
        "SELECT count(*) FROM nls.women WHERE race = 'Whit'",
        "SELECT DISTINCT race FROM nls.women",
        "SELECT count(*) FROM nls.industries",
    ] {
        assert_eq!(judged(demo, Some(1), free, &terms).1, None, "{free}");
    }
}

/// Where the clip is chosen from a noisy look, the noise is not known before it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_looked_at_first_is_judged_by_what_a_look_can_see() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let mut looking = terms(demo);
    looking.session_settings.clip = ClipChoice::Auto;
    let sum = "SELECT sum(hourly_wage) FROM nls.interviews";
    assert!(judged(demo, Some(2), sum, &terms(demo)).1.is_some());
    let (plan, refused) = judged(demo, Some(100), sum, &looking);
    let price = plan.release(ReleaseId(0)).price().unwrap();
    let look = price.look.as_ref().unwrap();
    assert_eq!(refused, None);
    let least = (4.0 * look.deviation()).ceil() as u64;
    assert_eq!(judged(demo, Some(least), sum, &looking).1, None);
    let refused = judged(demo, Some(least - 1), sum, &looking).1.unwrap();
    let message = format!(
        "a clip could be chosen from about {least} units on, and there are about {} in all",
        least - 1
    );
    assert_eq!(refused.message, message);
    let keyed = "SELECT woman_id / 100, sum(hourly_wage) FROM nls.women JOIN nls.interviews USING \
        (woman_id) GROUP BY 1";
    let refused = judged(demo, Some(150), keyed, &looking).1.unwrap();
    let hidden = refused.message.starts_with("a group needs about ");
    assert!(hidden, "{}", refused.message);
    // One row of each unit is never looked at.
    assert!(judged(demo, Some(2), COUNT, &looking).1.is_some());
}

fn with_target(useless: UselessMode) -> Requester {
    Requester {
        session_settings: SessionSettings {
            useless,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    }
}

const COUNT: &str = "SELECT count(*) FROM nls.women";

/// Refused free, reported by EXPLAIN, charged under `warn` and `allow`; a held answer is shown
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn a_useless_question_is_refused_free_and_answered_where_the_session_asks() {
    let veil = Veil::demo(of_units(60), None).await;
    let refused = veil.ask(COUNT).await.unwrap_err().report();
    assert_eq!(refused.sqlstate, "PV001");
    let message = "this answer would be ±17.63 for a count of at most 60";
    let hint = "SET pgveil.epsilon = 0.6 would give ±14.84.";
    assert_eq!(
        (refused.message.as_str(), refused.hint.as_deref()),
        (message, Some(hint))
    );
    assert!(refused.detail.unwrap().starts_with("Nothing was charged."));
    assert_eq!(veil.spent().await, 0.0);
    let explained = async |useless: UselessMode| {
        let settings = with_target(useless).session_settings;
        veil.explained(settings, &format!("EXPLAIN {COUNT}")).await
    };
    for (useless, then) in [
        (UselessMode::Refuse, "it is refused, at no cost"),
        (UselessMode::Warn, "it is answered with a warning"),
        (UselessMode::Allow, "it is answered all the same"),
    ] {
        let lines = explained(useless).await;
        let at = lines
            .iter()
            .position(|line| *line == format!("Useless: {message}; {then}"));
        assert_eq!(lines[at.unwrap() + 1], format!("  Hint: {hint}"));
        let refused = format!("refused, at no cost: {message}");
        let is_refused = useless == UselessMode::Refuse;
        assert_eq!(lines[0] == refused, is_refused, "{}", lines[0]);
    }
    let json = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN (FORMAT JSON) {COUNT}"),
        )
        .await;
    let json: serde_json::Value = serde_json::from_str(&json.join("\n")).unwrap();
    assert_eq!(json[0]["useless"]["message"], message);
    assert_eq!(json[0]["refused"], message);
    assert_eq!(json[0]["useless"]["hint"], hint);
    assert_eq!(veil.spent().await, 0.0);

    let answer = veil
        .ask_as(&with_target(UselessMode::Warn), COUNT)
        .await
        .unwrap();
    let [warning] = answer.warnings.as_slice() else {
        panic!("{:?}", answer.warnings)
    };
    assert_eq!(
        (warning.sqlstate.as_str(), warning.message.as_str()),
        ("PV001", message)
    );
    assert!(!warning.detail.as_ref().unwrap().contains("charged"));
    let spent = veil.spent().await;
    assert!(spent > 0.0);
    // It is held now: no refusal, no warning, no charge.
    for useless in [UselessMode::Refuse, UselessMode::Warn, UselessMode::Allow] {
        let answer = veil.ask_as(&with_target(useless), COUNT).await.unwrap();
        assert!(answer.warnings.is_empty());
    }
    assert!(
        !explained(UselessMode::Refuse)
            .await
            .iter()
            .any(|line| line.starts_with("Useless"))
    );
    assert_eq!(veil.spent().await, spent);
    let other = "SELECT count(*) FROM nls.women WHERE birth_year > 1948";
    assert_eq!(
        veil.ask(other).await.unwrap_err().report().sqlstate,
        "PV001"
    );
    let answer = veil
        .ask_as(&with_target(UselessMode::Allow), other)
        .await
        .unwrap();
    assert!(answer.warnings.is_empty() && veil.spent().await > spent);
}

/// Neither another role's answers nor the rows change a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn neither_rows_nor_other_roles_decide_a_refusal() {
    let veil = Veil::demo(|yaml| with_colleague(of_units(60)(yaml)), None).await;
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    let output = async || {
        let refused = veil.ask_as(&colleague, COUNT).await.unwrap_err().report();
        let query = query(COUNT);
        let explained = pgveil::engine::Service::explain(
            &*veil.engine,
            &colleague,
            &query,
            &[],
            &[],
            pgveil::parse::ExplainFormat::Text,
            tokio_util::sync::CancellationToken::new(),
        );
        (refused, explained.await.unwrap())
    };
    let before = output().await;
    veil.ask_as(&with_target(UselessMode::Allow), COUNT)
        .await
        .unwrap();
    assert_eq!(output().await, before);
    veil.client
        .batch_execute("DELETE FROM nls.interviews; DELETE FROM nls.women WHERE woman_id > 10")
        .await
        .unwrap();
    assert_eq!(output().await, before);
}

/// Each kind of hint, followed.
#[tokio::test(flavor = "multi_thread")]
async fn hints_do_what_they_say() {
    let veil = Veil::demo(of_units(100), None).await;
    let demo = veil.engine.policy();
    let hint = |units: u64, sql: &str| {
        let (_, refused) = judged(demo, Some(units), sql, &terms(demo));
        refused.and_then(|refusal| refusal.hint)
    };
    let of_keys =
        |keys: &str| format!("SELECT {keys}, count(*) FROM nls.interviews GROUP BY {keys}");
    // Fewer keys.
    assert_eq!(
        hint(100, &of_keys("year, industry_code")).as_deref(),
        Some("GROUP BY industry_code alone would give ±264.")
    );
    assert_eq!(hint(100, &of_keys("industry_code")), None);
    assert_eq!(
        hint(
            100,
            "SELECT woman_id / 100, count(*) FROM nls.women GROUP BY 1"
        )
        .as_deref(),
        Some("Without GROUP BY it would do.")
    );
    assert_eq!(hint(100, COUNT), None);
    // More epsilon.
    assert_eq!(
        hint(60, COUNT).as_deref(),
        Some("SET pgveil.epsilon = 0.6 would give ±14.84.")
    );
    let mut more = terms(demo);
    more.epsilon = 0.6;
    assert_eq!(judged(demo, Some(60), COUNT, &more).1, None);
    more.epsilon = 0.59;
    assert!(judged(demo, Some(60), COUNT, &more).1.is_some());
    // Fewer rows.
    let sets = "SELECT year, industry_code, count(*) FROM nls.interviews GROUP BY GROUPING SETS \
        ((year), (year, industry_code))";
    assert_eq!(
        hint(150, sets).as_deref(),
        Some("SET pgveil.max_rows_per_unit = 2 would give ±35.26.")
    );
    let mut fewer = terms(demo);
    fewer.session_settings.rows_per_unit = Some(2);
    assert_eq!(judged(demo, Some(150), sets, &fewer).1, None);
    fewer.session_settings.rows_per_unit = Some(3);
    assert!(judged(demo, Some(150), sets, &fewer).1.is_some());
    // Less next to it.
    assert_eq!(
        hint(
            100,
            "SELECT avg(hourly_wage), corr(hourly_wage, tenure_years) FROM nls.interviews"
        )
        .as_deref(),
        Some("Without aggregate 2 the others would be useful.")
    );
    // Nothing.
    assert_eq!(
        hint(20, "SELECT max(years_of_school) FROM nls.women").as_deref(),
        Some(
            "No allowed setting would make the answer useful. Whatever the data are, it lies \
             from 0 to 18."
        )
    );
}

/// Most groups hold few units: a warning, and the answer.
#[tokio::test(flavor = "multi_thread")]
async fn thin_groups_are_warned_of() {
    let veil = Veil::demo(of_units(500), None).await;
    let thin =
        "SELECT birth_year, race, college_graduate, count(*) FROM nls.women GROUP BY 1, 2, 3";
    let wanted = "there are 84 groups, of about 5.95 units each at most on average; the noise \
        hides ±17.63 of them";
    let explained = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            &format!("EXPLAIN {thin}"),
        )
        .await;
    assert!(
        explained.contains(&format!("Warning: {wanted}")),
        "{explained:?}"
    );
    let of_look = "EXPLAIN SELECT birth_year, race, college_graduate, industry_code, \
        sum(hourly_wage) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY 1, 2, 3, 4";
    let looking = SessionSettings {
        clip: ClipChoice::Auto,
        ..SessionSettings::with_fixed_clips()
    };
    let explained = veil.explained(looking, of_look).await;
    let warned = explained
        .iter()
        .find(|line| line.starts_with("Warning: there are "));
    assert!(
        warned.is_some_and(|line| line.ends_with(" or more of them")),
        "{explained:?}"
    );
    let answer = veil.ask(thin).await.unwrap();
    let [warning] = answer.warnings.as_slice() else {
        panic!("{:?}", answer.warnings)
    };
    assert_eq!(
        (warning.sqlstate.as_str(), warning.message.as_str()),
        ("01000", wanted)
    );
    let by_race = "SELECT race, count(*) + 1 FROM nls.women GROUP BY 1";
    for (useless, sql) in [(UselessMode::Allow, thin), (UselessMode::Refuse, by_race)] {
        let answer = veil.ask_as(&with_target(useless), sql).await.unwrap();
        assert!(answer.warnings.is_empty(), "{sql}");
    }
}

/// A client meets the refusal under settings of its session, and runs what the hint says.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_meets_the_refusal_and_its_hint() {
    let veil = Veil::demo(of_units(60), None).await;
    let config = format!(
        "host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable",
        serve(&veil).await.port()
    );
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let asked = async |sql: &str| {
        client
            .simple_query(sql)
            .await
            .map(drop)
            .map_err(|error| error.as_db_error().unwrap().clone())
    };
    let refused = asked(COUNT).await.unwrap_err();
    assert_eq!(refused.code().code(), "PV001");
    assert_eq!(veil.spent().await, 0.0);
    // Bound values are a question too.
    let bound = "SELECT count(*) FROM nls.women WHERE birth_year > $1";
    let prepared = client.prepare(bound).await.unwrap();
    let refused_bound = client.query(&prepared, &[&1948i16]).await.unwrap_err();
    assert_eq!(refused_bound.code().unwrap().code(), "PV001");
    assert_eq!(veil.spent().await, 0.0);
    let hint = refused.hint().unwrap();
    let (setting, _) = hint.split_once(" would").unwrap();
    asked(setting).await.unwrap();
    asked(COUNT).await.unwrap();
    let spent = veil.spent().await;
    assert!(spent > 0.0);
    asked("RESET pgveil.epsilon").await.unwrap();
    // A better answer is held.
    asked(COUNT).await.unwrap();
    assert_eq!(veil.spent().await, spent);
    let other = "SELECT count(*) FROM nls.women WHERE race = 'black'";
    assert_eq!(asked(other).await.unwrap_err().code().code(), "PV001");
    asked("SET pgveil.useless = warn").await.unwrap();
    asked(other).await.unwrap();
    assert!(veil.spent().await > spent);
}

/// A role's settings may say so.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_may_start_with_another_level() {
    let veil = Veil::demo(
        |yaml| {
            let budget = "budget: {epsilon: 3, delta: 1e-7, renew: never}";
            assert!(yaml.contains(budget));
            let settings = format!("{budget}\n    settings: {{useless: allow}}");
            of_units(60)(yaml).replacen(budget, &settings, 1)
        },
        None,
    )
    .await;
    let role = veil.engine.policy().role("analyst").unwrap();
    assert_eq!(role.session_settings.useless, UselessMode::Allow);
}
