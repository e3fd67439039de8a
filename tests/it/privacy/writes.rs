//! A true value of a local column leaves the process only randomised.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::SinkExt;
use pgveil::postgres::LocalPostgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio_postgres::{Client, Config, NoTls};

use crate::operations::serve;
use crate::operations::serve::free_port;
use crate::operations::stage::{PGVEIL, Stage};
use crate::wire::socket::{Socket, parse, startup, sync};

/// Values that nobody writes by chance. A value of the list has to be written there; all others
/// are refused, and must not be repeated either.
const CANARIES: usize = 1000;

fn canary(at: usize) -> String {
    format!("canary{}", number(at))
}

/// A number of nine digits, which no time in a log has.
fn number(at: usize) -> i32 {
    427_001_003 + 7_001 * at as i32
}

/// A listed value of the filter.
fn page(at: usize) -> String {
    format!("canarypage{}", at % 3)
}

/// Passes bytes between pgveil and the database, and keeps what pgveil sends.
async fn tapped(server: &LocalPostgres) -> (String, Arc<Mutex<Vec<u8>>>) {
    let socket = server.directory().join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let tap = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = UnixStream::connect(&socket).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let tap = Arc::clone(&tap);
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
                    tap.lock().unwrap().extend_from_slice(&bytes[..read]);
                    if to_server.write_all(&bytes[..read]).await.is_err() {
                        return;
                    }
                }
            });
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
            });
        }
    });
    (format!("127.0.0.1:{port}/nls?sslmode=disable"), heard)
}

