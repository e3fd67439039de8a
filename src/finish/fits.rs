//! The fits of records: each is computed once, for all that is shown of it. One of many values
//! takes milliseconds a group, so they are computed in turns, between which other statements run
//! and a cancel is seen. The values of a list are decoded in one turn, which takes up to a second
//! or two: `check` refuses lists that would take longer. A cancel is seen after it.

use super::uncertainty::{cohorts, fit, has_few};
use crate::aggregates::{Decoded, DictionaryOutput, Fit, Model, Output, decode};
use crate::ir::ReleaseId;
use crate::release::Released;
use crate::rewrite::Plan;

/// The work of one turn, as [`Model::work`] counts it: a few milliseconds.
const TURN: u64 = 1 << 22;

/// The fits of a plan's releases.
#[derive(Debug, Default)]
pub struct Fits {
    models: Vec<OfModel>,
    /// The values that are decoded from all groups of a release.
    decoded: Vec<(ReleaseId, Decoded)>,
}

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
        let mut known = self.models.iter();
        known
            .find(|known| known.release == release && known.model == *model)
            .map_or(&[], |known| &known.groups)
    }

    /// Whether the fits of a release were computed.
    pub fn has(&self, release: ReleaseId) -> bool {
        self.models.iter().any(|known| known.release == release)
            || self.values_of(release).is_some()
    }

    /// The values that are decoded from all groups of a release; `None` where they were not
    /// computed.
    pub fn values_of(&self, release: ReleaseId) -> Option<&Decoded> {
        let mut known = self.decoded.iter();
        known.find(|(id, _)| *id == release).map(|(_, of)| of)
    }

    /// Takes the fits of other releases.
    pub fn extend(&mut self, others: Self) {
        self.models.extend(others.models);
        self.decoded.extend(others.decoded);
    }
}

/// Fits that are being computed.
#[derive(Debug)]
pub struct Fitting<'p> {
    plan: &'p Plan,
    released: &'p Released,
    /// The models left to do, the last one first.
    open: Vec<(ReleaseId, &'p Model, &'p Output)>,
    /// The releases whose values are not decoded yet.
    encoded: Vec<(ReleaseId, &'p DictionaryOutput)>,
    made: Fits,
}

impl<'p> Fitting<'p> {
    /// The records of these releases, of which none is computed yet.
    pub fn new(
        plan: &'p Plan,
        releases: impl IntoIterator<Item = ReleaseId>,
        released: &'p Released,
    ) -> Self {
        let releases: Vec<ReleaseId> = releases.into_iter().collect();
        let encoded = |release: &ReleaseId| Some((*release, plan.release(*release).dictionary()?));
        let encoded = releases.iter().filter_map(encoded).collect();
        let of = |release| {
            let models = plan.release(release).models();
            models.map(move |(model, output)| (release, model, output))
        };
        Self {
            plan,
            released,
            open: releases.into_iter().flat_map(of).collect(),
            encoded,
            made: Fits::default(),
        }
    }

    pub fn is_done(&self) -> bool {
        self.open.is_empty() && self.encoded.is_empty()
    }

    /// Whether what is left takes no more than one turn.
    pub fn is_short(&self) -> bool {
        let left = self.open.iter().map(|(release, model, _)| {
            let groups = self.released.table(*release).map_or(0, |t| t.keys.len());
            self.work(*release, model).saturating_mul(groups as u64)
        });
        let encoded = self.encoded.iter();
        let encoded = encoded.map(|(_, of)| of.dictionary().decoding_work());
        left.chain(encoded).fold(0, u64::saturating_add) <= TURN
    }

    /// The fits, once they are done.
    pub fn finish(self) -> Fits {
        self.made
    }

    /// Computes one turn's groups, and at least one; or decodes the values of one release.
    pub fn advance(&mut self) {
        if let Some((release, of)) = self.encoded.pop() {
            let table = self.released.table(release);
            let counts = table.map(|table| cohorts(self.plan.release(release), of, table));
            let decoded = decode(of.dictionary(), &counts.unwrap_or_default());
            self.made.decoded.push((release, decoded));
            return;
        }
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
        let made = &mut self.made.models;
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
