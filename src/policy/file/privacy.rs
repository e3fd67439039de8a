//! Reads the `privacy:` section: the word for a unit, the owner's budget, the price of a query.

use crate::policy::error::{Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::{YamlNode, YamlValue};
use crate::policy::{Accounting, Budget, EPSILON_MAX, Privacy, Renew, cap};

/// No database has more units than this.
const UNITS_MAX: u64 = 1_000_000_000_000;

/// What other sections are compared with: each part of `privacy:` that could be read, whatever is
/// wrong with the rest.
#[derive(Debug, Default, Clone, Copy)]
pub struct PrivacyTerms {
    pub budget: Option<Budget>,
    pub accounting: Option<Accounting>,
    pub threshold_share: Option<f64>,
    pub epsilon_max: Option<f64>,
    pub epsilon_min: Option<f64>,
}

pub fn read(node: &YamlNode, findings: &mut Findings) -> (Option<Privacy>, PrivacyTerms) {
    let Some(mut fields) = Fields::open(node, "privacy", findings) else {
        return (None, PrivacyTerms::default());
    };
    let unit = unit(&mut fields, findings);
    let accounting = match fields.optional("accounting") {
        None => Some(Accounting::Gdp),
        Some(node) => accounting(node, findings),
    };
    let budget = fields
        .require("budget", "budget: {epsilon: 8, delta: 1e-6}", findings)
        .and_then(|node| {
            budget(node, "privacy.budget", accounting, findings).map(|budget| (node, budget))
        })
        .and_then(|(node, (budget, renew))| {
            lasting(node.place, budget, renew, findings).map(|budget| (node, budget))
        });
    let per_query = match fields.optional("per_query") {
        None => Some(PerQuery::new(0.1, 1.0, None)),
        Some(node) => per_query(node, findings),
    };
    let threshold_share = fields
        .optional("threshold_share")
        .map_or(Some(0.005), |node| threshold_share(node, findings));
    let data_version = match fields.optional("data_version") {
        None => Some("1".to_owned()),
        Some(node) => data_version(node, findings),
    };
    let units = match fields.optional("units") {
        None => Some(None),
        Some(node) => units(node, findings).map(Some),
    };
    fields.done(findings);
    if let (Some((_, budget)), Some(PerQuery { epsilon, .. })) = (budget, per_query)
        && epsilon > budget.epsilon
    {
        findings.warning(
            node.place,
            "the epsilon of one query is more than the owner's whole budget",
        );
    }
    let (epsilon_max, epsilon_min) = (
        per_query.map(|per_query| per_query.max),
        per_query.map(|per_query| per_query.min),
    );
    let owner = PrivacyTerms {
        budget: budget.map(|(_, budget)| budget),
        accounting,
        threshold_share,
        epsilon_max,
        epsilon_min,
    };
    if let Some((node, budget)) = budget {
        spendable(node.place, "privacy.budget", budget, &owner, findings);
    }
    let whole = || {
        let PerQuery { epsilon, max, min } = per_query?;
        Some(Privacy {
            unit: unit?,
            budget: owner.budget?,
            epsilon_default: epsilon,
            epsilon_max: max,
            epsilon_min: min,
            accounting: accounting?,
            threshold_share: threshold_share?,
            data_version: data_version?,
            units: units?,
        })
    };
    (whole(), owner)
}

fn threshold_share(node: &YamlNode, findings: &mut Findings) -> Option<f64> {
    read::plain_number(
        node,
        "privacy.threshold_share",
        "a number above 0 and below 1",
        |x| x > 0.0 && x < 1.0,
        findings,
    )
}

/// About how many units there are.
fn units(node: &YamlNode, findings: &mut Findings) -> Option<u64> {
    let wanted = format!("a whole number from 1 to {UNITS_MAX}, such as 2500");
    let (text, _) = read::scalar(node, "privacy.units", &wanted, findings)?;
    let number = text.parse().ok().filter(|n| (1..=UNITS_MAX).contains(n));
    if number.is_none() {
        findings.error(
            node.place,
            format!("privacy.units must be {wanted}, not \"{text}\""),
        );
    }
    number
}

fn unit(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<String> {
    let node = fields.require("unit", "unit: person", findings)?;
    let what = "a word for one person or thing that is protected";
    let (text, _) = read::scalar(node, "privacy.unit", what, findings)?;
    Some(text.to_owned())
}

/// A budget that is too small for its accounting buys nothing.
pub fn spendable(
    place: Location,
    what: &str,
    budget: Budget,
    owner: &PrivacyTerms,
    findings: &mut Findings,
) {
    let (Some(accounting), Some(share)) = (owner.accounting, owner.threshold_share) else {
        return;
    };
    if let Err(error) = cap(budget, share, accounting) {
        findings.error(place, format!("{what}: {error}"));
    }
}

/// The owner's total binds for ever.
fn lasting(
    place: Location,
    budget: Budget,
    renew: Renew,
    findings: &mut Findings,
) -> Option<Budget> {
    match renew {
        Renew::Never => Some(budget),
        Renew::Weekly | Renew::Monthly => {
            findings.error(
                place,
                "privacy.budget is never renewed: it is the most that all roles \
                    together may ever learn; renew the budgets of roles",
            );
            None
        }
    }
}

fn accounting(node: &YamlNode, findings: &mut Findings) -> Option<Accounting> {
    match read::scalar(node, "privacy.accounting", "gdp, zcdp or pure", findings)? {
        ("gdp", _) => Some(Accounting::Gdp),
        ("zcdp", _) => Some(Accounting::Zcdp),
        ("pure", _) => Some(Accounting::Pure),
        (other, _) => {
            findings.error(
                node.place,
                format!("privacy.accounting must be gdp, zcdp or pure, not \"{other}\""),
            );
            None
        }
    }
}

/// `{epsilon, delta, renew}` of the owner or of a role. Which delta is allowed depends on the
/// accounting; where that is unknown, the strict rule holds.
pub fn budget(
    node: &YamlNode,
    what: &str,
    accounting: Option<Accounting>,
    findings: &mut Findings,
) -> Option<(Budget, Renew)> {
    let mut fields = Fields::open(node, what, findings)?;
    let epsilon = fields
        .require("epsilon", "epsilon: 1", findings)
        .and_then(|node| read::positive(node, &format!("{what}.epsilon"), EPSILON_MAX, findings));
    let pure = accounting == Some(Accounting::Pure);
    let delta = if pure {
        fields.optional("delta")
    } else {
        fields.require("delta", "delta: 1e-7", findings)
    };
    let delta = match delta {
        None if pure => Some(0.0),
        None => None,
        Some(node) if pure => read::plain_number(
            node,
            &format!("{what}.delta"),
            "a number from 0 and below 1",
            |x| (0.0..1.0).contains(&x),
            findings,
        ),
        Some(node) => read::plain_number(
            node,
            &format!("{what}.delta"),
            "a number above 0 and below 1",
            |x| x > 0.0 && x < 1.0,
            findings,
        ),
    };
    let renew = fields
        .optional("renew")
        .map_or(Some(Renew::Never), |node| renew(node, what, findings));
    fields.done(findings);
    Some((
        Budget {
            epsilon: epsilon?,
            delta: delta?,
        },
        renew?,
    ))
}

fn renew(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Renew> {
    match read::scalar(
        node,
        &format!("{what}.renew"),
        "never, weekly or monthly",
        findings,
    )?
    .0
    {
        "never" => Some(Renew::Never),
        "weekly" => Some(Renew::Weekly),
        "monthly" => Some(Renew::Monthly),
        other => {
            findings.error(
                node.place,
                format!("{what}.renew must be never, weekly or monthly, not \"{other}\""),
            );
            None
        }
    }
}

/// The limits on one query's spending.
#[derive(Debug, Clone, Copy)]
struct PerQuery {
    epsilon: f64,
    max: f64,
    min: f64,
}

impl PerQuery {
    /// The least is a hundredth of the default where nothing is said.
    fn new(epsilon: f64, max: f64, min: Option<f64>) -> Self {
        Self {
            epsilon,
            max,
            min: min.unwrap_or(epsilon / 100.0),
        }
    }
}

fn per_query(node: &YamlNode, findings: &mut Findings) -> Option<PerQuery> {
    let mut fields = Fields::open(node, "privacy.per_query", findings)?;
    let default = fields
        .require("epsilon", "epsilon: 0.1", findings)
        .and_then(|node| read::positive(node, "privacy.per_query.epsilon", EPSILON_MAX, findings));
    let max = match fields.optional("max_epsilon") {
        None => default,
        Some(node) => read::positive(node, "privacy.per_query.max_epsilon", EPSILON_MAX, findings),
    };
    let min = match fields.optional("min_epsilon") {
        None => Some(None),
        Some(node) => {
            read::positive(node, "privacy.per_query.min_epsilon", EPSILON_MAX, findings).map(Some)
        }
    };
    let place: Location = fields.place();
    fields.done(findings);
    let (default, max, min) = (default?, max?, min?);
    if max < default {
        findings.error(
            place,
            format!(
                "privacy.per_query.max_epsilon ({max}) must not be below its epsilon ({default})"
            ),
        );
    }
    if let Some(min) = min
        && min > default
    {
        findings.error(
            place,
            format!(
                "privacy.per_query.min_epsilon ({min}) must not be above its epsilon ({default})"
            ),
        );
    }
    Some(PerQuery::new(default, max, min))
}

fn data_version(node: &YamlNode, findings: &mut Findings) -> Option<String> {
    if let YamlValue::Map(_) = node.value {
        findings.error(
            node.place,
            "a data_version that changes by itself is not offered yet; \
            write \
            a label such as \"2026-11\"",
        );
        return None;
    }
    read::scalar(
        node,
        "privacy.data_version",
        "a label such as \"2026-11\"",
        findings,
    )
    .map(|(text, _)| text.to_owned())
}
