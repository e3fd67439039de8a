//! FILTER over keys of a summary, or of a finer answer that the role has bought: the groups whose
//! keys meet it are added up, free, with the error of these groups.

use pgveil::engine::Requester;
use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::outer_query::rich;
use super::summaries::{declared, free, make, precise, session, spent, with_reuse};
use crate::fixture::{Silent, Stream, Veil, streams};
use crate::privacy::neighbour::random::{Random, seeds};

const FINER: &str = "SELECT race, college_graduate, birth_year / 5, count(*), \
    avg(years_of_school) FROM nls.women GROUP BY 1, 2, 3";

const CUBE: &str = "SELECT race, college_graduate, count(*), avg(years_of_school) FROM nls.women \
    GROUP BY CUBE (race, college_graduate)";

/// Conditions over keys of one set.
const FILTERS: [&str; 10] = [
    "race = 'black'",
    "race IN ('white', 'other')",
    "race <> 'other'",
    "college_graduate = 1",
    "NOT college_graduate = 1",
    "race = 'black' OR college_graduate = 1",
    "(race = 'black') <> (college_graduate = 1)",
    "race = 'black' AND college_graduate = 1",
    "CASE WHEN race = 'white' THEN college_graduate ELSE 0 END = 0",
    "college_graduate IS NULL",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_answers_filters_over_its_keys() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let analyst = session("analyst");
    for sql in [
        "SELECT count(*) FILTER (WHERE race = 'black') FROM nls.women",
        "SELECT count(*) FILTER (WHERE race = 'black'), count(*) FROM nls.women",
        "SELECT race, count(*) FILTER (WHERE birth_year < 1947), count(*) FILTER (WHERE \
            birth_year > 1948), count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT sum(years_of_school) FILTER (WHERE college_graduate = 1), \
            round(avg(years_of_school) FILTER (WHERE race <> 'other'), 6), \
            round(avg(years_of_school), 6), count(years_of_school) FILTER (WHERE race = 'white') \
            FROM nls.women",
        "SELECT round(100.0 * count(*) FILTER (WHERE college_graduate = 1) / count(*), 4) FROM \
            nls.women WHERE birth_year BETWEEN 1944 AND 1948",
        "SELECT count(*) FILTER (WHERE race = 'white'), count(*) FILTER (WHERE race = 'black'), \
            count(*) FILTER (WHERE race = 'other'), count(*) FROM nls.women",
        "SELECT birth_year, count(*) FILTER (WHERE birth_year > 1948) FROM nls.women GROUP BY 1 \
            ORDER BY 1",
        "SELECT count(*) FILTER (WHERE birth_year < 1948 AND nullif(race, 'other') IS NULL), \
            count(*) FILTER (WHERE NULL) FROM nls.women",
    ] {
        assert!(free(&veil, &analyst, sql).await, "{sql} was bought");
    }
    for sql in [
        // No set has all keys.
        "SELECT count(*) FILTER (WHERE race = 'black' AND birth_year = 1944 AND college_graduate \
            = 1) FROM nls.women",
        "SELECT race, count(*) FILTER (WHERE college_graduate = 1), count(*) FILTER (WHERE \
            birth_year > 1948) FROM nls.women GROUP BY race ORDER BY race",
        // No key, another sum, a sum that its own condition bounds.
        "SELECT count(*) FILTER (WHERE years_of_school = 12) FROM nls.women",
        "SELECT sum(birth_year) FILTER (WHERE race = 'black') FROM nls.women",
        "SELECT sum(years_of_school) FILTER (WHERE years_of_school > 8) FROM nls.women",
        "SELECT sum(CASE WHEN race = 'white' THEN years_of_school ELSE 0 END) FROM nls.women",
        // No sum.
        "SELECT count(DISTINCT birth_year) FILTER (WHERE race = 'black') FROM nls.women",
        "SELECT round(stddev(years_of_school) FILTER (WHERE race = 'black'), 1) > 0 FROM nls.women",
    ] {
        assert!(!free(&veil, &analyst, sql).await, "{sql} was free");
    }
}

fn filter(random: &mut Random, depth: usize) -> String {
    let atoms = [
        "race = 'black'",
        "race IN ('white', 'other')",
        "birth_year / 5 = 389",
        "birth_year BETWEEN 1945 AND 1949",
        "college_graduate = 1",
        "college_graduate <> 1",
        "years_of_school > 11",
    ];
    let of = |random: &mut Random| filter(random, depth - 1);
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 => random.pick(&atoms).to_owned(),
        1 => format!("({} OR {})", of(random), of(random)),
        2 => format!("({} AND {})", of(random), of(random)),
        _ => format!("NOT {}", of(random)),
    }
}

