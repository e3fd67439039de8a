//! The catalogue: every function and operator that may touch a private row, its types, and the rule that makes it total. What is not here is refused by name.

use crate::catalog::Type;

/// Functions and operators of the row level. Those with a grammar of their own (AND, CASE, IN, …) are resolved by the grammar; the rest by [`ENTRIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    // By grammar: total for every input.
    And,
    Or,
    Not,
    IsNull,
    IsNotNull,
    IsTrue,
    IsNotTrue,
    IsFalse,
    IsNotFalse,
    IsDistinctFrom,
    IsNotDistinctFrom,
    /// First argument against the rest, all of one type.
    In,
    /// First argument against all values of the second, which is a constant of a middle query.
    Among,
    Coalesce,
    NullIf,
    Greatest,
    Least,
    /// (text, constant pattern).
    Like,
    ILike,
    /// (constant field, date or timestamp) → numeric.
    Extract,
    // Comparisons: total between values of one kind.
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    // Arithmetic.
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Negate,
    Abs,
    Sign,
    Floor,
    Ceiling,
    Round,
    RoundTo,
    Truncate,
    TruncateTo,
    SquareRoot,
    NaturalLog,
    Log10,
    WidthBucket,
    // Strings.
    Lower,
    Upper,
    Length,
    Trim,
    TrimLeft,
    TrimRight,
    Left,
    Right,
    Substring,
    SubstringFor,
    Position,
    // Dates.
    DateTrunc,
    DatePart,
    DateDifference,
    DatePlusDays,
    DateMinusDays,
}

/// How a call is made unable to raise an error, whatever its row holds. `rewrite::expression` carries each rule out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Cannot fail for any value of its types.
    Total,
    /// Computed wide and clamped where the operands' proved ranges allow an overflow; float operands are flushed against underflow.
    Arithmetic,
    /// NULL where the divisor is 0, unless the divisor is a non-zero constant; else as `Arithmetic`.
    Division,
    /// NULL outside the domain: the argument must be > 0 (or ≥ 0 for the square root).
    Domain,
    /// Text operand cut to a length first; integer arguments are constants within bounds.
    Bounded,
    /// Dates are clamped to years 0001 to 9999 at the scan and again in the result.
    Calendar,
    /// Operand clamped by its scan, so no NaN reaches it; limits and count are constants checked before.
    Histogram,
}

/// Type of an argument or a result in [`ENTRIES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float8,
    Text,
    Date,
    Timestamp,
    Timestamptz,
    /// An integer that must be a constant.
    ConstantInt,
    /// A text that must be a constant.
    ConstantText,
}

/// One overload.
#[derive(Debug)]
pub struct Entry {
    pub name: &'static str,
    pub function: Function,
    pub arguments: &'static [Kind],
    pub result: Kind,
    pub rule: Rule,
}

const fn entry(name: &'static str, function: Function, arguments: &'static [Kind], result: Kind, rule: Rule) -> Entry {
    Entry { name, function, arguments, result, rule }
}

use Function as F;
use Kind::{ConstantInt, ConstantText, Date, Float8, Int2, Int4, Int8, Numeric, Text, Timestamp, Timestamptz};
use Rule::{Arithmetic, Bounded, Calendar, Division, Domain, Histogram, Total};

