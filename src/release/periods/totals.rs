//! Running totals of prepaid periods: rows C x + noise, where C is a [`SquareRoot`] and x has the
//! exact sums of the periods; and the periods and totals that are computed from such rows.

use std::collections::{BTreeMap, HashMap};

use num_bigint::BigInt;
use zeroize::Zeroizing;

use super::{
    JoinedAnswer, JoinedGroup, PeriodAnswer, PeriodsRecord, TotalsRecord, join_groups, period_of,
};
use crate::calendar::period::{Period, PeriodSet};
use crate::mechanism::{Calibrated, Noise, Sampler, SquareRoot, scale_noise};
use crate::release::decode::{Rational, difference, measures_of_total};
use crate::release::groups::groups;
use crate::release::totals_shared::{TotalsBlock, TotalsPlace, TotalsShared};
use crate::release::{Error, NoiseRecord, PlainLayout, PrintedKey, ReleasedTable};
use crate::rewrite::{CoordinateId, PeriodBatch, ReleasePlan, TotalsBatch, TotalsDrawn};

/// Exact sums are within this. With the weights of [`crate::mechanism::TOTALS_MAX`] periods, and
/// with noise, they add up to less than 2^126.
const SUM_MAX: i128 = 1 << 94;

/// The exact integers of the periods of one combination of the other keys.
type Line = BTreeMap<Period, (PrintedKey, Zeroizing<Vec<i128>>)>;

/// Draws the rows of a batch's periods. A row has, for each combination of the other keys and each
/// coordinate, the sum over all periods from the block's first one to its own, each times the entry
/// of its age, plus noise.
///
/// # Guarantee
/// What one unit adds to a row is at most the sum of the entries of its periods that count, times
/// the clip, whatever the signs are and however it changed since an earlier draw: exact sums are
/// clamped first, which brings two of them no further apart, and then added up without clamping.
/// With each row drawn once, in the order of the periods, this is the release of docs/periods.md,
/// at the price's loss.
///
/// # Requires
/// `vector` has the periods from the beginning of the horizon on, of each unit its first ones, each
/// within the clip.
pub(in crate::release) fn draw_totals(
    release: &ReleasePlan,
    totals: &TotalsDrawn,
    vector: &[PrintedKey],
    sampler: &mut dyn Sampler,
) -> Result<ReleasedTable, Error> {
    let batch = release.batch().ok_or(Error::Mismatch)?;
    let of = batch.totals.ok_or(Error::Mismatch)?;
    let TotalsDrawn { root, drawn } = totals;
    let calibrated = release.price().map_or(&[][..], |price| &price.calibrated);
    let is_one_grid = |(a, b): (&Calibrated, &Calibrated)| a.refine == b.refine;
    if calibrated.len() != drawn.len() || !calibrated.iter().zip(drawn).all(is_one_grid) {
        return Err(Error::Mismatch);
    }
    let mut table = ReleasedTable {
        drawn: NoiseRecord::of(release),
        periods: Some(record(batch, of, drawn)),
        ..ReleasedTable::default()
    };
    for line in lines(release, of, vector, calibrated)? {
        for (period, (key, _)) in &line {
            if !batch.periods.contains(*period) {
                continue;
            }
            let mut row = Vec::with_capacity(drawn.len());
            for (at, noise) in drawn.iter().enumerate() {
                let exact = Zeroizing::new(weigh(root, &line, (of.block, *period), at));
                let noisy = exact.saturating_add(sampler.sample(&noise.noise)?);
                row.push(noisy.to_string());
            }
            table.keys.push(key.clone());
            table.measures.push(row);
        }
    }
    Ok(table)
}

fn record(batch: &PeriodBatch, of: TotalsBatch, drawn: &[Calibrated]) -> PeriodsRecord {
    PeriodsRecord {
        totals: Some(TotalsRecord {
            block: of.block,
            draws: drawn.iter().map(|c| (c.noise, c.refine)).collect(),
        }),
        ..PeriodsRecord::of(batch)
    }
}

