//! `pgveil serve` as its operator sees it: systemd's datagrams, probes and metrics, JSON logs, a
//! reload, the end.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use pgveil::postgres::LocalPostgres;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::NoTls;

use super::stage::{server, systemd};
use crate::fixture::{TemporaryDirectory, load};

/// Killed if a test forgets it.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The memory's allowed growth after the first third of a long run, for caches that are still
/// filling.
pub const GROWTH_KB: u64 = 128 << 10;

impl Running {
    /// Its resident memory, in KiB.
    pub fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.unwrap().split_whitespace().nth(1);
        number.unwrap().parse().unwrap()
    }

    pub fn signal(&self, name: &str) {
        assert!(
            Command::new("kill")
                .args([name, &self.0.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }
}

/// A port for a child. Each is given once, and none is in the range that the system gives to port
/// 0, so that no other test takes it meanwhile.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() % 10_000;
    let mut ports = (0..10_000).map(|_| {
        20_000 + ((start + u32::from(GIVEN.fetch_add(1, Ordering::Relaxed))) % 10_000) as u16
    });
    ports
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

pub async fn page(port: u16, request: &str) -> String {
    page_of("localhost", port, request).await
}

/// The answer to a request that names another host.
async fn page_of(host: &str, port: u16, request: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .unwrap();
    socket
        .write_all(format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

/// Waits until the operator's page has these words.
pub async fn until(admin: u16, path: &str, words: &str) {
    for _ in 0..3000 {
        if page(admin, &format!("GET {path}")).await.contains(words) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} never said {words}");
}

/// What systemd hears next.
pub fn reported(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).expect("no word within the time");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

pub async fn connect(
    port: u16,
    role: &str,
) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    connect_to(port, role, "nls").await
}

async fn connect_to(
    port: u16,
    user: &str,
    database: &str,
) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let config =
        format!("host=127.0.0.1 port={port} user={user} password=analyst dbname={database}");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn serve(
    directory: &Path,
    server: &LocalPostgres,
    shadow: Option<&LocalPostgres>,
    ports: (u16, u16),
) -> Running {
    let file = |name: &str| directory.join(name).display().to_string();
    certify(directory);
    let child = Command::new(env!("CARGO_BIN_EXE_pgveil"))
        .args([
            "serve",
            "--policy",
            &file("policy.yaml"),
            "--listen",
            &format!("127.0.0.1:{}", ports.0),
            "--admin",
            &format!("127.0.0.1:{}", ports.1),
            "--tls-cert",
            &file("cert.pem"),
            "--tls-key",
            &file("key.pem"),
            "--record-to",
            &format!("jsonl:{}", file("record.jsonl")),
        ])
        .env("DATABASE_URL", server.url())
        .env("SHADOW_URL", shadow.map_or("", LocalPostgres::url))
        .env("PGVEIL_LEDGER", format!("sqlite://{}", file("ledger.db")))
        .env("NOTIFY_SOCKET", file("notify"))
        .env("PGVEIL_LOG_FORMAT", "json")
        .env_remove("PGVEIL_LOG")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(directory.join("log")).unwrap())
        .spawn();
    Running(child.unwrap())
}

fn back_up(directory: &Path, server: &LocalPostgres) {
    let file = |name: &str| directory.join(name).display().to_string();
    let made = Command::new(env!("CARGO_BIN_EXE_pgveil"))
        .args(["ledger", "backup", &file("copy.pgvb")])
        .args(["--policy", &file("policy.yaml")])
        .env("DATABASE_URL", server.url())
        .env("SHADOW_URL", "")
        .env("PGVEIL_LEDGER", format!("sqlite://{}", file("ledger.db")))
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// Puts another certificate into the directory.
fn certify(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// After a reload: both words to systemd, the first with the time.
fn reloaded(systemd: &UnixDatagram) {
    let first = reported(systemd);
    let time = first.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(
        time.is_some_and(|time| time.parse::<u64>().is_ok()),
        "{first}"
    );
    assert_eq!(reported(systemd), "READY=1");
}

/// After two answers and a refusal, of one session.
async fn pages_tell_the_operator(port: u16) {
    for (request, wanted) in [
        ("GET /healthz", "200 OK"),
        ("GET /readyz", "200 OK"),
        ("HEAD /metrics", "200 OK"),
        ("GET /else", "404 Not Found"),
        ("POST /metrics", "405 Method Not Allowed"),
    ] {
        let found = page(port, request).await;
        assert!(
            found.starts_with(&format!("HTTP/1.1 {wanted}\r\n")),
            "{request}: {found}"
        );
    }
    // A page elsewhere that points its own name here reads nothing.
    for path in ["/healthz", "/readyz", "/metrics"] {
        let foreign = page_of("evil.example", port, &format!("GET {path}")).await;
        assert!(foreign.starts_with("HTTP/1.1 421 "), "{path}: {foreign}");
    }
    let metrics = page(port, "GET /metrics").await;
    for line in [
        "# HELP pgveil_sessions Open sessions of roles.",
        "# HELP pgveil_budget_left_ratio What is left",
        "# UNIT pgveil_budget_left_ratio ratio",
        "# HELP pgveil_pool_connections Connections",
        "pgveil_sessions 1",
        "pgveil_role_sessions{role=\"analyst\"} 1",
        "pgveil_memory_budget_bytes{state=\"used\"} 0",
        "pgveil_searches_due{account=\"analyst\"} 0",
        "pgveil_questions_total{kind=\"answer\",verdict=\"answered\",sqlstate=\"00000\"} 2",
        "verdict=\"refused\",sqlstate=\"42501\"} 1",
        "pgveil_stage_seconds_count{stage=\"release\"} 2",
        "pgveil_budget_left_ratio{account=\"analyst\"} 0.9",
        "pgveil_pool_connections{pool=\"database\",state=\"used\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
    assert_eq!(metrics.matches("# EOF").count(), 1);
    let mut families: Vec<_> = metrics
        .lines()
        .filter(|l| l.starts_with("# TYPE "))
        .collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!((families.len(), all), (31, 31), "{metrics}");
    let debits = |family: &str| {
        let line = metrics.lines().find(|line| line.starts_with(family));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
    };
    let seen = debits("pgveil_witness_debits{witness=\"/");
    assert!(
        seen.is_some() && seen == debits("pgveil_ledger_debits "),
        "{metrics}"
    );
    for above in [
        "pgveil_ledger_bytes",
        "pgveil_ledger_commit_seconds_count",
        "pgveil_backup_timestamp_seconds",
    ] {
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(above)?.trim().parse::<f64>().ok());
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{above} in\n{metrics}"
        );
    }
    for file in [
        "ops/grafana/pgveil.json",
        "ops/prometheus/pgveil.rules.yml",
        "ops/prometheus/pgveil.rules.test.yml",
    ] {
        let text = std::fs::read_to_string(file).unwrap();
        let names = metrics_in(&text);
        assert!(names.len() > 3, "{file}: {names:?}");
        for name in names {
            let is_reported = |line: &str| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(
                metrics.lines().any(is_reported),
                "{file}: {name} in\n{metrics}"
            );
        }
    }
}

/// The metrics that a dashboard or a rule names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("pgveil_"))
        .collect()
}

/// Prometheus reads the rules, and each fires when it should. Skipped without promtool, which
/// `.ci/run` installs.
#[test]
fn the_alerts_fire() {
    let rules = std::fs::read_to_string("ops/prometheus/pgveil.rules.yml").unwrap();
    let tried = std::fs::read_to_string("ops/prometheus/pgveil.rules.test.yml").unwrap();
    let names = rules
        .lines()
        .filter_map(|line| line.split_once("- alert: "));
    let untried: Vec<&str> = names
        .map(|(_, name)| name)
        .filter(|name| !tried.contains(&format!("alertname: {name}")))
        .collect();
    assert!(untried.is_empty(), "without a test: {untried:?}");
    for arguments in [
        ["check", "rules", "ops/prometheus/pgveil.rules.yml"],
        ["test", "rules", "ops/prometheus/pgveil.rules.test.yml"],
    ] {
        let Ok(done) = std::process::Command::new("promtool")
            .args(arguments)
            .output()
        else {
            println!("skipped: promtool is not installed");
            return;
        };
        let reported = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{arguments:?}: {reported}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_watches_reloads_and_stops_a_service() {
    let (server, client) = server().await;
    load(&client).await;
    let directory = TemporaryDirectory::new("serve");
    let systemd = systemd(&directory.0);
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let verifier = demo.split("password: ").nth(1).unwrap();
    let verifier = verifier.split_whitespace().next().unwrap();
    let policy =
        format!("{demo}\noperators:\n  - {{name: olga, password: '{verifier}', may: [watch]}}\n");
    let witness = directory.0.join("witness").display().to_string();
    let policy = policy.replace(
        "  url: ${PGVEIL_LEDGER} ",
        &format!("  witness: file://{witness}\n  same_disk: true\n  url: ${{PGVEIL_LEDGER}} "),
    );
    let write = |text: &str| std::fs::write(directory.0.join("policy.yaml"), text).unwrap();
    write(&policy);
    let ports = (free_port(), free_port());
    let mut running = serve(&directory.0, &server, None, ports);
    assert_eq!(reported(&systemd), "READY=1");

    // A session that lives through both reloads.
    let analyst = connect(ports.0, "analyst").await.unwrap();
    assert_eq!(
        analyst
            .query_one("SELECT 1", &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );
    analyst
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap();
    assert!(analyst.query("SELECT * FROM nls.women", &[]).await.is_err());
    back_up(&directory.0, &server);
    pages_tell_the_operator(ports.1).await;
    let health = |port: u16| {
        let mut asked = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        asked.args(["health", &format!("127.0.0.1:{port}")]);
        asked.output().unwrap()
    };
    let well = health(ports.1);
    assert!(
        well.status.success() && well.stdout.starts_with(b"ready\n"),
        "{well:?}"
    );
    assert_eq!(health(ports.0).status.code(), Some(1));

    // A new role comes with the policy; the session that was open goes on, and so do the counts.
    assert!(connect(ports.0, "second").await.is_err());
    let role = policy
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("- name: analyst"))
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    let two = policy.replace(
        &role,
        &format!("{role}\n{}", role.replace("name: analyst", "name: second")),
    );
    assert_ne!(two, policy);
    write(&two);
    let renewed = certify(&directory.0);
    let records = ["record.jsonl", "record.old"].map(|name| directory.0.join(name));
    std::fs::rename(&records[0], &records[1]).unwrap();
    running.signal("-HUP");
    reloaded(&systemd);
    let clients = ([127, 0, 0, 1], ports.0).into();
    drop(crate::wire::tls::connect(clients, &renewed).await);
    let second = connect(ports.0, "second").await.unwrap_or_else(|e| {
        panic!(
            "{e}: {}",
            std::fs::read_to_string(directory.0.join("log")).unwrap()
        )
    });
    second
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap();
    analyst
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap();
    assert!(
        page(ports.1, "GET /metrics")
            .await
            .contains("verdict=\"answered\",sqlstate=\"00000\"} 4")
    );

    // A policy that does not hold changes nothing and says why.
    write(&two.replace("version: 1", "version: 1\nnonsense: 1"));
    std::fs::write(directory.0.join("key.pem"), "no key").unwrap();
    running.signal("-HUP");
    reloaded(&systemd);
    drop(crate::wire::tls::connect(clients, &renewed).await);
    certify(&directory.0);
    second
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap();

    // A role that is no longer named asks no more. An operator reloads as a signal does.
    let olga = connect_to(ports.0, "olga", "pgveil").await.unwrap();
    let metrics = page(ports.1, "GET /metrics").await;
    assert!(
        metrics.contains("pgveil_sessions 2") && !metrics.contains("role=\"olga\""),
        "{metrics}"
    );
    // The policy still does not hold.
    let refused = olga.execute("RELOAD", &[]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "F0000");
    reloaded(&systemd);
    write(&policy);
    olga.execute("RELOAD", &[]).await.unwrap();
    reloaded(&systemd);
    let refused = second
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42501");
    analyst
        .query("SELECT count(*) FROM nls.women", &[])
        .await
        .unwrap();

    running.signal("-TERM");
    assert_eq!(reported(&systemd), "STOPPING=1");
    assert!(running.0.wait().unwrap().success());
    let log = std::fs::read_to_string(directory.0.join("log")).unwrap();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    let said = |words: &str| {
        lines
            .iter()
            .filter(|line| {
                line["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(words))
            })
            .count()
    };
    assert_eq!(
        (
            said("the policy was reloaded"),
            said("the policy in force stays"),
            said("nonsense"),
            said("the certificate in force stays")
        ),
        (2, 2, 2, 1),
        "{log}"
    );
    // The ledger tells the owner the same, newest first.
    let history = history(&directory.0, &server);
    let policies: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_once("  policy ").map(|(_, line)| line))
        .collect();
    let [taken, given, first] = policies[..] else {
        panic!("{history}")
    };
    let digest = |line: &str| line.split(':').next().unwrap().to_owned();
    assert_eq!(digest(taken), digest(first));
    assert_ne!(digest(given), digest(first));
    assert!(first.ends_with(": in force since a start"), "{history}");
    assert!(given.contains(": loosens role second"), "{history}");
    assert!(taken.contains(": tightens role second"), "{history}");
    // The steps of start-up and two reloads, and the one table that was copied: no row of the
    // others is.
    assert_eq!(
        (
            said("starting a PostgreSQL of our own as the shadow"),
            said("copying public table nls.industries into the shadow")
        ),
        (3, 3),
        "{log}"
    );
    assert_eq!(
        (
            said("copied 25 rows of 2 public tables"),
            said("copying public table nls.women")
        ),
        (3, 0),
        "{log}"
    );
    let refused = lines
        .iter()
        .find(|line| line["message"] == "login refused")
        .unwrap();
    assert_eq!(
        (&refused["role"], &refused["address"]),
        (&"second".into(), &"127.0.0.1".into()),
        "{refused}"
    );
    // No statement, in whole or in part.
    assert!(!log.contains("count("), "{log}");
    of_the_record(&records);
}

/// The contents of two files, the first made by a reload: each record once, and each policy.
fn of_the_record([new, old]: &[std::path::PathBuf; 2]) {
    let text = [old, new].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(text.iter().all(|text| !text.is_empty()), "{text:?}");
    let lines: Vec<serde_json::Value> = text
        .concat()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    let numbered = lines.iter().filter(|line| line["kind"] != "policy");
    let numbers: Vec<_> = numbered.map(|line| line["number"].as_i64()).collect();
    let counted: Vec<_> = (1..=numbers.len() as i64).map(Some).collect();
    assert_eq!(numbers, counted);
    let values = |kind: &str, key: &str| {
        let of_kind = lines.iter().filter(|line| line["kind"] == kind);
        of_kind
            .map(|line| line[key].as_str().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let digests = values("policy", "digest");
    assert_eq!(digests.len(), 3, "the start and two reloads: {digests:?}");
    assert!(digests.iter().all(|digest| digest.len() == 64));
    assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    let logins: Vec<_> = values("login", "role")
        .into_iter()
        .zip(values("login", "sqlstate"))
        .collect();
    let accepted = |role| (role, "00000");
    assert_eq!(
        logins[..2],
        [accepted("analyst"), ("second", "28P01")],
        "{logins:?}"
    );
    assert!(logins.contains(&accepted("second")), "{logins:?}");
    assert_eq!(values("act", "act"), ["reload", "reload"]);
    assert_eq!(values("act", "role"), ["olga", "olga"]);
    let verdicts = values("statement", "verdict");
    assert_eq!(verdicts[..3], ["answered", "answered", "refused"]);
    let statement = lines.iter().find(|line| line["tables"][0] == "nls.women");
    let statement = statement.unwrap();
    for (key, value) in [
        ("address", "127.0.0.1"),
        ("via", "wire"),
        ("role", "analyst"),
    ] {
        assert_eq!(statement[key], value, "{statement}");
    }
    assert!(statement["session"].as_i64().unwrap() > 0);
}

/// The output of `pgveil budget history`.
fn history(directory: &Path, server: &LocalPostgres) -> String {
    let ledger = directory.join("ledger.db").display().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_pgveil"))
        .args(["budget", "history", "--policy"])
        .arg(directory.join("policy.yaml"))
        .env("DATABASE_URL", server.url())
        .env("PGVEIL_LEDGER", format!("sqlite://{ledger}"))
        .env_remove("PGVEIL_LOG")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The columns of a table that a client is shown.
async fn columns(client: &tokio_postgres::Client, table: &str) -> usize {
    let sql = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'nls' AND \
        table_name = $1";
    usize::try_from(
        client
            .query_one(sql, &[&table])
            .await
            .unwrap()
            .get::<_, i64>(0),
    )
    .unwrap()
}

/// A second proxy on one shadow would rebuild it under the first one.
fn a_second_proxy_takes_no_shadow(policy: &str, server: &LocalPostgres, shadow: &LocalPostgres) {
    let directory = TemporaryDirectory::new("second");
    std::fs::write(directory.0.join("policy.yaml"), policy).unwrap();
    let ports = (free_port(), free_port());
    let mut second = serve(&directory.0, server, Some(shadow), ports);
    assert!(!second.0.wait().unwrap().success());
    let log = std::fs::read_to_string(directory.0.join("log")).unwrap();
    let wanted = "another pgveil uses the database of shadow.url";
    assert!(log.contains(wanted), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_shadow_is_rebuilt_by_a_reload_and_a_changed_table_is_reported() {
    let ((server, owner), (shadow, _)) = (server().await, server().await);
    load(&owner).await;
    let directory = TemporaryDirectory::new("serve");
    let systemd = systemd(&directory.0);
    let policy = std::fs::read_to_string("policies/demo.yaml")
        .unwrap()
        .replace("\nprivacy:", "\nshadow:\n  url: ${SHADOW_URL}\n\nprivacy:");
    assert!(policy.contains("SHADOW_URL"));
    let write = |text: &str| std::fs::write(directory.0.join("policy.yaml"), text).unwrap();
    write(&policy);
    let ports = (free_port(), free_port());
    let log = || std::fs::read_to_string(directory.0.join("log")).unwrap();
    let mut second = serve(&directory.0, &server, Some(&server), ports);
    assert!(!second.0.wait().unwrap().success());
    assert!(
        log().contains("a database of the server that has the private rows"),
        "{}",
        log()
    );
    let mut running = serve(&directory.0, &server, Some(&shadow), ports);
    assert_eq!(reported(&systemd), "READY=1", "{}", log());
    a_second_proxy_takes_no_shadow(&policy, &server, &shadow);
    let analyst = connect(ports.0, "analyst").await.unwrap();
    let before = columns(&analyst, "interviews").await;

    // One column fewer, while questions arrive: each is answered under one policy or the other.
    let asking = tokio::spawn({
        let client = connect(ports.0, "analyst").await.unwrap();
        async move {
            for year in 0..200 {
                let sql = format!(
                    "SELECT industry, {year} FROM nls.industries ORDER BY industry LIMIT 3"
                );
                assert_eq!(client.query(&sql, &[]).await.unwrap().len(), 3);
            }
        }
    });
    let hidden: String = policy
        .lines()
        .filter(|line| !line.trim_start().starts_with("metro:"))
        .map(|line| format!("{line}\n"))
        .collect();
    write(&hidden);
    let reload = |running: &Running| {
        running.signal("-HUP");
        reloaded(&systemd);
    };
    reload(&running);
    asking.await.unwrap();
    assert_eq!(
        columns(&analyst, "interviews").await,
        before - 1,
        "{}",
        log()
    );
    assert!(
        log().contains("the policy tightens: nls.interviews.metro is hidden"),
        "{}",
        log()
    );
    assert!(
        analyst
            .query("SELECT count(*) FROM nls.interviews WHERE metro = 1", &[])
            .await
            .is_err()
    );
    // A policy that does not hold leaves shadow and policy as they are.
    write(&hidden.replace("version: 1", "version: 1\nnonsense: 1"));
    reload(&running);
    assert_eq!(columns(&analyst, "interviews").await, before - 1);

    // The owner changes a table.
    assert!(
        page(ports.1, "GET /readyz")
            .await
            .ends_with("\r\n\r\nready\n")
    );
    owner
        .batch_execute("ALTER TABLE nls.women ADD COLUMN remarks text")
        .await
        .unwrap();
    let ready = page(ports.1, "GET /readyz").await;
    assert!(
        ready.starts_with("HTTP/1.1 200")
            && ready.contains("the definition of nls.women has changed"),
        "{ready}"
    );
    assert!(
        page(ports.1, "GET /metrics")
            .await
            .contains("pgveil_tables_changed 1")
    );
    let refused = analyst
        .query(
            "SELECT count(*) FROM nls.women WHERE birth_year > 1950",
            &[],
        )
        .await
        .unwrap_err();
    assert!(
        refused
            .as_db_error()
            .unwrap()
            .message()
            .contains("has changed since the policy was loaded"),
        "{refused}"
    );
    write(&hidden);
    reload(&running);
    analyst
        .query(
            "SELECT count(*) FROM nls.women WHERE birth_year > 1950",
            &[],
        )
        .await
        .unwrap();
    assert!(
        page(ports.1, "GET /readyz")
            .await
            .ends_with("\r\n\r\nready\n")
    );
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
}
