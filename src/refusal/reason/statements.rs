//! Statements that pgveil does not run, and the options of COPY and EXPLAIN.

reasons! {
    READ_ONLY = "read-only", INSUFFICIENT_PRIVILEGE, Other,
        "The statement would change data, schema or rights. pgveil only reads.",
        "Connect to the database itself to change anything.";
    ROW_LOCKS = "row-locks", INSUFFICIENT_PRIVILEGE, Other,
        "`FOR UPDATE` and `FOR SHARE` lock rows. pgveil only reads.",
        "Leave the clause out.";
    UNSUPPORTED_STATEMENT = "unsupported-statement", FEATURE_NOT_SUPPORTED, Unsupported,
        "PostgreSQL has this statement, or this option of it, but pgveil does not.",
        "pgveil answers `SELECT`, and runs the statements of a session that \
            [sql.md](sql.md#sessions) lists.";
    EXPLAIN_ANALYZE = "explain-analyze", INSUFFICIENT_PRIVILEGE, Other,
        "`EXPLAIN ANALYZE` would run the query and show exact numbers of rows.",
        "Use `EXPLAIN`: it shows the plan, the noise and the cost, and is free.";
    EXPLAIN_OPTION = "explain-option", SYNTAX_ERROR, Syntax,
        "`EXPLAIN` has no such option.",
        "Use `EXPLAIN` or `EXPLAIN (FORMAT JSON)`.";
    COPY_OF_TABLE = "copy-of-table", INSUFFICIENT_PRIVILEGE, Other,
        "`COPY table TO` would show the rows of a table.",
        "Copy an answer: `COPY (SELECT city, count(*) FROM people GROUP BY city) TO STDOUT`.";
    COPY_NOT_TO_CLIENT = "copy-not-to-client", INSUFFICIENT_PRIVILEGE, Other,
        "`COPY` would write a file or start a program on the server.",
        "Use `COPY (query) TO STDOUT`, or `\\copy` in psql.";
    COPY_OPTION_SYNTAX = "copy-option-syntax", SYNTAX_ERROR, Syntax,
        "An option of `COPY` is unknown, given twice, or contradicts another.",
        "Use the options that PostgreSQL has for `COPY TO`, each once.";
    COPY_OPTION_VALUE = "copy-option-value", INVALID_PARAMETER_VALUE, Other,
        "An option of `COPY` has a value that PostgreSQL refuses as well.",
        "Choose a value that does not clash with the format and the other options.";
    COPY_OPTION_UNSUPPORTED = "copy-option-unsupported", FEATURE_NOT_SUPPORTED, Unsupported,
        "An option of `COPY` does not go with this format or direction, as in PostgreSQL.",
        "Leave it out, or choose `FORMAT csv`.";
}
