//! What one client may take of the proxy: each limit met on purpose, and another client served all
//! the while.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use pgveil::engine::StatementSize;

use super::double::{PASSWORD, start, start_with};
use super::socket::{
    SSL_REQUEST, Socket, bind, describe, execute, kinds, packet, parse, query, startup, sync,
};

const ANN: [(&str, &str); 2] = [("user", "ann"), ("database", "survey")];

/// Whether the server has closed this connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest))
        .await
        .is_ok()
}

/// Nothing sent, half a startup packet, half a handshake, no password: many of each, and a client
/// gets in all the same. Those who came first are closed.
#[tokio::test]
async fn stalled_logins_are_shown_out_and_others_get_in() {
    let running = start_with(Some(super::tls::configuration().0)).await;
    running.service.connections.store(4, Ordering::SeqCst);
    let whole = startup(&ANN);
    let request = packet(SSL_REQUEST, b"");
    let beginnings: [&[u8]; 6] = [
        b"",
        &whole[..3],
        &whole[..12],
        &request,
        &[&request[..], &[0x16, 3, 1, 2, 0, 1]].concat(),
        &whole,
    ];
    let mut stalled = Vec::new();
    for round in 0..20 {
        for beginning in beginnings {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            // Closed already, where few may wait before login.
            let _ = stream.write_all(beginning).await;
            stalled.push(stream);
        }
        let mut socket = Socket::log_in(running.address).await;
        assert_eq!(socket.value("SELECT 1").await, "1", "round {round}");
    }
    for early in stalled.iter_mut().take(60) {
        assert!(is_closed(early).await);
    }
    // A session that is logged in is never shown out.
    let mut session = Socket::log_in(running.address).await;
    for _ in 0..60 {
        stalled.push(TcpStream::connect(running.address).await.unwrap());
    }
    assert_eq!(session.value("SELECT 1").await, "1");
}

#[tokio::test]
async fn a_text_holds_at_most_this_many_words_and_statements() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let list = |length: usize| format!("SELECT 1{}", ",1".repeat(length));
    assert_eq!(kinds(&socket.ask(&list(20_000)).await), "TDCZ");
    assert_eq!(socket.refused(&list(60_000)).await, "54001");
    assert_eq!(socket.refused(&"SELECT 1;".repeat(1_001)).await, "54001");
    assert_eq!(socket.refused(&" ".repeat((1 << 20) + 1)).await, "54001");
    assert_eq!(
        socket
            .refused(&format!("SELECT '{}'", "x".repeat(1 << 20)))
            .await,
        "54001"
    );
    let answers = running.service.answers();
    assert_eq!(
        kinds(&socket.ask(&"SHOW application_name;".repeat(1_000)).await)
            .matches('C')
            .count(),
        1_000
    );
    assert_eq!(running.service.answers(), answers);
}

/// Weighed by what they become, not by the length of their text.
#[tokio::test]
async fn prepared_statements_weigh_what_they_hold() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let sql = format!("SELECT 1{}", ",1".repeat(15_000));
    let mut refused = None;
    for number in 0..10 {
        socket
            .send(&[parse(&format!("s{number}"), &sql), sync()].concat())
            .await;
        let replies = socket.until_ready().await;
        if kinds(&replies) == "EZ" {
            refused = Some((number, replies[0].field(b'C')));
            break;
        }
    }
    assert_eq!(refused, Some((2, "54000".to_owned())));
    assert_eq!(kinds(&socket.ask("DEALLOCATE ALL").await), "CZ");
    socket.send(&[parse("s", &sql), sync()].concat()).await;
    assert_eq!(kinds(&socket.until_ready().await), "1Z");
}

/// Portals that were begun and never read to their end hold rows; closing them gives the room back.
#[tokio::test]
async fn portals_and_savepoints_have_an_end() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let open = |number: usize| {
        [
            bind(&format!("p{number}"), "many", &[], &[]),
            execute(&format!("p{number}"), 1),
        ]
        .concat()
    };
    socket
        .send(&[query("BEGIN"), parse("many", "SELECT many")].concat())
        .await;
    socket.until_ready().await;
    socket
        .send(&(0..1_024).flat_map(open).chain(sync()).collect::<Vec<u8>>())
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        replies.iter().filter(|reply| reply.kind == b's').count(),
        1_024
    );
    socket.send(&[open(1_024), sync()].concat()).await;
    assert_eq!(socket.until_ready().await[0].field(b'C'), "54000");
    socket.ask("ROLLBACK").await;
    socket.ask("BEGIN").await;
    for number in 0..64 {
        socket.ask(&format!("SAVEPOINT s{number}")).await;
    }
    assert_eq!(socket.refused("SAVEPOINT last").await, "54000");
    socket.ask("ROLLBACK").await;
    assert_eq!(socket.value("SELECT 1").await, "1");
}

/// A star is one word of a statement, and a portal of it may have a thousand columns.
#[tokio::test]
async fn columns_have_a_weight() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("BEGIN").await;
    socket
        .send(&[parse("b", "SELECT broad"), sync()].concat())
        .await;
    socket.until_ready().await;
    let open = |number: usize| bind(&format!("p{number}"), "b", &[], &[]);
    socket
        .send(&(0..1_000).flat_map(open).chain(sync()).collect::<Vec<u8>>())
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        replies
            .iter()
            .find(|reply| reply.kind == b'E')
            .map(|reply| reply.field(b'C')),
        Some("54000".to_owned())
    );
    assert!((100..500).contains(&replies.iter().filter(|reply| reply.kind == b'2').count()));
    socket.ask("ROLLBACK").await;
    socket
        .send(
            &(0..1_000)
                .flat_map(|number| parse(&format!("s{number}"), "SELECT broad"))
                .chain(sync())
                .collect::<Vec<u8>>(),
        )
        .await;
    let replies = socket.until_ready().await;
    assert_eq!(
        replies
            .iter()
            .find(|reply| reply.kind == b'E')
            .map(|reply| reply.field(b'C')),
        Some("54000".to_owned())
    );
    assert_eq!(kinds(&socket.ask("DEALLOCATE ALL").await), "CZ");
    assert_eq!(socket.value("SELECT 1").await, "1");
}

