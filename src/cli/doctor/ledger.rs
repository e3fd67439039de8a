//! The ledger, its witnesses, its disk and its backups.

use std::fs::File as OpenFile;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::statvfs;

use super::{CheckResult, findings_of_failure};
use crate::cli::{backups, start};
use crate::ledger::{Address, Error, LastBackup, LedgerReader};
use crate::policy::File;

const CHECK: &str = "ledger";
const BACKUP: &str = "backup";
const BACK_UP: &str = "pgveil ledger backup DIRECTORY --every 1h --keep 48 --policy …";
/// Free bytes below which a ledger soon fails, and below which there is a warning.
const SPACE_LEAST: u64 = 100 << 20;
const SPACE_WANTED: u64 = 1 << 30;
/// A sync that takes longer makes each charge slow.
const SYNC_SLOW: Duration = Duration::from_millis(100);
const SYNCS: u32 = 5;
/// How far the newest debit may lie in the future: clocks of two proxies differ.
const AHEAD: Duration = Duration::from_secs(60);
/// A backup that is older is worth a warning.
const BACKUP_OLD: Duration = Duration::from_secs(86_400);

pub async fn all(file: &File, backups: Option<&Path>) -> Vec<CheckResult> {
    let address = match start::ledger(file) {
        Ok(address) => address,
        Err(failure) => return findings_of_failure(CHECK, failure, "name a ledger in the policy"),
    };
    let mut all = vec![witnesses(&address)];
    let path = address.file();
    if let Ok(Some(path)) = &path {
        all.extend(disk(path));
    }
    match path {
        Ok(Some(path)) if !is_ours(&path) => all.push(CheckResult::warn(
            CHECK,
            "the ledger belongs to another user, so it was not opened",
            "run this as the user that serves: sudo -u pgveil pgveil doctor …",
        )),
        Ok(_) => all.extend(check_open(file, address).await),
        Err(error) => all.push(CheckResult::fail(
            CHECK,
            error.to_string(),
            "mend ledger.url",
        )),
    }
    all.extend(backups.map(newest));
    all
}

/// Whether an older copy of the ledger would be noticed.
fn witnesses(address: &Address) -> CheckResult {
    let check = "witness";
    let near = address.witnesses.iter().any(|witness| witness.same_disk);
    match address.witnesses.len() {
        0 => CheckResult::warn(
            check,
            "there is none: at a start, an older copy of the ledger goes unnoticed",
            "ledger.witness in the policy, on another disk or server",
        ),
        _ if near => CheckResult::warn(
            check,
            "it may lie on the ledger's disk: whoever sets that back sets both back",
            "name a place on another disk or server, without same_disk",
        ),
        1 => CheckResult::ok(check, "there is one"),
        many => CheckResult::ok(check, format!("there are {many}")),
    }
}

/// Opens the ledger as `pgveil ledger verify` does: whole, and held against its witnesses.
async fn check_open(file: &File, address: Address) -> Vec<CheckResult> {
    let (owner, roles) = match start::accounts(&file.privacy, &file.roles) {
        Ok(accounts) => accounts,
        Err(failure) => {
            return findings_of_failure(CHECK, failure, "change the budgets in the policy");
        }
    };
    let ledger = match LedgerReader::open(address, owner, &roles).await {
        Ok(ledger) => ledger,
        Err(error @ Error::Missing { .. }) => {
            return vec![CheckResult::warn(
                CHECK,
                error.to_string(),
                "fine before the first `pgveil serve`, which makes it; else put it back",
            )];
        }
        Err(error @ Error::OlderFormat { .. }) => {
            let mend = "pgveil serve, once every older pgveil on this ledger was stopped";
            return vec![CheckResult::warn(CHECK, error.to_string(), mend)];
        }
        Err(error @ Error::HalfWritten { .. }) => {
            return vec![CheckResult::warn(CHECK, error.to_string(), "pgveil serve")];
        }
        Err(error) => {
            let mend = "see docs/ledger.md, older copies; `pgveil ledger show`";
            return vec![CheckResult::fail(CHECK, error.to_string(), mend)];
        }
    };
    let mut all = vec![match ledger.height().await {
        Ok(height) => CheckResult::ok(CHECK, format!("whole, with {} debits", height.debits)),
        Err(error) => CheckResult::fail(CHECK, error.to_string(), "pgveil ledger verify"),
    }];
    let mut newest = 0;
    for role in roles.iter().map(|role| role.name.as_str()) {
        if let Ok(entries) = ledger.history(role, 1).await {
            newest = entries
                .iter()
                .map(|entry| entry.microseconds)
                .fold(newest, i64::max);
        }
        if let Ok(balance) = ledger.balance(role).await {
            all.extend(account(role, balance.frozen, balance.closed));
        }
    }
    all.push(clock(newest, SystemTime::now()));
    all.extend(ledger.last_backup().map(last));
    all
}

fn account(role: &str, is_frozen: bool, is_closed: bool) -> Option<CheckResult> {
    let check = "accounts";
    if is_frozen {
        let mend = format!("pgveil budget unfreeze --role {role} --why …");
        return Some(CheckResult::warn(check, format!("{role} is frozen"), mend));
    }
    is_closed.then(|| {
        CheckResult::warn(
            check,
            format!("{role} was refused by the owner's total"),
            format!("raise privacy.budget, or pgveil budget grant --role {role} …"),
        )
    })
}

