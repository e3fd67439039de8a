//! Integration tests: one binary, one module a subject.

mod attack;
mod catalog;
mod catalogs;
mod cli;
mod clients;
mod corpus;
mod crash;
mod explain;
mod golden;
mod harness;
mod invariants;
mod ledger;
mod middle;
mod neighbour;
mod oracle;
mod policy;
mod postgres;
mod reuse;
mod road;
mod serve;
mod settings;
mod shadow;
mod tidy;
mod veil;
mod views;
mod wire;
