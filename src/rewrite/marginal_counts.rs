//! The counts of a plan's groups as sets of keys are selected from them.

use num_bigint::BigUint;
use num_traits::ToPrimitive;

use super::ReleasePlan;
use super::plan::Plan;
use super::vector::coordinate::{Coordinate, Count, Measure};
use crate::aggregates::Foreseen;
use crate::analyze::KeyRule;
use crate::ir::ReleaseId;
use crate::mechanism::{
    AccountState, CountGrid, Fixed, Loss, Mu, Norm, SelectionBudget, SetSelection, loss_gaussian,
    loss_laplace,
};
use crate::refusal::{Refusal, reason};
use crate::rewrite::Terms;
use crate::rewrite::price::to_fixed;

/// What the selection may cost: one part in this many of mu squared, or of epsilon under pure
/// accounting.
const SELECTION_PART: u128 = 4;

/// A plan of counts, each by other keys, with the selection from them.
pub struct MarginalCounts<'p> {
    plan: &'p Plan,
    pub selection: SetSelection,
    /// By how many bits the selection's grid is finer than that of each release.
    finer: Vec<u32>,
    /// By how many bits it is finer than whole rows.
    refine: u32,
}

/// How far one unit moves the counts of a release in L1: in steps of its grid, which is finer than
/// whole rows by `refine` bits.
struct CountBound {
    sensitivity: BigUint,
    refine: u32,
}

impl<'p> MarginalCounts<'p> {
    /// # Guarantee
    /// One unit moves the integers of each release, on the selection's grid, by at most the
    /// selection's sensitivity in L1. A statement enforces the L1 norm C of the unit's counts times
    /// their weight F, on a grid that is finer by s bits: so they move by at most 2^s C / F, and as
    /// they are integers, by at most the floor of that. The largest of all releases, each on the
    /// finest grid, is the sensitivity.
    ///
    /// # Requires
    /// The plan is priced under pure accounting. Its first releases count by each of the keys of
    /// `sizes`, in their order, and the others by the keys of each candidate, in theirs.
    ///
    /// # Errors
    /// 0A000 where a release is not a plain count of listed keys; 22023 where no noise of
    /// supported size fits.
    pub fn new(
        plan: &'p Plan,
        (sizes, candidates): (Vec<usize>, Vec<Vec<usize>>),
        terms: &Terms,
        rounds: usize,
    ) -> Result<Self, Refusal> {
        let bounds = plan.releases().iter().map(bound);
        let bounds: Vec<CountBound> = bounds.collect::<Option<_>>().ok_or_else(unsupported)?;
        let counted = sizes.iter().map(|size| vec![*size]);
        let of_candidates = candidates
            .iter()
            .map(|keys| keys.iter().map(|key| sizes[*key]).collect());
        let wanted: Vec<Vec<usize>> = counted.chain(of_candidates).collect();
        if !plan.releases().iter().map(value_counts).eq(wanted) {
            return Err(unsupported());
        }
        let finest = bounds.iter().map(|bound| bound.refine).max().unwrap_or(0);
        let widest = bounds
            .iter()
            .map(|bound| &bound.sensitivity << (finest - bound.refine))
            .max()
            .unwrap_or_default();
        let (budget, deviation) =
            budget(terms, sizes.len()).ok_or_else(super::limits::out_of_reach)?;
        let steps = widest.to_f64().unwrap_or(f64::MAX);
        let grid = CountGrid {
            sensitivity: widest,
            steps_per_row: 2f64.powi(finest as i32),
            noise_per_cell: expected_noise(deviation) * steps,
        };
        let selection = SetSelection::new((sizes, candidates), grid, budget, rounds)
            .map_err(|_| super::limits::out_of_reach())?;
        let finer = bounds.iter().map(|bound| finest - bound.refine).collect();
        Ok(Self {
            plan,
            selection,
            finer,
            refine: finest,
        })
    }

    /// One step of the selection's grid, in rows.
    pub fn rows_per_step(&self) -> f64 {
        2f64.powi(-(self.refine as i32))
    }

    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// By how many bits the selection's grid is finer than the release's own.
    pub fn finer(&self, ReleaseId(at): ReleaseId) -> u32 {
        self.finer[at]
    }
}

