//! A real server from the binaries of this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::temporary_directory::{Directory, unprivileged_user};
use super::{Error, MAINTENANCE, SUPERUSER, ServerOptions, connect, database};

/// The longest wait for a server's start. A start takes a second, and much longer where the machine
/// is busy.
const START_WAIT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(10);

/// `$1` directory, `$2` binaries: a cluster on which no server has run. Copying it is ten times as
/// fast as running initdb again.
const PRISTINE: &str = r#"
dir=$1; bin=$2; umask 077
if "$bin/initdb" -D "$dir/data" -U postgres -E UTF8 --locale=C -A trust --no-sync \
   --wal-segsize=1 >"$dir/log" 2>&1
then : >"$dir/ready"; else : >"$dir/failed"
fi
read -r _
rm -rf -- "$dir"
"#;

/// `$1` directory, `$2` binaries, `$3` a pristine cluster, from `$4` the server's settings. `umask`
/// and the private directory guard the socket, so `trust` is enough. `ulimit`, in KB: an aggregate
/// keeps its state in memory whatever `work_mem` says, and one session must not take the machine's.
/// A server that has just begun ignores these signals, as what a shell starts in the background
/// does, so they are sent until it ends.
/// A line on the pipe is the place where the stopped cluster and the pristine one are kept: they
/// are copied next to it, under a marked name, and appear there by one rename.
const SCRIPT: &str = r#"
dir=$1; bin=$2; pristine=$3; shift 3; umask 077
if cp -R "$pristine" "$dir/data" >"$dir/log" 2>&1
then ulimit -v 2097152
"$bin/postgres" -D "$dir/data" -k "$dir" "$@" >>"$dir/log" 2>&1 </dev/null & pid=$!
else pid=; : >"$dir/failed"
fi
IFS= read -r kept || kept=
if [ -n "$pid" ]; then
if [ -n "$kept" ]; then signal=INT; else signal=QUIT; fi
kill -"$signal" "$pid"
while sleep 1 && kill -"$signal" "$pid"; do :; done >/dev/null 2>&1 </dev/null & again=$!
wait "$pid"
kill "$again"
fi
if [ -n "$kept" ] && [ -d "$dir/data" ] && ! [ -e "$dir/data/postmaster.pid" ]; then
draft=$kept.$$
mkdir "$draft" && : >"$draft/pgveil-kept" &&
cp -R "$pristine" "$draft/empty" && cp -R "$dir/data" "$draft/loaded" &&
rm -rf -- "$kept" && mv -T "$draft" "$kept" || rm -rf -- "$draft"
fi
rm -rf -- "$dir"
"#;

/// The pristine cluster of these binaries, for all servers of this process.
static CLUSTER: Mutex<Option<Pristine>> = Mutex::const_new(None);

struct Pristine {
    binaries: PathBuf,
    data: PathBuf,
    /// `None` for a kept cluster; what initdb made goes with the process.
    _directory: Option<Directory>,
}

