//! The binary itself: what it prints, how it exits, and that it leaves nothing behind.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pgveil::engine::Service;
use pgveil::parse::{ExplainFormat, Statement, parse};
use tokio_util::sync::CancellationToken;

use super::pages::log_in;
use crate::fixture::Veil;

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");
const COUNT: &str = "SELECT count(*) FROM nls.women";
/// How long a demo may take to start, and to be gone, on a busy machine.
const WAIT: Duration = Duration::from_secs(300);

fn pgveil(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PGVEIL);
    command
        .args(arguments)
        .env_remove("PGVEIL_LOG")
        .env_remove("RUST_LOG")
        .env("PGVEIL_CACHE", "off")
        .envs(environment.iter().copied());
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// In a terminal: few lines, none of them long.
#[test]
fn help_teaches_on_short_pages() {
    for (page, wanted) in [
        ("noise", "nineteen times in twenty"),
        ("units", "unit: {path: [woman_id -> nls.women.woman_id]}"),
    ] {
        let shown = pgveil(&["help", page], &[]);
        let page = text(&shown.stdout);
        assert!(shown.status.success() && page.contains(wanted), "{page}");
        assert!(page.lines().count() <= 45, "{page}");
        assert!(
            page.lines().all(|line| line.chars().count() <= 78),
            "{page}"
        );
    }
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    assert!(demo.contains("unit: {path: [woman_id -> nls.women.woman_id]}"));
    // And the help of commands, as ever.
    for (names, wanted) in [
        (&["help"][..], "Commands:"),
        (&["help", "serve"], "SIGHUP reloads the policy"),
        (&["help", "ledger", "backup"], "Usage: pgveil ledger backup"),
        (&["ledger", "help", "backup"], "Usage: pgveil ledger backup"),
    ] {
        let shown = text(&pgveil(names, &[]).stdout);
        assert!(shown.contains(wanted), "{names:?}: {shown}");
    }
    let unknown = pgveil(&["help", "nois"], &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("noise and units are pages"));
}

/// Its numbers are those of the demo.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_noise_is_about_the_demo() {
    let veil = Veil::demo(|y| y, None).await;
    let statements = parse(COUNT).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query")
    };
    let (format, cancel) = (ExplainFormat::Text, CancellationToken::new());
    let requester = Veil::requester();
    let explained = veil
        .engine
        .explain(&requester, query, &[], &[], format, cancel);
    let explained = explained.await.unwrap();
    assert!(explained[0].starts_with("±17.6"), "{explained:?}");
    let (_, page) = pgveil::cli::help::PAGES[0];
    assert!(page.contains("less than 17.6\n") && page.contains("88 %   8.8 %"));
}

/// The directories of a running demo: those that its watchdogs' command lines mention.
fn directories(process: u32) -> Vec<PathBuf> {
    let children = Command::new("ps")
        .args(["-o", "args=", "--ppid", &process.to_string()])
        .output()
        .unwrap();
    let mentioned = text(&children.stdout);
    let mut found: Vec<PathBuf> = mentioned
        .split_whitespace()
        .filter(|word| word.starts_with("/tmp/pgveil-"))
        .map(PathBuf::from)
        .filter(|path| path.parent() == Some(Path::new("/tmp")))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn is_gone_within(paths: &[PathBuf], wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    while paths.iter().any(|path| path.exists() || is_mentioned(path)) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

fn is_mentioned(path: &Path) -> bool {
    let all = Command::new("ps").args(["-eo", "args="]).output().unwrap();
    text(&all.stdout).contains(&path.display().to_string())
}

fn answers_once(environment: &[(&str, &str)]) {
    let output = pgveil(&["demo", "--once", COUNT], environment);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}\n{said}");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0].trim(), "count", "{shown}");
    assert!(lines[1].bytes().all(|byte| byte == b'-'), "{shown}");
    let count: i64 = lines[2].trim().parse().unwrap();
    assert!((count - 4711).abs() < 500, "{shown}");
    assert_eq!(lines[3], "(1 row)");
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("NOTICE:  privacy cost: ")),
        "{shown}"
    );
    assert!(
        lines.iter().any(|line| line.contains("standard deviation")),
        "{shown}"
    );
}

