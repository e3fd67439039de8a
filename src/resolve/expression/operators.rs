//! Operators: signs, arithmetic and concatenation.

use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::ExpressionResolver;
use super::types::{ends_in_prefix, operator_refused};
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, is_unknown, number_constant, type_name};
use crate::refusal::{Refusal, reason};

impl ExpressionResolver<'_> {
    pub(super) fn unary(&self, op: UnaryOperator, expr: &ast::Expr) -> Result<Expr, Refusal> {
        match op {
            UnaryOperator::Not => Ok(Expr::call(
                Function::Not,
                vec![self.condition(expr, "NOT")?],
                Type::Bool,
            )),
            UnaryOperator::Plus => self.resolve(expr),
            UnaryOperator::Minus => {
                if let ast::Expr::Value(ast::ValueWithSpan {
                    value: ast::Value::Number(text, _),
                    span: _,
                }) = expr
                {
                    return number_constant(&format!("-{text}"));
                }
                // In PostgreSQL the sign binds closer than the power.
                if let ast::Expr::BinaryOp {
                    left,
                    op: BinaryOperator::PGExp,
                    right,
                } = expr
                {
                    return self.call(
                        "^",
                        vec![
                            self.unary(UnaryOperator::Minus, left)?,
                            self.resolve(right)?,
                        ],
                    );
                }
                self.call("-", vec![self.resolve(expr)?])
            }
            UnaryOperator::PGAbs
            | UnaryOperator::PGSquareRoot
            | UnaryOperator::PGCubeRoot
            | UnaryOperator::BitwiseNot => self.call(&op.to_string(), vec![self.resolve(expr)?]),
            // What is left of BETWEEN SYMMETRIC where its operands cannot be written twice.
            UnaryOperator::PGPrefixFactorial => Err(Refusal::new(
                reason::UNSUPPORTED_EXPRESSION,
                "BETWEEN SYMMETRIC cannot contain a subquery or another BETWEEN SYMMETRIC",
            )),
            other => Err(operator_refused(other)),
        }
    }

    pub(super) fn binary(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        if let Some(truth) = self.operator_of_truth(left, op, right)? {
            return Ok(truth);
        }
        if let Some(part) = self.of_json(left, op, right)? {
            return Ok(part);
        }
        match op {
            BinaryOperator::And => Ok(Expr::call(
                Function::And,
                vec![self.condition(left, "AND")?, self.condition(right, "AND")?],
                Type::Bool,
            )),
            BinaryOperator::Or => Ok(Expr::call(
                Function::Or,
                vec![self.condition(left, "OR")?, self.condition(right, "OR")?],
                Type::Bool,
            )),
            BinaryOperator::StringConcat => {
                self.concatenation(self.resolve(left)?, self.resolve(right)?)
            }
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo => self.arithmetic(&op.to_string(), left, right),
            BinaryOperator::PGExp
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseXor => self.arithmetic(&op.to_string(), left, right),
            BinaryOperator::PGStartsWith => {
                self.call("^@", vec![self.value(left)?, self.value(right)?])
            }
            BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight => {
                self.arithmetic(&op.to_string(), left, right)
            }
            other => Err(operator_refused(other)),
        }
    }

    fn arithmetic(
        &self,
        symbol: &str,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        // PostgreSQL takes `@ a + 1` for `@ (a + 1)`.
        if ends_in_prefix(left) {
            return Err(Refusal::new(
                reason::UNSUPPORTED_SPELLING,
                "a prefix operator on the left of another operator must be in parentheses",
            )
            .hint(
                "Put it in parentheses, as in (@ x) + 1, or call the function, such as abs(x).",
            ));
        }
        let (mut a, mut b) = (self.resolve(left)?, self.resolve(right)?);
        // PostgreSQL takes an untyped constant for the other operand's type; what is added to a
        // timestamp can only be an interval.
        let type_for = |other: &Type| match other {
            Type::Timestamp | Type::Timestamptz if symbol == "+" => Type::Interval,
            other => other.clone(),
        };
        if is_unknown(&a.data_type) {
            a = coerce(a, &type_for(&b.data_type))?;
        } else if is_unknown(&b.data_type) {
            b = coerce(b, &type_for(&a.data_type))?;
        }
        self.call(symbol, vec![a, b])
    }

    /// `||`, where one side at least is text.
    fn concatenation(&self, left: Expr, right: Expr) -> Result<Expr, Refusal> {
        let is_text = |e: &Expr| is_unknown(&e.data_type) || e.data_type.is_string();
        if !is_text(&left) && !is_text(&right) {
            let (a, b) = (type_name(&left.data_type), type_name(&right.data_type));
            return Err(Refusal::new(
                reason::UNKNOWN_OPERATOR,
                format!("operator does not exist: {a} || {b}"),
            ));
        }
        self.call(
            "||",
            vec![
                self.to_text(left, &Type::Text)?,
                self.to_text(right, &Type::Text)?,
            ],
        )
    }
}
