//! `/metrics`: the proxy's counters, and its state at this moment.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::UNIX_EPOCH;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::{Page, READ_PATIENCE};
use crate::engine::{Engine, Reach, Reached, Reloadable, Service, Target};
use crate::ledger::Balance;
use crate::operator::certificate_end;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountLabel {
    account: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabel {
    target: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: &'static str,
    state: &'static str,
}

type Accounts<N> = Family<AccountLabel, N>;

/// Everything that was counted, the policy, the budgets, the ledger and the pools.
pub(super) async fn page(exchange: &Reloadable, certificate: Option<&Path>) -> Page {
    let engine = exchange.current();
    let mut registry = Registry::default();
    add_policy(&mut registry, &engine);
    let reached = engine.reached().await;
    add_reached(&mut registry, &reached);
    if reached.height.is_some() {
        add_accounts(&mut registry, &engine).await;
    }
    if reached.is_reached(Target::Database) {
        add_changed_tables(&mut registry, &engine).await;
    }
    add_pools(&mut registry, &engine);
    add_records(&mut registry, &engine);
    if let Some(end) = certificate.and_then(certificate_end) {
        registry.register_with_unit(
            "pgveil_certificate_expiry_timestamp",
            "When the certificate in the file of --tls-cert ends",
            Unit::Seconds,
            ConstGauge::new(end),
        );
    }
    // Memory grows with what is read, before the quantum of a statement ends.
    if engine.policy().quantum.is_none() {
        add_process(&mut registry);
    }
    let mut body = engine.meter().print();
    // Writing to a String cannot fail.
    let _ = text::encode(&mut body, &registry);
    Page {
        status: "200 OK",
        kind: "application/openmetrics-text; version=1.0.0; charset=utf-8",
        body,
    }
}

fn add_policy(registry: &mut Registry, engine: &Engine) {
    registry.register(
        "pgveil_build",
        "The version of pgveil",
        Info::new([("version", env!("CARGO_PKG_VERSION"))]),
    );
    let digest = engine.policy().version.clone();
    registry.register(
        "pgveil_policy",
        "The digest of what the policy in force means",
        Info::new([("digest", digest)]),
    );
    let loaded = engine.loaded().duration_since(UNIX_EPOCH);
    registry.register_with_unit(
        "pgveil_policy_loaded_timestamp",
        "When the policy in force was loaded",
        Unit::Seconds,
        ConstGauge::new(loaded.unwrap_or_default().as_secs()),
    );
}

/// Accounts that the ledger does not show now are left out.
async fn add_accounts(registry: &mut Registry, engine: &Engine) {
    let budgets = Accounts::<Gauge<f64, AtomicU64>>::default();
    let spent = Accounts::<Gauge<f64, AtomicU64>>::default();
    let (frozen, failures) = (Accounts::<Gauge>::default(), Accounts::<Gauge>::default());
    let set = |account: &str, balance: Balance| {
        let account = account.to_owned();
        let label = AccountLabel { account };
        budgets.get_or_create(&label).set(balance.fraction_left());
        let mu_squared = balance.lifetime.mu_squared.to_f64();
        spent.get_or_create(&label).set(mu_squared);
        frozen.get_or_create(&label).set(i64::from(balance.frozen));
    };
    let read = async {
        for role in &engine.policy().roles {
            if let Ok(balance) = engine.ledger().balance(&role.name).await {
                set(&role.name, balance);
            }
            if let Ok(count) = engine.ledger().failures(&role.name).await {
                let account = role.name.clone();
                let gauge = failures.get_or_create(&AccountLabel { account });
                gauge.set(i64::from(count));
            }
        }
        if let Ok(balance) = engine.ledger().balance_owner().await {
            set("", balance);
        }
    };
    // Those that were read in time are shown.
    let _ = tokio::time::timeout(READ_PATIENCE, read).await;
    registry.register_with_unit(
        "pgveil_budget_left",
        "What is left of each role's budget, from 0 to 1; the owner's total has an empty label",
        Unit::Other("ratio".to_owned()),
        budgets,
    );
    registry.register(
        "pgveil_budget_spent_mu2",
        "The square of mu that each account has spent since ever; the owner's total has an empty \
            label",
        spent,
    );
    registry.register(
        "pgveil_account_frozen",
        "1 where the owner has frozen the account",
        frozen,
    );
    registry.register(
        "pgveil_failures",
        "Failed queries of each role, ever; at the limit it may ask no more",
        failures,
    );
    registry.register(
        "pgveil_failures_limit",
        "The most failed queries of a role",
        ConstGauge::new(u64::from(engine.policy().limits.failures)),
    );
}

fn add_reached(registry: &mut Registry, reached: &Reached) {
    let up = Family::<TargetLabel, Gauge>::default();
    for (target, reach) in &reached.targets {
        let target = target.name();
        let gauge = up.get_or_create(&TargetLabel { target });
        gauge.set(i64::from(*reach == Reach::Reached));
    }
    let help = "1 where it can be reached, and the ledger is not older than it was";
    registry.register("pgveil_up", help, up);
    let went_back = reached.targets.contains(&(Target::Ledger, Reach::WentBack));
    registry.register(
        "pgveil_ledger_went_back",
        "1 where the ledger is older than this process has seen it: nothing is charged then",
        ConstGauge::new(u64::from(went_back)),
    );
    if let Some(height) = &reached.height {
        registry.register(
            "pgveil_ledger_debits",
            "Debits in the ledger, ever",
            ConstGauge::new(height.debits),
        );
    }
}

async fn add_changed_tables(registry: &mut Registry, engine: &Engine) {
    let changed = tokio::time::timeout(READ_PATIENCE, engine.changed_tables()).await;
    if let Ok(Ok(changed)) = changed {
        registry.register(
            "pgveil_tables_changed",
            "Tables whose definition has changed since the policy was loaded",
            ConstGauge::new(changed.len() as u64),
        );
    }
}

fn add_pools(registry: &mut Registry, engine: &Engine) {
    let pools = Family::<PoolLabels, Gauge>::default();
    for (pool, (used, size)) in engine.pools() {
        for (state, connections) in [("used", used), ("free", size - used)] {
            let labels = PoolLabels { pool, state };
            pools
                .get_or_create(&labels)
                .set(i64::try_from(connections).unwrap_or(i64::MAX));
        }
    }
    registry.register(
        "pgveil_pool_connections",
        "Connections to the database and to the shadow",
        pools,
    );
}

fn add_records(registry: &mut Registry, engine: &Engine) {
    let ledger = engine.ledger();
    registry.register(
        "pgveil_records_waiting",
        "Records that wait for the ledger",
        ConstGauge::new(ledger.records_waiting() as u64),
    );
    registry.register(
        "pgveil_records_lost",
        "Records that are not in the ledger, or may not be, since the last reload",
        ConstCounter::new(ledger.records_lost()),
    );
}

/// The memory and the open files of this process, where Linux says them.
fn add_process(registry: &mut Registry) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(bytes) = resident_bytes(&status) {
        registry.register(
            "process_resident_memory_bytes",
            "Memory of this process that is in use",
            ConstGauge::new(bytes),
        );
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        registry.register(
            "process_open_fds",
            "Files and sockets that are open",
            ConstGauge::new(files.count() as u64),
        );
    }
}

