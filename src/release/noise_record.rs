//! The noise of a released table, kept with it, so that replays and roll-ups report the error of
//! the values that they show.

mod by_filter;
mod covariance;
mod set_noise;
mod weighted;

use serde::{Deserialize, Serialize};

use by_filter::ByFilter;
use set_noise::SetNoise;

use super::totals_shared::TotalsShared;
use super::{ClipBias, TooFew};
use crate::analyze::KeyRule;
use crate::ir::{KeyId, SetId};
use crate::mechanism::{Effects, Mechanism, Noise, SummedValues, quantile_95};
use crate::rewrite::{CoordinateId, Measure, ReleasePlan, Total, key_text, made_of, measure_terms};
pub use weighted::NoiseParts;

/// The facts that are known about the amount that was cut from a coordinate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KnownCut<'r> {
    /// Nothing was cut, which is proved.
    Nothing,
    /// The amount that a look shows.
    Estimated(&'r ClipBias),
}

/// The noise drawn for each group of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseRecord {
    /// The laws of the draws, each with the bits by which its grid was refined.
    draws: Vec<(Noise, u32)>,
    /// For each coordinate of the plain layout: the multiple of each draw in it, in steps of the
    /// draw's base grid, and a common divisor. Whole numbers are read back exactly.
    terms: Vec<(Vec<(CoordinateId, i64)>, u64)>,
    /// For each group, the number of noisy groups that it is the sum of. Empty where every group is
    /// one.
    #[serde(skip)]
    summed: Vec<usize>,
    /// The amounts that clips chosen from a look cut, by coordinate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cuts: Vec<(CoordinateId, ClipBias)>,
    /// The coordinates that were not drawn because a look saw too few units, and what it saw. Their
    /// values mean nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unseen: Vec<(CoordinateId, TooFew)>,
    /// Whether a proof says that no rows of a unit are cut. Older records do not say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_all_rows: bool,
    /// The noise of groups that are computed from effects, if they are. The draws above are then
    /// the noise of a group in the set where it is largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by_effects: Option<SetNoise>,
    /// The answers that groups come from, if there are several, as for periods; and the answer of
    /// each group. The draws above are then those of the first. Only the answers say how much clips
    /// cut.
    #[serde(skip)]
    parts: Vec<JoinedAnswer>,
    #[serde(skip)]
    part_of: Vec<usize>,
    /// The share of its deviation that is left, where other answers correct the values.
    #[serde(skip)]
    left: Option<f64>,
    /// The noise that groups share, where periods are computed from rows of running totals.
    #[serde(skip)]
    totals: Option<TotalsShared>,
    /// What draws add to each measure of the only group, where measures are weighted sums.
    #[serde(skip)]
    weighted: Vec<(Measure, Vec<f64>)>,
    /// The noise of coordinates that add up the rows of filters alone.
    #[serde(skip)]
    by_filter: Option<ByFilter>,
}

/// An answer of which a table has some groups.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JoinedAnswer {
    pub noise: NoiseRecord,
    /// How many groups it was drawn with, which share what a clip cuts.
    pub groups: usize,
}

impl NoiseRecord {
    /// One draw for each released coordinate; `None` without a vector.
    pub fn of(release: &ReleasePlan) -> Option<Self> {
        let draws: Vec<(Noise, u32)> = release
            .price()?
            .calibrated
            .iter()
            .map(|c| (c.noise, c.refine))
            .collect();
        let terms = (0..draws.len())
            .map(|at| made_of(release.coordinates(), CoordinateId(at)))
            .collect();
        let by_effects = release.price()?.effects.as_ref().map(|by| {
            let sets = release.sets().to_vec();
            SetNoise::new(by.effects.clone(), sets, |key| printed_values(release, key))
        });
        Some(Self {
            terms,
            draws,
            summed: Vec::new(),
            cuts: Vec::new(),
            unseen: Vec::new(),
            has_all_rows: release.facts().has_all_rows,
            by_effects,
            parts: Vec::new(),
            part_of: Vec::new(),
            left: None,
            totals: None,
            weighted: Vec::new(),
            by_filter: None,
        })
    }

    /// Whether the record can be one of several in a table ([`Self::join`]): its facts about one
    /// group do not depend on other groups.
    pub fn may_be_joined(&self) -> bool {
        self.parts.is_empty() && self.is_as_drawn() && !self.is_by_effects()
    }

