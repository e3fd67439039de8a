//! Subqueries in conditions: each reads public rows, or rows of the unit of the row around it.

use super::join::{UnitsMayDiffer, merge, same_unit};
use super::{Label, Labels};
use crate::analyze::bounded_rows::{BoundedRows, bound};
use crate::analyze::fanout::FanOut;
use crate::analyze::join_matches::{at_most_one, matches, with_common};
use crate::ir::{Expr, JoinKind, Node, Relation};
use crate::refusal::{Refusal, reason};

impl Labels<'_> {
    /// The expression with its subqueries labelled. Each reads public rows, or rows of the unit
    /// that the row around it belongs to.
    pub(super) fn label_subqueries(
        &mut self,
        expr: Expr,
        around: (&Label, Option<&Relation>),
    ) -> Result<Expr, Refusal> {
        let Expr { node, data_type } = expr;
        let mut boxed = |e: Box<Expr>| self.label_subqueries(*e, around).map(Box::new);
        let node = match node {
            Node::Column(_) | Node::Literal(_) | Node::Constant(_) => node,
            Node::Call {
                function,
                arguments,
            } => Node::Call {
                function,
                arguments: arguments
                    .into_iter()
                    .map(|a| self.label_subqueries(a, around))
                    .collect::<Result<_, _>>()?,
            },
            Node::Cast(inner) => Node::Cast(boxed(inner)?),
            Node::Case {
                branches,
                otherwise,
            } => {
                let otherwise = otherwise.map(&mut boxed).transpose()?;
                let branches = branches.into_iter().map(|(c, r)| {
                    Ok((
                        self.label_subqueries(c, around)?,
                        self.label_subqueries(r, around)?,
                    ))
                });
                Node::Case {
                    branches: branches.collect::<Result<_, Refusal>>()?,
                    otherwise,
                }
            }
            Node::Exists {
                relation,
                condition,
            } => self.exists(*relation, condition.as_deref(), around)?,
        };
        Ok(Expr { node, data_type })
    }

    /// EXISTS. Where each of several rows around may find several rows of the same unit, both sides
    /// are bounded.
    fn exists(
        &mut self,
        relation: Relation,
        condition: Option<&Expr>,
        around: (&Label, Option<&Relation>),
    ) -> Result<Node, Refusal> {
        let conditions = with_common(
            condition
                .into_iter()
                .flat_map(|c| c.conjuncts().into_iter().cloned())
                .collect(),
        );
        let place = relation.place();
        let outside = std::mem::take(&mut self.is_crossed);
        let (relation, inner) = self.label(relation, &[])?;
        // Also within a public relation: private rows may meet its rows, each of which is looked
        // up here.
        if let Label::Public = &inner {
            self.fan_outs.extend(FanOut::of_subquery(&matches(
                self.schema(),
                &relation,
                &[],
                &conditions,
            )));
        }
        let (joint, equality) = self
            .tie(around.0, inner.clone(), &conditions)
            .map_err(|refusal| refusal.within(|| place))?;
        let conditions: Vec<Expr> = conditions
            .into_iter()
            .chain(equality)
            .map(|c| self.label_subqueries(c, (&joint, None)))
            .collect::<Result<_, _>>()?;
        let (relation, conditions) = match (around, inner) {
            ((Label::Private(outer), rows), Label::Private(lineage)) => {
                let finds_one = at_most_one(self.schema(), &relation, &lineage.units, &conditions);
                let is_found_once = || {
                    rows.is_some_and(|rows| {
                        at_most_one(self.schema(), rows, &outer.units, &conditions)
                    })
                };
                self.is_crossed |= !finds_one && !is_found_once();
                if self.is_crossed {
                    let BoundedRows {
                        relation,
                        lineage: _,
                        sunk,
                    } = bound(relation, lineage, &conditions);
                    (
                        relation,
                        conditions
                            .into_iter()
                            .filter(|condition| !sunk.contains(condition))
                            .collect(),
                    )
                } else {
                    (relation, conditions)
                }
            }
            ((Label::Private(_) | Label::Public, _), _) => (relation, conditions),
        };
        self.is_crossed |= outside;
        Ok(Node::Exists {
            relation: Box::new(relation),
            condition: Expr::and(conditions).map(Box::new),
        })
    }

    /// The label of the row around together with a row of the subquery, and the equality of their
    /// units where the conditions equate only a key.
    fn tie(
        &self,
        around: &Label,
        inner: Label,
        conditions: &[Expr],
    ) -> Result<(Label, Option<Expr>), Refusal> {
        match (around, inner) {
            (around, Label::Public) => Ok((around.clone(), None)),
            (Label::Public, Label::Private(_)) => Err(Refusal::new(
                reason::PUBLIC_ROWS_BY_PRIVATE,
                "a condition on a public table cannot read private rows",
            )
            .hint("Join the tables and aggregate the private one.")),
            (Label::Private(a), Label::Private(b)) => {
                let equality =
                    same_unit(a, &b, conditions).map_err(|UnitsMayDiffer| self.refuse_untied())?;
                Ok((
                    Label::Private(merge(JoinKind::Inner, a.clone(), b)),
                    equality,
                ))
            }
        }
    }

    fn refuse_untied(&self) -> Refusal {
        let unit = &self.policy.privacy.unit;
        Refusal::new(
            reason::SUBQUERY_NOT_BY_UNIT,
            format!(
                "a subquery over private rows must equate its {unit} with that of the row around it"
            ),
        )
        .detail(format!(
            "Whether a row is kept would depend on the rows of another {unit}."
        ))
        .hint(format!(
            "Add a condition to the subquery that equates the {unit} of both, as in \
                WHERE a.id = b.id."
        ))
    }
}
