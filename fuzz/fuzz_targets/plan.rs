//! Any text as SQL, its first byte choosing policy and settings: nothing panics; a plan that is
//! made is the same each time, is described, and is printed as statements that parse. Only long
//! statements show the cost in time and stack, so some inputs are others with a piece repeated many
//! times, side by side or nested.
#![no_main]

mod world;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use pgveil::mechanism::{AccountState, Cap, Fixed, Loss};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{KeyChoice, Policy, SessionSettings};
use pgveil::resolve::Constants;
use pgveil::rewrite::{Plan, Terms};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

fn terms(policy: &Policy, choice: u8) -> Terms {
    let fixed = Fixed::round_down;
    let cap = Cap::new(
        fixed(3.0),
        fixed(1e-6),
        fixed(0.005),
        policy.privacy.accounting,
    )
    .unwrap();
    let keys = [
        KeyChoice::Auto,
        KeyChoice::Auto,
        KeyChoice::Domain,
        KeyChoice::Threshold,
    ][usize::from(choice % 4)];
    let mut session_settings = SessionSettings {
        keys,
        ..SessionSettings::default()
    };
    if choice & 4 != 0 {
        session_settings
            .set("pgveil.target_error", "100, 10%")
            .unwrap();
    }
    if choice & 8 != 0 {
        session_settings
            .set("pgveil.max_rows_per_unit", "2")
            .unwrap();
    }
    let accounts = vec![
        AccountState {
            cap,
            spent: Loss::ZERO
        };
        2
    ];
    Terms {
        epsilon: if choice & 16 == 0 { 0.5 } else { 0.01 },
        delta: 1e-6,
        accounts,
        session_settings,
        ranges: Vec::new(),
    }
}

fn planned(query: &Query, choice: u8) -> Option<(&'static Policy, Plan)> {
    let policy = &world::POLICIES[usize::from(choice / 32) % world::POLICIES.len()];
    let constants = Constants {
        now: 848_880_000_000_000,
        role: "analyst".to_owned(),
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
    };
    let path = ["nls".to_owned(), "public".to_owned()];
    pgveil::engine::plan(query, policy, &path, &constants, &terms(policy, choice))
        .ok()
        .map(|plan| (policy, plan))
}

/// Emitted SQL may nest deeper than a client's.
fn is_read_back(sql: &str) -> bool {
    let read = || {
        Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(1000)
            .try_with_sql(sql)?
            .parse_statements()
    };
    pgveil::parse::with_room(read)
        .is_ok_and(|parsed| parsed.len() == 1 && parsed[0].to_string() == sql)
}

fn all_of(plan: &Plan) -> Vec<String> {
    let below = plan
        .releases()
        .iter()
        .flat_map(|release| release.statements());
    below
        .map(|statement| statement.sql().to_owned())
        .chain([pgveil::finish::shape(plan).unwrap_or_else(|e| panic!("{e:?}"))])
        .collect()
}

/// Numbers from a seed: the generator of Knuth's MMIX.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

/// Where words and signs begin and end.
fn described_of(plan: &Plan) -> Vec<String> {
    pgveil::engine::describe_plan(plan, 1e-7, pgveil::engine::Sql::Shown)
}

fn edges(text: &[u8]) -> Vec<usize> {
    let class = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.' | b'$' | 128.. => 0,
        b' ' | b'\n' => 1,
        // Each bracket and sign for itself.
        other => other,
    };
    let inner = (1..text.len())
        .filter(|&at| class(text[at - 1]) != class(text[at]) || matches!(text[at], b'(' | b')'));
    [0].into_iter().chain(inner).chain([text.len()]).collect()
}

/// The text as five pieces, at edges not far from each other: the second and fourth are repeated
/// many times, `f(f(f(x)))`; or the second alone, `a, a, a`.
fn repeated(text: &[u8], room: usize, draw: &mut Draw) -> Vec<u8> {
    let edges = edges(text);
    let mut cuts = [0; 4];
    cuts[0] = draw.below(edges.len());
    for at in 1..4 {
        cuts[at] = (cuts[at - 1] + draw.below(8)).min(edges.len() - 1);
    }
    let [a, b, c, d] = cuts.map(|cut| edges[cut]);
    let nests = draw.below(2) == 0;
    let (left, right) = (&text[a..b], if nests { &text[c..d] } else { &[][..] });
    let most = room.saturating_sub(text.len()) / (left.len() + right.len()).max(1);
    let times = 1 + [1, 7, 63, most][draw.below(4)].min(most);
    let tail = if nests { &text[d..] } else { &text[c..] };
    [
        &text[..a],
        &left.repeat(times),
        &text[b..c],
        &right.repeat(if nests { times } else { 0 }),
        tail,
    ]
    .concat()
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut draw = Draw(u64::from(seed));
    if size < 2 || draw.below(8) != 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let text = repeated(&data[1..size], max_size - 1, &mut draw);
    let kept = text.len().min(max_size - 1);
    data[1..=kept].copy_from_slice(&text[..kept]);
    1 + kept
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let Ok(statements) = parse(text) else { return };
    for statement in &statements {
        let (Statement::Query(query) | Statement::Explain(query, _)) = statement else {
            continue;
        };
        let Some((_, plan)) = planned(query, *choice) else {
            continue;
        };
        let statements = all_of(&plan);
        for sql in &statements {
            assert!(is_read_back(sql), "{sql}");
        }
        let described = described_of(&plan);
        assert!(!described.is_empty());
        let (_, again) = planned(query, *choice).expect("what is planned once is planned again");
        assert_eq!(
            (statements, described),
            (all_of(&again), described_of(&again)),
            "a plan is a pure function"
        );
    }
});
