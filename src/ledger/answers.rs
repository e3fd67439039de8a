//! Stored answers, next to the debits that paid for them: the same question again costs nothing and
//! shows the same values. Also the claims of processes that are making an answer.

use super::charge::{Fingerprint, HistoryEntry};
use super::error::{DebitError, Error};
use super::prepaid_step::PrepaidStep;
use super::rules::Rules;
use super::store::{Row, StoreValue, blob, first_row, loss as columns};
use crate::mechanism::Loss;

/// Identifies a question: a SHA-256 digest of everything that decides the values, except the noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuestionId(pub [u8; 32]);

/// Identifies the questions that one answer may be summed for: a SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FamilyId(pub [u8; 32]);

/// Identifies an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuestionDigest {
    pub digest: QuestionId,
    /// Shared with the coarser questions that the answer may be summed for; `None` where there are
    /// none.
    pub family: Option<FamilyId>,
    /// Grows as noise shrinks. Comparable among answers of one question.
    pub accuracy: f64,
    /// The answer's loss.
    pub loss: Loss,
}

/// A stored answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// The role has paid for it and may see it again.
    Held { released: Vec<u8>, accuracy: f64 },
    /// Made for another role at exactly the loss of this question. The role may see it once it has
    /// paid that loss.
    Offered(AnswerId),
}

/// Identifies a stored answer, by its number and the time at which it was made. The number alone
/// does not do: a crash may lose an answer that another process has seen, and its number is then
/// used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnswerId {
    number: i64,
    /// Microseconds since 1970.
    made: i64,
}

impl AnswerId {
    /// What tells it from every other answer.
    pub fn text(&self) -> String {
        format!("{} {}", self.number, self.made)
    }

    /// The id of a row that begins with the answer's `id` and `microseconds`.
    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            number: row.int(0)?,
            made: row.int(1)?,
        })
    }
}

/// A search's finding. A role sees nothing that depends on it before it has paid:
/// [`super::Ledger::receive`].
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub answer: AnswerId,
    pub question: QuestionId,
    pub loss: Loss,
    pub released: Vec<u8>,
}

/// The newest answer that the owner made for roles to receive, without its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Newest {
    pub answer: AnswerId,
    pub question: QuestionId,
    pub loss: Loss,
    /// Whether the role has paid for it.
    pub is_held: bool,
}

/// Who buys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buyer {
    /// The role, by a question. It learns whether the owner's total refuses it.
    Role,
    /// The owner, in a role's name: for a search, or for a role that pays the price of a search
    /// before it sees what depends on the result.
    Owner,
}

/// A role's payment in one debit.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchase {
    pub buyer: Buyer,
    /// The loss of answers that have to be made. The owner's account pays it too.
    pub fresh: Loss,
    /// The later payment for the same statement. It is refused now if it would not fit then, but it
    /// is not debited.
    pub later: Loss,
    /// The loss of answers that were made for other roles. The owner has paid it.
    pub offered: Loss,
    /// The role holds these answers from then on.
    pub answers: Vec<AnswerId>,
    /// The part of the plan that the charge covers: the part that is made.
    pub fingerprint: Fingerprint,
    /// The purchase's name in the history. It does not show whether an answer was made before for
    /// another role.
    pub bought: Fingerprint,
    /// The entry of an earlier debit of the same statement, which this one adds to.
    pub follows: Option<HistoryEntry>,
    /// The questions of the fresh part that no other process may answer at the same time; empty
    /// where the role asks for fresh noise.
    pub questions: Vec<QuestionDigest>,
    /// How many answers of a family the role held when it was decided what to buy. Where it holds
    /// others by now, nothing is bought.
    pub held_before: Option<(FamilyId, u64)>,
    /// The most debits of the role whose names begin as `bought` does ([`SeriesId`]). Where it has
    /// as many, nothing is bought.
    pub series_max: Option<u32>,
    /// The prepaid periods that it pays for or draws, if it does.
    pub prepaid: Option<PrepaidStep>,
}

/// Identifies debits that are counted together, for ever: the first bytes of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesId([u8; Self::BYTES]);

impl SeriesId {
    const BYTES: usize = 16;

