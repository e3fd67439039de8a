//! Values of the fields of records.

/// The value of a field: an array has one number for each feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'f> {
    Number(f64),
    Numbers(&'f [f64]),
    Rows(&'f [Vec<f64>]),
}
