//! The table of all questions, its sums, and both as JSON.

use serde::Serialize;
use serde_json::Value;

use crate::measure::Measured;

/// A share of fewer values says little.
const FEW: usize = 20;

/// The goals of answers: errors as multiples of the oracle's, and the share of intervals that hold.
const RATIO_MEAN: f64 = 1.6;
const RATIO_WORST: f64 = 2.5;
const COVERAGE: f64 = 0.93;

/// The parameters of a run, so that it can be repeated.
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
    /// Over the questions that have an oracle and a value.
    pub ratio_geometric_mean: Option<f64>,
    pub ratio_worst: Option<(f64, String)>,
    /// Over the questions with [`FEW`] values or more.
    pub coverage_mean: Option<f64>,
    pub coverage_least: Option<(f64, String)>,
    /// Questions of which too few intervals hold, by more than two standard deviations of that many
    /// values.
    pub coverage_low: Vec<(f64, String)>,
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

/// The coverage of a question, where it is below the goal and chance hardly explains it.
fn is_low(measured: &Measured) -> Option<(f64, String)> {
    let held = measured.coverage?;
    let deviation = (COVERAGE * (1.0 - COVERAGE) / measured.values as f64).sqrt();
    (held < COVERAGE - 2.0 * deviation).then(|| (held, measured.question.clone()))
}

impl Sums {
    pub fn of(epsilon: f64, all: &[Measured]) -> Self {
        let ratios: Vec<f64> = all.iter().filter_map(|m| m.ratio).collect();
        let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let mean = (logarithms / ratios.len() as f64).exp();
        let many: Vec<&Measured> = all.iter().filter(|m| m.values >= FEW).collect();
        let held: Vec<f64> = many.iter().filter_map(|m| m.coverage).collect();
        Self {
            epsilon,
            questions: all.len(),
            ratio_geometric_mean: (!ratios.is_empty()).then_some(mean),
            ratio_worst: extreme(all.iter().map(|m| (m.ratio, m)), 1.0),
            coverage_mean: (!held.is_empty()).then(|| held.iter().sum::<f64>() / held.len() as f64),
            coverage_low: many.iter().filter_map(|m| is_low(m)).collect(),
            coverage_least: extreme(many.iter().map(|m| (m.coverage, *m)), -1.0),
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
            "\nepsilon {}: {} x the oracle in the geometric mean, worst {}",
            self.epsilon,
            cell(self.ratio_geometric_mean),
            named(&self.ratio_worst, 1.0),
        );
        println!(
            "  intervals of 95 % hold {} %, least {}, where there are {FEW} values or more",
            percent(self.coverage_mean),
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
            "  {} answers refused free, {} paid in vain ({:.2} of a full price in all)",
            self.refused, self.in_vain, self.wasted
        );
    }
}

impl Sums {
    /// The goals that are missed, a line each.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if let Some(mean) = self.ratio_geometric_mean.filter(|mean| *mean > RATIO_MEAN) {
            missed.push(format!(
                "{} x the oracle in the geometric mean, at most {RATIO_MEAN} is wanted",
                short(mean)
            ));
        }
        if let Some((worst, name)) = self.ratio_worst.as_ref().filter(|w| w.0 > RATIO_WORST) {
            missed.push(format!(
                "{name}: {} x the oracle, at most {RATIO_WORST} is wanted",
                short(*worst)
            ));
        }
        let wanted = format!("at least {:.0} % is wanted", 100.0 * COVERAGE);
        if let Some(mean) = self.coverage_mean.filter(|mean| *mean < COVERAGE) {
            missed.push(format!(
                "intervals hold {} %, {wanted}",
                short(100.0 * mean)
            ));
        }
        let low = self.coverage_low.iter();
        missed.extend(low.map(|(held, name)| {
            format!("{name}: intervals hold {} %, {wanted}", short(100.0 * held))
        }));
        if self.in_vain > 0 {
            missed.push(format!("{} answers are paid in vain", self.in_vain));
        }
        let at = format!("goal missed at epsilon {}: ", self.epsilon);
        missed.iter().map(|line| format!("{at}{line}")).collect()
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
#[derive(Serialize)]
pub struct Others {
    pub name: String,
    pub found: Vec<Found>,
}

#[derive(Serialize)]
pub struct Found {
    pub question: String,
    pub epsilon: f64,
    pub rms: f64,
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
            Some(Found {
                question: row["question"].as_str()?.to_owned(),
                epsilon: row["epsilon"].as_f64()?,
                rms: row["rms"].as_f64()?,
            })
        };
        let rows = run["questions"].as_array().map(Vec::as_slice);
        Ok(Self {
            name: name.to_owned(),
            found: rows.unwrap_or_default().iter().filter_map(row).collect(),
        })
    }

    /// Its errors as multiples of the oracle's, where it answers, and of ours there.
    pub fn print(&self, all: &[Measured]) {
        let both = all
            .iter()
            .filter_map(|row| Some((row.rms?, row.oracle?, self.of(row)?)));
        // An answer without any error has no place in a mean of ratios.
        let (exact, both): (Vec<_>, Vec<(f64, f64, f64)>) =
            both.partition(|(_, _, other)| *other == 0.0);
        let mean = |ratio: fn(&(f64, f64, f64)) -> f64| {
            let logarithms: f64 = both.iter().map(|found| ratio(found).ln()).sum();
            short((logarithms / both.len().max(1) as f64).exp())
        };
        println!(
            "  {}: {} questions of an oracle, and {} without an error; in the geometric mean {} \
                x the oracle, {} x pgveil",
            self.name,
            both.len(),
            exact.len(),
            mean(|(_, oracle, other)| other / oracle),
            mean(|(rms, _, other)| other / rms),
        );
    }

    fn of(&self, measured: &Measured) -> Option<f64> {
        let same = |found: &&Found| {
            found.question == measured.question && (found.epsilon - measured.epsilon).abs() < 1e-9
        };
        self.found.iter().find(same).map(|found| found.rms)
    }
}

impl Setting {
    pub fn print(&self) {
        let set = if self.set.is_empty() {
            "default settings".to_owned()
        } else {
            self.set.join(", ")
        };
        println!(
            "--seed {}: {} households, {} baskets, {} lines; {} draws a question; {set}\n",
            self.seed, self.households, self.baskets, self.lines, self.draws
        );
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
        "ends%",
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
        percent(row.ends),
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

pub fn json(setting: &Setting, questions: &[Measured], sums: &[Sums], others: &[Others]) -> String {
    let all = serde_json::json!({
        "setting": setting,
        "questions": questions,
        "sums": sums,
        "others": others,
    });
    format!("{all:#}\n")
}
