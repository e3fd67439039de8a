//! Without noise, and with data inside every bound, the answers are PostgreSQL's own.

use std::collections::HashMap;

use pgveil::analyze::KeyRule;
use pgveil::calendar::days_from_civil;
use pgveil::engine::{Engine, Format, Requester, Service};
use pgveil::parse::{Statement, parse};
use tokio_postgres::SimpleQueryMessage;
use tokio_util::sync::CancellationToken;

use super::grammar::{Grammar, sets};
use super::proxy::{Proxy, requester};
use super::random::{Random, seeds};
use super::subqueries::membership;
use super::total::tame;
use super::world::World;

pub type Rows = Vec<Vec<Option<String>>>;

async fn asked(engine: &Engine, sql: &str) -> Result<Rows, String> {
    asked_by(engine, &requester(), sql).await
}

/// The answer in a session.
pub async fn asked_by(engine: &Engine, requester: &Requester, sql: &str) -> Result<Rows, String> {
    let statements = parse(sql).map_err(|e| format!("{e:?}"))?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return Err("not a query".to_owned());
    };
    let answer = engine
        .answer(
            requester,
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await
        .map_err(|e| format!("{e:?}"))?;
    let text =
        |v: &Option<bytes::Bytes>| v.as_ref().map(|b| String::from_utf8_lossy(b).into_owned());
    Ok(answer
        .rows
        .iter()
        .map(|row| row.iter().map(text).collect())
        .collect())
}

/// Groups of few units are not shown then.
async fn is_thresholded(engine: &Engine, sql: &str) -> bool {
    let Ok(statements) = parse(sql) else {
        return false;
    };
    let [Statement::Query(query)] = statements.as_slice() else {
        return false;
    };
    let Ok((plan, _)) = engine.plan(&requester(), query).await else {
        return false;
    };
    plan.releases()
        .iter()
        .flat_map(|r| r.keys())
        .any(|(_, rule)| *rule == KeyRule::Threshold)
}

/// PostgreSQL's answer, where ours shows every group of it.
async fn shown_whole(engine: &Engine, world: &World, sql: &str) -> Option<Rows> {
    if is_thresholded(engine, sql).await {
        None
    } else {
        plain(world, sql).await
    }
}

/// PostgreSQL's own answer.
pub async fn plain(world: &World, sql: &str) -> Option<Rows> {
    let messages = world
        .client
        .simple_query(&format!("SET search_path = w, pg_catalog; {sql}"))
        .await
        .ok()?;
    let rows = messages.iter().filter_map(|m| match m {
        SimpleQueryMessage::Row(row) => Some(
            (0..row.len())
                .map(|i| row.get(i).map(str::to_owned))
                .collect(),
        ),
        _ => None,
    });
    Some(rows.collect())
}

/// The columns that random expressions name, of each person's rows.
const PER_PERSON: &str = "(SELECT person, (count(*))::smallint AS s2, sum(i4)::int AS i4, \
    count(tx)::int AS j4, sum(ni) AS i8, sum(j4) AS j8, sum(n2) AS n2, avg(nn) AS nn, \
     avg(nb) AS nb, sum(f8) AS f8, avg(g8) AS g8, count(*) > 1 AS b, (count(*))::text AS tx, \
     (sum(ni))::text AS vc, \
     CASE WHEN count(DISTINCT kd) > 1 THEN 'a' ELSE 'b' END AS kd, date '2000-03-01' + \
     (count(*))::int AS d, date '2000-03-04' AS dd, \
     timestamp '2000-03-01 10:00:00' AS ts, timestamp '2000-03-01 10:00:00' AS tt, (count(DISTINCT \
     ni))::int AS ni FROM visits GROUP BY person) v";
const PER_PERSON_AND_KIND: &str = "(SELECT x.person, x.kd, x.b, x.ni, sum(x.s2)::smallint AS s2, \
    (count(*))::int AS i4, (count(*) FILTER (WHERE x.b))::int AS j4, sum(x.i4) AS i8, \
     count(DISTINCT x.tx) AS j8, avg(x.n2) AS n2, sum(x.nn) AS nn, sum(x.nb) AS nb, avg(x.f8) AS \
     f8, sum(x.g8) FILTER (WHERE x.ni > 0) AS g8, \
     upper(x.kd) AS tx, 'z' AS vc, date '2000-03-01' + (sum(x.ni))::int AS d, date '2000-03-04' AS \
     dd, timestamp '2000-03-01 10:00:00' AS ts, \
     timestamp '2000-03-01 10:00:00' AS tt FROM (SELECT DISTINCT person, kd, b, ni, s2, i4, tx, \
     n2, \
     nn, nb, f8, g8 FROM visits WHERE i4 > 1) x GROUP BY x.person, x.kd, x.b, x.ni HAVING count(*) \
     < 4) v";

