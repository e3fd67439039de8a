//! Dates, timestamps and intervals, kept within the years 1 to 9999.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, clamp, internal, keep_within, working};
use super::operator::operands;
use super::sql;
use crate::analyze::guarded_ranges::{of_call, of_field};
use crate::analyze::interval::{DAYS, Interval, of_type};
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::functions::Function;
use crate::ir::literal::{INTERVAL_HINT, interval_reach};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// How far an interval may move a timestamp, in microseconds: 4000 years. Counted back from the
/// year 1, that is still within PostgreSQL's calendar.
const REACH: f64 = 4000.0 * 366.0 * 86_400e6;

/// Functions of dates, timestamps and intervals, total within the calendar.
pub(in crate::rewrite) fn calendar(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
    use Function as F;
    match function {
        F::DateTrunc | F::DatePart | F::Extract => field(function, emitted, arguments, result),
        F::Later | F::Earlier => shift(function, emitted, arguments, result),
        F::Elapsed | F::DateDifference => {
            difference(function, in_calendar(emitted, arguments)?, result)
        }
        F::Age => emit_call("age", function, in_calendar(emitted, arguments)?, result),
        F::AtZone => emit_call(
            "timezone",
            function,
            in_calendar(emitted, arguments)?,
            result,
        ),
        F::AddIntervals
        | F::SubtractIntervals
        | F::NegateInterval
        | F::JustifyDays
        | F::JustifyHours
        | F::JustifyInterval => spans(function, emitted, result),
        F::DateBin => bin(function, in_calendar(emitted, arguments)?, result),
        F::FromEpoch => {
            let (seconds, _) = operands(emitted)?;
            let seconds = keep_within(
                seconds,
                Interval::new(-62_135_596_800.0, 253_402_300_799.0),
                &Type::Float8,
            )?;
            emit_call("to_timestamp", function, vec![seconds], result)
        }
        F::TimesInterval => multiple(function, emitted, arguments, result),
        F::AtTime | F::TimeLater | F::TimeEarlier | F::TimeBetween => {
            emit_time(function, emitted, arguments, result)
        }
        _ => moved_by_days(function, emitted, result),
    }
}

fn difference(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(emitted)? else {
        return Err(internal());
    };
    let nodes = a.nodes + b.nodes + 1;
    let range = of_call(function, &[a.range, b.range], result);
    Ok(Emitted {
        nodes,
        ..Emitted::plain(
            sql::binary(sql::nest(a.sql), B::Minus, sql::nest(b.sql)),
            range,
        )
    })
}

fn bin(function: Function, emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    let [
        Emitted { range: step, .. },
        Emitted { range: source, .. },
        ..,
    ] = emitted[..]
    else {
        return Err(internal());
    };
    let binned = emit_call("date_bin", function, emitted, result)?;
    // The bin of an early day may begin before the calendar.
    let range = Interval::new(source.lo - step.hi, source.hi).widen(1e-12);
    keep_within(Emitted { range, ..binned }, of_type(result), result)
}

/// A number times a constant interval, which stays within [`REACH`].
fn multiple(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
    let (number, Some(interval)) = operands(emitted)? else {
        return Err(internal());
    };
    let Some(Scalar::Interval {
        months,
        days,
        micros,
    }) = arguments[1].as_literal()
    else {
        return Err(internal());
    };
    let most = (REACH / interval_reach(*months, *days, *micros).max(1.0)).floor();
    let number = keep_within(number, Interval::new(-most, most), &Type::Float8)?;
    let range = of_call(function, &[number.range, interval.range], result);
    let nodes = number.nodes + 2;
    Ok(Emitted {
        nodes,
        ..Emitted::plain(
            sql::binary(sql::nest(number.sql), B::Multiply, sql::nest(interval.sql)),
            range,
        )
    })
}

/// Times of the day: added to an interval round the clock, or combined with a date.
fn emit_time(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
    use Function as F;
    let (a, Some(b)) = operands(in_calendar(emitted, arguments)?)? else {
        return Err(internal());
    };
    let nodes = a.nodes + b.nodes + 1;
    let moves = matches!(function, F::TimeLater | F::TimeEarlier);
    if moves && !b.range.within(Interval::new(-REACH * 4.0, REACH * 4.0)) {
        return Err(Refusal::new(
            reason::INTERVAL_LENGTH_UNKNOWN,
            "cannot add an interval of unknown length to a time",
        )
        .hint(INTERVAL_HINT));
    }
    let range = of_call(function, &[a.range, b.range], result);
    let op = if matches!(function, F::AtTime | F::TimeLater) {
        B::Plus
    } else {
        B::Minus
    };
    let value = Emitted {
        nodes,
        ..Emitted::plain(sql::binary(sql::nest(a.sql), op, sql::nest(b.sql)), range)
    };
    Ok(if function == F::AtTime {
        keep_within(value, of_type(result), result)?
    } else {
        value
    })
}

