//! The witness of a ledger: a small file, on another disk, that says how far the ledger has come.
//! A ledger that is behind its witness is an older copy, and is not opened.
//!
//! It is written and synced after each transaction that charged, and before anybody learns of the
//! charge. Two places in the file are written in turns, each with its checksum, so that a crash
//! leaves one whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::height::Height;
use super::rules::Rules;
use super::store::Row;
use crate::mechanism::Loss;

/// Bytes of a place: some thousands of accounts.
const PLACE: usize = 1 << 20;

/// Bytes that are read at a time: most lines are shorter. It divides a place.
const CHUNK: usize = 1 << 13;

/// What a witness has seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Testimony {
    pub(super) height: Height,
    pub(super) accounts: Vec<Sums>,
}

/// The lifetime's sums of an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) loss: Loss,
    pub(super) failures: i64,
}

/// A line of the file: what was seen, and when among all lines.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    number: u64,
    seen: Testimony,
}

/// An open witness.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    path: PathBuf,
}

impl Witness {
    /// Opens the file, or makes an empty one, readable by its owner only.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| failed(path, &error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// What it has seen; `None` of an empty one.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`], also where neither place is whole.
    pub(super) fn read(&self) -> Result<Option<Testimony>, Error> {
        self.locked(|| Ok(self.newest()?.map(|line| line.seen)))
    }

    /// Writes what was seen, durably, unless the file says as much already: other processes on the
    /// same ledger write too.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`], also where it is the witness of another ledger.
    pub(super) fn write(&self, seen: &Testimony) -> Result<(), Error> {
        self.locked(|| {
            let newest = self.newest()?;
            if let Some(known) = &newest {
                let (known, now) = (&known.seen.height, &seen.height);
                if (known.birth, known.generation) != (now.birth, now.generation) {
                    return Err(self.error("it is the witness of another ledger"));
                }
                if known.lacks(now).is_none() {
                    // Its writer may have ended before it was synced.
                    return self.synced();
                }
            }
            self.put(newest.map_or(1, |line| line.number + 1), seen)
        })
    }

    /// Writes what was seen whatever the file says: after a restoration.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`].
    pub(super) fn begin_anew(
        &self,
        before: Option<&Testimony>,
        seen: &Testimony,
    ) -> Result<(), Error> {
        self.locked(|| {
            let newest = self.newest()?;
            if newest.as_ref().map(|line| &line.seen) != before {
                return Err(self.error("somebody wrote it meanwhile; stop every proxy first"));
            }
            self.put(newest.map_or(1, |line| line.number + 1), seen)
        })
    }

