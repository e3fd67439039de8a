mod also;
mod collected;
mod operators;
mod privacy;
mod tables;
mod writing;

use crate::policy::file::*;

const VERIFIER: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

/// A whole policy of six lines, of which the tests replace one.
fn lines() -> Vec<String> {
    vec![
        "version: 1".to_owned(),
        "privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}".to_owned(),
        "roles:".to_owned(),
        format!("  - {{name: ann, password: {VERIFIER}, budget: {{epsilon: 3, delta: 1e-7}}}}"),
        "tables:".to_owned(),
        "  s.people: {unit: id, columns: {age: {bounds: [0, 120]}}}".to_owned(),
    ]
}

fn environment(name: &str) -> Option<String> {
    match name {
        "URL" => Some("postgres://secret@host/db".to_owned()),
        "VERIFIER" => Some(VERIFIER.to_owned()),
        "SECRET" => Some("hunter2".to_owned()),
        _ => None,
    }
}

fn parse(text: &str) -> Result<File, Vec<PolicyError>> {
    File::parse("p.yaml", text, environment)
}

fn errors(text: &str) -> Vec<String> {
    parse(text)
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Line `number` says `text` instead; exactly these errors follow, each given from its line:column
/// on, up to a part of its message.
fn refused(number: usize, text: &str, wanted: &[&str]) {
    let mut lines = lines();
    lines[number - 1] = text.to_owned();
    let found = errors(&lines.join("\n"));
    assert_eq!(found.len(), wanted.len(), "{text}\n{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            found.starts_with(&format!("p.yaml:{wanted}")),
            "{text}\nfound  {found}\nwanted p.yaml:{wanted}"
        );
    }
}

#[test]
fn the_base_is_a_policy_with_the_documented_defaults() {
    let file = parse(&lines().join("\n")).unwrap();
    assert_eq!(file.privacy.threshold_share, 0.005);
    assert_eq!(
        (
            file.privacy.epsilon_default,
            file.privacy.epsilon_max,
            file.privacy.epsilon_min
        ),
        (0.1, 1.0, 0.001)
    );
    assert_eq!(file.limits.statement_timeout, Duration::from_secs(60));
    assert_eq!(file.roles.first().map(|r| r.name.as_str()), Some("ann"));
    assert_eq!(file.database_url, None);
    assert_eq!(file.privacy.units, None);
}

#[test]
fn the_top_is_strict() {
    refused(
        1,
        "version: 2",
        &["1:10: version must be a whole number from 1 to 1, not \"2\""],
    );
    refused(
        1,
        "# none",
        &["2:1: the policy has no \"version\"; write `version: 1`"],
    );
    refused(
        1,
        "version: 1\nnoise: off",
        &["2:1: the policy has no key \"noise\"; its keys are version, database, ledger"],
    );
    refused(
        1,
        "version: 1\nversion: 1",
        &["2:1: key \"version\" is given twice; the first is on line 1"],
    );
    refused(
        1,
        "version: 1\ntime_grain: 25h",
        &["2:13: time_grain must be a time such as 500ms"],
    );
    refused(
        1,
        "version: 1\nrecord: {shape: 3, text: true}",
        &[
            "2:17: record.shape must be true or false, not \"3\"",
            "2:20: record has no key \"text\"",
        ],
    );
    refused(
        1,
        "version: 1\ntiming: 100ms",
        &["2:9: timing must be a map"],
    );
    refused(
        1,
        "version: 1\ntiming: {}",
        &["2:9: timing has no \"quantum\"; write `quantum: 100ms`"],
    );
    refused(
        1,
        "version: 1\ntiming: {quantum: 0ms, grain: 1s}",
        &[
            "2:19: timing.quantum must be a time such as 500ms",
            "2:24: timing has no key \"grain\"",
        ],
    );
    refused(1, "version: &a 1", &["1:13: anchors"]);
    refused(1, "version: !!int 1", &["1:16: tags"]);
    refused(1, "version: [1", &["2:8: this is not YAML"]);
    assert_eq!(
        errors(""),
        ["p.yaml:1:1: the file is empty; a policy starts with `version: 1`"]
    );
    assert!(
        errors("- 1")
            .iter()
            .any(|e| e == "p.yaml:1:1: the policy must be a map of keys and values, not a list")
    );
    let twice = format!("{}\n---\nversion: 1\n", lines().join("\n"));
    assert_eq!(
        errors(&twice),
        ["p.yaml:7:1: a second YAML document starts here; a policy is one document"]
    );
}

