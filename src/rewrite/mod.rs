//! Stage 4: Analyzed → [`Plan`]: the SQL of each release, how each column may leave, and the price.

mod choice;
mod describe;
pub mod emit;
pub(crate) mod limits;
mod per_unit;
pub(crate) mod plan;
mod price;
pub(crate) mod vector;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

use num_bigint::BigUint;
use sha2::{Digest, Sha256};
use sqlparser::ast;

pub use choice::candidates::Candidates;
pub use choice::{
    ChoiceKind, ChoicePlan, ChoiceQuery, Degree, Halving, Side, Subject, Target, ratio_of,
};
pub use describe::{CAUTION, Facts, Summed, part_noise};
pub use emit::statement::Statement;
use limits::row_cost::RowCost;
pub use plan::rollup::{Family, Grouping, Total};
pub use plan::unpaid::UnpaidPart;
pub use price::{Price, Terms};
pub use vector::base_rows::key_text;
pub use vector::coordinates::{Centred, Coordinate, Count, Measure, Output};
pub use vector::fixed_point::{FixedPoint, Step};
pub use vector::rotation::made_of;
pub use vector::standard_deviation::{
    measure_deviation, measure_noise, measure_terms, product_step,
};

use crate::analyze::{Analyzed, AnalyzedRelease, KeyCombinations, KeyRule, Lineage};
use crate::catalog::{Collation, Type};
use crate::ir::Uncertainty;
use crate::ir::{ColumnId, ConstantId, Expr, MiddleQuery, Relation, TableId};
use crate::mechanism::Loss;
use crate::policy::{Policy, ViewKind};
use crate::refusal::{Refusal, sqlstate};

/// What will be asked, how it is made private, and what it costs. Built here alone; running it
/// needs a charge that covers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    outer: ast::Query,
    releases: Vec<ReleasePlan>,
    middles: Vec<MiddleQuery>,
    loss: Loss,
    public_tables: Vec<TableId>,
    views: Vec<ViewKind>,
    fingerprint: [u8; 32],
}

impl Plan {
    /// The analyst's query over released rows.
    pub fn outer(&self) -> &ast::Query {
        &self.outer
    }

    pub fn releases(&self) -> &[ReleasePlan] {
        &self.releases
    }

    /// Queries over earlier releases, whose rows later ones read as constants.
    pub fn middles(&self) -> &[MiddleQuery] {
        &self.middles
    }

