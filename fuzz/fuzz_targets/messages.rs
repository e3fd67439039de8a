//! Any bytes of a client, from the first packet (first byte odd) or after its login (even): the
//! session ends in ReadyForQuery or in FATAL, never in silence and never by a panic.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

// The double and the bare client of the wire's tests.
#[allow(dead_code)]
#[path = "../../tests/it/wire/double.rs"]
mod double;
#[allow(dead_code)]
#[path = "../../tests/it/wire/socket.rs"]
mod socket;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SERVER: LazyLock<double::Running> = LazyLock::new(|| RUNTIME.block_on(double::start()));

/// Everything that a client receives after its last message, up to the end, which comes in time. A
/// reset of the connection is an end, too.
async fn heard(client: &mut socket::Socket) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = client.stream.shutdown().await;
    let read =
        tokio::time::timeout(Duration::from_secs(20), client.stream.read_to_end(&mut all)).await;
    assert!(read.is_ok(), "silence");
    all
}

/// Whole messages, whose lengths are right; a reset may cut the last one off.
fn well_formed(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        let length =
            usize::try_from(i32::from_be_bytes([head[1], head[2], head[3], head[4]])).unwrap();
        assert!(head[0].is_ascii_alphanumeric() && length >= 4, "{head:?}");
        let Some(rest) = rest.get(length - 4..) else {
            return count;
        };
        bytes = rest;
        count += 1;
    }
    count
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    // The double panics and waits for ever where it is asked to.
    if ["panic", "slow", "sleepy"].iter().any(|word| {
        bytes
            .to_ascii_lowercase()
            .windows(word.len())
            .any(|window| window == word.as_bytes())
    }) {
        return;
    }
    let address = SERVER.address;
    RUNTIME.block_on(async {
        if choice % 2 == 1 {
            let mut client = socket::Socket::open(address).await;
            // The server may have hung up already.
            let _ = client.stream.write_all(bytes).await;
            heard(&mut client).await;
            return;
        }
        let mut client = socket::Socket::log_in(address).await;
        let _ = client
            .stream
            .write_all(
                &[
                    bytes,
                    &socket::sync(),
                    &socket::query("ROLLBACK"),
                    &socket::query("SHOW application_name"),
                ]
                .concat(),
            )
            .await;
        well_formed(&heard(&mut client).await);
    });
});
