//! A site behind a login: its sessions, its login check, its cookie, and the pages that carry
//! tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use maud::Markup;

use super::guard::{Guard, is_from_elsewhere};
use super::login::{Cookie, PasswordCheck};
use super::page::{PageReader, SiteTexts};
use super::rate_limit::{Rates, RequestLimit};
use super::session::{Lifetimes, SessionId, SessionOwner, Sessions};

/// The options of a site.
pub struct SiteOptions {
    pub site: &'static SiteTexts,
    /// Names by which it may be asked, in addition to addresses and `localhost`.
    pub hosts: Vec<String>,
    pub is_encrypted: bool,
    pub port: u16,
    pub lifetimes: Lifetimes,
    /// The most sessions of one name.
    pub of_name: usize,
    /// How long somebody who guesses passwords waits at first.
    pub first_wait: Duration,
    /// How long one answer may take.
    pub patience: Duration,
    /// How often a name may ask for what plans or reads the ledger.
    pub pace: RequestLimit,
}

/// A site behind a login.
pub struct LoginSite<V> {
    pub site: &'static SiteTexts,
    pub sessions: Sessions<V>,
    pub door: Arc<PasswordCheck>,
    pub guard: Guard,
    pub cookie: Cookie,
    pub rates: Rates,
}

impl<V: SessionOwner> LoginSite<V> {
    /// # Errors
    /// Where the operating system has no randomness to give.
    pub fn open(opening: SiteOptions) -> std::io::Result<Self> {
        let SiteOptions {
            site,
            hosts,
            is_encrypted,
            port,
            lifetimes,
            of_name,
            first_wait,
            patience,
            pace,
        } = opening;
        Ok(Self {
            site,
            sessions: Sessions::new(lifetimes, of_name),
            door: Arc::new(PasswordCheck::new(first_wait)?),
            guard: Guard::new(hosts, is_encrypted, patience),
            cookie: Cookie::new(is_encrypted, port),
            rates: Rates::new(pace),
        })
    }

    /// The session of a request, where the visitor is still as at the login. A request that another
    /// site made keeps no session alive.
    pub fn find(
        &self,
        headers: &HeaderMap,
        is_unchanged: impl Fn(&V) -> bool,
        touch: bool,
    ) -> Option<(SessionId, V, IpAddr)> {
        let secret = self.cookie.of(headers)?;
        let touch = touch && !is_from_elsewhere(headers);
        self.sessions
            .find(secret, is_unchanged, touch, Instant::now())
    }

    /// The answer to a request without a session.
    pub fn turn_away(&self, parts: &Parts) -> Response {
        if matches!(parts.method, Method::GET | Method::HEAD) {
            return Redirect::to("/login").into_response();
        }
        self.session_ended_page(None)
    }

    /// The answer to a form of a session that has ended, with what was typed in it.
    pub fn session_ended_page(&self, typed: Option<&str>) -> Response {
        let why = "The session has ended. Log in again.";
        let page = self.site.login(Some(why), typed);
        (StatusCode::UNAUTHORIZED, Html(page.into_string())).into_response()
    }

    /// A page for a visitor. Its forms share one token.
    pub fn page(
        &self,
        (session, title): (SessionId, &str),
        who: &PageReader,
        body: impl FnOnce(&str) -> Markup,
    ) -> Html<String> {
        let token = self.sessions.token(session, Instant::now());
        let token = token.unwrap_or_default();
        let body = body(&token);
        let page = self.site.page(title, Some((who, &token)), &body);
        Html(page.into_string())
    }

    /// Whether a form was made for this session, and is sent for the first time. A form takes time
    /// to arrive: a reload may have changed the visitor meanwhile.
    pub fn takes(
        &self,
        session: SessionId,
        token: &str,
        is_unchanged: impl Fn(&V) -> bool,
    ) -> bool {
        let now = Instant::now();
        self.sessions.is_open(session, is_unchanged, now)
            && self.sessions.takes(session, token, now)
    }

    /// Whether a form was made for this session, which may send it again.
    pub fn knows(
        &self,
        session: SessionId,
        token: &str,
        is_unchanged: impl Fn(&V) -> bool,
    ) -> bool {
        let now = Instant::now();
        self.sessions.is_open(session, is_unchanged, now)
            && self.sessions.knows(session, token, now)
    }
}
