//! Stage 1: text → [`Statement`], an allow-list over sqlparser's tree. Nothing of a client's text
//! is ever forwarded; later stages print their own.

mod advisory;
mod balance_chains;
mod bind;
mod character_classes;
mod collate_operand;
mod derived_aggregates;
mod desugar;
mod execute_values;
mod foreign_clauses;
mod function_call;
mod grammar;
mod holdout;
mod limit_zero;
pub(crate) mod limits;
mod monitor;
mod nested_grouping_sets;
mod normalize;
mod operator_precedence;
mod parameters;
mod position;
mod qualified_names;
mod reads_clock;
mod record_fields;
mod session;
mod set_config;
mod table_command;
mod tokens;

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::refusal::{Refusal, RefusalKind, reason};
use crate::visit;
pub use advisory::{Advisory, AdvisoryAct, Number};
pub use balance_chains::{arms, balance, join_terms};
pub use bind::{ParameterValue, parameter_oid, parameter_type};
pub use character_classes::SIGNS;
pub use execute_values::ExecuteValues;
pub use function_call::FunctionCall;
use grammar::Goal;
pub use holdout::{HoldoutQuery, holdout_form};
pub use limits::copies::is_constant;
pub use limits::depth::{STACK_BYTES, with_room};
pub use monitor::MonitorQuery;
pub(crate) use position::TokenPositions;
pub use session::{
    Copy, CopyFormat, Declare, Direction, Execute, Fetch, FetchCount, Force, Modes, OTHER_TYPE,
    Prepare, SessionStatement, SettingScope, Style, TrueBytes, TrueText, Write, WriteTarget,
    WrittenRows, WrittenValue, check_parameters, type_of_number,
};
pub use set_config::{Configure, Given};

/// Longest statement text that is parsed, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Most tokens of a text: each becomes a node of up to a few hundred bytes.
const TOKENS_MAX: usize = 100_000;
/// About what one token weighs, parsed.
const TOKEN_BYTES: usize = 200;
/// Most statements of a text.
const STATEMENTS_MAX: usize = 1_000;
/// Deepest nesting that is parsed.
const DEPTH_MAX: usize = 64;

/// About how much memory a statement takes that was parsed from this text.
pub fn weight(sql: &str) -> usize {
    words(sql) * TOKEN_BYTES + sql.len()
}

/// Runs a parser of this text, and walks of its tree, with enough stack: a chain of operators makes
/// a tree as deep as the chain is long.
pub fn with_room_for_text<T>(sql: &str, walk: impl FnOnce() -> T) -> T {
    limits::height::with_room_for(words(sql), walk)
}

/// The statements as their text has them, but for `(pgveil.linregr(…)).*` and the like, whose
/// fields are written out. For pages that ask for other columns: nothing is checked, and what is
/// sent is parsed again. `None` where a part cannot be read.
pub fn as_written(sql: &str) -> Option<Vec<ast::Statement>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
    let mut statements = Parser::new(&PostgreSqlDialect {})
        .with_tokens_with_locations(record_fields::mark(tokens.ok()?))
        .parse_statements()
        .ok()?;
    for statement in &mut statements {
        if let ast::Statement::Query(query) = statement {
            record_fields::write_out(query).ok()?;
        }
    }
    Some(statements)
}

/// About how many words and signs a text has.
fn words(sql: &str) -> usize {
    let mut in_word = false;
    let words = sql.bytes().filter(|byte| {
        let (was, is) = (
            in_word,
            byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii(),
        );
        in_word = is;
        !(is && was || byte.is_ascii_whitespace())
    });
    // Signs inside a constant are no words; no statement has more of them than this.
    words.count().min(TOKENS_MAX)
}

/// One statement of a client, sorted by who answers it.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// A query: planned, priced, charged and answered by the engine.
    Query(Query),
    /// `EXPLAIN [(FORMAT JSON)] query`: the plan alone, free.
    Explain(Query, ExplainFormat),
    /// `EXPLAIN … EXECUTE …`: the plan of a prepared query with values, free.
    ExplainExecute(Execute, ExplainFormat),
    /// `DECLARE … CURSOR`: asks its query, and keeps the answer for FETCH.
    Declare(Declare),
    /// FETCH or MOVE: free.
    Fetch(Fetch),
    /// `PREPARE … AS query`: free.
    Prepare(Prepare),
    /// `EXECUTE …`: asks a prepared query with values.
    Execute(Execute),
    /// `COPY (query) TO STDOUT`: the answer as a stream.
    Copy(Copy),
    /// INSERT or COPY FROM STDIN, of a role that writes.
    Write(Write),
    /// `EXPLAIN INSERT …`, of a role that writes: how values would be randomised, free.
    ExplainWrite(Write, ExplainFormat),
    /// About the session itself: answered at the edge, touches no table.
    Session(SessionStatement),
    /// A command of an operator, by its text: answered by the admin database, touches no table.
    Operator(String),
}

