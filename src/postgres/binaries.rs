//! Finds PostgreSQL's server binaries on this machine.

use std::path::{Path, PathBuf};

use super::{BINARIES_VARIABLE, Error};

/// Where PostgreSQL comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum PostgresSource {
    /// The directory that holds initdb and postgres.
    Directory(PathBuf),
    Embedded,
}

/// The operator's setting first, then PATH, then Debian's directories (newest major version), then
/// the embedded engine if it was built in.
pub fn find() -> Result<PostgresSource, Error> {
    if let Some(value) = std::env::var_os(BINARIES_VARIABLE) {
        if value == "embedded" {
            return if cfg!(feature = "embedded") {
                Ok(PostgresSource::Embedded)
            } else {
                Err(Error::NotEmbedded)
            };
        }
        let directory = PathBuf::from(value);
        return if is_complete(&directory) {
            Ok(PostgresSource::Directory(directory))
        } else {
            Err(Error::BadBinaries { directory })
        };
    }
    match native() {
        Err(Error::NoBinaries) if cfg!(feature = "embedded") => Ok(PostgresSource::Embedded),
        found => found,
    }
}

/// The binaries on this machine, without regard to the operator's setting.
pub fn native() -> Result<PostgresSource, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .find(|directory| is_complete(directory))
        .or_else(newest_debian);
    found
        .map(PostgresSource::Directory)
        .ok_or(Error::NoBinaries)
}

/// The major version of the server that would be started here.
pub fn major_version() -> Option<u32> {
    let Ok(PostgresSource::Directory(directory)) = find() else {
        return None;
    };
    let output = std::process::Command::new(directory.join("postgres"))
        .arg("--version")
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let number = version
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number?
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn is_complete(directory: &Path) -> bool {
    directory.is_absolute()
        && ["initdb", "postgres"]
            .iter()
            .all(|name| directory.join(name).is_file())
}

fn newest_debian() -> Option<PathBuf> {
    let majors = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    majors
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let major: u32 = entry.file_name().to_str()?.parse().ok()?;
            let directory = entry.path().join("bin");
            is_complete(&directory).then_some((major, directory))
        })
        .max()
        .map(|(_, directory)| directory)
}
