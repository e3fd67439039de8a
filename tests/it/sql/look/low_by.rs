//! `pgveil.low_by`: what clips that a look chose have taken from an aggregate.

use pgveil::policy::{ClipChoice, Reuse, SessionSettings};
use pgveil::shadow::Requester;

use super::{numbers, requester, veil};
use crate::fixture::Veil;

/// The values, what they are too low by, and the ends of their intervals, a row each.
async fn shown(veil: &Veil, asked: &Requester, value: &str, by: &str) -> Vec<Vec<f64>> {
    let sql = format!(
        "SELECT ({value})::float8, pgveil.low_by({value}), pgveil.ci_low({value}), \
            pgveil.ci_high({value}) FROM retail.line{by}"
    );
    let rows = veil.rows_as(asked, &sql).await.unwrap();
    rows.iter().map(|row| numbers(row)).collect()
}

async fn exact(veil: &Veil, value: &str, by: &str) -> Vec<f64> {
    let sql = format!("SELECT ({value})::float8 FROM retail.line{by}");
    let rows = veil.direct(&sql).await;
    rows.iter().map(|row| numbers(row)[0]).collect()
}

/// Without noise, and with the clip of a small price. The look sees bins, not lengths, and takes
/// numbers of units for smooth: what it states is right to a factor, and the interval has it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_is_stated_in_the_values_unit() {
    let veil = veil(true).await;
    let asked = requester(0.5, ClipChoice::Auto);
    let weekly = " GROUP BY week ORDER BY week";
    for (value, by, factor) in [
        ("sum(amount)", "", 3.0),
        // No household has more than 900 lines: that these stop at once, no smooth curve has.
        ("count(*)", "", f64::INFINITY),
        ("sum(amount)", weekly, 3.0),
        ("sum(amount) / 7", weekly, 3.0),
        ("sum(amount) * 2 + count(*)", weekly, 3.0),
        // From 500 below zero up to zero: a clip raises such a sum.
        ("sum(-amount)", weekly, 3.0),
    ] {
        let of = format!("{value}{by}");
        let shown = shown(&veil, &asked, value, by).await;
        let exact = exact(&veil, value, by).await;
        assert_eq!(shown.len(), exact.len(), "{of}");
        for (row, exact) in shown.iter().zip(&exact) {
            let [value, low_by, low, high] = row[..] else {
                panic!("{of}: {row:?}")
            };
            let lacks = exact - value;
            let is_near = (1.0 / factor..factor).contains(&(low_by / lacks));
            assert!(is_near, "{of}: {row:?}, {exact}");
            assert!((low..=high).contains(&(value + low_by)), "{of}: {row:?}");
        }
    }
    // Both parts of a quotient are cut. It may be too high as well as too low.
    for row in shown(&veil, &asked, "avg(amount)", weekly).await {
        let [value, low_by, low, high] = row[..] else {
            panic!("{row:?}")
        };
        assert!(low_by.abs() < 0.1 * value, "{row:?}");
        assert!((low..=high).contains(&(value + low_by)), "{row:?}");
    }
}

/// A group that is picked out of an answer lacks what it lacked there, not what all groups did.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_a_finer_answer_lacks_its_share() {
    let veil = veil(true).await;
    let mut asked = requester(0.5, ClipChoice::Auto);
    asked.session_settings.reuse = Reuse::On;
    let weeks = shown(&veil, &asked, "sum(amount)", " GROUP BY week ORDER BY week").await;
    let one = shown(&veil, &asked, "sum(amount)", " WHERE week = 3").await;
    assert_eq!(one[0][0], weeks[2][0], "it was bought anew");
    let (one, week) = (one[0][1], weeks[2][1]);
    assert!((one / week - 1.0).abs() < 0.01, "{one}, {week}");
}

/// `low_by` is zero where keys prove that nothing is cut. It is NULL where pgveil does not know:
/// for clips by the limits, sums of both signs, chosen values, and sums that are left out.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_to_be_cut_is_null() {
    let veil = veil(true).await;
    let asked = |clip| requester(0.5, clip);
    let (auto, fixed) = (asked(ClipChoice::Auto), asked(ClipChoice::Fixed));
    for (asked, value, from, wanted) in [
        (&auto, "count(*)", "household", "0"),
        (&fixed, "count(*)", "household", "0"),
        (&auto, "avg(size) - 3", "household", "0"),
        (&auto, "sum(amount) / count(*)", "line WHERE week = 13", "∅"),
        (&auto, "count(*)", "line WHERE week = 13", "0"),
        (&fixed, "sum(amount)", "line", "∅"),
        (&fixed, "count(*) + 1", "line", "∅"),
        (&auto, "sum(amount - 20)", "line", "∅"),
        (&auto, "count(DISTINCT week)", "line", "∅"),
        (
            &auto,
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY amount)",
            "line",
            "∅",
        ),
        (&auto, "max(amount)", "line", "∅"),
        (
            &auto,
            "sum(amount) FILTER (WHERE week = 3 AND store = 30) + count(*)",
            "line",
            "∅",
        ),
    ] {
        let sql = format!("SELECT pgveil.low_by({value}) FROM retail.{from}");
        let rows = veil.rows_as(asked, &sql).await;
        let rows = rows.unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
        assert_eq!(rows, [wanted], "{sql}");
    }
}

/// What the look saw is paid for: it costs nothing to ask what that says of a cut, also of a
/// coarser question.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_free_once_the_answer_is_paid() {
    let veil = veil(true).await;
    let asked = Requester {
        session_settings: SessionSettings {
            clip: ClipChoice::Auto,
            epsilon: Some(0.5),
            ..SessionSettings::with_fixed_clips()
        },
        ..Veil::requester()
    };
    let bought = "SELECT week, sum(amount) FROM retail.line GROUP BY week";
    veil.rows_as(&asked, bought).await.unwrap();
    let paid = veil.spent().await;
    let weekly = shown(&veil, &asked, "sum(amount)", " GROUP BY week").await;
    let whole = shown(&veil, &asked, "sum(amount)", "").await;
    assert_eq!(veil.spent().await, paid);
    // One share is taken to be cut from each week, so the weeks together lack what the year does,
    // but for what is rounded.
    let of_weeks: f64 = weekly.iter().map(|row| row[1]).sum();
    let times = of_weeks / whole[0][1];
    assert!((times - 1.0).abs() < 0.02, "{of_weeks}, {whole:?}");
}
