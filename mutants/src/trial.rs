//! Tries every mutant against the tests that reach it, the quickest first, until one fails: all unit tests, then the integration tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use crate::find::Site;
use crate::run::{Outcome, Switch, Tests, build, names, run};

/// Subjects of the integration tests that look at what the mutated modules do.
const SUBJECTS: [&str; 23] = [
    "attack",
    "audit",
    "cli",
    "coarser",
    "coverage",
    "explain",
    "golden",
    "invariants",
    "ledger",
    "middle",
    "neighbour",
    "oracle",
    "outer",
    "plans",
    "previews",
    "refusals",
    "reuse",
    "road",
    "shapes",
    "statistics",
    "twins",
    "types",
    "views",
];

/// A run that takes so many times as long as without a mutant has lost its way.
const PATIENCE: u32 = 4;

/// Mutants that are tried at once.
const AT_ONCE: usize = 2;

/// Tests that pass without a mutant, how long they take, and the mutants that they reach.
struct Reach {
    tests: Tests,
    took: Duration,
    mutants: BTreeSet<usize>,
}

/// Tries all mutants that `results.tsv` does not have as killed already. Tests that take longer than `longest` are left out.
pub fn all(folder: &Path, sites: &[Site], longest: Duration) -> ExitCode {
    let path = folder.join("results.tsv");
    let before: BTreeSet<String> = std::fs::read_to_string(&path).unwrap_or_default().lines().filter_map(killed).collect();
    let mut open: Vec<&Site> = sites.iter().filter(|site| !before.contains(&key(site))).collect();
    println!("{} of {} mutants were killed before", sites.len() - open.len(), sites.len());
    let results = Mutex::new(File::options().create(true).append(true).open(path).unwrap());
    let [unit, it] = build(folder);
    let units = names(folder, &unit).into_iter().map(|name| Tests { binary: unit.clone(), names: vec![name] }).collect();
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names(folder, &it).into_iter().filter(|name| SUBJECTS.iter().any(|subject| name.starts_with(&format!("{subject}::")))) {
        let module = name.rsplit_once("::").map_or(String::new(), |(module, _)| module.to_owned());
        modules.entry(module).or_default().push(name);
    }
    let modules = modules.into_values().map(|names| Tests { binary: it.clone(), names }).collect();
    let mut reached = BTreeSet::new();
    for tests in [units, modules] {
        if open.is_empty() {
            break;
        }
        let reach = reach(folder, tests, longest);
        reached.extend(reach.iter().flat_map(|one| one.mutants.iter().copied()));
        let verdicts = at_once(&open, |at, site| {
            let name = killer(folder, at, site, &reach)?;
            note(&results, site, &format!("killed by {name}"));
            Some(name)
        });
        open = open.into_iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()).map(|(site, _)| site).collect();
        println!("{} mutants are left", open.len());
    }
    for site in &open {
        note(&results, site, if reached.contains(&site.id) { "survives" } else { "is reached by no test" });
    }
    if open.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a mutant is known by from one run to the next.
fn key(site: &Site) -> String {
    format!("{}\t{}\t{}", site.file.display(), site.function, site.label)
}

/// The key of a line of the results that tells of a killed mutant.
fn killed(line: &str) -> Option<String> {
    let (rest, verdict) = line.rsplit_once('\t')?;
    let (_, key) = rest.split_once('\t')?.1.split_once('\t')?;
    verdict.starts_with("killed").then(|| key.to_owned())
}

fn note(results: &Mutex<File>, site: &Site, verdict: &str) {
    writeln!(results.lock().unwrap(), "{}\t{}\t{}\t{verdict}", site.id, site.line, key(site)).unwrap();
}

/// The tests with what they reach, the quickest first.
fn reach(folder: &Path, tests: Vec<Tests>, longest: Duration) -> Vec<Reach> {
    let numbers: Vec<usize> = (0..tests.len()).collect();
    let outcomes = at_once(&numbers, |at, number| {
        let tests = &tests[number];
        let file = folder.join(format!("reach{at}"));
        let _ = std::fs::remove_file(&file);
        match run(folder, tests, &Switch::Reach(&file), &said(folder, at), longest) {
            Outcome::Passed(took) => {
                let told = std::fs::read_to_string(&file).unwrap_or_default();
                Some((took, told.lines().filter_map(|line| line.parse().ok()).collect()))
            }
            Outcome::Failed(name) => {
                println!("{name} fails without a mutant, and is left out");
                None
            }
            Outcome::Endless => {
                println!("{} and its like take too long, and are left out", tests.names[0]);
                None
            }
        }
    });
    let mut found: Vec<Reach> =
        tests.into_iter().zip(outcomes).filter_map(|(tests, outcome)| outcome.map(|(took, mutants)| Reach { tests, took, mutants })).collect();
    found.sort_by_key(|one| one.took);
    found
}

/// The first test that fails with the mutant.
fn killer(folder: &Path, at: usize, site: &Site, reach: &[Reach]) -> Option<String> {
    for Reach { tests, took, mutants } in reach {
        if !mutants.contains(&site.id) {
            continue;
        }
        match run(folder, tests, &Switch::Mutant(site.id), &said(folder, at), *took * PATIENCE + Duration::from_secs(10)) {
            Outcome::Passed(_) => {}
            Outcome::Failed(name) => return Some(name),
            Outcome::Endless => return Some(format!("the time of {}", tests.names[0])),
        }
    }
    None
}

fn said(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("said{at}"))
}

/// What `one` makes of each item, in their order; several at once, each with a number of its own.
fn at_once<T: Copy + Sync, R: Send>(items: &[T], one: impl Fn(usize, T) -> Option<R> + Sync) -> Vec<Option<R>> {
    let next = Mutex::new(0..items.len());
    let made = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for at in 0..AT_ONCE {
            let (next, made, one) = (&next, &made, &one);
            scope.spawn(move || {
                while let Some(number) = take(next) {
                    let result = one(at, items[number]);
                    made.lock().unwrap().insert(number, result);
                }
            });
        }
    });
    made.into_inner().unwrap().into_values().collect()
}

/// The lock is not held while the item is worked on.
fn take(next: &Mutex<std::ops::Range<usize>>) -> Option<usize> {
    next.lock().unwrap().next()
}
