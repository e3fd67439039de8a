//! Stage 3: Query → [`Analyzed`]: labels, lineage, key rules and ranges; refuses what cannot be
//! bounded.

mod aggregate_bounds;
mod bounded_rows;
mod collation;
mod expression_size;
mod fanout;
pub mod guarded_ranges;
pub mod interval;
mod join_matches;
mod join_order;
mod keys;
mod label;
mod per_unit;
mod planning_effort;
mod public_outer_join;
mod range;
mod row_facts;

pub use fanout::FanOut;
pub use keys::key_combinations::{Axis, KeyCombinations, axes};
pub use keys::{KeyRule, grouped, values_between};
pub use label::{Label, Lineage, only_scan, unit_of};
pub use planning_effort::PlanningEffort;

use std::sync::Arc;

use crate::catalog::Collation;
use crate::ir::functions::Function;
use crate::ir::{
    ColumnId, ColumnInfo, Distinct, End, Expr, Fractions, Moment, Node, Quantifier, Query,
    Relation, Release, TableId, VarianceKind, release_alias,
};
use crate::policy::{Policy, Scalar, SessionSettings};
use crate::refusal::{Refusal, sqlstate};
use interval::Interval;
use range::Ranges;
use row_facts::{
    always_true, computed_columns, grouped_by_unit, holds_unique_key, null_extended,
    scanned_tables, told_by_unit,
};

/// A query whose every release has a lineage, ruled keys and bounded aggregates.
#[derive(Debug)]
pub struct Analyzed {
    query: Query,
    releases: Vec<AnalyzedRelease>,
    columns: Vec<ColumnInfo>,
    effort: Arc<PlanningEffort>,
}

impl Analyzed {
    pub fn query(&self) -> &Query {
        &self.query
    }

    pub fn releases(&self) -> &[AnalyzedRelease] {
        &self.releases
    }

    /// Every column of the query's relations, those of joined-in paths included.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    /// What planning has taken so far, and may take.
    pub fn effort(&self) -> &PlanningEffort {
        &self.effort
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct AnalyzedRelease {
    /// With paths to the unit joined in.
    pub input: Relation,
    pub lineage: Lineage,
    pub keys: Vec<(Expr, KeyRule)>,
    /// Keys whose listed values occur in these combinations alone.
    pub tuples: Vec<KeyCombinations>,
    /// The keys of each grouping set; empty for a plain GROUP BY of all keys.
    pub sets: Vec<Vec<usize>>,
    /// As the analyst wrote each key, for EXPLAIN.
    pub key_texts: Vec<String>,
    pub aggregates: Vec<BoundedAggregate>,
    /// The unit is the whole primary key of the one table read, or the rows were grouped by it
    /// alone: at most one row a unit, without any clip.
    pub one_row_per_unit: bool,
    /// At most one row of a unit in each group, by a unique key (chooses a clip, replaces none).
    pub one_row_per_group: bool,
    /// At most so many rows of a unit are in any group at all, by a unique key over listed values:
    /// no clip below so many rows can cut anything.
    pub cells: Option<u64>,
    /// All rows of a unit are in one group, since every key is a function of the unit.
    pub one_group_per_unit: bool,
    /// Columns computed by derived tables.
    pub computed: Vec<(ColumnId, Expr)>,
    pub tables: Vec<TableId>,
    /// Where some text that is read has another collation than the database's: those of the columns
    /// above the cut that something may be ordered by.
    pub collations: Option<Vec<(String, Collation)>>,
    /// Public rows that stand beside each private one.
    pub beside: Vec<FanOut>,
}

/// An aggregate over rows, with what its argument's values are clipped to.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedAggregate {
    pub filter: Option<Expr>,
    pub operation: BoundedOperation,
    pub data_type: crate::catalog::Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BoundedOperation {
    CountRows,
    /// Rows where the expression is not NULL; `nullable` false makes it a count of rows.
    Count {
        argument: Expr,
        nullable: bool,
    },
    CountUnits,
    Sum {
        argument: Expr,
        range: Interval,
        nullable: bool,
    },
    Average {
        argument: Expr,
        range: Interval,
        nullable: bool,
    },
    Dispersion {
        argument: Expr,
        range: Interval,
        nullable: bool,
        kind: Dispersion,
    },
    /// Over rows where neither is NULL, by the aggregate's own filter.
    Joint {
        y: Expr,
        y_range: Interval,
        x: Expr,
        x_range: Interval,
        kind: Joint,
    },
    /// Whether few enough rows meet the aggregate's own filter: those that are false for All, true
    /// for Any.
    Truth(Quantifier),
    /// Unlike values, of which one unit adds at most so many.
    Distinct {
        values: Distinct,
        per_unit_max: u64,
    },
    /// The sum, the mean or the spread of unlike values, each once.
    Unlike {
        argument: Expr,
        range: Interval,
        per_unit_max: u64,
        moment: Moment,
    },
    /// Values at chosen ranks.
    Ranked {
        argument: Expr,
        range: Interval,
        ranks: Ranks,
    },
    /// The most frequent of the values known without the data, NULL not among them.
    Mode {
        argument: Expr,
        values: Vec<Scalar>,
    },
}

/// Which places in the order of values are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranks {
    End(End),
    Fractions(Fractions),
}

/// How far values lie from their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispersion {
    /// Sum of squared distances from the mean.
    Squares,
    Spread(VarianceKind),
}

