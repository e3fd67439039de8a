//! Group keys: domains known without the data, narrowed by WHERE; all others are released by
//! threshold.

pub(in crate::analyze) mod column_filter;
pub(in crate::analyze) mod derived_domain;
pub(in crate::analyze) mod key_combinations;

use super::inline;
use super::interval::MICROS_PER_DAY;
use super::planning_effort::PlanningEffort;
use crate::catalog::Type;
use crate::ir::evaluate::{evaluate, float_text};
use crate::ir::functions::{Function, Rule, rule};
use crate::ir::literal::{integer_range, is_beyond};
use crate::ir::{ColumnId, ColumnInfo, Expr, Node};
use crate::policy::{Bounds, KeyChoice, Policy, Scalar};
use crate::refusal::{Refusal, sqlstate};
use column_filter::ColumnFilter;
use derived_domain::Listed;
use key_combinations::{Axis, KeyCombinations, axes};

/// Most values that are listed for the columns of one key.
const VALUES_MAX: usize = 50_000;

/// How the values of a group key become known.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyRule {
    /// From the policy and the query alone: every value is shown, in this order; `None` is NULL.
    Domain(Vec<Option<Scalar>>),
    /// From the data, where enough units have it.
    Threshold,
}

/// What is known where keys are ruled.
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
    /// # Errors
    /// 0A000 where no rule that the session allows can hold for the key; 54001 where listing the
    /// values of the statement's keys takes too long.
    pub fn rule(&self, expr: &Expr) -> Result<KeyRule, Refusal> {
        let ruled = self.ruled(expr);
        self.effort.within().and(ruled)
    }

    fn ruled(&self, expr: &Expr) -> Result<KeyRule, Refusal> {
        let expr = &over_rows(expr, self.computed, self.null_extended);
        // Equal values of these types print unlike: a group's key would show one row's spelling,
        // listed or not.
        if matches!(expr.data_type, Type::Interval | Type::Other { .. }) {
            return self.threshold(expr);
        }
        // Of spellings that a collation takes for equal, a group shows one row's.
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
                Refusal::unsupported(
                    "under pgveil.keys = domain, GROUP BY a value that is not \
                    known without the data",
                )
                .hint(
                    "SET pgveil.keys = auto shows the groups that enough units are in; or \
                        ask \
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
                "GROUP BY a column whose collation takes unlike spellings for equal",
            )),
            Type::Float4 | Type::Interval | Type::Other { .. } => {
                let name = crate::ir::literal::type_name(&expr.data_type);
                Err(
                    Refusal::unsupported(format!("GROUP BY a value of type {name}"))
                        .hint("Ask the data owner to declare the column's values."),
                )
            }
        }
    }

    /// No text, or one of columns under whose collations equal means the same bytes.
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
                self.policy.tables[table.0].columns[position].deterministic_collation
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
                let (stepped, parts) = self.stepped(expr);
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

    /// Two bare columns are compared as they are stored: what holds of values within the bounds
    /// need not hold of those past them.
    fn compares_as_stored(&self, expr: &Expr) -> bool {
        let is_bounded = |id: &ColumnId| {
            let origin = self.columns[id.0 as usize].origin;
            origin.is_some_and(|(table, position)| {
                self.policy.tables[table.0].columns[position]
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

    /// Every value the expression takes over the listed values of its columns that meet the
    /// conditions on them; `parts` stand for columns of their own.
    fn by_values(&self, expr: &Expr, parts: &[Listed]) -> Option<Vec<Option<Scalar>>> {
        let columns = expr.columns();
        let mut assignments: Vec<Vec<(ColumnId, Option<Scalar>)>> = vec![Vec::new()];
        for id in columns {
            let values = match parts.iter().find(|(part, _)| *part == id) {
                Some((_, values)) => values.clone(),
                None if self.is_timestamp(id) => self.days(id, expr)?,
                None => self.column_values(id)?,
            };
            if assignments.len().saturating_mul(values.len()) > VALUES_MAX {
                return None;
            }
            assignments = assignments
                .into_iter()
                .flat_map(|assigned| {
                    values.iter().map(move |value| {
                        let mut assigned = assigned.clone();
                        assigned.push((id, value.clone()));
                        assigned
                    })
                })
                .collect();
        }
        self.effort.spend(assignments.len(), [expr])?;
        let mut domain: Vec<Option<Scalar>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for assignment in assignments {
            let value = evaluate(expr, &assignment).ok()?;
            if seen.insert(format!("{value:?}")) {
                domain.push(value);
            }
        }
        // NULL is shown last, as PostgreSQL sorts it.
        domain.sort_by_key(Option::is_none);
        Some(domain)
    }

    fn column_values(&self, id: ColumnId) -> Option<Vec<Option<Scalar>>> {
        let info = &self.columns[id.0 as usize];
        if let Some((_, definition)) = self.computed.iter().find(|(made, _)| *made == id) {
            return self.missing_or_computed(id, definition);
        }
        let (table, position) = info.origin?;
        let column = &self.policy.tables[table.0].columns[position];
        let listed = match (&column.domain, &column.bounds, &column.data_type) {
            (Some(values), _, _) => values.clone(),
            (None, _, Type::Bool) => vec![Scalar::Bool(false), Scalar::Bool(true)],
            (None, Some(bounds), data_type) => {
                between(bounds, data_type).or_else(|| self.asked_for(id))?
            }
            (None, None, _) => self.asked_for(id)?,
        };
        let mut values: Vec<Option<Scalar>> = listed.into_iter().map(Some).collect();
        if info.nullable || self.null_extended.contains(&id) {
            values.push(None);
        }
        self.retain(id, &mut values)?;
        Some(values)
    }

    /// Keeps the values that no condition on this column alone excludes.
    fn retain(&self, id: ColumnId, values: &mut Vec<Option<Scalar>>) -> Option<()> {
        let met = ColumnFilter::new(id, self.conditions.iter().copied());
        self.effort.spend(values.len(), met.evaluated(values))?;
        values.retain(|value| met.by(value));
        Some(())
    }

    fn about(&self, id: ColumnId) -> Vec<&Expr> {
        self.conditions
            .iter()
            .copied()
            .filter(|c| c.columns() == [id])
            .collect()
    }

    /// The values of a computed column that an outer join may leave out: NULL then, whatever its
    /// definition gives for missing rows.
    fn missing_or_computed(&self, id: ColumnId, definition: &Expr) -> Option<Vec<Option<Scalar>>> {
        let mut values = self.domain(&over_rows(definition, self.computed, self.null_extended))?;
        if !values.contains(&None) {
            values.push(None);
        }
        self.retain(id, &mut values)?;
        Some(values)
    }

    /// Values of a column that the query itself lists: `x IN (1, 2)`, `x = 'a'`, or whole numbers
    /// and days between conditions.
    fn asked_for(&self, id: ColumnId) -> Option<Vec<Scalar>> {
        let data_type = &self.columns[id.0 as usize].data_type;
        let is_text = data_type.is_string();
        let is_subject = |e: &Expr| match &e.node {
            Node::Cast(inner) => {
                is_text && e.data_type == Type::Text && inner.as_column() == Some(id)
            }
            _ => e.as_column() == Some(id),
        };
        let listed = self
            .conditions
            .iter()
            .find_map(|condition| match &condition.node {
                Node::Call {
                    function: Function::In,
                    arguments,
                }
                | Node::Call {
                    function: Function::Equal,
                    arguments,
                } => match arguments.as_slice() {
                    [subject, list @ ..] if is_subject(subject) => list
                        .iter()
                        .map(|e| e.as_literal().map(|value| stored(value, data_type)))
                        .collect::<Option<Vec<_>>>(),
                    _ => None,
                },
                _ => None,
            });
        let is_of_type = |value: &Scalar| match value {
            Scalar::Int(_) => matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8),
            Scalar::Decimal(_) => matches!(data_type, Type::Numeric(_)),
            Scalar::Text(_) => is_text && self.is_deterministic(id),
            Scalar::Date(_) => *data_type == Type::Date,
            Scalar::Bool(_) | Scalar::Timestamp(_) | Scalar::Interval { .. } => false,
        };
        if let Some(values) = listed.filter(|values| {
            values
                .iter()
                .all(|value| is_of_type(value) && !is_beyond(value))
        }) {
            return Some(
                values
                    .into_iter()
                    .filter(|value| is_held(value, data_type))
                    .collect(),
            );
        }
        // What a public table holds is no question: only conditions of the query list its values.
        let is_public = self.columns[id.0 as usize]
            .origin
            .is_some_and(|(table, at)| self.policy.tables[table.0].columns[at].extent.is_some());
        if is_public && !self.conditions.iter().any(|c| c.columns() == [id]) {
            return None;
        }
        let between = derived_domain::whole(self.range(&Expr::column(id, data_type.clone())))?;
        match data_type {
            // Sums of small integers leave their type, and are clamped to it: such values are not
            // listed.
            Type::Int2 | Type::Int4 | Type::Int8 => {
                let (lower, upper) = integer_range(data_type)?;
                between
                    .map(|value| {
                        (lower..=upper)
                            .contains(&value)
                            .then_some(Scalar::Int(value))
                    })
                    .collect()
            }
            Type::Date => between
                .map(|day| i32::try_from(day).ok().map(Scalar::Date))
                .collect(),
            _ => None,
        }
    }

    fn is_timestamp(&self, id: ColumnId) -> bool {
        matches!(
            self.columns[id.0 as usize].data_type,
            Type::Timestamp | Type::Timestamptz
        )
    }

    /// The first instant of every day of a bounded timestamp, for an expression that tells instants
    /// apart by their day at most.
    fn days(&self, id: ColumnId, expr: &Expr) -> Option<Vec<Option<Scalar>>> {
        let info = &self.columns[id.0 as usize];
        info.origin?;
        let range = self.range(&Expr::column(id, info.data_type.clone()));
        let day = |micros: f64| (micros / MICROS_PER_DAY as f64).floor() as i64;
        let (first, last) = (day(range.lo), day(range.hi));
        if !day_grained(expr, id) || !range.is_finite() || last - first >= VALUES_MAX as i64 {
            return None;
        }
        let about_this = self.about(id);
        self.effort
            .spend((last - first) as usize, about_this.iter().copied())?;
        let mut days: Vec<Option<Scalar>> = (first..=last)
            .filter(|day| day_meets(&about_this, id, *day))
            .map(|day| Some(Scalar::Timestamp(day * MICROS_PER_DAY)))
            .collect();
        if info.nullable || self.null_extended.contains(&id) {
            days.push(None);
        }
        Some(days)
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
                // Made total by giving NULL.
                _ if matches!(rule(*function), Rule::Division | Rule::Domain | Rule::Reach) => true,
                _ => arguments.iter().any(|a| self.may_be_null(a)),
            },
        }
    }
}

