//! Collations as PostgreSQL derives them: they decide the order of texts, and which characters
//! patterns take for letters. Where two differ and neither is the database's own, neither prevails,
//! and PostgreSQL fails on the first row that needs one.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::KeyRule;
use crate::aggregates::{BoundedAggregate, ComparisonKind, TextRead};
use crate::catalog::{Collation, Type};
use crate::ir::functions::Function;
use crate::ir::{
    Aggregate, AggregateId, ColumnId, ColumnInfo, Expr, KeyId, Node, Relation, Window,
    WindowFunction, aggregate_column, key_column,
};
use crate::policy::{Column, Policy};
use crate::refusal::{Refusal, reason};
use crate::resolve::unnest;
use crate::visit;

/// A text's collation.
#[derive(Debug, Clone, Copy)]
enum Derived<'a> {
    Database,
    /// Unknown: the value comes from another query.
    Unknown,
    /// Another collation than the database's: that of this column.
    Of(&'a Column),
    /// Texts with different collations of columns meet.
    Several,
}

impl<'a> Derived<'a> {
    /// The collation of two texts together: the database's own gives way to any other.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Several, _) | (_, Self::Several) => Self::Several,
            (Self::Of(one), Self::Of(other)) if one.collation != other.collation => Self::Several,
            (Self::Of(column), _) | (_, Self::Of(column)) => Self::Of(column),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Database, Self::Database) => Self::Database,
        }
    }

    /// The collation for a comparison of which only equality matters.
    fn equal(self) -> Result<Self, Refusal> {
        match self {
            Self::Several => Err(Refusal::unsupported(
                reason::MIXED_COLLATIONS,
                "an expression over texts of different collations",
            )
            .hint("Use columns of one collation.")),
            Self::Database | Self::Unknown | Self::Of(_) => Ok(self),
        }
    }

    /// The collation for an order, a change of case or a class of letters.
    fn require_order(self) -> Result<Self, Refusal> {
        match self.equal()? {
            Self::Unknown => Err(Refusal::new(
                reason::MIXED_COLLATIONS,
                "cannot order or match released texts when columns have different collations",
            )
            .hint("Compare them with = or IN.")),
            known => Ok(known),
        }
    }

    /// The collation for a search within a text.
    fn require_search(self) -> Result<Self, Refusal> {
        match self.equal()? {
            Self::Of(column) if !column.deterministic_collation => Err(Refusal::unsupported(
                reason::NONDETERMINISTIC_COLLATION,
                "a search in a column with a nondeterministic collation",
            )
            .hint("Compare it with = or IN.")),
            known => Ok(known),
        }
    }
}

/// Derives the collations of one release.
#[derive(Debug)]
pub(super) struct Collations<'a> {
    policy: &'a Policy,
    columns: &'a [ColumnInfo],
    made: HashMap<ColumnId, Derived<'a>>,
    /// Whether some text that is read has another collation than the database's.
    pub(super) others: bool,
}

impl<'a> Collations<'a> {
    pub(super) fn new(policy: &'a Policy, columns: &'a [ColumnInfo]) -> Self {
        Self {
            policy,
            columns,
            made: HashMap::new(),
            others: false,
        }
    }

