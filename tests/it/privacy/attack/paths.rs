//! Every refused text again, by every path that a client can send it on: none shows a row, none
//! costs anything.

use std::net::SocketAddr;
use std::sync::Arc;

use pgveil::engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fixture::Veil;
use crate::wire::socket::{
    Reply, Socket, bind, describe, execute, kinds, message, parse, query, startup, sync,
};

/// A veil behind its own port.
pub struct Gate {
    pub veil: Arc<Veil>,
    address: SocketAddr,
    _shutdown: DropGuard,
}

impl Gate {
    pub async fn before(veil: Veil) -> Self {
        let (address, shutdown) = opened(Arc::clone(&veil.engine)).await;
        Self {
            veil: Arc::new(veil),
            address,
            _shutdown: shutdown,
        }
    }

    /// A session of the demo's analyst.
    pub async fn log_in(&self) -> Socket {
        log_in(self.address, "analyst", "nls").await
    }
}

/// A port that leads to an engine, while the guard is held.
pub async fn opened(engine: Arc<Engine>) -> (SocketAddr, DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        engine,
        shutdown.clone(),
    ));
    (address, shutdown.drop_guard())
}

/// A session of a role whose password is the demo's.
pub async fn log_in(address: SocketAddr, role: &str, database: &str) -> Socket {
    let mut socket = Socket::over(Box::new(TcpStream::connect(address).await.unwrap()));
    socket
        .send(&startup(&[("user", role), ("database", database)]))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket
}

/// How a text is sent. Each gives the replies to the text itself, in a session that is usable
/// afterwards.
#[derive(Debug, Clone, Copy)]
enum ProtocolPath {
    Simple,
    Comments,
    UnicodeNames,
    QuotedNames,
    SearchPath,
    SecondOfAString,
    ExtendedText,
    ExtendedBinary,
    SwappedUnderItsName,
    Prepared,
    Cursor,
    HeldCursor,
    BinaryCursor,
    CopyText,
    CopyCsv,
    CopyBinary,
    UpperCase,
    LineComments,
    Portal,
    Explained,
}

const PATHS: [ProtocolPath; 20] = [
    ProtocolPath::Simple,
    ProtocolPath::Comments,
    ProtocolPath::UnicodeNames,
    ProtocolPath::QuotedNames,
    ProtocolPath::SearchPath,
    ProtocolPath::SecondOfAString,
    ProtocolPath::ExtendedText,
    ProtocolPath::ExtendedBinary,
    ProtocolPath::SwappedUnderItsName,
    ProtocolPath::Prepared,
    ProtocolPath::Cursor,
    ProtocolPath::HeldCursor,
    ProtocolPath::BinaryCursor,
    ProtocolPath::CopyText,
    ProtocolPath::CopyCsv,
    ProtocolPath::CopyBinary,
    ProtocolPath::UpperCase,
    ProtocolPath::LineComments,
    ProtocolPath::Portal,
    ProtocolPath::Explained,
];

