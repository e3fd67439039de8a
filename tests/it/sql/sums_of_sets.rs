//! Sums of groups of grouping sets that share effects, whichever groups a question asks for.

use pgveil::engine::Requester;
use pgveil::policy::{ClipChoice, Reuse};

use super::outer_query::rich;
use crate::fixture::{Veil, streams};
use crate::privacy::neighbour::random::{Random, seeds};

const CUBE: &str = "SELECT race, college_graduate, birth_year, count(*) FROM nls.women GROUP BY \
    GROUPING SETS ((race, college_graduate), (race, birth_year), (college_graduate, birth_year))";

/// Its sums have less than half the variance that noise apart would give them.
const CUBE_OF_TWO: &str = "SELECT race, college_graduate, count(*) FROM nls.women \
    GROUP BY CUBE (race, college_graduate)";

/// Neither is a combination of some races with some values of `college_graduate`.
const EITHER: &str = "race = 'black' OR college_graduate = 1";
const ONE_OF: &str = "(race = 'black') <> (college_graduate = 1)";

/// Its answers may share noise.
fn shared(reuse: Reuse) -> Requester {
    let mut requester = Veil::requester();
    requester.session_settings.clip = ClipChoice::Auto;
    requester.session_settings.reuse = reuse;
    requester
}

/// A condition over the keys of one of the sets, which may pick any of its groups.
fn condition(random: &mut Random, depth: usize) -> String {
    let atoms = [
        "race = 'black'",
        "race <> 'other'",
        "race IN ('white', 'other')",
        "college_graduate = 1",
        "college_graduate = 0",
    ];
    let of = |random: &mut Random| condition(random, depth - 1);
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 => random.pick(&atoms).to_owned(),
        1 => format!("({} OR {})", of(random), of(random)),
        2 => format!("({} AND {})", of(random), of(random)),
        _ => format!("NOT {}", of(random)),
    }
}

/// Any groups are summed, free, to what PostgreSQL counts.
#[tokio::test(flavor = "multi_thread")]
async fn any_groups_of_a_set_are_summed() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    veil.rows_as(&shared(Reuse::On), CUBE).await.unwrap();
    let spent = veil.spent().await;
    let case = format!("CASE WHEN {EITHER} THEN 'a' ELSE 'b' END");
    let questions = [
        format!("SELECT count(*) FROM nls.women WHERE {EITHER}"),
        format!("SELECT count(*) FROM nls.women WHERE {ONE_OF}"),
        format!("SELECT {case}, count(*) FROM nls.women GROUP BY 1 ORDER BY 1"),
    ];
    for sql in &questions {
        veil.answers_as_postgresql(&shared(Reuse::On), &[sql]).await;
        assert_eq!(veil.spent().await, spent, "{sql} was bought");
    }
    // What no row meets may be bought.
    let (mut free, asked) = (0, 40);
    for seed in seeds() {
        let mut random = Random::new(seed);
        for _ in 0..asked {
            let sql = format!(
                "SELECT count(*) FROM nls.women WHERE {}",
                condition(&mut random, 3)
            );
            let before = veil.spent().await;
            veil.answers_as_postgresql(&shared(Reuse::On), &[&sql])
                .await;
            free += u32::from(veil.spent().await == before);
        }
        assert!(free > asked / 2, "{free} of {asked} were free, seed {seed}");
        free = 0;
    }
    let spent = veil.spent().await;
    // No set has all three keys.
    let across = format!("SELECT count(*) FROM nls.women WHERE ({EITHER}) AND birth_year < 1945");
    veil.answers_as_postgresql(&shared(Reuse::On), &[&across])
        .await;
    assert!(veil.spent().await > spent, "{across} has a price");
}

/// Over many answers, the distance of such sums from the truth is as their standard errors say.
#[tokio::test(flavor = "multi_thread")]
async fn sums_of_any_groups_are_as_far_off_as_they_say() {
    // The same noise in each run, so that no run is an unlucky one.
    let veil = Veil::demo(rich, Some(streams())).await;
    let count = |condition: &str| format!("(SELECT count(*) FROM nls.women WHERE {condition})");
    let error = |condition: &str| {
        format!("(SELECT pgveil.stderr(count(*)) FROM nls.women WHERE {condition})")
    };
    let truth = veil
        .direct(&format!("SELECT {}, {}", count(EITHER), count(ONE_OF)))
        .await;
    let numbers = |row: &str| -> Vec<f64> { row.split('|').map(|v| v.parse().unwrap()).collect() };
    let truth = numbers(&truth[0]);
    let sql = format!(
        "SELECT {}, {}, {}, {}",
        count(EITHER),
        count(ONE_OF),
        error(EITHER),
        error(ONE_OF)
    );
    let rounds = 150;
    let mut squares = [0.0, 0.0];
    for _ in 0..rounds {
        veil.rows_as(&shared(Reuse::Off), CUBE_OF_TWO)
            .await
            .unwrap();
        let spent = veil.spent().await;
        let row = veil.rows_as(&shared(Reuse::On), &sql).await.unwrap();
        assert_eq!(veil.spent().await, spent);
        let values = numbers(&row[0]);
        for at in 0..2 {
            squares[at] += ((values[at] - truth[at]) / values[at + 2]).powi(2);
        }
    }
    // A mean of 150 squares of a normal has standard error 0.115.
    for mean in squares.map(|sum| sum / f64::from(rounds)) {
        assert!((0.6..1.5).contains(&mean), "{squares:?}");
    }
}
