//! Names of tables, columns and parameters.

reasons! {
    UNKNOWN_TABLE = "unknown-table", UNDEFINED_TABLE, UnknownName,
        "The search path has no table, view or `WITH` query of this name. For an analyst, a table \
            that the policy does not name does not exist.",
        "Use a name that `\\dt` shows, with its schema if the schema is not in `search_path`.";
    UNKNOWN_COLUMN = "unknown-column", UNDEFINED_COLUMN, UnknownName,
        "No table of `FROM` has this column, or the policy hides it.",
        "Use a name that `\\d` shows for the table.";
    AMBIGUOUS_COLUMN = "ambiguous-column", AMBIGUOUS_COLUMN, Other,
        "More than one table of `FROM` has this column.",
        "Write the table too, as in `people.id`.";
    DUPLICATE_ALIAS = "duplicate-alias", DUPLICATE_ALIAS, Other,
        "Two items of `FROM` have one name.",
        "Give each its alias: `FROM people AS a JOIN people AS b ON a.id = b.id`.";
    DUPLICATE_COLUMN = "duplicate-column", DUPLICATE_COLUMN, Other,
        "A list names a column twice.",
        "Name it once.";
    INVALID_COLUMN_REFERENCE = "invalid-column-reference", INVALID_COLUMN_REFERENCE, Other,
        "A position or a list refers to a column that does not exist: `GROUP BY 3` with two \
            columns, more aliases than columns, or `DISTINCT ON` that differs from `ORDER BY`.",
        "Count the columns, or write the expressions out.";
    RESERVED_NAME = "reserved-name", RESERVED_NAME, Other,
        "Names that begin with `pgveil_` are pgveil's.",
        "Choose another name.";
    NAME_TOO_LONG = "name-too-long", NAME_TOO_LONG, Other,
        "A name has more than 63 bytes, and PostgreSQL would cut it.",
        "Choose a shorter name.";
    UNSUPPORTED_NAME = "unsupported-name", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil cannot resolve the name: it has more than three parts, names another database, \
            could also be a function call, or is that of two `WITH` queries.",
        "Write the column alone, or rename it with `AS` in a subquery. Give each `WITH` query its \
            name.";
    UNKNOWN_PARAMETER = "unknown-parameter", UNDEFINED_PARAMETER, Other,
        "The statement uses a parameter for which it has no value.",
        "Number the parameters from `$1`, and pass a value for each.";
    UNSUPPORTED_PARAMETER = "unsupported-parameter", FEATURE_NOT_SUPPORTED, Unsupported,
        "Values of this type cannot be passed as a parameter.",
        "Declare the parameter as text and cast it in the query, as in `$1::text`.";
}
