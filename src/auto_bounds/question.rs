//! Writes a search as SQL over its own minimal policy, so that its digest depends only on what it
//! searches.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::select_bounds::{Chosen, Thresholds, choose};
use crate::engine::plan;
use crate::error::Error;
use crate::ledger::QuestionId;
use crate::parse::{Statement, parse};
use crate::policy::{
    Accounting, AutoBound, Budget, Column, Limits, Policy, Previews, Privacy, Protection, ROWS_MAX,
    Scalar, Search, Table, Unit, UnitStep,
};
use crate::postgres::{identifier, qualify};
use crate::refusal::{Refusal, reason};
use crate::release::ReleasedTable;
use crate::resolve::Constants;
use crate::rewrite::emit::sql;
use crate::rewrite::{Plan, Terms};

/// Floats and numerics beyond this limit, NaN and infinities say nothing about a range.
const FINITE: &str = "100000000000000000000000000000000000000";

/// One search, ready to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundsQuestion {
    policy: Policy,
    sql: String,
    sought: AutoBound,
    edges: Vec<Scalar>,
    rows_limit: u32,
}

/// What a search is for: `schema.table.column`, or `rows of schema.table`.
pub(super) fn search_name(policy: &Policy, search: &Search) -> String {
    let Some(Table {
        schema,
        name,
        columns,
        ..
    }) = policy.tables.get(search.table)
    else {
        return String::new();
    };
    match &search.sought {
        AutoBound::Rows => format!("rows of {schema}.{name}"),
        AutoBound::Bounds {
            column,
            lower: _,
            upper: _,
        } => format!(
            "{schema}.{name}.{}",
            columns.get(column.0).map_or("", |c| &c.name)
        ),
    }
}

impl BoundsQuestion {
    /// # Requires
    /// The search is one of the policy's.
    pub fn new(policy: &Policy, search: &Search) -> Self {
        let table = &policy.tables[search.table];
        let column = match &search.sought {
            AutoBound::Rows => None,
            AutoBound::Bounds {
                column,
                lower: _,
                upper: _,
            } => Some(&table.columns[column.0]),
        };
        let edges =
            search.edges(column.map_or(&crate::catalog::Type::Int8, |column| &column.data_type));
        let unit = match &table.protection {
            Protection::Private(unit) => unit.clone(),
            // The policy's check creates searches for private tables only; rows without a unit have
            // nothing to find.
            Protection::Public => Unit {
                path: Vec::new(),
                column: String::new(),
                data_type: crate::catalog::Type::Int8,
                is_primary_key: false,
                rows_per_unit: 1,
            },
        };
        let sql = text(table, &unit, column, &search.sought, &edges);
        let bounds_policy = search_policy(policy, table, &unit, column);
        Self {
            policy: bounds_policy,
            sql,
            sought: search.sought.clone(),
            edges,
            rows_limit: policy.limits.rows_per_unit,
        }
    }

    /// The statement, as an analyst would write it.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The digest of its answer in the ledger: covers the definitions that it depends on, and the
    /// query.
    pub fn digest(&self) -> QuestionId {
        let mut digest = Sha256::new();
        digest.update("pgveil search 1\n");
        digest.update(crate::policy::digest(&self.policy));
        digest.update(&self.sql);
        QuestionId(digest.finalize().into())
    }

    /// # Errors
    /// Those of the planning stages: if a column cannot be read without errors, or no noise fits.
    pub fn plan(&self, terms: &Terms) -> Result<Plan, Error> {
        let statements = parse(&self.sql).map_err(Error::Parse)?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return Err(Error::Parse(Refusal::unsupported(
                reason::UNSUPPORTED_SEARCH,
                "this search",
            )));
        };
        let path = ["public".to_owned()];
        plan(query, &self.policy, &path, &Constants::of_policy(), terms)
    }

    /// The choice from the noisy counts.
    pub(super) fn choose(&self, table: &ReleasedTable, thresholds: Thresholds) -> Chosen {
        let mut sides = [vec![0.0; self.edges.len()], vec![0.0; self.edges.len()]];
        let places = self.sides();
        for (key, measures) in table.keys.iter().zip(&table.measures) {
            let count: f64 = measures
                .first()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0);
            // With two sides, the first column says to which side a row belongs.
            let side = if places.len() == 2 {
                number(key.first()).and_then(|set| places.get(set))
            } else {
                places.first()
            };
            let cell = key
                .iter()
                .skip(usize::from(places.len() == 2))
                .flatten()
                .next()
                .and_then(|text| text.parse::<usize>().ok());
            if let (Some(side), Some(cell)) = (side, cell)
                && let Some(place) = sides[*side as usize].get_mut(cell)
            {
                *place = count;
            }
        }
        let [lowest, highest] = &sides;
        choose(
            &self.sought,
            &self.edges,
            lowest,
            highest,
            thresholds,
            self.rows_limit,
        )
    }

    fn sides(&self) -> Vec<Side> {
        sides(&self.sought)
    }
}