/// One to three aggregates, each with a filter or none.
fn question(random: &mut Random) -> String {
    let measured = [
        "count(*)",
        "count(years_of_school)",
        "sum(years_of_school)",
        "avg(years_of_school)",
    ];
    let aggregates = (0..=random.below(3)).map(|_| {
        let of = random.pick(&measured).to_owned();
        let filtered = match random.below(4) {
            0 => of,
            _ => format!("{of} FILTER (WHERE {})", filter(random, 1)),
        };
        format!("round(coalesce({filtered}, 0), 5)")
    });
    let aggregates = aggregates.collect::<Vec<_>>().join(", ");
    let condition = match random.below(2) {
        0 => String::new(),
        _ => format!(" WHERE {}", filter(random, 0)),
    };
    match random.below(3) {
        0 => format!(
            "SELECT race, {aggregates} FROM nls.women{condition} GROUP BY 1 HAVING count(*) > 0 \
                ORDER BY 1"
        ),
        _ => format!("SELECT {aggregates} FROM nls.women{condition}"),
    }
}

/// Whatever is asked, the answer is PostgreSQL's: of a summary, of finer answers, or bought.
#[tokio::test(flavor = "multi_thread")]
async fn random_filters_are_postgresqls_own() {
    let summary = Veil::demo(precise, Veil::silent()).await;
    make(&summary, &summary.engine, &mut Silent).await.unwrap();
    let finer = Veil::demo(Veil::precise, Veil::silent()).await;
    let declared = Requester {
        session_settings: SessionSettings::with_declared_clips(),
        ..session("analyst")
    };
    finer.rows_as(&declared, FINER).await.unwrap();
    for (veil, name) in [(&summary, "summary"), (&finer, "finer answer")] {
        let mut random = Random::new(seeds()[0]);
        let mut answered = 0;
        for _ in 0..60 {
            let sql = question(&mut random);
            answered += u32::from(free(veil, &session("analyst"), &sql).await);
        }
        assert!(
            (8..55).contains(&answered),
            "{answered} of 60 were free, {name}"
        );
    }
}

/// A finer answer whose clip a look chose answers no filter: what is cut is known of whole groups.
#[tokio::test(flavor = "multi_thread")]
async fn finer_answers_with_a_look_answer_no_filter() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let mut looking = session("analyst");
    for (clip, is_free) in [(ClipChoice::Auto, false), (ClipChoice::Fixed, true)] {
        looking.session_settings.clip = clip;
        let finer = "SELECT south, married, count(*), sum(weeks_unemployed) FROM nls.interviews \
            GROUP BY 1, 2";
        veil.rows_as(&looking, finer).await.unwrap();
        let before = veil.spent().await;
        let sql = "SELECT married, count(*) FILTER (WHERE south = 1), sum(weeks_unemployed) FILTER \
            (WHERE south = 0) FROM nls.interviews GROUP BY 1";
        let read = veil.rows_as(&looking, sql).await.unwrap();
        assert_eq!(veil.spent().await == before, is_free, "{clip:?}");
        looking.session_settings.reuse = Reuse::Exact;
        assert_eq!(veil.rows_as(&looking, sql).await.unwrap(), read, "{clip:?}");
        looking.session_settings.reuse = Reuse::On;
    }
}

/// Values, errors and intervals of a filter are those of the same condition in WHERE, from the same
/// noise: of a summary, whose sets share noise; of a finer answer; of grouping sets.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_has_the_error_of_the_condition() {
    let veil = Veil::demo(|yaml| declared(rich(yaml)), Some(streams())).await;
    make(
        &veil,
        &veil.engine,
        &mut Stream(ChaCha20Rng::seed_from_u64(11)),
    )
    .await
    .unwrap();
    let of_summary = with_reuse("analyst", Reuse::Summary);
    are_as_in_where(&veil, &of_summary).await;
    for finer in [FINER, CUBE] {
        let veil = Veil::demo(rich, Some(streams())).await;
        let mut requester = session("analyst");
        requester.session_settings.clip = match finer {
            FINER => ClipChoice::Fixed,
            _ => ClipChoice::Auto,
        };
        veil.rows_as(&requester, finer).await.unwrap();
        let before = spent(&veil.engine, "analyst").await;
        are_as_in_where(&veil, &requester).await;
        assert_eq!(spent(&veil.engine, "analyst").await, before, "{finer}");
    }
}

