//! Stage 2: Statement → [`Query`]: names, types, our own relation tree below the cut, and the
//! analyst's outer query above it. Hidden tables and columns do not exist.

pub(crate) mod classify;
mod cut;
mod expression;
mod idle_limits;
pub(crate) mod names;
pub(crate) mod outer;
pub(crate) mod private;
mod recursion;
pub(crate) mod session_functions;
pub(crate) mod syntax;

pub use expression::{Constants, regex_arcs, regex_of_similar, regex_reach, regex_rereads};
pub use names::attribute_call::check_dotted;
pub use outer::query::is_preview;
pub use session_functions::Session;
pub use syntax::{empty_select, plain_table, query_of, unnested};

use sqlparser::ast;

use crate::catalog::Type;
use crate::ir::{ColumnId, ColumnInfo, MiddleId, MiddleQuery, Query, Release, TableId};
use crate::parse;
use crate::policy::{Policy, ViewKind};
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
) -> Result<Query, Refusal> {
    let statement = idle_limits::without_idle(&query.0);
    let empty = classify::empty_query::has_limit_zero(&statement);
    let mut resolver = Resolver {
        marks: query.marks(),
        policy,
        search_path,
        constants,
        columns: Vec::new(),
        releases: Vec::new(),
        middles: Vec::new(),
        bound: Vec::new(),
        public_tables: Vec::new(),
        views: Vec::new(),
        scans: 0,
        selects: 0,
        depth: 0,
        empty,
        subqueries: 0,
    };
    let outer = resolver.open_query(&statement, &outer::query::Environment::default())?;
    let Resolver {
        columns,
        releases,
        middles,
        bound,
        public_tables,
        views,
        ..
    } = resolver;
    if !middles.is_empty() && !views.is_empty() {
        return Err(Refusal::new(
            reason::VIEW_WITH_TABLES,
            "a query that reads a pgveil view cannot compare private rows with released values",
        )
        .hint("Read the view in a separate query."));
    }
    let constants = bound.into_iter().map(|(at, _)| at).collect();
    Ok(Query {
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
    /// Where the statement's keywords stand.
    marks: &'a parse::Marks,
    policy: &'a Policy,
    search_path: &'a [String],
    constants: &'a Constants,
    columns: Vec<ColumnInfo>,
    releases: Vec<Release>,
    middles: Vec<MiddleQuery>,
    /// Each constant of a release: its middle query and column there, and its type.
    bound: Vec<((MiddleId, usize), Type)>,
    public_tables: Vec<TableId>,
    views: Vec<ViewKind>,
    scans: usize,
    /// How often the FROM of a SELECT over private rows was read: a definition of WITH is read at
    /// each place that names it.
    selects: usize,
    /// How many of these are open.
    depth: usize,
    /// Within a part whose result is empty whatever the tables hold: private tables stand for their
    /// empty twins in the shadow.
    empty: bool,
    /// How many subqueries of expressions are open: in them, names of the queries around are in
    /// sight.
    subqueries: usize,
}

impl Resolver<'_> {
    fn new_column(&mut self, info: ColumnInfo) -> ColumnId {
        self.columns.push(info);
        ColumnId((self.columns.len() - 1) as u32)
    }

    fn expressions<'s>(&'s self, scope: &'s names::scope::Scope) -> expression::Expressions<'s> {
        expression::Expressions {
            scope,
            columns: &self.columns,
            constants: self.constants,
            types: self.type_names(),
            given: &[],
            outer: &[],
            bound: &self.bound,
        }
    }

    /// Where the parenthesis opens that holds this subquery.
    fn opening(&self, query: &ast::Query) -> Option<u32> {
        self.marks.last_before("(", syntax::place_of(query)?)
    }

    /// Where GROUP BY stands in a SELECT.
    fn group_by_place(&self, select: &ast::Select) -> Option<u32> {
        let begins = syntax::position(select.select_token.0.span)?;
        self.marks.phrase_from(["GROUP", "BY"], begins)
    }

    /// Where FOR UPDATE or FOR SHARE stands in a query.
    fn lock_place(&self, query: &ast::Query) -> Option<u32> {
        let begins = syntax::place_of(query)?;
        ["UPDATE", "SHARE"]
            .into_iter()
            .filter_map(|word| self.marks.phrase_from(["FOR", word], begins))
            .min()
    }

    fn type_names(&self) -> expression::TypeNames<'_> {
        expression::TypeNames {
            policy: self.policy,
            search_path: self.search_path,
        }
    }
}