/// Every overload, grouped by name. Operators stand under their symbol.
pub static ENTRIES: &[Entry] = &[
    entry("+", F::Add, &[Int2, Int2], Int2, Arithmetic),
    entry("+", F::Add, &[Int4, Int4], Int4, Arithmetic),
    entry("+", F::Add, &[Int8, Int8], Int8, Arithmetic),
    entry("+", F::Add, &[Numeric, Numeric], Numeric, Arithmetic),
    entry("+", F::Add, &[Float8, Float8], Float8, Arithmetic),
    entry("+", F::DatePlusDays, &[Date, Int4], Date, Calendar),
    entry("-", F::Subtract, &[Int2, Int2], Int2, Arithmetic),
    entry("-", F::Subtract, &[Int4, Int4], Int4, Arithmetic),
    entry("-", F::Subtract, &[Int8, Int8], Int8, Arithmetic),
    entry("-", F::Subtract, &[Numeric, Numeric], Numeric, Arithmetic),
    entry("-", F::Subtract, &[Float8, Float8], Float8, Arithmetic),
    entry("-", F::DateDifference, &[Date, Date], Int4, Calendar),
    entry("-", F::DateMinusDays, &[Date, Int4], Date, Calendar),
    entry("-", F::Negate, &[Int2], Int2, Arithmetic),
    entry("-", F::Negate, &[Int4], Int4, Arithmetic),
    entry("-", F::Negate, &[Int8], Int8, Arithmetic),
    entry("-", F::Negate, &[Numeric], Numeric, Arithmetic),
    entry("-", F::Negate, &[Float8], Float8, Arithmetic),
    entry("*", F::Multiply, &[Int2, Int2], Int2, Arithmetic),
    entry("*", F::Multiply, &[Int4, Int4], Int4, Arithmetic),
    entry("*", F::Multiply, &[Int8, Int8], Int8, Arithmetic),
    entry("*", F::Multiply, &[Numeric, Numeric], Numeric, Arithmetic),
    entry("*", F::Multiply, &[Float8, Float8], Float8, Arithmetic),
    entry("/", F::Divide, &[Int2, Int2], Int2, Division),
    entry("/", F::Divide, &[Int4, Int4], Int4, Division),
    entry("/", F::Divide, &[Int8, Int8], Int8, Division),
    entry("/", F::Divide, &[Numeric, Numeric], Numeric, Division),
    entry("/", F::Divide, &[Float8, Float8], Float8, Division),
    entry("%", F::Modulo, &[Int2, Int2], Int2, Division),
    entry("%", F::Modulo, &[Int4, Int4], Int4, Division),
    entry("%", F::Modulo, &[Int8, Int8], Int8, Division),
    entry("%", F::Modulo, &[Numeric, Numeric], Numeric, Division),
    entry("mod", F::Modulo, &[Int2, Int2], Int2, Division),
    entry("mod", F::Modulo, &[Int4, Int4], Int4, Division),
    entry("mod", F::Modulo, &[Int8, Int8], Int8, Division),
    entry("mod", F::Modulo, &[Numeric, Numeric], Numeric, Division),
    entry("abs", F::Abs, &[Int2], Int2, Arithmetic),
    entry("abs", F::Abs, &[Int4], Int4, Arithmetic),
    entry("abs", F::Abs, &[Int8], Int8, Arithmetic),
    entry("abs", F::Abs, &[Numeric], Numeric, Arithmetic),
    entry("abs", F::Abs, &[Float8], Float8, Arithmetic),
    entry("sign", F::Sign, &[Numeric], Numeric, Total),
    entry("sign", F::Sign, &[Float8], Float8, Total),
    entry("floor", F::Floor, &[Numeric], Numeric, Total),
    entry("floor", F::Floor, &[Float8], Float8, Total),
    entry("ceil", F::Ceiling, &[Numeric], Numeric, Total),
    entry("ceil", F::Ceiling, &[Float8], Float8, Total),
    entry("ceiling", F::Ceiling, &[Numeric], Numeric, Total),
    entry("ceiling", F::Ceiling, &[Float8], Float8, Total),
    entry("round", F::Round, &[Numeric], Numeric, Total),
    entry("round", F::Round, &[Float8], Float8, Total),
    entry("round", F::RoundTo, &[Numeric, ConstantInt], Numeric, Total),
    entry("trunc", F::Truncate, &[Numeric], Numeric, Total),
    entry("trunc", F::Truncate, &[Float8], Float8, Total),
    entry("trunc", F::TruncateTo, &[Numeric, ConstantInt], Numeric, Total),
    entry("sqrt", F::SquareRoot, &[Numeric], Numeric, Domain),
    entry("sqrt", F::SquareRoot, &[Float8], Float8, Domain),
    entry("ln", F::NaturalLog, &[Numeric], Numeric, Domain),
    entry("ln", F::NaturalLog, &[Float8], Float8, Domain),
    entry("log", F::Log10, &[Numeric], Numeric, Domain),
    entry("log", F::Log10, &[Float8], Float8, Domain),
    entry("log10", F::Log10, &[Numeric], Numeric, Domain),
    entry("log10", F::Log10, &[Float8], Float8, Domain),
    entry("width_bucket", F::WidthBucket, &[Numeric, Numeric, Numeric, ConstantInt], Int4, Histogram),
    entry("width_bucket", F::WidthBucket, &[Float8, Float8, Float8, ConstantInt], Int4, Histogram),
    entry("lower", F::Lower, &[Text], Text, Bounded),
    entry("upper", F::Upper, &[Text], Text, Bounded),
    entry("length", F::Length, &[Text], Int4, Bounded),
    entry("char_length", F::Length, &[Text], Int4, Bounded),
    entry("character_length", F::Length, &[Text], Int4, Bounded),
    entry("btrim", F::Trim, &[Text], Text, Bounded),
    entry("ltrim", F::TrimLeft, &[Text], Text, Bounded),
    entry("rtrim", F::TrimRight, &[Text], Text, Bounded),
    entry("left", F::Left, &[Text, ConstantInt], Text, Bounded),
    entry("right", F::Right, &[Text, ConstantInt], Text, Bounded),
    entry("substr", F::Substring, &[Text, ConstantInt], Text, Bounded),
    entry("substr", F::SubstringFor, &[Text, ConstantInt, ConstantInt], Text, Bounded),
    entry("substring", F::Substring, &[Text, ConstantInt], Text, Bounded),
    entry("substring", F::SubstringFor, &[Text, ConstantInt, ConstantInt], Text, Bounded),
    entry("strpos", F::Position, &[Text, ConstantText], Int4, Bounded),
    entry("date_trunc", F::DateTrunc, &[ConstantText, Timestamp], Timestamp, Calendar),
    entry("date_trunc", F::DateTrunc, &[ConstantText, Timestamptz], Timestamptz, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Date], Float8, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Timestamp], Float8, Calendar),
];

