//! Statements about the schema itself (pg_catalog, information_schema, `current_schema()`), which
//! tools send to list tables and read types.
//!
//! The shadow answers them: it has the policy's tables, columns, types and keys, and nothing else,
//! so the real catalog with its statistics, sizes, definitions and comments is never asked. An
//! allow-list of relations, functions, settings and syntax stands in front. So a statement can
//! neither change nor signal anything, nor reveal anything about the shadow itself.

mod check;
mod classify;
mod names;
mod replace;

use std::ops::ControlFlow;

use crate::parse;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};
use crate::resolve::session_functions::SessionFacts;
use crate::visit;

/// The facts about the real server that a catalog statement may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// `server_version`, for example `15.18`.
    pub server_version: String,
    /// The values of session functions.
    pub session: SessionFacts,
    /// The settings `pgveil.*` in force.
    pub session_settings: Vec<(&'static str, String)>,
}

/// The statement that the shadow runs for a statement about the catalogs. `None` for a statement
/// about tables or values.
///
/// # Errors
/// 42501 for relations, functions and settings that are not offered; 0A000 for a statement over
/// both catalogs and tables of the policy, and for other syntax.
pub fn catalogs(
    query: &parse::Query,
    policy: &Policy,
    search_path: &[String],
    facts: &ServerFacts,
) -> Result<Option<parse::Query>, Refusal> {
    let reads_relations = match classify::survey(&query.0, policy, search_path)? {
        classify::StatementSubject::Tables => return Ok(None),
        classify::StatementSubject::Both { relation, table } => {
            return Err(Refusal::new(
                reason::CATALOG_WITH_TABLES,
                format!("a statement over both {relation} and {table} is not supported"),
            )
            .detail("Queries over the catalogs do not read the tables.")
            .hint("Query the catalog and the table in two statements."));
        }
        classify::StatementSubject::Catalogs { reads_relations } => reads_relations,
    };
    let mut asked = query.0.clone();
    match visit::visit_mut(
        &mut *asked,
        &mut check::Walk {
            facts,
            reads_relations,
        },
    ) {
        ControlFlow::Continue(()) => {
            parse::Query::new(asked).map(|asked| Some(asked.written_as(query)))
        }
        ControlFlow::Break(refusal) => Err(refusal),
    }
}
