//! DECLARE, FETCH, MOVE and CLOSE.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SessionStatement;
use super::words::Words;
use crate::parse::grammar;
use crate::parse::{Query, Statement};
use crate::refusal::{Refusal, reason};

/// `DECLARE name … CURSOR … FOR query`: the query is one question, asked when the cursor is
/// declared.
#[derive(Debug, Clone, PartialEq)]
pub struct Declare {
    pub name: String,
    pub query: Query,
    /// The simple protocol gets this cursor's values in binary.
    pub is_binary: bool,
    /// SCROLL or NO SCROLL; `None` where not said.
    pub scroll: Option<bool>,
    /// WITH HOLD: lives on when its transaction commits.
    pub holds: bool,
}

/// FETCH, or MOVE, which gives no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    pub name: String,
    pub direction: Direction,
    pub moves_only: bool,
}

/// Where FETCH goes from the row it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Moves this many rows on; 0 is the current row again.
    Forward(FetchCount),
    Backward(FetchCount),
    /// The row of this number; from the end where negative, before the first where 0.
    Absolute(i64),
    Relative(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchCount {
    /// Not negative.
    Rows(u64),
    All,
}

/// # Errors
/// 42601 for a malformed one, 42P11 for options that contradict each other.
pub(super) fn declare(
    words: &mut Words<'_>,
    parse_query: impl FnOnce(Vec<TokenWithSpan>) -> Result<Query, Refusal>,
) -> Result<Statement, Refusal> {
    let name = words.identifier()?;
    let (mut is_binary, mut scroll, mut sensitive, mut holds) = (false, None, None, false);
    loop {
        let place = words.place();
        let (option, known): (&mut Option<bool>, bool) = match words
            .any_keyword(&[
                "BINARY",
                "SCROLL",
                "NO",
                "INSENSITIVE",
                "ASENSITIVE",
                "CURSOR",
            ])
            .as_deref()
        {
            Some("BINARY") => {
                is_binary = true;
                continue;
            }
            Some("SCROLL") => (&mut scroll, true),
            Some("NO") if words.keyword("SCROLL") => (&mut scroll, false),
            Some("INSENSITIVE") => (&mut sensitive, false),
            Some("ASENSITIVE") => (&mut sensitive, true),
            Some("CURSOR") => break,
            _ => return Err(words.syntax_error()),
        };
        if option.is_some_and(|said| said != known) {
            return Err(Refusal::new(
                reason::CURSOR_OPTIONS,
                "options of DECLARE CURSOR contradict each other",
            )
            .at(place));
        }
        *option = Some(known);
    }
    if words.keywords(&["WITH", "HOLD"]) {
        holds = true;
    } else {
        words.keywords(&["WITHOUT", "HOLD"]);
    }
    if !words.keyword("FOR") {
        return Err(words.syntax_error());
    }
    let query = parse_query(words.rest())?;
    Ok(Statement::Declare(Declare {
        name,
        query,
        is_binary,
        scroll,
        holds,
    }))
}

pub(super) fn close(words: &mut Words<'_>) -> Result<SessionStatement, Refusal> {
    let name = if words.keyword("ALL") {
        None
    } else {
        Some(words.identifier()?)
    };
    Ok(SessionStatement::Close { name })
}

/// `[direction] [FROM | IN] name`. A cursor may be called like a direction, so a lone word is a
/// name.
pub(super) fn fetch(words: &mut Words<'_>, moves_only: bool) -> Result<Statement, Refusal> {
    let rest = words.rest();
    if let [only] = rest.as_slice()
        && matches!(only.token, Token::Word(_))
    {
        return Ok(Statement::Fetch(Fetch {
            name: words.identifier()?,
            direction: Direction::Forward(FetchCount::Rows(1)),
            moves_only,
        }));
    }
    let direction = match words
        .any_keyword(&[
            "NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD",
        ])
        .as_deref()
    {
        Some("NEXT") => Direction::Forward(FetchCount::Rows(1)),
        Some("PRIOR") => Direction::Backward(FetchCount::Rows(1)),
        Some("FIRST") => Direction::Absolute(1),
        Some("LAST") => Direction::Absolute(-1),
        Some("ABSOLUTE") => {
            Direction::Absolute(number(words)?.ok_or_else(|| words.syntax_error())?)
        }
        Some("RELATIVE") => {
            Direction::Relative(number(words)?.ok_or_else(|| words.syntax_error())?)
        }
        Some("ALL") => Direction::Forward(FetchCount::All),
        Some("FORWARD") => read_count(words, Direction::Forward, Direction::Backward)?,
        Some("BACKWARD") => read_count(words, Direction::Backward, Direction::Forward)?,
        _ => read_count(words, Direction::Forward, Direction::Backward)?,
    };
    words.any_keyword(&["FROM", "IN"]);
    Ok(Statement::Fetch(Fetch {
        name: words.identifier()?,
        direction,
        moves_only,
    }))
}

/// A count of rows, ALL, or one row where nothing is said; a negative count goes the other way.
fn read_count(
    words: &mut Words<'_>,
    along: fn(FetchCount) -> Direction,
    against: fn(FetchCount) -> Direction,
) -> Result<Direction, Refusal> {
    if words.keyword("ALL") {
        return Ok(along(FetchCount::All));
    }
    Ok(match number(words)? {
        Some(count) if count < 0 => against(FetchCount::Rows(count.unsigned_abs())),
        Some(count) => along(FetchCount::Rows(count.unsigned_abs())),
        None => along(FetchCount::Rows(1)),
    })
}

/// PostgreSQL's grammar takes 32 bits.
fn number(words: &mut Words<'_>) -> Result<Option<i64>, Refusal> {
    let Some(text) = words.number() else {
        return Ok(None);
    };
    let number: i32 = text.parse().map_err(|_| {
        let digits = text.trim_start_matches('-');
        grammar::syntax_error_near(digits).at(words.last_place())
    })?;
    Ok(Some(i64::from(number)))
}
