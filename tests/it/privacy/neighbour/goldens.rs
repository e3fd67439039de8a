//! Golden files of single expressions, keys and aggregates over columns of every type: the SQL
//! emitted for them, the groups known without the data, and the text about the noise. The other
//! tests here show that these are right; the goldens show that they have not changed.

use pgveil::aggregates::DrawId;
use pgveil::analyze::KeyRule;
use pgveil::mechanism::Accounting;
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{Plan, key_text, measure_deviation};
use sha2::{Digest, Sha256};

use super::total::{forms, overloads};
use super::world::World;

/// Each overload with this many of its operands.
const EACH: usize = 3;

/// Expressions at whose edges a guard is needed, or a refusal; `Y` is a text of 400 letters.
const EDGES: &str = "
(tt::time + iv)
(tt::time + interval '30 hours')
(iv + iv)
(tt + iv)
(tt - iv)
((tt - ts) + (tt - ts))
justify_days(iv)
(ts + interval '20 months')
(ts + interval '7900 years')
(d + 3000000)
(d + i4)
(dd + j4)
(d - i4)
(d + ts::time)
(ts AT TIME ZONE 'UTC')
extract(epoch FROM ts AT TIME ZONE 'Asia/Kabul')
extract(epoch FROM (d + ts::time))
extract(day FROM ts - timestamp '2000-01-01')
extract(year FROM age(ts, timestamp '1990-01-01'))
extract(epoch FROM age(ts, timestamp '1990-01-01'))
nn::numeric(30, 0)
nn::numeric(31, 0)
nn::numeric(40, 2)
g8::numeric(31, 0)
g8::numeric(16, 2)
round(n2, 1)
round(nn, -3)
trunc(nb, 1)
log(1, n2)
log(2, n2 + 1)
cbrt(f8)
sqrt(n2 + 0.5)
exp(nb)
power(n2, 2)
power(nb, 3)
power(2, nb)
(n2 * nb)
(f8 * g8)
(f8 / 1e300::float8)
(CASE WHEN b THEN f8 ELSE 2.5::float8 END * g8)
(n2 / 0.001)
(i4 % 7)
(nb % 2.5)
(-i4 % 7)
(i4 | 64)
(i4 & ni)
CASE WHEN b THEN i4 WHEN ni > 0 THEN 200 ELSE n2 END
CASE WHEN n2 > 50 THEN n2 END
CASE WHEN i4 < 50 THEN i4 END
least(n2, 50)
greatest(least(g8, 10), -10)
greatest(least(g8, 10), 10)
upper(vc || vc)
upper(tx || vc)
upper(regexp_replace(vc, 'x', 'Y', 'g'))
upper(regexp_replace(vc, 'Y', 'x'))
upper(replace(vc, 'x', 'Y'))
upper(replace(vc, 'xx', 'Y'))
upper(concat(vc, kd, vc))
upper(concat(vc, vc))
upper(concat_ws('Y', vc, vc))
upper(concat_ws('Y', vc, vc, vc, vc, vc, vc, vc, vc, vc, vc, vc, vc))
upper(repeat(vc, 409))
upper(repeat(vc, 410))
upper(lpad(vc, 4096))
upper(lpad(vc, 4097))
upper(trim(tx))
upper(btrim(vc, 'x'))
upper(substr(tx, 2))
upper(left(tx, 10))
length(trim(vc))
length(vc || vc)
length(upper(tx))
octet_length(vc)
";

