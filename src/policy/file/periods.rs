//! Reads `periods:` of a private table.

use std::time::Duration;

use super::columns::names;
use crate::calendar::iso::{Zone, timestamp};
use crate::calendar::period::{Period, PeriodLength};
use crate::mechanism::TOTALS_MAX;
use crate::policy::PrepaidAnswers;
use crate::policy::error::{At, Findings, Location};
use crate::policy::yaml::read;
use crate::policy::yaml::read::Fields;
use crate::policy::yaml::tree::YamlNode;

/// The periods of a table as the file says them; the column comes from the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct PeriodsRule {
    pub column: At<String>,
    pub length: At<PeriodLength>,
    pub from: Period,
    pub close_after: Duration,
    pub prepaid: Option<PrepaidRule>,
}

/// `per_unit` and what goes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepaidRule {
    pub per_unit: At<u32>,
    pub horizon: u32,
    /// The most rows of a unit in one period.
    pub rows: Option<u32>,
    /// `answers: totals`.
    pub answers: PrepaidAnswers,
}

/// The most periods that one price covers: an hour each for a little more than a year.
const HORIZON_MAX: u64 = 9_000;

/// The longest time that a period stays open after its end.
const CLOSE_AFTER_MAX: u64 = 366 * 86_400;

pub fn read(node: &YamlNode, table: &str, findings: &mut Findings) -> Option<PeriodsRule> {
    let what = format!("periods of table {table}");
    let mut fields = Fields::open(node, what.as_str(), findings)?;
    let column = fields
        .require("column", "column: visited_at", findings)
        .and_then(|node| column(node, &what, findings));
    let length = fields
        .require("by", "by: day", findings)
        .and_then(|node| length(node, &what, findings));
    let from = fields
        .require("from", "from: 2026-01-01", findings)
        .and_then(|node| from(node, length.as_ref()?.value, &what, findings));
    let close_after = fields
        .require("close_after", "close_after: 2d", findings)
        .and_then(|node| close_after(node, &what, findings));
    let prepaid = prepaid(&mut fields, &what, findings);
    let why = "each period has its own answer, of the rows that it has when it is drawn";
    fields.not_offered("arrived", why, findings);
    fields.done(findings);
    Some(PeriodsRule {
        column: column?,
        length: length?,
        from: from?,
        close_after: close_after?,
        prepaid,
    })
}

/// Reads `per_unit`, `horizon`, `rows`, `answers` and `append_only`, which go together.
fn prepaid(fields: &mut Fields<'_>, what: &str, findings: &mut Findings) -> Option<PrepaidRule> {
    let mut count = |node: Option<&YamlNode>, key: &str, most: u64| {
        let node = node?;
        let value = read::count(node, &format!("{key} of {what}"), 1..=most, findings);
        Some((node.place, value))
    };
    let per_unit = count(fields.optional("per_unit"), "per_unit", HORIZON_MAX);
    let horizon = count(fields.optional("horizon"), "horizon", HORIZON_MAX);
    let rows = count(fields.optional("rows"), "rows", 1_000_000);
    let answers = answers(fields.optional("answers"), what, findings);
    let promised = fields.optional("append_only");
    let is_promised = promised.map(|node| {
        let is_true = read::truth(node, &format!("append_only of {what}"), findings);
        (node.place, is_true)
    });
    let Some((per_place, per_unit)) = per_unit else {
        let others = [
            ("horizon", horizon.map(|(at, _)| at)),
            ("rows", rows.map(|(at, _)| at)),
            ("answers", answers.map(|(at, _)| at)),
        ];
        let promise = ("append_only", is_promised.map(|(at, _)| at));
        for (key, at) in others.into_iter().chain([promise]) {
            if let Some(at) = at {
                let message = format!(
                    "{key} of {what} goes with per_unit, the most periods of a unit that count; \
                        write `per_unit: 30`"
                );
                findings.error(at, message);
            }
        }
        return None;
    };
    if horizon.is_none() {
        let message = format!(
            "per_unit of {what} needs a horizon, the number of periods that one price covers; \
                write `horizon: 366`"
        );
        findings.error(per_place, message);
    }
    match is_promised {
        Some((_, Some(true))) => {}
        Some((_, None)) => return None,
        Some((place, Some(false))) => not_promised(place, what, findings),
        None => not_promised(per_place, what, findings),
    }
    let (_, horizon) = horizon?;
    if let (Some((place, Some(PrepaidAnswers::Totals))), Some(periods)) = (answers, horizon)
        && periods > TOTALS_MAX
    {
        let message = format!(
            "answers of {what}: a horizon with running totals has at most {TOTALS_MAX} periods, \
                not {periods}"
        );
        findings.error(place, message);
    }
    Some(PrepaidRule {
        per_unit: At {
            place: per_place,
            value: per_unit?,
        },
        horizon: horizon?,
        rows: match rows {
            None => None,
            Some((_, rows)) => Some(rows?),
        },
        answers: match answers {
            None => PrepaidAnswers::default(),
            Some((_, answers)) => answers?,
        },
    })
}

