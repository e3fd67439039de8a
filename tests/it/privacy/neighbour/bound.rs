//! One unit's influence, measured exactly: the rows keep within the plan's declared bound.

use std::collections::BTreeSet;

use num_bigint::{BigInt, BigUint};
use pgveil::analyze::KeyRule;
use pgveil::catalog::Type;
use pgveil::ir::MiddleRows;
use pgveil::mechanism::{Loss, Mechanism, Noise, Norm};
use pgveil::rewrite::{Coordinate, CoordinateId, Plan, Price, ReleasePlan, key_text};

use super::choices;
use super::effects;
use super::look;
use super::random::Random;
use super::world::{Groups, Missing, World};

/// Every release of the plan, for the units missing in the copies.
pub async fn holds(
    world: &World,
    missing: Missing,
    plan: &Plan,
    random: &mut Random,
) -> Result<(), String> {
    for release in plan.releases() {
        for part in release.choices() {
            let sql = filled(plan, release, part.sql(), random);
            choices::holds(world, missing, release, part, &sql).await?;
        }
        let (Some(sql), Some(price)) = (release.sql(), release.price()) else {
            continue;
        };
        let sql = &filled(plan, release, sql, random);
        if let Some(look) = release.look() {
            look::holds(world, missing, (release, look), sql).await?;
            continue;
        }
        calibrated(price)?;
        let compared = world.compare(sql, release.vector_keys()).await?;
        is_silent(release, &compared.nobody).map_err(|fault| format!("{fault}\n{sql}"))?;
        for (unit, rest) in missing.iter().zip(&compared.rest) {
            within(price, release, &compared.whole, rest)
                .map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))?;
        }
    }
    Ok(())
}

/// A release's statement with any constants whatever in it: the bound holds for every value of
/// them.
pub fn filled(plan: &Plan, release: &ReleasePlan, sql: &str, random: &mut Random) -> String {
    let mut sql = sql.to_owned();
    let rows: Vec<usize> = plan
        .middles()
        .iter()
        .map(|m| {
            if m.rows == MiddleRows::One {
                1
            } else {
                random.below(5)
            }
        })
        .collect();
    for (at, constant) in release.constants().iter().enumerate().rev() {
        let hostile = hostile(constant.pick(&plan.middle(constant.middle).columns));
        let values: Vec<&str> = (0..rows[constant.middle.0])
            .map(|_| random.pick(hostile))
            .collect();
        sql = sql.replace(
            &format!("${}", at + 1),
            &format!("'{{{}}}'", values.join(",")),
        );
    }
    sql
}

/// Texts of a type, as elements of an array constant.
fn hostile(data_type: &Type) -> &'static [&'static str] {
    match data_type {
        Type::Bool => &["NULL", "t", "f"],
        Type::Int2 => &["NULL", "0", "-32768", "32767", "3"],
        Type::Int4 => &["NULL", "0", "-2147483648", "2147483647", "7"],
        Type::Int8 => &[
            "NULL",
            "0",
            "-9223372036854775808",
            "9223372036854775807",
            "5",
        ],
        // Coefficients of a step.
        Type::Numeric(Some((14, 12))) => &[
            "NULL",
            "0",
            "NaN",
            "99.999999999999",
            "-99.999999999999",
            "-0.000000000001",
            "1.5",
            "-3.25",
        ],
        Type::Numeric(_) => &[
            "NULL",
            "0",
            "NaN",
            "Infinity",
            "-Infinity",
            "1e131000",
            "1e-16000",
            "2.50",
            "33",
        ],
        Type::Float4 | Type::Float8 => &[
            "NULL",
            "0",
            "-0",
            "NaN",
            "Infinity",
            "-Infinity",
            "3e38",
            "1e-40",
            "2.5",
            "20",
        ],
        Type::Text | Type::Varchar(_) => &["NULL", "\"\"", "a", "b", "\"it''s\"", "x%", "٣"],
        Type::Date => &[
            "NULL",
            "infinity",
            "-infinity",
            "\"4713-01-01 BC\"",
            "5874897-12-31",
            "2000-02-29",
        ],
        Type::Timestamp => &[
            "NULL",
            "infinity",
            "-infinity",
            "\"294276-12-31 23:59:59\"",
            "\"2000-02-01 12:34:56.789\"",
        ],
        other => panic!("no constant has type {other}"),
    }
}