fn number(key: Option<&Option<String>>) -> Option<usize> {
    key.and_then(Option::as_ref)
        .and_then(|text| text.parse().ok())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Lowest,
    Highest,
}

fn sides(sought: &AutoBound) -> Vec<Side> {
    match sought {
        AutoBound::Rows => vec![Side::Highest],
        AutoBound::Bounds {
            column: _,
            lower,
            upper,
        } => {
            let lowest = lower.is_none().then_some(Side::Lowest);
            lowest
                .into_iter()
                .chain(upper.is_none().then_some(Side::Highest))
                .collect()
        }
    }
}

/// The cell that a unit is counted in, by the edges: a CASE of constants, whose values are known
/// without the data.
fn cell(side: Side, edges: &[Scalar]) -> String {
    let last = edges.len().saturating_sub(1);
    // Values beyond the outermost edge are counted at it.
    let (inner, beyond): (Vec<usize>, usize) = match side {
        Side::Highest => ((0..last).collect(), last),
        Side::Lowest => ((1..=last).rev().collect(), 0),
    };
    let (of, order) = match side {
        Side::Highest => ("highest", "<="),
        Side::Lowest => ("lowest", ">="),
    };
    let branches: Vec<String> = inner
        .iter()
        .map(|at| {
            format!(
                "WHEN {of} {order} {} THEN {at}",
                sql::scalar_text(&edges[*at])
            )
        })
        .collect();
    format!("CASE {} ELSE {beyond} END", branches.join(" "))
}

/// Makes one row per unit, then counts the units in each cell of each side.
fn text(
    table: &Table,
    unit: &Unit,
    column: Option<&Column>,
    sought: &AutoBound,
    edges: &[Scalar],
) -> String {
    let (from, of_unit) = rows(table, unit);
    let (values, condition) = match column {
        None => ("count(*) AS highest".to_owned(), String::new()),
        Some(column) => {
            let value = format!("t0.{}", identifier(&column.name));
            let is_whole = matches!(
                column.data_type,
                crate::catalog::Type::Int2
                    | crate::catalog::Type::Int4
                    | crate::catalog::Type::Int8
            );
            let known = if is_whole {
                format!("{value} IS NOT NULL")
            } else {
                format!("{value} >= -{FINITE} AND {value} <= {FINITE}")
            };
            (
                format!("min({value}) AS lowest, max({value}) AS highest"),
                format!(" WHERE {known}"),
            )
        }
    };
    let of_units = format!("SELECT {values} FROM {from}{condition} GROUP BY {of_unit}");
    let sides = sides(sought);
    let cells: Vec<String> = sides
        .iter()
        .enumerate()
        .map(|(at, side)| format!("{} AS cell{at}", cell(*side, edges)))
        .collect();
    let names: Vec<String> = (0..sides.len()).map(|at| format!("cell{at}")).collect();
    let grouped = if sides.len() == 2 {
        "GROUPING SETS ((cell0), (cell1))".to_owned()
    } else {
        "cell0".to_owned()
    };
    format!(
        "SELECT {}, count(*) FROM (SELECT {} FROM ({of_units}) AS units) AS cells GROUP BY \
            {grouped}",
        names.join(", "),
        cells.join(", ")
    )
}

