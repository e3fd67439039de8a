//! Stopped clusters that are kept between runs, so that the next run neither runs initdb nor loads.
//!
//! They are for data that anyone may read: the demo's. What is kept under a name is never changed:
//! it appears by one rename, and goes as a whole. Nothing is synced to disk: after a power cut a
//! cluster may be broken, so whoever takes one checks it.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::binaries::{Found, find};
use super::directory::{User, unprivileged};

/// The environment variable that names the directory of kept clusters, or says `off`.
pub const CACHE_VARIABLE: &str = "PGVEIL_CACHE";

/// Raised where the layout of what is kept changes.
const LAYOUT: &str = "1";

/// The place of two clusters: an empty one, and one that has been loaded.
#[derive(Debug, Clone)]
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    /// The place for what was loaded from `content`, by this pgveil and this machine's binaries.
    /// `None` where there is no directory for it that is ours alone, or no binaries.
    pub fn of(content: &[&[u8]]) -> Option<Self> {
        let Ok(Found::Directory(binaries)) = find() else {
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
        let user = unprivileged().ok()?;
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

    fn discard(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(kind = ?error.kind(), "a kept cluster could not be removed");
        }
    }

    /// Removes what other versions or other data left in the directory.
    pub fn discard_others(&self) {
        let Some(entries) = self.path.parent().and_then(|all| all.read_dir().ok()) else {
            return;
        };
        for other in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            // A draft has a dot in its name: another process may be writing it.
            if other != self.path && other.extension().is_none() {
                Self { path: other }.discard();
            }
        }
    }
}

/// The directory of kept clusters. Whoever may write there becomes the server's user, so it must
/// belong to that user, and nobody else may write.
fn directory(user: Option<User>) -> Option<PathBuf> {
    let wanted = std::env::var_os(CACHE_VARIABLE);
    let path = match wanted {
        Some(value) if value == "off" || value.is_empty() => return None,
        Some(value) => PathBuf::from(value),
        // The server's user has no home that root could write for it.
        None if user.is_some() => PathBuf::from("/var/cache/pgveil"),
        None => std::env::var_os("XDG_CACHE_HOME")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?
            .join("pgveil"),
    };
    if !path.is_absolute() {
        return None;
    }
    if std::fs::symlink_metadata(&path).is_err() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .ok()?;
        if let Some(user) = user {
            chown(&path, Some(user.uid), Some(user.gid)).ok()?;
        }
    }
    let found = std::fs::symlink_metadata(&path).ok()?;
    let owner = user.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
    let is_ours = found.is_dir() && found.uid() == owner && found.mode() & 0o022 == 0;
    is_ours.then_some(path)
}
