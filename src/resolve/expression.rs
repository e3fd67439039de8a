//! Row-level expressions: AST → typed [`Expr`]. Whatever is not listed here is refused by name.

use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::catalogue::{Function, Kind, overload};
use super::literal::{coerce, common_type, integer_range, is_unknown, number, type_name, unknown};
use super::middle::{constant_number, is_constant_list};
use super::scope::{Scope, name_of, names_of};
use super::tree::{ColumnInfo, ConstantId, Expr, Node};
use crate::catalog::Type;
use crate::policy::Scalar;
use crate::refusal::{Refusal, sqlstate};

/// Longest constant pattern of LIKE, and most wildcards in it: matching time grows with both.
const PATTERN_BYTES_MAX: usize = 1000;
const PATTERN_WILDCARDS_MAX: usize = 4;
/// Longest IN list.
const LIST_MAX: usize = 10_000;

/// Values of the session that expressions may name; read once a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants {
    /// Microseconds since 2000-01-01 UTC.
    pub now: i64,
    pub role: String,
    /// The session's TimeZone is UTC, in which private rows are read. In another, what depends on the zone is refused.
    pub is_utc: bool,
}

/// Resolves row-level expressions of one scope.
pub struct Expressions<'a> {
    pub scope: &'a Scope,
    pub columns: &'a [ColumnInfo],
    pub constants: &'a Constants,
    /// Parts resolved before, by their place in the text.
    pub given: &'a [(*const ast::Expr, Expr)],
    /// Constants of middle queries, by number: which they are, and their types.
    pub bound: &'a [((usize, usize), Type)],
}

