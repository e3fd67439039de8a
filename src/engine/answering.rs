//! From a plan to released values: pay first, then release by release, the middle queries between them.

use tokio_util::sync::CancellationToken;

use super::failures::Place;
use super::{Engine, internal, shadow_error};
use crate::catalog::oid_of;
use crate::error::Error;
use crate::execute::{self, Snapshot};
use crate::finish;
use crate::ledger::{Charge, DebitError, Fingerprint};
use crate::refusal::{Refusal, sqlstate};
use crate::release::{Released, Releasing};
use crate::rewrite::Plan;
use crate::shadow::{Asker, ColumnDescription, Description, Format};

/// A middle query's rows, column by column, as PostgreSQL prints them under fixed settings.
type Columns = Vec<Vec<Option<String>>>;

impl Engine {
    /// One debit for everything, in the whole before the first statement runs; then each release in turn, in one snapshot.
    pub(super) async fn answered(&self, asker: &Asker, plan: &Plan, cancel: &CancellationToken) -> Result<Released, Error> {
        let place = self.place(asker, plan).await?;
        let snapshot = self.backend.snapshot(plan, self.policy.limits.statement_timeout, cancel).await.map_err(before_charge)?;
        let paid = self.debit(asker, plan).await?;
        match self.released(asker, plan, &snapshot, paid, cancel).await {
            Ok(released) => match snapshot.close().await {
                Ok(()) => Ok(released),
                Err(error) => Err(self.failed(asker, place, error).await?),
            },
            Err(Fault::Backend(execute::Error::Cancelled)) => Err(Error::Cancelled),
            Err(Fault::Backend(error)) => Err(self.failed(asker, place, error).await?),
            Err(Fault::Other(error)) => Err(error),
        }
    }

    async fn debit(&self, asker: &Asker, plan: &Plan) -> Result<Charge, Error> {
        self.ledger.debit(&asker.role, plan.loss(), Fingerprint::new(plan.fingerprint())).await.map_err(|e: DebitError| match e.refusal() {
            Some(refusal) => Error::Ledger(refusal),
            None => internal("ledger", &e),
        })
    }

    async fn released(&self, asker: &Asker, plan: &Plan, snapshot: &Snapshot, paid: Charge, cancel: &CancellationToken) -> Result<Released, Fault> {
        snapshot.allow().await.map_err(Fault::Backend)?;
        let mut releasing = Releasing::new(plan, paid);
        let mut middles: Vec<Option<Columns>> = vec![None; plan.middles().len()];
        let mut sampler = (self.sampler)();
        for release in plan.order() {
            let mut constants = Vec::new();
            for (middle, column) in plan.releases()[release].constants() {
                let columns = match middles[*middle].take() {
                    Some(columns) => columns,
                    None => self.middle(asker, plan, *middle, releasing.released()).await?,
                };
                constants.push(columns[*column].clone());
                middles[*middle] = Some(columns);
            }
            let rows = snapshot.run(plan, release, &constants, releasing.charge(), cancel).await.map_err(Fault::Backend)?;
            releasing.release(release, rows, &mut *sampler).map_err(|e| internal("release", &e))?;
        }
        Ok(releasing.into_released())
    }

