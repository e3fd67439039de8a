//! Widening: a question about one value of a column, `WHERE region = 'north'`, asked as `GROUP BY
//! region`, where that costs the same. If each unit is in one group, every group has the noise of
//! the whole (parallel composition). So the answer for every region is bought. The one that was
//! asked is read off it, and so are the others when they are asked later.

use super::outermost::{outermost, without};
use super::{Plan, ReleasePlan, Widened};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Key, Node, Release, ResolvedQuery};
use crate::policy::Policy;
use crate::refusal::TextPosition;

/// The most groups of a widened release.
const GROUPS_MAX: u64 = 1_000;

/// The most conditions of one statement that are tried.
const CONDITIONS_MAX: usize = 4;

/// A condition that names values of a listed column.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedValues {
    condition: Expr,
    column: Expr,
    name: String,
    table: String,
}

/// The conditions of a query of one release that may be left out for a key: `column = value` and
/// `column IN (…)` in its outermost WHERE, over columns whose list in the policy is complete.
pub fn candidates(query: &ResolvedQuery, policy: &Policy) -> Vec<NamedValues> {
    let [release] = query.releases() else {
        return Vec::new();
    };
    if !release.sets.is_empty() || !query.middles().is_empty() {
        return Vec::new();
    }
    let mut found: Vec<NamedValues> = Vec::new();
    for condition in outermost(&release.input) {
        if let Some(id) = named_column(condition)
            && let Some(table) = listed_in(query, policy, id)
            && found.iter().all(|known| known.condition != *condition)
        {
            let info = query.column(id);
            found.push(NamedValues {
                condition: condition.clone(),
                column: Expr::column(id, info.data_type.clone()),
                name: info.name.clone(),
                table,
            });
        }
    }
    found.truncate(CONDITIONS_MAX);
    found
}

/// The query grouped by the columns of these conditions, without the conditions. All other
/// conditions stay, and so do its keys.
pub fn widen(query: &ResolvedQuery, which: &[NamedValues]) -> ResolvedQuery {
    let release = |release: &Release| {
        let mut keys = release.keys.clone();
        for NamedValues { column, name, .. } in which {
            if keys.iter().all(|key| key.expr != *column) {
                keys.push(Key {
                    expr: column.clone(),
                    text: name.clone(),
                    place: TextPosition(None),
                });
            }
        }
        Release {
            input: without(&release.input, &|condition| {
                which.iter().any(|named| named.condition == *condition)
            }),
            keys,
            ..release.clone()
        }
    };
    ResolvedQuery {
        releases: query.releases.iter().map(release).collect(),
        ..query.clone()
    }
}

/// The widened plan, where it costs what the asked one costs and has its noise, to the last bit.
///
/// # Guarantee
///
/// The loss, the mechanism, the clip, each weight and the noise of each coordinate are equal, so
/// every group of the widened release is as accurate as the asked one. The decision depends on the
/// two plans alone: on the statement, the policy and the session, never on a row or on what was
/// paid. Privacy does not rest on it: the widened plan is charged by its own price.
///
/// A release whose clip is chosen from a look is never widened: the look has more groups to see,
/// and the clip would suit all of them.
pub fn at_the_same_price(asked: &Plan, wide: Plan, which: &[NamedValues]) -> Option<Widened> {
    let ([before], [after]) = (asked.releases(), wide.releases()) else {
        return None;
    };
    let (price, family) = (before.price()?, before.family()?);
    let is_plain = |release: &ReleasePlan| {
        release.choices().is_empty() && release.no_row().is_none() && release.look().is_none()
    };
    let is_same = asked.loss() == wide.loss()
        && after.price() == Some(price)
        && after.coordinates() == before.coordinates()
        && after.measures() == before.measures()
        && after
            .family()
            .is_some_and(|wider| wider.digest == family.digest);
    let are_known = asked.first_answer().is_none() && wide.first_answer().is_none();
    let fits = after.listed_groups() <= GROUPS_MAX;
    let is_good = is_same && are_known && fits && is_plain(before) && is_plain(after);
    is_good.then(|| Widened {
        plan: wide,
        columns: names(which),
    })
}

/// The columns of these conditions, each once; with their tables where two have one name.
fn names(which: &[NamedValues]) -> Vec<String> {
    let mut columns: Vec<&NamedValues> = Vec::new();
    for named in which {
        if columns.iter().all(|known| known.column != named.column) {
            columns.push(named);
        }
    }
    let is_shared = |name: &str| columns.iter().filter(|other| other.name == name).count() > 1;
    let written = columns.iter().map(|NamedValues { name, table, .. }| {
        if is_shared(name) {
            format!("{table}.{name}")
        } else {
            name.clone()
        }
    });
    written.collect()
}

/// The column of `column = value`, `value = column` or `column IN (…)`, all of constants.
fn named_column(condition: &Expr) -> Option<ColumnId> {
    let Node::Call {
        function: function @ (Function::Equal | Function::In),
        arguments,
    } = &condition.node
    else {
        return None;
    };
    let is_value = |expr: &Expr| expr.as_literal().is_some();
    match (function, arguments.as_slice()) {
        (_, [subject, values @ ..]) if !values.is_empty() && values.iter().all(is_value) => {
            subject_of(subject)
        }
        (Function::Equal, [value, subject]) if is_value(value) => subject_of(subject),
        _ => None,
    }
}

/// A column, or one that is only read through a wider type.
fn subject_of(expr: &Expr) -> Option<ColumnId> {
    match &expr.node {
        Node::Column(id) => Some(*id),
        Node::Cast(inner) => match (&inner.data_type, &expr.data_type) {
            (Type::Int2 | Type::Int4, Type::Int4 | Type::Int8) | (Type::Varchar(_), Type::Text) => {
                inner.as_column()
            }
            _ => None,
        },
        Node::Literal(_) | Node::Constant(_) => None,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => None,
    }
}

/// The table of the column, where the policy lists its values and says that there are no others.
fn listed_in(query: &ResolvedQuery, policy: &Policy, id: ColumnId) -> Option<String> {
    let (table, at) = query.column(id).origin?;
    let table = &policy.tables[table.0];
    let column = &table.columns[at.0];
    (column.domain.is_some() && column.is_complete).then(|| table.name.clone())
}

#[cfg(test)]
mod tests {
    use super::{NamedValues, names};
    use crate::catalog::Type;
    use crate::ir::{ColumnId, Expr};

    #[test]
    fn columns_of_one_name_have_their_tables() {
        let named = |id, name: &str, table: &str| NamedValues {
            condition: Expr::literal(None, Type::Bool),
            column: Expr::column(ColumnId(id), Type::Text),
            name: name.to_owned(),
            table: table.to_owned(),
        };
        let which = [
            named(0, "region", "customers"),
            named(1, "region", "shops"),
            named(0, "region", "customers"),
            named(2, "segment", "customers"),
        ];
        assert_eq!(
            names(&which),
            ["customers.region", "shops.region", "segment"]
        );
        assert_eq!(names(&which[..1]), ["region"]);
    }
}
