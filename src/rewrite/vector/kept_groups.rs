//! Where keys are released by threshold: the groups of a unit that are kept, and the share of the
//! unit's presence that each counts.

use sqlparser::ast::{self, BinaryOperator as B};

use super::clipped_aggregate::ClippedAggregate;
use super::coordinate::{Coordinate, PRESENCE};
use super::grouping_sets::group_columns;
use crate::catalog::Type;
use crate::ir::SET_COLUMN;
use crate::mechanism::Norm;
use crate::rewrite::emit::sql;

impl ClippedAggregate<'_> {
    /// The hash of the keys, where level 1 computes it for level 2.
    ///
    /// # Guarantee
    /// It is a function of the keys, which level 1 groups by as well: no two groups become one and
    /// none becomes two, also where hashes collide or keys are NULL. Level 2 takes a unit's groups
    /// by hash and then by key, as it does where it computes the hash itself.
    pub(super) fn hash_below(&self, keys: &[ast::Expr]) -> Option<ast::Expr> {
        if self.groups_per_unit.is_none() || !self.release.sets.is_empty() {
            return None;
        }
        let types = self.release.keys.iter().map(|(expr, _)| &expr.data_type);
        hash_in_grouping(keys.iter().zip(types))
    }

    /// Level 2, first half: at most `groups_per_unit` groups of a unit, the first by a fixed hash
    /// and then by key. Which ones stay is a function of the set of the unit's groups. `has_hash`:
    /// the hash is a column of level 1.
    ///
    /// Where bins follow, `r` is the number of the group among the unit's.
    pub(super) fn cap_groups(&self, per_unit: ast::Query, has_hash: bool) -> ast::Query {
        let Some(limit) = self.groups_per_unit else {
            return per_unit;
        };
        let hash = if has_hash {
            sql::bare("h")
        } else {
            hash_of(&group_columns(self.release))
        };
        let mut order = vec![hash];
        if !self.release.sets.is_empty() {
            order.push(sql::bare(SET_COLUMN));
        }
        order.extend(
            self.release
                .keys
                .iter()
                .enumerate()
                .map(|(i, (expr, _))| collate(sql::bare(&format!("k{i}")), &expr.data_type)),
        );
        let mut projection = self.carry(true, sql::bare);
        projection.push(sql::alias(
            sql::over("row_number", Vec::new(), sql::bare("u"), order),
            "r",
        ));
        let presence = self
            .coordinates
            .iter()
            .position(|c| *c == Coordinate::Presence)
            .map(|at| format!("v{at}"));
        if presence.is_some() {
            projection.push(sql::alias(
                sql::over("count", vec![sql::bare("u")], sql::bare("u"), Vec::new()),
                "t",
            ));
        }
        let ranked = sql::select(
            projection,
            vec![sql::tables(sql::derived_table(per_unit, "g"))],
            None,
            Vec::new(),
        );
        let kept = sql::binary(
            sql::bare("r"),
            B::LtEq,
            sql::number_literal(&limit.to_string()),
        );
        let mut carried = self.carry(true, |name| {
            if presence.as_deref() == Some(name) {
                self.share_presence(name, limit)
            } else {
                sql::bare(name)
            }
        });
        if !self.blocks.is_empty() {
            carried.push(ast::SelectItem::UnnamedExpr(sql::bare("r")));
        }
        sql::select(
            carried,
            vec![sql::tables(sql::derived_table(ranked, "h"))],
            Some(kept),
            Vec::new(),
        )
    }

    /// A unit's presence in one of its groups, shared among those that are kept. The root of a
    /// float8 has the right whole part for integers below 2^52.
    ///
    /// # Guarantee
    /// Under Gaussian noise each of t groups has the root of [`PRESENCE`]^2 / t, rounded down: it
    /// is positive for t up to [`PRESENCE`]^2, and the squares of all t add up to at most
    /// [`PRESENCE`]^2.
    fn share_presence(&self, presence: &str, limit: u32) -> ast::Expr {
        let groups = sql::call(
            "least",
            vec![sql::bare("t"), sql::number_literal(&limit.to_string())],
        );
        let each = match self.norm {
            Norm::L2 => {
                let squared = sql::binary(
                    sql::number_literal(&PRESENCE.pow(2).to_string()),
                    B::Divide,
                    groups,
                );
                sql::cast(
                    sql::call(
                        "floor",
                        vec![sql::call("sqrt", vec![sql::cast(squared, &Type::Float8)])],
                    ),
                    &Type::Int8,
                )
            }
            Norm::L1 => sql::binary(
                sql::number_literal(&PRESENCE.to_string()),
                B::Divide,
                groups,
            ),
        };
        sql::binary(sql::bare(presence), B::Multiply, each)
    }
}

/// The hash of these columns, for the GROUP BY by them: rows that it sorts by unit, hash and value
/// are then in the order in which a unit's first ones are taken, and are sorted once. `None` where
/// equal values may have several spellings, or a value is computed.
pub(in crate::rewrite) fn hash_in_grouping<'e>(
    columns: impl Iterator<Item = (&'e ast::Expr, &'e Type)>,
) -> Option<ast::Expr> {
    let texts = columns.map(|(column, data_type)| {
        let is_column = matches!(column, ast::Expr::CompoundIdentifier(_));
        let has_one_spelling =
            matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8 | Type::Bool);
        (is_column && has_one_spelling).then(|| sql::cast(column.clone(), &Type::Text))
    });
    let texts = texts.collect::<Option<Vec<_>>>()?;
    (!texts.is_empty()).then(|| hash(texts))
}

/// A hash of the columns' values. Equal values have one spelling here, and so one hash.
pub(in crate::rewrite) fn hash_of(columns: &[String]) -> ast::Expr {
    hash(
        columns
            .iter()
            .map(|name| sql::cast(sql::bare(name), &Type::Text))
            .collect(),
    )
}

/// A hash of the texts.
pub(in crate::rewrite) fn hash(texts: Vec<ast::Expr>) -> ast::Expr {
    let next = |seed, text| {
        sql::call(
            "hashtextextended",
            vec![
                sql::call("coalesce", vec![text, sql::text_literal("")]),
                seed,
            ],
        )
    };
    texts.into_iter().fold(sql::number_literal("0"), next)
}

/// An order that no locale can change.
pub(in crate::rewrite) fn collate(expr: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Text | Type::Varchar(_) | Type::Char(_) => ast::Expr::Collate {
            expr: Box::new(expr),
            collation: sql::name(&["C"]),
        },
        _ => expr,
    }
}
