//! Facts that hold for every row of a relation: definitions, conditions, NULLs from outer joins,
//! keys, and the tables that are read.

use super::keys::KeyRule;
use super::lineage::{Lineage, only_scan, unit_of};
use crate::catalog::{Equality, Type, UniqueKey};
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Relation, TableId};
use crate::policy::{Policy, Protection};

/// Definitions of the columns that derived tables compute from the row alone.
pub(super) fn computed_columns(relation: &Relation) -> Vec<(ColumnId, Expr)> {
    let mut found: Vec<(ColumnId, Expr)> = relation
        .inputs()
        .into_iter()
        .flat_map(computed_columns)
        .collect();
    match relation {
        Relation::Project { input: _, columns } => found.extend(columns.iter().cloned()),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Join { .. }
        | Relation::Group { .. } => {}
        Relation::Window { .. } | Relation::Union { .. } | Relation::Bounded { .. } => {}
    }
    found
}

/// Columns that an outer join may fill with NULL.
pub(super) fn null_extended(relation: &Relation, extended: bool) -> Vec<ColumnId> {
    let mut found = if extended {
        relation.created_columns()
    } else {
        Vec::new()
    };
    match relation {
        Relation::Join {
            kind,
            left,
            right,
            on: _,
        } => {
            found.extend(null_extended(left, extended));
            found.extend(null_extended(right, extended || *kind == JoinKind::Left));
        }
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Group { .. } => {
            found.extend(
                relation
                    .inputs()
                    .into_iter()
                    .flat_map(|input| null_extended(input, extended)),
            );
        }
        Relation::Window { input, columns: _ }
        | Relation::Bounded {
            input,
            unit: _,
            rows: _,
        } => found.extend(null_extended(input, extended)),
        // Its columns may hold NULL anyway, and nothing above reads the arms' own columns.
        Relation::Union { .. } => {}
    }
    found
}

/// Conjuncts that hold for every row of the relation. For a group they hold for the rows that it
/// was made of, and so for its keys.
pub(super) fn always_true(relation: &Relation) -> Vec<Expr> {
    match relation {
        Relation::Scan(_) | Relation::Constants(_) => Vec::new(),
        Relation::Filter { input, predicate } => always_true(input)
            .into_iter()
            .chain(predicate.conjuncts().into_iter().cloned())
            .collect(),
        Relation::Project { input, columns: _ } | Relation::Window { input, columns: _ } => {
            always_true(input)
        }
        Relation::Group {
            input,
            keys: _,
            aggregates: _,
        }
        | Relation::Bounded {
            input,
            unit: _,
            rows: _,
        } => always_true(input),
        // A condition of one arm need not hold in the other.
        Relation::Union { .. } => Vec::new(),
        Relation::Join {
            kind,
            left,
            right,
            on,
        } => {
            let mut all = always_true(left);
            if *kind == JoinKind::Inner {
                all.extend(always_true(right));
                all.extend(on.iter().flat_map(|e| e.conjuncts().into_iter().cloned()));
            }
            all
        }
    }
}

/// Columns of one side that the condition equates with expressions of the other side.
pub(super) fn equated_apart<'a>(
    condition: &'a Expr,
    own: &[ColumnId],
) -> impl Iterator<Item = (ColumnId, &'a Expr)> {
    let equated = condition.equated_columns();
    equated.filter(|(column, other)| is_apart(*column, other, own))
}

/// Whether a column of one side is compared with the other side alone.
pub(super) fn is_apart(column: ColumnId, other: &Expr, own: &[ColumnId]) -> bool {
    own.contains(&column) && other.columns().iter().all(|c| !own.contains(c))
}

/// The tables that the relation reads, also in subqueries.
pub(super) fn scanned_tables(relation: &Relation) -> Vec<TableId> {
    let own = match relation {
        Relation::Scan(scan) => Some(scan.table),
        Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. } => None,
        Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. } => None,
    };
    let subqueries = relation
        .expressions()
        .into_iter()
        .flat_map(Expr::own_relations);
    let below = relation
        .inputs()
        .into_iter()
        .chain(subqueries)
        .flat_map(scanned_tables);
    own.into_iter().chain(below).collect()
}

