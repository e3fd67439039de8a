//! TPC-H at scale 0.01, by the generator that PyPI has.

use std::sync::Arc;

use futures::SinkExt;
use tokio::process::Command;

use crate::clients::install;
use crate::fixture::{TemporaryDirectory, Veil};

const TABLES: [&str; 8] = [
    "region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem",
];

/// The rows of all tables.
pub struct Rows(TemporaryDirectory);

impl Rows {
    /// `None` where the generator cannot be had: `install` has said so.
    pub async fn generate() -> Option<Self> {
        let install::Python(python) = install::python("tpch", &["tpchgen-cli"]).await?;
        let rows = Self(TemporaryDirectory::new("tpch"));
        let generated = Command::new(python.with_file_name("tpchgen-cli"))
            .args(["-s", "0.01", "-q", "-o"])
            .arg(&rows.0.0)
            .status()
            .await;
        assert!(
            generated.is_ok_and(|status| status.success()),
            "tpchgen-cli"
        );
        Some(rows)
    }

    /// Makes the tables of the specification and fills them.
    pub async fn load(&self, client: &tokio_postgres::Client) {
        let schema = std::fs::read_to_string("tests/corpora/tpch/schema.sql").unwrap();
        client.batch_execute(&schema).await.unwrap();
        for table in TABLES {
            // Each line ends in the separator.
            let rows = std::fs::read_to_string(self.0.0.join(format!("{table}.tbl")))
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
    }
}

/// The project's policy for TPC-H, with room for every query at an epsilon at which noise, were
/// there any, would be small.
pub fn policy() -> String {
    std::fs::read_to_string("policies/tpch.yaml")
        .unwrap()
        .replace(
            "{epsilon: 1, max_epsilon: 8}",
            "{epsilon: 5000, max_epsilon: 5000}",
        )
        .replace("{epsilon: 1000,", "{epsilon: 100000000,")
        .replace("{epsilon: 900,", "{epsilon: 90000000,")
}

/// The 22 queries with the specification's own parameters, by their names.
pub fn queries() -> Vec<(String, String)> {
    let texts = std::fs::read_to_string("tests/corpora/tpch/queries.sql").unwrap();
    let texts = texts.split(";\n").map(str::trim);
    let texts = texts.filter(|sql| !sql.is_empty()).enumerate();
    texts
        .map(|(at, sql)| (format!("Q{}", at + 1), sql.to_owned()))
        .collect()
}

/// What docs/tpch.md suggests in place of the queries without a sound reading, by their names.
pub fn suggestions() -> Vec<(String, String)> {
    let texts = std::fs::read_to_string("tests/corpora/tpch/suggestions.sql").unwrap();
    let texts = texts.split("-- Q").skip(1);
    texts
        .map(|text| {
            let (name, sql) = text.split_once('\n').unwrap();
            let sql = sql.trim().trim_end_matches(';');
            (format!("instead of Q{name}"), sql.to_owned())
        })
        .collect()
}

/// `None` where the generator cannot be had.
pub async fn world() -> Option<Arc<Veil>> {
    let rows = Rows::generate().await?;
    let veil = Veil::over(
        async |client| rows.load(client).await,
        &policy(),
        Veil::silent(),
    )
    .await;
    Some(Arc::new(veil))
}
