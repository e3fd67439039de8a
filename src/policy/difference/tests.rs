//! Changes of the demo's policy, with their meanings.

mod loosening;
mod reports;

use super::Difference;
use crate::policy::File;

fn file(text: &str) -> File {
    let environment = |name: &str| {
        Some(match name {
            "PGVEIL_LEDGER" => "sqlite:///a.db".to_owned(),
            _ => "postgresql://h/d".to_owned(),
        })
    };
    File::parse("p.yaml", text, environment).unwrap()
}

fn between(from: &str, to: &str) -> Difference {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    assert!(demo.contains(from), "{from}");
    Difference::between(&file(&demo), &file(&demo.replacen(from, to, 1)))
}

#[test]
fn layout_and_comments_are_no_change() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let plain: Vec<&str> = demo
        .lines()
        .map(|l| l.split(" #").next().unwrap_or(l))
        .collect();
    let difference = Difference::between(&file(&demo), &file(&plain.join("\n")));
    assert_eq!(difference, Difference::default());
}

/// A change, its replacement text, and what it loosens in either direction.
const CASES: [(&str, &str, &str); 16] = [
    (
        "epsilon: 3, delta: 1e-7,",
        "epsilon: 4, delta: 1e-7,",
        "epsilon of role analyst rises from 3 to 4",
    ),
    (
        "renew: never}",
        "renew: never}\n    certificate: required",
        "role analyst needs no certificate",
    ),
    (
        "renew: never}",
        "renew: never}\n    reuse: always",
        "role analyst may buy an answer again",
    ),
    (
        "  nls.industries: public",
        "  nls.industries: public\n  nls.more: {unit: {path: [a -> nls.women.woman_id]}}",
        "nls.more may be asked about; its unit is found by a -> nls.women.woman_id",
    ),
    (
        "epsilon: 8,",
        "epsilon: 9,",
        "epsilon of privacy.budget rises from 8 to 9",
    ),
    (
        "delta: 1e-7,",
        "delta: 2e-7,",
        "delta of role analyst rises from ",
    ),
    (
        "max_epsilon: 1}",
        "max_epsilon: 2}",
        "the most that a query may spend rises",
    ),
    (
        "max_epsilon: 1}",
        "max_epsilon: 1, min_epsilon: 0.001}",
        "the least that a query",
    ),
    (
        "renew: never",
        "renew: weekly",
        "the budget of role analyst is renewed weekly",
    ),
    (
        "failures: 10 ",
        "failures: 11 ",
        "limits.failures rises from 10 to 11",
    ),
    (
        "birth_year: {bounds: [1941, 1954]}",
        "birth_year: hidden",
        "nls.women.birth_year is",
    ),
    (
        "{path: [woman_id -> nls.women.woman_id]}",
        "{path: [woman_id -> nls.women.woman_id], trusted_path: true}",
        "the path of nls.interviews",
    ),
    (
        "    rows_per_unit: 15",
        "    other_columns: visible\n    rows_per_unit: 15",
        "columns of",
    ),
    (
        "{values: [0, 1], complete: true}",
        "{values: [0, 1]}",
        "nls.women.college_graduate is",
    ),
    (
        "limits:",
        "timing: {quantum: 100ms}\nlimits:",
        "timing.quantum",
    ),
    (
        "  nls.industries: public",
        "",
        "every row of nls.industries",
    ),
];

#[test]
fn what_loosens_one_way_tightens_the_other() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    for (from, to, words) in CASES {
        // Industries are a domain of another column.
        let demo = demo.replace(
            "{domain: nls.industries.industry_code, complete: true}",
            "visible",
        );
        assert!(demo.contains(from), "{from}");
        let changed = demo.replacen(from, to, 1);
        let (there, back) = (
            Difference::between(&file(&demo), &file(&changed)),
            Difference::between(&file(&changed), &file(&demo)),
        );
        let all: Vec<&String> = there.loosens.iter().chain(&back.loosens).collect();
        assert_eq!(all.len(), 1, "{to}: {there:?} {back:?}");
        assert!(all[0].starts_with(words), "{all:?}");
        assert_eq!(
            there.tightens.len() + back.tightens.len(),
            1,
            "{to}: {there:?} {back:?}"
        );
    }
}