    /// The series of a digest.
    pub fn new(digest: [u8; 32]) -> Self {
        Self::of(&Fingerprint::new(digest))
    }

    /// The series of a debit of this name.
    pub(super) fn of(name: &Fingerprint) -> Self {
        let mut first = [0; Self::BYTES];
        first.copy_from_slice(&name.as_bytes()[..Self::BYTES]);
        Self(first)
    }

    /// The name of one debit of the series.
    pub fn name(self, of_debit: [u8; Self::BYTES]) -> Fingerprint {
        let mut name = [0; 32];
        name[..Self::BYTES].copy_from_slice(&self.0);
        name[Self::BYTES..].copy_from_slice(&of_debit);
        Fingerprint::new(name)
    }
}

impl Purchase {
    /// A purchase of answers that have to be made, all in this debit.
    pub fn fresh(
        buyer: Buyer,
        loss: Loss,
        fingerprint: Fingerprint,
        questions: Vec<QuestionDigest>,
    ) -> Self {
        Self {
            buyer,
            fresh: loss,
            later: Loss::ZERO,
            offered: Loss::ZERO,
            answers: Vec::new(),
            fingerprint,
            bought: fingerprint,
            follows: None,
            questions,
            held_before: None,
            series_max: None,
            prepaid: None,
        }
    }
}

/// How a search for a stored answer ended.
pub(super) enum AnswerSearch {
    Ended(Option<Stored>),
    /// The role holds an answer that has more bytes than were to be read.
    Longer,
}

/// Accuracies closer than this are equal: both come from the same computation.
const SLACK: f64 = 1e-9;

/// How many answers of one family are looked through, each to another question.
const RELATIVES_MAX: i64 = 128;

/// How many bytes these answers may have together.
const RELATIVES_BYTES_MAX: i64 = 2_097_152;

/// The longest answer that is ever summed, in bytes: every question, and EXPLAIN, which is free,
/// reads the relatives.
const RELATIVE_BYTES_MAX: i64 = 262_144;

/// Stored answers of one family that the role holds, within the limits above. The values are read
/// only for the answers that pass.
const RELATIVES: &str = "
WITH held AS (
  SELECT answer.id, question, length(released) AS bytes, row_number() OVER (PARTITION BY question \
  ORDER BY accuracy DESC, answer.id DESC) AS place
  FROM family JOIN answer ON answer.id = family.answer JOIN holder ON holder.answer = answer.id
  WHERE family.digest = $1 AND holder.role = $2 AND length(released) <= CAST($3 AS bigint)
), listed AS (
  SELECT id, sum(bytes) OVER sooner AS bytes, row_number() OVER sooner AS number FROM held
  WHERE place = 1 WINDOW sooner AS (ORDER BY question ROWS UNBOUNDED PRECEDING)
)
SELECT released FROM listed JOIN answer ON answer.id = listed.id
WHERE bytes <= CAST($4 AS bigint) AND number <= CAST($5 AS bigint) ORDER BY number";

impl Rules {
    /// The most accurate answer that the role holds and that is accurate enough; otherwise an
    /// answer of exactly the question's loss that is not among `taken`. An answer of more than
    /// `bytes_max` is not read.
    pub(super) fn find(
        &mut self,
        role: &str,
        question: &QuestionDigest,
        taken: &[AnswerId],
        bytes_max: i64,
    ) -> Result<AnswerSearch, Error> {
        let role = self.role(role)?.id;
        self.find_for(role, question, taken, bytes_max)
    }

