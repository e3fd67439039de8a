//! How large a release's expressions become once the columns that derived tables compute are written out. Each level of derived tables may double them, so that a
//! short statement could take all memory: what grows too much is refused before anything is written out.

use std::collections::HashMap;

use crate::refusal::{Refusal, sqlstate};
use crate::resolve::{ColumnId, Expr, Node, Relation, Release};

/// Nodes of all expressions of a release, written out.
const NODES_MAX: usize = 10_000;
/// Of a statement that is long itself, so many times its own nodes.
const GROWTH_MAX: usize = 8;

/// # Errors
/// 54001 where the expressions would grow too large.
pub(super) fn check(release: &Release) -> Result<(), Refusal> {
    let Release { input, keys, sets: _, aggregates, uncertainties: _ } = release;
    let mut sizes = Sizes::default();
    sizes.relation(input);
    keys.iter().map(|key| &key.expr).chain(aggregates.iter().flat_map(|aggregate| aggregate.reads())).for_each(|expr| {
        sizes.expression(expr);
    });
    if sizes.written_out <= NODES_MAX.max(sizes.own.saturating_mul(GROWTH_MAX)) {
        return Ok(());
    }
    Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "an expression over private rows is too complex")
        .detail("Columns that derived tables compute are written out where they are read."))
}

#[derive(Default)]
struct Sizes {
    /// Of each computed column, written out.
    computed: HashMap<ColumnId, usize>,
    /// Nodes as they stand in the statement, and written out.
    own: usize,
    written_out: usize,
}

impl Sizes {
    fn relation(&mut self, relation: &Relation) {
        relation.inputs().into_iter().for_each(|input| self.relation(input));
        if let Relation::Project { input: _, columns } = relation {
            for (id, expr) in columns {
                let size = self.expression(expr);
                self.computed.insert(*id, size);
            }
        } else {
            for expr in relation.expressions() {
                self.expression(expr);
            }
        }
    }

    fn expression(&mut self, expr: &Expr) -> usize {
        expr.own_relations().into_iter().for_each(|relation| self.relation(relation));
        let (mut own, mut size) = (0_usize, 0_usize);
        expr.walk(&mut |part| {
            let known = if let Node::Column(id) = &part.node { self.computed.get(id).copied() } else { None };
            (own, size) = (own + 1, size.saturating_add(known.unwrap_or(1)));
        });
        (self.own, self.written_out) = (self.own.saturating_add(own), self.written_out.saturating_add(size));
        size
    }
}
