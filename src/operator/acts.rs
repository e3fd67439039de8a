//! The acts of operators. Each is in the ledger before it takes effect: an act that cannot be
//! recorded is not done. Nothing here spends budget, gives it back, or loosens the policy.

use tokio::sync::oneshot;

use super::show::unread;
use super::{Caller, Control};
use crate::ledger::{Act, Decision, Error, Event, Record};
use crate::policy::Rights;
use crate::refusal::{Refusal, reason};

impl Control {
    /// Reads the policy file again, as SIGHUP does, and waits for what comes of it.
    ///
    /// # Errors
    /// 58030 where it cannot be recorded; F0000 for a policy that does not hold: then nothing has
    /// changed. Those alone who may see the policy learn why.
    pub async fn reload(&self, caller: &Caller) -> Result<(), Refusal> {
        self.may(caller, Rights::Watch, "RELOAD")?;
        self.record(caller, "reload", "the policy", "").await?;
        let (answer, wait) = oneshot::channel();
        let stopped = || Refusal::new(reason::RELOAD_REFUSED, "the policy in force stays");
        if self.reloads.send(answer).await.is_err() {
            return Err(stopped());
        }
        match wait.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) if self.rights(caller)? >= Rights::Own => Err(stopped().detail(why)),
            Ok(Err(_)) | Err(_) => Err(stopped().detail("The log says why.")),
        }
    }

    /// Stops the proxy, as SIGTERM does: no new connections, and running statements may end.
    ///
    /// # Errors
    /// As [`Control::reload`].
    pub async fn drain(&self, caller: &Caller) -> Result<(), Refusal> {
        self.may(caller, Rights::Watch, "DRAIN")?;
        self.record(caller, "drain", "", "").await?;
        tracing::info!(operator = caller.name, "an operator stops the proxy");
        self.shutdown.cancel();
        Ok(())
    }

    /// Ends a session.
    ///
    /// # Errors
    /// 42704 without such a session; as [`Control::reload`].
    pub async fn kill(&self, caller: &Caller, id: i32) -> Result<(), Refusal> {
        self.may(caller, Rights::Watch, "KILL")?;
        let missing = || {
            let message = format!("session {id} does not exist");
            Refusal::new(reason::UNKNOWN_SESSION, message).hint("SHOW SESSIONS lists those open.")
        };
        let session = self.sessions.get(id).ok_or_else(missing)?;
        let target = format!("session {id} of {}", session.name);
        self.record(caller, "kill", &target, "").await?;
        session.end();
        Ok(())
    }

    /// Stops all charges to a role, or to every role. A command of the owner's takes it back.
    ///
    /// # Errors
    /// 42704 without such a role; as [`Control::reload`].
    pub async fn freeze(
        &self,
        caller: &Caller,
        role: Option<String>,
        why: String,
    ) -> Result<(), Refusal> {
        self.may(caller, Rights::Own, "FREEZE")?;
        let decision = Decision {
            act: Act::Freeze { role },
            who: caller.name.clone(),
            why,
        };
        let ledger = self.exchange.current();
        let decided = ledger.ledger().decide_from(decision, caller.origin.clone());
        decided.await.map_err(|error| match error {
            Error::UnknownRole { role } => Refusal::new(
                reason::UNKNOWN_SESSION,
                format!("role \"{role}\" does not exist"),
            )
            .hint("SHOW ROLES lists those of the policy."),
            error => unread(&error),
        })
    }

    /// Records an act, durably, before it is done.
    async fn record(
        &self,
        caller: &Caller,
        act: &str,
        target: &str,
        why: &str,
    ) -> Result<(), Refusal> {
        let Caller {
            name,
            session,
            origin,
        } = caller;
        let event = Event::Act {
            act: act.to_owned(),
            target: target.to_owned(),
            why: why.to_owned(),
        };
        let record = Record::now(name, *session, origin.clone(), event);
        let engine = self.exchange.current();
        let recorded = engine.ledger().record_act(record).await;
        recorded.map_err(|error| unread(&error).detail("What cannot be recorded is not done."))
    }
}
