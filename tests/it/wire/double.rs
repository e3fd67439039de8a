//! A service that answers by keywords in the statement and counts what it is asked.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use pgveil::engine::{
    Answer, Argument, ColumnDescription, ConnectionLimits, Description, Format, Metrics,
    PlanningLimit, Requester, Service,
};
use pgveil::error::Error;
use pgveil::ledger::Record;
use pgveil::parse::{ExplainFormat, Query, Statement, parse};
use pgveil::policy::{Certificate, Notices, Secret, SessionSettings};
use pgveil::refusal::{Ending, Refusal, reason};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One for all tests: key derivation is slow without optimisation.
static VERIFIER: LazyLock<String> = LazyLock::new(|| pgveil::wire::scram::make_verifier(PASSWORD));

pub const PASSWORD: &str = "correct horse";

pub struct Double {
    pub connections: AtomicU32,
    pub per_role: AtomicU32,
    pub per_address: AtomicU32,
    /// Whether roles need a certificate.
    pub certificates: AtomicBool,
    pub meter: Arc<Metrics>,
    pub planning_limit: Arc<PlanningLimit>,
    pub quantum: Mutex<Option<Duration>>,
    /// Calls of `answer`, those that have ended, and those that ended by their token.
    pub answers: AtomicUsize,
    pub finished: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub describes: AtomicUsize,
    pub records: Mutex<Vec<Record>>,
    /// The ending that the client got for each question.
    pub given_up: Mutex<Vec<Arc<OnceLock<Ending>>>>,
    /// Whether answers that are `gated` may end.
    pub gate: watch::Sender<bool>,
}

impl Double {
    pub fn answers(&self) -> usize {
        self.answers.load(Ordering::SeqCst)
    }
}

/// Column names and type OIDs of a statement.
fn columns(sql: &str, requester: &Requester) -> Vec<ColumnDescription> {
    let of = |names: &[(&str, u32, i16)]| {
        let column = |&(name, type_oid, type_size): &(&str, u32, i16)| ColumnDescription {
            name: name.to_owned(),
            type_oid,
            type_size,
            type_modifier: -1,
        };
        names.iter().map(column).collect()
    };
    if sql.contains("broad") {
        let name = "n".repeat(63);
        of(&vec![(name.as_str(), 23, 4); 1_000])
    } else if sql.contains("three") {
        of(&[("a", 23, 4), ("b", 23, 4), ("c", 23, 4)])
    } else if sql.contains("shifting") && requester.search_path == ["other"] {
        of(&[("?column?", 20, 8)])
    } else if sql.contains("client") || sql.contains('$') {
        of(&[("text", 25, -1)])
    } else {
        of(&[("?column?", 23, 4)])
    }
}

fn rows(
    sql: &str,
    requester: &Requester,
    arguments: &[Argument],
    formats: &[Format],
) -> Vec<Vec<Option<Bytes>>> {
    let text = |text: String| vec![Some(Bytes::from(text))];
    let number = |value: i32, column: usize| {
        let format = if formats.len() == 1 {
            formats.first()
        } else {
            formats.get(column)
        };
        Some(match format {
            Some(Format::Binary) => Bytes::copy_from_slice(&value.to_be_bytes()),
            Some(Format::Text) | None => Bytes::from(value.to_string()),
        })
    };
    if sql.contains("pg_backend_pid") {
        return vec![vec![number(requester.process, 0)]];
    }
    if sql.contains("client") {
        let Requester {
            role,
            session_settings,
            settings,
            search_path,
            process: _,
            origin: _,
            given_up: _,
            share: _,
        } = requester;
        return vec![text(format!(
            "{role} {:?} {search_path:?} {settings:?}",
            session_settings.epsilon
        ))];
    }
    if let Some(values) = sql.strip_prefix("VALUES (CAST((") {
        // The values of an EXECUTE, which are plain literals here.
        let literal = |value: &str| {
            value
                .split(')')
                .next()
                .unwrap()
                .trim_matches('\'')
                .to_owned()
        };
        let read = |value: &str| {
            Some(literal(value))
                .filter(|text| text != "NULL")
                .map(Bytes::from)
        };
        return vec![values.split("CAST((").map(read).collect()];
    }
    if sql.contains('$') {
        return arguments
            .iter()
            .map(|argument| vec![argument.value.clone()])
            .collect();
    }
    if sql.contains("three") {
        return vec![
            (0..3)
                .map(|column| number(i32::try_from(column).unwrap(), column))
                .collect(),
        ];
    }
    let count = if sql.contains("huge") {
        50_000
    } else if sql.contains("many") {
        10
    } else {
        1
    };
    (1..=count).map(|value| vec![number(value, 0)]).collect()
}

