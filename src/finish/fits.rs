//! The fits of records: each is computed once, for all that is shown of it. One of many values
//! takes milliseconds a group, so they are computed in turns, between which other statements run
//! and a cancel is seen.

use super::uncertainty::{fit, has_few};
use crate::aggregates::{Fit, Model, Output};
use crate::ir::ReleaseId;
use crate::release::Released;
use crate::rewrite::Plan;

/// The work of one turn, as [`Model::work`] counts it: a few milliseconds.
const TURN: u64 = 1 << 22;

/// The fits of a plan's releases.
#[derive(Debug, Default)]
pub struct Fits(Vec<OfModel>);

/// The fits of one model, by group: `None` where the fields are not known.
#[derive(Debug)]
struct OfModel {
    release: ReleaseId,
    model: Model,
    groups: Vec<Option<Fit>>,
}

impl Fits {
    /// The fits of a model, one for each group of its release. Empty where they were not computed.
    pub fn of(&self, release: ReleaseId, model: &Model) -> &[Option<Fit>] {
        let mut known = self.0.iter();
        known
            .find(|known| known.release == release && known.model == *model)
            .map_or(&[], |known| &known.groups)
    }

    /// Whether the fits of a release were computed.
    pub fn has(&self, release: ReleaseId) -> bool {
        self.0.iter().any(|known| known.release == release)
    }

    /// Takes the fits of other releases.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// Fits that are being computed.
#[derive(Debug)]
pub struct Fitting<'p> {
    plan: &'p Plan,
    released: &'p Released,
    /// The models left to do, the last one first.
    open: Vec<(ReleaseId, &'p Model, &'p Output)>,
    made: Fits,
}

impl<'p> Fitting<'p> {
    /// The records of these releases, of which none is computed yet.
    pub fn new(
        plan: &'p Plan,
        releases: impl IntoIterator<Item = ReleaseId>,
        released: &'p Released,
    ) -> Self {
        let of = |release| {
            let models = plan.release(release).models();
            models.map(move |(model, output)| (release, model, output))
        };
        Self {
            plan,
            released,
            open: releases.into_iter().flat_map(of).collect(),
            made: Fits::default(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether what is left takes no more than one turn.
    pub fn is_short(&self) -> bool {
        let left = self.open.iter().map(|(release, model, _)| {
            let groups = self.released.table(*release).map_or(0, |t| t.keys.len());
            self.work(*release, model).saturating_mul(groups as u64)
        });
        left.fold(0, u64::saturating_add) <= TURN
    }

    /// The fits, once they are done.
    pub fn finish(self) -> Fits {
        self.made
    }

    /// Computes one turn's groups, and at least one.
    pub fn advance(&mut self) {
        let mut spent = 0;
        while spent < TURN
            && let Some((release, model, output)) = self.open.last().copied()
        {
            let plan = self.plan.release(release);
            let table = self.released.table(release);
            let groups = table.map_or(0, |table| table.measures.len());
            let made = self.made_of(release, model);
            let Some(table) = table.filter(|_| made.len() < groups) else {
                self.open.pop();
                continue;
            };
            let group = made.len();
            // It is NULL there.
            let is_shown = !has_few(plan, output, table, group);
            made.push(is_shown.then(|| fit(plan, model, table, group)).flatten());
            spent += self.work(release, model);
        }
    }

    fn work(&self, release: ReleaseId, model: &Model) -> u64 {
        model.work(self.plan.release(release).coordinates().len())
    }

    /// The fits of a model so far.
    fn made_of(&mut self, release: ReleaseId, model: &Model) -> &mut Vec<Option<Fit>> {
        let made = &mut self.made.0;
        let is_it = |known: &OfModel| known.release == release && known.model == *model;
        let at = made.iter().position(is_it).unwrap_or_else(|| {
            made.push(OfModel {
                release,
                model: model.clone(),
                groups: Vec::new(),
            });
            made.len() - 1
        });
        &mut made[at].groups
    }
}
