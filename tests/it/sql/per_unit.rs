//! Shapes of queries with a special step each: without noise, each answers as PostgreSQL does.

use pgveil::engine::Requester;
use pgveil::policy::{KeyChoice, SessionSettings};

use super::outer_query::rich;
use crate::fixture::{Veil, without_units};

/// Rows are compared in any order; groups that only the lists of keys have show nothing but zeros
/// and no value.
const STATEMENTS: &str = "
SELECT sum(DISTINCT birth_year), count(DISTINCT birth_year), round(avg(DISTINCT birth_year), 6), \
round(variance(DISTINCT birth_year), 6) FROM nls.women
SELECT race, sum(DISTINCT years_of_school), round(stddev_pop(DISTINCT years_of_school), 6), \
count(*) FROM nls.women GROUP BY race
SELECT sum(DISTINCT birth_year) FILTER (WHERE race = 'white'), sum(DISTINCT birth_year + 1) FROM \
nls.women
SELECT race, sum(DISTINCT birth_year), grouping(race) FROM nls.women GROUP BY ROLLUP (race)
SELECT round(avg(total), 4), count(*) FROM (SELECT woman_id, sum(DISTINCT age) AS total FROM \
nls.interviews GROUP BY woman_id) s
SELECT sum(birth_year / 100000), count(*) FROM nls.women
SELECT count(*) FROM (SELECT DISTINCT race, college_graduate FROM nls.women) d
SELECT count(*) FROM (SELECT DISTINCT race, birth_year FROM nls.women) d
SELECT count(*) AS n FROM (SELECT birth_year FROM nls.women GROUP BY birth_year) d
SELECT count(y), count(*), count(*) * 2 FROM (SELECT DISTINCT years_of_school AS y FROM nls.women) d
SELECT count(*) FROM (SELECT race AS r, max(birth_year) FROM nls.women WHERE birth_year > 1944 \
GROUP BY r) d
SELECT race, count(*), grouping(race) FROM nls.women GROUP BY GROUPING SETS ((race), (race), ())
SELECT race, count(*) FROM nls.women GROUP BY GROUPING SETS ((race), (race))
SELECT count(*) FROM nls.women GROUP BY GROUPING SETS ((), ())
SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.woman_id = \
w.woman_id GROUP BY i.married HAVING count(*) > 5)
SELECT count(*) FROM nls.women w WHERE NOT EXISTS (SELECT 1 FROM nls.interviews i WHERE i.woman_id \
= w.woman_id AND i.year < 1980 GROUP BY i.industry_code HAVING sum(i.weeks_worked) > 90)
SELECT count(*) FROM nls.women w WHERE w.birth_year - 1930 IN (SELECT min(i.age) FROM \
nls.interviews i WHERE i.woman_id = w.woman_id GROUP BY i.south)
SELECT count(*) FROM nls.interviews i WHERE (i.woman_id, i.year) NOT IN (SELECT j.woman_id, j.year \
FROM nls.interviews j WHERE j.married = 1)
SELECT count(*) FROM nls.interviews i WHERE (i.woman_id, i.year) IN (SELECT j.woman_id, j.year + 1 \
FROM nls.interviews j)
SELECT count(*) FROM nls.women w JOIN nls.interviews i ON i.woman_id = w.woman_id AND EXISTS \
(SELECT 1 FROM nls.interviews j WHERE j.woman_id = w.woman_id AND j.year = 1968)
SELECT count(*) FROM nls.women w JOIN nls.interviews i ON i.woman_id = w.woman_id AND i.age > \
(SELECT min(j.age) + 10 FROM nls.interviews j WHERE j.woman_id = i.woman_id)
SELECT count(*) FROM nls.interviews WHERE industry_code = ANY (SELECT industry_code FROM \
nls.industries WHERE industry_code < 5)
SELECT count(*) FROM nls.interviews WHERE year = ANY (SELECT year FROM nls.interviews GROUP BY \
year \
ORDER BY count(*) DESC LIMIT 3)
SELECT count(*) FROM nls.women WHERE birth_year <> ALL (SELECT birth_year FROM nls.women GROUP BY \
birth_year HAVING count(*) > 400)
SELECT v.name, count(*) FROM nls.interviews i JOIN (VALUES (1, 'yes'), (0, 'no')) AS v(m, name) ON \
v.m = i.married GROUP BY v.name
SELECT count(*), sum(least(greatest(g.y, 0), 3000)) FROM generate_series(1944, 1947) AS g(y) JOIN \
nls.women w ON w.birth_year = g.y
SELECT count(*) FROM generate_series(1968, 1988, 5) g JOIN nls.interviews i ON i.year = g
SELECT coalesce(s.band, 'none'), count(*) FROM nls.women w LEFT JOIN (SELECT woman_id, CASE WHEN \
hourly_wage < 10 THEN 'low' ELSE 'high' END AS band FROM nls.interviews WHERE year = 1988) s ON \
s.woman_id = w.woman_id WHERE s.band IS NULL GROUP BY 1
SELECT s.band, count(*) FROM nls.women w LEFT JOIN (SELECT woman_id, CASE WHEN hourly_wage < 10 \
THEN 'low' ELSE 'high' END AS band FROM nls.interviews WHERE year = 1988) s ON s.woman_id = \
w.woman_id GROUP BY s.band
SELECT s.y IS NULL, count(*) FROM nls.women w LEFT JOIN (SELECT woman_id, coalesce(married, 0) AS \
y \
FROM nls.interviews WHERE year = 1988) s ON s.woman_id = w.woman_id GROUP BY 1
SELECT n.industry_code, n.industry, count(*) FROM nls.interviews i JOIN nls.industries n ON \
n.industry_code = i.industry_code GROUP BY n.industry_code, n.industry
SELECT n.industry, count(i.year) FROM nls.industries n LEFT JOIN nls.interviews i ON \
i.industry_code = n.industry_code WHERE n.industry_code < 6 GROUP BY n.industry, n.industry_code
SELECT sum(least(greatest(a, 0), 5159)), sum(least(greatest(b, 0), 1)), sum(least(greatest(c, \
1940), 1960)) FROM (SELECT * FROM (SELECT south, woman_id FROM nls.interviews) v JOIN (SELECT \
birth_year, woman_id FROM nls.women) w USING (woman_id)) AS d(a, b, c)
SELECT sum(least(greatest(a, 0), 5159)), sum(least(greatest(b, 0), 1)) FROM (SELECT * FROM (SELECT \
south, woman_id FROM nls.interviews) v NATURAL RIGHT JOIN (SELECT birth_year, woman_id FROM \
nls.women) w) AS d(a, b, c)
SELECT sum(least(greatest(a, 0), 5159)), sum(least(greatest(b, 0), 1)) FROM ((SELECT south, \
woman_id FROM nls.interviews) v LEFT JOIN (SELECT birth_year, woman_id FROM nls.women) w USING \
(woman_id)) AS d(a, b, c)
SELECT count(*), count(b) FROM (SELECT * FROM (SELECT south, woman_id FROM nls.interviews) v JOIN \
(SELECT birth_year, woman_id FROM nls.women) w USING (woman_id) UNION ALL SELECT woman_id, \
NULL::smallint, birth_year FROM nls.women) AS d(a, b, c) WHERE a > 2000
WITH q AS (SELECT * FROM (SELECT 1900 AS n, race, birth_year::bigint AS k FROM nls.women GROUP BY \
race, birth_year) r JOIN (SELECT y::bigint AS k FROM generate_series(1944, 1947) y) p USING (k)) \
SELECT count(*) FROM nls.women w JOIN q ON w.birth_year = q.k AND w.race = q.race
SELECT count(*) FROM nls.industries n JOIN (SELECT * FROM (SELECT 5::bigint + industry_code AS b, \
industry_code::bigint AS c FROM nls.industries) x NATURAL JOIN (SELECT y::bigint AS c FROM \
generate_series(1, 5) y) z) m ON m.c = n.industry_code JOIN nls.interviews i ON i.industry_code = \
m.c
SELECT count(*) FROM nls.women w JOIN (SELECT y::numeric AS birth_year FROM generate_series(1940, \
1960) y) g USING (birth_year) WHERE birth_year / 7 > 277.5
SELECT count(*) FROM (SELECT y AS birth_year FROM generate_series(1940, 1946) y) g RIGHT JOIN \
nls.women w USING (birth_year) WHERE birth_year * birth_year > 3779136
SELECT c.industry, count(v.year) FROM (SELECT industry_code::int AS industry_code, industry FROM \
nls.industries) n JOIN nls.industries c ON c.industry_code = n.industry_code JOIN nls.interviews v \
ON v.industry_code = c.industry_code GROUP BY c.industry
SELECT sum(least(greatest((SELECT max(year) FROM nls.interviews v LEFT JOIN (SELECT y::int AS year \
FROM generate_series(1960, 1975) y) g USING (year) WHERE v.woman_id = w.woman_id), 0), 2000)) FROM \
nls.women w
SELECT count(*) FROM nls.women JOIN (SELECT y AS woman_id FROM generate_series(1::bigint, 3000) y) \
g USING (woman_id) JOIN nls.interviews USING (woman_id) WHERE woman_id > 100
SELECT count(*) FROM nls.women JOIN (SELECT y::numeric(8, 2) AS birth_year FROM \
generate_series(1940, 1950) y) g USING (birth_year) WHERE birth_year::text = '1946'
SELECT count(*) FROM nls.women WHERE race ~ 'wh' IN (college_graduate = 1, false)
SELECT count(*) FROM nls.women WHERE (college_graduate = 1) = race ~ '^w' AND race !~~ 'o%' \
BETWEEN \
false AND true
SELECT count(*) FROM nls.interviews i JOIN (VALUES (3), (3.50), (4)) v(n) ON i.industry_code = n
SELECT count(*) FROM (SELECT woman_id FROM nls.interviews WHERE year = 1988 UNION SELECT woman_id \
FROM nls.women WHERE birth_year > 1950) d
SELECT n.industry, n.industry_code % 3, i.south, count(*), grouping(n.industry) FROM \
nls.interviews \
i JOIN nls.industries n USING (industry_code) GROUP BY ROLLUP ((n.industry, n.industry_code % 3), \
i.south)
SELECT DISTINCT 5, race FROM nls.women
SELECT DISTINCT 2 AS race, race AS r, 1.5 FROM nls.women
SELECT round(avg(s), 4), count(*) FROM (SELECT woman_id, year, sum(count(*)) OVER (PARTITION BY \
woman_id) AS s FROM nls.interviews GROUP BY woman_id, year) d
";

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_postgresqls() {
    let veil = Veil::demo(Veil::precise, Veil::silent()).await;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for sql in STATEMENTS.lines().filter(|line| !line.is_empty()) {
        asked += 1;
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
        let mut theirs: Vec<String> = messages
            .iter()
            .filter_map(|m| {
                if let tokio_postgres::SimpleQueryMessage::Row(row) = m {
                    Some(text(row))
                } else {
                    None
                }
            })
            .collect();
        theirs.sort();
        match veil.rows_as(&Veil::requester(), sql).await {
            Ok(ours) => {
                let mut ours: Vec<String> = ours
                    .into_iter()
                    .filter(|row| theirs.contains(row) || !is_empty_group(row))
                    .collect();
                ours.sort();
                if ours != theirs {
                    wrong.push(format!("{sql}\n  ours   {ours:?}\n  theirs {theirs:?}"));
                }
            }
            Err(error) => wrong.push(format!("{sql}\n  {:?}", error.report())),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {asked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

const VISITS: &str = "
CREATE SCHEMA s;
CREATE TABLE s.person (id int PRIMARY KEY, age int NOT NULL);
CREATE TABLE s.visit (vid int PRIMARY KEY, pid int NOT NULL REFERENCES s.person, k int NOT NULL, l \
int NOT NULL, UNIQUE (k, l));
INSERT INTO s.person SELECT n, 20 + n % 50 FROM generate_series(1, 300) n;
INSERT INTO s.visit SELECT n, 1 + n % 300, n / 30, n % 30 FROM generate_series(1, 900) n;
";

/// Equal values belong to one unit if they are one key's, and whole keys of one mention of a table
/// do. Otherwise a group's rows may belong to several units.
#[tokio::test(flavor = "multi_thread")]
async fn keys_tell_units_apart_within_one_mention() {
    let policy = without_units(&std::fs::read_to_string("policies/demo.yaml").unwrap());
    let (head, rest) = policy.split_once("\ntables:").unwrap();
    let limits = "limits: {groups_per_unit: 100, rows_per_unit: 100, groups: 10000, failures: 10, \
        statement_timeout: 60s, connections: 4}\n";
    assert!(rest.contains("\nlimits:"));
    let tables = "  s.person: {unit: id, columns: {age: {bounds: [0, 99]}}}
  s.visit: {unit: {path: [pid -> s.person.id]}, rows_per_unit: 10, other_columns: visible}
";
    let yaml = rich(format!("{head}\ntables:\n{tables}{limits}"));
    let veil = Veil::over(
        async |client| client.batch_execute(VISITS).await.unwrap(),
        &yaml,
        Veil::silent(),
    )
    .await;
    let both = "SELECT vid AS u FROM s.visit UNION ALL SELECT id FROM s.person";
    let questions = [
        "WITH c AS (SELECT * FROM s.visit) SELECT count(*) FROM (SELECT DISTINCT a.k, b.l FROM c a \
            JOIN c b ON a.pid = b.pid) d".to_owned(),
        "SELECT count(*) FROM (SELECT DISTINCT a.k, b.l FROM s.visit a JOIN s.visit b ON a.pid = \
            b.pid) d".to_owned(),
        "WITH c AS (SELECT * FROM s.visit) SELECT count(*) FROM (SELECT DISTINCT a.k, a.l FROM c a \
            JOIN c b ON a.pid = b.pid) d".to_owned(),
        format!("SELECT count(*) FROM (SELECT DISTINCT u FROM ({both}) a) d"),
        "SELECT count(*) FROM (SELECT pid FROM s.visit WHERE k < 5 UNION SELECT id FROM s.person \
            WHERE age < 30) d".to_owned(),
    ];
    veil.answers_as_postgresql(
        &Veil::requester(),
        &questions.each_ref().map(String::as_str),
    )
    .await;
    for mixed in [
        "SELECT count(*) FROM (SELECT vid AS u FROM s.visit UNION SELECT id FROM s.person) d"
            .to_owned(),
        format!(
            "SELECT sum(n) FROM (SELECT least(count(*) OVER (PARTITION BY u), 9) AS n FROM \
                ({both}) \
                a) d"
        ),
    ] {
        let refused = veil.ask(&mixed).await.map(|_| ()).unwrap_err().report();
        assert_eq!(refused.sqlstate, "0A000", "{mixed}: {refused:?}");
    }
}

/// A listed group without a row counts 0.
fn is_empty_group(row: &str) -> bool {
    row.split('|').skip(1).any(|value| value == "0")
        && !row
            .split('|')
            .skip(1)
            .any(|value| value.parse::<f64>().is_ok_and(|n| n > 8.0))
}

/// Keys of one public table are listed as its rows have them: no other combination is shown.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_public_table_come_in_its_own_combinations() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let listed = veil
        .client
        .query_one("SELECT count(*) FROM nls.industries", &[])
        .await
        .unwrap()
        .get::<_, i64>(0) as usize;
    for sql in [
        "SELECT n.industry_code, n.industry, count(*) FROM nls.interviews i JOIN nls.industries n \
            USING (industry_code) GROUP BY n.industry_code, n.industry",
        "SELECT n.industry, n.industry_code, count(i.year) FROM nls.industries n LEFT JOIN \
            nls.interviews i ON i.industry_code = n.industry_code AND i.year = 1 GROUP BY 1, 2",
    ] {
        assert_eq!(
            veil.rows_as(&Veil::requester(), sql).await.unwrap().len(),
            listed,
            "{sql}"
        );
    }
    let sql = "SELECT n.industry, i.south, count(*) FROM nls.interviews i JOIN nls.industries n \
        USING (industry_code) WHERE n.industry_code IN (1, 2) GROUP BY n.industry, \
        n.industry_code, \
        i.south";
    assert_eq!(
        veil.rows_as(&Veil::requester(), sql).await.unwrap().len(),
        2 * 3,
        "two industries, and south 0, 1 and NULL"
    );
}

const CODES: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}, per_query: {epsilon: 1, max_epsilon: \
    1}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 900, delta: 1e-7}}]
