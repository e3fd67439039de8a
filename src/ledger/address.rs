//! The address of a ledger, and the opening of its store.

use std::path::PathBuf;

use super::error::Error;
use super::store::{Absent, OnOlderFormat, Store};
use super::{server, sqlite, witness};
use crate::policy::{Secret, WitnessAddress, WitnessPlace};

/// Where a ledger is, and its witnesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `sqlite:///path` (or a bare path), or `postgres://…`.
    pub url: Secret,
    pub witnesses: Vec<WitnessAddress>,
}

impl From<&String> for Address {
    /// Without a witness.
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

impl From<&str> for Address {
    /// Without a witness.
    fn from(url: &str) -> Self {
        Self {
            url: url.to_owned().into(),
            witnesses: Vec::new(),
        }
    }
}

impl Address {
    /// Refuses a file of a witness on the disk of a ledger's file. Servers are compared once they
    /// are reached.
    ///
    /// # Errors
    ///
    /// [`Error::SameDisk`]; [`Error::Witness`] where its directory cannot be read.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(ledger) = self.file()? else {
            return Ok(());
        };
        for witness in self.witnesses.iter().filter(|witness| !witness.same_disk) {
            let WitnessPlace::File(path) = &witness.place else {
                continue;
            };
            if witness::is_same_disk(&ledger, path)? {
                return Err(Error::SameDisk {
                    witness: format!("{path:?}"),
                });
            }
        }
        Ok(())
    }

    /// The ledger's place, for people. The address of a server may have a password, and is left
    /// out.
    pub fn place(&self) -> String {
        match is_server(self.url.expose()) {
            true => "schema pgveil_ledger in PostgreSQL".to_owned(),
            false => self.url.expose().to_owned(),
        }
    }

    /// The file of a ledger in SQLite.
    ///
    /// # Errors
    ///
    /// [`Error::Url`].
    pub fn file(&self) -> Result<Option<PathBuf>, Error> {
        if is_server(self.url.expose()) {
            return Ok(None);
        }
        sqlite::path(self.url.expose()).map(Some)
    }
}

fn is_server(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    matches!(scheme, Some("postgres" | "postgresql"))
}

/// Opens the store of a URL: `sqlite:///path` (or a bare path), or `postgres://…`. One that is
/// missing is made: the file readable by its owner only, its directory must exist; the schema
/// `pgveil_ledger` in a database that must exist. One that is there is verified, whole.
///
/// # Errors
///
/// [`Error`]: a store that is foreign, newer or damaged is refused and left as it was.
pub fn open_store(url: &str) -> Result<Box<dyn Store>, Error> {
    store_at(url, Absent::Make, OnOlderFormat::Raise(&|_, _| Ok(())))
}

pub(super) fn store_at(
    url: &str,
    absent: Absent,
    older: OnOlderFormat<'_>,
) -> Result<Box<dyn Store>, Error> {
    match is_server(url) {
        true => Ok(Box::new(server::Server::open(url, absent, older)?)),
        false => Ok(Box::new(sqlite::Sqlite::open(url, absent, older)?)),
    }
}

/// Opens a store that must be there to read it. Returns its format too.
///
/// # Errors
///
/// As [`open_store`]; [`Error::Missing`], [`Error::HalfWritten`].
pub(super) fn look_at(url: &str) -> Result<(Box<dyn Store>, i64), Error> {
    Ok(match is_server(url) {
        true => {
            let (store, format) = server::Server::look(url)?;
            (Box::new(store), format)
        }
        false => {
            let (store, format) = sqlite::Sqlite::look(url)?;
            (Box::new(store), format)
        }
    })
}
