//! Facts about a query's rows, found by names alone: whether they are private, and which columns
//! identify the unit. The cut depends on them. A GROUP BY that keeps units apart is a step towards
//! a release; any other GROUP BY is the release.
//!
//! Privacy does not rely on these facts: `analyze` adds the unit to every such step. A wrong guess
//! leads to an answer that differs from PostgreSQL's, or to a refusal.

use sqlparser::ast;

use super::middle::is_made_before;
use super::rows::{ColumnFacts, Common, QueryRows, Shape, aliased, mention_at, renamed};

use crate::catalog::Equality;
use crate::ir::relation::{ColumnId, TableId};
use crate::policy::Protection;
use crate::refusal::Refusal;
use crate::resolve::names::Names;
use crate::resolve::names::environment::{Environment, Recursion, names_any};
use crate::resolve::names::lookup::Named as Source;
use crate::resolve::names::scope::Scope;
use crate::resolve::names::scope::group_expression;
use crate::resolve::syntax::{
    is_aggregated, is_distinct_rows, item_expr, name_of, names_of, place_of,
};

impl Names<'_> {
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
            (_, environment) = self.defined(cte, recursive, &environment)?;
        }
        Ok(environment)
    }

    /// The environment within a definition of WITH, and the one after it.
    pub(super) fn defined(
        &self,
        cte: &ast::Cte,
        recursive: bool,
        environment: &Environment,
    ) -> Result<(Environment, Environment), Refusal> {
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
        let after = match (names_itself, opened) {
            (true, Some(opened)) => {
                environment.with_recursive(name, cte.clone(), opened, Recursion::Defined)
            }
            (_, opened) => {
                let is_middle = opened.is_some() && is_made_before(&cte.query, &rows, environment);
                environment.with(name, cte.clone(), rows, opened, is_middle)
            }
        };
        Ok((inside, after))
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
                            is_listed: false,
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
                let key = group_expression(expr, select, &shape.scope)
                    .map_err(|refusal| refusal.within(|| place_of(expr)))?;
                keys.extend(shape.column(key));
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

    /// The names that FROM brings into scope.
    pub(in crate::resolve) fn scope_of_from(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<Scope, Refusal> {
        Ok(self.shape_of_from(select, environment)?.scope)
    }

    /// Whether the policy lists every value of a column that FROM brings into scope.
    pub(in crate::resolve) fn are_listed(
        &self,
        exprs: &[ast::Expr],
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        let shape = self.shape_of_from(select, environment)?;
        let is_listed = |expr: &ast::Expr| {
            let column = match expr {
                ast::Expr::Nested(_) => None,
                expr => shape.column(expr),
            };
            column.is_some_and(|id| shape.fact(id).is_listed)
        };
        Ok(exprs.iter().all(is_listed))
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
            } => {
                let mut rows = self.rows_of(subquery, environment)?;
                if is_made_before(subquery, &rows, environment) {
                    rows = rows.made_constants();
                }
                aliased(String::new(), rows, alias.as_ref())
            }
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let shape = self.shape_of_tables(table_with_joins, environment)?;
                match alias {
                    None => Ok(shape),
                    Some(_) => aliased(String::new(), shape.rows(), alias.as_ref()),
                }
            }
            ast::TableFactor::Table {
                name,
                alias,
                args: Some(_),
                with_ordinality,
                ..
            }
            | ast::TableFactor::Function {
                name,
                alias,
                with_ordinality,
                ..
            } => {
                let own = names_of(name)?.pop().unwrap_or_default();
                function_rows(own, alias.as_ref(), *with_ordinality)
            }
            ast::TableFactor::UNNEST {
                alias,
                with_ordinality,
                ..
            } => function_rows("unnest".to_owned(), alias.as_ref(), *with_ordinality),
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
                let mut rows = definition.rows.mentioned_at(mention);
                if definition.is_middle {
                    rows = rows.made_constants();
                }
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
                determines: self.common(id, at).filter(|_| private),
                origin: private.then(|| (mention_at(0, mention), id, at)),
                is_listed: column.domain.is_some(),
            };
            (column.name.clone(), fact)
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

fn function_rows(
    own: String,
    alias: Option<&ast::TableAlias>,
    numbered: bool,
) -> Result<Shape, Refusal> {
    let shown = alias.map_or(Ok(own.clone()), |alias| name_of(&alias.name))?;
    aliased(
        shown.clone(),
        QueryRows::of_function(&own, &shown, numbered),
        alias,
    )
}
