//! Any request to the console or to the desk, with or without a session: an answer that is no error
//! of the server, in pages that forbid scripts and frames, and never a panic.
//!
//! The first byte chooses the site, whether there is a session, and the form of the input: a form's
//! path and fields, one a line, which becomes a well-formed request; or the bytes of a request, in
//! which the bytes 1, 2 and 3 stand for the host, the session's cookie and the token of its forms.
#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pgveil::cli::start;
use pgveil::console::{self, ConsoleOptions, InForce};
use pgveil::desk::{self, DeskOptions};
use pgveil::engine::Reloadable;
use pgveil::postgres::{LocalPostgres, ServerOptions};
use pgveil::shadow::ShadowSource;
use pgveil::web::rate_limit::RequestLimit;
use pgveil::web::session::Lifetimes;
use pgveil::wire::SharedState;
use pgveil::wire::scram::make_verifier;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const TABLES: &str = "CREATE SCHEMA shop;
    CREATE TABLE shop.people (id int PRIMARY KEY, age int NOT NULL);
    CREATE TABLE shop.kinds (kind text PRIMARY KEY); INSERT INTO shop.kinds VALUES ('a'), ('b');
    INSERT INTO shop.people SELECT g, 20 + g % 50 FROM generate_series(1, 2000) g";
