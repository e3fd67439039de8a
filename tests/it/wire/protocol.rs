//! Order of messages, portals, formats, and the times of charges.

use super::double::start;
use super::socket::{Socket, bind, describe, execute, kinds, message, parse, query, sync};

#[tokio::test]
async fn simple_queries_answer_in_order() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, expected) in [
        ("SELECT 1", "TDCZ"),
        ("", "IZ"),
        (" ; -- nothing\n;", "IZ"),
        ("SELECT 1;;SELECT many", "TDCTDDDDDDDDDDCZ"),
        ("SELECT noted", "NTDCZ"),
        ("EXPLAIN SELECT 1", "TDDCZ"),
        ("EXPLAIN (FORMAT JSON) SELECT 1", "TDCZ"),
        ("SELEC 1", "EZ"),
        ("SELECT panic", "EZ"),
        ("SELECT 1", "TDCZ"),
    ] {
        assert_eq!(kinds(&socket.ask(sql).await), expected, "{sql}");
    }
    assert_eq!(
        socket
            .ask("SELECT many")
            .await
            .iter()
            .find(|reply| reply.kind == b'C')
            .unwrap()
            .text(),
        "SELECT 10"
    );
    assert_eq!(socket.refused("SELECT panic").await, "XX000");
}

#[tokio::test]
async fn only_the_first_execute_is_charged() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("s", "SELECT many"),
                describe('S', "s"),
                bind("p", "s", &[], &[]),
                describe('P', "p"),
                message(b'H', b""),
            ]
            .concat(),
        )
        .await;
    for kind in *b"1tT2T" {
        assert_eq!(socket.receive().await.unwrap().kind, kind);
    }
    assert_eq!(running.service.answers(), 0);
    socket
        .send(
            &[
                execute("p", 4),
                execute("p", 4),
                execute("p", 4),
                execute("p", 4),
                execute("p", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(kinds(&replies), "DDDDsDDDDsDDCCCZ");
    let tags: Vec<String> = replies
        .iter()
        .filter(|reply| reply.kind == b'C')
        .map(super::socket::Reply::text)
        .collect();
    assert_eq!(tags, ["SELECT 2", "SELECT 0", "SELECT 0"]);
    assert_eq!(running.service.answers(), 1);
    // Each Bind is a new question.
    socket
        .send(
            &[
                bind("", "s", &[], &[]),
                execute("", 1),
                bind("", "s", &[], &[]),
                execute("", 1),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "2Ds2DsZ");
    assert_eq!(running.service.answers(), 3);
}

/// The client reads binary values by the types that were described at Parse.
#[tokio::test]
async fn a_changed_search_path_may_not_change_the_columns() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("s", "SELECT shifting"),
                parse("t", "SELECT 1"),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "11Z");
    socket.ask("SET search_path = other").await;
    socket
        .send(&[bind("", "s", &[], &[1]), execute("", 0), sync()].concat())
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[1].field(b'C').as_str()),
        ("2EZ", "0A000")
    );
    assert_eq!(running.service.answers(), 0);
    socket
        .send(&[bind("", "t", &[], &[1]), execute("", 0), sync()].concat())
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "2DCZ");
}

#[tokio::test]
async fn a_limit_that_is_met_exactly_suspends() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("", "SELECT many"),
                bind("", "", &[], &[]),
                execute("", 10),
                execute("", 10),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12DDDDDDDDDDsCZ");
}

