//! docs/tutorial.md, and docs/howto.md after it, block by block: its commands are run, psql asks
//! its SQL, and their output is the page's, except for numbers.
//!
//! `pgveil demo` and `pgveil serve` run until the next of them; a lone psql says where the SQL that
//! follows is asked. In a block of output `…` stands for any lines, and for the end of a line.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pgveil::postgres::{LocalPostgres, ServerOptions};

use super::serve::{Running, free_port};
use crate::clients::{install, stage};
use crate::fixture::TemporaryDirectory;

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

/// The fenced blocks: language and text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("\n```").skip(1).step_by(2);
    parts
        .map(|part| part.split_once('\n').expect("a block has lines"))
        .collect()
}

struct Reader {
    folder: TemporaryDirectory,
    /// Where the page's database server is, and where pgveil listens.
    ports: (u16, u16),
    serving: Option<Running>,
    /// The command that starts psql.
    psql: String,
}

impl Reader {
    /// With the ports of this test in place of the page's.
    fn moved(&self, text: &str) -> String {
        text.replace("localhost:5432", &format!("localhost:{}", self.ports.0))
            .replace("6432", &self.ports.1.to_string())
    }

    /// Runs lines of shell in the environment that the blocks before have left. The file is
    /// replaced as a whole, since a server that starts may be reading it.
    fn shell(&self, lines: &str) -> String {
        let script = format!(
            "exec 2>&1; set -a; [ -e environment ] && . ./environment\n{}\n\
             export -p > environment.new && mv environment.new environment",
            self.moved(lines)
        );
        let output = self.command("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, program: &str) -> Command {
        let programs = Path::new(PGVEIL).parent().unwrap().display().to_string();
        let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder.0)
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            .env("PGVEIL_CACHE", "off")
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Starts a server in place of the one before, and waits for its port.
    fn serve(&mut self, line: &str) {
        self.stop();
        let address = format!("--listen 127.0.0.1:{}", self.ports.1);
        let page = if line.starts_with("pgveil demo") {
            "--no-page"
        } else {
            ""
        };
        let script = format!(
            "set -a; [ -e environment ] && . ./environment\nexec {} {address} {page}",
            line.trim()
        );
        let log = std::fs::File::create(self.folder.0.join("log")).unwrap();
        let child = self
            .command("bash")
            .args(["-c", &script])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let child = child.unwrap();
        self.shell(&format!("export PGVEIL_PID={}", child.id()));
        self.serving = Some(Running(child));
        let patience = Instant::now() + Duration::from_secs(120);
        while std::net::TcpStream::connect(("127.0.0.1", self.ports.1)).is_err() {
            let log = || std::fs::read_to_string(self.folder.0.join("log")).unwrap();
            assert!(Instant::now() < patience, "{line}: {}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a page. How many blocks ran, and how many answers were compared.
    fn walk(&mut self, page: &str) -> (usize, usize) {
        let page = std::fs::read_to_string(page).unwrap();
        let blocks = blocks(&page);
        let (mut ran, mut compared) = (0, 0);
        for (at, (language, text)) in blocks.iter().enumerate() {
            if *language == "text" {
                continue;
            }
            let said = self.run(language, text);
            ran += 1;
            let Some(("text", wanted)) = blocks.get(at + 1) else {
                continue;
            };
            let said = said.unwrap_or_else(|| panic!("{text} prints nothing"));
            let found = lines(&said);
            let wanted = lines(wanted);
            assert!(
                are_like(&found, &wanted),
                "{text}\nprints\n{said}\nand not\n{}",
                wanted.join("\n")
            );
            compared += 1;
        }
        (ran, compared)
    }

    fn stop(&mut self) {
        if let Some(mut serving) = self.serving.take() {
            serving.signal("-TERM");
            serving.0.wait().unwrap();
        }
    }

    /// psql's output for one block.
    fn ask(&self, sql: &str) -> String {
        let asked = format!("{} -X <<'SQL'\n{sql}\nSQL", self.psql);
        self.shell(&asked)
    }

    fn run(&mut self, language: &str, text: &str) -> Option<String> {
        let is_server = ["pgveil demo", "pgveil serve"]
            .iter()
            .any(|start| text.starts_with(start));
        let is_lone_psql = text.starts_with("psql ") && text.lines().count() == 1;
        match language {
            "sh" if is_server => self.serve(text),
            "sh" if is_lone_psql => text.trim().clone_into(&mut self.psql),
            "sh" => {
                let said = self.shell(text);
                // The password that `init` shows once; psql reads it from here.
                if let Some((_, password)) = said.split_once("shown once: ") {
                    let password = password.split_whitespace().next().unwrap();
                    self.shell(&format!("export PGPASSWORD={password}"));
                }
                return Some(said);
            }
            "sql" => return Some(self.ask(text)),
            _ => panic!("a block of {language}"),
        }
        None
    }
}

/// A line without its numbers and without the padding that follows their width.
fn masked(line: &str) -> String {
    let mut text = String::new();
    let is_number = |c: char| c.is_ascii_digit() || ".,±%".contains(c);
    for word in line.split_whitespace() {
        let rule = word.contains("--") && word.chars().all(|c| "-+".contains(c));
        let word = if rule {
            word.split('+').map(|_| "-").collect::<Vec<_>>().join("+")
        } else {
            word.replace(is_number, "#")
        };
        for c in word.chars() {
            if c != '#' || !text.ends_with('#') {
                text.push(c);
            }
        }
        text.push(' ');
    }
    text.trim_end().to_owned()
}

fn is_like(found: &str, wanted: &str) -> bool {
    match wanted.strip_suffix('…') {
        Some(start) => masked(found).starts_with(masked(start).trim_end_matches(['#', ' '])),
        None => masked(found) == masked(wanted),
    }
}

/// Whether the lines are those of the page, where `…` alone stands for any.
fn are_like(found: &[&str], wanted: &[&str]) -> bool {
    match (found, wanted) {
        ([], []) => true,
        (_, ["…", rest @ ..]) => (0..=found.len()).any(|at| are_like(&found[at..], rest)),
        ([line, more @ ..], [first, rest @ ..]) => is_like(line, first) && are_like(more, rest),
        _ => false,
    }
}

/// Without the log, which is one moving line on a terminal.
fn lines(text: &str) -> Vec<&str> {
    let is_said = |line: &&str| !line.trim().is_empty() && !line.contains("Z  INFO ");
    text.lines().filter(is_said).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_and_the_recipes_say_what_happens() {
    if install::psql().await.is_none() {
        return;
    }
    let server = LocalPostgres::start(ServerOptions::default())
        .await
        .unwrap();
    let directory =
        std::env::temp_dir().join(format!("pgveil-tutorial-{:x}", rand::random::<u64>()));
    std::fs::create_dir(&directory).unwrap();
    let mut reader = Reader {
        folder: TemporaryDirectory(directory),
        ports: (stage::relay(&server.config()).await.port(), free_port()),
        serving: None,
        psql: String::new(),
    };
    tokio::task::spawn_blocking(move || {
        let (ran, compared) = reader.walk("docs/tutorial.md");
        assert!(
            ran >= 25 && compared >= 19,
            "{ran} ran, {compared} compared"
        );
        // Over the same clinic.
        let (ran, compared) = reader.walk("docs/howto.md");
        assert!(
            ran >= 12 && compared >= 10,
            "{ran} ran, {compared} compared"
        );
        reader.stop();
    })
    .await
    .unwrap();
}
