//! A private directory under /tmp with a watchdog that removes it when this process lets go of it,
//! however that happens.

use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rand::Rng;
use rustix::fs::{Mode, OFlags};

use super::Error;

/// How long a drop waits for the watchdog before it continues without it.
const REMOVAL_WAIT: Duration = Duration::from_secs(8);

/// The most of a log that is read.
const LOG_BYTES: u64 = 1 << 20;

/// The directory, and the pipe that keeps it.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    watchdog: Option<(Child, ChildStdin)>,
}

/// The user that runs the server if this process is root.
#[derive(Debug, Clone, Copy)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl Directory {
    /// Makes `/tmp/pgveil-XXXXXX` (socket paths must stay short) of mode 0700, owned by `user`, and
    /// runs `script` in `sh` with the directory as `$1` and `arguments` from `$2`. The script must
    /// block in `read` until its standard input closes, then remove `$1`.
    pub fn create(user: Option<User>, script: &str, arguments: &[String]) -> Result<Self, Error> {
        let path = make(user)?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", script, "pgveil-watchdog"])
            .arg(&path)
            .args(arguments);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A separate process group: Ctrl-C at the terminal reaches only this process.
        command.process_group(0);
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        let mut child = command.spawn().map_err(|source| Error::Io {
            doing: "starting its watchdog",
            source,
        })?;
        let pipe = child.stdin.take();
        Ok(Self {
            path,
            watchdog: pipe.map(|pipe| (child, pipe)),
        })
    }

    /// A directory of ours without a server in it.
    ///
    /// # Errors
    /// Where the directory cannot be made or no `sh` can be started.
    pub fn scratch() -> Result<Self, Error> {
        Self::create(None, "read -r _; rm -rf -- \"$1\"", &[])
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a path as one line to the watchdog's standard input. A file in the directory would
    /// not do: its user could put a link to another file there first.
    pub fn tell(&self, path: &Path) -> std::io::Result<()> {
        let bytes = path.as_os_str().as_bytes();
        if bytes.contains(&b'\n') {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        match &self.watchdog {
            Some((_, pipe)) => (&mut &*pipe).write_all(&[bytes, b"\n"].concat()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The content of the server's `log`. Empty where that is not a file of the directory's owner:
    /// the user of the server must not make root read another file.
    pub fn log(&self) -> String {
        self.read_log().unwrap_or_default()
    }

    fn read_log(&self) -> std::io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = rustix::fs::open(self.path.join("log"), flags, Mode::empty())?;
        let file = std::fs::File::from(file);
        let found = file.metadata()?;
        let owner = std::fs::symlink_metadata(&self.path)?.uid();
        if !found.is_file() || found.uid() != owner {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let mut text = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let Some((mut child, pipe)) = self.watchdog.take() else {
            return;
        };
        drop(pipe);
        let deadline = Instant::now() + REMOVAL_WAIT;
        while Instant::now() < deadline {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) => return,
                Err(error) => {
                    return tracing::warn!(%error, "waiting for the local PostgreSQL's watchdog");
                }
            }
        }
        tracing::warn!(directory = %self.path.display(), "the local PostgreSQL is still stopping");
    }
}

fn make(user: Option<User>) -> Result<PathBuf, Error> {
    let io = |doing| move |source| Error::Io { doing, source };
    let mut attempts = 0;
    let path = loop {
        let path = PathBuf::from(format!("/tmp/pgveil-{:08x}", rand::rng().next_u32()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => break path,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempts < 8 => {
                attempts += 1
            }
            Err(error) => return Err(io("making its directory")(error)),
        }
    };
    if let Some(user) = user {
        chown(&path, Some(user.uid), Some(user.gid)).map_err(io("giving its directory away"))?;
    }
    Ok(path)
}

/// `initdb` refuses root: then an unprivileged user of this machine takes over. `None` where we are
/// not root.
pub fn unprivileged_user() -> Result<Option<User>, Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").map_err(|source| Error::Io {
        doing: "reading /etc/passwd",
        source,
    })?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| entry(&passwd, name))
        .map(Some)
        .ok_or(Error::NoUser)
}

fn entry(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [user, _, uid, gid, ..] = fields.as_slice() else {
            return None;
        };
        (*user == name).then_some(())?;
        Some(User {
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_a_link_is_not_read() {
        let directory = Directory::scratch().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "FATAL: no").unwrap();
        assert_eq!(directory.log(), "FATAL: no");
        std::fs::remove_file(&log).unwrap();
        let other = directory.path().join("other");
        std::fs::write(&other, "secret").unwrap();
        std::os::unix::fs::symlink(&other, &log).unwrap();
        assert_eq!(directory.log(), "");
    }

    /// The path goes through the pipe, whatever files the server's user has made.
    #[test]
    fn the_watchdog_hears_a_path_by_its_pipe() {
        let script = "IFS= read -r kept || kept=; [ -z \"$kept\" ] || : >\"$kept\"; rm -rf \"$1\"";
        let heard = std::env::temp_dir().join(format!("pgveil-{:x} heard", rand::random::<u64>()));
        let directory = Directory::create(None, script, &[]).unwrap();
        std::os::unix::fs::symlink("/nowhere", directory.path().join("keep")).unwrap();
        assert!(directory.tell(Path::new("two\nlines")).is_err());
        directory.tell(&heard).unwrap();
        drop(directory);
        assert!(heard.is_file());
        std::fs::remove_file(&heard).unwrap();
        drop(Directory::create(None, script, &[]).unwrap());
        assert!(!heard.exists());
    }
}
