//! Real clients write through pgveil, over tables that were not made for it.

use std::ffi::OsStr;
use std::process::Command;

use super::install;
use super::install::Python;
use crate::sql::writes::{MEMO, Survey};

/// Runs a program that writes.
fn write_by(survey: &Survey, program: &OsStr, arguments: &[&OsStr]) {
    let wrote = Command::new(program)
        .args(arguments)
        .env("VEILED_PORT", survey.stage.veiled.port().to_string())
        .env("DIRECT_PORT", survey.stage.direct.port().to_string())
        .env("LC_ALL", "C.UTF-8")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = [wrote.stdout, wrote.stderr].concat();
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Rows, batches in a pipeline, COPY, nested transactions; a session of an ORM.
#[tokio::test(flavor = "multi_thread")]
async fn psycopg_and_sqlalchemy_write() {
    let packages = ["sqlalchemy==2.1.9", "psycopg[binary]==3.3.9"];
    let Some(Python(python)) = install::python("sqlalchemy", &packages).await else {
        return;
    };
    let survey = Survey::new(MEMO).await;
    write_by(
        &survey,
        python.as_os_str(),
        &["tests/clients/writes/test.py".as_ref()],
    );
}

/// Batches, also as one INSERT of many rows, and by both protocols; COPY.
#[tokio::test(flavor = "multi_thread")]
async fn pgjdbc_writes() {
    let Some(jar) = install::jdbc().await else {
        return;
    };
    let survey = Survey::new(MEMO).await;
    let program = "tests/clients/writes/Writes.java".as_ref();
    write_by(
        &survey,
        "java".as_ref(),
        &["-cp".as_ref(), jar.as_os_str(), program],
    );
}

/// `\copy` of psql, and rows in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn psql_writes() {
    let Some(psql) = install::psql().await else {
        return;
    };
    let survey = Survey::new(MEMO).await;
    let columns = "\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \"Tea\", \"Coffee\", \
        \"Income\"";
    let rows = format!(
        "printf '1,1,yes,flu,a,t,f,1000\\n2,1,no,cold,bcd,f,t,2000\\n' | {} \"host=localhost \
            port={} user=collector password=analyst dbname=nls sslmode=disable\" -X -v \
            ON_ERROR_STOP=1 -c '\\copy \"Survey\".\"Answers\" ({columns}) FROM PSTDIN CSV' -c \
            'BEGIN' -c \"INSERT INTO \\\"Survey\\\".\\\"Answers\\\" ({}) VALUES (3, 1, 'yes', \
            'flu', 'a', true, false, 1000)\" -c 'COMMIT'",
        psql.display(),
        survey.stage.veiled.port(),
        columns.replace('"', "\\\""),
    );
    write_by(&survey, "sh".as_ref(), &["-c".as_ref(), rows.as_ref()]);
    let counted = survey
        .direct("SELECT count(*) FROM \"Survey\".\"Answers\"")
        .await;
    assert_eq!(counted, ["3"]);
}

/// Rows by a pool, prepared by name, in transactions; streams of COPY, whole and given up.
#[tokio::test(flavor = "multi_thread")]
async fn node_postgres_writes() {
    let Some(modules) = install::node("writes").await else {
        return;
    };
    let survey = Survey::new(MEMO).await;
    let path = format!("NODE_PATH={}", modules.display());
    let arguments = [
        path.as_ref(),
        "node".as_ref(),
        "tests/clients/writes/test.js".as_ref(),
    ];
    write_by(&survey, "env".as_ref(), &arguments);
}

/// `save`, `create` and `bulk_create` of models, nested transactions, and what needs RETURNING.
#[tokio::test(flavor = "multi_thread")]
async fn django_writes() {
    let Some(Python(python)) = install::python("django", &super::DJANGO).await else {
        return;
    };
    let survey = Survey::new(MEMO).await;
    let program = "tests/clients/writes/django_writes.py".as_ref();
    write_by(&survey, python.as_os_str(), &[program]);
}
