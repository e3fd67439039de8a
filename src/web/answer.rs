//! An answer as pages show it: charts with error bars, and the same numbers as a table.

use maud::{Markup, html};

use super::chart;
use super::chart::{Bar, number};

/// The most groups that are drawn; the table has all of them.
const DRAWN_MAX: usize = 40;
/// Fewer columns look better lying.
const COLUMNS_MIN: usize = 5;
/// The most columns of numbers that are drawn.
const MEASURES_MAX: usize = 3;

/// A value of an answer.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    pub text: Option<String>,
    pub interval: Option<(f64, f64)>,
    /// Only in the demo.
    pub exact: Option<String>,
}

#[derive(Debug)]
pub struct Answer {
    pub columns: Vec<String>,
    /// Columns that are noisy; the others are group keys.
    pub measures: Vec<usize>,
    pub rows: Vec<Vec<Cell>>,
    pub has_exact: bool,
}

/// The first `width` values of a row, with the intervals that follow them.
pub fn cells(row: &[Option<String>], width: usize, intervals: &[usize]) -> Vec<Cell> {
    let number = |at: usize| -> Option<f64> { row.get(at)?.as_deref()?.parse().ok() };
    let cell = |(at, text): (usize, &Option<String>)| {
        let place = intervals.iter().position(|of| *of == at);
        Cell {
            text: text.clone(),
            interval: place.and_then(|place| {
                let low = width + 2 * place;
                Some((number(low)?, number(low + 1)?))
            }),
            exact: None,
        }
    };
    row.iter().take(width).enumerate().map(cell).collect()
}

impl Answer {
    pub fn is_drawn(&self) -> bool {
        (1..=DRAWN_MAX).contains(&self.rows.len())
    }

    /// The charts.
    pub fn figures(&self) -> Markup {
        html! {
            @for measure in self.measures.iter().take(MEASURES_MAX) { (self.figure(*measure)) }
        }
    }

    /// The chart of one measure, if it can be drawn, and what it shows in a sentence.
    fn figure(&self, measure: usize) -> Markup {
        let bars = self.bars(measure);
        if !(1..=DRAWN_MAX).contains(&bars.len()) {
            return html! {};
        }
        let keys = self.columns.len() - self.measures.len();
        let is_ordered = keys == 1
            && bars.len() >= COLUMNS_MIN
            && bars.iter().all(|bar| bar.label.parse::<f64>().is_ok());
        let with_both = bars
            .iter()
            .filter(|bar| bar.exact.is_some() && bar.interval.is_some());
        let total = with_both.clone().count();
        let inside = with_both.filter(|bar| {
            let (low, high) = bar.interval.unwrap_or_default();
            bar.exact.is_some_and(|exact| (low..=high).contains(&exact))
        });
        let inside = inside.count();
        html! {
            figure {
                figcaption {
                    @if let Some(name) = self.columns.get(measure) { strong { (name) } " " }
                    (legend(self.has_exact))
                }
                @if is_ordered { (chart::columns(&bars)) } @else { (chart::rows(&bars)) }
                @if total > 0 {
                    p .note {
                        @match (total, inside) {
                            (1, 1) => "The exact value lies within the interval.",
                            (1, _) => "The exact value lies outside the interval.",
                            _ => {
                                (inside) " of " (total) " exact values lie within their interval."
                            }
                        }
                    }
                }
            }
        }
    }

    fn bars(&self, measure: usize) -> Vec<Bar> {
        let label = |row: &[Cell]| {
            let keys = row.iter().enumerate();
            let keys = keys.filter(|(at, _)| !self.measures.contains(at));
            let texts: Vec<&str> = keys
                .map(|(_, cell)| cell.text.as_deref().unwrap_or("NULL"))
                .collect();
            if texts.is_empty() {
                self.columns.get(measure).cloned().unwrap_or_default()
            } else {
                texts.join(" · ")
            }
        };
        let bar = |row: &Vec<Cell>| {
            let cell = row.get(measure)?;
            let parse = |text: &Option<String>| -> Option<f64> {
                let value: f64 = text.as_deref()?.parse().ok()?;
                value.is_finite().then_some(value)
            };
            Some(Bar {
                label: label(row),
                value: parse(&cell.text)?,
                interval: cell
                    .interval
                    .filter(|(low, high)| low.is_finite() && high.is_finite()),
                exact: parse(&cell.exact),
            })
        };
        self.rows.iter().filter_map(bar).collect()
    }

    /// All of it.
    pub fn table(&self) -> Markup {
        let is_measure = |at: &usize| self.measures.contains(at);
        html! {
            div .scroll tabindex="0" role="region" aria-label="The answer as a table" {
                table {
                    thead {
                        tr {
                            @for (at, name) in self.columns.iter().enumerate() {
                                th scope="col" .number[is_measure(&at)] { (name) }
                                @if is_measure(&at) {
                                    th scope="col" .number { "95 %" }
                                    @if self.has_exact { th scope="col" .number { "exact" } }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (at, cell) in row.iter().enumerate() {
                                    (value(cell, is_measure(&at), self.has_exact))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn legend(has_exact: bool) -> Markup {
    html! {
        span .legend {
            span .key .of-bar {} "private " span .key .of-whisker {} "95 % interval "
            @if has_exact { span .key .of-dot {} "exact" }
        }
    }
}

fn value(cell: &Cell, is_measure: bool, has_exact: bool) -> Markup {
    let text = cell.text.as_deref().unwrap_or("");
    html! {
        td .number[is_measure] { (text) }
        @if is_measure {
            td .number {
                @if let Some((low, high)) = cell.interval { (number(low)) " to " (number(high)) }
            }
            @if has_exact { td .number .exact { (cell.exact.as_deref().unwrap_or("")) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_what_is_no_number_is_not_drawn() {
        let row = |key: &str, value: &str| {
            let values = [key, value, "1", "3"].map(|text| Some(text.to_owned()));
            cells(&values, 2, &[1])
        };
        let answer = Answer {
            columns: vec!["<i>key</i>".to_owned(), "n".to_owned()],
            measures: vec![1],
            rows: vec![row("<script>a</script>", "2"), row("b", "NaN")],
            has_exact: false,
        };
        assert_eq!(answer.rows[0][1].interval, Some((1.0, 3.0)));
        let shown = answer.figures().into_string() + &answer.table().into_string();
        assert!(!shown.contains("<script") && !shown.contains("<i>"));
        assert!(shown.contains("&lt;script&gt;a") && shown.contains("1 to 3"));
        assert_eq!(shown.matches("<rect").count(), 1, "{shown}");
        assert!(!shown.contains("exact"));
    }
}
