//! Lists of values: IN, ANY and ALL.

use sqlparser::ast::{self, BinaryOperator};

use super::array_text::read_elements;
use super::{any, comparison, every, matching, negate_if, row};
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::functions::Function;
use crate::ir::literal::is_unknown;
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::expression::{ExpressionResolver, char_padding, compare, unify};
use crate::resolve::syntax::is_constant_list;

/// Longest IN list.
const LIST_MAX: usize = 10_000;

impl ExpressionResolver<'_> {
    pub(in crate::resolve::expression) fn in_list(
        &self,
        expr: &ast::Expr,
        list: &[ast::Expr],
        negated: bool,
    ) -> Result<Expr, Refusal> {
        if let Some(left) = row(expr) {
            if list.len() > LIST_MAX / 100 {
                return Err(Refusal::new(
                    reason::CONSTANT_TOO_LONG,
                    format!("an IN list of rows holds at most {} rows", LIST_MAX / 100),
                ));
            }
            let rows = list.iter().map(|item| match row(item) {
                Some(right) => self.rows(Function::Equal, &left, &right),
                None => Err(Refusal::new(
                    reason::ROW_COMPARISON,
                    "IN cannot compare a row with a single value",
                )),
            });
            return Ok(negate_if(negated, any(rows.collect::<Result<_, _>>()?)));
        }
        let items = list
            .iter()
            .map(|item| self.resolve(item))
            .collect::<Result<Vec<_>, _>>()?;
        let function = if matches!(list, [only] if is_constant_list(only)) {
            Function::Among
        } else {
            Function::In
        };
        let subject = self.resolve(expr)?;
        let items = if subject.data_type == Type::Float4 {
            self.as_real_elements(items)?
        } else {
            items
        };
        self.compare_with_list(function, subject, items, negated)
    }

    /// Several constants get a common type with the subject. With a real subject that is real, not
    /// float8 as for a single constant.
    fn as_real_elements(&self, items: Vec<Expr>) -> Result<Vec<Expr>, Refusal> {
        let is_constant = |item: &Expr| item.columns().is_empty() && item.relations().is_empty();
        let is_real = |of: &Type| {
            is_unknown(of)
                || matches!(
                    of,
                    Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4
                )
        };
        let constants: Vec<&Expr> = items.iter().filter(|item| is_constant(item)).collect();
        if constants.len() < 2 || !constants.iter().all(|item| is_real(&item.data_type)) {
            return Ok(items);
        }
        items
            .into_iter()
            .map(|item| {
                if is_constant(&item) {
                    self.cast_to(item, &Type::Float4)
                } else {
                    Ok(item)
                }
            })
            .collect()
    }

    fn compare_with_list(
        &self,
        function: Function,
        subject: Expr,
        items: Vec<Expr>,
        negated: bool,
    ) -> Result<Expr, Refusal> {
        if items.len() > LIST_MAX {
            return Err(Refusal::new(
                reason::CONSTANT_TOO_LONG,
                format!("an IN list holds at most {LIST_MAX} values"),
            ));
        }
        let mut subject = subject;
        let mut all = Vec::with_capacity(items.len() + 1);
        for item in items {
            let (left, right) = self.of_one_zone(subject, item, "IN")?;
            subject = left;
            all.push(right);
        }
        all.insert(0, subject);
        Ok(negate_if(
            negated,
            Expr::call(
                function,
                unify(char_padding::comparison_operands(all)?, "IN")?,
                Type::Bool,
            ),
        ))
    }

    /// `x = ANY (ARRAY[…])` and similar forms, over a constant array.
    pub(in crate::resolve::expression) fn any_of(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        array: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        self.quantify(left, op, array, Function::Equal, any)
    }

    pub(in crate::resolve::expression) fn all_of(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        array: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        self.quantify(left, op, array, Function::NotEqual, every)
    }

    /// `short` is the comparison that an IN list stands for.
    fn quantify(
        &self,
        left: &ast::Expr,
        op: &BinaryOperator,
        array: &ast::Expr,
        short: Function,
        combine: impl Fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, Refusal> {
        if let (Some((column, element)), Some(function)) =
            (self.array_column(array), comparison(op))
            && function == short
        {
            return self.among_elements(
                self.resolve(left)?,
                column,
                &element,
                short == Function::NotEqual,
            );
        }
        let elements = self.elements(array)?;
        let subject = self.resolve(left)?;
        if let Some((function, negated)) = matching(op) {
            let terms = elements.into_iter().map(|pattern| {
                self.match_pattern(function, subject.clone(), pattern, None, negated)
            });
            return Ok(combine(terms.collect::<Result<_, _>>()?));
        }
        let subject = char_padding::comparable_with_array(subject, &elements)?;
        let Some(function) = comparison(op) else {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_OPERATOR,
                format!("operator {op} with ANY or ALL"),
            ));
        };
        if function == short && !elements.is_empty() {
            return self.compare_with_list(
                Function::In,
                subject,
                elements,
                short == Function::NotEqual,
            );
        }
        if elements.len() > LIST_MAX / 100 {
            let most = LIST_MAX / 100;
            return Err(Refusal::new(
                reason::CONSTANT_TOO_LONG,
                format!("operator {op} with ANY or ALL takes at most {most} values"),
            ));
        }
        let terms = elements.into_iter().map(|element| {
            let (left, right) = self.of_one_zone(subject.clone(), element, "ANY")?;
            compare(self.constants, function, left, right, "ANY")
        });
        Ok(combine(terms.collect::<Result<_, _>>()?))
    }

    /// The elements of an array constant: `ARRAY[…]`, or its text with a cast.
    pub(in crate::resolve::expression) fn elements(
        &self,
        array: &ast::Expr,
    ) -> Result<Vec<Expr>, Refusal> {
        let no_array = || {
            Refusal::new(
                reason::CONSTANT_REQUIRED,
                "ANY and ALL take a constant array or an array column",
            )
            .hint(
                "Write ARRAY[1, 2, 3] or an IN list. Array columns support x = ANY (column) \
                        and x <> ALL (column).",
            )
        };
        match array {
            ast::Expr::Nested(inner) => self.elements(inner),
            ast::Expr::Array(ast::Array { elem, named: _ }) => {
                elem.iter().map(|e| self.resolve(e)).collect()
            }
            ast::Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type: ast::DataType::Array(element),
                format: None,
            } => {
                let ast::ArrayElemTypeDef::SquareBracket(element, None) = element else {
                    return Err(no_array());
                };
                let to = self.types.find(element)?;
                let elements = match expr.as_ref() {
                    ast::Expr::Value(ast::ValueWithSpan {
                        value:
                            ast::Value::SingleQuotedString(text)
                            | ast::Value::EscapedStringLiteral(text),
                        span: _,
                    }) => read_elements(text)
                        .ok_or_else(no_array)?
                        .into_iter()
                        .map(|text| Expr::literal(text.map(Scalar::Text), self.unknown()))
                        .collect(),
                    other => self.elements(other)?,
                };
                elements.into_iter().map(|e| self.cast_to(e, &to)).collect()
            }
            _ => Err(no_array()),
        }
    }
}
