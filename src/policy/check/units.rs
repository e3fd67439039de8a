//! The unit of a private table: its unit column, or the path to it.

use super::{Listed, find_column};
use crate::catalog::{Column, Equality, RelationKind, Type};
use crate::policy::error::{At, Findings, Location};
use crate::policy::file::{File, PathStep, RowsRule, TableRule, UnitRule};
use crate::policy::{Unit, UnitStep};

/// The unit of each listed table, in order; `None` for public tables and after an error.
pub fn check(file: &File, listed: &[Listed<'_>], findings: &mut Findings) -> Vec<Option<Unit>> {
    let units = listed
        .iter()
        .map(|table| unit(file, table, listed, findings))
        .collect::<Vec<_>>();
    one_unit(listed, &units, findings);
    units
}

fn unit(
    file: &File,
    table: &Listed<'_>,
    listed: &[Listed<'_>],
    findings: &mut Findings,
) -> Option<Unit> {
    let TableRule::Private { unit, .. } = &table.entry.rule else {
        return None;
    };
    let (path, column, data_type, is_primary_key) = match unit {
        UnitRule::Column(name) => {
            let column = unit_column(table, name, findings)?;
            (
                Vec::new(),
                column.name.clone(),
                column.data_type.clone(),
                is_primary_key(table, column),
            )
        }
        UnitRule::Path { steps, trusted } => {
            let column = follow(file, table, steps, *trusted, listed, findings)?;
            let path = steps.iter().map(|s| make_step(&s.value)).collect();
            (path, column.name.clone(), column.data_type.clone(), false)
        }
    };
    let rows_per_unit = rows(file, table, is_primary_key, findings);
    Some(Unit {
        path,
        column,
        data_type,
        is_primary_key,
        rows_per_unit,
    })
}

/// Most rows of one unit, or a placeholder until a search has found the number.
fn rows(file: &File, table: &Listed<'_>, is_primary_key: bool, findings: &mut Findings) -> u32 {
    let TableRule::Private {
        unit,
        rows_per_unit,
        ..
    } = &table.entry.rule
    else {
        return 1;
    };
    let (name, default) = (table.name(), file.limits.rows_per_unit);
    let Some(At { place, value }) = rows_per_unit else {
        if is_primary_key {
            return 1;
        }
        findings.warning(
            table.entry.place,
            format!(
                "{name} has no rows_per_unit, so limits.rows_per_unit ({default}) holds; the \
                true number gives less noise"
            ),
        );
        return default;
    };
    if is_primary_key {
        if *value != RowsRule::Most(1) {
            findings.warning(
                *place,
                format!(
                    "the unit is the primary key of {name}, so a unit has \
                one row; rows_per_unit is taken as 1"
                ),
            );
        }
        return 1;
    }
    match value {
        RowsRule::Searched => default,
        RowsRule::Most(most) => {
            if *most == 1 && !has_one_row(table, unit) {
                findings.warning(
                    *place,
                    format!(
                        "rows_per_unit is 1, but no key of {name} says that a unit has one \
                        row; \
                        where it has more they are scaled down to one, and sums and counts come \
                        out \
                        too low"
                    ),
                );
            }
            *most
        }
    }
}

/// A unique key limits a unit, or the column that leads to it, to one row.
fn has_one_row(table: &Listed<'_>, unit: &UnitRule) -> bool {
    match unit {
        UnitRule::Column(name) => table
            .relation
            .is_unique(&[name.value.as_str()], &Equality::Own),
        UnitRule::Path { steps, trusted: _ } => steps.iter().take(1).any(|step| {
            table
                .relation
                .is_unique(&[step.value.column.as_str()], &Equality::Own)
        }),
    }
}

fn make_step(step: &PathStep) -> UnitStep {
    UnitStep {
        column: step.column.clone(),
        schema: step.schema.clone(),
        table: step.table.clone(),
        referenced: step.referenced.clone(),
    }
}

/// A column that can be a unit: two values are equal exactly if they are the same.
fn unit_column<'a>(
    table: &Listed<'a>,
    name: &At<String>,
    findings: &mut Findings,
) -> Option<&'a Column> {
    let column = find_column(
        table.relation,
        &At {
            place: name.place,
            value: name.value.as_str(),
        },
        findings,
    )?;
    match unfit(column) {
        None => Some(column),
        Some(why) => {
            findings.error(
                name.place,
                format!(
                    "column \"{}\" of {} cannot be the unit: {why}",
                    column.name,
                    table.name()
                ),
            );
            None
        }
    }
}

