//! An answer as HTML, within limits: rows, bytes of a value, bytes of the whole.

use bytes::Bytes;
use maud::{Markup, html};

use super::quote::NoisyColumns;
use crate::engine::{Answer, HeldMemory, MemoryShare, percent};
use crate::ledger::Balance;
use crate::mechanism::Loss;
use crate::refusal::Refusal;
use crate::web;
use crate::web::answer::cells;
use crate::web::intervals::FOLLOWING;
use crate::web::page::{charge_words, digest};
use crate::web::spending::share_of;

/// Rows that are shown.
const ROWS_MAX: usize = 1_000;
/// Bytes of a value that are shown.
const VALUE_BYTES_MAX: usize = 1 << 10;
/// Bytes of a table, about.
const TABLE_BYTES_MAX: usize = 2 << 20;
/// About what the HTML of a cell takes, without its text.
const CELL_BYTES: usize = 100;
/// Bytes of notices that are shown.
const NOTICES_BYTES_MAX: usize = 32 << 10;
/// The memory that making the HTML takes: the texts, and the HTML with its copies.
const WORK_BYTES: usize = 4 * TABLE_BYTES_MAX;

/// An answer as HTML, and the memory that it takes.
pub struct Rendered {
    pub body: Markup,
    _held: HeldMemory,
}

/// The parts that are shown with an answer.
pub struct AnswerContext<'a> {
    pub columns: &'a NoisyColumns,
    pub cautions: &'a [String],
    pub digest: &'a str,
    /// The charge, and the role's account now.
    pub charged: Loss,
    pub balance: Option<&'a Balance>,
}

/// The HTML of an answer.
///
/// # Errors
/// 53200 where the session may not hold it.
pub fn render(
    answer: &Answer,
    around: &AnswerContext<'_>,
    share: &MemoryShare,
) -> Result<Rendered, Refusal> {
    let mut held = share.hold(WORK_BYTES)?;
    let body = page(answer, around);
    held.fit(body.0.capacity());
    Ok(Rendered { body, _held: held })
}

/// The rows of an answer that a page has room for.
struct Fitting {
    rows: Vec<Vec<Option<String>>>,
    /// Whether a value was cut.
    is_cut: bool,
}

impl Fitting {
    fn of(rows: &[Vec<Option<Bytes>>]) -> Self {
        let mut fitting = Self {
            rows: Vec::new(),
            is_cut: false,
        };
        let mut left = TABLE_BYTES_MAX;
        for row in rows.iter().take(ROWS_MAX) {
            let mut texts = Vec::with_capacity(row.len());
            let (mut weight, mut is_cut) = (0, false);
            for value in row {
                let text = value.as_ref().map(|value| cut(value, VALUE_BYTES_MAX));
                weight += CELL_BYTES + text.as_ref().map_or(0, |(text, _)| html_bytes(text));
                is_cut |= text.as_ref().is_some_and(|(_, is_cut)| *is_cut);
                texts.push(text.map(|(text, _)| text));
            }
            let Some(rest) = left.checked_sub(weight) else {
                return fitting;
            };
            left = rest;
            fitting.is_cut |= is_cut;
            fitting.rows.push(texts);
        }
        fitting
    }
}

/// The beginning of a text, and whether it is cut.
fn cut(value: &[u8], most: usize) -> (String, bool) {
    if value.len() <= most {
        return (String::from_utf8_lossy(value).into_owned(), false);
    }
    let is_inside = |at: &usize| value.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let end = (0..=most).rev().find(|at| !is_inside(at)).unwrap_or(0);
    let begin = value.get(..end).unwrap_or_default();
    (format!("{}…", String::from_utf8_lossy(begin)), true)
}

/// The bytes of a text in HTML.
fn html_bytes(text: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        b'"' => 6,
        b'&' => 5,
        b'<' | b'>' => 4,
        _ => 1,
    };
    text.bytes().map(of_byte).sum()
}

