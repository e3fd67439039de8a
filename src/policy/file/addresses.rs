//! Reads the URLs of servers. Each is a secret: messages show its schemes only.

use crate::policy::Secret;
use crate::policy::error::Findings;
use crate::policy::yaml::read;
use crate::policy::yaml::read::{Fields, VariableLookup};
use crate::policy::yaml::tree::YamlNode;

/// The schemes of a PostgreSQL.
pub(super) const POSTGRES: [&str; 2] = ["postgres://", "postgresql://"];

/// `{url: …}` whose scheme is one of these. The value is a secret: messages show the schemes only.
pub(super) fn url(
    node: &YamlNode,
    what: &str,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Secret> {
    let mut fields = Fields::open(node, what, findings)?;
    let url = address(&mut fields, what, &POSTGRES, environment, findings);
    fields.done(findings);
    url
}

pub(super) fn address(
    fields: &mut Fields<'_>,
    what: &str,
    schemes: &[&str],
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Secret> {
    let node = fields.require(
        "url",
        &format!("url: {}…", schemes.first().copied().unwrap_or_default()),
        findings,
    );
    address_at(
        node?,
        &format!("{what}.url"),
        schemes,
        environment,
        findings,
    )
}

pub(super) fn address_at(
    node: &YamlNode,
    what: &str,
    schemes: &[&str],
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Secret> {
    let url = read::expanded_text(node, what, environment, findings)?;
    if !schemes
        .iter()
        .any(|s| url.value.len() > s.len() && url.value.starts_with(s))
    {
        findings.error(
            url.place,
            format!("{what} must start with {}", schemes.join(" or ")),
        );
        return None;
    }
    Some(Secret::from(url.value))
}