/// Rows that belong to no unit add nothing: no bound would hold for them.
pub async fn nobody(world: &World, release: &ReleasePlan, sql: &str) -> Result<(), String> {
    world.without_anybody().await;
    let left = world.run(sql, release.vector_keys()).await;
    world.back().await;
    is_silent(release, &left?).map_err(|fault| format!("{fault}\n{sql}"))
}

fn is_silent(release: &ReleasePlan, left: &Groups) -> Result<(), String> {
    let silent = |(_, values): (_, &Vec<BigInt>)| values.iter().all(|v| *v == BigInt::ZERO);
    // Groups that are listed may be there, counted or not; so may the one group without keys.
    let is_listed = |((data_type, rule), text): (&(Type, KeyRule), &Option<String>)| match rule {
        KeyRule::Domain(values) => values
            .iter()
            .any(|value| value.as_ref().map(|v| key_text(v, data_type)) == *text),
        KeyRule::Threshold => false,
    };
    // Without keys each grouping set shows its one group.
    let alone = release.sets().is_empty() || left.len() <= usize::from(release.vector_keys() == 0);
    let may_be_there =
        |(key, _): (&Vec<Option<String>>, _)| release.keys().iter().zip(key).all(is_listed);
    if alone && left.iter().all(may_be_there) && left.iter().all(silent) {
        Ok(())
    } else {
        Err(format!("rows of nobody count: {left:?}"))
    }
}

pub async fn unit_within(
    world: &World,
    release: &ReleasePlan,
    sql: &str,
    whole: &Groups,
    unit: usize,
) -> Result<(), String> {
    let Some(price) = release.price() else {
        return Ok(());
    };
    world.without(unit).await;
    let rest = world.run(sql, release.vector_keys()).await;
    world.back().await;
    within(price, release, whole, &rest?)
        .map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))
}

/// The norm of the difference against the clip, in integers; with a threshold, the number of groups
/// and the presence too.
pub fn within(
    price: &Price,
    release: &ReleasePlan,
    whole: &Groups,
    rest: &Groups,
) -> Result<(), String> {
    let refined = release.is_refined();
    let finest = price.calibrated.iter().map(|c| c.refine).max().unwrap_or(0);
    let keys: BTreeSet<_> = whole.keys().chain(rest.keys()).collect();
    let (mut norm, mut touched) = (BigUint::ZERO, 0);
    let mut presences = Vec::new();
    let zeros = vec![BigInt::ZERO; price.weights.len()];
    for key in keys {
        let (a, b) = (whole.get(key), rest.get(key));
        if a.is_none() && b.is_some() {
            return Err(format!("group {key:?} appears when a unit leaves"));
        }
        let (a, b) = (a.unwrap_or(&zeros), b.unwrap_or(&zeros));
        touched += u32::from(a != b || rest.get(key).is_none());
        for (j, weight) in price.weights.iter().enumerate() {
            let moved = (&a[j] - &b[j]).magnitude() * weight;
            let moved = if refined {
                moved << (finest - price.calibrated[j].refine)
            } else {
                moved << finest
            };
            norm += match price.norm() {
                Norm::L2 => &moved * &moved,
                Norm::L1 => moved,
            };
        }
        if let Some((presence, _)) = price.threshold {
            let moved = (&a[presence.0] - &b[presence.0]).magnitude().clone();
            if moved > one_unit(price, release, presence) {
                return Err(format!("presence in {key:?} moves by more than one unit"));
            }
            if moved > BigUint::ZERO {
                presences.push(moved);
            }
        }
    }
    let limit = match price.norm() {
        Norm::L2 => (&price.clip * &price.clip) << (2 * finest),
        Norm::L1 => price.clip.clone() << finest,
    };
    // Groups of several sets repeat one row; their effects are bounded, below.
    let is_by_sets = price
        .effects
        .as_ref()
        .is_some_and(|by| by.sources.is_some());
    if norm > limit && !is_by_sets {
        return Err(format!(
            "norm {norm} > {limit} ({:?}, clip {}, {finest} bits)",
            price.mechanism, price.clip
        ));
    }
    if let Some(by) = &price.effects {
        effects::within(price, by, release, (whole, rest))?;
    }
    shared(price, release, &presences)?;
    // One row a unit is in one group of each grouping set.
    let alone = release.sets().len().max(1) as u32;
    let groups = price
        .groups_per_unit
        .unwrap_or(if price.threshold.is_some() {
            alone
        } else {
            u32::MAX
        });
    if touched > groups {
        return Err(format!(
            "{touched} groups touched, at most {groups} declared"
        ));
    }
    Ok(())
}

