//! The operator who opens a page, found by the cookie of a session.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};

use super::session::SessionId;
use super::{Console, view};
use crate::ledger::{Origin, Via};
use crate::policy::Rights;

/// The query of a page that loads itself again.
pub const BY_ITSELF: &str = "again";

/// An operator who is logged in.
#[derive(Debug, Clone)]
pub struct Visitor {
    pub name: String,
    pub rights: Rights,
    /// Where the session began.
    pub address: IpAddr,
    pub session: SessionId,
}

/// One who acts for the data's owner.
pub struct Owner(pub Visitor);

impl Visitor {
    /// For the ledger: by which way, and from where.
    pub fn origin(&self) -> Origin {
        origin(self.address)
    }
}

/// What the record says of a request from this address.
pub fn origin(address: IpAddr) -> Origin {
    Origin {
        via: Via::Console,
        address: Some(address),
        ..Origin::default()
    }
}

/// The value of a cookie.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(COOKIE).iter();
    let pairs = all.filter_map(|value| value.to_str().ok());
    pairs
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// A page that loads itself again keeps no session alive.
fn is_by_itself(parts: &Parts) -> bool {
    parts.uri.query() == Some(BY_ITSELF)
}

impl FromRequestParts<Arc<Console>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Self, Response> {
        let engine = console.engine();
        let known = |name: &str| engine.policy().operator(name).cloned();
        let touch = !is_by_itself(parts);
        let found = cookie(&parts.headers, &console.cookie)
            .and_then(|secret| console.sessions.find(secret, known, touch, Instant::now()));
        match found {
            Some((session, operator, address)) => Ok(Self {
                name: operator.name,
                rights: operator.rights,
                address,
                session,
            }),
            None if matches!(parts.method, Method::GET | Method::HEAD) => {
                Err(Redirect::to("/login").into_response())
            }
            None => {
                let why = "The session has ended. Log in again.";
                let page = view::page("Log in", None, &view::message("Not done", why));
                let page = axum::response::Html(page.into_string());
                Err((StatusCode::UNAUTHORIZED, page).into_response())
            }
        }
    }
}

impl FromRequestParts<Arc<Console>> for Owner {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Self, Response> {
        let visitor = Visitor::from_request_parts(parts, console).await?;
        match visitor.rights {
            Rights::Own => Ok(Self(visitor)),
            Rights::Watch => {
                let why = "This page is for those who act for the data's owner: `may: [watch, \
                    own]` in the policy.";
                let body = view::message("Not for you", why);
                let page = console.page(&visitor, "Not for you", |_| body);
                Err((StatusCode::FORBIDDEN, page).into_response())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_static("a-pgveil-1=x; pgveil-12=y;pgveil-1=z");
        headers.insert(COOKIE, value);
        assert_eq!(cookie(&headers, "pgveil-1"), Some("z"));
        assert_eq!(cookie(&headers, "pgveil"), None);
        assert_eq!(cookie(&HeaderMap::new(), "pgveil-1"), None);
    }
}
