//! Random questions over hostile rows through the real wire, on a database and on its neighbour,
//! with the same noise: the same bytes but for released values.

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::proxy::Proxy;
use super::question::question;
use super::random::{Random, seeds};
use super::world::{HEAVY, UNITS, World};
use crate::fixture::{TemporaryDirectory, streams};
use crate::privacy::attack::paths::{log_in, opened};
use crate::privacy::attack::replay::{Both, paths};
use crate::wire::socket::Socket;

/// Random questions of each seed; `PGVEIL_REPLAY_QUERIES` asks for more.
fn queries() -> usize {
    std::env::var("PGVEIL_REPLAY_QUERIES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60)
}

const DATABASES: usize = 3;

struct Side {
    world: World,
    socket: Option<Socket>,
    _port: DropGuard,
    _ledger: TemporaryDirectory,
}

impl Side {
    async fn new() -> Self {
        let world = World::new().await;
        let Proxy { engine, directory } = Proxy::with(&world, streams()).await;
        let (address, port) = opened(Arc::new(engine)).await;
        let socket = log_in(address, "ann", &world.database).await;
        Self {
            world,
            socket: Some(socket),
            _port: port,
            _ledger: directory,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_questions_send_the_same_bytes() {
    for seed in seeds() {
        let (mut all, mut fewer) = tokio::join!(Side::new(), Side::new());
        let mut both = Both::new(all.socket.take().unwrap(), fewer.socket.take().unwrap());
        for sql in [
            "SET search_path = w",
            "SET pgveil.notices = full",
            "SET pgveil.reuse = off",
        ] {
            both.set(sql).await;
        }
        let mut random = Random::new(seed ^ 6);
        for database in 0..DATABASES {
            let heavy = database % 2 == 1;
            let mut again = random.clone();
            all.world.fill(&mut random, heavy).await;
            fewer.world.fill(&mut again, heavy).await;
            let unit = if heavy {
                HEAVY
            } else {
                1 + random.below(UNITS)
            };
            fewer.world.without(unit).await;
            fewer.world.client.batch_execute("COMMIT").await.unwrap();
            for turn in 0..queries() / DATABASES {
                both.ask(&question(&mut random).sql, &paths(turn, 1)).await;
            }
        }
        both.end(&format!("PGVEIL_SEED={seed}"));
    }
}