/// A key, and perhaps the condition on its rows.
const KEYS: &str = "
i4
ni
kd
b
d
ts
vc
tx
j4
nn
f8
uu
iv
i4 + ni
i4 * 2 - 1
i4 / 10
i4 % 7
-ni
abs(ni)
floor(n2 / 10)
ceil(f8)
round(f8)
trunc(n2)
round(nb)
f8::int
n2::int
nb::bigint
width_bucket(n2, 0, 100, 5)
width_bucket(g8, 0, 100, 3)
date_trunc('month', d)
date_trunc('quarter', d)
extract(year FROM d)
extract(month FROM ts)
extract(dow FROM ts)
extract(hour FROM tt)
extract(second FROM tt)
date_trunc('hour', ts)
date_trunc('day', ts)
date_trunc('week', ts)
date_trunc('month', ts)
date_trunc('minute', ts)
ts::date
tt::date
to_char(ts, 'YYYY-MM')
to_char(ts, 'YYYY-MM-DD HH24')
to_char(ts, 'DDDD') | ts >= '2000-01-05' AND ts < '2000-01-08'
to_char(ts, 'DD') | ts >= '2000-01-05' AND ts < '2000-01-08'
kd = 'a'
i4 > j4
i4 > ni
i4 > 3
i4 IS NULL
ni IS NULL
nullif(ni, 0)
least(i4, 3)
greatest(ni, 1)
coalesce(kd, 'z')
coalesce(i4, -1)
upper(kd)
kd || '-' || ni
CASE WHEN i4 > 40 THEN 'many' WHEN i4 > 20 THEN 'some' END
CASE WHEN i4 > 5 THEN 'x' ELSE 'y' END
CASE WHEN i4 > 5 THEN ni ELSE 0 END
i4::text
b::int
length(kd)
i4 | i4 BETWEEN 10 AND 12
i4 | i4 > 47
i4 | i4 >= 47 AND i4 < 49
i4 | i4 > 47 OR i4 < 2
i4 | i4 IN (1, 2, 99)
i4 | i4 = ANY (ARRAY[1, 2])
i4 | i4 IS NOT NULL AND i4 < 3
i4 | i4 IS NULL
i4 | j4 > 3
i4 | i4 > ni
i4 | i4 + 1 > 49
ni | ni <> 0
ni | NOT ni > 0
kd | kd <> 'b'
kd | kd IN ('a', 'none')
kd | kd LIKE 'i%'
kd | tx = 'a'
b | b
b | NOT b
tx | tx IN ('one', 'two')
tx | tx = 'one'
vc | vc = ANY (ARRAY['v1', 'v2'])
j4 | j4 IN (1, 3)
j4 | j4 BETWEEN 7 AND 9
j4 | j4 BETWEEN 1 AND 50000
j4 | j4 BETWEEN 1 AND 50001
j4 / 100 | j4 BETWEEN 0 AND 999
j4 + 1 | j4 > 5 AND j4 <= 8
floor(nn) | nn BETWEEN 0 AND 3
floor(nn) | nn > 0 AND nn < 3
floor(nn) | nn BETWEEN 0 AND 9999
floor(nn) | nn BETWEEN 0 AND 10000
ceil(g8) | g8 BETWEEN -1.5 AND 1.5
round(nn, 1) | nn BETWEEN 0 AND 1
d | d >= '2001-12-30'
d | d < '2000-01-03'
d | d = '2000-02-29'
dd | dd BETWEEN '2000-02-28' AND '2000-03-01'
ts::date | ts >= '2000-01-30' AND ts < '2000-02-02'
ts::date | ts > '2000-01-30 23:59:59.999999' AND ts <= '2000-02-02'
ts::date | ts BETWEEN '2000-01-30 12:00' AND '2000-01-31 00:00'
ts::date | ts > '2000-03-30'
date_trunc('day', ts) | ts < '2000-01-03'
date_trunc('day', ts) | ts <= '2000-01-03'
date_trunc('hour', ts) | ts >= '2000-01-01 22:30' AND ts < '2000-01-02 01:00'
date_trunc('day', tt) | tt >= '2010-05-05 06:00' AND tt < '2010-05-08'
date_trunc('month', tt) | tt >= '2010-05-05' AND tt < '2010-08-01'
tt::date | tt >= '2010-05-05' AND tt < '2010-05-08'
extract(year FROM tt) | tt >= '2010-05-05' AND tt < '2012-01-01'
extract(month FROM ts) | extract(month FROM ts) = 2
floor(nn) | nn >= 0 AND nn < n2
rt::date | rt::date BETWEEN '2000-01-01' AND '2000-01-05'
(ts AT TIME ZONE 'UTC')::date | ts < '2000-01-03'
date_trunc('day', ts + interval '1 day') | ts < '2000-01-03'
CASE WHEN extract(day FROM ts) > 15 THEN extract(month FROM ts) WHEN extract(hour FROM ts) > 12 \
THEN 0 ELSE -1 END
CASE WHEN ts > '2000-02-01 12:00' THEN 1 ELSE extract(month FROM ts) END
CASE WHEN ts > '2000-02-01' THEN date_trunc('month', ts) END
i4, ni | i4 < 2 AND ni > 1
i4, kd | i4 > 48
ROLLUP (b, kd)
CUBE (b, ni) | ni > 1
GROUPING SETS ((kd), (b, tx), ())
";

