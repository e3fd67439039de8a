//! The cut: a SELECT that aggregates private rows becomes a release below and a SELECT over
//! released rows above.

mod collected;
pub(in crate::resolve) mod count_groups;
pub(in crate::resolve) mod decorrelate;
mod dictionary;
pub(in crate::resolve) mod grouping;
pub(in crate::resolve) mod middle_query;
mod newton;
mod replace;
mod running_total;

use sqlparser::ast;

use super::Resolver;
use super::names::output_name::column_name;
use super::names::scope::Scope;
use super::private::expression_context::{ResolvedParts, SubqueryPlace};
use crate::ir::aggregate::Aggregate;
use crate::ir::relation::{Key, Release, ReleaseId, SET_COLUMN, release_alias};
use crate::ir::{GroupingSet, KeyId, SetId, Uncertainty};
use crate::refusal::{Refusal, TextPosition, reason};
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::collected::only_reports;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::group_expression;
use crate::resolve::syntax::{
    bare_name, check_select, contains_aggregate, empty_select, is_distinct_rows, is_ordinal,
    item_expr, map_order, name_of, place_of, plain_table, quote_name,
};
use collected::Reports;
use grouping::{Sets, number_sets, repeat_join, sets};
use middle_query::Subqueries;

/// Most keys and aggregates of one release.
const COLUMNS_MAX: usize = 100;

/// Where an expression of the outer query stands.
pub(in crate::resolve) enum OuterPlace<'c> {
    /// Over public and released tables only.
    Open,
    /// Over a release that is being cut: aggregates and keys become its columns.
    Cut(&'c mut Cut),
}

/// What a SELECT groups by.
pub(super) struct GroupKeys {
    pub keys: Vec<Key>,
    pub sets: Sets,
}

/// One release while its SELECT is rewritten.
pub(super) struct Cut {
    number: ReleaseId,
    scope: Scope,
    keys: Vec<Key>,
    sets: Vec<GroupingSet>,
    aggregates: Vec<Aggregate>,
    uncertainties: Vec<Uncertainty>,
    /// Subqueries below the cut.
    given: ResolvedParts,
    /// The releases of a logistic regression's steps before the last.
    steps: Vec<ReleaseId>,
    /// The uses of collected columns in the statement.
    reports: Reports,
    /// Whether HAVING leaves some of its groups out.
    has_having: bool,
}

