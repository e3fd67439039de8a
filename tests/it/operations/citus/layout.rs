//! The layout of docs/scale.md: every key begins with the person. Joins on the rest of a key are
//! answered by a claim, workers add up each person's part, and rows in wrong shards are found.

use std::sync::Arc;

use pgveil::engine::{Engine, Service};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{ClipChoice, SessionSettings};
use pgveil::shadow::Requester;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use super::{Cluster, PEOPLE, policy, printed};
use crate::fixture::{TemporaryDirectory, Veil, engine_over, rows_of};

const TABLES: &str = r#"
    CREATE TABLE s."Order" (uid int NOT NULL REFERENCES s.people, "Id" bigint NOT NULL,
        state char(4) NOT NULL, at date NOT NULL, PRIMARY KEY (uid, "Id"));
    CREATE TABLE s.line (uid int NOT NULL, order_id bigint NOT NULL, n int NOT NULL,
        amount numeric(8, 2) NOT NULL, PRIMARY KEY (uid, order_id, n));
    SELECT create_distributed_table('s."Order"', 'uid', colocate_with => 's.people');
    SELECT create_distributed_table('s.line', 'uid', colocate_with => 's.people');
    ALTER TABLE s.line ADD FOREIGN KEY (uid, order_id) REFERENCES s."Order" (uid, "Id");
    ALTER TABLE s.line ADD FOREIGN KEY (uid) REFERENCES s.people (id);
    INSERT INTO s."Order" SELECT 1 + g * 7 % 600, g, (ARRAY['open', 'paid', 'sent'])[1 + g % 3],
        '2024-01-01'::date + g % 360 FROM generate_series(1, 2400) g;
    INSERT INTO s.line SELECT 1 + g * 7 % 600, g, n, g * n % 40 + 0.5
        FROM generate_series(1, 2400) g, generate_series(1, 4) n WHERE n <= 1 + g % 4;
    GRANT SELECT ON s."Order", s.line TO veil"#;

fn tables() -> String {
    format!(
        r#"{PEOPLE}  s.Order:
    unit: {{path: [uid -> s.people.id]}}
    rows_per_unit: 20
    unique: [Id]
    columns: {{Id: visible, state: {{values: [open, paid, sent], complete: true}}, at: visible}}
  s.line:
    unit: {{path: [uid -> s.people.id]}}
    rows_per_unit: 60
    columns: {{order_id: visible, amount: {{bounds: [0, 100]}}}}
"#
    )
}

/// Questions whose parts workers add up. The first ones join on a claimed key.
const QUESTIONS: [&str; 10] = [
    r#"SELECT count(*), sum(l.amount) FROM s."Order" o JOIN s.line l ON l.order_id = o."Id"
        WHERE o.state = 'paid'"#,
    r#"SELECT o.state, sum(l.amount) FROM s."Order" o JOIN s.line l ON l.order_id = o."Id"
        GROUP BY o.state ORDER BY o.state"#,
    r#"SELECT count(*) FROM s."Order" o
        WHERE EXISTS (SELECT FROM s.line l WHERE l.order_id = o."Id" AND l.amount > 30)"#,
    r#"SELECT p.town, sum(l.amount) FROM s.people p, s."Order" o, s.line l
        WHERE p.id = o.uid AND l.order_id = o."Id" GROUP BY p.town ORDER BY p.town"#,
    r#"SELECT count(*) FROM s.line a WHERE EXISTS (SELECT FROM s.line b
        WHERE b.order_id = a.order_id AND b.amount > a.amount)"#,
    "SELECT count(*), sum(amount) FROM s.line",
    "SELECT p.town, count(*), sum(l.amount) FROM s.people p JOIN s.line l ON l.uid = p.id
        GROUP BY p.town ORDER BY p.town",
    r#"SELECT date_trunc('month', at)::date AS month, count(*) FROM s."Order"
        WHERE at BETWEEN '2024-01-01' AND '2024-12-31' GROUP BY 1 ORDER BY 1"#,
    r#"SELECT state, count(DISTINCT uid) FROM s."Order" GROUP BY state ORDER BY state"#,
    r#"SELECT state, count(*) FROM s."Order" GROUP BY ROLLUP (state) ORDER BY 1 NULLS LAST"#,
];

pub(super) const EXPLAIN: &str = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF)";

pub async fn joins_are_answered(cluster: &Cluster, owner: &Client) {
    owner.batch_execute(TABLES).await.unwrap();
    let reader = cluster.config(0, "veil");
    let (client, connection) = reader.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let directory = TemporaryDirectory::new("citus-layout");
    let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
    let text = policy(&tables());
    let engine: Arc<Engine> =
        Arc::new(engine_over(reader, &client, &text, &ledger, Veil::silent()).await);
    for clip in [ClipChoice::Auto, ClipChoice::Fixed] {
        let settings = SessionSettings {
            clip,
            ..SessionSettings::default()
        };
        let requester = Requester {
            session_settings: settings,
            ..Veil::requester()
        };
        for sql in QUESTIONS {
            let answered = rows_of(&engine, &requester, sql).await;
            let answered = answered.unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
            // A chosen clip cuts some of them.
            if clip == ClipChoice::Fixed {
                assert_eq!(answered, printed(owner, &tied(sql)).await, "{sql}");
            }
            workers_add_up(owner, &emitted(&engine, &requester, sql).await).await;
        }
    }
}

