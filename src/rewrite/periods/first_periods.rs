//! The rows of each unit's first periods, where one price covers a horizon.

use crate::analyze::ByPeriod;
use crate::calendar::period::PeriodLength;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{
    ColumnId, ColumnInfo, Expr, Order, Relation, ResolvedQuery, Scan, Window, WindowFunction,
};
use crate::policy::Scalar;

/// The period of a row with this moment, by its first moment. NULL for no moment.
pub(super) fn period_of(column: &Expr, length: PeriodLength) -> Expr {
    let moment = match (&column.data_type, length) {
        (Type::Date, PeriodLength::Day) => return column.clone(),
        (Type::Date, _) => column.clone().cast(Type::Timestamp),
        _ => column.clone(),
    };
    let data_type = moment.data_type.clone();
    let field = Expr::literal(Some(Scalar::Text(length.name().to_owned())), Type::Text);
    Expr::call(Function::DateTrunc, vec![field, moment], data_type)
}

/// Keeps, in the scan that has the column, of each unit the rows of its first `counted` periods.
/// `since` are the conditions that leave the rows from the beginning of the horizon on.
///
/// # Guarantee
/// The rank of a period reads all rows of the unit in this table since then, before any condition
/// and any join of the question, and none of a later period. So a row that comes later makes no
/// rank smaller, if rows are neither changed nor deleted, and a unit that has rows in j - 1 earlier
/// periods is left out of a period unless j is at most `counted`.
///
/// `None` where the question reads the column from no scan.
pub(super) fn keep(
    query: &mut ResolvedQuery,
    column: &Expr,
    by_period: &ByPeriod,
    since: [Expr; 2],
) -> Option<()> {
    let id = column.as_column()?;
    let rank = ColumnId(u32::try_from(query.columns.len()).ok()?);
    query.columns.push(ColumnInfo {
        name: "place of the period".to_owned(),
        data_type: Type::Int8,
        nullable: false,
        origin: None,
    });
    let kept = |scan: Scan| {
        let window = Window {
            ranked: WindowFunction::DenseRank,
            // The unit is added by the analysis.
            partition: Vec::new(),
            order: vec![Order {
                expr: by_period.period.clone(),
                descending: false,
                nulls_first: false,
            }],
            frame: None,
            data_type: Type::Int8,
        };
        let most = Expr::literal(Some(Scalar::Int(by_period.counted.into())), Type::Int8);
        let is_early = vec![Expr::column(rank, Type::Int8), most];
        let since = since.to_vec();
        Some(filter(
            Relation::Window {
                input: Box::new(filter(Relation::Scan(scan), Expr::and(since)?)),
                columns: vec![(rank, window)],
            },
            Expr::call(Function::LessOrEqual, is_early, Type::Bool),
        ))
    };
    let [release] = query.releases.as_mut_slice() else {
        return None;
    };
    release.input = replace(release.input.clone(), id, &kept)?;
    Some(())
}

fn filter(input: Relation, predicate: Expr) -> Relation {
    Relation::Filter {
        input: Box::new(input),
        predicate,
    }
}

/// The relation with its scan of the column replaced; `None` where it has none.
fn replace(
    relation: Relation,
    id: ColumnId,
    kept: &impl Fn(Scan) -> Option<Relation>,
) -> Option<Relation> {
    Some(match relation {
        Relation::Scan(scan) if scan.columns.contains(&id) => kept(scan)?,
        Relation::Filter { input, predicate } => filter(replace(*input, id, kept)?, predicate),
        Relation::Project { input, columns } => Relation::Project {
            input: Box::new(replace(*input, id, kept)?),
            columns,
        },
        Relation::Join {
            kind,
            left,
            right,
            on,
        } => {
            let is_left = left.made_at_any_depth().contains(&id);
            let (left, right) = match is_left {
                true => (replace(*left, id, kept)?, *right),
                false => (*left, replace(*right, id, kept)?),
            };
            Relation::Join {
                kind,
                left: Box::new(left),
                right: Box::new(right),
                on,
            }
        }
        Relation::Scan(_)
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Bounded { .. }
        | Relation::Constants(_) => return None,
    })
}
