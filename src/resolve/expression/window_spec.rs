//! OVER: the window that a call names or spells out, and its frame.

use sqlparser::ast;

use super::ExpressionResolver;
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::literal::type_name;
use crate::ir::window::{Edge, Frame, FrameMode, Order, Position};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::name_of;

/// Most rows or groups that a frame reaches.
const OFFSET_MAX: i64 = 1_000_000_000;
/// Furthest that a frame reaches in months, days and microseconds: a thousand years, so that no
/// date leaves its type.
const REACH_MAX: (i32, i32, i64) = (12_000, 366_000, 31_622_400_000_000_000);

/// A window as a call has it: the parts of a named window among its own.
pub struct OverClause<'s> {
    pub partition_by: &'s [ast::Expr],
    pub order_by: &'s [ast::OrderByExpr],
    pub frame: Option<&'s ast::WindowFrame>,
}

/// The window of a call.
///
/// # Errors
/// 42704 for a name that the WINDOW clause lacks, 42P20 where a part would be given twice.
pub fn over<'s>(
    function: &'s ast::Function,
    select: &'s ast::Select,
) -> Result<OverClause<'s>, Refusal> {
    match &function.over {
        Some(ast::WindowType::WindowSpec(spec)) => specify(spec, &select.named_window),
        Some(ast::WindowType::NamedWindow(name)) => find_window(name, &select.named_window),
        None => Err(Refusal::unsupported(
            reason::UNEXPECTED_FORM,
            "a window call without a window",
        )),
    }
}

fn find_window<'s>(
    name: &ast::Ident,
    windows: &'s [ast::NamedWindowDefinition],
) -> Result<OverClause<'s>, Refusal> {
    let wanted = name_of(name)?;
    for (at, ast::NamedWindowDefinition(known, definition)) in windows.iter().enumerate() {
        if name_of(known)? != wanted {
            continue;
        }
        return match definition {
            // A window is made of earlier ones.
            ast::NamedWindowExpr::WindowSpec(spec) => specify(spec, &windows[..at]),
            ast::NamedWindowExpr::NamedWindow(_) => Err(Refusal::new(
                reason::SYNTAX_ERROR,
                "a window is defined in parentheses",
            )),
        };
    }
    Err(Refusal::new(
        reason::UNKNOWN_WINDOW,
        format!("window \"{wanted}\" does not exist"),
    ))
}

fn specify<'s>(
    spec: &'s ast::WindowSpec,
    windows: &'s [ast::NamedWindowDefinition],
) -> Result<OverClause<'s>, Refusal> {
    let ast::WindowSpec {
        window_name,
        partition_by,
        order_by,
        window_frame,
    } = spec;
    let own = OverClause {
        partition_by,
        order_by,
        frame: window_frame.as_ref(),
    };
    let Some(name) = window_name else {
        return Ok(own);
    };
    let base = find_window(name, windows)?;
    let twice = |part: &str| {
        Err(Refusal::new(
            reason::INVALID_WINDOW,
            format!("cannot override {part} clause of window \"{}\"", name.value),
        ))
    };
    if !own.partition_by.is_empty() {
        return twice("PARTITION BY");
    }
    if !own.order_by.is_empty() && !base.order_by.is_empty() {
        return twice("ORDER BY");
    }
    if base.frame.is_some() {
        return Err(Refusal::new(
            reason::INVALID_WINDOW,
            format!(
                "cannot copy window \"{}\" because it has a frame clause",
                name.value
            ),
        ));
    }
    let order_by = if own.order_by.is_empty() {
        base.order_by
    } else {
        own.order_by
    };
    Ok(OverClause {
        partition_by: base.partition_by,
        order_by,
        frame: own.frame,
    })
}

/// A frame in our own tree; `None` for the default one written out.
///
/// # Errors
/// 42P20 for a frame that PostgreSQL rejects; 0A000 for offsets that are not small constants or do
/// not fit the type of the order.
pub fn resolve_frame(
    frame: &ast::WindowFrame,
    order: &[Order],
    expressions: &ExpressionResolver<'_>,
) -> Result<Option<Frame>, Refusal> {
    let ast::WindowFrame {
        units,
        start_bound,
        end_bound,
    } = frame;
    let mode = match units {
        ast::WindowFrameUnits::Rows => FrameMode::Rows,
        ast::WindowFrameUnits::Range => FrameMode::Range,
        ast::WindowFrameUnits::Groups => FrameMode::Groups,
    };
    let edge = |bound: &ast::WindowFrameBound| {
        Ok::<_, Refusal>(match bound {
            ast::WindowFrameBound::CurrentRow => Edge::Current,
            ast::WindowFrameBound::Preceding(None) => Edge::First,
            ast::WindowFrameBound::Following(None) => Edge::Last,
            ast::WindowFrameBound::Preceding(Some(e)) => {
                Edge::Before(offset(mode, &expressions.value(e)?, order)?)
            }
            ast::WindowFrameBound::Following(Some(e)) => {
                Edge::After(offset(mode, &expressions.value(e)?, order)?)
            }
        })
    };
    let start = edge(start_bound)?;
    let end = end_bound.as_ref().map_or(Ok(Edge::Current), edge)?;
    let wrong = |message: &str| Err(Refusal::new(reason::INVALID_WINDOW, message));
    match (&start, &end) {
        (Edge::Last, _) => return wrong("frame start cannot be UNBOUNDED FOLLOWING"),
        (_, Edge::First) => return wrong("frame end cannot be UNBOUNDED PRECEDING"),
        (Edge::Current, Edge::Before(_)) => {
            return wrong("frame starting from current row cannot have preceding rows");
        }
        (Edge::After(_), Edge::Current | Edge::Before(_)) => {
            return wrong("frame starting from following row cannot have preceding rows");
        }
        _ => {}
    }
    if mode == FrameMode::Groups && order.is_empty() {
        return wrong("GROUPS mode requires an ORDER BY clause");
    }
    let frame = Frame { mode, start, end };
    let is_default = frame
        == Frame {
            mode: FrameMode::Range,
            start: Edge::First,
            end: Edge::Current,
        };
    Ok((!is_default).then_some(frame))
}

