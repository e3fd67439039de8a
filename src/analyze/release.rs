//! One release: labels, key rules, bounded aggregates, and the facts proved about its rows.

use super::cardinality::{Cardinalities, GroupedRows};
use super::exclusive_filters::exclusive_filters;
use super::implied_filters::{Filtered, with_implied_filters};
use super::interval::Interval;
use super::keys;
use super::label::Labels;
use super::range::Ranges;
use super::row_facts::{
    self, always_true, computed_columns, determined_by_unit, grouped_by_unit, null_extended,
    scanned_tables,
};
use super::{
    AnalyzedRelease, FanOut, KeyCombinations, KeyRule, Label, Lineage, PlanningEffort, UnitGroups,
    UnitTotals, aggregate_bounds, inline, only_scan, public_outer_join, unit_of,
};
use crate::aggregates::BoundedAggregate;
use crate::ir::{Aggregate, ColumnId, ColumnInfo, Expr, Relation, Release, Scan, ScanId};
use crate::policy::{Policy, SessionSettings};
use crate::refusal::{Refusal, reason};

/// Scans that key paths add are numbered from here, after those of the statement.
pub const HIDDEN_SCANS_FROM: ScanId = ScanId::new(1000);

/// Labels one release, rules its keys and bounds its aggregates.
pub(super) fn analyze_release(
    release: &Release,
    policy: &Policy,
    session_settings: &SessionSettings,
    columns: &mut Vec<ColumnInfo>,
    effort: &PlanningEffort,
) -> Result<AnalyzedRelease, Refusal> {
    let over_matches = public_outer_join::over_matches(release, policy)?;
    let keeps_public_rows = over_matches.is_some();
    let release = over_matches.as_ref().unwrap_or(release);
    let LabelledRows {
        input,
        mut lineage,
        opaque,
        fan_outs,
    } = label_rows(release, policy, columns, effort)?;
    let computed = computed_columns(&input);
    let null_extended = null_extended(&input, false);

    let conditions: Vec<Expr> = if keeps_public_rows {
        public_outer_join::conditions(&input)
    } else {
        always_true(&input)
    }
    .iter()
    .map(|c| keys::over_rows(c, &computed, &null_extended))
    .collect();
    let ruled = keys::Keys {
        choice: session_settings.keys,
        policy,
        columns,
        computed: &computed,
        null_extended: &null_extended,
        conditions: conditions.iter().flat_map(Expr::conjuncts).collect(),
        effort,
    };
    let (keys, tuples) = rule_keys(&ruled, release, &input, keeps_public_rows)?;
    let cardinalities = Cardinalities::new(policy, columns, &opaque, effort);
    let grouped_rows = GroupedRows::new(cardinalities, &input, &keys, &tuples);
    let rows_by_tables = lineage.rows_per_unit;
    // A bound on rows chooses the clip, so a narrower one is as sound.
    let asked = session_settings.rows_per_unit.map_or(u64::MAX, u64::from);
    lineage.rows_per_unit = lineage
        .rows_per_unit
        .min(grouped_rows.rows_per_unit())
        .min(asked);
    let facts = RowFacts {
        grouped_rows: &grouped_rows,
        release,
        input: &input,
        lineage: &lineage,
        ruled: &ruled,
        keys: &keys,
    };
    let aggregates = facts.bounded_aggregates(&opaque)?;
    let (cells, one_group_per_unit) = (facts.cells(), facts.has_one_group_per_unit());
    Ok(AnalyzedRelease {
        no_row: ruled.no_row(),
        by_period: None,
        one_row_by_keys: grouped_rows.is_one_row(),
        unit_groups: facts.unit_groups(),
        unit_totals: facts.unit_totals(),
        one_row_per_unit: facts.has_one_row_per_unit(),
        exclusive_filters: facts.exclusive_filters(&aggregates),
        tables: scanned_tables(&input),
        input,
        lineage,
        keys,
        tuples,
        sets: release.sets.clone(),
        key_texts: release.keys.iter().map(|k| k.text.clone()).collect(),
        aggregates,
        rows_by_tables,
        cells,
        one_group_per_unit,
        computed,
        collations: None,
        fan_outs,
    })
}

/// The rows of a release with their lineage.
struct LabelledRows {
    input: Relation,
    lineage: Lineage,
    opaque: Vec<(ColumnId, Interval)>,
    fan_outs: Vec<FanOut>,
}

fn label_rows(
    release: &Release,
    policy: &Policy,
    columns: &mut Vec<ColumnInfo>,
    effort: &PlanningEffort,
) -> Result<LabelledRows, Refusal> {
    let mut labels = Labels {
        policy,
        columns,
        scans: HIDDEN_SCANS_FROM,
        opaque: Vec::new(),
        fan_outs: Vec::new(),
        sunk: Vec::new(),
        is_crossed: false,
        effort,
    };
    let (input, label) = labels.label(release.input.clone(), &[])?;
    let Label::Private(lineage) = label else {
        return Err(Refusal::new(
            reason::INTERNAL_ERROR,
            "a release without a private table",
        ));
    };
    Ok(LabelledRows {
        input,
        lineage,
        opaque: labels.opaque,
        fan_outs: labels.fan_outs,
    })
}

/// Keys with their rules, and the combinations that they occur in.
type RuledKeys = (Vec<(Expr, KeyRule)>, Vec<KeyCombinations>);

