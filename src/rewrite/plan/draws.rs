//! The draws of a release, step by step: the shapes that a mechanism may have. A mechanism of
//! another shape is another [`Draw`]; the compiler then names every place that has to handle it.

use super::ReleasePlan;
use crate::mechanism::Loss;
use crate::rewrite::{ChoicePlan, EmittedStatement, Look, Price};

/// One step of a release. The steps draw in this order, and each may depend on what the earlier
/// ones have drawn.
#[derive(Debug, Clone, Copy)]
pub enum Draw<'p> {
    /// Noisy numbers of units by how much they add: the clips of the vector are chosen from them.
    Look(&'p Look),
    /// The vector: noise of one law for each coordinate of each group, or of each effect that
    /// grouping sets are computed from.
    Vector(&'p Price),
    /// Values that the exponential mechanism draws, or a noisy count of distinct values; for each
    /// group.
    Choice(&'p ChoicePlan),
}

/// Which debit pays for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Debit {
    /// Before the first statement runs.
    First,
    /// After the look, if it saw enough.
    AfterLook,
}

impl ReleasePlan {
    /// The steps of the release in order, each with the debit that pays for it.
    pub fn draws(&self) -> impl Iterator<Item = (Draw<'_>, Debit)> {
        let look = self.look();
        let later = match look {
            Some(_) => Debit::AfterLook,
            None => Debit::First,
        };
        let vector = self.price().map(Draw::Vector);
        let choices = self.choices.iter().map(Draw::Choice);
        let after = vector.into_iter().chain(choices);
        look.map(|look| (Draw::Look(look), Debit::First))
            .into_iter()
            .chain(after.map(move |draw| (draw, later)))
    }

    /// Every statement of the release, in the order of its steps.
    pub fn statements(&self) -> Vec<&EmittedStatement> {
        let of_draw = |(draw, _)| match draw {
            // The vector after a look is drawn from the rows that the look has read.
            Draw::Vector(Price { look: Some(_), .. }) => None,
            Draw::Look(_) | Draw::Vector(_) => self.statement.as_ref(),
            Draw::Choice(choice) => Some(&choice.statement),
        };
        self.draws().filter_map(of_draw).collect()
    }

    /// The price of all steps. `None` past the largest loss that can be counted.
    pub fn loss(&self) -> Option<Loss> {
        self.loss_where(|_| true)
    }

    /// The price that is paid before its statements run.
    pub fn loss_at_first(&self) -> Option<Loss> {
        self.loss_where(|debit| debit == Debit::First)
    }

    /// The price that is paid after its look.
    pub fn loss_after_look(&self) -> Option<Loss> {
        self.loss_where(|debit| debit == Debit::AfterLook)
    }

    fn loss_where(&self, paid: impl Fn(Debit) -> bool) -> Option<Loss> {
        let wanted = self.draws().filter(|(_, debit)| paid(*debit));
        wanted
            .map(|(draw, _)| draw.loss())
            .try_fold(Loss::ZERO, |sum, loss| sum.compose(loss))
    }
}

impl Draw<'_> {
    /// The price of the step.
    pub fn loss(&self) -> Loss {
        match self {
            Self::Look(look) => look.first,
            Self::Vector(price) => price.look.as_ref().map_or(price.loss, |look| look.second),
            Self::Choice(choice) => choice.loss,
        }
    }
}
