//! Facts about a query's rows, found by names alone: whether they are private, and which columns
//! identify the unit. The cut depends on them. A GROUP BY that keeps units apart is a step towards
//! a release; any other GROUP BY is the release.
//!
//! Privacy does not rely on these facts: `analyze` adds the unit to every such step. A wrong guess
//! leads to an answer that differs from PostgreSQL's, or to a refusal.

use std::hash::{DefaultHasher, Hash, Hasher};

use sqlparser::ast;

use crate::catalog::Equality;
use crate::ir::relation::{ColumnId, TableId};
use crate::policy::Protection;
use crate::refusal::Refusal;
use crate::resolve::Resolver;
use crate::resolve::names::scope::group_expression;
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::outer::query::{Environment, Named as Source, Recursion};
use crate::resolve::recursion::names_any;
use crate::resolve::syntax::{is_aggregated, is_distinct_rows, item_expr, name_of, names_of};

/// What rows with equal values in a column have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Common {
    Unit,
    /// The row of a private table that has this value in the column at this position.
    Row(TableId, usize),
}

/// The facts about one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ColumnFacts {
    /// Equal values belong to one unit: the unit itself, a key along its path, or a one-column key
    /// of a private table.
    determines: Option<Common>,
    /// The column of a private table: which mention of the table, the table, and the column's
    /// position.
    origin: Option<(u64, TableId, usize)>,
}

/// The rows of a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryRows {
    /// Rows of private tables: selected, filtered, joined, or grouped within one unit.
    pub private: bool,
    columns: Vec<(String, ColumnFacts)>,
}

impl QueryRows {
    /// The rows of a common table expression at a place that names it.
    fn mentioned_at(&self, place: &ast::TableFactor) -> Self {
        let mut rows = self.clone();
        for (mention, _, _) in rows
            .columns
            .iter_mut()
            .filter_map(|(_, fact)| fact.origin.as_mut())
        {
            *mention = mention_at(*mention, place);
        }
        rows
    }
}

/// The names that FROM brings into scope. The scope's ids are indexes into `facts`.
#[derive(Debug, Default)]
struct Shape {
    private: bool,
    scope: Scope,
    facts: Vec<ColumnFacts>,
}

impl Shape {
    fn of(alias: String, rows: QueryRows) -> Self {
        let named = |(at, (name, _)): (usize, &(String, ColumnFacts))| Named {
            name: name.clone(),
            id: ColumnId(at as u32),
        };
        let item = Item {
            alias,
            columns: rows.columns.iter().enumerate().map(named).collect(),
        };
        Self {
            private: rows.private,
            scope: Scope::of(item),
            facts: rows.columns.into_iter().map(|(_, fact)| fact).collect(),
        }
    }

    /// Joins both sides and merges the columns of these names. A column of a side that may be
    /// missing determines nothing.
    fn beside(&mut self, mut right: Self, keeps_left: bool, keeps_right: bool, folded: &[String]) {
        if !keeps_left {
            self.facts
                .iter_mut()
                .for_each(|f| *f = ColumnFacts::default());
        }
        if !keeps_right {
            right
                .facts
                .iter_mut()
                .for_each(|f| *f = ColumnFacts::default());
        }
        let offset = self.facts.len() as u32;
        let scope = right.scope.renumbered(|id| ColumnId(id.0 + offset));
        let kept = if keeps_left { &self.scope } else { &scope };
        let folded = folded
            .iter()
            .filter_map(|name| {
                Some(Named {
                    name: name.clone(),
                    id: kept.bare(name).ok()??,
                })
            })
            .collect();
        self.facts.append(&mut right.facts);
        self.scope.join(scope, folded);
        self.private |= right.private;
    }

    /// A bare column.
    fn column(&self, expr: &ast::Expr) -> Option<ColumnId> {
        match expr {
            ast::Expr::Identifier(ident) => self.scope.find(std::slice::from_ref(ident)).ok(),
            ast::Expr::CompoundIdentifier(parts) => self.scope.find(parts).ok(),
            ast::Expr::Nested(inner) => self.column(inner),
            _ => None,
        }
    }

    fn fact(&self, id: ColumnId) -> ColumnFacts {
        self.facts.get(id.0 as usize).copied().unwrap_or_default()
    }
}

