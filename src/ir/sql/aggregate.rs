//! Calls of aggregates and windows.

use sqlparser::ast;

use super::function_of;

/// `count(*)` or an aggregate of `argument`, with FILTER.
pub fn aggregate(
    function: &str,
    argument: Option<ast::Expr>,
    filter: Option<ast::Expr>,
) -> ast::Expr {
    let mut call = function_of(function, argument.clone().into_iter().collect());
    if argument.is_none() {
        call.args = ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)],
            clauses: Vec::new(),
        });
    }
    call.filter = filter.map(Box::new);
    ast::Expr::Function(call)
}

/// An ordered-set aggregate, with FILTER.
pub fn within_group(
    function: &str,
    argument: Option<ast::Expr>,
    order: ast::OrderByExpr,
    filter: Option<ast::Expr>,
) -> ast::Expr {
    let mut call = function_of(function, argument.into_iter().collect());
    call.within_group = vec![order];
    call.filter = filter.map(Box::new);
    ast::Expr::Function(call)
}

/// The aggregate over distinct arguments.
pub fn distinct(aggregate: ast::Expr) -> ast::Expr {
    let ast::Expr::Function(mut call) = aggregate else {
        return aggregate;
    };
    if let ast::FunctionArguments::List(list) = &mut call.args {
        list.duplicate_treatment = Some(ast::DuplicateTreatment::Distinct);
    }
    ast::Expr::Function(call)
}

/// The call over a window.
pub fn over_window(call: ast::Expr, spec: ast::WindowSpec) -> ast::Expr {
    let ast::Expr::Function(mut call) = call else {
        return call;
    };
    call.over = Some(ast::WindowType::WindowSpec(spec));
    ast::Expr::Function(call)
}

/// A term of ORDER BY.
pub fn order_term(expr: ast::Expr, descending: bool, nulls_first: bool) -> ast::OrderByExpr {
    let sort = Some(if descending {
        ast::OrderBySort::Desc
    } else {
        ast::OrderBySort::Asc
    });
    ast::OrderByExpr {
        expr,
        options: ast::OrderByOptions {
            sort,
            nulls_first: Some(nulls_first),
        },
        with_fill: None,
    }
}

/// A window call over `PARTITION BY partition ORDER BY order`.
pub fn over(
    function: &str,
    arguments: Vec<ast::Expr>,
    partition: ast::Expr,
    order: Vec<ast::Expr>,
) -> ast::Expr {
    over_all(function, arguments, vec![partition], order)
}

/// [`over`], partitioned by several expressions.
pub fn over_all(
    function: &str,
    arguments: Vec<ast::Expr>,
    partition: Vec<ast::Expr>,
    order: Vec<ast::Expr>,
) -> ast::Expr {
    let mut call = function_of(function, arguments);
    let order_by = order
        .into_iter()
        .map(|expr| ast::OrderByExpr {
            expr,
            options: ast::OrderByOptions {
                sort: None,
                nulls_first: None,
            },
            with_fill: None,
        })
        .collect();
    call.over = Some(ast::WindowType::WindowSpec(ast::WindowSpec {
        window_name: None,
        partition_by: partition,
        order_by,
        window_frame: None,
    }));
    ast::Expr::Function(call)
}
