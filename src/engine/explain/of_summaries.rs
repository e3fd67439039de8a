//! What EXPLAIN says of summaries that do not answer a question yet, or never.

/// The summaries that might answer a question.
#[derive(Debug, Default)]
pub(in crate::engine) struct OfSummaries {
    /// Summaries that would answer it: their names, epsilons and mus.
    pub receivable: Vec<(String, f64, f64)>,
    /// Summaries of which the role has not received yet which sets they have, and the mu of that.
    pub selections: Vec<(String, f64)>,
    /// What summaries of the same tables lack.
    pub lacks: Vec<String>,
}

impl OfSummaries {
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
