//! Finds where PostgreSQL would report a syntax error. The parser does not know all of PostgreSQL's
//! grammar, and may blame the wrong word. For a text that the parser cannot read, this module
//! distinguishes a syntax error (with PostgreSQL's message and position) from valid SQL. It
//! recognizes PostgreSQL's grammar for queries (`grammar/rules.txt`) with Earley's algorithm, which
//! stops at the first word that cannot continue any statement.

mod scan;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::refusal::{Refusal, reason};
use scan::{END, Lexeme, scan};

/// Longest statement that is examined, in words: each word takes some hundred items.
const WORDS_MAX: usize = 2_000;

/// More operators before one operand are nested deeper than the parser follows.
const PREFIXES_MAX: usize = 24;

/// The grammar's goal: a whole query, the values of EXECUTE, or the types of PREPARE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Query,
    Values,
    Types,
}

/// The refusal of a text that the parser could not read. The text goes from the first of these
/// positions to the end of its statement or parentheses; the parser stopped at the second position.
/// The refusal is PostgreSQL's syntax error, or 0A000 if PostgreSQL would accept the text.
pub(super) fn unread(sql: &str, goal: Goal, position: u32, stopped: Option<u32>) -> Refusal {
    let text: Vec<char> = sql.chars().collect();
    let stopped = stopped.map_or(text.len(), |stopped| stopped.saturating_sub(1) as usize);
    match verdict(&text, goal, position) {
        GrammarVerdict::Syntax(refusal) => refusal,
        GrammarVerdict::TooLong => near("syntax error", &text, stopped),
        GrammarVerdict::Valid { prefixes } if prefixes > PREFIXES_MAX => {
            Refusal::new(reason::NESTED_TOO_DEEPLY, "statement is nested too deeply")
        }
        GrammarVerdict::Valid { prefixes: _ } => {
            let near = near("unsupported syntax", &text, stopped);
            Refusal::new(reason::UNSUPPORTED_SPELLING, near.message).at(near.position)
        }
        .detail("PostgreSQL would read this statement; pgveil does not know this form."),
    }
}

/// PostgreSQL's syntax error, where it has one for the statement that begins here.
pub(super) fn syntax_error(sql: &str, goal: Goal, position: u32) -> Option<Refusal> {
    match verdict(&sql.chars().collect::<Vec<_>>(), goal, position) {
        GrammarVerdict::Syntax(refusal) => Some(refusal),
        GrammarVerdict::TooLong | GrammarVerdict::Valid { prefixes: _ } => None,
    }
}

/// The first thing in a text that is no word of PostgreSQL's.
pub(super) fn no_word(sql: &str) -> Option<Refusal> {
    let text: Vec<char> = sql.chars().collect();
    let mut from = 0;
    while from < text.len() {
        match scan(&text, from, false) {
            (lexemes, None) => from = lexemes.last().map_or(text.len(), |last| last.end),
            (_, no_word) => return no_word,
        }
    }
    None
}

enum GrammarVerdict {
    Syntax(Refusal),
    /// How many operators stand before one operand at most.
    Valid {
        prefixes: usize,
    },
    TooLong,
}

fn verdict(text: &[char], goal: Goal, position: u32) -> GrammarVerdict {
    static GRAMMAR: LazyLock<Grammar> =
        LazyLock::new(|| Grammar::of(include_str!("grammar/rules.txt")));
    let from = text.len().min(position.saturating_sub(1) as usize);
    let is_enclosed = text[..from].iter().rfind(|c| !c.is_whitespace()) == Some(&'(');
    let (lexemes, no_word) = scan(text, from, is_enclosed);
    if lexemes.len() > WORDS_MAX {
        return GrammarVerdict::TooLong;
    }
    match (GRAMMAR.stops_at(&lexemes, goal), no_word) {
        (Some(at), _) => GrammarVerdict::Syntax(near("syntax error", text, lexemes[at].start)),
        (None, Some(no_word)) => GrammarVerdict::Syntax(no_word),
        (None, None) => GrammarVerdict::Valid {
            prefixes: prefixes(&lexemes),
        },
    }
}