    fn find_for(
        &mut self,
        role: i64,
        question: &QuestionDigest,
        taken: &[AnswerId],
        bytes_max: i64,
    ) -> Result<AnswerSearch, Error> {
        let QuestionDigest {
            digest,
            family: _,
            accuracy,
            loss,
        } = question;
        let least = StoreValue::Real(accuracy * (1.0 - SLACK));
        let sql =
            "SELECT CASE WHEN length(released) <= CAST($1 AS bigint) THEN released END, accuracy \
            FROM answer JOIN holder ON holder.answer = answer.id AND holder.role = $2
                   WHERE question = $3 AND accuracy >= $4 ORDER BY accuracy DESC, id DESC LIMIT 1";
        let held = self.store.query(
            sql,
            &[
                StoreValue::Int(bytes_max),
                StoreValue::Int(role),
                blob(&digest.0),
                least.clone(),
            ],
        )?;
        if let Some(row) = held.first() {
            if row.is_null(0) {
                return Ok(AnswerSearch::Longer);
            }
            return Ok(AnswerSearch::Ended(Some(Stored::Held {
                released: row.blob(0)?.to_vec(),
                accuracy: row.real(1)?,
            })));
        }
        // An answer with another loss would reveal that another role has asked before. The oldest
        // answer comes first. So if one statement buys two of them, the second is the newer one, as
        // if both were made now.
        let [epsilon, rho, mu_squared, delta] = columns(loss);
        let sql = "SELECT id, microseconds FROM answer WHERE question = $1 AND accuracy >= $2 AND \
            epsilon IS NOT DISTINCT FROM $3 AND rho = $4 AND mu_squared = $5 AND delta = $6
                   ORDER BY id LIMIT $7";
        let rows_max = StoreValue::Int(
            i64::try_from(taken.len())
                .unwrap_or(i64::MAX)
                .saturating_add(1),
        );
        let found = self.store.query(
            sql,
            &[
                blob(&digest.0),
                least,
                epsilon,
                rho,
                mu_squared,
                delta,
                rows_max,
            ],
        )?;
        let answers = found
            .iter()
            .map(AnswerId::of)
            .collect::<Result<Vec<_>, _>>()?;
        let mut answers = answers.into_iter();
        let free = answers.find(|answer| !taken.contains(answer));
        Ok(AnswerSearch::Ended(free.map(Stored::Offered)))
    }

    /// The newest answer to the question, whatever its loss and for any role.
    pub(super) fn newest_of_owner(&mut self, question: QuestionId) -> Result<Option<Found>, Error> {
        let sql = "SELECT id, microseconds, epsilon, rho, mu_squared, delta, released FROM answer \
            WHERE question = $1 ORDER BY id DESC LIMIT 1";
        let rows = self.store.query(sql, &[blob(&question.0)])?;
        let found = |row: &Row| {
            Ok(Found {
                answer: AnswerId::of(row)?,
                question,
                loss: row.loss(2)?,
                released: row.blob(6)?.to_vec(),
            })
        };
        rows.first().map(found).transpose()
    }

    /// The newest answer without its values, and whether the role holds it.
    pub(super) fn newest(
        &mut self,
        role: &str,
        question: QuestionId,
    ) -> Result<Option<Newest>, Error> {
        // SQLite numbers parameters as they come.
        let sql = "SELECT id, microseconds, epsilon, rho, mu_squared, delta, \
                     (SELECT count(*) FROM holder WHERE answer = id AND role = $1) FROM answer \
                   WHERE question = $2 ORDER BY id DESC LIMIT 1";
        let role = StoreValue::Int(self.role(role)?.id);
        let rows = self.store.query(sql, &[role, blob(&question.0)])?;
        let newest = |row: &Row| {
            Ok(Newest {
                answer: AnswerId::of(row)?,
                question,
                loss: row.loss(2)?,
                is_held: row.int(6)? > 0,
            })
        };
        rows.first().map(newest).transpose()
    }

