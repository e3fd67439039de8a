//! Every key of the policy file: its place, its values, its meaning. `pgveil policy schema` and
//! `pgveil policy explain` are made from this table; a test holds it to what the reader asks for,
//! and docs/policy.md to it.

mod limits;
mod people;
mod privacy;
mod servers;
mod shape;
mod summaries;
mod tables;

pub use shape::{KeyShape, PolicyKey};

/// The sections of a policy, in the order in which documents show them.
const SECTIONS: &[&[PolicyKey]] = &[
    servers::KEYS,
    privacy::KEYS,
    people::KEYS,
    tables::KEYS,
    summaries::KEYS,
    limits::KEYS,
];

/// The keys, each below its parent.
pub static KEYS: &[PolicyKey] = &join::<{ count(SECTIONS) }>(SECTIONS);

const fn count(sections: &[&[PolicyKey]]) -> usize {
    let (mut keys, mut at) = (0, 0);
    while at < sections.len() {
        keys += sections[at].len();
        at += 1;
    }
    keys
}

/// All keys of the sections, of which there are `N`.
const fn join<const N: usize>(sections: &[&[PolicyKey]]) -> [PolicyKey; N] {
    let mut all = [sections[0][0]; N];
    let (mut keys, mut section) = (0, 0);
    while section < sections.len() {
        let mut at = 0;
        while at < sections[section].len() {
            all[keys] = sections[section][at];
            keys += 1;
            at += 1;
        }
        section += 1;
    }
    all
}