/// The longest run of NOT, signs and other operators.
fn prefixes(lexemes: &[Lexeme]) -> usize {
    let is_prefix = |lexeme: &Lexeme| {
        lexeme.word.as_deref() == Some("not")
            || matches!(lexeme.kinds.as_slice(), ["+" | "-" | "OP"])
    };
    let (mut run, mut longest) = (0, 0);
    for lexeme in lexemes {
        run = if is_prefix(lexeme) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// 42601 with this message at the word that begins here or next, or at the text's end.
fn near(what: &str, text: &[char], start: usize) -> Refusal {
    let (start, place) = match scan::word(text, start) {
        Some(Lexeme { start, end, .. }) => (
            start,
            format!(
                "or near \"{}\"",
                text[start..end].iter().collect::<String>()
            ),
        ),
        None => (text.len(), "end of input".to_owned()),
    };
    Refusal::new(reason::SYNTAX_ERROR, format!("{what} at {place}"))
        .at(u32::try_from(start + 1).ok())
}

/// Whether the word names nothing but what the grammar has it for.
pub(super) fn is_reserved(word: &str) -> bool {
    let found = words::category(&word.to_ascii_lowercase());
    found.is_some_and(|(category, _)| category == words::Category::Reserved)
}

/// PostgreSQL's syntax error at this word.
pub(super) fn syntax_error_near(word: &str) -> Refusal {
    let message = format!("syntax error at or near \"{word}\"");
    Refusal::new(reason::SYNTAX_ERROR, message)
}

/// PostgreSQL's syntax error at the word that begins at this position or next.
pub(super) fn syntax_error_at(sql: &str, position: u32) -> Refusal {
    near(
        "syntax error",
        &sql.chars().collect::<Vec<_>>(),
        position.saturating_sub(1) as usize,
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Symbol {
    Terminal(u16),
    Rule(u16),
}

/// One alternative of a rule, read up to the dot, since the word of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Item {
    alternative: u16,
    dot: u16,
    since: u32,
}

struct Grammar {
    terminals: HashMap<String, u16>,
    /// For each alternative: its rule, and what it consists of.
    alternatives: Vec<(u16, Vec<Symbol>)>,
    /// Which terminals each may begin with, and whether it may be nothing.
    starts: Vec<(HashSet<u16>, bool)>,
    /// The alternatives of each rule, and the same of all of them.
    rules: Vec<Vec<u16>>,
    first: Vec<HashSet<u16>>,
    is_empty: Vec<bool>,
}

/// The grammar's text, being read: rules get their numbers as they are named.
#[derive(Default)]
struct Reader {
    terminals: HashMap<String, u16>,
    rules: HashMap<String, u16>,
    alternatives: Vec<(u16, Vec<Symbol>)>,
}

impl Reader {
    fn rule(&mut self, name: &str) -> u16 {
        let next = self.rules.len() as u16;
        *self.rules.entry(name.to_owned()).or_insert(next)
    }

    /// `x?`, `x*`, `x+` and `x,` (a list with commas) become separate rules. A name that no line
    /// defines is a terminal.
    fn symbol(&mut self, written: &str, defined: &HashSet<&str>) -> Symbol {
        let (inner, suffix) = written.split_at(written.len() - 1);
        if inner.is_empty() || !matches!(suffix, "?" | "*" | "+" | ",") {
            if defined.contains(written) {
                return Symbol::Rule(self.rule(written));
            }
            let next = self.terminals.len() as u16;
            return Symbol::Terminal(*self.terminals.entry(written.to_owned()).or_insert(next));
        }
        if let Some(known) = self.rules.get(written) {
            return Symbol::Rule(*known);
        }
        let own = self.rule(written);
        let part = self.symbol(inner, defined);
        let again = Symbol::Rule(own);
        let forms = match suffix {
            "?" => vec![vec![], vec![part]],
            "*" => vec![vec![], vec![again, part]],
            "+" => vec![vec![part], vec![again, part]],
            _ => vec![vec![part], vec![again, self.symbol(",", defined), part]],
        };
        self.alternatives
            .extend(forms.into_iter().map(|form| (own, form)));
        again
    }
}

impl Grammar {
    fn of(text: &str) -> Self {
        let lines: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .collect();
        let defined: HashSet<&str> = lines.iter().map(|(name, _)| *name).collect();
        let mut reader = Reader::default();
        // By goal: what is read, and its end.
        let whole = reader.rule("");
        for goal in ["select", "expr,", "type,"] {
            let body = [goal, END]
                .map(|part| reader.symbol(part, &defined))
                .to_vec();
            reader.alternatives.push((whole, body));
        }
        for (name, forms) in lines {
            let rule = reader.rule(name);
            for form in forms.split('|') {
                let body = form
                    .split_whitespace()
                    .map(|part| reader.symbol(part, &defined))
                    .collect();
                reader.alternatives.push((rule, body));
            }
        }
        let Reader {
            terminals,
            rules,
            alternatives,
        } = reader;
        let mut by_rule = vec![Vec::new(); rules.len()];
        for (at, (rule, _)) in alternatives.iter().enumerate() {
            by_rule[usize::from(*rule)].push(at as u16);
        }
        let (first, is_empty) = (vec![HashSet::new(); rules.len()], vec![false; rules.len()]);
        let mut grammar = Self {
            terminals,
            alternatives,
            starts: Vec::new(),
            rules: by_rule,
            first,
            is_empty,
        };
        while grammar.learn() {}
        grammar.starts = grammar
            .alternatives
            .iter()
            .map(|(_, body)| grammar.begins(body))
            .collect();
        grammar
    }

    /// One round of what rules may begin with, and which may be empty: whether anything new was
    /// found.
    fn learn(&mut self) -> bool {
        let mut is_new = false;
        for at in 0..self.alternatives.len() {
            let (rule, body) = &self.alternatives[at];
            let rule = usize::from(*rule);
            let (found, is_empty) = self.begins(body);
            is_new |= is_empty && !self.is_empty[rule] || !found.is_subset(&self.first[rule]);
            self.is_empty[rule] |= is_empty;
            self.first[rule].extend(found);
        }
        is_new
    }

    /// The terminals that these may begin with, and whether they may be nothing.
    fn begins(&self, body: &[Symbol]) -> (HashSet<u16>, bool) {
        let mut found = HashSet::new();
        for symbol in body {
            match symbol {
                Symbol::Terminal(terminal) => {
                    found.insert(*terminal);
                    return (found, false);
                }
                Symbol::Rule(rule) => {
                    found.extend(&self.first[usize::from(*rule)]);
                    if !self.is_empty[usize::from(*rule)] {
                        return (found, false);
                    }
                }
            }
        }
        (found, true)
    }

    /// Which terminals a word may stand for.
    fn terminals(&self, lexeme: &Lexeme) -> Vec<u16> {
        let Lexeme {
            kinds,
            word,
            start: _,
            end: _,
        } = lexeme;
        let keyword = word
            .as_ref()
            .filter(|word| words::category(word).is_some())
            .map(|word| word.to_ascii_uppercase());
        let other = (!matches!(kinds.as_slice(), ["(" | ")" | END])).then_some("OTHER");
        let names = kinds.iter().copied().chain(keyword.as_deref()).chain(other);
        names
            .filter_map(|name| self.terminals.get(name).copied())
            .collect()
    }

    /// The first word that cannot continue any statement; `None` if all words form a statement.
    fn stops_at(&self, lexemes: &[Lexeme], goal: Goal) -> Option<usize> {
        let mut sets: Vec<Vec<Item>> = Vec::with_capacity(lexemes.len());
        // The goals are the first alternatives.
        let mut set = vec![Item {
            alternative: goal as u16,
            dot: 0,
            since: 0,
        }];
        for (at, lexeme) in lexemes.iter().enumerate() {
            let terminals = self.terminals(lexeme);
            self.close(&mut set, &sets, &terminals);
            let read = |item: &Item| match self.next(item) {
                Some(Symbol::Terminal(terminal)) => terminals.contains(&terminal),
                _ => false,
            };
            let next: Vec<Item> = set
                .iter()
                .filter(|item| read(item))
                .map(Item::advance)
                .collect();
            if next.is_empty() {
                return Some(at);
            }
            sets.push(std::mem::replace(&mut set, next));
        }
        None
    }

    fn next(&self, item: &Item) -> Option<Symbol> {
        self.alternatives[usize::from(item.alternative)]
            .1
            .get(usize::from(item.dot))
            .copied()
    }

    /// Adds what may begin here with one of these terminals, and what ends here.
    fn close(&self, set: &mut Vec<Item>, sets: &[Vec<Item>], terminals: &[u16]) {
        let (here, mut at) = (sets.len() as u32, 0);
        let mut known: HashSet<Item> = set.iter().copied().collect();
        while let Some(item) = set.get(at).copied() {
            at += 1;
            let mut add = |found: Item, set: &mut Vec<Item>| {
                if known.insert(found) {
                    set.push(found);
                }
            };
            match self.next(&item) {
                Some(Symbol::Rule(rule)) => {
                    let rule = usize::from(rule);
                    for alternative in self.rules[rule].iter().copied() {
                        let (first, is_empty) = &self.starts[usize::from(alternative)];
                        if *is_empty || terminals.iter().any(|t| first.contains(t)) {
                            add(
                                Item {
                                    alternative,
                                    dot: 0,
                                    since: here,
                                },
                                set,
                            );
                        }
                    }
                    if self.is_empty[rule] {
                        add(item.advance(), set);
                    }
                }
                Some(Symbol::Terminal(_)) => {}
                // An empty item was passed when it was expected.
                None if item.since == here => {}
                None => {
                    let (rule, _) = self.alternatives[usize::from(item.alternative)];
                    for waiting in sets[item.since as usize]
                        .iter()
                        .filter(|waiting| self.next(waiting) == Some(Symbol::Rule(rule)))
                    {
                        add(waiting.advance(), set);
                    }
                }
            }
        }
    }
}

impl Item {
    fn advance(&self) -> Self {
        Self {
            dot: self.dot + 1,
            ..*self
        }
    }
}
