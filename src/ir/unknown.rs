//! The type of a constant whose context has not given it one.

use crate::catalog::Type;

/// The type of a string literal or NULL before its context gives it one.
pub fn unknown() -> Type {
    Type::Other {
        oid: 705,
        name: "unknown".to_owned(),
    }
}

/// Marks a text by the session's settings. If TimeZone is not UTC, a timestamptz must name its
/// zone. If IntervalStyle is sql_standard, an interval must have a sign before each number.
pub(super) const OUTSIDE_UTC: &str = " outside UTC";
pub(super) const SQL_STANDARD: &str = " under sql_standard";

/// The type of a text without a type, in a session of these settings.
pub fn unknown_under(is_utc: bool, signs_each: bool) -> Type {
    let marks = [
        if is_utc { "" } else { OUTSIDE_UTC },
        if signs_each { "" } else { SQL_STANDARD },
    ];
    Type::Other {
        oid: 705,
        name: format!("unknown{}", marks.concat()),
    }
}

/// A text with this mark.
pub(super) fn is_marked(data_type: &Type, mark: &str) -> bool {
    matches!(data_type, Type::Other { oid: 705, name } if name.contains(mark))
}

pub fn is_unknown(data_type: &Type) -> bool {
    matches!(data_type, Type::Other { oid: 705, .. })
}
