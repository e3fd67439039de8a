//! A statement's plan: its releases, the part still to be paid for, and the data for roll-ups.

pub(in crate::rewrite) mod bins;
pub(in crate::rewrite) mod by_periods;
pub(in crate::rewrite) mod digest;
pub(in crate::rewrite) mod draws;
pub(in crate::rewrite) mod facts;
pub(in crate::rewrite) mod rollup;
pub(in crate::rewrite) mod sql_digest;
#[cfg(test)]
mod testing;
pub(in crate::rewrite) mod unpaid;
pub(in crate::rewrite) mod widened;

use std::sync::Arc;

use sqlparser::ast;
use widened::Widened;

use self::by_periods::PeriodBatch;
use self::digest::{PlanDigest, ReleaseDigest};
use super::limits::row_cost::RowCost;
use super::periods::AskedPeriods;
use super::{ChoicePlan, Coordinate, EmittedStatement, Family, Look, Measure, Price, ReleaseFacts};
use crate::aggregates::{ChoiceId, DictionaryOutput, MeasureId, Model, Output, ReleasedColumn};
use crate::analyze::{KeyCombinations, KeyRule, MetTable, grouping_sets, listed_groups};
use crate::catalog::{Collation, TableFingerprint, Type};
use crate::ir::{
    AggregateId, GroupingSet, MiddleColumn, MiddleId, MiddleQuery, ReleaseId, TableId, Uncertainty,
};
use crate::mechanism::{Calibrated, Loss};
use crate::policy::ViewKind;

/// The statements to run, the mechanisms that make the results private, and the cost. Built here
/// alone; running it needs a charge that covers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(in crate::rewrite) outer: ast::Query,
    pub(in crate::rewrite) releases: Vec<ReleasePlan>,
    pub(in crate::rewrite) middles: Vec<MiddleQuery>,
    pub(in crate::rewrite) loss: Loss,
    pub(in crate::rewrite) public_tables: Vec<TableId>,
    pub(in crate::rewrite) views: Vec<ViewKind>,
    pub(in crate::rewrite) digest: PlanDigest,
    pub(in crate::rewrite) first_answer: Option<f64>,
    /// The wider plan to buy instead, where it answers more at the same price.
    pub(in crate::rewrite) widened: Option<Arc<Widened>>,
    /// The plan with clips by declared bounds alone, where a summary of the policy may answer it.
    pub(in crate::rewrite) without_looks: Option<Arc<Plan>>,
    /// The plan by periods, where its question is one by periods.
    pub(in crate::rewrite) by_periods: Option<Arc<Plan>>,
    /// The periods that the question asks for, where it is answered by periods.
    pub(in crate::rewrite) periods: Option<Arc<AskedPeriods>>,
}

impl Plan {
    /// The plan as a first answer, for this epsilon.
    pub fn into_first_answer(self, epsilon: f64) -> Self {
        Self {
            first_answer: Some(epsilon),
            ..self
        }
    }

    /// The plan with the wider one that is bought instead, if there is one.
    pub fn widened_to(self, widened: Option<Widened>) -> Self {
        Self {
            widened: widened.map(Arc::new),
            ..self
        }
    }

    /// The plan with its form with clips by declared bounds alone, if there is one.
    pub fn or_without_looks(self, form: Option<Self>) -> Self {
        Self {
            without_looks: form.map(Arc::new),
            ..self
        }
    }

    /// The plan with clips by declared bounds alone, where a summary of the policy may answer it.
    pub fn without_looks(&self) -> Option<&Arc<Self>> {
        self.without_looks.as_ref()
    }

    /// The wider plan to buy instead, where it answers more at the same price.
    pub fn bought_instead(&self) -> Option<&Widened> {
        self.widened.as_deref()
    }

    /// The epsilon of a first answer: its errors show what a target error needs.
    pub fn first_answer(&self) -> Option<f64> {
        self.first_answer
    }

    /// The analyst's query over released rows.
    pub fn outer(&self) -> &ast::Query {
        &self.outer
    }

    pub fn releases(&self) -> &[ReleasePlan] {
        &self.releases
    }

    pub fn release(&self, id: ReleaseId) -> &ReleasePlan {
        &self.releases[id.0]
    }

    pub fn middle(&self, id: MiddleId) -> &MiddleQuery {
        &self.middles[id.0]
    }

    /// Queries over earlier releases, whose rows later ones read as constants.
    pub fn middles(&self) -> &[MiddleQuery] {
        &self.middles
    }

    /// The releases in an order in which each follows those that its constants come from.
    pub fn order(&self) -> Vec<ReleaseId> {
        let mut order = Vec::new();
        for release in 0..self.releases.len() {
            self.place(ReleaseId(release), &mut order);
        }
        order
    }

    fn place(&self, release: ReleaseId, order: &mut Vec<ReleaseId>) {
        if order.contains(&release) {
            return;
        }
        for MiddleColumn { middle, .. } in self.release(release).constants() {
            for earlier in &self.middle(*middle).releases {
                self.place(*earlier, order);
            }
        }
        order.push(release);
    }

