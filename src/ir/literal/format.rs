//! `to_date` and `to_timestamp` of constants: the patterns that tools write, read exactly; all
//! others are refused.

use super::date;
use crate::calendar::MICROS_PER_DAY;

/// Microseconds from 2000-01-01 of `text` read by `pattern`, where every field of both is plain.
pub fn read(text: &str, pattern: &str) -> Option<i64> {
    const FIELDS: &[(&str, usize)] = &[
        ("YYYY", 4),
        ("HH24", 2),
        ("MM", 2),
        ("DD", 2),
        ("MI", 2),
        ("SS", 2),
        ("US", 6),
        ("MS", 3),
        ("FF6", 6),
        ("FF3", 3),
    ];
    let (mut year, mut month, mut day, mut time) = (None, 1, 1, 0i64);
    let upper = pattern.to_ascii_uppercase();
    let (mut pattern, mut text) = (upper.as_str(), text);
    while !pattern.is_empty() {
        let Some((field, width)) = FIELDS.iter().find(|(field, _)| pattern.starts_with(field))
        else {
            let separator = pattern
                .chars()
                .next()
                .filter(|c| matches!(c, '-' | '/' | ':' | '.' | ' ' | 'T'))?;
            pattern = &pattern[1..];
            text = text.strip_prefix(separator)?;
            continue;
        };
        let digits = text
            .get(..*width)
            .filter(|d| d.bytes().all(|b| b.is_ascii_digit()))?;
        let value: i64 = digits.parse().ok()?;
        match *field {
            "YYYY" => year = Some(value),
            "MM" => month = value,
            "DD" => day = value,
            "HH24" if value < 24 => time += value * 3_600_000_000,
            "MI" if value < 60 => time += value * 60_000_000,
            "SS" if value < 60 => time += value * 1_000_000,
            "US" | "FF6" => time += value,
            "MS" | "FF3" => time += value * 1000,
            _ => return None,
        }
        pattern = &pattern[field.len()..];
        text = &text[*width..];
    }
    if !text.is_empty() {
        return None;
    }
    Some(i64::from(date(&format!("{:04}-{month:02}-{day:02}", year?))?) * MICROS_PER_DAY + time)
}

#[cfg(test)]
mod tests {
    use super::super::timestamp;
    use super::*;

    #[test]
    fn patterns_of_tools_are_read() {
        for (text, pattern, wanted) in [
            (
                "2024-01-01 00:00:00.000000",
                "YYYY-MM-DD HH24:MI:SS.US",
                timestamp("2024-01-01"),
            ),
            ("2024-02-29", "YYYY-MM-DD", timestamp("2024-02-29")),
            ("15/03/2024", "DD/MM/YYYY", timestamp("2024-03-15")),
            (
                "20240315 103000",
                "YYYYMMDD HH24MISS",
                timestamp("2024-03-15 10:30:00"),
            ),
            ("2023-02-29", "YYYY-MM-DD", None),
            ("2024-1-1", "YYYY-MM-DD", None),
            ("2024-01-01", "YYYY-Mon-DD", None),
            ("2024-01-01x", "YYYY-MM-DD", None),
        ] {
            assert_eq!(read(text, pattern), wanted, "{text} {pattern}");
        }
    }
}
