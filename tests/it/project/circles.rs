//! Files within a folder import one another in one direction. The circles that are left are one
//! recursive data type, one grammar, or one type in two files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tidy::{code, texts};

/// The files of each circle, and why it stays.
const CIRCLES: [(&[&str], &str); 3] = [
    (
        &[
            "ir::aggregate",
            "ir::expression",
            "ir::relation",
            "ir::window",
        ],
        "a relation holds expressions, an expression holds relations (EXISTS)",
    ),
    (
        &[
            "ledger::answers",
            "ledger::height",
            "ledger::rules",
            "ledger::witness",
        ],
        "the methods of one transaction",
    ),
    (
        &["rewrite::emit::expression", "rewrite::emit::relation"],
        "EXISTS emits relations, and relations emit expressions",
    ),
];

type Module = Vec<String>;

/// The source of each module, without comments, strings and tests.
fn modules() -> BTreeMap<Module, String> {
    let module = |path: &Path| -> Option<Module> {
        let inside = path.strip_prefix("src").unwrap().with_extension("");
        let parts: Module = inside
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        let is_module = !matches!(parts.last()?.as_str(), "lib" | "main" | "tests");
        is_module.then_some(parts)
    };
    texts("src")
        .into_iter()
        .filter_map(|(path, text)| {
            let code = code(&text);
            let product = code.split("#[cfg(test)]\nmod tests").next().unwrap();
            Some((module(&path)?, product.to_owned()))
        })
        .collect()
}

/// Every path of a `use`, without its braces.
fn spread(path: &str) -> Vec<String> {
    let Some((before, list)) = path.split_once('{') else {
        let name = path.split(" as ").next().unwrap();
        return vec![name.split_whitespace().collect()];
    };
    let list = list.trim_end().trim_end_matches('}');
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for c in list.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    parts
        .iter()
        .filter(|part| !part.trim().is_empty())
        .flat_map(|part| spread(&format!("{before}{}", part.trim())))
        .collect()
}

/// Every `use` of a source: whether it is public, and its paths.
fn uses(source: &str) -> Vec<(bool, Vec<String>)> {
    let statements = source.split(';').filter_map(|statement| {
        let at = statement.rfind("use ").filter(|at| {
            let before = &statement[..*at];
            before.is_empty() || before.ends_with([' ', '\n'])
        })?;
        let line = statement[..at].lines().last().unwrap_or_default();
        Some((line.trim().starts_with("pub"), spread(&statement[at + 4..])))
    });
    statements.collect()
}

/// A path from the root; `None` for other crates.
fn absolute(path: &str, module: &Module, all: &BTreeMap<Module, String>) -> Option<Module> {
    let mut parts: Module = path.split("::").map(str::to_owned).collect();
    let mut base = module.clone();
    match parts[0].as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            while parts.first().is_some_and(|part| part == "super") {
                parts.remove(0);
                base.pop();
            }
            base.extend(parts);
            return Some(base);
        }
        child => {
            base.push(child.to_owned());
            let is_child = all.contains_key(&base);
            base.pop();
            base.extend(parts);
            return is_child.then_some(base);
        }
    }
    base.extend(parts.into_iter().skip(1));
    Some(base)
}

/// The module that defines what a path names, through `pub use`.
fn definition(
    path: &Module,
    all: &BTreeMap<Module, String>,
    shown: &BTreeMap<(Module, String), Module>,
) -> Option<Module> {
    let end = (1..=path.len())
        .rev()
        .find(|end| all.contains_key(&path[..*end]))?;
    let module = path[..end].to_vec();
    let through = path
        .get(end)
        .and_then(|name| shown.get(&(module.clone(), name.clone())));
    match through.filter(|to| *to != path) {
        Some(to) => definition(&[to, &path[end + 1..]].concat(), all, shown),
        None => Some(module),
    }
}

/// Which modules of the same top folder a module imports, apart from its children.
fn arrows(all: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut shown = BTreeMap::new();
    let mut taken: Vec<(&Module, Module)> = Vec::new();
    for (module, source) in all {
        for (is_public, paths) in uses(source) {
            for path in paths {
                let Some(path) = absolute(&path, module, all) else {
                    continue;
                };
                if is_public {
                    let name = path.last().unwrap().clone();
                    shown.insert((module.clone(), name), path);
                } else {
                    taken.push((module, path));
                }
            }
        }
    }
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, path) in taken {
        let to = definition(&path, all, &shown)
            .filter(|to| to[0] == module[0] && !to.starts_with(module));
        arrows.entry(module.clone()).or_default().extend(to);
    }
    arrows
}

fn reached(from: &Module, arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for to in arrows.get(module).into_iter().flatten() {
            if found.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    found
}

#[test]
fn files_import_one_another_in_one_direction() {
    let all = modules();
    let arrows = arrows(&all);
    let reach: BTreeMap<&Module, BTreeSet<Module>> = all
        .keys()
        .map(|module| (module, reached(module, &arrows)))
        .collect();
    let circle = |module: &Module| -> BTreeSet<String> {
        let others = reach[module].iter().filter(|to| reach[to].contains(module));
        others.map(|other| other.join("::")).collect()
    };
    let found: BTreeSet<BTreeSet<String>> = all
        .keys()
        .map(circle)
        .filter(|circle| !circle.is_empty())
        .collect();
    let known: BTreeSet<BTreeSet<String>> = CIRCLES
        .iter()
        .map(|(files, _)| files.iter().map(|file| (*file).to_owned()).collect())
        .collect();
    assert_eq!(found, known);
}
