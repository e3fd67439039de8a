//! Statements about the catalogs: what tools send, answered as PostgreSQL answers; and what must
//! not be reached.

mod reach;
pub mod replay;
pub mod shop;
