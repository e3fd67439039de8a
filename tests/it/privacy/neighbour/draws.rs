//! Each group and each release has its own draws; one draw for two groups, or a stream begun again,
//! is caught.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pgveil::engine::{Format, MakeSampler, Requester, Service};
use pgveil::mechanism::{CandidateRun, Exponential, Noise, SampleError, Sampler};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use super::proxy::{Proxy, requester};
use super::world::World;

/// Every draw is the next multiple of a large step: equal noise is an equal draw. A step of nothing
/// is a draw that all groups share.
struct Counting {
    drawn: Arc<AtomicI64>,
    step: i64,
}

const LARGE: i128 = 1 << 50;

impl Sampler for Counting {
    fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
        Ok(LARGE * i128::from(1 + self.step * self.drawn.fetch_add(1, Ordering::Relaxed)))
    }

    fn choose(&mut self, _: &Exponential, _: &[CandidateRun]) -> Result<(usize, u64), SampleError> {
        Err(SampleError::Parameter)
    }
}

/// Counts of empty groups: nothing but noise.
const EMPTY: &str = "SELECT kd, b, count(*) FROM people WHERE tx = 'nobody' GROUP BY kd, b";

async fn counts(proxy: &Proxy) -> Vec<String> {
    let requester = Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Off,
            ..requester().session_settings
        },
        ..requester()
    };
    let statements = parse(EMPTY).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query")
    };
    let answer = proxy
        .engine
        .answer(
            &requester,
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await
        .unwrap();
    answer
        .rows
        .iter()
        .map(|row| {
            row[2].as_ref().map_or(String::new(), |text| {
                String::from_utf8_lossy(text).into_owned()
            })
        })
        .collect()
}

fn are_unlike(counts: &[String]) -> bool {
    (0..counts.len()).all(|i| !counts[..i].contains(&counts[i]))
}

fn counting(step: i64, begins_again: bool) -> MakeSampler {
    let all = Arc::new(AtomicI64::new(0));
    Arc::new(move || {
        let drawn = if begins_again {
            Arc::new(AtomicI64::new(0))
        } else {
            Arc::clone(&all)
        };
        Box::new(Counting { drawn, step })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_group_has_its_own_draw() {
    let world = World::new().await;
    let proxy = Proxy::with(&world, counting(1, false)).await;
    let (first, second) = (counts(&proxy).await, counts(&proxy).await);
    assert_eq!(first.len(), 12);
    assert!(are_unlike(&[first, second].concat()));
    proxy.engine.stop().await;
    let shared = Proxy::with(&world, counting(0, false)).await;
    assert!(
        !are_unlike(&counts(&shared).await),
        "a draw for all groups survives"
    );
    shared.engine.stop().await;
    let again = Proxy::with(&world, counting(1, true)).await;
    assert!(
        !are_unlike(&[counts(&again).await, counts(&again).await].concat()),
        "a stream begun again survives"
    );
    again.engine.stop().await;
}

/// The real source of randomness: of three purchases of the same empty groups, two differ. A count
/// is shown as 0 in more than a third of the draws: the twelve of all three agree in one of 10^7
/// runs.
#[tokio::test(flavor = "multi_thread")]
async fn every_purchase_draws_afresh() {
    let world = World::new().await;
    let proxy = Proxy::with(
        &world,
        Arc::new(|| Box::new(pgveil::mechanism::OsRandomness::new())),
    )
    .await;
    let found = [
        counts(&proxy).await,
        counts(&proxy).await,
        counts(&proxy).await,
    ];
    assert!(found[0] != found[1] || found[1] != found[2], "{found:?}");
    proxy.engine.stop().await;
}
