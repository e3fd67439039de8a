//! Subscripts of arrays above the cut, also of arrays that are fields of a record.

use std::borrow::Cow;

use sqlparser::ast;

use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::cut::OuterPlace;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{record_field, unsupported_above};

impl Resolver<'_> {
    /// Subscripts, also of a field of a record that an aggregate gives.
    pub(super) fn above_accesses(
        &mut self,
        (root, chain): (&ast::Expr, &[ast::AccessExpr]),
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let of =
            |root: &ast::Expr, access_chain: &[ast::AccessExpr]| ast::Expr::CompoundFieldAccess {
                root: Box::new(root.clone()),
                access_chain: access_chain.to_vec(),
            };
        let (root, chain) = match (&*place, chain) {
            (OuterPlace::Cut(_), [field, rest @ ..]) if !rest.is_empty() => {
                match of(root, std::slice::from_ref(field)) {
                    first if record_field(&first).is_some() => {
                        (Cow::Owned(ast::Expr::Nested(Box::new(first))), rest)
                    }
                    _ => (Cow::Borrowed(root), chain),
                }
            }
            _ => (Cow::Borrowed(root), chain),
        };
        Ok(ast::Expr::CompoundFieldAccess {
            root: Box::new(self.above(&root, environment, place)?),
            access_chain: chain
                .iter()
                .map(|access| self.above_access(access, environment, place))
                .collect::<Result<_, _>>()?,
        })
    }

    fn above_access(
        &mut self,
        access: &ast::AccessExpr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::AccessExpr, Refusal> {
        use ast::{AccessExpr, Subscript};
        let mut maybe = |e: &Option<ast::Expr>| {
            e.as_ref()
                .map(|e| self.above(e, environment, place))
                .transpose()
        };
        Ok(AccessExpr::Subscript(match access {
            AccessExpr::Subscript(Subscript::Index { index }) => Subscript::Index {
                index: self.above(index, environment, place)?,
            },
            AccessExpr::Subscript(Subscript::Slice {
                lower_bound,
                upper_bound,
                stride: None,
            }) => Subscript::Slice {
                lower_bound: maybe(lower_bound)?,
                upper_bound: maybe(upper_bound)?,
                stride: None,
            },
            AccessExpr::Subscript(Subscript::Slice {
                stride: Some(_), ..
            })
            | AccessExpr::Dot(_) => {
                return Err(unsupported_above(
                    reason::UNSUPPORTED_EXPRESSION,
                    "a field of a row value",
                ));
            }
        }))
    }
}
