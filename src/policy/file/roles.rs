//! Reads the `roles:` section: who may ask, how they prove it, and what they may spend.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::privacy;
use super::privacy::PrivacyTerms;
use super::writing;
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::{Fields, VariableLookup};
use crate::policy::yaml::tree::YamlNode;
use crate::policy::{
    Budget, Ceilings, Certificate, Renew, Role, RoleReuse, SESSION_SETTINGS, Secret,
    SessionSettings, TableName, path_names, path_of,
};

/// The limits that the rest of the file sets for roles.
#[derive(Debug, Clone, Copy)]
pub struct RoleLimits {
    pub owner: PrivacyTerms,
    pub ceilings: Ceilings,
}

/// The roles, and where each one's settings stand.
pub fn read(
    node: &YamlNode,
    allowed: &RoleLimits,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Vec<(Role, Places)>> {
    let items = read::list(
        node,
        "roles",
        "[{name: analyst, password: …, budget: …}]",
        findings,
    )?;
    if items.is_empty() {
        findings.error(node.place, "roles is empty; without a role nobody can ask");
    }
    let mut roles: Vec<(Role, Places)> = Vec::new();
    for item in items {
        let Some((role, places)) = role(item, allowed, environment, findings) else {
            continue;
        };
        if roles.iter().any(|(r, _)| r.name == role.name) {
            findings.error(item.place, format!("role \"{}\" is given twice", role.name));
        } else {
            roles.push((role, places));
        }
    }
    Some(roles)
}

/// The places of a role's fields, or that of the role where it has none.
#[derive(Debug, Clone)]
pub struct Places {
    pub settings: Location,
    pub certificate: Location,
    /// The tables that the role writes.
    pub writes: Vec<At<TableName>>,
}

fn role(
    node: &YamlNode,
    allowed: &RoleLimits,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<(Role, Places)> {
    let mut fields = Fields::open(node, "a role", findings)?;
    let name = name_of(&mut fields, "a role", findings);
    let who = name.map_or("a role".to_owned(), |name| format!("role \"{name}\""));
    let verifier = fields
        .require(
            "password",
            "password: SCRAM-SHA-256$…, as `pgveil password` makes it",
            findings,
        )
        .and_then(|node| verifier(node, &who, environment, findings));
    let spending = spending(&mut fields, &who, &allowed.owner, findings);
    let of_writes = fields.optional("writes");
    let writes = of_writes.map_or(Vec::new(), |node| writing::tables(node, &who, findings));
    let reuse = match fields.optional("reuse") {
        None => Some(RoleReuse::Chosen),
        Some(node) => reuse(node, findings),
    };
    let of_certificate = fields.optional("certificate");
    let certificate = of_certificate.map_or(Some(Certificate::Optional), |node| {
        certificate(node, findings)
    });
    let chosen = fields.optional("settings");
    let (session_settings, search_path) = chosen.map_or_else(Default::default, |node| {
        settings(node, &who, &allowed.ceilings, findings)
    });
    fields.done(findings);
    let (asks, budget, renew) = spending?;
    if !asks && of_writes.is_none() {
        let message = format!("{who} has budget: none, so it must have `writes: [schema.table]`");
        findings.error(node.place, message);
    }
    let role = Role {
        name: name?.to_owned(),
        verifier: verifier?,
        certificate: certificate?,
        budget,
        asks,
        writes: writes.iter().map(|table| table.value.clone()).collect(),
        renew,
        reuse: reuse?,
        session_settings,
        search_path,
    };
    let place = |field: Option<&YamlNode>| field.map_or(node.place, |node| node.place);
    let places = Places {
        settings: place(chosen),
        certificate: place(of_certificate),
        writes,
    };
    Some((role, places))
}

/// Whether a role asks at all, what it may spend, and when that renews.
fn spending(
    fields: &mut Fields<'_>,
    who: &str,
    owner: &PrivacyTerms,
    findings: &mut Findings,
) -> Option<(bool, Budget, Renew)> {
    let node = fields.require(
        "budget",
        "budget: {epsilon: 1, delta: 1e-7}; a role without a budget cannot ask",
        findings,
    )?;
    if writing::is_none(node) {
        return Some((false, unused_budget(owner), Renew::Never));
    }
    let what = format!("the budget of {who}");
    let (budget, renew) = privacy::budget(node, &what, owner.accounting, findings)?;
    check_budget(node.place, who, budget, renew, owner, findings);
    Some((true, budget, renew))
}

/// The budget of a role that asks nothing: next to nothing, which no question reaches.
fn unused_budget(owner: &PrivacyTerms) -> Budget {
    let most = owner.budget.unwrap_or(UNUSED);
    Budget {
        epsilon: UNUSED.epsilon.min(most.epsilon),
        delta: UNUSED.delta.min(most.delta),
    }
}

const UNUSED: Budget = Budget {
    epsilon: 0.01,
    delta: 1e-9,
};

/// The name of a role or an operator.
pub(super) fn name_of<'n>(
    fields: &mut Fields<'n>,
    whose: &str,
    findings: &mut Findings,
) -> Option<&'n str> {
    let node = fields.require("name", "name: analyst", findings)?;
    let what = format!("the name of {whose}");
    let (name, _) = read::scalar(node, &what, "a name of at most 63 bytes", findings)?;
    if name.len() > 63 || name.contains(char::is_control) {
        findings.error(
            node.place,
            format!("{what} must have at most 63 bytes and no control characters"),
        );
    }
    Some(name)
}

