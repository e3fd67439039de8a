//! Exact neighbours, attacks, coverage and timing: that answers reveal no more than their charge
//! allows.

pub mod after_a_look;
pub mod attack;
pub mod auto_bounds;
pub mod coverage;
pub mod empirical;
pub mod neighbour;
pub mod neighbouring_databases;
pub mod oracle;
mod prepaid_filter;
pub mod prepaid_schedules;
pub mod timing;
mod totals_schedules;
mod write_replies;
mod writes;
