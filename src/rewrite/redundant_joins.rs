//! Avoids reading a row twice, where a key path joins in a table's row that the statement already
//! reads.
//!
//! `orders JOIN lineitem` reads each line's order for its unit, and the order that the client
//! joined. A unique key says that both are one row.

mod copies;
mod equal;
mod mentions;

use std::collections::HashMap;

use self::mentions::{mentions, note_mentions};
use crate::analyze::{HIDDEN_SCANS_FROM, PlanningEffort};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Node, Relation, Scan, ScanId};
use crate::policy::Policy;
use copies::Copies;

/// A relation without the scans that read a row again.
pub(in crate::rewrite) struct ScannedOnce {
    pub relation: Relation,
    /// By the number of a scan that stays: the columns of each scan that was left out because it
    /// reads the same row.
    pub same: HashMap<ScanId, Vec<Vec<ColumnId>>>,
}

/// The relation without redundant scans: those that key paths added, where a unique key proves that
/// another scan in reach reads the same row. `reads` are the columns that are read above the
/// relation.
///
/// # Guarantee
/// The relation has the same rows. Columns that were left out have the values of `same`.
///
/// # Requires
/// The catalog's unique keys hold in the snapshot that is read, as the label of the rows requires.
pub(in crate::rewrite) fn without_redundant_scans(
    relation: &Relation,
    reads: &[ColumnId],
    policy: &Policy,
    columns: &[ColumnInfo],
    effort: &PlanningEffort,
) -> ScannedOnce {
    let mut all = reads.to_vec();
    note_mentions(relation, &mut all);
    let mut merger = Merger {
        policy,
        columns,
        effort,
        all: counts(all),
        left_out: Vec::new(),
    };
    let (relation, _) = merger.join(relation.clone(), &AtHand::default(), Vec::new());
    ScannedOnce {
        relation,
        same: by_staying_scan(merger.left_out),
    }
}

/// The columns of the scans that were left out, by the scan that stays. A scan may have been left
/// out for one that was itself left out later, so such chains are followed to their end.
fn by_staying_scan(left_out: Vec<(Scan, ScanId)>) -> HashMap<ScanId, Vec<Vec<ColumnId>>> {
    let read_from: HashMap<ScanId, ScanId> = left_out
        .iter()
        .map(|(copy, of)| (copy.number, *of))
        .collect();
    let mut same: HashMap<ScanId, Vec<Vec<ColumnId>>> = HashMap::new();
    for (copy, mut of) in left_out {
        while let Some(next) = read_from.get(&of) {
            of = *next;
        }
        same.entry(of).or_default().push(copy.columns);
    }
    same
}

fn counts(ids: Vec<ColumnId>) -> HashMap<ColumnId, usize> {
    let mut counts = HashMap::new();
    for id in ids {
        *counts.entry(id).or_default() += 1;
    }
    counts
}

/// Scans whose rows are at hand, and the conditions that hold for them.
#[derive(Default, Clone)]
struct AtHand {
    scans: Vec<Scan>,
    conditions: Vec<Expr>,
    /// Columns that are read where the scans are not at hand.
    read_apart: Vec<ColumnId>,
}

/// An expression that is evaluated where it stands, with the scans at hand there.
struct FixedColumns {
    reads: Vec<ColumnId>,
    scans: Vec<ScanId>,
}

struct Merger<'a> {
    policy: &'a Policy,
    columns: &'a [ColumnInfo],
    effort: &'a PlanningEffort,
    /// How often each column is mentioned anywhere.
    all: HashMap<ColumnId, usize>,
    /// The scans that are left out, each with the number of the scan that it is read from.
    left_out: Vec<(Scan, ScanId)>,
}

