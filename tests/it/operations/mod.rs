//! Running pgveil: policies, catalogs, start and end, failures of the database, clusters.

pub mod authorities;
pub mod catalog;
pub mod citus;
pub mod cli;
pub mod demo_browser;
pub mod demo_page;
mod doctor;
pub mod init;
pub mod operators;
pub mod outage;
mod packaging;
pub mod plan_cache;
pub mod policy;
pub mod postgres;
pub mod process;
pub mod public_changes;
mod reload;
pub mod serve;
pub mod shadow;
mod soak;
pub mod stage;
mod standby;
mod tutorial;
mod two_proxies;
mod upgrade;
pub mod wide;
pub mod worth;
