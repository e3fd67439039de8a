//! Every message in every state: in order and out of order, cut short, too long, and with wrong
//! formats.

use std::sync::atomic::Ordering;

use tokio::io::AsyncWriteExt;

use super::double::{Running, start};
use super::socket::{
    Reply, Socket, bind, describe, execute, kinds, message, parse, query, startup, sync,
};

const ANN: [(&str, &str); 2] = [("user", "ann"), ("database", "survey")];

/// A well-formed message of each kind that a client may send, and two that it may not.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("Query", query("SELECT 1")),
        ("Parse", parse("n", "SELECT 1")),
        ("Bind", bind("b", "s", &[], &[])),
        ("Describe statement", describe('S', "s")),
        ("Describe portal", describe('P', "none")),
        ("Execute", execute("none", 0)),
        ("Close", message(b'C', b"Ss\0")),
        ("Flush", message(b'H', b"")),
        ("Sync", sync()),
        ("FunctionCall", message(b'F', b"\0\0\0\x01\0\0\0\0\0\0")),
        ("CopyData", message(b'd', b"x\n")),
        ("CopyDone", message(b'c', b"")),
        ("CopyFail", message(b'f', b"no\0")),
        ("PasswordMessage", message(b'p', b"secret\0")),
        ("a reply's type", message(b'Z', b"I")),
        ("Terminate", message(b'X', b"")),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Parse and Bind were sent, and no Sync.
    Pipeline,
    /// A message of the pipeline has failed.
    Skipping,
    Transaction,
    Failed,
    /// In a transaction, with a portal of which rows are left.
    Suspended,
    /// While a statement runs.
    Running,
    /// While rows of a COPY are on their way, unread.
    Copying,
}

const STATES: [State; 8] = [
    State::Idle,
    State::Pipeline,
    State::Skipping,
    State::Transaction,
    State::Failed,
    State::Suspended,
    State::Running,
    State::Copying,
];

impl State {
    /// A session in this state, with a prepared statement `s`, and the replies that are still to
    /// come from the way there.
    async fn reach(self, running: &Running) -> (Socket, &'static str) {
        let mut socket = Socket::log_in(running.address).await;
        socket
            .send(&[parse("s", "SELECT 1"), sync()].concat())
            .await;
        socket.until_ready().await;
        match self {
            Self::Idle => return (socket, ""),
            Self::Pipeline => {
                socket
                    .send(&[parse("", "SELECT 1"), bind("", "", &[], &[])].concat())
                    .await
            }
            Self::Skipping => {
                socket
                    .send(&[parse("", "SELEC 1"), bind("", "", &[], &[])].concat())
                    .await
            }
            Self::Transaction => drop(socket.ask("BEGIN").await),
            Self::Failed => {
                socket.ask("BEGIN").await;
                socket.ask("SELECT fail").await;
            }
            Self::Suspended => {
                socket.ask("BEGIN").await;
                socket
                    .send(
                        &[
                            parse("", "SELECT many"),
                            bind("c", "", &[], &[]),
                            execute("c", 3),
                            sync(),
                        ]
                        .concat(),
                    )
                    .await;
                assert_eq!(kinds(&socket.until_ready().await), "12DDDsZ");
            }
            Self::Running => socket.send(&query("SELECT sleepy")).await,
            Self::Copying => socket.send(&query("COPY (SELECT huge) TO STDOUT")).await,
        }
        let pending = match self {
            Self::Idle | Self::Transaction | Self::Failed | Self::Suspended => "",
            Self::Pipeline => "12",
            Self::Skipping => "E",
            Self::Running => "TDCZ",
            Self::Copying => "HcCZ",
        };
        (socket, pending)
    }

    /// The status in ReadyForQuery.
    fn status(self) -> u8 {
        match self {
            Self::Idle | Self::Pipeline | Self::Skipping | Self::Running | Self::Copying => b'I',
            Self::Transaction | Self::Suspended => b'T',
            Self::Failed => b'E',
        }
    }

    /// The replies to a message and a Sync after it; `None` where the connection ends with FATAL
    /// 08P01.
    fn wanted(self, name: &str) -> Option<&'static str> {
        Some(match (name, self) {
            ("PasswordMessage" | "a reply's type", _) => return None,
            ("Sync", _) => "ZZ",
            // Dropped like everything up to Sync.
            (_, Self::Skipping) => "Z",
            ("Query", Self::Failed) | ("FunctionCall", _) => "EZZ",
            ("Query", _) => "TDCZZ",
            ("Parse" | "Bind" | "Describe statement", Self::Failed)
            | ("Describe portal" | "Execute", _) => "EZ",
            ("Parse", _) => "1Z",
            ("Bind", _) => "2Z",
            ("Describe statement", _) => "tTZ",
            ("Close", _) => "3Z",
            ("Flush" | "CopyData" | "CopyDone" | "CopyFail", _) => "Z",
            (other, _) => panic!("{other} has no wanted replies"),
        })
    }
}

