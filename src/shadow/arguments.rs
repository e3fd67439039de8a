//! Bound parameters, read and printed by PostgreSQL itself.

use std::error::Error;

use bytes::{BufMut, Bytes, BytesMut};
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Row};

use super::ShadowError;
use super::exchange::{Argument, Format};
use super::typing::of_oid;
use crate::refusal::Refusal;

/// `text`, for a parameter whose type nobody knows.
const TEXT: u32 = 25;
/// `unknown`.
const UNKNOWN: u32 = 705;

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
pub async fn to_binary(client: &Client, oids: &[u32], arguments: &[Argument]) -> Result<Vec<Argument>, ShadowError> {
    let Some(row) = select(client, oids, arguments, |n| format!("${n}")).await? else { return Ok(arguments.to_vec()) };
    let mut column = 0;
    arguments
        .iter()
        .map(|argument| {
            if argument.value.is_none() {
                return Ok(argument.clone());
            }
            let value: Option<Raw<'_>> = row.try_get(column)?;
            column += 1;
            Ok(Argument { format: Format::Binary, value: value.map(|raw| Bytes::copy_from_slice(raw.0)) })
        })
        .collect()
}

/// The arguments as the session's settings print them. `format` calls the type's own output function, where a cast to text would say `true` for
/// `t` and drop the blanks of `char(n)`.
pub async fn print(client: &Client, oids: &[u32], arguments: &[Argument]) -> Result<Vec<Option<String>>, ShadowError> {
    let Some(row) = select(client, oids, arguments, |n| format!("pg_catalog.format('%s', ${n})")).await? else {
        return Ok(vec![None; arguments.len()]);
    };
    let mut column = 0;
    arguments
        .iter()
        .map(|argument| {
            if argument.value.is_none() {
                return Ok(None);
            }
            let value: Option<String> = row.try_get(column)?;
            column += 1;
            Ok(value)
        })
        .collect()
}

/// One row with an expression for each argument that is not NULL; `None` where there is none.
async fn select(client: &Client, oids: &[u32], arguments: &[Argument], expression: impl Fn(usize) -> String) -> Result<Option<Row>, ShadowError> {
    if oids.len() != arguments.len() {
        let message = format!("bind message supplies {} parameters, but the statement requires {}", arguments.len(), oids.len());
        return Err(ShadowError::Refusal(Refusal::new("08P01", message)));
    }
    let mut types = Vec::new();
    let mut values = Vec::new();
    for (oid, argument) in oids.iter().zip(arguments) {
        if let Some(bytes) = &argument.value {
            types.push(of_oid(if matches!(*oid, 0 | UNKNOWN) { TEXT } else { *oid }));
            values.push(Sent { format: argument.format, bytes });
        }
    }
    if values.is_empty() {
        return Ok(None);
    }
    let list: Vec<String> = (1..=values.len()).map(expression).collect();
    let statement = client.prepare_typed(&format!("SELECT {}", list.join(", ")), &types).await?;
    let rows = client.query_raw(&statement, values.iter().map(|value| value as &(dyn ToSql + Sync))).await?;
    pin_mut!(rows);
    rows.try_next().await?.map(Some).ok_or_else(|| ShadowError::Failed("a SELECT without FROM gave no row".to_owned()))
}