const RANKED: &str = "(SELECT x.person, x.kd, x.b, (row_number() OVER (PARTITION BY x.person ORDER \
    BY x.id))::int AS ni, x.s2, x.j4, x.i4, x.i4 AS i8, \
     (rank() OVER (PARTITION BY x.person ORDER BY x.i4)) AS j8, sum(x.n2) OVER (PARTITION BY \
     x.person) AS n2, lag(x.nn) OVER (PARTITION BY x.person ORDER BY x.id) AS nn, \
     x.nb, sum(x.f8) OVER (PARTITION BY x.person ORDER BY x.id) AS f8, first_value(x.g8) OVER \
     (PARTITION BY x.person ORDER BY x.id DESC) AS g8, x.tx, x.vc, \
     lead(x.d, 1) OVER (PARTITION BY x.person ORDER BY x.id) AS d, x.dd, x.ts, x.tt FROM visits x) \
     v";
const FIRST_AND_ALL: &str = "(SELECT * FROM (SELECT DISTINCT ON (x.person) x.* FROM visits x ORDER \
    BY x.person, x.id DESC) w UNION ALL SELECT * FROM visits z WHERE z.i4 > 2) v";

const FRAMED: &str = "(SELECT x.person, x.kd, x.b, (count(*) OVER (w ROWS 2 PRECEDING))::int AS \
    ni, \
    x.s2, (min(x.j4) OVER (w ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING))::int AS j4, x.i4, \
     sum(x.i4) OVER (PARTITION BY x.person ORDER BY x.i4 RANGE BETWEEN 3 PRECEDING AND CURRENT \
     ROW) \
     AS i8, count(*) OVER (PARTITION BY x.person ORDER BY x.ni GROUPS 1 PRECEDING) AS j8, \
     last_value(x.n2) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS n2, \
     nth_value(x.nn, 2) OVER w AS nn, last_value(x.nb) OVER w AS nb, \
     percent_rank() OVER (PARTITION BY x.person ORDER BY x.i4) AS f8, cume_dist() OVER (PARTITION \
     BY x.person ORDER BY x.i4) AS g8, x.tx, x.vc, \
     max(x.d) OVER (PARTITION BY x.person ORDER BY x.d RANGE '10 days' PRECEDING) AS d, x.dd, \
     x.ts, \
     x.tt FROM visits x WINDOW w AS (PARTITION BY x.person ORDER BY x.id)) v";
const STATISTICS: &str = "(SELECT person, (count(*))::smallint AS s2, (percentile_disc(0.5) WITHIN \
    GROUP (ORDER BY i4))::int AS i4, (mode() WITHIN GROUP (ORDER BY ni DESC))::int AS j4, \
     sum(DISTINCT ni) AS i8, regr_count(f8, n2) AS j8, percentile_disc(0.25) WITHIN GROUP (ORDER \
     BY \
     n2 DESC) AS n2, avg(DISTINCT n2) AS nn, stddev_pop(n2) AS nb, \
     corr(f8, n2) AS f8, covar_pop(i4, ni) AS g8, bool_or(b) AS b, max(kd) AS tx, min(kd) AS vc, \
     CASE WHEN regr_slope(n2, i4) > 0 THEN 'a' ELSE 'b' END AS kd, \
     percentile_disc(0.5) WITHIN GROUP (ORDER BY d) AS d, date '2000-03-04' AS dd, timestamp \
     '2000-03-01 10:00:00' AS ts, timestamp '2000-03-01 10:00:00' AS tt, \
     (percentile_cont(0.5) WITHIN GROUP (ORDER BY ni))::int AS ni FROM visits GROUP BY person) v";

