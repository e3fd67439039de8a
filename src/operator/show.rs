//! The rows of each SHOW.

use std::time::{SystemTime, UNIX_EPOCH};

use super::certificate::certificate_end;
use super::tables::{ACTS, ActCommand, SHOWN, ShowTable, right};
use super::{Caller, Control};
use crate::auto_bounds;
use crate::calendar;
use crate::engine::Service;
use crate::ledger::{Balance, Error, Event, LedgerStanding, Origin, PolicyRecord, Record};
use crate::mechanism::Fixed;
use crate::policy::{Certificate, Protection};
use crate::postgres::PoolUse;
use crate::refusal::{Refusal, reason};

/// Acts that are shown.
const ACTS_MAX: u32 = 100;
const SECONDS_OF_DAY: i64 = 86_400;

type Rows = Vec<Vec<String>>;

impl Control {
    /// The rows of a table, each with as many values as the table has columns.
    ///
    /// # Errors
    /// 42501 where the caller may not see it; 58030 where the ledger cannot be read.
    pub async fn show(&self, caller: &Caller, shown: &ShowTable) -> Result<Rows, Refusal> {
        self.may(caller, shown.rights, &format!("SHOW {}", shown.name))?;
        Ok(match shown.name {
            "HELP" => help(),
            "VERSION" => self.version(),
            "ROLES" => self.roles(),
            "ACCOUNTS" => self.accounts().await.map_err(|e| unread(&e))?,
            "SESSIONS" => self.open_sessions(),
            "POOLS" => self.pools(),
            "LEDGER" => self.ledger().await,
            "POLICY" => self.policy(),
            "SEARCHES" => self.searches(),
            "STATS" => stats(&self.exchange.meter().print_counts()),
            "TABLES" => self.tables().await,
            "CERTIFICATES" => self.certificates(),
            "ACTS" => self.acts().await.map_err(|e| unread(&e))?,
            _ => Vec::new(),
        })
    }

    fn version(&self) -> Rows {
        vec![
            pair("pgveil", env!("CARGO_PKG_VERSION")),
            pair("postgresql", self.exchange.server_version()),
            pair("started", moment(self.started)),
        ]
    }

    fn roles(&self) -> Rows {
        let engine = self.exchange.current();
        let roles = engine.policy().roles.iter();
        let row = |role: &crate::policy::Role| {
            let certificate = match role.certificate {
                Certificate::Required => "required",
                Certificate::Optional => "optional",
            };
            let sessions = self.sessions.count(&role.name).to_string();
            vec![role.name.clone(), sessions, certificate.to_owned()]
        };
        roles.map(row).collect()
    }

    async fn accounts(&self) -> Result<Rows, Error> {
        let engine = self.exchange.current();
        let ledger = engine.ledger();
        let mut rows = vec![account(
            "(owner)",
            &ledger.balance_owner().await?,
            String::new(),
        )];
        for role in &engine.policy().roles {
            let failures = ledger.failures(&role.name).await?.to_string();
            let balance = ledger.balance(&role.name).await?;
            rows.push(account(&role.name, &balance, failures));
        }
        Ok(rows)
    }

    fn open_sessions(&self) -> Rows {
        let row = |session: std::sync::Arc<super::sessions::OpenSession>| {
            let kind = if session.is_operator {
                "operator"
            } else {
                "role"
            };
            vec![
                session.id.to_string(),
                session.name.clone(),
                kind.to_owned(),
                session
                    .address
                    .map_or(String::new(), |address| address.to_string()),
                session.application(),
                yes(session.is_encrypted),
                moment(session.since),
                session.state().name().to_owned(),
                session.statements().to_string(),
            ]
        };
        self.sessions.all().into_iter().map(row).collect()
    }

    /// A connection counts as used until the quantum of its statement ends.
    fn pools(&self) -> Rows {
        let engine = self.exchange.current();
        let row = |(pool, PoolUse { used, size }): (&str, PoolUse)| {
            vec![pool.to_owned(), used.to_string(), size.to_string()]
        };
        engine.pools().into_iter().map(row).collect()
    }

