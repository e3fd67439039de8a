//! Defects found in pgwire 0.42.1 (anchors/wire_and_clients.md, section 1.3), each pinned by
//! number. Number 18 (client certificates) is not offered.

use std::time::Duration;

use super::double::{start, until};
use super::socket::{
    Socket, bind, describe, execute, kinds, message, packet, parse, query, startup,
    startup_version, sync,
};

const ANN: [(&str, &str); 2] = [("user", "ann"), ("database", "survey")];

#[tokio::test]
async fn defect_01_no_query_runs_without_authentication() {
    let running = start().await;
    // A query in place of the password, after a wrong password, and after each kind of startup
    // error.
    let mut socket = Socket::open(running.address).await;
    socket.send(&startup(&ANN)).await;
    socket.send(&query("SELECT 1")).await;
    assert_eq!(socket.receive().await.unwrap().kind, b'R');
    socket.fatal().await;

    for user in ["ann", "nobody", "broken"] {
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup(&[("user", user), ("database", "survey")]))
            .await;
        socket.authenticate("wrong", None).await;
        socket.send(&query("SELECT 1")).await;
        assert_eq!(socket.fatal().await.field(b'C'), "28P01");
    }
    let mut socket = Socket::open(running.address).await;
    socket
        .send(&startup(&[("user", "ann"), ("database", "nowhere")]))
        .await;
    socket.authenticate(super::double::PASSWORD, None).await;
    socket.send(&query("SELECT 1")).await;
    assert_eq!(socket.receive().await.unwrap().kind, b'R');
    assert_eq!(socket.fatal().await.field(b'C'), "3D000");
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn defect_03_huge_and_negative_row_limits_are_no_limit() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for rows_max in [i32::MAX, -1, i32::MIN, 0] {
        socket
            .send(
                &[
                    parse("", "SELECT many"),
                    bind("", "", &[], &[]),
                    execute("", rows_max),
                    sync(),
                ]
                .concat(),
            )
            .await;
        assert_eq!(
            kinds(&socket.until_ready().await),
            "12DDDDDDDDDDCZ",
            "{rows_max}"
        );
    }
}

#[tokio::test]
async fn defect_04_sizes_are_capped_before_and_after_login() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    socket
        .send(&packet(super::socket::VERSION_3_0, &vec![b'a'; 10_000])[..8])
        .await;
    assert_eq!(socket.fatal().await.field(b'C'), "08P01");

    let mut socket = Socket::open(running.address).await;
    socket.send(&startup(&ANN)).await;
    socket.receive().await;
    socket.send(&[b'p', 0, 1, 0, 5]).await;
    assert_eq!(socket.fatal().await.field(b'C'), "08P01");

    for head in [
        [b'Q', 1, 0, 0, 1],
        [b'Q', 0x7f, 0xff, 0xff, 0xff],
        [b'Q', 0xff, 0xff, 0xff, 0xff],
        [b'E', 0, 0, 0x27, 0x11],
        [b'S', 0, 0, 0, 3],
    ] {
        let mut socket = Socket::log_in(running.address).await;
        socket.send(&head).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01", "{head:?}");
    }
}

#[tokio::test]
async fn defect_05_a_bad_bind_is_an_error_and_a_short_one_the_end() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("", "SELECT three"),
                bind("", "", &[], &[0, 1]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[1].field(b'C').as_str()),
        ("1EZ", "08P01")
    );
    for (formats, kind) in [
        (&[][..], "12DCZ"),
        (&[1], "12DCZ"),
        (&[0, 1, 1], "12DCZ"),
        (&[2], "1EZ"),
        (&[0; 4], "1EZ"),
    ] {
        socket
            .send(
                &[
                    parse("", "SELECT three"),
                    bind("", "", &[], formats),
                    execute("", 0),
                    sync(),
                ]
                .concat(),
            )
            .await;
        assert_eq!(kinds(&socket.until_ready().await), kind, "{formats:?}");
    }
    // Wrong number of values.
    socket
        .send(&[parse("", "SELECT $1"), bind("", "", &[], &[]), sync()].concat())
        .await;
    assert_eq!(socket.until_ready().await[1].field(b'C'), "08P01");

    // A few cuts of a Bind; the decoder's own test has every one.
    let whole = bind("p", "", &["value"], &[0, 1]);
    for length in [0, 1, 5, 9, 14, whole.len() - 6] {
        let mut socket = Socket::log_in(running.address).await;
        socket.send(&message(b'B', &whole[5..5 + length])).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01", "{length}");
    }
    for (kind, body) in [
        (b'P', &b"a\0b"[..]),
        (b'P', b"a\0b\0\xff\xff"),
        (b'E', b"\0\0"),
        (b'D', b""),
        (b'D', b"X\0"),
        (b'C', b"S"),
        (b'S', b"x"),
    ] {
        let mut socket = Socket::log_in(running.address).await;
        socket.send(&message(kind, body)).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01", "{kind} {body:?}");
    }
}

