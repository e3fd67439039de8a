//! What packages install: the unit of systemd, completions, man pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

fn scratch() -> PathBuf {
    let name = format!("pgveil-packaging-{:x}", rand::random::<u64>());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}

fn reported(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .concat()
}

/// By systemd's own tools. Skipped without them.
#[test]
fn the_unit_is_well_formed_and_tight() {
    let directory = scratch();
    let unit = std::fs::read_to_string("ops/systemd/pgveil.service").unwrap();
    // The command has to be there.
    let here = unit.replace("/usr/bin/pgveil", PGVEIL);
    let copy = directory.join("pgveil.service");
    std::fs::write(&copy, here).unwrap();
    let copy = copy.to_str().unwrap();
    for arguments in [
        &["verify", "--man=no", copy][..],
        // Exposure, from 0 to 100.
        &["security", "--offline=true", "--threshold=20", copy],
    ] {
        let Ok(done) = Command::new("systemd-analyze").args(arguments).output() else {
            println!("skipped: systemd-analyze is not installed");
            return;
        };
        assert!(done.status.success(), "{arguments:?}: {}", reported(&done));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A page for each command, and completions that a shell reads.
#[test]
fn pages_and_completions_come_from_the_grammar() {
    let directory = scratch();
    for what in ["man", "completions"] {
        let made = Command::new(PGVEIL)
            .arg("generate")
            .arg(what)
            .arg(&directory)
            .output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", reported(&made));
    }
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    for (name, wanted) in [
        ("pgveil.1", "differential privacy"),
        ("pgveil-serve.1", "SIGHUP reloads the policy"),
        ("pgveil-ledger-restore.1", ".SH SYNOPSIS"),
        ("pgveil.fish", "serve"),
        ("_pgveil", "#compdef pgveil"),
    ] {
        assert!(read(name).contains(wanted), "{name}");
    }
    let script = directory.join("pgveil.bash");
    assert_complete(&script);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Bash completes a command after the script.
fn assert_complete(script: &Path) {
    let asked = "source \"$1\"; COMP_WORDS=(pgveil ser); COMP_CWORD=1; \
        _pgveil pgveil ser pgveil; echo \"${COMPREPLY[@]}\"";
    let done = Command::new("bash")
        .args(["-c", asked, "bash"])
        .arg(script)
        .output()
        .unwrap();
    assert_eq!(reported(&done).trim(), "serve");
}
