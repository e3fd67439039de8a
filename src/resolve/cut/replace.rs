//! What an expression above the cut reads of the release: its keys and its aggregates.

use super::grouping::grouping;
use sqlparser::ast;

use super::{COLUMNS_MAX, Cut};
use crate::ir::aggregate::Aggregate;
use crate::ir::expression::Expr;
use crate::ir::relation::{SET_COLUMN, key_column, release_alias};
use crate::ir::{AggregateId, KeyId};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::expression::aggregate_call::{aggregate, aggregate_field};
use crate::resolve::names::output_name::column_name;
use crate::resolve::outer::uncertainty;
use crate::resolve::syntax::{
    aggregate_name, contains_aggregate, name_of, names_of, quote_name, record_field,
};

impl Cut {
    /// The expression that replaces `expr` above the cut. `None` if its parts must be visited.
    pub(in crate::resolve) fn replace(
        &mut self,
        resolver: &Resolver<'_>,
        expr: &ast::Expr,
    ) -> Result<Option<ast::Expr>, Refusal> {
        if let Some(arguments) = grouping_arguments(expr) {
            return self.grouping(resolver, arguments).map(Some);
        }
        if let Some(uncertainty) = self.uncertainty_of_running_total(resolver, expr)? {
            return Ok(Some(self.uncertainty_reference(&uncertainty)));
        }
        if let Some(uncertainty) =
            uncertainty::uncertainty_of_call(expr, &mut |function, field| match field {
                None => self.aggregate(resolver, function),
                Some(field) => self.field(resolver, function, field),
            })?
        {
            return Ok(Some(self.uncertainty_reference(&uncertainty)));
        }
        if let Some((function, field, [])) = record_field(expr) {
            let at = self.field(resolver, function, field)?;
            return Ok(Some(self.of_steps(at)?));
        }
        if let ast::Expr::Function(function) = expr
            && aggregate_name(function).is_some()
        {
            let at = self.aggregate(resolver, function)?;
            return Ok(Some(self.aggregate_reference(at)));
        }
        if contains_aggregate(expr) {
            return Ok(None);
        }
        if !matches!(
            expr,
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)
        ) {
            return Ok(self.key_of(resolver, expr));
        }
        match self.key_named(resolver, expr)? {
            Some(key) => Ok(Some(key)),
            None => {
                let name = column_name(expr);
                Err(Refusal::new(
                    reason::UNGROUPED_COLUMN,
                    format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an \
                            aggregate function"
                    ),
                ))
            }
        }
    }

    /// The key that a column is; `None` for a column that is no key.
    pub(in crate::resolve) fn key_named(
        &self,
        resolver: &Resolver<'_>,
        name: &ast::Expr,
    ) -> Result<Option<ast::Expr>, Refusal> {
        let value = resolver
            .expressions_given(&self.scope, &self.given)
            .value(name)?;
        Ok(self.key_equal_to(&value))
    }

    /// The key that an expression is. Here an attempt is right: keys are compared as resolved, so
    /// that `(a.x)` is the key `x`. What cannot be resolved over rows is no key: the outer query
    /// computes it from the keys in it, or its parts are refused in their turn.
    fn key_of(&self, resolver: &Resolver<'_>, expr: &ast::Expr) -> Option<ast::Expr> {
        if self.keys.is_empty() && !self.reports.is_keyed() {
            return None;
        }
        let expressions = resolver.expressions_given(&self.scope, &self.given);
        self.key_equal_to(&expressions.value(expr).ok()?)
    }

    fn key_equal_to(&self, value: &Expr) -> Option<ast::Expr> {
        if self.reports.is_key(value) {
            return Some(self.report_key());
        }
        if self.reports.is_decoded() {
            return None;
        }
        let at = self.keys.iter().position(|key| key.expr == *value)?;
        Some(self.reference(key_column(KeyId(at))))
    }

    pub(super) fn grouping(
        &self,
        resolver: &Resolver<'_>,
        arguments: &[ast::FunctionArg],
    ) -> Result<ast::Expr, Refusal> {
        let no_key = || {
            Refusal::new(
                reason::GROUPING_ARGUMENTS,
                "arguments to GROUPING must be grouping expressions of the associated query level",
            )
        };
        let key = |argument: &ast::FunctionArg| {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else {
                return Err(no_key());
            };
            let value = resolver
                .expressions_given(&self.scope, &self.given)
                .value(expr)?;
            let at = self.keys.iter().position(|k| k.expr == value);
            at.map(KeyId).ok_or_else(no_key)
        };
        let arguments = arguments.iter().map(key).collect::<Result<Vec<_>, _>>()?;
        grouping(
            &arguments,
            &self.sets,
            self.reference(SET_COLUMN.to_owned()),
        )
    }

    /// Whether its rows have the column of a bare name, or the alias that qualifies one.
    pub(in crate::resolve) fn has_name(&self, parts: &[ast::Ident]) -> bool {
        let names: Vec<String> = parts.iter().filter_map(|part| name_of(part).ok()).collect();
        match names.as_slice() {
            [name] => self.scope.columns().any(|column| column.name == *name),
            [alias, _] | [_, alias, _] => self.scope.item(alias).is_some(),
            _ => false,
        }
    }

    pub(super) fn aggregate(
        &mut self,
        resolver: &Resolver<'_>,
        function: &ast::Function,
    ) -> Result<AggregateId, Refusal> {
        let expressions = resolver.expressions_given(&self.scope, &self.given);
        let found = aggregate(function, &expressions)?;
        self.number_reports(resolver, found)
    }

    /// As [`Self::aggregate`], of a field of the record that it gives.
    pub(super) fn field(
        &mut self,
        resolver: &Resolver<'_>,
        function: &ast::Function,
        field: &ast::Ident,
    ) -> Result<AggregateId, Refusal> {
        let expressions = resolver.expressions_given(&self.scope, &self.given);
        let found = aggregate_field(function, field, &expressions)?;
        self.number_reports(resolver, found)
    }

    /// The number of the aggregate. A new one is added.
    pub(super) fn number(&mut self, found: Aggregate) -> Result<AggregateId, Refusal> {
        let at = self
            .aggregates
            .iter()
            .position(|a| *a == found)
            .unwrap_or_else(|| {
                self.aggregates.push(found);
                self.aggregates.len() - 1
            });
        if self.aggregates.len() > COLUMNS_MAX {
            return Err(Refusal::new(
                reason::TOO_MANY_PARTS,
                format!("a query may have at most {COLUMNS_MAX} aggregates"),
            ));
        }
        Ok(AggregateId(at))
    }

    pub(super) fn reference(&self, column: String) -> ast::Expr {
        ast::Expr::CompoundIdentifier(vec![
            quote_name(&release_alias(self.number)),
            quote_name(&column),
        ])
    }
}

/// The arguments of a GROUPING call.
fn grouping_arguments(expr: &ast::Expr) -> Option<&[ast::FunctionArg]> {
    let ast::Expr::Function(function) = expr else {
        return None;
    };
    let is_grouping = names_of(&function.name)
        .is_ok_and(|names| matches!(names.as_slice(), [name] if name == "grouping"));
    match &function.args {
        ast::FunctionArguments::List(list) if is_grouping && function.over.is_none() => {
            Some(&list.args)
        }
        _ => None,
    }
}
