//! The table of functions: every function and operator that may touch a private row, its types, and
//! the rule that makes it total. A function that is not here is refused by name.

mod dates;
mod names;
mod numbers;
mod strings;

pub use names::AGGREGATES;

use super::unknown::is_unknown;
use crate::catalog::Type;

/// Functions and operators of the row level. Those with a special grammar (AND, CASE, IN, …)
/// are resolved by the grammar; the rest by [`entries`].
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
    SimilarTo,
    Matches,
    MatchesInsensitive,
    /// How many of the arguments are NULL, and are not.
    CountNulls,
    CountNonNulls,
    /// First argument among the others, constants of its type in ascending order: how many of them
    /// it reaches.
    Thresholds,
    /// Any number of texts, NULLs left out.
    Concat,
    /// Any number of texts, NULLs left out, with the first argument, a constant, between the
    /// others.
    ConcatSeparated,
    /// (jsonb, constant names or places).
    JsonField,
    JsonText,
    JsonPath,
    JsonPathText,
    JsonHas,
    JsonType,
    JsonLength,
    /// (value, array column).
    AnyElement,
    /// (array column, constant place).
    Element,
    Cardinality,
    ArrayLength,
    /// (column of bits, constant place, constant number of bits): whether the bit is set.
    ReportBit,
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
    /// `div`: the quotient of numerics, towards zero.
    Quotient,
    Negate,
    Abs,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    ShiftLeft,
    ShiftRight,
    Sign,
    Floor,
    Ceiling,
    Round,
    RoundTo,
    Truncate,
    TruncateTo,
    TrimScale,
    /// Digits after the point, with and without trailing zeros.
    Scale,
    MinScale,
    Gcd,
    Lcm,
    Factorial,
    ToHex,
    SquareRoot,
    CubeRoot,
    NaturalLog,
    Log10,
    /// (constant base, value).
    LogBase,
    Exponential,
    /// One of the two is a constant.
    Power,
    Sine,
    Cosine,
    Tangent,
    Cotangent,
    ArcSine,
    ArcCosine,
    ArcTangent,
    ArcTangent2,
    Sinh,
    Cosh,
    Tanh,
    ArcSinh,
    ArcCosh,
    ArcTanh,
    SineOfDegrees,
    CosineOfDegrees,
    TangentOfDegrees,
    CotangentOfDegrees,
    ArcSineInDegrees,
    ArcCosineInDegrees,
    ArcTangentInDegrees,
    ArcTangent2InDegrees,
    Degrees,
    Radians,
    WidthBucket,
    // Strings.
    Concatenate,
    Lower,
    Upper,
    Initcap,
    Length,
    OctetLength,
    BitLength,
    Trim,
    TrimLeft,
    TrimRight,
    Left,
    Right,
    Substring,
    SubstringFor,
    /// The part that a constant regular expression matches.
    SubstringMatching,
    ReplaceMatching,
    /// The part that a constant regular expression matches, whatever groups it has.
    SubstringWhole,
    /// How often a constant regular expression matches.
    CountMatching,
    Overlay,
    OverlayFor,
    Position,
    StartsWith,
    Replace,
    Translate,
    SplitPart,
    PadLeft,
    PadRight,
    Repeat,
    Reverse,
    Md5,
    Ascii,
    Character,
    /// `to_char` of a number, date or timestamp with a constant format.
    Formatted,
    // Dates.
    /// (constant field, date, timestamp or interval) → numeric.
    Extract,
    DateTrunc,
    DatePart,
    DateDifference,
    DatePlusDays,
    DateMinusDays,
    /// Date or timestamp and an interval.
    Later,
    Earlier,
    /// Timestamps' difference.
    Elapsed,
    /// Number times a constant interval.
    TimesInterval,
    Age,
    Overlaps,
    /// (constant zone, timestamp).
    AtZone,
    MakeDate,
    MakeTimestamp,
    MakeTime,
    /// Date and time of the day.
    AtTime,
    /// Time of the day and an interval, round the clock.
    TimeLater,
    TimeEarlier,
    /// Between two times of the day.
    TimeBetween,
    /// (constant step, timestamp, constant origin).
    DateBin,
    AddIntervals,
    SubtractIntervals,
    NegateInterval,
    JustifyDays,
    JustifyHours,
    JustifyInterval,
    IsFinite,
    /// Seconds since 1970 as a timestamptz.
    FromEpoch,
}

/// How a call is made unable to raise an error, whatever its row holds. `rewrite::expression`
/// carries each rule out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Cannot fail for any value of its types.
    Total,
    /// Computed wide and clamped where the operands' proved ranges allow an overflow; float
    /// operands are flushed against underflow.
    Arithmetic,
    /// NULL where the divisor is 0, unless the divisor is a non-zero constant; else as
    /// `Arithmetic`.
    Division,
    /// NULL outside the function's domain: of logarithms, roots, inverse sines, characters and
    /// dates made of numbers.
    Domain,
    /// Operand clamped to where the result stays within working range.
    Reach,
    /// Text operand cut to a length first; integer arguments are constants within bounds.
    Bounded,
    /// Dates are clamped to years 0001 to 9999 at the scan and again in the result.
    Calendar,
    /// Operand clamped by its scan, so no NaN reaches it; limits and count are constants checked
    /// before.
    Histogram,
}

