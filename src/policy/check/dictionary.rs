//! Columns that hold filters of true values: their lists, and the columns of their cohorts.

use std::collections::HashMap;
use std::sync::Arc;

use super::collected::misfit;
use crate::catalog::Type;
use crate::mechanism::{Randomiser, Rappor};
use crate::policy::column_position::ColumnPosition;
use crate::policy::dictionary::{DECODING_MAX, VALUES_MAX, decoding_work};
use crate::policy::error::{At, Findings, Location};
use crate::policy::file::{ColumnEntry, ColumnRule, Literal};
use crate::policy::{Collected, Column, Dictionary, Scalar};

/// The most values that are better counted by one bit each.
const SHORT: usize = 256;
/// The most bits that a column of reports may hold.
const BITS_STORED_MAX: u32 = 1_024;

/// An entry of a column of filters.
pub(super) struct Filters<'e> {
    pub place: Location,
    pub rappor: Rappor,
    pub cohort: &'e At<String>,
    /// The rule of the true values.
    pub of: &'e ColumnRule,
}

impl<'e> Filters<'e> {
    /// The entry of a column; `None` of other columns.
    pub fn of(entry: &'e ColumnEntry) -> Option<Self> {
        let ColumnRule::Collected {
            place,
            randomiser: Randomiser::Rappor(rappor),
            cohort: Some(cohort),
            of,
        } = &entry.rule
        else {
            return None;
        };
        Some(Self {
            place: *place,
            rappor: *rappor,
            cohort,
            of,
        })
    }

    /// What is known of a column's filters. The column is to questions what its true values are: a
    /// text. Returns the column's name, and that of its cohorts.
    pub fn read(
        &self,
        made: &mut Column,
        is_needed: bool,
        findings: &mut Findings,
    ) -> Option<(String, At<String>)> {
        let rappor = self.rappor;
        let name = made.name.clone();
        let values = match self.values(made, is_needed) {
            Ok(values) => values,
            Err((place, message)) => {
                findings.error(place, format!("column \"{name}\" {message}"));
                return None;
            }
        };
        warn(&format!("column \"{name}\""), self, values.len(), findings);
        made.data_type = Type::Text;
        made.deterministic_collation = true;
        made.collected = Some(Collected {
            randomiser: Randomiser::Rappor(rappor),
            reports: Vec::new(),
            one_bit: None,
            dictionary: Some(Arc::new(Dictionary {
                rappor,
                values: values.iter().map(|v| v.value.text.clone()).collect(),
                // Found once all columns are known.
                cohort: ColumnPosition(usize::MAX),
            })),
        });
        Some((name, self.cohort.clone()))
    }

    /// The list of the true values, or what is wrong with the column.
    fn values(
        &self,
        made: &Column,
        is_needed: bool,
    ) -> Result<&'e [At<Literal>], (Location, String)> {
        let place = self.place;
        let is_of_table = matches!(self.of, ColumnRule::Domain(_));
        if let Some(message) = misfit(made, is_needed, is_of_table) {
            return Err((place, message.to_owned()));
        }
        let bits = self.rappor.bits;
        if !holds(&made.data_type, bits) || made.declared.is_some() {
            let message = format!(
                "is collected by rappor and must be of type bit({bits}), or bit varying of at \
                    most {BITS_STORED_MAX} bits, not {}",
                made.data_type
            );
            return Err((place, message));
        }
        let ColumnRule::Values(values) = self.of else {
            let needs = "the values that reports are decoded to, as values: [a, b, c]";
            let message = format!("is collected by rappor, which needs {needs}");
            return Err((place, message));
        };
        if !(2..=VALUES_MAX).contains(&values.len()) {
            let message = format!(
                "is collected by rappor, which needs 2 to {VALUES_MAX} values, not {}",
                values.len()
            );
            return Err((place, message));
        }
        let work = decoding_work(&self.rappor, values.len());
        if work > DECODING_MAX {
            let message = format!(
                "lists {} values, which would take {work} steps to decode, more than \
                    {DECODING_MAX}: list fewer, or collect with fewer hashes or cohorts",
                values.len()
            );
            return Err((place, message));
        }
        if let Some(fault) = alike(&self.rappor, values) {
            return Err(fault);
        }
        let cells = self.rappor.bits as usize * self.rappor.cohorts as usize;
        if values.len() > cells {
            let message = format!(
                "lists {} values, more than the {cells} bits of all cohorts: errors of frequent \
                    values would be too small; list fewer, or collect with more bits or cohorts",
                values.len()
            );
            return Err((place, message));
        }
        Ok(values)
    }
}

