//! Stage 3: Query → [`Analyzed`]: labels, lineage, key rules and ranges; refuses what cannot be
//! bounded.

mod aggregate_bounds;
mod bounded_rows;
mod cardinality;
mod collation;
mod exclusive_filters;
mod expression_size;
mod fanout;
pub mod guarded_ranges;
mod implied_filters;
pub mod interval;
mod join_matches;
mod join_order;
mod keys;
mod label;
mod lineage;
mod nullability;
mod per_unit;
mod planning_effort;
mod public_outer_join;
mod range;
mod release;
mod row_facts;
mod unit_totals;

pub use cardinality::UnitGroups;
pub use fanout::{FanOut, MetTable};
pub use keys::key_combinations::{Axis, KeyCombinations, axes};
pub use keys::{KeyRule, NoRow, NoRowReason, grouping_sets, listed_groups, values_between};
pub use lineage::{Label, Lineage, only_scan, unit_of};
pub use planning_effort::PlanningEffort;
pub use release::HIDDEN_SCANS_FROM;
pub use unit_totals::UnitTotals;

use std::sync::Arc;

use crate::aggregates::BoundedAggregate;
use crate::catalog::Collation;
use crate::ir::{
    ColumnId, ColumnInfo, Expr, GroupingSet, Node, Relation, ReleaseId, ResolvedQuery, TableId,
    release_alias,
};
use crate::policy::{Policy, SessionSettings};
use crate::refusal::{Refusal, reason};
use release::analyze_release;

/// A query in which every release has a lineage, a rule for each key and a bound for each
/// aggregate.
#[derive(Debug)]
pub struct Analyzed {
    query: ResolvedQuery,
    releases: Vec<AnalyzedRelease>,
    columns: Vec<ColumnInfo>,
    effort: Arc<PlanningEffort>,
}

impl Analyzed {
    pub fn query(&self) -> &ResolvedQuery {
        &self.query
    }

    pub fn releases(&self) -> &[AnalyzedRelease] {
        &self.releases
    }

    /// Every column of the query's relations, those of joined-in paths included.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    /// The effort of planning so far, and its limit.
    pub fn effort(&self) -> &PlanningEffort {
        &self.effort
    }

    /// The only release with each period of a unit clipped by itself. Facts that are proved of all
    /// rows of a unit are forgotten: a clip is emitted whatever they say.
    pub fn by_period(mut self, by_period: &ByPeriod, limits: PeriodLimits) -> Self {
        for release in &mut self.releases {
            release.one_row_per_unit = false;
            release.one_group_per_unit = false;
            release.cells = None;
            release.by_period = Some(by_period.clone());
            let rows = &mut release.lineage.rows_per_unit;
            *rows = (*rows).min(limits.rows).max(1);
            for of_unit in &mut release.unit_groups {
                of_unit.groups = of_unit.groups.min(limits.groups).max(1);
                of_unit.rows = of_unit.rows.min(*rows);
            }
        }
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzedRelease {
    /// The rows, with paths to the unit joined in.
    pub input: Relation,
    pub lineage: Lineage,
    pub keys: Vec<(Expr, KeyRule)>,
    /// Keys whose listed values occur in these combinations alone.
    pub tuples: Vec<KeyCombinations>,
    /// The keys of each grouping set; empty for a plain GROUP BY of all keys.
    pub sets: Vec<GroupingSet>,
    /// The keys as the analyst wrote them, for EXPLAIN.
    pub key_texts: Vec<String>,
    pub aggregates: Vec<BoundedAggregate>,
    /// Classes of filters of which at most one holds for a row.
    pub exclusive_filters: Vec<Vec<Expr>>,
    /// The most that one unit's values add up to, as the policy declares it.
    pub unit_totals: UnitTotals,
    /// At most one row for each unit, without a clip: the unit is the whole primary key of the one
    /// table that is read, or the rows were grouped by the unit alone.
    pub one_row_per_unit: bool,
    /// The rows of one unit as the tables and joins alone bound them, whatever the keys are.
    pub rows_by_tables: u64,
    /// Keys of the catalog, and grouping, leave each unit one row. A clip is emitted all the same.
    pub one_row_by_keys: bool,
    /// How one unit's rows are grouped, for each grouping set.
    pub unit_groups: Vec<UnitGroups>,
    /// The most rows of a unit in all groups together, by a unique key over listed values. A clip
    /// for this many rows cuts nothing, and is left out.
    pub cells: Option<u64>,
    /// All rows of a unit are in one group, since every key is a function of the unit.
    pub one_group_per_unit: bool,
    /// Columns computed by derived tables.
    pub computed: Vec<(ColumnId, Expr)>,
    pub tables: Vec<TableId>,
    /// The collations of the columns above the cut that something may be ordered by. `None` where
    /// all texts that are read have the database's collation.
    pub collations: Option<Vec<(String, Collation)>>,
    /// Public rows that each private row is paired with.
    pub fan_outs: Vec<FanOut>,
    /// Why no row can be in the release, whatever the tables hold.
    pub no_row: Option<NoRow>,
    /// Where its periods are prepaid: each period of a unit is clipped by itself.
    pub by_period: Option<ByPeriod>,
}

/// How one debit covers what a unit adds to prepaid periods.
#[derive(Debug, Clone, PartialEq)]
pub struct ByPeriod {
    /// The period of a row, by its first moment. It follows from a group key.
    pub period: Expr,
    /// In how many periods a unit counts at most, in all statements of one debit together.
    pub counted: u32,
    /// The number of periods of a horizon whose running totals are drawn by a square root, where
    /// they are.
    pub totals_over: Option<u32>,
}

/// What one unit may have in one period: it chooses the clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodLimits {
    pub rows: u64,
    pub groups: u64,
}

impl AnalyzedRelease {
    /// The keys of every grouping set: of a plain GROUP BY one, of all keys.
    pub fn grouping_sets(&self) -> Vec<GroupingSet> {
        keys::grouping_sets(&self.sets, self.keys.len())
    }