/// No network, nothing durable, and no value in a log.
const SETTINGS: [(&str, &str); 15] = [
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("shared_buffers", "16MB"),
    ("max_connections", "40"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_min_messages", "fatal"),
    ("log_min_error_statement", "panic"),
    ("jit", "off"),
    ("max_prepared_transactions", "0"),
];

#[derive(Debug)]
pub struct Native {
    directory: Directory,
    config: tokio_postgres::Config,
}

impl Native {
    pub async fn start(binaries: &Path, options: &ServerOptions) -> Result<Self, Error> {
        let pristine = match &options.copy_of {
            Some(cluster) => cluster.clone(),
            None => pristine(binaries).await?,
        };
        let mut arguments = vec![
            binaries.display().to_string(),
            pristine.display().to_string(),
        ];
        let own = SETTINGS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in own.chain(options.settings.iter().cloned()) {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let directory = Directory::create(unprivileged_user()?, SCRIPT, &arguments)?;
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(directory.path())
            .port(5432)
            .user(SUPERUSER)
            .dbname(MAINTENANCE)
            .application_name("pgveil");
        let mut native = Self { directory, config };
        native.wait().await?;
        match &options.database {
            Some(name) if options.copy_of.is_some() => drop(native.config.dbname(name)),
            Some(_) | None => database::create(&mut native.config, options).await?,
        }
        Ok(native)
    }

    pub fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    pub fn url(&self) -> String {
        super::url(self.directory.path(), &self.config)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Asks the watchdog to stop the server and to keep its cluster at this path.
    pub fn keep(&self, path: &Path) {
        if let Err(error) = self.directory.tell(path) {
            tracing::debug!(kind = ?error.kind(), "the cluster will not be kept");
        }
    }

    async fn wait(&self) -> Result<(), Error> {
        let started = Instant::now();
        let socket = self.directory.path().join(".s.PGSQL.5432");
        loop {
            let log = || self.directory.log();
            if self.directory.path().join("failed").exists() {
                return Err(Error::Start { log: log() });
            }
            if socket.exists() && connect(&self.config).await.is_ok() {
                return Ok(());
            }
            // The server reports why it gives up; "starting up" only answers an early connection of
            // ours.
            let fatal = log()
                .lines()
                .any(|line| line.contains("FATAL:") && !line.contains("starting up"))
                || log().contains("could not find the database system");
            if fatal {
                return Err(Error::Start { log: log() });
            }
            if started.elapsed() > START_WAIT {
                return Err(Error::Timeout {
                    waited: started.elapsed(),
                    log: log(),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Path of the pristine cluster. The first caller creates it; the others wait.
pub async fn pristine(binaries: &Path) -> Result<PathBuf, Error> {
    let mut cluster = CLUSTER.lock().await;
    if let Some(known) = cluster.as_ref()
        && known.binaries == binaries
        && known.data.join("PG_VERSION").exists()
    {
        return Ok(known.data.clone());
    }
    let directory = Directory::create(
        unprivileged_user()?,
        PRISTINE,
        &[binaries.display().to_string()],
    )?;
    let started = Instant::now();
    let log = || directory.log();
    while !directory.path().join("ready").exists() {
        if directory.path().join("failed").exists() {
            return Err(Error::Start { log: log() });
        }
        if started.elapsed() > START_WAIT {
            return Err(Error::Timeout {
                waited: started.elapsed(),
                log: log(),
            });
        }
        tokio::time::sleep(POLL).await;
    }
    let data = directory.path().join("data");
    *cluster = Some(Pristine {
        binaries: binaries.to_owned(),
        data: data.clone(),
        _directory: Some(directory),
    });
    Ok(data)
}

/// Makes `empty` the pristine cluster of these binaries. `None`: the next server runs initdb.
pub async fn prepare_from(binaries: &Path, empty: Option<PathBuf>) {
    *CLUSTER.lock().await = empty.map(|data| Pristine {
        binaries: binaries.to_owned(),
        data,
        _directory: None,
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Ends by SIGQUIT, half a second after it began: until then it ignores the signal, as its
    /// shell did.
    const SLOW: &str = "#!/usr/bin/env python3\nimport signal, time\ntime.sleep(0.5)\n\
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)\ntime.sleep(600)\n";

    #[tokio::test]
    async fn a_server_that_has_just_begun_ends_too() {
        let made = Directory::scratch().unwrap();
        let everybody = std::fs::Permissions::from_mode(0o755);
        let (binaries, pristine) = (made.path().join("bin"), made.path().join("pristine"));
        for directory in [&binaries, &pristine] {
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(binaries.join("postgres"), SLOW).unwrap();
        for path in [
            made.path(),
            &binaries,
            &pristine,
            &binaries.join("postgres"),
        ] {
            std::fs::set_permissions(path, everybody.clone()).unwrap();
        }
        let arguments = [&binaries, &pristine].map(|path| path.display().to_string());
        let directory = Directory::create(unprivileged_user().unwrap(), SCRIPT, &arguments);
        let directory = directory.unwrap();
        let path = directory.path().to_owned();
        while !path.join("data").exists() {
            tokio::time::sleep(POLL).await;
        }
        drop(directory);
        let gone = async {
            while path.exists() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(START_WAIT, gone)
            .await
            .expect("an end");
    }
}
