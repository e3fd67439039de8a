//! An answer as pages show it: charts with error bars, and the same numbers as a table.

use maud::{Markup, html};

use super::chart;
use super::chart::{Bar, PrintedInterval, within_error};
use super::intervals::FOLLOWING;

/// The most groups that are drawn lying; the table has all of them.
const DRAWN_MAX: usize = 40;
/// The most groups that are drawn as columns.
const COLUMNS_MAX: usize = 100;
/// Fewer columns look better lying.
const COLUMNS_MIN: usize = 5;
/// The most columns of numbers that are drawn.
const MEASURES_MAX: usize = 3;
/// The most characters of a label.
const LABEL_MAX: usize = 100;

/// A value of an answer.
#[derive(Debug, Clone, Default)]
pub struct AnswerCell {
    pub text: Option<String>,
    pub interval: Option<PrintedInterval>,
    /// By how much a chosen clip made the value too low, as far as a look shows.
    pub low_by: Option<String>,
    /// Only in the demo.
    pub exact: Option<String>,
}

#[derive(Debug)]
pub struct AnswerTable {
    pub columns: Vec<String>,
    /// Noisy columns that have intervals.
    pub measures: Vec<usize>,
    /// Noisy columns without an interval. All other columns are group keys.
    pub others: Vec<usize>,
    pub rows: Vec<Vec<AnswerCell>>,
    pub has_exact: bool,
    /// How many of the last rows stand out, as new. Only in the demo.
    pub new_rows: usize,
}

/// The first `width` values of a row, with the intervals that follow them, each with what was cut.
pub fn cells(row: &[Option<String>], width: usize, intervals: &[usize]) -> Vec<AnswerCell> {
    let end = |at: usize| -> Option<&str> { row.get(at)?.as_deref() };
    let cell = |(at, text): (usize, &Option<String>)| {
        let place = intervals.iter().position(|of| *of == at);
        let low = place.map(|place| width + FOLLOWING * place);
        AnswerCell {
            text: text.clone(),
            interval: low.and_then(|low| PrintedInterval::new(end(low)?, end(low + 1)?)),
            low_by: low.and_then(|low| end(low + 2)).map(str::to_owned),
            exact: None,
        }
    };
    row.iter().take(width).enumerate().map(cell).collect()
}

