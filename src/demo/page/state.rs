//! One page: its proxy, its exact side, and what was spent.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::demo::data::ServerError;
use crate::demo::exact::Exact;
use crate::demo::session::{DemoSession, Refused};
use crate::demo::topic::Topic;

/// How long an answer waits for the exact side, which starts at the same time as the proxy.
const EXACT_PATIENCE: Duration = Duration::from_secs(60);
/// The most steps of the budget that are listed.
const STEPS_MAX: usize = 30;

/// Where a proxy listens, and how psql reaches it.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub listening: SocketAddr,
    pub database: String,
    pub psql: String,
}

/// What a page remembers.
pub struct DemoPage {
    pub topic: &'static Topic,
    proxy: Proxy,
    exact: watch::Receiver<Side>,
    steps: Mutex<Vec<SpendingStep>>,
}

/// The exact side.
enum Side {
    Starting,
    Here(Arc<Exact>),
    Absent,
}

/// How one question changed the budget.
#[derive(Debug, Clone)]
pub struct SpendingStep {
    pub what: String,
    pub before: f64,
    pub after: f64,
}

impl DemoPage {
    /// A page of nothing asked yet, whose exact side starts now.
    pub fn new(
        topic: &'static Topic,
        proxy: Proxy,
        exact: impl Future<Output = Result<Exact, ServerError>> + Send + 'static,
    ) -> Self {
        let (sender, side) = watch::channel(Side::Starting);
        tokio::spawn(async move {
            let side = match exact.await {
                Ok(exact) => Side::Here(Arc::new(exact)),
                Err(_) => Side::Absent,
            };
            // The page may have been closed meanwhile.
            let _ = sender.send(side);
        });
        Self {
            topic,
            proxy,
            exact: side,
            steps: Mutex::new(Vec::new()),
        }
    }

    /// A session of the page's proxy.
    ///
    /// # Errors
    /// The proxy's.
    pub async fn session(&self) -> Result<DemoSession, Refused> {
        let Proxy {
            listening,
            database,
            psql: _,
        } = &self.proxy;
        DemoSession::open(*listening, database, "pgveil demo page").await
    }

    /// The command with which psql connects.
    pub fn psql(&self) -> String {
        self.proxy.psql.clone()
    }

    /// The exact rows, once the exact side is there.
    pub async fn exact_rows(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        self.exact_side().await?.rows(sql).await
    }

    pub async fn exact_number(&self, sql: &str) -> Option<f64> {
        let rows = self.exact_rows(sql).await?;
        rows.first()?.first()?.as_deref()?.parse().ok()
    }

    async fn exact_side(&self) -> Option<Arc<Exact>> {
        let mut side = self.exact.clone();
        let here = side.wait_for(|side| !matches!(side, Side::Starting));
        match &*tokio::time::timeout(EXACT_PATIENCE, here)
            .await
            .ok()?
            .ok()?
        {
            Side::Here(exact) => Some(Arc::clone(exact)),
            Side::Starting | Side::Absent => None,
        }
    }

    /// How each question so far changed the budget.
    pub fn steps(&self) -> Vec<SpendingStep> {
        let steps = self.steps.lock();
        steps.map_or_else(|_| Vec::new(), |steps| steps.clone())
    }

    pub fn log_spending(&self, what: &str, before: f64, after: f64) {
        let Ok(mut steps) = self.steps.lock() else {
            return;
        };
        if steps.len() == STEPS_MAX {
            steps.remove(0);
        }
        let title = self.topic.title(what);
        let words = what.split_whitespace().collect::<Vec<_>>().join(" ");
        steps.push(SpendingStep {
            what: title.map_or_else(|| words.chars().take(60).collect(), str::to_owned),
            before,
            after,
        });
    }
}
