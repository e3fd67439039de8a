//! Statements that others wrote, by the hundred, over schemas of the names they use: each is
//! answered as PostgreSQL answers it, or refused for a reason. The texts lie next to the
//! repository, in `../shared`; where they do not, the tests say so and pass.

mod cause;
mod outcome;
pub mod texts;
pub mod tpch;

use std::path::Path;
use std::sync::Arc;

use outcome::{Outcome, outcome};
use texts::Text;

use crate::fixture::Veil;

/// A schema with made-up rows and a policy, under `tests/corpora`.
async fn world(name: &str) -> Arc<Veil> {
    let folder = Path::new("tests/corpora").join(name);
    let schema = std::fs::read_to_string(folder.join("schema.sql")).unwrap();
    let policy = std::fs::read_to_string(folder.join("policy.yaml")).unwrap();
    Arc::new(
        Veil::over(
            async |client| client.batch_execute(&schema).await.unwrap(),
            &policy,
            Veil::silent(),
        )
        .await,
    )
}

/// The fewest statements that must be answered, and answered as PostgreSQL does but for the order
/// of rows; neither may fall.
struct Floor {
    answered: usize,
    equal: usize,
}

/// Asks every text, prints what PostgreSQL would answer otherwise, and holds the counts against the
/// floor.
async fn ask_all(name: &str, texts: Vec<Text>, floor: Floor) {
    ask(Vec::new(), name, texts, floor).await;
}

async fn ask(mut veils: Vec<(&str, Arc<Veil>)>, name: &str, texts: Vec<Text>, floor: Floor) {
    if texts.is_empty() {
        println!("{name}: skipped, its texts are not on this machine");
        return;
    }
    let (mut answered, mut equal, mut both, mut failed, mut unexplained) =
        (0, 0, 0, Vec::new(), Vec::new());
    let mut lines = Vec::new();
    for Text { id, world: of, sql } in &texts {
        let veil = match veils.iter().find(|(name, _)| name == of) {
            Some((_, veil)) => Arc::clone(veil),
            None => {
                veils.push((of, world(of).await));
                Arc::clone(&veils[veils.len() - 1].1)
            }
        };
        let found = outcome(&veil, sql).await;
        match &found {
            Outcome::Equal => {
                (answered, equal) = (answered + 1, equal + 1);
                continue;
            }
            Outcome::Different { cause, .. } => {
                answered += 1;
                if cause.is_none() {
                    unexplained.push(format!("{id}: {found}: {sql}"));
                }
            }
            Outcome::Refused {
                postgresql_too: true,
                ..
            } => {
                both += 1;
                continue;
            }
            Outcome::Refused {
                postgresql_too: false,
                message,
                ..
            } => {
                // Several statements in one text are the session's, not the engine's.
                if !message.ends_with("not one query")
                    && !crate::project::refusals::is_in_golden_files(message)
                {
                    unexplained.push(format!("{id}: {found}: {sql}"));
                }
            }
            Outcome::Failed(why) => failed.push(format!("{id}: {why}: {sql}")),
        }
        lines.push(format!(
            "  {id}: {found}\n      {}",
            sql.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(200)
                .collect::<String>()
        ));
    }
    println!("{}", lines.join("\n"));
    println!(
        "{name}: {} texts: {answered} answered ({equal} equal to PostgreSQL without noise), {} \
            refused, {both} refused as PostgreSQL does, {} failed",
        texts.len(),
        texts.len() - answered - both - failed.len(),
        failed.len()
    );
    assert_eq!(failed, Vec::<String>::new(), "{name}");
    assert_eq!(
        unexplained,
        Vec::<String>::new(),
        "{name}: different, or refused, for no known cause"
    );
    assert!(
        answered >= floor.answered,
        "{name}: {answered} answered, {} before",
        floor.answered
    );
    assert!(
        equal >= floor.equal,
        "{name}: {equal} equal, {} before",
        floor.equal
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn qrlew_census() {
    ask_all(
        "qrlew census",
        texts::census(),
        Floor {
            answered: 73,
            equal: 61,
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn qrlew_probe() {
    ask_all(
        "qrlew probe",
        texts::probe(),
        Floor {
            answered: 143,
            equal: 134,
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn smartnoise() {
    ask_all(
        "smartnoise",
        texts::smartnoise(),
        Floor {
            answered: 116,
            equal: 111,
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn business_tools() {
    ask_all(
        "business tools",
        texts::business_tools(),
        Floor {
            answered: 40,
            equal: 29,
        },
    )
    .await;
}

/// The 22 queries of TPC-H with the specification's own parameters; docs/tpch.md has each one's
/// outcome.
#[tokio::test(flavor = "multi_thread")]
async fn tpch() {
    let Some(veil) = tpch::world().await else {
        return;
    };
    let text = |(id, sql)| Text {
        id,
        world: "tpch",
        sql,
    };
    let texts: Vec<Text> = tpch::queries().into_iter().map(text).collect();
    assert_eq!(texts.len(), 22);
    ask(
        vec![("tpch", Arc::clone(&veil))],
        "tpch",
        texts,
        Floor {
            answered: 19,
            equal: 10,
        },
    )
    .await;
    let mut names = Vec::new();
    for (name, sql) in tpch::suggestions() {
        let found = outcome(&veil, &sql).await;
        println!("  {name}: {found}");
        assert!(
            matches!(found, Outcome::Equal | Outcome::Different { .. }),
            "{name}: {found}"
        );
        names.push(name);
    }
    assert_eq!(names, ["instead of Q3", "instead of Q10", "instead of Q18"]);
}