    /// The record with other noise of its draws.
    pub(super) fn with_draws(&self, draws: Vec<(Noise, u32)>) -> Self {
        Self {
            draws,
            ..self.clone()
        }
    }

    /// The noise of groups that come from several answers to one question: `part_of` has the place
    /// of the answer of each group. `None` without an answer.
    ///
    /// # Requires
    /// Each may be joined ([`Self::may_be_joined`]).
    pub(super) fn join(parts: Vec<JoinedAnswer>, part_of: Vec<usize>) -> Option<Self> {
        let first = parts.first()?.noise.clone();
        Some(Self {
            has_all_rows: parts.iter().all(|part| part.noise.has_all_rows),
            cuts: Vec::new(),
            unseen: Vec::new(),
            part_of,
            parts,
            ..first
        })
    }

    /// The answers that the groups come from: itself, but of a joined one.
    fn answers(&self) -> impl Iterator<Item = &Self> {
        let own = self.parts.is_empty().then_some(self);
        own.into_iter()
            .chain(self.parts.iter().map(|part| &part.noise))
    }

    /// The answer that a group comes from.
    fn answer_of(&self, group: usize) -> Option<&JoinedAnswer> {
        self.parts.get(*self.part_of.get(group)?)
    }

    /// The record of the answer that a group comes from.
    fn of_group(&self, group: usize) -> &Self {
        self.answer_of(group).map_or(self, |part| &part.noise)
    }

    /// How many groups the answer of this group was drawn with; `None` where there is one answer.
    pub fn groups_drawn_with(&self, group: usize) -> Option<usize> {
        Some(self.answer_of(group)?.groups)
    }

    /// The record with the amounts that the chosen clips cut.
    pub(super) fn cut_by(self, cuts: Vec<(CoordinateId, ClipBias)>) -> Self {
        Self { cuts, ..self }
    }

    /// The record without values of these coordinates.
    pub(super) fn leaving_out(self, unseen: Vec<(CoordinateId, TooFew)>) -> Self {
        Self { unseen, ..self }
    }

    /// What a look saw of a measure's units, where they were too few to draw it in this group.
    pub fn unseen(&self, measure: &Measure, group: usize) -> Option<TooFew> {
        self.of_group(group).unseen_here(measure)
    }

    /// In how many groups a measure was not drawn, and what the look saw of its units, for each
    /// answer. Empty where every group has the value.
    pub fn groups_unseen(&self, measure: &Measure, groups: usize) -> Vec<(usize, TooFew)> {
        let of_answer = |at: usize, answer: &Self| {
            let own = match self.parts.is_empty() {
                true => groups,
                false => self.part_of.iter().filter(|part| **part == at).count(),
            };
            Some((own, answer.unseen_here(measure)?))
        };
        let answers = self.answers().enumerate();
        answers
            .filter_map(|(at, answer)| of_answer(at, answer))
            .collect()
    }

    fn unseen_here(&self, measure: &Measure) -> Option<TooFew> {
        let terms = measure_terms(measure);
        let is_term = |(at, _): &&(CoordinateId, _)| terms.iter().any(|(term, _)| term == at);
        Some(self.unseen.iter().find(is_term)?.1)
    }

    /// Whether some value was not drawn.
    pub fn leaves_out(&self) -> bool {
        self.answers().any(|answer| !answer.unseen.is_empty())
    }

    /// The amount that a clip chosen from a look cut from a coordinate, of the answer that a group
    /// comes from.
    pub fn cut(&self, coordinate: CoordinateId, group: usize) -> Option<&ClipBias> {
        self.of_group(group).cut_here(coordinate)
    }

    /// The amounts that clips chosen from a look cut from a coordinate, of each answer.
    pub fn cuts(&self, coordinate: CoordinateId) -> impl Iterator<Item = &ClipBias> {
        self.answers()
            .filter_map(move |answer| answer.cut_here(coordinate))
    }

    /// How many answers its groups come from.
    pub fn answers_joined(&self) -> usize {
        self.answers().count()
    }

    fn cut_here(&self, coordinate: CoordinateId) -> Option<&ClipBias> {
        let mut cuts = self.cuts.iter();
        cuts.find_map(|(at, cut)| (*at == coordinate).then_some(cut))
    }

