//! The console: requests that come slowly, from other sites, by themselves, or with the session of
//! another site of pgveil.

use std::io::Write;
use std::net::TcpStream;

use pgveil::web::session::Lifetimes;

use super::console::{PASSWORD, Stage, stage};
use super::demo_page::form;
use super::desk;
use super::desk::running::{finished, opened};
use super::pages::{Visit, is_closed, sent};

/// Sessions of one operator.
const SESSIONS_MAX: usize = 32;

fn olga(stage: &Stage) -> Visit {
    Visit::begin(stage.address, "olga", PASSWORD)
}

/// Its name or its secret, under either name: each site knows its own sessions alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_one_site_opens_nothing_at_the_other() {
    let (console, desk) = (stage(Lifetimes::default(), None).await, desk::stage().await);
    let visits = [
        (
            Visit::begin(desk.address, "analyst", "analyst"),
            console.address,
        ),
        (olga(&console), desk.address),
    ];
    for (visit, other) in visits {
        let secret = visit.cookie.split_once('=').unwrap().1;
        let renamed = format!("Cookie: pgveil-{}={secret}", other.port());
        for cookie in [&visit.cookie, &renamed] {
            let got = sent(other, "GET", "/", &[cookie], "");
            let is_sent_away = got.head.contains("location: /login");
            assert!(got.status == 303 && is_sent_away, "{other}: {}", got.head);
            let fields = form(&[
                ("token", ""),
                ("account", "all"),
                ("why", "x"),
                ("role", "analyst"),
                ("epsilon", ""),
                ("sql", "SELECT 1"),
                ("quote", "x"),
            ]);
            for path in ["/freeze", "/explore", "/price", "/run"] {
                let headers = [super::pages::OWN, cookie];
                let got = sent(other, "POST", path, &headers, &fields);
                assert!(
                    [401, 303, 404].contains(&got.status),
                    "{path}: {}",
                    got.head
                );
            }
        }
        // It is a session all the same, where it was made.
        assert_eq!(visit.get("/").status, 200);
    }
    let balance = console.veil.engine.ledger().balance("analyst").await;
    assert!(!balance.unwrap().frozen);
    assert_eq!(desk.veil.spent().await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_stall_keep_nobody_out() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = olga(&stage);
    let open = |_| opened(&visit, "POST /explore", 100);
    let mut stalled: Vec<TcpStream> = (0..20).map(open).collect();
    for socket in &mut stalled {
        socket.write_all(b"token=1234").unwrap();
    }
    // As they have sent no whole form, they have no place among the requests.
    assert_eq!(visit.get("/").status, 200);
    for socket in stalled {
        let got = finished(socket, "");
        assert_eq!(
            (got.status, &*got.body),
            (408, "the form did not arrive in time\n")
        );
        is_closed(&got);
    }
}

/// Pages of other sites may link to the console, and embed nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn other_sites_embed_nothing() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = olga(&stage);
    for site in ["same-site", "cross-site"] {
        for (mode, of, status) in [
            ("no-cors", "image", 403),
            ("no-cors", "style", 403),
            ("cors", "empty", 403),
            ("navigate", "iframe", 403),
            ("navigate", "document", 200),
        ] {
            let headers = [
                format!("Sec-Fetch-Site: {site}"),
                format!("Sec-Fetch-Mode: {mode}"),
                format!("Sec-Fetch-Dest: {of}"),
            ];
            for path in ["/budgets", "/?again", "/style.css"] {
                let got = visit.get_with(path, &headers.each_ref().map(String::as_str));
                assert_eq!(got.status, status, "{path} {headers:?}");
                is_closed(&got);
            }
        }
    }
    for site in ["same-origin", "none"] {
        let site = format!("Sec-Fetch-Site: {site}");
        assert_eq!(visit.get_with("/budgets", &[&site]).status, 200);
    }
}

/// Whoever leaves the page open does not stay logged in by it, and loses the place first.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_loads_itself_again_is_no_use_of_the_session() {
    let stage = stage(Lifetimes::default(), None).await;
    let visits: Vec<Visit> = (0..SESSIONS_MAX).map(|_| olga(&stage)).collect();
    let again = visits[0].get("/?again");
    assert_eq!(again.status, 200);
    let refresh = "refresh: 30; url=/?again";
    assert!(again.head.contains(refresh), "{}", again.head);
    assert!(!visits[0].get("/?other").head.contains("refresh:"));
    // The first was used by that; the second loads itself again, and stays the idlest.
    assert_eq!(visits[1].get("/?again").status, 200);
    let newest = olga(&stage);
    assert_eq!(visits[1].get("/").status, 303);
    assert_eq!(visits[0].get("/").status, 200);
    assert_eq!(newest.get("/").status, 200);
}
