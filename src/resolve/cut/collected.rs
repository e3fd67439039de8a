//! Estimates from reports in place of counts, sums and averages of a collected column.
//!
//! `WHERE` and `FILTER` on such a column become part of the estimate. Groups by it become one
//! estimate a value: the release has no such key, and the rows above it are one for each value.

use sqlparser::ast;

use super::Cut;
use super::grouping::Sets;
use crate::aggregates::count_from_reports;
use crate::ir::aggregate::Aggregate;
use crate::ir::relation::{Key, Relation, aggregate_column, key_column, release_alias};
use crate::ir::{AggregateId, ColumnId, Expr, KeyId, Uncertainty, sql};
use crate::policy::Collected;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::collected::MatchingReports;
use crate::resolve::syntax::{query_of, quote_name};

/// Most values of a collected column in GROUP BY: each is an aggregate of the release.
const VALUES_MAX: usize = 64;
/// The columns of the values' rows: their number, and the value.
const NUMBER: &str = "n";
const VALUE: &str = "v";

/// What one SELECT reads of collected columns outside its aggregates.
#[derive(Default)]
pub(super) struct Reports {
    /// The conditions of WHERE.
    conditions: Vec<Expr>,
    key: Option<ReportKey>,
}

/// A collected column in GROUP BY.
struct ReportKey {
    key: Key,
    how: Collected,
    /// Places of the values that have a group.
    places: Vec<usize>,
}

impl Reports {
    /// Whether some use needs an estimate.
    pub(super) fn is_read(&self) -> bool {
        self.key.is_some() || !self.conditions.is_empty()
    }

    pub(super) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// Whether the values of the key are decoded from all groups of the release.
    pub(super) fn is_decoded(&self) -> bool {
        self.decoded_key().is_some()
    }

    /// The key whose values are decoded from all groups of the release.
    pub(super) fn decoded_key(&self) -> Option<&Key> {
        let key = self.key.as_ref();
        let decoded = key.filter(|own| own.how.dictionary.is_some());
        decoded.map(|own| &own.key)
    }

    pub(super) fn is_key(&self, value: &Expr) -> bool {
        self.key.as_ref().is_some_and(|own| own.key.expr == *value)
    }
}

