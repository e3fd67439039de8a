//! The open sessions: who, from where, since when, in which state. Never their statements, nor for
//! how long these run.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Idle,
    InTransaction,
    Running,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::InTransaction => "idle in transaction",
            Self::Running => "running",
        }
    }
}

#[derive(Debug)]
pub struct OpenSession {
    /// The number that `pg_backend_pid()` shows.
    pub id: i32,
    pub name: String,
    pub is_operator: bool,
    pub address: Option<IpAddr>,
    pub is_encrypted: bool,
    pub since: SystemTime,
    changing: Mutex<(State, String)>,
    statements: AtomicU64,
    ended: CancellationToken,
}

impl OpenSession {
    pub fn state(&self) -> State {
        self.lock().0
    }

    /// The client's application name now.
    pub fn application(&self) -> String {
        self.lock().1.clone()
    }

    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Ends the session. A statement that runs is cancelled where that is safe; what was charged
    /// stays charged.
    pub fn end(&self) {
        self.ended.cancel();
    }

    fn lock(&self) -> MutexGuard<'_, (State, String)> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All sessions, by their numbers.
#[derive(Debug, Default)]
pub struct OpenSessions(Mutex<BTreeMap<i32, Arc<OpenSession>>>);

/// The place of one session; dropping it takes it from the list.
#[derive(Debug)]
pub struct SessionEntry {
    sessions: Arc<OpenSessions>,
    session: Arc<OpenSession>,
}

impl OpenSessions {
    pub fn enter(
        self: &Arc<Self>,
        id: i32,
        (name, is_operator): (&str, bool),
        address: Option<IpAddr>,
        is_encrypted: bool,
    ) -> SessionEntry {
        let session = Arc::new(OpenSession {
            id,
            name: name.to_owned(),
            is_operator,
            address,
            is_encrypted,
            since: SystemTime::now(),
            changing: Mutex::new((State::Idle, String::new())),
            statements: AtomicU64::new(0),
            ended: CancellationToken::new(),
        });
        self.lock().insert(id, Arc::clone(&session));
        SessionEntry {
            sessions: Arc::clone(self),
            session,
        }
    }

    /// All that are open, by number.
    pub fn all(&self) -> Vec<Arc<OpenSession>> {
        self.lock().values().cloned().collect()
    }

    pub fn get(&self, id: i32) -> Option<Arc<OpenSession>> {
        self.lock().get(&id).cloned()
    }

    /// How many sessions of a role are open.
    pub fn count(&self, role: &str) -> usize {
        let open = self.lock();
        let of_role = open.values().filter(|s| !s.is_operator && s.name == role);
        of_role.count()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<OpenSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionEntry {
    /// A statement begins.
    pub fn run(&self) {
        self.session.statements.fetch_add(1, Ordering::Relaxed);
        self.session.lock().0 = State::Running;
    }

    /// The session waits for its client.
    pub fn wait(&self, state: State, application: &str) {
        let mut changing = self.session.lock();
        changing.0 = state;
        if changing.1 != application {
            application.clone_into(&mut changing.1);
        }
    }

    /// Cancelled when an operator ends the session.
    pub fn end_token(&self) -> CancellationToken {
        self.session.ended.clone()
    }
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        let mut open = self.sessions.lock();
        // Its number may belong to a newer session.
        if open
            .get(&self.session.id)
            .is_some_and(|session| Arc::ptr_eq(session, &self.session))
        {
            open.remove(&self.session.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_listed_while_it_is_open() {
        let sessions = Arc::new(OpenSessions::default());
        let first = sessions.enter(7, ("ann", false), None, true);
        let again = sessions.enter(7, ("bob", false), None, false);
        drop(first);
        let open = sessions.all();
        assert_eq!((open.len(), open[0].name.as_str()), (1, "bob"));
        again.run();
        assert_eq!((open[0].state(), open[0].statements()), (State::Running, 1));
        again.wait(State::InTransaction, "psql");
        assert_eq!(open[0].application(), "psql");
        assert_eq!((sessions.count("bob"), sessions.count("ann")), (1, 0));
        assert!(!again.end_token().is_cancelled());
        open[0].end();
        assert!(again.end_token().is_cancelled());
        drop(again);
        assert!(sessions.get(7).is_none());
    }
}
