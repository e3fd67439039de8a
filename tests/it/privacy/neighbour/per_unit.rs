//! Random steps within one unit: derived tables that group, deduplicate or rank a person's rows,
//! over each other.

use super::grammar::Grammar;
use super::random::Random;

/// The text of a derived table over visits that shows `person` and every data column, made by
/// `depth` steps and one more.
pub fn step(random: &mut Random, depth: usize) -> String {
    let base = if depth == 0 {
        random
            .pick(&[
                "visits x",
                "visits x",
                "(SELECT * FROM visits WHERE i4 > 1) x",
                "visits x LEFT JOIN towns t ON t.code = x.town",
            ])
            .to_owned()
    } else {
        format!("({}) x", step(random, depth - 1))
    };
    let mut grammar = Grammar {
        random,
        aliases: vec!["x"],
    };
    let condition = if grammar.random.once_in(3) {
        format!(" WHERE {}", grammar.condition(1))
    } else {
        String::new()
    };
    match grammar.random.below(13) {
        5 | 6 => format!(
            "SELECT x.person, {} FROM {base}{condition} WINDOW w AS (PARTITION BY x.person ORDER \
                BY \
                x.ni), v AS (w ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)",
            list(framed)
        ),
        1 => format!(
            "SELECT DISTINCT ON (x.person, x.kd) x.person, {} FROM {base}{condition} ORDER BY \
                x.person, x.kd, x.i4 DESC, x.nn",
            list(|name| format!("x.{name}"))
        ),
        2 => {
            let arm = list(|name| {
                if name == "vc" {
                    "y.vc::text".to_owned()
                } else {
                    format!("y.{name}")
                }
            });
            format!(
                "SELECT x.person, {} FROM {base}{condition} UNION ALL SELECT y.id, {arm} FROM \
                    people y",
                list(|name| if name == "vc" {
                    "x.vc::text".to_owned()
                } else {
                    format!("x.{name}")
                })
            )
        }
        3 | 4 => format!("SELECT x.person, {} FROM {base}{condition}", list(windowed)),
        0 => format!(
            "SELECT DISTINCT x.person, {} FROM {base}{condition}",
            list(|name| format!("x.{name}"))
        ),
        _ => grouped(&mut grammar, &base, &condition),
    }
}

/// A column computed of the other rows of the person.
fn windowed(name: &str) -> String {
    match name {
        "i4" => "(row_number() OVER (PARTITION BY x.person ORDER BY x.i4))::int".to_owned(),
        "j4" => {
            "(dense_rank() OVER (PARTITION BY x.person, x.b ORDER BY x.g8 DESC))::int".to_owned()
        }
        "s2" => "(rank() OVER (PARTITION BY x.person ORDER BY x.tx))::smallint".to_owned(),
        "nn" => "lag(x.nn) OVER (PARTITION BY x.person ORDER BY x.d NULLS FIRST)".to_owned(),
        "n2" => "sum(x.n2) OVER (PARTITION BY x.person, x.kd)".to_owned(),
        "nb" => "avg(x.nb) OVER (PARTITION BY x.person ORDER BY x.ni)".to_owned(),
        "f8" => {
            "sum(x.f8) FILTER (WHERE x.b) OVER (PARTITION BY x.person ORDER BY x.dd)".to_owned()
        }
        "g8" => "first_value(x.g8) OVER (PARTITION BY x.person, x.ni ORDER BY x.nn)".to_owned(),
        "tx" => "lead(x.tx, 2) OVER (PARTITION BY x.person ORDER BY x.ts DESC)".to_owned(),
        "dd" => "max(x.dd) OVER (PARTITION BY x.person)".to_owned(),
        "ni" => "ntile(3) OVER (PARTITION BY x.person ORDER BY x.f4)".to_owned(),
        "b" => "count(*) OVER (PARTITION BY x.person) > 1".to_owned(),
        other => format!("x.{other}"),
    }
}

