//! Constructs within themselves, so deep that a parser which reads one of them twice at each level
//! would never end.

use pgveil::parse::{Statement, parse};
use pgveil::refusal::Refusal;
use pgveil::resolve::Constants;

use crate::fixture::Veil;
use crate::project::golden::terms;

/// Each with a place for the next one.
const NESTED: [&str; 44] = [
    "position('a' in @)",
    "1 IN (@)",
    "1 IN ((@), 2)",
    "(1, 2) IN ((@, 2), (3, 4))",
    "1 IN (SELECT @)",
    "interval(@)",
    "(SELECT interval(@) to)",
    "CASE WHEN @ THEN 1 END",
    "CASE @ WHEN 1 THEN 2 END",
    "case(@)",
    "cast(@)",
    "CAST(@ AS int)",
    "EXTRACT(year FROM @)",
    "extract(@, 1)",
    "substring(@, 1)",
    "SUBSTRING('a' FROM @)",
    "OVERLAY(@ PLACING 'a' FROM 1)",
    "overlay(@, 'a', 1)",
    "TRIM(BOTH @ FROM 'x')",
    "floor(@, a)",
    "f(@ => 1)",
    "f(a : @)",
    "f(a) FILTER (WHERE @)",
    "f(a) OVER (ORDER BY @)",
    "array[@]",
    "ARRAY(SELECT @)",
    "a[@]",
    "a.f(@)",
    "NOT (@)",
    "EXISTS (SELECT @)",
    "1 = ANY (@)",
    "1 BETWEEN (@) AND 2",
    "date(@)",
    "(SELECT * FROM ((SELECT @) a JOIN b ON true))",
    "(SELECT * FROM (((SELECT @) a JOIN t ON true) JOIN u ON true))",
    "(SELECT * FROM LATERAL f(@))",
    "(SELECT 1 GROUP BY GROUPING SETS ((@)))",
    "(WITH a AS (SELECT @) SELECT 1)",
    "((SELECT @) UNION ALL (SELECT 1))",
    "(VALUES (@))",
    "(VALUE (@))",
    "(VALUE (@), 2)",
    "f(VALUE (@), 2)",
    "(SELECT * FROM (VALUE (@)))",
];

fn nested(construct: &str, depth: usize) -> String {
    let within = (0..depth).fold("a".to_owned(), |within, _| construct.replace('@', &within));
    format!("SELECT {within} FROM t")
}

#[test]
fn nothing_is_read_anew_at_each_level() {
    for construct in NESTED {
        for depth in [4, 12, 40] {
            // Read or refused: it comes to an end.
            let _ = parse(&nested(construct, depth));
        }
    }
    // These are read in two ways at each level.
    let twice = [
        ("position(@, 'b')", 4),
        ("a.position(@, 'b')", 4),
        ("1 IN (((SELECT @) + 1))", 4),
        ("1 IN (VALUES (@), 2)", 4),
        ("1 IN (VALUE (@), 2)", 4),
        ("1 IN (UPDATE ((SELECT @)), 2)", 4),
        ("1 IN (SELECT (@), FROM (1))", 8),
    ];
    for (construct, most) in twice {
        let _ = parse(&nested(construct, most));
        for depth in [most + 1, 12, 40] {
            assert_eq!(
                parse(&nested(construct, depth)).unwrap_err().sqlstate,
                "54001",
                "{construct}"
            );
        }
    }
    for (construct, most) in [
        ("position('a' in @)", 4),
        ("1 IN (((SELECT @) + 1))", 4),
        ("1 IN (SELECT @)", 8),
    ] {
        assert!(parse(&nested(construct, most)).is_ok(), "{construct}");
    }
    // Next to each other there may be as many as one likes.
    assert!(
        parse(&format!(
            "SELECT 1{}",
            ", position((a), b) IN ((1), (2))".repeat(100)
        ))
        .is_ok()
    );
}

/// Queries, each naming the one before it twice.
fn doubled(link: impl Fn(usize) -> String, first: &str, last: &str, count: usize) -> String {
    let queries: Vec<String> = (1..count)
        .map(|at| format!("c{at} AS ({})", link(at - 1)))
        .collect();
    format!(
        "WITH c0 AS ({first}), {} {}",
        queries.join(", "),
        last.replace('@', &format!("c{}", count - 1))
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_planned_anew_at_each_level() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let policy = veil.engine.policy();
    let planned = |sql: &str| -> Result<(), Refusal> {
        let statements = parse(sql)?;
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}")
        };
        let constants = Constants {
            now: 848_880_000_000_000,
            role: "analyst".to_owned(),
            is_utc: true,
            signs_each: true,
            prints_plainly: true,
            session: Default::default(),
        };
        pgveil::engine::plan(
            query,
            policy,
            &["nls".to_owned()],
            &constants,
            &terms(policy),
        )
        .map(drop)
        .map_err(|error| error.report())
    };
    let public = |link: &str, count| {
        let link = |before: usize| link.replace('@', &format!("c{before}"));
        let last = "SELECT count(*) FROM nls.interviews i JOIN @ ON @.x = i.industry_code";
        doubled(
            link,
            "SELECT industry_code AS x FROM nls.industries",
            last,
            count,
        )
    };
    let private = |count| {
        let link = |before: usize| format!("SELECT x + x AS x, 1 - x AS y FROM c{before}");
        doubled(
            link,
            "SELECT birth_year::numeric AS x FROM nls.women",
            "SELECT sum(x), count(y) FROM @",
            count,
        )
    };
    let links = [
        "SELECT a.x FROM @ a, @ b",
        "SELECT x FROM @ WHERE x IN (SELECT x FROM @)",
        "SELECT (SELECT max(x) FROM @) + (SELECT min(x) FROM @) AS x",
    ];
    assert_eq!(
        planned(&public(links[0], 4)).map_err(|refusal| refusal.message),
        Ok(())
    );
    assert_eq!(
        planned(&private(6)).map_err(|refusal| refusal.message),
        Ok(())
    );
    for count in [14, 24, 60] {
        links
            .iter()
            .for_each(|link| assert!(planned(&public(link, count)).is_err(), "{link}"));
        assert_eq!(planned(&private(count)).unwrap_err().sqlstate, "54001");
    }
    let mut nested = "(SELECT birth_year::numeric AS x FROM nls.women)".to_owned();
    for _ in 0..24 {
        nested = format!("(SELECT CASE WHEN x > 1 THEN x ELSE x * 2 END AS x FROM {nested} t)");
    }
    assert_eq!(
        planned(&format!("SELECT avg(x) FROM {nested} t"))
            .unwrap_err()
            .sqlstate,
        "54001"
    );
}
