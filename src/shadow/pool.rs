//! A few sessions of the locked-down role. Each remembers the settings that it was last given.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Config};

use super::ShadowError;
use crate::postgres::{Connected, PoolUse, PostgresEngine, cancel, connect, identifier};
use crate::refusal::RefusalKind;

/// The time that a server gets beyond a statement's own limit, and a new session in all.
pub const GRACE: Duration = Duration::from_secs(10);

/// Leaves work that hangs: the session counts as lost.
pub async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ShadowError>>,
) -> Result<T, ShadowError> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(ShadowError::Lost("no answer in time".to_owned())),
    }
}

/// How a session becomes one of the locked-down roles.
#[derive(Debug)]
pub struct Login {
    config: Config,
    way: Route,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Logs in as the role.
    Direct,
    /// Logs in as the administrator, then switches.
    Switched,
}

impl Login {
    /// Logs in as the role itself: nothing to switch back to.
    pub fn direct(admin: &Config) -> Self {
        Self {
            config: admin.clone(),
            way: Route::Direct,
        }
    }

    /// Logs in as the administrator, with further startup options, and gives up its rights.
    pub fn from_administrator(admin: &Config, options: &str) -> Self {
        let mut config = admin.clone();
        if !options.is_empty() {
            config.options(format!(
                "{} {options}",
                admin.get_options().unwrap_or_default()
            ));
        }
        Self {
            config,
            way: Route::Switched,
        }
    }

    async fn open(&self, role: &str) -> Result<Session, ShadowError> {
        let mut config = self.config.clone();
        if self.way == Route::Direct {
            config.user(role);
        }
        let connected = connect(&config).await?;
        if self.way == Route::Switched {
            let name = identifier(role);
            if connected
                .client
                .batch_execute(&format!("SET SESSION AUTHORIZATION {name}"))
                .await
                .is_err()
            {
                // Only a superuser may change the session's user. A member may still take the role.
                connected
                    .client
                    .batch_execute(&format!("SET ROLE {name}"))
                    .await?;
            }
        }
        Ok(Session {
            connected,
            role: role.to_owned(),
            preamble: String::new(),
        })
    }
}

#[derive(Debug)]
struct Session {
    connected: Connected,
    role: String,
    /// The settings batch that ran last; empty: unknown.
    preamble: String,
}

#[derive(Debug)]
pub struct Pool {
    login: Login,
    engine: PostgresEngine,
    size: u32,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
}

impl Pool {
    pub fn new(login: Login, engine: PostgresEngine, size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(1024);
        Self {
            login,
            engine,
            size,
            permits: Arc::new(Semaphore::new(size as usize)),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Its sessions that are in use.
    pub fn in_use(&self) -> PoolUse {
        let size = self.size as usize;
        PoolUse {
            used: size.saturating_sub(self.permits.available_permits()),
            size,
        }
    }

    /// A session of this role under these settings, waiting for a free one.
    pub async fn lease(&self, role: &str, preamble: &str) -> Result<ShadowLease<'_>, ShadowError> {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| ShadowError::Lost("stopped".to_owned()))?;
        let mut lease = ShadowLease {
            pool: self,
            session: None,
            permit: Some(permit),
        };
        loop {
            let (session, is_fresh) = match self.take(role, preamble).await {
                Some(session) => (session, false),
                None => (within(GRACE, self.login.open(role)).await?, true),
            };
            let session = lease.session.insert(session);
            if session.preamble == preamble {
                return Ok(lease);
            }
            session.preamble.clear();
            let client = &session.connected.client;
            let setting = async { Ok(client.batch_execute(preamble).await?) };
            match within(GRACE, setting).await {
                Ok(()) => {
                    session.preamble = preamble.to_owned();
                    return Ok(lease);
                }
                // A session that died while idle says nothing about the next one.
                Err(ShadowError::Lost(_)) if !is_fresh => lease.session = None,
                Err(error) => {
                    lease.give_back();
                    return Err(error);
                }
            }
        }
    }

    /// The role's session that already has these settings, otherwise the one used last. Where the
    /// role has no session, the oldest one of another role is closed.
    async fn take(&self, role: &str, preamble: &str) -> Option<Session> {
        let other = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|session| !session.connected.client.is_closed());
            let found = idle
                .iter()
                .rposition(|session| session.role == role && session.preamble == preamble);
            if let Some(at) =
                found.or_else(|| idle.iter().rposition(|session| session.role == role))
            {
                return Some(idle.remove(at));
            }
            let leased = (self.size as usize).saturating_sub(self.permits.available_permits());
            let is_full = idle.len() + leased > self.size as usize;
            (is_full && !idle.is_empty()).then(|| idle.remove(0))
        };
        if let Some(other) = other {
            other.connected.close().await;
        }
        None
    }

    /// Waits until no session is in use, closes them all, and keeps new ones out while the permit
    /// lives.
    pub async fn exclusive(&self) -> Result<OwnedSemaphorePermit, ShadowError> {
        let permit = Arc::clone(&self.permits)
            .acquire_many_owned(self.size)
            .await
            .map_err(|_| ShadowError::Lost("stopped".to_owned()))?;
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for session in idle {
            session.connected.close().await;
        }
        Ok(permit)
    }

    pub async fn close(self) {
        // It fails only where the semaphore is closed, which never happens.
        let _ = self.exclusive().await;
    }
}

/// How often a lost connection is retried.
#[derive(Debug, Default)]
pub struct Attempts {
    lost: u32,
}

/// A session in use. Dropped without [`Self::settle`] (its future was cancelled), the session is
/// cancelled and closed.
#[derive(Debug)]
pub struct ShadowLease<'a> {
    pool: &'a Pool,
    session: Option<Session>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ShadowLease<'_> {
    pub fn client(&self) -> &Client {
        // `lease` returns only with a session, and `settle` consumes the lease.
        match &self.session {
            Some(session) => &session.connected.client,
            None => unreachable!("a lease holds its session until it is settled"),
        }
    }

    /// Takes the session back. `None` asks for one more attempt, since everything here is read-only
    /// and free.
    pub fn settle<T>(
        mut self,
        outcome: Result<T, ShadowError>,
        attempts: &mut Attempts,
    ) -> Option<Result<T, ShadowError>> {
        match outcome {
            Ok(value) => {
                self.give_back();
                Some(Ok(value))
            }
            Err(ShadowError::Lost(_)) if attempts.lost == 0 => {
                attempts.lost += 1;
                None
            }
            Err(ShadowError::Refusal(refusal))
                // A session whose answer was cut short still carries the rest of it.
                if refusal.kind() != RefusalKind::TooLarge =>
            {
                self.give_back();
                Some(Err(ShadowError::Refusal(refusal)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn give_back(&mut self) {
        if let Some(session) = self
            .session
            .take()
            .filter(|session| !session.connected.client.is_closed())
        {
            self.pool
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(session);
        }
    }
}

impl Drop for ShadowLease<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let permit = self.permit.take();
        // The embedded engine would see the request only after the statement has ended.
        let target =
            (self.pool.engine == PostgresEngine::Native).then(|| self.pool.login.config.clone());
        runtime.spawn(async move {
            if let Some(config) = target
                && let Err(error) = cancel(&config, &session.connected.client).await
            {
                tracing::debug!(%error, "cancelling a statement of the shadow");
            }
            session.connected.close().await;
            drop(permit);
        });
    }
}
