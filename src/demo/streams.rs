//! Questions of a dashboard that is looked at again and again: the same question each time, up to a
//! later day.

use super::library::{DAYS, date};

/// A question whose answer grows.
#[derive(Debug, Clone, Copy)]
pub struct DemoStream {
    pub title: &'static str,
    pub why: &'static str,
    /// The question, with [`END`] where the day after the last one stands.
    question: &'static str,
    /// The number of days that the first look has.
    first: usize,
    /// The number of days from one look to the next.
    step: usize,
    /// What the button to the next look says.
    pub later: &'static str,
}

/// Where the day after the last one stands.
const END: &str = "END";

/// The streams of the library.
pub const STREAMS: [DemoStream; 2] = [
    DemoStream {
        title: "Loans by week",
        why: "Each Monday the dashboard asks for the whole curve. Weeks that were bought are shown \
            again, free and to the digit; only the new one is bought, at the price of a question.",
        question: "SELECT date_trunc('week', day)::date AS week, count(*) AS loans\n  \
            FROM library.loans\n  WHERE day >= '2024-01-01' AND day < 'END'\n  \
            GROUP BY 1 ORDER BY 1;",
        first: 56,
        step: 7,
        later: "A week later",
    },
    DemoStream {
        title: "New members since January",
        why: "Running totals of days. The first look pays for all 366 days of 2024, and every \
            later look is free. The noise is made for totals: sums of days would have five times \
            as much.",
        question: "SELECT joined AS day, sum(count(*)) OVER (ORDER BY joined) AS so_far\n  \
            FROM library.members\n  WHERE joined >= '2024-01-01' AND joined < 'END'\n  \
            GROUP BY joined ORDER BY joined;",
        first: 28,
        step: 1,
        later: "A day later",
    },
];

impl DemoStream {
    /// The question of a look, from 0. `None` after the last day that has rows.
    pub fn sql(&self, look: usize) -> Option<String> {
        let end = self.first + look * self.step;
        (end <= DAYS).then(|| self.question.replace(END, &date(end)))
    }

    /// Which look a text asks for.
    fn look_of(&self, sql: &str) -> Option<usize> {
        let of = |text: &str| text.trim().trim_end_matches(';').trim_end().to_owned();
        let asked = of(sql);
        let texts = (0..).map_while(|look| self.sql(look));
        texts
            .enumerate()
            .find(|(_, text)| of(text) == asked)
            .map(|(look, _)| look)
    }
}

/// The stream and the look that a text asks for.
pub fn find(streams: &'static [DemoStream], sql: &str) -> Option<(&'static DemoStream, usize)> {
    let mut found = streams.iter().filter_map(|stream| {
        let look = stream.look_of(sql)?;
        Some((stream, look))
    });
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_found_by_its_text() {
        let [weeks, totals] = &STREAMS;
        let first = weeks.sql(0).unwrap();
        assert!(first.contains("day < '2024-02-26'"), "{first}");
        assert!(totals.sql(1).unwrap().contains("joined < '2024-01-30'"));
        for stream in &STREAMS {
            let (found, look) = find(&STREAMS, &stream.sql(3).unwrap()).unwrap();
            assert_eq!((found.title, look), (stream.title, 3));
        }
        // The form's text, without its semicolon.
        let (_, look) = find(&STREAMS, first.trim_end_matches(';')).unwrap();
        assert_eq!(look, 0);
        assert!(find(&STREAMS, "SELECT count(*) FROM library.loans").is_none());
        // 26 weeks, of which the first look has eight.
        assert_eq!((0..).map_while(|look| weeks.sql(look)).count(), 19);
    }
}
