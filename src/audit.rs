//! The empirical audit compares what an attacker provably gains from real answers with what was
//! charged for them.
//!
//! A proof covers the intended mechanism; an audit tests the one that runs. [`attack`] takes the
//! answers of many trials on two databases that differ in one unit, the *canary*, all of whose
//! values are extreme. It gives lower bounds of the loss at a stated rate of false alarms: a bound
//! above the charge is a finding. [`Population`] generates rows in the shape of a policy's tables.
//! [`questions`] lists the queries that reveal most about one unit of each table. [`influence`]
//! subtracts the emitted statement's results over two neighbours exactly. Nothing here reads an
//! owner's row or changes how an answer is made.

mod attack;
mod influence;
mod interval;
mod population;
mod questions;
mod values;

pub use attack::{Gain, TrialNumbers, Trials, attack, provable};
pub use influence::{Influence, influence};
pub use interval::{lower, upper};
pub use population::{CANARY, Population};
pub use questions::{AuditQuestion, CanaryPlace, attempts, questions};
