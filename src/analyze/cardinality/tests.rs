use std::collections::HashSet;

use super::{Attribute, Cardinalities};
use crate::analyze::PlanningEffort;
use crate::catalog::{TableFingerprint, Type, UniqueKey};
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Relation, Scan, ScanId, TableId};
use crate::policy::{Column, File, Policy, Protection, Scalar, Table, Unit, UnitStep};

const POLICY: &str = "version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles:
  - name: ann
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 3, delta: 1e-7}
tables:
  s.person: {unit: id, columns: {x: visible}}
";

/// Rows of one person in visits, and in items.
const VISITS: u32 = 3;
const ITEMS: u32 = 6;
const PERSON: i64 = 7;

fn column(name: &str, not_null: bool) -> Column {
    Column {
        name: name.to_owned(),
        data_type: Type::Int4,
        declared: None,
        not_null,
        deterministic_collation: true,
        collation: None,
        bounds: None,
        unit_total: None,
        domain: None,
        is_complete: false,
        extent: None,
    }
}

fn table(name: &str, columns: Vec<Column>, keys: &[&[&str]], unit: Unit) -> Table {
    Table {
        oid: 1,
        schema: "s".to_owned(),
        name: name.to_owned(),
        protection: Protection::Private(unit),
        columns,
        unique_keys: keys
            .iter()
            .map(|key| UniqueKey::plain(key.iter().copied(), false))
            .collect(),
        foreign_keys: Vec::new(),
        indexes: Vec::new(),
        fingerprint: TableFingerprint::default(),
        listing: None,
        content: None,
        lists_from: Vec::new(),
    }
}

/// person (id, x); visit (vid, pid, y, n), with (pid, n) unique where n is not NULL; item (iid,
/// vid, z).
fn policy() -> Policy {
    let file = File::parse("p.yaml", POLICY, |_| None).unwrap();
    let unit = |column: &str, path: Vec<UnitStep>, rows_per_unit: u32| Unit {
        path,
        column: column.to_owned(),
        data_type: Type::Int4,
        is_primary_key: false,
        rows_per_unit,
    };
    let to_visit = UnitStep {
        column: "vid".to_owned(),
        schema: "s".to_owned(),
        table: "visit".to_owned(),
        referenced: "vid".to_owned(),
    };
    let tables = vec![
        table(
            "person",
            vec![column("id", true), column("x", false)],
            &[&["id"]],
            unit("id", Vec::new(), 1),
        ),
        table(
            "visit",
            vec![
                column("vid", true),
                column("pid", true),
                column("y", false),
                column("n", false),
            ],
            &[&["vid"], &["pid", "n"]],
            unit("pid", Vec::new(), VISITS),
        ),
        table(
            "item",
            vec![column("iid", true), column("vid", true), column("z", false)],
            &[&["iid"]],
            unit("pid", vec![to_visit], ITEMS),
        ),
    ];
    Policy {
        version: String::new(),
        database_url: None,
        ledger_url: None,
        shadow_url: None,
        privacy: file.privacy,
        roles: Vec::new(),
        operators: Vec::new(),
        tables,
        searches: Vec::new(),
        summaries: Vec::new(),
        types: Vec::new(),
        limits: file.limits,
        previews: file.previews,
        records_shape: false,
        quantum: None,
        time_grain: None,
    }
}

type Value = Option<Scalar>;
type Row = Vec<(ColumnId, Value)>;

/// Random relations over random rows of one person.
struct Made<'p> {
    policy: &'p Policy,
    columns: Vec<ColumnInfo>,
    seed: u64,
    /// The rows of each table.
    rows: [Vec<Vec<Value>>; 3],
}

