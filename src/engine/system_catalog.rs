//! Statements about the catalogs. They are free, and the shadow answers them: they are never
//! resolved.

use super::{
    Answer, Argument, Description, Engine, Format, Requester, error_in_text, shadow_error,
};
use crate::error::Error;
use crate::parse::{ExplainFormat, Query, with_room};
use crate::policy::SESSION_SETTINGS;
use crate::shadow::HeldRows;
use crate::system_catalog::{ServerFacts, catalogs};

impl Engine {
    /// The statement that the shadow runs, where this one is about the catalogs.
    pub(super) fn catalogs(
        &self,
        requester: &Requester,
        query: &Query,
    ) -> Result<Option<Query>, Error> {
        let session_settings = SESSION_SETTINGS
            .iter()
            .map(|setting| {
                (
                    setting.name,
                    requester
                        .session_settings
                        .in_force(setting.name, &self.policy),
                )
            })
            .collect();
        let facts = ServerFacts {
            server_version: self.server_version.clone(),
            session: self.session(requester),
            session_settings,
        };
        with_room(|| catalogs(query, &self.policy, &requester.search_path, &facts))
            .map_err(Error::Resolve)
    }

    pub(super) async fn describe_catalogs(
        &self,
        requester: &Requester,
        statement: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        self.shadow
            .describe_catalogs(requester, &statement.to_sql(), parameters)
            .await
            .map_err(|e| error_in_text(statement, e))
    }

    pub(super) async fn answer_catalogs(
        &self,
        requester: &Requester,
        statement: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
    ) -> Result<Answer, Error> {
        let columns = self
            .describe_catalogs(requester, statement, parameters)
            .await?;
        let (bound, _held) = self
            .bind(requester, statement, parameters, arguments)
            .await?;
        let HeldRows { rows, held } = self
            .shadow
            .run_catalogs(requester, &bound.to_sql(), &columns, formats)
            .await
            .map_err(shadow_error)?;
        Ok(Answer {
            columns: columns.columns,
            rows,
            notices: Vec::new(),
            warnings: Vec::new(),
            held,
        })
    }
}

/// EXPLAIN of a statement about the catalogs.
pub(super) fn explain(format: ExplainFormat) -> Vec<String> {
    let text = "Statement about the catalogs: answered from the schema that the policy shows, \
        free, \
        without any table's rows.";
    vec![match format {
        ExplainFormat::Json => {
            serde_json::json!([{ "Plan": { "Node Type": "Catalogs", "Note": text } }]).to_string()
        }
        ExplainFormat::Text | ExplainFormat::Verbose => text.to_owned(),
    }]
}