/// A statement, after the account's accounting and the session's settings where they matter.
const NOISE: &str = "
SELECT count(*), sum(n2), avg(n2), sum(i4), avg(f8) FROM people
SELECT count(*), sum(n2), avg(n2), sum(i4), avg(f8) FROM visits
pure: SELECT count(*), sum(n2), avg(n2), sum(nb), avg(f4) FROM visits
SELECT kd, count(*), count(i4), count(DISTINCT id) FROM visits GROUP BY kd
pure: SELECT kd, count(*), count(i4), avg(i4) FROM people GROUP BY kd
SELECT variance(n2), stddev_pop(i4), var_samp(f8), regr_sxx(i4, n2) FROM people
SELECT corr(n2, i4), covar_pop(f8, n2), regr_slope(n2, i4), regr_intercept(i4, f8), regr_r2(n2, \
nb), regr_count(n2, i4) FROM visits
pure: SELECT corr(n2, i4), covar_samp(f8, n2) FROM people
SELECT bool_and(b), bool_or(i4 > 3), every(ni > 0) FROM people
SELECT sum(ni) FILTER (WHERE b), avg(nb) FILTER (WHERE i4 > 3), count(*) FILTER (WHERE kd = 'a') \
FROM visits
SELECT count(*), count(*) FILTER (WHERE i4 > 3) FROM people
SELECT count(DISTINCT i4), sum(DISTINCT i4), avg(DISTINCT n2), stddev(DISTINCT nb), count(DISTINCT \
(i4, kd)) FROM visits
pure: SELECT kd, count(DISTINCT i4), sum(DISTINCT ni) FROM visits GROUP BY kd
SELECT min(n2), max(i4), percentile_cont(0.25) WITHIN GROUP (ORDER BY f8), mode() WITHIN GROUP \
(ORDER BY kd) FROM visits
SELECT percentile_disc(ARRAY[0.1, 0.25, 0.5, 0.75, 0.9]) WITHIN GROUP (ORDER BY n2) FROM people
pure: SELECT kd, percentile_disc(0.9) WITHIN GROUP (ORDER BY i4 DESC), min(d), max(ts) FROM people \
GROUP BY kd
SELECT pgveil.ci_low(percentile_cont(0.5) WITHIN GROUP (ORDER BY n2)), pgveil.ci_high(max(i4)), \
pgveil.ci_low(avg(n2)) FROM visits
SELECT tx, count(*), sum(n2) FROM visits GROUP BY tx
pure: SELECT tx, count(*), avg(ni) FROM visits GROUP BY tx
SELECT j4, kd, count(*) FROM people GROUP BY ROLLUP (j4, kd)
SELECT sum(i8), avg(i8), sum(f8 * n2), sum(nb * ni), sum(i4 / 100), sum(f8 / 1e12) FROM people
SELECT sum(least(greatest(g8, 0), 1e-9)), sum(least(greatest(g8, 5), 5)), sum(least(greatest(g8, \
-1e15), 1e15)), sum(least(greatest(nn, 0), 1e-7)) FROM people
SELECT sum(least(greatest(nn, 3), 3)), sum(least(greatest(j8, 0), 4000000000)), \
sum(least(greatest(j8, 0), 2147483648)) FROM people
target 50: SELECT count(*), sum(i4) FROM people
target 50, 4000: SELECT count(*), sum(i4) FROM people
target 10% of a row: SELECT count(*), sum(n2), avg(i4) FROM people
target 900% of a row: SELECT corr(n2, i4), variance(nb), sum(ni) FROM people
target 3000, 100% of a row: SELECT kd, sum(n2), covar_pop(n2, i4) FROM visits GROUP BY kd
target 900: SELECT tx, count(*) FROM visits GROUP BY tx
SELECT t.region, count(*), avg(v.n2) FROM visits v JOIN towns t ON t.code = v.town GROUP BY t.region
SELECT t.region, t.weight, count(v.i4) FROM towns t LEFT JOIN visits v ON v.town = t.code GROUP BY \
t.region, t.weight
SELECT t.code, t.region, count(*) FROM visits v JOIN towns t ON t.code = v.town WHERE t.weight IS \
NOT NULL GROUP BY t.code, t.region
SELECT count(*), sum(i.n2) FROM items i JOIN visits v ON v.id = i.visit JOIN people p ON p.id = \
v.person
SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id AND v.i4 \
> \
3)
SELECT avg(total) FROM (SELECT person, sum(n2) AS total FROM visits GROUP BY person) s
SELECT count(*) FROM (SELECT person, rank() OVER (PARTITION BY person ORDER BY i4) AS place FROM \
visits) s WHERE place <= 2
SELECT kd, count(*), sum(n2) FROM rounds GROUP BY kd
SELECT kd::boolean, count(*) FROM rounds GROUP BY 1
SELECT t.weight, t.code, count(*) FROM visits v JOIN towns t ON t.code = v.town GROUP BY t.weight, \
t.code
SELECT t.region, count(v.i4) FROM (towns t JOIN notes n ON n.code = t.code) LEFT JOIN visits v ON \
v.town = t.code GROUP BY t.region
SELECT t.region, count(v.i4), count(*) FROM towns t LEFT JOIN visits v ON v.town = t.code GROUP BY \
t.region
SELECT md5(t.code), count(v.i4) FROM towns t LEFT JOIN visits v ON v.town = t.code GROUP BY 1
SELECT sum(m) FROM (SELECT person, max(n2 + 5) OVER (PARTITION BY person) AS m FROM visits) s
SELECT sum(m) FROM (SELECT person, lag(n2, 2) OVER (PARTITION BY person ORDER BY id) AS m, \
lead(i4) \
OVER (PARTITION BY person ORDER BY id) FROM visits) s
SELECT avg(r), avg(v), sum(n), avg(s) FROM (SELECT person, corr(n2, i4) AS r, variance(n2) AS v, \
sum(ni) AS n, stddev_pop(nb) AS s FROM visits GROUP BY person) s
SELECT count(DISTINCT i4), count(DISTINCT i4) FILTER (WHERE b), sum(DISTINCT ni) FILTER (WHERE b) \
FROM visits
SELECT percentile_disc(0.333333) WITHIN GROUP (ORDER BY i4), percentile_cont(0.75) WITHIN GROUP \
(ORDER BY n2) FROM visits
SELECT count(*) FROM visits v JOIN visits u ON u.person = v.person
SELECT count(*) FROM visits v JOIN rounds r ON r.person = v.person AND r.kd = v.kd
SELECT count(*) FROM people p JOIN visits v ON v.person = p.id JOIN items i ON i.visit = v.id
target 30: SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM visits)
target 6: SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM people WHERE b)
target 2.5: SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM people WHERE b)
target 2.5: SELECT count(*) FROM people
target 1.7: SELECT count(*) FROM people
";

