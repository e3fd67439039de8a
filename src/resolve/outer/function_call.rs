//! Function calls above the cut, with their arguments, orderings and windows.

use sqlparser::ast;

use super::allow_list;
use crate::parse::FunctionCall;
use crate::policy::VIEW_SCHEMA;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::cut::OuterPlace;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{names_of, position_of, record_named, unsupported_above};

fn function_refused(name: &str) -> Refusal {
    Refusal::new(
        reason::UNSUPPORTED_FUNCTION,
        format!("function {name}() is not supported"),
    )
    .detail(
        "Over released values, only functions that depend on nothing but their \
                arguments are allowed.",
    )
}

impl Resolver<'_> {
    pub(in crate::resolve) fn above_function(
        &mut self,
        function: &ast::Function,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Function, Refusal> {
        let name = &function.name;
        let names = names_of(name)?;
        if names == ["array"]
            && let ast::FunctionArguments::Subquery(query) = &function.args
        {
            return Ok(ast::Function {
                args: ast::FunctionArguments::Subquery(self.above_query(
                    query,
                    environment,
                    place,
                )?),
                ..plain_call(name)
            });
        }
        if let Some(record) = record_named(&names) {
            return Err(Refusal::new(
                reason::UNSUPPORTED_FUNCTION,
                format!(
                    "{VIEW_SCHEMA}.{}() is an aggregate over private tables alone",
                    record.name
                ),
            )
            .hint(format!("Over public tables {} are exact.", record.instead))
            .at(position_of(name)));
        }
        if !allow_list::is_function(&names) {
            if let Some(refusal) = super::uncertainty::refuse_without_aggregate(&names) {
                return Err(refusal);
            }
            return Err(function_refused(&names.join(".")).at(position_of(name)));
        }
        let Some(call) = FunctionCall::of(function) else {
            return Err(unsupported_above(
                reason::FUNCTION_FORM,
                "this form of call",
            ));
        };
        allow_list::check_growth(names.last().map_or("", String::as_str), call.arguments)?;
        let over = match call.over {
            None => None,
            Some(ast::WindowType::WindowSpec(window)) => Some(ast::WindowType::WindowSpec(
                self.above_window(window, environment, place)?,
            )),
            Some(ast::WindowType::NamedWindow(name)) => {
                Some(ast::WindowType::NamedWindow(name.clone()))
            }
        };
        Ok(ast::Function {
            args: self.above_arguments(call.arguments, environment, place)?,
            within_group: self.above_ordering(call.within_group, environment, place)?,
            filter: call
                .filter
                .map(|f| self.above(f, environment, place).map(Box::new))
                .transpose()?,
            over,
            ..plain_call(name)
        })
    }

    fn above_arguments(
        &mut self,
        arguments: &ast::FunctionArguments,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::FunctionArguments, Refusal> {
        match arguments {
            ast::FunctionArguments::None => Ok(ast::FunctionArguments::None),
            ast::FunctionArguments::Subquery(_) => Err(unsupported_above(
                reason::SUBQUERY_FORM,
                "a subquery as argument",
            )),
            ast::FunctionArguments::List(ast::FunctionArgumentList {
                duplicate_treatment,
                args,
                clauses,
            }) => {
                let args = args
                    .iter()
                    .map(|a| self.above_argument(a, environment, place))
                    .collect::<Result<_, _>>()?;
                let clauses = clauses
                    .iter()
                    .map(|clause| match clause {
                        ast::FunctionArgumentClause::OrderBy(order) => {
                            Ok(ast::FunctionArgumentClause::OrderBy(self.above_ordering(
                                order,
                                environment,
                                place,
                            )?))
                        }
                        _ => Err(unsupported_above(
                            reason::FUNCTION_FORM,
                            "this clause of a call",
                        )),
                    })
                    .collect::<Result<_, _>>()?;
                Ok(ast::FunctionArguments::List(ast::FunctionArgumentList {
                    duplicate_treatment: *duplicate_treatment,
                    args,
                    clauses,
                }))
            }
        }
    }

    pub(in crate::resolve) fn above_argument(
        &mut self,
        argument: &ast::FunctionArg,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::FunctionArg, Refusal> {
        match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                Ok(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(
                    self.above(expr, environment, place)?,
                )))
            }
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => Ok(argument.clone()),
            ast::FunctionArg::ExprNamed {
                name: name @ ast::Expr::Identifier(_),
                arg: ast::FunctionArgExpr::Expr(expr),
                operator:
                    operator @ (ast::FunctionArgOperator::RightArrow
                    | ast::FunctionArgOperator::Assignment),
            } => {
                let arg = ast::FunctionArgExpr::Expr(self.above(expr, environment, place)?);
                Ok(ast::FunctionArg::ExprNamed {
                    name: name.clone(),
                    arg,
                    operator: operator.clone(),
                })
            }
            _ => Err(unsupported_above(
                reason::FUNCTION_FORM,
                "this form of argument",
            )),
        }
    }

    pub(in crate::resolve) fn above_window(
        &mut self,
        window: &ast::WindowSpec,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::WindowSpec, Refusal> {
        let ast::WindowSpec {
            window_name,
            partition_by,
            order_by,
            window_frame,
        } = window;
        let window_frame = window_frame
            .as_ref()
            .map(
                |ast::WindowFrame {
                     units,
                     start_bound,
                     end_bound,
                 }| {
                    Ok::<_, Refusal>(ast::WindowFrame {
                        units: *units,
                        start_bound: self.above_bound(start_bound, environment, place)?,
                        end_bound: end_bound
                            .as_ref()
                            .map(|b| self.above_bound(b, environment, place))
                            .transpose()?,
                    })
                },
            )
            .transpose()?;
        Ok(ast::WindowSpec {
            window_name: window_name.clone(),
            partition_by: partition_by
                .iter()
                .map(|e| self.above(e, environment, place))
                .collect::<Result<_, _>>()?,
            order_by: self.above_ordering(order_by, environment, place)?,
            window_frame,
        })
    }

    fn above_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::WindowFrameBound, Refusal> {
        use ast::WindowFrameBound as B;
        Ok(match bound {
            B::CurrentRow => B::CurrentRow,
            B::Preceding(e) => B::Preceding(
                e.as_ref()
                    .map(|e| self.above(e, environment, place).map(Box::new))
                    .transpose()?,
            ),
            B::Following(e) => B::Following(
                e.as_ref()
                    .map(|e| self.above(e, environment, place).map(Box::new))
                    .transpose()?,
            ),
        })
    }

    fn above_ordering(
        &mut self,
        order: &[ast::OrderByExpr],
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<Vec<ast::OrderByExpr>, Refusal> {
        order
            .iter()
            .map(
                |ast::OrderByExpr {
                     expr,
                     options,
                     with_fill,
                 }| match with_fill {
                    None => Ok(ast::OrderByExpr {
                        expr: self.above(expr, environment, place)?,
                        options: options.clone(),
                        with_fill: None,
                    }),
                    Some(_) => Err(Refusal::new(
                        reason::SYNTAX_ERROR,
                        "WITH FILL is not valid in PostgreSQL",
                    )),
                },
            )
            .collect()
    }

    /// The WINDOW clause.
    pub(in crate::resolve) fn above_named_windows(
        &mut self,
        windows: &[ast::NamedWindowDefinition],
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<Vec<ast::NamedWindowDefinition>, Refusal> {
        windows
            .iter()
            .map(|ast::NamedWindowDefinition(name, window)| match window {
                ast::NamedWindowExpr::WindowSpec(window) => {
                    let window = ast::NamedWindowExpr::WindowSpec(self.above_window(
                        window,
                        environment,
                        place,
                    )?);
                    Ok(ast::NamedWindowDefinition(name.clone(), window))
                }
                ast::NamedWindowExpr::NamedWindow(_) => Err(Refusal::new(
                    reason::SYNTAX_ERROR,
                    "a window is defined in parentheses",
                )
                .at(crate::resolve::syntax::position(name.span))),
            })
            .collect()
    }
}

fn plain_call(name: &ast::ObjectName) -> ast::Function {
    ast::Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::None,
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    }
}
