//! Grouping sets: the groups of all keys, once for each set, with the set's number. A key that the
//! set lacks is NULL.

use sqlparser::ast;

use crate::analyze::AnalyzedRelease;
use crate::ir::{KeyId, SET_COLUMN, SetId, key_column};
use crate::rewrite::emit::sql;

/// The columns that name a group in every level of a release's statements.
pub fn group_columns(release: &AnalyzedRelease) -> Vec<String> {
    let set = (!release.sets.is_empty()).then(|| SET_COLUMN.to_owned());
    set.into_iter()
        .chain(KeyId::all(release.keys.len()).map(key_column))
        .collect()
}

/// The group columns over `g`, the groups of all keys joined with the sets' numbers; and that FROM.
pub fn over_sets(
    release: &AnalyzedRelease,
    rows: ast::Query,
) -> (Vec<ast::SelectItem>, Vec<ast::TableWithJoins>) {
    let mut from = vec![sql::tables(sql::derived_table(rows, "g"))];
    let key = |at: KeyId| sql::column("g", &key_column(at));
    if release.sets.is_empty() {
        let keys = KeyId::all(release.keys.len())
            .map(|at| sql::alias(key(at), &key_column(at)))
            .collect();
        return (keys, from);
    }
    from.push(sql::tables(sql::numbers(
        release.sets.len(),
        "x",
        SET_COLUMN,
    )));
    let mut columns = vec![sql::alias(sql::column("x", SET_COLUMN), SET_COLUMN)];
    for at in KeyId::all(release.keys.len()) {
        let having = SetId::with_numbers(&release.sets).filter(|(_, set)| set.contains(at));
        let list: Vec<ast::Expr> = having
            .map(|(number, _)| sql::number_literal(&number.to_string()))
            .collect();
        let has = ast::Expr::InList {
            expr: Box::new(sql::column("x", SET_COLUMN)),
            list,
            negated: false,
        };
        columns.push(sql::alias(
            sql::case(vec![(has, key(at))], None),
            &key_column(at),
        ));
    }
    (columns, from)
}
