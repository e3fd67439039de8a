//! Middle queries: SQL over released and public tables. A later release reads their rows as
//! constants. They are grouped, ordered or limited items of FROM, and uncorrelated subqueries in
//! expressions.

mod constants;

pub(in crate::resolve) use constants::Subqueries;
use std::ops::ControlFlow;

use crate::catalog::Type;
use crate::ir::KeyId;
use crate::ir::relation::{
    ColumnInfo, ConstantId, ConstantRows, MiddleColumn, MiddleId, MiddleQuery, MiddleRows,
    Relation, ReleaseId, release_number,
};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::middle::relation_names;
use crate::resolve::names::environment::{CteDefinition, Environment, Recursion};
use crate::resolve::names::scope::Named;
use crate::resolve::outer::allow_list;
use crate::resolve::resolution::Resolution;
use crate::resolve::syntax::{
    empty_select, item_expr, name_of, names_of, plain_table, position, query_of, quote_name,
    select_of,
};
use crate::visit;
use sqlparser::ast;

/// Most middle queries of a statement.
const MIDDLES_MAX: usize = 32;

impl Resolver<'_> {
    /// The rows of a derived table as constants.
    pub(in crate::resolve) fn middle_rows(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let opened = self.standalone(query, environment)?;
        self.constant_rows(opened)
    }

    /// The rows of a common table expression as constants. Its query is not opened again, so it has
    /// its releases only once.
    pub(in crate::resolve) fn middle_named(
        &mut self,
        definition: &CteDefinition,
        environment: &Environment,
    ) -> Result<(Relation, Vec<Named>), Refusal> {
        let name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(quote_name(
            &definition.name,
        ))]);
        let item = ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default());
        let from = vec![ast::TableWithJoins {
            relation: plain_table(name, None),
            joins: Vec::new(),
        }];
        let mut query = query_of(select_of(ast::Select {
            projection: vec![item],
            from,
            ..empty_select()
        }));
        query.with = definitions_of(&query, environment)?;
        self.constant_rows(query)
    }

    fn constant_rows(&mut self, query: ast::Query) -> Result<(Relation, Vec<Named>), Refusal> {
        let columns = self.shape(&query)?;
        let unique = self.output.unique_columns(&query);
        let constants = self.output.middle(
            query,
            columns.iter().map(|(_, t)| t.clone()).collect(),
            MiddleRows::Many,
        )?;
        let number = self.output.scans.take();
        let mut named = Vec::new();
        for (name, data_type) in columns {
            let id = self.output.new_column(ColumnInfo {
                name: name.clone(),
                data_type,
                nullable: true,
                origin: None,
            });
            named.push(Named { name, id });
        }
        let columns: Vec<_> = named.iter().map(|c| c.id).collect();
        let unique = unique.map(|positions| positions.into_iter().map(|at| columns[at]).collect());
        Ok((
            Relation::Constants(ConstantRows {
                constants,
                columns,
                unique,
                number,
            }),
            named,
        ))
    }

    /// Opens a query that runs by itself, and adds the common table expressions that it names.
    fn standalone(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<ast::Query, Refusal> {
        // It runs by itself, so it sees no names of the queries around it.
        let (subqueries, scans) = (
            std::mem::take(&mut self.names.subqueries),
            std::mem::take(&mut self.output.scans),
        );
        let opened = self.open_query(query, environment);
        (self.names.subqueries, self.output.scans) = (subqueries, scans);
        let mut opened = opened?;
        if let Some(outside) = definitions_of(&opened, environment)? {
            let (recursive, own) = opened
                .with
                .take()
                .map(|w| (w.recursive, w.cte_tables))
                .unwrap_or_default();
            let recursive = recursive || outside.recursive;
            opened.with = Some(ast::With {
                recursive,
                cte_tables: [outside.cte_tables, own].concat(),
                ..outside
            });
        }
        Ok(opened)
    }
}

impl Resolution {
    /// Registers a middle query and returns its columns as constants.
    pub(super) fn middle(
        &mut self,
        query: ast::Query,
        columns: Vec<Type>,
        rows: MiddleRows,
    ) -> Result<Vec<ConstantId>, Refusal> {
        if self.middles.len() >= MIDDLES_MAX {
            return Err(Refusal::new(
                reason::TOO_MANY_PARTS,
                format!("a query may hold at most {MIDDLES_MAX} subqueries over private rows"),
            ));
        }
        let number = MiddleId(self.middles.len());
        let mut releases: Vec<ReleaseId> = relation_names(&query)
            .iter()
            .filter_map(|name| release_number(name))
            .collect();
        releases.sort_unstable();
        releases.dedup();
        let first = self.bound.len();
        self.bound
            .extend(MiddleColumn::all(number, columns.len()).zip(columns.iter().cloned()));
        self.middles.push(MiddleQuery {
            query: Box::new(query),
            columns,
            releases,
            rows,
        });
        Ok((first..self.bound.len())
            .map(|at| ConstantId(at as u32))
            .collect())
    }

