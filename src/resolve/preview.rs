//! Statements that show rows of one table, as tools write them to preview it.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::classify::empty_query::whole_number;
use super::no_op_limits::is_null;
use super::syntax::{aggregate_name, names_of};
use crate::ir::sql;
use crate::parse::Query;
use crate::policy::{Policy, Table};
use crate::visit;

/// The place in [`Policy::tables`] of the one table whose rows a plain SELECT shows. `None` if FROM
/// has anything else, or if an aggregate or a window adds up rows.
pub fn only_table(outer: &ast::Query, policy: &Policy, search_path: &[String]) -> Option<usize> {
    let (name, _) = from_of(outer).filter(|_| !adds_up(outer))?;
    let find = |schema: &str, table: &str| {
        let mut tables = policy.tables.iter();
        tables.position(|t| t.schema == schema && t.name == table)
    };
    match names_of(name).ok()?.as_slice() {
        [table] => search_path.iter().find_map(|schema| find(schema, table)),
        [schema, table] => find(schema, table),
        _ => None,
    }
}

/// The query over other rows of its only table: a JSON array of objects, one for each row, by the
/// names of the columns. They have the columns and types of the table.
///
/// `None` if FROM has anything else.
pub fn with_rows(outer: &ast::Query, table: &Table, rows: String) -> Option<ast::Query> {
    let (_, alias) = from_of(outer)?;
    let alias = alias.cloned().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: sql::ident(&table.name),
        columns: Vec::new(),
        at: None,
    });
    let mut changed = outer.clone();
    let ast::SetExpr::Select(select) = &mut *changed.body else {
        return None;
    };
    select.from = vec![sql::tables(made_up(table, rows, alias))];
    let _ = visit::visit_mut(&mut changed, &mut Unqualified(table));
    Some(changed)
}

/// The query, with the numbers of rows that a statement asks for. `None` where they are no whole
/// numbers: nothing else in LIMIT, OFFSET and FETCH was checked.
pub fn limited_as(mut outer: ast::Query, statement: &Query) -> Option<ast::Query> {
    let (limit, offset) = match &statement.0.limit_clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => (limit.as_ref(), offset.as_ref()),
        Some(_) => return None,
    };
    let (offset, fetch) = (offset.map(|offset| &offset.value), &statement.0.fetch);
    let rows = |expr: &ast::Expr| match is_null(expr) {
        true => Some(None),
        false => whole_number(expr).filter(|rows| *rows >= 0).map(Some),
    };
    let fetch = match fetch {
        None => None,
        Some(ast::Fetch {
            with_ties: false,
            percent: false,
            quantity,
        }) => quantity.as_ref().map_or(Some(Some(1)), rows)?,
        Some(_) => return None,
    };
    let [limit, offset] = [limit, offset].map(|expr| expr.map_or(Some(None), rows));
    let number = |rows: i64| sql::value(ast::Value::Number(rows.to_string(), false));
    let limit = limit?.or(fetch).map(number);
    let offset = offset?.map(|rows| ast::Offset {
        value: number(rows),
        rows: ast::OffsetRows::None,
    });
    outer.fetch = None;
    outer.limit_clause =
        (limit.is_some() || offset.is_some()).then_some(ast::LimitClause::LimitOffset {
            limit,
            offset,
            limit_by: Vec::new(),
        });
    Some(outer)
}

/// Whether a call adds up rows: over made-up rows it would look like an answer.
fn adds_up(outer: &ast::Query) -> bool {
    struct Calls;
    impl ast::Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Function(call)
                    if call.over.is_some() || aggregate_name(call).is_some() =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    visit::visit(outer, &mut Calls).is_break()
}

/// `json_populate_recordset(NULL::schema.table, rows)`.
fn made_up(table: &Table, rows: String, alias: ast::TableAlias) -> ast::TableFactor {
    let of_table = ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(sql::null()),
        data_type: ast::DataType::Custom(sql::name(&[&table.schema, &table.name]), Vec::new()),
        format: None,
    };
    let rows = sql::text_literal(&rows);
    let argument = |expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr));
    ast::TableFactor::Table {
        name: sql::name(&["pg_catalog", "json_populate_recordset"]),
        alias: Some(alias),
        args: Some(ast::TableFunctionArgs {
            args: [of_table, rows].map(argument).into(),
            settings: None,
        }),
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// The name and alias of the only table.
fn from_of(outer: &ast::Query) -> Option<(&ast::ObjectName, Option<&ast::TableAlias>)> {
    let ast::SetExpr::Select(select) = &*outer.body else {
        return None;
    };
    let [only] = select.from.as_slice() else {
        return None;
    };
    let ast::TableFactor::Table {
        name,
        alias,
        args: None,
        with_ordinality: false,
        sample: None,
        ..
    } = &only.relation
    else {
        return None;
    };
    let is_plain = outer.with.is_none() && only.joins.is_empty();
    is_plain.then_some((name, alias.as_ref()))
}

/// Takes the schema off columns (`schema.table.column`): a call has none.
struct Unqualified<'t>(&'t Table);

impl Unqualified<'_> {
    fn is_schema(&self, first: &ast::Ident) -> bool {
        let name = names_of(&ast::ObjectName(vec![ast::ObjectNamePart::Identifier(
            first.clone(),
        )]));
        name.is_ok_and(|name| name == [self.0.schema.as_str()])
    }
}

impl ast::VisitorMut for Unqualified<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && let [ast::ObjectNamePart::Identifier(first), _] = name.0.as_slice()
                && self.is_schema(first)
            {
                name.0.remove(0);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let [first, _, _] = parts.as_slice()
            && self.is_schema(first)
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}
