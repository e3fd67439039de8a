//! Filters that exclude each other: a row moves one of them, and the noise is for one.

use pgveil::mechanism::Accounting;
use pgveil::rewrite::Coordinate;

use super::bound::unit_within;
use super::named::world;

/// The noise of the first coordinate, and whether all units of `people` are within the bound.
async fn priced(sql: &str, accounting: Accounting) -> (f64, Result<(), String>) {
    let world = world().await;
    let plan = world
        .plan_under(sql, accounting, 1.0)
        .unwrap_or_else(|refusal| panic!("{sql}\n{refusal}"));
    let release = &plan.releases()[0];
    assert!(
        release
            .coordinates()
            .iter()
            .all(|c| !matches!(c, Coordinate::Flags { .. }))
    );
    let price = release.price().unwrap();
    let text = release.sql().unwrap();
    let whole = world.run(text, release.vector_keys()).await.unwrap();
    let mut within = Ok(());
    for unit in 1..=30 {
        within = within.and(unit_within(&world, release, text, &whole, unit).await);
    }
    let drawn = price.calibrated[0];
    let deviation = drawn.noise.standard_deviation() / 2f64.powi(drawn.refine as i32);
    (deviation, within)
}

#[tokio::test(flavor = "multi_thread")]
async fn exclusive_filters_share_one_bound() {
    let counts = |filters: &[&str]| {
        let calls: Vec<String> = filters
            .iter()
            .map(|filter| format!("count(*) FILTER (WHERE {filter})"))
            .collect();
        format!("SELECT {} FROM people", calls.join(", "))
    };
    let pivot = counts(&["i4 = 1", "i4 = 2", "i4 IN (3, 4)", "i4 = 5 AND b"]);
    let one = counts(&["i4 = 1"]);
    let not = counts(&["b", "NOT b"]);
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        let (alone, within) = priced(&one, accounting).await;
        assert_eq!(within, Ok(()));
        for sql in [&pivot, &not] {
            let (together, within) = priced(sql, accounting).await;
            assert_eq!(within, Ok(()), "{sql}");
            assert!(
                (together / alone - 1.0).abs() < 1e-3,
                "{sql}: {together}, {alone}"
            );
        }
    }
    // Both may hold: the value 3 is in two of them, other columns are asked, NULL is no value, and
    // dates past the last that pgveil computes with are one.
    for filters in [
        &["i4 = 3", "i4 IN (3, 4)"][..],
        &["i4 = 3", "j4 = 4"],
        &["i4 = 3", "i4 > 3 OR i4 = 3"],
        &["i4 IS NULL", "i4 IS NOT NULL OR b"],
        &["dd IN ('9999-12-31')", "dd IN ('infinity')"],
        &["d = '2000-01-01'", "d = 'infinity'"],
    ] {
        let sql = counts(filters);
        let (alone, _) = priced(&one, Accounting::Gdp).await;
        let (together, within) = priced(&sql, Accounting::Gdp).await;
        assert_eq!(within, Ok(()), "{sql}");
        assert!(together / alone > 1.4, "{sql}: {together}, {alone}");
    }
}

/// With the number of all rows: two coordinates move, whatever the number of filters. Sums by
/// filter too.
#[tokio::test(flavor = "multi_thread")]
async fn a_pivot_of_sums_costs_as_one_group() {
    let sums = |filters: u32| {
        let calls: Vec<String> = (1..=filters)
            .map(|at| {
                format!("sum(n2) FILTER (WHERE i4 = {at}), count(*) FILTER (WHERE i4 = {at})")
            })
            .collect();
        format!("SELECT count(*), {} FROM people", calls.join(", "))
    };
    let (three, within) = priced(&sums(3), Accounting::Gdp).await;
    assert_eq!(within, Ok(()));
    let (nine, within) = priced(&sums(9), Accounting::Gdp).await;
    assert_eq!(within, Ok(()));
    assert!((nine / three - 1.0).abs() < 1e-3, "{nine}, {three}");
}

/// Sums by CASE are treated like sums by FILTER: the noise is the same, and for one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_pivot_by_case_costs_as_one_by_filter() {
    let pivot = |call: &dyn Fn(u32) -> String| {
        let calls: Vec<String> = (1..=5).map(call).collect();
        format!("SELECT {} FROM people", calls.join(", "))
    };
    let filtered = pivot(&|at| format!("sum(n2) FILTER (WHERE i4 = {at})"));
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        let (wanted, within) = priced(&filtered, accounting).await;
        assert_eq!(within, Ok(()));
        for otherwise in ["ELSE 0", "ELSE NULL", ""] {
            let cases = [
                pivot(&|at| format!("sum(CASE WHEN i4 = {at} THEN n2 {otherwise} END)")),
                pivot(&|at| format!("sum(CASE i4 WHEN {at} THEN n2 {otherwise} END)")),
                pivot(&|at| format!("sum(v{at})")).replace(
                    "FROM people",
                    &format!(
                        "FROM (SELECT {} FROM people) AS p",
                        (1..=5)
                            .map(|at| format!(
                                "CASE WHEN i4 = {at} THEN n2 {otherwise} END AS v{at}"
                            ))
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
                ),
            ];
            for sql in &cases {
                let (found, within) = priced(sql, accounting).await;
                assert_eq!(within, Ok(()), "{sql}");
                assert!(
                    (found / wanted - 1.0).abs() < 1e-3,
                    "{sql}: {found}, {wanted}"
                );
            }
        }
    }
    // Another number elsewhere, several conditions, or conditions that meet.
    for case in [
        &|at: u32| format!("sum(CASE WHEN i4 = {at} THEN n2 ELSE 1 END)"),
        &|at: u32| format!("sum(CASE WHEN i4 = {at} THEN n2 WHEN i4 = 9 THEN 0 ELSE 0 END)"),
        &|at: u32| format!("sum(CASE WHEN i4 >= {at} THEN n2 ELSE 0 END)"),
        &|at: u32| format!("sum(CASE WHEN j4 = {at} OR i4 = {at} THEN n2 ELSE 0 END)"),
    ] as [&dyn Fn(u32) -> String; 4]
    {
        let sql = pivot(case);
        let (wanted, _) = priced(&filtered, Accounting::Gdp).await;
        let (found, within) = priced(&sql, Accounting::Gdp).await;
        assert_eq!(within, Ok(()), "{sql}");
        assert!(found / wanted > 1.4, "{sql}: {found}, {wanted}");
    }
}
