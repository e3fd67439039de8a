//! Sessions of roles that log in on the analysts' pages, not by PostgreSQL's protocol. They count
//! towards the same limits as other sessions, are listed and ended like them, and use the same
//! settings.

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cancel;
use super::connection_limit::{ConnectionSlot, Registry};
use super::login;
use super::pinned::WriteLimits;
use super::run::panic_refusal;
use super::settings::Settings;
use crate::engine::{
    COPIES, HeldMemory, MemoryBudget, MemoryReading, MemoryShare, Metrics, QuestionEnd,
    QuestionOutcome, Requester, Service, SessionCount, StatementSize, answer_deadline,
};
use crate::error::Error;
use crate::ledger::Origin;
use crate::operator;
use crate::operator::{Control, SessionEntry, State};
use crate::parse;
use crate::parse::{Query, SessionStatement, Statement};
use crate::refusal::{Ending, Reason, Refusal, reason};

/// Bytes of a key that nobody is given.
const SECRET_BYTES: usize = 32;

/// The state that all sessions share, by whichever way they come.
#[derive(Default)]
pub struct SharedState {
    pub(super) sessions: Arc<cancel::CancelKeys>,
    pub(super) places: Registry,
    pub(super) memory: MemoryBudget,
    /// All sessions that are logged in.
    pub(super) open: Arc<operator::OpenSessions>,
    /// The parts that operators reach, where the policy has operators.
    pub(super) control: Option<Arc<Control>>,
    pub(super) write_limits: WriteLimits,
}

impl SharedState {
    pub fn new(control: Option<Arc<Control>>) -> Arc<Self> {
        let open = control
            .as_ref()
            .map(|control| Arc::clone(control.sessions()));
        Arc::new(Self {
            open: open.unwrap_or_default(),
            control,
            ..Self::default()
        })
    }

    /// Without operators, and with other limits than a server has: for tests.
    pub fn with_write_limits(write_limits: WriteLimits) -> Arc<Self> {
        Arc::new(Self {
            write_limits,
            ..Self::default()
        })
    }

    /// What sessions hold of the memory that they share.
    pub fn memory(&self) -> MemoryReading {
        self.memory.reading()
    }

    /// A session, with a place, for a role that has proved who it is.
    ///
    /// # Errors
    /// 53300 where one of the limits on connections is met.
    pub fn open_session(
        &self,
        service: &impl Service,
        role: &str,
        origin: Origin,
        is_encrypted: bool,
    ) -> Result<PageSession, Refusal> {
        let address = origin.address.unwrap_or(IpAddr::from([127, 0, 0, 1]));
        let place = self.places.take(service, role, address)?;
        let Some(key) = self.sessions.enter(SECRET_BYTES) else {
            return Err(Refusal::new(
                reason::INTERNAL_ERROR,
                "could not generate a cancel key",
            ));
        };
        let entry = self
            .open
            .enter(key.process, (role, false), origin.address, is_encrypted);
        entry.wait(State::Idle, &origin.application);
        Ok(PageSession {
            role: role.to_owned(),
            key,
            place,
            share: self.memory.share(role),
            origin,
            entry,
            permit: Arc::new(Semaphore::new(1)),
            _counted: service.count_session(role),
            meter: service.meter(),
        })
    }
}

/// One session.
pub struct PageSession {
    role: String,
    key: cancel::CancelKey,
    place: Arc<ConnectionSlot>,
    share: MemoryShare,
    origin: Origin,
    entry: SessionEntry,
    /// One question at a time.
    permit: Arc<Semaphore>,
    _counted: Option<SessionCount>,
    meter: Arc<Metrics>,
}

/// A question as it was read: one SELECT, under the settings before it.
pub struct ReadQuestion {
    pub query: Query,
    pub requester: Requester,
    statement_timeout: Option<Duration>,
    /// The memory of the statement.
    _held: HeldMemory,
}

/// The right to ask: a session asks one question at a time.
#[derive(Debug)]
pub struct AskPermit(OwnedSemaphorePermit);

/// How a question is asked.
#[derive(Debug, Clone, Copy)]
pub enum Asking {
    /// Its price. It is cancelled when nobody waits for it any more, and after this time.
    Price(Duration),
    /// The question, which is charged for. It ends under the policy's timeout, also where
    /// nobody waits: its answer is kept.
    Answer,
}

impl PageSession {
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub fn role(&self) -> &str {
        &self.role
    }

