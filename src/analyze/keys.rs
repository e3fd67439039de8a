//! Group keys: their values are known without the data (a domain, narrowed by WHERE), or are
//! released by threshold.

pub(in crate::analyze) mod column_filter;
pub(in crate::analyze) mod derived_domain;
pub(in crate::analyze) mod key_combinations;
mod listed_values;
mod no_row;
mod time_conditions;

use super::inline;
use super::planning_effort::PlanningEffort;
use crate::catalog::Type;
use crate::ir::evaluate::float_text;
use crate::ir::functions::{Function, Rule, rule};
use crate::ir::{ColumnId, ColumnInfo, Expr, GroupingSet, KeyId, Node};
use crate::policy::{KeyChoice, Policy, Scalar};
use crate::refusal::{Refusal, reason};
use column_filter::ColumnFilter;
use key_combinations::{Axis, KeyCombinations, axes};
pub(super) use listed_values::constant_branches;
pub use listed_values::values_between;
pub use no_row::{NoRow, NoRowReason};

/// How the values of a group key become known.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyRule {
    /// The values follow from the policy and the query. Every value is shown, in this order; `None`
    /// is NULL.
    Domain(Vec<Option<Scalar>>),
    /// The values come from the data, each shown only if enough units have it.
    Threshold,
}

/// The sources of the rules for a release's keys.
pub struct Keys<'a> {
    pub choice: KeyChoice,
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
    /// Definitions of columns that derived tables compute.
    pub computed: &'a [(ColumnId, Expr)],
    /// Columns that an outer join may fill with NULL.
    pub null_extended: &'a [ColumnId],
    /// Conjuncts of WHERE, over what [`over_rows`] leaves.
    pub conditions: Vec<&'a Expr>,
    pub effort: &'a PlanningEffort,
}