#[test]
fn demo_answers_once() {
    answers_once(&[]);
}

/// The second run starts from the cluster that the first one kept; a broken one is made again.
#[test]
fn a_demo_keeps_the_loaded_cluster_for_the_next() {
    let cache = PathBuf::from(format!("/tmp/pgveil-kept-{}", std::process::id()));
    let name = cache.display().to_string();
    let environment = [("PGVEIL_CACHE", name.as_str()), ("PGVEIL_LOG", "debug")];
    let started = || {
        let output = pgveil(&["demo", "--once", COUNT], &environment);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stderr);
        (
            said.contains("loading the survey data"),
            said.contains("the kept cluster is broken"),
        )
    };
    let own = cache.join("pgveil");
    let kept = || -> Vec<PathBuf> {
        let all = std::fs::read_dir(&own).unwrap();
        all.map(|entry| entry.unwrap().path()).collect()
    };
    // The kept cluster is copied after the run has ended. A draft's name has a dot.
    let until = |wanted: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(120);
        let is_draft = |path: &PathBuf| path.extension().is_some();
        while !wanted() || kept().iter().any(is_draft) {
            assert!(Instant::now() < end, "nothing is kept: {:?}", kept());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(started(), (true, false));
    until(&|| !kept().is_empty());
    let [first] = <[PathBuf; 1]>::try_from(kept()).unwrap();
    // Nothing of others is touched, above or next to the kept clusters.
    let foreign = ["Documents", ".ssh", "pgveil/other", "pgveil/.ssh"].map(|name| cache.join(name));
    for path in &foreign {
        std::fs::create_dir(path).unwrap();
        std::fs::write(path.join("PG_VERSION"), "15").unwrap();
    }
    // Another version's cluster goes when a new one is kept, but not before.
    let left = own.join("0123456789abcdef0123456789abcdef");
    std::fs::create_dir_all(left.join("loaded")).unwrap();
    for file in ["pgveil-kept", "loaded/PG_VERSION"] {
        std::fs::write(left.join(file), "15").unwrap();
    }
    assert_eq!(started(), (false, false));
    assert!(left.exists());
    for broken in ["loaded/base", "empty/global"] {
        std::fs::remove_dir_all(first.join(broken)).unwrap();
        assert_eq!(started(), (true, true), "{broken}");
        until(&|| first.join(broken).exists());
        assert!(!left.exists() && first.exists(), "{broken}");
        assert!(foreign.iter().all(|path| path.join("PG_VERSION").exists()));
        assert_eq!(kept().len(), 3);
        assert_eq!(started(), (false, false), "{broken}");
    }
    // Others may not write where a server's files come from.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&own, open).unwrap();
    assert_eq!(started(), (true, false));
    std::fs::remove_dir_all(&cache).unwrap();
}

/// What a demo's prompt answers to this input: on its output, and on its error output.
fn prompt(input: &str, environment: &[(&str, &str)]) -> (String, String) {
    let mut child = Command::new(PGVEIL)
        .args(["demo", "--shell", "--listen", "127.0.0.1:0", "--no-page"])
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown}\n{said}");
    (shown, said)
}

/// Statements by a pipe, as a script would send them.
#[test]
fn the_demos_prompt_answers_what_is_piped_in() {
    let input = "SELECT count(*)\n  FROM nls.women;\nSELECT * FROM nls.women;\n\\d nls.women\n\
        SET pgveil.notices = off; SELECT count(*) FROM nls.women;\n\\budget\nSELECT 'a;b' AS last";
    let (shown, said) = prompt(input, &[("PGVEIL_CACHE", "off")]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines[0].trim(), lines[3]), ("count", "(1 row)"), "{shown}");
    // The second count is the first one's, free, and without a notice.
    let count = lines[2];
    assert_eq!(
        lines.iter().filter(|line| **line == count).count(),
        2,
        "{shown}"
    );
    assert_eq!(
        shown.matches("NOTICE:  privacy cost: ").count(),
        1,
        "{shown}"
    );
    for part in [" birth_year", " race", " percent_left | ", "96.49", " a;b"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let refused = "ERROR:  rows of a private table are not shown; aggregate them\nLINE 1: SELECT *";
    assert!(said.contains(refused), "{said}");
}

