//! The statement of one choice query.

use sqlparser::ast::{self, BinaryOperator as B};

use super::{ChoiceQuery, Degree, ROW_WEIGHT, RowLimit, RowsLook, Subject};
use crate::aggregates::PairLimits;
use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::catalog::Type;
use crate::ir::{Distinct, Expr};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::sql;
use crate::rewrite::vector::base_rows::{BaseRows, canonical};
use crate::rewrite::vector::clip::above_root;
use crate::rewrite::vector::clipped_aggregate::positions;
use crate::rewrite::vector::grouping_sets::{group_columns, over_sets};
use crate::rewrite::vector::kept_groups::{collate, hash_in_grouping, hash_of};
use crate::rewrite::vector::row_integer::{integer, lacks, within};

impl ChoiceQuery {
    /// The statement over the release's base rows.
    ///
    /// # Guarantee
    /// In each grouping set, the rows of one unit count for a bounded amount, whatever the tables
    /// hold. For distinct values the statement keeps at most [`ChoiceQuery::pair_limits`] of a
    /// unit's (group, value) pairs, in all groups and in one, the first by hash and then by value:
    /// which pairs stay depends on the set of that unit's pairs alone. For chosen values the rows
    /// of a unit are scaled down to `limit`, times [`ROW_WEIGHT`]: let n be the number of the
    /// unit's rows, or the root of the sum over groups of their squares. If n is more than the
    /// limit, each weight is scaled by limit / n, rounded down, where n is rounded up. A row whose
    /// chosen or counted value is NULL adds nothing, but for the count of distinct rows. With a
    /// look, rows are not scaled but labelled by the bin of their unit: see `ChoiceRows::bin_rows`.
    ///
    /// # Requires
    /// `base_rows` gives each row exactly one unit. Where `one_row_per_unit` holds, the catalog
    /// proves that a unit has one row, and the statement does not count again.
    pub fn statement(
        &self,
        (limit, look): (RowLimit, Option<&RowsLook>),
        release: &AnalyzedRelease,
        base_rows: BaseRows,
    ) -> Result<ast::Query, Refusal> {
        let rows = self.rows(release, &base_rows)?;
        let pairs = self.pair_limits(release);
        Ok(match &self.subject {
            // A NULL counts as a distinct row, but not as a distinct value.
            Subject::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: Degree::Count,
            } if values.len() == 1 => rows.row_count(pairs),
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree: Degree::Count,
            } => rows.value_count(pairs),
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree: degree @ (Degree::Sum(_) | Degree::Squares(_)),
            } => rows.sums(pairs, degree),
            Subject::Value { .. } => match look {
                Some(look) => rows.bin_rows(limit, &look.bins),
                None => rows.weights(limit),
            },
        })
    }

    /// The rows that count, with what they are grouped by.
    pub(super) fn rows<'a>(
        &self,
        release: &'a AnalyzedRelease,
        base_rows: &'a BaseRows,
    ) -> Result<ChoiceRows<'a>, Refusal> {
        let expressions = ExpressionEmitter {
            cells: &base_rows.cells,
            relations: None,
        };
        let mut conditions: Vec<ast::Expr> =
            base_rows.condition.iter().cloned().map(sql::nest).collect();
        if let Some(filter) = &self.filter {
            conditions.push(sql::nest(expressions.condition(filter)?));
        }
        if let Some(value) = self.subject.not_null() {
            conditions.push(sql::is_not_null(expressions.presence(value)?));
        }
        Ok(ChoiceRows {
            release,
            base_rows,
            condition: sql::all(conditions),
            values: self.subject.emit(&expressions)?,
            types: self.subject.types(),
        })
    }
}

