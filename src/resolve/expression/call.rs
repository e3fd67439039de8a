//! Calls: constants of the session, functions with special typing rules, and the overloads of the
//! table of functions with their constant arguments checked.

mod limits;

use limits::check_constants;
use sqlparser::ast;

use super::predicates::coerce_text;
use super::types::{cast, type_named};
use super::{ExpressionResolver, char_padding, merge, unify};
use crate::calendar::MICROS_PER_DAY;
use crate::catalog::Type;
use crate::ir::evaluate::fold;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::{Function, Overload, ParameterType, is_known, overload};
use crate::ir::literal::{
    INTERVAL_HINT, IntervalFields, coerce, integer_range, interval_of, is_unknown, read_by_pattern,
    type_name,
};
use crate::parse::FunctionCall;
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};
use crate::resolve::TEXT_MAX;
use crate::resolve::syntax::names_of;

/// Most characters that a constant may pad or repeat to.
const LENGTH_MAX: i64 = TEXT_MAX as i64;
/// Most repetitions of repeat().
const REPEAT_MAX: i64 = 16;

impl ExpressionResolver<'_> {
    pub(super) fn function(&self, function: &ast::Function) -> Result<Expr, Refusal> {
        let names = names_of(&function.name)?;
        let name = match names.as_slice() {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            _ => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_FUNCTION,
                    format!("function {}", names.join(".")),
                ));
            }
        };
        let args = match FunctionCall::of(function) {
            Some(call) if call.is_plain() => call.arguments,
            Some(_) | None => {
                return Err(Refusal::unsupported(
                    reason::FUNCTION_FORM,
                    format!("this form of {name}()"),
                ));
            }
        };
        if matches!(args, ast::FunctionArguments::None) {
            return self.session_constant(name);
        }
        if name == "make_interval" {
            return self.made_interval(args);
        }
        let arguments = plain_arguments(args, name)?;
        if let ("width_bucket", [subject, array]) = (name, arguments.as_slice()) {
            return self.thresholds(subject, array);
        }
        if let Some(part) = self.json_call(name, &arguments)? {
            return Ok(part);
        }
        if let Some(count) = self.array_call(name, &arguments)? {
            return Ok(count);
        }
        let arguments = arguments
            .into_iter()
            .map(|e| self.resolve(e))
            .collect::<Result<Vec<_>, _>>()?;
        self.resolve_call(name, arguments)
    }

    fn resolve_call(&self, name: &str, mut arguments: Vec<Expr>) -> Result<Expr, Refusal> {
        match (name, arguments.len()) {
            ("now" | "transaction_timestamp" | "statement_timestamp", 0) => {
                self.session_constant("current_timestamp")
            }
            ("pi", 0) => Ok(Expr::literal(
                Some(Scalar::Decimal("3.141592653589793".to_owned())),
                Type::Float8,
            )),
            ("coalesce", _) => self.merge(Function::Coalesce, arguments, "COALESCE"),
            ("greatest", _) => self.merge(Function::Greatest, arguments, "GREATEST"),
            ("least", _) => self.merge(Function::Least, arguments, "LEAST"),
            ("nullif", _) => match <[Expr; 2]>::try_from(arguments) {
                Ok([a, b]) => {
                    self.constants
                        .require_one_zone([&a.data_type, &b.data_type], "NULLIF")?;
                    null_if(a, b)
                }
                Err(_) => Err(Refusal::new(
                    reason::UNKNOWN_FUNCTION,
                    "NULLIF takes two arguments",
                )),
            },
            ("concat", 1..) => Ok(Expr::call(
                Function::Concat,
                self.texts(arguments)?,
                Type::Text,
            )),
            ("concat_ws", 2..) => {
                let separator = coerce_text(arguments.remove(0))?;
                match separator.as_literal() {
                    Some(_) => Ok(Expr::call(
                        Function::ConcatSeparated,
                        [vec![separator], self.texts(arguments)?].concat(),
                        Type::Text,
                    )),
                    None => Err(Refusal::new(
                        reason::CONSTANT_REQUIRED,
                        "the separator of concat_ws() must be a constant",
                    )),
                }
            }
            ("to_date", 2) => self.read(arguments, Type::Date, "to_date"),
            ("to_timestamp", 2) => self.read(arguments, Type::Timestamptz, "to_timestamp"),
            // Before its first midnight: age(x) is age(current_date, x).
            ("age", 1) => {
                let today = self.session_constant("current_date")?;
                arguments.insert(0, cast(today, &Type::Timestamp)?);
                let zoned = arguments[1].data_type == Type::Timestamptz;
                if zoned {
                    arguments[0] = cast(arguments[0].clone(), &Type::Timestamptz)?;
                }
                self.call("age", arguments)
            }
            ("format", 1..) => self.formatted_text(arguments),
            ("regexp_like", 2 | 3) => self.matches_like(arguments),
            ("num_nulls", 1..) => self.counted_nulls(Function::CountNulls, arguments),
            ("num_nonnulls", 1..) => self.counted_nulls(Function::CountNonNulls, arguments),
            (name, 1) if !is_known(name) && type_named(name).is_some() => {
                let Some(to) = type_named(name) else {
                    return Err(Refusal::unsupported(reason::UNSUPPORTED_FUNCTION, name));
                };
                self.cast_to(arguments.remove(0), &to)
            }
            _ => self.call(name, arguments),
        }
    }

    /// A cast; between timestamps with and without zone only in a session of UTC, in which private
    /// rows are read.
    pub(super) fn cast_to(&self, expr: Expr, to: &Type) -> Result<Expr, Refusal> {
        let is_zoned = |t: &Type| *t == Type::Timestamptz;
        if is_zoned(to) != is_zoned(&expr.data_type) && !is_unknown(&expr.data_type) {
            self.constants
                .require_utc("a cast between types with and without time zone")?;
        }
        if let Type::Varchar(Some(length)) = to {
            // PostgreSQL cuts a longer value.
            let shown = self.to_text(expr, &Type::Varchar(None))?.cast(Type::Text);
            let cut = Expr::call(
                Function::Left,
                vec![
                    shown,
                    Expr::literal(Some(Scalar::Int(i64::from(*length))), Type::Int4),
                ],
                Type::Text,
            );
            return Ok(fold(cut).cast(Type::Varchar(None)));
        }
        if let Type::Char(Some(length)) = to {
            return Ok(char_padding::of_length(
                self.to_text(expr, &Type::Text)?,
                *length,
            ));
        }
        Ok(fold(if to.is_string() {
            self.to_text(expr, to)?
        } else {
            cast(expr, to)?
        }))
    }

    /// A value as text.
    ///
    /// # Errors
    /// 0A000 if the session's settings print such values differently from the settings under which
    /// private rows are read.
    pub(super) fn to_text(&self, expr: Expr, to: &Type) -> Result<Expr, Refusal> {
        match &expr.data_type {
            Type::Timestamptz => self
                .constants
                .require_utc("the text of a timestamp with time zone")?,
            Type::Date | Type::Timestamp | Type::Interval | Type::Float4 | Type::Float8 => {}
            _ => return cast(expr, to),
        }
        if self.constants.prints_plainly {
            return cast(expr, to);
        }
        Err(Refusal::new(
            reason::SESSION_FORMAT,
            format!(
                "cannot print a value of type {} under the session's settings",
                type_name(&expr.data_type)
            ),
        )
        .hint(
            "Run RESET DateStyle, RESET IntervalStyle and RESET extra_float_digits first, \
                or use to_char().",
        ))
    }

    /// The arguments of `concat`, each as the text that its type's output function gives.
    pub(super) fn texts(&self, arguments: Vec<Expr>) -> Result<Vec<Expr>, Refusal> {
        arguments
            .into_iter()
            .map(|argument| match argument.data_type {
                // As text, a boolean is `true`; here it is `t`.
                Type::Bool => {
                    let shown =
                        |text: &str| Expr::literal(Some(Scalar::Text(text.to_owned())), Type::Text);
                    let no = Expr::call(Function::Not, vec![argument.clone()], Type::Bool);
                    Ok(Expr {
                        node: Node::Case {
                            branches: vec![(argument, shown("t")), (no, shown("f"))],
                            otherwise: None,
                        },
                        data_type: Type::Text,
                    })
                }
                Type::Char(_) => char_padding::pad(argument),
                _ => self.to_text(argument, &Type::Text),
            })
            .collect()
    }

    /// COALESCE and similar functions.
    fn merge(&self, function: Function, arguments: Vec<Expr>, name: &str) -> Result<Expr, Refusal> {
        self.constants
            .require_one_zone(arguments.iter().map(|e| &e.data_type), name)?;
        merge(function, arguments, name).map(fold)
    }

    /// `to_date` and `to_timestamp` of constants.
    fn read(&self, arguments: Vec<Expr>, to: Type, name: &str) -> Result<Expr, Refusal> {
        let constant = |e: &Expr| match e.as_literal() {
            Some(Scalar::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let [text, pattern] = arguments.as_slice() else {
            return Err(Refusal::unsupported(
                reason::FUNCTION_FORM,
                format!("this form of {name}()"),
            ));
        };
        let (Some(text), Some(pattern)) = (constant(text), constant(pattern)) else {
            return Err(Refusal::new(
                reason::CONSTANT_REQUIRED,
                format!("the arguments of {name}() must be constants"),
            )
            .hint("Cast ISO text with ::date or ::timestamp."));
        };
        if to == Type::Timestamptz {
            self.constants.require_utc(name)?;
        }
        let micros = read_by_pattern(&text, &pattern).ok_or_else(|| {
            Refusal::new(
                reason::UNSUPPORTED_FORMAT,
                format!("{name}() cannot read this constant with this format"),
            )
            .hint(
                "Use YYYY, MM, DD, HH24, MI, SS, MS and US in the format, and write every \
                    digit of the constant.",
            )
        })?;
        let value = Expr::literal(Some(Scalar::Timestamp(micros)), Type::Timestamp);
        Ok(fold(value.cast(to)))
    }

    /// CURRENT_DATE and similar functions, as constants of the statement.
    fn session_constant(&self, name: &str) -> Result<Expr, Refusal> {
        let now = self.constants.now;
        match name {
            "current_timestamp" => Ok(Expr::literal(
                Some(Scalar::Timestamp(now)),
                Type::Timestamptz,
            )),
            "localtimestamp" => {
                self.constants.require_utc("LOCALTIMESTAMP")?;
                Ok(Expr::literal(Some(Scalar::Timestamp(now)), Type::Timestamp))
            }
            "current_date" => {
                self.constants.require_utc("CURRENT_DATE")?;
                let days = now.div_euclid(MICROS_PER_DAY);
                Ok(Expr::literal(
                    i32::try_from(days).ok().map(Scalar::Date),
                    Type::Date,
                ))
            }
            "current_user" | "session_user" | "user" => Ok(Expr::literal(
                Some(Scalar::Text(self.constants.role.clone())),
                Type::Text,
            )),
            _ => Err(Refusal::unsupported(
                reason::UNSUPPORTED_FUNCTION,
                name.to_uppercase(),
            )),
        }
    }

    pub(super) fn extract(&self, field: &str, expr: &ast::Expr) -> Result<Expr, Refusal> {
        let operand = self.value(expr)?;
        self.call(
            "extract",
            vec![
                Expr::literal(Some(Scalar::Text(field.to_owned())), Type::Text),
                operand,
            ],
        )
    }

    /// `INTERVAL '1' DAY`, `INTERVAL '1 day'`.
    pub(super) fn interval(&self, written: &ast::Interval) -> Result<Expr, Refusal> {
        use ast::DateTimeField as D;
        let ast::Interval {
            value,
            leading_field,
            leading_precision: None,
            last_field,
            fractional_seconds_precision: None,
        } = written
        else {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_CONSTANT,
                "an interval with a precision",
            ));
        };
        let text = match value.as_ref() {
            ast::Expr::Value(ast::ValueWithSpan {
                value: ast::Value::SingleQuotedString(text),
                span: _,
            }) => text,
            _ => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_CONSTANT,
                    "this form of interval",
                )
                .hint(INTERVAL_HINT));
            }
        };
        let fields = match (leading_field, last_field) {
            (None, None) => IntervalFields::Any,
            (Some(D::Year), Some(D::Month)) => IntervalFields::YearToMonth,
            // These pairs cut nothing off what the text says.
            (Some(D::Day | D::Hour), Some(D::Second)) => IntervalFields::Any,
            (Some(D::Year), None) => IntervalFields::One("year"),
            (Some(D::Month), None) => IntervalFields::One("month"),
            (Some(D::Day), None) => IntervalFields::One("day"),
            (Some(D::Hour), None) => IntervalFields::One("hour"),
            (Some(D::Minute), None) => IntervalFields::One("minute"),
            (Some(D::Second), None) => IntervalFields::One("second"),
            _ => {
                return Err(Refusal::unsupported(
                    reason::UNSUPPORTED_CONSTANT,
                    "this form of interval",
                )
                .hint(INTERVAL_HINT));
            }
        };
        let value = interval_of(text, fields, self.constants.signs_each)?;
        Ok(Expr::literal(Some(value), Type::Interval))
    }

    /// A call of a function in our table, with its arguments cast as PostgreSQL casts them.
    pub(super) fn call(&self, name: &str, mut arguments: Vec<Expr>) -> Result<Expr, Refusal> {
        if name == "octet_length" {
            arguments = arguments
                .into_iter()
                .map(char_padding::padded_if_char)
                .collect::<Result<_, _>>()?;
        }
        let (found, arguments) = find_overload(name, arguments)?;
        let Some(entry) = found else {
            let types = arguments
                .iter()
                .map(|a| type_name(&a.data_type))
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_FUNCTION,
                format!("{name}({types})"),
            )
            .hint("docs/sql.md lists the functions and operators that private rows support."));
        };
        if entry.arguments.contains(&ParameterType::Timestamptz)
            || entry.result == ParameterType::Timestamptz
        {
            self.constants.require_utc(name)?;
        }
        let mut cast = cast_to_kinds(entry, arguments)?;
        check_constants(entry, &mut cast)?;
        Ok(fold(Expr::call(
            entry.function,
            cast,
            entry.result.data_type(),
        )))
    }
}

