//! `pgveil explain` prints the plan of a query and its price. It reads the catalog and no private
//! row, and spends nothing. It opens the ledger only for the results of searches.

use std::path::Path;

use super::{Failure, start, table};
use crate::catalog::Server;
use crate::engine::{
    Asked, MemoryShare, Requester, constants, describe_plan, plan, refuse_useless, start_path,
};
use crate::mechanism::{AccountState, Fixed, Loss};
use crate::parse::{Statement, parse};
use crate::policy::{Policy, SessionSettings, schemas};
use crate::rewrite::Terms;

pub async fn run(path: &Path, role: Option<&str>, sql: &str) -> Result<(), Failure> {
    let file = start::read(path)?;
    let opened = start::open(&file, &start::database(&file)?).await?;
    let server = Server::of(&opened.connected.client)
        .await
        .map_err(Failure::new)?;
    opened.connected.close().await;
    let policy = start::as_found(&file, opened.policy).await?;
    let terms = terms(&policy, role)?;
    let role = role
        .or(policy.roles.first().map(|role| role.name.as_str()))
        .unwrap_or_default()
        .to_owned();
    let search_path = schemas(&start_path(&policy, &server, &role), &role);
    let session_settings = policy
        .role(&role)
        .map_or_else(SessionSettings::default, |r| r.session_settings);
    let terms = Terms {
        epsilon: session_settings.epsilon.unwrap_or(terms.epsilon),
        session_settings,
        ..terms
    };
    let requester = Requester {
        role,
        session_settings,
        settings: Vec::new(),
        search_path,
        process: 0,
        share: MemoryShare::default(),
    };
    let refused = |refusal| {
        table::print_refusal(&refusal, sql);
        Failure::Shown
    };
    for statement in parse(sql).map_err(refused)? {
        let (Statement::Query(query) | Statement::Explain(query, _)) = statement else {
            return Err(Failure::Usage(
                "only queries can be explained; leave SET, BEGIN and the like out".to_owned(),
            ));
        };
        let constants = constants(&requester, &policy);
        let search_path = &requester.search_path;
        let planned = plan(&query, &policy, search_path, &constants, &terms)
            .map_err(|e| refused(e.report()))?;
        for line in describe_plan(&planned, terms.delta) {
            println!("{line}");
        }
        let asked = Asked {
            query: &query,
            policy: &policy,
            search_path,
            constants: &constants,
            terms: &terms,
        };
        if let Some(useless) = refuse_useless(&asked, &planned, |_| true) {
            println!("Useless: {}", useless.message);
            useless
                .hint
                .iter()
                .for_each(|hint| println!("  Hint: {hint}"));
        }
    }
    Ok(())
}

/// The terms of a role that has spent nothing.
pub(super) fn terms(policy: &Policy, role: Option<&str>) -> Result<Terms, Failure> {
    let (owner, roles) = start::accounts(&policy.privacy, &policy.roles)?;
    let spec = match role {
        Some(name) => roles.into_iter().find(|spec| spec.name == name),
        None => roles.into_iter().next(),
    };
    let Some(spec) = spec else {
        let names: Vec<&str> = policy.roles.iter().map(|role| role.name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "the policy has no such role; its roles are {}",
            names.join(", ")
        )));
    };
    let nothing = Loss {
        epsilon: Some(Fixed::ZERO),
        rho: Fixed::ZERO,
        mu_squared: Fixed::ZERO,
        delta: Fixed::ZERO,
    };
    let accounts = [spec.cap, owner.cap]
        .map(|cap| AccountState {
            cap,
            spent: nothing,
        })
        .to_vec();
    Ok(Terms {
        epsilon: policy.privacy.epsilon_default,
        delta: spec.budget.delta,
        accounts,
        session_settings: SessionSettings::default(),
    })
}
