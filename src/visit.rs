//! Walks the parser's syntax trees.
//!
//! The parser copies the walk over its whole tree once for every visitor type. With fifty visitors
//! that was more than half of what the compiler had to translate. Here every visitor is called
//! through one trait object, so the walk exists twice: to read, and to change.

use std::ops::ControlFlow;

use sqlparser::ast;

/// Visits a tree. The walk ends at the first break, whose value it returns.
pub(crate) fn visit<V: ast::Visitor>(
    tree: &impl ast::Visit,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut reader = UntilBreak {
        visitor,
        broken: None,
    };
    #[expect(clippy::disallowed_methods, reason = "the one walk that reads")]
    let _ = tree.visit(&mut Reading(&mut reader));
    reader
        .broken
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits a tree, and may change it. The walk ends at the first break, whose value it returns.
pub(crate) fn visit_mut<V: ast::VisitorMut>(
    tree: &mut impl ast::VisitMut,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut writer = UntilBreak {
        visitor,
        broken: None,
    };
    #[expect(clippy::disallowed_methods, reason = "the one walk that changes")]
    let _ = tree.visit(&mut Changing(&mut writer));
    writer
        .broken
        .map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits every expression of a tree, each before its parts.
pub(crate) fn visit_expressions<B>(
    tree: &impl ast::Visit,
    read: impl FnMut(&ast::Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Expressions<F>(F);
    impl<B, F: FnMut(&ast::Expr) -> ControlFlow<B>> ast::Visitor for Expressions<F> {
        type Break = B;
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<B> {
            (self.0)(expr)
        }
    }
    visit(tree, &mut Expressions(read))
}

/// A visitor, and the value with which it broke the walk off.
struct UntilBreak<'a, V, B> {
    visitor: &'a mut V,
    broken: Option<B>,
}

/// The calls of the walk at each node. Both traits have every method of the parser's visitors, so
/// that none that a visitor overrides is passed over.
macro_rules! hooks {
    ($($hook:ident($node:ty);)*) => {
        trait Read {
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()>;)*
        }

        impl<V: ast::Visitor> Read for UntilBreak<'_, V, V::Break> {
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                self.visitor.$hook(node).map_break(|value| self.broken = Some(value))
            })*
        }

        struct Reading<'a>(&'a mut dyn Read);

        impl ast::Visitor for Reading<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }

        trait Change {
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()>;)*
        }

        impl<V: ast::VisitorMut> Change for UntilBreak<'_, V, V::Break> {
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.visitor.$hook(node).map_break(|value| self.broken = Some(value))
            })*
        }

        struct Changing<'a>(&'a mut dyn Change);

        impl ast::VisitorMut for Changing<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }
    };
}

hooks! {
    pre_visit_query(ast::Query);
    post_visit_query(ast::Query);
    pre_visit_select(ast::Select);
    post_visit_select(ast::Select);
    pre_visit_relation(ast::ObjectName);
    post_visit_relation(ast::ObjectName);
    pre_visit_table_factor(ast::TableFactor);
    post_visit_table_factor(ast::TableFactor);
    pre_visit_expr(ast::Expr);
    post_visit_expr(ast::Expr);
    pre_visit_statement(ast::Statement);
    post_visit_statement(ast::Statement);
    pre_visit_value(ast::ValueWithSpan);
    post_visit_value(ast::ValueWithSpan);
    pre_visit_ident(ast::Ident);
    post_visit_ident(ast::Ident);
    pre_visit_order_by(ast::OrderBy);
    post_visit_order_by(ast::OrderBy);
    pre_visit_order_by_expr(ast::OrderByExpr);
    post_visit_order_by_expr(ast::OrderByExpr);
    pre_visit_group_by(ast::GroupByExpr);
    post_visit_group_by(ast::GroupByExpr);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::parser::Parser;

    fn tree(text: &str) -> ast::Statement {
        Parser::parse_sql(&PostgreSqlDialect {}, text)
            .unwrap()
            .remove(0)
    }

    /// Each name in the order of the walk, until one that is asked for.
    struct Names(Vec<String>, &'static str);

    impl ast::Visitor for Names {
        type Break = usize;
        fn pre_visit_ident(&mut self, name: &ast::Ident) -> ControlFlow<usize> {
            self.0.push(name.value.clone());
            if name.value == self.1 {
                return ControlFlow::Break(self.0.len());
            }
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn a_walk_ends_at_the_first_break() {
        let tree = tree("SELECT a, b, c FROM t WHERE d > 1");
        let mut names = Names(Vec::new(), "b");
        assert_eq!(visit(&tree, &mut names), ControlFlow::Break(2));
        assert_eq!(names.0, ["a", "b"]);
        let mut names = Names(Vec::new(), "none");
        assert_eq!(visit(&tree, &mut names), ControlFlow::Continue(()));
        assert_eq!(names.0, ["a", "b", "c", "t", "d"]);
    }

    #[test]
    fn a_walk_changes_what_it_visits() {
        struct Upper;
        impl ast::VisitorMut for Upper {
            type Break = ();
            fn post_visit_ident(&mut self, name: &mut ast::Ident) -> ControlFlow<()> {
                name.value.make_ascii_uppercase();
                ControlFlow::Continue(())
            }
        }
        let mut tree = tree("SELECT a FROM t");
        assert_eq!(visit_mut(&mut tree, &mut Upper), ControlFlow::Continue(()));
        assert_eq!(tree.to_string(), "SELECT A FROM T");
    }
}
