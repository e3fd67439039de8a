//! The order of inner joins: a table that an equality ties to the tables so far comes before tables
//! that none does, so that each join is judged by conditions on its own two sides.

use crate::ir::{ColumnId, Expr, JoinKind, Relation};

/// Joins the same rows in the order of the module's text; `above` holds conditions that apply to
/// the rows too. Joins that are in such an order stay as they are.
pub(super) fn reorder(relation: Relation, above: &[Expr]) -> Relation {
    let mut factors = Vec::new();
    let mut conditions: Vec<&Expr> = above.iter().collect();
    take_apart(&relation, &mut factors, &mut conditions);
    if factors.len() < 3 {
        return relation;
    }
    let columns: Vec<Vec<ColumnId>> = factors
        .iter()
        .map(|factor| factor.made_at_any_depth())
        .collect();
    let order = order(&columns, &conditions);
    if order.is_sorted() {
        return relation;
    }
    let (mut factors, mut conditions) = (Vec::new(), Vec::new());
    split(relation, &mut factors, &mut conditions);
    let place = |at: usize| order.iter().position(|o| *o == at);
    let mut placed: Vec<(Option<usize>, Relation)> = factors
        .into_iter()
        .enumerate()
        .map(|(at, factor)| (place(at), factor))
        .collect();
    placed.sort_by_key(|(place, _)| *place);
    let last = placed.len() - 1;
    let (_, first) = placed.remove(0);
    placed.into_iter().fold(first, |left, (place, right)| {
        let known = [left.made_at_any_depth(), right.made_at_any_depth()].concat();
        let is_here = |c: &Expr| {
            place == Some(last)
                || c.relations().is_empty() && c.columns().iter().all(|id| known.contains(id))
        };
        let (here, later): (Vec<Expr>, Vec<Expr>) = std::mem::take(&mut conditions)
            .into_iter()
            .partition(is_here);
        conditions = later;
        Relation::Join {
            kind: JoinKind::Inner,
            left: Box::new(left),
            right: Box::new(right),
            on: Expr::and(here),
        }
    })
}

/// The conditions that read columns of these sides alone.
pub(super) fn of_sides(conditions: &[Expr], sides: [&Relation; 2]) -> Vec<Expr> {
    let own = sides.map(Relation::made_at_any_depth).concat();
    conditions
        .iter()
        .filter(|condition| condition.columns().iter().all(|id| own.contains(id)))
        .cloned()
        .collect()
}

fn take_apart<'a>(
    relation: &'a Relation,
    factors: &mut Vec<&'a Relation>,
    conditions: &mut Vec<&'a Expr>,
) {
    match relation {
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            take_apart(left, factors, conditions);
            take_apart(right, factors, conditions);
            conditions.extend(on.iter().flat_map(Expr::conjuncts));
        }
        other => factors.push(other),
    }
}

fn split(relation: Relation, factors: &mut Vec<Relation>, conditions: &mut Vec<Expr>) {
    match relation {
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on,
        } => {
            split(*left, factors, conditions);
            split(*right, factors, conditions);
            conditions.extend(on.iter().flat_map(|on| on.conjuncts().into_iter().cloned()));
        }
        other => factors.push(other),
    }
}

/// Begins with the first factor. Then takes the first one that an equality ties to those before it,
/// or, if there is none, the first that is left.
fn order(columns: &[Vec<ColumnId>], conditions: &[&Expr]) -> Vec<usize> {
    let ties: Vec<[Vec<usize>; 2]> = conditions
        .iter()
        .filter_map(|condition| tie(columns, condition))
        .collect();
    let mut order = vec![0];
    while order.len() < columns.len() {
        let left = |at: &usize| !order.contains(at);
        let is_tied = |at: &usize| {
            ties.iter().any(|[one, other]| {
                let is = |these: &[usize], those: &[usize]| {
                    these == [*at] && those.iter().all(|t| order.contains(t))
                };
                is(one, other) || is(other, one)
            })
        };
        let rest: Vec<usize> = (0..columns.len()).filter(left).collect();
        let Some(next) = rest.iter().find(|at| is_tied(at)).or(rest.first()) else {
            break;
        };
        order.push(*next);
    }
    order
}

/// Which factors the sides of an equality read, where one of them is a column.
fn tie(columns: &[Vec<ColumnId>], condition: &Expr) -> Option<[Vec<usize>; 2]> {
    let [a, b] = condition.sides_of_equality()?;
    if a.as_column().is_none() && b.as_column().is_none() {
        return None;
    }
    let read = |side: &Expr| {
        let ids = side.columns();
        let all_known = ids
            .iter()
            .all(|id| columns.iter().any(|of| of.contains(id)));
        let of: Vec<usize> = (0..columns.len())
            .filter(|at| ids.iter().any(|id| columns[*at].contains(id)))
            .collect();
        (all_known && !of.is_empty()).then_some(of)
    };
    Some([read(a)?, read(b)?])
}
