//! Values of settings, checked and spelled as PostgreSQL would show them.

use super::known::{Known, SettingKind};
use crate::policy::{SessionSettings, path_names, path_of};
use crate::refusal::{Refusal, reason};

/// The value that SHOW prints after `SET name = values`; `current` is what it prints before.
pub(super) fn normalize(
    known: &Known,
    values: &[String],
    current: &str,
) -> Result<String, Refusal> {
    let Known { name, kind, .. } = known;
    match kind {
        // Each value is the name of one schema, which is not taken apart.
        SettingKind::SearchPath => return Ok(path_of(values)),
        SettingKind::DateStyle => {
            return date_style(&values.join(","), current)
                .ok_or_else(|| invalid(name, &values.join(", ")));
        }
        _ => {}
    }
    let [value] = values else {
        return Err(Refusal::new(
            reason::INVALID_SETTING,
            format!("SET {name} takes only one argument"),
        ));
    };
    let normal = match *kind {
        SettingKind::Encoding => return encoding(value),
        SettingKind::Bool => boolean(value).map(str::to_owned),
        SettingKind::Integer { min, max } => return integer(name, value, min, max),
        SettingKind::Duration => milliseconds(value).map(print_milliseconds),
        SettingKind::Choice(&["on"]) => return only(name, value, "on"),
        SettingKind::Choice(&["off"]) => return only(name, value, "off"),
        SettingKind::Choice(words) => return choice(name, value, words),
        SettingKind::TimeZone => time_zone(value),
        SettingKind::Name => Some(clean_name(value)),
        SettingKind::Text => Some(value.clone()),
        SettingKind::Session => return session_setting(name, value),
        SettingKind::Preset | SettingKind::SearchPath | SettingKind::DateStyle => None,
    };
    normal.ok_or_else(|| invalid(name, value))
}

fn invalid(name: &str, value: &str) -> Refusal {
    Refusal::new(
        reason::INVALID_SETTING,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// Every spelling of UTF-8, also with the quotes that asyncpg sends.
fn encoding(value: &str) -> Result<String, Refusal> {
    let plain: String = value
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    match plain.as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        _ => {
            Err(invalid("client_encoding", value)
                .detail("Only the client encoding UTF8 is offered."))
        }
    }
}

fn boolean(value: &str) -> Option<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "t" | "yes" | "y" | "1" | "tru" | "tr" | "ye" => Some("on"),
        "off" | "false" | "f" | "no" | "n" | "0" | "fals" | "fal" | "fa" | "of" => Some("off"),
        _ => None,
    }
}

fn only(name: &str, value: &str, wanted: &str) -> Result<String, Refusal> {
    match boolean(value) {
        Some(found) if found == wanted => Ok(wanted.to_owned()),
        Some(_) => Err(Refusal::new(
            reason::INVALID_SETTING,
            format!("parameter \"{name}\" can only be {wanted}"),
        )
        .detail("Statements are read under this rule only.")),
        None => Err(Refusal::new(
            reason::INVALID_SETTING,
            format!("parameter \"{name}\" requires a Boolean value"),
        )),
    }
}

fn choice(name: &str, value: &str, words: &[&str]) -> Result<String, Refusal> {
    words
        .iter()
        .find(|word| word.eq_ignore_ascii_case(value))
        .map(|word| (*word).to_owned())
        .ok_or_else(|| {
            invalid(name, value).hint(format!("Available values: {}.", words.join(", ")))
        })
}

fn integer(name: &str, value: &str, min: i64, max: i64) -> Result<String, Refusal> {
    let number: i64 = value.trim().parse().map_err(|_| invalid(name, value))?;
    if (min..=max).contains(&number) {
        return Ok(number.to_string());
    }
    Err(Refusal::new(
        reason::INVALID_SETTING,
        format!("{number} is outside the valid range for parameter \"{name}\" ({min} .. {max})"),
    ))
}

/// `1500`, `1500ms`, `2s`, `1min`, `1h`, `1d`. Zero means no limit.
pub(super) fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let scale = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number
        .checked_mul(scale)
        .filter(|&ms| ms <= u64::from(i32::MAX.unsigned_abs()))
}

/// In the largest unit that divides it.
fn print_milliseconds(ms: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    match units
        .into_iter()
        .find(|(scale, _)| ms > 0 && ms.is_multiple_of(*scale))
    {
        Some((scale, unit)) => format!("{}{unit}", ms / scale),
        None if ms == 0 => "0".to_owned(),
        None => format!("{ms}ms"),
    }
}

/// `ISO`, `SQL, DMY`, `german`; a missing part stays as it is.
fn date_style(value: &str, current: &str) -> Option<String> {
    let (old_style, old_order) = current.split_once(", ").unwrap_or(("ISO", "MDY"));
    let (mut style, mut order) = (None, None);
    for part in value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let part = part.to_ascii_lowercase();
        match part.as_str() {
            "iso" => style = Some("ISO"),
            "sql" => style = Some("SQL"),
            "german" => {
                style = Some("German");
                order = order.or(Some("DMY"));
            }
            _ if part.starts_with("postgres") => style = Some("Postgres"),
            "ymd" => order = Some("YMD"),
            "dmy" => order = Some("DMY"),
            _ if part.starts_with("euro") => order = Some("DMY"),
            "mdy" | "us" => order = Some("MDY"),
            _ if part.starts_with("noneuro") => order = Some("MDY"),
            "default" => {}
            _ => return None,
        }
    }
    Some(format!(
        "{}, {}",
        style.unwrap_or(old_style),
        order.unwrap_or(old_order)
    ))
}

/// The shape of a zone's name or POSIX rule; whether it exists is for PostgreSQL to say.
fn time_zone(value: &str) -> Option<String> {
    let shaped = !value.is_empty()
        && value.len() <= 64
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_+-/:<>,.".contains(&b));
    let safe = !value.starts_with(['/', '.']) && !value.contains("..");
    let name = if value.eq_ignore_ascii_case("utc") {
        "UTC"
    } else {
        value
    };
    (shaped && safe).then(|| name.to_owned())
}

/// The name as PostgreSQL keeps application_name: printable ASCII, at most 63 bytes.
fn clean_name(value: &str) -> String {
    value
        .bytes()
        .take(63)
        .map(|b| {
            if (32..127).contains(&b) {
                char::from(b)
            } else {
                '?'
            }
        })
        .collect()
}

fn session_setting(name: &str, value: &str) -> Result<String, Refusal> {
    let mut session_settings = SessionSettings::default();
    session_settings.set(name, value)?;
    Ok(session_settings.show(name))
}

/// The values of a setting whose text came whole: that of search_path is a list of names.
pub(super) fn of_text(known: &Known, text: &str) -> Result<Vec<String>, Refusal> {
    match known.kind {
        SettingKind::SearchPath => path_names(text)
            .ok_or_else(|| invalid(known.name, text).detail("List syntax is invalid.")),
        SettingKind::Preset
        | SettingKind::Encoding
        | SettingKind::Bool
        | SettingKind::Integer { .. }
        | SettingKind::Duration
        | SettingKind::Choice(_)
        | SettingKind::DateStyle
        | SettingKind::TimeZone
        | SettingKind::Name
        | SettingKind::Text
        | SettingKind::Session => Ok(vec![text.to_owned()]),
    }
}
