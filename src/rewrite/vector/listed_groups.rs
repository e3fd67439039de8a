//! Few listed groups as columns: each coordinate of each group is a sum with a FILTER. Rows are
//! then grouped by the unit alone, whose length over all groups is known without a window.

use std::collections::HashSet;

use sqlparser::ast::{self, BinaryOperator as B};

use super::base_rows::{BaseRows, base_rows, key_text, listed_value};
use super::binned::{UNITS, bin};
use super::clipped_aggregate::{ClippedAggregate, ListedGroup};
use super::coordinate::Coordinate;
use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnInfo, Expr, KeyId, Node, key_column};
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::rewrite::Block;
use crate::rewrite::CoordinateId;
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::emit::sql;

/// The most groups that become columns, and the most columns of one row.
const GROUPS_MAX: usize = 8;
const COLUMNS_MAX: usize = 16;

/// How many groups there are, if they can be columns of `coordinates` each.
fn number(release: &AnalyzedRelease, coordinates: usize) -> Option<usize> {
    let is_plain = release.sets.is_empty()
        && release.tuples.is_empty()
        && !release.keys.is_empty()
        && !release.one_group_per_unit;
    let mut listed = release.keys.iter().map(|(key, rule)| match rule {
        KeyRule::Domain(values) => distinct(values, &key.data_type),
        KeyRule::Threshold => None,
    });
    let number = listed.try_fold(1usize, |all, listed| all.checked_mul(listed?))?;
    (is_plain && (2..=GROUPS_MAX).contains(&number) && number * coordinates <= COLUMNS_MAX)
        .then_some(number)
}

/// How many values are listed; `None` where two of them have one text. A row of both would be in
/// two columns, and count twice under one key.
fn distinct(values: &[Option<Scalar>], data_type: &Type) -> Option<usize> {
    let text = |value: &Option<Scalar>| value.as_ref().map(|value| key_text(value, data_type));
    let texts: HashSet<Option<String>> = values.iter().map(text).collect();
    (texts.len() == values.len()).then_some(values.len())
}

/// The most nodes of an expression that is computed for each group.
const NODES_MAX: usize = 12;

/// Whether an expression is short and its parts cost little for one row, whatever the row holds: it
/// may be written, and computed, once for each group.
fn is_simple(expr: &Expr, columns: &[ColumnInfo]) -> bool {
    let is_number = |data_type: &Type| {
        matches!(
            data_type,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_)
        )
    };
    let (mut nodes, mut simple) = (0, true);
    expr.walk(&mut |part| {
        nodes += 1;
        simple &= match &part.node {
            Node::Column(id) => columns[id.0 as usize].origin.is_some(),
            Node::Literal(_) => true,
            Node::Cast(inner) => is_number(&part.data_type) && is_number(&inner.data_type),
            Node::Call { function, .. } => matches!(
                function,
                Function::And
                    | Function::Or
                    | Function::Not
                    | Function::IsNull
                    | Function::IsNotNull
                    | Function::In
                    | Function::Equal
                    | Function::NotEqual
                    | Function::Less
                    | Function::LessOrEqual
                    | Function::Greater
                    | Function::GreaterOrEqual
                    | Function::Add
                    | Function::Subtract
                    | Function::Multiply
            ),
            Node::Constant(_) | Node::Case { .. } | Node::Exists { .. } => false,
        };
    });
    simple && nodes <= NODES_MAX
}

/// The expressions of a coordinate.
fn expressions(coordinate: &Coordinate) -> Vec<&Expr> {
    match coordinate {
        Coordinate::Rows { mask } | Coordinate::Units { mask } => {
            mask.filter.iter().chain(&mask.not_null).collect()
        }
        Coordinate::Flags { filter } => vec![filter],
        Coordinate::Nulls { filter, value }
        | Coordinate::Values { filter, value, .. }
        | Coordinate::SquareComplement { filter, value, .. }
        | Coordinate::DistanceFromEnd { filter, value, .. } => {
            filter.iter().chain([value]).collect()
        }
        Coordinate::Products { filter, y, x } => filter.iter().chain([&y.0, &x.0]).collect(),
        Coordinate::Presence => Vec::new(),
    }
}