/// The frame of FIRST_VALUE, LAST_VALUE or NTH_VALUE: the order of its rows must be fully
/// determined.
///
/// # Errors
/// 0A000 where rows that tie would all be first or last.
pub fn placed_frame(
    place: Position,
    frame: Option<Frame>,
    name: &str,
) -> Result<Option<Frame>, Refusal> {
    let Some(frame) = frame else { return Ok(None) };
    match (&frame.mode, &frame.start, &frame.end) {
        (FrameMode::Rows, ..) => Ok(Some(frame)),
        (_, Edge::First, Edge::Last) => Ok(Some(Frame {
            mode: FrameMode::Rows,
            ..frame
        })),
        // The first row of all, as by default.
        (_, Edge::First, Edge::Current | Edge::After(_)) if place == Position::First => Ok(None),
        _ => Err(Refusal::unsupported(
            reason::UNSUPPORTED_WINDOW,
            format!("{name}() over a frame of RANGE or GROUPS"),
        )
        .detail(
            "The result would depend on how rows that tie at the end of the frame are \
                        stored.",
        )
        .hint("Use ROWS, or a frame from UNBOUNDED PRECEDING to UNBOUNDED FOLLOWING.")),
    }
}

/// An offset as the constant that PostgreSQL takes in this mode.
fn offset(mode: FrameMode, given: &Expr, order: &[Order]) -> Result<Expr, Refusal> {
    let Some(value) = constant(given) else {
        return Err(Refusal::new(
            reason::UNSUPPORTED_WINDOW,
            "the offset of a window frame must be a constant within limits",
        )
        .hint("Write a number from 0 to 1000000000, or an interval of at most 1000 years."));
    };
    if mode != FrameMode::Range {
        return match value {
            Scalar::Int(_) => Ok(Expr::literal(Some(value), Type::Int8)),
            _ => Err(Refusal::new(
                reason::UNSUPPORTED_WINDOW,
                "the offset of a ROWS or GROUPS frame must be an integer",
            )),
        };
    }
    let [Order { expr, .. }] = order else {
        return Err(Refusal::new(
            reason::INVALID_WINDOW,
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
        ));
    };
    let data_type = match (&expr.data_type, &value) {
        (Type::Int2 | Type::Int4 | Type::Int8, Scalar::Int(_)) => Type::Int8,
        (Type::Numeric(_), Scalar::Int(_) | Scalar::Decimal(_)) => Type::Numeric(None),
        (Type::Float4 | Type::Float8, Scalar::Int(_) | Scalar::Decimal(_)) => Type::Float8,
        (Type::Date | Type::Timestamp | Type::Timestamptz, Scalar::Interval { .. }) => {
            Type::Interval
        }
        (column, _) => {
            let types = format!(
                "column type {} and offset type {}",
                type_name(column),
                type_name(&given.data_type)
            );
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_WINDOW,
                format!("RANGE with offset PRECEDING/FOLLOWING for {types}"),
            )
            .hint("Numbers take a numeric offset; dates and timestamps take an interval."));
        }
    };
    Ok(Expr::literal(Some(value), data_type))
}

/// A constant that no frame can fail with: not negative, and far from the end of every type.
fn constant(given: &Expr) -> Option<Scalar> {
    let value = match &given.node {
        // The same number in a wider type.
        Node::Cast(inner)
            if matches!(
                given.data_type,
                Type::Int8 | Type::Numeric(None) | Type::Float8
            ) =>
        {
            inner.as_literal()?
        }
        Node::Cast(_)
        | Node::Literal(_)
        | Node::Column(_)
        | Node::Constant(_)
        | Node::Call { .. }
        | Node::Case { .. }
        | Node::Exists { .. } => given.as_literal()?,
    };
    let is_small = match value {
        Scalar::Int(n) => (0..=OFFSET_MAX).contains(n),
        Scalar::Decimal(text) => {
            text.len() <= 30
                && !text.contains(['e', 'E'])
                && text
                    .parse::<f64>()
                    .is_ok_and(|n| (0.0..=OFFSET_MAX as f64).contains(&n))
        }
        Scalar::Interval {
            months,
            days,
            micros,
        } => {
            let (most_months, most_days, most_micros) = REACH_MAX;
            (0..=most_months).contains(months)
                && (0..=most_days).contains(days)
                && (0..=most_micros).contains(micros)
        }
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Date(_) | Scalar::Timestamp(_) => false,
    };
    is_small.then(|| value.clone())
}