/// The expression over scanned columns, and over those computed ones that an outer join may leave
/// NULL whatever their definition gives.
pub fn over_rows(expr: &Expr, computed: &[(ColumnId, Expr)], null_extended: &[ColumnId]) -> Expr {
    expr.clone().mapped(&|e| {
        let id = e.as_column().filter(|id| !null_extended.contains(id))?;
        let (_, definition) = computed.iter().find(|(made, _)| *made == id)?;
        Some(over_rows(definition, computed, null_extended))
    })
}

/// A cast that gives NULL for text that the type does not read.
pub(super) fn reads_text(operand: &Expr, to: &Type) -> bool {
    operand.data_type.is_string() && !to.is_string()
}

/// Equal numbers as one value, spelled as PostgreSQL prints it; `None` where a float8 would need an
/// exponent.
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
            // Rows are grouped by the float8 that a real is.
            (Some(Scalar::Decimal(text)), Type::Float4) => Some(Scalar::Decimal(
                float_text(text.parse::<f32>().ok()?.into()).ok()?,
            )),
            (value, _) => value,
        };
        let told = match (&value, data_type) {
            (Some(Scalar::Text(text)), Type::Char(_)) => {
                format!("{:?}", text.trim_end_matches(' '))
            }
            (value, _) => format!("{value:?}"),
        };
        if seen.insert(told) {
            domain.push(value);
        }
    }
    Some(domain)
}