    /// The releases in an order in which each comes after those that its constants are made of.
    pub fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        for release in 0..self.releases.len() {
            self.place(release, &mut order);
        }
        order
    }

    fn place(&self, release: usize, order: &mut Vec<usize>) {
        if order.contains(&release) {
            return;
        }
        for (middle, _) in self.releases[release].constants() {
            for earlier in &self.middles[*middle].releases {
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

    /// Digest of what is asked and at what noise; a charge names it.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }
}

/// One release of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasePlan {
    /// `None` where nothing is asked of the data: the keys' domains alone are shown.
    statement: Option<Statement>,
    /// What the statements' parameters `$1`, `$2`, … are: a middle query and one of its columns,
    /// all its values as an array.
    constants: Vec<(usize, usize)>,
    /// How often each of them is searched as a list, for each row.
    searches: Vec<u64>,
    keys: Vec<(Type, KeyRule)>,
    tuples: Vec<KeyCombinations>,
    /// The keys of each grouping set; empty for a plain GROUP BY of all keys.
    sets: Vec<Vec<usize>>,
    coordinates: Vec<Coordinate>,
    /// Whether the statement's integers are on the refined lattices already.
    refined: bool,
    measures: Vec<Measure>,
    outputs: Vec<(Output, Type)>,
    uncertainties: Vec<Uncertainty>,
    price: Option<Price>,
    /// Statements beside the vector's.
    parts: Vec<ChoicePlan>,
    /// Digest of all that decides the released values but the vector's noise and the constants'
    /// values.
    question: [u8; 32],
    /// `None` where groups are nobody's sums.
    family: Option<Family>,
    /// Catalog digests the plan relied on: (oid, schema, name, fingerprint).
    relied_on: Vec<(u32, String, String, String)>,
    description: Vec<String>,
    facts: Facts,
    /// Columns above the cut that something may be ordered by, of another collation than the
    /// database's.
    collations: Vec<(String, Collation)>,
    /// How long its statements may take for one row, and for what joins make of one unit's.
    work: RowCost,
    /// Public rows that stand beside each private one: tables, and middle queries.
    beside: Vec<(Vec<TableId>, Vec<usize>)>,
}

impl ReleasePlan {
    pub fn sql(&self) -> Option<&str> {
        self.statement.as_ref().map(Statement::sql)
    }

    pub fn constants(&self) -> &[(usize, usize)] {
        &self.constants
    }

    /// Nanoseconds that its statements may take for one row, or for all those that joins make of
    /// one unit's, beside each public row.
    pub fn work(&self) -> u64 {
        self.work.beside()
    }

    /// Public rows that stand beside each private one, whatever it holds: those of tables, and of
    /// middle queries.
    pub fn beside(&self) -> &[(Vec<TableId>, Vec<usize>)] {
        &self.beside
    }

    /// How often each constant is searched as a list, for each row.
    pub fn searches(&self) -> &[u64] {
        &self.searches
    }

    pub fn keys(&self) -> &[(Type, KeyRule)] {
        &self.keys
    }

    /// Keys whose listed values occur in these combinations alone.
    pub fn tuples(&self) -> &[KeyCombinations] {
        &self.tuples
    }

    pub fn sets(&self) -> &[Vec<usize>] {
        &self.sets
    }

    /// Columns of each statement that name a group: the grouping set's number where there are
    /// several, and the keys.
    pub fn key_columns(&self) -> usize {
        self.keys.len() + usize::from(!self.sets.is_empty())
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

    pub fn outputs(&self) -> &[(Output, Type)] {
        &self.outputs
    }

    /// What is told of outputs' noise, each a column of its own.
    pub fn uncertainties(&self) -> &[Uncertainty] {
        &self.uncertainties
    }

    pub fn price(&self) -> Option<&Price> {
        self.price.as_ref()
    }

    pub fn parts(&self) -> &[ChoicePlan] {
        &self.parts
    }

    /// Every statement of the release: the vector's if there is one, then those of the parts.
    pub fn statements(&self) -> Vec<&Statement> {
        self.statement
            .iter()
            .chain(self.parts.iter().map(|part| &part.statement))
            .collect()
    }

    fn printed(&self) -> usize {
        self.statements()
            .into_iter()
            .map(|statement| statement.sql().len())
            .sum()
    }

    /// What all of it costs.
    pub fn loss(&self) -> Option<Loss> {
        let vector = self.price.as_ref().map_or(Loss::ZERO, |p| p.loss);
        self.parts
            .iter()
            .try_fold(vector, |sum, part| sum.compose(part.loss))
    }

    /// Measures, then the parts' columns.
    pub fn width(&self) -> usize {
        self.measures.len()
            + self
                .parts
                .iter()
                .map(|part| part.question.width())
                .sum::<usize>()
    }

    /// Two releases of one question differ in noise alone, where their constants are the same.
    pub fn question(&self) -> [u8; 32] {
        self.question
    }

    /// What it shares with questions that are answered by sums of its groups, or it by theirs.
    pub fn family(&self) -> Option<&Family> {
        self.family.as_ref()
    }

    pub fn relied_on(&self) -> &[(u32, String, String, String)] {
        &self.relied_on
    }

    /// The labelled tree, sensitivity and noise, a line each: what EXPLAIN shows.
    pub fn description(&self) -> &[String] {
        &self.description
    }

    /// The same as values.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub fn collations(&self) -> &[(String, Collation)] {
        &self.collations
    }
}

/// Steps of planning that a byte of an emitted statement stands for.
const BYTE_STEPS: u64 = 2;

/// Longest text of all the statements that one plan emits, in bytes.
const PRINTED_BYTES_MAX: usize = 16 << 20;

fn fits(printed: usize) -> Result<(), Refusal> {
    if printed > PRINTED_BYTES_MAX {
        Err(emit::expression::too_complex())
    } else {
        Ok(())
    }
}

/// Plans every release and prices them together.
///
/// # Errors
/// 0A000 for what cannot be made total or bounded, 22023 where no noise of supported size fits,
/// 54000 where the answer would be too large, 54001 where the statements would grow too large or
/// one row could keep them too long.
pub fn rewrite(analyzed: &Analyzed, policy: &Policy, terms: &Terms) -> Result<Plan, Refusal> {
    let asked = price::whole_statement::asked(analyzed, policy, terms)?;
    let mechanism = price::whole_statement::mechanism(&asked, policy, terms)?;
    let mut releases = Vec::new();
    let mut loss = Loss::ZERO;
    let mut size = limits::answer_size::Size::default();
    let mut printed = 0;
    for (asked, cut) in asked.iter().zip(analyzed.query().releases()) {
        let mut plan = rewrite_release(asked, analyzed, policy, &asked.portion(terms, mechanism))?;
        printed += plan.printed();
        fits(printed)?;
        plan.uncertainties.clone_from(&cut.uncertainties);
        size.add(&plan, policy)?;
        loss = plan
            .loss()
            .and_then(|own| loss.compose(own))
            .ok_or_else(|| {
                Refusal::new(
                    sqlstate::PROGRAM_LIMIT_EXCEEDED,
                    "the query costs more than can be counted",
                )
            })?;
        releases.push(plan);
    }
    price::whole_statement::within_ceiling(&loss, policy, terms)?;
    limits::row_cost::check(
        releases
            .iter()
            .fold(RowCost::default(), |sum, release| sum + release.work),
        &policy.privacy.unit,
    )?;
    let outer = analyzed.query().outer().clone();
    let middles = analyzed.query().middles().to_vec();
    let fingerprint = fingerprint(&outer, &releases, &middles, policy);
    Ok(Plan {
        outer,
        releases,
        middles,
        loss,
        public_tables: analyzed.query().public_tables().to_vec(),
        views: analyzed.query().views().to_vec(),
        fingerprint,
    })
}

fn rewrite_release(
    asked: &price::whole_statement::AskedRelease<'_>,
    analyzed: &Analyzed,
    policy: &Policy,
    portion: &price::Portion<'_>,
) -> Result<ReleasePlan, Refusal> {
    let release = asked.release;
    let vector::coordinates::Coordinates {
        coordinates,
        measures,
        outputs,
        questions,
    } = asked.layout.clone();
    let relied_on = release.tables.iter().map(|id| &policy.tables[id.0]);
    let relied_on = relied_on
        .map(|t| {
            (
                t.oid,
                t.schema.clone(),
                t.name.clone(),
                t.fingerprint.clone(),
            )
        })
        .collect();
    let keys: Vec<(Type, KeyRule)> = release
        .keys
        .iter()
        .map(|(e, rule)| (e.data_type.clone(), rule.clone()))
        .collect();
    let outputs = outputs
        .into_iter()
        .zip(release.aggregates.iter().map(|a| a.data_type.clone()))
        .collect();
    let mut plan = ReleasePlan {
        statement: None,
        constants: Vec::new(),
        searches: Vec::new(),
        keys,
        tuples: release.tuples.clone(),
        sets: release.sets.clone(),
        coordinates,
        refined: true,
        measures,
        outputs,
        uncertainties: Vec::new(),
        price: None,
        parts: Vec::new(),
        question: [0; 32],
        family: None,
        relied_on,
        description: Vec::new(),
        facts: Facts::default(),
        collations: release.collations.clone().unwrap_or_default(),
        work: RowCost::default(),
        beside: Vec::new(),
    };
    let mut emission = Emission {
        release,
        analyzed,
        policy,
        order: emit::constants::Order::default(),
        bounded: RefCell::default(),
    };
    let mut plain = None;
    // Without coordinates nothing is asked of the data here: only keys, all of listed domains.
    if !plan.coordinates.is_empty() {
        let price::Vector {
            coordinates,
            price,
            plain: unturned,
        } = price::vector(release, &asked.layout, &asked.stress, policy, portion)?;
        plain = Some((
            std::mem::replace(&mut plan.coordinates, coordinates),
            unturned,
        ));
        let statement = emission.vector(&plan.coordinates, &price, &price.bounding())?;
        plan.work += limits::row_cost::of(&statement, &emission.bounded.borrow());
        plan.statement = Some(emission.printed(&statement)?);
        plan.refined = !price.within_clip;
        plan.price = Some(price);
    }
    for question in questions {
        let (kind, loss) = price::part(&question, release, portion)?;
        let statement = emission.part(&question)?;
        plan.work += limits::row_cost::of(&statement, &emission.bounded.borrow());
        plan.parts.push(ChoicePlan {
            statement: emission.printed(&statement)?,
            question,
            kind,
            loss,
        });
        fits(plan.printed())?;
    }
    if release.lineage.is_multiplied {
        plan.work = plan.work.multiplied();
    }
    if !plan.statements().is_empty() {
        plan.question = question_of(&mut emission, &plan, plain.as_ref())?;
        plan.family = plain
            .as_ref()
            .map(|(coordinates, _)| plan::rollup::family(&emission, &plan, coordinates, portion))
            .transpose()?
            .flatten();
    }
    let middle = |id: &ConstantId| analyzed.query().constant(*id).0;
    plan.beside = release
        .beside
        .iter()
        .map(|beside| {
            (
                beside.tables.clone(),
                beside.constants.iter().map(middle).collect(),
            )
        })
        .collect();
    plan.searches = (0..emission.order.ids.len())
        .map(|at| emission.order.searches(at))
        .collect();
    plan.constants = emission
        .order
        .ids
        .into_iter()
        .map(|id| analyzed.query().constant(id))
        .collect();
    plan.description = describe::describe(release, analyzed, policy, &plan);
    plan.facts = describe::facts(release, analyzed, policy, &plan);
    Ok(plan)
}

/// The statements of one release. They share one numbering of the constants they read.
struct Emission<'a> {
    release: &'a AnalyzedRelease,
    analyzed: &'a Analyzed,
    policy: &'a Policy,
    order: emit::constants::Order,
    /// Derived tables that hold at most so many rows of a unit.
    bounded: RefCell<HashMap<String, u64>>,
}

