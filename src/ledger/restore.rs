//! Backups of a ledger, and their restoration, which never gives budget back.

use std::path::Path;

use super::AccountSpec;
use super::accounts::{Account, AccountTerms, open_account};
use super::address::{Address, look_at, store_at};
use super::charge::Fingerprint;
use super::clock::Clock;
use super::compare_witnesses::{Attest, open_witnesses};
use super::error::Error;
use super::grants::{Act, Decision};
use super::record::Origin;
use super::rules::{AccountStanding, DEBIT, RECEIPT, Rules};
use super::sqlite::{self, Sqlite};
use super::store::{Absent, Access, OnOlderFormat, Store, StoreValue, text_value};
use super::upgrade::check_readable;
use super::witness::{self, Sums, Witness, WitnessReport, WitnessedHeight};
use crate::mechanism::{Accounting, Cap, Fixed, Loss, loss_laplace};
use crate::policy::Renew;

/// The account that carries what the owner's total is charged at a restoration.
const RESTORED: &str = "(restored)";

/// What a restoration did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Whether a witness knew the spending. Without one, every account was charged the
    /// most that its cap can have admitted.
    pub is_witnessed: bool,
    /// Accounts that were charged.
    pub charged: Vec<String>,
}

/// Copies a ledger in SQLite to a new file, while it is in use. `pgveil serve` does not open the
/// copy: only [`restore`] makes a ledger of it.
///
/// # Errors
///
/// [`Error::Backup`] for a ledger in PostgreSQL and for a file that is there already; those of the
/// store.
pub fn back_up(at: &Address, copy: &Path) -> Result<(), Error> {
    let Some(file) = at.file()? else {
        return Err(Error::Backup {
            reason: "the ledger is in PostgreSQL: back it up with pg_dump".to_owned(),
        });
    };
    sqlite::back_up(&file, copy)
}

/// Makes a ledger of a backup, or of the older ledger that is in place where no backup is named,
/// and charges what may have been spent since: with a witness up to the sums that it saw, without
/// one the most that each cap can have admitted. All accounts are frozen, since freezes may be lost
/// too.
///
/// # Guarantee
///
/// With a witness, no lifetime's sum is below what the witness saw. Without one, nothing is left of
/// any account of the policy, and of no other what the owner's total would cover; and no sum is
/// below what its cap, with the grants in the backup, can have admitted.
///
/// # Errors
///
/// [`Error::Backup`] where the file is no backup, or a ledger is in its place; those of the store
/// and of the witness. Nothing is in place then that was not there.
pub fn restore(
    at: &Address,
    backup: Option<&Path>,
    cause: (&str, &str),
    (owner, roles): (&AccountSpec, &[AccountSpec]),
    failures: u32,
) -> Result<Restored, Error> {
    at.check()?;
    // It is charged for what the witnesses saw.
    let whatever = |_: &mut dyn Store, _| Ok(());
    let mut witnesses = witness::open(&at.witnesses)?;
    let mut settle = |store: Box<dyn Store>| {
        let rules = Rules::open(store, Clock::system(), owner, roles)?;
        settle(rules, &mut witnesses, cause, (owner, failures))
    };
    match (backup, at.file()?) {
        (None, _) => settle(store_at(
            at.url.expose(),
            Absent::Refuse,
            OnOlderFormat::Raise(&whatever),
        )?),
        (Some(_), None) => Err(Error::Backup {
            reason: "the ledger is in PostgreSQL: restore it with psql or pg_restore, then run \
                this command without a backup"
                .to_owned(),
        }),
        (Some(backup), Some(file)) => sqlite::put_back(backup, &file, |draft| {
            settle(Box::new(Sqlite::open(
                draft,
                Absent::Refuse,
                OnOlderFormat::Raise(&whatever),
            )?))
        }),
    }
}