/// False of a text that is longer than any that a column of this type stores.
fn is_held(value: &Scalar, data_type: &Type) -> bool {
    match (value, data_type) {
        (Scalar::Text(text), Type::Char(Some(length))) => text.chars().count() <= *length as usize,
        _ => true,
    }
}

/// A constant as a column of this type stores it.
fn stored(value: &Scalar, data_type: &Type) -> Scalar {
    match value {
        Scalar::Text(text) => Scalar::Text(data_type.stored(text.clone())),
        other => other.clone(),
    }
}

/// An ordering condition holds somewhere in a day if and only if it holds at one of the day's ends;
/// other conditions exclude nothing.
fn day_meets(about_this: &[&Expr], id: ColumnId, day: i64) -> bool {
    let ordering = |c: &Expr| match &c.node {
        Node::Call {
            function:
                Function::Less | Function::LessOrEqual | Function::Greater | Function::GreaterOrEqual,
            arguments,
        } => arguments
            .iter()
            .all(|a| a.as_column() == Some(id) || a.as_literal().is_some()),
        Node::Call { .. }
        | Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Cast(_)
        | Node::Case { .. }
        | Node::Exists { .. } => false,
    };
    let ends = [day * MICROS_PER_DAY, (day + 1) * MICROS_PER_DAY - 1];
    about_this.iter().filter(|c| ordering(c)).all(|c| {
        ends.iter().any(|end| {
            evaluate(c, &[(id, Some(Scalar::Timestamp(*end)))]) != Ok(Some(Scalar::Bool(false)))
        })
    })
}

