//! Our own small tree: relations over private rows, and the releases cut out of a query.

use sqlparser::ast;

use super::aggregate::Aggregate;
use super::aggregate_id::AggregateId;
use super::expression::Expr;
use super::grouping::{GroupingSet, KeyId};
use super::uncertainty::Uncertainty;
use super::window::Window;
use crate::catalog::Type;
use crate::policy::{ColumnPosition, ViewKind};
use crate::refusal::TextPosition;

/// One column of one relation of a query; an index into [`ResolvedQuery::columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnId(pub u32);

/// Index of a table in the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub usize);

/// One column of a middle query, bound to a release as constants; an index into
/// [`ResolvedQuery::constants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantId(pub u32);

/// One release of a query; an index into [`ResolvedQuery::releases`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseId(pub usize);

/// One middle query of a query; an index into [`ResolvedQuery::middles`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MiddleId(pub usize);

/// One column of a middle query.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MiddleColumn {
    pub middle: MiddleId,
    /// Its place among [`MiddleQuery::columns`].
    column: usize,
}

impl MiddleColumn {
    /// All columns of a middle query that has this many.
    pub fn all(middle: MiddleId, count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(move |column| Self { middle, column })
    }

    /// Its own among what a middle query has for each of its columns.
    pub fn pick<T>(self, of_columns: &[T]) -> &T {
        &of_columns[self.column]
    }

    /// Counted from one, for people.
    pub fn ordinal(self) -> usize {
        self.column + 1
    }
}

/// Prints the pair of numbers: digests of stored answers are taken of it.
impl std::fmt::Debug for MiddleColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (self.middle, self.column).fmt(f)
    }
}

/// The number of a scan within its release; names its alias in emitted SQL.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScanId(usize);

impl ScanId {
    pub const fn new(number: usize) -> Self {
        Self(number)
    }

    /// Returns the number, and moves on to the next one.
    pub fn take(&mut self) -> Self {
        let taken = *self;
        self.0 += 1;
        taken
    }

    pub fn alias(self) -> String {
        format!("t{}", self.0)
    }
}

/// The bare number.
impl std::fmt::Debug for ScanId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The facts that a column's declaration gives.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    /// Its name where it was first read, for messages and EXPLAIN.
    pub name: String,
    pub data_type: Type,
    /// May hold NULL at its own relation (an outer join above may add NULLs).
    pub nullable: bool,
    /// The table and the place in it, for a scan's column.
    pub origin: Option<(TableId, ColumnPosition)>,
}

/// A relation of rows, before `analyze` labels it.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    Scan(Scan),
    Filter {
        input: Box<Relation>,
        predicate: Expr,
    },
    Project {
        input: Box<Relation>,
        columns: Vec<(ColumnId, Expr)>,
    },
    Join {
        kind: JoinKind,
        left: Box<Relation>,
        right: Box<Relation>,
        on: Option<Expr>,
    },
    /// One row for each combination of the keys within one unit. `analyze` adds the unit to the
    /// keys if it is missing.
    Group {
        input: Box<Relation>,
        keys: Vec<ColumnId>,
        aggregates: Vec<(ColumnId, Aggregate)>,
    },
    /// Every row, extended by values computed from the other rows of its unit.
    Window {
        input: Box<Relation>,
        columns: Vec<(ColumnId, Window)>,
    },
    /// UNION ALL: the rows of every arm, whose columns take the place of `columns`.
    Union {
        columns: Vec<ColumnId>,
        arms: Vec<(Relation, Vec<ColumnId>)>,
    },
    /// Keeps at most this many rows of each unit, by an order that is a function of the set of the
    /// unit's rows. `analyze` places it below any operator that would multiply them.
    Bounded {
        input: Box<Relation>,
        unit: ColumnId,
        rows: u64,
    },
    Constants(ConstantRows),
}

