//! Reads a type as pg_attribute stores it: the OID of a pg_type and its modifier.

use super::Type;

/// The type of a column from `atttypid`, `atttypmod` and what `format_type` prints.
pub fn type_of(oid: u32, modifier: i32, name: &str) -> Type {
    match oid {
        16 => Type::Bool,
        21 => Type::Int2,
        23 => Type::Int4,
        20 => Type::Int8,
        1700 => Type::Numeric(numeric(modifier)),
        700 => Type::Float4,
        701 => Type::Float8,
        25 => Type::Text,
        1043 => Type::Varchar(length(modifier)),
        2950 => Type::Uuid,
        1082 => Type::Date,
        1114 => Type::Timestamp,
        1184 => Type::Timestamptz,
        1186 => Type::Interval,
        1083 => Type::Time,
        1042 => Type::Char(length(modifier)),
        _ => Type::Other {
            oid,
            name: name.to_owned(),
        },
    }
}

/// The OID of a type without its modifier.
pub fn oid_of(data_type: &Type) -> u32 {
    match data_type {
        Type::Bool => 16,
        Type::Int2 => 21,
        Type::Int4 => 23,
        Type::Int8 => 20,
        Type::Numeric(_) => 1700,
        Type::Float4 => 700,
        Type::Float8 => 701,
        Type::Text => 25,
        Type::Varchar(_) => 1043,
        Type::Char(_) => 1042,
        Type::Uuid => 2950,
        Type::Date => 1082,
        Type::Timestamp => 1114,
        Type::Timestamptz => 1184,
        Type::Interval => 1186,
        Type::Time => 1083,
        Type::Enum(made) => made.oid,
        Type::Other { oid, name: _ } => *oid,
    }
}

/// The type of an array's elements, where those are plain values.
pub fn element_of(data_type: &Type) -> Option<Type> {
    let Type::Other { oid, name: _ } = data_type else {
        return None;
    };
    let element = match oid {
        1000 => 16,
        1005 => 21,
        1007 => 23,
        1009 => 25,
        1015 => 1043,
        1016 => 20,
        1022 => 701,
        1115 => 1114,
        1182 => 1082,
        1185 => 1184,
        1231 => 1700,
        2951 => 2950,
        _ => return None,
    };
    Some(type_of(element, -1, ""))
}

/// The built-in type that a domain is over, by the name that `format_type` prints.
pub fn base_of_domain(base: &str) -> Option<Type> {
    let (name, modifier) = match base.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')')?),
        None => (base, ""),
    };
    let (oid, modifier) = match (name, modifier) {
        ("boolean", "") => (16, -1),
        ("smallint", "") => (21, -1),
        ("integer", "") => (23, -1),
        ("bigint", "") => (20, -1),
        ("numeric", "") => (1700, -1),
        ("numeric", digits) => {
            let (precision, scale) = digits.split_once(',')?;
            let (precision, scale): (i32, i32) = (
                precision.parse().ok()?,
                scale.parse().ok().filter(|scale| *scale >= 0)?,
            );
            (1700, (precision << 16 | scale) + 4)
        }
        ("real", "") => (700, -1),
        ("double precision", "") => (701, -1),
        ("text", "") => (25, -1),
        ("character varying", "") => (1043, -1),
        ("character varying", length) => (1043, length.parse::<i32>().ok()? + 4),
        ("bpchar", "") => (1042, -1),
        ("character", length) => (1042, length.parse::<i32>().ok()? + 4),
        ("uuid", "") => (2950, -1),
        ("date", "") => (1082, -1),
        ("timestamp without time zone", "") => (1114, -1),
        ("timestamp with time zone", "") => (1184, -1),
        ("interval", "") => (1186, -1),
        ("time without time zone", "") => (1083, -1),
        _ => return None,
    };
    Some(type_of(oid, modifier, ""))
}

/// Modifiers of character types count a header of four bytes.
fn length(modifier: i32) -> Option<u32> {
    u32::try_from(modifier).ok()?.checked_sub(4)
}

/// Precision in the high half, scale as a signed number of eleven bits in the low half.
fn numeric(modifier: i32) -> Option<(u16, i16)> {
    let packed = u32::try_from(modifier).ok()?.checked_sub(4)?;
    let precision = u16::try_from(packed >> 16).ok()?;
    let scale = i16::try_from(packed & 0x7ff).ok()?;
    Some((precision, (scale ^ 1024) - 1024))
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int2 => f.write_str("smallint"),
            Self::Int4 => f.write_str("integer"),
            Self::Int8 => f.write_str("bigint"),
            Self::Numeric(None) => f.write_str("numeric"),
            Self::Numeric(Some((precision, scale))) => write!(f, "numeric({precision},{scale})"),
            Self::Float4 => f.write_str("real"),
            Self::Float8 => f.write_str("double precision"),
            Self::Text => f.write_str("text"),
            Self::Varchar(None) => f.write_str("character varying"),
            Self::Varchar(Some(n)) => write!(f, "character varying({n})"),
            Self::Char(None) => f.write_str("bpchar"),
            Self::Char(Some(n)) => write!(f, "character({n})"),
            Self::Uuid => f.write_str("uuid"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp without time zone"),
            Self::Timestamptz => f.write_str("timestamp with time zone"),
            Self::Interval => f.write_str("interval"),
            Self::Time => f.write_str("time without time zone"),
            Self::Enum(made) => write!(f, "{}.{}", made.schema, made.name),
            Self::Other { name, .. } => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_read_as_postgresql_writes_them() {
        assert_eq!(
            type_of(1700, (7 << 16 | 2) + 4, ""),
            Type::Numeric(Some((7, 2)))
        );
        assert_eq!(
            type_of(1700, (3 << 16 | (-2 & 0x7ff)) + 4, ""),
            Type::Numeric(Some((3, -2)))
        );
        assert_eq!(type_of(1700, -1, ""), Type::Numeric(None));
        assert_eq!(type_of(1043, 24, ""), Type::Varchar(Some(20)));
        assert_eq!(type_of(1042, 5, ""), Type::Char(Some(1)));
        assert_eq!(type_of(1042, -1, "bpchar"), Type::Char(None));
        assert_eq!(base_of_domain("character(3)"), Some(Type::Char(Some(3))));
        assert_eq!(
            base_of_domain("numeric(10,2)"),
            Some(Type::Numeric(Some((10, 2))))
        );
        assert_eq!(
            base_of_domain("character varying(5)"),
            Some(Type::Varchar(Some(5)))
        );
        assert_eq!(base_of_domain("timestamp(3) without time zone"), None);
    }
}