/// The exact integers by the combinations of the other keys, in the order of their listing.
fn lines(
    release: &ReleasePlan,
    of: TotalsBatch,
    vector: &[PrintedKey],
    calibrated: &[Calibrated],
) -> Result<Vec<Line>, Error> {
    let (data_type, _) = release.keys().get(of.key).ok_or(Error::Mismatch)?;
    let mut places: HashMap<PrintedKey, usize> = HashMap::new();
    let mut lines: Vec<Line> = Vec::new();
    for (key, values) in groups(release, vector, calibrated) {
        let value = key.get(of.key).and_then(Option::as_ref);
        // The group of NULL has no row.
        let Some(period) = period_of(value, data_type, of.length) else {
            continue;
        };
        let place = *places.entry(others(&key, of.key)).or_insert(lines.len());
        if place == lines.len() {
            lines.push(Line::new());
        }
        // Two values of one period would be two rows.
        if lines[place].insert(period, (key, values)).is_some() {
            return Err(Error::Mismatch);
        }
    }
    Ok(lines)
}

/// The key without its period.
fn others(key: &PrintedKey, at: usize) -> PrintedKey {
    let mut key = key.clone();
    if let Some(value) = key.get_mut(at) {
        *value = None;
    }
    key
}

/// The exact row of a period, of one coordinate.
fn weigh(root: &SquareRoot, line: &Line, (block, row): (Period, Period), at: usize) -> i128 {
    let mut sum = 0;
    for (period, (_, values)) in line.range(block..=row) {
        let age = usize::try_from(period.distance_to(row)).unwrap_or(usize::MAX);
        let value = values[at].clamp(-SUM_MAX, SUM_MAX);
        sum += i128::from(root.entry(age)) * value;
    }
    sum
}

/// The periods that are shown, from the rows of all draws.
///
/// # Guarantee
/// The result is a function of the answers. A period is the difference of two totals, each rounded
/// once, so that periods that follow each other add up to the difference of their totals.
pub(super) fn join(shape: &ReleasePlan, answers: &[(PeriodAnswer, PeriodSet)]) -> ReleasedTable {
    let mut blocks: BTreeMap<Period, Vec<&(PeriodAnswer, PeriodSet)>> = BTreeMap::new();
    for answer in answers {
        if let Some(block) = answer.0.block() {
            blocks.entry(block).or_default().push(answer);
        }
    }
    let key = answers.first().map_or(0, |(of, _)| of.at);
    let mut joining = Joining::default();
    for (block, answers) in blocks {
        joining.undo(shape, block, answers);
    }
    let Joining {
        records,
        blocks,
        mut shown,
    } = joining;
    shown.sort_by_key(|((period, ..), _): &(JoinedGroup, TotalsPlace)| *period);
    let (shown, places): (Vec<JoinedGroup>, Vec<TotalsPlace>) = shown.into_iter().unzip();
    let mut table = join_groups(shape, records, shown);
    let shared = TotalsShared {
        blocks,
        places,
        key,
    };
    table.drawn = table.drawn.map(|drawn| drawn.sharing(shared));
    table
}

/// The periods of all blocks, as far as they are computed.
#[derive(Default)]
struct Joining {
    /// The noise of each period.
    records: Vec<JoinedAnswer>,
    blocks: Vec<TotalsBlock>,
    shown: Vec<(JoinedGroup, TotalsPlace)>,
}

/// The rows of a block, in their order, as far as none is missing and the noise is the same.
struct Rows<'a> {
    first: &'a PeriodAnswer,
    draws: &'a [(Noise, u32)],
    count: usize,
    shown: PeriodSet,
    /// The key and the integers of each row, of each combination of the other keys.
    lines: Vec<Vec<(&'a PrintedKey, Vec<BigInt>)>>,
}

