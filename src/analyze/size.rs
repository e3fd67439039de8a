//! How large expressions grow once the columns that they read are replaced by their definitions. A derived table can double what the one below it computes, so that a
//! statement of a few hundred words could stand for more expressions than there is memory: everything after this may follow definitions to the ground.

use std::collections::HashMap;

use crate::refusal::{Refusal, sqlstate};
use crate::resolve::{ColumnId, Expr, Node, Relation, Release};

/// Most parts of one expression, and of all expressions of a statement together.
const PARTS_MAX: usize = 5_000;
const ALL_MAX: usize = 100_000;
/// A long list of constants is no deep expression: so many of them are one part.
const CONSTANTS: usize = 4;

/// Refuses a statement whose expressions are too large.
///
/// # Errors
/// 54001.
pub(super) fn check(releases: &[Release]) -> Result<(), Refusal> {
    let mut all = 0usize;
    for release in releases {
        let mut sizes = Sizes::default();
        sizes.define(&release.input);
        let mut exprs = Vec::new();
        expressions(&release.input, &mut exprs);
        exprs.extend(release.keys.iter().map(|key| &key.expr));
        exprs.extend(release.aggregates.iter().flat_map(|aggregate| aggregate.reads()));
        for expr in exprs {
            let own = sizes.of(expr);
            all = all.saturating_add(own);
            if own > PARTS_MAX * CONSTANTS || all > ALL_MAX * CONSTANTS {
                return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "an expression over private rows is too complex")
                    .detail(format!("With all that it is computed of, it has more than {PARTS_MAX} parts, or the statement more than {ALL_MAX}.")));
            }
        }
    }
    Ok(())
}

/// Sizes of the columns that are computed of others.
#[derive(Default)]
struct Sizes<'e> {
    definitions: HashMap<ColumnId, &'e Expr>,
    known: HashMap<ColumnId, usize>,
}

impl<'e> Sizes<'e> {
    fn define(&mut self, relation: &'e Relation) {
        if let Relation::Project { input: _, columns } = relation {
            self.definitions.extend(columns.iter().map(|(id, expr)| (*id, expr)));
        }
        let subqueries = relation.expressions().into_iter().flat_map(Expr::own_relations);
        relation.inputs().into_iter().chain(subqueries).for_each(|inner| self.define(inner));
    }

    fn of(&mut self, expr: &'e Expr) -> usize {
        let mut size = 0usize;
        expr.walk(&mut |part| {
            let own = match part.node {
                Node::Column(id) => self.of_column(id),
                Node::Literal(_) => 1,
                Node::Constant(_) | Node::Call { .. } | Node::Cast(_) | Node::Case { .. } | Node::Exists { .. } => CONSTANTS,
            };
            size = size.saturating_add(own);
        });
        size
    }

    fn of_column(&mut self, id: ColumnId) -> usize {
        let Some(definition) = self.definitions.get(&id).copied() else { return CONSTANTS };
        if let Some(size) = self.known.get(&id) {
            return *size;
        }
        let size = self.of(definition);
        self.known.insert(id, size);
        size
    }
}

/// What is evaluated in the relation, at any depth.
fn expressions<'e>(relation: &'e Relation, found: &mut Vec<&'e Expr>) {
    // An expression counts those of its subqueries itself.
    found.extend(relation.expressions());
    relation.inputs().into_iter().for_each(|input| expressions(input, found));
}
