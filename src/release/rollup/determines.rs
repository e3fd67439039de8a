//! What decides an expression's value: keys of a finer answer, or values that a condition names.

use super::{FinerKey, Grain, GrainKey};
use crate::catalog::Type;
use crate::ir::evaluate::KnownValue;
use crate::ir::functions::Function;
use crate::ir::literal::is_beyond;
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::Scalar;
use crate::rewrite::{ColumnBins, Family, Reading};

/// A key of the finer answer that decides a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecidingKey<'a> {
    pub column: ColumnId,
    pub key: FinerKey,
    /// Where the key only says in which bin the column's value is.
    pub bins: Option<&'a ColumnBins>,
}

impl DecidingKey<'_> {
    /// What a value of the key says of the column.
    pub fn column_value(&self, value: Option<Scalar>) -> Option<KnownValue> {
        Some(match (self.bins, value) {
            (None, value) => KnownValue::Value(value),
            (Some(_), None) => KnownValue::Value(None),
            (Some(bins), Some(Scalar::Int(number))) => KnownValue::Within(bins.span(number)?),
            (Some(_), Some(_)) => return None,
        })
    }
}

/// The finer answer's keys that determine each column of the expression, or its bin.
pub(super) fn determined_by<'a>(
    expr: &Expr,
    grain: &'a Grain,
    family: &Family,
) -> Option<Vec<DecidingKey<'a>>> {
    let columns = expr.columns();
    let is_clamped = reads_clamped(expr);
    let by = |id: &ColumnId| {
        let reading = family.columns.iter().find(|reading| reading.id == *id)?;
        let is_read_alike = reading.is_bare || is_clamped;
        let mut keys = grain.keys.iter();
        let same = keys.position(|key| reading.is_printed_once && key.digest == reading.digest);
        let binned = || {
            let of_column = |key: &GrainKey| {
                let bins = key.bins.as_ref();
                bins.is_some_and(|bins| bins.column == reading.digest)
            };
            grain.keys.iter().position(of_column)
        };
        let key = same.or_else(binned)?;
        is_read_alike.then_some(DecidingKey {
            column: *id,
            key: FinerKey(key),
            bins: grain.keys[key].bins.as_ref().filter(|_| same.is_none()),
        })
    };
    if expr.relations().is_empty() {
        columns.iter().map(by).collect()
    } else {
        None
    }
}

/// The names of an expression's columns that no key of the finer answer is, and that are in no bins
/// of one.
pub(super) fn unknown_columns(expr: &Expr, grain: &Grain, family: &Family) -> Vec<String> {
    let is_known = |reading: &Reading| is_key(reading, grain) || is_binned(reading, grain);
    column_names(expr, family, |reading| !is_known(reading))
}

/// The names of an expression's columns that are keys of the finer answer whose texts do not decide
/// an expression.
pub(super) fn undecided_columns(expr: &Expr, grain: &Grain, family: &Family) -> Vec<String> {
    column_names(expr, family, |reading| {
        !reading.is_printed_once && is_key(reading, grain) && !is_binned(reading, grain)
    })
}

fn column_names(expr: &Expr, family: &Family, of: impl Fn(&Reading) -> bool) -> Vec<String> {
    let columns = expr.columns();
    let read = family.columns.iter();
    let read = read.filter(|reading| columns.contains(&reading.id) && of(reading));
    read.map(|reading| reading.name.clone()).collect()
}

/// Whether the column is a key of the finer answer.
fn is_key(reading: &Reading, grain: &Grain) -> bool {
    let mut keys = grain.keys.iter();
    keys.any(|key| key.digest == reading.digest)
}

fn is_binned(reading: &Reading, grain: &Grain) -> bool {
    let mut bins = grain.keys.iter().filter_map(|key| key.bins.as_ref());
    bins.any(|bins| bins.column == reading.digest)
}

/// Whether an expression has the value that it has for the clamped columns. Two bare columns are
/// compared as they are stored, and so is a column with NaN or an infinity.
fn reads_clamped(expr: &Expr) -> bool {
    let mut is_clamped = true;
    expr.walk(&mut |e| {
        let compares_columns = match &e.node {
            Node::Call {
                function: _,
                arguments,
            } => arguments.iter().filter(|a| a.as_column().is_some()).count() > 1,
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => false,
            Node::Cast(_) | Node::Case { .. } | Node::Exists { .. } => false,
        };
        let is_unbounded = e.as_literal().is_some_and(is_beyond);
        is_clamped &= !compares_columns && !is_unbounded;
    });
    is_clamped
}

/// Whether equal values of the type print the same.
pub(super) fn is_printed_once(data_type: &Type) -> bool {
    match data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Date
        | Type::Text
        | Type::Varchar(_)
        | Type::Enum(_) => true,
        Type::Numeric(_) | Type::Float4 | Type::Float8 | Type::Char(_) | Type::Uuid => false,
        Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time | Type::Other { .. } => {
            false
        }
    }
}

/// The values of the column that a condition `x = 1` or `x IN (1, 2)` can be met by.
pub(super) fn named_values(condition: &Expr, id: ColumnId) -> Option<Vec<&Scalar>> {
    let is_subject = |expr: &Expr| match &expr.node {
        Node::Cast(inner) => {
            inner.as_column() == Some(id) && is_widened(&inner.data_type, &expr.data_type)
        }
        Node::Column(column) => *column == id,
        Node::Literal(_)
        | Node::Constant(_)
        | Node::Call { .. }
        | Node::Case { .. }
        | Node::Exists { .. } => false,
    };
    match &condition.node {
        Node::Call {
            function: Function::In | Function::Equal,
            arguments,
        } => match arguments.as_slice() {
            [subject, list @ ..] if is_subject(subject) => {
                list.iter().map(Expr::as_literal).collect()
            }
            [value, subject] if is_subject(subject) => value.as_literal().map(|value| vec![value]),
            _ => None,
        },
        Node::Call { .. }
        | Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Cast(_)
        | Node::Case { .. }
        | Node::Exists { .. } => None,
    }
}

/// Whether a cast changes no value.
fn is_widened(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Int2 | Type::Int4, Type::Int4 | Type::Int8) | (Type::Varchar(_), Type::Text) => true,
        (from, to) => from == to,
    }
}
