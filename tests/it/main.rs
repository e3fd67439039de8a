//! Integration tests: one binary, one module a subject.

mod catalog;
mod cli;
mod harness;
mod ledger;
mod policy;
mod postgres;
mod shadow;
mod wire;
