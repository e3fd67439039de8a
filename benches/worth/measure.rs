//! One question, asked many times, and the exact answer and the oracle's.

use std::collections::{BTreeMap, HashMap};

use bytes::Buf as _;
use futures::TryStreamExt as _;
use serde::Serialize;
use tokio_postgres::{Client, SimpleQueryRow};

use crate::oracle::{Cell, Vectors, of_quotient, of_sum};
use crate::questions::Question;
use crate::stage::{error_text, rows};

/// Answers off by less count as useful.
const USEFUL: f64 = 0.1;

/// A question's exact results, as the owner sees them.
pub struct Exact {
    values: BTreeMap<String, f64>,
    /// Groups by number, also those without a value.
    groups: HashMap<String, u32>,
    parts: Vec<Vectors>,
}

/// How one question was answered at one epsilon. Errors are root mean squares over the groups and
/// draws that have a value.
#[derive(Serialize, Default, Clone)]
pub struct Measured {
    pub question: String,
    pub epsilon: f64,
    pub groups: usize,
    /// Over all draws.
    pub values: usize,
    /// In the answer's unit, and as a share of the root mean square of the exact values.
    pub rms: Option<f64>,
    pub relative: Option<f64>,
    pub oracle: Option<f64>,
    pub ratio: Option<f64>,
    /// The share of values that the stated 95 % interval holds; an end that is NULL has no limit.
    pub coverage: Option<f64>,
    /// The share of intervals that have both ends.
    pub ends: Option<f64>,
    /// The median of half the interval, as a share of the root mean square of the exact values.
    pub half: Option<f64>,
    /// Shares of all groups and draws: those with a value, and those within 10 % of the exact
    /// value.
    pub shown: f64,
    pub useful: f64,
    pub draws: usize,
    /// Draws refused free, and draws that were charged and showed no value.
    pub refused: usize,
    pub in_vain: usize,
    /// The mean charge of a draw, and the part of all charges that bought nothing: in mu squared,
    /// as a multiple of the epsilon's mu squared.
    pub cost: f64,
    pub wasted: f64,
    pub error: Option<String>,
}

fn number(row: &SimpleQueryRow, at: usize) -> Option<f64> {
    row.get(at).and_then(|text| text.parse().ok())
}

fn key(row: &SimpleQueryRow, question: &Question) -> String {
    let columns = 0..question.keys.len();
    let texts: Vec<&str> = columns.map(|at| row.get(at).unwrap_or("NULL")).collect();
    texts.join("|")
}

async fn asked(client: &Client, sql: &str) -> Vec<SimpleQueryRow> {
    rows(client, sql)
        .await
        .unwrap_or_else(|e| panic!("{sql}: {}", error_text(&e)))
}

/// The exact value of each group that has one.
pub async fn exact_values(owner: &Client, question: &Question) -> BTreeMap<String, f64> {
    let keys = question.keys.len();
    let rows = asked(owner, &question.exact()).await;
    rows.iter()
        .filter_map(|row| Some((key(row, question), number(row, keys)?)))
        .collect()
}

impl Exact {
    pub async fn find(owner: &Client, question: &Question) -> Self {
        let values = exact_values(owner, question).await;
        let mut groups = HashMap::new();
        let mut parts = Vec::new();
        if !question.parts.is_empty() {
            parts = vectors(owner, question, &mut groups).await;
        }
        for group in values.keys() {
            number_of(&mut groups, group);
        }
        Self {
            values,
            groups,
            parts,
        }
    }

    /// The exact value of a group: of no row 0, where that is known.
    fn value(&self, question: &Question, group: &str) -> Option<f64> {
        let nothing = question.is_additive().then_some(0.0);
        self.values.get(group).copied().or(nothing)
    }

    fn oracle(&self, question: &Question, shown: &BTreeMap<String, f64>, mu: f64) -> Option<f64> {
        let mut weights = vec![0.0; self.groups.len()];
        for (group, times) in shown {
            match self.groups.get(group) {
                Some(at) => weights[*at as usize] = *times,
                // Nobody adds to it: its error is the noise.
                None => weights.push(*times),
            }
        }
        let mu = mu / question.blocks().sqrt();
        match self.parts.as_slice() {
            [sum] => of_sum(sum, &weights, mu),
            [above, below] => of_quotient(above, below, &weights, mu),
            _ => None,
        }
    }
}

fn number_of(groups: &mut HashMap<String, u32>, group: &str) -> u32 {
    let next = groups.len() as u32;
    *groups.entry(group.to_owned()).or_insert(next)
}

