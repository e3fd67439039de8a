//! The recipe of docs/tools.md: under it, the tools' own statements cost nothing. The captured
//! statements lie next to the repository; where they do not, the tests say so and pass.

use std::path::{Path, PathBuf};

use super::stage::Stage;
use crate::fixture::Veil;
use crate::sql::system_catalog::replay as captured;
use crate::wire::socket::{Socket, startup};

/// The statements of tools that no person asked for, by their names in the captures.
const SCANS: [&str; 13] = [
    "filter value list",
    "samples pane",
    "probe",
    "fingerprinting",
    "browse",
    "field values scan",
    "import preview",
    "slicer values",
    "template variable",
    "data editor open",
    "raw table panel",
    "dimension list",
    "keep alive",
];

/// A list sorted by the frequency of each value: that is a count, and paid.
const SORTED_BY_COUNT: &str = "order by count(*)";

/// The catalog queries of drivers and tools.
const CATALOGS: [&str; 6] = [
    "metabase",
    "grafana",
    "dbeaver",
    "powerbi",
    "pgjdbc",
    "sqlalchemy",
];

/// The role in the first YAML block of a document, with the verifier of the policy's first role,
/// followed by the document's keys of the top level.
fn recipe(document: &str, policy: &str) -> (String, String) {
    let text = std::fs::read_to_string(document).unwrap();
    let block = text.split("```yaml\n").nth(1).expect("a recipe");
    let block = block.split("```").next().unwrap();
    let verifier = policy
        .split_whitespace()
        .find(|word| word.starts_with("SCRAM-SHA-256$"))
        .unwrap();
    let is_role = |line: &&str| line.starts_with(' ');
    let with_verifier = |line: &str| match line.split_once("password: ") {
        Some((indent, _)) => format!("{indent}password: {verifier}\n"),
        None => format!("{line}\n"),
    };
    let role = block.lines().filter(is_role).map(with_verifier).collect();
    let top = block
        .lines()
        .filter(|line| !is_role(line) && *line != "roles:");
    (role, top.map(|line| format!("{line}\n")).collect())
}

/// The role that a document recommends.
pub fn role_of(document: &str, policy: &str) -> String {
    recipe(document, policy).0
}

/// The policy with one role more.
pub fn with_role(policy: &str, role: &str) -> String {
    assert!(policy.contains("\nroles:\n"));
    policy.replacen("\nroles:\n", &format!("\nroles:\n{role}"), 1)
}

/// The sales of tests/corpora, under the recipe.
async fn stage() -> Stage {
    stage_with(|policy| {
        let price = "per_query: {epsilon: 5000, max_epsilon: 5000}";
        assert!(policy.contains(price));
        policy.replace(price, "per_query: {epsilon: 0.1, max_epsilon: 1}")
    })
    .await
}

async fn stage_with(edit: impl Fn(String) -> String) -> Stage {
    let folder = Path::new("tests/corpora/sales");
    let schema = std::fs::read_to_string(folder.join("schema.sql")).unwrap();
    let policy = std::fs::read_to_string(folder.join("policy.yaml")).unwrap();
    let (role, top) = recipe("docs/tools.md", &policy);
    let policy = edit(with_role(&policy, &role));
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(&schema).await.unwrap();
    Stage::around(Veil::over(fill, &format!("{policy}{top}"), Veil::silent()).await).await
}

async fn log_in(stage: &Stage) -> Socket {
    let mut socket = Socket::open(stage.veiled).await;
    socket
        .send(&startup(&[("user", "dashboards"), ("database", "nls")]))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket
}

/// Asks, and gives the SQLSTATE of an error, if there was one.
async fn ask(socket: &mut Socket, sql: &str) -> Result<usize, String> {
    let replies = socket.ask(sql).await;
    let error = replies.iter().find(|reply| reply.kind == b'E');
    let notices: Vec<String> = replies
        .iter()
        .filter(|reply| reply.kind == b'N')
        .map(|reply| reply.field(b'M'))
        .collect();
    assert!(
        !notices.iter().any(|notice| notice.contains("privacy cost")),
        "notices are off: {notices:?}"
    );
    let rows = replies.iter().filter(|reply| reply.kind == b'D').count();
    let ended = error.map_or(Ok(rows), |error| {
        Err(format!("{} {}", error.field(b'C'), error.field(b'M')))
    });
    socket.ask("ROLLBACK").await;
    ended
}

async fn spent(socket: &mut Socket) -> f64 {
    let spent = socket.value("SELECT mu_spent FROM pgveil.budget").await;
    spent.parse().unwrap()
}

