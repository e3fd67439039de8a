//! The ledger's file before SQLite sees it: its name, its atomic creation, and the refusal of files
//! that are not ours.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Error;
use super::schema::FORMAT;

/// "pgvl" in SQLite's application_id: this file is a pgveil ledger.
pub(super) const APPLICATION_ID: u32 = 0x7067_766c;

/// "pgvb": this file is a backup of one, and opened by `pgveil ledger restore` alone.
pub(super) const BACKUP_ID: u32 = 0x7067_7662;

const HEADER_SIZE: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The absolute path in `sqlite:///path` (or a bare path).
///
/// # Errors
///
/// [`Error::Url`] for another scheme, an empty path or a query string.
pub(in crate::ledger) fn path(url: &str) -> Result<PathBuf, Error> {
    let refused = || Error::Url { url: redact(url) };
    let path = match url.split_once("://") {
        Some(("sqlite", path)) => path,
        Some(_) => return Err(refused()),
        None => url,
    };
    if path.is_empty() || path.ends_with('/') || path.contains(['?', '\0']) {
        return Err(refused());
    }
    // Absolute, so that SQLite never reads a meaning into names such as `:memory:`.
    Ok(std::path::absolute(path)?)
}

/// A URL of another scheme may hold a password: only its scheme is shown.
fn redact(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, _)) if scheme != "sqlite" => format!("{scheme}://…"),
        _ => url.to_owned(),
    }
}

/// The directory of a file, which is the current one for a bare name.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

/// Creates the file with `build` if it is missing: under another name first, then linked in, so
/// that no reader ever meets a half-made ledger and no existing file is overwritten.
///
/// # Errors
///
/// [`Error::NoDirectory`]; [`Error::Leftover`] if a journal of an earlier ledger lies next to the
/// missing file; [`Error::File`]; those of `build`.
pub(super) fn create_if_missing(
    path: &Path,
    build: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let directory = directory_of(path);
    if !directory.is_dir() {
        return Err(Error::NoDirectory {
            directory: directory.to_owned(),
        });
    }
    for suffix in ["-journal", "-wal", "-shm"] {
        let leftover = with_suffix(path, suffix);
        // Another process may have made the ledger, journal and all, since we looked.
        if leftover.symlink_metadata().is_ok() && path.symlink_metadata().is_err() {
            return Err(Error::Leftover {
                path: path.to_owned(),
                leftover,
            });
        }
    }
    let draft = with_suffix(path, &format!(".{:016x}.new", rand::random::<u64>()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(Error::from)
        .and_then(|_| {
            build(&draft)?;
            File::open(&draft)?.sync_all()?;
            match fs::hard_link(&draft, path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
                // Another process was faster: its ledger is the ledger.
                Ok(()) | Err(_) => Ok(()),
            }
        });
    let removed = fs::remove_file(&draft);
    made?;
    removed?;
    File::open(directory)?.sync_all()?;
    Ok(())
}

/// Refuses a file that does not begin like a ledger that this program knows. Reads only.
///
/// # Errors
///
/// [`Error::Foreign`], [`Error::Newer`], [`Error::Damaged`] for a file that is too short,
/// [`Error::File`].
pub(super) fn check_header(path: &Path) -> Result<(), Error> {
    check(path, APPLICATION_ID)
}

/// Checks the header of a backup of a ledger.
///
/// # Errors
///
/// As [`check_header`].
pub(super) fn check_backup(path: &Path) -> Result<(), Error> {
    check(path, BACKUP_ID)
}

fn check(path: &Path, application: u32) -> Result<(), Error> {
    let mut header = [0u8; HEADER_SIZE];
    match read_header(path, &mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Error::Damaged {
                ledger: format!("ledger {path:?}"),
                reason: "shorter than a header".to_owned(),
            });
        }
        other => other?,
    }
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let foreign = |reason: &str| {
        Err(Error::Foreign {
            ledger: format!("{path:?}"),
            reason: reason.to_owned(),
        })
    };
    if !header.starts_with(MAGIC) {
        return foreign("not an SQLite database");
    }
    match word(68) {
        found if found == application => {}
        BACKUP_ID => return foreign("a backup, of which `pgveil ledger restore` makes a ledger"),
        APPLICATION_ID => return foreign("a ledger, not a backup of one"),
        _ => return foreign("an SQLite database of another application"),
    }
    match word(60) {
        1..=FORMAT => {}
        0 => return foreign("it has no format version"),
        found => {
            return Err(Error::Newer {
                ledger: format!("ledger {path:?}"),
                found: i64::from(found),
                known: i64::from(FORMAT),
            });
        }
    }
    // Write-ahead logging keeps commits outside the file, where a copy misses them. Ours never has
    // it.
    if header[18..20] != [1, 1] {
        return foreign(
            "it was switched to write-ahead logging; close whatever did and run pragma \
                journal_mode \
                = delete on it",
        );
    }
    Ok(())
}

/// Device and inode of the file of that name.
///
/// # Errors
///
/// [`Error::File`].
pub(super) fn place(path: &Path) -> Result<(u64, u64), Error> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Files whose header was read, by device and inode. They stay open: closing any descriptor of a
/// file drops every POSIX lock this process has on it, and with them SQLite's. One descriptor a
/// ledger, however often it is opened.
static READ: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());

fn read_header(path: &Path, header: &mut [u8]) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the ledger is not a regular file",
        ));
    }
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (metadata.dev(), metadata.ino());
    if let Some(file) = read.get(&key) {
        return file.read_exact_at(header, 0);
    }
    let file = File::open(path)?;
    let result = file.read_exact_at(header, 0);
    let metadata = file.metadata()?;
    read.insert((metadata.dev(), metadata.ino()), file);
    result
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_names_an_absolute_path() {
        assert_eq!(
            path("sqlite:///var/lib/pgveil/ledger.db").unwrap(),
            Path::new("/var/lib/pgveil/ledger.db")
        );
        assert!(path("ledger.db").unwrap().is_absolute());
        for url in [
            "sqlite://",
            "sqlite:///a/",
            "sqlite:///a?mode=ro",
            "file:///a",
        ] {
            assert!(matches!(path(url), Err(Error::Url { .. })), "{url}");
        }
    }

    #[test]
    fn a_bare_name_is_in_the_current_directory() {
        for (path, directory) in [("copy.db", "."), ("a/copy.db", "a"), ("/copy.db", "/")] {
            assert_eq!(directory_of(Path::new(path)), Path::new(directory));
        }
    }

    #[test]
    fn password_in_a_url_is_not_shown() {
        let error = path("postgres://user:secret@host/db")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