impl AnswerTable {
    pub fn is_drawn(&self) -> bool {
        let drawn = |measure: &usize| self.form(&self.bars(*measure)).is_some();
        self.measures.iter().any(drawn)
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
        let Some(is_ordered) = self.form(&bars) else {
            return html! {};
        };
        let with_both = bars
            .iter()
            .filter(|bar| bar.exact.is_some() && bar.interval.is_some());
        let total = with_both.clone().count();
        let inside = with_both.filter(|bar| {
            let within = |exact: f64, of: &PrintedInterval| (of.low..=of.high).contains(&exact);
            let both = bar.exact.zip(bar.interval.as_ref());
            both.is_some_and(|(exact, interval)| within(exact, interval))
        });
        let inside = inside.count();
        html! {
            figure {
                figcaption {
                    @if let Some(name) = self.columns.get(measure) { strong { (name) } " " }
                    (legend(self.has_exact, self.new_rows > 0))
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

    /// Whether bars stand as columns. `None` where they are too many to be drawn, or none.
    fn form(&self, bars: &[Bar]) -> Option<bool> {
        let keys = (0..self.columns.len()).filter(|at| self.is_key(*at));
        let is_place =
            |bar: &Bar| bar.label.parse::<f64>().is_ok() || chart::day_label(&bar.label).is_some();
        let is_ordered =
            keys.count() == 1 && bars.len() >= COLUMNS_MIN && bars.iter().all(is_place);
        let most = if is_ordered { COLUMNS_MAX } else { DRAWN_MAX };
        (1..=most).contains(&bars.len()).then_some(is_ordered)
    }

    /// Whether a column tells the groups apart.
    fn is_key(&self, at: usize) -> bool {
        !self.measures.contains(&at) && !self.others.contains(&at)
    }

    fn bars(&self, measure: usize) -> Vec<Bar> {
        let label = |row: &[AnswerCell]| {
            let keys = row.iter().enumerate();
            let keys = keys.filter(|(at, _)| self.is_key(*at));
            let texts: Vec<&str> = keys
                .map(|(_, cell)| cell.text.as_deref().unwrap_or("NULL"))
                .collect();
            if texts.is_empty() {
                self.columns.get(measure).cloned().unwrap_or_default()
            } else {
                shorten(&texts.join(" · "))
            }
        };
        let old = self.rows.len().saturating_sub(self.new_rows);
        let bar = |(at, row): (usize, &Vec<AnswerCell>)| {
            let cell = row.get(measure)?;
            let parse = |text: &Option<String>| -> Option<f64> {
                let value: f64 = text.as_deref()?.parse().ok()?;
                value.is_finite().then_some(value)
            };
            Some(Bar {
                label: label(row),
                value: parse(&cell.text)?,
                interval: cell.interval.clone(),
                exact: parse(&cell.exact),
                is_new: at >= old,
            })
        };
        self.rows.iter().enumerate().filter_map(bar).collect()
    }

    /// Whether a clip cut something from a measure, as far as is known.
    fn is_cut(&self, at: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let mut cuts = cells.filter_map(|cell| cell.low_by.as_deref()?.parse::<f64>().ok());
        cuts.any(|cut| cut != 0.0)
    }

    /// The meaning of *low by*, where the table has it.
    pub fn note_of_cuts(&self) -> Markup {
        let is_any = self.measures.iter().any(|at| self.is_cut(*at));
        html! {
            @if is_any {
                p .note {
                    em { "Low by" } ": about how much the clip that was chosen cut from the value, \
                    as far as the look shows. The value does not contain it, the interval does."
                }
            }
        }
    }

    /// The whole table of the answer.
    pub fn table(&self) -> Markup {
        let is_measure = |at: &usize| self.measures.contains(at);
        let cut: Vec<usize> = self
            .measures
            .iter()
            .copied()
            .filter(|at| self.is_cut(*at))
            .collect();
        let heads_row = |at: usize| !self.measures.is_empty() && self.is_key(at);
        html! {
            div .scroll tabindex="0" role="region" aria-label="The answer as a table" {
                table {
                    thead {
                        tr {
                            @for (at, name) in self.columns.iter().enumerate() {
                                th scope="col" .number[is_measure(&at)] { (name) }
                                @if is_measure(&at) {
                                    th scope="col" .number { "95 % interval" }
                                    @if cut.contains(&at) {
                                        th scope="col" .number { "low by" }
                                    }
                                    @if self.has_exact { th scope="col" .number { "exact" } }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (at, cell) in row.iter().enumerate() {
                                    @if heads_row(at) {
                                        th scope="row" { (text_of(cell)) }
                                    } @else {
                                        (value(cell, is_measure(&at)))
                                        @if is_measure(&at) {
                                            (self.next_to_value(cell, cut.contains(&at)))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl AnswerTable {
    /// The cells that follow a measure's value.
    fn next_to_value(&self, cell: &AnswerCell, is_cut: bool) -> Markup {
        let interval = cell.interval.as_ref();
        html! {
            td .number {
                @if let Some(PrintedInterval { texts: (low, high), .. }) = interval {
                    (low) " to " (high)
                }
            }
            @if is_cut { td .number { (cell.low_by.as_deref().unwrap_or("")) } }
            @if self.has_exact { td .number .exact { (cell.exact.as_deref().unwrap_or("")) } }
        }
    }
}

fn legend(has_exact: bool, has_new: bool) -> Markup {
    html! {
        span .legend {
            span .key .of-bar {} "answer "
            @if has_new { span .key .of-new {} "new " }
            span .key .of-whisker {} "95 % interval "
            @if has_exact { span .key .of-dot {} "exact" }
        }
    }
}

/// A value as text; NULL is not the empty text.
fn text_of(cell: &AnswerCell) -> Markup {
    html! {
        @match &cell.text {
            Some(text) => (text),
            None => span .note { "NULL" },
        }
    }
}

/// A label that fits a chart.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn value(cell: &AnswerCell, is_measure: bool) -> Markup {
    let interval = cell.interval.as_ref();
    let rounded = interval.and_then(|interval| {
        let value: f64 = cell.text.as_deref()?.parse().ok()?;
        Some(within_error(value, interval.half()))
    });
    html! {
        td .number[is_measure] {
            @match &rounded {
                Some(rounded) => (rounded),
                None => (text_of(cell)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_what_is_no_number_is_not_drawn() {
        let row = |key: &str, value: &str| {
            let values = [key, value, "1", "3", "0"].map(|text| Some(text.to_owned()));
            cells(&values, 2, &[1])
        };
        let answer = AnswerTable {
            columns: vec!["<i>key</i>".to_owned(), "n".to_owned()],
            measures: vec![1],
            others: Vec::new(),
            rows: vec![row("<script>a</script>", "2"), row("b", "NaN")],
            has_exact: false,
            new_rows: 0,
        };
        let interval = answer.rows[0][1].interval.clone().unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 3.0));
        let shown = answer.figures().into_string() + &answer.table().into_string();
        assert!(!shown.contains("<script") && !shown.contains("<i>"));
        assert!(shown.contains("&lt;script&gt;a") && shown.contains("1 to 3"));
        assert_eq!(shown.matches("<rect").count(), 1, "{shown}");
        assert!(!shown.contains("exact") && !shown.contains("low by"));
    }

    /// An answer of a key, a median and an average with its interval.
    fn with_median(key: Option<&str>, average: &str, ends: [&str; 2]) -> AnswerTable {
        let [low, high] = ends.map(|end| Some(end.to_owned()));
        let values = [
            key.map(str::to_owned),
            Some("5.3".to_owned()),
            Some(average.to_owned()),
        ];
        let row: Vec<_> = values.into_iter().chain([low, high]).collect();
        AnswerTable {
            columns: ["key", "median", "average"].map(str::to_owned).to_vec(),
            measures: vec![2],
            others: vec![1],
            rows: vec![cells(&row, 3, &[2])],
            has_exact: false,
            new_rows: 0,
        }
    }

    #[test]
    fn intervals_are_shown_as_they_were_released() {
        let answer = with_median(Some("white"), "0.0040213", ["0.0036", "0.0044"]);
        let table = answer.table().into_string();
        assert!(
            table.contains(">0.00402<") && table.contains("0.0036 to 0.0044"),
            "{table}"
        );
        let figure = answer.figures().into_string();
        assert!(
            figure.contains("white: 0.00402, 95 % between 0.0036 and 0.0044"),
            "{figure}"
        );
        let large = with_median(Some("white"), "2214.0371", ["2199", "2229"]);
        let table = large.table().into_string();
        assert!(
            table.contains(">2,214<") && table.contains("2199 to 2229"),
            "{table}"
        );
    }

    /// What a clip cut stands next to the interval, where something was cut.
    #[test]
    fn what_was_cut_is_shown() {
        let row = |key: &str, low_by: Option<&str>| {
            let values = [key, "20", "19", "29"].map(|text| Some(text.to_owned()));
            let low_by = low_by.map(str::to_owned);
            cells(&[&values[..], &[low_by]].concat(), 2, &[1])
        };
        let answer = AnswerTable {
            columns: vec!["key".to_owned(), "n".to_owned()],
            measures: vec![1],
            others: Vec::new(),
            rows: vec![row("a", Some("3.14")), row("b", None)],
            has_exact: false,
            new_rows: 0,
        };
        let shown = (answer.table().0 + &answer.note_of_cuts().0).to_lowercase();
        assert!(
            shown.contains(">low by</th>") && shown.contains("3.14"),
            "{shown}"
        );
        assert!(shown.contains("about how much the clip"), "{shown}");
        assert_eq!(shown.matches("<td").count(), 6, "{shown}");
    }

    #[test]
    fn a_noisy_column_without_an_interval_is_no_key() {
        let answer = with_median(Some("white"), "2", ["1", "3"]);
        let figure = answer.figures().into_string();
        assert!(
            figure.contains(">white<") && !figure.contains("5.3"),
            "{figure}"
        );
        assert!(
            answer
                .table()
                .into_string()
                .contains("<th scope=\"row\">white</th>")
        );
    }

    #[test]
    fn null_is_not_the_empty_text() {
        let shown = |key| with_median(key, "2", ["1", "3"]).table().into_string();
        assert!(shown(None).contains(">NULL<") && !shown(Some("")).contains("NULL"));
    }

    #[test]
    fn labels_are_short() {
        let figure = with_median(Some(&"é".repeat(5000)), "2", ["1", "3"]).figures();
        let figure = figure.into_string();
        let longest = figure
            .split(|c| c != 'é')
            .map(|run| run.chars().count())
            .max();
        assert_eq!(longest, Some(LABEL_MAX), "{}", figure.len());
    }
}
