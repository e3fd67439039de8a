//! Prints answers and errors as psql does.

use crate::engine::Answer;
use crate::refusal::Refusal;

/// int8, int2, int4, oid, float4, float8, money, numeric: psql aligns these to the right.
const RIGHT: [u32; 8] = [20, 21, 23, 26, 700, 701, 790, 1700];

/// The aligned table of an answer in text format, with header and row count.
pub fn align(answer: &Answer) -> Vec<String> {
    let rows: Vec<Vec<String>> = answer
        .rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|value| cell_text(value.as_deref()))
                .collect()
        })
        .collect();
    let columns = answer.columns.iter();
    let columns: Vec<(&str, bool)> = columns
        .map(|column| (column.name.as_str(), RIGHT.contains(&column.type_oid)))
        .collect();
    lines(&columns, &rows)
}

/// The aligned table of values whose types are not known: a column of numbers is aligned to the
/// right.
pub fn of_texts(columns: &[String], rows: &[Vec<Option<String>>]) -> Vec<String> {
    let is_number = |at: usize| {
        let mut values = rows.iter().filter_map(|row| row.get(at)?.as_deref());
        values.all(|value| value.parse::<f64>().is_ok())
    };
    let columns: Vec<(&str, bool)> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), is_number(at)))
        .collect();
    let row = |row: &Vec<Option<String>>| {
        let values = row
            .iter()
            .map(|value| cell_text(value.as_deref().map(str::as_bytes)));
        values.collect()
    };
    lines(&columns, &rows.iter().map(row).collect::<Vec<_>>())
}

/// Columns are names, and whether they are aligned to the right.
fn lines(columns: &[(&str, bool)], rows: &[Vec<String>]) -> Vec<String> {
    let width = |at: usize, name: &str| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|text| text.chars().count())
            .chain([name.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, (name, _))| width(at, name))
        .collect();
    let header: Vec<String> = columns
        .iter()
        .zip(&widths)
        .map(|((name, _), width)| format!(" {name:^width$} "))
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut lines = vec![header.join("|"), rule.join("+")];
    for row in rows {
        let cells = row.iter().zip(columns).zip(&widths);
        let cells = cells.map(|((text, (_, is_right)), width)| {
            if *is_right {
                format!(" {text:>width$} ")
            } else {
                format!(" {text:<width$} ")
            }
        });
        lines.push(cells.collect::<Vec<_>>().join("|").trim_end().to_owned());
    }
    lines.push(if rows.len() == 1 {
        "(1 row)".to_owned()
    } else {
        format!("({} rows)", rows.len())
    });
    lines
}

/// NULL is empty, as in psql. Line ends and tabs are escaped, since they would break the table.
fn cell_text(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or_default())
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// `ERROR:`, `LINE n:` with its caret, `DETAIL:` and `HINT:` on stderr.
pub fn print_refusal(refusal: &Refusal, sql: &str) {
    ErrorText::of(refusal).print(sql);
}

/// The text of an error.
pub struct ErrorText<'a> {
    pub message: &'a str,
    pub detail: Option<&'a str>,
    pub hint: Option<&'a str>,
    pub position: Option<u32>,
}

impl<'a> ErrorText<'a> {
    fn of(refusal: &'a Refusal) -> Self {
        Self {
            message: &refusal.message,
            detail: refusal.detail.as_deref(),
            hint: refusal.hint.as_deref(),
            position: refusal.position,
        }
    }

    /// As [`print_refusal`].
    pub fn print(&self, sql: &str) {
        for line in self.lines(sql) {
            eprintln!("{line}");
        }
    }

    fn lines(&self, sql: &str) -> Vec<String> {
        let mut lines = vec![format!("ERROR:  {}", self.message)];
        let place = self.position.and_then(|position| point_at(position, sql));
        lines.extend(place.into_iter().flatten());
        lines.extend(self.detail.map(|detail| format!("DETAIL:  {detail}")));
        lines.extend(self.hint.map(|hint| format!("HINT:  {hint}")));
        lines
    }
}

/// The line of a 1-based character position, and a caret under it.
fn point_at(position: u32, sql: &str) -> Option<[String; 2]> {
    let mut left = usize::try_from(position).ok()?.checked_sub(1)?;
    for (number, line) in sql.split('\n').enumerate() {
        let length = line.chars().count();
        if left <= length {
            let head = format!("LINE {}: ", number + 1);
            return Some([
                format!("{head}{line}"),
                format!("{}^", " ".repeat(head.len() + left)),
            ]);
        }
        left -= length + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::engine::{ColumnDescription, MemoryShare};
    use crate::refusal::reason;

    fn column(name: &str, type_oid: u32) -> ColumnDescription {
        ColumnDescription {
            name: name.to_owned(),
            type_oid,
            type_size: -1,
            type_modifier: -1,
        }
    }

    #[test]
    fn tables_look_like_psql() {
        let row = |race: &'static str, count: Option<&'static str>| {
            vec![Some(Bytes::from(race)), count.map(Bytes::from)]
        };
        let rows = vec![row("white", Some("12")), row("x", None)];
        let answer = Answer {
            columns: vec![column("race", 25), column("n", 20)],
            rows,
            notices: vec![],
            warnings: vec![],
            held: MemoryShare::default().begin(),
        };
        assert_eq!(
            align(&answer),
            [
                " race  | n  ",
                "-------+----",
                " white | 12",
                " x     |",
                "(2 rows)"
            ]
        );
    }

    #[test]
    fn errors_point_at_the_word() {
        let refusal = Refusal::new(reason::SYNTAX_ERROR, "syntax error")
            .at(Some(10))
            .hint("Do.");
        assert_eq!(
            ErrorText::of(&refusal).lines("SELECT 1\nFROM"),
            [
                "ERROR:  syntax error",
                "LINE 2: FROM",
                "        ^",
                "HINT:  Do."
            ]
        );
    }
}
