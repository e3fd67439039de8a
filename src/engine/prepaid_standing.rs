//! What a role holds of a question with prepaid periods, and what it lacks.

use super::by_periods::{OPENED, noise_of, now};
use super::period_form::{ONLY, not_by_periods, too_many};
use super::planning_limit::aside;
use super::rollup::SLACK;
use super::shown_periods::{ShownPeriods, ShownPrepaid};
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, internal, ledger_failed};
use crate::calendar::period::{Period, PeriodSet};
use crate::error::Error;
use crate::ledger::{
    Charge, FamilyId, Fingerprint, PrepaidPeriods, PrepaidPrice, PrepaidQuestion, PrepaidStep,
    Purchase, QuestionDigest, drawing,
};
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::policy::Horizon;
use crate::release::{LockedPart, PaidPart, PeriodAnswer, Released, ReleasedTable};
use crate::rewrite::periods::AskedPeriods;
use crate::rewrite::{Plan, UnpaidPart};
use crate::shadow::Requester;

/// The most horizons of one question.
const HORIZONS_MAX: usize = 100;

/// A horizon that a question asks for, as it stands for the role.
pub(super) struct HorizonStanding {
    pub horizon: Horizon,
    /// Its closed periods that are asked for.
    pub asked: PeriodSet,
    pub of: PrepaidQuestion,
    /// The price that the role has paid, or would pay.
    pub price: PrepaidPrice,
    /// The family of the answers at that price.
    pub family: FamilyId,
    /// What is paid for, by this role or by another one at the same price. Nothing outside this
    /// file makes or changes it: it is what the ledger said.
    paid: Option<PrepaidPeriods>,
    /// The answers that the role holds, each with the asked periods that are shown from it.
    pub answers: Vec<(PeriodAnswer, PeriodSet)>,
}

impl HorizonStanding {
    pub fn is_held(&self) -> bool {
        self.paid.as_ref().is_some_and(|paid| paid.is_held)
    }

    pub fn drawn_periods(&self) -> PeriodSet {
        let draws = self.paid.iter().flat_map(|paid| &paid.draws);
        draws.fold(PeriodSet::default(), |all, (first, until)| {
            all.or(&PeriodSet::between(
                Period::of_number(*first),
                Period::of_number(*until),
            ))
        })
    }

    pub fn shown_periods(&self) -> PeriodSet {
        let answers = self.answers.iter();
        answers.fold(PeriodSet::default(), |all, (_, of)| all.or(of))
    }

    /// The periods that the next draw takes: everything from the end of the last one up to the last
    /// that is asked for.
    pub fn next_draw(&self) -> PeriodSet {
        let drawn_to = self.paid.as_ref().and_then(PrepaidPeriods::drawn_to);
        let first = drawn_to.map_or(self.horizon.first, Period::of_number);
        match self.asked.hull() {
            Some((_, end)) => PeriodSet::between(first, end),
            None => PeriodSet::default(),
        }
    }

    /// The asked periods that were drawn and have no answer that the role holds.
    pub fn unanswered_periods(&self) -> PeriodSet {
        match self.is_held() {
            true => self
                .asked
                .and(&self.drawn_periods())
                .without(&self.shown_periods()),
            false => PeriodSet::default(),
        }
    }

    pub fn is_drawing(&self) -> bool {
        self.paid.as_ref().is_some_and(|paid| paid.is_drawing)
    }

    /// The purchase of what the role has not paid for. It draws nothing.
    pub fn payment(&self, table: String, fingerprint: Fingerprint) -> Purchase {
        self.purchase(table, None, fingerprint)
    }

    /// The purchase of what the role has not paid for, and of a draw: [`DrawSnapshot::record`].
    fn purchase(
        &self,
        table: String,
        draw: Option<(Period, Period)>,
        fingerprint: Fingerprint,
    ) -> Purchase {
        let step = PrepaidStep {
            of: self.of,
            table,
            price: self.price,
            seen: self.paid.as_ref().map(PrepaidPeriods::drawn_to),
            draw: draw.map(|(first, until)| (first.number(), until.number())),
        };
        let claim = QuestionDigest {
            digest: drawing(self.family),
            family: None,
            accuracy: f64::MAX,
            loss: self.price.loss,
        };
        Purchase {
            questions: draw.map(|_| claim).into_iter().collect(),
            ..Purchase::prepaid(step, self.is_held(), fingerprint)
        }
    }

    /// The first period in the rows of running totals that the next draw takes, where it takes
    /// some: rows of an earlier draw that led to no answer are missing, so that totals begin anew
    /// after them.
    pub fn block(&self) -> Period {
        let next = self.next_draw().hull().map(|(first, _)| first);
        let ends_here = |of: &&PeriodAnswer| of.periods().hull().map(|(_, end)| end) == next;
        let before = self.answers.iter().map(|(of, _)| of).find(ends_here);
        let block = before.and_then(PeriodAnswer::block);
        block.or(next).unwrap_or(self.horizon.first)
    }

