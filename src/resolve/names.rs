//! Names: common table expressions and tables, columns in scope, the names of output columns, and
//! calls written as attributes.

pub(in crate::resolve) mod attribute_call;
pub(in crate::resolve) mod environment;
pub(in crate::resolve) mod lookup;
pub(crate) mod output_name;
pub(crate) mod scope;

use super::expression::Constants;
use crate::parse;
use crate::policy::Policy;

/// What the names of a statement refer to, at one place in it. Classifying a query reads nothing
/// else.
#[derive(Clone, Copy)]
pub(in crate::resolve) struct Names<'a> {
    /// Where the statement's keywords stand.
    pub marks: &'a parse::TokenPositions,
    pub policy: &'a Policy,
    pub search_path: &'a [String],
    pub constants: &'a Constants,
    /// Within a part whose result is empty whatever the tables hold: private tables stand for their
    /// empty copies in the shadow.
    pub empty: bool,
    /// How many subqueries of expressions are open: in them, names of the queries around are in
    /// sight.
    pub subqueries: usize,
}
