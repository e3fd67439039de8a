//! One unit's influence on the statements next to the vector, measured exactly; and seeded bugs in
//! them.

use std::collections::HashMap;

use num_bigint::{BigInt, BigUint, Sign};
use pgveil::mechanism::{Accounting, Exponential, Noise};
use pgveil::rewrite::{ChoiceKind, ChoicePlan, Halving, ReleasePlan, Target};

use super::bound::scaled_by;
use super::row_look;
use super::world::{Groups, HEAVY, Missing, World};

/// Declared bounds against the units missing in the copies, and against rows of nobody.
pub async fn holds(
    world: &World,
    missing: Missing,
    release: &ReleasePlan,
    part: &ChoicePlan,
    sql: &str,
) -> Result<(), String> {
    noise_hides(part)?;
    if let Some(look) = &part.look {
        return row_look::holds(world, missing, release, (part, look), sql).await;
    }
    let compared = world.compare(sql, keys(release, part)).await?;
    for (unit, rest) in missing.iter().zip(&compared.rest) {
        within(part, &compared.whole, rest)
            .map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))?;
    }
    is_silent(&compared.nobody).map_err(|fault| format!("{fault}\n{sql}"))
}

/// Key columns of the statement: candidates are keys next to the groups', and so are bins.
pub fn keys(release: &ReleasePlan, part: &ChoicePlan) -> usize {
    release.key_columns()
        + usize::from(matches!(part.kind, ChoiceKind::Choice { .. }))
        + usize::from(part.look.is_some())
}

pub fn noise_hides(part: &ChoicePlan) -> Result<(), String> {
    let faulty = |what: &str| Err(format!("{what}: {part:?}"));
    match &part.kind {
        ChoiceKind::Count {
            calibrated,
            weights,
            clip,
        } => {
            if calibrated.len() > part.question.width() || weights.len() != calibrated.len() {
                return faulty("not a noise for each column");
            }
            calibrated
                .iter()
                .zip(weights)
                .try_for_each(|(c, weight)| scaled_by(&part.loss, clip, weight, c.noise, c.refine))
        }
        ChoiceKind::Choice {
            draws,
            halving,
            weight_max,
            row_weight,
        } => {
            if draws.len() != part.question.targets.len() || *row_weight == 0 {
                return faulty("not a draw for each target");
            }
            // The strength of each draw that one unit is in, in units of 2^-30.
            let mut etas: Vec<u64> = Vec::new();
            // Fractions that are chosen together meet a unit once a level.
            let fractions = part.question.fractions().len();
            if let Some(halving) = halving {
                if halving.weight_max < *weight_max
                    || !halving.pieces.is_power_of_two()
                    || 1 << Halving::levels(fractions) <= fractions
                {
                    return faulty("too few levels or too narrow a width");
                }
                etas.resize(Halving::levels(fractions) as usize, halving.eta);
            }
            for (draw, target) in draws.iter().zip(&part.question.targets) {
                // Twice the larger side of a rank's fraction; twice for an end; once for the most
                // frequent; in units of 1/b.
                let spread = match target {
                    Target::Fraction(_) | Target::Beyond(..) => {
                        let (a, b) = target.ratio();
                        // For the ends, the weight on one side alone.
                        let is_end = matches!(target, Target::Fraction(0 | 1_000_000));
                        if is_end { b } else { b.max(2 * a.max(b - a)) }
                    }
                    Target::End(_) => 2 * 2,
                    Target::MostFrequent => 1,
                };
                if draw.width < BigUint::from(*weight_max) * spread {
                    return faulty("too narrow a width");
                }
                if halving.is_none() || !matches!(target, Target::Fraction(_)) {
                    etas.push(draw.eta);
                }
            }
            let size = |eta: &u64| *eta as f64 / (1u64 << 30) as f64;
            let squared: f64 = etas.iter().map(|eta| size(eta).powi(2)).sum();
            let epsilon: u128 = etas.iter().map(|eta| u128::from(*eta) << 30).sum();
            if part.loss.epsilon.is_some_and(|e| e.0 < epsilon) {
                faulty("too small an epsilon")
            } else if part.loss.mu_squared.to_f64() < squared * std::f64::consts::FRAC_PI_8
                || part.loss.rho.to_f64() < squared / 8.0
            {
                faulty("too small a mu or rho")
            } else {
                Ok(())
            }
        }
    }
}

