//! Grouping within one unit. If each group of a GROUP BY or DISTINCT lies in one unit, the groups
//! are rows of that unit, not a release.

mod exact;
mod over_groups;

pub(in crate::resolve) use exact::exact;
use sqlparser::ast;

use super::expression_context::{
    ResolvedParts, SubqueryPlace, WhichSubqueries, computed_column, computing,
};
use crate::aggregates::within_unit;
use crate::ir::aggregate::Aggregate;
use crate::ir::expression::Expr;
use crate::ir::relation::{ColumnId, Relation};
use crate::ir::window::Window;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::cut::GroupKeys;
use crate::resolve::expression::ExpressionResolver;
use crate::resolve::expression::aggregate_call::aggregate;
use crate::resolve::names::scope::{Named, Scope};
use crate::resolve::syntax::{
    aggregate_name, is_distinct_rows, item_expr, name_of, names_of, place_of, record_called,
};
use crate::visit;

/// Columns with their definitions.
type Computed = Vec<(ColumnId, Expr)>;

/// A GROUP BY while its SELECT is resolved.
#[derive(Default)]
pub(in crate::resolve) struct PerUnitGrouping {
    keys: Vec<(Expr, ColumnId)>,
    pub(in crate::resolve) aggregates: Vec<(ColumnId, Aggregate)>,
    /// Columns of subqueries and windows. They are not columns of the grouped rows.
    pub(in crate::resolve) inner: Vec<ColumnId>,
}

