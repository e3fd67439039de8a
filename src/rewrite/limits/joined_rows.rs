//! The number of rows that joins make of one unit's rows where its bounded relations meet, and the
//! time that these rows take.

use std::collections::HashMap;

use sqlparser::ast;

/// Nanoseconds that a joined row takes for each of its relations, before any expression.
const JOINED: u64 = 500;

/// Nanoseconds that a row takes at each level of a sort, where the first thousands of characters of
/// texts are equal.
const SORTED: u64 = 5_000;

/// Nanoseconds that a row takes to be grouped, which PostgreSQL usually does by hashing.
const GROUPED: u64 = 1_000;

/// Nanoseconds that a row takes when it comes into a frame again.
const FRAMED: u64 = 200;

pub(in crate::rewrite) struct JoinedRows<'a> {
    pub nanoseconds: u64,
    bounded: &'a HashMap<String, u64>,
    /// Public rows that a private row is assumed to meet, in all its joins and subqueries together.
    pairs: u64,
    /// For each query that is being visited: the rows of one unit, where something multiplies them.
    queries: Vec<Option<Rows>>,
    /// For each expression that is being visited: whether it contains an aggregate.
    aggregated: Vec<bool>,
    /// The next query stands in FROM, not LATERAL: it is computed once, and not for each row around
    /// it.
    in_from: bool,
}

impl<'a> JoinedRows<'a> {
    pub fn new(bounded: &'a HashMap<String, u64>, pairs: u64) -> Self {
        Self {
            nanoseconds: 0,
            bounded,
            pairs,
            queries: Vec::new(),
            aggregated: Vec::new(),
            in_from: false,
        }
    }

    pub fn stand_in_from(&mut self, table: &ast::TableFactor) {
        self.in_from = matches!(table, ast::TableFactor::Derived { lateral: false, .. });
    }

    pub fn enter(&mut self, query: &ast::Query) {
        let around = if std::mem::take(&mut self.in_from) {
            None
        } else {
            self.queries.last().copied().flatten()
        };
        let of_body = self.of_body(&query.body);
        let is_paired = self.pairs > 1
            && (around.is_some_and(|around| around.is_paired) || reads_tables(&query.body));
        let rows = product(around.map(|around| around.made), of_body)
            .or(is_paired.then_some(1))
            .map(|made| Rows {
                made,
                groups: if is_one_group(&query.body) {
                    around.map_or(1, |around| self.with_pairs(around.made, around.is_paired))
                } else {
                    self.with_pairs(made, is_paired)
                },
                is_paired,
            });
        self.queries.push(rows);
        if let Some(rows) = rows {
            let rows = self.with_pairs(rows.made, is_paired);
            let each = of_joins(&query.body)
                .saturating_mul(JOINED)
                .saturating_add(of_groups(&query.body, rows));
            self.spend(rows.saturating_mul(each));
        }
    }

    pub fn leave(&mut self) {
        self.queries.pop();
    }

    pub fn begin(&mut self) {
        self.aggregated.push(false);
    }

    /// Adds an expression that takes `own` for one row, and `whole` with all its parts.
    pub fn add(&mut self, expr: &ast::Expr, own: u64, whole: u64) {
        // Aggregates within a subquery are its own.
        let is_of_group =
            self.aggregated.pop().unwrap_or(false) && !matches!(expr, ast::Expr::Exists { .. });
        if let Some(around) = self.aggregated.last_mut() {
            *around |= is_of_group || is_aggregate(expr);
        }
        let Some(Rows {
            made,
            groups,
            is_paired,
        }) = self.queries.last().copied().flatten()
        else {
            return;
        };
        let rows = if is_of_group {
            groups
        } else {
            self.with_pairs(made, is_paired)
        };
        let more = match expr {
            ast::Expr::Function(call) => {
                let sorts = u64::from(call.over.is_some())
                    + u64::from(!call.within_group.is_empty())
                    + u64::from(is_distinct(call));
                let frame = frame_rows(call, rows).saturating_mul(whole.saturating_add(FRAMED));
                sorts
                    .saturating_mul(levels(rows).saturating_mul(SORTED))
                    .saturating_add(frame)
            }
            _ => 0,
        };
        self.spend(rows.saturating_mul(own.saturating_add(more)));
    }

    fn with_pairs(&self, rows: u64, is_paired: bool) -> u64 {
        rows.saturating_mul(if is_paired { self.pairs } else { 1 })
    }

    fn spend(&mut self, nanoseconds: u64) {
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }

    fn of_body(&self, body: &ast::SetExpr) -> Option<u64> {
        match body {
            ast::SetExpr::Select(select) => select
                .from
                .iter()
                .map(|tables| self.of_tables(tables))
                .fold(None, product),
            ast::SetExpr::Query(query) => self.of_query(query),
            ast::SetExpr::SetOperation { left, right, .. } => {
                match (self.of_body(left), self.of_body(right)) {
                    (Some(left), Some(right)) => Some(left.saturating_add(right)),
                    (left, right) => left.or(right),
                }
            }
            _ => None,
        }
    }

    fn of_tables(&self, tables: &ast::TableWithJoins) -> Option<u64> {
        tables
            .joins
            .iter()
            .map(|join| self.of_factor(&join.relation))
            .fold(self.of_factor(&tables.relation), product)
    }

