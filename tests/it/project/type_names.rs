//! A type has one name, and a name means one type.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::tidy::{code, texts};

/// Names that several modules declare, and why.
const REPEATED: [(&str, &str); 3] = [
    ("Error", "each stage has one, and writes the module with it"),
    ("Table", "the catalog has it, and a policy shows it"),
    ("Column", "the catalog has it, and a policy shows it"),
];

/// The name of the type or trait that a line declares for other modules.
fn declared_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(within) => within.split_once(')')?.1,
        None => rest,
    };
    let mut words = rest.split_whitespace();
    if !matches!(
        words.next()?,
        "struct" | "enum" | "trait" | "type" | "union"
    ) {
        return None;
    }
    let name = words.next()?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    // The `$name` of a macro is no name.
    Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
}

fn is_test(path: &Path) -> bool {
    path.iter()
        .any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn declarations_are_read() {
    let read = [
        ("pub struct Plan {", Some("Plan")),
        ("pub(super) enum Draw<'a> {", Some("Draw")),
        (
            "    pub(in crate::rewrite) type Keys = Vec<Key>;",
            Some("Keys"),
        ),
        ("pub trait Store: Send {", Some("Store")),
        ("pub(in crate::rewrite) fn plan() {", None),
        ("struct Private;", None),
        ("pub struct", None),
        ("pub struct $name(u8);", None),
        ("pub use names::Name;", None),
    ];
    for (line, name) in read {
        assert_eq!(declared_name(line), name, "{line}");
    }
}

/// Only its import says which of two types of one name is meant. Private types may share a name.
#[test]
fn no_two_types_share_a_name() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (path, text) in texts("src") {
        if is_test(&path) {
            continue;
        }
        let code = code(&text);
        let product = code.split("\nmod tests {").next().unwrap();
        for name in product.lines().filter_map(declared_name) {
            places
                .entry(name.to_owned())
                .or_default()
                .push(path.clone());
        }
    }
    assert!(places.len() > 500, "{} types were found", places.len());
    places.retain(|_, paths| paths.len() > 1);
    for (name, _) in REPEATED {
        let was_repeated = places.remove(name).is_some();
        assert!(was_repeated, "{name} is one type: strike it from REPEATED");
    }
    assert!(
        places.is_empty(),
        "say in the name what the type is, as in PolicyKey and CancelKey: {places:#?}"
    );
}
