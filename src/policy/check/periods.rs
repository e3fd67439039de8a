//! Checks the periods of a table against its columns.

use super::{Listed, find_column};
use crate::calendar::period::PeriodLength;
use crate::catalog::Type;
use crate::policy::error::{At, Findings};
use crate::policy::file::{PeriodsRule, TableRule};
use crate::policy::{Column, ColumnPosition, Periods};

/// The periods of a table with these shown columns, where its entry has some.
pub fn check(table: &Listed<'_>, columns: &[Column], findings: &mut Findings) -> Option<Periods> {
    let TableRule::Private {
        periods: Some(rule),
        ..
    } = &table.entry.rule
    else {
        return None;
    };
    let PeriodsRule {
        column: At { place, value: name },
        length,
        from,
        close_after,
    } = rule;
    let Some(at) = columns.iter().position(|column| column.name == *name) else {
        let named = At {
            place: *place,
            value: name.as_str(),
        };
        if find_column(table.relation, &named, findings).is_some() {
            let message = format!(
                "column \"{name}\" of the periods of {} is hidden; show it, for instance by \
                    `{name}: visible`",
                table.name()
            );
            findings.error(*place, message);
        }
        return None;
    };
    if columns[at].collected.is_some() {
        let message = format!("column \"{name}\" is collected: its values are no moments");
        findings.error(*place, message);
    }
    let data_type = &columns[at].data_type;
    match (data_type, length.value) {
        (Type::Date, PeriodLength::Hour) => findings.error(
            length.place,
            format!("column \"{name}\" is a date, which has no hours; write `by: day`"),
        ),
        (Type::Date | Type::Timestamp | Type::Timestamptz, _) => {}
        _ => findings.error(
            *place,
            format!(
                "column \"{name}\" of the periods of {} must be a date or a timestamp, not \
                    {data_type}",
                table.name()
            ),
        ),
    }
    Some(Periods {
        column: ColumnPosition(at),
        length: length.value,
        from: *from,
        close_after: *close_after,
    })
}
