//! Joins: two private sides must share their unit, and a bound on their pairs is kept.

use super::{Label, Labels, Lineage, ROWS_MAX};
use crate::analyze::bounded_rows::bound;
use crate::analyze::fanout::FanOut;
use crate::analyze::join_matches::{at_most_one, matches, with_common};
use crate::analyze::join_order::of_sides;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, JoinKind, Relation};
use crate::policy::Protection;
use crate::refusal::{Refusal, reason};

impl Labels<'_> {
    pub(super) fn join(
        &mut self,
        kind: JoinKind,
        left: Relation,
        right: Relation,
        on: Option<Expr>,
        above: &[Expr],
    ) -> Result<(Relation, Label), Refusal> {
        let on_conjuncts: Vec<Expr> = on
            .iter()
            .flat_map(|e| e.conjuncts().into_iter().cloned())
            .collect();
        let place = right.place();
        let tables = [&left, &right].map(|side| self.private_table(side));
        check_scalar(&on_conjuncts, place)?;
        let (inner_conditions, right_above): (Vec<Expr>, &[Expr]) = match kind {
            JoinKind::Inner => (above.iter().chain(&on_conjuncts).cloned().collect(), above),
            // WHERE above an outer join need not hold for the rows of the side that may be missing.
            JoinKind::Left => (on_conjuncts.clone(), &[]),
        };
        let given = inner_conditions.len();
        let inner_conditions = with_common(inner_conditions);
        let (left, left_label) = self.label(left, above)?;
        let (right, right_label) = self.label(right, right_above)?;
        // A column of a third relation may have several values for one row of either side.
        let joining = of_sides(&inner_conditions, [&left, &right]);
        let mut sunk = Vec::new();
        let (left, right, label, equality) = match (left_label, right_label) {
            (Label::Public, Label::Public) => (left, right, Label::Public, None),
            (Label::Private(lineage), Label::Public) => {
                let lineage = self.fan_out(lineage, &right, &joining);
                (left, right, Label::Private(lineage), None)
            }
            (Label::Public, Label::Private(lineage)) => match kind {
                JoinKind::Inner => {
                    let lineage = self.fan_out(lineage, &left, &joining);
                    (left, right, Label::Private(lineage), None)
                }
                JoinKind::Left => {
                    return Err(Refusal::unsupported(
                        reason::PUBLIC_OUTER_JOIN,
                        "an outer join that keeps every row of a public table",
                    )
                    .hint("Write the private table on the preserved side, or use an inner join.")
                    .at(place));
                }
            },
            (Label::Private(a), Label::Private(b)) => {
                let equality = same_unit(&a, &b, &joining)
                    .map_err(|UnitsMayDiffer| self.not_by_unit(&tables).at(place))?;
                let of_left = if kind == JoinKind::Inner {
                    &joining
                } else {
                    above
                };
                let met = self.join_one_unit(kind, (left, a, of_left), (right, b), &joining);
                sunk = met.sunk;
                (met.left, met.right, Label::Private(met.lineage), equality)
            }
        };
        let common = inner_conditions[given..]
            .iter()
            .filter(|c| is_between(c, &left, &right));
        let kept = self
            .left_of(on_conjuncts.clone())
            .into_iter()
            .filter(|condition| !sunk.contains(condition));
        let on = Expr::and(kept.chain(common.cloned()).chain(equality).collect());
        self.leave(above);
        Ok((
            Relation::Join {
                kind,
                left: Box::new(left),
                right: Box::new(right),
                on,
            },
            label,
        ))
    }

    /// Joins two sides of one unit. Where a row on either side may find several on the other, both
    /// sides are bounded, and the product of the bounds holds for the pairs.
    ///
    /// # Guarantee
    /// `rows_enforced`, where it is `Some`, holds for the joined rows: each row of one side finds
    /// at most one row of the other by a key ([`at_most_one`]), or both sides are bounded.
    fn join_one_unit(
        &mut self,
        kind: JoinKind,
        left: (Relation, Lineage, &[Expr]),
        right: (Relation, Lineage),
        conditions: &[Expr],
    ) -> JoinedSides {
        let ((left, a, of_left), (right, b)) = (left, right);
        let finds_one = at_most_one(self.schema(), &right, &b.units, conditions);
        let is_found_once = at_most_one(self.schema(), &left, &a.units, conditions);
        let product = |a: u64, b: u64| a.saturating_mul(b).min(ROWS_MAX);
        // A left join keeps the rows of the left side that find none.
        let sum = |a: u64, b: u64| a.saturating_add(b).min(product(a, b));
        let both = |of: &dyn Fn(u64, u64) -> u64, a: &Lineage, b: &Lineage| {
            (
                of(a.rows_per_unit, b.rows_per_unit),
                a.rows_enforced.zip(b.rows_enforced).map(|(a, b)| of(a, b)),
            )
        };
        let mut sunk = Vec::new();
        let (left, right, a, b, (rows_per_unit, rows_enforced)) =
            match (kind, finds_one, is_found_once) {
                (_, true, _) => {
                    let rows = (a.rows_per_unit, a.rows_enforced);
                    (left, right, a, b, rows)
                }
                (JoinKind::Inner, false, true) => {
                    let rows = (b.rows_per_unit, b.rows_enforced);
                    (left, right, a, b, rows)
                }
                (JoinKind::Left, false, true) => {
                    let rows = both(&sum, &a, &b);
                    (left, right, a, b, rows)
                }
                (JoinKind::Inner | JoinKind::Left, false, false) => {
                    let (left, right) = (bound(left, a, of_left), bound(right, b, conditions));
                    // A condition above an outer join is not a condition on the side that may be
                    // missing.
                    let of_above = if kind == JoinKind::Inner {
                        [left.sunk, right.sunk.clone()].concat()
                    } else {
                        left.sunk
                    };
                    self.sunk.extend(of_above);
                    sunk = right.sunk;
                    let rows = both(&product, &left.lineage, &right.lineage);
                    (
                        left.relation,
                        right.relation,
                        left.lineage,
                        right.lineage,
                        rows,
                    )
                }
            };
        JoinedSides {
            left,
            right,
            lineage: Lineage {
                rows_per_unit,
                rows_enforced,
                ..merge(kind, a, b)
            },
            sunk,
        }
    }

    /// Private rows joined with public ones. Where the public side is unique on the join columns
    /// each row finds at most one; else the policy's limit chooses the clip.
    fn fan_out(&mut self, lineage: Lineage, public: &Relation, conditions: &[Expr]) -> Lineage {
        let found = matches(self.schema(), public, &[], conditions);
        let unique = found.several.is_empty();
        self.fan_outs.extend(FanOut::of_join(&found));
        let rows_per_unit = if unique {
            lineage.rows_per_unit
        } else {
            lineage
                .rows_per_unit
                .max(u64::from(self.policy.limits.rows_per_unit))
        };
        let rows_enforced = lineage.rows_enforced.filter(|_| unique);
        Lineage {
            rows_per_unit,
            rows_enforced,
            is_multiplied: lineage.is_multiplied || !unique,
            ..lineage
        }
    }

    /// The first private table of a side, as the policy names it.
    fn private_table(&self, side: &Relation) -> Option<String> {
        match side {
            Relation::Scan(scan) => {
                let table = &self.policy.tables[scan.table.0];
                matches!(table.protection, Protection::Private(_))
                    .then(|| format!("{}.{}", table.schema, table.name))
            }
            other => other
                .inputs()
                .into_iter()
                .find_map(|input| self.private_table(input)),
        }
    }

    fn not_by_unit(&self, tables: &[Option<String>; 2]) -> Refusal {
        let unit = &self.policy.privacy.unit;
        let joined = match tables {
            [Some(left), Some(right)] => format!("{left} with {right}"),
            _ => "private tables".to_owned(),
        };
        Refusal::new(
            reason::JOIN_NOT_BY_UNIT,
            format!("a join of {joined} must equate the {unit} they belong to"),
        )
        .detail("One joined row would have data of two units, but bounds are for one unit.")
        .hint(format!(
            "Join on the column that identifies the {unit}, or along the foreign key \
                that leads to it."
        ))
    }
}