/// Arithmetic on intervals of known length. A stored interval may be as long as its type allows,
/// and a sum of such intervals can raise an error.
fn spans(function: Function, emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    use Function as F;
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = of_call(function, &ranges, result);
    let reach = Interval::new(-REACH * 3.0, REACH * 3.0);
    if !ranges.iter().all(|r| r.within(reach))
        || !range.within(Interval::new(-REACH * 6.0, REACH * 6.0))
    {
        return Err(Refusal::unsupported(
            reason::INTERVAL_LENGTH_UNKNOWN,
            "arithmetic on an interval of unknown length",
        )
        .hint(
            "Constant intervals and differences of dates or timestamps have a known \
                    length. Compare a column of intervals, or use EXTRACT.",
        ));
    }
    let (a, b) = operands(emitted)?;
    let sql = match (function, b) {
        (F::AddIntervals, Some(b)) => sql::binary(sql::nest(a.sql), B::Plus, sql::nest(b.sql)),
        (F::SubtractIntervals, Some(b)) => {
            sql::binary(sql::nest(a.sql), B::Minus, sql::nest(b.sql))
        }
        (F::NegateInterval, None) => sql::nest(ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: Box::new(sql::nest(a.sql)),
        }),
        (F::JustifyDays, None) => sql::call("justify_days", vec![a.sql]),
        (F::JustifyHours, None) => sql::call("justify_hours", vec![a.sql]),
        (F::JustifyInterval, None) => sql::call("justify_interval", vec![a.sql]),
        _ => return Err(internal()),
    };
    Ok(Emitted {
        nodes,
        ..Emitted::plain(sql, range)
    })
}

/// Computed dates and timestamps brought back to the calendar.
fn in_calendar(emitted: Vec<Emitted>, arguments: &[Expr]) -> Result<Vec<Emitted>, Refusal> {
    let kept =
        emitted
            .into_iter()
            .zip(arguments)
            .map(|(value, argument)| match &argument.data_type {
                Type::Date | Type::Timestamp | Type::Timestamptz => {
                    keep_within(value, of_type(&argument.data_type), &argument.data_type)
                }
                _ => Ok(value),
            });
    kept.collect()
}

fn emit_call(
    name: &str,
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = of_call(function, &ranges, result);
    Ok(Emitted {
        nodes,
        ..Emitted::plain(
            sql::call(name, emitted.into_iter().map(|e| e.sql).collect()),
            range,
        )
    })
}

/// EXTRACT, date_part and date_trunc.
fn field(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
    let [name, operand] = arguments else {
        return Err(internal());
    };
    let Some(Scalar::Text(name)) = name.as_literal() else {
        return Err(internal());
    };
    let mut emitted = in_calendar(emitted, arguments)?;
    let (Some(value), Some(written)) = (emitted.pop(), emitted.pop()) else {
        return Err(internal());
    };
    let nodes = value.nodes + 2;
    let range = match function {
        Function::DateTrunc => of_call(function, &[value.range], result),
        _ => of_field(name, value.range, &operand.data_type),
    };
    let sql = match function {
        Function::Extract => sql::extract(name, value.sql).ok_or_else(internal)?,
        Function::DatePart => sql::call("date_part", vec![written.sql, value.sql]),
        _ => sql::call("date_trunc", vec![written.sql, value.sql]),
    };
    let part = Emitted {
        nodes,
        ..Emitted::plain(sql, range)
    };
    // A stored interval may be infinite.
    Ok(if function == Function::DateTrunc {
        part
    } else {
        keep_within(part, working(result), result)?
    })
}

/// A timestamp plus an interval that cannot move it out of PostgreSQL's calendar.
fn shift(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(in_calendar(emitted, arguments)?)? else {
        return Err(internal());
    };
    if !b.range.within(Interval::new(-REACH * 1.1, REACH * 1.1)) {
        return Err(Refusal::new(
            reason::INTERVAL_LENGTH_UNKNOWN,
            "an interval that is added to a date must be a constant",
        )
        .hint(INTERVAL_HINT));
    }
    let day = 86_400e6;
    let range = match function {
        Function::Later => {
            Interval::new(a.range.lo + b.range.lo - day, a.range.hi + b.range.hi + day)
        }
        _ => Interval::new(a.range.lo - b.range.hi - day, a.range.hi - b.range.lo + day),
    };
    let op = if function == Function::Later {
        B::Plus
    } else {
        B::Minus
    };
    let nodes = a.nodes + b.nodes + 1;
    let moved = Emitted {
        nodes,
        ..Emitted::plain(sql::binary(sql::nest(a.sql), op, sql::nest(b.sql)), range)
    };
    keep_within(moved, of_type(result), result)
}

fn moved_by_days(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    let (a, Some(b)) = operands(emitted)? else {
        return Err(internal());
    };
    let op = if function == Function::DatePlusDays {
        B::Plus
    } else {
        B::Minus
    };
    let range = of_call(function, &[a.range, b.range], result);
    let sum = if function == Function::DatePlusDays {
        Interval::new(a.range.lo + b.range.lo, a.range.hi + b.range.hi)
    } else {
        Interval::new(a.range.lo - b.range.hi, a.range.hi - b.range.lo)
    };
    if sum.within(of_type(&Type::Date)) && b.range.magnitude() < 1e6 {
        return Ok(Emitted {
            nodes,
            ..Emitted::plain(sql::binary(sql::nest(a.sql), op, sql::nest(b.sql)), range)
        });
    }
    // Computed as a count of days in eight bytes and clamped to the years 1 to 9999 before it
    // becomes a date again: PostgreSQL's dates begin at 4713 BC.
    let epoch = || sql::constant(Some(&Scalar::Date(0)), &Type::Date);
    let day = sql::cast(
        sql::binary(sql::nest(a.sql), B::Minus, epoch()),
        &Type::Int8,
    );
    let moved = sql::binary(day, op, sql::cast(b.sql, &Type::Int8));
    let days = (
        sql::number_literal(&DAYS.0.to_string()),
        sql::number_literal(&DAYS.1.to_string()),
    );
    let kept = clamp(
        Emitted {
            nodes: nodes + 6,
            ..Emitted::plain(moved, sum)
        },
        days,
        &Type::Int8,
    )?;
    let date = sql::binary(epoch(), B::Plus, sql::cast(kept.sql, &Type::Int4));
    Ok(Emitted {
        nodes: kept.nodes + 5,
        ..Emitted::plain(date, range.clamp_to(of_type(&Type::Date)))
    })
}
