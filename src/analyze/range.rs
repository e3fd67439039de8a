//! Ranges of expressions, from conditions, policy bounds and arithmetic. A range chooses a clip; it
//! never replaces one.

mod narrow;

use super::interval::{Interval, apply, date_part, of_constant, of_type, scalar};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, Node};
use crate::policy::{ColumnPosition, Policy, Scalar};
use narrow::Truth;

/// How many earlier branches of a CASE are used to narrow a later one.
const EXCLUDED_MAX: usize = 100;

/// Everything that narrows ranges at one point of a query.
pub struct Ranges<'a> {
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
    /// Definitions of computed columns.
    pub computed: &'a [(ColumnId, Expr)],
    /// The ranges of columns that grouping, windows and unions within a unit compute.
    pub opaque: &'a [(ColumnId, Interval)],
    /// Conditions that hold for every row: conjuncts of WHERE and FILTER.
    pub conditions: Vec<&'a Expr>,
    /// Conditions that hold for no row: those of earlier branches of a CASE.
    pub excluded: Vec<&'a Expr>,
}

impl Ranges<'_> {
    /// The range of the expression's values for rows that meet the conditions; [`Interval::ALL`]
    /// where nothing is known.
    ///
    /// # Guarantee
    /// For a row for which the conditions hold and the excluded ones do not, a value of the emitted
    /// expression is NULL or lies in the interval. No private row decides it. Privacy does not rest
    /// on it: each summed value is clipped by the statement, whatever its range.
    ///
    /// # Requires
    /// Scans clamp bounded columns to the policy's bounds, and `opaque` holds the ranges that the
    /// labels found.
    pub fn of(&self, expr: &Expr) -> Interval {
        let own = self.structural(expr);
        if expr.as_literal().is_some() {
            return own;
        }
        let met = self.conditions.iter().fold(own, |range, condition| {
            range.meet(self.narrow(expr, condition, Truth::Known))
        });
        self.excluded.iter().fold(met, |range, condition| {
            range.meet(self.outside(expr, condition, Truth::MayBeUnknown))
        })
    }

    fn structural(&self, expr: &Expr) -> Interval {
        match &expr.node {
            Node::Column(id) => self.column(*id),
            Node::Literal(value) => value.as_ref().map_or(Interval::ALL, of_constant),
            Node::Constant(_) => of_unbounded(&expr.data_type),
            Node::Exists { .. } => Interval::ALL,
            Node::Cast(inner) => cast(self.of(inner), &inner.data_type, &expr.data_type),
            Node::Case {
                branches,
                otherwise,
            } => self.case(branches, otherwise.as_deref()),
            Node::Call {
                function,
                arguments,
            } => self.call(*function, arguments, &expr.data_type),
        }
    }

    /// Each result, for rows that meet its condition and none of the earlier ones (of the first
    /// [`EXCLUDED_MAX`]).
    fn case(&self, branches: &[(Expr, Expr)], otherwise: Option<&Expr>) -> Interval {
        let under = |at: usize| Ranges {
            policy: self.policy,
            columns: self.columns,
            computed: self.computed,
            opaque: self.opaque,
            conditions: self
                .conditions
                .iter()
                .copied()
                .chain(branches.get(at).map(|(condition, _)| condition))
                .collect(),
            excluded: self
                .excluded
                .iter()
                .copied()
                .chain(
                    branches[..at.min(EXCLUDED_MAX)]
                        .iter()
                        .map(|(condition, _)| condition),
                )
                .collect(),
        };
        let results = branches
            .iter()
            .map(|(_, result)| result)
            .chain(otherwise)
            .enumerate();
        let ranges = results
            .filter(|(_, result)| result.node != Node::Literal(None))
            .map(|(at, result)| match &result.node {
                Node::Literal(Some(value)) => of_constant(value),
                _ => under(at).of(result),
            });
        ranges.reduce(Interval::hull).unwrap_or(Interval::ALL)
    }

    fn call(&self, function: Function, arguments: &[Expr], result: &Type) -> Interval {
        if matches!(function, Function::Extract | Function::DatePart)
            && let Some(Scalar::Text(field)) = arguments.first().and_then(Expr::as_literal)
        {
            let Some(operand) = arguments.get(1) else {
                return Interval::ALL;
            };
            return date_part(field, self.of(operand), &operand.data_type);
        }
        if let (Function::DateTrunc, [field, operand]) = (function, arguments)
            && let Some(Scalar::Text(field)) = field.as_literal()
        {
            return truncate(field, self.of(operand));
        }
        if let (Function::Length | Function::OctetLength, [text]) = (function, arguments) {
            let most = self.longest(text)
                * if function == Function::OctetLength {
                    4.0
                } else {
                    1.0
                };
            return apply(function, &[], result).meet(Interval::new(0.0, most));
        }
        if matches!(function, Function::Least | Function::Greatest) {
            // An inline clamp: LEAST(GREATEST(x, lo), hi). A NULL argument is ignored, so each
            // bound holds on its own side only.
            return self.clamp(function, arguments);
        }
        let ranges: Vec<Interval> = arguments.iter().map(|a| self.of(a)).collect();
        apply(function, &ranges, result)
    }

    fn clamp(&self, function: Function, arguments: &[Expr]) -> Interval {
        let constants = arguments
            .iter()
            .filter_map(|a| a.as_literal().and_then(scalar));
        let ranges = arguments
            .iter()
            .map(|a| self.of(a))
            .reduce(Interval::hull)
            .unwrap_or(Interval::ALL);
        match function {
            Function::Least => {
                constants.fold(ranges, |r, c| Interval::new(r.lo.min(c), r.hi.min(c)))
            }
            _ => constants.fold(ranges, |r, c| Interval::new(r.lo.max(c), r.hi.max(c))),
        }
    }

    fn column(&self, id: ColumnId) -> Interval {
        if let Some((_, definition)) = self.computed.iter().find(|(computed, _)| *computed == id) {
            return self.of(definition);
        }
        if let Some((_, range)) = self.opaque.iter().find(|(made, _)| *made == id) {
            return *range;
        }
        let info = &self.columns[id.0 as usize];
        let Some((table, ColumnPosition(position))) = info.origin else {
            return of_unbounded(&info.data_type);
        };
        let column = &self.policy.tables[table.0].columns[position];
        if let Some(bounds) = column.bounds.as_ref().or(column.extent.as_ref())
            && let (Some(lo), Some(hi)) = (scalar(&bounds.lower), scalar(&bounds.upper))
        {
            return Interval::new(lo, hi);
        }
        let values = column
            .domain
            .iter()
            .flatten()
            .map(scalar)
            .collect::<Option<Vec<_>>>();
        match values.as_deref() {
            Some([first, rest @ ..]) => rest
                .iter()
                .fold(Interval::point(*first), |r, v| r.hull(Interval::point(*v))),
            _ => of_unbounded(&info.data_type),
        }
    }

    /// The most characters that a text may have.
    fn longest(&self, expr: &Expr) -> f64 {
        let count =
            |at: usize, arguments: &[Expr]| match arguments.get(at).and_then(Expr::as_literal) {
                Some(Scalar::Int(count)) if *count >= 0 => *count as f64,
                _ => f64::INFINITY,
            };
        let characters = |value: &Scalar| match value {
            Scalar::Text(text) => text.chars().count() as f64,
            _ => f64::INFINITY,
        };
        let declared = match &expr.data_type {
            Type::Varchar(Some(length)) | Type::Char(Some(length)) => f64::from(*length),
            _ => f64::INFINITY,
        };
        let own = match &expr.node {
            Node::Literal(Some(value)) => characters(value),
            Node::Cast(inner) if inner.data_type.is_string() => self.longest(inner),
            Node::Column(id) => match self.columns[id.0 as usize].origin {
                Some((table, ColumnPosition(position))) => {
                    match &self.policy.tables[table.0].columns[position].domain {
                        Some(values) if !values.is_empty() => {
                            values.iter().map(characters).fold(0.0, f64::max)
                        }
                        _ => f64::INFINITY,
                    }
                }
                None => self
                    .computed
                    .iter()
                    .find(|(computed, _)| computed == id)
                    .map_or(f64::INFINITY, |(_, definition)| self.longest(definition)),
            },
            Node::Call {
                function: Function::Left | Function::Right,
                arguments,
            } => self.longest(&arguments[0]).min(count(1, arguments)),
            Node::Call {
                function: Function::SubstringFor,
                arguments,
            } => self.longest(&arguments[0]).min(count(2, arguments)),
            Node::Call {
                function:
                    Function::Trim | Function::TrimLeft | Function::TrimRight | Function::Reverse,
                arguments,
            } => self.longest(&arguments[0]),
            Node::Literal(None)
            | Node::Constant(_)
            | Node::Call { .. }
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => f64::INFINITY,
        };
        own.min(declared)
    }

    /// The range of the other side of a comparison, whatever the conditions: of a constant, or by
    /// the declared bounds of its columns.
    fn other(&self, expr: &Expr) -> Interval {
        if expr.columns().is_empty() {
            return self.constant(expr).unwrap_or(Interval::ALL);
        }
        let Self {
            policy,
            columns,
            computed,
            opaque,
            conditions: _,
            excluded: _,
        } = self;
        Ranges {
            policy,
            columns,
            computed,
            opaque,
            conditions: Vec::new(),
            excluded: Vec::new(),
        }
        .of(expr)
    }

    /// The range of an expression of constants.
    fn constant(&self, expr: &Expr) -> Option<Interval> {
        let mut is_constant = true;
        expr.walk(&mut |e| is_constant &= !matches!(e.node, Node::Column(_) | Node::Constant(_)));
        let alone = || {
            Ranges {
                policy: self.policy,
                columns: self.columns,
                computed: &[],
                opaque: &[],
                conditions: Vec::new(),
                excluded: Vec::new(),
            }
            .of(expr)
        };
        if is_constant {
            Some(alone()).filter(|range| range.is_finite())
        } else {
            None
        }
    }
}