impl Expressions<'_> {
    /// Resolves a condition: boolean, or an untyped NULL.
    pub fn condition(&self, expr: &ast::Expr, clause: &str) -> Result<Expr, Refusal> {
        let resolved = self.resolve(expr)?;
        let resolved = if is_unknown(&resolved.data_type) { coerce(resolved, &Type::Bool)? } else { resolved };
        if resolved.data_type != Type::Bool {
            let given = type_name(&resolved.data_type).to_owned();
            return Err(Refusal::new(sqlstate::DATATYPE_MISMATCH, format!("argument of {clause} must be type boolean, not type {given}")));
        }
        Ok(resolved)
    }

    /// Resolves a value; an untyped constant becomes text, as PostgreSQL would have it.
    pub fn value(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        let resolved = self.resolve(expr)?;
        if is_unknown(&resolved.data_type) { coerce(resolved, &Type::Text) } else { Ok(resolved) }
    }

    fn resolve(&self, expr: &ast::Expr) -> Result<Expr, Refusal> {
        use ast::Expr as E;
        if let Some((_, given)) = self.given.iter().find(|(place, _)| std::ptr::eq(*place, expr)) {
            return Ok(given.clone());
        }
        match expr {
            E::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            E::CompoundIdentifier(parts) => self.column(parts),
            E::Nested(inner) => self.resolve(inner),
            E::Value(value) => match constant_number(&value.value) {
                Some(id) => self.constant(id),
                None => literal(&value.value),
            },
            E::TypedString(ast::TypedString { data_type, value, uses_odbc_syntax: false }) => coerce(literal(&value.value)?, &type_of(data_type)?),
            E::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type, format: None } => {
                cast(self.resolve(expr)?, &type_of(data_type)?)
            }
            E::UnaryOp { op, expr } => self.unary(*op, expr),
            E::BinaryOp { left, op, right } => self.binary(left, op, right),
            E::IsNull(e) => self.test(Function::IsNull, e),
            E::IsNotNull(e) => self.test(Function::IsNotNull, e),
            E::IsTrue(e) => self.truth(Function::IsTrue, e),
            E::IsNotTrue(e) => self.truth(Function::IsNotTrue, e),
            E::IsFalse(e) => self.truth(Function::IsFalse, e),
            E::IsNotFalse(e) => self.truth(Function::IsNotFalse, e),
            E::IsUnknown(e) => self.truth(Function::IsNull, e),
            E::IsNotUnknown(e) => self.truth(Function::IsNotNull, e),
            E::IsDistinctFrom(a, b) => self.compare(Function::IsDistinctFrom, a, b, "IS DISTINCT FROM"),
            E::IsNotDistinctFrom(a, b) => self.compare(Function::IsNotDistinctFrom, a, b, "IS NOT DISTINCT FROM"),
            E::Between { expr, negated, low, high } => self.between(expr, *negated, low, high),
            E::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            E::Like { negated, any: false, expr, pattern, escape_char } => self.like(Function::Like, expr, pattern, escape_char.as_deref(), *negated),
            E::ILike { negated, any: false, expr, pattern, escape_char } => {
                self.like(Function::ILike, expr, pattern, escape_char.as_deref(), *negated)
            }
            E::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            E::Extract { field, syntax: _, expr } => self.extract(&field.to_string(), expr),
            E::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("ceil", vec![self.resolve(expr)?])
            }
            E::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
                self.call("floor", vec![self.resolve(expr)?])
            }
            E::Position { expr, r#in } => self.call("strpos", vec![self.resolve(r#in)?, self.resolve(expr)?]),
            E::Substring { expr, substring_from: Some(from), substring_for, special: _, shorthand: _ } => {
                let mut arguments = vec![self.resolve(expr)?, self.resolve(from)?];
                if let Some(length) = substring_for {
                    arguments.push(self.resolve(length)?);
                }
                self.call("substring", arguments)
            }
            E::Trim { trim_where, trim_what: None, expr, trim_characters: None } => {
                let name = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "btrim",
                    Some(ast::TrimWhereField::Leading) => "ltrim",
                    Some(ast::TrimWhereField::Trailing) => "rtrim",
                };
                self.call(name, vec![self.resolve(expr)?])
            }
            E::Function(function) => self.function(function),
            E::Subquery(_) | E::Exists { .. } | E::InSubquery { .. } => {
                Err(Refusal::unsupported("a subquery in an expression").hint("Join the table in FROM, or write the subquery as a derived table."))
            }
            other => Err(Refusal::unsupported(construct(other))),
        }
    }

    fn column(&self, parts: &[ast::Ident]) -> Result<Expr, Refusal> {
        let id = self.scope.find(parts)?;
        Ok(Expr::column(id, self.columns[id.0 as usize].data_type.clone()))
    }

    fn constant(&self, id: ConstantId) -> Result<Expr, Refusal> {
        let (_, data_type) = self.bound.get(id.0 as usize).ok_or_else(|| Refusal::unsupported("this kind of literal"))?;
        Ok(Expr { node: Node::Constant(id), data_type: data_type.clone() })
    }

    fn unary(&self, op: UnaryOperator, expr: &ast::Expr) -> Result<Expr, Refusal> {
        match op {
            UnaryOperator::Not => Ok(Expr::call(Function::Not, vec![self.condition(expr, "NOT")?], Type::Bool)),
            UnaryOperator::Plus => self.resolve(expr),
            UnaryOperator::Minus => {
                if let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), span: _ }) = expr {
                    return number(&format!("-{text}"));
                }
                self.call("-", vec![self.resolve(expr)?])
            }
            other => Err(Refusal::unsupported(format!("operator {other}"))),
        }
    }

    fn binary(&self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Expr, Refusal> {
        let symbol = op.to_string();
        match op {
            BinaryOperator::And => Ok(Expr::call(Function::And, vec![self.condition(left, "AND")?, self.condition(right, "AND")?], Type::Bool)),
            BinaryOperator::Or => Ok(Expr::call(Function::Or, vec![self.condition(left, "OR")?, self.condition(right, "OR")?], Type::Bool)),
            BinaryOperator::Eq => self.compare(Function::Equal, left, right, &symbol),
            BinaryOperator::NotEq => self.compare(Function::NotEqual, left, right, &symbol),
            BinaryOperator::Lt => self.compare(Function::Less, left, right, &symbol),
            BinaryOperator::LtEq => self.compare(Function::LessOrEqual, left, right, &symbol),
            BinaryOperator::Gt => self.compare(Function::Greater, left, right, &symbol),
            BinaryOperator::GtEq => self.compare(Function::GreaterOrEqual, left, right, &symbol),
            BinaryOperator::PGLikeMatch => self.like(Function::Like, left, right, None, false),
            BinaryOperator::PGNotLikeMatch => self.like(Function::Like, left, right, None, true),
            BinaryOperator::PGILikeMatch => self.like(Function::ILike, left, right, None, false),
            BinaryOperator::PGNotILikeMatch => self.like(Function::ILike, left, right, None, true),
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo => {
                let (mut a, mut b) = (self.resolve(left)?, self.resolve(right)?);
                // PostgreSQL takes an untyped constant for the other operand's type.
                if is_unknown(&a.data_type) {
                    a = coerce(a, &b.data_type.clone())?;
                } else if is_unknown(&b.data_type) {
                    b = coerce(b, &a.data_type.clone())?;
                }
                self.call(&symbol, vec![a, b])
            }
            other => Err(Refusal::unsupported(format!("operator {other}"))),
        }
    }

    fn compare(&self, function: Function, left: &ast::Expr, right: &ast::Expr, symbol: &str) -> Result<Expr, Refusal> {
        compare(function, self.resolve(left)?, self.resolve(right)?, symbol)
    }

    fn test(&self, function: Function, expr: &ast::Expr) -> Result<Expr, Refusal> {
        Ok(Expr::call(function, vec![self.value(expr)?], Type::Bool))
    }

    fn truth(&self, function: Function, expr: &ast::Expr) -> Result<Expr, Refusal> {
        Ok(Expr::call(function, vec![self.condition(expr, "IS")?], Type::Bool))
    }

    fn between(&self, expr: &ast::Expr, negated: bool, low: &ast::Expr, high: &ast::Expr) -> Result<Expr, Refusal> {
        let at_least = self.compare(Function::GreaterOrEqual, expr, low, ">=")?;
        let at_most = self.compare(Function::LessOrEqual, expr, high, "<=")?;
        Ok(negate_if(negated, Expr::call(Function::And, vec![at_least, at_most], Type::Bool)))
    }

    fn in_list(&self, expr: &ast::Expr, list: &[ast::Expr], negated: bool) -> Result<Expr, Refusal> {
        if list.len() > LIST_MAX {
            return Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, format!("an IN list holds at most {LIST_MAX} values")));
        }
        let mut all = vec![self.resolve(expr)?];
        for item in list {
            all.push(self.resolve(item)?);
        }
        let function = if matches!(list, [only] if is_constant_list(only)) { Function::Among } else { Function::In };
        Ok(negate_if(negated, Expr::call(function, unify(all, "IN")?, Type::Bool)))
    }

    fn like(&self, function: Function, expr: &ast::Expr, pattern: &ast::Expr, escape: Option<&ast::Expr>, negated: bool) -> Result<Expr, Refusal> {
        if escape.is_some() {
            return Err(Refusal::unsupported("LIKE … ESCAPE"));
        }
        let subject = coerce_text(self.value(expr)?)?;
        let pattern = coerce_text(self.value(pattern)?)?;
        let Some(Scalar::Text(text)) = pattern.as_literal() else {
            return Err(Refusal::unsupported("LIKE with a pattern that is not a constant"));
        };
        check_pattern(text)?;
        Ok(negate_if(negated, Expr::call(function, vec![subject, pattern], Type::Bool)))
    }

    fn case(&self, operand: Option<&ast::Expr>, conditions: &[ast::CaseWhen], otherwise: Option<&ast::Expr>) -> Result<Expr, Refusal> {
        let mut tests = Vec::new();
        let mut results = Vec::new();
        for ast::CaseWhen { condition, result } in conditions {
            tests.push(match operand {
                Some(operand) => self.compare(Function::Equal, operand, condition, "=")?,
                None => self.condition(condition, "CASE/WHEN")?,
            });
            results.push(self.resolve(result)?);
        }
        let has_otherwise = otherwise.is_some();
        if let Some(expr) = otherwise {
            results.push(self.resolve(expr)?);
        }
        let mut results = unify(results, "CASE")?;
        let otherwise = if has_otherwise { results.pop().map(Box::new) } else { None };
        let data_type = results.first().map(|r| r.data_type.clone()).ok_or_else(|| Refusal::unsupported("CASE without WHEN"))?;
        Ok(Expr { node: Node::Case { branches: tests.into_iter().zip(results).collect(), otherwise }, data_type })
    }

    fn extract(&self, field: &str, expr: &ast::Expr) -> Result<Expr, Refusal> {
        let field = date_field(field)?;
        let operand = self.value(expr)?;
        match operand.data_type {
            // PostgreSQL raises this at the first row that it reads: a query of private rows must not get that far.
            Type::Date if matches!(field.as_str(), "hour" | "minute" | "second") => {
                let message = format!("unit \"{field}\" not supported for type date");
                return Err(Refusal::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            Type::Date | Type::Timestamp => {}
            _ => return Err(Refusal::unsupported(format!("EXTRACT from type {}", type_name(&operand.data_type)))),
        }
        let field = Expr::literal(Some(Scalar::Text(field)), Type::Text);
        Ok(Expr::call(Function::Extract, vec![field, operand], Type::Numeric(None)))
    }

    fn function(&self, function: &ast::Function) -> Result<Expr, Refusal> {
        let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } = function;
        let names = names_of(name)?;
        let name = match names.as_slice() {
            [name] => name.as_str(),
            [schema, name] if schema == "pg_catalog" => name.as_str(),
            _ => return Err(Refusal::unsupported(format!("function {}", names.join(".")))),
        };
        let plain = !*uses_odbc_syntax && matches!(parameters, ast::FunctionArguments::None) && within_group.is_empty() && filter.is_none();
        if !plain || null_treatment.is_some() || over.is_some() {
            return Err(Refusal::unsupported(format!("this form of {name}()")));
        }
        if matches!(args, ast::FunctionArguments::None) {
            return self.session_constant(name);
        }
        let arguments = plain_arguments(args, name)?.into_iter().map(|e| self.resolve(e)).collect::<Result<Vec<_>, _>>()?;
        match name {
            "now" if arguments.is_empty() => self.session_constant("current_timestamp"),
            "coalesce" => merge(Function::Coalesce, arguments, "COALESCE"),
            "greatest" => merge(Function::Greatest, arguments, "GREATEST"),
            "least" => merge(Function::Least, arguments, "LEAST"),
            "nullif" => match <[Expr; 2]>::try_from(arguments) {
                Ok([a, b]) => {
                    let result = if is_unknown(&a.data_type) { Type::Text } else { a.data_type.clone() };
                    let mut compared = unify(vec![a, b], "NULLIF")?;
                    let (Some(b), Some(a)) = (compared.pop(), compared.pop()) else { return Err(Refusal::unsupported("NULLIF")) };
                    let common = a.data_type.clone();
                    Ok(Expr::call(Function::NullIf, vec![a, b], common).cast(result))
                }
                Err(_) => Err(Refusal::new(sqlstate::UNDEFINED_FUNCTION, "NULLIF takes two arguments")),
            },
            _ => self.call(name, arguments),
        }
    }

    /// CURRENT_DATE and its kin, as constants of the statement.
    fn session_constant(&self, name: &str) -> Result<Expr, Refusal> {
        match name {
            "current_timestamp" => Ok(Expr::literal(Some(Scalar::Timestamp(self.constants.now)), Type::Timestamptz)),
            "current_date" => {
                self.require_utc("CURRENT_DATE")?;
                let days = self.constants.now.div_euclid(86_400_000_000);
                Ok(Expr::literal(i32::try_from(days).ok().map(Scalar::Date), Type::Date))
            }
            "current_user" | "session_user" | "user" => Ok(Expr::literal(Some(Scalar::Text(self.constants.role.clone())), Type::Text)),
            _ => Err(Refusal::unsupported(name.to_uppercase())),
        }
    }

    fn require_utc(&self, what: &str) -> Result<(), Refusal> {
        if self.constants.is_utc {
            return Ok(());
        }
        Err(Refusal::unsupported(format!("{what} in a session whose TimeZone is not UTC")).hint("Send SET TimeZone = 'UTC' first."))
    }

    /// A call of the catalogue, its arguments cast as PostgreSQL would.
    fn call(&self, name: &str, arguments: Vec<Expr>) -> Result<Expr, Refusal> {
        let arguments = arguments.into_iter().map(|a| if is_unknown(&a.data_type) { coerce(a, &Type::Text) } else { Ok(a) });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let types: Vec<Type> = arguments.iter().map(|a| a.data_type.clone()).collect();
        let Some(entry) = overload(name, &types) else {
            let types = types.iter().map(type_name).collect::<Vec<_>>().join(", ");
            return Err(Refusal::unsupported(format!("{name}({types})")).hint("Only functions and operators of the catalogue touch private rows."));
        };
        if entry.arguments.contains(&Kind::Timestamptz) {
            self.require_utc(name)?;
        }
        let mut cast = Vec::with_capacity(arguments.len());
        for (argument, kind) in arguments.into_iter().zip(entry.arguments) {
            let integer = matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8) && integer_range(&argument.data_type).is_some();
            let numeric = matches!((kind, &argument.data_type), (Kind::Numeric, Type::Numeric(_)));
            cast.push(if integer || numeric { argument } else { coerce(argument, &kind.data_type())? });
        }
        check_constants(name, entry.arguments, &cast)?;
        Ok(Expr::call(entry.function, cast, entry.result.data_type()))
    }
}

