//! What EXPLAIN says of summaries that do not answer a question yet, or never.

use crate::engine::answer_errors::AnswerErrors;
use crate::engine::expected_error::{after, percent};
use crate::ledger::Balance;
use crate::mechanism::Loss;

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
    /// What all selections together cost. They are paid for first.
    pub loss_of_selections: Option<Loss>,
}

/// An answer by summaries that the role has not received. Whether they were made, EXPLAIN does not
/// tell.
#[derive(Debug)]
pub(in crate::engine) struct SummariesMade {
    pub names: Vec<String>,
    pub errors: AnswerErrors,
    pub words: String,
    /// The share of the role's budget that these and what they do not answer cost, after the
    /// selections.
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
    pub fn first_words(&self, balance: &Balance) -> String {
        let made = self.if_made.as_ref().map(SummariesMade::in_words);
        self.selections_in_words(balance) + &made.unwrap_or_default()
    }

    fn selections_in_words(&self, balance: &Balance) -> String {
        let names: Vec<&str> = self
            .selections
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let left = self
            .loss_of_selections
            .and_then(|loss| after(balance, loss));
        let (summaries, have, answer) = match names.as_slice() {
            [_] => ("summary", "has", "it does not answer"),
            _ => ("summaries", "have", "they do not answer"),
        };
        match (names.as_slice(), left) {
            ([_, ..], Some(left)) => format!(
                "first {} of your budget, once, to learn which sets {summaries} {} {have}; then, \
                    if {answer}, ",
                percent(balance.fraction_left() - left),
                names.join(" and ")
            ),
            _ => String::new(),
        }
    }

    /// The role's balance after it has paid for the selections.
    pub fn after_selections(&self, balance: &Balance) -> Balance {
        let paid = self.loss_of_selections.unwrap_or(Loss::ZERO);
        Balance {
            spent: balance.spent.compose(paid).unwrap_or(balance.spent),
            ..balance.clone()
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
