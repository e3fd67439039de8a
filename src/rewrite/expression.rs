//! Row-level expressions as SQL that cannot raise an error, whatever the row holds: each operator is made total at itself.
//!
//! What a guard relies on is the range that the *emitted operands themselves* enforce (a clamp inside the operand, a type), never a WHERE, a policy bound or a CHECK:
//! PostgreSQL may evaluate an operator before or without any of those, but it cannot compute an operator without its operands.

use std::collections::HashMap;

use sqlparser::ast::{self, BinaryOperator as B};

use super::sql;
use crate::analyze::cast_range;
use crate::analyze::interval::{DAYS, FLOAT_MAX, Interval, NUMERIC_MAX, apply, date_part, of_type, scalar};
use crate::catalog::Type;
use crate::policy::Scalar;
use crate::refusal::{Refusal, sqlstate};
use crate::resolve::catalogue::{Function, Rule, rule};
use crate::resolve::literal::integer_range;
use crate::resolve::{ColumnId, Expr, Node};

/// Longest text that an operation on strings works on.
const TEXT_LENGTH: i64 = 4096;
/// Smallest magnitude of a float8 operand of `*` and `/` that is not flushed to zero: products and quotients of two such stay normal.
const FLOAT_TINY: &str = "1e-100";
/// Largest emitted expression, in nodes: clamps repeat their operand.
const NODES_MAX: usize = 20_000;

/// A column as the relation below offers it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The bare reference.
    pub raw: ast::Expr,
    /// Bounds that every use but a comparison clamps to: (as written in SQL, as numbers). `None` where the type needs none.
    pub clamp: Option<(ast::Expr, ast::Expr, Interval)>,
    pub data_type: Type,
    /// The raw reference already lies within this (a computed column of a derived table).
    pub known: Interval,
}

/// An emitted expression and what its values are proved to be.
#[derive(Debug, Clone)]
struct Emitted {
    sql: ast::Expr,
    range: Interval,
    /// May be a float8 other than zero that is too small to multiply or divide by.
    tiny: bool,
    nodes: usize,
}

impl Emitted {
    fn plain(sql: ast::Expr, range: Interval) -> Self {
        Self { sql, range, tiny: false, nodes: 1 }
    }
}

/// Emits expressions over the cells of one relation.
pub struct Expressions<'a> {
    pub cells: &'a HashMap<ColumnId, Cell>,
}