    /// # Errors
    /// 0A000 where PostgreSQL would find no collation, or one that it cannot search by.
    pub(super) fn relation(&mut self, relation: &Relation) -> Result<(), Refusal> {
        relation
            .inputs()
            .into_iter()
            .try_for_each(|input| self.relation(input))?;
        match relation {
            Relation::Scan(_) | Relation::Bounded { .. } => {}
            Relation::Constants(rows) => self
                .made
                .extend(rows.columns.iter().map(|id| (*id, Derived::Unknown))),
            Relation::Filter {
                input: _,
                predicate,
            } => drop(self.value(predicate)?),
            Relation::Join {
                kind: _,
                left: _,
                right: _,
                on,
            } => on.iter().try_for_each(|on| self.value(on).map(drop))?,
            Relation::Project { input: _, columns } => {
                for (id, expr) in columns {
                    let derived = self.value(expr)?;
                    self.made.insert(*id, derived);
                }
            }
            Relation::Group {
                input: _,
                keys,
                aggregates,
            } => {
                keys.iter()
                    .try_for_each(|id| self.column(*id).equal().map(drop))?;
                for (id, aggregate) in aggregates {
                    let derived = self.aggregate(aggregate)?;
                    self.made.insert(*id, derived);
                }
            }
            Relation::Window { input: _, columns } => {
                for (id, window) in columns {
                    let derived = self.window(window)?;
                    self.made.insert(*id, derived);
                }
            }
            Relation::Union { columns, arms } => {
                for (at, id) in columns.iter().enumerate() {
                    let arms = arms
                        .iter()
                        .map(|(_, ids)| self.column(ids[at]))
                        .collect::<Vec<_>>();
                    self.made.insert(
                        *id,
                        arms.into_iter()
                            .fold(Derived::Database, Derived::with)
                            .equal()?,
                    );
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, id: ColumnId) -> Derived<'a> {
        if let Some(made) = self.made.get(&id) {
            return *made;
        }
        let origin = self.columns[id.0 as usize]
            .origin
            .map(|(table, at)| &self.policy.tables[table.0].columns[at.0]);
        match origin.filter(|column| column.collation.is_some()) {
            Some(column) => {
                self.others = true;
                Derived::Of(column)
            }
            None => Derived::Database,
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Derived<'a>, Refusal> {
        aggregate
            .filter
            .iter()
            .try_for_each(|filter| self.value(filter).map(drop))?;
        let mut together = Derived::Database;
        for argument in aggregate.operation.arguments() {
            let derived = self.value(argument)?;
            together = match aggregate.operation.facts().compares {
                ComparisonKind::Nothing => together,
                ComparisonKind::Equality => together.with(derived.equal()?),
                ComparisonKind::Order => together.with(derived.require_order()?),
            };
        }
        Ok(if has_collation(&aggregate.data_type) {
            together
        } else {
            Derived::Database
        })
    }

    fn window(&mut self, window: &Window) -> Result<Derived<'a>, Refusal> {
        window
            .partition
            .iter()
            .try_for_each(|expr| self.value(expr)?.equal().map(drop))?;
        window
            .order
            .iter()
            .try_for_each(|order| self.value(&order.expr)?.require_order().map(drop))?;
        match &window.ranked {
            WindowFunction::LagLead { value, offset: _ }
            | WindowFunction::NthValue { value, place: _ } => self.value(value),
            WindowFunction::Aggregate(aggregate) => self.aggregate(aggregate),
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile(_) => Ok(Derived::Database),
        }
    }

    /// The collation of the value. Every part of it is checked first.
    fn value(&mut self, expr: &Expr) -> Result<Derived<'a>, Refusal> {
        let derived = match &expr.node {
            Node::Column(id) => self.column(*id),
            Node::Literal(_) => Derived::Database,
            Node::Constant(_) => Derived::Unknown,
            // The emitted statement matches a text with a pattern before it reads the text.
            Node::Cast(inner) if has_collation(&expr.data_type) => self.value(inner)?,
            Node::Cast(inner) => self.value(inner)?.equal()?,
            Node::Case {
                branches,
                otherwise,
            } => {
                let mut together = Derived::Database;
                for (condition, result) in branches {
                    self.value(condition)?;
                    together = together.with(self.value(result)?);
                }
                otherwise.iter().try_fold(together, |together, otherwise| {
                    Ok::<_, Refusal>(together.with(self.value(otherwise)?))
                })?
            }
            Node::Exists {
                relation,
                condition,
            } => {
                self.relation(relation)?;
                condition
                    .iter()
                    .try_for_each(|condition| self.value(condition).map(drop))?;
                Derived::Database
            }
            Node::Call {
                function,
                arguments,
            } => {
                let mut together = Derived::Database;
                for argument in arguments {
                    together = together.with(self.value(argument)?);
                }
                collation_of_call(*function, together)?
            }
        };
        Ok(if has_collation(&expr.data_type) {
            derived
        } else {
            Derived::Database
        })
    }

    /// Columns of the release that show a collation above the cut, by their names there.
    ///
    /// # Errors
    /// 0A000 where the statement may order by one that is not built into PostgreSQL, or that is not
    /// known.
    pub(super) fn shown_collations(
        &mut self,
        keys: &[(Expr, KeyRule)],
        aggregates: &[BoundedAggregate],
        is_only_shown: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Collation)>, Refusal> {
        let mut shown = Vec::new();
        let mut show = |derived: Derived<'_>, name: String| {
            let collation = match derived.equal()? {
                Derived::Database => return Ok(()),
                Derived::Of(column) => column
                    .collation
                    .clone()
                    .filter(|collation| collation.schema == "pg_catalog"),
                Derived::Unknown | Derived::Several => None,
            };
            if !is_only_shown(&name) {
                let unknown = || {
                    Refusal::new(
                        reason::UNSUPPORTED_COLLATION,
                        "cannot order released texts by a collation that is not built into \
                            PostgreSQL",
                    )
                    .hint("Name a built-in collation, as in ORDER BY x COLLATE \"C\".")
                };
                shown.push((name, collation.ok_or_else(unknown)?));
            }
            Ok::<_, Refusal>(())
        };
        for (at, (key, _)) in keys.iter().enumerate() {
            show(self.value(key)?, key_column(KeyId(at)))?;
        }
        for (at, aggregate) in aggregates.iter().enumerate() {
            aggregate
                .filter
                .iter()
                .try_for_each(|filter| self.value(filter).map(drop))?;
            for argument in aggregate.operation.arguments() {
                let derived = self.value(argument)?;
                match aggregate.operation.reads_text() {
                    TextRead::Presence => {}
                    TextRead::Shown => show(derived, aggregate_column(AggregateId(at)))?,
                    TextRead::Compared => drop(derived.equal()?),
                }
            }
        }
        Ok(shown)
    }
}

