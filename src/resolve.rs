//! Stage 2: Statement → [`ResolvedQuery`]: names, types, our own relation tree below the cut, and
//! the analyst's outer query above it. Hidden tables and columns do not exist.

pub(crate) mod classify;
mod collected;
mod cut;
mod expression;
mod limits;
pub(crate) mod names;
mod no_op_limits;
pub(crate) mod outer;
mod preview;
pub(crate) mod private;
mod resolution;
pub(crate) mod session_functions;
pub(crate) mod syntax;

pub use expression::{Constants, regex_arcs, regex_of_similar, regex_reach, regex_rereads};
pub use names::attribute_call::check_dotted;
pub use outer::query::is_preview;
pub use preview::{limited_as, only_table, with_rows};
pub use session_functions::SessionFacts;
pub use syntax::{empty_select, is_of_constants, plain_table, query_of, unnest};

use limits::ResolveLimits;
use names::Names;
use names::environment::Environment;
use resolution::Resolution;

use crate::ir::ResolvedQuery;
use crate::parse;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};

/// Characters to which a row's text is cut before it is searched, or grown.
pub const TEXT_MAX: u32 = 4096;

/// Gives every name and type of a statement an identity, and cuts it into releases and an outer
/// query.
///
/// `search_path` holds the schemas of unqualified names, in order.
///
/// # Errors
/// 42P01, 42703, 42702, 42803 as PostgreSQL; 42501 where rows of a private table would be shown;
/// 0A000 for constructs without a known sound answer.
pub fn resolve(
    query: &parse::Query,
    policy: &Policy,
    search_path: &[String],
    constants: &Constants,
) -> Result<ResolvedQuery, Refusal> {
    let statement = no_op_limits::without_idle(&query.0);
    let empty = classify::empty_query::has_limit_zero(&statement);
    let mut resolver = Resolver {
        names: Names {
            marks: query.marks(),
            policy,
            search_path,
            constants,
            empty,
            subqueries: 0,
        },
        output: Resolution::default(),
        limits: ResolveLimits::default(),
    };
    let outer = resolver.open_query(&statement, &Environment::default())?;
    resolver.check_reports()?;
    let Resolution {
        columns,
        releases,
        middles,
        bound,
        public_tables,
        views,
        scans: _,
    } = resolver.output;
    if !middles.is_empty() && !views.is_empty() {
        return Err(Refusal::new(
            reason::VIEW_WITH_TABLES,
            "a query that reads a pgveil view cannot compare private rows with released values",
        )
        .hint("Read the view in a separate query."));
    }
    let constants = bound.into_iter().map(|(at, _)| at).collect();
    Ok(ResolvedQuery {
        outer: Box::new(outer),
        releases,
        columns,
        middles,
        constants,
        public_tables,
        views,
    })
}

/// State of one resolution.
struct Resolver<'a> {
    names: Names<'a>,
    output: Resolution,
    limits: ResolveLimits,
}

impl Resolver<'_> {
    fn expressions<'s>(
        &'s self,
        scope: &'s names::scope::Scope,
    ) -> expression::ExpressionResolver<'s> {
        expression::ExpressionResolver {
            scope,
            columns: &self.output.columns,
            constants: self.names.constants,
            types: self.names.type_names(),
            given: &[],
            outer: &[],
            bound: &self.output.bound,
        }
    }
}
