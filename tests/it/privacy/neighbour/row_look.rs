//! Choices whose limit on a unit's rows is chosen from a look: one unit is in one bin, and at every
//! limit it weighs at most that.

use std::collections::BTreeMap;

use num_bigint::{BigInt, BigUint};
use pgveil::mechanism::{Accounting, Noise};
use pgveil::policy::SessionSettings;
use pgveil::rewrite::{
    BinNumber, CandidateId, ChoiceKind, ChoicePlan, ROW_WEIGHT, ReleasePlan, RowsLook,
};

use super::choices::{ROWS, is_silent, keys, noise_hides, within};
use super::world::{Groups, HEAVY, Missing, World};

pub async fn holds(
    world: &World,
    missing: Missing,
    release: &ReleasePlan,
    (part, look): (&ChoicePlan, &RowsLook),
    sql: &str,
) -> Result<(), String> {
    paid(part, look)?;
    let compared = world.compare(sql, keys(release, part)).await?;
    for (unit, rest) in missing.iter().zip(&compared.rest) {
        moved(part, look, &compared.whole, rest)
            .map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))?;
    }
    is_silent(&compared.nobody).map_err(|fault| format!("{fault}\n{sql}"))
}

/// The look and the draws together cost at most the charge.
fn paid(part: &ChoicePlan, look: &RowsLook) -> Result<(), String> {
    let Noise::Gaussian { sigma } = &look.counts.noise else {
        return Err(format!("a look under {:?}", look.counts.noise));
    };
    let unit = 2f64.powi(look.counts.refine as i32);
    let of_look = (unit / *sigma as f64).powi(2);
    let ChoiceKind::Choice { draws, .. } = &part.kind else {
        return Err("a look at a count".to_owned());
    };
    let steps = steps(part);
    let eta = draws[0].eta as f64 / 2f64.powi(30);
    let of_draws = steps as f64 * eta * eta * std::f64::consts::FRAC_PI_8;
    let charged = part.loss.mu_squared.to_f64();
    if of_look + of_draws <= charged * (1.0 + 1e-9) && part.loss.epsilon.is_none() {
        Ok(())
    } else {
        Err(format!("{of_look} + {of_draws} is more than {charged}"))
    }
}

/// How many draws the charge counts: fractions that are chosen together count as a few.
fn steps(part: &ChoicePlan) -> usize {
    let ChoiceKind::Choice { draws, halving, .. } = &part.kind else {
        return 0;
    };
    let fractions = part.question.fractions().len();
    let levels = halving.as_ref().map_or(fractions, |_| {
        pgveil::rewrite::Halving::levels(fractions) as usize
    });
    draws.len() - fractions + levels
}

/// One unit moves one number of units by one, and at each limit no more weight than that.
fn moved(part: &ChoicePlan, look: &RowsLook, whole: &Groups, rest: &Groups) -> Result<(), String> {
    let (of_whole, of_rest) = (units(whole)?, units(rest)?);
    let numbers = of_whole.keys().chain(of_rest.keys());
    let mut changed = BTreeMap::new();
    for number in numbers {
        let of = |units: &BTreeMap<usize, BigInt>| units.get(number).cloned().unwrap_or_default();
        let moved = of(&of_whole) - of(&of_rest);
        if moved != BigInt::ZERO {
            changed.insert(*number, moved);
        }
    }
    if changed.len() > 1 || changed.values().any(|moved| *moved != BigInt::from(1)) {
        return Err(format!("numbers of units move by {changed:?}"));
    }
    look.bins.all_candidates().try_for_each(|candidate| {
        let limited = part.limited_to(look, candidate, 0.0);
        noise_hides(&limited)?;
        let of = |rows: &Groups| weighed(rows, look, candidate);
        let (whole, rest) = (of(whole)?, of(rest)?);
        within(&limited, &whole, &rest)?;
        adds_up(&limited, &whole, &rest)
            .map_err(|fault| format!("limit {}: {fault}", look.bins.clip(candidate)))
    })
}

/// Checks the weight of one unit in all groups together, where the charge counts that weight and
/// not the squares by group.
fn adds_up(part: &ChoicePlan, whole: &Groups, rest: &Groups) -> Result<(), String> {
    let ChoiceKind::Choice {
        draws, weight_max, ..
    } = &part.kind
    else {
        return Ok(());
    };
    let by_squares = draws[0].loss_by_squares().mu_squared.to_f64();
    let one = part.loss.mu_squared.to_f64() / steps(part) as f64;
    let moved: BigInt = whole
        .iter()
        .map(|(key, values)| {
            let left = rest.get(key).map_or(BigInt::ZERO, |left| left[0].clone());
            &values[0] - left
        })
        .sum();
    if one >= by_squares || *moved.magnitude() <= BigUint::from(*weight_max) {
        Ok(())
    } else {
        Err(format!("{moved} moved, at most {weight_max} declared"))
    }
}

