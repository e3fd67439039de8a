//! Clients that hold a connection for writing: how long they may be silent, how long a transaction
//! may write, and how many of them one role may hold.

use std::time::Duration;

use pgveil::wire::WriteLimits;

use super::writes::{MEMO, Survey, insert};
use crate::wire::socket::{Socket, message, query, startup};

const COPY: &str = "COPY \"Answers\" (\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \
    \"Tea\", \"Coffee\", \"Income\") FROM STDIN";
/// A time that no test waits for.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(300);

async fn collector(survey: &Survey, role: &str) -> Socket {
    let mut socket = Socket::open(survey.stage.veiled).await;
    socket
        .send(&startup(&[("user", role), ("database", "nls")]))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket.ask("SET search_path = \"Survey\"").await;
    socket
}

fn one(person: i32) -> String {
    let row = format!("({person}, 1, 'yes', 'flu', 'a', true, false, 1000)");
    insert(&row)
}

fn row(person: i32) -> Vec<u8> {
    let row = format!("{person}\t1\tyes\tflu\ta\tt\tf\t1000\n");
    message(b'd', row.as_bytes())
}

async fn persons(survey: &Survey) -> String {
    let sql = "SELECT coalesce(string_agg(\"Person\"::text, ',' ORDER BY \"Person\"), '') FROM \
        \"Survey\".\"Answers\"";
    survey.direct(sql).await.remove(0)
}

/// Until the database has no transaction of the login that writes.
async fn until_none_is_open(survey: &Survey) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'writer' AND \
        (state <> 'idle' OR backend_xid IS NOT NULL)";
    let none = async {
        while survey.direct(sql).await != ["0"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), none).await;
    waited.expect("a transaction is still open");
}

/// A client that is silent within a transaction that writes, or within a COPY, is disconnected, and
/// what it wrote is gone. One that holds no connection for writing may be silent.
#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_disconnected() {
    let limits = WriteLimits {
        silence: SHORT,
        age: LONG,
    };
    let survey = Survey::limited(MEMO, limits).await;
    let mut patient = collector(&survey, "collector").await;
    patient.ask("BEGIN").await;
    for begun in [
        vec![query("BEGIN"), query(&one(1))],
        vec![query("BEGIN"), query(&one(1)), query("SELECT 1/0")],
        vec![query("BEGIN"), query(COPY), row(1)],
        vec![query(COPY), row(1)],
    ] {
        let mut socket = collector(&survey, "collector").await;
        socket.send(&begun.concat()).await;
        let ended = loop {
            match socket.receive().await {
                Some(reply) if reply.kind == b'E' && reply.field(b'S') == "FATAL" => break reply,
                Some(_) => {}
                None => panic!("closed without a word"),
            }
        };
        assert_eq!(ended.field(b'C'), "25P03", "{}", ended.text());
        assert!(ended.text().contains("idle-in-transaction timeout"));
        assert_eq!(socket.receive().await, None);
    }
    until_none_is_open(&survey).await;
    assert_eq!(persons(&survey).await, "");
    // At once, so that it is not silent while it holds a connection.
    let written = [query(&one(2)), query("COMMIT")].concat();
    patient.send(&written).await;
    for state in [b"T", b"I"] {
        let replies = patient.until_ready().await;
        assert_eq!(replies.last().unwrap().body, state, "{replies:?}");
    }
    assert_eq!(persons(&survey).await, "2");
}

/// A transaction that writes for too long ends, however busy its client is. Its age is counted from
/// its first write, and one that only asks has none.
#[tokio::test(flavor = "multi_thread")]
async fn old_transactions_end() {
    let limits = WriteLimits {
        silence: LONG,
        age: SHORT,
    };
    let survey = Survey::limited(MEMO, limits).await;
    let mut busy = collector(&survey, "collector").await;
    busy.ask("BEGIN").await;
    tokio::time::sleep(2 * SHORT).await;
    let replies = busy.ask(&one(1)).await;
    assert_eq!(replies.last().unwrap().body, b"T", "{replies:?}");
    let ended = 'busy: loop {
        // The server may close before it reads this.
        if tokio::io::AsyncWriteExt::write_all(&mut busy.stream, &query("SELECT 1"))
            .await
            .is_err()
        {
            panic!("closed without a word");
        }
        loop {
            let reply = busy.receive().await.expect("a reply");
            match reply.kind {
                b'E' => break 'busy reply,
                b'Z' => break,
                _ => {}
            }
        }
    };
    assert_eq!(ended.field(b'C'), "25P03", "{}", ended.text());
    assert!(ended.text().contains("writing for too long"));
    assert_eq!(busy.receive().await, None);
    // Also of a silent client, whose silence has another limit.
    let mut silent = collector(&survey, "collector").await;
    silent.ask("BEGIN").await;
    silent.ask(&one(3)).await;
    let ended = silent.fatal().await;
    assert_eq!(ended.field(b'C'), "25P03");
    assert!(ended.text().contains("writing for too long"));
    until_none_is_open(&survey).await;
    assert_eq!(persons(&survey).await, "");
}

/// A role holds eight connections for writing at most. Its next write is refused after a while,
/// others' are not, and the share is free again once a transaction ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_has_its_share_of_connections() {
    let survey = Survey::new(MEMO).await;
    let mut held = Vec::new();
    for person in 0..8 {
        let mut socket = collector(&survey, "collector").await;
        let begun = format!("BEGIN; {}", one(person));
        let replies = socket.ask(&begun).await;
        assert_eq!(replies.last().unwrap().body, b"T", "{replies:?}");
        held.push(socket);
    }
    let mut ninth = collector(&survey, "collector").await;
    assert_eq!(ninth.refused(&one(9)).await, "53300");
    let mut other = collector(&survey, "other").await;
    let sql = "INSERT INTO \"Others\" (\"Person\", smoked) VALUES (1, 'yes')";
    let replies = other.ask(sql).await;
    assert!(replies.iter().all(|r| r.kind != b'E'), "{replies:?}");
    // It waits for a place, and gets that of the transaction that ends.
    ninth.send(&query(&one(9))).await;
    held[0].ask("COMMIT").await;
    let replies = ninth.until_ready().await;
    assert!(replies.iter().all(|r| r.kind != b'E'), "{replies:?}");
    drop(held);
    until_none_is_open(&survey).await;
    assert_eq!(persons(&survey).await, "0,9");
}
