//! PostgreSQL's words of a text (scan.l), where a statement could not be read: their kinds, and how
//! they are written.

use super::words::{Category, category};
use crate::parse::character_classes::{blanks, operator, starts_name};
use crate::refusal::{Refusal, reason};

/// The grammar's names for a word that is not a keyword.
const NAME: [&str; 5] = ["IDENT", "ColId", "TypeName", "BareLabel", "ColLabel"];
/// After the last word.
pub(super) const END: &str = "the end";
/// Signs with a special meaning in the grammar; every other operator is OP.
const SIGNS: [&str; 24] = [
    "::", ":=", "=>", "<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "^", ",",
    ".", ":", ";", "[", "]", "(", ")",
];

/// One of PostgreSQL's words.
pub(super) struct Lexeme {
    /// From 0, in characters.
    pub start: usize,
    pub end: usize,
    /// The terminals of the grammar that it may stand for.
    pub kinds: Vec<&'static str>,
    /// In lower case, where it is a word without quotes.
    pub word: Option<String>,
}

/// The words up to the semicolon, the parenthesis that closes what is `enclosed`, or the text's
/// end; and what is no word, where they end with that.
pub(super) fn scan(text: &[char], from: usize, enclosed: bool) -> (Vec<Lexeme>, Option<Refusal>) {
    let mut scanner = Scanner { text, at: from };
    let (mut lexemes, mut depth) = (Vec::new(), usize::from(enclosed));
    let end = loop {
        let lexeme = match scanner.next() {
            Ok(Some(lexeme)) => lexeme,
            Ok(None) => {
                break Ok(Lexeme {
                    start: text.len(),
                    end: text.len(),
                    kinds: Vec::new(),
                    word: None,
                });
            }
            Err(refusal) => break Err(refusal),
        };
        match lexeme.kinds.as_slice() {
            ["("] => depth += 1,
            [")"] if enclosed && depth == 1 => break Ok(lexeme),
            [")"] => depth = depth.saturating_sub(1),
            [";"] => break Ok(lexeme),
            _ => {}
        }
        lexemes.push(lexeme);
    };
    look_ahead(&mut lexemes);
    match end {
        Ok(end) => {
            lexemes.push(Lexeme {
                kinds: vec![END],
                word: None,
                ..end
            });
            (lexemes, None)
        }
        Err(refusal) => (lexemes, Some(refusal)),
    }
}

/// The word that begins here.
pub(super) fn word(text: &[char], start: usize) -> Option<Lexeme> {
    Scanner { text, at: start }.next().ok().flatten()
}

/// NOT, NULLS and WITH are other words before some: what follows decides which.
fn look_ahead(lexemes: &mut [Lexeme]) {
    for at in 1..lexemes.len() {
        let (before, rest) = lexemes.split_at_mut(at);
        let (
            Some(lexeme),
            Some(Lexeme {
                word: Some(next), ..
            }),
        ) = (before.last_mut(), rest.first())
        else {
            continue;
        };
        let kind = match (lexeme.word.as_deref(), next.as_str()) {
            (Some("not"), "between" | "in" | "like" | "ilike" | "similar") => "NOT_LA",
            (Some("nulls"), "first" | "last") => "NULLS_LA",
            (Some("with"), "time" | "ordinality") => "WITH_LA",
            _ => continue,
        };
        (lexeme.kinds, lexeme.word) = (vec![kind, "ColLabel"], None);
    }
}

