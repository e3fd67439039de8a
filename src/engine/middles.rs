//! Middle queries as they are run: by the shadow, over what is released already, once a statement.

use super::{Engine, internal, shadow_error};
use crate::catalog::oid_of;
use crate::error::Error;
use crate::finish;
use crate::refusal::{Refusal, sqlstate};
use crate::release::Released;
use crate::rewrite::Plan;
use crate::shadow::{Asker, ColumnDescription, Description, Format, Weighed};

/// A column of a middle query's rows, as PostgreSQL prints it under fixed settings.
pub(super) type Column = Vec<Option<String>>;

/// The middle queries of one statement, run when they are first needed.
pub(super) struct Middles<'a> {
    engine: &'a Engine,
    asker: Asker,
    plan: &'a Plan,
    known: Vec<Option<Vec<Column>>>,
}

impl<'a> Middles<'a> {
    pub fn new(engine: &'a Engine, asker: &Asker, plan: &'a Plan) -> Self {
        Self { engine, asker: asker.clone().printing_plainly(), plan, known: vec![None; plan.middles().len()] }
    }

    /// The constants of a release's statement, in the order of its parameters.
    ///
    /// # Errors
    /// What goes wrong with a middle query speaks of released values only. XX000 where a release that it reads was not made yet.
    pub async fn constants(&mut self, release: usize, released: &Released) -> Result<Vec<Column>, Error> {
        let mut constants = Vec::new();
        for (middle, column) in self.plan.releases()[release].constants() {
            let columns = match self.known[*middle].take() {
                Some(columns) => columns,
                None => self.run(*middle, released).await?,
            };
            constants.push(columns[*column].clone());
            self.known[*middle] = Some(columns);
        }
        Ok(constants)
    }

    async fn run(&self, number: usize, released: &Released) -> Result<Vec<Column>, Error> {
        let rows_max = self.engine.policy.limits.groups;
        let statement = finish::middle(self.plan, number, rows_max, released).map_err(Error::Rewrite)?;
        let types = &self.plan.middles()[number].columns;
        let column = |data_type| ColumnDescription { name: String::new(), type_oid: oid_of(data_type), type_size: 0, type_modifier: -1 };
        let expected = Description { parameters: Vec::new(), columns: types.iter().map(column).collect() };
        let Weighed { rows, held: _held } =
            self.engine.shadow.run(&self.asker, &statement, &expected, &[Format::Text]).await.map_err(shadow_error)?;
        if rows.len() > rows_max as usize {
            let message = format!("a subquery over private rows gives more than {rows_max} rows");
            return Err(Error::Shadow(Refusal::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message).hint("Add a LIMIT to the subquery.")));
        }
        let mut columns: Vec<Column> = vec![Vec::with_capacity(rows.len()); types.len()];
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
