//! Operators: who watches a running proxy, what they see and what they may do. The admin database
//! speaks to this module, and nothing in it reads a row.
//!
//! `tables` is the one list of tables: names, columns and rights. `show` fills them, `acts` makes
//! changes, each recorded before it takes effect.

mod acts;
mod certificate;
mod command;
mod service;
mod sessions;
mod show;
mod tables;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::engine::Reloadable;
use crate::ledger::Origin;
use crate::policy::{Operator, Rights};
use crate::refusal::{Refusal, reason};

pub use certificate::certificate_end;
pub use command::OperatorCommand;
pub use service::OperatorService;
pub use sessions::{OpenSessions, SessionEntry, State};
pub use tables::{ACTS, ActCommand, SHOWN, ShowTable, reference};

/// The database that operators connect to.
pub const DATABASE: &str = "pgveil";

/// Asks for a reload; answered with what came of it.
pub type Reload = oneshot::Sender<Result<(), String>>;

/// The parts of a running proxy that operators reach.
pub struct Control {
    exchange: Arc<Reloadable>,
    sessions: Arc<OpenSessions>,
    reloads: mpsc::Sender<Reload>,
    shutdown: CancellationToken,
    /// The file of the certificate that clients are shown.
    certificate: Option<PathBuf>,
    started: SystemTime,
}

/// The operator of a command, and from where.
#[derive(Debug, Clone)]
pub struct Caller {
    pub name: String,
    pub session: i32,
    pub origin: Origin,
}

impl Control {
    pub fn new(
        exchange: Arc<Reloadable>,
        reloads: mpsc::Sender<Reload>,
        shutdown: CancellationToken,
        certificate: Option<PathBuf>,
    ) -> Self {
        Self {
            exchange,
            sessions: Arc::default(),
            reloads,
            shutdown,
            certificate,
            started: SystemTime::now(),
        }
    }

    /// All sessions of the client port.
    pub fn sessions(&self) -> &Arc<OpenSessions> {
        &self.sessions
    }

    /// The operator of that name in the policy in force.
    pub fn operator(&self, name: &str) -> Option<Operator> {
        self.exchange.current().policy().operator(name).cloned()
    }

    /// The caller's rights now: a reload may have changed them since the login.
    fn rights(&self, caller: &Caller) -> Result<Rights, Refusal> {
        let operator = self.operator(&caller.name).ok_or_else(|| {
            Refusal::new(
                reason::OPERATOR_RIGHT,
                format!("\"{}\" is no operator of the policy in force", caller.name),
            )
        })?;
        Ok(operator.rights)
    }

    /// 42501 where the caller may not.
    fn may(&self, caller: &Caller, wanted: Rights, what: &str) -> Result<(), Refusal> {
        if self.rights(caller)? >= wanted {
            return Ok(());
        }
        let denied = format!("permission denied for {what}");
        Err(Refusal::new(reason::OPERATOR_RIGHT, denied)
            .detail("Only operators with `may: [own]` may run it."))
    }
}
