//! Aggregate calls: which they are, and what a release computes for them.

use sqlparser::ast;

use super::Expressions;
use crate::catalog::Type;
use crate::ir::aggregate::{
    Aggregate, Distinct, End, Fractions, MILLIONTHS, Moment, Operation, Paired, Quantifier,
    VarianceKind,
};
use crate::ir::expression::{Expr, Node};
use crate::ir::literal::type_name;
use crate::policy::Scalar;
use crate::refusal::{Refusal, TextPosition, reason};
use crate::resolve::syntax::{called_name, contains_aggregate, place_of};

/// Resolves an aggregate call over the rows of `expressions`' scope.
///
/// # Errors
/// 42803 for nested aggregates, 42883 for argument types that PostgreSQL has no such aggregate for,
/// 0A000 for forms without a known sound answer.
pub fn aggregate(
    function: &ast::Function,
    expressions: &Expressions<'_>,
) -> Result<Aggregate, Refusal> {
    let ast::Function {
        name: _,
        uses_odbc_syntax,
        parameters,
        args,
        within_group,
        filter,
        null_treatment,
        over,
    } = function;
    let name = called_name(function)
        .ok_or_else(|| Refusal::unsupported(reason::UNSUPPORTED_AGGREGATE, "this aggregate"))?;
    let this_form = || {
        Refusal::unsupported(
            reason::UNSUPPORTED_AGGREGATE,
            format!("this form of {name}()"),
        )
    };
    let ast::FunctionArguments::List(ast::FunctionArgumentList {
        duplicate_treatment,
        args,
        clauses,
    }) = args
    else {
        return Err(this_form());
    };
    if *uses_odbc_syntax
        || !matches!(parameters, ast::FunctionArguments::None)
        || null_treatment.is_some()
        || !clauses.is_empty()
    {
        return Err(this_form());
    }
    let filter = match filter.as_deref() {
        Some(expr) if contains_aggregate(expr) => {
            return Err(Refusal::new(
                reason::MISPLACED_AGGREGATE,
                "aggregate functions are not allowed in FILTER",
            ));
        }
        Some(expr) => Some(expressions.condition(expr, "FILTER")?),
        None => None,
    };
    let call = Call {
        name: &name,
        arguments: args,
        ordering: within_group,
        is_over: over.is_some(),
        expressions,
    };
    let distinct = matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
    let (operation, data_type) = if distinct {
        call.distinct()?
    } else {
        call.plain()?
    };
    Ok(Aggregate {
        operation,
        filter,
        data_type,
        place: TextPosition(place_of(function)),
    })
}

/// A call whose name and clauses are known.
struct Call<'c> {
    name: &'c str,
    arguments: &'c [ast::FunctionArg],
    /// WITHIN GROUP (ORDER BY …).
    ordering: &'c [ast::OrderByExpr],
    /// Of a window over groups, whose aggregates it may read.
    is_over: bool,
    expressions: &'c Expressions<'c>,
}

