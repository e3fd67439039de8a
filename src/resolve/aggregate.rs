//! Aggregate calls: which they are, and what a release computes for them.

use sqlparser::ast;

use super::catalogue::AGGREGATES;
use super::expression::Expressions;
use super::literal::type_name;
use super::scope::names_of;
use super::tree::{Aggregate, Operation};
use crate::catalog::Type;
use crate::refusal::{Refusal, sqlstate};

/// The aggregate's name, where the call is one over groups (not over a window).
pub fn aggregate_name(function: &ast::Function) -> Option<String> {
    if function.over.is_some() {
        return None;
    }
    let names = names_of(&function.name).ok()?;
    let name = match names.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    AGGREGATES.contains(&name.as_str()).then(|| name.clone())
}

/// Whether an aggregate call stands in this expression, outside subqueries.
pub fn contains_aggregate(expr: &ast::Expr) -> bool {
    struct Search {
        depth: usize,
        found: bool,
    }
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<()> {
            self.depth += 1;
            std::ops::ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<()> {
            self.depth -= 1;
            std::ops::ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<()> {
            if let ast::Expr::Function(function) = expr
                && self.depth == 0
                && aggregate_name(function).is_some()
            {
                self.found = true;
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let mut search = Search { depth: 0, found: false };
    let _ = ast::Visit::visit(expr, &mut search);
    search.found
}

/// Resolves an aggregate call over the rows of `expressions`' scope.
pub fn aggregate(function: &ast::Function, expressions: &Expressions<'_>) -> Result<Aggregate, Refusal> {
    let ast::Function { name: _, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over: _ } = function;
    let name = aggregate_name(function).ok_or_else(|| Refusal::unsupported("this aggregate"))?;
    let plain = !*uses_odbc_syntax && matches!(parameters, ast::FunctionArguments::None) && within_group.is_empty() && null_treatment.is_none();
    let ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment, args, clauses }) = args else {
        return Err(Refusal::unsupported(format!("this form of {name}()")));
    };
    if !plain || !clauses.is_empty() {
        return Err(Refusal::unsupported(format!("this form of {name}()")));
    }
    let distinct = matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
    let filter = filter.as_deref().map(|f| expressions.condition(f, "FILTER")).transpose()?;
    if filter.is_some() && contains_aggregate_in(function.filter.as_deref()) {
        return Err(Refusal::new(sqlstate::GROUPING_ERROR, "aggregate functions are not allowed in FILTER"));
    }
    let (operation, data_type) = operation(&name, distinct, args, expressions)?;
    Ok(Aggregate { operation, filter, data_type })
}

fn contains_aggregate_in(expr: Option<&ast::Expr>) -> bool {
    expr.is_some_and(contains_aggregate)
}

fn operation(name: &str, distinct: bool, arguments: &[ast::FunctionArg], expressions: &Expressions<'_>) -> Result<(Operation, Type), Refusal> {
    let argument = match arguments {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if name == "count" && !distinct => return Ok((Operation::CountRows, Type::Int8)),
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] => expr,
        _ => return Err(Refusal::unsupported(format!("this form of {name}()"))),
    };
    if contains_aggregate(argument) {
        return Err(Refusal::new(sqlstate::GROUPING_ERROR, "aggregate function calls cannot be nested"));
    }
    let value = expressions.value(argument)?;
    match name {
        "count" if distinct => Ok((Operation::CountDistinct(value), Type::Int8)),
        "count" => Ok((Operation::Count(value), Type::Int8)),
        "sum" | "avg" if distinct => Err(Refusal::unsupported(format!("{name}(DISTINCT …)"))),
        "sum" => {
            let result = match value.data_type {
                Type::Int2 | Type::Int4 => Type::Int8,
                Type::Int8 | Type::Numeric(_) => Type::Numeric(None),
                Type::Float4 => Type::Float4,
                Type::Float8 => Type::Float8,
                _ => return Err(no_such(name, &value.data_type)),
            };
            Ok((Operation::Sum(value), result))
        }
        "avg" => {
            let result = match value.data_type {
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) => Type::Numeric(None),
                Type::Float4 | Type::Float8 => Type::Float8,
                _ => return Err(no_such(name, &value.data_type)),
            };
            Ok((Operation::Average(value), result))
        }
        _ => Err(Refusal::unsupported(format!("the aggregate {name}()")).hint("COUNT, SUM and AVG are answered.")),
    }
}

fn no_such(name: &str, data_type: &Type) -> Refusal {
    Refusal::new(sqlstate::UNDEFINED_FUNCTION, format!("function {name}({}) does not exist", type_name(data_type)))
}