/// A column computed of some rows around.
fn framed(name: &str) -> String {
    match name {
        "i4" => "(count(*) OVER (PARTITION BY x.person ORDER BY x.i4 ROWS BETWEEN 2 PRECEDING AND \
            1 \
            FOLLOWING))::int"
            .to_owned(),
        "n2" => "sum(x.n2) OVER (PARTITION BY x.person ORDER BY x.d ROWS 3 PRECEDING)".to_owned(),
        "nn" => "avg(x.nn) OVER (PARTITION BY x.person ORDER BY x.nn RANGE BETWEEN 2.5 PRECEDING \
            AND 1 FOLLOWING)"
            .to_owned(),
        "nb" => "sum(x.nb) OVER (PARTITION BY x.person ORDER BY x.ts RANGE BETWEEN INTERVAL '3 \
            days' PRECEDING AND CURRENT ROW)"
            .to_owned(),
        "f8" => "percent_rank() OVER (PARTITION BY x.person ORDER BY x.tx)".to_owned(),
        "g8" => "last_value(x.g8) OVER (PARTITION BY x.person ORDER BY x.kd)".to_owned(),
        "tx" => "nth_value(x.tx, 2) OVER (PARTITION BY x.person ORDER BY x.b)".to_owned(),
        "vc" => "nth_value(x.vc, 3) OVER v".to_owned(),
        "dd" => "last_value(x.dd) OVER v".to_owned(),
        "tt" => "min(x.tt) OVER (PARTITION BY x.person ORDER BY x.dd RANGE BETWEEN INTERVAL '1 \
            month' PRECEDING AND INTERVAL '10 days' FOLLOWING)"
            .to_owned(),
        "j4" => "(count(x.b) OVER (PARTITION BY x.person ORDER BY x.j4 GROUPS BETWEEN 1 PRECEDING \
            AND 1 FOLLOWING))::int"
            .to_owned(),
        "s2" => "(cume_dist() OVER w * 100)::smallint".to_owned(),
        "ni" => {
            "min(x.ni) OVER (PARTITION BY x.person ORDER BY x.j8 RANGE BETWEEN 5 PRECEDING AND \
            1000 FOLLOWING)"
                .to_owned()
        }
        "i8" => "count(*) FILTER (WHERE x.i8 > 0) OVER (PARTITION BY x.person ORDER BY x.g8 DESC \
            RANGE BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING)"
            .to_owned(),
        "j8" => "first_value(x.j8) OVER (w ROWS 1 PRECEDING)".to_owned(),
        "f4" => "corr(x.f8, x.n2) OVER (PARTITION BY x.person ORDER BY x.tz ROWS 4 \
            PRECEDING)::real"
            .to_owned(),
        other => format!("x.{other}"),
    }
}

const NAMES: [&str; 20] = [
    "s2", "i4", "j4", "i8", "j8", "n2", "nn", "nb", "f8", "g8", "f4", "b", "tx", "vc", "kd", "d",
    "dd", "ts", "tt", "ni",
];

