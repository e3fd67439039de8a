//! What a running proxy counts for its operator: questions by verdict, time by stage, sessions. It
//! never holds a text, a name or a value.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::refusal::RefusalKind;

/// Upper edges of the histograms, in seconds.
const EDGES: [f64; 14] = [
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
    60.0,
    f64::INFINITY,
];

#[derive(Debug, Clone, Default)]
struct Histogram {
    /// Counts between each edge and the edge below it.
    counts: [u64; EDGES.len()],
    seconds: f64,
}

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    Answered,
    Refused,
    /// The budget did not cover it.
    Exhausted,
    Cancelled,
    /// The client left.
    Abandoned,
    /// By a failure of pgveil itself.
    Failed,
}

impl From<RefusalKind> for Ended {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Exhausted => Self::Exhausted,
            RefusalKind::Cancelled => Self::Cancelled,
            RefusalKind::Internal => Self::Failed,
            RefusalKind::UnknownName | RefusalKind::Grouping | RefusalKind::PrivateRows => {
                Self::Refused
            }
            RefusalKind::Syntax | RefusalKind::Unsupported => Self::Refused,
            RefusalKind::TooLarge | RefusalKind::Other => Self::Refused,
        }
    }
}

impl Ended {
    fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    questions: BTreeMap<(&'static str, String, Ended), u64>,
    by_kind: BTreeMap<&'static str, Histogram>,
    by_stage: BTreeMap<&'static str, Histogram>,
    sessions: u64,
}

/// Shared by the whole process. It survives a reload of the policy.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counts>);

/// Times the stages of one question, each from the end of the stage before it.
pub struct Laps<'a> {
    meter: &'a Metrics,
    since: Instant,
}

impl Metrics {
    /// Counts a question that has ended so, with this SQLSTATE.
    pub fn question(&self, kind: &'static str, (verdict, sqlstate): (Ended, &str), took: Duration) {
        let mut counts = self.lock();
        *counts
            .questions
            .entry((kind, sqlstate.to_owned(), verdict))
            .or_default() += 1;
        counts.by_kind.entry(kind).or_default().add(took);
    }

    pub fn laps(&self) -> Laps<'_> {
        Laps {
            meter: self,
            since: Instant::now(),
        }
    }

    pub fn session_opened(&self) {
        self.lock().sessions += 1;
    }

    pub fn session_closed(&self) {
        let mut counts = self.lock();
        counts.sessions = counts.sessions.saturating_sub(1);
    }

    /// Metric families in the OpenMetrics text format, without its end mark.
    pub fn print(&self) -> String {
        let counts = self.lock();
        let mut text = String::new();
        line(
            &mut text,
            format_args!(
                "# TYPE pgveil_sessions gauge\npgveil_sessions {}",
                counts.sessions
            ),
        );
        line(&mut text, format_args!("# TYPE pgveil_questions counter"));
        for ((kind, sqlstate, verdict), count) in &counts.questions {
            line(
                &mut text,
                format_args!(
                    "pgveil_questions_total{{kind=\"{kind}\",verdict=\"{}\",\
                        sqlstate=\"{sqlstate}\"}} {count}",
                    verdict.name()
                ),
            );
        }
        histograms(
            &mut text,
            "pgveil_question_seconds",
            "kind",
            &counts.by_kind,
        );
        histograms(&mut text, "pgveil_stage_seconds", "stage", &counts.by_stage);
        text
    }

    /// A panic cannot break an invariant of the counts: they have none.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Laps<'_> {
    /// Ends a stage.
    pub fn lap(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.meter
            .lock()
            .by_stage
            .entry(stage)
            .or_default()
            .add(now - self.since);
        self.since = now;
    }
}

impl Histogram {
    fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = EDGES
            .iter()
            .position(|edge| seconds <= *edge)
            .unwrap_or(EDGES.len() - 1);
        self.counts[at] += 1;
        self.seconds += seconds;
    }
}

fn histograms(text: &mut String, name: &str, label: &str, all: &BTreeMap<&'static str, Histogram>) {
    line(
        text,
        format_args!("# TYPE {name} histogram\n# UNIT {name} seconds"),
    );
    for (value, Histogram { counts, seconds }) in all {
        let mut below = 0;
        for (edge, count) in EDGES.iter().zip(counts) {
            below += count;
            let edge = if edge.is_finite() {
                edge.to_string()
            } else {
                "+Inf".to_owned()
            };
            line(
                text,
                format_args!("{name}_bucket{{{label}=\"{value}\",le=\"{edge}\"}} {below}"),
            );
        }
        line(
            text,
            format_args!(
                "{name}_count{{{label}=\"{value}\"}} {below}\n{name}_sum{{{label}=\"{value}\"}} \
                    {seconds}"
            ),
        );
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up() {
        let meter = Metrics::default();
        for milliseconds in [1, 3, 3, 90_000] {
            let answered = (Ended::Answered, "00000");
            meter.question("answer", answered, Duration::from_millis(milliseconds));
        }
        meter.question("answer", (Ended::Refused, "42501"), Duration::ZERO);
        let text = meter.print();
        for wanted in [
            "pgveil_questions_total{kind=\"answer\",verdict=\"answered\",sqlstate=\"00000\"} 4",
            "pgveil_questions_total{kind=\"answer\",verdict=\"refused\",sqlstate=\"42501\"} 1",
            "pgveil_question_seconds_bucket{kind=\"answer\",le=\"0.001\"} 2",
            "pgveil_question_seconds_bucket{kind=\"answer\",le=\"0.005\"} 4",
            "pgveil_question_seconds_bucket{kind=\"answer\",le=\"60\"} 4",
            "pgveil_question_seconds_bucket{kind=\"answer\",le=\"+Inf\"} 5",
            "pgveil_question_seconds_count{kind=\"answer\"} 5",
        ] {
            assert!(
                text.lines().any(|line| line == wanted),
                "{wanted} in\n{text}"
            );
        }
    }
}