fn settle(
    mut rules: Rules,
    witnesses: &mut [Box<dyn Witness>],
    cause: (&str, &str),
    (owner, failures): (&AccountSpec, u32),
) -> Result<Restored, Error> {
    let seen = witnesses.iter_mut().map(|witness| witness.read());
    let seen: Vec<WitnessReport> = seen.collect::<Result<_, _>>()?;
    let height = rules.reading(Rules::height)?;
    // A witness of another ledger, of another restoration, or of a day before the backup knows too
    // little: it counts as none, as does one that is damaged.
    let known = seen.iter().filter_map(|seen| match seen {
        WitnessReport::Whole(seen) if seen.height.lacks(&height).is_none() => Some(&**seen),
        WitnessReport::Whole(_) | WitnessReport::Nothing | WitnessReport::Damaged => None,
    });
    let known = witness::highest(known);
    rules.store.begin(Access::Write)?;
    let settled = rules.settle(known.as_ref(), cause, (owner, failures));
    let ended = settled.as_ref().map(|_| ()).map_err(Clone::clone);
    rules.store.end(ended)?;
    if !witnesses.is_empty() {
        let now = rules.reading(|rules| {
            let height = rules.height()?;
            WitnessedHeight::of(&mut *rules.store, height)
        })?;
        for (witness, before) in witnesses.iter_mut().zip(&seen) {
            witness.begin_anew(before, &now)?;
        }
    }
    settled
}

/// Has the witnesses of a ledger that know nothing take it as it is: they were lost, or are new.
///
/// # Guarantee
///
/// A witness that saw more than the ledger has is not overwritten.
///
/// # Errors
///
/// Those of [`super::look`], but for [`Error::Unwitnessed`]; [`Error::Backup`] without a witness.
pub fn attest(at: &Address) -> Result<usize, Error> {
    at.check()?;
    if at.witnesses.is_empty() {
        return Err(Error::Backup {
            reason: "the policy names no witness: add ledger.witness".to_owned(),
        });
    }
    let (mut store, format) = look_at(at.url.expose())?;
    check_readable("the ledger", format)?;
    open_witnesses(&mut *store, &at.witnesses, Attest::Anyway).map(|witnesses| witnesses.len())
}

impl Rules {
    fn settle(
        &mut self,
        seen: Option<&WitnessedHeight>,
        (who, why): (&str, &str),
        (owner, failures): (&AccountSpec, u32),
    ) -> Result<Restored, Error> {
        let birth: [u8; 16] = rand::random();
        let sql =
            "INSERT INTO identity (id, birth) VALUES ((SELECT max(id) + 1 FROM identity), $1)";
        self.store.query(sql, &[StoreValue::Blob(birth.to_vec())])?;
        let now = self.clock.now();
        let known = seen.map_or(&[][..], |seen| &seen.accounts);
        let open = self.role_accounts()?;
        let is_open = |sums: &Sums| open.iter().any(|(_, name, _)| *name == sums.name);
        for sums in known {
            if sums.kind != "role" || is_open(sums) {
                continue;
            }
            let spec = AccountSpec {
                name: sums.name.clone(),
                renew: Renew::Never,
                ..owner.clone()
            };
            self.ensure_role(now, &spec)?;
        }
        let mut charged = Vec::new();
        for (id, name, renew) in self.role_accounts()? {
            let account = self.role(&name).unwrap_or(Account {
                id,
                terms: AccountTerms {
                    renew,
                    ..self.owner.terms
                },
                kept: None,
            });
            let (standing, _) = self.standings(account, now)?;
            let sums = known.iter().find(|sums| sums.is_role(&name));
            let missing = match (sums, seen) {
                (Some(sums), _) => beyond(&sums.loss, &standing.balance.lifetime),
                // Opened after the witness last saw the ledger: with nothing spent.
                (None, Some(_)) => continue,
                (None, None) => beyond(&most(&standing.balance.cap), &standing.balance.spent),
            };
            self.raise_failures(id, sums.map_or(i64::from(failures), |sums| sums.failures))?;
            if !missing.is_zero() {
                self.charge_alone(id, &standing, &missing, now)?;
                charged.push(name);
            }
        }
        let total = self.balance_owner()?;
        let sums = known.iter().find(|sums| sums.kind == "owner");
        let missing = match (sums, seen) {
            (Some(sums), _) => beyond(&sums.loss, &total.lifetime),
            (None, Some(_)) => Loss::ZERO,
            (None, None) => beyond(&most(&total.cap), &total.spent),
        };
        if !missing.is_zero() {
            self.charge_total(owner, &total.lifetime, &missing, now)?;
            charged.push("the total".to_owned());
        }
        let freeze = Decision {
            act: Act::Freeze { role: None },
            who: who.to_owned(),
            why: format!("restored: {why}"),
        };
        self.decide(&freeze, Origin::default())??;
        Ok(Restored {
            is_witnessed: seen.is_some(),
            charged,
        })
    }

