//! Checks a shadow that the operator names as a start would. Changes nothing there.

use super::build::{apart, guard, other_locale, other_major};
use super::{ShadowError, ShadowOptions, exclusive_lock};
use crate::postgres::connect;

/// A shadow that a start would take.
#[derive(Debug)]
pub struct ExaminedShadow {
    pub warnings: Vec<String>,
    /// Whether a proxy runs on it: no other one would start.
    pub is_held: bool,
}

/// # Errors
/// If it cannot be reached, holds what pgveil did not make, or is on the server of the private
/// rows.
pub async fn examine(
    shadow: &tokio_postgres::Config,
    options: &ShadowOptions,
) -> Result<ExaminedShadow, ShadowError> {
    let connected = connect(shadow).await?;
    let admin = &connected.client;
    let mut warnings = Vec::new();
    warnings.extend(other_major(admin, options).await?);
    warnings.extend(other_locale(admin, options).await?);
    warnings.extend(apart(admin, options).await?);
    guard(admin).await?;
    let is_held = exclusive_lock::is_held(admin).await?;
    connected.close().await;
    Ok(ExaminedShadow { warnings, is_held })
}
