//! Overloads over dates, timestamps and intervals.

use super::Function as F;
use super::Kind::{Bool, ConstantInterval, ConstantText, Date, Float8, Int4, Interval, Numeric, Text, Timestamp, Timestamptz};
use super::Rule::{Bounded, Calendar, Domain, Total};
use super::{Entry, entry};

pub(super) static DATES: &[Entry] = &[
    entry("+", F::DatePlusDays, &[Date, Int4], Date, Calendar),
    entry("+", F::Later, &[Date, Interval], Timestamp, Calendar),
    entry("+", F::Later, &[Timestamp, Interval], Timestamp, Calendar),
    entry("+", F::Later, &[Timestamptz, Interval], Timestamptz, Calendar),
    entry("-", F::DateDifference, &[Date, Date], Int4, Calendar),
    entry("-", F::DateMinusDays, &[Date, Int4], Date, Calendar),
    entry("-", F::Earlier, &[Date, Interval], Timestamp, Calendar),
    entry("-", F::Earlier, &[Timestamp, Interval], Timestamp, Calendar),
    entry("-", F::Earlier, &[Timestamptz, Interval], Timestamptz, Calendar),
    entry("-", F::Elapsed, &[Timestamp, Timestamp], Interval, Calendar),
    entry("-", F::Elapsed, &[Timestamptz, Timestamptz], Interval, Calendar),
    entry("*", F::TimesInterval, &[Float8, ConstantInterval], Interval, Calendar),
    entry("age", F::Age, &[Timestamp, Timestamp], Interval, Calendar),
    entry("age", F::Age, &[Timestamptz, Timestamptz], Interval, Calendar),
    entry("overlaps", F::Overlaps, &[Timestamp, Timestamp, Timestamp, Timestamp], Bool, Total),
    entry("overlaps", F::Overlaps, &[Timestamptz, Timestamptz, Timestamptz, Timestamptz], Bool, Total),
    entry("timezone", F::AtZone, &[ConstantText, Timestamp], Timestamptz, Calendar),
    entry("timezone", F::AtZone, &[ConstantText, Timestamptz], Timestamp, Calendar),
    entry("date_trunc", F::DateTrunc, &[ConstantText, Timestamp], Timestamp, Calendar),
    entry("date_trunc", F::DateTrunc, &[ConstantText, Timestamptz], Timestamptz, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Date], Float8, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Interval], Float8, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Timestamp], Float8, Calendar),
    entry("date_part", F::DatePart, &[ConstantText, Timestamptz], Float8, Calendar),
    entry("extract", F::Extract, &[ConstantText, Date], Numeric, Calendar),
    entry("extract", F::Extract, &[ConstantText, Interval], Numeric, Calendar),
    entry("extract", F::Extract, &[ConstantText, Timestamp], Numeric, Calendar),
    entry("extract", F::Extract, &[ConstantText, Timestamptz], Numeric, Calendar),
    entry("make_date", F::MakeDate, &[Int4, Int4, Int4], Date, Domain),
    entry("to_timestamp", F::FromEpoch, &[Float8], Timestamptz, Calendar),
    entry("to_char", F::Formatted, &[Timestamp, ConstantText], Text, Bounded),
    entry("to_char", F::Formatted, &[Timestamptz, ConstantText], Text, Bounded),
];
