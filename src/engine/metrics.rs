//! The counters of a running proxy for its operator: questions by verdict, time by stage, sessions.
//! It never holds a text, a name or a value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::refusal::{Ending, Reason, Refusal, RefusalKind, sqlstate};

/// Upper edges of the histograms, in seconds. The last bucket has no edge.
const EDGES: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuestionOutcome {
    Answered,
    Refused,
    /// The budget did not cover it.
    Exhausted,
    Cancelled,
    /// The client left.
    Abandoned,
    /// pgveil itself failed.
    Failed,
}

impl From<RefusalKind> for QuestionOutcome {
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

impl QuestionOutcome {
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

/// How a question ended, as metrics and the log say it.
#[derive(Debug, Clone)]
pub struct QuestionEnd {
    pub outcome: QuestionOutcome,
    pub ending: Ending,
    /// The reason of a refusal.
    pub reason: Option<Reason>,
}

impl QuestionEnd {
    pub const ANSWERED: Self = Self {
        outcome: QuestionOutcome::Answered,
        ending: Ending::Succeeded,
        reason: None,
    };

    /// The client left, and was shown nothing.
    pub fn of_closed_connection() -> Self {
        Self {
            outcome: QuestionOutcome::Abandoned,
            ending: sqlstate::CONNECTION_FAILURE.into(),
            reason: None,
        }
    }
}

impl From<&Refusal> for QuestionEnd {
    fn from(refusal: &Refusal) -> Self {
        Self {
            outcome: refusal.kind().into(),
            ending: refusal.into(),
            reason: Some(refusal.reason),
        }
    }
}

impl EncodeLabelValue for QuestionOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.name(), encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuestionLabels {
    kind: &'static str,
    verdict: QuestionOutcome,
    sqlstate: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoleLabel {
    role: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// Shared by the whole process. It survives a reload of the policy.
#[derive(Debug)]
pub struct Metrics {
    counts: Registry,
    times: Registry,
    sessions: Gauge,
    by_role: Family<RoleLabel, Gauge>,
    logins: Family<OutcomeLabel, Counter>,
    reloads: Family<OutcomeLabel, Counter>,
    questions: Family<QuestionLabels, Counter>,
    by_kind: Times<KindLabel>,
    by_stage: Times<StageLabel>,
}

/// One session among the open ones.
#[derive(Debug)]
pub struct SessionCount {
    meter: Arc<Metrics>,
    role: String,
}

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.meter.sessions.dec();
        self.meter.of_role(&self.role).dec();
    }
}

/// Times the stages of one question, each from the end of the stage before it.
pub struct Laps<'a> {
    meter: &'a Metrics,
    since: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        let times = || Histogram::new(EDGES);
        let mut metrics = Self {
            counts: Registry::default(),
            times: Registry::default(),
            sessions: Gauge::default(),
            by_role: Family::default(),
            logins: outcomes(["accepted", "refused"]),
            reloads: outcomes(["done", "failed"]),
            questions: Family::default(),
            by_kind: Family::new_with_constructor(times),
            by_stage: Family::new_with_constructor(times),
        };
        let registry = &mut metrics.counts;
        registry.register(
            "pgveil_sessions",
            "Open sessions of roles",
            metrics.sessions.clone(),
        );
        registry.register(
            "pgveil_role_sessions",
            "Open sessions of each role",
            metrics.by_role.clone(),
        );
        registry.register(
            "pgveil_logins",
            "Logins, accepted and refused",
            metrics.logins.clone(),
        );
        registry.register(
            "pgveil_reloads",
            "Reloads of the policy, done and failed",
            metrics.reloads.clone(),
        );
        registry.register(
            "pgveil_questions",
            "Statements by how they ended",
            metrics.questions.clone(),
        );
        let registry = &mut metrics.times;
        registry.register_with_unit(
            "pgveil_question",
            "Time from a statement to its answer or refusal",
            Unit::Seconds,
            metrics.by_kind.clone(),
        );
        registry.register_with_unit(
            "pgveil_stage",
            "Time in each stage of an answer",
            Unit::Seconds,
            metrics.by_stage.clone(),
        );
        metrics
    }
}