/// The error where joined rows may belong to two units.
pub(super) struct UnitsMayDiffer;

/// Proves that joined rows share their unit: by equality of the unit itself, or of columns that
/// identify a row of one unit ([`Lineage::points`]). In the second case the unit's equality is
/// returned and must be added.
pub(super) fn same_unit(
    a: &Lineage,
    b: &Lineage,
    conditions: &[Expr],
) -> Result<Option<Expr>, UnitsMayDiffer> {
    let same_type = a.data_type == b.data_type;
    let pairs = || conditions.iter().filter_map(equated_columns);
    let is_unit = |(x, y): (ColumnId, ColumnId)| {
        (a.units.contains(&x) && b.units.contains(&y))
            || (a.units.contains(&y) && b.units.contains(&x))
    };
    if same_type && pairs().any(is_unit) {
        return Ok(None);
    }
    if same_type && pairs().any(|(x, y)| share_point(a, b, x, y) || share_point(a, b, y, x)) {
        let unit = |lineage: &Lineage| Expr::column(lineage.units[0], lineage.data_type.clone());
        let units = vec![unit(a), unit(b)];
        return Ok(Some(Expr::call(Function::Equal, units, Type::Bool)));
    }
    Err(UnitsMayDiffer)
}

/// In FROM, an ON with a subquery was moved to WHERE or refused. This one belongs to a scalar
/// subquery.
fn check_scalar(on_conjuncts: &[Expr], place: Option<u32>) -> Result<(), Refusal> {
    if on_conjuncts.iter().all(|c| c.relations().is_empty()) {
        return Ok(());
    }
    Err(Refusal::new(
        reason::CORRELATED_SUBQUERY,
        "a scalar subquery cannot contain a subquery that refers to a query outside both",
    )
    .hint("Move the inner subquery out, as in CASE WHEN EXISTS (…) THEN (SELECT …) END.")
    .at(place))
}

