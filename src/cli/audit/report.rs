//! The findings of an audit, as text and as JSON.

use serde::{Serialize, Serializer};

use crate::audit::{AuditQuestion, Gain};
use crate::mechanism::Loss;
use crate::refusal::sqlstate;

/// A proved lower bound below this share of the charge is weak evidence.
const LITTLE: f64 = 0.25;

#[derive(Debug, Serialize)]
pub struct AuditReport {
    pub policy: String,
    /// The policy's word for who is protected.
    pub unit: String,
    /// Number of answers to each question, with the canary and again without it.
    pub trials: u32,
    /// Probability of a finding if the proxy is sound.
    pub alarm: f64,
    /// The largest mu and epsilon that this number of answers can prove.
    pub provable_mu: f64,
    pub provable_epsilon: f64,
    pub asked: Vec<AuditedQuestion>,
    pub measured: Vec<MeasuredInfluence>,
    pub refused: Vec<AttackAttempt>,
    /// Whether the ledger's sum equals the sum of all charges.
    pub books: bool,
    /// Whether refusals cost nothing.
    pub kept: bool,
    /// The parts that could not be audited, and why.
    pub left_out: Vec<String>,
}

/// One question, the declared loss of one answer, and the loss that the attack proves.
#[derive(Debug, Serialize)]
pub struct AuditedQuestion {
    pub question: String,
    pub sql: String,
    pub noise: &'static str,
    /// `epsilon` or `mu`: the currency in which the noise is exact.
    pub currency: &'static str,
    pub charged: f64,
    pub found: f64,
    /// The delta that was charged for keys released by a threshold.
    pub delta: f64,
    pub judged: usize,
    pub holds: bool,
}

/// The exact influence of single units on one question.
#[derive(Debug, Serialize)]
pub struct MeasuredInfluence {
    pub question: String,
    /// The largest influence, as a share of the declared sensitivity.
    pub share: f64,
    pub units: usize,
    pub holds: bool,
    /// Whether every coordinate was an integer.
    pub is_read: bool,
}

impl MeasuredInfluence {
    fn verdict(&self) -> &'static str {
        match (self.is_read, self.holds) {
            (false, _) => "FINDING: a coordinate is no integer",
            (true, false) => "FINDING: more than declared",
            (true, true) if self.share > 0.0 => "holds",
            (true, true) => "nothing was moved, so that nothing is shown",
        }
    }
}

/// A statement that must not return a row.
#[derive(Debug, Serialize)]
pub struct AttackAttempt {
    pub sql: String,
    #[serde(rename = "sqlstate")]
    pub came_back: Attempted,
}

/// What came back for such a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Attempted {
    /// An error of this SQLSTATE.
    Refused(String),
    /// No row, of a SELECT.
    NoRow,
    /// A part of a row; or the statement was no SELECT, and was executed.
    Answered,
}

/// The SQLSTATE; null if it was answered.
impl Serialize for Attempted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Refused(sqlstate) => serializer.serialize_some(sqlstate),
            Self::NoRow => serializer.serialize_some(sqlstate::SUCCESSFUL_COMPLETION.code),
            Self::Answered => serializer.serialize_none(),
        }
    }
}

impl AuditedQuestion {
    pub fn new(question: &AuditQuestion, noise: &'static str, loss: Loss, gain: Gain) -> Self {
        let (currency, charged, found) = match loss.epsilon {
            Some(epsilon) => ("epsilon", epsilon.to_f64(), gain.epsilon),
            None => ("mu", loss.mu_squared.to_f64().sqrt(), gain.mu),
        };
        let (question, sql) = (question.name.clone(), question.sql.clone());
        Self {
            question,
            sql,
            noise,
            currency,
            charged,
            found,
            delta: loss.delta.to_f64(),
            judged: gain.judged,
            holds: found <= charged,
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.holds, self.found / self.charged) {
            (false, _) => "FINDING: more was lost than charged",
            (true, _) if self.delta > 0.0 && self.found == 0.0 => {
                "holds: the canary's key was never shown"
            }
            (true, share) if share < LITTLE => "holds, but little was proved",
            (true, _) => "holds",
        }
    }
}

impl AuditReport {
    pub fn findings(&self) -> usize {
        let asked = self.asked.iter().filter(|asked| !asked.holds).count();
        let measured = self
            .measured
            .iter()
            .filter(|measured| !measured.holds)
            .count();
        let answered = self
            .refused
            .iter()
            .filter(|attempt| attempt.came_back == Attempted::Answered)
            .count();
        asked + measured + answered + usize::from(!self.books) + usize::from(!self.kept)
    }

    fn describe_finding(&self) -> String {
        match self.findings() {
            0 => "No finding".to_owned(),
            1 => "1 finding".to_owned(),
            findings => format!("{findings} findings"),
        }
    }