impl ClippedAggregate<'_> {
    /// Whether listed groups are few enough to be columns, by keys and of expressions that may be
    /// computed for each of them.
    fn has_few_groups(&self) -> bool {
        let is_bounded = !self.within_clip && self.groups_per_unit.is_none();
        let is_stored = |(key, _): &(Expr, KeyRule)| {
            let id = key.as_column();
            id.is_some_and(|id| self.columns[id.0 as usize].origin.is_some())
        };
        let parts = || self.coordinates.iter().flat_map(expressions);
        is_bounded
            && !self.release.lineage.is_multiplied
            && number(self.release, self.coordinates.len()).is_some()
            && self.release.keys.iter().all(is_stored)
            && parts().all(|part| is_simple(part, self.columns))
    }

    /// The whole statement with few listed groups as columns; `None` where they cannot be.
    ///
    /// # Guarantee
    /// That of [`ClippedAggregate::statement`], as [`ClippedAggregate::by_listed_groups`] says.
    ///
    /// # Errors
    /// As [`ClippedAggregate::statement`].
    pub fn with_groups_as_columns(
        &self,
        flat: impl FnOnce() -> Result<Flat, Refusal>,
    ) -> Result<Option<ast::Query>, Refusal> {
        if !self.has_few_groups() {
            return Ok(None);
        }
        let rows = base_rows(self.release, self.policy, self.columns, flat()?)?;
        match self.listed_groups(&rows.keys) {
            Some(groups) => self.by_listed_groups(&groups, rows).map(Some),
            None => Ok(None),
        }
    }

    /// The listed groups, where their keys are columns of tables: a computed key would be computed
    /// again for each group.
    fn listed_groups(&self, keys: &[ast::Expr]) -> Option<Vec<ListedGroup>> {
        let is_column = |key: &ast::Expr| matches!(key, ast::Expr::CompoundIdentifier(_));
        if !keys.iter().all(is_column) {
            return None;
        }
        let mut groups: Vec<Vec<(ast::Expr, ast::Expr)>> = vec![Vec::new()];
        for (key, (expr, rule)) in keys.iter().zip(&self.release.keys) {
            let KeyRule::Domain(values) = rule else {
                return None;
            };
            let with = |group: &Vec<_>, value: &Option<Scalar>| {
                let mut group = group.clone();
                group.push(of_value(key, value.as_ref(), &expr.data_type));
                group
            };
            groups = groups
                .iter()
                .flat_map(|group| values.iter().map(move |value| with(group, value)))
                .collect();
        }
        let group = |keys: Vec<(ast::Expr, ast::Expr)>| {
            let (conditions, keys) = keys.into_iter().unzip();
            let condition = sql::nest(sql::all(conditions)?);
            Some(ListedGroup { condition, keys })
        };
        groups.into_iter().map(group).collect()
    }

    /// The whole statement, whose groups are these.
    ///
    /// # Guarantee
    /// That of [`ClippedAggregate::statement`], of which this is the case of one group with
    /// `groups` times as many coordinates: a coordinate of a group sums the rows that are in the
    /// group. A row is in one listed group at most, since listed values differ, and so do their
    /// texts ([`distinct`]). So a unit's vector is the one that its rows have when they are grouped
    /// by the keys, with zeros for groups in which it has no row; its norm, the clip, and each
    /// block's length are the same sums of squares. Every listed group has a row in the result,
    /// whatever the tables hold.
    fn by_listed_groups(
        &self,
        groups: &[ListedGroup],
        rows: BaseRows,
    ) -> Result<ast::Query, Refusal> {
        let (times, width) = (groups.len(), self.coordinates.len());
        let in_all = |CoordinateId(at): &CoordinateId| {
            (0..times)
                .map(|group| CoordinateId(group * width + at))
                .collect::<Vec<_>>()
        };
        let block = |block: &Block| {
            let places = block.coordinates.iter().zip(&block.weights);
            let (coordinates, weights) = places
                .flat_map(|(at, weight)| in_all(at).into_iter().map(|at| (at, weight.clone())))
                .unzip();
            Block {
                coordinates,
                weights,
                ..block.clone()
            }
        };
        let one_row = ClippedAggregate {
            coordinates: &vec![self.coordinates; times].concat(),
            weights: &vec![self.weights; times].concat(),
            refine: &self.refine.repeat(times),
            blocks: &self.blocks.iter().map(block).collect::<Vec<_>>(),
            listed: groups,
            ..*self
        };
        Ok(self.one_row_a_group(one_row.levels(rows)?, groups))
    }

    /// One row for each group, from rows that have the columns of all groups.
    fn one_row_a_group(&self, rows: ast::Query, groups: &[ListedGroup]) -> ast::Query {
        let is_group = |at: usize| {
            let group = sql::column("x", "g");
            sql::binary(group, B::Eq, sql::number_literal(&at.to_string()))
        };
        let of_group = |value: &dyn Fn(usize) -> ast::Expr| {
            let branches = (0..groups.len()).map(|at| (is_group(at), value(at)));
            sql::case(branches.collect(), None)
        };
        let mut projection = Vec::new();
        for key in KeyId::all(self.release.keys.len()) {
            let text = of_group(&|group| groups[group].keys[key.0].clone());
            projection.push(sql::alias(text, &key_column(key)));
        }
        for name in (0..self.blocks.len()).map(bin) {
            projection.push(sql::alias(sql::column("w", &name), &name));
        }
        let width = self.coordinates.len();
        for at in 0..width {
            let value = |group| sql::column("w", &format!("v{}", group * width + at));
            projection.push(sql::alias(of_group(&value), &format!("v{at}")));
        }
        if !self.blocks.is_empty() {
            // A unit is counted in one of its groups.
            let first = vec![(is_group(0), sql::column("w", UNITS))];
            projection.push(sql::alias(
                sql::case(first, Some(sql::text_literal("0"))),
                UNITS,
            ));
        }
        let from = vec![
            sql::tables(sql::derived_table(rows, "w")),
            sql::tables(sql::numbers(groups.len(), "x", "g")),
        ];
        sql::select(projection, from, None, Vec::new())
    }
}

