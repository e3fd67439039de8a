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
    let socket = directory.join("pgveil.socket");
    std::fs::copy("ops/systemd/pgveil.socket", &socket).unwrap();
    let (copy, socket) = (copy.to_str().unwrap(), socket.to_str().unwrap());
    for arguments in [
        &["verify", "--man=no", copy, socket][..],
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

/// The files that the Debian package takes from the repository exist, and its scripts are valid for
/// their shell.
#[test]
fn the_package_is_made_of_what_is_there() {
    let manifest = std::fs::read_to_string("Cargo.toml").unwrap();
    let assets = manifest.split("assets = [").nth(1).unwrap();
    let sources: Vec<&str> = assets
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\"")?.split('"').next())
        .filter(|path| !path.starts_with("target/") && !path.contains('*'))
        .collect();
    assert!(sources.len() > 8, "{sources:?}");
    for path in sources {
        assert!(Path::new(path).is_file(), "{path}");
    }
    for (shell, script) in [
        ("sh", "ops/debian/postinst"),
        ("sh", "ops/debian/prerm"),
        ("sh", "ops/debian/postrm"),
        ("bash", "ops/debian/build"),
        ("bash", "ops/debian/try"),
        ("bash", ".ci/release"),
        ("bash", "docker/ledger-primary.sh"),
        ("bash", "docker/ledger-standby.sh"),
    ] {
        let read = Command::new(shell).args(["-n", script]).output().unwrap();
        assert!(read.status.success(), "{script}: {}", reported(&read));
    }
    // No script touches the ledger.
    let removed = std::fs::read_to_string("ops/debian/postrm").unwrap();
    assert!(
        !removed
            .lines()
            .any(|line| line.starts_with("rm ") || line.contains(" rm "))
    );
    let image = std::fs::read_to_string("Dockerfile").unwrap();
    for wanted in [
        "HEALTHCHECK",
        "org.opencontainers.image.version",
        "USER 10001",
    ] {
        assert!(image.contains(wanted), "{wanted}");
    }
    let version = format!("image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(image.contains(&version));
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