/// Statistics of pairs (y, x) that need both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    Products,
    Slope,
    Intercept,
    Determination,
}

impl AnalyzedRelease {
    /// The keys of every grouping set: of a plain GROUP BY one, of all keys.
    pub fn grouped(&self) -> Vec<Vec<usize>> {
        keys::grouped(&self.sets, self.keys.len())
    }

    /// A set's groups are known without the data.
    pub fn is_listed(&self, set: &[usize]) -> bool {
        set.iter()
            .all(|at| matches!(self.keys[*at].1, KeyRule::Domain(_)))
    }

    /// Some set's groups are released by threshold.
    pub fn is_thresholded(&self) -> bool {
        self.grouped().iter().any(|set| !self.is_listed(set))
    }
}

impl BoundedOperation {
    /// Every expression that it reads, but for the filter.
    pub fn arguments(&self) -> Vec<&Expr> {
        match self {
            Self::CountRows | Self::CountUnits | Self::Truth(_) => Vec::new(),
            Self::Count {
                argument,
                nullable: _,
            }
            | Self::Sum {
                argument,
                range: _,
                nullable: _,
            } => vec![argument],
            Self::Average {
                argument,
                range: _,
                nullable: _,
            }
            | Self::Dispersion {
                argument,
                range: _,
                nullable: _,
                kind: _,
            } => vec![argument],
            Self::Joint {
                y,
                y_range: _,
                x,
                x_range: _,
                kind: _,
            } => vec![y, x],
            Self::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
            } => vec![value],
            Self::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
            } => values.iter().collect(),
            Self::Unlike {
                argument,
                range: _,
                per_unit_max: _,
                moment: _,
            } => vec![argument],
            Self::Ranked {
                argument,
                range: _,
                ranks: _,
            }
            | Self::Mode {
                argument,
                values: _,
            } => vec![argument],
        }
    }
}

/// Labels every release, rules its keys and bounds its aggregates.
///
/// # Errors
/// 0A000 where no sound bound is known; 54000 for too many groups, 54001 for expressions that are
/// too large. Every text depends on the SQL and the policy only.
pub fn analyze(
    query: Query,
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
            collate(release, number, &query, policy, &columns)?;
        }
        // PostgreSQL would fail where two of them are compared, which is after the charge.
        let mut shown = releases
            .iter()
            .filter_map(|release| release.collations.as_ref())
            .flatten()
            .map(|(_, collation)| collation);
        if let Some(first) = shown.next()
            && shown.any(|collation| collation != first)
        {
            return Err(Refusal::unsupported(
                "ordering or comparing released texts of several collations",
            )
            .hint("Write the collation of each, as in ORDER BY x COLLATE \"C\"."));
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
    number: usize,
    query: &Query,
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
    let shown = collations.shown(&release.keys, &release.aggregates, is_only_shown)?;
    release.collations = collations.others.then_some(shown);
    Ok(())
}

