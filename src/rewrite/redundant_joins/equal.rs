//! Columns that conditions prove equal.

use std::collections::HashMap;

use crate::ir::ColumnId;

/// Classes of equal columns.
#[derive(Default)]
pub(super) struct Equal {
    class_of: HashMap<ColumnId, usize>,
    members: Vec<Vec<ColumnId>>,
}

impl Equal {
    pub fn are(&self, one: ColumnId, other: ColumnId) -> bool {
        one == other
            || matches!((self.class_of.get(&one), self.class_of.get(&other)), (Some(a), Some(b))
                if a == b)
    }

    /// Joins the classes of two equal columns. The smaller class moves.
    pub fn join(&mut self, one: ColumnId, other: ColumnId) {
        let (a, b) = (self.class(one), self.class(other));
        if a == b {
            return;
        }
        let (from, to) = if self.members[a].len() < self.members[b].len() {
            (a, b)
        } else {
            (b, a)
        };
        let moved = std::mem::take(&mut self.members[from]);
        for id in &moved {
            self.class_of.insert(*id, to);
        }
        self.members[to].extend(moved);
    }

    fn class(&mut self, id: ColumnId) -> usize {
        *self.class_of.entry(id).or_insert_with(|| {
            self.members.push(vec![id]);
            self.members.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_is_followed_through_chains() {
        let id = ColumnId;
        let mut equal = Equal::default();
        equal.join(id(1), id(2));
        equal.join(id(3), id(4));
        assert!(equal.are(id(2), id(1)) && equal.are(id(9), id(9)));
        assert!(!equal.are(id(1), id(4)) && !equal.are(id(1), id(9)));
        equal.join(id(4), id(2));
        assert!(equal.are(id(1), id(3)));
    }
}
