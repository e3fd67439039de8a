//! Integers in PostgreSQL's binary form.

use super::FoldError;

/// An integer of two, four or eight bytes.
///
/// # Errors
/// [`FoldError`] for another length.
pub fn read(bytes: &[u8]) -> Result<i64, FoldError> {
    match *bytes {
        [a, b] => Ok(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Ok(i32::from_be_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Ok(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
        _ => Err(FoldError::UnlikeRow),
    }
}