async fn are_as_in_where(veil: &Veil, requester: &Requester) {
    for condition in FILTERS {
        for measured in [
            "count(*)",
            "sum(years_of_school)",
            "avg(years_of_school)",
            "count(years_of_school)",
        ] {
            let shown = |of: &str| {
                format!(
                    "round(({of})::numeric, 6), round(pgveil.stderr({of})::numeric, 6), \
                        round(pgveil.ci_low({of})::numeric, 6)"
                )
            };
            let filtered = shown(&format!("{measured} FILTER (WHERE {condition})"));
            let sql = format!("SELECT {filtered}, count(*) FROM nls.women");
            let whole = format!(
                "SELECT {} FROM nls.women WHERE {condition}",
                shown(measured)
            );
            let answer = veil.rows_as(requester, &sql).await;
            let answer = answer.unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
            // What no row can meet is known: it has no groups.
            if condition == "college_graduate IS NULL" {
                continue;
            }
            let wanted = veil.rows_as(requester, &whole).await;
            let wanted = wanted.unwrap_or_else(|e| panic!("{whole}: {:?}", e.report()));
            let (own, _) = answer[0].rsplit_once('|').unwrap();
            assert_eq!(own, wanted[0], "{sql}");
        }
    }
}

/// Over many answers, filtered counts, sums, averages and shares are as far off as their standard
/// errors say, whether groups have separate noise or share it.
#[tokio::test(flavor = "multi_thread")]
async fn filters_are_as_far_off_as_they_say() {
    const ASKED: [&str; 6] = [
        "count(*) FILTER (WHERE race = 'black' OR college_graduate = 1)",
        "sum(years_of_school) FILTER (WHERE (race = 'black') <> (college_graduate = 1))",
        "avg(years_of_school) FILTER (WHERE race = 'black')",
        "count(*) FILTER (WHERE race = 'black')::float8 / count(*)",
        "count(*) FILTER (WHERE race = 'black' OR college_graduate = 1) - count(*) FILTER (WHERE \
            college_graduate = 1)",
        "avg(years_of_school) FILTER (WHERE college_graduate = 1) - avg(years_of_school)",
    ];
    // The same noise in each run, so that no run is an unlucky one.
    let veil = Veil::demo(rich, Some(streams())).await;
    let whole = format!("SELECT {} FROM nls.women", ASKED.join(", "));
    let truth = veil.direct(&whole).await;
    let numbers = |row: &str| -> Vec<f64> { row.split('|').map(|v| v.parse().unwrap()).collect() };
    let truth = numbers(&truth[0]);
    let errors = ASKED.map(|asked| format!("pgveil.stderr({asked})"));
    let sql = format!(
        "SELECT {}, {} FROM nls.women",
        ASKED.join(", "),
        errors.join(", ")
    );
    for (finer, clip) in [(FINER, ClipChoice::Fixed), (CUBE, ClipChoice::Auto)] {
        let mut asking = Veil::requester();
        asking.session_settings.clip = clip;
        let rounds = 150;
        let mut squares = [0.0; ASKED.len()];
        for _ in 0..rounds {
            asking.session_settings.reuse = Reuse::Off;
            veil.rows_as(&asking, finer).await.unwrap();
            let spent = veil.spent().await;
            asking.session_settings.reuse = Reuse::On;
            let row = veil.rows_as(&asking, &sql).await.unwrap();
            assert_eq!(veil.spent().await, spent);
            let values = numbers(&row[0]);
            for (at, sum) in squares.iter_mut().enumerate() {
                *sum += ((values[at] - truth[at]) / values[ASKED.len() + at]).powi(2);
            }
        }
        // A mean of 150 squares of a normal has standard error 0.115.
        for mean in squares.map(|sum| sum / f64::from(rounds)) {
            assert!((0.6..1.5).contains(&mean), "{finer}: {squares:?}");
        }
    }
}

/// Many filters over many groups, most of which no group meets, are free: what they take follows
/// from the sums that differ.
#[tokio::test(flavor = "multi_thread")]
async fn many_filters_over_keys_are_free() {
    let veil = Veil::demo(precise, Veil::silent()).await;
    make(&veil, &veil.engine, &mut Silent).await.unwrap();
    let filters = (0..40).map(|at| {
        let year = 1943 + at % 12;
        let race = ["'black'", "'white', 'black'"][at / 12 % 2];
        format!("count(*) FILTER (WHERE birth_year <= {year} AND race IN ({race}))")
    });
    let filters = filters.collect::<Vec<_>>().join(", ");
    for sql in [
        format!("SELECT {filters} FROM nls.women"),
        format!("SELECT race, {filters} FROM nls.women GROUP BY 1 ORDER BY 1"),
        format!("SELECT birth_year, {filters} FROM nls.women GROUP BY 1 ORDER BY 1"),
    ] {
        assert!(free(&veil, &session("analyst"), &sql).await, "{sql}");
    }
}
