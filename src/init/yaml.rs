//! Names and values as YAML text that the policy reader reads back as they were.

/// Words that other readers of YAML take for something else.
const RESERVED: [&str; 11] = [
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
];

/// A scalar: plain where every reader of YAML sees the same text, else in double quotes.
pub fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    if is_word {
        text.to_owned()
    } else {
        quote(text)
    }
}

/// A number as it is written, anything else as [`scalar`].
pub fn value(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok_and(f64::is_finite)
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    if is_number {
        text.to_owned()
    } else {
        scalar(text)
    }
}

fn quote(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out += &format!("\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// The parts of a name joined by dots, as the policy reader splits them; `None` where it has no
/// spelling for them.
pub fn join_dotted(parts: &[&str]) -> Option<String> {
    let joined = parts
        .iter()
        .map(|part| spell_part(part))
        .collect::<Option<Vec<_>>>()?
        .join(".");
    let read = crate::policy::names(&joined)?;
    (read == parts).then_some(joined)
}

fn spell_part(part: &str) -> Option<String> {
    let is_plain = part.chars().all(|c| c.is_alphanumeric() || c == '_');
    match () {
        () if part.contains("->") => None,
        () if is_plain => Some(part.to_owned()),
        () if part.contains('"') => Some(part.to_owned()),
        () => Some(format!("\"{part}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_quoted_where_yaml_would_read_something_else() {
        let plain = ["a", "household_key", "2-HIGH", "1", "-1.5", "a.b"].map(value);
        assert_eq!(
            plain,
            ["a", "household_key", "\"2-HIGH\"", "1", "-1.5", "a.b"]
        );
        let quoted = [
            "no", "Null", "a b", "a: b", "", "#", "it's", "a\"b\\c", "a\tb", "été",
        ];
        assert_eq!(
            quoted.map(value),
            [
                "\"no\"",
                "\"Null\"",
                "\"a b\"",
                "\"a: b\"",
                "\"\"",
                "\"#\"",
                "\"it's\"",
                "\"a\\\"b\\\\c\"",
                "\"a\\u0009b\"",
                "\"été\""
            ]
        );
        assert_eq!(scalar("1"), "\"1\"");
    }

    #[test]
    fn names_are_spelled_as_they_are_read() {
        let read = |parts: &[&str]| join_dotted(parts);
        assert_eq!(read(&["a", "b"]), Some("a.b".to_owned()));
        assert_eq!(
            read(&["my.schema", "Order Lines"]),
            Some("\"my.schema\".\"Order Lines\"".to_owned())
        );
        assert_eq!(read(&["a", "b\"c"]), Some("a.b\"c".to_owned()));
        assert_eq!(read(&["a", " b"]), Some("a.\" b\"".to_owned()));
        for unspeakable in ["b\".c", "\"b", "b->c", "b\n"] {
            assert_eq!(read(&["a", unspeakable]), None, "{unspeakable:?}");
        }
    }
}
