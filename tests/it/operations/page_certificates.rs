//! Pages of roles and operators that need a certificate: it is asked for at each request, so that a
//! stolen cookie alone opens nothing.

use std::net::SocketAddr;

use pgveil::web::session::Lifetimes;
use pgveil::wire::Tls;
use rustls::pki_types::CertificateDer;

use super::console::{PASSWORD, stage_of};
use super::demo_page::{Got, form};
use super::desk::{BOB, stage_with_certificates};
use super::pages::cookie;
use crate::wire::tls::{Issued, exchanged_by, with_authority};

/// A site that speaks TLS, and who comes.
struct Site<'s> {
    address: SocketAddr,
    shown: &'s CertificateDer<'static>,
    issue: &'s dyn Fn(&str) -> Issued,
}

impl Site<'_> {
    async fn ask(&self, line: &str, more: &str, body: &str, who: Option<&str>) -> Got {
        let address = self.address;
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {address}\r\nOrigin: https://{address}\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\
                {more}\r\n{body}",
            body.len()
        );
        let certificate = who.map(self.issue);
        let own = (self.shown, certificate);
        Got::of(exchanged_by(address, own, request.as_bytes()).await)
    }

    /// Logs in by password and certificate, and then comes without the certificate.
    async fn needs(&self, (name, password): (&str, &str), pages: &[&str], form_of: &str) {
        let body = form(&[("name", name), ("password", password)]);
        let refused = self.ask("POST /login", "", &body, None).await;
        assert_eq!(refused.status, 401);
        let begun = self.ask("POST /login", "", &body, Some(name)).await;
        assert_eq!(begun.status, 303, "{}", begun.body);
        let set = cookie(&begun);
        let secret = set.split(['=', ';']).nth(1).unwrap();
        let more = format!("Cookie: __Host-pgveil-{}={secret}\r\n", self.address.port());
        let own = self.ask("GET /", &more, "", Some(name)).await;
        assert_eq!(own.status, 200, "{}", own.body);
        for stranger in [None, Some("eve")] {
            for path in pages {
                let got = self.ask(&format!("GET {path}"), &more, "", stranger).await;
                assert_eq!(got.status, 303, "{path}: {}", got.body);
            }
            let fields = form(&[("token", ""), ("sql", "SELECT 1")]);
            for path in [form_of, "/logout"] {
                let line = format!("POST {path}");
                let got = self.ask(&line, &more, &fields, stranger).await;
                assert_eq!(got.status, 401, "{path}: {}", got.body);
            }
        }
        // Nor do they end the session.
        let own = self.ask("GET /", &more, "", Some(name)).await;
        assert_eq!(own.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_without_the_certificate_opens_nothing_at_the_desk() {
    let (config, shown, issue) = with_authority();
    let stage = stage_with_certificates(Tls::from(Some(config))).await;
    let site = Site {
        address: stage.address,
        shown: &shown,
        issue: &issue,
    };
    let pages = ["/", "/budget", "/statements", "/answer?of=1"];
    site.needs(("bob", BOB), &pages, "/price").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_without_the_certificate_opens_nothing_at_the_console() {
    let (config, shown, issue) = with_authority();
    let tls = Some(Tls::from(Some(config)));
    let required = ", certificate: required";
    let stage = stage_of(Lifetimes::default(), tls, required).await;
    let site = Site {
        address: stage.address,
        shown: &shown,
        issue: &issue,
    };
    let pages = [
        "/",
        "/budgets",
        "/statements",
        "/explore",
        "/policy",
        "/checks",
    ];
    site.needs(("olga", PASSWORD), &pages, "/freeze").await;
}