    /// Before the role has paid, it learns nothing of what others did.
    pub fn as_new(&self) -> PeriodSet {
        match self.is_held() {
            true => self.next_draw(),
            false => match self.asked.hull() {
                Some((_, end)) => PeriodSet::between(self.horizon.first, end),
                None => PeriodSet::default(),
            },
        }
    }
}

/// The snapshot of a draw, with the standing that the draw follows.
///
/// # Guarantee
/// The ledger was asked for the standing before the snapshot was opened: [`Self::open`] takes the
/// standing and opens the snapshot itself. Nothing else records a draw, and the snapshot that a
/// recorded draw reads is this one. So it is younger than every draw that the standing has, and the
/// ledger records the draw only if there are no others.
#[must_use = "it holds a connection; record the draw, or close it"]
pub(super) struct DrawSnapshot<'s, 'p> {
    standing: &'s HorizonStanding,
    opened: LockedPart<'p>,
}

/// A draw that the ledger has, with the snapshot that it reads.
#[must_use = "its periods cannot be drawn again"]
pub(super) struct RecordedDraw<'p> {
    opened: LockedPart<'p>,
    charge: Charge,
}

impl<'s, 'p> DrawSnapshot<'s, 'p> {
    /// Opens the snapshot of a draw that follows this standing. No row is read in it before the
    /// draw is recorded.
    pub async fn open(
        standing: &'s HorizonStanding,
        part: UnpaidPart<'p>,
        (engine, requester): (&Engine, &Requester),
        timing: &Timing,
    ) -> Result<Self, Error> {
        let opened = engine.open_snapshot(requester, part, timing).await?;
        Ok(Self { standing, opened })
    }

    /// Whether the database is a standby.
    pub async fn is_of_standby(&self) -> Result<bool, Error> {
        let is_of_standby = self.opened.snapshot().is_of_standby().await;
        is_of_standby.map_err(|e| internal("execute", &e))
    }

    /// Ends the transaction, and keeps the connection.
    pub async fn close(self) {
        self.opened.close().await;
    }

    /// Records the draw of everything that follows the standing, and what was paid for it. `None`,
    /// and the snapshot is closed, where another session drew or opened the horizon meanwhile.
    pub async fn record(
        self,
        (engine, requester): (&Engine, &Requester),
        (table, fingerprint): (String, Fingerprint),
        facts: &StatementFacts,
    ) -> Result<Option<(RecordedDraw<'p>, Loss)>, Error> {
        let Self { standing, opened } = self;
        let draw = standing.next_draw().hull();
        let purchase = standing.purchase(table, draw, fingerprint);
        let loss = price_of(&purchase);
        let Some(charge) = engine.pay(requester, purchase, facts).await? else {
            opened.close().await;
            return Ok(None);
        };
        Ok(Some((RecordedDraw { opened, charge }, loss)))
    }
}

impl<'p> RecordedDraw<'p> {
    /// The part that reads the draw's rows, under the receipt of its record.
    pub fn into_paid(self, known: Released) -> PaidPart<'p> {
        self.opened.with_charge(self.charge, known)
    }
}

/// What the buyer of such a purchase pays.
pub(super) fn price_of(purchase: &Purchase) -> Loss {
    let whole = purchase.fresh.compose(purchase.offered);
    whole.unwrap_or(purchase.fresh)
}

/// What the role holds of a question with prepaid periods.
pub(super) struct PrepaidStanding {
    pub horizons: Vec<HorizonStanding>,
    pub shown: ShownPeriods,
    pub held: HeldMemory,
}

