//! The analyst who opens a page, found by the cookie of a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;

use super::{Desk, is_unchanged};
use crate::engine::Agreed;
use crate::parse::Query;
use crate::policy::{Certificate, Secret};
use crate::web::session::{Named, SessionId};
use crate::wire::Seat;

/// Prices of one session that are kept: older ones have to be looked at again.
const QUOTES_MAX: usize = 4;

/// A role that is logged in: one session.
pub struct Analyst {
    pub seat: Seat,
    /// As at the login: a change ends the session.
    pub verifier: Secret,
    pub certificate: Certificate,
    quotes: Mutex<Quotes>,
}

#[derive(Default)]
struct Quotes {
    last: u64,
    kept: VecDeque<(u64, Quote)>,
}

/// A question at the price that was shown.
#[derive(Clone)]
pub struct Quote {
    /// As it was typed.
    pub sql: String,
    /// The statement, with the ends of intervals as further columns.
    pub sent: Query,
    /// The columns that these belong to.
    pub intervals: Vec<usize>,
    pub agreed: Agreed,
}

impl Named for Arc<Analyst> {
    fn name(&self) -> &str {
        self.seat.role()
    }
}

impl Analyst {
    pub fn new(seat: Seat, verifier: Secret, certificate: Certificate) -> Arc<Self> {
        Arc::new(Self {
            seat,
            verifier,
            certificate,
            quotes: Mutex::default(),
        })
    }

    /// Keeps a price, and returns its number.
    pub fn quote(&self, quote: Quote) -> u64 {
        let mut quotes = self.quotes();
        quotes.last += 1;
        let number = quotes.last;
        if quotes.kept.len() >= QUOTES_MAX {
            quotes.kept.pop_front();
        }
        quotes.kept.push_back((number, quote));
        number
    }

    /// The price of this number. It is good once.
    pub fn take(&self, number: u64) -> Option<Quote> {
        let kept = &mut self.quotes().kept;
        let at = kept.iter().position(|(known, _)| *known == number)?;
        kept.remove(at).map(|(_, quote)| quote)
    }

    fn quotes(&self) -> MutexGuard<'_, Quotes> {
        self.quotes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An analyst's request.
pub struct Visitor {
    pub analyst: Arc<Analyst>,
    pub session: SessionId,
}

impl FromRequestParts<Arc<Desk>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Response> {
        let engine = desk.engine();
        let is_same = |who: &Arc<Analyst>| is_unchanged(&engine, who);
        match desk.portal.find(&parts.headers, is_same, true) {
            Some((session, analyst, _)) => Ok(Self { analyst, session }),
            None => Err(desk.portal.turn_away(parts)),
        }
    }
}