impl Call<'_> {
    fn plain(&self) -> Result<(Operation, Type), Refusal> {
        match self.name {
            "percentile_cont" => return self.quantile(true),
            "percentile_disc" => return self.quantile(false),
            "mode" => return self.mode(),
            _ if !self.ordering.is_empty() => return Err(self.form()),
            "count"
                if matches!(
                    self.arguments,
                    [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
                ) =>
            {
                return Ok((Operation::CountRows, Type::Int8));
            }
            _ => {}
        }
        if let Some(kind) = paired(self.name) {
            return self.paired(kind);
        }
        let value = self.single()?;
        let given = value.data_type.clone();
        match self.name {
            "count" => Ok((Operation::Count(value), Type::Int8)),
            "sum" => Ok((Operation::Sum(value), self.typed(sum_type(&given), &given)?)),
            "avg" => Ok((
                Operation::Average(value),
                self.typed(mean_type(&given), &given)?,
            )),
            "min" => Ok((
                Operation::Extreme {
                    value,
                    end: End::Least,
                },
                self.typed(ordered_type(&given), &given)?,
            )),
            "max" => Ok((
                Operation::Extreme {
                    value,
                    end: End::Greatest,
                },
                self.typed(ordered_type(&given), &given)?,
            )),
            "bool_and" | "every" | "bool_or" => {
                let of = if self.name == "bool_or" {
                    Quantifier::Any
                } else {
                    Quantifier::All
                };
                Ok((
                    Operation::Truth { value, of },
                    self.typed((given == Type::Bool).then_some(Type::Bool), &given)?,
                ))
            }
            _ => match spread(self.name) {
                Some(kind) => Ok((
                    Operation::Variance { value, kind },
                    self.typed(mean_type(&given), &given)?,
                )),
                None => Err(unanswered(self.name)),
            },
        }
    }

    fn distinct(&self) -> Result<(Operation, Type), Refusal> {
        match self.name {
            _ if !self.ordering.is_empty() => Err(self.form()),
            "count" => match self.only()? {
                ast::Expr::Tuple(items) => {
                    let values = items
                        .iter()
                        .map(|item| self.value(item))
                        .collect::<Result<Vec<_>, _>>()?;
                    Ok((Operation::Distinct(Distinct::Row(values)), Type::Int8))
                }
                expr => Ok((
                    Operation::Distinct(Distinct::Value(self.value(expr)?)),
                    Type::Int8,
                )),
            },
            // The least and the greatest are the same with duplicates and without.
            "min" | "max" | "bool_and" | "bool_or" | "every" => self.plain(),
            name if paired(name).is_some() => Err(Refusal::unsupported(
                reason::DISTINCT_AGGREGATE,
                format!("{name}(DISTINCT …)"),
            )
            .hint("DISTINCT is supported in COUNT, SUM, AVG, VARIANCE and STDDEV.")),
            _ => {
                let (operation, data_type) = self.plain()?;
                let (value, moment) = match operation {
                    Operation::Sum(value) => (value, Moment::Sum),
                    Operation::Average(value) => (value, Moment::Mean),
                    Operation::Variance { value, kind } => (value, Moment::Spread(kind)),
                    _ => return Err(self.form()),
                };
                Ok((Operation::Unlike { value, moment }, data_type))
            }
        }
    }

    fn paired(&self, kind: Paired) -> Result<(Operation, Type), Refusal> {
        let [
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(y)),
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(x)),
        ] = self.arguments
        else {
            return Err(self.form());
        };
        let (y, x) = (self.value(y)?, self.value(x)?);
        if !is_number(&y.data_type) || !is_number(&x.data_type) {
            let types = format!("{}, {}", type_name(&y.data_type), type_name(&x.data_type));
            return Err(Refusal::new(
                reason::UNKNOWN_FUNCTION,
                format!("function {}({types}) does not exist", self.name),
            ));
        }
        let result = if kind == Paired::Count {
            Type::Int8
        } else {
            Type::Float8
        };
        Ok((
            Operation::Paired {
                y: y.cast(Type::Float8),
                x: x.cast(Type::Float8),
                kind,
            },
            result,
        ))
    }

    fn quantile(&self, continuous: bool) -> Result<(Operation, Type), Refusal> {
        let (value, descending) = self.ordered()?;
        let value = if continuous && is_number(&value.data_type) {
            value.cast(Type::Float8)
        } else {
            value
        };
        let (fractions, is_array) = match self.only()? {
            ast::Expr::Array(ast::Array { elem, named: _ }) => (
                elem.iter()
                    .map(|e| self.fraction(e))
                    .collect::<Result<Vec<_>, _>>()?,
                true,
            ),
            expr => (vec![self.fraction(expr)?], false),
        };
        let result = match (&value.data_type, continuous) {
            (Type::Float8, true) => Type::Float8,
            (Type::Interval, true) => {
                return Err(Refusal::unsupported(
                    reason::AGGREGATE_TYPE,
                    "percentile_cont over intervals",
                ));
            }
            (given, true) => return Err(no_such(self.name, given)),
            (given, false) => self.typed(sortable_type(given), given)?,
        };
        match (is_array, fractions.as_slice()) {
            (false, [fraction]) => Ok((
                Operation::Quantile {
                    value,
                    fractions: Fractions::One(*fraction),
                    continuous,
                    descending,
                },
                result,
            )),
            (true, [_, ..]) if fractions.len() <= FRACTIONS_MAX => {
                let array = array_of(&result).ok_or_else(|| self.form())?;
                Ok((
                    Operation::Quantile {
                        value,
                        fractions: Fractions::Array(fractions),
                        continuous,
                        descending,
                    },
                    array,
                ))
            }
            _ => Err(Refusal::new(
                reason::PERCENTILE_FRACTION,
                format!("{} takes 1 to {FRACTIONS_MAX} fractions here", self.name),
            )),
        }
    }

    fn mode(&self) -> Result<(Operation, Type), Refusal> {
        if !self.arguments.is_empty() {
            return Err(self.form());
        }
        let (value, descending) = self.ordered()?;
        let result = value.data_type.clone();
        Ok((Operation::Mode { value, descending }, result))
    }

    /// The one value of WITHIN GROUP, and whether it runs downwards.
    fn ordered(&self) -> Result<(Expr, bool), Refusal> {
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
            Some(ast::OrderBySort::Using(_)) => return Err(self.form()),
        };
        Ok((self.value(expr)?, descending))
    }

    /// A constant between 0 and 1, in millionths.
    fn fraction(&self, expr: &ast::Expr) -> Result<u32, Refusal> {
        let mut value = &self.value(expr)?;
        while let Node::Cast(inner) = &value.node {
            value = inner;
        }
        let number = match value.as_literal() {
            Some(Scalar::Int(number)) => *number as f64,
            Some(Scalar::Decimal(text)) => text.parse().unwrap_or(f64::NAN),
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

    fn only(&self) -> Result<&ast::Expr, Refusal> {
        match self.arguments {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] => Ok(expr),
            _ => Err(self.form()),
        }
    }

    fn single(&self) -> Result<Expr, Refusal> {
        if paired(self.name).is_none() && spread(self.name).is_none() && !PLAIN.contains(&self.name)
        {
            return Err(unanswered(self.name));
        }
        self.value(self.only()?)
    }

    fn value(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        if !self.is_over && contains_aggregate(expr) {
            return Err(Refusal::new(
                reason::MISPLACED_AGGREGATE,
                "aggregate function calls cannot be nested",
            ));
        }
        self.expressions.value(expr)
    }

    fn typed(&self, result: Option<Type>, given: &Type) -> Result<Type, Refusal> {
        result.ok_or_else(|| no_such(self.name, given))
    }

    fn form(&self) -> Refusal {
        Refusal::unsupported(
            reason::UNSUPPORTED_AGGREGATE,
            format!("this form of {}()", self.name),
        )
    }
}

