//! Random conversations: whatever is sent, a session ends in ReadyForQuery or in FATAL, never in
//! silence.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::double::start;
use super::socket::{Socket, bind, describe, execute, message, parse, query, sync};

fn phrases() -> Vec<Vec<u8>> {
    let mut phrases: Vec<Vec<u8>> = [
        "SELECT 1",
        "SELECT many",
        "SELECT fail",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "",
        "DISCARD ALL",
    ]
    .into_iter()
    .flat_map(|sql| [query(sql), parse("", sql), parse("s", sql)])
    .collect();
    for portal in ["", "p"] {
        phrases.extend([
            bind(portal, "", &[], &[]),
            bind(portal, "s", &["x"], &[1]),
            execute(portal, 0),
            execute(portal, 3),
            execute(portal, -7),
        ]);
        phrases.extend([
            describe('P', portal),
            describe('S', "s"),
            message(b'C', b"Ss\0"),
            message(b'C', b"Pp\0"),
            message(b'H', b""),
        ]);
    }
    phrases.extend([
        sync(),
        sync(),
        sync(),
        message(b'F', b"x"),
        message(b'd', b""),
    ]);
    phrases
}

#[tokio::test]
async fn every_conversation_ends_with_a_word() {
    let running = start().await;
    let phrases = phrases();
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut below = |limit: usize| usize::try_from(random.next_u32()).unwrap() % limit;
    for round in 0..150 {
        let mut socket = Socket::log_in(running.address).await;
        let mut bytes = Vec::new();
        for _ in 0..below(30) {
            let mut phrase = phrases[below(phrases.len())].clone();
            // Now and then a body with one byte changed, or cut short under a length that says so.
            if below(12) == 0 && phrase.len() > 5 {
                let at = 5 + below(phrase.len() - 5);
                phrase[at] ^= 1 << below(8);
            }
            if below(25) == 0 && phrase.len() > 5 {
                let kept = 5 + below(phrase.len() - 5);
                phrase = message(phrase[0], &phrase[5..kept]);
            }
            bytes.extend(phrase);
        }
        bytes.extend([sync(), query("ROLLBACK"), query("SHOW application_name")].concat());
        socket.send(&bytes).await;
        loop {
            let reply = socket
                .receive()
                .await
                .unwrap_or_else(|| panic!("silence in round {round}"));
            if reply.kind == b'C' && reply.text() == "SHOW"
                || reply.kind == b'E' && reply.field(b'S') == "FATAL"
            {
                break;
            }
        }
    }
    Socket::log_in(running.address).await;
}
