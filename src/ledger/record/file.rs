//! The record as lines of JSON in a file, in addition to the ledger: for programs that collect logs.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::{Record, json};

/// A file that lines are appended to.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The last line was not written to its end.
    torn: bool,
}

impl RecordFile {
    /// Opens the file for appending, or makes it, readable by its owner alone.
    ///
    /// # Errors
    /// Those of the file system; a file that is not a regular one.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            open: Mutex::new(open(path)?),
        })
    }

    /// Opens the file of that name anew, as programs that rotate logs ask for. On an error the old
    /// one is written on.
    ///
    /// # Errors
    /// As [`RecordFile::open`].
    pub fn reopen(&self) -> io::Result<()> {
        let anew = open(&self.path)?;
        *self.lock() = anew;
        Ok(())
    }

    /// Appends the lines of records, each with its number in the ledger, where it has one.
    pub(super) fn append(&self, numbers: &[i64], records: &[Record]) {
        let mut lines = String::new();
        for (at, record) in records.iter().enumerate() {
            lines += &json(numbers.get(at).copied(), record).to_string();
            lines.push('\n');
        }
        let mut open = self.lock();
        let begin = if open.torn { "\n" } else { "" };
        let written = open
            .file
            .write_all(begin.as_bytes())
            .and_then(|()| open.file.write_all(lines.as_bytes()));
        open.torn = written.is_err();
        if let Err(error) = written {
            tracing::error!(
                path = %self.path.display(),
                %error,
                lost = records.len(),
                "records were not written to the file; the ledger has them"
            );
        }
    }

    /// A panic leaves at most a torn line.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(path: &Path) -> io::Result<Open> {
    // A link could lead elsewhere; without NONBLOCK a pipe would wait for its reader.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(Open { file, torn: false })
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Origin};
    use super::*;

    fn login(name: &str) -> Record {
        Record::now(name, 0, Origin::default(), Event::Login)
    }

    #[test]
    fn a_file_that_was_rotated_is_opened_anew() {
        let folder = std::env::temp_dir().join(format!("pgveil-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let (path, old) = (folder.join("record.jsonl"), folder.join("record.jsonl.1"));
        let file = RecordFile::open(&path).unwrap();
        file.append(&[1], &[login("ann")]);
        std::fs::rename(&path, &old).unwrap();
        file.append(&[2], &[login("bob")]);
        file.reopen().unwrap();
        file.append(&[], &[login("eve")]);
        let names = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.lines()
                .map(|line| {
                    let line: serde_json::Value = serde_json::from_str(line).unwrap();
                    format!("{} {}", line["role"], line["number"])
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&old), ["\"ann\" 1", "\"bob\" 2"]);
        assert_eq!(names(&path), ["\"eve\" null"]);
        // Neither a link nor a folder is written to.
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(RecordFile::open(&link).is_err() && RecordFile::open(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
