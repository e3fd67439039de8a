//! The most expensive plans that random questions find, in time and in memory: guarded expressions
//! within each other, over derived tables of derived tables. `cargo bench --bench worst`, with
//! `SECONDS=600` for a longer search and `SEED` for another one. Memory is the process's own
//! high-water mark above what it was before.
#![allow(dead_code)]

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::time::{Duration, Instant};

use pgveil::mechanism::{AccountState, Cap, Fixed, Loss};
use pgveil::parse::{Statement, parse};
use pgveil::resolve::Constants;
use pgveil::rewrite::Terms;

/// Numbers from a seed: the generator of Knuth's MMIX.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    /// An expression of a type: `#` stands for a float, `@` for a numeric, `?` for an integer, and
    /// `x`, `n` and `i` are columns.
    fn value(&mut self, kind: char, depth: usize) -> String {
        let (leaves, forms): (&[&str], &[&str]) = match kind {
            '#' => (
                &["x", "1.5::float8", "i::float8", "n::float8"],
                &[
                    "(# * #)",
                    "(# / #)",
                    "(# + #)",
                    "power(#, 3)",
                    "power(#, -0.5)",
                    "exp(#)",
                    "ln(#)",
                    "sqrt(#)",
                    "atanh(#)",
                    "least(#, #)",
                    "greatest(#, 7)",
                    "(@)::float8",
                    "CASE WHEN # > # THEN # ELSE # END",
                    "nullif(#, #)",
                    "coalesce(#, #)",
                    "(#)::float4::float8",
                    "sinh(#)",
                ],
            ),
            '@' => (
                &["n", "2.5", "i::numeric"],
                &[
                    "(@ * @)",
                    "(@ / @)",
                    "(@ - @)",
                    "power(@, 2)",
                    "ln(@)",
                    "sqrt(@)",
                    "round(@, 2)",
                    "(#)::numeric",
                    "(@)::numeric(12,3)",
                    "least(@, @)",
                    "exp(@)",
                ],
            ),
            _ => (
                &["i", "7", "(n)::int"],
                &[
                    "(? * ?)",
                    "(? / ?)",
                    "(? + ?)",
                    "(?)::bigint::int",
                    "gcd(?, ?)",
                    "(#)::int",
                    "extract(year FROM make_date(?, ?, 1))::int",
                    "length((?)::text)",
                ],
            ),
        };
        if depth == 0 {
            return self.of(leaves).to_owned();
        }
        let form = self.of(forms);
        form.chars()
            .map(|c| {
                if matches!(c, '#' | '@' | '?') {
                    let less = 1 + self.below(2);
                    self.value(c, depth.saturating_sub(less))
                } else {
                    c.to_string()
                }
            })
            .collect()
    }

    fn question(&mut self) -> String {
        let depth = 1 + self.below(5);
        let mut from = "(SELECT woman_id, (avg(power(hourly_wage::float8, 2)))::float8 AS x, \
            max(hourly_wage) AS n, count(*) AS i FROM nls.interviews GROUP BY woman_id) v"
            .to_owned();
        for level in 0..self.below(5) {
            let depth = self.below(3);
            let [x, n, i] = ['#', '@', '?'].map(|kind| self.value(kind, depth));
            from = format!("(SELECT woman_id, {x} AS x, {n} AS n, {i} AS i FROM {from}) d{level}");
        }
        let kind = ['#', '@', '?'][self.below(3)];
        let aggregates: Vec<String> = (0..1 + self.below(3))
            .map(|_| {
                let (one, other) = (self.value(kind, depth), self.value(kind, depth));
                let form = self.of(&[
                    "stddev(A)",
                    "sum(A)",
                    "avg(A)",
                    "corr(A, B)",
                    "regr_slope(A, B)",
                    "var_pop(A)",
                    "percentile_cont(0.5) WITHIN GROUP (ORDER BY A)",
                    "count(*) FILTER (WHERE A > B)",
                ]);
                form.replace('A', &format!("least(greatest({one}, -5), 99.5)"))
                    .replace('B', &format!("least(greatest({other}, -5), 99.5)"))
            })
            .collect();
        format!("SELECT {} FROM {from}", aggregates.join(", "))
    }
}