impl Expressions<'_> {
    /// The expression as total SQL, and the interval that its values are proved to lie in.
    ///
    /// # Errors
    /// 0A000 for what cannot be made total, 54001 where the guards would grow too large.
    pub fn emit(&self, expr: &Expr) -> Result<(ast::Expr, Interval), Refusal> {
        let emitted = match self.of_one_collation(expr) {
            Some(cells) => Expressions { cells: &cells }.total(expr)?,
            None => self.total(expr)?,
        };
        Ok((emitted.sql, emitted.range))
    }

    pub fn condition(&self, expr: &Expr) -> Result<ast::Expr, Refusal> {
        Ok(self.emit(expr)?.0)
    }

    /// Where several text columns meet, each under the database's own collation: two of unlike collations are an error on the first row that compares them.
    fn of_one_collation(&self, expr: &Expr) -> Option<HashMap<ColumnId, Cell>> {
        let is_text = |id: &ColumnId| self.cells.get(id).is_some_and(|c| matches!(c.data_type, Type::Text | Type::Varchar(_)));
        let texts: Vec<ColumnId> = expr.columns().into_iter().filter(is_text).collect();
        if texts.len() < 2 {
            return None;
        }
        let mut cells = self.cells.clone();
        for id in texts {
            if let Some(cell) = cells.get_mut(&id) {
                let expr = Box::new(sql::nested(cell.raw.clone()));
                cell.raw = sql::nested(ast::Expr::Collate { expr, collation: sql::name(&["default"]) });
            }
        }
        Some(cells)
    }

    /// The expression where only NULL or not matters: a clamp changes neither.
    pub fn presence(&self, expr: &Expr) -> Result<ast::Expr, Refusal> {
        match expr.as_column() {
            Some(id) => Ok(self.cell(id)?.raw.clone()),
            None => Ok(self.emit(expr)?.0),
        }
    }

    fn total(&self, expr: &Expr) -> Result<Emitted, Refusal> {
        let emitted = match &expr.node {
            Node::Column(id) => self.column(*id)?,
            Node::Literal(value) => literal(value.as_ref(), &expr.data_type),
            Node::Cast(inner) => cast(self.total(inner)?, &inner.data_type, &expr.data_type)?,
            Node::Case { branches, otherwise } => self.case(branches, otherwise.as_deref())?,
            Node::Call { function, arguments } => self.call(*function, arguments, &expr.data_type)?,
        };
        if emitted.nodes > NODES_MAX {
            return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "an expression over private rows is too complex"));
        }
        Ok(emitted)
    }

    fn cell(&self, id: ColumnId) -> Result<&Cell, Refusal> {
        self.cells.get(&id).ok_or_else(|| Refusal::new(sqlstate::INTERNAL_ERROR, "a column is not in scope of its relation"))
    }

    fn column(&self, id: ColumnId) -> Result<Emitted, Refusal> {
        let cell = self.cell(id)?;
        Ok(match &cell.clamp {
            Some((lo, hi, range)) => {
                Emitted { sql: clamped(&cell.raw, lo.clone(), hi.clone()), range: *range, tiny: is_float(&cell.data_type), nodes: 5 }
            }
            None => Emitted { tiny: is_float(&cell.data_type), ..Emitted::plain(cell.raw.clone(), cell.known) },
        })
    }

    fn case(&self, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> Result<Emitted, Refusal> {
        let mut emitted = Vec::new();
        let mut range: Option<Interval> = None;
        let (mut tiny, mut nodes) = (false, 1);
        let mut add = |e: &Emitted, null: bool| {
            if !null {
                range = Some(range.map_or(e.range, |r| r.hull(e.range)));
            }
            tiny |= e.tiny;
            nodes += e.nodes;
        };
        for (condition, result) in branches {
            let (condition, value) = (self.total(condition)?, self.total(result)?);
            add(&value, result.node == Node::Literal(None));
            emitted.push((condition, value));
        }
        let otherwise = otherwise
            .map(|e| {
                let value = self.total(e)?;
                add(&value, e.node == Node::Literal(None));
                Ok::<_, Refusal>(value.sql)
            })
            .transpose()?;
        nodes += emitted.iter().map(|(c, _)| c.nodes).sum::<usize>();
        let branches = emitted.into_iter().map(|(c, v)| (c.sql, v.sql)).collect();
        Ok(Emitted { sql: sql::case(branches, otherwise), range: range.unwrap_or(Interval::ALL), tiny, nodes })
    }

    fn call(&self, function: Function, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
        if let Some(comparison) = self.comparison(function, arguments)? {
            return Ok(comparison);
        }
        if let (Function::IsNull | Function::IsNotNull, [subject]) = (function, arguments) {
            let subject = sql::nested(self.presence(subject)?);
            let test = if function == Function::IsNull { ast::Expr::IsNull(Box::new(subject)) } else { ast::Expr::IsNotNull(Box::new(subject)) };
            return Ok(Emitted::plain(ast::Expr::Nested(Box::new(test)), Interval::ALL));
        }
        let emitted = arguments.iter().map(|a| self.total(a)).collect::<Result<Vec<_>, _>>()?;
        let types: Vec<&Type> = arguments.iter().map(|a| &a.data_type).collect();
        match rule(function) {
            Rule::Arithmetic => arithmetic(function, emitted, result),
            Rule::Division => division(function, emitted, result, arguments),
            Rule::Domain => domain(function, &emitted, result),
            Rule::Bounded => bounded(function, emitted, arguments),
            Rule::Calendar => calendar(function, emitted, arguments, result),
            Rule::Histogram => histogram(emitted, result),
            Rule::Total => grammar(function, emitted, arguments, &types, result),
        }
    }

    /// A comparison of a bare column with constants inside its clamp needs no clamp: the answer is the same, and an index can serve it.
    fn comparison(&self, function: Function, arguments: &[Expr]) -> Result<Option<Emitted>, Refusal> {
        let Some(op) = comparison_operator(function) else { return Ok(None) };
        let [left, right] = arguments else { return Ok(None) };
        // Two bare columns are compared as they are stored: a join on the unit must not make two people one because both lie past a bound.
        if let (Some(a), Some(b)) = (left.as_column(), right.as_column()) {
            let (a, b) = (self.cell(a)?.raw.clone(), self.cell(b)?.raw.clone());
            return Ok(Some(Emitted::plain(sql::binary(sql::nested(a), op, sql::nested(b)), Interval::ALL)));
        }
        let flipped = left.as_literal().is_some();
        let (subject, constant) = if flipped { (right, left) } else { (left, right) };
        let subject = widened(subject);
        let (Some(id), Some(value)) = (subject.as_column(), constant.as_literal()) else { return Ok(None) };
        let cell = self.cell(id)?;
        let inside = match (&cell.clamp, scalar(value)) {
            (None, _) => true,
            (Some((_, _, range)), Some(value)) => range.lo < value && value < range.hi,
            (Some(_), None) => false,
        };
        if !inside {
            return Ok(None);
        }
        let constant = literal(Some(value), &constant.data_type).sql;
        let (left, right) = if flipped { (constant, cell.raw.clone()) } else { (cell.raw.clone(), constant) };
        Ok(Some(Emitted::plain(sql::binary(left, op, right), Interval::ALL)))
    }
}

