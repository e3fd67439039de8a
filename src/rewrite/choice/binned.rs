//! The statement of a choice whose limit on a unit's rows is chosen from a look: rows by group,
//! candidate and bin of their unit.

use sqlparser::ast::{self, BinaryOperator as B};

use super::RowLimit;
use super::statement::ChoiceRows;
use crate::catalog::Type;
use crate::rewrite::emit::sql;
use crate::rewrite::vector::binned::bin_number;
use crate::rewrite::vector::bins::Bins;

impl ChoiceRows<'_> {
    /// The rows of each group, candidate and bin, and how many units of the bin have their first
    /// row there.
    ///
    /// # Guarantee
    /// All rows of a unit are in one bin: its number is a function of how many rows the unit has in
    /// each group, which are its own. It has one first row.
    pub(super) fn bin_rows(&self, limit: RowLimit, bins: &Bins) -> ast::Query {
        let names: Vec<String> = self.keys().into_iter().chain(self.subjects()).collect();
        let lengths = self.lengths(limit, &names);
        let mut projection = Self::columns(names.iter().cloned().chain(["c".into(), "r".into()]));
        projection.push(sql::alias(bin_number(sql::bare("n"), bins), "b"));
        let derived = vec![sql::tables(sql::derived_table(lengths, "q"))];
        let binned = sql::select(projection, derived, None, Vec::new());
        let by: Vec<String> = names.into_iter().chain(["b".to_owned()]).collect();
        let text = |expr| sql::cast(expr, &Type::Text);
        let mut projection: Vec<ast::SelectItem> = by
            .iter()
            .map(|name| sql::alias(text(sql::column("s", name)), name))
            .collect();
        let rows = sql::aggregate("sum", Some(sql::column("s", "c")), None);
        let is_first = sql::binary(sql::column("s", "r"), B::Eq, sql::number_literal("1"));
        let units = sql::aggregate("count", None, Some(is_first));
        projection.push(sql::alias(text(rows), "v0"));
        projection.push(sql::alias(text(units), "v1"));
        let keys = by.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(binned, "s"))],
            None,
            keys,
        )
    }

    /// The rows of each unit by group and candidate, with the unit's squared length as `n`, and the
    /// row's number among the unit's as `r`.
    fn lengths(&self, limit: RowLimit, names: &[String]) -> ast::Query {
        let count = sql::alias(sql::aggregate("count", None, None), "c");
        let mut from = self.per_unit(vec![count]);
        let by_unit =
            |number: ast::Expr| sql::over("sum", vec![number], sql::bare("u"), Vec::new());
        let squared = match limit {
            RowLimit::One | RowLimit::Sum(_) => {
                let rows = by_unit(sql::bare("c"));
                sql::binary(rows.clone(), B::Multiply, rows)
            }
            RowLimit::RootOfSquares(_) => {
                from = self.with_rows_in_group(from, names);
                // Over a group's candidates c m adds up to m^2.
                by_unit(sql::binary(sql::bare("m"), B::Multiply, sql::bare("c")))
            }
        };
        let first = sql::over("row_number", Vec::new(), sql::bare("u"), Vec::new());
        let mut projection = Self::columns(names.iter().cloned().chain(["c".to_owned()]));
        projection.push(sql::alias(squared, "n"));
        projection.push(sql::alias(first, "r"));
        let derived = vec![sql::tables(sql::derived_table(from, "g"))];
        sql::select(projection, derived, None, Vec::new())
    }
}
