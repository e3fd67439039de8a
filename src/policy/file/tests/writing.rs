//! What roles may write.

use super::*;

fn with(role: &str, top: &str) -> String {
    let mut lines = lines();
    let budget = "budget: {epsilon: 3, delta: 1e-7}";
    lines[3] = lines[3].replace(budget, role);
    format!("{}\n{top}", lines.join("\n"))
}

#[test]
fn roles_name_the_tables_that_they_write() {
    let file = parse(&with(
        "budget: none, writes: [s.people, 's.\"My Table\"']",
        "database: {url: '${URL}', write_url: '${URL}'}\nlocal: {memo: false}",
    ))
    .unwrap();
    let role = &file.roles[0];
    let names: Vec<String> = role.writes.iter().map(ToString::to_string).collect();
    assert_eq!(
        (role.asks, names),
        (false, vec!["s.people".to_owned(), "s.My Table".to_owned()])
    );
    assert!(file.write_url.is_some() && file.local.unwrap().secret.is_none());
    // Next to nothing, whatever the owner's budget is.
    assert!(role.budget.epsilon <= 0.01 && role.budget.delta <= 1e-9);
    let asks = parse(&with(
        "budget: {epsilon: 3, delta: 1e-7}, writes: [s.people]",
        "",
    ))
    .unwrap();
    assert!(asks.roles[0].asks && asks.roles[0].writes.len() == 1);
}

#[test]
fn mistakes_say_what_is_wanted() {
    let long = "0123456789abcdef0123456789abcdef";
    for (role, top, wanted) in [
        (
            "budget: none",
            "",
            "p.yaml:4:5: role \"ann\" has budget: none, so it must have `writes",
        ),
        ("writes: [s.people]", "", "has no \"budget\""),
        (
            "budget: none, writes: people",
            "",
            "writes of role \"ann\" must be a list",
        ),
        (
            "budget: none, writes: [people]",
            "",
            "must name tables as schema.table, not \"people\"",
        ),
        ("budget: none, writes: [s.a, s.a]", "", "names s.a twice"),
        ("budget: 'none', writes: [s.a]", "", "must be a map"),
        (
            "budget: none, writes: [s.a]",
            "local: {}",
            "local has no \"secret\"",
        ),
        (
            "budget: none, writes: [s.a]",
            "local: {memo: maybe}",
            "local.memo must be true or false",
        ),
        (
            "budget: none, writes: [s.a]",
            "local: {secret: '${SECRET}'}",
            "at least 32 bytes",
        ),
        (
            "budget: none, writes: [s.a]",
            "local: {secret: '${NONE}'}",
            "environment variable NONE is not set; local.secret needs it",
        ),
        (
            "budget: none, writes: [s.a]",
            &format!("local: {{secret: {long}, memo: false}}"),
            "is not used with memo: false",
        ),
        (
            "budget: none, writes: [s.a]",
            "database: {url: '${URL}', write_url: 'http://x'}",
            "database.write_url must start with postgres:// or postgresql://",
        ),
    ] {
        let found = errors(&with(role, top)).join("\n");
        assert!(found.contains(wanted), "{role} {top}: {found}");
        assert!(
            !found.contains("hunter2") && !found.contains(long),
            "{found}"
        );
    }
    let both = "{collected: {mechanism: mean, epsilon: 1}, local: {mechanism: mean, epsilon: 1}, \
        bounds: [0, 120]}";
    let text = lines().join("\n").replace("{bounds: [0, 120]}", both);
    assert!(errors(&text).join("\n").contains("must not have both"));
    let text = lines()
        .join("\n")
        .replace("{bounds: [0, 120]}", "{bounds: [0, 1], local: krr}");
    assert!(
        errors(&text)
            .join("\n")
            .contains("local of column \"age\" must be a map")
    );
}

/// A policy that is compared, not served, needs no secret.
#[test]
fn without_secrets_a_policy_is_read() {
    let text = with(
        "budget: none, writes: [s.a]",
        "database: {url: '${A}', write_url: '${B}'}\nlocal: {secret: '${C}'}",
    );
    assert!(File::parse_without_secrets("p.yaml", &text, |_| None).is_ok());
}
