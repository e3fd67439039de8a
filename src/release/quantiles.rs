//! Several quantiles of one value. The middle one is chosen first, then those below it among the
//! rows below it and those above it among the rows above, and so on. The parts of a level are
//! disjoint, so m quantiles cost floor(log2 m) + 1 draws instead of m.
//!
//! Many rows may share a value, and how many of them are below the wanted rank is not known. So
//! each candidate is cut into pieces, its rows' weight is spread evenly over them, and a piece is
//! chosen: rows of one value may then be on both sides.

use std::collections::BTreeMap;
use std::ops::Range;

use num_bigint::BigUint;
use num_traits::ToPrimitive;

use super::Error;
use crate::mechanism::{CandidateRun, Sampler};
use crate::rewrite::{Halving, ratio_of};

/// One group's rows, by candidate.
pub struct CandidateRows<'v> {
    pub weights: &'v BTreeMap<u64, u128>,
    pub candidates: u64,
    pub halving: &'v Halving,
}

/// A range of pieces, and the nominal shares of all rows, in millionths, that it lies between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    from: u64,
    upto: u64,
    low: u32,
    high: u32,
}

impl CandidateRows<'_> {
    /// A candidate for each of the fractions, which are in millionths, each above the one before.
    ///
    /// # Guarantee
    /// Each level makes one draw of [`Halving::draw`] in every part. With p pieces a candidate, a
    /// unit of weight w, at most `weight_max`, has weight w p in the pieces, and each piece is in
    /// one part. Where a part has weight w_i of it, the penalties of that part's draw move apart by
    /// at most spread w_i, while the draw's width is spread p `weight_max`. The w_i add up to at
    /// most w p, and their squares to at most its square, so the draws of a level together cost
    /// what one costs ([`Exponential::loss`], over several groups
    /// [`Exponential::loss_by_squares`]). The parts of the next level depend on what was chosen,
    /// and on nothing else.
    ///
    /// # Reference
    /// Kaplan, Schnapp, Stemmer 2022 (arXiv 2110.05429), algorithm AQ; ranks are taken within the
    /// part, for the fraction that the nominal shares leave there.
    ///
    /// # Errors
    /// [`Error::Noise`] where nothing can be drawn.
    pub fn choose(&self, fractions: &[u32], sampler: &mut dyn Sampler) -> Result<Vec<u64>, Error> {
        let all = Part {
            from: 0,
            upto: self.candidates * self.halving.pieces,
            low: 0,
            high: 1_000_000,
        };
        let mut chosen = Vec::with_capacity(fractions.len());
        self.descend(all, fractions, sampler, &mut chosen)?;
        Ok(chosen
            .into_iter()
            .map(|piece| piece / self.halving.pieces)
            .collect())
    }

    fn descend(
        &self,
        part: Part,
        fractions: &[u32],
        sampler: &mut dyn Sampler,
        chosen: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let middle = fractions.len() / 2;
        let Some(fraction) = fractions.get(middle) else {
            return Ok(());
        };
        let ratio = ratio_of(fraction - part.low, part.high - part.low);
        let spans = self.spans(part, ratio);
        let runs: Vec<CandidateRun> = spans.iter().map(|span| span.run.clone()).collect();
        let (run, place) = sampler.choose(&self.halving.draw(ratio), &runs)?;
        let piece = spans.get(run).ok_or(Error::Mismatch)?.piece(place);
        self.descend(
            Part {
                upto: piece + 1,
                high: *fraction,
                ..part
            },
            &fractions[..middle],
            sampler,
            chosen,
        )?;
        chosen.push(piece);
        let above = Part {
            from: piece + 1,
            low: *fraction,
            ..part
        };
        if above.from < above.upto {
            return self.descend(above, &fractions[middle + 1..], sampler, chosen);
        }
        // No piece is left above.
        chosen.extend(fractions[middle + 1..].iter().map(|_| piece));
        Ok(())
    }

    /// The part's pieces by penalty: the distance of the rank a/b of its weight from the ranks that
    /// a piece covers, times b.
    fn spans(&self, part: Part, (a, b): (u64, u64)) -> Vec<Span> {
        let pieces = self.halving.pieces;
        let within = |candidate: u64| {
            (candidate * pieces).max(part.from)..((candidate + 1) * pieces).min(part.upto)
        };
        let weights = self
            .weights
            .range(part.from / pieces..=(part.upto - 1) / pieces)
            .filter(|(_, weight)| **weight > 0);
        let weighed: Vec<(Range<u64>, BigUint)> = weights
            .map(|(at, weight)| (within(*at), BigUint::from(*weight)))
            .collect();
        let total: BigUint = weighed
            .iter()
            .map(|(range, weight)| weight * (range.end - range.start))
            .sum();
        let goal = total * a;
        let mut spans = Vec::new();
        let (mut next, mut below) = (part.from, BigUint::ZERO);
        for (range, weight) in weighed {
            if range.start > next {
                spans.push(Span::level(
                    next..range.start,
                    if goal < below {
                        &below - &goal
                    } else {
                        &goal - &below
                    },
                ));
            }
            let step = weight * b;
            ramp(&range, &below, &step, &goal, &mut spans);
            below += step * (range.end - range.start);
            next = range.end;
        }
        if part.upto > next {
            spans.push(Span::level(next..part.upto, below - goal));
        }
        spans
    }
}

