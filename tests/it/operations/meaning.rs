//! `pgveil explain --meaning`: the meaning of a policy's budgets, without a database.

use std::process::{Command, Output};

use super::synth::VERIFIER;

fn explain(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
    command.arg("explain").args(arguments);
    command
        .env_remove("DATABASE_URL")
        .env_remove("PGVEIL_LEDGER");
    command.output().unwrap()
}

/// Each account has its own epsilon and its own delta: in the demo, the analyst's are 3 and 1e-7,
/// the owner's 8 and 1e-6.
#[test]
fn budgets_are_put_into_words_and_numbers() {
    let output = explain(&["--meaning", "policies/demo.yaml"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for line in [
        "role analyst: epsilon 3.00 and delta 1.0e-7. ",
        "all roles together: epsilon 8.00 and delta 1.0e-6. ",
        "Bets: somebody who is 50 % sure that a woman is in the data is at most 95.3 % sure",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let cells = |account: &str, units: &str| {
        let rows = text.lines().filter(|line| line.contains('|'));
        let mut rows = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        rows.find(|row| row[..2] == [account, units])
            .unwrap_or_else(|| panic!("{account} {units}: {text}"))
            .iter()
            .map(|cell| (*cell).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cells("role analyst", "1")[2..7],
        ["3.00", "1.0e-7", "20.1", "16.9 %", "95.3 %"]
    );
    assert_eq!(cells("all roles together", "1")[2..4], ["8.00", "1.0e-6"]);
    let epsilon = |account, units| cells(account, units)[2].parse::<f64>().unwrap();
    assert!(epsilon("role analyst", "2") >= 6.0);
    assert!(epsilon("all roles together", "2") >= 16.0);
    let delta = |account, units| cells(account, units)[3].parse::<f64>().unwrap();
    assert!(delta("all roles together", "2") > delta("role analyst", "2"));
}

/// A year of renewals adds up, and the text says so.
#[test]
fn renewals_add_up() {
    let path = std::env::temp_dir().join(format!("pgveil-meaning-{}.yaml", std::process::id()));
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    std::fs::write(&path, demo.replace("renew: never", "renew: monthly")).unwrap();
    let output = explain(&["--meaning", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = text.lines().find(|line| line.contains("renewed x 12"));
    let cells: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
    assert_eq!(
        cells[..4],
        ["renewed x 12", "1", "36.0", "1.2e-6"],
        "{text}"
    );
    assert!(text.contains("12 times, together epsilon 36.0"), "{text}");
    assert!(
        text.contains("all this holds for one month alone"),
        "{text}"
    );
}

/// What reports protect is said next to the budgets, which do not count it.
#[test]
fn epsilons_of_reports_are_put_into_words() {
    let path = std::env::temp_dir().join(format!("pgveil-reports-{}.yaml", std::process::id()));
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let coin = "collected: {mechanism: coin, truth: 1/2, yes: 1/2}}";
    let krr = "collected: {mechanism: krr, epsilon: 2}}";
    let columns = [
        format!("college_graduate: {{values: [0, 1], {coin}"),
        format!("ever_union: {{values: [0, 1], {coin}"),
        format!("sort: {{values: [a, b, c], {krr}"),
    ]
    .join("\n      ");
    let place = "college_graduate: {values: [0, 1], complete: true}";
    assert!(demo.contains(place));
    std::fs::write(&path, demo.replacen(place, &columns, 1)).unwrap();
    let output = explain(&["--meaning", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in [
        "Reports: nls.women.college_graduate, nls.women.ever_union by coin, each epsilon 1.10. \
            Whoever reads the database, its owner too, sees of each what is at most 3.00 times as \
            likely under one true value as under another. Further reports of a person multiply \
            that; no budget counts it.\n",
        "Reports: nls.women.sort by krr, epsilon 2.00. Whoever reads the database, its owner too, \
            sees what is at most 7.39 times as likely",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// A memo shows more to whoever may also write or has the secret, and NULL is no report.
#[test]
fn what_a_memo_shows_is_put_into_words() {
    let policy = "version: 1
database: {url: postgresql://u@h/d, write_url: postgresql://w@h/d}
ledger: {url: sqlite:///tmp/none.db}
local: LOCAL
privacy: {unit: person, budget: {epsilon: 1, delta: 1e-6}}
roles: [{name: collector, password: \"VERIFIER\", budget: none, writes: [shop.answers]}]
tables:
  shop.answers:
    unit: person
    columns:
      smoked: {values: [no, yes], local: {mechanism: krr, epsilon: 1}, nullable: true}
      sort: {values: [a, b], local: {mechanism: krr, epsilon: 1}}
";
    let path = std::env::temp_dir().join(format!("pgveil-memo-{}.yaml", std::process::id()));
    let said = |local: &str| {
        let text = policy.replace("LOCAL", local).replace("VERIFIER", VERIFIER);
        std::fs::write(&path, text).unwrap();
        let output = explain(&["--meaning", path.to_str().unwrap()]);
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8(said).unwrap()
    };
    let memo = said(&format!("{{secret: {}}}", "a".repeat(40)));
    let drawn = said("{memo: false}");
    std::fs::remove_file(&path).unwrap();
    for line in [
        "Reports: shop.answers.smoked by krr, epsilon 1.00. Whoever reads the database, but can \
            neither write nor has local.secret, sees what is at most 2.72 times as likely",
        "another report shows that the value changed. Whoever reads the database and may also \
            write, or has local.secret, learns the value, nearly always: no epsilon bounds it.",
        "No budget counts it. NULL is not randomised: who gave no report is known.\n",
        "No budget counts it.\n\n",
    ] {
        assert!(memo.contains(line), "{line}: {memo}");
    }
    assert_eq!(memo.matches("NULL is not randomised").count(), 1, "{memo}");
    assert!(
        !drawn.contains("local.secret") && drawn.contains("its owner too"),
        "{drawn}"
    );
}

#[test]
fn a_policy_is_named_once() {
    for arguments in [
        &["--meaning", "policies/demo.yaml", "SELECT 1"][..],
        &["--policy", "policies/demo.yaml"],
        &["SELECT 1"],
    ] {
        assert_eq!(explain(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
