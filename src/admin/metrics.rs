//! `/metrics`: the proxy's counters, and its state at this moment.

use std::sync::atomic::AtomicU64;
use std::time::UNIX_EPOCH;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::{AdminPages, Page, READ_PATIENCE};
use crate::engine::{Dependency, Engine, MemoryReading, Reach, Reached, Reloadable, Service};
use crate::ledger::{Balance, LedgerStanding};
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
struct WitnessLabel {
    witness: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: &'static str,
    state: &'static str,
}

type Accounts<N> = Family<AccountLabel, N>;

/// What each account has spent and has left, by its name.
#[derive(Default)]
struct Budgets {
    left: Accounts<Gauge<f64, AtomicU64>>,
    spent: Accounts<Gauge<f64, AtomicU64>>,
    renews: Accounts<Gauge>,
    frozen: Accounts<Gauge>,
    failures: Accounts<Gauge>,
    searches: Accounts<Gauge>,
}

/// Everything that was counted, the policy, the budgets, the ledger and the pools.
pub(super) async fn page(exchange: &Reloadable, shown: &AdminPages) -> Page {
    let engine = exchange.current();
    let mut registry = Registry::default();
    add_policy(&mut registry, &engine);
    let reached = engine.check().await;
    add_reached(&mut registry, &reached);
    if reached.height.is_some() {
        add_accounts(&mut registry, &engine).await;
        add_witnesses(&mut registry, &engine).await;
    }
    if reached.is_reached(Dependency::Database) {
        add_changed_tables(&mut registry, &engine).await;
    }
    add_pools(&mut registry, &engine);
    add_records(&mut registry, &engine);
    add_backup(&mut registry, &engine);
    if let Some(end) = shown.certificate.as_deref().and_then(certificate_end) {
        registry.register_with_unit(
            "pgveil_certificate_expiry_timestamp",
            "When the certificate in the file of --tls-cert ends",
            Unit::Seconds,
            ConstGauge::new(end),
        );
    }
    // Memory grows with what is read, and an answer is kept, before the quantum of a statement
    // ends.
    if engine.policy().quantum.is_none() {
        add_process(&mut registry);
        if let Some(memory) = &shown.memory {
            add_memory(&mut registry, memory);
        }
        add_store(&mut registry, &engine, reached.height.is_some()).await;
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
        "The version of pgveil, and the newest format of ledgers that it knows",
        Info::new([
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("ledger_format", LedgerStanding::NEWEST.to_string()),
        ]),
    );
    let digest = engine.policy().version.clone();
    registry.register(
        "pgveil_policy",
        "The digest of what the policy in force means",
        Info::new([("digest", digest)]),
    );
    let loaded = engine.loaded_at().duration_since(UNIX_EPOCH);
    registry.register_with_unit(
        "pgveil_policy_loaded_timestamp",
        "When the policy in force was loaded",
        Unit::Seconds,
        ConstGauge::new(loaded.unwrap_or_default().as_secs()),
    );
}

/// Accounts that the ledger does not show now are left out.
async fn add_accounts(registry: &mut Registry, engine: &Engine) {
    let budgets = Budgets::default();
    // Those that were read in time are shown.
    let _ = tokio::time::timeout(READ_PATIENCE, budgets.read(engine)).await;
    budgets.register(registry);
    registry.register(
        "pgveil_failures_limit",
        "The most failed queries of a role",
        ConstGauge::new(u64::from(engine.policy().limits.failures)),
    );
}

impl Budgets {
    async fn read(&self, engine: &Engine) {
        let ledger = engine.ledger();
        for role in &engine.policy().roles {
            let account = role.name.clone();
            let label = AccountLabel { account };
            if let Ok(balance) = ledger.balance(&role.name).await {
                self.set(&label, &balance);
            }
            if let Ok(count) = ledger.failures(&role.name).await {
                self.failures.get_or_create(&label).set(i64::from(count));
            }
        }
        if let Ok(balance) = ledger.balance_owner().await {
            let account = String::new();
            self.set(&AccountLabel { account }, &balance);
        }
        // Last: these take longest, and no alert of a budget waits for them.
        for role in &engine.policy().roles {
            if let Ok(unpaid) = engine.searches_unpaid(&role.name).await {
                let account = role.name.clone();
                let unpaid = i64::try_from(unpaid).unwrap_or(i64::MAX);
                let label = AccountLabel { account };
                self.searches.get_or_create(&label).set(unpaid);
            }
        }
    }

