//! The record as lines of JSON in a file, in addition to the ledger: for programs that collect
//! logs. A separate thread writes them. Nobody waits for it: lines that do not fit its queue are
//! not written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::sync::{mpsc, oneshot};

/// Most lines that wait for the file; some 400 bytes each.
const QUEUE_MAX: usize = 8192;
/// How long an end of pgveil waits for the file.
const PATIENCE: Duration = Duration::from_secs(2);

enum Note {
    Line(String),
    /// Checks whether the file is to be reopened.
    Wake,
    /// Answered when all before it are written, or could not be.
    Flush(oneshot::Sender<()>),
}

/// A file that lines are appended to.
#[derive(Debug)]
pub struct RecordFile {
    notes: mpsc::Sender<Note>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    reopens: AtomicBool,
    /// Lines that found the queue full, since the thread last looked.
    refused: AtomicU64,
}

/// The file, as its thread has it.
struct Writer {
    path: PathBuf,
    file: File,
    /// The last line was not written to its end.
    is_torn: bool,
    /// Lines that were not written, since one last was.
    lost: u64,
    shared: Arc<Shared>,
}

impl RecordFile {
    /// Opens the file for appending, or makes it, readable by its owner alone. A named pipe must
    /// have a reader.
    ///
    /// # Errors
    /// Those of the file system; what is neither a regular file nor a named pipe.
    pub fn open(path: &Path) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (file, is_torn) = open(path)?;
        let writer = Writer {
            path: path.to_owned(),
            file,
            is_torn,
            lost: 0,
            shared: Arc::clone(&shared),
        };
        let (notes, queue) = mpsc::channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || writer.serve(queue))?;
        Ok(Self { notes, shared })
    }

    /// Reopens the file by its name, as programs that rotate logs request. If that fails, lines
    /// still go to the old file.
    pub fn reopen(&self) {
        self.shared.reopens.store(true, Ordering::Relaxed);
        // With a full queue the thread looks soon anyway.
        let _ = self.notes.try_send(Note::Wake);
    }

    /// Hands in a line. Never waits.
    pub(in crate::ledger) fn append(&self, line: &serde_json::Value) {
        let handed = self.notes.try_send(Note::Line(format!("{line}\n")));
        if handed.is_err() && self.shared.refused.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "the file of --record-to is too slow: records are left out of it; the ledger has \
                    them"
            );
        }
    }

    /// Returns once everything handed in before is written, or after a short time.
    pub(in crate::ledger) async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        let written = async {
            if self.notes.send(Note::Flush(flushed)).await.is_ok() {
                let _ = wait.await;
            }
        };
        if tokio::time::timeout(PATIENCE, written).await.is_err() {
            let waiting = QUEUE_MAX - self.notes.capacity();
            tracing::error!(
                waiting,
                "the file of --record-to is too slow: lines that wait may be missing in it; the \
                    ledger has them"
            );
        }
    }
}

impl Writer {
    fn serve(mut self, mut queue: mpsc::Receiver<Note>) {
        while let Some(note) = queue.blocking_recv() {
            if self.shared.reopens.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            match note {
                Note::Line(line) => {
                    self.write(&line);
                    // Logged once for a slow time, not once for each line.
                    if queue.len() < QUEUE_MAX / 2 {
                        self.log_lost();
                    }
                }
                Note::Wake => {}
                Note::Flush(flushed) => {
                    let _ = flushed.send(());
                }
            }
        }
    }

    fn reopen(&mut self) {
        match open(&self.path) {
            Ok((file, is_torn)) => (self.file, self.is_torn) = (file, is_torn),
            Err(error) => {
                tracing::error!(%error, "the file of --record-to is written on as it was");
            }
        }
    }

