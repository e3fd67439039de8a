//! SIGHUP reads and checks the policy file again. A valid policy replaces the current one
//! atomically. An invalid policy changes nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::local_secret::check_secret;
use super::start::Started;
use super::{Failure, notify, start};
use crate::console::InForce;
use crate::engine::{Engine, Reloadable, Service};
use crate::operator;
use crate::policy::{Difference, File, newly_shown};
use crate::shadow::ShadowSource;

/// How often a replaced engine is checked for running questions.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reloads the policy at each signal, and when an operator asks. Each time `certificate` reads the
/// files of TLS again too, so that an invalid policy does not prevent a new certificate. `fits`
/// refuses a policy that this process cannot serve. `shown` is what operators see. Never returns.
pub async fn on_hangup(
    mut signals: tokio::signal::unix::Signal,
    path: &Path,
    started_with: File,
    exchange: &Reloadable,
    mut asked: mpsc::Receiver<operator::Reload>,
    shown: &InForce,
    (certificate, fits): (
        impl Fn() -> Result<(), Failure>,
        impl Fn(&File) -> Result<(), Failure>,
    ),
) {
    let mut in_force = started_with.clone();
    loop {
        // Signals and operators come until the process ends.
        let answer = tokio::select! {
            Some(()) = signals.recv() => None,
            Some(answer) = asked.recv() => Some(answer),
            else => std::future::pending().await,
        };
        notify::reloading();
        if let Err(failure) = certificate() {
            tracing::error!("the certificate in force stays: {}", failure.in_a_line());
        }
        let before = exchange.current();
        if let Some(file) = before.ledger().record_file() {
            file.reopen();
        }
        let reloaded = reload(path, (&started_with, &in_force), exchange, &fits).await;
        exchange.current().meter().reload(reloaded.is_ok());
        let outcome = reloaded.as_ref().map(|_| ());
        let outcome = outcome.map_err(|failure| failure.in_a_line());
        match reloaded {
            Ok((file, bare)) => {
                shown.replace(bare);
                let now = exchange.current();
                let (before, now) = (before.policy(), now.policy());
                let difference = Difference::between(&in_force, &file);
                let change = change(difference.is_empty(), before.version == now.version);
                tracing::info!("the policy was reloaded{change}");
                for (what, line) in difference.lines() {
                    tracing::info!("the policy {what}: {line}");
                }
                for line in newly_shown((&in_force, before), (&file, now)) {
                    tracing::warn!("{line}");
                }
                in_force = file;
            }
            Err(failure) => tracing::error!("the policy in force stays: {}", failure.in_a_line()),
        }
        notify::ready();
        if let Some(answer) = answer {
            // An operator who left gets no answer.
            let _ = answer.send(outcome);
        }
    }
}

/// What a reload says of a file that says the same as before.
fn change(is_same_file: bool, is_same_meaning: bool) -> &'static str {
    match (is_same_file, is_same_meaning) {
        (true, true) => "; nothing changes",
        // Lists come from tables and labels, which the file only names.
        (true, false) => {
            "; the file says the same, but the database's definitions or lists have changed: no \
                stored answer is shown again"
        }
        (false, _) => "",
    }
}

/// The policy file that is in force now, and the same without its secrets if it has a meaning. What
/// it changes is in the ledger before it holds.
///
/// # Errors
/// If the policy is invalid, changes a key that needs a restart, or cannot be recorded. Nothing has
/// changed then.
async fn reload(
    path: &Path,
    (started_with, in_force): (&File, &File),
    exchange: &Reloadable,
    fits: impl Fn(&File) -> Result<(), Failure>,
) -> Result<(File, Option<File>), Failure> {
    let (file, bare) = start::read_to_compare(path)?;
    fits(&file)?;
    if !same_server(&file, started_with) {
        return Err(Failure::with_remedy(
            "database.url, ledger, shadow.url and limits.failures cannot change while pgveil runs",
            "Restart pgveil.",
        ));
    }
    let ledger = start::ledger(&file)?;
    let database = start::database(&file)?;
    let opened = start::open(&file, &database).await?;
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    let before = exchange.current();
    let source = file
        .shadow_url
        .clone()
        .map_or(ShadowSource::Local, ShadowSource::Url);
    // A named shadow is rebuilt in place. No question may use it meanwhile.
    let quiet = match &source {
        ShadowSource::Url(_) => Some(exchange.quiet().await),
        ShadowSource::Local | ShadowSource::LocalEngine(_) | ShadowSource::Started(_) => None,
    };
    let started = start::engine(
        opened,
        database.clone(),
        source.clone(),
        ledger,
        start::CONNECTIONS,
        Some(&before),
    );
    let started = match started.await {
        Ok(started) => record_change(started, &before, (in_force, &file)).await,
        Err(failure) => Err(failure),
    };
    let started = match started {
        Ok(started) => started,
        Err(failure) => {
            if quiet.is_some()
                && let Err(second) = start::shadow_again(&before, &database, source).await
            {
                tracing::error!(
                    "the shadow of the policy in force could not be put back, restart pgveil: {}",
                    second.in_a_line()
                );
            }
            return Err(failure);
        }
    };
    drop(before);
    let replaced = exchange.replace(started.engine);
    tokio::spawn(retire(replaced));
    Ok((file, bare))
}

/// The new engine, once the ledger records what the reload changes. The new engine does not know
/// the height that this process has already seen. So `before`, which does, checks that the ledger
/// has not gone back.
async fn record_change(
    started: Started,
    before: &Engine,
    (in_force, file): (&File, &File),
) -> Result<Started, Failure> {
    if let Err(error) = before.ledger().height().await {
        start::stop(started.engine).await;
        return Err(Failure::new(error));
    }
    if let Err(failure) = check_secret(file, before.ledger(), false).await {
        start::stop(started.engine).await;
        return Err(failure);
    }
    let now = &started.engine;
    let difference = Difference::between(in_force, file);
    let is_same_meaning = before.policy().version == now.policy().version;
    let mut lines: Vec<String> = difference
        .lines()
        .map(|(what, line)| format!("{what} {line}"))
        .collect();
    if difference.is_empty() && !is_same_meaning {
        lines.push("changes the database's definitions or lists".to_owned());
    }
    let recorded = now.ledger().record_policy(file.digest, lines.join("\n"));
    match recorded.await {
        Ok(()) => Ok(started),
        Err(error) => {
            start::stop(started.engine).await;
            Err(Failure::new(error))
        }
    }
}

fn same_server(file: &File, other: &File) -> bool {
    file.database_url == other.database_url
        && file.ledger_url == other.ledger_url
        && file.ledger_witnesses == other.ledger_witnesses
        && file.shadow_url == other.shadow_url
        && file.limits.failures == other.limits.failures
}

/// Stops an engine once its last question has ended.
async fn retire(engine: Arc<Engine>) {
    while Arc::strong_count(&engine) > 1 {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    start::stop(engine).await;
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn a_reload_tells_a_change_of_the_database() {
        assert_eq!(change(true, true), "; nothing changes");
        assert!(change(true, false).contains("definitions or lists have changed"));
        assert_eq!(change(false, false), "");
    }
}