/// Workers send much fewer rows than there are people, 600.
async fn workers_add_up(owner: &Client, statements: &[String]) {
    assert!(!statements.is_empty());
    for statement in statements {
        let plan = printed(owner, &format!("{EXPLAIN} {statement}")).await;
        let sent = plan.iter().filter_map(|line| rows_of_workers(line)).max();
        let plan = plan.join("\n");
        assert!(
            is_fenced(statement) || sent.is_some_and(|sent| sent < 200),
            "{sent:?}\n{statement}\n{plan}"
        );
    }
}

/// Whether the norms of all units are computed on the coordinator: with fixed clips, where rows are
/// joined or sums are many.
pub(super) fn is_fenced(statement: &str) -> bool {
    statement.contains("OFFSET 0")
}

/// The rows that workers send to the coordinator, in a plan's line about them.
pub(super) fn rows_of_workers(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("(Citus Adaptive) (actual rows=")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// A question in a form that Citus answers: its joins are within shards alone.
fn tied(sql: &str) -> String {
    let forms = [
        (
            "l.order_id = o.\"Id\"",
            "l.order_id = o.\"Id\" AND l.uid = o.uid",
        ),
        (
            "b.order_id = a.order_id",
            "b.order_id = a.order_id AND b.uid = a.uid",
        ),
        (
            "ROLLUP (state)",
            "state UNION ALL SELECT NULL, count(*) FROM s.\"Order\"",
        ),
    ];
    let each = forms.iter();
    each.fold(sql.to_owned(), |sql, (from, to)| sql.replace(from, to))
}

/// The statements that a question runs over private rows; none, where it reads public rows alone.
pub(super) async fn emitted(engine: &Engine, requester: &Requester, sql: &str) -> Vec<String> {
    let statements = parse(&format!("EXPLAIN VERBOSE {sql}")).unwrap();
    let [Statement::Explain(query, format)] = statements.as_slice() else {
        panic!("one EXPLAIN is wanted: {sql}")
    };
    let (query, cancel) = (query, CancellationToken::new());
    let lines = engine
        .explain(requester, query, &[], &[], *format, cancel)
        .await;
    let lines = lines.unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
    let of_line = |line: &String| Some(line.split_once("SQL: ")?.1.to_owned());
    lines.iter().filter_map(of_line).collect()
}

/// A row that somebody put into a shard by hand.
pub async fn rows_in_wrong_shards_are_found(cluster: &Cluster, owner: &Client) {
    let directory = TemporaryDirectory::new("citus-placement");
    let file = directory.0.join("policy.yaml");
    let url = format!(
        "database: {{url: \"postgresql://veil@127.0.0.1:{}/postgres\"}}\n",
        cluster.ports[0]
    );
    let text = policy(&tables()).replacen("privacy:", &format!("{url}privacy:"), 1);
    std::fs::write(&file, text).unwrap();
    let checked = async || {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_pgveil"));
        let output = command
            .arg("check")
            .arg(&file)
            .arg("--placement")
            .output()
            .await
            .unwrap();
        let texts = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(texts).unwrap())
    };
    let (holds, text) = checked().await;
    assert!(holds, "{text}");
    for table in ["people", "Order", "line"] {
        let line = format!("  s.{table}: every row lies in the shard of its unit");
        assert!(text.contains(&line), "{text}");
    }
    // Of a person whose shard is another.
    let placed = r#"SELECT s.shardid, n.nodeport FROM pg_dist_shard s
            JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node n USING (groupid)
        WHERE s.logicalrelid = 's."Order"'::regclass ORDER BY s.shardid LIMIT 1"#;
    let found = owner.query_one(placed, &[]).await.unwrap();
    let (shard, port): (i64, i32) = (found.get(0), found.get(1));
    let elsewhere = r#"SELECT g FROM generate_series(1, 600) g
        WHERE get_shard_id_for_distribution_column('s."Order"', g) <> $1 ORDER BY g LIMIT 1"#;
    let person: i32 = owner.query_one(elsewhere, &[&shard]).await.unwrap().get(0);
    let worker = cluster
        .ports
        .iter()
        .position(|known| i32::from(*known) == port)
        .unwrap();
    let put = format!(
        "SET session_replication_role = replica; \
        INSERT INTO s.\"Order_{shard}\" VALUES ({person}, 900000, 'paid', '2024-02-01')"
    );
    cluster
        .client(worker)
        .await
        .batch_execute(&put)
        .await
        .unwrap();
    let (holds, text) = checked().await;
    assert!(
        !holds && text.contains("  s.Order: 1 row lies in a wrong shard"),
        "{text}"
    );
    assert!(text.contains("The guarantee does not hold"), "{text}");
}
