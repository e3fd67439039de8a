//! Stage 7: Released → the statement that answers the analyst: their own outer query over released
//! rows, as one text for the shadow.

mod decoded;
mod fits;
mod output;
mod settled;
mod uncertainty;

use std::collections::HashMap;

use sqlparser::ast;

pub use fits::{Fits, Fitting};
pub use output::groups_unseen;
pub use settled::is_settled;
pub use uncertainty::{
    ErrorInterval, has_few, quantile_95, reach_of_cuts, spread, spread_decoded, value_and_error,
};

use crate::aggregates::{FieldValue, Fit};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::{
    AggregateId, KeyId, MiddleId, MiddleQuery, MiddleRows, ReleaseId, SET_COLUMN, aggregate_column,
    key_column, release_alias, view_alias,
};
use crate::policy::ViewKind;
use crate::postgres::array_text;
use crate::refusal::{Refusal, reason};
use crate::release::{Released, ReleasedTable};
use crate::rewrite::emit::sql::{self, Printed};
use crate::rewrite::{ChoicePlan, Measure, Plan, ReleasePlan, Subject, key_text};

/// The outer query with every release as a table of constants. [`sql::read_back`] compares it
/// before it is sent.
///
/// # Errors
/// XX000 where a release was not made yet.
pub fn finish(
    plan: &Plan,
    (released, fits): (&Released, &Fits),
    views: &[ViewRows],
) -> Result<Printed, Refusal> {
    let all: Vec<ReleaseId> = (0..plan.releases().len()).map(ReleaseId).collect();
    let views = views.iter().map(view_cte).collect();
    let query = build(plan.outer().clone(), plan, &all, views, |release| {
        Some((released.table(release)?, fits))
    });
    Ok(sql::print_to_read_back(&query?))
}

/// What a view of pgveil's own holds for the role that asks, as PostgreSQL reads it; columns as the
/// view's.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewRows {
    pub kind: ViewKind,
    pub rows: Vec<Vec<Option<String>>>,
}

/// `SELECT v.* FROM unnest(typed arrays) AS v(columns)`.
fn view_cte(view: &ViewRows) -> ast::Cte {
    let columns = view.kind.view().columns;
    let arrays = columns.iter().enumerate().map(|(at, (_, data_type))| {
        array(
            view.rows
                .iter()
                .map(|row| row.get(at).and_then(Option::as_deref)),
            data_type,
        )
    });
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let all = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
    cte(
        &view_alias(view.kind),
        sql::select(
            vec![all],
            vec![sql::tables(unnest("v", &names, arrays.collect()))],
            None,
            Vec::new(),
        ),
    )
}

fn unnest(alias: &str, names: &[String], array_exprs: Vec<ast::Expr>) -> ast::TableFactor {
    let columns = names
        .iter()
        .map(|n| ast::TableAliasColumnDef {
            name: sql::ident(n),
            data_type: None,
        })
        .collect();
    ast::TableFactor::UNNEST {
        alias: Some(ast::TableAlias {
            explicit: true,
            name: sql::ident(alias),
            columns,
            at: None,
        }),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// A middle query with its releases as tables of constants, cut off past `rows_max` rows.
///
/// # Errors
/// XX000 where one of its releases was not made yet, or the statement does not survive printing.
pub fn middle(
    plan: &Plan,
    number: MiddleId,
    rows_max: u32,
    (released, fits): (&Released, &Fits),
) -> Result<String, Refusal> {
    let middle = plan.middle(number);
    let query = build(
        limit_rows(middle, rows_max),
        plan,
        &middle.releases,
        Vec::new(),
        |release| Some((released.table(release)?, fits)),
    );
    sql::print(&query?)
}

/// The middle query over releases without rows: same types.
///
/// # Errors
/// XX000 where the statement does not survive printing.
pub fn middle_shape(plan: &Plan, number: MiddleId, rows_max: u32) -> Result<String, Refusal> {
    let (empty, fits) = (ReleasedTable::default(), Fits::default());
    let middle = plan.middle(number);
    let query = build(
        limit_rows(middle, rows_max),
        plan,
        &middle.releases,
        Vec::new(),
        |_| Some((&empty, &fits)),
    );
    sql::print(&query?)
}

/// `SELECT * FROM (the middle query) AS q (c0, c1, …) LIMIT rows_max + 1`: one row too many shows
/// that there are too many.
fn limit_rows(middle: &MiddleQuery, rows_max: u32) -> ast::Query {
    if middle.rows == MiddleRows::One {
        return (*middle.query).clone();
    }
    let columns = (0..middle.columns.len())
        .map(|at| ast::TableAliasColumnDef {
            name: sql::ident(&format!("c{at}")),
            data_type: None,
        })
        .collect();
    let derived = ast::TableFactor::Derived {
        lateral: false,
        subquery: middle.query.clone(),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: sql::ident("q"),
            columns,
            at: None,
        }),
        sample: None,
    };
    let all = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
    let mut query = sql::select(vec![all], vec![sql::tables(derived)], None, Vec::new());
    let limit = Some(sql::number_literal(&(u64::from(rows_max) + 1).to_string()));
    query.limit_clause = Some(ast::LimitClause::LimitOffset {
        limit,
        offset: None,
        limit_by: Vec::new(),
    });
    query
}

