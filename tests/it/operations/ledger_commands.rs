//! `pgveil ledger` as a command: what it prints, how it exits, what it leaves as it was; and the
//! start of a newer pgveil on the ledger of an older one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pgveil::ledger::{Address, Fingerprint, Ledger};
use pgveil::mechanism::{Mu, loss_gaussian};
use pgveil::policy::File;

use super::serve::Running;
use super::stage::{PGVEIL, Stage};
use crate::fixture::TemporaryDirectory;
use crate::ledger::to_format;

/// How long a command may take on a busy machine.
const WAIT: Duration = Duration::from_secs(120);

/// The demo's policy with a ledger and a witness in a separate directory.
struct Books {
    folder: TemporaryDirectory,
}

impl Books {
    fn new() -> Self {
        let folder = TemporaryDirectory::new("books");
        let policy = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let url = policy
            .lines()
            .find(|line| line.trim().starts_with("url: ${PGVEIL_LEDGER}"));
        let witnessed = format!(
            "  url: sqlite://{0}/ledger.db\n  witness: file://{0}/witness\n  same_disk: true",
            folder.0.display()
        );
        let policy = policy.replace(url.unwrap(), &witnessed);
        std::fs::write(folder.0.join("policy.yaml"), policy).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PGVEIL);
        command
            .args(arguments)
            .arg("--policy")
            .arg(self.path("policy.yaml"))
            .env("DATABASE_URL", "postgres://nowhere.invalid/nls")
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
        command
    }

    /// The output of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The output of a command that must fail with these words.
    fn failed(&self, arguments: &[&str], words: &str) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(arguments).output().unwrap();
        let reported = String::from_utf8(stderr).unwrap();
        assert!(
            status.code() == Some(1) && reported.contains(words),
            "{arguments:?}: {reported}"
        );
        String::from_utf8(stdout).unwrap()
    }

    /// The value of a line of `ledger show`.
    fn value(shown: &str, what: &str) -> String {
        let line = shown.lines().find(|line| line.starts_with(what));
        let line = line.unwrap_or_else(|| panic!("{what}: {shown}"));
        line[what.len()..].trim().to_owned()
    }

    fn ledger(&self) -> Vec<u8> {
        std::fs::read(self.path("ledger.db")).unwrap()
    }

    async fn charge(&self) {
        let text = std::fs::read_to_string(self.path("policy.yaml")).unwrap();
        let url = |_: &str| Some("postgres://nowhere.invalid/nls".to_owned());
        let file = File::parse("policy.yaml", &text, url).unwrap();
        let (owner, roles) = pgveil::cli::start::accounts(&file.privacy, &file.roles)
            .unwrap_or_else(|_| panic!("accounts"));
        let at = Address {
            url: file.ledger_url.unwrap(),
            witnesses: file.ledger_witnesses,
        };
        let ledger = Ledger::open(at, owner, &roles).await.unwrap();
        let loss = loss_gaussian(Mu::round_down(0.1));
        let charged = ledger.debit("analyst", loss, Fingerprint::new([7; 32]));
        drop(charged.await.unwrap());
        ledger.flush().await;
    }
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_is_shown_verified_and_attested() {
    let books = Books::new();
    for question in ["show", "verify", "attest"] {
        books.failed(&["ledger", question], "there is no ledger");
    }
    books.charge().await;
    let before = (
        books.ledger(),
        std::fs::read(books.path("witness")).unwrap(),
    );
    let shown = books.done(&["ledger", "show"]);
    for (what, value) in [
        ("format", "10"),
        ("restored", "0 times"),
        ("debits", "1"),
        ("receipts", "0"),
        ("decisions", "0"),
        ("failed queries", "0"),
        ("last backup", "none is known"),
    ] {
        assert_eq!(Books::value(&shown, what), value, "{shown}");
    }
    assert_eq!(Books::value(&shown, "identity").len(), 32);
    let witness = Books::value(&shown, "witness");
    assert!(
        witness.ends_with("the ledger lacks nothing that it saw"),
        "{witness}"
    );
    let verified = books.done(&["ledger", "verify"]);
    assert_eq!(
        verified,
        "whole: 1 debits, 0 receipts, 0 decisions, each sum that of its debits\n"
    );
    let after = (
        books.ledger(),
        std::fs::read(books.path("witness")).unwrap(),
    );
    assert!(before == after, "who looks writes nothing");

    // A witness that was lost knows nothing, until the owner says that this is the newest ledger.
    std::fs::remove_file(books.path("witness")).unwrap();
    books.failed(&["ledger", "verify"], "pgveil ledger attest");
    let shown = books.failed(&["ledger", "show"], "pgveil ledger attest");
    assert!(
        Books::value(&shown, "witness").ends_with("it is empty"),
        "{shown}"
    );
    assert!(!books.path("witness").exists());
    let attested = books.done(&["ledger", "attest"]);
    assert_eq!(attested, "1 witnesses say how far the ledger has come\n");
    books.done(&["ledger", "verify"]);

    // An older copy is shown for what it is, and settled by a restoration alone.
    let copy = books.ledger();
    books.charge().await;
    std::fs::write(books.path("ledger.db"), &copy).unwrap();
    books.failed(&["ledger", "verify"], "1 debits are missing");
    books.failed(&["ledger", "attest"], "1 debits are missing");
    let shown = books.failed(&["ledger", "show"], "1 debits are missing");
    let witness = Books::value(&shown, "witness");
    assert!(
        witness.ends_with("it saw more: 1 debits are missing"),
        "{witness}"
    );
    assert!(books.ledger() == copy);
    let restored = books.done(&["ledger", "restore", "--why", "a test"]);
    assert!(restored.contains("the witness said"), "{restored}");
    let shown = books.done(&["ledger", "show"]);
    assert_eq!(Books::value(&shown, "restored"), "1 times");
}