/// What a widening cast widens: PostgreSQL compares the narrow value with the wide constant alike, and an index on it serves.
fn widened(expr: &Expr) -> &Expr {
    match &expr.node {
        Node::Cast(inner) => match (&inner.data_type, &expr.data_type) {
            (Type::Int2 | Type::Int4, Type::Int4 | Type::Int8) | (Type::Numeric(_), Type::Numeric(None)) => inner,
            (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric(None)) => inner,
            _ => expr,
        },
        Node::Column(_) | Node::Literal(_) | Node::Call { .. } | Node::Case { .. } => expr,
    }
}

/// `CASE WHEN x < lo THEN lo WHEN x > hi THEN hi ELSE x END`: NULL stays NULL, NaN and infinities land on a bound.
pub fn clamped(value: &ast::Expr, lo: ast::Expr, hi: ast::Expr) -> ast::Expr {
    let below = sql::binary(sql::nested(value.clone()), B::Lt, lo.clone());
    let above = sql::binary(sql::nested(value.clone()), B::Gt, hi.clone());
    sql::case(vec![(below, lo), (above, hi)], Some(value.clone()))
}

fn is_float(data_type: &Type) -> bool {
    matches!(data_type, Type::Float4 | Type::Float8)
}

/// A bound as SQL of a type, from a number.
pub fn bound(value: f64, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Date => sql::constant(Some(&Scalar::Date(value as i32)), data_type),
        Type::Timestamp | Type::Timestamptz => sql::constant(Some(&Scalar::Timestamp(value as i64)), data_type),
        Type::Float4 | Type::Float8 => sql::cast(sql::text(&value.to_string()), &Type::Float8),
        _ => sql::number(&value.to_string()),
    }
}

fn literal(value: Option<&Scalar>, data_type: &Type) -> Emitted {
    let range = value.and_then(scalar).map_or(Interval::ALL, Interval::point);
    let magnitude = range.lo.abs();
    let tiny = is_float(data_type) && magnitude > 0.0 && magnitude < 1e-100;
    Emitted { tiny, ..Emitted::plain(sql::constant(value, data_type), range) }
}

/// Keeps a value within an interval that its type and later operations need.
fn keep_within(value: Emitted, limit: Interval, data_type: &Type) -> Emitted {
    if value.range.within(limit) {
        return value;
    }
    let nodes = value.nodes * 3 + 5;
    let sql = clamped(&value.sql, bound(limit.lo, data_type), bound(limit.hi, data_type));
    Emitted { sql, range: value.range.meet(limit), tiny: value.tiny, nodes }
}

/// Float operands of `*` and `/` that are too small become zero: underflow is an error in PostgreSQL.
fn flushed(value: Emitted) -> Emitted {
    if value.tiny { flushed_to(value, &Type::Float8) } else { value }
}

