//! Any text as a draft of the policy, as the console takes it: errors, or its differences from a
//! policy in force, from either side. A policy does not differ from itself. Nothing panics.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pgveil::policy::{Difference, File};

static IN_FORCE: LazyLock<File> =
    LazyLock::new(|| read(include_str!("../../policies/demo.yaml")).expect("the demo's policy"));

/// Reads a draft as the console does: without looking up a variable.
fn read(text: &str) -> Option<File> {
    match File::parse_without_secrets("draft", text, |_| None) {
        Ok(file) => Some(file),
        Err(errors) => {
            assert!(!errors.is_empty());
            None
        }
    }
}

fuzz_target!(|text: &str| {
    let Some(draft) = read(text) else { return };
    assert!(Difference::between(&draft, &draft).is_empty());
    let there = Difference::between(&IN_FORCE, &draft);
    let back = Difference::between(&draft, &IN_FORCE);
    assert_eq!(there.is_empty(), back.is_empty(), "{there:?} {back:?}");
});