impl Resolver<'_> {
    /// Takes the conditions on reports out of WHERE, and out of those of derived tables below it.
    pub(super) fn take_conditions(&self, input: Relation) -> (Relation, Reports) {
        let Relation::Filter { input, predicate } = input else {
            return (input, Reports::default());
        };
        let (relation, mut reports) = self.take_conditions(*input);
        let (conditions, others) = self.split_collected(&predicate);
        reports.conditions.extend(conditions);
        let relation = match others {
            Some(predicate) => Relation::Filter {
                input: Box::new(relation),
                predicate,
            },
            None => relation,
        };
        (relation, reports)
    }

    /// Takes a collected column out of GROUP BY.
    ///
    /// # Errors
    /// 0A000 for two such columns, for grouping sets, and for a column of numbers; 54000 for too
    /// many values.
    pub(super) fn take_key(
        &self,
        reports: &mut Reports,
        keys: Vec<Key>,
        (sets, input): (&Sets, &Relation),
    ) -> Result<Vec<Key>, Refusal> {
        let of_key = |key: &Key| {
            let id = key.expr.as_column()?;
            Some((id, self.reports_of(id)?))
        };
        let (own, others): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| of_key(key).is_some());
        let mut own = own.into_iter();
        let Some(key) = own.next() else {
            return Ok(others);
        };
        let place = key.place.0;
        let Some((id, how)) = of_key(&key) else {
            return Ok(others);
        };
        let refused = |what| self.refuse_reports(id, what).within(|| place);
        if own.next().is_some() {
            return Err(refused("GROUP BY together with another collected column"));
        }
        if !sets.keys.is_empty() || !sets.written.is_empty() {
            return Err(refused("GROUPING SETS, ROLLUP or CUBE"));
        }
        if how.one_bit.is_some() {
            return Err(refused("GROUP BY"));
        }
        let places = match self.matching_reports(&reports.conditions)? {
            None => (0..how.reports.len()).collect(),
            Some(matching) if matching.report == id => matching.places,
            Some(_) => {
                return Err(refused(
                    "GROUP BY together with a condition on another collected column",
                ));
            }
        };
        let (others, places) = match &how.dictionary {
            Some(dictionary) => (
                vec![self.cohort_key(dictionary, (id, &key), &others, input)?],
                vec![0],
            ),
            None => (others, places),
        };
        if places.len() > VALUES_MAX {
            return Err(Refusal::new(
                reason::TOO_MANY_PARTS,
                format!("a query may group by at most {VALUES_MAX} values of a collected column"),
            )
            .hint("Name the values that you need in WHERE.")
            .at(place));
        }
        reports.key = Some(ReportKey {
            how: how.clone(),
            key,
            places,
        });
        Ok(others)
    }

    /// An aggregate as it reads reports; `None` where it reads none.
    ///
    /// # Errors
    /// 0A000 for aggregates that cannot be estimated.
    fn of_reports(
        &self,
        reports: &Reports,
        found: &Aggregate,
    ) -> Result<Option<Vec<Aggregate>>, Refusal> {
        let split = found
            .filter
            .as_ref()
            .map(|filter| self.split_collected(filter));
        let (own, filter) = split.unwrap_or_default();
        let summed = found.operation.summed_column();
        let of_number = summed
            .and_then(|column| self.reports_of(column))
            .and_then(|how| found.operation.number_from_reports(how));
        if let Some(operation) = of_number
            && own.is_empty()
            && !reports.is_read()
        {
            return Ok(Some(vec![Aggregate {
                operation,
                ..found.clone()
            }]));
        }
        if own.is_empty() && !reports.is_read() {
            return Ok(None);
        }
        let conditions = [reports.conditions.as_slice(), &own].concat();
        let matching = self.matching_reports(&conditions)?;
        let (id, how, groups) = match (&reports.key, &matching) {
            (Some(key), _) => {
                let id = key.key.expr.columns()[0];
                if !own.is_empty() || filter.is_some() && key.how.dictionary.is_some() {
                    return Err(self.refuse_reports(
                        id,
                        "FILTER together with GROUP BY on a collected column",
                    ));
                }
                let groups = key.places.iter().map(|place| vec![*place]).collect();
                (id, &key.how, groups)
            }
            (
                None,
                Some(MatchingReports {
                    report,
                    how,
                    places,
                }),
            ) => (*report, *how, vec![places.clone()]),
            (None, None) => return Ok(None),
        };
        if !found.operation.counts_reports(id) {
            return Err(self.refuse_reports(id, "a condition on an aggregate other than COUNT(*)"));
        }
        let groups: Vec<Vec<usize>> = groups;
        let one = |places: Vec<usize>| {
            let report = self.output.column_expr(id);
            let operation = count_from_reports(report, how, &places)
                .ok_or_else(|| self.refuse_reports(id, "a condition that says nothing about it"))?;
            Ok(Aggregate {
                operation,
                filter: filter.clone(),
                ..found.clone()
            })
        };
        groups
            .into_iter()
            .map(one)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

impl Cut {
    /// The number of an aggregate; of one for each value of a collected key, that of the first.
    pub(super) fn number_reports(
        &mut self,
        resolver: &Resolver<'_>,
        found: Aggregate,
    ) -> Result<AggregateId, Refusal> {
        let place = found.place.0;
        let estimates = resolver
            .of_reports(&self.reports, &found)
            .map_err(|refusal| refusal.within(|| place))?;
        let Some(estimates) = estimates else {
            return self.number(found);
        };
        let mut estimates = estimates.into_iter();
        let first = match estimates.next() {
            Some(first) if self.aggregates.contains(&first) => return self.number(first),
            Some(first) => self.number(first)?,
            None => return self.number(found),
        };
        for estimate in estimates {
            self.number(estimate)?;
        }
        Ok(first)
    }

    /// The column of an aggregate, or of that of the row's value.
    pub(super) fn aggregate_reference(&self, at: AggregateId) -> ast::Expr {
        self.for_each_value(|value| aggregate_column(AggregateId(at.0 + value)))
    }

    /// As [`Self::aggregate_reference`], of an error. New ones are added.
    pub(super) fn uncertainty_reference(&mut self, asked: &Uncertainty) -> ast::Expr {
        let values = self.reports.key.as_ref().map_or(1, |key| key.places.len());
        let columns: Vec<String> = (0..values)
            .map(|value| {
                let own = Uncertainty {
                    formula: asked.formula.over(&|at| AggregateId(at.0 + value)),
                    statistic: asked.statistic,
                };
                let known = self.uncertainties.iter().position(|known| *known == own);
                let at = known.unwrap_or(self.uncertainties.len());
                let column = own.column(at);
                if known.is_none() {
                    self.uncertainties.push(own);
                }
                column
            })
            .collect();
        self.for_each_value(|value| columns[value].clone())
    }

    fn for_each_value(&self, column: impl Fn(usize) -> String) -> ast::Expr {
        let Some(key) = self
            .reports
            .key
            .as_ref()
            .filter(|_| !self.reports.is_decoded())
        else {
            return self.reference(column(0));
        };
        let number = sql::column(&self.values_alias(), NUMBER);
        let branches = (0..key.places.len()).map(|value| {
            let is_it = sql::binary(
                number.clone(),
                ast::BinaryOperator::Eq,
                sql::number_literal(&value.to_string()),
            );
            (is_it, self.reference(column(value)))
        });
        sql::case(branches.collect(), None)
    }

    fn values_alias(&self) -> String {
        format!("{}_values", release_alias(self.number))
    }

    /// The collected key of the row.
    pub(super) fn report_key(&self) -> ast::Expr {
        if self.reports.is_decoded() {
            return self.reference(key_column(KeyId(0)));
        }
        sql::column(&self.values_alias(), VALUE)
    }

    /// The rows of a collected key: `(VALUES (0, 'no'), (1, 'yes')) AS alias (n, v)`.
    pub(super) fn values_join(&self) -> Option<ast::Join> {
        if self.reports.is_decoded() {
            return None;
        }
        let ReportKey { key, how, places } = self.reports.key.as_ref()?;
        let token = ast::helpers::attached_token::AttachedToken::empty;
        let rows = places
            .iter()
            .enumerate()
            .map(|(number, place)| ast::Parens {
                opening_token: token(),
                content: vec![
                    sql::number_literal(&number.to_string()),
                    sql::constant(Some(&how.reports[*place]), &key.expr.data_type),
                ],
                closing_token: token(),
            });
        let values = ast::SetExpr::Values(ast::Values {
            explicit_row: false,
            value_keyword: false,
            rows: rows.collect(),
        });
        let column = |name| ast::TableAliasColumnDef {
            name: quote_name(name),
            data_type: None,
        };
        let relation = ast::TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query_of(values)),
            alias: Some(ast::TableAlias {
                explicit: true,
                name: quote_name(&self.values_alias()),
                columns: vec![column(NUMBER), column(VALUE)],
                at: None,
            }),
            sample: None,
        };
        Some(ast::Join {
            relation,
            global: false,
            join_operator: ast::JoinOperator::CrossJoin(ast::JoinConstraint::None),
        })
    }

    /// Refuses groups of reports without an estimate in them.
    pub(super) fn check_estimates(&self, resolver: &Resolver<'_>) -> Result<(), Refusal> {
        if !self.reports.is_read() || !self.aggregates.is_empty() {
            return Ok(());
        }
        let conditions = self.reports.conditions.iter();
        let id: Option<ColumnId> = match &self.reports.key {
            Some(key) => key.key.expr.as_column(),
            None => conditions.filter_map(|c| resolver.collected_in(c)).next(),
        };
        match id {
            Some(id) => Err(resolver.refuse_reports(id, "groups without COUNT(*)")),
            None => Ok(()),
        }
    }
}
