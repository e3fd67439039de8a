//! Connections for writing whose database breaks off, is late, or is cancelled. The database is
//! made up, so that each happens at one point.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::super::lease::WriterPool;
use super::*;

/// The number with which a request to cancel begins.
const CANCEL_REQUEST: u32 = 80_877_102;

/// What the database does with rows.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The database takes them, and the connection breaks.
    Breaks,
    /// The database takes them as soon as a cancel comes.
    IsLate,
}

struct Database {
    then: Then,
    sessions: AtomicUsize,
    inserts: AtomicUsize,
    cancels: AtomicUsize,
    has_rows: Notify,
    is_cancelled: Notify,
}

impl Database {
    /// A new database, and a writer that writes there.
    async fn new(then: Then) -> (Arc<Self>, TableWriter) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let made = Arc::new(Self {
            then,
            sessions: AtomicUsize::new(0),
            inserts: AtomicUsize::new(0),
            cancels: AtomicUsize::new(0),
            has_rows: Notify::new(),
            is_cancelled: Notify::new(),
        });
        let database = Arc::clone(&made);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let database = Arc::clone(&database);
                tokio::spawn(async move { database.serve(stream).await });
            }
        });
        let mut writer = writer(table("t", Randomiser::Rappor(FILTER)), Some("secret"));
        let url = format!("postgresql://w@127.0.0.1:{port}/d?sslmode=disable");
        writer.pool = WriterPool::new(&Secret::from(url), Duration::from_secs(60), Arc::default());
        (made, writer)
    }

    /// One connection; `None` where it ends.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let length = stream.read_u32().await.ok()?;
        let mut start = vec![0; length as usize - 4];
        stream.read_exact(&mut start).await.ok()?;
        if start.starts_with(&CANCEL_REQUEST.to_be_bytes()) {
            self.cancels.fetch_add(1, Ordering::SeqCst);
            self.is_cancelled.notify_one();
            return None;
        }
        self.sessions.fetch_add(1, Ordering::SeqCst);
        let greeting = [
            reply(b'R', &[0; 4]),
            reply(b'K', &[1; 8]),
            reply(b'Z', b"I"),
        ];
        stream.write_all(&greeting.concat()).await.ok()?;
        loop {
            let kind = stream.read_u8().await.ok()?;
            let length = stream.read_u32().await.ok()?;
            let mut body = vec![0; length as usize - 4];
            stream.read_exact(&mut body).await.ok()?;
            let answer = match kind {
                b'Q' => [reply(b'C', b"SET\0"), reply(b'Z', b"I")].concat(),
                b'S' => {
                    self.inserts.fetch_add(1, Ordering::SeqCst);
                    self.has_rows.notify_one();
                    if self.then == Then::Breaks {
                        return None;
                    }
                    self.is_cancelled.notified().await;
                    let parts = [(b'1', &b""[..]), (b'2', b""), (b'n', b"")];
                    let mut answer: Vec<u8> = parts
                        .iter()
                        .flat_map(|(kind, body)| reply(*kind, body))
                        .collect();
                    answer.extend(reply(b'C', b"INSERT 0 1\0"));
                    answer.extend(reply(b'Z', b"I"));
                    answer
                }
                _ => continue,
            };
            stream.write_all(&answer).await.ok()?;
        }
    }
}

fn reply(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

async fn one_row(writer: &TableWriter) -> SentRows {
    let (plan, write) = (filter_plan(writer), filter_rows(1));
    let share = MemoryShare::default();
    writer
        .rows(&plan, &write, (&[], &[]), &share)
        .await
        .unwrap()
}

fn modes() -> TransactionModes {
    TransactionModes {
        isolation: "read committed".to_owned(),
        savepoints: 0,
    }
}

/// Rows that commit by themselves may be stored where the connection breaks before the answer, and
/// a client that heard of a failure would write them twice. Those of a transaction are not.
#[tokio::test]
async fn a_connection_that_breaks_leaves_rows_unknown() {
    let (database, writer) = Database::new(Then::Breaks).await;
    let rows = one_row(&writer).await;
    for (is_within, code) in [(false, "08007"), (true, "XX000")] {
        let mut lease = writer.lease("ann").await.unwrap();
        if is_within {
            lease.begin(&modes()).await.unwrap();
        }
        let inserted = lease.insert(&rows, std::future::pending()).await;
        assert_eq!(inserted.unwrap_err().sqlstate.as_str(), code);
        lease.keep();
    }
    assert_eq!(database.inserts.load(Ordering::SeqCst), 2);
}

/// A cancel may come to the database after what it was for. So the connection serves nobody else,
/// and its transaction is over.
#[tokio::test]
async fn a_connection_that_was_cancelled_is_not_used_again() {
    let (database, writer) = Database::new(Then::IsLate).await;
    let rows = one_row(&writer).await;
    for is_within in [false, true] {
        let mut lease = writer.lease("ann").await.unwrap();
        if is_within {
            lease.begin(&modes()).await.unwrap();
        }
        let inserted = lease.insert(&rows, database.has_rows.notified()).await;
        assert_eq!(inserted.unwrap(), 1);
        assert!(lease.is_lost() && lease.is_open() == is_within);
        lease.keep();
    }
    let counts = (&database.sessions, &database.cancels);
    assert_eq!(counts.0.load(Ordering::SeqCst), 2);
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
    writer.lease("ann").await.unwrap().keep();
    writer.lease("ann").await.unwrap().keep();
    assert_eq!(counts.0.load(Ordering::SeqCst), 3);
}

/// What was cancelled before is not sent, and the connection is as it was.
#[tokio::test]
async fn rows_are_not_sent_after_their_cancel() {
    let (database, writer) = Database::new(Then::IsLate).await;
    let rows = one_row(&writer).await;
    let mut lease = writer.lease("ann").await.unwrap();
    let refused = lease.insert(&rows, async {}).await.unwrap_err();
    assert_eq!(refused.sqlstate.as_str(), "57014");
    assert!(!lease.is_lost());
    lease.keep();
    // What the connection does next comes after all that was sent.
    let mut lease = writer.lease("ann").await.unwrap();
    lease.begin(&modes()).await.unwrap();
    for count in [&database.inserts, &database.cancels] {
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }
    assert_eq!(database.sessions.load(Ordering::SeqCst), 1);
}
