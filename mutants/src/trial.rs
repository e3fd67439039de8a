//! Runs the tests that matter to each mutant, until one of them fails.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::find::Site;

/// What kills the mutants of a module: a binary (`lib` or `it`) and the beginnings of tests' names, in the order in which they are tried.
const TRIALS: [(&str, &[(&str, &[&str])]); 5] = [
    (
        "analyze",
        &[
            ("it", &["golden::", "shapes::"]),
            ("lib", &["analyze::", "rewrite::", "resolve::"]),
            ("it", &["neighbour::named", "neighbour::ranges", "neighbour::equal", "neighbour::forms", "invariants::refuse"]),
            ("it", &["neighbour::neighbours", "neighbour::subqueries", "neighbour::steps", "neighbour::types", "statistics::"]),
        ],
    ),
    (
        "rewrite",
        &[
            ("it", &["golden::", "shapes::"]),
            ("lib", &["rewrite::", "release::"]),
            (
                "it",
                &["neighbour::named", "neighbour::equal", "neighbour::forms", "neighbour::parts", "neighbour::draws", "statistics::", "coverage::"],
            ),
            ("it", &["neighbour::neighbours", "neighbour::mutants", "neighbour::total", "neighbour::steps", "neighbour::types"]),
        ],
    ),
    (
        "release",
        &[
            ("lib", &["release::", "mechanism::exponential"]),
            ("it", &["neighbour::equal", "road::", "statistics::", "middle::"]),
            ("it", &["neighbour::draws", "coverage::", "reuse::", "twins::", "attack::known", "invariants::"]),
        ],
    ),
    ("mechanism", &[("lib", &["mechanism::"]), ("it", &["golden::", "oracle::"]), ("it", &["neighbour::draws", "coverage::"])]),
    (
        "ledger",
        &[
            ("lib", &["ledger::"]),
            ("it", &["ledger::conformance", "ledger::steps", "audit::"]),
            ("it", &["reuse::", "road::", "cli::budget", "ledger::properties", "ledger::processes", "ledger::disk", "ledger::relay", "views::"]),
        ],
    ),
];

/// A run that takes so many times as long as without a mutant has lost its way.
const PATIENCE: u32 = 4;

enum Outcome {
    Passed(Duration),
    Failed(String),
    Endless,
}

pub fn all(folder: &Path, sites: &[Site]) -> ExitCode {
    let mut trials = Trials { folder, binaries: build(folder), limits: BTreeMap::new() };
    let mut results = std::fs::File::options().create(true).append(true).open(folder.join("results.tsv")).unwrap();
    let mut surviving = 0;
    for site in sites {
        let verdict = trials.of(site);
        surviving += usize::from(verdict == SURVIVES);
        let Site { id, module, file, line, function, label, start: _, end: _, change: _ } = site;
        writeln!(results, "{id}\t{module}\t{}:{line}\t{function}\t{label}\t{verdict}", file.display()).unwrap();
    }
    println!("{} mutants, {surviving} survive", sites.len());
    if surviving == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const SURVIVES: &str = "survives";

struct Trials<'a> {
    folder: &'a Path,
    binaries: BTreeMap<String, PathBuf>,
    /// By module and trial, once it ran without a mutant.
    limits: BTreeMap<(&'static str, usize), Duration>,
}

impl Trials<'_> {
    fn of(&mut self, site: &Site) -> String {
        let (module, trials) = TRIALS.iter().find(|(module, _)| *module == site.module).unwrap();
        for (at, (binary, filters)) in trials.iter().enumerate() {
            let binary = &self.binaries[*binary];
            let limit = *self.limits.entry((module, at)).or_insert_with(|| match run(self.folder, binary, filters, 0, Duration::from_secs(900)) {
                Outcome::Passed(took) => took * PATIENCE + Duration::from_secs(20),
                Outcome::Failed(name) => panic!("{module}: {name} fails without a mutant"),
                Outcome::Endless => panic!("{module}: the tests do not end without a mutant"),
            });
            match run(self.folder, binary, filters, site.id, limit) {
                Outcome::Passed(_) => {}
                Outcome::Failed(name) => return format!("killed by {name}"),
                Outcome::Endless => return "killed by its time".to_owned(),
            }
        }
        SURVIVES.to_owned()
    }
}

/// The test binaries by name.
fn build(folder: &Path) -> BTreeMap<String, PathBuf> {
    let output =
        Command::new("cargo").args(["test", "--no-run", "--lib", "--test", "it", "--message-format=json"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(path) = value["executable"].as_str()
            && value["profile"]["test"] == true
        {
            let name = if value["target"]["name"] == "it" { "it" } else { "lib" };
            found.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    found
}

fn run(folder: &Path, binary: &Path, filters: &[&str], mutant: usize, limit: Duration) -> Outcome {
    let started = Instant::now();
    let said = folder.join("said");
    let mut command = Command::new(binary);
    command
        .args(filters)
        .args(["--test-threads", "2", "--skip", "many_quantiles_err_less_together"])
        .current_dir(folder)
        .env("PGVEIL_MUTANT", mutant.to_string());
    command.env("INSTA_UPDATE", "no").env("PGVEIL_NEIGHBOUR_QUERIES", "150").stdin(Stdio::null());
    let output = std::fs::File::create(&said).unwrap();
    // A group of its own: servers that a test left behind end with it.
    let mut child = command.stdout(output).stderr(Stdio::null()).process_group(0).spawn().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            if status.success() {
                return Outcome::Passed(started.elapsed());
            }
            end(child.id());
            let told = std::fs::read_to_string(&said).unwrap_or_default();
            let failed = told.lines().find_map(|line| line.strip_prefix("test ")?.split_once(" ... FAILED").map(|(name, _)| name.to_owned()));
            return Outcome::Failed(failed.unwrap_or_else(|| "an abort".to_owned()));
        }
        if started.elapsed() > limit {
            end(child.id());
            let _ = child.wait();
            return Outcome::Endless;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn end(group: u32) {
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
}