    /// The number under which records and operators know the session.
    pub fn process(&self) -> i32 {
        self.key.process
    }

    /// The right to ask, or `None` where the question before it runs on for longer than this.
    pub async fn permit(&self, patience: Duration) -> Option<AskPermit> {
        let permit = Arc::clone(&self.permit).acquire_owned();
        let permit = tokio::time::timeout(patience, permit).await.ok()?;
        permit.ok().map(AskPermit)
    }

    /// Whether a question of the session is under way.
    pub fn is_asking(&self) -> bool {
        self.permit.available_permits() == 0
    }

    /// The session's share of memory.
    pub fn share(&self) -> &MemoryShare {
        &self.share
    }

    /// Whether an operator has ended it.
    pub fn is_ended(&self) -> bool {
        self.entry.end_token().is_cancelled()
    }

    /// Reads a text: one SELECT, and before it as many SET as there are, which hold for it alone.
    ///
    /// # Errors
    /// Those of [`parse::parse`] and of SET; 0A000 for another statement.
    pub async fn read(&self, service: &impl Service, sql: &str) -> Result<ReadQuestion, Refusal> {
        let size = StatementSize::of_bytes(sql.len());
        let permit = service.planning_limit().acquire(&self.role, size).await;
        let held = match size {
            StatementSize::Small => self.share.begin(),
            StatementSize::Large => self.share.hold(COPIES * parse::weight(sql))?,
        };
        let mut settings = self.settings(service)?;
        let read = permit.work(|| {
            let statements = parse::parse(sql)?;
            let query = one_question(statements, &mut settings)?;
            service.admits(&settings.session_settings())?;
            Ok(query)
        });
        match read {
            Ok(query) => Ok(ReadQuestion {
                query,
                requester: self.requester(&settings),
                statement_timeout: settings.duration("statement_timeout"),
                _held: held,
            }),
            Err(refusal) => {
                // A text that cannot be read is recorded like any other that is refused.
                let requester = self.requester(&settings);
                service.unread(&requester, &refusal).await;
                Err(refusal)
            }
        }
    }

    /// The settings that sessions of the role start with now.
    fn settings(&self, service: &impl Service) -> Result<Settings, Refusal> {
        let name = (
            "application_name".to_owned(),
            self.origin.application.clone(),
        );
        login::settings(service, &self.role, &[name])
    }

    fn requester(&self, settings: &Settings) -> Requester {
        Requester {
            role: self.role.clone(),
            session_settings: settings.session_settings(),
            settings: settings.of_answers(),
            search_path: settings.search_path(&self.role),
            process: self.key.process,
            origin: self.origin.clone(),
            given_up: Arc::default(),
            share: self.share.clone(),
        }
    }

    /// Asks one question, and waits for it as long as the session's own timeout and `asking` say.
    ///
    /// The engine charges before it runs, so the question runs in a task that is never dropped
    /// half-way. A timeout ends the wait for an answer and not the answer, as on the wire. An
    /// operator who ends the session cancels the question where it is safe to stop, and so does a
    /// caller who drops the future of this function. Until the question has ended, the session asks
    /// no other.
    ///
    /// # Errors
    /// Those of the question; 57014 after the timeout; 57P01 where an operator ends the session.
    pub async fn ask<T, F>(
        &self,
        service: &impl Service,
        reading: &ReadQuestion,
        (asking, AskPermit(permit)): (Asking, AskPermit),
        question: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.entry.run();
        let running = self.key.run();
        let token = running.token.clone();
        let own = reading.statement_timeout;
        let (kind, limit) = match asking {
            Asking::Price(limit) => ("explain", Some(own.map_or(limit, |own| own.min(limit)))),
            Asking::Answer => (
                "answer",
                own.map(|own| answer_deadline(own, service.quantum())),
            ),
        };
        let mut under_way = UnderWay {
            session: self,
            kind,
            statement: service.digest(&reading.query),
            started: Instant::now(),
            given_up: Arc::clone(&reading.requester.given_up),
            token: token.clone(),
            ended: None,
            goes_on: false,
        };
        let (future, place) = (question(token), Arc::clone(&self.place));
        let task = tokio::spawn(async move {
            let result = future.await;
            drop((permit, place));
            result
        });
        let ended = self.wait(task, limit).await;
        under_way.goes_on = matches!(
            (&ended, asking),
            (Waited::Overdue, Asking::Answer) | (Waited::Done(_), _)
        );
        let result = ended.into_result();
        under_way.ended = Some(match &result {
            Ok(_) => QuestionEnd::ANSWERED,
            Err(refusal) => refusal.into(),
        });
        drop(under_way);
        result
    }

