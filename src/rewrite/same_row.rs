//! A row that is read twice is read once: where a key path joins in a table's row that the
//! statement reads already.
//!
//! `orders JOIN lineitem` reads each line's order for its unit, and the order that the client
//! joined. A unique key says that both are one row.

use std::collections::HashMap;

use crate::analyze::HIDDEN_SCANS_FROM;
use crate::catalog::{Equality, Type};
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Node, Relation, Scan, equality};
use crate::policy::Policy;

/// A relation without the scans that read a row again.
pub(in crate::rewrite) struct Once {
    pub relation: Relation,
    /// The columns of scans that were left out, by the number of the scan that has the same row.
    pub same: HashMap<usize, Vec<Vec<ColumnId>>>,
}

/// The relation with each row of a table read once, where a unique key proves that a hidden scan
/// reads a row that another scan at hand reads. `reads` are columns that are read above it.
///
/// # Guarantee
/// The relation has the same rows. Columns that were left out have the values of `same`.
///
/// # Requires
/// The catalog's unique keys hold in the snapshot that is read, as the label of the rows requires.
pub(in crate::rewrite) fn read_once(
    relation: &Relation,
    reads: &[ColumnId],
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Once {
    let mut all = reads.to_vec();
    mentioned(relation, &mut all);
    let mut merger = Merger {
        policy,
        columns,
        all,
        same: HashMap::new(),
    };
    let (relation, _) = merger.joined(relation.clone(), &AtHand::default(), Vec::new());
    Once {
        relation,
        same: merger.same,
    }
}

/// Scans whose rows are at hand, and what holds for them.
#[derive(Default, Clone)]
struct AtHand {
    scans: Vec<Scan>,
    conditions: Vec<Expr>,
}

struct Merger<'a> {
    policy: &'a Policy,
    columns: &'a [ColumnInfo],
    /// Every mention of a column.
    all: Vec<ColumnId>,
    same: HashMap<usize, Vec<Vec<ColumnId>>>,
}

