//! Aggregate calls, and the aggregates that a release computes for them.

use sqlparser::ast;

use super::ExpressionResolver;
use super::types::known_type;
use crate::aggregates::call::{Call, ValuesAndArray, form};
use crate::aggregates::resolve_call;
use crate::catalog::Type;
use crate::ir::aggregate::{Aggregate, Distinct, MILLIONTHS};
use crate::ir::expression::{Expr, Node};
use crate::parse::FunctionCall;
use crate::policy::{RecordAggregate, RecordField, Scalar, VIEW_SCHEMA};
use crate::refusal::{Refusal, TextPosition, reason};
use crate::resolve::syntax::{
    called_name, contains_aggregate, name_of, place_of, position, record_called,
};

/// Resolves an aggregate call over the rows of `expressions`' scope.
///
/// # Errors
/// 42803 for nested aggregates, 42883 for argument types that PostgreSQL has no such aggregate for,
/// 0A000 for forms without a known sound answer.
pub fn aggregate(
    function: &ast::Function,
    expressions: &ExpressionResolver<'_>,
) -> Result<Aggregate, Refusal> {
    field_of(function, None, expressions)
}

/// As [`aggregate`], of a field of the record that it gives.
///
/// # Errors
/// As [`aggregate`]; 42703 for a field that the record does not have.
pub fn aggregate_field(
    function: &ast::Function,
    field: &ast::Ident,
    expressions: &ExpressionResolver<'_>,
) -> Result<Aggregate, Refusal> {
    let name = name_of(field)?;
    let Some(record) = record_called(function) else {
        return Err(Refusal::new(
            reason::UNSUPPORTED_AGGREGATE,
            format!("this aggregate gives a single value, which has no field {name}"),
        )
        .at(position(field.span)));
    };
    let known = record.field(&name).ok_or_else(|| {
        let RecordAggregate { name: of, .. } = record;
        Refusal::new(
            reason::UNKNOWN_COLUMN,
            format!("column \"{name}\" not found in data type {VIEW_SCHEMA}.{of}_result"),
        )
        .at(position(field.span))
    })?;
    field_of(function, Some(known), expressions)
}

fn field_of(
    function: &ast::Function,
    field: Option<&'static RecordField>,
    expressions: &ExpressionResolver<'_>,
) -> Result<Aggregate, Refusal> {
    let name = called_name(function)
        .ok_or_else(|| Refusal::unsupported(reason::UNSUPPORTED_AGGREGATE, "this aggregate"))?;
    let this_form = || {
        Refusal::unsupported(
            reason::UNSUPPORTED_AGGREGATE,
            format!("this form of {name}()"),
        )
    };
    let call = FunctionCall::of(function).ok_or_else(this_form)?;
    let (arguments, is_distinct) = call.list().ok_or_else(this_form)?;
    let filter = match call.filter {
        Some(expr) if contains_aggregate(expr) => {
            return Err(Refusal::new(
                reason::MISPLACED_AGGREGATE,
                "aggregate functions are not allowed in FILTER",
            ));
        }
        Some(expr) => Some(expressions.condition(expr, "FILTER")?),
        None => None,
    };
    let (operation, data_type) = resolve_call(&Called {
        name: &name,
        is_distinct,
        arguments,
        ordering: call.within_group,
        is_over: call.over.is_some(),
        field,
        expressions,
    })?;
    Ok(Aggregate {
        operation,
        filter,
        data_type,
        place: TextPosition(place_of(function)),
    })
}

/// A call whose name and clauses are known.
struct Called<'c> {
    name: &'c str,
    is_distinct: bool,
    arguments: &'c [ast::FunctionArg],
    /// WITHIN GROUP (ORDER BY …).
    ordering: &'c [ast::OrderByExpr],
    /// Whether the call is a window over groups, whose aggregates it may read.
    is_over: bool,
    field: Option<&'static RecordField>,
    expressions: &'c ExpressionResolver<'c>,
}

