//! Expressions above the cut: the analyst's own, over released and public values, through an allow-list of nodes and functions.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Resolver;
use super::catalogue::OUTER;
use super::cut::Cut;
use super::expression::{bare_name, construct, type_of};
use super::query::Environment;
use super::scope::names_of;
use crate::refusal::{Refusal, sqlstate};

/// Where an expression stands.
pub(super) enum Above<'c> {
    /// Over public and released tables only.
    Open,
    /// Over a release that is being cut: aggregates and keys become its columns.
    Cut(&'c mut Cut),
}

impl Resolver<'_> {
    /// Rewrites an expression above the cut, node by node; a node that is not listed is refused.
    #[expect(clippy::too_many_lines, reason = "one arm for each form of expression that may stand above the cut")]
    pub(super) fn above(&mut self, expr: &ast::Expr, environment: &Environment, place: &mut Above<'_>) -> Result<ast::Expr, Refusal> {
        use ast::Expr as E;
        if let Above::Cut(cut) = place
            && let Some(replaced) = cut.replace(self, expr)?
        {
            return Ok(replaced);
        }
        let one = |this: &mut Self, e: &ast::Expr, place: &mut Above<'_>| this.above(e, environment, place).map(Box::new);
        Ok(match expr {
            E::Identifier(_) | E::CompoundIdentifier(_) => expr.clone(),
            E::Value(value) => open_value(value)?,
            E::TypedString(ast::TypedString { data_type, value: _, uses_odbc_syntax: false }) => {
                check_type(data_type)?;
                expr.clone()
            }
            E::Interval(ast::Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision }) => {
                E::Interval(ast::Interval {
                    value: one(self, value, place)?,
                    leading_field: leading_field.clone(),
                    leading_precision: *leading_precision,
                    last_field: last_field.clone(),
                    fractional_seconds_precision: *fractional_seconds_precision,
                })
            }
            E::Nested(e) => E::Nested(one(self, e, place)?),
            E::IsNull(e) => E::IsNull(one(self, e, place)?),
            E::IsNotNull(e) => E::IsNotNull(one(self, e, place)?),
            E::IsTrue(e) => E::IsTrue(one(self, e, place)?),
            E::IsNotTrue(e) => E::IsNotTrue(one(self, e, place)?),
            E::IsFalse(e) => E::IsFalse(one(self, e, place)?),
            E::IsNotFalse(e) => E::IsNotFalse(one(self, e, place)?),
            E::IsUnknown(e) => E::IsUnknown(one(self, e, place)?),
            E::IsNotUnknown(e) => E::IsNotUnknown(one(self, e, place)?),
            E::IsDistinctFrom(a, b) => E::IsDistinctFrom(one(self, a, place)?, one(self, b, place)?),
            E::IsNotDistinctFrom(a, b) => E::IsNotDistinctFrom(one(self, a, place)?, one(self, b, place)?),
            E::UnaryOp { op, expr } => E::UnaryOp { op: open_unary(*op)?, expr: one(self, expr, place)? },
            E::BinaryOp { left, op, right } => E::BinaryOp { left: one(self, left, place)?, op: open_binary(op)?, right: one(self, right, place)? },
            E::Between { expr, negated, low, high } => {
                E::Between { expr: one(self, expr, place)?, negated: *negated, low: one(self, low, place)?, high: one(self, high, place)? }
            }
            E::InList { expr, list, negated } => {
                let list = list.iter().map(|e| self.above(e, environment, place)).collect::<Result<_, _>>()?;
                E::InList { expr: one(self, expr, place)?, list, negated: *negated }
            }
            E::Like { negated, any: false, expr, pattern, escape_char } => E::Like {
                negated: *negated,
                any: false,
                expr: one(self, expr, place)?,
                pattern: one(self, pattern, place)?,
                escape_char: escape_char.as_ref().map(|e| one(self, e, place)).transpose()?,
            },
            E::ILike { negated, any: false, expr, pattern, escape_char } => E::ILike {
                negated: *negated,
                any: false,
                expr: one(self, expr, place)?,
                pattern: one(self, pattern, place)?,
                escape_char: escape_char.as_ref().map(|e| one(self, e, place)).transpose()?,
            },
            E::Cast { kind: kind @ (ast::CastKind::Cast | ast::CastKind::DoubleColon), expr, data_type, format: None } => {
                check_type(data_type)?;
                E::Cast { kind: kind.clone(), expr: one(self, expr, place)?, data_type: data_type.clone(), format: None }
            }
            E::AtTimeZone { timestamp, time_zone } => {
                E::AtTimeZone { timestamp: one(self, timestamp, place)?, time_zone: one(self, time_zone, place)? }
            }
            E::Extract { field, syntax, expr } => E::Extract { field: field.clone(), syntax: syntax.clone(), expr: one(self, expr, place)? },
            E::Ceil { expr, field } => E::Ceil { expr: one(self, expr, place)?, field: field.clone() },
            E::Floor { expr, field } => E::Floor { expr: one(self, expr, place)?, field: field.clone() },
            E::Position { expr, r#in } => E::Position { expr: one(self, expr, place)?, r#in: one(self, r#in, place)? },
            E::Substring { expr, substring_from, substring_for, special, shorthand } => E::Substring {
                expr: one(self, expr, place)?,
                substring_from: substring_from.as_ref().map(|e| one(self, e, place)).transpose()?,
                substring_for: substring_for.as_ref().map(|e| one(self, e, place)).transpose()?,
                special: *special,
                shorthand: *shorthand,
            },
            E::Trim { trim_where, trim_what, expr, trim_characters: None } => E::Trim {
                trim_where: *trim_where,
                trim_what: trim_what.as_ref().map(|e| one(self, e, place)).transpose()?,
                expr: one(self, expr, place)?,
                trim_characters: None,
            },
            E::Case { case_token, end_token, operand, conditions, else_result } => E::Case {
                case_token: case_token.clone(),
                end_token: end_token.clone(),
                operand: operand.as_ref().map(|e| one(self, e, place)).transpose()?,
                conditions: conditions
                    .iter()
                    .map(|ast::CaseWhen { condition, result }| {
                        Ok(ast::CaseWhen { condition: self.above(condition, environment, place)?, result: self.above(result, environment, place)? })
                    })
                    .collect::<Result<_, Refusal>>()?,
                else_result: else_result.as_ref().map(|e| one(self, e, place)).transpose()?,
            },
            E::Function(function) => match is_session_user(function) {
                true => self.session_user(),
                false => E::Function(self.above_function(function, environment, place)?),
            },
            E::Tuple(items) => E::Tuple(items.iter().map(|e| self.above(e, environment, place)).collect::<Result<_, _>>()?),
            E::Array(ast::Array { elem, named }) => {
                let elem = elem.iter().map(|e| self.above(e, environment, place)).collect::<Result<_, _>>()?;
                E::Array(ast::Array { elem, named: *named })
            }
            E::Subquery(query) => E::Subquery(self.above_query(query, environment, place)?),
            E::Exists { subquery, negated } => E::Exists { subquery: self.above_query(subquery, environment, place)?, negated: *negated },
            E::InSubquery { expr, subquery, negated } => {
                E::InSubquery { expr: one(self, expr, place)?, subquery: self.above_query(subquery, environment, place)?, negated: *negated }
            }
            other => return Err(unsupported_above(construct(other))),
        })
    }

    /// A subquery of an expression. One that stands in a cut may not mean a column of the private rows: that name is gone above the cut, and what else it
    /// might find there (a column of the release, or of a query around the cut one) is another thing.
    fn above_query(&mut self, query: &ast::Query, environment: &Environment, place: &Above<'_>) -> Result<Box<ast::Query>, Refusal> {
        if let Above::Cut(_) = place
            && (self.subqueries > 0 || names_a_release_column(query))
        {
            return Err(unsupported_above("a subquery in an expression of a grouped subquery"));
        }
        self.subqueries += 1;
        let opened = self.open_query(query, environment);
        self.subqueries -= 1;
        opened.map(Box::new)
    }

    /// The role that asks, where the shadow would name its own.
    fn session_user(&self) -> ast::Expr {
        let role = self.constants.role.clone();
        let value = if role.contains(['\'', '\\']) { ast::Value::EscapedStringLiteral(role) } else { ast::Value::SingleQuotedString(role) };
        let name = ast::ObjectName(vec![ast::ObjectNamePart::Identifier(ast::Ident::new("name"))]);
        ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::Value(value.into())),
            data_type: ast::DataType::Custom(name, Vec::new()),
            format: None,
        }
    }

    fn above_function(&mut self, function: &ast::Function, environment: &Environment, place: &mut Above<'_>) -> Result<ast::Function, Refusal> {
        let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } = function;
        let names = names_of(name)?;
        let known = match names.as_slice() {
            [name] => OUTER.contains(&name.as_str()),
            [schema, name] => schema == "pg_catalog" && OUTER.contains(&name.as_str()),
            _ => false,
        };
        if !known {
            if let Some(refusal) = super::uncertainty::refused(&names) {
                return Err(refusal);
            }
            let shown = names.join(".");
            return Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("function {shown}() is not supported"))
                .detail("Only functions that read nothing but their arguments may be used over released values."));
        }
        if *uses_odbc_syntax || !matches!(parameters, ast::FunctionArguments::None) || null_treatment.is_some() {
            return Err(unsupported_above("this form of call"));
        }
        check_growth(names.last().map_or("", String::as_str), args)?;
        let over = match over {
            None => None,
            Some(ast::WindowType::WindowSpec(window)) => Some(ast::WindowType::WindowSpec(self.above_window(window, environment, place)?)),
            Some(ast::WindowType::NamedWindow(_)) => return Err(unsupported_above("a named window")),
        };
        Ok(ast::Function {
            name: name.clone(),
            uses_odbc_syntax: false,
            parameters: ast::FunctionArguments::None,
            args: self.above_arguments(args, environment, place)?,
            within_group: self.above_ordering(within_group, environment, place)?,
            filter: filter.as_ref().map(|f| self.above(f, environment, place).map(Box::new)).transpose()?,
            null_treatment: None,
            over,
        })
    }

    fn above_arguments(
        &mut self,
        arguments: &ast::FunctionArguments,
        environment: &Environment,
        place: &mut Above<'_>,
    ) -> Result<ast::FunctionArguments, Refusal> {
        match arguments {
            ast::FunctionArguments::None => Ok(ast::FunctionArguments::None),
            ast::FunctionArguments::Subquery(_) => Err(unsupported_above("a subquery as argument")),
            ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment, args, clauses }) => {
                let args = args.iter().map(|a| self.above_argument(a, environment, place)).collect::<Result<_, _>>()?;
                let clauses = clauses
                    .iter()
                    .map(|clause| match clause {
                        ast::FunctionArgumentClause::OrderBy(order) => {
                            Ok(ast::FunctionArgumentClause::OrderBy(self.above_ordering(order, environment, place)?))
                        }
                        _ => Err(unsupported_above("this clause of a call")),
                    })
                    .collect::<Result<_, _>>()?;
                Ok(ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: *duplicate_treatment, args, clauses }))
            }
        }
    }

    pub(super) fn above_argument(
        &mut self,
        argument: &ast::FunctionArg,
        environment: &Environment,
        place: &mut Above<'_>,
    ) -> Result<ast::FunctionArg, Refusal> {
        match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => {
                Ok(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(self.above(expr, environment, place)?)))
            }
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard) => Ok(argument.clone()),
            _ => Err(unsupported_above("this form of argument")),
        }
    }

    fn above_window(&mut self, window: &ast::WindowSpec, environment: &Environment, place: &mut Above<'_>) -> Result<ast::WindowSpec, Refusal> {
        let ast::WindowSpec { window_name, partition_by, order_by, window_frame } = window;
        if window_name.is_some() {
            return Err(unsupported_above("a named window"));
        }
        let window_frame = window_frame
            .as_ref()
            .map(|ast::WindowFrame { units, start_bound, end_bound }| {
                Ok::<_, Refusal>(ast::WindowFrame {
                    units: *units,
                    start_bound: self.above_bound(start_bound, environment, place)?,
                    end_bound: end_bound.as_ref().map(|b| self.above_bound(b, environment, place)).transpose()?,
                })
            })
            .transpose()?;
        Ok(ast::WindowSpec {
            window_name: None,
            partition_by: partition_by.iter().map(|e| self.above(e, environment, place)).collect::<Result<_, _>>()?,
            order_by: self.above_ordering(order_by, environment, place)?,
            window_frame,
        })
    }

    fn above_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        environment: &Environment,
        place: &mut Above<'_>,
    ) -> Result<ast::WindowFrameBound, Refusal> {
        use ast::WindowFrameBound as B;
        Ok(match bound {
            B::CurrentRow => B::CurrentRow,
            B::Preceding(e) => B::Preceding(e.as_ref().map(|e| self.above(e, environment, place).map(Box::new)).transpose()?),
            B::Following(e) => B::Following(e.as_ref().map(|e| self.above(e, environment, place).map(Box::new)).transpose()?),
        })
    }

    fn above_ordering(
        &mut self,
        order: &[ast::OrderByExpr],
        environment: &Environment,
        place: &mut Above<'_>,
    ) -> Result<Vec<ast::OrderByExpr>, Refusal> {
        order
            .iter()
            .map(|ast::OrderByExpr { expr, options, with_fill }| match with_fill {
                None => Ok(ast::OrderByExpr { expr: self.above(expr, environment, place)?, options: options.clone(), with_fill: None }),
                Some(_) => Err(Refusal::new(sqlstate::SYNTAX_ERROR, "WITH FILL is not PostgreSQL's")),
            })
            .collect()
    }
}

