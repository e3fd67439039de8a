//! Digests of plans and of the questions that their releases ask.

use std::io::Write;

use sha2::{Digest, Sha256};
use sqlparser::ast;

use super::ReleasePlan;
use crate::analyze::Lineage;
use crate::ir::{MiddleQuery, ReleaseId, TableId};
use crate::policy::{Policy, undated_digest};
use crate::refusal::Refusal;
use crate::rewrite::release_statements::Emission;
use crate::rewrite::{ChoicePlan, Coordinate, Price};

/// Digest of a plan: its question and its noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanDigest([u8; 32]);

/// Digest of the object of one debit: releases of a plan, or the sums after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebitDigest([u8; 32]);

/// Digest of a release's question, apart from the values of its constants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseDigest([u8; 32]);

impl PlanDigest {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Digest of the debit for these releases of the plan.
    pub(super) fn of_part(&self, releases: &[ReleaseId]) -> DebitDigest {
        let mut digest = Sha256::new();
        digest.update(self.0);
        releases
            .iter()
            .for_each(|at| digest.update((at.0 as u64).to_be_bytes()));
        DebitDigest(digest.finalize().into())
    }
}

impl DebitDigest {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Digest of the debit for the second step of a release.
    pub(super) fn after_look(&self, release: ReleaseId) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.0);
        digest.update(b"after the look");
        digest.update((release.0 as u64).to_be_bytes());
        Self(digest.finalize().into())
    }
}

impl ReleaseDigest {
    pub(super) fn new(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Digest of the question and its noise.
pub(in crate::rewrite) fn plan_digest(
    outer: &ast::Query,
    releases: &[ReleasePlan],
    middles: &[MiddleQuery],
    policy: &Policy,
) -> PlanDigest {
    let mut digest = Sha256::new();
    digest.update(policy.version.as_bytes());
    let mut asked: Vec<u8> = Vec::new();
    add(&mut asked, format_args!("{outer}"));
    middles.iter().for_each(|middle| {
        add(
            &mut asked,
            format_args!("{} {:?}", middle.query, middle.rows),
        )
    });
    digest.update(&asked);
    for release in releases {
        digest.update([0]);
        release
            .statements()
            .iter()
            .for_each(|statement| digest.update(statement.sql().as_bytes()));
        release.choices.iter().for_each(|choice| {
            digest.update(of_choice(choice).as_bytes());
        });
        asked.clear();
        add(
            &mut asked,
            format_args!(
                "{:?}{:?}{:?}{:?}{:?}",
                release.constants, release.keys, release.tuples, release.sets, release.price
            ),
        );
        digest.update(&asked);
    }
    PlanDigest(digest.finalize().into())
}

/// A choice as text: the values, the noise and the look.
fn of_choice(choice: &ChoicePlan) -> String {
    let ChoicePlan {
        statement: _,
        question,
        kind,
        loss,
        look,
        lost_rows: _,
    } = choice;
    format!("{question:?}{kind:?}{loss:?}{look:?}")
}

/// Digest of a release's question: the statement of the `plain` coordinates without noise, how the
/// noise is shared out, and the choices. Aliases, the outer query and the statement's other
/// releases do not count. With it, where the release reads a table with periods, the same whatever
/// the version of the data.
pub(in crate::rewrite) fn release_digest(
    emission: &mut Emission<'_>,
    plan: &ReleasePlan,
    plain: Option<&(Vec<Coordinate>, Price)>,
) -> Result<(ReleaseDigest, Option<ReleaseDigest>), Refusal> {
    let release = emission.release;
    let mut asked: Vec<u8> = Vec::new();
    let mut groups_per_unit = None;
    if let Some((coordinates, price)) = plain {
        let statement = emission.unpivot(coordinates, price, &price.no_bounding())?;
        // Never run, so it is not parsed again.
        crate::parse::with_room(|| add(&mut asked, format_args!("{statement}")));
        add(&mut asked, format_args!("{:?}", price.weights));
        groups_per_unit = Some(price.groups_per_unit);
    }
    // Groups by effects have other errors than groups with separate noise, although both cost the
    // same.
    if let Some(by) = plan.price().and_then(|price| price.effects.as_ref()) {
        asked.extend(b"by effects");
        if !by.effects.ranges().is_empty() {
            add(
                &mut asked,
                format_args!(" of ranges {:?}", by.effects.ranges()),
            );
        }
    }
    let Lineage { rows_per_unit, .. } = &release.lineage;
    let bounded = (
        rows_per_unit,
        release.one_row_per_unit,
        &release.unit_groups,
        groups_per_unit,
    );
    add(
        &mut asked,
        format_args!(
            "{:?} {:?} {:?} {:?} {bounded:?} {:?}",
            plan.keys, plan.tuples, plan.sets, plan.measures, plan.choices
        ),
    );
    let digest = |layout: &[u8], version: &str| {
        let mut digest = Sha256::new();
        digest.update(layout);
        digest.update(version.as_bytes());
        digest.update(&asked);
        ReleaseDigest(digest.finalize().into())
    };
    let policy = emission.policy;
    let has_periods = |table: &TableId| policy.tables[table.0].periods.is_some();
    let lasting = release.tables.iter().any(has_periods).then(|| {
        let version = undated_digest(policy);
        digest(b"by periods 1", &version)
    });
    // Answers were once kept without a record of their noise. Those must not answer this question.
    Ok((digest(b"layout 2", &policy.version), lasting))
}

/// Adds a text without making it first.
fn add(to: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // A Vec takes everything.
    let _ = to.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use sqlparser::ast;

    use super::of_choice;
    use crate::catalog::Type;
    use crate::ir::Expr;
    use crate::mechanism::{Mu, gaussian, loss_gaussian};
    use crate::rewrite::emit::sql;
    use crate::rewrite::vector::bins::Bins;
    use crate::rewrite::{
        Candidates, ChoiceKind, ChoicePlan, ChoiceQuery, EmittedStatement, RowsLook, Subject,
        Target,
    };

    /// The digest has the look's noise, and the price.
    #[test]
    fn choices_that_differ_in_their_look_alone_differ() {
        let one = BigUint::from(1u8);
        let row = vec![ast::SelectItem::UnnamedExpr(sql::number_literal("1"))];
        let select = sql::select(row, Vec::new(), None, Vec::new());
        let choice = |mu: Option<Mu>, loss: Mu| ChoicePlan {
            statement: EmittedStatement::print(&select).unwrap(),
            question: ChoiceQuery {
                filter: None,
                subject: Subject::Value {
                    value: Expr::literal(None, Type::Int4),
                    candidates: Candidates::Listed(Vec::new()),
                },
                targets: vec![Target::MostFrequent],
            },
            kind: ChoiceKind::Choice {
                draws: Vec::new(),
                halving: None,
                weight_max: 1,
                row_weight: 1,
            },
            loss: loss_gaussian(loss),
            look: mu.map(|mu| RowsLook {
                bins: Bins::up_to(&BigUint::from(100u8)),
                counts: gaussian(&one, &one, mu).unwrap(),
            }),
            lost_rows: 0.0,
        };
        let (small, large) = (Mu::round_down(0.1), Mu::round_down(0.2));
        let all = [
            choice(None, large),
            choice(Some(small), large),
            choice(Some(large), large),
            choice(Some(large), small),
        ]
        .map(|choice| of_choice(&choice));
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one}");
        }
    }
}
