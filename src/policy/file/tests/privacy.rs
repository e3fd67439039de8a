//! Budgets, the other keys of privacy, and roles.

use super::*;

#[test]
fn budgets_are_finite_and_positive() {
    let privacy = |text: &str| format!("privacy: {{unit: p, budget: {{{text}}}}}");
    for epsilon in [
        "0", "-1", ".nan", ".inf", "inf", "1e999", "1e18", "1.1e9", "\"8\"", "0x10", "[8]",
    ] {
        refused(
            2,
            &privacy(&format!("epsilon: {epsilon}, delta: 1e-6")),
            &["2:38: privacy.budget.epsilon must be a number above 0 and at most 1000000000"],
        );
    }
    for delta in ["0", "1", "-1e-6", "NaN"] {
        refused(
            2,
            &privacy(&format!("epsilon: 8, delta: {delta}")),
            &["2:48: privacy.budget.delta must be a number above 0 and below 1"],
        );
    }
    refused(
        2,
        &privacy("epsilon: 8"),
        &["2:28: privacy.budget has no \"delta\"; write `delta: 1e-7`"],
    );
    refused(
        2,
        &privacy("epsilon: 8, delta: 1e-6, renew: monthly"),
        &["2:28: privacy.budget is never renewed"],
    );
    refused(
        2,
        "privacy: {unit: p}",
        &["2:10: privacy has no \"budget\""],
    );
    refused(
        2,
        "privacy: {unit: p, budget: {epsilon: 8, delta: 1e-6}, accounting: rdp}",
        &["2:67: privacy.accounting must be gdp, zcdp or pure"],
    );
    for accounting in ["gdp", "zcdp", "pure"] {
        let mut lines = lines();
        lines[1] = format!(
            "privacy: {{unit: p, budget: {{epsilon: 1e9, delta: 1e-6}}, accounting: {accounting}}}"
        );
        assert!(parse(&lines.join("\n")).is_ok(), "{accounting}");
    }
    let pure = "privacy: {unit: p, budget: {epsilon: 8}, accounting: pure}";
    let mut lines = lines();
    lines[1] = pure.to_owned();
    lines[3] = lines[3].replace(", delta: 1e-7", "");
    assert_eq!(parse(&lines.join("\n")).unwrap().privacy.budget.delta, 0.0);
}

#[test]
fn other_keys_of_privacy_are_in_range() {
    let more =
        |text: &str| format!("privacy: {{unit: p, budget: {{epsilon: 8, delta: 1e-6}}, {text}}}");
    refused(
        2,
        &more("per_query: {epsilon: 2, max_epsilon: 1}"),
        &["2:66: privacy.per_query.max_epsilon (1) must not be below its epsilon (2)"],
    );
    refused(
        2,
        &more("per_query: {epsilon: 1, min_epsilon: 2}"),
        &["2:66: privacy.per_query.min_epsilon (2) must not be above its epsilon (1)"],
    );
    refused(
        2,
        &more("per_query: {epsilon: 1, min_epsilon: 0}"),
        &["2:92: privacy.per_query.min_epsilon must be a number above 0 and at most 1000000000"],
    );
    refused(
        2,
        &more("threshold_share: 1"),
        &["2:72: privacy.threshold_share must be a number above 0 and below 1"],
    );
    refused(
        4,
        &lines()[3].replace("name: ann", "name: ann, reuse: sometimes"),
        &["4:24: reuse must be always"],
    );
    refused(
        2,
        &more("data_version: {every: day}"),
        &["2:69: a data_version that changes by itself is not offered yet"],
    );
    for units in ["0", "2500.5", "many", "1000000000001"] {
        let wrong = "2:62: privacy.units must be a whole number from 1 to 1000000000000";
        refused(2, &more(&format!("units: {units}")), &[wrong]);
    }
}

#[test]
fn roles_have_a_verifier_and_a_budget() {
    let role = |text: &str| {
        format!("  - {{name: ann, password: {text}, budget: {{epsilon: 3, delta: 1e-7}}}}")
    };
    refused(
        4,
        &format!("  - {{name: ann, password: {VERIFIER}}}"),
        &["4:5: a role has no \"budget\"; write `budget: {epsilon: 1, delta: 1e-7}"],
    );
    refused(
        4,
        "  - {budget: {epsilon: 3, delta: 1e-7}}",
        &[
            "4:5: a role has no \"name\"",
            "4:5: a role has no \"password\"",
        ],
    );
    refused(
        4,
        &role("analyst"),
        &[
            "4:27: the password of role \"ann\" must be a SCRAM-SHA-256 verifier, never the \
                password itself",
        ],
    );
    refused(
        4,
        &role("SCRAM-SHA-256$4096:QQ==$QQ==:QQ=="),
        &["4:27: the password of role \"ann\" is not a whole SCRAM verifier"],
    );
    refused(
        4,
        &role(&VERIFIER.replace("4096", "1")),
        &["4:27: the password of role \"ann\" has an iteration count outside"],
    );
    refused(4, &lines()[3].replace("epsilon: 3", "epsilon: 9"), &["4:"]);
    refused(
        4,
        &format!("{}\n{}", lines()[3], lines()[3]),
        &["5:5: role \"ann\" is given twice"],
    );
    refused(4, "  []", &["4:3: roles is empty"]);
    let with_setting =
        |text: &str| lines()[3].replace("name: ann", &format!("name: ann, settings: {{{text}}}"));
    refused(
        4,
        &with_setting("noise: off"),
        &[
            "4:28: the settings of role \"ann\" has no key \"noise\"; its keys are epsilon, \
                target_error",
        ],
    );
    refused(
        4,
        &with_setting("epsilon: -1"),
        &[
            "4:37: epsilon in the settings of role \"ann\": invalid value for \
                parameter \"pgveil.epsilon\": \"-1\"",
        ],
    );
    let mut changed = lines();
    changed[3] = with_setting("keys: domain, target_error: 50%, notices: off");
    let roles = parse(&changed.join("\n")).unwrap().roles;
    assert_eq!(
        ["pgveil.keys", "pgveil.target_error", "pgveil.notices"]
            .map(|name| roles[0].session_settings.show(name)),
        ["domain", "50%", "off"]
    );
    assert!(!format!("{:?}", errors(&lines().join("\n").replace("gbbM", "?"))).contains("S4OX"));
}

/// A budget that its accounting cannot spend is reported with the rest, at its place.
#[test]
fn a_budget_that_buys_nothing_is_an_error_of_its_place() {
    refused(
        2,
        "privacy: {unit: p, budget: {epsilon: 1e-30, delta: 1e-6}}",
        &["2:28: privacy.budget: ", "4:"],
    );
}
