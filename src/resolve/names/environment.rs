//! Common table expressions in scope.

use std::ops::ControlFlow;
use std::rc::Rc;

use sqlparser::ast;

use crate::refusal::Refusal;
use crate::resolve::classify::rows::QueryRows;
use crate::resolve::syntax::{name_of, names_of};
use crate::visit;

/// Common table expressions in scope, innermost last.
#[derive(Debug, Clone, Default)]
pub struct Environment(Option<Rc<CteDefinition>>);

#[derive(Debug)]
pub struct CteDefinition {
    pub name: String,
    pub cte: ast::Cte,
    /// The definitions in scope at this definition.
    pub environment: Environment,
    /// What its rows are. Private rows are inlined, never printed.
    pub rows: QueryRows,
    /// The definition to print, over released and public tables. `None` if it selects private rows:
    /// then it is inlined.
    pub opened: Option<ast::Cte>,
    /// Whether the query must run before rows that read it.
    pub is_middle: bool,
    pub recursion: Recursion,
    outside: Environment,
}

/// Whether a definition names itself (WITH RECURSIVE). A recursive definition is printed, never
/// inlined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    None,
    /// Seen from its own query.
    Within,
    Defined,
}

impl Environment {
    pub fn find(&self, name: &str) -> Option<Rc<CteDefinition>> {
        let mut next = self.0.clone();
        while let Some(definition) = next {
            if definition.name == name {
                return Some(definition);
            }
            next = definition.outside.0.clone();
        }
        None
    }

    /// `is_middle`: whether the definition must run before rows that read it.
    pub(in crate::resolve) fn with(
        &self,
        name: String,
        cte: ast::Cte,
        rows: QueryRows,
        opened: Option<ast::Cte>,
        is_middle: bool,
    ) -> Self {
        let (environment, outside) = (self.clone(), self.clone());
        Self(Some(Rc::new(CteDefinition {
            name,
            cte,
            environment,
            rows,
            opened,
            is_middle,
            recursion: Recursion::None,
            outside,
        })))
    }

    /// A recursive definition, seen from within or after it.
    pub(in crate::resolve) fn with_recursive(
        &self,
        name: String,
        cte: ast::Cte,
        opened: ast::Cte,
        recursion: Recursion,
    ) -> Self {
        let (environment, outside) = (self.clone(), self.clone());
        Self(Some(Rc::new(CteDefinition {
            name,
            cte,
            environment,
            rows: QueryRows::default(),
            opened: Some(opened),
            is_middle: true,
            recursion,
            outside,
        })))
    }

    /// Every definition in scope, innermost first.
    pub fn definitions(&self) -> impl Iterator<Item = Rc<CteDefinition>> {
        std::iter::successors(self.0.clone(), |definition| definition.outside.0.clone())
    }
}

/// Whether FROM, anywhere in the query, has a bare name of one of these.
///
/// # Errors
/// 42601 and 42622 for invalid names.
pub fn names_any(query: &ast::Query, ctes: &[ast::Cte]) -> Result<bool, Refusal> {
    struct Search(Vec<String>);
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
            match names_of(relation).as_deref() {
                Ok([name]) if self.0.contains(name) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let names = ctes
        .iter()
        .map(|cte| name_of(&cte.alias.name))
        .collect::<Result<_, _>>()?;
    Ok(visit::visit(query, &mut Search(names)).is_break())
}
