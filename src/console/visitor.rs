//! The operator who opens a page, found by the cookie of a session.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::{Console, is_unchanged, view};
use crate::ledger::{Origin, Via};
use crate::policy::Rights;
use crate::web::login::is_vouched_by;
use crate::web::session::SessionId;

/// The query of a page that loads itself again.
pub const BY_ITSELF: &str = "again";

/// An operator who is logged in.
#[derive(Debug, Clone)]
pub struct SignedInOperator {
    pub name: String,
    pub rights: Rights,
    /// Where the session began.
    pub address: IpAddr,
    pub session: SessionId,
}

/// One who acts for the data's owner.
pub struct Owner(pub SignedInOperator);

impl SignedInOperator {
    /// For the ledger: by which way, and from where.
    pub fn origin(&self) -> Origin {
        origin(self.address)
    }
}

/// The record's origin for a request from this address.
pub fn origin(address: IpAddr) -> Origin {
    Origin {
        via: Via::Console,
        address: Some(address),
        ..Origin::default()
    }
}

/// A page that loads itself again keeps no session alive.
fn is_by_itself(parts: &Parts) -> bool {
    parts.uri.query() == Some(BY_ITSELF)
}

impl FromRequestParts<Arc<Console>> for SignedInOperator {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Self, Response> {
        let engine = console.engine();
        let known = |who: &_| is_unchanged(&engine, who);
        let touch = !is_by_itself(parts);
        let found = console.portal.find(&parts.headers, known, touch);
        // A cookie alone is not enough where a certificate is needed too.
        let found = found
            .filter(|(_, operator, _)| is_vouched_by(parts, operator.certificate, &operator.name));
        let (session, operator, address) = found.ok_or_else(|| console.portal.turn_away(parts))?;
        Ok(Self {
            name: operator.name,
            rights: operator.rights,
            address,
            session,
        })
    }
}

impl FromRequestParts<Arc<Console>> for Owner {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        console: &Arc<Console>,
    ) -> Result<Self, Response> {
        let visitor = SignedInOperator::from_request_parts(parts, console).await?;
        match visitor.rights {
            Rights::Own => Ok(Self(visitor)),
            Rights::Watch => {
                let why = "This page is for those who act for the data's owner: `may: [watch, \
                    own]` in the policy.";
                let body = view::SITE.message("Not for you", why);
                let page = console.page(&visitor, "Not for you", |_| body);
                Err((StatusCode::FORBIDDEN, page).into_response())
            }
        }
    }
}