/// The outer query over releases without rows: same names and types.
///
/// # Errors
/// XX000 where the statement does not survive printing.
pub fn shape(plan: &Plan) -> Result<String, Refusal> {
    let (empty, fits) = (ReleasedTable::default(), Fits::default());
    let all: Vec<ReleaseId> = (0..plan.releases().len()).map(ReleaseId).collect();
    let views = plan
        .views()
        .iter()
        .map(|kind| {
            view_cte(&ViewRows {
                kind: *kind,
                rows: Vec::new(),
            })
        })
        .collect();
    let query = build(plan.outer().clone(), plan, &all, views, |_| {
        Some((&empty, &fits))
    });
    sql::print(&query?)
}

fn build<'t>(
    mut query: ast::Query,
    plan: &Plan,
    releases: &[ReleaseId],
    views: Vec<ast::Cte>,
    table: impl Fn(ReleaseId) -> Option<(&'t ReleasedTable, &'t Fits)>,
) -> Result<ast::Query, Refusal> {
    if !releases.is_empty() || !views.is_empty() {
        let mut ctes = views;
        for release in releases {
            let (table, fits) = table(*release).ok_or_else(|| {
                Refusal::new(
                    reason::INTERNAL_ERROR,
                    "a release is read before it was made",
                )
            })?;
            ctes.push(cte(
                &release_alias(*release),
                table_query(plan.release(*release), table, (*release, fits)),
            ));
        }
        let with_token = ast::helpers::attached_token::AttachedToken::empty();
        let (recursive, own) = query
            .with
            .take()
            .map(|w| (w.recursive, w.cte_tables))
            .unwrap_or_default();
        ctes.extend(own);
        query.with = Some(ast::With {
            with_token,
            recursive,
            cte_tables: ctes,
        });
    }
    Ok(query)
}

fn cte(name: &str, query: ast::Query) -> ast::Cte {
    ast::Cte {
        alias: ast::TableAlias {
            explicit: false,
            ..sql::table_alias(name)
        },
        query: Box::new(query),
        from: None,
        materialized: None,
        closing_paren_token: ast::helpers::attached_token::AttachedToken::empty(),
    }
}

/// `SELECT k0, …, a0, … FROM unnest(typed arrays) AS r(k0, …, m0, …)`.
fn table_query(
    release: &ReleasePlan,
    table: &ReleasedTable,
    fits: (ReleaseId, &Fits),
) -> ast::Query {
    let Columns {
        names,
        arrays,
        groups,
    } = Columns::of(release, table, fits);
    let from = unnest("r", &names, arrays);
    let collated = |value: ast::Expr, name: &str| match release
        .collations()
        .iter()
        .find(|(column, _)| column == name)
    {
        Some((_, of)) => ast::Expr::Collate {
            expr: Box::new(sql::nest(value)),
            collation: sql::name(&[&of.schema, &of.name]),
        },
        None => value,
    };
    let keys = names[..groups]
        .iter()
        .map(|name| sql::alias(collated(sql::column("r", name), name), name));
    let outputs = AggregateId::with_numbers(release.outputs()).map(|(at, output)| {
        let name = aggregate_column(at);
        let value = output::value(release, table, at, output);
        sql::alias(collated(value, &name), &name)
    });
    let uncertainties = release
        .uncertainties()
        .iter()
        .enumerate()
        .map(|(at, uncertainty)| uncertainty.column(at))
        .map(|name| sql::alias(sql::column("r", &name), &name));
    let projection: Vec<ast::SelectItem> = keys.chain(outputs).chain(uncertainties).collect();
    sql::select(projection, vec![sql::tables(from)], None, Vec::new())
}

/// The columns of a released table, as typed arrays.
struct Columns {
    names: Vec<String>,
    arrays: Vec<ast::Expr>,
    /// The first columns name a group.
    groups: usize,
}

