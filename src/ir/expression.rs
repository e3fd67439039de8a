//! Typed expressions over the columns of one relation.

use super::functions::Function;
use super::relation::{ColumnId, ConstantId, Relation};
use crate::catalog::Type;
use crate::policy::Scalar;

/// A typed scalar expression over the columns of one relation.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub node: Node,
    pub data_type: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Column(ColumnId),
    /// `None` is NULL.
    Literal(Option<Scalar>),
    /// The one value of a middle query; as last argument of [`Function::Among`], all its values.
    Constant(ConstantId),
    Call {
        function: Function,
        arguments: Vec<Expr>,
    },
    /// Explicit or implicit cast to the node's type.
    Cast(Box<Expr>),
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    /// Some row of the relation meets the condition, which also reads the row around it. Never
    /// NULL.
    Exists {
        relation: Box<Relation>,
        condition: Option<Box<Expr>>,
    },
}

impl Expr {
    pub fn column(id: ColumnId, data_type: Type) -> Self {
        Self {
            node: Node::Column(id),
            data_type,
        }
    }

    pub fn literal(value: Option<Scalar>, data_type: Type) -> Self {
        Self {
            node: Node::Literal(value),
            data_type,
        }
    }

    pub fn call(function: Function, arguments: Vec<Expr>, data_type: Type) -> Self {
        Self {
            node: Node::Call {
                function,
                arguments,
            },
            data_type,
        }
    }

    /// Casts unless the type is that already.
    pub fn cast(self, to: Type) -> Self {
        if self.data_type == to {
            self
        } else {
            Self {
                node: Node::Cast(Box::new(self)),
                data_type: to,
            }
        }
    }

    pub fn and(conjuncts: Vec<Expr>) -> Option<Self> {
        let mut conjuncts = conjuncts;
        match conjuncts.len() {
            0 => None,
            1 => conjuncts.pop(),
            _ => Some(Self::call(Function::And, conjuncts, Type::Bool)),
        }
    }

    /// The top-level conjuncts of a condition.
    pub fn conjuncts(&self) -> Vec<&Expr> {
        match &self.node {
            Node::Call {
                function: Function::And,
                arguments,
            } => arguments.iter().flat_map(Expr::conjuncts).collect(),
            Node::Call { .. }
            | Node::Column(_)
            | Node::Literal(_)
            | Node::Constant(_)
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => {
                vec![self]
            }
        }
    }

    /// Calls `visit` on this node and everything below it.
    pub fn walk<'e>(&'e self, visit: &mut impl FnMut(&'e Expr)) {
        visit(self);
        match &self.node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => {}
            Node::Call {
                function: _,
                arguments,
            } => arguments.iter().for_each(|a| a.walk(visit)),
            Node::Cast(expr) => expr.walk(visit),
            Node::Case {
                branches,
                otherwise,
            } => {
                for (condition, result) in branches {
                    condition.walk(visit);
                    result.walk(visit);
                }
                if let Some(expr) = otherwise {
                    expr.walk(visit);
                }
            }
            Node::Exists {
                relation,
                condition,
            } => {
                relation.walk_expressions(visit);
                if let Some(expr) = condition {
                    expr.walk(visit);
                }
            }
        }
    }

    /// Every column that the expression reads, once each, in order of first mention.
    pub fn columns(&self) -> Vec<ColumnId> {
        let mut found = Vec::new();
        self.walk(&mut |e| {
            if let Node::Column(id) = e.node
                && !found.contains(&id)
            {
                found.push(id);
            }
        });
        found
    }

    /// The relations of the subqueries in it, at any depth.
    pub fn relations(&self) -> Vec<&Relation> {
        let mut found = Vec::new();
        self.walk(&mut |e| {
            if let Node::Exists {
                relation,
                condition: _,
            } = &e.node
            {
                found.push(relation.as_ref());
            }
        });
        found
    }

    /// The relations of its direct subqueries, without those nested in them.
    pub fn own_relations(&self) -> Vec<&Relation> {
        match &self.node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => Vec::new(),
            Node::Call {
                function: _,
                arguments,
            } => arguments.iter().flat_map(Expr::own_relations).collect(),
            Node::Cast(inner) => inner.own_relations(),
            Node::Case {
                branches,
                otherwise,
            } => {
                let all = branches
                    .iter()
                    .flat_map(|(c, r)| [c, r])
                    .chain(otherwise.as_deref());
                all.flat_map(Expr::own_relations).collect()
            }
            Node::Exists {
                relation,
                condition,
            } => std::iter::once(relation.as_ref())
                .chain(condition.iter().flat_map(|c| c.own_relations()))
                .collect(),
        }
    }

    /// The columns that it reads from its own row, without columns of the rows of its subqueries.
    pub fn free_columns(&self) -> Vec<ColumnId> {
        let inner: Vec<ColumnId> = self
            .relations()
            .into_iter()
            .flat_map(Relation::made_at_any_depth)
            .collect();
        self.columns()
            .into_iter()
            .filter(|id| !inner.contains(id))
            .collect()
    }

    /// The expression with each part that `replace` knows replaced, the outermost first.
    pub fn replace_parts(self, replace: &impl Fn(&Expr) -> Option<Expr>) -> Self {
        if let Some(replaced) = replace(&self) {
            return replaced;
        }
        let Self { node, data_type } = self;
        let boxed = |e: Box<Expr>| Box::new(e.replace_parts(replace));
        let node = match node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => node,
            Node::Call {
                function,
                arguments,
            } => Node::Call {
                function,
                arguments: arguments
                    .into_iter()
                    .map(|a| a.replace_parts(replace))
                    .collect(),
            },
            Node::Cast(inner) => Node::Cast(boxed(inner)),
            Node::Case {
                branches,
                otherwise,
            } => Node::Case {
                branches: branches
                    .into_iter()
                    .map(|(c, r)| (c.replace_parts(replace), r.replace_parts(replace)))
                    .collect(),
                otherwise: otherwise.map(boxed),
            },
            Node::Exists {
                relation,
                condition,
            } => Node::Exists {
                relation,
                condition: condition.map(boxed),
            },
        };
        Self { node, data_type }
    }

    /// The column, if the expression is nothing else.
    pub fn as_column(&self) -> Option<ColumnId> {
        match self.node {
            Node::Column(id) => Some(id),
            Node::Literal(_)
            | Node::Constant(_)
            | Node::Call { .. }
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => None,
        }
    }

    pub fn as_literal(&self) -> Option<&Scalar> {
        match &self.node {
            Node::Literal(value) => value.as_ref(),
            Node::Column(_)
            | Node::Constant(_)
            | Node::Call { .. }
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => None,
        }
    }
}
