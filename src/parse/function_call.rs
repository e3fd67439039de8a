//! Calls of functions.

use sqlparser::ast;

/// A call in PostgreSQL's own grammar: no braces of ODBC, no parameters before the arguments, no
/// RESPECT NULLS.
pub struct FunctionCall<'c> {
    pub arguments: &'c ast::FunctionArguments,
    pub within_group: &'c [ast::OrderByExpr],
    pub filter: Option<&'c ast::Expr>,
    pub over: Option<&'c ast::WindowType>,
}

impl<'c> FunctionCall<'c> {
    /// `None` for other forms.
    pub fn of(function: &'c ast::Function) -> Option<Self> {
        let ast::Function {
            name: _,
            uses_odbc_syntax: false,
            parameters: ast::FunctionArguments::None,
            args,
            within_group,
            filter,
            null_treatment: None,
            over,
        } = function
        else {
            return None;
        };
        Some(Self {
            arguments: args,
            within_group,
            filter: filter.as_deref(),
            over: over.as_ref(),
        })
    }

    /// Whether the call has arguments alone, and no other clause.
    pub fn is_plain(&self) -> bool {
        self.within_group.is_empty() && self.filter.is_none() && self.over.is_none()
    }

    /// The arguments and whether they are DISTINCT; `None` where there is no list of them, or a
    /// clause within it.
    pub fn list(&self) -> Option<(&'c [ast::FunctionArg], bool)> {
        let ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment,
            args,
            clauses,
        }) = self.arguments
        else {
            return None;
        };
        let is_distinct = matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        clauses.is_empty().then_some((args, is_distinct))
    }

    /// The arguments, where each is an expression without a name, and nothing is said of
    /// duplicates.
    pub fn expressions(&self) -> Option<Vec<&'c ast::Expr>> {
        let ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = self.arguments
        else {
            return None;
        };
        let expression = |argument: &'c ast::FunctionArg| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        };
        match clauses.is_empty() {
            true => args.iter().map(expression).collect(),
            false => None,
        }
    }
}
