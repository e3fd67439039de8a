//! What the tests of the console and of the desk share: both serve pages to browsers that log in.

use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;

use super::demo_page::{Got, form, send};

pub const OWN: &str = "Sec-Fetch-Site: same-origin";
/// Fewer private rows than before.
pub const FEWER: &str = "
    DELETE FROM nls.interviews WHERE woman_id IN (SELECT woman_id FROM nls.women LIMIT 9);
    DELETE FROM nls.women WHERE woman_id NOT IN (SELECT woman_id FROM nls.interviews)";

pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// Sends a request, and waits for its answer.
pub fn sent(at: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
    aside(|| send(&at.to_string(), method, path, headers, body))
}

/// Sends the form of a login.
pub fn log_in(at: SocketAddr, name: &str, password: &str) -> Got {
    let body = form(&[("name", name), ("password", password)]);
    sent(at, "POST", "/login", &[OWN], &body)
}

/// A browser with the cookie of a session.
pub struct Visit {
    pub address: SocketAddr,
    pub cookie: String,
}

impl Visit {
    /// Logs in.
    pub fn begin(address: SocketAddr, name: &str, password: &str) -> Self {
        let got = log_in(address, name, password);
        assert_eq!(got.status, 303, "{}", got.body);
        let cookie = cookie(&got);
        let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
        Self { address, cookie }
    }

    pub fn get(&self, path: &str) -> Got {
        self.get_with(path, &[])
    }

    pub fn get_with(&self, path: &str, headers: &[&str]) -> Got {
        let headers = [&[self.cookie.as_str()], headers].concat();
        sent(self.address, "GET", path, &headers, "")
    }

    /// Sends a form with this token.
    pub fn post_with(&self, token: &str, path: &str, fields: &[(&str, &str)]) -> Got {
        let fields: Vec<_> = fields.iter().copied().chain([("token", token)]).collect();
        let headers = [OWN, self.cookie.as_str()];
        sent(self.address, "POST", path, &headers, &form(&fields))
    }

    /// Sends a form of this page, with its token.
    pub fn post(&self, page: &str, path: &str, fields: &[(&str, &str)]) -> Got {
        let token = token(&self.get(page).body);
        self.post_with(&token, path, fields)
    }
}

pub fn cookie(got: &Got) -> String {
    let line = got.head.lines().find(|line| line.starts_with("set-cookie"));
    line.unwrap().split_once(": ").unwrap().1.to_owned()
}

/// The token of a page's forms.
pub fn token(body: &str) -> String {
    let rest = body.split("name=\"token\" value=\"").nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A page without the parts that differ each time: tokens and times.
pub fn still(body: &str) -> String {
    let without = |text: &str, mark: &str, end: char| -> String {
        let rest = |part: &str| {
            part.split_once(end)
                .map_or(String::new(), |(_, rest)| rest.to_owned())
        };
        let mut parts = text.split(mark);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |kept, part| kept + &rest(part))
    };
    let text = without(body, "name=\"token\" value=\"", '"');
    let text = without(&text, " points=\"", '"');
    without(&text, "<td>20", '<')
}

/// Every page forbids scripts, frames and copies of itself, and has no script.
pub fn is_closed(got: &Got) {
    for wanted in [
        "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'; \
            base-uri 'none'; frame-ancestors 'none'\r\n",
        "x-content-type-options: nosniff\r\n",
        "referrer-policy: same-origin\r\n",
        "cross-origin-opener-policy: same-origin\r\n",
        "cross-origin-resource-policy: same-origin\r\n",
        "cache-control: no-store\r\n",
    ] {
        let head = format!("{}\r\n", got.head);
        assert!(head.contains(wanted), "{wanted} in {head}");
    }
    assert!(!got.has("<script") && !got.has(" style=") && !got.has(" onclick="));
}

/// Logs in by TLS, and gets a cookie that is sent over TLS alone.
pub async fn logs_in_by_tls(host: SocketAddr, certificate: &CertificateDer<'static>, body: &str) {
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\nConnection: close\r\n\
            Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let got = Got::of(crate::wire::tls::exchanged(host, certificate, request.as_bytes()).await);
    assert_eq!(got.status, 303, "{}", got.body);
    let set = cookie(&got);
    assert!(set.starts_with(&format!("__host-pgveil-{}=", host.port())));
    assert!(
        set.ends_with("; path=/; httponly; samesite=strict; secure"),
        "{set}"
    );
}