/// Arguments that must be constants are, and lie where the function cannot fail.
fn check_constants(name: &str, kinds: &[Kind], arguments: &[Expr]) -> Result<(), Refusal> {
    for (kind, argument) in kinds.iter().zip(arguments) {
        if kind.is_constant() && argument.as_literal().is_none() {
            return Err(Refusal::unsupported(format!("{name}() with an argument that is not a constant")));
        }
        if let (Kind::ConstantInt, Some(Scalar::Int(value))) = (kind, argument.as_literal())
            && !(-1000..=100_000).contains(value)
        {
            return Err(Refusal::unsupported(format!("{name}() with a constant outside -1000 to 100000")));
        }
    }
    let constant = |at: usize| arguments.get(at).and_then(Expr::as_literal);
    match name {
        "date_trunc" | "date_part" => match constant(0) {
            Some(Scalar::Text(field)) => date_field(field).map(|_| ()),
            _ => Err(Refusal::unsupported(format!("{name}() without a field"))),
        },
        "substring" | "substr" => match constant(2) {
            Some(Scalar::Int(length)) if *length < 0 => Err(Refusal::new("22011", "negative substring length not allowed")),
            _ => Ok(()),
        },
        "width_bucket" => match (constant(1), constant(2), constant(3)) {
            (Some(Scalar::Decimal(lower)), Some(Scalar::Decimal(upper)), Some(Scalar::Int(count))) => {
                let (lower, upper) = (lower.parse::<f64>().unwrap_or(f64::NAN), upper.parse::<f64>().unwrap_or(f64::NAN));
                if lower < upper && upper - lower > 1e-9 && (1..=100_000).contains(count) && lower.abs().max(upper.abs()) < 1e30 {
                    return Ok(());
                }
                Err(Refusal::unsupported("width_bucket() with these limits")
                    .hint("Give a lower constant, a higher constant and a count from 1 to 100000."))
            }
            _ => Err(Refusal::unsupported("width_bucket() with limits that are not constants")),
        },
        _ => Ok(()),
    }
}

