//! What a look decides: the clip of each block, and which blocks are drawn. Post-processing: it
//! reads noisy numbers and public facts alone.

use super::select_clip::{
    Choice, DrawnSums, Histogram, Shortfall, choose, combined_deviation, total,
};
use crate::mechanism::Loss;
use crate::release::cells;
use crate::rewrite::{Bins, Block, BlockId, CandidateId, Look, ReleasePlan, SEEN, drawn_for};

/// Why no clip was chosen: noisy numbers.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum TooFew {
    /// An estimate of the number of units, and its standard deviation. Written by older versions.
    Units(f64, f64),
    /// Like `Units`, with the factor by which the privacy parameter would have to be larger.
    Short {
        units: f64,
        error: f64,
        times: Option<f64>,
        /// How many times as large it would have to be for another look that counts together with
        /// this one.
        #[serde(default)]
        again: Option<f64>,
    },
    /// No group has enough of them.
    Groups,
}

/// A look that led to no answer, as the role that paid for it keeps it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FailedLook {
    pub few: TooFew,
    /// The noisy numbers of each block with a choice, of this look and earlier ones together. Empty
    /// where an older version kept it.
    histograms: Vec<Option<Histogram>>,
    /// The loss of all these looks.
    loss: Loss,
}

impl FailedLook {
    pub(super) fn new(few: TooFew, histograms: Vec<Option<Histogram>>, loss: Loss) -> Self {
        Self {
            few,
            histograms,
            loss,
        }
    }

    /// A look as it is stored. Older versions keep nothing but why it failed.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn read(stored: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(stored).or_else(|_| {
            let few = serde_json::from_slice(stored)?;
            Ok(Self::new(few, Vec::new(), Loss::ZERO))
        })
    }

    /// The loss of its looks, if another look at the plan's question counts together with them.
    /// Where the look decides which groups are shown, none does.
    pub fn loss_to_add(&self, look: &Look) -> Option<Loss> {
        let is_of_units = match self.few {
            TooFew::Units(..) | TooFew::Short { .. } => true,
            TooFew::Groups => false,
        };
        let is_as_planned = self.histograms.len() == look.blocks.len();
        (is_of_units && is_as_planned && look.shown.is_none()).then_some(self.loss)
    }

    /// What these looks and a new one, which was just drawn, show of each block. Where they cannot
    /// be of the same rows, the new one alone counts: rows have come or gone.
    pub(super) fn add_to(&self, drawn: Vec<Option<Histogram>>) -> Vec<Option<Histogram>> {
        let both = || drawn.iter().zip(&self.histograms);
        let mut seen = both().filter_map(|(drawn, before)| drawn.as_ref().zip(before.as_ref()));
        if seen.any(|(drawn, before)| !drawn.is_plausibly_of_the_same_rows(before)) {
            return drawn;
        }
        let combined = both().map(|(drawn, before)| {
            let combined = drawn.as_ref().zip(before.as_ref());
            combined
                .and_then(|(drawn, before)| drawn.combine(before))
                .or_else(|| drawn.clone())
        });
        combined.collect()
    }

    /// Whether a look as the plan has it will probably show enough, together with these. Of one
    /// that is no better than they are, more is demanded: it may be a repeat that nobody wants to
    /// pay for. A look of half their deviation is always worth its price: what they saw may have
    /// been bad luck.
    ///
    /// # Guarantee
    /// A function of the plan and of noisy numbers that were paid for.
    pub fn would_show(&self, plan: &ReleasePlan) -> bool {
        let Some(look) = plan.look() else {
            return false;
        };
        let next = look.deviation();
        let mut seen = self.histograms.iter().flatten();
        if seen.all(|histogram| next <= 0.5 * histogram.deviation) {
            return true;
        }
        let predicted: Vec<Option<Histogram>> = self
            .histograms
            .iter()
            .map(|histogram| {
                let histogram = histogram.as_ref()?;
                let is_better = next < 0.99 * histogram.deviation;
                let margin = if is_better { 1.0 } else { MARGIN };
                Some(with_next(histogram, next, margin))
            })
            .collect();
        ChosenBlocks::of(plan, look, cells(plan).len(), &predicted).is_ok()
    }
}

