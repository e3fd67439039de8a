//! Wide tables: columns with equal entries share a line of the draft, by `also`.

use super::columns::{Form, Line};

/// Longer lists go on in the next line.
pub const LINE_MAX: usize = 100;
/// Tables of fewer columns have a line for each.
const WIDE: usize = 24;
/// Fewer columns than these have a line each.
const FEW: usize = 4;

/// The lines of a table; of a wide one those that say the same together, at the place of the first.
pub fn alike(lines: &[Line]) -> Vec<Vec<&Line>> {
    let mut together: Vec<Vec<&Line>> = Vec::new();
    if lines.len() < WIDE {
        return lines.iter().map(|line| vec![line]).collect();
    }
    let is_alike = |one: &Line, other: &Line| {
        // A column with the owner's own words gets its own line.
        let is_said = matches!(one.form, Form::Said(_));
        !is_said && one.form == other.form && one.remark == other.remark
    };
    for line in lines {
        let known = together
            .iter_mut()
            .find(|known| known.first().is_some_and(|first| is_alike(first, line)));
        match known {
            Some(known) => known.push(line),
            None => together.push(vec![line]),
        }
    }
    let (mut shared, few): (Vec<_>, Vec<_>) =
        together.into_iter().partition(|lines| lines.len() >= FEW);
    shared.extend(few.into_iter().flatten().map(|line| vec![line]));
    let place = |one: &Vec<&Line>| {
        let first = one.first();
        lines
            .iter()
            .position(|line| first.is_some_and(|first| std::ptr::eq(*first, line)))
    };
    shared.sort_by_key(place);
    shared
}

/// One entry for several columns, below its remark.
pub fn entry(line: &Line, names: &[String]) -> Vec<String> {
    let (off, form, remark) = match &line.form {
        Form::On(form) | Form::Said(form) => ("", form.as_str(), line.remark.clone()),
        Form::Open(form) => {
            let remark = format!("DECIDE, for each or for all: {}", line.remark);
            ("# ", form.as_str(), remark)
        }
        Form::Note => ("# ", "", line.remark.clone()),
    };
    let Some((first, others)) = names.split_first() else {
        return Vec::new();
    };
    let (begin, items, end) = match form {
        "" => (String::new(), names, ""),
        "visible" => (format!("{first}: {{visible: true, also: ["), others, "]}"),
        "hidden" => (format!("{first}: {{visible: false, also: ["), others, "]}"),
        map => {
            let map = map.strip_suffix('}').unwrap_or(map);
            (format!("{first}: {map}, also: ["), others, "]}")
        }
    };
    let mut lines = Vec::new();
    if !remark.is_empty() {
        lines.push(format!("      # {remark}"));
    }
    let mut text = format!("      {off}{begin}");
    for (at, item) in items.iter().enumerate() {
        let item = match at + 1 == items.len() {
            true => format!("{item}{end}"),
            false => format!("{item},"),
        };
        if text.chars().count() + item.chars().count() + 1 > LINE_MAX && at > 0 {
            lines.push(text.trim_end().to_owned());
            text = format!("      {off}  ");
        }
        text += &item;
        text.push(' ');
    }
    lines.push(text.trim_end().to_owned());
    lines
}
