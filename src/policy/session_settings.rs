//! The settings `pgveil.*` of a session. The policy is the ceiling; no setting turns noise or
//! accounting off.

mod clip;
mod open_periods;
mod read;
mod reuse;
mod widen;

pub use clip::ClipChoice;
pub use open_periods::OpenPeriods;
pub use reuse::Reuse;
pub use widen::Widen;

use super::Policy;
use super::target_error::TargetErrors;
use crate::refusal::{Refusal, reason};
pub use read::unknown;
use read::{choice, count, optional, positive, targets, tolerance};

/// The settings of one session, read and in range.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SessionSettings {
    /// The epsilon of each statement, > 0; `None` for the policy's default.
    pub epsilon: Option<f64>,
    /// The standard error that is wanted, whatever it costs up to the policy's `max_epsilon`; goes
    /// before `epsilon`.
    pub target_error: Option<TargetErrors>,
    /// The most epsilon that a query with a wanted error may spend, > 0; never more than the
    /// policy's `max_epsilon`.
    pub max_cost: Option<f64>,
    pub reuse: Reuse,
    /// How far off an answer of a summary may be under [`Reuse::Checked`], in the answer's unit, >
    /// 0.
    pub tolerance: Option<f64>,
    pub widen: Widen,
    pub open_periods: OpenPeriods,
    pub keys: KeyChoice,
    /// Most groups that one unit is counted in, >= 1; never more than the policy's.
    pub groups_per_unit: Option<u32>,
    /// Most rows that one unit is counted with, >= 1; never more than the policy's.
    pub rows_per_unit: Option<u32>,
    pub notices: Notices,
    pub clip: ClipChoice,
    pub useless: UselessMode,
    pub hints: Hints,
}

/// The most that settings may ask for, and the least epsilon; `None` where it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ceilings {
    pub epsilon: Option<f64>,
    pub epsilon_least: Option<f64>,
    pub groups_per_unit: Option<u32>,
    pub rows_per_unit: Option<u32>,
}

/// How the values of group keys may become known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyChoice {
    /// By declared values where the policy or the query gives them, otherwise by threshold.
    #[default]
    Auto,
    /// By declared values alone: a key without them is refused.
    Domain,
    /// By threshold: only groups that enough units are in are shown.
    Threshold,
}

/// Which notices an answer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notices {
    Off,
    /// The cost, and the rest of the budget.
    Cost,
    /// Also how far off each aggregate may be.
    #[default]
    Full,
}

/// What becomes of a question whose noise would hide every possible answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UselessMode {
    /// The question is refused, at no cost.
    #[default]
    Refuse,
    /// The question is answered and charged, with a warning.
    Warn,
    /// The question is answered and charged.
    Allow,
}

/// Where detail and hint of an error stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hints {
    /// In the fields that PostgreSQL has for them.
    #[default]
    Fields,
    /// In the message: for clients that show nothing else.
    Message,
}

/// One setting as `SHOW ALL` and `pgveil.settings` list it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSetting {
    pub name: &'static str,
    /// Empty: the policy decides.
    pub default: &'static str,
    pub description: &'static str,
}

