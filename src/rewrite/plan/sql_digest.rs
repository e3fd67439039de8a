//! Digests that stored answers keep in place of SQL: neither the text of a question nor one of its
//! literals is kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Digest of an emitted expression. Kept as 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SqlDigest([u8; 32]);

impl SqlDigest {
    pub(in crate::rewrite) fn of(sql: &str) -> Self {
        Self(Sha256::digest(sql).into())
    }
}

impl From<SqlDigest> for String {
    fn from(SqlDigest(bytes): SqlDigest) -> Self {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for SqlDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("not 64 hexadecimal digits")
    }
}

/// Digest of a coordinate's emitted sum, and of the fixed-point grid that its integers are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinateDigest(pub(in crate::rewrite) SqlDigest);

#[cfg(test)]
mod tests {
    use super::{CoordinateDigest, SqlDigest};

    /// The first digest is that of FIPS 180-2, B.1.
    #[test]
    fn a_digest_is_kept_as_hexadecimal_digits() {
        let kept = "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"";
        let digest = CoordinateDigest(SqlDigest::of("abc"));
        assert_eq!(serde_json::to_string(&digest).unwrap(), kept);
        assert_eq!(
            serde_json::from_str::<CoordinateDigest>(kept).unwrap(),
            digest
        );
    }

    #[test]
    fn other_texts_are_no_digest() {
        let kept = String::from(SqlDigest::of("abc"));
        let others = [
            String::new(),
            kept[1..].to_owned(),
            format!("{kept}00"),
            format!("{}g", &kept[1..]),
            format!("+{}", &kept[1..]),
        ];
        for other in others {
            assert!(SqlDigest::try_from(other.clone()).is_err(), "{other}");
        }
    }
}
