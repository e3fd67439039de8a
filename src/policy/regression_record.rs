//! The record that `pgveil.linregr` gives, as MADlib's does: names and types of its fields. The
//! shadow has it as a type, statements read single fields.

use crate::catalog::Type;

/// The aggregate's name in the schema `pgveil`.
pub const LINREGR: &str = "linregr";

/// A field of a linear regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegressionField {
    Coef,
    StdErr,
    NoiseErr,
    R2,
    NumRows,
    ConditionNo,
    Penalty,
}

impl RegressionField {
    /// All of them, in the order of the record.
    pub const ALL: [Self; 7] = [
        Self::Coef,
        Self::StdErr,
        Self::NoiseErr,
        Self::R2,
        Self::NumRows,
        Self::ConditionNo,
        Self::Penalty,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Coef => "coef",
            Self::StdErr => "std_err",
            Self::NoiseErr => "noise_err",
            Self::R2 => "r2",
            Self::NumRows => "num_rows",
            Self::ConditionNo => "condition_no",
            Self::Penalty => "penalty",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    pub fn data_type(self) -> Type {
        match self {
            Self::Coef | Self::StdErr | Self::NoiseErr => Type::Other {
                oid: 1022,
                name: "_float8".to_owned(),
            },
            Self::R2 | Self::ConditionNo | Self::Penalty => Type::Float8,
            Self::NumRows => Type::Int8,
        }
    }
}
