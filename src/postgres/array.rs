//! Arrays as PostgreSQL reads and prints them.

/// The text of an array of values, each as PostgreSQL prints it.
pub fn array_text<'t>(values: impl Iterator<Item = Option<&'t str>>) -> String {
    let mut text = String::from("{");
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(',');
        }
        match value {
            None => text.push_str("NULL"),
            Some(value) => {
                text.push('"');
                for c in value.chars() {
                    if matches!(c, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(c);
                }
                text.push('"');
            }
        }
    }
    text.push('}');
    text
}