impl Merger<'_> {
    /// Inner joins and filters, whose conditions all hold for each row together with `more`, joined
    /// to rows of `at_hand`. Returns them with what is left of `more`.
    fn joined(
        &mut self,
        relation: Relation,
        at_hand: &AtHand,
        more: Vec<Expr>,
    ) -> (Relation, Vec<Expr>) {
        let mut own = AtHand::default();
        let mut hidden = Vec::new();
        reached(&relation, &mut own, &mut hidden);
        let is_alone = more.is_empty() && at_hand.scans.is_empty();
        let all = AtHand {
            scans: [at_hand.scans.clone(), own.scans].concat(),
            conditions: [at_hand.conditions.clone(), own.conditions, more.clone()].concat(),
        };
        let twins = self.twins(&hidden, &all);
        if twins.is_empty() {
            return (self.within(relation), more);
        }
        let mut hoisted = Vec::new();
        let relation = without(relation, &twins, &mut hoisted);
        let (gone, mut more): (Vec<Expr>, Vec<Expr>) =
            more.into_iter().partition(|c| twins.are_read(c));
        hoisted.extend(gone);
        let mut kept = AtHand::default();
        reached(&relation, &mut kept, &mut Vec::new());
        let mut known = [at_hand.conditions.clone(), kept.conditions, more.clone()].concat();
        let mut left = Vec::new();
        for condition in hoisted {
            let condition = present(twins.renamed(condition));
            if !known.iter().any(|known| is_same(known, &condition)) {
                known.push(condition.clone());
                left.push(condition);
            }
        }
        for (twin, of) in twins.0 {
            let columns = self.same.entry(of.number).or_default();
            columns.push(twin.columns);
        }
        let relation = if is_alone {
            filtered(relation, left)
        } else {
            more.extend(left);
            relation
        };
        (self.within(relation), more)
    }

    /// What is nested in the inner joins and filters.
    fn within(&mut self, relation: Relation) -> Relation {
        match relation {
            Relation::Scan(_) | Relation::Constants(_) => relation,
            Relation::Filter { input, predicate } => {
                let mut at_hand = AtHand::default();
                reached(&input, &mut at_hand, &mut Vec::new());
                Relation::Filter {
                    input: Box::new(self.within(*input)),
                    predicate: self.subqueries(predicate, &at_hand),
                }
            }
            Relation::Project { input, columns } => Relation::Project {
                input: Box::new(self.within(*input)),
                columns,
            },
            Relation::Join {
                kind: JoinKind::Inner,
                left,
                right,
                on,
            } => Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(self.within(*left)),
                right: Box::new(self.within(*right)),
                on,
            },
            Relation::Join {
                kind: JoinKind::Left,
                left,
                right,
                on,
            } => self.outer(*left, *right, on),
            Relation::Group {
                input,
                keys,
                aggregates,
            } => Relation::Group {
                input: self.apart(*input),
                keys,
                aggregates,
            },
            Relation::Window { input, columns } => Relation::Window {
                input: self.apart(*input),
                columns,
            },
            Relation::Union { columns, arms } => Relation::Union {
                columns,
                arms: arms
                    .into_iter()
                    .map(|(arm, ids)| (*self.apart(arm), ids))
                    .collect(),
            },
            Relation::Bounded { input, unit, rows } => Relation::Bounded {
                input: self.apart(*input),
                unit,
                rows,
            },
        }
    }

    /// A relation that nothing around it is joined with.
    fn apart(&mut self, relation: Relation) -> Box<Relation> {
        Box::new(self.joined(relation, &AtHand::default(), Vec::new()).0)
    }

    /// The side that may be missing finds the row of the other side, unless something above reads
    /// its own: that is NULL where the side is missing.
    fn outer(&mut self, left: Relation, right: Relation, on: Option<Expr>) -> Relation {
        let left = self.apart(left);
        let mut inside = Vec::new();
        mentioned(&right, &mut inside);
        inside.extend(on.iter().flat_map(mentions));
        let count = |all: &[ColumnId], id: ColumnId| all.iter().filter(|one| **one == id).count();
        let mut hidden = Vec::new();
        reached(&right, &mut AtHand::default(), &mut hidden);
        let are_own = hidden
            .iter()
            .flat_map(|scan| &scan.columns)
            .all(|id| count(&self.all, *id) == count(&inside, *id));
        let conditions: Vec<Expr> = on
            .iter()
            .flat_map(|on| on.conjuncts().into_iter().cloned())
            .collect();
        let (right, on) = if are_own && !conditions.is_empty() {
            let mut at_hand = AtHand::default();
            reached(&left, &mut at_hand, &mut Vec::new());
            let (right, conditions) = self.joined(right, &at_hand, conditions);
            (right, Expr::and(conditions))
        } else {
            (*self.apart(right), on)
        };
        Relation::Join {
            kind: JoinKind::Left,
            left,
            right: Box::new(right),
            on,
        }
    }

    /// The condition with what its subqueries read: a row of one may be that of the row around it.
    fn subqueries(&mut self, condition: Expr, at_hand: &AtHand) -> Expr {
        let merger = std::cell::RefCell::new(self);
        condition.mapped(&|expr| {
            let Node::Exists {
                relation,
                condition: Some(condition),
            } = &expr.node
            else {
                return None;
            };
            let conditions = condition.conjuncts().into_iter().cloned().collect();
            let (relation, conditions) =
                merger
                    .borrow_mut()
                    .joined(relation.as_ref().clone(), at_hand, conditions);
            Some(Expr {
                node: Node::Exists {
                    relation: Box::new(relation),
                    condition: Expr::and(conditions).map(Box::new),
                },
                data_type: Type::Bool,
            })
        })
    }

    /// Hidden scans that read the row of another scan.
    fn twins(&self, hidden: &[Scan], all: &AtHand) -> Twins {
        let mut equal: Vec<(ColumnId, ColumnId)> = all
            .conditions
            .iter()
            .filter_map(|condition| self.equated(condition))
            .collect();
        let mut twins = Twins(Vec::new());
        loop {
            let is_left = |scan: &Scan| twins.0.iter().all(|(twin, _)| twin.number != scan.number);
            let found = hidden.iter().filter(|scan| is_left(scan)).find_map(|scan| {
                let of = all.scans.iter().find(|of| {
                    of.number < scan.number && is_left(of) && self.are_one(scan, of, &equal)
                })?;
                Some((scan.clone(), of.clone()))
            });
            let Some((scan, of)) = found else {
                return twins;
            };
            equal.extend(scan.columns.iter().copied().zip(of.columns.iter().copied()));
            twins.0.push((scan, of));
        }
    }

    /// Two columns that a condition equates as strictly as a unique key tells rows apart.
    fn equated(&self, condition: &Expr) -> Option<(ColumnId, ColumnId)> {
        let [a, b] = condition.sides_of_equality()?;
        let (one, other) = (a.as_column()?, b.as_column()?);
        let is_exact = |column, other| {
            equality(column, other, self.policy, self.columns) == Some(Equality::Exact)
        };
        let is_one_type = a.data_type == b.data_type;
        (is_one_type && is_exact(one, b) && is_exact(other, a)).then_some((one, other))
    }

    /// Whether a unique key of their table says that both scans are at one row.
    fn are_one(&self, a: &Scan, b: &Scan, equal: &[(ColumnId, ColumnId)]) -> bool {
        let table = &self.policy.tables[a.table.0];
        let is_equal = |name: &str| {
            let at = table.columns.iter().position(|c| c.name == name)?;
            are_equal(a.columns[at], b.columns[at], equal).then_some(Equality::Exact)
        };
        a.table == b.table
            && table
                .unique_keys
                .iter()
                .any(|key| key.tells_apart(is_equal))
    }
}

/// Whether a chain of equalities leads from one to the other.
fn are_equal(one: ColumnId, other: ColumnId, equal: &[(ColumnId, ColumnId)]) -> bool {
    let mut known = vec![one];
    let mut at = 0;
    while let Some(id) = known.get(at).copied() {
        for (a, b) in equal {
            for (from, to) in [(a, b), (b, a)] {
                if *from == id && !known.contains(to) {
                    known.push(*to);
                }
            }
        }
        at += 1;
    }
    known.contains(&other)
}