impl Service for Double {
    fn verifier(&self, role: &str) -> Option<Secret> {
        match role {
            "ann" => Some(Secret::from(VERIFIER.clone())),
            "broken" => Some(Secret::from("not a verifier".to_owned())),
            _ => None,
        }
    }

    fn database(&self) -> String {
        "survey".to_owned()
    }

    fn server_version(&self) -> String {
        "15.18".to_owned()
    }

    fn search_path(&self, _: &str) -> String {
        "\"$user\", public".to_owned()
    }

    fn session_settings(&self, _: &str) -> SessionSettings {
        SessionSettings {
            groups_per_unit: Some(7),
            ..SessionSettings::with_fixed_clips()
        }
    }

    fn in_force(&self, session_settings: &SessionSettings, name: &str) -> String {
        match (name, session_settings.epsilon) {
            ("pgveil.epsilon", None) => "0.5".to_owned(),
            _ => session_settings.show(name),
        }
    }

    fn certificate(&self, _: &str) -> Certificate {
        if self.certificates.load(Ordering::SeqCst) {
            Certificate::Required
        } else {
            Certificate::Optional
        }
    }

    fn admits(&self, session_settings: &SessionSettings) -> Result<(), Refusal> {
        match session_settings.epsilon {
            Some(epsilon) if epsilon > 2.0 => Err(Refusal::new(
                reason::SETTING_CEILING,
                "pgveil.epsilon may be at most 2 here",
            )),
            _ => Ok(()),
        }
    }

    fn meter(&self) -> Arc<Metrics> {
        Arc::clone(&self.meter)
    }

    fn read_text(&self, _: &str, text: &str) -> Result<Vec<Statement>, Refusal> {
        parse(text)
    }

    fn planning_limit(&self) -> Arc<PlanningLimit> {
        Arc::clone(&self.planning_limit)
    }

    fn quantum(&self) -> Option<Duration> {
        *self.quantum.lock().unwrap()
    }

    fn connection_limits(&self) -> ConnectionLimits {
        let read = |count: &AtomicU32| count.load(Ordering::SeqCst);
        ConnectionLimits {
            total: read(&self.connections),
            per_role: read(&self.per_role),
            per_address: read(&self.per_address),
        }
    }

    async fn describe(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        self.describes.fetch_add(1, Ordering::SeqCst);
        let sql = query.to_sql();
        let wanted = sql.matches('$').count();
        let parameters = (0..wanted)
            .map(|at| {
                parameters
                    .get(at)
                    .copied()
                    .filter(|&oid| oid != 0)
                    .unwrap_or(25)
            })
            .collect();
        Ok(Description {
            parameters,
            columns: columns(&sql, requester),
        })
    }

