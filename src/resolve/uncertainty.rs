//! `pgveil.stderr(…)`, `pgveil.ci_low(…)` and `pgveil.ci_high(…)` of an aggregate: columns of its release, computed from what is released.

use sqlparser::ast;

use super::aggregate::aggregate_name;
use super::scope::names_of;
use crate::policy::VIEW_SCHEMA;
use crate::refusal::{Refusal, sqlstate};

/// What is told of an aggregate's noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    StandardError,
    /// Ends of an interval that holds the clipped answer in at least 95 of 100 cases.
    Low,
    High,
}

/// One such column of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncertainty {
    /// Index among the release's aggregates.
    pub aggregate: usize,
    pub statistic: Statistic,
}

impl Uncertainty {
    /// Its name in the outer query.
    pub fn column(&self) -> String {
        let name = match self.statistic {
            Statistic::StandardError => "stderr",
            Statistic::Low => "ci_low",
            Statistic::High => "ci_high",
        };
        format!("{name}{}", self.aggregate)
    }
}

fn statistic(function: &ast::Function) -> Option<Statistic> {
    match names_of(&function.name).ok()?.as_slice() {
        [schema, name] if schema == VIEW_SCHEMA => match name.as_str() {
            "stderr" => Some(Statistic::StandardError),
            "ci_low" => Some(Statistic::Low),
            "ci_high" => Some(Statistic::High),
            _ => None,
        },
        _ => None,
    }
}

/// The statistic that a call asks for, and the aggregate it is about; `None` for other expressions.
///
/// # Errors
/// 0A000 where it is not called with an aggregate alone.
pub(super) fn of_aggregate(expr: &ast::Expr) -> Result<Option<(Statistic, &ast::Function)>, Refusal> {
    let ast::Expr::Function(function) = expr else { return Ok(None) };
    let Some(statistic) = statistic(function) else { return Ok(None) };
    let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } = function;
    let plain = !*uses_odbc_syntax && matches!(parameters, ast::FunctionArguments::None) && within_group.is_empty();
    let plain = plain && filter.is_none() && null_treatment.is_none() && over.is_none();
    if plain
        && let ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses }) = args
        && clauses.is_empty()
        && let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = args.as_slice()
        && let ast::Expr::Function(inner) = unnested(argument)
        && aggregate_name(inner).is_some()
    {
        return Ok(Some((statistic, inner)));
    }
    Err(elsewhere(&name.to_string()))
}

/// 0A000 for one of these functions where no aggregate of private rows stands in it; `None` for other names.
pub(super) fn refused(names: &[String]) -> Option<Refusal> {
    matches!(names, [schema, _] if schema == VIEW_SCHEMA).then(|| elsewhere(&names.join(".")))
}

fn elsewhere(name: &str) -> Refusal {
    Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("{name}() is only known of one aggregate of private rows"))
        .detail("The functions are pgveil.stderr(), pgveil.ci_low() and pgveil.ci_high().")
        .hint("Write it beside the aggregate, as in SELECT avg(x), pgveil.stderr(avg(x)) FROM the private table.")
}

fn unnested(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}
