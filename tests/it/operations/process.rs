//! The process itself: the traces of a session in logs, metrics, the ledger and core dumps, and the
//! rights of the image.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use tokio_postgres::NoTls;

use super::serve::{Running, connect, free_port, page, reported};
use super::stage::{server, systemd};
use crate::fixture::TemporaryDirectory;

/// Canaries that must appear nowhere: in a row that no answer shows, in statements of every kind,
/// in parameters, settings and passwords.
const ROW: &str = "canaryrow";
const LITERAL: &str = "canaryliteral";
const SECRET: &str = "canarysecret";
/// A client's application name, and a role that does not exist: the owner may see both.
const NAME: &str = "canaryname";

const TABLES: &str = "CREATE SCHEMA shop;
     CREATE TABLE shop.people (id int PRIMARY KEY, name text NOT NULL, age int NOT NULL);
     CREATE TABLE shop.kinds (kind text PRIMARY KEY); INSERT INTO shop.kinds VALUES ('a'), ('b');
     INSERT INTO shop.people SELECT g, 'canaryrow' || g, 20 + g % 50 FROM generate_series(1, 5000) \
     g;
     CREATE ROLE reader LOGIN PASSWORD 'canarysecret'; GRANT USAGE ON SCHEMA shop TO reader; GRANT \
     SELECT ON ALL TABLES IN SCHEMA shop TO reader";

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
privacy: {unit: person, budget: {epsilon: 100, delta: 1e-6}, per_query: {epsilon: 0.1, \
    max_epsilon: 1}}
