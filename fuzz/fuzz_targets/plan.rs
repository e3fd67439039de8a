//! Any text as SQL: nothing panics, and a plan that is made is described and printed as statements that parse.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pgveil::catalog::{Type, UniqueKey};
use pgveil::mechanism::{Cap, Fixed, Loss, Standing};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Accounting, Bounds, Budget, Column, Limits, Policy, Previews, Privacy, Protection, Scalar, Step, Table, Unit, Wishes};
use pgveil::resolve::Constants;
use pgveil::rewrite::Terms;

fn column(name: &str, data_type: Type, bounds: Option<(i64, i64)>, domain: &[&str]) -> Column {
    let bounds = bounds.map(|(lower, upper)| Bounds { lower: Scalar::Int(lower), upper: Scalar::Int(upper) });
    let domain = (!domain.is_empty()).then(|| domain.iter().map(|value| Scalar::Text((*value).to_owned())).collect());
    Column { name: name.to_owned(), data_type, not_null: true, deterministic_collation: true, bounds, domain, declared: None, extent: None }
}

fn table(name: &str, protection: Protection, columns: Vec<Column>) -> Table {
    let unique_keys = vec![UniqueKey { columns: vec!["id".to_owned()], primary: true }];
    let (schema, name) = ("public".to_owned(), name.to_owned());
    Table { oid: 1, schema, name, protection, columns, unique_keys, foreign_keys: Vec::new(), fingerprint: String::new(), listing: None }
}

fn unit(path: Vec<Step>, column: &str) -> Protection {
    Protection::Private(Unit { is_primary_key: path.is_empty(), path, column: column.to_owned(), data_type: Type::Int4, rows_per_unit: 10 })
}

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let budget = Budget { epsilon: 3.0, delta: 1e-6 };
    let step = Step { column: "p".to_owned(), schema: "public".to_owned(), table: "p".to_owned(), referenced: "id".to_owned() };
    let people = vec![column("id", Type::Int4, None, &[]), column("x", Type::Int4, Some((0, 9)), &[]), column("g", Type::Text, None, &["a", "b"])];
    let visits = vec![column("id", Type::Int4, None, &[]), column("p", Type::Int4, None, &[]), column("d", Type::Date, None, &[])];
    Policy {
        version: "fuzz".to_owned(),
        database_url: None,
        ledger_url: None,
        shadow_url: None,
        privacy: Privacy {
            unit: "person".to_owned(),
            budget,
            epsilon_default: 0.5,
            epsilon_max: 1.0,
            accounting: Accounting::Gdp,
            threshold_share: 0.005,
            data_version: "1".to_owned(),
        },
        roles: Vec::new(),
        types: Vec::new(),
        tables: vec![
            table("p", unit(Vec::new(), "id"), people),
            table("v", unit(vec![step], "id"), visits),
            table("c", Protection::Public, vec![column("id", Type::Int4, None, &[]), column("t", Type::Text, None, &[])]),
        ],
        limits: Limits {
            groups_per_unit: 5,
            rows_per_unit: 50,
            groups: 1000,
            mirror_rows: 1000,
            failures: 10,
            statement_timeout: Duration::from_secs(60),
            connections: 10,
            connections_per_role: 10,
            connections_per_address: 10,
        },
        previews: Previews::Refused,
        quantum: None,
        time_grain: None,
    }
});

fn terms() -> Terms {
    let cap = Cap::new(Fixed::round_down(3.0), Fixed::round_down(1e-6), Fixed::round_down(0.005), Accounting::Gdp).unwrap();
    let accounts = vec![Standing { cap, spent: Loss::ZERO }; 2];
    Terms { epsilon: 0.5, delta: 1e-6, accounts, wishes: Wishes::default() }
}

fuzz_target!(|text: &str| {
    let Ok(statements) = parse(text) else { return };
    let constants = Constants { now: 848_880_000_000_000, role: "analyst".to_owned(), is_utc: true };
    for statement in &statements {
        let Statement::Query(query) = statement else { continue };
        let Ok(plan) = pgveil::engine::plan(query, &POLICY, &["public".to_owned()], &constants, &terms()) else { continue };
        assert!(!pgveil::engine::describe_plan(&plan, &POLICY).is_empty());
        for sql in plan.releases().iter().flat_map(|release| release.statements()) {
            assert!(parse(sql).is_ok_and(|parsed| parsed.len() == 1), "{sql}");
        }
    }
});
