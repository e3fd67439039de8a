//! Columns whose values were randomised before they were stored. A report is no value: what reads
//! one in any other way than an estimate does is refused.

use super::Resolver;
use super::names::scope::quote;
use crate::catalog::Type;
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{Aggregate, ColumnId, Expr, Relation, Release};
use crate::policy::{Collected, Scalar};
use crate::refusal::{Refusal, reason};

/// The reports that some conditions are about.
pub(super) struct MatchingReports<'p> {
    pub report: ColumnId,
    pub how: &'p Collected,
    /// Places of the true values that meet the conditions.
    pub places: Vec<usize>,
}

impl<'p> Resolver<'p> {
    pub(super) fn reports_of(&self, id: ColumnId) -> Option<&'p Collected> {
        let (table, position) = self.output.columns[id.0 as usize].origin?;
        let table = &self.names.policy.tables[table.0];
        table.columns[position.0].collected.as_ref()
    }

    /// The first collected column that an expression reads, at any depth.
    pub(super) fn collected_in(&self, expr: &Expr) -> Option<ColumnId> {
        let mut ids = expr.columns().into_iter();
        ids.find(|id| self.reports_of(*id).is_some())
    }

    /// The conditions on reports, and the others.
    pub(super) fn split_collected(&self, condition: &Expr) -> (Vec<Expr>, Option<Expr>) {
        let conjuncts = condition.conjuncts().into_iter().cloned();
        let (own, others): (Vec<Expr>, Vec<Expr>) =
            conjuncts.partition(|each| self.collected_in(each).is_some());
        (own, Expr::and(others))
    }

    /// The true values that conditions are about.
    ///
    /// # Errors
    /// 0A000 for conditions on several columns or on numbers, for those that a missing report
    /// meets, and for those that cannot be evaluated here; 22023 where no value meets them.
    pub(super) fn matching_reports(
        &self,
        conditions: &[Expr],
    ) -> Result<Option<MatchingReports<'p>>, Refusal> {
        let Some(report) = conditions
            .first()
            .and_then(|first| self.collected_in(first))
        else {
            return Ok(None);
        };
        let is_of_it = |each: &Expr| each.columns() == [report] && each.relations().is_empty();
        let Some(how) = self
            .reports_of(report)
            .filter(|_| conditions.iter().all(is_of_it))
        else {
            return Err(self.refuse_reports(report, "a condition that also reads another column"));
        };
        if how.one_bit.is_some() || how.dictionary.is_some() {
            return Err(self.refuse_reports(report, "a condition"));
        }
        let mut nodes = 0;
        conditions
            .iter()
            .for_each(|each| each.walk(&mut |_| nodes += 1));
        if !self.limits.decide(nodes * how.reports.len()) {
            return Err(self.refuse_reports(report, "conditions of this length"));
        }
        let meets = |value: Option<&Scalar>| {
            let assignment = [(report, value.cloned())];
            let mut all = true;
            for condition in conditions {
                let holds = evaluate(condition, &assignment)
                    .map_err(|_| self.refuse_reports(report, "a condition of this form"))?;
                all &= holds == Some(Scalar::Bool(true));
            }
            Ok(all)
        };
        if meets(None)? {
            return Err(self.refuse_reports(report, "a condition that is true for NULL"));
        }
        let mut places = Vec::new();
        for (place, value) in how.reports.iter().enumerate() {
            if meets(Some(value))? {
                places.push(place);
            }
        }
        if places.is_empty() {
            let name = &self.output.columns[report.0 as usize].name;
            return Err(Refusal::new(
                reason::COLLECTED_CONDITION,
                format!("no listed value of the collected column \"{name}\" meets the condition"),
            )
            .hint("pgveil.columns lists its values."));
        }
        Ok(Some(MatchingReports {
            report,
            how,
            places,
        }))
    }

    /// Refuses a use of a report as if it were the value; `what` is the construct that uses it.
    pub(super) fn refuse_reports(&self, id: ColumnId, what: &str) -> Refusal {
        let name = &self.output.columns[id.0 as usize].name;
        let how = self.reports_of(id);
        let quoted = quote(name);
        let hint = if how.is_some_and(|how| how.one_bit.is_some()) {
            format!("Ask for AVG({quoted}), SUM({quoted}) or COUNT({quoted}).")
        } else if how.is_some_and(|how| how.dictionary.is_some()) {
            format!(
                "Ask for SELECT {quoted}, count(*) … GROUP BY {quoted}, with conditions on other \
                    columns in WHERE, and choose among its rows in a query around it."
            )
        } else {
            format!(
                "Ask for COUNT(*) with WHERE or FILTER (WHERE {quoted} = …), or GROUP BY \
                    {quoted}."
            )
        };
        Refusal::new(
            reason::COLLECTED_VALUE,
            format!("the collected column \"{name}\" cannot be used in {what}"),
        )
        .detail(
            "Its values were randomised before they were stored. Only counts, sums and averages \
                can be estimated from them.",
        )
        .hint(hint)
    }

    /// Refuses every read of a report but those of estimates.
    ///
    /// # Guarantee
    /// No stored report is shown, compared or counted as if it were the true value.
    ///
    /// # Errors
    /// 0A000.
    pub(super) fn check_reports(&self) -> Result<(), Refusal> {
        self.output.releases.iter().try_for_each(|release| {
            let Release {
                input: _,
                keys,
                sets: _,
                aggregates,
                uncertainties: _,
            } = release;
            self.check_relation(without_it(release))?;
            for key in keys {
                let checked = self.check_expression(&key.expr, "this GROUP BY");
                checked.map_err(|refusal| refusal.within(|| key.place.0))?;
            }
            for aggregate in aggregates {
                let Aggregate {
                    operation,
                    filter,
                    data_type: _,
                    place: _,
                } = aggregate;
                let allowed = operation.read_reports();
                let own = operation.arguments().into_iter();
                let own = own.filter(|e| allowed.is_none() || e.as_column() != allowed);
                let checked = own
                    .chain(filter)
                    .try_for_each(|expr| self.check_expression(expr, "this aggregate"));
                checked.map_err(|refusal| refusal.within(|| aggregate.place.0))?;
            }
            Ok(())
        })
    }

    fn check_expression(&self, expr: &Expr, what: &str) -> Result<(), Refusal> {
        expr.relations()
            .into_iter()
            .try_for_each(|relation| self.check_relation(relation))?;
        match self.collected_in(expr) {
            Some(id) => Err(self.refuse_reports(id, what)),
            None => Ok(()),
        }
    }

    fn check_columns<'c>(
        &self,
        ids: impl IntoIterator<Item = &'c ColumnId>,
        what: &str,
    ) -> Result<(), Refusal> {
        let mut ids = ids.into_iter();
        match ids.find(|id| self.reports_of(**id).is_some()) {
            Some(id) => Err(self.refuse_reports(*id, what)),
            None => Ok(()),
        }
    }

    fn check_relation(&self, relation: &Relation) -> Result<(), Refusal> {
        for input in relation.inputs() {
            self.check_relation(input)?;
        }
        match relation {
            Relation::Group {
                input: _,
                keys,
                aggregates: _,
            } => self.check_columns(keys, "this GROUP BY or DISTINCT")?,
            Relation::Union { columns: _, arms } => {
                for (_, columns) in arms {
                    self.check_columns(columns, "UNION")?;
                }
            }
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Filter { .. }
            | Relation::Project { .. }
            | Relation::Join { .. }
            | Relation::Window { .. }
            | Relation::Bounded { .. } => {}
        }
        let what = match relation {
            Relation::Join { .. } => "a join",
            Relation::Filter { .. } => "this condition",
            Relation::Window { .. } => "a window",
            Relation::Project { .. } => "an expression",
            Relation::Group { .. } => "this aggregate",
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Union { .. }
            | Relation::Bounded { .. } => "this use",
        };
        relation
            .expressions()
            .into_iter()
            .try_for_each(|expr| self.check_expression(expr, what))
    }
}

/// The rows that have a report.
pub(super) fn only_reports(input: Relation, report: &Expr) -> Relation {
    Relation::Filter {
        input: Box::new(input),
        predicate: is_there(report),
    }
}

/// Without that condition, if a release has it for its reports to be decoded.
fn without_it(release: &Release) -> &Relation {
    let decoded = release
        .aggregates
        .iter()
        .map(|a| a.operation.decoded_report());
    let mut decoded = decoded.flatten();
    match &release.input {
        Relation::Filter { input, predicate }
            if decoded.any(|report| *predicate == is_there(report)) =>
        {
            input
        }
        input => input,
    }
}

fn is_there(report: &Expr) -> Expr {
    Expr::call(Function::IsNotNull, vec![report.clone()], Type::Bool)
}
