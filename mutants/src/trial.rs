//! Tries every mutant against the tests that reach it until one fails: all unit tests, then the
//! integration tests; the quickest first.
//!
//! A test is run with many mutants on at once: if it passes, it notices none of them; otherwise the
//! failing half is tried again, down to single mutants. A mutant counts as killed only by a run in
//! which it was on alone. A mutant that undoes another's effect can only make that one survive
//! wrongly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::find::Site;
use crate::run::{Outcome, Switch, Tests, build, names, run};

/// Subjects of the integration tests that look at what the mutated modules do.
const SUBJECTS: [&str; 8] = [
    "ledger",
    "operations::cli",
    "operations::plan_cache",
    "privacy",
    "project::golden",
    "project::invariants",
    "project::refusals",
    "sql",
];

/// A run that takes this many times as long as without a mutant is taken for an endless loop.
const PATIENCE: u32 = 4;

/// Tests that are run at once.
const AT_ONCE: usize = 2;

/// Mutants that are on together in a test's first run; twice as many after a run that passes, half
/// as many after one that fails.
const TOGETHER: usize = 8;

/// Tests that pass without a mutant, how long they take, and the mutants that they reach.
struct Reach {
    tests: Tests,
    took: Duration,
    mutants: BTreeSet<usize>,
}

/// Tries all mutants that `results.tsv` does not have as killed already. Tests that take longer
/// than `longest` are left out.
pub fn all(folder: &Path, sites: &[Site], longest: Duration) -> ExitCode {
    let path = folder.join("results.tsv");
    let before: BTreeSet<String> = std::fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .filter_map(killed)
        .collect();
    let open: BTreeMap<usize, &Site> = sites
        .iter()
        .filter(|site| !before.contains(&site.key()))
        .map(|site| (site.id, site))
        .collect();
    println!(
        "{} of {} mutants were killed before",
        sites.len() - open.len(),
        sites.len()
    );
    let results = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    let trial = Trial {
        folder,
        open: Mutex::new(open),
        results: Mutex::new(results),
    };
    let [unit, it] = build(folder);
    let units = names(folder, &unit)
        .into_iter()
        .map(|name| Tests {
            binary: unit.clone(),
            names: vec![name],
        })
        .collect();
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names(folder, &it).into_iter().filter(|name| {
        SUBJECTS
            .iter()
            .any(|subject| name.starts_with(&format!("{subject}::")))
    }) {
        let module = name
            .rsplit_once("::")
            .map_or(String::new(), |(module, _)| module.to_owned());
        modules.entry(module).or_default().push(name);
    }
    let modules = modules
        .into_values()
        .map(|names| Tests {
            binary: it.clone(),
            names,
        })
        .collect();
    let mut reached = BTreeSet::new();
    for tests in [units, modules] {
        if trial.open().is_empty() {
            break;
        }
        let mut reach = reach(folder, tests, longest);
        reach.sort_by_key(|one| one.took);
        reached.extend(reach.iter().flat_map(|one| one.mutants.iter().copied()));
        let places: Vec<&Reach> = reach.iter().collect();
        at_once(&places, |at, one| trial.try_all(at, one));
        println!("{} mutants are left", trial.open().len());
    }
    let open = trial.open();
    for (id, site) in &*open {
        trial.note(
            site,
            if reached.contains(id) {
                "survives"
            } else {
                "is reached by no test"
            },
        );
    }
    if open.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The mutants that no test has killed yet.
struct Trial<'a> {
    folder: &'a Path,
    open: Mutex<BTreeMap<usize, &'a Site>>,
    results: Mutex<File>,
}

impl<'a> Trial<'a> {
    fn open(&self) -> MutexGuard<'_, BTreeMap<usize, &'a Site>> {
        self.open.lock().unwrap()
    }

    fn try_all(&self, at: usize, one: &Reach) {
        let mut left: Vec<usize> = one.mutants.iter().copied().collect();
        let mut together = TOGETHER;
        loop {
            left.retain(|id| self.open().contains_key(id));
            let several = left.split_off(left.len().saturating_sub(together));
            if several.is_empty() {
                return;
            }
            let is_passed = self.try_together(at, one, &several);
            together = if is_passed {
                together * 2
            } else {
                (together / 2).max(1)
            };
        }
    }

    /// Whether the tests pass with all of them on. If not, the mutants that make them fail alone
    /// are marked as killed.
    fn try_together(&self, at: usize, one: &Reach, mutants: &[usize]) -> bool {
        let limit = one.took * PATIENCE + Duration::from_secs(10);
        let killer = match run(
            self.folder,
            &one.tests,
            &Switch::Mutants(mutants),
            &said(self.folder, at),
            limit,
        ) {
            Outcome::Passed(_) => return true,
            Outcome::Failed(name) => name,
            Outcome::Endless => format!("the time of {}", one.tests.names[0]),
        };
        if let [alone] = mutants {
            if let Some(site) = self.open().remove(alone) {
                self.note(site, &format!("killed by {killer}"));
            }
        } else {
            let (first, second) = mutants.split_at(mutants.len() / 2);
            self.try_together(at, one, first);
            self.try_together(at, one, second);
        }
        false
    }

    fn note(&self, site: &Site, verdict: &str) {
        writeln!(
            self.results.lock().unwrap(),
            "{}\t{}\t{}\t{verdict}",
            site.id,
            site.line,
            site.key()
        )
        .unwrap();
    }
}

/// The key of a killed mutant in a line of the results.
fn killed(line: &str) -> Option<String> {
    let (rest, verdict) = line.rsplit_once('\t')?;
    let (_, key) = rest.split_once('\t')?.1.split_once('\t')?;
    verdict.starts_with("killed").then(|| key.to_owned())
}

/// The tests with the mutants that they reach.
fn reach(folder: &Path, tests: Vec<Tests>, longest: Duration) -> Vec<Reach> {
    let numbers: Vec<usize> = (0..tests.len()).collect();
    let outcomes = at_once(&numbers, |at, number| {
        let tests = &tests[number];
        let file = folder.join(format!("reach{at}"));
        let _ = std::fs::remove_file(&file);
        match run(
            folder,
            tests,
            &Switch::Reach(&file),
            &said(folder, at),
            longest,
        ) {
            Outcome::Passed(took) => {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                Some((
                    took,
                    text.lines().filter_map(|line| line.parse().ok()).collect(),
                ))
            }
            Outcome::Failed(name) => {
                println!("{name} fails without a mutant, and is left out");
                None
            }
            Outcome::Endless => {
                println!(
                    "{} and its like take too long, and are left out",
                    tests.names[0]
                );
                None
            }
        }
    });
    let of = |(tests, outcome): (Tests, Option<(Duration, BTreeSet<usize>)>)| {
        outcome.map(|(took, mutants)| Reach {
            tests,
            took,
            mutants,
        })
    };
    tests.into_iter().zip(outcomes).filter_map(of).collect()
}

fn said(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("said{at}"))
}

/// Applies `one` to each item, several at once, each with its own number. The results keep the
/// order.
fn at_once<T: Copy + Sync, R: Send>(items: &[T], one: impl Fn(usize, T) -> R + Sync) -> Vec<R> {
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