    async fn ledger(&self) -> Rows {
        let engine = self.exchange.current();
        let ledger = engine.ledger();
        match ledger.height().await {
            Ok(height) => {
                let last = ledger.last_backup();
                let last = last.map_or(String::new(), |last| calendar::utc(last.microseconds));
                let birth: String = height.birth.iter().map(|b| format!("{b:02x}")).collect();
                vec![
                    pair("state", "open"),
                    pair("birth", birth),
                    pair("generation", height.generation),
                    pair("debits", height.debits),
                    pair("receipts", height.receipts),
                    pair("decisions", height.decisions),
                    pair("failures", height.failures),
                    pair("format", LedgerStanding::NEWEST),
                    pair("last_backup", last),
                ]
            }
            Err(Error::WentBack { .. }) => vec![pair("state", "went back: nothing is charged")],
            Err(Error::Witness { .. }) => vec![pair("state", "witness out of reach")],
            Err(_) => vec![pair("state", "out of reach")],
        }
    }

    fn policy(&self) -> Rows {
        let engine = self.exchange.current();
        let policy = engine.policy();
        let is_public =
            |table: &&crate::policy::Table| matches!(table.protection, Protection::Public);
        let public = policy.tables.iter().filter(is_public).count();
        vec![
            pair("digest", &policy.version),
            pair("loaded", moment(engine.loaded_at())),
            pair("roles", policy.roles.len()),
            pair("operators", policy.operators.len()),
            pair("private_tables", policy.tables.len() - public),
            pair("public_tables", public),
        ]
    }

    /// The proxy starts only when all are found.
    fn searches(&self) -> Rows {
        let engine = self.exchange.current();
        let policy = engine.policy();
        let row = |search| vec![auto_bounds::search_name(policy, search), "found".to_owned()];
        policy.searches.iter().map(row).collect()
    }

    async fn tables(&self) -> Rows {
        let engine = self.exchange.current();
        let changed = engine.changed_tables().await;
        let row = |table: &crate::policy::Table| {
            let name = format!("{}.{}", table.schema, table.name);
            let kind = match table.protection {
                Protection::Public => "public",
                Protection::Private { .. } => "private",
            };
            let is_changed = match &changed {
                Ok(changed) => yes(changed.contains(&name)),
                Err(_) => "unknown".to_owned(),
            };
            vec![name, kind.to_owned(), is_changed]
        };
        engine.policy().tables.iter().map(row).collect()
    }

    fn certificates(&self) -> Rows {
        let Some(path) = &self.certificate else {
            return Vec::new();
        };
        let row = match certificate_end(path) {
            Some(seconds) => {
                let left = (seconds - since_1970(SystemTime::now())).div_euclid(SECONDS_OF_DAY);
                [
                    calendar::utc(seconds.saturating_mul(1_000_000)),
                    left.to_string(),
                ]
            }
            None => ["cannot be read".to_owned(), String::new()],
        };
        let [ends, left] = row;
        vec![vec![path.display().to_string(), ends, left]]
    }

