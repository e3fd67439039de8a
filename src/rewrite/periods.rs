//! Questions by periods: one release, grouped by an expression from which the period of a row
//! follows (`date_trunc('day', visited_at)`), over whole periods. The groups of one period depend
//! on the rows of that period alone. So they are bought once, when the period is closed, and shown
//! again from then on.

mod first_periods;

use super::outermost::{outermost, without};
use crate::analyze::{ByPeriod, PeriodLimits};
use crate::calendar::MICROS_PER_DAY;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};
use crate::catalog::Type;
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Node, Relation, Release, ResolvedQuery, TableId};
use crate::policy::{ClipChoice, Periods, Policy, Prepaid, Scalar};

/// A question that asks for whole periods.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedPeriods {
    /// The question for all periods.
    query: ResolvedQuery,
    /// The column with the moment of a row.
    column: Expr,
    /// The place of the key from whose value the period follows.
    key: usize,
    table: TableId,
    periods: Periods,
    /// The moments that are asked for, in microseconds since 2000-01-01: from, and before.
    from: Option<i64>,
    before: Option<i64>,
    /// How clips are chosen for the periods that are bought.
    clip: ClipChoice,
    /// Where its periods are prepaid.
    prepaid: Option<PrepaidTerms>,
}

/// What is known of a question whose periods are prepaid before any is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepaidTerms {
    pub declared: Prepaid,
    pub by_period: ByPeriod,
    /// The limits of one unit in one period.
    pub limits: PeriodLimits,
    /// The epsilon of the whole horizon.
    pub epsilon: f64,
    /// The policy's `data_version`. Rows of another one were not only added to, so that units would
    /// count anew: its horizons have their own price.
    pub data_version: String,
}

impl AskedPeriods {
    /// `None` where the question is not by periods of a table that has some: where no key follows
    /// the periods; where a condition on the moment is something else than a bound, or the first
    /// moment is not the beginning of one of the policy's periods; where rows without a moment
    /// would have a group; or where an aggregate reads the moment.
    ///
    /// The session's time zone has to be UTC, as the periods are.
    ///
    /// # Guarantee
    /// Every row of a group with the key's value v has a moment within the period of v. So the
    /// groups of the question for some periods ([`Self::within`]) are the question's own groups of
    /// these periods.
    pub fn of(query: &ResolvedQuery, policy: &Policy) -> Option<Self> {
        let [release] = query.releases() else {
            return None;
        };
        let is_plain = release.sets.is_empty() && is_of_single_rows(&release.input);
        if !is_plain || !query.middles().is_empty() {
            return None;
        }
        let keys = release.keys.iter().enumerate();
        let mut found = keys.filter_map(|(key, of)| {
            let (id, table, periods) = moment_of(query, policy, &of.expr)?;
            refines(&of.expr, id, periods.length).then_some((key, id, table, periods))
        });
        let (key, id, table, periods) = found.next()?;
        let conditions: Vec<&Expr> = outermost(&release.input);
        let on_moment: Vec<&Expr> = conditions
            .into_iter()
            .filter(|condition| condition.columns().contains(&id))
            .collect();
        let mentions: usize = on_moment.iter().map(|e| mentions(e, id)).sum();
        // Nothing below the outermost conditions reads the moment.
        if mentions_in(&release.input, id) != mentions {
            return None;
        }
        let bounds = on_moment
            .iter()
            .map(|condition| bounds(condition, id))
            .collect::<Option<Vec<_>>>()?;
        let column = query.column(id);
        let is_present = !bounds.is_empty() || (!column.nullable && !release.input.is_extended());
        let from = bounds.iter().filter_map(|bound| bound.from).max();
        let before = bounds.iter().filter_map(|bound| bound.before).min();
        // A question that names earlier moments is an ordinary one.
        let first = periods.length.start(periods.from);
        let is_whole = from.is_none_or(|from| from >= first && periods.length.begins(from))
            && before.is_none_or(|before| before > first);
        let mut aggregates = release
            .aggregates
            .iter()
            .flat_map(|aggregate| aggregate.reads());
        let reads_moment = aggregates.any(|expr| expr.columns().contains(&id));
        if !is_present || !is_whole || reads_moment {
            return None;
        }
        let stripped = Release {
            input: without(&release.input, &|condition| on_moment.contains(&condition)),
            ..release.clone()
        };
        Some(Self {
            column: Expr::column(id, column.data_type.clone()),
            query: ResolvedQuery {
                releases: vec![stripped],
                ..query.clone()
            },
            key,
            table,
            periods,
            from,
            before,
            clip: ClipChoice::Declared,
            prepaid: None,
        })
    }

