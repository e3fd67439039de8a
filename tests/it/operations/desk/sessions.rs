//! Whom the desk lets in, for how long, and how many at once.

use pgveil::ledger::{Event, Origin, Via};

use super::super::demo_page::form;
use super::super::pages::{OWN, cookie, logs_in_by_tls, token};
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_a_session() {
    let stage = stage().await;
    for path in [
        "/",
        "/budget",
        "/statements",
        "/?show=tables",
        "/answer?of=1",
        "/else",
    ] {
        for cookie in ["Cookie: a=b", "Cookie: pgveil=00"] {
            let got = stage.send("GET", path, &[cookie], "");
            let is_sent_away = got.head.contains("location: /login");
            assert!(got.status == 303 && is_sent_away, "{path}: {}", got.head);
        }
    }
    for path in ["/price", "/run", "/logout"] {
        let body = form(&[("token", ""), ("sql", COUNT), ("quote", "1")]);
        let got = stage.send("POST", path, &[OWN], &body);
        assert_eq!(got.status, 401, "{path}");
        // The typed text is not lost.
        assert_eq!(got.has(COUNT), path == "/price", "{}", got.body);
    }
    for (name, password) in [
        ("analyst", ""),
        ("analyst", BOB),
        ("", "analyst"),
        ("x", "x"),
    ] {
        assert_eq!(stage.log_in(name, password).status, 401, "{name}");
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    let records = stage.records().await;
    assert_eq!(records.len(), 4);
    for record in records {
        assert_eq!((record.sqlstate(), &record.event), ("28P01", &Event::Login));
        assert_eq!(record.origin.via, Via::Desk);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_cookie_that_nobody_chooses() {
    let stage = stage().await;
    // A planted cookie is not the one that the login gives.
    let port = stage.address.port();
    let planted = format!("Cookie: pgveil-{port}={}", "0".repeat(64));
    let body = form(&[("name", "analyst"), ("password", "analyst")]);
    let got = stage.send("POST", "/login", &[OWN, &planted], &body);
    assert_eq!(stage.send("GET", "/", &[&planted], "").status, 303);
    let set = cookie(&got);
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "path=/; httponly; samesite=strict");
    let (name, secret) = pair.split_once('=').unwrap();
    assert_eq!(name, format!("pgveil-{port}"));
    assert!(secret.len() == 64 && secret != "0".repeat(64));
    let (first, second) = (stage.visit(), stage.visit());
    assert_ne!(first.cookie, second.cookie);
    // Forms and prices of one session are not valid in another.
    let priced = first.price(COUNT);
    let (its, number) = (token(&priced.body), quote(&priced.body));
    let got = second.post_with(&its, "/run", &[("quote", &number)]);
    assert_eq!(got.status, 403);
    let own = token(&second.get("/").body);
    let got = second.post_with(&own, "/run", &[("quote", &number)]);
    assert!(
        got.status == 409 && got.has("not kept any more"),
        "{}",
        got.body
    );
    assert_eq!(stage.veil.spent().await, 0.0);
    // A page that the browser kept from before has no good token any more.
    let left = first.post_with("", "/logout", &[]);
    assert!(left.status == 303 && cookie(&left).contains("max-age=0"));
    assert_eq!(first.get("/").status, 303);
    assert_eq!(second.get("/").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_asks_nothing() {
    let lifetimes = Lifetimes {
        idle: Duration::ZERO,
        whole: Duration::from_secs(3600),
    };
    let stage = stage_with(lifetimes, None, with_bob).await;
    let visit = stage.visit();
    let got = visit.get("/budget");
    assert!(got.status == 303 && got.head.contains("location: /login"));
    let got = visit.post_with("", "/price", &[("sql", COUNT)]);
    assert!(got.status == 401 && got.has("The session has ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_slowed_down_and_recorded() {
    let stage = stage().await;
    let mut shown = Vec::new();
    for name in ["analyst", "nobody"].into_iter().cycle().take(10) {
        let got = stage.log_in(name, "wrong");
        assert_eq!(got.status, 401, "{name}");
        shown.push(got.body);
    }
    shown.dedup();
    assert_eq!(shown.len(), 1);
    for _ in 0..3 {
        let got = stage.log_in("analyst", "analyst");
        assert!(got.status == 429 && !got.head.contains("set-cookie"));
    }
    stage.visit_as("bob", BOB);
    let records = stage.records().await;
    let of = |name: &str| records.iter().filter(|r| r.name == name).count();
    assert_eq!([of("analyst"), of("nobody"), of("bob")], [6, 5, 1]);
    // Ten passwords were wrong; the eleventh try was not looked at.
    let count = |sqlstate: &str| records.iter().filter(|r| r.sqlstate() == sqlstate).count();
    assert_eq!([count("28P01"), count("57P03"), count("00000")], [10, 1, 1]);
    assert!(records.iter().all(|r| r.origin.address.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_changes_a_role_ends_its_session() {
    let stage = stage().await;
    let (analyst, bob) = (stage.visit(), stage.visit_as("bob", BOB));
    assert!(analyst.get("/").status == 200 && bob.get("/").status == 200);
    let verifier = make_verifier(BOB);
    let edited = |yaml: String| {
        let old = yaml.split("name: bob, password: '").nth(1).unwrap();
        let old = old.split('\'').next().unwrap().to_owned();
        yaml.replace(&old, &verifier)
    };
    let next = stage.veil.proxy_with(&stage.veil.ledger, edited).await;
    stage.exchange.replace(next);
    assert_eq!(bob.get("/").status, 303);
    assert_eq!(analyst.get("/").status, 200);
    assert_eq!(stage.visit_as("bob", BOB).get("/").status, 200);
}

/// An operator's KILL ends a session of the desk as one of the wire.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_and_ends_sessions() {
    let stage = stage().await;
    let visit = stage.visit();
    let open = stage.sessions.all();
    let [session] = open.as_slice() else {
        panic!("{open:?}")
    };
    assert_eq!(
        (session.name.as_str(), session.is_operator),
        ("analyst", false)
    );
    assert_eq!(session.application(), "pgveil desk");
    let priced = visit.price(COUNT);
    session.end();
    assert_eq!(visit.run(&priced).status, 401);
    assert_eq!(visit.get("/").status, 303);
    assert_eq!(stage.veil.spent().await, 0.0);
    drop(open);
    assert!(stage.sessions.all().is_empty());
}

/// Leaves a role this many places for sessions.
async fn stage_of_places(places: u32) -> Stage {
    let limited = |policy: String| {
        let limits = format!("\nlimits:\n  connections_per_role: {places}\n");
        with_bob(policy).replacen("\nlimits:\n", &limits, 1)
    };
    stage_with(Lifetimes::default(), None, limited).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_takes_the_place_of_the_idlest_session() {
    let stage = stage_of_places(2).await;
    let (first, second) = (stage.visit(), stage.visit());
    assert_eq!(first.get("/").status, 200);
    let third = stage.visit();
    assert_eq!(second.get("/").status, 303);
    assert!(first.get("/").status == 200 && third.get("/").status == 200);
    // A session that asks is not idle, whenever it was used last.
    let priced = first.price(COUNT);
    let held = stage.exchange.quiet().await;
    assert_eq!(first.start(&priced).status, 303);
    let fourth = stage.visit();
    assert_eq!(third.get("/").status, 303);
    assert!(first.get("/").status == 200 && fourth.get("/").status == 200);
    drop(held);
}

/// What another site makes a browser send, and a page that loads itself again, keep no session from
/// becoming idle.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_nobody_made_do_not_count_as_use() {
    let stage = stage_of_places(2).await;
    let headers = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    for (site, path) in [
        ("Sec-Fetch-Site: cross-site", "/"),
        ("Sec-Fetch-Site: same-site", "/"),
        ("Sec-Fetch-Site: same-origin", "/?again"),
    ] {
        let (first, second) = (stage.visit(), stage.visit());
        let got = first.get_with(path, &[&[site], &headers[..]].concat());
        assert_eq!(got.status, 200, "{site}");
        // The first one is still the one that was idle longest.
        let third = stage.visit();
        assert_eq!(first.get("/").status, 303, "{site}");
        assert_eq!(second.get("/").status, 200, "{site}");
        // Both are used now: the one that was used first gives way.
        assert_eq!(third.get("/").status, 200);
        let fourth = stage.visit();
        assert_eq!(second.get("/").status, 303);
        for visit in [third, fourth] {
            assert_eq!(visit.post_with("", "/logout", &[]).status, 303);
        }
    }
}

/// Clients of the wire take places too, and none of theirs is given away.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_take_the_places_of_clients() {
    let stage = stage_of_places(2).await;
    let take = || {
        let origin = Origin::default();
        stage
            .commons
            .open_session(&*stage.exchange, "analyst", origin, false)
    };
    let sessions = [take().unwrap(), take().unwrap()];
    let refused = stage.log_in("analyst", "analyst");
    let why = "too many connections for role";
    assert!(
        refused.status == 503 && refused.has(why),
        "{}",
        refused.body
    );
    stage.visit_as("bob", BOB);
    // The record has the reason: the password was right.
    let records = stage.records().await;
    let sqlstates: Vec<&str> = records.iter().map(|r| r.sqlstate()).collect();
    assert_eq!(sqlstates, ["00000", "53300"]);
    drop(sessions);
    let visit = stage.visit();
    assert!(take().is_ok() && visit.get("/").status == 200);
    // Who logs in again by the same browser has one session.
    let body = form(&[("name", "analyst"), ("password", "analyst")]);
    let again = stage.send("POST", "/login", &[OWN, &visit.cookie], &body);
    assert_eq!(again.status, 303);
    assert_eq!(visit.get("/").status, 303);
    assert_eq!(stage.sessions.all().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_needs_a_certificate_does_not_get_around_it() {
    let stage = stage_with(Lifetimes::default(), None, certified).await;
    assert_eq!(stage.log_in("bob", BOB).status, 401);
    stage.visit();
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_the_cookie_is_for_tls_alone() {
    let (config, certificate) = crate::wire::tls::configuration();
    let tls = Some(Tls::from(Some(config)));
    let stage = stage_with(Lifetimes::default(), tls, with_bob).await;
    let body = form(&[("name", "analyst"), ("password", "analyst")]);
    logs_in_by_tls(stage.address, &certificate, &body).await;
}

/// A role that needs a certificate could not show it there.
#[test]
fn a_desk_without_tls_is_not_opened_for_certificates() {
    let policy = with_bob(std::fs::read_to_string("policies/demo.yaml").unwrap());
    let policy = policy.replacen("{name: bob,", "{name: bob, certificate: required,", 1);
    let directory = crate::fixture::TemporaryDirectory::new("desk");
    let path = directory.0.join("policy.yaml");
    std::fs::write(&path, &policy).unwrap();
    let at = policy
        .lines()
        .position(|line| line.contains("required"))
        .unwrap();
    let column = policy.lines().nth(at).unwrap().find("required").unwrap();
    let done = std::process::Command::new(super::super::stage::PGVEIL)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--desk",
            "127.0.0.1:0",
            "--policy",
        ])
        .arg(&path)
        .env("DATABASE_URL", "postgres://nowhere/nls")
        .env("PGVEIL_LEDGER", "sqlite:///nowhere/ledger.db")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&done.stderr);
    let wanted = format!(
        "policy.yaml:{}:{}: role \"bob\" needs a certificate, and the desk at 127.0.0.1:0 has \
            no TLS",
        at + 1,
        column + 1
    );
    assert!(
        done.status.code() == Some(3) && reported.contains(&wanted),
        "{wanted}: {reported}"
    );
}

#[test]
fn a_desk_without_tls_is_not_opened_beyond_this_machine() {
    let done = std::process::Command::new(super::super::stage::PGVEIL)
        .args(["serve", "--listen", "127.0.0.1:0", "--desk", "0.0.0.0:0"])
        .args(["--policy", "policies/demo.yaml"])
        .env("DATABASE_URL", "postgres://nowhere/nls")
        .env("PGVEIL_LEDGER", "sqlite:///nowhere/ledger.db")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&done.stderr);
    let wanted = "the desk at 0.0.0.0:0 would be reached without TLS";
    assert!(
        !done.status.success() && reported.contains(wanted),
        "{reported}"
    );
}
