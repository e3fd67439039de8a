//! The rows of pgveil's own views for one role: facts of the policy, the session and the role's own
//! account. They show no balance of the owner and nothing of other roles.

use super::{Engine, ledger_failed};
use crate::aggregates::three_digits;
use crate::analyze::values_between;
use crate::calendar::FROM_1970_US;
use crate::catalog::Type;
use crate::error::Error;
use crate::finish::ViewRows;
use crate::ledger::Entry;
use crate::mechanism::{Fixed, OneBit, Randomiser};
use crate::policy::{
    Collected, Column, ColumnPosition, Local, Policy, Protection, SESSION_SETTINGS, Scalar,
    SessionSettings, Table, ViewKind, WrittenTable,
};
use crate::rewrite::Plan;
use crate::rewrite::emit::sql;
use crate::shadow::Requester;

/// The most debits that `pgveil.history` shows.
const HISTORY_MAX: u32 = 10_000;

/// The values of a view's row, as text.
pub(super) type ViewRow = Vec<Option<String>>;

impl Engine {
    /// The rows of every view that the plan reads.
    pub(super) async fn views(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Vec<ViewRows>, Error> {
        let mut views = Vec::new();
        for kind in plan.views() {
            let rows = match kind {
                ViewKind::Budget => vec![self.budget(requester).await?],
                ViewKind::History => {
                    let entries = self
                        .ledger
                        .history(&requester.role, HISTORY_MAX)
                        .await
                        .map_err(|e| ledger_failed(&e))?;
                    entries.iter().map(debit).collect()
                }
                ViewKind::Tables => self
                    .policy
                    .tables
                    .iter()
                    .map(|table| table_row(table, &self.policy))
                    .collect(),
                ViewKind::Columns => {
                    let writing = self.policy.writing.as_ref();
                    let rows = |(at, table): (usize, &Table)| {
                        let written = writing.and_then(|w| w.table(&table.schema, &table.name));
                        let columns = column_rows(table, written).enumerate();
                        let whole = columns.map(|(column, mut row)| {
                            let column = ColumnPosition(column);
                            row.push(self.summarized_by(requester, at, column));
                            row
                        });
                        whole.collect::<Vec<_>>()
                    };
                    self.policy
                        .tables
                        .iter()
                        .enumerate()
                        .flat_map(rows)
                        .collect()
                }
                ViewKind::Settings => settings(&requester.session_settings, &self.policy),
                ViewKind::Worth => self.worth(requester).await?,
                ViewKind::GroupPrivacy => self.group_privacy(requester).await?,
                ViewKind::Meaning => self.meaning(requester).await?,
                ViewKind::Summaries => self.summary_rows(requester).await?,
                ViewKind::Monitors => self.monitor_rows(&requester.role),
                ViewKind::Holdouts => self.holdout_rows(requester).await?,
                ViewKind::Periods => self.period_rows(requester).await?,
            };
            views.push(ViewRows { kind: *kind, rows });
        }
        Ok(views)
    }

    async fn budget(&self, requester: &Requester) -> Result<ViewRow, Error> {
        let balance = self
            .ledger
            .balance(&requester.role)
            .await
            .map_err(|e| ledger_failed(&e))?;
        let failures = self
            .ledger
            .failures(&requester.role)
            .await
            .map_err(|e| ledger_failed(&e))?;
        let budget = self
            .policy
            .role(&requester.role)
            .map_or(self.policy.privacy.budget, |role| role.budget);
        let accounting = balance.cap.accounting().name();
        let renew = balance.renew.name();
        Ok(vec![
            Some(requester.role.clone()),
            Some(accounting.to_owned()),
            number_cell(budget.epsilon),
            number_cell(budget.delta),
            number_cell(balance.fraction_left()),
            balance.spent.epsilon.and_then(fixed_text),
            number_cell(balance.spent.mu_squared.to_f64().sqrt()),
            fixed_text(balance.spent.rho),
            fixed_text(balance.spent.delta),
            Some(failures.to_string()),
            Some(self.policy.limits.failures.to_string()),
            Some(renew.to_owned()),
            balance.renews_at.map(time),
            fixed_text(balance.granted.0),
            fixed_text(balance.granted.1),
            Some(balance.frozen.to_string()),
            balance.lifetime.epsilon.and_then(fixed_text),
            number_cell(balance.lifetime.mu_squared.to_f64().sqrt()),
            fixed_text(balance.lifetime.rho),
            fixed_text(balance.lifetime.delta),
        ])
    }
}

/// A number as a cell of a view; cells may be NULL.
pub(super) fn number_cell(value: f64) -> Option<String> {
    Some(value.to_string())
}

fn fixed_text(value: Fixed) -> Option<String> {
    number_cell(value.to_f64())
}

/// Microseconds since 1970 as a timestamptz.
pub(super) fn time(microseconds: i64) -> String {
    format!(
        "{}+00",
        sql::scalar_text(&Scalar::Timestamp(microseconds - FROM_1970_US))
    )
}

fn debit(entry: &Entry) -> ViewRow {
    let Entry {
        loss,
        microseconds,
        fingerprint,
    } = entry;
    let (mu, delta) = (
        number_cell(loss.mu_squared.to_f64().sqrt()),
        fixed_text(loss.delta),
    );
    vec![
        Some(time(*microseconds)),
        loss.epsilon.and_then(fixed_text),
        mu,
        fixed_text(loss.rho),
        delta,
        Some(fingerprint.short()),
    ]
}

fn table_row(table: &Table, policy: &Policy) -> ViewRow {
    let mut row = vec![Some(table.schema.clone()), Some(table.name.clone())];
    row.extend(match &table.protection {
        Protection::Public => vec![Some("false".to_owned()), None, None, None, None],
        Protection::Private(unit) => {
            let step = |s: &crate::policy::UnitStep| {
                format!("{} -> {}.{}.{}", s.column, s.schema, s.table, s.referenced)
            };
            let path: Vec<String> = unit.path.iter().map(step).collect();
            vec![
                Some("true".to_owned()),
                Some(policy.privacy.unit.clone()),
                Some(unit.column.clone()),
                (!path.is_empty()).then(|| path.join(", ")),
                Some(unit.rows_per_unit.to_string()),
            ]
        }
    });
    row
}

fn column_rows<'t>(
    table: &'t Table,
    written: Option<&'t WrittenTable>,
) -> impl Iterator<Item = ViewRow> + 't {
    let is_public = table.protection == Protection::Public;
    table.columns.iter().enumerate().map(move |(at, column)| {
        let Column {
            name,
            data_type,
            declared: _,
            not_null,
            deterministic_collation,
            collation: _,
            bounds,
            unit_total,
            domain,
            is_complete: _,
            extent: _,
            collected,
        } = column;
        let text = |value: &Scalar| match data_type {
            Type::Char(_) => sql::scalar_text(value).trim_end_matches(' ').to_owned(),
            _ => sql::scalar_text(value),
        };
        let reports = collected.as_ref().filter(|how| how.one_bit.is_none());
        let dictionary = reports.and_then(|how| how.dictionary.as_ref());
        let domain = dictionary.map(|of| of.values.clone()).or_else(|| {
            let values = domain.as_ref().or(reports.map(|how| &how.reports));
            values.map(|values| values.iter().map(text).collect::<Vec<_>>())
        });
        let within = bounds
            .as_ref()
            .and_then(|bounds| values_between(bounds, data_type))
            .filter(|_| !is_public);
        let values_known = domain.as_ref().map(Vec::len).or(within);
        let is_number = collected.as_ref().map(|how| how.one_bit.is_some());
        let made = written.and_then(|table| table.column(name)?.local.as_ref());
        vec![
            Some(table.schema.clone()),
            Some(table.name.clone()),
            Some(name.clone()),
            Some((at + 1).to_string()),
            Some(data_type.to_string()),
            Some((!not_null).to_string()),
            bounds.as_ref().map(|b| sql::scalar_text(&b.lower)),
            bounds.as_ref().map(|b| sql::scalar_text(&b.upper)),
            unit_total.map(|most| most.to_string()),
            ceiling(table, column).and_then(number_cell),
            values_known.map(|count| count.to_string()),
            domain
                .as_ref()
                .and_then(|values| serde_json::to_string(values).ok()),
            Some(
                is_number
                    .unwrap_or_else(|| {
                        let is_bounded = is_public || bounds.is_some() || domain.is_some();
                        is_summed(data_type, is_bounded)
                    })
                    .to_string(),
            ),
            grouping_kind(
                data_type,
                is_public,
                values_known.is_some(),
                *deterministic_collation,
            )
            .filter(|_| is_number != Some(true))
            .map(str::to_owned),
            collected.as_ref().map(|how| local(how, made)),
        ]
    })
}

