//! What a SELECT reads above the groups of one unit.

use super::PerUnitGrouping;
use crate::catalog::Equality;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::relation::ColumnId;
use crate::policy::{ColumnPosition, Scalar};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::private::expression_context::ResolvedParts;

impl PerUnitGrouping {
    /// Turns an expression over the rows into one over the groups. It may only read keys and
    /// aggregates.
    pub(in crate::resolve) fn over_groups(
        &mut self,
        expr: Expr,
        resolver: &Resolver<'_>,
    ) -> Result<Expr, Refusal> {
        if let Some((_, id)) = self.keys.iter().find(|(key, _)| *key == expr) {
            return Ok(Expr::column(*id, expr.data_type));
        }
        let Expr { node, data_type } = expr;
        let mut all = |exprs: Vec<Expr>| {
            exprs
                .into_iter()
                .map(|e| self.over_groups(e, resolver))
                .collect::<Result<Vec<_>, _>>()
        };
        let node = match node {
            Node::Column(id) => {
                if !self.holds(id) && !self.depends(id, resolver) {
                    let name = &resolver.output.columns[id.0 as usize].name;
                    let message = format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an \
                            aggregate function"
                    );
                    return Err(Refusal::new(reason::UNGROUPED_COLUMN, message));
                }
                Node::Column(id)
            }
            Node::Literal(value) => Node::Literal(value),
            Node::Constant(id) => Node::Constant(id),
            Node::Call {
                function,
                arguments,
            } => Node::Call {
                function,
                arguments: all(arguments)?,
            },
            Node::Cast(inner) => Node::Cast(Box::new(self.over_groups(*inner, resolver)?)),
            Node::Exists {
                relation,
                condition,
            } => {
                self.inner.extend(relation.made_at_any_depth());
                Node::Exists {
                    relation,
                    condition: condition
                        .map(|c| self.over_groups(*c, resolver).map(Box::new))
                        .transpose()?,
                }
            }
            Node::Case {
                branches,
                otherwise,
            } => {
                let mut regrouped = Vec::with_capacity(branches.len());
                for (condition, result) in branches {
                    regrouped.push((
                        self.over_groups(condition, resolver)?,
                        self.over_groups(result, resolver)?,
                    ));
                }
                let otherwise = otherwise
                    .map(|e| self.over_groups(*e, resolver).map(Box::new))
                    .transpose()?;
                Node::Case {
                    branches: regrouped,
                    otherwise,
                }
            }
        };
        Ok(Expr { node, data_type })
    }

    /// Resolved parts as expressions over groups. What they need from the rows below may only read
    /// keys and aggregates.
    pub(super) fn regrouped_parts(
        &mut self,
        given: ResolvedParts,
        resolver: &Resolver<'_>,
    ) -> Result<ResolvedParts, Refusal> {
        let mut joined = Vec::new();
        for (relation, on) in given.joined {
            self.inner.extend(relation.made_at_any_depth());
            joined.push((
                relation,
                on.map(|e| self.over_groups(e, resolver)).transpose()?,
            ));
        }
        let mut computed = Vec::new();
        for (id, expr) in given.computed {
            computed.push((id, self.over_groups(expr, resolver)?));
        }
        Ok(ResolvedParts {
            resolved: given.resolved,
            joined,
            computed,
        })
    }

    /// The value of an expression over a group without rows: counts are 0, other aggregates are
    /// NULL already.
    pub(in crate::resolve) fn without_rows(&self, expr: Expr) -> Expr {
        expr.replace_parts(&|e| match e.as_column() {
            Some(id)
                if self.aggregates.iter().any(|(made, aggregate)| {
                    *made == id && aggregate.operation.facts().is_count
                }) =>
            {
                let zero = Expr::literal(Some(Scalar::Int(0)), e.data_type.clone());
                Some(Expr::call(
                    Function::Coalesce,
                    vec![e.clone(), zero],
                    e.data_type.clone(),
                ))
            }
            _ => None,
        })
    }

    fn holds(&self, id: ColumnId) -> bool {
        self.inner.contains(&id)
            || self.keys.iter().any(|(_, key)| *key == id)
            || self.aggregates.iter().any(|(made, _)| *made == id)
    }

    /// Whether the column depends on the keys, because they hold the primary key of its table. It
    /// then becomes one more key, as PostgreSQL allows.
    fn depends(&mut self, id: ColumnId, resolver: &Resolver<'_>) -> bool {
        let info = &resolver.output.columns[id.0 as usize];
        let Some((table, ColumnPosition(position))) = info.origin else {
            return false;
        };
        let table = &resolver.names.policy.tables[table.0];
        // A scan's columns are numbered in the table's order.
        let Some(first) = id.0.checked_sub(position as u32) else {
            return false;
        };
        let grouped = |name: &str| {
            let at = table.columns.iter().position(|c| c.name == name)?;
            self.keys
                .iter()
                .any(|(_, key)| key.0 == first + at as u32)
                .then_some(Equality::Own)
        };
        let depends = table
            .unique_keys
            .iter()
            .any(|key| key.primary && key.tells_apart(grouped));
        if depends {
            self.keys
                .push((Expr::column(id, info.data_type.clone()), id));
        }
        depends
    }
}
