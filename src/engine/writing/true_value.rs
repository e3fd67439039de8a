//! A true value, as its column reads it. Its text is overwritten when it is dropped.

use std::fmt::Write as _;

use zeroize::Zeroize;

use super::plan::{not_listed, not_read};
use crate::ir::sql::write_scalar;
use crate::mechanism::randomise::part_of;
use crate::mechanism::{RandomError, Randomness};
use crate::parse::{TrueBytes, TrueText};
use crate::policy::{Local, Scalar, WrittenColumn, read_value};
use crate::refusal::{Refusal, reason};

/// A true value. Nothing prints it.
pub(super) enum TrueValue {
    /// Its place in the list, and how many values the list has.
    Place(usize, usize),
    /// Where a number is between its bounds, and the number.
    Part(f64, f64),
}

impl TrueValue {
    pub(super) fn read(
        column: &WrittenColumn,
        local: &Local,
        text: &TrueText,
    ) -> Result<Self, Refusal> {
        if let Some(bounds) = local.bounds {
            let number = text.expose().trim().parse::<f64>().ok();
            let number = number
                .filter(|n| n.is_finite())
                .ok_or_else(|| not_read(column))?;
            let part = part_of(number, bounds).ok_or_else(|| {
                let message = format!("value is outside the bounds of column \"{}\"", column.name);
                Refusal::new(reason::WRITTEN_NUMBER, message)
            })?;
            // Both zeros are one number.
            return Ok(Self::Part(part, number + 0.0));
        }
        let mut read = read_value(column.true_type(), text.expose());
        let place = read.as_ref().and_then(|read| local.places.find(read));
        if let Some(Scalar::Text(text) | Scalar::Decimal(text)) = &mut read {
            text.zeroize();
        }
        let place = place.ok_or_else(|| not_listed(column))?;
        Ok(Self::Place(place, local.values.len()))
    }

    /// Whether the value is the second of the list: a set bit.
    pub(super) fn is_second(&self) -> bool {
        matches!(self, Self::Place(1, _))
    }

    /// The value in one form for all spellings of it.
    pub(super) fn canonical(&self, local: &Local) -> TrueBytes {
        let mut text = TrueBytes::with_capacity(16);
        // It takes all that is written.
        let _ = match self {
            Self::Place(place, _) => write_scalar(&local.values[*place], &mut text),
            Self::Part(_, number) => write!(text, "{:016x}", number.to_bits()),
        };
        text
    }

    pub(super) fn report<'l>(
        &self,
        local: &'l Local,
        random: &mut dyn Randomness,
    ) -> Result<&'l Scalar, RandomError> {
        let place = match self {
            Self::Place(place, values) => local.odds.place((*place, *values), random)?,
            Self::Part(part, _) => usize::from(local.odds.number(*part, random)?),
        };
        Ok(&local.values[place.min(local.values.len() - 1)])
    }
}
