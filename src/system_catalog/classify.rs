//! Classifies a statement by the names in it: catalogs, tables, or both.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::names;
use crate::policy::{Policy, VIEW_SCHEMA, view};
use crate::refusal::Refusal;
use crate::resolve::outer::allow_list;
use crate::resolve::syntax::{name_of, names_of};
use crate::visit;

/// PostgreSQL's system schemas.
pub(super) const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

pub(super) enum StatementSubject {
    Catalogs {
        /// Whether the statement reads relations and not only functions.
        reads_relations: bool,
    },
    Tables,
    /// One name of each kind.
    Both {
        relation: String,
        table: String,
    },
}

pub(super) fn survey(
    query: &ast::Query,
    policy: &Policy,
    search_path: &[String],
) -> Result<StatementSubject, Refusal> {
    let mut survey = Survey {
        policy,
        search_path,
        with_names: BTreeSet::new(),
        catalogs: Vec::new(),
        tables: Vec::new(),
        unknown_relations: 0,
        system: false,
    };
    let _ = visit::visit(query, &mut WithNames(&mut survey.with_names));
    if let ControlFlow::Break(refusal) = visit::visit(query, &mut survey) {
        return Err(refusal);
    }
    Ok(match (survey.catalogs.first(), survey.tables.first()) {
        (Some(relation), Some(table)) => StatementSubject::Both {
            relation: relation.clone(),
            table: table.clone(),
        },
        (Some(_), None) => StatementSubject::Catalogs {
            reads_relations: true,
        },
        (None, None) if survey.system && survey.unknown_relations == 0 => {
            StatementSubject::Catalogs {
                reads_relations: false,
            }
        }
        (None, Some(_) | None) => StatementSubject::Tables,
    })
}

/// Names of common table expressions, wherever they are in scope.
struct WithNames<'a>(&'a mut BTreeSet<String>);

impl ast::Visitor for WithNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0
            .extend(tables.filter_map(|table| name_of(&table.alias.name).ok()));
        ControlFlow::Continue(())
    }
}

struct Survey<'a> {
    policy: &'a Policy,
    search_path: &'a [String],
    with_names: BTreeSet<String>,
    catalogs: Vec<String>,
    /// Tables of the policy, and pgveil's views.
    tables: Vec<String>,
    /// Number of relations that do not exist for the client.
    unknown_relations: usize,
    /// A function or type of [`names::SYSTEM`]'s kind is used.
    system: bool,
}

impl Survey<'_> {
    fn relation(&mut self, name: &ast::ObjectName) -> Result<(), Refusal> {
        let names = names_of(name)?;
        let shown = names.join(".");
        let listed = |schema: &str, table: &str| {
            // pgveil's views cannot be read together with catalogs: the shadow has only their
            // columns.
            (schema == VIEW_SCHEMA && view(table).is_some())
                || self
                    .policy
                    .tables
                    .iter()
                    .any(|t| t.schema == schema && t.name == table)
        };
        match names.as_slice() {
            // A name that is both a WITH query and a table counts as the table. Otherwise the
            // shadow's empty copy of the table would answer.
            [table]
                if self.with_names.contains(table)
                    && !self.search_path.iter().any(|schema| listed(schema, table)) => {}
            // As in PostgreSQL, pg_catalog comes before the search path.
            [table] if is_catalog_relation(table) => self.catalogs.push(shown),
            [table] if self.search_path.iter().any(|schema| listed(schema, table)) => {
                self.tables.push(shown)
            }
            [table]
                if table.starts_with("pg_")
                    || self
                        .search_path
                        .iter()
                        .any(|schema| schema == "information_schema") =>
            {
                self.catalogs.push(shown)
            }
            [schema, _] if SCHEMAS.contains(&schema.as_str()) => self.catalogs.push(shown),
            [schema, table] if listed(schema, table) => self.tables.push(shown),
            _ => self.unknown_relations += 1,
        }
        Ok(())
    }

    fn function(&mut self, name: &ast::ObjectName) -> Result<(), Refusal> {
        let names = names_of(name)?;
        self.system |= match names.as_slice() {
            [schema, _] if SCHEMAS.contains(&schema.as_str()) => true,
            // A function that is not offered is refused by name, unless the statement reads a
            // table. A function that any query may call does not make this one a catalog statement.
            [function] => {
                let about_session = [
                    "current_catalog",
                    "current_database",
                    "current_schema",
                    "current_schemas",
                    "version",
                ]
                .contains(&function.as_str());
                let system = names::SYSTEM.binary_search(&function.as_str()).is_ok()
                    && (about_session || !allow_list::is_function(&names));
                system || function.starts_with("pg_")
            }
            _ => false,
        };
        Ok(())
    }
}

impl ast::Visitor for Survey<'_> {
    type Break = Refusal;

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<Refusal> {
        let outcome = match factor {
            ast::TableFactor::Table {
                name, args: None, ..
            } => self.relation(name),
            ast::TableFactor::Table {
                name,
                args: Some(_),
                ..
            }
            | ast::TableFactor::Function { name, .. } => self.function(name),
            _ => Ok(()),
        };
        outcome.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
        let outcome = match expr {
            ast::Expr::Function(function) => self.function(&function.name),
            // PostgreSQL reads these words as functions.
            ast::Expr::Identifier(ident) if ident.quote_style.is_none() => {
                self.system |= ["current_schema", "current_catalog"]
                    .iter()
                    .any(|word| ident.value.eq_ignore_ascii_case(word));
                Ok(())
            }
            ast::Expr::Cast { data_type, .. } => {
                self.system |= is_system_type(data_type);
                Ok(())
            }
            _ => Ok(()),
        };
        outcome.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }
}

pub(super) fn is_catalog_relation(name: &str) -> bool {
    names::RELATIONS.contains(&name)
        || names::EMPTIED.contains(&name)
        || name == "pg_settings"
        || names::NARROWED
            .iter()
            .any(|(narrowed, _)| *narrowed == name)
}

fn is_system_type(data_type: &ast::DataType) -> bool {
    let ast::DataType::Custom(name, _) = data_type else {
        return matches!(data_type, ast::DataType::Regclass);
    };
    let Some(name) = names_of(name).ok().and_then(|names| names.last().cloned()) else {
        return false;
    };
    name.starts_with("reg") || name == "oid" || name == "name"
}
