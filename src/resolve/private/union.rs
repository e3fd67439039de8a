//! UNION of private rows. The rows of each arm stay rows of their units.

use sqlparser::ast;

use super::expression_context::{computed_column, computing};
use super::per_unit::distinct;
use crate::ir::literal::{coerce, common_type, type_name};
use crate::ir::relation::{ColumnId, Relation};
use crate::parse::arms;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::Named;

/// Most arms of a UNION ALL over private rows. Each arm becomes a derived table nested in those of
/// the later arms.
const ARMS_MAX: usize = 40;

impl Resolver<'_> {
    /// The rows of UNION ALL. UNION keeps each combination once; it is refused unless the columns
    /// identify the unit.
    pub(in crate::resolve) fn rows_union(
        &mut self,
        left: &ast::SetExpr,
        op: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        right: &ast::SetExpr,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let is_all = match (op, quantifier) {
            (ast::SetOperator::Union, ast::SetQuantifier::All) => true,
            (ast::SetOperator::Union, ast::SetQuantifier::None | ast::SetQuantifier::Distinct) => {
                false
            }
            _ => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_SET_OPERATION,
                    "INTERSECT or EXCEPT",
                )
                .hint("Use EXISTS or NOT EXISTS with a subquery over the same unit."));
            }
        };
        if !is_all && !self.names.set_tells_apart(left, right, environment)? {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_SET_OPERATION,
                "UNION that removes duplicates across units",
            )
            .hint("Use UNION ALL, which keeps every row."));
        }
        // Types are combined from left to right, as in PostgreSQL, however the chain is nested.
        let arms = if is_all {
            arms(left, right)
        } else {
            vec![left, right]
        };
        if arms.len() > ARMS_MAX {
            return Err(crate::resolve::limits::too_many());
        }
        let mut union = self.rows_body(arms[0], environment)?;
        for arm in &arms[1..] {
            let arm = self.rows_body(arm, environment)?;
            union = self.rows_of_two(union, arm, is_all)?;
        }
        Ok(union)
    }

    fn rows_of_two(
        &mut self,
        left: (Relation, Vec<Named>),
        right: (Relation, Vec<Named>),
        is_all: bool,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        if left.1.len() != right.1.len() {
            return Err(Refusal::new(
                reason::COLUMN_COUNT,
                "each UNION query must have the same number of columns",
            ));
        }
        let mut named = Vec::new();
        let (mut left_casts, mut right_casts) = (Vec::new(), Vec::new());
        let (mut left_ids, mut right_ids) = (Vec::new(), Vec::new());
        for (a, b) in left.1.iter().zip(&right.1) {
            let (from, to) = (self.output.column_expr(a.id), self.output.column_expr(b.id));
            self.names
                .constants
                .require_one_zone([&from.data_type, &to.data_type], "UNION")?;
            let data_type = common_type(&from.data_type, &to.data_type).ok_or_else(|| {
                let (a, b) = (type_name(&from.data_type), type_name(&to.data_type));
                if from.data_type == to.data_type {
                    return Refusal::unsupported(
                        reason::UNSUPPORTED_TYPE,
                        format!("UNION of values of type {a}"),
                    );
                }
                Refusal::new(
                    reason::TYPE_MISMATCH,
                    format!("UNION types {a} and {b} cannot be matched"),
                )
            })?;
            for (side, ids, casts) in [
                (from, &mut left_ids, &mut left_casts),
                (to, &mut right_ids, &mut right_casts),
            ] {
                let given = side.as_column();
                ids.push(match given.filter(|_| side.data_type == data_type) {
                    Some(id) => id,
                    None => {
                        let id = self
                            .output
                            .new_column(computed_column(&a.name, &data_type, true));
                        casts.push((id, coerce(side, &data_type)?));
                        id
                    }
                });
            }
            let id = self
                .output
                .new_column(computed_column(&a.name, &data_type, true));
            named.push(Named {
                name: a.name.clone(),
                id,
            });
        }
        let arms = vec![
            (computing(left.0, left_casts), left_ids),
            (computing(right.0, right_casts), right_ids),
        ];
        let columns: Vec<ColumnId> = named.iter().map(|c| c.id).collect();
        let relation = Relation::Union { columns, arms };
        Ok((
            if is_all {
                relation
            } else {
                distinct(relation, &named)
            },
            named,
        ))
    }

    /// One arm.
    fn rows_body(
        &mut self,
        body: &ast::SetExpr,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        match body {
            ast::SetExpr::Select(select) => self.rows_select(select, None, environment),
            ast::SetExpr::Query(query) => self.rows_query(query, environment),
            ast::SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => self.rows_union(left, *op, *set_quantifier, right, environment),
            _ => Err(Refusal::unsupported(
                reason::UNSUPPORTED_SET_OPERATION,
                "this kind of UNION",
            )),
        }
    }
}