#[tokio::test]
async fn defect_06_channel_binding_is_not_offered_in_plaintext() {
    let running = super::double::start_with(Some(super::tls::configuration().0)).await;
    let mut socket = Socket::open(running.address).await;
    socket.send(&startup(&ANN)).await;
    assert_eq!(
        &socket.receive().await.unwrap().body[4..],
        b"SCRAM-SHA-256\0\0"
    );
}

#[tokio::test]
async fn defect_07_decode_errors_are_reported() {
    let running = start().await;
    for kind in [b'x', b'?', 0, 0xff, b'p'] {
        let mut socket = Socket::log_in(running.address).await;
        socket.send(&message(kind, b"")).await;
        assert_eq!(socket.fatal().await.field(b'C'), "08P01");
    }
    let mut socket = Socket::log_in(running.address).await;
    socket.send(&message(b'F', b"\0\0\0\0")).await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[0].field(b'C').as_str()),
        ("EZ", "0A000")
    );
    // Left-overs of a COPY are dropped.
    socket
        .send(
            &[
                message(b'd', b"x"),
                message(b'c', b""),
                message(b'f', b"x\0"),
                query("SELECT 1"),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "TDCZ");
}

#[tokio::test]
async fn defect_08_text_that_is_not_utf8_is_refused() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for text in [
        &b"SELECT '\xff'\0"[..],
        b"SELECT '\xc3\x28'\0",
        "SELECT '\u{fffd}'\0".as_bytes(),
    ] {
        socket.send(&message(b'Q', text)).await;
        let replies = socket.until_ready().await;
        assert_eq!(
            (kinds(&replies).as_str(), replies[0].field(b'C').as_str()),
            ("EZ", "22021")
        );
    }
    socket
        .send(
            &[
                message(b'P', b"\0SELECT '\xff'\0\0\0"),
                bind("", "", &[], &[]),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[0].field(b'C').as_str()),
        ("EZ", "22021")
    );
    let mut bad = bind("", "", &["?"], &[]);
    let at = bad.iter().rposition(|&b| b == b'?').unwrap();
    bad[at] = 0xff;
    socket
        .send(&[parse("", "SELECT $1"), bad, sync()].concat())
        .await;
    assert_eq!(socket.until_ready().await[1].field(b'C'), "22021");
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn defect_09_a_wrong_password_is_refused_in_the_words_of_postgresql() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    socket.send(&startup(&ANN)).await;
    socket.authenticate("wrong", None).await;
    let reply = socket.fatal().await;
    assert_eq!(
        reply.field(b'M'),
        "password authentication failed for user \"ann\""
    );
    assert_eq!(reply.field(b'C'), "28P01");
}

#[tokio::test]
async fn defect_10_an_unknown_role_looks_like_a_wrong_password() {
    let running = start().await;
    let mut salts = Vec::new();
    for user in ["nobody", "nobody", "somebody"] {
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup(&[("user", user), ("database", "survey")]))
            .await;
        let challenge = socket.authenticate("wrong", None).await;
        let part = |code: &str| {
            challenge
                .split(',')
                .find_map(|part| part.strip_prefix(code))
                .unwrap()
                .to_owned()
        };
        assert_eq!((part("i=").as_str(), part("s=").len()), ("4096", 24));
        salts.push(part("s="));
        assert_eq!(
            socket.fatal().await.field(b'M'),
            format!("password authentication failed for user \"{user}\"")
        );
    }
    assert_eq!(salts[0], salts[1]);
    assert_ne!(salts[0], salts[2]);
}

#[tokio::test]
async fn defect_11_a_cancel_reaches_the_engine_and_its_answer_is_awaited() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.send(&query("SELECT slow")).await;
    until(|| running.service.answers() == 1).await;
    let mut other = Socket::open(running.address).await;
    other
        .send(&packet(super::socket::CANCEL_REQUEST, &socket.key))
        .await;
    assert_eq!(other.receive().await, None);
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[0].field(b'C').as_str()),
        ("EZ", "57014")
    );
    assert_eq!(
        running
            .service
            .finished
            .load(std::sync::atomic::Ordering::SeqCst),
        1
    );
}

#[tokio::test]
async fn defect_12_a_vanished_client_is_noticed() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.send(&query("SELECT slow")).await;
    until(|| running.service.answers() == 1).await;
    drop(socket);
    until(|| {
        running
            .service
            .cancelled
            .load(std::sync::atomic::Ordering::SeqCst)
            == 1
    })
    .await;
}

