//! Real clients against the whole stack: the wire edge over the demo data, next to a direct
//! connection to the database behind it.
//!
//! Each test gets its client itself where it is missing (apt, pip, npm) and says so where it cannot
//! be had. The scripts stand in tests/clients.

mod agents;
pub mod install;
mod recipe;
mod reports;
mod run;
mod shop;
pub mod stage;
mod tokio_postgres;
mod tools;
mod types;
mod writes;

use install::Python;
use run::run;

const DJANGO: [&str; 2] = ["django==5.2.19", "psycopg[binary]==3.3.9"];

/// The psql commands, their output compared line by line.
#[tokio::test(flavor = "multi_thread")]
async fn psql() {
    let Some(psql) = install::psql().await else {
        return;
    };
    run(
        "psql",
        "sh",
        &["tests/clients/psql/test.sh".as_ref(), psql.as_os_str()],
        &[],
    )
    .await;
}

/// Keep-alives and questions in the simple, extended and prepared protocol.
#[tokio::test(flavor = "multi_thread")]
async fn pgbench() {
    let Some(pgbench) = install::pgbench().await else {
        return;
    };
    run(
        "pgbench",
        "sh",
        &[
            "tests/clients/pgbench/test.sh".as_ref(),
            pgbench.as_os_str(),
        ],
        &[],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn psycopg() {
    python("psycopg", &["psycopg[binary]==3.3.9"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn psycopg2() {
    python("psycopg2", &["psycopg2-binary==2.9.13"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asyncpg() {
    python("asyncpg", &["asyncpg==0.32.0"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlalchemy() {
    python(
        "sqlalchemy",
        &["sqlalchemy==2.1.9", "psycopg[binary]==3.3.9"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn django() {
    python("django", &DJANGO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pandas() {
    python(
        "pandas",
        &[
            "pandas==3.1.1",
            "sqlalchemy==2.1.9",
            "psycopg[binary]==3.3.9",
        ],
    )
    .await;
}

/// The cells of docs/notebooks.md in a kernel of Jupyter.
#[tokio::test(flavor = "multi_thread")]
async fn notebook() {
    python(
        "notebook",
        &[
            "nbclient==0.11.0",
            "ipykernel==7.4.0",
            "matplotlib==3.11.2",
            "pandas==3.1.1",
            "sqlalchemy==2.1.9",
            "psycopg[binary]==3.3.9",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn psqlodbc() {
    let Some(driver) = install::psqlodbc().await else {
        return;
    };
    run(
        "isql",
        "sh",
        &[
            "tests/clients/psqlodbc/isql.sh".as_ref(),
            driver.as_os_str(),
        ],
        &[],
    )
    .await;
    let Some(Python(python)) = install::python("pyodbc", &["pyodbc==5.5.0"]).await else {
        return;
    };
    let environment = [
        ("PYTHONPATH", "tests/clients".as_ref()),
        ("DRIVER", driver.as_os_str()),
    ];
    run(
        "psqlodbc",
        python,
        &["tests/clients/psqlodbc/test.py".as_ref()],
        &environment,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jdbc() {
    let Some(jar) = install::jdbc().await else {
        return;
    };
    run(
        "jdbc",
        "java",
        &[
            "-cp".as_ref(),
            jar.as_os_str(),
            "tests/clients/jdbc/Clients.java".as_ref(),
        ],
        &[],
    )
    .await;
}

/// Compiled for this test, from crates.io.
#[tokio::test(flavor = "multi_thread")]
async fn sqlx() {
    let Some(program) = install::cargo("sqlx", "sqlx-client").await else {
        return;
    };
    run("sqlx", program, &[], &[]).await;
}

/// Without a browser, by the API that its pages use. It takes minutes to install, so that a
/// variable asks for it.
#[tokio::test(flavor = "multi_thread")]
async fn superset() {
    if std::env::var_os("PGVEIL_SUPERSET").is_none_or(|value| value != "1") {
        println!("skipped: superset runs where PGVEIL_SUPERSET=1 is set");
        return;
    }
    // Superset 6.1 does not start with flask-caching 2.5, and takes a missing cachetools, which it
    // does not list, for a missing driver.
    python(
        "superset",
        &[
            "apache-superset==6.1.0",
            "flask-caching==2.4.0",
            "cachetools==8.0.1",
            "psycopg2-binary==2.9.13",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pg() {
    let Some(modules) = install::node("node").await else {
        return;
    };
    run(
        "node",
        "node",
        &["tests/clients/node/test.js".as_ref()],
        &[("NODE_PATH", modules.as_os_str())],
    )
    .await;
}

async fn python(name: &str, packages: &[&str]) {
    let Some(Python(python)) = install::python(name, packages).await else {
        return;
    };
    let script = format!("tests/clients/{name}/test.py");
    run(
        name,
        python,
        &[script.as_ref()],
        &[("PYTHONPATH", "tests/clients".as_ref())],
    )
    .await;
}