/// Scans that are left out, each with the one that reads the same row.
struct Twins(Vec<(Scan, Scan)>);

impl Twins {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_one(&self, relation: &Relation) -> bool {
        matches!(relation, Relation::Scan(scan)
            if self.0.iter().any(|(twin, _)| twin.number == scan.number))
    }

    fn are_read(&self, condition: &Expr) -> bool {
        condition
            .columns()
            .iter()
            .any(|id| self.other(*id).is_some())
    }

    fn other(&self, id: ColumnId) -> Option<ColumnId> {
        self.0.iter().find_map(|(twin, of)| {
            let at = twin.columns.iter().position(|column| *column == id)?;
            Some(of.columns[at])
        })
    }

    /// The condition over the scans that stay. A twin's twin may be a twin itself.
    fn renamed(&self, condition: Expr) -> Expr {
        condition.mapped(&|expr| {
            let mut id = self.other(expr.as_column()?)?;
            while let Some(next) = self.other(id) {
                id = next;
            }
            Some(Expr::column(id, expr.data_type.clone()))
        })
    }
}

/// The scans and conditions of inner joins and filters, and which of the scans are hidden and
/// joined to what stands before them. Rows that an outer join keeps count too.
fn reached(relation: &Relation, found: &mut AtHand, hidden: &mut Vec<Scan>) {
    match relation {
        Relation::Scan(scan) => found.scans.push(scan.clone()),
        Relation::Filter { input, predicate } => {
            reached(input, found, hidden);
            let conjuncts = predicate.conjuncts().into_iter().cloned();
            found.conditions.extend(conjuncts);
        }
        Relation::Project { input, columns: _ } => reached(input, found, hidden),
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            reached(left, found, hidden);
            reached(right, found, hidden);
            let conjuncts = on.iter().flat_map(|on| on.conjuncts().into_iter().cloned());
            found.conditions.extend(conjuncts);
            if let Relation::Scan(scan) = right.as_ref()
                && scan.number >= HIDDEN_SCANS_FROM
            {
                hidden.push(scan.clone());
            }
        }
        Relation::Join {
            kind: JoinKind::Left,
            left,
            right: _,
            on: _,
        } => reached(left, found, &mut Vec::new()),
        Relation::Constants(_)
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. } => {}
    }
}

/// The relation without these scans. Conditions that read them are moved to `hoisted`.
fn without(relation: Relation, twins: &Twins, hoisted: &mut Vec<Expr>) -> Relation {
    let mut split = |condition: Option<Expr>| {
        let conjuncts = condition
            .iter()
            .flat_map(|c| c.conjuncts().into_iter().cloned());
        let (gone, kept): (Vec<Expr>, Vec<Expr>) = conjuncts.partition(|c| twins.are_read(c));
        hoisted.extend(gone);
        kept
    };
    match relation {
        Relation::Filter { input, predicate } => {
            let kept = split(Some(predicate));
            filtered(without(*input, twins, hoisted), kept)
        }
        Relation::Project { input, columns } => Relation::Project {
            input: Box::new(without(*input, twins, hoisted)),
            columns,
        },
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            let kept = split(on);
            let left = without(*left, twins, hoisted);
            if twins.is_one(&right) {
                return filtered(left, kept);
            }
            Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(left),
                right: Box::new(without(*right, twins, hoisted)),
                on: Expr::and(kept),
            }
        }
        other => other,
    }
}

fn filtered(input: Relation, conditions: Vec<Expr>) -> Relation {
    match Expr::and(conditions) {
        None => input,
        Some(predicate) => Relation::Filter {
            input: Box::new(input),
            predicate,
        },
    }
}

/// `x = x` says that x is not NULL.
fn present(condition: Expr) -> Expr {
    match condition.sides_of_equality() {
        Some([a, b]) if a == b && a.as_column().is_some() => {
            Expr::call(Function::IsNotNull, vec![a.clone()], Type::Bool)
        }
        _ => condition,
    }
}

/// Whether one says what the other does.
fn is_same(known: &Expr, condition: &Expr) -> bool {
    let is_flipped = || match (known.sides_of_equality(), condition.sides_of_equality()) {
        (Some([a, b]), Some([c, d])) => a == d && b == c,
        _ => false,
    };
    known == condition || is_flipped()
}

/// Every mention of a column in the relation.
fn mentioned(relation: &Relation, found: &mut Vec<ColumnId>) {
    for expr in relation.expressions() {
        found.extend(mentions(expr));
    }
    match relation {
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => found.extend(keys),
        Relation::Union { columns: _, arms } => arms.iter().for_each(|(_, ids)| found.extend(ids)),
        Relation::Bounded {
            input: _,
            unit,
            rows: _,
        } => found.push(*unit),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. } => {}
    }
    for input in relation.inputs() {
        mentioned(input, found);
    }
}

fn mentions(expr: &Expr) -> Vec<ColumnId> {
    let mut found = Vec::new();
    expr.walk(&mut |e| found.extend(e.as_column()));
    for relation in expr.relations() {
        mentioned(relation, &mut found);
    }
    found
}