const SOURCES: &[(&str, &[&str])] = &[
    ("people p", &["p"]),
    ("visits v", &["v"]),
    ("people p JOIN visits v ON p.id = v.person", &["p", "v"]),
    (
        "people p LEFT JOIN visits v ON p.id = v.person AND v.ni < 2",
        &["p", "v"],
    ),
    ("visits v LEFT JOIN items i ON i.visit = v.id", &["v", "i"]),
    ("visits v LEFT JOIN towns t ON v.town = t.code", &["v"]),
    ("(SELECT * FROM visits WHERE i4 > 3) v", &["v"]),
    (PER_PERSON, &["v"]),
    (PER_PERSON_AND_KIND, &["v"]),
    (RANKED, &["v"]),
    ("rounds v", &["v"]),
    (FRAMED, &["v"]),
    (STATISTICS, &["v"]),
    (FIRST_AND_ALL, &["v"]),
    (
        "visits v JOIN (SELECT kd AS k, count(*) AS n FROM visits GROUP BY kd HAVING count(*) > 1) \
            m ON m.k = v.kd AND v.ni < m.n",
        &["v"],
    ),
    (
        "visits v JOIN visits w ON v.person = w.person AND v.ni <= w.ni",
        &["v", "w"],
    ),
    (
        "visits v LEFT JOIN visits w ON v.person = w.person AND w.i4 > 20 AND w.id <> v.id",
        &["v", "w"],
    ),
    (
        "visits v JOIN (SELECT person, kd FROM rounds UNION ALL SELECT person, tx FROM visits) w \
            ON \
            v.person = w.person",
        &["v"],
    ),
    (
        "people p LEFT JOIN (SELECT ni AS k, count(*) AS n FROM people GROUP BY ni) m ON m.k = \
            p.ni",
        &["p"],
    ),
];

/// Keys whose every value is known without the data; among a step's columns only those with few
/// values.
fn key(random: &mut Random, from: &str, alias: &str) -> String {
    if from.starts_with("(SELECT ") && from != SOURCES[6].0 {
        let key = random.pick(&[
            "A.kd",
            "A.b",
            "(A.ni > 0)",
            "width_bucket(A.nn, 0, 50, 5)",
            "CASE WHEN A.i4 > 20 THEN 'high' WHEN A.i4 > 2 THEN 'mid' END",
        ]);
        return key.replace("A.", &format!("{alias}."));
    }
    let key = random.pick(&[
        "A.kd",
        "A.b",
        "A.ni",
        "(A.i4 / 10)",
        "CASE WHEN A.i4 > 20 THEN 'high' WHEN A.i4 > 9 THEN 'mid' END",
        "extract(month FROM A.d)",
        "date_trunc('month', A.ts)",
        "date_trunc('month', A.d)",
        "width_bucket(A.f8, 0, 50, 5)",
        "coalesce(A.kd, 'none')",
        "(A.ni > 0)",
        "floor(A.i4 / 10) * 10",
        "A.ts::date",
        "CASE A.ni WHEN 1 THEN 1.50 WHEN 2 THEN 1.5 ELSE -0.0 END",
        "A.ni::text",
        "extract(dow FROM A.ts)",
        "upper(A.kd)",
        "A.i4 % 7",
        "floor(A.n2 / 10) * 10",
        "to_char(A.ts, 'YYYY-MM')",
        "extract(hour FROM A.ts)",
        "A.kd || '-' || A.b",
        "initcap(A.kd)",
        "round(A.f8)",
    ]);
    key.replace("A.", &format!("{alias}."))
}

/// A numeric key is shown without trailing zeros.
fn spelled(key: &[Option<String>]) -> Vec<Option<String>> {
    let trimmed = |text: &String| {
        let is_number = text.contains('.') && text.parse::<f64>().is_ok();
        if is_number {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.clone()
        }
    };
    key.iter().map(|k| k.as_ref().map(trimmed)).collect()
}

/// An array's elements; none of the grammar's holds a comma.
fn elements(text: &str) -> Option<Vec<&str>> {
    Some(
        text.strip_prefix('{')?
            .strip_suffix('}')?
            .split(',')
            .map(|element| element.trim_matches('"'))
            .collect(),
    )
}

/// Half of the distance between neighbouring candidates for a time: 65,536 points over the ninety
/// days of `ts` are 119 seconds apart, and each shows the middle of its step.
const HALF_STEP: f64 = 59.4;