impl Keys<'_> {
    /// The rule of one key.
    ///
    /// # Guarantee
    /// The rule and the values of a [`KeyRule::Domain`] depend on the policy, the query and the
    /// session's settings alone, never on a private row. (Extents and lists of public tables are
    /// part of the policy as it was loaded.) The statement leaves out rows whose key is not listed,
    /// so a value that is missing in a list costs accuracy, not privacy. Equal values are listed
    /// once, in the spelling that the statement prints: a text is listed only under a collation in
    /// which equal texts are the same bytes, and types whose equal values print in different ways
    /// are never listed.
    ///
    /// # Requires
    /// Keys that are ruled [`KeyRule::Threshold`] are shown by a noisy number of units only; see
    /// [`crate::release`].
    ///
    /// # Errors
    /// 0A000 where no rule that the session allows can hold for the key; 54001 where listing the
    /// values of the statement's keys takes too long.
    pub fn rule(&self, expr: &Expr) -> Result<KeyRule, Refusal> {
        let ruled = self.rule_of(expr);
        self.effort.within().and(ruled)
    }

    fn rule_of(&self, expr: &Expr) -> Result<KeyRule, Refusal> {
        let expr = &over_rows(expr, self.computed, self.null_extended);
        // Equal values of these types have several spellings, and a group's key would show that of
        // one row, listed or not.
        if matches!(expr.data_type, Type::Interval | Type::Other { .. }) {
            return self.threshold(expr);
        }
        // Where a collation takes different texts for equal, a group shows the text of one row.
        let is_one_spelling = constant_branches(expr).is_some() || self.is_one_spelling(expr);
        let known = || {
            if is_one_spelling {
                self.domain(expr)
            } else {
                None
            }
            .and_then(|values| canonical(values, &expr.data_type))
            .map(KeyRule::Domain)
        };
        match self.choice {
            KeyChoice::Auto => known().map_or_else(|| self.threshold(expr), Ok),
            KeyChoice::Domain => known().ok_or_else(|| {
                Refusal::new(
                    reason::GROUP_KEY_NOT_DECLARED,
                    "pgveil.keys = domain requires GROUP BY values that are known without the \
                        data",
                )
                .hint(
                    "SET pgveil.keys = auto to see the groups that contain enough units, or ask \
                        the data owner to declare the column's values.",
                )
            }),
            KeyChoice::Threshold => self.threshold(expr),
        }
    }

    fn threshold(&self, expr: &Expr) -> Result<KeyRule, Refusal> {
        match &expr.data_type {
            Type::Bool
            | Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Numeric(_)
            | Type::Float8
            | Type::Uuid => Ok(KeyRule::Threshold),
            Type::Date | Type::Timestamp | Type::Timestamptz | Type::Time | Type::Enum(_) => {
                Ok(KeyRule::Threshold)
            }
            Type::Text | Type::Varchar(_) | Type::Char(_) if self.is_one_spelling(expr) => {
                Ok(KeyRule::Threshold)
            }
            Type::Text | Type::Varchar(_) | Type::Char(_) => Err(Refusal::unsupported(
                reason::NONDETERMINISTIC_COLLATION,
                "GROUP BY a column with a nondeterministic collation",
            )),
            Type::Float4 | Type::Interval | Type::Other { .. } => {
                let name = crate::ir::literal::type_name(&expr.data_type);
                Err(Refusal::unsupported(
                    reason::GROUP_KEY_TYPE,
                    format!("GROUP BY a value of type {name}"),
                )
                .hint("Ask the data owner to declare the column's values."))
            }
        }
    }

    /// Whether equal values have one spelling: not a text, or a text of columns under whose
    /// collations equal texts are the same bytes.
    fn is_one_spelling(&self, expr: &Expr) -> bool {
        !expr.data_type.is_string()
            || inline(expr, self.computed)
                .columns()
                .iter()
                .all(|id| self.is_deterministic(*id))
    }

    pub(super) fn is_deterministic(&self, id: ColumnId) -> bool {
        match self.columns[id.0 as usize].origin {
            Some((table, position)) => {
                self.policy.tables[table.0].columns[position.0].deterministic_collation
            }
            None => true,
        }
    }

    fn domain(&self, expr: &Expr) -> Option<Vec<Option<Scalar>>> {
        if let Some(branches) = constant_branches(expr) {
            return Some(branches);
        }
        let by_values = || {
            self.by_values(expr, &[]).or_else(|| {
                let (stepped, parts) = self.split_steps(expr);
                if parts.is_empty() {
                    None
                } else {
                    self.by_values(&stepped, &parts)
                }
            })
        };
        if !self.compares_as_stored(expr)
            && let Some(values) = by_values()
        {
            return Some(values);
        }
        match (&expr.data_type, &expr.node) {
            (Type::Bool, _) => {
                let mut values = vec![Some(Scalar::Bool(false)), Some(Scalar::Bool(true))];
                if self.may_be_null(expr) {
                    values.push(None);
                }
                Some(values)
            }
            (
                _,
                Node::Call {
                    function: Function::WidthBucket,
                    arguments,
                },
            ) => {
                let Some(Scalar::Int(count)) = arguments.get(3).and_then(Expr::as_literal) else {
                    return None;
                };
                let mut values: Vec<_> = (0..=count + 1).map(|v| Some(Scalar::Int(v))).collect();
                if self.may_be_null(&arguments[0]) {
                    values.push(None);
                }
                Some(values)
            }
            _ => None,
        }
    }

    /// Whether a condition compares two bare columns. The statement compares these as they are
    /// stored, so a conclusion from values within the bounds need not hold for values outside them.
    fn compares_as_stored(&self, expr: &Expr) -> bool {
        let is_bounded = |id: &ColumnId| {
            let origin = self.columns[id.0 as usize].origin;
            origin.is_some_and(|(table, position)| {
                self.policy.tables[table.0].columns[position.0]
                    .bounds
                    .is_some()
            })
        };
        let reads_bounded = |e: &Expr| inline(e, self.computed).columns().iter().any(is_bounded);
        let mut found = false;
        expr.walk(&mut |e| {
            let Node::Call {
                function,
                arguments,
            } = &e.node
            else {
                return;
            };
            let is_order = matches!(
                function,
                Function::Less
                    | Function::LessOrEqual
                    | Function::Greater
                    | Function::GreaterOrEqual
            );
            let is_comparison =
                is_order || matches!(function, Function::Equal | Function::NotEqual);
            found |= is_comparison
                && arguments.iter().all(|a| a.as_column().is_some())
                && arguments.iter().any(reads_bounded);
        });
        found
    }

    pub(super) fn may_be_null(&self, expr: &Expr) -> bool {
        match &expr.node {
            Node::Column(id) => {
                self.columns[id.0 as usize].nullable || self.null_extended.contains(id)
            }
            Node::Literal(value) => value.is_none(),
            Node::Constant(_) => true,
            Node::Exists { .. } => false,
            Node::Cast(inner) => reads_text(inner, &expr.data_type) || self.may_be_null(inner),
            Node::Case {
                branches,
                otherwise,
            } => {
                otherwise.as_ref().is_none_or(|e| self.may_be_null(e))
                    || branches.iter().any(|(_, r)| self.may_be_null(r))
            }
            Node::Call {
                function,
                arguments,
            } => match function {
                Function::IsNull
                | Function::IsNotNull
                | Function::IsTrue
                | Function::IsNotTrue
                | Function::IsFalse
                | Function::IsNotFalse => false,
                Function::IsDistinctFrom
                | Function::IsNotDistinctFrom
                | Function::CountNulls
                | Function::CountNonNulls => false,
                Function::Coalesce | Function::Greatest | Function::Least => {
                    arguments.iter().all(|a| self.may_be_null(a))
                }
                Function::NullIf | Function::SubstringMatching | Function::SubstringWhole => true,
                Function::JsonField
                | Function::JsonText
                | Function::JsonPath
                | Function::JsonPathText
                | Function::JsonLength => true,
                Function::AnyElement | Function::Element | Function::ArrayLength => true,
                Function::Concat | Function::ConcatSeparated => false,
                // These give NULL instead of an error.
                _ if matches!(rule(*function), Rule::Division | Rule::Domain | Rule::Reach) => true,
                _ => arguments.iter().any(|a| self.may_be_null(a)),
            },
        }
    }
}