impl Resolver<'_> {
    /// A SELECT over private rows: filtered rows, or one row for each group within a unit.
    pub(in crate::resolve) fn select_rows(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        relation: Relation,
        place: SubqueryPlace<'_>,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let is_distinct = is_distinct_rows(select);
        if is_distinct || !crate::resolve::syntax::is_aggregated(select) {
            let mut given = ResolvedParts::default();
            for expr in select.projection.iter().filter_map(item_expr) {
                self.subqueries_in(expr, place, WhichSubqueries::Columns, &mut given)?;
            }
            let windows = self.windows_in(select, from, place, &mut given)?;
            let relation = add_windows(given.below(relation), windows);
            let (items, named) = self.items(select, place.scope, &given, None)?;
            let relation = computing(relation, items);
            return Ok(if is_distinct {
                (distinct(relation, &named), named)
            } else {
                (relation, named)
            });
        }
        let (relation, named) = self.group_rows(select, from, relation, place, &[])?;
        match &select.distinct {
            None | Some(ast::Distinct::All) => Ok((relation, named)),
            Some(ast::Distinct::Distinct) => Ok((distinct(relation, &named), named)),
            Some(ast::Distinct::On(_)) => Err(Refusal::unsupported(
                reason::UNSUPPORTED_DISTINCT,
                "DISTINCT ON over grouped rows",
            )),
        }
    }

    /// One row for each group. The columns `tied` to a query around it are further keys after those
    /// of GROUP BY.
    pub(in crate::resolve) fn group_rows(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        relation: Relation,
        place: SubqueryPlace<'_>,
        tied: &[ColumnId],
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let scope = place.scope;
        let mut given = ResolvedParts::default();
        self.subqueries_below(select, place, &mut given)?;
        let mut computed = Computed::new();
        let mut grouping = PerUnitGrouping {
            keys: self.group_keys(select, scope, &given, tied, &mut computed)?,
            ..PerUnitGrouping::default()
        };
        let exprs: Vec<&ast::Expr> = select
            .projection
            .iter()
            .filter_map(item_expr)
            .chain(&select.having)
            .collect();
        let input = computing(given.below(relation), computed);
        for expr in &exprs {
            self.aggregates_in(expr, place, &mut grouping, &mut given)?;
        }
        // Subqueries outside the aggregates depend on the groups.
        for expr in &exprs {
            self.subqueries_in(expr, place, WhichSubqueries::OutsideAggregates, &mut given)?;
        }
        let having = select
            .having
            .as_ref()
            .map(|h| self.expressions_at(place, &given).condition(h, "HAVING"))
            .transpose()?;
        let having = having.map(|h| grouping.over_groups(h, self)).transpose()?;
        let mut windows = Vec::new();
        for (id, window) in self.windows_in(select, from, place, &mut given)? {
            windows.push((id, window.try_map(&mut |e| grouping.over_groups(e, self))?));
            grouping.inner.push(id);
        }
        let (items, named) = self.items(select, scope, &given, Some(&mut grouping))?;
        let mut given = grouping.regrouped_parts(given, self)?;
        let PerUnitGrouping {
            keys,
            aggregates,
            inner: _,
        } = grouping;
        let keys = keys.into_iter().map(|(_, id)| id).collect();
        let mut relation = given.below(Relation::Group {
            input: Box::new(input),
            keys,
            aggregates,
        });
        if let Some(predicate) = having {
            relation = Relation::Filter {
                input: Box::new(relation),
                predicate,
            };
        }
        Ok((computing(add_windows(relation, windows), items), named))
    }

    /// The keys of GROUP BY, then those of `tied` that are not among them. What must be computed
    /// for them goes to `computed`.
    fn group_keys(
        &mut self,
        select: &ast::Select,
        scope: &Scope,
        given: &ResolvedParts,
        tied: &[ColumnId],
        computed: &mut Computed,
    ) -> Result<Vec<(Expr, ColumnId)>, Refusal> {
        let GroupKeys { keys, sets, .. } = self.keys(select, scope, given)?;
        if !sets.keys.is_empty() || !sets.written.is_empty() {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_GROUPING,
                "GROUPING SETS, ROLLUP or CUBE within the rows of one unit",
            ));
        }
        let mut found = Vec::new();
        for key in keys {
            let id = match key.expr.as_column() {
                Some(id) => id,
                None => {
                    let id = self.output.new_column(computed_column(
                        &key.text,
                        &key.expr.data_type,
                        true,
                    ));
                    computed.push((id, key.expr.clone()));
                    id
                }
            };
            found.push((key.expr, id));
        }
        for id in tied {
            if found.iter().all(|(_, key)| key != id) {
                found.push((self.output.column_expr(*id), *id));
            }
        }
        Ok(found)
    }

    /// The columns to compute for the SELECT list, and its names.
    pub(in crate::resolve) fn items(
        &mut self,
        select: &ast::Select,
        scope: &Scope,
        given: &ResolvedParts,
        mut grouping: Option<&mut PerUnitGrouping>,
    ) -> Result<(Computed, Vec<Named>), Refusal> {
        let mut named: Vec<Named> = Vec::new();
        let mut computed = Computed::new();
        for item in &select.projection {
            let (values, name) = match item {
                ast::SelectItem::Wildcard(options)
                    if *options == ast::WildcardAdditionalOptions::default() =>
                {
                    (
                        scope
                            .visible()
                            .map(|c| (c.name.clone(), self.output.column_expr(c.id)))
                            .collect(),
                        None,
                    )
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if *options == ast::WildcardAdditionalOptions::default() => {
                    let alias = names_of(name)?.pop().unwrap_or_default();
                    let missing = || {
                        Refusal::new(
                            reason::UNKNOWN_TABLE,
                            format!("missing FROM-clause entry for table \"{alias}\""),
                        )
                    };
                    let item = scope.item(&alias).ok_or_else(missing)?;
                    let columns = item.columns.iter();
                    (
                        columns
                            .map(|c| (c.name.clone(), self.output.column_expr(c.id)))
                            .collect::<Vec<_>>(),
                        None,
                    )
                }
                item => {
                    let expr = item_expr(item).ok_or_else(|| {
                        Refusal::unsupported(reason::UNSUPPORTED_CLAUSE, "this kind of SELECT item")
                    })?;
                    let name = match item {
                        ast::SelectItem::ExprWithAlias { expr: _, alias } => name_of(alias)?,
                        _ => crate::resolve::names::output_name::column_name(expr),
                    };
                    let value = self.expressions_given(scope, given).value(expr)?;
                    (vec![(name.clone(), value)], Some(name))
                }
            };
            for (own, value) in values {
                let value = match grouping.as_deref_mut() {
                    Some(grouping) => grouping.over_groups(value, self)?,
                    None => value,
                };
                let id = value.as_column().unwrap_or_else(|| {
                    let id = self
                        .output
                        .new_column(computed_column(&own, &value.data_type, true));
                    computed.push((id, value));
                    id
                });
                named.push(Named {
                    name: name.clone().unwrap_or(own),
                    id,
                });
            }
        }
        Ok((computed, named))
    }

    pub(in crate::resolve) fn expressions_given<'s>(
        &'s self,
        scope: &'s Scope,
        given: &'s ResolvedParts,
    ) -> ExpressionResolver<'s> {
        ExpressionResolver {
            given: &given.resolved,
            ..self.expressions(scope)
        }
    }

    /// Resolves every aggregate call in `expr`, outside subqueries.
    pub(in crate::resolve) fn aggregates_in(
        &mut self,
        expr: &ast::Expr,
        place: SubqueryPlace<'_>,
        grouping: &mut PerUnitGrouping,
        given: &mut ResolvedParts,
    ) -> Result<(), Refusal> {
        struct Search<'v, 'r> {
            resolver: &'v mut Resolver<'r>,
            place: SubqueryPlace<'v>,
            grouping: &'v mut PerUnitGrouping,
            given: &'v mut ResolvedParts,
            depth: usize,
        }
        impl ast::Visitor for Search<'_, '_> {
            type Break = Refusal;
            fn pre_visit_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<Refusal> {
                self.depth += 1;
                std::ops::ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<Refusal> {
                self.depth -= 1;
                std::ops::ControlFlow::Continue(())
            }
            fn post_visit_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<Refusal> {
                if let ast::Expr::Function(function) = expr
                    && self.depth == 0
                    && aggregate_name(function).is_some()
                {
                    match self.resolver.aggregate_within(
                        function,
                        self.place,
                        self.grouping,
                        self.given,
                    ) {
                        Ok(value) => self.given.resolved.push((std::ptr::from_ref(expr), value)),
                        Err(refusal) => {
                            return std::ops::ControlFlow::Break(refusal.within(|| place_of(expr)));
                        }
                    }
                }
                std::ops::ControlFlow::Continue(())
            }
        }
        match visit::visit(
            expr,
            &mut Search {
                resolver: self,
                place,
                grouping,
                given,
                depth: 0,
            },
        ) {
            std::ops::ControlFlow::Continue(()) => Ok(()),
            std::ops::ControlFlow::Break(refusal) => Err(refusal),
        }
    }

    /// One aggregate over a group, as a column of the group's row.
    fn aggregate_within(
        &mut self,
        function: &ast::Function,
        place: SubqueryPlace<'_>,
        grouping: &mut PerUnitGrouping,
        given: &ResolvedParts,
    ) -> Result<Expr, Refusal> {
        let name = aggregate_name(function).unwrap_or_default();
        if let Some(record) = record_called(function) {
            return Err(within_unit(record));
        }
        let found = aggregate(function, &self.expressions_at(place, given))?;
        if !place.outer.is_empty() {
            let own: Vec<ColumnId> = place.scope.columns().map(|c| c.id).collect();
            if found
                .reads()
                .iter()
                .flat_map(|e| e.free_columns())
                .any(|id| !own.contains(&id))
            {
                return Err(Refusal::new(
                    reason::CORRELATED_SUBQUERY,
                    format!("{name}() in a subquery cannot take columns of the query around it"),
                )
                .detail("PostgreSQL would compute this aggregate over the rows of the outer query.")
                .hint("Aggregate columns of the subquery's own tables."));
            }
        }
        let result = found.data_type.clone();
        let exact = exact(found, &name)?;
        let id = match grouping.aggregates.iter().find(|(_, a)| *a == exact) {
            Some((id, _)) => *id,
            None => {
                let id = self.output.new_column(computed_column(
                    &name,
                    &exact.data_type,
                    !exact.operation.facts().is_count,
                ));
                grouping.aggregates.push((id, exact.clone()));
                id
            }
        };
        Ok(Expr::column(id, exact.data_type).cast(result))
    }
}

/// One relation for each partition and order. Later relations see the values that earlier ones
/// computed, so these distinguish rows that were equal before: no two orders break one tie in
/// different ways.
fn add_windows(relation: Relation, columns: Vec<(ColumnId, Window)>) -> Relation {
    let mut relation = relation;
    let mut rest = columns;
    while let Some((_, first)) = rest.first().cloned() {
        let (alike, others) = rest.into_iter().partition(|(_, window)| {
            window.partition == first.partition && window.order == first.order
        });
        relation = Relation::Window {
            input: Box::new(relation),
            columns: alike,
        };
        rest = others;
    }
    relation
}

/// Keeps each combination of the columns once.
pub(in crate::resolve) fn distinct(relation: Relation, named: &[Named]) -> Relation {
    let mut keys: Vec<ColumnId> = Vec::new();
    for column in named {
        if !keys.contains(&column.id) {
            keys.push(column.id);
        }
    }
    Relation::Group {
        input: Box::new(relation),
        keys,
        aggregates: Vec::new(),
    }
}
