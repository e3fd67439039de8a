//! Averages and spreads that a look counts from the middle of their range.

use pgveil::policy::ClipChoice;

use super::{numbers, requester, veil};

/// Without noise, and with the clip of a small price: whatever is off was cut, and the interval
/// reaches PostgreSQL's value. A notice says how many households are cut.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_about_the_middle_reach_past_what_is_cut() {
    let veil = veil(true).await;
    let asked = requester(0.5, ClipChoice::Auto);
    for (name, by) in [
        ("avg", ""),
        ("stddev", ""),
        ("variance", ""),
        ("avg", " GROUP BY week ORDER BY week"),
        ("stddev", " GROUP BY week ORDER BY week"),
    ] {
        // From 100 to 600: the least is more than a twelfth of the largest. Households with many
        // lines have the more expensive ones.
        let value = format!("{name}(amount + 100 + CASE WHEN store < 3 THEN 0 ELSE 40 END)");
        let sql = format!(
            "SELECT ({value})::float8, pgveil.ci_low({value}), pgveil.ci_high({value}) \
                FROM retail.line{by}"
        );
        let shown = veil.rows_as(&asked, &sql).await.unwrap();
        let direct = veil
            .direct(&format!("SELECT ({value})::float8 FROM retail.line{by}"))
            .await;
        assert_eq!(shown.len(), direct.len(), "{sql}");
        for (shown, direct) in shown.iter().zip(&direct) {
            let exact = numbers(direct)[0];
            let [_, low, high] = numbers(shown)[..] else {
                panic!("{sql}: {shown}")
            };
            assert!(low <= exact && exact <= high, "{sql}: {shown}, {exact}");
        }
        let notices = veil.ask_as(&asked, &sql).await.unwrap().notices;
        let says = |notice: &String| {
            notice.starts_with("clip of aggregate 1: about ")
                && notice.contains("; for that its interval reaches up to ")
                // 2,000 households, of which noise hides more than one in a hundred.
                && notice.contains(
                    " units that add far more than all others would not show, and it allows for \
                        20 of them",
                )
        };
        assert!(notices.iter().any(says), "{sql}: {notices:?}");
    }
}
