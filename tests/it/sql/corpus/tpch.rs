//! TPC-H at scale 0.01, by the generator that PyPI has.

use std::sync::Arc;

use futures::SinkExt;
use tokio::process::Command;

use crate::clients::install;
use crate::fixture::Veil;

const TABLES: [&str; 8] = [
    "region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem",
];

/// `None` where the generator cannot be had: `install` has said so.
pub async fn world() -> Option<Arc<Veil>> {
    let install::Python(python) = install::python("tpch", &["tpchgen-cli"]).await?;
    let folder = std::env::temp_dir().join(format!("pgveil-tpch-{:x}", rand::random::<u64>()));
    let generated = Command::new(python.with_file_name("tpchgen-cli"))
        .args(["-s", "0.01", "-q", "-o"])
        .arg(&folder)
        .status()
        .await;
    assert!(
        generated.is_ok_and(|status| status.success()),
        "tpchgen-cli"
    );
    let schema = std::fs::read_to_string("tests/corpora/tpch/schema.sql").unwrap();
    // Room for every query at an epsilon at which noise, were there any, would be small.
    let policy = std::fs::read_to_string("policies/tpch.yaml")
        .unwrap()
        .replace(
            "{epsilon: 1, max_epsilon: 8}",
            "{epsilon: 5000, max_epsilon: 5000}",
        )
        .replace("{epsilon: 1000,", "{epsilon: 100000000,")
        .replace("{epsilon: 900,", "{epsilon: 90000000,");
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(&schema).await.unwrap();
        for table in TABLES {
            // Each line ends in the separator.
            let rows = std::fs::read_to_string(folder.join(format!("{table}.tbl")))
                .unwrap()
                .replace("|\n", "\n");
            let sink = client
                .copy_in(&format!("COPY {table} FROM STDIN (DELIMITER '|')"))
                .await
                .unwrap();
            let mut sink = std::pin::pin!(sink);
            sink.send(bytes::Bytes::from(rows)).await.unwrap();
            sink.close().await.unwrap();
        }
        client.batch_execute("ANALYZE").await.unwrap();
    };
    let veil = Veil::over(fill, &policy, Veil::silent()).await;
    std::fs::remove_dir_all(&folder).unwrap();
    Some(Arc::new(veil))
}
