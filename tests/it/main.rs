//! Integration tests: one binary, one module a subject.

#![allow(
    clippy::too_many_lines,
    reason = "a test tells one story from its beginning to its end"
)]

mod clients;
mod fixture;
mod harness;
mod ledger;
mod operations;
mod privacy;
mod project;
mod sql;
mod wire;
