//! A copy of the policy's schema in an empty database, for made-up rows.

use tokio_postgres::Client;

use super::ddl;
use super::{ShadowError, build, copy_public};
use crate::policy::{Policy, VIEW_SCHEMA};
use crate::postgres::identifier;

/// Builds the tables as the shadow has them and copies the public ones that are small enough.
/// Private rows are neither read nor needed.
///
/// # Requires
/// `copy` is a superuser's session in a database that nothing else is in.
///
/// # Errors
/// [`ShadowError`], where either database refuses.
pub async fn copy_schema(
    policy: &Policy,
    source: &Client,
    copy: &mut Client,
) -> Result<Vec<String>, ShadowError> {
    let schema = ddl::schema(policy, &build::builtin(copy).await?);
    build::rebuild(copy, &schema.statements, None).await?;
    // pgveil's own views and functions are for typing only.
    copy.batch_execute(&format!("DROP SCHEMA {} CASCADE", identifier(VIEW_SCHEMA)))
        .await?;
    copy_public::copy_tables(
        source,
        copy,
        &schema.tables,
        &schema.public_keys,
        policy.limits.mirror_rows,
        &|_| (),
    )
    .await?;
    Ok(schema.warnings)
}
