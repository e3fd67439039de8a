//! What a process knows outlives a reload.

use super::serve::{connect, free_port};
use super::stage::Stage;

/// Waits until the ledger's log is in its file.
async fn rested(stage: &Stage) {
    while std::fs::metadata(stage.file("ledger.db-wal"))
        .unwrap()
        .len()
        > 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// The engine that a reload builds opens the ledger anew. Without a witness it would take an older
/// copy for the ledger, and give back what was spent since.
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
    rested(&stage).await;
    let older = std::fs::read(stage.file("ledger.db")).unwrap();
    client
        .query_one("SELECT sum(age) FROM shop.people", &[])
        .await
        .unwrap();

    // In place: the file stays, and its content is of an earlier moment.
    rested(&stage).await;
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
    assert_eq!(error.code().unwrap().code(), "XX000", "{error:?}");
    running.signal("-TERM");
    assert_eq!(stage.reported(), "STOPPING=1");
    running.0.wait().unwrap();
}
