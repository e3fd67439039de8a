//! The view `pgveil.periods`: facts of the policy, the clock and what the role has paid for.

use super::by_periods::now;
use super::views::{ViewRow, number_cell, time};
use super::{Engine, ledger_failed};
use crate::calendar::FROM_1970_US;
use crate::calendar::period::{Period, PeriodLength};
use crate::error::Error;
use crate::ledger::{Fingerprint, PaidHorizon};
use crate::policy::{Periods, Table};
use crate::shadow::Requester;

impl Engine {
    /// A row for each table with periods; where the role has paid for horizons, one for each.
    pub(super) async fn period_rows(&self, requester: &Requester) -> Result<Vec<ViewRow>, Error> {
        let paid = self.ledger.paid_horizons(&requester.role).await;
        let paid = paid.map_err(|e| ledger_failed(&e))?;
        let tables = self.policy.tables.iter();
        let with_periods = tables.filter_map(|table| Some((table, table.periods?)));
        let rows = with_periods.flat_map(|(table, periods)| {
            let name = format!("{}.{}", table.schema, table.name);
            let own: Vec<&PaidHorizon> = paid.iter().filter(|one| one.table == name).collect();
            match own.is_empty() {
                true => vec![row(table, &periods, None)],
                false => own
                    .into_iter()
                    .map(|one| row(table, &periods, Some(one)))
                    .collect(),
            }
        });
        Ok(rows.collect())
    }
}

fn row(table: &Table, periods: &Periods, paid: Option<&PaidHorizon>) -> ViewRow {
    let start = |period: Period| moment(periods.length, period);
    let closed = periods.closed_at(now()).hull();
    let prepaid = periods.prepaid;
    let of_horizon = paid.zip(prepaid).map(|(paid, declared)| {
        let length = i64::from(declared.horizon);
        let first = periods.from.plus(paid.horizon.saturating_mul(length));
        (first, first.plus(length))
    });
    let since = of_horizon.map_or(periods.from, |(first, _)| first);
    vec![
        Some(table.schema.clone()),
        Some(table.name.clone()),
        Some(periods.length.name().to_owned()),
        Some(start(since)),
        closed.map(|(_, end)| start(end)),
        prepaid.map(|of| of.per_unit.to_string()),
        prepaid.map(|of| of.horizon.to_string()),
        paid.map(|paid| Fingerprint::new(paid.question.0).short()),
        of_horizon.map(|(_, end)| start(end)),
        paid.and_then(|paid| paid.drawn_to.map(|to| start(Period::of_number(to)))),
        paid.and_then(|paid| number_cell(paid.price.loss.mu_squared.to_f64().sqrt())),
    ]
}

fn moment(length: PeriodLength, period: Period) -> String {
    time(length.start(period).saturating_add(FROM_1970_US))
}