struct Scanner<'t> {
    text: &'t [char],
    at: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Result<Option<Lexeme>, Refusal> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(&first) = self.text.get(start) else {
            return Ok(None);
        };
        let next = self.text.get(start + 1).copied();
        let mut word = None;
        let kinds = match (first, next) {
            ('\'', _) => self.scan_quoted(1, false, "SCONST")?,
            ('e' | 'E', Some('\'')) => self.scan_quoted(2, true, "SCONST")?,
            // NCHAR and a constant.
            ('n' | 'N', Some('\'')) => {
                self.at += 1;
                word = Some("nchar".to_owned());
                Vec::new()
            }
            ('b' | 'B', Some('\'')) => self.scan_quoted(2, false, "BCONST")?,
            ('x' | 'X', Some('\'')) => self.scan_quoted(2, false, "XCONST")?,
            ('u' | 'U', Some('&')) if self.text.get(start + 2) == Some(&'\'') => {
                self.scan_quoted(3, false, "SCONST")?
            }
            ('u' | 'U', Some('&')) if self.text.get(start + 2) == Some(&'"') => {
                self.quoted_name(3)?
            }
            ('"', _) => self.quoted_name(1)?,
            ('$', Some(digit)) if digit.is_ascii_digit() => self.parameter()?,
            ('$', _) => self.dollar_quoted()?,
            (digit, _) if digit.is_ascii_digit() => self.number()?,
            ('.', Some(digit)) if digit.is_ascii_digit() => self.number()?,
            (letter, _) if starts_name(letter) => {
                let (kinds, name) = self.name();
                word = Some(name);
                kinds
            }
            ('.', Some('.')) => {
                self.at += 2;
                Vec::new()
            }
            _ => self.sign(),
        };
        Ok(Some(Lexeme {
            start,
            end: self.at,
            kinds,
            word,
        }))
    }

    fn skip_blanks(&mut self) -> Result<(), Refusal> {
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                [' ' | '\t' | '\n' | '\r' | '\u{c}', ..] => self.at += 1,
                ['-', '-', ..] => self.at = self.end_of(|c| matches!(c, '\n' | '\r')),
                ['/', '*', ..] => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    /// The next place of such a character, or the text's end.
    fn end_of(&self, is_it: impl Fn(char) -> bool) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        rest.iter()
            .position(|c| is_it(*c))
            .map_or(self.text.len(), |found| self.at + found)
    }

    fn name_end(&self) -> usize {
        self.end_of(|c| !(starts_name(c) || c.is_ascii_digit() || c == '$'))
    }

    fn comment(&mut self) -> Result<(), Refusal> {
        let (start, mut depth) = (self.at, 0);
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                ['/', '*', ..] => (self.at, depth) = (self.at + 2, depth + 1),
                ['*', '/', ..] => (self.at, depth) = (self.at + 2, depth - 1),
                [_, ..] => self.at += 1,
                [] => return Err(self.junk("unterminated /* comment", start, self.text.len())),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// A constant in quotes, `opening` characters after its start; it may continue on another line.
    fn scan_quoted(
        &mut self,
        opening: usize,
        escapes: bool,
        kind: &'static str,
    ) -> Result<Vec<&'static str>, Refusal> {
        let start = self.at;
        self.at += opening;
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                ['\'', '\'', ..] => self.at += 2,
                ['\\', _, ..] if escapes => self.at += 2,
                ['\'', ..] => {
                    self.at += 1;
                    match self.continuation() {
                        Some(next) => self.at = next,
                        None => return Ok(vec![kind]),
                    }
                }
                [_, ..] => self.at += 1,
                [] => {
                    let what = match kind {
                        "BCONST" => "unterminated bit string literal",
                        "XCONST" => "unterminated hexadecimal string literal",
                        _ => "unterminated quoted string",
                    };
                    return Err(self.junk(what, start, self.text.len()));
                }
            }
        }
    }

    /// After the quote that opens the rest of the constant, if a line ends before it.
    fn continuation(&self) -> Option<usize> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let (length, is_next_line) = blanks(rest);
        (is_next_line && rest.get(length) == Some(&'\'')).then_some(self.at + length + 1)
    }

    fn quoted_name(&mut self, opening: usize) -> Result<Vec<&'static str>, Refusal> {
        let start = self.at;
        self.at += opening;
        loop {
            match self.text.get(self.at..).unwrap_or_default() {
                ['"', '"', ..] => self.at += 2,
                ['"', ..] if self.at == start + opening => {
                    return Err(self.junk("zero-length delimited identifier", start, self.at + 1));
                }
                ['"', ..] => {
                    self.at += 1;
                    return Ok(NAME.to_vec());
                }
                [_, ..] => self.at += 1,
                [] => {
                    return Err(self.junk(
                        "unterminated quoted identifier",
                        start,
                        self.text.len(),
                    ));
                }
            }
        }
    }

    fn parameter(&mut self) -> Result<Vec<&'static str>, Refusal> {
        let start = self.at;
        self.at += 1;
        self.at = self.end_of(|c| !c.is_ascii_digit());
        match self.text.get(self.at) {
            Some(c) if starts_name(*c) => {
                Err(self.junk("trailing junk after parameter", start, self.name_end()))
            }
            _ => Ok(vec!["PARAM"]),
        }
    }

    fn dollar_quoted(&mut self) -> Result<Vec<&'static str>, Refusal> {
        let start = self.at;
        self.at += 1;
        let end = self.end_of(|c| !(starts_name(c) || c.is_ascii_digit()));
        if self.text.get(end) != Some(&'$') {
            return Ok(vec!["$"]);
        }
        let tag = &self.text[start..=end];
        match self.text[end + 1..]
            .windows(tag.len())
            .position(|window| window == tag)
        {
            Some(found) => {
                self.at = end + 1 + found + tag.len();
                Ok(vec!["SCONST"])
            }
            None => Err(self.junk("unterminated dollar-quoted string", start, self.text.len())),
        }
    }

    fn number(&mut self) -> Result<Vec<&'static str>, Refusal> {
        let start = self.at;
        let is_other = |c: char| !c.is_ascii_digit();
        self.at = self.end_of(is_other);
        let mut is_whole = true;
        if matches!(self.text.get(self.at..), Some(['.', rest @ ..]) if rest.first() != Some(&'.'))
        {
            (self.at, is_whole) = (self.at + 1, false);
            self.at = self.end_of(is_other);
        }
        if let Some(['e' | 'E', rest @ ..]) = self.text.get(self.at..) {
            let sign = usize::from(matches!(rest.first(), Some('+' | '-')));
            if rest.get(sign).is_some_and(char::is_ascii_digit) {
                (self.at, is_whole) = (self.at + 1 + sign, false);
                self.at = self.end_of(is_other);
            }
        }
        match self.text.get(self.at) {
            Some(c) if starts_name(*c) => Err(self.junk(
                "trailing junk after numeric literal",
                start,
                self.name_end(),
            )),
            _ => {
                let fits = self.text[start..self.at]
                    .iter()
                    .collect::<String>()
                    .parse::<i32>()
                    .is_ok();
                Ok(vec![if is_whole && fits { "ICONST" } else { "FCONST" }])
            }
        }
    }

    fn name(&mut self) -> (Vec<&'static str>, String) {
        let start = self.at;
        self.at = self.name_end();
        let word: String = self.text[start..self.at]
            .iter()
            .map(char::to_ascii_lowercase)
            .collect();
        let kinds = match category(&word) {
            None => NAME.to_vec(),
            Some((category, is_label)) => {
                let names: &[&str] = match category {
                    Category::Unreserved => &["ColId", "TypeName"],
                    Category::Column => &["ColId"],
                    Category::Function => &["TypeName"],
                    Category::Reserved => &[],
                };
                let label: &[&str] = if is_label { &["BareLabel"] } else { &[] };
                [names, label, &["ColLabel"]].concat()
            }
        };
        (kinds, word)
    }

    fn sign(&mut self) -> Vec<&'static str> {
        let (operator, rest) = (operator(self.text, self.at), &self.text[self.at..]);
        let length = match rest {
            [':', ':' | '=', ..] => 2,
            _ => operator.len().max(1),
        };
        self.at += length;
        let is_it = |known: &&str| known.chars().eq(rest[..length].iter().copied());
        match SIGNS.into_iter().find(is_it) {
            Some("!=") => vec!["<>"],
            Some(known) => vec![known],
            None if !operator.is_empty() => vec!["OP"],
            None => Vec::new(),
        }
    }

    fn junk(&self, what: &str, start: usize, end: usize) -> Refusal {
        let near: String = self.text[start..end.min(self.text.len())].iter().collect();
        Refusal::new(
            reason::SYNTAX_ERROR,
            format!("{what} at or near \"{near}\""),
        )
        .at(u32::try_from(start + 1).ok())
    }
}
