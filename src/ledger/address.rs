//! Where a ledger is, and how its store is opened.

use std::path::PathBuf;

use super::error::Error;
use super::store::{Absent, Store};
use super::{server, sqlite, witness};
use crate::policy::{Secret, WitnessFile};

/// Where a ledger is, and its witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `sqlite:///path` (or a bare path), or `postgres://…`.
    pub url: Secret,
    pub witness: Option<WitnessFile>,
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
            witness: None,
        }
    }
}

impl Address {
    /// # Errors
    ///
    /// [`Error::SameDisk`]; [`Error::Witness`] where its directory cannot be read.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(witness) = self.witness.as_ref().filter(|witness| !witness.same_disk) else {
            return Ok(());
        };
        let Some(ledger) = self.file()? else {
            return Ok(());
        };
        match witness::is_same_disk(&ledger, &witness.path)? {
            false => Ok(()),
            true => Err(Error::SameDisk {
                path: witness.path.clone(),
            }),
        }
    }

    /// Where it is, for people: the address of a server may hold a password, and is left out.
    pub fn place(&self) -> String {
        match is_server(self.url.expose()) {
            true => "schema pgveil_ledger in PostgreSQL".to_owned(),
            false => self.url.expose().to_owned(),
        }
    }

    /// The file of a ledger in SQLite.
    pub(super) fn file(&self) -> Result<Option<PathBuf>, Error> {
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
    store_at(url, Absent::Make)
}

pub(super) fn store_at(url: &str, absent: Absent) -> Result<Box<dyn Store>, Error> {
    match is_server(url) {
        true => Ok(Box::new(server::Server::open(url, absent)?)),
        false => Ok(Box::new(sqlite::Sqlite::open(url, absent)?)),
    }
}