/// Each limit, with another value.
#[test]
fn every_limit_is_seen() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let (head, tail) = demo.split_once("limits:\n").unwrap();
    let rest = tail
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with(' '));
    let rest: Vec<&str> = rest.collect();
    let with = |limits: &str| file(&format!("{head}limits: {{{limits}}}\n{}", rest.join("\n")));
    let fixed = "failures: 7";
    for key in crate::policy::KEYS {
        let Some(name) = key.path.strip_prefix("limits.") else {
            continue;
        };
        let (old, new) = match name {
            "failures" => (with("failures: 7"), with("failures: 8")),
            "stream_rows" => (with(fixed), with("failures: 7, stream_rows: false")),
            "statement_timeout" => (with(fixed), with("failures: 7, statement_timeout: 59s")),
            name => (with(fixed), with(&format!("failures: 7, {name}: 17"))),
        };
        let difference = Difference::between(&old, &new);
        let seen: Vec<_> = difference
            .lines()
            .filter(|(kind, _)| *kind != "costs")
            .collect();
        assert_eq!(seen.len(), 1, "{name}: {difference:?}");
        assert!(seen[0].1.starts_with(key.path), "{seen:?}");
        let clips = ["groups_per_unit", "rows_per_unit", "groups"];
        assert_eq!(
            difference.costs.len(),
            usize::from(clips.contains(&name)),
            "{name}: {difference:?}"
        );
    }
}

/// A list that is complete and becomes shorter answers more questions free.
#[test]
fn another_complete_list_loosens() {
    let fewer = between(
        "college_graduate: {values: [0, 1], complete: true}",
        "college_graduate: {values: [0], complete: true}",
    );
    assert_eq!(
        fewer.loosens,
        ["nls.women.college_graduate is values [0], not values [0, 1]"]
    );
}

/// Texts that read alike are distinguished.
#[test]
fn what_differs_has_words_that_differ() {
    for (one, other) in [
        ("{values: [a, b]}", "{values: [\"a, b\"]}"),
        ("{bounds: [auto, 5]}", "{bounds: [\"auto\", 5]}"),
        ("{domain: nls.a.b}", "{domain: '\"nls.a\".b.c'}"),
    ] {
        let column = "birth_year: {bounds: [1941, 1954]}";
        let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let with = |rule: &str| file(&demo.replacen(column, &format!("birth_year: {rule}"), 1));
        let difference = Difference::between(&with(one), &with(other));
        let count = difference.changes.len() + difference.loosens.len();
        assert_eq!(count, 1, "{difference:?}");
        assert!(!difference.costs.is_empty(), "{difference:?}");
    }
    let public = |name: &str| format!("nls.industries: public\n  '{name}': public");
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |name| file(&demo.replacen("nls.industries: public", &public(name), 1));
    let difference = Difference::between(&with("a.\"b.c\""), &with("\"a.b\".c"));
    assert_eq!(
        (difference.loosens.len(), difference.tightens.len()),
        (1, 1),
        "{difference:?}"
    );
}

/// Variables that are not set differ where their names do.
#[test]
fn another_variable_is_another_place() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |name: &str| {
        let text = demo.replacen("${PGVEIL_LEDGER}", &format!("${{{name}}}"), 1);
        File::parse_without_secrets("p.yaml", &text, |_| None).unwrap()
    };
    let difference = Difference::between(&with("ONE"), &with("OTHER"));
    assert_eq!(difference.loosens.len(), 1, "{difference:?}");
    assert!(Difference::between(&with("ONE"), &with("ONE")).is_empty());
}

/// A witness that a variable names has a stand-in too.
#[test]
fn a_witness_of_a_variable_is_compared() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |name: &str| {
        let witness = format!("${{PGVEIL_LEDGER}}\n  witness: ${{{name}}}");
        let text = demo.replacen("${PGVEIL_LEDGER}", &witness, 1);
        File::parse_without_secrets("p.yaml", &text, |_| None).unwrap()
    };
    assert_eq!(with("ONE").ledger_witnesses.len(), 1);
    assert!(Difference::between(&with("ONE"), &with("ONE")).is_empty());
    assert_ne!(with("ONE").ledger_witnesses, with("OTHER").ledger_witnesses);
}