impl Terms {
    /// The terms of a summary of sets whose selection is paid from these terms, and what the
    /// summary costs under them. `None` where that is nothing, or more than can be counted.
    ///
    /// # Guarantee
    /// Both are functions of these terms alone: they depend on no set that was selected. The loss
    /// together with that of the selection is within the epsilon of these terms: in mu squared, or
    /// under pure accounting as a pure epsilon.
    ///
    /// The accounts of the new terms have paid for the selection. Unless accounting is pure that
    /// is noise without a pure epsilon. So the law of the noise is Gaussian, as no account can
    /// stay within its pure epsilon any more, whatever share of it the summary is.
    pub fn after_selection(&self) -> Option<(Self, Loss)> {
        let selection = match budget(self, 1)?.0 {
            SelectionBudget::Mu(mu) => loss_gaussian(mu),
            SelectionBudget::Epsilon(epsilon) => loss_laplace(epsilon),
        };
        let paid = |account: &AccountState| {
            Some(AccountState {
                cap: account.cap,
                spent: account.spent.compose(selection)?,
            })
        };
        let accounts = self.accounts.iter().map(paid).collect::<Option<_>>()?;
        let fits = |epsilon: &f64| {
            let both = self
                .loss_of(*epsilon)
                .and_then(|own| own.compose(selection));
            both.is_some_and(|both| match self.is_pure() {
                true => both.epsilon <= Some(to_fixed(self.epsilon)),
                false => {
                    let most = self.mu(self.epsilon).map(Mu::square);
                    most.is_some_and(|most| both.mu_squared <= most)
                }
            })
        };
        let most = rounded_down(self.epsilon_after_selection());
        let mut tried = (0..10).map(|step| most * (1.0 - 1e-6 * f64::from(step)));
        let epsilon = tried.find(fits)?;
        let loss = self.loss_of(epsilon)?;
        let terms = Self {
            epsilon,
            accounts,
            ..self.clone()
        };
        Some((terms, loss))
    }

    /// What one statement costs that may spend this epsilon: with Gaussian noise, or under pure
    /// accounting with Laplace noise.
    fn loss_of(&self, epsilon: f64) -> Option<Loss> {
        if self.is_pure() {
            return Some(loss_laplace(to_fixed(epsilon)));
        }
        let root = u64::try_from(self.mu(epsilon)?.square().0.isqrt()).ok()?;
        (root > 0).then(|| loss_gaussian(Mu(root)))
    }

    /// The epsilon that a selection of sets leaves of these terms'.
    fn epsilon_after_selection(&self) -> f64 {
        let left = 1.0 - 1.0 / SELECTION_PART as f64;
        match self.is_pure() {
            true => self.epsilon * left,
            false => super::epsilon_for(left.sqrt(), self),
        }
    }
}

/// To four digits after the point, where that is not much less.
fn rounded_down(epsilon: f64) -> f64 {
    match epsilon >= 0.01 {
        true => (epsilon * 1e4).floor() / 1e4,
        false => epsilon,
    }
}

/// What the selection may cost, and the standard deviation that a count by one of `sets` sets will
/// have, if one unit adds 1 to each.
fn budget(terms: &Terms, sets: usize) -> Option<(SelectionBudget, f64)> {
    let sets = sets as f64;
    let left = terms.epsilon_after_selection();
    if terms.is_pure() {
        let own = Fixed(to_fixed(terms.epsilon).0 / SELECTION_PART);
        let deviation = std::f64::consts::SQRT_2 * sets / left;
        return Some((SelectionBudget::Epsilon(own), deviation));
    }
    let own = terms.mu(terms.epsilon)?.square().0 / SELECTION_PART;
    let own = Mu(u64::try_from(own.isqrt()).ok()?);
    let deviation = sets.sqrt() / terms.mu(left)?.to_f64();
    Some((SelectionBudget::Mu(own), deviation))
}

/// The expected absolute value of Gaussian noise.
fn expected_noise(deviation: f64) -> f64 {
    deviation * std::f64::consts::FRAC_2_PI.sqrt()
}

fn bound(release: &ReleasePlan) -> Option<CountBound> {
    let price = release.price()?;
    let ([Coordinate::Rows { .. }], [measure], [weight], [noise]) = (
        release.coordinates(),
        release.measures(),
        price.weights.as_slice(),
        price.calibrated.as_slice(),
    ) else {
        return None;
    };
    let [(output, _)] = release.outputs() else {
        return None;
    };
    let is_count = matches!(
        measure,
        Measure::Count(Count {
            rows: _,
            all: None,
            nulls: None,
        })
    );
    let is_plain = release.sets().is_empty()
        && release.tuples().is_empty()
        && release.choices().is_empty()
        && release.constants().is_empty()
        && release.statements().len() == 1;
    let is_priced = price.look.is_none()
        && price.effects.is_none()
        && price.totals.is_none()
        && price.threshold.is_none()
        && price.mechanism.norm() == Norm::L1;
    let is_shown = matches!(output.foreseen(), Foreseen::Measure(_));
    (is_count && is_plain && is_priced && is_shown).then(|| CountBound {
        sensitivity: (&price.clip << noise.refine) / weight,
        refine: noise.refine,
    })
}

/// The number of values of each key; of a key that is not listed, 0.
fn value_counts(release: &ReleasePlan) -> Vec<usize> {
    let count = |(_, rule): &(_, KeyRule)| match rule {
        KeyRule::Domain(values) => values.len(),
        KeyRule::Threshold => 0,
    };
    release.keys().iter().map(count).collect()
}

fn unsupported() -> Refusal {
    Refusal::unsupported(reason::UNSUPPORTED_SUMMARY, "this summary")
        .detail("Its sets cannot be selected from the data.")
}