/// Zero in place of magnitudes below [`FLOAT_TINY`].
fn flushed_to(value: Emitted, data_type: &Type) -> Emitted {
    let nodes = value.nodes * 3 + 5;
    let sql = without_tiny(value.sql, data_type);
    Emitted { sql, range: value.range.hull(Interval::point(0.0)), tiny: false, nodes }
}

/// The expression, zero where its magnitude is below [`FLOAT_TINY`].
pub fn without_tiny(value: ast::Expr, data_type: &Type) -> ast::Expr {
    let constant = |text: &str| sql::cast(sql::text(text), data_type);
    let above = sql::binary(sql::nested(value.clone()), B::Gt, constant(&format!("-{FLOAT_TINY}")));
    let below = sql::binary(sql::nested(value.clone()), B::Lt, constant(FLOAT_TINY));
    let small = ast::Expr::BinaryOp { left: Box::new(above), op: B::And, right: Box::new(below) };
    sql::case(vec![(small, sql::cast(sql::number("0"), data_type))], Some(value))
}

/// The interval in which operands of a type may stay without any guard.
fn working(data_type: &Type) -> Interval {
    match data_type {
        Type::Numeric(_) => Interval::new(-NUMERIC_MAX, NUMERIC_MAX),
        Type::Float4 | Type::Float8 => Interval::new(-FLOAT_MAX, FLOAT_MAX),
        other => of_type(other),
    }
}

fn operator(function: Function) -> Option<B> {
    match function {
        Function::Add | Function::DatePlusDays => Some(B::Plus),
        Function::Subtract | Function::DateDifference | Function::DateMinusDays => Some(B::Minus),
        Function::Multiply => Some(B::Multiply),
        Function::Divide => Some(B::Divide),
        Function::Modulo => Some(B::Modulo),
        _ => None,
    }
}

fn comparison_operator(function: Function) -> Option<B> {
    match function {
        Function::Equal => Some(B::Eq),
        Function::NotEqual => Some(B::NotEq),
        Function::Less => Some(B::Lt),
        Function::LessOrEqual => Some(B::LtEq),
        Function::Greater => Some(B::Gt),
        Function::GreaterOrEqual => Some(B::GtEq),
        _ => None,
    }
}

fn internal() -> Refusal {
    Refusal::new(sqlstate::INTERNAL_ERROR, "a function has no emission")
}

/// One or two operands.
fn operands(emitted: Vec<Emitted>) -> Result<(Emitted, Option<Emitted>), Refusal> {
    let mut operands = emitted.into_iter();
    let first = operands.next().ok_or_else(internal)?;
    Ok((first, operands.next()))
}

fn arithmetic(function: Function, emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result);
        if is_float(result) && function == Function::Multiply { flushed(value) } else { value }
    };
    let (a, b) = operands(emitted)?;
    let (a, b) = (prepare(a), b.map(prepare));
    let ranges: Vec<Interval> = [Some(a.range), b.as_ref().map(|b| b.range)].into_iter().flatten().collect();
    let range = apply(function, &ranges, result);
    let nodes = a.nodes + b.as_ref().map_or(0, |b| b.nodes) + 1;
    // 2^63 is a float8 and no int8, so eight bytes are full only below it.
    let fits = integer_range(result).is_none() || (range.within(of_type(result)) && range.hi < 9_223_372_036_854_775_808.0);
    let wide = |value: ast::Expr| match (fits, range.magnitude() < 9e18) {
        (true, _) => value,
        (false, true) => sql::cast(value, &Type::Int8),
        (false, false) => sql::cast(value, &Type::Numeric(None)),
    };
    let combined = match (function, b) {
        (Function::Negate, None) => {
            ast::Expr::Nested(Box::new(ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: Box::new(sql::nested(wide(a.sql))) }))
        }
        (Function::Abs, None) => sql::call("abs", vec![wide(a.sql)]),
        (function, Some(b)) => sql::binary(sql::nested(wide(a.sql)), operator(function).ok_or_else(internal)?, sql::nested(wide(b.sql))),
        (_, None) => return Err(internal()),
    };
    let value = Emitted { sql: combined, range, tiny: is_float(result), nodes };
    Ok(restored(value, result, fits))
}

