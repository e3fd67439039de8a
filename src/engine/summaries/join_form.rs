//! The forms in which a statement may join a summary's tables along the path to the unit.

use super::counted_rows;
use crate::policy::{Policy, Summary, UnitStep, path_to_unit};
use crate::postgres::{identifier, qualify};

/// The most joins of which all forms are known. Of more, only the forms along the path are.
const JOINS_MAX: usize = 2;

/// An order of tables `t0` to `tn`, each one step from the one before it on the path, and the sides
/// of the equalities between them.
///
/// All forms of one number of joins have the same rows: inner joins by the same equalities.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JoinForm {
    order: Vec<usize>,
    /// For each step: whether the column that is referred to stands on the left.
    is_mirrored: Vec<bool>,
    /// Whether the rows of other tables are joined that keys count: each row has one such number,
    /// so that the rows are the same.
    counts_rows: bool,
}

impl JoinForm {
    /// The form of the summary's own statement.
    pub fn of_summary(joins: usize) -> Self {
        Self {
            order: (0..=joins).collect(),
            is_mirrored: vec![false; joins],
            counts_rows: true,
        }
    }

    /// The form of questions that read no number of rows.
    pub fn without_counted_rows(joins: usize) -> Self {
        Self {
            counts_rows: false,
            ..Self::of_summary(joins)
        }
    }

    /// Whether the form joins the numbers of rows that are keys.
    pub fn counts_rows(&self) -> bool {
        self.counts_rows
    }

    /// All forms of this many joins.
    pub fn all(joins: usize) -> Vec<Self> {
        let along: Vec<usize> = (0..=joins).collect();
        let mut orders = vec![along];
        let mut mirrored = vec![vec![false; joins], vec![true; joins]];
        if joins <= JOINS_MAX {
            orders = (0..=joins).map(|first| vec![first]).collect();
            for _ in 0..joins {
                orders = orders
                    .iter()
                    .flat_map(|order| longer(order, joins))
                    .collect();
            }
            let of = |bits: usize| (0..joins).map(|step| bits >> step & 1 == 1).collect();
            mirrored = (0..1usize << joins).map(of).collect();
        }
        mirrored.dedup();
        let with = |order: &Vec<usize>| {
            let of = |is_mirrored: &Vec<bool>| Self {
                order: order.clone(),
                is_mirrored: is_mirrored.clone(),
                counts_rows: true,
            };
            mirrored.iter().map(of).collect::<Vec<_>>()
        };
        orders.iter().flat_map(with).collect()
    }

    /// The numbers of joins, fewer than the summary's, with which a statement reads the same rows.
    /// The planner joins the rest of the path itself, up to the table that the unit's own column is
    /// referred to in: that one it does not read, and a row may lack it.
    pub fn with_fewer(policy: &Policy, summary: &Summary) -> Vec<usize> {
        let joins = summary.joins(policy).len();
        let is_read = |step: usize| !refers_to_unit(policy, summary, step);
        let fewer = (0..joins).filter(|fewer| (*fewer..joins).all(is_read));
        fewer.collect()
    }

    /// The tables as FROM names them.
    pub fn from(&self, policy: &Policy, summary: &Summary) -> String {
        let steps = path_to_unit(policy, summary.table);
        let table = |at: &usize| {
            let name = match at.checked_sub(1) {
                None => {
                    let table = &policy.tables[summary.table];
                    qualify(&table.schema, &table.name)
                }
                Some(step) => qualify(&steps[step].schema, &steps[step].table),
            };
            format!("{name} AS t{at}")
        };
        let mut from = self.order.first().map(table).unwrap_or_default();
        for (place, at) in self.order.iter().enumerate().skip(1) {
            let has_before = at
                .checked_sub(1)
                .is_some_and(|b| self.order[..place].contains(&b));
            let step = if has_before { at - 1 } else { *at };
            let [left, right] = sides(&steps[step], step, self.is_mirrored[step]);
            from += &format!(" JOIN {} ON {left} = {right}", table(at));
        }
        if self.counts_rows {
            from += &counted_rows::joins(policy, summary);
        }
        from
    }
}

/// The equality of one step.
fn sides(step: &UnitStep, at: usize, is_mirrored: bool) -> [String; 2] {
    let from = format!("t{at}.{}", identifier(&step.column));
    let to = format!("t{}.{}", at + 1, identifier(&step.referenced));
    if is_mirrored { [to, from] } else { [from, to] }
}

/// An order with one table more, at either end of the part of the path that it has.
fn longer(order: &[usize], last: usize) -> Vec<Vec<usize>> {
    let (low, high) = (order.iter().min(), order.iter().max());
    let before = low.and_then(|low| low.checked_sub(1));
    let after = high.map(|high| high + 1).filter(|next| *next <= last);
    let with = |next| order.iter().copied().chain([next]).collect();
    before.into_iter().chain(after).map(with).collect()
}

/// Whether a step of the path leads to the unit's own column.
fn refers_to_unit(policy: &Policy, summary: &Summary, step: usize) -> bool {
    let crate::policy::Protection::Private(unit) = &policy.tables[summary.table].protection else {
        return true;
    };
    let steps = &unit.path;
    step + 1 == steps.len() && steps[step].referenced == unit.column
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_follows_the_path() {
        let orders = |joins| {
            let mut orders: Vec<Vec<usize>> = Vec::new();
            for form in JoinForm::all(joins) {
                if !orders.contains(&form.order) {
                    orders.push(form.order);
                }
            }
            orders
        };
        assert_eq!(JoinForm::all(0), [JoinForm::of_summary(0)]);
        assert_eq!(orders(1), [[0, 1], [1, 0]]);
        assert_eq!(orders(2), [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]]);
        assert_eq!(orders(3), [[0, 1, 2, 3]]);
        assert_eq!(
            [1, 2, 3].map(|joins| JoinForm::all(joins).len()),
            [4, 16, 2]
        );
        assert!(JoinForm::all(2).contains(&JoinForm::of_summary(2)));
    }
}
