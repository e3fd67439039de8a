//! `pgveil explain` prints the plan of a query and its price. It reads the catalog and no private
//! row, and spends nothing. It opens the ledger for the results of searches, and for what a role
//! has spent.

use std::path::Path;

use super::arguments::ExplainOptions;
use super::{Failure, curve, policy, start, table};
use crate::catalog::BackendServer;
use crate::engine;
use crate::engine::{
    AccountPromise, MemoryShare, QuestionPlan, Requester, Sql, accounts, constants, explain,
    meaning_of_reports, start_path,
};
use crate::ledger::{Balances, LedgerReader};
use crate::mechanism::{AccountState, Fixed, Loss};
use crate::parse::{Query, Statement, parse};
use crate::policy::{File, Policy, SessionSettings, schemas};
use crate::refusal::Refusal;
use crate::rewrite::{Terms, UnitCount};

pub async fn run(options: ExplainOptions) -> Result<(), Failure> {
    match (&options.meaning, &options.policy, &options.sql) {
        (Some(path), _, _) => meaning(path),
        (None, Some(path), Some(sql)) => explain_with(&options, path, sql).await,
        (None, _, _) => Err(Failure::Usage("name a policy and a query".to_owned())),
    }
}

/// The plans of the queries and their prices.
async fn explain_with(options: &ExplainOptions, path: &Path, sql: &str) -> Result<(), Failure> {
    let file = start::read(path)?;
    let opened = start::open(&file, &start::database(&file)?).await?;
    let server = BackendServer::of(&opened.connected.client)
        .await
        .map_err(Failure::new)?;
    opened.connected.close().await;
    let policy = start::as_found(&file, opened.policy).await?;
    let fresh = terms(&policy, options.role.as_deref())?;
    let role = options
        .role
        .as_deref()
        .or(policy.asking_role().map(|role| role.name.as_str()))
        .unwrap_or_default()
        .to_owned();
    let balances = match options.spent {
        true => Some(balances(&file, &role).await?),
        false => None,
    };
    let search_path = schemas(&start_path(&policy, &server, &role), &role);
    let session_settings = policy
        .role(&role)
        .map_or_else(SessionSettings::default, |r| r.session_settings);
    let terms = Terms {
        epsilon: session_settings.epsilon.unwrap_or(fresh.epsilon),
        session_settings,
        accounts: balances.as_ref().map_or(fresh.accounts, accounts),
        ..fresh
    };
    let requester = Requester {
        role,
        session_settings,
        settings: Vec::new(),
        search_path,
        process: 0,
        origin: Default::default(),
        given_up: Default::default(),
        share: MemoryShare::default(),
    };
    let constants = constants(&requester, &policy);
    for query in queries(sql)? {
        let asked = QuestionPlan {
            query: &query,
            policy: &policy,
            search_path: &requester.search_path,
            constants: &constants,
            terms: &terms,
            units: UnitCount::of_policy(&policy),
        };
        if options.curve {
            let found = engine::curve(&asked);
            let found = found.map_err(|refusal| failure_of(&refusal, sql))?;
            let lines = match options.json {
                true => vec![curve::json(&found, &requester.role)],
                false => curve::lines(&found, &requester.role),
            };
            lines.iter().for_each(|line| println!("{line}"));
        } else {
            let shown = match options.verbose {
                true => Sql::Shown,
                false => Sql::LeftOut,
            };
            let lines = explain(&asked, balances.as_ref().map(|both| &both.role), shown);
            let lines = lines.map_err(|refusal| failure_of(&refusal, sql))?;
            lines.iter().for_each(|line| println!("{line}"));
        }
    }
    Ok(())
}

/// What the budgets of a policy mean, from the file alone.
fn meaning(path: &Path) -> Result<(), Failure> {
    let file = policy::read(path)?;
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    let names: Vec<String> = roles
        .iter()
        .map(|role| format!("role {}", role.name))
        .collect();
    let whom = names
        .iter()
        .map(String::as_str)
        .chain(["all roles together"]);
    let promised: Vec<_> = roles
        .iter()
        .chain([&owner])
        .zip(whom)
        .map(|(spec, whom)| AccountPromise {
            whom,
            cap: spec.cap,
            renew: spec.renew,
            unit: &file.privacy.unit,
        })
        .collect();
    for account in &promised {
        account.lines().iter().for_each(|line| println!("{line}"));
        println!();
    }
    let of_reports = meaning_of_reports(&file);
    if !of_reports.is_empty() {
        of_reports.iter().for_each(|line| println!("{line}"));
        println!();
    }
    let columns = [
        "account",
        "together",
        "epsilon",
        "at delta",
        "odds",
        "from 1 %",
        "from 50 %",
        "detected of 100 at 5 false",
    ]
    .map(str::to_owned);
    let rows: Vec<_> = promised.iter().flat_map(AccountPromise::table).collect();
    let lines = table::of_texts(&columns, &rows);
    lines
        .iter()
        .for_each(|line| println!("{}", line.trim_end()));
    Ok(())
}

fn failure_of(refusal: &Refusal, sql: &str) -> Failure {
    table::print_refusal(refusal, sql);
    Failure::Shown
}

fn queries(sql: &str) -> Result<Vec<Query>, Failure> {
    let statements = parse(sql).map_err(|refusal| failure_of(&refusal, sql))?;
    let query = |statement| match statement {
        Statement::Query(query) | Statement::Explain(query, _) => Ok(query),
        _ => Err(Failure::Usage(
            "only queries can be explained; leave SET, BEGIN and the like out".to_owned(),
        )),
    };
    statements.into_iter().map(query).collect()
}

/// The accounts of a role, as the ledger has them.
async fn balances(file: &File, role: &str) -> Result<Balances, Failure> {
    let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
    let ledger = LedgerReader::open(start::ledger(file)?, owner, &roles).await;
    let ledger = ledger.map_err(start::unread)?;
    ledger.balances(role).await.map_err(Failure::new)
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
        ranges: Vec::new(),
    })
}