/// Why equality of this column does not distinguish units.
pub fn unfit(column: &Column) -> Option<String> {
    let data_type = &column.data_type;
    if column.is_domain {
        return Some(format!(
            "its type {data_type} is a domain; use a column of the type beneath it"
        ));
    }
    if column.is_virtual {
        return Some("it is a virtual generated column, whose value is stored nowhere".to_owned());
    }
    match data_type {
        Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(_)
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz => None,
        Type::Text | Type::Varchar(_) | Type::Char(Some(_)) if !column.deterministic_collation => {
            Some(
                "its collation is not deterministic, so that different texts may count as equal"
                    .to_owned(),
            )
        }
        // Filled to one length, equal values are identical.
        Type::Text | Type::Varchar(_) | Type::Char(Some(_)) => None,
        Type::Float4 | Type::Float8 => Some(format!(
            "{data_type} rounds, so that different units \
            may become equal"
        )),
        Type::Char(None) => Some(
            "bpchar without a length compares without the blanks at the end, so that \
                different \
                texts may count as equal"
                .to_owned(),
        ),
        Type::Bool | Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => {
            Some(format!(
                "{data_type} is not offered as a unit; integer, numeric, text, uuid, date \
                and timestamp types are"
            ))
        }
    }
}

/// The only case that needs no clip: the unit alone is the whole primary key of an ordinary table
/// without children.
fn is_primary_key(table: &Listed<'_>, unit: &Column) -> bool {
    let relation = table.relation;
    relation.kind == RelationKind::Ordinary
        && !relation.inherits
        && relation.parents.is_empty()
        && unit.not_null
        && relation
            .unique_keys
            .iter()
            .any(|key| key.primary && key.is_within(&[&unit.name], &Equality::Own))
}

/// Follows a path to the unit column. It continues past wrong steps, so that the errors of every
/// step are reported.
fn follow<'a>(
    file: &File,
    table: &Listed<'a>,
    steps: &[At<PathStep>],
    trusted: bool,
    listed: &[Listed<'a>],
    findings: &mut Findings,
) -> Option<&'a Column> {
    let mut current = *table;
    let mut is_right = true;
    for (done, step) in steps.iter().enumerate() {
        let target = target(file, step, listed, findings)?;
        is_right &= is_step(&current, step, &target, trusted, findings);
        let rest = steps.get(done + 1..).unwrap_or_default();
        match (&target.entry.rule, rest) {
            (TableRule::Public, _) => {
                findings.error(
                    step.place,
                    format!(
                        "the path leads through the public table {}; a unit is carried by \
                        private tables only",
                        target.name()
                    ),
                );
                return None;
            }
            (
                TableRule::Private {
                    unit: UnitRule::Column(name),
                    ..
                },
                [],
            ) => {
                return unit_column(&target, name, &mut Findings::new("")).filter(|_| is_right);
            }
            (
                TableRule::Private {
                    unit: UnitRule::Path { steps: onward, .. },
                    ..
                },
                rest,
            ) if same_steps(onward, rest) => current = target,
            (TableRule::Private { .. }, _) => {
                let (name, target) = (table.name(), target.name());
                findings.error(
                    step.place,
                    format!(
                        "the path of {name} must go on from {target} exactly as the unit of \
                        {target} does; two ways are two units"
                    ),
                );
                return None;
            }
        }
    }
    None
}

fn same_steps(a: &[At<PathStep>], b: &[At<PathStep>]) -> bool {
    !a.is_empty() && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.value == b.value)
}

/// The table that a step leads to.
fn target<'a>(
    file: &File,
    step: &At<PathStep>,
    listed: &[Listed<'a>],
    findings: &mut Findings,
) -> Option<Listed<'a>> {
    let (place, PathStep { schema, table, .. }) = (step.place, &step.value);
    let found = listed
        .iter()
        .find(|t| (&t.relation.schema, &t.relation.name) == (schema, table))
        .copied();
    // An error was already reported for a table that is in the file but not in the database.
    if found.is_none() && !file.names(schema, table) {
        findings.error(
            place,
            format!(
                "the path leads to {schema}.{table}, which is not a table of \
                this \
                policy; list it under tables with its own unit"
            ),
        );
    }
    found
}

