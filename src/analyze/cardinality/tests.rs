mod random;

use super::{Attribute, Cardinalities};
use crate::analyze::PlanningEffort;
use crate::catalog::{TableFingerprint, Type, UniqueKey};
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, JoinKind, Relation};
use crate::policy::{Column, File, Policy, Protection, Scalar, Table, Unit, UnitStep};
use random::{Made, Row, Value};

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
        not_null,
        ..Column::plain(name, Type::Int4)
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
        claimed_unique: Vec::new(),
        indexes: Vec::new(),
        fingerprint: TableFingerprint::default(),
        listing: None,
        content: None,
        lists_from: Vec::new(),
        periods: None,
        holdout: None,
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
        writing: None,
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