    /// Charges a role, and not the total.
    fn charge_alone(
        &mut self,
        id: i64,
        standing: &AccountStanding,
        missing: &Loss,
        now: i64,
    ) -> Result<(), Error> {
        let lifetime = sum(&standing.balance.lifetime, missing)?;
        self.set_role(id, standing, &lifetime, missing)?;
        self.append(RECEIPT, id, now, missing, &Fingerprint::new([0; 32]))
    }

    /// Charges the total, by a debit of an account that is nobody's.
    fn charge_total(
        &mut self,
        owner: &AccountSpec,
        lifetime: &Loss,
        missing: &Loss,
        now: i64,
    ) -> Result<(), Error> {
        let spec = AccountSpec {
            name: RESTORED.to_owned(),
            renew: Renew::Never,
            ..owner.clone()
        };
        let account = self.ensure_role(now, &spec)?;
        let (standing, _) = self.standings(account, now)?;
        let mine = sum(&standing.balance.lifetime, missing)?;
        self.set_role(account.id, &standing, &mine, missing)?;
        self.set_spent(self.owner.id, &sum(lifetime, missing)?)?;
        let nothing = Fingerprint::new([0; 32]);
        self.append(DEBIT, account.id, now, missing, &nothing)
    }

    fn ensure_role(&mut self, now: i64, spec: &AccountSpec) -> Result<Account, Error> {
        open_account(&mut *self.store, now, "role", spec)
    }

    /// Each with the kind of its period.
    fn role_accounts(&mut self) -> Result<Vec<(i64, String, Renew)>, Error> {
        let sql = "SELECT a.id, a.name, p.renew FROM account AS a \
                     JOIN period AS p ON p.account = a.id \
                   WHERE a.kind = 'role' AND a.name <> $1 ORDER BY a.id";
        let rows = self.store.query(sql, &[text_value(RESTORED)])?;
        rows.iter()
            .map(|row| {
                let renew = row.text(2)?;
                let renew = [Renew::Weekly, Renew::Monthly]
                    .into_iter()
                    .find(|known| known.name() == renew);
                Ok((
                    row.int(0)?,
                    row.text(1)?.to_owned(),
                    renew.unwrap_or(Renew::Never),
                ))
            })
            .collect()
    }

    fn raise_failures(&mut self, id: i64, failures: i64) -> Result<(), Error> {
        let sql = "UPDATE account SET failures = $1 WHERE id = $2 AND failures < $1";
        self.store
            .query(sql, &[StoreValue::Int(failures), StoreValue::Int(id)])?;
        Ok(())
    }
}

/// The most that a cap admits, in each currency.
///
/// # Guarantee
///
/// No sequence of losses that [`Cap::admits`] let pass has a larger sum in any component. After its
/// last loss the epsilons fit, or the squares of mu (the rhos) do. Where the epsilons fit, the
/// other sums are at most those of one loss of the whole epsilon ([`pure`]): what a pure loss is
/// worth in rho and in mu^2 grows faster than epsilon. Where they do not fit, they have no bound,
/// since a Gaussian has none. So a cap that is raised later admits only what fits together with
/// all that.
///
/// # Requires
///
/// A rho is at most half its mu^2, and a mu^2 at most eight times its rho, as those of all
/// mechanisms.
///
/// # Reference
///
/// Ours, from the two branches of [`Cap::admits`].
fn most(cap: &Cap) -> Loss {
    let pure = pure(cap.epsilon());
    let (epsilon, rho, mu_squared) = match cap.accounting() {
        Accounting::Gdp => {
            let mu_squared = cap.mu_squared().max(pure.mu_squared);
            let rho = pure.rho.max(Fixed(mu_squared.0.div_ceil(2)));
            (None, rho, mu_squared)
        }
        Accounting::Zcdp => {
            let rho = cap.rho().max(pure.rho);
            let mu_squared = pure.mu_squared.max(Fixed(rho.0.saturating_mul(8)));
            (None, rho, mu_squared)
        }
        Accounting::Pure => (Some(cap.epsilon()), pure.rho, pure.mu_squared),
    };
    Loss {
        epsilon,
        rho,
        mu_squared,
        delta: cap.delta(),
    }
}

