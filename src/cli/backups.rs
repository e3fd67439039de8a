//! A series of backups in one directory: each named by its time, the oldest removed.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::blocking::blocking;
use super::{Failure, notify, signal};
use crate::calendar::FROM_1970_US;
use crate::ledger::{Address, back_up};
use crate::policy::Scalar;
use crate::rewrite::emit::sql;

const PREFIX: &str = "ledger-";
const SUFFIX: &str = ".pgvb";
/// Year to second.
const DIGITS: usize = 14;

/// How often backups are made, and how many are kept.
pub struct Series {
    pub directory: PathBuf,
    /// Without it, one backup is made.
    pub every: Option<Duration>,
    /// How many of the newest stay; all without it.
    pub keep: Option<usize>,
}

/// Makes one backup after another until a signal comes. The first must succeed; a later one that
/// fails is logged, and the next is made in its time.
pub async fn run(address: Address, series: &Series) -> Result<(), Failure> {
    let token = signal::token()?;
    one(&address, series).await?;
    let Some(every) = series.every else {
        return Ok(());
    };
    notify::ready();
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            () = tokio::time::sleep(every) => {}
        }
        if let Err(failure) = one(&address, series).await {
            tracing::error!("no backup was made: {}", failure.in_a_line());
        }
    }
}

async fn one(address: &Address, series: &Series) -> Result<(), Failure> {
    let copy = series.directory.join(name(SystemTime::now()));
    let (from, to) = (address.clone(), copy.clone());
    blocking(move || back_up(&from, &to)).await?;
    println!("backed up to {}", copy.display());
    if let Some(keep) = series.keep {
        prune(&series.directory, keep).map_err(Failure::new)?;
    }
    Ok(())
}

fn name(now: SystemTime) -> String {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let microseconds = since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(0));
    let time = sql::scalar_text(&Scalar::Timestamp(microseconds - FROM_1970_US));
    let digits: String = time
        .chars()
        .filter(char::is_ascii_digit)
        .take(DIGITS)
        .collect();
    format!("{PREFIX}{digits}{SUFFIX}")
}

/// Removes the oldest of this series. Other files stay.
fn prune(directory: &Path, keep: usize) -> std::io::Result<()> {
    let found = series_in(directory)?;
    let surplus = found.len().saturating_sub(keep);
    for path in &found[..surplus] {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The newest of a directory's series.
pub fn newest(directory: &Path) -> Option<PathBuf> {
    series_in(directory).ok()?.pop()
}

/// The backups that this command named, oldest first.
fn series_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let digits = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        let is_ours = |digits: &str| {
            digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if digits.is_some_and(is_ours) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_other_files_too() {
        let directory =
            Path::new("/tmp").join(format!("pgveil-backups-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).unwrap();
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(name(time(1_732_480_200)), "ledger-20241124203000.pgvb");
        let ours = [1, 2, 3].map(|days| name(time(1_732_480_200 + days * 86_400)));
        let others = [
            "ledger-2024.pgvb",
            "ledger-before-upgrade.pgvb",
            "ledger.db",
        ];
        for file in ours.iter().map(String::as_str).chain(others) {
            std::fs::write(directory.join(file), "").unwrap();
        }
        prune(&directory, 2).unwrap();
        assert!(!directory.join(&ours[0]).exists());
        for file in ours[1..].iter().map(String::as_str).chain(others) {
            assert!(directory.join(file).exists(), "{file}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
