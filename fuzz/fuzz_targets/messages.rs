//! Any bytes of a logged-in client: the session ends in ReadyForQuery or in FATAL, never in silence and never by a panic.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
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

fuzz_target!(|bytes: &[u8]| {
    // The double panics and waits for ever where it is told to.
    if ["panic", "slow", "sleepy"].iter().any(|word| bytes.windows(word.len()).any(|window| window == word.as_bytes())) {
        return;
    }
    let address = SERVER.address;
    RUNTIME.block_on(async {
        let mut client = socket::Socket::log_in(address).await;
        client.send(bytes).await;
        client.send(&[socket::sync(), socket::query("ROLLBACK"), socket::query("SHOW application_name")].concat()).await;
        // Whatever follows an open message is its body: then the client's end is what ends it.
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await;
        while client.receive().await.is_some() {}
    });
});