fn list(of: impl Fn(&str) -> String) -> String {
    NAMES
        .iter()
        .map(|name| format!("{} AS {name}", of(name)))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Aggregates that read the whole set of a group's values.
fn statistic(name: &str, variant: usize, filter: &str) -> Option<String> {
    Some(match (name, variant) {
        ("f8", 6) => format!("corr(x.f8, x.n2){filter}"),
        ("f8", 7) => "regr_slope(x.n2, x.f8)".to_owned(),
        ("f8", 8) => format!("covar_samp(x.nn, x.i4){filter}"),
        ("g8", 6) => format!("percentile_cont(0.3) WITHIN GROUP (ORDER BY x.f8 DESC){filter}"),
        ("g8", 7) => "regr_r2(x.g8, x.nn)".to_owned(),
        ("g8", 8) => "regr_intercept(x.f8, x.j4)".to_owned(),
        ("f4", 6) => "regr_sxx(x.nn, x.g8)::real".to_owned(),
        ("f4", 7) => "regr_avgy(x.nn, x.g8)::real".to_owned(),
        ("nn", 6) => format!("percentile_disc(0.5) WITHIN GROUP (ORDER BY x.nn){filter}"),
        ("nn", 7) => "mode() WITHIN GROUP (ORDER BY x.nn DESC)".to_owned(),
        ("nn", 8) => "sum(DISTINCT x.nn)".to_owned(),
        ("nb", 6) => format!("avg(DISTINCT x.nn){filter}"),
        ("n2", 7) => "sum(DISTINCT x.g8)".to_owned(),
        ("tx", 6) => "percentile_disc(0.5) WITHIN GROUP (ORDER BY x.tx DESC)".to_owned(),
        ("tx", 7) => "mode() WITHIN GROUP (ORDER BY x.tx)".to_owned(),
        ("dd", 6) => "percentile_disc(0.9) WITHIN GROUP (ORDER BY x.dd)".to_owned(),
        ("i8", 7) => "mode() WITHIN GROUP (ORDER BY x.i8)".to_owned(),
        ("j8", 7) => "regr_count(x.f8, x.i8)".to_owned(),
        ("b", 8) => "percentile_disc(0.5) WITHIN GROUP (ORDER BY x.b)".to_owned(),
        _ => return None,
    })
}

fn grouped(grammar: &mut Grammar<'_>, base: &str, condition: &str) -> String {
    let keys: Vec<&str> = (0..grammar.random.below(3))
        .map(|_| {
            grammar
                .random
                .pick(&["kd", "b", "i4", "tx", "nn", "g8", "d", "tt", "f4"])
        })
        .collect();
    let filter = if grammar.random.once_in(3) {
        format!(" FILTER (WHERE {})", grammar.condition(1))
    } else {
        String::new()
    };
    let (i, n, f) = (grammar.integer(1), grammar.numeric(1), grammar.float(1));
    let having = match grammar.random.below(4) {
        0 => " HAVING count(*) > 1".to_owned(),
        1 => format!(" HAVING sum(x.ni) <> {}", grammar.random.below(3)),
        _ => String::new(),
    };
    let variant = grammar.random.below(9);
    let made = |name: &str| {
        if keys.contains(&name) {
            return format!("x.{name}");
        }
        match name {
            _ if variant > 5 && statistic(name, variant, &filter).is_some() => {
                statistic(name, variant, &filter).unwrap_or_default()
            }
            "tx" if variant < 3 => "max(x.tx)".to_owned(),
            "dd" if variant < 2 => "min(x.dd)".to_owned(),
            "tt" if variant < 2 => "max(x.tt)".to_owned(),
            "nn" if variant % 3 == 1 => "min(x.nn)".to_owned(),
            "g8" if variant % 3 == 1 => "max(x.g8)".to_owned(),
            "f8" if variant % 3 == 2 => "stddev_samp(x.f8)".to_owned(),
            "nb" if variant % 3 == 2 => format!("variance({n})"),
            "b" if variant % 3 == 2 => "bool_and(x.b)".to_owned(),
            "i8" if variant % 3 == 2 => format!("max({i}){filter}"),
            "j8" if variant % 3 == 2 => "count(DISTINCT (x.tx, x.nn))".to_owned(),
            "s2" => "count(x.d)::smallint".to_owned(),
            "i4" => format!("(count(*){filter})::int"),
            "j4" => format!("sum({i}){filter}::int"),
            "i8" => format!("count({f}){filter}"),
            "j8" => "sum(x.j4)".to_owned(),
            "n2" => format!("sum({n})"),
            "nn" => format!("avg({n}){filter}"),
            "nb" => "sum(x.nb) / count(*)".to_owned(),
            "f8" => format!("sum({f}){filter}"),
            "g8" => format!("avg({f})"),
            "f4" => "avg(x.f4)".to_owned(),
            "b" => "count(DISTINCT x.tx) > 1".to_owned(),
            "tx" | "vc" => format!("count(DISTINCT x.{name})::text"),
            "kd" => "CASE WHEN count(*) > 2 THEN 'a' WHEN count(x.b) > 0 THEN 'b' END".to_owned(),
            "d" | "dd" => {
                "CASE WHEN count(x.dd) > 0 THEN date '2000-05-05' + count(*)::int END".to_owned()
            }
            "ts" | "tt" => {
                "CASE WHEN count(x.ts) > 1 THEN timestamp '2000-02-02 01:02:03' END".to_owned()
            }
            _ => format!(
                "(count(DISTINCT x.{}) - 2)::int",
                ["nn", "g8", "f4", "dd"][name.len() % 4]
            ),
        }
    };
    let keyed: String = keys.iter().map(|key| format!(", x.{key}")).collect();
    format!(
        "SELECT x.person, {} FROM {base}{condition} GROUP BY x.person{keyed}{having}",
        list(made)
    )
}
