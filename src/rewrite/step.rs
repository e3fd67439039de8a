//! Steps within one unit as derived tables. Their aggregates are exact, total and functions of the set of a unit's rows.

use std::collections::HashMap;

use sqlparser::ast;

use super::expression::{Cell, Expressions};
use super::relation::{Flat, Relations, typed};
use super::sql;
use crate::catalog::Type;
use crate::refusal::Refusal;
use crate::resolve::{Aggregate, ColumnId, Distinct, End, Expr, Operation, Quantifier, Relation, Spread};

impl Relations<'_> {
    /// GROUP BY: keys keep their identity and clamps, in one spelling for all equal values.
    pub(super) fn group(&mut self, input: &Relation, keys: &[ColumnId], aggregates: &[(ColumnId, Aggregate)]) -> Result<Flat, Refusal> {
        let flat = self.emit(input)?;
        let expressions = Expressions { cells: &flat.cells };
        let alias = self.alias();
        let (mut projection, mut cells, mut group_by) = (Vec::new(), HashMap::new(), Vec::new());
        for id in keys {
            let cell = expressions.cell(*id)?;
            let name = format!("c{}", id.0);
            projection.push(sql::aliased(one_spelling(cell.raw.clone(), &cell.data_type), &name));
            group_by.push(sql::number(&projection.len().to_string()));
            cells.insert(*id, Cell { raw: sql::column(&alias, &name), ..cell.clone() });
        }
        for (id, aggregate) in aggregates.iter().filter(|(id, _)| self.needed.contains(id)) {
            let name = format!("c{}", id.0);
            projection.push(sql::aliased(within(aggregate, &expressions)?, &name));
            cells.insert(*id, typed(sql::column(&alias, &name), &aggregate.data_type));
        }
        let query = sql::select(projection, vec![flat.from], sql::all(flat.conditions.into_iter().map(sql::nested).collect()), group_by);
        Ok(Flat { from: sql::tables(sql::derived(query, &alias)), conditions: Vec::new(), cells })
    }
}

/// One aggregate over the rows of a group.
fn within(aggregate: &Aggregate, expressions: &Expressions<'_>) -> Result<ast::Expr, Refusal> {
    let Aggregate { operation, filter, data_type } = aggregate;
    let filter = filter.as_ref().map(|f| expressions.condition(f)).transpose()?;
    let of = |name: &str, value: &Expr| Ok::<_, Refusal>(sql::aggregate(name, Some(expressions.emit(value)?.0), filter.clone()));
    Ok(match operation {
        Operation::CountRows => sql::aggregate("count", None, filter),
        Operation::Count(value) => sql::aggregate("count", Some(expressions.presence(value)?), filter),
        // A bare column is counted as it is stored: its clamp would make one of two values.
        Operation::Distinct(Distinct::Value(value)) => sql::distinct(sql::aggregate("count", Some(expressions.presence(value)?), filter)),
        Operation::Distinct(Distinct::Row(values)) => {
            let row = values.iter().map(|value| expressions.presence(value)).collect::<Result<_, _>>()?;
            sql::distinct(sql::aggregate("count", Some(ast::Expr::Tuple(row)), filter))
        }
        Operation::Sum(value) => of("sum", value)?,
        Operation::Average(value) => of("avg", value)?,
        Operation::Variance { value, kind: Spread::VariancePopulation } => of("var_pop", value)?,
        Operation::Variance { value, kind: Spread::VarianceSample } => of("var_samp", value)?,
        Operation::Variance { value, kind: Spread::DeviationPopulation } => of("stddev_pop", value)?,
        Operation::Variance { value, kind: Spread::DeviationSample } => of("stddev_samp", value)?,
        Operation::Extreme { value, end: End::Least } => one_spelling(of("min", value)?, data_type),
        Operation::Extreme { value, end: End::Greatest } => one_spelling(of("max", value)?, data_type),
        Operation::Truth { value, of: Quantifier::All } => of("bool_and", value)?,
        Operation::Truth { value, of: Quantifier::Any } => of("bool_or", value)?,
        Operation::Paired { .. } | Operation::Quantile { .. } | Operation::Mode(_) => {
            return Err(Refusal::unsupported("this aggregate within one group of rows"));
        }
    })
}

/// One spelling for all equal values: which row's is shown must not depend on their order.
fn one_spelling(key: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Numeric(None) => sql::call("trim_scale", vec![key]),
        Type::Float4 | Type::Float8 => sql::binary(sql::nested(key), ast::BinaryOperator::Plus, sql::cast(sql::number("0"), data_type)),
        Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(Some(_)) | Type::Text | Type::Varchar(_) | Type::Char(_) => key,
        Type::Uuid | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Other { .. } => key,
    }
}
