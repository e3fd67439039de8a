//! Statements that show rows of one table, as tools write them to preview it.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::syntax::names_of;
use crate::ir::sql;
use crate::parse::Query;
use crate::policy::{Policy, Table};
use crate::visit;

/// The place in [`Policy::tables`] of the one table that a plain SELECT reads. `None` if FROM has
/// anything else.
pub fn only_table(statement: &Query, policy: &Policy, search_path: &[String]) -> Option<usize> {
    let (name, _) = from_of(statement)?;
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

/// The statement over other rows of its only table: a JSON array of objects, one for each row, by
/// the names of the columns. They have the columns and types of the table.
///
/// `None` if FROM has anything else.
pub fn with_rows(statement: &Query, table: &Table, rows: String) -> Option<Query> {
    let (_, alias) = from_of(statement)?;
    let alias = alias.cloned().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: sql::ident(&table.name),
        columns: Vec::new(),
        at: None,
    });
    let mut changed = statement.clone();
    let ast::SetExpr::Select(select) = &mut *changed.0.body else {
        return None;
    };
    select.from = vec![sql::tables(made_up(table, rows, alias))];
    let _ = visit::visit_mut(&mut *changed.0, &mut Unqualified(table));
    Some(changed)
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
    ast::TableFactor::Function {
        lateral: false,
        name: sql::name(&["pg_catalog", "json_populate_recordset"]),
        args: [of_table, rows].map(argument).into(),
        with_ordinality: false,
        alias: Some(alias),
    }
}

/// The name and alias of the only table.
fn from_of(statement: &Query) -> Option<(&ast::ObjectName, Option<&ast::TableAlias>)> {
    let ast::SetExpr::Select(select) = &*statement.0.body else {
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
    let is_plain = statement.0.with.is_none() && only.joins.is_empty();
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
