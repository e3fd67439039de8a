//! SmartNoise SQL and Qrlew, asked the same of the same database by peers.py.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::measure::exact_values;
use crate::questions::Question;
use crate::report::{Found, Others};
use crate::shop;
use crate::stage::{DELTA, Stage, error_text, rows};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/worth/peers.py");
const TABLES: [&str; 3] = ["lines", "baskets", "households"];

#[derive(Deserialize)]
struct Line {
    peer: String,
    question: String,
    epsilon: f64,
    rms: Option<f64>,
    error: Option<String>,
}

async fn texts(stage: &Stage, sql: &str) -> Vec<String> {
    let found = rows(&stage.owner, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {}", error_text(&e)));
    let first = found.iter().filter_map(|row| row.get(0));
    first.map(str::to_owned).collect()
}

/// What the policy declares, in the words of peers.py.
async fn declared(stage: &Stage) -> Value {
    let mut columns = BTreeMap::new();
    for table in TABLES {
        let sql = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'shop' AND \
                table_name = '{table}'"
        );
        columns.insert(table, texts(stage, &sql).await);
    }
    let listed = async |name: &str, table: &str| {
        texts(stage, &format!("SELECT {name} FROM shop.{table}")).await
    };
    json!({
        "delta": DELTA,
        "columns": columns,
        "rows": {"lines": stage.lines, "baskets": stage.baskets, "households": stage.households},
        "rows_per_unit": {"lines": shop::LINES_MAX, "baskets": shop::BASKETS_MAX, "households": 1},
        "whole": ["week", "month_no", "hour_no", "members", "quantity"],
        "bounds": {
            "week": [1, shop::WEEKS],
            "month_no": [1, 12],
            "hour_no": [0, 23],
            "members": [1, 12],
            "quantity": [0, shop::QUANTITY_MAX as u32],
            "sales_value": [0.0, shop::VALUE_MAX],
            "discount": [0.0, shop::VALUE_MAX],
        },
        "lists": {
            "income_band": shop::BANDS,
            "region": shop::REGIONS,
            "department": listed("department", "departments").await,
            "category": listed("category", "categories").await,
            "product_type": listed("product_type", "product_types").await,
        },
    })
}

/// The output of peers.py.
fn run(python: &Path, task: &Value) -> Result<String, String> {
    let mut child = Command::new(python)
        .arg(SCRIPT)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", python.display()))?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    let written = stdin.write_all(task.to_string().as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    written.map_err(|e| format!("peers.py: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Each peer's errors at each epsilon.
pub async fn ask(
    python: &Path,
    stage: &Stage,
    questions: &[&Question],
    (epsilons, draws): (&[f64], usize),
) -> Result<Vec<Others>, String> {
    let mut asked = Vec::new();
    for question in questions {
        let exact = exact_values(&stage.owner, question).await;
        for epsilon in epsilons {
            asked.push(json!({
                "name": question.name,
                "sql": question.exact(),
                "keys": question.keys.len(),
                "is_additive": question.is_additive(),
                "is_listed": !question.keys.contains(&"store"),
                "exact": exact,
                "epsilon": epsilon,
            }));
        }
    }
    let mut task = declared(stage).await;
    task["url"] = json!(stage.url);
    task["draws"] = json!(draws);
    task["questions"] = json!(asked);

    let printed = run(python, &task)?;
    let mut others: Vec<Others> = Vec::new();
    for line in printed.lines() {
        let line: Line = serde_json::from_str(line).map_err(|e| format!("peers.py: {e}"))?;
        if let Some(error) = line.error {
            println!("{}, {}: {error}", line.peer, line.question);
        }
        if others.iter().all(|other| other.name != line.peer) {
            others.push(Others {
                name: line.peer.clone(),
                found: Vec::new(),
            });
        }
        let own = others.iter_mut().filter(|other| other.name == line.peer);
        for other in own {
            other.found.extend(line.rms.map(|rms| Found {
                question: line.question.clone(),
                epsilon: line.epsilon,
                rms,
            }));
        }
    }
    Ok(others)
}