/// Most quantiles of one call.
const FRACTIONS_MAX: usize = 99;
/// Aggregates of one plain argument.
const PLAIN: &[&str] = &[
    "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "every",
];

fn spread(name: &str) -> Option<VarianceKind> {
    Some(match name {
        "var_pop" => VarianceKind::VariancePopulation,
        "var_samp" | "variance" => VarianceKind::VarianceSample,
        "stddev_pop" => VarianceKind::DeviationPopulation,
        "stddev_samp" | "stddev" => VarianceKind::DeviationSample,
        _ => return None,
    })
}

fn paired(name: &str) -> Option<Paired> {
    Some(match name {
        "covar_pop" => Paired::CovariancePopulation,
        "covar_samp" => Paired::CovarianceSample,
        "corr" => Paired::Correlation,
        "regr_count" => Paired::Count,
        "regr_avgx" => Paired::AverageX,
        "regr_avgy" => Paired::AverageY,
        "regr_sxx" => Paired::SquaresX,
        "regr_syy" => Paired::SquaresY,
        "regr_sxy" => Paired::Products,
        "regr_slope" => Paired::Slope,
        "regr_intercept" => Paired::Intercept,
        "regr_r2" => Paired::Determination,
        _ => return None,
    })
}

fn is_number(data_type: &Type) -> bool {
    mean_type(data_type).is_some()
}

/// The result type of SUM.
fn sum_type(given: &Type) -> Option<Type> {
    match given {
        Type::Int2 | Type::Int4 => Some(Type::Int8),
        Type::Int8 | Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Float4 => Some(Type::Float4),
        Type::Float8 => Some(Type::Float8),
        _ => None,
    }
}

/// The result type of AVG, VARIANCE and STDDEV.
fn mean_type(given: &Type) -> Option<Type> {
    match given {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Float4 | Type::Float8 => Some(Type::Float8),
        _ => None,
    }
}

/// The result type of MIN and MAX.
fn ordered_type(given: &Type) -> Option<Type> {
    match given {
        Type::Varchar(_) => Some(Type::Text),
        Type::Bool | Type::Uuid | Type::Time | Type::Enum(_) | Type::Other { .. } => None,
        other => sortable_type(other),
    }
}

/// The result type of an ordered-set aggregate of any sortable value.
fn sortable_type(given: &Type) -> Option<Type> {
    match given {
        Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Float4
        | Type::Float8
        | Type::Uuid => Some(given.clone()),
        Type::Text | Type::Varchar(_) | Type::Char(_) => Some(given.clone()),
        Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_) => Some(given.clone()),
        Type::Other { .. } => None,
    }
}

fn array_of(element: &Type) -> Option<Type> {
    let (oid, name) = match element {
        Type::Int2 => (1005, "_int2"),
        Type::Int4 => (1007, "_int4"),
        Type::Int8 => (1016, "_int8"),
        Type::Numeric(_) => (1231, "_numeric"),
        Type::Float4 => (1021, "_float4"),
        Type::Float8 => (1022, "_float8"),
        Type::Date => (1182, "_date"),
        Type::Timestamp => (1115, "_timestamp"),
        Type::Timestamptz => (1185, "_timestamptz"),
        _ => return None,
    };
    Some(Type::Other {
        oid,
        name: name.to_owned(),
    })
}

fn unanswered(name: &str) -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_AGGREGATE,
        format!("the aggregate {name}()"),
    )
    .hint(
        "Supported aggregates are COUNT, SUM, AVG, VARIANCE, STDDEV, COVAR, CORR, \
                REGR, MIN, MAX, PERCENTILE_CONT, PERCENTILE_DISC, MODE, BOOL_AND and \
                BOOL_OR.",
    )
}

fn no_such(name: &str, data_type: &Type) -> Refusal {
    let given = type_name(data_type);
    match is_known(name, data_type) {
        true => Refusal::unsupported(reason::AGGREGATE_TYPE, format!("{name}({given})")),
        false => Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!("function {name}({given}) does not exist"),
        ),
    }
}

/// Whether PostgreSQL has this aggregate over values of a type that no private one takes.
fn is_known(name: &str, given: &Type) -> bool {
    match (name, given) {
        (_, Type::Other { .. }) | ("sum" | "avg", Type::Interval) => true,
        ("min" | "max", other) => !matches!(other, Type::Bool | Type::Uuid),
        _ => false,
    }
}
