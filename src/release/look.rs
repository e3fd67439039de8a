//! Releases whose clips are chosen from a look. First the noisy numbers of units by length, and
//! which groups are shown; then, under a second charge, the sums at the chosen clips.
//!
//! `docs/look.md` has the theorem and its proof.

mod binned;
mod chosen;
mod select_clip;

use std::collections::HashMap;

use zeroize::{Zeroize, Zeroizing};

pub use chosen::{FailedLook, TooFew};
pub use select_clip::{ClipBias, ClippedValues};

use super::{
    Drawn, Error, NoiseRecord, PrintedKey, ReleasedTable, Releasing, arrange, cells, is_listed,
};
use crate::execute::{Sealed, TextRows};
use crate::ir::ReleaseId;
use crate::ledger::Charge;
use crate::mechanism::{Calibrated, Sampler};
use crate::rewrite::{Bins, Block, BlockId, CoordinateId, Look, ReleasePlan, made_of};
use binned::Binned;
use chosen::ChosenBlocks;
pub(super) use chosen::clips;
use select_clip::Histogram;
pub(super) use select_clip::{DrawnSums, choose};

/// The result of a look. The exact sums are still behind it; only [`Releasing::release_looked`]
/// draws them, once.
pub struct Looked {
    release: ReleaseId,
    binned: Binned,
    /// Rows of the release's other statements.
    others: Zeroizing<Vec<TextRows>>,
    /// Groups that are shown by threshold, with the noisy number that decided.
    shown: Option<HashMap<PrintedKey, i128>>,
    chosen: Result<ChosenBlocks, FailedLook>,
}

impl std::fmt::Debug for Looked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looked(..)")
    }
}

impl Looked {
    /// Whether there is something to buy: an aggregate of which the look saw enough.
    ///
    /// # Errors
    /// What was seen instead.
    pub fn outcome(&self) -> Result<(), &FailedLook> {
        self.chosen.as_ref().map(drop)
    }
}