    /// Acts and policies, newest first.
    async fn acts(&self) -> Result<Rows, Error> {
        let engine = self.exchange.current();
        let ledger = engine.ledger();
        let acts = ledger.acts(ACTS_MAX).await?.into_iter().map(act);
        let policies = ledger.policies().await?.into_iter().map(policy);
        let mut rows: Vec<(i64, Vec<String>)> = acts.chain(policies).collect();
        rows.sort_by_key(|(microseconds, _)| std::cmp::Reverse(*microseconds));
        rows.truncate(ACTS_MAX as usize);
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

/// A row of SHOW ACTS, with its time.
fn act(record: Record) -> (i64, Vec<String>) {
    let Record {
        microseconds,
        name,
        origin: Origin { via, address, .. },
        event,
        ..
    } = record;
    let what = match event {
        Event::Act { act, target, why } => [act, target, why],
        Event::Statement(_) | Event::Login => Default::default(),
    };
    let address = address.map_or(String::new(), |address| address.to_string());
    let row = [calendar::utc(microseconds), name]
        .into_iter()
        .chain(what)
        .chain([via.name().to_owned(), address]);
    (microseconds, row.collect())
}

/// The time and the row of a policy that came into force.
fn policy(record: PolicyRecord) -> (i64, Vec<String>) {
    let PolicyRecord {
        microseconds,
        digest,
        change,
    } = record;
    let digest = digest.short();
    let row = [
        calendar::utc(microseconds),
        String::new(),
        "policy".to_owned(),
        digest,
        // The text of the change is only for operators who may see the policy.
        if change.is_empty() { "start" } else { "reload" }.to_owned(),
        String::new(),
        String::new(),
    ];
    (microseconds, row.to_vec())
}

fn help() -> Rows {
    let shown = SHOWN.iter().map(|shown| {
        vec![
            format!("SHOW {}", shown.name),
            right(shown.rights).to_owned(),
            shown.says.to_owned(),
        ]
    });
    let acts = ACTS.iter().map(|ActCommand { form, rights, says }| {
        vec![
            (*form).to_owned(),
            right(*rights).to_owned(),
            (*says).to_owned(),
        ]
    });
    shown.chain(acts).collect()
}

fn account(name: &str, balance: &Balance, failures: String) -> Vec<String> {
    let state = match (balance.frozen, balance.closed) {
        (true, _) => "frozen",
        (false, true) => "refused by the total",
        (false, false) => "open",
    };
    let spent = &balance.lifetime;
    vec![
        name.to_owned(),
        format!("{:.4}", balance.fraction_left()),
        spent
            .epsilon
            .map_or(String::new(), |epsilon| format!("{:.4}", epsilon.to_f64())),
        format!("{:.4}", spent.mu_squared.to_f64().sqrt()),
        match spent.delta {
            Fixed::ZERO => "0".to_owned(),
            delta => format!("{:.1e}", delta.to_f64()),
        },
        failures,
        balance.renewal_date().unwrap_or_default(),
        state.to_owned(),
    ]
}

/// Counters of metrics, of their printed form. Times are not among them: between two sums of
/// seconds lies one exact time.
fn stats(counts: &str) -> Rows {
    counts
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (named, value) = line.rsplit_once(' ')?;
            let (name, labels) = named.split_once('{').unwrap_or((named, ""));
            let labels = labels.trim_end_matches('}');
            Some([name, labels, value].map(str::to_owned).to_vec())
        })
        .collect()
}

fn pair(name: &str, value: impl ToString) -> Vec<String> {
    vec![name.to_owned(), value.to_string()]
}

fn yes(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

fn since_1970(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX / 1_000_000)
}

fn moment(time: SystemTime) -> String {
    calendar::utc(since_1970(time) * 1_000_000)
}

/// 58030, with the cause in the log alone.
pub(super) fn unread(error: &Error) -> Refusal {
    tracing::error!(%error, "an operator was not answered");
    Refusal::new(reason::LEDGER_OUT_OF_REACH, "the ledger cannot be reached")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_counters_and_their_labels() {
        let counts = "# HELP a b\npgveil_sessions 2\n\
            pgveil_questions_total{kind=\"a b\",sqlstate=\"00000\"} 4\n# EOF\n";
        let labels = "kind=\"a b\",sqlstate=\"00000\"";
        assert_eq!(
            stats(counts),
            [
                ["pgveil_sessions", "", "2"],
                ["pgveil_questions_total", labels, "4"]
            ]
        );
    }

    #[test]
    fn each_row_of_help_is_one_command() {
        let help = help();
        assert_eq!(help.len(), SHOWN.len() + ACTS.len());
        assert!(help.iter().all(|row| row.len() == SHOWN[0].columns.len()));
    }
}