/// Clamps a widened integer into its type and casts it back; keeps numerics and floats within working range.
fn restored(value: Emitted, result: &Type, fits: bool) -> Emitted {
    if fits && integer_range(result).is_some() {
        return value;
    }
    if integer_range(result).is_none() {
        return keep_within(value, working(result), result);
    }
    let Some((lo, hi)) = integer_range(result) else { return value };
    let nodes = value.nodes * 3 + 5;
    let sql = clamped(&value.sql, sql::number(&lo.to_string()), sql::number(&hi.to_string()));
    Emitted { sql: sql::cast(sql, result), range: value.range.meet(of_type(result)), tiny: false, nodes }
}

fn division(function: Function, emitted: Vec<Emitted>, result: &Type, arguments: &[Expr]) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(emitted)? else { return Err(internal()) };
    let float = is_float(result);
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result);
        if float { flushed(value) } else { value }
    };
    let (a, b) = (prepare(a), prepare(b));
    let range = apply(function, &[a.range, b.range], result);
    let nodes = a.nodes + b.nodes + 2;
    let constant = arguments.get(1).and_then(Expr::as_literal).and_then(scalar).is_some_and(|c| c != 0.0);
    let divisor = if constant { b.sql } else { sql::call("nullif", vec![b.sql, sql::cast(sql::number("0"), &arguments[1].data_type)]) };
    let op = operator(function).ok_or_else(internal)?;
    let Some((lowest, _)) = integer_range(result) else {
        let value = Emitted { sql: sql::binary(sql::nested(a.sql), op, sql::nested(divisor)), range, tiny: float, nodes };
        return Ok(keep_within(value, working(result), result));
    };
    // The one quotient that overflows is the lowest value by -1; in eight bytes there is room for the narrower types.
    let overflows = a.range.contains(lowest as f64) && b.range.contains(-1.0);
    if !overflows {
        return Ok(Emitted { sql: sql::binary(sql::nested(a.sql), op, sql::nested(divisor)), range, tiny: false, nodes });
    }
    let above_lowest = bound_integer(lowest + 1);
    let dividend =
        sql::case(vec![(sql::binary(sql::nested(a.sql.clone()), B::Lt, above_lowest.clone()), sql::cast(above_lowest, result))], Some(a.sql));
    Ok(Emitted { sql: sql::binary(sql::nested(dividend), op, sql::nested(divisor)), range, tiny: false, nodes: nodes * 2 })
}

fn bound_integer(value: i64) -> ast::Expr {
    sql::number(&value.to_string())
}

/// Functions defined on part of the line: NULL outside it.
fn domain(function: Function, emitted: &[Emitted], result: &Type) -> Result<Emitted, Refusal> {
    let a = keep_within(emitted.first().cloned().ok_or_else(internal)?, working(result), result);
    let (name, op) = match function {
        Function::SquareRoot => ("sqrt", B::GtEq),
        Function::NaturalLog => ("ln", B::Gt),
        Function::Log10 => ("log", B::Gt),
        _ => return Err(internal()),
    };
    let inside = sql::binary(sql::nested(a.sql.clone()), op, sql::number("0"));
    let range = apply(function, &[a.range], result);
    Ok(Emitted { sql: sql::case(vec![(inside, sql::call(name, vec![a.sql.clone()]))], None), range, tiny: is_float(result), nodes: a.nodes * 2 + 3 })
}

