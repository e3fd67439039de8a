//! Columns whose values were randomised before they were stored.

use crate::catalog::Type;
use crate::mechanism::{Channel, OneBit, Randomiser};
use crate::policy::error::{Findings, Location};
use crate::policy::file::{ColumnEntry, ColumnRule};
use crate::policy::scalar;
use crate::policy::{Collected, Column, Scalar};

/// The longest list: a condition is decided for each value of it.
const VALUES_MAX: usize = 1000;

/// What is known of a column's reports. The list or the bounds are of the true values: nothing else
/// may take them for what is stored, so they leave the column.
///
/// `is_key`: the column is the table's unit, or on a path to it. `is_of_table`: its list is that of
/// a public table, which may change, while reports stay those of the list they were drawn from.
pub(super) fn take_reports(
    made: &mut Column,
    (place, randomiser): (Location, Randomiser),
    (is_key, is_of_table): (bool, bool),
    findings: &mut Findings,
) {
    let (list, bounds) = (made.domain.take(), made.bounds.take());
    let column = format!("column \"{}\"", made.name);
    let mut fault = |message: String| findings.error(place, format!("{column} {message}"));
    if let Some(message) = misfit(made, is_key, is_of_table) {
        fault(message.to_owned());
        return;
    }
    let name = randomiser.name();
    let listed = |least: usize, most: usize| list.filter(|l| (least..=most).contains(&l.len()));
    let mut one_bit = None;
    let reports = match randomiser {
        Randomiser::Coin { .. } => listed(2, 2),
        Randomiser::KRr { .. } => listed(2, VALUES_MAX),
        Randomiser::Unary { .. } => {
            let bits = || vec![Scalar::Bool(false), Scalar::Bool(true)];
            (made.data_type == Type::Bool).then(bits)
        }
        Randomiser::Mean { epsilon } => {
            let ends = bounds.and_then(|b| number(&b.lower).zip(number(&b.upper)));
            one_bit = ends.map(|ends| OneBit::new(epsilon, ends));
            let bit = |text| scalar::parse(&made.data_type, text).ok();
            let is_number = made.data_type.is_number() && one_bit.is_some();
            bit("0")
                .zip(bit("1"))
                .filter(|_| is_number)
                .map(|(a, b)| vec![a, b])
        }
        // Their bits are decoded by a dictionary.
        Randomiser::Rappor(_) => None,
    };
    let Some(reports) = reports else {
        fault(format!(
            "cannot be collected by {name}, which needs {}",
            needs(&randomiser)
        ));
        return;
    };
    if one_bit.is_some_and(|bit: OneBit| !bit.is_in_range()) {
        fault("has bounds too wide for its epsilon: estimates would pass 1e30".to_owned());
        return;
    }
    if randomiser.channel(&[1], reports.len()).is_none() && one_bit.is_none() {
        fault(format!(
            "is collected by {name} with odds that say nothing of the true values"
        ));
        return;
    }
    if randomiser.epsilon().is_infinite() {
        let message = format!(
            "{column} is collected with odds that randomise nothing for some value: a report of it \
                is the truth"
        );
        findings.warning(place, message);
    }
    made.collected = Some(Collected {
        randomiser,
        reports,
        one_bit,
        dictionary: None,
    });
}

/// Says where another mechanism has smaller errors at the same epsilon. Bits of one value are
/// columns of one entry of the policy, and have its place.
///
/// # Reference
/// Wang, Blocki, Li, Jha 2017, section 5: one report of a list is better than a bit for each value
/// while the list has fewer than 3 e^epsilon + 2 values.
pub(super) fn advise(entries: &[ColumnEntry], findings: &mut Findings) {
    let mut known: Vec<Location> = Vec::new();
    for entry in entries {
        let ColumnRule::Collected {
            place,
            randomiser,
            of,
            cohort: None,
        } = &entry.rule
        else {
            continue;
        };
        if known.contains(place) || randomiser.epsilon().is_infinite() {
            continue;
        }
        known.push(*place);
        let is_of_entry = |other: &&ColumnEntry| match &other.rule {
            ColumnRule::Collected { place: of, .. } => of == place,
            _ => false,
        };
        let bits = entries.iter().filter(is_of_entry).count();
        let values = match &**of {
            ColumnRule::Values(values) => values.len(),
            _ => 0,
        };
        let better = match randomiser {
            Randomiser::KRr { .. } => better_as_bits(randomiser, values),
            Randomiser::Unary { .. } => better_as_list(randomiser, bits),
            Randomiser::Mean { epsilon } => (*epsilon > OneBit::PIECEWISE_FROM).then(|| {
                format!(
                    "has one bit for a number (mean), which is good up to epsilon {}: beyond, let \
                        krr report classes of numbers, as a list of '0-9', '10-19'",
                    OneBit::PIECEWISE_FROM
                )
            }),
            Randomiser::Coin { .. } | Randomiser::Rappor(_) => None,
        };
        if let Some(better) = better {
            findings.warning(*place, format!("column \"{}\" {better}", entry.name));
        }
    }
}

/// How many times the variance of one mechanism's estimate is another's, of a value that nobody
/// has.
fn times(of: Option<Channel>, other: Option<Channel>) -> Option<f64> {
    let [of, other] = [of?, other?].map(|channel| channel.variance(1.0, 0.0));
    (of > other).then_some(of / other)
}

fn better_as_bits(krr: &Randomiser, values: usize) -> Option<String> {
    let unary = Randomiser::optimised_unary(krr.epsilon()).channel(&[1], 2);
    let times = times(krr.channel(&[0], values), unary)?;
    Some(format!(
        "lists {values} values: a bit for each of them (unary) at the same epsilon, {:.2}, has \
            {times:.2} times less variance than krr",
        krr.epsilon()
    ))
}

fn better_as_list(unary: &Randomiser, bits: usize) -> Option<String> {
    let epsilon = unary.epsilon();
    // One bit alone is no list.
    let krr = (bits > 1).then(|| Randomiser::KRr { epsilon }.channel(&[0], bits));
    let times = times(unary.channel(&[1], 2), krr?)?;
    Some(format!(
        "is one of the bits of {bits} values: one report of their list (krr) at the same epsilon, \
            {epsilon:.2}, has {times:.2} times less variance than a bit of unary"
    ))
}

/// Why the column cannot be collected, whatever the mechanism.
pub(super) fn misfit(made: &Column, is_key: bool, is_of_table: bool) -> Option<&'static str> {
    if is_key {
        Some("is the unit or on a path to it, and cannot be collected at random")
    } else if made.collation.is_some() {
        Some("has another collation than the database, which collected columns may not have")
    } else if is_of_table {
        Some(
            "is collected, so its list must be written here as it was when the values were \
                collected: values: [a, b]",
        )
    } else {
        None
    }
}

fn needs(randomiser: &Randomiser) -> &'static str {
    match randomiser {
        Randomiser::Coin { .. } => "a list of two values, as values: [no, yes]",
        Randomiser::KRr { .. } => "a list of 2 to 1000 values, as values: [a, b, c]",
        Randomiser::Unary { .. } => "a boolean column for each value, which is visible",
        Randomiser::Mean { .. } => {
            "bounds of the true numbers, and a column of numbers whose reports are 0 and 1"
        }
        Randomiser::Rappor(_) => "a column of bits",
    }
}

fn number(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Decimal(text) => text.parse().ok(),
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Date(_) => None,
        Scalar::Timestamp(_) | Scalar::Interval { .. } => None,
    }
}