/// A time as seconds.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(' ')?;
    let parts = |text: &str, by: char| -> Option<Vec<f64>> {
        text.split(by).map(|part| part.parse().ok()).collect()
    };
    let [year, month, day] = parts(date, '-')?[..] else {
        return None;
    };
    let [hours, minutes, seconds] = parts(time, ':')?[..] else {
        return None;
    };
    let days = days_from_civil(year as i32, month as u32, day as u32);
    Some(f64::from(days) * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds)
}

fn is_truth(text: &str) -> bool {
    matches!(text, "t" | "f")
}

/// Sums that are no integers are shown to a few digits below their noise.
fn close(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if let (Some(a), Some(b)) = (elements(a), elements(b)) {
        return a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| close(a, b));
    }
    if let (Some(a), Some(b)) = (seconds(a), seconds(b)) {
        return (a - b).abs() <= HALF_STEP;
    }
    let (Ok(x), Ok(y)) = (a.parse::<f64>(), b.parse::<f64>()) else {
        return false;
    };
    // A sum is rounded far below its noise: to tenths, where that is a hundred thousand.
    (x - y).abs() <= 0.051 + 1e-6 * x.abs()
}

/// An average, a spread, or a statistic of pairs.
fn needs_rows(aggregate: &str) -> bool {
    let names = ["avg(", "var", "stddev", "corr(", "covar", "regr_"];
    names.iter().any(|name| aggregate.starts_with(name)) && !aggregate.starts_with("regr_count(")
}

