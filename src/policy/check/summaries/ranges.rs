//! Checks the keys of a summary of which ranges are asked for: their values have an order, and
//! there is the noise that ranges need.

use std::cmp::Ordering;

use crate::catalog::Type;
use crate::policy::error::{Findings, Location};
use crate::policy::file::KeyEntry;
use crate::policy::{Accounting, Column, Policy, Scalar, scalar};

/// Reports a key of values, or of bins, without an order.
pub(super) fn check(
    (summary, key): (&str, &str),
    (column, has_bins): (&Column, bool),
    place: Location,
    findings: &mut Findings,
) {
    if has_bins {
        return;
    }
    let fault = match &column.data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Date => {
            let less =
                |pair: &[Scalar]| scalar::compare(&pair[0], &pair[1]) == Some(Ordering::Less);
            ascends(column, |listed| listed.windows(2).all(less))
        }
        Type::Enum(of) => {
            let place = |label: &Scalar| match label {
                Scalar::Text(label) => of.labels.iter().position(|known| known == label),
                _ => None,
            };
            ascends(column, |listed| listed.iter().map(place).is_sorted())
        }
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => Some(UNORDERED),
        Type::Numeric(_) | Type::Float4 | Type::Float8 => Some(UNORDERED),
        Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time => Some(UNORDERED),
        Type::Other { .. } => Some(UNORDERED),
    };
    if let Some(fault) = fault {
        let message = format!("key \"{key}\" of summary \"{summary}\" {fault}");
        findings.error(place, message);
    }
}

const UNORDERED: &str = "has no ranges, since its values are no whole numbers, dates, bins or \
    labels of an enum; write `values`";

/// Why a list of values is not in its order; `None` where it is, or where there is none.
fn ascends(column: &Column, is_in_order: impl Fn(&[Scalar]) -> bool) -> Option<&'static str> {
    let listed = column.domain.as_deref().unwrap_or_default();
    (!is_in_order(listed)).then_some(
        "has no ranges, since its listed values do not ascend; list them in their order, or write \
            `values`",
    )
}

/// Reports ranges where no noise may be Gaussian, and where sets are selected. Ranges need noise
/// that the sets share. Whether selected sets can share it would be known only after roles have
/// paid for the selection.
pub(super) fn check_noise(
    summary: &str,
    keys: &[KeyEntry],
    (policy, is_auto): (&Policy, bool),
    findings: &mut Findings,
) {
    let fault = if policy.privacy.accounting == Accounting::Pure {
        "under pure accounting, since they need Gaussian noise; write `values`"
    } else if is_auto {
        "with `marginals: auto`, since not all sets that may be selected have the noise that they \
            need; name the sets, write `all 2`, or `values` for the key"
    } else {
        return;
    };
    for key in keys {
        if let Some(place) = key.ranges {
            let message = format!(
                "key \"{}\" of summary \"{summary}\" has no ranges {fault}",
                key.name.value
            );
            findings.error(place, message);
        }
    }
}