impl Kind {
    pub fn data_type(self) -> Type {
        match self {
            Int2 => Type::Int2,
            Int4 | ConstantInt => Type::Int4,
            Int8 => Type::Int8,
            Numeric => Type::Numeric(None),
            Float8 => Type::Float8,
            Text | ConstantText => Type::Text,
            Date => Type::Date,
            Timestamp => Type::Timestamp,
            Timestamptz => Type::Timestamptz,
        }
    }

    /// An argument of this kind must be a constant.
    pub fn is_constant(self) -> bool {
        match self {
            ConstantInt | ConstantText => true,
            Int2 | Int4 | Int8 | Numeric | Float8 | Text | Date | Timestamp | Timestamptz => false,
        }
    }

    /// How PostgreSQL would take a value of `from` here: exactly, by an implicit cast, or not at all.
    fn accepts(self, from: &Type) -> Option<Match> {
        let exact = self.data_type() == *from || matches!((self, from), (Numeric, Type::Numeric(_)));
        let widens = matches!(
            (self, from),
            (Int4 | ConstantInt, Type::Int2)
                | (Int8, Type::Int2 | Type::Int4)
                | (Numeric, Type::Int2 | Type::Int4 | Type::Int8)
                | (Float8, Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4)
        );
        let implicit = widens
            || matches!(
                (self, from),
                (Text | ConstantText, Type::Varchar(_)) | (Timestamp, Type::Date) | (Timestamptz, Type::Date | Type::Timestamp)
            );
        if exact { Some(Match::Exact) } else { implicit.then_some(Match::Implicit) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Exact,
    Implicit,
}

/// The overload PostgreSQL would choose for these argument types: most exact matches first, then the preferred type (float8; timestamptz) of its category.
pub fn overload(name: &str, types: &[Type]) -> Option<&'static Entry> {
    let mut best: Option<(&Entry, usize)> = None;
    for entry in ENTRIES.iter().filter(|e| e.name == name && e.arguments.len() == types.len()) {
        let matches: Option<Vec<Match>> = entry.arguments.iter().zip(types).map(|(kind, from)| kind.accepts(from)).collect();
        let Some(matches) = matches else { continue };
        let exact = matches.iter().filter(|m| **m == Match::Exact).count();
        // Later entries of a name carry the preferred types, so a tie goes to the later one, unless everything is an integer:
        // PostgreSQL has cross-type integer operators, whose result is the wider of the two.
        let better = match best {
            None => true,
            Some((chosen, chosen_exact)) => exact > chosen_exact || (exact == chosen_exact && prefer(entry, chosen, types)),
        };
        if better {
            best = Some((entry, exact));
        }
    }
    best.map(|(entry, _)| entry)
}

fn prefer(candidate: &Entry, chosen: &Entry, types: &[Type]) -> bool {
    let all_integers = types.iter().all(|t| matches!(t, Type::Int2 | Type::Int4 | Type::Int8));
    let is_operator = !candidate.name.starts_with(|c: char| c.is_ascii_alphabetic());
    if all_integers && (is_operator || candidate.function == F::Modulo || candidate.function == F::Abs) {
        return false;
    }
    let rank = |e: &Entry| e.arguments.iter().filter(|k| matches!(k, Float8 | Timestamptz)).count();
    rank(candidate) >= rank(chosen)
}

/// Whether a function of this name is in the catalogue at all, for the wording of a refusal.
pub fn is_known(name: &str) -> bool {
    ENTRIES.iter().any(|e| e.name == name)
}

/// The rule of a function that [`ENTRIES`] lists; functions by grammar are total.
pub fn rule(function: Function) -> Rule {
    ENTRIES.iter().find(|e| e.function == function).map_or(Total, |e| e.rule)
}

/// Functions that the outer query may use over released and public values: immutable or stable, without side effects, reading nothing but their arguments.
pub static OUTER: &[&str] = &[
    "abs",
    "acos",
    "age",
    "array_length",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "avg",
    "bool_and",
    "bool_or",
    "btrim",
    "cbrt",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "corr",
    "cos",
    "cot",
    "count",
    "covar_pop",
    "covar_samp",
    "cume_dist",
    "current_date",
    "date_part",
    "date_trunc",
    "degrees",
    "dense_rank",
    "div",
    "every",
    "exp",
    "first_value",
    "floor",
    "generate_series",
    "greatest",
    "initcap",
    "isfinite",
    "justify_days",
    "justify_hours",
    "justify_interval",
    "lag",
    "last_value",
    "lead",
    "least",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "make_interval",
    "max",
    "md5",
    "min",
    "mod",
    "mode",
    "now",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "pi",
    "position",
    "power",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "radians",
    "rank",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "row_number",
    "rpad",
    "rtrim",
    "sign",
    "sin",
    "split_part",
    "sqrt",
    "starts_with",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "strpos",
    "substr",
    "substring",
    "sum",
    "tan",
    "to_char",
    "to_date",
    "to_number",
    "to_timestamp",
    "translate",
    "trim",
    "trim_scale",
    "trunc",
    "upper",
    "var_pop",
    "var_samp",
    "variance",
    "version",
    "width_bucket",
    "array_agg",
    "unnest",
    "current_timestamp",
    "current_user",
    "session_user",
    "user",
    "current_database",
    "current_schema",
    "localtimestamp",
];

/// Aggregates of PostgreSQL that a release would have to answer; those without an entry in `aggregate.rs` are refused by name.
pub static AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "max",
    "min",
    "mode",
    "percentile_cont",
    "percentile_disc",
    "range_agg",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    "xmlagg",
    "any_value",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
];