fn page(answer: &Answer, around: &AnswerContext<'_>) -> Markup {
    let Answer {
        columns,
        rows,
        notices,
        warnings,
        held: _,
    } = answer;
    let NoisyColumns { intervals, others } = around.columns;
    let width = columns.len().saturating_sub(FOLLOWING * intervals.len());
    let Fitting {
        rows: fitting,
        is_cut,
    } = Fitting::of(rows);
    let is_whole = fitting.len() == rows.len();
    let shown = web::answer::AnswerTable {
        columns: columns.iter().take(width).map(|c| c.name.clone()).collect(),
        measures: intervals.clone(),
        others: others.clone(),
        rows: fitting
            .iter()
            .map(|row| cells(row, width, intervals))
            .collect(),
        has_exact: false,
        new_rows: 0,
    };
    let (notices, _) = cut(notices.join("\n").as_bytes(), NOTICES_BYTES_MAX);
    html! {
        section #found aria-labelledby="answer" {
            h2 #answer { "Answer" }
            p .lead { (charge_text(around)) }
            @for warning in warnings {
                p .refused { "Warning: " (warning.message) }
            }
            @if is_whole { (shown.figures()) }
            (shown.table())
            p .note {
                @match rows.len() {
                    1 => "1 row",
                    count => { (count) " rows" },
                }
                @if !is_whole {
                    ", of which the first " (shown.rows.len()) " are shown: a page has at most "
                    (ROWS_MAX) " rows and 2 MiB"
                }
                "."
                @if is_cut {
                    " Values of more than " (VALUE_BYTES_MAX) " bytes are cut; psql shows them \
                    whole."
                }
            }
            @if !intervals.is_empty() {
                p .note {
                    "An interval holds the value without noise at 95 % confidence. What the \
                    policy's bounds and limits cut off is in neither."
                }
            }
            (shown.note_of_cuts())
            @for caution in around.cautions { p .note { "Caution: " (caution) } }
            (digest(around.digest))
            @if !notices.is_empty() {
                details open {
                    summary { "Notices, as psql prints them" }
                    pre tabindex="0" { (notices) }
                }
            }
        }
    }
}

/// The charge, and the rest of the budget.
fn charge_text(around: &AnswerContext<'_>) -> String {
    let Some(balance) = around.balance else {
        return format!("Charged: {}.", charge_words(&around.charged));
    };
    let left = percent(balance.fraction_left());
    match around.charged.is_zero() {
        true => format!("Charged nothing; {left} of your budget is left."),
        false => {
            let share = percent(share_of(balance, &around.charged));
            format!("Charged {share} of your budget; {left} is left.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ColumnDescription;

    fn answer(columns: usize, rows: Vec<Vec<Option<Bytes>>>) -> Answer {
        let column = ColumnDescription {
            name: "x".to_owned(),
            type_oid: 25,
            type_size: -1,
            type_modifier: -1,
        };
        Answer {
            columns: vec![column; columns],
            rows,
            notices: Vec::new(),
            warnings: Vec::new(),
            held: MemoryShare::default().begin(),
        }
    }

    fn shown(answer: &Answer) -> Rendered {
        let around = AnswerContext {
            columns: &NoisyColumns::default(),
            cautions: &[],
            digest: "abc",
            charged: Loss::ZERO,
            balance: None,
        };
        render(answer, &around, &MemoryShare::default()).unwrap()
    }

    #[test]
    fn a_page_of_large_values_ends() {
        // Each quote is six bytes of HTML.
        let value = Some(Bytes::from("\"".repeat(10_000)));
        let rows = vec![vec![value; 20]; 1_000];
        let rendered = shown(&answer(20, rows));
        let Rendered { body, _held } = &rendered;
        assert!(
            body.0.len() < TABLE_BYTES_MAX + (64 << 10),
            "{}",
            body.0.len()
        );
        assert_eq!(_held.bytes(), body.0.capacity());
        assert!(
            body.0
                .contains("1000 rows, of which the first 16 are shown")
        );
        assert!(body.0.contains("Values of more than 1024 bytes are cut"));
        let whole = shown(&answer(1, vec![vec![Some(Bytes::from("é".repeat(512)))]]));
        assert!(whole.body.0.contains("1 row.") && !whole.body.0.contains("are cut"));
    }

    #[test]
    fn values_are_cut_between_characters() {
        assert_eq!(cut("éé".as_bytes(), 3), ("é…".to_owned(), true));
        assert_eq!(cut("éé".as_bytes(), 4), ("éé".to_owned(), false));
        assert_eq!(cut(b"\x80\x80\x80", 1), ("…".to_owned(), true));
    }
}
