//! A search_path: the text that SHOW prints, and the schemas that it names.

/// Bytes that PostgreSQL keeps of a name.
const NAME_BYTES_MAX: usize = 63;

/// The schemas of a search_path, with `$user` filled in; none where the text is no list of names.
pub fn schemas(path: &str, user: &str) -> Vec<String> {
    let named = path_names(path)
        .unwrap_or_default()
        .into_iter()
        .filter(|schema| !schema.is_empty());
    named
        .map(|schema| {
            if schema == "$user" {
                user.to_owned()
            } else {
                schema
            }
        })
        .collect()
}

/// The search_path of these names, each quoted where it must be.
pub fn path_of(names: &[String]) -> String {
    names
        .iter()
        .map(|name| quote(name))
        .collect::<Vec<_>>()
        .join(", ")
}

fn quote(name: &str) -> String {
    let mut letters = name.chars();
    let plain = letters
        .next()
        .is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$');
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A comma separated list of identifiers, quoted or folded to lower case; `None` where the text is
/// no such list.
pub fn path_names(list: &str) -> Option<Vec<String>> {
    let blank = |c: char| c.is_ascii_whitespace();
    let mut found = Vec::new();
    let mut rest = list.trim_start_matches(blank);
    while !rest.is_empty() || !found.is_empty() {
        let (name, after) = if let Some(quote) = rest.strip_prefix('"') {
            read_quoted(quote)?
        } else {
            let (name, after) =
                rest.split_at(rest.find(|c| c == ',' || blank(c)).unwrap_or(rest.len()));
            (name.to_ascii_lowercase(), after)
        };
        if name.is_empty() && !rest.starts_with('"') {
            return None;
        }
        found.push(name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned());
        let after = after.trim_start_matches(blank);
        match after.strip_prefix(',') {
            Some(more) => rest = more.trim_start_matches(blank),
            None => return after.is_empty().then_some(found),
        }
    }
    Some(found)
}

/// The name up to its closing quote, and what follows.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let (mut name, mut rest) = (String::new(), text);
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{path_names, path_of, schemas};

    #[test]
    fn a_path_names_schemas_as_they_are_written() {
        let path = r#""$user", Public,"Shop Data" , "a""b",x"#;
        assert_eq!(
            schemas(path, "ann"),
            ["ann", "public", "Shop Data", "a\"b", "x"]
        );
        assert_eq!(
            path_of(&path_names(path).unwrap()),
            r#""$user", public, "Shop Data", "a""b", x"#
        );
        assert_eq!(
            (
                schemas("", "ann"),
                schemas("\"\"", "ann"),
                schemas("a b", "ann")
            ),
            (vec![], vec![], vec![])
        );
    }
}
