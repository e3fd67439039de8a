//! The functions, types and operators allowed above the cut. They read only their arguments, have
//! no side effects, and return the same value when run twice.

use crate::refusal::{Refusal, reason};
use crate::resolve::expression::known_type;
use crate::resolve::syntax::{names_of, unsupported_above};
use sqlparser::ast;

/// Functions allowed in expressions: immutable or stable, without side effects. They read no file,
/// setting, catalog or table by name, and they do not wait or lock.
const FUNCTIONS: &str = "
    abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd \
    cosh cot cotd degrees div exp floor gcd lcm ln log
    log10 min_scale mod pi pow power radians round scale sign sin sind sinh sqrt tan tand tanh \
    trim_scale trunc width_bucket
    ascii bit_count bit_length btrim char_length character_length chr concat concat_ws decode \
    encode format initcap left length lower lpad ltrim md5
    normalize octet_length overlay parse_ident position quote_ident quote_literal quote_nullable \
    regexp_count regexp_instr regexp_like regexp_match
    regexp_replace regexp_split_to_array regexp_substr repeat replace reverse right rpad rtrim \
    sha224 sha256 sha384 sha512 split_part starts_with
    string_to_array strpos substr substring to_hex translate trim upper get_bit get_byte
    age current_date current_time current_timestamp date date_bin date_part date_trunc extract \
    isfinite justify_days justify_hours justify_interval
    localtime localtimestamp make_date make_interval make_time make_timestamp make_timestamptz now \
    statement_timestamp timezone to_char to_date
    to_number to_timestamp transaction_timestamp
    coalesce greatest least nullif num_nonnulls num_nulls row
    array_append array_cat array_dims array_length array_lower array_ndims array_position \
    array_positions array_prepend array_remove array_replace
    array_to_json array_to_string array_upper cardinality trim_array
    json_array_length json_build_array json_build_object json_extract_path json_extract_path_text \
    json_object json_strip_nulls json_typeof
    jsonb_array_length jsonb_build_array jsonb_build_object jsonb_extract_path \
    jsonb_extract_path_text jsonb_insert jsonb_object jsonb_path_exists
    jsonb_path_match jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set \
    jsonb_strip_nulls jsonb_typeof row_to_json to_json to_jsonb
    daterange int4range int8range isempty lower_inc lower_inf numrange range_merge tsrange \
    tstzrange upper_inc upper_inf
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop \
    covar_samp \
    every grouping json_agg json_object_agg jsonb_agg
    jsonb_object_agg max min mode percentile_cont percentile_disc range_agg regr_avgx regr_avgy \
    regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy stddev stddev_pop stddev_samp string_agg sum var_pop var_samp variance
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank \
    row_number
    current_database current_catalog current_schema current_schemas current_user session_user user \
    version";

/// Set-returning functions, allowed in FROM and in a SELECT list.
const ROWS: &str = "
    generate_series generate_subscripts unnest regexp_matches regexp_split_to_table \
    string_to_table \
    json_array_elements json_array_elements_text json_each
    json_each_text json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each \
    jsonb_each_text jsonb_object_keys jsonb_path_query";

/// Types that the parser knows only by name. They look nothing up: no reg* types.
const TYPES: &str = "
    name bpchar inet cidr macaddr macaddr8 money jsonpath time timetz bit varbit tsvector tsquery \
    point box circle line lseg path polygon
    int4range int8range numrange tsrange tstzrange daterange
    int4multirange int8multirange nummultirange tsmultirange tstzmultirange datemultirange";

/// Types whose name is a keyword of the grammar. Their constants may depend on the session's
/// settings, and on nothing else.
const WORDS: &str = "date time timestamp timestamptz timetz interval numeric bytea json jsonb xml";

fn lists(words: &str, name: &str) -> bool {
    words.split_whitespace().any(|word| word == name)
}

/// The name of a built-in, written with or without its schema.
fn built_in(names: &[String]) -> Option<&str> {
    match names {
        [name] => Some(name),
        [schema, name] if schema == "pg_catalog" => Some(name),
        _ => None,
    }
}

/// Whether an expression may call the function.
pub fn is_function(names: &[String]) -> bool {
    built_in(names).is_some_and(|name| lists(FUNCTIONS, name) || lists(ROWS, name))
}

/// Whether a function of this name, or a cast to the type of this name, reads nothing but its
/// argument.
pub fn is_harmless(name: &str) -> bool {
    [FUNCTIONS, ROWS, TYPES, WORDS]
        .into_iter()
        .any(|words| lists(words, name))
}

/// Whether FROM may call the function.
pub fn gives_rows(names: &[String]) -> bool {
    built_in(names).is_some_and(|name| lists(ROWS, name))
}