/// With a clock behind the ledger's no new period begins; with one ahead it begins too early.
fn clock(newest: i64, now: SystemTime) -> CheckResult {
    let since = now.duration_since(SystemTime::UNIX_EPOCH);
    let now = since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    });
    let allowed = i64::try_from(AHEAD.as_micros()).unwrap_or(i64::MAX);
    match newest.saturating_sub(now) > allowed {
        false => CheckResult::ok("clock", "not behind the ledger's newest debit"),
        true => CheckResult::fail(
            "clock",
            "this machine's clock is behind the ledger's newest debit",
            "set the clock: timedatectl set-ntp true",
        ),
    }
}

/// Space and speed of the disk of a ledger's file.
fn disk(ledger: &Path) -> Vec<CheckResult> {
    let folder = ledger.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        let found = format!(
            "directory {} of the ledger does not exist",
            folder.display()
        );
        let mend = format!(
            "install -d -m 0700 -o pgveil -g pgveil {}",
            folder.display()
        );
        return vec![CheckResult::fail("disk", found, mend)];
    }
    let mut all = Vec::new();
    if let Ok(found) = statvfs(folder) {
        all.push(space(found.f_bavail.saturating_mul(found.f_frsize)));
    }
    // Only a user who may write there can measure it.
    all.extend(sync_time(folder).map(sync));
    all
}

fn space(free: u64) -> CheckResult {
    let found = format!("{} MiB are free on the ledger's disk", free >> 20);
    let mend = "make room: a ledger that cannot be written charges nothing";
    match free {
        ..SPACE_LEAST => CheckResult::fail("disk", found, mend),
        SPACE_LEAST..SPACE_WANTED => CheckResult::warn("disk", found, mend),
        _ => CheckResult::ok("disk", found),
    }
}

fn sync(took: Duration) -> CheckResult {
    let found = format!("one sync takes {:.1} ms", took.as_secs_f64() * 1000.0);
    match took > SYNC_SLOW {
        false => CheckResult::ok("disk", found),
        true => CheckResult::warn(
            "disk",
            found,
            "each charge waits for one: use a faster disk",
        ),
    }
}

/// The median time of a few small writes until they are durable.
fn sync_time(folder: &Path) -> Option<Duration> {
    let path = folder.join(format!(".pgveil-doctor-{:x}", rand::random::<u64>()));
    let mut file = OpenFile::create_new(&path).ok()?;
    let times = measure_times(&mut file);
    let _ = std::fs::remove_file(&path);
    let mut times = times?;
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn measure_times(file: &mut OpenFile) -> Option<Vec<Duration>> {
    let one = |_| {
        let begun = Instant::now();
        file.write_all(&[0; 4096]).ok()?;
        file.sync_data().ok()?;
        Some(begun.elapsed())
    };
    (0..SYNCS).map(one).collect()
}

/// Whether this user owns the file. A missing file counts as owned.
fn is_ours(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(path).map_or(true, |found| found.uid() == own)
}

/// The age of the newest backup of `pgveil ledger backup --every`.
fn newest(folder: &Path) -> CheckResult {
    let found = backups::newest(folder).and_then(|path| {
        let made = std::fs::metadata(path).and_then(|found| found.modified());
        SystemTime::now().duration_since(made.ok()?).ok()
    });
    match found {
        None => CheckResult::warn(
            BACKUP,
            format!("there is none in {}", folder.display()),
            BACK_UP,
        ),
        Some(age) => check_age("the newest", age),
    }
}

/// The last backup that this ledger is known to have.
fn last(backup: LastBackup) -> CheckResult {
    let made = u64::try_from(backup.microseconds).unwrap_or_default();
    let made = SystemTime::UNIX_EPOCH + Duration::from_micros(made);
    let age = SystemTime::now().duration_since(made).unwrap_or_default();
    check_age(&format!("the last, {},", backup.copy), age)
}

fn check_age(which: &str, age: Duration) -> CheckResult {
    match age > BACKUP_OLD {
        true => {
            let hours = age.as_secs() / 3600;
            CheckResult::warn(BACKUP, format!("{which} is {hours} hours old"), BACK_UP)
        }
        false => CheckResult::ok(BACKUP, format!("{which} is {} min old", age.as_secs() / 60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn thresholds_hold() {
        for (free, state) in [
            (10 << 20, State::Fail),
            (500 << 20, State::Warn),
            (2 << 30, State::Ok),
        ] {
            assert_eq!(space(free).state, state);
        }
        assert_eq!(sync(Duration::from_millis(2)).state, State::Ok);
        assert_eq!(sync(Duration::from_millis(200)).state, State::Warn);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        assert_eq!(clock(0, now).state, State::Ok);
        assert_eq!(clock(1_030_000_000, now).state, State::Ok);
        assert_eq!(clock(1_090_000_000, now).state, State::Fail);
        assert_eq!(account("ann", false, false), None);
        assert_eq!(account("ann", true, false).unwrap().state, State::Warn);
        assert_eq!(account("ann", false, true).unwrap().state, State::Warn);
    }

    #[test]
    fn a_disk_is_tried_and_left_as_it_was() {
        let folder = Path::new("/tmp").join(format!("pgveil-disk-{:x}", rand::random::<u64>()));
        let ledger = folder.join("ledger.db");
        assert_eq!(disk(&ledger)[0].state, State::Fail);
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(disk(&ledger).len(), 2);
        assert_eq!(newest(&folder).state, State::Warn);
        std::fs::write(folder.join("ledger-20241124203000.pgvb"), "").unwrap();
        assert_eq!(newest(&folder).state, State::Ok);
        std::fs::remove_file(folder.join("ledger-20241124203000.pgvb")).unwrap();
        std::fs::remove_dir(&folder).unwrap();
    }
}
