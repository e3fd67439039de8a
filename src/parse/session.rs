//! Statements about the session itself: settings, transactions, prepared statements.
//!
//! sqlparser leaves some of them out and takes others in forms that PostgreSQL does not, so all of
//! them are read here, token by token.

mod copy;
mod cursor;
mod explain;
mod prepared;
mod refused;
mod words;
mod write;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Query, Statement};
use crate::refusal::{Refusal, reason};
pub use copy::{Copy, CopyFormat, Force, Style};
pub use cursor::{Declare, Direction, Fetch, FetchCount};
pub(super) use explain::explain_write;
pub use prepared::{Execute, Prepare};
use words::Words;
pub use write::{
    OTHER_TYPE, TrueBytes, TrueText, Write, WriteTarget, WrittenRows, WrittenValue,
    check_parameters, type_of_number,
};
pub(super) use write::{of_tokens as write, without_words};

/// A statement that is answered at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStatement {
    /// SET; `None` is DEFAULT. Several values only for list settings.
    Set {
        scope: SettingScope,
        name: String,
        values: Option<Vec<String>>,
    },
    Reset {
        name: String,
    },
    ResetAll,
    Show {
        name: String,
    },
    ShowAll,
    /// BEGIN or START TRANSACTION (their command tags differ).
    Begin {
        start: bool,
        modes: Modes,
    },
    /// COMMIT or END; `chain` opens the next transaction at once.
    Commit {
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        chain: bool,
    },
    Savepoint {
        name: String,
    },
    Release {
        name: String,
    },
    RollbackTo {
        name: String,
    },
    SetTransaction {
        modes: Modes,
    },
    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    SetCharacteristics {
        modes: Modes,
    },
    /// Nothing can be deferred, so nothing happens.
    SetConstraints,
    DiscardAll,
    /// DISCARD PLANS, SEQUENCES or TEMP: there are none. Holds the word for the command tag.
    Discard {
        what: String,
    },
    /// One prepared statement, or all.
    Deallocate {
        name: Option<String>,
    },
    /// No notification ever comes.
    Listen,
    Unlisten,
    /// One cursor, or all.
    Close {
        name: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingScope {
    Session,
    Local,
}

/// Transaction modes; `None` where not said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modes {
    /// In lower case, as SHOW prints it.
    pub isolation: Option<String>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

/// Splits at semicolons; pieces without a token are dropped.
pub(super) fn pieces(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut pieces: Vec<Vec<TokenWithSpan>> = vec![Vec::new()];
    for token in tokens {
        if token.token == Token::SemiColon {
            pieces.push(Vec::new());
        } else if let Some(piece) = pieces.last_mut() {
            piece.push(token);
        }
    }
    pieces.retain(|piece| {
        piece
            .iter()
            .any(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
    });
    pieces
}

/// The session statement or EXPLAIN that the tokens of one statement spell; `None` where they are a
/// query's.
///
/// # Errors
/// 42601 for a malformed one, 42501 for statements that change anything, 0A000 for what is known
/// and not offered.
pub(super) fn from_tokens(
    tokens: &[TokenWithSpan],
    sql: &str,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Option<Statement>, Refusal> {
    let mut words = Words::new(tokens, sql);
    let Some(first) = words.peek_keyword() else {
        return Ok(None);
    };
    if matches!(
        first.as_str(),
        "EXPLAIN" | "FETCH" | "MOVE" | "DECLARE" | "PREPARE" | "EXECUTE" | "COPY"
    ) {
        words.next();
    }
    match first.as_str() {
        "EXPLAIN" => return explain::explain(&mut words, sql, parse_query).map(Some),
        "DECLARE" => return cursor::declare(&mut words, parse_query).map(Some),
        "PREPARE" => return prepared::prepare(&mut words, sql, parse_query).map(Some),
        "COPY" => return copy::copy(&mut words, parse_query).map(Some),
        _ => {}
    }
    let statement = match first.as_str() {
        "EXECUTE" => Statement::Execute(prepared::execute(&mut words, sql)?),
        "FETCH" => cursor::fetch(&mut words, false)?,
        "MOVE" => cursor::fetch(&mut words, true)?,
        _ => match statement(&first, &mut words)? {
            Some(session) => Statement::Session(session),
            None => return Ok(None),
        },
    };
    words.end()?;
    Ok(Some(statement))
}

/// Whether the word that begins at this position begins a statement that changes anything.
pub(super) fn is_command(sql: &str, position: u32) -> bool {
    let word: String = sql
        .chars()
        .skip(position.saturating_sub(1) as usize)
        .take_while(char::is_ascii_alphabetic)
        .collect();
    refused::by_first_word(&word.to_ascii_uppercase()).is_some()
}

fn statement(first: &str, words: &mut Words<'_>) -> Result<Option<SessionStatement>, Refusal> {
    if let Some(refusal) = refused::by_first_word(first) {
        return Err(refusal);
    }
    let parse: fn(&mut Words<'_>) -> Result<SessionStatement, Refusal> = match first {
        "SET" => set,
        "RESET" => reset,
        "SHOW" => show,
        "BEGIN" | "START" => begin,
        "COMMIT" | "END" => commit,
        "ROLLBACK" | "ABORT" => rollback,
        "SAVEPOINT" => |words| {
            Ok(SessionStatement::Savepoint {
                name: words.identifier()?,
            })
        },
        "RELEASE" => |words| {
            words.keyword("SAVEPOINT");
            Ok(SessionStatement::Release {
                name: words.identifier()?,
            })
        },
        "DISCARD" => discard,
        "DEALLOCATE" => prepared::deallocate,
        "CLOSE" => cursor::close,
        "LISTEN" => |words| words.identifier().map(|_| SessionStatement::Listen),
        "UNLISTEN" => |words| {
            if words.token(&Token::Mul) {
                Ok(SessionStatement::Unlisten)
            } else {
                words.identifier().map(|_| SessionStatement::Unlisten)
            }
        },
        _ => return Ok(None),
    };
    if first != "BEGIN" && first != "START" {
        words.next();
    }
    parse(words).map(Some)
}

fn set(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keywords(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        return Ok(SessionStatement::SetCharacteristics {
            modes: modes(words)?,
        });
    }
    let scope = match words.any_keyword(&["SESSION", "LOCAL"]).as_deref() {
        Some("LOCAL") => SettingScope::Local,
        _ => SettingScope::Session,
    };
    if words.keyword("TRANSACTION") {
        if words.peek_keyword().as_deref() == Some("SNAPSHOT") {
            return Err(refused::not_offered("SET TRANSACTION SNAPSHOT"));
        }
        return Ok(SessionStatement::SetTransaction {
            modes: modes(words)?,
        });
    }
    if words.keywords(&["TIME", "ZONE"]) {
        return Ok(SessionStatement::Set {
            scope,
            name: "timezone".to_owned(),
            values: time_zone(words)?,
        });
    }
    if words.keyword("CONSTRAINTS") {
        while words.next().is_some() {}
        return Ok(SessionStatement::SetConstraints);
    }
    if words.keyword("NAMES") {
        let values = if words.keyword("DEFAULT") {
            None
        } else {
            words.string().map(|value| vec![value])
        };
        return Ok(SessionStatement::Set {
            scope,
            name: "client_encoding".to_owned(),
            values,
        });
    }
    if words.keyword("SCHEMA") {
        let schema = words.string().ok_or_else(|| words.syntax_error())?;
        return Ok(SessionStatement::Set {
            scope,
            name: "search_path".to_owned(),
            values: Some(vec![schema]),
        });
    }
    if let Some(word) = words.any_keyword(&["ROLE", "AUTHORIZATION"]) {
        let name = if word == "ROLE" {
            "role"
        } else {
            "session_authorization"
        };
        let _ = words.token(&Token::Eq) || words.keyword("TO");
        return Ok(SessionStatement::Set {
            scope,
            name: name.to_owned(),
            values: set_values(words)?,
        });
    }
    let name = setting_name(words)?;
    if !words.token(&Token::Eq) && !words.keyword("TO") {
        return Err(words.syntax_error());
    }
    Ok(SessionStatement::Set {
        scope,
        name,
        values: set_values(words)?,
    })
}

/// `a` or `a.b`, in lower case: setting names are not case sensitive.
fn setting_name(words: &mut Words<'_>) -> Result<String, Refusal> {
    let mut name = words.identifier()?.to_ascii_lowercase();
    while words.token(&Token::Period) {
        name.push('.');
        name.push_str(&words.identifier()?.to_ascii_lowercase());
    }
    Ok(name)
}

fn set_values(words: &mut Words<'_>) -> Result<Option<Vec<String>>, Refusal> {
    if words.keyword("DEFAULT") {
        return Ok(None);
    }
    let mut values = Vec::new();
    loop {
        let value = match words.string().or_else(|| words.number()) {
            Some(value) => value,
            None => words.identifier()?,
        };
        values.push(value);
        if !words.token(&Token::Comma) {
            return Ok(Some(values));
        }
    }
}

/// The value of SET TIME ZONE: a name, hours east of Greenwich, or INTERVAL '+05:30' HOUR TO
/// MINUTE.
fn time_zone(words: &mut Words<'_>) -> Result<Option<Vec<String>>, Refusal> {
    if words.any_keyword(&["LOCAL", "DEFAULT"]).is_some() {
        return Ok(None);
    }
    if words.keyword("INTERVAL") {
        let offset = words.string().ok_or_else(|| words.syntax_error())?;
        words.keywords(&["HOUR", "TO", "MINUTE"]);
        return Ok(Some(vec![posix_zone(&offset)?]));
    }
    if let Some(hours) = words.number() {
        return Ok(Some(vec![posix_zone(&hours)?]));
    }
    match words.string() {
        Some(zone) => Ok(Some(vec![zone])),
        None => Ok(Some(vec![words.identifier()?])),
    }
}

/// `+05:30` → `<+05:30>-05:30`: POSIX counts west of Greenwich.
fn posix_zone(offset: &str) -> Result<String, Refusal> {
    let bad = || {
        Refusal::new(
            reason::INVALID_SETTING,
            format!("invalid value for parameter \"TimeZone\": \"{offset}\""),
        )
    };
    let (sign, digits) = match offset.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', offset.strip_prefix('+').unwrap_or(offset)),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    let hours: u8 = hours.parse().map_err(|_| bad())?;
    let minutes: u8 = minutes.parse().map_err(|_| bad())?;
    if hours > 15 || minutes > 59 {
        return Err(bad());
    }
    let clock = if minutes == 0 {
        format!("{hours:02}")
    } else {
        format!("{hours:02}:{minutes:02}")
    };
    let west = if sign == '+' { '-' } else { '+' };
    Ok(format!("<{sign}{clock}>{west}{clock}"))
}

/// The names RESET and SHOW take in addition to plain ones.
fn spoken_name(words: &mut Words<'_>) -> Result<String, Refusal> {
    if words.keywords(&["TIME", "ZONE"]) {
        Ok("timezone".to_owned())
    } else if words.keywords(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        Ok("transaction_isolation".to_owned())
    } else if words.keywords(&["SESSION", "AUTHORIZATION"]) {
        Ok("session_authorization".to_owned())
    } else {
        setting_name(words)
    }
}

fn reset(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keyword("ALL") {
        Ok(SessionStatement::ResetAll)
    } else {
        Ok(SessionStatement::Reset {
            name: spoken_name(words)?,
        })
    }
}

fn show(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keyword("ALL") {
        Ok(SessionStatement::ShowAll)
    } else {
        Ok(SessionStatement::Show {
            name: spoken_name(words)?,
        })
    }
}

fn begin(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    let start = words.keyword("START");
    if start {
        if !words.keyword("TRANSACTION") {
            return Err(words.syntax_error());
        }
    } else {
        words.keyword("BEGIN");
        words.any_keyword(&["WORK", "TRANSACTION"]);
    }
    let modes = if words.peek().is_some() {
        modes(words)?
    } else {
        Modes::default()
    };
    Ok(SessionStatement::Begin { start, modes })
}

fn modes(words: &mut Words<'_>) -> Result<Modes, Refusal> {
    let mut modes = Modes::default();
    loop {
        if words.keywords(&["ISOLATION", "LEVEL"]) {
            let levels: [&[&str]; 4] = [
                &["SERIALIZABLE"],
                &["REPEATABLE", "READ"],
                &["READ", "COMMITTED"],
                &["READ", "UNCOMMITTED"],
            ];
            let level = levels
                .into_iter()
                .find(|level| words.keywords(level))
                .ok_or_else(|| words.syntax_error())?;
            modes.isolation = Some(level.join(" ").to_ascii_lowercase());
        } else if words.keywords(&["READ", "ONLY"]) {
            modes.read_only = Some(true);
        } else if words.keywords(&["READ", "WRITE"]) {
            modes.read_only = Some(false);
        } else if words.keywords(&["NOT", "DEFERRABLE"]) {
            modes.deferrable = Some(false);
        } else if words.keyword("DEFERRABLE") {
            modes.deferrable = Some(true);
        } else {
            return Err(words.syntax_error());
        }
        if !words.token(&Token::Comma) && words.peek().is_none() {
            return Ok(modes);
        }
    }
}

fn commit(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keyword("PREPARED") {
        return Err(refused::not_offered("two-phase commit"));
    }
    words.any_keyword(&["WORK", "TRANSACTION"]);
    Ok(SessionStatement::Commit {
        chain: chain(words),
    })
}

fn rollback(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keyword("PREPARED") {
        return Err(refused::not_offered("two-phase commit"));
    }
    words.any_keyword(&["WORK", "TRANSACTION"]);
    if words.keyword("TO") {
        words.keyword("SAVEPOINT");
        return Ok(SessionStatement::RollbackTo {
            name: words.identifier()?,
        });
    }
    Ok(SessionStatement::Rollback {
        chain: chain(words),
    })
}

fn chain(words: &mut Words<'_>) -> bool {
    !words.keywords(&["AND", "NO", "CHAIN"]) && words.keywords(&["AND", "CHAIN"])
}

fn discard(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    if words.keyword("ALL") {
        return Ok(SessionStatement::DiscardAll);
    }
    match words.any_keyword(&["PLANS", "SEQUENCES", "TEMP", "TEMPORARY"]) {
        Some(what) => Ok(SessionStatement::Discard {
            what: what.replace("TEMPORARY", "TEMP"),
        }),
        None => Err(words.syntax_error()),
    }
}

#[cfg(test)]
mod tests;
