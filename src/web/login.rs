//! Logins by a form: passwords compared a few at a time, guesses slowed down, and the cookie of a
//! session.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::login_throttle::{Throttle, Wait};
use super::server::Peer;
use crate::policy::{Certificate, Secret};
use crate::refusal::{Ending, Refusal, reason, sqlstate};
use crate::wire::scram::{Decoy, is_password};

/// For every login that fails: which part was wrong is not said.
const WRONG: &str = "Name, password or certificate is wrong.";
/// How long the next try waits after the failures that cost no time.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Passwords that are compared at the same time: each takes thousands of hashes.
const DERIVATIONS: usize = 2;
/// How long a try waits for others whose passwords are compared.
const PATIENCE: Duration = Duration::from_secs(10);

/// The form of a login.
#[derive(Deserialize)]
pub struct Credentials {
    pub name: String,
    pub password: String,
}

/// Compares passwords.
pub struct PasswordCheck {
    throttle: Throttle,
    derivations: Semaphore,
    decoy: Decoy,
}

/// Why somebody is not let in.
#[derive(Debug)]
pub struct LoginRefusal {
    pub status: StatusCode,
    pub why: String,
    /// The ending of the login's record.
    pub ending: Ending,
    /// Whether the refusal is recorded. If several attempts come too early, only the first is; none
    /// of them compares a password.
    pub is_recorded: bool,
}

impl LoginRefusal {
    fn wrong() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            why: WRONG.to_owned(),
            ending: reason::WRONG_PASSWORD.into(),
            is_recorded: true,
        }
    }

    /// The refusal of a login that may be right, and cannot begin a session now.
    pub fn unable(why: &str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            why: why.to_owned(),
            ending: sqlstate::CANNOT_CONNECT_NOW.into(),
            is_recorded: true,
        }
    }

    /// The refusal of a login for a reason that the wire gives too.
    pub fn of_refusal(refusal: &Refusal) -> Self {
        Self {
            ending: refusal.into(),
            ..Self::unable(&refusal.message)
        }
    }
}

/// A try to log in.
pub struct LoginAttempt {
    pub name: String,
    pub password: Zeroizing<String>,
    pub address: IpAddr,
    /// The verifier, if the name is known.
    pub stored: Option<Secret>,
    /// The verifiers of all who may log in here.
    pub verifiers: Vec<Secret>,
    /// Whether the client showed the certificate that the name needs.
    pub is_vouched: bool,
}

impl PasswordCheck {
    /// # Errors
    /// Where the operating system has no randomness to give.
    pub fn new(first_wait: Duration) -> std::io::Result<Self> {
        Ok(Self {
            throttle: Throttle::new(first_wait),
            derivations: Semaphore::new(DERIVATIONS),
            decoy: Decoy::new()?,
        })
    }

    /// Whether a try is right.
    ///
    /// # Errors
    /// With the answer to show, which does not say what was wrong.
    pub async fn enter(self: &Arc<Self>, tried: LoginAttempt) -> Result<(), LoginRefusal> {
        let LoginAttempt {
            name,
            password,
            address,
            stored,
            verifiers,
            is_vouched,
        } = tried;
        if let Err(Wait { left, is_first }) = self.throttle.enter(&name, address, Instant::now()) {
            let seconds = left.as_secs() + 1;
            let why = format!("Too many failures. Try again in {seconds} seconds.");
            return Err(LoginRefusal {
                status: StatusCode::TOO_MANY_REQUESTS,
                why,
                ending: sqlstate::CANNOT_CONNECT_NOW.into(),
                is_recorded: is_first,
            });
        }
        let derivation = tokio::time::timeout(PATIENCE, self.derivations.acquire()).await;
        let Ok(Ok(_derivation)) = derivation else {
            let why = "Too many logins at the same time. Try again.";
            return Err(LoginRefusal::unable(why));
        };
        let (door, compared) = (Arc::clone(self), name.clone());
        let is_right = tokio::task::spawn_blocking(move || {
            let made_up = (&door.decoy, verifiers.as_slice());
            is_password(stored.as_ref(), (&compared, &password), made_up)
        });
        // Compared also where the certificate is missing: the time must not differ.
        let is_right = is_right.await.unwrap_or(false);
        if !(is_right && is_vouched) {
            return Err(LoginRefusal::wrong());
        }
        self.throttle.forget(&name, address);
        Ok(())
    }
}

/// Whether the client showed the certificate that the name needs.
pub fn is_vouched(wanted: Certificate, name: &str, shown: &[String]) -> bool {
    match wanted {
        Certificate::Optional => true,
        Certificate::Required => shown.iter().any(|known| known == name),
    }
}

/// Whether the connection of a request showed the certificate that the name needs.
pub fn is_vouched_by(parts: &Parts, wanted: Certificate, name: &str) -> bool {
    let peer = parts.extensions.get::<Peer>();
    is_vouched(wanted, name, peer.map_or(&[], |peer| &peer.names))
}

/// The cookie of a site's sessions.
#[derive(Debug)]
pub struct Cookie {
    name: String,
    is_encrypted: bool,
}

impl Cookie {
    /// Browsers send cookies to every port of a host, so the name has the port.
    pub fn new(is_encrypted: bool, port: u16) -> Self {
        let prefix = if is_encrypted { "__Host-" } else { "" };
        Self {
            name: format!("{prefix}pgveil-{port}"),
            is_encrypted,
        }
    }

    /// Its value among the cookies of a request.
    pub fn of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let all = headers.get_all(COOKIE).iter();
        let pairs = all.filter_map(|value| value.to_str().ok());
        pairs
            .flat_map(|text| text.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(known, _)| *known == self.name)
            .map(|(_, value)| value)
    }

    /// The header that gives it this value.
    pub fn set(&self, value: &str) -> String {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let name = &self.name;
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }

    /// The header that takes it away.
    pub fn end(&self) -> String {
        self.set("; Max-Age=0")
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
        assert_eq!(Cookie::new(false, 1).of(&headers), Some("z"));
        assert_eq!(Cookie::new(true, 1).of(&headers), None);
        assert_eq!(Cookie::new(false, 2).of(&headers), None);
        assert_eq!(Cookie::new(false, 1).of(&HeaderMap::new()), None);
    }
}
