//! The divisor of an answer's integers as it is stored: a number, or, where it is longer than eight
//! bytes, its decimal text.

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Number(u64),
    Text(String),
}

/// The divisor in answers of older versions.
pub(super) fn one() -> BigInt {
    1.into()
}

pub(super) fn serialize<S: Serializer>(divisor: &BigInt, to: S) -> Result<S::Ok, S::Error> {
    let stored = match divisor.to_u64() {
        Some(number) => Stored::Number(number),
        None => Stored::Text(divisor.to_string()),
    };
    stored.serialize(to)
}

pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<BigInt, D::Error> {
    match Stored::deserialize(from)? {
        Stored::Number(number) => Ok(number.into()),
        Stored::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Kept {
        #[serde(default = "one", with = "super")]
        divisor: BigInt,
    }

    #[test]
    fn short_ones_are_numbers_and_long_ones_are_read_too() {
        for (stored, number) in [
            ("{\"divisor\":1024}", "1024"),
            ("{\"divisor\":18446744073709551615}", "18446744073709551615"),
            (
                "{\"divisor\":\"18446744073709551616\"}",
                "18446744073709551616",
            ),
        ] {
            let read: Kept = serde_json::from_str(stored).unwrap();
            assert_eq!(read.divisor.to_string(), number);
            assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        }
        let older: Kept = serde_json::from_str("{}").unwrap();
        assert_eq!(older.divisor, one());
        assert!(serde_json::from_str::<Kept>("{\"divisor\":\"x\"}").is_err());
    }
}
