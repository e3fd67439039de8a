//! Names with their database before them (`shop.public.orders`), which PostgreSQL takes where it is
//! the database that the client is connected to.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Query;
use crate::visit;

impl Query {
    /// The query with the name of this database taken off tables and columns. Names of other
    /// databases stay, and are refused where they are looked up.
    #[must_use]
    pub fn within(&self, database: &str) -> Self {
        let mut query = self.clone();
        let _ = visit::visit_mut(&mut *query.0, &mut Within(database));
        query
    }
}

struct Within<'a>(&'a str);

impl Within<'_> {
    fn is_it(&self, ident: &ast::Ident) -> bool {
        match ident.quote_style {
            Some(_) => ident.value == self.0,
            None => ident.value.to_ascii_lowercase() == self.0,
        }
    }

    /// `database.schema.table`.
    fn relation(&self, name: &mut ast::ObjectName) {
        if let [ast::ObjectNamePart::Identifier(database), _, _] = name.0.as_slice()
            && self.is_it(database)
        {
            name.0.remove(0);
        }
    }
}

impl ast::VisitorMut for Within<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ast::ObjectName) -> ControlFlow<()> {
        self.relation(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut ast::Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let ast::SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
            {
                self.relation(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let [database, _, _, _] = parts.as_slice()
            && self.is_it(database)
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Statement, parse};

    #[test]
    fn the_databases_own_name_is_taken_off() {
        for (sql, wanted) in [
            (
                "SELECT shop.a.t.x, a.t.y FROM shop.a.t",
                "SELECT a.t.x, a.t.y FROM a.t",
            ),
            (
                "SELECT \"shop\".a.t.* FROM SHOP.a.t JOIN a.u ON true",
                "SELECT a.t.* FROM a.t JOIN a.u ON true",
            ),
            (
                "SELECT \"SHOP\".a.t.x FROM other.a.t",
                "SELECT \"SHOP\".a.t.x FROM other.a.t",
            ),
            (
                "SELECT 1 FROM shop.t WHERE x IN (SELECT y FROM shop.b.u)",
                "SELECT 1 FROM shop.t WHERE x IN (SELECT y FROM b.u)",
            ),
        ] {
            let statements = parse(sql).unwrap();
            let [Statement::Query(query)] = statements.as_slice() else {
                panic!("{sql}")
            };
            assert_eq!(query.within("shop").to_sql(), wanted);
        }
    }
}
