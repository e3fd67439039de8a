//! Helpers for sqlparser's syntax trees: reading names, positions and kinds of SELECT, and building
//! the nodes that pgveil writes itself.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart, Spanned};
use sqlparser::tokenizer::Span;

use crate::ir::functions::AGGREGATES;
use crate::ir::relation::ConstantId;
pub use crate::ir::sql::{empty_select, plain_table, query_of};
use crate::parse;
use crate::policy::{RecordAggregate, VIEW_SCHEMA};
use crate::refusal::{Reason, Refusal, reason};
use crate::visit;

/// PostgreSQL truncates identifiers to 63 bytes. Longer ones are refused here.
const NAME_BYTES_MAX: usize = 63;

/// An identifier as PostgreSQL folds it: quoted identifiers as written, others in lower case (ASCII
/// letters).
pub fn name_of(ident: &Ident) -> Result<String, Refusal> {
    let Ident {
        value,
        quote_style,
        span,
    } = ident;
    let name = match quote_style {
        Some('"') => value.clone(),
        None => value.chars().map(|c| c.to_ascii_lowercase()).collect(),
        Some(_) => {
            return Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "identifiers are quoted with double quotes",
            )
            .at(position(*span)));
        }
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(
            Refusal::new(reason::NAME_TOO_LONG, "identifier is longer than 63 bytes")
                .at(position(*span)),
        );
    }
    Ok(name)
}

/// The parts of a qualified name, folded. A caller that asks only whether it is one of some known
/// names may drop the error: such a name is none of them, and is refused where it is read.
pub fn names_of(name: &ObjectName) -> Result<Vec<String>, Refusal> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => name_of(ident),
            ObjectNamePart::Function(_) => Err(Refusal::unsupported(
                reason::UNSUPPORTED_NAME,
                "a name computed by a function",
            )),
        })
        .collect()
}

/// A quoted identifier.
pub(in crate::resolve) fn quote_name(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// The name, if the expression is a bare identifier.
pub fn bare_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) => name_of(ident).ok(),
        _ => None,
    }
}

/// Where a part of the statement begins in the client's text. `None` for nodes that pgveil wrote.
/// The parser got tokens whose column is that position.
pub fn position(span: Span) -> Option<u32> {
    u32::try_from(span.start.column)
        .ok()
        .filter(|position| *position > 0)
}

/// Where a node of the statement begins.
pub fn place_of(node: &impl Spanned) -> Option<u32> {
    position(node.span())
}

/// Where a qualified name begins.
pub fn position_of(name: &ObjectName) -> Option<u32> {
    position(name.span())
}

pub(in crate::resolve) fn item_expr(item: &ast::SelectItem) -> Option<&ast::Expr> {
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, alias: _ } => {
            Some(expr)
        }
        ast::SelectItem::ExprWithAliases { .. }
        | ast::SelectItem::QualifiedWildcard(..)
        | ast::SelectItem::Wildcard(_) => None,
    }
}

/// Whether the expression is a bare integer: a position in the SELECT list.
pub(in crate::resolve) fn is_ordinal(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, _),
            span: _,
        }) => text.bytes().all(|b| b.is_ascii_digit()),
        _ => false,
    }
}

pub fn unnest(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => unnest(inner),
        other => other,
    }
}

/// The aggregate's name, over groups or over a window.
pub(in crate::resolve) fn called_name(function: &ast::Function) -> Option<String> {
    let names = names_of(&function.name).ok()?;
    let name = match names.as_slice() {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ if record_named(&names).is_some() => return Some(names.join(".")),
        _ => return None,
    };
    AGGREGATES.contains(&name.as_str()).then(|| name.clone())
}

/// The aggregate of these names that gives a record.
pub(in crate::resolve) fn record_named(names: &[String]) -> Option<&'static RecordAggregate> {
    match names {
        [schema, name] if schema == VIEW_SCHEMA => RecordAggregate::by_name(name),
        _ => None,
    }
}

/// The aggregate that is called, where it gives a record.
pub(in crate::resolve) fn record_called(
    function: &ast::Function,
) -> Option<&'static RecordAggregate> {
    record_named(&names_of(&function.name).ok()?)
}

/// The aggregate's name, if the call is an aggregate over groups (not over a window).
pub fn aggregate_name(function: &ast::Function) -> Option<String> {
    if function.over.is_some() {
        None
    } else {
        called_name(function)
    }
}

/// The call, the field, and what follows it, where an expression is a field of the record that an
/// aggregate gives: `(pgveil.linregr(…)).coef`.
pub(in crate::resolve) fn record_field(
    expr: &ast::Expr,
) -> Option<(&ast::Function, &ast::Ident, &[ast::AccessExpr])> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return None;
    };
    match (unnest(root), access_chain.as_slice()) {
        (
            ast::Expr::Function(function),
            [
                ast::AccessExpr::Dot(ast::Expr::Identifier(field)),
                rest @ ..,
            ],
        ) if aggregate_name(function).is_some() => Some((function, field, rest)),
        _ => None,
    }
}

/// Whether the expression contains an aggregate call outside subqueries.
pub fn contains_aggregate(expr: &ast::Expr) -> bool {
    struct Search {
        depth: usize,
        found: bool,
    }
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            if let ast::Expr::Function(function) = expr
                && self.depth == 0
                && aggregate_name(function).is_some()
            {
                self.found = true;
            }
            ControlFlow::Continue(())
        }
    }
    let mut search = Search {
        depth: 0,
        found: false,
    };
    let _ = visit::visit(expr, &mut search);
    search.found
}

