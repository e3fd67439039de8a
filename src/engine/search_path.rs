//! The search_path that a role's sessions start with.

use crate::catalog::BackendServer;
use crate::policy::{Policy, path_of, schemas};

/// The policy's search_path for the role, otherwise that of the role's sessions on the server.
/// Where the server's reaches none of the policy's tables, their schemas are appended: unqualified
/// names would find nothing.
pub fn start_path(policy: &Policy, server: &BackendServer, role: &str) -> String {
    if let Some(path) = policy.role(role).and_then(|role| role.search_path.clone()) {
        return path;
    }
    let path = server.search_path(role);
    let reached = schemas(path, role);
    if policy
        .tables
        .iter()
        .any(|table| reached.contains(&table.schema))
    {
        return path.to_owned();
    }
    let mut shown: Vec<String> = Vec::new();
    for table in &policy.tables {
        if !shown.contains(&table.schema) {
            shown.push(table.schema.clone());
        }
    }
    [path.to_owned(), path_of(&shown)]
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}