/// A client that asks for much and reads nothing holds its rows, and nobody else.
#[tokio::test]
async fn who_reads_nothing_stops_nobody() {
    let running = start().await;
    let mut deaf = Vec::new();
    for _ in 0..5 {
        let mut socket = Socket::log_in(running.address).await;
        socket
            .send(
                &(0..50)
                    .flat_map(|_| query("SELECT huge"))
                    .collect::<Vec<u8>>(),
            )
            .await;
        deaf.push(socket);
    }
    let mut socket = Socket::log_in(running.address).await;
    for _ in 0..20 {
        assert_eq!(socket.value("SELECT 1").await, "1");
    }
    // They read at last, and miss nothing.
    for socket in &mut deaf {
        assert_eq!(
            socket
                .until_ready()
                .await
                .iter()
                .filter(|reply| reply.kind == b'D')
                .count(),
            50_000
        );
    }
}

/// A session may not pile up answers to Parse and Describe either: the server stops reading from a
/// client that does not read.
#[tokio::test]
async fn who_describes_and_reads_nothing_waits() {
    const ASKED: usize = 1_000;
    let running = start().await;
    let mut deaf = Socket::log_in(running.address).await;
    // Of a hundred bytes, answered by eighty thousand.
    deaf.send(
        &(0..ASKED)
            .flat_map(|_| [parse("", "SELECT broad"), describe('S', "")].concat())
            .collect::<Vec<u8>>(),
    )
    .await;
    let mut before = usize::MAX;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = running.service.describes.load(Ordering::SeqCst);
        if now == before && now > 0 {
            break;
        }
        before = now;
    }
    assert!(before < ASKED / 2, "{before} were read");
    deaf.send(&sync()).await;
    assert_eq!(
        deaf.until_ready()
            .await
            .iter()
            .filter(|reply| reply.kind == b'T')
            .count(),
        ASKED
    );
}

/// More of them than may be connected, by the right password: each gets an error.
#[tokio::test]
async fn logins_beyond_the_limit_are_refused_with_a_reason() {
    let running = start().await;
    running.service.connections.store(3, Ordering::SeqCst);
    let held = [
        Socket::log_in(running.address).await,
        Socket::log_in(running.address).await,
        Socket::log_in(running.address).await,
    ];
    for _ in 0..30 {
        let mut socket = Socket::open(running.address).await;
        socket.send(&startup(&ANN)).await;
        socket.authenticate(PASSWORD, None).await;
        socket.receive().await;
        assert_eq!(socket.fatal().await.field(b'C'), "53300");
    }
    for mut socket in held {
        assert_eq!(socket.value("SELECT 1").await, "1");
    }
}

/// Long messages that never end take their room out of one stock: no number of sessions takes more,
/// and another role's are read.
#[tokio::test]
async fn half_a_message_takes_no_more_than_the_stock_has() {
    let running = start().await;
    let mut begun = Vec::new();
    for _ in 0..10 {
        let mut socket = Socket::log_in(running.address).await;
        let mut half = vec![b'Q'];
        half.extend((3_i32 << 20).to_be_bytes());
        half.extend(vec![b' '; 1 << 20]);
        socket.send(&half).await;
        begun.push(socket);
    }
    // They are read to their end all the same where there is room.
    for socket in &mut begun {
        let mut rest = vec![b' '; (2 << 20) - 5];
        rest.push(0);
        socket.send(&rest).await;
        assert_eq!(socket.until_ready().await[0].field(b'C'), "54001");
        assert_eq!(socket.value("SELECT 1").await, "1");
    }
}

/// While another large statement of the role is read, the next one waits, small ones do not, and a
/// cancel ends the wait.
#[tokio::test]
async fn large_statements_wait_their_turn_and_can_be_cancelled() {
    let running = start().await;
    let large = format!("SELECT 1{}", ",1".repeat(10_000));
    let places = running.service.planning_limit.each();
    let mut turns = Vec::new();
    for _ in 0..places {
        turns.push(
            running
                .service
                .planning_limit
                .acquire("ann", StatementSize::Large)
                .await,
        );
    }
    let [mut first, mut second, mut small] = [
        Socket::log_in(running.address).await,
        Socket::log_in(running.address).await,
        Socket::log_in(running.address).await,
    ];
    first.send(&query(&large)).await;
    second.send(&[parse("", &large), sync()].concat()).await;
    assert_eq!(small.value("SELECT 1").await, "1");
    let key = second.key.clone();
    let cancelling = async {
        loop {
            super::cancel::cancel(running.address, &key).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let replies = tokio::select! {
        replies = second.until_ready() => replies,
        () = cancelling => unreachable!("it goes on until it is dropped"),
    };
    assert_eq!(replies[0].field(b'C'), "57014");
    let answers = running.service.answers();
    drop(turns);
    assert_eq!(kinds(&first.until_ready().await), "TDCZ");
    assert_eq!(running.service.answers(), answers + 1);
}
