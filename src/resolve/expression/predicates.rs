//! Expressions with special syntax: comparisons of values and rows, lists, patterns and CASE.

mod array_text;
mod lists;

pub(super) use array_text::read_elements;
use sqlparser::ast::{self, BinaryOperator};

use super::{ExpressionResolver, char_padding, compare, of_all, pattern, unify_branches};
use crate::catalog::Type;
use crate::ir::evaluate::fold;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, is_unknown, type_name};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// The comparison that an operator stands for.
fn comparison(op: &BinaryOperator) -> Option<Function> {
    match op {
        BinaryOperator::Eq => Some(Function::Equal),
        BinaryOperator::NotEq => Some(Function::NotEqual),
        BinaryOperator::Lt => Some(Function::Less),
        BinaryOperator::LtEq => Some(Function::LessOrEqual),
        BinaryOperator::Gt => Some(Function::Greater),
        BinaryOperator::GtEq => Some(Function::GreaterOrEqual),
        _ => None,
    }
}

/// The operator of a pattern match: its function, and whether it is negated.
fn matching(op: &BinaryOperator) -> Option<(Function, bool)> {
    match op {
        BinaryOperator::PGLikeMatch => Some((Function::Like, false)),
        BinaryOperator::PGNotLikeMatch => Some((Function::Like, true)),
        BinaryOperator::PGILikeMatch => Some((Function::ILike, false)),
        BinaryOperator::PGNotILikeMatch => Some((Function::ILike, true)),
        BinaryOperator::PGRegexMatch => Some((Function::Matches, false)),
        BinaryOperator::PGRegexNotMatch => Some((Function::Matches, true)),
        BinaryOperator::PGRegexIMatch => Some((Function::MatchesInsensitive, false)),
        BinaryOperator::PGRegexNotIMatch => Some((Function::MatchesInsensitive, true)),
        _ => None,
    }
}

/// The fields of a row value.
fn row(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    match expr {
        ast::Expr::Nested(inner) => row(inner),
        ast::Expr::Tuple(fields) => Some(fields.iter().collect()),
        ast::Expr::Function(ast::Function {
            name,
            args: ast::FunctionArguments::List(list),
            ..
        }) if name.to_string().eq_ignore_ascii_case("row") => {
            let field = |argument: &'_ ast::FunctionArg| {
                matches!(
                    argument,
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(_))
                )
            };
            if !list.args.iter().all(field) {
                return None;
            }
            let fields = list.args.iter().filter_map(|a| match a {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            Some(fields.collect())
        }
        _ => None,
    }
}

fn any(terms: Vec<Expr>) -> Expr {
    crate::parse::join_terms(terms, &|a, b| {
        Expr::call(Function::Or, vec![a, b], Type::Bool)
    })
    .unwrap_or(Expr::literal(Some(Scalar::Bool(false)), Type::Bool))
}

fn every(terms: Vec<Expr>) -> Expr {
    Expr::and(terms).unwrap_or(Expr::literal(Some(Scalar::Bool(true)), Type::Bool))
}

pub(super) fn negate_if(negated: bool, expr: Expr) -> Expr {
    if negated {
        Expr::call(Function::Not, vec![expr], Type::Bool)
    } else {
        expr
    }
}

