//! The empirical audit: what an attacker can be shown to gain from real answers, held up against
//! what was charged for them.
//!
//! A proof speaks of the mechanism that was meant; an audit of the one that runs. [`attack`] takes
//! the answers of many trials on two databases that differ in one unit, the *canary*, whose every
//! value is extreme, and gives lower bounds of the loss at a stated rate of false alarms: a bound
//! above the charge is a finding. [`Population`] makes rows up in the shape of a policy's tables,
//! [`questions`] asks of each table what tells most, [`influence`] subtracts the emitted
//! statement's results over two neighbours exactly. Nothing here reads an owner's row or changes
//! how an answer is made.

mod attack;
mod influence;
mod interval;
mod population;
mod questions;
mod values;

pub use attack::{Gain, Seen, Trials, attack, provable};
pub use influence::{Influence, influence};
pub use interval::{lower, upper};
pub use population::{CANARY, Population};
pub use questions::{AuditQuestion, Shows, attempts, questions};