    /// The question with clips that are chosen in this way for the periods that are bought.
    pub fn with_clip(self, clip: ClipChoice) -> Self {
        Self { clip, ..self }
    }

    /// How clips are chosen for the periods that are bought.
    pub fn clip(&self) -> ClipChoice {
        self.clip
    }

    /// The question with prepaid periods.
    pub fn with_prepaid(self, prepaid: PrepaidTerms) -> Self {
        Self {
            prepaid: Some(prepaid),
            ..self
        }
    }

    /// Where its periods are prepaid.
    pub fn prepaid(&self) -> Option<&PrepaidTerms> {
        self.prepaid.as_ref()
    }

    /// The period of a row, by its first moment, and in how many of them a unit counts; `None`
    /// where the policy has no price for a horizon.
    pub fn by_period(&self) -> Option<ByPeriod> {
        Some(ByPeriod {
            period: first_periods::period_of(&self.column, self.periods.length),
            counted: self.periods.prepaid?.counted_periods(),
            totals_over: self
                .prepaid
                .as_ref()
                .and_then(|of| of.by_period.totals_over),
        })
    }

    /// Whether each period has one value of its key, so that running totals follow from them.
    pub fn has_one_value_a_period(&self) -> bool {
        let [release] = self.query.releases() else {
            return false;
        };
        let key = release.keys.get(self.key);
        key.is_some_and(|key| is_of_period(&key.expr, self.periods.length))
    }

    /// The column's moments from the first period to before the end.
    fn between(&self, (first, end): (Period, Period)) -> [Expr; 2] {
        let compare = |function: Function, period: Period| {
            let micros = self.periods.length.start(period);
            let value = match self.column.data_type {
                // Within the calendar's years.
                Type::Date => Scalar::Date(micros.div_euclid(MICROS_PER_DAY) as i32),
                _ => Scalar::Timestamp(micros),
            };
            let moment = Expr::literal(Some(value), self.column.data_type.clone());
            Expr::call(function, vec![self.column.clone(), moment], Type::Bool)
        };
        [
            compare(Function::GreaterOrEqual, first),
            compare(Function::Less, end),
        ]
    }

    /// The question for these periods of a horizon, of each unit the first few periods since the
    /// beginning of the horizon.
    ///
    /// # Guarantee
    /// A row counts if at most `counted` periods from `since` to its own have a row of its unit in
    /// the table of the periods, whatever else the question asks: [`first_periods`].
    pub fn first_within(&self, since: Period, periods: &PeriodSet) -> Option<ResolvedQuery> {
        let by_period = self.by_period()?;
        let (_, end) = periods.hull()?;
        let mut query = self.within(periods);
        let since = self.between((since, end));
        first_periods::keep(&mut query, &self.column, &by_period, since)?;
        Some(query)
    }

    /// The question for these periods alone. The set has to have one.
    pub fn within(&self, periods: &PeriodSet) -> ResolvedQuery {
        let between = |run: (Period, Period)| self.between(run);
        let mut conditions: Vec<Expr> = periods.hull().map(between).into_iter().flatten().collect();
        if periods.runs().len() > 1 {
            let run = |run: &(Period, Period)| {
                Expr::call(Function::And, between(*run).to_vec(), Type::Bool)
            };
            let runs = periods.runs().iter().map(run).collect();
            conditions.push(Expr::call(Function::Or, runs, Type::Bool));
        }
        let release = |release: &Release| {
            let input = Box::new(release.input.clone());
            let input = match Expr::and(conditions.clone()) {
                Some(predicate) => Relation::Filter { input, predicate },
                None => release.input.clone(),
            };
            Release {
                input,
                ..release.clone()
            }
        };
        ResolvedQuery {
            releases: self.query.releases.iter().map(release).collect(),
            ..self.query.clone()
        }
    }