impl Merger<'_> {
    /// Inner joins and filters, whose conditions all hold for each row together with `more`, joined
    /// to rows of `at_hand`. Returns them with what is left of `more`.
    fn join(
        &mut self,
        relation: Relation,
        at_hand: &AtHand,
        more: Vec<Expr>,
    ) -> (Relation, Vec<Expr>) {
        let mut own = AtHand::default();
        let mut hidden = Vec::new();
        scans_at_hand(&relation, &mut own, &mut hidden);
        let is_alone = more.is_empty() && at_hand.scans.is_empty();
        let mut places = vec![FixedColumns {
            reads: at_hand.read_apart.clone(),
            scans: Vec::new(),
        }];
        fixed_columns(&relation, &mut places);
        let scans: Vec<&Scan> = at_hand.scans.iter().chain(&own.scans).collect();
        let conditions: Vec<&Expr> = [&at_hand.conditions, &own.conditions, &more]
            .into_iter()
            .flatten()
            .collect();
        let copies = self.copies(&hidden, &scans, &conditions, &places);
        if copies.is_empty() {
            return (self.within(relation), more);
        }
        let mut hoisted = Vec::new();
        let relation = without(relation, &copies, &mut hoisted);
        let (gone, mut more): (Vec<Expr>, Vec<Expr>) =
            more.into_iter().partition(|c| copies.are_read(c));
        hoisted.extend(gone);
        let mut kept = AtHand::default();
        scans_at_hand(&relation, &mut kept, &mut Vec::new());
        let mut known = [at_hand.conditions.clone(), kept.conditions, more.clone()].concat();
        let mut left = Vec::new();
        for condition in hoisted {
            let condition = present(copies.rename(condition));
            let may_compare = self.effort.take(known.len() as u64).is_some();
            if !(may_compare && known.iter().any(|known| is_same(known, &condition))) {
                known.push(condition.clone());
                left.push(condition);
            }
        }
        let left_out = copies.0.into_iter();
        self.left_out
            .extend(left_out.map(|(copy, of)| (copy, of.number)));
        let relation = if is_alone {
            filter(relation, left)
        } else {
            more.extend(left);
            relation
        };
        (self.within(relation), more)
    }

    /// The relations nested in the inner joins and filters.
    fn within(&mut self, relation: Relation) -> Relation {
        match relation {
            Relation::Scan(_) | Relation::Constants(_) => relation,
            Relation::Filter { input, predicate } => {
                let input = self.within(*input);
                let predicate = if predicate.own_relations().is_empty() {
                    predicate
                } else {
                    let mut at_hand = AtHand::default();
                    scans_at_hand(&input, &mut at_hand, &mut Vec::new());
                    self.subqueries(predicate, &at_hand)
                };
                Relation::Filter {
                    input: Box::new(input),
                    predicate,
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
                input: self.alone(*input),
                keys,
                aggregates,
            },
            Relation::Window { input, columns } => Relation::Window {
                input: self.alone(*input),
                columns,
            },
            Relation::Union { columns, arms } => Relation::Union {
                columns,
                arms: arms
                    .into_iter()
                    .map(|(arm, ids)| (*self.alone(arm), ids))
                    .collect(),
            },
            Relation::Bounded { input, unit, rows } => Relation::Bounded {
                input: self.alone(*input),
                unit,
                rows,
            },
        }
    }

    /// A relation that nothing around it is joined with.
    fn alone(&mut self, relation: Relation) -> Box<Relation> {
        Box::new(self.join(relation, &AtHand::default(), Vec::new()).0)
    }

    /// A left join. A hidden scan on the right side may be replaced by a scan of the left side, but
    /// only if nothing above the join reads the hidden scan: its columns are NULL there where the
    /// right side is missing.
    fn outer(&mut self, left: Relation, right: Relation, on: Option<Expr>) -> Relation {
        let left = self.alone(left);
        let mut inside = Vec::new();
        note_mentions(&right, &mut inside);
        inside.extend(on.iter().flat_map(mentions));
        let inside = counts(inside);
        let (mut own, mut hidden) = Default::default();
        scans_at_hand(&right, &mut own, &mut hidden);
        let are_own = hidden
            .iter()
            .flat_map(|scan: &Scan| &scan.columns)
            .all(|id| self.all.get(id) == inside.get(id));
        let conditions: Vec<Expr> = on
            .iter()
            .flat_map(|on| on.conjuncts().into_iter().cloned())
            .collect();
        let (right, on) = if are_own && !conditions.is_empty() {
            // A condition that reads a scan that is left out becomes a condition of the join, which
            // holds no subquery.
            let subqueries = own.conditions.iter().filter(|c| !c.relations().is_empty());
            let mut at_hand = AtHand {
                read_apart: subqueries.flat_map(Expr::columns).collect(),
                ..AtHand::default()
            };
            scans_at_hand(&left, &mut at_hand, &mut Vec::new());
            let (right, conditions) = self.join(right, &at_hand, conditions);
            (right, Expr::and(conditions))
        } else {
            (*self.alone(right), on)
        };
        Relation::Join {
            kind: JoinKind::Left,
            left,
            right: Box::new(right),
            on,
        }
    }

    /// The condition, with redundant scans of its subqueries left out: a row of a subquery may be
    /// the one of the row around it.
    fn subqueries(&mut self, condition: Expr, at_hand: &AtHand) -> Expr {
        let merger = std::cell::RefCell::new(self);
        condition.replace_parts(&|expr| {
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
                    .join(relation.as_ref().clone(), at_hand, conditions);
            Some(Expr {
                node: Node::Exists {
                    relation: Box::new(relation),
                    condition: Expr::and(conditions).map(Box::new),
                },
                data_type: Type::Bool,
            })
        })
    }
}

