//! Statements of a few hundred words that stand for far more: refused before anything of theirs
//! grows. A test that fails takes all memory, or has no end.

use super::{ours, rich};
use crate::fixture::Veil;

/// `a0`, and each further name over the one before, by a text that has `{}` for it.
fn chain(first: &str, next: &str, links: usize) -> String {
    let further =
        (1..links).map(|n| format!(", a{n} AS ({})", next.replace("{}", &format!("a{}", n - 1))));
    format!("WITH a0 AS ({first}){}", further.collect::<String>())
}

/// Each level in the place of `{}` in the one around it, with `#` for its number.
fn nest(innermost: &str, around: &str, levels: usize) -> String {
    (0..levels).fold(innermost.to_owned(), |inner, n| {
        around.replace("{}", &inner).replace('#', &n.to_string())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_doubles_at_each_step_is_refused() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let women = "SELECT woman_id, birth_year AS x FROM nls.women";
    let doubled = "SELECT woman_id, x + x AS x FROM {}";
    let cases = [
        // Definitions of definitions: in sums, conditions, keys, windows, groups, arms, outer joins
        // and subqueries.
        (
            women,
            doubled,
            "SELECT sum(least(greatest(x, 0), 1)) FROM {}",
        ),
        (women, doubled, "SELECT count(*) FROM {} WHERE x > 3"),
        (women, doubled, "SELECT x, count(*) FROM {} GROUP BY x"),
        (women, doubled, "SELECT count(DISTINCT x) FROM {}"),
        (
            women,
            doubled,
            "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY woman_id ORDER BY x) AS \
                n \
                FROM {}) q WHERE n = 1",
        ),
        (
            women,
            doubled,
            "SELECT count(*) FROM (SELECT woman_id, max(x) AS m FROM {} GROUP BY woman_id) q WHERE \
                m > 3",
        ),
        (
            women,
            doubled,
            "SELECT count(*) FROM (SELECT x FROM {} UNION ALL SELECT birth_year FROM nls.women) q \
                WHERE x > 3",
        ),
        (
            women,
            doubled,
            "SELECT count(*) FROM nls.women w LEFT JOIN {} q ON q.woman_id = w.woman_id WHERE q.x \
                > \
                3",
        ),
        (
            women,
            doubled,
            "SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM {} q WHERE q.woman_id = \
                w.woman_id AND q.x > 3)",
        ),
        (
            women,
            "SELECT woman_id, CASE WHEN x = 1 THEN x ELSE x END AS x FROM {}",
            "SELECT count(*) FROM {} WHERE x IS NOT NULL",
        ),
        (
            women,
            "SELECT woman_id, (x = 1)::int + (x = 2)::int AS x FROM {}",
            "SELECT count(x) FROM {}",
        ),
        (
            "SELECT race AS x FROM nls.women",
            "SELECT x || x AS x FROM {}",
            "SELECT count(*) FROM {} WHERE x LIKE 'a%'",
        ),
        // Names of names of names.
        (
            "SELECT industry_code AS k FROM nls.industries",
            "SELECT a.k FROM {} a, {} b",
            "SELECT count(*) FROM nls.interviews v JOIN {} p ON p.k = v.industry_code",
        ),
        (
            women,
            "SELECT a.* FROM {} a JOIN {} b ON a.woman_id = b.woman_id",
            "SELECT count(*) FROM {}",
        ),
    ];
    for (first, next, last) in cases {
        for links in [8, 40] {
            let sql = format!(
                "{} {}",
                chain(first, next, links),
                last.replace("{}", &format!("a{}", links - 1))
            );
            let answer = ours(&veil, &sql).await;
            let refused = answer.as_ref().is_err_and(|e| e.starts_with("54001"));
            assert!(
                refused || (links == 8 && answer.is_ok()),
                "{sql}\n{answer:?}"
            );
        }
    }
    // A long statement that is no deeper is answered.
    let list: Vec<String> = (0..9_000).map(|n| n.to_string()).collect();
    let listed = format!(
        "SELECT count(*) FROM (SELECT * FROM nls.women WHERE woman_id IN ({})) q",
        list.join(", ")
    );
    assert!(ours(&veil, &listed).await.is_ok());
    // Lists of keys are looked up, also two of them; a computation on each value is evaluated for
    // each.
    let list = list.join(", ");
    let grouped = |more: &str| {
        format!(
            "SELECT woman_id + 0, count(*) FROM nls.women WHERE woman_id IN ({list}){more} GROUP \
                BY \
                1"
        )
    };
    let long = ours(&veil, &grouped("")).await;
    assert!(
        long.as_ref().is_ok_and(|rows| rows.len() == 9_000),
        "{:?}",
        long.map(|rows| rows.len())
    );
    let twice = ours(&veil, &grouped(&format!(" AND woman_id IN ({list}, 9001)"))).await;
    assert!(
        twice.as_ref().is_ok_and(|rows| rows.len() == 9_000),
        "{:?}",
        twice.map(|rows| rows.len())
    );
    let longer = ours(&veil, &grouped(&format!(" AND woman_id + 1 IN ({list})"))).await;
    assert!(
        longer.as_ref().is_err_and(|e| e.starts_with("54001")),
        "{:?}",
        longer.map(|rows| rows.len())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_much_in_all_is_refused() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    // Each call holds its operand in bounds, and writes it three times for that.
    let guarded = format!("{}birth_year::numeric{}", "exp(".repeat(6), ")".repeat(6));
    let columns: Vec<String> = (0..1600).map(|n| format!("{guarded} AS c{n}")).collect();
    let sums: Vec<String> = (0..100)
        .map(|n| format!("sum(least(greatest({guarded}, 0), {n} + 1))"))
        .collect();
    let releases: Vec<String> = (0..400)
        .map(|n| format!("r{n} AS (SELECT count(*) AS n FROM a60 WHERE x > {n})"))
        .collect();
    let steps = chain(
        "SELECT woman_id, birth_year AS x FROM nls.women",
        "SELECT * FROM {} WHERE x > 1",
        61,
    );
    let sum = format!("SELECT woman_id, x{} AS x FROM {{}}", " + 1".repeat(240));
    let deep = format!(
        "{} SELECT count(*) FROM a80 WHERE x > 1",
        chain("SELECT woman_id, birth_year AS x FROM nls.women", &sum, 81)
    );
    for sql in [
        deep,
        format!(
            "SELECT count(*) FROM (SELECT {} FROM nls.women) q",
            columns.join(", ")
        ),
        format!("SELECT {} FROM nls.women", sums.join(", ")),
        format!("{steps}, {} SELECT n FROM r0", releases.join(", ")),
        format!(
            "{} SELECT count(*) FROM a1500",
            chain(
                "SELECT * FROM nls.women",
                "SELECT * FROM {} WHERE birth_year > 1",
                1501
            )
        ),
        format!(
            "{} SELECT count(*) FROM a400",
            chain(
                "SELECT woman_id, 1 AS n FROM nls.women",
                "SELECT woman_id, count(*) AS n FROM {} GROUP BY woman_id HAVING count(*) > 0",
                401
            )
        ),
    ] {
        let answer = ours(&veil, &sql).await;
        assert!(
            answer.as_ref().is_err_and(|e| e.starts_with("54001")),
            "{}\n{answer:?}",
            &sql[..200]
        );
    }
}

/// A float's guard mentions its operand several times: products and quotients of each other, over
/// derived tables of derived tables, grow by so much at each and do not double.
#[tokio::test(flavor = "multi_thread")]
async fn guards_of_floats_do_not_double() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let pay = "(SELECT woman_id, (avg(power(hourly_wage::float8, 2)))::float8 AS x FROM \
        nls.interviews GROUP BY woman_id)";
    let shapes = [
        "({} * (x / (x + 0)))",
        "(x / {})",
        "power({}, 3)",
        "ln({} * x)",
        "sqrt(exp({}) / x)",
        "asin({} / 7)",
        "({} * {})",
        "make_date(extract(year FROM make_date({}::int, 1, 1))::int, 1, 1) - date '2000-01-01'",
    ];
    let kept = |value: &str| format!("least(greatest(({value})::float8, -5), 99.5)");
    for shape in shapes {
        for levels in [1, 3, 6, 12] {
            let value = (0..levels).fold("x".to_owned(), |inner, _| shape.replace("{}", &inner));
            if value.len() > 4_000 {
                continue;
            }
            for aggregate in ["stddev", "sum", "corr"] {
                let second = if aggregate == "corr" { ", x" } else { "" };
                let sql = format!("SELECT {aggregate}({}{second}) FROM {pay} v", kept(&value));
                let parsed = pgveil::parse::parse(&sql).unwrap();
                let [pgveil::parse::Statement::Query(query)] = parsed.as_slice() else {
                    panic!("{sql}")
                };
                match veil.engine.plan(&Veil::requester(), query).await {
                    Err(error) => assert!(
                        ["54001", "0A000"].contains(&error.report().sqlstate.as_str()),
                        "{sql}\n{:?}",
                        error.report()
                    ),
                    // This many bytes for each word and each coordinate, which writes its operands.
                    Ok((plan, _)) => {
                        let release = &plan.releases()[0];
                        let bytes: usize = release
                            .statements()
                            .iter()
                            .map(|statement| statement.sql().len())
                            .sum();
                        let most = release.coordinates().len() * (30_000 + 2_000 * value.len());
                        assert!(bytes < most, "{bytes} bytes: {sql}");
                    }
                }
            }
        }
    }
    // A statement from an outside review: 163 bytes took 200 MB and a second.
    let sent = format!("SELECT stddev({}) FROM {pay} v", kept("x * (x / (x + 0))"));
    assert!(ours(&veil, &sent).await.is_ok());
}

/// A construct that is parsed in several ways is tried in all of them at each level.
#[tokio::test(flavor = "multi_thread")]
async fn subqueries_in_subqueries_have_an_end() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for (innermost, around, outermost) in [
        (
            "SELECT z.woman_id FROM nls.interviews z",
            "SELECT t#.woman_id FROM nls.interviews t# WHERE t#.woman_id IN ({}) GROUP BY \
                t#.woman_id HAVING count(*) > 1",
            "SELECT count(*) FROM nls.women w WHERE w.woman_id IN ({})",
        ),
        (
            "SELECT woman_id, year FROM nls.interviews",
            "SELECT w#.woman_id, w#.year FROM nls.interviews w# WHERE w#.age > (SELECT \
                avg(q#.year) \
                FROM ({}) q# WHERE q#.woman_id = w#.woman_id)",
            "SELECT count(*) FROM ({}) q",
        ),
        (
            "SELECT woman_id, year FROM nls.interviews",
            "SELECT w#.woman_id, w#.year FROM nls.interviews w# WHERE w#.age > (SELECT \
                avg(q#.year) \
                FROM ({}) q# WHERE q#.year = w#.age)",
            "SELECT count(*) FROM ({}) q",
        ),
        (
            "SELECT 1 FROM nls.industries z",
            "SELECT 1 FROM nls.industries t# WHERE t#.industry_code = (SELECT \
                max(s#.industry_code) \
                FROM nls.industries s# WHERE s#.industry = t#.industry AND EXISTS ({}))",
            "SELECT count(*) FROM nls.interviews v WHERE EXISTS ({})",
        ),
        (
            "SELECT 1 FROM (VALUES (1)) v(a)",
            "SELECT 1 FROM (VALUES (1), (2)) t#(a) WHERE t#.a > 0 AND EXISTS ({})",
            "SELECT count(*) FROM nls.women WHERE EXISTS ({})",
        ),
    ] {
        for levels in [2, 7, 15, 30] {
            let sql = outermost.replace("{}", &nest(innermost, around, levels));
            if let Err(refused) = ours(&veil, &sql).await {
                assert!(
                    refused.starts_with("54001") || refused.starts_with("0A000"),
                    "{sql}\n{refused}"
                );
            }
        }
    }
}