impl Subject {
    /// The value whose NULLs add nothing.
    fn not_null(&self) -> Option<&Expr> {
        match self {
            Self::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
                degree: _,
            }
            | Self::Value {
                value,
                candidates: _,
            } => Some(value),
            Self::Distinct {
                values: Distinct::Row(_),
                per_unit_max: _,
                degree: _,
            } => None,
        }
    }

    /// The expressions that the statement groups a unit's rows by: distinct values, and the integer
    /// that is summed; or the candidate.
    fn emit(&self, expressions: &ExpressionEmitter<'_>) -> Result<Vec<ast::Expr>, Refusal> {
        match self {
            Self::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
                degree,
            } => {
                let integer = degree
                    .fixed_point()
                    .map(|fixed_point| integer(value, fixed_point, true, &Type::Int8, expressions))
                    .transpose()?;
                Ok(std::iter::once(distinct_value(value, expressions)?)
                    .chain(integer)
                    .collect())
            }
            Self::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: _,
            } => values
                .iter()
                .map(|value| distinct_value(value, expressions))
                .collect(),
            Self::Value { value, candidates } => Ok(vec![candidates.sql(value, expressions)?]),
        }
    }

    /// The types of [`Subject::emitted`].
    fn types(&self) -> Vec<Type> {
        match self {
            Self::Distinct {
                values: Distinct::Value(value),
                per_unit_max: _,
                degree,
            } => std::iter::once(value.data_type.clone())
                .chain(degree.fixed_point().map(|_| Type::Int8))
                .collect(),
            Self::Value {
                value,
                candidates: _,
            } => vec![value.data_type.clone()],
            Self::Distinct {
                values: Distinct::Row(values),
                per_unit_max: _,
                degree: _,
            } => values.iter().map(|v| v.data_type.clone()).collect(),
        }
    }
}

/// One spelling for all equal values; a text that is too long becomes NULL.
fn distinct_value(value: &Expr, expressions: &ExpressionEmitter<'_>) -> Result<ast::Expr, Refusal> {
    Ok(canonical(
        expressions.emit(value)?.0,
        &value.data_type,
        &KeyRule::Threshold,
    ))
}

pub(super) struct ChoiceRows<'a> {
    release: &'a AnalyzedRelease,
    base_rows: &'a BaseRows,
    pub(super) condition: Option<ast::Expr>,
    pub(super) values: Vec<ast::Expr>,
    pub(super) types: Vec<Type>,
}