fn has_collation(data_type: &Type) -> bool {
    matches!(
        data_type,
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Other { .. }
    )
}

/// The collation that the function needs for its arguments together.
fn collation_of_call(function: Function, together: Derived<'_>) -> Result<Derived<'_>, Refusal> {
    use Function as F;
    match function {
        F::And
        | F::Or
        | F::Not
        | F::IsNull
        | F::IsNotNull
        | F::IsTrue
        | F::IsNotTrue
        | F::IsFalse
        | F::IsNotFalse => Ok(together),
        F::CountNulls
        | F::CountNonNulls
        | F::Coalesce
        | F::Concat
        | F::ConcatSeparated
        | F::Concatenate => Ok(together),
        F::Length
        | F::OctetLength
        | F::BitLength
        | F::Left
        | F::Right
        | F::Substring
        | F::SubstringFor
        | F::Overlay
        | F::OverlayFor => Ok(together),
        F::PadLeft
        | F::PadRight
        | F::Repeat
        | F::Reverse
        | F::Ascii
        | F::Trim
        | F::TrimLeft
        | F::TrimRight
        | F::Translate => Ok(together),
        F::Element | F::Cardinality | F::ArrayLength => Ok(together),
        F::Equal
        | F::NotEqual
        | F::IsDistinctFrom
        | F::IsNotDistinctFrom
        | F::In
        | F::Among
        | F::AnyElement
        | F::NullIf => together.equal(),
        F::Like | F::Position | F::StartsWith | F::Replace | F::SplitPart => {
            together.require_search()
        }
        F::ILike | F::SimilarTo | F::Matches | F::MatchesInsensitive => {
            together.require_search()?.require_order()
        }
        F::SubstringMatching | F::SubstringWhole | F::CountMatching | F::ReplaceMatching => {
            together.require_search()?.require_order()
        }
        _ => together.require_order(),
    }
}

/// Whether the column is mentioned only as an item of the outermost SELECT by which nothing is
/// sorted, or under a COLLATE of the statement.
pub(super) fn is_only_shown(query: &ast::Query, alias: &str, column: &str) -> bool {
    let mut mentions = Mentions {
        alias,
        column,
        count: 0,
    };
    let ControlFlow::Continue(()) = visit::visit(query, &mut mentions);
    let ast::SetExpr::Select(select) = &*query.body else {
        return mentions.count == 0;
    };
    let items: Vec<(usize, &ast::Ident)> = select
        .projection
        .iter()
        .enumerate()
        .filter_map(|(at, item)| match item {
            ast::SelectItem::ExprWithAlias { expr, alias: name }
                if is_mention(expr, alias, column) =>
            {
                Some((at + 1, name))
            }
            _ => None,
        })
        .collect();
    let is_item = |expr: &ast::Expr| match unnest(expr) {
        ast::Expr::Identifier(name) => items.iter().any(|(_, item)| item.value == name.value),
        ast::Expr::Value(value) => items
            .iter()
            .any(|(at, _)| value.value.to_string() == at.to_string()),
        _ => false,
    };
    let sorts = query
        .order_by
        .as_ref()
        .is_some_and(|order_by| match &order_by.kind {
            ast::OrderByKind::Expressions(sorted) => {
                sorted.iter().any(|sorted| is_item(&sorted.expr))
            }
            ast::OrderByKind::All(_) => true,
        });
    mentions.count == 0 || (mentions.count == items.len() && select.distinct.is_none() && !sorts)
}

fn is_mention(expr: &ast::Expr, alias: &str, column: &str) -> bool {
    matches!(
        expr,
        ast::Expr::CompoundIdentifier(parts)
            if matches!(
                parts.as_slice(),
                [of, name] if of.value == alias && name.value == column
            )
    )
}

struct Mentions<'a> {
    alias: &'a str,
    column: &'a str,
    /// Mentions that are not under COLLATE.
    count: usize,
}

impl ast::Visitor for Mentions<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        self.count += usize::from(is_mention(expr, self.alias, self.column));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Self::Break> {
        if let ast::Expr::Collate { expr, collation: _ } = expr {
            self.count -= usize::from(is_mention(expr, self.alias, self.column));
        }
        ControlFlow::Continue(())
    }
}