/// Fields of EXTRACT, date_part and date_trunc, in lower case.
fn date_field(field: &str) -> Result<String, Refusal> {
    let field = field.to_ascii_lowercase();
    let field = field.trim_matches('\'').trim_end_matches('s');
    let field = match field {
        "mon" => "month",
        "dayofweek" => "dow",
        "dayofyear" => "doy",
        known => known,
    };
    const FIELDS: [&str; 12] = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "dow", "doy", "isodow", "isoyear"];
    if FIELDS.contains(&field) { Ok(field.to_owned()) } else { Err(Refusal::unsupported(format!("the date field {field}"))) }
}

fn check_pattern(pattern: &str) -> Result<(), Refusal> {
    let trailing = pattern.chars().rev().take_while(|c| *c == '\\').count();
    if trailing % 2 == 1 {
        return Err(Refusal::new("22025", "LIKE pattern must not end with escape character"));
    }
    if pattern.len() > PATTERN_BYTES_MAX || pattern.matches('%').count() > PATTERN_WILDCARDS_MAX {
        let limit = format!("a LIKE pattern of more than {PATTERN_BYTES_MAX} bytes or {PATTERN_WILDCARDS_MAX} % signs");
        return Err(Refusal::unsupported(limit));
    }
    Ok(())
}

