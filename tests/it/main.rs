//! Integration tests: one binary, one module a subject.

mod clients;
mod fixture;
mod harness;
mod ledger;
mod operations;
mod privacy;
mod project;
mod sql;
mod wire;