impl Statement {
    /// The query that it asks, prepares or explains by its text.
    pub fn query(&self) -> Option<&Query> {
        match self {
            Self::Query(query) | Self::Explain(query, _) => Some(query),
            Self::Declare(declare) => Some(&declare.query),
            Self::Prepare(prepare) => Some(&prepare.query),
            Self::Copy(copy) => Some(&copy.query),
            Self::ExplainExecute(..) | Self::Fetch(_) | Self::Execute(_) => None,
            Self::Session(_) | Self::Operator(_) => None,
            Self::Write(_) | Self::ExplainWrite(..) => None,
        }
    }
}

/// A SELECT, VALUES or WITH query, as parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Query(pub(crate) Box<ast::Query>, TokenPositions);

impl Query {
    /// Accepts a parsed query if printing it gives the same query back. sqlparser prints some
    /// quoted text as it was written, quotes and all: what does not survive the round trip could
    /// mean something else to PostgreSQL than it means to us.
    pub(crate) fn new(mut query: Box<ast::Query>) -> Result<Self, Refusal> {
        let _ = visit::visit_mut(&mut *query, &mut normalize::Spelling);
        balance(&mut query);
        let mut parser = read_again(&query.to_string()).ok_or_else(not_reproducible)?;
        let mut again = parser.parse_query().map_err(|_| not_reproducible())?;
        balance(&mut again);
        let _ = visit::visit_mut(&mut *again, &mut operator_precedence::RestoreOperators);
        if again != query || parser.peek_token().token != sqlparser::tokenizer::Token::EOF {
            return Err(not_reproducible());
        }
        Ok(Self(query, TokenPositions::default()))
    }

    /// The query, at the places in the client's text of another query that it was made of.
    #[must_use]
    pub(crate) fn written_as(self, other: &Self) -> Self {
        Self(self.0, other.1.clone())
    }

    /// Where its operators and keywords stand in the client's text.
    pub(crate) fn marks(&self) -> &TokenPositions {
        &self.1
    }

    /// Whether the query names a table, a view or a query of WITH.
    pub fn names_relation(&self) -> bool {
        struct Finder;
        impl ast::Visitor for Finder {
            type Break = ();

            fn pre_visit_relation(&mut self, _: &ast::ObjectName) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
        }
        visit::visit(&*self.0, &mut Finder).is_break()
    }

    /// The statement as we print it (never the client's own text).
    pub fn to_sql(&self) -> String {
        self.0.to_string()
    }

    /// Like [`Self::to_sql`], if the text takes at most this many bytes. Printing stops at the
    /// limit.
    pub fn printed_within(&self, bytes_max: usize) -> Option<String> {
        struct Bounded(String, usize);
        impl std::fmt::Write for Bounded {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                let fits = self.0.len() + text.len() <= self.1;
                if fits {
                    self.0.push_str(text);
                }
                if fits { Ok(()) } else { Err(std::fmt::Error) }
            }
        }
        let mut bounded = Bounded(String::new(), bytes_max);
        std::fmt::write(&mut bounded, format_args!("{}", self.0))
            .is_ok()
            .then_some(bounded.0)
    }
}

/// The parser over a text that we print, where its words are PostgreSQL's.
fn read_again(sql: &str) -> Option<Parser<'static>> {
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .ok()?;
    position::set_positions(&mut tokens, sql);
    let tokens = operator_precedence::hide(tokens::read(tokens, sql).ok()?);
    Some(
        Parser::new(&PostgreSqlDialect {})
            .with_recursion_limit(DEPTH_MAX)
            .with_tokens_with_locations(tokens),
    )
}

