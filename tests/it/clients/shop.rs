//! Real clients over tables of another schema, with names of mixed case, `char(n)`, an enum and no
//! foreign keys: tests/clients/shop.

use super::install::{self, Python};
use super::run::run_shop;

/// `\dt`, `\d` and the like without a pattern, compared with the database's own.
#[tokio::test(flavor = "multi_thread")]
async fn psql() {
    let Some(psql) = install::psql().await else {
        return;
    };
    run_shop(
        "psql-shop",
        "sh",
        &["tests/clients/psql/shop.sh".as_ref(), psql.as_os_str()],
        &[],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pg() {
    node("node-shop", "node", "shop.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_js() {
    node("postgresjs", "postgresjs", "test.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sequelize() {
    node("sequelize", "sequelize", "test.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prisma() {
    node("prisma", "prisma", "test.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn perl() {
    let Some(perl) = install::perl().await else {
        return;
    };
    run_shop("perl", perl, &["tests/clients/perl/test.pl".as_ref()], &[]).await;
}

/// preferQueryMode=simple writes every value into the text.
#[tokio::test(flavor = "multi_thread")]
async fn jdbc_simple() {
    let Some(jar) = install::jdbc().await else {
        return;
    };
    run_shop(
        "jdbc-simple",
        "java",
        &[
            "-cp".as_ref(),
            jar.as_os_str(),
            "tests/clients/jdbc/Shop.java".as_ref(),
        ],
        &[],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn django() {
    let Some(Python(python)) = install::python("django", &super::DJANGO).await else {
        return;
    };
    run_shop(
        "django-shop",
        python,
        &["tests/clients/django/shop.py".as_ref()],
        &[("PYTHONPATH", "tests/clients".as_ref())],
    )
    .await;
}

async fn node(client: &str, folder: &str, script: &str) {
    let Some(modules) = install::node(folder).await else {
        return;
    };
    let script = format!("tests/clients/{folder}/{script}");
    run_shop(
        client,
        "node",
        &[script.as_ref()],
        &[("NODE_PATH", modules.as_os_str())],
    )
    .await;
}
