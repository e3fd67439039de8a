//! Limits on the time of one row, and of the rows that joins make of one unit's rows. A branch that
//! only one person's rows take shows in the time of an answer; it can be made no longer than this.

mod numbers;
mod whole_columns;

use std::collections::HashMap;
use std::ops::{Add, AddAssign, ControlFlow};

use sqlparser::ast::{self, BinaryOperator as B};

use super::joined_rows::JoinedRows;
use crate::parse::{is_constant, with_room};
use crate::refusal::{Refusal, reason};
use crate::resolve::{TEXT_MAX, regex_arcs, regex_of_similar, regex_reach, regex_rereads};
use crate::visit;
use numbers::{
    compares_number, decimals_of_quotient, digits, is_double, of_cast, of_copy, of_curve,
    of_product, of_quotient, of_root, of_sum,
};
use whole_columns::WholeColumns;

/// Nanoseconds that the expressions of one question may take for one row, by the table of [`of`].
const NANOSECONDS_MAX: u64 = 20_000_000;

/// Nanoseconds that all joined rows of one unit may take in one question: in expressions, sorts and
/// the joins themselves.
const UNIT_NANOSECONDS_MAX: u64 = 250_000_000;

/// The limits are divided by this in EXISTS, and where a row may join any number of public rows:
/// expressions are computed for each pair.
const PAIRS: u64 = 10;

/// A cost is small if it is at most the limit divided by this.
const SMALL: u64 = 20;

/// The time of one pair is computed from this many pairs, about as many as 5 s allow: sorts and
/// moving frames grow faster than in proportion.
const PAIRS_TALLIED: u64 = 8_192;

/// Digits that a column's value may have: up to 10^38, with the decimals that it keeps.
const COLUMN_DIGITS: u64 = 98;

/// Digits of a float8 as a numeric: fifteen digits after three hundred zeros.
const FLOAT_DIGITS: u64 = 340;

/// The time of a comparison of floats.
const OF_FLOATS: u64 = 30;

/// The time to put a column into an array and to compare it there. A text is copied.
const OF_ITEM: u64 = 1_000;

/// Digits of a whole number of eight bytes.
const WHOLE_DIGITS: u64 = 20;

/// Most digits that PostgreSQL keeps in a product, decimals included.
const DIGITS_MAX: u64 = 16_500;

/// Characters to which a text is cut.
const LENGTH_MAX: u64 = TEXT_MAX as u64;

/// Nanoseconds that statements may take, at most, for one row and for all joined rows of one unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::rewrite) struct RowCost {
    pub row: u64,
    pub unit: u64,
    /// For one row and each public row that it meets, with all joined rows of its unit; 0 where no
    /// row may meet several.
    pub pair: u64,
}

impl Add for RowCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let Self { row, unit, pair } = other;
        Self {
            row: self.row.saturating_add(row),
            unit: self.unit.saturating_add(unit),
            pair: self.pair.saturating_add(pair),
        }
    }
}

impl AddAssign for RowCost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl RowCost {
    /// Whether the cost is a small part of one question's limit.
    pub fn is_small(self) -> bool {
        self.row <= NANOSECONDS_MAX / SMALL
            && self.unit <= UNIT_NANOSECONDS_MAX / SMALL
            && self.pair <= NANOSECONDS_MAX / PAIRS / SMALL
    }

    /// The cost of statements whose rows may each join any number of public rows.
    pub fn multiply(self) -> Self {
        Self {
            row: self.row.saturating_mul(PAIRS),
            unit: self.unit.saturating_mul(PAIRS),
            pair: self.pair,
        }
    }
}

/// The most time that a statement's expressions take for one row of each relation. Each expression
/// counts once, over a text of 4,096 characters, with the time to compile its pattern; as measured
/// on a core of a 2 GHz server, rounded up. Where joins multiply one unit's rows, also the time for
/// all of these. `bounded`: how many of them each derived table holds at most.
pub(in crate::rewrite) fn of(statement: &ast::Query, bounded: &HashMap<String, u64>) -> RowCost {
    let (row, unit) = tally_cost(statement, bounded, 1);
    RowCost { row, unit, pair: 0 }
}