/// The clips to choose from.
pub fn clips(bins: &Bins) -> Vec<f64> {
    let mut lengths = bins.lengths();
    lengths.truncate(bins.candidates());
    lengths
}

/// The clip of a block.
#[derive(Debug, Clone, Copy)]
pub enum ChosenClip {
    /// The clip was known before the look.
    Known,
    Chosen(Choice),
    /// The look saw too few units to choose one: nothing of the block is drawn. They may be spread
    /// over many bins, and are not few for certain, so what any clip cuts is unknown.
    Unseen(TooFew),
}

impl ChosenClip {
    /// `next` is the deviation that another look at the question would have.
    fn of(block: &Block, histogram: Option<&Histogram>, groups: usize, next: f64) -> Self {
        let Some(histogram) = histogram else {
            return Self::Known;
        };
        let sums = DrawnSums {
            cells: (groups * block.coordinates.len()) as f64,
            noise: 1.0 / block.mu.to_f64(),
        };
        let clips = clips(&block.bins);
        choose(histogram, &clips, sums).map_or_else(
            |Shortfall(times)| {
                let (units, error) = total(histogram);
                let again = times.and_then(|_| times_again((histogram, next), &clips, sums));
                Self::Unseen(TooFew::Short {
                    units,
                    error,
                    times,
                    again,
                })
            },
            Self::Chosen,
        )
    }

    pub fn choice(&self) -> Option<&Choice> {
        match self {
            Self::Chosen(choice) => Some(choice),
            Self::Known | Self::Unseen(_) => None,
        }
    }

    pub fn unseen(&self) -> Option<TooFew> {
        match self {
            Self::Unseen(few) => Some(*few),
            Self::Known | Self::Chosen(_) => None,
        }
    }

    fn is_drawn(&self) -> bool {
        self.unseen().is_none()
    }
}

/// The blocks of a release as the answer draws them, each with its clip.
pub struct ChosenBlocks {
    pub blocks: Vec<Block>,
    pub clips: Vec<ChosenClip>,
}

impl ChosenBlocks {
    /// Chooses from the histograms of the blocks whose clip is not known, for this many groups.
    ///
    /// A block of which the look saw too few units is not drawn. Its mu^2 makes the others more
    /// accurate, as if it had not been asked for.
    ///
    /// # Guarantee
    /// Whatever the histograms are, the blocks that are drawn after the look cost at most
    /// [`Look::second`]: [`Look::shared_out`].
    ///
    /// # Errors
    /// What was seen instead, where no aggregate is left to buy.
    pub fn of(
        plan: &ReleasePlan,
        look: &Look,
        groups: usize,
        histograms: &[Option<Histogram>],
    ) -> Result<Self, TooFew> {
        if groups == 0 {
            return Err(TooFew::Groups);
        }
        let chosen = |blocks: &[Block]| -> Vec<ChosenClip> {
            let blocks = blocks.iter().zip(histograms);
            let clip = |(block, seen): (_, &Option<_>)| {
                ChosenClip::of(block, seen.as_ref(), groups, look.deviation())
            };
            blocks.map(clip).collect()
        };
        let planned = chosen(&look.blocks);
        let Some(few) = planned.iter().find_map(ChosenClip::unseen) else {
            return Ok(Self {
                blocks: look.blocks.clone(),
                clips: planned,
            });
        };
        let is_drawn: Vec<bool> = planned.iter().map(ChosenClip::is_drawn).collect();
        if !is_worth_buying(plan, look, &is_drawn) {
            return Err(few);
        }
        let blocks = look.shared_out(&is_drawn);
        let of_less_noise = chosen(&blocks).into_iter().zip(&planned);
        let clips = of_less_noise.map(|(better, planned)| match (&better, planned) {
            (ChosenClip::Chosen(_), ChosenClip::Chosen(_)) => better,
            _ => *planned,
        });
        Ok(Self {
            clips: clips.collect(),
            blocks,
        })
    }

