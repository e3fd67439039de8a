//! Signs, blanks and the beginnings of names, as in PostgreSQL's lexer (scan.l).

/// The characters of operators in PostgreSQL's lexer (scan.l).
pub const SIGNS: &str = "+-*/<>=~!@#%^&|`?";
/// With one of these in it an operator may end in a plus or minus.
const OTHER_SIGNS: &str = "~!@#^&|`?%";

/// Whether a name may begin so, without quotes.
pub(super) fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

/// How long the blanks and comments are with which this begins, and whether a line ends in them.
pub(super) fn blanks(text: &[char]) -> (usize, bool) {
    let mut rest = text;
    loop {
        rest = match rest {
            [' ' | '\t' | '\u{c}' | '\n' | '\r', others @ ..] => others,
            ['-', '-', others @ ..] => {
                &others[others
                    .iter()
                    .position(|c| matches!(c, '\n' | '\r'))
                    .unwrap_or(others.len())..]
            }
            _ => {
                let length = text.len() - rest.len();
                return (
                    length,
                    text[..length].iter().any(|c| matches!(c, '\n' | '\r')),
                );
            }
        }
    }
}

/// The signs that stand together from here on, up to a comment.
pub(super) fn signs(text: &[char], start: usize) -> &[char] {
    let run = text.get(start..).unwrap_or_default();
    let ends = |at: &usize| {
        !SIGNS.contains(run[*at]) || matches!(run[*at..], ['-', '-', ..] | ['/', '*', ..])
    };
    &run[..(0..run.len()).find(ends).unwrap_or(run.len())]
}

/// PostgreSQL's operator that begins here; empty where none does.
pub(super) fn operator(text: &[char], start: usize) -> &[char] {
    let together = signs(text, start);
    &together[..length(together)]
}

/// How many of these signs are PostgreSQL's first operator.
pub(super) fn length(signs: &[char]) -> usize {
    let is_sum = |at: usize| matches!(signs[at - 1], '+' | '-');
    let mut length = signs.len();
    if length > 1 && is_sum(length) && !signs[..length - 1].iter().any(|c| OTHER_SIGNS.contains(*c))
    {
        while length > 1 && is_sum(length) {
            length -= 1;
        }
    }
    length
}
