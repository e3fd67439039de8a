//! The analyst who opens a page, found by the cookie of a session; the prices that the session was
//! shown, and what became of those that it ran.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;

use super::outcome::{Reporter, RunningQuestion};
use super::quote::Quote;
use super::{Desk, is_unchanged};
use crate::mechanism::Loss;
use crate::policy::{Certificate, Secret};
use crate::web::login::is_vouched_by;
use crate::web::session::{SessionId, SessionOwner};
use crate::wire::PageSession;

/// Prices of one session that are kept: older ones have to be looked at again.
const QUOTES_MAX: usize = 2;
/// Answers of one session that are kept: older ones have to be asked for again, free.
const OUTCOMES_MAX: usize = 2;
/// The query of a page that loads itself again.
pub const BY_ITSELF: &str = "again";

/// A role that is logged in: one session.
pub struct Analyst {
    pub session: PageSession,
    /// The verifier at the login: a change ends the session.
    pub verifier: Secret,
    pub certificate: Certificate,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    last: u64,
    quotes: VecDeque<(u64, Quote)>,
    outcomes: VecDeque<Arc<RunningQuestion>>,
    /// The price of the policy's searches, as the session was shown it.
    searches: Option<Loss>,
}

impl SessionOwner for Arc<Analyst> {
    fn name(&self) -> &str {
        self.session.role()
    }
}

impl Analyst {
    pub fn new(session: PageSession, verifier: Secret, certificate: Certificate) -> Arc<Self> {
        Arc::new(Self {
            session,
            verifier,
            certificate,
            kept: Mutex::default(),
        })
    }

    /// Keeps a price, and returns its number.
    pub fn quote(&self, quote: Quote) -> u64 {
        let mut kept = self.lock_kept();
        kept.last += 1;
        let number = kept.last;
        if kept.quotes.len() >= QUOTES_MAX {
            kept.quotes.pop_front();
        }
        kept.quotes.push_back((number, quote));
        number
    }

    /// The price of this number. It is good once.
    pub fn take(&self, number: u64) -> Option<Quote> {
        let quotes = &mut self.lock_kept().quotes;
        let at = quotes.iter().position(|(known, _)| *known == number)?;
        quotes.remove(at).map(|(_, quote)| quote)
    }

    /// The statement of a price that is still kept.
    pub fn typed_statement(&self, number: u64) -> Option<String> {
        let kept = self.lock_kept();
        let mut quotes = kept.quotes.iter();
        let found = quotes.find(|(known, _)| *known == number)?;
        Some(found.1.sql.clone())
    }

    /// Begins to run the price of this number.
    pub fn begin(&self, number: u64, sql: &str) -> Reporter {
        let (outcome, reporter) = RunningQuestion::begin(number, sql);
        let outcomes = &mut self.lock_kept().outcomes;
        if outcomes.len() >= OUTCOMES_MAX {
            outcomes.pop_front();
        }
        outcomes.push_back(outcome);
        reporter
    }

    /// The outcome of the price of this number, if it was run.
    pub fn outcome(&self, number: u64) -> Option<Arc<RunningQuestion>> {
        let kept = self.lock_kept();
        let found = kept.outcomes.iter().find(|one| one.number == number);
        found.cloned()
    }

    /// Notes the price of the searches that is shown.
    pub fn show_searches(&self, loss: Loss) {
        self.lock_kept().searches = Some(loss);
    }

    /// The price of the searches that was shown. It is good once.
    pub fn take_searches(&self) -> Option<Loss> {
        self.lock_kept().searches.take()
    }

    fn lock_kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An analyst's request.
pub struct AnalystRequest {
    pub analyst: Arc<Analyst>,
    pub session: SessionId,
}

/// A page that loads itself again keeps no session alive.
fn is_by_itself(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|part| part == BY_ITSELF)
}

impl FromRequestParts<Arc<Desk>> for AnalystRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Response> {
        let engine = desk.engine();
        let is_same = |who: &Arc<Analyst>| is_unchanged(&engine, who);
        let found = desk
            .portal
            .find(&parts.headers, is_same, !is_by_itself(parts));
        // A cookie alone is not enough where a certificate is needed too.
        let is_vouched = |who: &Analyst| is_vouched_by(parts, who.certificate, who.session.role());
        match found.filter(|(_, analyst, _)| is_vouched(analyst)) {
            Some((session, analyst, _)) => Ok(Self { analyst, session }),
            None => Err(desk.portal.turn_away(parts)),
        }
    }
}