    /// The price of everything in it, in one debit.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    pub fn public_tables(&self) -> &[TableId] {
        &self.public_tables
    }

    /// Views of pgveil's own that the outer query reads.
    pub fn views(&self) -> &[ViewKind] {
        &self.views
    }

    /// Digest of the question and its noise.
    pub fn digest(&self) -> PlanDigest {
        self.digest
    }
}

/// A table as its definition was when the plan was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableVersion {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// Digest of the catalog's entries for it.
    pub fingerprint: TableFingerprint,
}

/// One release of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasePlan {
    /// The statement of the vector; `None` where the data is not asked and only the keys' domains
    /// are shown.
    pub(in crate::rewrite) statement: Option<EmittedStatement>,
    /// The meaning of the statements' parameters `$1`, `$2`, …: each is a column of a middle query,
    /// whose values are bound as one array.
    pub(in crate::rewrite) constants: Vec<MiddleColumn>,
    /// How often each constant is searched as a list, for each row.
    pub(in crate::rewrite) searches: Vec<u64>,
    pub(in crate::rewrite) keys: Vec<(Type, KeyRule)>,
    pub(in crate::rewrite) tuples: Vec<KeyCombinations>,
    /// The keys of each grouping set; empty for a plain GROUP BY of all keys.
    pub(in crate::rewrite) sets: Vec<GroupingSet>,
    pub(in crate::rewrite) coordinates: Vec<Coordinate>,
    /// Whether the statement's integers are on the refined grids already.
    pub(in crate::rewrite) refined: bool,
    /// Whether the statement has one row a unit, in which each listed group has columns.
    pub(in crate::rewrite) groups_are_columns: bool,
    pub(in crate::rewrite) measures: Vec<Measure>,
    pub(in crate::rewrite) outputs: Vec<(Output, Type)>,
    pub(in crate::rewrite) uncertainties: Vec<Uncertainty>,
    pub(in crate::rewrite) price: Option<Price>,
    /// The choices, which have their own statements and noise, outside the vector.
    pub(in crate::rewrite) choices: Vec<ChoicePlan>,
    /// Digest of all that decides the released values, except the vector's noise and the values of
    /// the constants.
    pub(in crate::rewrite) question: ReleaseDigest,
    /// The digest of the question whatever the version of the data; `None` where it reads no table
    /// with periods.
    pub(in crate::rewrite) lasting: Option<ReleaseDigest>,
    /// The periods that the release answers, if it buys periods.
    pub(in crate::rewrite) batch: Option<PeriodBatch>,
    /// `None` where no roll-up is possible.
    pub(in crate::rewrite) family: Option<Family>,
    /// The tables whose definitions the plan relied on.
    pub(in crate::rewrite) relied_on: Vec<TableVersion>,
    pub(in crate::rewrite) description: Vec<String>,
    pub(in crate::rewrite) facts: ReleaseFacts,
    /// Columns that the outer query may order by and whose collation is not the database's.
    pub(in crate::rewrite) collations: Vec<(String, Collation)>,
    /// Why no row can be in the release, in words; then it has no statement.
    pub(in crate::rewrite) no_row: Option<String>,
    /// How long its statements may take for one row, and for all rows that joins make from one
    /// unit's rows.
    pub(in crate::rewrite) work: RowCost,
    /// Public rows that each private row is paired with: tables, and middle queries.
    pub(in crate::rewrite) fan_outs: Vec<(Vec<MetTable>, Vec<MiddleId>)>,
}

impl ReleasePlan {
    pub fn sql(&self) -> Option<&str> {
        self.statement.as_ref().map(EmittedStatement::sql)
    }

    pub fn constants(&self) -> &[MiddleColumn] {
        &self.constants
    }

    /// Nanoseconds that its statements may take for each pair of a private row and a public one.
    pub fn work(&self) -> u64 {
        self.work.pair
    }

    /// Public rows that each private row is paired with: those of tables, and of middle queries.
    pub fn fan_outs(&self) -> &[(Vec<MetTable>, Vec<MiddleId>)] {
        &self.fan_outs
    }

    /// How often each constant is searched as a list, for each row.
    pub fn searches(&self) -> &[u64] {
        &self.searches
    }

    pub fn keys(&self) -> &[(Type, KeyRule)] {
        &self.keys
    }

    /// Keys whose listed values occur in these combinations only.
    pub fn tuples(&self) -> &[KeyCombinations] {
        &self.tuples
    }

    pub fn sets(&self) -> &[GroupingSet] {
        &self.sets
    }

    /// Number of groups in the full domains of all grouping sets. A key without a domain counts as
    /// one value.
    pub fn listed_groups(&self) -> u64 {
        let sets = grouping_sets(&self.sets, self.keys.len());
        listed_groups(&sets, |key| &self.keys[key.0].1, &self.tuples)
    }

    /// Whether the values of every key are known without the data.
    pub fn has_listed_keys(&self) -> bool {
        let mut rules = self.keys.iter().map(|(_, rule)| rule);
        rules.all(|rule| matches!(rule, KeyRule::Domain(_)))
    }