roles: [{name: analyst, password: \"${VERIFIER}\", budget: {epsilon: 90, delta: 1e-7}}]
tables:
  shop.people: {unit: id, columns: {name: visible, age: {bounds: [0, 100]}}}
  shop.kinds: public
limits: {statement_timeout: 200ms}
";

/// Statements as they come: answered, refused by each stage, refused by PostgreSQL, broken, failing
/// after their charge.
const STATEMENTS: &[&str] = &[
    "SELECT count(*) FROM shop.people WHERE name = 'canaryliteral'",
    "SELECT name, count(*) FROM shop.people WHERE name <> 'canaryliteral' GROUP BY name",
    "SELECT count(*), avg(age) FROM shop.people WHERE name LIKE 'canaryliteral%' AND age > (SELECT \
        avg(age) FROM shop.people)",
    "SELECT kind, 'canaryliteral' FROM shop.kinds",
    "SELECT 'canaryliteral'::int FROM shop.kinds",
    "SELECT count(*) + 'canaryliteral' FROM shop.people",
    "SELECT count(*) FROM shop.people WHERE age = 'canaryliteral'",
    "SELECT 1 / 0, 'canaryliteral'",
    "SELECT * FROM shop.people WHERE name = 'canaryliteral'",
    "SELECT canaryliteral FROM shop.people",
    "SELECT count(*) FROM canaryliteral",
    "SELECT 'canaryliteral' FRM",
    "SELECT 'canaryliteral",
    "COPY (SELECT kind, 'canaryliteral' FROM shop.kinds) TO STDOUT",
    "COPY shop.people FROM STDIN WHERE name = 'canaryliteral'",
    "EXPLAIN SELECT count(*) FROM shop.people WHERE name = 'canaryliteral'",
    "EXPLAIN (FORMAT JSON) SELECT sum(age) FROM shop.people WHERE name = 'canaryliteral'",
    "PREPARE canaryliteral (text) AS SELECT count(*) FROM shop.people WHERE name = $1",
    "EXECUTE canaryliteral ('canaryliteral')",
    "SET application_name = 'canaryname'",
    "SET pgveil.epsilon = 'canaryliteral'",
    "SET search_path = canaryliteral",
    "SET search_path = public",
    "UPDATE shop.people SET name = 'canaryliteral'",
    "CREATE ROLE x PASSWORD 'canarysecret'",
    "SELECT relname FROM pg_class WHERE relname = 'canaryliteral'",
    "SELECT * FROM pgveil.history WHERE role = 'canaryliteral'",
    // It exceeds its timeout.
    "SELECT count(*) FROM shop.people p, generate_series(1, 50) a, generate_series(1, 50) b WHERE \
        p.name <> 'canaryliteral'",
];

/// Every statement by the simple protocol, then with a parameter in text and binary.
async fn session(port: u16) {
    let client = connect(port, "analyst").await.unwrap();
    for sql in STATEMENTS {
        let _ = client.simple_query(sql).await;
    }
    for sql in [
        "SELECT count(*) FROM shop.people WHERE name = $1",
        "SELECT $1::text FROM shop.kinds",
        "SELECT count(*) FROM shop.people WHERE age = $1::text::int",
    ] {
        if let Ok(statement) = client.prepare(sql).await {
            let _ = client.query(&statement, &[&LITERAL]).await;
        }
    }
    let _ = client
        .batch_execute(
            "BEGIN; DECLARE c CURSOR FOR SELECT 'canaryliteral' FROM \
        shop.kinds; FETCH 1 FROM c; COMMIT",
        )
        .await;
    let refused = format!(
        "host=127.0.0.1 port={port} user={NAME} password={SECRET} dbname=nls \
            application_name={NAME}"
    );
    assert!(tokio_postgres::connect(&refused, NoTls).await.is_err());
    let refused = format!(
        "host=127.0.0.1 port={port} user=analyst password={SECRET} dbname={LITERAL} \
            application_name={NAME}"
    );
    assert!(tokio_postgres::connect(&refused, NoTls).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_literal_or_row_stays_behind() {
    let (server, owner) = server().await;
    owner.batch_execute(TABLES).await.unwrap();
    let directory = TemporaryDirectory::new("process");
    let file = |name: &str| directory.0.join(name).display().to_string();
    std::fs::write(file("policy.yaml"), POLICY).unwrap();
    let systemd = systemd(&directory.0);
    let ports = (free_port(), free_port());
    let url = server
        .url()
        .replace("postgres@", &format!("reader:{SECRET}@"));
    assert!(url.contains(SECRET), "{url}");
    let environment = [
        ("DATABASE_URL", url),
        ("PGVEIL_LEDGER", format!("sqlite://{}", file("ledger.db"))),
        ("VERIFIER", pgveil::wire::scram::make_verifier("analyst")),
        ("NOTIFY_SOCKET", file("notify")),
        ("PGVEIL_LOG", "trace".to_owned()),
        ("RUST_LOG", "trace".to_owned()),
        ("RUST_BACKTRACE", "full".to_owned()),
    ];
    let (listen, admin) = (
        format!("127.0.0.1:{}", ports.0),
        format!("127.0.0.1:{}", ports.1),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
    command
        .args([
            "serve",
            "--policy",
            &file("policy.yaml"),
            "--listen",
            &listen,
            "--admin",
            &admin,
        ])
        .envs(environment.clone())
        .stdin(Stdio::null());
    let log = std::fs::File::create(file("log")).unwrap();
    let mut running = Running(
        command
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    assert_eq!(
        reported(&systemd),
        "READY=1",
        "{}",
        std::fs::read_to_string(file("log")).unwrap()
    );

    session(ports.0).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.0.id())).unwrap();
    let cores = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        cores.split_whitespace().filter(|word| *word == "0").count(),
        2,
        "{cores}"
    );
    let metrics = page(ports.1, "GET /metrics").await + &page(ports.1, "GET /readyz").await;
    assert!(
        metrics.contains("verdict=\"refused\"") && metrics.contains("verdict=\"failed\""),
        "{metrics}"
    );
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());

    let budget = |question: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        let output = command
            .args(["budget", question, "--policy", &file("policy.yaml")])
            .envs(environment.clone())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let mut reported = std::fs::read_to_string(file("log")).unwrap();
    assert!(
        reported.contains("session opened") && reported.contains("asked"),
        "{reported}"
    );
    assert!(!reported.contains("panic"), "{reported}");
    let record = budget("export");
    let is_recorded = |parts: [String; 2]| {
        let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
        record.lines().any(has_all)
    };
    let field = |key: &str, value: &str| format!("\"{key}\":\"{value}\"");
    let named = [field("kind", "statement"), field("application", NAME)];
    let refused = [field("role", NAME), field("sqlstate", "28P01")];
    assert!(is_recorded(named) && is_recorded(refused), "{record}");
    for part in [metrics, record, budget("history")] {
        let _ = writeln!(reported, "{part}");
    }
    assert!(
        reported
            .lines()
            .filter(|line| line.contains("\"verdict\""))
            .count()
            > STATEMENTS.len() / 2,
        "{reported}"
    );
    for canary in [ROW, LITERAL, SECRET, "SCRAM-SHA-256$"] {
        let found: Vec<&str> = reported
            .lines()
            .filter(|line| line.to_lowercase().contains(&canary.to_lowercase()))
            .collect();
        assert!(found.is_empty(), "{canary}: {found:#?}");
    }
    // The ledger keeps released values. No name was released, since each is one person's.
    for entry in std::fs::read_dir(&directory.0)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        // The log is read above.
        .filter(|path| path.is_file() && !path.ends_with("log"))
    {
        let bytes = std::fs::read(&entry).unwrap();
        for canary in [ROW, LITERAL, SECRET] {
            let is_there = bytes
                .windows(canary.len())
                .any(|window| window.eq_ignore_ascii_case(canary.as_bytes()));
            assert!(!is_there, "{canary} in {}", entry.display());
        }
    }
}

#[test]
fn the_image_lets_it_do_little() {
    let dockerfile = std::fs::read_to_string("Dockerfile").unwrap();
    let last = dockerfile.rsplit("\nFROM ").next().unwrap();
    let user = last
        .lines()
        .find_map(|line| line.strip_prefix("USER "))
        .unwrap();
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id >= 1000)),
        "{user}"
    );
    assert!(
        last.find("USER ") < last.find("ENTRYPOINT")
            && !last.contains("sudo")
            && !last.contains("chmod"),
        "{last}"
    );
    let compose = std::fs::read_to_string("docker-compose.yml").unwrap();
    let service = compose
        .split("\n  pgveil:\n")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    for line in [
        "user: \"10001:10001\"",
        "read_only: true",
        "cap_drop: [ALL]",
        "security_opt: *no-more",
        "ulimits: *no-dumps",
    ] {
        assert!(
            service.lines().any(|found| found.trim() == line),
            "{line} in {service}"
        );
    }
    assert_eq!(
        compose.matches("no-dumps").count(),
        3,
        "the database's and the shadow's memory hold rows too"
    );
    assert_eq!(
        compose.matches("no-more").count(),
        3,
        "and none of the three gains a privilege"
    );
    assert!(compose.contains("&no-more [\"no-new-privileges:true\"]"));
    assert!(!compose.contains("privileged: true") && !compose.contains("network_mode"));
    // Ports of the databases are opened to nobody.
    assert_eq!(compose.matches("ports:").count(), 1);
}

/// `unsafe` code of ours would be the place to look for faults that the compiler cannot exclude.
#[test]
fn there_is_no_unsafe_code() {
    assert!(
        std::fs::read_to_string("Cargo.toml")
            .unwrap()
            .contains("unsafe_code = \"forbid\"")
    );
}
