//! A role whose clients write badly, break off and never end, against one that writes well: all
//! rows of the good one arrive, each once, nothing stays open, and no true value is in the log.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls};

use super::socket::{CANCEL_REQUEST, Socket, message, packet, parse, query, startup, sync};
use crate::operations::serve::{Running, free_port};
use crate::operations::stage::{PGVEIL, Stage};

const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\", write_url: \"${DATABASE_WRITE_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
local: {secret: \"0123456789abcdef0123456789abcdef\"}
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}}
roles:
  - {name: good, password: \"${VERIFIER}\", budget: none, writes: [shop.answers]}
  - {name: hostile, password: \"${VERIFIER}\", budget: none, writes: [shop.answers]}
tables:
  shop.answers:
    unit: person
    constraints: shown
    columns:
      income: {bounds: [0, 900000000], local: {mechanism: mean, epsilon: 1}}
      cohort: visible
      page:
        values: [/clinic/4270, /news/9913]
        local: {mechanism: rappor, bits: 32, hashes: 2, cohorts: 8, f: 1/2, p: 1/4, q: 3/4, \
    cohort: cohort}
operators:
  - {name: olga, password: \"${VERIFIER}\", may: [watch, own]}
limits: {connections: 60, statement_timeout: 600s}
";

const TABLES: &str = "CREATE TABLE shop.answers (person int NOT NULL, income int NOT NULL, note \
    text, page bit(32) NOT NULL, cohort int NOT NULL); \
    CREATE FUNCTION shop.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
    PERFORM pg_sleep(600); RETURN NEW; END $$; \
    CREATE TRIGGER slow BEFORE INSERT ON shop.answers FOR EACH ROW WHEN (NEW.note = 'slow') \
    EXECUTE FUNCTION shop.slow(); \
    CREATE TABLE shop.cancelled (person int); \
    CREATE FUNCTION shop.sleeps() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN \
    PERFORM pg_sleep(600); RETURN NULL; EXCEPTION WHEN query_canceled THEN \
    INSERT INTO shop.cancelled VALUES (NEW.person); RETURN NULL; END $$; \
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON shop.answers DEFERRABLE INITIALLY DEFERRED \
    FOR EACH ROW WHEN (NEW.note = 'at commit') EXECUTE FUNCTION shop.sleeps(); \
    CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA shop TO writer; \
    GRANT INSERT ON shop.answers TO writer";

const COPY: &str = "COPY shop.answers (person, income, note, page) FROM STDIN";

/// The true page of all rows.
const PAGE: &str = "/clinic/4270";

/// The true incomes of all rows: numbers that are in no log by chance.
fn income(at: i32) -> i32 {
    427_001_003 + 7_001 * at
}

fn insert(person: i32, note: &str) -> String {
    let income = income(person);
    format!(
        "INSERT INTO shop.answers (person, income, note, page) VALUES ({person}, {income}, \
            '{note}', '{PAGE}')"
    )
}

struct Siege {
    stage: Stage,
    port: u16,
    running: Running,
    owner: Client,
}

async fn connected(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Siege {
    /// pgveil as a process, with the finest log.
    async fn new() -> Self {
        let stage = Stage::new().await;
        let owner = connected(&stage.server.config()).await;
        owner.batch_execute(TABLES).await.unwrap();
        std::fs::write(stage.file("policy.yaml"), POLICY).unwrap();
        let port = free_port();
        let host = stage.server.directory().display();
        let mut command = Command::new("env");
        command
            .env(
                "DATABASE_WRITE_URL",
                format!("postgresql://writer@/nls?host={host}"),
            )
            // The stage removes the variable of the log's level, so an argument sets it again.
            .args(["PGVEIL_LOG=trace", PGVEIL]);
        let listen = format!("127.0.0.1:{port}");
        let running = stage.spawn(command, "log", &["--listen", &listen]);
        let ready = stage.reported();
        assert!(ready.contains("READY=1"), "{ready} {}", stage.log("log"));
        Self {
            stage,
            port,
            running,
            owner,
        }
    }

    async fn hostile(&self) -> Socket {
        let mut socket = Socket::open(([127, 0, 0, 1], self.port).into()).await;
        let who = [("user", "hostile"), ("database", "nls")];
        socket.send(&startup(&who)).await;
        socket.authenticate("analyst", None).await;
        socket.until_ready().await;
        socket
    }

    async fn count(&self, sql: &str) -> i64 {
        self.owner.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Sends a request to cancel what a session runs.
    async fn cancel(&self, key: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = packet(CANCEL_REQUEST, key);
        tokio::io::AsyncWriteExt::write_all(&mut stream, &request)
            .await
            .unwrap();
    }

    /// Until a count is above zero.
    async fn until_some(&self, sql: &str) {
        let some = async {
            while self.count(sql).await == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), some).await;
        waited.unwrap_or_else(|_| panic!("none: {sql}"));
    }

    /// Until the database has no session of the writer of this kind.
    async fn until_none(&self, condition: &str) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'writer' AND {condition}"
        );
        let none = async {
            while self.count(&sql).await > 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(60), none).await;
        waited.unwrap_or_else(|_| panic!("still there: {condition}"));
    }
}

/// Writes rows in every good way until it is stopped; how many rows it wrote, one a person.
async fn write_well(port: u16, stop: Arc<AtomicBool>) -> i32 {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("good");
    config.password("analyst").dbname("nls");
    let mut client = connected(&config).await;
    let sql = "INSERT INTO shop.answers (person, income, note, page) VALUES ($1, $2, 'good', $3)";
    let prepared = client.prepare(sql).await.unwrap();
    let mut person = 0;
    while !stop.load(Ordering::Relaxed) {
        client.batch_execute(&insert(person, "good")).await.unwrap();
        let values = (person + 1, income(person + 1));
        let written = client
            .execute(&prepared, &[&values.0, &values.1, &PAGE])
            .await;
        assert_eq!(written.unwrap(), 1);
        let transaction = client.transaction().await.unwrap();
        for next in 2..4 {
            let sql = insert(person + next, "good");
            transaction.batch_execute(&sql).await.unwrap();
        }
        transaction.commit().await.unwrap();
        let sink = client.copy_in::<_, Bytes>(COPY).await.unwrap();
        let mut sink = std::pin::pin!(sink);
        for next in 4..10 {
            let own = person + next;
            let row = format!("{own}\t{}\tgood\t{PAGE}\n", income(own));
            sink.send(Bytes::from(row)).await.unwrap();
        }
        assert_eq!(sink.finish().await.unwrap(), 6);
        let [one, other] = [person + 10, person + 11];
        let arrays = format!(
            "INSERT INTO shop.answers (person, income, note, page) SELECT * FROM \
                UNNEST(('{{{one},{other}}}')::int[], ('{{{},{}}}')::int[], \
                ('{{good,good}}')::text[], ('{{{PAGE},{PAGE}}}')::text[])",
            income(one),
            income(other)
        );
        client.batch_execute(&arrays).await.unwrap();
        person += 12;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    person
}

fn row(person: i32) -> Vec<u8> {
    message(
        b'd',
        format!("{person}\t{}\tevil\t{PAGE}\n", income(person)).as_bytes(),
    )
}

/// A Bind of three parameters in binary, of which the second has these bytes.
fn bind_binary(second: &[u8]) -> Vec<u8> {
    let mut body = b"\0\0\0\x01\0\x01\0\x03".to_vec();
    for value in [&1_i32.to_be_bytes(), second, b"evil"] {
        body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value);
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

/// One bad client, of the kind of this number. Nothing that it sends is ever committed.
async fn attack(siege: &Siege, kind: usize) {
    let mut socket = siege.hostile().await;
    let sql = "INSERT INTO shop.answers (person, income, note, page) VALUES ($1, $2, $3, \
        '/news/9913')";
    match kind {
        // Breaks off: amid COPY, amid a row, amid a message, within a transaction.
        0 => socket.send(&[query(COPY), row(1), row(2)].concat()).await,
        1 => {
            let begun = &row(1)[..12];
            socket.send(&[query(COPY), begun.to_vec()].concat()).await;
        }
        2 => {
            socket.ask("BEGIN").await;
            socket.ask(&insert(1, "evil")).await;
            socket.send(&query(&insert(2, "evil"))[..20]).await;
        }
        // Says goodbye, gives up, or speaks of something else amid COPY.
        3 => {
            socket
                .send(&[query(COPY), row(1), message(b'X', b"")].concat())
                .await
        }
        4 => {
            let failed = message(b'f', b"evil\0");
            socket.send(&[query(COPY), row(1), failed].concat()).await;
            let replies = socket.until_ready().await;
            assert!(replies.iter().any(|r| r.kind == b'E'), "{replies:?}");
        }
        5 => {
            socket
                .send(&[query(COPY), row(1), query("SELECT 1")].concat())
                .await;
            while socket.receive().await.is_some() {}
        }
        // Rows that are too long, in pieces; rows that are none.
        6 => {
            socket.send(&query(COPY)).await;
            let piece = message(b'd', &vec![b'x'; 1 << 20]);
            for _ in 0..5 {
                socket.send(&piece).await;
            }
            socket.send(&message(b'c', b"")).await;
            let replies = socket.until_ready().await;
            let error = replies.iter().find(|r| r.kind == b'E').unwrap();
            assert_eq!(error.field(b'C'), "22P02", "{}", error.text());
        }
        7 => {
            let bad = format!("1\t{}\t\0\\xff\\\n\t{PAGE}\n\\.", income(1));
            let sent = [
                query(COPY),
                row(1),
                message(b'd', bad.as_bytes()),
                message(b'c', b""),
            ];
            socket.send(&sent.concat()).await;
            let replies = socket.until_ready().await;
            assert!(replies.iter().any(|r| r.kind == b'E'), "{replies:?}");
        }
        // Binary values that are none.
        8 => {
            for bytes in [
                &b""[..],
                b"\0",
                b"\xff\xff\xff\xff\xff",
                &[0xff; 4],
                &[0x7f; 300],
            ] {
                let sent = [
                    parse("", sql),
                    bind_binary(bytes),
                    super::socket::execute("", 0),
                    sync(),
                ];
                socket.send(&sent.concat()).await;
                let replies = socket.until_ready().await;
                assert!(replies.iter().any(|r| r.kind == b'E'), "{replies:?}");
            }
        }
        // A cancel amid COPY, and amid a row that the database does not end.
        9 => {
            socket.send(&[query(COPY), row(1)].concat()).await;
            assert_eq!(socket.receive().await.unwrap().kind, b'G');
            siege.cancel(&socket.key.clone()).await;
            let replies = socket.until_ready().await;
            let error = replies.iter().find(|r| r.kind == b'E').unwrap();
            assert_eq!(error.field(b'C'), "57014", "{}", error.text());
        }
        10 => {
            socket.send(&query(&insert(1, "slow"))).await;
            let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            siege.until_some(asleep).await;
            siege.cancel(&socket.key.clone()).await;
            let replies = socket.until_ready().await;
            let error = replies.iter().find(|r| r.kind == b'E').unwrap();
            assert_eq!(error.field(b'C'), "57014", "{}", error.text());
        }
        // One large message, whose rows take minutes: a cancel ends it in its middle.
        11 => {
            let row = format!("1\t{}\tevil\t{PAGE}\n", income(1));
            let large = message(b'd', row.repeat((3 << 20) / row.len()).as_bytes());
            socket.send(&[query(COPY), large].concat()).await;
            let begun = "SELECT count(*) FROM pg_stat_progress_copy WHERE tuples_processed > 100";
            siege.until_some(begun).await;
            siege.cancel(&socket.key.clone()).await;
            let replies = socket.until_ready().await;
            let error = replies.iter().find(|r| r.kind == b'E').unwrap();
            assert_eq!(error.field(b'C'), "57014", "{}", error.text());
            let replies = socket.ask("BEGIN").await;
            assert_eq!(replies.last().unwrap().body, b"T", "{replies:?}");
            let replies = socket.ask(&insert(1, "evil")).await;
            assert_eq!(replies.last().unwrap().body, b"T", "{replies:?}");
        }
        // Cancels of others' keys, and a write in a failed transaction.
        _ => {
            siege.cancel(&[0xab; 8]).await;
            let bad = format!("BEGIN; {}; SELECT 1/0", insert(1, "evil"));
            socket.ask(&bad).await;
            socket
                .send(&[query(&insert(2, "evil")), query(COPY)].concat())
                .await;
            socket.until_ready().await;
            socket.until_ready().await;
        }
    }
}

/// What the role holds: its share of the connections for writing, open and silent. The next write
/// is refused, and the good role still writes.
async fn occupy(siege: &Siege) -> Vec<Socket> {
    let mut silent = Vec::new();
    for person in 0..8 {
        let mut socket = siege.hostile().await;
        if person % 2 == 0 {
            socket.ask("BEGIN").await;
            let replies = socket.ask(&insert(person, "evil")).await;
            assert_eq!(replies.last().unwrap().body, b"T", "{replies:?}");
        } else {
            socket.send(&[query(COPY), row(person)].concat()).await;
            assert_eq!(socket.receive().await.unwrap().kind, b'G');
        }
        silent.push(socket);
    }
    let mut next = siege.hostile().await;
    // What waits for a connection can be cancelled, and its time counts.
    for sql in [insert(9, "evil"), COPY.to_owned()] {
        next.send(&query(&sql)).await;
        let key = next.key.clone();
        let cancels = async {
            loop {
                siege.cancel(&key).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let replies = tokio::select! {
            replies = next.until_ready() => replies,
            () = cancels => Vec::new(),
        };
        let error = replies.iter().find(|r| r.kind == b'E').unwrap();
        assert_eq!(error.field(b'C'), "57014", "{sql} {}", error.text());
    }
    next.ask("SET statement_timeout = 500").await;
    assert_eq!(next.refused(&insert(9, "evil")).await, "57014");
    assert_eq!(next.refused(COPY).await, "57014");
    next.ask("RESET statement_timeout").await;
    assert_eq!(next.refused(&insert(9, "evil")).await, "53300");
    assert_eq!(next.refused(COPY).await, "53300");
    silent.push(next);
    silent
}

/// An operator ends a session amid a COPY that the database works on: the database stops, and the
/// write is in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_an_operator_ends_is_cancelled_and_logged() {
    let slow = format!("1\t{}\tslow\t{PAGE}\n", income(1));
    let copy = [
        query(COPY),
        message(b'd', slow.as_bytes()),
        message(b'c', b""),
    ];
    ends_by_operator(&copy.concat()).await;
    ends_by_operator(&query(&insert(1, "slow"))).await;
}

/// The database ends the commit of an INSERT whatever it is asked, so that the rows stay: that is
/// what the log says, though an operator ended the session and asked for a cancel meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_insert_that_is_committed_all_the_same_is_logged_so() {
    let siege = Siege::new().await;
    ends_amid(&siege, &query(&insert(1, "at commit"))).await;
    let cancelled = "SELECT count(*) FROM shop.cancelled";
    assert_eq!(
        siege.count(cancelled).await,
        1,
        "the database was asked to cancel"
    );
    let stored = "SELECT count(*) FROM shop.answers WHERE note = 'at commit'";
    assert_eq!(siege.count(stored).await, 1);
    let log = siege.stage.log("log");
    let line = "role=\"hostile\" kind=\"write\" sqlstate=\"00000\"";
    assert!(log.contains(line), "{log}");
}

/// An operator ends the session that sent this write, while the database is at it: nothing of it is
/// stored.
async fn ends_by_operator(write: &[u8]) {
    let siege = Siege::new().await;
    ends_amid(&siege, write).await;
    let log = siege.stage.log("log");
    let line = "role=\"hostile\" kind=\"write\" sqlstate=\"57P01\"";
    assert!(log.contains(line), "{log}");
    assert_eq!(siege.count("SELECT count(*) FROM shop.answers").await, 0);
}

/// An operator ends the session that sent this write, while the database sleeps in it. It would
/// sleep for ten minutes, which is also the time that its statement may take: that it wakes within
/// one is the cancel's doing.
async fn ends_amid(siege: &Siege, write: &[u8]) {
    let mut socket = siege.hostile().await;
    socket.send(write).await;
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    siege.until_some(asleep).await;
    let mut config = Config::new();
    config.host("127.0.0.1").port(siege.port).user("olga");
    config.password("analyst").dbname("pgveil");
    let olga = connected(&config).await;
    let number = i32::from_be_bytes(socket.key[..4].try_into().unwrap());
    olga.batch_execute(&format!("KILL {number}")).await.unwrap();
    let ended = "SELECT 1 - count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    siege.until_some(ended).await;
    while socket.receive().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_good_writer_is_served_among_bad_ones() {
    let siege = Arc::new(Siege::new().await);
    let stop = Arc::new(AtomicBool::new(false));
    let good = tokio::spawn(write_well(siege.port, Arc::clone(&stop)));
    for _ in 0..3 {
        let attacks = (0..13).map(|kind| {
            let siege = Arc::clone(&siege);
            tokio::spawn(async move { attack(&siege, kind).await })
        });
        for ended in futures::future::join_all(attacks).await {
            ended.unwrap();
        }
    }
    // All of theirs is rolled back, so that their places are free again.
    let silent = occupy(&siege).await;
    let meanwhile = siege
        .count("SELECT count(*) FROM shop.answers WHERE note = 'good'")
        .await;
    let more = format!(
        "SELECT count(*) FROM shop.answers WHERE note = 'good' HAVING count(*) > {}",
        meanwhile + 20
    );
    while siege.owner.query(&more, &[]).await.unwrap().is_empty() {
        assert!(!good.is_finished(), "the good writer ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(silent);
    stop.store(true, Ordering::Relaxed);
    let wrote = good.await.unwrap();
    siege
        .until_none("(state <> 'idle' OR backend_xid IS NOT NULL)")
        .await;
    let stored = "SELECT person, note FROM shop.answers";
    let mut persons: BTreeMap<i32, usize> = BTreeMap::new();
    for row in siege.owner.query(stored, &[]).await.unwrap() {
        assert_eq!(row.get::<_, String>(1), "good");
        *persons.entry(row.get(0)).or_default() += 1;
    }
    assert!(wrote > 30, "{wrote}");
    let wanted: BTreeMap<i32, usize> = (0..wrote).map(|person| (person, 1)).collect();
    assert_eq!(persons, wanted);
    // The places are free again, and the process is well.
    let mut socket = siege.hostile().await;
    let replies = socket.ask(&insert(1, "late")).await;
    assert!(replies.iter().all(|r| r.kind != b'E'), "{replies:?}");
    drop(socket);
    siege.running.signal("-TERM");
    siege.until_none("true").await;
    let log = siege.stage.log("log");
    // At the finest level: each write has its line.
    for role in ["good", "hostile"] {
        let line = format!("role=\"{role}\" kind=\"write\"");
        assert!(log.contains(&line), "{line}: {log}");
    }
    assert!(!log.contains("panic"), "{log}");
    assert!(
        !log.contains("/clinic/") && !log.contains("/news/"),
        "{log}"
    );
    for person in 0..wrote {
        let income = income(person).to_string();
        assert!(!log.contains(&income), "{income} is in the log");
    }
}
