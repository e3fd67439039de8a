mod catalog;
mod harness;
mod policy;
mod postgres;
mod shadow;
