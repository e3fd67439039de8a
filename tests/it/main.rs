//! Integration tests: one binary, one module a subject.

mod attack;
mod catalog;
mod golden;
mod harness;
mod ledger;
mod policy;
mod postgres;
mod road;
mod shadow;
mod veil;
mod wire;