impl Relation {
    /// Its input relations.
    pub fn inputs(&self) -> Vec<&Relation> {
        match self {
            Self::Scan(_) | Self::Constants(_) => Vec::new(),
            Self::Filter {
                input,
                predicate: _,
            }
            | Self::Project { input, columns: _ }
            | Self::Group {
                input,
                keys: _,
                aggregates: _,
            } => vec![input],
            Self::Window { input, columns: _ }
            | Self::Bounded {
                input,
                unit: _,
                rows: _,
            } => vec![input],
            Self::Join {
                kind: _,
                left,
                right,
                on: _,
            } => vec![left, right],
            Self::Union { columns: _, arms } => arms.iter().map(|(arm, _)| arm).collect(),
        }
    }

    /// The expressions that it evaluates itself.
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            Self::Scan(_) | Self::Constants(_) | Self::Union { .. } | Self::Bounded { .. } => {
                Vec::new()
            }
            Self::Window { input: _, columns } => columns
                .iter()
                .flat_map(|(_, window)| window.reads())
                .collect(),
            Self::Filter {
                input: _,
                predicate,
            } => vec![predicate],
            Self::Project { input: _, columns } => columns.iter().map(|(_, expr)| expr).collect(),
            Self::Join {
                kind: _,
                left: _,
                right: _,
                on,
            } => on.iter().collect(),
            Self::Group {
                input: _,
                keys: _,
                aggregates,
            } => aggregates
                .iter()
                .flat_map(|(_, aggregate)| aggregate.reads())
                .collect(),
        }
    }

    /// The columns that are created here or in its inputs.
    pub fn made_at_any_depth(&self) -> Vec<ColumnId> {
        let mut made = self.created_columns();
        self.inputs()
            .into_iter()
            .for_each(|input| made.extend(input.made_at_any_depth()));
        made
    }

    /// Every expression in it, at any depth of nesting.
    pub fn walk_expressions<'e>(&'e self, visit: &mut impl FnMut(&'e Expr)) {
        for expr in self.expressions() {
            expr.walk(visit);
        }
        self.inputs()
            .into_iter()
            .for_each(|input| input.walk_expressions(visit));
    }

    /// An outer join inside may fill columns with NULL.
    pub fn is_extended(&self) -> bool {
        let own = match self {
            Self::Join { kind, .. } => *kind == JoinKind::Left,
            Self::Scan(_)
            | Self::Constants(_)
            | Self::Filter { .. }
            | Self::Project { .. }
            | Self::Group { .. } => false,
            Self::Window { .. } | Self::Union { .. } | Self::Bounded { .. } => false,
        };
        own || self.inputs().into_iter().any(Relation::is_extended)
    }

    /// The one scan under filters and projections.
    pub fn only_scan(&self) -> Option<&Scan> {
        match self {
            Self::Scan(scan) => Some(scan),
            Self::Filter {
                input,
                predicate: _,
            }
            | Self::Project { input, columns: _ } => input.only_scan(),
            Self::Join { .. }
            | Self::Group { .. }
            | Self::Window { .. }
            | Self::Union { .. }
            | Self::Bounded { .. }
            | Self::Constants(_) => None,
        }
    }

    /// Where the client's text first names a table of it.
    pub fn place(&self) -> Option<u32> {
        match self {
            Self::Scan(scan) => scan.place.0,
            other => other.inputs().into_iter().find_map(Relation::place),
        }
    }

    /// The columns that are created here.
    pub fn created_columns(&self) -> Vec<ColumnId> {
        match self {
            Self::Scan(scan) => scan.columns.clone(),
            Self::Constants(rows) => rows.columns.clone(),
            Self::Filter { .. } | Self::Join { .. } | Self::Bounded { .. } => Vec::new(),
            Self::Project { input: _, columns } => columns.iter().map(|(id, _)| *id).collect(),
            Self::Window { input: _, columns } => columns.iter().map(|(id, _)| *id).collect(),
            Self::Union { columns, arms: _ } => columns.clone(),
            Self::Group {
                input: _,
                keys: _,
                aggregates,
            } => aggregates.iter().map(|(id, _)| *id).collect(),
        }
    }
}