/// Pieces in a row, from the best of them on.
#[derive(Debug, Clone)]
struct Span {
    run: CandidateRun,
    first: u64,
    is_backwards: bool,
}

impl Span {
    fn level(range: Range<u64>, penalty: BigUint) -> Self {
        Self {
            run: CandidateRun::level(penalty, range.end - range.start),
            first: range.start,
            is_backwards: false,
        }
    }

    fn piece(&self, place: u64) -> u64 {
        if self.is_backwards {
            self.first - place
        } else {
            self.first + place
        }
    }
}

/// The pieces of one candidate: those before the goal, those that hold it, and those after it. Each
/// piece covers `step` ranks; the first one begins at rank `below`.
fn ramp(
    range: &Range<u64>,
    below: &BigUint,
    step: &BigUint,
    goal: &BigUint,
    spans: &mut Vec<Span>,
) {
    let count = range.end - range.start;
    let within = |pieces: BigUint| pieces.to_u64().map_or(count, |pieces| pieces.min(count));
    let (before, upto) = if goal < below {
        (0, 0)
    } else {
        let reach = goal - below;
        // The last piece whose end is at the goal holds it, and so does the first whose start is.
        (
            within((&reach + step - 1u8) / step).saturating_sub(u64::from(reach <= step * count)),
            within(&reach / step + 1u8),
        )
    };
    if before > 0 {
        blocks(
            before,
            goal - (below + step * before),
            step,
            |offset| (range.start + before - 1 - offset, true),
            spans,
        );
    }
    if upto > before {
        spans.push(Span::level(
            range.start + before..range.start + upto,
            BigUint::ZERO,
        ));
    }
    if count > upto {
        blocks(
            count - upto,
            below + step * upto - goal,
            step,
            |offset| (range.start + upto + offset, false),
            spans,
        );
    }
}

/// Rising penalties in runs of powers of two.
fn blocks(
    count: u64,
    first: BigUint,
    step: &BigUint,
    place: impl Fn(u64) -> (u64, bool),
    spans: &mut Vec<Span>,
) {
    let mut offset = 0;
    for digit in (0..u64::BITS).filter(|digit| count >> digit & 1 == 1) {
        let (piece, is_backwards) = place(offset);
        let run = CandidateRun {
            penalty: &first + step * offset,
            candidates: 1 << digit,
            step: step.clone(),
        };
        spans.push(Span {
            run,
            first: piece,
            is_backwards,
        });
        offset += 1 << digit;
    }
}

#[cfg(test)]
mod tests;