/// Long runs ask much.
const POLICY: &str = "version: 1
database: {url: \"DATABASE\"}
ledger: {url: \"sqlite://FOLDER/ledger.db\"}
privacy: {unit: person, budget: {epsilon: 100000, delta: 1e-3}, per_query: {epsilon: 0.1}}
roles: [{name: analyst, password: \"VERIFIER\", budget: {epsilon: 50000, delta: 1e-4}}]
operators: [{name: olga, password: \"VERIFIER\", may: [watch, own]}]
tables:
  shop.people: {unit: id, columns: {age: {bounds: [0, 100]}}}
  shop.kinds: public
";
const HEADERS: [&str; 2] = [
    "content-security-policy: default-src 'none';",
    "x-content-type-options: nosniff\r\n",
];

/// The server, its database, and the two sites.
struct Served {
    sites: [SocketAddr; 2],
    _runtime: Runtime,
    _database: LocalPostgres,
}

/// A session's cookie, its token, and the last price that its desk quoted.
#[derive(Clone, Default)]
struct Session {
    cookie: String,
    token: String,
    quote: String,
}

static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    let (sites, database) = runtime.block_on(serve());
    Served {
        sites,
        _runtime: runtime,
        _database: database,
    }
});
static SESSIONS: Mutex<[Option<Session>; 2]> = Mutex::new([None, None]);

async fn serve() -> ([SocketAddr; 2], LocalPostgres) {
    let options = ServerOptions {
        database: Some("shop".to_owned()),
        ..ServerOptions::default()
    };
    let database = LocalPostgres::start(options).await.unwrap();
    let connected = pgveil::postgres::connect(&database.config()).await.unwrap();
    connected.client.batch_execute(TABLES).await.unwrap();
    connected.close().await;
    let folder = folder();
    let path = folder.join("policy.yaml");
    let text = POLICY
        .replace("DATABASE", database.url())
        .replace("FOLDER", folder.to_str().unwrap())
        .replace("VERIFIER", &make_verifier("secret"));
    std::fs::write(&path, text).unwrap();
    let (file, bare) = start::read_to_compare(&path).unwrap_or_else(|_| panic!("the policy"));
    let (way, ledger) = (database.config(), start::ledger(&file).ok().unwrap());
    let opened = start::open(&file, &way).await.ok().unwrap();
    let started = start::engine(opened, way, ShadowSource::Local, ledger, 4, None).await;
    let engine = Arc::new(Reloadable::new(started.ok().unwrap().engine));
    let token = CancellationToken::new();
    let pace = RequestLimit {
        most: u32::MAX >> 8,
        every: Duration::from_nanos(1),
    };
    let (lifetimes, first_wait) = (Lifetimes::default(), Duration::ZERO);
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let sites = [&listeners[0], &listeners[1]].map(|listener| listener.local_addr().unwrap());
    let [console, desk] = listeners;
    let options = ConsoleOptions {
        tls: None,
        hosts: Vec::new(),
        lifetimes: Lifetimes::default(),
        first_wait,
        pace,
    };
    let (shown, exchange) = (Arc::new(InForce::new(bare)), Arc::clone(&engine));
    tokio::spawn(console::serve(
        console,
        exchange,
        shown,
        options,
        token.clone(),
    ));
    let options = DeskOptions {
        tls: None,
        hosts: Vec::new(),
        lifetimes,
        first_wait,
        drain: Duration::from_secs(1),
        pace,
    };
    tokio::spawn(desk::serve(
        desk,
        engine,
        SharedState::new(None),
        options,
        token,
    ));
    (sites, database)
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pgveil-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// For the answer to a whole request, and for one that may lack its end.
const PATIENCE: Duration = Duration::from_secs(25);
const GLANCE: Duration = Duration::from_millis(200);

/// The answer, as far as it came in time; empty where the server hung up.
fn exchange(at: SocketAddr, request: &[u8], patience: Duration) -> Vec<u8> {
    let mut socket = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    let _ = socket.write_all(request);
    let mut text = Vec::new();
    // A reset is an end, too; silence after a whole request is not.
    if let Err(error) = socket.read_to_end(&mut text) {
        let is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_silent || patience == GLANCE, "silence");
    }
    text
}

fn posted(at: SocketAddr, session: &Session, path: &str, body: &str) -> Vec<u8> {
    let Session { cookie, .. } = session;
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nCookie: {cookie}\r\n\
            Sec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\n\
            Content-Length: {length}\r\n\r\n{body}"
    );
    exchange(at, request.as_bytes(), PATIENCE)
}

fn between<'t>(text: &'t str, before: &str, after: char) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

fn log_in(at: SocketAddr, name: &str) -> Session {
    let body = format!("name={name}&password=secret");
    let answer = posted(at, &Session::default(), "/login", &body);
    let answer = String::from_utf8(answer).unwrap();
    let cookie = between(&answer, "set-cookie: ", ';').unwrap_or_else(|| panic!("{answer}"));
    let request =
        format!("GET / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n");
    let page = exchange(at, request.as_bytes(), PATIENCE);
    let page = String::from_utf8(page).unwrap();
    let token = between(&page, "name=\"token\" value=\"", '"').unwrap_or_else(|| panic!("{page}"));
    Session {
        cookie: cookie.to_owned(),
        token: token.to_owned(),
        quote: String::new(),
    }
}

fn escaped(text: &[u8]) -> String {
    text.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// The path in the first line, a field in each other one.
fn form(at: SocketAddr, session: &Session, text: &[u8]) -> Vec<u8> {
    let mut lines = text.split(|byte| *byte == b'\0');
    let path: String = lines
        .next()
        .unwrap_or_default()
        .iter()
        .filter(|byte| byte.is_ascii_graphic())
        .map(|byte| char::from(*byte))
        .collect();
    let field = |line: &[u8]| {
        let cut = line.iter().position(|byte| *byte == b'=');
        let (name, value) = line.split_at(cut.unwrap_or(line.len()));
        format!(
            "{}={}",
            escaped(name),
            escaped(value.get(1..).unwrap_or(b""))
        )
    };
    let mut fields: Vec<String> = lines.map(field).collect();
    fields.push(format!("token={}", session.token));
    if path == "run" && fields.len() == 1 {
        fields.push(format!("quote={}", session.quote));
    }
    posted(at, session, &format!("/{path}"), &fields.join("&"))
}

fn raw(at: SocketAddr, session: &Session, text: &[u8]) -> Vec<u8> {
    let host = at.to_string();
    let request: Vec<u8> = text
        .iter()
        .flat_map(|byte| match byte {
            1 => host.as_bytes(),
            2 => session.cookie.as_bytes(),
            3 => session.token.as_bytes(),
            _ => std::slice::from_ref(byte),
        })
        .copied()
        .collect();
    exchange(at, &request, GLANCE)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let site = usize::from(choice & 1);
    let at = SERVED.sites[site];
    let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let session = match choice & 2 {
        0 => sessions[site]
            .get_or_insert_with(|| log_in(at, ["olga", "analyst"][site]))
            .clone(),
        _ => Session::default(),
    };
    let answer = match choice & 4 {
        0 => form(at, &session, text),
        _ => raw(at, &session, text),
    };
    let Some(body_at) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return;
    };
    let shown = String::from_utf8_lossy(&answer);
    assert!(shown.starts_with("HTTP/1."), "{shown}");
    let status = &answer[9..12];
    assert!(status != b"500", "{shown}");
    // hyper itself answers what is no request, without a body.
    if answer.len() > body_at + 4 && !shown.starts_with("HTTP/1.1 100 ") {
        for header in HEADERS {
            assert!(shown.contains(header), "{header} in {shown}");
        }
    }
    if let (Some(session), Some(quote)) = (
        &mut sessions[site],
        between(&shown, "name=\"quote\" value=\"", '"'),
    ) {
        session.quote = quote.to_owned();
    }
    // Logged out, or a form that was spent.
    if matches!(status, b"303" | b"401" | b"403") {
        sessions[site] = None;
    }
});