/// Every mention of the column is inside a field or truncation of a day or longer.
fn day_grained(expr: &Expr, id: ColumnId) -> bool {
    match &expr.node {
        Node::Column(column) => *column != id,
        Node::Literal(_) | Node::Constant(_) => true,
        Node::Exists { .. } => false,
        Node::Cast(inner) => {
            (inner.as_column() == Some(id) && expr.data_type == Type::Date)
                || day_grained(inner, id)
        }
        Node::Case {
            branches,
            otherwise,
        } => {
            branches
                .iter()
                .all(|(c, r)| day_grained(c, id) && day_grained(r, id))
                && otherwise.as_ref().is_none_or(|e| day_grained(e, id))
        }
        Node::Call {
            function: Function::Extract | Function::DatePart | Function::DateTrunc,
            arguments,
        } => match arguments.as_slice() {
            [field, operand] if operand.as_column() == Some(id) => {
                let within_days = |field: &str| {
                    matches!(
                        field,
                        "hour" | "minute" | "second" | "millisecond" | "microsecond" | "epoch"
                    )
                };
                matches!(field.as_literal(), Some(Scalar::Text(f)) if !within_days(f))
            }
            _ => arguments.iter().all(|a| day_grained(a, id)),
        },
        Node::Call {
            function: Function::Formatted,
            arguments,
        } => match arguments.as_slice() {
            [operand, format] if operand.as_column() == Some(id) => {
                matches!(format.as_literal(), Some(Scalar::Text(f)) if !["HH", "MI", "SS", "MS", "US", "FF", "AM", "PM"].iter().any(|p| f.contains(p)))
            }
            _ => arguments.iter().all(|a| day_grained(a, id)),
        },
        Node::Call {
            function: _,
            arguments,
        } => arguments.iter().all(|a| day_grained(a, id)),
    }
}

/// The results of a CASE whose branches are all constants.
fn constant_branches(expr: &Expr) -> Option<Vec<Option<Scalar>>> {
    let Node::Case {
        branches,
        otherwise,
    } = &expr.node
    else {
        return None;
    };
    let mut values: Vec<Option<Scalar>> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for result in branches.iter().map(|(_, r)| r).chain(otherwise.as_deref()) {
        let Node::Literal(value) = &result.node else {
            return None;
        };
        if seen.insert(format!("{value:?}")) {
            values.push(value.clone());
        }
    }
    if otherwise.is_none() && !values.contains(&None) {
        values.push(None);
    }
    values.sort_by_key(Option::is_none);
    Some(values)
}

fn between(bounds: &Bounds, data_type: &Type) -> Option<Vec<Scalar>> {
    values_between(bounds, data_type)?;
    match (&bounds.lower, &bounds.upper) {
        (Scalar::Int(lo), Scalar::Int(hi)) => Some((*lo..=*hi).map(Scalar::Int).collect()),
        (Scalar::Date(lo), Scalar::Date(hi)) => Some((*lo..=*hi).map(Scalar::Date).collect()),
        _ => None,
    }
}

/// How many values of this type lie within the bounds, where so few do that a key of them is
/// listed.
pub fn values_between(bounds: &Bounds, data_type: &Type) -> Option<usize> {
    let (lo, hi) = match (data_type, &bounds.lower, &bounds.upper) {
        (Type::Int2 | Type::Int4 | Type::Int8, Scalar::Int(lo), Scalar::Int(hi)) => (*lo, *hi),
        (Type::Date, Scalar::Date(lo), Scalar::Date(hi)) => (i64::from(*lo), i64::from(*hi)),
        // A timestamp's days stand for it: only fields of a day or longer are evaluated, and a bare
        // timestamp is not a listed key.
        _ => return None,
    };
    usize::try_from(hi.checked_sub(lo)?.checked_add(1)?)
        .ok()
        .filter(|count| (1..=VALUES_MAX).contains(count))
}

/// The keys of every grouping set: without any, one set of all keys.
pub fn grouped(sets: &[Vec<usize>], keys: usize) -> Vec<Vec<usize>> {
    if sets.is_empty() {
        vec![(0..keys).collect()]
    } else {
        sets.to_vec()
    }
}

