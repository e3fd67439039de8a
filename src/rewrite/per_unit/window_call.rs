//! Window calls over the rows of one unit.

use sqlparser::ast;

use super::aggregate_call;
use crate::ir::{Edge, Expr, Frame, FrameMode, Order, Position, Window, WindowFunction};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::sql;

/// One window call.
pub(super) fn window_call(
    window: &Window,
    expressions: &ExpressionEmitter<'_>,
    ties: &[ast::Expr],
) -> Result<ast::Expr, Refusal> {
    let Window {
        ranked,
        partition,
        order,
        frame,
        data_type: _,
    } = window;
    let partition_by = partition
        .iter()
        .map(|e| expressions.presence(e))
        .collect::<Result<Vec<_>, _>>()?;
    let order_by = ordered_by(order, frame.as_ref(), expressions)?;
    let completed = || {
        order_by
            .iter()
            .cloned()
            .chain(
                ties.iter()
                    .map(|tie| sql::order_term(tie.clone(), false, false)),
            )
            .collect()
    };
    let spec = |order_by| ast::WindowSpec {
        window_name: None,
        partition_by: partition_by.clone(),
        order_by,
        window_frame: None,
    };
    let emitted = |value: &Expr| Ok::<_, Refusal>(expressions.emit(value)?.0);
    let ranks = |name: &str, terms| sql::over_window(sql::call(name, Vec::new()), spec(terms));
    Ok(match ranked {
        WindowFunction::PercentRank => ranks("percent_rank", order_by.clone()),
        WindowFunction::CumeDist => ranks("cume_dist", order_by.clone()),
        WindowFunction::RowNumber => ranks("row_number", completed()),
        WindowFunction::Rank => ranks("rank", order_by.clone()),
        WindowFunction::DenseRank => ranks("dense_rank", order_by.clone()),
        WindowFunction::Ntile(count) => sql::over_window(
            sql::call("ntile", vec![sql::number_literal(&count.to_string())]),
            spec(completed()),
        ),
        WindowFunction::LagLead { value, offset } => {
            let name = if *offset < 0 { "lag" } else { "lead" };
            let rows = sql::number_literal(&offset.abs().to_string());
            let arguments = vec![emitted(value)?, rows];
            sql::over_window(sql::call(name, arguments), spec(completed()))
        }
        WindowFunction::NthValue { value, place } => {
            let window = Placed {
                partition_by: &partition_by,
                order_by: &order_by,
                ties,
            };
            window.call(emitted(value)?, *place, frame.as_ref())
        }
        WindowFunction::Aggregate(aggregate) => {
            // Rows that tie are peers: they come into a frame of RANGE or GROUPS together, and into
            // one of ROWS one by one.
            let order_by = if frame.as_ref().is_some_and(|f| f.mode == FrameMode::Rows) {
                completed()
            } else {
                order_by.clone()
            };
            aggregate_call(
                aggregate,
                expressions,
                Some(ast::WindowSpec {
                    window_frame: frame.as_ref().map(print_frame),
                    ..spec(order_by)
                }),
            )?
        }
    })
}

/// The ORDER BY of a window.
fn ordered_by(
    order: &[Order],
    frame: Option<&Frame>,
    expressions: &ExpressionEmitter<'_>,
) -> Result<Vec<ast::OrderByExpr>, Refusal> {
    let mut order_by = Vec::new();
    for Order {
        expr,
        descending,
        nulls_first,
    } in order
    {
        // PostgreSQL adds offsets to the ORDER BY expression, which must stay within its type.
        let is_measured = frame.is_some_and(Frame::measures);
        let key = if is_measured {
            expressions.emit(expr)?.0
        } else {
            expressions.presence(expr)?
        };
        order_by.push(sql::order_term(key, *descending, *nulls_first));
    }
    Ok(order_by)
}

/// A window whose rows are in a total order.
struct Placed<'a> {
    partition_by: &'a [ast::Expr],
    order_by: &'a [ast::OrderByExpr],
    ties: &'a [ast::Expr],
}

impl Placed<'_> {
    /// FIRST_VALUE, LAST_VALUE or NTH_VALUE. By default a frame ends with the last row that ties
    /// with the current one, not with the last in the completed order.
    fn call(&self, value: ast::Expr, place: Position, frame: Option<&Frame>) -> ast::Expr {
        let ties = |descending: bool| {
            self.ties
                .iter()
                .map(move |tie| sql::order_term(tie.clone(), descending, false))
        };
        let over = |call: ast::Expr,
                    order_by: Vec<ast::OrderByExpr>,
                    window_frame: Option<ast::WindowFrame>| {
            sql::over_window(
                call,
                ast::WindowSpec {
                    window_name: None,
                    partition_by: self.partition_by.to_vec(),
                    order_by,
                    window_frame,
                },
            )
        };
        let completed = || self.order_by.iter().cloned().chain(ties(false)).collect();
        let (name, arguments) = match place {
            Position::First => ("first_value", vec![value.clone()]),
            Position::Last => ("last_value", vec![value.clone()]),
            Position::Nth(nth) => (
                "nth_value",
                vec![value.clone(), sql::number_literal(&nth.to_string())],
            ),
        };
        let call = sql::call(name, arguments);
        match (frame, place) {
            (Some(frame), _) => over(call, completed(), Some(print_frame(frame))),
            (None, Position::First) => over(call, completed(), None),
            (None, Position::Last) => {
                // The last of the rows that tie is the first one from the other end.
                let peers = self
                    .partition_by
                    .iter()
                    .cloned()
                    .chain(self.order_by.iter().map(|o| o.expr.clone()))
                    .collect();
                let first = sql::call("first_value", vec![value]);
                let spec = ast::WindowSpec {
                    window_name: None,
                    partition_by: peers,
                    order_by: ties(true).collect(),
                    window_frame: None,
                };
                sql::over_window(first, spec)
            }
            (None, Position::Nth(nth)) => {
                let all = Frame {
                    mode: FrameMode::Rows,
                    start: Edge::First,
                    end: Edge::Last,
                };
                let reached = over(
                    sql::aggregate("count", None, None),
                    self.order_by.to_vec(),
                    None,
                );
                let reached = sql::binary(
                    reached,
                    ast::BinaryOperator::GtEq,
                    sql::number_literal(&nth.to_string()),
                );
                sql::case(
                    vec![(reached, over(call, completed(), Some(print_frame(&all))))],
                    None,
                )
            }
        }
    }
}

fn print_frame(frame: &Frame) -> ast::WindowFrame {
    let Frame { mode, start, end } = frame;
    let offset = |e: &Expr| Some(Box::new(sql::constant(e.as_literal(), &e.data_type)));
    let edge = |edge: &Edge| match edge {
        Edge::First => ast::WindowFrameBound::Preceding(None),
        Edge::Before(e) => ast::WindowFrameBound::Preceding(offset(e)),
        Edge::Current => ast::WindowFrameBound::CurrentRow,
        Edge::After(e) => ast::WindowFrameBound::Following(offset(e)),
        Edge::Last => ast::WindowFrameBound::Following(None),
    };
    let units = match mode {
        FrameMode::Rows => ast::WindowFrameUnits::Rows,
        FrameMode::Range => ast::WindowFrameUnits::Range,
        FrameMode::Groups => ast::WindowFrameUnits::Groups,
    };
    ast::WindowFrame {
        units,
        start_bound: edge(start),
        end_bound: Some(edge(end)),
    }
}