impl Releasing<'_> {
    /// Opens the rows of a release, and draws the noisy number of units in each bin of each block
    /// with a choice. Where groups are shown by threshold, draws the number that decides, too.
    /// Looks at the same question that led to no answer count together with it.
    ///
    /// # Guarantee
    /// What is drawn costs at most the look's `first` loss, for neighbours that differ in all rows
    /// of one unit: a unit is in one bin of each block. The choice reads these numbers, those of
    /// `earlier`, and how many groups are shown or listed; nothing else.
    ///
    /// # Requires
    /// As [`Releasing::release`]. Each release is looked at once (asserted). Whoever sees the
    /// answer has paid for `earlier`.
    ///
    /// # Reference
    /// `docs/look.md`, lemma 2.
    pub fn look(
        &mut self,
        release: ReleaseId,
        rows: Sealed<Vec<TextRows>>,
        earlier: Option<&FailedLook>,
        sampler: &mut dyn Sampler,
    ) -> Result<Looked, Error> {
        assert!(
            self.looked_at.insert(release),
            "a look is drawn once for a charge"
        );
        let plan = self.part.plan().release(release);
        let look = plan.look().filter(|_| self.part.contains(release));
        let look = look.ok_or(Error::Mismatch)?;
        let mut rows = self.open_rows(rows);
        if rows.len() != plan.statements().len() || rows.is_empty() {
            return Err(Error::Mismatch);
        }
        let binned = Binned::new(plan, rows.remove(0), look.blocks.len());
        let shown = draw_shown_groups(plan, look, &binned, sampler)?;
        let groups = shown
            .as_ref()
            .map_or_else(|| cells(plan).len(), HashMap::len);
        let mut histograms = Vec::with_capacity(look.blocks.len());
        for (at, block) in look.with_numbers() {
            let has_choice = block.bins.has_choice();
            let seen = has_choice.then(|| histogram(&binned, (at, block), look.counts, sampler));
            histograms.push(seen.transpose()?);
        }
        let earlier = earlier.and_then(|of| Some((of, of.loss_to_add(look)?)));
        let (histograms, loss) = match earlier {
            Some((failed, loss)) => (
                failed.add_to(histograms),
                look.first.compose(loss).ok_or(Error::Mismatch)?,
            ),
            None => (histograms, look.first),
        };
        let chosen = ChosenBlocks::of(plan, look, groups, &histograms);
        Ok(Looked {
            release,
            binned,
            others: Zeroizing::new(std::mem::take(&mut *rows)),
            shown,
            chosen: chosen.map_err(|few| FailedLook::new(few, histograms, loss)),
        })
    }

    /// Draws the sums at the chosen clips, and the release's choices. Nothing is drawn of blocks of
    /// which the look saw too few units.
    ///
    /// # Guarantee
    /// Whatever the look saw, what is drawn costs at most the release's loss after the look, which
    /// is charged in full:
    ///
    /// - which blocks are drawn, and at what noise, follows from what the look drew
    ///   ([`ChosenBlocks::of`]);
    /// - one unit moves the sums of a block by at most the clip of its candidate, and each sum of
    ///   each group has its own draw, calibrated for that candidate;
    /// - which groups are shown was drawn before.
    ///
    /// # Requires
    /// `paid` was debited for the second step of this very release (asserted). The outcome is one
    /// to buy.
    ///
    /// # Reference
    /// `docs/look.md`, lemma 1 and the theorem.
    pub fn release_looked(
        &mut self,
        looked: Looked,
        paid: Charge,
        sampler: &mut dyn Sampler,
    ) -> Result<(), Error> {
        let Looked {
            release,
            binned,
            others,
            shown,
            chosen,
        } = looked;
        assert!(
            paid.covers(&self.part.digest_after_look(release).into()),
            "sums are drawn under their own charge only"
        );
        assert!(
            self.released.table(release).is_none(),
            "noise is drawn once for a charge"
        );
        let plan = self.part.plan().release(release);
        let (Some(look), Ok(chosen)) = (plan.look(), chosen) else {
            return Err(Error::Mismatch);
        };
        let at_clips = at_clips(plan, &chosen)?;
        let calibrated = at_clips.price().map_or(&[][..], |price| &price.calibrated);
        let (drawn_blocks, candidates) = (chosen.drawn_blocks(), chosen.candidates());
        let clips = (chosen.blocks.as_slice(), candidates.as_slice());
        let found = binned.sums_at_clips(&drawn_blocks, clips, calibrated);
        let decides = look.shown.map(|block| look.block(block).coordinates[0]);
        let unseen = unseen(plan, &chosen);
        let is_drawn = |at: usize| unseen.iter().all(|(CoordinateId(other), _)| *other != at);
        let mut drawn = Vec::new();
        for (mut key, sums) in arrange(plan, found, calibrated.len()) {
            let before = shown.as_ref().map(|shown| shown.get(&key).copied());
            if before == Some(None) {
                key.zeroize();
                continue;
            }
            let mut noisy = Vec::with_capacity(sums.len());
            for (at, (value, calibrated)) in sums.iter().zip(calibrated).enumerate() {
                noisy.push(match before.flatten() {
                    Some(before) if decides == Some(CoordinateId(at)) => before,
                    // The block was not drawn: there is no sum, and none is shown.
                    Some(_) | None if !is_drawn(at) => 0,
                    Some(_) | None => value.saturating_add(sampler.sample(&calibrated.noise)?),
                });
            }
            drawn.push((key, noisy));
        }
        let record =
            NoiseRecord::of(&at_clips).map(|noise| noise.cut_by(cuts(&chosen)).leaving_out(unseen));
        let table = super::decode(
            &at_clips,
            Drawn::apart(drawn, calibrated),
            &others.iter().collect::<Vec<_>>(),
            sampler,
        )?;
        self.released.tables[release.0] = Some(ReleasedTable {
            drawn: record,
            ..table
        });
        Ok(())
    }
}

/// The groups that are shown, each with its noisy number of units, which decides for keys that no
/// list has. `None` where the look decides nothing about groups.
fn draw_shown_groups(
    plan: &ReleasePlan,
    look: &Look,
    binned: &Binned,
    sampler: &mut dyn Sampler,
) -> Result<Option<HashMap<PrintedKey, i128>>, Error> {
    let Some(block) = look.shown else {
        return Ok(None);
    };
    let (Some(price), [at]) = (plan.price(), look.block(block).coordinates.as_slice()) else {
        return Err(Error::Mismatch);
    };
    let (CoordinateId(at), calibrated) = (*at, &price.calibrated);
    let Some((_, pass_at)) = price.threshold else {
        return Err(Error::Mismatch);
    };
    let found = binned.sums_that_show_groups(block, &look.blocks, calibrated);
    let mut shown = HashMap::new();
    for (mut key, sums) in arrange(plan, found, calibrated.len()) {
        let noisy = sums[at].saturating_add(sampler.sample(&calibrated[at].noise)?);
        if is_listed(plan, &key) || noisy >= pass_at {
            shown.insert(key, noisy);
        } else {
            key.zeroize();
        }
    }
    Ok(Some(shown))
}

