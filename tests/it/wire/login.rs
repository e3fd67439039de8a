//! Startup and authentication.

use std::sync::atomic::Ordering;

use super::double::{PASSWORD, start};
use super::socket::{Socket, admitted, message, packet, query, startup, startup_version};

#[tokio::test]
async fn a_client_is_greeted_as_by_a_real_server() {
    let running = start().await;
    let socket = Socket::log_in(running.address).await;
    let reported: Vec<(&str, &str)> = socket
        .parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    for expected in [
        ("server_version", "15.18"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO, MDY"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "off"),
        ("session_authorization", "ann"),
        ("in_hot_standby", "off"),
        ("default_transaction_read_only", "off"),
        ("scram_iterations", "4096"),
        ("search_path", "\"$user\", public"),
    ] {
        assert!(
            reported.contains(&expected),
            "{expected:?} not in {reported:?}"
        );
    }
    assert_eq!(socket.key.len(), 8);
}

#[tokio::test]
async fn startup_errors_are_fatal_and_come_after_the_password_where_they_would_tell() {
    let running = start().await;
    for (parameters, password, sqlstate) in [
        (vec![("database", "survey")], None, "28000"),
        (
            vec![
                ("user", "ann"),
                ("database", "survey"),
                ("replication", "true"),
            ],
            None,
            "0A000",
        ),
        (
            vec![("user", "ann"), ("database", "nowhere")],
            Some(PASSWORD),
            "3D000",
        ),
        (
            vec![("user", "ann"), ("database", "nowhere")],
            Some("wrong"),
            "28P01",
        ),
        (vec![("user", "ann")], Some(PASSWORD), "3D000"),
        (
            vec![
                ("user", "ann"),
                ("database", "survey"),
                ("client_encoding", "LATIN1"),
            ],
            Some(PASSWORD),
            "22023",
        ),
        (
            vec![
                ("user", "ann"),
                ("database", "survey"),
                ("options", "-c standard_conforming_strings=off"),
            ],
            Some(PASSWORD),
            "22023",
        ),
        (
            vec![("user", "ann"), ("database", "survey"), ("nonsense", "1")],
            Some(PASSWORD),
            "42704",
        ),
        (
            vec![
                ("user", "ann"),
                ("database", "survey"),
                ("search_path", "a b"),
            ],
            Some(PASSWORD),
            "22023",
        ),
        (
            vec![("user", "broken"), ("database", "survey")],
            Some(PASSWORD),
            "28P01",
        ),
    ] {
        let mut socket = Socket::open(running.address).await;
        socket.send(&startup(&parameters)).await;
        if let Some(password) = password {
            socket.authenticate(password, None).await;
            if sqlstate != "28P01" {
                assert_eq!(socket.receive().await.unwrap().kind, b'R', "SASLFinal");
            }
        }
        let reply = socket.fatal().await;
        assert_eq!(reply.field(b'C'), sqlstate, "{parameters:?}");
    }
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn options_and_spellings_of_utf8_are_taken() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    let options = "-c search_path=a,b --statement-timeout=5s -c pgveil.epsilon=0.25";
    socket
        .send(&startup(&[
            ("user", "ann"),
            ("database", "survey"),
            ("client_encoding", "'utf-8'"),
            ("options", options),
        ]))
        .await;
    socket.authenticate(PASSWORD, None).await;
    socket.until_ready().await;
    assert_eq!(socket.value("SHOW statement_timeout").await, "5s");
    assert!(
        socket
            .value("SELECT client")
            .await
            .starts_with("ann Some(0.25) [\"a\", \"b\"]")
    );
    socket.ask("SET search_path = c; RESET ALL").await;
    assert_eq!(socket.value("SHOW search_path").await, "a, b");
    for (list, shown) in [
        ("Main", "main"),
        ("Main, \"Other\"", "main, \"Other\""),
        ("", ""),
    ] {
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup(&[
                ("user", "ann"),
                ("database", "survey"),
                ("search_path", list),
            ]))
            .await;
        socket.authenticate(PASSWORD, None).await;
        socket.until_ready().await;
        assert_eq!(socket.value("SHOW search_path").await, shown);
    }
}

#[tokio::test]
async fn connections_are_counted_and_given_back() {
    let running = start().await;
    running.service.connections.store(1, Ordering::SeqCst);
    let first = Socket::log_in(running.address).await;
    let mut second = Socket::open(running.address).await;
    second
        .send(&startup(&[("user", "ann"), ("database", "survey")]))
        .await;
    second.authenticate(PASSWORD, None).await;
    second.receive().await;
    assert_eq!(second.fatal().await.field(b'C'), "53300");
    drop(first);
    admitted(running.address).await;
}

#[tokio::test]
async fn malformed_packets_are_refused_and_end() {
    let running = start().await;
    for bytes in [
        packet(super::socket::VERSION_3_0, b"user\0ann\0"),
        packet(super::socket::VERSION_3_0, b"user\0ann\0\0more"),
        packet(super::socket::VERSION_3_0, b"user"),
        vec![0, 0, 0, 4, 0, 3, 0, 0],
        vec![0xff; 8],
    ] {
        let mut socket = Socket::open(running.address).await;
        socket.send(&bytes).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01", "{bytes:?}");
    }
    let mut socket = Socket::open(running.address).await;
    socket.send(&packet(2 << 16, b"user\0ann\0\0")).await;
    assert_eq!(socket.fatal().await.field(b'C'), "0A000");
    // Messages of the SASL family that are no SCRAM.
    for body in [
        &b""[..],
        b"SCRAM-SHA-256",
        b"SCRAM-SHA-256\0\0\0\0\x09n,,n=,r=a",
        b"MD5\0\xff\xff\xff\xff",
        b"SCRAM-SHA-256\0\xff\xff\xff\xff",
    ] {
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup(&[("user", "ann"), ("database", "survey")]))
            .await;
        socket.receive().await;
        socket.send(&message(b'p', body)).await;
        socket.send(&query("SELECT 1")).await;
        let reply = socket.receive().await.unwrap();
        if reply.kind == b'R' {
            continue;
        }
        assert_eq!(
            (reply.field(b'S').as_str(), reply.field(b'C').as_str()),
            ("FATAL", "08P01"),
            "{body:?}"
        );
        assert_eq!(socket.receive().await, None);
    }
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn protocol_3_2_has_a_long_key() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    socket
        .send(&startup_version(
            (3 << 16) | 2,
            &[("user", "ann"), ("database", "survey")],
        ))
        .await;
    socket.authenticate(PASSWORD, None).await;
    socket.until_ready().await;
    assert_eq!(socket.key.len(), 36);
}

#[tokio::test]
async fn a_role_and_an_address_have_separate_limits() {
    use std::sync::atomic::Ordering;
    let running = start().await;
    for (limit, words) in [
        (
            &running.service.per_role,
            "too many connections for role \"ann\"",
        ),
        (
            &running.service.per_address,
            "too many connections from this address",
        ),
    ] {
        limit.store(1, Ordering::SeqCst);
        let held = admitted(running.address).await;
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup(&[("user", "ann"), ("database", "survey")]))
            .await;
        socket.authenticate(PASSWORD, None).await;
        socket.receive().await;
        let refused = socket.fatal().await;
        assert_eq!(
            (refused.field(b'C').as_str(), refused.field(b'M').as_str()),
            ("53300", words)
        );
        drop(held);
        limit.store(20, Ordering::SeqCst);
    }
    admitted(running.address).await;
}