impl Emission<'_> {
    fn flat(&self) -> Result<emit::relation::Flat, Refusal> {
        let (policy, columns) = (self.policy, self.analyzed.columns());
        let (derived, spent, bounded) = Default::default();
        let effort = self.analyzed.effort();
        let relations = emit::relation::Relations {
            policy,
            columns,
            needed: needed(self.release),
            derived,
            spent,
            bounded,
            effort,
        };
        let flat = relations.emit(&self.release.input)?;
        self.bounded.replace(relations.bounded.into_inner());
        Ok(flat)
    }

    fn vector(
        &mut self,
        coordinates: &[Coordinate],
        price: &Price,
        bounding: &price::Bounding,
    ) -> Result<ast::Query, Refusal> {
        let mut statement = self
            .levels(coordinates, price, bounding)
            .statement(self.flat()?)?;
        self.keep_collations(&mut statement);
        self.order.number(&mut statement);
        Ok(statement)
    }

    fn printed(&self, statement: &ast::Query) -> Result<Statement, Refusal> {
        let printed = Statement::print(statement)?;
        self.analyzed
            .effort()
            .emit(printed.sql().len() as u64 * BYTE_STEPS)
            .ok_or_else(emit::expression::too_complex)?;
        Ok(printed)
    }

    fn part(&mut self, question: &ChoiceQuery) -> Result<ast::Query, Refusal> {
        let ground = vector::base_rows::ground(
            self.release,
            self.policy,
            self.analyzed.columns(),
            self.flat()?,
        )?;
        let mut statement = question.statement(self.release, ground)?;
        self.keep_collations(&mut statement);
        self.order.number(&mut statement);
        Ok(statement)
    }

    /// Where texts have other collations than the database's, PostgreSQL derives each: it was
    /// proved that it can.
    fn keep_collations(&self, statement: &mut ast::Query) {
        if self.release.collations.is_some() {
            let ControlFlow::Continue(()) = crate::parse::with_room(|| {
                ast::VisitMut::visit(statement, &mut emit::text::Derived)
            });
        }
    }
}