fn negate_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::call(Function::Not, vec![expr], Type::Bool) } else { expr }
}

fn coerce_text(expr: Expr) -> Result<Expr, Refusal> {
    match expr.data_type {
        Type::Text => Ok(expr),
        Type::Varchar(_) => Ok(expr.cast(Type::Text)),
        _ => Err(Refusal::unsupported(format!("pattern matching on type {}", type_name(&expr.data_type)))),
    }
}

/// A comparison, its operands brought to one type.
pub fn compare(function: Function, left: Expr, right: Expr, symbol: &str) -> Result<Expr, Refusal> {
    let operands = unify(vec![left, right], symbol)?;
    Ok(Expr::call(function, operands, Type::Bool))
}

fn merge(function: Function, arguments: Vec<Expr>, name: &str) -> Result<Expr, Refusal> {
    let arguments = unify(arguments, name)?;
    let data_type =
        arguments.first().map(|a| a.data_type.clone()).ok_or_else(|| Refusal::new(sqlstate::SYNTAX_ERROR, format!("{name} needs arguments")))?;
    Ok(Expr::call(function, arguments, data_type))
}

/// Brings all to their common type. Integers of unlike width are cast too: widening cannot fail.
fn unify(exprs: Vec<Expr>, place: &str) -> Result<Vec<Expr>, Refusal> {
    let mut common = unknown();
    for expr in &exprs {
        common = common_type(&common, &expr.data_type).ok_or_else(|| {
            let (a, b) = (type_name(&common), type_name(&expr.data_type));
            Refusal::unsupported(format!("{place} between {a} and {b}")).hint("Cast one side so that both have the same type.")
        })?;
    }
    if is_unknown(&common) {
        common = Type::Text;
    }
    exprs.into_iter().map(|e| coerce(e, &common)).collect()
}

