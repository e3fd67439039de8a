//! What is decided about a policy that is drafted.

use std::collections::{BTreeMap, BTreeSet};

use super::links::Link;
use super::reach::Way;
use super::request::Spend;
use super::seen::ColumnAt;

/// What is decided, and what stays open.
#[derive(Debug, Clone)]
pub struct Decisions {
    pub unit: ColumnAt,
    pub unit_name: String,
    /// Declared, vouched for, and guesses that nobody has confirmed.
    pub links: Vec<Link>,
    pub ways: BTreeMap<usize, Way>,
    /// The same with links that lack nothing but a key: these tables are not public.
    pub suspects: BTreeMap<usize, Way>,
    pub public: BTreeSet<usize>,
    /// A number, or `auto`.
    pub rows: BTreeMap<usize, String>,
    /// `{bounds: …}`, as YAML.
    pub bounds: BTreeMap<ColumnAt, String>,
    pub group_by: BTreeSet<ColumnAt>,
    pub budget: Option<Spend>,
    pub roles: Vec<(String, Option<Spend>)>,
    pub units: Option<u64>,
    pub has_shadow: bool,
}
