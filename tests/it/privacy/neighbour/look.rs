//! Releases whose clips are chosen from a look: one unit moves the sums of one bin of each block,
//! its number of units by one, and the sums at every candidate by at most that clip.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::{BigInt, BigUint};
use pgveil::mechanism::{Loss, Noise};
use pgveil::rewrite::{
    BinNumber, Block, BlockId, CandidateId, Coordinate, CoordinateId, Look, ReleasePlan,
};

use super::bound::scaled_by;
use super::world::{Groups, Missing, World};

/// A statement's results for one block: sums by group and number of the bin, and units by number.
#[derive(Default)]
struct Measured {
    sums: BTreeMap<(Vec<Option<String>>, usize), Vec<BigInt>>,
    units: BTreeMap<usize, BigInt>,
}

/// The rows of a statement that belong to a block.
fn of_block(rows: &Groups, release: &ReleasePlan, at: usize) -> Result<Measured, String> {
    let mut measured = Measured::default();
    for (key, values) in rows {
        let (keys, bins) = key.split_at(release.key_columns());
        let Some(number) = &bins[at] else { continue };
        // A presence that groups share has one bin, which the rows of another block have too.
        let look = release.look().ok_or("no look")?;
        let is_shared = |at: usize| {
            let places = look.blocks[at].coordinates.iter();
            places.clone().count() == 1
                && places
                    .clone()
                    .all(|place| release.coordinates()[*place] == Coordinate::Presence)
        };
        let others = (0..bins.len()).filter(|at| bins[*at].is_some() && !is_shared(*at));
        if others.count() > 1 || is_shared(at) && number != "1" {
            return Err(format!("a row of several blocks: {key:?}"));
        }
        let number: usize = number.parse().map_err(|_| format!("bin {number}"))?;
        let (units, sums) = values.split_last().ok_or("no number of units")?;
        // Where all units are in one bin of a block, its sums are in the rows of another block.
        let added = measured.sums.entry((keys.to_vec(), number));
        let added = added.or_insert_with(|| vec![BigInt::ZERO; sums.len()]);
        added
            .iter_mut()
            .zip(sums)
            .for_each(|(sum, more)| *sum += more);
        *measured.units.entry(number).or_default() += units;
    }
    Ok(measured)
}

pub async fn holds(
    world: &World,
    missing: Missing,
    (release, look): (&ReleasePlan, &Look),
    sql: &str,
) -> Result<(), String> {
    priced(look).map_err(|fault| format!("{fault}\n{sql}"))?;
    let columns = release.key_columns() + look.blocks.len();
    let compared = world.compare(sql, columns).await?;
    let silent = |(_, values): (_, &Vec<BigInt>)| values.iter().all(|v| *v == BigInt::ZERO);
    if !compared.nobody.iter().all(silent) {
        return Err(format!(
            "rows of nobody count: {:?}\n{sql}",
            compared.nobody
        ));
    }
    for (unit, rest) in missing.iter().zip(&compared.rest) {
        within_blocks((release, look), &compared.whole, rest)
            .map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))?;
    }
    Ok(())
}

/// What one unit moves, in each block, from what a statement returned with it and without it.
pub fn within_blocks(
    (release, look): (&ReleasePlan, &Look),
    whole: &Groups,
    rest: &Groups,
) -> Result<(), String> {
    for (number, block) in look.with_numbers() {
        let at = number.0;
        let (whole, rest) = (of_block(whole, release, at)?, of_block(rest, release, at)?);
        moved(block, &whole, &rest)
            .and_then(|()| match look.shown == Some(number) {
                true => few_groups(release, block, &whole, &rest),
                false => Ok(()),
            })
            .map_err(|fault| format!("block {at}: {fault}"))?;
    }
    Ok(())
}

/// One unit's influence on one block.
fn moved(block: &Block, whole: &Measured, rest: &Measured) -> Result<(), String> {
    let none = BigInt::ZERO;
    let numbers: BTreeSet<usize> = whole
        .units
        .keys()
        .chain(rest.units.keys())
        .copied()
        .collect();
    let mut of_units = Vec::new();
    for number in numbers {
        let (a, b) = (whole.units.get(&number), rest.units.get(&number));
        let moved = a.unwrap_or(&none) - b.unwrap_or(&none);
        if moved != none {
            of_units.push((number, moved));
        }
    }
    let is_one = |(_, moved): &(usize, BigInt)| *moved == BigInt::from(1);
    if of_units.len() > 1 || !of_units.iter().all(is_one) {
        return Err(format!("numbers of units move by {of_units:?}"));
    }
    let mut differences: BTreeMap<&(Vec<Option<String>>, usize), Vec<BigInt>> = BTreeMap::new();
    for key in whole.sums.keys().chain(rest.sums.keys()) {
        let value = |of: &Measured, at: usize| {
            of.sums
                .get(key)
                .map_or(BigInt::ZERO, |sums| sums[at].clone())
        };
        let places = block.coordinates.iter();
        let moved = places
            .map(|at| value(whole, at.0) - value(rest, at.0))
            .collect();
        differences.insert(key, moved);
    }
    let bins: BTreeSet<usize> = differences
        .iter()
        .filter(|(_, moved)| moved.iter().any(|v| *v != BigInt::ZERO))
        .map(|((_, number), _)| *number)
        .collect();
    let counted: BTreeSet<usize> = of_units.iter().map(|(number, _)| *number).collect();
    if !bins.is_subset(&counted) || bins.contains(&0) {
        return Err(format!("sums move in bins {bins:?}, units in {counted:?}"));
    }
    let Some(number) = bins.first() else {
        return Ok(());
    };
    let parts: Vec<&Vec<BigInt>> = differences.values().collect();
    let number = BinNumber(*number);
    block
        .bins
        .all_candidates()
        .try_for_each(|candidate| within(block, candidate, number, &parts))
}

