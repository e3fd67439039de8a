//! Window calls and DISTINCT ON over the rows of one unit.

use sqlparser::ast;

use super::expression_context::{ResolvedParts, SubqueryPlace, computed_column, computing};
use super::per_unit::exact;
use crate::catalog::Type;
use crate::ir::aggregate::Operation;
use crate::ir::expression::Expr;
use crate::ir::relation::{ColumnId, Relation};
use crate::ir::window::{Frame, Order, Position, Window, WindowFunction};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::expression::aggregate_call::aggregate;
use crate::resolve::expression::plain_arguments;
use crate::resolve::expression::window_spec::{OverClause, over, placed_frame, resolve_frame};
use crate::resolve::names::scope::Named;
use crate::resolve::syntax::{called_name, names_of};

/// The frame that PostgreSQL reads for the function, if it reads one.
fn frame_of(
    function: &WindowFunction,
    frame: Option<Frame>,
    name: &str,
) -> Result<Option<Frame>, Refusal> {
    match function {
        WindowFunction::NthValue { value: _, place } => placed_frame(*place, frame, name),
        WindowFunction::RowNumber
        | WindowFunction::Rank
        | WindowFunction::DenseRank
        | WindowFunction::PercentRank
        | WindowFunction::CumeDist
        | WindowFunction::Ntile(_) => Ok(None),
        WindowFunction::LagLead { .. } | WindowFunction::Aggregate(_) => Ok(None),
    }
}

fn window_function_refused(name: &str) -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_WINDOW,
        format!("the window function {name}()"),
    )
    .hint(
        "Windows over the rows of one unit support aggregates, ROW_NUMBER, RANK, \
                DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE, LAG, LEAD, FIRST_VALUE, \
                LAST_VALUE and NTH_VALUE.",
    )
}

