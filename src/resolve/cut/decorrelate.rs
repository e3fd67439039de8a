//! Decorrelation of a scalar aggregate over private rows. Equalities tie the subquery to a row of
//! the query around it that does not belong to the same unit. The subquery becomes a release,
//! grouped by its side of the equalities. The row of the query around it looks up its own group.

use std::ops::ControlFlow;

use crate::aggregates::what_is_counted;
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::functions::Function;
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::expression::compare;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::Scope;
use crate::resolve::private::expression_context::{ResolvedParts, SubqueryPlace};
use crate::resolve::private::subquery::plain_select;
use crate::resolve::syntax::{
    aggregate_name, empty_select, is_aggregated, is_grouped, item_expr, query_of, quote_name,
    select_of, unnest,
};
use crate::visit;
use sqlparser::ast;

/// The names of the released groups and of their columns. No client can write the first one.
const GROUPS: &str = "groups found";
const VALUE: &str = "value found";

/// The subquery's groups, and the values that look one of them up.
pub(in crate::resolve) struct Decorrelate {
    groups: ast::Query,
    /// The subquery's sides of the equalities.
    own: Vec<ast::Expr>,
    /// The other sides, which read queries around the subquery.
    others: Vec<ast::Expr>,
    /// Where no group is found, a count is 0 and anything else is NULL.
    is_count: bool,
}

