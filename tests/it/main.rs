mod catalog;
mod harness;
mod policy;
