//! What the demo's pages are about: a survey to ask, and a library whose dashboards are looked at
//! again and again. Each has its own proxy, policy and budget.

use super::questions::{DemoQuestion, LIBRARY_QUESTIONS, QUESTIONS};
use super::streams::{DemoStream, STREAMS, find};

/// One page.
#[derive(Debug)]
pub struct Topic {
    /// What the paths of its forms begin with.
    pub path: &'static str,
    /// In the list of pages.
    pub name: &'static str,
    pub intro: &'static str,
    /// Why exact answers are shown.
    pub why_exact: &'static str,
    pub questions: &'static [DemoQuestion],
    pub streams: &'static [DemoStream],
}

/// The survey.
pub static SURVEY_TOPIC: Topic = Topic {
    path: "",
    name: "A survey",
    intro: "4,711 women, interviewed up to 15 times from 1968 to 1988. Ask what women earned. \
        Nobody can learn what one woman earned.",
    why_exact: "Exact answers are shown because this survey is public.",
    questions: &QUESTIONS,
    streams: &[],
};

/// The library.
pub static LIBRARY_TOPIC: Topic = Topic {
    path: "/library",
    name: "A dashboard",
    intro: "16,000 members of a library, and what they borrowed. Dashboards ask the same questions \
        again and again; here a budget lasts. Nobody can learn what one member borrowed.",
    why_exact: "Exact answers are shown because this library is made up.",
    questions: &LIBRARY_QUESTIONS,
    streams: &STREAMS,
};

impl Topic {
    /// The path of the page.
    pub fn home(&self) -> &'static str {
        if self.path.is_empty() { "/" } else { self.path }
    }

    /// The example that is this text.
    pub fn question(&self, sql: &str) -> Option<&'static DemoQuestion> {
        let bare = |text: &str| text.trim().trim_end_matches(';').to_owned();
        let asked = bare(sql);
        self.questions
            .iter()
            .find(|question| bare(question.sql) == asked)
    }

    /// The example after this one, where a dashboard has several.
    pub fn next(&self, question: &DemoQuestion) -> Option<&'static DemoQuestion> {
        if self.streams.is_empty() {
            return None;
        }
        let of = |other: &DemoQuestion| other.sql == question.sql;
        let at = self.questions.iter().position(of)?;
        self.questions.get(at + 1)
    }

    /// The stream, and the look at it, that is this text.
    pub fn stream(&self, sql: &str) -> Option<(&'static DemoStream, usize)> {
        find(self.streams, sql)
    }

    /// What a text is called, if it is known.
    pub fn title(&self, sql: &str) -> Option<&'static str> {
        let question = self.question(sql).map(|question| question.title);
        question.or_else(|| self.stream(sql).map(|(stream, _)| stream.title))
    }
}