/// The scans and conditions of inner joins and filters, and which of the scans are hidden and
/// joined to what stands before them. Rows that an outer join keeps count too.
fn scans_at_hand(relation: &Relation, found: &mut AtHand, hidden: &mut Vec<Scan>) {
    match relation {
        Relation::Scan(scan) => found.scans.push(scan.clone()),
        Relation::Filter { input, predicate } => {
            scans_at_hand(input, found, hidden);
            let conjuncts = predicate.conjuncts().into_iter().cloned();
            found.conditions.extend(conjuncts);
        }
        Relation::Project { input, columns: _ } => scans_at_hand(input, found, hidden),
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            scans_at_hand(left, found, hidden);
            scans_at_hand(right, found, hidden);
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
        } => scans_at_hand(left, found, &mut Vec::new()),
        Relation::Constants(_)
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. } => {}
    }
}

/// The derived columns of inner joins and filters, none of which moves. Returns the scans at hand.
fn fixed_columns(relation: &Relation, found: &mut Vec<FixedColumns>) -> Vec<ScanId> {
    match relation {
        Relation::Scan(scan) => vec![scan.number],
        Relation::Filter {
            input,
            predicate: _,
        } => fixed_columns(input, found),
        Relation::Project { input, columns } => {
            let scans = fixed_columns(input, found);
            found.push(FixedColumns {
                reads: columns.iter().flat_map(|(_, e)| e.columns()).collect(),
                scans: scans.clone(),
            });
            scans
        }
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on: _,
        } => [fixed_columns(left, found), fixed_columns(right, found)].concat(),
        Relation::Join {
            kind: JoinKind::Left,
            left,
            right: _,
            on: _,
        } => fixed_columns(left, found),
        Relation::Constants(_)
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. } => Vec::new(),
    }
}

/// The relation without these scans. Conditions that read them are moved to `hoisted`.
fn without(relation: Relation, copies: &Copies, hoisted: &mut Vec<Expr>) -> Relation {
    let mut split = |condition: Option<Expr>| {
        let conjuncts = condition
            .iter()
            .flat_map(|c| c.conjuncts().into_iter().cloned());
        let (gone, kept): (Vec<Expr>, Vec<Expr>) = conjuncts.partition(|c| copies.are_read(c));
        hoisted.extend(gone);
        kept
    };
    match relation {
        Relation::Filter { input, predicate } => {
            let kept = split(Some(predicate));
            filter(without(*input, copies, hoisted), kept)
        }
        Relation::Project { input, columns } => Relation::Project {
            input: Box::new(without(*input, copies, hoisted)),
            columns,
        },
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            let kept = split(on);
            let left = without(*left, copies, hoisted);
            if copies.is_one(&right) {
                return filter(left, kept);
            }
            Relation::Join {
                kind: JoinKind::Inner,
                left: Box::new(left),
                right: Box::new(without(*right, copies, hoisted)),
                on: Expr::and(kept),
            }
        }
        other => other,
    }
}

fn filter(input: Relation, conditions: Vec<Expr>) -> Relation {
    match Expr::and(conditions) {
        None => input,
        Some(predicate) => Relation::Filter {
            input: Box::new(input),
            predicate,
        },
    }
}

/// Turns `x = x` into `x IS NOT NULL`, which it means as a condition.
fn present(condition: Expr) -> Expr {
    match condition.sides_of_equality() {
        Some([a, b]) if a == b && a.as_column().is_some() => {
            Expr::call(Function::IsNotNull, vec![a.clone()], Type::Bool)
        }
        _ => condition,
    }
}

/// Whether both conditions are equal, or are one equality with its sides swapped.
fn is_same(known: &Expr, condition: &Expr) -> bool {
    let is_flipped = || match (known.sides_of_equality(), condition.sides_of_equality()) {
        (Some([a, b]), Some([c, d])) => a == d && b == c,
        _ => false,
    };
    known == condition || is_flipped()
}
