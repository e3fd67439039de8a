//! Reads `ledger: {url: …, witness: file:///path, same_disk: true}`, where `witness` may be a list.

use std::path::PathBuf;

use super::addresses::{POSTGRES, address};
use crate::policy::error::Findings;
use crate::policy::yaml::read;
use crate::policy::yaml::read::{Fields, VariableLookup};
use crate::policy::yaml::tree::{YamlNode, YamlValue};
use crate::policy::{Secret, WitnessAddress, WitnessPlace};

const WANTED: &str = "[file:///srv/witness/pgveil.witness, postgres://user@host/database]";

pub fn read(
    node: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<(Option<Secret>, Vec<WitnessAddress>)> {
    const SCHEMES: [&str; 3] = ["sqlite://", POSTGRES[0], POSTGRES[1]];
    let mut fields = Fields::open(node, "ledger", findings)?;
    let url = address(&mut fields, "ledger", &SCHEMES, environment, findings);
    let (witness, same_disk) = (fields.optional("witness"), fields.optional("same_disk"));
    fields.done(findings);
    if let (Some(node), None) = (same_disk, witness) {
        findings.error(node.place, "ledger.same_disk is about ledger.witness");
    }
    let same_disk = same_disk
        .and_then(|node| read::truth(node, "ledger.same_disk", findings))
        .unwrap_or(false);
    let nodes = match witness {
        Some(node) if matches!(node.value, YamlValue::List(_)) => {
            read::list(node, "ledger.witness", WANTED, findings)?
        }
        Some(node) => std::slice::from_ref(node),
        None => &[],
    };
    if let (Some(node), true) = (witness, nodes.is_empty()) {
        let empty = format!("ledger.witness is empty; write a list such as {WANTED}");
        findings.error(node.place, empty);
    }
    let mut witnesses: Vec<WitnessAddress> = Vec::new();
    for node in nodes {
        let Some(place) = place(node, environment, findings) else {
            continue;
        };
        if witnesses.iter().any(|other| other.place == place) {
            findings.error(node.place, "ledger.witness names this place twice");
        }
        witnesses.push(WitnessAddress { place, same_disk });
    }
    Some((url, witnesses))
}

fn place(
    node: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<WitnessPlace> {
    let url = read::expanded_text(node, "ledger.witness", environment, findings)?;
    if POSTGRES.iter().any(|scheme| url.value.starts_with(scheme)) {
        return Some(WitnessPlace::Server(url.value.into()));
    }
    let path = url.value.strip_prefix("file://");
    let path = path.filter(|path| path.starts_with('/') && !path.ends_with('/'));
    if path.is_none() {
        findings.error(
            url.place,
            "ledger.witness must be a file, such as file:///srv/witness/pgveil.witness, or a \
                PostgreSQL, such as postgres://user@host/database",
        );
    }
    path.map(|path| WitnessPlace::File(PathBuf::from(path)))
}