impl Decorrelate {
    /// Takes a correlated aggregate apart. `None` if something other than equalities ties it to the
    /// query around it, or if nothing does.
    fn of(select: &ast::Select, from: &BoundFrom) -> Option<Self> {
        let (condition, item) = candidate(select).filter(|_| from.private)?;
        let (mut own, mut others, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for conjunct in conjuncts(condition) {
            match sides(conjunct, &from.scope) {
                Sides::Own => kept.push(conjunct.clone()),
                Sides::Tie { own: mine, other } => {
                    own.push(mine.clone());
                    others.push(other.clone());
                }
                Sides::Mixed => return None,
            }
        }
        let is_count = matches!(item, ast::Expr::Function(function) if counts(function));
        // A bare name of the query around the subquery must not name one of the groups' columns.
        let columns: Vec<String> = (0..own.len()).map(tie).chain([VALUE.to_owned()]).collect();
        let is_caught = |other: &ast::Expr| has_name(other, &columns);
        if own.is_empty()
            || (!is_count && !is_null_of_nothing(item))
            || others.iter().any(is_caught)
        {
            return None;
        }
        let keys = own
            .iter()
            .enumerate()
            .map(|(at, key)| ast::SelectItem::ExprWithAlias {
                expr: key.clone(),
                alias: quote_name(&tie(at)),
            });
        let value = ast::SelectItem::ExprWithAlias {
            expr: item.clone(),
            alias: quote_name(VALUE),
        };
        let groups = query_of(select_of(ast::Select {
            projection: keys.chain([value]).collect(),
            from: select.from.clone(),
            selection: crate::parse::join_terms(kept, &|a, b| {
                binary(a, ast::BinaryOperator::And, b)
            }),
            group_by: ast::GroupByExpr::Expressions(own.clone(), Vec::new()),
            ..empty_select()
        }));
        Some(Self {
            groups,
            own,
            others,
            is_count,
        })
    }
}

/// Whether a SELECT is that of the groups. Where its key is decoded, a value without a group is
/// absent, which is no count of 0.
pub(super) fn is_of_groups(select: &ast::Select) -> bool {
    let is_value = |item: &ast::SelectItem| match item {
        ast::SelectItem::ExprWithAlias { expr: _, alias } => alias.value == VALUE,
        _ => false,
    };
    select.projection.last().is_some_and(is_value)
}

impl Resolver<'_> {
    /// Above the cut: rewrites the subquery to look its group up. `None` if it is not a correlated
    /// aggregate of this kind.
    pub(in crate::resolve) fn looked_up(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<Option<ast::Query>, Refusal> {
        let is_candidate = |select: &&ast::Select| candidate(select).is_some();
        let select = plain_select(query).filter(|_| query.with.is_none());
        let Some(select) = select.filter(is_candidate) else {
            return Ok(None);
        };
        let from = self.names.bind_from(select, environment)?;
        let Some(Decorrelate {
            groups,
            own: _,
            others,
            is_count,
        }) = Decorrelate::of(select, &from)
        else {
            return Ok(None);
        };
        let column =
            |name: &str| ast::Expr::CompoundIdentifier(vec![quote_name(GROUPS), quote_name(name)]);
        let tied = others
            .into_iter()
            .enumerate()
            .map(|(at, other)| binary(column(&tie(at)), ast::BinaryOperator::Eq, other));
        let value = if is_count {
            call("coalesce", vec![call("max", vec![column(VALUE)]), zero()])
        } else {
            column(VALUE)
        };
        let relation = ast::TableFactor::Derived {
            lateral: false,
            subquery: Box::new(groups),
            alias: Some(ast::TableAlias {
                explicit: true,
                name: quote_name(GROUPS),
                columns: Vec::new(),
                at: None,
            }),
            sample: None,
        };
        Ok(Some(query_of(select_of(ast::Select {
            projection: vec![ast::SelectItem::UnnamedExpr(value)],
            from: vec![ast::TableWithJoins {
                relation,
                joins: Vec::new(),
            }],
            selection: crate::parse::join_terms(tied.collect(), &|a, b| {
                binary(a, ast::BinaryOperator::And, b)
            }),
            ..empty_select()
        }))))
    }

    /// Below the cut: joins the released groups to the row of the query around them. Only where the
    /// equalities do not tie both to one unit.
    pub(in crate::resolve) fn joined_groups(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
        around: SubqueryPlace<'_>,
        given: &mut ResolvedParts,
    ) -> Result<Option<Expr>, Refusal> {
        let Some(Decorrelate {
            groups,
            own,
            others,
            is_count,
        }) = Decorrelate::of(select, from)
        else {
            return Ok(None);
        };
        if self.names.determines_unit(&own, from) {
            return Ok(None);
        }
        let (relation, columns) = self.middle_rows(&groups, environment)?;
        let mut on = Vec::new();
        for (column, other) in columns.iter().zip(&others) {
            let other = self.expressions_at(around, given).value(other)?;
            on.push(compare(
                self.names.constants,
                Function::Equal,
                self.output.column_expr(column.id),
                other,
                "=",
            )?);
        }
        let Some(value) = columns.last() else {
            return Ok(None);
        };
        let value = self.output.column_expr(value.id);
        given.join(relation, Expr::and(on));
        let data_type = value.data_type.clone();
        let zero = Expr::literal(Some(Scalar::Int(0)), Type::Int8);
        Ok(Some(if is_count {
            Expr::call(Function::Coalesce, vec![value, zero], data_type)
        } else {
            value
        }))
    }
}

/// The condition and the only item of a SELECT that may be taken apart: one aggregate without
/// groups.
fn candidate(select: &ast::Select) -> Option<(&ast::Expr, &ast::Expr)> {
    let is_plain = !is_grouped(select)
        && select.distinct.is_none()
        && select.having.is_none()
        && is_aggregated(select);
    match (&select.selection, select.projection.as_slice()) {
        (Some(condition), [item]) if is_plain => Some((condition, item_expr(item)?)),
        _ => None,
    }
}

fn tie(at: usize) -> String {
    format!("tie {at}")
}

fn binary(left: ast::Expr, op: ast::BinaryOperator, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn zero() -> ast::Expr {
    ast::Expr::Value(ast::Value::Number("0".to_owned(), false).into())
}

fn call(name: &str, arguments: Vec<ast::Expr>) -> ast::Expr {
    let args = arguments
        .into_iter()
        .map(|e| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e)))
        .collect();
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn conjuncts(condition: &ast::Expr) -> Vec<&ast::Expr> {
    match unnest(condition) {
        ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::And,
            right,
        } => [conjuncts(left), conjuncts(right)].concat(),
        other => vec![other],
    }
}