/// Types that a cast above the cut may name.
///
/// # Errors
/// 0A000 for types that look something up (reg*) and for user-defined types.
pub fn check_type(data_type: &ast::DataType) -> Result<(), Refusal> {
    use ast::DataType as D;
    match data_type {
        D::Interval { .. }
        | D::Time(..)
        | D::JSON
        | D::JSONB
        | D::Bytea
        | D::TsVector
        | D::TsQuery
        | D::Bit(_)
        | D::BitVarying(_)
        | D::VarBit(_)
        | D::Char(_)
        | D::Character(_)
        | D::Varchar(_)
        | D::CharacterVarying(_)
        | D::Timestamp(..) => Ok(()),
        D::Array(ast::ArrayElemTypeDef::SquareBracket(inner, _)) => check_type(inner),
        D::Custom(name, modifiers)
            if modifiers.is_empty()
                && names_of(name).is_ok_and(|n| built_in(&n).is_some_and(|n| lists(TYPES, n))) =>
        {
            Ok(())
        }
        other => match known_type(other) {
            Some(_) => Ok(()),
            None => Err(unsupported_above(
                reason::UNSUPPORTED_CAST,
                "a cast to this type",
            )),
        },
    }
}

pub fn check_unary(op: ast::UnaryOperator) -> Result<(), Refusal> {
    use ast::UnaryOperator as U;
    match op {
        U::Minus
        | U::Plus
        | U::Not
        | U::BitwiseNot
        | U::PGSquareRoot
        | U::PGCubeRoot
        | U::PGAbs => Ok(()),
        _ => Err(unsupported_above(
            reason::UNSUPPORTED_OPERATOR,
            "this operator",
        )),
    }
}

pub fn check_binary(op: &ast::BinaryOperator) -> Result<(), Refusal> {
    use ast::BinaryOperator as B;
    match op {
        B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo | B::StringConcat | B::PGExp => {
            Ok(())
        }
        B::Gt | B::Lt | B::GtEq | B::LtEq | B::Eq | B::NotEq | B::And | B::Or => Ok(()),
        B::PGRegexMatch
        | B::PGRegexIMatch
        | B::PGRegexNotMatch
        | B::PGRegexNotIMatch
        | B::PGStartsWith => Ok(()),
        B::PGLikeMatch | B::PGILikeMatch | B::PGNotLikeMatch | B::PGNotILikeMatch => Ok(()),
        B::BitwiseAnd
        | B::BitwiseOr
        | B::PGBitwiseXor
        | B::PGBitwiseShiftLeft
        | B::PGBitwiseShiftRight => Ok(()),
        B::PGOverlap | B::AtArrow | B::ArrowAt | B::Overlaps => Ok(()),
        B::Arrow
        | B::LongArrow
        | B::HashArrow
        | B::HashLongArrow
        | B::HashMinus
        | B::Question
        | B::QuestionAnd
        | B::QuestionPipe => Ok(()),
        _ => Err(unsupported_above(
            reason::UNSUPPORTED_OPERATOR,
            "this operator",
        )),
    }
}

/// Allows the server's built-in collations, by name.
pub fn check_collation(name: &ast::ObjectName) -> Result<(), Refusal> {
    match built_in(&names_of(name)?) {
        Some(_) => Ok(()),
        None => Err(unsupported_above(
            reason::UNSUPPORTED_COLLATION,
            "a collation of this schema",
        )),
    }
}

/// Longest text that a padding function may build: the server holds one value in memory.
const PADDED_MAX: u32 = 10_000;

/// Functions whose result may be much longer than their arguments need a constant length.
pub fn check_growth(name: &str, arguments: &ast::FunctionArguments) -> Result<(), Refusal> {
    if !["repeat", "lpad", "rpad"].contains(&name) {
        return Ok(());
    }
    let length = match arguments {
        ast::FunctionArguments::List(list) => list.args.get(1),
        ast::FunctionArguments::None | ast::FunctionArguments::Subquery(_) => None,
    };
    match length {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(
            ast::ValueWithSpan {
                value: ast::Value::Number(text, _),
                span: _,
            },
        )))) if text.parse::<u32>().is_ok_and(|n| n <= PADDED_MAX) => Ok(()),
        _ => Err(unsupported_above(
            reason::CONSTANT_OUT_OF_LIMITS,
            &format!("{name}() with a length that is not a constant of at most {PADDED_MAX}"),
        )),
    }
}

/// A constant as it is written.
pub(super) fn constant(value: &ast::ValueWithSpan) -> Result<ast::Expr, Refusal> {
    use ast::Value as V;
    match &value.value {
        V::Number(_, false)
        | V::SingleQuotedString(_)
        | V::EscapedStringLiteral(_)
        | V::DollarQuotedString(_)
        | V::Boolean(_)
        | V::Null => Ok(ast::Expr::Value(value.clone())),
        V::Placeholder(name) => Err(Refusal::new(
            reason::UNKNOWN_PARAMETER,
            format!("there is no parameter {name}"),
        )),
        _ => Err(unsupported_above(
            reason::UNSUPPORTED_CONSTANT,
            "this kind of literal",
        )),
    }
}