async fn nobody(
    world: &World,
    release: &ReleasePlan,
    part: &ChoicePlan,
    sql: &str,
) -> Result<(), String> {
    world.without_anybody().await;
    let left = world.run(sql, keys(release, part)).await;
    world.back().await;
    is_silent(&left?).map_err(|fault| format!("{fault}\n{sql}"))
}

pub fn is_silent(left: &Groups) -> Result<(), String> {
    if left.values().flatten().all(|v| *v == BigInt::ZERO) {
        Ok(())
    } else {
        Err(format!("rows of nobody count: {left:?}"))
    }
}

async fn unit_within(
    world: &World,
    release: &ReleasePlan,
    part: &ChoicePlan,
    sql: &str,
    unit: usize,
) -> Result<(), String> {
    let whole = world.run(sql, keys(release, part)).await?;
    world.without(unit).await;
    let rest = world.run(sql, keys(release, part)).await;
    world.back().await;
    within(part, &whole, &rest?).map_err(|fault| format!("without unit {unit}: {fault}\n{sql}"))
}

/// A unit's influence, against the part's declared bound.
pub fn within(part: &ChoicePlan, whole: &Groups, rest: &Groups) -> Result<(), String> {
    if let ChoiceKind::Choice { weight_max, .. } = &part.kind
        && part.loss.epsilon.is_none()
    {
        return weighs_within(*weight_max, whole, rest);
    }
    // Squares under Gaussian noise, else magnitudes.
    let (squared, limit) = match &part.kind {
        ChoiceKind::Count {
            calibrated,
            weights: _,
            clip,
        } if matches!(calibrated[0].noise, Noise::Gaussian { .. }) => (true, clip * clip),
        ChoiceKind::Count {
            calibrated: _,
            weights: _,
            clip,
        } => (false, clip.clone()),
        ChoiceKind::Choice {
            draws: _,
            halving: _,
            weight_max,
            row_weight: _,
        } => (false, BigUint::from(*weight_max)),
    };
    let weights = match &part.kind {
        ChoiceKind::Count {
            calibrated: _,
            weights,
            clip: _,
        } => weights.clone(),
        ChoiceKind::Choice { .. } => vec![BigUint::from(1u8)],
    };
    let mut moved = BigInt::ZERO;
    for key in whole
        .keys()
        .chain(rest.keys().filter(|key| !whole.contains_key(*key)))
    {
        let of = |groups: &Groups, at: usize| {
            groups
                .get(key)
                .map_or(BigInt::ZERO, |values| values[at].clone())
        };
        for (at, weight) in weights.iter().enumerate() {
            let fall = (of(whole, at) - of(rest, at)) * BigInt::from(weight.clone());
            // Sums are of distances from the middle, of either sign.
            if at == 0 && fall.sign() == Sign::Minus {
                return Err(format!("{key:?} grows"));
            }
            moved += if squared {
                &fall * &fall
            } else {
                BigInt::from(fall.magnitude().clone())
            };
        }
    }
    if moved.magnitude() <= &limit {
        Ok(())
    } else {
        Err(format!("{moved} moved, at most {limit} declared"))
    }
}

/// Weights of one unit by group, without a pure epsilon: the squares of the groups' weights add up
/// to at most that of the bound. The last column of a key is the candidate.
fn weighs_within(weight_max: u64, whole: &Groups, rest: &Groups) -> Result<(), String> {
    let mut by_group: HashMap<&[Option<String>], BigInt> = HashMap::new();
    for (key, values) in whole.iter().chain(rest) {
        by_group.entry(&key[..key.len() - 1]).or_default();
        if rest.contains_key(key) && !whole.contains_key(key) && values[0] != BigInt::ZERO {
            return Err(format!("{key:?} grows"));
        }
    }
    for (key, values) in whole {
        let left = rest
            .get(key)
            .map_or(BigInt::ZERO, |values| values[0].clone());
        let fall = &values[0] - left;
        if fall.sign() == Sign::Minus {
            return Err(format!("{key:?} grows"));
        }
        *by_group.entry(&key[..key.len() - 1]).or_default() += fall;
    }
    let moved: BigInt = by_group.values().map(|fall| fall * fall).sum();
    if *moved.magnitude() <= BigUint::from(weight_max).pow(2) {
        Ok(())
    } else {
        Err(format!(
            "{moved} moved, at most the square of {weight_max} declared"
        ))
    }
}