    /// Number of groups in the full domains of all grouping sets. A key without a domain counts as
    /// one value.
    pub fn listed_groups(&self) -> u64 {
        keys::listed_groups(
            &self.grouping_sets(),
            |key| &self.keys[key.0].1,
            &self.tuples,
        )
    }
    /// The most that the magnitudes of one unit's values add up to, as the policy declares it.
    /// Chooses clips, and replaces none.
    pub fn unit_total(&self, value: &Expr) -> Option<f64> {
        if self.unit_totals.is_empty() {
            return None;
        }
        self.unit_totals.of(&inline(value, &self.computed))
    }

    /// Whether a set's groups are known without the data.
    pub fn is_listed(&self, set: &GroupingSet) -> bool {
        set.keys()
            .all(|key| matches!(self.keys[key.0].1, KeyRule::Domain(_)))
    }

    /// Whether some set's groups are released by threshold.
    pub fn is_thresholded(&self) -> bool {
        self.grouping_sets().iter().any(|set| !self.is_listed(set))
    }
}

/// Labels every release, rules its keys and bounds its aggregates.
///
/// # Errors
/// 0A000 where no sound bound is known; 54000 for too many groups, 54001 for expressions that are
/// too large. Every text depends on the SQL and the policy only.
pub fn analyze(
    query: ResolvedQuery,
    policy: &Policy,
    session_settings: &SessionSettings,
    effort: &Arc<PlanningEffort>,
) -> Result<Analyzed, Refusal> {
    expression_size::check(query.releases())?;
    let mut columns = query.columns().to_vec();
    let mut releases = Vec::new();
    for release in query.releases() {
        releases.push(analyze_release(
            release,
            policy,
            session_settings,
            &mut columns,
            effort,
        )?);
    }
    let mut tables = releases
        .iter()
        .flat_map(|release| &release.tables)
        .chain(query.public_tables());
    if tables.any(|id| {
        policy.tables[id.0]
            .columns
            .iter()
            .any(|column| column.collation.is_some())
    }) {
        for (number, release) in releases.iter_mut().enumerate() {
            collate(release, ReleaseId(number), &query, policy, &columns)?;
        }
        // After the charge, PostgreSQL would fail where two such texts are compared.
        let mut shown = releases
            .iter()
            .filter_map(|release| release.collations.as_ref())
            .flatten()
            .map(|(_, collation)| collation);
        if let Some(first) = shown.next()
            && shown.any(|collation| collation != first)
        {
            return Err(Refusal::new(
                reason::MIXED_COLLATIONS,
                "cannot order or compare released texts of different collations",
            )
            .hint("Name the collation of each text, as in ORDER BY x COLLATE \"C\"."));
        }
    }
    Ok(Analyzed {
        query,
        releases,
        columns,
        effort: Arc::clone(effort),
    })
}

/// Derives the collations of a release.
fn collate(
    release: &mut AnalyzedRelease,
    number: ReleaseId,
    query: &ResolvedQuery,
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Result<(), Refusal> {
    let alias = release_alias(number);
    let is_only_shown = |name: &str| {
        let mut queries = query
            .middles()
            .iter()
            .map(|middle| &*middle.query)
            .chain([query.outer()]);
        queries.all(|query| collation::is_only_shown(query, &alias, name))
    };
    let mut collations = collation::Collations::new(policy, columns);
    collations.relation(&release.input)?;
    let shown = collations.shown_collations(&release.keys, &release.aggregates, is_only_shown)?;
    release.collations = collations.others.then_some(shown);
    Ok(())
}

/// Replaces computed columns by their definitions, down to scanned columns.
pub fn inline(expr: &Expr, computed: &[(ColumnId, Expr)]) -> Expr {
    let node = match &expr.node {
        Node::Column(id) => match computed.iter().find(|(c, _)| c == id) {
            Some((_, definition)) => return inline(definition, computed),
            None => Node::Column(*id),
        },
        Node::Literal(value) => Node::Literal(value.clone()),
        Node::Constant(id) => Node::Constant(*id),
        // The conditions of EXISTS stay as they are.
        Node::Exists { .. } => expr.node.clone(),
        Node::Cast(inner) => Node::Cast(Box::new(inline(inner, computed))),
        Node::Case {
            branches,
            otherwise,
        } => Node::Case {
            branches: branches
                .iter()
                .map(|(c, r)| (inline(c, computed), inline(r, computed)))
                .collect(),
            otherwise: otherwise.as_ref().map(|e| Box::new(inline(e, computed))),
        },
        Node::Call {
            function,
            arguments,
        } => Node::Call {
            function: *function,
            arguments: arguments.iter().map(|a| inline(a, computed)).collect(),
        },
    };
    Expr {
        node,
        data_type: expr.data_type.clone(),
    }
}