/// Everything up to the end of the connection, or to this many ReadyForQuery. The data of a COPY
/// are left out.
async fn replies(socket: &mut Socket, readies: usize) -> Vec<Reply> {
    let mut replies = Vec::new();
    while replies
        .iter()
        .filter(|reply: &&Reply| reply.kind == b'Z')
        .count()
        < readies
    {
        let Some(reply) = socket.receive().await else {
            break;
        };
        if reply.kind != b'd' {
            replies.push(reply);
        }
    }
    replies
}

fn readies(text: &str) -> usize {
    text.matches('Z').count()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_in_every_state() {
    let running = start().await;
    for state in STATES {
        for (name, bytes) in messages() {
            let (mut socket, pending) = state.reach(&running).await;
            if name == "Terminate" {
                socket.send(&bytes).await;
                let last = replies(&mut socket, usize::MAX).await;
                // A session that ends while its statement runs need not hear of it.
                let heard = kinds(&last);
                assert!(
                    heard == pending || state == State::Running,
                    "{state:?} {name}: {heard}"
                );
                continue;
            }
            socket.send(&[bytes, sync()].concat()).await;
            match state.wanted(name) {
                Some(wanted) => {
                    let wanted = format!("{pending}{wanted}");
                    let found = replies(&mut socket, readies(&wanted)).await;
                    assert_eq!(kinds(&found), wanted, "{state:?} {name}: {found:?}");
                    // An error in a transaction fails it.
                    let own = &found[pending.len()..];
                    let failed =
                        own.iter().any(|reply| reply.kind == b'E') && state.status() == b'T';
                    assert_eq!(
                        own.last().unwrap().body,
                        [if failed { b'E' } else { state.status() }],
                        "{state:?} {name}"
                    );
                    assert!(
                        own.iter()
                            .filter(|reply| reply.kind == b'E')
                            .all(|reply| reply.field(b'S') == "ERROR"),
                        "{state:?} {name}"
                    );
                    assert_eq!(
                        kinds(&socket.ask("ROLLBACK").await).replace('N', ""),
                        "CZ",
                        "{state:?} {name}"
                    );
                    assert_eq!(socket.value("SELECT 1").await, "1");
                }
                None => {
                    let found = replies(&mut socket, usize::MAX).await;
                    let last = found
                        .last()
                        .unwrap_or_else(|| panic!("{state:?} {name}: closed in silence"));
                    assert_eq!(
                        (
                            last.kind,
                            last.field(b'S').as_str(),
                            last.field(b'C').as_str()
                        ),
                        (b'E', "FATAL", "08P01"),
                        "{state:?} {name}"
                    );
                    assert_eq!(
                        kinds(&found[..found.len() - 1]),
                        pending,
                        "{state:?} {name}"
                    );
                }
            }
        }
    }
}

/// Before a login, no message of a session does anything.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_does_anything_before_login() {
    let running = start().await;
    for (name, bytes) in messages() {
        // As the first bytes of all: a length that no startup packet has, once eight bytes are
        // there to be read.
        let mut socket = Socket::open(running.address).await;
        socket.send(&[bytes.clone(), vec![0; 8]].concat()).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01", "{name}");
        // While the password is asked for, and again after the server's challenge.
        for challenged in [false, true] {
            let mut socket = Socket::open(running.address).await;
            socket.send(&startup(&ANN)).await;
            assert_eq!(socket.receive().await.unwrap().kind, b'R');
            if challenged {
                socket
                    .send(&message(b'p', b"SCRAM-SHA-256\0\0\0\0\x0cn,,n=,r=abcd"))
                    .await;
                assert_eq!(socket.receive().await.unwrap().kind, b'R');
            }
            socket.send(&bytes).await;
            assert_eq!(
                socket.fatal().await.field(b'C'),
                "08P01",
                "{name}, challenged: {challenged}"
            );
        }
    }
    assert_eq!(
        (
            running.service.answers(),
            running.service.describes.load(Ordering::SeqCst)
        ),
        (0, 0)
    );
}

