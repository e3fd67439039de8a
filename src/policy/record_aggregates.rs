//! Aggregates of the schema `pgveil` that give a record. Each registers here, with its calls and
//! its fields: the shadow then has its type, the parser writes `.*` out, and statements read single
//! fields. `crate::aggregates` says what the fields are.

use crate::catalog::Type;

/// An aggregate that gives a record.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordAggregate {
    /// Its name in the schema `pgveil`.
    pub name: &'static str,
    /// The types of its arguments, a list for each form, as PostgreSQL writes them.
    pub forms: &'static [&'static [&'static str]],
    /// Arguments of a call, for hints.
    pub example: &'static str,
    /// PostgreSQL's own aggregates that are exact where this one is not answered.
    pub instead: &'static str,
    pub fields: &'static [RecordField],
}

/// A field of a record.
#[derive(Debug, PartialEq, Eq)]
pub struct RecordField {
    pub name: &'static str,
    pub kind: FieldKind,
    /// What EXPLAIN calls it.
    pub in_words: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    Number,
    /// One number for each feature, or a row of them.
    Numbers,
    /// A whole number.
    Whole,
    /// The number of rows, which is a count with noise as every count.
    Rows,
}

impl RecordAggregate {
    /// The aggregate of this name in the schema `pgveil`.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        RECORD_AGGREGATES.iter().find(|known| known.name == name)
    }

    pub fn field(&self, name: &str) -> Option<&'static RecordField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl RecordField {
    pub fn data_type(&self) -> Type {
        match self.kind {
            FieldKind::Numbers => Type::Other {
                oid: 1022,
                name: "_float8".to_owned(),
            },
            FieldKind::Number => Type::Float8,
            FieldKind::Whole => Type::Int4,
            FieldKind::Rows => Type::Int8,
        }
    }
}

/// Registers aggregates, with an enum of the fields of each.
macro_rules! record_aggregates {
    ($($(#[$about:meta])* $fields:ident of $name:literal {
        forms: $forms:expr,
        example: $example:literal,
        instead: $instead:literal,
        fields: { $($field:ident $text:literal $kind:ident $in_words:literal,)* },
    })*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $fields {
                $($field,)*
            }

            impl $fields {
                /// The field that is registered by this name.
                pub fn by_name(name: &str) -> Option<Self> {
                    match name {
                        $($text => Some(Self::$field),)*
                        _ => None,
                    }
                }
            }
        )*

        /// All aggregates that give a record.
        pub static RECORD_AGGREGATES: &[RecordAggregate] = &[$(RecordAggregate {
            name: $name,
            forms: $forms,
            example: $example,
            instead: $instead,
            fields: &[$(RecordField {
                name: $text,
                kind: FieldKind::$kind,
                in_words: $in_words,
            },)*],
        },)*];
    };
}

record_aggregates! {
    /// Fields of a linear regression, by the names that MADlib gives them.
    RegressionField of "linregr" {
        forms: &[
            &["double precision", "double precision[]"],
            &["double precision", "double precision[]", "double precision"],
        ],
        example: "y, ARRAY[1, x]",
        instead: "REGR_SLOPE, REGR_INTERCEPT and REGR_R2",
        fields: {
            Coef "coef" Numbers "coefficients",
            StdErr "std_err" Numbers "errors of coefficients",
            NoiseErr "noise_err" Numbers "errors of coefficients",
            R2 "r2" Number "explained part",
            NumRows "num_rows" Rows "count",
            ConditionNo "condition_no" Number "condition number",
            Penalty "penalty" Number "penalty",
        },
    }
    /// Fields of a logistic regression, by the names that MADlib gives them.
    LogisticField of "logregr" {
        forms: &[
            &["boolean", "double precision[]"],
            &["double precision", "double precision[]"],
        ],
        example: "y, ARRAY[1, x]",
        instead: "AVG and CORR",
        fields: {
            Coef "coef" Numbers "coefficients",
            StdErr "std_err" Numbers "errors of coefficients",
            NoiseErr "noise_err" Numbers "errors of coefficients",
            NumRows "num_rows" Rows "count",
            NumIterations "num_iterations" Whole "number of steps",
        },
    }
    /// Fields of principal components, the component of the greatest variance first.
    ComponentsField of "pca" {
        forms: &[&["double precision[]"], &["double precision[]", "integer"]],
        example: "ARRAY[x1, x2]",
        instead: "VAR_SAMP and COVAR_SAMP",
        fields: {
            Variance "variance" Numbers "variances of components",
            NoiseErr "noise_err" Numbers "errors of variances",
            Loadings "loadings" Numbers "loadings",
            LoadingsErr "loadings_err" Numbers "errors of loadings",
            Proportion "proportion" Numbers "shares of the variance",
            Mean "mean" Numbers "means",
            NumRows "num_rows" Rows "count",
        },
    }
}
