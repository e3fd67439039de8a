//! Cancel, timeout and disconnect: the client's wait ends, the answer's accounting does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgveil::refusal::Ending;

use super::double::{start, until};
use super::socket::{CANCEL_REQUEST, Socket, admitted, kinds, packet, proven, query};

pub async fn cancel(address: std::net::SocketAddr, key: &[u8]) {
    let mut socket = Socket::open(address).await;
    socket.send(&packet(CANCEL_REQUEST, key)).await;
    assert_eq!(socket.receive().await, None);
}

#[tokio::test]
async fn a_late_cancel_does_not_reach_the_next_statement() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for _ in 0..20 {
        socket.ask("SELECT 1").await;
        cancel(running.address, &socket.key).await;
        assert_eq!(kinds(&socket.ask("SELECT 1").await), "TDCZ");
    }
}

#[tokio::test]
async fn a_wrong_key_cancels_nothing() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let mut bystander = Socket::log_in(running.address).await;
    socket.send(&query("SELECT slow")).await;
    until(|| running.service.answers() == 1).await;
    let mut wrong = socket.key.clone();
    wrong[7] ^= 1;
    let no_secret = &socket.key[..4];
    for key in [&wrong[..], no_secret, &[0; 8], &bystander.key.clone()] {
        cancel(running.address, key).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(running.service.cancelled.load(Ordering::SeqCst), 0);
    assert_eq!(kinds(&bystander.ask("SELECT 1").await), "TDCZ");
    cancel(running.address, &socket.key).await;
    assert_eq!(kinds(&socket.until_ready().await), "EZ");
}

#[tokio::test]
async fn one_cancel_stops_one_statement_of_a_string() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(&[query("SELECT slow; SELECT 1"), query("SELECT slow")].concat())
        .await;
    until(|| running.service.answers() == 1).await;
    cancel(running.address, &socket.key).await;
    assert_eq!(kinds(&socket.until_ready().await), "EZ");
    until(|| running.service.answers() == 2).await;
    assert_eq!(running.service.cancelled.load(Ordering::SeqCst), 1);
    cancel(running.address, &socket.key).await;
    assert_eq!(kinds(&socket.until_ready().await), "EZ");
}

#[tokio::test]
async fn a_statement_timeout_ends_the_wait_and_not_the_answer() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("SET statement_timeout = '500ms'").await;
    assert_eq!(socket.refused("SELECT gated").await, "57014");
    assert_eq!(
        (
            running.service.answers(),
            running.service.finished.load(Ordering::SeqCst)
        ),
        (1, 0)
    );
    // Its later outcome is not recorded.
    let given_up = || running.service.given_up.lock().unwrap().clone();
    assert_eq!(given_up()[0].get().map(Ending::sqlstate), Some("57014"));
    // The session goes on at once, until it has left too many answers behind: then a question
    // waits, here in vain, and is not charged.
    socket.ask("SET statement_timeout = '30s'").await;
    assert_eq!(socket.value("SELECT 1").await, "1");
    assert_eq!(
        (
            running.service.answers(),
            running.service.finished.load(Ordering::SeqCst)
        ),
        (2, 1)
    );
    assert_eq!(given_up()[1].get(), None);
    socket.ask("SET statement_timeout = '500ms'").await;
    for _ in 0..3 {
        assert_eq!(socket.refused("SELECT gated").await, "57014");
    }
    assert_eq!(
        (
            running.service.answers(),
            socket.refused("SELECT 1").await.as_str()
        ),
        (5, "57014")
    );
    assert_eq!(running.service.answers(), 5);
    socket.ask("SET statement_timeout = 0").await;
    socket.send(&query("SELECT 1")).await;
    running.service.gate.send_replace(true);
    assert_eq!(kinds(&socket.until_ready().await), "TDCZ");
    until(|| running.service.finished.load(Ordering::SeqCst) == 6).await;
    assert_eq!(running.service.cancelled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_statement_timeout_leaves_time_for_the_quantum() {
    let running = start().await;
    *running.service.quantum.lock().unwrap() = Some(Duration::from_secs(60));
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("SET statement_timeout = '500ms'").await;
    assert_eq!(kinds(&socket.ask("SELECT sleepy").await), "TDCZ");
}

#[tokio::test]
async fn an_answer_outlives_its_client_and_keeps_its_place() {
    let running = start().await;
    running.service.connections.store(1, Ordering::SeqCst);
    let mut socket = Socket::log_in(running.address).await;
    socket.send(&query("SELECT gated")).await;
    until(|| running.service.answers() == 1).await;
    drop(socket);
    let mut next = proven(running.address).await;
    next.receive().await;
    assert_eq!(next.fatal().await.field(b'C'), "53300");
    assert_eq!(running.service.finished.load(Ordering::SeqCst), 0);
    running.service.gate.send_replace(true);
    // The place is free a moment after the answer ends.
    admitted(running.address).await;
    let ended = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    assert_eq!(
        (
            ended(&running.service.finished),
            ended(&running.service.cancelled)
        ),
        (1, 0)
    );
}

/// A client that has sent its proof and has not read the verdict.
#[tokio::test]
async fn requests_sent_while_a_statement_runs_are_served_after_it() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let pipelined: Vec<u8> = (0..20_000)
        .flat_map(|_| query("SET DateStyle = iso"))
        .collect();
    socket.send(&query("SELECT sleepy")).await;
    let (mut reader, mut writer) = tokio::io::split(socket.stream);
    let sent = tokio::spawn(async move {
        tokio::io::AsyncWriteExt::write_all(&mut writer, &pipelined)
            .await
            .map(|()| writer)
    });
    // SELECT's replies, then CommandComplete SET and ReadyForQuery each time.
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    while bytes < 20_000 * 15 {
        bytes += tokio::time::timeout(
            Duration::from_secs(30),
            tokio::io::AsyncReadExt::read(&mut reader, &mut buffer),
        )
        .await
        .unwrap()
        .unwrap();
    }
    sent.await.unwrap().unwrap();
}