    fn of_factor(&self, factor: &ast::TableFactor) -> Option<u64> {
        let ast::TableFactor::Derived {
            subquery, alias, ..
        } = factor
        else {
            return None;
        };
        let bound = alias
            .as_ref()
            .and_then(|alias| self.bounded.get(&alias.name.value));
        bound.copied().or_else(|| self.of_query(subquery))
    }

    /// The number of rows that a derived table gives: one if it is grouped by the unit alone.
    fn of_query(&self, query: &ast::Query) -> Option<u64> {
        match &*query.body {
            ast::SetExpr::Select(select) if count_group_columns(select) == 1 => None,
            body => self.of_body(body),
        }
    }
}

/// How many rows of one unit a query makes, and how many groups of them.
#[derive(Clone, Copy)]
struct Rows {
    /// Rows of the unit, not multiplied by the public rows that they meet.
    made: u64,
    /// Groups of the unit, multiplied by the public rows.
    groups: u64,
    /// Whether each row may also meet public rows, which multiply it.
    is_paired: bool,
}

/// Whether private rows may meet public ones here, or in derived tables that do not group by the
/// unit alone.
fn reads_tables(body: &ast::SetExpr) -> bool {
    let of_factor = |factor: &ast::TableFactor| match factor {
        ast::TableFactor::Derived { subquery, .. } => match &*subquery.body {
            body if is_one_group(body) => false,
            body => reads_tables(body),
        },
        _ => true,
    };
    match body {
        ast::SetExpr::Select(select) => match select.from.as_slice() {
            [tables] if tables.joins.is_empty() => of_factor(&tables.relation),
            from => !from.is_empty(),
        },
        ast::SetExpr::Query(query) => reads_tables(&query.body),
        ast::SetExpr::SetOperation { left, right, .. } => reads_tables(left) || reads_tables(right),
        _ => false,
    }
}

/// Whether all of a unit's rows become one: they are grouped by the unit alone.
fn is_one_group(body: &ast::SetExpr) -> bool {
    matches!(body, ast::SetExpr::Select(select) if count_group_columns(select) == 1)
}

/// Whether the expression is an aggregate, so that what reads it is computed once for each group.
fn is_aggregate(expr: &ast::Expr) -> bool {
    let ast::Expr::Function(call) = expr else {
        return false;
    };
    let name = call
        .name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map_or("", |ident| ident.value.as_str());
    call.over.is_none()
        && matches!(
            name,
            "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or"
        )
}

fn product(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_mul(other)),
        (one, other) => one.or(other),
    }
}

/// The levels of a sort of this many rows.
fn levels(rows: u64) -> u64 {
    u64::from(u64::BITS - rows.leading_zeros())
}

fn count_group_columns(select: &ast::Select) -> usize {
    match &select.group_by {
        ast::GroupByExpr::Expressions(keys, _) => keys.len(),
        ast::GroupByExpr::All(_) => usize::MAX,
    }
}

fn selects(body: &ast::SetExpr) -> Vec<&ast::Select> {
    match body {
        ast::SetExpr::Select(select) => vec![select],
        ast::SetExpr::SetOperation { left, right, .. } => [selects(left), selects(right)].concat(),
        // A separate query is visited by itself.
        _ => Vec::new(),
    }
}

fn of_joins(body: &ast::SetExpr) -> u64 {
    selects(body)
        .iter()
        .flat_map(|select| &select.from)
        .map(|tables| 1 + tables.joins.len() as u64)
        .sum()
}

/// The time to group the rows. A single key is the unit itself: then all rows are alike, and
/// nothing is sorted.
fn of_groups(body: &ast::SetExpr, rows: u64) -> u64 {
    let of_select = |select: &&ast::Select| match count_group_columns(select) {
        _ if select.distinct.is_some() => levels(rows).saturating_mul(GROUPED),
        0 => 0,
        1 => GROUPED,
        _ => levels(rows).saturating_mul(GROUPED),
    };
    selects(body).iter().map(of_select).sum()
}

fn is_distinct(call: &ast::Function) -> bool {
    match &call.args {
        ast::FunctionArguments::List(list) => {
            list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)
        }
        _ => false,
    }
}

/// Rows that may enter the frame at each row: for a frame whose start moves.
fn frame_rows(call: &ast::Function, rows: u64) -> u64 {
    use ast::WindowFrameBound as Bound;
    let Some(ast::WindowType::WindowSpec(spec)) = &call.over else {
        return 0;
    };
    let Some(frame) = &spec.window_frame else {
        return 0;
    };
    let reach = |bound: &Bound| match bound {
        Bound::CurrentRow => 0,
        Bound::Preceding(Some(offset)) | Bound::Following(Some(offset))
            if frame.units == ast::WindowFrameUnits::Rows =>
        {
            number(offset).unwrap_or(rows)
        }
        Bound::Preceding(_) | Bound::Following(_) => rows,
    };
    let is_row =
        |bound: &Bound| *bound != Bound::CurrentRow || frame.units == ast::WindowFrameUnits::Rows;
    match (&frame.start_bound, &frame.end_bound) {
        (Bound::Preceding(None), _) => 0,
        (start, end) if is_row(start) && end.as_ref().is_none_or(is_row) => {
            rows.min(1 + reach(start).saturating_add(end.as_ref().map_or(0, reach)))
        }
        _ => rows,
    }
}

fn number(offset: &ast::Expr) -> Option<u64> {
    match offset {
        ast::Expr::Nested(inner) | ast::Expr::Cast { expr: inner, .. } => number(inner),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}