/// The heavy unit with many values in many groups, more than its bound.
pub const ROWS: &str = "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, \
    w.visits, w.items, w.rounds;
     INSERT INTO w.people (id, i4) SELECT g, g FROM generate_series(1, 9) g;
     INSERT INTO w.visits (id, person, i4, j4, tx, kd) SELECT g, 7, g % 50, g, 'k' || g % 40, 'a' \
     FROM generate_series(1, 400) g;
     INSERT INTO w.visits (id, person, i4, j4, kd) SELECT 1000 + g, g, 3, g, 'b' FROM \
     generate_series(1, 6) g;
     INSERT INTO w.visits (id, person, i4, j4, kd) SELECT 2000 + g, NULL, 40, 5000 + g, 'a' FROM \
     generate_series(1, 20) g; COMMIT";

const MUTANTS: &[(&str, &str, &str, &str)] = &[
    (
        "values not capped",
        "SELECT count(DISTINCT j4) FROM visits",
        "(\"r\" <= 5)",
        "(\"r\" <= 5000)",
    ),
    (
        "values capped in each group",
        "SELECT tx, count(DISTINCT j4) FROM visits GROUP BY tx",
        "PARTITION BY \"u\"",
        "PARTITION BY \"u\", \"k0\"",
    ),
    (
        "summed values not capped",
        "SELECT sum(DISTINCT least(greatest(j4, 0), 1000)) FROM visits",
        "(\"r\" <= 5)",
        "(\"r\" <= 5000)",
    ),
    (
        "spread of values not capped",
        "SELECT stddev(DISTINCT i4) FROM visits",
        "(\"r\" <= 5)",
        "(\"r\" <= 5000)",
    ),
    (
        "summed values capped in each group",
        "SELECT tx, sum(DISTINCT least(greatest(j4, 0), 1000)) FROM visits GROUP BY tx",
        "PARTITION BY \"u\"",
        "PARTITION BY \"u\", \"k0\"",
    ),
    (
        "weights not scaled",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) FROM visits",
        "(\"n\" > 5)",
        "(false AND \"n\" > 5)",
    ),
    (
        "weights scaled in each group",
        "SELECT tx, max(i4) FROM visits GROUP BY tx",
        "PARTITION BY \"u\"",
        "PARTITION BY \"u\", \"k0\"",
    ),
    (
        "candidates weighed apart",
        "SELECT tx, mode() WITHIN GROUP (ORDER BY ni) FROM (SELECT person, tx, ni, count(*) FROM \
            visits GROUP BY person, tx, ni) v GROUP BY tx",
        "sum((\"m\" * \"c\"))",
        "sum((\"c\" * \"c\") * 0)",
    ),
    (
        "rows of nobody counted",
        "SELECT count(DISTINCT j4) FROM visits",
        "\"person\" IS NOT NULL",
        "\"person\" IS NULL OR true",
    ),
    (
        "rows of nobody weighed",
        "SELECT mode() WITHIN GROUP (ORDER BY kd) FROM visits",
        "\"person\" IS NOT NULL",
        "\"person\" IS NULL OR true",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_mutant_of_a_choice_is_caught() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    for (name, query, from, to) in MUTANTS {
        let plan = world.plan_under(query, Accounting::Gdp, 1.0).unwrap();
        let [release] = plan.releases() else {
            panic!("one release: {query}")
        };
        let [part] = release.choices() else {
            panic!("one part: {query}")
        };
        let caught = async |sql: &str| {
            nobody(&world, release, part, sql).await.is_err()
                || unit_within(&world, release, part, sql, HEAVY)
                    .await
                    .is_err()
        };
        assert!(
            !caught(part.sql()).await,
            "the original is caught: {}",
            part.sql()
        );
        let mutant = part.sql().replace(from, to);
        assert_ne!(mutant, part.sql(), "{name}");
        assert!(caught(&mutant).await, "{name} survives: {mutant}");
    }
}

