//! The witness that is a file on another disk. Two places in it are written in turns, each with its
//! checksum, so that a crash leaves one whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Error, SeenWitness, Witness, WitnessReport, WitnessedHeight, is_news};

/// Bytes of a place: some thousands of accounts.
const PLACE: usize = 1 << 20;

/// Bytes that are read at a time: most lines are shorter. It divides a place.
const CHUNK: usize = 1 << 13;

/// A line of the file: a testimony, and its place among all lines.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    number: u64,
    seen: WitnessedHeight,
}

/// An open file.
#[derive(Debug)]
pub(super) struct WitnessFile {
    file: File,
    path: PathBuf,
}

impl WitnessFile {
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
            .map_err(|error| write_error(path, &error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Alone.
    fn lock_exclusively<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.under(self.file.lock(), work)
    }

    /// Together with others that read.
    fn lock_shared<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        self.under(self.file.lock_shared(), work)
    }

    fn under<T>(
        &self,
        locked: io::Result<()>,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        locked.map_err(|error| write_error(&self.path, &error))?;
        if !self.has_its_name() {
            return Err(self.error("another file has its name now"));
        }
        let done = work();
        let unlocked = self.file.unlock();
        let done = done?;
        unlocked.map_err(|error| write_error(&self.path, &error))?;
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

    fn sync(&self) -> Result<(), Error> {
        let synced = self.file.sync_all();
        synced.map_err(|error| write_error(&self.path, &error))
    }

    fn put(&self, number: u64, seen: &WitnessedHeight) -> Result<(), Error> {
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
            .map_err(|error| write_error(&self.path, &error))
    }

    /// The newest whole line, and whether anything was written at all.
    fn newest(&self) -> Result<(Option<Line>, bool), Error> {
        let failed = |error| write_error(&self.path, &error);
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
        Ok((newest, size > 0))
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
            witness: self.name(),
            reason: reason.to_owned(),
        }
    }
}

impl Witness for WitnessFile {
    fn name(&self) -> String {
        format!("{:?}", self.path)
    }

    fn read(&mut self) -> Result<WitnessReport, Error> {
        self.lock_shared(|| Ok(report_of(self.newest()?)))
    }

    fn write(&mut self, now: &WitnessedHeight) -> Result<(), Error> {
        self.lock_exclusively(|| {
            let newest = self.newest()?.0;
            let known = newest.as_ref().map(|line| &line.seen);
            match is_news(known, now).map_err(|reason| self.error(reason))? {
                // Its writer may have ended before it was synced.
                false => self.sync(),
                true => self.put(newest.map_or(1, |line| line.number + 1), now),
            }
        })
    }

    fn begin_anew(&mut self, before: &WitnessReport, now: &WitnessedHeight) -> Result<(), Error> {
        self.lock_exclusively(|| {
            let (newest, is_written) = self.newest()?;
            let number = newest.as_ref().map_or(1, |line| line.number + 1);
            if report_of((newest, is_written)) != *before {
                return Err(self.error("somebody wrote it meanwhile; stop every proxy first"));
            }
            self.put(number, now)
        })
    }
}

/// What a file has seen, without making it.
///
/// # Errors
///
/// [`Error::Witness`].
pub(super) fn look(path: &Path) -> Result<SeenWitness, Error> {
    let report = match File::open(path) {
        Ok(file) => {
            let path = path.to_owned();
            WitnessFile { file, path }.read()?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => WitnessReport::Nothing,
        Err(error) => return Err(write_error(path, &error)),
    };
    Ok(SeenWitness {
        name: format!("{path:?}"),
        report,
        cluster: None,
    })
}

fn report_of((newest, is_written): (Option<Line>, bool)) -> WitnessReport {
    match (newest, is_written) {
        (Some(line), _) => WitnessReport::Whole(Box::new(line.seen)),
        (None, true) => WitnessReport::Damaged,
        (None, false) => WitnessReport::Nothing,
    }
}

/// Whether both lie on one disk. The witness may not be there yet; its directory must.
///
/// # Errors
///
/// [`Error::Witness`].
pub(in crate::ledger) fn is_same_disk(ledger: &Path, witness: &Path) -> Result<bool, Error> {
    let directory = |path: &Path| path.parent().unwrap_or(Path::new("/")).to_owned();
    let disk = |path: &Path| std::fs::metadata(directory(path)).map(|found| found.dev());
    let of_witness = disk(witness).map_err(|error| write_error(witness, &error))?;
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

fn write_error(path: &Path, error: &io::Error) -> Error {
    Error::Witness {
        witness: format!("{path:?}"),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::height::LedgerHeight;

    fn at(debits: i64) -> WitnessedHeight {
        WitnessedHeight {
            height: LedgerHeight {
                debits,
                ..LedgerHeight::NONE
            },
            accounts: Vec::new(),
        }
    }

    fn whole(seen: &WitnessedHeight) -> WitnessReport {
        WitnessReport::Whole(Box::new(seen.clone()))
    }

    #[test]
    fn the_highest_stays_and_a_torn_line_falls_back() {
        let path = Path::new("/tmp").join(format!("pgveil-witness-{:x}", rand::random::<u64>()));
        let mut witness = WitnessFile::open(&path).unwrap();
        assert_eq!(witness.read().unwrap(), WitnessReport::Nothing);
        for (written, stays) in [(3, 3), (5, 5), (4, 5), (6, 6)] {
            witness.write(&at(written)).unwrap();
            assert_eq!(witness.read().unwrap(), whole(&at(stays)));
        }
        let mut other = at(9);
        other.height.generation = 2;
        assert!(witness.write(&other).is_err());
        assert!(witness.begin_anew(&WitnessReport::Nothing, &other).is_err());
        witness.begin_anew(&whole(&at(6)), &other).unwrap();
        assert_eq!(witness.read().unwrap(), whole(&other));
        // The newest line is torn: the one before it stands. Without both, nothing is taken for
        // true.
        let newest = witness.newest().unwrap().0.unwrap().number;
        witness
            .file
            .write_all_at(b"torn", (newest % 2) * PLACE as u64)
            .unwrap();
        assert_eq!(witness.read().unwrap(), whole(&at(6)));
        witness
            .file
            .write_all_at(b"torn", (newest + 1) % 2 * PLACE as u64)
            .unwrap();
        assert_eq!(witness.read().unwrap(), WitnessReport::Damaged);
        // A restoration starts the witness again.
        witness.begin_anew(&WitnessReport::Damaged, &at(1)).unwrap();
        assert_eq!(witness.read().unwrap(), whole(&at(1)));
        std::fs::remove_file(&path).unwrap();
    }
}
