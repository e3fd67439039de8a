//! SQL cursors: one question each, walked in both protocols, and gone when PostgreSQL's would be.

use super::double::start;
use super::socket::{Reply, Socket, bind, describe, execute, kinds, message, parse, sync};

/// Values of the first column, then the command tag or the SQLSTATE.
async fn reported(socket: &mut Socket, sql: &str) -> String {
    let replies = socket.ask(sql).await;
    let rows = replies
        .iter()
        .filter(|reply| reply.kind == b'D')
        .map(|reply| reply.values().remove(0).unwrap());
    let last = replies
        .iter()
        .rfind(|reply| matches!(reply.kind, b'C' | b'E'))
        .unwrap();
    let word = if last.kind == b'E' {
        last.field(b'C')
    } else {
        last.text()
    };
    rows.chain([word]).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_cursor_is_asked_once_and_walked() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, expected) in [
        ("BEGIN", "BEGIN"),
        ("DECLARE c SCROLL CURSOR FOR SELECT many", "DECLARE CURSOR"),
        ("FETCH 3 FROM c", "1 2 3 FETCH 3"),
        ("MOVE 2 IN c", "MOVE 2"),
        ("FETCH c", "6 FETCH 1"),
        ("FETCH BACKWARD 2 FROM c", "5 4 FETCH 2"),
        ("FETCH LAST FROM c", "10 FETCH 1"),
        ("FETCH c", "FETCH 0"),
        ("MOVE BACKWARD ALL IN c", "MOVE 10"),
        ("FETCH ALL c", "1 2 3 4 5 6 7 8 9 10 FETCH 10"),
        ("CLOSE c", "CLOSE CURSOR"),
        ("COMMIT", "COMMIT"),
    ] {
        assert_eq!(reported(&mut socket, sql).await, expected, "{sql}");
    }
    assert_eq!(running.service.answers(), 1);
    // Columns are those of the query, without rows too.
    socket.ask("BEGIN; DECLARE c CURSOR FOR SELECT three").await;
    assert_eq!(kinds(&socket.ask("FETCH 0 FROM c").await), "TCZ");
    assert_eq!(kinds(&socket.ask("MOVE c").await), "CZ");
}

#[tokio::test]
async fn cursors_end_with_their_transaction_unless_they_hold() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, expected) in [
        ("DECLARE c CURSOR FOR SELECT many", "25P01"),
        ("DECLARE c CURSOR FOR SELECT many; FETCH 1 c", "1 FETCH 1"),
        ("FETCH c", "34000"),
        (
            "BEGIN; DECLARE c CURSOR FOR SELECT many; COMMIT; FETCH c",
            "34000",
        ),
        (
            "DECLARE h CURSOR WITH HOLD FOR SELECT many",
            "DECLARE CURSOR",
        ),
        ("BEGIN; FETCH 2 h; ROLLBACK", "1 2 ROLLBACK"),
        ("FETCH h", "3 FETCH 1"),
        (
            "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT many; ROLLBACK; FETCH k",
            "34000",
        ),
        (
            "BEGIN; DECLARE k CURSOR WITH HOLD FOR SELECT many; SELECT fail",
            "42501",
        ),
        ("FETCH k", "25P02"),
        ("COMMIT", "ROLLBACK"),
        ("FETCH k", "34000"),
        (
            "DECLARE k CURSOR WITH HOLD FOR SELECT many; SELECT fail",
            "42501",
        ),
        ("FETCH k", "34000"),
        ("FETCH h", "4 FETCH 1"),
        ("DECLARE h CURSOR WITH HOLD FOR SELECT 1", "42P03"),
        ("CLOSE ALL", "CLOSE CURSOR ALL"),
        ("FETCH h", "34000"),
        ("CLOSE h", "34000"),
        ("DECLARE h CURSOR WITH HOLD FOR SELECT 1", "DECLARE CURSOR"),
        ("DISCARD ALL", "DISCARD ALL"),
        ("FETCH h", "34000"),
    ] {
        let found = reported(&mut socket, sql).await;
        assert!(found.ends_with(expected), "{sql}: {found}");
    }
}