fn analyze_release(
    release: &Release,
    policy: &Policy,
    session_settings: &SessionSettings,
    columns: &mut Vec<ColumnInfo>,
    effort: &PlanningEffort,
) -> Result<AnalyzedRelease, Refusal> {
    let over_matches = public_outer_join::over_matches(release, policy)?;
    let keeps_public_rows = over_matches.is_some();
    let release = over_matches.as_ref().unwrap_or(release);
    // Numbers of joined-in scans follow those of the statement's own.
    let scans = 1000;
    let mut labels = label::Labels {
        policy,
        columns,
        scans,
        opaque: Vec::new(),
        beside: Vec::new(),
        sunk: Vec::new(),
        is_crossed: false,
    };
    let (input, label) = labels.label(release.input.clone(), &[])?;
    let (opaque, beside) = (labels.opaque, labels.beside);
    let Label::Private(mut lineage) = label else {
        return Err(Refusal::new(
            sqlstate::INTERNAL_ERROR,
            "a release without a private table",
        ));
    };
    // A bound on rows chooses the clip, so a narrower one is as sound.
    lineage.rows_per_unit = session_settings
        .rows_per_unit
        .map_or(lineage.rows_per_unit, |most| {
            lineage.rows_per_unit.min(most.into())
        });
    let computed = computed_columns(&input);
    let null_extended = null_extended(&input, false);
    let always = always_true(&input);
    let inlined: Vec<Expr> = always.iter().map(|c| inline(c, &computed)).collect();

    let of_keys = if keeps_public_rows {
        public_outer_join::conditions(&input)
    } else {
        always
    };
    let conditions: Vec<Expr> = of_keys
        .iter()
        .map(|c| keys::over_rows(c, &computed, &null_extended))
        .collect();
    let conditions = conditions.iter().flat_map(Expr::conjuncts).collect();
    let ruled = keys::Keys {
        choice: session_settings.keys,
        policy,
        columns,
        computed: &computed,
        null_extended: &null_extended,
        conditions,
        effort,
    };
    let mut keys = Vec::new();
    for key in &release.keys {
        let rule = ruled
            .rule(&key.expr)
            .map_err(|refusal| refusal.within(|| key.place.0))?;
        keys.push((key.expr.clone(), rule));
    }
    let grouped = keys::grouped(&release.sets, keys.len());
    let tuples = ruled.tuples(&mut keys, &input);
    if keeps_public_rows {
        public_outer_join::check_groups(&ruled, &keys, &input)?;
    }
    effort.within()?;
    keys::cells(&grouped, &keys, &tuples, policy.limits.groups)?;

    let ranges = |extra: Option<&'_ Expr>| -> Vec<Expr> {
        inlined
            .iter()
            .cloned()
            .chain(extra.map(|e| inline(e, &computed)))
            .collect()
    };
    let mut aggregates = Vec::new();
    for aggregate in &release.aggregates {
        let conditions: Vec<Expr> = ranges(aggregate.filter.as_ref());
        let conditions: Vec<&Expr> = conditions.iter().flat_map(Expr::conjuncts).collect();
        let ranges = Ranges {
            policy,
            columns,
            computed: &computed,
            opaque: &opaque,
            conditions,
            excluded: Vec::new(),
        };
        let nullable = Nullability {
            columns,
            computed: &computed,
            null_extended: &null_extended,
        };
        let bounds = aggregate_bounds::Bounds {
            ranges,
            nullability: nullable,
            lineage: &lineage,
            ruled: &ruled,
            keys: &keys,
        };
        aggregates.push(
            bounds
                .aggregate(aggregate)
                .map_err(|refusal| refusal.within(|| aggregate.place.0))?,
        );
    }
    let tables = scanned_tables(&input);
    let is_keyed = only_scan(&input).is_some_and(|s| {
        unit_of(&policy.tables[s.table.0]).is_some_and(|u| u.is_primary_key && u.path.is_empty())
    });
    let one_row_per_unit = is_keyed || grouped_by_unit(&input, &lineage);
    let within = |set: &Vec<usize>| {
        let is_key = |id| set.iter().any(|at| keys[*at].0.as_column() == Some(id));
        holds_unique_key(&input, policy, |id| {
            lineage.units.contains(&id) || is_key(id)
        })
    };
    let one_row_per_group = one_row_per_unit || grouped.iter().all(within);
    let cells = if release.sets.is_empty() {
        row_facts::cells(&input, &lineage, policy, columns, &keys)
    } else {
        None
    };
    let told = |(key, _): &(Expr, KeyRule)| {
        told_by_unit(
            &input,
            &lineage,
            policy,
            &keys::over_rows(key, &computed, &null_extended),
        )
    };
    let one_group_per_unit = release.sets.is_empty() && keys.iter().all(told);
    Ok(AnalyzedRelease {
        input,
        lineage,
        keys,
        tuples,
        sets: release.sets.clone(),
        key_texts: release.keys.iter().map(|k| k.text.clone()).collect(),
        aggregates,
        one_row_per_unit,
        one_row_per_group,
        cells,
        one_group_per_unit,
        computed,
        tables,
        collations: None,
        beside,
    })
}

