//! The digest of a policy's meaning: equal for equal answers, whatever the layout, comments,
//! passwords and addresses.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::{
    Budget, Collected, Column, ColumnBounds, Limits, Listing, Policy, Privacy, Protection, Scalar,
    Table, Unit, UnitStep,
};
use crate::catalog::{Collation, UserType};

/// Sixty-four hexadecimal digits. It leaves out everything that changes who is answered, when, or
/// from where, but not the answer. Every field is named, so that somebody decides about each new
/// one.
pub fn digest(policy: &Policy) -> String {
    digest_of(policy, &policy.privacy.data_version)
}

/// The digest of the same policy whatever the version of its data: of what stays true of a period
/// after it is closed.
pub fn undated_digest(policy: &Policy) -> String {
    digest_of(policy, "")
}

fn digest_of(policy: &Policy, data_version: &str) -> String {
    let Policy {
        // The digest itself.
        version: _,
        // Addresses.
        database_url: _,
        ledger_url: _,
        shadow_url: _,
        privacy,
        // Who may ask, and what each may spend.
        roles: _,
        // Who watches.
        operators: _,
        tables,
        // A search's finding is in the bounds of its column or table.
        searches: _,
        // A summary is an answer; what another question is answered does not depend on it.
        summaries: _,
        types,
        limits,
        // A preview has no row.
        previews: _,
        // What the owner reads of statements.
        records_shape: _,
        // Time.
        quantum: _,
        time_grain,
        // What is read does not depend on who writes.
        writing: _,
    } = policy;
    let mut text = String::from("pgveil policy 1\n");
    add_privacy(privacy, data_version, &mut text);
    add_limits(limits, &mut text);
    if let Some(grain) = time_grain {
        line(&mut text, format_args!("time grain {}", grain.as_millis()));
    }
    let mut tables: Vec<&Table> = tables.iter().collect();
    tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    for table in tables {
        add_table(table, &mut text);
    }
    add_types(types, &mut text);
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

pub(super) fn add_privacy(privacy: &Privacy, data_version: &str, text: &mut String) {
    let Privacy {
        unit,
        budget: Budget { epsilon, delta },
        epsilon_default,
        epsilon_max,
        // How many questions there may be.
        epsilon_min: _,
        accounting,
        threshold_share,
        // As the caller has it.
        data_version: _,
        // Which questions are refused as useless.
        units: _,
    } = privacy;
    let accounting = accounting.name();
    let bits = [
        epsilon,
        delta,
        epsilon_default,
        epsilon_max,
        threshold_share,
    ]
    .map(|number| number.to_bits());
    line(
        text,
        format_args!("privacy {unit:?} {bits:?} {accounting} {data_version:?}"),
    );
}

pub(super) fn add_limits(limits: &Limits, text: &mut String) {
    let Limits {
        groups_per_unit,
        rows_per_unit,
        groups,
        // Resources, and how often a role may ask.
        mirror_rows: _,
        failures: _,
        monitor_questions: _,
        statement_timeout: _,
        // The answers are the same.
        stream_rows: _,
        connections: _,
        connections_per_role: _,
        connections_per_address: _,
    } = limits;
    line(
        text,
        format_args!("limits {groups_per_unit} {rows_per_unit} {groups}"),
    );
}

fn add_types(types: &[UserType], text: &mut String) {
    // Labels of an enum are stored by their places, so the definition decides what they mean.
    let mut types: Vec<&UserType> = types.iter().collect();
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
            text,
            format_args!("type {schema:?} {name:?} {definition:?}"),
        );
    }
}

fn add_table(table: &Table, text: &mut String) {
    let Table {
        // Changes when a dump is restored.
        oid: _,
        schema,
        name,
        protection,
        columns,
        unique_keys,
        // The shadow's catalogs show them. With claims, they say which questions are answered.
        foreign_keys: _,
        // Which questions are answered, not what is answered.
        claimed_unique: _,
        // They make answers faster and change no answer.
        indexes: _,
        // Compared in the snapshot of each question.
        fingerprint: _,
        listing,
        // Compared to warn of changes.
        content: _,
        // The values themselves are in the columns.
        lists_from: _,
        // When an answer is bought, not what it is.
        periods: _,
        // What questions to the holdout cost, not what another question is answered.
        holdout: _,
    } = table;
    line(text, format_args!("table {schema:?} {name:?}"));
    match protection {
        Protection::Public => line(text, format_args!("public")),
        Protection::Private(unit) => add_unit(unit, text),
    }
    for column in columns {
        add_column(column, text);
    }
    if let Some(Listing { columns, rows }) = listing {
        let positions: Vec<usize> = columns.iter().map(|column| column.0).collect();
        line(text, format_args!("listing {positions:?} {}", rows.len()));
        for row in rows {
            let values: Vec<String> = row
                .iter()
                .map(|v| v.as_ref().map_or("null".to_owned(), scalar))
                .collect();
            line(text, format_args!("row {values:?}"));
        }
    }
    for key in unique_keys {
        line(text, format_args!("key {}", key.describe()));
    }
}

fn add_unit(unit: &Unit, text: &mut String) {
    let Unit {
        path,
        column,
        data_type,
        is_primary_key,
        rows_per_unit,
    } = unit;
    line(
        text,
        format_args!("unit {column:?} {data_type} {is_primary_key} {rows_per_unit}"),
    );
    for UnitStep {
        column,
        schema,
        table,
        referenced,
    } in path
    {
        line(
            text,
            format_args!("step {column:?} {schema:?} {table:?} {referenced:?}"),
        );
    }
}

fn add_column(column: &Column, text: &mut String) {
    let Column {
        name,
        data_type,
        // The shadow's catalogs show the domain; expressions use the type beneath it.
        declared: _,
        not_null,
        deterministic_collation,
        collation,
        bounds,
        unit_total,
        domain,
        is_complete,
        extent,
        collected,
    } = column;
    line(
        text,
        format_args!(
            "column {name:?} {:?} {not_null} {deterministic_collation}",
            data_type.to_string()
        ),
    );
    if let Some(Collation { schema, name }) = collation {
        line(text, format_args!("collation {schema:?} {name:?}"));
    }
    if let Some(ColumnBounds { lower, upper }) = bounds {
        line(
            text,
            format_args!("bounds {} {}", scalar(lower), scalar(upper)),
        );
    }
    if let Some(ColumnBounds { lower, upper }) = extent {
        line(
            text,
            format_args!("extent {} {}", scalar(lower), scalar(upper)),
        );
    }
    if let Some(total) = unit_total {
        line(text, format_args!("unit total {}", total.to_bits()));
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
    if let Some(Collected {
        randomiser,
        reports,
        one_bit,
        dictionary,
    }) = collected
    {
        line(text, format_args!("collected {randomiser:?} {one_bit:?}"));
        for report in reports {
            line(text, format_args!("report {}", scalar(report)));
        }
        if let Some(of) = dictionary {
            line(
                text,
                format_args!("dictionary {:?} {:?}", of.cohort, of.values),
            );
        }
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
