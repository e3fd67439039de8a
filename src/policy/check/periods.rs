//! Checks the periods of a table against its columns.

use super::{Listed, find_column};
use crate::calendar::period::PeriodLength;
use crate::catalog::{Distribution, Type};
use crate::policy::error::{At, Findings};
use crate::policy::file::{PathStep, PeriodsRule, PrepaidRule, TableRule, UnitRule};
use crate::policy::{Column, ColumnPosition, Periods, Prepaid};

/// The periods of a table with these shown columns, where its entry has some.
pub fn check(
    table: &Listed<'_>,
    listed: &[Listed<'_>],
    columns: &[Column],
    findings: &mut Findings,
) -> Option<Periods> {
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
        prepaid,
    } = &**rule;
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
    if let Some(prepaid) = prepaid {
        check_prepaid(table, listed, prepaid, findings);
    }
    Some(Periods {
        column: ColumnPosition(at),
        length: length.value,
        from: *from,
        close_after: *close_after,
        prepaid: prepaid.as_ref().map(|rule| Prepaid {
            per_unit: rule.per_unit.value,
            horizon: rule.horizon,
            rows: rule.rows,
            answers: rule.answers,
        }),
    })
}

/// A unit counts in few periods only if no row of it goes, and no row changes its unit: every table
/// that says whose rows these are is append-only too. And all of them are read at one moment.
fn check_prepaid(
    table: &Listed<'_>,
    listed: &[Listed<'_>],
    rule: &PrepaidRule,
    findings: &mut Findings,
) {
    let (place, name) = (rule.per_unit.place, table.name());
    for one in std::iter::once(table).chain(read_for_unit(table, listed)) {
        if one.relation.distribution != Distribution::Local {
            let message = format!(
                "per_unit of the periods of {name} is not offered where {} is distributed: the \
                    servers of a cluster are not read at one moment",
                one.name()
            );
            findings.error(place, message);
        }
    }
    for one in read_for_unit(table, listed) {
        let TableRule::Private { is_append_only, .. } = &one.entry.rule else {
            continue;
        };
        if !is_append_only {
            let message = format!(
                "per_unit of the periods of {name} needs `append_only: true` of {} too, which \
                    says whose rows these are; you promise that its rows are neither changed nor \
                    deleted",
                one.name()
            );
            findings.error(place, message);
        }
    }
}

/// The tables that are read to find the unit of a row, without its own.
fn read_for_unit<'l, 'a>(
    table: &Listed<'_>,
    listed: &'l [Listed<'a>],
) -> impl Iterator<Item = &'l Listed<'a>> {
    let steps = match &table.entry.rule {
        TableRule::Private {
            unit: UnitRule::Path { steps, trusted: _ },
            ..
        } => steps.as_slice(),
        TableRule::Private { .. } | TableRule::Public => &[],
    };
    let steps: Vec<PathStep> = steps.iter().map(|step| step.value.clone()).collect();
    listed.iter().filter(move |one| {
        let leads_here =
            |step: &PathStep| (&step.schema, &step.table) == (&one.entry.schema, &one.entry.name);
        // A foreign key to the unit's own column holds the unit.
        let holds_unit = |step: &PathStep| match &one.entry.rule {
            TableRule::Private {
                unit: UnitRule::Column(unit),
                ..
            } => unit.value == step.referenced,
            TableRule::Private { .. } | TableRule::Public => false,
        };
        steps
            .iter()
            .any(|step| leads_here(step) && !holds_unit(step))
    })
}