/// What a conjunct of the subquery's WHERE reads.
enum Sides<'e> {
    Own,
    /// One side reads the subquery's rows, the other side reads queries around it.
    Tie {
        own: &'e ast::Expr,
        other: &'e ast::Expr,
    },
    Mixed,
}

fn sides<'e>(conjunct: &'e ast::Expr, scope: &Scope) -> Sides<'e> {
    let (own, other) = names(conjunct, scope);
    if other == 0 {
        return Sides::Own;
    }
    let ast::Expr::BinaryOp {
        left,
        op: ast::BinaryOperator::Eq,
        right,
    } = conjunct
    else {
        return Sides::Mixed;
    };
    match (names(left, scope), names(right, scope)) {
        ((1.., 0), (0, 1..)) if own > 0 => Sides::Tie {
            own: left,
            other: right,
        },
        ((0, 1..), (1.., 0)) if own > 0 => Sides::Tie {
            own: right,
            other: left,
        },
        _ => Sides::Mixed,
    }
}

/// Whether one of these is a part of a name in the expression.
fn has_name(expr: &ast::Expr, names: &[String]) -> bool {
    let is_one = |ident: &ast::Ident| names.contains(&ident.value);
    let walk = visit::visit_expressions(expr, |expr| {
        let found = match expr {
            ast::Expr::Identifier(ident) => is_one(ident),
            ast::Expr::CompoundIdentifier(parts) => parts.iter().any(is_one),
            _ => false,
        };
        match found {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    walk.is_break()
}

/// Numbers of names outside subqueries: those that are columns of the scope, and the others.
fn names(expr: &ast::Expr, scope: &Scope) -> (usize, usize) {
    struct Names<'s> {
        scope: &'s Scope,
        depth: usize,
        own: usize,
        other: usize,
    }
    impl ast::Visitor for Names<'_> {
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
            let parts = match expr {
                ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
                ast::Expr::CompoundIdentifier(parts) => parts.as_slice(),
                _ => return ControlFlow::Continue(()),
            };
            if self.depth == 0 {
                match self.scope.column(parts) {
                    Some(_) => self.own += 1,
                    None => self.other += 1,
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names {
        scope,
        depth: 0,
        own: 0,
        other: 0,
    };
    let _ = visit::visit(expr, &mut names);
    (names.own, names.other)
}

/// Whether the aggregate of no rows is 0.
fn counts(function: &ast::Function) -> bool {
    aggregate_name(function).is_some_and(|name| what_is_counted(&name).is_some())
}

/// Whether the item is NULL over no rows, like a lookup that finds no group: an aggregate, or an
/// expression that is NULL if one of its parts is.
fn is_null_of_nothing(expr: &ast::Expr) -> bool {
    let is_constant = |expr: &ast::Expr| matches!(unnest(expr), ast::Expr::Value(_));
    match unnest(expr) {
        ast::Expr::Function(function) => aggregate_name(function).is_some() && !counts(function),
        ast::Expr::Cast {
            kind: _,
            expr,
            data_type: _,
            format: None,
        } => is_null_of_nothing(expr),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus,
            expr,
        } => is_null_of_nothing(expr),
        ast::Expr::BinaryOp { left, op, right } => {
            use ast::BinaryOperator as B;
            let is_arithmetic =
                matches!(op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo);
            let is_either = |expr: &ast::Expr| is_constant(expr) || is_null_of_nothing(expr);
            is_arithmetic
                && is_either(left)
                && is_either(right)
                && !(is_constant(left) && is_constant(right))
        }
        _ => false,
    }
}
