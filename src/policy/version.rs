//! The digest of a policy's meaning: equal for equal answers, whatever the layout, comments,
//! passwords and addresses.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{Bounds, Column, Listing, Policy, Privacy, Protection, Scalar, Table};
use crate::catalog::UserType;

/// Sixty-four hexadecimal digits. Roles, addresses, the least epsilon and the limits that bound
/// resources only are left out: they change who is answered, not what.
pub fn digest(policy: &Policy) -> String {
    let mut text = String::from("pgveil policy 1\n");
    privacy(&policy.privacy, &mut text);
    let limits = &policy.limits;
    line(
        &mut text,
        format_args!(
            "limits {} {} {}",
            limits.groups_per_unit, limits.rows_per_unit, limits.groups
        ),
    );
    if let Some(grain) = policy.time_grain {
        line(&mut text, format_args!("time grain {}", grain.as_millis()));
    }
    let mut tables: Vec<&Table> = policy.tables.iter().collect();
    tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    for one in tables {
        table(one, &mut text);
    }
    // What a label means is told by its place.
    let mut types: Vec<&UserType> = policy.types.iter().collect();
    types.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    for UserType {
        oid: _,
        schema,
        name,
        array: _,
        definition,
    } in types
    {
        line(
            &mut text,
            format_args!("type {schema:?} {name:?} {definition:?}"),
        );
    }
    Sha256::digest(text.as_bytes())
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{arguments}");
}

fn privacy(privacy: &Privacy, text: &mut String) {
    let Privacy {
        unit,
        budget,
        epsilon_default,
        epsilon_max,
        epsilon_min: _,
        accounting,
        threshold_share,
        data_version,
    } = privacy;
    let accounting = accounting.name();
    let bits = [
        budget.epsilon,
        budget.delta,
        *epsilon_default,
        *epsilon_max,
        *threshold_share,
    ]
    .map(f64::to_bits);
    line(
        text,
        format_args!("privacy {unit:?} {bits:?} {accounting} {data_version:?}"),
    );
}

fn table(table: &Table, text: &mut String) {
    line(
        text,
        format_args!("table {:?} {:?}", table.schema, table.name),
    );
    match &table.protection {
        Protection::Public => line(text, format_args!("public")),
        Protection::Private(unit) => {
            line(
                text,
                format_args!(
                    "unit {:?} {} {} {}",
                    unit.column, unit.data_type, unit.is_primary_key, unit.rows_per_unit
                ),
            );
            for step in &unit.path {
                line(
                    text,
                    format_args!(
                        "step {:?} {:?} {:?} {:?}",
                        step.column, step.schema, step.table, step.referenced
                    ),
                );
            }
        }
    }
    for one in &table.columns {
        column(one, text);
    }
    if let Some(Listing { columns, rows }) = &table.listing {
        line(text, format_args!("listing {columns:?} {}", rows.len()));
        for row in rows {
            let values: Vec<String> = row
                .iter()
                .map(|v| v.as_ref().map_or("null".to_owned(), scalar))
                .collect();
            line(text, format_args!("row {values:?}"));
        }
    }
    for key in &table.unique_keys {
        line(text, format_args!("key {}", key.described()));
    }
}

fn column(column: &Column, text: &mut String) {
    let Column {
        name,
        data_type,
        declared: _,
        not_null,
        deterministic_collation,
        collation,
        bounds,
        domain,
        is_complete,
        extent,
    } = column;
    line(
        text,
        format_args!(
            "column {name:?} {:?} {not_null} {deterministic_collation}",
            data_type.to_string()
        ),
    );
    if let Some(collation) = collation {
        line(
            text,
            format_args!("collation {:?} {:?}", collation.schema, collation.name),
        );
    }
    if let Some(Bounds { lower, upper }) = bounds {
        line(
            text,
            format_args!("bounds {} {}", scalar(lower), scalar(upper)),
        );
    }
    if let Some(Bounds { lower, upper }) = extent {
        line(
            text,
            format_args!("extent {} {}", scalar(lower), scalar(upper)),
        );
    }
    for value in domain.iter().flatten() {
        line(text, format_args!("value {}", scalar(value)));
    }
    if let Some(domain) = domain {
        line(text, format_args!("values {}", domain.len()));
    }
    if *is_complete {
        line(text, format_args!("complete"));
    }
}

fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Bool(b) => format!("bool {b}"),
        Scalar::Int(n) => format!("int {n}"),
        Scalar::Decimal(d) => format!("decimal {d}"),
        Scalar::Text(t) => format!("text {t:?}"),
        Scalar::Date(d) => format!("date {d}"),
        Scalar::Timestamp(t) => format!("timestamp {t}"),
        Scalar::Interval {
            months,
            days,
            micros,
        } => format!("interval {months} {days} {micros}"),
    }
}
