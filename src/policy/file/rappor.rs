//! Reads how the bits of a filter were randomised before they were stored.

use crate::mechanism::{BITS_MAX, CELLS_MAX, HASHES_MAX, Rappor};
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::YamlNode;

const EXAMPLE: &str = "bits: 128, hashes: 2, cohorts: 64, f: 1/2, p: 1/2, q: 3/4";

/// The least that a bit's being set must depend on the true value: beyond it, estimates would be
/// off by millions.
const GAIN_MIN: f64 = 1e-6;

/// The rest of an entry `{mechanism: rappor, …}` at this place: how reports were made, and the
/// column of their cohorts.
pub fn read_rappor(
    mut fields: Fields<'_>,
    (what, place): (&str, Location),
    findings: &mut Findings,
) -> Option<(Rappor, At<String>)> {
    let counts = [
        fields.require("bits", EXAMPLE, findings),
        fields.require("hashes", EXAMPLE, findings),
        fields.require("cohorts", EXAMPLE, findings),
    ];
    let odds = [
        fields.require("f", EXAMPLE, findings),
        fields.require("p", EXAMPLE, findings),
        fields.require("q", EXAMPLE, findings),
    ];
    let cohort = fields
        .require("cohort", "cohort: page_cohort", findings)
        .and_then(|node| {
            let what = format!("cohort of {what}");
            let (name, _) = read::scalar(node, &what, "the name of a column", findings)?;
            Some(At {
                place: node.place,
                value: name.to_owned(),
            })
        });
    fields.done(findings);
    let number = |node: Option<&YamlNode>, name: &str, most: u32, findings: &mut Findings| {
        let what = format!("{name} of {what}");
        read::count::<u32>(node?, &what, 1..=u64::from(most), findings)
    };
    let (bits, hashes, cohorts) = (
        number(counts[0], "bits", BITS_MAX, findings),
        number(counts[1], "hashes", HASHES_MAX, findings),
        number(counts[2], "cohorts", CELLS_MAX, findings),
    );
    let probability = |node: Option<&YamlNode>, name: &str, findings: &mut Findings| {
        read::probability(node?, &format!("{name} of {what}"), true, findings)
    };
    let (f, p, q) = (
        probability(odds[0], "f", findings),
        probability(odds[1], "p", findings),
        probability(odds[2], "q", findings),
    );
    let rappor = Rappor {
        bits: bits?,
        hashes: hashes?,
        cohorts: cohorts?,
        f: f?,
        p: p?,
        q: q?,
    };
    let cohort = cohort?;
    if let Some(message) = fault(&rappor) {
        findings.error(place, format!("{what} {message}"));
        return None;
    }
    Some((rappor, cohort))
}

/// What is wrong with numbers that do not go together.
fn fault(of: &Rappor) -> Option<String> {
    if of.bits < 2 || of.hashes >= of.bits {
        return Some("must have more bits than hashes, as bits: 128 and hashes: 2".to_owned());
    }
    if of.cohorts * of.bits > CELLS_MAX {
        return Some(format!(
            "must have at most {CELLS_MAX} cohorts times bits, not {}",
            of.cohorts * of.bits
        ));
    }
    if of.q <= of.p {
        return Some("must have q above p: a set bit would say nothing".to_owned());
    }
    if of.f >= 1.0 {
        return Some("must have f below 1: all bits would be coins".to_owned());
    }
    let gain = of.channel().gain();
    (gain < GAIN_MIN).then(|| {
        format!(
            "must have (1 - f)(q - p) of at least {GAIN_MIN}, not {gain:.1e}: a set bit would say \
                next to nothing"
        )
    })
}