/// CURRENT_USER and its kin, written as the grammar has them.
pub(super) fn is_session_user(function: &ast::Function) -> bool {
    let bare = matches!(function.args, ast::FunctionArguments::None);
    bare && names_of(&function.name)
        .is_ok_and(|names| matches!(names.as_slice(), [name] if ["current_user", "session_user", "user"].contains(&name.as_str())))
}

/// A bare name that the released rows have too: `k0`, `a12`.
fn names_a_release_column(query: &ast::Query) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            let number = bare_name(expr).and_then(|name| name.strip_prefix(['k', 'a']).map(str::to_owned));
            match number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visit::visit(query, &mut Search).is_break()
}

/// Longest text that a padding function may be asked for: one value is held whole in memory.
const PADDED_MAX: u32 = 10_000;

/// Functions whose result may be far longer than their arguments take a constant length.
fn check_growth(name: &str, arguments: &ast::FunctionArguments) -> Result<(), Refusal> {
    if !["repeat", "lpad", "rpad"].contains(&name) {
        return Ok(());
    }
    let length = match arguments {
        ast::FunctionArguments::List(list) => list.args.get(1),
        ast::FunctionArguments::None | ast::FunctionArguments::Subquery(_) => None,
    };
    match length {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, _),
            span: _,
        }))))
            if text.parse::<u32>().is_ok_and(|n| n <= PADDED_MAX) =>
        {
            Ok(())
        }
        _ => Err(unsupported_above(&format!("{name}() with a length that is not a constant of at most {PADDED_MAX}"))),
    }
}