impl Resolver<'_> {
    /// The rows of a query.
    pub(in crate::resolve) fn rows_of(
        &self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<QueryRows, Refusal> {
        let environment = self.environment_of(query.with.as_ref(), environment)?;
        self.rows_of_body(&query.body, &environment)
    }

    /// The environment with the definitions of WITH.
    pub(in crate::resolve) fn environment_of(
        &self,
        with: Option<&ast::With>,
        environment: &Environment,
    ) -> Result<Environment, Refusal> {
        let mut environment = environment.clone();
        let recursive = with.is_some_and(|w| w.recursive);
        for cte in with.iter().flat_map(|w| &w.cte_tables) {
            let name = name_of(&cte.alias.name)?;
            let names_itself = recursive && names_any(&cte.query, std::slice::from_ref(cte))?;
            let inside = match names_itself {
                true => environment.with_recursive(
                    name.clone(),
                    cte.clone(),
                    cte.clone(),
                    Recursion::Within,
                ),
                false => environment.clone(),
            };
            let rows = self.rows_of(&cte.query, &inside)?;
            // Only the facts about its rows are read from this definition.
            let opened = (!rows.private).then(|| cte.clone());
            environment = match (names_itself, opened) {
                (true, Some(opened)) => {
                    environment.with_recursive(name, cte.clone(), opened, Recursion::Defined)
                }
                (_, opened) => environment.with(name, cte.clone(), rows, opened),
            };
        }
        Ok(environment)
    }

    fn rows_of_body(
        &self,
        body: &ast::SetExpr,
        environment: &Environment,
    ) -> Result<QueryRows, Refusal> {
        match body {
            ast::SetExpr::Select(select) => self.rows_of_select(select, environment),
            ast::SetExpr::Query(query) => self.rows_of(query, environment),
            ast::SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier: _,
                right,
            } => {
                let (left, right) = (
                    self.rows_of_body(left, environment)?,
                    self.rows_of_body(right, environment)?,
                );
                let both = |(a, b): (&(String, ColumnFacts), &(String, ColumnFacts))| {
                    (
                        a.0.clone(),
                        ColumnFacts {
                            determines: a.1.determines.filter(|_| a.1.determines == b.1.determines),
                            origin: None,
                        },
                    )
                };
                Ok(QueryRows {
                    private: left.private || right.private,
                    columns: left.columns.iter().zip(&right.columns).map(both).collect(),
                })
            }
            _ => Ok(QueryRows::default()),
        }
    }

    /// Whether a column at the same position in both arms identifies the unit.
    pub(in crate::resolve) fn set_tells_apart(
        &self,
        left: &ast::SetExpr,
        right: &ast::SetExpr,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        let (left, right) = (
            self.rows_of_body(left, environment)?,
            self.rows_of_body(right, environment)?,
        );
        Ok(left
            .columns
            .iter()
            .zip(&right.columns)
            .any(|(a, b)| a.1.determines.is_some() && a.1.determines == b.1.determines))
    }

    fn rows_of_select(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<QueryRows, Refusal> {
        let shape = self.shape_of_from(select, environment)?;
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                ast::SelectItem::Wildcard(_) => columns.extend(
                    shape
                        .scope
                        .visible()
                        .map(|c| (c.name.clone(), shape.fact(c.id))),
                ),
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let alias = names_of(name)?.pop().unwrap_or_default();
                    let of_alias = shape
                        .scope
                        .item(&alias)
                        .into_iter()
                        .flat_map(|i| &i.columns);
                    columns.extend(of_alias.map(|c| (c.name.clone(), shape.fact(c.id))));
                }
                item => {
                    let Some(expr) = item_expr(item) else {
                        continue;
                    };
                    let name = match item {
                        ast::SelectItem::ExprWithAlias { expr: _, alias } => name_of(alias)?,
                        _ => crate::resolve::names::output_name::column_name(expr),
                    };
                    columns.push((
                        name,
                        shape
                            .column(expr)
                            .map(|id| shape.fact(id))
                            .unwrap_or_default(),
                    ));
                }
            }
        }
        let private =
            shape.private && (!is_aggregated(select) || self.keeps_units_apart(select, &shape)?);
        Ok(QueryRows { private, columns })
    }

    /// Whether the groups of an aggregating SELECT each lie within one unit: its keys hold a
    /// determining column, or a whole key of a private table.
    fn keeps_units_apart(&self, select: &ast::Select, shape: &Shape) -> Result<bool, Refusal> {
        let mut keys: Vec<ColumnId> = Vec::new();
        if let Some(ast::Distinct::On(exprs)) = &select.distinct {
            keys.extend(exprs.iter().filter_map(|e| shape.column(e)));
        } else if is_distinct_rows(select) {
            for item in &select.projection {
                match item {
                    ast::SelectItem::Wildcard(_) => {
                        keys.extend(shape.scope.visible().map(|c| c.id))
                    }
                    ast::SelectItem::QualifiedWildcard(
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                        _,
                    ) => {
                        let alias = names_of(name)?.pop().unwrap_or_default();
                        keys.extend(
                            shape
                                .scope
                                .item(&alias)
                                .into_iter()
                                .flat_map(|i| &i.columns)
                                .map(|c| c.id),
                        );
                    }
                    item => keys.extend(item_expr(item).and_then(|e| shape.column(e))),
                }
            }
        } else if let ast::GroupByExpr::Expressions(exprs, modifiers) = &select.group_by
            && modifiers.is_empty()
        {
            for expr in exprs {
                keys.extend(
                    group_expression(expr, select, &shape.scope)
                        .ok()
                        .and_then(|e| shape.column(e)),
                );
            }
        }
        self.tells_apart(&keys, shape)
    }

    /// Whether rows with equal values of these expressions belong to one unit, over the FROM of a
    /// SELECT.
    pub(in crate::resolve) fn determines_unit(
        &self,
        exprs: &[ast::Expr],
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        let shape = self.shape_of_from(select, environment)?;
        let keys: Vec<ColumnId> = exprs.iter().filter_map(|e| shape.column(e)).collect();
        self.tells_apart(&keys, &shape)
    }

    fn tells_apart(&self, keys: &[ColumnId], shape: &Shape) -> Result<bool, Refusal> {
        let facts: Vec<ColumnFacts> = keys.iter().map(|id| shape.fact(*id)).collect();
        Ok(facts.iter().any(|f| {
            f.determines.is_some()
                || f.origin
                    .is_some_and(|(mention, table, _)| self.holds_key(mention, table, &facts))
        }))
    }

    /// Whether the columns hold a whole NOT NULL key of one mention of a table.
    fn holds_key(&self, mention: u64, table: TableId, facts: &[ColumnFacts]) -> bool {
        let policy = &self.policy.tables[table.0];
        policy.unique_keys.iter().any(|key| {
            key.tells_apart(|name| {
                let at = policy
                    .columns
                    .iter()
                    .position(|c| c.name == name && c.not_null)?;
                facts
                    .iter()
                    .any(|f| f.origin == Some((mention, table, at)))
                    .then_some(Equality::Own)
            })
        })
    }

    /// Whether FROM reads a private table, at any depth outside releases.
    pub(in crate::resolve) fn reads_private(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        Ok(self.shape_of_from(select, environment)?.private)
    }

    /// Whether an aggregating SELECT over private rows is a step within units, not a release.
    pub(in crate::resolve) fn is_step(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        let shape = self.shape_of_from(select, environment)?;
        self.keeps_units_apart(select, &shape)
    }

    fn shape_of_from(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<Shape, Refusal> {
        let mut shape = Shape::default();
        for tables in &select.from {
            shape.beside(self.shape_of_tables(tables, environment)?, true, true, &[]);
        }
        Ok(shape)
    }

    fn shape_of_tables(
        &self,
        tables: &ast::TableWithJoins,
        environment: &Environment,
    ) -> Result<Shape, Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let mut shape = self.shape_of_factor(relation, environment)?;
        for ast::Join {
            relation,
            global: _,
            join_operator,
        } in joins
        {
            use ast::JoinOperator as J;
            let right = self.shape_of_factor(relation, environment)?;
            let (keeps_left, keeps_right, constraint) = match join_operator {
                J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (true, true, Some(c)),
                J::Left(c) | J::LeftOuter(c) => (true, false, Some(c)),
                J::Right(c) | J::RightOuter(c) => (false, true, Some(c)),
                J::FullOuter(c) => (false, false, Some(c)),
                _ => (false, false, None),
            };
            let folded =
                constraint.map_or(Ok(Vec::new()), |c| shape.scope.folded(c, &right.scope))?;
            let folded: Vec<String> = folded.into_iter().map(|folded| folded.name).collect();
            shape.beside(right, keeps_left, keeps_right, &folded);
        }
        Ok(shape)
    }

    fn shape_of_factor(
        &self,
        factor: &ast::TableFactor,
        environment: &Environment,
    ) -> Result<Shape, Refusal> {
        match factor {
            // Other clauses are checked where the table is read. A name with arguments is a
            // function, whose arguments are expressions.
            ast::TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints: _,
                version: _,
                with_ordinality: _,
                partitions: _,
                json_path: _,
                sample: _,
                index_hints: _,
            } => {
                let (own, rows) = self.rows_of_name(name, factor, environment)?;
                aliased(own, rows, alias.as_ref())
            }
            ast::TableFactor::Derived {
                lateral: _,
                subquery,
                alias,
                sample: _,
            } => aliased(
                String::new(),
                self.rows_of(subquery, environment)?,
                alias.as_ref(),
            ),
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let shape = self.shape_of_tables(table_with_joins, environment)?;
                let Some(alias) = alias else { return Ok(shape) };
                let columns = shape
                    .scope
                    .visible()
                    .map(|c| (c.name.clone(), shape.fact(c.id)))
                    .collect();
                aliased(
                    String::new(),
                    QueryRows {
                        private: shape.private,
                        columns,
                    },
                    Some(alias),
                )
            }
            _ => Ok(Shape::default()),
        }
    }

    /// The name and the rows of a table, a common table expression or a view in FROM.
    fn rows_of_name(
        &self,
        name: &ast::ObjectName,
        mention: &ast::TableFactor,
        environment: &Environment,
    ) -> Result<(String, QueryRows), Refusal> {
        Ok(match self.lookup(name, environment)? {
            Source::Cte(definition) => {
                let own = names_of(name)?.pop().unwrap_or_default();
                let rows = definition.rows.mentioned_at(mention);
                (own, renamed(rows, Some(&definition.cte.alias))?)
            }
            Source::Table(table) => (
                self.policy.tables[table.0].name.clone(),
                self.rows_of_table(table, mention),
            ),
            Source::View(view) => {
                let columns = view
                    .view()
                    .columns
                    .iter()
                    .map(|(name, _)| ((*name).to_owned(), ColumnFacts::default()))
                    .collect();
                let rows = QueryRows {
                    private: false,
                    columns,
                };
                (view.view().name.to_owned(), rows)
            }
        })
    }

    fn rows_of_table(&self, id: TableId, mention: &ast::TableFactor) -> QueryRows {
        let table = &self.policy.tables[id.0];
        let private = self.is_private(id);
        let fact = |(at, column): (usize, &crate::policy::Column)| {
            let fact = ColumnFacts {
                determines: self.common(id, at),
                origin: Some((mention_at(0, mention), id, at)),
            };
            (
                column.name.clone(),
                if private {
                    fact
                } else {
                    ColumnFacts::default()
                },
            )
        };
        QueryRows {
            private,
            columns: table.columns.iter().enumerate().map(fact).collect(),
        }
    }

    /// What rows with equal values in this column have in common, if they belong to one unit.
    fn common(&self, id: TableId, at: usize) -> Option<Common> {
        let table = &self.policy.tables[id.0];
        let Protection::Private(unit) = &table.protection else {
            return None;
        };
        let column = &table.columns[at];
        match unit.path.first() {
            Some(step) if step.column == column.name => {
                let referenced = self
                    .policy
                    .tables
                    .iter()
                    .position(|t| t.schema == step.schema && t.name == step.table)
                    .map(TableId)?;
                let at = self.policy.tables[referenced.0]
                    .columns
                    .iter()
                    .position(|c| c.name == step.referenced)?;
                Some(
                    self.common(referenced, at)
                        .unwrap_or(Common::Row(referenced, at)),
                )
            }
            None if unit.column == column.name => Some(Common::Unit),
            _ => {
                let is_key = column.not_null
                    && table
                        .unique_keys
                        .iter()
                        .any(|key| key.is_within(&[&column.name], &Equality::Own));
                is_key.then_some(Common::Row(id, at))
            }
        }
    }
}

/// The position of a mention in the text distinguishes two scans of one table, also within a common
/// table expression that is named twice.
fn mention_at(within: u64, place: &ast::TableFactor) -> u64 {
    let mut hasher = DefaultHasher::new();
    (within, std::ptr::from_ref(place) as usize).hash(&mut hasher);
    hasher.finish()
}

fn aliased(
    own: String,
    rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<Shape, Refusal> {
    let name = alias.map_or(Ok(own), |a| name_of(&a.name))?;
    Ok(Shape::of(name, renamed(rows, alias)?))
}

fn renamed(mut rows: QueryRows, alias: Option<&ast::TableAlias>) -> Result<QueryRows, Refusal> {
    let names = alias.into_iter().flat_map(|a| &a.columns);
    for ((name, _), definition) in rows.columns.iter_mut().zip(names) {
        *name = name_of(&definition.name)?;
    }
    Ok(rows)
}
