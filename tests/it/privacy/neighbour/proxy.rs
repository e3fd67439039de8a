//! A whole pgveil over a world, in process, without noise and with a budget that no test exhausts.

use std::sync::Arc;

use pgveil::engine::{Engine, MakeSampler, Requester};
use pgveil::execute::Backend;
use pgveil::ledger::{AccountSpec, Ledger};
use pgveil::mechanism::{Cap, Fixed};
use pgveil::policy::Budget;
use pgveil::shadow::{Shadow, ShadowOptions, ShadowSource};

use super::world::World;
use crate::fixture::{TemporaryDirectory, Veil};

pub struct Proxy {
    pub engine: Engine,
    /// Holds the ledger.
    pub directory: TemporaryDirectory,
}

impl Proxy {
    pub async fn over(world: &World) -> Self {
        Self::with(world, Arc::new(|| Box::new(crate::fixture::Silent))).await
    }

    pub async fn with(world: &World, sampler: MakeSampler) -> Self {
        let directory =
            std::env::temp_dir().join(format!("pgveil-veiled-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&directory).unwrap();
        let directory = TemporaryDirectory(directory);
        Self {
            engine: engine(world, &directory.0).await.with_sampler(sampler),
            directory,
        }
    }
}

async fn engine(world: &World, directory: &std::path::Path) -> Engine {
    let mut policy = world.policy.clone();
    let budget = Budget {
        epsilon: 100_000.0,
        delta: 1e-3,
    };
    policy.privacy.budget = budget;
    policy.roles[0].budget = budget;
    policy.privacy.epsilon_max = 10.0;
    let version = "15.0";
    let shadow = Shadow::start(
        &policy,
        ShadowOptions::new(ShadowSource::Local, world.database.clone(), version),
    )
    .await
    .unwrap();
    shadow.copy_public(&world.client).await.unwrap();
    let share = policy.privacy.threshold_share;
    let cap = Cap::new(
        Fixed::round_down(budget.epsilon),
        Fixed::round_down(budget.delta),
        Fixed::round_down(share),
        policy.privacy.accounting,
    )
    .unwrap();
    let account = |name: &str| AccountSpec {
        name: name.to_owned(),
        budget,
        threshold_share: share,
        cap,
        renew: pgveil::policy::Renew::Never,
    };
    let url = format!("sqlite://{}", directory.join("ledger.db").display());
    let ledger = Ledger::open(&url, account("owner"), &[account("ann")])
        .await
        .unwrap();
    let socket: String = world
        .client
        .query_one("SHOW unix_socket_directories", &[])
        .await
        .unwrap()
        .get(0);
    let mut config = tokio_postgres::Config::new();
    config
        .host_path(socket)
        .dbname(&world.database)
        .user("postgres");
    Engine::new(
        policy,
        Backend::new(config, 2),
        shadow,
        ledger,
        world.database.clone(),
        version.to_owned(),
    )
}

pub fn requester() -> Requester {
    Requester {
        role: "ann".to_owned(),
        session_settings: Veil::session_settings(1.0),
        search_path: vec!["w".to_owned()],
        ..Veil::requester()
    }
}