impl Resolver<'_> {
    /// Resolves the window calls of a SELECT list.
    pub(in crate::resolve) fn windows_in(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        place: SubqueryPlace<'_>,
        given: &mut ResolvedParts,
    ) -> Result<Vec<(ColumnId, Window)>, Refusal> {
        let mut columns = Vec::new();
        let mut found = Vec::new();
        for expr in select
            .projection
            .iter()
            .filter_map(crate::resolve::syntax::item_expr)
        {
            calls(expr, &mut found);
        }
        for expr in found {
            let ast::Expr::Function(function) = expr else {
                continue;
            };
            let (window, result) = self.window(function, (select, from), place, given)?;
            let id = self
                .output
                .new_column(computed_column("window", &window.data_type, true));
            given.resolved.push((
                std::ptr::from_ref(expr),
                Expr::column(id, window.data_type.clone()).cast(result),
            ));
            columns.push((id, window));
        }
        Ok(columns)
    }

    /// One window call, and the type that PostgreSQL gives it.
    fn window(
        &mut self,
        function: &ast::Function,
        (select, from): (&ast::Select, &BoundFrom),
        place: SubqueryPlace<'_>,
        given: &ResolvedParts,
    ) -> Result<(Window, Type), Refusal> {
        let name = names_of(&function.name)?.pop().unwrap_or_default();
        let OverClause {
            partition_by,
            order_by,
            frame,
        } = over(function, select)?;
        if !self.names.determines_unit(partition_by, from) {
            return Err(self.wide_window_refused());
        }
        let expressions = self.expressions_at(place, given);
        let partition = partition_by
            .iter()
            .map(|e| expressions.value(e))
            .collect::<Result<_, _>>()?;
        let order = orders(order_by, &expressions)?;
        let frame = frame
            .map(|frame| resolve_frame(frame, &order, &expressions))
            .transpose()?
            .flatten();
        let is_plain = function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none();
        let positional = POSITIONAL.contains(&name.as_str());
        if positional && !is_plain {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_WINDOW,
                format!("this form of {name}()"),
            ));
        }
        let (function, frame, data_type, result) = if positional {
            let arguments = plain_arguments(&function.args, &name)?
                .into_iter()
                .map(|e| expressions.value(e))
                .collect::<Result<Vec<_>, _>>()?;
            let (ranked, data_type) = positional_call(&name, arguments)?;
            let frame = frame_of(&ranked, frame, &name)?;
            (ranked, frame, data_type.clone(), data_type)
        } else {
            if called_name(function).is_none() {
                return Err(window_function_refused(&name));
            }
            let found = aggregate(function, &expressions)?;
            check_window_aggregate(&found.operation, &function.args, &name)?;
            let result = found.data_type.clone();
            let exact = exact(found, &name)?;
            let data_type = exact.data_type.clone();
            (WindowFunction::Aggregate(exact), frame, data_type, result)
        };
        let window = Window {
            ranked: function,
            partition,
            order,
            frame,
            data_type,
        };
        Ok((window, result))
    }

    fn wide_window_refused(&self) -> Refusal {
        let unit = &self.names.policy.privacy.unit;
        Refusal::new(
            reason::WINDOW_ACROSS_UNITS,
            format!("a window must stay within the rows of one {unit}"),
        )
        .detail(format!(
            "Otherwise one {unit} could change the values of others."
        ))
        .hint(format!(
            "Add PARTITION BY with the column that identifies the {unit}, or aggregate \
                    first and apply the window to the result."
        ))
    }

    /// DISTINCT ON: the first row of each combination of its keys.
    pub(in crate::resolve) fn first_rows(
        &mut self,
        select: &ast::Select,
        order_by: Option<&ast::OrderBy>,
        relation: Relation,
        place: SubqueryPlace<'_>,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let Some(ast::Distinct::On(keys)) = &select.distinct else {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_DISTINCT,
                "this form of DISTINCT",
            ));
        };
        if crate::resolve::syntax::is_aggregated(&ast::Select {
            distinct: None,
            ..select.clone()
        }) {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_DISTINCT,
                "DISTINCT ON over grouped rows",
            ));
        }
        let given = ResolvedParts::default();
        let expressions = self.expressions_at(place, &given);
        let partition: Vec<Expr> = keys
            .iter()
            .map(|e| expressions.value(e))
            .collect::<Result<_, _>>()?;
        let order = match order_by {
            None => Vec::new(),
            Some(ast::OrderBy {
                kind: ast::OrderByKind::Expressions(exprs),
                interpolate: None,
            }) => orders(exprs, &expressions)?,
            Some(_) => {
                return Err(Refusal::new(
                    reason::SYNTAX_ERROR,
                    "this form of ORDER BY is not valid in PostgreSQL",
                ));
            }
        };
        let matched = order
            .iter()
            .take(partition.len())
            .all(|o| partition.contains(&o.expr));
        if !matched {
            return Err(Refusal::new(
                reason::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            ));
        }
        let id = self
            .output
            .new_column(computed_column("row_number", &Type::Int8, false));
        let window = Window {
            ranked: WindowFunction::RowNumber,
            partition,
            order,
            frame: None,
            data_type: Type::Int8,
        };
        let relation = Relation::Window {
            input: Box::new(relation),
            columns: vec![(id, window)],
        };
        let one = Expr::literal(Some(Scalar::Int(1)), Type::Int8);
        let first = Expr::call(
            crate::ir::functions::Function::Equal,
            vec![Expr::column(id, Type::Int8), one],
            Type::Bool,
        );
        let relation = Relation::Filter {
            input: Box::new(relation),
            predicate: first,
        };
        let (items, named) = self.items(select, place.scope, &given, None)?;
        Ok((computing(relation, items), named))
    }
}

/// Window functions that are not aggregates.
const POSITIONAL: &[&str] = &[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Refuses forms of aggregates that PostgreSQL does not accept over a window.
fn check_window_aggregate(
    operation: &Operation,
    arguments: &ast::FunctionArguments,
    name: &str,
) -> Result<(), Refusal> {
    let is_distinct = matches!(
        arguments,
        ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: Some(ast::DuplicateTreatment::Distinct),
            ..
        })
    );
    if is_distinct {
        return Err(Refusal::new(
            reason::UNSUPPORTED_DISTINCT,
            "DISTINCT is not implemented for window functions",
        ));
    }
    if operation.facts().is_ordered_set {
        return Err(Refusal::new(
            reason::UNSUPPORTED_WINDOW,
            format!("OVER is not supported for ordered-set aggregate {name}"),
        ));
    }
    Ok(())
}

