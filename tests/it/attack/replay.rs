//! One session, byte for byte, against a database and against its neighbour: what comes back is the same to the byte, but for released values.

use tokio_postgres::Client;

use super::paths::Gate;
use crate::outer::rich;
use crate::twins::questions;
use crate::veil::{Veil, load};
use crate::wire::socket::{Reply, Socket, bind, describe, execute, message, parse, sync};

/// The demo's data without the rows of one woman, or with all; noise is zero in both, which is one stream for both.
async fn gate(without: Option<&str>) -> Gate {
    let yaml = rich(std::fs::read_to_string("policies/demo.yaml").unwrap());
    let fill = async |client: &Client| {
        load(client).await;
        if let Some(woman) = without {
            let gone = format!("DELETE FROM nls.interviews WHERE woman_id = {woman}; DELETE FROM nls.women WHERE woman_id = {woman}; ANALYZE");
            client.batch_execute(&gone).await.unwrap();
        }
    };
    Gate::before(Veil::over(fill, &yaml, Veil::silent()).await).await
}

/// All that is not a released value. Left out are rows; their number in a tag, which is released too where keys are; and the digits of how far off an
/// answer may be, which for ratios are computed from released values.
fn shape(replies: Vec<Reply>) -> Vec<(char, Vec<u8>)> {
    let rest = replies.into_iter().filter(|reply| !matches!(reply.kind, b'D' | b'd'));
    rest.map(|Reply { kind, mut body }| {
        if kind == b'C' || (kind == b'N' && body.windows(8).any(|word| word == b"noise of")) {
            body.retain(|byte| !byte.is_ascii_digit());
        }
        (char::from(kind), body)
    })
    .collect()
}

/// Simple, extended and described alone, as a cursor, as a copy, and as one of several statements.
async fn conversation(socket: &mut Socket, sql: &str) -> Vec<Vec<(char, Vec<u8>)>> {
    let mut seen = vec![shape(socket.ask(sql).await)];
    for format in [0, 1] {
        let close = message(b'C', b"Sq\0");
        socket.send(&[parse("q", sql), describe('S', "q"), bind("", "q", &[], &[format]), execute("", 2), close, sync()].concat()).await;
        seen.push(shape(socket.until_ready().await));
    }
    let texts = [format!("BEGIN; DECLARE c CURSOR FOR {sql}"), "FETCH 1 FROM c".to_owned(), "ROLLBACK".to_owned()];
    for text in texts.iter().chain([&format!("COPY ({sql}) TO STDOUT"), &format!("SELECT 1; {sql}; SELECT 2"), &format!("EXPLAIN {sql}")]) {
        seen.push(shape(socket.ask(text).await));
    }
    seen
}

/// What a session may look at besides: the budget, what it has cost, the catalogs.
const SURROUNDINGS: [&str; 6] = [
    "SELECT * FROM pgveil.budget",
    "SELECT * FROM pgveil.columns",
    "SELECT relname, reltuples, relpages FROM pg_class WHERE relnamespace = 'nls'::regnamespace ORDER BY 1",
    "SELECT tablename, attname, n_distinct FROM pg_stats WHERE schemaname = 'nls' ORDER BY 1, 2",
    "SELECT pg_table_size('nls.women')",
    "SHOW ALL",
];

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_send_the_same_bytes() {
    let all = gate(None).await;
    let most = "SELECT woman_id FROM nls.interviews GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1";
    let woman: i32 = all.veil.client.query_one(most, &[]).await.unwrap().get(0);
    let fewer = gate(Some(&woman.to_string())).await;
    let (mut left, mut right) = (all.log_in().await, fewer.log_in().await);
    for socket in [&mut left, &mut right] {
        socket.ask("SET pgveil.notices = full").await;
    }
    let mut unlike = Vec::new();
    for sql in questions() {
        // A clock that is read twice may show two times.
        if ["now", "current_", "local", "clock"].iter().any(|word| sql.to_lowercase().contains(word)) {
            continue;
        }
        let (here, there) = tokio::join!(conversation(&mut left, &sql), conversation(&mut right, &sql));
        if here != there {
            unlike.push(format!("{sql}\n{}\n-- but without her\n{}", printed(&here), printed(&there)));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n\n"));
    for sql in SURROUNDINGS {
        assert_eq!(left.ask(sql).await, right.ask(sql).await, "{sql}");
    }
}

fn printed(seen: &[Vec<(char, Vec<u8>)>]) -> String {
    let one = |(kind, body): &(char, Vec<u8>)| format!("{kind} {}", String::from_utf8_lossy(body).replace('\0', " "));
    seen.iter().map(|replies| replies.iter().map(one).collect::<Vec<_>>().join("\n")).collect::<Vec<_>>().join("\n--\n")
}