fn bounded(function: Function, emitted: Vec<Emitted>, arguments: &[Expr]) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    let mut values = emitted.into_iter().map(|e| e.sql);
    let first = values.next().ok_or_else(internal)?;
    // A constant is as long as it is.
    let subject = if arguments[0].as_literal().is_some() { first } else { sql::call("left", vec![first, sql::number(&TEXT_LENGTH.to_string())]) };
    // The same as for LIKE: a search under such a collation is an error.
    let subject = if function == Function::Position {
        sql::nested(ast::Expr::Collate { expr: Box::new(subject), collation: sql::name(&["C"]) })
    } else {
        subject
    };
    let rest: Vec<ast::Expr> = values.collect();
    let name = match function {
        Function::Lower => "lower",
        Function::Upper => "upper",
        Function::Length => "length",
        Function::Trim => "btrim",
        Function::TrimLeft => "ltrim",
        Function::TrimRight => "rtrim",
        Function::Left => "left",
        Function::Right => "right",
        Function::Substring | Function::SubstringFor => "substr",
        Function::Position => "strpos",
        _ => return Err(internal()),
    };
    let range = apply(function, &[], &Type::Int4);
    Ok(Emitted { nodes, ..Emitted::plain(sql::call(name, [vec![subject], rest].concat()), range) })
}

fn calendar(function: Function, emitted: Vec<Emitted>, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    match function {
        Function::DateTrunc | Function::DatePart => {
            let name = if function == Function::DateTrunc { "date_trunc" } else { "date_part" };
            let operand = arguments.get(1).ok_or_else(internal)?;
            let range = match (function, arguments[0].as_literal()) {
                (Function::DatePart, Some(Scalar::Text(field))) => part_range(field, emitted[1].range, &operand.data_type),
                _ => apply(function, &[emitted[1].range], result),
            };
            Ok(Emitted { nodes, ..Emitted::plain(sql::call(name, emitted.into_iter().map(|e| e.sql).collect()), range) })
        }
        _ => {
            let (a, Some(b)) = operands(emitted)? else { return Err(internal()) };
            let range = apply(function, &[a.range, b.range], result);
            let op = operator(function).ok_or_else(internal)?;
            if function == Function::DateDifference {
                return Ok(Emitted { nodes, ..Emitted::plain(sql::binary(sql::nested(a.sql), op, sql::nested(b.sql)), range) });
            }
            // As a count of days in eight bytes, brought back to years 1 to 9999 before it is a date again: PostgreSQL's dates end at 4713 BC.
            let epoch = || sql::constant(Some(&Scalar::Date(0)), &Type::Date);
            let day = sql::cast(sql::binary(sql::nested(a.sql), B::Minus, epoch()), &Type::Int8);
            let moved = sql::binary(day, op, sql::cast(b.sql, &Type::Int8));
            let kept = clamped(&moved, sql::number(&DAYS.0.to_string()), sql::number(&DAYS.1.to_string()));
            let date = sql::binary(epoch(), B::Plus, sql::cast(kept, &Type::Int4));
            Ok(Emitted { nodes: nodes * 3 + 5, ..Emitted::plain(date, range.meet(of_type(&Type::Date))) })
        }
    }
}

fn part_range(field: &str, operand: Interval, data_type: &Type) -> Interval {
    let year = |value: f64| crate::analyze::interval::year(value, data_type);
    date_part(field, operand.is_finite().then(|| (year(operand.lo), year(operand.hi))))
}

fn histogram(emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = apply(Function::WidthBucket, &ranges, result);
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    if !ranges.first().is_some_and(|r| r.is_finite()) {
        return Err(internal());
    }
    Ok(Emitted { nodes, ..Emitted::plain(sql::call("width_bucket", emitted.into_iter().map(|e| e.sql).collect()), range) })
}

