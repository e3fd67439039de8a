//! Running pgveil: policies, catalogs, start and end, failures of the database, clusters.

pub mod authorities;
pub mod catalog;
pub mod citus;
pub mod cli;
pub mod demo_browser;
pub mod demo_page;
pub mod init;
pub mod outage;
mod packaging;
pub mod plan_cache;
pub mod policy;
pub mod postgres;
pub mod process;
pub mod public_changes;
pub mod serve;
pub mod shadow;
mod tutorial;
pub mod wide;
pub mod worth;