fn types_of(arguments: &[Expr]) -> Vec<Type> {
    arguments.iter().map(|a| a.data_type.clone()).collect()
}

/// The overload that PostgreSQL would call, and the arguments in its order.
///
/// An untyped constant is a text where an overload takes a text there. Otherwise, next to a number,
/// a date or a time, it has the type that their overload takes. Next to texts it stays a text:
/// PostgreSQL may have an overload of texts that is not listed here.
fn find_overload(
    name: &str,
    arguments: Vec<Expr>,
) -> Result<(Option<&'static Overload>, Vec<Expr>), Refusal> {
    let textual = arguments
        .iter()
        .cloned()
        .map(|a| match is_unknown(&a.data_type) {
            true => coerce(a, &Type::Text),
            false => Ok(a),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = overload(name, &types_of(&textual));
    let decides = |a: &Expr| !is_unknown(&a.data_type) && !a.data_type.is_string();
    let mut arguments = if found.is_none() && arguments.iter().any(decides) {
        found = overload(name, &types_of(&arguments));
        if found.is_some() { arguments } else { textual }
    } else {
        textual
    };
    // The table lists `date + 3` and `2 * interval` in one order only.
    if found.is_none() && arguments.len() == 2 && matches!(name, "+" | "*") {
        arguments.reverse();
        found = overload(name, &types_of(&arguments));
    }
    Ok((found, arguments))
}

/// The arguments in the types that the entry takes.
fn cast_to_kinds(entry: &Overload, arguments: Vec<Expr>) -> Result<Vec<Expr>, Refusal> {
    let cast = |(argument, kind): (Expr, &ParameterType)| {
        let integer = matches!(
            kind,
            ParameterType::Int2 | ParameterType::Int4 | ParameterType::Int8
        ) && integer_range(&argument.data_type).is_some();
        let numeric = matches!(
            (kind, &argument.data_type),
            (ParameterType::Numeric, Type::Numeric(_))
        );
        // A date plus an interval is a timestamp, counted from the start of the day.
        let kind = match entry.function {
            Function::Later | Function::Earlier if *kind == ParameterType::Date => {
                ParameterType::Timestamp
            }
            _ => *kind,
        };
        Ok(if integer || numeric {
            argument
        } else {
            fold(coerce(argument, &kind.data_type())?)
        })
    };
    arguments
        .into_iter()
        .zip(entry.arguments)
        .map(cast)
        .collect()
}

fn null_if(a: Expr, b: Expr) -> Result<Expr, Refusal> {
    let result = if is_unknown(&a.data_type) {
        Type::Text
    } else {
        a.data_type.clone()
    };
    let mut compared = unify(char_padding::comparison_operands(vec![a, b])?, "NULLIF")?;
    let (Some(b), Some(a)) = (compared.pop(), compared.pop()) else {
        return Err(Refusal::unsupported(reason::FUNCTION_FORM, "NULLIF"));
    };
    let common = a.data_type.clone();
    Ok(fold(
        Expr::call(Function::NullIf, vec![a, b], common).cast(result),
    ))
}

/// The arguments of a plain call: no DISTINCT, no names, no clauses.
///
/// # Errors
/// 0A000 for any other form.
pub fn plain_arguments<'e>(
    arguments: &'e ast::FunctionArguments,
    name: &str,
) -> Result<Vec<&'e ast::Expr>, Refusal> {
    let ast::FunctionArguments::List(ast::FunctionArgumentList {
        duplicate_treatment: None,
        args,
        clauses,
    }) = arguments
    else {
        return Err(Refusal::unsupported(
            reason::FUNCTION_FORM,
            format!("this form of {name}()"),
        ));
    };
    if !clauses.is_empty() {
        return Err(Refusal::unsupported(
            reason::FUNCTION_FORM,
            format!("this form of {name}()"),
        ));
    }
    args.iter()
        .map(|argument| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
            _ => Err(Refusal::unsupported(
                reason::FUNCTION_FORM,
                format!("this form of {name}()"),
            )),
        })
        .collect()
}