    async fn wait<T>(
        &self,
        task: JoinHandle<Result<T, Error>>,
        limit: Option<Duration>,
    ) -> Waited<T> {
        let ended = self.entry.end_token();
        let overdue = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            done = task => Waited::Done(match done {
                Ok(result) => result.map_err(|error| error.report()),
                Err(error) => Err(panic_refusal(&error)),
            }),
            () = ended.cancelled() => Waited::Killed,
            () = overdue => Waited::Overdue,
        }
    }
}

/// How the wait for a question ended.
enum Waited<T> {
    Done(Result<T, Refusal>),
    /// An operator ended the session.
    Killed,
    Overdue,
}

impl<T> Waited<T> {
    fn into_result(self) -> Result<T, Refusal> {
        match self {
            Self::Done(result) => result,
            Self::Killed => Err(Refusal::new(
                reason::SESSION_ENDED,
                "terminating connection due to administrator command",
            )),
            Self::Overdue => {
                let message = "canceling statement due to statement timeout";
                let refusal = Refusal::new(reason::STATEMENT_CANCELLED, message);
                Err(refusal.detail("What was charged stays charged."))
            }
        }
    }
}

/// The SELECT of a text, with the settings before it set.
fn one_question(statements: Vec<Statement>, settings: &mut Settings) -> Result<Query, Refusal> {
    let other = || {
        let message = "this page asks one SELECT at a time";
        Refusal::new(reason::UNSUPPORTED_STATEMENT, message).hint(
            "Write one SELECT, VALUES or WITH query. SET may stand before it, and holds for it \
                alone.",
        )
    };
    let mut statements = statements;
    let last = statements.pop().ok_or_else(other)?;
    for statement in statements {
        let Statement::Session(SessionStatement::Set {
            scope,
            name,
            values,
        }) = statement
        else {
            return Err(other());
        };
        settings.set(scope, &name, values.as_deref())?;
    }
    let Statement::Query(query) = last else {
        return Err(other());
    };
    Ok(query)
}

/// The question of a text, and a requester as a session of the role would be that sends it: its
/// SELECT, also within EXPLAIN, under the settings before it.
///
/// # Errors
/// Those of SET; 0A000 for another statement.
pub fn question_of(
    service: &impl Service,
    role: &str,
    statements: Vec<Statement>,
) -> Result<(Query, Requester), Refusal> {
    let mut settings = login::settings(service, role, &[])?;
    let mut statements = statements;
    if let Some(Statement::Explain(query, _)) = statements.last() {
        let query = Statement::Query(query.clone());
        statements.pop();
        statements.push(query);
    }
    let query = one_question(statements, &mut settings)?;
    service.admits(&settings.session_settings())?;
    let requester = Requester {
        role: role.to_owned(),
        session_settings: settings.session_settings(),
        settings: settings.of_answers(),
        search_path: settings.search_path(role),
        process: 0,
        origin: Origin::default(),
        given_up: Arc::default(),
        share: MemoryShare::default(),
    };
    Ok((query, requester))
}

/// A question under way. Dropping it cancels the question, unless it may go on, and reports it.
struct UnderWay<'s> {
    session: &'s PageSession,
    kind: &'static str,
    statement: String,
    started: Instant,
    given_up: Arc<OnceLock<Ending>>,
    token: CancellationToken,
    ended: Option<QuestionEnd>,
    /// The question has ended, or its answer is kept for the next time.
    goes_on: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let end = self
            .ended
            .take()
            .unwrap_or_else(QuestionEnd::of_closed_connection);
        if end.outcome != QuestionOutcome::Answered {
            let _ = self.given_up.set(end.ending.clone());
        }
        // The record then says what the client was shown.
        if !self.goes_on {
            self.token.cancel();
        }
        let PageSession {
            role,
            entry,
            origin,
            ..
        } = self.session;
        entry.wait(State::Idle, &origin.application);
        let (kind, passed) = (self.kind, self.started.elapsed());
        self.session.meter.question(kind, &end, passed);
        let milliseconds = passed.as_secs_f64() * 1e3;
        let statement = self.statement.get(..12);
        tracing::info!(
            role,
            kind,
            statement,
            milliseconds,
            sqlstate = end.ending.sqlstate(),
            reason = end.reason.map(Reason::id),
            "asked"
        );
    }
}
