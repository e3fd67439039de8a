//! What EXPLAIN says of summaries that do not answer a question yet, or never.

use crate::engine::answer_errors::AnswerErrors;
use crate::engine::expected_error::percent;

/// The summaries that might answer a question.
#[derive(Debug, Default)]
pub(in crate::engine) struct OfSummaries {
    /// Summaries that would answer it: their names, epsilons and mus.
    pub receivable: Vec<(String, f64, f64)>,
    /// Summaries of which the role has not received yet which sets they have, and the mu of that.
    pub selections: Vec<(String, f64)>,
    /// What summaries of the same tables lack.
    pub lacks: Vec<String>,
    /// What the receivable ones give, where the owner has made them all.
    pub if_made: Option<SummariesMade>,
    /// The share of the role's budget that all selections together cost.
    pub share_of_selections: Option<f64>,
}

/// An answer by summaries that the role has not received. Whether they were made, EXPLAIN does not
/// tell.
#[derive(Debug)]
pub(in crate::engine) struct SummariesMade {
    pub names: Vec<String>,
    pub errors: AnswerErrors,
    pub words: String,
    /// The share of the role's budget that these and what they do not answer cost.
    pub share: f64,
}

impl SummariesMade {
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "summaries": self.names,
            "errors": self.errors.to_json(),
            "share_of_budget": self.share,
        })
    }

    fn in_words(&self) -> String {
        let (summaries, are) = match self.names.as_slice() {
            [_] => ("summary", "it is"),
            _ => ("summaries", "they are"),
        };
        format!(
            "{} from {summaries} {} where {are} made, for {} of your budget, once; else ",
            self.words,
            self.names.join(" and "),
            percent(self.share)
        )
    }
}

impl OfSummaries {
    /// How the first line begins, before what is said of a bought answer.
    pub fn first_words(&self) -> String {
        if let Some(made) = &self.if_made {
            return made.in_words();
        }
        let names: Vec<&str> = self
            .selections
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let share = self.share_of_selections.map(percent);
        match (names.as_slice(), share) {
            ([_, ..], Some(share)) => format!(
                "first {share} of your budget, once, for which sets summary {} has; if it does not \
                    answer then, ",
                names.join(" and summary ")
            ),
            _ => String::new(),
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = String> {
        let receivable = self.receivable.iter().map(|(name, epsilon, mu)| {
            format!(
                "Summary: {name} answers it where the owner has made it, for epsilon {epsilon} (mu \
                    {mu:.4}) once; SET pgveil.reuse = exact buys the answer alone"
            )
        });
        let selections = self.selections.iter().map(|(name, mu)| {
            format!(
                "Summary: {name} answers it if it has the keys in one of its sets, which were \
                    selected from the data; which they are is received for mu {mu:.4}, once; SET \
                    pgveil.reuse = exact buys the answer alone"
            )
        });
        let lacks = self.lacks.iter().map(|lack| format!("Summary: {lack}"));
        receivable.chain(selections).chain(lacks)
    }

    /// The summaries that would answer it, those with selected sets, and what others lack, as JSON.
    pub fn to_json(&self) -> [serde_json::Value; 3] {
        let receivable = self.receivable.iter().map(|(name, epsilon, mu)| {
            serde_json::json!({ "summary": name, "epsilon": epsilon, "mu": mu })
        });
        let selections = self.selections.iter();
        let selections =
            selections.map(|(name, mu)| serde_json::json!({ "summary": name, "mu": mu }));
        [
            receivable.collect(),
            selections.collect(),
            self.lacks.iter().cloned().collect(),
        ]
    }
}