/// Type ranges that are too wide to serve as a clip: nothing is known then.
fn of_unbounded(data_type: &Type) -> Interval {
    match data_type {
        Type::Date | Type::Timestamp | Type::Timestamptz => of_type(data_type),
        _ => Interval::ALL,
    }
}

/// A widening cast keeps the value, so a condition on it speaks of the operand too.
fn same_value(subject: &Expr, expr: &Expr) -> bool {
    let widening = |from: &Type, to: &Type| {
        let rank = |t: &Type| match t {
            Type::Int2 => 1,
            Type::Int4 => 2,
            Type::Int8 => 3,
            Type::Numeric(None) => 4,
            Type::Float8 => 5,
            _ => 0,
        };
        rank(from) > 0 && rank(to) > rank(from)
    };
    match (&subject.node, &expr.node) {
        (a, b) if a == b => true,
        (Node::Cast(inner), _) if widening(&inner.data_type, &subject.data_type) => {
            same_value(inner, expr)
        }
        (_, Node::Cast(inner)) if widening(&inner.data_type, &expr.data_type) => {
            same_value(subject, inner)
        }
        (Node::Cast(inner), _)
            if matches!(
                (&inner.data_type, &subject.data_type),
                (Type::Numeric(_), Type::Numeric(None))
            ) =>
        {
            same_value(inner, expr)
        }
        _ => false,
    }
}