/// The most that one loss of this epsilon is worth in each currency: that of Laplace noise, or of
/// an exponential mechanism, whose rho and mu^2 are epsilon^2 / 8 and pi epsilon^2 / 8, with a
/// margin.
fn pure(epsilon: Fixed) -> Loss {
    let laplace = loss_laplace(epsilon);
    let square = epsilon.to_f64() * epsilon.to_f64();
    let exponential = |factor: f64| Fixed::round_up((factor * square).min(1e17));
    Loss {
        rho: laplace.rho.max(exponential(0.126)),
        mu_squared: laplace.mu_squared.max(exponential(0.393)),
        ..laplace
    }
}

/// The loss that lifts every component of `spent` to at least that of `wanted`.
fn beyond(wanted: &Loss, spent: &Loss) -> Loss {
    let more = |wanted: Fixed, spent: Fixed| Fixed(wanted.0.saturating_sub(spent.0));
    Loss {
        epsilon: match (wanted.epsilon, spent.epsilon) {
            // An infinite sum stays infinite.
            (_, None) => Some(Fixed::ZERO),
            (None, Some(_)) => None,
            (Some(wanted), Some(spent)) => Some(more(wanted, spent)),
        },
        rho: more(wanted.rho, spent.rho),
        mu_squared: more(wanted.mu_squared, spent.mu_squared),
        delta: more(wanted.delta, spent.delta),
    }
}

fn sum(spent: &Loss, missing: &Loss) -> Result<Loss, Error> {
    spent.compose(*missing).ok_or_else(|| Error::Backup {
        reason: "the sums would be larger than can be counted".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Mu, loss_gaussian};

    /// A restoration must not let a raised budget forget what the smaller one admitted by the other
    /// branch.
    #[test]
    fn no_admitted_sequence_is_above_the_most() {
        let [epsilon, delta, share] = [2.0, 1e-6, 0.5].map(Fixed::round_down);
        for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
            let cap = Cap::new(epsilon, delta, share, accounting).unwrap();
            let most = most(&cap);
            let pure = [1, 2, 7, 64].map(|parts| (loss_laplace(Fixed(epsilon.0 / parts)), parts));
            let gaussian = |parts: u128| {
                let mu = Mu::round_down((cap.mu_squared().to_f64() / parts as f64).sqrt());
                (loss_gaussian(mu), parts)
            };
            for (loss, parts) in pure.into_iter().chain([gaussian(1), gaussian(9)]) {
                let mut sum = Loss::ZERO;
                for _ in 0..parts {
                    if cap.admits(&sum, &loss) {
                        sum = sum.compose(loss).unwrap();
                    }
                }
                assert!(beyond(&sum, &most).is_zero(), "{accounting:?}: {sum:?}");
            }
            let next = loss_laplace(Fixed::round_up(1e-9));
            assert!(!cap.admits(&most, &next));
        }
    }

    #[test]
    fn nothing_is_below_what_was_wanted() {
        let loss = |epsilon: Option<u128>, others: u128| Loss {
            epsilon: epsilon.map(Fixed),
            rho: Fixed(others),
            mu_squared: Fixed(2 * others),
            delta: Fixed(0),
        };
        let cases = [
            (loss(Some(5), 7), loss(Some(3), 9)),
            (loss(None, 7), loss(Some(3), 1)),
            (loss(Some(5), 7), loss(None, 0)),
            (loss(None, 0), loss(None, 0)),
        ];
        for (wanted, spent) in cases {
            let after = spent.compose(beyond(&wanted, &spent)).unwrap();
            assert!(after.rho >= wanted.rho && after.mu_squared >= wanted.mu_squared);
            assert!(after.epsilon.is_none() || after.epsilon >= wanted.epsilon);
            assert!(wanted.epsilon.is_some() || after.epsilon.is_none());
        }
    }
}