    /// The table whose periods these are.
    pub fn table(&self) -> TableId {
        self.table
    }

    /// The periods of the table as the policy declares them.
    pub fn periods(&self) -> &Periods {
        &self.periods
    }

    /// The place of the key from whose value the period follows.
    pub fn key(&self) -> usize {
        self.key
    }

    /// The periods that are asked for, from the policy's first one on. The question may end within
    /// the last one ([`Self::cuts`]).
    pub fn asked_periods(&self) -> PeriodSet {
        let length = self.periods.length;
        let first = self.from.map_or(self.periods.from, |from| {
            length.period_of(from).max(self.periods.from)
        });
        let end = length.period_of(self.before.unwrap_or(i64::MAX));
        PeriodSet::between(first, end)
    }

    /// The period within which the question ends, if it ends within one.
    pub fn cuts(&self) -> Option<Period> {
        let before = self.before?;
        let length = self.periods.length;
        (!length.begins(before)).then(|| length.period_of(before))
    }

    /// Whether the question has no beginning, and so asks for moments before the policy's first
    /// period too.
    pub fn asks_for_earlier(&self) -> bool {
        self.from.is_none()
    }
}

/// The column that an expression is a function of, if it is the column of its table's periods.
fn moment_of(
    query: &ResolvedQuery,
    policy: &Policy,
    expr: &Expr,
) -> Option<(ColumnId, TableId, Periods)> {
    let [id] = expr.columns()[..] else {
        return None;
    };
    let (table, at) = query.column(id).origin?;
    let periods = policy.tables[table.0].periods?;
    (periods.column == at).then_some((id, table, periods))
}

/// Whether the expression rounds the moment down, never past the beginning of its period.
fn refines(expr: &Expr, id: ColumnId, length: PeriodLength) -> bool {
    match &expr.node {
        Node::Column(column) => *column == id,
        Node::Cast(inner) => {
            let is_moment = is_moment(&inner.data_type);
            let is_fine = match &expr.data_type {
                Type::Date => length != PeriodLength::Hour,
                Type::Timestamp | Type::Timestamptz => true,
                _ => false,
            };
            is_moment && is_fine && refines(inner, id, length)
        }
        Node::Call {
            function: Function::DateTrunc,
            arguments,
        } => {
            let [field, operand] = arguments.as_slice() else {
                return false;
            };
            let Some(Scalar::Text(field)) = field.as_literal() else {
                return false;
            };
            let is_fine = match field.as_str() {
                "microsecond" | "millisecond" | "second" | "minute" | "hour" => true,
                "day" => length != PeriodLength::Hour,
                "week" => length == PeriodLength::Week,
                "month" => length == PeriodLength::Month,
                _ => false,
            };
            is_fine && is_moment(&operand.data_type) && refines(operand, id, length)
        }
        Node::Literal(_) | Node::Constant(_) => false,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => false,
    }
}

/// Whether an expression that refines periods has one value for all moments of a period.
fn is_of_period(expr: &Expr, length: PeriodLength) -> bool {
    match &expr.node {
        Node::Column(_) => expr.data_type == Type::Date && length == PeriodLength::Day,
        Node::Cast(inner) => {
            (expr.data_type == Type::Date && length == PeriodLength::Day)
                || is_of_period(inner, length)
        }
        Node::Call {
            function: Function::DateTrunc,
            arguments,
        } => {
            let field = arguments.first().and_then(Expr::as_literal);
            let is_own = field == Some(&Scalar::Text(length.name().to_owned()));
            is_own || arguments.get(1).is_some_and(|of| is_of_period(of, length))
        }
        Node::Literal(_) | Node::Constant(_) => false,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => false,
    }
}

