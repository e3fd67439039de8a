//! Runs middle queries: once for each statement, by the shadow, over released values.

use std::sync::Arc;

use super::{Engine, internal, shadow_error};
use crate::catalog::oid_of;
use crate::error::Error;
use crate::finish::{self, Fits, Fitting};
use crate::ir::{MiddleId, ReleaseId};
use crate::memory::HeldMemory;
use crate::refusal::{Refusal, reason};
use crate::release::Released;
use crate::rewrite::Plan;
use crate::shadow::{ColumnDescription, Description, Format, HeldRows, Requester};

/// A column of a middle query's rows, as PostgreSQL prints it under fixed settings.
pub(super) type PrintedColumn = Vec<Option<String>>;

/// The middle queries of one statement. Each is run when it is first needed.
pub(super) struct MiddleQueries<'a> {
    engine: &'a Engine,
    requester: Requester,
    plan: &'a Plan,
    known: Vec<Option<Vec<PrintedColumn>>>,
    fits: Fits,
    bytes: usize,
    held: Vec<HeldMemory>,
}

/// The most values that one row may be compared with, in all lists of a release's statements
/// together, at 50 ns each. A longer text counts as several values.
const SEARCHED_MAX: u64 = 400_000;

/// The most bytes of all values of a statement's middle queries.
const BYTES_MAX: usize = 64 << 20;

impl<'a> MiddleQueries<'a> {
    pub fn new(engine: &'a Engine, requester: &Requester, plan: &'a Plan) -> Self {
        Self {
            engine,
            requester: requester.clone().printing_plainly(),
            plan,
            known: vec![None; plan.middles().len()],
            fits: Fits::default(),
            bytes: 0,
            held: Vec::new(),
        }
    }

    /// The constants of a release's statement, in the order of its parameters.
    ///
    /// # Errors
    /// Errors of middle queries depend on released values only. XX000 where a release that a query
    /// reads was not made yet.
    pub async fn constants(
        &mut self,
        release: ReleaseId,
        released: &Released,
    ) -> Result<Vec<PrintedColumn>, Error> {
        let mut constants = Vec::new();
        let mut searched = 0u64;
        let plan = self.plan.release(release);
        for (constant, times) in plan.constants().iter().zip(plan.searches()) {
            let columns = match self.known[constant.middle.0].take() {
                Some(columns) => columns,
                None => self.run(constant.middle, released).await?,
            };
            let values: u64 = constant
                .pick(&columns)
                .iter()
                .map(|value| 1 + value.as_ref().map_or(0, String::len) as u64 / 50)
                .sum();
            searched = searched.saturating_add(values.saturating_mul(*times));
            if searched > SEARCHED_MAX {
                let message = format!(
                    "a row would be compared with more than {SEARCHED_MAX} values of subqueries"
                );
                return Err(Error::Shadow(
                    Refusal::new(reason::SUBQUERY_TOO_LARGE, message)
                        .hint("Write the subquery once, or narrow it."),
                ));
            }
            constants.push(constant.pick(&columns).clone());
            self.known[constant.middle.0] = Some(columns);
        }
        let rows = |at: MiddleId| {
            self.known[at.0]
                .as_ref()
                .and_then(|columns| columns.first())
                .map_or(1, |values| values.len() as u64)
        };
        self.engine.check_pairs(&self.requester, plan, rows).await?;
        Ok(constants)
    }

    async fn run(
        &mut self,
        number: MiddleId,
        released: &Released,
    ) -> Result<Vec<PrintedColumn>, Error> {
        let rows_max = self.engine.policy.limits.groups;
        let read = self.plan.middle(number).releases.iter().copied();
        let read = read.filter(|release| !self.fits.has(*release));
        let fitting = Fitting::new(self.plan, read.collect::<Vec<_>>(), released);
        let fits = self.engine.compute_fits(&self.requester, fitting).await;
        self.fits.extend(fits);
        let released = (released, &self.fits);
        let statement =
            finish::middle(self.plan, number, rows_max, released).map_err(Error::Rewrite)?;
        let types = &self.plan.middle(number).columns;
        let column = |data_type| ColumnDescription {
            name: String::new(),
            type_oid: oid_of(data_type),
            type_size: 0,
            type_modifier: -1,
        };
        let expected = Description {
            parameters: Vec::new(),
            columns: types.iter().map(column).collect(),
        };
        let HeldRows { rows, held } = self
            .engine
            .shadow
            .run(&self.requester, &statement, &expected, &[Format::Text])
            .await
            .map_err(shadow_error)?;
        if rows.len() > rows_max as usize {
            let message = format!("a subquery over private rows gives more than {rows_max} rows");
            return Err(Error::Shadow(
                Refusal::new(reason::SUBQUERY_TOO_LARGE, message)
                    .hint("Add a LIMIT to the subquery."),
            ));
        }
        self.held.push(held);
        self.bytes += rows
            .iter()
            .flatten()
            .flatten()
            .map(bytes::Bytes::len)
            .sum::<usize>();
        if self.bytes > BYTES_MAX {
            let message = format!(
                "subqueries over private rows give more than {} MB",
                BYTES_MAX >> 20
            );
            return Err(Error::Shadow(
                Refusal::new(reason::SUBQUERY_TOO_LARGE, message).hint("Leave out long texts."),
            ));
        }
        let mut columns: Vec<PrintedColumn> = vec![Vec::with_capacity(rows.len()); types.len()];
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                let text = value.map(|v| String::from_utf8(v.to_vec())).transpose();
                column.push(text.map_err(|e| internal("shadow", &e))?);
            }
        }
        Ok(columns)
    }
}

impl Engine {
    /// Checks that middle queries have the types that the releases were planned with, and that the
    /// outer query gives exactly the columns that PostgreSQL promised for the analyst's own text.
    pub(super) async fn check_shape(
        &self,
        requester: &Requester,
        plan: &Arc<Plan>,
        description: &Description,
    ) -> Result<(), Error> {
        let rows_max = self.policy.limits.groups;
        let texts = self.recent.shapes.of(plan, rows_max);
        let texts = texts.map_err(Error::Rewrite)?;
        for (middle, shape) in plan.middles().iter().zip(&texts.middles) {
            let found = self
                .shadow
                .describe(requester, shape, &[])
                .await
                .map_err(shadow_error)?;
            if !found
                .columns
                .iter()
                .map(|c| c.type_oid)
                .eq(middle.columns.iter().map(oid_of))
            {
                return Err(Error::Rewrite(
                    Refusal::new(
                        reason::COLUMN_TYPE_UNKNOWN,
                        "cannot determine the types of a subquery's columns",
                    )
                    .detail("Nothing was charged.")
                    .hint("Cast the columns of the subquery explicitly."),
                ));
            }
        }
        let found = self
            .shadow
            .describe(requester, &texts.outer, &[])
            .await
            .map_err(shadow_error)?;
        let types = |d: &Description| d.columns.iter().map(|c| c.type_oid).collect::<Vec<_>>();
        if types(&found) == types(description) {
            return Ok(());
        }
        Err(Error::Rewrite(
            Refusal::new(
                reason::COLUMN_TYPE_UNKNOWN,
                "cannot determine the types of this \
                query's columns",
            )
            .detail(
                "The private answer would have other column types than PostgreSQL gives. \
                    Nothing was charged.",
            )
            .hint("Cast the arguments of the aggregates explicitly."),
        ))
    }
}
