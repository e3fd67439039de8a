//! A throw-away PostgreSQL on a private socket, shared by the tests that run at the same time. To be replaced by `pgveil::postgres`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio_postgres::{Client, Config, NoTls};

const BINARIES: &str = "/usr/lib/postgresql/15/bin";

/// Stops and leaves nothing behind when the last test drops it.
pub struct Server {
    directory: PathBuf,
    process: Mutex<Child>,
}

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

impl Server {
    /// The running server, or a new one.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start());
        *shared = Arc::downgrade(&server);
        server
    }

    fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("pgveil-it-{}-{}", std::process::id(), DATABASES.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(&directory).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
        }
        let data = directory.join("data");
        let made = program("initdb", &directory)
            .args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data)
            .output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let process = program("postgres", &directory)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off", "-k"])
            .args([&directory, Path::new("-D"), &data])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { directory, process: Mutex::new(process) }
    }

    pub async fn connect(&self, database: &str, user: &str) -> Client {
        for _ in 0..6_000 {
            if let Ok((client, connection)) = Config::new().host_path(&self.directory).dbname(database).user(user).connect(NoTls).await {
                tokio::spawn(connection);
                return client;
            }
            let ended = self.process.lock().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server has ended: {ended:?}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("cannot connect as {user} to {database}");
    }

    /// The name of a new database, and its owner's connection.
    pub async fn database(&self) -> (String, Client) {
        let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        self.connect("postgres", "postgres").await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let client = self.connect(&name, "postgres").await;
        (name, client)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process is the server itself (setpriv replaces itself); SIGINT is its fast shutdown.
        let process = self.process.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = Command::new("kill").arg("-INT").arg(process.id().to_string()).status();
        let _ = process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// A program of PostgreSQL, which refuses to run as root, as nobody.
fn program(name: &str, directory: &Path) -> Command {
    let path = Path::new(BINARIES).join(name);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(path);
        command
    } else {
        Command::new(path)
    };
    command.current_dir(directory).env("HOME", directory);
    command
}