/// Every setting of this kind.
pub const SESSION_SETTINGS: [SessionSetting; 14] = [
    SessionSetting {
        name: "pgveil.epsilon",
        default: "",
        description: "What each of the next queries may spend; the policy's default where empty.",
    },
    SessionSetting {
        name: "pgveil.target_error",
        default: "",
        description: "The wanted standard error: absolute (10), of the answer (2%) or of the most \
            that one row can add (50% of a row), or a list of one for each aggregate; the cost \
            follows.",
    },
    SessionSetting {
        name: "pgveil.max_cost",
        default: "",
        description: "The most epsilon that a query with a wanted error may spend, all its answers \
            together; may only narrow the policy's.",
    },
    SessionSetting {
        name: "pgveil.reuse",
        default: "on",
        description: "What answers serve again, free of charge: on (the same question, coarser \
            ones, and what summaries answer), exact (the same question), off; summary (as on, and \
            nothing is bought); or checked (as on, and what summaries answer is compared with the \
            rows).",
    },
    SessionSetting {
        name: "pgveil.tolerance",
        default: "",
        description: "How far off an answer of a summary may be under pgveil.reuse = checked, in \
            the answer's unit, before the question is bought.",
    },
    SessionSetting {
        name: "pgveil.widen",
        default: "on",
        description: "Whether a question about one value of a listed column buys the answers for \
            all of its values, where that costs no more: on or off.",
    },
    SessionSetting {
        name: "pgveil.open_periods",
        default: "off",
        description: "Whether questions by periods ask for periods that are not closed too, and \
            then buy all of the answer: off or on.",
    },
    SessionSetting {
        name: "pgveil.keys",
        default: "auto",
        description: "How values of group keys may become known: auto, domain or threshold.",
    },
    SessionSetting {
        name: "pgveil.max_groups_per_unit",
        default: "",
        description: "Most groups that one unit is counted in; may only narrow the policy's.",
    },
    SessionSetting {
        name: "pgveil.max_rows_per_unit",
        default: "",
        description: "Most rows that one unit is counted with; may only narrow the policy's.",
    },
    SessionSetting {
        name: "pgveil.notices",
        default: "full",
        description: "Sets which notices an answer carries: off, cost or full.",
    },
    SessionSetting {
        name: "pgveil.clip",
        default: "auto",
        description: "How the bound on what one unit adds is chosen: fixed (by declared bounds) or \
            auto (for each question, from a noisy look at the data).",
    },
    SessionSetting {
        name: "pgveil.useless",
        default: "refuse",
        description: "What becomes of a question whose noise would hide every possible answer: \
            refuse (at no cost), warn or allow.",
    },
    SessionSetting {
        name: "pgveil.hints",
        default: "fields",
        description: "Where detail and hint of an error stand: fields (in separate fields, as \
            PostgreSQL has them) or message (in the message, for clients that show nothing else).",
    },
];

impl SessionSettings {
    /// The defaults, but with clips by declared bounds alone.
    pub fn with_fixed_clips() -> Self {
        Self {
            clip: ClipChoice::Fixed,
            ..Self::default()
        }
    }

    /// The defaults, but with clips by declared bounds alone, and noise that grouping sets share.
    pub fn with_declared_clips() -> Self {
        Self {
            clip: ClipChoice::Declared,
            ..Self::default()
        }
    }

    /// Sets the setting with this name. An empty text restores a default that is empty.
    ///
    /// # Errors
    /// 22023 for a value out of range, 42704 for another name.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        match name {
            "pgveil.epsilon" => self.epsilon = optional(text, |t| positive(name, t, "0.5"))?,
            "pgveil.target_error" => self.target_error = optional(text, |t| targets(name, t))?,
            "pgveil.max_cost" => self.max_cost = optional(text, |t| positive(name, t, "0.5"))?,
            "pgveil.reuse" => self.reuse = choice(name, text, &Reuse::WORDS)?,
            "pgveil.tolerance" => self.tolerance = optional(text, |t| tolerance(name, t))?,
            "pgveil.widen" => self.widen = choice(name, text, &Widen::WORDS)?,
            "pgveil.open_periods" => self.open_periods = choice(name, text, &OpenPeriods::WORDS)?,
            "pgveil.keys" => {
                let words = [
                    ("auto", KeyChoice::Auto),
                    ("domain", KeyChoice::Domain),
                    ("threshold", KeyChoice::Threshold),
                ];
                self.keys = choice(name, text, &words)?;
            }
            "pgveil.max_groups_per_unit" => {
                self.groups_per_unit = optional(text, |t| count(name, t))?
            }
            "pgveil.max_rows_per_unit" => self.rows_per_unit = optional(text, |t| count(name, t))?,
            "pgveil.notices" => {
                self.notices = choice(
                    name,
                    text,
                    &[
                        ("off", Notices::Off),
                        ("cost", Notices::Cost),
                        ("full", Notices::Full),
                    ],
                )?;
            }
            "pgveil.clip" => self.clip = choice(name, text, &ClipChoice::WORDS)?,
            "pgveil.useless" => {
                let words = [
                    ("refuse", UselessMode::Refuse),
                    ("warn", UselessMode::Warn),
                    ("allow", UselessMode::Allow),
                ];
                self.useless = choice(name, text, &words)?;
            }
            "pgveil.hints" => {
                let words = [("fields", Hints::Fields), ("message", Hints::Message)];
                self.hints = choice(name, text, &words)?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The value of the one of this name, as SHOW prints it and [`Self::set`] reads it; empty for
    /// another name.
    pub fn show(&self, name: &str) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        let whole = |value: Option<u32>| value.map_or(String::new(), |v| v.to_string());
        match name {
            "pgveil.epsilon" => number(self.epsilon),
            "pgveil.target_error" => self
                .target_error
                .map_or(String::new(), |targets| targets.to_string()),
            "pgveil.max_cost" => number(self.max_cost),
            "pgveil.reuse" => self.reuse.name().to_owned(),
            "pgveil.tolerance" => number(self.tolerance),
            "pgveil.widen" => self.widen.name().to_owned(),
            "pgveil.open_periods" => self.open_periods.name().to_owned(),
            "pgveil.keys" => match self.keys {
                KeyChoice::Auto => "auto".to_owned(),
                KeyChoice::Domain => "domain".to_owned(),
                KeyChoice::Threshold => "threshold".to_owned(),
            },
            "pgveil.max_groups_per_unit" => whole(self.groups_per_unit),
            "pgveil.max_rows_per_unit" => whole(self.rows_per_unit),
            "pgveil.notices" => match self.notices {
                Notices::Off => "off".to_owned(),
                Notices::Cost => "cost".to_owned(),
                Notices::Full => "full".to_owned(),
            },
            "pgveil.clip" => self.clip.name().to_owned(),
            "pgveil.useless" => match self.useless {
                UselessMode::Refuse => "refuse".to_owned(),
                UselessMode::Warn => "warn".to_owned(),
                UselessMode::Allow => "allow".to_owned(),
            },
            "pgveil.hints" => match self.hints {
                Hints::Fields => "fields".to_owned(),
                Hints::Message => "message".to_owned(),
            },
            _ => String::new(),
        }
    }