/// `periods` or `totals`, and the place of it.
fn answers(
    node: Option<&YamlNode>,
    what: &str,
    findings: &mut Findings,
) -> Option<(Location, Option<PrepaidAnswers>)> {
    const WANTED: &str = "periods or totals";
    let node = node?;
    let what = format!("answers of {what}");
    let text = read::scalar(node, &what, WANTED, findings);
    let value = text.and_then(|(text, _)| match text {
        "periods" => Some(PrepaidAnswers::Periods),
        "totals" => Some(PrepaidAnswers::Totals),
        _ => {
            let message = format!("{what} must be {WANTED}, not \"{text}\"");
            findings.error(node.place, message);
            None
        }
    });
    Some((node.place, value))
}

fn not_promised(place: Location, what: &str, findings: &mut Findings) {
    let message = format!(
        "per_unit of {what} needs `append_only: true`: you promise that rows of the table are \
            neither changed nor deleted, or a unit could count in more periods than are paid for"
    );
    findings.error(place, message);
}

fn column(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<At<String>> {
    let what = format!("column of {what}");
    let (text, _) = read::scalar(node, &what, "a column of the table", findings)?;
    let name: Option<[String; 1]> = names(text).and_then(|n| n.try_into().ok());
    let Some([value]) = name else {
        let message = format!("{what} must be a column of the table itself, not \"{text}\"");
        findings.error(node.place, message);
        return None;
    };
    Some(At {
        place: node.place,
        value,
    })
}

fn length(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<At<PeriodLength>> {
    const WANTED: &str = "hour, day, week or month";
    let what = format!("by of {what}");
    let (text, _) = read::scalar(node, &what, WANTED, findings)?;
    let known = PeriodLength::ALL.into_iter().find(|l| l.name() == text);
    let Some(value) = known else {
        let message = format!("{what} must be {WANTED}, not \"{text}\"");
        findings.error(node.place, message);
        return None;
    };
    Some(At {
        place: node.place,
        value,
    })
}

fn from(
    node: &YamlNode,
    length: PeriodLength,
    what: &str,
    findings: &mut Findings,
) -> Option<Period> {
    let what = format!("from of {what}");
    let wanted = "a date such as 2026-01-01, in UTC";
    let (text, _) = read::scalar(node, &what, wanted, findings)?;
    let Some(micros) = timestamp(text, Zone::Refused) else {
        findings.error(
            node.place,
            format!("{what} must be {wanted}, not \"{text}\""),
        );
        return None;
    };
    let period = length.period_of(micros);
    if !length.begins(micros) {
        let message = format!(
            "{what} must be the beginning of a {}: {}, or the next one",
            length.name(),
            length.text(period)
        );
        findings.error(node.place, message);
        return None;
    }
    Some(period)
}

/// `90min`, `36h` or `2d`.
fn close_after(node: &YamlNode, what: &str, findings: &mut Findings) -> Option<Duration> {
    let what = format!("close_after of {what}");
    const WANTED: &str = "a time such as 90min, 36h or 2d, at most 366d";
    let (text, _) = read::scalar(node, &what, WANTED, findings)?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: Option<u64> = match unit {
        "min" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    let seconds = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .filter(|seconds| *seconds <= CLOSE_AFTER_MAX);
    if seconds.is_none() {
        let message = format!("{what} must be {WANTED}, not \"{text}\"");
        findings.error(node.place, message);
    }
    seconds.map(Duration::from_secs)
}
