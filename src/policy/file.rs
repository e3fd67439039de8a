//! Reads the policy file: its shape and everything that can be known without a database.

mod addresses;
mod collected;
mod columns;
mod holdout;
mod ledger;
mod operators;
mod periods;
mod privacy;
mod rappor;
mod roles;
mod summaries;
mod tables;
mod writing;

pub use columns::{ColumnEntry, ColumnRule, Literal, names};
pub use periods::{PeriodsRule, PrepaidRule};
pub use summaries::{KeyEntry, SummaryEntry};
pub use tables::{PathStep, RowsRule, TableEntry, TableRule, UnitRule};
pub use writing::LocalRule;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::error::{At, Findings, Location, PolicyError};
use super::yaml::read;
use super::yaml::read::{Fields, VariableLookup};
use super::yaml::tree;
use super::yaml::tree::YamlNode;
use super::{
    Ceilings, Certificate, Limits, Operator, Previews, Privacy, Role, Secret, TableName,
    WitnessAddress,
};
use addresses::url;
use privacy::PrivacyTerms;
use roles::{Places, RoleLimits};

/// The SHA-256 of a policy file's text, as `sha256sum` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDigest(pub [u8; 32]);

impl FileDigest {
    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Its first eight bytes, by which people can distinguish files.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(16);
        text
    }
}

impl std::fmt::Display for FileDigest {
    /// Lower-case hexadecimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A role or an operator that needs a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certified {
    pub name: String,
    pub is_operator: bool,
    /// The place of `certificate: required`.
    pub place: Location,
}

/// A policy file that is whole in itself; `check` compares it with the database.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// The name that messages show.
    pub name: String,
    pub digest: FileDigest,
    pub database_url: Option<Secret>,
    /// For what roles write.
    pub write_url: Option<Secret>,
    pub ledger_url: Option<Secret>,
    /// Each learns of every charge.
    pub ledger_witnesses: Vec<WitnessAddress>,
    pub shadow_url: Option<Secret>,
    pub privacy: Privacy,
    pub roles: Vec<Role>,
    /// The place of each role's settings, or of the role where it has none.
    pub role_places: Vec<Location>,
    /// The tables that each role writes, parallel to `roles`.
    pub writes: Vec<Vec<At<TableName>>>,
    /// How reports of local columns are made.
    pub local: Option<LocalRule>,
    pub operators: Vec<Operator>,
    /// Roles and operators with `certificate: required`.
    pub certified: Vec<Certified>,
    pub tables: Vec<TableEntry>,
    pub summaries: Vec<SummaryEntry>,
    pub limits: Limits,
    pub previews: Previews,
    /// Whether the shape of each statement is recorded.
    pub records_shape: bool,
    /// What the time of answers about private rows is rounded up to.
    pub quantum: Option<Duration>,
    /// What `now()` is rounded down to in conditions on private rows.
    pub time_grain: Option<Duration>,
    /// Where findings about the database as a whole are shown.
    pub database_place: Location,
    /// Warnings for its owner.
    pub warnings: Vec<PolicyError>,
}