    /// The value in force of the setting with this name: the policy's, if the setting leaves it to
    /// the policy.
    pub fn in_force(&self, name: &str, policy: &Policy) -> String {
        let shown = self.show(name);
        match name {
            _ if !shown.is_empty() => shown,
            "pgveil.epsilon" => policy.privacy.epsilon_default.to_string(),
            "pgveil.max_cost" => policy.privacy.epsilon_max.to_string(),
            "pgveil.max_groups_per_unit" => policy.limits.groups_per_unit.to_string(),
            "pgveil.max_rows_per_unit" => policy.rows_per_unit_max().to_string(),
            _ => shown,
        }
    }

    /// The most epsilon that a query with a wanted error may spend: the policy's, or less.
    pub fn most_of_wanted(&self, policy: &Policy) -> f64 {
        let most = policy.privacy.epsilon_max;
        self.max_cost.map_or(most, |own| own.min(most))
    }

    /// Checks that the policy allows each setting.
    ///
    /// # Errors
    /// 22023, naming the ceiling.
    pub fn within(&self, policy: &Policy) -> Result<(), Refusal> {
        if self.epsilon.is_some_and(|e| e.is_nan() || e <= 0.0) {
            return Err(Refusal::new(
                reason::INVALID_SETTING,
                "pgveil.epsilon must be a positive number",
            ));
        }
        let ceilings = Ceilings {
            epsilon: Some(policy.privacy.epsilon_max),
            epsilon_least: Some(policy.privacy.epsilon_min),
            groups_per_unit: Some(policy.limits.groups_per_unit),
            rows_per_unit: Some(policy.rows_per_unit_max()),
        };
        self.past(&ceilings).into_iter().next().map_or(Ok(()), Err)
    }

    /// A refusal for each setting above its ceiling, or below its least.
    pub fn past(&self, ceilings: &Ceilings) -> Vec<Refusal> {
        let Ceilings {
            epsilon,
            epsilon_least,
            groups_per_unit,
            rows_per_unit,
        } = *ceilings;
        let over = |name: &str, wanted: Option<f64>, most: Option<f64>| {
            let most = most.filter(|most| wanted.is_some_and(|wanted| wanted > *most))?;
            let refusal = Refusal::new(
                reason::SETTING_CEILING,
                format!("{name} may be at most {most} here"),
            );
            Some(refusal.detail("The data owner's policy sets the ceiling."))
        };
        let under = |name: &str, wanted: Option<f64>| {
            let least = epsilon_least.filter(|least| wanted.is_some_and(|own| own < *least))?;
            let refusal = Refusal::new(
                reason::SETTING_CEILING,
                format!("{name} must be at least {least} here"),
            );
            Some(refusal.detail(
                "The data owner's policy sets the minimum that a query must spend, which bounds \
                    the number of queries.",
            ))
        };
        let past = [
            under("pgveil.epsilon", self.epsilon),
            under("pgveil.max_cost", self.max_cost),
            over("pgveil.epsilon", self.epsilon, epsilon),
            over("pgveil.max_cost", self.max_cost, epsilon),
            over(
                "pgveil.max_groups_per_unit",
                self.groups_per_unit.map(f64::from),
                groups_per_unit.map(f64::from),
            ),
            over(
                "pgveil.max_rows_per_unit",
                self.rows_per_unit.map(f64::from),
                rows_per_unit.map(f64::from),
            ),
        ];
        past.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ClipChoice, Hints, KeyChoice, Notices, OpenPeriods, Reuse, SESSION_SETTINGS,
        SessionSettings, UselessMode, Widen,
    };
    use crate::policy::TargetError;

