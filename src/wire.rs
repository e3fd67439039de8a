//! The edge: PostgreSQL's protocol towards clients, down to one call of [`Service`] a statement.
//!
//! `serve` accepts; `startup` negotiates TLS; `login` authenticates; `connection` takes one message
//! after another; `simple` and `extended` are the two query protocols; `run` passes one question to
//! the engine; `command` answers statements about the session itself, `advisory` its locks;
//! `cursor`, `prepared` and `copy` are SQL's own ways to an answer; `writing` is for roles that
//! write rows.

mod advisory;
mod cancel;
mod certificate;
mod command;
mod connection;
mod connection_limit;
mod copy;
mod cursor;
mod extended;
mod locks;
mod login;
mod message;
mod outcome;
mod page_session;
mod pinned;
mod portal;
mod prepared;
mod run;
pub mod scram;
mod settings;
mod simple;
mod startup;
mod stream;
mod tls;
mod transaction;
mod unauthenticated;
mod write_stop;
mod writing;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::Service;
use crate::ledger::{Event, Origin, Record};
use crate::operator::OperatorService;
use crate::refusal::Ending;
pub use certificate::names as certificate_names;
use connection::{Connection, ServerState};
use login::{LoggedIn, StartupRequest};
use outcome::Outcome;
pub use page_session::{AskPermit, Asking, PageSession, ReadQuestion, SharedState, question_of};
pub use pinned::WriteLimits;
use startup::StartupOutcome;
use stream::FramedStream;
pub use tls::Tls;
pub use unauthenticated::{PendingConnection, Unauthenticated};

/// The time from accept to AuthenticationOk.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that running statements get once the server stops, unless the operator says another.
pub const DRAIN: Duration = Duration::from_secs(10);
/// And then their last messages.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// The silence after which a client is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The state that all connections share.
struct Server<S> {
    service: Arc<S>,
    tls: Tls,
    shutdown: CancellationToken,
    drain: Duration,
    decoy: scram::Decoy,
    /// Places of operators.
    operator_places: connection_limit::Registry,
    /// The state that all sessions share.
    commons: Arc<SharedState>,
    unauthenticated: Arc<unauthenticated::Unauthenticated>,
}

/// As [`serve_reloadable`], with a certificate that stays and [`DRAIN`].
///
/// # Errors
/// Those of [`serve_reloadable`].
pub async fn serve<S: Service>(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    service: Arc<S>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    serve_reloadable(listener, Tls::from(tls), service, shutdown, DRAIN).await
}

/// As [`serve_operated`], without operators.
///
/// # Errors
/// Those of [`serve_operated`].
pub async fn serve_reloadable<S: Service>(
    listener: TcpListener,
    tls: Tls,
    service: Arc<S>,
    shutdown: CancellationToken,
    drain: Duration,
) -> std::io::Result<()> {
    let commons = SharedState::new(None);
    serve_operated(listener, tls, service, shutdown, drain, commons).await
}

/// Serves clients until `shutdown` is cancelled. Then logins and idle sessions end with 57P01 at
/// once, and running statements get the time to drain. Where `commons` has a control, operators of
/// the policy log in to the admin database.
///
/// # Errors
/// Where the operating system has no randomness to give.
pub async fn serve_operated<S: Service>(
    listener: TcpListener,
    tls: Tls,
    service: Arc<S>,
    shutdown: CancellationToken,
    drain: Duration,
    commons: Arc<SharedState>,
) -> std::io::Result<()> {
    let (operator_places, unauthenticated) = Default::default();
    let server = Arc::new(Server {
        service,
        tls,
        shutdown,
        drain,
        decoy: scram::Decoy::new()?,
        operator_places,
        commons,
        unauthenticated,
    });
    // Each running answer holds a sender, so the receiver ends when the last of them has.
    let (answers, mut answered) = mpsc::channel::<()>(1);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = server.shutdown.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => note(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, address)) => {
                    let places = server.service.connection_limits().total;
                    let pending = server.unauthenticated.enter(address.ip(), places);
                    let answers = answers.clone();
                    connections.spawn(client(server.clone(), socket, address, pending, answers));
                }
                Err(error) => {
                    tracing::warn!(kind = ?error.kind(), "accept failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
    drop((listener, answers));
    let drained = async {
        while let Some(ended) = connections.join_next().await {
            note(ended);
        }
        answered.recv().await
    };
    if timeout(drain + FAREWELL_TIMEOUT, drained).await.is_err() {
        tracing::warn!("statements still ran when the time to stop was over");
    }
    connections.abort_all();
    Ok(())
}

fn note(ended: Result<(), JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("a connection ended by a panic");
    }
}

