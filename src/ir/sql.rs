//! Small builders of sqlparser's AST, so that emitted SQL is never text glued to text.

mod plain;
mod print;

pub use plain::{empty_select, plain_table, query_of};
pub use print::print;
pub(crate) use print::too_complex;
use sqlparser::ast::{self, helpers::attached_token::AttachedToken};

use crate::calendar::{MICROS_PER_DAY, civil_from_days};
use crate::catalog::Type;
use crate::ir::literal::interval_text;
use crate::parse::join_terms;
use crate::policy::Scalar;
use crate::visit;

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
pub fn number(text: &str) -> ast::Expr {
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
pub fn text(text: &str) -> ast::Expr {
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

/// `EXTRACT(field FROM operand)`; `None` for a field that is not in the catalogue.
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

/// The same aggregate over distinct arguments.
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

/// The same, partitioned by several expressions.
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
    let elem = (0..count).map(|at| number(&at.to_string())).collect();
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
        value: number("0"),
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

/// A constant of a type, written so that PostgreSQL reads exactly that type.
pub fn constant(constant: Option<&Scalar>, to: &Type) -> ast::Expr {
    let Some(scalar) = constant else {
        return cast(null(), to);
    };
    match (scalar, to) {
        (Scalar::Bool(v), _) => value(ast::Value::Boolean(*v)),
        (Scalar::Int(v), Type::Int4) if *v > i64::from(i32::MIN) => number(&v.to_string()),
        (Scalar::Timestamp(_), Type::Timestamptz) => cast(text(&in_utc(&scalar_text(scalar))), to),
        (scalar, to) => cast(text(&scalar_text(scalar)), to),
    }
}

/// The text of an instant with its zone. The zone stands before `BC`, and infinity has no zone.
fn in_utc(text: &str) -> String {
    match text.strip_suffix(" BC") {
        Some(instant) => format!("{instant}+00 BC"),
        None if text.ends_with("infinity") => text.to_owned(),
        None => format!("{text}+00"),
    }
}

/// The canonical text of a constant: what PostgreSQL prints for it under ISO settings and UTC.
pub fn scalar_text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Bool(v) => v.to_string(),
        Scalar::Int(v) => v.to_string(),
        Scalar::Decimal(v) | Scalar::Text(v) => v.clone(),
        Scalar::Interval {
            months,
            days,
            micros,
        } => interval_text(*months, *days, *micros),
        Scalar::Date(i32::MAX) | Scalar::Timestamp(i64::MAX) => "infinity".to_owned(),
        Scalar::Date(i32::MIN) | Scalar::Timestamp(i64::MIN) => "-infinity".to_owned(),
        Scalar::Date(days) => {
            let (date, era) = date_text(*days);
            format!("{date}{era}")
        }
        Scalar::Timestamp(micros) => {
            let (days, time) = (
                micros.div_euclid(MICROS_PER_DAY),
                micros.rem_euclid(MICROS_PER_DAY),
            );
            let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
            let clock = format!(
                "{:02}:{:02}:{:02}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            );
            let fraction = if fraction == 0 {
                String::new()
            } else {
                format!(".{fraction:06}").trim_end_matches('0').to_owned()
            };
            let (date, era) = date_text(i32::try_from(days).unwrap_or(i32::MAX));
            format!("{date} {clock}{fraction}{era}")
        }
    }
}

/// The date, and the suffix for years before the year 1.
fn date_text(days: i32) -> (String, &'static str) {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

/// A type as a cast names it.
pub fn data_type(data_type: &Type) -> ast::DataType {
    use ast::{DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    match data_type {
        Type::Bool => D::Boolean,
        Type::Int2 => D::SmallInt(None),
        Type::Int4 => D::Integer(None),
        Type::Int8 => D::BigInt(None),
        Type::Numeric(None) => D::Numeric(N::None),
        Type::Numeric(Some((precision, scale))) => D::Numeric(N::PrecisionAndScale(
            u64::from(*precision),
            i64::from(*scale),
        )),
        Type::Float4 => D::Real,
        Type::Float8 => D::DoublePrecision,
        Type::Text => D::Text,
        Type::Varchar(_) => D::CharacterVarying(None),
        Type::Char(None) => D::Custom(name(&["bpchar"]), Vec::new()),
        Type::Char(Some(length)) => D::Character(Some(ast::CharacterLength::IntegerLength {
            length: u64::from(*length),
            unit: None,
        })),
        Type::Uuid => D::Uuid,
        Type::Date => D::Date,
        Type::Timestamp => D::Timestamp(None, Z::None),
        Type::Timestamptz => D::Timestamp(None, Z::WithTimeZone),
        Type::Interval => D::Interval {
            fields: None,
            precision: None,
        },
        Type::Time => D::Time(None, Z::None),
        Type::Enum(made) => D::Custom(name(&[&made.schema, &made.name]), Vec::new()),
        Type::Other {
            oid: _,
            name: type_name,
        } => D::Custom(name(&[type_name]), Vec::new()),
    }
}