fn policy(true_value: &str) -> String {
    format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\", write_url: \"${{DATABASE_WRITE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
shadow: {{url: \"${{SHADOW_URL}}\"}}
local: {{secret: \"${{PGVEIL_LOCAL_SECRET}}\"}}
record: {{shape: true}}
privacy: {{unit: person, budget: {{epsilon: 1000, delta: 1e-6}}}}
roles:
  - {{name: analyst, password: \"${{VERIFIER}}\", budget: {{epsilon: 900, delta: 1e-7}}}}
  - {{name: collector, password: \"${{VERIFIER}}\", budget: none, writes: [shop.answers]}}
tables:
  shop.answers:
    unit: person
    constraints: shown
    columns:
      # A mean's report is a bit, so that its true values are never sent by chance.
      income: {{bounds: [0, 900000000], local: {{mechanism: mean, epsilon: 1}}}}
      word: {{values: [plain, {true_value}], local: {{mechanism: coin, truth: 1/2, yes: 1/2}}}}
      # Of a filter's value only bits are ever sent, so that its true values are canaries too.
      page_cohort: visible
      page: {{values: [canarypage0, canarypage1, canarypage2], local: {{mechanism: rappor, bits: 32,
        hashes: 2, cohorts: 8, f: 1/2, p: 1/2, q: 3/4, cohort: page_cohort}}}}
"
    )
}

const TABLES: &str = "CREATE TABLE shop.answers (row bigserial PRIMARY KEY, person int NOT NULL,
    income int NOT NULL, word text NOT NULL, page bit(32) NOT NULL, page_cohort int NOT NULL,
    note text, UNIQUE (person, note));
    CREATE FUNCTION shop.shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE NOTICE 'row %', NEW; IF NEW.note = 'raise' THEN RAISE EXCEPTION 'row %', NEW; END IF;
    RETURN NEW; END $$;
    CREATE TRIGGER shout BEFORE INSERT ON shop.answers FOR EACH ROW EXECUTE FUNCTION shop.shout();
    CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA shop TO writer;
    GRANT INSERT ON shop.answers TO writer; GRANT USAGE ON SEQUENCE shop.answers_row_seq TO writer";

async fn client(port: u16, role: &str) -> Client {
    let mut config = Config::new();
    config
        .host("127.0.0.1")
        .port(port)
        .user(role)
        .password("analyst")
        .dbname("nls");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Everything that a client hears of an error.
fn heard_of<T>(result: Result<T, tokio_postgres::Error>) -> String {
    result
        .err()
        .map_or(String::new(), |error| format!("{error:?} {error}"))
}

/// 1,000 true numbers are written in every way, right and wrong. None of them is in what pgveil
/// sends to the database or to its shadow, in the ledger, in its exported record, in the metrics,
/// in the log at its finest level or in an error; with them, words that the policy does not list.
#[tokio::test(flavor = "multi_thread")]
async fn true_values_never_leave() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    let (way, heard) = tapped(&stage.server).await;
    let (shadow_server, shadow_owner) = crate::operations::stage::server().await;
    let (shadow, heard_by_shadow) = tapped(&shadow_server).await;
    drop(shadow_owner);
    std::fs::write(stage.file("policy.yaml"), policy("listed")).unwrap();
    let port = free_port();
    let mut command = Command::new(PGVEIL);
    command
        .env("DATABASE_WRITE_URL", format!("postgresql://writer@{way}"))
        .env("SHADOW_URL", format!("postgresql://postgres@{shadow}"))
        .env(
            "PGVEIL_LOCAL_SECRET",
            "a secret of the test, long enough for it",
        )
        .env("PGVEIL_LOG_FORMAT", "json");
    // `set_up` removes the variable of the log's level, so an argument of env sets it again.
    let level = "PGVEIL_LOG=trace";
    let mut started = Command::new("env");
    started.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    started.args([level, PGVEIL]);
    let listen = format!("127.0.0.1:{port}");
    let admin = free_port();
    let of_admin = format!("127.0.0.1:{admin}");
    let arguments = ["--listen", &listen, "--admin", &of_admin];
    let running = stage.spawn(started, "log", &arguments);
    let ready = stage.reported();
    assert!(ready.contains("READY=1"), "{ready} {}", stage.log("log"));
    let collector = client(port, "collector").await;
    let columns = "person, income, word, page, note";
    let mut errors = String::new();
    let mut run = async |sql: String| {
        errors.push_str(&heard_of(collector.batch_execute(&sql).await));
    };
    for at in 0..CANARIES / 4 {
        let (number, word) = (number(at), canary(at));
        let page = page(at);
        let row =
            |value: &str, note: &str| format!("({at}, {number}, '{value}', '{page}', {note})");
        let insert = |values: &str| format!("INSERT INTO shop.answers ({columns}) VALUES {values}");
        run(insert(&row("listed", "NULL"))).await;
        match at % 14 {
            0 => run(insert(&row(&word, "NULL"))).await,
            1 => run(insert(&row("listed", "'raise'"))).await,
            2 => {
                run(format!(
                    "BEGIN; {}; SELECT 1/0; COMMIT",
                    insert(&row("listed", "'a'"))
                ))
                .await
            }
            3 => {
                run(insert(&format!(
                    "({at}, '{word}', 'listed', '{page}', NULL)"
                )))
                .await
            }
            4 => run(insert(&format!("({at}, {number}, '{word}'"))).await,
            5 => run(insert(&format!("({at}, {number} + 0, '{word}' '{word})"))).await,
            6 => run(insert(&row("listed", "'x'"))).await,
            7 => run(insert(&row("listed", "lower('x')"))).await,
            8 => run(format!("{} RETURNING *", insert(&row(&word, "NULL")))).await,
            9 => run(format!("PREPARE p AS {}", insert(&row(&word, "NULL")))).await,
            10 => run(format!("EXPLAIN {}", insert(&row(&word, "NULL")))).await,
            11 => run(insert(&row("listed", "NULL").replace(&page, &word))).await,
            12 => {
                let given = format!("{columns}, page_cohort");
                let values = row("listed", "NULL").replace("NULL)", "NULL, 1)");
                run(format!(
                    "INSERT INTO shop.answers ({given}) VALUES {values}"
                ))
                .await;
                run(insert(&row("listed", "NULL").replace(
                    &format!("'{page}'"),
                    &format!("'{page}'::bit(32)"),
                )))
                .await
            }
            _ => {
                run(format!(
                    "UPDATE shop.answers SET income = {number}, word = '{word}'"
                ))
                .await
            }
        }
        let _ = collector.batch_execute("ROLLBACK").await;
    }
    // Prepared, in binary.
    let sql = format!("INSERT INTO shop.answers ({columns}) VALUES ($1, $2, $3, $4, $5)");
    let prepared = collector.prepare(&sql).await.unwrap();
    for at in CANARIES / 4..CANARIES / 2 {
        let (person, number) = (at as i32, number(at));
        let word = if at % 5 == 0 {
            canary(at)
        } else {
            "listed".to_owned()
        };
        let note = (at % 7 == 0).then_some("raise");
        let written = collector
            .execute(&prepared, &[&person, &number, &word, &page(at), &note])
            .await;
        errors.push_str(&heard_of(written));
    }
    // By its name, in SQL: what EXECUTE computes, it computes in the shadow.
    let mut socket = Socket::open(([127, 0, 0, 1], port).into()).await;
    let who = [("user", "collector"), ("database", "nls")];
    socket.send(&startup(&who)).await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    let named = [parse("mine", &sql), sync()].concat();
    socket.send(&named).await;
    socket.until_ready().await;
    let execute = format!(
        "EXECUTE mine (1, {}, '{}', '{}', NULL)",
        number(1),
        canary(1),
        page(1)
    );
    let replies = socket.ask(&execute).await;
    let error = replies.iter().find(|reply| reply.kind == b'E').unwrap();
    assert!(error.text().contains("0A000"), "{}", error.text());
    errors.push_str(&error.text());
    drop(socket);
    // COPY: whole, and ended half way by a value, by the database and by the client.
    for part in 0..5 {
        let copy = format!("COPY shop.answers ({columns}) FROM STDIN");
        let sink = collector.copy_in::<_, Bytes>(&copy).await.unwrap();
        let mut sink = Box::pin(sink);
        for at in (CANARIES / 2 + part..CANARIES).step_by(5) {
            let number = number(at);
            let (word, note) = match (part, at > 900) {
                (1, true) => (canary(at), "\\N".to_owned()),
                (2, true) => ("listed".to_owned(), "raise".to_owned()),
                (3, true) => (
                    "listed".to_owned(),
                    format!("{}\t{}", canary(at), canary(at)),
                ),
                _ => ("listed".to_owned(), "\\N".to_owned()),
            };
            let row = format!("{at}\t{number}\t{word}\t{}\t{note}\n", page(at));
            errors.push_str(&heard_of(sink.send(Bytes::from(row)).await));
        }
        if part < 4 {
            errors.push_str(&heard_of(sink.as_mut().finish().await));
        }
    }
    drop(collector);
    let analyst = client(port, "analyst").await;
    for at in 0..5 {
        let error = analyst
            .batch_execute(&format!(
                "INSERT INTO shop.answers (person, income) VALUES (1, {})",
                number(at)
            ))
            .await;
        errors.push_str(&heard_of(error));
    }
    let stored = owner
        .query_one(
            "SELECT count(*), max(income), count(DISTINCT word), count(DISTINCT page_cohort) FROM \
                shop.answers",
            &[],
        )
        .await
        .unwrap();
    assert!(stored.get::<_, i64>(0) > 500);
    assert_eq!((stored.get::<_, i32>(1), stored.get::<_, i64>(2)), (1, 2));
    assert_eq!(stored.get::<_, i64>(3), 8);
    drop(analyst);
    let metrics = serve::page(admin, "GET /metrics").await;
    assert!(metrics.contains("200 OK"), "{metrics}");
    // Records wait in a queue, which pgveil empties when it stops.
    running.signal("-TERM");
    let mut running = running;
    running.0.wait().unwrap();
    let of_policy = stage.file("policy.yaml").display().to_string();
    let mut export = Command::new(PGVEIL);
    export.envs(
        command
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    stage.set_up(&mut export);
    export.args(["budget", "--policy", &of_policy, "export"]);
    let exported = export.output().unwrap();
    let exported = [exported.stdout, exported.stderr].concat();
    let record = String::from_utf8_lossy(&exported);
    let written = "\"tables\":[\"shop.answers\"]";
    assert!(record.matches(written).count() > 500, "{record}");
    let ledger: Vec<u8> = ["ledger.db", "ledger.db-wal"]
        .iter()
        .flat_map(|name| std::fs::read(stage.file(name)).unwrap_or_default())
        .collect();
    let sent = heard.lock().unwrap().clone();
    assert!(
        sent.windows(11).any(|window| window == b"INSERT INTO"),
        "the tap hears"
    );
    let shadowed = heard_by_shadow.lock().unwrap().clone();
    assert!(!shadowed.is_empty(), "the shadow's tap hears");
    let log = stage.log("log");
    assert!(
        log.contains("\"level\":\"DEBUG\"") && log.contains("\"kind\":\"write\""),
        "{log}"
    );
    assert!(
        errors.contains("22023") && errors.contains("XX000"),
        "{errors}"
    );
    for (place, bytes) in [
        ("the wire to the database", sent.as_slice()),
        ("the wire to the shadow", shadowed.as_slice()),
        ("the ledger", ledger.as_slice()),
        ("the exported record", exported.as_slice()),
        ("the metrics", metrics.as_bytes()),
        ("the log", log.as_bytes()),
        ("errors", errors.as_bytes()),
    ] {
        assert_none(place, bytes);
    }
}

/// No number of the true ones, in text or in four or eight bytes, and no canary.
fn assert_none(place: &str, bytes: &[u8]) {
    let is_canary = bytes.windows(6).any(|window| window == b"canary");
    assert!(!is_canary, "a canary is in {place}");
    let numbers: BTreeSet<i32> = (0..CANARIES).map(number).collect();
    let text = String::from_utf8_lossy(bytes);
    // Digests in text are of hexadecimal digits, of which nine are some number by chance.
    let words = text.split(|c: char| !c.is_ascii_hexdigit());
    let text: String = words
        .filter(|word| word.len() < 64)
        .flat_map(|word| [word, " "])
        .collect();
    for number in &numbers {
        assert!(
            !text.contains(&number.to_string()),
            "{number} is in {place}"
        );
    }
    // Digests and salts are random bytes, of which four are some number by chance: three of them in
    // one place in some 500,000 runs.
    let in_four = bytes.windows(4).map(|window| {
        let read: [u8; 4] = window.try_into().unwrap();
        i32::from_be_bytes(read)
    });
    let in_four: BTreeSet<i32> = in_four.filter(|read| numbers.contains(read)).collect();
    assert!(in_four.len() < 3, "{in_four:?} are in {place}, in binary");
    for window in bytes.windows(8) {
        let read = f64::from_be_bytes(window.try_into().unwrap());
        let is_it = read.fract() == 0.0 && numbers.contains(&(read as i32));
        assert!(!is_it, "{read} is in {place}, as float8");
    }
}
