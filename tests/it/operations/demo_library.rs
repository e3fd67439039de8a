//! The demo's dashboards: a summary that is received once, weeks that are bought once, and running
//! totals at one price for all days.

use pgveil::demo::questions::LIBRARY_QUESTIONS;
use pgveil::demo::streams::STREAMS;

use super::demo_page::{Got, Page};

impl Page {
    fn ask_library(&self, sql: &str) -> Got {
        self.post("/library/ask", &[("sql", sql), ("action", "ask")])
    }

    /// The answer to a question that costs what a question costs: about 3.5 %.
    fn bought(&self, sql: &str) -> Got {
        let before = self.left_at("/library");
        let got = self.ask_library(sql);
        let paid = before - self.left_at("/library");
        assert!((34..=37).contains(&paid), "{sql}: {paid}: {}", got.body);
        got
    }

    fn free(&self, sql: &str) -> Got {
        let before = self.left_at("/library");
        let got = self.ask_library(sql);
        assert!(got.has("Free: the budget stays at "), "{sql}: {}", got.body);
        assert_eq!(self.left_at("/library"), before, "{sql}");
        got
    }
}

/// The bars of an answer in words.
fn bars(got: &Got) -> Vec<&str> {
    let labels = got.body.split("aria-label=\"").skip(1);
    let labels = labels.filter_map(|rest| rest.split('"').next());
    labels
        .filter(|label| label.contains(", 95 % between"))
        .collect()
}

/// Each exact value lies within its interval made three times as wide, which noise leaves with a
/// chance of 4e-9. Returns the number of values.
fn are_honest(got: &Got) -> usize {
    let bars = bars(got);
    for bar in &bars {
        let number = |text: &str| -> f64 { text.replace(',', "").parse().unwrap() };
        let (_, rest) = bar.split_once(", 95 % between ").unwrap();
        let (ends, exact) = rest.split_once("; exact ").unwrap();
        let (low, high) = ends.split_once(" and ").unwrap();
        let (low, high) = (number(low), number(high));
        // The exact value is printed to three digits at least.
        let slack = (high - low) + 0.01 * number(exact).abs();
        let range = low - slack..=high + slack;
        assert!(range.contains(&number(exact)), "{bar}");
    }
    bars.len()
}

#[test]
fn the_demos_summary_is_paid_once() {
    let page = Page::start(&[]);
    let home = page.get("/library");
    assert!(
        home.has("16,000 members") && home.has("Loans by week"),
        "{}",
        home.body
    );
    assert_eq!(page.left_at("/library"), 1000);
    // The price is free, and receives nothing.
    let [first, free @ .., other] = &LIBRARY_QUESTIONS;
    let priced = page.post("/library/ask", &[("sql", first.sql), ("action", "price")]);
    assert!(
        priced.has("3.5 % of the budget: 100.0 % before, 96.5 % after."),
        "{}",
        priced.body
    );
    assert_eq!(page.left_at("/library"), 1000);
    let got = page.bought(first.sql);
    assert!(got.has("received summary members"), "{}", got.body);
    let mut seen = are_honest(&got);
    for question in free {
        let got = page.free(question.sql);
        assert!(
            got.has(question.title) && got.has("class=\"whisker\""),
            "{}",
            got.body
        );
        seen += are_honest(&got);
    }
    // 4 branches, 5 ages, 4 shares, 4 averages, 15 groups and subtotals: a false alarm of 2e-7.
    assert_eq!(seen, 32);
    let got = page.bought(other.sql);
    assert!(!got.has("received summary"), "{}", got.body);
    // The survey has a separate budget.
    assert_eq!(page.left_at("/"), 1000);
}

#[test]
fn the_demos_streams_pay_for_new_periods_only() {
    let page = Page::start(&[]);
    let [weeks, totals] = &STREAMS;
    let look = |at: usize| weeks.sql(at).unwrap();
    let first = page.bought(&look(0));
    assert!(
        first.has("bought now: 8 weeks, 2024-01-01 to 2024-02-19"),
        "{}",
        first.body
    );
    assert!(first.has("class=\"columns\"") && first.has("A week later"));
    assert_eq!((bars(&first).len(), first.has("bar new")), (8, false));
    let next = page.bought(&look(1));
    let lesson = "8 weeks were bought before, without rows that came later; bought now: 1 week, \
        2024-02-26";
    assert!(next.has(lesson), "{}", next.body);
    assert_eq!(bars(&next)[..8], bars(&first)[..]);
    assert_eq!(
        (bars(&next).len(), next.body.matches("bar new").count()),
        (9, 1)
    );
    let again = page.free(&look(1));
    assert_eq!((bars(&again), again.has("bar new")), (bars(&next), false));
    assert_eq!(bars(&page.free(&look(0))), bars(&first));
    // One price for all days.
    let look = |at: usize| totals.sql(at).unwrap();
    let first = page.bought(&look(0));
    assert!(
        first.has("the price is for all 366 days from 2024-01-01"),
        "{}",
        first.body
    );
    assert_eq!(are_honest(&first), 28);
    let next = page.free(&look(1));
    assert!(next.has("drawn now: 1 day, 2024-01-29"), "{}", next.body);
    assert_eq!(bars(&next)[..28], bars(&first)[..]);
    let last = page.free(&look(60));
    assert_eq!(
        (are_honest(&last), last.body.matches("bar new").count()),
        (88, 59)
    );
    assert!(last.has("by the square root"), "{}", last.body);
}
