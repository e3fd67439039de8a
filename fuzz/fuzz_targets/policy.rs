//! Any text as a policy file: errors with their places, or a file; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgveil::policy::File;

fuzz_target!(|text: &str| {
    if let Err(errors) = File::parse("policy.yaml", text, |name| Some(format!("postgresql://{name}"))) {
        assert!(!errors.is_empty());
    }
});
