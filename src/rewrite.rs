//! Stage 4: Analyzed → [`Plan`]: the SQL of each release, how each column may leave, and the price.

mod choice;
mod describe;
pub mod emit;
pub(crate) mod limits;
mod marginal_counts;
mod monitored;
mod outermost;
mod per_unit;
pub mod periods;
pub(crate) mod plan;
mod price;
mod redundant_joins;
mod release_statements;
mod stream;
mod useless;
pub(crate) mod vector;
pub mod widen;

use num_bigint::BigUint;

use choice::RowLimit;
pub use choice::candidates::Candidates;
pub use choice::{
    ChoiceKind, ChoicePlan, ChoiceQuery, Degree, Halving, ROW_WEIGHT, RowsLook, Side, Subject,
    Target, ratio_of,
};
pub use describe::{choice_noise, chosen_noise, ranks_of, times_clip};
pub use emit::statement::{EmittedStatement, RowStream};
use limits::row_cost::RowCost;
pub use marginal_counts::MarginalCounts;
pub use monitored::MonitoredSum;
pub use plan::bins::ColumnBins;
pub use plan::by_periods::{PeriodBatch, TotalsBatch};
pub use plan::digest::{DebitDigest, PlanDigest, ReleaseDigest};
pub use plan::draws::{Debit, Draw};
pub use plan::facts::{CoordinateFacts, ReleaseFacts};
pub use plan::rollup::{
    Family, FamilyDigest, FilteredCoordinate, Grouping, OtherRows, Reading, Total,
};
pub use plan::sql_digest::{CoordinateDigest, SqlDigest};
pub use plan::unpaid::{ReadBackPart, UnpaidPart};
pub use plan::widened::Widened;
pub use plan::{Plan, ReleasePlan, TableVersion};
pub use price::target_error::{epsilon_for, needs_first_answer, of_row};
pub use price::whole_statement::{fits_one_query, most_of_one_query};
use price::{AskedRelease, whole_statement};
pub use price::{Block, BlockId, ByEffects, Look, Price, SEEN, Terms, TotalsDrawn};
use release_statements::Emission;
pub use stream::{Cell, CellReading, Column, Fold, FoldBlock, FoldResult, KeptGroups};
pub use useless::{UnitCount, Useless, best_error, thin_groups, useless};
pub use vector::base_rows::key_text;
pub use vector::bins::{BinNumber, Bins, CandidateId};
pub use vector::coordinate::{Coordinate, Count, Measure, PRESENCE};
pub use vector::coordinate_id::CoordinateId;
pub use vector::fixed_point::{FixedPoint, GridStep};
pub use vector::rotation::made_of;
pub use vector::standard_deviation::{
    drawn_for, measure_deviation, measure_noise, measure_terms, product_step,
};

use crate::analyze::Analyzed;
use crate::ir::ConstantId;
use crate::mechanism::Loss;
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};

/// The most bytes of all statements that one plan emits.
const PRINTED_BYTES_MAX: usize = 16 << 20;