fn is_step(
    from: &Listed<'_>,
    step: &At<PathStep>,
    target: &Listed<'_>,
    trusted: bool,
    findings: &mut Findings,
) -> bool {
    let (
        place,
        PathStep {
            column, referenced, ..
        },
    ) = (step.place, &step.value);
    let column = find_column(
        from.relation,
        &At {
            place,
            value: column.as_str(),
        },
        findings,
    );
    let referenced = find_column(
        target.relation,
        &At {
            place,
            value: referenced.as_str(),
        },
        findings,
    );
    let (Some(column), Some(referenced)) = (column, referenced) else {
        return false;
    };
    let wrong = wrong_in_step(from, column, target, referenced, trusted);
    let is_right = wrong.is_empty();
    for why in wrong {
        findings.error(place, why);
    }
    is_right
}

fn wrong_in_step(
    from: &Listed<'_>,
    column: &Column,
    target: &Listed<'_>,
    referenced: &Column,
    trusted: bool,
) -> Vec<String> {
    let end = format!("{}.{}", target.name(), referenced.name);
    let unfit = |c: &Column| {
        unfit(c).map(|why| {
            format!(
                "column \"{}\" cannot be on the path of a unit: {why}",
                c.name
            )
        })
    };
    let mut wrong: Vec<String> = [column, referenced].into_iter().filter_map(unfit).collect();
    if family(&column.data_type) != family(&referenced.data_type) {
        let (a, b) = (&column.data_type, &referenced.data_type);
        wrong.push(format!(
            "column \"{}\" is {a} but {end} is {b}; a path joins columns of one type",
            column.name
        ));
    }
    // Neither column has a nondeterministic collation.
    if !target
        .relation
        .is_unique(&[&referenced.name], &Equality::Exact)
    {
        wrong.push(format!(
            "{end} is not unique by itself, so that a row could belong to several units; a path \
                needs a primary key or a valid unique constraint there"
        ));
    }
    // A foreign key needs columns of one type and a key at its target.
    if !wrong.is_empty() {
        return wrong;
    }
    let is_key = from.relation.foreign_keys.iter().any(|k| {
        k.columns == [column.name.as_str()]
            && k.referenced == [referenced.name.as_str()]
            && k.schema == target.relation.schema
            && k.table == target.relation.name
    });
    if !is_key && !trusted {
        let column = format!("{}.{}", from.name(), column.name);
        wrong.push(format!(
            "{column} has no valid foreign key to {end}; add one, or write `unit: {{path: […], \
                trusted_path: true}}` if you know it holds"
        ));
    }
    wrong
}

/// The type without length or precision, which do not affect equality.
pub fn family(data_type: &Type) -> Type {
    match data_type {
        Type::Varchar(_) => Type::Varchar(None),
        Type::Numeric(_) => Type::Numeric(None),
        other => other.clone(),
    }
}

/// A policy protects one sort of unit: where several tables carry it themselves, their unit columns
/// have one type, and one name or a foreign key between them.
fn one_unit(listed: &[Listed<'_>], units: &[Option<Unit>], findings: &mut Findings) {
    let mut carriers: Vec<(&Listed<'_>, &Unit, Location)> = Vec::new();
    for (table, unit) in listed.iter().zip(units) {
        let (
            Some(unit),
            TableRule::Private {
                unit: UnitRule::Column(name),
                ..
            },
        ) = (unit, &table.entry.rule)
        else {
            continue;
        };
        carriers.push((table, unit, name.place));
    }
    let Some(((first, first_unit, _), others)) = carriers.split_first() else {
        return;
    };
    for (position, (table, unit, place)) in others.iter().enumerate() {
        let earlier = carriers.iter().take(position + 1);
        let related = earlier.clone().any(|(t, u, _)| {
            u.column == unit.column || refers(table, unit, t, u) || refers(t, u, table, unit)
        });
        if !related || family(&unit.data_type) != family(&first_unit.data_type) {
            let (a, b) = (
                format!("{}.{}", first.name(), first_unit.column),
                format!("{}.{}", table.name(), unit.column),
            );
            findings.error(
                *place,
                format!(
                    "a policy protects one unit, but {a} and {b} look like \
                two: give them one type, and one name or a foreign key between them, or use a \
                path"
                ),
            );
        }
    }
}

fn refers(from: &Listed<'_>, unit: &Unit, to: &Listed<'_>, target: &Unit) -> bool {
    from.relation.foreign_keys.iter().any(|k| {
        k.columns == [unit.column.as_str()]
            && k.referenced == [target.column.as_str()]
            && k.schema == to.relation.schema
            && k.table == to.relation.name
    })
}