impl ExpressionResolver<'_> {
    /// A comparison or a pattern match written as an operator; `None` for any other operator.
    pub(super) fn operator_of_truth(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Option<Expr>, Refusal> {
        if let Some(function) = comparison(op) {
            let expr = match (row(left), row(right)) {
                (Some(left), Some(right)) => self.rows(function, &left, &right)?,
                _ => self.compare(function, left, right, &op.to_string())?,
            };
            return Ok(Some(expr));
        }
        if let Some((function, negated)) = matching(op) {
            return self.like(function, left, right, None, negated).map(Some);
        }
        if *op == BinaryOperator::Overlaps {
            let (Some(left), Some(right)) = (row(left), row(right)) else {
                return Err(Refusal::new(
                    reason::ROW_COMPARISON,
                    "OVERLAPS takes two rows, as in (a, b) OVERLAPS (c, d)",
                ));
            };
            let ends = left
                .into_iter()
                .chain(right)
                .map(|e| self.resolve(e))
                .collect::<Result<Vec<_>, _>>()?;
            return self.call("overlaps", ends).map(Some);
        }
        Ok(None)
    }

    pub(super) fn compare(
        &self,
        function: Function,
        left: &ast::Expr,
        right: &ast::Expr,
        symbol: &str,
    ) -> Result<Expr, Refusal> {
        let (left, right) = (self.resolve(left)?, self.resolve(right)?);
        let (left, right) = self.of_one_zone(left, right, symbol)?;
        compare(self.constants, function, left, right, symbol)
    }

    /// A date or timestamp compared with a timestamptz: in a session with TimeZone UTC both mean
    /// the same instants, so a constant is read as the type of the other side.
    fn of_one_zone(&self, left: Expr, right: Expr, symbol: &str) -> Result<(Expr, Expr), Refusal> {
        let is_local = |e: &Expr| matches!(e.data_type, Type::Date | Type::Timestamp);
        let is_zoned = |e: &Expr| e.data_type == Type::Timestamptz;
        if !(is_local(&left) && is_zoned(&right) || is_zoned(&left) && is_local(&right)) {
            return Ok((left, right));
        }
        self.constants.require_utc(&format!(
            "{symbol} between timestamps with and without time zone"
        ))?;
        let local = |e: Expr| match e.node {
            Node::Literal(value) if e.data_type == Type::Timestamptz => {
                Expr::literal(value, Type::Timestamp)
            }
            _ => e,
        };
        Ok((local(left), local(right)))
    }

    /// Rows are equal field by field, and ordered by the first field that differs.
    fn rows(
        &self,
        function: Function,
        left: &[&ast::Expr],
        right: &[&ast::Expr],
    ) -> Result<Expr, Refusal> {
        if left.len() != right.len() || left.is_empty() {
            return Err(Refusal::new(
                reason::COLUMN_COUNT,
                "unequal number of entries in row expressions",
            ));
        }
        if left.len() > 8 {
            return Err(Refusal::new(
                reason::ROW_COMPARISON,
                "a row comparison takes at most 8 fields",
            ));
        }
        let each = |function: Function| {
            left.iter()
                .zip(right)
                .map(|(a, b)| self.compare(function, a, b, "="))
                .collect::<Result<Vec<_>, _>>()
        };
        let strict = match function {
            Function::Equal => return each(Function::Equal).map(every),
            Function::NotEqual => return each(Function::NotEqual).map(any),
            Function::Less | Function::LessOrEqual => Function::Less,
            _ => Function::Greater,
        };
        let (equal, ordered) = (each(Function::Equal)?, each(strict)?);
        let Some(mut result) = each(function)?.pop() else {
            return Err(Refusal::unsupported(
                reason::ROW_COMPARISON,
                "a comparison of empty rows",
            ));
        };
        for (equal, ordered) in equal.into_iter().zip(ordered).rev().skip(1) {
            let beyond = Expr::call(Function::And, vec![equal, result], Type::Bool);
            result = Expr::call(Function::Or, vec![ordered, beyond], Type::Bool);
        }
        Ok(result)
    }

    pub(super) fn between(
        &self,
        expr: &ast::Expr,
        negated: bool,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        let at_least = self.compare(Function::GreaterOrEqual, expr, low, ">=")?;
        let at_most = self.compare(Function::LessOrEqual, expr, high, "<=")?;
        Ok(negate_if(
            negated,
            Expr::call(Function::And, vec![at_least, at_most], Type::Bool),
        ))
    }

    pub(super) fn like(
        &self,
        function: Function,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
    ) -> Result<Expr, Refusal> {
        let escape = escape
            .map(|e| self.constant_text(self.value(e)?, "ESCAPE"))
            .transpose()?;
        self.match_pattern(
            function,
            self.value(expr)?,
            self.value(pattern)?,
            escape.as_deref(),
            negated,
        )
    }

    /// `x LIKE ANY (ARRAY[…])`.
    pub(super) fn like_any(
        &self,
        function: Function,
        expr: &ast::Expr,
        patterns: &ast::Expr,
        negated: bool,
    ) -> Result<Expr, Refusal> {
        let subject = self.value(expr)?;
        let terms = self
            .elements(patterns)?
            .into_iter()
            .map(|pattern| self.match_pattern(function, subject.clone(), pattern, None, negated));
        Ok(any(terms.collect::<Result<_, _>>()?))
    }

    /// A match of a text with a constant pattern, checked.
    fn match_pattern(
        &self,
        function: Function,
        subject: Expr,
        pattern: Expr,
        escape: Option<&str>,
        negated: bool,
    ) -> Result<Expr, Refusal> {
        let subject = coerce_text(char_padding::padded_if_char(subject)?)?;
        let text = self.constant_text(pattern, "a pattern")?;
        let pattern = match function {
            Function::Like | Function::ILike => pattern::like(&text, escape)?,
            Function::SimilarTo => pattern::similar(&text, escape)?,
            _ => {
                pattern::regex(&text)?;
                text
            }
        };
        let pattern = Expr::literal(Some(Scalar::Text(pattern)), Type::Text);
        Ok(negate_if(
            negated,
            Expr::call(function, vec![subject, pattern], Type::Bool),
        ))
    }

    fn constant_text(&self, expr: Expr, what: &str) -> Result<String, Refusal> {
        let expr = coerce_text(expr)?;
        match expr.as_literal() {
            Some(Scalar::Text(text)) => Ok(text.clone()),
            _ => Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                format!("{what} must be a constant"),
            )),
        }
    }

    pub(super) fn case(
        &self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Expr, Refusal> {
        let mut tests = Vec::new();
        let mut results = Vec::new();
        for ast::CaseWhen { condition, result } in conditions {
            tests.push(match operand {
                Some(operand) => self.compare(Function::Equal, operand, condition, "=")?,
                None => self.condition(condition, "CASE/WHEN")?,
            });
            results.push(self.resolve(result)?);
        }
        let has_otherwise = otherwise.is_some();
        if let Some(expr) = otherwise {
            results.push(self.resolve(expr)?);
        }
        self.constants
            .require_one_zone(results.iter().map(|e| &e.data_type), "CASE")?;
        // In PostgreSQL the type of the ELSE branch comes first.
        results.rotate_right(usize::from(has_otherwise));
        let mut results = unify_branches(results, "CASE")?;
        results.rotate_left(usize::from(has_otherwise));
        let data_type = of_all(&results).ok_or_else(|| {
            Refusal::unsupported(reason::UNSUPPORTED_EXPRESSION, "CASE without WHEN")
        })?;
        let otherwise = if has_otherwise {
            results.pop().map(Box::new)
        } else {
            None
        };
        Ok(Expr {
            node: Node::Case {
                branches: tests.into_iter().zip(results).collect(),
                otherwise,
            },
            data_type,
        })
    }
}

pub(super) fn coerce_text(expr: Expr) -> Result<Expr, Refusal> {
    match &expr.data_type {
        Type::Text => Ok(expr),
        Type::Varchar(_) => Ok(expr.cast(Type::Text)),
        Type::Char(_) => Ok(fold(expr.cast(Type::Text))),
        other if is_unknown(other) => coerce(expr, &Type::Text),
        other => Err(Refusal::unsupported(
            reason::UNSUPPORTED_OPERATOR,
            format!("pattern matching on type {}", type_name(other)),
        )),
    }
}