    /// How many columns of each statement name a group: the keys, and the grouping set's number
    /// where there are several.
    pub fn key_columns(&self) -> usize {
        self.keys.len() + usize::from(!self.sets.is_empty())
    }

    /// How many columns name a row of the vector's statement: those of a group, or the keys of a
    /// cell where grouping sets are computed from effects.
    pub fn vector_keys(&self) -> usize {
        let by_effects = self.price().and_then(|price| price.effects.as_ref());
        if by_effects.is_some_and(|by| by.sources.is_none()) {
            self.keys.len()
        } else {
            self.key_columns()
        }
    }

    pub fn coordinates(&self) -> &[Coordinate] {
        &self.coordinates
    }

    pub fn is_refined(&self) -> bool {
        self.refined
    }

    pub fn measures(&self) -> &[Measure] {
        &self.measures
    }

    pub fn measure(&self, MeasureId(at): MeasureId) -> &Measure {
        &self.measures[at]
    }

    /// The models of its records, each once, with the first aggregate that shows it.
    pub fn models(&self) -> impl Iterator<Item = (&Model, &Output)> {
        let outputs = self.outputs().iter().enumerate();
        outputs.filter_map(|(at, (output, _))| {
            let (model, _) = output.model_field()?;
            let mut before = self.outputs()[..at].iter();
            let is_it =
                |(other, _): &(Output, _)| other.model_field().is_some_and(|(of, _)| of == model);
            (!before.any(is_it)).then_some((model, output))
        })
    }

    /// The list of values that all groups together are decoded to, if they are.
    pub fn dictionary(&self) -> Option<&DictionaryOutput> {
        let mut outputs = self.outputs().iter();
        outputs.find_map(|(output, _)| output.as_dictionary())
    }

    pub fn outputs(&self) -> &[(Output, Type)] {
        &self.outputs
    }

    /// The output of one aggregate, and its type.
    pub fn output(&self, AggregateId(at): AggregateId) -> Option<&(Output, Type)> {
        self.outputs.get(at)
    }

    /// The reports on the outputs' noise, each in its own column.
    pub fn uncertainties(&self) -> &[Uncertainty] {
        &self.uncertainties
    }

    pub fn price(&self) -> Option<&Price> {
        self.price.as_ref()
    }

    /// How its clips are chosen, where they are.
    pub fn look(&self) -> Option<&Look> {
        self.price.as_ref()?.look.as_ref()
    }

    /// The release with another noise, to read what was drawn with it; without statements.
    pub fn with_noise(&self, calibrated: Vec<Calibrated>) -> Self {
        Self {
            statement: None,
            price: self
                .price
                .as_ref()
                .map(|price| price.with_noise(calibrated)),
            ..self.clone()
        }
    }

    pub fn choices(&self) -> &[ChoicePlan] {
        &self.choices
    }

    pub fn choice(&self, ChoiceId(at): ChoiceId) -> &ChoicePlan {
        &self.choices[at]
    }

    pub(in crate::rewrite) fn printed_bytes(&self) -> usize {
        self.statements()
            .into_iter()
            .map(EmittedStatement::printed_bytes)
            .sum()
    }

    /// The first of a choice's columns, which follow the measures and those of earlier choices.
    pub fn first_column(&self, ChoiceId(at): ChoiceId) -> ReleasedColumn {
        let earlier = self.choices[..at]
            .iter()
            .map(|choice| choice.question.width());
        ReleasedColumn(self.measures.len() + earlier.sum::<usize>())
    }

    /// How many columns a group has: the measures, then those of the choices.
    pub fn width(&self) -> usize {
        let choices = self.choices.iter().map(|choice| choice.question.width());
        self.measures.len() + choices.sum::<usize>()
    }

    /// Two releases with one question and the same constants differ in noise alone.
    pub fn question(&self) -> ReleaseDigest {
        self.question
    }

    /// The digest of the question whatever the version of the data; `None` where it reads no table
    /// with periods.
    pub fn lasting(&self) -> Option<ReleaseDigest> {
        self.lasting
    }

    /// The periods that the release answers, if it buys periods.
    pub fn batch(&self) -> Option<&PeriodBatch> {
        self.batch.as_ref()
    }

    /// The family that the release shares with its roll-ups, and with the releases that it rolls
    /// up.
    pub fn family(&self) -> Option<&Family> {
        self.family.as_ref()
    }

    pub fn relied_on(&self) -> &[TableVersion] {
        &self.relied_on
    }

    /// The labelled tree, sensitivity and noise, a line each: what EXPLAIN shows.
    pub fn description(&self) -> &[String] {
        &self.description
    }

    /// The description as values.
    pub fn facts(&self) -> &ReleaseFacts {
        &self.facts
    }

    /// Why no row can be in it, in words.
    pub fn no_row(&self) -> Option<&str> {
        self.no_row.as_deref()
    }

    pub fn collations(&self) -> &[(String, Collation)] {
        &self.collations
    }
}
