//! The elements of an array constant.

/// The elements of an array's text, `{a,"b c",NULL}`; `None` where it is nested or oddly quoted.
pub(in crate::resolve) fn read_elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inside.trim().is_empty() {
        return Some(Vec::new());
    }
    if inside.contains(['{', '}', '\\']) {
        return None;
    }
    let (mut elements, mut element, mut in_quotes, mut was_quoted) =
        (Vec::new(), String::new(), false, false);
    for c in inside.chars().chain([',']) {
        match c {
            '"' if in_quotes || element.trim().is_empty() => {
                in_quotes = !in_quotes;
                if in_quotes {
                    (element, was_quoted) = (String::new(), true);
                }
            }
            '"' => return None,
            ',' if !in_quotes => {
                let plain = std::mem::take(&mut element);
                let plain = if was_quoted {
                    plain
                } else {
                    plain.trim().to_owned()
                };
                match (was_quoted, plain.as_str()) {
                    (false, "") => return None,
                    (false, null) if null.eq_ignore_ascii_case("null") => elements.push(None),
                    _ => elements.push(Some(plain)),
                }
                was_quoted = false;
            }
            c if was_quoted && !in_quotes => {
                if !c.is_whitespace() {
                    return None;
                }
            }
            c => element.push(c),
        }
    }
    if in_quotes { None } else { Some(elements) }
}

#[cfg(test)]
mod tests {
    use super::read_elements;

    #[test]
    fn arrays_are_read() {
        let of = |items: &[Option<&str>]| {
            Some(
                items
                    .iter()
                    .map(|i| i.map(str::to_owned))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            read_elements("{1, 2,NULL}"),
            of(&[Some("1"), Some("2"), None])
        );
        assert_eq!(
            read_elements("{\"a,b\" ,\"null\"}"),
            of(&[Some("a,b"), Some("null")])
        );
        assert_eq!(read_elements("{}"), of(&[]));
        for bad in ["", "{1", "{{1}}", "{a\"b}", "{,}", "{\"a\"b}", "{\"a}"] {
            assert_eq!(read_elements(bad), None, "{bad}");
        }
    }
}
