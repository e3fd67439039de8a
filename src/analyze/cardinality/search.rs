//! The least product of counts whose attributes determine the given attributes.

use std::collections::HashSet;

use super::{Attribute, Cardinality, Count};
use crate::ir::ColumnId;

/// The largest number that is counted.
const MOST: u64 = 1 << 32;

/// With this many counts, every subset of them is tried; with more, they are dropped one by one.
const COUNTS_MAX: usize = 6;

/// The attributes that some others determine.
struct Closure<'c, 'a> {
    of: &'c Cardinality<'a>,
    found: HashSet<Attribute>,
}

impl Closure<'_, '_> {
    fn has(&self, attribute: Attribute) -> bool {
        self.found.contains(&attribute)
            || matches!(attribute, Attribute::Column(id) if self.is_of_row(id))
    }

    fn is_of_row(&self, id: ColumnId) -> bool {
        self.of
            .row_columns
            .iter()
            .any(|each| self.found.contains(&each.row) && each.columns.contains(&id))
    }

    fn extend(&mut self) {
        let mut left: Vec<_> = self.of.dependencies.iter().collect();
        loop {
            let before = left.len();
            // If planning has taken too long, fewer dependencies are used, and the bound is larger.
            if self.of.effort.take(before as u64).is_none() {
                return;
            }
            left.retain(|dependency| {
                let is_determined = dependency.by.iter().all(|by| self.has(*by));
                if is_determined {
                    self.found.insert(dependency.determined);
                }
                !is_determined
            });
            if left.len() == before {
                return;
            }
        }
    }
}

impl<'a> Cardinality<'a> {
    /// The attributes that these determine, for the rows of one unit.
    fn closure(&self, known: &[Attribute]) -> Closure<'_, 'a> {
        let mut closure = Closure {
            of: self,
            found: known.iter().copied().collect(),
        };
        closure.extend();
        closure
    }

    pub(super) fn determines(&self, known: &[Attribute], wanted: &[Attribute]) -> bool {
        let closure = self.closure(known);
        wanted.iter().all(|each| closure.has(*each))
    }

    /// The most combinations of `wanted` among one unit's rows that agree in `known`: if `known`
    /// and some counted attributes determine `wanted`, the product of their counts. A key that
    /// lists no value counts as one.
    pub(super) fn most(&self, known: &[Attribute], wanted: &[Attribute]) -> u64 {
        let given = self.closure(known);
        if wanted.iter().all(|each| given.has(*each)) {
            return 1;
        }
        let mut counts: Vec<&Count> = self
            .counts
            .iter()
            .filter(|count| !count.of.iter().all(|each| given.has(*each)))
            .collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.most));
        let is_enough = |chosen: &[&Count]| {
            let known: Vec<Attribute> = chosen
                .iter()
                .flat_map(|count| &count.of)
                .chain(known)
                .copied()
                .collect();
            self.determines(&known, wanted)
        };
        if !is_enough(&counts) {
            return MOST;
        }
        let mut least = counts.clone();
        for count in &counts {
            let others: Vec<&Count> = least
                .iter()
                .copied()
                .filter(|other| !std::ptr::eq(*other, *count))
                .collect();
            if is_enough(&others) {
                least = others;
            }
        }
        let mut most = product(&least);
        if counts.len() <= COUNTS_MAX {
            for subset in 0..1u32 << counts.len() {
                let chosen: Vec<&Count> = counts
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| subset & (1 << at) != 0)
                    .map(|(_, count)| *count)
                    .collect();
                let bound = product(&chosen);
                if bound < most && is_enough(&chosen) {
                    most = bound;
                }
            }
        }
        most
    }
}

fn product(counts: &[&Count]) -> u64 {
    counts
        .iter()
        .fold(1u64, |product, count| {
            product.saturating_mul(count.most.max(1))
        })
        .min(MOST)
}