#[test]
fn environment_references_never_show_their_values() {
    let url = |text: &str| format!("version: 1\ndatabase: {{url: \"{text}\"}}");
    let mut good = lines();
    good[0] = url("${URL}");
    let file = parse(&good.join("\n")).unwrap();
    assert_eq!(
        file.database_url.as_ref().map(Secret::expose),
        Some("postgres://secret@host/db")
    );
    let shown = format!("{file:?}");
    assert!(
        shown.contains("database_url: Some(…)") && shown.contains("verifier: …"),
        "{shown}"
    );
    assert!(
        !shown.contains("secret") && !shown.contains("SCRAM"),
        "{shown}"
    );
    refused(
        1,
        &url("${NOPE}"),
        &["2:17: environment variable NOPE is not set; database.url needs it"],
    );
    refused(
        1,
        &url("${SECRET}"),
        &["2:17: database.url must start with postgres:// or postgresql://"],
    );
    refused(
        1,
        &url("${NO-NAME}"),
        &["2:17: database.url has a \"${\" that is not a reference"],
    );
    refused(
        1,
        &url("${URL"),
        &["2:17: database.url has a \"${\" that is not a reference"],
    );
    refused(
        1,
        "version: 1\nledger: {url: mysql://x}",
        &["2:15: ledger.url must start with sqlite:// or postgres://"],
    );
    let mut secret = lines();
    secret[3] =
        "  - {name: ann, password: \"${SECRET}\", budget: {epsilon: 3, delta: 1e-7}}".to_owned();
    let found = errors(&secret.join("\n"));
    assert!(
        found[0].starts_with(
            "p.yaml:4:27: the password of role \"ann\" must be a SCRAM-SHA-256 verifier"
        ),
        "{found:?}"
    );
    assert!(!found.concat().contains("hunter2"));
}