/// Whether a column of the type holds this many bits, and never very many more: each bit is read
/// from the whole report, so a long one would take time that tells of its row.
fn holds(data_type: &Type, bits: u32) -> bool {
    let Type::Other { oid: _, name } = data_type else {
        return false;
    };
    let length = |name: &str, before: &str| -> Option<u32> {
        name.strip_prefix(before)?.strip_suffix(')')?.parse().ok()
    };
    length(name, "bit(") == Some(bits)
        || length(name, "bit varying(").is_some_and(|most| (bits..=BITS_STORED_MAX).contains(&most))
}

/// Two values that no report can tell apart, if there are such.
fn alike(rappor: &Rappor, values: &[At<Literal>]) -> Option<(Location, String)> {
    let mut known: HashMap<Vec<Vec<u32>>, &str> = HashMap::new();
    for At { place, value } in values {
        let text = value.text.as_str();
        let bits = (0..rappor.cohorts).map(|cohort| rappor.places(cohort, text));
        if let Some(other) = known.insert(bits.collect(), text) {
            let message = if other == text {
                format!("lists the value \"{text}\" twice")
            } else {
                format!("lists \"{other}\" and \"{text}\", which set the same bits in each cohort")
            };
            return Some((*place, message));
        }
    }
    None
}

fn warn(column: &str, filters: &Filters<'_>, values: usize, findings: &mut Findings) {
    let Filters { place, rappor, .. } = filters;
    if rappor.epsilon_of_one().is_infinite() {
        let message = format!(
            "{column} is collected with odds that randomise nothing for some bits (f: 0 with p: 0 \
                or q: 1): one report may tell the true value"
        );
        findings.warning(*place, message);
        return;
    }
    if rappor.epsilon_of_all().is_infinite() {
        let message = format!(
            "{column} is collected without permanent coins (f: 0): many reports of a person \
                together tell the true value"
        );
        findings.warning(*place, message);
    }
    let unary = Randomiser::optimised_unary(rappor.epsilon_of_one());
    let one = rappor.channel().variance(1.0, 0.0);
    let best = unary.channel(&[1], 2).map(|bit| bit.variance(1.0, 0.0));
    if let Some(best) = best.filter(|best| values <= SHORT && one > *best) {
        let message = format!(
            "{column} lists {values} values: a bit for each of them (unary) at the same epsilon \
                of a report, {:.2}, has {:.1} times less variance than a bit of rappor",
            rappor.epsilon_of_one(),
            one / best
        );
        findings.warning(*place, message);
    }
}

/// Finds the columns of the cohorts, and lists their values, of which there are at most
/// `values_max`. Columns that are `needed` for units are none.
pub(super) fn find_cohorts(
    columns: &mut [Column],
    wanted: &[(String, At<String>)],
    (needed, values_max): (&[&str], u32),
    findings: &mut Findings,
) {
    let mut listed: Vec<usize> = Vec::new();
    for (name, cohort) in wanted {
        let At { place, value } = cohort;
        let position = columns.iter().position(|column| column.name == *value);
        let is_free = |column: &Column| {
            let is_integer = matches!(column.data_type, Type::Int2 | Type::Int4 | Type::Int8);
            let is_bare = column.bounds.is_none() && column.collected.is_none();
            let is_needed = needed.contains(&column.name.as_str());
            let is_stored = column.domain.is_none() && column.declared.is_none();
            is_integer && is_bare && is_stored && !is_needed
        };
        let fits = |at: &usize| listed.contains(at) || is_free(&columns[*at]);
        let Some(at) = position.filter(fits) else {
            let message = format!(
                "cohort of column \"{name}\" must be an integer column that is visible, without \
                    values or bounds, and not of a unit or path, not \"{value}\""
            );
            findings.error(*place, message);
            continue;
        };
        let known = columns.iter_mut().find(|column| column.name == *name);
        let Some(collected) = known.and_then(|column| column.collected.as_mut()) else {
            continue;
        };
        let Some(dictionary) = &collected.dictionary else {
            continue;
        };
        let found = Dictionary {
            cohort: ColumnPosition(at),
            ..(**dictionary).clone()
        };
        if found.rappor.cohorts > values_max {
            let message = format!(
                "cohort of column \"{name}\" has more than {values_max} values (limits.groups)"
            );
            findings.error(*place, message);
            continue;
        }
        let cohorts = i64::from(found.rappor.cohorts);
        collected.dictionary = Some(Arc::new(found));
        // Several columns may share their cohorts, of which one may have fewer.
        let known = columns[at].domain.as_ref().map_or(0, Vec::len) as i64;
        columns[at].domain = Some((0..cohorts.max(known)).map(Scalar::Int).collect());
        listed.push(at);
    }
}