    fn write(&mut self, line: &str) {
        let begin: &[u8] = if self.is_torn { b"\n" } else { b"" };
        let written = self
            .file
            .write_all(begin)
            .and_then(|()| self.file.write_all(line.as_bytes()));
        self.is_torn = written.is_err();
        if let Err(error) = written {
            if self.lost == 0 {
                tracing::error!(
                    %error,
                    "records are not written to the file of --record-to; the ledger has them"
                );
            }
            self.lost += 1;
        }
    }

    /// Says how many lines are missing, once lines are written again.
    fn log_lost(&mut self) {
        if self.is_torn {
            return;
        }
        let lost = self.lost + self.shared.refused.swap(0, Ordering::Relaxed);
        self.lost = 0;
        if lost > 0 {
            tracing::warn!(lost, "the file of --record-to is written again");
        }
    }
}

/// The file, and whether its last line lacks its end: a line that is appended would continue it.
fn open(path: &Path) -> io::Result<(File, bool)> {
    // A link could lead elsewhere; without NONBLOCK a pipe would wait for its reader.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    let mut is_torn = false;
    if kind.is_fifo() {
        // The thread waits for a slow reader.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    } else if !kind.is_file() {
        return Err(io::Error::other(
            "it is neither a regular file nor a named pipe",
        ));
    } else if let Some(last) = metadata.len().checked_sub(1) {
        let mut byte = [0];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut byte, last));
        is_torn = read.is_err() || byte != *b"\n";
    }
    Ok((file, is_torn))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    fn line(number: usize) -> serde_json::Value {
        serde_json::json!({ "number": number, "filling": "x".repeat(400) })
    }

    fn numbers(text: &str) -> Vec<u64> {
        let number = |line: &str| -> u64 {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["number"].as_u64().unwrap()
        };
        text.lines().map(number).collect()
    }

    fn folder() -> PathBuf {
        let folder = Path::new("/tmp").join(format!("pgveil-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn a_file_that_was_rotated_is_opened_anew() {
        let folder = folder();
        let (path, old) = (folder.join("record.jsonl"), folder.join("record.jsonl.1"));
        let file = RecordFile::open(&path).unwrap();
        file.append(&line(1));
        file.flush().await;
        std::fs::rename(&path, &old).unwrap();
        file.append(&line(2));
        file.flush().await;
        file.reopen();
        file.append(&line(3));
        file.flush().await;
        let read = |path: &Path| numbers(&std::fs::read_to_string(path).unwrap());
        assert_eq!(read(&old), [1, 2]);
        assert_eq!(read(&path), [3]);
        // A line that a kill cut short is not continued.
        std::fs::write(&old, "{\"number\": 1").unwrap();
        let torn = RecordFile::open(&old).unwrap();
        torn.append(&line(4));
        torn.flush().await;
        let text = std::fs::read_to_string(&old).unwrap();
        assert_eq!(numbers(text.split_once('\n').unwrap().1), [4]);
        // Neither a link nor a folder is written to.
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(RecordFile::open(&link).is_err() && RecordFile::open(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_hangs_holds_nobody_up() {
        let folder = folder();
        let pipe = folder.join("pipe");
        let owner = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, owner, 0).unwrap();
        assert!(RecordFile::open(&pipe).is_err(), "nobody reads it");
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&pipe)
            .unwrap();
        let file = RecordFile::open(&pipe).unwrap();
        // More than the pipe and the queue hold together. This returns although nobody reads.
        let handed_in = 2 * QUEUE_MAX;
        for number in 0..handed_in {
            file.append(&line(number));
        }
        let refused = file.shared.refused.load(Ordering::Relaxed);
        assert!(refused > 0 && refused < QUEUE_MAX as u64, "{refused}");
        file.flush().await;
        // A reader that reads again gets whole lines, in order.
        drop(file);
        let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
        rustix::fs::fcntl_setfl(&reader, flags - OFlags::NONBLOCK).unwrap();
        let text: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
        let read = numbers(&text.join("\n"));
        assert_eq!(read.len() as u64, handed_in as u64 - refused);
        assert!(read.is_sorted());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