fn captures() -> Option<PathBuf> {
    let folder = captured::folder();
    if folder.is_none() {
        println!("skipped: the captured statements of tools are not here");
    }
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn background_scans_cost_nothing() {
    let Some(folder) = captures() else {
        return;
    };
    let stage = stage().await;
    let mut socket = log_in(&stage).await;
    for tool in CATALOGS {
        let text = std::fs::read_to_string(folder.join(format!("{tool}.sql"))).unwrap();
        let (mut answered, mut refused) = (0, 0);
        for block in text.split("\n-- ;;").map(captured::substituted) {
            match ask(&mut socket, &block).await {
                Ok(_) => answered += 1,
                Err(_) => refused += 1,
            }
        }
        println!("{tool}: {answered} catalog statements answered, {refused} refused");
        assert_eq!(spent(&mut socket).await, 0.0, "{tool}");
    }
    let text = std::fs::read_to_string(folder.join("bi_generated.sql")).unwrap();
    let mut scans = 0;
    for block in text.split("-- ;;") {
        let named = block.to_ascii_lowercase();
        if !SCANS.iter().any(|scan| named.contains(scan)) || named.contains(SORTED_BY_COUNT) {
            continue;
        }
        let found = ask(&mut socket, block).await;
        let heading = block.trim().lines().next().unwrap_or_default();
        println!("{heading}: {found:?}");
        assert!(found.is_ok(), "{block}: {found:?}");
        assert_eq!(spent(&mut socket).await, 0.0, "{block}");
        scans += 1;
    }
    assert!(scans >= 15, "{scans} scans were found");
}

/// How many of the questions that people ask through these tools are answered under the recipe.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_answered() {
    let Some(folder) = captures() else {
        return;
    };
    // The role can pay for all of them, at a price at which a clip can be chosen.
    let stage = stage_with(|policy| {
        let budget = "budget: {epsilon: 1, delta: 1e-7, renew: never}";
        assert!(policy.contains(budget));
        policy.replace(budget, "budget: {epsilon: 80000000, delta: 1e-4}")
    })
    .await;
    let mut socket = log_in(&stage).await;
    let text = std::fs::read_to_string(folder.join("bi_generated.sql")).unwrap();
    let (mut answered, mut asked) = (0, 0);
    for block in text.split("-- ;;") {
        let named = block.to_ascii_lowercase();
        if SCANS.iter().any(|scan| named.contains(scan)) {
            continue;
        }
        let found = ask(&mut socket, block).await;
        asked += 1;
        answered += usize::from(found.is_ok());
        let heading = block.trim().lines().next().unwrap_or_default();
        println!("{heading}: {found:?}");
    }
    println!("{answered} of {asked} charts are answered");
    assert!(answered >= 29, "{answered} of {asked}");
}

/// The document's other claims: a chart is paid once, and so is a list sorted by frequency.
#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_paid_once_and_a_key_without_values_is_refused() {
    let stage = stage().await;
    let mut socket = log_in(&stage).await;
    let chart = "SELECT region, count(*) AS n FROM sales.orders GROUP BY region ORDER BY n DESC";
    assert_eq!(ask(&mut socket, chart).await, Ok(3));
    let paid = spent(&mut socket).await;
    assert!(paid > 0.0);
    let sorted = format!("SELECT region FROM sales.orders GROUP BY region {SORTED_BY_COUNT}");
    for again in [chart, &sorted] {
        assert_eq!(ask(&mut socket, again).await, Ok(3));
        assert_eq!(spent(&mut socket).await, paid, "{again}");
    }
    // The role may not buy a fresh answer.
    socket.ask("SET pgveil.reuse = off").await;
    ask(&mut socket, chart).await.unwrap();
    assert_eq!(spent(&mut socket).await, paid);
    for sql in [
        "SELECT name FROM sales.customers GROUP BY name",
        "SELECT DISTINCT product FROM sales.order_items",
    ] {
        let refused = ask(&mut socket, sql).await.unwrap_err();
        assert!(
            refused.contains("requires GROUP BY values that are known"),
            "{sql}: {refused}"
        );
    }
    assert_eq!(spent(&mut socket).await, paid);
    assert_eq!(
        ask(&mut socket, "SELECT * FROM sales.orders LIMIT 10").await,
        Ok(0)
    );
}

/// The setting of docs/agents.md for clients that show only an error's message.
#[tokio::test(flavor = "multi_thread")]
async fn detail_and_hint_stand_in_the_message_where_asked_for() {
    let stage = stage().await;
    let mut socket = log_in(&stage).await;
    let sql = "SELECT name FROM sales.customers GROUP BY name";
    let refused = async |socket: &mut Socket| {
        let replies = socket.ask(sql).await;
        replies
            .into_iter()
            .find(|reply| reply.kind == b'E')
            .unwrap()
    };
    let apart = refused(&mut socket).await;
    assert!(!apart.field(b'H').is_empty() && !apart.field(b'M').contains('\n'));
    socket.ask("SET pgveil.hints = message").await;
    let one = refused(&mut socket).await;
    let reported = format!("{}\nHINT:  {}", apart.field(b'M'), apart.field(b'H'));
    assert_eq!(
        (one.field(b'M'), one.field(b'H')),
        (reported, String::new())
    );
    assert_eq!(one.field(b'C'), apart.field(b'C'));
    assert_eq!(one.field(b'P'), apart.field(b'P'));
    assert_eq!(socket.refused("SET pgveil.hints = none").await, "22023");
}
