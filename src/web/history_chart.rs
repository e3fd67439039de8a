//! Charts of error against price, and of a budget over time, with their numbers.

use maud::{Markup, html};

use super::chart::{Plot, plot};
use super::page::{minute, table, text_markup};
use super::share;
use crate::calendar::MICROS_PER_DAY;
use crate::engine::{Bought, Curve, percent};

/// Error against budget: the first aggregate as a line, all of them in the table.
pub fn curve(curve: &Curve) -> Markup {
    let names = curve.bought_points().next();
    let names: Vec<&str> = names
        .map(|bought| bought.errors.iter().map(|(name, _)| name.as_str()))
        .into_iter()
        .flatten()
        .collect();
    let line: Vec<(f64, f64)> = curve
        .bought_points()
        .filter_map(|bought| Some((100.0 * bought.share?, bought.first()?)))
        .collect();
    let highest = |of: fn(&(f64, f64)) -> f64| line.iter().map(of).fold(0.0, f64::max);
    let (widest, worst) = (highest(|point| point.0), highest(|point| point.1));
    let label = format!(
        "Half of the 95 % interval of {} against the share of the budget, at {} prices",
        names.first().unwrap_or(&"the answer"),
        line.len()
    );
    let header: Vec<String> = std::iter::once("Epsilon".to_owned())
        .chain(names.iter().map(|name| format!("{name}, 95 %")))
        .chain(["Of the budget", "Such answers", ""].map(str::to_owned))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let numbers: Vec<usize> = (0..header.len() - 1).collect();
    let rows: Vec<Vec<Markup>> = curve
        .points
        .iter()
        .map(|point| {
            let default = if point.is_default {
                "the role's own"
            } else {
                ""
            };
            let mut row = vec![text_markup(point.epsilon)];
            match &point.answer {
                Ok(bought) => row.extend(price_cells(bought, default)),
                Err(why) => {
                    row.extend((0..names.len() + 2).map(|_| text_markup("")));
                    row.push(text_markup(format!("not answered: {why}")));
                }
            }
            row
        })
        .collect();
    html! {
        @if line.len() > 1 && widest > 0.0 && worst > 0.0 {
            figure {
                figcaption { (label) }
                (plot(&Plot {
                    label: &label,
                    line: &line,
                    band: &[],
                    dots: &line,
                    level: None,
                    mark: None,
                    horizontal: (0.0, widest * 1.02),
                    vertical: (0.0, worst * 1.05),
                    below: "per cent of the budget",
                }))
            }
        }
        (table("Half of the 95 % interval at each price", &header, &numbers, &rows))
    }
}

fn price_cells(bought: &Bought, default: &str) -> Vec<Markup> {
    let useless = if bought.is_useless { "useless" } else { "" };
    let remark = [default, useless].map(str::to_owned);
    let remark: Vec<String> = remark.into_iter().filter(|part| !part.is_empty()).collect();
    let errors = bought
        .errors
        .iter()
        .map(|(_, within)| text_markup(within.text()));
    errors
        .chain([
            text_markup(bought.share.map_or("too much".to_owned(), percent)),
            text_markup(bought.answers),
            text_markup(remark.join(", ")),
        ])
        .collect()
}

/// The spent share of a budget over some days before `now`: a chart, and its points as a table.
pub fn spent_chart(whose: &str, course: &[(i64, f64)], days: u16, now: i64) -> (Markup, Markup) {
    let at = |moment: i64| (moment - now) as f64 / MICROS_PER_DAY as f64;
    let line: Vec<(f64, f64)> = course
        .iter()
        .map(|(moment, level)| (at(*moment), 100.0 * level))
        .collect();
    let highest = line.iter().map(|(_, level)| *level).fold(1.0, f64::max);
    let label = format!(
        "Spent share of {whose} over {days} days, from {:.1} to {:.1} per cent",
        line.first().map_or(0.0, |(_, level)| *level),
        line.last().map_or(0.0, |(_, level)| *level)
    );
    let drawn = plot(&Plot {
        label: &label,
        line: &line,
        band: &[],
        dots: &[],
        level: None,
        mark: None,
        horizontal: (-f64::from(days), 0.0),
        vertical: (0.0, highest * 1.05),
        below: "days before now",
    });
    let points: Vec<Vec<Markup>> = course
        .iter()
        .map(|(moment, level)| vec![text_markup(minute(*moment)), text_markup(share(*level))])
        .collect();
    let points = html! {
        details {
            summary { "The line as a table" }
            (table("Spent", &["Time (UTC)", "Spent"], &[1], &points))
        }
    };
    (drawn, points)
}
