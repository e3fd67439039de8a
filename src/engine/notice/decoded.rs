//! How many of the listed values an answer shows, where they are decoded from reports.

use super::number_text;
use crate::aggregates::Decoded;
use crate::finish::{Fits, spread_decoded};
use crate::ir::{AggregateId, Formula, ReleaseId};
use crate::release::Released;
use crate::rewrite::{Plan, ReleasePlan};

/// A line for each release whose values are decoded.
pub(super) fn lines(plan: &Plan, released: &Released, fits: &Fits) -> Vec<String> {
    let releases = plan.releases().iter().enumerate();
    let line = |(at, release): (usize, &ReleasePlan)| {
        let id = ReleaseId(at);
        let decoded = fits.values_of(id)?;
        let table = released.table(id)?;
        let formula = Formula::Aggregate(AggregateId(0));
        let halves = decoded.shown.iter().filter_map(|value| {
            let spread = spread_decoded(release, &formula, (table, value))?;
            Some((spread.high - spread.low) / 2.0)
        });
        let widest = halves.fold(0.0, f64::max);
        Some(words(decoded, widest, release.facts().rows_per_unit))
    };
    releases.filter_map(line).collect()
}

/// `rows`: how many reports one unit may have made.
fn words(decoded: &Decoded, widest: f64, rows: u64) -> String {
    let (shown, listed) = (decoded.shown.len(), decoded.listed);
    let within = match shown {
        0 => String::new(),
        _ => format!(", 95 % within ±{}", number_text(widest)),
    };
    let absent = match listed - shown {
        0 => String::new(),
        absent => format!(
            "; the other {absent} are absent, as chance alone may give them what was counted"
        ),
    };
    let shared = match (shown, rows) {
        (0, _) | (_, ..=1) => String::new(),
        _ => format!(
            "; errors do not have what up to {rows} reports of one unit share: its cohort, drawn \
                once"
        ),
    };
    format!("decoded from reports: {shown} of {listed} listed values{within}{absent}{shared}")
}