fn not_reproducible() -> Refusal {
    Refusal::new(
        reason::UNSUPPORTED_SPELLING,
        "this spelling of a name or constant is not supported",
    )
    .detail("Quotes inside quoted names and some rare forms of constants are not accepted.")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainFormat {
    Text,
    /// Text, with the SQL that runs.
    Verbose,
    Json,
}

/// Parses a query string into its statements. An empty string, or semicolons alone, give an empty
/// list.
///
/// # Errors
/// 42601 for text PostgreSQL's grammar does not take (with position), 54001 for text too long or
/// nested too deeply, 42501 for statements that change anything, 0A000 for statements that are
/// known and not offered.
pub fn parse(sql: &str) -> Result<Vec<Statement>, Refusal> {
    read(sql, Writes::Refused)
}

/// As [`parse`], for a role that writes: INSERT and COPY FROM STDIN are among the statements. What
/// a refusal says has no word of the text.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_with_writes(sql: &str) -> Result<Vec<Statement>, Refusal> {
    read(sql, Writes::Taken).map_err(session::without_words)
}

/// Whether statements that write rows are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    Refused,
    Taken,
}

fn read(sql: &str, writes: Writes) -> Result<Vec<Statement>, Refusal> {
    if sql.len() > TEXT_BYTES_MAX {
        return Err(
            Refusal::new(reason::STATEMENT_TOO_LONG, "statement is too long").detail(format!(
                "A statement may have at most {TEXT_BYTES_MAX} bytes."
            )),
        );
    }
    if sql.contains('\0') || sql.contains('\u{FFFD}') {
        return Err(Refusal::new(
            reason::INVALID_ENCODING,
            "invalid byte sequence for encoding \"UTF8\"",
        ));
    }
    let mut tokens = Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .map_err(|e| tokens::unread(&e, sql))?;
    position::set_positions(&mut tokens, sql);
    let tokens = tokens::read(tokens, sql).map_err(|refusal| tokens::no_word(refusal, sql))?;
    let words = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .count();
    if words > TOKENS_MAX {
        return Err(
            Refusal::new(reason::STATEMENT_TOO_LONG, "statement is too long")
                .detail(format!("A statement may have at most {TOKENS_MAX} tokens.")),
        );
    }
    limits::depth::check(&tokens)?;
    let pieces = session::pieces(tokens);
    if pieces.len() > STATEMENTS_MAX {
        let limit = format!("At most {STATEMENTS_MAX} statements of one text are read.");
        return Err(Refusal::new(
            reason::STATEMENT_TOO_LONG,
            "too many statements in one text",
        )
        .detail(limit));
    }
    limits::height::with_room_for(words, || {
        pieces
            .into_iter()
            .map(|piece| statement(piece, sql, writes))
            .collect()
    })
}

/// One statement, from its tokens alone: a string or a comment cannot hide a second one.
fn statement(tokens: Vec<TokenWithSpan>, sql: &str, writes: Writes) -> Result<Statement, Refusal> {
    if writes == Writes::Taken {
        let write = session::write(&tokens, sql)?;
        let write = write.map_or_else(|| session::explain_write(&tokens, sql), |of| Ok(Some(of)));
        if let Some(write) = write? {
            return Ok(write);
        }
    }
    match session::from_tokens(&tokens, sql, |rest| query(rest, sql))? {
        Some(statement) => Ok(statement),
        None => Ok(Statement::Query(query(tokens, sql)?)),
    }
}

