//! `pgveil doctor` says what is right and wrong with an installation, and no secret.

use std::process::{Command, Output};

use super::stage::{PGVEIL, Stage};

/// The findings of a check: state and text.
fn findings(done: &Output) -> Vec<(String, String, String)> {
    let json: serde_json::Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    let text = |finding: &serde_json::Value, key: &str| {
        finding[key].as_str().unwrap_or_default().to_owned()
    };
    let all = json.as_array().unwrap().iter();
    all.map(|finding| {
        (
            text(finding, "check"),
            text(finding, "state"),
            text(finding, "finding"),
        )
    })
    .collect()
}

fn has(all: &[(String, String, String)], check: &str, state: &str, words: &str) -> bool {
    all.iter()
        .any(|(of, is, found)| of == check && is == state && found.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_is_looked_at_from_end_to_end() {
    let stage = Stage::new().await;
    let policy = stage.file("policy.yaml").display().to_string();
    let arguments = [
        "doctor",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--policy",
        &policy,
    ];
    let done = stage.run(&arguments);
    let found = findings(&done);
    for (check, state, words) in [
        ("secrets", "ok", "DATABASE_URL is in the environment"),
        ("port", "ok", "is free"),
        ("tls", "ok", "on this machine alone"),
        ("witness", "warn", "there is none"),
        ("ledger", "warn", "there is no ledger"),
        ("database", "ok", "nls is reached: PostgreSQL"),
        ("database", "ok", "stays on this machine"),
        ("policy", "ok", "it holds for the database"),
        ("searches", "ok", "nothing to auto"),
        ("shadow", "ok", "is found to start"),
        ("indexes", "ok", "each private table"),
    ] {
        assert!(
            has(&found, check, state, words),
            "{check} {words}: {found:#?}"
        );
    }
    // The tests' database role is a superuser: a warning with the way out, not a failure.
    assert!(has(&found, "policy", "warn", ""), "{found:#?}");
    assert!(done.status.success(), "{found:#?}");

    // A ledger, a witness, a frozen account; and a policy that leaves a bound to a search.
    stage.write_witnessed();
    let mut running = stage.serve("log", &["--listen", "127.0.0.1:0"]);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    let why = ["--role", "analyst", "--why", "a test"];
    let frozen = stage.run(&[&["budget", "freeze", "--policy", &policy], &why[..]].concat());
    assert!(frozen.status.success(), "{frozen:?}");
    let found = findings(&stage.run(&arguments));
    for (check, state, words) in [
        ("ledger", "ok", "whole, with 0 debits"),
        ("witness", "warn", "it may lie on the ledger's disk"),
        ("accounts", "warn", "analyst is frozen"),
        ("clock", "ok", ""),
    ] {
        assert!(
            has(&found, check, state, words),
            "{check} {words}: {found:#?}"
        );
    }
    // The witness was removed: nobody knows whether this is the newest ledger.
    std::fs::remove_file(stage.file("witness")).unwrap();
    let done = stage.run(&arguments);
    let found = findings(&done);
    assert!(
        has(&found, "ledger", "fail", "pgveil ledger attest"),
        "{found:#?}"
    );
    assert_eq!(done.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_reported_at_once_and_no_secret_is() {
    let stage = Stage::new().await;
    let policy = stage.file("policy.yaml").display().to_string();
    let run = |url: Option<&str>| {
        let mut command = Command::new(PGVEIL);
        stage.set_up(&mut command);
        command.args(["doctor", "--listen", "127.0.0.1:0", "--policy", &policy]);
        match url {
            Some(url) => command.env("DATABASE_URL", url),
            None => command.env_remove("DATABASE_URL"),
        };
        let done = command.output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        String::from_utf8([done.stdout, done.stderr].concat()).unwrap()
    };
    let output = run(None);
    assert!(
        output.contains("fail  secrets    DATABASE_URL is not set"),
        "{output}"
    );
    // Port 1 has no server.
    let output = run(Some("postgresql://reader:canarysecret@127.0.0.1:1/nls"));
    assert!(output.contains("fail  database"), "{output}");
    assert!(output.contains("-> Is the database running"), "{output}");
    assert!(
        !output.contains("canarysecret") && !output.contains("SCRAM-SHA-256$"),
        "{output}"
    );
    stage.write("nonsense: 1\n");
    let output = run(Some("postgresql://reader:canarysecret@127.0.0.1:1/nls"));
    assert!(output.contains("nonsense"), "{output}");
    assert!(!output.contains("canarysecret"), "{output}");
}
