//! Whether a row of one side of a join finds at most one row of the other: where the equated
//! columns include a key.

use super::row_facts::equated_apart;
use crate::catalog::{Equality, Type};
use crate::ir::equality;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Node, Relation};
use crate::policy::Policy;

/// Where types and collations of columns are looked up.
#[derive(Clone, Copy)]
pub(super) struct ColumnTypes<'a> {
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
}

/// Whether a row of the other side finds at most one row of this one, by the unit and the
/// conditions of the join.
///
/// # Guarantee
/// Where it returns true, one value for each of `units` and for each column of the other side
/// determines at most one row of `side`: unique keys of the catalog, keys of groups and of released
/// rows, followed through equalities and computed columns to a fixed point. A single unit's clip
/// still holds where it is wrong; the bound on rows for work and for clips rests on it.
///
/// # Requires
/// The catalog's unique keys hold in the snapshot that is read: the fingerprint of every table is
/// compared there.
pub(super) fn at_most_one(
    schema: ColumnTypes<'_>,
    side: &Relation,
    units: &[ColumnId],
    conditions: &[Expr],
) -> bool {
    matches(schema, side, units, conditions).several.is_empty()
}

/// The rows of one side that one row of the other side finds.
pub(super) struct JoinMatches<'a> {
    /// Relations of which it may find several rows.
    pub several: Vec<MultipleMatch<'a>>,
    /// Groups that their keys find.
    pub groups: Vec<&'a Relation>,
}

/// A relation of which one row of the other side may find several rows.
pub(super) struct MultipleMatch<'a> {
    pub relation: &'a Relation,
    /// Columns in which all rows that are found agree: conditions equate them with columns of one
    /// value.
    pub fixed: Vec<ColumnId>,
}

/// The rows of `side` that one row of the other side finds, where each of `units` has one value.
///
/// # Guarantee
/// The number of these rows is at most a product over the relations in `several`: of each, the most
/// rows that agree in its `fixed` columns. A relation that a key finds counts as one row. The other
/// relations are counted one after the other; once one is counted, its columns have one value each.
/// PostgreSQL evaluates no other condition for more pairs than these: of the conditions on one row,
/// it tries an equality of two bare columns before any that takes longer.
///
/// # Requires
/// As [`at_most_one`].
pub(super) fn matches<'a>(
    schema: ColumnTypes<'a>,
    side: &'a Relation,
    units: &[ColumnId],
    conditions: &[Expr],
) -> JoinMatches<'a> {
    let (mut several, mut groups) = (Vec::new(), Vec::new());
    // Columns that equal other columns, with nothing computed.
    let mut bare: Vec<ColumnId> = Vec::new();
    let own = side.made_at_any_depth();
    let mut within = Within::of(schema, side, conditions);
    // Units have one type and a deterministic collation.
    let mut fixed: Vec<(ColumnId, Equality)> =
        units.iter().map(|id| (*id, Equality::Exact)).collect();
    // Columns of a single row; others may hold equal values with different spellings.
    let mut single: Vec<ColumnId> = Vec::new();
    loop {
        // A column of the other side has one value for each of its rows.
        let is_single = |id: &ColumnId| !own.contains(id) || single.contains(id);
        let is_known = |id: &ColumnId, through: Through| {
            let is_enough = through == Through::Equality
                || is_one_spelling(&schema.columns[id.0 as usize].data_type);
            is_single(id) || is_enough && fixed.contains(&(*id, Equality::Exact))
        };
        let dependent = within
            .determined
            .iter()
            .filter(|one| one.by.iter().all(|id| is_known(id, one.through)));
        let dependent = dependent.inspect(|one| {
            bare.extend((one.through == Through::Equality).then_some(one.column));
        });
        let dependent = dependent.map(|one| (one.column, one.equality.clone()));
        let more: Vec<(ColumnId, Equality)> =
            dependent.filter(|found| !fixed.contains(found)).collect();
        let (mut found, mut left): (Vec<&Relation>, Vec<&Relation>) = within
            .pieces
            .iter()
            .copied()
            .partition(|piece| is_found(schema, piece, &fixed));
        if more.is_empty() && found.is_empty() {
            // Relations that a condition selects come first: others may follow from their columns.
            let fixed_of = |relation: &Relation| {
                let mut fixed = fixed_columns(relation, &fixed);
                fixed.retain(|column| bare.contains(column));
                fixed
            };
            let Some(at) = (0..left.len()).max_by_key(|at| fixed_of(left[*at]).len()) else {
                return JoinMatches { several, groups };
            };
            let relation = left.remove(at);
            let fixed = fixed_of(relation);
            several.push(MultipleMatch { relation, fixed });
            found.push(relation);
        }
        fixed.extend(more);
        for piece in found {
            single.extend(piece.created_columns());
            if let Relation::Group {
                input: _,
                keys,
                aggregates: _,
            } = piece
            {
                single.extend(keys);
                groups.push(piece);
            }
        }
        fixed.extend(
            single
                .iter()
                .map(|id| (*id, Equality::Exact))
                .filter(|one| !fixed.contains(one))
                .collect::<Vec<_>>(),
        );
        within.pieces = left;
        if within.pieces.is_empty() {
            return JoinMatches { several, groups };
        }
    }
}

