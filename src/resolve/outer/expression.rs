//! Expressions above the cut, over released and public values. An allow-list holds the nodes and
//! functions that may be used.

mod predicates;

use std::borrow::Cow;
use std::ops::ControlFlow;

use sqlparser::ast;

use super::allow_list;
use crate::ir::literal::INTERVAL_HINT;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::cut::OuterPlace;
use crate::resolve::expression::construct;
use crate::resolve::names::environment::Environment;
use crate::resolve::session_functions;
use crate::resolve::syntax::{bare_name, names_of, place_of, unsupported_above};
use crate::visit;

impl Resolver<'_> {
    /// Rewrites an expression above the cut, node by node. Nodes that are not listed are refused.
    pub(in crate::resolve) fn above(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        self.rewrite_expression(expr, environment, place)
            .map_err(|refusal| refusal.within(|| place_of(expr)))
    }

    /// Names, constants, casts and calls. Each of the functions below handles some other forms.
    fn rewrite_expression(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        if let OuterPlace::Cut(cut) = place
            && let Some(replaced) = cut.replace(self, expr)?
        {
            return Ok(replaced);
        }
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        Ok(match expr {
            E::Identifier(_) | E::CompoundIdentifier(_) => expr.clone(),
            E::Value(value) => allow_list::constant(value)?,
            E::TypedString(ast::TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) => {
                allow_list::check_type(data_type)?;
                allow_list::constant(value)?;
                expr.clone()
            }
            E::Interval(interval) => {
                E::Interval(self.above_interval(interval, environment, place)?)
            }
            E::Nested(e) => E::Nested(one(self, e, place)?),
            E::Cast {
                kind: kind @ (ast::CastKind::Cast | ast::CastKind::DoubleColon),
                expr,
                data_type,
                format: None,
            } => {
                allow_list::check_type(data_type)?;
                E::Cast {
                    kind: kind.clone(),
                    expr: one(self, expr, place)?,
                    data_type: data_type.clone(),
                    format: None,
                }
            }
            E::Function(function) if is_session_user(function) => {
                session_functions::name(&self.names.constants.role)
            }
            E::Function(function) => match self.names.constants.session.fact(function) {
                Some(fact) => fact,
                None => E::Function(self.above_function(function, environment, place)?),
            },
            E::Tuple(items) => E::Tuple(self.above_all(items, environment, place)?),
            E::Array(ast::Array { elem, named }) => {
                let elem = self.above_all(elem, environment, place)?;
                E::Array(ast::Array {
                    elem,
                    named: *named,
                })
            }
            other => self.above_subquery_form(other, environment, place)?,
        })
    }

    /// Subqueries, ANY and ALL; COLLATE.
    fn above_subquery_form(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        Ok(match expr {
            E::AnyOp {
                left,
                compare_op,
                right,
                is_some,
            } => {
                allow_list::check_binary(compare_op)?;
                let (left, right) = (one(self, left, place)?, one(self, right, place)?);
                E::AnyOp {
                    left,
                    compare_op: compare_op.clone(),
                    right,
                    is_some: *is_some,
                }
            }
            E::AllOp {
                left,
                compare_op,
                right,
            } => {
                allow_list::check_binary(compare_op)?;
                E::AllOp {
                    left: one(self, left, place)?,
                    compare_op: compare_op.clone(),
                    right: one(self, right, place)?,
                }
            }
            E::Collate { expr, collation } => {
                allow_list::check_collation(collation)?;
                E::Collate {
                    expr: one(self, expr, place)?,
                    collation: collation.clone(),
                }
            }
            E::Subquery(query) => {
                let looked_up = match place {
                    OuterPlace::Open => self.looked_up(query, environment)?,
                    OuterPlace::Cut(_) => None,
                };
                E::Subquery(self.above_query(
                    looked_up.as_ref().unwrap_or(query),
                    environment,
                    place,
                )?)
            }
            E::Exists { subquery, negated } => E::Exists {
                subquery: self.above_query(subquery, environment, place)?,
                negated: *negated,
            },
            E::InSubquery {
                expr,
                subquery,
                negated,
            } => E::InSubquery {
                expr: one(self, expr, place)?,
                subquery: self.above_query(subquery, environment, place)?,
                negated: *negated,
            },
            other => self.above_predicate(other, environment, place)?,
        })
    }

    /// CASE, and functions of dates, numbers and arrays with special grammar.
    fn above_grammar(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        let maybe = |this: &mut Self, e: &Option<Box<ast::Expr>>, place: &mut OuterPlace<'_>| {
            e.as_ref()
                .map(|e| this.above(e, environment, place).map(Box::new))
                .transpose()
        };
        Ok(match expr {
            E::AtTimeZone {
                timestamp,
                time_zone,
            } => E::AtTimeZone {
                timestamp: one(self, timestamp, place)?,
                time_zone: one(self, time_zone, place)?,
            },
            E::Extract {
                field,
                syntax,
                expr,
            } => E::Extract {
                field: field.clone(),
                syntax: syntax.clone(),
                expr: one(self, expr, place)?,
            },
            E::Ceil { expr, field } => E::Ceil {
                expr: one(self, expr, place)?,
                field: field.clone(),
            },
            E::Floor { expr, field } => E::Floor {
                expr: one(self, expr, place)?,
                field: field.clone(),
            },
            E::CompoundFieldAccess { root, access_chain } => {
                self.above_accesses((root, access_chain), environment, place)?
            }
            E::Case {
                case_token,
                end_token,
                operand,
                conditions,
                else_result,
            } => E::Case {
                case_token: case_token.clone(),
                end_token: end_token.clone(),
                operand: maybe(self, operand, place)?,
                conditions: self.above_conditions(conditions, environment, place)?,
                else_result: maybe(self, else_result, place)?,
            },
            other => self.above_text_function(other, environment, place)?,
        })
    }

    /// Functions of texts with special grammar.
    fn above_text_function(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        let one = |this: &mut Self, e: &ast::Expr, place: &mut OuterPlace<'_>| {
            this.above(e, environment, place).map(Box::new)
        };
        let maybe = |this: &mut Self, e: &Option<Box<ast::Expr>>, place: &mut OuterPlace<'_>| {
            e.as_ref()
                .map(|e| this.above(e, environment, place).map(Box::new))
                .transpose()
        };
        Ok(match expr {
            E::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => E::Overlay {
                expr: one(self, expr, place)?,
                overlay_what: one(self, overlay_what, place)?,
                overlay_from: one(self, overlay_from, place)?,
                overlay_for: maybe(self, overlay_for, place)?,
            },
            E::Position { expr, r#in } => E::Position {
                expr: one(self, expr, place)?,
                r#in: one(self, r#in, place)?,
            },
            E::Substring {
                expr,
                substring_from,
                substring_for,
                special,
                shorthand,
            } => E::Substring {
                expr: one(self, expr, place)?,
                substring_from: maybe(self, substring_from, place)?,
                substring_for: maybe(self, substring_for, place)?,
                special: *special,
                shorthand: *shorthand,
            },
            E::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters: None,
            } => E::Trim {
                trim_where: *trim_where,
                trim_what: maybe(self, trim_what, place)?,
                expr: one(self, expr, place)?,
                trim_characters: None,
            },
            other => {
                return Err(unsupported_above(
                    reason::UNSUPPORTED_EXPRESSION,
                    construct(other),
                ));
            }
        })
    }

    fn above_conditions(
        &mut self,
        conditions: &[ast::CaseWhen],
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<Vec<ast::CaseWhen>, Refusal> {
        conditions
            .iter()
            .map(|ast::CaseWhen { condition, result }| {
                Ok(ast::CaseWhen {
                    condition: self.above(condition, environment, place)?,
                    result: self.above(result, environment, place)?,
                })
            })
            .collect()
    }

    fn above_all(
        &mut self,
        exprs: &[ast::Expr],
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<Vec<ast::Expr>, Refusal> {
        exprs
            .iter()
            .map(|e| self.above(e, environment, place))
            .collect()
    }

    fn above_interval(
        &mut self,
        interval: &ast::Interval,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<ast::Interval, Refusal> {
        let ast::Interval {
            value,
            leading_field,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        } = interval;
        // PostgreSQL reads any other word after the constant as an alias.
        if leading_field
            .as_ref()
            .is_some_and(|field| !is_interval_field(field))
        {
            return Err(unsupported_above(
                reason::UNSUPPORTED_CONSTANT,
                "this unit behind an interval constant",
            )
            .hint(INTERVAL_HINT));
        }
        Ok(ast::Interval {
            value: Box::new(self.above(value, environment, place)?),
            leading_field: leading_field.clone(),
            leading_precision: *leading_precision,
            last_field: last_field.clone(),
            fractional_seconds_precision: *fractional_seconds_precision,
        })
    }

    /// A subquery in an expression. In a cut it may name the release's keys. The other columns of
    /// the private rows do not exist above the cut. Such a name could find something else there, a
    /// column of the release or of a query around it, so it is refused.
    pub(in crate::resolve) fn above_query(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
        place: &mut OuterPlace<'_>,
    ) -> Result<Box<ast::Query>, Refusal> {
        let query = match place {
            OuterPlace::Open => Cow::Borrowed(query),
            OuterPlace::Cut(_) if self.names.subqueries > 0 || names_a_release_column(query) => {
                return Err(unsupported_above(
                    reason::SUBQUERY_FORM,
                    "a subquery in an expression of a grouped subquery",
                ));
            }
            OuterPlace::Cut(cut) => Cow::Owned(self.correlate(query, environment, cut)?),
        };
        self.names.subqueries += 1;
        let opened = self.open_query(&query, environment);
        self.names.subqueries -= 1;
        opened.map(Box::new)
    }
}

/// CURRENT_USER, SESSION_USER, USER and CURRENT_ROLE, written without parentheses.
pub(in crate::resolve) fn is_session_user(function: &ast::Function) -> bool {
    let bare = matches!(function.args, ast::FunctionArguments::None);
    let users = ["current_user", "session_user", "user", "current_role"];
    bare && names_of(&function.name).is_ok_and(|names| match names.as_slice() {
        [name] => users.contains(&name.as_str()),
        _ => false,
    })
}

/// Whether a bare name could be a column of the released rows: `k0`, `a12`.
fn names_a_release_column(query: &ast::Query) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            let number =
                bare_name(expr).and_then(|name| name.strip_prefix(['k', 'a']).map(str::to_owned));
            match number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    visit::visit(query, &mut Search).is_break()
}

fn is_interval_field(field: &ast::DateTimeField) -> bool {
    use ast::DateTimeField as D;
    matches!(
        field,
        D::Year | D::Month | D::Day | D::Hour | D::Minute | D::Second
    )
}
