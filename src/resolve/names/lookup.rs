//! Looks up names in FROM, and the places of keywords in the client's text.

use sqlparser::ast;

use super::Names;
use super::environment::{CteDefinition, Environment};
use super::scope::quote;
use crate::ir::relation::TableId;
use crate::policy::{Protection, Table, VIEW_SCHEMA, ViewKind, view};
use crate::refusal::{Refusal, reason};
use crate::resolve::expression::TypeNames;
use crate::resolve::syntax::{names_of, place_of, position, position_of};
use std::rc::Rc;

/// What a table name in FROM refers to.
#[derive(Debug, Clone)]
pub enum TableSource {
    Cte(Rc<CteDefinition>),
    Table(TableId),
    View(ViewKind),
}

/// The refusal of a view of pgveil's own where rows are read.
pub fn view_refused(view: ViewKind) -> Refusal {
    Refusal::new(
        reason::VIEW_WITH_TABLES,
        format!("pgveil.{} cannot be joined with tables", view.view().name),
    )
    .hint("Read it in a separate query, or in a subquery of the SELECT list.")
}

/// Refuses names of the form that pgveil gives to releases in the outer query.
pub fn refuse_reserved(name: &str) -> Result<(), Refusal> {
    if name.starts_with("pgveil_") {
        return Err(Refusal::new(
            reason::RESERVED_NAME,
            format!("the name \"{name}\" is reserved"),
        )
        .detail("Names that start with pgveil_ are reserved for pgveil."));
    }
    Ok(())
}

impl Names<'_> {
    /// Finds the table, common table expression or view that a name in FROM refers to. A relation
    /// that the policy hides does not exist. Binding a FROM is the only caller: it keeps the
    /// result.
    pub(in crate::resolve) fn lookup(
        &self,
        name: &ast::ObjectName,
        environment: &Environment,
    ) -> Result<TableSource, Refusal> {
        let names = names_of(name)?;
        let shown = names.join(".");
        let at = position_of(name);
        let missing = || {
            let refusal = Refusal::new(
                reason::UNKNOWN_TABLE,
                format!("relation \"{shown}\" does not exist"),
            );
            match self.of_other_case(&names) {
                Some(meant) => refusal.hint(format!("Perhaps you meant {meant}.")),
                None => refusal,
            }
            .at(at)
        };
        let find = |schema: &str, table: &str| {
            self.policy
                .tables
                .iter()
                .position(|t| t.schema == schema && t.name == table)
                .map(TableId)
        };
        let find_view = |schema: &str, name: &str| {
            view(name)
                .filter(|_| schema == VIEW_SCHEMA)
                .map(|view| TableSource::View(view.kind))
        };
        match names.as_slice() {
            [table] => {
                if let Some(definition) = environment.find(table) {
                    return Ok(TableSource::Cte(definition));
                }
                if table.starts_with("pg_")
                    && !self.search_path.iter().any(|s| find(s, table).is_some())
                {
                    return Err(catalogs_refused().at(at));
                }
                let found = |schema: &String| {
                    find(schema, table)
                        .map(TableSource::Table)
                        .or_else(|| find_view(schema, table))
                };
                self.search_path.iter().find_map(found).ok_or_else(missing)
            }
            [schema, _] if schema == "pg_catalog" || schema == "information_schema" => {
                Err(catalogs_refused().at(at))
            }
            [schema, table] => find(schema, table)
                .map(TableSource::Table)
                .or_else(|| find_view(schema, table))
                .ok_or_else(missing),
            _ => {
                let message = format!("cross-database references are not implemented: \"{shown}\"");
                Err(Refusal::new(reason::UNSUPPORTED_NAME, message).at(at))
            }
        }
    }

    /// The table of the policy whose name differs in case alone, as a query has to write it.
    fn of_other_case(&self, names: &[String]) -> Option<String> {
        let is_meant = |table: &&Table| match names {
            [name] => {
                self.search_path.contains(&table.schema) && table.name.eq_ignore_ascii_case(name)
            }
            [schema, name] => {
                table.schema.eq_ignore_ascii_case(schema) && table.name.eq_ignore_ascii_case(name)
            }
            _ => false,
        };
        let table = self.policy.tables.iter().find(is_meant)?;
        Some(format!("{}.{}", quote(&table.schema), quote(&table.name)))
    }

    pub(in crate::resolve) fn is_private(&self, table: TableId) -> bool {
        if self.empty {
            return false;
        }
        match self.policy.tables[table.0].protection {
            Protection::Private(_) => true,
            Protection::Public => false,
        }
    }

    /// PostgreSQL reads GLOBAL before JOIN as an alias, the parser as a kind of join.
    pub(in crate::resolve) fn global_alias(&self, right: &ast::TableFactor) -> Refusal {
        let place = place_of(right).and_then(|right| self.marks.last_before("GLOBAL", right));
        Refusal::new(
            reason::UNSUPPORTED_SPELLING,
            "the alias \"global\" without AS is not supported",
        )
        .hint("Write AS before it.")
        .at(place)
    }

    /// Where the parenthesis opens that holds this subquery.
    pub(in crate::resolve) fn opening(&self, query: &ast::Query) -> Option<u32> {
        self.marks.last_before("(", place_of(query)?)
    }

    /// Where GROUP BY stands in a SELECT.
    pub(in crate::resolve) fn group_by_place(&self, select: &ast::Select) -> Option<u32> {
        let begins = position(select.select_token.0.span)?;
        self.marks.phrase_from(["GROUP", "BY"], begins)
    }

    /// Where FOR UPDATE or FOR SHARE stands in a query.
    pub(in crate::resolve) fn lock_place(&self, query: &ast::Query) -> Option<u32> {
        let begins = place_of(query)?;
        ["UPDATE", "SHARE"]
            .into_iter()
            .filter_map(|word| self.marks.phrase_from(["FOR", word], begins))
            .min()
    }

    pub(in crate::resolve) fn type_names(&self) -> TypeNames<'_> {
        TypeNames {
            policy: self.policy,
            search_path: self.search_path,
        }
    }
}

fn catalogs_refused() -> Refusal {
    Refusal::new(
        reason::CATALOG_WITH_TABLES,
        "system catalogs cannot be read together with tables",
    )
    .detail(
        "Queries over the catalogs alone are answered from the schema that the policy \
                shows.",
    )
}