/// The question as far as both answers must be the same; `None` where a grid rounds, or groups
/// below a threshold are not shown.
fn comparable(sql: &str) -> Option<String> {
    // PostgreSQL has none.
    if sql.contains("linregr(") || sql.contains("pca(") {
        return None;
    }
    // Steps of a grid over 5,000,000,000 values are several units wide: that column rounds.
    let sql = sql
        .replace("1e50", "1e5")
        .replace("f4", "f8")
        .replace(".i8", ".i4");
    // Ends are chosen a little inside, and interpolated values are no points of a grid.
    let sql = sql
        .replace("min(", "count(")
        .replace("max(", "count(")
        .replace("percentile_cont", "percentile_disc")
        .replace(" DESC)", ")");
    // The grid over all dates is weeks wide.
    let sql = ["p", "v", "i"].iter().fold(sql, |sql, a| {
        sql.replace(&format!("(ORDER BY {a}.dd)"), &format!("(ORDER BY {a}.d)"))
    });
    // A grid over an expression's wide range rounds; a bare column's is fine enough.
    let is_rounded = [
        "(ORDER BY (",
        "(ORDER BY LEAST",
        "(ORDER BY CASE",
        "(ORDER BY round",
    ]
    .iter()
    .any(|wide| sql.contains(wide));
    let is_thresholded = sql.contains("UNION ALL") && sql.contains("grouping(");
    let is_hidden = is_thresholded || (sql.contains("percentile_disc") && is_rounded);
    (!is_hidden).then_some(sql)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_noise_answers_are_postgresqls() {
    let world = World::new().await;
    tame(&world).await;
    let proxy = Proxy::over(&world).await;
    let engine = &proxy.engine;
    let seed = seeds()[0];
    let mut random = Random::new(seed ^ 2);
    let (mut compared, mut refused) = (0, Vec::new());
    for _ in 0..240 {
        let (from, aliases) = SOURCES[random.below(SOURCES.len())];
        let keys: Vec<String> = (0..random.below(3))
            .map(|_| key(&mut random, from, aliases[0]))
            .collect();
        let mut grammar = Grammar {
            random: &mut random,
            aliases: aliases.to_vec(),
        };
        let aggregates: Vec<String> = (0..3).map(|_| grammar.aggregate()).collect();
        let condition = if grammar.random.once_in(2) {
            format!(" WHERE {}", grammar.condition(1))
        } else {
            String::new()
        };
        let mut condition = condition;
        if random.once_in(3) {
            let unit = if aliases[0] == "p" {
                "p.id"
            } else {
                "v.person"
            };
            condition += &format!(
                "{}{}",
                if condition.is_empty() {
                    " WHERE "
                } else {
                    " AND "
                },
                membership(&mut random, aliases[0], unit)
            );
        }
        let mut keys = keys;
        let grouped = if keys.is_empty() {
            String::new()
        } else if random.once_in(4) {
            let sets = format!(" GROUP BY {}", sets(&mut random, &keys));
            // Distinguishes a key that a set lacks from a NULL.
            keys.push(format!("grouping({})", keys.join(", ")));
            sets
        } else {
            format!(
                " GROUP BY {}",
                (1..=keys.len())
                    .map(|i| i.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        // Over few rows they are NULL, by the planned noise.
        let may_be_null: Vec<bool> = aggregates.iter().map(|text| needs_rows(text)).collect();
        let items = [keys.clone(), aggregates].concat().join(", ");
        let sql = format!("SELECT {items} FROM {from}{condition}{grouped}");
        let Some(sql) = comparable(&sql) else {
            continue;
        };
        let Some(expected) = shown_whole(engine, &world, &sql).await else {
            continue;
        };
        let ours = match asked(engine, &sql).await {
            Ok(ours) => ours,
            Err(refusal) => {
                assert!(
                    !refusal.contains("Internal"),
                    "seed {seed}\n{sql}\n{refusal}"
                );
                refused.push(format!("{sql}: {refusal}"));
                continue;
            }
        };
        let by_key: HashMap<Vec<Option<String>>, &[Option<String>]> = ours
            .iter()
            .map(|row| (spelled(&row[..keys.len()]), &row[keys.len()..]))
            .collect();
        // A grouping set that is given twice shows its groups twice, and alike.
        let is_alike =
            |row: &Vec<Option<String>>| by_key[&spelled(&row[..keys.len()])] == &row[keys.len()..];
        assert!(
            ours.iter().all(is_alike),
            "seed {seed}: a group twice\n{sql}\n{ours:?}"
        );
        if keys.iter().any(|k| k.starts_with("floor")) && by_key.is_empty() {
            continue;
        }
        for row in &expected {
            let (key, values) = row.split_at(keys.len());
            let Some(found) = by_key.get(&spelled(key)) else {
                panic!("seed {seed}\n{sql}\nno group {key:?} in {ours:?}")
            };
            for ((wanted, found), may_be_null) in values.iter().zip(*found).zip(&may_be_null) {
                let same = match (wanted, found) {
                    // BOOL_AND and BOOL_OR allow for noise that is not there.
                    (Some(wanted), Some(found)) if is_truth(wanted) => is_truth(found),
                    (Some(wanted), Some(found)) => close(wanted, found),
                    // The sum or mean of nothing is NULL; a release never reveals that there are no
                    // rows.
                    (None, _) => true,
                    (Some(_), None) => *may_be_null,
                };
                assert!(
                    same,
                    "seed {seed}\n{sql}\nkey {key:?}: wanted {values:?}, found {found:?}"
                );
            }
        }
        compared += 1;
    }
    proxy.engine.stop().await;
    eprintln!("{compared} answers compared, {} refused", refused.len());
    if std::env::var("PGVEIL_NEIGHBOUR_REFUSED").is_ok() {
        refused.iter().for_each(|r| eprintln!("  {r}"));
    }
    assert!(compared > 60, "{compared}: {refused:#?}");
}

/// A grid of times rounds: percentiles of them are as near as its step, whatever the groups.
#[tokio::test(flavor = "multi_thread")]
async fn percentiles_of_times_are_as_near_as_their_grid() {
    let world = World::new().await;
    tame(&world).await;
    let proxy = Proxy::over(&world).await;
    for (select, by) in [
        ("", ""),
        ("kd, grouping(kd), ", " GROUP BY GROUPING SETS ((kd), ())"),
        ("kd, b, grouping(kd, b), ", " GROUP BY CUBE (kd, b)"),
    ] {
        for fraction in ["0.5", "0.9", "ARRAY[0.1, 0.5]"] {
            let sql = format!(
                "SELECT {select}percentile_disc({fraction}) WITHIN GROUP (ORDER BY ts) FROM \
                    people{by}"
            );
            let expected = shown_whole(&proxy.engine, &world, &sql).await.unwrap();
            let ours = asked(&proxy.engine, &sql).await.unwrap();
            let mut compared = 0;
            for row in &expected {
                let (key, value) = row.split_at(row.len() - 1);
                let found = ours.iter().find(|own| &own[..key.len()] == key);
                let (Some(wanted), Some(found)) = (&value[0], &found.unwrap()[key.len()]) else {
                    continue;
                };
                assert!(close(wanted, found), "{sql}: {key:?}: {wanted}, {found}");
                compared += 1;
            }
            assert!(compared > 0, "{sql}");
        }
    }
    proxy.engine.stop().await;
}
