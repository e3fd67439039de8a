//! Whether roles may write the tables that a policy lets them: what the database would say of rows
//! and of reports, and what the login for writing may do.

use super::Failure;
use super::database_url::{config, unreachable_database};
use crate::catalog;
use crate::policy::{Policy, Writing, WrittenColumn, WrittenTable};
use crate::postgres::connect;

/// Whether nothing but the reports themselves says what a local column's value is, and whether the
/// login for writing is right.
pub(super) async fn prove_writing(
    policy: &Policy,
    writing: &Writing,
    client: &tokio_postgres::Client,
) -> Result<(), Failure> {
    for table in &writing.tables {
        let made = catalog::made_by_database(client, table.oid, &columns_written(table)).await;
        if let Some(column) = made.map_err(Failure::new)?.first() {
            return Err(Failure::with_remedy(
                format_args!(
                    "{table} is written by a role, and the database makes its column \"{column}\" \
                        itself (GENERATED), which pgveil must write"
                ),
                "ALTER TABLE … ALTER COLUMN … DROP EXPRESSION, or DROP IDENTITY, or name another \
                    column in the policy.",
            ));
        }
        let found = catalog::indexes_that_refuse(client, table.oid, &local_columns(table)).await;
        let found = found.map_err(Failure::new)?;
        if let Some(index) = found.first() {
            return Err(Failure::with_remedy(
                format_args!(
                    "{table} is written by a role, and its index \"{index}\" is unique or an \
                        exclusion and sees a column with local, or is of expressions, of a part of \
                        the rows or over generated columns: it would refuse a report that is there \
                        already, and the refusal would be one more report"
                ),
                "Drop the index, or let no role write the table.",
            ));
        }
    }
    let expected = catalog::database_identity(client).await;
    prove_write_login(policy, writing, expected.map_err(Failure::new)?).await
}

/// Whether nothing refuses a report for what it is. `client` is connected as the login that writes.
async fn prove_reports_are_taken(
    writing: &Writing,
    client: &tokio_postgres::Client,
) -> Result<(), Failure> {
    for table in &writing.tables {
        let found = catalog::checks_that_refuse(client, table.oid, &local_columns(table)).await;
        if let Some(check) = found.map_err(Failure::new)?.first() {
            return Err(Failure::with_remedy(
                format_args!(
                    "{table} is written by a role, and its {check} sees a column with local, or is \
                        of a domain, of whole rows or over generated columns: a report that it \
                        refuses would be written once more"
                ),
                "Drop it: pgveil writes nothing but reports there. Partition by another column. Or \
                    let no role write the table.",
            ));
        }
    }
    Ok(())
}

/// Whether the reply to a write depends on nothing but the values written, unless the owner lets
/// writers learn more. `client` is connected as the login that writes.
async fn prove_replies(
    policy: &Policy,
    writing: &Writing,
    client: &tokio_postgres::Client,
) -> Result<(), Failure> {
    let public = policy.public_tables();
    for table in writing
        .tables
        .iter()
        .filter(|table| !table.shows_constraints)
    {
        let found = catalog::what_inserts_show(client, table.oid, &public).await;
        let found = found.map_err(Failure::new)?;
        if !found.is_empty() {
            return Err(Failure::with_remedy(
                format_args!(
                    "{table} is written by a role, and who writes it could learn from {} which \
                        rows are there, free",
                    found.join(", and from ")
                ),
                "Drop them. A unique key may stay that the database alone makes: a serial, \
                    identity or uuid column with its default, whose sequence has no CYCLE, and \
                    into which the login of database.write_url may not INSERT (GRANT INSERT \
                    (other columns)). Or let writers learn it: `constraints: shown` of the table.",
            ));
        }
    }
    Ok(())
}

/// The columns that hold reports.
fn local_columns(table: &WrittenTable) -> Vec<String> {
    let local = table.columns.iter().filter(|column| column.local.is_some());
    local.map(|column| column.name.clone()).collect()
}

/// The columns that each row of a write has.
fn columns_written(table: &WrittenTable) -> Vec<String> {
    let wanted = |column: &&WrittenColumn| {
        column.local.is_some() || column.name == table.unit || table.has_cohorts(&column.name)
    };
    let columns = table.columns.iter().filter(wanted);
    columns.map(|column| column.name.clone()).collect()
}

/// Whether the login of `database.write_url` is of the same database, may insert into the tables
/// that roles write, and do nothing else.
async fn prove_write_login(
    policy: &Policy,
    writing: &Writing,
    (name, oid, server): (String, u32, Option<i64>),
) -> Result<(), Failure> {
    let config = config(writing.url.expose())?;
    let connected = connect(&config).await.map_err(unreachable_database)?;
    let tables: Vec<(u32, String)> = writing
        .tables
        .iter()
        .map(|table| (table.oid, table.to_string()))
        .collect();
    let found = catalog::database_identity(&connected.client).await;
    let found = found.map_err(Failure::new)?;
    let is_other_server = server.zip(found.2).is_some_and(|(a, b)| a != b);
    if (&found.0, found.1) != (&name, oid) || is_other_server {
        return Err(Failure::with_remedy(
            "database.write_url is another database than database.url",
            "Name the same server and database, with another login.",
        ));
    }
    let excess = catalog::excess_of_write_login(&connected.client, &tables).await;
    let mut excess = excess.map_err(Failure::new)?;
    if excess.is_empty() {
        for table in &writing.tables {
            let (named, columns) = ((table.oid, table.to_string()), columns_written(table));
            let lack = catalog::lack_of_write_login(
                &connected.client,
                (named.0, named.1.as_str()),
                &columns,
            );
            excess.extend(lack.await.map_err(Failure::new)?);
        }
    }
    if excess.is_empty() {
        let taken = prove_reports_are_taken(writing, &connected.client).await;
        let proved = match taken {
            Ok(()) => prove_replies(policy, writing, &connected.client).await,
            Err(refused) => Err(refused),
        };
        connected.close().await;
        return proved;
    }
    connected.close().await;
    let names: Vec<&str> = tables.iter().map(|(_, name)| name.as_str()).collect();
    Err(Failure::with_remedy(
        format_args!(
            "the login of database.write_url must be able to INSERT into {} and nothing else, but \
                it {}",
            names.join(", "),
            excess.join("; it ")
        ),
        "CREATE ROLE pgveil_writer LOGIN; GRANT USAGE ON SCHEMA … TO pgveil_writer; GRANT INSERT \
            ON … TO pgveil_writer; and REVOKE what is granted to PUBLIC.",
    ))
}
