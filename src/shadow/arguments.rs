//! Bound parameters, read and printed by PostgreSQL itself.

use std::error::Error;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row};

use super::request::{Argument, Format};
use super::typing::of_oid;
use super::{ShadowError, VALUES_MAX};
use crate::refusal::{Refusal, reason};

/// `text`, for a parameter of unknown type.
const TEXT: u32 = 25;
/// `unknown`.
const UNKNOWN: u32 = 705;
/// The most bytes of text of all values whose text may be much longer than their binary form: as
/// many as the text of a statement.
const UNFOLDED_MAX: usize = 1 << 20;
/// Types whose text is at most a few times as long as their binary form: bool, bytea, char, name,
/// the integers, text, oid, json, floats, dates and times, uuid, and arrays of these. Eight bytes
/// of other types may stand for 131,072 digits: a numeric, also within an array, a range or jsonb.
const AS_LONG: [u32; 38] = [
    0, UNKNOWN, 16, 17, 18, 19, 20, 21, 23, TEXT, 26, 114, 700, 701, 1042, 1043, 1082, 1083, 1114,
    1184, 1186, 1266, 2950, 1000, 1001, 1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1028, 1115,
    1182, 1185, 2951,
];

/// The client's bytes, untouched.
#[derive(Debug)]
struct Sent<'a> {
    format: Format,
    bytes: &'a [u8],
}

impl ToSql for Sent<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> tokio_postgres::types::Format {
        match self.format {
            Format::Text => tokio_postgres::types::Format::Text,
            Format::Binary => tokio_postgres::types::Format::Binary,
        }
    }

    to_sql_checked!();
}

/// A value's bytes in PostgreSQL's binary format, of any type.
#[derive(Debug)]
pub struct Raw<'a>(pub &'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The arguments in binary, once PostgreSQL has read them under the session's settings.
pub async fn to_binary(
    client: &Client,
    oids: &[u32],
    arguments: &[Argument],
) -> Result<Vec<Argument>, ShadowError> {
    let raw = |row: &Row, column: usize| {
        Ok(row
            .try_get::<_, Option<Raw<'_>>>(column)?
            .map(|raw| Bytes::copy_from_slice(raw.0)))
    };
    let values = select(client, oids, arguments, |n| format!("${n}"), raw).await?;
    let binary = |(argument, value): (&Argument, Option<Option<Bytes>>)| match value {
        Some(value) => Argument {
            format: Format::Binary,
            value,
        },
        None => argument.clone(),
    };
    Ok(arguments.iter().zip(values).map(binary).collect())
}

/// Whether values may become texts of `bytes` bytes together.
///
/// # Errors
/// 54000 where that is too long.
pub fn fit_as_text(bytes: usize) -> Result<(), Refusal> {
    if bytes <= UNFOLDED_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        reason::PARAMETERS_TOO_LONG,
        "the values of the parameters are too long \
        as text",
    )
    .detail(format!(
        "Written out they have {bytes} bytes; the limit for one statement is \
            {UNFOLDED_MAX}."
    ))
    .hint(
        "A numeric is written out digit by digit, 1e1000 too: pass fewer of them, or such \
            numbers as double precision.",
    ))
}

/// Checks the length of the values whose text may be much longer than their binary form.
async fn measure(client: &Client, oids: &[u32], arguments: &[Argument]) -> Result<(), ShadowError> {
    let unfolding = oids
        .iter()
        .zip(arguments)
        .filter(|(oid, argument)| argument.value.is_some() && !AS_LONG.contains(oid));
    let (oids, arguments): (Vec<u32>, Vec<Argument>) = unfolding
        .map(|(oid, argument)| (*oid, argument.clone()))
        .unzip();
    let length = |n| format!("pg_catalog.octet_length(pg_catalog.format('%s', ${n}))");
    let lengths = select(client, &oids, &arguments, length, |row, column| {
        row.try_get::<_, i32>(column)
    })
    .await?;
    let bytes = lengths
        .into_iter()
        .flatten()
        .map(|length| usize::try_from(length).unwrap_or(0))
        .sum();
    fit_as_text(bytes).map_err(ShadowError::Refusal)
}

/// The arguments as the session's settings print them. `format` calls the type's own output
/// function, where a cast to text would say `true` for `t` and drop the blanks of `char(n)`.
///
/// # Errors
/// 54000 where the texts would be too long: their lengths are read before any text is.
pub async fn print(
    client: &Client,
    oids: &[u32],
    arguments: &[Argument],
) -> Result<Vec<Option<String>>, ShadowError> {
    measure(client, oids, arguments).await?;
    let texts = select(
        client,
        oids,
        arguments,
        |n| format!("pg_catalog.format('%s', ${n})"),
        |row, column| row.try_get(column),
    )
    .await?;
    Ok(texts.into_iter().map(Option::flatten).collect())
}

/// The value of an expression for each argument that is not NULL, in rows of [`VALUES_MAX`]
/// columns.
async fn select<T>(
    client: &Client,
    oids: &[u32],
    arguments: &[Argument],
    expression: impl Fn(usize) -> String,
    cell: impl Fn(&Row, usize) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<Option<T>>, ShadowError> {
    if oids.len() != arguments.len() {
        let message = format!(
            "bind message supplies {} parameters, but the statement requires {}",
            arguments.len(),
            oids.len()
        );
        return Err(ShadowError::Refusal(Refusal::new(
            reason::PROTOCOL_VIOLATION,
            message,
        )));
    }
    let mut types = Vec::new();
    let mut values = Vec::new();
    for (oid, argument) in oids.iter().zip(arguments) {
        if let Some(bytes) = &argument.value {
            types.push(of_oid(if matches!(*oid, 0 | UNKNOWN) {
                TEXT
            } else {
                *oid
            }));
            values.push(Sent {
                format: argument.format,
                bytes,
            });
        }
    }
    let mut found = Vec::with_capacity(values.len());
    for (types, values) in types.chunks(VALUES_MAX).zip(values.chunks(VALUES_MAX)) {
        let list: Vec<String> = (1..=values.len()).map(&expression).collect();
        let statement = client
            .prepare_typed(&format!("SELECT {}", list.join(", ")), types)
            .await?;
        let rows = client
            .query_raw(
                &statement,
                values.iter().map(|value| value as &(dyn ToSql + Sync)),
            )
            .await?;
        pin_mut!(rows);
        let row = rows
            .try_next()
            .await?
            .ok_or_else(|| ShadowError::Failed("a SELECT without FROM gave no row".to_owned()))?;
        for column in 0..row.len() {
            found.push(cell(&row, column)?);
        }
    }
    let mut found = found.into_iter();
    Ok(arguments
        .iter()
        .map(|argument| argument.value.as_ref().and_then(|_| found.next()))
        .collect())
}
