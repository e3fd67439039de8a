//! The size of expressions once the columns that they read are replaced by their definitions. A
//! derived table can double what the one below it computes. So a statement of a few hundred words
//! could expand to more expressions than fit into memory, or to deeper ones than fit onto a stack.
//! After this check every stage may follow definitions to the end.

use std::collections::HashMap;

use crate::ir::{ColumnId, Expr, Node, Relation, Release};
use crate::refusal::{Refusal, reason};

/// Most nodes of one expression: a chain of 5,000 terms has some ten for each.
const NODES_MAX: usize = 100_000;
/// Most nodes of all expressions of a statement together.
const ALL_MAX: usize = 400_000;
/// Deepest expression. An expression written in one piece is less deep.
const DEPTH_MAX: usize = 400;

/// Refuses a statement whose expressions are too large.
///
/// # Errors
/// 54001.
pub(super) fn check(releases: &[Release]) -> Result<(), Refusal> {
    let mut sizes = Sizes::default();
    for release in releases {
        sizes.relation(&release.input)?;
        for expr in release.keys.iter().map(|key| &key.expr).chain(
            release
                .aggregates
                .iter()
                .flat_map(|aggregate| aggregate.reads()),
        ) {
            sizes.add(expr)?;
        }
    }
    Ok(())
}

/// The size of an expression with everything that it is computed from.
#[derive(Debug, Clone, Copy)]
struct Size {
    nodes: usize,
    depth: usize,
}

impl Size {
    const LEAF: Self = Self { nodes: 1, depth: 1 };

    fn plus(self, other: Self) -> Self {
        Self {
            nodes: self.nodes.saturating_add(other.nodes),
            depth: self.depth.max(other.depth),
        }
    }
}

#[derive(Default)]
struct Sizes {
    /// Sizes of computed columns, those below first: no definition is followed twice.
    known: HashMap<ColumnId, Size>,
    all: usize,
}

impl Sizes {
    /// Everything that is evaluated in a relation.
    fn relation(&mut self, relation: &Relation) -> Result<Size, Refusal> {
        let mut whole = Size::LEAF;
        for input in relation.inputs() {
            whole = whole.plus(self.relation(input)?);
        }
        if let Relation::Project { input: _, columns } = relation {
            for (id, expr) in columns {
                let size = self.add(expr)?;
                self.known.insert(*id, size);
                whole = whole.plus(size);
            }
            return Ok(whole);
        }
        for expr in relation.expressions() {
            whole = whole.plus(self.add(expr)?);
        }
        Ok(whole)
    }

    fn add(&mut self, expr: &Expr) -> Result<Size, Refusal> {
        let size = self.of(expr)?;
        self.all = self.all.saturating_add(size.nodes);
        if size.nodes > NODES_MAX || size.depth > DEPTH_MAX || self.all > ALL_MAX {
            let limits = format!(
                "With its inputs written out it may have {NODES_MAX} parts, nested {DEPTH_MAX} \
                    deep; one statement may have {ALL_MAX}."
            );
            return Err(Refusal::new(
                reason::EXPRESSION_TOO_COMPLEX,
                "an expression over private rows is too complex",
            )
            .detail(limits));
        }
        Ok(size)
    }

    fn of(&mut self, expr: &Expr) -> Result<Size, Refusal> {
        let parts: Vec<&Expr> = match &expr.node {
            Node::Column(id) => return Ok(self.known.get(id).copied().unwrap_or(Size::LEAF)),
            Node::Literal(_) | Node::Constant(_) => return Ok(Size::LEAF),
            Node::Call {
                function: _,
                arguments,
            } => arguments.iter().collect(),
            Node::Cast(inner) => vec![inner],
            Node::Case {
                branches,
                otherwise,
            } => branches
                .iter()
                .flat_map(|(c, r)| [c, r])
                .chain(otherwise.as_deref())
                .collect(),
            Node::Exists {
                relation,
                condition,
            } => {
                let found = self.relation(relation)?;
                let met = condition
                    .as_ref()
                    .map(|c| self.of(c))
                    .transpose()?
                    .unwrap_or(Size::LEAF);
                return Ok(within(found.plus(met)));
            }
        };
        let mut whole = Size { nodes: 0, depth: 0 };
        for part in parts {
            whole = whole.plus(self.of(part)?);
        }
        Ok(within(whole))
    }
}

fn within(parts: Size) -> Size {
    Size {
        nodes: parts.nodes.saturating_add(1),
        depth: parts.depth + 1,
    }
}