/// [`of`], and the time for each pair of a private row and a public row that it may meet.
pub(in crate::rewrite) fn of_pairs(
    statement: &ast::Query,
    bounded: &HashMap<String, u64>,
) -> RowCost {
    let (_, paired) = tally_cost(statement, bounded, PAIRS_TALLIED);
    RowCost {
        pair: paired.div_ceil(PAIRS_TALLIED),
        ..of(statement, bounded)
    }
}

/// The time for one row of each relation, and for all joined rows of one unit, each of which meets
/// this many public rows.
fn tally_cost(statement: &ast::Query, bounded: &HashMap<String, u64>, pairs: u64) -> (u64, u64) {
    let mut facts = Tally {
        whole: WholeColumns::default(),
        nanoseconds: 0,
        open: Vec::new(),
        begun: Vec::new(),
        before: Vec::new(),
        made: JoinedRows::new(bounded, pairs),
    };
    let _ = with_room(|| {
        facts.whole = WholeColumns::of(statement);
        visit::visit(statement, &mut facts)
    });
    (facts.nanoseconds, facts.made.nanoseconds)
}

/// # Errors
/// 54001 where the statements of one question may take too long for one row, or for one unit.
pub(in crate::rewrite) fn check(work: RowCost, unit: &str) -> Result<(), Refusal> {
    let refusal = |what: &str, limit: u64| {
        let message = format!(
            "{what} could keep this query busy for more than {} ms",
            limit / 1_000_000
        );
        Refusal::new(reason::ROW_TOO_SLOW, message)
    };
    if work.row > NANOSECONDS_MAX {
        return Err(refusal("one row", NANOSECONDS_MAX)
            .detail("The time that an answer takes must reveal little about any row.")
            .hint(
                "Use fewer regular expressions and functions of long texts, or ask in several \
                queries.",
            ));
    }
    if work.unit > UNIT_NANOSECONDS_MAX {
        let met = format!("the rows of one {unit}, joined with each other,");
        return Err(refusal(&met, UNIT_NANOSECONDS_MAX)
            .detail(format!(
                "Each side of such a join has up to rows_per_unit rows of one {unit}. The time \
                    that an answer takes must reveal little about any {unit}."
            ))
            .hint(format!(
                "Join by a key, aggregate each side by the {unit} first, or ask the data \
                owner to declare a smaller rows_per_unit."
            )));
    }
    Ok(())
}

struct Tally<'a> {
    whole: WholeColumns,
    nanoseconds: u64,
    /// For each expression that is being visited: the digits that its parts may have as numerics.
    open: Vec<Vec<u64>>,
    /// The time that was counted before each of them.
    begun: Vec<u64>,
    /// The time that was counted before each EXISTS that is being visited.
    before: Vec<u64>,
    made: JoinedRows<'a>,
}

impl ast::Visitor for Tally<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.made.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.made.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &ast::TableFactor) -> ControlFlow<()> {
        self.made.stand_in_from(table);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        if matches!(expr, ast::Expr::Exists { .. }) {
            self.before.push(self.nanoseconds);
        }
        self.open.push(Vec::new());
        self.begun.push(self.nanoseconds);
        self.made.begin();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let parts = self.open.pop().unwrap_or_default();
        if let ast::Expr::Exists { .. } = expr {
            let inside = self
                .nanoseconds
                .saturating_sub(self.before.pop().unwrap_or(0));
            self.nanoseconds = self
                .nanoseconds
                .saturating_add(inside.saturating_mul(PAIRS - 1));
        }
        let own = own(expr, &parts, &self.whole);
        self.nanoseconds = self.nanoseconds.saturating_add(own);
        let whole = self
            .nanoseconds
            .saturating_sub(self.begun.pop().unwrap_or(0));
        self.made.add(expr, own, whole);
        if let Some(around) = self.open.last_mut() {
            around.push(digits(expr, &parts, &self.whole).min(DIGITS_MAX));
        }
        ControlFlow::Continue(())
    }
}