/// A command that only reads a ledger of an old format leaves it as it is, and names the command
/// that upgrades it.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_ledger_is_left_with_what_to_do() {
    let books = Books::new();
    books.charge().await;
    let file = rusqlite::Connection::open(books.path("ledger.db")).unwrap();
    file.execute_batch(&to_format(7)).unwrap();
    drop(file);
    let before = books.ledger();
    for question in [["budget", "show"], ["budget", "history"]] {
        books.failed(&question, "Start `pgveil serve` with this policy once");
    }
    let shown = books.done(&["ledger", "show"]);
    assert!(
        Books::value(&shown, "format").starts_with("7; `pgveil serve`"),
        "{shown}"
    );
    assert!(books.ledger() == before);
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_made_one_by_one_and_in_series() {
    let books = Books::new();
    books.charge().await;
    let before = books.ledger();
    let copy = books.path("one.pgvb").display().to_string();
    let made = books.done(&["ledger", "backup", &copy]);
    assert_eq!(made, format!("backed up to {copy}\n"));
    books.failed(&["ledger", "backup", &copy], "move it away first");
    let shown = books.done(&["ledger", "show"]);
    let last = Books::value(&shown, "last backup");
    assert!(last.ends_with(&format!("Z, {copy}")), "{last}");

    // The oldest of the series go. Other files stay.
    let series = books.path("series");
    std::fs::create_dir(&series).unwrap();
    let old = ["ledger-20200101000000.pgvb", "ledger-20200102000000.pgvb"];
    for name in old.into_iter().chain(["ledger-before.pgvb"]) {
        std::fs::write(series.join(name), "").unwrap();
    }
    let folder = series.display().to_string();
    books.done(&["ledger", "backup", &folder, "--keep", "2"]);
    let kept = names(&series);
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert_eq!(kept[0], old[1]);
    assert_eq!(kept[2], "ledger-before.pgvb");
    let last = Books::value(&books.done(&["ledger", "show"]), "last backup");
    assert!(last.ends_with(&kept[1]), "{last}");

    // One after another until a signal comes.
    let every = books.path("every");
    std::fs::create_dir(&every).unwrap();
    let folder = every.display().to_string();
    let mut command = books.command(&["ledger", "backup", &folder, "--every", "1s"]);
    let mut running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    let is_backup = |name: &String| name.ends_with(".pgvb");
    while names(&every).iter().filter(|name| is_backup(name)).count() < 2 {
        assert!(begun.elapsed() < WAIT, "{:?}", names(&every));
        assert!(running.0.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(100));
    }
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    assert!(
        books.ledger() == before,
        "a backup writes nothing to the ledger"
    );
    for wrong in [["--keep", "0"], ["--every", "soon"]] {
        let arguments = [&["ledger", "backup", folder.as_str()], &wrong[..]].concat();
        let output = books.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// An older pgveil that is making an answer could not open the ledger again.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_pgveil_asks_before_it_takes_a_ledger_that_is_in_use() {
    let stage = Stage::new().await;
    let listen = ["--listen", "127.0.0.1:0"];
    let mut running = stage.serve("first", &listen);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("first"));
    running.signal("-TERM");
    assert_eq!(stage.reported(), "STOPPING=1");
    assert!(running.0.wait().unwrap().success());
    let file = rusqlite::Connection::open(stage.file("ledger.db")).unwrap();
    file.busy_timeout(WAIT).unwrap();
    let older = to_format(8);
    file.execute_batch(&older).unwrap();
    let format = || file.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0));
    let claims = Claims::of(stage.file("ledger.db"));
    let mut refused = stage.serve("refused", &listen);
    assert!(!refused.0.wait().unwrap().success());
    let log = stage.log("refused");
    assert!(log.contains("waiting for as long as the claims"), "{log}");
    assert!(log.contains("serve --migrate"), "{log}");
    assert_eq!(format().unwrap(), 8);
    let mut running = stage.serve("second", &[&listen[..], &["--migrate"]].concat());
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("second"));
    assert_eq!(format().unwrap(), 10);
    drop(claims);
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
}

/// Another process that is making an answer: it renews its claim as long as this lives.
struct Claims {
    is_over: Arc<AtomicBool>,
    renewing: Option<JoinHandle<()>>,
}

impl Claims {
    fn of(ledger: PathBuf) -> Self {
        let file = rusqlite::Connection::open(ledger).unwrap();
        file.busy_timeout(WAIT).unwrap();
        let claim = move || {
            let sql = "INSERT OR REPLACE INTO claim VALUES (zeroblob(32), zeroblob(16), ?1)";
            file.execute(sql, [pgveil::ledger::now() + 15_000_000])
                .unwrap();
        };
        claim();
        let is_over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&is_over);
        let renewing = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                claim();
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Self {
            is_over,
            renewing: Some(renewing),
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.renewing.take().map(JoinHandle::join);
    }
}