impl File {
    /// Parses the text of a policy; `environment` resolves `${NAME}`. All errors are reported at
    /// once, in the order of the file.
    pub fn parse(
        name: &str,
        text: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<PolicyError>> {
        Self::parse_with(name, text, &|variable, _| environment(variable))
    }

    /// Parses a file where secrets may be out of reach: a variable that is not set has a stand-in,
    /// equal for equal names. Such a file is compared, never served.
    pub fn parse_without_secrets(
        name: &str,
        text: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<PolicyError>> {
        Self::parse_with(name, text, &|variable, what| {
            environment(variable).or_else(|| Some(stand_in(variable, what)))
        })
    }

    fn parse_with(
        name: &str,
        text: &str,
        environment: VariableLookup<'_>,
    ) -> Result<Self, Vec<PolicyError>> {
        let mut findings = Findings::new(name);
        let file = tree::parse(text, &mut findings)
            .and_then(|root| read(name, &root, environment, &mut findings));
        match file {
            Some(file) if findings.errors.is_empty() => Ok(Self {
                digest: FileDigest::of(text),
                warnings: findings.into_warnings(),
                ..file
            }),
            _ => Err(findings.into_errors()),
        }
    }

    /// Whether the file lists this table.
    pub fn names(&self, schema: &str, table: &str) -> bool {
        self.tables
            .iter()
            .any(|entry| (entry.schema.as_str(), entry.name.as_str()) == (schema, table))
    }
}

/// The stand-in for an unset variable, in the place that needs it.
fn stand_in(variable: &str, what: &str) -> String {
    match what {
        "database.url" | "database.write_url" | "shadow.url" => {
            format!("postgresql://host/{variable}")
        }
        "ledger.url" => format!("sqlite:///{variable}"),
        "ledger.witness" => format!("file:///{variable}"),
        _ => {
            let keys = STANDARD.encode([0; 32]);
            let salt = STANDARD.encode(variable);
            format!("SCRAM-SHA-256$4096:{salt}${keys}:{keys}")
        }
    }
}

#[allow(
    clippy::too_many_lines,
    reason = "a few lines for each key of the policy"
)]
fn read(
    name: &str,
    root: &YamlNode,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<File> {
    let mut fields = Fields::open(root, "the policy", findings)?;
    if let Some(node) = fields.require("version", "version: 1", findings) {
        read::count::<u32>(node, "version", 1..=1, findings);
    }
    let database = fields.optional("database");
    let (of_ledger, shadow) = (fields.optional("ledger"), fields.optional("shadow"));
    let (database_url, write_url) = database
        .map(|node| writing::database(node, environment, findings))
        .unwrap_or_default();
    let (ledger_url, ledger_witnesses) = of_ledger
        .and_then(|node| ledger::read(node, environment, findings))
        .unwrap_or_default();
    let shadow_url = shadow.and_then(|node| url(node, "shadow", environment, findings));
    let (privacy, owner) = fields
        .require(
            "privacy",
            "privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}",
            findings,
        )
        .map_or((None, PrivacyTerms::default()), |node| {
            privacy::read(node, findings)
        });
    let roles = fields.require(
        "roles",
        "roles: [{name: …, password: …, budget: {epsilon: 1, delta: 1e-7}}]",
        findings,
    );
    let tables = fields
        .require("tables", "tables: {schema.table: …}", findings)
        .and_then(|node| tables::read(node, findings));
    let summaries = fields.optional("summaries");
    let summaries = summaries.map_or(Vec::new(), |node| summaries::read(node, findings));
    let limits = match fields.optional("limits") {
        Some(node) => limits(node, findings),
        None => Some(LIMITS),
    };
    let ceilings = ceilings(&owner, limits.as_ref(), tables.as_deref());
    let roles = roles
        .and_then(|node| roles::read(node, &RoleLimits { owner, ceilings }, environment, findings));
    let operators = fields.optional("operators");
    let operators = operators_of(operators, roles.as_deref(), environment, findings);
    let (grain, quantum) = (fields.optional("time_grain"), fields.optional("timing"));
    let time_grain = grain.and_then(|node| duration(node, "time_grain", findings));
    let quantum = quantum.and_then(|node| timing(node, findings));
    let local = fields.optional("local");
    let local = local.and_then(|node| writing::local(node, environment, findings));
    let previews = previews(fields.optional("previews"), findings);
    let records_shape = record(fields.optional("record"), findings);
    fields.done(findings);
    let (roles, operators) = (roles?, operators?);
    let certified = needing_certificate(&roles, &operators);
    let (roles, places) = roles.into_iter().unzip::<_, _, Vec<Role>, Vec<Places>>();
    Some(File {
        name: name.to_owned(),
        // The caller sets the digest of the whole text.
        digest: FileDigest([0; 32]),
        database_url,
        write_url,
        ledger_url,
        ledger_witnesses,
        shadow_url,
        privacy: privacy?,
        roles,
        role_places: places.iter().map(|places| places.settings).collect(),
        writes: places.into_iter().map(|places| places.writes).collect(),
        local,
        operators: operators.into_iter().map(|(who, _)| who).collect(),
        certified,
        tables: tables?,
        summaries,
        limits: limits?,
        previews: previews?,
        records_shape: records_shape?,
        quantum,
        time_grain,
        database_place: database.map_or(root.place, |node| node.place),
        warnings: Vec::new(),
    })
}

/// The operators, none of whom has the name of a role.
fn operators_of(
    node: Option<&YamlNode>,
    roles: Option<&[(Role, Places)]>,
    environment: VariableLookup<'_>,
    findings: &mut Findings,
) -> Option<Vec<(Operator, Location)>> {
    let of_roles = roles.iter().copied().flatten();
    let of_roles: Vec<&str> = of_roles.map(|(role, _)| role.name.as_str()).collect();
    match node {
        Some(node) => operators::read(node, &of_roles, environment, findings),
        None => Some(Vec::new()),
    }
}

/// The roles and operators that need a certificate.
fn needing_certificate(
    roles: &[(Role, Places)],
    operators: &[(Operator, Location)],
) -> Vec<Certified> {
    let of_roles = roles
        .iter()
        .map(|(role, places)| (&role.name, role.certificate, places.certificate, false));
    let of_operators = operators
        .iter()
        .map(|(operator, place)| (&operator.name, operator.certificate, *place, true));
    let all = of_roles.chain(of_operators);
    all.filter(|(_, needed, _, _)| *needed == Certificate::Required)
        .map(|(name, _, place, is_operator)| Certified {
            name: name.clone(),
            is_operator,
            place,
        })
        .collect()
}

/// The ceilings of roles' settings, as far as the file gives them: a key of the database may still
/// lower the rows.
fn ceilings(
    owner: &PrivacyTerms,
    limits: Option<&Limits>,
    tables: Option<&[TableEntry]>,
) -> Ceilings {
    let rows = |table: &TableEntry| match &table.rule {
        TableRule::Private {
            rows_per_unit:
                Some(At {
                    value: RowsRule::Most(most),
                    ..
                }),
            ..
        } => *most,
        TableRule::Private { .. } | TableRule::Public => 0,
    };
    let declared = tables.map(|tables| tables.iter().map(rows).max().unwrap_or(0));
    Ceilings {
        epsilon: owner.epsilon_max,
        epsilon_least: owner.epsilon_min,
        groups_per_unit: limits.map(|limits| limits.groups_per_unit),
        rows_per_unit: limits
            .zip(declared)
            .map(|(limits, declared)| limits.rows_per_unit.max(declared)),
    }
}

/// `previews: refused`, `previews: empty` or `previews: synthetic`.
fn previews(node: Option<&YamlNode>, findings: &mut Findings) -> Option<Previews> {
    let Some(node) = node else {
        return Some(Previews::Refused);
    };
    match read::scalar(node, "previews", "refused, empty or synthetic", findings)?.0 {
        "refused" => Some(Previews::Refused),
        "empty" => Some(Previews::Empty),
        "synthetic" => Some(Previews::Synthetic),
        other => {
            findings.error(
                node.place,
                format!(
                    "previews must be refused, empty (the right columns and no row) or \
                        synthetic (rows made up from a summary), not \"{other}\""
                ),
            );
            None
        }
    }
}

/// `record: {shape: true}`.
fn record(node: Option<&YamlNode>, findings: &mut Findings) -> Option<bool> {
    let Some(node) = node else {
        return Some(false);
    };
    let mut fields = Fields::open(node, "record", findings)?;
    let shape = fields
        .require("shape", "shape: true", findings)
        .and_then(|node| read::truth(node, "record.shape", findings));
    fields.done(findings);
    shape
}

/// `timing: {quantum: 100ms}`.
fn timing(node: &YamlNode, findings: &mut Findings) -> Option<Duration> {
    let mut fields = Fields::open(node, "timing", findings)?;
    let quantum = fields
        .require("quantum", "quantum: 100ms", findings)
        .and_then(|node| duration(node, "timing.quantum", findings));
    fields.done(findings);
    quantum
}

/// A limit that is never met.
const CONNECTIONS_MAX: u32 = 100_000;

/// The limits where the policy sets none.
const LIMITS: Limits = Limits {
    groups_per_unit: 20,
    rows_per_unit: 1000,
    groups: 100_000,
    mirror_rows: 1_000_000,
    failures: 10,
    monitor_questions: 0,
    statement_timeout: Duration::from_secs(60),
    stream_rows: true,
    connections: 200,
    connections_per_role: CONNECTIONS_MAX,
    connections_per_address: CONNECTIONS_MAX,
};

fn limits(node: &YamlNode, findings: &mut Findings) -> Option<Limits> {
    let mut fields = Fields::open(node, "limits", findings)?;
    let mut limits = LIMITS;
    let connections = 1..=u64::from(CONNECTIONS_MAX);
    let small = [
        (
            "groups_per_unit",
            "limits.groups_per_unit",
            &mut limits.groups_per_unit,
            1..=1_000_000,
        ),
        (
            "rows_per_unit",
            "limits.rows_per_unit",
            &mut limits.rows_per_unit,
            1..=1_000_000,
        ),
        (
            "groups",
            "limits.groups",
            &mut limits.groups,
            1..=10_000_000,
        ),
        (
            "failures",
            "limits.failures",
            &mut limits.failures,
            0..=1_000_000,
        ),
        (
            "monitor_questions",
            "limits.monitor_questions",
            &mut limits.monitor_questions,
            0..=1_000_000,
        ),
        (
            "connections",
            "limits.connections",
            &mut limits.connections,
            connections.clone(),
        ),
        (
            "connections_per_role",
            "limits.connections_per_role",
            &mut limits.connections_per_role,
            connections.clone(),
        ),
        (
            "connections_per_address",
            "limits.connections_per_address",
            &mut limits.connections_per_address,
            connections,
        ),
    ];
    for (key, what, limit, range) in small {
        let node = fields.optional(key);
        if let Some(value) = node.and_then(|node| read::count(node, what, range, findings)) {
            *limit = value;
        }
    }
    let rows = fields
        .optional("mirror_rows")
        .and_then(|node| read::count(node, "limits.mirror_rows", 0..=1_000_000_000, findings));
    limits.mirror_rows = rows.unwrap_or(limits.mirror_rows);
    let time = fields.optional("statement_timeout");
    let time = time.and_then(|node| duration(node, "limits.statement_timeout", findings));
    limits.statement_timeout = time.unwrap_or(limits.statement_timeout);
    limits.stream_rows = stream_rows(&mut fields, findings);
    fields.done(findings);
    Some(limits)
}

fn stream_rows(fields: &mut Fields<'_>, findings: &mut Findings) -> bool {
    fields
        .optional("stream_rows")
        .and_then(|node| read::truth(node, "limits.stream_rows", findings))
        .unwrap_or(LIMITS.stream_rows)
}

/// `500ms`, `60s`, `5min` or `1h`; at most a day.
fn duration(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Duration> {
    const WANTED: &str = "a time such as 500ms, 60s, 5min or 1h, above zero and at most a day";
    let (text, _) = read::scalar(node, what, WANTED, findings)?;
    let time = time_of(text);
    if time.is_none() {
        findings.error(
            node.place,
            format!("{what} must be {WANTED}, not \"{text}\""),
        );
    }
    time
}

/// The duration that a text gives; `None` if it is no duration.
pub fn time_of(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let time = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(n, f): (u64, u64)| n.checked_mul(f))
        .filter(|ms| (1..=86_400_000).contains(ms));
    time.map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