    /// Positions of columns whose combination differs from row to row: all group keys of a release,
    /// the column of a series, or a column of distinct constants.
    fn unique_columns(&self, query: &ast::Query) -> Option<Vec<usize>> {
        let select = match query.body.as_ref() {
            ast::SetExpr::Select(select) => select,
            ast::SetExpr::Values(values) => return distinct_column(values).map(|at| vec![at]),
            _ => return None,
        };
        if let Some(is_series) = selects_series(select) {
            return is_series.then(|| vec![0]);
        }
        let [
            ast::TableWithJoins {
                relation:
                    ast::TableFactor::Table {
                        name, alias: None, ..
                    },
                joins,
            },
        ] = select.from.as_slice()
        else {
            return None;
        };
        let [name] = names_of(name).ok()?.try_into().ok()?;
        if !joins.is_empty()
            || select
                .projection
                .iter()
                .filter_map(item_expr)
                .any(repeats_rows)
        {
            return None;
        }
        let Some(release) = release_number(&name) else {
            let cte = query
                .with
                .iter()
                .flat_map(|w| &w.cte_tables)
                .find(|c| name_of(&c.alias.name).is_ok_and(|n| n == name))?;
            let whole = matches!(select.projection.as_slice(), [ast::SelectItem::Wildcard(_)])
                && cte.alias.columns.is_empty();
            return if whole {
                self.unique_columns(&cte.query)
            } else {
                None
            };
        };
        let is_key = |item: &ast::SelectItem, key: &str| match item_expr(item) {
            Some(ast::Expr::CompoundIdentifier(parts)) => {
                parts.len() == 2 && parts[0].value == name && parts[1].value == key
            }
            Some(_) | None => false,
        };
        let keys = KeyId::all(self.releases[release.0].keys.len());
        keys.map(|key| {
            select
                .projection
                .iter()
                .position(|item| is_key(item, &crate::ir::relation::key_column(key)))
        })
        .collect()
    }
}

/// The WITH clause that a query needs to run by itself.
fn definitions_of(
    query: &ast::Query,
    environment: &Environment,
) -> Result<Option<ast::With>, Refusal> {
    let mut wanted = relation_names(query);
    let mut found: Vec<ast::Cte> = Vec::new();
    let mut seen = own_definitions(query);
    let mut recursive = false;
    for definition in environment.definitions() {
        let Some(opened) = definition
            .opened
            .as_ref()
            .filter(|_| wanted.contains(&definition.name))
        else {
            continue;
        };
        if seen.contains(&definition.name) {
            return Err(Refusal::new(
                reason::UNSUPPORTED_NAME,
                "two queries of this statement use the same WITH name",
            )
            .hint("Give each common table expression its own name.")
            .at(position(definition.cte.alias.name.span)));
        }
        if definition.recursion == Recursion::Within {
            return Err(Refusal::new(
                reason::RECURSIVE_QUERY,
                "a subquery over private rows cannot refer to the WITH RECURSIVE query that \
                    contains it",
            ));
        }
        recursive |= definition.recursion == Recursion::Defined;
        wanted.extend(
            relation_names(&opened.query)
                .into_iter()
                .filter(|name| *name != definition.name),
        );
        seen.push(definition.name.clone());
        found.push(opened.clone());
    }
    found.reverse();
    let with_token = ast::helpers::attached_token::AttachedToken::empty();
    Ok((!found.is_empty()).then_some(ast::With {
        with_token,
        recursive,
        cte_tables: found,
    }))
}

fn own_definitions(query: &ast::Query) -> Vec<String> {
    query
        .with
        .iter()
        .flat_map(|w| &w.cte_tables)
        .filter_map(|c| name_of(&c.alias.name).ok())
        .collect()
}

/// The first column of VALUES whose constants all differ.
fn distinct_column(values: &ast::Values) -> Option<usize> {
    let width = values.rows.first()?.content.len();
    (0..width).find(|at| {
        let mut values: Vec<Option<(bool, &str)>> = values
            .rows
            .iter()
            .map(|row| row.content.get(*at).and_then(comparable_constant))
            .collect();
        values.sort_unstable();
        // In a column that also holds numbers, PostgreSQL reads a text as a number.
        let is_one_kind = values.windows(2).all(|pair| {
            pair[0].map(|(is_number, _)| is_number) == pair[1].map(|(is_number, _)| is_number)
        });
        is_one_kind
            && values.iter().all(Option::is_some)
            && values.windows(2).all(|pair| pair[0] != pair[1])
    })
}

/// Whether FROM calls one function, and then whether the SELECT shows a plain series.
fn selects_series(select: &ast::Select) -> Option<bool> {
    let [
        ast::TableWithJoins {
            relation:
                ast::TableFactor::Table {
                    name,
                    args: Some(_),
                    ..
                },
            joins,
        },
    ] = select.from.as_slice()
    else {
        return None;
    };
    let is_series = joins.is_empty()
        && names_of(name)
            .is_ok_and(|names| names.last().is_some_and(|name| name == "generate_series"));
    let is_shown = matches!(
        select.projection.as_slice(),
        [ast::SelectItem::Wildcard(_)
            | ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(_))
            | ast::SelectItem::ExprWithAlias {
                expr: ast::Expr::Identifier(_),
                alias: _
            }]
    );
    Some(is_series && is_shown)
}

/// Whether a SELECT item calls a set-returning function, which repeats the row once for each row of
/// the function.
fn repeats_rows(expr: &ast::Expr) -> bool {
    let gives_rows = |expr: &ast::Expr| match expr {
        ast::Expr::Function(function) => {
            names_of(&function.name).is_ok_and(|names| allow_list::gives_rows(&names))
        }
        _ => false,
    };
    visit::visit_expressions(expr, |expr| {
        if gives_rows(expr) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
    .is_break()
}

/// Whether a constant is a number, and its text. Only for constants whose values differ wherever
/// their texts do: 1 and 1.0 are one value.
fn comparable_constant(expr: &ast::Expr) -> Option<(bool, &str)> {
    let ast::Expr::Value(value) = expr else {
        return None;
    };
    match &value.value {
        ast::Value::Number(text, _) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((true, text.trim_start_matches('0')))
        }
        ast::Value::SingleQuotedString(text) => Some((false, text)),
        _ => None,
    }
}
