//! Facts about a query's rows, found by names alone: whether they are private, and which columns
//! identify the unit. The cut depends on them. A GROUP BY that keeps units apart is a step towards
//! a release; any other GROUP BY is the release.
//!
//! Privacy does not rely on these facts: `analyze` adds the unit to every such step. A wrong guess
//! leads to an answer that differs from PostgreSQL's, or to a refusal.

use sqlparser::ast;

use super::bound_from::{BoundFactor, BoundFrom, BoundTables, apply_alias};
use super::middle::is_made_before;
use super::rows::{ColumnFacts, QueryRows, SharedValue, mention_at, rename};

use crate::catalog::Equality;
use crate::ir::relation::{ColumnId, TableId};
use crate::policy::Protection;
use crate::refusal::Refusal;
use crate::resolve::names::Names;
use crate::resolve::names::environment::{Environment, Recursion, names_any};
use crate::resolve::names::lookup::TableSource;
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
            (_, environment) = self.define(cte, recursive, &environment)?;
        }
        Ok(environment)
    }

    /// The environment within a definition of WITH, and the one after it.
    pub(super) fn define(
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
                    all_known: left.all_known && right.all_known,
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
        let from = self.bind_from(select, environment)?;
        let mut columns = Vec::new();
        let mut all_known = true;
        for item in &select.projection {
            match item {
                ast::SelectItem::Wildcard(_) => {
                    all_known &= from.all_known;
                    columns.extend(
                        from.scope
                            .visible()
                            .map(|c| (c.name.clone(), from.fact(c.id))),
                    );
                }
                ast::SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    all_known &= from.all_known;
                    let alias = names_of(name)?.pop().unwrap_or_default();
                    let of_alias = from.scope.item(&alias).into_iter().flat_map(|i| &i.columns);
                    columns.extend(of_alias.map(|c| (c.name.clone(), from.fact(c.id))));
                }
                item => {
                    let Some(expr) = item_expr(item) else {
                        all_known = false;
                        continue;
                    };
                    let name = match item {
                        ast::SelectItem::ExprWithAlias { expr: _, alias } => name_of(alias)?,
                        _ => crate::resolve::names::output_name::column_name(expr),
                    };
                    columns.push((
                        name,
                        from.column(expr)
                            .map(|id| from.fact(id))
                            .unwrap_or_default(),
                    ));
                }
            }
        }
        let private = from.private && (!is_aggregated(select) || self.is_step(select, &from)?);
        Ok(QueryRows {
            private,
            columns,
            all_known,
        })
    }

    /// Whether the groups of an aggregating SELECT each lie within one unit, so that it is a step
    /// within units, not a release: its keys hold a determining column, or a whole key of a private
    /// table.
    pub(in crate::resolve) fn is_step(
        &self,
        select: &ast::Select,
        from: &BoundFrom,
    ) -> Result<bool, Refusal> {
        let mut keys: Vec<ColumnId> = Vec::new();
        if let Some(ast::Distinct::On(exprs)) = &select.distinct {
            keys.extend(exprs.iter().filter_map(|e| from.column(e)));
        } else if is_distinct_rows(select) {
            for item in &select.projection {
                match item {
                    ast::SelectItem::Wildcard(_) => keys.extend(from.scope.visible().map(|c| c.id)),
                    ast::SelectItem::QualifiedWildcard(
                        ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                        _,
                    ) => {
                        let alias = names_of(name)?.pop().unwrap_or_default();
                        keys.extend(
                            from.scope
                                .item(&alias)
                                .into_iter()
                                .flat_map(|i| &i.columns)
                                .map(|c| c.id),
                        );
                    }
                    item => keys.extend(item_expr(item).and_then(|e| from.column(e))),
                }
            }
        } else if let ast::GroupByExpr::Expressions(exprs, modifiers) = &select.group_by
            && modifiers.is_empty()
        {
            for expr in exprs {
                let key = group_expression(expr, select, &from.scope)
                    .map_err(|refusal| refusal.within(|| place_of(expr)))?;
                keys.extend(from.column(key));
            }
        }
        Ok(self.tells_apart(&keys, from))
    }

    /// Whether rows with equal values of these expressions belong to one unit.
    pub(in crate::resolve) fn determines_unit(
        &self,
        exprs: &[ast::Expr],
        from: &BoundFrom,
    ) -> bool {
        let keys: Vec<ColumnId> = exprs.iter().filter_map(|e| from.column(e)).collect();
        self.tells_apart(&keys, from)
    }

    fn tells_apart(&self, keys: &[ColumnId], from: &BoundFrom) -> bool {
        let facts: Vec<ColumnFacts> = keys.iter().map(|id| from.fact(*id)).collect();
        facts.iter().any(|f| {
            f.determines.is_some()
                || f.origin
                    .is_some_and(|(mention, table, _)| self.holds_key(mention, table, &facts))
        })
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

    /// Binds the FROM of a SELECT.
    pub(in crate::resolve) fn bind_from(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<BoundFrom, Refusal> {
        let mut from = BoundFrom::empty();
        for tables in &select.from {
            from.add(self.bind_tables(tables, environment)?);
        }
        Ok(from)
    }

    fn bind_tables(
        &self,
        tables: &ast::TableWithJoins,
        environment: &Environment,
    ) -> Result<(BoundTables, BoundFrom), Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let (first, mut from) = self.bind_factor(relation, environment)?;
        let mut joined = Vec::new();
        for ast::Join {
            relation,
            global: _,
            join_operator,
        } in joins
        {
            use ast::JoinOperator as J;
            let (factor, right) = self.bind_factor(relation, environment)?;
            joined.push(factor);
            let (keeps_left, keeps_right, constraint) = match join_operator {
                J::Join(c) | J::Inner(c) | J::CrossJoin(c) => (true, true, Some(c)),
                J::Left(c) | J::LeftOuter(c) => (true, false, Some(c)),
                J::Right(c) | J::RightOuter(c) => (false, true, Some(c)),
                J::FullOuter(c) => (false, false, Some(c)),
                _ => (false, false, None),
            };
            let folded = constraint.map_or(Ok(Vec::new()), |c| {
                from.scope.merge_columns(c, &right.scope)
            })?;
            let folded: Vec<String> = folded.into_iter().map(|folded| folded.name).collect();
            from.join(right, keeps_left, keeps_right, &folded);
        }
        Ok((BoundTables { first, joined }, from))
    }

    fn bind_factor(
        &self,
        factor: &ast::TableFactor,
        environment: &Environment,
    ) -> Result<(BoundFactor, BoundFrom), Refusal> {
        Ok(match factor {
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
                let source = self.lookup(name, environment)?;
                let (own, rows) = self.rows_of_source(&source, name, factor)?;
                let from = apply_alias(own, rows, alias.as_ref())?;
                (BoundFactor::Named(source), from)
            }
            ast::TableFactor::Derived {
                lateral: _,
                subquery,
                alias,
                sample: _,
            } => self.bind_derived(subquery, alias.as_ref(), environment)?,
            ast::TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                let (tables, mut from) = self.bind_tables(table_with_joins, environment)?;
                if alias.is_some() {
                    from = apply_alias(String::new(), from.rows(), alias.as_ref())?;
                }
                (BoundFactor::Nested(Box::new(tables)), from)
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
                let from = function_rows(own, alias.as_ref(), *with_ordinality)?;
                (BoundFactor::Other, from)
            }
            ast::TableFactor::UNNEST {
                alias,
                with_ordinality,
                ..
            } => {
                let own = "unnest".to_owned();
                let from = function_rows(own, alias.as_ref(), *with_ordinality)?;
                (BoundFactor::Other, from)
            }
            _ => {
                let from = BoundFrom::of(String::new(), QueryRows::default());
                (BoundFactor::Other, from)
            }
        })
    }

    fn bind_derived(
        &self,
        subquery: &ast::Query,
        alias: Option<&ast::TableAlias>,
        environment: &Environment,
    ) -> Result<(BoundFactor, BoundFrom), Refusal> {
        let mut rows = self.rows_of(subquery, environment)?;
        let is_middle = is_made_before(subquery, &rows, environment);
        if is_middle {
            rows = rows.made_constants();
        }
        let from = apply_alias(String::new(), rows, alias)?;
        Ok((BoundFactor::Derived { is_middle }, from))
    }

    /// The name and the rows of a table, a common table expression or a view in FROM.
    fn rows_of_source(
        &self,
        source: &TableSource,
        name: &ast::ObjectName,
        mention: &ast::TableFactor,
    ) -> Result<(String, QueryRows), Refusal> {
        Ok(match source {
            TableSource::Cte(definition) => {
                let own = names_of(name)?.pop().unwrap_or_default();
                let mut rows = definition.rows.mentioned_at(mention);
                if definition.is_middle {
                    rows = rows.made_constants();
                }
                (own, rename(rows, Some(&definition.cte.alias))?)
            }
            TableSource::Table(table) => (
                self.policy.tables[table.0].name.clone(),
                self.rows_of_table(*table, mention),
            ),
            TableSource::View(view) => {
                let columns = view
                    .view()
                    .columns
                    .iter()
                    .map(|(name, _)| ((*name).to_owned(), ColumnFacts::default()))
                    .collect();
                let rows = QueryRows {
                    private: false,
                    columns,
                    all_known: true,
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
            all_known: true,
        }
    }

    /// What rows with equal values in this column have in common, if they belong to one unit.
    fn common(&self, id: TableId, at: usize) -> Option<SharedValue> {
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
                        .unwrap_or(SharedValue::Row(referenced, at)),
                )
            }
            None if unit.column == column.name => Some(SharedValue::Unit),
            _ => {
                let is_key = column.not_null
                    && table
                        .unique_keys
                        .iter()
                        .any(|key| key.is_within(&[&column.name], &Equality::Own));
                is_key.then_some(SharedValue::Row(id, at))
            }
        }
    }
}

fn function_rows(
    own: String,
    alias: Option<&ast::TableAlias>,
    numbered: bool,
) -> Result<BoundFrom, Refusal> {
    let shown = alias.map_or(Ok(own.clone()), |alias| name_of(&alias.name))?;
    apply_alias(
        shown.clone(),
        QueryRows::of_function(&own, &shown, numbered),
        alias,
    )
}