    /// What is known of the amount that was cut in a group; `None` where neither a proof nor a look
    /// says anything.
    pub fn known_cut(&self, coordinate: CoordinateId, group: usize) -> Option<KnownCut<'_>> {
        let of_group = self.of_group(group);
        match of_group.cut_here(coordinate) {
            Some(cut) => Some(KnownCut::Estimated(cut)),
            None => of_group.has_all_rows.then_some(KnownCut::Nothing),
        }
    }

    /// Whether the groups are computed from effects that they share.
    pub fn is_by_effects(&self) -> bool {
        self.by_effects.is_some()
    }

    /// The effects that the groups are computed from, if they are; `None` too where the groups are
    /// not those that were drawn.
    pub fn effects(&self) -> Option<&Effects> {
        Some(&self.effects_of_drawn()?.effects)
    }

    /// What each draw adds to an effect of weight 1 of a measure: signed standard deviations in the
    /// measure's unit. With [`Effects::variances`] they are the noise of any sum of groups. `None`
    /// as of [`Self::effects`].
    pub fn noise_of_effect(&self, measure: &Measure) -> Option<Vec<f64>> {
        let largest = self.effects_of_drawn()?.of_sets().largest;
        Some(self.noise_times(largest.sqrt().recip(), measure))
    }

    fn effects_of_drawn(&self) -> Option<&SetNoise> {
        let by = self.by_effects.as_ref();
        by.filter(|_| self.has_one_draw_each())
    }

    /// Whether some clip was chosen from a look.
    pub fn is_cut(&self) -> bool {
        self.answers().any(|answer| !answer.cuts.is_empty())
    }

    /// The noise of coordinates that are sums of these, over groups that are sums of these groups.
    /// `None` where one coordinate would have to state what is cut from several.
    pub(super) fn added_up(
        &self,
        totals: &[&Total],
        (summed, factors): (Vec<usize>, Vec<f64>),
    ) -> Option<Self> {
        let (mut cuts, mut unseen) = (Vec::new(), Vec::new());
        for (at, total) in totals.iter().enumerate() {
            let is_term =
                |(other, _): &&(CoordinateId, _)| total.terms.iter().any(|(at, _)| at == other);
            if let Some((_, few)) = self.unseen.iter().find(is_term) {
                unseen.push((CoordinateId(at), *few));
                continue;
            }
            match total.terms.as_slice() {
                [(coordinate, times)] if *times > 0 => {
                    let scale = total.divisor as f64 / *times as f64;
                    cuts.extend(
                        self.cut_here(*coordinate)
                            .map(|cut| (CoordinateId(at), cut.in_steps(scale))),
                    );
                }
                terms if terms.iter().any(|(at, _)| self.cut_here(*at).is_some()) => return None,
                _ => {}
            }
        }
        Some(Self {
            draws: self.draws.clone(),
            terms: totals
                .iter()
                .map(|total| (total.terms.clone(), total.divisor))
                .collect(),
            summed,
            cuts,
            unseen,
            has_all_rows: self.has_all_rows,
            by_effects: self.by_effects.clone().map(|by| by.with_factors(factors)),
            parts: Vec::new(),
            part_of: Vec::new(),
            left: None,
            totals: None,
            weighted: Vec::new(),
            by_filter: None,
        })
    }

    /// The mechanism with the heaviest tail among the draws.
    pub fn mechanism(&self) -> Mechanism {
        let drawn = self.answers().flat_map(|answer| &answer.draws);
        let drawn = drawn.map(|(noise, _)| noise.mechanism());
        let heavier = |a, b| match quantile_95(a) > quantile_95(b) {
            true => a,
            false => b,
        };
        drawn.fold(Mechanism::Gaussian, heavier)
    }

    /// What each draw adds to a measure of a group: signed standard deviations in the measure's
    /// unit. Measures of one group share draws.
    pub fn noise(&self, measure: &Measure, group: usize) -> Vec<f64> {
        if let Some(noise) = self.noise_of_weighted(measure) {
            return noise;
        }
        match (self.answer_of(group), &self.by_filter) {
            (Some(part), _) => part.noise.noise_times(1.0, measure),
            (None, Some(by)) => self.noise_by_filter(by, measure, group),
            (None, None) => self.noise_times(self.factor(group), measure),
        }
    }

    /// The groups whose period is not later than that of a group; `None` where the key is not that
    /// of the period, or where noise was not drawn for totals.
    pub fn groups_up_to(&self, group: usize, key: KeyId) -> Option<impl Iterator<Item = usize>> {
        self.totals.as_ref()?.groups_up_to(group, key)
    }

    /// As [`Self::noise`], of the sum of a measure over groups that share noise.
    pub fn noise_of_sum(&self, measure: &Measure, groups: &[usize]) -> Option<Vec<f64>> {
        let (draws, factor) = self.totals.as_ref()?.noise_of_sum(groups)?;
        let first = &self.parts.first()?.noise;
        Some(first.with_draws(draws).noise_times(factor, measure))
    }

    /// The record with the noise that its groups share.
    pub(super) fn sharing(self, totals: TotalsShared) -> Self {
        Self {
            totals: Some(totals),
            ..self
        }
    }

    /// The noise of a group as a multiple of the noise of its draws.
    fn factor(&self, group: usize) -> f64 {
        match &self.by_effects {
            Some(by) => by.factor(group),
            None => (self.summed_in(group) as f64).sqrt(),
        }
    }

    /// The largest factor of a group.
    fn largest_factor(&self) -> f64 {
        match &self.by_effects {
            Some(by) if by.factors.is_empty() => 1.0,
            Some(by) => by.factors.iter().copied().fold(0.0, f64::max),
            None => (self.groups_summed_max() as f64).sqrt(),
        }
    }

    fn noise_times(&self, root: f64, measure: &Measure) -> Vec<f64> {
        let root = root * self.left.unwrap_or(1.0);
        let mut noise = vec![0.0; self.draws.len()];
        for (coordinate, factor) in measure_terms(measure) {
            for (CoordinateId(draw), times) in self.draws_in(coordinate) {
                noise[draw] += root * factor * times;
            }
        }
        noise
    }

    /// The draws in a coordinate, each with the deviation that it adds.
    fn draws_in(
        &self,
        CoordinateId(at): CoordinateId,
    ) -> impl Iterator<Item = (CoordinateId, f64)> {
        let all = self.terms.get(at).into_iter();
        all.flat_map(|(terms, divisor)| {
            terms.iter().filter_map(|(draw, times)| {
                let (law, refined) = self.draws.get(draw.0)?;
                let deviation = law.standard_deviation() / 2f64.powi(*refined as i32);
                Some((*draw, *times as f64 / *divisor as f64 * deviation))
            })
        })
    }

    /// The standard deviation of a measure's noise, in the measure's unit, in the group where it is
    /// largest.
    pub fn deviation(&self, measure: &Measure) -> f64 {
        if !self.parts.is_empty() {
            let parts = self.parts.iter().map(|part| part.noise.deviation(measure));
            return parts.fold(0.0, f64::max);
        }
        let length = |noise: Vec<f64>| noise.iter().map(|n| n * n).sum::<f64>().sqrt();
        if let Some(noise) = self.noise_of_weighted(measure) {
            return length(noise);
        }
        match &self.by_filter {
            Some(by) => (0..by.groups())
                .map(|group| length(self.noise_by_filter(by, measure, group)))
                .fold(0.0, f64::max),
            None => length(self.noise_times(self.largest_factor(), measure)),
        }
    }

    /// The standard deviation of a measure's noise in a sum of groups of one set, as
    /// [`crate::mechanism::Effects::variance`] has it; without effects, in one group.
    ///
    /// # Requires
    /// The record is of groups as they were drawn.
    pub fn deviation_in(&self, measure: &Measure, set: SetId, summed: &SummedValues) -> f64 {
        let found = self.by_effects.as_ref();
        let found = found.and_then(|by| Some((by, set.find(&by.sets)?)));
        let factor = found.map_or(1.0, |(by, set)| by.factor_of(set, |_| summed.clone()));
        factor * self.deviation_of_one(measure)
    }

    /// How many noisy groups a group is the sum of.
    pub fn summed_in(&self, group: usize) -> usize {
        self.summed.get(group).copied().unwrap_or(1)
    }

    /// Whether its groups are those that were drawn: none is the sum of others, and none of a finer
    /// answer's is left out.
    pub fn is_as_drawn(&self) -> bool {
        self.summed.is_empty()
    }

    /// The most groups that a group is the sum of.
    pub fn groups_summed_max(&self) -> usize {
        self.summed.iter().copied().max().unwrap_or(1)
    }
}

/// The values of a listed key, as they are printed.
fn printed_values(release: &ReleasePlan, KeyId(at): KeyId) -> Vec<Option<String>> {
    match release.keys().get(at) {
        Some((data_type, KeyRule::Domain(values))) => {
            let text = |value: &Option<_>| value.as_ref().map(|v| key_text(v, data_type));
            values.iter().map(text).collect()
        }
        Some((_, KeyRule::Threshold)) | None => Vec::new(),
    }
}