fn fits(printed: usize) -> Result<(), Refusal> {
    if printed > PRINTED_BYTES_MAX {
        Err(emit::limits::too_complex())
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
    let asked = whole_statement::asked_releases(analyzed, policy, terms)?;
    let mechanism = whole_statement::mechanism(&asked, policy, terms)?;
    let mut releases = Vec::new();
    let mut loss = Loss::ZERO;
    let mut size = limits::answer_size::AnswerSize::default();
    let mut printed = 0;
    for (asked, cut) in asked.iter().zip(analyzed.query().releases()) {
        let mut plan = rewrite_release(asked, analyzed, policy, &asked.portion(terms, mechanism))?;
        printed += plan.printed_bytes();
        fits(printed)?;
        plan.uncertainties.clone_from(&cut.uncertainties);
        size.add(&plan, policy)?;
        loss = plan
            .loss()
            .and_then(|own| loss.compose(own))
            .ok_or_else(|| {
                Refusal::new(
                    reason::COST_TOO_LARGE,
                    "the query costs more than can be counted",
                )
            })?;
        releases.push(plan);
    }
    whole_statement::within_ceiling(&loss, policy, terms)?;
    limits::row_cost::check(
        releases
            .iter()
            .fold(RowCost::default(), |sum, release| sum + release.work),
        &policy.privacy.unit,
    )?;
    let outer = analyzed.query().outer().clone();
    let middles = analyzed.query().middles().to_vec();
    let digest = plan::digest::plan_digest(&outer, &releases, &middles, policy);
    Ok(Plan {
        outer,
        releases,
        middles,
        loss,
        public_tables: analyzed.query().public_tables().to_vec(),
        views: analyzed.query().views().to_vec(),
        digest,
        first_answer: None,
        widened: None,
        without_looks: None,
        by_periods: None,
        periods: None,
    })
}

/// Plans one release: the statement of its vector, those of its choices, their prices, and what
/// EXPLAIN says.
fn rewrite_release(
    asked: &AskedRelease<'_>,
    analyzed: &Analyzed,
    policy: &Policy,
    portion: &price::Portion<'_>,
) -> Result<ReleasePlan, Refusal> {
    let release = asked.release;
    let mut plan = unpriced_plan(asked, policy);
    let mut emission = Emission::new(release, analyzed, policy);
    // Without coordinates the statement asks nothing of the data: all keys have listed domains.
    let plain = if plan.coordinates.is_empty() {
        None
    } else {
        Some(add_vector(&mut plan, asked, portion, &mut emission)?)
    };
    for query in &asked.layout.questions {
        add_choice(&mut plan, query.clone(), portion, &mut emission)?;
    }
    if release.lineage.is_multiplied {
        plan.work = plan.work.multiply();
    }
    if !plan.statements().is_empty() {
        let digests = plan::digest::release_digest(&mut emission, &plan, plain.as_ref())?;
        (plan.question, plan.lasting) = digests;
        plan.family = plain
            .as_ref()
            .map(|(coordinates, _)| plan::rollup::family(&emission, &plan, coordinates, portion))
            .transpose()?
            .flatten();
    }
    let middle = |id: &ConstantId| analyzed.query().constant(*id).middle;
    plan.fan_outs = release
        .fan_outs
        .iter()
        .map(|public| {
            (
                public.tables.clone(),
                public.constants.iter().map(middle).collect(),
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
    let is_looked_at =
        whole_statement::is_looked_at_by_default(release, analyzed, policy, portion.terms);
    plan.facts = describe::facts(release, analyzed, policy, &plan, is_looked_at);
    plan.description = describe::describe(release, analyzed, policy, &plan);
    Ok(plan)
}

/// The plan of a release before its statements are emitted and priced.
fn unpriced_plan(asked: &AskedRelease<'_>, policy: &Policy) -> ReleasePlan {
    let release = asked.release;
    let relied_on = release
        .tables
        .iter()
        .map(|id| &policy.tables[id.0])
        .map(|table| TableVersion {
            oid: table.oid,
            schema: table.schema.clone(),
            name: table.name.clone(),
            fingerprint: table.fingerprint.clone(),
        });
    let keys = release
        .keys
        .iter()
        .map(|(key, rule)| (key.data_type.clone(), rule.clone()));
    let outputs = asked.layout.outputs.iter().cloned();
    let types = release.aggregates.iter().map(|a| a.data_type.clone());
    ReleasePlan {
        statement: None,
        constants: Vec::new(),
        searches: Vec::new(),
        keys: keys.collect(),
        tuples: release.tuples.clone(),
        sets: release.sets.clone(),
        coordinates: asked.layout.coordinates.clone(),
        refined: true,
        groups_are_columns: false,
        measures: asked.layout.measures.clone(),
        outputs: outputs.zip(types).collect(),
        uncertainties: Vec::new(),
        price: None,
        choices: Vec::new(),
        question: ReleaseDigest::default(),
        lasting: None,
        batch: None,
        family: None,
        relied_on: relied_on.collect(),
        description: Vec::new(),
        facts: ReleaseFacts::default(),
        collations: release.collations.clone().unwrap_or_default(),
        work: RowCost::default(),
        fan_outs: Vec::new(),
        no_row: release
            .no_row
            .as_ref()
            .map(|no_row| describe::no_row(no_row, policy)),
    }
}

/// Prices and emits the vector; returns the plain layout and its price.
fn add_vector(
    plan: &mut ReleasePlan,
    asked: &AskedRelease<'_>,
    portion: &price::Portion<'_>,
    emission: &mut Emission<'_>,
) -> Result<(Vec<Coordinate>, Price), Refusal> {
    let price::Vector {
        coordinates,
        price,
        plain,
    } = price::vector(
        asked.release,
        &asked.layout,
        &asked.stress,
        emission.policy,
        portion,
    )?;
    let plain_coordinates = std::mem::replace(&mut plan.coordinates, coordinates);
    let (statement, groups_are_columns) = emission.vector(&plan.coordinates, &price)?;
    plan.groups_are_columns = groups_are_columns;
    plan.work += emission.row_cost(&statement);
    let printed = emission.print(&statement)?;
    let stream = if groups_are_columns {
        None
    } else {
        emission.vector_stream(&plan.coordinates, &price)
    };
    plan.statement = Some(printed.or_streamed(stream));
    plan.refined = !price.within_clip;
    plan.price = Some(price);
    Ok((plain_coordinates, plain))
}

fn add_choice(
    plan: &mut ReleasePlan,
    query: ChoiceQuery,
    portion: &price::Portion<'_>,
    emission: &mut Emission<'_>,
) -> Result<(), Refusal> {
    let limit = RowLimit::of(emission.release, portion.terms.is_pure());
    let price::PricedChoice { kind, loss, look } =
        price::choice(&query, limit, emission.release, portion)?;
    let statement = emission.choice(&query, (limit, look.as_ref()))?;
    plan.work += emission.row_cost(&statement);
    let printed = emission.print(&statement)?;
    let stream = emission.choice_stream(&query, (limit, look.as_ref()));
    plan.choices.push(ChoicePlan {
        statement: printed.or_streamed(stream),
        question: query,
        kind,
        loss,
        look,
        lost_rows: 0.0,
    });
    fits(plan.printed_bytes())
}

/// A bound in this unit, as text with up to three decimals.
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