/// The library starts when somebody connects to it, also without a page. A summary is received once
/// and answers free; of a stream only new weeks are bought; the survey's budget is another.
fn the_prompt_shows_a_summary_and_a_stream(environment: &[(&str, &str)]) {
    let [received, free, ..] = &pgveil::demo::questions::LIBRARY_QUESTIONS;
    let [weeks, _] = &pgveil::demo::streams::STREAMS;
    let look = |at: usize| weeks.sql(at).unwrap();
    let input = [
        "\\library",
        received.sql,
        free.sql,
        &look(0),
        &look(1),
        "\\budget",
        "\\survey",
        "\\budget",
    ];
    let (shown, said) = prompt(&(input.join("\n") + "\n"), environment);
    let lessons = [
        "received summary members",
        "privacy cost: nothing, summary members answers it",
        "bought now: 8 weeks, 2024-01-01 to 2024-02-19",
        "8 weeks were bought before, without rows that came later; bought now: 1 week, 2024-02-26",
    ];
    let mut rest = shown.as_str();
    for lesson in lessons {
        let found = rest.split_once(lesson);
        (_, rest) = found.unwrap_or_else(|| panic!("{lesson}: {shown}\n{said}"));
    }
    // Members by branch, and two looks at weeks, cost about 3.5 % each.
    let left = rest.lines().filter_map(|line| {
        let (percent, mu) = line.split_once('|')?;
        mu.trim().parse::<f64>().ok()?;
        percent.trim().parse::<f64>().ok()
    });
    let left: Vec<f64> = left.collect();
    let [library, survey] = left[..] else {
        panic!("{shown}")
    };
    assert!(
        (88.0..91.0).contains(&library) && survey == 100.0,
        "{shown}"
    );
}

#[test]
fn the_demos_prompt_shows_a_summary_and_a_stream() {
    the_prompt_shows_a_summary_and_a_stream(&[("PGVEIL_CACHE", "off")]);
}

#[cfg(feature = "embedded")]
#[test]
fn the_prompt_shows_them_on_the_embedded_engine() {
    the_prompt_shows_a_summary_and_a_stream(&[("PGVEIL_PG_BIN", "embedded")]);
}

#[cfg(feature = "embedded")]
#[test]
fn demo_answers_once_on_the_embedded_engine() {
    answers_once(&[("PGVEIL_PG_BIN", "embedded")]);
}

#[test]
fn demo_answers_its_questions_and_refuses_rows() {
    let questions: Vec<&str> = pgveil::demo::questions::QUESTIONS
        .iter()
        .map(|question| question.sql)
        .collect();
    let output = pgveil(
        &[
            "demo",
            "--once",
            &format!("{} SELECT * FROM nls.women", questions.join(" ")),
        ],
        &[],
    );
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{shown}\n{said}");
    // The statements before the refused one are answered.
    assert_eq!(
        shown.matches("NOTICE:  privacy cost: ").count(),
        questions.len(),
        "{shown}\n{said}"
    );
    assert!(
        said.contains("ERROR:  rows of a private table are not shown"),
        "{said}"
    );
}

/// A running demo, killed if a test forgets it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    let mut running = Running(
        Command::new(PGVEIL)
            .args(["demo", "--listen", "127.0.0.1:0", "--no-page"])
            .args(["--console", "127.0.0.1:0"])
            .env("PGVEIL_CACHE", "off")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut output = running.0.stdout.take().unwrap();
    let (mut shown, started) = (String::new(), Instant::now());
    let mut buffer = [0; 4096];
    while !shown.contains("Ctrl-C") {
        let read = output.read(&mut buffer).unwrap();
        assert!(read > 0 && started.elapsed() < WAIT, "{shown}");
        shown.push_str(&text(&buffer[..read]));
    }
    // The console lets in who has the password that was printed, and nobody else.
    let after = |mark: &str| {
        let rest = shown.split_once(mark).unwrap().1;
        rest.split(['/', '\n']).next().unwrap().to_owned()
    };
    let console = after("http://").parse().unwrap();
    let password = after("password ");
    let tried = [&password, "guess"].map(|word| log_in(console, "operator", word).status);
    assert_eq!(tried, [303, 401]);
    let made = directories(running.0.id());
    // Those of the ledger, the demo's server, the shadow, and the cluster that both are copies of.
    assert_eq!(made.len(), 4, "{made:?}");
    assert!(made.iter().all(|path| path.exists()));
    let stopping = Instant::now();
    Command::new("kill")
        .args(["-INT", &running.0.id().to_string()])
        .status()
        .unwrap();
    assert!(running.0.wait().unwrap().success());
    assert!(stopping.elapsed() < WAIT);
    assert!(is_gone_within(&made, WAIT), "{made:?}");
}