/// Whether an expression may be NULL, by the catalog's NOT NULL, joins and the expression's own
/// shape.
struct Nullability<'a> {
    columns: &'a [ColumnInfo],
    computed: &'a [(ColumnId, Expr)],
    null_extended: &'a [ColumnId],
}

impl Nullability<'_> {
    /// True unless proved otherwise: only bare columns, constants and arithmetic that keeps NOT
    /// NULL are proved.
    fn may_be_null(&self, expr: &Expr) -> bool {
        match &expr.node {
            Node::Column(id) => match self.computed.iter().find(|(c, _)| c == id) {
                Some((_, definition)) => {
                    self.null_extended.contains(id) || self.may_be_null(definition)
                }
                None => self.columns[id.0 as usize].nullable || self.null_extended.contains(id),
            },
            Node::Literal(value) => value.is_none(),
            Node::Constant(_) => true,
            Node::Exists { .. } => false,
            Node::Cast(inner) => {
                keys::reads_text(inner, &expr.data_type) || self.may_be_null(inner)
            }
            Node::Case {
                branches,
                otherwise,
            } => {
                otherwise.as_ref().is_none_or(|e| self.may_be_null(e))
                    || branches.iter().any(|(_, r)| self.may_be_null(r))
            }
            Node::Call {
                function,
                arguments,
            } => match function {
                Function::Add
                | Function::Subtract
                | Function::Multiply
                | Function::Negate
                | Function::Abs => arguments.iter().any(|a| self.may_be_null(a)),
                Function::Coalesce => arguments.iter().all(|a| self.may_be_null(a)),
                _ => true,
            },
        }
    }
}

/// Replaces computed columns by their definitions, to the ground.
pub fn inline(expr: &Expr, computed: &[(ColumnId, Expr)]) -> Expr {
    let node = match &expr.node {
        Node::Column(id) => match computed.iter().find(|(c, _)| c == id) {
            Some((_, definition)) => return inline(definition, computed),
            None => Node::Column(*id),
        },
        Node::Literal(value) => Node::Literal(value.clone()),
        Node::Constant(id) => Node::Constant(*id),
        // Conditions say nothing more of it.
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