/// The start of the span that an instant lies in.
fn truncate(field: &str, operand: Interval) -> Interval {
    let days = match field {
        "week" => 7.0,
        "month" => 31.0,
        "quarter" => 92.0,
        "year" => 366.0,
        "decade" => 3653.0,
        "century" => 36_525.0,
        "millennium" => 365_250.0,
        _ => 1.0,
    };
    Interval::new(
        operand.lo - days * super::interval::MICROS_PER_DAY as f64,
        operand.hi,
    )
}

/// The interval of a cast's result.
pub fn cast(from: Interval, source: &Type, target: &Type) -> Interval {
    let micros = super::interval::MICROS_PER_DAY as f64;
    match (source, target) {
        (Type::Date, Type::Timestamp | Type::Timestamptz) => {
            Interval::new(from.lo * micros, from.hi * micros)
        }
        (Type::Timestamp | Type::Timestamptz, Type::Date) => {
            Interval::new((from.lo / micros).floor(), (from.hi / micros).floor())
        }
        (Type::Bool, _) => Interval::new(0.0, 1.0),
        // The number in a text is not the number of the value that was printed: days are not
        // microseconds.
        (source, to) if source.is_string() && !to.is_string() => of_unbounded(to),
        // A float rounds halves to even, a numeric away from zero.
        (Type::Float4 | Type::Float8, Type::Int2 | Type::Int4 | Type::Int8) if from.is_finite() => {
            Interval::new(from.lo.round_ties_even(), from.hi.round_ties_even())
                .meet(of_type(target))
        }
        (_, Type::Int2 | Type::Int4 | Type::Int8) => {
            let rounded = Interval::new(from.lo.round(), from.hi.round());
            if from.is_finite() {
                rounded.meet(of_type(target))
            } else {
                from
            }
        }
        (_, Type::Numeric(Some((_, scale)))) if from.is_finite() => {
            let unit = 10f64.powi(i32::from(*scale));
            Interval::new(
                (from.lo * unit).floor() / unit,
                (from.hi * unit).ceil() / unit,
            )
            .meet(of_type(target))
        }
        _ => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_halves_to_even_and_numerics_away_from_zero() {
        let of = |source: &Type, lo, hi| cast(Interval::new(lo, hi), source, &Type::Int4);
        for float in [Type::Float4, Type::Float8] {
            assert_eq!(of(&float, 0.5, 2.5), Interval::new(0.0, 2.0));
            assert_eq!(of(&float, -1.5, 0.75), Interval::new(-2.0, 1.0));
        }
        assert_eq!(of(&Type::Numeric(None), 0.5, 2.5), Interval::new(1.0, 3.0));
    }

    #[test]
    fn days_become_microseconds_but_by_no_text() {
        let day = super::super::interval::MICROS_PER_DAY as f64;
        let of = |source: &Type, target: &Type| cast(Interval::new(-2.0, 3.0), source, target);
        assert_eq!(
            of(&Type::Date, &Type::Timestamp),
            Interval::new(-2.0 * day, 3.0 * day)
        );
        assert_eq!(
            cast(Interval::new(-1.0, day), &Type::Timestamp, &Type::Date),
            Interval::new(-1.0, 1.0)
        );
        assert_eq!(of(&Type::Text, &Type::Timestamp), of_type(&Type::Timestamp));
        assert_eq!(of(&Type::Text, &Type::Numeric(None)), Interval::ALL);
        assert_eq!(
            of(&Type::Varchar(Some(3)), &Type::Text),
            Interval::new(-2.0, 3.0)
        );
    }
}