tables:
  public.visits: {unit: person, rows_per_unit: 5, other_columns: visible}
  public.codes: public
  public.single: public
  public.wide: public
";

/// Visits, and public tables of codes.
async fn coded() -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE TABLE visits (id int PRIMARY KEY, person int NOT NULL, code int);
             CREATE TABLE codes (code int PRIMARY KEY, kind text, sort text, rank int NOT NULL);
             CREATE TABLE single (code int, note bytea);
             CREATE TABLE wide (id int PRIMARY KEY, code int NOT NULL, other int);
             INSERT INTO visits SELECT g, g, 1 + g % 3 FROM generate_series(1, 300) g;
             INSERT INTO codes VALUES (1, 'Mine', 'a', 1), (2, 'Mill', NULL, 2), (3, 'Farm', 'a', \
             3), (4, 'Shop', 'b', 4);
             INSERT INTO single VALUES (1, NULL), (2, NULL);
             INSERT INTO wide SELECT g, g % 60, g % 59 FROM generate_series(1, 3000) g;";
        client.batch_execute(schema).await.unwrap();
    };
    Veil::over(fill, CODES, Veil::silent()).await
}

/// An outer join that keeps public rows shows a group if WHERE keeps one of its rows, whoever
/// visited.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_public_rows_are_those_that_where_keeps() {
    let veil = coded().await;
    let visited = |table: &str, visits: &str, rest: &str, key: &str| {
        format!(
            "SELECT {key}, count(v.person) FROM {table} c LEFT JOIN {visits} v ON v.code = c.code \
                {rest} GROUP BY 1"
        )
    };
    for (table, rest, key) in [
        ("codes", "WHERE c.kind LIKE 'M%'", "c.code"),
        (
            "codes",
            "WHERE c.kind LIKE 'M%' AND c.rank <> 1",
            "c.code % 2",
        ),
        ("codes", "WHERE c.rank > 100", "c.code"),
        ("codes", "", "c.kind"),
        ("codes", "", "c.sort"),
        ("codes", "WHERE c.rank = 2", "c.sort"),
        ("codes", "WHERE c.sort = 'a'", "c.sort"),
        ("codes", "", "c.rank > 100"),
        (
            "codes",
            "",
            "CASE WHEN c.rank > 100 THEN 'far' ELSE 'near' END",
        ),
        ("(SELECT * FROM codes WHERE kind = 'Farm')", "", "c.code"),
        ("single", "", "c.code"),
        ("wide", "WHERE c.code IN (1, 2, 99)", "c.code"),
        ("wide", "WHERE c.other IS NOT NULL", "c.other"),
    ] {
        let sql = visited(table, "visits", rest, key);
        let keys = |row: &str| row.split('|').next().unwrap_or_default().to_owned();
        let groups = veil
            .rows_as(&Veil::requester(), &sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        let mut ours: Vec<String> = groups.iter().map(|row| keys(row)).collect();
        ours.sort();
        let mut theirs = Vec::new();
        for message in veil.client.simple_query(&sql).await.unwrap() {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                theirs.push(row.get(0).unwrap_or("∅").to_owned());
            }
        }
        theirs.sort();
        assert_eq!(ours, theirs, "{sql}");
    }
    let none = visited("codes", "(SELECT * FROM visits WHERE 1 = 2)", "", "c.code");
    assert_eq!(
        veil.rows_as(&Veil::requester(), &none).await.unwrap(),
        ["1|0", "2|0", "3|0", "4|0"]
    );
    for (table, rest, key) in [
        ("codes", "WHERE c.kind < 'M'", "c.code"),
        (
            "codes",
            "WHERE CASE WHEN c.rank = 1 THEN true ELSE c.kind < 'M' END",
            "c.code",
        ),
        ("wide", "", "c.other"),
        ("wide", "WHERE c.id < 9", "c.code"),
    ] {
        let sql = visited(table, "visits", rest, key);
        let refused = veil.ask(&sql).await.map(|_| ()).unwrap_err().report();
        assert_eq!(refused.sqlstate, "0A000", "{sql}: {refused:?}");
        assert!(
            refused
                .message
                .contains("needs groups that are known to have a row"),
            "{sql}: {refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_public_rows_have_keys_and_aggregates_of_their_side() {
    let veil = coded().await;
    // Several rows may have the same keys of a set; the group comes once.
    let sets = "GROUP BY GROUPING SETS ((c.code % 2, c.sort, c.code), (c.code % 2, c.sort)) ORDER \
        BY 1, 2, 3";
    let sql = format!(
        "SELECT c.code % 2, c.sort, c.code, count(v.person) FROM codes c JOIN visits v ON v.code = \
            c.code {sets}"
    );
    veil.answers_as_postgresql(
        &Veil::requester(),
        &[&format!("SELECT * FROM ({sql}) q WHERE count > 0")],
    )
    .await;
    let strict = [
        "count(v.person + c.rank)",
        "regr_count(v.person, c.rank)",
        "regr_count(c.rank, v.person)",
        "count(DISTINCT -v.code)",
    ];
    for aggregate in strict {
        let sql = format!(
            "SELECT c.code, {aggregate} FROM codes c LEFT JOIN visits v ON v.code = c.code GROUP \
                BY \
                1 ORDER BY 1"
        );
        veil.answers_as_postgresql(&Veil::requester(), &[&sql])
            .await;
    }
    for (keys, aggregate) in [
        ("c.code, v.code % 2", "count(v.person)"),
        ("c.code, 1 + 1", "count(v.person)"),
        ("c.code", "regr_count(c.rank, c.code)"),
    ] {
        let sql = format!(
            "SELECT {keys}, {aggregate} FROM codes c LEFT JOIN visits v ON v.code = c.code GROUP \
                BY \
                {keys}"
        );
        let refused = veil.ask(&sql).await.map(|_| ()).unwrap_err().report();
        assert!(
            refused
                .message
                .contains("an outer join that keeps every row of a public table"),
            "{sql}: {refused:?}"
        );
    }
}

const LOOSE: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}, per_query: {epsilon: 1, max_epsilon: \
    1}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 900, delta: 1e-7}}]