/// The resident memory that `/proc/self/status` says, in bytes.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        let status = "Name:\tpgveil\nVmHWM:\t  90000 kB\nVmRSS:\t   81920 kB\nThreads:\t4\n";
        assert_eq!(resident_bytes(status), Some(81_920 * 1024));
        assert_eq!(resident_bytes("VmRSS:\t12 MB\n"), None);
        assert_eq!(resident_bytes(""), None);
        // This process has some.
        let mut registry = Registry::default();
        add_process(&mut registry);
        let mut body = String::new();
        text::encode(&mut body, &registry).unwrap();
        let gauges = body.lines().filter(|line| !line.starts_with('#'));
        let values = gauges.filter_map(|line| line.split_once(' ')?.1.parse::<u64>().ok());
        assert!(
            values.clone().count() == 2 && values.clone().all(|value| value > 0),
            "{body}"
        );
    }

    /// Other metrics cannot be written into the name of a role.
    #[test]
    fn names_of_roles_are_escaped() {
        let budgets = Accounts::<Gauge<f64, AtomicU64>>::default();
        let account = "a\"} 1\nb\\".to_owned();
        budgets.get_or_create(&AccountLabel { account }).set(0.5);
        let mut registry = Registry::default();
        registry.register("budget", "Budget", budgets);
        let mut body = String::new();
        text::encode(&mut body, &registry).unwrap();
        assert_eq!(
            body,
            "# HELP budget Budget.\n# TYPE budget gauge\n\
                budget{account=\"a\\\"} 1\\nb\\\\\"} 0.5\n# EOF\n"
        );
    }
}
