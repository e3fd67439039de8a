//! A holdout as the policy declares it: its price, and the name of its debits.

use num_bigint::BigInt;
use num_traits::FromPrimitive;
use sha2::{Digest, Sha256};

use crate::ledger::SeriesId;
use crate::mechanism::SumDirection;
use crate::policy::{Holdout, Protection, Table};
use crate::release::{EpochKind, EpochTerms};

/// Thresholds are whole multiples of this fraction of a row.
const ROW_PARTS: u32 = 1 << 20;

/// A private table that is a holdout.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeclaredHoldout<'p> {
    pub table: &'p Table,
    pub holdout: &'p Holdout,
    pub rows_per_unit: u32,
}

impl<'p> DeclaredHoldout<'p> {
    pub(super) fn of(table: &'p Table) -> Option<Self> {
        let Protection::Private(unit) = &table.protection else {
            return None;
        };
        Some(Self {
            table,
            holdout: table.holdout.as_ref()?,
            rows_per_unit: unit.rows_per_unit,
        })
    }

    /// The table, as messages name it.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.table.schema, self.table.name)
    }

    /// The name of its epochs, which no other table has, whatever characters are in its name.
    pub(super) fn slot_name(&self) -> String {
        format!("{:?} {:?}", self.table.schema, self.table.name)
    }

    pub(super) fn terms(&self) -> EpochTerms {
        EpochTerms {
            kind: EpochKind::Holdout,
            epsilon: self.holdout.epsilon(self.rows_per_unit),
            direction: SumDirection::Either,
        }
    }

    /// The debits that open it.
    pub(super) fn series(&self, role: &str) -> SeriesId {
        let mut digest = Sha256::new();
        digest.update(b"holdout");
        for name in [role, &self.table.schema, &self.table.name] {
            digest.update((name.len() as u64).to_be_bytes());
            digest.update(name);
        }
        SeriesId::new(digest.finalize().into())
    }

    /// The tolerance, in rows.
    pub(super) fn rows_allowed(&self) -> (BigInt, BigInt) {
        let Holdout {
            rows, tolerance, ..
        } = self.holdout;
        let parts = (tolerance * f64::from(*rows) * f64::from(ROW_PARTS)).ceil();
        (
            BigInt::from_f64(parts).unwrap_or_default(),
            ROW_PARTS.into(),
        )
    }
}
