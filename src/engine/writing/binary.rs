//! Values of parameters in PostgreSQL's binary format, as text.

use std::fmt::Write as _;

use crate::ir::sql::write_scalar;
use crate::parse::{TrueBytes, TrueText};
use crate::policy::Scalar;

/// The first OID that is not PostgreSQL's own: an enum's value is its label.
const OIDS_OF_USERS: u32 = 16_384;

/// The text of a value of this type. `None` for types that local columns and units cannot be sent
/// in, and for bytes that are none of the type.
pub(super) fn text(oid: u32, bytes: &[u8]) -> Option<TrueText> {
    let mut out = TrueBytes::default();
    match oid {
        16 => out.extend(match bytes {
            [0] => b"false",
            [1] => b"true",
            _ => return None,
        }),
        21 => write!(out, "{}", i16::from_be_bytes(bytes.try_into().ok()?)).ok()?,
        23 => write!(out, "{}", i32::from_be_bytes(bytes.try_into().ok()?)).ok()?,
        20 => write!(out, "{}", i64::from_be_bytes(bytes.try_into().ok()?)).ok()?,
        700 => write!(out, "{}", f32::from_be_bytes(bytes.try_into().ok()?)).ok()?,
        701 => write!(out, "{}", f64::from_be_bytes(bytes.try_into().ok()?)).ok()?,
        1082 => {
            let days = i32::from_be_bytes(bytes.try_into().ok()?);
            write_scalar(&Scalar::Date(days), &mut out).ok()?;
        }
        1114 | 1184 => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?);
            write_scalar(&Scalar::Timestamp(micros), &mut out).ok()?;
            if oid == 1184 {
                out.extend(b"+00");
            }
        }
        1700 => numeric(bytes, &mut out)?,
        2950 if bytes.len() == 16 => {
            for byte in bytes {
                write!(out, "{byte:02x}").ok()?;
            }
        }
        0 | 18 | 19 | 25 | 705 | 1042 | 1043 | OIDS_OF_USERS.. => out.extend(bytes),
        _ => return None,
    }
    out.text()
}

/// Groups of four digits: their number, the weight of the first, the sign, the digits after the
/// point, and the groups.
fn numeric(bytes: &[u8], out: &mut TrueBytes) -> Option<()> {
    let word = |at: usize| {
        let pair = bytes.get(2 * at..2 * at + 2)?;
        Some(u16::from_be_bytes(pair.try_into().ok()?))
    };
    let (groups, weight) = (usize::from(word(0)?), i32::from(word(1)? as i16));
    let (sign, scale) = (word(2)?, usize::from(word(3)?));
    if bytes.len() != 8 + 2 * groups || weight.abs() > 100 || scale > 400 {
        return None;
    }
    // The group of number `at` counts units of 10,000^(weight - at).
    let group = |at: i32| match usize::try_from(at) {
        Ok(at) if at < groups => word(4 + at).filter(|digits| *digits < 10_000),
        _ => Some(0),
    };
    match sign {
        0 => {}
        0x4000 => out.push(b'-'),
        _ => return None,
    }
    let begins = out.len();
    for at in 0..=weight {
        let digits = group(at)?;
        // Without zeros before the first digit.
        match out.len() == begins {
            true if digits == 0 => {}
            true => write!(out, "{digits}").ok()?,
            false => write!(out, "{digits:04}").ok()?,
        }
    }
    if out.len() == begins {
        out.push(b'0');
    }
    if scale > 0 {
        out.push(b'.');
        let ends = out.len() + scale;
        let mut at = weight + 1;
        while out.len() < ends {
            write!(out, "{:04}", group(at)?).ok()?;
            at += 1;
        }
        out.truncate(ends);
    }
    Some(())
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