impl ChoiceRows<'_> {
    pub(super) fn keys(&self) -> Vec<String> {
        (0..self.base_rows.keys.len())
            .map(|i| format!("k{i}"))
            .collect()
    }

    pub(super) fn subjects(&self) -> Vec<String> {
        (0..self.values.len()).map(|i| format!("x{i}")).collect()
    }

    /// `SELECT u, k0, …, x0, … [, extra] FROM … GROUP BY` all but the extra: one row for each unit,
    /// group and value.
    pub(super) fn per_unit(&self, extra: Vec<ast::SelectItem>) -> ast::Query {
        self.per_unit_and(None, extra)
    }

    /// [`Self::per_unit`] with a hash of groups and values after the unit, as `h`.
    fn per_unit_and(&self, hash: Option<ast::Expr>, extra: Vec<ast::SelectItem>) -> ast::Query {
        let unit =
            (!self.release.one_row_per_unit).then(|| sql::alias(self.base_rows.unit.clone(), "u"));
        let named = |expr: &ast::Expr, name: String| sql::alias(expr.clone(), &name);
        let keys = self
            .base_rows
            .keys
            .iter()
            .zip(self.keys())
            .map(|(e, n)| named(e, n));
        let values = self
            .values
            .iter()
            .zip(self.subjects())
            .map(|(e, n)| named(e, n));
        let hash = hash.map(|hash| sql::alias(hash, "h"));
        let mut projection: Vec<ast::SelectItem> = unit
            .into_iter()
            .chain(hash)
            .chain(keys)
            .chain(values)
            .collect();
        let grouped = positions(1, projection.len());
        projection.extend(extra);
        sql::select(
            projection,
            vec![self.base_rows.from.clone()],
            self.condition.clone(),
            grouped,
        )
    }

    /// The rows with the sum of a number over all rows of the unit, as `n`.
    fn with_total(&self, rows: ast::Query, names: &[String], number: ast::Expr) -> ast::Query {
        let mut projection = Self::columns(names.iter().cloned().chain(["c".to_owned()]));
        projection.push(sql::alias(
            sql::over("sum", vec![number], sql::bare("u"), Vec::new()),
            "n",
        ));
        let from = vec![sql::tables(sql::derived_table(rows, "g"))];
        sql::select(projection, from, None, Vec::new())
    }

    /// The rows with how many rows the unit has in the same group, as `m`.
    pub(super) fn with_rows_in_group(&self, rows: ast::Query, names: &[String]) -> ast::Query {
        let in_group = [vec!["u".to_owned()], self.keys()].concat();
        let partition = in_group.iter().map(|name| sql::bare(name)).collect();
        let total = sql::over_all("sum", vec![sql::bare("c")], partition, Vec::new());
        let carried = ["c".to_owned(), "u".to_owned()];
        let mut projection = Self::columns(names.iter().cloned().chain(carried));
        projection.push(sql::alias(total, "m"));
        let from = vec![sql::tables(sql::derived_table(rows, "f"))];
        sql::select(projection, from, None, Vec::new())
    }

    fn as_text(&self, names: Vec<String>) -> Vec<ast::SelectItem> {
        names
            .into_iter()
            .map(|name| sql::alias(sql::cast(sql::bare(&name), &Type::Text), &name))
            .collect()
    }

    pub(super) fn columns(names: impl IntoIterator<Item = String>) -> Vec<ast::SelectItem> {
        names
            .into_iter()
            .map(|name| ast::SelectItem::UnnamedExpr(sql::bare(&name)))
            .collect()
    }

    /// The number of distinct values in each group.
    fn value_count(&self, limit: PairLimits) -> ast::Query {
        let subject = match self.subjects().as_slice() {
            [one] => Some(sql::bare(one)),
            _ => None,
        };
        self.number_of_distinct(subject, limit)
    }

    /// The number of distinct rows in each group.
    fn row_count(&self, limit: PairLimits) -> ast::Query {
        self.number_of_distinct(None, limit)
    }

    /// The number of each group's distinct values for which the subject is not NULL; all of them
    /// without a subject. Values are grouped and then counted, because `count(DISTINCT …)` would
    /// sort every pair.
    fn number_of_distinct(&self, subject: Option<ast::Expr>, limit: PairLimits) -> ast::Query {
        let groups = group_columns(self.release);
        let mut projection = self.as_text(groups.clone());
        projection.push(sql::alias(
            sql::cast(sql::aggregate("count", subject, None), &Type::Text),
            "v0",
        ));
        let keys = groups.iter().map(|name| sql::column("d", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(
                self.distinct_values(limit),
                "d",
            ))],
            None,
            keys,
        )
    }

    /// Each group's distinct values.
    fn distinct_values(&self, limit: PairLimits) -> ast::Query {
        let names: Vec<String> = group_columns(self.release)
            .into_iter()
            .chain(self.subjects())
            .collect();
        let all = vec![sql::tables(sql::derived_table(self.kept_pairs(limit), "s"))];
        sql::select(
            Self::columns(names.clone()),
            all,
            None,
            positions(1, names.len()),
        )
    }

    /// The number of distinct values in each group, and sums of their integers, which are functions
    /// of the values.
    fn sums(&self, limit: PairLimits, degree: &Degree) -> ast::Query {
        let groups = group_columns(self.release);
        let most = degree
            .fixed_point()
            .map_or(0, |fixed_point| i128::from(fixed_point.spread()));
        let integer = || within(sql::bare("x1"), (-most, most));
        let sum = |value: ast::Expr| {
            sql::call(
                "coalesce",
                vec![
                    sql::aggregate("sum", Some(value), None),
                    sql::number_literal("0"),
                ],
            )
        };
        let mut columns = vec![
            sql::aggregate("count", Some(sql::bare("x0")), None),
            sum(integer()),
        ];
        if let Degree::Squares(fixed_point) = degree {
            columns.push(sum(lacks(integer(), fixed_point)));
        }
        let mut projection = self.as_text(groups.clone());
        projection.extend(
            columns
                .into_iter()
                .enumerate()
                .map(|(at, column)| sql::alias(sql::cast(column, &Type::Text), &format!("v{at}"))),
        );
        let keys = groups.iter().map(|name| sql::column("d", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(
                self.distinct_values(limit),
                "d",
            ))],
            None,
            keys,
        )
    }

    /// The first distinct (group, value) pairs of each unit, by hash and then by value: this many
    /// in all groups, and in each.
    fn kept_pairs(&self, limit: PairLimits) -> ast::Query {
        let names: Vec<String> = self.keys().into_iter().chain(self.subjects()).collect();
        let types = self.release.keys.iter().map(|(e, _)| &e.data_type);
        let types = types.chain(&self.types);
        let emitted = self.base_rows.keys.iter().chain(&self.values);
        let hash = (!self.release.one_row_per_unit)
            .then(|| hash_in_grouping(emitted.zip(types.clone())))
            .flatten();
        let hashed = hash
            .as_ref()
            .map_or_else(|| hash_of(&names), |_| sql::bare("h"));
        let mut from = self.per_unit_and(hash, Vec::new());
        if !self.release.one_row_per_unit {
            let mut order = vec![hashed];
            order.extend(
                names
                    .iter()
                    .zip(types)
                    .map(|(name, data_type)| collate(sql::bare(name), data_type)),
            );
            let number = |partition: Vec<ast::Expr>| {
                sql::over_all("row_number", Vec::new(), partition, order.clone())
            };
            let within = |name: &str, most: u64| {
                sql::binary(
                    sql::bare(name),
                    B::LtEq,
                    sql::number_literal(&most.to_string()),
                )
            };
            let unit = vec![sql::bare("u")];
            let mut projection = Self::columns(names.clone());
            projection.push(sql::alias(number(unit.clone()), "r"));
            let mut kept = vec![within("r", limit.in_all)];
            if self.limits_groups(limit) {
                let group = self.keys().iter().map(|key| sql::bare(key)).collect();
                projection.push(sql::alias(number([unit, group].concat()), "q"));
                kept.push(within("q", limit.in_group));
            }
            let ranked = sql::select(
                projection,
                vec![sql::tables(sql::derived_table(from, "g"))],
                None,
                Vec::new(),
            );
            from = sql::select(
                Self::columns(names),
                vec![sql::tables(sql::derived_table(ranked, "h"))],
                sql::all(kept),
                Vec::new(),
            );
        }
        self.in_each_set(from, &self.subjects())
    }

    /// Whether the limit within a group is tighter than that of all groups. It never is with
    /// grouping sets, where the groups of coarser keys count.
    fn limits_groups(&self, limit: PairLimits) -> bool {
        limit.in_group < limit.in_all && self.release.sets.is_empty()
    }

    /// The rows once for each grouping set, where there are any.
    fn in_each_set(&self, rows: ast::Query, carried: &[String]) -> ast::Query {
        if self.release.sets.is_empty() {
            return rows;
        }
        let (mut projection, from) = over_sets(self.release, rows);
        projection.extend(
            carried
                .iter()
                .map(|name| sql::alias(sql::column("g", name), name)),
        );
        sql::select(projection, from, None, Vec::new())
    }

    /// The weight of each candidate in each group. The weights of a unit above the limit are scaled
    /// down, in exact integers.
    fn weights(&self, limit: RowLimit) -> ast::Query {
        let names: Vec<String> = self.keys().into_iter().chain(self.subjects()).collect();
        let count = sql::alias(sql::aggregate("count", None, None), "c");
        let mut from = self.per_unit(vec![count]);
        let weight = match limit {
            RowLimit::One => sql::bare("c"),
            RowLimit::Sum(most) => {
                from = self.with_total(from, &names, sql::bare("c"));
                scale_weight(most, sql::number_literal(&most.to_string()), sql::bare("n"))
            }
            RowLimit::RootOfSquares(most) => {
                from = self.with_rows_in_group(from, &names);
                // Over a group's candidates c m adds up to m^2.
                let squared = sql::binary(sql::bare("m"), B::Multiply, sql::bare("c"));
                from = self.with_total(from, &names, squared);
                let square = u128::from(most) * u128::from(most);
                scale_weight(
                    most,
                    sql::number_literal(&square.to_string()),
                    above_root(sql::bare("n")),
                )
            }
        };
        let mut weighed = Self::columns(names.iter().cloned());
        weighed.push(sql::alias(weight, "w"));
        from = sql::select(
            weighed,
            vec![sql::tables(sql::derived_table(from, "h"))],
            None,
            Vec::new(),
        );
        from = self.in_each_set(
            from,
            &self
                .subjects()
                .into_iter()
                .chain(["w".to_owned()])
                .collect::<Vec<_>>(),
        );
        let names: Vec<String> = group_columns(self.release)
            .into_iter()
            .chain(self.subjects())
            .collect();
        let mut projection = self.as_text(names.clone());
        projection.push(sql::alias(
            sql::cast(
                sql::aggregate("sum", Some(sql::bare("w")), None),
                &Type::Text,
            ),
            "v0",
        ));
        let keys = names.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(from, "s"))],
            None,
            keys,
        )
    }
}

/// The weight of `c` rows: scaled by `most` over `divisor` where `n` is above `limit`.
fn scale_weight(most: u64, limit: ast::Expr, divisor: ast::Expr) -> ast::Expr {
    let rows = sql::cast(sql::bare("c"), &Type::Numeric(None));
    let whole = sql::binary(
        rows,
        B::Multiply,
        sql::number_literal(&ROW_WEIGHT.to_string()),
    );
    let scaled = sql::call(
        "div",
        vec![
            sql::binary(
                whole.clone(),
                B::Multiply,
                sql::number_literal(&most.to_string()),
            ),
            divisor,
        ],
    );
    let above = sql::binary(sql::bare("n"), B::Gt, limit);
    sql::case(vec![(above, scaled)], Some(whole))
}
