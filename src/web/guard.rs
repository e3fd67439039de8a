//! Checks on every request: its Host, the origin of a form, headers, limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::sync::Semaphore;

use super::server::Arrival;

/// Most requests that are answered at the same time, unless a site says another number.
const REQUESTS_MAX: usize = 16;
/// The most bytes of a text that is typed in a form.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a form that is read: a text that is too long can be given back. Each byte of a
/// text takes up to three.
pub const FORM_BYTES_MAX: usize = 4 * TEXT_BYTES_MAX;
/// Bytes beyond that are passed over, so that the browser has sent all and reads the answer.
const PASSED_OVER_MAX: usize = 16 << 20;
/// How long a form may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);

const BUSY: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "busy; try again\n");
/// No script at all; styles from here; forms to here.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    // `no-referrer` would make browsers send `Origin: null` with forms.
    (REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (CACHE_CONTROL, "no-store"),
];

/// Whom a site answers, and how long it takes at most.
#[derive(Debug)]
pub struct Guard {
    /// Names of this machine, in addition to addresses and `localhost`.
    hosts: Vec<String>,
    is_encrypted: bool,
    patience: Duration,
    places: Semaphore,
}

impl Guard {
    pub fn new(hosts: Vec<String>, is_encrypted: bool, patience: Duration) -> Self {
        Self {
            hosts,
            is_encrypted,
            patience,
            places: Semaphore::new(REQUESTS_MAX),
        }
    }

    /// The guard with another number of requests that are answered at the same time.
    #[must_use]
    pub fn answering(self, most: usize) -> Self {
        Self {
            places: Semaphore::new(most),
            ..self
        }
    }

    /// Lets a request in, and puts the headers on its answer.
    pub async fn pass(&self, request: Request, next: Next) -> Response {
        let mut response = match self.admit(request.method(), request.headers()) {
            Err((status, why)) => (status, why).into_response(),
            Ok(()) => {
                let arrival = request.extensions().get::<Arc<Arrival>>().cloned();
                match receive(request).await {
                    Err(refused) => refused.into_response(),
                    Ok(_) if arrival.is_some_and(|arrival| !arrival.ends()) => BUSY.into_response(),
                    Ok(request) => self.answer(request, next).await,
                }
            }
        };
        for (name, value) in HEADERS {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }

    async fn answer(&self, request: Request, next: Next) -> Response {
        let Ok(_place) = self.places.try_acquire() else {
            return BUSY.into_response();
        };
        tokio::time::timeout(self.patience, next.run(request))
            .await
            .unwrap_or_else(|_| {
                (StatusCode::GATEWAY_TIMEOUT, "no answer in time\n").into_response()
            })
    }

    fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, &'static str)> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST).unwrap_or_default();
        let is_one = headers.get_all(HOST).iter().count() == 1;
        if !is_one || !is_own_name(host, &self.hosts) {
            let why = "this page is served by address, as localhost, or under names that the \
                command line gives\n";
            return Err((StatusCode::MISDIRECTED_REQUEST, why));
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return match is_from_elsewhere(headers) && !is_opened(headers) {
                false => Ok(()),
                true => Err((StatusCode::FORBIDDEN, "pages are opened, not embedded\n")),
            };
        }
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let is_own = match text(HeaderName::from_static("sec-fetch-site")) {
            Some(site) => site == "same-origin",
            None => text(ORIGIN).is_some_and(|origin| origin == format!("{scheme}://{host}")),
        };
        if is_own {
            Ok(())
        } else {
            let why = "forms are taken from this page alone\n";
            Err((StatusCode::FORBIDDEN, why))
        }
    }
}

/// Whether another site made the browser send this.
pub fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site == "same-site" || site == "cross-site")
}

/// Whether a browser opens it as a separate page, not within another.
fn is_opened(headers: &HeaderMap) -> bool {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// The request with its whole body, read before it takes a place: a slow sender keeps nobody out.
async fn receive(request: Request) -> Result<Request, (StatusCode, &'static str)> {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(ARRIVAL, read(body)).await {
        Ok(Some(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(None) => Err((
            StatusCode::PAYLOAD_TOO_LARGE,
            "nothing was done: this form has more than 256 KiB, and a text of at most 64 KiB is \
                taken\n",
        )),
        Err(_) => Err((
            StatusCode::REQUEST_TIMEOUT,
            "the form did not arrive in time\n",
        )),
    }
}

/// A whole body; `None` where it is too large or breaks off.
async fn read(body: Body) -> Option<Bytes> {
    let mut parts = body.into_data_stream();
    let (mut bytes, mut all) = (BytesMut::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.ok()?;
        all += part.len();
        match all {
            _ if all <= FORM_BYTES_MAX => bytes.extend_from_slice(&part),
            _ if all <= PASSED_OVER_MAX => bytes = BytesMut::new(),
            _ => return None,
        }
    }
    (all <= FORM_BYTES_MAX).then(|| bytes.freeze())
}

/// An address, `localhost` or one of these names: any other name could be rebound by its owner to
/// this machine.
pub fn is_own_name(host: &str, hosts: &[String]) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.is_empty() => name,
        Some(_) | None => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok()
        || hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_rebound_are_refused() {
        let hosts = ["pgveil.internal".to_owned()];
        for own in [
            "127.0.0.1:8432",
            "localhost:8432",
            "localhost",
            "[::1]:8432",
            "10.0.0.7",
            "PGVEIL.internal:8432",
        ] {
            assert!(is_own_name(own, &hosts), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:8432",
            "127.0.0.1.nip.io",
            ":80",
        ] {
            assert!(!is_own_name(other, &hosts), "{other}");
        }
    }

    #[test]
    fn forms_come_from_the_page() {
        let guard = Guard::new(Vec::new(), false, Duration::from_secs(1));
        let status = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            map.insert(HOST, HeaderValue::from_static("localhost:1"));
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            let refused = guard.admit(&Method::POST, &map).err();
            refused.map(|(status, _)| status)
        };
        let refused = Some(StatusCode::FORBIDDEN);
        assert_eq!(status(&[("sec-fetch-site", "same-origin")]), None);
        assert_eq!(status(&[("origin", "http://localhost:1")]), None);
        assert_eq!(status(&[]), refused);
        assert_eq!(status(&[("origin", "null")]), refused);
        assert_eq!(status(&[("origin", "http://localhost:2")]), refused);
        let both = [
            ("sec-fetch-site", "cross-site"),
            ("origin", "http://localhost:1"),
        ];
        assert_eq!(status(&both), refused);
        let twice = [("host", "localhost:1"), ("host", "evil.example")];
        let mut map = HeaderMap::new();
        for (name, value) in twice {
            map.append(name, HeaderValue::from_static(value));
        }
        let misdirected = guard.admit(&Method::GET, &map).err();
        let status = misdirected.map(|(status, _)| status);
        assert_eq!(status, Some(StatusCode::MISDIRECTED_REQUEST));
    }
}