/// Functions that cannot fail.
fn grammar(function: Function, emitted: Vec<Emitted>, arguments: &[Expr], types: &[&Type], result: &Type) -> Result<Emitted, Refusal> {
    use Function as F;
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = apply(function, &ranges, result);
    let (nodes, tiny) = (emitted.iter().map(|e| e.nodes).sum::<usize>() + 1, emitted.iter().any(|e| e.tiny));
    if function == F::Extract {
        let Some(Scalar::Text(field)) = arguments[0].as_literal() else { return Err(internal()) };
        let range = part_range(field, ranges[1], types[1]);
        let operand = emitted.into_iter().nth(1).ok_or_else(internal)?.sql;
        return Ok(Emitted { nodes, ..Emitted::plain(sql::extract(field, operand).ok_or_else(internal)?, range) });
    }
    let mut values: Vec<ast::Expr> = emitted.into_iter().map(|e| e.sql).collect();
    let one = |values: &mut Vec<ast::Expr>| values.pop().map(|v| Box::new(sql::nested(v))).ok_or_else(internal);
    if let Some(op) = comparison_operator(function) {
        let (Some(right), Some(left)) = (values.pop(), values.pop()) else { return Err(internal()) };
        return Ok(Emitted { nodes, ..Emitted::plain(sql::binary(sql::nested(left), op, sql::nested(right)), Interval::ALL) });
    }
    let expr = match function {
        F::And => sql::nested(sql::all(values.into_iter().map(sql::nested).collect()).ok_or_else(internal)?),
        F::Or => {
            let any = values.into_iter().map(sql::nested).reduce(|a, b| ast::Expr::BinaryOp { left: Box::new(a), op: B::Or, right: Box::new(b) });
            sql::nested(any.ok_or_else(internal)?)
        }
        F::Not => sql::not(*one(&mut values)?),
        F::IsNull => ast::Expr::Nested(Box::new(ast::Expr::IsNull(one(&mut values)?))),
        F::IsNotNull => ast::Expr::Nested(Box::new(ast::Expr::IsNotNull(one(&mut values)?))),
        F::IsTrue => ast::Expr::Nested(Box::new(ast::Expr::IsTrue(one(&mut values)?))),
        F::IsNotTrue => ast::Expr::Nested(Box::new(ast::Expr::IsNotTrue(one(&mut values)?))),
        F::IsFalse => ast::Expr::Nested(Box::new(ast::Expr::IsFalse(one(&mut values)?))),
        F::IsNotFalse => ast::Expr::Nested(Box::new(ast::Expr::IsNotFalse(one(&mut values)?))),
        F::IsDistinctFrom | F::IsNotDistinctFrom => {
            let (b, a) = (one(&mut values)?, one(&mut values)?);
            let expr = if function == F::IsDistinctFrom { ast::Expr::IsDistinctFrom(a, b) } else { ast::Expr::IsNotDistinctFrom(a, b) };
            ast::Expr::Nested(Box::new(expr))
        }
        F::In => {
            let subject = Box::new(sql::nested(values.remove(0)));
            ast::Expr::Nested(Box::new(ast::Expr::InList { expr: subject, list: values, negated: false }))
        }
        F::Like | F::ILike => {
            let (pattern, subject) = (one(&mut values)?, values.pop().ok_or_else(internal)?);
            // Under a collation that is not deterministic, LIKE is an error on the first row that reaches it; a match by bytes or by the database's own letters is not.
            let collation = sql::name(if function == F::Like { &["C"] } else { &["default"] });
            let subject = ast::Expr::Collate { expr: Box::new(sql::call("left", vec![subject, sql::number(&TEXT_LENGTH.to_string())])), collation };
            let expr = Box::new(sql::nested(subject));
            let (negated, any, escape_char) = (false, false, None);
            ast::Expr::Nested(Box::new(if function == F::Like {
                ast::Expr::Like { negated, any, expr, pattern, escape_char }
            } else {
                ast::Expr::ILike { negated, any, expr, pattern, escape_char }
            }))
        }
        F::Coalesce => sql::call("coalesce", values),
        F::NullIf => sql::call("nullif", values),
        F::Greatest => sql::call("greatest", values),
        F::Least => sql::call("least", values),
        F::Sign => sql::call("sign", values),
        F::Floor => sql::call("floor", values),
        F::Ceiling => sql::call("ceil", values),
        F::Round | F::RoundTo => sql::call("round", values),
        F::Truncate | F::TruncateTo => sql::call("trunc", values),
        _ => return Err(internal()),
    };
    Ok(Emitted { sql: expr, range, tiny, nodes })
}

