//! SQL's PREPARE and EXECUTE next to the protocol's Parse and Bind.

use super::double::start;
use super::socket::{Socket, bind, describe, execute, kinds, parse, sync};

#[tokio::test]
async fn each_execute_is_a_question() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    assert_eq!(kinds(&socket.ask("PREPARE p AS SELECT many").await), "CZ");
    assert_eq!(running.service.answers(), 0);
    for asked in 1..=3 {
        assert_eq!(
            kinds(&socket.ask("EXECUTE p").await),
            format!("T{}CZ", "D".repeat(10))
        );
        assert_eq!(running.service.answers(), asked);
    }
    for (sql, sqlstate) in [
        ("PREPARE p AS SELECT 1", "42P05"),
        ("EXECUTE q", "26000"),
        ("EXECUTE p (1)", "42601"),
        ("DEALLOCATE q", "26000"),
        ("PREPARE f AS SELECT 1; PREPARE f AS SELECT 1", "42P05"),
    ] {
        assert_eq!(socket.refused(sql).await, sqlstate, "{sql}");
    }
    // Not undone by the string that failed: as in PostgreSQL.
    assert_eq!(
        kinds(
            &socket
                .ask("EXECUTE f; DEALLOCATE PREPARE f; DEALLOCATE ALL")
                .await
        ),
        "TDCCCZ"
    );
    assert_eq!(socket.refused("EXECUTE p").await, "26000");
}

#[tokio::test]
async fn values_are_computed_and_bound() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("PREPARE p (text, text) AS SELECT $1, $2").await;
    let replies = socket.ask("EXECUTE p ('one', NULL)").await;
    let rows: Vec<_> = replies
        .iter()
        .filter(|reply| reply.kind == b'D')
        .map(|reply| reply.values().remove(0))
        .collect();
    assert_eq!(rows, [Some("one".to_owned()), None]);
    for sql in [
        "EXECUTE p",
        "EXECUTE p ('one')",
        "EXECUTE p ('one', 'two', 'three')",
    ] {
        assert_eq!(socket.refused(sql).await, "42601", "{sql}");
    }
    assert_eq!(
        socket.refused("EXECUTE p ((SELECT 1), 'two')").await,
        "0A000"
    );
    // Values are computed under the session's own settings: they may print something themselves.
    socket
        .ask(
            "SET DateStyle = 'SQL, DMY'; SET extra_float_digits = 0; PREPARE q (text) AS SELECT $1",
        )
        .await;
    let requester = socket.value("EXECUTE q ('client')").await;
    assert!(
        requester.contains("(\"DateStyle\", \"SQL, DMY\")")
            && requester.contains("(\"extra_float_digits\", \"0\")"),
        "{requester}"
    );
    assert_eq!(
        (
            requester.matches("DateStyle").count(),
            requester.matches("extra_float_digits").count()
        ),
        (1, 1),
        "{requester}"
    );
}

#[tokio::test]
async fn one_namespace_serves_both_ways() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .send(
            &[
                parse("p", "SELECT three"),
                parse("t", "SHOW TimeZone"),
                sync(),
            ]
            .concat(),
        )
        .await;
    socket.until_ready().await;
    assert_eq!(kinds(&socket.ask("EXECUTE p").await), "TDCZ");
    assert_eq!(socket.value("EXECUTE t").await, "UTC");
    assert_eq!(socket.refused("PREPARE p AS SELECT 1").await, "42P05");
    socket.ask("PREPARE s AS SELECT three").await;
    socket
        .send(&[bind("", "s", &[], &[]), execute("", 0), sync()].concat())
        .await;
    assert_eq!(kinds(&socket.until_ready().await), "2DCZ");
    // An EXECUTE that is itself prepared has the columns of the statement that it names.
    socket
        .send(
            &[
                parse("", "EXECUTE s"),
                bind("", "", &[], &[1]),
                describe('P', ""),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(kinds(&replies), "12TDCZ");
    assert_eq!(replies[3].values()[2], Some("\0\0\0\u{2}".to_owned()));
    socket
        .send(&[parse("e", "EXECUTE s"), sync()].concat())
        .await;
    socket.until_ready().await;
    assert_eq!(socket.refused("EXECUTE e").await, "0A000");
    socket.ask("DISCARD ALL").await;
    assert_eq!(socket.refused("EXECUTE s").await, "26000");
}
