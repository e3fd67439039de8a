mod catalog;
mod harness;
mod ledger;
mod policy;
mod postgres;
mod shadow;