/// Casts that cannot fail: the operand is brought into the target's range first.
fn cast(value: Emitted, from: &Type, to: &Type) -> Result<Emitted, Refusal> {
    let range = cast_range(value.range, from, to);
    let plain =
        |value: Emitted, range: Interval| Emitted { sql: sql::cast(value.sql, to), range, tiny: value.tiny && is_float(to), nodes: value.nodes + 1 };
    match to {
        Type::Int2 | Type::Int4 | Type::Int8 if *from != Type::Bool => {
            // A float8 just below 2^63 rounds up to it: stay a little inside.
            let limit = if *to == Type::Int8 && is_float(from) { Interval::new(-9.2e18, 9.2e18) } else { of_type(to) };
            let kept = if integer_range(from).is_some() && value.range.within(limit) { value } else { keep_integer(value, limit, from) };
            let range = cast_range(kept.range, from, to);
            Ok(plain(kept, range.meet(of_type(to))))
        }
        Type::Numeric(Some((precision, scale))) => {
            let whole = i32::from(*precision) - i32::from(*scale);
            let limit = 10f64.powi(whole.min(30));
            let inside = value.range.lo > 1.0 - limit && value.range.hi < limit - 1.0;
            let kept = if inside || integer_range(from).is_some_and(|_| value.range.lo > -limit && value.range.hi < limit) {
                value
            } else {
                within_digits(value, whole.min(30), i32::from(*scale), from)
            };
            let range = cast_range(kept.range, from, to);
            Ok(plain(kept, range))
        }
        Type::Numeric(None) => Ok(plain(keep_within(value, working(to), from), range.meet(working(to)))),
        Type::Float8 => {
            let kept = keep_within(value, Interval::new(-FLOAT_MAX, FLOAT_MAX), from);
            // A numeric below float8's reach is an error, not zero.
            let kept = if matches!(from, Type::Numeric(None)) { flushed_to(kept, &Type::Numeric(None)) } else { kept };
            Ok(Emitted { tiny: integer_range(from).is_none(), ..plain(kept, range.meet(working(to))) })
        }
        Type::Text | Type::Varchar(_) | Type::Bool | Type::Date | Type::Timestamp => Ok(plain(value, range)),
        Type::Int2 | Type::Int4 | Type::Int8 => Ok(plain(value, Interval::new(0.0, 1.0))),
        Type::Float4 | Type::Char(_) | Type::Uuid | Type::Timestamptz | Type::Interval | Type::Other { .. } => {
            Err(Refusal::unsupported(format!("a cast to {to:?} over private rows")))
        }
    }
}

/// Clamps to the largest value of `whole` digits before the point and `scale` after it, all nines.
fn within_digits(value: Emitted, whole: i32, scale: i32, from: &Type) -> Emitted {
    // A float8 has 15 digits: nines past those would round up to the power of ten.
    let exact = if is_float(from) { 14 } else { 1000 };
    let nines = |n: i32, before: i32| -> String { (0..n).map(|at| if at + before < exact { '9' } else { '0' }).collect() };
    let largest = match (whole, scale) {
        (0, 0) => "0".to_owned(),
        (0, scale) => format!("0.{}", nines(scale, 0)),
        (whole, 0) => nines(whole, 0),
        (whole, scale) => format!("{}.{}", nines(whole, 0), nines(scale, whole)),
    };
    let constant = |text: &str| sql::cast(sql::text(text), if is_float(from) { &Type::Float8 } else { &Type::Numeric(None) });
    let nodes = value.nodes * 3 + 5;
    let sql = clamped(&value.sql, constant(&format!("-{largest}")), constant(&largest));
    let limit = 10f64.powi(whole);
    Emitted { sql, range: value.range.meet(Interval::new(-limit, limit)), tiny: value.tiny, nodes }
}

/// Clamps to integer bounds written as integers, whatever the operand's type.
fn keep_integer(value: Emitted, limit: Interval, from: &Type) -> Emitted {
    if value.range.within(limit) {
        return value;
    }
    // Eight-byte limits are not floats: they are written as the integers they are.
    let (lo, hi) =
        if limit.hi > 9.21e18 { (i64::MIN.to_string(), i64::MAX.to_string()) } else { (format!("{:.0}", limit.lo), format!("{:.0}", limit.hi)) };
    let nodes = value.nodes * 3 + 5;
    let as_from = |t: &str| sql::cast(sql::number(t), if is_float(from) { &Type::Float8 } else { &Type::Numeric(None) });
    let sql = clamped(&value.sql, as_from(&lo), as_from(&hi));
    Emitted { sql, range: value.range.meet(limit), tiny: false, nodes }
}