/// Whether a SELECT has GROUP BY.
pub(in crate::resolve) fn is_grouped(select: &ast::Select) -> bool {
    match &select.group_by {
        ast::GroupByExpr::Expressions(exprs, modifiers) => {
            !exprs.is_empty() || !modifiers.is_empty()
        }
        ast::GroupByExpr::All(_) => true,
    }
}

/// Whether the rows of a SELECT are groups.
pub(in crate::resolve) fn is_aggregated(select: &ast::Select) -> bool {
    is_grouped(select)
        || select.having.is_some()
        || select.distinct.is_some()
        || select
            .projection
            .iter()
            .filter_map(item_expr)
            .any(contains_aggregate)
}

/// Whether this is SELECT DISTINCT of values without aggregates: its items are the keys.
pub(in crate::resolve) fn is_distinct_rows(select: &ast::Select) -> bool {
    let ungrouped =
        matches!(&select.group_by, ast::GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    let aggregated = select.having.is_some()
        || select
            .projection
            .iter()
            .filter_map(item_expr)
            .any(contains_aggregate);
    matches!(select.distinct, Some(ast::Distinct::Distinct)) && ungrouped && !aggregated
}

/// Refuses SELECT INTO.
pub(crate) fn check_select(select: &ast::Select) -> Result<(), Refusal> {
    match &select.into {
        None => Ok(()),
        Some(into) => Err(
            Refusal::new(reason::READ_ONLY, "SELECT INTO is not allowed")
                .detail("pgveil answers read-only queries.")
                .at(place_of(into)),
        ),
    }
}

/// Whether a statement is a list of whole numbers, texts, truth values and NULLs, and nothing else.
pub fn is_of_constants(query: &parse::Query) -> bool {
    let ast::SetExpr::Select(select) = &*query.0.body else {
        return false;
    };
    let is_constant = |item| match item_expr(item) {
        Some(ast::Expr::Value(ast::ValueWithSpan { value, span: _ })) => match value {
            ast::Value::Number(digits, _) => digits.bytes().all(|byte| byte.is_ascii_digit()),
            ast::Value::SingleQuotedString(_) | ast::Value::Boolean(_) | ast::Value::Null => true,
            _ => false,
        },
        _ => false,
    };
    let bare = ast::Select {
        projection: select.projection.clone(),
        ..empty_select()
    };
    !select.projection.is_empty()
        && select.projection.iter().all(is_constant)
        && *query.0 == query_of(select_of(bare))
}

pub(in crate::resolve) fn select_of(select: ast::Select) -> ast::SetExpr {
    ast::SetExpr::Select(Box::new(select))
}

pub(crate) fn plain_alias(name: &str) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name: quote_name(name),
        columns: Vec::new(),
        at: None,
    }
}

pub(in crate::resolve) fn map_order(
    order_by: &ast::OrderBy,
    mut map: impl FnMut(&ast::Expr) -> Result<ast::Expr, Refusal>,
) -> Result<ast::OrderBy, Refusal> {
    let ast::OrderBy { kind, interpolate } = order_by;
    let ast::OrderByKind::Expressions(exprs) = kind else {
        return Err(Refusal::new(
            reason::SYNTAX_ERROR,
            "ORDER BY ALL is not valid in PostgreSQL",
        ));
    };
    if interpolate.is_some() {
        return Err(Refusal::new(
            reason::SYNTAX_ERROR,
            "INTERPOLATE is not valid in PostgreSQL",
        ));
    }
    let exprs = exprs
        .iter()
        .map(
            |ast::OrderByExpr {
                 expr,
                 options,
                 with_fill,
             }| match with_fill {
                None => Ok(ast::OrderByExpr {
                    expr: map(expr)?,
                    options: options.clone(),
                    with_fill: None,
                }),
                Some(_) => Err(Refusal::new(
                    reason::SYNTAX_ERROR,
                    "WITH FILL is not valid in PostgreSQL",
                )),
            },
        )
        .collect::<Result<_, _>>()?;
    Ok(ast::OrderBy {
        kind: ast::OrderByKind::Expressions(exprs),
        interpolate: None,
    })
}

/// Placeholders that stand for constants in a syntax tree. No client can write them.
pub(in crate::resolve) const ONE_PLACEHOLDER: &str = "pgveil one ";

pub(in crate::resolve) const ROWS_PLACEHOLDER: &str = "pgveil rows ";

/// The constant that a placeholder stands for.
pub(in crate::resolve) fn constant_number(value: &ast::Value) -> Option<ConstantId> {
    let ast::Value::Placeholder(name) = value else {
        return None;
    };
    name.strip_prefix(ONE_PLACEHOLDER)
        .or_else(|| name.strip_prefix(ROWS_PLACEHOLDER))
        .and_then(|n| n.parse().ok())
        .map(ConstantId)
}

/// Whether the expression stands for all values of a middle query's only column.
pub(in crate::resolve) fn is_constant_list(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Placeholder(name),
            span: _,
        }) => name.starts_with(ROWS_PLACEHOLDER),
        _ => false,
    }
}

pub(in crate::resolve) fn unsupported_above(reason: Reason, what: &str) -> Refusal {
    Refusal::new(reason, format!("{what} is not supported"))
}