impl Columns {
    fn of(release: &ReleasePlan, table: &ReleasedTable, fits: (ReleaseId, &Fits)) -> Self {
        let mut columns = Self {
            names: Vec::new(),
            arrays: Vec::new(),
            groups: 0,
        };
        if release.dictionary().is_some() {
            columns.add_decoded(release, table, fits);
            return columns;
        }
        columns.add_keys(release, table);
        columns.groups = columns.names.len();
        let measures = release.measures().iter().map(|measure| match measure {
            Measure::Count(_) => Type::Int8,
            Measure::Sum { .. }
            | Measure::Centred { .. }
            | Measure::Squares { .. }
            | Measure::Products { .. } => Type::Numeric(None),
        });
        for (at, data_type) in measures.chain(choice_types(release)).enumerate() {
            let values = table
                .measures
                .iter()
                .map(|row| row.get(at).map(String::as_str));
            columns.add(format!("m{at}"), array(values, &data_type));
        }
        // Aggregates that share a measure, and releases of keys alone, need a row count all the
        // same.
        columns.add(
            "r".to_owned(),
            array(table.keys.iter().map(|_| None), &Type::Bool),
        );
        for (at, (output, _)) in AggregateId::with_numbers(release.outputs()) {
            if output::is_null_in_some(release, table, output) {
                let is_missing = |group| output::is_missing(release, output, table, group);
                let enough = (0..table.measures.len())
                    .map(|group| Some(["t", "f"][usize::from(is_missing(group))]));
                columns.add(output::enough_column(at), array(enough, &Type::Bool));
            }
        }
        columns.add_fits(release, fits);
        for (at, uncertainty) in release.uncertainties().iter().enumerate() {
            let known = |group: usize| {
                spread(release, &uncertainty.formula, table, group)
                    .and_then(|s| s.round_outward().of(uncertainty.statistic))
            };
            let values: Vec<Option<String>> = (0..table.measures.len())
                .map(|group| known(group).map(float))
                .collect();
            let values = array(values.iter().map(Option::as_deref), &Type::Float8);
            columns.add(uncertainty.column(at), values);
        }
        columns
    }

    fn add(&mut self, name: String, array: ast::Expr) {
        self.names.push(name);
        self.arrays.push(array);
    }

    /// The fields of records, as texts: UNNEST would take arrays of arrays apart.
    fn add_fits(&mut self, release: &ReleasePlan, (id, fits): (ReleaseId, &Fits)) {
        for (at, (output, _)) in AggregateId::with_numbers(release.outputs()) {
            let Some((model, field)) = output.model_field() else {
                continue;
            };
            let text = |fit: &Option<Fit>| Some(field_text(fit.as_ref()?.part(field)?));
            let texts: Vec<Option<String>> = fits.of(id, model).iter().map(text).collect();
            let texts = array(texts.iter().map(Option::as_deref), &Type::Text);
            self.add(output::fitted_column(at), texts);
        }
    }

    /// The grouping set's number where there are several, and the keys.
    fn add_keys(&mut self, release: &ReleasePlan, table: &ReleasedTable) {
        if !release.sets().is_empty() {
            let sets = table.keys.iter().map(|row| row[0].as_deref());
            self.add(SET_COLUMN.to_owned(), array(sets, &Type::Int4));
        }
        let first = self.names.len();
        for (at, (data_type, rule)) in release.keys().iter().enumerate() {
            let listed = listed_keys(data_type, rule);
            let shown =
                |text: &'_ str| listed.get(text).cloned().unwrap_or_else(|| text.to_owned());
            let texts: Vec<Option<String>> = table
                .keys
                .iter()
                .map(|row| row[first + at].as_deref().map(shown))
                .collect();
            let texts = array(texts.iter().map(Option::as_deref), data_type);
            self.add(key_column(KeyId(at)), texts);
        }
    }
}

/// Maps a `bpchar` as the statement prints it, without the blanks at its end, to the listed value.
fn listed_keys(data_type: &Type, rule: &KeyRule) -> HashMap<String, String> {
    match (data_type, rule) {
        (Type::Char(None), KeyRule::Domain(values)) => values
            .iter()
            .flatten()
            .map(|value| (key_text(value, data_type), sql::scalar_text(value)))
            .collect(),
        (_, KeyRule::Domain(_) | KeyRule::Threshold) => HashMap::new(),
    }
}

/// A field of a record, as PostgreSQL reads it.
fn field_text(part: FieldValue<'_>) -> String {
    let numbers = |numbers: &[f64]| {
        let texts: Vec<String> = numbers.iter().copied().map(float).collect();
        array_text(texts.iter().map(|text| Some(text.as_str())))
    };
    match part {
        FieldValue::Number(number) => float(number),
        FieldValue::Numbers(of) => numbers(of),
        FieldValue::Rows(rows) => {
            let texts: Vec<String> = rows.iter().map(|row| numbers(row)).collect();
            format!("{{{}}}", texts.join(","))
        }
    }
}

/// A number as PostgreSQL reads a float8.
fn float(value: f64) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => value.to_string(),
    }
}

/// The types of the choices' columns, which follow the measures.
fn choice_types(release: &ReleasePlan) -> Vec<Type> {
    let columns = |choice: &ChoicePlan| match &choice.question.subject {
        Subject::Distinct {
            values: _,
            per_unit_max: _,
            degree,
        } => std::iter::once(Type::Int8)
            .chain(std::iter::repeat_n(Type::Numeric(None), degree.width() - 1))
            .collect::<Vec<_>>(),
        // The last candidate of a numeric(3,2) is 10, which its type does not hold.
        Subject::Value {
            value,
            candidates: _,
        } => vec![value.data_type.without_digits(); choice.question.width()],
    };
    release.choices().iter().flat_map(columns).collect()
}

/// A typed array constant.
fn array<'t>(values: impl Iterator<Item = Option<&'t str>>, data_type: &Type) -> ast::Expr {
    let element = sql::data_type(data_type);
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(sql::text_literal(&array_text(values))),
        data_type: ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(
            Box::new(element),
            None,
        )),
        format: None,
    }
}