tables:
  public.people:
    unit: id
    other_columns: visible
    columns: {big: {bounds: [0, 2147483647]}, huge: {bounds: [0, 9223372036854775807]}, small: \
    {bounds: [-32768, 32767]}, price: {bounds: [0, 99999.99]}}
  public.visits: \
  {unit: {path: [person -> public.people.id]}, rows_per_unit: 5, other_columns: visible, columns: \
  {word: visible}}
";

async fn loose() -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        let schema = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', \
            deterministic = false);
             CREATE TABLE people (id int PRIMARY KEY, name text COLLATE loose, big int, huge \
             bigint, small smallint, price numeric(7, 2));
             CREATE TABLE visits (id int PRIMARY KEY, person int NOT NULL REFERENCES people, word \
             text COLLATE loose, meta json, span interval);
             INSERT INTO people SELECT g, 'x', 2147483647, 9223372036854775807, 32767, 99999.99 \
             FROM generate_series(1, 5000) g;
             INSERT INTO visits SELECT g, g, 'a', '{}', '1 day' FROM generate_series(1, 5000) g;";
        client.batch_execute(schema).await.unwrap();
    };
    Veil::over(fill, LOOSE, Veil::silent()).await
}

/// A collation that takes different texts for equal, types without comparison, and intervals: cases
/// that would show one row's own spelling, or fail for some rows.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_equal_values_is_never_shown() {
    let veil = loose().await;
    let words = "(SELECT person, lower(word) AS w FROM visits) d";
    let refused = [
        (
            "its collation, grouped",
            format!(
                "SELECT count(*) FROM (SELECT person, max(w) AS m FROM \
            {words} GROUP BY person) g WHERE m = 'a'"
            ),
        ),
        (
            "its collation, in a window",
            format!(
                "SELECT count(*) FROM (SELECT max(w) OVER \
            (PARTITION \
            BY person) AS m FROM {words}) g WHERE m = 'a'"
            ),
        ),
        (
            "its collation, in a window",
            format!(
                "SELECT count(*) FROM (SELECT first_value(w) OVER (PARTITION BY person ORDER \
                BY \
                w) AS m FROM {words}) g WHERE m = 'a'"
            ),
        ),
        (
            "its collation, scalar",
            format!(
                "SELECT count(*) FROM people p WHERE (SELECT min(d.w) \
            FROM {words} WHERE d.person = p.id) = 'a'"
            ),
        ),
        (
            "its collation, most frequent",
            format!(
                "SELECT count(*) FROM (SELECT person, mode() WITHIN GROUP (ORDER BY w) AS m \
                FROM {words} GROUP BY person) g WHERE m = 'a'"
            ),
        ),
        (
            "its collation, as a key",
            format!("SELECT w, count(*) FROM {words} GROUP BY w"),
        ),
        (
            "its collation, counted",
            format!("SELECT count(DISTINCT w) FROM {words}"),
        ),
        (
            "no comparison",
            "SELECT count(*) FROM (SELECT person, count(DISTINCT (id, meta)) AS n FROM visits \
                GROUP \
                BY person) g WHERE n > 1"
                .to_owned(),
        ),
        (
            "no comparison",
            "SELECT count(*) FROM (SELECT DISTINCT word, meta FROM visits) g".to_owned(),
        ),
        (
            "an interval",
            "SELECT span, count(*) FROM visits GROUP BY span".to_owned(),
        ),
        (
            "an interval",
            "SELECT span + interval '1 day', count(*) FROM visits WHERE span IN \
            (interval '1 day') GROUP BY 1"
                .to_owned(),
        ),
        (
            "an interval",
            "SELECT count(*) FROM (SELECT DISTINCT person, span FROM visits) g WHERE \
            span = interval '1 day'"
                .to_owned(),
        ),
    ];
    for (why, sql) in refused {
        match veil.ask(&sql).await {
            Ok(_) => panic!("answered ({why}): {sql}"),
            Err(error) => assert!(
                ["0A000", "42883"].contains(&error.report().sqlstate.as_str()),
                "{sql}: {:?}",
                error.report()
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_point_of_a_grid_stays_inside_its_type() {
    let veil = loose().await;
    for (column, greatest) in [
        ("big", 2147483647.0),
        ("huge", 9.223372036854776e18),
        ("small", 32767.0),
        ("price", 99999.99),
    ] {
        let rows = veil
            .rows_as(
                &Veil::requester(),
                &format!("SELECT max({column}) FROM people"),
            )
            .await
            .unwrap_or_else(|e| panic!("{column}: {:?}", e.report()));
        let found: f64 = rows[0].parse().unwrap();
        assert!(
            found <= greatest && found >= greatest * 0.999,
            "{column}: {found}"
        );
    }
}

/// Groups come in the release's order: numbers by their value, texts by their bytes, NULL last. The
/// order in which the database found them does not show.
#[tokio::test(flavor = "multi_thread")]
async fn groups_come_in_the_order_of_their_keys() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let threshold = Requester {
        session_settings: SessionSettings {
            keys: KeyChoice::Threshold,
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let number = |text: &str| {
        if text == "∅" {
            f64::INFINITY
        } else {
            text.parse().unwrap()
        }
    };
    for (requester, sql) in [
        (
            &threshold,
            "SELECT weeks_worked, count(*) FROM nls.interviews GROUP BY 1",
        ),
        (
            &threshold,
            "SELECT union_member, weeks_worked, count(*) FROM nls.interviews GROUP BY 1, 2",
        ),
        (
            &Veil::requester(),
            "SELECT union_member, weeks_worked + hourly_wage * 0, count(*) FROM nls.interviews \
                GROUP BY 1, 2",
        ),
    ] {
        let rows = veil
            .rows_as(requester, sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {:?}", error.report()));
        let key = |row: &String| {
            row.rsplit_once('|').map_or(Vec::new(), |(keys, _)| {
                keys.split('|').map(number).collect::<Vec<f64>>()
            })
        };
        let keys: Vec<Vec<f64>> = rows.iter().map(key).collect();
        assert!(
            keys.iter().any(|key| key.last().is_some_and(|k| *k < 10.0))
                && keys.iter().any(|key| key.last() == Some(&52.0)),
            "{sql}: {rows:?}"
        );
        assert!(
            keys.iter().any(|key| key.contains(&f64::INFINITY)),
            "{sql}: {rows:?}"
        );
        assert!(keys.is_sorted(), "{sql}: {rows:?}");
        assert!(
            rows.len() < veil.direct(sql).await.len(),
            "{sql}: groups of few are shown"
        );
    }
    let rows = veil
        .rows_as(
            &threshold,
            "SELECT race, count(*) FROM nls.women GROUP BY 1",
        )
        .await
        .unwrap();
    assert!(rows.len() > 1 && rows.is_sorted(), "{rows:?}");
}
