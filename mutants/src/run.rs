//! One run of some tests, in separate processes.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub enum Outcome {
    Passed(Duration),
    /// The test that failed.
    Failed(String),
    Endless,
}

/// The mutants that are on in the run.
pub enum Switch<'a> {
    Mutants(&'a [usize]),
    /// Nothing; the numbers of the mutants that would matter go to this file.
    Reach(&'a Path),
}

/// Tests that are run together: one unit test, or the integration tests of one module.
pub struct Tests {
    pub binary: PathBuf,
    pub names: Vec<String>,
}

/// Builds the tests that `targets` name. Returns cargo's messages, and whether the build succeeded.
pub fn cargo(folder: &Path, targets: &[&str]) -> (Vec<Value>, bool) {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--message-format=json"])
        .args(targets)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    (text, output.status.success())
}

/// The binaries of the unit tests and of the integration tests.
pub fn build(folder: &Path) -> [PathBuf; 2] {
    let (text, is_built) = cargo(folder, &["--lib", "--test", "it"]);
    assert!(is_built, "{text:?}");
    let tests: Vec<Value> = text
        .into_iter()
        .filter(|value| value["profile"]["test"] == true && value["executable"].is_string())
        .collect();
    [false, true].map(|is_it| {
        let found = tests
            .iter()
            .find(|value| (value["target"]["name"] == "it") == is_it);
        PathBuf::from(
            found.expect("cargo names the test binaries")["executable"]
                .as_str()
                .unwrap(),
        )
    })
}

/// Names of all tests of a binary.
pub fn names(folder: &Path, binary: &Path) -> Vec<String> {
    let output = Command::new(binary)
        .args(["--list", "--format", "terse"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}

/// Runs the tests until one fails, or `limit` is over. `said` is a file for their output.
pub fn run(folder: &Path, tests: &Tests, switch: &Switch, said: &Path, limit: Duration) -> Outcome {
    let started = Instant::now();
    let mut command = Command::new(&tests.binary);
    command
        .args(&tests.names)
        .args(["--exact", "--test-threads", "2"])
        .current_dir(folder);
    match switch {
        Switch::Mutants(numbers) => command.env(
            "PGVEIL_MUTANTS",
            numbers
                .iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(","),
        ),
        Switch::Reach(file) => command.env("PGVEIL_REACH", file),
    };
    command
        .env("INSTA_UPDATE", "no")
        .env("PGVEIL_NEIGHBOUR_QUERIES", "100")
        .stdin(Stdio::null());
    let output = std::fs::File::create(said).unwrap();
    // Its own process group: processes that a test left behind end with it.
    let mut child = command
        .stdout(output)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    loop {
        let ended = child.try_wait().unwrap();
        if let Some(status) = ended
            && status.success()
        {
            return Outcome::Passed(started.elapsed());
        }
        let failed = failed(said);
        if ended.is_some() || failed.is_some() || started.elapsed() > limit {
            let _ = Command::new("kill")
                .args(["-KILL", "--", &format!("-{}", child.id())])
                .stderr(Stdio::null())
                .status();
            let _ = child.wait();
            return match failed {
                Some(name) => Outcome::Failed(name),
                None if ended.is_some() => {
                    Outcome::Failed(format!("an abort of {}", tests.names[0]))
                }
                None => Outcome::Endless,
            };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn failed(said: &Path) -> Option<String> {
    let text = std::fs::read_to_string(said).unwrap_or_default();
    text.lines().find_map(|line| {
        line.strip_prefix("test ")?
            .split_once(" ... FAILED")
            .map(|(name, _)| name.to_owned())
    })
}
