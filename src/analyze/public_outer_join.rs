//! An outer join that keeps every row of a public table, grouped by that table's columns. It is the
//! same release as the inner join with keys that are known without the data: no accepted aggregate
//! counts a row without a match.

use super::keys::{KeyRule, Keys};
use super::row_facts::always_true;
use crate::ir::functions::Function;
use crate::ir::{Aggregate, ColumnId, Expr, JoinKind, Node, Relation, Release};
use crate::policy::{Policy, Protection};
use crate::refusal::{Refusal, reason};

/// The release over the inner join; `None` where the join keeps no public rows.
///
/// # Guarantee
/// Over keys whose every group has a public row, the inner join has the outer join's answer: a
/// public row without a match adds nothing to any aggregate, no condition reads the private side
/// above the join, and ON only ties the two sides. The release that is returned reads private rows
/// through an inner join alone, so its lineage and bounds are those of that join.
///
/// # Requires
/// [`check_groups`] for the keys, before the groups are shown.
///
/// # Errors
/// 0A000 where the outer join's answer is another than the inner join's over the public table's
/// keys.
pub(super) fn over_matches(release: &Release, policy: &Policy) -> Result<Option<Release>, Refusal> {
    let mut conditions: Vec<&Expr> = Vec::new();
    let mut input = &release.input;
    while let Relation::Filter {
        input: below,
        predicate,
    } = input
    {
        conditions.extend(predicate.conjuncts());
        input = below;
    }
    let Relation::Join {
        kind: JoinKind::Left,
        left,
        right,
        on,
    } = input
    else {
        return Ok(None);
    };
    let is_private = |relation: &Relation| {
        super::row_facts::scanned_tables(relation)
            .iter()
            .any(|id| matches!(policy.tables[id.0].protection, Protection::Private(_)))
    };
    if is_private(left) || !is_private(right) || left.only_scan().is_none() {
        return Ok(None);
    }
    let private = right.made_at_any_depth();
    check_inner_join_answers(release, &conditions, on.as_ref(), &private)
        .map_err(|refusal| refusal.within(|| right.place()))?;
    Ok(Some(with_inner_join(release)))
}

/// Checks that the outer join differs from the inner one only in rows without a match.
fn check_inner_join_answers(
    release: &Release,
    conditions: &[&Expr],
    on: Option<&Expr>,
    private: &[ColumnId],
) -> Result<(), Refusal> {
    let reads_private = |e: &Expr| e.columns().iter().any(|id| private.contains(id));
    if conditions
        .iter()
        .any(|c| reads_private(c) || !c.relations().is_empty())
    {
        return Err(refuse("cannot have a WHERE condition on the private side")
            .hint("Move the condition on the private table into ON."));
    }
    let on_public = on
        .into_iter()
        .flat_map(Expr::conjuncts)
        .any(|c| !reads_private(c));
    if on_public
        || release.keys.is_empty()
        || release
            .keys
            .iter()
            .any(|key| reads_private(&key.expr) || key.expr.columns().is_empty())
    {
        return Err(refuse(
            "needs GROUP BY columns of that table and ON conditions that read the private table",
        )
        .hint(
            "Group by columns of the public table, and move conditions on it alone from \
                    ON to WHERE.",
        ));
    }
    if let Some(aggregate) = release
        .aggregates
        .iter()
        .find(|aggregate| !ignores_missing(aggregate, private))
    {
        return Err(
            refuse("cannot have an aggregate that counts rows without a match")
                .hint("Write count(column) with a column of the private table instead of count(*).")
                .at(aggregate.place.0),
        );
    }
    Ok(())
}

/// The release with its topmost join made an inner one.
fn with_inner_join(release: &Release) -> Release {
    let mut over = release.clone();
    let mut node = &mut over.input;
    while let Relation::Filter {
        input,
        predicate: _,
    } = node
    {
        node = input;
    }
    if let Relation::Join { kind, .. } = node {
        *kind = JoinKind::Inner;
    }
    over
}

/// The conditions of WHERE and of the public side on public rows. Conditions on the private side
/// leave no public row out.
pub(super) fn conditions(input: &Relation) -> Vec<Expr> {
    match input {
        Relation::Filter { input, predicate } => conditions(input)
            .into_iter()
            .chain(predicate.conjuncts().into_iter().cloned())
            .collect(),
        Relation::Join { left, .. } => always_true(left),
        other => always_true(other),
    }
}

/// The position at which the text names the private table.
pub(super) fn joined_place(input: &Relation) -> Option<u32> {
    match input {
        Relation::Filter {
            input,
            predicate: _,
        } => joined_place(input),
        Relation::Join { right, .. } => right.place(),
        _ => None,
    }
}

/// Checks that keys are the public table's own values. Otherwise empty groups would be missing.
///
/// # Errors
/// 0A000 for a key whose values the policy does not list.
fn check_rule(rule: &KeyRule) -> Result<(), Refusal> {
    match rule {
        KeyRule::Domain(_) => Ok(()),
        KeyRule::Threshold => Err(refuse("cannot be grouped by a column of too many values").hint(
            "Group by a column of the public table with at most 1000 values, or use an inner join.",
        )),
    }
}

/// Checks that exactly those groups of the public table are shown that have a row which WHERE
/// keeps.
///
/// # Errors
/// 0A000 where the policy does not say which these are.
pub(super) fn check_groups(
    ruled: &Keys<'_>,
    keys: &[(Expr, KeyRule)],
    input: &Relation,
) -> Result<(), Refusal> {
    keys.iter().try_for_each(|(_, rule)| check_rule(rule))?;
    if ruled.are_held(keys, input) {
        return Ok(());
    }
    Err(refuse("needs groups that are known to have a row")
        .detail(
            "The groups come from the policy's lists of the public table's values. \
                Conditions count only where they can be evaluated without the database.",
        )
        .hint(
            "In WHERE, compare the columns of GROUP BY with constants by =, <>, IN, LIKE or IS \
            NOT NULL, or use an inner join.",
        ))
}

fn refuse(what: &str) -> Refusal {
    Refusal::new(
        reason::PUBLIC_OUTER_JOIN,
        format!("an outer join that keeps every row of a public table {what}"),
    )
}

/// Whether a row of NULLs on the private side adds nothing.
fn ignores_missing(aggregate: &Aggregate, private: &[ColumnId]) -> bool {
    let operation = &aggregate.operation;
    let mut arguments = operation.arguments().into_iter();
    operation.facts().skips_nulls && arguments.any(|e| is_strict(e, private))
}

/// Whether the expression is NULL wherever all private columns are.
fn is_strict(expr: &Expr, private: &[ColumnId]) -> bool {
    match &expr.node {
        Node::Column(id) => private.contains(id),
        Node::Cast(inner) => is_strict(inner, private),
        Node::Call {
            function,
            arguments,
        } => match function {
            Function::Add
            | Function::Subtract
            | Function::Multiply
            | Function::Divide
            | Function::Negate
            | Function::Abs => arguments.iter().any(|a| is_strict(a, private)),
            _ => false,
        },
        Node::Literal(_) | Node::Constant(_) | Node::Case { .. } | Node::Exists { .. } => false,
    }
}