/// The rule of each key, and which combinations of listed values occur.
fn rule_keys(
    ruled: &keys::Keys<'_>,
    release: &Release,
    input: &Relation,
    keeps_public_rows: bool,
) -> Result<RuledKeys, Refusal> {
    let mut keys = Vec::new();
    for key in &release.keys {
        let rule = ruled
            .rule(&key.expr)
            .map_err(|refusal| refusal.within(|| key.place.0))?;
        keys.push((key.expr.clone(), rule));
    }
    let tuples = ruled.tuples(&mut keys, input);
    if keeps_public_rows {
        public_outer_join::check_groups(ruled, &keys, input)
            .map_err(|refusal| refusal.within(|| public_outer_join::joined_place(input)))?;
    }
    ruled.effort.within()?;
    let grouped = keys::grouping_sets(&release.sets, keys.len());
    keys::cells(&grouped, &keys, &tuples, ruled.policy.limits.groups)?;
    Ok((keys, tuples))
}

/// The facts that the catalog and the keys prove about a release's rows.
struct RowFacts<'a> {
    release: &'a Release,
    input: &'a Relation,
    lineage: &'a Lineage,
    ruled: &'a keys::Keys<'a>,
    keys: &'a [(Expr, KeyRule)],
    grouped_rows: &'a GroupedRows<'a>,
}

impl RowFacts<'_> {
    fn unit_totals(&self) -> UnitTotals {
        let is_read_once = |column| self.grouped_rows.is_read_once(column);
        UnitTotals::new(self.input, self.ruled.policy, is_read_once)
    }

    fn exclusive_filters(&self, aggregates: &[BoundedAggregate]) -> Vec<Vec<Expr>> {
        let keys::Keys {
            policy,
            columns,
            computed,
            ..
        } = *self.ruled;
        let own = |a: &BoundedAggregate| a.operation.own_filters(&a.filter);
        let own: Vec<Expr> = aggregates.iter().flat_map(own).collect();
        let filters = aggregates.iter().filter_map(|a| a.filter.as_ref());
        exclusive_filters(filters.chain(&own), computed, policy, columns)
    }

    fn bounded_aggregates(
        &self,
        opaque: &[(ColumnId, Interval)],
    ) -> Result<Vec<BoundedAggregate>, Refusal> {
        let keys::Keys {
            policy,
            columns,
            computed,
            null_extended,
            ..
        } = *self.ruled;
        let always: Vec<Expr> = always_true(self.input)
            .iter()
            .map(|c| inline(c, computed))
            .collect();
        let bounded = |aggregate: &Aggregate| {
            let filter = aggregate.filter.as_ref().map(|f| inline(f, computed));
            let bounds = aggregate_bounds::AggregateBounds {
                ranges: Ranges {
                    policy,
                    columns,
                    computed,
                    opaque,
                    conditions: always
                        .iter()
                        .chain(&filter)
                        .flat_map(Expr::conjuncts)
                        .collect(),
                    excluded: Vec::new(),
                },
                nullability: super::nullability::Nullability {
                    columns,
                    computed,
                    null_extended,
                },
                lineage: self.lineage,
                grouped_rows: self.grouped_rows,
                ruled: self.ruled,
                keys: self.keys,
            };
            bounds
                .aggregate(aggregate)
                .map_err(|refusal| refusal.within(|| aggregate.place.0))
        };
        let narrower = |Filtered { aggregate, simpler }: &Filtered| {
            let own = bounded(aggregate)?;
            // A CASE may narrow the range of its value, as `WHEN y < 100 THEN y` does.
            let simpler = simpler.as_ref().and_then(|simpler| bounded(simpler).ok());
            let is_within = |simpler: &BoundedAggregate| {
                let (range, of_own) = (simpler.operation.range(), own.operation.range());
                range.is_none_or(|range| of_own.is_none_or(|own| range.within(own)))
            };
            Ok(simpler.filter(is_within).unwrap_or(own))
        };
        with_implied_filters(&self.release.aggregates, computed, policy, columns)
            .iter()
            .map(narrower)
            .collect()
    }

    /// Whether the unit is the primary key of the one table that is read, or the rows were grouped
    /// by it.
    fn has_one_row_per_unit(&self) -> bool {
        let is_key = |scan: &Scan| {
            unit_of(&self.ruled.policy.tables[scan.table.0])
                .is_some_and(|unit| unit.is_primary_key && unit.path.is_empty())
        };
        only_scan(self.input).is_some_and(is_key) || grouped_by_unit(self.input, self.lineage)
    }

    /// How one unit's rows are grouped by the keys of each grouping set.
    fn unit_groups(&self) -> Vec<UnitGroups> {
        let rows_per_unit = self.lineage.rows_per_unit;
        keys::grouping_sets(&self.release.sets, self.keys.len())
            .iter()
            .map(|set| self.grouped_rows.grouped_by(set))
            .map(|of_unit| UnitGroups {
                groups: of_unit.groups.min(rows_per_unit),
                rows: of_unit.rows.min(rows_per_unit),
                ..of_unit
            })
            .collect()
    }

    /// How many groups one unit's rows can be in; see [`AnalyzedRelease::cells`].
    fn cells(&self) -> Option<u64> {
        let keys::Keys {
            policy, columns, ..
        } = *self.ruled;
        if self.release.sets.is_empty() {
            row_facts::cells(self.input, self.lineage, policy, columns, self.keys)
        } else {
            None
        }
    }

    /// Whether every key is a function of the unit.
    fn has_one_group_per_unit(&self) -> bool {
        let keys::Keys {
            policy,
            computed,
            null_extended,
            ..
        } = *self.ruled;
        let is_fixed = |(key, _): &(Expr, KeyRule)| {
            let key = keys::over_rows(key, computed, null_extended);
            determined_by_unit(self.input, self.lineage, policy, &key)
        };
        self.release.sets.is_empty() && self.keys.iter().all(is_fixed)
    }
}