/// Counters begin at zero: an alert on the first event needs a number before it.
fn outcomes(all: [&'static str; 2]) -> Family<OutcomeLabel, Counter> {
    let family = Family::<OutcomeLabel, Counter>::default();
    for outcome in all {
        drop(family.get_or_create(&OutcomeLabel { outcome }));
    }
    family
}

impl Metrics {
    pub fn login(&self, is_accepted: bool) {
        let outcome = if is_accepted { "accepted" } else { "refused" };
        self.logins.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub fn reload(&self, is_done: bool) {
        let outcome = if is_done { "done" } else { "failed" };
        self.reloads.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// How many sessions of roles are open.
    pub fn open_sessions(&self) -> i64 {
        self.sessions.get()
    }

    /// Counts a question with its end.
    pub fn question(&self, kind: &'static str, end: &QuestionEnd, took: Duration) {
        let labels = QuestionLabels {
            kind,
            verdict: end.outcome,
            sqlstate: end.ending.sqlstate().to_owned(),
        };
        self.questions.get_or_create(&labels).inc();
        let times = self.by_kind.get_or_create(&KindLabel { kind });
        times.observe(took.as_secs_f64());
    }

    pub fn laps(&self) -> Laps<'_> {
        Laps {
            meter: self,
            since: Instant::now(),
        }
    }

    /// Counts an open session of a role while the result lives.
    pub fn session(self: Arc<Self>, role: &str) -> SessionCount {
        self.sessions.inc();
        self.of_role(role).inc();
        SessionCount {
            meter: self,
            role: role.to_owned(),
        }
    }

    /// How many sessions of a role are open.
    pub fn sessions_of(&self, role: &str) -> i64 {
        self.of_role(role).get()
    }

    fn of_role(&self, role: &str) -> Gauge {
        let role = role.to_owned();
        self.by_role.get_or_create_owned(&RoleLabel { role })
    }

    /// Metric families in the OpenMetrics text format, without its end mark.
    pub fn print(&self) -> String {
        let mut text = self.print_counts();
        // Writing to a String cannot fail.
        let _ = text::encode_registry(&mut text, &self.times);
        text
    }

    /// Metric families without times.
    pub fn print_counts(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode_registry(&mut text, &self.counts);
        text
    }
}

impl Laps<'_> {
    /// Ends a stage.
    pub fn lap(&mut self, stage: &'static str) {
        let now = Instant::now();
        let times = self.meter.by_stage.get_or_create(&StageLabel { stage });
        times.observe((now - self.since).as_secs_f64());
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up() {
        let meter = Metrics::default();
        for milliseconds in [1, 3, 3, 90_000] {
            let took = Duration::from_millis(milliseconds);
            meter.question("answer", &QuestionEnd::ANSWERED, took);
        }
        let refused = QuestionEnd::from(&Refusal::private_rows(""));
        meter.question("answer", &refused, Duration::ZERO);
        let text = meter.print();
        for wanted in [
            "pgveil_questions_total{kind=\"answer\",verdict=\"answered\",sqlstate=\"00000\"} 4",
            "pgveil_questions_total{kind=\"answer\",verdict=\"refused\",sqlstate=\"42501\"} 1",
            "pgveil_question_seconds_bucket{le=\"0.001\",kind=\"answer\"} 2",
            "pgveil_question_seconds_bucket{le=\"0.005\",kind=\"answer\"} 4",
            "pgveil_question_seconds_bucket{le=\"60.0\",kind=\"answer\"} 4",
            "pgveil_question_seconds_bucket{le=\"+Inf\",kind=\"answer\"} 5",
            "pgveil_question_seconds_count{kind=\"answer\"} 5",
            "# HELP pgveil_questions Statements by how they ended.",
            "# UNIT pgveil_question_seconds seconds",
        ] {
            assert!(
                text.lines().any(|line| line == wanted),
                "{wanted} in\n{text}"
            );
        }
        assert!(!meter.print_counts().contains("seconds"));
    }
}
