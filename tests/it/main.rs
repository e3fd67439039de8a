//! Integration tests: one binary, one module a subject.

mod catalog;
mod cli;
mod golden;
mod harness;
mod ledger;
mod neighbour;
mod policy;
mod postgres;
mod road;
mod shadow;
mod veil;
mod wire;