    fn locked<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.file
            .lock()
            .map_err(|error| failed(&self.path, &error))?;
        if !self.has_its_name() {
            return Err(self.error("another file has its name now"));
        }
        let done = work();
        let unlocked = self.file.unlock();
        let done = done?;
        unlocked.map_err(|error| failed(&self.path, &error))?;
        Ok(done)
    }

    fn has_its_name(&self) -> bool {
        let named = std::fs::metadata(&self.path);
        let place = |found: std::fs::Metadata| (found.dev(), found.ino());
        match (named, self.file.metadata()) {
            (Ok(named), Ok(open)) => place(named) == place(open),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    fn synced(&self) -> Result<(), Error> {
        let synced = self.file.sync_all();
        synced.map_err(|error| failed(&self.path, &error))
    }

    fn put(&self, number: u64, seen: &Testimony) -> Result<(), Error> {
        let line = Line {
            number,
            seen: seen.clone(),
        };
        let text = serde_json::to_string(&line).map_err(|error| self.error(&error.to_string()))?;
        let text = format!("{} {text}\n", checksum(&text));
        if text.len() > PLACE {
            return Err(self.error("the ledger has too many accounts for it"));
        }
        let at = (number % 2) * PLACE as u64;
        self.file
            .write_all_at(text.as_bytes(), at)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| failed(&self.path, &error))
    }

    fn newest(&self) -> Result<Option<Line>, Error> {
        let failed = |error| failed(&self.path, &error);
        let places = [0, PLACE as u64].map(|at| self.place(at).map_err(failed));
        let mut newest: Option<Line> = None;
        for place in places {
            let found = line(&place?);
            newest = newest
                .into_iter()
                .chain(found)
                .max_by_key(|line| line.number);
        }
        let size = self.file.metadata().map_err(failed)?.len();
        if newest.is_none() && size > 0 {
            return Err(self.error("it is damaged"));
        }
        Ok(newest)
    }

    /// The bytes of a place up to the end of its line, or to where it was never written.
    fn place(&self, at: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut chunk = [0; CHUNK];
        while bytes.len() < PLACE {
            let read = match self.file.read_at(&mut chunk, at + bytes.len() as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            bytes.extend_from_slice(&chunk[..read]);
            if read == 0 || chunk[..read].iter().any(|byte| matches!(byte, b'\n' | 0)) {
                break;
            }
        }
        Ok(bytes)
    }

    fn error(&self, reason: &str) -> Error {
        Error::Witness {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Testimony {
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub(super) fn of(rules: &mut Rules, height: Height) -> Result<Self, Error> {
        let sql = "SELECT kind, name, spent_epsilon, spent_rho, spent_mu_squared, spent_delta, \
            failures FROM account ORDER BY id";
        let accounts = rules.store.query(sql, &[])?;
        let accounts = accounts.iter().map(Sums::of).collect::<Result<_, _>>()?;
        Ok(Self { height, accounts })
    }
}

impl Sums {
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            kind: row.text(0)?.to_owned(),
            name: row.text(1)?.to_owned(),
            loss: row.loss(2)?,
            failures: row.int(6)?,
        })
    }

    pub(super) fn is_role(&self, name: &str) -> bool {
        self.kind == "role" && self.name == name
    }
}

/// Whether both lie on one disk. The witness may not be there yet; its directory must.
///
/// # Errors
///
/// [`Error::Witness`].
pub(super) fn is_same_disk(ledger: &Path, witness: &Path) -> Result<bool, Error> {
    let directory = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    let disk = |path: &Path| std::fs::metadata(directory(path)).map(|found| found.dev());
    let of_witness = disk(witness).map_err(|error| failed(witness, &error))?;
    // A ledger without a directory is refused by its own name.
    Ok(disk(ledger).is_ok_and(|of_ledger| of_ledger == of_witness))
}

fn line(place: &[u8]) -> Option<Line> {
    let end = place.iter().position(|byte| *byte == b'\n')?;
    let text = std::str::from_utf8(&place[..end]).ok()?;
    let (sum, text) = text.split_once(' ')?;
    if sum != checksum(text) {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn checksum(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::Witness {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(debits: i64) -> Testimony {
        Testimony {
            height: Height {
                debits,
                ..Height::NONE
            },
            accounts: Vec::new(),
        }
    }

    #[test]
    fn the_highest_stays_and_a_torn_line_falls_back() {
        let path = Path::new("/tmp").join(format!("pgveil-witness-{:x}", rand::random::<u64>()));
        let witness = Witness::open(&path).unwrap();
        assert_eq!(witness.read().unwrap(), None);
        for (written, stays) in [(3, 3), (5, 5), (4, 5), (6, 6)] {
            witness.write(&seen(written)).unwrap();
            assert_eq!(witness.read().unwrap(), Some(seen(stays)));
        }
        let mut other = seen(9);
        other.height.generation = 2;
        assert!(witness.write(&other).is_err());
        assert!(witness.begin_anew(None, &other).is_err());
        witness.begin_anew(Some(&seen(6)), &other).unwrap();
        assert_eq!(witness.read().unwrap(), Some(other));
        // The newest line is torn: the one before it stands. Without both, nothing is taken for
        // true.
        let newest = witness.newest().unwrap().unwrap().number;
        witness
            .file
            .write_all_at(b"torn", (newest % 2) * PLACE as u64)
            .unwrap();
        assert_eq!(witness.read().unwrap(), Some(seen(6)));
        witness
            .file
            .write_all_at(b"torn", (newest + 1) % 2 * PLACE as u64)
            .unwrap();
        assert!(witness.read().is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