/// Number of cells of the full domains of all grouping sets.
///
/// # Errors
/// 54000 where there are more than the policy's limit.
pub fn cells(
    sets: &[Vec<usize>],
    rules: &[(Expr, KeyRule)],
    tuples: &[KeyCombinations],
    limit: u32,
) -> Result<usize, Refusal> {
    let of_axis = |axis: &Axis| match axis {
        Axis::Tuples(tuples) => tuples.rows.len(),
        Axis::Key(at) => match &rules[*at].1 {
            KeyRule::Domain(values) => values.len(),
            KeyRule::Threshold => 1,
        },
    };
    let of_set = |set: &Vec<usize>| {
        axes(set, tuples)
            .iter()
            .fold(1usize, |cells, axis| cells.saturating_mul(of_axis(axis)))
    };
    let cells = sets
        .iter()
        .fold(0usize, |cells, set| cells.saturating_add(of_set(set)));
    if cells > limit as usize {
        return Err(Refusal::new(
            sqlstate::PROGRAM_LIMIT_EXCEEDED,
            format!("the group keys have {cells} combinations, more than the limit of {limit}"),
        )
        .hint("Group by fewer keys, or narrow them with WHERE."));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_listed_up_to_the_limit() {
        let most = VALUES_MAX as i64;
        let whole = |lo: i64, hi: i64| {
            between(
                &Bounds {
                    lower: Scalar::Int(lo),
                    upper: Scalar::Int(hi),
                },
                &Type::Int8,
            )
            .map(|values| values.len())
        };
        assert_eq!((whole(3, 3), whole(-2, 2)), (Some(1), Some(5)));
        assert_eq!((whole(1, most), whole(0, most)), (Some(VALUES_MAX), None));
        assert_eq!((whole(i64::MIN, i64::MAX), whole(2, 1)), (None, None));
        let days = |lo: i32, hi: i32| {
            between(
                &Bounds {
                    lower: Scalar::Date(lo),
                    upper: Scalar::Date(hi),
                },
                &Type::Date,
            )
            .map(|values| values.len())
        };
        assert_eq!(
            (
                days(0, 365),
                days(1, VALUES_MAX as i32),
                days(0, VALUES_MAX as i32)
            ),
            (Some(366), Some(VALUES_MAX), None)
        );
        assert_eq!(
            between(
                &Bounds {
                    lower: Scalar::Int(0),
                    upper: Scalar::Int(1)
                },
                &Type::Text
            ),
            None
        );
    }

    #[test]
    fn cells_are_counted_up_to_the_limit() {
        let key = |values: usize| {
            (
                Expr::literal(None, Type::Int4),
                KeyRule::Domain(vec![None; values]),
            )
        };
        let rules = [
            key(3),
            key(4),
            (Expr::literal(None, Type::Text), KeyRule::Threshold),
        ];
        let of = |sets: &[Vec<usize>], limit| {
            cells(sets, &rules, &[], limit).map_err(|refusal| refusal.sqlstate)
        };
        assert_eq!(of(&[vec![0, 1, 2]], 12), Ok(12));
        assert_eq!(of(&[vec![0, 1, 2]], 11), Err("54000".to_owned()));
        assert_eq!(of(&[vec![0, 1], vec![0], Vec::new()], 16), Ok(16));
        assert_eq!(
            of(&[vec![0, 1], vec![0], Vec::new()], 15),
            Err("54000".to_owned())
        );
        let together = KeyCombinations {
            keys: vec![0, 1],
            rows: (0..5).map(|n| vec![Some(Scalar::Int(n)), None]).collect(),
        };
        assert_eq!(
            cells(&[vec![0, 1]], &rules, std::slice::from_ref(&together), 5).ok(),
            Some(5)
        );
        assert_eq!(
            (grouped(&[], 2), grouped(&[vec![1]], 2)),
            (vec![vec![0, 1]], vec![vec![1]])
        );
    }

    #[test]
    fn equal_numbers_are_one_value() {
        let decimals = |texts: &[&str], data_type: &Type| {
            let values = texts
                .iter()
                .map(|text| Some(Scalar::Decimal((*text).to_owned())))
                .collect();
            let text = |value: Option<Scalar>| {
                if let Some(Scalar::Decimal(text)) = value {
                    text
                } else {
                    panic!("a number")
                }
            };
            canonical(values, data_type)
                .map(|values| values.into_iter().map(text).collect::<Vec<_>>())
        };
        let numeric = decimals(
            &["1.50", "1.5", "100", "0.00", "-0", "0", "10.0"],
            &Type::Numeric(None),
        );
        assert_eq!(numeric.unwrap(), ["1.5", "100", "0", "10"]);
        assert_eq!(
            decimals(&["1.50", "1.5", "100"], &Type::Float8).unwrap(),
            ["1.5", "100"]
        );
    }
}
