//! Statements about the catalogs: those of tools, answered as PostgreSQL answers, and those that
//! reach too far.

mod reach;
pub mod replay;
pub mod shop;
