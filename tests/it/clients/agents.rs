//! Servers of the Model Context Protocol between a model and pgveil, each with the role that
//! docs/agents.md gives to an agent.

use std::ffi::OsStr;
use std::sync::Arc;

use super::install::{self, Python};
use super::recipe::{role_of, with_role};
use super::run::run_on;
use super::stage::{AGENTS, Stage, poor};
use crate::fixture::Veil;
use crate::harness::Shared;

static STAGE: Shared<Stage> = Shared::new();

/// The demo's tables, and the document's role for each server.
async fn stage() -> Arc<Stage> {
    let start = async {
        let edit = |policy: String| {
            AGENTS.iter().fold(policy, |policy, server| {
                let role = role_of("docs/agents.md", &policy);
                with_role(
                    &policy,
                    &role.replace("name: agent", &format!("name: {}", poor(server))),
                )
            })
        };
        Stage::around(Veil::demo(edit, Veil::silent()).await).await
    };
    STAGE.get(start).await
}

/// Asks one server as a model would.
async fn ask(stage: &Stage, kind: &str, command: &[&OsStr]) {
    let script = ["tests/clients/mcp/test.py".as_ref(), kind.as_ref()];
    let arguments = [&script, command].concat();
    let client = format!("mcp-{kind}");
    run_on(stage, &client, "python3", &arguments, &[]).await;
}

/// The reference server of the protocol's authors, and Bytebase's.
#[tokio::test(flavor = "multi_thread")]
async fn servers_on_npm() {
    let Some(modules) = install::node("mcp").await else {
        return;
    };
    let stage = stage().await;
    for (kind, package) in [
        ("reference", "@modelcontextprotocol/server-postgres"),
        ("dbhub", "@bytebase/dbhub"),
    ] {
        let server = modules.join(package).join("dist/index.js");
        ask(&stage, kind, &["node".as_ref(), server.as_os_str()]).await;
    }
}

/// The dependencies of postgres-mcp except pglast 7.2.0, which has no build for every Python.
const DEPENDENCIES: [&str; 7] = [
    "attrs==26.1.0",
    "humanize==4.17.0",
    "instructor==1.17.0",
    "mcp[cli]==1.30.0",
    "pglast==7.22",
    "psycopg-pool==3.3.3",
    "psycopg[binary]==3.3.9",
];

/// Postgres MCP Pro, in both of its modes.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_mcp() {
    let alone = ["postgres-mcp==0.3.0"];
    let Some(Python(python)) = install::python_alone("postgres-mcp", &DEPENDENCIES, &alone).await
    else {
        return;
    };
    let stage = stage().await;
    let server = [
        python.as_os_str(),
        "tests/clients/mcp/postgres_mcp_server.py".as_ref(),
    ];
    for kind in ["pro", "restricted"] {
        ask(&stage, kind, &server).await;
    }
}
