//! Unique keys and what they prove. A key identifies rows only under comparisons that are as strict
//! as its index.

use serde::{Deserialize, Serialize};

use super::Collation;

/// Which values of a column a comparison treats as equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Equality {
    /// Equality by the column's own type and collation, as in GROUP BY, PARTITION BY and DISTINCT.
    Own,
    /// `=` of the column's type, texts byte for byte. All deterministic collations agree on it.
    Exact,
    /// `=` of texts under this nondeterministic collation, where different texts can be equal.
    Under(Collation),
}

/// A unique or primary key that PostgreSQL enforces for every row: valid, immediate, not partial,
/// over plain columns, by `=` of each column's type.
///
/// A column of the key may still be NULL; such a row need not be unique. See `Column::not_null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    columns: Vec<KeyColumn>,
    pub primary: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyColumn {
    pub(super) name: String,
    /// Values that are equal by the column's own equality are equal in the index too.
    pub(super) covers_own: bool,
    /// The index's collation, if it is nondeterministic.
    pub(super) collation: Option<Collation>,
}

impl KeyColumn {
    /// Whether values that differ in the index also differ by this comparison.
    fn covers(&self, equality: &Equality) -> bool {
        match equality {
            Equality::Own => self.covers_own,
            Equality::Exact => true,
            Equality::Under(collation) => self.collation.as_ref() == Some(collation),
        }
    }
}

impl UniqueKey {
    pub(super) fn of(columns: Vec<KeyColumn>, primary: bool) -> Self {
        Self { columns, primary }
    }

    /// A key whose index uses the collations of its columns, all deterministic.
    pub fn plain<I: IntoIterator<Item: Into<String>>>(names: I, primary: bool) -> Self {
        let column = |name: I::Item| KeyColumn {
            name: name.into(),
            covers_own: true,
            collation: None,
        };
        Self {
            columns: names.into_iter().map(column).collect(),
            primary,
        }
    }

    /// The names of its columns. They prove nothing: see [`UniqueKey::tells_apart`].
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Whether at most one row matches given values in all columns of the key. `compared` gives the
    /// comparisons of each column, if any.
    pub fn tells_apart<I: IntoIterator<Item = Equality>>(
        &self,
        compared: impl Fn(&str) -> I,
    ) -> bool {
        self.columns.iter().all(|column| {
            compared(&column.name)
                .into_iter()
                .any(|equality| column.covers(&equality))
        })
    }

    /// Like [`Self::tells_apart`], where exactly these columns are compared, all with one equality.
    pub fn is_within(&self, columns: &[&str], equality: &Equality) -> bool {
        self.tells_apart(|name| columns.contains(&name).then(|| equality.clone()))
    }

    /// The key's part in a policy's digest.
    pub fn describe(&self) -> String {
        format!("{:?} {}", self.columns, self.primary)
    }

    /// Keys over the same columns whose indexes agree on equality.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.columns == other.columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collation(name: &str) -> Collation {
        Collation {
            schema: "s".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_key_is_one_by_comparisons_as_strict_as_its_index() {
        let column = |covers_own, of: Option<&str>| KeyColumn {
            name: "a".to_owned(),
            covers_own,
            collation: of.map(collation),
        };
        let by = |column: &KeyColumn| {
            let key = UniqueKey::of(vec![column.clone()], false);
            let under = |name| Equality::Under(collation(name));
            [
                Equality::Own,
                Equality::Exact,
                under("loose"),
                under("looser"),
            ]
            .map(|equality| key.is_within(&["a"], &equality))
        };
        // In order: an index of the column's own deterministic collation; of the column's own
        // nondeterministic one; a bytewise index over a loose column; a loose index over a bytewise
        // column.
        assert_eq!(by(&column(true, None)), [true, true, false, false]);
        assert_eq!(by(&column(true, Some("loose"))), [true, true, true, false]);
        assert_eq!(by(&column(false, None)), [false, true, false, false]);
    }

    #[test]
    fn every_column_is_compared() {
        let key = UniqueKey::plain(["a", "b"], true);
        assert!(
            key.is_within(&["b", "a", "c"], &Equality::Own)
                && !key.is_within(&["a"], &Equality::Own)
        );
        // One of several comparisons is enough.
        let loose = Equality::Under(collation("loose"));
        assert!(
            key.tells_apart(|_| [loose.clone(), Equality::Exact])
                && !key.tells_apart(|_| [loose.clone()])
        );
        assert!(!key.tells_apart(|_| None));
    }
}