/// The table joined along the path to its unit, and the column that is the unit there.
fn rows(table: &Table, unit: &Unit) -> (String, String) {
    let mut from = format!("{} AS t0", qualify(&table.schema, &table.name));
    for (
        at,
        UnitStep {
            column,
            schema,
            table,
            referenced,
        },
    ) in unit.path.iter().enumerate()
    {
        if at + 1 == unit.path.len() && *referenced == unit.column {
            return (from, format!("t{at}.{}", identifier(column)));
        }
        let next = at + 1;
        from += &format!(
            " JOIN {} AS t{next} ON t{at}.{} = t{next}.{}",
            qualify(schema, table),
            identifier(column),
            identifier(referenced)
        );
    }
    (
        from,
        format!("t{}.{}", unit.path.len(), identifier(&unit.column)),
    )
}

/// The policy of a search: its table and the tables on the path, each with only the columns that
/// are read. It contains none of the owner's settings for other queries.
fn search_policy(policy: &Policy, table: &Table, unit: &Unit, column: Option<&Column>) -> Policy {
    let budget = Budget {
        epsilon: 1.0,
        delta: 0.0,
    };
    let mut own = Policy {
        version: String::new(),
        database_url: None,
        ledger_url: None,
        shadow_url: None,
        privacy: Privacy {
            unit: policy.privacy.unit.clone(),
            budget,
            epsilon_default: 1.0,
            epsilon_max: 1.0,
            // The owner runs the search.
            epsilon_min: 0.0,
            accounting: Accounting::Gdp,
            threshold_share: 0.5,
            data_version: String::new(),
            units: None,
        },
        roles: Vec::new(),
        operators: Vec::new(),
        tables: search_tables(policy, &columns_read(table, unit, column)),
        searches: Vec::new(),
        summaries: Vec::new(),
        types: Vec::new(),
        limits: Limits {
            groups_per_unit: 1,
            rows_per_unit: ROWS_MAX,
            groups: 100_000,
            ..policy.limits.clone()
        },
        previews: Previews::Refused,
        records_shape: false,
        quantum: None,
        time_grain: None,
        writing: None,
    };
    own.version = crate::policy::digest(&own);
    own
}

/// Columns by schema and table.
type ColumnsRead<'a> = HashMap<(&'a str, &'a str), Vec<&'a str>>;

/// The searched column and the columns on the path to the unit.
fn columns_read<'a>(
    table: &'a Table,
    unit: &'a Unit,
    column: Option<&'a Column>,
) -> ColumnsRead<'a> {
    let mut read = ColumnsRead::new();
    let mut at = (table.schema.as_str(), table.name.as_str());
    read.entry(at)
        .or_default()
        .extend(column.map(|column| column.name.as_str()));
    for UnitStep {
        column,
        schema,
        table,
        referenced,
    } in &unit.path
    {
        read.entry(at).or_default().push(column);
        at = (schema, table);
        read.entry(at).or_default().push(referenced);
    }
    read.entry(at).or_default().push(&unit.column);
    read
}

/// The tables that are read, without declared bounds or domains.
fn search_tables(policy: &Policy, read: &ColumnsRead<'_>) -> Vec<Table> {
    let of_search = |table: &Table| {
        let columns = read.get(&(table.schema.as_str(), table.name.as_str()))?;
        let kept = table
            .columns
            .iter()
            .filter(|column| columns.contains(&column.name.as_str()));
        let columns: Vec<Column> = kept
            .map(|column| Column {
                bounds: None,
                unit_total: None,
                domain: None,
                is_complete: false,
                extent: None,
                collected: None,
                ..column.clone()
            })
            .collect();
        let protection = match &table.protection {
            Protection::Public => Protection::Public,
            Protection::Private(unit) => Protection::Private(Unit {
                rows_per_unit: ROWS_MAX,
                ..unit.clone()
            }),
        };
        let unique_keys = table
            .unique_keys
            .iter()
            .filter(|key| {
                key.names()
                    .all(|name| columns.iter().any(|c| c.name == name))
            })
            .cloned()
            .collect();
        Some(Table {
            protection,
            columns,
            unique_keys,
            foreign_keys: Vec::new(),
            claimed_unique: Vec::new(),
            listing: None,
            ..table.clone()
        })
    };
    policy.tables.iter().filter_map(of_search).collect()
}