/// Whether a key has a listed value, and the value's text.
fn of_value(key: &ast::Expr, value: Option<&Scalar>, data_type: &Type) -> (ast::Expr, ast::Expr) {
    match value {
        Some(value) => {
            let condition = sql::binary(key.clone(), B::Eq, listed_value(value, data_type));
            (condition, sql::text_literal(&key_text(value, data_type)))
        }
        None => (sql::is_null(key.clone()), sql::null()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of one text are no columns, whatever the stages before have made of a list.
    #[test]
    fn groups_of_one_text_are_no_columns() {
        let decimals = |texts: &[&str]| -> Vec<Option<Scalar>> {
            let of = |text: &&str| Some(Scalar::Decimal((*text).to_owned()));
            texts.iter().map(of).chain([None]).collect()
        };
        let texts = |texts: &[&str]| -> Vec<Option<Scalar>> {
            let of = |text: &&str| Some(Scalar::Text((*text).to_owned()));
            texts.iter().map(of).collect()
        };
        let numeric = Type::Numeric(None);
        assert_eq!(distinct(&decimals(&["1.5", "15"]), &numeric), Some(3));
        assert_eq!(distinct(&decimals(&["1.5", "1.50"]), &numeric), None);
        assert_eq!(distinct(&texts(&["a", "A", "a "]), &Type::Text), Some(3));
        assert_eq!(
            distinct(&texts(&["a", "b", "a "]), &Type::Char(Some(4))),
            None
        );
        assert_eq!(distinct(&[None, None], &Type::Text), None);
        assert_eq!(distinct(&[], &Type::Text), Some(0));
    }
}