fn is_moment(data_type: &Type) -> bool {
    matches!(data_type, Type::Date | Type::Timestamp | Type::Timestamptz)
}

/// The moments that a condition leaves: from, and before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bounds {
    from: Option<i64>,
    before: Option<i64>,
}

/// The bounds of a condition on the moment; `None` for other conditions.
fn bounds(condition: &Expr, id: ColumnId) -> Option<Bounds> {
    let Node::Call {
        function,
        arguments,
    } = &condition.node
    else {
        return None;
    };
    let (function, subject, value) = match (function, arguments.as_slice()) {
        (Function::IsNotNull, [subject]) if subject.as_column() == Some(id) => {
            return Some(Bounds::default());
        }
        (function, [one, other]) if one.columns() == [id] => (*function, one, other),
        (function, [one, other]) => (turn(*function)?, other, one),
        _ => return None,
    };
    let step = step(subject, id)?;
    let value = constant(value)?;
    let after = value.checked_add(step)?;
    // A date, and a moment that is cut to its day, is at or past a day where its moment is.
    let is_of_days = step == MICROS_PER_DAY;
    if is_of_days && value.rem_euclid(MICROS_PER_DAY) != 0 {
        return None;
    }
    let (from, before) = match function {
        Function::GreaterOrEqual => (Some(value), None),
        Function::Greater => (Some(after), None),
        Function::Less => (None, Some(value)),
        Function::LessOrEqual => (None, Some(after)),
        Function::Equal => (Some(value), Some(after)),
        _ => return None,
    };
    Some(Bounds { from, before })
}

/// The comparison with its operands exchanged.
fn turn(function: Function) -> Option<Function> {
    Some(match function {
        Function::GreaterOrEqual => Function::LessOrEqual,
        Function::Greater => Function::Less,
        Function::Less => Function::Greater,
        Function::LessOrEqual => Function::GreaterOrEqual,
        Function::Equal => Function::Equal,
        _ => return None,
    })
}

/// The steps in which an expression of the moment grows: a day for a date, or a moment cut to its
/// day; otherwise a microsecond.
fn step(expr: &Expr, id: ColumnId) -> Option<i64> {
    match &expr.node {
        Node::Column(column) if *column == id => Some(match expr.data_type {
            Type::Date => MICROS_PER_DAY,
            _ => 1,
        }),
        Node::Cast(inner) if is_moment(&expr.data_type) && is_moment(&inner.data_type) => {
            let inner = step(inner, id)?;
            Some(match expr.data_type {
                Type::Date => MICROS_PER_DAY,
                _ => inner,
            })
        }
        _ => None,
    }
}

/// The moment that is the value of a constant expression.
fn constant(expr: &Expr) -> Option<i64> {
    let mut is_constant = true;
    expr.walk(&mut |part| {
        is_constant &= !matches!(
            part.node,
            Node::Column(_) | Node::Constant(_) | Node::Exists { .. }
        );
    });
    if !is_constant {
        return None;
    }
    match evaluate(expr, &[]).ok()?? {
        Scalar::Date(days) => i64::from(days).checked_mul(MICROS_PER_DAY),
        Scalar::Timestamp(micros) => Some(micros),
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Decimal(_) | Scalar::Text(_) => None,
        Scalar::Interval { .. } => None,
    }
}

/// How often the expression reads the column.
fn mentions(expr: &Expr, id: ColumnId) -> usize {
    let mut count = 0;
    expr.walk(&mut |part| count += usize::from(part.as_column() == Some(id)));
    count
}

fn mentions_in(relation: &Relation, id: ColumnId) -> usize {
    let mut count = 0;
    relation.walk_expressions(&mut |part| {
        count += usize::from(part.as_column() == Some(id));
    });
    count
}

/// Whether each of its rows comes from one row of each table, whatever other rows there are.
fn is_of_single_rows(relation: &Relation) -> bool {
    let is_own = match relation {
        Relation::Scan(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. } => true,
        Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. }
        | Relation::Constants(_) => false,
    };
    is_own && relation.inputs().into_iter().all(is_of_single_rows)
}