impl<'p> Made<'p> {
    fn new(policy: &'p Policy, seed: u64) -> Self {
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

    fn below(&mut self, most: u64) -> u64 {
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

    fn of(&self, id: ColumnId) -> Expr {
        Expr::column(id, Type::Int4)
    }

    fn scan(&mut self, table: usize) -> (Relation, Vec<ColumnId>) {
        let mut columns = Vec::new();
        for (at, column) in self.policy.tables[table].columns.iter().enumerate() {
            columns.push(ColumnId(self.columns.len() as u32));
            self.columns.push(ColumnInfo {
                name: column.name.clone(),
                data_type: Type::Int4,
                nullable: !column.not_null,
                origin: Some((TableId(table), at)),
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

    fn condition(&mut self, columns: &[ColumnId], others: &[ColumnId]) -> Expr {
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
    fn relation(&mut self, depth: u32) -> (Relation, Vec<ColumnId>) {
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
    fn computed(&self, relation: &Relation) -> Vec<Row> {
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

fn equal(one: Expr, other: Expr) -> Expr {
    Expr::call(Function::Equal, vec![one, other], Type::Bool)
}

fn join(kind: JoinKind, left: Relation, right: Relation, on: Option<Expr>) -> Relation {
    Relation::Join {
        kind,
        left: Box::new(left),
        right: Box::new(right),
        on,
    }
}

fn of(row: &Row, id: ColumnId) -> Value {
    row.iter()
        .find(|(column, _)| *column == id)
        .unwrap()
        .1
        .clone()
}

fn is_met(condition: &Expr, row: &Row) -> bool {
    evaluate(condition, row) == Ok(Some(Scalar::Bool(true)))
}

fn shown(row: &Row, columns: &[ColumnId]) -> String {
    let values: Vec<Value> = columns.iter().map(|id| of(row, *id)).collect();
    format!("{values:?}")
}

#[test]
fn no_unit_that_obeys_the_declarations_exceeds_a_bound() {
    let policy = policy();
    let (mut reached, mut useful) = (0, 0);
    for seed in 0..2_000 {
        let mut made = Made::new(&policy, seed);
        let (relation, columns) = made.relation(3);
        let keys: Vec<ColumnId> = columns
            .iter()
            .copied()
            .filter(|_| made.below(3) == 0)
            .collect();
        let effort = PlanningEffort::default();
        let cardinalities = Cardinalities::new(&policy, &made.columns, &[], &effort);
        let rows = cardinalities.of(&relation);
        let known: Vec<Attribute> = keys.iter().copied().map(Attribute::Column).collect();
        let most = (
            rows.most(&[], &rows.rows),
            rows.most(&[], &known),
            rows.most(&known, &rows.rows),
        );
        let found = made.computed(&relation);
        let mut groups = std::collections::HashMap::new();
        for row in &found {
            *groups.entry(shown(row, &keys)).or_insert(0u64) += 1;
        }
        let true_most = (
            found.len() as u64,
            groups.len() as u64,
            groups.values().copied().max().unwrap_or(0),
        );
        assert!(
            true_most.0 <= most.0 && true_most.1 <= most.1 && true_most.2 <= most.2,
            "seed {seed}: {true_most:?} is more than {most:?} by {keys:?} in {relation:#?}"
        );
        reached += usize::from(true_most.0 == most.0) + usize::from(true_most.2 == most.2);
        useful += usize::from(most.0 < 1 << 32) + usize::from(most.2 < most.0);
    }
    // Bounds that are never reached would be of no use.
    assert!(
        reached > 500 && useful > 2_000,
        "{reached} reached, {useful} useful"
    );
}

/// The most rows, and the most groups by these columns.
fn bounds(made: &Made<'_>, relation: &Relation, keys: &[ColumnId]) -> (u64, u64) {
    let effort = PlanningEffort::default();
    let cardinalities = Cardinalities::new(made.policy, &made.columns, &[], &effort);
    let rows = cardinalities.of(relation);
    let keys: Vec<Attribute> = keys.iter().copied().map(Attribute::Column).collect();
    (rows.most(&[], &rows.rows), rows.most(&[], &keys))
}

fn grouped(input: Relation, keys: &[ColumnId]) -> Relation {
    Relation::Group {
        input: Box::new(input),
        keys: keys.to_vec(),
        aggregates: Vec::new(),
    }
}

#[test]
fn tables_are_joined_in_any_order() {
    let policy = policy();
    let mut made = Made::new(&policy, 1);
    let (person, of_person) = made.scan(0);
    let (visit, of_visit) = made.scan(1);
    let (item, of_item) = made.scan(2);
    let on = |one, other| Some(equal(made.of(one), made.of(other)));
    let of_unit = on(of_person[0], of_visit[1]);
    let of_path = on(of_visit[0], of_item[1]);
    let inner = JoinKind::Inner;
    let natural = join(
        inner,
        join(inner, person.clone(), visit.clone(), of_unit.clone()),
        item.clone(),
        of_path.clone(),
    );
    let turned = join(inner, join(inner, item, visit, of_path), person, of_unit);
    for relation in [&natural, &turned] {
        assert_eq!(
            bounds(&made, relation, &[of_visit[0]]),
            (u64::from(ITEMS), u64::from(VISITS))
        );
    }
    // A person's visits have a group each, and what a visit says is known of its group.
    let steps = grouped(natural, &[of_visit[1], of_item[1]]);
    assert_eq!(
        bounds(&made, &steps, &[of_item[1]]),
        (u64::from(VISITS), u64::from(VISITS))
    );
    assert_eq!(bounds(&made, &steps, &[of_visit[1]]).1, 1);
}

/// The join finds nothing for some rows of visit 1, and that visit for others.
#[test]
fn a_left_join_is_decided_by_every_column_that_on_reads() {
    let policy = policy();
    let mut made = Made::new(&policy, 1);
    let (item, of_item) = made.scan(2);
    let (visit, of_visit) = made.scan(1);
    let one = Expr::literal(Some(Scalar::Int(1)), Type::Int4);
    let finds = equal(made.of(of_visit[0]), made.of(of_item[1]));
    let condition = Expr::call(
        Function::Greater,
        vec![made.of(of_item[2]), one.clone()],
        Type::Bool,
    );
    let of_one_visit = Relation::Filter {
        input: Box::new(item),
        predicate: equal(made.of(of_item[1]), one),
    };
    let groups = |on: Vec<Expr>| {
        let joined = join(
            JoinKind::Left,
            of_one_visit.clone(),
            visit.clone(),
            Expr::and(on),
        );
        bounds(&made, &joined, &[of_visit[2]]).1
    };
    assert_eq!(groups(vec![finds.clone()]), 1);
    assert!(groups(vec![finds, condition]) > 1);
}

/// A complete list bounds the groups of a step, with NULL; an incomplete one does not.
#[test]
fn listed_values_bound_the_groups_of_a_step() {
    let mut policy = policy();
    policy.tables[1].columns[2].domain = Some(vec![Scalar::Int(1)]);
    for (is_complete, most) in [(true, 2), (false, u64::from(VISITS))] {
        policy.tables[1].columns[2].is_complete = is_complete;
        let mut made = Made::new(&policy, 1);
        let (visit, of_visit) = made.scan(1);
        let steps = grouped(visit, &[of_visit[1], of_visit[2]]);
        assert_eq!(bounds(&made, &steps, &[of_visit[1]]), (most, 1));
        assert_eq!(bounds(&made, &steps, &[of_visit[2]]), (most, most));
    }
}

/// The policy's limit holds for rows that public ones multiply, and again for each further join.
#[test]
fn public_rows_multiply_up_to_the_limit() {
    let mut policy = policy();
    policy.tables[0].protection = Protection::Public;
    let limit = u64::from(policy.limits.rows_per_unit);
    let mut made = Made::new(&policy, 1);
    let (one, of_one) = made.scan(1);
    let (public, of_public) = made.scan(0);
    let (other, of_other) = made.scan(1);
    let on = |one, other| Some(equal(made.of(one), made.of(other)));
    let several = join(JoinKind::Inner, one, public, on(of_one[2], of_public[1]));
    assert_eq!(bounds(&made, &several, &[]).0, limit);
    let again = join(JoinKind::Inner, several, other, on(of_one[1], of_other[1]));
    assert_eq!(bounds(&made, &again, &[]).0, limit * u64::from(VISITS));
}

/// A smallint is compared as an integer.
#[test]
fn widened_columns_are_columns() {
    let mut policy = policy();
    policy.tables[1].columns[3].not_null = true;
    policy.tables[1].columns[3].data_type = Type::Int2;
    let mut made = Made::new(&policy, 1);
    let (visit, of_visit) = made.scan(1);
    made.columns[of_visit[3].0 as usize].data_type = Type::Int2;
    let one = Expr::literal(Some(Scalar::Int(1)), Type::Int4);
    let filtered = |to: Type| Relation::Filter {
        input: Box::new(visit.clone()),
        predicate: equal(
            Expr::column(of_visit[3], Type::Int2).cast(to.clone()),
            one.clone().cast(to),
        ),
    };
    assert_eq!(bounds(&made, &filtered(Type::Int4), &[]).0, 1);
    // Different values may be one float.
    assert_eq!(
        bounds(&made, &filtered(Type::Float8), &[]).0,
        u64::from(VISITS)
    );
}
