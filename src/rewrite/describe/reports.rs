//! Estimates from reports of values that were randomised before they were stored.

use crate::rewrite::{ReleasePlan, measure_deviation};

/// How values are estimated from reports that were randomised before they were stored.
pub(super) fn estimators(plan: &ReleasePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for (output, _) in plan.outputs() {
        let Some(formula) = output.estimator() else {
            continue;
        };
        let name = output.name();
        let mut line = format!("  Estimate: {name} = {formula}");
        let noise = output.measures().last().copied();
        let noise = noise.and_then(|at| measure_deviation(plan, plan.measure(at)));
        match noise.and_then(|noise| output.error_from_reports(noise)) {
            Some(error) => line.push_str(&format!("; its standard error is {error}")),
            None => {
                line.push_str("; its error is that of the noise and of the reports themselves");
            }
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The lines of coordinates, where those of one description after the other have one line together:
/// `v1 to v128: …`.
pub(super) fn join_alike(lines: Vec<String>) -> Vec<String> {
    let mut joined: Vec<(Option<(String, String)>, String)> = Vec::new();
    for line in lines {
        let split = line.trim_start().split_once(": ");
        let Some((number, text)) = split.filter(|(number, _)| is_number(number)) else {
            joined.push((None, line));
            continue;
        };
        match joined.last_mut() {
            Some((Some((_, last)), known)) if known.as_str() == text => number.clone_into(last),
            _ => joined.push((
                Some((number.to_owned(), number.to_owned())),
                text.to_owned(),
            )),
        }
    }
    let line = |(numbers, text): (Option<(String, String)>, String)| match numbers {
        None => text,
        Some((first, last)) if first == last => format!("  {first}: {text}"),
        Some((first, last)) => format!("  {first} to {last}: {text}"),
    };
    joined.into_iter().map(line).collect()
}

fn is_number(text: &str) -> bool {
    text.strip_prefix('v')
        .is_some_and(|digits| digits.parse::<usize>().is_ok())
}
