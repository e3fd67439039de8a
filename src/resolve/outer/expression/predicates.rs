//! Predicates above the cut: comparisons, lists and patterns.

use sqlparser::ast;

use crate::refusal::Refusal;
use crate::resolve::Resolver;
use crate::resolve::cut::OuterPlace;
use crate::resolve::names::environment::Environment;
use crate::resolve::outer::allow_list;

impl Resolver<'_> {
    /// Operators and tests.
    pub(super) fn above_predicate(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        Ok(match expr {
            E::IsNull(e) => E::IsNull(one(self, e, place)?),
            E::IsNotNull(e) => E::IsNotNull(one(self, e, place)?),
            E::IsTrue(e) => E::IsTrue(one(self, e, place)?),
            E::IsNotTrue(e) => E::IsNotTrue(one(self, e, place)?),
            E::IsFalse(e) => E::IsFalse(one(self, e, place)?),
            E::IsNotFalse(e) => E::IsNotFalse(one(self, e, place)?),
            E::IsUnknown(e) => E::IsUnknown(one(self, e, place)?),
            E::IsNotUnknown(e) => E::IsNotUnknown(one(self, e, place)?),
            E::IsDistinctFrom(a, b) => {
                E::IsDistinctFrom(one(self, a, place)?, one(self, b, place)?)
            }
            E::IsNotDistinctFrom(a, b) => {
                E::IsNotDistinctFrom(one(self, a, place)?, one(self, b, place)?)
            }
            E::UnaryOp { op, expr } => {
                allow_list::check_unary(*op)?;
                E::UnaryOp {
                    op: *op,
                    expr: one(self, expr, place)?,
                }
            }
            E::BinaryOp { left, op, right } => {
                allow_list::check_binary(op)?;
                E::BinaryOp {
                    left: one(self, left, place)?,
                    op: op.clone(),
                    right: one(self, right, place)?,
                }
            }
            E::Between {
                expr,
                negated,
                low,
                high,
            } => E::Between {
                expr: one(self, expr, place)?,
                negated: *negated,
                low: one(self, low, place)?,
                high: one(self, high, place)?,
            },
            E::InList {
                expr,
                list,
                negated,
            } => {
                let list = self.above_all(list, environment, place)?;
                E::InList {
                    expr: one(self, expr, place)?,
                    list,
                    negated: *negated,
                }
            }
            other => self.above_match(other, environment, place)?,
        })
    }

    /// LIKE, ILIKE and SIMILAR TO.
    fn above_match(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        let maybe = |this: &mut Self, e: &Option<Box<ast::Expr>>, place: &mut OuterPlace<'_>| {
            e.as_ref()
                .map(|e| this.above(e, environment, place).map(Box::new))
                .transpose()
        };
        Ok(match expr {
            E::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => E::Like {
                negated: *negated,
                any: false,
                expr: one(self, expr, place)?,
                pattern: one(self, pattern, place)?,
                escape_char: maybe(self, escape_char, place)?,
            },
            E::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char,
            } => E::ILike {
                negated: *negated,
                any: false,
                expr: one(self, expr, place)?,
                pattern: one(self, pattern, place)?,
                escape_char: maybe(self, escape_char, place)?,
            },
            E::SimilarTo {
                negated,
                expr,
                pattern,
                escape_char,
            } => E::SimilarTo {
                negated: *negated,
                expr: one(self, expr, place)?,
                pattern: one(self, pattern, place)?,
                escape_char: maybe(self, escape_char, place)?,
            },
            other => self.above_grammar(other, environment, place)?,
        })
    }
}