/// The statement's plan under the settings before it.
fn planned(world: &World, line: &str) -> Result<Plan, String> {
    let (accounting, target, sql) = match line.split_once(": ") {
        Some(("pure", sql)) => (Accounting::Pure, None, sql),
        Some((target, sql)) if target.starts_with("target ") => {
            (Accounting::Gdp, target.strip_prefix("target "), sql)
        }
        Some(_) | None => (Accounting::Gdp, None, line),
    };
    let mut session_settings = SessionSettings::with_fixed_clips();
    if let Some(target) = target {
        session_settings
            .set("pgveil.target_error", target)
            .map_err(|refusal| format!("{refusal:?}"))?;
    }
    world.plan_with(sql, accounting, 1.0, session_settings)
}

fn refused(refusal: &str) -> String {
    let reported = refusal.split("message: ").nth(1).unwrap_or(refusal);
    format!(
        "refused: {}\n",
        reported.split(", detail:").next().unwrap_or(reported)
    )
}

/// The SQL emitted for a sum of the expression, or else for a count.
fn emitted(world: &World, expression: &str) -> String {
    let of = |aggregate: &str| {
        world.plan_under(
            &format!("SELECT {aggregate}({expression}) FROM people"),
            Accounting::Gdp,
            1.0,
        )
    };
    match of("sum").or_else(|_| of("count")) {
        Ok(plan) => plan
            .releases()
            .iter()
            .flat_map(|release| release.statements())
            .map(|s| format!("{}\n", s.sql().replace("\"t0\".", "")))
            .collect(),
        Err(refusal) => refused(&refusal),
    }
}

