//! Questions that run: once, to their end, also where nobody waits.

use std::io::{Read, Write};
use std::net::TcpStream;

use pgveil::operator::State;

use super::super::demo_page::{Got, form};
use super::super::pages::{OWN, aside, still, token};
use super::*;

impl Stage {
    /// Waits until the only session is in this state.
    async fn becomes(&self, state: State) {
        while self.sessions.all()[0].state() != state {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_asks_one_question_at_a_time() {
    let stage = stage().await;
    let visit = stage.visit();
    let (priced, other) = (visit.price(COUNT), visit.price(BY_RACE));
    // As while a policy is loaded: no question goes on.
    let held = stage.exchange.quiet().await;
    let started = visit.start(&priced);
    stage.becomes(State::Running).await;
    for busy in [visit.price(COUNT), visit.run(&other)] {
        assert_eq!(busy.status, 503);
        assert!(busy.has("A question of this session is still running"));
        // The typed text is not lost.
        assert!(
            busy.has("rows=\"4\"") && busy.has(">\nSELECT "),
            "{}",
            busy.body
        );
    }
    drop(held);
    let answered = visit.follow(started);
    assert!(answered.has("1 row"), "{}", answered.body);
    // Nor is the price that could not be run.
    assert!(visit.run(&other).has("3 rows"));
    assert_eq!(visit.price(BY_RACE).status, 200);
}

/// A double click, a form that is sent again, a page that is loaded again: one question, one
/// charge, one answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_is_answered_once() {
    let stage = stage().await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let held = stage.exchange.quiet().await;
    let (one, two) = (visit.start(&priced), visit.start(&priced));
    stage.becomes(State::Running).await;
    let later = visit.start(&priced);
    let places = [&one, &two, &later].map(|got| header(got, "location").unwrap().to_owned());
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    // The page waits, and is the same page when it is loaded again.
    let path = places[0].split('#').next().unwrap();
    let running = visit.get(path);
    assert!(
        running.has("The question runs") && running.status == 200,
        "{}",
        running.body
    );
    assert!(header(&running, "refresh").unwrap().contains(path));
    drop(held);
    let answered = visit.follow(one);
    assert!(
        answered.has("1 row") && answered.has("Charged "),
        "{}",
        answered.body
    );
    let spent = stage.veil.spent().await;
    assert!(spent > 0.0);
    assert_eq!(still(&visit.follow(two).body), still(&answered.body));
    assert_eq!(still(&visit.follow(later).body), still(&answered.body));
    assert_eq!(stage.veil.spent().await, spent);
    let debits = stage.veil.engine.ledger().history("analyst", 9).await;
    assert_eq!(debits.unwrap().len(), 1);
}

/// Sends a form, and does not wait for the response.
fn begin(visit: &Visit, path: &str, fields: &[(&str, &str)]) -> TcpStream {
    let (address, body) = (visit.address, form(fields));
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\n{OWN}\r\n{}\r\nContent-Length: {}\r\n\
            Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}",
        visit.cookie,
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

/// A client that leaves is answered all the same: the answer is there when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_does_not_depend_on_who_waits() {
    let stage = stage().await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let (token, number) = (token(&priced.body), quote(&priced.body));
    let held = stage.exchange.quiet().await;
    let sent = begin(&visit, "/run", &[("token", &token), ("quote", &number)]);
    stage.becomes(State::Running).await;
    drop(sent);
    drop(held);
    let answered = visit.run(&priced);
    assert!(
        answered.has("1 row") && answered.has("Charged "),
        "{}",
        answered.body
    );
    // Also for another session of the role, at no cost.
    let spent = stage.veil.spent().await;
    assert!(spent > 0.0);
    let other = stage.visit();
    assert!(other.price(COUNT).has("Run, free") && other.ask(COUNT).has("Charged nothing"));
    assert_eq!(stage.veil.spent().await, spent);
}

/// The answer is made and kept, whoever waited for it.
async fn is_kept(stage: &Stage, visit: &Visit) {
    while !visit.price(COUNT).has("Run, free") {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(stage.veil.spent().await > 0.0);
}

/// A session that ends while its question runs loses no answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_outlives_its_session() {
    let stage = stage().await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let held = stage.exchange.quiet().await;
    assert_eq!(visit.start(&priced).status, 303);
    stage.becomes(State::Running).await;
    assert_eq!(visit.post_with("", "/logout", &[]).status, 303);
    drop(held);
    is_kept(&stage, &stage.visit()).await;
}

/// The session's own timeout ends the wait, and not the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_loses_no_answer() {
    let stage = stage().await;
    let visit = stage.visit();
    // The timeout is the price's too: on a slow machine it is asked for again.
    let priced = loop {
        let got = visit.price("SET statement_timeout = 2000; SELECT count(*) FROM nls.women");
        if got.has("name=\"quote\"") {
            break got;
        }
    };
    let held = stage.exchange.quiet().await;
    let refused = visit.run(&priced);
    assert!(refused.has("SQLSTATE 57014"), "{}", refused.body);
    drop(held);
    is_kept(&stage, &visit).await;
}