/// The columns of a table that are known to have one value each. A value that equals another under
/// a collation other than the column's may be one of several.
fn fixed_columns(piece: &Relation, fixed: &[(ColumnId, Equality)]) -> Vec<ColumnId> {
    let Relation::Scan(scan) = piece else {
        return Vec::new();
    };
    let is_fixed = |id: &&ColumnId| {
        fixed
            .iter()
            .any(|(column, equality)| column == *id && *equality == Equality::Exact)
    };
    scan.columns.iter().filter(is_fixed).copied().collect()
}

/// A dependency: where the columns `by` have one value each, so has `column`, up to `equality`.
struct Determined {
    column: ColumnId,
    by: Vec<ColumnId>,
    equality: Equality,
    through: Through,
}

/// How a column depends on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Through {
    /// The column equals one of the others.
    Equality,
    /// The column is computed from others. Equal values with different spellings (1.0 and 1.00) may
    /// give different results.
    Computation,
}

impl Through {
    fn of(expr: &Expr) -> Self {
        if expr.as_column().is_some() {
            Self::Equality
        } else {
            Self::Computation
        }
    }
}

/// Whether equal values of the type have one spelling, so that every function gives them one
/// result.
pub(super) fn is_one_spelling(data_type: &Type) -> bool {
    match data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(Some(_))
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(Some(_)) => true,
        Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Time
        | Type::Enum(_) => true,
        Type::Numeric(None)
        | Type::Float4
        | Type::Float8
        | Type::Char(None)
        | Type::Interval
        | Type::Other { .. } => false,
    }
}

/// The relations that a side joins, and the dependencies between their columns.
struct Within<'a> {
    schema: ColumnTypes<'a>,
    pieces: Vec<&'a Relation>,
    determined: Vec<Determined>,
}

impl<'a> Within<'a> {
    fn of(schema: ColumnTypes<'a>, side: &'a Relation, conditions: &[Expr]) -> Self {
        let mut within = Self {
            schema,
            pieces: Vec::new(),
            determined: Vec::new(),
        };
        within.take_apart(side);
        for condition in conditions {
            within.equate(condition);
        }
        within
    }

    fn take_apart(&mut self, relation: &'a Relation) {
        match relation {
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Group { .. }
            | Relation::Union { .. } => self.pieces.push(relation),
            Relation::Filter { input, predicate } => {
                predicate
                    .conjuncts()
                    .into_iter()
                    .for_each(|condition| self.equate(condition));
                self.take_apart(input);
            }
            Relation::Project { input, columns } => {
                for (id, expr) in columns
                    .iter()
                    .filter(|(_, expr)| expr.relations().is_empty())
                {
                    let (by, through) = (expr.columns(), Through::of(expr));
                    self.determined.push(Determined {
                        column: *id,
                        by,
                        equality: Equality::Exact,
                        through,
                    });
                    let through = Through::Equality;
                    self.determined
                        .extend(expr.as_column().map(|source| Determined {
                            column: source,
                            by: vec![*id],
                            equality: Equality::Exact,
                            through,
                        }));
                }
                self.take_apart(input);
            }
            Relation::Window { input, columns: _ }
            | Relation::Bounded {
                input,
                unit: _,
                rows: _,
            } => self.take_apart(input),
            Relation::Join {
                kind,
                left,
                right,
                on,
            } => {
                let conditions = on.iter().flat_map(Expr::conjuncts);
                match kind {
                    JoinKind::Inner => conditions.for_each(|condition| self.equate(condition)),
                    // Rows of the left side that find none are kept, so ON says nothing about
                    // the left side.
                    JoinKind::Left => {
                        let made = right.made_at_any_depth();
                        let equated: Vec<(ColumnId, &Expr)> = conditions
                            .flat_map(|condition| equated_apart(condition, &made))
                            .collect();
                        equated
                            .into_iter()
                            .for_each(|(id, by)| self.determine(id, by));
                    }
                }
                self.take_apart(left);
                self.take_apart(right);
            }
        }
    }

