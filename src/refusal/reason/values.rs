//! Constants in the text, and values that PostgreSQL refuses too.

reasons! {
    CONSTANT_REQUIRED = "constant-required", FEATURE_NOT_SUPPORTED, Unsupported,
        "The argument decides how long a row takes, or what a result may be, so it must be the \
            same for every row.",
        "Write a constant, as in `data ->> 'city'` or `x = ANY (ARRAY[1, 2, 3])`.";
    CONSTANT_OUT_OF_LIMITS = "constant-out-of-limits", FEATURE_NOT_SUPPORTED, Unsupported,
        "With this constant one row could take long, or the result would have no useful range.",
        "Stay within the limits that the hint names.";
    CONSTANT_TOO_LONG = "constant-too-long", STATEMENT_TOO_COMPLEX, Other,
        "A list or a regular expression is longer than pgveil compares each row with.",
        "Shorten it, compare with a range, or join a public table that holds the values.";
    UNSUPPORTED_CONSTANT = "unsupported-constant", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not read this form of constant, or the session's settings change its meaning.",
        "Write numbers in digits, and intervals with their units, as in `interval '1.5 seconds'`.";
    INVALID_VALUE = "invalid-value", INVALID_TEXT_REPRESENTATION, Other,
        "The text is not a value of the type, as in PostgreSQL.",
        "Write a value of the type.";
    INVALID_DATE_OR_TIME = "invalid-date-or-time", INVALID_DATETIME_FORMAT, Other,
        "pgveil reads ISO dates and times only. Other forms depend on settings, and words such as \
            `today` on the day.",
        "Write `2024-12-31` or `2024-12-31 23:59:59`.";
    VALUE_OUT_OF_RANGE = "value-out-of-range", NUMERIC_VALUE_OUT_OF_RANGE, Other,
        "The number is out of the type's range, as in PostgreSQL.",
        "Use a wider type. The fraction of a percentile must be between 0 and 1.";
    INVALID_ARGUMENT = "invalid-argument", INVALID_PARAMETER_VALUE, Other,
        "PostgreSQL refuses this argument as well.",
        "Pass a value that PostgreSQL's manual allows for the function.";
    NEGATIVE_LENGTH = "negative-length", SUBSTRING_ERROR, Other,
        "`substring()` takes no negative length.",
        "Use a length of at least 0.";
    INVALID_ESCAPE = "invalid-escape", INVALID_ESCAPE_SEQUENCE, Other,
        "An escape of `LIKE` or `SIMILAR TO` has more than one character, or ends the pattern.",
        "Use one character, or none. Double it at the end of the pattern.";
    TIME_ZONE_NOT_UTC = "time-zone-not-utc", FEATURE_NOT_SUPPORTED, Unsupported,
        "The result would depend on the session's time zone.",
        "`SET TimeZone = 'UTC'` first, or write the zone, as in `'2024-01-01 00:00:00+00'`.";
    UNSUPPORTED_TIME_ZONE = "unsupported-time-zone", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not know that this zone has the same rules here and in the database.",
        "Use `UTC`, or a large city's zone, such as `Europe/Berlin`.";
    SESSION_FORMAT = "session-format", FEATURE_NOT_SUPPORTED, Unsupported,
        "The session's settings print values of this type in a form that loses information, or \
            that pgveil cannot compute.",
        "`RESET DateStyle`, `RESET IntervalStyle` and `RESET extra_float_digits`, or use \
            `to_char()`.";
}