/// A price that nobody waits for ends, and is in the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_price_ends_when_its_client_leaves() {
    let stage = stage().await;
    let visit = stage.visit();
    let token = token(&visit.get("/").body);
    let held = stage.exchange.quiet().await;
    let fields = [("token", token.as_str()), ("sql", COUNT)];
    let asked = begin(&visit, "/price", &fields);
    stage.becomes(State::Running).await;
    drop(asked);
    stage.becomes(State::Idle).await;
    drop(held);
    // The form may be sent again, with what it had.
    let again = visit.post_with(&token, "/price", &fields[1..]);
    assert!(again.has("Run at this price"), "{}", again.body);
    assert_eq!(stage.veil.spent().await, 0.0);
    let records = stage.records().await;
    let left = records.iter().filter(|record| record.sqlstate() == "08006");
    assert_eq!(left.count(), 1, "{records:?}");
}

/// A request whose head has been read, and whose body is waited for.
pub fn opened(visit: &Visit, line: &str, length: usize) -> TcpStream {
    let address = visit.address;
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\n{OWN}\r\n{}\r\nContent-Length: {length}\r\n\
            Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n",
        visit.cookie
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut goes_on = [0; 25];
    aside(|| socket.read_exact(&mut goes_on)).unwrap();
    assert_eq!(&goes_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket
}

/// The answer to a request, once its body is sent.
pub fn finished(mut socket: TcpStream, body: &str) -> Got {
    let mut text = Vec::new();
    socket.write_all(body.as_bytes()).unwrap();
    aside(|| socket.read_to_end(&mut text)).unwrap();
    Got::of(text)
}

/// A question that runs when the server stops is answered; none begins any more.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_begins_once_the_desk_closes() {
    let veil = Veil::demo(with_bob, None).await;
    let engine = Arc::clone(&veil.engine);
    let (lifetimes, drain) = (Lifetimes::default(), Duration::from_secs(3600));
    let mut stage = stage_over((veil, engine), lifetimes, None, drain).await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let held = stage.exchange.quiet().await;
    let started = visit.start(&priced);
    stage.becomes(State::Running).await;
    let bob = stage.visit_as("bob", BOB);
    let late = token(&bob.get("/").body);
    let late = form(&[("token", &late), ("sql", COUNT)]);
    let place = header(&started, "location").unwrap();
    let place = place.split('#').next().unwrap();
    let waiting = opened(&visit, &format!("GET {place}"), 1);
    let other = opened(&bob, "POST /price", late.len());
    stage.shutdown.cancel();
    let refused = finished(other, &late);
    let why = "pgveil is stopping";
    assert!(
        refused.status == 503 && refused.has(why),
        "{}",
        refused.body
    );
    drop(held);
    let answered = finished(waiting, "x");
    assert!(
        answered.has("1 row") && answered.has("Charged "),
        "{}",
        answered.body
    );
    (&mut stage.served).await.unwrap().unwrap();
}

/// How many statements wait for the lock of the women.
async fn waiting(stage: &Stage) -> String {
    let sql =
        "SELECT count(*) FROM pg_locks WHERE relation = 'nls.women'::regclass AND NOT granted";
    stage.veil.direct(sql).await.concat()
}

/// Stops a desk whose question waits for a lock, and returns the page that waited for the answer.
async fn stopped_while_it_waits() -> String {
    let veil = Veil::demo(with_bob, None).await;
    let engine = Arc::clone(&veil.engine);
    let mut stage = stage_over((veil, engine), Lifetimes::default(), None, Duration::ZERO).await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let lock = "BEGIN; LOCK TABLE nls.women IN ACCESS EXCLUSIVE MODE";
    stage.veil.client.batch_execute(lock).await.unwrap();
    let started = visit.start(&priced);
    let place = header(&started, "location").unwrap();
    let page = opened(
        &visit,
        &format!("GET {}", place.split('#').next().unwrap()),
        1,
    );
    while waiting(&stage).await == "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.shutdown.cancel();
    let ended = finished(page, "x");
    (&mut stage.served).await.unwrap().unwrap();
    // The lock is held all the time: nothing but the end of its statement ends the wait.
    while waiting(&stage).await != "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ended.body
}

/// A statement that still runs at the end of the drain is cancelled in the database. A statement
/// gives up by itself when it has waited for a lock for five seconds: where this machine is slower
/// than that, the test begins again.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_cancelled_at_the_end_of_the_drain() {
    for _ in 0..10 {
        let ended = stopped_while_it_waits().await;
        if ended.contains("SQLSTATE 57014") {
            return;
        }
        assert!(ended.contains("SQLSTATE 55P03"), "{ended}");
    }
    panic!("no statement was cancelled");
}