#[test]
fn a_broken_policy_is_shown_by_its_places() {
    let path = std::env::temp_dir().join(format!("pgveil-cli-{}.yaml", std::process::id()));
    std::fs::write(
        &path,
        "version: 2\nprivacy: \
        {unit: x, budget: {epsilon: -1, delta: 1e-6}}\nroles: []\ntables: {}\n",
    )
    .unwrap();
    let name = path.display().to_string();
    let output = pgveil(&["check", &name], &[]);
    std::fs::remove_file(&path).unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.lines()
            .any(|line| line.starts_with(&format!("{name}:1:10: "))),
        "{said}"
    );
    assert!(
        said.lines()
            .any(|line| line.starts_with(&format!("{name}:2:"))),
        "{said}"
    );
}

/// A command logs a line for each step, or shows one moving line on a terminal.
#[tokio::test]
async fn a_command_says_what_it_does() {
    use pgveil::postgres::{LocalPostgres, ServerOptions};
    let server = LocalPostgres::start(ServerOptions {
        database: Some("empty".to_owned()),
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    let environment = [
        ("DATABASE_URL", server.url()),
        ("PGVEIL_LEDGER", "sqlite:///nowhere/ledger.db"),
    ];
    let piped = pgveil(&["check", "policies/demo.yaml"], &environment);
    let (said, step) = (
        text(&piped.stderr),
        "checking the policy against database empty",
    );
    for step in ["connecting to the database", step] {
        assert_eq!(
            said.lines()
                .filter(|line| line.ends_with(&format!("INFO {step}")))
                .count(),
            1,
            "{said}"
        );
    }
    assert!(
        said.ends_with("error: the policy does not hold (4 errors)\n"),
        "{said}"
    );
    let mut script = Command::new("script");
    script
        .args([
            "-qec",
            &format!("{PGVEIL} check policies/demo.yaml"),
            "/dev/null",
        ])
        .envs(environment)
        .stdin(Stdio::null());
    let seen = text(
        &script
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .output()
            .expect("script, of util-linux")
            .stdout,
    );
    assert!(
        seen.contains(step) && seen.contains('\r') && !seen.contains("INFO"),
        "{seen}"
    );
    let after = seen.rsplit(step).next().unwrap();
    assert!(
        after.contains("\r\u{1b}[2K") && after.contains("(4 errors)"),
        "the line is cleared before errors are shown: {seen:?}"
    );
}

#[test]
fn usage_errors_exit_with_2() {
    assert_eq!(
        pgveil(&["demo", "--listen", "nowhere"], &[]).status.code(),
        Some(2)
    );
    assert_eq!(pgveil(&["serve"], &[]).status.code(), Some(2));
    assert_eq!(
        pgveil(&["check", "/nonexistent.yaml"], &[]).status.code(),
        Some(1)
    );
}

/// `pgveil password` with these flags and this line.
fn password(flags: &[&str], line: &str) -> Output {
    let mut child = Command::new(PGVEIL)
        .arg("password")
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(line.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

/// The page of the console can be guessed at from outside.
#[test]
fn an_operators_password_is_long() {
    let short = password(&["--operator"], "elf Zeichen\n");
    assert_eq!(short.status.code(), Some(2));
    assert!(text(&short.stderr).contains("at least 12 characters"));
    // Eleven characters are twelve bytes.
    assert_eq!(
        password(&["--operator"], "elf Zeichän\n").status.code(),
        Some(2)
    );
    let long = password(&["--operator"], "twelve chars\n");
    assert!(long.status.success());
    assert!(text(&long.stdout).starts_with("SCRAM-SHA-256$"));
    assert!(password(&[], "short\n").status.success());
}

#[test]
fn a_password_becomes_a_verifier_that_a_policy_takes() {
    let output = password(&[], "correct horse\n");
    let verifier = text(&output.stdout).trim().to_owned();
    let policy = include_str!("../../../policies/demo.yaml");
    let line = policy
        .lines()
        .find(|line| line.trim().starts_with("password:"))
        .unwrap();
    let changed = policy.replace(line, &format!("    password: {verifier}"));
    let file = pgveil::policy::File::parse("p.yaml", &changed, |name| {
        Some(if name == "DATABASE_URL" {
            "postgresql://h/d".to_owned()
        } else {
            "sqlite:///tmp/x.db".to_owned()
        })
    });
    assert_eq!(file.unwrap().roles[0].verifier.expose(), verifier);
}

#[test]
fn budget_needs_the_ledger_alone() {
    let folder = crate::fixture::TemporaryDirectory::new("budget");
    let url = format!("sqlite://{}", folder.0.join("ledger.db").display());
    let environment = [
        ("PGVEIL_LEDGER", url.as_str()),
        ("DATABASE_URL", "postgres://nowhere.invalid/nls"),
    ];
    let asked = |question: &[&str]| {
        pgveil(
            &[&["budget"], question, &["--policy", "policies/demo.yaml"]].concat(),
            &environment,
        )
    };
    let missing = asked(&[]);
    assert!(
        !missing.status.success() && text(&missing.stderr).contains("there is no ledger"),
        "{missing:?}"
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let plan = runtime.block_on(async {
        use pgveil::ledger::{Fingerprint, Ledger};
        use pgveil::mechanism::{Mu, loss_gaussian};
        let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let named = |name: &str| {
            environment
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let file = pgveil::policy::File::parse("demo.yaml", &yaml, named).unwrap();
        let (owner, roles) = pgveil::cli::start::accounts(&file.privacy, &file.roles)
            .unwrap_or_else(|_| panic!("accounts"));
        let ledger = Ledger::open(&url, owner, &roles).await.unwrap();
        let _ = ledger
            .debit(
                "analyst",
                loss_gaussian(Mu::round_down(0.5)),
                Fingerprint::new([7; 32]),
            )
            .await
            .unwrap();
        ledger.plan_digest(Fingerprint::new([7; 32])).short()
    });
    let shown = text(&asked(&["show"]).stdout);
    let line = |start: &str| {
        shown
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("{start}: {shown}"))
            .to_owned()
    };
    assert!(
        line("(owner)").contains("0.5000") && line("analyst").contains("0.5000"),
        "{shown}"
    );
    let history = text(&asked(&["history"]).stdout);
    assert!(
        history.contains("analyst") && history.contains(&plan) && !history.contains("0707070707"),
        "{history}"
    );
    // The owner's decisions, while somebody else has the ledger open.
    let done = |question: &[&str]| {
        let output = asked(question);
        assert!(
            output.status.success(),
            "{question:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout).to_owned()
    };
    let failed = |question: &[&str], code: i32, words: &str| {
        let output = asked(question);
        let reported = text(&output.stderr);
        assert!(
            output.status.code() == Some(code) && reported.contains(words),
            "{question:?}: {reported}"
        );
    };
    let why = ["--why", "quarterly report", "--who", "olga"];
    assert_eq!(
        done(
            &[
                &["grant", "--role", "analyst", "--epsilon", "0.5"],
                &why[..]
            ]
            .concat()
        ),
        "recorded: grant analyst epsilon 0.5 delta 0\n"
    );
    done(&[&["freeze", "--role", "analyst"], &why[..]].concat());
    let shown = done(&["show"]);
    assert!(
        shown.lines().any(|line| line.starts_with("analyst")
            && line.contains("0.5000 0")
            && line.ends_with("frozen")),
        "{shown}"
    );
    done(&[&["unfreeze", "--role", "analyst"], &why[..]].concat());
    done(&[&["freeze", "--all"], &why[..]].concat());
    assert!(
        done(&["show"])
            .lines()
            .filter(|line| line.ends_with("frozen"))
            .count()
            == 2
    );
    let history = done(&["history"]);
    assert!(
        history.contains("grant analyst epsilon 0.5 delta 0 by olga: quarterly report")
            && history.contains("freeze (all) by olga"),
        "{history}"
    );
    failed(
        &[&["grant", "--role", "analyst", "--epsilon", "50"], &why[..]].concat(),
        1,
        "more than the owner's whole budget",
    );
    failed(
        &[&["grant", "--role", "analyst", "--epsilon=-1"], &why[..]].concat(),
        2,
        "must be a number from 0",
    );
    failed(
        &[&["freeze", "--role", "nobody"], &why[..]].concat(),
        2,
        "its roles are analyst",
    );
    failed(&["freeze", "--why", "no one named"], 2, "--all");
    failed(
        &["grant", "--role", "analyst", "--epsilon", "1"],
        2,
        "--why",
    );
    assert!(!pgveil(&["budget"], &environment).status.success());
    let acts: Vec<serde_json::Value> = done(&["export"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let shown: Vec<_> = acts
        .iter()
        .map(|act| {
            format!(
                "{} {} {} {}",
                act["kind"], act["role"], act["act"], act["via"]
            )
        })
        .collect();
    let act = |name: &str| format!("\"act\" \"olga\" \"{name}\" \"command\"");
    let decided = ["grant", "freeze", "unfreeze", "freeze"].map(act);
    assert_eq!(shown, decided, "nothing was asked yet");
    assert_eq!(acts[0]["target"], "epsilon 0.5, delta 0e0 to role analyst");
    // The same statement, however it is written; under a key of this ledger.
    let digest = done(&["digest", "select  count(*) from nls.women"]);
    assert_eq!(digest.len(), 65);
    assert_eq!(
        digest,
        done(&["digest", "EXPLAIN SELECT count(*) FROM nls.women;"])
    );
    assert_ne!(
        digest,
        done(&["digest", "SELECT count(*) FROM nls.interviews"])
    );
    failed(
        &["digest", "SET TimeZone = 'UTC'"],
        1,
        "no statement that is recorded",
    );
    failed(&["digest", "SELECT ("], 1, "syntax error");
}

#[test]
fn a_change_of_the_policy_is_described_by_what_it_loosens() {
    let folder = crate::fixture::TemporaryDirectory::new("diff");
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let other = folder.0.join("other.yaml").display().to_string();
    let differ = |change: &str| {
        let changed = demo.replacen("  nls.industries: public", change, 1);
        std::fs::write(&other, changed).unwrap();
        let output = pgveil(&["policy", "diff", "policies/demo.yaml", &other], &[]);
        (output.status.code(), text(&output.stdout))
    };
    let (code, reported) = differ("  nls.industries: public");
    assert_eq!((code, reported.as_str()), (Some(0), "nothing changes\n"));
    let (code, reported) = differ("  nls.store: public\n  nls.industries: public");
    let loosens = "loosens   every row of nls.store becomes readable, exactly and free\n";
    assert!(
        code == Some(4) && reported.starts_with(loosens),
        "{reported}"
    );
    assert!(
        reported.contains("\ncosts     no stored answer is shown again"),
        "{reported}"
    );
    let (code, reported) = differ("  nls.industries: {unit: industry_code}");
    assert!(
        code == Some(0) && reported.starts_with("tightens  nls.industries is private"),
        "{reported}"
    );
    let (code, _) = differ("  nls.industries: nothing");
    assert_eq!(code, Some(3));
}

#[test]
fn keys_of_the_policy_are_explained() {
    let schema = pgveil(&["policy", "schema"], &[]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(
        schema["properties"]["limits"]["properties"]["failures"]["minimum"],
        0
    );
    let explained = pgveil(&["policy", "explain", "limits.failures"], &[]);
    assert!(text(&explained.stdout).contains("\n  default  10\n"));
    let unknown = pgveil(&["policy", "explain", "failure"], &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("limits.failures"));
}

/// A reader that closes the pipe early, as `head` does, ends a command quietly.
#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_pgveil"))
        .args(["policy", "schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(
        !ended.status.success() && ended.stderr.is_empty(),
        "{ended:?}"
    );
}