/// Columns that keys, aggregates, conditions and the unit read.
fn needed(release: &AnalyzedRelease) -> Vec<ColumnId> {
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
    read_by(&release.input, &mut needed);
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
        // Arms give their columns by place: all are needed.
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

fn fingerprint(
    outer: &ast::Query,
    releases: &[ReleasePlan],
    middles: &[MiddleQuery],
    policy: &Policy,
) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(policy.version.as_bytes());
    digest.update(outer.to_string().as_bytes());
    middles
        .iter()
        .for_each(|middle| digest.update(format!("{} {:?}", middle.query, middle.rows).as_bytes()));
    for release in releases {
        digest.update([0]);
        release
            .statements()
            .iter()
            .for_each(|statement| digest.update(statement.sql().as_bytes()));
        release.parts.iter().for_each(|part| {
            digest.update(format!("{:?}{:?}", part.question, part.kind).as_bytes())
        });
        digest.update(
            format!(
                "{:?}{:?}{:?}{:?}{:?}",
                release.constants, release.keys, release.tuples, release.sets, release.price
            )
            .as_bytes(),
        );
    }
    digest.finalize().into()
}

/// What is asked, told by the statement of the `plain` coordinates as it would be without noise, by
/// how the noise is shared out, and by the parts as they are. Aliases, the outer query and other
/// releases of the statement do not matter.
fn question_of(
    emission: &mut Emission<'_>,
    plan: &ReleasePlan,
    plain: Option<&(Vec<Coordinate>, Price)>,
) -> Result<[u8; 32], Refusal> {
    let release = emission.release;
    let mut digest = Sha256::new();
    // Answers that were kept when their noise was told by the plan, not beside them, are none to
    // this.
    digest.update(b"layout 2");
    digest.update(emission.policy.version.as_bytes());
    let mut groups_per_unit = None;
    if let Some((coordinates, price)) = plain {
        let statement = emission.vector(coordinates, price, &price.no_bounding())?;
        // Never run, so that nobody need parse it again.
        digest.update(crate::parse::with_room(|| statement.to_string()).as_bytes());
        digest.update(format!("{:?}", price.weights).as_bytes());
        groups_per_unit = Some(price.groups_per_unit);
    }
    let Lineage { rows_per_unit, .. } = &release.lineage;
    let bounded = (
        rows_per_unit,
        release.one_row_per_unit,
        release.one_row_per_group,
        groups_per_unit,
    );
    digest.update(
        format!(
            "{:?} {:?} {:?} {:?} {bounded:?} {:?}",
            plan.keys, plan.tuples, plan.sets, plan.measures, plan.parts
        )
        .as_bytes(),
    );
    Ok(digest.finalize().into())
}

/// Shown where a bound is printed.
pub(crate) fn decimal(value: &BigUint, unit: &BigUint) -> String {
    let thousandths: BigUint = value * 1000u32 / unit;
    let text = thousandths.to_string();
    let text = format!("{text:0>4}");
    let (whole, fraction) = text.split_at(text.len() - 3);
    format!("{whole}.{fraction}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}
