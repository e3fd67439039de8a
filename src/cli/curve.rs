//! `pgveil explain --curve`: a curve as a table with bars, and as JSON.

use super::table;
use crate::engine::{Bought, Curve, CurvePoint, percent};

/// The longest bar.
const BAR: f64 = 30.0;

/// The curve as lines, with a bar of the first error.
pub fn lines(curve: &Curve, role: &str) -> Vec<String> {
    let first = curve.bought_points().next();
    let names = first.map_or(Vec::new(), |bought| bought.errors.clone());
    let mut columns = vec!["epsilon".to_owned()];
    columns.extend(names.iter().map(|(name, _)| format!("{name}, 95 %")));
    columns.extend(["of the budget", "such answers", ""].map(str::to_owned));
    let most = curve
        .bought_points()
        .filter_map(Bought::first)
        .fold(0.0, f64::max);
    let row = |point: &CurvePoint| {
        let mut row = vec![Some(point.epsilon.to_string())];
        match &point.answer {
            Ok(bought) => {
                let errors = bought.errors.iter().map(|(_, within)| Some(within.text()));
                row.extend(errors);
                row.push(Some(bought.share.map_or("too much".to_owned(), percent)));
                row.push(Some(bought.answers.to_string()));
                row.push(Some(bar(bought, most, point.is_default)));
            }
            Err(why) => {
                row.extend(vec![None; names.len() + 2]);
                row.push(Some(format!("not answered: {why}")));
            }
        }
        row
    };
    let rows: Vec<_> = curve.points.iter().map(row).collect();
    let mut lines = vec![format!(
        "Half of the 95 % interval at each epsilon, for {role}; the bar is the first error:"
    )];
    let table = table::of_texts(&columns, &rows);
    lines.extend(table.iter().map(|line| line.trim_end().to_owned()));
    lines
}

pub fn json(curve: &Curve, role: &str) -> String {
    let point = |point: &CurvePoint| match &point.answer {
        Ok(bought) => {
            let errors = bought.errors.iter().map(|(name, within)| {
                let (half_width, is) = within.parts();
                serde_json::json!({"name": name, "half_width_95": half_width, "is": is})
            });
            serde_json::json!({
                "epsilon": point.epsilon,
                "default": point.is_default,
                "aggregates": errors.collect::<Vec<_>>(),
                "share_of_budget": bought.share,
                "answers": bought.answers,
                "useless": bought.is_useless,
            })
        }
        Err(why) => serde_json::json!({"epsilon": point.epsilon, "refused": why}),
    };
    let points: Vec<_> = curve.points.iter().map(point).collect();
    format!("{:#}", serde_json::json!({"role": role, "curve": points}))
}

fn bar(bought: &Bought, most: f64, is_default: bool) -> String {
    let length = bought
        .first()
        .filter(|_| most > 0.0)
        .map_or(0.0, |own| own / most * BAR);
    let mut bar = "▇".repeat(length.ceil() as usize);
    if is_default {
        bar += " without a setting";
    }
    if bought.is_useless {
        bar += " useless";
    }
    bar.trim_start().to_owned()
}