fn cast(expr: Expr, to: &Type) -> Result<Expr, Refusal> {
    use Type::{Bool, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Text, Timestamp, Uuid, Varchar};
    if is_unknown(&expr.data_type) {
        return coerce(expr, to);
    }
    let allowed = match (&expr.data_type, to) {
        (from, to) if from == to => true,
        (Int2 | Int4 | Int8 | Numeric(_) | Float4 | Float8, Int2 | Int4 | Int8 | Numeric(_) | Float8) => true,
        (Int4, Bool) | (Bool, Int4) | (Date, Timestamp) | (Timestamp, Date) => true,
        (Bool | Int2 | Int4 | Int8 | Numeric(_) | Text | Varchar(_) | Uuid | Date | Timestamp, Text | Varchar(None)) => true,
        _ => false,
    };
    if !allowed {
        return Err(Refusal::unsupported(format!("a cast from {} to {}", type_name(&expr.data_type), type_name(to))));
    }
    coerce(expr, to)
}

fn literal(value: &ast::Value) -> Result<Expr, Refusal> {
    match value {
        ast::Value::Number(text, false) => number(text),
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
            Ok(Expr::literal(Some(Scalar::Text(text.clone())), unknown()))
        }
        ast::Value::DollarQuotedString(ast::DollarQuotedString { value, tag: _ }) => Ok(Expr::literal(Some(Scalar::Text(value.clone())), unknown())),
        ast::Value::Boolean(value) => Ok(Expr::literal(Some(Scalar::Bool(*value)), Type::Bool)),
        ast::Value::Null => Ok(Expr::literal(None, unknown())),
        ast::Value::Placeholder(name) => Err(Refusal::new("42P02", format!("there is no parameter {name}"))),
        other => Err(Refusal::unsupported(format!("the literal {other}"))),
    }
}