#[test]
fn a_search_that_becomes_due_is_a_cost() {
    let searched = between(
        "birth_year: {bounds: [1941, 1954]}",
        "birth_year: {bounds: auto}",
    );
    assert!(
        searched.costs[0].starts_with("bounds of nls.women.birth_year: a search is due"),
        "{searched:?}"
    );
}

#[test]
fn a_total_of_a_unit_changes_noise_and_clips() {
    let total = between(
        "birth_year: {bounds: [1941, 1954]}",
        "birth_year: {bounds: [1941, 1954], unit_total: 4000}",
    );
    assert_eq!((total.loosens.len(), total.tightens.len()), (0, 0));
    assert_eq!(
        total.changes,
        ["unit_total of nls.women.birth_year is 4000, not none: noise and clips change"]
    );
    assert_eq!(total.costs.len(), 1);
}

#[test]
fn bounds_neither_loosen_nor_tighten_and_cost_what_was_paid() {
    let wider = between(
        "birth_year: {bounds: [1941, 1954]}",
        "birth_year: {bounds: [1940, 1954]}",
    );
    assert_eq!((wider.loosens.len(), wider.tightens.len()), (0, 0));
    assert_eq!(
        wider.changes,
        ["nls.women.birth_year is bounds [1940, 1954], not bounds [1941, 1954]"]
    );
    assert_eq!(wider.costs.len(), 1);
    // A change that changes no answer costs nothing.
    for (from, to) in [
        ("connections: 200", "connections: 100"),
        ("failures: 10 ", "failures: 9 "),
    ] {
        assert_eq!(between(from, to).costs, [] as [String; 0]);
    }
    // Another ledger knows nothing of past spending.
    let moved = between("${PGVEIL_LEDGER}", "sqlite:///b.db");
    assert_eq!(moved.loosens.len(), 1, "{moved:?}");
}

#[test]
fn a_new_role_and_a_new_table_loosen() {
    let more = between(
        "tables:",
        "  - name: second\n    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\n    budget: {epsilon: 1, delta: 1e-8}\ntables:\n  nls.secret: public",
    );
    assert_eq!(
        more.loosens,
        [
            "role second is new, with epsilon 1 and delta 1e-8",
            "every row of nls.secret becomes readable, exactly and free"
        ]
    );
}

/// A claim changes which joins are answered, and no answer.
#[test]
fn changes_of_claims_are_reported() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let place = "    rows_per_unit: 15";
    let with = file(&demo.replacen(place, &format!("    unique: [year]\n{place}"), 1));
    let (there, back) = (
        Difference::between(&file(&demo), &with),
        Difference::between(&with, &file(&demo)),
    );
    let taken = "year is taken to identify a row of nls.interviews: joins on it are answered";
    assert_eq!(there.changes, [taken]);
    let no_longer = "year is no longer taken to identify a row of nls.interviews: joins on it may \
        be refused";
    assert_eq!(back.changes, [no_longer]);
    for difference in [there, back] {
        assert!(difference.loosens.is_empty() && difference.tightens.is_empty());
        assert!(difference.costs.is_empty());
    }
}

