//! What a statement's constants are read with: settings of the session and parameters.
use crate::catalog::Type;
use crate::refusal::{Refusal, reason};
use crate::resolve::session_functions::SessionFacts;

/// Values of the session that expressions may name; read once a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    /// Microseconds since 2000-01-01 UTC.
    pub now: i64,
    pub role: String,
    pub session: SessionFacts,
    /// The session's TimeZone is UTC, in which private rows are read. In another, what depends on
    /// the zone is refused.
    pub is_utc: bool,
    /// Each number of an interval has its own sign, as the session's IntervalStyle is not
    /// sql_standard. Under sql_standard, a text in which one sign may stand for all is refused.
    pub signs_each: bool,
    /// Dates, intervals and floats are printed as where private rows are read. Under other settings
    /// their text is refused.
    pub prints_plainly: bool,
}

impl Constants {
    /// What a statement is planned with that no session asks, but the owner's policy: its text
    /// depends on no setting, and names neither a time nor a role.
    pub fn of_policy() -> Self {
        Self {
            now: 0,
            role: String::new(),
            session: SessionFacts::default(),
            is_utc: true,
            signs_each: true,
            prints_plainly: true,
        }
    }

    /// # Errors
    /// 0A000 in a session of another zone than that in which private rows are read.
    pub(in crate::resolve) fn require_utc(&self, what: &str) -> Result<(), Refusal> {
        if self.is_utc {
            return Ok(());
        }
        Err(Refusal::new(
            reason::TIME_ZONE_NOT_UTC,
            format!("{what} is supported only when TimeZone is UTC"),
        )
        .hint("Run SET TimeZone = 'UTC' first."))
    }

    /// Values that are brought to one type: between timestamps with and without zone only in a
    /// session of UTC.
    ///
    /// # Errors
    /// As of [`Self::require_utc`].
    pub(in crate::resolve) fn require_one_zone<'t>(
        &self,
        types: impl IntoIterator<Item = &'t Type> + Clone,
        name: &str,
    ) -> Result<(), Refusal> {
        let is_local = types
            .clone()
            .into_iter()
            .any(|t| matches!(t, Type::Date | Type::Timestamp));
        if is_local && types.into_iter().any(|t| *t == Type::Timestamptz) {
            self.require_utc(&format!("{name} of timestamps with and without time zone"))?;
        }
        Ok(())
    }
}