/// The time of the expression itself, whose parts have these numbers of digits.
fn own(expr: &ast::Expr, parts: &[u64], whole: &WholeColumns) -> u64 {
    let longest = parts.iter().copied().max().unwrap_or(0);
    let last = parts.last().copied().unwrap_or(longest);
    match expr {
        ast::Expr::Like { pattern, .. } | ast::Expr::ILike { pattern, .. } => of_like(pattern),
        ast::Expr::SimilarTo { pattern, .. } => of_similar(pattern),
        ast::Expr::BinaryOp {
            op: B::PGRegexMatch | B::PGRegexIMatch,
            right,
            left: _,
        } => of_pattern(right),
        ast::Expr::BinaryOp {
            op: B::Multiply,
            left: _,
            right: _,
        } => of_product(longest, last),
        ast::Expr::BinaryOp {
            op: B::Divide,
            left,
            right,
        } => {
            let is_whole = whole.is_whole(right);
            if is_whole && whole.is_whole(left) {
                // Of eight bytes.
                return 200;
            }
            of_quotient(longest + decimals_of_quotient(last, is_whole), last)
        }
        ast::Expr::BinaryOp {
            op: B::Modulo,
            left: _,
            right: _,
        } => of_quotient(longest, last),
        ast::Expr::Function(call) => match name_of(call) {
            "exp" | "ln" | "log" | "power" => of_curve(longest),
            "mod" | "div" => of_quotient(longest, last) + 1_000,
            "abs" | "floor" | "ceil" | "ceiling" => of_copy(longest),
            "greatest" | "least" if compares_number(call) => of_sum(longest) * parts.len() as u64,
            "sqrt" => of_root(longest),
            "coalesce" => 200 + 10 * parts.len() as u64,
            name => of_call(name) + of_second(call),
        },
        ast::Expr::Substring { .. } => 25_000,
        ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_)
        | ast::Expr::Nested(_)
        | ast::Expr::Value(_) => 0,
        ast::Expr::Overlay { .. } => 100_000,
        ast::Expr::BinaryOp {
            op: B::Gt | B::GtEq | B::Lt | B::LtEq | B::Eq | B::NotEq,
            left,
            right,
        } if is_double(left) || is_double(right) => OF_FLOATS,
        // PostgreSQL makes a row with the operand, and reads it.
        ast::Expr::Subquery(_) => 3_000,
        // An array of columns is made anew for each row, and searched.
        ast::Expr::Array(array) => {
            let columns = array.elem.iter().filter(|item| !is_constant(item)).count();
            OF_ITEM.saturating_mul(columns as u64)
        }
        // A constant is cast once.
        ast::Expr::Cast { expr, .. } if matches!(**expr, ast::Expr::Value(_)) => 0,
        ast::Expr::Cast {
            expr, data_type, ..
        } if !whole.is_whole(expr) => of_cast(data_type, longest),
        // All others take as long as an operator on numbers.
        _ => of_sum(longest),
    }
}

/// The time of a match. A pattern is compiled at the first row that meets it. At each character it
/// may be in a set of states in which it never was before.
fn of_pattern(pattern: &ast::Expr) -> u64 {
    match pattern {
        // Bare texts are patterns that pgveil wrote, which are in one state at a time.
        ast::Expr::Value(_) => 300_000,
        ast::Expr::Nested(inner) => of_pattern(inner),
        // The statement's patterns are printed with their type.
        _ => constant(pattern).map_or(NANOSECONDS_MAX, |text| of_arcs(&text)),
    }
}

/// [`of_pattern`] of a SIMILAR TO pattern: of the regular expression that it stands for.
fn of_similar(pattern: &ast::Expr) -> u64 {
    let regex = constant(pattern).and_then(|text| regex_of_similar(&text).ok());
    regex.map_or(NANOSECONDS_MAX, |text| of_arcs(&text))
}

fn of_arcs(regex: &str) -> u64 {
    regex_arcs(regex)
        .saturating_mul(20_000)
        .saturating_add(100_000)
}