/// The most that one unit's values of a column may add to a sum over the table, if they are clamped
/// to their bounds. `None` where the policy gives no bounds, or nobody is protected.
fn ceiling(table: &Table, column: &Column) -> Option<f64> {
    let Protection::Private(unit) = &table.protection else {
        return None;
    };
    let number = |bound: &Scalar| sql::scalar_text(bound).parse::<f64>().ok();
    let of_bounds = || {
        let bounds = column
            .bounds
            .as_ref()
            .filter(|_| column.collected.is_none())?;
        let row = number(&bounds.lower)?
            .abs()
            .max(number(&bounds.upper)?.abs());
        Some(row * f64::from(unit.rows_per_unit))
    };
    let is_number = is_summed(&column.data_type, column.bounds.is_some());
    let by_rows = is_number.then(of_bounds).flatten();
    by_rows
        .into_iter()
        .chain(column.unit_total)
        .reduce(f64::min)
}

/// How a column's values were randomised, and the epsilon of a report, rounded up where pgveil made
/// it.
fn local(how: &Collected, made: Option<&Local>) -> String {
    let rounded = match made {
        Some(_) => up_to_three_digits,
        None => three_digits,
    };
    let shown = reports(how, rounded);
    match made {
        Some(made) => format!("{shown}; made by pgveil, {}", made.odds),
        None => shown,
    }
}

