//! Prepaid periods: one debit pays for all periods of a horizon, which are drawn as they close.
//!
//! # Guarantee
//! A draw takes the periods from where the last one ended, and is durable before its statement
//! runs. So each period is drawn once, by whichever process, and draws follow each other in the
//! order of their periods. A draw is recorded only if nothing was drawn since `seen` was read: the
//! snapshot that a process opens between the two is younger than every earlier draw's.
//!
//! A draw is a debit, of nothing where its periods were paid for before. So the ledger's height
//! grows with each, and an older copy, which would draw periods again, is noticed. What was prepaid
//! before a restoration is not drawn any more: its draws since the backup are not known.

use sha2::{Digest, Sha256};

use super::Ledger;
use super::Purchase;
use super::answers::{FamilyId, QuestionId};
use super::charge::Fingerprint;
use super::clock::LEASE;
use super::error::{DebitError, Error};
use super::prepaid_step::{PrepaidPrice, PrepaidQuestion, PrepaidStep};
use super::rules::{DEBIT, Rules};
use super::store::{Access, Row, StoreValue, blob, loss as columns, text_value};
use crate::mechanism::Loss;

/// Prepaid periods as the ledger has them.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepaidPeriods {
    /// The family of their answers.
    pub family: FamilyId,
    pub price: PrepaidPrice,
    /// Whether the role has paid for them.
    pub is_held: bool,
    /// The numbers of the periods that each draw took, from and before, in their order.
    pub draws: Vec<(i64, i64)>,
    /// Whether some process is drawing just now.
    pub is_drawing: bool,
}

impl PrepaidPeriods {
    /// The number of the first period that is not drawn; `None` before the first draw.
    pub fn drawn_to(&self) -> Option<i64> {
        self.draws.last().map(|(_, until)| *until)
    }
}

/// The claim on drawing of a family, which keeps two processes from trying at once.
pub fn drawing(family: FamilyId) -> QuestionId {
    let mut digest = Sha256::new();
    digest.update(b"drawing prepaid periods 1\n");
    digest.update(family.0);
    QuestionId(digest.finalize().into())
}

const COLUMNS: &str = "SELECT p.id, p.family, p.asked_epsilon, p.asked_delta, p.epsilon, p.rho, \
    p.mu_squared, p.delta, \
    (SELECT count(*) FROM prepaid_holder AS h WHERE h.prepaid = p.id AND h.role = $1), \
    (SELECT count(*) FROM prepaid_draw AS d WHERE d.prepaid = p.id) FROM prepaid AS p WHERE \
    p.question = $2 AND p.horizon = $3 AND p.generation = $4 ORDER BY p.id";

impl Rules {
    fn family(&mut self, of: PrepaidQuestion, price: &PrepaidPrice) -> Result<FamilyId, Error> {
        let height = self.height()?;
        let mut digest = Sha256::new();
        digest.update(b"prepaid periods 1\n");
        digest.update(height.birth);
        digest.update(height.generation.to_be_bytes());
        digest.update(of.question);
        digest.update(of.horizon.to_be_bytes());
        digest.update(price.loss.mu_squared.0.to_be_bytes());
        Ok(FamilyId(digest.finalize().into()))
    }

    /// What is prepaid of a horizon, at every price, in the order of its opening.
    fn prepaid(&mut self, role: i64, of: PrepaidQuestion) -> Result<Vec<PrepaidPeriods>, Error> {
        let generation = self.height()?.generation;
        let values = [
            StoreValue::Int(role),
            blob(&of.question),
            StoreValue::Int(of.horizon),
            StoreValue::Int(generation),
        ];
        let rows = self.store.query(COLUMNS, &values)?;
        let read: Vec<Result<PrepaidPeriods, Error>> = rows
            .iter()
            .map(|row| {
                let family = FamilyId(row.digest(1)?);
                Ok(PrepaidPeriods {
                    family,
                    price: PrepaidPrice {
                        epsilon: row.real(2)?,
                        delta: row.real(3)?,
                        loss: row.loss(4)?,
                    },
                    is_held: row.int(8)? > 0,
                    draws: self.draws(row.int(0)?)?,
                    is_drawing: self.is_drawing(family)?,
                })
            })
            .collect();
        read.into_iter().collect()
    }

    fn draws(&mut self, prepaid: i64) -> Result<Vec<(i64, i64)>, Error> {
        let sql = "SELECT first, until FROM prepaid_draw WHERE prepaid = $1 ORDER BY first";
        let rows = self.store.query(sql, &[StoreValue::Int(prepaid)])?;
        let draw = |row: &Row| Ok((row.int(0)?, row.int(1)?));
        rows.iter().map(draw).collect()
    }

