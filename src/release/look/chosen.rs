//! What a look decides: the clip of each block, and which blocks are drawn. Post-processing: it
//! reads noisy numbers and public facts alone.

use super::select_clip::{Choice, DrawnSums, Histogram, Shortfall, choose, total};
use crate::rewrite::{Bins, Block, BlockId, CandidateId, Look, ReleasePlan, drawn_for};

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
    },
    /// No group has enough of them.
    Groups,
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
    fn of(block: &Block, histogram: Option<&Histogram>, groups: usize) -> Self {
        let Some(histogram) = histogram else {
            return Self::Known;
        };
        let sums = DrawnSums {
            cells: (groups * block.coordinates.len()) as f64,
            noise: 1.0 / block.mu.to_f64(),
        };
        choose(histogram, &clips(&block.bins), sums).map_or_else(
            |Shortfall(times)| {
                let (units, error) = total(histogram);
                Self::Unseen(TooFew::Short {
                    units,
                    error,
                    times,
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
            let clip =
                |(block, seen): (_, &Option<_>)| ChosenClip::of(block, seen.as_ref(), groups);
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
