//! The throw-away PostgreSQL comes up, answers, and leaves nothing behind, however it ends.

use std::path::Path;
use std::time::{Duration, Instant};

use pgveil::postgres::{
    Error, LocalPostgres, Locale, PostgresEngine, ServerOptions, connect, major_version,
};

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

async fn one(config: &tokio_postgres::Config, sql: &str) -> String {
    let connected = connect(config).await.unwrap();
    let row = connected.client.query_one(sql, &[]).await.unwrap();
    let value: String = row.get(0);
    connected.close().await;
    value
}

fn is_gone_within(directory: &Path, limit: Duration) -> bool {
    let started = Instant::now();
    while directory.exists() && started.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    !directory.exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn native_starts_answers_and_is_gone_after_stop() {
    let started = Instant::now();
    let options = ServerOptions {
        database: Some("my \"shop\"".to_owned()),
        settings: vec![("work_mem".to_owned(), "3MB".to_owned())],
        ..ServerOptions::default()
    };
    let server = LocalPostgres::start(options).await.unwrap();
    eprintln!("native start: {:?}", started.elapsed());
    assert_eq!(server.engine(), PostgresEngine::Native);
    let by_url: tokio_postgres::Config = server.url().parse().unwrap();
    for config in [server.config(), by_url] {
        assert_eq!(
            one(&config, "SELECT current_database()::text").await,
            "my \"shop\""
        );
        assert_eq!(
            one(
                &config,
                "SELECT current_setting('work_mem') || current_setting('listen_addresses')"
            )
            .await,
            "3MB"
        );
    }
    let directory = server.directory().to_owned();
    let stopping = Instant::now();
    server.stop().await;
    eprintln!("native stop: {:?}", stopping.elapsed());
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn native_is_gone_after_drop_with_an_open_connection() {
    let server = LocalPostgres::start(ServerOptions::default())
        .await
        .unwrap();
    let _open = connect(&server.config()).await.unwrap();
    let directory = server.directory().to_owned();
    drop(server);
    assert!(!directory.exists());
}

/// The locale `de-AT` of ICU.
pub async fn austrian() -> Locale {
    let server = LocalPostgres::start_engine(PostgresEngine::Native, ServerOptions::default())
        .await
        .unwrap();
    let maker = connect(&server.config()).await.unwrap();
    maker
        .client
        .batch_execute(
            "CREATE DATABASE made TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-AT'",
        )
        .await
        .unwrap();
    Locale::of(
        &connect(server.config().dbname("made"))
            .await
            .unwrap()
            .client,
    )
    .await
    .unwrap()
}

/// Whatever its name; and where the machine lacks the locale, the database is there nonetheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_created_in_another_ones_locale() {
    let first = LocalPostgres::start(ServerOptions::default())
        .await
        .unwrap();
    let connected = connect(&first.config()).await.unwrap();
    let own = Locale::of(&connected.client).await.unwrap();
    let locale = austrian().await;
    assert_eq!(
        (own.to_string(), locale.to_string()),
        ("C".to_owned(), "de-AT of ICU".to_owned())
    );
    connected
        .client
        .batch_execute(
            "UPDATE pg_catalog.pg_database SET datcollate = 'xx_XX.utf8', datctype = \
            'xx_XX.UTF-8' WHERE datname = 'postgres'",
        )
        .await
        .unwrap();
    let unknown = Locale::of(&connected.client).await.unwrap();
    assert_ne!(unknown, own);
    for (name, wanted, had) in [
        ("shop", &locale, &locale),
        ("postgres", &locale, &locale),
        ("postgres", &unknown, &own),
        ("shop", &unknown, &own),
        ("template1", &locale, &own),
    ] {
        let options = ServerOptions {
            database: Some(name.to_owned()),
            locale: Some(wanted.clone()),
            ..ServerOptions::default()
        };
        let server = LocalPostgres::start(options).await.unwrap();
        let connected = connect(&server.config()).await.unwrap();
        assert_eq!(&Locale::of(&connected.client).await.unwrap(), had, "{name}");
        assert_eq!(
            one(&server.config(), "SELECT current_database()::text").await,
            name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_setting_is_reported_with_the_servers_log() {
    let options = ServerOptions {
        settings: vec![("no_such_setting".to_owned(), "1".to_owned())],
        ..ServerOptions::default()
    };
    let error = LocalPostgres::start(options).await.unwrap_err();
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}

/// The victim: starts a server, writes where, and waits.
async fn victim(note: &std::ffi::OsStr) {
    let server = LocalPostgres::start(ServerOptions::default())
        .await
        .unwrap();
    std::fs::write(note, server.directory().display().to_string()).unwrap();
    tokio::time::sleep(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_is_gone_after_sigkill_of_its_parent() {
    // This test is its own victim: started once more in a separate process.
    if let Some(note) = std::env::var_os("PGVEIL_VICTIM") {
        return victim(&note).await;
    }
    let directory = tokio::task::spawn_blocking(|| kill_a_victim(None))
        .await
        .unwrap();
    assert!(is_gone_within(&directory, PATIENCE));
}

/// The directory of a server whose parent got SIGKILL.
fn kill_a_victim(binaries: Option<&str>) -> std::path::PathBuf {
    let note = std::env::temp_dir().join(format!(
        "victim-of-pgveil-{}-{}",
        std::process::id(),
        binaries.unwrap_or("native")
    ));
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "operations::postgres::native_is_gone_after_sigkill_of_its_parent",
        ])
        .env("PGVEIL_VICTIM", &note);
    command.envs(binaries.map(|binaries| ("PGVEIL_PG_BIN", binaries)));
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let directory = loop {
        match std::fs::read_to_string(&note) {
            Ok(text) if !text.is_empty() => break std::path::PathBuf::from(text),
            _ => assert!(started.elapsed() < PATIENCE, "the victim never started"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    std::fs::remove_file(&note).unwrap();
    let postmaster = std::fs::read_to_string(directory.join("data/postmaster.pid")).ok();
    let postmaster = postmaster.and_then(|text| text.lines().next().map(str::to_owned));
    // SIGKILL: no handler and no destructor runs.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(postmaster.is_some(), binaries.is_none());
    if let Some(postmaster) = postmaster {
        assert!(is_gone_within(
            &Path::new("/proc").join(postmaster),
            PATIENCE
        ));
    }
    directory
}

#[cfg(feature = "embedded")]
mod embedded {
    use super::*;

    async fn start() -> LocalPostgres {
        let options = ServerOptions {
            database: Some("my shop".to_owned()),
            ..ServerOptions::default()
        };
        LocalPostgres::start_engine(PostgresEngine::Embedded, options)
            .await
            .unwrap()
    }

    #[test]
    fn is_gone_after_sigkill_of_its_process() {
        let directory = kill_a_victim(Some("embedded"));
        assert!(is_gone_within(&directory, PATIENCE));
    }

    /// The embedded server has only its own locale, and starts all the same.
    #[tokio::test(flavor = "multi_thread")]
    async fn another_ones_locale_is_done_without() {
        let locale = austrian().await;
        for name in ["my shop", "postgres"] {
            let options = ServerOptions {
                database: Some(name.to_owned()),
                locale: Some(locale.clone()),
                ..ServerOptions::default()
            };
            let embedded = LocalPostgres::start_engine(PostgresEngine::Embedded, options)
                .await
                .unwrap();
            let connected = connect(&embedded.config()).await.unwrap();
            let here = connected
                .client
                .query_one("SELECT current_database()::text", &[])
                .await
                .unwrap();
            assert_eq!(here.get::<_, &str>(0), name);
            assert_ne!(Locale::of(&connected.client).await.unwrap(), locale);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_run_in_one_process_and_leave_nothing() {
        let started = Instant::now();
        let first = start().await;
        eprintln!("embedded start 1: {:?}", started.elapsed());
        let started = Instant::now();
        let second = start().await;
        eprintln!("embedded start 2: {:?}", started.elapsed());
        assert_eq!(first.engine(), PostgresEngine::Embedded);
        let here = connect(&first.config()).await.unwrap();
        let there = connect(&second.config()).await.unwrap();
        here.client
            .batch_execute("CREATE TABLE only_here (x int); INSERT INTO only_here VALUES (1)")
            .await
            .unwrap();
        assert!(
            there
                .client
                .batch_execute("SELECT * FROM only_here")
                .await
                .is_err()
        );
        let row = here
            .client
            .query_one("SELECT count(*) FROM only_here", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), 1);
        here.close().await;
        there.close().await;
        let again = Instant::now();
        let by_url: tokio_postgres::Config = first.url().parse().unwrap();
        assert_eq!(
            one(&by_url, "SELECT current_database()::text").await,
            "my shop"
        );
        eprintln!("embedded reconnect: {:?}", again.elapsed());
        let directories = [first.directory().to_owned(), second.directory().to_owned()];
        let stopping = Instant::now();
        first.stop().await;
        second.stop().await;
        eprintln!("embedded stop of two: {:?}", stopping.elapsed());
        assert!(directories.iter().all(|directory| !directory.exists()));
    }
}

/// A server that gives up is known by words of its log, in every version of PostgreSQL. Otherwise a
/// start would only end after minutes, with another error.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_gives_up_is_noticed() {
    let unusable = ServerOptions {
        settings: vec![("shared_buffers".to_owned(), "many".to_owned())],
        ..ServerOptions::default()
    };
    let cluster = std::env::temp_dir().join(format!("pgveil-no-cluster-{}", std::process::id()));
    std::fs::create_dir_all(&cluster).unwrap();
    let version = major_version().unwrap().to_string();
    for (name, text) in [
        ("PG_VERSION", version.as_str()),
        ("postgresql.conf", ""),
        ("pg_hba.conf", ""),
    ] {
        std::fs::write(cluster.join(name), text).unwrap();
    }
    let empty = ServerOptions {
        copy_of: Some(cluster.clone()),
        ..ServerOptions::default()
    };
    for (options, word) in [
        (unusable, "FATAL:"),
        (empty, "could not find the database system"),
    ] {
        match LocalPostgres::start(options).await {
            Err(Error::Start { log }) => assert!(log.contains(word), "{log}"),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it has started"),
        }
    }
    std::fs::remove_dir_all(&cluster).unwrap();
}