/// Type of an argument or a result of an [`Overload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    Int2,
    Int4,
    Int8,
    Numeric,
    Float8,
    Text,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    Time,
    Bool,
    /// An integer that must be a constant.
    ConstantInt,
    /// A text that must be a constant.
    ConstantText,
    /// An interval that must be a constant.
    ConstantInterval,
}

/// One overload.
#[derive(Debug)]
pub struct Overload {
    pub name: &'static str,
    pub function: Function,
    pub arguments: &'static [ParameterType],
    pub result: ParameterType,
    pub rule: Rule,
}

const fn entry(
    name: &'static str,
    function: Function,
    arguments: &'static [ParameterType],
    result: ParameterType,
    rule: Rule,
) -> Overload {
    Overload {
        name,
        function,
        arguments,
        result,
        rule,
    }
}

use ParameterType::{
    Bool, ConstantInt, ConstantInterval, ConstantText, Date, Float8, Int2, Int4, Int8, Interval,
    Numeric, Text, Time, Timestamp, Timestamptz,
};
use Rule::Total;

/// Every overload, grouped by name; operators stand under their symbol. Among a name's entries,
/// those with the preferred type of a category come last.
pub fn entries() -> impl Iterator<Item = &'static Overload> {
    numbers::NUMBERS
        .iter()
        .chain(strings::STRINGS)
        .chain(dates::DATES)
}

impl ParameterType {
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
            Interval | ConstantInterval => Type::Interval,
            Time => Type::Time,
            Bool => Type::Bool,
        }
    }

    /// An argument of this kind must be a constant.
    pub fn is_constant(self) -> bool {
        match self {
            ConstantInt | ConstantText | ConstantInterval => true,
            Int2 | Int4 | Int8 | Numeric | Float8 | Text | Date | Timestamp | Timestamptz
            | Interval | Time | Bool => false,
        }
    }

    /// How PostgreSQL would take a value of `from` here: exactly, by an implicit cast, or not at
    /// all.
    fn accepts(self, from: &Type) -> Option<Match> {
        if is_unknown(from) {
            return Some(Match::Implicit);
        }
        let exact =
            self.data_type() == *from || matches!((self, from), (Numeric, Type::Numeric(_)));
        let widens = matches!(
            (self, from),
            (Int4 | ConstantInt, Type::Int2)
                | (Int8, Type::Int2 | Type::Int4)
                | (Numeric, Type::Int2 | Type::Int4 | Type::Int8)
                | (
                    Float8,
                    Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4
                )
        );
        let implicit = widens
            || matches!(
                (self, from),
                (Text | ConstantText, Type::Varchar(_) | Type::Char(_))
                    | (Timestamp, Type::Date)
                    | (Timestamptz, Type::Date | Type::Timestamp)
            );
        if exact {
            Some(Match::Exact)
        } else {
            implicit.then_some(Match::Implicit)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Exact,
    Implicit,
}

/// The overload PostgreSQL would choose for these argument types: most exact matches first, then
/// the preferred type (float8; timestamptz) of its category.
pub fn overload(name: &str, types: &[Type]) -> Option<&'static Overload> {
    let mut best: Option<(&Overload, usize)> = None;
    for entry in entries().filter(|e| e.name == name && e.arguments.len() == types.len()) {
        let matches: Option<Vec<Match>> = entry
            .arguments
            .iter()
            .zip(types)
            .map(|(kind, from)| kind.accepts(from))
            .collect();
        let Some(matches) = matches else { continue };
        let exact = matches.iter().filter(|m| **m == Match::Exact).count();
        // Later entries of a name carry the preferred types, so a tie goes to the later one, unless
        // everything is an integer: PostgreSQL has cross-type integer operators, whose result is
        // the wider of the two.
        let better = match best {
            None => true,
            Some((chosen, chosen_exact)) => {
                exact > chosen_exact || (exact == chosen_exact && prefer(entry, chosen, types))
            }
        };
        if better {
            best = Some((entry, exact));
        }
    }
    best.map(|(entry, _)| entry)
}

fn prefer(candidate: &Overload, chosen: &Overload, types: &[Type]) -> bool {
    let all_integers = types
        .iter()
        .all(|t| matches!(t, Type::Int2 | Type::Int4 | Type::Int8));
    if all_integers
        && chosen
            .arguments
            .iter()
            .all(|k| matches!(k, Int2 | Int4 | Int8))
    {
        return false;
    }
    let rank = |e: &Overload| {
        e.arguments
            .iter()
            .filter(|k| matches!(k, Float8 | Timestamptz))
            .count()
    };
    rank(candidate) >= rank(chosen)
}

/// Whether a function of this name is in the table at all, for the wording of a refusal.
pub fn is_known(name: &str) -> bool {
    entries().any(|e| e.name == name)
}

/// The rule of a function that [`entries`] lists; functions by grammar are total.
pub fn rule(function: Function) -> Rule {
    entries()
        .find(|e| e.function == function)
        .map_or(Total, |e| e.rule)
}