    async fn answer(
        &self,
        requester: &Requester,
        query: &Query,
        _: &[u32],
        arguments: &[Argument],
        formats: &[Format],
        cancel: CancellationToken,
    ) -> Result<Answer, Error> {
        self.answers.fetch_add(1, Ordering::SeqCst);
        self.given_up
            .lock()
            .unwrap()
            .push(Arc::clone(&requester.given_up));
        let sql = query.to_sql();
        let result = if sql.contains("fail") {
            let refusal = Refusal::new(
                reason::PRIVATE_ROWS,
                "rows of a private table cannot be shown",
            )
            .detail("The detail.")
            .hint("The hint.");
            Err(Error::Analyze(refusal.at(Some(8))))
        } else if sql.contains("panic") {
            panic!("by order of the test")
        } else if sql.contains("slow") {
            cancel.cancelled().await;
            self.cancelled.fetch_add(1, Ordering::SeqCst);
            Err(Error::Cancelled)
        } else {
            if sql.contains("sleepy") {
                tokio::time::sleep(Duration::from_millis(400)).await;
            } else if sql.contains("gated") {
                let _ = self.gate.subscribe().wait_for(|is_open| *is_open).await;
            }
            let notices =
                if sql.contains("noted") && requester.session_settings.notices != Notices::Off {
                    vec!["spent epsilon 0.1".to_owned()]
                } else {
                    Vec::new()
                };
            let rows = rows(&sql, requester, arguments, formats);
            let held = requester.share.hold_rows(&rows).map_err(Error::Shadow);
            held.map(|held| Answer {
                columns: columns(&sql, requester),
                rows,
                notices,
                warnings: Vec::new(),
                held,
            })
        };
        self.finished.fetch_add(1, Ordering::SeqCst);
        result
    }

    fn digest(&self, _: &Query) -> String {
        "0".repeat(64)
    }

    async fn record(&self, record: Record) {
        self.records.lock().unwrap().push(record);
    }

    /// Integers.
    async fn to_binary(
        &self,
        _: &Requester,
        _: &[u32],
        rows: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>, Error> {
        let read = |value: Bytes| {
            Bytes::copy_from_slice(
                &std::str::from_utf8(&value)
                    .unwrap()
                    .parse::<i32>()
                    .unwrap()
                    .to_be_bytes(),
            )
        };
        Ok(rows
            .into_iter()
            .map(|row| row.into_iter().map(|value| value.map(read)).collect())
            .collect())
    }

    async fn explain(
        &self,
        _: &Requester,
        _: &Query,
        _: &[u32],
        _: &[Argument],
        format: ExplainFormat,
        _: CancellationToken,
    ) -> Result<Vec<String>, Error> {
        let lines: &[&str] = if format == ExplainFormat::Json {
            &["[", "]"]
        } else {
            &["Release", "  epsilon 0.1"]
        };
        Ok(lines.iter().map(|&line| line.to_owned()).collect())
    }
}

/// A server on a free port.
pub struct Running {
    pub address: std::net::SocketAddr,
    pub service: Arc<Double>,
    pub shutdown: CancellationToken,
    pub server: tokio::task::JoinHandle<std::io::Result<()>>,
}

pub async fn start() -> Running {
    start_with(None).await
}

pub async fn start_with(tls: Option<Arc<rustls::ServerConfig>>) -> Running {
    start_at("127.0.0.1:0", tls).await
}

pub async fn start_at(address: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Running {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = Arc::new(Double {
        connections: AtomicU32::new(20),
        per_role: AtomicU32::new(20),
        per_address: AtomicU32::new(20),
        certificates: AtomicBool::new(false),
        meter: Arc::default(),
        planning_limit: Arc::default(),
        quantum: Mutex::default(),
        answers: AtomicUsize::new(0),
        finished: AtomicUsize::new(0),
        cancelled: AtomicUsize::new(0),
        describes: AtomicUsize::new(0),
        records: Mutex::default(),
        given_up: Mutex::default(),
        gate: watch::Sender::default(),
    });
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(pgveil::wire::serve(
        listener,
        tls,
        service.clone(),
        shutdown.clone(),
    ));
    Running {
        address,
        service,
        shutdown,
        server,
    }
}

/// Waits until the condition holds, for at most thirty seconds.
pub async fn until(condition: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition never held");
}
