//! Mutants by switches: one build holds them all, and the environment variable PGVEIL_MUTANTS turns
//! some of them on for a run of the tests.
//!
//! Nobody waits for tests that have nothing to do with a mutant: a first run without any writes
//! down which tests ask for which switches.
//!
//! A mutant of an expression is woven in as `if crate::mutated(17) { mutant } else { original }`.
//! The compiler's own spans show the mutants that do not compile; they are left out. So no mutant
//! costs a build.

mod find;
mod run;
mod trial;
mod weave;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use find::Site;

/// Where a mistake costs privacy.
const MODULES: [&str; 5] = ["analyze", "rewrite", "release", "mechanism", "ledger"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, each, seed, longest, places @ ..] = arguments.as_slice() else {
        eprintln!(
            "usage: pgveil-mutants FOLDER MUTANTS_PER_PLACE SEED LONGEST_TEST_IN_SECONDS \
            [PLACE…]"
        );
        eprintln!(
            "A PLACE is a folder or file of src, such as rewrite or analyze/per_unit.rs; \
            without any: {}",
            MODULES.join(", ")
        );
        return ExitCode::from(2);
    };
    let (Ok(each), Ok(seed), Ok(longest)) = (
        each.parse::<usize>(),
        seed.parse::<u64>(),
        longest.parse::<u64>(),
    ) else {
        eprintln!("MUTANTS_PER_PLACE, SEED and LONGEST_TEST_IN_SECONDS are numbers");
        return ExitCode::from(2);
    };
    let folder = PathBuf::from(folder);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    copy(root, &folder);
    let mut sites = Vec::new();
    let places = if places.is_empty() {
        MODULES.to_vec()
    } else {
        places.iter().map(String::as_str).collect()
    };
    for place in places {
        let mut found = sites_of(root, place);
        let all = found.len();
        shuffle(&mut found, seed);
        found.truncate(each);
        println!("{place}: {} of {all} mutants", found.len());
        sites.extend(found.into_iter().enumerate());
    }
    // One mutant of each place in turn, so that a trial that is cut short has tried all places.
    sites.sort_by_key(|(turn, _)| *turn);
    let mut sites: Vec<Site> = sites.into_iter().map(|(_, site)| site).collect();
    for (number, site) in sites.iter_mut().enumerate() {
        site.id = number + 1;
    }
    let sites = weave::compiling(root, &folder, sites);
    trial::all(&folder, &sites, Duration::from_secs(longest))
}

/// The files that git tracks or does not ignore, except the sources, which are woven.
fn copy(root: &Path, folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let listed = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(root)
        .output()
        .unwrap();
    for name in String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter(|name| !(name.starts_with("src/") && name.ends_with(".rs")))
    {
        let (from, to) = (root.join(name), folder.join(name));
        if from.is_file() {
            weave::write_changed(&to, &std::fs::read(from).unwrap());
        }
    }
}

/// The sites in a module, which is a file, a folder or both, or in one file.
fn sites_of(root: &Path, place: &str) -> Vec<Site> {
    let place = root.join("src").join(place);
    let mut paths = vec![place.with_extension("rs"), place];
    paths.retain(|path| path.exists());
    paths.dedup();
    let mut found = Vec::new();
    while let Some(path) = paths.pop() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            let mut held: Vec<PathBuf> = std::fs::read_dir(path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            held.sort();
            paths.extend(held);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "testing.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(find::sites(path.strip_prefix(root).unwrap(), &text));
        }
    }
    found
}

/// A random order, in which a mutant keeps its place when others come and go around it.
fn shuffle(sites: &mut [Site], seed: u64) {
    let mut before: HashMap<String, u64> = HashMap::new();
    sites.sort_by_cached_key(|site| {
        let alike = before.entry(site.key()).or_default();
        let lot = fnv(seed, &format!("{} {alike}", site.key()));
        *alike += 1;
        lot
    });
}

/// Fowler, Noll and Vo's hash 1a.
fn fnv(seed: u64, text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
