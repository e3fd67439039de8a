//! Which names of a statement stand for whole numbers of at most eight bytes, wherever they are
//! read: as numerics they have few digits.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator as B};

use crate::visit;

/// Names that SELECT lists of a statement give to its columns.
#[derive(Default)]
pub(super) struct WholeColumns {
    /// Whether all columns of the name are whole numbers.
    known: HashMap<String, bool>,
    /// Whether some column may have any name.
    has_others: bool,
    /// How many queries are being visited.
    depth: usize,
}

impl WholeColumns {
    pub fn of(statement: &ast::Query) -> Self {
        let mut found = Self::default();
        let _ = visit::visit(statement, &mut found);
        found
    }

    /// Whether the expression is a whole number of at most eight bytes, which PostgreSQL computes
    /// as one.
    pub fn is_whole(&self, expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Number(text, _) => text.parse::<i64>().is_ok(),
                _ => false,
            },
            ast::Expr::Identifier(name) => {
                !self.has_others && self.known.get(&name.value) == Some(&true)
            }
            ast::Expr::Nested(inner) => self.is_whole(inner),
            ast::Expr::UnaryOp {
                op: ast::UnaryOperator::Minus,
                expr,
            } => self.is_whole(expr),
            ast::Expr::Cast { data_type, .. } => matches!(
                data_type,
                ast::DataType::SmallInt(_) | ast::DataType::Integer(_) | ast::DataType::BigInt(_)
            ),
            ast::Expr::BinaryOp {
                op: B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo,
                left,
                right,
            } => self.is_whole(left) && self.is_whole(right),
            ast::Expr::Function(call) => {
                let name = super::name_of(call);
                let mut arguments = super::arguments(call).iter();
                ["abs", "greatest", "least", "nullif"].contains(&name)
                    && arguments.all(|argument| match argument {
                        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                            self.is_whole(expr)
                        }
                        _ => false,
                    })
            }
            _ => false,
        }
    }

    fn add(&mut self, name: &str, is_whole: bool) {
        let known = self.known.entry(name.to_owned()).or_insert(true);
        *known &= is_whole;
    }

    fn select(&mut self, select: &ast::Select) {
        for item in &select.projection {
            match item {
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let is_whole = self.is_whole(expr);
                    self.add(&alias.value, is_whole);
                }
                ast::SelectItem::UnnamedExpr(ast::Expr::CompoundIdentifier(parts)) => {
                    if let Some(name) = parts.last() {
                        self.add(&name.value, false);
                    }
                }
                // A name stays as it is, and nothing reads what has none.
                ast::SelectItem::UnnamedExpr(_) => {}
                _ => self.has_others = true,
            }
        }
    }
}

impl ast::Visitor for WholeColumns {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    /// Tables within are read before the SELECT list that reads them. The statement's own list is
    /// read by nobody.
    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        match &*query.body {
            _ if self.depth == 0 => {}
            ast::SetExpr::Select(select) => self.select(select),
            _ => self.has_others = true,
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &ast::TableFactor) -> ControlFlow<()> {
        // A table of the database has columns of any name, which are read with the table's; those
        // that an alias names are not known.
        let renames = |alias: &Option<ast::TableAlias>| {
            alias
                .as_ref()
                .is_some_and(|alias| !alias.columns.is_empty())
        };
        self.has_others |= match table {
            ast::TableFactor::Table { alias, .. } | ast::TableFactor::Derived { alias, .. } => {
                renames(alias)
            }
            ast::TableFactor::NestedJoin { .. } => false,
            _ => true,
        };
        ControlFlow::Continue(())
    }
}
