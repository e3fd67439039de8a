//! About how many units a question's rows may belong to: as the policy says, or else as answers do
//! that the role holds.

use super::middle_queries::MiddleQueries;
use super::planning_limit::aside;
use super::reuse::question;
use super::{Engine, Requester, ledger_failed};
use crate::analyze::PlanningEffort;
use crate::error::Error;
use crate::finish::spread;
use crate::ir::{AggregateId, Formula, ReleaseId};
use crate::ledger::{FamilyId, Stored};
use crate::parse::{Query, Statement, parse};
use crate::policy::{Policy, Protection, SessionSettings, Table};
use crate::postgres::qualify;
use crate::release::units_at_most;
use crate::rewrite::{Plan, ReleasePlan, UnitCount};

impl Engine {
    /// About how many units a question's rows may belong to. `None` where nothing says so, and in a
    /// session that uses no stored answers.
    ///
    /// # Guarantee
    /// The number is the policy's, or a function of the plan and of released values that the role
    /// has paid for. No row decides, nor what other roles did. Nothing is charged.
    ///
    /// It is rarely too small: of the counts that it is read from, at most one in 800 has its upper
    /// end below the true number, and of the looks at most one in 30,000.
    pub(super) async fn known_units(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Option<UnitCount>, Error> {
        if let Some(known) = UnitCount::of_policy(&self.policy) {
            return Ok(Some(known));
        }
        if !self.recalls(requester) {
            return Ok(None);
        }
        let counted = match unit_table(&self.policy, plan) {
            Some(table) => self.counted_units(requester, table).await?,
            None => None,
        };
        let looked = self.looked_at_units(requester, plan).await?;
        let least = counted.into_iter().chain(looked).reduce(f64::min);
        Ok(least.map(|units| UnitCount::Released(units.ceil().max(1.0) as u64)))
    }

    /// Whether the role holds the answers to all releases, so that nothing has to be known about
    /// them. Quicker than to find out.
    pub(super) async fn holds_all(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<bool, Error> {
        if !self.recalls(requester) {
            return Ok(false);
        }
        for release in (0..plan.releases().len()).map(ReleaseId) {
            if !plan.release(release).constants().is_empty() {
                return Ok(false);
            }
            let Some(question) = question(plan, release, &[]) else {
                continue;
            };
            let found = self.ledger.find(&requester.role, question).await;
            match found.map_err(|e| ledger_failed(&e))? {
                Some(Stored::Held { .. }) => {}
                Some(Stored::Offered(_)) | None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The upper end of a count of a table with one row a unit, if the role holds one, or a finer
    /// count that adds up to it.
    async fn counted_units(
        &self,
        requester: &Requester,
        table: &Table,
    ) -> Result<Option<f64>, Error> {
        let Some(count) = count_of(table) else {
            return Ok(None);
        };
        // The least accurate count will do.
        let settings = SessionSettings {
            epsilon: Some(self.policy.privacy.epsilon_min),
            ..SessionSettings::default()
        };
        let asking = Requester {
            session_settings: settings,
            ..requester.clone()
        };
        let Ok((plan, _)) = self.plan_free(&asking, &count).await else {
            return Ok(None);
        };
        let mut middles = MiddleQueries::new(self, &asking, &plan);
        let recalled = self.recall(&asking, &plan, &mut middles).await?;
        let (first, count) = (ReleaseId(0), Formula::Aggregate(AggregateId(0)));
        let Some(table) = recalled.released.table(first) else {
            return Ok(None);
        };
        let interval = spread(plan.release(first), &count, table, 0);
        // Twice as far as an interval of 95 % reaches: by Gaussian noise one count in 20,000 is
        // further off to one side, by Laplace noise one in 800.
        Ok(interval.map(|of| of.high + (of.high - of.low) / 2.0))
    }

    /// The most units that the rows of any release may belong to, by looks that the role has paid
    /// for, at the same rows or at more. `None` where a release has no such look.
    async fn looked_at_units(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Option<f64>, Error> {
        let effort = PlanningEffort::default();
        let mut most: Option<f64> = None;
        for release in plan.releases() {
            if release.statements().is_empty() {
                continue;
            }
            let Some(family) = release.family() else {
                return Ok(None);
            };
            let family = FamilyId(*family.digest.as_bytes());
            let relatives = self.ledger.relatives(&requester.role, family).await;
            let relatives = relatives.map_err(|e| ledger_failed(&e))?;
            let least = aside(|| {
                let numbers = relatives
                    .iter()
                    .filter_map(|stored| units_at_most(release, stored, &effort));
                numbers.reduce(f64::min)
            });
            let Some(least) = least else {
                return Ok(None);
            };
            most = Some(most.map_or(least, |most| most.max(least)));
        }
        Ok(most)
    }
}

/// `SELECT count(*)` of a table.
fn count_of(table: &Table) -> Option<Query> {
    let count = format!(
        "SELECT count(*) FROM {}",
        qualify(&table.schema, &table.name)
    );
    match parse(&count).as_deref() {
        Ok([Statement::Query(count)]) => Some(count.clone()),
        Ok(_) | Err(_) => None,
    }
}

/// The table, with one row a unit, that the private rows of all releases belong to.
fn unit_table<'p>(policy: &'p Policy, plan: &Plan) -> Option<&'p Table> {
    let find = |(schema, name): (&str, &str)| {
        let mut tables = policy.tables.iter();
        tables.find(|table| table.schema == schema && table.name == name)
    };
    let mut found: Option<&Table> = None;
    for known in plan.releases().iter().flat_map(ReleasePlan::relied_on) {
        let table = find((&known.schema, &known.name))?;
        let Protection::Private(unit) = &table.protection else {
            continue;
        };
        let own = match unit.path.last() {
            Some(step) => find((&step.schema, &step.table))?,
            None => table,
        };
        if found.is_some_and(|found| found.oid != own.oid) {
            return None;
        }
        found = Some(own);
    }
    found.filter(|table| match &table.protection {
        Protection::Private(unit) => unit.is_primary_key && unit.path.is_empty(),
        Protection::Public => false,
    })
}
