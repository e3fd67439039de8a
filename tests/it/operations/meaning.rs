//! `pgveil explain --meaning`: the meaning of a policy's budgets, without a database.

use std::process::{Command, Output};

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
        "Reports: nls.women.college_graduate, nls.women.ever_union by coin, epsilon 1.10. Whoever \
            reads the database, its owner too, sees what is at most 3.00 times as likely under one \
            true value as under another. Further reports of a person multiply that; no budget \
            counts it.\n",
        "Reports: nls.women.sort by krr, epsilon 2.00. Whoever reads the database, its owner too, \
            sees what is at most 7.39 times as likely",
    ] {
        assert!(text.contains(line), "{text}");
    }
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
