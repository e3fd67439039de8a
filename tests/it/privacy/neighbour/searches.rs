//! The statements of searches: one unit's influence on the counts, exactly, over hostile rows; and
//! mutants of them.

use num_bigint::BigUint;
use pgveil::auto_bounds::BoundsQuestion;
use pgveil::catalog::Type;
use pgveil::mechanism::{AccountState, Accounting, Cap, Fixed, Loss, Mechanism};
use pgveil::policy::{AutoBound, ColumnPosition, Policy, Scalar, Search, SessionSettings};
use pgveil::rewrite::{Plan, ReleasePlan, Terms};

use super::bound;
use super::random;
use super::random::Random;
use super::world::{HEAVY, World};

const TABLES: [&str; 4] = ["people", "visits", "items", "rounds"];
const COLUMNS: [&str; 11] = [
    "s2", "i4", "j4", "i8", "j8", "n2", "nn", "nb", "f8", "g8", "f4",
];

/// Every search that the world's private tables have, one end written or none.
fn searches(policy: &Policy) -> Vec<Search> {
    let mut all = Vec::new();
    for (table, found) in policy
        .tables
        .iter()
        .enumerate()
        .filter(|(_, table)| TABLES.contains(&table.name.as_str()))
    {
        all.push(Search {
            table,
            sought: AutoBound::Rows,
        });
        for name in COLUMNS {
            let column = found
                .columns
                .iter()
                .position(|column| column.name == name)
                .unwrap();
            let one = match &found.columns[column].data_type {
                Type::Int2 | Type::Int4 | Type::Int8 => Scalar::Int(1),
                _ => Scalar::Decimal("1".to_owned()),
            };
            for (lower, upper) in [(None, None), (Some(one.clone()), None), (None, Some(one))] {
                all.push(Search {
                    table,
                    sought: AutoBound::Bounds {
                        column: ColumnPosition(column),
                        lower,
                        upper,
                    },
                });
            }
        }
    }
    all
}

fn planned(policy: &Policy, search: &Search, accounting: Accounting) -> Plan {
    let fixed = Fixed::round_down;
    let cap = Cap::new(fixed(8.0), fixed(1e-6), fixed(0.005), accounting).unwrap();
    // The spending closes the pure branch, so that both mechanisms come up.
    let spent = if accounting == Accounting::Gdp {
        Loss {
            epsilon: None,
            ..Loss::ZERO
        }
    } else {
        Loss::ZERO
    };
    let terms = Terms {
        epsilon: 0.1,
        delta: 1e-7,
        accounts: vec![AccountState { cap, spent }],
        session_settings: SessionSettings::with_fixed_clips(),
        ranges: Vec::new(),
    };
    let question = BoundsQuestion::new(policy, search);
    question
        .plan(&terms)
        .unwrap_or_else(|error| panic!("{}\n{error:?}", question.sql()))
}

/// 1 where one side is counted; with two sides, each unit counts once in each.
fn declared(release: &ReleasePlan, search: &Search) {
    let price = release.price().unwrap();
    let sides = match &search.sought {
        AutoBound::Rows => 1u8,
        AutoBound::Bounds {
            column: _,
            lower,
            upper,
        } => u8::from(lower.is_none()) + u8::from(upper.is_none()),
    };
    assert_eq!(release.coordinates().len(), 1);
    let one = &price.weights[0];
    let wanted = match price.mechanism {
        Mechanism::Laplace => one * sides,
        Mechanism::Gaussian => {
            let squared: BigUint = one * one * sides;
            let root = squared.sqrt();
            if &root * &root == squared {
                root
            } else {
                root + 1u8
            }
        }
    };
    assert_eq!(price.clip, wanted, "{search:?}");
    assert!(price.threshold.is_none(), "every cell is known beforehand");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_differ_within_their_bound() {
    let seed = random::seeds()[0];
    let (world, mut random) = (World::new().await, Random::new(seed));
    for database in 0..3 {
        world.fill(&mut random, database == 1).await;
        let missing = world.lay_aside(&mut random).await;
        for (at, search) in searches(&world.policy).iter().enumerate() {
            let accounting = if (at + database) % 3 == 0 {
                Accounting::Pure
            } else {
                Accounting::Gdp
            };
            let plan = planned(&world.policy, search, accounting);
            declared(&plan.releases()[0], search);
            if let Err(fault) = bound::holds(&world, missing, &plan, &mut random).await {
                panic!("PGVEIL_SEED={seed}, database {database}\n{search:?}\n{fault}");
            }
        }
    }
}

const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, j4) SELECT g, g FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, j4, nn) SELECT g, 7, g, g FROM generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, j4, nn) SELECT 1000 + g, g, 3, 3 FROM generate_series(1, 9) \
     g;
     INSERT INTO w.visits (id, person, j4, nn) SELECT 2000 + g, NULL, 4, 4 FROM generate_series(1, \
     20) g;
     INSERT INTO w.items (visit, j4) SELECT g, g FROM generate_series(1, 400) g; COMMIT";

type Mutate = fn(&str) -> String;

const MUTANTS: &[(&str, Mutate)] = &[
    ("rows counted in place of units", |sql| {
        sql.replace(
            "GROUP BY 1) AS \"d0\"",
            "GROUP BY 1, \"t0\".\"id\") AS \"d0\"",
        )
    }),
    ("both sides in one grouping set more", |sql| {
        sql.replace("UNNEST(ARRAY[0, 1])", "UNNEST(ARRAY[0, 1, 1])")
    }),
    ("rows of nobody kept", |sql| {
        sql.replace("\"person\" IS NOT NULL", "\"person\" IS NULL OR true")
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn mutants_of_searches_are_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    let table = world
        .policy
        .tables
        .iter()
        .position(|table| table.name == "visits")
        .unwrap();
    let column = world.policy.tables[table]
        .columns
        .iter()
        .position(|column| column.name == "j4")
        .unwrap();
    let both = Search {
        table,
        sought: AutoBound::Bounds {
            column: ColumnPosition(column),
            lower: None,
            upper: None,
        },
    };
    let plan = planned(&world.policy, &both, Accounting::Gdp);
    let release = &plan.releases()[0];
    let sql = release.sql().unwrap();
    let caught = async |sql: &str| {
        let Ok(whole) = world.run(sql, release.vector_keys()).await else {
            return true;
        };
        bound::nobody(&world, release, sql).await.is_err()
            || bound::unit_within(&world, release, sql, &whole, HEAVY)
                .await
                .is_err()
    };
    assert!(!caught(sql).await, "{sql}");
    for (name, mutate) in MUTANTS {
        let mutant = mutate(sql);
        assert_ne!(mutant, sql, "{name}: {sql}");
        assert!(caught(&mutant).await, "{name} survives: {mutant}");
    }
}