impl ProtocolPath {
    async fn send(self, socket: &mut Socket, sql: &str) -> Vec<Reply> {
        match self {
            Self::Simple => socket.ask(sql).await,
            Self::Comments => {
                socket
                    .ask(&outside_quotes(sql, &|text| {
                        text.replace(' ', " /* '; -- /* */ \" */ ")
                    }))
                    .await
            }
            Self::UnicodeNames => {
                socket
                    .ask(
                        &sql.replace("nls.", r#"U&"\006els"."#)
                            .replace("women", r#"U&"w\+00006fmen""#),
                    )
                    .await
            }
            Self::QuotedNames => {
                socket
                    .ask(
                        &sql.replace("nls.women", r#""nls"."women""#)
                            .replace("birth_year", r#""birth_year""#),
                    )
                    .await
            }
            Self::SearchPath => {
                socket.ask("SET search_path = nls, pg_catalog").await;
                let replies = socket.ask(&sql.replace("nls.", "")).await;
                socket.ask("RESET search_path").await;
                replies
            }
            Self::SecondOfAString => socket.ask(&format!("BEGIN; COMMIT; {sql}")).await,
            Self::ExtendedText => extended(socket, &[parse("", sql)], "", 0).await,
            Self::ExtendedBinary => extended(socket, &[parse("", sql)], "", 1).await,
            Self::SwappedUnderItsName => {
                let harmless = [
                    parse("s", "SELECT 1"),
                    describe('S', "s"),
                    message(b'C', b"Ss\0"),
                    parse("s", sql),
                ];
                let replies = extended(socket, &harmless, "s", 0).await;
                socket.ask("DEALLOCATE ALL").await;
                replies
            }
            Self::Prepared => {
                let replies = socket.ask(&format!("PREPARE s AS {sql}")).await;
                if kinds(&replies).contains('E') {
                    return replies;
                }
                let replies = socket.ask("EXECUTE s").await;
                socket.ask("DEALLOCATE ALL").await;
                replies
            }
            Self::Cursor => {
                cursor(
                    socket,
                    &format!("BEGIN; DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR {sql}"),
                )
                .await
            }
            Self::BinaryCursor => {
                cursor(socket, &format!("BEGIN; DECLARE c BINARY CURSOR FOR {sql}")).await
            }
            Self::HeldCursor => {
                cursor(
                    socket,
                    &format!("BEGIN; DECLARE c CURSOR WITH HOLD FOR {sql}; COMMIT"),
                )
                .await
            }
            Self::UpperCase => {
                socket
                    .ask(&outside_quotes(sql, &|text| text.to_uppercase()))
                    .await
            }
            Self::LineComments => {
                socket
                    .ask(&outside_quotes(sql, &|text| {
                        text.replace(' ', " -- '\" /* $$\n")
                    }))
                    .await
            }
            Self::Portal => {
                let messages = [
                    parse("", sql),
                    bind("p", "", &[], &[]),
                    describe('P', "p"),
                    execute("p", 1),
                    execute("p", 1),
                    sync(),
                ];
                socket.send(&messages.concat()).await;
                socket.until_ready().await
            }
            // A plan is rows, too: where one is described, the statement would be answered.
            Self::Explained => socket.ask(&format!("EXPLAIN VERBOSE {sql}")).await,
            Self::CopyText => socket.ask(&format!("COPY ({sql}) TO STDOUT")).await,
            Self::CopyCsv => {
                socket
                    .ask(&format!("COPY ({sql}) TO STDOUT WITH (FORMAT csv, HEADER)"))
                    .await
            }
            Self::CopyBinary => {
                socket
                    .ask(&format!("COPY ({sql}) TO STDOUT (FORMAT binary)"))
                    .await
            }
        }
    }
}

/// A cursor's rows, or why it was not declared.
async fn cursor(socket: &mut Socket, declare: &str) -> Vec<Reply> {
    let mut replies = socket.ask(declare).await;
    if !kinds(&replies).contains('E') {
        replies = socket.ask("FETCH ALL FROM c").await;
    }
    socket.ask("ROLLBACK").await;
    socket.ask("CLOSE ALL").await;
    replies
}

/// Changes the text outside of string constants.
fn outside_quotes(sql: &str, change: &dyn Fn(&str) -> String) -> String {
    let parts = sql.split('\'').enumerate();
    parts
        .map(|(at, part)| {
            if at % 2 == 0 {
                change(part)
            } else {
                part.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join("'")
}

/// Parse, Describe, Bind and Execute of a named statement, in one packet.
async fn extended(socket: &mut Socket, head: &[Vec<u8>], name: &str, format: i16) -> Vec<Reply> {
    let tail = [
        describe('S', name),
        bind("", name, &[], &[format]),
        execute("", 0),
        sync(),
    ];
    socket.send(&[head.concat(), tail.concat()].concat()).await;
    socket.until_ready().await
}

/// `None` where the text was refused and nothing was shown.
fn shown(replies: &[Reply]) -> Option<String> {
    // D is a row, d a piece of a copy.
    let rows = kinds(replies)
        .chars()
        .filter(|kind| matches!(kind, 'D' | 'd'))
        .count();
    let refused = replies.iter().find(|reply| reply.kind == b'E');
    match refused {
        Some(error) if rows == 0 && error.field(b'C') != "XX000" => None,
        Some(error) => Some(format!(
            "{rows} rows, then {} {}",
            error.field(b'C'),
            error.field(b'M')
        )),
        None => Some(format!("{rows} rows")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_refused_on_every_path() {
    let gate = Gate::before(Veil::demo(super::rich, Veil::silent()).await).await;
    let mut socket = gate.log_in().await;
    let ledger = gate.veil.engine.ledger();
    let before = ledger.balances("analyst").await.unwrap().role.spent;
    let texts: Vec<&str> = include_str!("refused.sql")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .collect();
    let mut failures = Vec::new();
    for path in PATHS {
        // With the schema in the path a bare name is the table; and a plan over public tables may
        // be shown.
        for sql in texts.iter().filter(|sql| {
            !matches!(path, ProtocolPath::SearchPath | ProtocolPath::Explained)
                || sql.contains("nls.")
        }) {
            if let Some(shown) = shown(&path.send(&mut socket, sql).await) {
                failures.push(format!("{path:?}: {sql}: {shown}"));
            }
        }
        // The session lives, and a question would still be answered.
        assert_eq!(socket.value("SELECT 1").await, "1", "{path:?}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(ledger.balances("analyst").await.unwrap().role.spent, before);
    assert_eq!(ledger.failures_left("analyst", 10).await.unwrap(), 10);
}

/// Nothing that is not a query reaches the database either.
#[tokio::test(flavor = "multi_thread")]
async fn no_other_statement_or_message_reaches_the_rows() {
    let gate = Gate::before(Veil::demo(super::rich, Veil::silent()).await).await;
    let mut socket = gate.log_in().await;
    for sql in [
        "DO $$BEGIN PERFORM 1 FROM nls.women; END$$",
        "CREATE TABLE t AS SELECT * FROM nls.women",
        "CREATE TEMP TABLE t AS SELECT * FROM nls.women",
        "SELECT * INTO t FROM nls.women",
        "CREATE VIEW v AS SELECT * FROM nls.women",
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "INSERT INTO nls.women SELECT * FROM nls.women RETURNING *",
        "UPDATE nls.women SET race = race RETURNING *",
        "DELETE FROM nls.women RETURNING *",
        "MERGE INTO nls.women w USING nls.women v ON true WHEN MATCHED THEN DELETE",
        "TRUNCATE nls.women",
        "COPY nls.women TO STDOUT",
        "COPY nls.women FROM STDIN",
        "COPY (SELECT count(*) FROM nls.women) TO '/tmp/x'",
        "COPY (SELECT count(*) FROM nls.women) TO PROGRAM 'cat'",
        "EXPLAIN ANALYZE SELECT count(*) FROM nls.women",
        "EXPLAIN (ANALYZE) SELECT * FROM nls.women",
        "LOCK TABLE nls.women",
        "VACUUM nls.women",
        "ANALYZE nls.women",
        "CALL f()",
        "NOTIFY a, 'b'",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "SET pgveil.noise = off",
        "SET pgveil.seed = 42",
        "SET pgveil.epsilon = 1e20",
        "SET pgveil.max_groups_per_unit = 1000000000",
        "GRANT SELECT ON nls.women TO public",
        "LOAD 'x'",
        "SELECT $1::int FROM nls.women",
    ] {
        let replies = socket.ask(sql).await;
        assert_eq!(shown(&replies), None, "{sql}: {replies:?}");
    }
    // The function-call message, which has no SQL at all.
    socket
        .send(
            &[
                message(b'F', &[0, 0, 0, 42, 0, 0, 0, 0, 0, 0]),
                query("SELECT 1"),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(shown(&replies), None, "{replies:?}");
}

/// Settings that a session might change to see more, and their values.
const SWITCHES: [(&str, &str); 14] = [
    ("pgveil.noise", "off"),
    ("pgveil.seed", "42"),
    ("pgveil.epsilon", "1e20"),
    ("pgveil.epsilon", "-1"),
    ("pgveil.epsilon", "NaN"),
    ("pgveil.delta", "0.99999"),
    ("pgveil.accounting", "off"),
    ("pgveil.budget", "1e9"),
    ("pgveil.quantum", "0"),
    ("pgveil.max_groups_per_unit", "1000000000"),
    ("pgveil.max_rows_per_unit", "1000000000"),
    ("role", "postgres"),
    ("session_authorization", "postgres"),
    ("session_replication_role", "replica"),
];

/// Whether the session has the setting at the value.
async fn is_turned(socket: &mut Socket, name: &str, value: &str) -> bool {
    let replies = socket.ask(&format!("SHOW {name}")).await;
    replies
        .iter()
        .any(|reply| reply.kind == b'D' && reply.values()[0].as_deref() == Some(value))
}

/// SET in its forms, by each protocol, next to other statements, from a function, in a string of
/// SQL, and in the startup packet.
#[tokio::test(flavor = "multi_thread")]
async fn no_path_turns_a_switch() {
    let gate = Gate::before(Veil::demo(super::rich, Veil::silent()).await).await;
    let mut socket = gate.log_in().await;
    let mut turned = Vec::new();
    for (name, value) in SWITCHES {
        for sql in [
            format!("SET {name} = '{value}'"),
            format!("SET SESSION {name} TO '{value}'"),
            format!("BEGIN; SET LOCAL {name} = '{value}'"),
            format!("SELECT set_config('{name}', '{value}', false)"),
            format!("SELECT count(*), set_config('{name}', '{value}', false) FROM nls.women"),
            format!("UPDATE pg_settings SET setting = '{value}' WHERE name = '{name}'"),
            format!("ALTER ROLE analyst SET {name} = '{value}'"),
            format!("ALTER ROLE CURRENT_USER SET {name} = '{value}'"),
            format!("ALTER DATABASE nls SET {name} = '{value}'"),
            format!("ALTER SYSTEM SET {name} = '{value}'"),
            format!("DO $$BEGIN SET {name} = '{value}'; END$$"),
            format!("PREPARE s AS SELECT set_config('{name}', '{value}', true); EXECUTE s"),
        ] {
            socket.ask(&sql).await;
            let simply = is_turned(&mut socket, name, value).await;
            socket.ask("ROLLBACK").await;
            extended(&mut socket, &[parse("", &sql)], "", 0).await;
            if simply || is_turned(&mut socket, name, value).await {
                turned.push(sql);
            }
            socket.ask("DISCARD ALL").await;
        }
        for parameter in [
            (name.to_owned(), value.to_owned()),
            ("options".to_owned(), format!("-c {name}={value}")),
            ("options".to_owned(), format!("--{name}={value}")),
        ] {
            let mut other = Socket::over(Box::new(TcpStream::connect(gate.address).await.unwrap()));
            other
                .send(&startup(&[
                    ("user", "analyst"),
                    ("database", "nls"),
                    (&parameter.0, &parameter.1),
                ]))
                .await;
            let offer = other.receive().await.unwrap();
            if offer.kind == b'E' {
                continue;
            }
            assert_eq!(&offer.body[..4], 10_i32.to_be_bytes());
            other.prove("analyst", None).await;
            if other.greeted().await && is_turned(&mut other, name, value).await {
                turned.push(format!("startup: {parameter:?}"));
            }
        }
    }
    assert!(turned.is_empty(), "{}", turned.join("\n"));
    assert_eq!(gate.veil.spent().await, 0.0);
    // The policy decides, as ever.
    assert_eq!(socket.value("SHOW pgveil.epsilon").await, "0.5");
}
