//! The most that one unit's values add up to, where the policy declares it (`unit_total`).

use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::{as_number, integer_range};
use crate::ir::{ColumnId, Expr, Node, Relation};
use crate::policy::Policy;

/// The declared totals that hold for a relation's columns: over all rows of one unit, magnitudes
/// add up to no more.
///
/// # Guarantee
/// If the tables hold what the catalog and the policy say, each total holds for every unit.
/// Nothing private rests on it: totals choose clips, and replace none. A unit beyond a total is
/// clipped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnitTotals(Vec<(ColumnId, f64)>);

impl UnitTotals {
    /// The totals of columns of which `is_read_once` holds: each row of their table is in at most
    /// one row of the relation.
    pub(super) fn new(
        relation: &Relation,
        policy: &Policy,
        is_read_once: impl Fn(ColumnId) -> bool,
    ) -> Self {
        let mut declared = Vec::new();
        add_declared(relation, policy, &mut declared);
        declared.retain(|(id, _)| is_read_once(*id));
        Self(declared)
    }

    /// Whether no column has a total.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The most that the magnitudes of `value`, an expression over scanned columns, add up to over
    /// some of one unit's rows. `None` where none is declared, or none follows.
    pub(super) fn of(&self, value: &Expr) -> Option<f64> {
        match &value.node {
            Node::Column(id) => self
                .0
                .iter()
                .find(|(of, _)| of == id)
                .map(|(_, most)| *most),
            // Any other cast may round, upwards too.
            Node::Cast(inner) if is_exact(&inner.data_type, &value.data_type) => self.of(inner),
            Node::Case {
                branches,
                otherwise,
            } => {
                let results = branches.iter().map(|(_, result)| result);
                self.of_one(results.chain(otherwise.as_deref()))
            }
            Node::Call {
                function: Function::Coalesce,
                arguments,
            } => self.of_one(arguments.iter()),
            Node::Call {
                function: Function::Multiply,
                arguments,
            } => match arguments.as_slice() {
                [value, factor] | [factor, value] if number(factor).is_some() => {
                    Some(self.of(value)? * number(factor)?.abs())
                }
                _ => None,
            },
            Node::Literal(_) | Node::Constant(_) | Node::Cast(_) => None,
            Node::Call { .. } | Node::Exists { .. } => None,
        }
    }

    /// The total where each row has one of these values, zero or NULL: the totals of the values add
    /// up. `None` if all are zero or NULL.
    fn of_one<'e>(&self, values: impl Iterator<Item = &'e Expr>) -> Option<f64> {
        let mut distinct: Vec<&Expr> = Vec::new();
        for value in values {
            let is_nothing = value.node == Node::Literal(None) || number(value) == Some(0.0);
            if !is_nothing && !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        let mut totals = distinct.iter().map(|value| self.of(value));
        let first = totals.next()??;
        totals.try_fold(first, |sum, next| Some(sum + next?))
    }
}

/// Whether a cast changes no number: of an integer, or of any number to a numeric without a scale.
/// A float8 is rounded to 15 digits, which is next to nothing.
fn is_exact(from: &Type, to: &Type) -> bool {
    integer_range(from).is_some() || (from.is_number() && *to == Type::Numeric(None))
}

/// A number that the statement writes.
fn number(expr: &Expr) -> Option<f64> {
    as_number(expr.as_literal()?)
}

fn add_declared(relation: &Relation, policy: &Policy, declared: &mut Vec<(ColumnId, f64)>) {
    if let Relation::Scan(scan) = relation {
        let columns = policy.tables[scan.table.0].columns.iter();
        declared.extend(
            columns
                .zip(&scan.columns)
                .filter_map(|(column, id)| Some((*id, column.unit_total?))),
        );
    }
    for input in relation.inputs() {
        add_declared(input, policy, declared);
    }
}