    /// Whether a process, this one or another, holds the claim.
    fn is_drawing(&mut self, family: FamilyId) -> Result<bool, Error> {
        let now = self.clock.now();
        let sql = "SELECT until FROM claim WHERE question = $1";
        let rows = self.store.query(sql, &[blob(&drawing(family).0)])?;
        let until = rows.first().map(|row| row.int(0)).transpose()?;
        // A claim far in the future comes from a wrong clock.
        Ok(until.is_some_and(|until| now < until && until <= now.saturating_add(2 * LEASE)))
    }

    /// Debits what the role owes for prepaid periods, and records the draw.
    ///
    /// # Requires
    /// A `Write` transaction is open.
    pub(super) fn step(
        &mut self,
        role: &str,
        (purchase, step): (&Purchase, &PrepaidStep),
    ) -> Result<Result<i64, DebitError>, Error> {
        let account = self.role(role)?;
        let family = self.family(step.of, &step.price)?;
        let all = self.prepaid(account.id, step.of)?;
        let stands = all.iter().find(|one| one.family == family);
        let price = step.price.loss;
        let owed = match stands {
            None => (price, Loss::ZERO),
            Some(held) if held.is_held => (Loss::ZERO, Loss::ZERO),
            Some(_) => (Loss::ZERO, price),
        };
        let now = stands.map(PrepaidPeriods::drawn_to);
        let follows = |(first, until): (i64, i64)| {
            until > first && now.flatten().is_none_or(|drawn| drawn == first)
        };
        // A payment alone reads nothing: what was drawn meanwhile makes no difference to it.
        let is_as_seen =
            (purchase.fresh, purchase.offered) == owed && (step.draw.is_none() || now == step.seen);
        if !is_as_seen || !step.draw.is_none_or(follows) {
            return Ok(Err(DebitError::Awaited));
        }
        let shown = match self.debit(role, purchase)? {
            Ok(shown) => shown,
            Err(refused) => return Ok(Err(refused)),
        };
        let is_draw_alone = purchase.fresh.is_zero() && step.draw.is_some();
        if is_draw_alone {
            let Purchase { bought, .. } = purchase;
            self.append(DEBIT, account.id, shown, &Loss::ZERO, bought)?;
        }
        let id = self.open_prepaid(stands.is_none(), family, step)?;
        self.hold_prepaid(account.id, id, family)?;
        if let Some((first, until)) = step.draw {
            let sql = "INSERT INTO prepaid_draw (prepaid, first, until, debit) VALUES ($1, $2, $3, \
                (SELECT max(id) FROM debit))";
            let values = [id, first, until].map(StoreValue::Int);
            self.store.query(sql, &values)?;
        }
        Ok(Ok(shown))
    }

    /// The number of what was prepaid; it is written where it is new.
    fn open_prepaid(
        &mut self,
        is_new: bool,
        family: FamilyId,
        step: &PrepaidStep,
    ) -> Result<i64, Error> {
        if is_new {
            let [epsilon, rho, mu_squared, delta] = columns(&step.price.loss);
            let sql = "INSERT INTO prepaid (id, family, question, horizon, generation, name, \
                asked_epsilon, asked_delta, epsilon, rho, mu_squared, delta, debit)
                       VALUES ((SELECT coalesce(max(id), 0) + 1 FROM prepaid), $1, $2, $3, $4, $5, \
                       $6, $7, $8, $9, $10, $11, (SELECT max(id) FROM debit))";
            let generation = self.height()?.generation;
            let values = [
                blob(&family.0),
                blob(&step.of.question),
                StoreValue::Int(step.of.horizon),
                StoreValue::Int(generation),
                text_value(&step.table),
                StoreValue::Real(step.price.epsilon),
                StoreValue::Real(step.price.delta),
                epsilon,
                rho,
                mu_squared,
                delta,
            ];
            self.store.query(sql, &values)?;
        }
        let sql = "SELECT id FROM prepaid WHERE family = $1";
        let rows = self.store.query(sql, &[blob(&family.0)])?;
        super::store::first_row(&rows)?.int(0)
    }