    fn set(&self, label: &AccountLabel, balance: &Balance) {
        let Balance {
            lifetime,
            renews_at,
            frozen,
            ..
        } = balance;
        let left = balance.fraction_left();
        self.left.get_or_create(label).set(left);
        let mu_squared = lifetime.mu_squared.to_f64();
        self.spent.get_or_create(label).set(mu_squared);
        if let Some(microseconds) = renews_at {
            let seconds = microseconds.div_euclid(1_000_000);
            self.renews.get_or_create(label).set(seconds);
        }
        self.frozen.get_or_create(label).set(i64::from(*frozen));
    }

    fn register(self, registry: &mut Registry) {
        registry.register_with_unit(
            "pgveil_budget_left",
            "What is left of each role's budget, from 0 to 1; the owner's total has an empty label",
            Unit::Other("ratio".to_owned()),
            self.left,
        );
        registry.register(
            "pgveil_budget_spent_mu2",
            "The square of mu that each account has spent since ever; the owner's total has an \
                empty label",
            self.spent,
        );
        registry.register_with_unit(
            "pgveil_budget_renews_timestamp",
            "When the budget of each role that is renewed begins anew",
            Unit::Seconds,
            self.renews,
        );
        registry.register(
            "pgveil_account_frozen",
            "1 where the owner has frozen the account",
            self.frozen,
        );
        registry.register(
            "pgveil_failures",
            "Failed queries of each role, ever; at the limit it may ask no more",
            self.failures,
        );
        registry.register(
            "pgveil_searches_due",
            "Searches of the policy that each role pays for with its next question",
            self.searches,
        );
    }
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
    let went_back = reached
        .targets
        .contains(&(Dependency::Ledger, Reach::WentBack));
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

/// What each witness has seen that can be read in time.
async fn add_witnesses(registry: &mut Registry, engine: &Engine) {
    let ledger = engine.ledger();
    if !ledger.is_witnessed() {
        return;
    }
    let seen = tokio::time::timeout(READ_PATIENCE, ledger.witnessed_debits()).await;
    let Ok(Ok(seen)) = seen else {
        return;
    };
    let family = Family::<WitnessLabel, Gauge>::default();
    for (name, debits) in seen {
        let witness = name.trim_matches('"').to_owned();
        family.get_or_create(&WitnessLabel { witness }).set(debits);
    }
    registry.register(
        "pgveil_witness_debits",
        "Debits of the ledger that each of its witnesses has seen, ever",
        family,
    );
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
    for (pool, in_use) in engine.pools() {
        for (state, connections) in [("used", in_use.used), ("free", in_use.free())] {
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

/// Adds the time of the last backup, for a ledger that `pgveil ledger backup` copies.
fn add_backup(registry: &mut Registry, engine: &Engine) {
    let ledger = engine.ledger();
    if ledger.is_file() {
        let last = ledger.last_backup().map_or(0, |last| last.microseconds);
        registry.register_with_unit(
            "pgveil_backup_timestamp",
            "When the ledger was last backed up; 0 where no backup is known",
            Unit::Seconds,
            ConstGauge::new(last.div_euclid(1_000_000)),
        );
    }
}

/// How long commits of the ledger take, and what it takes on its disk.
async fn add_store(registry: &mut Registry, engine: &Engine, is_reached: bool) {
    let ledger = engine.ledger();
    registry.register_with_unit(
        "pgveil_ledger_commit",
        "Time until a debit outlasts a loss of power, and its witnesses know of it",
        Unit::Seconds,
        ledger.commit_times().clone(),
    );
    if is_reached
        && let Ok(Ok(Some(bytes))) = tokio::time::timeout(READ_PATIENCE, ledger.bytes()).await
    {
        registry.register(
            "pgveil_ledger_bytes",
            "What the ledger takes on its disk, in bytes",
            ConstGauge::new(bytes),
        );
    }
}

/// What sessions hold of the memory that they share.
fn add_memory(registry: &mut Registry, memory: &MemoryReading) {
    let (used, free) = memory.used_and_free();
    let family = Family::<StateLabel, Gauge>::default();
    for (state, bytes) in [("used", used), ("free", free)] {
        let gauge = family.get_or_create(&StateLabel { state });
        gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    registry.register(
        "pgveil_memory_budget_bytes",
        "Memory for answers, cursors, prepared statements and long messages, which all sessions \
            share beyond a small allowance of each",
        family,
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