impl Called<'_> {
    /// A constant between 0 and 1, in millionths.
    fn fraction(&self, resolved: &Expr) -> Result<u32, Refusal> {
        let mut value = resolved;
        while let Node::Cast(inner) = &value.node {
            value = inner;
        }
        let number = match value.as_literal() {
            Some(Scalar::Int(number)) => *number as f64,
            Some(Scalar::Decimal(text) | Scalar::Text(text)) => text.parse().unwrap_or(f64::NAN),
            _ => {
                return Err(Refusal::new(
                    reason::PERCENTILE_FRACTION,
                    format!("the fraction of {}() must be a constant", self.name),
                ));
            }
        };
        if !(0.0..=1.0).contains(&number) {
            return Err(Refusal::new(
                reason::VALUE_OUT_OF_RANGE,
                format!("percentile value {number} is not between 0 and 1"),
            ));
        }
        Ok((number * f64::from(MILLIONTHS)).round() as u32)
    }

    fn array_form(&self) -> Refusal {
        let name = self.name.rsplit('.').next();
        let example = name
            .and_then(RecordAggregate::by_name)
            .map_or("", |record| record.example);
        form(self.name).hint(format!(
            "Write the array out, as in {}({example}).",
            self.name
        ))
    }

    fn only(&self) -> Result<&ast::Expr, Refusal> {
        match self.arguments {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] => Ok(expr),
            _ => Err(form(self.name)),
        }
    }

    fn resolve_value(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        if !self.is_over && contains_aggregate(expr) {
            return Err(Refusal::new(
                reason::MISPLACED_AGGREGATE,
                "aggregate function calls cannot be nested",
            ));
        }
        self.expressions.value(expr)
    }
}

impl Call for Called<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn is_distinct(&self) -> bool {
        self.is_distinct
    }

    fn is_ordered(&self) -> bool {
        !self.ordering.is_empty()
    }

    fn is_of_rows(&self) -> bool {
        matches!(
            self.arguments,
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
        )
    }

    fn has_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    fn value(&self) -> Result<Expr, Refusal> {
        self.resolve_value(self.only()?)
    }

    fn pair(&self) -> Result<(Expr, Expr), Refusal> {
        let [
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(y)),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(x)),
        ] = self.arguments
        else {
            return Err(form(self.name));
        };
        Ok((self.resolve_value(y)?, self.resolve_value(x)?))
    }

    fn values_and_array(&self, values: usize) -> Result<ValuesAndArray, Refusal> {
        let written = self.arguments.iter().map(|argument| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        let written: Vec<&ast::Expr> = written
            .collect::<Option<_>>()
            .ok_or_else(|| form(self.name).hint("Write the arguments without names."))?;
        let resolved = |exprs: &[&ast::Expr]| -> Result<Vec<Expr>, Refusal> {
            exprs.iter().map(|expr| self.resolve_value(expr)).collect()
        };
        let (before, [ast::Expr::Array(array), rest @ ..]) =
            written.split_at(values.min(written.len()))
        else {
            return Err(self.array_form());
        };
        let elements: Vec<&ast::Expr> = array.elem.iter().collect();
        Ok(ValuesAndArray {
            values: resolved(before)?,
            elements: resolved(&elements)?,
            constant: match rest {
                [] => None,
                [constant] => Some(self.resolve_value(constant)?),
                _ => return Err(self.array_form()),
            },
        })
    }

    fn field(&self) -> Option<&'static RecordField> {
        self.field
    }

    fn values(&self) -> Result<Distinct, Refusal> {
        match self.only()? {
            ast::Expr::Tuple(items) => {
                let values = items.iter().map(|item| self.resolve_value(item));
                Ok(Distinct::Row(values.collect::<Result<_, _>>()?))
            }
            expr => Ok(Distinct::Value(self.resolve_value(expr)?)),
        }
    }

    fn within_group_value(&self) -> Result<(Expr, bool), Refusal> {
        let [
            ast::OrderByExpr {
                expr,
                options:
                    ast::OrderByOptions {
                        sort,
                        nulls_first: None,
                    },
                with_fill: None,
            },
        ] = self.ordering
        else {
            return Err(Refusal::new(
                reason::PERCENTILE_FRACTION,
                format!(
                    "{}() takes exactly one value in WITHIN GROUP (ORDER BY …)",
                    self.name
                ),
            ));
        };
        let descending = match sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(ast::OrderBySort::Using(_)) => return Err(form(self.name)),
        };
        Ok((self.resolve_value(expr)?, descending))
    }

    fn fractions(&self) -> Result<(Vec<u32>, bool), Refusal> {
        let expr = self.only()?;
        if contains_aggregate(expr) || !is_array(expr) {
            let only = self.resolve_value(expr)?;
            return Ok((vec![self.fraction(&only)?], false));
        }
        let all = self.expressions.elements(expr)?;
        let all = all.iter().map(|fraction| self.fraction(fraction));
        Ok((all.collect::<Result<_, _>>()?, true))
    }
}

/// Whether the expression is an array constant of numbers: `ARRAY[…]`, or a cast to such an array.
fn is_array(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_array(inner),
        ast::Expr::Array(_) => true,
        ast::Expr::Cast {
            data_type: ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)),
            ..
        } => matches!(
            known_type(element),
            Some(Type::Float4 | Type::Float8 | Type::Numeric(_))
        ),
        _ => false,
    }
}