fn query(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Query, Refusal> {
    let excludes = excludes_rows(&tokens);
    let (begins, marks) = (begins(&tokens), TokenPositions::of(&tokens));
    let refused = |fault: Fault| match (fault, excludes) {
        (Fault::Unread(ParserError::ParserError(_)), Some(position)) => {
            Refusal::unsupported(reason::UNSUPPORTED_WINDOW, "EXCLUDE in a window frame")
                .at(Some(position))
        }
        (fault, _) => fault.refusal(sql, Goal::Query, begins),
    };
    let mut query = tree(tokens).map_err(refused)?;
    record_fields::write_out(&mut query)?;
    derived_aggregates::write_out(&mut query)?;
    balance(&mut query);
    limits::height::check(&*query)?;
    limits::copies::check(&query)?;
    foreign_clauses::check(&query)
        .map_err(|own| grammar::syntax_error(sql, Goal::Query, begins).unwrap_or(own))?;
    // The parser reads FETCH without ONLY, FIRST or ROWS too.
    if foreign_clauses::has_fetch(&query)
        && let Some(refusal) = grammar::syntax_error(sql, Goal::Query, begins)
    {
        return Err(refusal);
    }
    Ok(Query(Query::new(query)?.0, marks))
}

/// Why no tree was made of a client's words.
enum Fault {
    Refused(Refusal),
    Unread(ParserError),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ParserError> for Fault {
    fn from(error: ParserError) -> Self {
        Self::Unread(error)
    }
}

impl Fault {
    /// The error as PostgreSQL would report it, for words that begin at this position.
    fn refusal(self, sql: &str, goal: Goal, begins: u32) -> Refusal {
        match self {
            Self::Unread(ParserError::RecursionLimitExceeded) => {
                Refusal::new(reason::NESTED_TOO_DEEPLY, "statement is nested too deeply")
            }
            Self::Unread(ParserError::ParserError(text) | ParserError::TokenizerError(text)) => {
                grammar::unread(sql, goal, begins, stopped_at(&text))
            }
            Self::Refused(refusal)
                if matches!(
                    refusal.kind(),
                    RefusalKind::Syntax | RefusalKind::Unsupported
                ) =>
            {
                // The grammar covers queries. A first word that cannot begin a query may begin
                // another kind of statement.
                let is_other = |syntax: &Refusal| {
                    syntax.position == Some(begins) && session::is_command(sql, begins)
                };
                let is_later = |syntax: &Refusal| {
                    refusal.kind() == RefusalKind::Syntax && syntax.position > refusal.position
                };
                // The same error at the same place: the refusal has a hint.
                let is_same = |syntax: &Refusal| {
                    (syntax.kind(), syntax.position) == (refusal.kind(), refusal.position)
                };
                let is_better =
                    |syntax: &Refusal| !is_same(syntax) && !is_other(syntax) && !is_later(syntax);
                grammar::syntax_error(sql, goal, begins)
                    .filter(is_better)
                    .unwrap_or(refusal)
            }
            Self::Refused(refusal) => refusal,
        }
    }
}

/// Where these words begin in the text.
fn begins(tokens: &[TokenWithSpan]) -> u32 {
    let first = tokens
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)));
    first
        .and_then(|token| u32::try_from(token.span.start.column).ok())
        .unwrap_or(1)
}

fn tree(tokens: Vec<TokenWithSpan>) -> Result<Box<ast::Query>, Fault> {
    table_command::check(&tokens)?;
    let begins = begins(&tokens);
    let mut parser = parser_of(table_command::write_out(tokens))?;
    let ast::Statement::Query(query) = parser.parse_statement()? else {
        return Err(
            Refusal::unsupported(reason::UNSUPPORTED_STATEMENT, "this statement")
                .hint("pgveil answers SELECT queries only.")
                .at(Some(begins))
                .into(),
        );
    };
    parser.expect_token(&Token::EOF)?;
    Ok(query)
}

/// The parser over a client's words, with those that it does not read written out.
fn parser_of(tokens: Vec<TokenWithSpan>) -> Result<Parser<'static>, Refusal> {
    let written =
        nested_grouping_sets::write_out(collate_operand::write_out(desugar::write_out(tokens)?));
    let written = record_fields::mark(written);
    // Checked again: the desugared form may be deeper than the original.
    limits::depth::check(&written)?;
    Ok(Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(DEPTH_MAX)
        .with_tokens_with_locations(operator_precedence::hide(written)))
}

/// Where a window frame leaves rows out, in words that sqlparser does not read.
fn excludes_rows(tokens: &[TokenWithSpan]) -> Option<u32> {
    let words: Vec<(&str, u64)> = tokens
        .iter()
        .filter_map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() => {
                Some((word.value.as_str(), token.span.start.column))
            }
            _ => None,
        })
        .collect();
    let is = |at: usize, wanted: &str| {
        words
            .get(at)
            .is_some_and(|(word, _)| word.eq_ignore_ascii_case(wanted))
    };
    let excludes = |at: &usize| {
        let rows = [
            ("CURRENT", Some("ROW")),
            ("NO", Some("OTHERS")),
            ("GROUP", None),
            ("TIES", None),
        ];
        is(*at, "EXCLUDE")
            && rows.iter().any(|(first, second)| {
                is(at + 1, first) && second.is_none_or(|second| is(at + 2, second))
            })
    };
    let at = (0..words.len()).find(excludes)?;
    u32::try_from(words[at].1).ok()
}

/// Where the parser stopped, of its `… at Line: 1, Column: 8`: each token's column is its position
/// in the text. The parser says it nowhere else: it has read on, or gone back, by then. Only the
/// place that a refusal points to depends on it, and goldens have that place.
fn stopped_at(error: &str) -> Option<u32> {
    let (_, place) = error.rsplit_once(" at Line: ")?;
    place
        .split_once(", Column: ")?
        .1
        .trim()
        .parse()
        .ok()
        .filter(|position| *position > 0)
}

#[cfg(test)]
mod tests;
