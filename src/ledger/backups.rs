//! When a ledger in SQLite was last backed up: a small file next to it. A backup writes nothing to
//! the ledger itself.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::clock::Clock;

const SUFFIX: &str = ".last-backup";
/// How far a clock may step back without harm, in microseconds.
const STEP: i64 = 300_000_000;

/// The last backup of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBackup {
    /// When it was finished, in microseconds since 1970, by the machine's clock.
    pub microseconds: i64,
    /// The file that the backup was written to.
    pub copy: String,
    /// The identity of the ledger, which a restoration draws anew.
    birth: [u8; 16],
}

impl LastBackup {
    /// The last backup of the ledger with this file and identity; `None` if unknown. A backup dated
    /// in the future does not count: it would seem fresh for ever.
    pub(super) fn of(ledger: &Path, birth: [u8; 16]) -> Option<Self> {
        let text = fs::read_to_string(note_of(ledger)).ok()?;
        let last: Self = serde_json::from_str(&text).ok()?;
        let soon = Clock::system().now().saturating_add(STEP);
        (last.birth == birth && last.microseconds <= soon).then_some(last)
    }

    /// Notes that this ledger was copied just now.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub(super) fn note(ledger: &Path, birth: [u8; 16], copy: &Path) -> io::Result<()> {
        let last = Self {
            microseconds: Clock::system().now(),
            // Whoever reads it may be in another directory.
            copy: std::path::absolute(copy)?.display().to_string(),
            birth,
        };
        let draft = with_suffix(
            ledger,
            &format!("{SUFFIX}.{:016x}.new", rand::random::<u64>()),
        );
        let written = File::create_new(&draft).and_then(|mut file| {
            file.write_all(serde_json::to_string(&last)?.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, note_of(ledger))
        });
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

fn note_of(ledger: &Path) -> PathBuf {
    with_suffix(ledger, SUFFIX)
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
    fn a_backup_of_another_ledger_does_not_count() {
        let folder = Path::new("/tmp").join(format!("pgveil-last-{:x}", rand::random::<u64>()));
        fs::create_dir(&folder).unwrap();
        let ledger = folder.join("ledger.db");
        assert_eq!(LastBackup::of(&ledger, [1; 16]), None);
        for copy in ["/srv/one.pgvb", "/srv/two.pgvb"] {
            LastBackup::note(&ledger, [1; 16], Path::new(copy)).unwrap();
            assert_eq!(LastBackup::of(&ledger, [1; 16]).unwrap().copy, copy);
        }
        assert_eq!(LastBackup::of(&ledger, [2; 16]), None);
        // Whoever reads the note is elsewhere; and a clock that was wrong once.
        LastBackup::note(&ledger, [1; 16], Path::new("copy.pgvb")).unwrap();
        let last = LastBackup::of(&ledger, [1; 16]).unwrap();
        assert!(Path::new(&last.copy).is_absolute() && last.copy.ends_with("/copy.pgvb"));
        let later = LastBackup {
            microseconds: last.microseconds + 2 * STEP,
            ..last
        };
        fs::write(note_of(&ledger), serde_json::to_string(&later).unwrap()).unwrap();
        assert_eq!(LastBackup::of(&ledger, [1; 16]), None);
        fs::write(note_of(&ledger), "torn").unwrap();
        assert_eq!(LastBackup::of(&ledger, [1; 16]), None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no draft stays");
        fs::remove_dir_all(&folder).unwrap();
    }
}