    /// The numbers of the blocks that are drawn.
    pub fn drawn_blocks(&self) -> Vec<BlockId> {
        let all = (0..).map(BlockId).zip(&self.clips);
        all.filter_map(|(at, clip)| clip.is_drawn().then_some(at))
            .collect()
    }

    /// The candidate of each block.
    pub fn candidates(&self) -> Vec<CandidateId> {
        let chosen = self.clips.iter().map(ChosenClip::choice);
        chosen
            .map(|choice| choice.map_or(CandidateId::LEAST, |choice| choice.candidate))
            .collect()
    }
}

/// How many times as large the next look's privacy parameter has to be, at least as large as now,
/// for it and what was seen before to show enough with a margin of one standard deviation. `next`
/// is its deviation at the parameter of now.
fn times_again(
    (histogram, next): (&Histogram, f64),
    clips: &[f64],
    sums: DrawnSums,
) -> Option<f64> {
    let mut trials = (0..TRIALS).map(|trial| TRIAL_FACTOR.powi(trial));
    trials.find(|times| {
        let sums = DrawnSums {
            noise: sums.noise / times,
            ..sums
        };
        choose(&with_next(histogram, next / times, MARGIN), clips, sums).is_ok()
    })
}

/// The factor between trials, and their number: up to 18 times.
const TRIAL_FACTOR: f64 = 1.05;
const TRIALS: i32 = 60;

/// The noise that a margin of one standard deviation allows for.
const MARGIN: f64 = (SEEN + 1.0) / SEEN;

/// What this look and another one, of this deviation, will probably show together.
fn with_next(histogram: &Histogram, next: f64, margin: f64) -> Histogram {
    Histogram {
        deviation: margin * combined_deviation(histogram.deviation, next),
        ..histogram.clone()
    }
}

/// Whether some aggregate is made of these blocks alone, and not only of the one that is drawn with
/// the look.
fn is_worth_buying(plan: &ReleasePlan, look: &Look, is_drawn: &[bool]) -> bool {
    plan.outputs().iter().any(|(output, _)| {
        let measures = output.measures().into_iter();
        let coordinates =
            measures.flat_map(|at| drawn_for(plan.coordinates(), plan.measure(at)).into_iter());
        let blocks: Vec<Option<BlockId>> = coordinates.map(|at| look.block_of(at)).collect();
        let is_here = |at: &Option<BlockId>| at.is_some_and(|at| is_drawn[at.0]);
        blocks.iter().all(is_here) && blocks.iter().any(|at| *at != look.shown)
    })
}

#[cfg(test)]
mod tests {
    use super::{FailedLook, Loss, TooFew};

    /// Older versions kept nothing but what a look saw. They cannot read what is kept now, which
    /// ends the same question with an internal error there, before anything is charged.
    #[test]
    fn older_looks_are_read() {
        for few in [
            r#"{"Units":[3.0,1.5]}"#,
            r#"{"Short":{"units":3.0,"error":1.5,"times":null}}"#,
            r#""Groups""#,
        ] {
            let read = FailedLook::read(few.as_bytes()).unwrap();
            assert_eq!((read.histograms.len(), read.loss), (0, Loss::ZERO));
        }
        let new = FailedLook::new(TooFew::Groups, vec![None], Loss::ZERO);
        let stored = serde_json::to_vec(&new).unwrap();
        assert_eq!(FailedLook::read(&stored).unwrap(), new);
        assert!(serde_json::from_slice::<TooFew>(&stored).is_err());
    }
}