#[tokio::test]
async fn a_savepoint_that_is_rolled_back_takes_its_cursors() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, expected) in [
        (
            "BEGIN; DECLARE a CURSOR FOR SELECT many; SAVEPOINT s",
            "SAVEPOINT",
        ),
        ("DECLARE b CURSOR FOR SELECT many; FETCH 2 a", "1 2 FETCH 2"),
        ("SELECT fail", "42501"),
        ("ROLLBACK TO s", "ROLLBACK"),
        // Its place is not part of the transaction.
        ("FETCH a", "3 FETCH 1"),
        ("DECLARE b CURSOR FOR SELECT many; SAVEPOINT t", "SAVEPOINT"),
        (
            "DECLARE d CURSOR FOR SELECT many; RELEASE t; FETCH d",
            "1 FETCH 1",
        ),
        ("ROLLBACK TO s; FETCH a", "4 FETCH 1"),
        ("SAVEPOINT u", "SAVEPOINT"),
        ("FETCH d", "34000"),
        ("ROLLBACK TO u; FETCH b", "34000"),
    ] {
        assert_eq!(reported(&mut socket, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_cursor_that_may_not_scroll_goes_forward_only() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .ask("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT many")
        .await;
    assert_eq!(reported(&mut socket, "FETCH 2 c").await, "1 2 FETCH 2");
    let replies = socket.ask("FETCH PRIOR c").await;
    assert_eq!(
        (
            replies[0].field(b'C').as_str(),
            replies[0].field(b'M').as_str()
        ),
        ("55000", "cursor can only scan forward")
    );
    assert_eq!(reported(&mut socket, "FETCH c").await, "3 FETCH 1");
}

#[tokio::test]
async fn the_extended_protocol_fetches_in_its_own_formats() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("BEGIN").await;
    let declare = [
        parse("", "DECLARE c CURSOR FOR SELECT many, $1"),
        describe('S', ""),
        bind("", "", &["x"], &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    socket.send(&declare).await;
    let replies = socket.until_ready().await;
    assert_eq!(kinds(&replies), "1tn2CZ");
    socket
        .ask("ROLLBACK; BEGIN; DECLARE c CURSOR FOR SELECT many")
        .await;
    for (format, values) in [
        (0_i16, vec!["1".to_owned(), "2".to_owned()]),
        (1, vec!["\0\0\0\u{3}".to_owned(), "\0\0\0\u{4}".to_owned()]),
    ] {
        let fetch = [
            parse("", "FETCH 2 FROM c"),
            bind("", "", &[], &[format]),
            describe('P', ""),
            execute("", 0),
            sync(),
        ]
        .concat();
        socket.send(&fetch).await;
        let replies = socket.until_ready().await;
        assert_eq!(kinds(&replies), "12TDDCZ");
        assert_eq!(replies[2].body.last(), Some(&u8::try_from(format).unwrap()));
        let found: Vec<String> = replies
            .iter()
            .filter(|reply| reply.kind == b'D')
            .map(|reply| reply.values().remove(0).unwrap())
            .collect();
        assert_eq!(found, values);
    }
    assert_eq!(running.service.answers(), 2);
    // A limit holds back rows of the FETCH, not of the cursor.
    socket
        .send(
            &[
                parse("", "FETCH 4 FROM c"),
                bind("", "", &[], &[]),
                execute("", 3),
                execute("", 3),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12DDDsDCZ");
    assert_eq!(reported(&mut socket, "FETCH c").await, "9 FETCH 1");
}

#[tokio::test]
async fn a_prepared_fetch_serves_each_cursor_of_its_name() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(&[parse("f", "FETCH 1 FROM c"), describe('S', "f"), sync()].concat())
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "1tnZ");
    let fetch = [
        bind("", "f", &[], &[]),
        describe('P', ""),
        execute("", 0),
        sync(),
    ]
    .concat();
    socket.send(&fetch).await;
    let replies = socket.until_ready().await;
    assert_eq!(
        (kinds(&replies).as_str(), replies[2].field(b'C').as_str()),
        ("2nEZ", "34000")
    );
    for (query, width) in [("many", 1), ("three", 3)] {
        socket
            .ask(&format!("BEGIN; DECLARE c CURSOR FOR SELECT {query}"))
            .await;
        socket.send(&fetch).await;
        let replies = socket.until_ready().await;
        assert_eq!(
            (kinds(&replies).as_str(), replies[2].values().len()),
            ("2TDCZ", width)
        );
        socket.ask("COMMIT").await;
    }
}

#[tokio::test]
async fn cursors_and_portals_share_their_names() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("BEGIN; DECLARE c CURSOR FOR SELECT many").await;
    socket
        .send(&[describe('P', "c"), execute("c", 3), execute("c", 0), sync()].concat())
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(kinds(&replies), format!("TDDDs{}CZ", "D".repeat(7)));
    let code = |replies: &[Reply]| {
        replies
            .iter()
            .find(|reply| reply.kind == b'E')
            .map(|reply| reply.field(b'C'))
            .unwrap_or_default()
    };
    socket.ask("SAVEPOINT s").await;
    socket
        .send(&[parse("", "SELECT 1"), bind("c", "", &[], &[]), sync()].concat())
        .await;
    assert_eq!(code(&socket.until_ready().await), "42P03");
    socket.ask("ROLLBACK TO s").await;
    socket
        .send(
            &[
                parse("", "SELECT many"),
                bind("p", "", &[], &[]),
                execute("p", 1),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "12DsZ");
    assert_eq!(
        reported(&mut socket, "DECLARE p CURSOR FOR SELECT 1").await,
        "42P03"
    );
    socket.ask("ROLLBACK TO s").await;
    assert_eq!(reported(&mut socket, "FETCH p").await, "0A000");
    socket.ask("ROLLBACK TO s").await;
    socket
        .send(&[message(b'C', b"Pc\0"), sync()].concat())
        .await;
    socket.until_ready().await;
    assert_eq!(reported(&mut socket, "FETCH c").await, "34000");
}

#[tokio::test]
async fn a_binary_cursor_gives_binary_to_a_simple_query() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .ask("DECLARE c BINARY CURSOR WITH HOLD FOR SELECT many")
        .await;
    let replies = socket.ask("FETCH c").await;
    assert_eq!(
        (
            kinds(&replies).as_str(),
            replies[0].body.last(),
            replies[1].values()
        ),
        ("TDCZ", Some(&1), vec![Some("\0\0\0\u{1}".to_owned())])
    );
    // Text that does not say all of a value gives no binary, and is not asked for.
    let asked = running.service.answers();
    for setting in ["DateStyle = 'Postgres, DMY'", "extra_float_digits = 0"] {
        socket.ask(&format!("SET {setting}")).await;
        assert_eq!(
            socket
                .refused("DECLARE d BINARY CURSOR WITH HOLD FOR SELECT many")
                .await,
            "0A000",
            "{setting}"
        );
        socket.ask("RESET ALL").await;
    }
    assert_eq!(running.service.answers(), asked);
    assert_eq!(socket.value("FETCH c").await, "\0\0\0\u{2}");
    // Who is refused the rows in binary gets the same ones as text.
    socket
        .ask(
            "SET extra_float_digits = 0; DECLARE e CURSOR WITH HOLD FOR SELECT many; RESET \
        extra_float_digits",
        )
        .await;
    for _ in 0..2 {
        socket
            .send(
                &[
                    parse("", "FETCH 4 FROM e"),
                    bind("", "", &[], &[1]),
                    execute("", 0),
                    sync(),
                ]
                .concat(),
            )
            .await;
        assert_eq!(socket.until_ready().await[2].field(b'C'), "0A000");
        assert_eq!(
            reported(
                &mut socket,
                "MOVE 1 IN e; FETCH 2 FROM e; MOVE BACKWARD 3 IN e"
            )
            .await,
            "2 3 MOVE 2"
        );
    }
}

#[tokio::test]
async fn a_silent_client_is_sent_away_where_it_asked_for_that() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .ask("SET idle_in_transaction_session_timeout = '100ms'; SET idle_session_timeout = '60s'")
        .await;
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    socket.ask("BEGIN").await;
    assert_eq!(socket.fatal().await.field(b'C'), "25P03");
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("SET idle_session_timeout = '50ms'").await;
    assert_eq!(socket.fatal().await.field(b'C'), "57P05");
}
