//! A call of an aggregate, and what all calls have in common.

use crate::catalog::Type;
use crate::ir::literal::type_name;
use crate::ir::{Distinct, Expr, Operation};
use crate::policy::RecordField;
use crate::refusal::{Refusal, reason};

/// A call of an aggregate, as `resolve` reads it. Arguments get their meaning when they are asked
/// for, so that the first error is PostgreSQL's.
pub trait Call {
    fn name(&self) -> &str;

    fn is_distinct(&self) -> bool;

    /// Whether the call has WITHIN GROUP.
    fn is_ordered(&self) -> bool;

    /// Whether the call is `name(*)`.
    fn is_of_rows(&self) -> bool;

    fn has_arguments(&self) -> bool;

    /// The one argument.
    ///
    /// # Errors
    /// 0A000 for another number of arguments; the errors of resolving it.
    fn value(&self) -> Result<Expr, Refusal>;

    /// Both arguments.
    ///
    /// # Errors
    /// As [`Self::value`].
    fn pair(&self) -> Result<(Expr, Expr), Refusal>;

    /// `values` values, the elements of an array that is written out, and one more value where
    /// there is one.
    ///
    /// # Errors
    /// As [`Self::value`].
    fn values_and_array(&self, values: usize) -> Result<ValuesAndArray, Refusal>;

    /// The field that is asked for, of an aggregate that gives a record.
    fn field(&self) -> Option<&'static RecordField>;

    /// The one argument, which may be a row.
    ///
    /// # Errors
    /// As [`Self::value`].
    fn values(&self) -> Result<Distinct, Refusal>;

    /// The one value of WITHIN GROUP, and whether it runs downwards.
    ///
    /// # Errors
    /// As [`Self::value`].
    fn within_group_value(&self) -> Result<(Expr, bool), Refusal>;

    /// Constants between 0 and 1, in millionths, and whether they are an array.
    ///
    /// # Errors
    /// As [`Self::value`]; 22003 for others.
    fn fractions(&self) -> Result<(Vec<u32>, bool), Refusal>;
}

/// Arguments of which one is an array.
#[derive(Debug)]
pub struct ValuesAndArray {
    pub values: Vec<Expr>,
    pub elements: Vec<Expr>,
    /// The argument after the array.
    pub constant: Option<Expr>,
}

/// An operation and PostgreSQL's result type.
pub type Resolved = Result<(Operation, Type), Refusal>;

/// 0A000 for a form of a known aggregate.
pub fn form(name: &str) -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_AGGREGATE,
        format!("this form of {name}()"),
    )
}

/// The result type of a call, where PostgreSQL has such an aggregate.
pub(super) fn require_type(
    call: &dyn Call,
    result: Option<Type>,
    given: &Type,
) -> Result<Type, Refusal> {
    result.ok_or_else(|| no_such(call.name(), given))
}

pub(super) fn no_such(name: &str, data_type: &Type) -> Refusal {
    let given = type_name(data_type);
    match is_known(name, data_type) {
        true => Refusal::unsupported(reason::AGGREGATE_TYPE, format!("{name}({given})")),
        false => Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!("function {name}({given}) does not exist"),
        ),
    }
}

/// Whether PostgreSQL has this aggregate over values of a type that no private one takes.
fn is_known(name: &str, given: &Type) -> bool {
    match (name, given) {
        (_, Type::Other { .. }) | ("sum" | "avg", Type::Interval) => true,
        ("min" | "max", other) => !matches!(other, Type::Bool | Type::Uuid),
        _ => false,
    }
}
