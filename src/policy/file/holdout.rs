//! Reads `holdout:` of a private table.

use crate::policy::error::{At, Findings};
use crate::policy::holdouts::Holdout;
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::YamlNode;

/// The most rows of a holdout: sums over more of them, with their noise, need finer grids.
const ROWS_MAX: u64 = 1_000_000_000;

/// The most times that a role may open a holdout.
const OVERFLOWS_MAX: u64 = 1_000_000;

pub fn read(node: &YamlNode, table: &str, findings: &mut Findings) -> Option<At<Holdout>> {
    let what = format!("holdout of table {table}");
    let mut fields = Fields::open(node, what.as_str(), findings)?;
    let rows = fields
        .require("rows", "rows: 50000", findings)
        .and_then(|node| read::count(node, &format!("rows of {what}"), 1..=ROWS_MAX, findings));
    let tolerance = fields
        .require("tolerance", "tolerance: 0.04", findings)
        .and_then(|node| read::positive(node, &format!("tolerance of {what}"), 1.0, findings));
    let scale = fields
        .require("scale", "scale: 0.0013", findings)
        .and_then(|node| read::positive(node, &format!("scale of {what}"), 1.0, findings));
    let overflows = fields
        .require("overflows", "overflows: 30", findings)
        .and_then(|node| {
            let what = format!("overflows of {what}");
            read::count(node, &what, 1..=OVERFLOWS_MAX, findings)
        });
    fields.done(findings);
    Some(At {
        place: node.place,
        value: Holdout {
            rows: rows?,
            tolerance: tolerance?,
            scale: scale?,
            overflows: overflows?,
        },
    })
}
