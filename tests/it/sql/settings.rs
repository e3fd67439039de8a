//! The settings `pgveil.*` reach the plan, and never exceed the policy.

use pgveil::parse::{Statement, parse};
use pgveil::policy::{KeyChoice, SessionSettings, TargetError};
use pgveil::rewrite::{Plan, measure_deviation};

use crate::fixture::Veil;

async fn planned(
    veil: &Veil,
    session_settings: SessionSettings,
    sql: &str,
) -> Result<std::sync::Arc<Plan>, (String, String)> {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query is wanted: {sql}")
    };
    let requester = pgveil::engine::Requester {
        session_settings,
        ..Veil::requester()
    };
    veil.engine
        .plan(&requester, query)
        .await
        .map(|(plan, _)| plan)
        .map_err(|e| (e.report().sqlstate, e.report().message))
}

/// Standard errors of all measures of all releases.
fn deviations(plan: &Plan) -> Vec<f64> {
    plan.releases()
        .iter()
        .flat_map(|r| {
            r.measures()
                .iter()
                .map(|m| measure_deviation(r, m).unwrap())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wanted_error_is_met_and_costs_what_it_must() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let with = |target: TargetError| SessionSettings {
        target_error: Some(target.into()),
        ..SessionSettings::with_fixed_clips()
    };
    let count = "SELECT race, count(*) FROM nls.women GROUP BY race";
    for error in [10.0, 25.0, 300.0] {
        let plan = planned(&veil, with(TargetError::Absolute(error)), count)
            .await
            .unwrap();
        let [found] = deviations(&plan)[..] else {
            panic!("one count")
        };
        assert!(found <= error && found > error * 0.999, "{error}: {found}");
    }
    let cost = |plan: &Plan| plan.loss().mu_squared.to_f64();
    let default = planned(&veil, SessionSettings::with_fixed_clips(), count)
        .await
        .unwrap();
    let wide = planned(&veil, with(TargetError::Absolute(100.0)), count)
        .await
        .unwrap();
    assert!(cost(&wide) < cost(&default) / 50.0);
    // The sum's range is [0, 30].
    let sum = "SELECT sum(hourly_wage) FROM nls.interviews";
    let plan = planned(&veil, with(TargetError::OfRow(120.0)), sum)
        .await
        .unwrap();
    let found = deviations(&plan)[0];
    assert!(found <= 3600.0 && found > 3598.0, "{found}");
    // Averages: their parts.
    let average = "SELECT avg(hourly_wage), count(*) FROM nls.interviews";
    let plan = planned(&veil, with(TargetError::OfRow(120.0)), average)
        .await
        .unwrap();
    let found = deviations(&plan);
    assert!(
        found.iter().any(|d| *d > 119.9 && *d <= 120.0) && found.iter().all(|d| *d <= 3600.0),
        "{found:?}"
    );
    // Two releases: each meets it, and the whole pays for both.
    let two =
        "SELECT (SELECT count(*) FROM nls.women), (SELECT sum(years_of_school) FROM nls.women)";
    let plan = planned(&veil, with(TargetError::Absolute(90.0)), two)
        .await
        .unwrap();
    assert!(
        deviations(&plan).iter().all(|d| *d <= 90.0 && *d > 89.9),
        "{:?}",
        deviations(&plan)
    );
    let (sqlstate, message) = planned(&veil, with(TargetError::Absolute(0.01)), count)
        .await
        .unwrap_err();
    assert_eq!(sqlstate, "22023", "{message}");
    assert!(
        message.starts_with("pgveil.target_error needs"),
        "{message}"
    );
    // Nothing would be spent on keys without a count, and no key would be shown.
    let (sqlstate, message) = planned(
        &veil,
        with(TargetError::Absolute(10.0)),
        "SELECT DISTINCT hourly_wage FROM nls.interviews",
    )
    .await
    .unwrap_err();
    assert!(
        sqlstate == "0A000" && message.contains("only group keys"),
        "{message}"
    );
    let listed = planned(
        &veil,
        with(TargetError::Absolute(10.0)),
        "SELECT DISTINCT race FROM nls.women",
    )
    .await
    .unwrap();
    assert_eq!(cost(&listed), 0.0);
}

/// Private rows are read under fixed settings: a text that would print differently in the session
/// is refused, others are not.
#[tokio::test(flavor = "multi_thread")]
async fn text_of_private_values_is_that_of_the_session() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let planned = async |name: &str, value: &str, text: &str| {
        let sql = format!("SELECT count(*) FROM nls.interviews WHERE {text} = '1'");
        let statements = parse(&sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query is wanted: {sql}")
        };
        let requester = pgveil::engine::Requester {
            settings: vec![(name.to_owned(), value.to_owned())],
            ..Veil::requester()
        };
        veil.engine
            .plan(&requester, query)
            .await
            .map(|_| ())
            .map_err(|e| e.report().sqlstate)
    };
    let refused = Err("0A000".to_owned());
    let date = "make_date(year::int, 1, 1)";
    for text in [
        format!("{date}::text"),
        format!("concat({date}, race)").replace(", race", ", year"),
        format!("('x' || {date})"),
    ] {
        assert_eq!(
            planned("DateStyle", "SQL, DMY", &text).await,
            refused,
            "{text}"
        );
        assert_eq!(
            planned("DateStyle", "ISO, DMY", &text).await,
            Ok(()),
            "{text}"
        );
    }
    for (name, value, text) in [
        ("extra_float_digits", "0", "hourly_wage::float8::text"),
        (
            "IntervalStyle",
            "iso_8601",
            "format('%s', make_date(year::int, 1, 1) - timestamp '2000-01-01')",
        ),
        ("TimeZone", "Europe/Berlin", "concat(to_timestamp(year))"),
        (
            "TimeZone",
            "Europe/Berlin",
            "to_char(CASE WHEN year > 70 THEN timestamptz '2000-01-01 00:00+00' ELSE \
                make_date(year::int, 1, 1) END, 'D')",
        ),
    ] {
        assert_eq!(planned(name, value, text).await, refused, "{name} {text}");
    }
    assert_eq!(
        planned("extra_float_digits", "3", "hourly_wage::float8::text").await,
        Ok(())
    );
    assert_eq!(
        planned("extra_float_digits", "0", "year::text").await,
        Ok(())
    );
}

/// Under sql_standard one sign before several numbers applies to all of them. No other style reads
/// it so.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_below_the_cut_are_read_in_the_sessions_style_or_refused() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let planned = async |style: &str, condition: &str| {
        let sql = format!(
            "SELECT count(*) FROM nls.interviews WHERE make_date(year::int, 1, 1) {condition}"
        );
        let statements = parse(&sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query is wanted: {sql}")
        };
        let requester = pgveil::engine::Requester {
            settings: vec![("IntervalStyle".to_owned(), style.to_owned())],
            ..Veil::requester()
        };
        veil.engine
            .plan(&requester, query)
            .await
            .map(|_| ())
            .map_err(|e| e.report().message)
    };
    let since = "- timestamp '2000-01-01'";
    let refused = Err(
        "an interval constant with one sign before several numbers is ambiguous under \
                IntervalStyle sql_standard"
            .to_owned(),
    );
    for condition in [
        format!("{since} > interval '-1 year 2 mons'"),
        format!("{since} > '@ -1 day 04:05:06'::interval"),
        format!("{since} > E'-1 year 2 mons'::interval"),
        format!("{since} > $$-1-2 3$$"),
        format!("{since} > interval '-1 2:03' day to second"),
        format!("{since} IN ('1 day', '-1 day 2 hours')"),
        format!("{since} = ANY ('{{-1 day 2 hours}}'::interval[])"),
        "::timestamp + '-1 day 2 hours' > '1990-01-01'".to_owned(),
    ] {
        assert_eq!(
            planned("sql_standard", &condition).await,
            refused,
            "{condition}"
        );
        for style in ["postgres", "postgres_verbose", "iso_8601"] {
            assert_eq!(
                planned(style, &condition).await,
                Ok(()),
                "{style} {condition}"
            );
        }
    }
    // Parameters are printed so, whatever the session's style.
    for text in [
        "-1 years -2 mons +3 days 04:05:06",
        "-1 day",
        "-1-2",
        "P-1Y2M",
        "1 day -2 hours",
    ] {
        assert_eq!(
            planned("sql_standard", &format!("{since} > E'{text}'::interval")).await,
            Ok(()),
            "{text}"
        );
    }
}

