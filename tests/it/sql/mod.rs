//! The supported SQL: answers without noise are PostgreSQL's.

pub mod characters;
pub mod collations;
pub mod column_types;
pub mod corpus;
pub mod end_to_end;
pub mod explain;
pub mod instants;
pub mod key_paths;
pub mod look;
pub mod middle_query;
mod no_row;
pub mod outer_query;
pub mod per_unit;
pub mod previews;
pub mod public_matches;
mod regression;
pub mod rollup;
pub mod second_reader;
pub mod settings;
pub mod statistics;
pub mod syntax;
pub mod system_catalog;
mod target_error;
pub mod types;
mod useless;
pub mod views;
mod widen;