#[tokio::test]
async fn a_suspended_portal_survives_sync_in_a_transaction() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("BEGIN").await;
    socket
        .send(
            &[
                parse("", "SELECT many"),
                bind("c", "", &[], &[]),
                execute("c", 6),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12DDDDDDsZ");
    socket
        .send(
            &[
                execute("c", 6),
                message(b'C', b"Pc\0"),
                execute("c", 6),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[6].field(b'C').as_str()),
        ("DDDDC3EZ", "34000")
    );
    assert_eq!(replies[7].body, b"E");
    assert_eq!(running.service.answers(), 1);
}

#[tokio::test]
async fn after_an_error_all_is_skipped_to_sync() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let failing = [
        parse("", "SELECT fail"),
        bind("", "", &[], &[]),
        execute("", 0),
        parse("", "SELECT 1"),
        query("SELECT 1"),
        sync(),
    ]
    .concat();
    socket
        .send(
            &[
                failing,
                parse("", "SELECT 1"),
                bind("", "", &[], &[]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12EZ");
    assert_eq!(kinds(&socket.until_ready().await), "12DCZ");
    // A portal that failed was charged and is gone.
    socket.ask("BEGIN").await;
    socket
        .send(
            &[
                parse("", "SELECT fail"),
                bind("p", "", &[], &[]),
                execute("p", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    socket.until_ready().await;
    socket.ask("ROLLBACK").await;
    socket.send(&[execute("p", 0), sync()].concat()).await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "34000");
    assert_eq!(running.service.answers(), 3);
}

#[tokio::test]
async fn values_and_formats_travel_both_ways() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("", "SELECT three"),
                bind("", "", &[], &[1, 0, 1]),
                describe('P', ""),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        replies[3].body,
        b"\0\x03\0\0\0\x04\0\0\0\0\0\0\0\x011\0\0\0\x04\0\0\0\x02"
    );
    assert_eq!((replies[2].body[21], replies[2].body.last()), (1, Some(&1)));
    // A parameter's declared type wins, the others are inferred.
    let mut typed = b"\0SELECT $1, $2\0\0\x01".to_vec();
    typed.extend(1700_u32.to_be_bytes());
    socket
        .send(
            &[
                message(b'P', &typed),
                describe('S', ""),
                bind("", "", &["x", "y"], &[]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(replies[1].body, b"\0\x02\0\0\x06\xa4\0\0\0\x19");
    assert_eq!(
        (
            replies[4].values()[0].as_deref(),
            replies[5].values()[0].as_deref()
        ),
        (Some("x"), Some("y"))
    );
    // NULL, by hand.
    socket
        .send(
            &[
                message(b'B', b"\0\0\0\0\0\x02\xff\xff\xff\xff\0\0\0\0\0\0"),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(socket.until_ready().await[1].values()[0], None);
}

#[tokio::test]
async fn session_statements_work_in_both_protocols() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, expected) in [
        ("", "1n2IZ"),
        ("BEGIN", "1n2CZ"),
        ("SHOW TimeZone", "1T2DCZ"),
        ("SHOW ALL", "1T2"),
        ("EXPLAIN SELECT 1", "1T2DDCZ"),
        ("COMMIT", "1n2CZ"),
    ] {
        socket
            .send(
                &[
                    parse("", sql),
                    describe('S', ""),
                    bind("", "", &[], &[]),
                    execute("", 0),
                    sync(),
                ]
                .concat(),
            )
            .await;
        let found = kinds(&socket.until_ready().await).replace('t', "");
        assert!(found.starts_with(expected), "{sql}: {found}");
    }
    socket
        .send(&[parse("", "SELECT 1; SELECT 2"), sync()].concat())
        .await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "42601");
    // A statement without rows runs once.
    socket
        .send(
            &[
                parse("", "SET DateStyle = iso"),
                bind("", "", &[], &[]),
                execute("", 0),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[3].field(b'C').as_str()),
        ("12CEZ", "55000")
    );
}

#[tokio::test]
async fn statements_can_be_deallocated() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("a", "SELECT 1"),
                parse("b", "SELECT 1"),
                parse("c", "SELECT 1"),
                sync(),
            ]
            .concat(),
        )
        .await;
    socket.until_ready().await;
    assert_eq!(socket.refused("DEALLOCATE none").await, "26000");
    assert_eq!(kinds(&socket.ask("DEALLOCATE a").await), "CZ");
    socket
        .send(
            &[
                message(b'C', b"Sb\0"),
                message(b'C', b"Snone\0"),
                bind("", "b", &[], &[]),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "33EZ");
    socket.ask("DISCARD ALL").await;
    socket
        .send(&[bind("", "c", &[], &[]), sync()].concat())
        .await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "26000");
}

#[tokio::test]
async fn what_a_session_holds_is_bounded() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let many: Vec<u8> = (0..1025)
        .flat_map(|at| bind(&format!("p{at}"), "", &[], &[]))
        .collect();
    socket
        .send(&[parse("", "SELECT 1"), many, sync()].concat())
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (
            replies.len(),
            replies[1025].kind,
            replies[1025].field(b'C').as_str()
        ),
        (1027, b'E', "54000")
    );
    // A pipeline that fails leaves nothing behind.
    socket
        .send(&[parse("", "SELECT 1"), bind("p0", "", &[], &[]), sync()].concat())
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12Z");
}
