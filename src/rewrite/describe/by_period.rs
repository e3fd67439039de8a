//! Where periods are prepaid, what is bounded is a period of a unit.

use crate::analyze::AnalyzedRelease;

/// What one clip bounds: a unit, or a period of it.
pub(super) fn bounded_subject(release: &AnalyzedRelease, unit: &str) -> String {
    match &release.by_period {
        None => unit.to_owned(),
        Some(_) => format!("period of a {unit}"),
    }
}

/// How many of these the noise covers, if it covers several.
pub(super) fn together(release: &AnalyzedRelease, unit: &str) -> Option<String> {
    let counted = release.by_period.as_ref()?.counted;
    Some(format!(
        "  Periods: {counted} of a {unit} count in a horizon, and its price and noise cover all of \
            them"
    ))
}
