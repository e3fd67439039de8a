//! USING and NATURAL.

use super::is_one_type_but_for_lengths;
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, common_type};
use crate::ir::relation::{ColumnId, JoinKind};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::expression::compare;
use crate::resolve::names::scope::{Folded, Named, Scope};
use crate::resolve::private::expression_context::computed_column;
use sqlparser::ast;

/// The conditions and columns of USING or NATURAL.
#[derive(Default)]
pub(super) struct Using {
    pub(super) conditions: Vec<Expr>,
    /// The merged column of each name.
    pub(super) folded: Vec<Named>,
    /// Merged columns that belong to neither side, each with the expression that the preserved side
    /// computes.
    pub(super) computed: Vec<(ColumnId, Expr)>,
    /// Merged columns that are another column in a wider type, with that column.
    pub(super) widened: Vec<(ColumnId, ColumnId)>,
}

impl Resolver<'_> {
    /// The conditions and merged columns of USING or NATURAL. `swapped` if the right side is the
    /// preserved one. A bare name is the preserved side's column; in an inner join it may be either
    /// side's. It has the type in which both are compared (PostgreSQL's buildMergedJoinVar).
    pub(super) fn using(
        &mut self,
        left: &Scope,
        right: &Scope,
        constraint: &ast::JoinConstraint,
        (kind, swapped): (JoinKind, bool),
    ) -> Result<Using, Refusal> {
        let mut using = Using::default();
        for Folded { name, place } in left.merge_columns(constraint, right)? {
            let missing = || {
                Refusal::new(
                    reason::UNKNOWN_COLUMN,
                    format!("column \"{name}\" specified in USING clause does not exist"),
                )
                .at(place)
            };
            let (a, b) = (
                left.bare(&name)?.ok_or_else(missing)?,
                right.bare(&name)?.ok_or_else(missing)?,
            );
            let (own_a, own_b) = (
                self.output.column_expr(left.own(a)),
                self.output.column_expr(right.own(b)),
            );
            using.conditions.push(compare(
                self.names.constants,
                Function::Equal,
                own_a,
                own_b,
                "USING",
            )?);
            let (kept, other) = if swapped { (b, a) } else { (a, b) };
            let [from, of_other] = [kept, other].map(|id| self.output.column_expr(id).data_type);
            let to = common_type(&from, &of_other).unwrap_or_else(|| from.clone());
            let is_relabelled = is_one_type_but_for_lengths(&from, &to);
            let id = if from == to {
                kept
            } else if kind == JoinKind::Inner && of_other == to {
                other
            } else if is_relabelled {
                kept
            } else {
                let value = coerce(self.output.column_expr(kept), &to)?;
                let id = self.output.new_column(computed_column(&name, &to, true));
                using.computed.push((id, value));
                id
            };
            if id != kept && (is_relabelled || matches!(to, Type::Int2 | Type::Int4 | Type::Int8)) {
                using
                    .widened
                    .push((id, if swapped { right } else { left }.own(kept)));
            }
            using.folded.push(Named { name, id });
        }
        Ok(using)
    }
}