/// Conditions of 5,000 terms.
fn chains() -> Vec<(&'static str, String)> {
    let chain =
        |by: &str, term: fn(usize) -> String| (0..5_000).map(term).collect::<Vec<_>>().join(by);
    let women = |condition: String| format!("SELECT count(*) FROM nls.women WHERE {condition}");
    vec![
        ("OR", women(chain(" OR ", |at| format!("woman_id = {at}")))),
        (
            "AND",
            women(chain(" AND ", |at| format!("woman_id <> {at}"))),
        ),
        (
            "OR of AND",
            women(chain(" OR ", |at| {
                format!("(woman_id = {at} AND birth_year > 1945)")
            })),
        ),
        (
            "IN",
            women(format!(
                "woman_id IN ({})",
                chain(", ", |at| at.to_string())
            )),
        ),
        (
            "CASE",
            format!(
                "SELECT sum(CASE {} END) FROM nls.women",
                chain(" ", |at| format!("WHEN woman_id = {at} THEN {}", at % 7))
            ),
        ),
        (
            "UNION ALL",
            chain(" UNION ALL ", |at| {
                format!("SELECT {at}, industry FROM nls.industries")
            }),
        ),
    ]
}

fn high_water() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        status.lines().find_map(|line| {
            line.strip_prefix(name)?
                .trim()
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
    };
    line("VmHWM:").unwrap_or(0)
}

#[allow(clippy::too_many_lines, reason = "one step after another")]
fn main() {
    let number = |name: &str, usual: u64| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usual)
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let veil = runtime.block_on(fixture::Veil::demo(|yaml| yaml, None));
    let policy = veil.engine.policy();
    let privacy = &policy.privacy;
    let cap = Cap::new(
        Fixed::round_down(3.0),
        Fixed::round_down(1e-7),
        Fixed::round_down(privacy.threshold_share),
        privacy.accounting,
    )
    .expect("a cap");
    let terms = Terms {
        epsilon: privacy.epsilon_default,
        delta: 1e-7,
        accounts: vec![
            AccountState {
                cap,
                spent: Loss::ZERO
            };
            2
        ],
        session_settings: pgveil::policy::SessionSettings::with_fixed_clips(),
        ranges: Vec::new(),
    };
    let constants = Constants {
        now: 0,
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
        role: "analyst".to_owned(),
    };
    let path = ["public".to_owned()];
    let measured = |sql: &str| {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (before, start) = (high_water(), Instant::now());
        let statements = parse(sql).ok()?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return None;
        };
        let plan = pgveil::engine::plan(query, policy, &path, &constants, &terms);
        Some((
            start.elapsed(),
            high_water().saturating_sub(before) / 1024,
            plan.map_or_else(|e| e.report().message, |_| "planned".to_owned()),
        ))
    };
    for (name, sql) in chains() {
        println!("{name}: {:?}", measured(&sql));
    }
    let (mut draw, end) = (
        Draw(number("SEED", 1)),
        Instant::now() + Duration::from_secs(number("SECONDS", 60)),
    );
    let (mut asked, mut planned) = (0, 0);
    let (mut longest, mut largest) = ((Duration::ZERO, String::new()), (0, String::new()));
    while Instant::now() < end {
        let sql = draw.question();
        let Some((took, grown, outcome)) = measured(&sql) else {
            continue;
        };
        asked += 1;
        planned += usize::from(outcome == "planned");
        if took > longest.0 {
            longest = (took, format!("{} bytes, {outcome}: {sql}", sql.len()));
        }
        if grown > largest.0 {
            largest = (grown, format!("{} bytes, {outcome}: {sql}", sql.len()));
        }
    }
    println!(
        "{asked} questions, {planned} planned\nlongest {:?}, {}\nlargest {} MB, {}",
        longest.0, longest.1, largest.0, largest.1
    );
    drop(runtime.enter());
    drop(veil);
}