fn one_unit(price: &Price, release: &ReleasePlan, presence: CoordinateId) -> BigUint {
    BigUint::from(release.coordinates()[presence].magnitude())
        << if release.is_refined() {
            price.calibrated[presence.0].refine
        } else {
            0
        }
}

/// A shared presence: in each of t groups at most a t-th of its square (under Laplace noise a t-th
/// of it), and equal in all groups.
fn shared(price: &Price, release: &ReleasePlan, presences: &[BigUint]) -> Result<(), String> {
    let Some((at, _)) = price
        .threshold
        .filter(|(at, _)| release.coordinates()[*at] == Coordinate::Presence)
    else {
        return Ok(());
    };
    let one = one_unit(price, release, at);
    let whole = |moved: &BigUint| match price.mechanism {
        Mechanism::Gaussian => moved * moved * presences.len() <= &one * &one,
        Mechanism::Laplace => moved * presences.len() <= one,
    };
    let alike = presences.windows(2).all(|two| two[0] == two[1]);
    if alike && presences.iter().all(whole) {
        Ok(())
    } else {
        Err(format!(
            "presences {presences:?} share more than {one}, or not evenly"
        ))
    }
}

/// The scale of every coordinate's noise against the loss, exactly.
pub fn calibrated(price: &Price) -> Result<(), String> {
    if let Some(by) = &price.effects {
        return effects::calibrated(price, by);
    }
    for (weight, calibrated) in price.weights.iter().zip(&price.calibrated) {
        scaled(price, weight, calibrated.noise, calibrated.refine)?;
    }
    Ok(())
}

/// `S F mu >= 2^s C` in squares, or `b F epsilon >= 2^s C`.
pub fn scaled(price: &Price, weight: &BigUint, noise: Noise, refine: u32) -> Result<(), String> {
    scaled_by(&price.loss, &price.clip, weight, noise, refine)
}

pub fn scaled_by(
    loss: &Loss,
    clip: &BigUint,
    weight: &BigUint,
    noise: Noise,
    refine: u32,
) -> Result<(), String> {
    let enough = match noise {
        Noise::Gaussian { sigma } => {
            let scale = weight * sigma;
            &scale * &scale * loss.mu_squared.0 >= (clip * clip) << (2 * refine + 60)
        }
        Noise::Laplace { scale } => {
            let Some(epsilon) = loss.epsilon else {
                return Err("Laplace noise without an epsilon".to_owned());
            };
            weight * scale * epsilon.0 >= clip.clone() << (refine + 60)
        }
    };
    if enough {
        Ok(())
    } else {
        Err(format!(
            "noise {noise:?} is too small for weight {weight}, clip {clip}"
        ))
    }
}