/// The number of the bin, which is the last of a row's keys.
fn number(key: &[Option<String>]) -> Result<usize, String> {
    let number = key.last().and_then(Option::as_deref);
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("no bin in {key:?}"))
}

fn units(rows: &Groups) -> Result<BTreeMap<usize, BigInt>, String> {
    let mut units = BTreeMap::new();
    for (key, values) in rows {
        *units.entry(number(key)?).or_insert(BigInt::ZERO) += &values[1];
    }
    Ok(units)
}

/// The weights of all groups and candidates at a limit.
fn weighed(rows: &Groups, look: &RowsLook, candidate: CandidateId) -> Result<Groups, String> {
    let mut weights = Groups::new();
    for (key, values) in rows {
        let factor = look
            .bins
            .factor(candidate, BinNumber(number(key)?), ROW_WEIGHT.ilog2());
        let place = key[..key.len() - 1].to_vec();
        weights.entry(place).or_insert_with(|| vec![BigInt::ZERO])[0] += &values[0] * factor;
    }
    Ok(weights)
}

const MUTANTS: &[(&str, &str, &str, &str)] = &[
    (
        "a bin by the rows of a group",
        "SELECT kd, percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) FROM visits GROUP BY kd",
        "sum((\"m\" * \"c\")) OVER (PARTITION BY \"u\")",
        "sum((\"m\" * \"c\")) OVER (PARTITION BY \"u\", \"x0\")",
    ),
    (
        "a bin by the root of the length",
        "SELECT max(i4) FROM visits",
        "* sum(\"c\") OVER (PARTITION BY \"u\")",
        "* 1",
    ),
    (
        "a unit counted by its rows",
        "SELECT max(i4) FROM visits",
        "(\"s\".\"r\" = 1)",
        "(\"s\".\"r\" > 0)",
    ),
    (
        "rows of nobody weighed",
        "SELECT mode() WITHIN GROUP (ORDER BY kd) FROM visits",
        "\"person\" IS NOT NULL",
        "\"person\" IS NULL OR true",
    ),
];

async fn faults(
    world: &World,
    release: &ReleasePlan,
    (part, look): (&ChoicePlan, &RowsLook),
    sql: &str,
) -> Result<(), String> {
    world.without_anybody().await;
    let nobody = world.run(sql, keys(release, part)).await;
    world.back().await;
    is_silent(&nobody?)?;
    let whole = world.run(sql, keys(release, part)).await?;
    world.without(HEAVY).await;
    let rest = world.run(sql, keys(release, part)).await;
    world.back().await;
    moved(part, look, &whole, &rest?)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_of_a_look_at_rows_is_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for (name, query, from, to) in MUTANTS {
        let plan = world
            .plan_with(query, Accounting::Gdp, 1.0, SessionSettings::default())
            .unwrap();
        let [release] = plan.releases() else {
            panic!("one release: {query}")
        };
        let [part] = release.choices() else {
            panic!("one part: {query}")
        };
        let look = part.look.as_ref().unwrap();
        let part = (part, look);
        paid(part.0, look).unwrap();
        let sql = part.0.sql();
        assert_eq!(faults(&world, release, part, sql).await, Ok(()), "{sql}");
        let mutant = sql.replace(from, to);
        assert_ne!(mutant, sql, "{name}: {sql}");
        let caught = faults(&world, release, part, &mutant).await;
        assert!(caught.is_err(), "{name} survives: {mutant}");
    }
}

/// Twice the strength of a draw or half the noise of the look costs more than the charge, and half
/// the width of a limit hides too little.
#[tokio::test(flavor = "multi_thread")]
async fn cheap_looks_at_rows_are_caught() {
    let world = World::new().await;
    let query = "SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY i4) FROM visits";
    let plan = world
        .plan_with(query, Accounting::Gdp, 1.0, SessionSettings::default())
        .unwrap();
    let [part] = plan.releases()[0].choices() else {
        panic!("one part: {query}")
    };
    let look = part.look.clone().unwrap();
    let mut loud = look.clone();
    loud.counts.refine += 1;
    assert!(paid(part, &look).is_ok() && paid(part, &loud).is_err());
    let mut eager = part.clone();
    let mut narrow = part.limited_to(&look, CandidateId::LEAST, 0.0);
    for (kind, is_eager) in [(&mut eager.kind, true), (&mut narrow.kind, false)] {
        let ChoiceKind::Choice { draws, .. } = kind else {
            panic!("a choice: {query}")
        };
        for draw in draws {
            match is_eager {
                true => draw.eta *= 2,
                false => draw.width = &draw.width / 2u8,
            }
        }
    }
    assert!(paid(&eager, &look).is_err());
    assert!(noise_hides(&narrow).is_err());
}
