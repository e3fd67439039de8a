//! MODE: the most frequent value of a list that is known without the data. NULL does not count.

use super::Output;
use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead};
use super::call::{Call, Resolved, form};
use crate::ir::Expr;
use crate::ir::Operation;
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Of which values.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub value: Expr,
    pub values: Vec<Scalar>,
}

pub(super) fn bound(value: &Expr, bounds: &dyn Bounds) -> Result<Asked, Refusal> {
    match bounds.listed(value, "MODE()")? {
        Some(values) if values.iter().any(Option::is_some) => Ok(Asked {
            value: value.clone(),
            values: values.into_iter().flatten().collect(),
        }),
        Some(_) | None => Err(Refusal::unsupported(
            reason::VALUE_DOMAIN_UNKNOWN,
            "MODE() of a value whose domain is not known",
        )
        .hint(
            "Ask the data owner to declare the column's values, or group by it and order by the \
                count.",
        )),
    }
}

pub(super) fn call(call: &dyn Call) -> Resolved {
    if call.has_arguments() {
        return Err(form(call.name()));
    }
    let (value, descending) = call.ordered()?;
    let result = value.data_type.clone();
    Ok((Operation::Mode { value, descending }, result))
}

impl Bounded for Asked {
    fn arguments(&self) -> Vec<&Expr> {
        vec![&self.value]
    }

    fn of_no_row(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Shown
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let shown = layout.most_frequent(&self.value, &self.values, filter);
        Ok(Output::Choice(shown))
    }
}
