//! The statements of one release, emitted over one relation.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::choice::{ChoiceQuery, RowLimit, RowsLook};
use super::emit::constants::ConstantOrder;
use super::emit::limits::too_complex;
use super::emit::relation::{Flat, Relations};
use super::emit::statement::{EmittedStatement, RowStream};
use super::emit::text::Derived;
use super::limits::row_cost::{self, RowCost};
use super::price::{Bounding, Price};
use super::redundant_joins::{ScannedOnce, without_redundant_scans};
use super::stream::Fold;
use super::vector::base_rows::base_rows;
use super::vector::clipped_aggregate::ClippedAggregate;
use super::vector::coordinate::Coordinate;
use crate::analyze::{Analyzed, AnalyzedRelease};
use crate::ir::{ColumnId, Expr, Relation};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::visit;

/// The most releases of a question whose groups become columns: together they take a tenth of what
/// one row may take, so that no question is refused for it that is not close to the limit anyway.
const PIVOTED_RELEASES: usize = 2;

/// How many steps of planning a byte of an emitted statement counts as.
const BYTE_STEPS: u64 = 2;

/// The statements of one release. They share one numbering of the constants they read.
pub(in crate::rewrite) struct Emission<'a> {
    pub release: &'a AnalyzedRelease,
    pub analyzed: &'a Analyzed,
    pub policy: &'a Policy,
    /// The release's rows, each row of a table read once.
    rows: ScannedOnce,
    pub order: ConstantOrder,
    /// The bounds of derived tables on the rows of one unit, by alias.
    pub bounded: RefCell<HashMap<String, u64>>,
    /// The rows as they are emitted, of which each statement has a copy.
    flat: OnceCell<Flat>,
}

impl<'a> Emission<'a> {
    pub fn new(release: &'a AnalyzedRelease, analyzed: &'a Analyzed, policy: &'a Policy) -> Self {
        let rows = without_redundant_scans(
            &release.input,
            &needed_columns(release, &[]),
            policy,
            analyzed.columns(),
            analyzed.effort(),
        );
        Self {
            release,
            analyzed,
            policy,
            rows,
            order: ConstantOrder::default(),
            bounded: RefCell::default(),
            flat: OnceCell::new(),
        }
    }

    /// The time that the statement may take for one row.
    pub fn row_cost(&self, statement: &ast::Query) -> RowCost {
        let bounded = self.bounded.borrow();
        if self.release.fan_outs.is_empty() {
            row_cost::of(statement, &bounded)
        } else {
            row_cost::of_pairs(statement, &bounded)
        }
    }

    /// The rows. All statements read the same.
    pub fn flat(&self) -> Result<Flat, Refusal> {
        if let Some(flat) = self.flat.get() {
            return Ok(flat.clone());
        }
        let flat = self.emit_rows()?;
        Ok(self.flat.get_or_init(|| flat).clone())
    }

    fn emit_rows(&self) -> Result<Flat, Refusal> {
        let (derived, spent, bounded) = Default::default();
        let relations = Relations {
            policy: self.policy,
            columns: self.analyzed.columns(),
            needed: needed_columns(self.release, &[&self.rows.relation]),
            same: &self.rows.same,
            derived,
            spent,
            bounded,
            effort: self.analyzed.effort(),
        };
        let flat = relations.emit(&self.rows.relation)?;
        self.bounded.replace(relations.bounded.into_inner());
        Ok(flat)
    }

    /// The statement of the vector that is run, and whether its groups are columns.
    pub fn vector(
        &mut self,
        coordinates: &[Coordinate],
        price: &Price,
    ) -> Result<(ast::Query, bool), Refusal> {
        let bounding = price.bounding();
        let by_effects = price.effects.as_ref();
        if by_effects.is_some_and(|by| by.sources.is_some()) {
            return Ok((self.unpivot(coordinates, price, &bounding)?, false));
        }
        if by_effects.is_some() {
            return Ok((self.cells(coordinates, price, &bounding)?, false));
        }
        let levels = self.levels(coordinates, price, &bounding);
        if self.analyzed.query().releases().len() <= PIVOTED_RELEASES
            && let Some(statement) = levels.with_groups_as_columns(|| self.flat())?
            // A value that is expensive for one row is not computed for each group.
            && self.row_cost(&statement).is_small()
        {
            return Ok((self.finish(statement), true));
        }
        let statement = self.unpivot(coordinates, price, &bounding)?;
        Ok((statement, false))
    }

    /// The statement of the vector, with a row for each group of a unit.
    pub fn unpivot(
        &mut self,
        coordinates: &[Coordinate],
        price: &Price,
        bounding: &Bounding,
    ) -> Result<ast::Query, Refusal> {
        let statement = self
            .levels(coordinates, price, bounding)
            .statement(self.flat()?)?;
        Ok(self.finish(statement))
    }

