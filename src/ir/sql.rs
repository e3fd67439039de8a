//! Small builders of sqlparser's AST, so that emitted SQL is never text glued to text.

mod aggregate;
mod literal;
mod plain;
mod print;

pub use plain::{empty_select, plain_table, query_of};
pub(crate) use print::too_complex;
pub use print::{Printed, print, print_to_read_back, read_back};
use sqlparser::ast::{self, helpers::attached_token::AttachedToken};

use crate::catalog::Type;
use crate::parse::join_terms;
use crate::visit;
pub use aggregate::{aggregate, distinct, order_term, over, over_all, over_window, within_group};
pub use literal::{constant, data_type, scalar_text, write_scalar};

/// Number of nodes of an expression, including those of its subqueries.
pub fn weight(expr: &ast::Expr) -> usize {
    struct Count(usize);
    impl ast::Visitor for Count {
        type Break = std::convert::Infallible;
        fn pre_visit_expr(&mut self, _: &ast::Expr) -> std::ops::ControlFlow<Self::Break> {
            self.0 += 1;
            std::ops::ControlFlow::Continue(())
        }
    }
    if let ast::Expr::CompoundIdentifier(_) = expr {
        return 1;
    }
    let mut count = Count(0);
    let std::ops::ControlFlow::Continue(()) = visit::visit(expr, &mut count);
    count.0
}

pub fn ident(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

pub fn name(parts: &[&str]) -> ast::ObjectName {
    ast::ObjectName(
        parts
            .iter()
            .map(|p| ast::ObjectNamePart::Identifier(ident(p)))
            .collect(),
    )
}

/// `"relation"."column"`.
pub fn column(relation: &str, column: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![ident(relation), ident(column)])
}

pub fn bare(column: &str) -> ast::Expr {
    ast::Expr::Identifier(ident(column))
}

pub fn value(value: ast::Value) -> ast::Expr {
    ast::Expr::Value(value.into())
}

/// A number as written; negative ones in parentheses, so that no operator can bind to their sign.
pub fn number_literal(text: &str) -> ast::Expr {
    match text.strip_prefix('-') {
        Some(digits) => ast::Expr::Nested(Box::new(ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: Box::new(value(ast::Value::Number(digits.to_owned(), false))),
        })),
        None => value(ast::Value::Number(text.to_owned(), false)),
    }
}

/// A string constant; as `E'…'` where it holds a quote or backslash, whose plain form sqlparser
/// does not print safely.
pub fn text_literal(text: &str) -> ast::Expr {
    let text = text.to_owned();
    value(if text.contains(['\'', '\\']) {
        ast::Value::EscapedStringLiteral(text)
    } else {
        ast::Value::SingleQuotedString(text)
    })
}

pub fn null() -> ast::Expr {
    value(ast::Value::Null)
}

pub fn binary(left: ast::Expr, op: ast::BinaryOperator, right: ast::Expr) -> ast::Expr {
    ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

/// A chain of an associative operator, in the shape that the parser gives to a long chain; `None`
/// for an empty list.
pub fn chain(terms: Vec<ast::Expr>, op: &ast::BinaryOperator) -> Option<ast::Expr> {
    join_terms(terms, &|left, right| ast::Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    })
}

/// The conjunction of the conditions; `None` for an empty list.
pub fn all(conditions: Vec<ast::Expr>) -> Option<ast::Expr> {
    chain(conditions, &ast::BinaryOperator::And)
}

pub fn nest(expr: ast::Expr) -> ast::Expr {
    match expr {
        expr @ (ast::Expr::Nested(_)
        | ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_)
        | ast::Expr::Value(_)
        | ast::Expr::Function(_)) => expr,
        expr @ (ast::Expr::Cast { .. } | ast::Expr::Case { .. } | ast::Expr::Subquery(_)) => expr,
        expr => ast::Expr::Nested(Box::new(expr)),
    }
}

pub fn cast(expr: ast::Expr, to: &Type) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type: data_type(to),
        format: None,
    }
}

/// The value as an array of elements of a type.
pub fn cast_to_array(value: ast::Expr, element: &Type) -> ast::Expr {
    let element = Box::new(data_type(element));
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(value),
        data_type: ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, None)),
        format: None,
    }
}

pub fn is_null(expr: ast::Expr) -> ast::Expr {
    ast::Expr::IsNull(Box::new(nest(expr)))
}

pub fn is_not_null(expr: ast::Expr) -> ast::Expr {
    ast::Expr::IsNotNull(Box::new(nest(expr)))
}

pub fn not(expr: ast::Expr) -> ast::Expr {
    ast::Expr::Nested(Box::new(ast::Expr::UnaryOp {
        op: ast::UnaryOperator::Not,
        expr: Box::new(nest(expr)),
    }))
}

/// `CASE WHEN … THEN … ELSE … END`.
pub fn case(branches: Vec<(ast::Expr, ast::Expr)>, otherwise: Option<ast::Expr>) -> ast::Expr {
    ast::Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: branches
            .into_iter()
            .map(|(condition, result)| ast::CaseWhen { condition, result })
            .collect(),
        else_result: otherwise.map(Box::new),
    }
}

