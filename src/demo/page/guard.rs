//! What every request passes: the Host that it names, where a form comes from, headers, limits.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State as Extracted};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::State;

/// For one answer: an attack asks a hundred questions.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Lets a request in, and puts the headers on its answer.
pub async fn watch(
    Extracted(state): Extracted<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match admitted(request.method(), request.headers()) {
        Err((status, why)) => (status, why).into_response(),
        Ok(()) => match Arc::clone(&state.places).try_acquire_owned() {
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "busy; try again\n").into_response(),
            Ok(_place) => tokio::time::timeout(PATIENCE, next.run(request))
                .await
                .unwrap_or_else(|_| {
                    (StatusCode::GATEWAY_TIMEOUT, "no answer in time\n").into_response()
                }),
        },
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

fn admitted(method: &Method, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(HOST).unwrap_or_default();
    if !is_own_name(host) {
        let why = "this page is served by address or as localhost alone\n";
        return Err((StatusCode::MISDIRECTED_REQUEST, why));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_own = match text(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => site == "same-origin",
        None => text(ORIGIN).is_some_and(|origin| origin == format!("http://{host}")),
    };
    if is_own {
        Ok(())
    } else {
        let why = "forms are taken from this page alone\n";
        Err((StatusCode::FORBIDDEN, why))
    }
}

/// An address or `localhost`: any other name could be rebound by its owner to this machine.
fn is_own_name(host: &str) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.is_empty() => name,
        Some(_) | None => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'))
        .unwrap_or(name);
    name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_rebound_are_refused() {
        for own in [
            "127.0.0.1:8432",
            "localhost:8432",
            "localhost",
            "[::1]:8432",
            "10.0.0.7",
        ] {
            assert!(is_own_name(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.evil.example:8432",
            "127.0.0.1.nip.io",
            ":80",
        ] {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn forms_come_from_the_page() {
        let status = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            map.insert(HOST, HeaderValue::from_static("localhost:1"));
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            admitted(&Method::POST, &map)
                .err()
                .map(|(status, _)| status)
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
    }
}