/// Whether the budget can buy anything, and fits into the owner's.
fn check_budget(
    place: Location,
    who: &str,
    budget: Budget,
    renew: Renew,
    owner: &PrivacyTerms,
    findings: &mut Findings,
) {
    match renew {
        Renew::Never => {}
        Renew::Weekly | Renew::Monthly => findings.warning(
            place,
            format!(
                "the budget of {who} is renewed: what it learns adds up period by period, and \
                only the owner's total (privacy.budget) ends it"
            ),
        ),
    }
    privacy::spendable(
        place,
        &format!("the budget of {who}"),
        budget,
        owner,
        findings,
    );
    if let Some(total) = owner.budget
        && (budget.epsilon > total.epsilon || budget.delta > total.delta)
    {
        findings.error(
            place,
            format!(
                "the budget of {who} is more than the owner's whole budget (privacy.budget), \
                which covers every role together"
            ),
        );
    }
}

/// The settings that the role's sessions start with: `{epsilon: 0.5, keys: domain, search_path:
/// "sales, public"}`, each as after SET.
fn settings(
    node: &YamlNode,
    who: &str,
    ceilings: &Ceilings,
    findings: &mut Findings,
) -> (SessionSettings, Option<String>) {
    let mut session_settings = SessionSettings::default();
    let Some(mut fields) = Fields::open(node, format!("the settings of {who}"), findings) else {
        return (session_settings, None);
    };
    for setting in SESSION_SETTINGS {
        let Some(key) = setting.name.strip_prefix("pgveil.") else {
            continue;
        };
        let Some(node) = fields.optional(key) else {
            continue;
        };
        let Some((text, _)) = read::scalar(node, setting.name, "a single value", findings) else {
            continue;
        };
        if let Err(refusal) = session_settings.set(setting.name, text) {
            findings.error(
                node.place,
                format!("{key} in the settings of {who}: {refusal}"),
            );
        }
    }
    let path = fields
        .optional("search_path")
        .and_then(|node| search_path(node, findings));
    fields.done(findings);
    for refusal in session_settings.past(ceilings) {
        findings.error(node.place, format!("the settings of {who}: {refusal}"));
    }
    (session_settings, path)
}

/// A list of schemas, as SHOW prints it.
fn search_path(node: &YamlNode, findings: &mut Findings) -> Option<String> {
    let (text, _) = read::scalar(
        node,
        "search_path",
        "a list of schemas, such as \"sales, public\"",
        findings,
    )?;
    let names = path_names(text);
    if names.is_none() {
        findings.error(
            node.place,
            format!(
                "search_path must be a list of schemas with commas, with double quotes where \
                they are not plain, not \"{text}\""
            ),
        );
    }
    names.map(|names| path_of(&names))
}

/// `reuse: always` or `reuse: chosen`.
fn reuse(node: &YamlNode, findings: &mut Findings) -> Option<RoleReuse> {
    match read::scalar(node, "reuse", "always or chosen", findings)?.0 {
        "always" => Some(RoleReuse::Always),
        "chosen" => Some(RoleReuse::Chosen),
        _ => {
            findings.error(
                node.place,
                "reuse must be always (the same question always gets the same answer) or chosen \
                    (the session's pgveil.reuse says)",
            );
            None
        }
    }
}

/// `certificate: optional` or `certificate: required`.
pub(super) fn certificate(node: &YamlNode, findings: &mut Findings) -> Option<Certificate> {
    match read::scalar(node, "certificate", "optional or required", findings)?.0 {
        "optional" => Some(Certificate::Optional),
        "required" => Some(Certificate::Required),
        other => {
            findings.error(
                node.place,
                format!(
                    "certificate must be optional or required (one made out to the same name, \
                    in addition to the password), not \"{other}\""
                ),
            );
            None
        }
    }
}

/// A SCRAM verifier as PostgreSQL stores it. Messages never show it: it lets its holder pretend to
/// be the server.
pub(super) fn verifier(
    node: &YamlNode,
    who: &str,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Secret> {
    let text = read::expanded_text(
        node,
        &format!("the password of {who}"),
        environment,
        findings,
    )?;
    match scram(&text.value) {
        Ok(()) => Some(Secret::from(text.value)),
        Err(why) => {
            findings.error(
                node.place,
                format!("the password of {who} {why}; make one with `pgveil password`"),
            );
            None
        }
    }
}

/// `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`.
fn scram(text: &str) -> Result<(), &'static str> {
    let Some(rest) = text.strip_prefix("SCRAM-SHA-256$") else {
        return Err("must be a SCRAM-SHA-256 verifier, never the password itself");
    };
    let malformed =
        "is not a whole SCRAM verifier (SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey)";
    let (iterations, salt, stored, server) = rest
        .split_once('$')
        .and_then(|(head, keys)| Some((head.split_once(':')?, keys.split_once(':')?)))
        .map(|((iterations, salt), (stored, server))| (iterations, salt, stored, server))
        .ok_or(malformed)?;
    let key = |text: &str| STANDARD.decode(text).is_ok_and(|k| k.len() == 32);
    if !iterations.bytes().all(|b| b.is_ascii_digit())
        || !STANDARD.decode(salt).is_ok_and(|s| !s.is_empty())
        || !key(stored)
        || !key(server)
    {
        return Err(malformed);
    }
    match iterations.parse::<u32>() {
        Ok(n) if (4096..=10_000_000).contains(&n) => Ok(()),
        Ok(_) => Err("has an iteration count outside 4096 to 10000000"),
        Err(_) => Err(malformed),
    }
}