impl Engine {
    /// What the role holds of a question with prepaid periods, and what it lacks.
    pub(super) async fn prepaid_standing(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<PrepaidStanding, Error> {
        let asked = plan.periods().ok_or_else(not_by_periods)?;
        let terms = asked.prepaid().ok_or_else(not_by_periods)?;
        let closed = asked.periods().closed_at(now());
        let wanted = asked.asked_periods().and(&closed);
        let mut held = requester.share.begin();
        let mut horizons = Vec::new();
        for horizon in horizons_of(asked, &wanted)? {
            let of = PrepaidQuestion {
                question: *plan.release(ONLY).question().as_bytes(),
                horizon: horizon.number,
            };
            let known = self.ledger.prepaid(&requester.role, of).await;
            let known = known.map_err(|e| ledger_failed(&e))?;
            let own = PrepaidPrice {
                epsilon: terms.epsilon,
                delta: self.delta(&requester.role),
                loss: plan.loss(),
            };
            let paid = serving(known, &own);
            let family = match &paid {
                Some(paid) => paid.family,
                None => {
                    let family = self.ledger.prepaid_family(of, own);
                    family.await.map_err(|e| ledger_failed(&e))?
                }
            };
            let asked = wanted.and(&horizon.periods());
            let answers = match paid.as_ref().filter(|paid| paid.is_held) {
                Some(_) => {
                    let family = (family, &asked);
                    self.drawn_answers(requester, plan, family, &mut held)
                        .await?
                }
                None => Vec::new(),
            };
            horizons.push(HorizonStanding {
                horizon,
                asked,
                of,
                price: paid.as_ref().map_or(own, |paid| paid.price),
                family,
                paid,
                answers,
            });
        }
        let shown = self.shown_prepaid(plan, &horizons, &closed)?;
        Ok(PrepaidStanding {
            horizons,
            shown,
            held,
        })
    }

    /// The answers of a family, each with the asked periods that are shown from it.
    async fn drawn_answers(
        &self,
        requester: &Requester,
        plan: &Plan,
        (family, asked): (FamilyId, &PeriodSet),
        held: &mut HeldMemory,
    ) -> Result<Vec<(PeriodAnswer, PeriodSet)>, Error> {
        let role = requester.role.as_str();
        let bytes = self.ledger.bytes_of_family(role, family).await;
        let bytes = bytes.map_err(|e| ledger_failed(&e))?;
        let weight = usize::try_from(bytes.saturating_mul(OPENED)).unwrap_or(usize::MAX);
        held.add(weight).map_err(Error::Ledger)?;
        let stored = self.ledger.values_of_family(role, family).await;
        let stored = stored.map_err(|e| ledger_failed(&e))?;
        let answers = aside(|| {
            let read = stored.iter().map(|values| {
                let table = ReleasedTable::read(values)?;
                PeriodAnswer::read(table, plan, ONLY)
            });
            read.collect::<Result<Vec<_>, _>>()
        });
        let answers = answers.map_err(|e| internal("release", &e))?;
        // A period is drawn once.
        let with_shown = answers.into_iter().map(|answer| {
            let shown = asked.and(answer.periods());
            (answer, shown)
        });
        // A running total needs all rows before its own.
        let has_totals = plan.has_totals();
        Ok(with_shown
            .filter(|(_, shown)| has_totals || !shown.is_empty())
            .collect())
    }

    fn shown_prepaid(
        &self,
        plan: &Plan,
        horizons: &[HorizonStanding],
        closed: &PeriodSet,
    ) -> Result<ShownPeriods, Error> {
        let asked = plan.periods().ok_or_else(not_by_periods)?;
        let union = |of: &dyn Fn(&HorizonStanding) -> PeriodSet| {
            let sets = horizons.iter().map(of);
            sets.fold(PeriodSet::default(), |all, one| all.or(&one))
        };
        let held = union(&HorizonStanding::shown_periods);
        let drawing = union(&|one| match one.is_drawing() {
            true => one.unanswered_periods(),
            false => PeriodSet::default(),
        });
        let answers: Vec<_> = horizons
            .iter()
            .flat_map(|one| one.answers.clone())
            .collect();
        let open = asked.asked_periods().without(&closed.or(&held)).hull();
        let unpaid = horizons.iter().filter(|one| !one.is_held());
        Ok(ShownPeriods {
            held: held.count(),
            noise: noise_of(plan.release(ONLY), &answers),
            missing: union(&HorizonStanding::as_new),
            open: open.map(|(first, _)| first),
            few: None,
            earlier: asked.asks_for_earlier().then(|| asked.periods().from),
            prepaid: Some(ShownPrepaid {
                paid: unpaid
                    .map(|one| (one.horizon.first, one.horizon.end))
                    .collect(),
                since: horizons.first().map(|one| one.horizon.first),
                lost: union(&HorizonStanding::unanswered_periods).without(&drawing),
                drawing,
            }),
        })
    }
}

/// The horizons that these periods are in.
///
/// # Errors
/// 54000 where they are too many.
fn horizons_of(asked: &AskedPeriods, wanted: &PeriodSet) -> Result<Vec<Horizon>, Error> {
    let (periods, terms) = (asked.periods(), asked.prepaid());
    let declared = terms.ok_or_else(not_by_periods)?.declared;
    let mut horizons = Vec::new();
    let Some((first, end)) = wanted.hull() else {
        return Ok(horizons);
    };
    let mut at = first;
    while at < end {
        if horizons.len() == HORIZONS_MAX {
            return Err(Error::Rewrite(too_many(wanted, asked).detail(
                "Each horizon of periods has its own price, and these are too many. Nothing was \
                    charged.",
            )));
        }
        let horizon = periods.horizon_of(declared, at);
        at = horizon.end;
        horizons.push(horizon);
    }
    Ok(horizons)
}

/// What serves a session: of what the role has paid for at its price or a higher one, the most
/// accurate; else what another role has opened at exactly its price.
fn serving(known: Vec<PrepaidPeriods>, own: &PrepaidPrice) -> Option<PrepaidPeriods> {
    let accuracy = |one: &PrepaidPeriods| one.price.loss.mu_squared.to_f64();
    let least = own.loss.mu_squared.to_f64() * (1.0 - SLACK);
    let held = known
        .iter()
        .filter(|one| one.is_held && accuracy(one) >= least)
        .max_by(|a, b| accuracy(a).total_cmp(&accuracy(b)));
    let at_price = |one: &&PrepaidPeriods| one.price.loss == own.loss;
    held.or_else(|| known.iter().find(at_price)).cloned()
}