/// The expression over scanned columns. Computed columns that an outer join may replace by NULL
/// stay.
pub fn over_rows(expr: &Expr, computed: &[(ColumnId, Expr)], null_extended: &[ColumnId]) -> Expr {
    expr.clone().replace_parts(&|e| {
        let id = e.as_column().filter(|id| !null_extended.contains(id))?;
        let (_, definition) = computed.iter().find(|(made, _)| *made == id)?;
        Some(over_rows(definition, computed, null_extended))
    })
}

/// Whether a cast gives NULL for texts that the type cannot read.
pub(super) fn reads_text(operand: &Expr, to: &Type) -> bool {
    operand.data_type.is_string() && !to.is_string()
}

/// Each number once, spelled as PostgreSQL prints it; `None` where a float8 would need an exponent.
pub(super) fn canonical(
    values: Vec<Option<Scalar>>,
    data_type: &Type,
) -> Option<Vec<Option<Scalar>>> {
    let mut domain: Vec<Option<Scalar>> = Vec::with_capacity(values.len());
    let mut seen = std::collections::HashSet::new();
    for value in values {
        let value = match (value, data_type) {
            (Some(Scalar::Decimal(text)), Type::Numeric(_)) => {
                let trimmed = if text.contains('.') {
                    text.trim_end_matches('0').trim_end_matches('.')
                } else {
                    &text
                };
                Some(Scalar::Decimal(if matches!(trimmed, "-0" | "-" | "") {
                    "0".to_owned()
                } else {
                    trimmed.to_owned()
                }))
            }
            (Some(Scalar::Decimal(text)), Type::Float8) => {
                Some(Scalar::Decimal(float_text(text.parse().ok()?).ok()?))
            }
            // Rows are grouped by a real's value as a float8.
            (Some(Scalar::Decimal(text)), Type::Float4) => Some(Scalar::Decimal(
                float_text(text.parse::<f32>().ok()?.into()).ok()?,
            )),
            (value, _) => value,
        };
        let printed = match (&value, data_type) {
            (Some(Scalar::Text(text)), Type::Char(_)) => {
                format!("{:?}", text.trim_end_matches(' '))
            }
            (value, _) => format!("{value:?}"),
        };
        if seen.insert(printed) {
            domain.push(value);
        }
    }
    Some(domain)
}

/// The keys of every grouping set: without any, one set of all keys.
pub fn grouping_sets(sets: &[GroupingSet], keys: usize) -> Vec<GroupingSet> {
    if sets.is_empty() {
        vec![GroupingSet::of_all(keys)]
    } else {
        sets.to_vec()
    }
}

/// Number of groups in the full domains of all grouping sets. A key without a domain counts as one
/// value.
pub fn listed_groups<'r>(
    sets: &[GroupingSet],
    rule: impl Fn(KeyId) -> &'r KeyRule,
    tuples: &[KeyCombinations],
) -> u64 {
    let of_axis = |axis: &Axis| match axis {
        Axis::Tuples(tuples) => tuples.rows.len() as u64,
        Axis::Key(at) => match rule(*at) {
            KeyRule::Domain(values) => values.len() as u64,
            KeyRule::Threshold => 1,
        },
    };
    let of_set = |set: &GroupingSet| {
        axes(set, tuples)
            .iter()
            .fold(1u64, |cells, axis| cells.saturating_mul(of_axis(axis)))
    };
    sets.iter()
        .fold(0u64, |cells, set| cells.saturating_add(of_set(set)))
}

/// [`listed_groups`] within the policy's limit.
///
/// # Errors
/// 54000 where there are more than the policy's limit.
pub fn cells(
    sets: &[GroupingSet],
    rules: &[(Expr, KeyRule)],
    tuples: &[KeyCombinations],
    limit: u32,
) -> Result<u64, Refusal> {
    let cells = listed_groups(sets, |key| &rules[key.0].1, tuples);
    if cells > u64::from(limit) {
        return Err(Refusal::new(
            reason::TOO_MANY_GROUPS,
            format!("the group keys have {cells} combinations, more than the limit of {limit}"),
        )
        .hint("Group by fewer keys, or narrow them with WHERE."));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests;
