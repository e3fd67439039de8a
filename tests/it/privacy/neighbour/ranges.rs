//! The range that each expression is clipped to: from bounds, conditions and the expression itself.

use pgveil::aggregates::Foreseen;
use pgveil::mechanism::Accounting;

use super::world::World;

const UNKNOWN: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// (expression, condition, range) over visits; [`super::world`] has its bounds.
const RANGES: &[(&str, &str, (f64, f64))] = &[
    // Bounds, types, constants.
    ("i4", "true", (0.0, 50.0)),
    ("j4", "true", UNKNOWN),
    ("nb", "true", (-5.5, 7.25)),
    ("7", "true", (7.0, 7.0)),
    ("b::int", "true", (0.0, 1.0)),
    // Conditions.
    ("j4", "j4 BETWEEN 2 AND 9", (2.0, 9.0)),
    ("j4", "j4 BETWEEN SYMMETRIC 9 AND 2", (2.0, 9.0)),
    ("j4", "j4 >= 2 AND j4 < 9", (2.0, 9.0)),
    ("j4", "9 > j4 AND 2 <= j4", (2.0, 9.0)),
    ("j4", "j4 = 4", (4.0, 4.0)),
    ("j4", "j4 IS NOT DISTINCT FROM 4", (4.0, 4.0)),
    ("j4", "j4 IN (1, 5, 3)", (1.0, 5.0)),
    ("j4", "j4 = ANY (ARRAY[1, 5, 3])", (1.0, 5.0)),
    (
        "j4",
        "j4 BETWEEN 0 AND 4 OR j4 BETWEEN 10 AND 12",
        (0.0, 12.0),
    ),
    ("j4", "NOT (j4 < 0 OR j4 > 10)", (0.0, 10.0)),
    ("j4", "(j4 BETWEEN 0 AND 10) IS TRUE", (0.0, 10.0)),
    ("i4", "i4 <= 20", (0.0, 20.0)),
    ("i4", "i4 <> 3", (0.0, 50.0)),
    ("j4", "j4 BETWEEN 2 * 5 AND 10 + 30", (10.0, 40.0)),
    ("j4", "j4 > 0 AND j4 < i4", (0.0, 50.0)),
    ("j8", "j8 BETWEEN ni AND 100 - i4", (-3.0, 100.0)),
    ("nn", "nn BETWEEN 0 AND 1.5", (0.0, 1.5)),
    ("j4::numeric", "j4 BETWEEN 1 AND 3", (1.0, 3.0)),
    ("j4 * 2", "j4 * 2 BETWEEN 0 AND 10", (0.0, 10.0)),
    ("j4", "j4 * 2 BETWEEN 0 AND 10", UNKNOWN),
    ("j4", "tx = 'a'", UNKNOWN),
    // Inline clamps and CASE.
    ("least(greatest(j4, 0), 100)", "true", (0.0, 100.0)),
    ("greatest(least(nn, 1.5), -1.5)", "true", (-1.5, 1.5)),
    ("least(i4, 10)", "true", (0.0, 10.0)),
    (
        "CASE WHEN j4 > 60 THEN 60 WHEN j4 < 0 THEN 0 ELSE j4 END",
        "true",
        (0.0, 60.0),
    ),
    (
        "CASE WHEN j4 BETWEEN 1 AND 5 THEN j4 END",
        "true",
        (1.0, 5.0),
    ),
    ("CASE WHEN b THEN i4 ELSE 0 END", "true", (0.0, 50.0)),
    (
        "CASE kd WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 9 END",
        "true",
        (1.0, 9.0),
    ),
    ("coalesce(i4, -1)", "true", (-1.0, 50.0)),
    ("nullif(i4, 3)", "true", (0.0, 50.0)),
    // Arithmetic.
    ("i4 + ni", "true", (-3.0, 53.0)),
    ("i4 - 10", "true", (-10.0, 40.0)),
    ("- i4", "true", (-50.0, 0.0)),
    ("abs(ni)", "true", (0.0, 3.0)),
    ("i4 * ni", "true", (-150.0, 150.0)),
    ("i4 / 10", "true", (0.0, 5.0)),
    ("i4 % 10", "true", (0.0, 9.0)),
    ("j4 % 10", "true", (-9.0, 9.0)),
    ("100 / i4", "true", (-100.0, 100.0)),
    ("n2 / 4", "true", (0.0, 24.9975)),
    ("power(ni, 2)", "true", (0.0, 9.0)),
    ("sqrt(i4)", "true", (0.0, 7.0710678118654755)),
    ("round(n2, 1)", "true", (0.0, 100.0)),
    ("round(n2, -1)", "true", (0.0, 100.0)),
    ("floor(nb)", "true", (-6.0, 7.0)),
    ("sign(nn)", "true", (-1.0, 1.0)),
    ("sin(g8)", "true", (-1.0, 1.0)),
    ("gcd(i4, 12)", "true", (0.0, 50.0)),
    ("width_bucket(nn, 0, 10, 5)", "true", (0.0, 6.0)),
    ("width_bucket(nn, ARRAY[1, 2, 3])", "true", (0.0, 3.0)),
    ("num_nulls(tx, nn)", "true", (0.0, 2.0)),
    ("j4 & 7", "true", (0.0, 7.0)),
    // Casts.
    ("nn::int", "nn BETWEEN 0.4 AND 9.6", (0.0, 10.0)),
    ("i4::float8", "true", (0.0, 50.0)),
    ("s2", "true", UNKNOWN),
    ("nn::numeric(3,1)", "true", UNKNOWN),
    // Dates.
    ("extract(month FROM dd)", "true", (1.0, 12.0)),
    ("extract(year FROM d)", "true", (2000.0, 2001.0)),
    (
        "extract(year FROM dd)",
        "dd BETWEEN '2010-03-01' AND '2012-02-01'",
        (2010.0, 2012.0),
    ),
    (
        "extract(year FROM date_trunc('month', ts))",
        "true",
        (1999.0, 2000.0),
    ),
    ("date_part('hour', tt)", "true", (0.0, 23.0)),
    ("extract(dow FROM tt)", "true", (0.0, 6.0)),
    ("d - date '2000-01-01'", "true", (0.0, 730.0)),
    (
        "extract(epoch FROM (ts - timestamp '2000-01-01'))",
        "true",
        (0.0, 7_776_000.0),
    ),
    // Texts.
    ("length(vc)", "true", (0.0, 10.0)),
    ("length(kd)", "true", (0.0, 4.0)),
    ("length(left(tx, 3))", "true", (0.0, 3.0)),
    ("length(tx)", "true", (0.0, 4096.0)),
    ("position('a' in tx)", "true", (0.0, 4097.0)),
];

#[tokio::test(flavor = "multi_thread")]
async fn ranges_are_as_narrow_as_is_known() {
    let world = World::new().await;
    let mut wrong = Vec::new();
    for (expression, condition, wanted) in RANGES {
        let sql = format!("SELECT avg({expression}) FROM visits WHERE {condition}");
        let found = match world.plan_under(&sql, Accounting::Gdp, 1.0) {
            Ok(plan) => match plan.releases()[0].outputs()[0].0.foreseen() {
                Foreseen::OverRows { range, .. } => (range.lo, range.hi),
                other => panic!("{sql}: {other:?}"),
            },
            Err(refusal) if refusal.contains("range is not known") => UNKNOWN,
            Err(refusal) => panic!("{sql}\n{refusal}"),
        };
        let near = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        if !near(found.0, wanted.0) || !near(found.1, wanted.1) {
            wrong.push(format!(
                "{expression} WHERE {condition}: {found:?} and not {wanted:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
