//! The decisions about a policy that is drafted.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog_view::ColumnAt;
use super::links::Link;
use super::possibly_private::LinkToUnit;
use super::request::Spend;
use super::unit_paths::UnitPath;

/// The decisions, and the open ones.
#[derive(Debug, Clone)]
pub struct Decisions {
    pub unit: ColumnAt,
    pub unit_name: String,
    /// Declared, vouched for, and guesses that nobody has confirmed.
    pub links: Vec<Link>,
    pub ways: BTreeMap<usize, UnitPath>,
    /// Tables that may be about a unit by any chain: these are not public.
    pub suspects: BTreeMap<usize, LinkToUnit>,
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