/// A body that is a byte short or a byte long under a length that says so: the stream cannot be
/// trusted after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_wrong_length_is_the_end() {
    let running = start().await;
    for state in [
        State::Idle,
        State::Pipeline,
        State::Transaction,
        State::Failed,
        State::Suspended,
    ] {
        for (name, bytes) in messages() {
            // These have no layout to miss, end the session anyway, or are refused whole.
            if [
                "FunctionCall",
                "CopyData",
                "CopyDone",
                "CopyFail",
                "Terminate",
                "PasswordMessage",
                "a reply's type",
            ]
            .contains(&name)
            {
                continue;
            }
            let body = &bytes[5..];
            let cut = (!body.is_empty()).then(|| message(bytes[0], &body[..body.len() - 1]));
            let long = message(bytes[0], &[body, b"x".as_slice()].concat());
            for wrong in cut.into_iter().chain([long]) {
                let (mut socket, pending) = state.reach(&running).await;
                socket.send(&wrong).await;
                let found = replies(&mut socket, usize::MAX).await;
                let last = found
                    .last()
                    .unwrap_or_else(|| panic!("{state:?} {name}: closed in silence"));
                assert_eq!(
                    (last.field(b'S').as_str(), last.field(b'C').as_str()),
                    ("FATAL", "08P01"),
                    "{state:?} {name}: {found:?}"
                );
                assert_eq!(
                    kinds(&found[..found.len() - 1]),
                    pending,
                    "{state:?} {name}"
                );
            }
        }
    }
}

/// A length that is negative, smaller than itself or larger than any message of its kind; nothing
/// is waited for and nothing is allocated.
#[tokio::test(flavor = "multi_thread")]
async fn a_length_out_of_bounds_is_the_end() {
    let running = start().await;
    for (name, bytes) in messages() {
        for length in [i32::MIN, -1, 0, 3, (16 << 20) + 5, i32::MAX] {
            let mut socket = Socket::log_in(running.address).await;
            let mut head = vec![bytes[0]];
            head.extend(length.to_be_bytes());
            socket.send(&head).await;
            assert_eq!(
                socket.fatal().await.field(b'C'),
                "08P01",
                "{name} of {length}"
            );
        }
    }
}

/// A client that goes in the middle of a message leaves no session behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_ends_is_dropped_with_its_client() {
    let running = start().await;
    for (_, bytes) in messages() {
        for kept in 1..bytes.len().min(12) {
            let mut socket = Socket::log_in(running.address).await;
            socket.send(&bytes[..kept]).await;
            let _ = socket.stream.shutdown().await;
            // Whatever it was, the server closes too.
            while socket.receive().await.is_some() {}
        }
    }
    for _ in 0..3_000 {
        if running.service.meter.print().contains("pgveil_sessions 0") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!(
        "sessions were left behind: {}",
        running.service.meter.print()
    );
}

/// Formats and counts that do not fit: an error, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_formats_and_counts_are_errors() {
    let running = start().await;
    let by_hand = |formats: &[i16], values: &[&[u8]], results: &[i16]| {
        let mut body = b"\0s\0".to_vec();
        body.extend(u16::try_from(formats.len()).unwrap().to_be_bytes());
        body.extend(formats.iter().flat_map(|format| format.to_be_bytes()));
        body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
            body.extend(*value);
        }
        body.extend(u16::try_from(results.len()).unwrap().to_be_bytes());
        body.extend(results.iter().flat_map(|format| format.to_be_bytes()));
        message(b'B', &body)
    };
    for (bind, sqlstate) in [
        (by_hand(&[2], &[b"a", b"b"], &[]), "22023"),
        (by_hand(&[-1, 0], &[b"a", b"b"], &[]), "22023"),
        (by_hand(&[0, 0, 0], &[b"a", b"b"], &[]), "08P01"),
        (by_hand(&[], &[b"a"], &[]), "08P01"),
        (by_hand(&[], &[b"a", b"b", b"c"], &[]), "08P01"),
        (by_hand(&[], &[b"a", b"b"], &[7]), "22023"),
        (by_hand(&[], &[b"a", b"b"], &[0, 1]), "08P01"),
        (by_hand(&[], &[b"\xff", b"b"], &[]), "22021"),
        (by_hand(&[], &[b"a\0", b"b"], &[]), "22021"),
    ] {
        let mut socket = Socket::log_in(running.address).await;
        socket
            .send(&[parse("s", "SELECT $1, $2"), bind, execute("", 0), sync()].concat())
            .await;
        let replies = socket.until_ready().await;
        assert_eq!(
            (kinds(&replies).as_str(), replies[1].field(b'C').as_str()),
            ("1EZ", sqlstate),
            "{replies:?}"
        );
        assert_eq!(socket.value("SELECT 1").await, "1");
    }
    for (bytes, sqlstate) in [
        (message(b'Q', b"SELECT '\xff'\0"), "22021"),
        (message(b'P', b"\xff\0SELECT 1\0\0\0"), "22021"),
        (message(b'D', b"P\xff\0"), "22021"),
        (message(b'E', b"\xff\0\0\0\0\0"), "22021"),
        (message(b'C', b"S\xff\0"), "22021"),
    ] {
        let mut socket = Socket::log_in(running.address).await;
        socket.send(&[bytes, sync()].concat()).await;
        assert_eq!(socket.until_ready().await[0].field(b'C'), sqlstate);
    }
}