#[test]
fn limits_are_in_range() {
    let limits = |text: &str| format!("version: 1\nlimits: {{{text}}}");
    refused(
        1,
        &limits("groups: 0"),
        &["2:18: limits.groups must be a whole number from 1 to 10000000, not \"0\""],
    );
    refused(
        1,
        &limits("rows: 5"),
        &["2:10: limits has no key \"rows\"; its keys are groups_per_unit, rows_per_unit"],
    );
    for time in ["0s", "60", "1 day", "-1s", "25h", "99999999999999999999h"] {
        refused(
            1,
            &limits(&format!("statement_timeout: {time}")),
            &["2:29: limits.statement_timeout must be a time such as 500ms"],
        );
    }
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_file() {
    let text = "\
version: 3
privacy:
  unit: woman
  budget: {epsilon: -1, delta: 2}
  noise: none
roles:
  - name: ann
tables:
  women: {unit: id}
  s.jobs:
    columns:
      wage: {bounds: [1]}
";
    let found = errors(text);
    let places: Vec<&str> = found
        .iter()
        .filter_map(|e| e.strip_prefix("p.yaml:")?.split(": ").next())
        .collect();
    assert_eq!(
        places,
        [
            "1:10", "4:21", "4:32", "5:3", "7:5", "7:5", "9:3", "11:5", "12:22"
        ],
        "{found:#?}"
    );
}

/// An error in one section hides no error of another section, and an unreadable value hides no
/// other value.
#[test]
fn no_error_of_the_file_hides_another() {
    let text = format!(
        "\
version: 1
database: {{url: mysql://x}}
privacy:
  budget: {{epsilon: 8, delta: 1e-6}}
  per_query: {{epsilon: lots, max_epsilon: 0.5}}
  threshold_share: 2
roles:
  - name: ann
    password: hunter2
    budget: {{epsilon: 9, delta: 1e-7}}
  - name: bob
    password: {VERIFIER}
    budget: {{epsilon: 3, delta: 1e-7}}
    settings: {{epsilon: 4, max_groups_per_unit: 99, max_rows_per_unit: 5000, noise: none}}
tables:
  s.people: {{unit: [id], columns: {{age: {{bounds: [0]}}, name: {{}}}}}}
  s.jobs: {{unit: {{path: [person > s.people.id]}}, rows_per_unit: many, columns: {{pay: {{values: \
  []}}}}}}
limits: {{groups: 0, rows_per_unit: 3000}}
"
    );
    let found = errors(&text);
    let wanted = [
        "2:17: database.url must start with postgres://",
        "4:3: privacy has no \"unit\"",
        "5:24: privacy.per_query.epsilon must be a number above 0 and at most 1000000000",
        "6:20: privacy.threshold_share must be a number above 0 and below 1",
        "9:15: the password of role \"ann\" must be a SCRAM-SHA-256 verifier",
        "10:13: the budget of role \"ann\" is more than the owner's whole budget",
        "14:15: the settings of role \"bob\": pgveil.max_groups_per_unit may be at most 20 here",
        "14:15: the settings of role \"bob\": pgveil.max_rows_per_unit may be at most 3000 here",
        "14:78: the settings of role \"bob\" has no key \"noise\"",
        "16:20: the unit of table s.people must be one column or one path",
        "16:50: bounds of column \"age\" must be two values",
        "16:62: column \"name\" must say exactly one of bounds, values, domain and visible",
        "17:26: a step of a path must be column -> schema.table.column, not \"person > \
            s.people.id\"",
        "17:65: rows_per_unit of table s.jobs must be a whole number",
        "17:95: values of column \"pay\" is empty",
        "18:18: limits.groups must be a whole number",
    ];
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            found.starts_with(&format!("p.yaml:{wanted}")),
            "found  {found}\nwanted p.yaml:{wanted}"
        );
    }
}

#[test]
fn warnings_of_the_file_are_kept() {
    let mut lines = lines();
    lines[3] = lines[3].replace("delta: 1e-7", "delta: 1e-7, renew: weekly");
    let warnings = parse(&lines.join("\n")).unwrap().warnings;
    assert!(
        warnings.len() == 1
            && warnings[0]
                .message
                .starts_with("the budget of role \"ann\" is renewed"),
        "{warnings:?}"
    );
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let deep = format!("version: {}", "[".repeat(100_000));
    assert!(errors(&deep)[0].contains("this is not YAML"));
}

#[test]
fn the_demo_policy_is_whole() {
    let text = include_str!("../../../policies/demo.yaml");
    let file = File::parse("policies/demo.yaml", text, |name| match name {
        "DATABASE_URL" => Some("postgres://localhost/demo".to_owned()),
        "PGVEIL_LEDGER" => Some("sqlite:///tmp/ledger.db".to_owned()),
        _ => None,
    });
    assert_eq!(file.map(|f| f.tables.len()), Ok(4));
}

#[test]
fn the_password_of_the_demo_is_analyst() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Digest, Sha256};
    let text = include_str!("../../../policies/demo.yaml");
    let file = File::parse("policies/demo.yaml", text, |_| {
        Some("postgres://localhost/demo".to_owned())
    })
    .unwrap();
    let verifier = file.roles[0].verifier.expose();
    let (salt, keys) = verifier
        .strip_prefix("SCRAM-SHA-256$4096:")
        .and_then(|v| v.split_once('$'))
        .unwrap();
    let mut salted = [0; 32];
    pbkdf2::pbkdf2::<Hmac<Sha256>>(
        b"analyst",
        &STANDARD.decode(salt).unwrap(),
        4096,
        &mut salted,
    )
    .unwrap();
    let client = Hmac::<Sha256>::new_from_slice(&salted)
        .unwrap()
        .chain_update(b"Client Key")
        .finalize()
        .into_bytes();
    assert!(keys.starts_with(&STANDARD.encode(Sha256::digest(client))));
}

#[test]
fn no_text_makes_the_reader_panic() {
    let demo = include_str!("../../../policies/demo.yaml");
    for end in (0..demo.len())
        .step_by(29)
        .filter(|end| demo.is_char_boundary(*end))
    {
        assert!(demo.get(..end).is_some_and(|text| parse(text).is_err()));
    }
    let all: Vec<&str> = demo.lines().collect();
    for skipped in 0..all.len() {
        let kept: Vec<&str> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != skipped)
            .map(|(_, l)| *l)
            .collect();
        let _ = parse(&kept.join("\n"));
    }
    for text in [
        "\0",
        "\u{feff}version: 1",
        "? [a]\n: b",
        "? {a: b}",
        ": :",
        "a: b: c",
        "%YAML 9.9\n---\n",
        "- - - ?",
        "version: |\n  1\n",
        "'",
        "\"\\x",
        "{,}",
        "[]]",
        "\t",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}
