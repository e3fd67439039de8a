//! Reads how the values of a column were randomised before they were stored.

use super::rappor::read_rappor;
use crate::mechanism::Randomiser;
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::YamlNode;

/// The largest epsilon of a report: beyond it, a report is the truth.
const EPSILON_MAX: f64 = 50.0;

/// What the entry `collected` of a column says.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    pub randomiser: Randomiser,
    /// The column with the cohort of each report, where the randomiser has cohorts.
    pub cohort: Option<At<String>>,
}

pub fn read_collection(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Collection> {
    let mut fields = Fields::open(node, what, findings)?;
    let mechanism = fields.require("mechanism", "mechanism: krr", findings);
    let mechanism = mechanism.and_then(|node| {
        let what = format!("mechanism of {what}");
        let (name, _) = read::scalar(node, &what, MECHANISMS, findings)?;
        if !["coin", "krr", "unary", "mean", "rappor"].contains(&name) {
            findings.error(
                node.place,
                format!("{what} must be {MECHANISMS}, not \"{name}\""),
            );
            return None;
        }
        Some(name)
    });
    if mechanism == Some("rappor") {
        let (rappor, cohort) = read_rappor(fields, (what, node.place), findings)?;
        return Some(Collection {
            randomiser: Randomiser::Rappor(rappor),
            cohort: Some(cohort),
        });
    }
    let randomiser = read_odds(fields, mechanism, (what, node.place), findings)?;
    Some(Collection {
        randomiser,
        cohort: None,
    })
}

/// The rest of an entry of another mechanism than RAPPOR.
fn read_odds(
    mut fields: Fields<'_>,
    mechanism: Option<&str>,
    (what, place): (&str, Location),
    findings: &mut Findings,
) -> Option<Randomiser> {
    let mut given = Given {
        odds: Vec::new(),
        what,
    };
    let odds = [
        ("epsilon", fields.optional("epsilon")),
        ("truth", fields.optional("truth")),
        ("yes", fields.optional("yes")),
        ("one", fields.optional("one")),
        ("zero", fields.optional("zero")),
    ];
    for (name, node) in odds {
        given.read(name, node, findings);
    }
    fields.done(findings);
    let mut odds = |names: &[&'static str], example: &str| {
        let found = given.of(names);
        if found.is_none() && given.odds.iter().all(|(_, value)| value.is_some()) {
            findings.error(
                place,
                format!("{what} must have {example}, and no other odds"),
            );
        }
        found
    };
    match mechanism? {
        "coin" => {
            odds(&["truth", "yes"], "truth: 1/2 and yes: 1/2").map(|found| Randomiser::Coin {
                truth: found[0],
                yes: found[1],
            })
        }
        "krr" => {
            odds(&["epsilon"], "epsilon: 1").map(|found| Randomiser::KRr { epsilon: found[0] })
        }
        "mean" => {
            odds(&["epsilon"], "epsilon: 1").map(|found| Randomiser::Mean { epsilon: found[0] })
        }
        _ if given.of(&["epsilon"]).is_none() => {
            let found = odds(&["one", "zero"], "epsilon: 1, or one: 3/4 and zero: 1/4")?;
            let (one, zero) = (found[0], found[1]);
            if one <= zero {
                let must = "must be above zero: a set bit would say nothing";
                findings.error(place, format!("one of {what} {must}"));
                return None;
            }
            Some(Randomiser::Unary { one, zero })
        }
        _ => given
            .of(&["epsilon"])
            .map(|found| Randomiser::optimised_unary(found[0])),
    }
}

const MECHANISMS: &str = "coin, krr, unary, mean or rappor";

/// The odds that an entry gives.
struct Given<'w> {
    odds: Vec<(&'static str, Option<f64>)>,
    what: &'w str,
}

impl Given<'_> {
    fn read(&mut self, name: &'static str, node: Option<&YamlNode>, findings: &mut Findings) {
        let Some(node) = node else { return };
        let what = format!("{name} of {}", self.what);
        let value = match name {
            "epsilon" => read::positive(node, &what, EPSILON_MAX, findings),
            _ => read::probability(node, &what, name != "truth", findings),
        };
        self.odds.push((name, value));
    }

    /// The odds of these names, where they and no others are given.
    fn of(&self, names: &[&str]) -> Option<Vec<f64>> {
        if self.odds.len() != names.len() {
            return None;
        }
        let one = |name: &&str| {
            let found = self.odds.iter().find(|(known, _)| known == name)?;
            found.1
        };
        names.iter().map(one).collect()
    }
}
