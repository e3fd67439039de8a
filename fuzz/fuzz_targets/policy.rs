//! Any text as a policy file: errors with their places, or a policy that holds for the catalog;
//! never a panic.
#![no_main]

mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match world::checked(text) {
        Ok(policy) => assert_eq!(policy.version.len(), 64),
        Err(errors) => assert!(!errors.is_empty()),
    }
});