/// The time to find what each group of a pattern matched, once the whole match is found.
fn of_groups(pattern: &ast::Expr) -> u64 {
    constant(pattern).map_or(NANOSECONDS_MAX, |text| {
        regex_rereads(&text).saturating_mul(LENGTH_MAX * 2)
    })
}

/// The time to search a text for a match. An attempt begins at each character and reads on from
/// there. After each match the search starts again and remembers nothing.
fn of_search(pattern: &ast::Expr, nanoseconds: u64) -> u64 {
    let Some(text) = constant(pattern) else {
        return NANOSECONDS_MAX;
    };
    match pattern {
        ast::Expr::Value(_) => 0,
        _ => {
            LENGTH_MAX * nanoseconds * (regex_reach(&text).unwrap_or(LENGTH_MAX).saturating_sub(1))
        }
    }
}

/// The time of LIKE: the part after a percent sign is tried at each character of the text.
fn of_like(pattern: &ast::Expr) -> u64 {
    let Some(text) = constant(pattern) else {
        return NANOSECONDS_MAX;
    };
    let tried = text.trim_end_matches('%').contains('%');
    25_000
        + if tried {
            8_000 * text.chars().count() as u64
        } else {
            0
        }
}

fn arguments(call: &ast::Function) -> &[ast::FunctionArg] {
    match &call.args {
        ast::FunctionArguments::List(list) => &list.args,
        ast::FunctionArguments::None | ast::FunctionArguments::Subquery(_) => &[],
    }
}

fn second(call: &ast::Function) -> Option<&ast::Expr> {
    match arguments(call).get(1) {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(second))) => Some(second),
        _ => None,
    }
}

/// A constant text, with its type or without.
fn constant(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => constant(inner),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) => Some(text.clone()),
            other => other.clone().into_string(),
        },
        _ => None,
    }
}

fn name_of(call: &ast::Function) -> &str {
    call.name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map_or("", |ident| ident.value.as_str())
}

/// The time that the second argument adds. It is a pattern, a set of characters that are compared
/// with each character of the text, or a text that is searched for at each character.
fn of_second(call: &ast::Function) -> u64 {
    let Some(second) = second(call) else { return 0 };
    let characters = || constant(second).map_or(LENGTH_MAX, |text| text.chars().count() as u64);
    let groups = match (name_of(call), arguments(call).get(2)) {
        // Without a backslash the replacement names no group.
        ("regexp_replace", Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(with))))
            if constant(with).is_some_and(|w| !w.contains('\\')) =>
        {
            0
        }
        ("regexp_replace" | "regexp_substr" | "substring", _) => of_groups(second),
        _ => 0,
    };
    groups
        + match name_of(call) {
            // With flags all matches may be found.
            "regexp_replace" if arguments(call).len() > 3 => {
                of_pattern(second).saturating_add(of_search(second, 1_000))
            }
            "regexp_count" => of_pattern(second).saturating_add(of_search(second, 1_000)),
            "regexp_replace" | "regexp_substr" | "substring" => {
                of_pattern(second).saturating_add(of_search(second, 40))
            }
            "btrim" | "ltrim" | "rtrim" | "translate" => 15_000 * characters(),
            "strpos" | "split_part" | "replace" => 2_500 * characters(),
            _ => 0,
        }
}

fn of_call(name: &str) -> u64 {
    match name {
        // Every character may be a match, and each match is found and copied by itself.
        "regexp_replace" | "regexp_substr" | "regexp_count" | "substring" => 1_500_000,
        "translate" => 450_000,
        "replace" | "split_part" => 300_000,
        "initcap" | "strpos" => 100_000,
        "lower" | "upper" | "left" | "right" | "btrim" | "ltrim" | "rtrim" | "lpad" | "rpad"
        | "reverse" | "repeat" | "concat" | "concat_ws" | "md5" | "length" | "octet_length"
        | "bit_length" => 25_000,
        "cbrt" => 30_000,
        "hashtextextended" => 2_000,
        "count" | "sum" => 300,
        // Dates, rounding, and the aggregates themselves.
        _ => 5_000,
    }
}

#[cfg(test)]
mod tests;