/// With three digits, and not below the number but for what doubles round off.
pub(super) fn up_to_three_digits(number: f64) -> String {
    let near = three_digits(number);
    let is_below = near
        .parse::<f64>()
        .is_ok_and(|shown| shown < number * (1.0 - 1e-12));
    match is_below {
        true => {
            let unit = 10f64.powi(number.log10().floor() as i32 - 2);
            three_digits((number / unit).ceil() * unit)
        }
        false => near,
    }
}

fn reports(how: &Collected, rounded: fn(f64) -> String) -> String {
    let name = how.randomiser.name();
    let epsilon = rounded(how.randomiser.epsilon());
    if let Randomiser::Rappor(of) = how.randomiser {
        let one = rounded(of.epsilon_of_one());
        return format!("{name}, epsilon {epsilon} of all reports of a value, {one} of one");
    }
    match how.one_bit {
        Some(OneBit { clear, set }) => format!(
            "{name}, epsilon {epsilon}, 0 stands for {} and 1 for {}",
            three_digits(clear),
            three_digits(set)
        ),
        None => format!("{name}, epsilon {epsilon}"),
    }
}

fn is_summed(data_type: &Type, is_bounded: bool) -> bool {
    match data_type {
        Type::Int2 => true,
        Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => is_bounded,
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => false,
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

/// How GROUP BY finds the values of the column: `exact`, `listed` or `threshold`; NULL where it
/// cannot be a key.
fn grouping_kind(
    data_type: &Type,
    is_public: bool,
    is_listed: bool,
    deterministic: bool,
) -> Option<&'static str> {
    match data_type {
        _ if is_public => Some("exact"),
        _ if is_listed => Some("listed"),
        Type::Bool => Some("listed"),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float8 | Type::Uuid => {
            Some("threshold")
        }
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Time => Some("threshold"),
        Type::Enum(_) => Some("listed"),
        Type::Text | Type::Varchar(_) | Type::Char(_) => deterministic.then_some("threshold"),
        Type::Float4 | Type::Interval | Type::Other { .. } => None,
    }
}

fn settings(session_settings: &SessionSettings, policy: &Policy) -> Vec<ViewRow> {
    let row = |setting: &crate::policy::SessionSetting| {
        let most = match setting.name {
            "pgveil.epsilon" | "pgveil.max_cost" => Some(policy.privacy.epsilon_max.to_string()),
            "pgveil.max_groups_per_unit" => Some(policy.limits.groups_per_unit.to_string()),
            "pgveil.max_rows_per_unit" => Some(policy.rows_per_unit_max().to_string()),
            _ => None,
        };
        vec![
            Some(setting.name.to_owned()),
            Some(session_settings.in_force(setting.name, policy)),
            most,
            Some(setting.description.to_owned()),
        ]
    };
    SESSION_SETTINGS.iter().map(row).collect()
}