/// Two sides of one unit, as they are joined.
struct JoinedSides {
    left: Relation,
    right: Relation,
    lineage: Lineage,
    /// Conditions of ON that were pushed below the right side's bound.
    sunk: Vec<Expr>,
}

/// Whether a condition reads columns of both sides, and nothing else.
fn is_between(condition: &Expr, left: &Relation, right: &Relation) -> bool {
    let (left, right, columns) = (
        left.made_at_any_depth(),
        right.made_at_any_depth(),
        condition.columns(),
    );
    let are_known = columns
        .iter()
        .all(|id| left.contains(id) || right.contains(id));
    are_known
        && columns.iter().any(|id| left.contains(id))
        && columns.iter().any(|id| right.contains(id))
        && condition.relations().is_empty()
}

/// Whether `x` of one side and `y` of the other hold the value of the same column, which identifies
/// a row. Equal values then name one row, and both rows belong to its unit.
fn share_point(a: &Lineage, b: &Lineage, x: ColumnId, y: ColumnId) -> bool {
    a.points
        .iter()
        .any(|(id, table, position)| *id == x && b.points.contains(&(y, *table, *position)))
}

pub(super) fn merge(kind: JoinKind, a: Lineage, b: Lineage) -> Lineage {
    let rows_per_unit = a
        .rows_per_unit
        .saturating_mul(b.rows_per_unit)
        .min(ROWS_MAX);
    let is_multiplied = a.is_multiplied || b.is_multiplied;
    match kind {
        JoinKind::Inner => {
            let (units, points) = ([a.units, b.units].concat(), [a.points, b.points].concat());
            Lineage {
                units,
                data_type: a.data_type,
                rows_per_unit,
                rows_enforced: None,
                is_multiplied,
                points,
            }
        }
        // Columns of the side that may be missing can be NULL: they are no longer the unit.
        JoinKind::Left => Lineage {
            rows_per_unit,
            rows_enforced: None,
            is_multiplied,
            ..a
        },
    }
}

/// The two bare columns a condition equates.
fn equated_columns(condition: &Expr) -> Option<(ColumnId, ColumnId)> {
    let [a, b] = condition.sides_of_equality()?;
    if a.data_type != b.data_type {
        return None;
    }
    Some((a.as_column()?, b.as_column()?))
}