/// The rows of a middle query, public by the time they are read.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstantRows {
    /// Parallel to `columns`.
    pub constants: Vec<ConstantId>,
    pub columns: Vec<ColumnId>,
    /// Columns that identify a row by construction: at most one row matches all of their values.
    pub unique: Option<Vec<ColumnId>>,
    /// Numbered with the scans.
    pub number: ScanId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    pub table: TableId,
    /// Parallel to `policy::Table::columns`.
    pub columns: Vec<ColumnId>,
    pub number: ScanId,
    pub place: TextPosition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    /// Keeps every row of the left side.
    Left,
}

/// A group key: an expression below the cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub expr: Expr,
    /// For EXPLAIN: as the analyst wrote it.
    pub text: String,
    pub place: TextPosition,
}

/// A part of the query that becomes one statement to the backend and one noisy answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub input: Relation,
    pub keys: Vec<Key>,
    /// GROUPING SETS, ROLLUP and CUBE: the keys of each set, no set twice; empty for a plain GROUP
    /// BY of all keys.
    pub sets: Vec<GroupingSet>,
    pub aggregates: Vec<Aggregate>,
    /// Additional columns, computed from released values.
    pub uncertainties: Vec<Uncertainty>,
}

/// The analyst's SQL between two releases. It reads released and public rows, and its result
/// becomes constants of a later release.
#[derive(Debug, Clone, PartialEq)]
pub struct MiddleQuery {
    /// Names releases as the outer query does.
    pub query: Box<ast::Query>,
    /// Types of its columns.
    pub columns: Vec<Type>,
    /// Releases that it reads.
    pub releases: Vec<ReleaseId>,
    /// Has one row by construction, so its values are used in expressions.
    pub rows: MiddleRows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MiddleRows {
    One,
    Many,
}

/// The analyst's query with every release replaced by a table of released rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedQuery {
    /// Names releases as `"pgveil_0"`, `"pgveil_1"`, …; key columns `"k0"`, …; aggregates as
    /// [`aggregate_column`].
    pub(crate) outer: Box<ast::Query>,
    pub(crate) releases: Vec<Release>,
    pub(crate) columns: Vec<ColumnInfo>,
    pub(crate) middles: Vec<MiddleQuery>,
    /// The column of each constant.
    pub(crate) constants: Vec<MiddleColumn>,
    /// Public tables the outer query reads.
    pub(crate) public_tables: Vec<TableId>,
    /// Views of pgveil's own that it reads.
    pub(crate) views: Vec<ViewKind>,
}

impl ResolvedQuery {
    pub fn outer(&self) -> &ast::Query {
        &self.outer
    }

    pub fn releases(&self) -> &[Release] {
        &self.releases
    }

    pub fn column(&self, id: ColumnId) -> &ColumnInfo {
        &self.columns[id.0 as usize]
    }

    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    pub fn middles(&self) -> &[MiddleQuery] {
        &self.middles
    }

    /// The column of a middle query that a constant is.
    pub fn constant(&self, id: ConstantId) -> MiddleColumn {
        self.constants[id.0 as usize]
    }

    pub fn public_tables(&self) -> &[TableId] {
        &self.public_tables
    }

    pub fn views(&self) -> &[ViewKind] {
        &self.views
    }
}

/// Alias of the n-th release in the outer query.
pub fn release_alias(ReleaseId(number): ReleaseId) -> String {
    format!("pgveil_{number}")
}

/// The release with this name in the outer query.
pub(crate) fn release_number(alias: &str) -> Option<ReleaseId> {
    let number = alias.strip_prefix("pgveil_")?;
    number.parse().ok().map(ReleaseId)
}

/// Name of a view of pgveil's own in the outer query.
pub fn view_alias(view: ViewKind) -> String {
    format!("pgveil_view_{}", view.view().name)
}

/// Column of the n-th key of a release in the outer query.
pub fn key_column(KeyId(at): KeyId) -> String {
    format!("k{at}")
}

/// Column that numbers the grouping set of a released row, where there are several.
pub const SET_COLUMN: &str = "s";

/// Column of the n-th aggregate of a release in the outer query.
pub fn aggregate_column(AggregateId(at): AggregateId) -> String {
    format!("a{at}")
}