/// A digest in place of a long text that is like others: it shows whether the text changed.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        + "\n"
}

/// The groups that are known without the data: all of a few, the ends of many.
fn keys(plan: &Plan) -> String {
    let mut reported = String::new();
    for release in plan.releases() {
        for (data_type, rule) in release.keys() {
            reported += &match rule {
                KeyRule::Threshold => format!("{data_type}: by threshold\n"),
                KeyRule::Domain(values) => {
                    let texts: Vec<String> = values
                        .iter()
                        .map(|v| {
                            v.as_ref()
                                .map_or("NULL".to_owned(), |v| key_text(v, data_type))
                        })
                        .collect();
                    let shown = if let [a, b, c, _, _, .., x, y, z] = texts.as_slice() {
                        format!("{a} {b} {c} … {x} {y} {z}")
                    } else {
                        texts.join(" ")
                    };
                    format!("{data_type}: {} values, {shown}\n", texts.len())
                }
            };
        }
        for tuples in release.tuples() {
            reported += &format!("together: keys {:?}, rows {:?}\n", tuples.keys, tuples.rows);
        }
    }
    reported
}

fn noise(plan: &Plan) -> String {
    let mut reported = String::new();
    for release in plan.releases() {
        release
            .description()
            .iter()
            .for_each(|line| reported += &format!("{line}\n"));
        let facts = release.facts();
        reported += &format!(
            "  facts: unit {:?}, rows {}, sensitivity {:?}\n",
            facts.unit, facts.rows_per_unit, facts.sensitivity
        );
        for measure in release.measures() {
            reported += &format!(
                "  measure: standard deviation {:.5e}\n",
                measure_deviation(release, measure).unwrap_or(0.0)
            );
        }
        for part in release.choices() {
            let draws: Vec<DrawId> = (0..part.question.targets.len()).map(DrawId).collect();
            reported += &format!("  part: {}\n", pgveil::rewrite::choice_noise(part, &draws));
        }
        release
            .statements()
            .iter()
            .for_each(|s| reported += &format!("  SQL: {}\n", s.sql()));
    }
    reported
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}

fn compare(name: &str, stories: &[String]) {
    insta::with_settings!({
        snapshot_path => "../../../golden/emitted",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!(name, stories.join("\n"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_are_emitted_as_written() {
    let world = World::new().await;
    let mut seen = Vec::new();
    let mut stories = Vec::new();
    for (entry, expression) in overloads(EACH) {
        let emitted = emitted(&world, &expression);
        // One of each function for people to read.
        let is_first = !seen.contains(&entry.function);
        seen.push(entry.function);
        stories.push(format!(
            "{expression}\n{}",
            if is_first { emitted } else { digest(&emitted) }
        ));
    }
    stories.extend(
        forms()
            .into_iter()
            .map(|form| format!("{form}\n{}", digest(&emitted(&world, &form)))),
    );
    stories.extend(lines(EDGES).map(|edge| {
        format!(
            "{edge}\n{}",
            emitted(&world, &edge.replace('Y', &"y".repeat(400)))
        )
    }));
    compare("expressions", &stories);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_known_as_written() {
    let world = World::new().await;
    let mut stories = Vec::new();
    for line in lines(KEYS) {
        let (key, condition) = line.split_once(" | ").unwrap_or((line, "true"));
        let plan = world.plan_under(
            &format!("SELECT count(*) FROM people WHERE {condition} GROUP BY {key}"),
            Accounting::Gdp,
            1.0,
        );
        stories.push(format!(
            "{line}\n{}",
            plan.map_or_else(|refusal| refused(&refusal), |plan| keys(&plan))
        ));
    }
    compare("keys", &stories);
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_is_described_as_written() {
    let world = World::new().await;
    let stories: Vec<String> = lines(NOISE)
        .map(|line| {
            format!(
                "{line}\n{}",
                planned(&world, line).map_or_else(
                    |refusal| refused(&refusal),
                    |plan| noise(&plan) + &keys(&plan)
                )
            )
        })
        .collect();
    compare("noise", &stories);
}
