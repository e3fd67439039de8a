//! The cost of evaluating an expression once.

use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Node};
use crate::policy::Scalar;

/// Bytes of a constant that are copied in one step.
const BYTES_COPIED: usize = 500;

/// Steps that the node itself takes, without its parts. A step takes about fifty nanoseconds for
/// usual values, and a few times that for the longest texts that are evaluated.
pub fn weight(expr: &Expr) -> u64 {
    let of_node = match &expr.node {
        Node::Column(_)
        | Node::Constant(_)
        | Node::Cast(_)
        | Node::Case { .. }
        | Node::Exists { .. } => 1,
        Node::Literal(Some(Scalar::Text(text) | Scalar::Decimal(text))) => {
            1 + (text.len() / BYTES_COPIED) as u64
        }
        Node::Literal(_) => 1,
        Node::Call {
            function,
            arguments: _,
        } => of_call(*function),
    };
    match &expr.data_type {
        // Digits are read and written for each operation.
        Type::Numeric(_) | Type::Float4 | Type::Float8 => 5 * of_node,
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time => of_node,
        Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Enum(_)
        | Type::Other { .. } => of_node,
    }
}

/// Steps of one call. A function that is never evaluated counts one step.
fn of_call(function: Function) -> u64 {
    use Function as F;
    match function {
        F::And | F::Or | F::Not | F::IsNull | F::IsNotNull | F::IsTrue | F::IsNotTrue => 1,
        F::IsFalse | F::IsNotFalse => 1,
        F::IsDistinctFrom | F::IsNotDistinctFrom | F::In | F::Among | F::Coalesce => 1,
        F::NullIf | F::Greatest | F::Least => 1,
        F::CountNulls | F::CountNonNulls | F::Thresholds | F::WidthBucket => 1,
        F::Equal | F::NotEqual | F::Less | F::LessOrEqual | F::Greater => 1,
        F::GreaterOrEqual => 1,
        F::Add | F::Subtract | F::Multiply | F::Divide | F::Modulo | F::Quotient => 1,
        F::Negate | F::Abs | F::Sign => 1,
        F::Floor | F::Ceiling | F::Round | F::RoundTo | F::Truncate | F::TruncateTo => 1,
        F::TrimScale | F::Scale | F::MinScale => 1,
        F::BitAnd | F::BitOr | F::BitXor | F::BitNot | F::ShiftLeft | F::ShiftRight => 1,
        F::Gcd | F::Lcm | F::Factorial | F::ToHex => 1,
        F::SquareRoot | F::CubeRoot | F::NaturalLog | F::Log10 | F::LogBase => 1,
        F::Exponential | F::Power | F::Degrees | F::Radians => 1,
        F::Sine | F::Cosine | F::Tangent | F::Cotangent | F::ArcSine | F::ArcCosine => 1,
        F::ArcTangent | F::ArcTangent2 => 1,
        F::Sinh | F::Cosh | F::Tanh | F::ArcSinh | F::ArcCosh | F::ArcTanh => 1,
        F::SineOfDegrees | F::CosineOfDegrees | F::TangentOfDegrees => 1,
        F::CotangentOfDegrees => 1,
        F::ArcSineInDegrees | F::ArcCosineInDegrees | F::ArcTangentInDegrees => 1,
        F::ArcTangent2InDegrees => 1,
        F::JsonField | F::JsonText | F::JsonPath | F::JsonPathText | F::JsonHas => 1,
        F::JsonType | F::JsonLength => 1,
        F::AnyElement | F::Element | F::Cardinality | F::ArrayLength | F::ReportBit => 1,
        F::ILike | F::SimilarTo | F::Matches | F::MatchesInsensitive => 1,
        F::SubstringMatching | F::ReplaceMatching | F::SubstringWhole => 1,
        F::CountMatching | F::Overlay | F::OverlayFor | F::Translate | F::Md5 => 1,
        F::Character | F::BitLength => 1,
        F::Age | F::Overlaps | F::MakeTimestamp | F::MakeTime | F::AtTime => 1,
        F::TimeLater | F::TimeEarlier | F::TimeBetween | F::DateBin => 1,
        F::JustifyDays | F::JustifyHours | F::JustifyInterval | F::IsFinite => 1,
        F::OctetLength | F::Ascii => 1,
        F::Extract | F::DateTrunc | F::DatePart | F::DateDifference | F::DatePlusDays => 2,
        F::DateMinusDays | F::Later | F::Earlier | F::Elapsed => 2,
        F::TimesInterval | F::AtZone | F::MakeDate | F::AddIntervals => 2,
        F::SubtractIntervals | F::NegateInterval | F::FromEpoch => 2,
        F::Length | F::StartsWith => 2,
        F::Concat | F::ConcatSeparated | F::Concatenate | F::Lower | F::Upper => 5,
        F::Repeat => 5,
        F::Initcap | F::Left | F::Right | F::Substring | F::SubstringFor => 50,
        F::Position | F::PadLeft | F::PadRight | F::Reverse | F::Formatted => 50,
        F::Like | F::Trim | F::TrimLeft | F::TrimRight | F::SplitPart => 100,
        F::Replace => 200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_walks_a_text_weighs_more_than_what_compares_numbers() {
        let text =
            |length: usize| Expr::literal(Some(Scalar::Text("x".repeat(length))), Type::Text);
        let call = |function, data_type| weight(&Expr::call(function, vec![text(3); 2], data_type));
        assert_eq!((weight(&text(3)), weight(&text(1_000_000))), (1, 2001));
        assert_eq!(
            (
                call(Function::Less, Type::Bool),
                call(Function::Add, Type::Int4),
                call(Function::Add, Type::Numeric(None))
            ),
            (1, 1, 5)
        );
        assert!(
            call(Function::Like, Type::Bool) >= 100 && call(Function::PadLeft, Type::Text) >= 50
        );
    }
}