    fn equate(&mut self, condition: &Expr) {
        for (column, other) in condition.equated_columns() {
            self.determine(column, other);
        }
    }

    fn determine(&mut self, column: ColumnId, by: &Expr) {
        if !by.relations().is_empty() {
            return;
        }
        if let Some(equality) = equality(column, by, self.schema.policy, self.schema.columns) {
            self.determined.push(Determined {
                column,
                by: by.columns(),
                equality,
                through: Through::of(by),
            });
        }
    }
}

/// Whether the columns that have one value include a key of the relation.
fn is_found(schema: ColumnTypes<'_>, piece: &Relation, fixed: &[(ColumnId, Equality)]) -> bool {
    let by = |id: ColumnId| {
        fixed
            .iter()
            .filter(move |(column, _)| *column == id)
            .map(|(_, equality)| equality)
    };
    match piece {
        Relation::Scan(scan) => {
            let table = &schema.policy.tables[scan.table.0];
            let at = |name: &str| table.columns.iter().position(|c| c.name == name);
            let compared = |name: &str| {
                at(name).map_or(Vec::new(), |at| by(scan.columns[at]).cloned().collect())
            };
            table
                .unique_keys
                .iter()
                .any(|key| key.tells_apart(compared))
        }
        // Released rows have one row for each key by construction.
        Relation::Constants(rows) => rows.unique.as_ref().is_some_and(|unique| {
            unique
                .iter()
                .all(|id| by(*id).any(|e| *e == Equality::Exact))
        }),
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => keys
            .iter()
            .all(|id| by(*id).any(|equality| groups_by(schema, *id, equality))),
        Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. } => false,
        Relation::Union { .. } | Relation::Bounded { .. } => false,
    }
}

/// Whether different groups of this column also differ under the comparison.
fn groups_by(schema: ColumnTypes<'_>, id: ColumnId, compared: &Equality) -> bool {
    let origin = schema.columns[id.0 as usize].origin;
    match compared {
        Equality::Own | Equality::Exact => true,
        Equality::Under(collation) => origin.is_some_and(|(table, at)| {
            schema.policy.tables[table.0].columns[at.0]
                .collation
                .as_ref()
                == Some(collation)
        }),
    }
}

/// How many equalities of the first arm are searched for in the others.
const COMMON_MAX: usize = 100;

/// The conditions, with the equalities that every arm of an OR has in common.
pub(super) fn with_common(conditions: Vec<Expr>) -> Vec<Expr> {
    let common: Vec<Expr> = conditions
        .iter()
        .flat_map(in_every_arm)
        .filter(|equality| !conditions.contains(equality))
        .collect();
    conditions.into_iter().chain(common).collect()
}

fn in_every_arm(condition: &Expr) -> Vec<Expr> {
    let arms = disjuncts(condition);
    let [first, rest @ ..] = arms.as_slice() else {
        return Vec::new();
    };
    if rest.is_empty() {
        return Vec::new();
    }
    first
        .conjuncts()
        .into_iter()
        .filter(|e| e.sides_of_equality().is_some())
        .take(COMMON_MAX)
        .filter(|equality| {
            rest.iter().all(|arm| {
                arm.conjuncts()
                    .into_iter()
                    .any(|other| is_same(equality, other))
            })
        })
        .cloned()
        .collect()
}

fn disjuncts(condition: &Expr) -> Vec<&Expr> {
    match &condition.node {
        Node::Call {
            function: Function::Or,
            arguments,
        } => arguments.iter().flat_map(disjuncts).collect(),
        Node::Call { .. }
        | Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Cast(_)
        | Node::Case { .. }
        | Node::Exists { .. } => {
            vec![condition]
        }
    }
}

/// Whether two conditions are one equality, whichever side comes first.
fn is_same(one: &Expr, other: &Expr) -> bool {
    match (one.sides_of_equality(), other.sides_of_equality()) {
        (Some([a, b]), Some([c, d])) => (a == c && b == d) || (a == d && b == c),
        _ => false,
    }
}
