//! Integration tests: one binary, one module a subject.

mod catalog;
mod harness;
mod ledger;
mod neighbour;
mod policy;
mod postgres;
mod shadow;
mod wire;