    /// Debits the role for an answer that it does not hold yet.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn receive(
        &mut self,
        role: &str,
        (answer, question, loss): (AnswerId, QuestionId, Loss),
    ) -> Result<Result<bool, DebitError>, Error> {
        if self.values_held_by(role, answer)?.is_some() {
            return Ok(Ok(false));
        }
        let fingerprint = Fingerprint::new(question.0);
        let purchase = Purchase {
            offered: loss,
            answers: vec![answer],
            ..Purchase::fresh(Buyer::Owner, Loss::ZERO, fingerprint, Vec::new())
        };
        Ok(self.purchase(role, &purchase)?.map(|_| true))
    }

    /// The values of an answer that the role holds.
    pub(super) fn values_held_by(
        &mut self,
        role: &str,
        answer: AnswerId,
    ) -> Result<Option<Vec<u8>>, Error> {
        let sql = "SELECT released FROM answer JOIN holder ON holder.answer = answer.id WHERE \
            holder.role = $1 AND answer.id = $2 AND answer.microseconds = $3";
        let role = StoreValue::Int(self.role(role)?.id);
        let rows = self.store.query(
            sql,
            &[
                role,
                StoreValue::Int(answer.number),
                StoreValue::Int(answer.made),
            ],
        )?;
        rows.first()
            .map(|row| row.blob(0).map(<[u8]>::to_vec))
            .transpose()
    }

    /// The values of the answers of a family that the role holds, of each question the one that is
    /// shown again. Answers of other roles are left out, and so are those that are too large to be
    /// summed; of very many, those with the last digests.
    ///
    /// The order depends on neither the noise nor the time. An order by noise would prefer some
    /// values; the order in which answers were made would show which of them another role had
    /// asked for before.
    pub(super) fn relatives(
        &mut self,
        role: &str,
        family: FamilyId,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let rows = self.store.query(
            RELATIVES,
            &[
                blob(&family.0),
                StoreValue::Int(self.role(role)?.id),
                StoreValue::Int(RELATIVE_BYTES_MAX),
                StoreValue::Int(RELATIVES_BYTES_MAX),
                StoreValue::Int(RELATIVES_MAX),
            ],
        )?;
        rows.iter()
            .map(|row| row.blob(0).map(<[u8]>::to_vec))
            .collect()
    }

    /// Stores an answer that the role has paid for, and ends the claim on its question.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn keep(
        &mut self,
        role: &str,
        question: &QuestionDigest,
        released: &[u8],
    ) -> Result<(), Error> {
        let QuestionDigest {
            digest,
            family,
            accuracy,
            loss,
        } = question;
        let (role, now) = (self.role(role)?.id, self.clock.now());
        let [epsilon, rho, mu_squared, delta] = columns(loss);
        let sql = "INSERT INTO answer (id, question, accuracy, microseconds, epsilon, rho, \
            mu_squared, delta, released)
                   VALUES ((SELECT coalesce(max(id), 0) + 1 FROM answer), $1, $2, $3, $4, $5, $6, \
                   $7, $8) RETURNING id, microseconds";
        let made = self.store.query(
            sql,
            &[
                blob(&digest.0),
                StoreValue::Real(*accuracy),
                StoreValue::Int(now),
                epsilon,
                rho,
                mu_squared,
                delta,
                blob(released),
            ],
        )?;
        let answer = AnswerId::of(first_row(&made)?)?;
        if let Some(family) = family {
            self.store.query(
                "INSERT INTO family (answer, digest) VALUES ($1, $2)",
                &[StoreValue::Int(answer.number), blob(&family.0)],
            )?;
            self.hold_drawn(answer.number, *family)?;
        }
        self.release(&[*digest])?;
        self.hold(role, answer)
    }

    pub(super) fn hold(&mut self, role: i64, answer: AnswerId) -> Result<(), Error> {
        self.store.query(
            "INSERT INTO holder (role, answer) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[StoreValue::Int(role), StoreValue::Int(answer.number)],
        )?;
        Ok(())
    }

    /// Whether each of these answers is still stored.
    pub(super) fn are_stored(&mut self, answers: &[AnswerId]) -> Result<bool, Error> {
        let sql = "SELECT id FROM answer WHERE id = $1 AND microseconds = $2";
        for answer in answers {
            let identity = [StoreValue::Int(answer.number), StoreValue::Int(answer.made)];
            if self.store.query(sql, &identity)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether one of the questions was answered since it was looked up, or is being answered by
    /// another process.
    pub(super) fn is_awaited(
        &mut self,
        role: i64,
        questions: &[QuestionDigest],
        taken: &[AnswerId],
        now: i64,
    ) -> Result<bool, Error> {
        for question in questions {
            match self.find_for(role, question, taken, 0)? {
                AnswerSearch::Ended(None) => {}
                AnswerSearch::Ended(Some(_)) | AnswerSearch::Longer => return Ok(true),
            }
        }
        let digests: Vec<QuestionId> = questions.iter().map(|question| question.digest).collect();
        self.is_claimed(&digests, now)
    }
}