    /// Runs a middle query over what is released already. What goes wrong with it speaks of released values only.
    async fn middle(&self, asker: &Asker, plan: &Plan, number: usize, released: &Released) -> Result<Columns, Error> {
        let rows_max = self.policy.limits.groups;
        let statement = finish::middle(plan, number, rows_max, released).map_err(Error::Rewrite)?;
        let types = &plan.middles()[number].columns;
        let column = |data_type| ColumnDescription { name: String::new(), type_oid: oid_of(data_type), type_size: 0, type_modifier: -1 };
        let expected = Description { parameters: Vec::new(), columns: types.iter().map(column).collect() };
        let rows = self.shadow.run(&printing_plainly(asker), &statement, &expected, &[Format::Text]).await.map_err(shadow_error)?;
        if rows.len() > rows_max as usize {
            let message = format!("a subquery over private rows gives more than {rows_max} rows");
            return Err(Error::Shadow(Refusal::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message).hint("Add a LIMIT to the subquery.")));
        }
        let mut columns: Columns = vec![Vec::with_capacity(rows.len()); types.len()];
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                let text = value.map(|v| String::from_utf8(v.to_vec())).transpose();
                column.push(text.map_err(|e| internal("shadow", &e))?);
            }
        }
        Ok(columns)
    }

    /// A failure after the charge shows, so it may tell one bit of the data: it is counted, durably.
    async fn failed(&self, asker: &Asker, place: Option<Place>, error: execute::Error) -> Result<Error, Error> {
        if let Some(place) = place {
            place.failed(&self.ledger, &asker.role, self.policy.limits.failures).await.map_err(|e| internal("ledger", &e))?;
        }
        Ok(internal("execute", &error))
    }

    /// A place among the role's running questions, while it has failures left. A question that asks nothing of the data needs none.
    async fn place(&self, asker: &Asker, plan: &Plan) -> Result<Option<Place>, Error> {
        if plan.loss().is_zero() {
            return Ok(None);
        }
        let place = self.failures.enter(&self.ledger, &asker.role, self.policy.limits.failures).await.map_err(|e| internal("ledger", &e))?;
        place.map(Some).ok_or_else(|| {
            Error::Ledger(
                Refusal::denied("this role may ask no more: too many of its queries have failed on the database")
                    .detail("Each visible failure can tell a little of the data, so they are counted and limited. Ask the data owner."),
            )
        })
    }

    /// The middle queries have the types that the releases were planned with, and the outer query gives exactly the columns that PostgreSQL promised for the
    /// analyst's own text.
    pub(super) async fn check_shape(&self, asker: &Asker, plan: &Plan, description: &Description) -> Result<(), Error> {
        for (number, middle) in plan.middles().iter().enumerate() {
            let shape = finish::middle_shape(plan, number, self.policy.limits.groups).map_err(Error::Rewrite)?;
            let found = self.shadow.describe(asker, &shape, &[]).await.map_err(shadow_error)?;
            if !found.columns.iter().map(|c| c.type_oid).eq(middle.columns.iter().map(oid_of)) {
                return Err(Error::Rewrite(
                    Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, "the types of a subquery's columns are not followed here")
                        .detail("Nothing was charged.")
                        .hint("Cast the columns of the subquery explicitly."),
                ));
            }
        }
        let shape = finish::shape(plan).map_err(Error::Rewrite)?;
        let found = self.shadow.describe(asker, &shape, &[]).await.map_err(shadow_error)?;
        let types = |d: &Description| d.columns.iter().map(|c| c.type_oid).collect::<Vec<_>>();
        if types(&found) == types(description) {
            return Ok(());
        }
        Err(Error::Rewrite(
            Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, "the types of this query's columns are not followed here")
                .detail("The private answer would have other column types than PostgreSQL gives. Nothing was charged.")
                .hint("Cast the arguments of the aggregates explicitly."),
        ))
    }
}

enum Fault {
    /// The backing database's, after the charge.
    Backend(execute::Error),
    Other(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The asker with settings under which a value has one printed form; what their own settings read stays as they read it.
fn printing_plainly(asker: &Asker) -> Asker {
    let mut asker = asker.clone();
    // ISO leaves the order of day and month, in which constants are read, as it is.
    for (name, value) in [("DateStyle", "ISO"), ("IntervalStyle", "postgres"), ("extra_float_digits", "1")] {
        asker.settings.push((name.to_owned(), value.to_owned()));
    }
    asker
}

/// Nothing private was read and nothing charged.
fn before_charge(error: execute::Error) -> Error {
    match error {
        execute::Error::Stale(table) => Error::Rewrite(
            Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("the definition of {table} has changed since the policy was loaded"))
                .detail("Nothing was charged. The policy has to be checked against the new definition.")
                .hint("Ask the data owner to reload the policy."),
        ),
        execute::Error::Locked => Error::Rewrite(
            Refusal::new("55P03", "a table of this query is locked by another session").detail("Nothing was charged.").hint("Ask again later."),
        ),
        execute::Error::Cancelled => Error::Cancelled,
        execute::Error::Backend(text) => internal("execute", &text),
    }
}