/// The arguments of a plain call: no DISTINCT, no names, no clauses.
pub fn plain_arguments<'e>(arguments: &'e ast::FunctionArguments, name: &str) -> Result<Vec<&'e ast::Expr>, Refusal> {
    let ast::FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment: None, args, clauses }) = arguments else {
        return Err(Refusal::unsupported(format!("this form of {name}()")));
    };
    if !clauses.is_empty() {
        return Err(Refusal::unsupported(format!("this form of {name}()")));
    }
    args.iter()
        .map(|argument| match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
            _ => Err(Refusal::unsupported(format!("this form of {name}()"))),
        })
        .collect()
}

/// A type as written in a cast.
pub fn type_of(data_type: &ast::DataType) -> Result<Type, Refusal> {
    use ast::{DataType as D, ExactNumberInfo as N, TimezoneInfo as Z};
    let numeric = |info: &N| match info {
        N::None => Some(Type::Numeric(None)),
        N::Precision(p) => u16::try_from(*p).ok().filter(|p| (1..=1000).contains(p)).map(|p| Type::Numeric(Some((p, 0)))),
        N::PrecisionAndScale(p, s) => match (u16::try_from(*p), i16::try_from(*s)) {
            (Ok(p), Ok(s)) if (1..=1000).contains(&p) && s >= 0 && s <= p as i16 => Some(Type::Numeric(Some((p, s)))),
            _ => None,
        },
    };
    let known = match data_type {
        D::Bool | D::Boolean => Some(Type::Bool),
        D::SmallInt(None) | D::Int2(None) => Some(Type::Int2),
        D::Int(None) | D::Integer(None) | D::Int4(None) => Some(Type::Int4),
        D::BigInt(None) | D::Int8(None) => Some(Type::Int8),
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => numeric(info),
        D::Real | D::Float4 => Some(Type::Float4),
        D::DoublePrecision | D::Float8 | D::Float(N::None) => Some(Type::Float8),
        D::Text => Some(Type::Text),
        D::Varchar(None) | D::CharacterVarying(None) | D::CharVarying(None) => Some(Type::Varchar(None)),
        D::Date => Some(Type::Date),
        D::Timestamp(None, Z::None | Z::WithoutTimeZone) => Some(Type::Timestamp),
        D::Timestamp(None, Z::WithTimeZone | Z::Tz) => Some(Type::Timestamptz),
        D::Uuid => Some(Type::Uuid),
        _ => None,
    };
    known.ok_or_else(|| Refusal::unsupported(format!("the type {data_type}")))
}

/// What to call a construct in a refusal. Names only, never text of the client.
pub fn construct(expr: &ast::Expr) -> &'static str {
    use ast::Expr as E;
    match expr {
        E::SimilarTo { .. } => "SIMILAR TO",
        E::RLike { .. } => "RLIKE",
        E::AnyOp { .. } => "ANY",
        E::AllOp { .. } => "ALL",
        E::AtTimeZone { .. } => "AT TIME ZONE",
        E::Overlay { .. } => "OVERLAY",
        E::Collate { .. } => "COLLATE",
        E::Interval(_) => "an interval",
        E::Array(_) => "an array",
        E::Tuple(_) => "a row value",
        E::GroupingSets(_) | E::Cube(_) | E::Rollup(_) => "GROUPING SETS",
        E::JsonAccess { .. } => "a JSON path",
        E::CompoundFieldAccess { .. } => "a field or subscript",
        E::Cast { .. } => "this form of cast",
        E::Trim { .. } => "this form of TRIM",
        E::Substring { .. } => "this form of SUBSTRING",
        E::Wildcard(_) | E::QualifiedWildcard(..) => "a whole row",
        _ => "this expression",
    }
}

/// The identifier's name, where the expression is a bare one.
pub fn bare_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(ident) => name_of(ident).ok(),
        _ => None,
    }
}
