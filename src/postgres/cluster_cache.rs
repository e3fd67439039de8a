//! Stopped clusters that are kept between runs, so that the next run neither runs initdb nor loads.
//!
//! They are for data that anyone may read: the demo's. A kept cluster is never changed: it appears
//! by one rename, and goes as a whole. Nothing is synced to disk: after a power cut a cluster may
//! be broken, so whoever takes one checks it.

use std::fs::Metadata;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::binaries::{PostgresSource, find};
use super::temporary_directory::{User, unprivileged_user};

/// The environment variable that names the directory of kept clusters, or says `off`.
pub const CACHE_VARIABLE: &str = "PGVEIL_CACHE";

/// Raise it when the layout of kept clusters changes.
const LAYOUT: &str = "2";
/// The file that the watchdog puts first into a kept cluster. Without it nothing is removed.
const MARKER: &str = "pgveil-kept";
/// The directory below the one that is named. Everything that is kept lies there.
const SUBDIRECTORY: &str = "pgveil";
/// The digits of a name: a digest of 16 bytes.
const NAME_DIGITS: usize = 32;
/// A draft of this age is one of a watchdog that was killed.
const DRAFT_AGE: Duration = Duration::from_secs(3600);

/// The place of two clusters: an empty one, and one that has been loaded.
#[derive(Debug, Clone)]
pub struct KeptClusters {
    path: PathBuf,
}

impl KeptClusters {
    /// The place for what was loaded from `content`, by this pgveil and this machine's binaries.
    /// `None` where there is no directory for it that is ours alone, or no binaries.
    pub fn of(content: &[&[u8]]) -> Option<Self> {
        let Ok(PostgresSource::Directory(binaries)) = find() else {
            return None;
        };
        let server = std::process::Command::new(binaries.join("postgres"))
            .arg("--version")
            .output()
            .ok()?;
        let mut digest = Sha256::new();
        let facts = [
            LAYOUT.as_bytes(),
            env!("CARGO_PKG_VERSION").as_bytes(),
            binaries.as_os_str().as_encoded_bytes(),
            &server.stdout,
        ];
        for part in facts.iter().chain(content) {
            digest.update(part.len().to_be_bytes());
            digest.update(part);
        }
        let name: String = digest.finalize()[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let user = unprivileged_user().ok()?;
        let directory = directory(user)?;
        Some(Self {
            path: directory.join(name),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A cluster on which no server has run, and the one that was loaded.
    pub fn clusters(&self) -> Option<(PathBuf, PathBuf)> {
        Some((self.cluster("empty")?, self.cluster("loaded")?))
    }

    fn cluster(&self, name: &str) -> Option<PathBuf> {
        let path = self.path.join(name);
        path.join("PG_VERSION").is_file().then_some(path)
    }

    /// Removes what other versions or other data left, and drafts of killed watchdogs. Whatever is
    /// not plainly ours stays.
    pub fn discard_others(&self) {
        let Some(entries) = self.path.parent().and_then(|all| all.read_dir().ok()) else {
            return;
        };
        for other in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if other == self.path || !is_discarded(&other) {
                continue;
            }
            if let Err(error) = std::fs::remove_dir_all(&other) {
                tracing::debug!(kind = ?error.kind(), "a kept cluster could not be removed");
            }
        }
    }
}

/// Whether a directory is a kept cluster, or an old draft of one.
fn is_discarded(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let is_name = |name: &str| {
        name.len() == NAME_DIGITS && name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_file =
        |part: &str| std::fs::symlink_metadata(path.join(part)).is_ok_and(|found| found.is_file());
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return false;
    };
    if !found.is_dir() || !is_file(MARKER) {
        return false;
    }
    match name.split_once('.') {
        None => is_name(name) && is_file("loaded/PG_VERSION"),
        // Another process may be writing a young draft.
        Some((of, process)) => {
            let is_old = found
                .modified()
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > DRAFT_AGE));
            is_name(of) && process.parse::<u32>().is_ok() && is_old
        }
    }
}

/// The directory of kept clusters. Anybody who may write there becomes the server's user, so it
/// must belong to that user, and nobody else may write, there or above.
fn directory(user: Option<User>) -> Option<PathBuf> {
    let wanted = std::env::var_os(CACHE_VARIABLE);
    let above = match wanted {
        Some(value) if value == "off" || value.is_empty() => return None,
        Some(value) => PathBuf::from(value),
        // The server's user has no home that root could write for it.
        None if user.is_some() => PathBuf::from("/var/cache"),
        None => std::env::var_os("XDG_CACHE_HOME")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?,
    };
    if !above.is_absolute() {
        return None;
    }
    let owner = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let others_write = |found: &Metadata| found.mode() & 0o022 != 0;
    make(&above, user)?;
    let found = std::fs::metadata(&above).ok()?;
    let is_sticky = found.mode() & 0o1000 != 0;
    let is_safe = [0, owner].contains(&found.uid()) && (is_sticky || !others_write(&found));
    if !is_safe {
        return None;
    }
    let path = above.join(SUBDIRECTORY);
    make(&path, user)?;
    let found = std::fs::symlink_metadata(&path).ok()?;
    let is_ours = found.is_dir() && found.uid() == owner && !others_write(&found);
    is_ours.then_some(path)
}

/// Makes a directory that is not there, and gives it to the server's user.
fn make(path: &Path, user: Option<User>) -> Option<()> {
    if std::fs::symlink_metadata(path).is_ok() {
        return Some(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .ok()?;
    match user {
        Some(user) => lchown(path, Some(user.uid), Some(user.gid)).ok(),
        None => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marker, the name and the cluster must all be there; a draft must be old.
    #[test]
    fn only_what_is_plainly_ours_is_discarded() {
        let all = folder();
        let name = "0123456789abcdef0123456789abcdef";
        let old = std::time::SystemTime::now() - 2 * DRAFT_AGE;
        let wanted = [
            (name.to_owned(), "loaded/PG_VERSION", true, true),
            (name.to_owned() + "0", "loaded/PG_VERSION", true, false),
            (name.to_uppercase(), "loaded/PG_VERSION", true, false),
            (name.replace('0', "1"), "loaded/PG_VERSION", false, false),
            (name.replace('0', "2"), "PG_VERSION", true, false),
            (".ssh".to_owned(), "loaded/PG_VERSION", true, false),
            (format!("{name}.77"), "empty/PG_VERSION", true, true),
            (format!("{name}.78"), "empty/PG_VERSION", false, false),
            (format!("{name}.txt"), "empty/PG_VERSION", true, false),
        ];
        for (name, file, is_marked, is_ours) in &wanted {
            let path = all.join(name);
            std::fs::create_dir_all(path.join(file).parent().unwrap()).unwrap();
            std::fs::write(path.join(file), "15").unwrap();
            if *is_marked {
                std::fs::write(path.join(MARKER), "").unwrap();
            }
            if name.contains('.') {
                assert!(!is_discarded(&path), "{name} is young");
                let opened = std::fs::File::open(&path).unwrap();
                opened.set_modified(old).unwrap();
            }
            assert_eq!(is_discarded(&path), *is_ours, "{name}");
        }
        let link = all.join(name.replace('0', "3"));
        std::os::unix::fs::symlink(all.join(name), &link).unwrap();
        assert!(!is_discarded(&link));
        std::fs::remove_dir_all(&all).unwrap();
    }

    fn folder() -> PathBuf {
        let path = std::env::temp_dir().join(format!("pgveil-kept-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&path).unwrap();
        path
    }
}
