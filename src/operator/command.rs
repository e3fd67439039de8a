//! Reads a command of the admin database.

use super::tables::{SHOWN, ShowTable};
use crate::refusal::{Refusal, reason};

/// Bytes of a reason.
const WHY_MAX: usize = 500;
/// No command is longer.
const TEXT_MAX: usize = 4096;

/// An operator's command.
#[derive(Debug, Clone, PartialEq)]
pub enum OperatorCommand {
    Show(&'static ShowTable),
    Reload,
    Drain,
    Kill(i32),
    /// `None`: every role.
    Freeze {
        role: Option<String>,
        why: String,
    },
}

#[derive(Debug, PartialEq)]
enum Word {
    Plain(String),
    Name(String),
    Text(String),
}

impl OperatorCommand {
    /// Reads a text as a command. `None` for any other text, which is about the session, as SET and
    /// BEGIN are.
    ///
    /// # Errors
    /// 42601 for a command of another form.
    pub fn read(sql: &str) -> Option<Result<Self, Refusal>> {
        if sql.len() > TEXT_MAX {
            return None;
        }
        let words = words(sql)?;
        let (first, rest) = words.split_first()?;
        let Word::Plain(verb) = first else {
            return None;
        };
        match (verb.to_ascii_uppercase().as_str(), rest) {
            ("HELP", []) => Self::read("SHOW HELP"),
            ("SHOW", [Word::Plain(name)]) => {
                let is_named = |shown: &&ShowTable| shown.name.eq_ignore_ascii_case(name);
                SHOWN
                    .iter()
                    .find(is_named)
                    .map(|shown| Ok(Self::Show(shown)))
            }
            ("RELOAD", []) => Some(Ok(Self::Reload)),
            ("DRAIN", []) => Some(Ok(Self::Drain)),
            ("KILL", [Word::Plain(id)]) => Some(match id.parse() {
                Ok(id) => Ok(Self::Kill(id)),
                Err(_) => Err(refuse_malformed("KILL")),
            }),
            ("FREEZE", [Word::Plain(role), Word::Text(why)]) => {
                let role = (!role.eq_ignore_ascii_case("all")).then(|| role.to_lowercase());
                Some(frozen(role, why))
            }
            ("FREEZE", [Word::Name(role), Word::Text(why)]) => {
                Some(frozen(Some(role.clone()), why))
            }
            (verb @ ("HELP" | "RELOAD" | "DRAIN" | "KILL" | "FREEZE"), _) => {
                Some(Err(refuse_malformed(verb)))
            }
            (verb @ ("UNFREEZE" | "GRANT"), _) => Some(Err(loosening(verb))),
            _ => None,
        }
    }
}

fn frozen(role: Option<String>, why: &str) -> Result<OperatorCommand, Refusal> {
    // It is kept for ever, and shown in terminals.
    if why.trim().is_empty() || why.len() > WHY_MAX || why.contains(char::is_control) {
        return Err(refuse_malformed("FREEZE")
            .detail(format!("A reason has 1 to {WHY_MAX} bytes, in one line.")));
    }
    let why = why.to_owned();
    Ok(OperatorCommand::Freeze { role, why })
}

fn refuse_malformed(verb: &str) -> Refusal {
    Refusal::new(reason::SYNTAX_ERROR, format!("syntax error in {verb}"))
        .hint("Write HELP, RELOAD, DRAIN, KILL 7, FREEZE analyst 'why', or FREEZE ALL 'why'.")
}

/// Commands that give budget back run on the proxy's machine alone.
fn loosening(verb: &str) -> Refusal {
    let message = format!("{verb} is not a command of the admin database");
    let command = verb.to_ascii_lowercase();
    Refusal::new(reason::OPERATOR_COMMAND, message).hint(format!(
        "Run `pgveil budget {command}` on the machine of the proxy."
    ))
}

/// The words of a text; `None` where it has anything else.
fn words(sql: &str) -> Option<Vec<Word>> {
    let mut rest = sql.trim().trim_end_matches(';').trim_end();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let word;
        (word, rest) = match rest.as_bytes()[0] {
            quote @ (b'\'' | b'"') => {
                let (text, rest) = read_quoted(rest, char::from(quote))?;
                let word = if quote == b'"' {
                    Word::Name(text)
                } else {
                    Word::Text(text)
                };
                (word, rest)
            }
            _ => {
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len());
                if end == 0 {
                    return None;
                }
                let (word, rest) = rest.split_at(end);
                (Word::Plain(word.to_owned()), rest)
            }
        };
        words.push(word);
        rest = rest.trim_start();
    }
    Some(words)
}

/// The quoted text at the beginning, and the rest. A quote in the text is doubled.
fn read_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != quote {
            found.push(letter);
        } else if letters.next_if(|(_, next)| *next == quote).is_some() {
            found.push(quote);
        } else {
            return Some((found, &text[at + quote.len_utf8()..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freeze(role: Option<&str>, why: &str) -> OperatorCommand {
        OperatorCommand::Freeze {
            role: role.map(str::to_owned),
            why: why.to_owned(),
        }
    }

    #[test]
    fn commands_are_read() {
        for (sql, wanted) in [
            ("RELOAD", OperatorCommand::Reload),
            ("  drain ;", OperatorCommand::Drain),
            ("help", OperatorCommand::Show(&SHOWN[0])),
            ("KILL 7;", OperatorCommand::Kill(7)),
            (
                "FREEZE Analyst 'it''s late'",
                freeze(Some("analyst"), "it's late"),
            ),
            ("FREEZE \"An \"\"A\"\"\" 'é'", freeze(Some("An \"A\""), "é")),
            ("freeze all 'incident'", freeze(None, "incident")),
            ("FREEZE \"all\" 'incident'", freeze(Some("all"), "incident")),
        ] {
            assert_eq!(
                OperatorCommand::read(sql).unwrap().unwrap(),
                wanted,
                "{sql}"
            );
        }
        for shown in &SHOWN {
            let sql = format!("show {};", shown.name.to_lowercase());
            let Some(Ok(OperatorCommand::Show(found))) = OperatorCommand::read(&sql) else {
                panic!("{sql}")
            };
            assert_eq!(found.name, shown.name);
        }
    }

    #[test]
    fn what_is_no_command_is_left_to_the_session() {
        for sql in [
            "",
            ";",
            "SHOW TimeZone",
            "SHOW ALL",
            "SET extra_float_digits = 3",
            "BEGIN",
            "SELECT 1",
            "SELECT 'RELOAD'",
            "'RELOAD'",
            "SHOW POOLS; SHOW STATS",
            "SHOW",
            "-- RELOAD",
            "'open",
        ] {
            assert!(OperatorCommand::read(sql).is_none(), "{sql}");
        }
        for sql in [
            "RELOAD now",
            "KILL",
            "KILL x",
            "KILL 99999999999",
            "FREEZE",
            "FREEZE ann",
            "FREEZE ann ''",
            "FREEZE ann 'two\nlines'",
            &format!("FREEZE ann '{}'", "x".repeat(WHY_MAX + 1)),
            "FREEZE ann why",
            "DRAIN 7",
            "UNFREEZE ann 'it is over'",
            "GRANT 1 TO ann",
            "HELP me",
        ] {
            assert!(OperatorCommand::read(sql).unwrap().is_err(), "{sql}");
        }
    }
}
