//! COPY (query) TO STDOUT as a separate stream.

use super::double::start;
use super::socket::{Reply, Socket, bind, describe, execute, kinds, parse, sync};

fn stream(replies: &[Reply]) -> Vec<u8> {
    replies
        .iter()
        .filter(|reply| reply.kind == b'd')
        .flat_map(|reply| reply.body.clone())
        .collect()
}

#[tokio::test]
async fn a_copy_is_one_answer_as_a_stream() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let replies = socket.ask("COPY (SELECT three) TO STDOUT").await;
    assert_eq!(kinds(&replies), "HdcCZ");
    assert_eq!(
        (replies[0].body.as_slice(), replies[3].text().as_str()),
        ([0, 0, 3, 0, 0, 0, 0, 0, 0].as_slice(), "COPY 1")
    );
    assert_eq!(stream(&replies), b"0\t1\t2\n");
    assert_eq!(running.service.answers(), 1);
    for (options, expected) in [
        ("CSV HEADER", "a,b,c\n0,1,2\n"),
        (
            "(FORMAT csv, DELIMITER ';', FORCE_QUOTE (b), QUOTE '~')",
            "0;~1~;2\n",
        ),
        ("(FORMAT text, DELIMITER '|', HEADER)", "a|b|c\n0|1|2\n"),
        ("(FORMAT csv, NULL '1')", "0,\"1\",2\n"),
    ] {
        let replies = socket
            .ask(&format!("COPY (SELECT three) TO STDOUT {options}"))
            .await;
        assert_eq!(
            String::from_utf8(stream(&replies)).unwrap(),
            expected,
            "{options}"
        );
    }
    assert_eq!(
        socket
            .refused("COPY (SELECT three) TO STDOUT (FORMAT csv, FORCE_QUOTE (nothing))")
            .await,
        "42703"
    );
    assert_eq!(running.service.answers(), 5);
    assert_eq!(
        socket.refused("COPY (SELECT fail) TO STDOUT").await,
        "42501"
    );
}

#[tokio::test]
async fn binary_has_a_head_and_a_tail() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let replies = socket
        .ask("COPY (SELECT 1) TO STDOUT (FORMAT binary)")
        .await;
    assert_eq!(replies[0].body, [1, 0, 1, 0, 1]);
    assert_eq!(
        stream(&replies),
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff"
    );
}

#[tokio::test]
async fn the_extended_protocol_copies_too() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let copy = [
        parse("", "COPY (SELECT many) TO STDOUT"),
        describe('S', ""),
        bind("", "", &[], &[]),
        execute("", 1),
        sync(),
    ]
    .concat();
    socket.send(&copy).await;
    let replies = socket.until_ready().await;
    assert_eq!(kinds(&replies), format!("1tn2H{}cCZ", "d".repeat(10)));
    assert_eq!(stream(&replies), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
}