fn positional_call(name: &str, arguments: Vec<Expr>) -> Result<(WindowFunction, Type), Refusal> {
    let form =
        || Refusal::unsupported(reason::UNSUPPORTED_WINDOW, format!("this form of {name}()"));
    let constant = |e: &Expr, lowest: i64| match e.as_literal() {
        Some(Scalar::Int(n)) if (lowest..=10_000).contains(n) => Ok(*n),
        _ => Err(Refusal::new(
            reason::CONSTANT_REQUIRED,
            format!("the number in {name}() must be a constant from {lowest} to 10000"),
        )),
    };
    let mut arguments = arguments.into_iter();
    let found = match (name, arguments.next(), arguments.next(), arguments.next()) {
        ("row_number", None, ..) => (WindowFunction::RowNumber, Type::Int8),
        ("rank", None, ..) => (WindowFunction::Rank, Type::Int8),
        ("dense_rank", None, ..) => (WindowFunction::DenseRank, Type::Int8),
        ("ntile", Some(count), None, _) => {
            (WindowFunction::Ntile(constant(&count, 1)?), Type::Int4)
        }
        ("lag" | "lead", Some(value), offset, None) => {
            let offset = offset.map_or(Ok(1), |e| constant(&e, 0))?;
            let data_type = value.data_type.clone();
            (
                WindowFunction::LagLead {
                    value,
                    offset: if name == "lag" { -offset } else { offset },
                },
                data_type,
            )
        }
        ("percent_rank", None, ..) => (WindowFunction::PercentRank, Type::Float8),
        ("cume_dist", None, ..) => (WindowFunction::CumeDist, Type::Float8),
        ("first_value" | "last_value", Some(value), None, _) => {
            let data_type = value.data_type.clone();
            let place = if name == "first_value" {
                Position::First
            } else {
                Position::Last
            };
            (WindowFunction::NthValue { value, place }, data_type)
        }
        ("nth_value", Some(value), Some(nth), None) => {
            let data_type = value.data_type.clone();
            (
                WindowFunction::NthValue {
                    value,
                    place: Position::Nth(constant(&nth, 1)?),
                },
                data_type,
            )
        }
        _ => return Err(form()),
    };
    Ok(found)
}

fn orders(
    order_by: &[ast::OrderByExpr],
    expressions: &crate::resolve::expression::ExpressionResolver<'_>,
) -> Result<Vec<Order>, Refusal> {
    order_by
        .iter()
        .map(
            |ast::OrderByExpr {
                 expr,
                 options: ast::OrderByOptions { sort, nulls_first },
                 with_fill,
             }| {
                let descending = match sort {
                    None | Some(ast::OrderBySort::Asc) => false,
                    Some(ast::OrderBySort::Desc) => true,
                    Some(ast::OrderBySort::Using(_)) => {
                        return Err(Refusal::unsupported(
                            reason::UNSUPPORTED_WINDOW,
                            "ORDER BY … USING",
                        ));
                    }
                };
                if with_fill.is_some() {
                    return Err(Refusal::new(
                        reason::SYNTAX_ERROR,
                        "WITH FILL is not valid in PostgreSQL",
                    ));
                }
                if crate::resolve::syntax::is_ordinal(expr) {
                    return Err(Refusal::unsupported(
                        reason::UNSUPPORTED_WINDOW,
                        "ORDER BY a position",
                    )
                    .hint("Name the column."));
                }
                Ok(Order {
                    expr: expressions.value(expr)?,
                    descending,
                    nulls_first: nulls_first.unwrap_or(descending),
                })
            },
        )
        .collect()
}

/// Window calls in an expression, outside subqueries. They are not nested.
fn calls<'e>(expr: &'e ast::Expr, found: &mut Vec<&'e ast::Expr>) {
    use ast::Expr as E;
    match expr {
        E::Function(function) if function.over.is_some() => found.push(expr),
        E::Function(ast::Function {
            args: ast::FunctionArguments::List(list),
            ..
        }) => {
            for argument in &list.args {
                if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument {
                    calls(expr, found);
                }
            }
        }
        E::Nested(e)
        | E::IsNull(e)
        | E::IsNotNull(e)
        | E::IsTrue(e)
        | E::IsNotTrue(e)
        | E::IsFalse(e)
        | E::IsNotFalse(e) => calls(e, found),
        E::UnaryOp { op: _, expr }
        | E::Cast {
            kind: _,
            expr,
            data_type: _,
            format: _,
        } => calls(expr, found),
        E::BinaryOp { left, op: _, right } => {
            [left, right].into_iter().for_each(|e| calls(e, found))
        }
        E::Between {
            expr,
            negated: _,
            low,
            high,
        } => [expr, low, high].into_iter().for_each(|e| calls(e, found)),
        E::Extract {
            field: _,
            syntax: _,
            expr,
        } => calls(expr, found),
        E::InList {
            expr,
            list,
            negated: _,
        } => std::iter::once(expr.as_ref())
            .chain(list)
            .for_each(|e| calls(e, found)),
        E::Case {
            case_token: _,
            end_token: _,
            operand,
            conditions,
            else_result,
        } => {
            operand
                .iter()
                .chain(else_result)
                .for_each(|e| calls(e, found));
            for ast::CaseWhen { condition, result } in conditions {
                calls(condition, found);
                calls(result, found);
            }
        }
        // In other places the resolver of expressions finds the window call and refuses it by name.
        _ => {}
    }
}
