//! Stage 4: Analyzed → [`Plan`]: the SQL of each release, how each column may leave, and the price.

mod aim;
mod calendar;
mod cast;
mod constants;
mod curve;
mod describe;
mod expression;
mod grammar;
mod guard;
mod lattice;
mod levels;
mod operator;
mod part;
mod partials;
mod price;
mod reading;
mod relation;
pub mod sql;
mod step;
mod text;

use num_bigint::BigUint;
use sha2::{Digest, Sha256};
use sqlparser::ast;

pub use describe::{count_deviation, measure_deviation, values_deviation};
pub use lattice::{Lattice, Step};
pub use levels::key_text;
pub use part::Part;
pub use partials::{Count, Measure, Output, Partial};
pub use price::{Price, Terms};

use crate::analyze::{Analyzed, AnalyzedRelease, KeyRule, Lineage};
use crate::catalog::Type;
use crate::mechanism::Loss;
use crate::policy::{Policy, ViewKind};
use crate::refusal::{Refusal, sqlstate};
use crate::resolve::{ColumnId, ConstantId, Expr, Middle, Relation, TableId, Uncertainty};

/// What will be asked, how it is made private, and what it costs. Built here alone; running it needs a charge that covers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    outer: ast::Query,
    releases: Vec<ReleasePlan>,
    middles: Vec<Middle>,
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
    pub fn middles(&self) -> &[Middle] {
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
    sql: Option<String>,
    /// What the statement's parameters `$1`, `$2`, … are: a middle query and one of its columns, all its values as an array of texts.
    constants: Vec<(usize, usize)>,
    keys: Vec<(Type, KeyRule)>,
    coordinates: Vec<Partial>,
    /// Whether the statement's integers are on the refined lattices already.
    refined: bool,
    measures: Vec<Measure>,
    outputs: Vec<(Output, Type)>,
    uncertainties: Vec<Uncertainty>,
    price: Option<Price>,
    /// Digest of all that decides the released values but the noise and the constants' values.
    question: [u8; 32],
    /// Catalog digests the plan relied on: (oid, schema, name, fingerprint).
    relied_on: Vec<(u32, String, String, String)>,
    description: Vec<String>,
}

impl ReleasePlan {
    pub fn sql(&self) -> Option<&str> {
        self.sql.as_deref()
    }

    pub fn constants(&self) -> &[(usize, usize)] {
        &self.constants
    }

    pub fn keys(&self) -> &[(Type, KeyRule)] {
        &self.keys
    }

