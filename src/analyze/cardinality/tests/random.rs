//! Random relations over random rows of one person, and what PostgreSQL computes of them.

use std::collections::HashSet;

use super::{ITEMS, PERSON, VISITS};
use super::{equal, is_met, join, of, shown};
use crate::catalog::Type;
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Relation, Scan, ScanId, TableId};
use crate::policy::{ColumnPosition, Policy, Scalar};

pub(super) type Value = Option<Scalar>;

pub(super) type Row = Vec<(ColumnId, Value)>;

/// Random relations over random rows of one person.
pub(super) struct Made<'p> {
    pub policy: &'p Policy,
    pub columns: Vec<ColumnInfo>,
    pub seed: u64,
    /// The rows of each table.
    pub rows: [Vec<Vec<Value>>; 3],
}

impl<'p> Made<'p> {
    pub(super) fn new(policy: &'p Policy, seed: u64) -> Self {
        let mut made = Self {
            policy,
            columns: Vec::new(),
            seed,
            rows: Default::default(),
        };
        let number = |n: i64| Some(Scalar::Int(n));
        let x = made.small();
        made.rows[0].push(vec![number(PERSON), x]);
        let mut numbered = HashSet::new();
        for vid in 0..i64::from(VISITS) {
            let (y, n) = (made.small(), made.small());
            if n.is_none() || numbered.insert(format!("{n:?}")) {
                made.rows[1].push(vec![number(vid), number(PERSON), y, n]);
            }
        }
        for iid in 0..i64::from(ITEMS) {
            let vid = made.below(VISITS.into()) as i64;
            let z = made.small();
            if made.rows[1].iter().any(|row| row[0] == number(vid)) {
                made.rows[2].push(vec![number(iid), number(vid), z]);
            }
        }
        made
    }

    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % most
    }

    fn small(&mut self) -> Value {
        match self.below(4) {
            0 => None,
            n => Some(Scalar::Int(n as i64)),
        }
    }

    pub(super) fn of(&self, id: ColumnId) -> Expr {
        Expr::column(id, Type::Int4)
    }

    pub(super) fn scan(&mut self, table: usize) -> (Relation, Vec<ColumnId>) {
        let mut columns = Vec::new();
        for (at, column) in self.policy.tables[table].columns.iter().enumerate() {
            columns.push(ColumnId(self.columns.len() as u32));
            self.columns.push(ColumnInfo {
                name: column.name.clone(),
                data_type: Type::Int4,
                nullable: !column.not_null,
                origin: Some((TableId(table), ColumnPosition(at))),
            });
        }
        let scan = Relation::Scan(Scan {
            table: TableId(table),
            columns: columns.clone(),
            number: ScanId::new(columns[0].0 as usize),
            place: Default::default(),
        });
        (scan, columns)
    }

    /// A table, with the path to its unit. The unit's column comes first.
    fn leaf(&mut self) -> (Relation, Vec<ColumnId>) {
        match self.below(3) {
            0 => self.scan(0),
            1 => {
                let (scan, columns) = self.scan(1);
                (scan, vec![columns[1], columns[0], columns[2], columns[3]])
            }
            _ => {
                let (item, columns) = self.scan(2);
                let (visit, of_visit) = self.scan(1);
                let on = Some(equal(self.of(columns[1]), self.of(of_visit[0])));
                (
                    join(JoinKind::Inner, item, visit, on),
                    [&of_visit[1..2], &columns].concat(),
                )
            }
        }
    }

    fn any(&mut self, columns: &[ColumnId]) -> Expr {
        let at = self.below(columns.len() as u64) as usize;
        self.of(columns[at])
    }

    pub(super) fn condition(&mut self, columns: &[ColumnId], others: &[ColumnId]) -> Expr {
        let number = |n: u64| Expr::literal(Some(Scalar::Int(n as i64)), Type::Int4);
        let (one, other, n) = (self.any(columns), self.any(others), self.below(4));
        match self.below(6) {
            0 | 1 => equal(one, other),
            2 => equal(one, number(n)),
            3 => Expr::call(Function::Greater, vec![one, number(n)], Type::Bool),
            4 => Expr::call(
                Function::In,
                vec![one, number(n), number(n + 1)],
                Type::Bool,
            ),
            _ => Expr::call(Function::IsNotNull, vec![one], Type::Bool),
        }
    }

    /// The relation and its visible columns, the unit first.
    pub(super) fn relation(&mut self, depth: u32) -> (Relation, Vec<ColumnId>) {
        if depth == 0 {
            return self.leaf();
        }
        match self.below(5) {
            0 => {
                let (input, columns) = self.relation(depth - 1);
                let predicate = self.condition(&columns, &columns);
                let input = Box::new(input);
                (Relation::Filter { input, predicate }, columns)
            }
            1 => {
                let (input, columns) = self.relation(depth - 1);
                let mut keys = vec![columns[0]];
                let more = columns[1..].iter().copied();
                keys.extend(more.filter(|_| self.below(2) == 0).collect::<Vec<_>>());
                let group = Relation::Group {
                    input: Box::new(input),
                    keys: keys.clone(),
                    aggregates: Vec::new(),
                };
                (group, keys)
            }
            2 => {
                let (input, columns) = self.relation(depth - 1);
                let of = self.any(&columns);
                let id = ColumnId(self.columns.len() as u32);
                self.columns.push(ColumnInfo {
                    name: "made".to_owned(),
                    data_type: Type::Int4,
                    nullable: true,
                    origin: None,
                });
                let project = Relation::Project {
                    input: Box::new(input),
                    columns: vec![(id, of)],
                };
                (project, [columns, vec![id]].concat())
            }
            kind => {
                let (left, of_left) = self.relation(depth - 1);
                let (right, of_right) = self.relation(depth - 1);
                let mut on = vec![equal(self.of(of_left[0]), self.of(of_right[0]))];
                for _ in 0..self.below(3) {
                    let sides = [&of_left, &of_right];
                    let (one, other) = (self.below(2) as usize, self.below(2) as usize);
                    on.push(self.condition(sides[one], sides[other]));
                }
                let kind = [JoinKind::Inner, JoinKind::Left][kind as usize - 3];
                let relation = join(kind, left, right, Expr::and(on));
                (relation, [of_left, of_right].concat())
            }
        }
    }

    /// The rows of a relation, as PostgreSQL computes them.
    pub(super) fn computed(&self, relation: &Relation) -> Vec<Row> {
        match relation {
            Relation::Scan(scan) => self.rows[scan.table.0]
                .iter()
                .map(|row| {
                    scan.columns
                        .iter()
                        .copied()
                        .zip(row.iter().cloned())
                        .collect()
                })
                .collect(),
            Relation::Filter { input, predicate } => {
                let mut rows = self.computed(input);
                rows.retain(|row| is_met(predicate, row));
                rows
            }
            Relation::Project { input, columns } => {
                let mut rows = self.computed(input);
                for row in &mut rows {
                    for (id, expr) in columns {
                        let value = evaluate(expr, row).unwrap();
                        row.push((*id, value));
                    }
                }
                rows
            }
            Relation::Join {
                kind,
                left,
                right,
                on,
            } => {
                let others = self.computed(right);
                let mut rows = Vec::new();
                for row in self.computed(left) {
                    let pair = |other: &Row| [row.clone(), other.clone()].concat();
                    let met: Vec<Row> = others
                        .iter()
                        .map(pair)
                        .filter(|row| on.as_ref().is_none_or(|on| is_met(on, row)))
                        .collect();
                    if met.is_empty() && *kind == JoinKind::Left {
                        let missing = right.made_at_any_depth().into_iter().map(|id| (id, None));
                        rows.push(row.iter().cloned().chain(missing).collect());
                    }
                    rows.extend(met);
                }
                rows
            }
            Relation::Group { input, keys, .. } => {
                let mut seen = HashSet::new();
                let mut rows = Vec::new();
                for row in self.computed(input) {
                    if seen.insert(shown(&row, keys)) {
                        rows.push(keys.iter().map(|key| (*key, of(&row, *key))).collect());
                    }
                }
                rows
            }
            other => unreachable!("not made here: {other:?}"),
        }
    }
}
