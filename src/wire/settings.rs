//! The settings of one session: an allow-list with PostgreSQL's names, values and transaction
//! rules.

mod known;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ledger::short_name;
use crate::parse::SettingScope;
use crate::policy::{SESSION_SETTINGS, SessionSettings, schemas, unknown_setting};
use crate::refusal::{Refusal, reason};
use known::{KNOWN, Known, SettingKind};

/// Settings with a dot in their name that a session may hold, and bytes in one value: both bound a
/// session's memory.
const CUSTOM_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;

/// Values that were set; a name that is absent has its default. Cheap to clone: snapshots share
/// until one side changes.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingValues {
    session: Arc<BTreeMap<String, String>>,
    local: Arc<BTreeMap<String, String>>,
}

/// All settings of a session.
#[derive(Debug)]
pub(super) struct Settings {
    current: SettingValues,
    /// The values that RESET restores: startup packet and `options` over the built-in defaults.
    defaults: BTreeMap<String, String>,
}

impl Settings {
    /// `presets` are the values that only the server knows.
    pub(super) fn new(presets: &[(&str, String)]) -> Self {
        let mut defaults: BTreeMap<String, String> = KNOWN
            .iter()
            .map(|known| (known.name.to_owned(), known.default.to_owned()))
            .collect();
        defaults.extend(
            presets
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        Self {
            current: SettingValues::default(),
            defaults,
        }
    }

    /// A setting of the startup packet: becomes the session's default.
    pub(super) fn set_default(&mut self, name: &str, value: &str) -> Result<(), Refusal> {
        let (name, value) = self.check(name, &values_of(name, value)?)?;
        self.bound(&name)?;
        self.defaults.insert(name, value);
        Ok(())
    }

    /// SET; no values mean DEFAULT.
    pub(super) fn set(
        &mut self,
        scope: SettingScope,
        name: &str,
        values: Option<&[String]>,
    ) -> Result<(), Refusal> {
        if matches!(
            name.to_ascii_lowercase().as_str(),
            "role" | "session_authorization"
        ) {
            return self.keep_role(name, values);
        }
        let (name, value) = match values {
            Some(values) => {
                let (name, value) = self.check(name, values)?;
                (name, Some(value))
            }
            None => {
                let name = settable(name)?;
                let value = self.defaults.get(&name).cloned();
                (name, value)
            }
        };
        self.bound(&name)?;
        let scope = if default_of(&name).is_some() {
            SettingScope::Local
        } else {
            scope
        };
        let local = Arc::make_mut(&mut self.current.local);
        match (scope, value) {
            (SettingScope::Local, Some(value)) => {
                local.insert(name, value);
            }
            (SettingScope::Session, Some(value)) => {
                local.remove(&name);
                Arc::make_mut(&mut self.current.session).insert(name, value);
            }
            (_, None) => {
                local.remove(&name);
                Arc::make_mut(&mut self.current.session).remove(&name);
            }
        }
        Ok(())
    }

    /// The client's application name, fit for a record.
    pub(super) fn application(&self) -> String {
        short_name(self.value("application_name"))
    }

    pub(super) fn reset_all(&mut self) {
        self.current = SettingValues::default();
    }

    /// The canonical name and the value, for SHOW.
    pub(super) fn show(&self, name: &str) -> Result<(String, String), Refusal> {
        if let Some(known) = find(name) {
            let source = match default_of(known.name) {
                Some(default) if !self.current.local.contains_key(known.name) => default,
                _ => known.name,
            };
            return Ok((known.name.to_owned(), self.value(source).to_owned()));
        }
        let name = name.to_ascii_lowercase();
        match self.lookup(&name) {
            Some(value) => Ok((name.clone(), value.to_owned())),
            None => Err(unknown(&name)),
        }
    }

    /// Every setting with its description, in the order of their names, as SHOW ALL lists them.
    pub(super) fn all(&self) -> Vec<(String, String, String)> {
        let mut all: Vec<_> = KNOWN
            .iter()
            .map(|known| {
                (
                    known.name.to_owned(),
                    self.value(known.name).to_owned(),
                    known.description.to_owned(),
                )
            })
            .collect();
        all.sort_by_key(|(name, _, _)| name.to_ascii_lowercase());
        all
    }

    /// The settings that ParameterStatus reports, in order.
    pub(super) fn reported_settings(&self) -> Vec<(&'static str, String)> {
        KNOWN
            .iter()
            .filter(|known| known.reported)
            .map(|known| (known.name, self.value(known.name).to_owned()))
            .collect()
    }

    /// Whether `pg_settings` has it, of this spelling.
    pub(super) fn lists(&self, name: &str) -> bool {
        KNOWN.iter().any(|known| known.name == name)
    }

    pub(super) fn snapshot(&self) -> SettingValues {
        self.current.clone()
    }

    pub(super) fn restore(&mut self, values: SettingValues) {
        self.current = values;
    }

    /// The end of a transaction: SET LOCAL is over.
    pub(super) fn end_local(&mut self) {
        self.current.local = Arc::default();
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.lookup(name).unwrap_or("")
    }

    fn lookup(&self, name: &str) -> Option<&str> {
        let SettingValues { session, local } = &self.current;
        local
            .get(name)
            .or_else(|| session.get(name))
            .or_else(|| self.defaults.get(name))
            .map(String::as_str)
    }

    /// The canonical name and the normalised value of a SET.
    fn check(&self, name: &str, values: &[String]) -> Result<(String, String), Refusal> {
        let name = settable(name)?;
        let value = match find(&name) {
            Some(known) => value::normalize(known, values, self.value(&name))?,
            None => values.join(", "),
        };
        if value.len() > VALUE_BYTES_MAX {
            return Err(Refusal::new(
                reason::INVALID_SETTING,
                format!("value of parameter \"{name}\" is too long"),
            )
            .detail(format!("At most {VALUE_BYTES_MAX} bytes are kept.")));
        }
        Ok((name, value))
    }

    /// Budgets belong to roles, so a session keeps the role that logged in; saying so is fine.
    fn keep_role(&self, name: &str, values: Option<&[String]>) -> Result<(), Refusal> {
        let same = |values: &[String]| {
            values.len() == 1
                && (values[0] == self.value("session_authorization") || values[0] == "none")
        };
        if values.is_none_or(same) {
            return Ok(());
        }
        Err(Refusal::new(
            reason::SETTING_DENIED,
            format!("permission denied to set \"{name}\""),
        )
        .detail("A session keeps the role that logged in: budgets belong to roles."))
    }

    fn bound(&self, name: &str) -> Result<(), Refusal> {
        let SettingValues { session, local } = &self.current;
        if find(name).is_some()
            || self.lookup(name).is_some()
            || session.len() + local.len() + self.defaults.len() < KNOWN.len() + CUSTOM_MAX
        {
            return Ok(());
        }
        Err(Refusal::new(
            reason::SESSION_TOO_LARGE,
            "too many settings in this session",
        ))
    }

    /// The settings `pgveil.*` in force. Each was read when it was set.
    pub(super) fn session_settings(&self) -> SessionSettings {
        let mut session_settings = SessionSettings::default();
        for setting in SESSION_SETTINGS {
            // A text that SessionSettings printed itself is read again.
            let _ = session_settings.set(setting.name, self.value(setting.name));
        }
        session_settings
    }

    /// Whether a message of this severity passes `client_min_messages`.
    pub(super) fn wants(&self, severity: &str) -> bool {
        match self.value("client_min_messages") {
            "error" => false,
            "warning" => severity == "WARNING",
            _ => true,
        }
    }

    /// A timeout; zero means none.
    pub(super) fn duration(&self, name: &str) -> Option<std::time::Duration> {
        value::milliseconds(self.value(name))
            .filter(|&ms| ms > 0)
            .map(std::time::Duration::from_millis)
    }

    /// Schemas of unqualified names, with `$user` filled in.
    pub(super) fn search_path(&self, role: &str) -> Vec<String> {
        schemas(self.value("search_path"), role)
    }

    /// The settings that reach an answer's printed values.
    pub(super) fn of_answers(&self) -> Vec<(String, String)> {
        [
            "TimeZone",
            "DateStyle",
            "IntervalStyle",
            "extra_float_digits",
            "bytea_output",
        ]
        .into_iter()
        .map(|name| (name.to_owned(), self.value(name).to_owned()))
        .collect()
    }
}

/// The arguments of SET for a value that is one text: from the startup packet, `options` or
/// `set_config`.
pub(super) fn values_of(name: &str, text: &str) -> Result<Vec<String>, Refusal> {
    find(name).map_or_else(
        || Ok(vec![text.to_owned()]),
        |known| value::of_text(known, text),
    )
}

/// The setting that a transaction's own setting starts from.
fn default_of(name: &str) -> Option<&'static str> {
    match name {
        "transaction_isolation" => Some("default_transaction_isolation"),
        "transaction_read_only" => Some("default_transaction_read_only"),
        "transaction_deferrable" => Some("default_transaction_deferrable"),
        _ => None,
    }
}

fn find(name: &str) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The canonical name of a setting that a client may change.
fn settable(name: &str) -> Result<String, Refusal> {
    match find(name) {
        Some(Known {
            name,
            kind: SettingKind::Preset,
            ..
        }) => Err(Refusal::new(
            reason::FIXED_SETTING,
            format!("parameter \"{name}\" cannot be changed"),
        )),
        Some(known) => Ok(known.name.to_owned()),
        None => {
            let name = name.to_ascii_lowercase();
            let custom = name.split_once('.').is_some_and(|(class, rest)| {
                class != "pgveil" && !class.is_empty() && !rest.is_empty()
            });
            if custom && name.len() <= 63 * 2 {
                Ok(name)
            } else {
                Err(unknown(&name))
            }
        }
    }
}

fn unknown(name: &str) -> Refusal {
    if name.starts_with("pgveil.") {
        unknown_setting(name)
    } else {
        Refusal::new(
            reason::UNKNOWN_SETTING,
            format!("unrecognized configuration parameter \"{name}\""),
        )
    }
}

#[cfg(test)]
mod tests;