/// The noisy numbers of units of a block, two candidates to a bin.
fn histogram(
    binned: &Binned,
    (at, block): (BlockId, &Block),
    counts: Calibrated,
    sampler: &mut dyn Sampler,
) -> Result<Histogram, Error> {
    let units = binned.units(at, block.bins.numbers());
    noisy(&units, &block.bins, counts, sampler)
}

/// Adds noise to the numbers of units, two candidates to a bin. The first number is of those
/// without length: they belong to no bin. The last is of those past all edges.
///
/// # Guarantee
/// Where one unit adds one to one of the numbers, and nothing to the others, what is returned costs
/// what one number with this noise costs.
pub(super) fn noisy(
    units: &[i128],
    bins: &Bins,
    counts: Calibrated,
    sampler: &mut dyn Sampler,
) -> Result<Histogram, Error> {
    let (lengths, candidates) = (bins.lengths(), bins.candidates());
    let (within, beyond) = units[1..].split_at(candidates);
    let unit = 2f64.powi(counts.refine as i32);
    let mut noisy = |units: &[i128]| -> Result<f64, Error> {
        let exact = units.iter().sum::<i128>() << counts.refine;
        Ok(exact.saturating_add(sampler.sample(&counts.noise)?) as f64 / unit)
    };
    let counted = within.chunks(2).map(&mut noisy).collect::<Result<_, _>>()?;
    let edges = lengths[..candidates].chunks(2);
    Ok(Histogram {
        counts: counted,
        edges: edges.filter_map(|pair| pair.last().copied()).collect(),
        deviation: counts.noise.standard_deviation() / unit,
        beyond: noisy(beyond)?,
    })
}

/// The plan with the noise of these blocks at their candidates.
fn at_clips(plan: &ReleasePlan, chosen: &ChosenBlocks) -> Result<ReleasePlan, Error> {
    let mut noise = plan
        .price()
        .map(|p| p.calibrated.clone())
        .unwrap_or_default();
    for (block, candidate) in chosen.blocks.iter().zip(chosen.candidates()) {
        let calibrated = block.calibrate(candidate).map_err(|_| Error::Mismatch)?;
        for (at, calibrated) in block.coordinates.iter().zip(calibrated) {
            noise[at.0] = calibrated;
        }
    }
    Ok(plan.with_noise(noise))
}

/// The amount that the clips cut from each coordinate, in its own steps.
fn cuts(chosen: &ChosenBlocks) -> Vec<(CoordinateId, ClipBias)> {
    let blocks = chosen.blocks.iter().zip(&chosen.clips);
    let cut = blocks.flat_map(|(block, clip)| {
        let weights = block.coordinates.iter().zip(&block.weights);
        weights.filter_map(move |(at, weight)| {
            let weight = num_traits::ToPrimitive::to_f64(weight)?;
            Some((*at, clip.choice()?.cut.in_steps(weight)))
        })
    });
    cut.collect()
}

/// The coordinates of which nothing is drawn, and what the look saw of their units.
fn unseen(plan: &ReleasePlan, chosen: &ChosenBlocks) -> Vec<(CoordinateId, TooFew)> {
    let blocks = chosen.blocks.iter().zip(&chosen.clips);
    let unseen: Vec<(CoordinateId, TooFew)> = blocks
        .filter_map(|(block, clip)| Some((block, clip.unseen()?)))
        .flat_map(|(block, few)| block.coordinates.iter().map(move |at| (*at, few)))
        .collect();
    let of = |at: usize| {
        let (terms, _) = made_of(plan.coordinates(), CoordinateId(at));
        let is_term = |(other, _): &&(CoordinateId, _)| terms.iter().any(|(at, _)| at == other);
        let (_, few) = unseen.iter().find(is_term)?;
        Some((CoordinateId(at), *few))
    };
    (0..plan.coordinates().len()).filter_map(of).collect()
}