/// One connection, from its first byte to its last.
async fn client<S: Service>(
    server: Arc<Server<S>>,
    socket: TcpStream,
    address: SocketAddr,
    pending: unauthenticated::PendingConnection,
    answers: mpsc::Sender<()>,
) {
    let _ = socket.set_nodelay(true);
    keep_alive(&socket);
    let from = address.ip();
    let opening = async {
        let (mut channel, opening) =
            match startup::open(socket, server.tls.current(), &server.commons.sessions).await {
                StartupOutcome::Client(startup) => StartupRequest::new(*startup),
                StartupOutcome::Done => return None,
                StartupOutcome::Refused(channel, refusal) => {
                    channel.farewell(Some(&refusal)).await;
                    return None;
                }
            };
        let (asked, origin) = (opening.shown_role(), opening.origin(from));
        let (is_encrypted, operator) = (opening.is_encrypted(), server.operates(&opening));
        let logged_in = server
            .log_in(operator.as_deref(), &mut channel, opening, from)
            .await;
        report(&*server.service, &asked, from, &origin, &logged_in).await;
        match logged_in {
            Ok(logged_in) => {
                let name = (logged_in.role.as_str(), operator.is_some());
                let id = logged_in.key.process;
                let entry = server
                    .commons
                    .open
                    .enter(id, name, origin.address, is_encrypted);
                Some((channel, logged_in, origin, entry, operator))
            }
            Err(Outcome::Refused(refusal) | Outcome::Fatal(refusal)) => {
                channel.farewell(Some(&refusal)).await;
                None
            }
            Err(Outcome::Closed) => None,
        }
    };
    let opened = tokio::select! {
        opened = timeout(LOGIN_TIMEOUT, opening) => opened.ok().flatten(),
        () = server.shutdown.cancelled() => None,
        () = pending.shown_out.cancelled() => {
            tracing::debug!("too many connections wait to log in, the oldest is closed");
            None
        }
    };
    drop(pending);
    if let Some((channel, logged_in, origin, entry, operator)) = opened {
        let common = ServerState {
            shutdown: server.shutdown.clone(),
            drain: server.drain,
            write_limits: server.commons.write_limits,
            answers,
            share: server.commons.memory.share(&logged_in.role),
            origin,
            entry,
        };
        match operator {
            Some(service) => {
                Connection::new(channel, service, logged_in, common)
                    .run()
                    .await;
            }
            None => {
                Connection::new(channel, server.service.clone(), logged_in, common)
                    .run()
                    .await;
            }
        }
    }
}

/// A client that is gone without a word frees its connection.
fn keep_alive(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE / 4),
    );
}

impl<S> Server<S> {
    /// The admin database, where the name is an operator's. No name is both an operator's and a
    /// role's.
    fn operates(&self, opening: &StartupRequest) -> Option<Arc<OperatorService>> {
        let control = self.commons.control.as_ref()?;
        control
            .operator(opening.user())
            .map(|_| Arc::new(OperatorService(Arc::clone(control))))
    }
}

impl<S: Service> Server<S> {
    /// Logs in to the admin database, or to the data's.
    async fn log_in(
        &self,
        operator: Option<&OperatorService>,
        channel: &mut FramedStream,
        opening: StartupRequest,
        from: IpAddr,
    ) -> Result<LoggedIn, Outcome> {
        match operator {
            Some(service) => {
                let to = (service, &self.operator_places);
                login::log_in(self, to, channel, opening, from).await
            }
            None => {
                let to = (&*self.service, &self.commons.places);
                login::log_in(self, to, channel, opening, from).await
            }
        }
    }
}

/// Counts, logs and records a login, unless the client left before it had its answer.
async fn report<S: Service>(
    service: &S,
    asked: &str,
    from: IpAddr,
    origin: &Origin,
    outcome: &Result<LoggedIn, Outcome>,
) {
    let (session, ending) = match outcome {
        Ok(logged_in) => {
            tracing::info!(
                role = asked,
                address = %from,
                application = origin.application,
                "session opened"
            );
            (logged_in.key.process, Ending::Succeeded)
        }
        Err(Outcome::Refused(refusal) | Outcome::Fatal(refusal)) => {
            tracing::info!(
                role = asked,
                address = %from,
                sqlstate = refusal.sqlstate,
                reason = refusal.reason.id(),
                "login refused"
            );
            (0, Ending::from(refusal))
        }
        Err(Outcome::Closed) => return,
    };
    service.meter().login(outcome.is_ok());
    let record = Record::now(asked, session, origin.clone(), Event::Login);
    service.record(record.with_ending(ending)).await;
}