    pub fn coordinates(&self) -> &[Partial] {
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

    /// Two releases of one question differ in noise alone, where their constants are the same.
    pub fn question(&self) -> [u8; 32] {
        self.question
    }

    pub fn relied_on(&self) -> &[(u32, String, String, String)] {
        &self.relied_on
    }

    /// The labelled tree, sensitivity and noise, a line each: what EXPLAIN shows.
    pub fn description(&self) -> &[String] {
        &self.description
    }
}

/// Plans every release and prices them together.
///
/// # Errors
/// 0A000 for what cannot be made total or bounded, 22023 where no noise of supported size fits.
pub fn rewrite(analyzed: &Analyzed, policy: &Policy, terms: &Terms) -> Result<Plan, Refusal> {
    let asked = analyzed.releases().iter().filter(|r| !is_listed(r)).count().max(1);
    let mut releases = Vec::new();
    let mut loss = Loss::ZERO;
    let mut needs = aim::Needs::default();
    for (release, cut) in analyzed.releases().iter().zip(analyzed.query().releases()) {
        let mut plan = rewrite_release(release, analyzed, policy, terms, asked)?;
        if let Some(target) = terms.wishes.target_error
            && !plan.measures.is_empty()
        {
            let epsilon = needs.add(aim::factor(&plan, target)?, terms, asked, policy)?;
            plan = rewrite_release(release, analyzed, policy, &Terms { epsilon, ..terms.clone() }, 1)?;
        }
        plan.uncertainties.clone_from(&cut.uncertainties);
        if let Some(price) = &plan.price {
            loss =
                loss.compose(price.loss).ok_or_else(|| Refusal::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "the query costs more than can be counted"))?;
        }
        releases.push(plan);
    }
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

/// Nothing of the data is asked: only keys, all of listed domains.
fn is_listed(release: &AnalyzedRelease) -> bool {
    release.aggregates.is_empty() && release.keys.iter().all(|(_, rule)| matches!(rule, KeyRule::Domain(_)))
}

fn rewrite_release(release: &AnalyzedRelease, analyzed: &Analyzed, policy: &Policy, terms: &Terms, share: usize) -> Result<ReleasePlan, Refusal> {
    let keyed = release.keys.iter().any(|(_, rule)| *rule == KeyRule::Threshold);
    let partials = partials::Partials::new(release, analyzed.columns(), keyed)?;
    let relied_on = release.tables.iter().map(|id| &policy.tables[id.0]);
    let relied_on = relied_on.map(|t| (t.oid, t.schema.clone(), t.name.clone(), t.fingerprint.clone())).collect();
    let keys: Vec<(Type, KeyRule)> = release.keys.iter().map(|(e, rule)| (e.data_type.clone(), rule.clone())).collect();
    let outputs = partials.outputs.iter().copied().zip(release.aggregates.iter().map(|a| a.data_type.clone())).collect();
    let mut plan = ReleasePlan {
        sql: None,
        constants: Vec::new(),
        keys,
        coordinates: partials.coordinates,
        refined: !release.one_row_per_unit,
        measures: partials.measures,
        outputs,
        uncertainties: Vec::new(),
        price: None,
        question: [0; 32],
        relied_on,
        description: Vec::new(),
    };
    if !is_listed(release) {
        let price = price::price(release, &plan.coordinates, policy, terms, share)?;
        let (sql, constants) = emit(release, analyzed, policy, &plan.coordinates, &price, &price.bounding())?;
        plan.sql = Some(sql);
        plan.question = question(release, analyzed, policy, &plan, &price)?;
        plan.constants = constants.into_iter().map(|id| analyzed.query().constant(id)).collect();
        plan.price = Some(price);
    }
    plan.description = describe::describe(release, analyzed, policy, &plan);
    Ok(plan)
}

fn emit(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    policy: &Policy,
    coordinates: &[Partial],
    price: &Price,
    bounding: &price::Bounding,
) -> Result<(String, Vec<ConstantId>), Refusal> {
    let flat = relation::Relations { policy, columns: analyzed.columns(), needed: needed(release), derived: std::cell::Cell::new(0) }
        .emit(&release.input)?;
    let levels = levels::Levels {
        release,
        policy,
        columns: analyzed.columns(),
        coordinates,
        weights: &price.weights,
        clip: &bounding.clip,
        refine: &bounding.refine,
        mechanism: bounding.mechanism,
        groups_per_unit: price.groups_per_unit,
    };
    let mut statement = levels.statement(flat)?;
    let constants = constants::numbered(&mut statement);
    Ok((sql::print(&statement)?, constants))
}

/// Columns that keys, aggregates, conditions and the unit read.
fn needed(release: &AnalyzedRelease) -> Vec<ColumnId> {
    let mut needed = release.lineage.units.clone();
    let mut add = |e: &Expr| needed.extend(e.columns());
    release.keys.iter().for_each(|(e, _)| add(e));
    for aggregate in &release.aggregates {
        aggregate.filter.iter().for_each(&mut add);
        match &aggregate.operation {
            crate::analyze::BoundedOperation::CountRows | crate::analyze::BoundedOperation::CountUnits => {}
            crate::analyze::BoundedOperation::Count { argument, nullable: _ } => add(argument),
            crate::analyze::BoundedOperation::Sum { argument, range: _, nullable: _ } => add(argument),
            crate::analyze::BoundedOperation::Average { argument, range: _, nullable: _ } => add(argument),
        }
    }
    read_by(&release.input, &mut needed);
    needed
}

fn read_by(relation: &Relation, needed: &mut Vec<ColumnId>) {
    relation.expressions().into_iter().for_each(|e| needed.extend(e.columns()));
    match relation {
        Relation::Group { input: _, keys, aggregates: _ } => needed.extend(keys),
        // Arms give their columns by place: all are needed.
        Relation::Union { columns: _, arms } => arms.iter().for_each(|(_, ids)| needed.extend(ids)),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. } => {}
    }
    relation.expressions().into_iter().flat_map(|e| e.relations()).for_each(|inner| read_by(inner, needed));
    relation.inputs().into_iter().for_each(|input| read_by(input, needed));
}

fn fingerprint(outer: &ast::Query, releases: &[ReleasePlan], middles: &[Middle], policy: &Policy) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(policy.version.as_bytes());
    digest.update(outer.to_string().as_bytes());
    middles.iter().for_each(|middle| digest.update(format!("{} {:?}", middle.query, middle.rows).as_bytes()));
    for release in releases {
        digest.update([0]);
        digest.update(release.sql.as_deref().unwrap_or_default().as_bytes());
        digest.update(format!("{:?}{:?}{:?}", release.constants, release.keys, release.price).as_bytes());
    }
    digest.finalize().into()
}

/// What is asked, told by the statement as it would be without noise. Aliases, the outer query and other releases of the statement do not matter.
fn question(release: &AnalyzedRelease, analyzed: &Analyzed, policy: &Policy, plan: &ReleasePlan, price: &Price) -> Result<[u8; 32], Refusal> {
    let (sql, _) = emit(release, analyzed, policy, &plan.coordinates, price, &price.no_bounding())?;
    let mut digest = Sha256::new();
    digest.update(policy.version.as_bytes());
    digest.update(sql.as_bytes());
    let Lineage { rows_per_unit, .. } = &release.lineage;
    let bounded = (rows_per_unit, release.one_row_per_unit, release.one_row_per_group, price.groups_per_unit);
    digest.update(format!("{:?} {:?} {bounded:?}", plan.keys, plan.measures).as_bytes());
    Ok(digest.finalize().into())
}

/// Shown where a bound is printed.
pub(crate) fn decimal(value: &BigUint, unit: &BigUint) -> String {
    let thousandths: BigUint = value * 1000u32 / unit;
    let text = thousandths.to_string();
    let text = format!("{text:0>4}");
    let (whole, fraction) = text.split_at(text.len() - 3);
    format!("{whole}.{fraction}").trim_end_matches('0').trim_end_matches('.').to_owned()
}