/// The unit's part of the number that decides which groups are shown: in few groups, and equal in
/// each.
fn few_groups(
    release: &ReleasePlan,
    block: &Block,
    whole: &Measured,
    rest: &Measured,
) -> Result<(), String> {
    let price = release.price().ok_or("no price")?;
    let [CoordinateId(at)] = block.coordinates[..] else {
        return Err(format!("groups are shown by {:?}", block.coordinates));
    };
    let mut moved: BTreeMap<&Vec<Option<String>>, BigInt> = BTreeMap::new();
    for (sums, sign) in [(&whole.sums, 1), (&rest.sums, -1)] {
        for ((key, _), sums) in sums {
            *moved.entry(key).or_default() += &sums[at] * sign;
        }
    }
    let moved: Vec<BigInt> = moved.into_values().filter(|v| *v != BigInt::ZERO).collect();
    let alone = release.sets().len().max(1);
    let most = price
        .groups_per_unit
        .map_or(alone, |groups| groups as usize);
    if moved.len() > most {
        return Err(format!("{} groups, at most {most} declared", moved.len()));
    }
    let one = BigInt::from(release.coordinates()[at].magnitude());
    let is_shared = release.coordinates()[at] == Coordinate::Presence;
    let is_within = |own: &BigInt| match is_shared {
        true => own * own * moved.len() <= &one * &one,
        false => *own <= one,
    };
    let is_even = moved.windows(2).all(|two| two[0] == two[1]);
    if is_even && moved.iter().all(is_within) {
        Ok(())
    } else {
        Err(format!(
            "a unit adds {moved:?} to the numbers that show groups"
        ))
    }
}

/// The norm of the unit's part of all groups at one candidate.
fn within(
    block: &Block,
    candidate: CandidateId,
    number: BinNumber,
    parts: &[&Vec<BigInt>],
) -> Result<(), String> {
    let calibrated = block.calibrate(candidate).map_err(|r| format!("{r:?}"))?;
    let clip = block.bins.clip(candidate);
    let finest = calibrated.iter().map(|c| c.refine).max().unwrap_or(0);
    let mut norm = BigUint::ZERO;
    for ((at, weight), calibrated) in block.weights.iter().enumerate().zip(&calibrated) {
        let factor = BigInt::from(block.bins.factor(candidate, number, calibrated.refine));
        for part in parts {
            let moved = (&part[at] * &factor).magnitude() * weight;
            let moved = moved << (finest - calibrated.refine);
            norm += &moved * &moved;
        }
        let loss = Loss {
            mu_squared: block.mu.square(),
            ..Loss::ZERO
        };
        scaled_by(&loss, clip, weight, calibrated.noise, calibrated.refine)?;
    }
    if norm > (clip * clip) << (2 * finest) {
        return Err(format!(
            "norm {norm} at clip {clip}, {finest} bits, bin {}",
            number.0
        ));
    }
    Ok(())
}

/// Each step's loss covers its draws.
pub fn priced(look: &Look) -> Result<(), String> {
    let Noise::Gaussian { sigma } = look.counts.noise else {
        return Err("a look draws Gaussian noise".to_owned());
    };
    let is_shown = |at: usize| look.shown == Some(BlockId(at));
    let squares = |blocks: &mut dyn Iterator<Item = &Block>| -> u128 {
        blocks.map(|block| block.mu.square().0).sum()
    };
    let blocks = || look.blocks.iter().enumerate();
    let shown = squares(
        &mut blocks()
            .filter(|(at, _)| is_shown(*at))
            .map(|(_, block)| block),
    );
    let summed = squares(
        &mut blocks()
            .filter(|(at, _)| !is_shown(*at))
            .map(|(_, block)| block),
    );
    let looked = look
        .blocks
        .iter()
        .filter(|block| block.bins.has_choice())
        .count();
    // Each look is mu-GDP with mu = 2^s / sigma: first - shown >= looked mu^2.
    let left = look.first.mu_squared.0.saturating_sub(shown);
    let left = BigUint::from(left) * sigma * sigma;
    let needed = BigUint::from(looked) << (2 * look.counts.refine + 60);
    if left < needed || look.second.mu_squared.0 < summed {
        return Err(format!(
            "the look or the sums cost more than their debit: {look:?}"
        ));
    }
    Ok(())
}
