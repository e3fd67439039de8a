//! Released answers, kept beside the debits that paid for them: the same question again costs nothing, and shows the same values.

use std::time::SystemTime;

use rusqlite::{OptionalExtension, params};

use super::charge::Fingerprint;
use super::error::{DebitError, Error};
use super::sqlite::{Store, blobs, loss_at, microseconds};
use crate::mechanism::Loss;

/// Added to the first format. An answer belongs to the question, a receipt says that a role paid for an answer that was made for another role, and a holder
/// may see the answer again.
pub(super) const SCHEMA: &str = "
CREATE TABLE answer (
  id INTEGER PRIMARY KEY,
  question BLOB NOT NULL CHECK (length(question) = 32),
  accuracy REAL NOT NULL,
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  released BLOB NOT NULL
) STRICT;
CREATE INDEX answer_question ON answer (question, accuracy);
CREATE TABLE holder (
  role INTEGER NOT NULL REFERENCES account (id),
  answer INTEGER NOT NULL REFERENCES answer (id),
  PRIMARY KEY (role, answer)
) STRICT;
CREATE TABLE receipt (
  id INTEGER PRIMARY KEY,
  role INTEGER NOT NULL REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32)
) STRICT;
CREATE INDEX receipt_role ON receipt (role, id);
CREATE TRIGGER answer_update BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'a released answer is never changed'); END;
CREATE TRIGGER receipt_update BEFORE UPDATE ON receipt BEGIN SELECT RAISE(ABORT, 'a receipt is never changed'); END;
CREATE TRIGGER receipt_delete BEFORE DELETE ON receipt BEGIN SELECT RAISE(ABORT, 'a receipt is never removed'); END;
";

/// What an answer is known by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Question {
    /// A SHA-256 digest of all that decides the values, but for the noise.
    pub digest: [u8; 32],
    /// Grows as noise shrinks; comparable among answers of one question.
    pub accuracy: f64,
    /// What the answer costs.
    pub loss: Loss,
}

/// An answer of the ledger to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Paid by the role: its to see again.
    Held(Vec<u8>),
    /// Made for another role, at the very loss of the question; to be seen once this role has paid that.
    Offered(AnswerId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerId(i64);

/// What a role pays in one debit.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchase {
    /// Of answers to be made: the owner's account pays too.
    pub fresh: Loss,
    /// Of answers made before for other roles: the owner has paid.
    pub offered: Loss,
    /// The role holds these from then on.
    pub answers: Vec<AnswerId>,
    pub fingerprint: Fingerprint,
}

/// Two accuracies that differ less are one: both come from the same computation.
const SLACK: f64 = 1e-9;

impl Store {
    /// The most accurate answer that the role holds and that is accurate enough; else one of exactly the question's loss.
    pub(super) fn find(&self, role: &str, question: &Question) -> Result<Option<Stored>, Error> {
        let role = self.role(role)?.id;
        let least = question.accuracy * (1.0 - SLACK);
        let sql = "SELECT released FROM answer JOIN holder ON holder.answer = answer.id AND holder.role = ?1
                   WHERE question = ?2 AND accuracy >= ?3 ORDER BY accuracy DESC, id DESC LIMIT 1";
        let held = self.connection.prepare_cached(sql)?.query_row(params![role, question.digest, least], |row| row.get(0)).optional()?;
        if let Some(released) = held {
            return Ok(Some(Stored::Held(released)));
        }
        // Any other loss would tell the role that somebody has asked before.
        let sql = "SELECT id FROM answer WHERE question = ?1 AND accuracy >= ?2 AND epsilon IS ?3 AND rho = ?4 AND mu_squared = ?5 AND delta = ?6
                   ORDER BY id DESC LIMIT 1";
        let [epsilon, rho, mu_squared, delta] = blobs(&question.loss);
        let found =
            self.connection.prepare_cached(sql)?.query_row(params![question.digest, least, epsilon, rho, mu_squared, delta], |row| row.get(0));
        Ok(found.optional()?.map(|id| Stored::Offered(AnswerId(id))))
    }

    /// The values of an answer that the role holds.
    pub(super) fn held(&self, role: &str, answer: AnswerId) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT released FROM answer JOIN holder ON holder.answer = answer.id WHERE holder.role = ?1 AND answer.id = ?2";
        Ok(self.connection.prepare_cached(sql)?.query_row(params![self.role(role)?.id, answer.0], |row| row.get(0)).optional()?)
    }

    /// Debits the role for everything, the owner for what is fresh, or neither.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn purchase(&self, role: &str, purchase: &Purchase) -> Result<Result<(), DebitError>, Error> {
        let Purchase { fresh, offered, answers, fingerprint } = purchase;
        let Some(whole) = fresh.compose(*offered) else {
            return self.exhausted(role, *fresh).map(Err);
        };
        let account = self.role(role)?;
        let spent = self.spent(account)?;
        if !account.cap.admits(&spent, &whole) {
            return self.exhausted(role, whole).map(Err);
        }
        if !fresh.is_zero()
            && let Err(refused) = self.debit(role, fresh, fingerprint)?
        {
            return Ok(Err(refused));
        }
        if !offered.is_zero() {
            let Some(total) = spent.compose(whole) else { return self.exhausted(role, whole).map(Err) };
            self.set_spent(account, &total)?;
            let sql = "INSERT INTO receipt (role, microseconds, epsilon, rho, mu_squared, delta, fingerprint) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
            let [epsilon, rho, mu_squared, delta] = blobs(offered);
            let now = microseconds(SystemTime::now());
            self.connection.prepare_cached(sql)?.execute(params![account.id, now, epsilon, rho, mu_squared, delta, fingerprint.as_bytes()])?;
        }
        for answer in answers {
            self.hold(account.id, *answer)?;
        }
        Ok(Ok(()))
    }

    /// Keeps an answer that the role has paid for.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn keep(&self, role: &str, question: &Question, released: &[u8]) -> Result<(), Error> {
        let Question { digest, accuracy, loss } = question;
        let role = self.role(role)?.id;
        let sql = "INSERT INTO answer (question, accuracy, microseconds, epsilon, rho, mu_squared, delta, released) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let [epsilon, rho, mu_squared, delta] = blobs(loss);
        let now = microseconds(SystemTime::now());
        self.connection.prepare_cached(sql)?.execute(params![digest, accuracy, now, epsilon, rho, mu_squared, delta, released])?;
        self.hold(role, AnswerId(self.connection.last_insert_rowid()))
    }

    fn hold(&self, role: i64, answer: AnswerId) -> Result<(), Error> {
        self.connection.prepare_cached("INSERT OR IGNORE INTO holder (role, answer) VALUES (?1, ?2)")?.execute(params![role, answer.0])?;
        Ok(())
    }

    fn exhausted(&self, role: &str, needs: Loss) -> Result<DebitError, Error> {
        Ok(DebitError::Exhausted { role: role.to_owned(), needs, balance: Box::new(self.balance(self.role(role)?)?) })
    }
}

/// Sums of all receipts by account, for the check of the whole file.
pub(super) fn receipts(snapshot: &rusqlite::Connection) -> rusqlite::Result<Vec<(i64, Loss)>> {
    let mut statement = snapshot.prepare("SELECT epsilon, rho, mu_squared, delta, role FROM receipt")?;
    statement.query_map([], |row| Ok((row.get(4)?, loss_at(row)?)))?.collect()
}