    #[test]
    fn values_are_read_as_they_are_shown() {
        let mut session_settings = SessionSettings::default();
        for setting in SESSION_SETTINGS {
            assert_eq!(
                session_settings.show(setting.name),
                setting.default,
                "{}",
                setting.name
            );
            session_settings.set(setting.name, setting.default).unwrap();
        }
        assert_eq!(session_settings, SessionSettings::default());
        for (name, text, shown) in [
            ("pgveil.epsilon", " 0.50 ", "0.5"),
            ("pgveil.target_error", "1e2", "100"),
            ("pgveil.target_error", "10,1 %, 2.50", "10, 1%, 2.5"),
            ("pgveil.target_error", "50 %", "50%"),
            ("pgveil.target_error", "7 %  of a  row", "7% of a row"),
            ("pgveil.target_error", "2% of the answer", "2%"),
            ("pgveil.max_cost", "0.250", "0.25"),
            ("pgveil.reuse", "Exact", "exact"),
            ("pgveil.reuse", "checked", "checked"),
            ("pgveil.reuse", "FALSE", "off"),
            ("pgveil.tolerance", "3e2", "300"),
            ("pgveil.widen", "Off", "off"),
            ("pgveil.open_periods", "ON", "on"),
            ("pgveil.keys", "Threshold", "threshold"),
            ("pgveil.max_groups_per_unit", "3", "3"),
            ("pgveil.max_rows_per_unit", "7", "7"),
            ("pgveil.notices", "Cost", "cost"),
            ("pgveil.clip", "Fixed", "fixed"),
            ("pgveil.useless", "Warn", "warn"),
            ("pgveil.hints", "Message", "message"),
        ] {
            session_settings.set(name, text).unwrap();
            assert_eq!(session_settings.show(name), shown, "{name} = {text}");
        }
        let SessionSettings {
            epsilon,
            target_error,
            max_cost,
            reuse,
            tolerance,
            widen,
            open_periods,
            keys,
            groups_per_unit,
            rows_per_unit,
            notices,
            clip,
            useless,
            hints,
        } = session_settings;
        assert_eq!((useless, hints), (UselessMode::Warn, Hints::Message));
        assert_eq!((widen, open_periods), (Widen::Off, OpenPeriods::On));
        assert_eq!((clip, tolerance), (ClipChoice::Fixed, Some(300.0)));
        assert_eq!(
            (epsilon, target_error, max_cost, reuse),
            (
                Some(0.5),
                Some(TargetError::OfAnswer(0.02).into()),
                Some(0.25),
                Reuse::Off
            )
        );
        assert_eq!(
            (keys, groups_per_unit, rows_per_unit, notices),
            (KeyChoice::Threshold, Some(3), Some(7), Notices::Cost)
        );
    }

    #[test]
    fn nonsense_is_22023_and_other_names_are_42704() {
        let mut session_settings = SessionSettings::default();
        for (name, text) in [
            ("pgveil.epsilon", "0"),
            ("pgveil.epsilon", "NaN"),
            ("pgveil.epsilon", "inf"),
            ("pgveil.target_error", "-1"),
            ("pgveil.target_error", "%"),
            ("pgveil.target_error", "2% of a unit"),
            ("pgveil.target_error", "1,,2"),
            (
                "pgveil.target_error",
                "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
            ),
            ("pgveil.max_cost", "0"),
            ("pgveil.reuse", "perhaps"),
            ("pgveil.reuse", ""),
            ("pgveil.keys", "on"),
            ("pgveil.max_groups_per_unit", "0"),
            ("pgveil.max_rows_per_unit", "1.5"),
            ("pgveil.notices", "all"),
            ("pgveil.clip", "1000"),
            ("pgveil.widen", "auto"),
            ("pgveil.open_periods", "some"),
            ("pgveil.useless", "off"),
        ] {
            assert_eq!(
                session_settings.set(name, text).unwrap_err().sqlstate,
                "22023",
                "{name} = {text}"
            );
        }
        assert_eq!(
            session_settings
                .set("pgveil.noise", "off")
                .unwrap_err()
                .sqlstate,
            "42704"
        );
        assert_eq!(session_settings, SessionSettings::default());
    }
}
