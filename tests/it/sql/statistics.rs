//! Aggregates beyond sums over the demo data: without noise PostgreSQL's own answers, with noise
//! values of the right kind.

use pgveil::engine::Requester;
use pgveil::policy::ClipChoice;

use crate::fixture::{Veil, rows_of, streams};

/// No clip binds, and questions are cheap.
fn wide(yaml: String) -> String {
    yaml.replace(
        "hourly_wage: {bounds: [0, 30]}",
        "hourly_wage: {bounds: [0, 250]}",
    )
    .replace(
        "hours_per_week: {bounds: [0, 100]}",
        "hours_per_week: {bounds: [0, 168]}",
    )
    .replace(
        "budget: {epsilon: 3, delta: 1e-7, renew: never}",
        "budget: {epsilon: 8, delta: 1e-7, renew: never}",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_without_noise_equal_postgresql() {
    let veil = Veil::demo(|yaml| wide(Veil::precise(yaml)), Veil::silent()).await;
    let questions = [
        // NULL is in no set, and not outside of one either.
        "SELECT count(*) FROM nls.interviews WHERE (industry_code IN (SELECT industry_code FROM \
            nls.industries WHERE industry_code > 5)) IS FALSE",
        "SELECT count(*) FROM nls.interviews WHERE coalesce(industry_code IN (SELECT industry_code \
            FROM nls.industries WHERE industry_code > 5), true)",
        "SELECT count(*), count(CASE WHEN industry_code = ANY (SELECT industry_code FROM \
            nls.industries WHERE industry_code > 5) THEN 1 END) FROM nls.interviews",
        // Pivots by CASE, also of values that no row has.
        "SELECT sum(CASE WHEN year = 1968 THEN hourly_wage ELSE 0 END), sum(CASE year WHEN 1970 \
            THEN hourly_wage END), count(CASE WHEN year = 1988 THEN hourly_wage END), \
            round(avg(CASE WHEN year = 1978 THEN hours_per_week ELSE NULL END), 4), sum(CASE WHEN \
            year = 1971 AND age > 45 THEN 1 ELSE 0.0 END), round(stddev(CASE WHEN year = 1973 \
            THEN age END), 4), count(*) FROM nls.interviews",
        "SELECT south, sum(CASE WHEN married = 1 THEN 1 ELSE 0 END), sum(CASE WHEN married = 0 \
            THEN tenure_years ELSE 0 END) FILTER (WHERE metro = 1), sum(CASE WHEN married = 7 \
            THEN age ELSE 0 END) FROM nls.interviews WHERE south >= 0 GROUP BY 1 HAVING count(*) \
            > 0 ORDER BY 1",
        // Squares past eight bytes.
        "SELECT round(stddev_pop(years_of_school * 100000000.0), -3), round(corr(years_of_school * \
            100000000.0, birth_year * 1000000.0)::numeric, 6) FROM nls.women",
        "SELECT race, round(stddev_samp(years_of_school), 6), round(var_pop(years_of_school), 6), \
            count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT round(corr(hourly_wage, hours_per_week)::numeric, 4), regr_count(hourly_wage, \
            hours_per_week) FROM nls.interviews",
        "SELECT round(regr_slope(hourly_wage, tenure_years)::numeric, 4), \
            round(regr_intercept(hourly_wage, tenure_years)::numeric, 4) FROM nls.interviews",
        "SELECT count(DISTINCT industry_code), count(DISTINCT (industry_code, union_member)) FROM \
            nls.interviews",
        "SELECT race, percentile_disc(0.5) WITHIN GROUP (ORDER BY years_of_school), mode() WITHIN \
            GROUP (ORDER BY college_graduate) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY hourly_wage), \
            percentile_disc(0.1) WITHIN GROUP (ORDER BY weeks_worked) FROM nls.interviews",
        "SELECT percentile_disc(ARRAY[0.25, 0.75]::float8[]) WITHIN GROUP (ORDER BY hourly_wage), \
            percentile_disc('{0.1,0.5}'::double precision[]) WITHIN GROUP (ORDER BY weeks_worked) \
            FROM nls.interviews",
        "SELECT percentile_disc(ARRAY[0.1, 0.25, 0.5, 0.75, 0.9]) WITHIN GROUP (ORDER BY \
            years_of_school), percentile_disc(0.3) WITHIN GROUP (ORDER BY years_of_school) FROM \
            nls.women",
        "SELECT coalesce(race, 'all'), grouping(race), count(*), round(avg(years_of_school), 6) \
            FROM nls.women GROUP BY ROLLUP (race) ORDER BY 2, 1",
        "SELECT race, college_graduate, count(*) FROM nls.women GROUP BY GROUPING SETS ((race), \
            (college_graduate), ()) HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT year, sum(hours_per_week) FROM nls.interviews GROUP BY CUBE (year) ORDER BY year",
        "SELECT bool_and(birth_year > 1954), bool_or(birth_year > 1940), every(birth_year > 1900) \
            FROM nls.women",
    ];
    veil.answers_as_postgresql(
        &Requester {
            session_settings: Veil::session_settings(5000.0),
            ..Veil::requester()
        },
        &questions,
    )
    .await;
}

/// Aggregates that PostgreSQL lacks equal their definitions, and the column has the call's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_geometric_mean_is_what_it_stands_for() {
    let veil = Veil::demo(|yaml| wide(Veil::precise(yaml)), Veil::silent()).await;
    let requester = Requester {
        session_settings: Veil::session_settings(5000.0),
        ..Veil::requester()
    };
    for (asked, meant) in [
        (
            "SELECT race, round(pgveil.geomean(greatest(hourly_wage, 1))::numeric, 4), \
                count(*) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race \
                ORDER BY race",
            "SELECT race, round(exp(avg(ln(greatest(hourly_wage, 1))))::numeric, 4), count(*) \
                FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race ORDER BY race",
        ),
        (
            "SELECT geomean > 5, pgveil_is FROM (SELECT pgveil.geomean(age + 1) FILTER (WHERE \
                year > 1980)::numeric, true AS pgveil_is FROM nls.interviews) g",
            "SELECT exp(avg(ln(age + 1)) FILTER (WHERE year > 1980))::numeric > 5, true FROM \
                nls.interviews",
        ),
    ] {
        let answered = veil
            .rows_as(&requester, asked)
            .await
            .unwrap_or_else(|e| panic!("{asked}: {e} {:?}", e.report()));
        assert_eq!(answered, veil.direct(meant).await, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_values_lie_within_their_bounds() {
    // The same noise in each run: a sum of squares below zero, once in a million, has no deviation.
    let veil = Veil::demo(|yaml| yaml, Some(streams())).await;
    let sql = "SELECT min(birth_year), max(birth_year), percentile_cont(0.5) WITHIN GROUP (ORDER \
        BY \
        birth_year), stddev_pop(birth_year), \
               corr(birth_year, years_of_school), count(DISTINCT birth_year) FROM nls.women";
    for _ in 0..3 {
        let rows = veil.rows_as(&Veil::requester(), sql).await.unwrap();
        let values: Vec<f64> = rows[0].split('|').map(|v| v.parse().unwrap()).collect();
        let [least, greatest, median, deviation, correlation, distinct] = values.as_slice() else {
            panic!("{rows:?}")
        };
        for year in [least, greatest, median] {
            assert!((1941.0..=1954.0).contains(year), "{rows:?}");
        }
        assert!(
            (0.0..=6.5).contains(deviation)
                && (-1.0..=1.0).contains(correlation)
                && *distinct >= 0.0,
            "{rows:?}"
        );
    }
    assert!(veil.spent().await > 0.0);
}

/// A part and the vector share the statement's epsilon.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_costs_no_more_than_the_statement_may() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let loss = async |sql: &str| {
        let before = veil.spent().await;
        veil.ask(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        veil.spent().await - before
    };
    let one = loss("SELECT count(*) FROM nls.women").await;
    for sql in [
        "SELECT count(*), count(DISTINCT race), max(birth_year) FROM nls.women",
        "SELECT percentile_disc(ARRAY[0.1, 0.5, 0.9]) WITHIN GROUP (ORDER BY birth_year) FROM \
            nls.women",
        "SELECT mode() WITHIN GROUP (ORDER BY race) FROM nls.women GROUP BY ROLLUP \
            (college_graduate)",
        "SELECT percentile_cont(ARRAY[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]) WITHIN GROUP \
            (ORDER BY birth_year), min(birth_year) FROM nls.women GROUP BY race",
    ] {
        let spent = loss(sql).await;
        assert!(
            spent <= one * 1.000_001 && spent > one * 0.5,
            "{sql}: {spent}, a count {one}"
        );
    }
}

/// Grouping sets with separate noise and those that share effects are two answers, of one loss
/// and of other errors.
#[tokio::test(flavor = "multi_thread")]
async fn grouping_sets_by_effects_and_apart_are_two_answers() {
    let veil = Veil::demo(wide, Veil::silent()).await;
    let cube = "SELECT race, college_graduate, count(*) FROM nls.women \
                GROUP BY CUBE (race, college_graduate) ORDER BY 1, 2";
    let finest = "SELECT race, college_graduate, count(*) FROM nls.women GROUP BY 1, 2";
    let older = cube.replace(" GROUP", " WHERE birth_year < 1950 GROUP");
    let fixed = Veil::requester();
    let mut shared = Veil::requester();
    shared.session_settings.clip = ClipChoice::Auto;
    let debits = async || {
        let history = veil.engine.ledger().history("analyst", 100);
        history.await.unwrap().len()
    };
    for (requester, sql, wanted) in [
        (&shared, cube, 1),
        // Sums of its groups would not be independent of each other.
        (&fixed, finest, 2),
        (&shared, &older, 3),
        (&fixed, &older, 4),
        (&shared, &older, 4),
        (&fixed, &older, 4),
    ] {
        rows_of(&veil.engine, requester, sql).await.unwrap();
        assert_eq!(debits().await, wanted, "{sql}");
    }
}
