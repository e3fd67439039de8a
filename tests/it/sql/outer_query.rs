//! The analyst's own SQL above the cut: whatever PostgreSQL does with rows, it does with released
//! rows.

use std::sync::Arc;

use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};

use crate::fixture::{Silent, Veil};

pub fn rich(yaml: String) -> String {
    yaml.replace(
        "budget: {epsilon: 8, delta: 1e-6}",
        "budget: {epsilon: 100000, delta: 1e-3}",
    )
    .replace(
        "per_query: {epsilon: 0.5, max_epsilon: 1}",
        "per_query: {epsilon: 1, max_epsilon: 1}",
    )
    .replace(
        "budget: {epsilon: 3, delta: 1e-7, renew: never}",
        "budget: {epsilon: 90000, delta: 1e-4, renew: never}",
    )
}

async fn theirs(veil: &Veil, sql: &str) -> Vec<String> {
    let messages = veil
        .client
        .simple_query(sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len())
            .map(|i| row.get(i).unwrap_or("∅").to_owned())
            .collect::<Vec<_>>()
            .join("|")
    };
    messages
        .iter()
        .filter_map(|m| {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = m {
                Some(text(row))
            } else {
                None
            }
        })
        .collect()
}

/// Grouped by one declared key each, so that every group is there.
pub const STATEMENTS: &str = "
SELECT race, count(*) AS n, rank() OVER w FROM nls.women GROUP BY race WINDOW w AS (ORDER BY \
count(*) DESC) ORDER BY race
SELECT year, n, sum(n) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT year, \
count(*) AS n FROM nls.interviews GROUP BY year) q WINDOW w AS (ORDER BY year) ORDER BY year
SELECT year, n, avg(n) OVER (ORDER BY year RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM (SELECT \
year, count(*) AS n FROM nls.interviews GROUP BY year) q ORDER BY year
SELECT q.race, l.half FROM (SELECT race, count(*) AS n FROM nls.women GROUP BY race) q, LATERAL \
(SELECT q.n / 2 AS half) l ORDER BY 1
SELECT q.race, g FROM (SELECT race, count(*) AS n FROM nls.women GROUP BY race) q CROSS JOIN \
LATERAL generate_series(1, q.n / 1500) AS g ORDER BY 1, 2
SELECT n.industry, l.n FROM nls.industries n LEFT JOIN LATERAL (SELECT count(*) AS n FROM \
nls.occupations o WHERE o.occupation_code <= n.industry_code) l ON true ORDER BY 1
WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT count(*) AS n \
FROM r
WITH RECURSIVE r AS (SELECT count(*) AS n, 0 AS step FROM nls.women UNION ALL SELECT n / 2, step + \
1 FROM r WHERE n > 100) SELECT step, n FROM r ORDER BY step
WITH RECURSIVE r(y) AS (SELECT 1968 UNION SELECT y + 1 FROM r WHERE y < 1988) SELECT r.y, \
coalesce(q.n, 0) FROM r LEFT JOIN (SELECT year, count(*) AS n FROM nls.interviews GROUP BY year) q \
ON q.year = r.y ORDER BY 1
SELECT g AS year, coalesce(n, 0) AS n FROM generate_series(1968, 1988) g LEFT JOIN (SELECT year, \
count(*) AS n FROM nls.interviews GROUP BY year) q ON q.year = g ORDER BY g
TABLE nls.industries ORDER BY 1 LIMIT 3
(TABLE nls.industries) EXCEPT (SELECT * FROM nls.industries WHERE industry_code > 3) ORDER BY 1
WITH t AS (SELECT race, count(*) AS n FROM nls.women GROUP BY race) TABLE t ORDER BY race
VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC
(SELECT race, count(*) AS n FROM nls.women GROUP BY race ORDER BY n DESC LIMIT 1) UNION ALL \
(SELECT \
'all', count(*) FROM nls.women) ORDER BY 2
SELECT race FROM nls.women GROUP BY race INTERSECT SELECT race FROM nls.women WHERE birth_year > \
1945 GROUP BY race ORDER BY 1
SELECT DISTINCT ON (n > 2000) n > 2000 AS big, race FROM (SELECT race, count(*) AS n FROM \
nls.women \
GROUP BY race) q ORDER BY n > 2000, race
SELECT DISTINCT ON (race) race, count(*) AS n FROM nls.women GROUP BY race ORDER BY race, n DESC
SELECT count(*), max(n) FROM (SELECT year, count(*) AS n FROM nls.interviews GROUP BY year LIMIT \
1000) q
SELECT y, race, sum(n) FROM (SELECT birth_year % 2 AS y, race, count(*) AS n FROM nls.women GROUP \
BY 1, 2) q GROUP BY GROUPING SETS ((y), (race), ()) ORDER BY 1, 2
SELECT race, grouping(race), sum(n) FROM (SELECT race, count(*) AS n FROM nls.women GROUP BY race) \
q GROUP BY ROLLUP (race) ORDER BY 2, 1
SELECT race, y, sum(n) FROM (SELECT birth_year % 2 AS y, race, count(*) AS n FROM nls.women GROUP \
BY 1, 2) q GROUP BY CUBE (race, y) ORDER BY 1, 2
SELECT string_agg(race, ', ' ORDER BY race), array_agg(n ORDER BY race), json_agg(n ORDER BY race) \
FROM (SELECT race, count(*) AS n FROM nls.women GROUP BY race) q
SELECT json_build_object('race', race, 'n', count(*)) ->> 'n' FROM nls.women GROUP BY race ORDER \
BY \
race
SELECT jsonb_object_agg(race, n) -> 'white', jsonb_object_agg(race, n) @> '{}' FROM (SELECT race, \
count(*) AS n FROM nls.women GROUP BY race) q
SELECT (array_agg(race ORDER BY race))[1], (array_agg(race ORDER BY race))[1:2], \
cardinality(array_agg(race)) FROM (SELECT race, count(*) FROM nls.women GROUP BY race) q
SELECT ARRAY(SELECT race FROM nls.women GROUP BY race ORDER BY race)
SELECT race, count(*) FROM nls.women GROUP BY race HAVING race = ANY (ARRAY['white', 'black']) \
ORDER BY race
SELECT race, count(*) FROM nls.women GROUP BY race HAVING count(*) >= ALL (SELECT count(*) FROM \
nls.women GROUP BY race) ORDER BY 1
SELECT race, count(*) FROM nls.women w GROUP BY race HAVING EXISTS (SELECT 1 FROM nls.industries n \
WHERE length(n.industry) > length(w.race)) ORDER BY race
SELECT race, (SELECT count(*) FROM nls.industries WHERE length(industry) > length(race)) FROM \
nls.women GROUP BY race ORDER BY race
SELECT i.industry_code, (SELECT n.industry FROM nls.industries n WHERE n.industry_code = \
i.industry_code) AS name, count(*) FROM nls.interviews i GROUP BY i.industry_code HAVING \
i.industry_code IS NOT NULL ORDER BY 1
SELECT race, overlay(race PLACING 'X' FROM 1 FOR 1), race SIMILAR TO '(w|b)%', race COLLATE \"C\" \
< \
'c' FROM nls.women GROUP BY race ORDER BY race
SELECT race, to_hex(count(*)), count(*) & 7, count(*) # 3, ~ count(*), count(*) << 1, |/ count(*), \
@ (0 - count(*)) FROM nls.women GROUP BY race ORDER BY race
SELECT make_date(year, 1, 1) + make_interval(days => 3), date_part('year', make_date(year, 1, 1)), \
count(*) FROM nls.interviews GROUP BY year ORDER BY year
SELECT numrange(0, 10) @> count(*)::numeric, '192.168.0.1'::inet::text, format('%s!', race), \
regexp_match(race, 'w(.)') FROM nls.women GROUP BY race ORDER BY race
SELECT race, n FROM (SELECT race, count(*) AS n FROM nls.women GROUP BY race) q WHERE n > (SELECT \
avg(m) FROM (SELECT count(*) AS m FROM nls.women GROUP BY race) p) ORDER BY race
SELECT q.* FROM (SELECT race AS \"The Race\", count(*) AS \"N\" FROM nls.women GROUP BY race) q \
ORDER BY q.\"N\" * -1 FETCH FIRST 2 ROWS WITH TIES
SELECT s.word, t.n FROM regexp_split_to_table('white black', ' ') AS s(word) JOIN (SELECT race, \
count(*) AS n FROM nls.women GROUP BY race) t ON t.race = s.word ORDER BY 1
SELECT e.key, e.value FROM (SELECT json_object_agg(race, n ORDER BY race) AS j FROM (SELECT race, \
count(*) AS n FROM nls.women GROUP BY race) q) p, json_each(p.j) e ORDER BY 1
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n), mode() WITHIN GROUP (ORDER BY n) FROM \
(SELECT year, count(*) AS n FROM nls.interviews GROUP BY year) q
SELECT 1 WHERE (1, 2) IN (SELECT industry_code, industry_code + 1 FROM nls.industries)
SELECT ntile(2) OVER (ORDER BY race), lag(count(*)) OVER (ORDER BY race), first_value(race) OVER \
(ORDER BY count(*) DESC) FROM nls.women GROUP BY race ORDER BY 1, 2
WITH a AS (SELECT race, count(*) AS n FROM nls.women GROUP BY race), b AS MATERIALIZED (SELECT \
race, n FROM a WHERE n > 100) SELECT a.race, b.n FROM a LEFT JOIN b USING (race) ORDER BY 1
SELECT (WITH w AS (SELECT count(*) AS n FROM nls.women) SELECT n FROM w) AS n
SELECT x.a, x.b FROM (VALUES (1, (SELECT count(*) FROM nls.women)), (2, 0)) AS x(a, b) ORDER BY 1
";

#[tokio::test(flavor = "multi_thread")]
async fn above_the_cut_postgresql_answers() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let mut wrong = Vec::new();
    for sql in STATEMENTS.lines().filter(|line| !line.is_empty()) {
        match veil.rows_as(&Veil::requester(), sql).await {
            Ok(rows) => {
                let theirs = theirs(&veil, sql).await;
                if rows != theirs {
                    wrong.push(format!("{sql}\n  {rows:?}\n  {theirs:?}"));
                }
            }
            Err(error) => wrong.push(format!("{sql}\n  {:?}", error.report())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A position counts characters of the text that the client sent, whatever was printed since.
#[tokio::test(flavor = "multi_thread")]
async fn errors_point_into_the_clients_text() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for (sql, word) in [
        (
            "SELECT  count(*)\nFROM nls.women WHERE  shoe_size > 3",
            "shoe_size",
        ),
        (
            "SELECT 'é' AS x, count(*) FROM /* here */ nls.men",
            "nls.men",
        ),
        (
            "SELECT race, count(*) FROM nls.women GROUP BY race HAVING shoe_size > 1",
            "shoe_size",
        ),
        (
            "SELECT birth_year, count(*) FROM nls.women GROUP BY race",
            "birth_year",
        ),
        ("SELECT $$a$$, frobnicate(1) FROM nls.women", "frobnicate"),
        ("SELECT count(*), pg_sleep(1) FROM nls.women", "pg_sleep"),
        (
            "SELECT w.race, count(*) FROM nls.women v GROUP BY 1",
            "w.race",
        ),
        ("SELECT 1 + 'a'", "'a'"),
        (
            "SELECT 'é', count(*)\nFROM nls.women w JOIN  nls.interviews i ON w.birth_year = \
                i.year",
            "nls.interviews",
        ),
        (
            "SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews)",
            "nls.interviews",
        ),
        ("SELECT 'é', count(*) FROM ONLY nls.women", "ONLY"),
        ("SELECT industry FROM nls.industries FOR SHARE", "FOR SHARE"),
        ("SELECT race, women.* FROM nls.women GROUP BY 1", "women.*"),
        (
            "WITH a AS (DELETE FROM nls.women RETURNING *) SELECT count(*) FROM a",
            "DELETE",
        ),
    ] {
        let report = veil.ask(sql).await.map(|_| ()).unwrap_err().report();
        let expected = sql
            .find(word)
            .map(|at| sql[..at].chars().count() as u32 + 1);
        assert_eq!(report.position, expected, "{sql}: {report:?}");
    }
}

/// An aggregate's state stays in memory whatever `work_mem` says: an aggregate that needs more than
/// the shadow's limit is refused, and the next question is answered.
#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_cannot_take_the_machine() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for sql in [
        "SELECT length(string_agg(g::text || \
            'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', \
            ',')) FROM generate_series(1, 100000000) g",
        "SELECT cardinality(array_agg(repeat('x', 10000))) FROM generate_series(1, 1000000000)",
        "WITH RECURSIVE r AS (SELECT repeat('x', 10000) AS x UNION ALL SELECT x FROM r) SELECT \
            count(*) FROM r",
    ] {
        let refused = veil.ask(sql).await.map(|_| ()).unwrap_err().report();
        assert!(
            ["54000", "57014"].contains(&refused.sqlstate.as_str()),
            "{sql}: {refused:?}"
        );
        assert!(veil.ask("SELECT 1").await.is_ok());
    }
}

/// Every draw is 2^110.
struct Loud;

impl Sampler for Loud {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Ok(1 << 110)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        Silent.choose(exponential, runs)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_takes_no_sum_past_its_type() {
    let veil = Veil::demo(rich, Some(Arc::new(|| Box::new(Loud)))).await;
    let value = "LEAST(GREATEST(woman_id * 100000, 0), 2000000000)";
    let answer = veil
        .ask(&format!(
            "SELECT sum({value}), sum(DISTINCT {value}), count(*) > 0 FROM nls.women"
        ))
        .await
        .unwrap();
    let texts: Vec<&[u8]> = answer.rows[0]
        .iter()
        .flatten()
        .map(|value| &value[..])
        .collect();
    assert_eq!(
        texts,
        [
            b"9223372036854775807".as_slice(),
            b"9223372036854775807",
            b"t"
        ]
    );
    assert_eq!(
        veil.rows_as(
            &Veil::requester(),
            "SELECT count(*), count(DISTINCT year) FROM nls.interviews"
        )
        .await
        .unwrap(),
        ["9223372036854775807|9223372036854775807"]
    );
    let value = "CASE WHEN hourly_wage > 1e6 THEN 3e38::real ELSE 0::real END";
    let sql = format!(
        "SELECT sum({value}) < '-infinity', sum({value}) = 'infinity', sum({value}) > 3e38::real \
            FROM nls.interviews"
    );
    assert_eq!(
        veil.rows_as(&Veil::requester(), &sql).await.unwrap(),
        ["f|f|t"]
    );
}
