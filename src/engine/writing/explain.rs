//! What EXPLAIN says of an INSERT: which columns are randomised, and how. Of its values it reads
//! none.

use super::plan::WritePlan;
use super::{SentValue, TableWriter};
use crate::engine::made_reports::{MadeReports, by_entries};
use crate::mechanism::Randomiser;
use crate::parse::{ExplainFormat, Write};
use crate::policy::Local;
use crate::refusal::{Refusal, reason};

impl TableWriter {
    /// The lines of EXPLAIN for an INSERT that comes with this many values of parameters.
    ///
    /// # Guarantee
    /// They depend on the policy, the table and the columns alone. No value is read, no random word
    /// is drawn, and the database is not asked.
    ///
    /// # Errors
    /// 42P02 for a parameter without a value.
    pub fn explain(
        &self,
        plan: &WritePlan<'_>,
        (write, arguments): (&Write, usize),
        format: ExplainFormat,
    ) -> Result<Vec<String>, Refusal> {
        let parameters = write.parameters().len();
        if parameters > arguments {
            let message = format!("there is no parameter ${}", arguments + 1);
            return Err(Refusal::new(reason::UNKNOWN_PARAMETER, message));
        }
        let explained = ExplainedWrite {
            plan,
            reports: self.reports(plan),
        };
        Ok(match format {
            ExplainFormat::Text => explained.lines(),
            ExplainFormat::Verbose => {
                let mut lines = explained.lines();
                lines.push(format!("  SQL: {}", explained.sql()));
                lines
            }
            ExplainFormat::Json => vec![explained.json()],
        })
    }

    /// The ways in which reports of this write's columns are made, and for how long one is kept.
    fn reports(&self, plan: &WritePlan<'_>) -> Vec<(MadeReports, &'static str)> {
        let local = |of: &Local| match (self.memo.is_some(), &of.randomiser) {
            (true, Randomiser::Rappor(_)) => {
                "the permanent bits are a memo of the unit and the value, and the others are drawn \
                    anew"
            }
            (
                true,
                Randomiser::Coin { .. }
                | Randomiser::KRr { .. }
                | Randomiser::Unary { .. }
                | Randomiser::Mean { .. },
            ) => "a memo: the same report for the same unit and value",
            (false, _) => "drawn anew for each row, so that reports of a unit add up",
        };
        let mut kept: Vec<(usize, &'static str)> = Vec::new();
        let columns = plan.columns.iter().filter_map(|column| {
            let own = column.local.as_ref()?;
            Some((column.name.clone(), own))
        });
        let columns: Vec<(String, &Local)> = columns.collect();
        for (_, own) in &columns {
            if !kept.iter().any(|(group, _)| *group == own.group) {
                kept.push((own.group, local(own)));
            }
        }
        let made = by_entries(columns.into_iter());
        made.into_iter()
            .zip(kept.into_iter().map(|(_, words)| words))
            .collect()
    }
}

struct ExplainedWrite<'w> {
    plan: &'w WritePlan<'w>,
    reports: Vec<(MadeReports, &'static str)>,
}

impl ExplainedWrite<'_> {
    /// The columns that are written as they are.
    fn plain(&self) -> Vec<&str> {
        let plain = self.plan.columns.iter().filter(|of| of.local.is_none());
        plain.map(|column| column.name.as_str()).collect()
    }

    /// The columns that pgveil adds.
    fn cohorts(&self) -> Vec<&str> {
        let cohorts = self.plan.table.cohorts.iter();
        cohorts.map(|of| of.column.as_str()).collect()
    }

    /// The statement of one row, as the database gets it.
    fn sql(&self) -> String {
        let width = self.plan.sent_width();
        let row: Vec<SentValue> = (0..width).map(|_| SentValue::Null).collect();
        self.plan.insert_sql(&row)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Insert on {}", self.plan.table())];
        for (made, kept) in &self.reports {
            lines.push(format!("  {}; {kept}", made.line()));
        }
        lines.push(format!("  As they are: {}", self.plain().join(", ")));
        if !self.cohorts().is_empty() {
            lines.push(format!(
                "  Cohorts by pgveil: {}",
                self.cohorts().join(", ")
            ));
        }
        lines.push("  No value was read, and nothing was written".to_owned());
        lines
    }

    fn json(&self) -> String {
        let reports = self.reports.iter().map(|(made, kept)| {
            let mut json = made.json();
            json["kept"] = (*kept).into();
            json
        });
        let document = serde_json::json!([{
            "insert_on": self.plan.table(),
            "reports": reports.collect::<Vec<_>>(),
            "as_they_are": self.plain(),
            "cohorts": self.cohorts(),
            "sql": self.sql(),
        }]);
        serde_json::to_string_pretty(&document).unwrap_or_default()
    }
}