    /// The stream of the vector, with a row for each group of a unit.
    pub fn vector_stream(&self, coordinates: &[Coordinate], price: &Price) -> Option<RowStream> {
        if !self.policy.limits.stream_rows {
            return None;
        }
        let bounding = price.bounding();
        let levels = self.levels(coordinates, price, &bounding);
        self.row_stream(|| levels.stream(|| self.flat()))
    }

    /// The stream of a choice.
    pub fn choice_stream(
        &self,
        query: &ChoiceQuery,
        limit: (RowLimit, Option<&RowsLook>),
    ) -> Option<RowStream> {
        if !self.policy.limits.stream_rows {
            return None;
        }
        let columns = self.analyzed.columns();
        let rows = || base_rows(self.release, self.policy, columns, self.flat()?);
        self.row_stream(|| query.stream(limit, self.release, rows))
    }

    /// Its constants have the numbers that the aggregating statement gave them. A stream that
    /// cannot be emitted, or is too complex for the parser, is left out: the aggregating statement
    /// answers. One that reads as something else is found before it is paid for, and the question
    /// is refused, as for the aggregating statement: that is a bug in pgveil.
    fn row_stream(
        &self,
        emit: impl FnOnce() -> Result<Option<(ast::Query, Fold)>, Refusal>,
    ) -> Option<RowStream> {
        let emitted = self.analyzed.effort().apart(|| {
            let (mut query, fold) = emit().ok()??;
            self.keep_collations(&mut query);
            let mut order = self.order.clone();
            order.number(&mut query);
            let statement = self.print(&query).ok()?;
            Some((order, RowStream { statement, fold }))
        });
        let (order, stream) = emitted?;
        (order.ids == self.order.ids).then_some(stream)
    }

    /// The statement of the cells that grouping sets are computed from: groups of all keys.
    fn cells(
        &mut self,
        coordinates: &[Coordinate],
        price: &Price,
        bounding: &Bounding,
    ) -> Result<ast::Query, Refusal> {
        let by_all_keys = AnalyzedRelease {
            sets: Vec::new(),
            ..self.release.clone()
        };
        let levels = ClippedAggregate {
            release: &by_all_keys,
            ..self.levels(coordinates, price, bounding)
        };
        let statement = levels.statement(self.flat()?)?;
        Ok(self.finish(statement))
    }

    /// Derives collations, and numbers constants.
    fn finish(&mut self, mut statement: ast::Query) -> ast::Query {
        self.keep_collations(&mut statement);
        self.order.number(&mut statement);
        statement
    }

    pub fn print(&self, statement: &ast::Query) -> Result<EmittedStatement, Refusal> {
        let printed = EmittedStatement::print(statement)?;
        self.analyzed
            .effort()
            .emit(printed.sql().len() as u64 * BYTE_STEPS)
            .ok_or_else(too_complex)?;
        Ok(printed)
    }

    pub fn choice(
        &mut self,
        query: &ChoiceQuery,
        limit: (RowLimit, Option<&RowsLook>),
    ) -> Result<ast::Query, Refusal> {
        let base_rows = base_rows(
            self.release,
            self.policy,
            self.analyzed.columns(),
            self.flat()?,
        )?;
        let statement = query.statement(limit, self.release, base_rows)?;
        Ok(self.finish(statement))
    }

    /// Where texts have other collations than the database's, PostgreSQL derives each of them. The
    /// analysis proved that it can.
    fn keep_collations(&self, statement: &mut ast::Query) {
        if self.release.collations.is_some() {
            let ControlFlow::Continue(()) =
                crate::parse::with_room(|| visit::visit_mut(statement, &mut Derived));
        }
    }
}

/// Columns that keys, aggregates and the unit read, and what these relations read.
pub(in crate::rewrite) fn needed_columns(
    release: &AnalyzedRelease,
    relations: &[&Relation],
) -> Vec<ColumnId> {
    let mut needed = release.lineage.units.clone();
    let mut add = |e: &Expr| needed.extend(e.columns());
    release.keys.iter().for_each(|(e, _)| add(e));
    for aggregate in &release.aggregates {
        aggregate.filter.iter().for_each(&mut add);
        aggregate
            .operation
            .arguments()
            .into_iter()
            .for_each(&mut add);
    }
    for relation in relations {
        read_by(relation, &mut needed);
    }
    needed
}

fn read_by(relation: &Relation, needed: &mut Vec<ColumnId>) {
    relation
        .expressions()
        .into_iter()
        .for_each(|e| needed.extend(e.columns()));
    match relation {
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => needed.extend(keys),
        // Arms give their columns by position, so all are needed.
        Relation::Union { columns: _, arms } => arms.iter().for_each(|(_, ids)| needed.extend(ids)),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. } => {}
        Relation::Bounded {
            input: _,
            unit,
            rows: _,
        } => needed.push(*unit),
    }
    relation
        .expressions()
        .into_iter()
        .flat_map(Expr::own_relations)
        .for_each(|inner| read_by(inner, needed));
    relation
        .inputs()
        .into_iter()
        .for_each(|input| read_by(input, needed));
}