/// Most rows of one unit in all listed groups together: the number of combinations of a unique
/// key's listed values. `None` where no key proves a bound.
///
/// # Guarantee
/// A unit has at most this many rows in the statement, at most one for each combination of listed
/// values. The key's other columns are the unit's, or NOT NULL columns that are group keys as they
/// are stored: no clamp makes one key of two values, and no NULL escapes the unique index.
///
/// # Requires
/// The statement leaves out rows whose keys are not listed, and the catalog's unique keys hold in
/// the snapshot that is read.
pub(super) fn cells(
    input: &Relation,
    lineage: &Lineage,
    policy: &Policy,
    columns: &[ColumnInfo],
    keys: &[(Expr, KeyRule)],
) -> Option<u64> {
    let scan = only_scan(input)?;
    let table = &policy.tables[scan.table.0];
    if !matches!(table.protection, Protection::Private(_)) {
        return None;
    }
    // A unique index takes NULLs for different values.
    let values = |id: ColumnId| {
        let (_, rule) = keys.iter().find(|(key, _)| key.as_column() == Some(id))?;
        let info = &columns[id.0 as usize];
        let (table, at) = info.origin?;
        let column = &policy.tables[table.0].columns[at.0];
        // A clamp would make one key out of two values.
        let is_bare = match &column.data_type {
            Type::Bool
            | Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Text
            | Type::Varchar(_)
            | Type::Char(_)
            | Type::Uuid => column.bounds.is_none(),
            Type::Numeric(_)
            | Type::Float4
            | Type::Float8
            | Type::Date
            | Type::Timestamp
            | Type::Timestamptz => false,
            Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => false,
        };
        match rule {
            KeyRule::Domain(values) if column.domain.is_some() && is_bare && !info.nullable => {
                Some(values.len() as u64)
            }
            KeyRule::Domain(_) | KeyRule::Threshold => None,
        }
    };
    let cells = |key: &UniqueKey| {
        key.names().try_fold(1u64, |cells, name| {
            let id = scan.columns[table.columns.iter().position(|c| c.name == name)?];
            if lineage.units.contains(&id) {
                Some(cells)
            } else {
                cells.checked_mul(values(id)?)
            }
        })
    };
    table
        .unique_keys
        .iter()
        .filter(|key| key.tells_apart(|_| Some(Equality::Own)))
        .filter_map(cells)
        .min()
}

/// Whether a key is a function of the unit: it reads only columns of tables whose primary key is
/// the unit, in the rows that hold that unit.
///
/// # Guarantee
/// Where it returns true for every key, all rows of a unit are in one group.
///
/// # Requires
/// The key is given over scanned columns ([`super::keys::over_rows`]): a computed column that an
/// outer join may replace by NULL is not replaced by its definition.
pub(super) fn determined_by_unit(
    input: &Relation,
    lineage: &Lineage,
    policy: &Policy,
    key: &Expr,
) -> bool {
    let mut known = Vec::new();
    unit_columns(input, lineage, policy, &mut known);
    key.relations().is_empty() && key.columns().iter().all(|id| known.contains(id))
}

fn unit_columns(
    relation: &Relation,
    lineage: &Lineage,
    policy: &Policy,
    known: &mut Vec<ColumnId>,
) {
    if let Relation::Scan(scan) = relation {
        let table = &policy.tables[scan.table.0];
        if let Some(unit) = unit_of(table)
            && unit.is_primary_key
            && unit.path.is_empty()
            && table
                .columns
                .iter()
                .zip(&scan.columns)
                .any(|(column, id)| column.name == unit.column && lineage.units.contains(id))
        {
            known.extend(&scan.columns);
        }
    }
    relation
        .inputs()
        .into_iter()
        .for_each(|input| unit_columns(input, lineage, policy, known));
}

/// Whether each unit has one row by construction: rows were grouped by the unit alone, and nothing
/// above the grouping multiplies rows. It rests on no key of the catalog.
pub(super) fn grouped_by_unit(relation: &Relation, lineage: &Lineage) -> bool {
    match relation {
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => matches!(keys.as_slice(), [key] if lineage.units.contains(key)),
        Relation::Filter {
            input,
            predicate: _,
        }
        | Relation::Project { input, columns: _ } => grouped_by_unit(input, lineage),
        Relation::Window { input, columns: _ }
        | Relation::Bounded {
            input,
            unit: _,
            rows: _,
        } => grouped_by_unit(input, lineage),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Join { .. }
        | Relation::Union { .. } => false,
    }
}