impl<'a> Rows<'a> {
    fn of(block: Period, mut answers: Vec<&'a (PeriodAnswer, PeriodSet)>) -> Option<Self> {
        answers.sort_by_key(|(of, _)| of.periods().hull());
        let (first, _) = answers.first()?;
        let draws = first.record.totals.as_ref()?.draws.as_slice();
        let mut places: HashMap<PrintedKey, usize> = HashMap::new();
        let mut rows = Self {
            first,
            draws,
            count: 0,
            shown: PeriodSet::default(),
            lines: Vec::new(),
        };
        let mut next = block;
        for (of, shown) in answers {
            let is_next = of.periods().hull().is_some_and(|(first, _)| first == next);
            let is_same = of.record.totals.as_ref().is_some_and(|t| t.draws == draws);
            if !is_next || !is_same {
                break;
            }
            for (_, key, integers) in &of.groups {
                let place = places.entry(others(key, of.at)).or_insert(rows.lines.len());
                if *place == rows.lines.len() {
                    rows.lines.push(Vec::new());
                }
                let integers = integers.iter().map(|text| text.parse().unwrap_or_default());
                rows.lines[*place].push((key, integers.collect()));
            }
            next = of.periods().hull().map_or(next, |(_, end)| end);
            rows.shown = rows.shown.or(shown);
        }
        rows.count = usize::try_from(block.distance_to(next)).ok()?;
        rows.lines.retain(|line| line.len() == rows.count);
        Some(rows)
    }
}

impl Joining {
    /// Adds the shown periods of a block, and their noise.
    fn undo(
        &mut self,
        shape: &ReleasePlan,
        block: Period,
        answers: Vec<&(PeriodAnswer, PeriodSet)>,
    ) {
        let Some(rows) = Rows::of(block, answers) else {
            return;
        };
        let root = SquareRoot::new(u32::try_from(rows.count).unwrap_or(0));
        let first = self.records.len();
        for factor in root.deviations_of_periods() {
            let scale = |(noise, refine): &(Noise, u32)| (scale_noise(*noise, factor), *refine);
            let JoinedAnswer { noise, groups } = &rows.first.answer;
            self.records.push(JoinedAnswer {
                noise: noise.with_draws(rows.draws.iter().map(scale).collect()),
                groups: *groups,
            });
        }
        let (weights, layout) = (root.weights_of_totals(), PlainLayout::of(shape));
        let of_block = self.blocks.len();
        self.blocks.push(TotalsBlock {
            draws: rows.draws.to_vec(),
            factors: root.factors_of_totals(),
        });
        for (number, line) in rows.lines.iter().enumerate() {
            let mut before = total(
                shape,
                &layout,
                rows.draws,
                &vec![BigInt::ZERO; rows.draws.len()],
            );
            for (n, (key, _)) in line.iter().enumerate() {
                let sums: Vec<BigInt> = (0..rows.draws.len())
                    .map(|at| {
                        let terms = (0..=n).map(|i| &weights[n - i] * &line[i].1[at]);
                        round(&terms.sum(), root.shift())
                    })
                    .collect();
                let measures = total(shape, &layout, rows.draws, &sums);
                let period = block.plus(n as i64);
                if rows.shown.contains(period) {
                    let steps = measures.iter().zip(&before);
                    let steps = steps.map(|(later, earlier)| difference(later, earlier));
                    let place = TotalsPlace {
                        period,
                        block: of_block,
                        line: number,
                        row: n,
                    };
                    let group = (period, first + n, (*key).clone(), steps.collect());
                    self.shown.push((group, place));
                }
                before = measures;
            }
        }
    }
}

/// The measures of a total, from its integers on the grids of the draws.
fn total(
    shape: &ReleasePlan,
    layout: &PlainLayout,
    draws: &[(Noise, u32)],
    sums: &[BigInt],
) -> Vec<String> {
    let drawn = |CoordinateId(at): CoordinateId| Rational::binary(sums[at].clone(), draws[at].1);
    measures_of_total(shape, |at| layout.coordinate(at, drawn))
}

/// The nearest integer to a number in steps of 2^-shift.
fn round(number: &BigInt, shift: u32) -> BigInt {
    (number + (BigInt::from(1) << (shift - 1))) >> shift
}
