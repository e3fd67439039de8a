//! Reads what roles may write, and how values are randomised on the way: `roles[].writes`,
//! `local:` and `database.write_url`.

use super::addresses::{POSTGRES, address, address_at};
use super::columns::names;
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::{Fields, VariableLookup};
use crate::policy::yaml::tree::YamlNode;
use crate::policy::{Secret, TableName};

/// The fewest bytes of the secret: as many as the keyed hash gives.
const SECRET_BYTES_MIN: usize = 32;

/// `local: {secret: …, memo: true}`.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalRule {
    pub place: Location,
    /// The key of memoised reports; `None` with `memo: false`.
    pub secret: Option<Secret>,
}

/// The database's addresses: for reading, and for writing where there is one.
pub(super) fn database(
    node: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> (Option<Secret>, Option<Secret>) {
    let Some(mut fields) = Fields::open(node, "database", findings) else {
        return (None, None);
    };
    fields.not_offered(
        "public_url",
        "public tables above limits.mirror_rows cannot be joined to released values",
        findings,
    );
    let url = address(&mut fields, "database", &POSTGRES, environment, findings);
    let write = fields.optional("write_url");
    let what = "database.write_url";
    let write = write.and_then(|node| address_at(node, what, &POSTGRES, environment, findings));
    fields.done(findings);
    (url, write)
}

/// How reports are made again, or drawn anew.
pub(super) fn local(
    node: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<LocalRule> {
    let mut fields = Fields::open(node, "local", findings)?;
    let secret = fields.optional("secret");
    let place = secret.map_or(node.place, |node| node.place);
    let secret =
        secret.map(|node| read::expanded_text(node, "local.secret", environment, findings));
    let memo = fields
        .optional("memo")
        .map_or(Some(true), |node| read::truth(node, "local.memo", findings));
    fields.done(findings);
    let rule = |secret| LocalRule {
        place: node.place,
        secret,
    };
    match (memo?, secret) {
        (false, None) => Some(rule(None)),
        (false, Some(_)) => {
            let message = "local.secret is not used with memo: false; leave one of them out";
            findings.error(place, message);
            None
        }
        (true, None) => {
            findings.error(
                place,
                "local has no \"secret\"; write `secret: ${PGVEIL_LOCAL_SECRET}`, or `memo: \
                    false`, with which every report is drawn anew",
            );
            None
        }
        (true, Some(secret)) => {
            let secret = secret?.value;
            if secret.len() < SECRET_BYTES_MIN {
                let message = format!(
                    "local.secret must have at least {SECRET_BYTES_MIN} bytes; make one with \
                        `openssl rand -hex 32`"
                );
                findings.error(place, message);
                return None;
            }
            Some(rule(Some(Secret::from(secret))))
        }
    }
}

/// The tables that a role writes.
pub(super) fn tables(node: &YamlNode, who: &str, findings: &mut Findings) -> Vec<At<TableName>> {
    let what = format!("writes of {who}");
    let items = read::list(node, &what, "[survey.answers]", findings).unwrap_or_default();
    let mut tables: Vec<At<TableName>> = Vec::new();
    for item in items {
        let Some((text, _)) = read::scalar(item, &what, "schema.table", findings) else {
            continue;
        };
        let name: Option<[String; 2]> = names(text).and_then(|names| names.try_into().ok());
        let Some([schema, name]) = name else {
            let message = format!("{what} must name tables as schema.table, not \"{text}\"");
            findings.error(item.place, message);
            continue;
        };
        let value = TableName { schema, name };
        if tables.iter().any(|known| known.value == value) {
            findings.error(item.place, format!("{what} names {value} twice"));
            continue;
        }
        let place = item.place;
        tables.push(At { place, value });
    }
    tables
}

/// Whether a budget is `none`: of a role that asks nothing.
pub(super) fn is_none(node: &YamlNode) -> bool {
    use crate::policy::yaml::tree::YamlValue;
    matches!(&node.value, YamlValue::Scalar { text, quoted: false } if text == "none")
}