/// A holdout changes no other answer. What a role may learn grows with the times it may open it.
#[test]
fn changes_of_holdouts_are_reported() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let place = "    rows_per_unit: 15 ";
    let with = |holdout: &str| file(&demo.replacen(place, &format!("    {holdout}\n{place}"), 1));
    let lines_of = |old: &File, new: &File| {
        let found = Difference::between(old, new);
        assert!(!found.buys_again());
        let lines = found.lines().map(|(kind, line)| format!("{kind}: {line}"));
        lines.collect::<Vec<String>>()
    };
    let holdout = "holdout: {rows: 50000, tolerance: 0.04, scale: 0.0013, overflows: 30}";
    let (none, some) = (file(&demo), with(holdout));
    assert_eq!(
        lines_of(&none, &some),
        [
            "loosens: nls.interviews is a holdout, which each role may open 30 times: one charge \
                answers many questions"
        ]
    );
    assert_eq!(
        lines_of(&some, &none),
        ["tightens: nls.interviews is no holdout any more"]
    );
    let more = with(&holdout.replace("30", "31"));
    assert_eq!(
        lines_of(&some, &more),
        ["loosens: each role may open the holdout nls.interviews 31 times, not 30"]
    );
    assert_eq!(
        lines_of(&more, &some),
        ["tightens: each role may open the holdout nls.interviews 30 times, not 31"]
    );
    assert_eq!(
        lines_of(&some, &with(&holdout.replace("0.04", "0.05"))),
        [
            "changes: the holdout nls.interviews has rows 50000, tolerance 0.05 and scale 0.0013, \
                not 50000, 0.04 and 0.0013: its answers and prices change"
        ]
    );
}

/// Periods change no other answer; others of them are bought again.
#[test]
fn changes_of_periods_are_reported() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let place = "    rows_per_unit: 15 ";
    let with = |periods: &str| file(&demo.replacen(place, &format!("    {periods}\n{place}"), 1));
    let days = "periods: {column: day, by: day, from: 2026-01-01, close_after: 2d}";
    let (none, days_once) = (file(&demo), with(days));
    let lines_of = |old: &File, new: &File| {
        let found = Difference::between(old, new);
        let lines: Vec<String> = found
            .lines()
            .map(|(kind, line)| format!("{kind}: {line}"))
            .collect();
        assert!(!found.buys_again(), "{lines:?}");
        lines
    };
    assert_eq!(
        lines_of(&none, &days_once),
        ["changes: questions about nls.interviews by day buy each period once"]
    );
    assert_eq!(
        lines_of(&days_once, &none),
        [
            "changes: questions about nls.interviews buy no periods: what was bought of them is \
                not shown"
        ]
    );
    assert_eq!(
        lines_of(&days_once, &with(&days.replace("2d", "3d"))),
        ["changes: close_after of nls.interviews changes: periods are bought at another time"]
    );
    let prepaid = days.replace("2d", "2d, per_unit: 3, horizon: 90, append_only: true");
    assert_eq!(
        lines_of(&days_once, &with(&prepaid)),
        [
            "loosens: questions about nls.interviews by its periods pay once for 90 of them, of \
                which 3 of a unit count; rows of nls.interviews are taken to be neither changed \
                nor deleted"
        ]
    );
    assert_eq!(
        lines_of(&with(&prepaid), &days_once),
        [
            "tightens: rows of nls.interviews are no longer taken to stay as they are; what was \
                prepaid of its periods is not drawn any more"
        ]
    );
    let totals = prepaid.replace("90,", "90, answers: totals,");
    assert_eq!(
        lines_of(&with(&prepaid), &with(&totals)),
        [
            "costs: answers of the periods of nls.interviews changes: noise is drawn in another \
                way, and each horizon is paid for again"
        ]
    );
    let kept = file(&demo.replacen(place, &format!("    append_only: true\n{place}"), 1));
    assert_eq!(
        lines_of(&none, &kept),
        ["loosens: rows of nls.interviews are taken to be neither changed nor deleted"]
    );
    assert_eq!(
        lines_of(&days_once, &with(&days.replace("2026", "2025"))),
        [
            "costs: the periods of nls.interviews are others: what was bought of them is bought \
                again"
        ]
    );
    assert_eq!(lines_of(&days_once, &days_once), [""; 0]);
}

#[test]
fn a_summary_whose_sets_are_selected_is_paid_for_again() {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let with = |marginals: &str| {
        let summary = format!(
            "\nsummaries:\n  women: {{of: nls.women, keys: [race, birth_year], marginals: \
                {marginals}, epsilon: 0.5}}\n"
        );
        file(&(demo.clone() + &summary))
    };
    let difference = Difference::between(&with("all 2"), &with("auto"));
    let again = "summary women changes: it has to be made again, and is paid for again";
    assert_eq!(difference.costs, [again]);
    let same = Difference::between(&with("auto"), &with("auto"));
    assert_eq!(same, Difference::default());
}