pub(super) fn unsupported_above(what: &str) -> Refusal {
    Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
}

/// A quoted identifier.
pub(super) fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

fn open_value(value: &ast::ValueWithSpan) -> Result<ast::Expr, Refusal> {
    use ast::Value as V;
    match &value.value {
        V::Number(_, false) | V::SingleQuotedString(_) | V::EscapedStringLiteral(_) | V::DollarQuotedString(_) | V::Boolean(_) | V::Null => {
            Ok(ast::Expr::Value(value.clone()))
        }
        V::Placeholder(name) => Err(Refusal::new("42P02", format!("there is no parameter {name}"))),
        _ => Err(unsupported_above("this kind of literal")),
    }
}

/// Types that a cast above the cut may name: none that looks anything up (reg*), no user-defined ones.
fn check_type(data_type: &ast::DataType) -> Result<(), Refusal> {
    use ast::DataType as D;
    match data_type {
        D::Interval { .. }
        | D::Time(..)
        | D::JSON
        | D::JSONB
        | D::Char(_)
        | D::Character(_)
        | D::Varchar(_)
        | D::CharacterVarying(_)
        | D::Timestamp(..) => Ok(()),
        D::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) => check_type(inner),
        other => type_of(other).map(|_| ()).map_err(|_| unsupported_above("a cast to this type")),
    }
}

fn open_unary(op: ast::UnaryOperator) -> Result<ast::UnaryOperator, Refusal> {
    match op {
        ast::UnaryOperator::Minus | ast::UnaryOperator::Plus | ast::UnaryOperator::Not => Ok(op),
        _ => Err(unsupported_above("this operator")),
    }
}

fn open_binary(op: &ast::BinaryOperator) -> Result<ast::BinaryOperator, Refusal> {
    use ast::BinaryOperator as B;
    match op {
        B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo | B::StringConcat | B::PGExp => Ok(op.clone()),
        B::Gt | B::Lt | B::GtEq | B::LtEq | B::Eq | B::NotEq | B::And | B::Or => Ok(op.clone()),
        B::PGRegexMatch | B::PGRegexIMatch | B::PGRegexNotMatch | B::PGRegexNotIMatch => Ok(op.clone()),
        B::PGLikeMatch | B::PGILikeMatch | B::PGNotLikeMatch | B::PGNotILikeMatch => Ok(op.clone()),
        _ => Err(unsupported_above("this operator")),
    }
}
