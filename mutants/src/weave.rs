//! Weaves mutants into a copy of the project, and leaves out those that the compiler does not take.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::find::{Change, Site};
use crate::run::cargo;

const SWITCH: &str = "
/// Whether this mutant is on. A run that looks what its tests reach has none, and writes down \
what \
is asked for.
pub fn mutated(number: usize) -> bool {
    use std::io::Write;
    static ON: std::sync::OnceLock<Vec<bool>> = std::sync::OnceLock::new();
    static REACHED: std::sync::OnceLock<Option<(std::fs::File, \
    Vec<std::sync::atomic::AtomicBool>)>> = std::sync::OnceLock::new();
    let open = || {
        let path = std::env::var_os(\"PGVEIL_REACH\")?;
        let file = std::fs::File::options().create(true).append(true).open(path).ok()?;
        Some((file, (0..10_000).map(|_| false.into()).collect()))
    };
    if let Some((file, seen)) = REACHED.get_or_init(open)
        && !seen[number].swap(true, std::sync::atomic::Ordering::Relaxed)
    {
        let _ = (&*file).write_all(format!(\"{number}\\n\").as_bytes());
    }
    let on = || {
        let mut on = vec![false; 10_000];
        let output = std::env::var(\"PGVEIL_MUTANTS\").unwrap_or_default();
        output.split(',').filter_map(|id| id.parse::<usize>().ok()).for_each(|id| on[id] = true);
        on
    };
    ON.get_or_init(on)[number]
}
";

/// Bytes of a woven file that belong to a mutant: its own text, then all that it is woven around.
type Pieces = Vec<(usize, Range<usize>)>;

pub fn compiling(root: &Path, folder: &Path, mut sites: Vec<Site>) -> Vec<Site> {
    let lib = std::fs::read_to_string(root.join("src/lib.rs")).unwrap();
    write_changed(&folder.join("src/lib.rs"), (lib + SWITCH).as_bytes());
    loop {
        let woven = write(root, folder, &sites);
        let errors = errors(folder);
        if errors.is_empty() {
            println!("{} mutants compile", sites.len());
            return sites;
        }
        let mut faulty: BTreeSet<usize> = errors
            .iter()
            .filter_map(|(file, place)| blamed(woven.get(file)?, place))
            .collect();
        if faulty.is_empty() {
            faulty = errors
                .iter()
                .filter_map(|(file, place)| nearest(woven.get(file)?, place, &sites))
                .collect();
        }
        assert!(!faulty.is_empty(), "no mutant is to blame for {errors:?}");
        println!("{} of {} mutants do not compile", faulty.len(), sites.len());
        sites.retain(|site| !faulty.contains(&site.id));
    }
}

/// The mutant whose own text holds the place, else the innermost around it.
fn blamed(pieces: &Pieces, place: &Range<usize>) -> Option<usize> {
    let around = pieces
        .iter()
        .filter(|(_, range)| range.start <= place.start && place.end <= range.end);
    around
        .min_by_key(|(_, range)| range.len())
        .map(|(id, _)| *id)
}

/// A borrow that lasts too long because a statement is left out belongs to that statement.
fn nearest(pieces: &Pieces, place: &Range<usize>, sites: &[Site]) -> Option<usize> {
    let is_skipped = |id: &usize| {
        sites
            .iter()
            .any(|site| site.id == *id && matches!(site.change, Change::Skipped))
    };
    let skipped = pieces.iter().filter(|(id, _)| is_skipped(id));
    skipped
        .min_by_key(|(_, range)| range.start.abs_diff(place.start))
        .map(|(id, _)| *id)
}

fn write(root: &Path, folder: &Path, sites: &[Site]) -> BTreeMap<PathBuf, Pieces> {
    let mut by_file: BTreeMap<PathBuf, Vec<&Site>> = BTreeMap::new();
    let mut files = Vec::new();
    list(&root.join("src"), &mut files);
    for path in files {
        by_file.insert(path.strip_prefix(root).unwrap().to_owned(), Vec::new());
    }
    sites
        .iter()
        .for_each(|site| by_file.entry(site.file.clone()).or_default().push(site));
    let mut all = BTreeMap::new();
    for (file, mut sites) in by_file
        .into_iter()
        .filter(|(file, _)| file != Path::new("src/lib.rs"))
    {
        let text = std::fs::read_to_string(root.join(&file)).unwrap();
        sites.sort_by_key(|site| (site.start, std::cmp::Reverse(site.end), site.id));
        let (mut woven, mut pieces) = (String::new(), Vec::new());
        weave(&mut woven, &mut pieces, &text, 0..text.len(), &sites);
        write_changed(&folder.join(&file), woven.as_bytes());
        all.insert(file, pieces);
    }
    all
}

/// An unchanged file keeps its time, so that a build knows it.
pub fn write_changed(path: &Path, bytes: &[u8]) {
    if std::fs::read(path).ok().as_deref() != Some(bytes) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// `sites` are in order, outer ones before those inside.
fn weave(out: &mut String, pieces: &mut Pieces, text: &str, range: Range<usize>, sites: &[&Site]) {
    let mut at = range.start;
    let mut rest = sites;
    while let Some((site, after)) = rest.split_first() {
        let inner = after
            .iter()
            .take_while(|other| other.end <= site.end && site.start < site.end)
            .count();
        let (inner, after) = after.split_at(inner);
        out.push_str(&text[at..site.start]);
        let start = out.len();
        match &site.change {
            Change::Expression(mutant) => {
                out.push_str(&format!("(if crate::mutated({}) {{", site.id));
                let own = out.len();
                out.push_str(mutant);
                pieces.push((site.id, own..out.len()));
                out.push_str("} else {");
                weave(out, pieces, text, site.start..site.end, inner);
                out.push_str("})");
            }
            Change::Skipped => {
                out.push_str(&format!("if !crate::mutated({}) {{", site.id));
                weave(out, pieces, text, site.start..site.end, inner);
                out.push('}');
            }
            Change::Returns(value) => out.push_str(&format!(
                " if crate::mutated({}) {{ return \
                {value}; }} ",
                site.id
            )),
        }
        pieces.push((site.id, start..out.len()));
        at = site.end;
        rest = after;
    }
    out.push_str(&text[at..range.end]);
}

/// File and bytes of every error of the unit tests' build.
fn errors(folder: &Path) -> Vec<(PathBuf, Range<usize>)> {
    let (output, is_built) = cargo(folder, &["--lib"]);
    let mut found = Vec::new();
    for message in output
        .iter()
        .map(|value| &value["message"])
        .filter(|message| message["level"] == "error")
    {
        for span in message["spans"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|span| span["is_primary"] == true)
        {
            let number = |name: &str| span[name].as_u64().unwrap_or(0) as usize;
            found.push((
                PathBuf::from(span["file_name"].as_str().unwrap_or_default()),
                number("byte_start")..number("byte_end"),
            ));
        }
    }
    assert!(is_built || !found.is_empty(), "{output:?}");
    found
}
