//! Functions, operators, casts and patterns.

reasons! {
    UNKNOWN_FUNCTION = "unknown-function", UNDEFINED_FUNCTION, Other,
        "PostgreSQL has no such function of arguments of these types.",
        "Check the name, and cast the arguments.";
    UNSUPPORTED_FUNCTION = "unsupported-function", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not know, for these types, that the function or operator gives a value for \
            every row and depends on its arguments only.",
        "Use one that [sql.md](sql.md#functions-and-operators-over-private-rows) lists, and cast \
            its arguments.";
    FUNCTION_FORM = "function-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "The function is supported, but not with these arguments or clauses.",
        "Use a form of the [list](sql.md#functions-and-operators-over-private-rows), such as \
            `make_interval(days => 10)`.";
    UNKNOWN_OPERATOR = "unknown-operator", UNDEFINED_FUNCTION, Other,
        "PostgreSQL has no such operator for these types. Adjacent operator characters are one \
            operator.",
        "Put a space between operators, and cast the operands.";
    UNSUPPORTED_OPERATOR = "unsupported-operator", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not know, for these types, that the operator gives a value for every row.",
        "Use one that [sql.md](sql.md#functions-and-operators-over-private-rows) lists.";
    UNSUPPORTED_EXPRESSION = "unsupported-expression", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer this form of expression over private rows, or not at this place.",
        "Rewrite it with what [sql.md](sql.md#functions-and-operators-over-private-rows) lists, \
            with `CASE WHEN`, or as `tags[1]` or `data ->> 'city'`.";
    UNSUPPORTED_TYPE = "unsupported-type", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil cannot compute with values of this type.",
        "Cast the column, for example to text or numeric.";
    UNSUPPORTED_CAST = "unsupported-cast", FEATURE_NOT_SUPPORTED, Unsupported,
        "The cast could fail on a row, or its result depends on the session.",
        "Cast to another type first, or compute the value from the original.";
    INCOMPARABLE_TYPES = "incomparable-types", FEATURE_NOT_SUPPORTED, Unsupported,
        "Two values that are compared or stand for one another have different types.",
        "Cast one side so that both have the same type.";
    TYPE_MISMATCH = "type-mismatch", DATATYPE_MISMATCH, Other,
        "PostgreSQL refuses the types as well: a condition that is not boolean, or `UNION` of \
            types that do not match.",
        "Compare or cast the value.";
    ROW_COMPARISON = "row-comparison", FEATURE_NOT_SUPPORTED, Unsupported,
        "A row value can be compared with another row value only, and both have 1 to 8 fields.",
        "Compare the columns one by one, joined by `AND`.";
    UNSUPPORTED_PATTERN = "unsupported-pattern", FEATURE_NOT_SUPPORTED, Unsupported,
        "The pattern could take long on some texts, or means something else in some setting.",
        "Use characters, `.`, bracket expressions, `\\d \\w \\s`, `^` and `$`, groups, `|`, and \
            the quantifiers `* + ? {m,n}`, with `~` or `LIKE`.";
    UNSUPPORTED_FORMAT = "unsupported-format", FEATURE_NOT_SUPPORTED, Unsupported,
        "The format has fields whose meaning depends on the session or on the value.",
        "Use fields such as `YYYY-MM` for dates and `FM999,990.00` for numbers; in `format()`, \
            plain `%s`.";
    UNSUPPORTED_DATE_FIELD = "unsupported-date-field", FEATURE_NOT_SUPPORTED, Unsupported,
        "`EXTRACT`, `date_part` or `date_trunc` has no such field for this type.",
        "Use `year`, `quarter`, `month`, `day`, `hour`, `minute` or `second`, where the type has \
            it.";
    BLANKS_UNKNOWN = "blanks-unknown", FEATURE_NOT_SUPPORTED, Unsupported,
        "A `bpchar` without a length has an unknown number of trailing blanks.",
        "Cast it to text, which removes them, or to `char(n)`.";
    INTERVAL_LENGTH_UNKNOWN = "interval-length-unknown", FEATURE_NOT_SUPPORTED, Unsupported,
        "An interval of unknown length could move a time out of PostgreSQL's range.",
        "Add a constant interval, or subtract two times. Compare a column of intervals, or use \
            `EXTRACT`.";
    UNEXPECTED_FORM = "unexpected-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil met a form that it should have refused or rewritten earlier. This is a defect.",
        "Report it, with the statement.";
}