/// A list has one error for each aggregate. An aggregate with a larger error takes less of the
/// vector, so the whole costs less than the smallest error for all.
#[tokio::test(flavor = "multi_thread")]
async fn each_aggregate_may_have_its_own_wanted_error() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql =
        "SELECT sum(tenure_years), sum(hours_per_week), sum(weeks_worked) FROM nls.interviews";
    let plan = async |text: &str| {
        let mut session_settings = SessionSettings::with_fixed_clips();
        session_settings.set("pgveil.target_error", text).unwrap();
        planned(&veil, session_settings, sql).await.unwrap()
    };
    let cost = |plan: &Plan| plan.loss().mu_squared.to_f64();
    let same = plan("30000% of a row").await;
    let different = plan("30000% of a row, 300000 % of a row").await;
    let found = deviations(&different);
    assert!(
        found[0] <= 9000.0 && found[0] > 8900.0 && found[1] <= 300_000.0 && found[2] <= 312_000.0,
        "{found:?}"
    );
    // Compared with the first the two others weigh 1/10 each: 1.02 in place of 3.
    assert!(
        cost(&different) < cost(&same) * 0.36,
        "{} {}",
        cost(&different),
        cost(&same)
    );
    assert_eq!(
        cost(
            plan("30000% of a row, 30000% of a row, 30000% of a row")
                .await
                .as_ref()
        ),
        cost(same.as_ref())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn narrower_bounds_make_less_noise() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT industry_code, count(*) FROM nls.interviews GROUP BY industry_code";
    let noise = async |session_settings| {
        deviations(&planned(&veil, session_settings, sql).await.unwrap())[0]
    };
    let all = noise(SessionSettings::with_fixed_clips()).await;
    let groups = noise(SessionSettings {
        groups_per_unit: Some(2),
        ..SessionSettings::with_fixed_clips()
    })
    .await;
    let rows = noise(SessionSettings {
        rows_per_unit: Some(1),
        ..SessionSettings::with_fixed_clips()
    })
    .await;
    assert!(
        rows < groups && groups <= all && rows < all / 10.0,
        "{all} {groups} {rows}"
    );
    for session_settings in [
        SessionSettings {
            groups_per_unit: Some(1_000_000),
            ..SessionSettings::with_fixed_clips()
        },
        SessionSettings {
            rows_per_unit: Some(1_000_000),
            ..SessionSettings::with_fixed_clips()
        },
        Veil::session_settings(1.5),
    ] {
        assert_eq!(
            planned(&veil, session_settings, sql).await.unwrap_err().0,
            "22023",
            "{session_settings:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_become_known_as_the_session_says() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let listed = "SELECT race, count(*) FROM nls.women GROUP BY race";
    let unlisted =
        "SELECT age, hourly_wage, count(*) FROM nls.interviews GROUP BY age, hourly_wage";
    let with = |keys| SessionSettings {
        keys,
        ..SessionSettings::with_fixed_clips()
    };
    let delta = |plan: &Plan| plan.loss().delta.to_f64();
    assert_eq!(
        delta(&planned(&veil, with(KeyChoice::Auto), listed).await.unwrap()),
        0.0
    );
    assert_eq!(
        delta(
            &planned(&veil, with(KeyChoice::Domain), listed)
                .await
                .unwrap()
        ),
        0.0
    );
    assert!(
        delta(
            &planned(&veil, with(KeyChoice::Threshold), listed)
                .await
                .unwrap()
        ) > 0.0
    );
    assert!(
        delta(
            &planned(&veil, with(KeyChoice::Auto), unlisted)
                .await
                .unwrap()
        ) > 0.0
    );
    assert_eq!(
        planned(&veil, with(KeyChoice::Domain), unlisted)
            .await
            .unwrap_err()
            .0,
        "0A000"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moving_window_is_one_question_for_the_time_grain() {
    let sql = "SELECT count(*) FROM nls.interviews WHERE now() IS NOT NULL";
    let grained = Veil::demo(|yaml| format!("{yaml}\ntime_grain: 24h\n"), Veil::silent()).await;
    let free = Veil::demo(|yaml| yaml, None).await;
    let fingerprint = async |veil: &Veil| {
        planned(veil, SessionSettings::with_fixed_clips(), sql)
            .await
            .unwrap()
            .digest()
    };
    assert_ne!(fingerprint(&free).await, fingerprint(&free).await);
    let (before, after) = (fingerprint(&grained).await, fingerprint(&grained).await);
    // Midnight may come between two questions, not between four.
    assert!(before == after || fingerprint(&grained).await == fingerprint(&grained).await);
    let notices = grained.ask(sql).await.unwrap().notices;
    assert_eq!(
        notices.last().unwrap(),
        "now() is rounded down to a multiple of 24h in conditions on private rows"
    );
    let other = grained.ask("SELECT count(*) FROM nls.women").await.unwrap();
    assert!(
        other.notices.iter().all(|notice| !notice.contains("now()")),
        "{:?}",
        other.notices
    );
}
