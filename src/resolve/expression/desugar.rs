//! Calls that abbreviate others: they are written out, so that one rule makes both total.

use sqlparser::ast;

use super::predicates::{coerce_text, negate_if};
use super::{ExpressionResolver, pattern, unify};
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{IntervalFields, coerce, interval, is_unknown};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::names_of;

/// Most thresholds of one `width_bucket`.
const THRESHOLDS_MAX: usize = 1000;

/// The parameters of `make_interval`, in their order, and the unit of each.
const PARTS: [(&str, &str); 7] = [
    ("years", "1 year"),
    ("months", "1 month"),
    ("weeks", "1 week"),
    ("days", "1 day"),
    ("hours", "1 hour"),
    ("mins", "1 minute"),
    ("secs", "1 second"),
];

fn text(text: &str) -> Expr {
    Expr::literal(Some(Scalar::Text(text.to_owned())), Type::Text)
}

impl ExpressionResolver<'_> {
    /// `format('%s-%s', a, b)` with a constant format: its pieces and arguments, one after the
    /// other. NULL is shown as nothing, as `concat` does.
    pub(super) fn formatted_text(&self, mut arguments: Vec<Expr>) -> Result<Expr, Refusal> {
        let hint = "The format is a constant of text, %s, %1$s and %%.";
        let format = coerce_text(arguments.remove(0))?;
        let Some(Scalar::Text(format)) = format.as_literal() else {
            return Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                "the format of format() must be a constant",
            )
            .hint(hint));
        };
        let values = self.texts(arguments)?;
        let mut pieces = Vec::new();
        let (mut plain, mut next, mut rest) = (String::new(), 0, format.as_str());
        while let Some((before, after)) = rest.split_once('%') {
            plain += before;
            if let Some(after) = after.strip_prefix('%') {
                plain.push('%');
                rest = after;
                continue;
            }
            let digits = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            let at = match (
                after[..digits].parse::<usize>(),
                after[digits..].strip_prefix('$'),
            ) {
                (Ok(at), Some(after)) if at > 0 => (at - 1, after),
                _ if digits == 0 => (next, after),
                _ => {
                    return Err(Refusal::unsupported(
                        reason::UNSUPPORTED_FORMAT,
                        "format() with a width",
                    )
                    .hint(hint));
                }
            };
            let Some(after) = at.1.strip_prefix('s') else {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_FORMAT,
                    "this conversion of format()",
                )
                .hint(hint));
            };
            let value = values.get(at.0).ok_or_else(|| {
                Refusal::new(reason::INVALID_ARGUMENT, "too few arguments for format()")
            })?;
            pieces.extend([text(&std::mem::take(&mut plain)), value.clone()]);
            (next, rest) = (at.0 + 1, after);
        }
        plain += rest;
        pieces.push(text(&plain));
        pieces.retain(|piece| *piece != text(""));
        if pieces.is_empty() {
            pieces.push(text(""));
        }
        Ok(Expr::call(Function::Concat, pieces, Type::Text))
    }

    /// `regexp_like(x, pattern, flags)`: the operator ~, or ~* under the flag i.
    pub(super) fn matches_like(&self, arguments: Vec<Expr>) -> Result<Expr, Refusal> {
        let mut arguments = arguments
            .into_iter()
            .map(coerce_text)
            .collect::<Result<Vec<_>, _>>()?;
        let flags = arguments.split_off(2);
        let constant = |e: &Expr| match e.as_literal() {
            Some(Scalar::Text(text)) => Ok(text.clone()),
            _ => Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                "the pattern and flags of regexp_like() must be constants",
            )),
        };
        let function = match flags.first().map(constant).transpose()?.as_deref() {
            None | Some("" | "c") => Function::Matches,
            Some("i") => Function::MatchesInsensitive,
            Some(_) => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_PATTERN,
                    "regexp_like() with these flags",
                ));
            }
        };
        pattern::regex(&constant(&arguments[1])?)?;
        Ok(negate_if(
            false,
            Expr::call(function, arguments, Type::Bool),
        ))
    }

    /// `num_nulls` and `num_nonnulls`.
    pub(super) fn counted_nulls(
        &self,
        function: Function,
        arguments: Vec<Expr>,
    ) -> Result<Expr, Refusal> {
        let typed = arguments.into_iter().map(|a| {
            if is_unknown(&a.data_type) {
                coerce(a, &Type::Text)
            } else {
                Ok(a)
            }
        });
        Ok(Expr::call(
            function,
            typed.collect::<Result<_, _>>()?,
            Type::Int4,
        ))
    }

    /// `width_bucket(x, ARRAY[10, 20, 30])`.
    pub(super) fn thresholds(
        &self,
        subject: &ast::Expr,
        array: &ast::Expr,
    ) -> Result<Expr, Refusal> {
        let refused = || {
            Refusal::new(
                reason::CONSTANT_REQUIRED,
                "the thresholds of width_bucket() must be a constant array in ascending order",
            )
            .hint(format!(
                "Write a constant array of 1 to {THRESHOLDS_MAX} numbers, dates or timestamps."
            ))
        };
        let mut all = self.elements(array)?;
        all.insert(0, self.value(subject)?);
        self.constants
            .require_one_zone(all.iter().map(|e| &e.data_type), "width_bucket()")?;
        // PostgreSQL rounds the thresholds of a real to reals.
        if all.iter().any(|e| e.data_type == Type::Float4) {
            return Err(
                Refusal::unsupported(reason::INCOMPARABLE_TYPES, "width_bucket() of real")
                    .hint("Cast the number to double precision."),
            );
        }
        let all = unify(all, "width_bucket")?;
        let known = matches!(
            all[0].data_type,
            Type::Int2
                | Type::Int4
                | Type::Int8
                | Type::Numeric(_)
                | Type::Float8
                | Type::Date
                | Type::Timestamp
                | Type::Timestamptz
        );
        let of = |e: &Expr| e.as_literal().and_then(crate::ir::literal::as_number);
        let limits = all[1..]
            .iter()
            .map(of)
            .collect::<Option<Vec<f64>>>()
            .ok_or_else(refused)?;
        if !known
            || limits.is_empty()
            || limits.len() > THRESHOLDS_MAX
            || !limits.windows(2).all(|pair| pair[0] < pair[1])
        {
            return Err(refused());
        }
        Ok(Expr::call(Function::Thresholds, all, Type::Int4))
    }

    /// `make_interval(days => n, hours => 2)`: each part times its unit, and their sum.
    pub(super) fn made_interval(
        &self,
        arguments: &ast::FunctionArguments,
    ) -> Result<Expr, Refusal> {
        let refused = || {
            Refusal::unsupported(reason::FUNCTION_FORM, "this form of make_interval()")
                .hint("Write make_interval(days => 10), or 10 * interval '1 day'.")
        };
        let ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = arguments
        else {
            return Err(refused());
        };
        if !clauses.is_empty() || args.len() > PARTS.len() {
            return Err(refused());
        }
        let mut sum: Option<Expr> = None;
        for (at, argument) in args.iter().enumerate() {
            let (unit, value) = match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => {
                    (PARTS[at].1, value)
                }
                ast::FunctionArg::ExprNamed {
                    name: ast::Expr::Identifier(name),
                    arg: ast::FunctionArgExpr::Expr(value),
                    operator:
                        ast::FunctionArgOperator::RightArrow | ast::FunctionArgOperator::Assignment,
                } => {
                    let part = PARTS
                        .iter()
                        .find(|(part, _)| *part == name.value.to_ascii_lowercase())
                        .ok_or_else(refused)?;
                    (part.1, value)
                }
                _ => return Err(refused()),
            };
            let unit = Expr::literal(interval(unit, IntervalFields::Any), Type::Interval);
            let part = self.call("*", vec![self.resolve(value)?, unit])?;
            sum = Some(match sum {
                Some(sum) => self.call("+", vec![sum, part])?,
                None => part,
            });
        }
        sum.ok_or_else(refused)
    }

    /// `(regexp_match(x, pattern))[1]`: the first group, or the whole match where there is none, as
    /// `substring(x from pattern)`.
    pub(super) fn access(
        &self,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Expr, Refusal> {
        let refused = || {
            Refusal::unsupported(reason::UNSUPPORTED_EXPRESSION, "a field or subscript").hint(
                "Read an element of an array column as in tags[1]; also (regexp_match(x, \
                    'pattern'))[1] is supported.",
            )
        };
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return Err(refused());
        };
        if let Some(element) = self.element(root, index)? {
            return Ok(element);
        }
        let mut root = root;
        while let ast::Expr::Nested(inner) = root {
            root = inner;
        }
        let ast::Expr::Function(call) = root else {
            return Err(refused());
        };
        let is_match = names_of(&call.name)?
            .last()
            .is_some_and(|name| name == "regexp_match");
        let is_first = matches!(
            self.resolve(index)?.node,
            Node::Literal(Some(Scalar::Int(1)))
        );
        if !is_match || !is_first {
            return Err(refused());
        }
        let arguments = super::plain_arguments(&call.args, "regexp_match")?;
        let [subject, pattern] = arguments.as_slice() else {
            return Err(refused());
        };
        self.call(
            "substring",
            vec![self.value(subject)?, self.value(pattern)?],
        )
    }
}