/// What each household adds to each group, for each part of a question. Large shops have millions
/// of such cells: they are read as they come.
async fn vectors(
    owner: &Client,
    question: &Question,
    groups: &mut HashMap<String, u32>,
) -> Vec<Vectors> {
    let sql = format!("COPY ({}) TO STDOUT", question.vectors());
    let stream = owner.copy_out(&sql).await;
    let stream = stream.unwrap_or_else(|e| panic!("{sql}: {}", error_text(&e)));
    let mut stream = std::pin::pin!(stream);
    let mut parts = vec![Vec::new(); question.parts.len()];
    let keys = question.keys.len();
    while let Some(row) = stream.try_next().await.expect("COPY") {
        let row = std::str::from_utf8(row.chunk()).expect("a text");
        let texts: Vec<&str> = row.trim_end_matches('\n').split('\t').collect();
        let named = |text: &&str| if *text == "\\N" { "NULL" } else { *text }.to_owned();
        let group: Vec<String> = texts[..keys].iter().map(named).collect();
        let group = number_of(groups, &group.join("|"));
        let household = texts[keys].parse().expect("a household's number");
        for (cells, text) in parts.iter_mut().zip(&texts[keys + 1..]) {
            cells.push(Cell {
                household,
                group,
                value: text.parse().unwrap_or(0.0),
            });
        }
    }
    parts.into_iter().map(Vectors::new).collect()
}

/// A session's charges so far, in mu squared.
async fn charged(analyst: &Client) -> f64 {
    let sql = "SELECT coalesce(sum(mu::float8 * mu), 0) FROM pgveil.history";
    asked(analyst, sql)
        .await
        .first()
        .and_then(|row| number(row, 0))
        .expect("a sum")
}

/// Sums over groups and draws.
#[derive(Default)]
struct Tally {
    /// How often each group has a value.
    shown: BTreeMap<String, f64>,
    squares: f64,
    truths: f64,
    values: f64,
    held: f64,
    ends: f64,
    halves: Vec<f64>,
    useful: f64,
    /// Groups with an exact value, over all draws.
    asked: f64,
}

impl Tally {
    /// Whether the answer shows any value.
    fn add(&mut self, exact: &Exact, question: &Question, answer: &[SimpleQueryRow]) -> bool {
        let keys = question.keys.len();
        self.asked += exact.values.values().filter(|value| **value != 0.0).count() as f64;
        let mut has_value = false;
        for row in answer {
            let group = key(row, question);
            let (Some(value), Some(truth)) = (number(row, keys), exact.value(question, &group))
            else {
                continue;
            };
            has_value = true;
            *self.shown.entry(group).or_default() += 1.0;
            let error = (value - truth).abs();
            self.squares += error * error;
            self.truths += truth * truth;
            self.values += 1.0;
            let (low, high) = (number(row, keys + 1), number(row, keys + 2));
            // Past the rounding of the answer's type.
            let slack = 1e-9 * truth.abs();
            let is_held = low.is_none_or(|low| low <= truth + slack)
                && high.is_none_or(|high| truth - slack <= high);
            self.held += f64::from(u8::from(is_held));
            if let (Some(low), Some(high)) = (low, high) {
                self.ends += 1.0;
                self.halves.push((high - low) / 2.0);
            }
            let is_useful = truth != 0.0 && error <= USEFUL * truth.abs();
            self.useful += f64::from(u8::from(is_useful));
        }
        has_value
    }
}

/// Asks a question `draws` times and buys a fresh answer each time. `mu` belongs to the session's
/// epsilon.
pub async fn measure(
    analyst: &Client,
    exact: &Exact,
    question: &Question,
    (epsilon, mu): (f64, f64),
    draws: usize,
) -> Measured {
    let mut tally = Tally::default();
    let mut measured = Measured {
        question: question.name.to_owned(),
        epsilon,
        groups: exact.values.len(),
        draws,
        ..Measured::default()
    };
    let start = charged(analyst).await;
    let mut before = start;
    for _ in 0..draws {
        let answer = rows(analyst, &question.asked()).await;
        let after = charged(analyst).await;
        let has_value = match &answer {
            Ok(answer) => tally.add(exact, question, answer),
            Err(error) => {
                measured.error = Some(error_text(error));
                tally.add(exact, question, &[])
            }
        };
        if !has_value && after > before {
            measured.in_vain += 1;
            measured.wasted += (after - before) / (mu * mu);
        } else if answer.is_err() {
            measured.refused += 1;
        }
        before = after;
    }
    measured.cost = (before - start) / (mu * mu) / draws as f64;
    measured.useful = tally.useful / tally.asked;
    let known = exact.values.keys().map(|group| tally.shown.get(group));
    let shown = known.flatten().fold(0.0, |sum, times| sum + times);
    measured.shown = shown / (exact.values.len() * draws) as f64;
    measured.values = tally.values as usize;
    if tally.values > 0.0 {
        let rms = (tally.squares / tally.values).sqrt();
        let size = (tally.truths / tally.values).sqrt();
        measured.rms = Some(rms);
        measured.relative = Some(rms / size);
        measured.oracle = exact.oracle(question, &tally.shown, mu);
        measured.ratio = measured.oracle.map(|oracle| rms / oracle);
        measured.coverage = Some(tally.held / tally.values);
        measured.ends = Some(tally.ends / tally.values);
        tally.halves.sort_by(f64::total_cmp);
        measured.half = tally
            .halves
            .get(tally.halves.len() / 2)
            .map(|half| half / size);
    }
    measured
}
