//! Reads the `operators:` section: who may watch the proxy, and who acts for the data's owner.

use super::roles;
use crate::policy::error::{Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::{Fields, VariableLookup};
use crate::policy::yaml::tree::YamlNode;
use crate::policy::{Certificate, Operator, Rights};

/// The operators, each with the place of its `certificate`. None has the name of a role: the name
/// alone says who logs in.
pub fn read(
    node: &YamlNode,
    roles: &[&str],
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Vec<(Operator, Location)>> {
    let items = read::list(
        node,
        "operators",
        "[{name: olga, password: …, may: [watch, own]}]",
        findings,
    )?;
    let mut operators: Vec<(Operator, Location)> = Vec::new();
    for item in items {
        let Some((operator, place)) = operator(item, environment, findings) else {
            continue;
        };
        let name = &operator.name;
        if operators.iter().any(|(known, _)| known.name == *name) {
            findings.error(item.place, format!("operator \"{name}\" is given twice"));
        } else if roles.contains(&name.as_str()) {
            findings.error(
                item.place,
                format!("\"{name}\" is a role; an operator needs another name"),
            );
        } else {
            operators.push((operator, place));
        }
    }
    Some(operators)
}

fn operator(
    node: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<(Operator, Location)> {
    let mut fields = Fields::open(node, "an operator", findings)?;
    let name = roles::name_of(&mut fields, "an operator", findings);
    let who = name.map_or("an operator".to_owned(), |name| {
        format!("operator \"{name}\"")
    });
    let verifier = fields
        .require(
            "password",
            "password: SCRAM-SHA-256$…, as `pgveil password` makes it",
            findings,
        )
        .and_then(|node| roles::verifier(node, &who, environment, findings));
    let rights = fields
        .require(
            "may",
            "may: [watch], or [watch, own] to act for the data's owner",
            findings,
        )
        .and_then(|node| rights(node, findings));
    let of_certificate = fields.optional("certificate");
    let certificate = of_certificate.map_or(Some(Certificate::Optional), |node| {
        roles::certificate(node, findings)
    });
    fields.done(findings);
    let operator = Operator {
        name: name?.to_owned(),
        verifier: verifier?,
        certificate: certificate?,
        rights: rights?,
    };
    Some((
        operator,
        of_certificate.map_or(node.place, |node| node.place),
    ))
}

/// `[watch]` or `[watch, own]`.
fn rights(node: &YamlNode, findings: &mut Findings) -> Option<Rights> {
    let items = read::list(node, "may", "[watch] or [watch, own]", findings)?;
    let mut words = Vec::new();
    for item in items {
        words.push(read::scalar(item, "may", "watch or own", findings)?.0);
    }
    words.sort_unstable();
    match words.as_slice() {
        ["watch"] => Some(Rights::Watch),
        ["own", "watch"] => Some(Rights::Own),
        _ => {
            findings.error(
                node.place,
                "may must be [watch] (sessions and health) or [watch, own] (also budgets, \
                    statements, the policy and freezes)",
            );
            None
        }
    }
}