/// A function call of pg_catalog. Names are printed unquoted: some are grammar, not functions, when
/// quoted.
pub fn call(function: &str, mut arguments: Vec<ast::Expr>) -> ast::Expr {
    let field = ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime);
    match (function, arguments.pop()) {
        // The parser has separate nodes for these.
        ("floor", Some(expr)) => ast::Expr::Floor {
            expr: Box::new(expr),
            field,
        },
        ("ceil", Some(expr)) => ast::Expr::Ceil {
            expr: Box::new(expr),
            field,
        },
        ("substr", last) => {
            let mut all = arguments.into_iter().chain(last).map(Box::new);
            let (expr, substring_from, substring_for) = (
                all.next().unwrap_or_else(|| Box::new(null())),
                all.next(),
                all.next(),
            );
            ast::Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: true,
                shorthand: true,
            }
        }
        (_, last) => {
            arguments.extend(last);
            ast::Expr::Function(function_of(function, arguments))
        }
    }
}

/// `EXTRACT(field FROM operand)`; `None` for a field that PostgreSQL does not have.
pub fn extract(field: &str, operand: ast::Expr) -> Option<ast::Expr> {
    use ast::DateTimeField as D;
    let field = match field {
        "millennium" => D::Millennium,
        "century" => D::Century,
        "decade" => D::Decade,
        "year" => D::Year,
        "quarter" => D::Quarter,
        "month" => D::Month,
        "week" => D::Week(None),
        "day" => D::Day,
        "hour" => D::Hour,
        "minute" => D::Minute,
        "second" => D::Second,
        "millisecond" => D::Millisecond,
        "microsecond" => D::Microsecond,
        "epoch" => D::Epoch,
        "dow" => D::Dow,
        "doy" => D::Doy,
        "isodow" => D::Isodow,
        "isoyear" => D::Isoyear,
        _ => return None,
    };
    Some(ast::Expr::Extract {
        field,
        syntax: ast::ExtractSyntax::From,
        expr: Box::new(operand),
    })
}

pub fn function_of(function: &str, arguments: Vec<ast::Expr>) -> ast::Function {
    let args = arguments
        .into_iter()
        .map(|a| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(a)))
        .collect();
    // sqlparser reads these names as special grammar if they are not qualified. In PostgreSQL they
    // are ordinary functions.
    let name = if matches!(function, "floor" | "ceil" | "substr" | "substring") {
        ident(function)
    } else {
        ast::Ident::new(function)
    };
    ast::Function {
        name: ast::ObjectName(vec![ast::ObjectNamePart::Identifier(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    }
}

pub fn alias(expr: ast::Expr, alias: &str) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr,
        alias: ident(alias),
    }
}

pub fn table_alias(name: &str) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name: ident(name),
        columns: Vec::new(),
        at: None,
    }
}

pub fn table(schema: &str, table: &str, as_name: &str) -> ast::TableFactor {
    plain_table(name(&[schema, table]), Some(table_alias(as_name)))
}

pub fn derived_table(query: ast::Query, as_name: &str) -> ast::TableFactor {
    ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(table_alias(as_name)),
        sample: None,
    }
}

/// `unnest(ARRAY[0, …, count - 1]) AS as_name (column)`.
pub fn numbers(count: usize, as_name: &str, column: &str) -> ast::TableFactor {
    let elem = (0..count)
        .map(|at| number_literal(&at.to_string()))
        .collect();
    ast::TableFactor::UNNEST {
        alias: Some(ast::TableAlias {
            explicit: true,
            name: ident(as_name),
            columns: vec![ast::TableAliasColumnDef {
                name: ident(column),
                data_type: None,
            }],
            at: None,
        }),
        array_exprs: vec![ast::Expr::Array(ast::Array { elem, named: true })],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

pub fn tables(relation: ast::TableFactor) -> ast::TableWithJoins {
    ast::TableWithJoins {
        relation,
        joins: Vec::new(),
    }
}

/// `SELECT projection FROM from [WHERE condition] [GROUP BY group_by]`.
pub fn select(
    projection: Vec<ast::SelectItem>,
    from: Vec<ast::TableWithJoins>,
    condition: Option<ast::Expr>,
    group_by: Vec<ast::Expr>,
) -> ast::Query {
    let select = ast::Select {
        projection,
        from,
        selection: condition,
        group_by: ast::GroupByExpr::Expressions(group_by, Vec::new()),
        ..empty_select()
    };
    query_of(ast::SetExpr::Select(Box::new(select)))
}

/// The rows, with an optimizer fence: their columns are computed before anything above reads them.
pub fn computed_once(query: ast::Query) -> ast::Query {
    let offset = Some(ast::Offset {
        value: number_literal("0"),
        rows: ast::OffsetRows::None,
    });
    ast::Query {
        limit_clause: Some(ast::LimitClause::LimitOffset {
            limit: None,
            offset,
            limit_by: Vec::new(),
        }),
        ..query
    }
}
