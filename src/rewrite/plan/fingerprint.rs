//! Digests of plans and of the questions that their releases ask.

use sha2::{Digest, Sha256};
use sqlparser::ast;

use super::ReleasePlan;
use crate::analyze::Lineage;
use crate::ir::MiddleQuery;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rewrite::emission::Emission;
use crate::rewrite::{Coordinate, Price};

/// Digest of what is asked and at what noise.
pub(in crate::rewrite) fn fingerprint(
    outer: &ast::Query,
    releases: &[ReleasePlan],
    middles: &[MiddleQuery],
    policy: &Policy,
) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(policy.version.as_bytes());
    digest.update(outer.to_string().as_bytes());
    middles
        .iter()
        .for_each(|middle| digest.update(format!("{} {:?}", middle.query, middle.rows).as_bytes()));
    for release in releases {
        digest.update([0]);
        release
            .statements()
            .iter()
            .for_each(|statement| digest.update(statement.sql().as_bytes()));
        release.choices.iter().for_each(|choice| {
            digest.update(format!("{:?}{:?}", choice.question, choice.kind).as_bytes())
        });
        digest.update(
            format!(
                "{:?}{:?}{:?}{:?}{:?}",
                release.constants, release.keys, release.tuples, release.sets, release.price
            )
            .as_bytes(),
        );
    }
    digest.finalize().into()
}

/// Digest of what a release asks: the statement of the `plain` coordinates without noise, how the
/// noise is shared out, and the choices. Aliases, the outer query and the statement's other
/// releases do not count.
pub(in crate::rewrite) fn question_of(
    emission: &mut Emission<'_>,
    plan: &ReleasePlan,
    plain: Option<&(Vec<Coordinate>, Price)>,
) -> Result<[u8; 32], Refusal> {
    let release = emission.release;
    let mut digest = Sha256::new();
    // Answers were once kept without a record of their noise. Those must not answer this question.
    digest.update(b"layout 2");
    digest.update(emission.policy.version.as_bytes());
    let mut groups_per_unit = None;
    if let Some((coordinates, price)) = plain {
        let statement = emission.vector(coordinates, price, &price.no_bounding())?;
        // Never run, so it is not parsed again.
        digest.update(crate::parse::with_room(|| statement.to_string()).as_bytes());
        digest.update(format!("{:?}", price.weights).as_bytes());
        groups_per_unit = Some(price.groups_per_unit);
    }
    let Lineage { rows_per_unit, .. } = &release.lineage;
    let bounded = (
        rows_per_unit,
        release.one_row_per_unit,
        &release.unit_groups,
        groups_per_unit,
    );
    digest.update(
        format!(
            "{:?} {:?} {:?} {:?} {bounded:?} {:?}",
            plan.keys, plan.tuples, plan.sets, plan.measures, plan.choices
        )
        .as_bytes(),
    );
    Ok(digest.finalize().into())
}
