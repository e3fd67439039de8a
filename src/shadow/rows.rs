//! Runs one literal SELECT and returns its rows in the formats that the client asked for.

use bytes::Bytes;
use futures::{TryStreamExt, pin_mut};
use tokio_postgres::{Client, SimpleQueryMessage, Statement};

use super::ShadowError;
use super::arguments::Raw;
use super::request::{Description, Format};
use crate::memory::{HeldMemory, MemoryShare, weight};
use crate::refusal::{Refusal, reason};

/// The most rows of one answer.
pub const ROWS_MAX: usize = 1_000_000;
/// The most bytes of one answer, with the overhead of its values.
pub const BYTES_MAX: usize = 256 << 20;
/// How much memory is reserved at a time while rows come.
const STEP_BYTES: usize = 64 << 10;

type Rows = Vec<Vec<Option<Bytes>>>;

/// Rows, and the memory that they take of the requester's share.
#[derive(Debug)]
pub struct HeldRows {
    pub rows: Rows,
    pub held: HeldMemory,
}

pub async fn run(
    client: &Client,
    share: &MemoryShare,
    sql: &str,
    expected: &Description,
    formats: &[Format],
) -> Result<HeldRows, ShadowError> {
    // PREPARE refuses several statements in one text, which the simple protocol would run.
    let statement = client.prepare(sql).await?;
    let types = statement
        .columns()
        .iter()
        .map(|column| column.type_().oid());
    if !types.eq(expected.columns.iter().map(|column| column.type_oid)) {
        return Err(ShadowError::Failed(
            "a statement's columns are not those it was described with".to_owned(),
        ));
    }
    let format = |column: usize| {
        if let [one] = formats {
            *one
        } else {
            formats.get(column).copied().unwrap_or(Format::Text)
        }
    };
    let formats: Vec<Format> = (0..statement.columns().len()).map(format).collect();
    if formats.iter().all(|format| *format == Format::Text) {
        return run_as_text(client, share, sql).await;
    }
    if formats.iter().all(|format| *format == Format::Binary) {
        return binary(client, share, &statement).await;
    }
    run_mixed(client, share, sql, &statement, &formats).await
}

/// Both protocols run in one snapshot, so that `now()` and the order of rows agree.
async fn run_mixed(
    client: &Client,
    share: &MemoryShare,
    sql: &str,
    statement: &Statement,
    formats: &[Format],
) -> Result<HeldRows, ShadowError> {
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let both = async {
        Ok::<_, ShadowError>((
            run_as_text(client, share, sql).await?,
            binary(client, share, statement).await?,
        ))
    }
    .await;
    client.batch_execute("ROLLBACK").await?;
    let (texts, binaries) = both?;
    if texts.rows.len() != binaries.rows.len() {
        return Err(ShadowError::Failed(
            "one statement gave two numbers of rows".to_owned(),
        ));
    }
    let pick = |(texts, binaries): (Vec<Option<Bytes>>, Vec<Option<Bytes>>)| {
        let values = texts.into_iter().zip(binaries).zip(formats);
        values
            .map(|((text, binary), format)| {
                if *format == Format::Text {
                    text
                } else {
                    binary
                }
            })
            .collect()
    };
    let rows: Rows = texts
        .rows
        .into_iter()
        .zip(binaries.rows)
        .map(pick)
        .collect();
    let mut held = texts.held;
    held.join(binaries.held);
    held.fit(rows.iter().map(|row| weight(row)).sum());
    Ok(HeldRows { rows, held })
}

/// The simple protocol: PostgreSQL's own text under the session's settings.
///
/// # Requires
/// `sql` is one statement: it was prepared before.
pub async fn run_as_text(
    client: &Client,
    share: &MemoryShare,
    sql: &str,
) -> Result<HeldRows, ShadowError> {
    let mut collected = Collected::new(share);
    let messages = client.simple_query_raw(sql).await?;
    pin_mut!(messages);
    while let Some(message) = messages.try_next().await? {
        if let SimpleQueryMessage::Row(row) = message {
            let values = (0..row.len()).map(|column| {
                Ok(row
                    .try_get(column)?
                    .map(|text| Bytes::copy_from_slice(text.as_bytes())))
            });
            collected.push(values.collect::<Result<_, ShadowError>>()?)?;
        }
    }
    Ok(collected.weigh())
}

/// The extended protocol: tokio-postgres asks for binary, and the bytes are passed on unchanged.
async fn binary(
    client: &Client,
    share: &MemoryShare,
    statement: &Statement,
) -> Result<HeldRows, ShadowError> {
    let mut collected = Collected::new(share);
    let none: [&str; 0] = [];
    let rows = client.query_raw(statement, none).await?;
    pin_mut!(rows);
    while let Some(row) = rows.try_next().await? {
        let values = (0..row.len()).map(|column| {
            Ok(row
                .try_get::<_, Option<Raw<'_>>>(column)?
                .map(|raw| Bytes::copy_from_slice(raw.0)))
        });
        collected.push(values.collect::<Result<_, ShadowError>>()?)?;
    }
    Ok(collected.weigh())
}

struct Collected {
    rows: Rows,
    bytes: usize,
    held: HeldMemory,
}

impl Collected {
    fn new(share: &MemoryShare) -> Self {
        Self {
            rows: Vec::new(),
            bytes: 0,
            held: share.begin(),
        }
    }

    /// Rows count as they come, so that answers in transit count as much as stored ones.
    fn push(&mut self, row: Vec<Option<Bytes>>) -> Result<(), ShadowError> {
        self.bytes += weight(&row);
        if self.rows.len() >= ROWS_MAX || self.bytes > BYTES_MAX {
            let message = format!(
                "result is larger than {ROWS_MAX} rows or {} MB",
                BYTES_MAX >> 20
            );
            let refusal = Refusal::new(reason::ANSWER_TOO_LARGE, message);
            return Err(ShadowError::Refusal(
                refusal.hint("Add a LIMIT, or group by fewer keys."),
            ));
        }
        if self.bytes > self.held.bytes() {
            let missing = self.bytes - self.held.bytes();
            self.held
                .add(missing.max(STEP_BYTES))
                .or_else(|_| self.held.add(missing))
                .map_err(ShadowError::Refusal)?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn weigh(self) -> HeldRows {
        let Self {
            rows,
            bytes,
            mut held,
        } = self;
        held.fit(bytes);
        HeldRows { rows, held }
    }
}