impl Resolver<'_> {
    /// Cuts a SELECT with aggregates over private rows, and its ORDER BY.
    pub(super) fn cut_select(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(ast::Select, Option<ast::OrderBy>), Refusal> {
        check_select(select)?;
        // Scans are numbered within their release. So the same release has the same text in every
        // statement.
        let scans = std::mem::take(&mut self.output.scans);
        let select = &self.with_constants(select, environment, Subqueries::BelowAggregates)?;
        let (mut cut, written) = self.begin_cut(select, from, environment)?;
        let mut projection = Vec::new();
        for item in &select.projection {
            projection.push(self.cut_item(item, &mut cut, environment)?);
        }
        let having = select
            .having
            .as_ref()
            .map(|h| self.above(h, environment, &mut OuterPlace::Cut(&mut cut)))
            .transpose()?;
        let named_window = self.above_named_windows(
            &select.named_window,
            environment,
            &mut OuterPlace::Cut(&mut cut),
        )?;
        let order_by = order_by
            .map(|o| self.cut_order(o, select, &mut cut, environment))
            .transpose()?;
        let distinct = self.cut_distinct(select, &mut cut, environment)?;
        self.output.scans = scans;
        let from = vec![release_from(&cut, &written)];
        self.finish_cut(cut)?;
        let above = ast::Select {
            distinct,
            projection,
            from,
            selection: having,
            group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
            having: None,
            named_window,
            window_before_qualify: select.window_before_qualify,
            ..empty_select()
        };
        Ok((above, order_by))
    }

    /// The rows and keys of a release, and the grouping sets that are written more than once.
    fn begin_cut(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(Cut, Vec<SetId>), Refusal> {
        let (input, scope) = self.rows(select, from, environment)?;
        let (input, mut reports) = self.take_conditions(input);
        let mut given = ResolvedParts::default();
        self.subqueries_below(
            select,
            SubqueryPlace {
                scope: &scope,
                outer: &[],
                environment,
                is_extended: input.is_extended(),
            },
            &mut given,
        )?;
        let input = given.below(input);
        let steps = self.reserve_steps(select, &input)?;
        // The release takes its number here: after the releases of its middle queries, and before
        // those of scalar subqueries above the cut.
        let number = ReleaseId(self.output.releases.len());
        self.output.releases.push(Release {
            input,
            keys: Vec::new(),
            sets: Vec::new(),
            aggregates: Vec::new(),
            uncertainties: Vec::new(),
        });
        let GroupKeys { keys, sets } = self.keys(select, &scope, &given)?;
        let input = &self.output.releases[number.0].input;
        let keys = self.take_key(&mut reports, keys, (&sets, input))?;
        self.check_decoded(&reports, select)?;
        let cut = Cut {
            number,
            scope,
            keys,
            sets: sets.keys,
            aggregates: Vec::new(),
            uncertainties: Vec::new(),
            given,
            steps,
            reports,
            has_having: select.having.is_some(),
        };
        Ok((cut, sets.written))
    }

    /// Completes the release with everything that its SELECT needs.
    fn finish_cut(&mut self, mut cut: Cut) -> Result<(), Refusal> {
        self.fill_steps(&mut cut)?;
        cut.check_estimates(self)?;
        let Cut {
            number,
            scope: _,
            keys,
            sets,
            aggregates,
            uncertainties,
            given: _,
            steps: _,
            reports,
            has_having: _,
        } = cut;
        if keys.is_empty() && aggregates.is_empty() {
            return Err(Refusal::unsupported(
                reason::UNEXPECTED_FORM,
                "a query of private rows without an aggregate",
            ));
        }
        let release = &mut self.output.releases[number.0];
        if let Some(report) = reports.decoded_key() {
            release.input = only_reports(release.input.clone(), &report.expr);
        }
        release.keys = keys;
        release.sets = sets;
        release.aggregates = aggregates;
        release.uncertainties = uncertainties;
        Ok(())
    }

    /// DISTINCT above the cut. Where the SELECT list is the list of keys, its rows differ anyway.
    fn cut_distinct(
        &mut self,
        select: &ast::Select,
        cut: &mut Cut,
        environment: &Environment,
    ) -> Result<Option<ast::Distinct>, Refusal> {
        Ok(match &select.distinct {
            Some(ast::Distinct::Distinct) if is_distinct_rows(select) => None,
            Some(ast::Distinct::On(exprs)) => {
                let exprs = exprs
                    .iter()
                    .map(|e| self.cut_sorted(e, select, cut, environment))
                    .collect::<Result<_, _>>()?;
                Some(ast::Distinct::On(exprs))
            }
            other => other.clone(),
        })
    }

    fn cut_item(
        &mut self,
        item: &ast::SelectItem,
        cut: &mut Cut,
        environment: &Environment,
    ) -> Result<ast::SelectItem, Refusal> {
        let expr = item_expr(item).ok_or_else(|| {
            Refusal::private_rows("name the columns to group by").at(place_of(item))
        })?;
        let alias = match item {
            ast::SelectItem::ExprWithAlias { expr: _, alias } => quote_name(&name_of(alias)?),
            _ => quote_name(&column_name(expr)),
        };
        Ok(ast::SelectItem::ExprWithAlias {
            expr: self.above(expr, environment, &mut OuterPlace::Cut(cut))?,
            alias,
        })
    }

    /// The keys of GROUP BY (ordinals, output names and expressions) and the keys of each grouping
    /// set. For SELECT DISTINCT, the items are the keys.
    pub(super) fn keys(
        &self,
        select: &ast::Select,
        scope: &Scope,
        given: &ResolvedParts,
    ) -> Result<GroupKeys, Refusal> {
        let is_distinct = is_distinct_rows(select);
        let sets = if is_distinct {
            let shown =
                |item| item_expr(item).ok_or_else(|| Refusal::private_rows("").at(place_of(item)));
            vec![
                select
                    .projection
                    .iter()
                    .map(shown)
                    .collect::<Result<_, _>>()?,
            ]
        } else {
            sets(&select.group_by)
                .map_err(|refusal| refusal.within(|| self.names.group_by_place(select)))?
        };
        let mut keys: Vec<Key> = Vec::new();
        let mut numbers = Vec::new();
        for set in sets {
            let mut own = Vec::new();
            for expr in set {
                // An item of SELECT DISTINCT is neither an ordinal nor the name of another item.
                let expr = if is_distinct {
                    expr
                } else {
                    group_expression(expr, select, scope)
                        .map_err(|refusal| refusal.within(|| place_of(expr)))?
                };
                if contains_aggregate(expr) {
                    let refusal = Refusal::new(
                        reason::MISPLACED_AGGREGATE,
                        "aggregate functions are not allowed in GROUP BY",
                    );
                    return Err(refusal.at(place_of(expr)));
                }
                let value = self.expressions_given(scope, given).value(expr)?;
                own.push(KeyId(
                    keys.iter()
                        .position(|k| k.expr == value)
                        .unwrap_or_else(|| {
                            keys.push(Key {
                                expr: value,
                                text: expr.to_string(),
                                place: TextPosition(place_of(expr)),
                            });
                            keys.len() - 1
                        }),
                ));
            }
            numbers.push(own);
        }
        if let Some(key) = keys.get(COLUMNS_MAX) {
            return Err(Refusal::new(
                reason::TOO_MANY_PARTS,
                format!("a query may group by at most {COLUMNS_MAX} keys"),
            )
            .at(key.place.0));
        }
        Ok(GroupKeys {
            sets: number_sets(numbers, keys.len()),
            keys,
        })
    }

    /// ORDER BY: output names and ordinals stay, anything else is an expression over the release.
    fn cut_order(
        &mut self,
        order_by: &ast::OrderBy,
        select: &ast::Select,
        cut: &mut Cut,
        environment: &Environment,
    ) -> Result<ast::OrderBy, Refusal> {
        map_order(order_by, |expr| {
            self.cut_sorted(expr, select, cut, environment)
        })
    }

    /// An item of ORDER BY or DISTINCT ON.
    fn cut_sorted(
        &mut self,
        expr: &ast::Expr,
        select: &ast::Select,
        cut: &mut Cut,
        environment: &Environment,
    ) -> Result<ast::Expr, Refusal> {
        let outputs: Vec<String> = select
            .projection
            .iter()
            .map(output_name)
            .collect::<Result<_, _>>()?;
        if let Some(name) = bare_name(expr)
            && outputs.contains(&name)
        {
            return Ok(ast::Expr::Identifier(quote_name(&name)));
        }
        if is_ordinal(expr) {
            return Ok(expr.clone());
        }
        self.above(expr, environment, &mut OuterPlace::Cut(cut))
    }
}

fn output_name(item: &ast::SelectItem) -> Result<String, Refusal> {
    match item {
        ast::SelectItem::ExprWithAlias { expr: _, alias } => name_of(alias),
        item => Ok(item_expr(item).map(column_name).unwrap_or_default()),
    }
}

/// The release in FROM, joined with the numbers of grouping sets that are written more than once.
fn release_from(cut: &Cut, written: &[SetId]) -> ast::TableWithJoins {
    let mut joins = match written {
        [] => Vec::new(),
        written => vec![repeat_join(
            written,
            &format!("{}_sets", release_alias(cut.number)),
            (!cut.sets.is_empty()).then(|| cut.reference(SET_COLUMN.to_owned())),
        )],
    };
    joins.extend(cut.values_join());
    ast::TableWithJoins {
        relation: release_table(cut.number),
        joins,
    }
}

fn release_table(number: ReleaseId) -> ast::TableFactor {
    plain_table(
        ast::ObjectName(vec![ast::ObjectNamePart::Identifier(quote_name(
            &release_alias(number),
        ))]),
        None,
    )
}