#[tokio::test]
async fn defect_13_rows_are_sent_before_the_batch_ends() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("", "SELECT huge"),
                bind("", "", &[], &[]),
                execute("", 0),
            ]
            .concat(),
        )
        .await;
    for kind in [b'1', b'2', b'D', b'D'] {
        assert_eq!(socket.receive().await.unwrap().kind, kind);
    }
    socket.send(&sync()).await;
    assert_eq!(socket.until_ready().await.len(), 50_000 - 2 + 2);
}

#[tokio::test]
async fn defect_14_names_are_checked_and_portals_end_with_the_transaction() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(&[parse("s", "SELECT 1"), parse("s", "SELECT 1"), sync()].concat())
        .await;
    assert_eq!(socket.until_ready().await[1].field(b'C'), "42P05");
    for (message, sqlstate) in [
        (execute("none", 0), "34000"),
        (describe('P', "none"), "34000"),
        (describe('S', "none"), "26000"),
        (bind("", "none", &[], &[]), "26000"),
    ] {
        socket.send(&[message, sync()].concat()).await;
        assert_eq!(socket.until_ready().await[0].field(b'C'), sqlstate);
    }
    socket.ask("BEGIN").await;
    socket
        .send(&[bind("p", "s", &[], &[]), sync()].concat())
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "2Z");
    socket.ask("COMMIT").await;
    socket.send(&[execute("p", 0), sync()].concat()).await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "34000");
    // Outside a transaction block, Sync ends it.
    socket
        .send(&[bind("p", "s", &[], &[]), sync(), execute("p", 0), sync()].concat())
        .await;
    socket.until_ready().await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "34000");
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn defect_15_shutdown_ends_idle_sessions_and_lets_statements_finish() {
    let running = start().await;
    let mut idle = Socket::log_in(running.address).await;
    let mut busy = Socket::log_in(running.address).await;
    busy.send(&query("SELECT sleepy")).await;
    until(|| running.service.answers() == 1).await;
    running.shutdown.cancel();
    assert_eq!(idle.fatal().await.field(b'C'), "57P01");
    assert_eq!(kinds(&busy.until_ready().await), "TDCZ");
    assert_eq!(busy.fatal().await.field(b'C'), "57P01");
    drop((idle, busy));
    // Statements that do not end have ten seconds, which nobody waits out here.
    tokio::time::timeout(Duration::from_secs(8), running.server)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_15_a_statement_without_end_is_given_up_at_the_deadline() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.send(&query("SELECT slow")).await;
    until(|| running.service.answers() == 1).await;
    running.shutdown.cancel();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), running.server).await;
    assert!(
        ended.is_ok_and(|served| served.unwrap().is_ok()),
        "the server did not end"
    );
    assert_eq!(socket.fatal().await.field(b'C'), "57P01");
}

#[tokio::test]
async fn defect_16_fields_that_clients_rely_on_are_sent() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let replies = socket.ask("SELECT fail").await;
    let error = &replies[0];
    let fields: Vec<String> = b"SVCMDHP".iter().map(|&code| error.field(code)).collect();
    assert_eq!(
        fields,
        [
            "ERROR",
            "ERROR",
            "42501",
            "rows of a private table cannot be shown",
            "The detail.",
            "The hint.",
            "8"
        ]
    );
    // Name, table 0, column 0, int4, its size, no modifier, text.
    let replies = socket.ask("SELECT 1").await;
    assert_eq!(
        replies[0].body,
        b"\0\x01?column?\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"
    );
}

#[tokio::test]
async fn defect_17_a_failing_statement_keeps_earlier_results() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    assert_eq!(
        kinds(&socket.ask("SELECT 1; SELECT fail; SELECT 2").await),
        "TDCEZ"
    );
    assert_eq!(running.service.answers(), 2);
}

#[tokio::test]
async fn defect_19_what_is_not_understood_of_the_protocol_is_named() {
    let running = start().await;
    for (version, agreed) in [
        ((3 << 16) | 1, 3 << 16),
        ((3 << 16) | 9999, (3 << 16) | 2),
        (3 << 16, 3 << 16),
    ] {
        let mut socket = Socket::open(running.address).await;
        socket
            .send(&startup_version(
                version,
                &[("user", "ann"), ("database", "survey"), ("_pq_.magic", "1")],
            ))
            .await;
        let reply = socket.receive().await.unwrap();
        let expected = [
            &i32::to_be_bytes(agreed)[..],
            &1_i32.to_be_bytes(),
            b"_pq_.magic\0",
        ]
        .concat();
        assert_eq!((reply.kind, reply.body), (b'v', expected));
    }
}
