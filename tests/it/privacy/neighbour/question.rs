//! Random whole statements: releases over every shape of FROM, and the analyst's own SQL above
//! them.

use super::grammar::{Grammar, sets, source};
use super::random::Random;
use super::subqueries::membership;

/// A statement, and how many of its first columns are group keys, each group shown once and none
/// left out. `None` where its own SQL chooses among rows.
pub struct Question {
    pub sql: String,
    pub keys: Option<usize>,
}

/// One statement of the language in scope.
pub fn question(random: &mut Random) -> Question {
    if random.once_in(3) {
        above(random)
    } else {
        plain(random)
    }
}

/// One SELECT with its releases' clauses, still in parts.
struct Release {
    with: String,
    from: String,
    condition: String,
    keys: Vec<String>,
    grouped: String,
    aliases: Vec<&'static str>,
}

impl Release {
    fn random(random: &mut Random, keys: usize) -> Self {
        let (with, from, aliases) = source(random);
        let mut grammar = Grammar { random, aliases };
        let keys: Vec<String> = (0..keys).map(|_| grammar.key()).collect();
        let mut condition = if grammar.random.once_in(2) {
            format!(" WHERE {}", grammar.condition(2))
        } else {
            String::new()
        };
        if let Some(unit) = grammar.unit()
            && grammar.random.once_in(4)
        {
            let alias = grammar.aliases[0];
            let joined = if condition.is_empty() {
                " WHERE "
            } else {
                " AND "
            };
            condition += &format!("{joined}{}", membership(grammar.random, alias, unit));
        }
        let grouped = match grammar.random.below(4) {
            _ if keys.is_empty() => String::new(),
            3 => format!(" GROUP BY {}", sets(grammar.random, &keys)),
            0 => format!(
                " GROUP BY {}",
                (1..=keys.len())
                    .map(|i| i.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            1 => format!(
                " GROUP BY {}",
                (0..keys.len())
                    .map(|i| format!("key{i}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            _ => format!(" GROUP BY {}", keys.join(", ")),
        };
        let aliases = grammar.aliases;
        Self {
            with,
            from,
            condition,
            keys,
            grouped,
            aliases,
        }
    }

    fn grammar<'r>(&self, random: &'r mut Random) -> Grammar<'r> {
        Grammar {
            random,
            aliases: self.aliases.clone(),
        }
    }

    /// Its keys as `key0`, … and then these.
    fn select(&self, items: &[String]) -> String {
        let keys = self
            .keys
            .iter()
            .enumerate()
            .map(|(i, key)| format!("{key} AS key{i}"));
        let items: Vec<String> = keys.chain(items.iter().cloned()).collect();
        format!(
            "{}SELECT {} FROM {}{}{}",
            self.with,
            items.join(", "),
            self.from,
            self.condition,
            self.grouped
        )
    }

    /// Its keys, and two numbers `a0` and `a1`.
    fn measured(&self, random: &mut Random) -> String {
        let mut grammar = self.grammar(random);
        let items = [
            format!("{} AS a0", grammar.measure()),
            format!("{} AS a1", grammar.measure()),
        ];
        self.select(&items)
    }
}

/// Aggregates with HAVING, ORDER BY and LIMIT.
fn plain(random: &mut Random) -> Question {
    let keys = [0, 0, 1, 1, 1, 2][random.below(6)];
    let release = Release::random(random, keys);
    if keys > 0 && random.once_in(8) {
        let Release {
            with,
            from,
            condition,
            keys,
            ..
        } = &release;
        return Question {
            sql: format!(
                "{with}SELECT DISTINCT {} FROM {from}{condition}",
                keys.join(", ")
            ),
            keys: Some(keys.len()),
        };
    }
    let mut grammar = release.grammar(random);
    let aggregates: Vec<String> = (0..1 + grammar.random.below(3))
        .map(|_| grammar.aggregate())
        .collect();
    let having = if grammar.random.once_in(5) {
        format!(" HAVING {} > 1", grammar.aggregate())
    } else {
        String::new()
    };
    let tail = grammar
        .random
        .pick(&["", "", " ORDER BY 1", " ORDER BY 1 LIMIT 3", " LIMIT 0"]);
    let is_whole = having.is_empty() && !tail.contains("LIMIT");
    Question {
        sql: format!("{}{having}{tail}", release.select(&aggregates)),
        keys: is_whole.then_some(keys),
    }
}

/// A statement over released rows.
fn above(random: &mut Random) -> Question {
    let whole = |sql, keys| Question {
        sql,
        keys: Some(keys),
    };
    let chosen = |sql| Question { sql, keys: None };
    match random.below(12) {
        0 => whole(arithmetic(random), 1),
        1 => whole(windows(random), 1),
        2 => {
            let inner = Release::random(random, 1).measured(random);
            chosen(format!(
                "SELECT count(*), max(r.a0), round(avg(r.a1)::numeric, 1) FROM ({inner}) AS r \
                    WHERE \
                    r.a0 > 1 OR r.a1 IS NULL"
            ))
        }
        3 => {
            let inner = Release::random(random, 1).measured(random);
            chosen(format!(
                "WITH r AS ({inner}) SELECT a.key0, a.a0, b.a1 FROM r AS a JOIN r AS b ON a.key0 \
                    IS \
                    NOT DISTINCT FROM b.key0 ORDER BY 1"
            ))
        }
        4 => {
            let (one, two) = (
                Release::random(random, 0).measured(random),
                Release::random(random, 0).measured(random),
            );
            whole(
                format!(
                    "SELECT 'one' AS part, a0::numeric FROM ({one}) AS r UNION ALL SELECT 'two', \
                        s.a1::numeric FROM ({two}) AS s"
                ),
                1,
            )
        }
        5 => {
            let scalar = |random: &mut Random| {
                let release = Release::random(random, 0);
                let measure = release.grammar(random).measure();
                release.select(&[measure])
            };
            let (one, two) = (scalar(random), scalar(random));
            whole(
                format!(
                    "SELECT ({one}) AS a, coalesce(({two}) - 1, 0) AS b, (SELECT count(*) FROM \
                        towns) AS c"
                ),
                0,
            )
        }
        6 => whole(kept(random), 1),
        7 => {
            let inner = Release::random(random, 1).measured(random);
            whole(
                format!(
                    "SELECT r.key0, r.a0, t.region FROM ({inner}) AS r LEFT JOIN towns AS t ON \
                        t.code = r.key0::text"
                ),
                1,
            )
        }
        8 => {
            let (one, two) = (
                Release::random(random, 0).measured(random),
                Release::random(random, 0).measured(random),
            );
            let between = random.pick(&["INTERSECT", "EXCEPT", "UNION", "UNION ALL"]);
            chosen(format!("({one}) {between} ({two})"))
        }
        9 => {
            let inner = Release::random(random, 1).measured(random);
            chosen(format!(
                "SELECT DISTINCT ON (r.a0) r.a0, l.b FROM ({inner}) AS r, LATERAL (SELECT r.a1 + 1 \
                    AS b) AS l ORDER BY r.a0, l.b"
            ))
        }
        10 => {
            let inner = Release::random(random, 1).measured(random);
            chosen(format!(
                "SELECT g.n, r.a0 FROM generate_series(1, 3) AS g(n) LEFT JOIN ({inner}) AS r ON \
                    r.a0 > g.n"
            ))
        }
        _ => {
            let (one, two) = (
                Release::random(random, 0).measured(random),
                Release::random(random, 0).measured(random),
            );
            whole(
                format!(
                    "WITH a AS ({one}), b AS ({two}) SELECT a.a0 * 100.0 / nullif(b.a1, 0), a.a1 \
                        FROM a, b"
                ),
                0,
            )
        }
    }
}

fn arithmetic(random: &mut Random) -> String {
    let release = Release::random(random, 1);
    let mut grammar = release.grammar(random);
    let (a, b, c) = (grammar.measure(), grammar.measure(), grammar.measure());
    release.select(&[
        format!("coalesce(round(({a})::numeric, 2), 0) + 1"),
        format!("({b}) * 100.0 / nullif(count(*), 0)"),
        format!("CASE WHEN count(*) > 3 THEN {c} END"),
    ])
}

fn windows(random: &mut Random) -> String {
    let release = Release::random(random, 1);
    let measure = release.grammar(random).measure();
    release.select(&[
        "count(*)".to_owned(),
        "rank() OVER (ORDER BY count(*) DESC)".to_owned(),
        "sum(count(*)) OVER ()".to_owned(),
        format!("{measure} - lag({measure}) OVER (ORDER BY count(*))"),
    ])
}

/// A public table whose rows are all kept.
fn kept(random: &mut Random) -> String {
    let mut grammar = Grammar {
        random,
        aliases: vec!["v"],
    };
    let condition = if grammar.random.once_in(2) {
        format!(" AND {}", grammar.condition(1))
    } else {
        String::new()
    };
    let key = grammar.random.pick(&["t.code", "t.region", "t.weight"]);
    let aggregate = grammar.random.pick(&[
        "sum(v.i4)",
        "count(DISTINCT v.person)",
        "avg(v.n2)",
        "sum(v.ni) FILTER (WHERE v.b)",
        "max(v.i4)",
    ]);
    let filtered = grammar.random.pick(&["", " WHERE t.weight IS NOT NULL"]);
    let from = grammar
        .random
        .pick(&["towns t LEFT JOIN visits v", "visits v RIGHT JOIN towns t"]);
    format!(
        "SELECT {key}, count(v.id), {aggregate} FROM {from} ON v.town = \
            t.code{condition}{filtered} \
            GROUP BY 1"
    )
}

/// A word of each construct: a run of some hundred questions holds them all.
pub const CONSTRUCTS: &[&str] = &[
    " JOIN ",
    " LEFT JOIN ",
    "RIGHT JOIN",
    "WITH ",
    "UNION ALL",
    "SELECT DISTINCT ",
    "DISTINCT ON",
    "row_number()",
    "lag(",
    "GROUP BY x.person",
    "HAVING",
    "ROLLUP",
    "CUBE",
    "GROUPING SETS",
    "FILTER",
    "LIMIT 0",
    "LIMIT 3",
    "ORDER BY 1",
    "EXISTS",
    "NOT IN (SELECT",
    " = ANY",
    "<> ALL",
    "(SELECT count(*)",
    "(SELECT max(",
    "percentile_cont",
    "percentile_disc",
    "ARRAY[",
    "mode()",
    "min(",
    "max(",
    "count(DISTINCT (",
    "stddev",
    "corr(",
    "regr_",
    "linregr(",
    "pca(",
    "bool_and",
    "width_bucket",
    "date_trunc",
    "extract(",
    "CASE WHEN",
    "LIKE",
    "SIMILAR TO",
    " ~ ",
    "IS DISTINCT FROM",
    "rank() OVER",
    "LATERAL",
    "generate_series",
    "EXCEPT",
    "m.kd",
    "FROM towns",
];
