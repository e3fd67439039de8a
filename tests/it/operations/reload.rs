//! A process's knowledge outlives a reload.

use std::time::Duration;

use super::serve::{connect, free_port};
use super::stage::Stage;

/// The engine that a reload builds opens the ledger again. Without a witness it would take an older
/// copy for the ledger, and refund everything spent since.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_does_not_take_an_older_copy_for_the_ledger() {
    let stage = Stage::new().await;
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut running = stage.serve("log", &["--listen", &listen]);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    let client = connect(port, "analyst").await.unwrap();
    let reload = || {
        running.signal("-HUP");
        assert!(stage.reported().starts_with("RELOADING=1"));
        assert_eq!(stage.reported(), "READY=1");
    };

    client
        .query_one("SELECT count(*) FROM shop.people", &[])
        .await
        .unwrap();
    reload();
    assert!(stage.log("log").contains("the policy was reloaded"));
    let older = settled(&stage).await;
    client
        .query_one("SELECT sum(age) FROM shop.people", &[])
        .await
        .unwrap();

    // In place: the file stays, and its content is of an earlier moment.
    settled(&stage).await;
    std::fs::write(stage.file("ledger.db"), older).unwrap();
    for _ in 0..2 {
        reload();
    }
    let log = stage.log("log");
    let refused = "the policy in force stays: the ledger went back under this process";
    assert_eq!(log.matches(refused).count(), 2, "{log}");
    let error = client
        .query_one("SELECT sum(age) FROM shop.people WHERE age > 30", &[])
        .await
        .unwrap_err();
    assert_eq!(error.code().unwrap().code(), "58030", "{error:?}");
    running.signal("-TERM");
    assert_eq!(stage.reported(), "STOPPING=1");
    running.0.wait().unwrap();
}

/// The file of the ledger, once nothing more is written: records and what is kept of answers come
/// after the reply, within a second.
async fn settled(stage: &Stage) -> Vec<u8> {
    let read = || std::fs::read(stage.file("ledger.db")).unwrap();
    let mut found = read();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        match read() {
            later if later == found => return found,
            later => found = later,
        }
    }
}