    /// The role holds every answer that was drawn, and those that will be.
    fn hold_prepaid(&mut self, role: i64, prepaid: i64, family: FamilyId) -> Result<(), Error> {
        let sql = "INSERT INTO prepaid_holder (role, prepaid) VALUES ($1, $2) ON CONFLICT DO \
            NOTHING";
        self.store
            .query(sql, &[StoreValue::Int(role), StoreValue::Int(prepaid)])?;
        let sql = "INSERT INTO holder (role, answer) SELECT CAST($1 AS bigint), answer FROM family \
            WHERE digest = $2 ON CONFLICT DO NOTHING";
        self.store
            .query(sql, &[StoreValue::Int(role), blob(&family.0)])?;
        Ok(())
    }

    /// An answer that was drawn is held by everybody who has paid for its horizon.
    pub(super) fn hold_drawn(&mut self, answer: i64, family: FamilyId) -> Result<(), Error> {
        let sql = "INSERT INTO holder (role, answer) SELECT h.role, CAST($1 AS bigint) FROM \
            prepaid AS p JOIN prepaid_holder AS h ON h.prepaid = p.id WHERE p.family = $2 ON \
            CONFLICT DO NOTHING";
        self.store
            .query(sql, &[StoreValue::Int(answer), blob(&family.0)])?;
        Ok(())
    }
}

/// A horizon that a role has paid for.
#[derive(Debug, Clone, PartialEq)]
pub struct PaidHorizon {
    /// `schema.table`.
    pub table: String,
    pub question: QuestionId,
    pub horizon: i64,
    pub price: PrepaidPrice,
    /// The number of the first period that is not drawn.
    pub drawn_to: Option<i64>,
}

const OF_ROLE: &str = "SELECT p.name, p.question, p.horizon, p.asked_epsilon, p.asked_delta, \
    p.epsilon, p.rho, \
    p.mu_squared, p.delta, (SELECT max(until) FROM prepaid_draw AS d WHERE d.prepaid = p.id) FROM \
    prepaid AS p JOIN prepaid_holder AS h ON h.prepaid = p.id WHERE h.role = $1 AND p.generation = \
    $2 ORDER BY p.id";

impl Ledger {
    /// The horizons that a role has paid for and whose periods are drawn for it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn paid_horizons(&self, role: &str) -> Result<Vec<PaidHorizon>, Error> {
        let role = self.require_role(role)?;
        let horizon = |row: &Row| {
            Ok(PaidHorizon {
                table: row.text(0)?.to_owned(),
                question: QuestionId(row.digest(1)?),
                horizon: row.int(2)?,
                price: PrepaidPrice {
                    epsilon: row.real(3)?,
                    delta: row.real(4)?,
                    loss: row.loss(5)?,
                },
                drawn_to: match row.is_null(9) {
                    true => None,
                    false => Some(row.int(9)?),
                },
            })
        };
        self.worker
            .call(Access::Read, move |rules| {
                let role = rules.role(&role)?.id;
                let generation = rules.height()?.generation;
                let values = [role, generation].map(StoreValue::Int);
                rules
                    .store
                    .query(OF_ROLE, &values)?
                    .iter()
                    .map(horizon)
                    .collect()
            })
            .await
    }

    /// The family of the answers for a horizon at a price.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepaid_family(
        &self,
        of: PrepaidQuestion,
        price: PrepaidPrice,
    ) -> Result<FamilyId, Error> {
        self.worker
            .call(Access::Read, move |rules| rules.family(of, &price))
            .await
    }

    /// What is prepaid of a horizon, at every price, in the order of its opening.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn prepaid(
        &self,
        role: &str,
        of: PrepaidQuestion,
    ) -> Result<Vec<PrepaidPeriods>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| {
                let role = rules.role(&role)?.id;
                rules.prepaid(role, of)
            })
            .await
    }
}

impl Purchase {
    /// A purchase of prepaid periods: the role opens them, or pays what was paid by whoever did.
    pub fn prepaid(step: PrepaidStep, is_held: bool, fingerprint: Fingerprint) -> Self {
        let (fresh, offered) = match (step.seen, is_held) {
            (None, _) => (step.price.loss, Loss::ZERO),
            (Some(_), true) => (Loss::ZERO, Loss::ZERO),
            (Some(_), false) => (Loss::ZERO, step.price.loss),
        };
        // What was paid for is drawn for a role whose account the total has closed, too.
        let buyer = match is_held {
            true => super::Buyer::Owner,
            false => super::Buyer::Role,
        };
        Self {
            offered,
            prepaid: Some(step),
            ..Self::fresh(buyer, fresh, fingerprint, Vec::new())
        }
    }
}