    /// The outcome in a line.
    pub fn verdict(&self) -> String {
        let (found, asked, trials) = (self.describe_finding(), self.asked.len(), self.trials);
        format!("{found}: {asked} questions, {trials} answers with the canary and without")
    }

    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.heading();
        lines.extend(self.attack_lines());
        lines.extend(self.sensitivity_lines());
        lines.extend(self.ledger_lines());
        lines.extend(
            self.left_out
                .iter()
                .map(|why| format!("Not audited: {why}.")),
        );
        lines.push(format!("{}.", self.describe_finding()));
        lines
    }

    fn heading(&self) -> Vec<String> {
        let (trials, unit, judged) = (
            self.trials,
            &self.unit,
            self.asked.first().map_or(0, |asked| asked.judged),
        );
        vec![
            format!(
                "Audit of {}, on made-up rows. Protected: one {unit}.",
                self.policy
            ),
            format!(
                "Each question was answered {trials} times with an extreme {unit} and {trials} \
                    times without; {judged} answers of each sort judge the attack."
            ),
            format!(
                "A sound proxy is blamed in one audit of {:.0}.",
                1.0 / self.alarm
            ),
            format!(
                "Were every guess right, this many answers would prove mu {:.2} or epsilon {:.2}.",
                self.provable_mu, self.provable_epsilon
            ),
            String::new(),
        ]
    }

    /// Length of the longest question, in characters.
    fn question_width(&self) -> usize {
        self.asked
            .iter()
            .map(|asked| asked.question.chars().count())
            .max()
            .unwrap_or(0)
    }

    fn attack_lines(&self) -> Vec<String> {
        let width = self.question_width();
        let mut lines = vec!["What an attacker gains from one answer".to_owned()];
        for asked in &self.asked {
            let AuditedQuestion {
                question,
                sql: _,
                noise,
                currency,
                charged,
                found,
                delta,
                judged: _,
                holds: _,
            } = asked;
            let share = 100.0 * found / charged;
            let delta = if *delta > 0.0 {
                format!(" and delta {delta:.0e}")
            } else {
                String::new()
            };
            let verdict = asked.verdict();
            lines.push(format!(
                "  {question:width$}  {noise} noise, charged {currency} {charged:.3}{delta}; found \
                    at least {found:.3} ({share:.0} %): {verdict}"
            ));
        }
        lines
    }

    fn sensitivity_lines(&self) -> Vec<String> {
        let width = self.question_width();
        let mut lines = vec![
            String::new(),
            "Measured influence of one unit, as a share of the declared one".to_owned(),
        ];
        for measured in &self.measured {
            let MeasuredInfluence {
                question,
                share,
                units,
                holds: _,
                is_read: _,
            } = measured;
            let verdict = measured.verdict();
            lines.push(format!(
                "  {question:width$}  {:.2} % at most, {units} units one at a time: {verdict}",
                100.0 * share
            ));
        }
        lines
    }

    fn ledger_lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        let answered: Vec<&AttackAttempt> = self
            .refused
            .iter()
            .filter(|attempt| attempt.came_back == Attempted::Answered)
            .collect();
        lines.push(format!(
            "Of {} attempts to see or change rows, {} showed none.",
            self.refused.len(),
            self.refused.len() - answered.len()
        ));
        lines.extend(
            answered
                .iter()
                .map(|attempt| format!("  FINDING: answered: {}", attempt.sql)),
        );
        lines.push(either(
            self.books,
            "The ledger's sum equals the charges.",
            "FINDING: the ledger's sum does not equal the charges.",
        ));
        lines.push(either(
            self.kept,
            "The refused attempts cost nothing.",
            "FINDING: a refused attempt was charged.",
        ));
        lines
    }
}

fn either(holds: bool, well: &str, ill: &str) -> String {
    if holds {
        well.to_owned()
    } else {
        ill.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::CanaryPlace;
    use crate::mechanism::{Mu, loss_gaussian};

    fn report(found: f64) -> AuditReport {
        let question = AuditQuestion {
            name: "count of a.b".to_owned(),
            sql: "SELECT count(*) FROM a.b".to_owned(),
            shows: CanaryPlace::Row,
        };
        let gain = Gain {
            epsilon: 1.0,
            mu: found,
            judged: 150,
        };
        let asked = vec![AuditedQuestion::new(
            &question,
            "Gaussian",
            loss_gaussian(Mu::round_down(2.0)),
            gain,
        )];
        let measured = vec![MeasuredInfluence {
            question: question.name,
            share: 1.0,
            units: 6,
            holds: true,
            is_read: true,
        }];
        let refused = vec![AttackAttempt {
            sql: "SELECT * FROM a.b".to_owned(),
            came_back: Attempted::Refused("42501".to_owned()),
        }];
        AuditReport {
            policy: "shop.yaml".to_owned(),
            unit: "customer".to_owned(),
            trials: 300,
            alarm: 1e-3,
            provable_mu: 3.07,
            provable_epsilon: 2.71,
            asked,
            measured,
            refused,
            books: true,
            kept: true,
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_report_can_be_read_aloud() {
        let lines = report(1.5).lines();
        assert!(
            lines.contains(
                &"  count of a.b  Gaussian noise, charged mu 2.000; found at least \
            1.500 (75 %): holds"
                    .to_owned()
            ),
            "{lines:#?}"
        );
        assert_eq!(lines.last().map(String::as_str), Some("No finding."));
        assert!(
            report(0.1)
                .lines()
                .iter()
                .any(|line| line.ends_with("holds, but little was proved"))
        );
    }

    #[test]
    fn what_was_not_moved_or_not_read_is_no_pass() {
        let mut report = report(1.0);
        report.measured[0].share = 0.0;
        assert!(
            report
                .lines()
                .iter()
                .any(|line| line.ends_with("nothing was moved, so that nothing is shown"))
        );
        (report.measured[0].holds, report.measured[0].is_read) = (false, false);
        assert!(
            report
                .lines()
                .iter()
                .any(|line| line.ends_with("FINDING: a coordinate is no integer"))
        );
        assert_eq!(report.findings(), 1);
    }

    #[test]
    fn each_kind_of_finding_counts() {
        assert_eq!(report(2.1).findings(), 1);
        let mut report = report(1.0);
        report.measured[0].holds = false;
        report.refused[0].came_back = Attempted::Answered;
        (report.books, report.kept) = (false, false);
        assert_eq!(report.findings(), 4);
        assert_eq!(
            report
                .lines()
                .iter()
                .filter(|line| line.contains("FINDING"))
                .count(),
            4
        );
    }
}
