//! The table of all questions, its sums, and both as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measure::Measured;

/// What a run was made of, so that another can be made alike.
#[derive(Serialize, Clone)]
pub struct Setting {
    pub program: String,
    pub seed: u64,
    pub households: usize,
    pub baskets: u64,
    pub lines: u64,
    pub draws: usize,
    pub set: Vec<String>,
}

/// All questions of one epsilon in a few numbers.
#[derive(Serialize)]
pub struct Sums {
    pub epsilon: f64,
    pub questions: usize,
    /// Of the questions that have an oracle and a value.
    pub ratio_geometric_mean: Option<f64>,
    pub ratio_worst: Option<(f64, String)>,
    pub coverage_least: Option<(f64, String)>,
    /// The mean share of groups within 10 %, and the questions where half of all groups are.
    pub useful: f64,
    pub useful_questions: usize,
    pub refused: usize,
    pub in_vain: usize,
    pub wasted: f64,
}

fn extreme<'m>(
    found: impl Iterator<Item = (Option<f64>, &'m Measured)>,
    sign: f64,
) -> Option<(f64, String)> {
    found
        .filter_map(|(value, measured)| Some((value?, measured.question.clone())))
        .max_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)))
}

impl Sums {
    pub fn of(epsilon: f64, all: &[Measured]) -> Self {
        let ratios: Vec<f64> = all.iter().filter_map(|m| m.ratio).collect();
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (logarithms / ratios.len() as f64).exp();
        Self {
            epsilon,
            questions: all.len(),
            ratio_geometric_mean: (!ratios.is_empty()).then_some(mean),
            ratio_worst: extreme(all.iter().map(|m| (m.ratio, m)), 1.0),
            coverage_least: extreme(all.iter().map(|m| (m.coverage, m)), -1.0),
            useful: all.iter().map(|m| m.useful).sum::<f64>() / all.len() as f64,
            useful_questions: all.iter().filter(|m| m.useful >= 0.5).count(),
            refused: all.iter().map(|m| m.refused).sum(),
            in_vain: all.iter().map(|m| m.in_vain).sum(),
            wasted: all.iter().map(|m| m.wasted).sum(),
        }
    }

    pub fn print(&self) {
        let named = |found: &Option<(f64, String)>, scale: f64| {
            found.as_ref().map_or("-".to_owned(), |(value, name)| {
                format!("{} ({name})", short(value * scale))
            })
        };
        println!(
            "\nepsilon {}: {} x the oracle in the geometric mean, worst {}; least coverage {} %",
            self.epsilon,
            self.ratio_geometric_mean.map_or("-".to_owned(), short),
            named(&self.ratio_worst, 1.0),
            named(&self.coverage_least, 100.0),
        );
        println!(
            "  within 10 %: {:.0} % of groups in the mean over questions; half of the groups or \
                more in {} of {} questions",
            100.0 * self.useful,
            self.useful_questions,
            self.questions
        );
        println!(
            "  {} answers refused free, {} paid in vain ({:.2} of a full price in all)\n",
            self.refused, self.in_vain, self.wasted
        );
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        size if size >= 0.009995 => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short)
}

fn percent(value: Option<f64>) -> String {
    cell(value.map(|value| 100.0 * value))
}

/// Errors that were measured elsewhere, by question and epsilon: an earlier run, or a peer.
#[derive(Deserialize, Default)]
pub struct Others {
    pub name: String,
    pub rms: Vec<(String, f64, f64)>,
}

impl Others {
    /// The errors of an earlier run's file, which must be of the same shop.
    pub fn of_run(name: &str, text: &str, setting: &Setting) -> Result<Self, String> {
        let run: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let now = serde_json::to_value(setting).map_err(|e| e.to_string())?;
        for key in ["seed", "households", "lines"] {
            if run["setting"][key] != now[key] {
                return Err(format!("{name} is of another {key}"));
            }
        }
        let row = |row: &Value| {
            let name = row["question"].as_str()?.to_owned();
            Some((name, row["epsilon"].as_f64()?, row["rms"].as_f64()?))
        };
        let rows = run["questions"].as_array().map(Vec::as_slice);
        Ok(Self {
            name: name.to_owned(),
            rms: rows.unwrap_or_default().iter().filter_map(row).collect(),
        })
    }

    fn of(&self, measured: &Measured) -> Option<f64> {
        let same = |row: &&(String, f64, f64)| {
            row.0 == measured.question && (row.1 - measured.epsilon).abs() < 1e-9
        };
        self.rms.iter().find(same).map(|row| row.2)
    }
}

pub fn print_head(others: &[Others]) {
    print!(
        "{:<29} {:>6} {:>9} {:>7} {:>9} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6} {:>4} {:>4} {:>5}",
        "question",
        "groups",
        "rms",
        "%",
        "oracle",
        "ratio",
        "cover%",
        "told%",
        "half%",
        "shown%",
        "in10%",
        "ref",
        "vain",
        "cost"
    );
    for other in others {
        print!(" {:>12}", other.name);
    }
    println!();
}

pub fn print_row(row: &Measured, others: &[Others]) {
    print!(
        "{:<29} {:>6} {:>9} {:>7} {:>9} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6} {:>4} {:>4} {:>5}",
        row.question,
        row.groups,
        cell(row.rms),
        percent(row.relative),
        cell(row.oracle),
        cell(row.ratio),
        percent(row.coverage),
        percent(row.told),
        percent(row.half),
        percent(Some(row.shown)),
        percent(Some(row.useful)),
        row.refused,
        row.in_vain,
        cell(Some(row.cost)),
    );
    for other in others {
        print!(" {:>12}", cell(other.of(row)));
    }
    println!();
    if let Some(error) = &row.error {
        println!("    {error}");
    }
}

pub fn json(setting: &Setting, questions: &[Measured], sums: &[Sums]) -> String {
    let all = serde_json::json!({"setting": setting, "questions": questions, "sums": sums});
    format!("{all:#}\n")
}
