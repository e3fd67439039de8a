//! Calibrates and samples noise, and adds up privacy loss. Pure mathematics: no SQL, no I/O but the
//! random source.
//!
//! The path of one release: [`mu_of`] turns an asked (epsilon, delta) into a [`Mu`]; [`choose`]
//! picks the mechanism that wastes least of the accounts; [`gaussian`] or [`laplace`] turns a norm
//! bound proved by the emitted SQL into integer [`Noise`]; [`threshold`] says which keys may be
//! shown; [`loss_gaussian`], [`loss_laplace`] and [`loss_threshold`] say what it costs;
//! [`Cap::admits`] decides whether the account bears it. Everything that carries a guarantee is an
//! integer; floating point appears only where a bound is rounded against the analyst by a stated
//! margin.
//!
//! | mechanism | draws | hides | costs | file |
//! |---|---|---|---|---|
//! | Laplace | a number to add | an L1 norm | [`loss_laplace`] | `laplace.rs` |
//! | Gaussian | a number to add | an L2 norm | [`loss_gaussian`] | `gaussian.rs` |
//! | threshold | nothing; counts decide | which keys exist | [`loss_threshold`] | `threshold.rs` |
//! | above threshold | a verdict | an L1 norm | [`loss_of_epoch`] | `above_threshold.rs` |
//! | holdout | a verdict, and a number | an L1 norm | [`loss_of_holdout`] | `holdout.rs` |
//! | exponential | a candidate | the width of penalties | `Exponential::loss` | `exponential.rs` |
//!
//! Grouping sets may be measured by [`Effects`] in place of their groups: Gaussian noise then hides
//! a linear function of the finest groups. Running totals are drawn by a [`SquareRoot`].
//!
//! Where values were randomised before they were stored, `local.rs` says what they tell;
//! `randomise.rs` makes such reports, and `rappor.rs` draws the bits of a filter.
//!
//! The first two are laws of noise, in the table of `table.rs`. All draws are made by a
//! [`Sampler`]. What a release draws, step by step, is [`crate::rewrite::Draw`].

mod above_threshold;
#[cfg(test)]
mod accuracy_goals;
mod calibration;
mod choose_law;
mod conversion;
mod effects;
mod event_bits;
mod exp;
mod exponential;
mod gaussian;
mod group_privacy;
mod holdout;
mod laplace;
mod laws;
mod local;
mod loss;
mod noise;
mod noise_law;
pub mod normal;
mod privacy_filter;
mod random;
pub mod randomise;
mod rappor;
#[cfg(test)]
mod rational_law;
pub mod samplers;
mod select_sets;
mod shares;
mod square_root;
#[cfg(test)]
pub(crate) mod testing;
mod threshold;

pub use above_threshold::{
    NoisyThreshold, SumDirection, ThresholdQuestion, check_epoch, loss_of_epoch, margin,
};
pub use calibration::{Calibrated, CalibrationError, loss_threshold};
pub use choose_law::{AccountState, LossByMechanism, choose, quantile_95};
pub use conversion::{delta_of_mu, delta_of_rho, epsilon_of_mu, epsilon_of_rho, mu_of, rho_of};
pub use effects::{EFFECTS_MAX, Effect, Effects, SummedValues};
pub use event_bits::bits;
pub use exponential::{CandidateRun, Exponential};
pub use gaussian::{gaussian, gaussian_finer, loss_gaussian};
pub use group_privacy::{FALSE_ALARMS, Meaning, UNITS};
pub use holdout::{HoldoutNoise, holdout_noise, loss_of_holdout};
pub use laplace::{laplace, loss_laplace};
pub use laws::Mechanism;
pub use local::{Channel, OneBit, Randomiser};
pub use loss::{Fixed, Loss, Mu};
pub use noise::{Noise, Sampler};
pub use noise_law::Norm;
pub use privacy_filter::{Accounting, Cap, CapError};
pub use random::{OsRandomness, RandomError, Randomness};
pub use randomise::Odds;
pub use rappor::{BITS_MAX, CELLS_MAX, HASHES_MAX, Rappor};
pub use samplers::SampleError;
pub use select_sets::{CountGrid, ExactCounts, SELECTION_LAW, SelectionBudget, SetSelection};
pub use shares::{conditional, products, project, shares};
pub use square_root::{SquareRoot, TOTALS_MAX, TotalsErrors, TotalsNoise, scale_noise};
pub use threshold::{Height, Presence, ThresholdError, threshold};
