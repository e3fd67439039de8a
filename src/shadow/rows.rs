//! Runs one literal SELECT and gives its rows in the formats the client asked for.

use bytes::Bytes;
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::{Client, SimpleQueryMessage, Statement};

use super::ShadowError;
use super::arguments::Raw;
use super::exchange::{Description, Format};
use crate::refusal::{Refusal, sqlstate};

/// Most rows of one answer.
pub const ROWS_MAX: usize = 1_000_000;
/// Most bytes of one answer, values only.
pub const BYTES_MAX: usize = 256 << 20;
/// The SQLSTATE of an answer that was cut: its session still carries the rest and is not used again.
pub const CUT_SHORT: &str = sqlstate::PROGRAM_LIMIT_EXCEEDED;

type Rows = Vec<Vec<Option<Bytes>>>;

pub async fn run(client: &Client, sql: &str, expected: &Description, formats: &[Format]) -> Result<Rows, ShadowError> {
    // Preparing refuses several statements in one text, which the simple protocol would run.
    let statement = client.prepare(sql).await?;
    let types = statement.columns().iter().map(|column| column.type_().oid());
    if !types.eq(expected.columns.iter().map(|column| column.type_oid)) {
        return Err(ShadowError::Failed("a statement's columns are not those it was described with".to_owned()));
    }
    let format = |column: usize| if let [one] = formats { *one } else { formats.get(column).copied().unwrap_or(Format::Text) };
    let formats: Vec<Format> = (0..statement.columns().len()).map(format).collect();
    if formats.iter().all(|format| *format == Format::Text) {
        return text(client, sql).await;
    }
    if formats.iter().all(|format| *format == Format::Binary) {
        return binary(client, &statement).await;
    }
    mixed(client, sql, &statement, &formats).await
}

/// Both ways in one snapshot, so that `now()` and the order of rows agree.
async fn mixed(client: &Client, sql: &str, statement: &Statement, formats: &[Format]) -> Result<Rows, ShadowError> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let both = async { Ok::<_, ShadowError>((text(client, sql).await?, binary(client, statement).await?)) }.await;
    client.batch_execute("ROLLBACK").await?;
    let (texts, binaries) = both?;
    if texts.len() != binaries.len() {
        return Err(ShadowError::Failed("one statement gave two numbers of rows".to_owned()));
    }
    let pick = |(texts, binaries): (Vec<Option<Bytes>>, Vec<Option<Bytes>>)| {
        let values = texts.into_iter().zip(binaries).zip(formats);
        values.map(|((text, binary), format)| if *format == Format::Text { text } else { binary }).collect()
    };
    Ok(texts.into_iter().zip(binaries).map(pick).collect())
}

/// The simple protocol: PostgreSQL's own text under the session's settings.
///
/// # Requires
/// `sql` is one statement: it was prepared before.
pub async fn text(client: &Client, sql: &str) -> Result<Rows, ShadowError> {
    let mut collected = Collected::default();
    let messages = client.simple_query_raw(sql).await?;
    pin_mut!(messages);
    while let Some(message) = messages.try_next().await? {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|column| Ok(row.try_get(column)?.map(|text| Bytes::copy_from_slice(text.as_bytes()))));
            collected.push(values.collect::<Result<_, ShadowError>>()?)?;
        }
    }
    Ok(collected.rows)
}

/// The extended protocol: tokio-postgres asks for binary, and the bytes stay as they are.
async fn binary(client: &Client, statement: &Statement) -> Result<Rows, ShadowError> {
    let mut collected = Collected::default();
    let none: [&str; 0] = [];
    let rows = client.query_raw(statement, none).await?;
    pin_mut!(rows);
    while let Some(row) = rows.try_next().await? {
        let values = (0..row.len()).map(|column| Ok(row.try_get::<_, Option<Raw<'_>>>(column)?.map(|raw| Bytes::copy_from_slice(raw.0))));
        collected.push(values.collect::<Result<_, ShadowError>>()?)?;
    }
    Ok(collected.rows)
}

#[derive(Default)]
struct Collected {
    rows: Rows,
    bytes: usize,
}

impl Collected {
    fn push(&mut self, row: Vec<Option<Bytes>>) -> Result<(), ShadowError> {
        self.bytes += row.iter().flatten().map(Bytes::len).sum::<usize>();
        if self.rows.len() >= ROWS_MAX || self.bytes > BYTES_MAX {
            let message = format!("result is larger than {ROWS_MAX} rows or {} MB", BYTES_MAX >> 20);
            return Err(ShadowError::Refusal(Refusal::new(CUT_SHORT, message).hint("Add a LIMIT, or group by fewer keys.")));
        }
        self.rows.push(row);
        Ok(())
    }
}
