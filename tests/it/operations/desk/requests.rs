//! Requests that are answered, and those that are refused before.

use std::io::Write;
use std::net::TcpStream;

use super::super::demo_page::form;
use super::super::pages::{OWN, is_closed, token};
use super::running::{finished, opened};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_and_other_sites_are_refused() {
    let stage = stage().await;
    for host in ["evil.example", "desk.internal.evil.example"] {
        let got = stage.send("GET", "/login", &[&format!("Host: {host}")], "");
        assert_eq!(got.status, 421, "{host}");
    }
    let own = stage.send("GET", "/login", &["Host: desk.internal:1"], "");
    assert_eq!(own.status, 200);
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let (token, quote) = (token(&priced.body), quote(&priced.body));
    let fields = form(&[("token", &token), ("quote", &quote), ("sql", COUNT)]);
    for site in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: none",
        "Origin: http://evil.example",
        "Origin: null",
        "X: y",
    ] {
        for path in ["/run", "/price", "/login", "/logout"] {
            let headers = [site, visit.cookie.as_str()];
            let got = stage.send("POST", path, &headers, &fields);
            assert_eq!(got.status, 403, "{site} {path}");
        }
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    // From the page itself, but without its token.
    let got = visit.post_with("", "/run", &[("quote", &quote)]);
    assert!(got.status == 403 && got.has("Not done"), "{}", got.body);
    assert_eq!(stage.veil.spent().await, 0.0);
    // An old browser, which names its origin alone.
    let origin = format!("Origin: http://{}", stage.address);
    let headers = [origin.as_str(), visit.cookie.as_str()];
    let got = stage.send("POST", "/run", &headers, &fields);
    assert_eq!(got.status, 303, "{}", got.body);
    assert!(visit.follow(got).has("Answer"));
    assert!(stage.veil.spent().await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers() {
    let stage = stage().await;
    let visit = stage.visit();
    for got in [
        &visit.get("/"),
        &stage.send("GET", "/", &["Host: e.example"], ""),
        &visit.get("/style.css"),
        &visit.get("/budget"),
        &visit.get("/statements"),
        &visit.get("/nothing"),
        &visit.price(BY_RACE),
        &visit.ask(BY_RACE),
        &visit.start(&visit.price(BY_RACE)),
        &visit.get("/answer?of=9"),
        &visit.price("SELECT x"),
        &stage.log_in("analyst", "wrong"),
    ] {
        is_closed(got);
    }
    assert_eq!(visit.get("/nothing").status, 404);
    let headers = [OWN, visit.cookie.as_str()];
    assert_eq!(stage.send("DELETE", "/", &headers, "").status, 405);
    assert_eq!(visit.get("/run").status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_limited() {
    let stage = stage().await;
    let visit = stage.visit();
    let big = "x".repeat(70_000);
    let refused = visit.price(&big);
    // The text is there to be shortened.
    assert!(refused.status == 413 && refused.has(&format!("\n{big}</textarea>")));
    assert!(refused.has("has 70000 bytes, and the desk takes 65536. Nothing was done."));
    let most = visit.price(&format!("SELECT '{}'", "é".repeat(32_000)));
    assert!(most.has("Run, free"), "{}", most.status);
    // More than that is passed over, and the answer arrives.
    for megabytes in [1, 12] {
        let got = visit.post_with(&"x".repeat(megabytes << 20), "/price", &[("sql", COUNT)]);
        assert!(
            got.status == 413 && got.has("nothing was done"),
            "{}",
            got.head
        );
        is_closed(&got);
    }
    let long = format!("X: {big}");
    assert_eq!(stage.send("GET", "/", &[&long], "").status, 431);
    assert_eq!(visit.get("/").status, 200);
}

/// A form that stalls is left after a while, and keeps nobody out meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn forms_that_stall_keep_nobody_out() {
    let stage = stage().await;
    let visit = stage.visit();
    let open = |_| opened(&visit, "POST /price", 100);
    let mut stalled: Vec<TcpStream> = (0..20).map(open).collect();
    for socket in &mut stalled {
        socket.write_all(b"token=1234").unwrap();
    }
    // As they have sent no whole form, they have no place among the requests.
    assert!(visit.price(COUNT).has("Run at this price"));
    for socket in stalled {
        let got = finished(socket, "");
        assert_eq!(
            (got.status, &*got.body),
            (408, "the form did not arrive in time\n")
        );
        is_closed(&got);
    }
}

/// Pages of other sites may link to the desk, and embed nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn other_sites_embed_nothing() {
    let lifetimes = Lifetimes {
        idle: Duration::from_secs(3600),
        whole: Duration::from_secs(3600),
    };
    let stage = stage_with(lifetimes, None, with_bob).await;
    let visit = stage.visit();
    for site in ["same-site", "cross-site"] {
        let site = format!("Sec-Fetch-Site: {site}");
        for (mode, of, status) in [
            ("no-cors", "image", 403),
            ("cors", "empty", 403),
            ("navigate", "iframe", 403),
            ("navigate", "document", 200),
        ] {
            let (mode, of) = (
                format!("Sec-Fetch-Mode: {mode}"),
                format!("Sec-Fetch-Dest: {of}"),
            );
            let headers = [&site, &mode, &of, &visit.cookie].map(String::as_str);
            let got = stage.send("GET", "/budget", &headers, "");
            assert_eq!(got.status, status, "{headers:?}");
        }
    }
    for site in ["same-origin", "none"] {
        let site = format!("Sec-Fetch-Site: {site}");
        let headers = [site.as_str(), &visit.cookie];
        assert_eq!(stage.send("GET", "/budget", &headers, "").status, 200);
    }
}

/// The sessions of a role ask this often together and no more, whatever they ask.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_role_are_counted() {
    let stage = stage().await;
    let visit = stage.visit();
    let token = token(&visit.get("/").body);
    // One more each two seconds: these take less.
    let slowed = (0..1_000).map(|_| visit.get("/statements"));
    let slowed = slowed.filter(|got| got.status == 429).take(1).count();
    assert_eq!(slowed, 1);
    let ask = || visit.post_with(&token, "/price", &[("sql", COUNT)]);
    let refused = (0..1_000).map(|_| ask()).find(|got| got.status == 429);
    let refused = refused.unwrap();
    assert!(
        refused.has("Too often") && refused.has(COUNT),
        "{}",
        refused.body
    );
    // Another session of the role shares its allowance; another role has its own.
    let second = stage.visit();
    let slowed = (0..1_000).map(|_| second.get("/budget"));
    let slowed = slowed.map(|got| got.status).find(|status| *status == 429);
    assert_eq!(slowed, Some(429));
    let bob = stage.visit_as("bob", BOB);
    assert_eq!(bob.get("/statements").status, 200);
    // The plain form is never slowed down.
    assert_eq!(visit.get("/").status, 200);
}

/// The bytes of a page are limited, whatever an answer has.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_as_html_is_limited() {
    let stage = stage().await;
    let visit = stage.visit();
    let values = vec!["repeat('\"', 9000)"; 20].join(", ");
    let sql = format!("SELECT {values} FROM generate_series(1, 300)");
    let got = visit.ask(&sql);
    assert!(
        got.has("300 rows, of which the first "),
        "{}",
        &got.body[..2_000]
    );
    assert!(got.has("Values of more than 1024 bytes are cut"));
    assert!(got.body.len() < 3 << 20, "{}", got.body.len());
    assert_eq!(stage.veil.spent().await, 0.0);
}