/// One unit has more values in one group than the policy lists.
#[tokio::test(flavor = "multi_thread")]
async fn values_in_one_group_are_limited() {
    let world = World::new().await;
    world.client.batch_execute(ROWS).await.unwrap();
    let more = "BEGIN; SET LOCAL session_replication_role = replica;
        INSERT INTO w.visits (id, person, tx, kd) SELECT 9000 + g, 8, 'one', 'unlisted ' || g \
        FROM generate_series(1, 5) g; COMMIT";
    world.client.batch_execute(more).await.unwrap();
    let query = "SELECT tx, count(DISTINCT kd) FROM visits GROUP BY tx";
    let plan = world.plan_under(query, Accounting::Gdp, 1.0).unwrap();
    let release = &plan.releases()[0];
    let [part] = release.choices() else {
        panic!("one part: {query}")
    };
    let whole = unit_within(&world, release, part, part.sql(), 8).await;
    assert_eq!(whole, Ok(()), "{}", part.sql());
    let mutant = part.sql().replace("(\"q\" <= 4)", "(\"q\" <= 5000)");
    assert_ne!(mutant, part.sql());
    assert!(
        unit_within(&world, release, part, &mutant, 8)
            .await
            .is_err()
    );
}

/// The width of a middle's draw is half of what an end needs; half the width, half the charge and a
/// draw too few are caught.
#[tokio::test(flavor = "multi_thread")]
async fn narrow_choices_are_caught() {
    let world = World::new().await;
    let queries = [
        "SELECT min(i4) FROM visits",
        "SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY i4) FROM visits",
        "SELECT mode() WITHIN GROUP (ORDER BY kd) FROM visits",
        "SELECT pgveil.ci_low(percentile_disc(0.9) WITHIN GROUP (ORDER BY i4)), \
            pgveil.ci_high(min(i4)) FROM visits",
    ];
    for query in queries {
        let plan = world.plan_under(query, Accounting::Gdp, 1.0).unwrap();
        let [part] = plan.releases()[0].choices() else {
            panic!("one part: {query}")
        };
        assert!(noise_hides(part).is_ok());
        let ChoiceKind::Choice {
            draws,
            halving,
            weight_max,
            row_weight,
        } = part.kind.clone()
        else {
            panic!("a choice: {query}")
        };
        let narrow = draws
            .iter()
            .map(|draw| Exponential {
                eta: draw.eta,
                width: &draw.width / 2u8,
            })
            .collect();
        let eager = draws
            .iter()
            .map(|draw| Exponential {
                eta: 2 * draw.eta,
                width: draw.width.clone(),
            })
            .collect();
        let kinds = [
            ChoiceKind::Choice {
                draws: narrow,
                halving: halving.clone(),
                weight_max,
                row_weight,
            },
            ChoiceKind::Choice {
                draws: eager,
                halving: halving.clone(),
                weight_max,
                row_weight,
            },
            ChoiceKind::Choice {
                draws: draws.clone(),
                halving: halving.clone(),
                weight_max: 2 * weight_max,
                row_weight,
            },
            ChoiceKind::Choice {
                draws: draws[1..].to_vec(),
                halving: halving.clone(),
                weight_max,
                row_weight,
            },
        ];
        for kind in kinds {
            let mut mutant = part.clone();
            mutant.kind = kind;
            assert!(
                noise_hides(&mutant).is_err(),
                "{query}: {mutant:?} survives"
            );
        }
    }
}

/// Fractions that are chosen together: twice the strength for the same charge, half the weight of a
/// unit, and pieces that are no power of two are caught.
#[tokio::test(flavor = "multi_thread")]
async fn cheap_halvings_are_caught() {
    let world = World::new().await;
    let query = "SELECT percentile_disc(ARRAY[0.1, 0.3, 0.5, 0.7, 0.9]) WITHIN GROUP (ORDER BY i4) \
        FROM visits";
    let plan = world.plan_under(query, Accounting::Gdp, 1.0).unwrap();
    let [part] = plan.releases()[0].choices() else {
        panic!("one part: {query}")
    };
    assert!(noise_hides(part).is_ok());
    let ChoiceKind::Choice {
        draws,
        halving: Some(halving),
        weight_max,
        row_weight,
    } = part.kind.clone()
    else {
        panic!("chosen together: {query}")
    };
    let mutants = [
        Halving {
            eta: 2 * halving.eta,
            ..halving.clone()
        },
        Halving {
            weight_max: halving.weight_max / 2,
            ..halving.clone()
        },
        Halving {
            pieces: halving.pieces + 1,
            ..halving
        },
    ];
    for halving in mutants {
        let mut mutant = part.clone();
        mutant.kind = ChoiceKind::Choice {
            draws: draws.clone(),
            halving: Some(halving),
            weight_max,
            row_weight,
        };
        assert!(noise_hides(&mutant).is_err(), "{mutant:?} survives");
    }
}
