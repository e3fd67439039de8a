//! Values of parameters in PostgreSQL's binary format, as text.

use crate::ir::sql::scalar_text;
use crate::parse::TrueText;
use crate::policy::Scalar;

/// The first OID that is not PostgreSQL's own: an enum's value is its label.
const OIDS_OF_USERS: u32 = 16_384;

/// The text of a value of this type. `None` for types that local columns and units cannot be sent
/// in, and for bytes that are none of the type.
pub(super) fn text(oid: u32, bytes: &[u8]) -> Option<TrueText> {
    let scalar = |value: Scalar| scalar_text(&value);
    let made = match oid {
        16 => match bytes {
            [0] => "false".to_owned(),
            [1] => "true".to_owned(),
            _ => return None,
        },
        21 => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        23 => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        20 => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        700 => f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        701 => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        1082 => scalar(Scalar::Date(i32::from_be_bytes(bytes.try_into().ok()?))),
        1114 => scalar(Scalar::Timestamp(i64::from_be_bytes(
            bytes.try_into().ok()?,
        ))),
        1184 => {
            scalar(Scalar::Timestamp(i64::from_be_bytes(
                bytes.try_into().ok()?,
            ))) + "+00"
        }
        1700 => numeric(bytes)?,
        2950 => uuid(bytes)?,
        0 | 18 | 19 | 25 | 705 | 1042 | 1043 => std::str::from_utf8(bytes).ok()?.to_owned(),
        OIDS_OF_USERS.. => std::str::from_utf8(bytes).ok()?.to_owned(),
        _ => return None,
    };
    Some(TrueText::new(made))
}

fn uuid(bytes: &[u8]) -> Option<String> {
    (bytes.len() == 16).then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Groups of four digits: their number, the weight of the first, the sign, the digits after the
/// point, and the groups.
fn numeric(bytes: &[u8]) -> Option<String> {
    let word = |at: usize| {
        let pair = bytes.get(2 * at..2 * at + 2)?;
        Some(u16::from_be_bytes(pair.try_into().ok()?))
    };
    let (groups, weight) = (usize::from(word(0)?), i32::from(word(1)? as i16));
    let (sign, scale) = (word(2)?, usize::from(word(3)?));
    if bytes.len() != 8 + 2 * groups || weight.abs() > 100 || scale > 400 {
        return None;
    }
    let group = |at: i32| match usize::try_from(at) {
        Ok(at) if at < groups => word(4 + at).filter(|digits| *digits < 10_000),
        _ => Some(0),
    };
    // The group of number `at` counts units of 10,000^(weight - at).
    let mut whole = String::new();
    for at in 0..=weight {
        whole.push_str(&format!("{:04}", group(at)?));
    }
    let mut fraction = String::new();
    let mut at = weight + 1;
    while fraction.len() < scale {
        fraction.push_str(&format!("{:04}", group(at)?));
        at += 1;
    }
    fraction.truncate(scale);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        _ => return None,
    };
    Some(match fraction.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{fraction}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(parts: &[u16]) -> Option<String> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_be_bytes()).collect();
        text(1700, &bytes).map(|text| text.expose().to_owned())
    }

    #[test]
    fn numerics_are_read_by_their_groups() {
        assert_eq!(sent(&[2, 1, 0, 0, 12, 3456]).as_deref(), Some("123456"));
        assert_eq!(sent(&[1, 1, 0, 0, 12]).as_deref(), Some("120000"));
        assert_eq!(sent(&[2, 0, 0x4000, 2, 7, 5000]).as_deref(), Some("-7.50"));
        assert_eq!(sent(&[1, 0xffff, 0, 4, 25]).as_deref(), Some("0.0025"));
        assert_eq!(sent(&[1, 0xfffe, 0, 6, 2500]).as_deref(), Some("0.000025"));
        assert_eq!(sent(&[0, 0, 0, 0]).as_deref(), Some("0"));
        assert_eq!(sent(&[0, 0, 0xc000, 0]), None);
        assert_eq!(sent(&[2, 0, 0, 0, 1]), None);
    }

    #[test]
    fn other_types_are_read_as_postgresql_prints_them() {
        let read = |oid, bytes: &[u8]| text(oid, bytes).map(|text| text.expose().to_owned());
        assert_eq!(read(16, &[1]).as_deref(), Some("true"));
        assert_eq!(read(23, &[0xff, 0xff, 0xff, 0xfe]).as_deref(), Some("-2"));
        assert_eq!(read(23, &[1]), None);
        assert_eq!(read(701, &2.5f64.to_be_bytes()).as_deref(), Some("2.5"));
        assert_eq!(
            read(1082, &1i32.to_be_bytes()).as_deref(),
            Some("2000-01-02")
        );
        assert_eq!(read(20_000, b"flu").as_deref(), Some("flu"));
        assert_eq!(read(1043, &[0xff]), None);
        assert_eq!(read(1007, b""), None);
    }
}
