//! Constants of date functions: fields, time zones and formats that PostgreSQL certainly knows. It
//! looks them up at the first row, so an error would reveal that a row exists.

use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::refusal::{Refusal, reason};

/// The field of EXTRACT, date_part or date_trunc under its one name.
///
/// # Errors
/// 0A000 for a field that is not known, or not of this type.
pub(super) fn field(written: &str, function: Function, operand: &Type) -> Result<String, Refusal> {
    let field = written.trim_matches('\'').to_ascii_lowercase();
    let field = match field.as_str() {
        "mon" | "months" | "mons" => "month",
        "y" | "yr" | "yrs" | "years" => "year",
        "d" | "days" => "day",
        "h" | "hr" | "hrs" | "hours" => "hour",
        "min" | "mins" | "minutes" => "minute",
        "s" | "sec" | "secs" | "seconds" => "second",
        "weeks" => "week",
        "qtr" | "quarters" => "quarter",
        "dayofweek" => "dow",
        "dayofyear" => "doy",
        "decades" => "decade",
        "centuries" => "century",
        "millennia" | "millenniums" => "millennium",
        "milliseconds" | "msec" | "msecs" => "millisecond",
        "microseconds" | "usec" | "usecs" => "microsecond",
        known => known,
    };
    const COMMON: &[&str] = &[
        "year",
        "quarter",
        "month",
        "day",
        "decade",
        "century",
        "millennium",
    ];
    const OF_DAYS: &[&str] = &["week", "dow", "doy", "isodow", "isoyear", "epoch"];
    const OF_TIME: &[&str] = &["hour", "minute", "second", "millisecond", "microsecond"];
    let is = |list: &[&str]| list.contains(&field);
    let known = match (function, operand) {
        (Function::DateTrunc, _) => is(COMMON) || is(OF_TIME) || field == "week",
        (_, Type::Interval) => is(COMMON) || is(OF_TIME) || field == "epoch",
        (_, Type::Time) => is(OF_TIME) || field == "epoch",
        (Function::Extract, Type::Date) if is(OF_TIME) => {
            let message = format!("unit \"{field}\" not supported for type date");
            return Err(Refusal::new(reason::UNSUPPORTED_DATE_FIELD, message));
        }
        _ => is(COMMON) || is(OF_DAYS) || is(OF_TIME),
    };
    if known {
        Ok(field.to_owned())
    } else {
        Err(Refusal::unsupported(
            reason::UNSUPPORTED_DATE_FIELD,
            format!(
                "the date field {}",
                field.chars().take(40).collect::<String>()
            ),
        ))
    }
}

/// Zones that every time zone database of the last twenty years holds.
const ZONES: &[&str] = &[
    "Africa/Accra",
    "Africa/Algiers",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Africa/Nairobi",
    "Africa/Tunis",
    "America/Anchorage",
    "America/Argentina/Buenos_Aires",
    "America/Bogota",
    "America/Caracas",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Havana",
    "America/Lima",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/Montevideo",
    "America/New_York",
    "America/Panama",
    "America/Phoenix",
    "America/Puerto_Rico",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Toronto",
    "America/Vancouver",
    "America/Winnipeg",
    "Asia/Baghdad",
    "Asia/Bangkok",
    "Asia/Beirut",
    "Asia/Colombo",
    "Asia/Dhaka",
    "Asia/Dubai",
    "Asia/Hong_Kong",
    "Asia/Jakarta",
    "Asia/Jerusalem",
    "Asia/Kabul",
    "Asia/Karachi",
    "Asia/Kuala_Lumpur",
    "Asia/Kuwait",
    "Asia/Manila",
    "Asia/Riyadh",
    "Asia/Seoul",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Taipei",
    "Asia/Tashkent",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Asia/Vladivostok",
    "Atlantic/Azores",
    "Atlantic/Reykjavik",
    "Australia/Adelaide",
    "Australia/Brisbane",
    "Australia/Darwin",
    "Australia/Hobart",
    "Australia/Melbourne",
    "Australia/Perth",
    "Australia/Sydney",
    "Etc/UTC",
    "Europe/Amsterdam",
    "Europe/Athens",
    "Europe/Belgrade",
    "Europe/Berlin",
    "Europe/Brussels",
    "Europe/Bucharest",
    "Europe/Budapest",
    "Europe/Copenhagen",
    "Europe/Dublin",
    "Europe/Helsinki",
    "Europe/Istanbul",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Luxembourg",
    "Europe/Madrid",
    "Europe/Minsk",
    "Europe/Moscow",
    "Europe/Oslo",
    "Europe/Paris",
    "Europe/Prague",
    "Europe/Riga",
    "Europe/Rome",
    "Europe/Sofia",
    "Europe/Stockholm",
    "Europe/Tallinn",
    "Europe/Vienna",
    "Europe/Vilnius",
    "Europe/Warsaw",
    "Europe/Zurich",
    "GMT",
    "Pacific/Auckland",
    "Pacific/Fiji",
    "Pacific/Honolulu",
    "UTC",
];

/// The zone under the name that PostgreSQL knows it by.
///
/// # Errors
/// 0A000 for one that is not listed.
pub(super) fn zone(written: &str) -> Result<String, Refusal> {
    let found = ZONES.iter().find(|zone| zone.eq_ignore_ascii_case(written));
    found.map(|zone| (*zone).to_owned()).ok_or_else(|| {
        Refusal::unsupported(reason::UNSUPPORTED_TIME_ZONE, "this time zone").hint(
            "Use UTC or the name of a large city's zone, such as 'Europe/Berlin' or \
                'America/New_York'.",
        )
    })
}

/// Formats of `to_char` that cannot fail: for numbers digits and one point, for timestamps any
/// letters and separators.
///
/// # Errors
/// 0A000 for others.
pub(super) fn format(format: &str, operand: &Type) -> Result<(), Refusal> {
    let plain = match operand {
        Type::Timestamp | Type::Timestamptz => format
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " -/:.,_()".contains(c)),
        _ => {
            let digits = format.strip_prefix("FM").unwrap_or(format);
            digits.chars().all(|c| matches!(c, '9' | '0' | ',' | '.'))
                && digits.matches('.').count() <= 1
                && digits.contains(['9', '0'])
        }
    };
    if plain && !format.is_empty() && format.len() <= 64 {
        return Ok(());
    }
    Err(
        Refusal::unsupported(reason::UNSUPPORTED_FORMAT, "to_char() with this format").hint(
            "Use fields and separators such as 'YYYY-MM' for dates, and 'FM999,990.00' \
                for numbers.",
        ),
    )
}
